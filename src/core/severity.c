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

void pf_severity_update(int n_grid, double *severity, const double *expected, double z,
                        double sigma)
{
    // the gain that explains z best gets exponent 0, so the sum can never vanish altogether
    double nearest = INFINITY;
    for (int k = 0; k < n_grid; k++) {
        double away = (z - expected[k]) / sigma;
        double cost = severity[k] > 0 ? .5 * away * away - log(severity[k]) : INFINITY;
        nearest = cost < nearest ? cost : nearest;
    }
    double sum = 0;
    for (int k = 0; k < n_grid; k++) {
        double away = (z - expected[k]) / sigma;
        severity[k] = severity[k] > 0 ? exp(nearest - (.5 * away * away - log(severity[k]))) : 0;
        sum += severity[k];
    }
    for (int k = 0; k < n_grid; k++) {
        severity[k] /= sum;
    }
}
