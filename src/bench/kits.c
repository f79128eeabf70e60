// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "kits.h"
#include "own_method.h"
#include "stats.h"
#include "trial.h"
#include "verdict.h"
#include "design/search.h"
#include "model/rollout.h"
#include "plant/plant_impl.h"
#include "core/score.h"
#include "core/sha256.h"

#include "calibrate/source.h"
#include "host/text.h"
#include "preflight/design.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int pf__family_of(const pf_own_methods *own, const char *method)
{
    const pf_method *m = pf__method_of(own, method);
    return m->group ? PF_FAMILY_GROUP : (int)m->statistic;
}

int pf__kits_place(const pf_suite *suite, int method)
{
    if (pf__suite_audits(suite)) {
        return pf__verdict_kit(pf__verdict_rule(suite->methods.text[method]));
    }
    return suite->settings.verdict == PF_VERDICT_FIELD
               ? method
               : pf__family_of(suite->own, suite->methods.text[method]);
}

void pf__sharing_methods(int n, const char *const *methods, bool *shares)
{
    bool any = false;
    for (int i = 0; i < n; i++) {
        shares[i] = false;
        for (int k = 0; k < PF_BASELINES + 1; k++) {
            shares[i] = shares[i] || strcmp(methods[i], pf__compared[k]) == 0;
        }
        any = any || shares[i];
    }
    for (int i = 0; i < n && !any; i++) {
        shares[i] = true;
    }
}

size_t pf__kits_session_size(const pf_trial_kits *kits)
{
    size_t most = 0;
    for (int i = 0; i < PF_KITS_MAX; i++) {
        size_t bytes = kits->bytes[i] ? pf_session_size(kits->kit[i]) : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

const pf_kit *pf__kits_library(const pf_trial_kits *kits, bool group)
{
    int family = group ? PF_FAMILY_GROUP : kits->bytes[0] ? 0 : 1;
    return kits->bytes[family] ? kits->kit[family] : NULL;
}

static void hash_numbers(pf_sha256 *sha, const double *values, size_t n)
{
    if (values) {
        pf__sha256_update(sha, values, n * sizeof *values);
    }
}

// A disturbed rollout of a machine with one mechanism weak; -1: none is.
static pf_roll weak_roll(const pf_plant_info *info, pf_key key, int weak, double *gains)
{
    pf_roll roll = pf_roll_default();
    for (int j = 0; j < info->n_mech; j++) {
        gains[j] = j == weak ? .35 : 1;
    }
    roll.key = key;
    roll.gains = gains;
    roll.disturbance = true;
    return roll;
}

// Responses to one pulse shape on every mechanism.
static pf_status hash_responses(pf_plant *plant, const pf_pulse *pulse, pf_sha256 *sha,
                                pf_error *error)
{
    const pf_plant_info *info = pf_plant_get_info(plant);
    size_t mech = (size_t)info->n_mech, rows = (size_t)pulse->rows;
    double gains[PF_MECH_MAX];
    double *command = calloc(rows * mech, sizeof *command);
    double *output = calloc(rows * (size_t)info->n_chan, sizeof *output);
    pf_status status = command && output ? PF_OK : pf_fail(error, PF_ERR_MEMORY, "out of memory");
    for (int j = 0; j < 2 * info->n_mech && status == PF_OK; j++) {
        pf__pulse_command(pulse, info->n_mech, j / 2, command);
        pf_roll roll = weak_roll(info, (pf_key)j, j % 2 ? j / 2 : -1, gains);
        roll.command = command;
        roll.rows = pulse->rows;
        roll.sensor_noise = 1;
        status = pf_plant_roll(plant, &roll, &(pf_trace){.output = output}, error);
        hash_numbers(sha, output, rows * (size_t)info->n_chan);
    }
    free(command);
    free(output);
    return status;
}

// Scores of every closed loop that has one, healthy and with its owner weak.
static pf_status hash_loops(pf_plant *plant, pf_sha256 *sha, pf_error *error)
{
    const pf_plant_info *info = pf_plant_get_info(plant);
    pf_status status = PF_OK;
    for (int i = 0; i < 2 * info->n_policies && status == PF_OK; i++) {
        const pf_policy *policy = &info->policies[i / 2];
        if (!(policy->norm > 0)) {
            continue;
        }
        double gains[PF_MECH_MAX], numbers[] = {policy->norm, policy->owner, 0};
        pf_roll roll = weak_roll(info, (pf_key)i, i % 2 ? policy->owner : -1, gains);
        roll.rows = policy->rows;
        roll.policy = i / 2;
        status = pf_plant_roll(plant, &roll, &(pf_trace){.score = &numbers[2]}, error);
        hash_numbers(sha, numbers, 3);
    }
    return status;
}

// A flight of every variant of a plant with measures of its own, the candidate weak.
static pf_status hash_flights(pf_plant *plant, pf_sha256 *sha, pf_error *error)
{
    const pf_plant_info *info = pf_plant_get_info(plant);
    double gains[PF_MECH_MAX], metrics[64];
    pf_status status = PF_OK;
    for (int p = 0; p < info->n_policies && status == PF_OK; p += info->n_mech - 1) {
        pf_roll roll = weak_roll(info, (pf_key)p << 32, 1, gains);
        roll.policy = p;
        roll.rows = info->policies[p].rows;
        status = pf_plant_roll(plant, &roll, &(pf_trace){.metrics = metrics}, error);
        hash_numbers(sha, metrics, (size_t)info->n_metrics);
    }
    return status;
}

pf_status pf__plant_fingerprint(pf_plant *plant, char fingerprint[65], pf_error *error)
{
    const pf_plant_info *info = pf_plant_get_info(plant);
    size_t m = (size_t)info->n_mech - 1;
    pf_sha256 sha;
    uint8_t digest[32];
    pf__sha256_init(&sha);
    for (int c = 0; c < info->n_chan; c++) {
        const double numbers[] = {info->channels[c].noise_sd, info->channels[c].scale};
        hash_numbers(&sha, numbers, 2);
    }
    for (int j = 0; j < info->n_mech; j++) {
        const double numbers[] = {info->mechanisms[j].lo, info->mechanisms[j].hi};
        hash_numbers(&sha, numbers, 2);
    }
    hash_numbers(&sha, info->reveal, m);
    hash_numbers(&sha, info->importance, m);
    pf_status status = hash_responses(plant, info->probe, &sha, error);
    // another version or model file of a simulator may differ where no response here shows it; the
    // version of a plant of our own is in the settings
    if (info->source && strcmp(info->source, "preflight " PF_VERSION) != 0) {
        pf__sha256_update(&sha, info->source, strlen(info->source));
    }
    if (status == PF_OK) {
        status = info->n_metrics > 0 ? hash_flights(plant, &sha, error)
                                     : hash_responses(plant, info->task, &sha, error);
    }
    if (status == PF_OK) {
        hash_numbers(&sha, info->charge, m);
        status = hash_loops(plant, &sha, error);
    }
    pf__sha256_final(&sha, digest);
    pf__sha256_text(digest, fingerprint);
    return status;
}

// Whether alarm trials share a few starts: the nominal residual of a deterministic plant under its
// own twin is the sensors' noise, whatever the start, and a simulator takes its time.
static bool is_pooled(const pf_kits_request *r)
{
    const pf_plant_info *info = pf_plant_get_info(r->plant);
    return info->deterministic && !r->model && pf__responses_cost(info);
}

// What the suite's settings are in a kit: the hazard of an opportunity, and trials stop and recover
// by themselves.
static pf_settings kit_settings(const pf_kits_request *r)
{
    pf_settings s = *r->settings;
    s.seed = (double)r->seed;
    if (r->settings->verdict == PF_VERDICT_FIELD) {
        s.sigma = NAN; // from the data, as `calibrate` has it
        return s;
    }
    s.hazard = 1 - pow(1 - s.hazard, PF_SCHEDULE_PERIOD);
    s.stop = PF_STOP_LATCH;
    s.budget1 = PF_RESPONSES_OPPORTUNITIES;
    s.budget2 = 2;
    return s;
}

void pf__kits_key(const pf_kits_request *r, char key[65])
{
    pf_text text = {0};
    pf_settings settings = kit_settings(r);
    pf__text_addf(&text, "%s|%s|", PF_VERSION, pf_plant_get_info(r->plant)->name);
    pf__settings_json(&text, &settings, PF_SETTINGS_ALL);
    pf__text_addf(&text, "|%s%s", r->fingerprint, is_pooled(r) ? "|pooled" : "");
    for (int i = 0; i < r->n_methods; i++) {
        const pf_method *method = pf__method_of(r->own, r->methods[i]);
        pf__text_addf(&text, "|%s%s%s", r->methods[i], r->old && i == 1 ? " 0.1" : "",
                      method->rule == PF_RULE_OWN ? method->line : "");
    }
    if (r->risk != PF_RISK_OWN || !isnan(r->amplitude)) {
        pf__text_addf(&text, "|%d|%.17g", (int)r->risk, r->amplitude);
    }
    if (r->model || r->opportunities > 0) {
        pf__text_addf(&text, "|%s|%s|%d", r->model ? pf_model_get_info(r->model)->sha256 : "",
                      r->model ? pf__numeric_library() : "", r->opportunities);
    }
    for (int i = 0; i < r->n_methods; i++) {
        if (pf__family_of(r->own, r->methods[i]) == PF_FAMILY_GROUP ||
            r->settings->verdict == PF_VERDICT_FIELD) {
            pf__text_addf(&text, "|%s|%s", r->group.probes ? r->group.probes : "",
                          r->group.library ? r->group.library : "");
            break;
        }
    }
    pf__sha256_of(text.data ? text.data : "", text.size, key);
    pf__text_free(&text);
}

// The paper's reveal profiles over m candidate tasks in the order of their mechanisms.
static void set_risk(pf_plan *plan, pf_risk risk)
{
    int m = plan->n_tasks;
    for (int t = 0; t < m && risk != PF_RISK_OWN; t++) {
        // the plan is ours: its memory is writable
        pf_plan_task *task = (pf_plan_task *)(uintptr_t)&plan->tasks[t];
        task->reveal = risk == PF_RISK_UNIFORM ? 1.0 / m : 2.0 * (m - t) / ((double)m * (m + 1));
        task->importance = risk == PF_RISK_RARE_CRITICAL && t == m - 1 ? 2.0 * (m + 1) : 1;
    }
}

// A task weighs on the candidate that it is named after, whatever else it needs.
static void set_candidates(pf_plan *plan)
{
    for (int t = 0; t < plan->n_tasks; t++) {
        pf_plan_task *task = (pf_plan_task *)(uintptr_t)&plan->tasks[t];
        ((int *)(uintptr_t)task->uses)[0] = t + 1;
        task->n_uses = 1;
    }
}

// The probes of a MuJoCo system in another shape.
static void set_pulse(pf_plan *plan, const pf_plant_info *info, pf_pulse_shape shape)
{
    for (int q = 0; q < plan->n_probes && pf__plant_is_mujoco(info->name); q++) {
        const pf_plan_probe *p = &plan->probes[q];
        double *command = (double *)(uintptr_t)p->command;
        int from = shape == PF_PULSE_NEGATIVE  ? 0
                   : shape == PF_PULSE_DOUBLET ? info->probe->steps / 2
                                               : p->rows;
        for (int i = from * plan->n_mech; i < p->rows * plan->n_mech; i++) {
            command[i] = -command[i];
        }
    }
}

static void set_amplitude(pf_plan *plan, const pf_plant_info *info, double amplitude)
{
    for (int q = 0; q < plan->n_probes && !isnan(amplitude); q++) {
        const pf_plan_probe *p = &plan->probes[q];
        double *command = (double *)(uintptr_t)p->command;
        double factor = amplitude / fabs(info->probe->amplitude[p->targets[0]]);
        for (int i = 0; i < p->rows * plan->n_mech; i++) {
            command[i] *= factor;
        }
    }
}

// The probes of a suite's file into the plan. `source` owns them and must outlive it.
static pf_status take_library(pf_plan *plan, pf_plan *source, const pf_kits_request *r,
                              pf_error *error)
{
    const pf_group_settings *g = &r->group;
    pf_status status = pf__plan_from_config(source, pf_plant_get_info(r->plant), g->probes,
                                            g->library, strlen(g->library), NULL, 0, error);
    plan->n_probes = source->n_probes;
    plan->probes = source->probes;
    return status;
}

// The one place that decides which probes the methods of a family have: the paper's library, or for
// group methods what the suite asks for. Tasks are the plant's with any of them.
static pf_status choose_library(pf_plan *plan, pf_plan *source, const pf_kits_request *r,
                                int family, pf_error *error)
{
    const pf_group_settings *g = &r->group;
    pf_status status = pf__plan_default(plan, pf_plant_get_info(r->plant), error);
    if (status != PF_OK || family != PF_FAMILY_GROUP || strcmp(g->probes, "single") == 0) {
        return status;
    }
    if (g->library) {
        return take_library(plan, source, r, error);
    }
    plan->settings.g_cal = r->settings->g_cal;
    plan->settings.weighting = PF_WEIGHTING_NONE; // libraries of suites are confirmed without
    plan->settings.seed = r->seed;
    plan->settings.sensor_noise =
        isnan(r->settings->sensor_noise) ? plan->settings.sensor_noise : r->settings->sensor_noise;
    return pf__plan_design(plan, NULL, r->plant, r->model, NULL, error);
}

// The plan of a suite: everything on "nothing changed", a hazard, and the paper's channel unless
// the family has its own.
static pf_status make_plan(pf_plan *plan, pf_plan *source, const pf_kits_request *r, int family,
                           pf_error *error)
{
    bool group = family == PF_FAMILY_GROUP;
    pf_settings settings = kit_settings(r);
    if (group) {
        settings.sigma = NAN; // of a channel of its own
    } else {
        settings.every_severity = false;
        settings.faults = PF_FAULTS_ONE;
        settings.weighting = PF_WEIGHTING_NONE;
    }
    pf_status status = choose_library(plan, source, r, family, error);
    status = status ? status : pf__plan_take_settings(plan, &settings, error);
    if (status != PF_OK) {
        return status;
    }
    pf__policy_tasks(plan, pf_plant_get_info(r->plant));
    if (pf_plant_get_info(r->plant)->n_metrics > 0) {
        set_candidates(plan);
    }
    set_risk(plan, r->risk);
    if (!group) {
        set_pulse(plan, pf_plant_get_info(r->plant), (pf_pulse_shape)r->settings->pulse);
        set_amplitude(plan, pf_plant_get_info(r->plant), r->amplitude);
    }
    return PF_OK;
}

// The channels of a family's methods, none of which has its threshold yet. `out` stays empty where
// no method is of that family.
static pf_status fit_channels(pf_kit_build *out, const pf_kits_request *r, int family,
                              pf_error *error)
{
    const char *methods[PF_KITS_MAX];
    pf_plan plan = {0}, probes = {0};
    int n = 0;
    for (int i = 0; i < r->n_methods; i++) {
        if (pf__family_of(r->own, r->methods[i]) == family) {
            methods[n++] = r->methods[i];
        }
    }
    if (n == 0) {
        return PF_OK;
    }
    pf_effort one = {.threads = 1};
    pf_plant_source c = {.plan = &plan, .model = r->model, .effort = &one};
    pf_status status = make_plan(&plan, &probes, r, family, error);
    status = status ? status : pf__contract_check(&plan, r->plant, true, NULL, NULL, error);
    if (status == PF_OK) {
        pf_kit_kind kind = pf__plant_kind(&c, pf_plant_get_info(r->plant),
                                          pf__method_of(r->own, methods[0])->statistic);
        kind.n_members = 1;
        kind.n_methods = n;
        kind.methods = methods;
        status = pf__plant_open(&c, r->plant, &kind, error);
    }
    if (status == PF_OK) {
        pf_source source = pf__plant_source(&c);
        status = pf__calibrate_channels(&source, error);
    }
    *out = c.build;
    c.build = (pf_kit_build){.arena = {0}};
    pf__plant_free(&c);
    pf__plan_free(&plan);
    pf__plan_free(&probes);
    return status;
}

// --- thresholds: nominal trials that all methods share

typedef struct alarm_work {
    const pf_kits_request *request;
    int in_step;
    // per trial in step: of the paper's library and of the group probes
    pf_responses responses[PF_ALARM_IN_STEP][2];
    pf_nominal_cache nominal[2];
} alarm_work;

static int opportunities(const pf_kits_request *r, int trial)
{
    pf_rng rng;
    pf_rng_init(&rng, pf_key_stream(r->seed, pf_plant_get_info(r->plant)->name, (uint64_t)trial,
                                    PF_PURPOSE_LAW, 2));
    if (r->opportunities > 0) {
        return (PF_SCHEDULE_TAU + PF_SCHEDULE_PERIOD * r->opportunities - 1) / PF_SCHEDULE_PERIOD;
    }
    int reveal = PF_SCHEDULE_REVEAL_FIRST +
                 (int)pf_rng_below(&rng, PF_SCHEDULE_REVEAL_LAST - PF_SCHEDULE_REVEAL_FIRST + 1);
    return (reveal - 1) / PF_SCHEDULE_PERIOD;
}

static void begin_trial(void *self, int place, uint64_t trial)
{
    alarm_work *w = self;
    for (int b = 0; b < 2; b++) {
        pf_responses *r = &w->responses[place][b];
        if (r->kit) {
            pf__responses_start(r, w->request->seed, trial, PF_PURPOSE_THRESHOLD, 0, NULL, NULL);
        }
        if (w->nominal[b].number) {
            pf__nominal_give(&w->nominal[b], (int)trial, r);
        }
    }
}

static void end_trial(void *self, int place, uint64_t trial)
{
    alarm_work *w = self;
    for (int b = 0; b < 2; b++) {
        if (w->nominal[b].number) {
            pf__nominal_take(&w->nominal[b], (int)trial, &w->responses[place][b]);
        }
    }
}

static int family_in(const alarm_work *w, const pf_alarm_trial *t)
{
    return pf__family_of(w->request->own, w->request->methods[t->method]);
}

static pf_responses *responses_of(alarm_work *w, const pf_alarm_trial *t)
{
    return &w->responses[t->place][family_in(w, t) == PF_FAMILY_GROUP];
}

// Asks every session and answers what nobody has answered yet, in step.
static pf_status answer_all(alarm_work *w, int opportunity, int n, const pf_alarm_trial *trials,
                            const pf_ask *asks, pf_error *error)
{
    pf_question looks[PF_ALARM_IN_STEP * PF_KITS_MAX];
    pf_status status = PF_OK;
    for (int b = 0; b < 2 && status == PF_OK; b++) {
        int waiting = 0;
        for (int i = 0; i < n; i++) {
            pf_responses *r = responses_of(w, &trials[i]);
            bool asked = opportunity >= trials[i].most || r != &w->responses[trials[i].place][b] ||
                         !pf__responses_in_step(r) ||
                         pf__responses_knows(r, opportunity, asks[i].probe, false);
            for (int k = 0; k < waiting && !asked; k++) {
                asked = looks[k].responses == r && looks[k].probe == asks[i].probe;
            }
            if (!asked) {
                looks[waiting++] = (pf_question){r, opportunity, asks[i].probe, false};
            }
        }
        status = pf__responses_looks(waiting, looks, error);
    }
    return status;
}

static pf_status tell(alarm_work *w, int opportunity, const pf_alarm_trial *t, int probe,
                      pf_error *error)
{
    const pf_stage1_answer *e = NULL;
    pf_status status =
        pf__responses_stage1(responses_of(w, t), opportunity, probe, false, &e, error);
    if (status != PF_OK) {
        return status;
    }
    bool norm = family_in(w, t) == (int)PF_STATISTIC_NORM;
    pf_match match = pf__match_norm(e->norm);
    pf_evidence evidence = {.match = norm ? &match : e->match};
    return pf_session_tell_evidence(t->session, &evidence, error);
}

static pf_status run_trials(void *self, int n, const pf_alarm_trial *trials, pf_error *error)
{
    alarm_work *w = self;
    pf_ask asks[PF_ALARM_IN_STEP * PF_KITS_MAX];
    pf_status status = PF_OK;
    int most = 0;
    for (int i = 0; i < n; i++) {
        most = trials[i].most > most ? trials[i].most : most;
    }
    for (int o = 0; o < most && status == PF_OK; o++) {
        for (int i = 0; i < n; i++) {
            if (o < trials[i].most) {
                asks[i] = pf_session_ask(trials[i].session);
            }
        }
        status = answer_all(w, o, n, trials, asks, error);
        for (int i = 0; i < n && status == PF_OK; i++) {
            if (o < trials[i].most) {
                status = tell(w, o, &trials[i], asks[i].probe, error);
            }
        }
    }
    return status;
}

// The responses to a library, with what is known of the nominal trials.
static pf_status open_responses(alarm_work *w, int b, const pf_kit *kit, pf_error *error)
{
    const pf_kits_request *r = w->request;
    pf_nominal_cache *cache = &w->nominal[b];
    void *bytes = NULL;
    size_t n = 0;
    pf_status status = pf__responses_init(&w->responses[0][b], r->plant, kit, r->model, error);
    w->in_step =
        status == PF_OK && pf__responses_in_step(&w->responses[0][b]) ? PF_ALARM_IN_STEP : 1;
    for (int p = 1; p < w->in_step && status == PF_OK; p++) {
        status = pf__responses_init(&w->responses[p][b], r->plant, kit, r->model, error);
    }
    if (status != PF_OK || w->in_step > 1) {
        return status; // answers that take less time to compute than to keep
    }
    status = pf__nominal_init(cache, &w->responses[0][b], r->seed, r->settings->alarm_trials,
                              r->fingerprint, error);
    if (status == PF_OK && r->nominal.get &&
        r->nominal.get(r->nominal.self, cache->key, &bytes, &n) && bytes) {
        pf__nominal_read(cache, bytes, n);
    }
    free(bytes);
    return status == PF_OK && is_pooled(r) ? pf__responses_pool(&w->responses[0][b], error)
                                           : status;
}

static void keep_nominal(const alarm_work *w, int b)
{
    const pf_blob_store *store = &w->request->nominal;
    const pf_nominal_cache *l = &w->nominal[b];
    if (l->fresh > 0 && store->put) {
        store->put(store->self, l->key, l->number, l->n * sizeof *l->number);
    }
}

// Thresholds of all methods, in the order of the request.
static pf_status run_alarm(alarm_work *w, const pf_kit *const *kits, double *thresholds,
                           pf_error *error)
{
    const pf_kits_request *r = w->request;
    int *most = calloc((size_t)r->settings->alarm_trials, sizeof *most);
    if (!most) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for alarm trials");
    }
    for (int i = 0; i < r->settings->alarm_trials; i++) {
        most[i] = opportunities(r, i);
    }
    bool shared[PF_KITS_MAX];
    const pf_method *own[PF_KITS_MAX];
    pf__sharing_methods(r->n_methods, r->methods, shared);
    for (int i = 0; i < r->n_methods; i++) {
        own[i] = pf__own_method(r->own, r->methods[i]);
    }
    pf_alarm alarm = {.n_methods = r->n_methods,
                      .methods = r->methods,
                      .kits = kits,
                      .trials = r->settings->alarm_trials,
                      .opportunities = most,
                      .rate = r->settings->alarm_rate,
                      .shared = r->settings->threshold == PF_THRESHOLD_SHARED ? shared : NULL,
                      .own = own,
                      .seed = r->seed,
                      .environment = pf_plant_get_info(r->plant)->name,
                      .stream = 1,
                      .self = w,
                      .in_step = w->in_step,
                      .begin = begin_trial,
                      .end = end_trial,
                      .run_trials = run_trials};
    pf_status status = pf__fit_alarm(&alarm, &(pf_effort){.threads = 1}, 1, thresholds, error);
    free(most);
    return status;
}

static pf_status fit_thresholds(pf_kit_build *builds, const pf_kits_request *r, pf_error *error)
{
    alarm_work w = {.request = r};
    const pf_kit *kits[PF_KITS_MAX];
    double thresholds[PF_KITS_MAX];
    int next[PF_FAMILIES] = {0};
    pf_status status = PF_OK;
    for (int i = 0; i < r->n_methods && status == PF_OK; i++) {
        int family = pf__family_of(r->own, r->methods[i]), b = family == PF_FAMILY_GROUP;
        kits[i] = &builds[family].kit;
        // families of the paper's library share the responses of the first one
        bool shared = family == 1 && builds[0].kit.n_probes > 0;
        if (!w.responses[0][b].kit) {
            status = open_responses(&w, b, &builds[shared ? 0 : family].kit, error);
        }
    }
    status = status ? status : run_alarm(&w, kits, thresholds, error);
    for (int b = 0; b < 2; b++) {
        if (status == PF_OK) {
            keep_nominal(&w, b);
        }
        pf__nominal_free(&w.nominal[b]);
        for (int p = 0; p < PF_ALARM_IN_STEP; p++) {
            pf__responses_free(&w.responses[p][b]);
        }
    }
    for (int i = 0; i < r->n_methods && status == PF_OK; i++) {
        int family = pf__family_of(r->own, r->methods[i]);
        builds[family].threshold[next[family]++] = thresholds[i];
    }
    return status;
}

// --- the shipped kit: what `preflight calibrate` makes of the same settings

static pf_status calibrate_field(pf_trial_kits *kits, const pf_kits_request *r, int method,
                                 pf_error *error)
{
    const pf_effort one = {.threads = 1};
    pf_settings settings = kit_settings(r);
    pf_plan plan = {0}, source = {0};
    pf_status status = pf__plan_default(&plan, pf_plant_get_info(r->plant), error);
    plan.method = r->methods[method];
    if (r->old && method == 1) {
        settings.posterior = PF_POSTERIOR_TRANSPORT;
        settings.rehearse = PF_REHEARSE_NONE;
        settings.weighting = PF_WEIGHTING_NONE;
    }
    status = status ? status : pf__plan_take_settings(&plan, &settings, error);
    if (status == PF_OK) {
        status = r->group.library ? take_library(&plan, &source, r, error)
                                  : pf_plan_choose_probes(&plan, r->group.probes, r->plant,
                                                          r->model, &one, error);
    }
    status = status ? status
                    : pf_calibrate(&plan, r->plant, r->model, &one, &kits->bytes[method],
                                   &kits->n[method], error);
    pf__plan_free(&plan);
    pf__plan_free(&source);
    return status;
}

// --- all of them

static pf_status calibrate_families(pf_trial_kits *kits, const pf_kits_request *r, pf_error *error)
{
    pf_kit_build builds[PF_FAMILIES] = {{.arena = {0}}};
    pf_status status = PF_OK;
    for (int f = 0; f < PF_FAMILIES && status == PF_OK; f++) {
        status = fit_channels(&builds[f], r, f, error);
    }
    status = status ? status : fit_thresholds(builds, r, error);
    for (int f = 0; f < PF_FAMILIES; f++) {
        if (status == PF_OK && builds[f].kit.n_probes > 0) {
            status = pf__kit_build_save(&builds[f], &kits->bytes[f], &kits->n[f], error);
        }
        pf__kit_build_free(&builds[f]);
    }
    return status;
}

pf_status pf__kits_calibrate(pf_trial_kits *kits, const pf_kits_request *r, pf_error *error)
{
    bool field = r->settings->verdict == PF_VERDICT_FIELD;
    memset(kits, 0, sizeof *kits);
    if (r->n_methods > PF_KITS_MAX) {
        return pf_fail(error, PF_ERR_ARGUMENT, "%d methods; at most %d share kits", r->n_methods,
                       PF_KITS_MAX);
    }
    pf_status status = field ? PF_OK : calibrate_families(kits, r, error);
    for (int i = 0; field && i < r->n_methods && status == PF_OK; i++) {
        status = calibrate_field(kits, r, i, error);
    }
    status = status ? status : pf__kits_load(kits, error);
    if (status != PF_OK) {
        pf__kits_free(kits);
    }
    return status;
}

pf_status pf__kits_load(pf_trial_kits *kits, pf_error *error)
{
    for (int s = 0; s < PF_KITS_MAX; s++) {
        if (!kits->bytes[s]) {
            continue;
        }
        void *memory = malloc(pf_kit_size());
        pf_status status = memory ? pf_kit_load(&kits->kit[s], kits->bytes[s], kits->n[s], memory,
                                                pf_kit_size(), error)
                                  : pf_fail(error, PF_ERR_MEMORY, "out of memory for a kit");
        if (status != PF_OK) {
            free(memory);
            return status;
        }
    }
    return PF_OK;
}

void pf__kits_free(pf_trial_kits *kits)
{
    for (int family = 0; family < PF_KITS_MAX; family++) {
        free(kits->bytes[family]);
        free(kits->kit[family]);
    }
    memset(kits, 0, sizeof *kits);
}
