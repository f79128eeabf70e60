// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_CLI_BENCH_H
#define PF_CLI_BENCH_H

#include "cli.h"

#include "bench/experiment.h"
#include "bench/own_method.h"
#include "bench/report.h"
#include "bench/store.h"
#include "bench/suite.h"

// What the subcommands of bench share.

enum { BENCH_PATH = 4096 };

// Options that every subcommand has, added with bench_options.
typedef struct bench_call {
    const char *command; // "bench run", for messages
    const char *profile_name, *db, *data, *config, *models;
    cli_list set;
    cli_trust trust;     // of the file of the suite
    bool quiet;          // says nothing of trials that are missing
    cli_list methods;    // python:FILE:CLASS, then the ids
    pf_own_methods *own; // of them
    const pf_profile *profile;
    bool twin;               // suites with a learned model have a simulator in its place
    bool exact;              // the configuration of --set, or without one the suite's own
    char folder[BENCH_PATH]; // that holds suites/ and data/
    cli_form form;           // of progress
} bench_call;

enum { BENCH_OPTIONS = 9 };

// --profile, --db, --data, --config, --set, --models, --twin, --trust and --allow-exec into
// options[0..8].
void bench_options(bench_call *call, cli_option *options);

// Fills in what the options left open. False: a message was printed, *status is the exit status.
bool bench_resolve(bench_call *call, int *status);

// What is read of a database without --profile: what was run last, of a suite or of all (NULL).
// Where that cannot be told it stays the profile that a run would have, and whoever reads the suite
// or the database says why.
void bench_take_last(bench_call *call, const char *suite);

// A suite, and the one whose units it shows (the same one unless it says `from`).
typedef struct bench_suite {
    pf_suite shown, other;
    const pf_suite *run;
} bench_suite;

pf_status bench_suite_open(const bench_call *call, const char *name, bench_suite *suite,
                           pf_error *error);
void bench_suite_close(bench_suite *suite);

// Names of all suites, sorted.
pf_status bench_names(const bench_call *call, char ***names, int *n, pf_error *error);
void bench_names_free(char **names, int n);

// The hash of the configuration meant: --config, else that of --set, else the one run last, with
// the others named on stderr; empty if there is none. own: the hash of the suite as called, needed
// with --set only.
pf_status bench_find_config(const bench_call *call, const pf_suite *suite, const char *own,
                            pf_store *store, char hash[65], pf_error *error);

// A suite opened, resolved at the profile, with its database.
typedef struct bench_session {
    bench_suite suite;
    pf_experiment experiment;
    pf_store *store;
} bench_session;

// The suite is checked before the database is touched.
pf_status bench_session_open(bench_session *session, const bench_call *call, pf_store_mode mode,
                             pf_error *error);
// The same without a database.
pf_status bench_session_resolve(bench_session *session, const bench_call *call, pf_error *error);
void bench_session_close(bench_session *session);

// The configuration meant; where the database has none, the suite's own.
pf_status bench_find_hash(const bench_call *call, bench_session *session, char hash[65],
                          pf_error *error);

// Models of a suite that predicts with learned ones: loaded, or trained where they are missing.
const char *bench_models(const bench_call *call); // their folder
pf_status bench_learn(const bench_call *call, pf_experiment *experiment, bool train,
                      const pf_effort *effort, pf_error *error);

// A suite's stored trials, aggregated, with the paper's numbers.
typedef struct bench_loaded {
    bench_suite suite;
    pf_store *store;
    pf_paper paper;
    pf_entries entries;
    pf_report report;
    pf_text settings; // other than the suite's
    pf_store_counts counts;
    double alpha, g_cal;
    char hash[65];
    bool not_run; // why it could not be loaded: there are no trials of this configuration
} bench_loaded;

// Unload follows whatever load returned.
pf_status bench_load(bench_loaded *loaded, const bench_call *call, const char *name,
                     pf_error *error);
void bench_unload(bench_loaded *loaded);

// Writes the suite's figure into a folder, under the name `file`.
pf_status bench_draw(const bench_loaded *loaded, const bench_call *call, const char *folder,
                     const char *file, pf_error *error);

// Recomputes a sample of a suite's stored trials.
pf_status bench_recompute(const bench_call *call, const char *name, size_t sample, int threads,
                          pf_verify_report *report, char hash[65], pf_error *error);

// The paper's numbers and claims beside ours as Markdown or CSV, and drawn if `picture` names a
// file (Nullable). produced: how many of the numbers we have; with none nothing is written.
pf_status bench_fidelity(const bench_call *call, bool csv, const char *picture, pf_text *out,
                         int *produced, pf_error *error);

// Subcommands, each in a file of its own but table and figure.
int bench_cmd_list(int argc, char **argv);
int bench_cmd_run(int argc, char **argv);
int bench_cmd_status(int argc, char **argv);
int bench_cmd_verify(int argc, char **argv);
int bench_cmd_table(int argc, char **argv);
int bench_cmd_figure(int argc, char **argv);
int bench_cmd_fidelity(int argc, char **argv);
int bench_cmd_report(int argc, char **argv);
int bench_cmd_merge(int argc, char **argv);

#endif
