// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "store_impl.h"

#include "host/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Databases into another, in one transaction: all of them or nothing.

typedef struct merge {
    pf_store *into, *from;
    pf_merge_report *report;
    pf_error *error;
    sqlite3_stmt *find, *add, *settle, *rows[2], *copy; // of every unit
} merge;

// A number that may differ by rounding between processors.
static double apart(double a, double b)
{
    return fabs(a - b) / fmax(1, fmax(fabs(a), fabs(b)));
}

// --- experiments

static pf_status other_configuration(merge *m, const char *hash, const char *suite,
                                     const char *settings)
{
    pf_text differ = {0};
    pf_status status = pf__store_differences(m->into, hash, settings, &differ, m->error);
    if (status == PF_OK) {
        status = pf_fail(m->error, PF_ERR_MISMATCH,
                         "%s: has another configuration of %s than %s, which has %s; merge what "
                         "was run with the same settings",
                         m->from->path, suite, m->into->path, differ.data ? differ.data : "others");
    }
    pf__text_free(&differ);
    return status;
}

// An experiment of the source must be one of the target's, or of a suite and profile that the
// target has not got.
static pf_status check_experiment(merge *m, const sql_walk *e)
{
    const sql_value values[] = {{pf__sql_text(e, 1), 0}, {pf__sql_text(e, 2), 0}};
    char hash[65] = "", version[32] = "";
    bool same = false;
    sql_walk w = pf__sql_ask(m->into,
                             "SELECT hash, preflight FROM experiment WHERE suite = ? AND profile ="
                             " ?",
                             2, values, m->error);
    while (!same && pf__sql_next(&w)) {
        snprintf(hash, sizeof hash, "%s", pf__sql_text(&w, 0));
        snprintf(version, sizeof version, "%s", pf__sql_text(&w, 1));
        same = strcmp(hash, pf__sql_text(e, 0)) == 0;
    }
    pf_status status = pf__sql_done(&w);
    if (status != PF_OK || !hash[0]) {
        return status;
    }
    if (!same) {
        return other_configuration(m, hash, values[0].text, pf__sql_text(e, 4));
    }
    return strcmp(version, pf__sql_text(e, 3)) == 0
               ? PF_OK
               : pf_fail(m->error, PF_ERR_VERSION,
                         "%s: was made by preflight %s, %s by %s; merge what one version made",
                         m->from->path, pf__sql_text(e, 3), m->into->path, version);
}

static pf_status merge_experiments(merge *m)
{
    sql_walk w =
        pf__sql_ask(m->from,
                    m->from->has_last_run ? "SELECT hash, suite, profile, preflight, settings FROM"
                                            " experiment ORDER BY coalesce(last_run, 0), ordinal"
                                          : "SELECT hash, suite, profile, preflight, settings FROM"
                                            " experiment ORDER BY ordinal",
                    0, NULL, m->error);
    while (pf__sql_next(&w)) {
        const sql_value row[] = {{pf__sql_text(&w, 0), 0},
                                 {pf__sql_text(&w, 1), 0},
                                 {pf__sql_text(&w, 2), 0},
                                 {pf__sql_text(&w, 3), 0},
                                 {pf__sql_text(&w, 4), 0}};
        w.status = check_experiment(m, &w);
        if (w.status == PF_OK) {
            w.status = pf__sql_run(m->into,
                                   "INSERT OR IGNORE INTO experiment(hash, suite, profile,"
                                   " preflight, settings, last_run) VALUES(?, ?, ?, ?, ?, (SELECT"
                                   " coalesce(max(last_run), 0) + 1 FROM experiment))",
                                   5, row, m->error);
        }
    }
    return pf__sql_done(&w);
}

// --- kits and other work that is kept

// What both have must be the same where trials depend on it: the model of an environment. Kits are
// calibrated anew to verify, so another processor's may stand.
static pf_status merge_blobs(merge *m)
{
    sql_walk w = pf__sql_ask(m->from, "SELECT key, statistic, bytes FROM kit", 0, NULL, m->error);
    while (pf__sql_next(&w)) {
        const char *key = pf__sql_text(&w, 0);
        pf_blob kind = (pf_blob)sqlite3_column_int(w.row, 1);
        size_t n = (size_t)sqlite3_column_bytes(w.row, 2), n_own = 0;
        const void *bytes = sqlite3_column_blob(w.row, 2);
        void *own = NULL;
        w.status = pf__blob_get(m->into, kind, key, &own, &n_own, m->error);
        if (w.status == PF_OK && !own) {
            w.status = pf__blob_put(m->into, kind, key, bytes, n, m->error);
        } else if (w.status == PF_OK && kind == PF_BLOB_MODEL &&
                   (n != n_own || memcmp(own, bytes, n) != 0)) {
            w.status = pf_fail(m->error, PF_ERR_MISMATCH,
                               "%s: its trials of %s were made with another model than those of "
                               "%s; run the shards with the same --models",
                               m->from->path, strchr(key, '|') ? strchr(key, '|') + 1 : key,
                               m->into->path);
        }
        free(own);
    }
    return pf__sql_done(&w);
}

// --- units

static pf_status step(merge *m, pf_store *s, sqlite3_stmt *statement)
{
    int code = sqlite3_step(statement);
    return code == SQLITE_DONE || code == SQLITE_ROW ? PF_OK
                                                     : pf__sql_refuse(s, "merging", m->error);
}

// The unit of the target that has the names of one of the source's; made where it is not there.
static pf_status find_unit(merge *m, const sql_walk *u, int64_t *id, int *state, char *machine,
                           size_t size)
{
    const sql_value names[] = {{pf__sql_text(u, 1), 0},
                               {pf__sql_text(u, 2), 0},
                               {pf__sql_text(u, 3), 0},
                               {NULL, sqlite3_column_int64(u->row, 4)},
                               {NULL, sqlite3_column_int64(u->row, 5)}};
    sqlite3_reset(m->add);
    pf__sql_bind(m->add, 5, names);
    pf_status status = step(m, m->into, m->add);
    sqlite3_reset(m->find);
    pf__sql_bind(m->find, 5, names);
    status = status ? status : step(m, m->into, m->find);
    if (status == PF_OK) {
        const char *name = (const char *)sqlite3_column_text(m->find, 2);
        *id = sqlite3_column_int64(m->find, 0);
        *state = sqlite3_column_int(m->find, 1);
        snprintf(machine, size, "%s", name ? name : "");
    }
    sqlite3_reset(m->find);
    return status;
}

static pf_status copy_rows(merge *m, int64_t from, int64_t to)
{
    enum { FIRST = 2 }; // values before the metrics: unit, method
    sqlite3_reset(m->rows[1]);
    pf__sql_bind(m->rows[1], 1, &(sql_value){NULL, from});
    int code;
    while ((code = sqlite3_step(m->rows[1])) == SQLITE_ROW) {
        sqlite3_reset(m->copy);
        sqlite3_bind_int64(m->copy, 1, to);
        for (int i = 0; i <= PF_METRIC_COUNT; i++) {
            sqlite3_bind_value(m->copy, i + FIRST, sqlite3_column_value(m->rows[1], i));
        }
        pf_status status = step(m, m->into, m->copy);
        if (status != PF_OK) {
            return status;
        }
    }
    return code == SQLITE_DONE ? PF_OK : pf__sql_refuse(m->from, "merging", m->error);
}

// Compares two rows of results: 0 the same bits, else how far apart, infinity where one has a value
// that the other lacks.
static double compare_row(sqlite3_stmt *a, sqlite3_stmt *b, int *metric)
{
    double worst = 0;
    const char *x = (const char *)sqlite3_column_text(a, 0);
    const char *y = (const char *)sqlite3_column_text(b, 0);
    if (!x || !y || strcmp(x, y) != 0) {
        *metric = -1;
        return INFINITY;
    }
    for (int i = 0; i < PF_METRIC_COUNT; i++) {
        bool none = sqlite3_column_type(a, i + 1) == SQLITE_NULL;
        double p = sqlite3_column_double(a, i + 1), q = sqlite3_column_double(b, i + 1);
        double far = none != (sqlite3_column_type(b, i + 1) == SQLITE_NULL) ? INFINITY
                     : none || p == q                                       ? 0
                                                                            : apart(p, q);
        if (far > worst) {
            worst = far;
            *metric = i;
        }
    }
    return worst;
}

// A trial that both have done must have come out the same.
static pf_status compare_units(merge *m, const sql_walk *u, int64_t from, int64_t to, bool alike)
{
    double worst = 0;
    int metric = -1, code[2];
    const int64_t id[2] = {to, from};
    for (int i = 0; i < 2; i++) {
        sqlite3_reset(m->rows[i]);
        pf__sql_bind(m->rows[i], 1, &(sql_value){NULL, id[i]});
    }
    do {
        code[0] = sqlite3_step(m->rows[0]);
        code[1] = sqlite3_step(m->rows[1]);
        int at = -1;
        double far = code[0] == SQLITE_ROW && code[1] == SQLITE_ROW
                         ? compare_row(m->rows[0], m->rows[1], &at)
                     : code[0] == code[1] ? 0
                                          : INFINITY;
        metric = far > worst ? at : metric;
        worst = fmax(worst, far);
    } while (code[0] == SQLITE_ROW && code[1] == SQLITE_ROW);
    for (int i = 0; i < 2; i++) {
        sqlite3_reset(m->rows[i]);
    }
    m->report->twice++;
    m->report->largest = fmax(m->report->largest, isfinite(worst) ? worst : 0);
    if (worst <= (alike ? 0 : PF_MERGE_TOLERANCE)) {
        return PF_OK;
    }
    char far[32];
    pf__print(far, sizeof far, "%.3g", worst);
    return pf_fail(m->error, PF_ERR_MISMATCH,
                   "%s and %s both have %s %s seed %d trial %d, with another %s (%s apart; %s); "
                   "nothing was merged",
                   m->into->path, m->from->path, pf__sql_text(u, 2), pf__sql_text(u, 3),
                   sqlite3_column_int(u->row, 4), sqlite3_column_int(u->row, 5),
                   metric >= 0 ? pf__metric_name(metric) : "set of methods", far,
                   alike ? "both come from one kind of processor, so not a bit may differ"
                         : "1e-9 is let pass between kinds of processors");
}

// What the target is to know of a unit: that it is done, on which machine, or that it failed.
static pf_status settle(merge *m, const sql_walk *u, int64_t id, int state, const char *machine)
{
    const sql_value name = {machine, 0};
    pf_status status = !machine[0]
                           ? PF_OK
                           : pf__sql_run(m->into, "INSERT OR IGNORE INTO machine(name) VALUES(?)",
                                         1, &name, m->error);
    sqlite3_reset(m->settle);
    sqlite3_bind_int(m->settle, 1, state);
    sqlite3_bind_value(m->settle, 2, sqlite3_column_value(u->row, 7));
    sqlite3_bind_text(m->settle, 3, machine, -1, SQLITE_TRANSIENT);
    sqlite3_bind_int64(m->settle, 4, id);
    return status ? status : step(m, m->into, m->settle);
}

static pf_status merge_unit(merge *m, const sql_walk *u)
{
    int64_t from = sqlite3_column_int64(u->row, 0), to = 0;
    int state = sqlite3_column_int(u->row, 6), own = 0;
    const char *name = pf__sql_text(u, 8);
    char machine[256], known[256];
    snprintf(machine, sizeof machine, "%s", name ? name : "");
    pf_status status = find_unit(m, u, &to, &own, known, sizeof known);
    if (status != PF_OK) {
        return status;
    }
    if (state == PF_UNIT_DONE && own == PF_UNIT_DONE) {
        return compare_units(m, u, from, to, machine[0] && strcmp(machine, known) == 0);
    }
    if (state == PF_UNIT_DONE) {
        status = copy_rows(m, from, to);
        m->report->added++;
    }
    bool news = state == PF_UNIT_DONE || (state == PF_UNIT_FAILED && own != PF_UNIT_DONE);
    return status || !news ? status : settle(m, u, to, state, machine);
}

static pf_status merge_units(merge *m)
{
    sql_walk w = pf__sql_ask(
        m->from,
        m->from->has_machine
            ? "SELECT u.id, u.hash, u.environment, u.setting, u.seed, u.trial, u.state, u.reason,"
              " m.name FROM unit u LEFT JOIN machine m ON m.id = u.machine ORDER BY u.id"
            : "SELECT id, hash, environment, setting, seed, trial, state, reason, NULL FROM unit"
              " ORDER BY id",
        0, NULL, m->error);
    while (pf__sql_next(&w)) {
        w.status = merge_unit(m, &w);
    }
    return pf__sql_done(&w);
}

// --- all of it

// Method and metrics of a unit, in the order of methods.
static pf_status prepare_rows(merge *m, pf_store *s, sqlite3_stmt **rows)
{
    pf_text sql = {0};
    pf__text_add(&sql, "SELECT method");
    for (int i = 0; i < PF_METRIC_COUNT; i++) {
        pf__text_addf(&sql, ", %s", s->has[i] ? pf__metric_name(i) : "NULL");
    }
    pf__text_add(&sql, " FROM result WHERE unit = ? ORDER BY method");
    pf_status status = sql.failed ? pf_fail(m->error, PF_ERR_MEMORY, "out of memory")
                                  : pf__sql_query(s, sql.data, 0, NULL, rows, m->error);
    pf__text_free(&sql);
    return status;
}

static pf_status prepare(merge *m)
{
    static const char find[] =
        "SELECT u.id, u.state, m.name FROM unit u LEFT JOIN machine m ON m.id = u.machine WHERE"
        " u.hash = ? AND u.environment = ? AND u.setting = ? AND u.seed = ? AND u.trial = ?";
    static const char add[] = "INSERT OR IGNORE INTO unit(hash, environment, setting, seed, trial)"
                              " VALUES(?, ?, ?, ?, ?)";
    static const char settled[] =
        "UPDATE unit SET state = ?, owner = NULL, reason = ?, machine = (SELECT id FROM machine"
        " WHERE name = ?) WHERE id = ?";
    pf_text sql = {0};
    pf__sql_insert_results(&sql);
    pf_status s = pf__sql_query(m->into, find, 0, NULL, &m->find, m->error);
    s = s ? s : pf__sql_query(m->into, add, 0, NULL, &m->add, m->error);
    s = s ? s : pf__sql_query(m->into, settled, 0, NULL, &m->settle, m->error);
    s = s ? s : prepare_rows(m, m->into, &m->rows[0]);
    s = s ? s : prepare_rows(m, m->from, &m->rows[1]);
    if (s == PF_OK) {
        s = sql.failed ? pf_fail(m->error, PF_ERR_MEMORY, "out of memory")
                       : pf__sql_query(m->into, sql.data, 0, NULL, &m->copy, m->error);
    }
    pf__text_free(&sql);
    return s;
}

static pf_status merge_one(pf_store *into, const char *path, pf_merge_report *report,
                           pf_error *error)
{
    merge m = {.into = into, .report = report, .error = error};
    pf_status status = pf__store_open(&m.from, path, PF_STORE_READ, error);
    if (status != PF_OK) {
        return status;
    }
    status = merge_experiments(&m);
    status = status ? status : merge_blobs(&m);
    status = status ? status : prepare(&m);
    status = status ? status : merge_units(&m);
    sqlite3_finalize(m.find);
    sqlite3_finalize(m.add);
    sqlite3_finalize(m.settle);
    sqlite3_finalize(m.rows[0]);
    sqlite3_finalize(m.rows[1]);
    sqlite3_finalize(m.copy);
    pf__store_close(m.from);
    return status;
}

pf_status pf__store_merge(pf_store *into, int n, const char *const *paths, pf_merge_report *report,
                          pf_error *error)
{
    memset(report, 0, sizeof *report);
    pf_status status = pf__sql_begin(into, error);
    for (int i = 0; i < n && status == PF_OK; i++) {
        status = merge_one(into, paths[i], report, error);
    }
    return pf__sql_end(into, status, error);
}
