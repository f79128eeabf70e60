// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "recordings_read.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// What a kit of recordings predicts: mean responses of the even ranks, straight lines between the
// recorded gains, and the scale of the noise around them.

static size_t window(const pf_recordings *rec, int probe)
{
    return (size_t)rec->probes[probe].rows * (size_t)rec->n_chan;
}

void pf__recordings_mean(const pf_recordings *rec, const pf_group *group, double *out)
{
    size_t n = window(rec, group->probe);
    memset(out, 0, n * sizeof *out);
    for (int rank = 0; rank < group->n; rank += 2) {
        const double *response = pf_recordings_response(rec, group, rank);
        for (size_t i = 0; i < n; i++) {
            out[i] += response[i];
        }
    }
    for (size_t i = 0; i < n; i++) {
        out[i] /= (group->n + 1) / 2;
    }
}

// --- between the recorded gains

static int by_gain(const void *a, const void *b)
{
    double x = (*(const pf_group *const *)a)->gain, y = (*(const pf_group *const *)b)->gain;
    return (x > y) - (x < y);
}

int pf__recordings_gains(const pf_recordings *rec, int probe, int mechanism, int least,
                         const pf_group **out)
{
    int n = 0;
    for (int g = 0; g < rec->n_groups; g++) {
        const pf_group *group = &rec->groups[g];
        if (group->probe == probe && group->mechanism == mechanism && group->n >= least) {
            out[n++] = group;
        }
    }
    qsort(out, (size_t)n, sizeof *out, by_gain);
    out[n++] = pf_recordings_find(rec, probe, 0, 1);
    return n;
}

double pf__recordings_between(int n, const pf_group *const *at, double gain, int *lower)
{
    int k = 0;
    while (k + 2 < n && gain > at[k + 1]->gain - PF_SAME_GAIN) {
        k++;
    }
    *lower = k;
    double weight = (gain - at[k]->gain) / (at[k + 1]->gain - at[k]->gain);
    // a recorded gain gives what was recorded, to the last bit
    return fabs(gain - at[k]->gain) < PF_SAME_GAIN ? 0 : weight;
}

void pf__recordings_at(const pf_recordings *rec, int probe, int mechanism, double gain,
                       const pf_group **points, double *out, double *scratch)
{
    int n = pf__recordings_gains(rec, probe, mechanism, 1, points), k = 0;
    double weight = pf__recordings_between(n, points, gain, &k);
    pf__recordings_mean(rec, points[k], out);
    pf__recordings_mean(rec, points[k + 1], scratch);
    for (size_t i = 0; i < window(rec, probe); i++) {
        out[i] += weight * (scratch[i] - out[i]);
    }
}

// --- scale

// Sum of squares of one channel's nominal residuals over the even ranks, and the largest value.
static double residual_energy(const pf_recordings *rec, const pf_kit *k, int channel,
                              double *largest)
{
    double energy = 0;
    size_t n_chan = (size_t)k->n_chan;
    *largest = 0;
    for (int q = 0; q < k->n_probes; q++) {
        const pf_group *group = pf_recordings_find(rec, q, 0, 1);
        const double *mean = k->response + (size_t)k->probe_row[q] * n_chan;
        for (int rank = 0; rank < group->n; rank += 2) {
            const double *response = pf_recordings_response(rec, group, rank);
            for (size_t i = (size_t)channel; i < window(rec, q); i += n_chan) {
                energy += (response[i] - mean[i]) * (response[i] - mean[i]);
                *largest = fmax(*largest, fabs(response[i]));
            }
        }
    }
    return energy;
}

static pf_status fit_scale(const pf_recordings *rec, const pf_plan *plan, pf_kit_build *build,
                           pf_error *error)
{
    double rows = 0;
    for (int q = 0; q < rec->n_probes; q++) {
        rows += (double)((pf_recordings_find(rec, q, 0, 1)->n + 1) / 2) * rec->probes[q].rows;
    }
    for (int c = 0; c < rec->n_chan; c++) {
        double largest = 0, given = plan->channels[c].scale;
        double rms = sqrt(residual_energy(rec, &build->kit, c, &largest) / rows);
        // a constant channel leaves the rounding errors of its mean, which are no noise
        if (!(given > 0) && !(rms > 1e-13 * largest && rms > 1e-150)) {
            return pf_fail(error, PF_ERR_DEGENERATE,
                           "%s: column '%s': the nominal episodes do not differ, so its scale is "
                           "unknown; record real noise, drop the column, or give its `scale` in a "
                           "configuration",
                           rec->file, rec->channels[c]);
        }
        build->scale[c] = build->return_scale[c] = given > 0 ? given : rms;
    }
    return PF_OK;
}

// --- both

static void fill_responses(const pf_recordings *rec, const pf_plan *plan, pf_kit_build *build,
                           const pf_group **points, double *scratch)
{
    double *variant = build->variant;
    for (int q = 0; q < plan->n_probes; q++) {
        const pf_plan_probe *probe = &plan->probes[q];
        double *nominal = build->response + (size_t)build->probe_row[q] * (size_t)plan->n_chan;
        pf__recordings_mean(rec, pf_recordings_find(rec, q, 0, 1), nominal);
        for (int t = 0; t < probe->n_targets; t++) {
            for (int g = 0; g < plan->n_grid; g++, variant += window(rec, q)) {
                pf__recordings_at(rec, q, probe->targets[t], plan->grid[g], points, variant,
                                  scratch);
            }
        }
    }
}

pf_status pf__recordings_responses(const pf_recordings *rec, const pf_plan *plan,
                                   pf_kit_build *build, pf_error *error)
{
    size_t most = (size_t)pf_kit_most_rows(&build->kit) * (size_t)rec->n_chan;
    const pf_group **points = calloc((size_t)rec->n_groups + 1, sizeof *points);
    double *scratch = calloc(most, sizeof *scratch);
    pf_status status = PF_OK;
    if (points && scratch) {
        fill_responses(rec, plan, build, points, scratch);
        status = fit_scale(rec, plan, build, error);
    } else {
        status = pf_fail(error, PF_ERR_MEMORY, "%s: out of memory for responses", rec->file);
    }
    free(points);
    free(scratch);
    return status;
}
