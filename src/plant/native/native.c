// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "native.h"
#include "plant/plant_impl.h"
#include "core/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Streams of one trajectory. Disturbance and noise are drawn independently of commands and gains,
// in a fixed order, so passive trajectories of a dormant fault are equal to the bit.
enum { STREAM_RESET = 1, STREAM_WIND = 2, STREAM_NOISE = 3 };

// The stationary AR(1) law: w_0 = sd e, w_k = phi w_{k-1} + sd sqrt(1 - phi^2) e, sd being
// `factor` times the declared one.
static void draw_wind(const pf_plant_class *c, double factor, pf_rng *rng, bool first, double *w)
{
    for (int i = 0; i < c->n_wind; i++) {
        double e = pf_rng_normal(rng), phi = c->wind_phi[i], sd = factor * c->wind_sd[i];
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
        pf__fault_deliver(c->info.n_mech, c->info.mechanisms, u, gains, v);
    }
}

// slow: how many times longer everything takes.
static void step(const pf_plant_class *c, const double *knob, double *x, const double *u,
                 const double *gains, const double *w, double slow)
{
    double v[PF_NATIVE_MECH];
    int substeps = c->advance ? 1 : c->substeps;
    for (int s = 0; s < substeps; s++) {
        deliver(c, knob, x, u, gains, v);
        if (c->advance) {
            c->advance(knob, x, v, w);
        } else {
            runge_kutta(c, knob, x, v, w, c->info.dt_s / substeps / slow);
        }
        if (c->project) {
            c->project(x);
        }
    }
}

void pf__native_step(const pf_plant_class *c, const double *knob, double *x, const double *u,
                     const double *gains, const double *w)
{
    step(c, knob, x, u, gains, w, 1);
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

// A trajectory on its way.
typedef struct run {
    const pf_plant_class *class;
    const double *knob;
    const pf_roll *roll;
    const pf_trace *trace;
    double x[PF_NATIVE_STATE], w[PF_NATIVE_WIND];
    double gains[PF_NATIVE_MECH], own[PF_NATIVE_MECH];
    const double *u;     // the command under way
    const double *asked; // the same before faults
    bool over;           // the episode of a policy has ended
    double score;
    pf_rng wind, noise;
    double slow, windy;     // factors on its time constants and its disturbance
    pf_fault_state *faults; // that act on commands; NULL: it has none
    double sent[PF_NATIVE_MECH];
} run;

static void begin(run *s)
{
    const pf_plant_class *c = s->class;
    const pf_roll *roll = s->roll;
    const pf_trace *trace = s->trace;
    size_t n_state = (size_t)c->info.n_state;
    pf_rng rng;
    if (roll->start) {
        memcpy(s->x, roll->start, sizeof(double) * n_state);
    } else {
        pf_rng_init(&rng, pf__key_derive(roll->key, STREAM_RESET));
        c->reset(s->x, roll->mean_reset ? NULL : &rng);
    }
    if (roll->policy >= 0 && c->loops->start) {
        c->loops->start(roll->policy, s->x);
    }
    for (int j = 0; j < c->info.n_mech; j++) {
        s->gains[j] = roll->gains ? roll->gains[j] : 1;
    }
    if (trace->start) {
        memcpy(trace->start, s->x, sizeof(double) * n_state);
    }
    if (trace->initial) {
        pf__native_output(c, s->knob, s->x, s->u, s->gains, s->w, trace->initial);
    }
    pf_rng_init(&s->wind, pf__key_derive(roll->key, STREAM_WIND));
    pf_rng_init(&s->noise, pf__key_derive(roll->key, STREAM_NOISE));
}

// The command of a row: what was given, or what the corrected policy makes of the state.
static void take_command(run *s, int row)
{
    int n = s->class->info.n_mech;
    if (s->roll->policy < 0) {
        s->asked = s->roll->command + (size_t)row * (size_t)n;
    } else {
        s->class->loops->command(s->roll->policy, s->x, s->own);
        for (int j = 0; j < n && s->roll->correction; j++) {
            s->own[j] *= s->roll->correction[j];
        }
        s->asked = s->own;
    }
    s->u = s->asked;
    if (s->faults) {
        memcpy(s->sent, s->asked, sizeof(double) * (size_t)n);
        pf__fault_step(s->roll->faults, s->roll->n_faults, s->class->info.mechanisms, s->faults,
                       s->sent);
        s->u = s->sent;
    }
}

static void advance(run *s)
{
    const pf_plant_class *c = s->class;
    double before[PF_NATIVE_STATE], v[PF_NATIVE_MECH];
    if (s->roll->policy < 0) {
        step(c, s->knob, s->x, s->u, s->gains, s->w, s->slow);
        return;
    }
    memcpy(before, s->x, sizeof(double) * (size_t)c->info.n_state);
    deliver(c, s->knob, before, s->u, s->gains, v);
    step(c, s->knob, s->x, s->u, s->gains, s->w, s->slow);
    s->over = !c->loops->score(s->roll->policy, before, v, s->x, &s->score);
}

static void record(run *s, int row)
{
    const pf_plant_info *info = &s->class->info;
    size_t n_state = (size_t)info->n_state;
    if (s->trace->state) {
        memcpy(s->trace->state + (size_t)row * n_state, s->x, sizeof(double) * n_state);
    }
    if (!s->trace->output) {
        return;
    }
    double *y = s->trace->output + (size_t)row * (size_t)info->n_chan;
    double factor = s->roll->sensor_noise;
    pf__native_output(s->class, s->knob, s->x, s->u, s->gains, s->w, y);
    if (factor > 0 && s->class->noise) {
        factor *= s->class->noise(s->asked);
    }
    for (int i = 0; i < info->n_chan && factor > 0; i++) {
        y[i] += factor * info->channels[i].noise_sd * pf_rng_normal(&s->noise);
    }
}

// What the faults ask of the physics.
static pf_status take_faults(run *s, pf_error *error)
{
    const pf_roll *roll = s->roll;
    s->slow = s->windy = 1;
    for (int i = 0; i < roll->n_faults; i++) {
        const pf_fault *f = &roll->faults[i];
        s->slow = f->kind == PF_FAULT_TIME_CONSTANT ? f->value : s->slow;
        s->windy = f->kind == PF_FAULT_DISTURBANCE ? f->value : s->windy;
    }
    if (pf__fault_moves(roll->faults, roll->n_faults)) {
        s->faults = calloc((size_t)roll->n_faults, sizeof *s->faults);
        if (!s->faults) {
            return pf_fail(error, PF_ERR_MEMORY, "%s: out of memory for its faults",
                           s->class->info.name);
        }
    }
    return PF_OK;
}

static pf_status run_rows(run *s, pf_error *error)
{
    bool watched = s->trace->output || s->trace->state;
    for (int r = 0; r < s->roll->rows && (watched || !s->over); r++) {
        if (s->roll->disturbance) {
            draw_wind(s->class, s->windy, &s->wind, r == 0, s->w);
        }
        if (!s->over) {
            take_command(s, r);
            advance(s);
        }
        pf_status status = finite_state(s->class, s->x, r, error);
        if (status != PF_OK) {
            return status;
        }
        record(s, r);
    }
    return PF_OK;
}

pf_status pf__native_roll(const pf_plant_class *c, const double *knob, const pf_roll *roll,
                          const pf_trace *trace, pf_error *error)
{
    run s = {.class = c, .knob = knob, .roll = roll, .trace = trace};
    s.u = s.asked = s.own;
    pf_status status = take_faults(&s, error);
    if (status == PF_OK) {
        begin(&s);
        status = run_rows(&s, error);
    }
    free(s.faults);
    if (status == PF_OK && trace->score) {
        *trace->score = s.score;
    }
    return status;
}
