// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "foreman.h"

#include "host/file.h"
#include "host/parallel.h"
#include "model/rollout.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Of models and kits.
typedef enum phase { NOT_NEEDED, MISSING, UNDER_WAY, READY } phase;

typedef struct kits_state {
    phase phase;
    pf_kits_made made;
} kits_state;

struct pf_run_foreman {
    pf_experiment *experiment;
    const pf_run_place *place;
    pf_run_report *report;
    phase *model;     // by environment
    kits_state *kits; // by pf__kits_of
    size_t n_kits, kits_done, models, models_done;
    int under_way;      // models and kits
    int64_t out;        // units that workers have
    int64_t after;      // unit behind which the next one is looked for
    bool none;          // nothing that is pending can be run, until something changes
    double counted;     // when the store was last looked through for units of others
    size_t since_count; // finished since the store was last counted
    int64_t left_out;   // units that this run will not do
    pf_store_counts counts;
    char machine[PF_MACHINE_NAME]; // of this process
    pf_arena arena;
};

// --- what is shown

static void progress(const pf_run_foreman *f, const char *what, size_t done, size_t total)
{
    const pf_effort *effort = f->place->effort;
    if (effort && effort->progress) {
        effort->progress(effort->self, what, done, total);
    }
}

// Other processes finish units too, so the store is asked now and then.
static void show_trial(pf_run_foreman *f, bool failed)
{
    enum { COUNT_EVERY = 100 };
    f->report->done += !failed;
    f->report->failed += failed;
    if (++f->since_count >= COUNT_EVERY) {
        pf_store_counts counts;
        if (pf__store_count(f->place->store, f->experiment->hash, &counts, NULL) == PF_OK) {
            f->counts = counts;
            f->since_count = 0;
        }
    }
    size_t total = (size_t)(f->counts.total - f->left_out);
    size_t done = (size_t)(f->counts.done + f->counts.failed) + f->since_count;
    if (f->kits_done == f->report->kits) { // before, progress is that of the kits
        progress(f, "trials", done < total ? done : total, total);
    }
}

// --- jobs

static void put_job(const pf_job *job, pf_text *out)
{
    size_t n = offsetof(pf_job, unit) + (size_t)job->n * sizeof job->unit[0];
    pf__text_add_n(out, (const char *)job, n);
}

static bool next_model(pf_run_foreman *f, pf_job *job)
{
    for (int i = 0; i < f->experiment->suite->environments.n; i++) {
        if (f->model[i] == MISSING) {
            f->model[i] = UNDER_WAY;
            f->under_way++;
            job->kind = PF_JOB_MODEL;
            job->environment = i;
            return true;
        }
    }
    return false;
}

static bool next_kits(pf_run_foreman *f, pf_job *job)
{
    for (size_t i = 0; i < f->n_kits; i++) {
        phase model = f->model[pf__kits_environment(f->experiment, i)];
        if (f->kits[i].phase == MISSING && (model == READY || model == NOT_NEEDED)) {
            f->kits[i].phase = UNDER_WAY;
            f->under_way++;
            job->kind = PF_JOB_KITS;
            job->kits = (int64_t)i;
            return true;
        }
    }
    return false;
}

// Whether a unit is ours to run and has what it needs. What the store has and the suite has not is
// claimed too, and refused.
static bool wants(const void *self, pf_unit *unit)
{
    const pf_run_foreman *f = self;
    if (pf__experiment_find(f->experiment, unit) < 0) {
        return true;
    }
    return pf__experiment_wants(f->experiment, unit) &&
           (!pf__kits_needed(f->experiment) ||
            f->kits[pf__kits_of(f->experiment, unit)].phase == READY);
}

static pf_status check_unit(const pf_run_foreman *f, const pf_unit *u, pf_error *error)
{
    return u->place >= 0 && u->cell >= 0 && u->seed >= 0 && u->seed < f->experiment->seeds
               ? PF_OK
               : pf_fail(error, PF_ERR_INTERNAL,
                         "the store has a unit that the suite has not: %s %s", u->environment,
                         u->setting);
}

// A unit whose kits could not be made fails with their reason.
static pf_status fail_unit(pf_run_foreman *f, const pf_unit *unit, const kits_state *kits,
                           pf_error *error)
{
    pf_error why = {PF_OK, ""};
    pf_fail(&why, kits->made.status, "calibration: %s", kits->made.why);
    pf_status status = pf__store_fail(f->place->store, unit, why.text, error);
    if (status == PF_OK) {
        show_trial(f, true);
    }
    return status;
}

static pf_status claim(pf_run_foreman *f, pf_job *job, pf_error *error)
{
    pf_unit units[PF_STORE_CLAIM];
    int n = 0;
    pf_status status = pf__store_claim(f->place->store, f->experiment->hash, wants, f, &f->after,
                                       units, &n, error);
    f->none = status == PF_OK && n == 0;
    job->kind = PF_JOB_TRIALS;
    for (int i = 0; i < n && status == PF_OK; i++) {
        status = check_unit(f, &units[i], error);
        size_t at = status == PF_OK ? pf__kits_of(f->experiment, &units[i]) : 0;
        if (status == PF_OK && f->kits[at].made.status != PF_OK) {
            status = fail_unit(f, &units[i], &f->kits[at], error);
        } else if (status == PF_OK) {
            job->reveal[job->n] = f->kits[at].made.reveal;
            job->unit[job->n++] = units[i];
            f->out++;
        }
    }
    return status;
}

static pf_status claim_any(pf_run_foreman *f, pf_job *job, pf_error *error)
{
    pf_status status = PF_OK;
    while (status == PF_OK && job->n == 0 && !f->none) {
        status = claim(f, job, error);
    }
    return status;
}

// Nothing is left that can be handed out, and nobody works for us: units of dead processes are
// given back, and those of living ones are waited for, so that success means complete. Others may
// give units back at any time, so the store is asked for some after every count, the last one too.
static pf_status look_around(pf_run_foreman *f, pf_job *job, pf_turn *turn, pf_error *error)
{
    const char *hash = f->experiment->hash;
    const double pause = .05;
    pf_store_counts before, after = {0};
    *turn = PF_TURN_LATER;
    f->none = false;
    if (pf__seconds() - f->counted < pause) {
        return PF_OK;
    }
    f->counted = pf__seconds();
    pf_status status = pf__store_count(f->place->store, hash, &before, error);
    bool over = status == PF_OK && before.running == 0;
    if (status == PF_OK && !over) {
        status = pf__store_recover(f->place->store, hash, error);
        status = status ? status : pf__store_count(f->place->store, hash, &after, error);
        over = before.running == after.running && pf__experiment_in_part(f->experiment);
    }
    if (status == PF_OK && over) {
        status = claim_any(f, job, error);
        *turn = job->n > 0 ? PF_TURN_SHORT : PF_TURN_END;
    }
    return status;
}

static pf_status next(void *self, int worker, pf_turn *turn, pf_text *out, pf_error *error)
{
    (void)worker;
    pf_run_foreman *f = self;
    pf_job job;
    pf_status status = PF_OK;
    memset(&job, 0, sizeof job); // it is sent as it is
    *turn = PF_TURN_LONG;
    if (!next_model(f, &job) && !next_kits(f, &job)) {
        *turn = PF_TURN_SHORT;
        status = claim_any(f, &job, error);
        if (status == PF_OK && job.n == 0 && (f->under_way > 0 || f->out > 0)) {
            *turn = PF_TURN_LATER;
        } else if (status == PF_OK && job.n == 0) {
            status = look_around(f, &job, turn, error);
        }
    }
    if (status == PF_OK && (*turn == PF_TURN_SHORT || *turn == PF_TURN_LONG)) {
        put_job(&job, out);
        status = out->failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory for a job") : PF_OK;
    }
    return status;
}

// --- what workers say

static pf_status hear_learned(pf_run_foreman *f, const pf_said *said, const char *bytes, size_t n,
                              pf_error *error)
{
    char path[PF_MODEL_PATH];
    int i = said->environment;
    const pf_run_place *p = f->place;
    pf_status status = pf__experiment_model_path(f->experiment, i, p->models, path, error);
    if (status == PF_OK && access(path, F_OK) != 0) {
        status = pf__file_write(path, bytes, n, error);
    }
    status =
        status ? status : pf__experiment_learn_one(f->experiment, i, p->models, false, NULL, error);
    status = status ? status : pf__experiment_bind(f->experiment, p->store, error);
    f->model[i] = READY;
    f->under_way--;
    progress(f, "learning", ++f->models_done, f->models);
    return status;
}

static void hear_kits(pf_run_foreman *f, const pf_said *said)
{
    kits_state *k = &f->kits[said->kits];
    k->phase = READY;
    k->made = said->made;
    f->report->kits_made += said->made.anew;
    f->under_way--;
    f->after = 0; // their units may stand before those that were looked at
    f->none = false;
    progress(f, "calibrating", ++f->kits_done, f->report->kits);
}

static const char *machine_of(const pf_run_foreman *f, int worker)
{
    return pf__ranks_many(f->place->ranks) ? pf__ranks_machine(f->place->ranks, worker)
                                           : f->machine;
}

static pf_status hear_unit(pf_run_foreman *f, int worker, const pf_said *said, const char *bytes,
                           size_t n, pf_error *error)
{
    const pf_experiment *e = f->experiment;
    pf_store *store = f->place->store;
    const pf_unit *unit = &said->unit;
    f->out--;
    f->report->rolls += said->rolls;
    if (said->kind == PF_SAID_BACK) {
        f->none = false;
        f->after = 0;
        return pf__store_unclaim(store, unit, error);
    }
    bool failed = said->kind == PF_SAID_FAILED;
    pf_trial_result *results = failed ? NULL : malloc(n > 0 ? n : 1);
    pf_status status = PF_OK;
    if (failed) {
        status = pf__store_fail(store, unit, said->why, error);
    } else if (!results || n != (size_t)e->n_methods * sizeof *results) {
        status = pf_fail(error, results ? PF_ERR_INTERNAL : PF_ERR_MEMORY,
                         "the results of a trial have %z bytes", n);
    } else {
        memcpy(results, bytes, n);
        status = pf__store_finish(store, unit, machine_of(f, worker), e->n_methods, e->methods,
                                  results, error);
    }
    free(results);
    if (status == PF_OK) {
        show_trial(f, failed);
    } else {
        pf__store_unclaim(store, unit, NULL); // if it can still be written
    }
    return status;
}

// Bytes that a worker asks for; none where there are none.
static pf_status give_bytes(pf_run_foreman *f, const pf_said *said, pf_text *reply, pf_error *error)
{
    void *bytes = NULL;
    size_t n = 0;
    pf_status status;
    if (said->kind == PF_SAID_GET) {
        status = pf__store_get(f->place->store, said->blob, said->key, &bytes, &n, error);
    } else {
        char path[PF_MODEL_PATH];
        status = pf__experiment_model_path(f->experiment, said->environment, f->place->models, path,
                                           error);
        status = status ? status : pf__file_read(path, (size_t)1 << 31, &bytes, &n, error);
    }
    if (bytes) {
        pf__text_add_n(reply, bytes, n);
    }
    free(bytes);
    return status || !reply->failed ? status
                                    : pf_fail(error, PF_ERR_MEMORY, "out of memory for a reply");
}

static pf_status hear(void *self, int worker, const pf_text *text, pf_text *reply, pf_error *error)
{
    pf_run_foreman *f = self;
    pf_said said;
    if (text->size < sizeof said) {
        return pf_fail(error, PF_ERR_INTERNAL, "a worker says %z bytes", text->size);
    }
    memcpy(&said, text->data, sizeof said);
    const char *bytes = text->data + sizeof said;
    size_t n = text->size - sizeof said;
    switch (said.kind) {
    case PF_SAID_LEARNED:
        return hear_learned(f, &said, bytes, n, error);
    case PF_SAID_KITS:
        hear_kits(f, &said);
        return PF_OK;
    case PF_SAID_GET:
    case PF_SAID_GET_MODEL:
        return give_bytes(f, &said, reply, error);
    case PF_SAID_PUT:
        return pf__store_put(f->place->store, said.blob, said.key, bytes, n, error);
    case PF_SAID_DONE:
    case PF_SAID_FAILED:
    case PF_SAID_BACK:
        return hear_unit(f, worker, &said, bytes, n, error);
    }
    return pf_fail(error, PF_ERR_INTERNAL, "a worker says what nobody knows");
}

static pf_status rest(void *self, pf_error *error)
{
    const pf_run_foreman *f = self;
    return pf__store_flush(f->place->store, error);
}

pf_foreman pf__foreman_of(pf_run_foreman *f)
{
    return (pf_foreman){f, next, hear, rest};
}

// --- before the work

static void note_known(void *self, const pf_unit *unit, const char *reason)
{
    (void)reason;
    pf_run_foreman *f = self;
    pf_unit own = *unit;
    f->left_out -=
        pf__experiment_find(f->experiment, &own) >= 0 && !pf__experiment_wants(f->experiment, &own);
}

// What is neither wanted (--only, a missing backend) nor done already is no part of the progress.
static pf_status count_left_out(pf_run_foreman *f, pf_error *error)
{
    const pf_experiment *e = f->experiment;
    for (size_t i = 0; i < e->n_units; i++) {
        f->left_out += !pf__experiment_wants(e, &e->units[i]);
    }
    pf_store *store = f->place->store;
    pf_status status =
        f->left_out > 0 ? pf__store_done(store, e->hash, note_known, f, error) : PF_OK;
    return status || f->left_out == 0 ? status
                                      : pf__store_failures(store, e->hash, note_known, f, error);
}

// Marks what is needed; whether anything is.
static bool mark_needed(pf_run_foreman *f)
{
    pf_experiment *e = f->experiment;
    bool any = false;
    for (size_t i = 0; i < e->n_units; i++) {
        if (pf__experiment_wants(e, &e->units[i])) {
            f->kits[pf__kits_of(e, &e->units[i])].phase = pf__kits_needed(e) ? MISSING : NOT_NEEDED;
            any = true;
        }
    }
    for (size_t i = 0; i < f->n_kits; i++) {
        f->report->kits += f->kits[i].phase == MISSING;
    }
    for (int i = 0; i < e->suite->environments.n; i++) {
        if (pf__ranks_many(f->place->ranks) && pf__experiment_learns(e, i)) {
            f->model[i] = e->models[i] ? READY : MISSING;
            f->models += f->model[i] == MISSING;
        }
    }
    return any;
}

static pf_status prepare(pf_run_foreman *f, bool *work, pf_error *error)
{
    const pf_experiment *e = f->experiment;
    pf_store *store = f->place->store;
    pf_status status = pf__store_begin(store, e->hash, e->suite->id, e->profile->name, e->settings,
                                       e->units, e->n_units, error);
    status = status ? status : pf__store_recover(store, e->hash, error);
    status = status ? status : count_left_out(f, error);
    status = status ? status : pf__store_count(store, e->hash, &f->counts, error);
    *work =
        status == PF_OK && f->counts.done + f->counts.failed < f->counts.total && mark_needed(f);
    return status;
}

pf_status pf__foreman_create(pf_run_foreman **foreman, pf_experiment *e, const pf_run_place *place,
                             pf_run_report *report, bool *work, pf_error *error)
{
    pf_run_foreman *f = calloc(1, sizeof *f);
    *foreman = f;
    *work = false;
    if (!f) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a run");
    }
    f->experiment = e;
    f->place = place;
    f->report = report;
    f->n_kits = pf__kits_count(e);
    f->model = pf__arena_take(&f->arena, (size_t)e->suite->environments.n, sizeof *f->model);
    f->kits = pf__arena_take(&f->arena, f->n_kits, sizeof *f->kits);
    pf__machine_name(f->machine);
    return f->arena.failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory for a run")
                           : prepare(f, work, error);
}

void pf__foreman_destroy(pf_run_foreman *f)
{
    if (f) {
        pf__arena_free(&f->arena);
        free(f);
    }
}
