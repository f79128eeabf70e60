// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PREFLIGHT_PREDICTOR_H
#define PREFLIGHT_PREDICTOR_H

#include "preflight/base.h"

#ifdef __cplusplus
extern "C" {
#endif

// One hypothesis about one run of a probe. Mechanism 0 with gain 1 is "nothing changed".
typedef struct pf_hypothesis {
    int probe;
    int mechanism;
    double gain;
    const double *others; // n_mech gains that hold for all other mechanisms. Nullable: 1
} pf_hypothesis;

// What the model expects. The core asks for one hypothesis at a time and knows nothing else of the
// model: a twin, a learned ensemble (its mean), recordings in the kit or the caller's own numbers.
typedef struct pf_predictor {
    void *self; // Not owned.
    // Writes the response (rows x n_chan, raw units) that the model expects from the saved start
    // state (n_start doubles, Nullable when n_start is 0).
    pf_status (*predict)(void *self, const pf_hypothesis *hypothesis, const double *start,
                         int n_start, double *response, pf_error *error);
} pf_predictor;

#ifdef __cplusplus
}
#endif
#endif
