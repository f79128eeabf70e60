// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "run_impl.h"
#include "model/rollout.h"
#include "plant/plant_impl.h"

#include "host/arena.h"

#include <stdlib.h>
#include <string.h>

// Responses of one request that are kept.
typedef struct block {
    int probe;        // -1: nothing is kept
    double *start;    // n_state of the kit
    double *others;   // n_mech: what the other mechanisms have; NULL: 1
    double *response; // hypotheses x rows x n_chan
} block;

// What pf_predictor_create makes. Owned by one thread; nothing is allocated while it predicts.
//
// Requests to a model have a fixed shape, so that bits never depend on what else was asked. From
// one start a probe has two blocks: the nominal response with every target at g_cal, and every
// target at every gain of the grid. The first hypothesis of a block computes all of it, the others
// read it. A target at g_cal always comes from the first block; what is in neither is a request of
// its own.
typedef struct source {
    const pf_kit *kit;
    pf_kit_info info; // of the kit
    pf_plant *twin;
    const pf_model *model; // NULL: the twin predicts, and nothing below is used
    block first, grid;
    block each;      // targets healthy and at each grid gain, the others at gains of their own
    double *gains;   // hypotheses x n_mech
    double *scratch; // of the largest request
    pf_arena arena;
} source;

// --- a twin: one undisturbed rollout from the saved start

static pf_status roll_twin(const source *s, pf_roll *roll, const double *start, int n_start,
                           double *response, pf_error *error)
{
    const pf_plant_info *info = pf_plant_get_info(s->twin);
    if (n_start != info->n_state || (info->n_state > 0 && !start)) {
        return pf_fail(error, PF_ERR_PREDICTION, "state: %d numbers, the twin %s needs %d", n_start,
                       info->name, info->n_state);
    }
    roll->start = info->n_state > 0 ? start : NULL;
    return pf_plant_roll(s->twin, roll, &(pf_trace){.output = response}, error);
}

// gains: room for n_mech.
static pf_status twin_roll(const source *s, const pf_hypothesis *h, double *gains, pf_roll *roll,
                           pf_error *error)
{
    for (int j = 0; j < s->info.n_mech; j++) {
        gains[j] = j == h->mechanism ? h->gain : h->others ? h->others[j] : 1;
    }
    *roll = pf_roll_default();
    roll->gains = gains;
    return pf__probe_roll(pf_plant_get_info(s->twin), s->kit, h->probe, roll, error);
}

static pf_status predict_twin(void *self, const pf_hypothesis *h, const double *start, int n_start,
                              double *response, pf_error *error)
{
    const source *s = self;
    double gains[PF_MECH_MAX];
    pf_roll roll;
    pf_status status = twin_roll(s, h, gains, &roll, error);
    return status ? status : roll_twin(s, &roll, start, n_start, response, error);
}

bool pf__predicts_many(const pf_predictor *predictor)
{
    return predictor->predict == predict_twin &&
           pf__plant_rolls_many(((const source *)predictor->self)->twin);
}

pf_status pf__predict_many(const pf_predictor *predictor, int n, const pf_hypothesis *h,
                           const double *const *starts, int n_start, double *const *responses,
                           pf_error *error)
{
    const source *s = predictor->self;
    double gains[PF_ROLLS][PF_MECH_MAX];
    pf_roll rolls[PF_ROLLS];
    pf_trace traces[PF_ROLLS];
    pf_status status = PF_OK;
    if (n_start != pf_plant_get_info(s->twin)->n_state) {
        return pf_fail(error, PF_ERR_INTERNAL, "a start of %d numbers", n_start);
    }
    for (int i = 0; i < n && status == PF_OK; i++) {
        status = twin_roll(s, &h[i], gains[i], &rolls[i], error);
        rolls[i].start = starts[i];
        traces[i] = (pf_trace){.output = responses[i]};
    }
    return status ? status : pf__plant_roll_many(s->twin, n, rolls, traces, error);
}

static pf_status run_twin(void *self, const pf_run *run, const double *start, int n_start,
                          double *response, pf_error *error)
{
    const source *s = self;
    pf_roll roll = pf_roll_default();
    roll.gains = run->gains;
    roll.rows = run->rows;
    roll.command = run->command;
    pf_status status = run->command ? PF_OK
                                    : pf__task_policy(pf_plant_get_info(s->twin), s->kit, run->task,
                                                      &roll.policy, error);
    return status ? status : roll_twin(s, &roll, start, n_start, response, error);
}

// --- a learned model: the mean over its members, from the channels before the first command

static void take_memory(source *e)
{
    const pf_kit_info *k = &e->info;
    size_t most = 0, first = 0, grid = 0, each = 0, scratch = 0, chan = (size_t)k->n_chan;
    int healthy = k->faults == PF_FAULTS_MANY; // room for one more hypothesis per target
    for (int q = 0; q < k->n_probes; q++) {
        int targets = pf_kit_probe_targets(e->kit, q, NULL);
        size_t window = (size_t)pf_kit_probe_rows(e->kit, q) * chan;
        const int sizes[] = {1, 1 + targets, targets * k->n_grid,
                             healthy * targets * (1 + k->n_grid)};
        for (int i = 0; i < 4; i++) {
            size_t n = (size_t)sizes[i];
            size_t works = pf__model_scratch(e->model, sizes[i]) + n * window;
            most = n > most ? n : most;
            scratch = works > scratch ? works : scratch;
        }
        first = (size_t)sizes[1] * window > first ? (size_t)sizes[1] * window : first;
        grid = (size_t)sizes[2] * window > grid ? (size_t)sizes[2] * window : grid;
        each = (size_t)sizes[3] * window > each ? (size_t)sizes[3] * window : each;
    }
    // a rehearsal is one hypothesis, however long
    size_t works = pf__model_scratch(e->model, 1) + (size_t)k->rehearsal_rows * chan;
    scratch = works > scratch ? works : scratch;
    size_t state = (size_t)k->n_state;
    e->first = (block){-1, pf__arena_take(&e->arena, state, sizeof(double)), NULL,
                       pf__arena_take(&e->arena, first, sizeof(double))};
    e->grid = (block){-1, pf__arena_take(&e->arena, state, sizeof(double)), NULL,
                      pf__arena_take(&e->arena, grid, sizeof(double))};
    e->each = (block){-1, pf__arena_take(&e->arena, state, sizeof(double)),
                      pf__arena_take(&e->arena, (size_t)k->n_mech, sizeof(double)),
                      pf__arena_take(&e->arena, each, sizeof(double))};
    e->gains = pf__arena_take(&e->arena, most * (size_t)k->n_mech, sizeof(double));
    e->scratch = pf__arena_take(&e->arena, scratch, sizeof(double));
}

// Row `at` of the gains: one mechanism at a gain, all others at theirs (NULL: 1).
static void set_gain(source *e, int at, int mechanism, double gain, const double *others)
{
    double *row = e->gains + (size_t)at * (size_t)e->info.n_mech;
    for (int j = 0; j < e->info.n_mech; j++) {
        row[j] = j == mechanism ? gain : others ? others[j] : 1;
    }
}

static pf_status run_model(void *self, const pf_run *run, const double *start, int n_start,
                           double *response, pf_error *error)
{
    source *e = self;
    if (n_start != e->info.n_state || !start || !run->command) {
        return pf_fail(
            error, PF_ERR_PREDICTION,
            "state: the model needs %d numbers, read before the first command, and a command",
            e->info.n_state);
    }
    for (int j = 0; j < e->info.n_mech; j++) {
        e->gains[j] = run->gains ? run->gains[j] : 1;
    }
    pf_model_request r = {start, run->command, run->rows, 1, e->gains, NULL};
    return pf__model_mean(e->model, &r, e->scratch, response, error);
}

static pf_status request(source *e, int probe, const double *start, int n, double *response,
                         pf_error *error)
{
    pf_model_request r = {
        start, pf_kit_probe_command(e->kit, probe), pf_kit_probe_rows(e->kit, probe), n, e->gains,
        NULL};
    return pf__model_mean(e->model, &r, e->scratch, response, error);
}

static bool holds(const source *e, const block *b, const pf_hypothesis *h, const double *start)
{
    return b->probe == h->probe &&
           memcmp(b->start, start, sizeof(double) * (size_t)e->info.n_state) == 0 &&
           (!b->others ||
            memcmp(b->others, h->others, sizeof(double) * (size_t)e->info.n_mech) == 0);
}

// Asks for the n hypotheses whose gains are set and keeps the answer.
static pf_status fill(source *e, block *b, int probe, const double *start, int n, pf_error *error)
{
    b->probe = -1;
    pf_status status = request(e, probe, start, n, b->response, error);
    if (status == PF_OK) {
        memcpy(b->start, start, sizeof(double) * (size_t)e->info.n_state);
        b->probe = probe;
    }
    return status;
}

static pf_status fill_first(source *e, int probe, const double *start, pf_error *error)
{
    const int32_t *targets = NULL;
    int n = pf_kit_probe_targets(e->kit, probe, &targets);
    set_gain(e, 0, 0, 1, NULL);
    for (int t = 0; t < n; t++) {
        set_gain(e, 1 + t, targets[t], e->info.g_cal, NULL);
    }
    return fill(e, &e->first, probe, start, 1 + n, error);
}

static pf_status fill_grid(source *e, int probe, const double *start, pf_error *error)
{
    const int32_t *targets = NULL;
    int n = pf_kit_probe_targets(e->kit, probe, &targets), n_grid = e->info.n_grid;
    for (int i = 0; i < n * n_grid; i++) {
        set_gain(e, i, targets[i / n_grid], e->info.grid[i % n_grid], NULL);
    }
    return fill(e, &e->grid, probe, start, n * n_grid, error);
}

static pf_status fill_each(source *e, const pf_hypothesis *h, const double *start, pf_error *error)
{
    const int32_t *targets = NULL;
    int targeted = pf_kit_probe_targets(e->kit, h->probe, &targets), n = 1 + e->info.n_grid;
    for (int i = 0; i < targeted * n; i++) {
        double gain = i % n == 0 ? 1 : e->info.grid[i % n - 1];
        set_gain(e, i, targets[i / n], gain, h->others);
    }
    memcpy(e->each.others, h->others, sizeof(double) * (size_t)e->info.n_mech);
    return fill(e, &e->each, h->probe, start, targeted * n, error);
}

// Which block a hypothesis is in and where in it; NULL: in none.
static block *place(source *e, const pf_hypothesis *h, int *at)
{
    const pf_kit_info *k = &e->info;
    const int32_t *targets = NULL;
    int n = pf_kit_probe_targets(e->kit, h->probe, &targets), t = 0;
    if (h->mechanism == 0 && h->gain == 1 && !h->others) {
        *at = 0;
        return &e->first;
    }
    while (t < n && targets[t] != h->mechanism) {
        t++;
    }
    if (t == n || (h->others && k->faults != PF_FAULTS_MANY)) {
        return NULL;
    }
    if (h->others && h->gain == 1) {
        *at = t * (1 + k->n_grid);
        return &e->each;
    }
    if (h->gain == k->g_cal && !h->others) {
        *at = 1 + t;
        return &e->first;
    }
    for (int g = 0; g < k->n_grid; g++) {
        if (h->gain == k->grid[g]) {
            *at = h->others ? t * (1 + k->n_grid) + 1 + g : t * k->n_grid + g;
            return h->others ? &e->each : &e->grid;
        }
    }
    return NULL;
}

static pf_status predict_model(void *self, const pf_hypothesis *h, const double *start, int n_start,
                               double *response, pf_error *error)
{
    source *e = self;
    const pf_kit_info *k = &e->info;
    if (n_start != k->n_state || !start) {
        return pf_fail(error, PF_ERR_PREDICTION,
                       "state: %d numbers, the model needs %d: the channels before the first "
                       "command, %d reading%s of them",
                       n_start, k->n_state, k->n_state / k->n_chan,
                       k->n_state > k->n_chan ? "s, oldest first," : "");
    }
    int at = 0;
    block *b = place(e, h, &at);
    if (!b) {
        set_gain(e, 0, h->mechanism, h->gain, h->others);
        return request(e, h->probe, start, 1, response, error);
    }
    pf_status status = PF_OK;
    if (!holds(e, b, h, start)) {
        status = b == &e->first  ? fill_first(e, h->probe, start, error)
                 : b == &e->grid ? fill_grid(e, h->probe, start, error)
                                 : fill_each(e, h, start, error);
    }
    if (status == PF_OK) {
        size_t window = (size_t)pf_kit_probe_rows(e->kit, h->probe) * (size_t)k->n_chan;
        memcpy(response, b->response + (size_t)at * window, window * sizeof(double));
    }
    return status;
}

pf_status pf_predictor_create(pf_predictor *predictor, const pf_kit *kit, pf_plant *twin,
                              const pf_model *model, pf_error *error)
{
    *predictor = (pf_predictor){NULL, NULL, NULL};
    pf_kit_info info = pf_kit_get_info(kit);
    if (info.recorded) {
        return PF_OK;
    }
    pf_status status = model ? pf_kit_fits_model(kit, model, error) : PF_OK;
    if (!model && (!twin || info.starts_from_channels)) {
        status = pf_fail(error, PF_ERR_PREDICTION, "the kit predicts with a %s; none was given",
                         info.starts_from_channels ? "model" : "twin");
    }
    if (status == PF_OK && !model) {
        status = pf__same_size(&info, pf_plant_get_info(twin), true, error);
    }
    if (status != PF_OK) {
        return status;
    }
    source *s = calloc(1, sizeof *s);
    if (s) {
        *s = (source){.kit = kit, .info = info, .twin = twin, .model = model};
        *predictor =
            (pf_predictor){s, model ? predict_model : predict_twin, model ? run_model : run_twin};
    }
    if (s && model) {
        take_memory(s);
    }
    if (!s || s->arena.failed) {
        pf_predictor_destroy(predictor);
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for the predictions of a model");
    }
    return PF_OK;
}

void pf_predictor_destroy(pf_predictor *predictor)
{
    source *s = predictor->self;
    if (s) {
        pf__arena_free(&s->arena);
        free(s);
    }
    *predictor = (pf_predictor){NULL, NULL, NULL};
}

// --- predictions of the caller's

// A gain that was not given: on the straight line through nominal and g_cal, one mechanism after
// the other.
static void between_given(const pf_given *given, const pf_hypothesis *h, double *response)
{
    const pf_kit *kit = pf_session_kit(given->session);
    pf_kit_info k = pf_kit_get_info(kit);
    const int32_t *targets = NULL;
    int n = pf_kit_probe_targets(kit, h->probe, &targets);
    size_t window = (size_t)pf_kit_probe_rows(kit, h->probe) * (size_t)k.n_chan;
    memcpy(response, given->nominal, window * sizeof(double));
    for (int t = 0; t < n; t++) {
        int j = targets[t];
        double gain = j == h->mechanism ? h->gain : h->others ? h->others[j] : 1;
        double share = (1 - gain) / (1 - k.g_cal);
        const double *fault = given->fault + (size_t)t * window;
        for (size_t i = 0; i < window && gain != 1; i++) {
            response[i] += share * (fault[i] - given->nominal[i]);
        }
    }
}

static pf_status run_given(void *self, const pf_run *run, const double *start, int n_start,
                           double *response, pf_error *error)
{
    pf_given *given = self;
    (void)start;
    (void)n_start;
    size_t window =
        (size_t)run->rows * (size_t)pf_kit_get_info(pf_session_kit(given->session)).n_chan;
    if (given->next_run >= given->n_runs) {
        return pf_fail(error, PF_ERR_PREDICTION, "rehearsal: prediction %d is missing",
                       given->next_run);
    }
    memcpy(response, given->runs + (size_t)given->next_run++ * window, window * sizeof(double));
    return PF_OK;
}

static pf_status predict_given(void *self, const pf_hypothesis *h, const double *start, int n_start,
                               double *response, pf_error *error)
{
    (void)start;
    (void)n_start;
    const pf_given *given = self;
    const pf_kit *kit = pf_session_kit(given->session);
    pf_kit_info k = pf_kit_get_info(kit);
    const int32_t *targets = NULL;
    int n = pf_kit_probe_targets(kit, h->probe, &targets);
    size_t window = (size_t)pf_kit_probe_rows(kit, h->probe) * (size_t)k.n_chan;
    const double *from = h->mechanism == 0 ? given->nominal : NULL;
    for (int t = 0; t < n && !from; t++) {
        if (targets[t] != h->mechanism) {
            continue;
        }
        bool per_gain = pf_session_get_state(given->session).per_gain;
        if (per_gain ? h->gain == 1 : h->gain == k.g_cal && !h->others) {
            from = given->fault + (size_t)t * window;
            break;
        }
        if (!per_gain && given->nearest) {
            from = given->nearest;
            break;
        }
        if (!per_gain) {
            between_given(given, h, response);
            return PF_OK;
        }
        for (int g = 0; g < k.n_grid && !from; g++) {
            if (k.grid[g] == h->gain) {
                from = given->grid + ((size_t)t * (size_t)k.n_grid + (size_t)g) * window;
            }
        }
    }
    if (!from) {
        return pf_fail(error, PF_ERR_INTERNAL, "no prediction for mechanism %d", h->mechanism);
    }
    memcpy(response, from, window * sizeof(double));
    return PF_OK;
}

pf_predictor pf_given_predictor(pf_given *given)
{
    return (pf_predictor){given, predict_given, run_given};
}
