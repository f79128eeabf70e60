// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_GIVEN_H
#define PF_GIVEN_H

#include "preflight/session.h"

// Predictions that came with a response, in the place of a predictor: of one probe, whose window is
// rows x channels. The memory is the caller's and holds what the stage of the session needs.
typedef struct pf_given {
    const pf_session *session;
    double *nominal; // window
    double *fault;   // targets x window: at g_cal, in stage 2 with several faults at gain 1
    double *grid;    // targets x gains x window
} pf_given;

// given must outlive it.
pf_predictor pf_given_predictor(pf_given *given);

#endif
