// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_INTERVAL_H
#define PF_INTERVAL_H

#include "preflight/base.h"

// Means, spreads and 95 % intervals.

typedef struct pf_interval {
    double lo, hi; // NaN: undefined
} pf_interval;

// Regularised incomplete beta function I_x(a, b), a and b > 0, x in [0, 1].
double pf_beta_share(double a, double b, double x);

// Exact interval of a proportion after Clopper and Pearson: k successes of n, two-sided level
// 1 - alpha. Undefined with n = 0.
pf_interval pf_clopper_pearson(double k, double n, double alpha);

// Central 1 - alpha interval of n values, linear between order statistics. Reorders the values.
pf_interval pf_percentiles(double *values, int n, double alpha);

// Mean and sample standard deviation of the values that are defined; sd is NaN for fewer than two.
void pf_mean_sd(const double *values, int n, double *mean, double *sd);

#endif
