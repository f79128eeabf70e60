// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "flight.h"

#include "host/arena.h"
#include "preflight/certificate.h"
#include "preflight/recovery.h"

pf_status pf_fly(pf_plant *plant, const pf_kit *k, int task, pf_key key, const double *gains,
                 const double *corrections, double *ret, pf_error *error)
{
    int rows = pf_kit_task_rows(k, task);
    if (rows == 0) {
        return pf_fail(error, PF_ERR_UNSUPPORTED, "task '%s' is a policy of the plant",
                       pf_kit_task_name(k, task));
    }
    size_t n_command = (size_t)rows * (size_t)k->n_mech, n = (size_t)rows * (size_t)k->n_chan;
    const double *command = k->task_command + (size_t)k->task_row[task] * (size_t)k->n_mech;
    pf_arena arena = {0};
    double *still = pf_arena_take(&arena, n_command, sizeof(double));
    double *sent = pf_arena_take(&arena, n_command, sizeof(double));
    double *free_response = pf_arena_take(&arena, n, sizeof(double));
    double *reference = pf_arena_take(&arena, n, sizeof(double));
    double *flown = pf_arena_take(&arena, n, sizeof(double));
    if (arena.failed) {
        pf_arena_free(&arena);
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a flight");
    }
    for (size_t i = 0; i < n_command; i++) {
        size_t j = i % (size_t)k->n_mech;
        sent[i] =
            pf_corrected_command(command[i], corrections ? corrections[j] : 1, k->lo[j], k->hi[j]);
    }
    pf_roll roll = pf_roll_default();
    roll.key = key;
    roll.rows = rows;
    roll.command = still;
    pf_status status = pf_plant_roll(plant, &roll, &(pf_trace){.output = free_response}, error);
    if (status == PF_OK) {
        roll.command = command;
        status = pf_plant_roll(plant, &roll, &(pf_trace){.output = reference}, error);
    }
    if (status == PF_OK) {
        roll.command = sent;
        roll.gains = gains;
        roll.disturbance = true;
        status = pf_plant_roll(plant, &roll, &(pf_trace){.output = flown}, error);
    }
    if (status == PF_OK) {
        *ret = pf_return(
            pf_tracking_distance(rows, k->n_chan, k->return_scale, flown, reference) /
            pf_tracking_distance(rows, k->n_chan, k->return_scale, reference, free_response));
    }
    pf_arena_free(&arena);
    return status;
}
