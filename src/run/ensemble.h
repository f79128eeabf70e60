// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_ENSEMBLE_H
#define PF_ENSEMBLE_H

#include "preflight/kit.h"
#include "preflight/model.h"
#include "preflight/predictor.h"

// The predictor that is a learned model: the mean over its members, from the channels before the
// first command. Owned by one thread; model and kit are shared and must outlive it.
//
// Requests have a fixed shape, so that bits never depend on what else was asked. From one start a
// probe has two blocks: the nominal response with every target at g_cal, and every target at every
// gain of the grid. The first hypothesis of a block computes all of it, the others read it. A
// target at g_cal always comes from the first block; what is in neither is a request of its own.
typedef struct pf_ensemble pf_ensemble;

// Whether this is the model that the kit was calibrated with.
pf_status pf_ensemble_fits(const pf_model *model, const pf_kit *kit, pf_error *error);

// Takes all memory; nothing is allocated while it predicts.
pf_status pf_ensemble_create(pf_ensemble **ensemble, const pf_model *model, const pf_kit *kit,
                             pf_error *error);
void pf_ensemble_destroy(pf_ensemble *ensemble); // Nullable.

pf_predictor pf_ensemble_predictor(pf_ensemble *ensemble);

#endif
