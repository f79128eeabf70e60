// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_STORE_IMPL_H
#define PF_STORE_IMPL_H

#include "store.h"

#include <pthread.h>
#include <sqlite3.h>

// The inside of a store, for store.c and store_merge.c.

// The model that this process makes the trials of an experiment's environment with.
typedef struct tie {
    char key[96]; // hash|environment
    char model[65];
} tie;

struct pf_store {
    sqlite3 *db;
    char *path;
    char owner[64];
    pthread_mutex_t lock;      // of transactions: one at a time within the process; most readers
                               // go without, SQLite orders their statements
    bool gathers;              // transactions become parts of one, see pf__store_gather
    bool open;                 // that one has begun,
    double since;              // then
    bool has[PF_METRIC_COUNT]; // metrics that its table of results has
    bool has_last_run;         // and whether its experiments say which was run last
    bool has_machine;          // and its units where they ran
    int64_t machine;           // noted last, 0: none yet
    char machine_name[256];    // its name
    sqlite3_stmt *add_result;  // kept, since preparing it takes longer than running it
    int n_ties;
    tie *tie;
};

enum { PF_UNIT_RUNNING = 1, PF_UNIT_DONE = 2, PF_UNIT_FAILED = 3 }; // of a unit; 0: pending

// A value of a statement: text, or where that is NULL a number.
typedef struct sql_value {
    const char *text;
    int64_t number;
} sql_value;

// Why a statement failed, from SQLite.
pf_status pf__sql_refuse(pf_store *store, const char *what, pf_error *error);

// A statement with its values, to step through; finalize it in any case.
pf_status pf__sql_query(pf_store *store, const char *sql, int n, const sql_value *values,
                        sqlite3_stmt **statement, pf_error *error);
void pf__sql_bind(sqlite3_stmt *statement, int n, const sql_value *values);
pf_status pf__sql_run(pf_store *store, const char *sql, int n, const sql_value *values,
                      pf_error *error);

// A walk over the rows of a query.
typedef struct sql_walk {
    pf_store *store;
    sqlite3_stmt *row;
    pf_status status;
    pf_error *error;
} sql_walk;

sql_walk pf__sql_ask(pf_store *store, const char *sql, int n, const sql_value *values,
                     pf_error *error);
// Steps to the next row. False at the end, and where the status is or becomes an error.
bool pf__sql_next(sql_walk *walk);
const char *pf__sql_text(const sql_walk *walk, int column);
pf_status pf__sql_done(sql_walk *walk);

// A transaction, for which the process is locked; its end, which follows whatever begin returned,
// commits if all went well, else rolls back.
pf_status pf__sql_begin(pf_store *store, pf_error *error);
pf_status pf__sql_end(pf_store *store, pf_status status, pf_error *error);

// Blobs, without a transaction of their own.
pf_status pf__blob_get(pf_store *store, pf_blob kind, const char *key, void **bytes, size_t *n,
                       pf_error *error);
pf_status pf__blob_put(pf_store *store, pf_blob kind, const char *key, const void *bytes, size_t n,
                       pf_error *error);

// The statement that adds a row of results: unit, method, every metric.
void pf__sql_insert_results(pf_text *sql);

#endif
