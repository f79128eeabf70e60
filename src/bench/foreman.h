// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_BENCH_FOREMAN_H
#define PF_BENCH_FOREMAN_H

#include "jobs.h"

// Hands out the jobs of a run, what others wait for first: models, kits whose model is there,
// trials whose kits are there. Writes what comes of them to the store. Whoever calls it sees to it
// that one thread does at a time.
typedef struct pf_run_foreman pf_run_foreman;

// What can be known before there is work: *work false: there is none. Destroy follows whatever it
// returned.
pf_status pf__foreman_create(pf_run_foreman **foreman, pf_experiment *experiment,
                             const pf_run_place *place, pf_run_report *report, bool *work,
                             pf_error *error);
void pf__foreman_destroy(pf_run_foreman *foreman); // Nullable

pf_foreman pf__foreman_of(pf_run_foreman *foreman);

#endif
