// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "store_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
    int flags =
        mode == PF_STORE_WRITE ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
    if (sqlite3_open_v2(path, &s->db, flags | SQLITE_OPEN_FULLMUTEX, NULL) != SQLITE_OK) {
        status =
            mode == PF_STORE_READ && access(path, F_OK) != 0
                ? pf_fail(error, PF_ERR_FILE,
                          "%s: there is no such database; `preflight bench run` makes it", path)
                : pf__store_fail(s, "cannot open", error);
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
