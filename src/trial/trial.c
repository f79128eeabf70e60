// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "domain.h"

#include "../core/session_impl.h"
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

// Position of a trial in a shuffle of all trials of its seed.
static int shuffled_rank(uint64_t seed, const char *environment, int trial, int trials)
{
    pf_rng rng;
    int rank = 0;
    uint64_t mine = 0;
    for (int i = 0; i < trials; i++) {
        pf_rng_init(&rng, pf_key_stream(seed, environment, (uint64_t)i, PF_PURPOSE_LAW, 1));
        uint64_t bits = pf_rng_bits(&rng);
        mine = i == trial ? bits : mine;
    }
    for (int i = 0; i < trials; i++) {
        pf_rng_init(&rng, pf_key_stream(seed, environment, (uint64_t)i, PF_PURPOSE_LAW, 1));
        uint64_t bits = pf_rng_bits(&rng);
        rank += bits < mine || (bits == mine && i < trial);
    }
    return rank;
}

pf_law pf_law_draw(uint64_t seed, const char *environment, int trial, int trials, double share,
                   int candidates, int opportunities)
{
    pf_rng rng;
    pf_rng_init(&rng, pf_key_stream(seed, environment, (uint64_t)trial, PF_PURPOSE_LAW, 0));
    pf_law law;
    law.tau = 10 + (int)pf_rng_below(&rng, 11);
    law.reveal =
        PF_LAW_REVEAL_FIRST + (int)pf_rng_below(&rng, PF_LAW_REVEAL_LAST - PF_LAW_REVEAL_FIRST + 1);
    law.mechanism = 1 + (int)pf_rng_below(&rng, (uint32_t)candidates);
    if (opportunities > 0) {
        law.tau = PF_LAW_TAU;
        law.reveal = PF_LAW_TAU + PF_LAW_PERIOD * opportunities;
    }
    law.nominal = shuffled_rank(seed, environment, trial, trials) < (int)lround(share * trials);
    law.mechanism = law.nominal ? 0 : law.mechanism;
    return law;
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
    if (n == 0 || r[0].mechanism != p->law->mechanism || !present(p, round)) {
        return;
    }
    p->value[PF_METRIC_fault_looks] += 1;
    p->value[PF_METRIC_mute_looks] += r[0].ratio == 1;
    p->value[PF_METRIC_gate_openings] += r[0].gate;
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
        pf_match match = e->match;
        if (norm) {
            match = pf_match_norm(e->norm);
        }
        status = pf__session_tell_matches(s, &match, error);
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
        const pf_recovery_evidence *e = NULL;
        pf_status status = pf_bank_stage2(p->bank, index, ask.probe, present(p, round), &e, error);
        if (status == PF_OK) {
            status = pf__session_tell_discrepancies(s, e->d_nominal, e->d, error);
        }
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

// Decides every task and flies what is deployed: the corrected policy, or the fallback.
static pf_status deploy(play *p, const pf_joint *joint, pf_error *error)
{
    const pf_kit *k = p->bank->kit;
    double selective = 0, changed_return = 1;
    int abstained = 0;
    for (int t = 0; t < k->n_tasks; t++) {
        int j = k->use_mech[k->task_use[t]];
        bool changed = j == p->law->mechanism && !p->law->nominal;
        pf_moments moments = pf_joint_moments(joint, j);
        double correction = pf_correction(&moments), ret = 0;
        pf_prediction prediction;
        pf_why why;
        pf_status status = predict_task(p, joint, t, correction, &prediction, error);
        if (status != PF_OK) {
            return status;
        }
        bool go = pf_decide(prediction.lower, p->setup->j_min, true, &why) == PF_GO;
        status = pf_bank_fly(p->bank, t, go ? correction : 1, &ret, error);
        if (status != PF_OK) {
            return status;
        }
        if (go) {
            count_deployed(p, changed, ret < prediction.lower, ret < p->setup->j_min);
        }
        abstained += !go;
        selective += k->task_reveal[t] * ret;
        if (changed) {
            changed_return = ret;
            p->value[PF_METRIC_clipped] =
                pf_kit_delivered_share(k, t, j, correction, 1) < correction - 1e-9;
        }
    }
    p->value[PF_METRIC_abstention] = (double)abstained / k->n_tasks;
    p->value[PF_METRIC_selective_return] = selective;
    p->value[PF_METRIC_changed_task_return] = changed_return;
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

static void score_posterior(play *p, const pf_joint *joint)
{
    const pf_law *law = p->law;
    double worst = 0;
    for (int j = 1; j <= joint->m; j++) {
        double truth = j == law->mechanism ? p->setup->gain : 1;
        worst = fmax(worst, fabs(pf_joint_moments(joint, j).mean - truth));
    }
    p->value[PF_METRIC_worst_error] = worst;
    if (law->nominal) {
        p->value[PF_METRIC_false_alarm] = p->alarm_round > 0;
        return;
    }
    int j = law->mechanism;
    double g = p->setup->gain, lo = 0, hi = 0, likeliest = joint->nominal;
    pf_moments moments = pf_joint_moments(joint, j);
    for (int i = 1; i <= joint->m; i++) {
        likeliest = fmax(likeliest, pf_joint_moments(joint, i).changed);
    }
    bool early = p->alarm_round > 0 && p->alarm_round < law->tau;
    bool detected = p->alarm_round >= law->tau;
    p->value[PF_METRIC_detection] = detected;
    p->value[PF_METRIC_early] = early;
    p->value[PF_METRIC_delay] = (detected ? p->alarm_round : law->reveal) - law->tau;
    p->value[PF_METRIC_located] = moments.changed == likeliest;
    p->value[PF_METRIC_gain_mae] = fabs(moments.mean - g);
    p->value[PF_METRIC_crps] = pf_joint_crps(joint, j, g);
    p->value[PF_METRIC_compensation_error] = fabs(pf_correction(&moments) * g - 1);
    pf_joint_interval(joint, j, &lo, &hi);
    p->value[PF_METRIC_coverage] = pf_interval_covers(lo, hi, g);
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
    const char *environment = pf_plant_get_info(bank->plant)->name;
    pf_session_config config = {
        method, pf_key_stream(bank->seed, environment, bank->trial, PF_PURPOSE_METHOD, 0)};
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
