// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_STORE_H
#define PF_STORE_H

#include "host/text.h"
#include "trial.h"

// Results in SQLite: units of work that any number of threads and processes may share, and one row
// per unit and method. A killed run loses at most the trials in progress; none counts twice.
typedef struct pf_store pf_store;

typedef enum pf_store_mode { PF_STORE_WRITE, PF_STORE_READ } pf_store_mode;

// A unit of work: one trial of one cell, all methods.
typedef struct pf_unit {
    int64_t id;
    char environment[64];
    char setting[96];
    int seed, trial;
    int place, cell; // of environment and setting in their experiment; -1: as read from a store
} pf_unit;

// Refuses names that SQLite takes for no file: empty, ":memory:", "file:...".
pf_status pf__store_check_name(const char *path, pf_error *error);
// Opens or creates; waits up to 30 s for other writers. Reading never creates, leaves nothing
// behind and needs no right to write. A database of something else is refused and stays as it is.
pf_status pf__store_open(pf_store **store, const char *path, pf_store_mode mode, pf_error *error);
void pf__store_close(pf_store *store); // Nullable.
// For tests: refuse to grow beyond so many pages.
pf_status pf__store_limit(pf_store *store, int pages, pf_error *error);

// Registers an experiment and its units; a second time it is only noted as the one run last.
pf_status pf__store_begin(pf_store *store, const char *hash, const char *suite, const char *profile,
                          const char *settings, const pf_unit *units, size_t n, pf_error *error);

// The profile that the suite (Nullable: any) was run last with, or that of a configuration
// (Nullable: hash);
// "" if there is none.
pf_status pf__store_profile(pf_store *store, const char *suite, const char *hash, char profile[32],
                            pf_error *error);

// Experiments of a suite and profile, the one run last first: the hashes of up to `most`, and how
// many there are.
pf_status pf__store_configs(pf_store *store, const char *suite, const char *profile, int most,
                            char (*hashes)[65], int *n, pf_error *error);
// The settings of an experiment as JSON; nothing is added if it is not there.
pf_status pf__store_settings(pf_store *store, const char *hash, pf_text *out, pf_error *error);
// What an experiment has set otherwise than those settings (JSON), as "alpha=0.2, gains=[0.5]";
// long values are cut. Fingerprints count only where the settings have them.
pf_status pf__store_differences(pf_store *store, const char *hash, const char *settings,
                                pf_text *out, pf_error *error);
// A number among the settings of an experiment; *value stays where it has none such.
pf_status pf__store_number(pf_store *store, const char *hash, const char *key, double *value,
                           pf_error *error);

// Gives back what dead processes had claimed.
pf_status pf__store_recover(pf_store *store, const char *hash, pf_error *error);

// With `gathers` the changes that follow each other quickly are written in one transaction, which
// takes a fraction of the time of one each: flush ends it, and so does a twentieth of a second.
// Until then a killed process loses them, and other processes wait.
pf_status pf__store_gather(pf_store *store, bool gathers, pf_error *error);
pf_status pf__store_flush(pf_store *store, pf_error *error);

// Makes failed units pending again.
pf_status pf__store_retry(pf_store *store, const char *hash, pf_error *error);

// Claims the next pending unit that `wanted` (Nullable; it may note where the unit belongs)
// accepts, and with it those right behind it that are the same trial in another setting: they share
// responses. It looks from the unit behind *after on (Nullable; 0: from the first), and then from
// the first, and notes the last one claimed there. *n is 0 when none is left.
enum { PF_STORE_CLAIM = 16 };
pf_status pf__store_claim(pf_store *store, const char *hash,
                          bool (*wanted)(const void *self, pf_unit *unit), const void *self,
                          int64_t *after, pf_unit units[PF_STORE_CLAIM], int *n, pf_error *error);
// Gives a claimed unit back (interrupted), or all that this process has claimed.
pf_status pf__store_unclaim(pf_store *store, const pf_unit *unit, pf_error *error);
pf_status pf__store_unclaim_all(pf_store *store, const char *hash, pf_error *error);

// Writes a unit's results and marks it done, in one transaction. machine: where it ran, as
// pf__machine_name says it.
pf_status pf__store_finish(pf_store *store, const pf_unit *unit, const char *machine, int n_methods,
                           const char *const *methods, const pf_trial_result *results,
                           pf_error *error);
// Marks a unit failed with a reason.
pf_status pf__store_fail(pf_store *store, const pf_unit *unit, const char *reason, pf_error *error);

typedef struct pf_store_counts {
    int64_t total, done, failed, running;
} pf_store_counts;
// `running` is what is claimed, by dead processes too until pf__store_recover.
pf_status pf__store_count(pf_store *store, const char *hash, pf_store_counts *counts,
                          pf_error *error);
// Units that living processes have claimed.
pf_status pf__store_running(pf_store *store, const char *hash, int64_t *n, pf_error *error);

// Calls back for every unit that is marked done, whether its rows are there or not.
pf_status pf__store_done(pf_store *store, const char *hash,
                         void (*each)(void *self, const pf_unit *unit, const char *reason),
                         void *self, pf_error *error);

// Calls back for every failed unit.
pf_status pf__store_failures(pf_store *store, const char *hash,
                             void (*each)(void *self, const pf_unit *unit, const char *reason),
                             void *self, pf_error *error);

// Calls back for every done (unit, method), ordered by environment, setting, method, seed, trial.
typedef pf_status (*pf_row_fn)(void *self, const pf_unit *unit, const char *method,
                               const pf_trial_result *result, pf_error *error);
pf_status pf__store_rows(pf_store *store, const char *hash, pf_row_fn each, void *self,
                         pf_error *error);

// Ties the trials of an experiment in an environment to a model, by its sha256. A tie to another
// one holds while a trial is done or a living process has claimed one; what was only tried and
// failed does not hold it. Who was tied before cannot finish a trial then. bound: the model that
// they are tied to now.
pf_status pf__store_bind(pf_store *store, const char *hash, const char *environment,
                         const char *model, char bound[65], pf_error *error);
// The model that they are tied to, empty: none.
pf_status pf__store_bound(pf_store *store, const char *hash, const char *environment,
                          char bound[65], pf_error *error);

// What is kept to save work, by kind: the numbers stand in databases. Kits have the number of their
// family.
typedef enum pf_blob {
    PF_BLOB_KIT_MATCHED = 0, // of methods on the matched statistic
    PF_BLOB_KIT_NORM = 1,    // of methods on the residual norm
    PF_BLOB_KIT_GROUP = 2,   // of group methods
    PF_BLOB_NOMINAL = 3,     // answers of nominal trials
    PF_BLOB_KIT_FIELD = 4,   // of one method, with the field's rules
    PF_BLOB_MODEL = 100      // which model made the trials of an environment
} pf_blob;

// *bytes (free with free()) is NULL where there is none.
pf_status pf__store_get(pf_store *store, pf_blob kind, const char *key, void **bytes, size_t *n,
                        pf_error *error);
pf_status pf__store_put(pf_store *store, pf_blob kind, const char *key, const void *bytes, size_t n,
                        pf_error *error);

// Takes over all trials of other stores, or nothing. An experiment that two have must have the same
// configuration and version. A trial that two have done must have come out the same: to the bit
// where both were made on the same kind of processor with the same numeric library, else to a
// relative PF_MERGE_TOLERANCE. What ran where is kept.
#define PF_MERGE_TOLERANCE 1e-9
typedef struct pf_merge_report {
    int64_t added;  // trials
    int64_t twice;  // that two had
    double largest; // relative difference among these
} pf_merge_report;
pf_status pf__store_merge(pf_store *store, int n, const char *const *paths, pf_merge_report *report,
                          pf_error *error);

#endif
