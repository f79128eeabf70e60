// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "store_impl.h"

#include "host/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PENDING = 0, RUNNING = 1, DONE = 2, FAILED = 3 };

// --- statements with a few bound values

void pf__store_bind(sqlite3_stmt *statement, int n, const pf_bound *values)
{
    for (int i = 0; i < n; i++) {
        if (values[i].text) {
            sqlite3_bind_text(statement, i + 1, values[i].text, -1, SQLITE_TRANSIENT);
        } else {
            sqlite3_bind_int64(statement, i + 1, values[i].number);
        }
    }
}

static pf_status run_bound(pf_store *s, const char *sql, int n, const pf_bound *values,
                           pf_error *error)
{
    sqlite3_stmt *statement = NULL;
    pf_status status = pf__store_prepare(s, sql, &statement, error);
    if (status == PF_OK) {
        pf__store_bind(statement, n, values);
        int code = sqlite3_step(statement);
        status = code == SQLITE_DONE || code == SQLITE_ROW ? PF_OK
                                                           : pf__store_fail(s, "database", error);
    }
    sqlite3_finalize(statement);
    return status;
}

pf_status pf__store_next(pf_store *s, sqlite3_stmt *statement, bool *more, pf_error *error)
{
    int code = sqlite3_step(statement);
    *more = code == SQLITE_ROW;
    return code == SQLITE_ROW || code == SQLITE_DONE ? PF_OK : pf__store_fail(s, "reading", error);
}

pf_status pf__store_begin(pf_store *s, pf_error *error)
{
    pthread_mutex_lock(&s->lock);
    pf_status status = pf__store_run(s, "BEGIN IMMEDIATE", error);
    if (status != PF_OK) {
        pthread_mutex_unlock(&s->lock);
    }
    return status;
}

pf_status pf__store_end(pf_store *s, pf_status status, pf_error *error)
{
    if (status == PF_OK) {
        status = pf__store_run(s, "COMMIT", error);
    }
    if (status != PF_OK) {
        sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

pf_status pf_store_begin(pf_store *s, const char *hash, const char *suite, const char *profile,
                         const char *settings, const pf_unit *units, size_t n, pf_error *error)
{
    pf_status status = pf__store_begin(s, error);
    if (status != PF_OK) {
        return status;
    }
    const pf_bound row[] = {{hash, 0}, {suite, 0}, {profile, 0}, {PF_VERSION, 0}, {settings, 0}};
    status = run_bound(s,
                       "INSERT OR IGNORE INTO experiment(hash, suite, profile, preflight, settings)"
                       " VALUES(?, ?, ?, ?, ?)",
                       5, row, error);
    if (status == PF_OK) {
        status = run_bound(s,
                           "UPDATE experiment SET last_run = (SELECT coalesce(max(last_run), 0) + 1"
                           " FROM experiment) WHERE hash = ?",
                           1, row, error);
    }
    sqlite3_stmt *statement = NULL;
    if (status == PF_OK) {
        status =
            pf__store_prepare(s,
                              "INSERT OR IGNORE INTO unit(hash, environment, setting, seed, trial)"
                              " VALUES(?, ?, ?, ?, ?)",
                              &statement, error);
    }
    for (size_t i = 0; i < n && status == PF_OK; i++) {
        const pf_bound values[] = {{hash, 0},
                                   {units[i].environment, 0},
                                   {units[i].setting, 0},
                                   {NULL, units[i].seed},
                                   {NULL, units[i].trial}};
        pf__store_bind(statement, 5, values);
        status =
            sqlite3_step(statement) == SQLITE_DONE ? PF_OK : pf__store_fail(s, "database", error);
        sqlite3_reset(statement);
    }
    sqlite3_finalize(statement);
    return pf__store_end(s, status, error);
}

pf_status pf_store_recover(pf_store *s, const char *hash, pf_error *error)
{
    char dead[64][64];
    int n = 0;
    sqlite3_stmt *statement = NULL;
    pf_status status = pf__store_begin(s, error);
    if (status != PF_OK) {
        return status;
    }
    status = pf__store_prepare(
        s, "SELECT DISTINCT coalesce(owner, '') FROM unit WHERE hash = ? AND state = 1", &statement,
        error);
    if (status == PF_OK) {
        const pf_bound values[] = {{hash, 0}};
        pf__store_bind(statement, 1, values);
        bool more = true;
        while (n < 64 && (status = pf__store_next(s, statement, &more, error)) == PF_OK && more) {
            const char *owner = (const char *)sqlite3_column_text(statement, 0);
            if (!pf__owner_alive(owner)) {
                snprintf(dead[n++], sizeof dead[0], "%s", owner);
            }
        }
    }
    sqlite3_finalize(statement);
    for (int i = 0; i < n && status == PF_OK; i++) {
        const pf_bound values[] = {{hash, 0}, {dead[i], 0}};
        status = run_bound(s,
                           "UPDATE unit SET state = 0, owner = NULL WHERE hash = ? AND state = 1"
                           " AND coalesce(owner, '') = ?",
                           2, values, error);
    }
    return pf__store_end(s, status, error);
}

pf_status pf_store_retry(pf_store *s, const char *hash, pf_error *error)
{
    pf_status status = pf__store_begin(s, error);
    if (status != PF_OK) {
        return status;
    }
    const pf_bound values[] = {{hash, 0}};
    status = run_bound(s,
                       "UPDATE unit SET state = 0, owner = NULL, reason = NULL WHERE hash = ? AND"
                       " state = 3",
                       1, values, error);
    return pf__store_end(s, status, error);
}

static void read_unit(sqlite3_stmt *statement, pf_unit *unit)
{
    unit->id = sqlite3_column_int64(statement, 0);
    snprintf(unit->environment, sizeof unit->environment, "%s",
             (const char *)sqlite3_column_text(statement, 1));
    snprintf(unit->setting, sizeof unit->setting, "%s",
             (const char *)sqlite3_column_text(statement, 2));
    unit->seed = sqlite3_column_int(statement, 3);
    unit->trial = sqlite3_column_int(statement, 4);
}

static bool same_trial(const pf_unit *a, const pf_unit *b)
{
    return a->seed == b->seed && a->trial == b->trial &&
           strcmp(a->environment, b->environment) == 0;
}

// The units to claim from pending ones in order.
static pf_status pick_units(pf_store *s, sqlite3_stmt *pending,
                            bool (*wanted)(const void *self, const pf_unit *unit), const void *self,
                            pf_unit units[PF_STORE_CLAIM], int *n, pf_error *error)
{
    bool more = true;
    pf_status status = PF_OK;
    while (*n < PF_STORE_CLAIM && (status = pf__store_next(s, pending, &more, error)) == PF_OK &&
           more) {
        read_unit(pending, &units[*n]);
        if (*n > 0 && !same_trial(&units[0], &units[*n])) {
            break;
        }
        *n += !wanted || wanted(self, &units[*n]);
    }
    return status;
}

pf_status pf_store_claim(pf_store *s, const char *hash,
                         bool (*wanted)(const void *self, const pf_unit *unit), const void *self,
                         pf_unit units[PF_STORE_CLAIM], int *n, pf_error *error)
{
    *n = 0;
    sqlite3_stmt *statement = NULL;
    pf_status status = pf__store_begin(s, error);
    if (status != PF_OK) {
        return status;
    }
    status = pf__store_prepare(
        s,
        "SELECT id, environment, setting, seed, trial FROM unit WHERE hash = ? AND"
        " state = 0 ORDER BY id",
        &statement, error);
    if (status == PF_OK) {
        const pf_bound values[] = {{hash, 0}};
        pf__store_bind(statement, 1, values);
        status = pick_units(s, statement, wanted, self, units, n, error);
    }
    sqlite3_finalize(statement);
    for (int i = 0; i < *n && status == PF_OK; i++) {
        const pf_bound values[] = {{s->owner, 0}, {NULL, units[i].id}};
        status =
            run_bound(s, "UPDATE unit SET state = 1, owner = ? WHERE id = ?", 2, values, error);
    }
    return pf__store_end(s, status, error);
}

pf_status pf_store_unclaim(pf_store *s, const pf_unit *unit, pf_error *error)
{
    pf_status status = pf__store_begin(s, error);
    if (status != PF_OK) {
        return status;
    }
    const pf_bound values[] = {{NULL, unit->id}, {s->owner, 0}};
    status = run_bound(s,
                       "UPDATE unit SET state = 0, owner = NULL WHERE id = ? AND state = 1 AND"
                       " owner = ?",
                       2, values, error);
    return pf__store_end(s, status, error);
}

static pf_status insert_results(pf_store *s, const pf_unit *unit, int n_methods,
                                const char *const *methods, const pf_trial_result *results,
                                pf_error *error)
{
    pf_text sql = {0};
    sqlite3_stmt *statement = NULL;
    pf_text_add(&sql, "INSERT INTO result(unit, method");
    for (int i = 0; i < PF_METRIC_COUNT; i++) {
        pf_text_addf(&sql, ", %s", pf_metric_name(i));
    }
    pf_text_add(&sql, ") VALUES(?, ?");
    for (int i = 0; i < PF_METRIC_COUNT; i++) {
        pf_text_add(&sql, ", ?");
    }
    pf_text_add(&sql, ")");
    pf_status status = sql.failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory")
                                  : pf__store_prepare(s, sql.data, &statement, error);
    for (int m = 0; m < n_methods && status == PF_OK; m++) {
        sqlite3_bind_int64(statement, 1, unit->id);
        sqlite3_bind_text(statement, 2, methods[m], -1, SQLITE_STATIC);
        for (int i = 0; i < PF_METRIC_COUNT; i++) {
            if (isnan(results[m].value[i])) {
                sqlite3_bind_null(statement, i + 3);
            } else {
                sqlite3_bind_double(statement, i + 3, results[m].value[i]);
            }
        }
        status =
            sqlite3_step(statement) == SQLITE_DONE ? PF_OK : pf__store_fail(s, "results", error);
        sqlite3_reset(statement);
    }
    sqlite3_finalize(statement);
    pf_text_free(&sql);
    return status;
}

// Only the claim's own holder may end it, so that a unit cannot count twice.
static pf_status check_ended(pf_store *s, const pf_unit *unit, pf_error *error)
{
    return sqlite3_changes(s->db) == 1
               ? PF_OK
               : pf_fail(error, PF_ERR_INTERNAL, "%s: unit %d is not this process's", s->path,
                         (int)unit->id);
}

pf_status pf_store_finish(pf_store *s, const pf_unit *unit, int n_methods,
                          const char *const *methods, const pf_trial_result *results,
                          pf_error *error)
{
    pf_status status = pf__store_begin(s, error);
    if (status != PF_OK) {
        return status;
    }
    const pf_bound values[] = {{NULL, unit->id}, {s->owner, 0}};
    status = run_bound(s,
                       "UPDATE unit SET state = 2, owner = NULL, reason = NULL WHERE id = ? AND"
                       " state = 1 AND owner = ?",
                       2, values, error);
    status = status ? status : check_ended(s, unit, error);
    if (status == PF_OK) {
        status = pf__store_still_bound(s, unit, error);
    }
    if (status == PF_OK) {
        status = insert_results(s, unit, n_methods, methods, results, error);
    }
    return pf__store_end(s, status, error);
}

pf_status pf_store_fail(pf_store *s, const pf_unit *unit, const char *reason, pf_error *error)
{
    pf_status status = pf__store_begin(s, error);
    if (status != PF_OK) {
        return status;
    }
    const pf_bound values[] = {{reason, 0}, {NULL, unit->id}, {s->owner, 0}};
    status =
        run_bound(s,
                  "UPDATE unit SET state = 3, owner = NULL, reason = ? WHERE id = ? AND state ="
                  " 1 AND owner = ?",
                  3, values, error);
    status = status ? status : check_ended(s, unit, error);
    return pf__store_end(s, status, error);
}

pf_status pf_store_count(pf_store *s, const char *hash, pf_store_counts *counts, pf_error *error)
{
    sqlite3_stmt *statement = NULL;
    memset(counts, 0, sizeof *counts);
    pf_status status = pf__store_prepare(
        s, "SELECT state, count(*) FROM unit WHERE hash = ? GROUP BY state", &statement, error);
    if (status == PF_OK) {
        const pf_bound values[] = {{hash, 0}};
        pf__store_bind(statement, 1, values);
        bool more = true;
        while ((status = pf__store_next(s, statement, &more, error)) == PF_OK && more) {
            int64_t n = sqlite3_column_int64(statement, 1);
            int state = sqlite3_column_int(statement, 0);
            counts->total += n;
            counts->done += state == DONE ? n : 0;
            counts->failed += state == FAILED ? n : 0;
            counts->running += state == RUNNING ? n : 0;
        }
    }
    sqlite3_finalize(statement);
    return status;
}

pf_status pf_store_running(pf_store *s, const char *hash, int64_t *n, pf_error *error)
{
    sqlite3_stmt *statement = NULL;
    *n = 0;
    pf_status status = pf__store_prepare(s,
                                         "SELECT coalesce(owner, ''), count(*) FROM unit WHERE"
                                         " hash = ? AND state = 1 GROUP BY owner",
                                         &statement, error);
    if (status == PF_OK) {
        bool more = true;
        pf__store_bind(statement, 1, &(pf_bound){hash, 0});
        while ((status = pf__store_next(s, statement, &more, error)) == PF_OK && more) {
            bool alive = pf__owner_alive((const char *)sqlite3_column_text(statement, 0));
            *n += alive ? sqlite3_column_int64(statement, 1) : 0;
        }
    }
    sqlite3_finalize(statement);
    return status;
}

static pf_status walk_units(pf_store *s, const char *hash, int state,
                            void (*each)(void *self, const pf_unit *unit, const char *reason),
                            void *self, pf_error *error)
{
    sqlite3_stmt *statement = NULL;
    pf_status status =
        pf__store_prepare(s,
                          "SELECT id, environment, setting, seed, trial, reason FROM unit"
                          " WHERE hash = ? AND state = ? ORDER BY id",
                          &statement, error);
    if (status == PF_OK) {
        const pf_bound values[] = {{hash, 0}, {NULL, state}};
        pf__store_bind(statement, 2, values);
        bool more = true;
        while ((status = pf__store_next(s, statement, &more, error)) == PF_OK && more) {
            pf_unit unit;
            read_unit(statement, &unit);
            each(self, &unit, (const char *)sqlite3_column_text(statement, 5));
        }
    }
    sqlite3_finalize(statement);
    return status;
}

pf_status pf_store_failures(pf_store *s, const char *hash,
                            void (*each)(void *self, const pf_unit *unit, const char *reason),
                            void *self, pf_error *error)
{
    return walk_units(s, hash, FAILED, each, self, error);
}

pf_status pf_store_done(pf_store *s, const char *hash,
                        void (*each)(void *self, const pf_unit *unit, const char *reason),
                        void *self, pf_error *error)
{
    return walk_units(s, hash, DONE, each, self, error);
}

pf_status pf_store_rows(pf_store *s, const char *hash, pf_row_fn each, void *self, pf_error *error)
{
    pf_text sql = {0};
    sqlite3_stmt *statement = NULL;
    pf_text_add(&sql, "SELECT u.id, u.environment, u.setting, u.seed, u.trial, r.method");
    for (int i = 0; i < PF_METRIC_COUNT; i++) {
        // a store that nobody wrote to since lacks the newest metrics
        pf_text_addf(&sql, s->has[i] ? ", r.%s" : ", NULL", pf_metric_name(i));
    }
    pf_text_add(&sql, " FROM result r JOIN unit u ON u.id = r.unit WHERE u.hash = ? AND u.state = 2"
                      " ORDER BY u.environment, u.setting, r.method, u.seed, u.trial");
    pf_status status = sql.failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory")
                                  : pf__store_prepare(s, sql.data, &statement, error);
    if (status == PF_OK) {
        const pf_bound values[] = {{hash, 0}};
        pf__store_bind(statement, 1, values);
    }
    bool more = true;
    while (status == PF_OK && (status = pf__store_next(s, statement, &more, error)) == PF_OK &&
           more) {
        pf_unit unit;
        pf_trial_result result;
        read_unit(statement, &unit);
        for (int i = 0; i < PF_METRIC_COUNT; i++) {
            result.value[i] = sqlite3_column_type(statement, 6 + i) == SQLITE_NULL
                                  ? NAN
                                  : sqlite3_column_double(statement, 6 + i);
        }
        status = each(self, &unit, (const char *)sqlite3_column_text(statement, 5), &result, error);
    }
    sqlite3_finalize(statement);
    pf_text_free(&sql);
    return status;
}

pf_status pf_store_kit_get(pf_store *s, const char *key, int statistic, void **bytes, size_t *n,
                           pf_error *error)
{
    sqlite3_stmt *statement = NULL;
    *bytes = NULL;
    *n = 0;
    pthread_mutex_lock(&s->lock);
    pf_status status = pf__store_prepare(s, "SELECT bytes FROM kit WHERE key = ? AND statistic = ?",
                                         &statement, error);
    if (status == PF_OK) {
        const pf_bound values[] = {{key, 0}, {NULL, statistic}};
        pf__store_bind(statement, 2, values);
        bool more = false;
        status = pf__store_next(s, statement, &more, error);
        if (more) {
            *n = (size_t)sqlite3_column_bytes(statement, 0);
            *bytes = malloc(*n + 1);
            if (*bytes) {
                memcpy(*bytes, sqlite3_column_blob(statement, 0), *n);
            } else {
                status = pf_fail(error, PF_ERR_MEMORY, "out of memory for a kit");
            }
        }
    }
    sqlite3_finalize(statement);
    pthread_mutex_unlock(&s->lock);
    return status;
}

pf_status pf_store_kit_put(pf_store *s, const char *key, int statistic, const void *bytes, size_t n,
                           pf_error *error)
{
    sqlite3_stmt *statement = NULL;
    pf_status status = pf__store_begin(s, error);
    if (status != PF_OK) {
        return status;
    }
    status = pf__store_prepare(
        s, "INSERT OR REPLACE INTO kit(key, statistic, bytes) VALUES(?, ?, ?)", &statement, error);
    if (status == PF_OK) {
        const pf_bound values[] = {{key, 0}, {NULL, statistic}};
        pf__store_bind(statement, 2, values);
        sqlite3_bind_blob64(statement, 3, bytes, n, SQLITE_STATIC);
        status = sqlite3_step(statement) == SQLITE_DONE ? PF_OK : pf__store_fail(s, "kit", error);
    }
    sqlite3_finalize(statement);
    return pf__store_end(s, status, error);
}
