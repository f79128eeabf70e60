// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_FLIGHT_H
#define PF_FLIGHT_H

#include "preflight/kit.h"
#include "preflight/plant.h"

// Flies a task on a plant and measures it: from the reset of `key`, with its disturbance and no
// sensor noise, against the undisturbed nominal trajectory from the same start. corrections has
// n_mech entries (Nullable: none), the corrected command is clipped to the limits.
pf_status pf_fly(pf_plant *plant, const pf_kit *kit, int task, pf_key key, const double *gains,
                 const double *corrections, double *ret, pf_error *error);

#endif
