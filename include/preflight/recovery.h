// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PREFLIGHT_RECOVERY_H
#define PREFLIGHT_RECOVERY_H

#include "preflight/joint.h"

#ifdef __cplusplus
extern "C" {
#endif

// Residual risk of a mechanism after its best scalar correction, 1 - E[G]^2/E[G^2].
PF_API double pf_residual_risk(const pf_moments *moments);

// The numerator of Eq. stage2_acquisition summed over a probe's targets; weight has m entries.
PF_API double pf_recovery_value(const pf_joint *joint, const double *weight, int n_targets,
                                const int *targets);

// c = E[G]/E[G^2] (Eq. bayes_gain_correction).
PF_API double pf_correction(const pf_moments *moments);

// The command that is really sent: c*u, clipped to the limits.
PF_API double pf_corrected_command(double command, double correction, double lo, double hi);

#ifdef __cplusplus
}
#endif
#endif
