// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_EPISODE_H
#define PF_EPISODE_H

#include "bank.h"
#include "preflight/calibrate.h"
#include "preflight/certificate.h"
#include "preflight/joint.h"

// Future tasks that are closed loops with a score of their own (classic control): one episode from
// a known start, return exp(-max(regret, 0)/norm) with regret = nominal score - score. A loop may
// use every mechanism, so every correction is in it and nothing collapses.

// Makes the owned, scored policies of a plant the tasks of the suites' plan: the task of mechanism
// j is the policy that j owns.
void pf_episode_tasks(pf_plan *plan, const pf_plant_info *info);

// The policy of a task that is one; NULL: an open loop.
const pf_policy *pf_episode_policy(const pf_bank *bank, int task);

// Predicted return under the posterior's corrections: hypotheses "nothing changed" and each
// mechanism at each grid gain.
pf_status pf_episode_predict(pf_bank *bank, const pf_joint *joint, int task, double alpha,
                             pf_prediction *out, pf_error *error);

// What the task realises with the posterior's corrections, or without any; regret in the score's
// own units.
pf_status pf_episode_fly(pf_bank *bank, const pf_joint *joint, int task, bool corrected,
                         double *ret, double *regret, pf_error *error);

#endif
