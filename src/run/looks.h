// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_LOOKS_H
#define PF_LOOKS_H

#include "run_impl.h"
#include "host/arena.h"
#include "plant/plant_impl.h"

// Responses of several machines and what a twin predicts from the start of each, computed in step.
// Whoever asks for them one by one finds them there, with the bits that it would compute.

// Predictions in the order in which they are asked for.
typedef struct pf_ahead {
    const double *start, *response; // NULL: only predictions
    int n, next;
    const pf_hypothesis *hypotheses;
    const double *predicted;
    size_t window; // numbers from one prediction to the next
} pf_ahead;

// The next prediction; NULL: it is another one that is asked for. ahead is Nullable.
const double *pf__ahead_next(pf_ahead *ahead, const pf_hypothesis *h);

typedef struct pf_looks {
    const pf_kit *kit;
    pf_kit_info info; // of the kit
    pf_arena arena;
    size_t n_state, window;
    double *start, *response, *predicted;
    pf_hypothesis *hypotheses;
    const double **from; // per prediction its start and where it goes
    double **to;
    int at[PF_ROLLS + 1]; // first prediction of each
} pf_looks;

// Room for PF_ROLLS responses with their signatures, or one with a prediction for every gain.
pf_status pf__looks_init(pf_looks *looks, const pf_kit *kit, pf_error *error);
void pf__looks_free(pf_looks *looks);

// One machine that is probed; gains is Nullable: healthy.
typedef struct pf_probed {
    const double *gains;
    int probe;
    pf_key key;
} pf_probed;

// At most PF_ROLLS responses, and from each start the nominal prediction and those of all targets.
pf_status pf__looks_run(pf_looks *looks, pf_plant *plant, const pf_predictor *predictor, int n,
                        const pf_probed *probed, pf_error *error);
// The nominal prediction from a start and those of all targets at every gain of the grid.
pf_status pf__looks_grid(pf_looks *looks, const pf_predictor *predictor, int probe,
                         const double *start, pf_error *error);
// What was computed for one of them.
pf_ahead pf__looks_ahead(const pf_looks *looks, int i);

#endif
