// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_FIT_H
#define PF_FIT_H

#include "preflight/base.h"

// From calibration scores to the numbers of a kit (protocol: bins, smoothing, centres, alarm).

// K - 1 interior quantiles (k/K, linear interpolation) of both classes pooled 1:1. scratch needs
// n0 + n1 doubles.
void pf__fit_edges(int n0, const double *nominal, int n1, const double *fault, int n_bins,
                   double *edges, double *scratch);

// K - 1 edges that maximise the mutual information of class (equally likely) and category on these
// scores, with the rows smoothed as pf__fit_row smooths them; by dynamic programming over
// contiguous bins. Bins may be empty: equal edges. scratch needs pf__fit_information_scratch
// doubles.
void pf__fit_edges_information(int n0, const double *nominal, int n1, const double *changed,
                               int n_bins, double *edges, double *scratch);
size_t pf__fit_information_scratch(int n0, int n1, int n_bins);

// Smoothed category frequencies, (count + 1)/(n + K).
void pf__fit_row(int n, const double *scores, int n_bins, const double *edges, double *row);

// Median; scratch needs n doubles.
double pf__fit_median(int n, const double *values, double *scratch);

double pf__fit_mean(int n, const double *values, double *scratch); // the same call; NaN for none

// 1.4826 times the median absolute deviation, without floor; scratch needs n doubles.
double pf__fit_dispersion(int n, const double *values, double *scratch);

// Root mean square distance from a centre, by n - 1; 0 for fewer than two values. Unlike the
// dispersion it counts every outlier.
double pf__fit_spread(int n, const double *values, double centre);

// Of n >= 2 ascending gains the lower one of the pair that a gain lies between (below the first:
// the first two), and the weight of the upper one: 0 for a gain within `same` of the lower.
double pf__fit_between(int n, const double *gains, double gain, double same, int *lower);

// The value of rank ceil(share (n + 1)), at least the first and at most the last. Sorts values.
double pf__fit_rank(int n, double *values, double share);

// Smallest value that at most `rate` of the running maxima exceed. Sorts maxima.
double pf__fit_threshold(int n, double *maxima, double rate);

// Longest window (rows x channels) that is weighted: its factor has half the square of it.
enum { PF_WHITEN_MAX = 1024 };

// The whitening factor of `count` residuals of n numbers: the lower triangle F (n (n + 1)/2, row by
// row) with F^T F the inverse of their second moments S, shrunk towards their mean variance mu by
// the rule of Ledoit and Wolf (2004), S' = lambda mu I + (1 - lambda) S, and divided by mu, so that
// scores keep their size and equal variances without correlation give the identity. Second moments
// about zero, not about the mean: what the predictor always gets wrong is no news either. scratch
// needs n x n doubles. Gives lambda.
double pf__fit_whiten(int n, int count, const double *residuals, double *scratch, double *factor);

#endif
