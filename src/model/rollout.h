// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_ROLLOUT_H
#define PF_ROLLOUT_H

#include "preflight/model.h"

// One request: what members expect of one command sequence from one start under many hypotheses.
// Its shape alone decides the shape of the matrix products, so a request gives the same bits
// whatever else is asked, in any thread, on one numeric library and CPU type.
typedef struct pf_model_request {
    const double *start;   // history x n_chan: the channels before the first command, oldest first
    const double *command; // steps x n_mech, before limits
    int steps;
    int n_hypotheses;
    const double *gains; // n_hypotheses x n_mech
    // (history - 1) x n_mech: what was delivered between the readings of the start. Nullable: rest.
    const double *before;
} pf_model_request;

// Whether the model speaks of this plant: the same name, source, channels and mechanisms.
pf_status pf__model_fits(const pf_model *model, const pf_plant_info *info, pf_error *error);

// Doubles that a request of this size works in.
size_t pf__model_scratch(const pf_model *model, int n_hypotheses);

// Writes n_hypotheses x steps x n_chan for one member. A prediction that leaves the finite numbers
// is PF_ERR_NONFINITE; more steps than the window of a trajectory model are PF_ERR_UNSUPPORTED.
pf_status pf__model_roll(const pf_model *model, int member, const pf_model_request *request,
                         double *scratch, double *response, pf_error *error);

// The mean over all members; scratch as above plus n_hypotheses x steps x n_chan.
pf_status pf__model_mean(const pf_model *model, const pf_model_request *request, double *scratch,
                         double *response, pf_error *error);

// What computes matrix products here: "avx512 1" (our own kernel), "openblas 0.3.21 Haswell", or
// "plain" without either.
const char *pf__numeric_library(void);

// Where this process computes: the kind of processor and the numeric library. Equal names give
// equal bits.
enum { PF_MACHINE_NAME = 256 };
void pf__machine_name(char name[PF_MACHINE_NAME]);

#endif
