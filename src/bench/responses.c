// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "responses.h"
#include "core/evidence.h"
#include "model/rollout.h"
#include "plant/plant_impl.h"
#include "core/rng.h"
#include "core/score.h"
#include "core/sha256.h"

#include "core/certificate.h"
#include "preflight/base.h"
#include "run/run_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// --- predictions that a process gave before

enum { PLACES = 4096, BYTES = 16 << 20 };

bool pf__responses_cost(const pf_plant_info *info)
{
    return pf__plant_is_process(info->name) || pf__plant_is_mujoco(info->name);
}

pf_status pf__predictions_init(pf_predictions *m, pf_arena *arena, int n_state, size_t window,
                               pf_error *error)
{
    m->n_state = (size_t)n_state;
    m->window = window;
    m->places = BYTES / ((m->n_state + 1 + window) * sizeof(double)) + 1;
    m->places = m->places < PLACES ? m->places : PLACES;
    m->start = pf__arena_take(arena, m->places * (m->n_state + 1), sizeof(double));
    m->response = pf__arena_take(arena, m->places * window, sizeof(double));
    m->hypothesis = pf__arena_take(arena, m->places, sizeof *m->hypothesis);
    m->known = pf__arena_take(arena, m->places, sizeof *m->known);
    return arena->failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory for predictions") : PF_OK;
}

static pf_key mixed(pf_key hash, double number)
{
    uint64_t bits = 0;
    memcpy(&bits, &number, sizeof bits);
    return pf__key_derive(hash, bits);
}

static size_t place_of(const pf_predictions *m, const double *start, const pf_hypothesis *h)
{
    pf_key hash = pf__key_derive((pf_key)h->probe, (uint64_t)h->mechanism);
    hash = mixed(hash, h->gain);
    for (size_t i = 0; i < m->n_state; i++) {
        hash = mixed(hash, start[i]);
    }
    return (size_t)(hash % m->places);
}

const double *pf__predictions_find(const pf_predictions *m, const double *start,
                                   const pf_hypothesis *h)
{
    size_t at = place_of(m, start, h);
    const pf_hypothesis *kept = &m->hypothesis[at];
    bool same = m->known[at] && kept->probe == h->probe && kept->mechanism == h->mechanism &&
                memcmp(&kept->gain, &h->gain, sizeof h->gain) == 0 &&
                memcmp(m->start + at * (m->n_state + 1), start, m->n_state * sizeof *start) == 0;
    return same ? m->response + at * m->window : NULL;
}

void pf__predictions_keep(pf_predictions *m, const double *start, const pf_hypothesis *h,
                          const double *response, size_t n)
{
    size_t at = place_of(m, start, h);
    m->hypothesis[at] = *h;
    memcpy(m->start + at * (m->n_state + 1), start, m->n_state * sizeof *start);
    memcpy(m->response + at * m->window, response, n * sizeof *response);
    m->known[at] = true;
}

// --- responses of one trial

// What only a learned model needs.
static pf_status take_model(pf_responses *r, const pf_model *model, pf_error *error)
{
    const pf_kit *kit = r->kit;
    pf_kit_info k = r->info;
    r->model = model;
    r->n_members = pf_plant_get_info(r->plant)->deterministic ? 1 : PF_RESPONSES_DRAWS;
    if (!model) {
        return PF_OK;
    }
    r->n_members = pf_model_get_info(model)->n_members;
    size_t rows = 0;
    for (int t = 0; t < k.n_tasks; t++) {
        size_t own = (size_t)pf_kit_task_rows(kit, t);
        rows = own > rows ? own : rows;
    }
    r->table = pf__arena_take(&r->arena,
                              PF_RESPONSES_NODES * rows * (size_t)k.n_chan +
                                  pf__model_scratch(model, PF_RESPONSES_NODES),
                              sizeof(double));
    r->table_gains =
        pf__arena_take(&r->arena, PF_RESPONSES_NODES * (size_t)k.n_mech, sizeof(double));
    if (r->arena.failed) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for the responses of a model");
    }
    return PF_OK;
}

pf_status pf__responses_init(pf_responses *r, pf_plant *plant, const pf_kit *kit,
                             const pf_model *model, pf_error *error)
{
    pf_kit_info k = pf_kit_get_info(kit);
    memset(r, 0, sizeof *r);
    r->plant = plant;
    r->kit = kit;
    r->info = k;
    size_t probes = (size_t)k.n_probes, tasks = (size_t)k.n_tasks, d = sizeof(double);
    size_t window = (size_t)k.most_rows * (size_t)k.n_chan;
    r->evidence =
        pf__arena_take(&r->arena, 2 * PF_RESPONSES_OPPORTUNITIES * probes, sizeof *r->evidence);
    r->recovery =
        pf__arena_take(&r->arena, 2 * PF_RESPONSES_RECOVERIES * probes, sizeof *r->recovery);
    size_t most = (size_t)k.most_targets, row = most * (size_t)k.n_grid;
    double *discrepancies =
        pf__arena_take(&r->arena, 2 * PF_RESPONSES_RECOVERIES * probes * row, d);
    pf_match *matches =
        pf__arena_take(&r->arena, 2 * PF_RESPONSES_OPPORTUNITIES * probes * most, sizeof *matches);
    r->nte = pf__arena_take(&r->arena, tasks * PF_RESPONSES_MEMBERS * PF_RESPONSES_NODES, d);
    r->fallback = pf__arena_take(&r->arena, tasks, sizeof *r->fallback);
    r->attainable = pf__arena_take(&r->arena, PF_RESPONSES_VARIANTS * tasks, d);
    r->gains = pf__arena_take(&r->arena, (size_t)k.n_mech, d);
    r->truth = pf__arena_take(&r->arena, (size_t)k.n_mech, d);
    r->signatures = pf__arena_take(&r->arena, most * window, d);
    r->scratch = pf__arena_take(&r->arena, pf__match_scratch((int)most), d);
    r->begin = pf__arena_take(&r->arena, (size_t)k.n_state + 1, d);
    pf_status status = take_model(r, model, error);
    status = status ? status : pf_predictor_create(&r->predictor, kit, plant, model, error);
    status = status ? status : pf_flight_create(&r->flight, plant, kit, error);
    r->response = pf__arena_take(&r->arena, window, d);
    r->nominal = pf__arena_take(&r->arena, window, d);
    r->predicted = pf__arena_take(&r->arena, window, d);
    r->residual = pf__arena_take(&r->arena, window, d);
    if (status == PF_OK && pf__responses_cost(pf_plant_get_info(plant))) {
        status = pf__predictions_init(&r->predictions, &r->arena, k.n_state, window, error);
    }
    if (status == PF_OK && pf__predicts_many(&r->predictor)) {
        size_t rows = 1;
        for (int t = 0; t < k.n_tasks; t++) {
            size_t own = (size_t)pf_kit_task_rows(kit, t);
            rows = own > rows ? own : rows;
        }
        r->window = pf__arena_take(&r->arena, PF_ROLLS * rows * (size_t)k.n_chan, d);
    }
    if (status == PF_OK && r->arena.failed) {
        status = pf_fail(error, PF_ERR_MEMORY, "out of memory for the responses of a trial");
    }
    if (status != PF_OK) {
        pf__responses_free(r);
        return status;
    }
    for (size_t i = 0; i < 2 * PF_RESPONSES_RECOVERIES * probes; i++) {
        r->recovery[i].d = discrepancies + i * row;
    }
    for (size_t i = 0; i < 2 * PF_RESPONSES_OPPORTUNITIES * probes; i++) {
        r->evidence[i].match = matches + i * most;
    }
    return PF_OK;
}

pf_status pf__responses_pool(pf_responses *r, pf_error *error)
{
    r->pool = pf__arena_take(&r->arena, PF_RESPONSES_POOL * ((size_t)r->info.n_state + 1),
                             sizeof(double));
    r->pool_known = pf__arena_take(&r->arena, PF_RESPONSES_POOL, sizeof *r->pool_known);
    return r->arena.failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory for alarm trials")
                           : PF_OK;
}

pf_status pf__responses_anchor(pf_responses *r, pf_error *error)
{
    size_t n = (size_t)r->info.n_tasks * PF_RESPONSES_CURVES * PF_RESPONSES_NODES;
    r->curves = pf__arena_take(&r->arena, n, sizeof *r->curves);
    if (!r->curves) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for error curves");
    }
    for (size_t i = 0; i < n; i++) {
        r->curves[i] = NAN;
    }
    r->anchored = true;
    r->n_members = PF_RESPONSES_CURVES;
    return pf_flight_create(&r->anchor, r->plant, r->kit, error);
}

void pf__responses_free(pf_responses *r)
{
    pf_predictor_destroy(&r->predictor);
    pf_flight_destroy(r->flight);
    pf_flight_destroy(r->anchor);
    r->flight = r->anchor = NULL;
    pf__arena_free(&r->arena);
}

void pf__responses_start(pf_responses *r, uint64_t seed, uint64_t trial, pf_purpose purpose, int n,
                         const int *mechanisms, const double *gains)
{
    pf_kit_info k = r->info;
    for (int j = 0; j < k.n_mech; j++) {
        r->gains[j] = 1;
    }
    for (int i = 0; i < n; i++) {
        r->gains[mechanisms[i]] = gains[i];
    }
    size_t truth = (size_t)k.n_mech * sizeof *r->truth;
    if (r->has_trial && r->seed == seed && r->trial == trial && r->purpose == purpose &&
        memcmp(r->truth, r->gains, truth) == 0) {
        return; // the same trial in another setting
    }
    memcpy(r->truth, r->gains, truth);
    r->has_trial = true;
    r->seed = seed;
    r->trial = trial;
    r->purpose = purpose;
    r->started = false;
    for (int i = 0; i < 2 * PF_RESPONSES_OPPORTUNITIES * k.n_probes; i++) {
        r->evidence[i].known = false;
    }
    for (int i = 0; i < 2 * PF_RESPONSES_RECOVERIES * k.n_probes; i++) {
        r->recovery[i].known = false;
    }
}

static const double *set_gains(pf_responses *r, int mechanism, double gain)
{
    for (int j = 0; j < r->info.n_mech; j++) {
        r->gains[j] = 1;
    }
    r->gains[mechanism] = mechanism > 0 ? gain : 1;
    return r->gains;
}

pf_key pf__responses_stream(const pf_responses *r, pf_purpose purpose, int index)
{
    return pf_key_stream(r->seed, pf_plant_get_info(r->plant)->name, r->trial, purpose,
                         (uint64_t)index);
}

// The physical response to a probe into r->response, its start into r->begin.
static pf_status observe(pf_responses *r, int probe, pf_key key, bool faulty, pf_error *error)
{
    pf_rig rig = {.plant = r->plant,
                  .kit = r->kit,
                  .gains = faulty ? r->truth : set_gains(r, 0, 1),
                  .start = r->begin,
                  .response = r->response};
    r->rolls++;
    if (r->ahead) {
        size_t window = (size_t)pf_kit_probe_rows(r->kit, probe) * (size_t)r->info.n_chan;
        memcpy(r->begin, r->ahead->start, sizeof(double) * (size_t)r->info.n_state);
        memcpy(r->response, r->ahead->response, sizeof(double) * window);
        return PF_OK;
    }
    return pf_rig_run(&rig, probe, key, error);
}

// What is predicted from r->begin; answers that cost much are kept.
static pf_status predict(void *self, const pf_hypothesis *h, const double *start, int n_start,
                         double *out, pf_error *error)
{
    pf_responses *r = self;
    size_t n = (size_t)pf_kit_probe_rows(r->kit, h->probe) * (size_t)r->info.n_chan;
    const double *kept =
        r->predictions.known ? pf__predictions_find(&r->predictions, start, h) : NULL;
    r->rolls += !r->model && !kept;
    kept = kept ? kept : pf__ahead_next(r->ahead, h);
    if (kept) {
        memcpy(out, kept, n * sizeof *out);
        return PF_OK;
    }
    pf_status status = r->predictor.predict(r->predictor.self, h, start, n_start, out, error);
    if (status == PF_OK && r->predictions.known) {
        pf__predictions_keep(&r->predictions, start, h, out, n);
    }
    return status;
}

static pf__evidence evidence(pf_responses *r, int probe)
{
    pf__evidence e = {.predictor = {r, predict, NULL},
                      .start = r->begin,
                      .n_start = r->info.n_state,
                      .nominal = r->nominal,
                      .predicted = r->predicted,
                      .residual = r->residual,
                      .signatures = r->signatures,
                      .scratch = r->scratch};
    pf__evidence_set(&e, r->kit, probe);
    return e;
}

// A nominal response of a deterministic plant from one of a few starts: its prediction and the
// noise of the sensors.
static pf_status observe_pooled(pf_responses *r, int probe, pf_key key, pf_error *error)
{
    const pf_kit *kit = r->kit;
    pf_kit_info k = r->info;
    const pf_plant_info *info = pf_plant_get_info(r->plant);
    int at = (int)(key % PF_RESPONSES_POOL);
    double *start = r->pool + (size_t)at * ((size_t)k.n_state + 1);
    pf_status status = PF_OK;
    if (!r->pool_known[at]) {
        pf_roll reset = pf_roll_default();
        reset.key =
            pf_key_stream(r->seed, info->name, (uint64_t)at, PF_PURPOSE_THRESHOLD, 1u << 20);
        status = pf_plant_roll(r->plant, &reset, &(pf_trace){.start = start}, error);
        r->pool_known[at] = status == PF_OK;
    }
    memcpy(r->begin, start, sizeof(double) * (size_t)k.n_state);
    if (status == PF_OK) {
        pf__evidence seen = evidence(r, probe);
        status = pf__evidence_predict(&seen, 0, 1, r->response, error);
    }
    pf__observe_noise(info, key, pf_kit_probe_rows(kit, probe), k.sensor_noise, k.return_scale,
                      r->response);
    return status;
}

pf_status pf__responses_stage1(pf_responses *r, int opportunity, int probe, bool faulty,
                               const pf_stage1_answer **out, pf_error *error)
{
    pf_kit_info k = r->info;
    if (opportunity >= PF_RESPONSES_OPPORTUNITIES) {
        return pf_fail(error, PF_ERR_INTERNAL, "more opportunities than a trial has room for");
    }
    pf_stage1_answer *e = &r->evidence[(opportunity * k.n_probes + probe) * 2 + faulty];
    *out = e;
    if (e->known) {
        return PF_OK;
    }
    pf_key key = pf__responses_stream(r, r->purpose, opportunity);
    pf__evidence seen = evidence(r, probe);
    pf_status status =
        r->pool ? observe_pooled(r, probe, key, error) : observe(r, probe, key, faulty, error);
    status = status ? status : pf__evidence_signatures(&seen, error);
    if (status != PF_OK) {
        return status;
    }
    pf__evidence_residual(&seen, r->response);
    pf__evidence_whiten(&seen);
    pf__evidence_match(&seen, e->match);
    e->norm = pf__residual_norm(seen.rows * seen.n_chan, seen.residual);
    e->known = true;
    return PF_OK;
}

bool pf__responses_knows(const pf_responses *r, int opportunity, int probe, bool faulty)
{
    return opportunity < PF_RESPONSES_OPPORTUNITIES &&
           r->evidence[(opportunity * r->info.n_probes + probe) * 2 + faulty].known;
}

bool pf__responses_in_step(const pf_responses *r)
{
    return r->window != NULL;
}

// At most PF_ROLLS of them.
static pf_status look_in_step(pf_looks *w, int n, const pf_question *questions, pf_error *error)
{
    const pf_responses *first = questions[0].responses;
    pf_probed probed[PF_ROLLS];
    for (int i = 0; i < n; i++) {
        const pf_responses *r = questions[i].responses;
        probed[i] = (pf_probed){questions[i].faulty ? r->truth : NULL, questions[i].probe,
                                pf__responses_stream(r, r->purpose, questions[i].opportunity)};
    }
    pf_status status = pf__looks_run(w, first->plant, &first->predictor, n, probed, error);
    for (int i = 0; i < n && status == PF_OK; i++) {
        const pf_question *q = &questions[i];
        const pf_stage1_answer *answer = NULL;
        pf_ahead ahead = pf__looks_ahead(w, i);
        q->responses->ahead = &ahead;
        status =
            pf__responses_stage1(q->responses, q->opportunity, q->probe, q->faulty, &answer, error);
        q->responses->ahead = NULL;
    }
    return status;
}

pf_status pf__responses_looks(int n, const pf_question *questions, pf_error *error)
{
    pf_looks w = {.kit = NULL};
    pf_status status = n > 0 ? pf__looks_init(&w, questions[0].responses->kit, error) : PF_OK;
    for (int i = 0; i < n && status == PF_OK; i += PF_ROLLS) {
        status = look_in_step(&w, n - i < PF_ROLLS ? n - i : PF_ROLLS, questions + i, error);
    }
    pf__looks_free(&w);
    return status;
}

pf_status pf__responses_recovery(pf_responses *r, int index, int probe, bool faulty,
                                 pf_recovery_response *out, pf_error *error)
{
    *out = (pf_recovery_response){r->begin, r->response, r->predictor};
    return observe(r, probe, pf__responses_stream(r, PF_PURPOSE_RECOVERY, index), faulty, error);
}

pf_status pf__responses_stage2(pf_responses *r, int index, int probe, bool faulty,
                               const pf_stage2_answer **out, pf_error *error)
{
    pf_kit_info k = r->info;
    if (index >= PF_RESPONSES_RECOVERIES) {
        return pf_fail(error, PF_ERR_INTERNAL, "more recovery probes than a trial has room for");
    }
    pf_stage2_answer *e = &r->recovery[(index * k.n_probes + probe) * 2 + faulty];
    *out = e;
    if (e->known) {
        return PF_OK;
    }
    pf__evidence seen = evidence(r, probe);
    pf_status status =
        observe(r, probe, pf__responses_stream(r, PF_PURPOSE_RECOVERY, index), faulty, error);
    pf_looks w = {.kit = NULL};
    pf_ahead ahead = {.n = 0};
    if (status == PF_OK && pf__responses_in_step(r)) {
        status = pf__looks_init(&w, r->kit, error);
        status = status ? status : pf__looks_grid(&w, &r->predictor, probe, r->begin, error);
        ahead = status ? ahead : pf__looks_ahead(&w, 0);
        r->ahead = &ahead;
    }
    status =
        status ? status : pf__evidence_distance(&seen, r->response, 0, 1, &e->d_nominal, error);
    for (int i = 0; i < seen.n_targets * k.n_grid && status == PF_OK; i++) {
        status = pf__evidence_distance(&seen, r->response, seen.targets[i / k.n_grid],
                                       k.grid[i % k.n_grid], &e->d[i], error);
    }
    r->ahead = NULL;
    pf__looks_free(&w);
    e->known = status == PF_OK;
    return status;
}

// --- tasks

pf_status pf__responses_start_tasks(pf_responses *r, pf_error *error)
{
    if (r->started) {
        return PF_OK;
    }
    for (int i = 0; i < r->info.n_tasks * PF_RESPONSES_MEMBERS * PF_RESPONSES_NODES; i++) {
        r->nte[i] = NAN;
    }
    for (int t = 0; t < r->info.n_tasks; t++) {
        r->fallback[t].ret = NAN;
    }
    for (int t = 0; t < PF_RESPONSES_VARIANTS * r->info.n_tasks; t++) {
        r->attainable[t] = NAN;
    }
    r->rolls++;
    pf_status status =
        pf_flight_start(r->flight, pf__responses_stream(r, PF_PURPOSE_TASK, 0), error);
    r->started = status == PF_OK;
    return status;
}

pf_status pf__responses_fly(pf_responses *r, const pf_attempt *attempt, pf_flown *flown,
                            pf_error *error)
{
    pf_status status = pf__responses_start_tasks(r, error);
    r->rolls++;
    return status ? status : pf_flight_fly(r->flight, attempt, flown, error);
}

// All nodes of one curve of a task: the plant from a start of the curve's own, its mechanism at
// every share.
static pf_status fill_curve(pf_responses *r, int task, int curve, double *nodes, pf_error *error)
{
    const char *name = pf_plant_get_info(r->plant)->name;
    const int32_t *uses = NULL;
    pf_kit_task_mechanisms(r->kit, task, &uses);
    pf_key start = pf_key_stream(r->seed, name, (uint64_t)curve, PF_PURPOSE_MEMBER, 1u << 20);
    pf_status status = pf_flight_start(r->anchor, start, error);
    for (int n = 0; n < PF_RESPONSES_NODES && status == PF_OK; n++) {
        pf_attempt attempt = {
            .task = task,
            .key = pf_key_stream(r->seed, name, (uint64_t)curve, PF_PURPOSE_MEMBER, 1u << 21),
            .gains = set_gains(r, uses[0], n / 8.0)};
        pf_flown flown;
        r->rolls++;
        status = pf_flight_fly(r->anchor, &attempt, &flown, error);
        nodes[n] = status == PF_OK ? flown.nte : NAN;
    }
    return status;
}

static pf_status curve_node(pf_responses *r, int task, int curve, int n, double *value,
                            pf_error *error)
{
    size_t all = (size_t)r->info.n_tasks * PF_RESPONSES_CURVES * PF_RESPONSES_NODES;
    for (size_t i = 0; r->curve_seed != r->seed && i < all; i++) {
        r->curves[i] = NAN;
    }
    r->curve_seed = r->seed;
    double *nodes = &r->curves[(task * PF_RESPONSES_CURVES + curve) * PF_RESPONSES_NODES];
    pf_status status = isnan(nodes[n]) ? fill_curve(r, task, curve, nodes, error) : PF_OK;
    *value = nodes[n];
    return status;
}

static pf_status node(pf_responses *r, int task, int member, int n, double *value, pf_error *error)
{
    if (r->anchored) {
        return curve_node(r, task, member, n, value, error);
    }
    const pf_kit *kit = r->kit;
    pf_kit_info k = r->info;
    double *nodes = &r->nte[(task * PF_RESPONSES_MEMBERS + member) * PF_RESPONSES_NODES];
    const int32_t *uses = NULL;
    pf_kit_task_mechanisms(kit, task, &uses);
    int j = uses[0];
    pf_status status = PF_OK;
    if (isnan(nodes[n]) && r->model) {
        // a member at every node in one request; node 8 is the healthy machine
        for (int i = 0; i < PF_RESPONSES_NODES * k.n_mech; i++) {
            r->table_gains[i] = i % k.n_mech == j ? i / k.n_mech / 8.0 : 1;
        }
        status =
            pf__flight_expect(r->flight, task, r->model, member, PF_RESPONSES_NODES, r->table_gains,
                              r->own_reference ? 8 : -1, r->table, nodes, error);
    } else if (isnan(nodes[n])) {
        pf_attempt attempt = {.task = task,
                              .key = pf__responses_stream(r, PF_PURPOSE_MEMBER, member),
                              .gains = set_gains(r, j, n / 8.0)};
        pf_flown flown;
        status = pf__responses_fly(r, &attempt, &flown, error);
        nodes[n] = status == PF_OK ? flown.nte : NAN;
    }
    *value = nodes[n];
    return status;
}

// The nodes first..last around the middle one, 0..2, that a share needs, and how far it is from the
// middle: a parabola through all three, but nodes are hit exactly.
static double around(double share, int *middle, int *first, int *last)
{
    double at = fmin(fmax(8 * share, 0), PF_RESPONSES_NODES - 1);
    int m = (int)lround(at);
    m = m < 1 ? 1 : m > PF_RESPONSES_NODES - 2 ? PF_RESPONSES_NODES - 2 : m;
    *middle = m;
    *first = at == m ? 1 : 0;
    *last = at == m ? 1 : 2;
    return at - m;
}

// Some nodes of a task that nobody knows yet, by member.
static pf_status fill_nodes(pf_responses *r, int task, int n, const int *members, const int *nodes,
                            pf_error *error)
{
    const int32_t *uses = NULL;
    double gains[PF_ROLLS][PF_MECH_MAX];
    pf_attempt attempts[PF_ROLLS];
    pf_flown flown[PF_ROLLS];
    pf_kit_task_mechanisms(r->kit, task, &uses);
    for (int i = 0; i < n; i++) {
        memcpy(gains[i], set_gains(r, uses[0], nodes[i] / 8.0),
               (size_t)r->info.n_mech * sizeof(double));
        attempts[i] = (pf_attempt){.task = task,
                                   .key = pf__responses_stream(r, PF_PURPOSE_MEMBER, members[i]),
                                   .gains = gains[i]};
    }
    r->rolls += n;
    pf_status status = pf__flight_fly_many(r->flight, n, attempts, r->window, flown, error);
    for (int i = 0; i < n && status == PF_OK; i++) {
        r->nte[(task * PF_RESPONSES_MEMBERS + members[i]) * PF_RESPONSES_NODES + nodes[i]] =
            flown[i].nte;
    }
    return status;
}

pf_status pf__responses_nte_ahead(pf_responses *r, int task, int n, const double *shares,
                                  pf_error *error)
{
    bool needed[PF_RESPONSES_NODES] = {false};
    int members[PF_ROLLS], nodes[PF_ROLLS], waiting = 0;
    if (!pf__responses_in_step(r) || r->anchored || pf_kit_task_policy(r->kit, task)[0]) {
        return PF_OK;
    }
    for (int i = 0; i < n; i++) {
        int middle, first, last;
        around(shares[i], &middle, &first, &last);
        for (int k = first; k <= last; k++) {
            needed[middle - 1 + k] = true;
        }
    }
    pf_status status = pf__responses_start_tasks(r, error);
    // the nodes of a member side by side: they share its disturbance
    for (int i = 0; i < r->n_members * PF_RESPONSES_NODES && status == PF_OK; i++) {
        int member = i / PF_RESPONSES_NODES, at = i % PF_RESPONSES_NODES;
        double known = r->nte[(task * PF_RESPONSES_MEMBERS + member) * PF_RESPONSES_NODES + at];
        if (needed[at] && isnan(known)) {
            members[waiting] = member;
            nodes[waiting++] = at;
        }
        if (waiting == PF_ROLLS) {
            status = fill_nodes(r, task, waiting, members, nodes, error);
            waiting = 0;
        }
    }
    return status == PF_OK && waiting > 0 ? fill_nodes(r, task, waiting, members, nodes, error)
                                          : status;
}

pf_status pf__responses_nte(pf_responses *r, int task, int member, double share, double *nte,
                            pf_error *error)
{
    pf_status status = pf__responses_start_tasks(r, error);
    if (status != PF_OK) {
        return status;
    }
    int middle, first, last;
    double x = around(share, &middle, &first, &last), y[3] = {0};
    for (int i = first; i <= last && status == PF_OK; i++) {
        status = node(r, task, member, middle - 1 + i, &y[i], error);
    }
    if (status != PF_OK) {
        return status;
    }
    double parabola = y[1] + .5 * x * (y[2] - y[0]) + .5 * x * x * (y[2] - 2 * y[1] + y[0]);
    double value = x == 0 ? y[1] : parabola;
    if (!isfinite(value)) {
        return pf_fail(error, PF_ERR_NONFINITE, "task '%s': its tracking error is not finite",
                       pf_kit_task_name(r->kit, task));
    }
    *nte = fmax(value, 0);
    return PF_OK;
}

pf_status pf__responses_realise(pf_responses *r, int task, const double *corrections,
                                pf_flown *flown, pf_error *error)
{
    pf_attempt attempt = {.task = task,
                          .key = pf__responses_stream(r, PF_PURPOSE_TASK, 1),
                          .gains = r->truth,
                          .corrections = corrections};
    pf_status status = pf__responses_start_tasks(r, error);
    if (status == PF_OK && !corrections && !isnan(r->fallback[task].ret)) {
        *flown = r->fallback[task];
        return PF_OK;
    }
    status = status ? status : pf__responses_fly(r, &attempt, flown, error);
    if (status == PF_OK && !corrections) {
        r->fallback[task] = *flown;
    }
    return status;
}

pf_status pf__responses_attainable(pf_responses *r, int task, int variant, double *ret,
                                   pf_error *error)
{
    double corrections[PF_MECH_MAX];
    for (int j = 0; j < r->info.n_mech; j++) {
        corrections[j] = 1 / r->truth[j];
    }
    pf_attempt attempt = {.task = task,
                          .variant = variant,
                          .key = pf__responses_stream(r, PF_PURPOSE_TASK, 1),
                          .gains = r->truth,
                          .corrections = corrections};
    pf_status status = pf__responses_start_tasks(r, error);
    double *known = &r->attainable[variant * r->info.n_tasks + task];
    if (status == PF_OK && isnan(*known)) {
        pf_flown flown;
        status = pf__responses_fly(r, &attempt, &flown, error);
        *known = flown.ret;
    }
    *ret = *known;
    return status;
}

// --- answers of nominal trials

enum { MATCH_NUMBERS = 6 };

static size_t answer_numbers(const pf_nominal_cache *c)
{
    return 1 + (size_t)c->most * MATCH_NUMBERS;
}

static double *answer(const pf_nominal_cache *c, int trial, int opportunity, int probe)
{
    size_t at =
        ((size_t)trial * PF_NOMINAL_OPPORTUNITIES + (size_t)opportunity) * (size_t)c->probes +
        (size_t)probe;
    return c->number + at * answer_numbers(c);
}

static void add_text(pf_sha256 *sha, const char *text)
{
    pf__sha256_update(sha, text, strlen(text) + 1);
}

// Everything that decides what a response to a probe says.
static void add_probe(pf_sha256 *sha, const pf_kit *kit, const pf__evidence *e)
{
    size_t d = sizeof(double), window = (size_t)e->rows * (size_t)e->n_chan;
    const int32_t shape[] = {e->rows, e->n_targets, e->n_scale, e->whiten != NULL};
    pf__sha256_update(sha, shape, sizeof shape);
    pf__sha256_update(sha, e->targets, (size_t)e->n_targets * sizeof *e->targets);
    const double *command = pf_kit_probe_command(kit, e->probe);
    size_t commands = (size_t)e->rows * (size_t)pf_kit_get_info(kit).n_mech;
    pf__sha256_update(sha, command, command ? commands * d : 0);
    add_text(sha, pf_kit_probe_policy(kit, e->probe));
    pf__sha256_update(sha, e->scale, (size_t)e->n_scale * (size_t)e->n_chan * d);
    pf__sha256_update(sha, e->whiten, e->whiten ? window * (window + 1) / 2 * d : 0);
}

static void name_key(pf_nominal_cache *c, const pf_responses *r, uint64_t seed,
                     const char *fingerprint)
{
    const pf_kit *kit = r->kit;
    pf_kit_info k = r->info;
    const double numbers[] = {(double)seed,   (double)c->trials, k.g_cal,  k.sensor_noise,
                              k.sensed_start, k.n_chan,          k.n_mech, k.n_probes};
    pf_sha256 sha;
    uint8_t digest[32];
    pf__sha256_init(&sha);
    add_text(&sha, PF_VERSION);
    add_text(&sha, pf_kit_get_string(kit, PF_KIT_PLANT));
    add_text(&sha, fingerprint);
    add_text(&sha, r->model ? pf_model_get_info(r->model)->sha256 : "");
    add_text(&sha, r->model ? pf__numeric_library() : "");
    pf__sha256_update(&sha, numbers, sizeof numbers);
    pf__sha256_update(&sha, k.return_scale, (size_t)k.n_chan * sizeof(double));
    for (int q = 0; q < k.n_probes; q++) {
        pf__evidence e = {0};
        pf__evidence_set(&e, kit, q);
        add_probe(&sha, kit, &e);
    }
    pf__sha256_final(&sha, digest);
    pf__sha256_text(digest, c->key);
}

pf_status pf__nominal_init(pf_nominal_cache *c, const pf_responses *r, uint64_t seed, int trials,
                           const char *fingerprint, pf_error *error)
{
    *c = (pf_nominal_cache){
        .trials = trials, .probes = r->info.n_probes, .most = r->info.most_targets};
    c->n = (size_t)trials * PF_NOMINAL_OPPORTUNITIES * (size_t)c->probes * answer_numbers(c);
    c->number = malloc(c->n * sizeof *c->number);
    if (!c->number) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for the answers of %d nominal trials",
                       trials);
    }
    for (size_t i = 0; i < c->n; i++) {
        c->number[i] = NAN;
    }
    name_key(c, r, seed, fingerprint);
    return PF_OK;
}

void pf__nominal_free(pf_nominal_cache *c)
{
    free(c->number);
    *c = (pf_nominal_cache){.number = NULL};
}

bool pf__nominal_read(pf_nominal_cache *c, const void *bytes, size_t n)
{
    if (n != c->n * sizeof *c->number) {
        return false;
    }
    memcpy(c->number, bytes, n);
    return true;
}

void pf__nominal_give(const pf_nominal_cache *c, int trial, pf_responses *r)
{
    for (int i = 0; i < PF_NOMINAL_OPPORTUNITIES * c->probes; i++) {
        const double *from = answer(c, trial, i / c->probes, i % c->probes);
        pf_stage1_answer *e = &r->evidence[i * 2];
        if (isnan(*from)) {
            continue;
        }
        e->known = true;
        e->norm = *from++;
        for (int t = 0; t < c->most; t++, from += MATCH_NUMBERS) {
            e->match[t] = (pf_match){.score = from[0],
                                     .coefficient = from[1],
                                     .remaining = from[2],
                                     .usable = from[3] != 0,
                                     .size = from[4],
                                     .off = from[5]};
        }
    }
}

void pf__nominal_take(pf_nominal_cache *c, int trial, const pf_responses *r)
{
    for (int i = 0; i < PF_NOMINAL_OPPORTUNITIES * c->probes; i++) {
        double *to = answer(c, trial, i / c->probes, i % c->probes);
        const pf_stage1_answer *e = &r->evidence[i * 2];
        if (!e->known || !isnan(*to)) {
            continue;
        }
        c->fresh++;
        *to++ = e->norm;
        for (int t = 0; t < pf_kit_probe_targets(r->kit, i % c->probes, NULL); t++) {
            const pf_match *m = &e->match[t];
            const double numbers[MATCH_NUMBERS] = {m->score,  m->coefficient, m->remaining,
                                                   m->usable, m->size,        m->off};
            memcpy(to + t * MATCH_NUMBERS, numbers, sizeof numbers);
        }
    }
}
