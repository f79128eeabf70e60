// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PREFLIGHT_SCORE_H
#define PREFLIGHT_SCORE_H

#include "preflight/base.h"

#ifdef __cplusplus
extern "C" {
#endif

// What a response says about one target of its probe.
typedef struct pf_match {
    double score;       // S_j = <r, h'>/|h'| (Eq. matched_score), or |r| for the norm statistic.
    double coefficient; // <r, h'>/<h', h>, the least-squares amplitude of the signature.
    double remaining;   // |h'|/|h|: what decorrelation left of the signature, 1 for one target.
    bool usable;        // False: h = 0 or remaining < PF_REMAINING_ONLINE; the target is skipped.
    double size;        // |h|
    double off;         // rms of what no signature explains of the residual; 0 where unknown
} pf_match;

// Sum of a[i]*b[i] in a fixed order (four interleaved partial sums): the same bits everywhere.
PF_API double pf_dot(int n, const double *a, const double *b);
// The same of a with each of `rows` rows of n, in less time and with the same bits.
PF_API void pf_dot_rows(int n, int rows, const double *a, const double *b, double *out);

// out = (x - base)/scale, row by row (Eq. residual_signature). scale has n_chan entries if
// scale_rows is 1, else rows*n_chan. out may be x.
PF_API void pf_scaled_difference(int rows, int n_chan, const double *x, const double *base,
                                 const double *scale, int scale_rows, double *out);

// x = F x in place for a lower triangle F (n rows of 1, 2, ..., n numbers): after it the plain
// inner product is the one weighted by F^T F.
PF_API void pf_whiten(int n, const double *factor, double *x);

// Norm of the residual, the statistic of the baselines.
PF_API double pf_residual_norm(int n, const double *residual);

// Doubles of scratch that pf_match_targets needs for n_targets.
PF_API size_t pf_match_scratch(int n_targets);

// Scores of all targets of one probe. signatures is n_targets x n, residual n; out has n_targets
// entries; scratch pf_match_scratch(n_targets) doubles. With one target exactly the paper's.
PF_API void pf_match_targets(int n_targets, int n, const double *signatures, const double *residual,
                             double *scratch, pf_match *out);

// The same by explicit projection, one target at a time: slow, plain, kept as the reference.
// scratch needs (n_targets + 1) x n doubles.
PF_API void pf_match_targets_plain(int n_targets, int n, const double *signatures,
                                   const double *residual, double *scratch, pf_match *out);

// The same for one target straight from the responses, in one pass: residual (response - nominal)
// and signature (changed - nominal), both times inverse = 1/scale (n entries). False when a sum is
// not finite, which any value that is not finite makes it.
PF_API bool pf_match_window(int n, const double *response, const double *nominal,
                            const double *changed, const double *inverse, pf_match *out);

// The reading of the norm statistic: a score without direction.
PF_API pf_match pf_match_norm(double norm);

// z = (coefficient - centre_nominal)/(centre_changed - centre_nominal) (Eq. matched_coordinate): 0
// nominal, 1 at g_cal.
PF_API double pf_coordinate(double coefficient, double centre_nominal, double centre_changed);

#ifdef __cplusplus
}
#endif
#endif
