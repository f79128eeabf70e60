// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_MATCH_H
#define PF_MATCH_H

#include "preflight/kit.h"
#include "preflight/plant.h"

// Whether the machine is the one the kit was calibrated for: the same mechanisms and channels, and
// for a twin the same size of state.
pf_status pf_machine_matches(const pf_kit *kit, const pf_plant_info *info, pf_error *error);

// Whether the plant may predict for the kit: the machine above and the same simulator.
pf_status pf_twin_matches(const pf_kit *kit, const pf_plant_info *info, pf_error *error);

#endif
