// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "audit.h"

#include "host/arena.h"
#include "host/parallel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// What one session came to.
typedef struct outcome {
    bool alarm, misfit, named, within;
    int probes, rehearsals;
    pf_audit_count with, without;
    pf_audit_count rules[PF_RULES];
    int rule_runs[PF_RULES];
} outcome;

typedef struct work {
    const pf_audit *audit;
    const pf_audit_entry *entry;
    pf_plant **plants; // one per worker, the first is the caller's
    outcome *outcomes;
} work;

double pf__audit_p_value(int k, int n, double rate)
{
    double sum = 0;
    for (int j = 0; j <= k; j++) {
        sum += exp(lgamma(n + 1) - lgamma(j + 1) - lgamma(n - j + 1) + j * log(rate) +
                   (n - j) * log1p(-rate));
    }
    return fmin(1, sum);
}

double pf__audit_upper(int k, int n)
{
    // the rate at which k or fewer of n have a probability of 5 %
    double lo = 0, hi = 1;
    for (int i = 0; i < 60 && k < n; i++) {
        double p = (lo + hi) / 2;
        *(pf__audit_p_value(k, n, p) > .05 ? &lo : &hi) = p;
    }
    return k < n ? hi : 1;
}

// Whether a task would be go without a rehearsal: its bound is met and nothing speaks against it.
static bool go_without(const pf_session_state *state, const pf_task_readiness *task)
{
    bool met = task->why == PF_WHY_CERTIFIED || task->why == PF_WHY_REHEARSAL ||
               task->why == PF_WHY_NOT_REHEARSED;
    bool unseen = task->unseen[1] > 0; // only its rehearsal cleared it
    return met && !unseen && !state->doubt;
}

static void count_task(pf_audit_count *c, double flown, double lower, double j_min)
{
    c->go++;
    c->below_bound += flown < lower;
    c->below_j_min += flown < j_min;
}

// Flies what came out go, each flight with a disturbance of its own.
static pf_status fly(const work *w, pf_plant *plant, pf_session *session, uint64_t seed,
                     const pf_fault *faults, int n_faults, outcome *out, pf_error *error)
{
    const pf_kit *kit = w->audit->kit;
    pf_kit_info k = pf_kit_get_info(kit);
    const char *environment = pf_plant_environment(pf_plant_get_info(plant));
    pf_session_state state = pf_session_get_state(session);
    pf_flight *flight = NULL;
    double corrections[PF_MECH_MAX];
    for (int j = 0; j < k.n_mech; j++) {
        corrections[j] = pf_session_mechanism(session, j)->correction;
    }
    pf_status status = pf_flight_create(&flight, plant, kit, error);
    if (status == PF_OK) {
        status =
            pf_flight_start(flight, pf_key_stream(seed, environment, 0, PF_PURPOSE_TASK, 0), error);
    }
    for (int t = 0; t < k.n_tasks && status == PF_OK; t++) {
        const pf_task_readiness *task = pf_session_task(session, t);
        bool with = task->decision == PF_GO, without = go_without(&state, task);
        pf_flown flown = {1, 0, 0};
        pf_attempt attempt = {
            .task = t,
            .key = pf_key_stream(seed, environment, 0, PF_PURPOSE_TASK, (uint64_t)t + 1),
            .corrections = corrections,
            .faults = faults,
            .n_faults = n_faults};
        if (with || without) {
            status = pf_flight_fly(flight, &attempt, &flown, error);
        }
        if (with && status == PF_OK) {
            count_task(&out->with, flown.ret, task->lower, k.j_min);
        }
        if (without && status == PF_OK) {
            count_task(&out->without, flown.ret, task->lower, k.j_min);
        }
    }
    pf_flight_destroy(flight);
    out->with.all_go = out->with.go == k.n_tasks;
    out->without.all_go = out->without.go == k.n_tasks;
    out->with.false_go = out->with.below_j_min > 0;
    out->without.false_go = out->without.below_j_min > 0;
    return status;
}

// What one of the practitioners' rules says of the same machine, flown from the same start.
static pf_status try_rule(const work *w, pf_plant *plant, int rule, uint64_t seed,
                          const pf_fault *faults, int n_faults, outcome *out, pf_error *error)
{
    const pf_kit *kit = w->audit->kit;
    pf_kit_info k = pf_kit_get_info(kit);
    const char *environment = pf_plant_environment(pf_plant_get_info(plant));
    double correction[PF_MECH_MAX];
    pf_rule_verdict verdict = {.go = calloc((size_t)k.n_tasks, sizeof(bool)),
                               .correction = correction};
    pf_rule_trial trial = {kit, plant, w->audit->model, seed, faults, n_faults};
    pf_flight *flight = NULL;
    pf_audit_count *count = &out->rules[rule];
    pf_status status = verdict.go ? pf__rule_decide(rule, &trial, &verdict, error)
                                  : pf_fail(error, PF_ERR_MEMORY, "out of memory for a rule");
    status = status ? status : pf_flight_create(&flight, plant, kit, error);
    pf_key start = pf_key_stream(seed, environment, 0, PF_PURPOSE_TASK, 0);
    status = status ? status : pf_flight_start(flight, start, error);
    for (int t = 0; t < k.n_tasks && status == PF_OK; t++) {
        pf_flown flown = {1, 0, 0};
        pf_attempt attempt = {
            .task = t,
            .key = pf_key_stream(seed, environment, 0, PF_PURPOSE_TASK, (uint64_t)t + 1),
            .corrections = correction,
            .faults = faults,
            .n_faults = n_faults};
        if (verdict.go[t]) {
            status = pf_flight_fly(flight, &attempt, &flown, error);
            count_task(count, flown.ret, k.j_min, k.j_min);
        }
    }
    count->all_go = count->go == k.n_tasks;
    count->false_go = count->below_j_min > 0;
    out->rule_runs[rule] = verdict.runs;
    pf_flight_destroy(flight);
    free(verdict.go);
    return status;
}

// Whether exactly the mechanisms with a fault are named; of a fault elsewhere: none is.
static bool names(const pf_session *session, int n_mech, const pf_fault *faults, int n_faults)
{
    for (int j = 1; j < n_mech; j++) {
        bool faulty = false;
        for (int i = 0; i < n_faults; i++) {
            bool mechanism = faults[i].kind < PF_FAULT_KNOB &&
                             pf_fault_at(faults[i].kind)->place == PF_FAULT_ON_MECHANISM;
            bool healthy = faults[i].kind == PF_FAULT_GAIN && faults[i].value == 1;
            faulty = faulty || (mechanism && faults[i].at == j && !healthy);
        }
        if ((pf_session_mechanism(session, j)->changed > .5) != faulty) {
            return false;
        }
    }
    return true;
}

static pf_status run_session(void *self, int worker, size_t item, pf_error *error)
{
    work *w = self;
    const pf_audit *a = w->audit;
    pf_plant *plant = w->plants[worker];
    const pf_plant_info *info = pf_plant_get_info(plant);
    outcome *out = &w->outcomes[item];
    uint64_t seed = pf_key_stream(a->seed, w->entry->name, item, PF_PURPOSE_EVALUATION, 0) >> 12;
    pf_fault faults[2];
    int n_faults = 0;
    pf_check *check = NULL;
    *out = (outcome){0};
    pf_status status =
        pf__catalogue_faults(w->entry, a->kit, info, a->seed, (int)item, faults, &n_faults, error);
    pf_check_config config = {.machine = plant,
                              .model = a->model,
                              .seed = seed,
                              .faults = n_faults > 0 ? faults : NULL,
                              .n_faults = n_faults};
    if (status == PF_OK) {
        status = pf_check_create(&check, a->kit, &config, error);
    }
    if (status == PF_OK) {
        status = pf_check_run(check, NULL, error);
    }
    if (status == PF_OK) {
        pf_session *session = pf_check_session(check);
        pf_session_state state = pf_session_get_state(session);
        out->alarm = state.alarm;
        out->misfit = state.misfit > 1 || state.implausible > 0;
        out->named = names(session, info->n_mech, faults, n_faults);
        if (n_faults > 0 && faults[0].kind == PF_FAULT_GAIN) {
            const double *interval = pf_session_mechanism(session, faults[0].at)->interval;
            out->within = faults[0].value >= interval[0] && faults[0].value <= interval[1];
        }
        out->probes = state.told - state.rehearsals;
        out->rehearsals = state.rehearsals;
        status = fly(w, plant, session, seed, faults, n_faults, out, error);
    }
    for (int rule = 0; rule < PF_RULES && a->rules && status == PF_OK; rule++) {
        status = try_rule(w, plant, rule, seed, faults, n_faults, out, error);
    }
    pf_check_destroy(check);
    return status;
}

static void add_count(pf_audit_count *to, const pf_audit_count *from)
{
    to->go += from->go;
    to->below_bound += from->below_bound;
    to->below_j_min += from->below_j_min;
    to->false_go += from->false_go;
    to->all_go += from->all_go;
}

static pf_status run_entry(work *w, pf_audit_result *r, int n_workers, pf_error *error)
{
    const pf_audit *a = w->audit;
    const pf_plant_info *info = pf_plant_get_info(a->plant);
    pf_fault faults[2];
    int n = 0;
    *r = (pf_audit_result){.name = w->entry->name,
                           .promised = w->entry->promised != 0,
                           .sessions = a->sessions,
                           .tasks = pf_kit_get_info(a->kit).n_tasks};
    pf_error why = {PF_OK, ""};
    pf_status status = pf__catalogue_faults(w->entry, a->kit, info, a->seed, 0, faults, &n, &why);
    if (status == PF_ERR_UNSUPPORTED) {
        memcpy(r->why, why.text, sizeof r->why - 1);
        return PF_OK;
    }
    status = pf__parallel(a->effort, n_workers, (size_t)a->sessions, run_session, w, w->entry->name,
                          error);
    // a closed loop of a foreign plant has what it declares; a fault may break the simulator
    if (status == PF_ERR_UNSUPPORTED || status == PF_ERR_PLANT) {
        memcpy(r->why, error->text, sizeof r->why - 1);
        return PF_OK;
    }
    r->covered = status == PF_OK;
    bool gain = strcmp(w->entry->fault, "gain") == 0;
    for (int i = 0; i < a->sessions && status == PF_OK; i++) {
        const outcome *o = &w->outcomes[i];
        r->alarm += o->alarm;
        r->misfit += o->misfit;
        r->named += o->named;
        r->within += o->within;
        r->probes += o->probes;
        r->rehearsals += o->rehearsals;
        r->within = gain ? r->within : -1;
        add_count(&r->with, &o->with);
        add_count(&r->without, &o->without);
        for (int rule = 0; rule < PF_RULES; rule++) {
            add_count(&r->rules[rule], &o->rules[rule]);
            r->rule_runs[rule] += o->rule_runs[rule];
        }
    }
    return status;
}

pf_status pf__audit_run(const pf_audit *a, const bool *known, pf_audit_result *results,
                        pf_error *error)
{
    int n_workers = pf__threads(a->effort);
    pf_arena arena = {0};
    work w = {.audit = a,
              .plants = pf__arena_take(&arena, (size_t)n_workers, sizeof *w.plants),
              .outcomes = pf__arena_take(&arena, (size_t)a->sessions, sizeof *w.outcomes)};
    pf_status status =
        arena.failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory for an audit") : PF_OK;
    for (int i = 0; i < n_workers && status == PF_OK; i++) {
        w.plants[i] = i == 0 ? a->plant : NULL;
        status = i == 0 ? PF_OK : pf_plant_clone(a->plant, &w.plants[i], error);
    }
    for (int e = 0; e < a->catalogue->n && status == PF_OK; e++) {
        if (known && known[e]) {
            continue;
        }
        w.entry = &a->catalogue->entries[e];
        status = run_entry(&w, &results[e], n_workers, error);
        if (status == PF_OK && a->done) {
            status = a->done(a->self, e, &results[e], error);
        }
    }
    for (int i = 1; w.plants && i < n_workers; i++) {
        pf_plant_destroy(w.plants[i]);
    }
    pf__arena_free(&arena);
    return status;
}
