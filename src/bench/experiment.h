// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_EXPERIMENT_H
#define PF_EXPERIMENT_H

#include "preflight/base.h"
#include "host/ranks.h"
#include "preflight/model.h"
#include "kits.h"
#include "store.h"
#include "suite.h"
#include "verdict.h"

// A suite at a profile, everything resolved: what is run, under which hash, in which order.

enum { PF_SETTING_TEXT = 96, PF_HASH_TEXT = 17 };

// One point of the axes.
typedef struct pf_cell {
    double gain;                // NaN: drawn for every fault
    int n_faults;               // at once, 0: one of that gain
    int opportunities;          // after the change, 0: by the paper's law
    pf_settings settings;       // the suite's with this point in them
    double amplitude;           // of the probes, NaN: the plant's
    int risk;                   // pf_risk
    int shock;                  // tasks under a demand shock
    int64_t first;              // of its trials among those of an environment and seed
    int together;               // from one of its trials to the next
    int calibration;            // cells with the same one share their kits
    char text[PF_SETTING_TEXT]; // "B2=1;g=0.20", A, F, K, N, P and profile where they vary
} pf_cell;

typedef struct pf_experiment {
    const pf_suite *suite; // not owned
    const pf_profile *profile;
    int seeds, trials, alarm_trials;
    int responses;          // of a study, per gain; 0: a readiness suite
    pf_catalogue catalogue; // of a verdict suite, else empty
    bool coordinate;        // it is a coordinate study, which has kits and cells like any suite
    int n_methods;          // the suite's, or the arms of a mechanism study
    const char *const *methods;
    int n_episodes;
    double *episodes; // of the profile, or the suite's axis
    int n_cells;
    pf_cell *cells;
    int n_calibrations;
    int *calibration_cell; // one cell of each
    pf_model **models;     // by environment, of an ensemble suite once pf__experiment_learn was run
    size_t n_units;
    pf_unit *units;          // by environment, seed, cell, trial
    char (*fingerprint)[65]; // of each environment's plant
    char **library;          // of each environment: text of the file of group probes. NULL: none
    pf_error *missing;       // by environment: why its backend is not here; PF_OK: it is
    bool *wanted;            // environments, seeds, cells: of pf__experiment_select. NULL: all
    int shard, shards;       // of pf__experiment_shard: 0 to shards - 1. shards 0: all
    char *settings;          // canonical JSON of all that a result depends on
    char hash[PF_HASH_TEXT]; // of the settings
    pf_arena arena;          // of all that but the models and the settings
} pf_experiment;

// The suite must outlive it and run units of its own (no `from`).
pf_status pf__experiment_init(pf_experiment *experiment, const pf_suite *suite,
                              const pf_profile *profile, pf_error *error);
// The same in two steps: what would be run, with no plant started; then fingerprints and hash.
pf_status pf__experiment_outline(pf_experiment *experiment, const pf_suite *suite,
                                 const pf_profile *profile, pf_error *error);
pf_status pf__experiment_complete(pf_experiment *experiment, pf_error *error);
// An outline with settings, but without the plants' fingerprints in them and without a hash.
pf_status pf__experiment_describe(pf_experiment *experiment, const pf_suite *suite,
                                  const pf_profile *profile, pf_error *error);
void pf__experiment_free(pf_experiment *experiment);

// The cell of a setting; NULL if it has none such.
const pf_cell *pf__experiment_cell(const pf_experiment *experiment, const char *setting);
// Notes the place and cell of a unit by its names. Its index in `units`, -1 if it is none of them.
int64_t pf__experiment_find(const pf_experiment *experiment, pf_unit *unit);

// What the group methods have in an environment.
pf_group_settings pf__experiment_group(const pf_experiment *experiment, int environment);

// Why the plant of an environment cannot be had here; NULL: it can.
const char *pf__experiment_missing(const pf_experiment *experiment, int place);

// What a cell sets for a trial.
pf_trial_setup pf__experiment_setup(const pf_experiment *experiment, const pf_cell *cell);

// Selects a part of the units by clauses "key=a,b" with keys environment, seed, g, B2, F, K, N, P,
// A and profile; clauses of one key add up, different keys narrow. Unknown keys and values that
// select nothing are refused.
pf_status pf__experiment_select(pf_experiment *experiment, int n, const char *const *clauses,
                                pf_error *error);
// Selects part `shard` (from 0) of `shards`. All cells of a trial stay together, and as far as
// there are parts enough all trials of an environment and seed, which share kits.
pf_status pf__experiment_shard(pf_experiment *experiment, int shard, int shards, pf_error *error);
// Whether a part is selected rather than all.
bool pf__experiment_in_part(const pf_experiment *experiment);
// Whether a unit with its place and cell is selected and its environment is here.
bool pf__experiment_wants(const pf_experiment *experiment, const pf_unit *unit);
// Whether something of an environment is selected and it is not here.
bool pf__experiment_wants_missing(const pf_experiment *experiment, int place);
// Refuses where nothing is selected but environments whose backend is missing.
pf_status pf__experiment_runnable(const pf_experiment *experiment, pf_error *error);

// Whether a learned ensemble predicts. Then, before any trial, the models of the environments that
// are selected are loaded from a folder; those that are not there are trained
// with the profile's settings, or with `train` false left out.
bool pf__experiment_learned(const pf_experiment *experiment);
// Ties the trials of this experiment in a store to the models that it has loaded; others than those
// of earlier trials are refused, so that no table mixes two.
pf_status pf__experiment_bind(const pf_experiment *experiment, struct pf_store *store,
                              pf_error *error);
// Whether the models that made the trials in a store are loaded.
pf_status pf__experiment_bound(const pf_experiment *experiment, struct pf_store *store,
                               pf_error *error);
pf_status pf__experiment_learn(pf_experiment *experiment, const char *folder, bool train,
                               const pf_effort *effort, pf_error *error);

// The same in steps: room for the models, and with `train` their folder; whether the model of an
// environment is needed; that model.
pf_status pf__experiment_models(pf_experiment *experiment, const char *folder, bool train,
                                pf_error *error);
bool pf__experiment_learns(const pf_experiment *experiment, int environment);
pf_status pf__experiment_learn_one(pf_experiment *experiment, int environment, const char *folder,
                                   bool train, const pf_effort *effort, pf_error *error);
// The file of a model: a plant's name without what a path would read.
enum { PF_MODEL_PATH = 4096 };
pf_status pf__experiment_model_path(const pf_experiment *experiment, int environment,
                                    const char *folder, char *path, pf_error *error);

// Runs an experiment into a store. Any number of threads and processes may work on one store, may
// be killed at any moment, and leave the same rows.

typedef struct pf_run_report {
    size_t kits, kits_made; // kits needed, and calibrated now rather than taken from the store
    size_t done, failed;    // trials of this call
    long rolls;             // trajectories simulated for the trials
} pf_run_report;

// What runs it: threads of this process, or the ranks of an MPI job. Of these rank 0 has the store,
// the others compute.
typedef struct pf_run_place {
    pf_store *store;         // NULL: of a rank that computes
    pf_ranks *ranks;         // Nullable
    const char *models;      // with ranks: the folder that models are learned into
    const pf_effort *effort; // Nullable
} pf_run_place;

// Begins a run with all ranks of a job, which must have the same experiment.
pf_status pf__experiment_meet(const pf_experiment *experiment, pf_ranks *ranks, pf_error *error);

// All units that are selected. A failing trial is noted and the run goes on; a failing store ends
// it. With effort->stop the trials in progress are finished, then PF_ERR_INTERRUPTED. With ranks
// the models that are missing are learned too.
pf_status pf__experiment_run(pf_experiment *experiment, const pf_run_place *place,
                             pf_run_report *report, pf_error *error);

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
