// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "preflight/recovery.h"

double pf_residual_risk(const pf_moments *moments)
{
    return 1 - moments->mean * moments->mean / moments->mean_square;
}

double pf_recovery_value(const pf_joint *joint, const double *weight, int n_targets,
                         const int *targets)
{
    double value = 0;
    for (int t = 0; t < n_targets; t++) {
        pf_moments moments = pf_joint_moments(joint, targets[t]);
        value += weight[targets[t] - 1] * pf_residual_risk(&moments);
    }
    return value;
}

double pf_correction(const pf_moments *moments)
{
    return moments->mean / moments->mean_square;
}

double pf_corrected_command(double command, double correction, double lo, double hi)
{
    double sent = correction * command;
    return sent < lo ? lo : sent > hi ? hi : sent;
}
