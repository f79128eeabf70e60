// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate_impl.h"
#include "contract.h"
#include "whiten.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t most_rows(const pf_plan *plan)
{
    int rows = 1;
    for (int q = 0; q < plan->n_probes; q++) {
        rows = plan->probes[q].rows > rows ? plan->probes[q].rows : rows;
    }
    for (int t = 0; t < plan->n_tasks; t++) {
        rows = plan->tasks[t].rows > rows ? plan->tasks[t].rows : rows;
    }
    return (size_t)rows;
}

// A twin, or the model with room for the return table.
static pf_status make_predictor(pf_calibration *c, pf_worker *w, size_t window, pf_error *error)
{
    const pf_kit *k = &c->build.kit;
    if (!c->model) {
        w->twin = (pf_twin){w->plant, k};
        w->predictor = pf_twin_predictor(&w->twin);
        return PF_OK;
    }
    size_t d = sizeof(double);
    w->table = pf_arena_take(&c->arena, PF_SHARES * window, d);
    w->table_gains = pf_arena_take(&c->arena, PF_SHARES * (size_t)k->n_mech, d);
    w->table_scratch = pf_arena_take(&c->arena, pf_model_scratch(c->model, PF_SHARES), d);
    pf_status status = pf_ensemble_create(&w->ensemble, c->model, k, error);
    w->predictor = pf_ensemble_predictor(w->ensemble);
    return status;
}

static pf_status make_workers(pf_calibration *c, pf_plant *plant, pf_error *error)
{
    const pf_plan *plan = c->plan;
    size_t rows = most_rows(plan), window = rows * (size_t)plan->n_chan, d = sizeof(double);
    int targets = 1;
    for (int q = 0; q < plan->n_probes; q++) {
        targets = plan->probes[q].n_targets > targets ? plan->probes[q].n_targets : targets;
    }
    int start = plan->n_state > plan->n_chan ? plan->n_state : plan->n_chan;
    c->n_workers = pf_threads(c->effort);
    c->workers = pf_arena_take(&c->arena, (size_t)c->n_workers, sizeof *c->workers);
    for (int i = 0; c->workers && i < c->n_workers; i++) {
        pf_worker *w = &c->workers[i];
        w->start = pf_arena_take(&c->arena, (size_t)start + 1, d);
        w->response = pf_arena_take(&c->arena, window, d);
        w->nominal = pf_arena_take(&c->arena, window, d);
        w->predicted = pf_arena_take(&c->arena, window, d);
        w->signatures = pf_arena_take(&c->arena, window * (size_t)targets, d);
        w->scratch = pf_arena_take(&c->arena, pf_match_scratch(targets), d);
        w->gains = pf_arena_take(&c->arena, (size_t)plan->n_mech, d);
        w->still = pf_arena_take(&c->arena, rows * (size_t)plan->n_mech, d);
        w->matches = pf_arena_take(&c->arena, (size_t)targets, sizeof *w->matches);
        if (c->arena.failed) {
            break;
        }
        // the first one is the caller's own: a process takes seconds to start
        w->plant = i == 0 ? plant : NULL;
        pf_status status = i == 0 ? PF_OK : pf_plant_clone(plant, &w->plant, error);
        if (status == PF_OK) {
            status = make_predictor(c, w, window, error);
        }
        if (status != PF_OK) {
            return status;
        }
    }
    return c->arena.failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory for calibration") : PF_OK;
}

pf__evidence pf__worker_evidence(const pf_calibration *c, int worker, int probe)
{
    const pf_worker *w = &c->workers[worker];
    pf__evidence e = {.predictor = w->predictor,
                      .start = w->start,
                      .n_start = c->build.kit.n_state,
                      .nominal = w->nominal,
                      .predicted = w->predicted,
                      .residual = w->response,
                      .signatures = w->signatures,
                      .scratch = w->scratch};
    pf__evidence_set(&e, &c->build.kit, probe);
    return e;
}

void pf__calibration_free(pf_calibration *c)
{
    for (int i = 0; c->workers && i < c->n_workers; i++) {
        pf_plant_destroy(i == 0 ? NULL : c->workers[i].plant);
        pf_ensemble_destroy(c->workers[i].ensemble);
    }
    pf_arena_free(&c->arena);
    pf_kit_build_free(&c->build);
}

pf_status pf__calibration_open(pf_calibration *c, pf_plant *plant, const pf_kit_kind *kind,
                               pf_error *error)
{
    pf_status status = pf_kit_build_init(&c->build, c->plan, kind, error);
    return status == PF_OK ? make_workers(c, plant, error) : status;
}

pf_status pf__calibration_start(pf_calibration *c, pf_plant *plant, const pf_kit_kind *kind,
                                pf_error *error)
{
    pf_status status = pf_contract_check(c->plan, plant, error);
    return status == PF_OK ? pf__calibration_open(c, plant, kind, error) : status;
}

pf_kit_kind pf__calibration_kind(const pf_calibration *c, const pf_plant_info *info,
                                 pf_statistic statistic)
{
    const pf_plan *plan = c->plan;
    pf_kit_kind kind = {.predictor = "twin",
                        .source = info->source,
                        .statistic = statistic,
                        .n_state = plan->n_state,
                        .n_scale = 1,
                        .n_members = plan->members,
                        .curves = plan->every_severity && plan->severity_curve &&
                                  statistic == PF_STATISTIC_MATCHED};
    for (int q = 0; pf__calibration_residual(c) && q < plan->n_probes; q++) {
        int rows = plan->probes[q].rows;
        kind.n_scale = rows > kind.n_scale ? rows : kind.n_scale;
    }
    if (c->model) {
        const pf_model_info *model = pf_model_get_info(c->model);
        kind.predictor = "ensemble";
        kind.model = model->sha256;
        kind.processor = pf_numeric_library();
        kind.n_state = plan->n_chan;
        // every member of the model equally often
        int n = model->n_members;
        kind.n_members = (plan->members + n - 1) / n * n;
    }
    return kind;
}

// What a model cannot stand in for is said before anything runs.
static pf_status model_check(const pf_plan *plan, const pf_plant_info *info, const pf_model *model,
                             pf_error *error)
{
    pf_status status = pf_model_fits(model, info, error);
    if (status != PF_OK) {
        return status;
    }
    if (!pf_model_get_info(model)->sha256[0]) {
        return pf_fail(error, PF_ERR_ARGUMENT, "the model has no file that a kit could name");
    }
    for (int t = 0; t < plan->n_tasks; t++) {
        if (!plan->tasks[t].command) {
            return pf_fail(error, PF_ERR_UNSUPPORTED,
                           "task '%s' is a closed loop of the plant (policy '%s'); a learned model "
                           "predicts open loops only",
                           plan->tasks[t].name, plan->tasks[t].policy);
        }
    }
    return PF_OK;
}

static pf_status plan_check(const pf_plan *plan, const pf_plant_info *info,
                            const pf_method **method, pf_error *error)
{
    if (plan->n_mech != info->n_mech || plan->n_chan != info->n_chan ||
        plan->n_state != info->n_state) {
        return pf_fail(error, PF_ERR_MISMATCH, "the plan was made for another plant than %s",
                       info->name);
    }
    *method = pf_method_find(plan->method);
    if (!*method) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "no method is called '%s'; `preflight list methods` shows what there is",
                       plan->method);
    }
    if (plan->weighting != PF_WEIGHTING_NONE && (*method)->statistic == PF_STATISTIC_NORM) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "weighting: shrunk needs a method with the matched statistic, such as "
                       "eg-mpt");
    }
    for (int q = 0; q < plan->n_probes; q++) {
        int window = plan->probes[q].rows * plan->n_chan;
        if (plan->weighting != PF_WEIGHTING_NONE && window > PF_WHITEN_MAX) {
            return pf_fail(error, PF_ERR_ARGUMENT,
                           "weighting: probe '%s' has a window of %d numbers, shrunk takes at most "
                           "%d; shorten it or leave weighting out",
                           plan->probes[q].name, window, PF_WHITEN_MAX);
        }
        if (plan->probes[q].n_targets > 1 && (*method)->statistic == PF_STATISTIC_NORM) {
            return pf_fail(error, PF_ERR_ARGUMENT,
                           "probe '%s' has several targets, which needs a method with the matched "
                           "statistic, such as eg-mpt",
                           plan->probes[q].name);
        }
    }
    return PF_OK;
}

static pf_status run_steps(pf_calibration *c, pf_plant *plant, const pf_kit_kind *kind,
                           void **bytes, size_t *n_bytes, pf_error *error)
{
    pf_status status = pf__calibration_start(c, plant, kind, error);
    if (status == PF_OK) {
        status = pf__calibrate_scales(c, error);
    }
    if (status == PF_OK) {
        status = pf__calibrate_weighting(c, error);
    }
    if (status == PF_OK) {
        status = pf__calibrate_channels(c, error);
    }
    if (status == PF_OK) {
        status = pf__calibrate_returns(c, error);
    }
    if (status == PF_OK) {
        status = pf__calibrate_alarm(c, error);
    }
    if (status == PF_OK) {
        status = pf_kit_build_save(&c->build, bytes, n_bytes, error);
    }
    pf__calibration_free(c);
    return status;
}

pf_status pf_calibrate(const pf_plan *plan, pf_plant *plant, const pf_model *model,
                       const pf_effort *effort, void **bytes, size_t *n_bytes, pf_error *error)
{
    *bytes = NULL;
    *n_bytes = 0;
    const pf_plant_info *info = pf_plant_get_info(plant);
    const pf_method *method = NULL;
    pf_status status = plan_check(plan, info, &method, error);
    if (status == PF_OK && plan->sensed_start && !model) {
        status = pf_fail(error, PF_ERR_ARGUMENT,
                         "sensed_start: a twin predicts from its saved state, not from channels; "
                         "it goes with --predictor ensemble:FILE");
    }
    if (status == PF_OK && model) {
        status = model_check(plan, info, model, error);
    }
    if (status != PF_OK) {
        return status;
    }
    pf_calibration c = {.plan = plan, .model = model, .effort = effort};
    pf_kit_kind kind = pf__calibration_kind(&c, info, method->statistic);
    return run_steps(&c, plant, &kind, bytes, n_bytes, error);
}
