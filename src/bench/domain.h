// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_TRIAL_DOMAIN_H
#define PF_TRIAL_DOMAIN_H

#include "trial.h"

// The end of a trial on a plant with measures of its own: every task is forecast by the plant's
// twin under every hypothesis with all corrections in the policy, decided, and flown in the
// simulator. Fills what a trial tells of returns, decisions and the domain's measures.
pf_status pf_domain_deploy(pf_bank *bank, const pf_joint *joint, const pf_law *law,
                           const pf_trial_setup *setup, double *value, pf_error *error);

#endif
