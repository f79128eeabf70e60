// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_MECHANISM_H
#define PF_MECHANISM_H

#include "trial.h"

// The known-model study: what the transported severity recovers of what a response holds, on the
// attitude plant with one assumption broken at a time. Three arms see the same responses: the
// transported amplitude, the category alone, and the exact Bayes posterior as the ceiling.
enum { PF_ARM_TRANSPORT, PF_ARM_CATEGORY, PF_ARM_BAYES, PF_ARMS };

// Names of the arms (PF_ARMS), in the place of method ids.
const char *const *pf_mechanism_arms(void);

// One cell, all gains of the grid: setting is "knob=NAME;value=X" with NAME one of none, dead_band,
// saturation, coupling, mismatch, mismatch_recentred, noise. `responses` per gain. Results are
// means over responses and gains (gain_mae, crps, coverage, log_score).
pf_status pf_mechanism_run(const char *setting, uint64_t seed, int responses,
                           pf_trial_result results[PF_ARMS], pf_error *error);

#endif
