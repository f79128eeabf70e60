// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "audit.h"

#include "core/constants.h"
#include "host/arena.h"
#include "host/farm.h"
#include "host/parallel.h"
#include "host/part.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

// One machine of a session, and room for what is flown.
typedef struct machine {
    const pf_audit *audit;
    pf_audit_machine given;
    pf_audit_detail *detail; // Nullable
    bool *wanted;            // n_tasks: to be flown
    double *returns;         // and what they returned
} machine;

// Flies the tasks that are wanted, all from one start, each with a disturbance of its own.
static pf_status fly(const machine *m, const double *corrections, pf_error *error)
{
    const pf_kit *kit = m->audit->kit;
    const char *environment = pf_plant_environment(pf_plant_get_info(m->given.plant));
    pf_flight *flight = NULL;
    pf_status status = pf_flight_create(&flight, m->given.plant, kit, error);
    pf_key start = pf_key_stream(m->given.seed, environment, 0, PF_PURPOSE_TASK, 0);
    status = status ? status : pf_flight_start(flight, start, error);
    for (int t = 0; t < pf_kit_get_info(kit).n_tasks && status == PF_OK; t++) {
        pf_flown flown;
        pf_attempt attempt = {
            .task = t,
            .key = pf_key_stream(m->given.seed, environment, 0, PF_PURPOSE_TASK, (uint64_t)t + 1),
            .corrections = corrections,
            .faults = m->given.faults,
            .n_faults = m->given.n_faults};
        if (m->wanted[t]) {
            status = pf_flight_fly(flight, &attempt, &flown, error);
            m->returns[t] = flown.ret;
        }
    }
    pf_flight_destroy(flight);
    return status;
}

static void end_count(pf_audit_count *c, int n_tasks)
{
    c->all_go = c->go == n_tasks;
    c->false_go = c->below_j_min > 0;
}

// What the shipped verdict, with and without rehearsal, was worth.
static pf_status fly_session(const machine *m, const pf_session *session, pf_audit_result *out,
                             pf_error *error)
{
    pf_kit_info k = pf_kit_get_info(m->audit->kit);
    pf_session_state state = pf_session_get_state(session);
    double corrections[PF_MECH_MAX];
    for (int j = 0; j < k.n_mech; j++) {
        corrections[j] = pf_session_mechanism(session, j)->correction;
    }
    for (int t = 0; t < k.n_tasks; t++) {
        const pf_task_readiness *task = pf_session_task(session, t);
        m->wanted[t] = m->detail || task->decision == PF_GO || go_without(&state, task);
    }
    pf_status status = fly(m, corrections, error);
    for (int t = 0; t < k.n_tasks && status == PF_OK; t++) {
        const pf_task_readiness *task = pf_session_task(session, t);
        if (m->detail) {
            m->detail->decision[t] = (int32_t)task->decision;
            m->detail->lower[t] = task->lower;
            m->detail->flown[t] = m->returns[t];
        }
        if (task->decision == PF_GO) {
            count_task(&out->with, m->returns[t], task->lower, k.j_min);
        }
        if (go_without(&state, task)) {
            count_task(&out->without, m->returns[t], task->lower, k.j_min);
        }
    }
    end_count(&out->with, k.n_tasks);
    end_count(&out->without, k.n_tasks);
    return status;
}

// What one of the practitioners' rules says of the same machine, and what that was worth.
static pf_status try_rule(const machine *m, int rule, pf_audit_result *out, pf_error *error)
{
    pf_kit_info k = pf_kit_get_info(m->audit->kit);
    double correction[PF_MECH_MAX];
    pf_rule_verdict verdict = {.go = m->wanted, .correction = correction};
    pf_rule_trial trial = {m->audit->kit, m->given.plant,  m->audit->model,
                           m->given.seed, m->given.faults, m->given.n_faults};
    pf_status status = pf__rule_decide(rule, &trial, &verdict, error);
    status = status ? status : fly(m, correction, error);
    for (int t = 0; t < k.n_tasks && status == PF_OK; t++) {
        if (m->wanted[t]) {
            count_task(&out->rules[rule], m->returns[t], k.j_min, k.j_min);
        }
    }
    end_count(&out->rules[rule], k.n_tasks);
    out->rule_runs[rule] = verdict.runs;
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
        if ((pf_session_mechanism(session, j)->changed > PF_NAMED) != faulty) {
            return false;
        }
    }
    return true;
}

// How far the estimates are off the gains that were put in; NaN: there are none. Mechanism 0 has
// no estimate.
static double gain_error(const pf_session *session, const pf_fault *faults, int n_faults)
{
    double sum = 0;
    int n = 0;
    for (int i = 0; i < n_faults; i++) {
        if (faults[i].kind == PF_FAULT_GAIN && faults[i].at > 0) {
            sum += fabs(pf_session_mechanism(session, faults[i].at)->mean_gain - faults[i].value);
            n++;
        }
    }
    return n > 0 ? sum / n : NAN;
}

// What the session of a check says, before anything is flown.
static void read_session(const machine *m, const pf_session *session, pf_audit_result *out)
{
    const pf_fault *faults = m->given.faults;
    int n_faults = m->given.n_faults;
    pf_session_state state = pf_session_get_state(session);
    out->alarm = state.alarm;
    out->misfit = state.misfit > 1 || state.implausible > 0;
    out->named = names(session, pf_kit_get_info(m->audit->kit).n_mech, faults, n_faults);
    out->within = -1;
    if (n_faults > 0 && faults[0].kind == PF_FAULT_GAIN && faults[0].at > 0) {
        const double *interval = pf_session_mechanism(session, faults[0].at)->interval;
        out->within = faults[0].value >= interval[0] && faults[0].value <= interval[1];
    }
    out->probes = state.told - state.rehearsals;
    out->rehearsals = state.rehearsals;
    if (m->detail) {
        m->detail->gain_error = gain_error(session, faults, n_faults);
    }
}

static pf_status decide_and_fly(const machine *m, pf_audit_result *out, pf_error *error)
{
    const pf_audit *a = m->audit;
    pf_check *check = NULL;
    pf_check_config config = {.machine = m->given.plant,
                              .twin = m->given.twin,
                              .model = a->model,
                              .seed = m->given.seed,
                              .faults = m->given.faults,
                              .n_faults = m->given.n_faults};
    pf_status status = pf_check_create(&check, a->kit, &config, error);
    status = status ? status : pf_check_run(check, NULL, error);
    if (status == PF_OK) {
        const pf_session *session = pf_check_session(check);
        read_session(m, session, out);
        status = fly_session(m, session, out, error);
    }
    pf_check_destroy(check);
    for (int rule = 0; rule < PF_RULES && a->rules && status == PF_OK; rule++) {
        status = try_rule(m, rule, out, error);
    }
    return status;
}

uint64_t pf__audit_seed(uint64_t seed, const char *name, int session)
{
    return pf_key_stream(seed, name, (uint64_t)session, PF_PURPOSE_EVALUATION, 0) >> 12;
}

pf_status pf__audit_machine(const pf_audit *a, const pf_audit_machine *given, pf_audit_result *out,
                            pf_audit_detail *detail, pf_error *error)
{
    int tasks = pf_kit_get_info(a->kit).n_tasks;
    pf_arena arena = {0};
    *out = (pf_audit_result){.promised = true, .sessions = 1, .tasks = tasks};
    machine m = {.audit = a,
                 .given = *given,
                 .detail = detail,
                 .wanted = pf__arena_take(&arena, (size_t)tasks, sizeof *m.wanted),
                 .returns = pf__arena_take(&arena, (size_t)tasks, sizeof *m.returns)};
    pf_status status = arena.failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory for an audit")
                                    : decide_and_fly(&m, out, error);
    out->covered = status == PF_OK;
    pf__arena_free(&arena);
    return status;
}

pf_status pf__audit_session(const pf_audit *a, pf_plant *plant, const pf_audit_entry *entry,
                            int session, pf_audit_result *out, pf_error *error)
{
    pf_fault faults[2];
    int n = 0;
    *out = (pf_audit_result){0};
    pf_status status = pf__catalogue_faults(entry, a->kit, pf_plant_get_info(plant), a->seed,
                                            session, faults, &n, error);
    pf_audit_machine m = {.plant = plant,
                          .seed = pf__audit_seed(a->seed, entry->name, session),
                          .faults = n > 0 ? faults : NULL,
                          .n_faults = n};
    status = status ? status : pf__audit_machine(a, &m, out, NULL, error);
    out->name = entry->name;
    out->promised = entry->promised != 0;
    return status;
}

// --- the sessions of all entries, handed out one by one

// An entry whose sessions are under way: its result so far.
typedef struct entry_run {
    bool open, settled; // it has begun; nothing more can come
    int next, out;      // the session to be handed out next; how many are in the hands of workers
    int failed;         // the first session that failed; as many as there are: none
    pf_status status;   // of that one
    pf_error error;
    pf_audit_result *outcomes; // of the sessions
    uint8_t *kept;             // by session, with effort->part: see pf__part_stage
} entry_run;

typedef struct work {
    const pf_audit *audit;
    const bool *known; // Nullable
    pf_audit_result *results;
    pf_plant **plants; // one per worker, the first is the caller's
    entry_run *runs;   // by entry
    int first;         // entry that is not settled and said yet
    size_t done, total;
} work;

typedef struct session_job {
    int entry, session;
} session_job;

typedef struct session_said {
    session_job job;
    pf_status status;
    pf_error error;
    pf_audit_result outcome; // the name is the reader's
} session_said;

// The counts, which are whole numbers without gaps, and then what is said in words. The name is the
// caller's.
static int outcome_slots(void *self, size_t item, pf_slot *slots)
{
    char *at = (char *)&((entry_run *)self)->outcomes[item];
    size_t words = offsetof(pf_audit_result, covered), counts = offsetof(pf_audit_result, sessions);
    slots[0] = (pf_slot){.data = at + counts, .size = sizeof(pf_audit_result) - counts};
    slots[1] = (pf_slot){.data = at + words, .size = counts - words, .loose = true};
    return 2;
}

static void add_count(pf_audit_count *to, const pf_audit_count *from)
{
    to->go += from->go;
    to->below_bound += from->below_bound;
    to->below_j_min += from->below_j_min;
    to->false_go += from->false_go;
    to->all_go += from->all_go;
}

static void add_session(pf_audit_result *r, const pf_audit_result *o)
{
    r->alarm += o->alarm;
    r->misfit += o->misfit;
    r->named += o->named;
    r->within = o->within < 0 ? -1 : r->within + o->within;
    r->probes += o->probes;
    r->rehearsals += o->rehearsals;
    add_count(&r->with, &o->with);
    add_count(&r->without, &o->without);
    for (int rule = 0; rule < PF_RULES; rule++) {
        add_count(&r->rules[rule], &o->rules[rule]);
        r->rule_runs[rule] += o->rule_runs[rule];
    }
}

static pf_part *part_of(const work *w)
{
    return w->audit->effort ? w->audit->effort->part : NULL;
}

// Whether a session is to be handed out, r->next. A failed one keeps those behind it from being
// flown.
static bool more_sessions(const work *w, entry_run *r)
{
    while (r->next < w->audit->sessions && r->kept[r->next] == 1) {
        r->next++;
    }
    return r->failed == w->audit->sessions && r->next < w->audit->sessions;
}

// Begins an entry. One that the plant cannot have is settled at once.
static pf_status open_entry(work *w, int e, pf_error *error)
{
    const pf_audit *a = w->audit;
    const pf_audit_entry *entry = &a->catalogue->entries[e];
    entry_run *r = &w->runs[e];
    size_t n = (size_t)a->sessions, kept = 0;
    pf_fault faults[2];
    int n_faults = 0;
    pf_error why = {PF_OK, ""};
    r->open = true;
    r->failed = a->sessions;
    w->results[e] = (pf_audit_result){.name = entry->name,
                                      .promised = entry->promised != 0,
                                      .sessions = a->sessions,
                                      .tasks = pf_kit_get_info(a->kit).n_tasks};
    if (pf__catalogue_faults(entry, a->kit, pf_plant_get_info(a->plant), a->seed, 0, faults,
                             &n_faults, &why) == PF_ERR_UNSUPPORTED) {
        memcpy(w->results[e].why, why.text, sizeof w->results[e].why - 1);
        r->settled = true;
        return PF_OK;
    }
    r->outcomes = calloc(n, sizeof *r->outcomes);
    r->kept = calloc(n, 1);
    if (!r->outcomes || !r->kept) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for an audit");
    }
    pf_status status =
        part_of(w) ? pf__part_stage(part_of(w), n, outcome_slots, r, r->kept, &kept, error) : PF_OK;
    w->done += kept;
    r->settled = status == PF_OK && !more_sessions(w, r);
    return status;
}

// What is to be done with what an entry's sessions have shown.
static pf_status settle(work *w, int e, pf_error *error)
{
    const pf_audit *a = w->audit;
    entry_run *r = &w->runs[e];
    pf_audit_result *out = &w->results[e];
    pf_status status = r->failed < a->sessions ? r->status : PF_OK;
    // a closed loop of a foreign plant has what it declares; a fault may break the simulator
    if (status == PF_ERR_UNSUPPORTED || status == PF_ERR_PLANT) {
        out->broke = status == PF_ERR_PLANT;
        memcpy(out->why, r->error.text, sizeof out->why - 1);
    } else if (status != PF_OK) {
        return pf_fail(error, status, "%s", r->error.text);
    } else if (r->outcomes) {
        out->covered = true;
        for (int i = 0; i < a->sessions; i++) {
            add_session(out, &r->outcomes[i]);
        }
    }
    free(r->outcomes);
    free(r->kept);
    r->outcomes = NULL;
    r->kept = NULL;
    return a->done ? a->done(a->self, e, out, error) : PF_OK;
}

// Entries are said in their order.
static pf_status settle_all(work *w, pf_error *error)
{
    pf_status status = PF_OK;
    for (; w->first < w->audit->catalogue->n && status == PF_OK; w->first++) {
        bool known = w->known && w->known[w->first];
        if (!known && !w->runs[w->first].settled) {
            break;
        }
        status = known ? PF_OK : settle(w, w->first, error);
    }
    return status;
}

static pf_status next(void *self, int worker, pf_turn *turn, pf_text *out, pf_error *error)
{
    (void)worker;
    work *w = self;
    session_job job = {0, 0};
    pf_status status = settle_all(w, error);
    *turn = w->first < w->audit->catalogue->n ? PF_TURN_LATER : PF_TURN_END;
    for (int e = w->first; e < w->audit->catalogue->n && status == PF_OK; e++) {
        entry_run *r = &w->runs[e];
        if (w->known && w->known[e]) {
            continue;
        }
        if (!r->open) {
            status = open_entry(w, e, error);
        }
        if (status == PF_OK && !r->settled && more_sessions(w, r)) {
            job = (session_job){e, r->next++};
            r->out++;
            *turn = PF_TURN_SHORT;
            pf__text_add_n(out, (const char *)&job, sizeof job);
            return out->failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory for a job") : PF_OK;
        }
        if (part_of(w) && !r->settled) {
            return status; // the file keeps one entry after the other
        }
    }
    if (status == PF_OK) {
        status = settle_all(w, error);
        *turn = w->first < w->audit->catalogue->n ? PF_TURN_LATER : PF_TURN_END;
    }
    return status;
}

static pf_status hear(void *self, int worker, const pf_text *text, pf_text *reply, pf_error *error)
{
    (void)worker;
    (void)reply;
    work *w = self;
    const pf_audit *a = w->audit;
    session_said said;
    if (text->size != sizeof said) {
        return pf_fail(error, PF_ERR_INTERNAL, "a worker says %z bytes", text->size);
    }
    memcpy(&said, text->data, sizeof said);
    entry_run *r = &w->runs[said.job.entry];
    size_t item = (size_t)said.job.session;
    pf_status status = PF_OK;
    r->out--;
    w->done++;
    if (said.status == PF_OK) {
        r->outcomes[item] = said.outcome;
        if (part_of(w)) {
            status = pf__part_item(part_of(w), item, outcome_slots, r, r->kept[item], error);
        }
    } else if (said.job.session < r->failed) {
        r->failed = said.job.session;
        r->status = said.status;
        r->error = said.error;
    }
    r->settled = r->out == 0 && !more_sessions(w, r);
    if (a->effort && a->effort->progress) {
        a->effort->progress(a->effort->self, "audit", w->done, w->total);
    }
    return status ? status : settle_all(w, error);
}

static pf_status fly_one(void *self, int worker, pf_link *link, const pf_text *text,
                         pf_error *error)
{
    const work *w = self;
    pf_plant *plant = w->plants[pf__ranks_many(w->audit->ranks) ? 0 : worker];
    session_said said;
    memset(&said, 0, sizeof said); // gaps too: it is sent as it is
    memcpy(&said.job, text->data, sizeof said.job);
    if (pf__link_stopped(link)) {
        return PF_OK; // nobody waits for it any more
    }
    said.status = pf__audit_session(w->audit, plant, &w->audit->catalogue->entries[said.job.entry],
                                    said.job.session, &said.outcome, &said.error);
    if (said.status == PF_ERR_INTERRUPTED) {
        return pf_fail(error, said.status, "%s", said.error.text);
    }
    pf_text out = {0};
    pf__text_add_n(&out, (const char *)&said, sizeof said);
    pf_status status = pf__link_tell(link, &out, error);
    pf__text_free(&out);
    return status;
}

// Plants of the workers, and how much there is to do.
static pf_status prepare(work *w, int n_workers, pf_error *error)
{
    const pf_audit *a = w->audit;
    pf_status status = PF_OK;
    for (int i = 0; i < n_workers && status == PF_OK; i++) {
        w->plants[i] = i == 0 ? a->plant : NULL;
        status = i == 0 ? PF_OK : pf_plant_clone(a->plant, &w->plants[i], error);
    }
    for (int e = 0; e < a->catalogue->n; e++) {
        w->total += w->known && w->known[e] ? 0 : (size_t)a->sessions;
    }
    return status;
}

pf_status pf__audit_run(const pf_audit *a, const bool *known, pf_audit_result *results,
                        pf_error *error)
{
    int n_workers = pf__ranks_many(a->ranks) ? 1 : pf__threads(a->effort);
    pf_arena arena = {0};
    size_t entries = (size_t)a->catalogue->n;
    work w = {.audit = a,
              .known = known,
              .results = results,
              .plants = pf__arena_take(&arena, (size_t)n_workers, sizeof *w.plants),
              .runs = pf__arena_take(&arena, entries, sizeof *w.runs)};
    pf_farm farm = {.ranks = a->ranks,
                    .effort = a->effort,
                    .threads = n_workers,
                    .foreman = {.self = &w, .next = next, .hear = hear},
                    .work = fly_one,
                    .self = &w};
    pf_status status = arena.failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory for an audit")
                                    : prepare(&w, n_workers, error);
    status = status ? status : pf__farm_run(&farm, error);
    for (size_t e = 0; w.runs && e < entries; e++) {
        free(w.runs[e].outcomes);
        free(w.runs[e].kept);
    }
    for (int i = 1; w.plants && i < n_workers; i++) {
        pf_plant_destroy(w.plants[i]);
    }
    pf__arena_free(&arena);
    return status;
}
