// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_FIT_H
#define PF_FIT_H

#include "preflight/base.h"

// From calibration scores to the numbers of a kit (protocol: bins, smoothing, centres, alarm).

// K - 1 interior quantiles (k/K, linear interpolation) of both classes pooled 1:1. scratch needs
// n0 + n1 doubles.
void pf_fit_edges(int n0, const double *nominal, int n1, const double *fault, int n_bins,
                  double *edges, double *scratch);

// K - 1 edges that maximise the mutual information of class (equally likely) and category on these
// scores, with the rows smoothed as pf_fit_row smooths them; by dynamic programming over contiguous
// bins. Bins may be empty: equal edges. scratch needs pf_fit_information_scratch doubles.
void pf_fit_edges_information(int n0, const double *nominal, int n1, const double *changed,
                              int n_bins, double *edges, double *scratch);
size_t pf_fit_information_scratch(int n0, int n1, int n_bins);

// Smoothed category frequencies, (count + 1)/(n + K).
void pf_fit_row(int n, const double *scores, int n_bins, const double *edges, double *row);

// Median; scratch needs n doubles.
double pf_fit_median(int n, const double *values, double *scratch);

// 1.4826 times the median absolute deviation, without floor; scratch needs n doubles.
double pf_fit_dispersion(int n, const double *values, double *scratch);

// Root mean square distance from a centre, by n - 1; 0 for fewer than two values. Unlike the
// dispersion it counts every outlier.
double pf_fit_spread(int n, const double *values, double centre);

// Smallest value that at most `rate` of the running maxima exceed. Sorts maxima.
double pf_fit_threshold(int n, double *maxima, double rate);

#endif
