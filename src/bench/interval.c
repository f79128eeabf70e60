// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "interval.h"

#include <math.h>

// Continued fraction of the incomplete beta function (modified Lentz); converges fast for
// x < (a + 1)/(a + b + 2).
static double beta_fraction(double a, double b, double x)
{
    const double tiny = 1e-300;
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double h = d;
    for (int m = 1; m < 10000; m++) {
        double change = 1;
        for (int half = 0; half < 2; half++) {
            double term = half == 0 ? m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
                                    : -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
            d = 1 + term * d;
            c = 1 + term / c;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            c = fabs(c) < tiny ? tiny : c;
            change *= d * c;
            h *= d * c;
        }
        if (fabs(change - 1) < 1e-15) {
            break;
        }
    }
    return h;
}

double pf_beta_share(double a, double b, double x)
{
    if (!(x > 0) || !(x < 1)) {
        return x >= 1 ? 1 : 0;
    }
    double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a
                                     : 1 - front * beta_fraction(b, a, 1 - x) / b;
}

// The x at which I_x(a, b) reaches p, by bisection.
static double beta_quantile(double a, double b, double p)
{
    double lo = 0, hi = 1;
    for (int i = 0; i < 60; i++) {
        double middle = (lo + hi) / 2;
        if (pf_beta_share(a, b, middle) < p) {
            lo = middle;
        } else {
            hi = middle;
        }
    }
    return (lo + hi) / 2;
}

pf_interval pf_clopper_pearson(double k, double n, double alpha)
{
    pf_interval out = {NAN, NAN};
    if (n > 0) {
        out.lo = k <= 0 ? 0 : beta_quantile(k, n - k + 1, alpha / 2);
        out.hi = k >= n ? 1 : beta_quantile(k + 1, n - k, 1 - alpha / 2);
    }
    return out;
}

static void swap(double *a, double *b)
{
    double t = *a;
    *a = *b;
    *b = t;
}

// Puts the k-th smallest value at its place, smaller ones before it (Hoare).
static void select_nth(double *v, int n, int k)
{
    int lo = 0, hi = n - 1;
    while (lo < hi) {
        double pivot = v[lo + (hi - lo) / 2];
        int i = lo, j = hi;
        while (i <= j) {
            while (v[i] < pivot) {
                i++;
            }
            while (v[j] > pivot) {
                j--;
            }
            if (i <= j) {
                swap(&v[i++], &v[j--]);
            }
        }
        if (k <= j) {
            hi = j;
        } else if (k >= i) {
            lo = i;
        } else {
            return;
        }
    }
}

static double quantile(double *v, int n, double p)
{
    double place = p * (n - 1);
    int k = (int)floor(place);
    select_nth(v, n, k);
    double low = v[k], next = low;
    for (int i = k + 1; i < n; i++) {
        next = i == k + 1 || v[i] < next ? v[i] : next;
    }
    return low + (place - k) * (next - low);
}

pf_interval pf_percentiles(double *values, int n, double alpha)
{
    int kept = 0;
    for (int i = 0; i < n; i++) {
        if (!isnan(values[i])) {
            values[kept++] = values[i];
        }
    }
    if (kept == 0) {
        return (pf_interval){NAN, NAN};
    }
    double lo = quantile(values, kept, alpha / 2);
    return (pf_interval){lo, quantile(values, kept, 1 - alpha / 2)};
}

void pf_mean_sd(const double *values, int n, double *mean, double *sd)
{
    double sum = 0, squares = 0;
    int kept = 0;
    for (int i = 0; i < n; i++) {
        if (!isnan(values[i])) {
            sum += values[i];
            kept++;
        }
    }
    *mean = kept ? sum / kept : NAN;
    for (int i = 0; i < n; i++) {
        if (!isnan(values[i])) {
            squares += (values[i] - *mean) * (values[i] - *mean);
        }
    }
    *sd = kept > 1 ? sqrt(squares / (kept - 1)) : NAN;
}
