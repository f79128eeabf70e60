// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "runner_impl.h"

#include "host/parallel.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

typedef struct run {
    const pf_experiment *experiment;
    pf_store *store;
    const pf_filter *filter;
    const pf_effort *effort;
    pf_shelves shelves;
    pthread_mutex_t lock; // of everything below
    bool broken;          // the store failed; the others stop too
    size_t since_count;   // finished since the store was last counted
    pf_store_counts counts;
    pf_run_report *report;
} run;

// --- one claimed unit after the other

static bool stopped(run *r)
{
    pthread_mutex_lock(&r->lock);
    bool stop = r->broken || (r->effort && r->effort->stop && *r->effort->stop);
    pthread_mutex_unlock(&r->lock);
    return stop;
}

static bool wants(const void *self, const pf_unit *unit)
{
    const run *r = self;
    return !pf_experiment_missing(r->experiment, unit->environment) &&
           (!r->filter || pf_filter_wants(r->filter, unit));
}

// Other processes finish units too, so the store is asked now and then.
static void show(run *r, bool failed)
{
    enum { COUNT_EVERY = 100 };
    pthread_mutex_lock(&r->lock);
    r->report->done += !failed;
    r->report->failed += failed;
    if (++r->since_count >= COUNT_EVERY) {
        pf_store_counts counts;
        if (pf_store_count(r->store, r->experiment->hash, &counts, NULL) == PF_OK) {
            r->counts = counts;
            r->since_count = 0;
        }
    }
    if (r->effort && r->effort->progress) {
        size_t total = (size_t)r->counts.total;
        size_t done = (size_t)(r->counts.done + r->counts.failed) + r->since_count;
        r->effort->progress(r->effort->self, "trials", done < total ? done : total, total);
    }
    pthread_mutex_unlock(&r->lock);
}

static pf_status run_unit(run *r, pf_desk *desk, const pf_unit *unit, pf_error *error)
{
    const pf_shelf *shelf = pf__shelves_find(&r->shelves, unit);
    if (!shelf) {
        return pf_fail(error, PF_ERR_INTERNAL, "the store has a unit that the suite has not: %s %s",
                       unit->environment, unit->setting);
    }
    pf_error why = {PF_OK, ""};
    bool failed = pf__desk_run(desk, shelf, unit, &why) != PF_OK;
    pf_status status = failed ? pf_store_fail(r->store, unit, why.text, error)
                              : pf_store_finish(r->store, unit, r->experiment->n_methods,
                                                r->experiment->methods, desk->results, error);
    if (status == PF_OK) {
        show(r, failed);
    } else {
        pf_store_unclaim(r->store, unit, NULL); // if it can still be written
    }
    return status;
}

static pf_status work(void *self, int worker, size_t item, pf_error *error)
{
    (void)worker;
    (void)item;
    run *r = self;
    pf_desk desk;
    pf_status status = pf__desk_init(&desk, r->experiment, error);
    int n = 1;
    while (status == PF_OK && n > 0 && !stopped(r)) {
        pf_unit units[PF_STORE_CLAIM];
        status = pf_store_claim(r->store, r->experiment->hash, wants, r, units, &n, error);
        for (int i = 0; i < n; i++) {
            if (status == PF_OK && !stopped(r)) {
                status = run_unit(r, &desk, &units[i], error);
            } else {
                pf_store_unclaim(r->store, &units[i], NULL); // if it can still be written
            }
        }
    }
    pf__desk_free(&desk);
    pthread_mutex_lock(&r->lock);
    r->broken = r->broken || status != PF_OK;
    r->report->rolls += desk.rolls;
    pthread_mutex_unlock(&r->lock);
    return status;
}

static void rest(void)
{
    struct timespec moment = {0, 50000000};
    nanosleep(&moment, NULL);
}

// Passes until nothing is left to claim; units of dead processes are given back in between, and
// units of living ones are waited for, so that success means complete.
static pf_status run_passes(run *r, pf_error *error)
{
    const char *hash = r->experiment->hash;
    pf_effort team = {.threads = r->effort ? r->effort->threads : 0};
    pf_store_counts before, after;
    for (;;) {
        int workers = pf_threads(&team);
        pf_status status = pf_parallel(&team, workers, (size_t)workers, work, r, "trials", error);
        if (status == PF_OK && stopped(r)) {
            status = pf_fail(error, PF_ERR_INTERRUPTED, "stopped; run it again to go on");
        }
        status = status ? status : pf_store_count(r->store, hash, &before, error);
        if (status == PF_OK && before.running == 0) {
            return PF_OK;
        }
        status = status ? status : pf_store_recover(r->store, hash, error);
        status = status ? status : pf_store_count(r->store, hash, &after, error);
        if (status != PF_OK) {
            return status;
        }
        if (before.running == after.running) {
            if (r->filter) {
                return PF_OK;
            }
            rest();
        }
    }
}

// --- the whole

static bool mark_needed(run *r)
{
    bool any = false;
    const pf_experiment *e = r->experiment;
    for (size_t i = 0; i < e->n_units; i++) {
        if (wants(r, &e->units[i])) {
            pf__shelves_find(&r->shelves, &e->units[i])->needed =
                e->responses == 0 || e->coordinate;
            any = true;
        }
    }
    return any;
}

static pf_status prepare(run *r, pf_error *error)
{
    const pf_experiment *e = r->experiment;
    pf_status status = pf_store_begin(r->store, e->hash, e->suite->id, e->profile->name,
                                      e->settings, e->units, e->n_units, error);
    status = status ? status : pf_store_recover(r->store, e->hash, error);
    status = status ? status : pf_store_count(r->store, e->hash, &r->counts, error);
    return status;
}

static pf_status run_all(run *r, pf_error *error)
{
    pf_status status = prepare(r, error);
    if (status != PF_OK || r->counts.done + r->counts.failed == r->counts.total ||
        !mark_needed(r)) {
        return status;
    }
    status = pf__shelves_fill(&r->shelves, r->effort, error);
    for (size_t i = 0; i < r->shelves.n; i++) {
        r->report->kits += r->shelves.shelf[i].needed;
        r->report->kits_made += r->shelves.shelf[i].made;
    }
    return status ? status : run_passes(r, error);
}

pf_status pf_runner_run(const pf_experiment *e, pf_store *store, const pf_filter *filter,
                        const pf_effort *effort, pf_run_report *report, pf_error *error)
{
    memset(report, 0, sizeof *report);
    pf_filter bound = {0};
    if (filter && filter->n > 0) {
        bound = *filter;
        bound.experiment = e;
    }
    run r = {.experiment = e,
             .store = store,
             .filter = bound.n > 0 ? &bound : NULL,
             .effort = effort,
             .report = report};
    pf_status status = r.filter ? pf_filter_check(&bound, error) : PF_OK;
    status = status ? status : pf__shelves_init(&r.shelves, e, store, error);
    if (status != PF_OK) {
        return status;
    }
    r.shelves.keep = true;
    pthread_mutex_init(&r.lock, NULL);
    status = run_all(&r, error);
    pthread_mutex_destroy(&r.lock);
    pf__shelves_free(&r.shelves);
    return status;
}
