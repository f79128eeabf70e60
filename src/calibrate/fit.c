// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "fit.h"

#include "core/belief.h"
#include "core/score.h"

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

void pf__fit_edges(int n0, const double *nominal, int n1, const double *fault, int n_bins,
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

// Cuts that the search considers at most; between them lie equally many scores.
enum { CUTS_MAX = 256 };

size_t pf__fit_information_scratch(int n0, int n1, int n_bins)
{
    // sorted scores with their class, then per cut: position, counts below, best value and origin
    size_t cuts = CUTS_MAX + 2;
    return 2 * ((size_t)n0 + (size_t)n1) + cuts * (3 + 2 * (size_t)n_bins);
}

typedef struct labelled {
    double score, label; // label 1: changed
} labelled;

static int by_score(const void *a, const void *b)
{
    const labelled *x = a, *y = b;
    int order = (x->score > y->score) - (x->score < y->score);
    return order ? order : (x->label > y->label) - (x->label < y->label);
}

// What a bin with these counts adds to the mutual information.
static double bin_information(double count0, double count1, int n0, int n1, int n_bins)
{
    double p0 = (count0 + 1) / (n0 + n_bins), p1 = (count1 + 1) / (n1 + n_bins);
    double mean = .5 * (p0 + p1);
    return .5 * (p0 * log(p0 / mean) + p1 * log(p1 / mean));
}

// Positions between different scores, the ends included, with the counts below them.
static int find_cuts(const labelled *sorted, int n, double *cut, double *below0, double *below1)
{
    int m = 0, stride = n / CUTS_MAX + 1;
    double count0 = 0, count1 = 0, next = 0;
    for (int i = 0; i <= n; i++) {
        bool end = i == 0 || i == n;
        if (end || (i >= next && sorted[i - 1].score < sorted[i].score)) {
            cut[m] = i;
            below0[m] = count0;
            below1[m++] = count1;
            next = i + stride;
        }
        if (i < n) {
            count0 += sorted[i].label == 0;
            count1 += sorted[i].label == 1;
        }
    }
    return m;
}

void pf__fit_edges_information(int n0, const double *nominal, int n1, const double *changed,
                               int n_bins, double *edges, double *scratch)
{
    int n = n0 + n1, width = CUTS_MAX + 2;
    labelled *sorted = (labelled *)scratch;
    double *cut = scratch + 2 * (size_t)n, *below0 = cut + width, *below1 = below0 + width;
    double *best = below1 + width, *from = best + (size_t)width * (size_t)n_bins;
    for (int i = 0; i < n; i++) {
        sorted[i] = i < n0 ? (labelled){nominal[i], 0} : (labelled){changed[i - n0], 1};
    }
    qsort(sorted, (size_t)n, sizeof *sorted, by_score);
    int m = find_cuts(sorted, n, cut, below0, below1);
    // best[k][i]: everything below cut i in k + 1 bins
    for (int k = 0; k < n_bins; k++) {
        for (int i = 0; i < m; i++) {
            double value =
                k == 0 ? bin_information(below0[i], below1[i], n0, n1, n_bins) : -INFINITY;
            int origin = 0;
            for (int j = 0; j <= i && k > 0; j++) {
                double sum =
                    best[(k - 1) * width + j] +
                    bin_information(below0[i] - below0[j], below1[i] - below1[j], n0, n1, n_bins);
                origin = sum > value ? j : origin;
                value = sum > value ? sum : value;
            }
            best[k * width + i] = value;
            from[k * width + i] = origin;
        }
    }
    // walk back; a cut at an end leaves an empty bin
    int at = m - 1;
    for (int k = n_bins - 1; k > 0; k--) {
        at = (int)from[k * width + at];
        int i = (int)cut[at];
        edges[k - 1] = i == 0   ? sorted[0].score - 1
                       : i == n ? sorted[n - 1].score + 1
                                : .5 * (sorted[i - 1].score + sorted[i].score);
    }
}

void pf__fit_row(int n, const double *scores, int n_bins, const double *edges, double *row)
{
    pf_channel_row channel = {n_bins, edges, row, row};
    for (int c = 0; c < n_bins; c++) {
        row[c] = 1;
    }
    for (int i = 0; i < n; i++) {
        row[pf__channel_category(&channel, scores[i])] += 1;
    }
    for (int c = 0; c < n_bins; c++) {
        row[c] /= n + n_bins;
    }
}

double pf__fit_median(int n, const double *values, double *scratch)
{
    memmove(scratch, values, sizeof(double) * (size_t)n);
    sort(n, scratch);
    return n % 2 ? scratch[n / 2] : .5 * (scratch[n / 2 - 1] + scratch[n / 2]);
}

double pf__fit_mean(int n, const double *values, double *scratch)
{
    double sum = 0;
    (void)scratch;
    for (int i = 0; i < n; i++) {
        sum += values[i];
    }
    return n > 0 ? sum / n : NAN;
}

double pf__fit_rank(int n, double *values, double share)
{
    sort(n, values);
    int rank = (int)ceil(share * (n + 1) - 1e-9);
    rank = rank < 1 ? 1 : rank > n ? n : rank;
    return values[rank - 1];
}

double pf__fit_dispersion(int n, const double *values, double *scratch)
{
    double centre = pf__fit_median(n, values, scratch);
    for (int i = 0; i < n; i++) {
        scratch[i] = fabs(values[i] - centre);
    }
    return 1.4826 * pf__fit_median(n, scratch, scratch);
}

double pf__fit_spread(int n, const double *values, double centre)
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        sum += (values[i] - centre) * (values[i] - centre);
    }
    return n > 1 ? sqrt(sum / (n - 1)) : 0;
}

double pf__fit_between(int n, const double *gains, double gain, double same, int *lower)
{
    int k = 0;
    while (k + 2 < n && gain > gains[k + 1] - same) {
        k++;
    }
    *lower = k;
    double weight = (gain - gains[k]) / (gains[k + 1] - gains[k]);
    // a known gain gives what is known, to the last bit
    return fabs(gain - gains[k]) < same ? 0 : weight;
}

double pf__fit_threshold(int n, double *maxima, double rate)
{
    sort(n, maxima);
    int allowed = (int)floor(rate * n + 1e-9);
    return maxima[n - 1 - allowed];
}

// --- whitening

// Never less shrinkage than this: the factor stays well conditioned whatever the residuals are.
static const double least_shrinkage = 1e-3;

static double *at(double *matrix, int n, int row, int column)
{
    return matrix + (size_t)row * (size_t)n + (size_t)column;
}

static void second_moments(int n, int count, const double *x, double *s)
{
    for (int i = 0; i < n; i++) {
        for (int j = 0; j <= i; j++) {
            double sum = 0;
            for (int k = 0; k < count; k++) {
                const double *row = x + (size_t)k * (size_t)n;
                sum += row[i] * row[j];
            }
            *at(s, n, i, j) = *at(s, n, j, i) = sum / count;
        }
    }
}

// The share of the target in the best mixture: variance of the entries of S over their distance
// from mu I, both in squared Frobenius norms.
static double shrinkage(int n, int count, const double *x, const double *s, double mu)
{
    double size = pf__dot(n * n, s, s), spread = 0;
    for (int k = 0; k < count; k++) {
        const double *row = x + (size_t)k * (size_t)n;
        double own = pf__dot(n, row, row), form = 0;
        for (int i = 0; i < n; i++) {
            form += row[i] * pf__dot(n, s + (size_t)i * (size_t)n, row);
        }
        spread += own * own - 2 * form + size;
    }
    spread /= (double)count * count;
    double distance = size - n * mu * mu;
    return distance > 0 && spread < distance ? fmax(spread / distance, least_shrinkage) : 1;
}

// Lower Cholesky factor in place, then its inverse into the packed rows of `factor`.
static void invert_factor(int n, double *s, double *factor)
{
    for (int i = 0; i < n; i++) {
        for (int j = 0; j <= i; j++) {
            double sum = *at(s, n, i, j) - pf__dot(j, at(s, n, i, 0), at(s, n, j, 0));
            *at(s, n, i, j) = i == j ? sqrt(fmax(sum, 1e-12)) : sum / *at(s, n, j, j);
        }
    }
    for (int j = 0; j < n; j++) {
        for (int i = j; i < n; i++) {
            double *row = factor + (size_t)i * (size_t)(i + 1) / 2, sum = i == j;
            for (int k = j; k < i; k++) {
                sum -= *at(s, n, i, k) * factor[(size_t)k * (size_t)(k + 1) / 2 + (size_t)j];
            }
            row[j] = sum / *at(s, n, i, i);
        }
    }
}

double pf__fit_whiten(int n, int count, const double *residuals, double *scratch, double *factor)
{
    double mu = 0;
    second_moments(n, count, residuals, scratch);
    for (int i = 0; i < n; i++) {
        mu += *at(scratch, n, i, i) / n;
    }
    double lambda = mu > 0 ? shrinkage(n, count, residuals, scratch, mu) : 1;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) {
            double own = mu > 0 ? *at(scratch, n, i, j) / mu : 0;
            *at(scratch, n, i, j) = (lambda < 1 ? (1 - lambda) * own : 0) + (i == j ? lambda : 0);
        }
    }
    invert_factor(n, scratch, factor);
    return lambda;
}
