// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "domain.h"

#include "preflight/recovery.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { METRICS_MAX = 32 };

// One deployment.
typedef struct deployment {
    pf_bank *bank;
    const pf_law *law;
    const pf_trial_setup *setup;
    const pf_plant_info *info;
    double *value;
    int n;                       // hypotheses: nothing, (mechanism, gain), and last the truth
    double *probability, *gains; // n, n x n_mech
    double *returns, *beyond;    // draws x n, n
    double correction[PF_MECH_MAX], none[PF_MECH_MAX];
    int measured; // task whose measures are told
} deployment;

// Hypotheses with their probabilities; the truth has none and only shows what would happen.
static void set_hypotheses(deployment *d, const pf_joint *joint)
{
    int mech = d->info->n_mech, grid = joint->n_grid;
    for (int i = 0; i < d->n * mech; i++) {
        d->gains[i] = 1;
    }
    d->probability[0] = joint->nominal;
    for (int h = 0; h < joint->m * grid; h++) {
        d->probability[h + 1] = joint->mass[h];
        d->gains[(h + 1) * mech + h / grid + 1] = joint->grid[h % grid];
    }
    d->probability[d->n - 1] = 0;
    memcpy(&d->gains[(d->n - 1) * mech], d->bank->truth, sizeof(double) * (size_t)mech);
    for (int j = 0; j < mech; j++) {
        d->none[j] = d->correction[j] = 1;
        if (j > 0) {
            pf_moments moments = pf_joint_moments(joint, j);
            d->correction[j] = pf_correction(&moments);
        }
    }
}

// One start for all tasks of the trial.
static pf_status start(deployment *d, pf_error *error)
{
    pf_bank *b = d->bank;
    if (b->started) {
        return PF_OK;
    }
    pf_roll reset = pf_roll_default();
    reset.key = pf_bank_stream(d->bank, PF_PURPOSE_TASK, 0);
    b->rolls++;
    pf_status status = pf_plant_roll(b->plant, &reset, &(pf_trace){.start = b->start}, error);
    b->started = status == PF_OK;
    return status;
}

static int policy_of(const deployment *d, int task)
{
    return d->setup->variant * (d->info->n_mech - 1) + task;
}

// What really happens on a task.
static pf_status fly(deployment *d, int task, const double *correction, double *metrics,
                     pf_error *error)
{
    pf_roll roll = pf_roll_default();
    roll.start = d->bank->start;
    roll.key = pf_bank_stream(d->bank, PF_PURPOSE_TASK, 1);
    roll.gains = d->gains + (size_t)(d->n - 1) * (size_t)d->info->n_mech;
    roll.policy = policy_of(d, task);
    roll.rows = d->info->policies[roll.policy].rows;
    roll.correction = correction;
    roll.disturbance = true;
    d->bank->rolls++;
    return pf_plant_roll(d->bank->plant, &roll, &(pf_trace){.metrics = metrics}, error);
}

static void tell(deployment *d, const double *metrics)
{
    for (int i = 1; i < d->info->n_metrics; i++) {
        int metric = pf_metric_find(d->info->metrics[i]);
        if (metric >= 0) {
            d->value[metric] = metrics[i];
        }
    }
}

// The correction as it would be sent, whatever was decided, where the domain asks for that.
static pf_status tell_asked(deployment *d, bool go, const double *deployed, pf_error *error)
{
    static const struct {
        const char *name;
        int metric;
    } asked[] = {{"shortfall", PF_METRIC_asked_shortfall},
                 {"ramp_infeasible", PF_METRIC_asked_infeasible},
                 {"ramp_excess", PF_METRIC_asked_excess}};
    double flown[METRICS_MAX];
    pf_status status = PF_OK;
    bool known = go;
    for (int i = 1; i < d->info->n_metrics && status == PF_OK; i++) {
        for (size_t k = 0; k < sizeof asked / sizeof asked[0] && status == PF_OK; k++) {
            if (strcmp(d->info->metrics[i], asked[k].name) != 0) {
                continue;
            }
            if (!known) {
                status = fly(d, d->measured, d->correction, flown, error);
                known = true;
            }
            d->value[asked[k].metric] = go ? deployed[i] : flown[i];
        }
    }
    return status;
}

static void count(deployment *d, bool changed, bool go, bool violated, bool safe)
{
    double *value = d->value;
    value[PF_METRIC_contracts] += 1;
    value[PF_METRIC_safe_ready] += go && safe;
    value[PF_METRIC_deployed] += go;
    value[PF_METRIC_violated] += go && violated;
    value[PF_METRIC_false_ready] += go && !safe;
    if (changed) {
        bool clipped = d->beyond[d->n - 1] > 0;
        value[PF_METRIC_changed_deployed] += go;
        value[PF_METRIC_changed_violated] += go && violated;
        value[PF_METRIC_changed_false_ready] += go && !safe;
        value[PF_METRIC_clipped] = clipped;
        value[PF_METRIC_clipped_go] = clipped && go;
        value[PF_METRIC_clipped_false] = clipped && go && !safe;
    }
}

// What the correction would bring at the true gain, on average over the draws.
static double recovered(const deployment *d)
{
    double sum = 0;
    for (int i = 0; i < d->info->draws; i++) {
        sum += d->returns[(size_t)(i + 1) * (size_t)d->n - 1];
    }
    return sum / d->info->draws;
}

// A calm plant's twin is exact: tasks whose measures nobody asks for are not simulated.
static pf_status foresee(deployment *d, pf_forecast *f, bool go, double *ret, pf_error *error)
{
    *ret = recovered(d);
    if (go) {
        return PF_OK;
    }
    double unused, sum = 0;
    pf_forecast truth = *f;
    truth.n = 1;
    truth.gains = d->gains + (size_t)(d->n - 1) * (size_t)d->info->n_mech;
    truth.correction = d->none;
    // the decision is made: its returns may go
    pf_status status = pf_plant_forecast(d->bank->plant, &truth, d->returns, &unused, error);
    for (int i = 0; i < d->info->draws && status == PF_OK; i++) {
        sum += d->returns[i];
    }
    *ret = sum / d->info->draws;
    return status;
}

static pf_status decide_task(deployment *d, int task, double *ret, bool *go, pf_error *error)
{
    double metrics[METRICS_MAX];
    pf_forecast f = {.key = pf_bank_stream(d->bank, PF_PURPOSE_MEMBER, 0),
                     .start = d->bank->start,
                     .policy = policy_of(d, task),
                     .correction = d->correction,
                     .n = d->n,
                     .gains = d->gains};
    pf_status status = pf_plant_forecast(d->bank->plant, &f, d->returns, d->beyond, error);
    if (status != PF_OK) {
        return status;
    }
    pf_prediction p =
        pf_predict_return(d->info->draws, d->n, d->probability, d->returns, d->setup->alpha);
    pf_why why;
    *go = pf_decide(p.lower, d->setup->j_min, true, &why) == PF_GO;
    bool simulated = !d->info->calm || task == d->measured;
    double corrected = recovered(d);
    if (simulated) {
        status = fly(d, task, *go ? d->correction : d->none, metrics, error);
        *ret = metrics[0];
    } else {
        status = foresee(d, &f, *go, ret, error);
    }
    if (status != PF_OK) {
        return status;
    }
    bool changed = pf_law_fault(d->law, task + 1) >= 0;
    count(d, changed, *go, *ret < p.lower, *ret >= d->setup->j_min);
    if (changed) {
        d->value[PF_METRIC_clipped_recovered] =
            d->beyond[d->n - 1] > 0 && corrected >= d->setup->j_min;
    }
    if (task != d->measured) {
        return PF_OK;
    }
    tell(d, metrics);
    return tell_asked(d, *go, metrics, error);
}

static pf_status deploy_all(deployment *d, pf_error *error)
{
    const pf_kit *k = d->bank->kit;
    double selective = 0, changed_return = 1;
    int abstained = 0;
    pf_status status = start(d, error);
    d->value[PF_METRIC_contracts] = d->value[PF_METRIC_safe_ready] = 0;
    for (int t = 0; t < k->n_tasks && status == PF_OK; t++) {
        double ret = 0;
        bool go = false;
        status = decide_task(d, t, &ret, &go, error);
        abstained += !go;
        selective += k->task_reveal[t] * ret;
        if (pf_law_fault(d->law, t + 1) >= 0) {
            changed_return = ret;
        }
    }
    d->value[PF_METRIC_abstention] = (double)abstained / k->n_tasks;
    d->value[PF_METRIC_selective_return] = selective;
    d->value[PF_METRIC_changed_task_return] = changed_return;
    d->value[PF_METRIC_future_task_regret] = 1 - changed_return;
    return status;
}

pf_status pf_domain_deploy(pf_bank *bank, const pf_joint *joint, const pf_law *law,
                           const pf_trial_setup *setup, double *value, pf_error *error)
{
    const pf_plant_info *info = pf_plant_get_info(bank->plant);
    deployment d = {.bank = bank, .law = law, .setup = setup, .info = info, .value = value};
    int m = info->n_mech - 1;
    if (info->n_metrics > METRICS_MAX || info->n_policies < m * (setup->variant + 1)) {
        return pf_fail(error, PF_ERR_UNSUPPORTED, "plant %s has no such variant of its tasks",
                       info->name);
    }
    if (joint->faults == PF_FAULTS_MANY || law->n_changed > 1) {
        return pf_fail(error, PF_ERR_UNSUPPORTED,
                       "plant %s: its tasks are forecast for one fault at a time", info->name);
    }
    // nominal trials are measured on a drawn task
    pf_rng rng;
    pf_rng_init(&rng, pf_bank_stream(bank, PF_PURPOSE_LAW, 3));
    d.measured = law->nominal ? (int)pf_rng_below(&rng, (uint32_t)m) : law->mechanism[0] - 1;
    d.n = 2 + m * joint->n_grid;
    size_t n = (size_t)d.n, mech = (size_t)info->n_mech, draws = (size_t)info->draws;
    pf_arena arena = {0};
    d.probability = pf_arena_take(&arena, n, sizeof(double));
    d.gains = pf_arena_take(&arena, n * mech, sizeof(double));
    d.returns = pf_arena_take(&arena, n * draws, sizeof(double));
    d.beyond = pf_arena_take(&arena, n, sizeof(double));
    pf_status status =
        arena.failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory for a forecast") : PF_OK;
    if (status == PF_OK) {
        set_hypotheses(&d, joint);
        status = deploy_all(&d, error);
    }
    pf_arena_free(&arena);
    return status;
}
