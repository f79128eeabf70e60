// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "experiment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const filter_keys[] = {"environment", "seed", "g", "B2", "F",
                                          "K",           "N",    "P", "A",  "profile"};
enum { FILTER_KEYS = sizeof filter_keys / sizeof filter_keys[0] };

// The key of a clause and where its values start; -1: none of ours.
static int clause_key(const char *clause, const char **values)
{
    const char *equals = strchr(clause, '=');
    *values = equals ? equals + 1 : NULL;
    for (int i = 0; equals && i < FILTER_KEYS; i++) {
        size_t n = strlen(filter_keys[i]);
        if (n == (size_t)(equals - clause) && strncmp(filter_keys[i], clause, n) == 0) {
            return i;
        }
    }
    return -1;
}

static bool value_matches(const pf_filter *f, int key, const char *value, size_t n,
                          const pf_unit *u)
{
    if (key == 0) {
        return strlen(u->environment) == n && strncmp(u->environment, value, n) == 0;
    }
    const pf_cell *c = pf_experiment_cell(f->experiment, u->setting);
    char text[32], *end = NULL;
    if (!c || n == 0 || n >= sizeof text) {
        return false;
    }
    memcpy(text, value, n);
    text[n] = 0;
    if (strcmp(filter_keys[key], "profile") == 0) {
        char clause[48];
        snprintf(clause, sizeof clause, "profile=%s", text);
        const char *at = strstr(u->setting, clause);
        return at && (at[strlen(clause)] == 0 || at[strlen(clause)] == ';');
    }
    double number = strtod(text, &end);
    const double have[] = {0,       u->seed,     c->gain,          c->budget2,  c->n_faults,
                           c->bins, c->episodes, c->opportunities, c->amplitude};
    return *end == 0 && number == have[key];
}

static bool clause_matches(const pf_filter *f, int key, const char *values, const pf_unit *u)
{
    for (const char *at = values; at;) {
        const char *comma = strchr(at, ',');
        size_t n = comma ? (size_t)(comma - at) : strlen(at);
        if (value_matches(f, key, at, n, u)) {
            return true;
        }
        at = comma ? comma + 1 : NULL;
    }
    return false;
}

bool pf_filter_wants(const void *self, const pf_unit *unit)
{
    const pf_filter *f = self;
    bool named[FILTER_KEYS] = {false}, met[FILTER_KEYS] = {false};
    for (int i = 0; i < f->n; i++) {
        const char *values = NULL;
        int key = clause_key(f->clause[i], &values);
        if (key >= 0) {
            named[key] = true;
            met[key] = met[key] || clause_matches(f, key, values, unit);
        }
    }
    for (int k = 0; k < FILTER_KEYS; k++) {
        if (named[k] && !met[k]) {
            return false;
        }
    }
    return true;
}

static pf_status check_value(const pf_filter *f, int i, int key, const char *value, size_t n,
                             pf_error *error)
{
    const pf_experiment *e = f->experiment;
    for (size_t u = 0; u < e->n_units; u++) {
        if (value_matches(f, key, value, n, &e->units[u])) {
            return PF_OK;
        }
    }
    char wanted[64];
    snprintf(wanted, sizeof wanted, "%.*s", (int)n, value);
    return pf_fail(error, PF_ERR_ARGUMENT, "--only %s: nothing in the suite has %s '%s'",
                   f->clause[i], filter_keys[key], wanted);
}

pf_status pf_filter_check(const pf_filter *f, pf_error *error)
{
    for (int i = 0; i < f->n; i++) {
        const char *values = NULL;
        int key = clause_key(f->clause[i], &values);
        if (key < 0) {
            return pf_fail(error, PF_ERR_ARGUMENT,
                           "--only %s: must be KEY=A,B with a key environment, seed, g, B2, F, K, "
                           "N, P, A or profile",
                           f->clause[i]);
        }
        for (const char *at = values; at;) {
            const char *comma = strchr(at, ',');
            size_t n = comma ? (size_t)(comma - at) : strlen(at);
            pf_status status = check_value(f, i, key, at, n, error);
            if (status != PF_OK) {
                return status;
            }
            at = comma ? comma + 1 : NULL;
        }
    }
    return PF_OK;
}
