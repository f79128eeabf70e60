// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "fit.h"
#include "model/rollout.h"
#include "doctor.h"
#include "source.h"

// What a model cannot stand in for is said before anything runs.
static pf_status model_check(const pf_plan *plan, const pf_plant_info *info, const pf_model *model,
                             pf_error *error)
{
    pf_status status = pf__model_fits(model, info, error);
    if (status != PF_OK) {
        return status;
    }
    if (!pf_model_get_info(model)->sha256[0]) {
        return pf_fail(error, PF_ERR_ARGUMENT, "the model has no file that a kit could name");
    }
    for (int i = 0; i < plan->n_probes + plan->n_tasks; i++) {
        const pf_plan_probe *probe = i < plan->n_probes ? &plan->probes[i] : NULL;
        const pf_plan_task *task = probe ? NULL : &plan->tasks[i - plan->n_probes];
        if (probe ? probe->policy != NULL : !task->command) {
            return pf_fail(error, PF_ERR_UNSUPPORTED,
                           "%s '%s' is a closed loop of the plant (policy '%s'); a learned model "
                           "predicts open loops only",
                           probe ? "probe" : "task", probe ? probe->name : task->name,
                           probe ? probe->policy : task->policy);
        }
    }
    return PF_OK;
}

static pf_status plan_check(const pf_plan *plan, const pf_plant_info *info,
                            const pf_method **method, pf_error *error)
{
    if (plan->n_probes == 0) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "the plan was made without a plant and has no probes; it is one for "
                       "recordings");
    }
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
    bool joint = plan->settings.field && plan->settings.posterior == PF_POSTERIOR_JOINT;
    if (joint && plan->settings.hazard > 0) {
        return pf_fail(
            error, PF_ERR_ARGUMENT,
            "hazard: the joint posterior holds for a machine that does not change during "
            "a check; leave hazard at 0, or set posterior: transport");
    }
    if (plan->settings.weighting == PF_WEIGHTING_SHRUNK &&
        (*method)->statistic == PF_STATISTIC_NORM) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "weighting: shrunk needs a method with the matched statistic, such as "
                       "eg-mpt");
    }
    for (int q = 0; q < plan->n_probes; q++) {
        int window = plan->probes[q].rows * plan->n_chan;
        if (plan->settings.weighting == PF_WEIGHTING_SHRUNK && window > PF_WHITEN_MAX) {
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

pf_status pf__calibrate(pf_source *source, void **bytes, size_t *n_bytes, pf_error *error)
{
    pf_status status = pf__calibrate_channels(source, error);
    if (status == PF_OK) {
        status = source->returns(source->self, error);
    }
    if (status == PF_OK) {
        status = pf__calibrate_looks(source, error);
    }
    if (status == PF_OK) {
        status = pf__calibrate_alarm(source, error);
    }
    if (status == PF_OK) {
        status = pf__calibrate_misfit(source, error);
    }
    if (status == PF_OK) {
        status = pf__calibrate_rehearsals(source, error);
    }
    return status == PF_OK ? pf__kit_build_save(source->build, bytes, n_bytes, error) : status;
}

pf_status pf_calibrate(const pf_plan *plan, pf_plant *plant, const pf_model *model,
                       const pf_effort *effort, void **bytes, size_t *n_bytes, pf_error *error)
{
    *bytes = NULL;
    *n_bytes = 0;
    const pf_plant_info *info = pf_plant_get_info(plant);
    const pf_method *method = NULL;
    pf_status status = plan_check(plan, info, &method, error);
    if (status == PF_OK && plan->settings.sensed_start && !model) {
        status = pf_fail(error, PF_ERR_ARGUMENT,
                         "sensed_start: a twin predicts from its saved state, not from channels; "
                         "it goes with --predictor ensemble:FILE");
    }
    if (status == PF_OK && model && info->losses) {
        status = pf_fail(error, PF_ERR_UNSUPPORTED,
                         "plant %s: its servos lose force, and a learned model knows commands "
                         "only; leave --predictor out",
                         info->name);
    }
    if (status == PF_OK && model) {
        status = model_check(plan, info, model, error);
    }
    if (status != PF_OK) {
        return status;
    }
    pf_plant_source c = {.plan = plan, .model = model, .effort = effort};
    pf_kit_kind kind = pf__plant_kind(&c, info, method->statistic);
    double tolerance = 0;
    status = model ? PF_OK : pf__plant_noise(plan, plant, error);
    status = status ? status : pf__contract_check(plan, plant, true, effort, &tolerance, error);
    if (status == PF_OK) {
        status = pf__plant_open(&c, plant, &kind, error);
    }
    if (status == PF_OK) {
        c.build.kit.tolerance = tolerance;
        pf_source source = pf__plant_source(&c);
        status = pf__calibrate(&source, bytes, n_bytes, error);
    }
    pf__plant_free(&c);
    return status;
}
