// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "design_impl.h"
#include "core/score.h"

#include "calibrate/fit.h"
#include "core/constants.h"

#include <math.h>
#include <string.h>

// How good a library is: predicted from the predictor's own signatures of its probes and the
// covariance of nominal residuals, then confirmed on simulated episodes with the scales that
// calibration will find.

enum { STARTS = 8, FIRST_START = 100 };

// Calibration refuses what lies closer than 3 dispersions; designs keep away from that edge, and
// from its limit on collinearity.
static const double robust_least = 3.5;
static const double remaining_least = 1.5 * PF_REMAINING_CALIBRATION;

pf_status pf__measure_library(pf_design_job *job, const char *family, int n,
                              const pf_plan_probe *probes, pf_design_library *library,
                              pf_error *error)
{
    *library = (pf_design_library){.family = family, .n_probes = n};
    for (int q = 0; q < n; q++) {
        library->n_targets += probes[q].n_targets;
    }
    pf_arena *arena = &job->arena;
    library->probes = pf__arena_take(arena, (size_t)n, sizeof *library->probes);
    library->targets = pf__arena_take(arena, (size_t)library->n_targets, sizeof *library->targets);
    int at = 0;
    for (int q = 0; q < n && !arena->failed; q++) {
        pf_design_probe *p = &library->probes[q];
        p->probe = probes[q];
        p->first = at;
        p->excursion = pf__arena_take(arena, (size_t)job->plan->n_chan, sizeof(double));
        for (int t = 0; t < probes[q].n_targets; t++) {
            library->targets[at++] =
                (pf_design_target){.probe = q, .mechanism = probes[q].targets[t], .linear = NAN};
        }
    }
    return arena->failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory for a library") : PF_OK;
}

double pf__measure_smallest(const pf_design_library *library, int probe)
{
    double smallest = INFINITY;
    for (int t = 0; t < library->n_targets; t++) {
        if (probe < 0 || library->targets[t].probe == probe) {
            smallest = fmin(smallest, library->targets[t].predicted);
        }
    }
    return smallest;
}

void pf__measure_extremes(const pf_design_job *job, pf_design_library *library)
{
    library->smallest = library->n_targets > 0 ? INFINITY : 0;
    library->worst_move = 0;
    for (int t = 0; t < library->n_targets; t++) {
        library->smallest = fmin(library->smallest, library->targets[t].confirmed);
    }
    for (int q = 0; q < library->n_probes; q++) {
        for (int c = 0; c < job->plan->n_chan; c++) {
            double share = library->probes[q].excursion[c] / job->return_scale[c];
            library->worst_move = fmax(library->worst_move, share);
        }
    }
}

bool pf__measure_within(const pf_design_job *job, const pf_design_probe *probe)
{
    for (int c = 0; c < job->plan->n_chan; c++) {
        if (!(probe->excursion[c] <= job->config->most[c])) {
            return false;
        }
    }
    return true;
}

// The probes of a library under study.
static pf_status open_study(pf_study *study, pf_design_job *job, const pf_design_library *l,
                            bool still, bool own_scales, pf_arena *arena, pf_error *error)
{
    pf_plan_probe *list = pf__arena_take(arena, (size_t)l->n_probes, sizeof *list);
    if (!list) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a library");
    }
    for (int q = 0; q < l->n_probes; q++) {
        list[q] = l->probes[q].probe;
    }
    return pf__study_open(study, job, l->n_probes, list, still, own_scales, error);
}

// --- prediction

typedef struct predict_work {
    pf_design_job *job;
    pf_design_library *library;
    pf_study study;
    size_t *first;      // of each probe in gram and noise
    double *gram;       // STARTS x n_squares
    double *noise;      // the same
    size_t n_squares;   // sum of squared target counts
    double *starts;     // STARTS x n_state of the kit
    double *free;       // STARTS x rows x n_chan
    double *excursion;  // STARTS x n_probes x n_chan
    double *projection; // per worker: most targets x n_residuals
    int most;           // targets of a probe
} predict_work;

static pf_status run_free(void *self, int worker, size_t start, pf_error *error)
{
    predict_work *w = self;
    size_t window = (size_t)w->job->rows * (size_t)w->job->plan->n_chan;
    size_t state = (size_t)w->study.c.build.kit.n_state;
    return pf__study_rest(&w->study, worker, w->library->n_probes,
                          pf__design_key(w->job, FIRST_START + start, PF_STREAM_START),
                          w->starts + start * state, window, w->free + start * window, error);
}

static pf_status run_prediction(void *self, int worker, size_t item, pf_error *error)
{
    predict_work *w = self;
    pf_design_job *job = w->job;
    size_t probes = (size_t)w->library->n_probes, start = item / probes, q = item % probes;
    const pf_plan_probe *probe = &w->library->probes[q].probe;
    size_t state = (size_t)w->study.c.build.kit.n_state;
    pf_status status =
        pf__study_predict(&w->study, worker, (int)q, w->starts + start * state, true, error);
    if (status != PF_OK) {
        return status;
    }
    int n = probe->n_targets, chan = job->plan->n_chan, window = probe->rows * chan;
    const pf_worker *own = &w->study.c.workers[worker];
    double *gram = w->gram + start * w->n_squares + w->first[q];
    double *noise = w->noise + start * w->n_squares + w->first[q];
    for (int i = 0; i < n; i++) {
        for (int k = 0; k <= i; k++) {
            gram[i * n + k] = gram[k * n + i] =
                pf__dot(window, own->signatures + (size_t)i * (size_t)window,
                        own->signatures + (size_t)k * (size_t)window);
        }
    }
    pf__study_covariance(
        job, n, window, own->signatures,
        w->projection + (size_t)worker * (size_t)w->most * (size_t)job->n_residuals, noise);
    const double *free = w->free + start * (size_t)job->rows * (size_t)chan;
    double *excursion = w->excursion + item * (size_t)chan;
    for (int i = 0; i < window; i++) {
        excursion[i % chan] = fmax(excursion[i % chan], fabs(own->nominal[i] - free[i]));
    }
    return PF_OK;
}

static int free_slots(void *self, size_t start, pf_slot *slots)
{
    predict_work *w = self;
    size_t window = (size_t)w->job->rows * (size_t)w->job->plan->n_chan;
    size_t state = (size_t)w->study.c.build.kit.n_state;
    slots[0] = (pf_slot){.data = w->starts + start * state, .size = state * sizeof(double)};
    slots[1] = (pf_slot){.data = w->free + start * window, .size = window * sizeof(double)};
    return 2;
}

static int prediction_slots(void *self, size_t item, pf_slot *slots)
{
    predict_work *w = self;
    size_t probes = (size_t)w->library->n_probes, q = item % probes, d = sizeof(double);
    size_t n = (size_t)w->library->probes[q].probe.n_targets, chan = (size_t)w->job->plan->n_chan;
    size_t at = item / probes * w->n_squares + w->first[q];
    slots[0] = (pf_slot){.data = w->gram + at, .size = n * n * d};
    slots[1] = (pf_slot){.data = w->noise + at, .size = n * n * d};
    slots[2] = (pf_slot){.data = w->excursion + item * chan, .size = chan * d};
    return 3;
}

// Predicted separation of the targets of a probe, and what decorrelation leaves of them.
static void predict_targets(const predict_work *w, int q, double *work, double *variance,
                            double *remaining)
{
    pf_design_probe *p = &w->library->probes[q];
    int n = p->probe.n_targets;
    pf_design_target *targets = w->library->targets + p->first;
    for (int t = 0; t < n; t++) {
        targets[t].predicted = 0;
    }
    for (int s = 0; s < STARTS; s++) {
        size_t at = (size_t)s * w->n_squares + w->first[q];
        pf__exchange_variance(n, w->gram + at, w->noise + at, work, variance, remaining);
        for (int t = 0; t < n; t++) {
            targets[t].predicted += variance[t] / STARTS;
        }
    }
    for (int t = 0; t < n; t++) {
        targets[t].predicted = pf__exchange_apart(targets[t].predicted);
    }
}

static void find_pair(const predict_work *w, int q)
{
    pf_design_probe *p = &w->library->probes[q];
    int n = p->probe.n_targets;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < i; k++) {
            double sum = 0;
            for (int s = 0; s < STARTS; s++) {
                const double *g = w->gram + (size_t)s * w->n_squares + w->first[q];
                double size = sqrt(g[i * n + i] * g[k * n + k]);
                sum += size > 0 ? fabs(g[i * n + k]) / size / STARTS : 0;
            }
            if (sum >= p->collinearity) {
                p->collinearity = sum;
                p->pair[0] = p->probe.targets[k];
                p->pair[1] = p->probe.targets[i];
            }
        }
    }
}

static void find_excursion(const predict_work *w, int q)
{
    size_t chan = (size_t)w->job->plan->n_chan, probes = (size_t)w->library->n_probes;
    double *out = (double *)w->library->probes[q].excursion; // ours, const to others
    for (size_t c = 0; c < chan; c++) {
        for (size_t s = 0; s < STARTS; s++) {
            out[c] = fmax(out[c], w->excursion[(s * probes + (size_t)q) * chan + c]);
        }
    }
}

static pf_status predict(predict_work *w, pf_arena *arena, pf_error *error)
{
    pf_design_job *job = w->job;
    size_t d = sizeof(double), chan = (size_t)job->plan->n_chan;
    size_t probes = (size_t)w->library->n_probes, most = (size_t)w->most;
    int workers = w->study.c.n_workers;
    w->gram = pf__arena_take(arena, STARTS * w->n_squares, d);
    w->noise = pf__arena_take(arena, STARTS * w->n_squares, d);
    w->free = pf__arena_take(arena, STARTS * (size_t)job->rows * chan, d);
    size_t state = (size_t)w->study.c.build.kit.n_state;
    w->starts = pf__arena_take(arena, STARTS * state + 1, d);
    w->excursion = pf__arena_take(arena, STARTS * probes * chan, d);
    w->projection = pf__arena_take(arena, (size_t)workers * most * (size_t)job->n_residuals, d);
    double *work = pf__arena_take(arena, 3 * most * most + 2 * most, d);
    if (arena->failed) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for the predictions");
    }
    pf_status status =
        pf__parallel_kept(job->effort, workers, STARTS, run_free, free_slots, w, "starts", error);
    status = status ? status
                    : pf__parallel_kept(job->effort, workers, STARTS * probes, run_prediction,
                                        prediction_slots, w, "prediction", error);
    for (int q = 0; q < w->library->n_probes && status == PF_OK; q++) {
        double *variance = work + 3 * most * most;
        predict_targets(w, q, work, variance, variance + most);
        find_pair(w, q);
        find_excursion(w, q);
    }
    return status;
}

pf_status pf__measure_predict(pf_design_job *job, pf_design_library *library, pf_error *error)
{
    pf_arena arena = {0};
    predict_work w = {.job = job, .library = library};
    w.first = pf__arena_take(&arena, (size_t)library->n_probes, sizeof *w.first);
    for (int q = 0; q < library->n_probes && w.first; q++) {
        int n = library->probes[q].probe.n_targets;
        w.first[q] = w.n_squares;
        w.n_squares += (size_t)n * (size_t)n;
        w.most = n > w.most ? n : w.most;
    }
    pf_status status = open_study(&w.study, job, library, true, false, &arena, error);
    status = status ? status : predict(&w, &arena, error);
    pf__study_close(&w.study);
    pf__arena_free(&arena);
    return status;
}

// --- confirmation

typedef struct confirm_work {
    pf_design_job *job;
    pf_design_library *library;
    pf_study study;
    int healthy, weak; // episodes per class
    pf_match *matches; // per probe: healthy x targets, then weak x targets
    size_t *first;     // of each probe in matches
} confirm_work;

// One start: the healthy machine, and for the first of them every weakened one, same disturbance
// and noise. Signatures depend on the start alone.
static pf_status run_episode(void *self, int worker, size_t item, pf_error *error)
{
    confirm_work *w = self;
    pf_worker *own = &w->study.c.workers[worker];
    int q = (int)item / w->healthy, episode = (int)item % w->healthy;
    const pf_plan_probe *probe = &w->library->probes[q].probe;
    int n = probe->n_targets;
    int runs = episode < w->weak ? 1 + n : 1;
    pf_match *out = w->matches + w->first[q];
    pf_key key = pf__design_key(w->job, (uint64_t)episode, PF_STREAM_CONFIRM);
    for (int i = 0; i < runs; i++) {
        pf_status status =
            pf__study_machine(&w->study, worker, q, i > 0 ? probe->targets[i - 1] : 0, key, error);
        if (status == PF_OK && i == 0) {
            status = pf__study_predict(&w->study, worker, q, own->start, true, error);
        }
        if (status != PF_OK) {
            return status;
        }
        pf__study_match(&w->study, worker, q, own->matches);
        if (i == 0) {
            memcpy(out + (size_t)episode * (size_t)n, own->matches, (size_t)n * sizeof *out);
        } else {
            out[(size_t)(w->healthy + episode) * (size_t)n + (size_t)(i - 1)] = own->matches[i - 1];
        }
    }
    return PF_OK;
}

static int episode_slots(void *self, size_t item, pf_slot *slots)
{
    confirm_work *w = self;
    size_t q = item / (size_t)w->healthy, episode = item % (size_t)w->healthy;
    size_t n = (size_t)w->library->probes[q].probe.n_targets;
    pf_match *at = w->matches + w->first[q] + episode * n;
    slots[0] = (pf_slot){.data = at, .size = n * sizeof *at, .loose = true};
    bool weak = episode < (size_t)w->weak;
    if (weak) {
        at += (size_t)w->healthy * n;
        slots[1] = (pf_slot){.data = at, .size = n * sizeof *at, .loose = true};
    }
    return weak ? 2 : 1;
}

typedef struct sample {
    int n;
    double median, sd, dispersion, kurtosis;
} sample;

static sample describe(int n, const double *values, double *scratch)
{
    sample s = {.n = n, .kurtosis = 3};
    double mean = 0, second = 0, fourth = 0;
    for (int i = 0; i < n; i++) {
        mean += values[i] / n;
    }
    for (int i = 0; i < n; i++) {
        double d = (values[i] - mean) * (values[i] - mean);
        second += d;
        fourth += d * d;
    }
    s.sd = n > 1 ? sqrt(second / (n - 1)) : 0;
    s.kurtosis = second > 0 ? fmax(3, n * fourth / (second * second)) : 3;
    s.median = n > 0 ? pf__fit_median(n, values, scratch) : 0;
    s.dispersion = n > 1 ? pf__fit_dispersion(n, values, scratch) : 0;
    return s;
}

// Usable coefficients of one target, every `stride` matches.
static sample sample_of(const pf_match *m, int n, int stride, double *buffer, double *remaining)
{
    int usable = 0;
    for (int i = 0; i < n; i++) {
        const pf_match *at = m + (size_t)i * (size_t)stride;
        remaining[i] = at->remaining;
        if (at->usable) {
            buffer[usable++] = at->coefficient;
        }
    }
    return describe(usable, buffer, buffer + n);
}

static void confirm_target(const confirm_work *w, int q, int t, double *buffer)
{
    const pf_design_probe *p = &w->library->probes[q];
    pf_design_target *out = &w->library->targets[p->first + t];
    int n = p->probe.n_targets;
    const pf_match *m = w->matches + w->first[q];
    double *remaining = buffer + 2 * w->healthy;
    sample weak = sample_of(m + (size_t)w->healthy * (size_t)n + t, w->weak, n, buffer, remaining);
    sample healthy = sample_of(m + t, w->healthy, n, buffer, remaining);
    out->remaining = pf__fit_median(w->healthy, remaining, buffer);
    double apart = fabs(weak.median - healthy.median);
    out->confirmed = healthy.sd > 0 ? apart / healthy.sd : 0;
    out->weakened = weak.sd > 0 ? apart / weak.sd : 0;
    // relative error of the standard deviation, and of the distance between two medians
    double of_sd = sqrt((healthy.kurtosis - 1) / (4.0 * healthy.n));
    double of_apart =
        1.2533 * sqrt(healthy.sd * healthy.sd / healthy.n + weak.sd * weak.sd / weak.n) / apart;
    double error = 1.96 * sqrt(of_sd * of_sd + of_apart * of_apart);
    bool enough = 5 * healthy.n >= 3 * w->healthy && 5 * weak.n >= 3 * w->weak && apart > 0;
    out->confirmed = enough ? out->confirmed : 0;
    out->lo = enough ? out->confirmed * exp(-error) : 0;
    out->hi = enough ? out->confirmed * exp(error) : 0;
    double dispersion = fmax(healthy.dispersion, weak.dispersion);
    out->accepted = enough && apart >= robust_least * dispersion &&
                    (n == 1 || out->remaining >= remaining_least);
    out->good = out->accepted && out->confirmed >= w->job->config->target;
}

static pf_status confirm(confirm_work *w, pf_arena *arena, pf_error *error)
{
    size_t matches = 0, items = (size_t)w->library->n_probes * (size_t)w->healthy;
    for (int q = 0; q < w->library->n_probes; q++) {
        size_t n = (size_t)w->library->probes[q].probe.n_targets;
        w->first[q] = matches;
        matches += n * (size_t)(w->healthy + w->weak);
    }
    w->matches = pf__arena_take(arena, matches, sizeof *w->matches);
    double *buffer = pf__arena_take(arena, 4 * (size_t)w->healthy, sizeof *buffer);
    if (arena->failed) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for the confirmation");
    }
    pf_status status = pf__parallel_kept(w->job->effort, w->study.c.n_workers, items, run_episode,
                                         episode_slots, w, "confirmation", error);
    for (int q = 0; q < w->library->n_probes && status == PF_OK; q++) {
        for (int t = 0; t < w->library->probes[q].probe.n_targets; t++) {
            confirm_target(w, q, t, buffer);
        }
    }
    pf__measure_extremes(w->job, w->library);
    return status;
}

pf_status pf__measure_confirm(pf_design_job *job, pf_design_library *library, pf_error *error)
{
    pf_arena arena = {0};
    confirm_work w = {.job = job,
                      .library = library,
                      .healthy = job->config->episodes,
                      .weak = job->config->episodes * 2 / 5};
    w.first = pf__arena_take(&arena, (size_t)library->n_probes, sizeof *w.first);
    pf_status status = open_study(&w.study, job, library, false, true, &arena, error);
    status = status ? status : pf__plant_weights(&w.study.c, error);
    status = status ? status : confirm(&w, &arena, error);
    pf__study_close(&w.study);
    pf__arena_free(&arena);
    return status;
}
