// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "design_impl.h"
#include "core/score.h"

#include <math.h>
#include <string.h>

// What one command in one step tells of a loss, for every mechanism, step and direction, from a few
// starts. Signatures of whole waveforms are sums of these as far as the predictor is linear; the
// exchange needs nothing but their inner products.

enum { STARTS = 4 };
// Doubles that the two matrices may take together; beyond it there are fewer starts.
static const double most_doubles = 2.5e7;

typedef struct impulses {
    pf_design_job *job;
    pf_sensitivity *s;
    pf_study study;
    int window;
    double *signature;  // n_starts x n_columns x window
    double *projection; // n_starts x n_columns x n_residuals
    double *starts;     // n_starts x n_state of the kit
    double *free;       // n_starts x window
} impulses;

static double *column_signature(const impulses *x, size_t start, size_t column)
{
    return x->signature + (start * (size_t)x->s->n_columns + column) * (size_t)x->window;
}

static pf_status impulse_probes(impulses *x, pf_plan_probe *probes, pf_error *error)
{
    const pf_design_config *c = x->job->config;
    pf_arena *arena = &x->s->arena;
    size_t mech = (size_t)c->n_mech;
    for (int i = 0; i < x->s->n_columns; i++) {
        int j = 1 + i / 2 / c->steps, r = i / 2 % c->steps;
        double *command = pf__arena_take(arena, (size_t)c->rows * mech, sizeof *command);
        int *target = pf__arena_take(arena, 1, sizeof *target);
        if (!command || !target) {
            return pf_fail(error, PF_ERR_MEMORY, "out of memory for the sensitivities");
        }
        const pf_level *level = &x->job->levels[j];
        command[(size_t)r * mech + (size_t)j] = i % 2 ? level->down : level->up;
        *target = j;
        probes[i] = (pf_plan_probe){"impulse", c->rows, command, 1, 1, target, NULL};
    }
    return PF_OK;
}

static pf_status run_free(void *self, int worker, size_t item, pf_error *error)
{
    impulses *x = self;
    size_t state = (size_t)x->study.c.build.kit.n_state, window = (size_t)x->window;
    return pf__study_rest(&x->study, worker, x->s->n_columns,
                          pf__design_key(x->job, item, PF_STREAM_START), x->starts + item * state,
                          window, x->free + item * window, error);
}

// One impulse from one start: its signature, and how far it moves the bounded outputs relative to
// what is allowed.
static pf_status run_impulse(void *self, int worker, size_t item, pf_error *error)
{
    impulses *x = self;
    pf_sensitivity *s = x->s;
    size_t start = item / (size_t)s->n_columns, column = item % (size_t)s->n_columns;
    const pf_level *level = &s->levels[1 + (int)column / 2 / s->steps];
    if ((column % 2 ? level->down : level->up) == 0) {
        return PF_OK;
    }
    size_t state = (size_t)x->study.c.build.kit.n_state;
    pf_status status =
        pf__study_predict(&x->study, worker, (int)column, x->starts + start * state, true, error);
    if (status != PF_OK) {
        return status;
    }
    const pf_worker *w = &x->study.c.workers[worker];
    memcpy(column_signature(x, start, column), w->signatures, (size_t)x->window * sizeof(double));
    double *move = s->move + item * (size_t)s->n_moves;
    int n_chan = s->config->n_chan, at = 0;
    for (int i = 0; i < x->window && s->n_moves > 0; i++) {
        double most = s->config->most[i % n_chan];
        if (isfinite(most)) {
            move[at++] = (w->nominal[i] - x->free[start * (size_t)x->window + (size_t)i]) / most;
        }
    }
    return PF_OK;
}

static int free_slots(void *self, size_t item, pf_slot *slots)
{
    impulses *x = self;
    size_t state = (size_t)x->study.c.build.kit.n_state, window = (size_t)x->window;
    slots[0] = (pf_slot){.data = x->starts + item * state, .size = state * sizeof(double)};
    slots[1] = (pf_slot){.data = x->free + item * window, .size = window * sizeof(double)};
    return 2;
}

static int impulse_slots(void *self, size_t item, pf_slot *slots)
{
    impulses *x = self;
    size_t window = (size_t)x->window, moves = (size_t)x->s->n_moves;
    slots[0] = (pf_slot){.data = x->signature + item * window, .size = window * sizeof(double)};
    slots[1] = (pf_slot){.data = x->s->move + item * moves, .size = moves * sizeof(double)};
    return 2;
}

static pf_status project(void *self, int worker, size_t item, pf_error *error)
{
    (void)worker;
    (void)error;
    impulses *x = self;
    const pf_design_job *job = x->job;
    size_t columns = (size_t)x->s->n_columns, whole = (size_t)job->rows * (size_t)job->plan->n_chan;
    const double *h = column_signature(x, item / columns, item % columns);
    double *out = x->projection + item * (size_t)job->n_residuals;
    for (int e = 0; e < job->n_residuals; e++) {
        out[e] = pf__dot(x->window, h, job->residuals + (size_t)e * whole);
    }
    return PF_OK;
}

// One row of both matrices, up to the diagonal.
static pf_status multiply(void *self, int worker, size_t item, pf_error *error)
{
    (void)worker;
    (void)error;
    impulses *x = self;
    const pf_design_job *job = x->job;
    int n = x->s->n_columns, e_n = job->n_residuals;
    size_t start = item / (size_t)n, i = item % (size_t)n;
    const double *a = column_signature(x, start, i);
    const double *pa = x->projection + item * (size_t)e_n;
    for (size_t k = 0; k <= i; k++) {
        const double *b = column_signature(x, start, k);
        double plain = 0;
        for (int d = 0; d < x->window; d++) {
            plain += a[d] * b[d] * job->variance[d];
        }
        const double *pb = x->projection + (start * (size_t)n + k) * (size_t)e_n;
        double full = pf__dot(e_n, pa, pb) / job->freedom;
        x->s->gram[item * (size_t)n + k] = pf__dot(x->window, a, b);
        x->s->noise[item * (size_t)n + k] = (1 - job->shrink) * full + job->shrink * plain;
    }
    return PF_OK;
}

static void mirror(pf_sensitivity *s)
{
    size_t n = (size_t)s->n_columns;
    for (size_t start = 0; start < (size_t)s->n_starts; start++) {
        for (size_t i = 0; i < n; i++) {
            for (size_t k = 0; k < i; k++) {
                size_t to = (start * n + k) * n + i, from = (start * n + i) * n + k;
                s->gram[to] = s->gram[from];
                s->noise[to] = s->noise[from];
            }
        }
    }
}

static pf_status take_memory(impulses *x, pf_error *error)
{
    pf_sensitivity *s = x->s;
    pf_arena *arena = &x->s->arena;
    size_t starts = (size_t)s->n_starts, n = (size_t)s->n_columns, d = sizeof(double);
    s->gram = pf__arena_take(arena, starts * n * n, d);
    s->noise = pf__arena_take(arena, starts * n * n, d);
    s->move = pf__arena_take(arena, starts * n * (size_t)s->n_moves + 1, d);
    x->signature = pf__arena_take(arena, starts * n * (size_t)x->window, d);
    x->projection = pf__arena_take(arena, starts * n * (size_t)x->job->n_residuals, d);
    x->free = pf__arena_take(arena, starts * (size_t)x->window, d);
    return arena->failed
               ? pf_fail(error, PF_ERR_MEMORY, "out of memory for %d sensitivities", s->n_columns)
               : PF_OK;
}

static pf_status find(impulses *x, pf_error *error)
{
    const pf_effort *effort = x->job->effort;
    int workers = x->study.c.n_workers;
    size_t starts = (size_t)x->s->n_starts, all = starts * (size_t)x->s->n_columns;
    // what a prediction starts from: a state of the plant, or several readings
    size_t state = (size_t)x->study.c.build.kit.n_state;
    x->starts = pf__arena_take(&x->s->arena, starts * state + 1, sizeof *x->starts);
    if (!x->starts) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for the starts");
    }
    pf_status status =
        pf__parallel_kept(effort, workers, starts, run_free, free_slots, x, "starts", error);
    status = status ? status
                    : pf__parallel_kept(effort, workers, all, run_impulse, impulse_slots, x,
                                        "sensitivities", error);
    status = status ? status : pf__parallel(effort, workers, all, project, x, "covariance", error);
    status = status ? status : pf__parallel(effort, workers, all, multiply, x, "covariance", error);
    if (status == PF_OK) {
        mirror(x->s);
    }
    return status;
}

pf_status pf__sensitivity_find(pf_sensitivity *s, pf_design_job *job, pf_error *error)
{
    const pf_design_config *c = job->config;
    *s = (pf_sensitivity){.n_starts = STARTS,
                          .steps = c->steps,
                          .n_mech = c->n_mech,
                          .n_columns = (c->n_mech - 1) * c->steps * 2,
                          .levels = job->levels,
                          .config = c};
    while (s->n_starts > 1 && 2.0 * s->n_starts * s->n_columns * s->n_columns > most_doubles) {
        s->n_starts--;
    }
    for (int i = 0; i < c->n_chan; i++) {
        s->n_moves += isfinite(c->most[i]) ? c->rows : 0;
    }
    impulses x = {.job = job, .s = s, .window = c->rows * c->n_chan};
    pf_plan_probe *probes = pf__arena_take(&s->arena, (size_t)s->n_columns, sizeof *probes);
    if (!probes) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for the sensitivities");
    }
    pf_status status = take_memory(&x, error);
    status = status ? status : impulse_probes(&x, probes, error);
    if (status != PF_OK) {
        return status;
    }
    status = pf__study_open(&x.study, job, s->n_columns, probes, true, false, error);
    status = status ? status : find(&x, error);
    pf__study_close(&x.study);
    return status;
}

void pf__sensitivity_free(pf_sensitivity *s)
{
    pf__arena_free(&s->arena);
}
