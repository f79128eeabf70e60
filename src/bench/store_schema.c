// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "store_impl.h"

#include "host/text.h"

#include <string.h>
#include <time.h>

pf_status pf__store_fail(pf_store *s, const char *what, pf_error *error)
{
    int code = sqlite3_errcode(s->db);
    if (code == SQLITE_CORRUPT) {
        return pf_fail(error, PF_ERR_FILE,
                       "%s: the database is damaged (%s); restore a copy of it, or delete it and "
                       "run again",
                       s->path, sqlite3_errmsg(s->db));
    }
    const char *advice = code == SQLITE_FULL       ? "; the disk is full"
                         : code == SQLITE_BUSY     ? "; another process holds it"
                         : code == SQLITE_READONLY ? "; it cannot be written"
                         : code == SQLITE_NOTADB   ? "; name another file with --db"
                                                   : "";
    return pf_fail(error, PF_ERR_FILE, "%s: %s: %s%s", s->path, what, sqlite3_errmsg(s->db),
                   advice);
}

pf_status pf__store_run(pf_store *s, const char *sql, pf_error *error)
{
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK
               ? PF_OK
               : pf__store_fail(s, "database", error);
}

pf_status pf__store_prepare(pf_store *s, const char *sql, sqlite3_stmt **statement, pf_error *error)
{
    return sqlite3_prepare_v2(s->db, sql, -1, statement, NULL) == SQLITE_OK
               ? PF_OK
               : pf__store_fail(s, "database", error);
}

static void create_sql(pf_text *sql)
{
    pf_text_add(
        sql, "CREATE TABLE IF NOT EXISTS experiment(ordinal INTEGER PRIMARY KEY, hash TEXT UNIQUE"
             " NOT NULL, suite TEXT NOT NULL, profile TEXT NOT NULL, preflight TEXT NOT NULL,"
             " settings TEXT NOT NULL, last_run INTEGER);"
             "CREATE TABLE IF NOT EXISTS unit(id INTEGER PRIMARY KEY, hash TEXT NOT NULL,"
             " environment TEXT NOT NULL, setting TEXT NOT NULL, seed INTEGER NOT NULL,"
             " trial INTEGER NOT NULL, state INTEGER NOT NULL DEFAULT 0, owner TEXT,"
             " reason TEXT, UNIQUE(hash, environment, setting, seed, trial));"
             "CREATE INDEX IF NOT EXISTS unit_state ON unit(hash, state, id);"
             "CREATE TABLE IF NOT EXISTS kit(key TEXT NOT NULL, statistic INTEGER NOT NULL,"
             " bytes BLOB NOT NULL, PRIMARY KEY(key, statistic));"
             "CREATE TABLE IF NOT EXISTS result(unit INTEGER NOT NULL, method TEXT NOT NULL");
    for (int i = 0; i < PF_METRIC_COUNT; i++) {
        pf_text_addf(sql, ", %s REAL", pf_metric_name(i));
    }
    pf_text_add(sql, ", PRIMARY KEY(unit, method)) WITHOUT ROWID;");
}

static void view_sql(pf_text *sql)
{
    pf_text_add(sql, "CREATE VIEW IF NOT EXISTS trial_metric(suite, environment, setting, method,"
                     " seed, trial, metric, value, profile, config_hash) AS ");
    for (int i = 0; i < PF_METRIC_COUNT; i++) {
        pf_text_addf(sql,
                     "%sSELECT e.suite, u.environment, u.setting, r.method, u.seed, u.trial, '%s',"
                     " r.%s, e.profile, e.hash FROM result r JOIN unit u ON u.id = r.unit JOIN"
                     " experiment e ON e.hash = u.hash WHERE u.state = 2 AND r.%s IS NOT NULL",
                     i ? " UNION ALL " : "", pf_metric_name(i), pf_metric_name(i),
                     pf_metric_name(i));
    }
    pf_text_add(sql, ";");
}

int pf__store_wait(pf_store *s, const char *sql, int (*each)(void *, int, char **, char **),
                   void *self)
{
    enum { TRIES = 1500 };
    const struct timespec moment = {0, 20000000};
    int code = SQLITE_BUSY;
    for (int i = 0; i < TRIES && code == SQLITE_BUSY; i++) {
        code = sqlite3_exec(s->db, sql, each, self, NULL);
        if (code == SQLITE_BUSY) {
            nanosleep(&moment, NULL);
        }
    }
    return code;
}

void pf__store_columns(pf_store *s)
{
    sqlite3_stmt *statement = NULL;
    memset(s->has, 0, sizeof s->has);
    if (pf__store_prepare(s, "PRAGMA table_info(result)", &statement, NULL) == PF_OK) {
        while (sqlite3_step(statement) == SQLITE_ROW) {
            int metric = pf_metric_find((const char *)sqlite3_column_text(statement, 1));
            if (metric >= 0) {
                s->has[metric] = true;
            }
        }
    }
    sqlite3_finalize(statement);
    // which run of all was its last; a count, no time
    s->has_last_run =
        pf__store_prepare(s, "SELECT last_run FROM experiment", &statement, NULL) == PF_OK;
    sqlite3_finalize(statement);
}

// A store of an earlier version gets the columns that came since, without values in its old rows.
static void add_missing(const pf_store *s, pf_text *sql)
{
    bool any = false;
    pf_text_add(sql, s->has_last_run ? "" : "ALTER TABLE experiment ADD COLUMN last_run INTEGER;");
    for (int i = 0; i < PF_METRIC_COUNT; i++) {
        if (!s->has[i]) {
            pf_text_addf(sql, "ALTER TABLE result ADD COLUMN %s REAL;", pf_metric_name(i));
            any = true;
        }
    }
    pf_text_add(sql, any ? "DROP VIEW IF EXISTS trial_metric;" : "");
}

pf_status pf__store_create(pf_store *s, pf_error *error)
{
    pf_text sql = {0}, later = {0};
    create_sql(&sql);
    // this needs a new file for a moment alone
    int code = pf__store_wait(s, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;", NULL, NULL);
    pf_status status = code == SQLITE_OK ? PF_OK : pf__store_fail(s, "database", error);
    if (status == PF_OK) {
        status = pf__store_run(s, "BEGIN IMMEDIATE", error);
    }
    if (status == PF_OK) {
        status = sql.failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory")
                            : pf__store_run(s, sql.data, error);
        if (status == PF_OK) {
            pf__store_columns(s);
            add_missing(s, &later);
            view_sql(&later);
            status = later.failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory")
                                  : pf__store_run(s, later.data, error);
        }
        sqlite3_exec(s->db, status == PF_OK ? "COMMIT" : "ROLLBACK", NULL, NULL, NULL);
    }
    pf_text_free(&sql);
    pf_text_free(&later);
    return status;
}
