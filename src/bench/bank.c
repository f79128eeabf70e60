// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "bank.h"

#include "run/drive.h"
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
    size_t most = (size_t)pf_kit_most_targets(k), row = most * (size_t)k->n_grid;
    double *discrepancies = pf_arena_take(&b->arena, 2 * PF_BANK_RECOVERIES * probes * row, d);
    pf_match *matches =
        pf_arena_take(&b->arena, 2 * PF_BANK_OPPORTUNITIES * probes * most, sizeof *matches);
    b->nte = pf_arena_take(&b->arena, tasks * PF_BANK_MEMBERS * PF_BANK_NODES, d);
    b->fallback = pf_arena_take(&b->arena, tasks, d);
    b->energy = pf_arena_take(&b->arena, tasks, d);
    b->reference = pf_arena_take(&b->arena, tasks * b->task_window, d);
    size_t states = (size_t)pf_plant_get_info(plant)->n_state + 1;
    b->start = pf_arena_take(&b->arena, states, d);
    b->initial = pf_arena_take(&b->arena, chan, d);
    b->gains = pf_arena_take(&b->arena, (size_t)k->n_mech, d);
    b->truth = pf_arena_take(&b->arena, (size_t)k->n_mech, d);
    b->signatures = pf_arena_take(&b->arena, most * probe_rows * chan, d);
    b->scratch = pf_arena_take(&b->arena, pf_match_scratch((int)most), d);
    b->twin = (pf_twin){plant, k};
    b->begin = pf_arena_take(&b->arena, (size_t)k->n_state + 1, d);
    pf_status status = take_model(b, model, error);
    b->response = pf_arena_take(&b->arena, rows * chan, d);
    b->nominal = pf_arena_take(&b->arena, rows * chan, d);
    b->predicted = pf_arena_take(&b->arena, rows * chan, d);
    b->residual = pf_arena_take(&b->arena, rows * chan, d);
    b->still = pf_arena_take(&b->arena, rows * (size_t)k->n_mech, d);
    if (status == PF_OK && pf_plant_is_process(pf_plant_get_info(plant)->name)) {
        status = pf_memo_init(&b->memo, &b->arena, k->n_state, probe_rows * chan, error);
    }
    if (status == PF_OK && b->arena.failed) {
        status = pf_fail(error, PF_ERR_MEMORY, "out of memory for the responses of a trial");
    }
    if (status != PF_OK) {
        pf_bank_free(b);
        return status;
    }
    for (size_t i = 0; i < 2 * PF_BANK_RECOVERIES * probes; i++) {
        b->recovery[i].d = discrepancies + i * row;
    }
    for (size_t i = 0; i < 2 * PF_BANK_OPPORTUNITIES * probes; i++) {
        b->evidence[i].match = matches + i * most;
    }
    return PF_OK;
}

pf_status pf_bank_pool(pf_bank *b, pf_error *error)
{
    b->pool =
        pf_arena_take(&b->arena, PF_BANK_POOL * ((size_t)b->kit->n_state + 1), sizeof(double));
    b->pool_known = pf_arena_take(&b->arena, PF_BANK_POOL, sizeof *b->pool_known);
    return b->arena.failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory for alarm trials")
                           : PF_OK;
}

void pf_bank_free(pf_bank *b)
{
    pf_ensemble_destroy(b->ensemble);
    b->ensemble = NULL;
    pf_arena_free(&b->arena);
}

void pf_bank_start(pf_bank *b, uint64_t seed, uint64_t trial, pf_purpose purpose, int n,
                   const int *mechanisms, const double *gains)
{
    const pf_kit *k = b->kit;
    for (int j = 0; j < k->n_mech; j++) {
        b->gains[j] = 1;
    }
    for (int i = 0; i < n; i++) {
        b->gains[mechanisms[i]] = gains[i];
    }
    size_t truth = (size_t)k->n_mech * sizeof *b->truth;
    if (b->any && b->seed == seed && b->trial == trial && b->purpose == purpose &&
        memcmp(b->truth, b->gains, truth) == 0) {
        return; // the same trial in another setting
    }
    memcpy(b->truth, b->gains, truth);
    b->any = true;
    b->seed = seed;
    b->trial = trial;
    b->purpose = purpose;
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

pf_key pf_bank_stream(const pf_bank *b, pf_purpose purpose, int index)
{
    return pf_key_stream(b->seed, pf_plant_get_info(b->plant)->name, b->trial, purpose,
                         (uint64_t)index);
}

// The physical response to a probe into b->response, its start into b->begin.
static pf_status observe(pf_bank *b, int probe, pf_key key, bool faulty, pf_error *error)
{
    pf_rig rig = {.plant = b->plant,
                  .kit = b->kit,
                  .gains = faulty ? b->truth : set_gains(b, 0, 1),
                  .start = b->begin,
                  .response = b->response};
    b->rolls++;
    return pf_rig_run(&rig, probe, key, error);
}

static pf_predictor predictor(pf_bank *b)
{
    return b->ensemble ? pf_ensemble_predictor(b->ensemble) : pf_twin_predictor(&b->twin);
}

// What is predicted from b->begin; answers of a process are kept.
static pf_status predict(void *self, const pf_hypothesis *h, const double *start, int n_start,
                         double *out, pf_error *error)
{
    pf_bank *b = self;
    size_t n = (size_t)pf_kit_probe_rows(b->kit, h->probe) * (size_t)b->kit->n_chan;
    const double *kept = b->memo.known ? pf_memo_find(&b->memo, start, h) : NULL;
    if (kept) {
        memcpy(out, kept, n * sizeof *out);
        return PF_OK;
    }
    pf_predictor p = predictor(b);
    b->rolls += !b->ensemble;
    pf_status status = p.predict(p.self, h, start, n_start, out, error);
    if (status == PF_OK && b->memo.known) {
        pf_memo_keep(&b->memo, start, h, out, n);
    }
    return status;
}

static pf__evidence evidence(pf_bank *b, int probe)
{
    pf__evidence e = {.predictor = {b, predict},
                      .start = b->begin,
                      .n_start = b->kit->n_state,
                      .nominal = b->nominal,
                      .predicted = b->predicted,
                      .residual = b->residual,
                      .signatures = b->signatures,
                      .scratch = b->scratch};
    pf__evidence_set(&e, b->kit, probe);
    return e;
}

// A nominal response of a calm plant from one of a few starts: its prediction and the noise of the
// sensors.
static pf_status observe_pooled(pf_bank *b, int probe, pf_key key, pf_error *error)
{
    const pf_kit *k = b->kit;
    const pf_plant_info *info = pf_plant_get_info(b->plant);
    int at = (int)(key % PF_BANK_POOL);
    double *start = b->pool + (size_t)at * ((size_t)k->n_state + 1);
    pf_status status = PF_OK;
    if (!b->pool_known[at]) {
        pf_roll reset = pf_roll_default();
        reset.key =
            pf_key_stream(b->seed, info->name, (uint64_t)at, PF_PURPOSE_THRESHOLD, 1u << 20);
        status = pf_plant_roll(b->plant, &reset, &(pf_trace){.start = start}, error);
        b->pool_known[at] = status == PF_OK;
    }
    memcpy(b->begin, start, sizeof(double) * (size_t)k->n_state);
    if (status == PF_OK) {
        pf__evidence seen = evidence(b, probe);
        status = pf__evidence_predict(&seen, 0, 1, b->response, error);
    }
    pf_observe_noise(info, key, pf_kit_probe_rows(k, probe), k->sensor_noise, k->return_scale,
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
    pf_key key = pf_bank_stream(b, b->purpose, opportunity);
    pf__evidence seen = evidence(b, probe);
    pf_status status =
        b->pool ? observe_pooled(b, probe, key, error) : observe(b, probe, key, faulty, error);
    if (status == PF_OK) {
        status = pf__evidence_signatures(&seen, error);
    }
    if (status != PF_OK) {
        return status;
    }
    pf__evidence_residual(&seen, b->response);
    pf__evidence_whiten(&seen);
    pf__evidence_match(&seen, e->match);
    e->norm = pf_residual_norm(seen.rows * seen.n_chan, seen.residual);
    e->known = true;
    return PF_OK;
}

pf_status pf_bank_recovery(pf_bank *b, int index, int probe, bool faulty, pf_bank_response *out,
                           pf_error *error)
{
    *out = (pf_bank_response){b->begin, b->response, predictor(b)};
    return observe(b, probe, pf_bank_stream(b, PF_PURPOSE_RECOVERY, index), faulty, error);
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
    pf__evidence seen = evidence(b, probe);
    pf_status status =
        observe(b, probe, pf_bank_stream(b, PF_PURPOSE_RECOVERY, index), faulty, error);
    if (status == PF_OK) {
        status = pf__evidence_distance(&seen, b->response, 0, 1, &e->d_nominal, error);
    }
    for (int i = 0; i < seen.n_targets * k->n_grid && status == PF_OK; i++) {
        status = pf__evidence_distance(&seen, b->response, seen.targets[i / k->n_grid],
                                       k->grid[i % k->n_grid], &e->d[i], error);
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
    reset.key = pf_bank_stream(b, PF_PURPOSE_TASK, 0);
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
    roll.key = pf_bank_stream(b, PF_PURPOSE_MEMBER, member);
    roll.gains = set_gains(b, k->use_mech[k->task_use[task]], n / 8.0);
    roll.command = task_command(k, task);
    roll.disturbance = true;
    pf_status status = roll_task(b, task, &roll, b->response, error);
    if (status != PF_OK) {
        return status;
    }
    const double *reference = b->reference + (size_t)task * b->task_window;
    *nte = pf_tracking_distance(roll.rows, k->n_chan, k->return_scale, b->response, reference) /
           b->energy[task];
    *value = *nte;
    return PF_OK;
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
    double x = at - middle, y[3] = {0};
    int first = x == 0 ? 1 : 0, last = x == 0 ? 1 : 2;
    for (int i = first; i <= last && status == PF_OK; i++) {
        status = node(b, task, member, middle - 1 + i, &y[i], error);
    }
    if (status != PF_OK) {
        return status;
    }
    double parabola = y[1] + .5 * x * (y[2] - y[0]) + .5 * x * x * (y[2] - 2 * y[1] + y[0]);
    double value = x == 0 ? y[1] : parabola;
    if (!isfinite(value)) {
        return pf_fail(error, PF_ERR_NONFINITE, "task '%s': its tracking error is not finite",
                       pf_kit_task_name(b->kit, task));
    }
    *nte = fmax(value, 0);
    return PF_OK;
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
    roll.key = pf_bank_stream(b, PF_PURPOSE_TASK, 1);
    roll.gains = b->truth;
    roll.command = b->still;
    roll.disturbance = true;
    status = roll_task(b, task, &roll, b->response, error);
    memset(b->still, 0, sizeof(double) * (size_t)rows * (size_t)k->n_mech);
    if (status != PF_OK) {
        return status;
    }
    const double *reference = b->reference + (size_t)task * b->task_window;
    *ret =
        pf_return(pf_tracking_distance(rows, k->n_chan, k->return_scale, b->response, reference) /
                  b->energy[task]);
    if (correction == 1) {
        b->fallback[task] = *ret;
    }
    return status;
}
