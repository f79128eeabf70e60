// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_WORKER_H
#define PF_WORKER_H

#include "experiment.h"
#include "preflight/base.h"

// Runs an experiment into a store. Any number of threads and processes may work on one store, may
// be killed at any moment, and leave the same rows.

typedef struct pf_run_report {
    size_t kits, kits_made; // kits needed, and calibrated now rather than taken from the store
    size_t done, failed;    // trials of this call
    long rolls;             // trajectories simulated for the trials
} pf_run_report;

// All units that are selected. A failing trial is noted and the run goes on; a failing store ends
// it. With effort->stop the trials in progress are finished, then PF_ERR_INTERRUPTED.
pf_status pf__experiment_run(const pf_experiment *experiment, pf_store *store,
                             const pf_effort *effort, pf_run_report *report, pf_error *error);

typedef struct pf_verify_report {
    size_t available, checked;
    size_t different;     // units with a difference
    char difference[320]; // the first one, in words; empty if there is none
} pf_verify_report;

// Recomputes a sample of the stored units, the same for the same hash and size, and compares every
// value to the last bit. Kits are calibrated anew, never taken from the store; nothing is written.
pf_status pf__experiment_verify(const pf_experiment *experiment, pf_store *store, size_t sample,
                                const pf_effort *effort, pf_verify_report *report, pf_error *error);

#endif
