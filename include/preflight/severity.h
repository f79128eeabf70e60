// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PREFLIGHT_SEVERITY_H
#define PREFLIGHT_SEVERITY_H

#include "preflight/base.h"

#ifdef __cplusplus
extern "C" {
#endif

// The severity phi_j(g): a distribution over the gain grid given that mechanism j changed. It is
// written by gated coordinates only and never read by stage 1.

// Uniform on the grid.
PF_API void pf_severity_reset(int n_grid, double *severity);

// Where z is expected at each grid gain when nothing better is known: (1 - g)/(1 - g_cal).
PF_API double pf_severity_line(double gain, double g_cal);

// One admitted coordinate (Eq. gated_gain_update). expected has n_grid entries (the line or a
// calibrated curve), sigma > 0. Computed by subtracting the largest exponent, so it never
// underflows to nothing.
PF_API void pf_severity_update(int n_grid, double *severity, const double *expected, double z,
                               double sigma);

#ifdef __cplusplus
}
#endif
#endif
