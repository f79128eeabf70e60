// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "run_impl.h"
#include "model/rollout.h"
#include "plant/plant_impl.h"
#include "core/certificate.h"

#include "host/arena.h"
#include "core/joint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// A task's undisturbed nominal trajectory from the start at hand.
typedef struct reference {
    bool known;
    double *output; // rows x n_chan
    double energy;  // of output minus the free response: what the task moves
    double score;   // of a scored loop
} reference;

struct pf_flight {
    pf_plant *plant;
    const pf_kit *kit;
    pf_kit_info info; // of the kit
    reference *tasks;
    double *start, *initial; // state and channels where all tasks start
    double *zero, *sent;     // commands of the longest task
    double *flown;           // its outputs
    pf_arena arena;
};

// Rows of a task, be it a command or a closed loop.
static int task_rows(const pf_kit *kit, const pf_plant_info *info, int task)
{
    int policy = pf__plant_policy(info, pf_kit_task_policy(kit, task));
    return policy >= 0 ? info->policies[policy].rows : pf_kit_task_rows(kit, task);
}

pf_status pf_flight_create(pf_flight **flight, pf_plant *plant, const pf_kit *kit, pf_error *error)
{
    *flight = NULL;
    pf_kit_info k = pf_kit_get_info(kit);
    pf_status status = pf__same_size(&k, pf_plant_get_info(plant), false, error);
    if (status != PF_OK) {
        return status;
    }
    pf_flight *f = calloc(1, sizeof *f);
    if (!f) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a flight");
    }
    f->plant = plant;
    f->info = k;
    f->kit = kit;
    int most = 0;
    for (int t = 0; t < k.n_tasks; t++) {
        int rows = task_rows(kit, pf_plant_get_info(plant), t);
        most = rows > most ? rows : most;
    }
    size_t d = sizeof(double), rows = (size_t)most;
    size_t window = rows * (size_t)k.n_chan, commands = rows * (size_t)k.n_mech;
    f->tasks = pf__arena_take(&f->arena, (size_t)k.n_tasks, sizeof *f->tasks);
    double *outputs = pf__arena_take(&f->arena, (size_t)k.n_tasks * window, d);
    f->start = pf__arena_take(&f->arena, (size_t)pf_plant_get_info(plant)->n_state + 1, d);
    f->initial = pf__arena_take(&f->arena, (size_t)k.n_chan, d);
    f->zero = pf__arena_take(&f->arena, commands, d);
    f->sent = pf__arena_take(&f->arena, commands, d);
    f->flown = pf__arena_take(&f->arena, window, d);
    if (f->arena.failed) {
        pf_flight_destroy(f);
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a flight");
    }
    for (int t = 0; t < k.n_tasks; t++) {
        f->tasks[t].output = outputs + (size_t)t * window;
    }
    *flight = f;
    return PF_OK;
}

void pf_flight_destroy(pf_flight *f)
{
    if (f) {
        pf__arena_free(&f->arena);
        free(f);
    }
}

pf_status pf_flight_start(pf_flight *f, pf_key reset, pf_error *error)
{
    pf_roll roll = pf_roll_default();
    roll.key = reset;
    roll.command = f->zero;
    for (int t = 0; t < f->info.n_tasks; t++) {
        f->tasks[t].known = false;
    }
    pf_trace trace = {.start = f->start, .initial = f->initial};
    return pf_plant_roll(f->plant, &roll, &trace, error);
}

const double *pf__flight_state(const pf_flight *f)
{
    return f->start;
}

// The closed loop of a task that the plant scores or measures itself; -1: what it tracks counts.
static int scored_policy(const pf_flight *f, const pf_attempt *a)
{
    const pf_plant_info *info = pf_plant_get_info(f->plant);
    if (info->n_metrics > 0) {
        int own = a->variant * (info->n_mech - 1) + a->task;
        return own < info->n_policies ? own : -1;
    }
    int policy = pf__plant_policy(info, pf_kit_task_policy(f->kit, a->task));
    return policy >= 0 && info->policies[policy].norm > 0 ? policy : -1;
}

// --- commands and loops without a score: the return falls with the tracking error

static double distance(const pf_flight *f, int task, const double *a, const double *b)
{
    const pf_kit_info *k = &f->info;
    int rows = task_rows(f->kit, pf_plant_get_info(f->plant), task);
    return pf__tracking_distance(rows, k->n_chan, k->return_scale, a, b);
}

// The task as the kit has it, from the start of the flight.
static pf_roll task_roll(const pf_flight *f, int task)
{
    const pf_plant_info *info = pf_plant_get_info(f->plant);
    pf_roll roll = pf_roll_default();
    roll.start = f->start;
    roll.rows = task_rows(f->kit, info, task);
    roll.policy = pf__plant_policy(info, pf_kit_task_policy(f->kit, task));
    roll.command = roll.policy < 0 ? pf_kit_task_command(f->kit, task) : NULL;
    return roll;
}

static pf_status track_reference(pf_flight *f, int task, pf_error *error)
{
    reference *r = &f->tasks[task];
    pf_roll roll = task_roll(f, task), idle = roll;
    idle.policy = -1;
    idle.command = f->zero;
    if (r->known) {
        return PF_OK;
    }
    pf_status status = pf_plant_roll(f->plant, &idle, &(pf_trace){.output = f->flown}, error);
    if (status == PF_OK) {
        status = pf_plant_roll(f->plant, &roll, &(pf_trace){.output = r->output}, error);
    }
    if (status != PF_OK) {
        return status;
    }
    r->energy = distance(f, task, r->output, f->flown);
    r->known = r->energy > 0;
    return r->known ? PF_OK
                    : pf_fail(error, PF_ERR_DEGENERATE, "task '%s' moves no channel",
                              pf_kit_task_name(f->kit, task));
}

// What an output is worth.
static pf_flown tracked(const pf_flight *f, int task, const double *output)
{
    double nte = distance(f, task, output, f->tasks[task].output) / f->tasks[task].energy;
    return (pf_flown){.ret = pf__return(nte), .nte = nte, .regret = NAN};
}

static pf_status fly_tracked(pf_flight *f, const pf_attempt *a, pf_flown *flown, pf_error *error)
{
    const pf_kit_info *k = &f->info;
    pf_roll roll = task_roll(f, a->task);
    if (roll.rows == 0) {
        return pf_fail(error, PF_ERR_UNSUPPORTED, "task '%s': the plant has no policy '%s'",
                       pf_kit_task_name(f->kit, a->task), pf_kit_task_policy(f->kit, a->task));
    }
    pf_status status = track_reference(f, a->task, error);
    if (status != PF_OK) {
        return status;
    }
    bool corrected = roll.policy < 0 && a->corrections;
    for (int i = 0; i < roll.rows * k->n_mech && corrected; i++) {
        int j = i % k->n_mech;
        f->sent[i] = pf__corrected_command(roll.command[i], a->corrections[j], k->lo[j], k->hi[j]);
    }
    roll.key = a->key;
    roll.gains = a->gains;
    roll.faults = a->faults;
    roll.n_faults = a->n_faults;
    roll.command = corrected ? f->sent : roll.command;
    roll.correction = roll.policy >= 0 ? a->corrections : NULL;
    roll.disturbance = true;
    status = pf_plant_roll(f->plant, &roll, &(pf_trace){.output = f->flown}, error);
    if (status == PF_OK) {
        *flown = tracked(f, a->task, f->flown);
    }
    return status;
}

pf_status pf__flight_fly_many(pf_flight *f, int n, const pf_attempt *attempts, double *memory,
                              pf_flown *flown, pf_error *error)
{
    int task = attempts[0].task;
    pf_roll rolls[PF_ROLLS];
    pf_trace traces[PF_ROLLS];
    size_t window = (size_t)pf_kit_task_rows(f->kit, task) * (size_t)f->info.n_chan;
    pf_status status = track_reference(f, task, error);
    for (int i = 0; i < n; i++) {
        rolls[i] = task_roll(f, task);
        rolls[i].key = attempts[i].key;
        rolls[i].gains = attempts[i].gains;
        rolls[i].disturbance = true;
        traces[i] = (pf_trace){.output = memory + (size_t)i * window};
    }
    status = status ? status : pf__plant_roll_many(f->plant, n, rolls, traces, error);
    for (int i = 0; i < n && status == PF_OK; i++) {
        flown[i] = tracked(f, task, traces[i].output);
    }
    return status;
}

// --- closed loops: the plant scores or measures them itself

static pf_status fly_closed(pf_flight *f, const pf_attempt *a, int policy, pf_flown *flown,
                            pf_error *error)
{
    const pf_plant_info *info = pf_plant_get_info(f->plant);
    const pf_policy *loop = &info->policies[policy];
    reference *r = &f->tasks[a->task];
    double own[PF_METRICS_MAX], score = 0;
    pf_roll roll = pf_roll_default();
    roll.start = f->start;
    roll.policy = policy;
    roll.rows = loop->rows;
    pf_trace trace = {.score = &r->score};
    pf_status status = PF_OK;
    if (info->n_metrics == 0 && !r->known) {
        status = pf_plant_roll(f->plant, &roll, &trace, error);
        r->known = status == PF_OK;
    }
    if (status != PF_OK) {
        return status;
    }
    roll.key = a->key;
    roll.gains = a->gains;
    roll.faults = a->faults;
    roll.n_faults = a->n_faults;
    roll.correction = a->corrections;
    roll.disturbance = true;
    trace = info->n_metrics > 0 ? (pf_trace){.metrics = a->metrics ? a->metrics : own}
                                : (pf_trace){.score = &score};
    status = pf_plant_roll(f->plant, &roll, &trace, error);
    if (status == PF_OK && info->n_metrics > 0) {
        flown->ret = trace.metrics[0];
    } else if (status == PF_OK) {
        flown->regret = r->score - score;
        flown->nte = fmax(flown->regret, 0) / loop->norm;
        flown->ret = pf__return(flown->nte);
    }
    return status;
}

pf_status pf_flight_fly(pf_flight *f, const pf_attempt *attempt, pf_flown *flown, pf_error *error)
{
    int policy = scored_policy(f, attempt);
    *flown = (pf_flown){NAN, NAN, NAN};
    return policy < 0 ? fly_tracked(f, attempt, flown, error)
                      : fly_closed(f, attempt, policy, flown, error);
}

pf_status pf__flight_expect(pf_flight *f, int task, const pf_model *model, int member, int n,
                            const double *gains, int own, double *scratch, double *nte,
                            pf_error *error)
{
    const pf_kit_info *k = &f->info;
    pf_status status = track_reference(f, task, error);
    if (status == PF_OK && pf_model_get_info(model)->history > 1) {
        status = pf_fail(error, PF_ERR_UNSUPPORTED,
                         "a model that starts from several readings cannot follow a task from the "
                         "start of a flight; use one with history 1");
    }
    if (status != PF_OK) {
        return status;
    }
    int rows = pf_kit_task_rows(f->kit, task);
    size_t window = (size_t)(rows * k->n_chan);
    double *response = scratch + pf__model_scratch(model, n);
    pf_model_request request = {f->initial, pf_kit_task_command(f->kit, task), rows, n, gains,
                                NULL};
    status = pf__model_roll(model, member, &request, scratch, response, error);
    for (int i = 0; i < n && status == PF_OK; i++) {
        const double *to = own < 0 ? f->tasks[task].output : response + (size_t)own * window;
        nte[i] = distance(f, task, response + (size_t)i * window, to) / f->tasks[task].energy;
    }
    return status;
}
