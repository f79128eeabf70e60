// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_CLI_BENCH_H
#define PF_CLI_BENCH_H

#include "cli.h"
#include "bench/store.h"
#include "bench/suite.h"

// What the subcommands of bench share.

enum { BENCH_PATH = 4096 };

// Options that every subcommand has; zero-initialise, add with bench_options.
typedef struct bench_call {
    const char *command; // "bench run", for messages
    const char *profile_name, *db, *data, *config, *models;
    cli_list set;
    const pf_profile *profile;
    char folder[BENCH_PATH]; // that holds suites/ and data/
} bench_call;

enum { BENCH_OPTIONS = 6 };
// --profile, --db, --data, --config, --set, --models into options[0..5].
void bench_options(bench_call *call, cli_option *options);
// Resolves profile, database and folder after cli_parse. False: printed, *status is the exit
// status.
bool bench_resolve(bench_call *call, int *status);

// A suite, and the one whose units it shows (the same one unless it says `from`).
typedef struct bench_suite {
    pf_suite shown, other;
    const pf_suite *run;
} bench_suite;

// By name in suites/ or by path (with a slash or ending in .yaml); --set acts on the one that is
// run.
pf_status bench_suite_open(const bench_call *call, const char *name, bench_suite *suite,
                           pf_error *error);
void bench_suite_close(bench_suite *suite);

// The hash of the configuration meant: --config, else that of --set, else the one run last, with
// the others named on stderr; empty if there is none. own: the hash of the suite as called, needed
// with --set only.
pf_status bench_find_config(const bench_call *call, const pf_suite *suite, const char *own,
                            pf_store *store, char hash[65], pf_error *error);

// Names of the suites in the folder, sorted; free each and the list.
pf_status bench_names(const bench_call *call, char ***names, int *n, pf_error *error);
void bench_names_free(char **names, int n);

// `bench list` and `list suites`.
int bench_list(const bench_call *call, bool json);

#endif
