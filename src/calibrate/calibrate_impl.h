// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_CALIBRATE_IMPL_H
#define PF_CALIBRATE_IMPL_H

#include "core/evidence.h"
#include "host/parallel.h"
#include "run/ensemble.h"
#include "kit_build.h"
#include "run/drive.h"

// The steps of a calibration on a plant, in order. Each worker thread has a plant (the first one
// the caller's) and buffers of its own; every result goes to its own slot.
typedef struct pf_worker {
    pf_plant *plant;
    pf_twin twin;          // without a model
    pf_ensemble *ensemble; // with a model
    pf_predictor predictor;
    double *start;      // n_state or n_chan, whichever is more
    double *response;   // longest probe or task x n_chan
    double *nominal;    // the same
    double *predicted;  // the same
    double *signatures; // most targets x window
    double *scratch;    // pf_match_scratch
    double *gains;      // n_mech
    double *still;      // longest probe or task x n_mech: no command at all
    pf_match *matches;
    double *table;         // with a model: shares x longest task x n_chan
    double *table_gains;   // shares x n_mech
    double *table_scratch; // pf_model_scratch
    void *session_memory;
    size_t session_bytes;
} pf_worker;

typedef struct pf_calibration {
    const pf_plan *plan;
    const pf_model *model; // Nullable: a twin predicts
    const pf_effort *effort;
    pf_kit_build build;
    pf_arena arena;
    int n_workers;
    pf_worker *workers;
} pf_calibration;

// The kind of kit that the plan and the model ask for.
pf_kit_kind pf__calibration_kind(const pf_calibration *c, const pf_plant_info *info,
                                 pf_statistic statistic);

// Whether residuals are divided by the predictor's own nominal residual.
bool pf__calibration_residual(const pf_calibration *c);

// Lays out the kit and makes the workers; free follows whatever it returned.
pf_status pf__calibration_open(pf_calibration *c, pf_plant *plant, const pf_kit_kind *kind,
                               pf_error *error);
// The same after the contract was checked.
pf_status pf__calibration_start(pf_calibration *c, pf_plant *plant, const pf_kit_kind *kind,
                                pf_error *error);
void pf__calibration_free(pf_calibration *c);

// What a response in the worker's memory says about the targets of a probe. The residual takes the
// place of the response.
pf__evidence pf__worker_evidence(const pf_calibration *c, int worker, int probe);

// Channel scales: the pulse scale, and where it is asked for the residual scale.
pf_status pf__calibrate_scales(pf_calibration *c, pf_error *error);

// The whitening factor of every probe, where inner products are weighted.
pf_status pf__calibrate_weighting(pf_calibration *c, pf_error *error);

// Episodes, bins, rows, centres, dispersions, full rows.
pf_status pf__calibrate_channels(pf_calibration *c, pf_error *error);

// The table of normalised tracking errors over delivered shares.
pf_status pf__calibrate_returns(pf_calibration *c, pf_error *error);

// How large a correction the limits let a closed loop deliver; task_of: the task of each use.
pf_status pf__calibrate_reach(pf_calibration *c, const int *task_of, pf_error *error);

// The alarm threshold over nominal trials run with the method's own acquisition.
pf_status pf__calibrate_alarm(pf_calibration *c, pf_error *error);

#endif
