// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _XOPEN_SOURCE 700
#include "store_impl.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

pf_status pf_store_check_name(const char *path, pf_error *error)
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
    if (pf__store_wait(s,
                       "SELECT (SELECT count(*) FROM sqlite_master) +"
                       " (SELECT application_id <> 0 FROM pragma_application_id)",
                       note_number, &n) != SQLITE_OK) {
        return pf__store_fail(s, "database", error);
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
            return pf__store_fail(s, "database", error);
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
    pf_text_add(&address, "file:");
    for (const char *p = path; *p; p++) {
        if (strchr("%?#", *p)) {
            pf_text_addf(&address, "%%%02X", (unsigned)(unsigned char)*p);
        } else {
            pf_text_add_n(&address, p, 1);
        }
    }
    pf_text_add(&address, "?immutable=1");
    int code =
        address.failed
            ? SQLITE_NOMEM
            : sqlite3_open_v2(address.data, &s->db,
                              SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_FULLMUTEX, NULL);
    pf_text_free(&address);
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
    return code == SQLITE_OK ? PF_OK : pf__store_fail(s, "cannot open", error);
}

pf_status pf_store_open(pf_store **store, const char *path, pf_store_mode mode, pf_error *error)
{
    *store = NULL;
    pf_status status = pf_store_check_name(path, error);
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
    pf__owner_of(getpid(), s->owner);
    if (mode == PF_STORE_READ) {
        status = open_to_read(s, error);
    } else if (sqlite3_open_v2(path, &s->db,
                               SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX,
                               NULL) != SQLITE_OK) {
        status = pf__store_fail(s, "cannot open", error);
    }
    if (status == PF_OK) {
        bool empty = false;
        sqlite3_busy_timeout(s->db, 30000);
        status = inspect(s, &empty, error);
        if (status == PF_OK && mode == PF_STORE_WRITE) {
            status = pf__store_create(s, error);
        } else if (status == PF_OK && empty) {
            status = pf_fail(error, PF_ERR_FILE,
                             "%s: there are no results in it; `preflight bench run` with this --db "
                             "makes them",
                             path);
        }
    }
    if (status == PF_OK) {
        pf__store_columns(s);
    }
    if (status != PF_OK) {
        pf_store_close(s);
        return status;
    }
    *store = s;
    return PF_OK;
}

void pf_store_close(pf_store *s)
{
    if (s) {
        sqlite3_close(s->db);
        pthread_mutex_destroy(&s->lock);
        free(s->tie);
        free(s->path);
        free(s);
    }
}

pf_status pf_store_limit(pf_store *s, int pages, pf_error *error)
{
    char sql[64];
    snprintf(sql, sizeof sql, "PRAGMA max_page_count=%d", pages);
    return pf__store_run(s, sql, error);
}
