// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "store_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Whether a trial of the environment is done or in the hands of a living process.
static pf_status has_trials(pf_store *s, const char *hash, const char *environment, bool *has,
                            pf_error *error)
{
    sqlite3_stmt *statement = NULL;
    bool more = true;
    *has = false;
    pf_status status = pf__store_prepare(s,
                                         "SELECT DISTINCT state, coalesce(owner, '') FROM unit"
                                         " WHERE hash = ? AND environment = ? AND state IN (1, 2)",
                                         &statement, error);
    if (status == PF_OK) {
        const pf_bound values[] = {{hash, 0}, {environment, 0}};
        pf__store_bind(statement, 2, values);
        while (!*has && (status = pf__store_next(s, statement, &more, error)) == PF_OK && more) {
            *has = sqlite3_column_int(statement, 0) == 2 ||
                   pf__owner_alive((const char *)sqlite3_column_text(statement, 1));
        }
    }
    sqlite3_finalize(statement);
    return status;
}

static pf_status get(pf_store *s, const char *key, char bound[65], pf_error *error)
{
    sqlite3_stmt *statement = NULL;
    bool more = false;
    bound[0] = 0;
    pf_status status = pf__store_prepare(s, "SELECT bytes FROM kit WHERE key = ? AND statistic = ?",
                                         &statement, error);
    if (status == PF_OK) {
        const pf_bound values[] = {{key, 0}, {NULL, PF_STORE_MODEL}};
        pf__store_bind(statement, 2, values);
        status = pf__store_next(s, statement, &more, error);
        const void *bytes = more ? sqlite3_column_blob(statement, 0) : NULL;
        if (bytes) {
            snprintf(bound, 65, "%.*s", sqlite3_column_bytes(statement, 0), (const char *)bytes);
        }
    }
    sqlite3_finalize(statement);
    return status;
}

static pf_status put(pf_store *s, const char *key, const char *model, pf_error *error)
{
    sqlite3_stmt *statement = NULL;
    pf_status status = pf__store_prepare(
        s, "INSERT OR REPLACE INTO kit(key, statistic, bytes) VALUES(?, ?, ?)", &statement, error);
    if (status == PF_OK) {
        const pf_bound values[] = {{key, 0}, {NULL, PF_STORE_MODEL}};
        bool more = false;
        pf__store_bind(statement, 2, values);
        sqlite3_bind_blob64(statement, 3, model, strlen(model) + 1, SQLITE_STATIC);
        status = pf__store_next(s, statement, &more, error);
    }
    sqlite3_finalize(statement);
    return status;
}

static pf_tie *find_tie(const pf_store *s, const char *key)
{
    for (int i = 0; i < s->n_ties; i++) {
        if (strcmp(s->tie[i].key, key) == 0) {
            return &s->tie[i];
        }
    }
    return NULL;
}

static pf_status note_tie(pf_store *s, const char *key, const char *model, pf_error *error)
{
    pf_tie *tie = find_tie(s, key);
    if (!tie) {
        pf_tie *more = realloc(s->tie, (size_t)(s->n_ties + 1) * sizeof *more);
        if (!more) {
            return pf_fail(error, PF_ERR_MEMORY, "out of memory for a database");
        }
        s->tie = more;
        tie = &more[s->n_ties++];
    }
    snprintf(tie->key, sizeof tie->key, "%s", key);
    snprintf(tie->model, sizeof tie->model, "%s", model);
    return PF_OK;
}

pf_status pf__store_still_bound(pf_store *s, const pf_unit *unit, pf_error *error)
{
    sqlite3_stmt *statement = NULL;
    char key[96] = "", bound[65];
    if (s->n_ties == 0) {
        return PF_OK;
    }
    pf_status status =
        pf__store_prepare(s, "SELECT hash FROM unit WHERE id = ?", &statement, error);
    if (status == PF_OK) {
        bool more = false;
        pf__store_bind(statement, 1, &(pf_bound){NULL, unit->id});
        status = pf__store_next(s, statement, &more, error);
        if (more) {
            snprintf(key, sizeof key, "%s|%s", (const char *)sqlite3_column_text(statement, 0),
                     unit->environment);
        }
    }
    sqlite3_finalize(statement);
    const pf_tie *tie = find_tie(s, key);
    if (status != PF_OK || !tie) {
        return status;
    }
    status = get(s, key, bound, error);
    if (status == PF_OK && strcmp(bound, tie->model) != 0) {
        status = pf_fail(error, PF_ERR_MISMATCH,
                         "%s: another process makes the trials of %s with another model; give both "
                         "the same --models, or another --db",
                         s->path, unit->environment);
    }
    return status;
}

// One transaction, so that of two processes with two models the second sees the first.
pf_status pf_store_bind(pf_store *s, const char *hash, const char *environment, const char *model,
                        char bound[65], pf_error *error)
{
    char key[96];
    bool held = false;
    snprintf(key, sizeof key, "%s|%s", hash, environment);
    pf_status status = pf__store_begin(s, error);
    if (status != PF_OK) {
        return status;
    }
    status = get(s, key, bound, error);
    if (status == PF_OK && bound[0] && strcmp(bound, model) != 0) {
        status = has_trials(s, hash, environment, &held, error);
    }
    if (status == PF_OK && !held && strcmp(bound, model) != 0) {
        status = put(s, key, model, error);
        snprintf(bound, 65, "%s", model);
    }
    if (status == PF_OK && !held) {
        status = note_tie(s, key, model, error);
    }
    return pf__store_end(s, status, error);
}

pf_status pf_store_bound(pf_store *s, const char *hash, const char *environment, char bound[65],
                         pf_error *error)
{
    char key[96];
    snprintf(key, sizeof key, "%s|%s", hash, environment);
    return get(s, key, bound, error);
}
