// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_TWIN_H
#define PF_TWIN_H

#include "preflight/kit.h"
#include "preflight/plant.h"
#include "preflight/predictor.h"

// The predictor that is a copy of the plant: one undisturbed rollout from the saved start.
typedef struct pf_twin {
    pf_plant *plant;   // not owned; may be mismatched through its knobs
    const pf_kit *kit; // whose probes are predicted
} pf_twin;

// A predictor on *twin, which must stay where it is.
pf_predictor pf_twin_predictor(pf_twin *twin);

#endif
