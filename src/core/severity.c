// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "preflight/severity.h"

#include <math.h>

void pf_severity_reset(int n_grid, double *severity)
{
    for (int k = 0; k < n_grid; k++) {
        severity[k] = 1.0 / n_grid;
    }
}

double pf_severity_line(double gain, double g_cal)
{
    return (1 - gain) / (1 - g_cal);
}

// How much farther z is from a than from b, squared and halved: (|z - a|^2 - |z - b|^2)/2 without
// the squares, which a wild z would overflow.
static double farther(double z, double a, double b)
{
    return (z - .5 * (a + b)) * (b - a);
}

// By way of logarithms, for a likeliest gain that z all but excludes.
static void weigh_careful(int n_grid, double *severity, const double *expected, int best, double z,
                          double sigma)
{
    double least = INFINITY;
    for (int pass = 0; pass < 2; pass++) {
        for (int k = 0; k < n_grid; k++) {
            double away = farther(z, expected[k], expected[best]) / sigma / sigma;
            double cost = severity[k] > 0 ? away - log(severity[k]) : INFINITY;
            if (pass == 0) {
                least = cost < least ? cost : least;
            } else {
                severity[k] = exp(least - cost);
            }
        }
    }
}

void pf_severity_update(int n_grid, double *severity, const double *expected, double z,
                        double sigma)
{
    // exponents count from the gain that explains z best, so the sum can never vanish
    int best = -1, likely = 0;
    for (int k = 0; k < n_grid; k++) {
        bool better = best < 0 || farther(z, expected[k], expected[best]) < 0;
        best = severity[k] > 0 && better ? k : best;
        likely = severity[k] > severity[likely] ? k : likely;
    }
    if (best < 0) {
        return;
    }
    // where the likeliest gain keeps more than e^-600 of its weight no logarithm is needed
    if (farther(z, expected[likely], expected[best]) / sigma / sigma < 600) {
        for (int k = 0; k < n_grid; k++) {
            double away = farther(z, expected[k], expected[best]) / sigma / sigma;
            severity[k] = severity[k] > 0 ? severity[k] * exp(-away) : 0;
        }
    } else {
        weigh_careful(n_grid, severity, expected, best, z, sigma);
    }
    double sum = 0;
    for (int k = 0; k < n_grid; k++) {
        sum += severity[k];
    }
    for (int k = 0; k < n_grid; k++) {
        severity[k] /= sum;
    }
}
