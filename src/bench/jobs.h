// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_JOBS_H
#define PF_JOBS_H

#include "experiment.h"
#include "host/farm.h"

// The jobs of a run and what is said of them, between foreman.c, which hands them out and has the
// store, and worker.c, which does them. Both are structs as they lie in memory; what follows a said
// struct are bytes.

// What came of the kits of an environment, seed and calibration.
typedef struct pf_kits_made {
    pf_status status; // trials on failed ones fail with its reason
    bool anew;        // they were calibrated, not found
    double reveal;    // the threshold of the reading `reveal: mitigation`
    char why[sizeof((pf_error){0}).text];
} pf_kits_made;

typedef enum pf_job_kind {
    PF_JOB_MODEL, // is to be learned
    PF_JOB_KITS,  // are to be found in the store, or calibrated and kept there
    PF_JOB_TRIALS // units of one trial, of one environment and seed
} pf_job_kind;

typedef struct pf_job {
    pf_job_kind kind;
    int environment;               // of a model
    int64_t kits;                  // as pf__kits_of counts them
    int n;                         // of units
    double reveal[PF_STORE_CLAIM]; // by unit, of its kits
    pf_unit unit[PF_STORE_CLAIM];  // the last ones may be missing in bytes
} pf_job;

typedef enum pf_said_kind {
    PF_SAID_LEARNED,  // a model; its file follows
    PF_SAID_KITS,     // they are there, or failed
    PF_SAID_DONE,     // a unit; results follow, by method
    PF_SAID_FAILED,   // a unit
    PF_SAID_BACK,     // a unit was not done
    PF_SAID_GET,      // asks for bytes that the store keeps
    PF_SAID_PUT,      // bytes to be kept follow
    PF_SAID_GET_MODEL // asks for the file of a model
} pf_said_kind;

typedef struct pf_said {
    pf_said_kind kind;
    int environment;
    int64_t kits;
    pf_kits_made made;
    pf_unit unit;
    long rolls; // trajectories since it was last said
    pf_blob blob;
    char key[192];
    char why[sizeof((pf_error){0}).text];
} pf_said;

// Kits are counted by environment, seed and calibration.
static inline size_t pf__kits_of(const pf_experiment *e, const pf_unit *unit)
{
    size_t at = (size_t)unit->place * (size_t)e->seeds + (size_t)unit->seed;
    return at * (size_t)e->n_calibrations + (size_t)e->cells[unit->cell].calibration;
}

static inline size_t pf__kits_count(const pf_experiment *e)
{
    return (size_t)e->suite->environments.n * (size_t)e->seeds * (size_t)e->n_calibrations;
}

static inline int pf__kits_environment(const pf_experiment *e, size_t kits)
{
    return (int)(kits / (size_t)e->n_calibrations / (size_t)e->seeds);
}

// Whether units have kits: those of a mechanism study have none.
static inline bool pf__kits_needed(const pf_experiment *e)
{
    return e->responses == 0 || e->coordinate;
}

#endif
