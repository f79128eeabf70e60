// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate_impl.h"

#include <math.h>
#include <string.h>

// Starts over which responses and residuals are averaged.
enum { SCALE_STARTS = 40 };

// Random streams of their own, so that no draw is shared with the calibration episodes.
enum { STREAM_PULSE = 1000, STREAM_RESIDUAL = 1001 };

// A residual scale is never less than this share of the pulse scale.
static const double least_share = 1e-3;

// --- pulse scale

static pf_status response_energy(pf_calibration *c, int probe, int start, double *energy,
                                 double *noise, pf_error *error)
{
    const pf_plan *plan = c->plan;
    pf_worker *w = &c->workers[0];
    const pf_plan_probe *p = &plan->probes[probe];
    pf_roll roll = pf_roll_default();
    roll.key = pf_key_stream(plan->seed, plan->environment, (uint64_t)start, PF_PURPOSE_CALIBRATION,
                             STREAM_PULSE);
    roll.command = p->command;
    roll.rows = p->rows;
    pf_trace trace = {.output = w->response};
    pf_status status = pf_plant_roll(w->plant, &roll, &trace, error);
    if (status == PF_OK) {
        // the free response from the same start
        roll.command = w->still;
        trace.output = w->nominal;
        status = pf_plant_roll(w->plant, &roll, &trace, error);
    }
    if (status == PF_OK) {
        roll.command = p->command;
        roll.disturbance = true;
        roll.sensor_noise = 1;
        trace.output = w->predicted;
        status = pf_plant_roll(w->plant, &roll, &trace, error);
    }
    for (int i = 0; status == PF_OK && i < p->rows * plan->n_chan; i++) {
        double moved = w->response[i] - w->nominal[i], shaken = w->predicted[i] - w->response[i];
        energy[i % plan->n_chan] += moved * moved;
        noise[i % plan->n_chan] += shaken * shaken;
    }
    return status;
}

// Whether any probe moves one mechanism alone. Then those give the pulse scale, so that a library
// with group probes beside them has the same scale, noise and returns as the one without.
static bool has_single(const pf_plan *plan)
{
    for (int q = 0; q < plan->n_probes; q++) {
        if (plan->probes[q].n_targets == 1) {
            return true;
        }
    }
    return false;
}

// What the channels declare, and the rms pulse response where they declare nothing.
static pf_status pulse_scale(pf_calibration *c, double *scale, pf_error *error)
{
    const pf_plan *plan = c->plan;
    bool all_given = true;
    for (int i = 0; i < plan->n_chan; i++) {
        scale[i] = plan->channels[i].scale;
        all_given = all_given && plan->channels[i].scale > 0;
    }
    if (all_given) {
        return PF_OK;
    }
    double *energy = pf_arena_take(&c->arena, 2 * (size_t)plan->n_chan, sizeof *energy);
    if (!energy) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for the scales");
    }
    double *noise = energy + plan->n_chan, samples = 0;
    bool singles = has_single(plan);
    for (int q = 0; q < plan->n_probes; q++) {
        for (int s = 0; s < SCALE_STARTS && !(singles && plan->probes[q].n_targets > 1); s++) {
            pf_status status = response_energy(c, q, s, energy, noise, error);
            if (status != PF_OK) {
                return status;
            }
            samples += plan->probes[q].rows;
        }
    }
    // a channel that no probe moves is measured by its own noise and says nothing
    for (int i = 0; i < plan->n_chan; i++) {
        double rms = sqrt(energy[i] / samples);
        rms = rms > 0 ? rms : sqrt(noise[i] / samples);
        if (!(plan->channels[i].scale > 0)) {
            scale[i] = rms > 0 ? rms : 1;
        }
    }
    return PF_OK;
}

// --- residual scale

// Squares of what a healthy machine's response differs from the prediction by, added up per step.
static pf_status residual_energy(pf_calibration *c, int probe, int start, double *energy,
                                 pf_error *error)
{
    const pf_plan *plan = c->plan;
    const pf_kit *k = &c->build.kit;
    pf_worker *w = &c->workers[0];
    pf_rig rig = {.plant = w->plant,
                  .kit = k,
                  .start = w->start,
                  .response = w->response,
                  .sensed_start = plan->sensed_start};
    pf_key key = pf_key_stream(plan->seed, plan->environment, (uint64_t)start,
                               PF_PURPOSE_CALIBRATION, STREAM_RESIDUAL);
    pf_hypothesis nominal = {probe, 0, 1, NULL};
    pf_status status = pf_rig_run(&rig, probe, key, error);
    if (status == PF_OK) {
        status = w->predictor.predict(w->predictor.self, &nominal, w->start, k->n_state, w->nominal,
                                      error);
    }
    for (int i = 0; status == PF_OK && i < plan->probes[probe].rows * plan->n_chan; i++) {
        double off = w->response[i] - w->nominal[i];
        energy[i] += off * off;
    }
    return status;
}

static pf_status residual_scale(pf_calibration *c, pf_error *error)
{
    const pf_plan *plan = c->plan;
    const pf_kit *k = &c->build.kit;
    double *energy = c->build.scale; // in place: n_scale is the longest probe's rows
    for (int q = 0; q < plan->n_probes; q++) {
        for (int s = 0; s < SCALE_STARTS; s++) {
            pf_status status = residual_energy(c, q, s, energy, error);
            if (status != PF_OK) {
                return status;
            }
        }
    }
    for (int r = 0; r < k->n_scale; r++) {
        int samples = 0;
        for (int q = 0; q < plan->n_probes; q++) {
            samples += r < plan->probes[q].rows ? SCALE_STARTS : 0;
        }
        for (int i = 0; i < plan->n_chan; i++) {
            double *s = &energy[(size_t)r * (size_t)plan->n_chan + (size_t)i];
            *s = fmax(sqrt(*s / samples), least_share * c->build.return_scale[i]);
        }
    }
    return PF_OK;
}

bool pf__calibration_residual(const pf_calibration *c)
{
    return c->plan->scale == PF_SCALE_RESIDUAL || (c->plan->scale == PF_SCALE_AUTO && c->model);
}

pf_status pf__calibrate_scales(pf_calibration *c, pf_error *error)
{
    pf_status status = pulse_scale(c, c->build.return_scale, error);
    if (status != PF_OK || pf__calibration_residual(c)) {
        return status == PF_OK ? residual_scale(c, error) : status;
    }
    memcpy(c->build.scale, c->build.return_scale, sizeof(double) * (size_t)c->plan->n_chan);
    return PF_OK;
}
