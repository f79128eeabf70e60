// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_TRIAL_MEMO_H
#define PF_TRIAL_MEMO_H

#include "host/arena.h"
#include "preflight/predictor.h"

#include <stdbool.h>

// Predictions that were asked for before, by start and hypothesis: a message to a process costs
// more than the memory, and its starts return. A table with one place for each hash: a later
// prediction takes the place of an earlier one. What is found is what would be predicted, to the
// bit. Hypotheses have no others.
typedef struct pf_memo {
    double *start;    // places x (n_state + 1)
    double *response; // places x window
    pf_hypothesis *hypothesis;
    bool *known;
    size_t n_state, window, places;
} pf_memo;

// Memory comes from the arena and goes with it. window: the longest response in numbers.
pf_status pf_memo_init(pf_memo *memo, pf_arena *arena, int n_state, size_t window, pf_error *error);

// NULL: not there.
const double *pf_memo_find(const pf_memo *memo, const double *start, const pf_hypothesis *h);

void pf_memo_keep(pf_memo *memo, const double *start, const pf_hypothesis *h,
                  const double *response, size_t n);

#endif
