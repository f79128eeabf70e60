// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_SCORE_H
#define PF_SCORE_H

#include "preflight/session.h"

// Sum of a[i]*b[i] in a fixed order (four interleaved partial sums): the same bits everywhere.
double pf__dot(int n, const double *a, const double *b);
// The same of a with each of `rows` rows of n, in less time and with the same bits.
void pf__dot_rows(int n, int rows, const double *a, const double *b, double *out);

// out = (x - base)/scale, row by row (Eq. residual_signature). scale has n_chan entries if
// scale_rows is 1, else rows*n_chan. out may be x.
void pf__scaled_difference(int rows, int n_chan, const double *x, const double *base,
                           const double *scale, int scale_rows, double *out);

// x = F x in place for a lower triangle F (n rows of 1, 2, ..., n numbers): after it the plain
// inner product is the one weighted by F^T F.
void pf__whiten(int n, const double *factor, double *x);

// Norm of the residual, the statistic of the baselines.
double pf__residual_norm(int n, const double *residual);

// Doubles of scratch that pf__match_targets needs for n_targets.
size_t pf__match_scratch(int n_targets);

// Scores of all targets of one probe. signatures is n_targets x n, residual n; out has n_targets
// entries; scratch pf__match_scratch(n_targets) doubles. With one target exactly the paper's.
void pf__match_targets(int n_targets, int n, const double *signatures, const double *residual,
                       double *scratch, pf_match *out);

// The same by explicit projection, one target at a time: slow, plain, kept as the reference.
// scratch needs (n_targets + 1) x n doubles.
void pf__match_targets_plain(int n_targets, int n, const double *signatures, const double *residual,
                             double *scratch, pf_match *out);

// The same for one target straight from the responses, in one pass: residual (response - nominal)
// and signature (changed - nominal), both times inverse = 1/scale (n entries). False when a sum is
// not finite, which any value that is not finite makes it.
bool pf__match_window(int n, const double *response, const double *nominal, const double *changed,
                      const double *inverse, pf_match *out);

// The reading of the norm statistic: a score without direction.
pf_match pf__match_norm(double norm);

// z = (coefficient - centre_nominal)/(centre_changed - centre_nominal) (Eq. matched_coordinate): 0
// nominal, 1 at g_cal.
double pf__coordinate(double coefficient, double centre_nominal, double centre_changed);

#endif
