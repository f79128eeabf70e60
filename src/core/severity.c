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

void pf_severity_update(int n_grid, double *severity, const double *expected, double z,
                        double sigma)
{
    // exponents count from the gain that explains z best, so the sum can never vanish
    int best = -1;
    for (int k = 0; k < n_grid; k++) {
        bool better = best < 0 || farther(z, expected[k], expected[best]) < 0;
        best = severity[k] > 0 && better ? k : best;
    }
    if (best < 0) {
        return;
    }
    double least = INFINITY, sum = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int k = 0; k < n_grid; k++) {
            double away = farther(z, expected[k], expected[best]) / sigma / sigma;
            double cost = severity[k] > 0 ? away - log(severity[k]) : INFINITY;
            if (pass == 0) {
                least = cost < least ? cost : least;
            } else {
                severity[k] = exp(least - cost);
                sum += severity[k];
            }
        }
    }
    for (int k = 0; k < n_grid; k++) {
        severity[k] /= sum;
    }
}
