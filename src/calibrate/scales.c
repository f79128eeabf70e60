// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "fit.h"
#include "source.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Starts over which responses and residuals are averaged.
enum { SCALE_STARTS = 40 };

// Random streams of their own, so that no draw is shared with the calibration episodes.
enum { STREAM_PULSE = 1000, STREAM_RESIDUAL = 1001, STREAM_WEIGHT = 1002, STREAM_CHOICE = 1003 };

// Nominal runs of each probe behind its weight: at least so many, and two per number of its window.
enum { WEIGHT_RUNS = 200, WEIGHT_PER_NUMBER = 2 };

// Episodes of each class that say whether weights separate better.
enum { CHOICE_RUNS = 60 };

// A residual scale is never less than this share of the pulse scale.
static const double least_share = 1e-3;

// The starts of one probe, side by side. Their numbers are added up in the order of the starts.
typedef struct start_work {
    pf_plant_source *c;
    int probe;
    size_t window;  // numbers of one response
    double *values; // starts x stride
    size_t stride;
} start_work;

static int start_slots(void *self, size_t item, pf_slot *slots)
{
    start_work *w = self;
    slots[0] =
        (pf_slot){.data = w->values + item * w->stride, .size = w->stride * sizeof *w->values};
    return 1;
}

// Room for what `per` responses of a probe give from every start.
static pf_status open_starts(start_work *w, pf_plant_source *c, size_t per, pf_error *error)
{
    size_t most = (size_t)pf__plan_most_rows(c->plan) * (size_t)c->plan->n_chan;
    *w = (start_work){.c = c, .values = malloc(SCALE_STARTS * per * most * sizeof *w->values)};
    return w->values ? PF_OK : pf_fail(error, PF_ERR_MEMORY, "out of memory for the scales");
}

static pf_status run_starts(start_work *w, int probe, size_t per, pf_item_fn run, pf_error *error)
{
    const pf_plan *plan = w->c->plan;
    w->probe = probe;
    w->window = (size_t)plan->probes[probe].rows * (size_t)plan->n_chan;
    w->stride = per * w->window;
    return pf__parallel_kept(w->c->effort, w->c->n_workers, SCALE_STARTS, run, start_slots, w,
                             "scales", error);
}

// --- pulse scale

// What a probe moves from a start, and what disturbance and noise do to that.
static pf_status run_pulse(void *self, int worker, size_t start, pf_error *error)
{
    start_work *work = self;
    pf_plant_source *c = work->c;
    const pf_plan *plan = c->plan;
    pf_worker *w = &c->workers[worker];
    const pf_plan_probe *p = &plan->probes[work->probe];
    pf_roll roll = pf__plan_probe_roll(p, pf_plant_get_info(w->plant)), idle = roll;
    roll.key = idle.key = pf_key_stream(plan->settings.seed, plan->environment, (uint64_t)start,
                                        PF_PURPOSE_CALIBRATION, STREAM_PULSE);
    pf_trace trace = {.output = w->response};
    pf_status status = pf_plant_roll(w->plant, &roll, &trace, error);
    if (status == PF_OK) {
        // the free response from the same start
        idle.policy = -1;
        idle.command = w->still;
        trace.output = w->nominal;
        status = pf_plant_roll(w->plant, &idle, &trace, error);
    }
    if (status == PF_OK) {
        roll.disturbance = true;
        roll.sensor_noise = 1;
        trace.output = w->predicted;
        status = pf_plant_roll(w->plant, &roll, &trace, error);
    }
    double *moved = work->values + start * work->stride, *shaken = moved + work->window;
    for (size_t i = 0; status == PF_OK && i < work->window; i++) {
        moved[i] = w->response[i] - w->nominal[i];
        shaken[i] = w->predicted[i] - w->response[i];
    }
    return pf__name_failure(pf_plant_get_info(w->plant), "probe", p->name, NULL, status, error);
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
static pf_status pulse_scale(pf_plant_source *c, double *scale, pf_error *error)
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
    double *energy = pf__arena_take(&c->arena, 2 * (size_t)plan->n_chan, sizeof *energy);
    if (!energy) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for the scales");
    }
    double *noise = energy + plan->n_chan, samples = 0;
    bool singles = has_single(plan);
    start_work work;
    pf_status status = open_starts(&work, c, 2, error);
    for (int q = 0; q < plan->n_probes && status == PF_OK; q++) {
        if (singles && plan->probes[q].n_targets > 1) {
            continue;
        }
        status = run_starts(&work, q, 2, run_pulse, error);
        for (size_t i = 0; status == PF_OK && i < SCALE_STARTS * work.window; i++) {
            const double *moved = work.values + i / work.window * work.stride + i % work.window;
            energy[i % (size_t)plan->n_chan] += moved[0] * moved[0];
            noise[i % (size_t)plan->n_chan] += moved[work.window] * moved[work.window];
        }
        samples += SCALE_STARTS * plan->probes[q].rows;
    }
    free(work.values);
    if (status != PF_OK) {
        return status;
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

// What a healthy machine's response differs from the prediction by.
static pf_status run_residual(void *self, int worker, size_t start, pf_error *error)
{
    start_work *work = self;
    pf_plant_source *c = work->c;
    const pf_worker *w = &c->workers[worker];
    pf_key key = pf_key_stream(c->plan->settings.seed, c->plan->environment, (uint64_t)start,
                               PF_PURPOSE_CALIBRATION, STREAM_RESIDUAL);
    pf_status status = pf__plant_run_nominal(c, worker, work->probe, key, error);
    double *off = work->values + start * work->stride;
    for (size_t i = 0; status == PF_OK && i < work->window; i++) {
        off[i] = w->response[i] - w->nominal[i];
    }
    return status;
}

static pf_status residual_scale(pf_plant_source *c, pf_error *error)
{
    const pf_plan *plan = c->plan;
    const pf_kit *k = &c->build.kit;
    double *energy = c->build.scale; // in place: n_scale is the longest probe's rows
    start_work work;
    pf_status status = open_starts(&work, c, 1, error);
    for (int q = 0; q < plan->n_probes && status == PF_OK; q++) {
        status = run_starts(&work, q, 1, run_residual, error);
        for (size_t i = 0; status == PF_OK && i < SCALE_STARTS * work.window; i++) {
            energy[i % work.window] += work.values[i] * work.values[i];
        }
    }
    free(work.values);
    if (status != PF_OK) {
        return status;
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

bool pf__plant_residual(const pf_plant_source *c)
{
    return c->plan->settings.scale == PF_SCALE_RESIDUAL ||
           (c->plan->settings.scale == PF_SCALE_AUTO && c->model);
}

pf_status pf__plant_scales(pf_plant_source *c, pf_error *error)
{
    pf_status status = pulse_scale(c, c->build.return_scale, error);
    if (status != PF_OK || pf__plant_residual(c)) {
        return status == PF_OK ? residual_scale(c, error) : status;
    }
    memcpy(c->build.scale, c->build.return_scale, sizeof(double) * (size_t)c->plan->n_chan);
    return PF_OK;
}

// --- weights

bool pf__plant_weighted(const pf_plant_source *c, pf_statistic statistic)
{
    const pf_plan *plan = c->plan;
    bool fits = statistic == PF_STATISTIC_MATCHED;
    for (int q = 0; q < plan->n_probes; q++) {
        fits = fits && plan->probes[q].rows * plan->n_chan <= PF_WHITEN_MAX;
    }
    return plan->settings.weighting == PF_WEIGHTING_SHRUNK ||
           (plan->settings.weighting == PF_WEIGHTING_AUTO && c->model && fits);
}

static size_t weight_runs(int window)
{
    int runs = WEIGHT_PER_NUMBER * window;
    return (size_t)(runs > WEIGHT_RUNS ? runs : WEIGHT_RUNS);
}

typedef struct weight_work {
    pf_plant_source *c;
    double *residuals; // runs x window of the probe at hand
    int probe;
    double *choice; // episodes x 2 x targets
} weight_work;

static int weight_slots(void *self, size_t item, pf_slot *slots)
{
    weight_work *work = self;
    const pf_plan *plan = work->c->plan;
    size_t window = (size_t)plan->probes[work->probe].rows * (size_t)plan->n_chan;
    slots[0] = (pf_slot){.data = work->residuals + item * window, .size = window * sizeof(double)};
    return 1;
}

static pf_status run_weight(void *self, int worker, size_t item, pf_error *error)
{
    weight_work *work = self;
    pf_plant_source *c = work->c;
    pf__evidence e = pf__worker_evidence(c, worker, work->probe);
    e.residual = work->residuals + item * (size_t)(e.rows * e.n_chan);
    pf_key key = pf_key_stream(c->plan->settings.seed, c->plan->environment, item,
                               PF_PURPOSE_CALIBRATION, STREAM_WEIGHT);
    pf_status status = pf__plant_run_nominal(c, worker, work->probe, key, error);
    if (status == PF_OK) {
        pf__evidence_residual(&e, c->workers[worker].response);
    }
    return status;
}

// One episode of a probe, healthy or with a target at g_cal: the coefficients of all targets, plain
// and then weighted.
static pf_status run_choice(void *self, int worker, size_t item, pf_error *error)
{
    weight_work *work = self;
    pf_plant_source *c = work->c;
    pf_worker *w = &c->workers[worker];
    const pf_plan_probe *p = &c->plan->probes[work->probe];
    size_t class = item / CHOICE_RUNS, n = (size_t)p->n_targets;
    for (int j = 0; j < c->plan->n_mech; j++) {
        w->gains[j] = class > 0 && j == p->targets[class - 1] ? c->plan->settings.g_cal : 1;
    }
    pf_key key = pf_key_stream(c->plan->settings.seed, c->plan->environment, item % CHOICE_RUNS,
                               PF_PURPOSE_CALIBRATION, STREAM_CHOICE);
    pf_status status = pf__plant_run(c, worker, work->probe, w->gains, key, error);
    pf__evidence e = pf__worker_evidence(c, worker, work->probe);
    status = status ? status : pf__evidence_signatures(&e, error);
    if (status != PF_OK) {
        return status;
    }
    pf__evidence_residual(&e, e.residual);
    for (size_t weighted = 0; weighted < 2; weighted++) {
        pf__evidence_match(&e, w->matches);
        for (size_t t = 0; t < n; t++) {
            work->choice[(2 * item + weighted) * n + t] =
                w->matches[t].usable ? w->matches[t].coefficient : NAN;
        }
        pf__evidence_whiten(&e);
    }
    return PF_OK;
}

static int choice_slots(void *self, size_t item, pf_slot *slots)
{
    weight_work *work = self;
    size_t n = 2 * (size_t)work->c->plan->probes[work->probe].n_targets;
    slots[0] = (pf_slot){.data = work->choice + item * n, .size = n * sizeof(double)};
    return 1;
}

// Median and dispersion of a target's coefficients in a class; dispersion infinite: too few.
static void describe(const weight_work *work, size_t class, size_t weighted, size_t target,
                     double *median, double *dispersion)
{
    size_t n = (size_t)work->c->plan->probes[work->probe].n_targets;
    double values[CHOICE_RUNS], scratch[2 * CHOICE_RUNS];
    int count = 0;
    for (size_t i = class * CHOICE_RUNS; i < (class + 1) * CHOICE_RUNS; i++) {
        double value = work->choice[(2 * i + weighted) * n + target];
        values[count] = value;
        count += !isnan(value);
    }
    *median = count > 0 ? pf__fit_median(count, values, scratch) : 0;
    *dispersion = count > 1 ? pf__fit_dispersion(count, values, scratch) : INFINITY;
}

// Dispersions between healthy and weakened, of the target that a probe separates least.
static double separates(const weight_work *work, size_t weighted)
{
    double least = INFINITY;
    for (size_t t = 0; t < (size_t)work->c->plan->probes[work->probe].n_targets; t++) {
        double healthy, weak, a, b;
        describe(work, 0, weighted, t, &healthy, &a);
        describe(work, 1 + t, weighted, t, &weak, &b);
        least = fmin(least, fabs(weak - healthy) / fmax(fmax(a, b), 1e-300));
    }
    return least;
}

// A weight that separates the losses of a probe worse than none does becomes the identity: it knows
// how the model errs about healthy machines, and some err about a loss where they do not.
static pf_status choose_weight(weight_work *work, double *factor, pf_error *error)
{
    pf_plant_source *c = work->c;
    const pf_plan_probe *p = &c->plan->probes[work->probe];
    size_t targets = (size_t)p->n_targets, items = (1 + targets) * CHOICE_RUNS;
    work->choice = malloc(2 * items * targets * sizeof *work->choice);
    if (!work->choice) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for the weights of the probes");
    }
    pf_status status = pf__parallel_kept(c->effort, c->n_workers, items, run_choice, choice_slots,
                                         work, "weights", error);
    if (status == PF_OK && separates(work, 1) < separates(work, 0)) {
        for (int i = 0; i < p->rows * c->plan->n_chan; i++) {
            for (int j = 0; j <= i; j++) {
                *factor++ = i == j;
            }
        }
    }
    free(work->choice);
    return status;
}

pf_status pf__plant_weights(pf_plant_source *c, pf_error *error)
{
    const pf_plan *plan = c->plan;
    weight_work work = {.c = c};
    if (c->build.kit.n_whiten == 0) {
        return PF_OK;
    }
    size_t window = (size_t)pf__kit_most_rows(&c->build.kit) * (size_t)plan->n_chan;
    work.residuals = pf__arena_take(&c->arena, weight_runs((int)window) * window, sizeof(double));
    double *scratch = pf__arena_take(&c->arena, window * window, sizeof(double));
    if (c->arena.failed) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for the weights of the probes");
    }
    double *factor = c->build.whiten;
    pf_status status = PF_OK;
    for (int q = 0; q < plan->n_probes && status == PF_OK; q++) {
        int n = plan->probes[q].rows * plan->n_chan;
        work.probe = q;
        size_t runs = weight_runs(n);
        status = pf__parallel_kept(c->effort, c->n_workers, runs, run_weight, weight_slots, &work,
                                   "weights", error);
        if (status == PF_OK) {
            pf__fit_whiten(n, (int)runs, work.residuals, scratch, factor);
            bool choose = plan->settings.weighting == PF_WEIGHTING_AUTO;
            status = choose ? choose_weight(&work, factor, error) : PF_OK;
            factor += (size_t)n * (size_t)(n + 1) / 2;
        }
    }
    return status;
}
