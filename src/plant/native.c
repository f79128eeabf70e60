// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "native.h"

#include <math.h>
#include <string.h>

// Streams of one trajectory. Disturbance and noise are drawn independently of commands and gains,
// in a fixed order, so passive trajectories of a dormant fault are equal to the bit.
enum { STREAM_RESET = 1, STREAM_WIND = 2, STREAM_NOISE = 3 };

// The stationary AR(1) law: w_0 = sd e, w_k = phi w_{k-1} + sd sqrt(1 - phi^2) e.
static void draw_wind(const pf_plant_class *c, pf_rng *rng, bool first, double *w)
{
    for (int i = 0; i < c->n_wind; i++) {
        double e = pf_rng_normal(rng), phi = c->wind_phi[i], sd = c->wind_sd[i];
        w[i] = first ? sd * e : phi * w[i] + sd * sqrt(1 - phi * phi) * e;
    }
}

static void runge_kutta(const pf_plant_class *c, const double *knob, double *x, const double *v,
                        const double *w, double h)
{
    int n = c->info.n_state;
    double k1[PF_NATIVE_STATE], k2[PF_NATIVE_STATE], k3[PF_NATIVE_STATE], k4[PF_NATIVE_STATE];
    double y[PF_NATIVE_STATE];
    c->derivative(knob, x, v, w, k1);
    for (int i = 0; i < n; i++) {
        y[i] = x[i] + .5 * h * k1[i];
    }
    c->derivative(knob, y, v, w, k2);
    for (int i = 0; i < n; i++) {
        y[i] = x[i] + .5 * h * k2[i];
    }
    c->derivative(knob, y, v, w, k3);
    for (int i = 0; i < n; i++) {
        y[i] = x[i] + h * k3[i];
    }
    c->derivative(knob, y, v, w, k4);
    for (int i = 0; i < n; i++) {
        x[i] += h / 6 * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]);
    }
}

static void deliver(const pf_plant_class *c, const double *knob, const double *x, const double *u,
                    const double *gains, double *v)
{
    if (c->deliver) {
        c->deliver(knob, x, u, gains, v);
    } else {
        pf_fault_deliver(c->info.n_mech, c->info.mechanisms, u, gains, v);
    }
}

void pf__native_step(const pf_plant_class *c, const double *knob, double *x, const double *u,
                     const double *gains, const double *w)
{
    double v[PF_NATIVE_MECH];
    int substeps = c->advance ? 1 : c->substeps;
    for (int s = 0; s < substeps; s++) {
        deliver(c, knob, x, u, gains, v);
        if (c->advance) {
            c->advance(knob, x, v, w);
        } else {
            runge_kutta(c, knob, x, v, w, c->info.dt_s / substeps);
        }
        if (c->project) {
            c->project(x);
        }
    }
}

void pf__native_output(const pf_plant_class *c, const double *knob, const double *x,
                       const double *u, const double *gains, const double *w, double *y)
{
    double v[PF_NATIVE_MECH];
    deliver(c, knob, x, u, gains, v);
    c->output(knob, x, v, w, y);
}

static pf_status finite_state(const pf_plant_class *c, const double *x, int row, pf_error *error)
{
    for (int i = 0; i < c->info.n_state; i++) {
        if (!isfinite(x[i])) {
            return pf_fail(error, PF_ERR_PLANT, "%s: state %d is not finite after step %d",
                           c->info.name, i, row + 1);
        }
    }
    return PF_OK;
}

pf_status pf__native_roll(const pf_plant_class *c, const double *knob, const pf_roll *roll,
                          const pf_trace *trace, pf_error *error)
{
    const pf_plant_info *info = &c->info;
    int n_mech = info->n_mech, n_chan = info->n_chan, n_state = info->n_state;
    double x[PF_NATIVE_STATE], gains[PF_NATIVE_MECH], w[PF_NATIVE_WIND] = {0};
    double zero[PF_NATIVE_MECH] = {0};
    pf_rng rng;
    if (roll->start) {
        memcpy(x, roll->start, sizeof(double) * (size_t)n_state);
    } else {
        pf_rng_init(&rng, pf_key_derive(roll->key, STREAM_RESET));
        c->reset(x, roll->mean_reset ? NULL : &rng);
    }
    for (int j = 0; j < n_mech; j++) {
        gains[j] = roll->gains ? roll->gains[j] : 1;
    }
    if (trace->start) {
        memcpy(trace->start, x, sizeof(double) * (size_t)n_state);
    }
    if (trace->initial) {
        pf__native_output(c, knob, x, zero, gains, w, trace->initial);
    }
    pf_rng wind, noise;
    pf_rng_init(&wind, pf_key_derive(roll->key, STREAM_WIND));
    pf_rng_init(&noise, pf_key_derive(roll->key, STREAM_NOISE));
    for (int r = 0; r < roll->rows; r++) {
        const double *u = roll->command + (size_t)r * (size_t)n_mech;
        if (roll->disturbance) {
            draw_wind(c, &wind, r == 0, w);
        }
        pf__native_step(c, knob, x, u, gains, w);
        pf_status status = finite_state(c, x, r, error);
        if (status != PF_OK) {
            return status;
        }
        if (trace->state) {
            memcpy(trace->state + (size_t)r * (size_t)n_state, x, sizeof(double) * (size_t)n_state);
        }
        if (!trace->output) {
            continue;
        }
        double *y = trace->output + (size_t)r * (size_t)n_chan;
        pf__native_output(c, knob, x, u, gains, w, y);
        for (int i = 0; i < n_chan && roll->sensor_noise > 0; i++) {
            y[i] += roll->sensor_noise * info->channels[i].noise_sd * pf_rng_normal(&noise);
        }
    }
    return PF_OK;
}
