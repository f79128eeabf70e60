// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_RUNNER_IMPL_H
#define PF_RUNNER_IMPL_H

#include "kits.h"
#include "runner.h"

// The kits of one (environment, seed, calibration).
typedef struct pf_shelf {
    int environment, seed;
    const pf_cell *cell; // one that needs them
    bool needed, made;
    pf_trial_kits kits;
    pf_status status; // of the calibration; trials on a failed one fail with its reason
    pf_error error;
} pf_shelf;

typedef struct pf_shelves {
    const pf_experiment *experiment;
    pf_store *store;
    bool keep; // take kits from the store, and write what was calibrated to it
    size_t n, n_needed;
    pf_shelf *shelf;
    size_t *needed; // indices of the needed ones
} pf_shelves;

pf_status pf__shelves_init(pf_shelves *shelves, const pf_experiment *experiment, pf_store *store,
                           pf_error *error);
void pf__shelves_free(pf_shelves *shelves);
// The shelf of a unit.
pf_shelf *pf__shelves_find(const pf_shelves *shelves, const pf_unit *unit);
// Loads (where they are kept) or calibrates all that are marked needed.
pf_status pf__shelves_fill(pf_shelves *shelves, const pf_effort *effort, pf_error *error);

// What one worker has on its desk: a plant, and the responses and session of the current kits.
typedef struct pf_desk {
    const pf_experiment *experiment;
    int environment; // of the plant, -1: none yet
    pf_plant *plant;
    const pf_shelf *shelf; // of the bank
    pf_bank bank[2]; // of the paper's library and of the group probes, as far as they are needed
    void *memory;    // of a session
    size_t bytes;
    pf_trial_result *results; // by method
    long rolls;
} pf_desk;

pf_status pf__desk_init(pf_desk *desk, const pf_experiment *experiment, pf_error *error);
void pf__desk_free(pf_desk *desk);
// All methods on one unit into desk->results.
pf_status pf__desk_run(pf_desk *desk, const pf_shelf *shelf, const pf_unit *unit, pf_error *error);

#endif
