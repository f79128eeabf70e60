// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "quality.h"

#include "core/certificate.h"
#include "core/kit_layout.h"

#include <math.h>
#include <stddef.h>

const double *pf__quality_gains(const pf_kit *k, int *n)
{
    *n = k->n_knots > 0 ? k->n_knots : k->n_grid;
    return k->n_knots > 0 ? k->knots : k->grid;
}

// One target of a probe at a gain: by the looks where they are calibrated, else by its coordinate,
// which is 0 for a healthy mechanism and 1 at g_cal.
static double target_apart(const pf_kit *k, int probe, int t, int gain)
{
    int first = k->probe_target[probe], n = k->probe_target[probe + 1] - first;
    if (k->n_knots == 0) {
        double z = k->n_curve > 0 ? k->curve[(size_t)(first + t) * (size_t)k->n_grid + (size_t)gain]
                                  : (1 - k->grid[gain]) / (1 - k->g_cal);
        return fabs(z) / k->sigma[first + t];
    }
    size_t healthy = pf__kit_look(k, probe) + (size_t)t;
    size_t row = (size_t)n * (1 + (size_t)t * (size_t)k->n_knots + (size_t)gain);
    size_t changed = pf__kit_look(k, probe) + row + (size_t)t;
    double variance = (k->look_variance[healthy] + k->look_variance[changed]) / 2;
    return fabs(k->look_mean[changed] - k->look_mean[healthy]) / sqrt(variance);
}

double pf__quality_apart(const pf_kit *k, int mechanism, int gain, int *probe)
{
    double best = 0;
    int which = -1;
    for (int q = 0; q < k->n_probes; q++) {
        for (int at = k->probe_target[q]; at < k->probe_target[q + 1]; at++) {
            if (k->target_mech[at] != mechanism) {
                continue;
            }
            double apart = target_apart(k, q, at - k->probe_target[q], gain);
            which = which < 0 || apart > best ? q : which;
            best = fmax(best, apart);
        }
    }
    if (probe) {
        *probe = which;
    }
    return best;
}

double pf__quality_bits(const pf_kit *k, int target)
{
    pf_channel_row row = pf__kit_channel(k, target);
    double bits = 0;
    for (int c = 0; c < row.n_bins; c++) {
        double either = (row.nominal[c] + row.changed[c]) / 2;
        bits += row.nominal[c] > 0 ? row.nominal[c] / 2 * log2(row.nominal[c] / either) : 0;
        bits += row.changed[c] > 0 ? row.changed[c] / 2 * log2(row.changed[c] / either) : 0;
    }
    return bits;
}

// --- tasks

double pf__quality_bound(const pf_kit *k, int task, int use, double gain, double *mean)
{
    enum { MOST = 4096 }; // of a kit
    int first = k->task_use[task], n = k->task_use[task + 1] - first;
    int members = k->n_members < MOST ? k->n_members : MOST;
    double returns[MOST], one = 1;
    for (int e = 0; e < members; e++) {
        double error = 0;
        for (int u = 0; u < n; u++) {
            double own = u == use ? gain : 1;
            double correction = own > 0 ? pf__right_correction(k, k->use_mech[first + u], own) : 1;
            pf__delivered d = pf__deliver(k, task, k->use_mech[first + u], correction);
            error += pf__use_error(k, first + u, e, own, d);
        }
        returns[e] = pf__return(error);
    }
    pf_prediction predicted = pf__predict_return(members, 1, &one, returns, k->alpha);
    *mean = predicted.mean;
    return k->bound == PF_BOUND_WORST ? pf__worst_bound(members, 1, &one, returns, k->alpha)
                                      : predicted.lower;
}

double pf__quality_least_gain(const pf_kit *k, int task, int use)
{
    double least = NAN, mean;
    for (int i = 100; i >= 0; i--) {
        if (pf__quality_bound(k, task, use, i / 100., &mean) < k->j_min) {
            break;
        }
        least = i / 100.;
    }
    return least;
}
