// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_FIT_WHITEN_H
#define PF_FIT_WHITEN_H

#include "preflight/base.h"

// Longest window (rows x channels) that is weighted: its factor has half the square of it.
enum { PF_WHITEN_MAX = 1024 };

// The whitening factor of `count` residuals of n numbers: the lower triangle F (n (n + 1)/2, row by
// row) with F^T F the inverse of their second moments S, shrunk towards their mean variance mu by
// the rule of Ledoit and Wolf (2004), S' = lambda mu I + (1 - lambda) S, and divided by mu, so that
// scores keep their size and equal variances without correlation give the identity. Second moments
// about zero, not about the mean: what the predictor always gets wrong is no news either. scratch
// needs n x n doubles. Gives lambda.
double pf_fit_whiten(int n, int count, const double *residuals, double *scratch, double *factor);

#endif
