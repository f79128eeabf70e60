// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "runner_impl.h"

#include "host/parallel.h"
#include "host/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct check {
    const pf_experiment *experiment;
    pf_shelves shelves;
    bool *done; // by unit
    size_t n;
    size_t *sample;          // n indices of units, ascending
    int64_t *place;          // by unit: position in the sample, -1: not in it
    pf_trial_result *stored; // n x methods
    bool *there;             // n x methods
    char (*difference)[320]; // n
    pf_desk *desk;           // by worker
} check;

static int find_method(const pf_experiment *e, const char *method)
{
    for (int i = 0; i < e->n_methods; i++) {
        if (strcmp(e->methods[i], method) == 0) {
            return i;
        }
    }
    return -1;
}

static void note_done(void *self, const pf_unit *unit, const char *reason)
{
    (void)reason;
    check *c = self;
    int64_t at = pf_experiment_find(c->experiment, unit);
    if (at >= 0) {
        c->done[at] = true;
    }
}

static pf_status note_values(void *self, const pf_unit *unit, const char *method,
                             const pf_trial_result *result, pf_error *error)
{
    (void)error;
    check *c = self;
    int64_t at = pf_experiment_find(c->experiment, unit);
    int m = find_method(c->experiment, method);
    if (at >= 0 && m >= 0 && c->place[at] >= 0) {
        size_t slot = (size_t)c->place[at] * (size_t)c->experiment->n_methods + (size_t)m;
        c->stored[slot] = *result;
        c->there[slot] = true;
    }
    return PF_OK;
}

// Selection sampling: n of the available units, every set as likely, by the hash alone.
static void choose(check *c, size_t available)
{
    pf_rng rng;
    pf_rng_init(&rng, pf_key_text(pf_key_root(c->n), c->experiment->hash));
    size_t left = available, want = c->n, taken = 0;
    for (size_t i = 0; i < c->experiment->n_units; i++) {
        c->place[i] = -1;
        if (!c->done[i]) {
            continue;
        }
        if (pf_rng_below(&rng, (uint32_t)left) < want) {
            c->place[i] = (int64_t)taken;
            c->sample[taken++] = i;
            want--;
        }
        left--;
    }
}

static bool same(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

// The first difference of a unit in words; empty if there is none.
static void compare(const check *c, size_t item, const pf_trial_result *now, char out[320])
{
    const pf_experiment *e = c->experiment;
    const pf_unit *u = &e->units[c->sample[item]];
    for (int m = 0; m < e->n_methods; m++) {
        size_t slot = item * (size_t)e->n_methods + (size_t)m;
        if (!c->there[slot]) {
            snprintf(out, 320, "%s %s seed %d trial %d, %s: the row is missing", u->environment,
                     u->setting, u->seed, u->trial, e->methods[m]);
            return;
        }
        for (int i = 0; i < PF_METRIC_COUNT; i++) {
            double stored = c->stored[slot].value[i], computed = now[m].value[i];
            if (!same(stored, computed)) {
                char a[32] = "none", b[32] = "none";
                if (!isnan(stored)) {
                    pf_number_text(stored, a);
                }
                if (!isnan(computed)) {
                    pf_number_text(computed, b);
                }
                snprintf(out, 320, "%s %s seed %d trial %d, %s, %s: stored %s, recomputed %s",
                         u->environment, u->setting, u->seed, u->trial, e->methods[m],
                         pf_metric_name(i), a, b);
                return;
            }
        }
    }
}

static pf_status recompute(void *self, int worker, size_t item, pf_error *error)
{
    (void)error;
    check *c = self;
    pf_desk *desk = &c->desk[worker];
    const pf_unit *unit = &c->experiment->units[c->sample[item]];
    pf_error why = {PF_OK, ""};
    if (pf__desk_run(desk, pf__shelves_find(&c->shelves, unit), unit, &why) != PF_OK) {
        snprintf(c->difference[item], 320, "%s %s seed %d trial %d: now fails: %.90s",
                 unit->environment, unit->setting, unit->seed, unit->trial, why.text);
    } else {
        compare(c, item, desk->results, c->difference[item]);
    }
    return PF_OK;
}

static pf_status take_sample(check *c, pf_store *store, size_t sample, pf_verify_report *report,
                             pf_error *error)
{
    const pf_experiment *e = c->experiment;
    c->done = calloc(e->n_units, sizeof *c->done);
    c->place = calloc(e->n_units, sizeof *c->place);
    pf_status status = c->done && c->place
                           ? pf_store_done(store, e->hash, note_done, c, error)
                           : pf_fail(error, PF_ERR_MEMORY, "out of memory for a sample");
    if (status != PF_OK) {
        return status;
    }
    for (size_t i = 0; i < e->n_units; i++) {
        report->available += c->done[i];
    }
    c->n = sample < report->available ? sample : report->available;
    size_t slots = c->n * (size_t)e->n_methods + 1;
    c->sample = calloc(c->n + 1, sizeof *c->sample);
    c->stored = calloc(slots, sizeof *c->stored);
    c->there = calloc(slots, sizeof *c->there);
    c->difference = calloc(c->n + 1, sizeof *c->difference);
    if (!c->sample || !c->stored || !c->there || !c->difference) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a sample");
    }
    choose(c, report->available);
    return pf_store_rows(store, e->hash, note_values, c, error);
}

static pf_status check_sample(check *c, const pf_effort *effort, pf_error *error)
{
    for (size_t i = 0; i < c->n; i++) {
        const pf_unit *unit = &c->experiment->units[c->sample[i]];
        pf__shelves_find(&c->shelves, unit)->needed = true;
    }
    pf_status status = pf__shelves_fill(&c->shelves, effort, error);
    int workers = pf_threads(effort), started = 0;
    c->desk = calloc((size_t)workers, sizeof *c->desk);
    if (status == PF_OK && !c->desk) {
        status = pf_fail(error, PF_ERR_MEMORY, "out of memory for a sample");
    }
    for (; started < workers && status == PF_OK; started++) {
        status = pf__desk_init(&c->desk[started], c->experiment, error);
    }
    if (status == PF_OK) {
        status = pf_parallel(effort, workers, c->n, recompute, c, "verifying", error);
    }
    for (int i = 0; i < started; i++) {
        pf__desk_free(&c->desk[i]);
    }
    return status;
}

static void free_check(check *c)
{
    pf__shelves_free(&c->shelves);
    free(c->done);
    free(c->sample);
    free(c->place);
    free(c->stored);
    free(c->there);
    free(c->difference);
    free(c->desk);
}

pf_status pf_runner_verify(const pf_experiment *e, pf_store *store, size_t sample,
                           const pf_effort *effort, pf_verify_report *report, pf_error *error)
{
    memset(report, 0, sizeof *report);
    check c = {.experiment = e};
    pf_status status = pf__shelves_init(&c.shelves, e, store, error);
    status = status ? status : take_sample(&c, store, sample, report, error);
    status = status ? status : check_sample(&c, effort, error);
    report->checked = status == PF_OK ? c.n : 0;
    for (size_t i = 0; i < report->checked; i++) {
        if (c.difference[i][0]) {
            if (report->different++ == 0) {
                memcpy(report->difference, c.difference[i], sizeof report->difference);
            }
        }
    }
    free_check(&c);
    return status;
}
