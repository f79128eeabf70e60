// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_CONTRACT_H
#define PF_CONTRACT_H

#include "preflight/calibrate.h"

// What must hold of a plant before anything is calibrated on it, checked on real trajectories:
// passive data equal to the bit under every dormant fault, an effect of every fault on its own
// probe, and every task in need of each mechanism it names. The error names the offender.
pf_status pf_contract_check(const pf_plan *plan, pf_plant *plant, pf_error *error);

#endif
