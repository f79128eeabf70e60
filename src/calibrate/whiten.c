// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "whiten.h"

#include "preflight/score.h"

#include <math.h>

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
    double size = pf_dot(n * n, s, s), spread = 0;
    for (int k = 0; k < count; k++) {
        const double *row = x + (size_t)k * (size_t)n;
        double own = pf_dot(n, row, row), form = 0;
        for (int i = 0; i < n; i++) {
            form += row[i] * pf_dot(n, s + (size_t)i * (size_t)n, row);
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
            double sum = *at(s, n, i, j) - pf_dot(j, at(s, n, i, 0), at(s, n, j, 0));
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

double pf_fit_whiten(int n, int count, const double *residuals, double *scratch, double *factor)
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
