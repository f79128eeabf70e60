// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "bank.h"

#include "../calibrate/observe.h"
#include "preflight/certificate.h"
#include "preflight/recovery.h"

#include <math.h>
#include <string.h>

static int most_task_rows(const pf_kit *k)
{
    int most = 0;
    for (int t = 0; t < k->n_tasks; t++) {
        int rows = pf_kit_task_rows(k, t);
        most = rows > most ? rows : most;
    }
    return most;
}

// What only a learned model needs.
static pf_status take_model(pf_bank *b, const pf_model *model, pf_error *error)
{
    const pf_kit *k = b->kit;
    b->model = model;
    b->n_members = pf_plant_get_info(b->plant)->calm ? 1 : PF_BANK_DRAWS;
    if (!model) {
        return PF_OK;
    }
    b->n_members = pf_model_get_info(model)->n_members;
    size_t responses = PF_BANK_NODES * b->task_window;
    b->table = pf_arena_take(&b->arena, responses + pf_model_scratch(model, PF_BANK_NODES),
                             sizeof(double));
    b->table_gains = pf_arena_take(&b->arena, PF_BANK_NODES * (size_t)k->n_mech, sizeof(double));
    if (b->arena.failed) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for the responses of a model");
    }
    return pf_ensemble_create(&b->ensemble, model, k, error);
}

pf_status pf_bank_init(pf_bank *b, pf_plant *plant, const pf_kit *k, const pf_model *model,
                       pf_error *error)
{
    memset(b, 0, sizeof *b);
    b->plant = plant;
    b->kit = k;
    size_t probes = (size_t)k->n_probes, tasks = (size_t)k->n_tasks, d = sizeof(double);
    size_t task_rows = (size_t)most_task_rows(k), probe_rows = (size_t)pf_kit_most_rows(k);
    size_t rows = task_rows > probe_rows ? task_rows : probe_rows, chan = (size_t)k->n_chan;
    b->task_window = task_rows * chan;
    b->evidence = pf_arena_take(&b->arena, 2 * PF_BANK_OPPORTUNITIES * probes, sizeof *b->evidence);
    b->recovery = pf_arena_take(&b->arena, 2 * PF_BANK_RECOVERIES * probes, sizeof *b->recovery);
    double *discrepancies =
        pf_arena_take(&b->arena, 2 * PF_BANK_RECOVERIES * probes * (size_t)k->n_grid, d);
    b->nte = pf_arena_take(&b->arena, tasks * PF_BANK_MEMBERS * PF_BANK_NODES, d);
    b->fallback = pf_arena_take(&b->arena, tasks, d);
    b->energy = pf_arena_take(&b->arena, tasks, d);
    b->reference = pf_arena_take(&b->arena, tasks * b->task_window, d);
    size_t states = (size_t)pf_plant_get_info(plant)->n_state + 1;
    b->start = pf_arena_take(&b->arena, states, d);
    b->initial = pf_arena_take(&b->arena, chan, d);
    b->gains = pf_arena_take(&b->arena, (size_t)k->n_mech, d);
    b->begin = pf_arena_take(&b->arena, (size_t)k->n_state + 1, d);
    pf_status status = take_model(b, model, error);
    b->response = pf_arena_take(&b->arena, rows * chan, d);
    b->nominal = pf_arena_take(&b->arena, rows * chan, d);
    b->predicted = pf_arena_take(&b->arena, rows * chan, d);
    b->still = pf_arena_take(&b->arena, rows * (size_t)k->n_mech, d);
    if (status == PF_OK && b->arena.failed) {
        status = pf_fail(error, PF_ERR_MEMORY, "out of memory for the responses of a trial");
    }
    if (status != PF_OK) {
        pf_bank_free(b);
        return status;
    }
    for (size_t i = 0; i < 2 * PF_BANK_RECOVERIES * probes; i++) {
        b->recovery[i].d = discrepancies + i * (size_t)k->n_grid;
    }
    return PF_OK;
}

void pf_bank_free(pf_bank *b)
{
    pf_ensemble_destroy(b->ensemble);
    b->ensemble = NULL;
    pf_arena_free(&b->arena);
}

void pf_bank_start(pf_bank *b, uint64_t seed, uint64_t trial, pf_purpose purpose, int changed,
                   double gain)
{
    const pf_kit *k = b->kit;
    b->seed = seed;
    b->trial = trial;
    b->purpose = purpose;
    b->changed = changed;
    b->gain = gain;
    b->started = false;
    for (int i = 0; i < 2 * PF_BANK_OPPORTUNITIES * k->n_probes; i++) {
        b->evidence[i].known = false;
    }
    for (int i = 0; i < 2 * PF_BANK_RECOVERIES * k->n_probes; i++) {
        b->recovery[i].known = false;
    }
}

static const double *set_gains(pf_bank *b, int mechanism, double gain)
{
    for (int j = 0; j < b->kit->n_mech; j++) {
        b->gains[j] = 1;
    }
    b->gains[mechanism] = mechanism > 0 ? gain : 1;
    return b->gains;
}

static pf_key stream(const pf_bank *b, pf_purpose purpose, int index)
{
    return pf_key_stream(b->seed, pf_plant_get_info(b->plant)->name, b->trial, purpose,
                         (uint64_t)index);
}

// The physical response to a probe into b->response, its start into b->begin.
static pf_status observe(pf_bank *b, int probe, pf_key key, bool faulty, pf_error *error)
{
    pf_rig rig = {.plant = b->plant,
                  .kit = b->kit,
                  .gains = set_gains(b, faulty ? b->changed : 0, b->gain),
                  .start = b->begin,
                  .response = b->response};
    b->rolls++;
    return pf_rig_run(&rig, probe, key, error);
}

static pf_status make_recall(pf_bank *b, pf_error *error)
{
    const pf_kit *k = b->kit;
    pf_recall *r = &b->recall;
    size_t slots = (size_t)k->n_probes * ((size_t)k->n_grid + 2), d = sizeof(double);
    r->window = (size_t)pf_kit_most_rows(k) * (size_t)k->n_chan;
    r->start = pf_arena_take(&b->arena, slots * ((size_t)k->n_state + 1), d);
    r->response = pf_arena_take(&b->arena, slots * r->window, d);
    r->known = pf_arena_take(&b->arena, slots, sizeof *r->known);
    return b->arena.failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory for predictions") : PF_OK;
}

// Where a prediction is kept; -1: nowhere. Gains are those of the kit.
static int recall_slot(const pf_kit *k, int probe, int mechanism, double gain)
{
    int at = mechanism == 0 ? 0 : gain == k->g_cal ? 1 : -1;
    for (int g = 0; g < k->n_grid && at < 0; g++) {
        at = k->grid[g] == gain ? g + 2 : -1;
    }
    return at < 0 ? -1 : probe * (k->n_grid + 2) + at;
}

static pf_status ask_twin(pf_bank *b, const pf_hypothesis *h, double *out, pf_error *error)
{
    pf_twin twin = {b->plant, b->kit};
    b->rolls++;
    return pf_twin_predictor(&twin).predict(&twin, h, b->begin, b->kit->n_state, out, error);
}

// A prediction that is asked for again from the same start is not asked for.
static pf_status recall_twin(pf_bank *b, const pf_hypothesis *h, double *out, pf_error *error)
{
    const pf_kit *k = b->kit;
    pf_recall *r = &b->recall;
    pf_status status = r->known ? PF_OK : make_recall(b, error);
    int slot = recall_slot(k, h->probe, h->mechanism, h->gain);
    if (status != PF_OK || slot < 0) {
        return status ? status : ask_twin(b, h, out, error);
    }
    size_t n = sizeof(double) * (size_t)pf_kit_probe_rows(k, h->probe) * (size_t)k->n_chan;
    size_t states = sizeof(double) * (size_t)k->n_state;
    double *start = r->start + (size_t)slot * ((size_t)k->n_state + 1);
    double *response = r->response + (size_t)slot * r->window;
    if (!r->known[slot] || memcmp(start, b->begin, states) != 0) {
        status = ask_twin(b, h, response, error);
        memcpy(start, b->begin, states);
        r->known[slot] = status == PF_OK;
    }
    memcpy(out, response, n);
    return status;
}

static pf_status predict(pf_bank *b, int probe, int mechanism, double gain, double *out,
                         pf_error *error)
{
    pf_hypothesis h = {probe, mechanism, gain};
    if (b->ensemble) {
        pf_predictor p = pf_ensemble_predictor(b->ensemble);
        return p.predict(p.self, &h, b->begin, b->kit->n_state, out, error);
    }
    return pf_plant_get_info(b->plant)->n_metrics > 0 ? recall_twin(b, &h, out, error)
                                                      : ask_twin(b, &h, out, error);
}

static pf_status make_pool(pf_bank *b, pf_error *error)
{
    const pf_kit *k = b->kit;
    pf_pool *p = &b->pool;
    size_t probes = (size_t)k->n_probes, d = sizeof(double);
    p->window = (size_t)pf_kit_most_rows(k) * (size_t)k->n_chan;
    p->start = pf_arena_take(&b->arena, PF_POOL_STARTS * ((size_t)k->n_state + 1), d);
    p->started = pf_arena_take(&b->arena, PF_POOL_STARTS, sizeof *p->started);
    p->known = pf_arena_take(&b->arena, PF_POOL_STARTS * probes, sizeof *p->known);
    p->responses = pf_arena_take(&b->arena, PF_POOL_STARTS * probes * 2 * p->window, d);
    return b->arena.failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory for alarm trials")
                           : PF_OK;
}

// The two predictions of a probe from a start of the pool, computed once.
static pf_status fill_pool(pf_bank *b, int at, int probe, double *responses, pf_error *error)
{
    const pf_kit *k = b->kit;
    pf_pool *p = &b->pool;
    double *start = p->start + (size_t)at * ((size_t)k->n_state + 1);
    pf_status status = PF_OK;
    if (!p->started[at]) {
        pf_roll reset = pf_roll_default();
        reset.key = pf_key_stream(b->seed, pf_plant_get_info(b->plant)->name, (uint64_t)at,
                                  PF_PURPOSE_THRESHOLD, 1u << 20);
        status = pf_plant_roll(b->plant, &reset, &(pf_trace){.start = start}, error);
        p->started[at] = status == PF_OK;
    }
    memcpy(b->begin, start, sizeof(double) * (size_t)k->n_state);
    if (status == PF_OK) {
        status = predict(b, probe, 0, 1, responses, error);
    }
    int target = k->target_mech[k->probe_target[probe]];
    if (status == PF_OK) {
        status = predict(b, probe, target, k->g_cal, responses + p->window, error);
    }
    p->known[at * k->n_probes + probe] = status == PF_OK;
    return status;
}

// A nominal response of a calm plant: its prediction and the noise of the sensors.
static pf_status draw_pooled(pf_bank *b, int probe, pf_key key, pf_error *error)
{
    const pf_kit *k = b->kit;
    pf_pool *p = &b->pool;
    pf_status status = p->start ? PF_OK : make_pool(b, error);
    if (status != PF_OK) {
        return status;
    }
    int at = (int)(key % PF_POOL_STARTS), rows = pf_kit_probe_rows(k, probe);
    double *responses =
        p->responses + ((size_t)at * (size_t)k->n_probes + (size_t)probe) * 2 * p->window;
    if (!p->known[at * k->n_probes + probe]) {
        status = fill_pool(b, at, probe, responses, error);
    }
    size_t bytes = sizeof(double) * (size_t)rows * (size_t)k->n_chan;
    memcpy(b->nominal, responses, bytes);
    memcpy(b->response, responses, bytes);
    memcpy(b->predicted, responses + p->window, bytes);
    pf_observe_noise(pf_plant_get_info(b->plant), key, rows, k->sensor_noise, k->return_scale,
                     b->response);
    return status;
}

pf_status pf_bank_stage1(pf_bank *b, int opportunity, int probe, bool faulty,
                         const pf_evidence **out, pf_error *error)
{
    const pf_kit *k = b->kit;
    if (opportunity >= PF_BANK_OPPORTUNITIES) {
        return pf_fail(error, PF_ERR_INTERNAL, "more opportunities than a trial has room for");
    }
    pf_evidence *e = &b->evidence[(opportunity * k->n_probes + probe) * 2 + faulty];
    *out = e;
    if (e->known) {
        return PF_OK;
    }
    int rows = pf_kit_probe_rows(k, probe), n = rows * k->n_chan;
    int target = k->target_mech[k->probe_target[probe]];
    pf_key key = stream(b, b->purpose, opportunity);
    pf_status status =
        b->pooled ? draw_pooled(b, probe, key, error) : observe(b, probe, key, faulty, error);
    if (status == PF_OK && !b->pooled) {
        status = predict(b, probe, 0, 1, b->nominal, error);
    }
    if (status == PF_OK && !b->pooled) {
        status = predict(b, probe, target, k->g_cal, b->predicted, error);
    }
    if (status != PF_OK) {
        return status;
    }
    pf_scaled_difference(rows, k->n_chan, b->response, b->nominal, k->scale, k->n_scale,
                         b->response);
    pf_scaled_difference(rows, k->n_chan, b->predicted, b->nominal, k->scale, k->n_scale,
                         b->predicted);
    pf_match_targets(1, n, b->predicted, b->response, NULL, &e->match);
    e->norm = pf_residual_norm(n, b->response);
    e->known = true;
    return PF_OK;
}

static double discrepancy(pf_bank *b, int rows)
{
    const pf_kit *k = b->kit;
    pf_scaled_difference(rows, k->n_chan, b->response, b->predicted, k->scale, k->n_scale,
                         b->predicted);
    return pf_discrepancy(rows * k->n_chan, b->predicted);
}

pf_status pf_bank_stage2(pf_bank *b, int index, int probe, bool faulty,
                         const pf_recovery_evidence **out, pf_error *error)
{
    const pf_kit *k = b->kit;
    if (index >= PF_BANK_RECOVERIES) {
        return pf_fail(error, PF_ERR_INTERNAL, "more recovery probes than a trial has room for");
    }
    pf_recovery_evidence *e = &b->recovery[(index * k->n_probes + probe) * 2 + faulty];
    *out = e;
    if (e->known) {
        return PF_OK;
    }
    int rows = pf_kit_probe_rows(k, probe), target = k->target_mech[k->probe_target[probe]];
    pf_status status = observe(b, probe, stream(b, PF_PURPOSE_RECOVERY, index), faulty, error);
    if (status == PF_OK) {
        status = predict(b, probe, 0, 1, b->predicted, error);
        e->d_nominal = discrepancy(b, rows);
    }
    for (int g = 0; g < k->n_grid && status == PF_OK; g++) {
        status = predict(b, probe, target, k->grid[g], b->predicted, error);
        e->d[g] = discrepancy(b, rows);
    }
    e->known = status == PF_OK;
    return status;
}

// --- tasks

static pf_status roll_task(pf_bank *b, int task, pf_roll *roll, double *out, pf_error *error)
{
    roll->rows = pf_kit_task_rows(b->kit, task);
    b->rolls++;
    return pf_plant_roll(b->plant, roll, &(pf_trace){.output = out}, error);
}

static const double *task_command(const pf_kit *k, int task)
{
    return k->task_command + (size_t)k->task_row[task] * (size_t)k->n_mech;
}

// One start for all tasks of the trial, and the undisturbed reference of each.
static pf_status start_tasks(pf_bank *b, pf_error *error)
{
    const pf_kit *k = b->kit;
    pf_roll reset = pf_roll_default();
    reset.key = stream(b, PF_PURPOSE_TASK, 0);
    reset.command = b->still;
    pf_trace trace = {.start = b->start, .initial = b->initial};
    pf_status status = pf_plant_roll(b->plant, &reset, &trace, error);
    for (int t = 0; t < k->n_tasks && status == PF_OK; t++) {
        double *reference = b->reference + (size_t)t * b->task_window;
        pf_roll roll = pf_roll_default();
        roll.start = b->start;
        roll.command = b->still;
        status = roll_task(b, t, &roll, b->nominal, error);
        if (status == PF_OK) {
            roll.command = task_command(k, t);
            status = roll_task(b, t, &roll, reference, error);
        }
        b->energy[t] = pf_tracking_distance(pf_kit_task_rows(k, t), k->n_chan, k->return_scale,
                                            reference, b->nominal);
        b->fallback[t] = NAN;
        if (status == PF_OK && !(b->energy[t] > 0)) {
            status = pf_fail(error, PF_ERR_DEGENERATE, "task '%s' moves no channel",
                             pf_kit_task_name(k, t));
        }
    }
    for (int i = 0; i < k->n_tasks * PF_BANK_MEMBERS * PF_BANK_NODES; i++) {
        b->nte[i] = NAN;
    }
    b->started = status == PF_OK;
    return status;
}

// A member of a learned model at every node in one request, against the recorded reference.
static pf_status model_nodes(pf_bank *b, int task, int member, pf_error *error)
{
    const pf_kit *k = b->kit;
    int rows = pf_kit_task_rows(k, task), j = k->use_mech[k->task_use[task]];
    const double *reference = b->reference + (size_t)task * b->task_window;
    double *nte = &b->nte[(task * PF_BANK_MEMBERS + member) * PF_BANK_NODES];
    for (int i = 0; i < PF_BANK_NODES * k->n_mech; i++) {
        b->table_gains[i] = i % k->n_mech == j ? i / k->n_mech / 8.0 : 1;
    }
    pf_model_request request = {b->initial, task_command(k, task), rows, PF_BANK_NODES,
                                b->table_gains};
    pf_status status = pf_model_roll(b->model, member, &request,
                                     b->table + PF_BANK_NODES * b->task_window, b->table, error);
    for (int n = 0; n < PF_BANK_NODES && status == PF_OK; n++) {
        nte[n] =
            pf_tracking_distance(rows, k->n_chan, k->return_scale,
                                 b->table + (size_t)n * (size_t)(rows * k->n_chan), reference) /
            b->energy[task];
    }
    return status;
}

static pf_status node(pf_bank *b, int task, int member, int n, double *value, pf_error *error)
{
    const pf_kit *k = b->kit;
    double *nte = &b->nte[(task * PF_BANK_MEMBERS + member) * PF_BANK_NODES + n];
    *value = *nte;
    if (!isnan(*nte)) {
        return PF_OK;
    }
    if (b->model) {
        pf_status status = model_nodes(b, task, member, error);
        *value = *nte;
        return status;
    }
    pf_roll roll = pf_roll_default();
    roll.start = b->start;
    roll.key = stream(b, PF_PURPOSE_MEMBER, member);
    roll.gains = set_gains(b, k->use_mech[k->task_use[task]], n / 8.0);
    roll.command = task_command(k, task);
    roll.disturbance = true;
    pf_status status = roll_task(b, task, &roll, b->response, error);
    const double *reference = b->reference + (size_t)task * b->task_window;
    *nte = pf_tracking_distance(roll.rows, k->n_chan, k->return_scale, b->response, reference) /
           b->energy[task];
    *value = *nte;
    return status;
}

pf_status pf_bank_nte(pf_bank *b, int task, int member, double share, double *nte, pf_error *error)
{
    pf_status status = b->started ? PF_OK : start_tasks(b, error);
    if (status != PF_OK) {
        return status;
    }
    // the parabola through the three nodes around the share; nodes are hit exactly
    double at = fmin(fmax(8 * share, 0), PF_BANK_NODES - 1);
    int middle = (int)lround(at);
    middle = middle < 1 ? 1 : middle > PF_BANK_NODES - 2 ? PF_BANK_NODES - 2 : middle;
    double x = at - middle, y[3];
    if (x == 0) {
        return node(b, task, member, middle, nte, error);
    }
    for (int i = 0; i < 3 && status == PF_OK; i++) {
        status = node(b, task, member, middle - 1 + i, &y[i], error);
    }
    double parabola = y[1] + .5 * x * (y[2] - y[0]) + .5 * x * x * (y[2] - 2 * y[1] + y[0]);
    if (status == PF_OK && !isfinite(parabola)) {
        return pf_fail(error, PF_ERR_NONFINITE, "task '%s': its tracking error is not finite",
                       pf_kit_task_name(b->kit, task));
    }
    *nte = fmax(parabola, 0);
    return status;
}

pf_status pf_bank_fly(pf_bank *b, int task, double correction, double *ret, pf_error *error)
{
    const pf_kit *k = b->kit;
    pf_status status = b->started ? PF_OK : start_tasks(b, error);
    if (status != PF_OK) {
        return status;
    }
    if (correction == 1 && !isnan(b->fallback[task])) {
        *ret = b->fallback[task];
        return PF_OK;
    }
    int j = k->use_mech[k->task_use[task]], rows = pf_kit_task_rows(k, task);
    const double *command = task_command(k, task);
    for (int i = 0; i < rows * k->n_mech; i++) {
        int mechanism = i % k->n_mech;
        b->still[i] = mechanism == j
                          ? pf_corrected_command(command[i], correction, k->lo[j], k->hi[j])
                          : command[i];
    }
    pf_roll roll = pf_roll_default();
    roll.start = b->start;
    roll.key = stream(b, PF_PURPOSE_TASK, 1);
    roll.gains = set_gains(b, b->changed, b->gain);
    roll.command = b->still;
    roll.disturbance = true;
    status = roll_task(b, task, &roll, b->response, error);
    memset(b->still, 0, sizeof(double) * (size_t)rows * (size_t)k->n_mech);
    const double *reference = b->reference + (size_t)task * b->task_window;
    *ret =
        pf_return(pf_tracking_distance(rows, k->n_chan, k->return_scale, b->response, reference) /
                  b->energy[task]);
    if (correction == 1) {
        b->fallback[task] = *ret;
    }
    return status;
}
