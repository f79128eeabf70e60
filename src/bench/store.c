// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _XOPEN_SOURCE 700
#include "store_impl.h"

#include "host/parallel.h"
#include "host/text.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

// --- statements

pf_status pf__sql_refuse(pf_store *s, const char *what, pf_error *error)
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

static pf_status run_sql(pf_store *s, const char *sql, pf_error *error)
{
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK
               ? PF_OK
               : pf__sql_refuse(s, "database", error);
}

void pf__sql_bind(sqlite3_stmt *statement, int n, const sql_value *values)
{
    for (int i = 0; i < n; i++) {
        if (values[i].text) {
            sqlite3_bind_text(statement, i + 1, values[i].text, -1, SQLITE_TRANSIENT);
        } else {
            sqlite3_bind_int64(statement, i + 1, values[i].number);
        }
    }
}

pf_status pf__sql_query(pf_store *s, const char *sql, int n, const sql_value *values,
                        sqlite3_stmt **statement, pf_error *error)
{
    *statement = NULL;
    if (sqlite3_prepare_v2(s->db, sql, -1, statement, NULL) != SQLITE_OK) {
        return pf__sql_refuse(s, "database", error);
    }
    pf__sql_bind(*statement, n, values);
    return PF_OK;
}

pf_status pf__sql_run(pf_store *s, const char *sql, int n, const sql_value *values, pf_error *error)
{
    sqlite3_stmt *statement = NULL;
    pf_status status = pf__sql_query(s, sql, n, values, &statement, error);
    if (status == PF_OK) {
        int code = sqlite3_step(statement);
        status = code == SQLITE_DONE || code == SQLITE_ROW ? PF_OK
                                                           : pf__sql_refuse(s, "database", error);
    }
    sqlite3_finalize(statement);
    return status;
}

sql_walk pf__sql_ask(pf_store *s, const char *sql, int n, const sql_value *values, pf_error *error)
{
    sql_walk w = {.store = s, .error = error};
    w.status = pf__sql_query(s, sql, n, values, &w.row, error);
    return w;
}

bool pf__sql_next(sql_walk *w)
{
    int code = w->status == PF_OK ? sqlite3_step(w->row) : SQLITE_DONE;
    if (code != SQLITE_ROW && code != SQLITE_DONE) {
        w->status = pf__sql_refuse(w->store, "reading", w->error);
    }
    return code == SQLITE_ROW;
}

const char *pf__sql_text(const sql_walk *w, int column)
{
    return (const char *)sqlite3_column_text(w->row, column);
}

pf_status pf__sql_done(sql_walk *w)
{
    sqlite3_finalize(w->row);
    return w->status;
}

pf_status pf__sql_begin(pf_store *s, pf_error *error)
{
    pthread_mutex_lock(&s->lock);
    if (!s->gathers) {
        return run_sql(s, "BEGIN IMMEDIATE", error);
    }
    if (!s->open) {
        pf_status status = run_sql(s, "BEGIN IMMEDIATE", error);
        if (status != PF_OK) {
            return status;
        }
        s->open = true;
        s->since = pf__seconds();
    }
    return run_sql(s, "SAVEPOINT one", error);
}

// Ends the transaction at hand.
static pf_status commit(pf_store *s, pf_status status, pf_error *error)
{
    status = status ? status : run_sql(s, "COMMIT", error);
    if (status != PF_OK) {
        sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    }
    s->open = false;
    return status;
}

// What failed is taken back alone, as long as the whole is still there.
static pf_status end_part(pf_store *s, pf_status status, pf_error *error)
{
    const double longest = .05; // that other processes wait for us
    if (status != PF_OK && s->open && !sqlite3_get_autocommit(s->db)) {
        sqlite3_exec(s->db, "ROLLBACK TO one", NULL, NULL, NULL);
        sqlite3_exec(s->db, "RELEASE one", NULL, NULL, NULL);
    } else if (status == PF_OK) {
        status = run_sql(s, "RELEASE one", error);
    }
    s->open = s->open && !sqlite3_get_autocommit(s->db);
    return status == PF_OK && pf__seconds() - s->since > longest ? commit(s, PF_OK, error) : status;
}

pf_status pf__sql_end(pf_store *s, pf_status status, pf_error *error)
{
    status = s->gathers ? end_part(s, status, error) : commit(s, status, error);
    pthread_mutex_unlock(&s->lock);
    return status;
}

pf_status pf__store_flush(pf_store *s, pf_error *error)
{
    pthread_mutex_lock(&s->lock);
    pf_status status = s->open ? commit(s, PF_OK, error) : PF_OK;
    pthread_mutex_unlock(&s->lock);
    return status;
}

pf_status pf__store_gather(pf_store *s, bool gathers, pf_error *error)
{
    pf_status status = pf__store_flush(s, error);
    s->gathers = gathers;
    return status;
}

// --- owners of claims

// Whose claim it is: a process and when it started, so that a reused number is not mistaken.
static void owner_of(pid_t pid, char out[64])
{
    char path[64], line[1024];
    unsigned long long started = 0;
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    FILE *f = fopen(path, "r");
    if (f) {
        size_t n = fread(line, 1, sizeof line - 1, f);
        line[n] = 0;
        // the 22nd field; the second may hold spaces but ends at the last bracket
        char *at = strrchr(line, ')');
        for (int field = 2; at && field < 22; field++) {
            at = strchr(at + 1, ' ');
        }
        started = at ? strtoull(at, NULL, 10) : 0;
        fclose(f);
    }
    snprintf(out, 64, "%ld-%llu", (long)pid, started);
}

// Whether the process is there and not merely waiting to be reaped.
static bool process_runs(pid_t pid)
{
    char path[64], line[512] = "";
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(line, 1, sizeof line - 1, f) : 0;
    line[n] = 0;
    if (f) {
        fclose(f);
    }
    const char *state = strrchr(line, ')');
    return state && state[1] == ' ' && state[2] != 'Z' && state[2] != 'X';
}

static bool owner_alive(const char *owner)
{
    char now[64];
    pid_t pid = (pid_t)strtol(owner, NULL, 10);
    if (pid <= 0 || (kill(pid, 0) != 0 && errno == ESRCH) || !process_runs(pid)) {
        return false;
    }
    owner_of(pid, now);
    return strcmp(now, owner) == 0;
}

// --- tables

static void create_sql(pf_text *sql)
{
    pf__text_add(
        sql, "CREATE TABLE IF NOT EXISTS experiment(ordinal INTEGER PRIMARY KEY, hash TEXT UNIQUE"
             " NOT NULL, suite TEXT NOT NULL, profile TEXT NOT NULL, preflight TEXT NOT NULL,"
             " settings TEXT NOT NULL, last_run INTEGER);"
             "CREATE TABLE IF NOT EXISTS unit(id INTEGER PRIMARY KEY, hash TEXT NOT NULL,"
             " environment TEXT NOT NULL, setting TEXT NOT NULL, seed INTEGER NOT NULL,"
             " trial INTEGER NOT NULL, state INTEGER NOT NULL DEFAULT 0, owner TEXT,"
             " reason TEXT, machine INTEGER, UNIQUE(hash, environment, setting, seed, trial));"
             "CREATE TABLE IF NOT EXISTS machine(id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT"
             " NULL);"
             "CREATE INDEX IF NOT EXISTS unit_state ON unit(hash, state, id);"
             "CREATE TABLE IF NOT EXISTS kit(key TEXT NOT NULL, statistic INTEGER NOT NULL,"
             " bytes BLOB NOT NULL, PRIMARY KEY(key, statistic));"
             "CREATE TABLE IF NOT EXISTS result(unit INTEGER NOT NULL, method TEXT NOT NULL");
    for (int i = 0; i < PF_METRIC_COUNT; i++) {
        pf__text_addf(sql, ", %s REAL", pf__metric_name(i));
    }
    pf__text_add(sql, ", PRIMARY KEY(unit, method)) WITHOUT ROWID;");
}

static void view_sql(pf_text *sql)
{
    pf__text_add(sql, "CREATE VIEW IF NOT EXISTS trial_metric(suite, environment, setting, method,"
                      " seed, trial, metric, value, profile, config_hash) AS ");
    for (int i = 0; i < PF_METRIC_COUNT; i++) {
        pf__text_addf(sql,
                      "%sSELECT e.suite, u.environment, u.setting, r.method, u.seed, u.trial, '%s',"
                      " r.%s, e.profile, e.hash FROM result r JOIN unit u ON u.id = r.unit JOIN"
                      " experiment e ON e.hash = u.hash WHERE u.state = 2 AND r.%s IS NOT NULL",
                      i ? " UNION ALL " : "", pf__metric_name(i), pf__metric_name(i),
                      pf__metric_name(i));
    }
    pf__text_add(sql, ";");
}

// sqlite3_exec that also waits where SQLite does not do so by itself: while another process turns a
// new file to write-ahead logging. Returns SQLite's code.
static int run_waiting(pf_store *s, const char *sql, int (*each)(void *, int, char **, char **),
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

// The next name of PRAGMA table_info; NULL at the end, and where memory runs out for it.
static const char *next_column(sql_walk *w)
{
    bool more = pf__sql_next(w);
    const char *name = more ? pf__sql_text(w, 1) : NULL;
    if (more && !name) {
        w->status = pf__sql_refuse(w->store, "reading", w->error);
    }
    return name;
}

// Whether a table has a column that came later. sql: PRAGMA table_info of it.
static pf_status has_column(pf_store *s, const char *sql, const char *column, bool *has,
                            pf_error *error)
{
    sql_walk w = pf__sql_ask(s, sql, 0, NULL, error);
    *has = false;
    for (const char *name; (name = next_column(&w)) != NULL;) {
        *has = *has || strcmp(name, column) == 0;
    }
    return pf__sql_done(&w);
}

// Notes which of the later columns the store has.
static pf_status note_columns(pf_store *s, pf_error *error)
{
    memset(s->has, 0, sizeof s->has);
    sql_walk w = pf__sql_ask(s, "PRAGMA table_info(result)", 0, NULL, error);
    for (const char *name; (name = next_column(&w)) != NULL;) {
        int metric = pf__metric_find(name);
        if (metric >= 0) {
            s->has[metric] = true;
        }
    }
    pf_status status = pf__sql_done(&w);
    // which run of all was its last; a count, no time
    status = status ? status
                    : has_column(s, "PRAGMA table_info(experiment)", "last_run", &s->has_last_run,
                                 error);
    return status ? status
                  : has_column(s, "PRAGMA table_info(unit)", "machine", &s->has_machine, error);
}

// A store of an earlier version gets the columns that came since, without values in its old rows.
static void add_missing(const pf_store *s, pf_text *sql)
{
    bool any = false;
    pf__text_add(sql, s->has_last_run ? "" : "ALTER TABLE experiment ADD COLUMN last_run INTEGER;");
    pf__text_add(sql, s->has_machine ? "" : "ALTER TABLE unit ADD COLUMN machine INTEGER;");
    for (int i = 0; i < PF_METRIC_COUNT; i++) {
        if (!s->has[i]) {
            pf__text_addf(sql, "ALTER TABLE result ADD COLUMN %s REAL;", pf__metric_name(i));
            any = true;
        }
    }
    pf__text_add(sql, any ? "DROP VIEW IF EXISTS trial_metric;" : "");
}

// Tables and view, as far as they are missing; columns that came later are added.
static pf_status create_tables(pf_store *s, pf_error *error)
{
    pf_text sql = {0}, later = {0};
    create_sql(&sql);
    // this needs a new file for a moment alone
    int code = run_waiting(s, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;", NULL, NULL);
    pf_status status = code == SQLITE_OK ? PF_OK : pf__sql_refuse(s, "database", error);
    status = status ? status : run_sql(s, "BEGIN IMMEDIATE", error);
    if (status == PF_OK) {
        status = sql.failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory")
                            : run_sql(s, sql.data, error);
        status = status ? status : note_columns(s, error);
        if (status == PF_OK) {
            add_missing(s, &later);
            view_sql(&later);
            status = later.failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory")
                                  : run_sql(s, later.data, error);
        }
        sqlite3_exec(s->db, status == PF_OK ? "COMMIT" : "ROLLBACK", NULL, NULL, NULL);
    }
    pf__text_free(&sql);
    pf__text_free(&later);
    return status;
}

// --- opening

pf_status pf__store_check_name(const char *path, pf_error *error)
{
    if (!*path || strcmp(path, ":memory:") == 0) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "--db: '%s' is no file, all results would be lost; name one, such as "
                       "preflight.db",
                       path);
    }
    if (strncmp(path, "file:", 5) == 0) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "--db: '%s' is an address; name the file by its path", path);
    }
    return PF_OK;
}

static int note_number(void *self, int n, char **text, char **names)
{
    (void)names;
    *(long *)self = n > 0 && text[0] ? strtol(text[0], NULL, 10) : 0;
    return 0;
}

// Whether nothing is in it yet. What is there must be ours, by the columns that every version had;
// a file of something else is refused before anything is written to it.
static pf_status inspect(pf_store *s, bool *empty, pf_error *error)
{
    static const char *const known[] = {
        "SELECT hash, suite, profile, preflight, settings FROM experiment",
        "SELECT id, hash, environment, setting, seed, trial, state, owner, reason FROM unit",
        "SELECT key, statistic, bytes FROM kit", "SELECT unit, method FROM result"};
    long n = 0;
    if (run_waiting(s,
                    "SELECT (SELECT count(*) FROM sqlite_master) +"
                    " (SELECT application_id <> 0 FROM pragma_application_id)",
                    note_number, &n) != SQLITE_OK) {
        return pf__sql_refuse(s, "database", error);
    }
    *empty = n == 0;
    for (size_t i = 0; n > 0 && i < sizeof known / sizeof known[0]; i++) {
        sqlite3_stmt *statement = NULL;
        int code = sqlite3_prepare_v2(s->db, known[i], -1, &statement, NULL);
        sqlite3_finalize(statement);
        if (code == SQLITE_ERROR) {
            return pf_fail(error, PF_ERR_FILE,
                           "%s: is a database of something else, not of preflight; name another "
                           "file with --db",
                           s->path);
        }
        if (code != SQLITE_OK) {
            return pf__sql_refuse(s, "database", error);
        }
    }
    return PF_OK;
}

// What is committed but not yet in the database itself lies in its log.
static bool log_is_empty(const char *path)
{
    char log[PATH_MAX + 8];
    struct stat state;
    snprintf(log, sizeof log, "%s-wal", path);
    return stat(log, &state) != 0 || state.st_size == 0;
}

// Whether the files that reading beside a writer needs can be made, and removed again.
static bool can_write(const char *path)
{
    char parent[PATH_MAX];
    snprintf(parent, sizeof parent, "%s", path);
    char *slash = strrchr(parent, '/');
    if (slash) {
        slash[slash == parent] = 0;
    }
    return access(path, W_OK) == 0 && access(parent, W_OK | X_OK) == 0;
}

// As an address of SQLite's: the file will not change while it is read.
static int open_unchanging(pf_store *s, const char *path)
{
    pf_text address = {0};
    pf__text_add(&address, "file:");
    for (const char *p = path; *p; p++) {
        if (strchr("%?#", *p)) {
            pf__text_addf(&address, "%%%02X", (unsigned)(unsigned char)*p);
        } else {
            pf__text_add_n(&address, p, 1);
        }
    }
    pf__text_add(&address, "?immutable=1");
    int code =
        address.failed
            ? SQLITE_NOMEM
            : sqlite3_open_v2(address.data, &s->db,
                              SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_FULLMUTEX, NULL);
    pf__text_free(&address);
    return code;
}

// Where it may be written it is opened so, though nothing is written: who only reads leaves the
// files of its log behind. Where it may not, it is read as one that does not change, or with the
// log that a writer has left.
static pf_status open_to_read(pf_store *s, pf_error *error)
{
    char path[PATH_MAX];
    if (!realpath(s->path, path)) {
        return errno == ENOENT || errno == ENOTDIR
                   ? pf_fail(error, PF_ERR_FILE,
                             "%s: there is no such database; `preflight bench run` makes it",
                             s->path)
                   : pf_fail(error, PF_ERR_FILE, "%s: cannot open: %s", s->path, strerror(errno));
    }
    bool writable = can_write(path), logged = !log_is_empty(path);
    int flags = (writable ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY) | SQLITE_OPEN_FULLMUTEX;
    int code =
        writable || logged ? sqlite3_open_v2(path, &s->db, flags, NULL) : open_unchanging(s, path);
    if (code == SQLITE_OK) {
        code = sqlite3_exec(s->db, "PRAGMA query_only = 1", NULL, NULL, NULL);
    }
    if (code == SQLITE_OK && !writable && logged &&
        sqlite3_exec(s->db, "SELECT count(*) FROM sqlite_master", NULL, NULL, NULL) ==
            SQLITE_CANTOPEN) {
        return pf_fail(error, PF_ERR_FILE,
                       "%s: its latest results are in %s-wal, which cannot be read in a folder "
                       "that cannot be written; copy both into one of your own",
                       s->path, s->path);
    }
    return code == SQLITE_OK ? PF_OK : pf__sql_refuse(s, "cannot open", error);
}

pf_status pf__store_open(pf_store **store, const char *path, pf_store_mode mode, pf_error *error)
{
    *store = NULL;
    pf_status status = pf__store_check_name(path, error);
    if (status != PF_OK) {
        return status;
    }
    pf_store *s = calloc(1, sizeof *s);
    if (s) {
        s->path = malloc(strlen(path) + 1);
    }
    if (!s || !s->path) {
        free(s);
        return pf_fail(error, PF_ERR_MEMORY, "out of memory");
    }
    strcpy(s->path, path);
    pthread_mutex_init(&s->lock, NULL);
    owner_of(getpid(), s->owner);
    if (mode == PF_STORE_READ) {
        status = open_to_read(s, error);
    } else if (sqlite3_open_v2(path, &s->db,
                               SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX,
                               NULL) != SQLITE_OK) {
        status = pf__sql_refuse(s, "cannot open", error);
    }
    if (status == PF_OK) {
        bool empty = false;
        sqlite3_busy_timeout(s->db, 30000);
        status = inspect(s, &empty, error);
        if (status == PF_OK && mode == PF_STORE_WRITE) {
            status = create_tables(s, error);
        } else if (status == PF_OK && empty) {
            status = pf_fail(error, PF_ERR_FILE,
                             "%s: there are no results in it; `preflight bench run` with this --db "
                             "makes them",
                             path);
        }
    }
    status = status ? status : note_columns(s, error);
    if (status != PF_OK) {
        pf__store_close(s);
        return status;
    }
    *store = s;
    return PF_OK;
}

void pf__store_close(pf_store *s)
{
    if (s) {
        sqlite3_finalize(s->add_result);
        pf__store_flush(s, NULL);
        sqlite3_close(s->db);
        pthread_mutex_destroy(&s->lock);
        free(s->tie);
        free(s->path);
        free(s);
    }
}

pf_status pf__store_limit(pf_store *s, int pages, pf_error *error)
{
    char sql[64];
    snprintf(sql, sizeof sql, "PRAGMA max_page_count=%d", pages);
    return run_sql(s, sql, error);
}

// --- blobs: bytes under a kind and a key

pf_status pf__blob_get(pf_store *s, pf_blob kind, const char *key, void **bytes, size_t *n,
                       pf_error *error)
{
    const sql_value values[] = {{key, 0}, {NULL, kind}};
    *bytes = NULL;
    *n = 0;
    sql_walk w =
        pf__sql_ask(s, "SELECT bytes FROM kit WHERE key = ? AND statistic = ?", 2, values, error);
    if (pf__sql_next(&w)) {
        *n = (size_t)sqlite3_column_bytes(w.row, 0);
        *bytes = calloc(*n + 1, 1);
        if (*bytes) {
            memcpy(*bytes, sqlite3_column_blob(w.row, 0), *n);
        } else {
            w.status = pf_fail(error, PF_ERR_MEMORY, "out of memory for a kit");
        }
    }
    return pf__sql_done(&w);
}

pf_status pf__blob_put(pf_store *s, pf_blob kind, const char *key, const void *bytes, size_t n,
                       pf_error *error)
{
    sqlite3_stmt *statement = NULL;
    const sql_value values[] = {{key, 0}, {NULL, kind}};
    pf_status status =
        pf__sql_query(s, "INSERT OR REPLACE INTO kit(key, statistic, bytes) VALUES(?, ?, ?)", 2,
                      values, &statement, error);
    if (status == PF_OK) {
        sqlite3_bind_blob64(statement, 3, bytes, n, SQLITE_STATIC);
        status = sqlite3_step(statement) == SQLITE_DONE ? PF_OK : pf__sql_refuse(s, "kit", error);
    }
    sqlite3_finalize(statement);
    return status;
}

pf_status pf__store_get(pf_store *s, pf_blob kind, const char *key, void **bytes, size_t *n,
                        pf_error *error)
{
    pthread_mutex_lock(&s->lock);
    pf_status status = pf__blob_get(s, kind, key, bytes, n, error);
    pthread_mutex_unlock(&s->lock);
    return status;
}

pf_status pf__store_put(pf_store *s, pf_blob kind, const char *key, const void *bytes, size_t n,
                        pf_error *error)
{
    pf_status status = pf__sql_begin(s, error);
    status = status ? status : pf__blob_put(s, kind, key, bytes, n, error);
    return pf__sql_end(s, status, error);
}

// --- which model made the trials of an environment

// Whether a trial of the environment is done or in the hands of a living process.
static pf_status has_trials(pf_store *s, const char *hash, const char *environment, bool *has,
                            pf_error *error)
{
    const sql_value values[] = {{hash, 0}, {environment, 0}};
    *has = false;
    sql_walk w = pf__sql_ask(s,
                             "SELECT DISTINCT state, coalesce(owner, '') FROM unit"
                             " WHERE hash = ? AND environment = ? AND state IN (1, 2)",
                             2, values, error);
    while (!*has && pf__sql_next(&w)) {
        *has = sqlite3_column_int(w.row, 0) == PF_UNIT_DONE || owner_alive(pf__sql_text(&w, 1));
    }
    return pf__sql_done(&w);
}

static pf_status get_model(pf_store *s, const char *key, char bound[65], pf_error *error)
{
    void *bytes = NULL;
    size_t n = 0;
    pf_status status = pf__blob_get(s, PF_BLOB_MODEL, key, &bytes, &n, error);
    snprintf(bound, 65, "%s", bytes ? (const char *)bytes : "");
    free(bytes);
    return status;
}

static tie *find_tie(const pf_store *s, const char *key)
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
    tie *known = find_tie(s, key);
    if (!known) {
        tie *more = realloc(s->tie, (size_t)(s->n_ties + 1) * sizeof *more);
        if (!more) {
            return pf_fail(error, PF_ERR_MEMORY, "out of memory for a database");
        }
        s->tie = more;
        known = &more[s->n_ties++];
    }
    snprintf(known->key, sizeof known->key, "%s", key);
    snprintf(known->model, sizeof known->model, "%s", model);
    return PF_OK;
}

// Refuses a unit whose environment another process has tied to another model since.
static pf_status still_bound(pf_store *s, const pf_unit *unit, pf_error *error)
{
    char key[96] = "", bound[65];
    if (s->n_ties == 0) {
        return PF_OK;
    }
    sql_walk w = pf__sql_ask(s, "SELECT hash FROM unit WHERE id = ?", 1,
                             &(sql_value){NULL, unit->id}, error);
    if (pf__sql_next(&w)) {
        snprintf(key, sizeof key, "%s|%s", pf__sql_text(&w, 0), unit->environment);
    }
    pf_status status = pf__sql_done(&w);
    const tie *known = find_tie(s, key);
    if (status != PF_OK || !known) {
        return status;
    }
    status = get_model(s, key, bound, error);
    if (status == PF_OK && strcmp(bound, known->model) != 0) {
        status = pf_fail(error, PF_ERR_MISMATCH,
                         "%s: another process makes the trials of %s with another model; give both "
                         "the same --models, or another --db",
                         s->path, unit->environment);
    }
    return status;
}

// One transaction, so that of two processes with two models the second sees the first.
pf_status pf__store_bind(pf_store *s, const char *hash, const char *environment, const char *model,
                         char bound[65], pf_error *error)
{
    char key[96];
    bool held = false;
    snprintf(key, sizeof key, "%s|%s", hash, environment);
    pf_status status = pf__sql_begin(s, error);
    status = status ? status : get_model(s, key, bound, error);
    if (status == PF_OK && bound[0] && strcmp(bound, model) != 0) {
        status = has_trials(s, hash, environment, &held, error);
    }
    if (status == PF_OK && !held && strcmp(bound, model) != 0) {
        status = pf__blob_put(s, PF_BLOB_MODEL, key, model, strlen(model) + 1, error);
        snprintf(bound, 65, "%s", model);
    }
    if (status == PF_OK && !held) {
        status = note_tie(s, key, model, error);
    }
    return pf__sql_end(s, status, error);
}

pf_status pf__store_bound(pf_store *s, const char *hash, const char *environment, char bound[65],
                          pf_error *error)
{
    char key[96];
    snprintf(key, sizeof key, "%s|%s", hash, environment);
    return get_model(s, key, bound, error);
}

// --- units

pf_status pf__store_begin(pf_store *s, const char *hash, const char *suite, const char *profile,
                          const char *settings, const pf_unit *units, size_t n, pf_error *error)
{
    const sql_value row[] = {{hash, 0}, {suite, 0}, {profile, 0}, {PF_VERSION, 0}, {settings, 0}};
    pf_status status = pf__sql_begin(s, error);
    status = status
                 ? status
                 : pf__sql_run(
                       s,
                       "INSERT OR IGNORE INTO experiment(hash, suite, profile, preflight, settings)"
                       " VALUES(?, ?, ?, ?, ?)",
                       5, row, error);
    status =
        status
            ? status
            : pf__sql_run(s,
                          "UPDATE experiment SET last_run = (SELECT coalesce(max(last_run), 0) + 1"
                          " FROM experiment) WHERE hash = ?",
                          1, row, error);
    sqlite3_stmt *statement = NULL;
    status =
        status ? status
               : pf__sql_query(s,
                               "INSERT OR IGNORE INTO unit(hash, environment, setting, seed, trial)"
                               " VALUES(?, ?, ?, ?, ?)",
                               0, NULL, &statement, error);
    for (size_t i = 0; i < n && status == PF_OK; i++) {
        const sql_value values[] = {{hash, 0},
                                    {units[i].environment, 0},
                                    {units[i].setting, 0},
                                    {NULL, units[i].seed},
                                    {NULL, units[i].trial}};
        pf__sql_bind(statement, 5, values);
        status =
            sqlite3_step(statement) == SQLITE_DONE ? PF_OK : pf__sql_refuse(s, "database", error);
        sqlite3_reset(statement);
    }
    sqlite3_finalize(statement);
    return pf__sql_end(s, status, error);
}

pf_status pf__store_recover(pf_store *s, const char *hash, pf_error *error)
{
    char dead[64][64];
    int n = 0;
    pf_status status = pf__sql_begin(s, error);
    if (status == PF_OK) {
        sql_walk w = pf__sql_ask(
            s, "SELECT DISTINCT coalesce(owner, '') FROM unit WHERE hash = ? AND state = 1", 1,
            &(sql_value){hash, 0}, error);
        while (n < 64 && pf__sql_next(&w)) {
            if (!owner_alive(pf__sql_text(&w, 0))) {
                snprintf(dead[n++], sizeof dead[0], "%s", pf__sql_text(&w, 0));
            }
        }
        status = pf__sql_done(&w);
    }
    for (int i = 0; i < n && status == PF_OK; i++) {
        const sql_value values[] = {{hash, 0}, {dead[i], 0}};
        status = pf__sql_run(s,
                             "UPDATE unit SET state = 0, owner = NULL WHERE hash = ? AND state = 1"
                             " AND coalesce(owner, '') = ?",
                             2, values, error);
    }
    return pf__sql_end(s, status, error);
}

// One statement in a transaction of its own.
static pf_status run_alone(pf_store *s, const char *sql, int n, const sql_value *values,
                           pf_error *error)
{
    pf_status status = pf__sql_begin(s, error);
    status = status ? status : pf__sql_run(s, sql, n, values, error);
    return pf__sql_end(s, status, error);
}

pf_status pf__store_retry(pf_store *s, const char *hash, pf_error *error)
{
    return run_alone(s,
                     "UPDATE unit SET state = 0, owner = NULL, reason = NULL WHERE hash = ? AND"
                     " state = 3",
                     1, &(sql_value){hash, 0}, error);
}

static void read_unit(const sql_walk *w, pf_unit *unit)
{
    unit->id = sqlite3_column_int64(w->row, 0);
    snprintf(unit->environment, sizeof unit->environment, "%s", pf__sql_text(w, 1));
    snprintf(unit->setting, sizeof unit->setting, "%s", pf__sql_text(w, 2));
    unit->seed = sqlite3_column_int(w->row, 3);
    unit->trial = sqlite3_column_int(w->row, 4);
    unit->place = unit->cell = -1;
}

static bool same_trial(const pf_unit *a, const pf_unit *b)
{
    return a->seed == b->seed && a->trial == b->trial &&
           strcmp(a->environment, b->environment) == 0;
}

// Wanted units behind one, all of a trial.
static pf_status find_units(pf_store *s, const char *hash,
                            bool (*wanted)(const void *self, pf_unit *unit), const void *self,
                            int64_t after, pf_unit units[PF_STORE_CLAIM], int *n, pf_error *error)
{
    const sql_value values[] = {{hash, 0}, {NULL, after}};
    sql_walk w =
        pf__sql_ask(s,
                    "SELECT id, environment, setting, seed, trial FROM unit WHERE hash = ? AND"
                    " state = 0 AND id > ? ORDER BY id",
                    2, values, error);
    while (*n < PF_STORE_CLAIM && pf__sql_next(&w)) {
        read_unit(&w, &units[*n]);
        if (*n > 0 && !same_trial(&units[0], &units[*n])) {
            break;
        }
        *n += !wanted || wanted(self, &units[*n]);
    }
    return pf__sql_done(&w);
}

pf_status pf__store_claim(pf_store *s, const char *hash,
                          bool (*wanted)(const void *self, pf_unit *unit), const void *self,
                          int64_t *after, pf_unit units[PF_STORE_CLAIM], int *n, pf_error *error)
{
    int64_t from = after ? *after : 0;
    *n = 0;
    pf_status status = pf__sql_begin(s, error);
    status = status ? status : find_units(s, hash, wanted, self, from, units, n, error);
    if (status == PF_OK && *n == 0 && from > 0) {
        status = find_units(s, hash, wanted, self, 0, units, n, error);
    }
    for (int i = 0; i < *n && status == PF_OK; i++) {
        const sql_value values[] = {{s->owner, 0}, {NULL, units[i].id}};
        status =
            pf__sql_run(s, "UPDATE unit SET state = 1, owner = ? WHERE id = ?", 2, values, error);
    }
    if (after) {
        *after = *n > 0 ? units[*n - 1].id : 0;
    }
    return pf__sql_end(s, status, error);
}

pf_status pf__store_unclaim(pf_store *s, const pf_unit *unit, pf_error *error)
{
    const sql_value values[] = {{NULL, unit->id}, {s->owner, 0}};
    return run_alone(s,
                     "UPDATE unit SET state = 0, owner = NULL WHERE id = ? AND state = 1 AND"
                     " owner = ?",
                     2, values, error);
}

pf_status pf__store_unclaim_all(pf_store *s, const char *hash, pf_error *error)
{
    const sql_value values[] = {{hash, 0}, {s->owner, 0}};
    return run_alone(s,
                     "UPDATE unit SET state = 0, owner = NULL WHERE hash = ? AND state = 1 AND"
                     " owner = ?",
                     2, values, error);
}

void pf__sql_insert_results(pf_text *sql)
{
    pf__text_add(sql, "INSERT INTO result(unit, method");
    for (int i = 0; i < PF_METRIC_COUNT; i++) {
        pf__text_addf(sql, ", %s", pf__metric_name(i));
    }
    pf__text_add(sql, ") VALUES(?, ?");
    for (int i = 0; i < PF_METRIC_COUNT; i++) {
        pf__text_add(sql, ", ?");
    }
    pf__text_add(sql, ")");
}

static pf_status prepare_insert(pf_store *s, pf_error *error)
{
    pf_text sql = {0};
    if (s->add_result) {
        return PF_OK;
    }
    pf__sql_insert_results(&sql);
    pf_status status = sql.failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory")
                                  : pf__sql_query(s, sql.data, 0, NULL, &s->add_result, error);
    pf__text_free(&sql);
    return status;
}

static pf_status insert_results(pf_store *s, const pf_unit *unit, int n_methods,
                                const char *const *methods, const pf_trial_result *results,
                                pf_error *error)
{
    pf_status status = prepare_insert(s, error);
    sqlite3_stmt *statement = s->add_result;
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
            sqlite3_step(statement) == SQLITE_DONE ? PF_OK : pf__sql_refuse(s, "results", error);
        sqlite3_reset(statement);
    }
    if (statement) {
        sqlite3_clear_bindings(statement);
    }
    return status;
}

// Notes where a trial ran: s->machine.
static pf_status note_machine(pf_store *s, const char *name, pf_error *error)
{
    if (s->machine != 0 && strcmp(s->machine_name, name) == 0) {
        return PF_OK;
    }
    const sql_value value = {name, 0};
    pf_status status =
        pf__sql_run(s, "INSERT OR IGNORE INTO machine(name) VALUES(?)", 1, &value, error);
    if (status == PF_OK) {
        sql_walk w = pf__sql_ask(s, "SELECT id FROM machine WHERE name = ?", 1, &value, error);
        s->machine = pf__sql_next(&w) ? sqlite3_column_int64(w.row, 0) : 0;
        status = pf__sql_done(&w);
    }
    snprintf(s->machine_name, sizeof s->machine_name, "%s", name);
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

pf_status pf__store_finish(pf_store *s, const pf_unit *unit, const char *machine, int n_methods,
                           const char *const *methods, const pf_trial_result *results,
                           pf_error *error)
{
    pf_status status = pf__sql_begin(s, error);
    status = status ? status : note_machine(s, machine, error);
    const sql_value values[] = {{NULL, s->machine}, {NULL, unit->id}, {s->owner, 0}};
    status = status ? status
                    : pf__sql_run(s,
                                  "UPDATE unit SET state = 2, owner = NULL, reason = NULL, machine"
                                  " = ? WHERE id = ? AND state = 1 AND owner = ?",
                                  3, values, error);
    status = status ? status : check_ended(s, unit, error);
    status = status ? status : still_bound(s, unit, error);
    status = status ? status : insert_results(s, unit, n_methods, methods, results, error);
    s->machine = status == PF_OK ? s->machine : 0; // what was noted goes with the rest
    return pf__sql_end(s, status, error);
}

pf_status pf__store_fail(pf_store *s, const pf_unit *unit, const char *reason, pf_error *error)
{
    const sql_value values[] = {{reason, 0}, {NULL, unit->id}, {s->owner, 0}};
    pf_status status = pf__sql_begin(s, error);
    status =
        status ? status
               : pf__sql_run(
                     s,
                     "UPDATE unit SET state = 3, owner = NULL, reason = ? WHERE id = ? AND state ="
                     " 1 AND owner = ?",
                     3, values, error);
    status = status ? status : check_ended(s, unit, error);
    return pf__sql_end(s, status, error);
}

pf_status pf__store_count(pf_store *s, const char *hash, pf_store_counts *counts, pf_error *error)
{
    memset(counts, 0, sizeof *counts);
    sql_walk w = pf__sql_ask(s, "SELECT state, count(*) FROM unit WHERE hash = ? GROUP BY state", 1,
                             &(sql_value){hash, 0}, error);
    while (pf__sql_next(&w)) {
        int64_t n = sqlite3_column_int64(w.row, 1);
        int state = sqlite3_column_int(w.row, 0);
        counts->total += n;
        counts->done += state == PF_UNIT_DONE ? n : 0;
        counts->failed += state == PF_UNIT_FAILED ? n : 0;
        counts->running += state == PF_UNIT_RUNNING ? n : 0;
    }
    return pf__sql_done(&w);
}

pf_status pf__store_running(pf_store *s, const char *hash, int64_t *n, pf_error *error)
{
    *n = 0;
    sql_walk w = pf__sql_ask(s,
                             "SELECT coalesce(owner, ''), count(*) FROM unit WHERE hash = ? AND"
                             " state = 1 GROUP BY owner",
                             1, &(sql_value){hash, 0}, error);
    while (pf__sql_next(&w)) {
        *n += owner_alive(pf__sql_text(&w, 0)) ? sqlite3_column_int64(w.row, 1) : 0;
    }
    return pf__sql_done(&w);
}

static pf_status walk_units(pf_store *s, const char *hash, int state,
                            void (*each)(void *self, const pf_unit *unit, const char *reason),
                            void *self, pf_error *error)
{
    const sql_value values[] = {{hash, 0}, {NULL, state}};
    sql_walk w = pf__sql_ask(s,
                             "SELECT id, environment, setting, seed, trial, reason FROM unit"
                             " WHERE hash = ? AND state = ? ORDER BY id",
                             2, values, error);
    while (pf__sql_next(&w)) {
        pf_unit unit;
        read_unit(&w, &unit);
        each(self, &unit, pf__sql_text(&w, 5));
    }
    return pf__sql_done(&w);
}

pf_status pf__store_failures(pf_store *s, const char *hash,
                             void (*each)(void *self, const pf_unit *unit, const char *reason),
                             void *self, pf_error *error)
{
    return walk_units(s, hash, PF_UNIT_FAILED, each, self, error);
}

pf_status pf__store_done(pf_store *s, const char *hash,
                         void (*each)(void *self, const pf_unit *unit, const char *reason),
                         void *self, pf_error *error)
{
    return walk_units(s, hash, PF_UNIT_DONE, each, self, error);
}

pf_status pf__store_rows(pf_store *s, const char *hash, pf_row_fn each, void *self, pf_error *error)
{
    pf_text sql = {0};
    pf__text_add(&sql, "SELECT u.id, u.environment, u.setting, u.seed, u.trial, r.method");
    for (int i = 0; i < PF_METRIC_COUNT; i++) {
        // a store that nobody wrote to since lacks the newest metrics
        pf__text_addf(&sql, s->has[i] ? ", r.%s" : ", NULL", pf__metric_name(i));
    }
    pf__text_add(&sql,
                 " FROM result r JOIN unit u ON u.id = r.unit WHERE u.hash = ? AND u.state = 2"
                 " ORDER BY u.environment, u.setting, r.method, u.seed, u.trial");
    sql_walk w = {.status = PF_ERR_MEMORY};
    if (sql.failed) {
        pf_fail(error, PF_ERR_MEMORY, "out of memory");
    } else {
        w = pf__sql_ask(s, sql.data, 1, &(sql_value){hash, 0}, error);
    }
    while (pf__sql_next(&w)) {
        pf_unit unit;
        pf_trial_result result;
        read_unit(&w, &unit);
        for (int i = 0; i < PF_METRIC_COUNT; i++) {
            bool none = sqlite3_column_type(w.row, 6 + i) == SQLITE_NULL;
            result.value[i] = none ? NAN : sqlite3_column_double(w.row, 6 + i);
        }
        w.status = each(self, &unit, pf__sql_text(&w, 5), &result, error);
    }
    pf__text_free(&sql);
    return pf__sql_done(&w);
}

// --- experiments

pf_status pf__store_configs(pf_store *s, const char *suite, const char *profile, int most,
                            char (*hashes)[65], int *n, pf_error *error)
{
    const sql_value values[] = {{suite, 0}, {profile, 0}};
    *n = 0;
    sql_walk w =
        pf__sql_ask(s,
                    s->has_last_run ? "SELECT hash FROM experiment WHERE suite = ? AND profile = ?"
                                      " ORDER BY coalesce(last_run, 0) DESC, ordinal DESC"
                                    : "SELECT hash FROM experiment WHERE suite = ? AND profile = ?"
                                      " ORDER BY ordinal DESC",
                    2, values, error);
    for (; pf__sql_next(&w); (*n)++) {
        if (*n < most) {
            snprintf(hashes[*n], 65, "%s", pf__sql_text(&w, 0));
        }
    }
    return pf__sql_done(&w);
}

pf_status pf__store_profile(pf_store *s, const char *suite, const char *hash, char profile[32],
                            pf_error *error)
{
    char sql[200];
    const sql_value values[] = {{suite ? suite : "", 0}, {hash ? hash : "", 0}};
    snprintf(sql, sizeof sql,
             "SELECT profile FROM experiment WHERE (? = '' OR suite = ?1) AND (? = '' OR hash = ?2)"
             " ORDER BY %sordinal DESC LIMIT 1",
             s->has_last_run ? "coalesce(last_run, 0) DESC, " : "");
    sql_walk w = pf__sql_ask(s, sql, 2, values, error);
    snprintf(profile, 32, "%s", pf__sql_next(&w) ? pf__sql_text(&w, 0) : "");
    return pf__sql_done(&w);
}

pf_status pf__store_settings(pf_store *s, const char *hash, pf_text *out, pf_error *error)
{
    sql_walk w = pf__sql_ask(s, "SELECT settings FROM experiment WHERE hash = ?", 1,
                             &(sql_value){hash, 0}, error);
    pf__text_add(out, pf__sql_next(&w) ? pf__sql_text(&w, 0) : "");
    return pf__sql_done(&w);
}

static void add_difference(pf_text *out, const char *key, const char *value)
{
    enum { SHOWN = 60 };
    if (!value && (strcmp(key, "processor") == 0 || strcmp(key, "certificate") == 0 ||
                   strcmp(key, "reference") == 0)) {
        return; // goes with a learned predictor
    }
    if (!value && strcmp(key, "predictor") == 0) {
        value = "twin";
    }
    bool cut = value && strlen(value) > SHOWN;
    pf__text_addf(out, "%s%s=%.*s%s", out->size > 0 ? ", " : "", key, SHOWN, value ? value : "none",
                  cut ? "..." : "");
}

pf_status pf__store_differences(pf_store *s, const char *hash, const char *settings, pf_text *out,
                                pf_error *error)
{
    static const char sql[] =
        "WITH a AS (SELECT key, value FROM json_each((SELECT settings FROM experiment WHERE"
        " hash = ?1))), b AS (SELECT key, value FROM json_each(?2))"
        " SELECT key, value FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.key = a.key AND"
        " b.value IS a.value) AND (key <> 'fingerprints' OR key IN (SELECT key FROM b))"
        " UNION ALL SELECT key, NULL FROM b WHERE key NOT IN (SELECT key FROM a)";
    pf_text found = {0};
    const sql_value values[] = {{hash, 0}, {settings, 0}};
    sql_walk w = pf__sql_ask(s, sql, 2, values, error);
    while (pf__sql_next(&w)) {
        add_difference(&found, pf__sql_text(&w, 0), pf__sql_text(&w, 1));
    }
    pf__text_join(out, &found);
    pf__text_free(&found);
    return pf__sql_done(&w);
}

pf_status pf__store_number(pf_store *s, const char *hash, const char *key, double *value,
                           pf_error *error)
{
    const sql_value values[] = {{hash, 0}, {key, 0}};
    sql_walk w =
        pf__sql_ask(s, "SELECT json_extract(settings, '$.' || ?2) FROM experiment WHERE hash = ?1",
                    2, values, error);
    if (pf__sql_next(&w) && sqlite3_column_type(w.row, 0) != SQLITE_NULL) {
        *value = sqlite3_column_double(w.row, 0);
    }
    return pf__sql_done(&w);
}
