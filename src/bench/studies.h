// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_STUDIES_H
#define PF_STUDIES_H

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
pf_status pf__mechanism_run(const char *setting, uint64_t seed, int responses,
                            pf_trial_result results[PF_ARMS], pf_error *error);

// The calibration of the transported coordinate: z of responses at one true gain against the ideal
// (1 - g)/(1 - g_cal), for every mechanism and over all of them.

// Arms: "all", then a mechanism each; a plant with fewer leaves the rest undefined.
enum { PF_COORDINATE_ARMS = 9 };
const char *const *pf_coordinate_arms(void);

// So many episodes per mechanism. responses and kit: of the matched statistic, centres calibrated.
pf_status pf__coordinate_run(pf_responses *responses, const pf_kit *kit, uint64_t seed, double gain,
                             int episodes, pf_trial_result results[PF_COORDINATE_ARMS],
                             pf_error *error);

#endif
