// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "trial.h"
#include "own_method.h"
#include "plant/plant_impl.h"
#include "core/certificate.h"
#include "core/rng.h"
#include "core/score.h"

#include "core/joint.h"
#include "preflight/base.h"

#include "run/run_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const metric_names[] = {
#define X(name) #name,
    PF_METRICS(X)
#undef X
};

const char *pf__metric_name(int metric)
{
    return metric >= 0 && metric < PF_METRIC_COUNT ? metric_names[metric] : NULL;
}

int pf__metric_find(const char *name)
{
    for (int i = 0; i < PF_METRIC_COUNT; i++) {
        if (strcmp(metric_names[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

// --- fault schedule

static uint64_t shuffle_bits(uint64_t seed, const char *environment, int trial)
{
    pf_rng rng;
    pf_rng_init(&rng, pf_key_stream(seed, environment, (uint64_t)trial, PF_PURPOSE_LAW, 1));
    return pf__rng_bits(&rng);
}

// Position of a trial in a shuffle of all trials of its seed.
static int shuffled_rank(uint64_t seed, const char *environment, int trial, int trials)
{
    uint64_t mine = shuffle_bits(seed, environment, trial);
    int rank = 0;
    for (int i = 0; i < trials; i++) {
        uint64_t bits = shuffle_bits(seed, environment, i);
        rank += bits < mine || (bits == mine && i < trial);
    }
    return rank;
}

int pf__schedule_fault(const pf_schedule *schedule, int mechanism)
{
    for (int i = 0; i < schedule->n_changed; i++) {
        if (schedule->mechanism[i] == mechanism) {
            return i;
        }
    }
    return -1;
}

// Further changed mechanisms, different from those before.
static void draw_mechanisms(pf_schedule *schedule, pf_rng *rng, int n, int candidates)
{
    while (schedule->n_changed < n) {
        int mechanism = 1 + (int)pf_rng_below(rng, (uint32_t)candidates);
        if (pf__schedule_fault(schedule, mechanism) < 0) {
            schedule->mechanism[schedule->n_changed++] = mechanism;
        }
    }
}

// Whether a gain was given to one of the first n faults.
static bool taken(const pf_schedule *schedule, int n, double gain)
{
    for (int i = 0; i < n; i++) {
        if (schedule->gain[i] == gain) {
            return true;
        }
    }
    return false;
}

static void draw_gains(pf_schedule *schedule, pf_rng *rng, int n_gains, const double *gains)
{
    for (int i = 0; i < schedule->n_changed; i++) {
        int pick = n_gains > 1 ? (int)pf_rng_below(rng, (uint32_t)n_gains) : 0;
        while (i < n_gains && taken(schedule, i, gains[pick])) {
            pick = (pick + 1) % n_gains;
        }
        schedule->gain[i] = gains[pick];
    }
}

pf_schedule pf__schedule_draw(uint64_t seed, const char *environment, int trial,
                              const pf_schedule_settings *s)
{
    pf_rng rng;
    pf_rng_init(&rng, pf_key_stream(seed, environment, (uint64_t)trial, PF_PURPOSE_LAW, 0));
    pf_schedule schedule = {.n_changed = 0};
    schedule.tau = 10 + (int)pf_rng_below(&rng, 11);
    schedule.reveal =
        PF_SCHEDULE_REVEAL_FIRST +
        (int)pf_rng_below(&rng, PF_SCHEDULE_REVEAL_LAST - PF_SCHEDULE_REVEAL_FIRST + 1);
    schedule.mechanism[0] = 1 + (int)pf_rng_below(&rng, (uint32_t)s->candidates);
    if (s->opportunities > 0) {
        schedule.tau = PF_SCHEDULE_TAU;
        schedule.reveal = PF_SCHEDULE_TAU + PF_SCHEDULE_PERIOD * s->opportunities;
    }
    schedule.nominal =
        shuffled_rank(seed, environment, trial, s->trials) < (int)lround(s->share * s->trials);
    if (!schedule.nominal) {
        // a stream of its own, so that the draws above stay what they are
        pf_rng_init(&rng, pf_key_stream(seed, environment, (uint64_t)trial, PF_PURPOSE_LAW, 3));
        schedule.n_changed = 1;
        draw_mechanisms(&schedule, &rng, s->n_faults < s->candidates ? s->n_faults : s->candidates,
                        s->candidates);
        draw_gains(&schedule, &rng, s->n_gains, s->gains);
    }
    return schedule;
}

// --- what becomes of the tasks of a trial

// One decision after the other, and what was flown on it.
typedef struct tally {
    const pf_kit *kit;
    double *value;
    double j_min;
    int go, changed; // tasks
    double selective, changed_return;
    double attainable; // sum over changed tasks of what their limits allow
} tally;

static tally begin_tally(const pf_kit *kit, double j_min, double *value)
{
    return (tally){.kit = kit, .value = value, .j_min = j_min};
}

// A protocol that does not count contracts leaves them undefined, and NaN stays NaN.
static void count_task(tally *t, int task, bool changed, bool go, double lower, double ret)
{
    double *value = t->value;
    bool violated = go && ret < lower, false_ready = go && !(ret >= t->j_min);
    value[PF_METRIC_contracts] += 1;
    value[PF_METRIC_safe_ready] += go && !false_ready;
    value[PF_METRIC_deployed] += go;
    value[PF_METRIC_violated] += violated;
    value[PF_METRIC_false_ready] += false_ready;
    if (changed) {
        value[PF_METRIC_changed_deployed] += go;
        value[PF_METRIC_changed_violated] += violated;
        value[PF_METRIC_changed_false_ready] += false_ready;
        t->changed_return += ret;
    }
    t->go += go;
    t->changed += changed;
    t->selective += pf_kit_task_reveal(t->kit, task) * ret;
}

// What the limits allow on a changed task.
static pf_status add_attainable(tally *t, pf_responses *responses, int task, int variant,
                                pf_error *error)
{
    double most = NAN;
    pf_status status = pf__responses_attainable(responses, task, variant, &most, error);
    t->attainable += most;
    return status;
}

static void end_tally(const tally *t)
{
    int n = pf_kit_get_info(t->kit).n_tasks;
    double changed_return = t->changed > 0 ? t->changed_return / t->changed : 1;
    t->value[PF_METRIC_abstention] = (double)(n - t->go) / n;
    t->value[PF_METRIC_selective_return] = t->selective;
    t->value[PF_METRIC_changed_task_return] = changed_return;
    t->value[PF_METRIC_future_task_regret] = 1 - changed_return;
    t->value[PF_METRIC_attainable_return] = t->changed > 0 ? t->attainable / t->changed : 1;
}

// --- closed loops as tasks

void pf__policy_tasks(pf_plan *plan, const pf_plant_info *info)
{
    for (int t = 0; t < plan->n_tasks; t++) {
        // the plan is ours: its memory is writable
        pf_plan_task *task = (pf_plan_task *)(uintptr_t)&plan->tasks[t];
        for (int i = 0; i < info->n_policies; i++) {
            const pf_policy *p = &info->policies[i];
            if (p->norm > 0 && task->n_uses == 1 && p->owner == task->uses[0]) {
                task->policy = p->name;
                task->policy_index = i;
                task->rows = p->rows;
                task->command = NULL;
            }
        }
    }
}

const pf_policy *pf__policy_of_task(const pf_responses *r, int task)
{
    const pf_plant_info *info = pf_plant_get_info(r->plant);
    int i = pf__plant_policy(info, pf_kit_task_policy(r->kit, task));
    return i >= 0 && info->policies[i].norm > 0 ? &info->policies[i] : NULL;
}

// What the joint belief asks of every mechanism.
static void all_corrections(const pf_joint *joint, double *corrections)
{
    corrections[0] = 1;
    for (int j = 1; j <= joint->m; j++) {
        pf_moments moments = pf_joint_moments(joint, j);
        corrections[j] = pf__correction(&moments);
    }
}

// Every candidate, as the mechanisms that a task may use.
static void all_uses(const pf_joint *joint, int32_t *uses)
{
    for (int j = 0; j < joint->m; j++) {
        uses[j] = j + 1;
    }
}

// A closed loop under hypotheses, from the trial's known start.
typedef struct loop {
    pf_responses *responses;
    int task;
    double corrections[PF_MECH_MAX];
} loop;

static pf_status loop_returns(void *self, int member, int use, int n, const double *gains,
                              double *returns, pf_error *error)
{
    const loop *l = self;
    pf_responses *r = l->responses;
    double all[PF_MECH_MAX];
    pf_status status = PF_OK;
    for (int j = 0; j < r->info.n_mech; j++) {
        all[j] = 1;
    }
    for (int g = 0; g < n && status == PF_OK; g++) {
        pf_flown flown;
        pf_attempt attempt = {.task = l->task,
                              .key = pf__responses_stream(r, PF_PURPOSE_MEMBER, member),
                              .gains = all,
                              .corrections = l->corrections};
        all[use + 1] = use >= 0 ? gains[g] : 1;
        status = pf__responses_fly(r, &attempt, &flown, error);
        returns[g] = flown.ret;
    }
    return status;
}

pf_status pf__policy_predict(pf_responses *r, const pf_joint *joint, int task, pf_bound_rule rule,
                             pf_prediction *out, pf_error *error)
{
    int32_t uses[PF_MECH_MAX];
    size_t n = 1 + (size_t)joint->m * (size_t)(1 + joint->n_grid);
    loop l = {.responses = r, .task = task};
    pf_task_model model = {&l, r->n_members, joint->m, uses, loop_returns};
    if (r->model) {
        return pf_fail(error, PF_ERR_UNSUPPORTED,
                       "task '%s' is a closed loop; a learned model predicts open loops only",
                       pf_kit_task_name(r->kit, task));
    }
    double *p = calloc(n * (size_t)(1 + r->n_members), sizeof(double));
    if (!p) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a predicted return");
    }
    all_uses(joint, uses);
    all_corrections(joint, l.corrections);
    pf_status status = pf__predict_task(&model, joint, rule, p, p + n, out, error);
    free(p);
    return status;
}

// --- plants with measures of their own

// One deployment.
typedef struct deployment {
    pf_responses *responses;
    const pf_schedule *schedule;
    const pf_trial_setup *setup;
    const pf_plant_info *info;
    double *value;
    int n; // hypotheses: nothing, (mechanism, gain), and last the truth
    const pf_joint *joint;
    double *gains;            // n x n_mech
    double *returns, *beyond; // draws x n, n
    double *work;             // of a predicted return: n and draws x n
    double correction[PF_MECH_MAX], none[PF_MECH_MAX];
    int measured; // task whose measures are told
    tally tally;
} deployment;

// Hypotheses; the truth has no probability and only shows what would happen.
static void set_hypotheses(deployment *d)
{
    const pf_joint *joint = d->joint;
    int mech = d->info->n_mech, grid = joint->n_grid;
    for (int i = 0; i < d->n * mech; i++) {
        d->gains[i] = 1;
    }
    for (int h = 0; h < joint->m * grid; h++) {
        d->gains[(h + 1) * mech + h / grid + 1] = joint->grid[h % grid];
    }
    memcpy(&d->gains[(d->n - 1) * mech], d->responses->truth, sizeof(double) * (size_t)mech);
    all_corrections(joint, d->correction);
    for (int j = 0; j < mech; j++) {
        d->none[j] = 1;
    }
}

// What was forecast.
static pf_status forecast_returns(void *self, int member, int use, int n, const double *gains,
                                  double *returns, pf_error *error)
{
    (void)gains, (void)error;
    const deployment *d = self;
    int first = use < 0 ? 0 : 1 + use * d->joint->n_grid;
    memcpy(returns, d->returns + (size_t)member * (size_t)d->n + first, sizeof(double) * (size_t)n);
    return PF_OK;
}

// What really happens on a task.
static pf_status domain_fly(deployment *d, int task, const double *correction, double *metrics,
                            pf_error *error)
{
    pf_attempt attempt = {.task = task,
                          .variant = d->setup->variant,
                          .key = pf__responses_stream(d->responses, PF_PURPOSE_TASK, 1),
                          .gains = d->responses->truth,
                          .corrections = correction,
                          .metrics = metrics};
    pf_flown flown;
    return pf__responses_fly(d->responses, &attempt, &flown, error);
}

static void tell_metrics(deployment *d, const double *metrics)
{
    for (int i = 1; i < d->info->n_metrics; i++) {
        int metric = pf__metric_find(d->info->metrics[i]);
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
    double flown[PF_METRICS_MAX];
    pf_status status = PF_OK;
    bool known = go;
    for (int i = 1; i < d->info->n_metrics && status == PF_OK; i++) {
        for (size_t k = 0; k < sizeof asked / sizeof asked[0] && status == PF_OK; k++) {
            if (strcmp(d->info->metrics[i], asked[k].name) != 0) {
                continue;
            }
            if (!known) {
                status = domain_fly(d, d->measured, d->correction, flown, error);
                known = true;
            }
            d->value[asked[k].metric] = go ? deployed[i] : flown[i];
        }
    }
    return status;
}

// Whether the changed task asks for more than the limits allow, and what becomes of that.
static void count_clipped(deployment *d, bool go, double ret, double corrected)
{
    bool clipped = d->beyond[d->n - 1] > 0;
    d->value[PF_METRIC_clipped] = clipped;
    d->value[PF_METRIC_clipped_go] = clipped && go;
    d->value[PF_METRIC_clipped_false] = clipped && go && !(ret >= d->setup->j_min);
    d->value[PF_METRIC_clipped_recovered] = clipped && corrected >= d->setup->j_min;
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

// A deterministic plant's twin is exact: tasks whose measures nobody asks for are not simulated.
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
    pf_status status = pf__plant_forecast(d->responses->plant, &truth, d->returns, &unused, error);
    for (int i = 0; i < d->info->draws && status == PF_OK; i++) {
        sum += d->returns[i];
    }
    *ret = sum / d->info->draws;
    return status;
}

static pf_status decide_task(deployment *d, int task, pf_error *error)
{
    double metrics[PF_METRICS_MAX], ret = 0;
    pf_forecast f = {.key = pf__responses_stream(d->responses, PF_PURPOSE_MEMBER, 0),
                     .start = pf__flight_state(d->responses->flight),
                     .policy = d->setup->variant * (d->info->n_mech - 1) + task,
                     .correction = d->correction,
                     .n = d->n,
                     .gains = d->gains};
    pf_status status = pf__plant_forecast(d->responses->plant, &f, d->returns, d->beyond, error);
    if (status != PF_OK) {
        return status;
    }
    pf_prediction p;
    int32_t uses[PF_MECH_MAX];
    pf_task_model model = {d, d->info->draws, d->joint->m, uses, forecast_returns};
    all_uses(d->joint, uses);
    pf__predict_task(&model, d->joint, d->setup->rule, d->work, d->work + d->n, &p, error);
    pf_why why;
    bool go = pf__decide(p.lower, d->setup->j_min, true, &why) == PF_GO;
    bool simulated = !d->info->deterministic || task == d->measured;
    double corrected = recovered(d);
    if (simulated) {
        status = domain_fly(d, task, go ? d->correction : d->none, metrics, error);
        ret = metrics[0];
    } else {
        status = foresee(d, &f, go, &ret, error);
    }
    if (status != PF_OK) {
        return status;
    }
    bool changed = pf__schedule_fault(d->schedule, task + 1) >= 0;
    count_task(&d->tally, task, changed, go, p.lower, ret);
    if (changed) {
        count_clipped(d, go, ret, corrected);
        status = add_attainable(&d->tally, d->responses, task, d->setup->variant, error);
    }
    if (status != PF_OK) {
        return status;
    }
    if (task != d->measured) {
        return PF_OK;
    }
    tell_metrics(d, metrics);
    return tell_asked(d, go, metrics, error);
}

static pf_status deploy_all(deployment *d, pf_error *error)
{
    const pf_kit *kit = d->responses->kit;
    pf_status status = pf__responses_start_tasks(d->responses, error);
    d->tally = begin_tally(kit, d->setup->j_min, d->value);
    d->value[PF_METRIC_contracts] = d->value[PF_METRIC_safe_ready] = 0;
    for (int t = 0; t < pf_kit_get_info(kit).n_tasks && status == PF_OK; t++) {
        status = decide_task(d, t, error);
    }
    end_tally(&d->tally);
    return status;
}

pf_status pf__domain_deploy(pf_responses *responses, const pf_joint *joint,
                            const pf_schedule *schedule, const pf_trial_setup *setup, double *value,
                            pf_error *error)
{
    const pf_plant_info *info = pf_plant_get_info(responses->plant);
    deployment d = {.responses = responses,
                    .schedule = schedule,
                    .setup = setup,
                    .info = info,
                    .value = value,
                    .joint = joint};
    int m = info->n_mech - 1;
    if (info->n_metrics > PF_METRICS_MAX || info->n_policies < m * (setup->variant + 1)) {
        return pf_fail(error, PF_ERR_UNSUPPORTED, "plant %s has no such variant of its tasks",
                       info->name);
    }
    if (joint->faults == PF_FAULTS_MANY || schedule->n_changed > 1) {
        return pf_fail(error, PF_ERR_UNSUPPORTED,
                       "plant %s: its tasks are forecast for one fault at a time", info->name);
    }
    // nominal trials are measured on a drawn task
    pf_rng rng;
    pf_rng_init(&rng, pf__responses_stream(responses, PF_PURPOSE_LAW, 3));
    d.measured =
        schedule->nominal ? (int)pf_rng_below(&rng, (uint32_t)m) : schedule->mechanism[0] - 1;
    d.n = 2 + m * joint->n_grid;
    size_t n = (size_t)d.n, mech = (size_t)info->n_mech, draws = (size_t)info->draws;
    pf_arena arena = {0};
    d.work = pf__arena_take(&arena, n * (1 + draws), sizeof(double));
    d.gains = pf__arena_take(&arena, n * mech, sizeof(double));
    d.returns = pf__arena_take(&arena, n * draws, sizeof(double));
    d.beyond = pf__arena_take(&arena, n, sizeof(double));
    pf_status status =
        arena.failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory for a forecast") : PF_OK;
    if (status == PF_OK) {
        set_hypotheses(&d);
        status = deploy_all(&d, error);
    }
    pf__arena_free(&arena);
    return status;
}

// --- the protocol

// One method on one trial while it runs.
typedef struct play {
    pf_responses *responses;
    const pf_schedule *schedule;
    const pf_trial_setup *setup;
    pf_session *session;
    double *value;
    int alarm_round; // 0: none
} play;

static bool present(const play *p, int round)
{
    return !p->schedule->nominal && round >= p->schedule->tau;
}

static void count_look(play *p, int round)
{
    int n = 0;
    const pf_reading *r = pf_session_readings(p->session, &n);
    for (int t = 0; t < n && present(p, round); t++) {
        bool changed = pf__schedule_fault(p->schedule, r[t].mechanism) >= 0;
        p->value[PF_METRIC_fault_looks] += changed;
        p->value[PF_METRIC_mute_looks] += changed && r[t].ratio == 1;
        p->value[PF_METRIC_gate_openings] += changed && r[t].gate;
    }
}

// Several methods ask for most probes of an opportunity sooner or later, and many responses in step
// take less time than a few one after the other: those to every probe at this opportunity and the
// next ones. What fails here is asked for again, and fails, by who needs it.
static void look_ahead(const play *p, int round, int probe)
{
    enum { OPPORTUNITIES = 4, PROBES = 8 };
    pf_responses *r = p->responses;
    int n_probes = pf_kit_get_info(r->kit).n_probes, first = round / PF_SCHEDULE_PERIOD - 1, n = 0;
    pf_question questions[OPPORTUNITIES * PROBES];
    if (!pf__responses_in_step(r) || r->askers < 2 || n_probes > PROBES ||
        pf__responses_knows(r, first, probe, present(p, round))) {
        return;
    }
    for (int i = 0; i < OPPORTUNITIES * n_probes; i++) {
        int o = first + i / n_probes, at = PF_SCHEDULE_PERIOD * (o + 1);
        bool faulty = present(p, at);
        if (at < p->schedule->reveal && !pf__responses_knows(r, o, i % n_probes, faulty)) {
            questions[n++] = (pf_question){r, o, i % n_probes, faulty};
        }
    }
    pf__responses_looks(n, questions, NULL);
}

// Stage 1: one opportunity every five rounds before the reveal.
static pf_status diagnose(play *p, pf_error *error)
{
    pf_session *s = p->session;
    bool norm = pf_kit_get_info(pf_session_kit(s)).statistic == PF_STATISTIC_NORM;
    for (int round = PF_SCHEDULE_PERIOD;
         round < p->schedule->reveal && pf_session_get_state(s).stage == 1;
         round += PF_SCHEDULE_PERIOD) {
        pf_ask ask = pf_session_ask(s);
        const pf_stage1_answer *e = NULL;
        look_ahead(p, round, ask.probe);
        pf_status status = pf__responses_stage1(p->responses, round / PF_SCHEDULE_PERIOD - 1,
                                                ask.probe, present(p, round), &e, error);
        if (status != PF_OK) {
            return status;
        }
        pf_match match = pf__match_norm(e->norm);
        status =
            pf_session_tell_evidence(s, &(pf_evidence){.match = norm ? &match : e->match}, error);
        if (status != PF_OK) {
            return status;
        }
        count_look(p, round);
        if (pf_session_get_state(s).alarm && p->alarm_round == 0) {
            p->alarm_round = round;
        }
    }
    if (pf_session_get_state(s).stage == 1) {
        pf_session_stage2(s, NULL);
    }
    return PF_OK;
}

// One recovery response into the session. What one change at a time predicts is shared by all
// methods; with several faults predictions depend on the belief and are the session's own.
static pf_status tell_recovery(play *p, int index, const pf_ask *ask, bool faulty, pf_error *error)
{
    const pf_kit *kit = p->responses->kit;
    pf_kit_info k = pf_kit_get_info(kit);
    if (k.faults == PF_FAULTS_MANY) {
        pf_recovery_response r = {0};
        pf_status status =
            pf__responses_recovery(p->responses, index, ask->probe, faulty, &r, error);
        pf_tell tell = {.probe = ask->probe,
                        .response = r.response,
                        .rows = ask->rows,
                        .channels = k.n_chan,
                        .start = r.start,
                        .n_start = k.n_state};
        return status ? status : pf_session_tell(p->session, &tell, &r.predictor, error);
    }
    const pf_stage2_answer *e = NULL;
    pf_status status = pf__responses_stage2(p->responses, index, ask->probe, faulty, &e, error);
    if (status != PF_OK) {
        return status;
    }
    pf_evidence evidence = {.d_nominal = e->d_nominal, .d = e->d};
    return pf_session_tell_evidence(p->session, &evidence, error);
}

// Stage 2: at the alarm round with break, at the reveal with latch.
static pf_status recover(play *p, pf_error *error)
{
    pf_session *s = p->session;
    int round = p->setup->stop == PF_STOP_BREAK ? p->alarm_round : p->schedule->reveal;
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

// An open-loop task from the trial's own start.
typedef struct open_task {
    pf_responses *responses;
    int task;
    double share; // that its corrected, clipped command delivers at gain 1
} open_task;

static pf_status open_returns(void *self, int member, int use, int n, const double *gains,
                              double *returns, pf_error *error)
{
    (void)use;
    const open_task *t = self;
    pf_status status = PF_OK;
    for (int g = 0; g < n && status == PF_OK; g++) {
        double nte = 0;
        status = pf__responses_nte(t->responses, t->task, member, gains[g] * t->share, &nte, error);
        returns[g] = pf__return(nte);
    }
    return status;
}

static pf_status predict_task(play *p, const pf_joint *joint, int task, double correction,
                              pf_prediction *out, pf_error *error)
{
    const pf_kit *kit = p->responses->kit;
    if (pf__policy_of_task(p->responses, task)) {
        return pf__policy_predict(p->responses, joint, task, p->setup->rule, out, error);
    }
    const int32_t *use = NULL;
    pf_kit_task_mechanisms(kit, task, &use);
    double probability[MOST_GRID + 2], returns[PF_RESPONSES_MEMBERS * (MOST_GRID + 2)];
    open_task open = {p->responses, task, pf_kit_delivered_share(kit, task, *use, correction, 1)};
    pf_task_model model = {&open, p->responses->n_members, 1, use, open_returns};
    if (joint->faults != PF_FAULTS_MANY) {
        double shares[MOST_GRID + 1];
        for (int g = 0; g < joint->n_grid; g++) {
            shares[g] = joint->grid[g] * open.share;
        }
        shares[joint->n_grid] = open.share;
        pf_status status =
            pf__responses_nte_ahead(p->responses, task, joint->n_grid + 1, shares, error);
        if (status != PF_OK) {
            return status;
        }
    }
    return pf__predict_task(&model, joint, p->setup->rule, probability, returns, out, error);
}

// Flies a task: corrected, or as the fallback. A closed loop may use every mechanism, so every
// correction is in it; it also has a regret in its own units.
static pf_status fly(play *p, const pf_joint *joint, int task, bool go, double correction,
                     double *ret, pf_error *error)
{
    const pf_kit *kit = p->responses->kit;
    pf_kit_info k = pf_kit_get_info(kit);
    const pf_policy *policy = pf__policy_of_task(p->responses, task);
    double corrections[PF_MECH_MAX];
    pf_flown flown;
    if (policy) {
        all_corrections(joint, corrections);
    } else {
        const int32_t *uses = NULL;
        pf_kit_task_mechanisms(kit, task, &uses);
        for (int j = 0; j < k.n_mech; j++) {
            corrections[j] = j == uses[0] ? correction : 1;
        }
    }
    pf_status status =
        pf__responses_realise(p->responses, task, go ? corrections : NULL, &flown, error);
    *ret = flown.ret;
    int metric = policy && policy->regret ? pf__metric_find(policy->regret) : -1;
    if (metric >= 0) {
        bool changed = pf__schedule_fault(p->schedule, policy->owner) >= 0;
        if (changed || p->schedule->nominal) {
            p->value[metric] = changed ? flown.regret : 0;
        }
    }
    return status;
}

double pf__reveal_threshold(const pf_reveal_losses *losses)
{
    int best = 0;
    for (int i = 1; i < PF_REVEAL_STEPS; i++) {
        best = losses->loss[i] <= losses->loss[best] ? i : best;
    }
    return best / 100.0;
}

// What a task would lose under every threshold.
static pf_status add_losses(play *p, const pf_joint *joint, int task, double correction,
                            double lower, pf_error *error)
{
    double ret[2] = {0, 0};
    pf_status status = fly(p, joint, task, false, correction, &ret[0], error);
    status = status ? status : fly(p, joint, task, true, correction, &ret[1], error);
    for (int i = 0; i < PF_REVEAL_STEPS && status == PF_OK; i++) {
        p->setup->losses->loss[i] += 1 - ret[lower >= i / 100.0];
    }
    return status;
}

// Decides every task and flies what is deployed: the corrected policy, or the fallback.
static pf_status deploy(play *p, const pf_joint *joint, pf_error *error)
{
    const pf_kit *kit = p->responses->kit;
    pf_kit_info k = pf_kit_get_info(kit);
    tally all = begin_tally(kit, p->setup->j_min, p->value);
    double clipped = 0;
    for (int t = 0; t < k.n_tasks; t++) {
        const int32_t *uses = NULL;
        pf_kit_task_mechanisms(kit, t, &uses);
        int j = uses[0];
        bool changed = pf__schedule_fault(p->schedule, j) >= 0;
        pf_moments moments = pf_joint_moments(joint, j);
        double correction = pf__correction(&moments), ret = 0;
        pf_prediction prediction = {0};
        pf_why why;
        pf_status status = predict_task(p, joint, t, correction, &prediction, error);
        bool go = pf__decide(prediction.lower, p->setup->deploy, true, &why) == PF_GO;
        if (status == PF_OK && p->setup->losses) {
            status = add_losses(p, joint, t, correction, prediction.lower, error);
        }
        status = status ? status : fly(p, joint, t, go, correction, &ret, error);
        if (status == PF_OK && changed) {
            status = add_attainable(&all, p->responses, t, 0, error);
        }
        if (status != PF_OK) {
            return status;
        }
        count_task(&all, t, changed, go, prediction.lower, ret);
        clipped += changed && pf_kit_delivered_share(kit, t, j, correction, 1) < correction - 1e-9;
    }
    p->value[PF_METRIC_clipped] = all.changed > 0 ? clipped / all.changed : NAN;
    end_tally(&all);
    return PF_OK;
}

static void add_cost(play *p)
{
    double cost = pf_session_get_state(p->session).charge, *value = p->value;
    value[PF_METRIC_changed_return] =
        p->schedule->nominal ? NAN : value[PF_METRIC_changed_task_return];
    value[PF_METRIC_regret] = 1 - value[PF_METRIC_changed_task_return] + cost;
    value[PF_METRIC_regret_limits] =
        value[PF_METRIC_attainable_return] - value[PF_METRIC_changed_task_return] + cost;
    value[PF_METRIC_regret_selective] = 1 - value[PF_METRIC_selective_return] + cost;
    value[PF_METRIC_cost] = cost;
    value[PF_METRIC_probes] = pf_session_get_state(p->session).told;
}

// --- what the posterior is worth

// Who is named: the changed ones among the likeliest, and rather changed than not.
static void score_names(play *p, const pf_joint *joint)
{
    const pf_schedule *schedule = p->schedule;
    double least = 1, other = joint->faults == PF_FAULTS_MANY ? .5 : joint->nominal;
    int healthy = joint->m - schedule->n_changed, blamed = 0;
    for (int j = 1; j <= joint->m; j++) {
        double changed = pf_joint_moments(joint, j).changed;
        bool fault = pf__schedule_fault(schedule, j) >= 0;
        least = fault ? fmin(least, changed) : least;
        other = fault ? other : fmax(other, changed);
        blamed += !fault && changed > .5;
    }
    if (!schedule->nominal) {
        p->value[PF_METRIC_located] = least >= other;
    }
    if (p->setup->blame) {
        p->value[PF_METRIC_healthy_blamed] = healthy > 0 ? (double)blamed / healthy : NAN;
        p->value[PF_METRIC_all_named] = schedule->nominal ? NAN : least > .5;
    }
}

// What is believed of one changed mechanism, added as its share of the mean over all of them.
static void score_gain(play *p, const pf_joint *joint, int fault)
{
    int j = p->schedule->mechanism[fault], n = p->schedule->n_changed;
    double g = p->schedule->gain[fault], lo = 0, hi = 0;
    pf_moments moments = pf_joint_moments(joint, j);
    pf_joint_interval(joint, j, &lo, &hi);
    const struct {
        int metric;
        double value;
    } scores[] = {{PF_METRIC_gain_mae, fabs(moments.mean - g)},
                  {PF_METRIC_crps, pf__joint_crps(joint, j, g)},
                  {PF_METRIC_compensation_error, fabs(pf__correction(&moments) * g - 1)},
                  {PF_METRIC_coverage, pf__interval_covers(lo, hi, g)}};
    for (size_t i = 0; i < sizeof scores / sizeof scores[0]; i++) {
        double *sum = &p->value[scores[i].metric];
        *sum = (fault == 0 ? 0 : *sum) + scores[i].value / n;
    }
}

static void score_posterior(play *p, const pf_joint *joint)
{
    const pf_schedule *schedule = p->schedule;
    double worst = 0;
    for (int j = 1; j <= joint->m; j++) {
        int fault = pf__schedule_fault(schedule, j);
        double truth = fault >= 0 ? schedule->gain[fault] : 1;
        worst = fmax(worst, fabs(pf_joint_moments(joint, j).mean - truth));
    }
    p->value[PF_METRIC_worst_error] = worst;
    score_names(p, joint);
    if (schedule->nominal) {
        p->value[PF_METRIC_false_alarm] = p->alarm_round > 0;
        return;
    }
    bool detected = p->alarm_round >= schedule->tau;
    p->value[PF_METRIC_detection] = detected;
    p->value[PF_METRIC_early] = p->alarm_round > 0 && p->alarm_round < schedule->tau;
    p->value[PF_METRIC_delay] = (detected ? p->alarm_round : schedule->reveal) - schedule->tau;
    for (int i = 0; i < schedule->n_changed; i++) {
        score_gain(p, joint, i);
    }
}

void pf__trial_clear(double *value, size_t n, const int *counts)
{
    for (int i = 0; i < PF_METRIC_COUNT; i++) {
        value[i] = NAN;
    }
    for (size_t i = 0; i < n; i++) {
        value[counts[i]] = 0;
    }
}

static void clear(const pf_schedule *schedule, double *value)
{
    static const int counts[] = {PF_METRIC_deployed, PF_METRIC_violated, PF_METRIC_false_ready,
                                 PF_METRIC_recovery_probes};
    static const int changed_counts[] = {PF_METRIC_changed_deployed,    PF_METRIC_changed_violated,
                                         PF_METRIC_changed_false_ready, PF_METRIC_fault_looks,
                                         PF_METRIC_mute_looks,          PF_METRIC_gate_openings};
    pf__trial_clear(value, sizeof counts / sizeof counts[0], counts);
    for (size_t i = 0; i < sizeof changed_counts / sizeof changed_counts[0] && !schedule->nominal;
         i++) {
        value[changed_counts[i]] = 0;
    }
}

pf_status pf__trial_run(pf_responses *responses, const pf_kit *kit, const char *method,
                        const pf_schedule *schedule, const pf_trial_setup *setup, void *memory,
                        size_t bytes, pf_trial_result *result, pf_error *error)
{
    play p = {responses, schedule, setup, NULL, result->value, 0};
    clear(schedule, result->value);
    if (pf_kit_get_info(kit).n_grid > MOST_GRID) {
        return pf_fail(error, PF_ERR_ARGUMENT, "a grid of more than %d gains", MOST_GRID);
    }
    pf_rules rules = pf_kit_get_info(kit).rules;
    rules.budget2 = setup->budget2;
    rules.stop = setup->stop;
    rules.field = false;
    pf_session_config config = {.method = method,
                                .seed = pf__responses_stream(responses, PF_PURPOSE_METHOD, 0),
                                .rules = &rules,
                                .own = pf__own_method(setup->own, method)};
    pf_status status = pf_session_init(&p.session, kit, &config, memory, bytes, error);
    status = status ? status : diagnose(&p, error);
    status = status ? status : recover(&p, error);
    if (status != PF_OK) {
        return status;
    }
    pf_joint joint = pf_session_joint(p.session);
    score_posterior(&p, &joint);
    status = pf_plant_get_info(responses->plant)->n_metrics > 0
                 ? pf__domain_deploy(responses, &joint, schedule, setup, p.value, error)
                 : deploy(&p, &joint, error);
    add_cost(&p);
    return status;
}

// --- the shipped verdict

uint64_t pf__field_seed(int seed, int trial)
{
    enum { SEEDS = 1000 }; // a suite has no more
    return (uint64_t)seed + (uint64_t)SEEDS * (uint64_t)trial;
}

static bool uses_changed(const pf_kit *kit, int task, const pf_schedule *schedule)
{
    const int32_t *uses = NULL;
    int n_uses = pf_kit_task_mechanisms(kit, task, &uses);
    for (int u = 0; u < n_uses; u++) {
        if (pf__schedule_fault(schedule, uses[u]) >= 0) {
            return true;
        }
    }
    return false;
}

// Flies every task as it was certified, or uncorrected where it is no-go.
static pf_status fly_certified(play *p, const pf_kit *kit, pf_flight *flight,
                               const pf_attempt *machine, pf_error *error)
{
    pf_kit_info k = pf_kit_get_info(kit);
    double corrections[PF_MECH_MAX], *value = p->value, bounds = 0;
    int n_blocked = 0;
    tally all = begin_tally(kit, k.j_min, value);
    for (int j = 0; j < k.n_mech; j++) {
        corrections[j] = pf_session_mechanism(p->session, j)->correction;
    }
    value[PF_METRIC_contracts] = value[PF_METRIC_safe_ready] = 0;
    for (int t = 0; t < k.n_tasks; t++) {
        const pf_task_readiness *certified = pf_session_task(p->session, t);
        bool go = certified->decision == PF_GO, changed = uses_changed(kit, t, p->schedule);
        pf_attempt attempt = *machine;
        pf_flown flown;
        attempt.task = t;
        attempt.corrections = go ? corrections : NULL;
        pf_status status = pf_flight_fly(flight, &attempt, &flown, error);
        if (status != PF_OK) {
            return status;
        }
        count_task(&all, t, changed, go, certified->lower, flown.ret);
        bounds += certified->lower;
        n_blocked += !go && certified->why != PF_WHY_BOUND;
    }
    end_tally(&all);
    value[PF_METRIC_go] = (double)all.go / k.n_tasks;
    value[PF_METRIC_all_go] = all.go == k.n_tasks;
    value[PF_METRIC_bound] = bounds / k.n_tasks;
    value[PF_METRIC_blocked] = (double)n_blocked / k.n_tasks;
    value[PF_METRIC_abstention] = 1 - value[PF_METRIC_go]; // the bits of stored trials
    return PF_OK;
}

// What only the paper's trials have.
static void forget_rounds(double *value)
{
    static const int rounds[] = {
        PF_METRIC_early,         PF_METRIC_delay,         PF_METRIC_fault_looks,
        PF_METRIC_mute_looks,    PF_METRIC_gate_openings, PF_METRIC_attainable_return,
        PF_METRIC_regret_limits,
    };
    for (size_t i = 0; i < sizeof rounds / sizeof rounds[0]; i++) {
        value[rounds[i]] = NAN;
    }
}

pf_status pf__trial_field(const pf_field_trial *t, const pf_kit *kit, const char *method,
                          const pf_schedule *schedule, const pf_trial_setup *setup,
                          pf_trial_result *result, pf_error *error)
{
    pf_kit_info k = pf_kit_get_info(kit);
    double gains[PF_MECH_MAX];
    const char *environment = pf_plant_environment(pf_plant_get_info(t->plant));
    pf_check *check = NULL;
    pf_flight *flight = NULL;
    for (int j = 0; j < k.n_mech; j++) {
        int fault = pf__schedule_fault(schedule, j);
        gains[j] = fault >= 0 ? schedule->gain[fault] : 1;
    }
    pf_check_config config = {
        .machine = t->plant, .gains = gains, .model = t->model, .method = method, .seed = t->seed};
    pf_attempt machine = {.key = pf_key_stream(t->seed, environment, 0, PF_PURPOSE_TASK, 1),
                          .gains = gains};
    pf_key reset = pf_key_stream(t->seed, environment, 0, PF_PURPOSE_TASK, 0);
    clear(schedule, result->value);
    pf_status status = pf_check_create(&check, kit, &config, error);
    status = status ? status : pf_check_run(check, NULL, error);
    status = status ? status : pf_flight_create(&flight, t->plant, kit, error);
    status = status ? status : pf_flight_start(flight, reset, error);
    if (status == PF_OK) {
        play p = {.schedule = schedule,
                  .setup = setup,
                  .session = pf_check_session(check),
                  .value = result->value};
        p.alarm_round = pf_session_get_state(p.session).alarm ? schedule->tau : 0;
        status = fly_certified(&p, kit, flight, &machine, error);
        pf_joint joint = pf_session_joint(p.session);
        score_posterior(&p, &joint);
        add_cost(&p);
        p.value[PF_METRIC_recovery_probes] =
            fmax(0, pf_session_get_state(p.session).told -
                        pf_session_get_state(p.session).opportunities);
        forget_rounds(p.value);
    }
    pf_flight_destroy(flight);
    pf_check_destroy(check);
    return status;
}
