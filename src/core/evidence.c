// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "evidence.h"

#include "constants.h"
#include "joint.h"
#include "kit_layout.h"

#include <math.h>
#include <string.h>

void pf__evidence_set(pf__evidence *e, const pf_kit *k, int probe)
{
    e->probe = probe;
    e->rows = pf_kit_probe_rows(k, probe);
    e->n_chan = k->n_chan;
    e->n_targets = pf_kit_probe_targets(k, probe, &e->targets);
    e->g_cal = k->g_cal;
    e->scale = k->scale;
    e->n_scale = k->n_scale;
    e->whiten = pf__kit_whiten(k, probe);
    e->norm = k->statistic == PF_STATISTIC_NORM;
}

// --- finite numbers

// Whether all are finite, without a branch for each: only an exponent of all ones carries into the
// sign bit.
static bool only_finite(int n, const double *x)
{
    const uint64_t exponent = UINT64_C(0x7ff) << 52, last = UINT64_C(1) << 52;
    uint64_t seen = 0;
    for (int i = 0; i < n; i++) {
        uint64_t bits;
        memcpy(&bits, x + i, sizeof bits);
        seen |= (bits & exponent) + last;
    }
    return seen >> 63 == 0;
}

pf_status pf__evidence_finite(const pf__evidence *e, const char *what, const double *x,
                              pf_error *error)
{
    if (only_finite(e->rows * e->n_chan, x)) {
        return PF_OK;
    }
    for (int i = 0; i < e->rows * e->n_chan; i++) {
        if (!isfinite(x[i])) {
            return pf_fail(error, PF_ERR_NONFINITE, "%s: row %d, channel %d is not finite", what,
                           i / e->n_chan, i % e->n_chan);
        }
    }
    return PF_OK;
}

// --- predictions

// Where the recorded responses of a mechanism to a probe begin, gain after gain; NULL: it is no
// target.
static const double *recorded_gains(const pf_kit *k, int probe, int mechanism)
{
    size_t at = 0;
    for (int q = 0; q <= probe; q++) {
        for (int t = k->probe_target[q]; t < k->probe_target[q + 1]; t++) {
            if (q == probe && k->target_mech[t] == mechanism) {
                return k->variant + at * (size_t)k->n_chan;
            }
            at += (size_t)pf_kit_probe_rows(k, q) * (size_t)k->n_grid;
        }
    }
    return NULL;
}

// Adds to response (nominal before) what a mechanism at a gain changes of it: linear between the
// recorded gains and 1, and on along the last piece beyond the weakest and above 1.
static void add_recorded(const pf_kit *k, int probe, int mechanism, double gain, const double *base,
                         double *response)
{
    const double *rows = recorded_gains(k, probe, mechanism);
    int n = pf_kit_probe_rows(k, probe) * k->n_chan, g = 1;
    while (g < k->n_grid && k->grid[g] < gain) {
        g++;
    }
    // between grid[g - 1] and grid[g], the last of which is 1
    double above = g < k->n_grid ? k->grid[g] : 1, below = k->grid[g - 1];
    double share = (gain - below) / (above - below);
    for (int i = 0; i < n && rows; i++) {
        double low = rows[(g - 1) * n + i] - base[i];
        double high = g < k->n_grid ? rows[g * n + i] - base[i] : 0;
        response[i] += low + share * (high - low);
    }
}

static pf_status predict_recorded(void *self, const pf_hypothesis *h, const double *start,
                                  int n_start, double *response, pf_error *error)
{
    const pf_kit *k = self;
    size_t n_chan = (size_t)k->n_chan, rows = (size_t)pf_kit_probe_rows(k, h->probe);
    (void)start;
    (void)n_start;
    if (k->n_response == 0) {
        return pf_fail(error, PF_ERR_PREDICTION,
                       "this kit holds no responses: give a start state or predictions");
    }
    const double *base = k->response + (size_t)k->probe_row[h->probe] * n_chan;
    if (h->mechanism == 0 || h->others) {
        memcpy(response, base, rows * n_chan * sizeof(double));
        for (int j = 1; h->others && j < k->n_mech; j++) {
            double gain = j == h->mechanism ? h->gain : h->others[j];
            add_recorded(k, h->probe, j, gain, base, response);
        }
        return PF_OK;
    }
    const double *gains = recorded_gains(k, h->probe, h->mechanism);
    for (int g = 0; gains && g < k->n_grid; g++) {
        if (fabs(k->grid[g] - h->gain) < PF_SAME_GAIN) {
            memcpy(response, gains + (size_t)g * rows * n_chan, rows * n_chan * sizeof(double));
            return PF_OK;
        }
    }
    memcpy(response, base, rows * n_chan * sizeof(double));
    add_recorded(k, h->probe, h->mechanism, h->gain, base, response);
    return PF_OK;
}

int pf__recorded_probe(const pf_kit *k, int rows, const double *command)
{
    for (int q = 0; q < k->n_probes; q++) {
        const double *own = pf_kit_probe_command(k, q);
        bool same = own && pf_kit_probe_rows(k, q) == rows;
        for (int i = 0; same && i < rows * k->n_mech; i++) {
            same = own[i] == command[i]; // 0 and -0 are one command
        }
        if (same) {
            return q;
        }
    }
    return -1;
}

// A run that was recorded: the healthy response of the probe with that command. Recordings are
// deviations from rest, so the free response is zero.
static pf_status run_recorded(void *self, const pf_run *run, const double *start, int n_start,
                              double *response, pf_error *error)
{
    const pf_kit *k = self;
    size_t window = (size_t)run->rows * (size_t)k->n_chan;
    int probe = run->command && !run->gains && k->n_response > 0
                    ? pf__recorded_probe(k, run->rows, run->command)
                    : -1;
    (void)start;
    (void)n_start;
    if (run->idle) {
        memset(response, 0, window * sizeof *response);
        return PF_OK;
    }
    if (probe < 0) {
        return pf_fail(error, PF_ERR_PREDICTION, "the kit holds no recording of task '%s'",
                       pf_kit_task_name(k, run->task));
    }
    memcpy(response, k->response + (size_t)k->probe_row[probe] * (size_t)k->n_chan,
           window * sizeof *response);
    return PF_OK;
}

pf_predictor pf__recorded_predictor(const pf_kit *kit)
{
    // both only read it
    return (pf_predictor){(void *)(uintptr_t)kit, predict_recorded, run_recorded};
}

static pf_status predict_unchecked(const pf__evidence *e, int mechanism, double gain, double *out,
                                   pf_error *error)
{
    pf_hypothesis h = {e->probe, mechanism, gain, e->others};
    return e->predictor.predict(e->predictor.self, &h, e->start, e->n_start, out, error);
}

pf_status pf__evidence_predict(const pf__evidence *e, int mechanism, double gain, double *out,
                               pf_error *error)
{
    pf_status status = predict_unchecked(e, mechanism, gain, out, error);
    return status == PF_OK && e->check ? pf__evidence_finite(e, "prediction", out, error) : status;
}

// --- stage 1

static void compare(const pf__evidence *e, const double *x, const double *base, double *out)
{
    pf__scaled_difference(e->rows, e->n_chan, x, base, e->scale, e->n_scale, out);
}

pf_status pf__evidence_signatures(pf__evidence *e, pf_error *error)
{
    size_t n = (size_t)e->rows * (size_t)e->n_chan;
    pf_status status = pf__evidence_predict(e, 0, 1, e->nominal, error);
    for (int t = 0; t < e->n_targets && status == PF_OK; t++) {
        status = pf__evidence_predict(e, e->targets[t], e->g_cal, e->predicted, error);
        if (status == PF_OK) {
            compare(e, e->predicted, e->nominal, e->signatures + (size_t)t * n);
        }
    }
    return status;
}

void pf__evidence_residual(pf__evidence *e, const double *response)
{
    compare(e, response, e->nominal, e->residual);
}

void pf__evidence_whiten(pf__evidence *e)
{
    int n = e->rows * e->n_chan;
    if (!e->whiten) {
        return;
    }
    pf__whiten(n, e->whiten, e->residual);
    for (int t = 0; t < e->n_targets; t++) {
        pf__whiten(n, e->whiten, e->signatures + (size_t)t * (size_t)n);
    }
}

void pf__evidence_match(pf__evidence *e, pf_match *out)
{
    pf__match_targets(e->n_targets, e->rows * e->n_chan, e->signatures, e->residual, e->scratch,
                      out);
}

// One target in one pass. Values that are not finite show in the sums, so the response and the
// predictions are searched for them only then.
static pf_status read_single(pf__evidence *e, const double *response, pf_match *out,
                             pf_error *error)
{
    pf_status status = predict_unchecked(e, 0, 1, e->nominal, error);
    if (status == PF_OK) {
        status = predict_unchecked(e, e->targets[0], e->g_cal, e->predicted, error);
    }
    if (status != PF_OK || pf__match_window(e->rows * e->n_chan, response, e->nominal, e->predicted,
                                            e->inverse, out)) {
        return status;
    }
    if ((status = pf__evidence_finite(e, "response", response, error)) ||
        (status = pf__evidence_finite(e, "prediction", e->nominal, error)) ||
        (status = pf__evidence_finite(e, "prediction", e->predicted, error))) {
        return status;
    }
    return PF_OK; // too large a signature is unusable, too large a score is refused by its reader
}

pf_status pf__evidence_read(pf__evidence *e, const double *response, pf_match *out, pf_error *error)
{
    if (e->n_targets == 1 && e->inverse && !e->norm && !e->whiten) {
        return read_single(e, response, out, error);
    }
    pf_status status = e->check ? pf__evidence_finite(e, "response", response, error) : PF_OK;
    if (status == PF_OK && e->norm) {
        status = pf__evidence_predict(e, 0, 1, e->nominal, error);
    } else if (status == PF_OK) {
        status = pf__evidence_signatures(e, error);
    }
    if (status != PF_OK) {
        return status;
    }
    pf__evidence_residual(e, response);
    if (e->norm) {
        out[0] = pf__match_norm(pf__residual_norm(e->rows * e->n_chan, e->residual));
        return PF_OK;
    }
    pf__evidence_whiten(e);
    pf__evidence_match(e, out);
    return PF_OK;
}

bool pf__evidence_shows(const pf_kit *k, int probe, int target, const pf_match *match)
{
    return match->size >= PF_SIGNATURE_SHARE * k->signature[k->probe_target[probe] + target];
}

double pf__evidence_coordinate(const pf_kit *k, int probe, int target, const pf_match *match)
{
    int at = k->probe_target[probe] + target;
    return pf__coordinate(match->coefficient, k->centre_nominal[at], k->centre_changed[at]);
}

// --- stage 2

pf_status pf__evidence_distance(pf__evidence *e, const double *response, int mechanism, double gain,
                                double *distance, pf_error *error)
{
    pf_status status = pf__evidence_predict(e, mechanism, gain, e->predicted, error);
    if (status != PF_OK) {
        return status;
    }
    compare(e, response, e->predicted, e->residual);
    *distance = pf__discrepancy(e->rows * e->n_chan, e->residual);
    if (e->check && !isfinite(*distance)) {
        return pf_fail(error, PF_ERR_NONFINITE,
                       "response: its distance to the prediction for "
                       "mechanism %d is not finite",
                       mechanism);
    }
    return PF_OK;
}

double pf__evidence_size(pf__evidence *e)
{
    int n = e->rows * e->n_chan;
    compare(e, e->predicted, e->nominal, e->signatures);
    if (e->whiten) {
        pf__whiten(n, e->whiten, e->signatures);
    }
    return pf__residual_norm(n, e->signatures);
}
