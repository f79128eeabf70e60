// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "fit.h"

#include "preflight/channel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void sort(int n, double *values)
{
    qsort(values, (size_t)n, sizeof *values, by_value);
}

void pf_fit_edges(int n0, const double *nominal, int n1, const double *fault, int n_bins,
                  double *edges, double *scratch)
{
    int n = n0 + n1;
    memcpy(scratch, nominal, sizeof(double) * (size_t)n0);
    memcpy(scratch + n0, fault, sizeof(double) * (size_t)n1);
    sort(n, scratch);
    for (int k = 1; k < n_bins; k++) {
        double at = (double)k / n_bins * (n - 1);
        int below = (int)at;
        double part = at - below;
        int above = below + 1 < n ? below + 1 : below;
        edges[k - 1] = scratch[below] + part * (scratch[above] - scratch[below]);
    }
}

void pf_fit_row(int n, const double *scores, int n_bins, const double *edges, double *row)
{
    pf_channel_row channel = {n_bins, edges, row, row};
    for (int c = 0; c < n_bins; c++) {
        row[c] = 1;
    }
    for (int i = 0; i < n; i++) {
        row[pf_channel_category(&channel, scores[i])] += 1;
    }
    for (int c = 0; c < n_bins; c++) {
        row[c] /= n + n_bins;
    }
}

double pf_fit_median(int n, const double *values, double *scratch)
{
    memmove(scratch, values, sizeof(double) * (size_t)n);
    sort(n, scratch);
    return n % 2 ? scratch[n / 2] : .5 * (scratch[n / 2 - 1] + scratch[n / 2]);
}

double pf_fit_dispersion(int n, const double *values, double *scratch)
{
    double centre = pf_fit_median(n, values, scratch);
    for (int i = 0; i < n; i++) {
        scratch[i] = fabs(values[i] - centre);
    }
    return 1.4826 * pf_fit_median(n, scratch, scratch);
}

double pf_fit_threshold(int n, double *maxima, double rate)
{
    sort(n, maxima);
    int allowed = (int)floor(rate * n + 1e-9);
    return maxima[n - 1 - allowed];
}
