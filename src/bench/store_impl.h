// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_STORE_IMPL_H
#define PF_STORE_IMPL_H

#include "store.h"

#include <pthread.h>
#include <sqlite3.h>
#include <sys/types.h>

// The model that this process makes the trials of an experiment's environment with.
typedef struct pf_tie {
    char key[96]; // hash|environment
    char model[65];
} pf_tie;

struct pf_store {
    sqlite3 *db;
    char *path;
    char owner[64];
    pthread_mutex_t lock;      // of transactions: one at a time within the process; most readers
                               // go without, SQLite orders their statements
    bool has[PF_METRIC_COUNT]; // metrics that its table of results has
    bool has_last_run;         // and whether its experiments say which was run last
    int n_ties;
    pf_tie *tie;
};

// Whose claim it is: a process and when it started, so that a reused number is not mistaken.
void pf__owner_of(pid_t pid, char out[64]);
bool pf__owner_alive(const char *owner);

pf_status pf__store_fail(pf_store *s, const char *what, pf_error *error);
pf_status pf__store_run(pf_store *s, const char *sql, pf_error *error);
pf_status pf__store_prepare(pf_store *s, const char *sql, sqlite3_stmt **statement,
                            pf_error *error);

// A value of a statement: text, or where that is NULL a number.
typedef struct pf_bound {
    const char *text;
    int64_t number;
} pf_bound;
void pf__store_bind(sqlite3_stmt *statement, int n, const pf_bound *values);
// The next row of a walk: *more is false at its end; anything else that is no row is an error.
pf_status pf__store_next(pf_store *s, sqlite3_stmt *statement, bool *more, pf_error *error);

// A transaction, for which the process is locked; its end commits if all went well, else rolls
// back.
pf_status pf__store_begin(pf_store *s, pf_error *error);
pf_status pf__store_end(pf_store *s, pf_status status, pf_error *error);

// Refuses a unit whose environment another process has tied to another model since.
pf_status pf__store_still_bound(pf_store *s, const pf_unit *unit, pf_error *error);

// sqlite3_exec that also waits where SQLite does not do so by itself: while another process turns a
// new file to write-ahead logging. Returns SQLite's code.
int pf__store_wait(pf_store *s, const char *sql, int (*each)(void *, int, char **, char **),
                   void *self);

// Tables and view, as far as they are missing; columns that came later are added.
pf_status pf__store_create(pf_store *s, pf_error *error);
// Notes which of the later columns the store has.
void pf__store_columns(pf_store *s);

#endif
