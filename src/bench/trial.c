// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "domain.h"

#include "core/session_impl.h"
#include "episode.h"
#include "preflight/recovery.h"

#include <math.h>
#include <string.h>

static const char *const metric_names[] = {
#define X(name) #name,
    PF_METRICS(X)
#undef X
};

const char *pf_metric_name(int metric)
{
    return metric >= 0 && metric < PF_METRIC_COUNT ? metric_names[metric] : NULL;
}

int pf_metric_find(const char *name)
{
    for (int i = 0; i < PF_METRIC_COUNT; i++) {
        if (strcmp(metric_names[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

// One method on one trial while it runs.
typedef struct play {
    pf_bank *bank;
    const pf_law *law;
    const pf_trial_setup *setup;
    pf_session *session;
    double *value;
    int alarm_round; // 0: none
} play;

static bool present(const play *p, int round)
{
    return !p->law->nominal && round >= p->law->tau;
}

static void count_look(play *p, int round)
{
    int n = 0;
    const pf_reading *r = pf_session_readings(p->session, &n);
    for (int t = 0; t < n && present(p, round); t++) {
        bool changed = pf_law_fault(p->law, r[t].mechanism) >= 0;
        p->value[PF_METRIC_fault_looks] += changed;
        p->value[PF_METRIC_mute_looks] += changed && r[t].ratio == 1;
        p->value[PF_METRIC_gate_openings] += changed && r[t].gate;
    }
}

// Stage 1: one opportunity every five rounds before the reveal.
static pf_status diagnose(play *p, pf_error *error)
{
    pf_session *s = p->session;
    bool norm = pf_session_kit(s)->statistic == PF_STATISTIC_NORM;
    for (int round = PF_LAW_PERIOD; round < p->law->reveal && pf_session_stage(s) == 1;
         round += PF_LAW_PERIOD) {
        pf_ask ask = pf_session_ask(s);
        const pf_evidence *e = NULL;
        pf_status status = pf_bank_stage1(p->bank, round / PF_LAW_PERIOD - 1, ask.probe,
                                          present(p, round), &e, error);
        if (status != PF_OK) {
            return status;
        }
        pf_match match = pf_match_norm(e->norm);
        status = pf__session_tell_matches(s, norm ? &match : e->match, error);
        if (status != PF_OK) {
            return status;
        }
        count_look(p, round);
        if (pf_session_alarm(s) && p->alarm_round == 0) {
            p->alarm_round = round;
        }
    }
    if (pf_session_stage(s) == 1) {
        pf_session_stage2(s, NULL);
    }
    return PF_OK;
}

// One recovery response into the session. What one change at a time predicts is shared by all
// methods; with several faults predictions depend on the belief and are the session's own.
static pf_status tell_recovery(play *p, int index, const pf_ask *ask, bool faulty, pf_error *error)
{
    const pf_kit *k = p->bank->kit;
    if (k->faults == PF_FAULTS_MANY) {
        pf_bank_response r;
        pf_status status = pf_bank_recovery(p->bank, index, ask->probe, faulty, &r, error);
        pf_tell tell = {ask->probe, r.response, ask->rows, k->n_chan, r.start, k->n_state};
        return status ? status : pf_session_tell(p->session, &tell, &r.predictor, error);
    }
    const pf_recovery_evidence *e = NULL;
    pf_status status = pf_bank_stage2(p->bank, index, ask->probe, faulty, &e, error);
    return status ? status : pf__session_tell_discrepancies(p->session, e->d_nominal, e->d, error);
}

// Stage 2: at the alarm round with break, at the reveal with latch.
static pf_status recover(play *p, pf_error *error)
{
    pf_session *s = p->session;
    int round = p->setup->stop == PF_STOP_BREAK ? p->alarm_round : p->law->reveal;
    for (int index = 0;; index++) {
        pf_ask ask = pf_session_ask(s);
        if (ask.kind == PF_ASK_DONE) {
            p->value[PF_METRIC_recovery_probes] = index;
            return PF_OK;
        }
        pf_status status = tell_recovery(p, index, &ask, present(p, round), error);
        if (status != PF_OK) {
            return status;
        }
    }
}

// --- certificate and returns

enum { MOST_GRID = 256 };

// Predicted return of a task from the trial's own start: members x (grid gains of its mechanism,
// then nothing changed there).
static pf_status predict_task(play *p, const pf_joint *joint, int task, double correction,
                              pf_prediction *out, pf_error *error)
{
    const pf_kit *k = p->bank->kit;
    if (pf_episode_policy(p->bank, task)) {
        return pf_episode_predict(p->bank, joint, task, p->setup->alpha, out, error);
    }
    int j = k->use_mech[k->task_use[task]], n = k->n_grid + 1;
    double probability[MOST_GRID + 1], returns[PF_BANK_MEMBERS * (MOST_GRID + 1)];
    probability[k->n_grid] = 1;
    for (int g = 0; g < k->n_grid; g++) {
        probability[g] = joint->mass[(size_t)(j - 1) * (size_t)k->n_grid + (size_t)g];
        probability[k->n_grid] -= probability[g];
    }
    probability[k->n_grid] = fmax(0, probability[k->n_grid]);
    double share = pf_kit_delivered_share(k, task, j, correction, 1);
    for (int e = 0; e < p->bank->n_members; e++) {
        for (int g = 0; g < n; g++) {
            double nte = 0, gain = g < k->n_grid ? k->grid[g] : 1;
            pf_status status = pf_bank_nte(p->bank, task, e, gain * share, &nte, error);
            if (status != PF_OK) {
                return status;
            }
            returns[e * n + g] = pf_return(nte);
        }
    }
    *out = pf_predict_return(p->bank->n_members, n, probability, returns, p->setup->alpha);
    return PF_OK;
}

static void count_deployed(play *p, bool changed, bool violated, bool false_ready)
{
    p->value[PF_METRIC_deployed] += 1;
    p->value[PF_METRIC_violated] += violated;
    p->value[PF_METRIC_false_ready] += false_ready;
    if (changed) {
        p->value[PF_METRIC_changed_deployed] += 1;
        p->value[PF_METRIC_changed_violated] += violated;
        p->value[PF_METRIC_changed_false_ready] += false_ready;
    }
}

// Flies a task: corrected, or as the fallback. A closed loop also has a regret in its own units.
static pf_status fly(play *p, const pf_joint *joint, int task, bool go, double correction,
                     double *ret, pf_error *error)
{
    const pf_policy *policy = pf_episode_policy(p->bank, task);
    if (!policy) {
        return pf_bank_fly(p->bank, task, go ? correction : 1, ret, error);
    }
    double regret = 0;
    bool changed = pf_law_fault(p->law, policy->owner) >= 0;
    pf_status status = pf_episode_fly(p->bank, joint, task, go, ret, &regret, error);
    int metric = policy->regret ? pf_metric_find(policy->regret) : -1;
    if (metric >= 0 && (changed || p->law->nominal)) {
        p->value[metric] = changed ? regret : 0;
    }
    return status;
}

// Decides every task and flies what is deployed: the corrected policy, or the fallback.
static pf_status deploy(play *p, const pf_joint *joint, pf_error *error)
{
    const pf_kit *k = p->bank->kit;
    double selective = 0, changed_return = 0, clipped = 0;
    int abstained = 0, n_changed = 0;
    for (int t = 0; t < k->n_tasks; t++) {
        int j = k->use_mech[k->task_use[t]];
        bool changed = pf_law_fault(p->law, j) >= 0;
        pf_moments moments = pf_joint_moments(joint, j);
        double correction = pf_correction(&moments), ret = 0;
        pf_prediction prediction;
        pf_why why;
        pf_status status = predict_task(p, joint, t, correction, &prediction, error);
        if (status != PF_OK) {
            return status;
        }
        bool go = pf_decide(prediction.lower, p->setup->j_min, true, &why) == PF_GO;
        status = fly(p, joint, t, go, correction, &ret, error);
        if (status != PF_OK) {
            return status;
        }
        if (go) {
            count_deployed(p, changed, ret < prediction.lower, ret < p->setup->j_min);
        }
        abstained += !go;
        selective += k->task_reveal[t] * ret;
        if (changed) {
            changed_return += ret;
            n_changed++;
            clipped += pf_kit_delivered_share(k, t, j, correction, 1) < correction - 1e-9;
        }
    }
    changed_return = n_changed > 0 ? changed_return / n_changed : 1;
    p->value[PF_METRIC_clipped] = n_changed > 0 ? clipped / n_changed : NAN;
    p->value[PF_METRIC_abstention] = (double)abstained / k->n_tasks;
    p->value[PF_METRIC_selective_return] = selective;
    p->value[PF_METRIC_changed_task_return] = changed_return;
    p->value[PF_METRIC_future_task_regret] = 1 - changed_return;
    return PF_OK;
}

static void add_cost(play *p)
{
    double cost = pf_session_charge(p->session), *value = p->value;
    value[PF_METRIC_regret] = 1 - value[PF_METRIC_changed_task_return] + cost;
    value[PF_METRIC_regret_selective] = 1 - value[PF_METRIC_selective_return] + cost;
    value[PF_METRIC_cost] = cost;
    value[PF_METRIC_probes] = pf_session_told(p->session);
}

// --- what the posterior is worth

// Who is named: the changed ones among the likeliest, and rather changed than not.
static void score_names(play *p, const pf_joint *joint)
{
    const pf_law *law = p->law;
    double least = 1, other = joint->faults == PF_FAULTS_MANY ? .5 : joint->nominal;
    int healthy = joint->m - law->n_changed, blamed = 0;
    for (int j = 1; j <= joint->m; j++) {
        double changed = pf_joint_moments(joint, j).changed;
        bool fault = pf_law_fault(law, j) >= 0;
        least = fault ? fmin(least, changed) : least;
        other = fault ? other : fmax(other, changed);
        blamed += !fault && changed > .5;
    }
    if (!law->nominal) {
        p->value[PF_METRIC_located] = least >= other;
    }
    if (p->setup->blame) {
        p->value[PF_METRIC_healthy_blamed] = healthy > 0 ? (double)blamed / healthy : NAN;
        p->value[PF_METRIC_all_named] = law->nominal ? NAN : least > .5;
    }
}

// What is believed of one changed mechanism, added as its share of the mean over all of them.
static void score_gain(play *p, const pf_joint *joint, int fault)
{
    int j = p->law->mechanism[fault], n = p->law->n_changed;
    double g = p->law->gain[fault], lo = 0, hi = 0;
    pf_moments moments = pf_joint_moments(joint, j);
    pf_joint_interval(joint, j, &lo, &hi);
    const struct {
        int metric;
        double value;
    } scores[] = {{PF_METRIC_gain_mae, fabs(moments.mean - g)},
                  {PF_METRIC_crps, pf_joint_crps(joint, j, g)},
                  {PF_METRIC_compensation_error, fabs(pf_correction(&moments) * g - 1)},
                  {PF_METRIC_coverage, pf_interval_covers(lo, hi, g)}};
    for (size_t i = 0; i < sizeof scores / sizeof scores[0]; i++) {
        double *sum = &p->value[scores[i].metric];
        *sum = (fault == 0 ? 0 : *sum) + scores[i].value / n;
    }
}

static void score_posterior(play *p, const pf_joint *joint)
{
    const pf_law *law = p->law;
    double worst = 0;
    for (int j = 1; j <= joint->m; j++) {
        int fault = pf_law_fault(law, j);
        double truth = fault >= 0 ? law->gain[fault] : 1;
        worst = fmax(worst, fabs(pf_joint_moments(joint, j).mean - truth));
    }
    p->value[PF_METRIC_worst_error] = worst;
    score_names(p, joint);
    if (law->nominal) {
        p->value[PF_METRIC_false_alarm] = p->alarm_round > 0;
        return;
    }
    bool detected = p->alarm_round >= law->tau;
    p->value[PF_METRIC_detection] = detected;
    p->value[PF_METRIC_early] = p->alarm_round > 0 && p->alarm_round < law->tau;
    p->value[PF_METRIC_delay] = (detected ? p->alarm_round : law->reveal) - law->tau;
    for (int i = 0; i < law->n_changed; i++) {
        score_gain(p, joint, i);
    }
}

static void clear(const pf_law *law, double *value)
{
    static const int counts[] = {PF_METRIC_deployed, PF_METRIC_violated, PF_METRIC_false_ready,
                                 PF_METRIC_recovery_probes};
    static const int changed_counts[] = {PF_METRIC_changed_deployed,    PF_METRIC_changed_violated,
                                         PF_METRIC_changed_false_ready, PF_METRIC_fault_looks,
                                         PF_METRIC_mute_looks,          PF_METRIC_gate_openings};
    for (int i = 0; i < PF_METRIC_COUNT; i++) {
        value[i] = NAN;
    }
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        value[counts[i]] = 0;
    }
    for (size_t i = 0; i < sizeof changed_counts / sizeof changed_counts[0] && !law->nominal; i++) {
        value[changed_counts[i]] = 0;
    }
}

pf_status pf_trial_run(pf_bank *bank, const pf_kit *kit, const char *method, const pf_law *law,
                       const pf_trial_setup *setup, void *memory, size_t bytes,
                       pf_trial_result *result, pf_error *error)
{
    play p = {bank, law, setup, NULL, result->value, 0};
    clear(law, result->value);
    if (kit->n_grid > MOST_GRID) {
        return pf_fail(error, PF_ERR_ARGUMENT, "a grid of more than %d gains", MOST_GRID);
    }
    // the cell's settings on the shared kit
    pf_kit view = *kit;
    view.budget2 = setup->budget2;
    view.stop = setup->stop;
    view.require_probe = 0;
    pf_session_config config = {method, pf_bank_stream(bank, PF_PURPOSE_METHOD, 0)};
    pf_status status = pf_session_init(&p.session, &view, &config, memory, bytes, error);
    if (status == PF_OK) {
        status = diagnose(&p, error);
    }
    if (status == PF_OK) {
        status = recover(&p, error);
    }
    if (status != PF_OK) {
        return status;
    }
    pf_joint joint = pf_session_joint(p.session);
    score_posterior(&p, &joint);
    status = pf_plant_get_info(bank->plant)->n_metrics > 0
                 ? pf_domain_deploy(bank, &joint, law, setup, p.value, error)
                 : deploy(&p, &joint, error);
    add_cost(&p);
    return status;
}
