// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_COORDINATE_H
#define PF_COORDINATE_H

#include "trial.h"

// The calibration of the transported coordinate: z of responses at one true gain against the ideal
// (1 - g)/(1 - g_cal), for every mechanism and over all of them.

// Arms: "all", then a mechanism each; a plant with fewer leaves the rest undefined.
enum { PF_COORDINATE_ARMS = 9 };
const char *const *pf_coordinate_arms(void);

// So many episodes per mechanism. bank and kit: of the matched statistic, centres calibrated.
pf_status pf_coordinate_run(pf_bank *bank, const pf_kit *kit, uint64_t seed, double gain,
                            int episodes, pf_trial_result results[PF_COORDINATE_ARMS],
                            pf_error *error);

#endif
