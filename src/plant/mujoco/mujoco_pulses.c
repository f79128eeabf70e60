// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "mujoco_load.h"

#include <math.h>
#include <string.h>

// How strong the pulses of a machine that nobody here knows are: a quarter of the range, or a half
// or the whole where the loss would drown in the suggested noise.

static const double loss = .65; // of a command, as calibration weakens it
static const double good = 6;   // standard deviations between a healthy machine and that loss
enum { STRONGER = 2 };          // doublings at most

typedef struct trial {
    pf_plant *plant;
    const pf_plant_info *info;
    double *command, *idle, *output; // rows x n_mech, rows x n_chan
    double *energy; // n_mech x n_chan: squares of what a pulse moves, over its rows
    double *scale;  // n_chan: squares, the mean of a row of a pulse
    const double *start;
} trial;

// What a pulse of mechanism j moves; false: the machine fails under it.
static bool pulse(trial *t, int j, double amplitude)
{
    int rows = t->info->probe->rows, n_mech = t->info->n_mech, n_chan = t->info->n_chan;
    memset(t->command, 0, sizeof(double) * (size_t)rows * (size_t)n_mech);
    for (int r = 0; r < t->info->probe->steps; r++) {
        t->command[r * n_mech + j] = amplitude;
    }
    pf_error error = {PF_OK, ""};
    pf_roll roll = pf_roll_default();
    roll.start = t->start;
    roll.command = t->command;
    roll.rows = rows;
    if (pf_plant_roll(t->plant, &roll, &(pf_trace){.output = t->output}, &error) != PF_OK) {
        return false;
    }
    double *energy = t->energy + (size_t)j * (size_t)n_chan;
    memset(energy, 0, sizeof(double) * (size_t)n_chan);
    for (int i = 0; i < rows * n_chan; i++) {
        double moved = t->output[i] - t->idle[i];
        energy[i % n_chan] += moved * moved;
    }
    return true;
}

// Standard deviations of the suggested noise between the pulse of a healthy machine and a weak one.
static double apart(const trial *t, int j)
{
    double sum = 0;
    for (int c = 0; c < t->info->n_chan; c++) {
        double noise = t->info->sensor_noise * t->info->sensor_noise * t->scale[c];
        sum += noise > 0 ? t->energy[j * t->info->n_chan + c] / noise : 0;
    }
    return loss * sqrt(sum);
}

static void strengthen(trial *t, int j, double *amplitude)
{
    const pf_mechanism *m = &t->info->mechanisms[j];
    for (int i = 0; i < STRONGER && apart(t, j) < good; i++) {
        double more = 2 * *amplitude;
        if (more > m->hi || more < m->lo || !pulse(t, j, more)) {
            return;
        }
        *amplitude = more;
    }
}

static bool take_memory(trial *t, pf_arena *arena)
{
    size_t n_mech = (size_t)t->info->n_mech, n_chan = (size_t)t->info->n_chan;
    size_t rows = (size_t)t->info->probe->rows;
    t->command = pf__arena_take(arena, rows * n_mech, sizeof(double));
    t->idle = pf__arena_take(arena, rows * n_chan, sizeof(double));
    t->output = pf__arena_take(arena, rows * n_chan, sizeof(double));
    t->energy = pf__arena_take(arena, n_mech * n_chan, sizeof(double));
    t->scale = pf__arena_take(arena, n_chan, sizeof(double));
    return !arena->failed;
}

pf_status pf__mujoco_choose_pulses(pf_plant *plant, const double *rest, double *amplitude,
                                   pf_error *error)
{
    pf_arena arena = {0};
    trial t = {.plant = plant, .info = pf_plant_get_info(plant), .start = rest};
    int n_mech = t.info->n_mech, n_chan = t.info->n_chan, rows = t.info->probe->rows;
    if (!take_memory(&t, &arena)) {
        pf__arena_free(&arena);
        return pf_fail(error, PF_ERR_MEMORY, "%s: out of memory", t.info->name);
    }
    bool sound = pulse(&t, 0, 0);
    memcpy(t.idle, t.output, sizeof(double) * (size_t)rows * (size_t)n_chan);
    for (int j = 1; j < n_mech && sound; j++) {
        sound = isfinite(amplitude[j]) && pulse(&t, j, amplitude[j]);
    }
    for (int i = n_chan; i < n_mech * n_chan; i++) {
        t.scale[i % n_chan] += t.energy[i] / (rows * (n_mech - 1));
    }
    for (int j = 1; j < n_mech && sound; j++) {
        strengthen(&t, j, &amplitude[j]);
    }
    pf__arena_free(&arena);
    return PF_OK;
}
