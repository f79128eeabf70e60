// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "misfit.h"

#include "constants.h"

#include <math.h>

// With several faults every target has a nearest gain of its own.
static int nearest_each(const pf_kit *k, const pf__look *look, double *others, int *gain)
{
    int mechanism = 0;
    for (int j = 0; j < k->n_mech; j++) {
        others[j] = 1;
    }
    for (int t = 0; t < look->n_targets; t++) {
        int own = pf__look_nearest_gain(look, t);
        if (own >= 0 && !isnan(look->z[t])) {
            mechanism = look->targets[t];
            *gain = own;
            others[mechanism] = pf__posterior_gains[own];
        }
    }
    return mechanism;
}

pf_status pf__misfit_predict(const pf_kit *k, const pf__look *look, pf__evidence *e, double *others,
                             const double **predicted, pf_error *error)
{
    bool many = k->faults == PF_FAULTS_MANY;
    int gain = -1, mechanism = 0;
    if (many) {
        mechanism = nearest_each(k, look, others, &gain);
    } else {
        int target = pf__look_nearest(look, &gain);
        mechanism = target >= 0 ? look->targets[target] : 0;
    }
    *predicted = e->nominal;
    if (mechanism == 0) {
        return PF_OK;
    }
    *predicted = e->predicted;
    e->others = many ? others : NULL;
    pf_status status =
        pf__evidence_predict(e, mechanism, pf__posterior_gains[gain], e->predicted, error);
    e->others = NULL;
    return status;
}

void pf__misfit_roots(const pf_kit *k, int probe, const double *response, const double *predicted,
                      double *root)
{
    int rows = pf_kit_probe_rows(k, probe), n = k->n_chan;
    const double *rms = k->residual_rms + (size_t)k->probe_row[probe] * (size_t)n;
    for (int c = 0; c < n; c++) {
        root[c] = 0;
    }
    for (int i = 0; i < rows * n; i++) {
        double scale = pf__kit_scale(k, i) * rms[i];
        double e = (response[i] - predicted[i]) / scale;
        root[i % n] += e * e;
    }
    for (int c = 0; c < n; c++) {
        root[c] = cbrt(root[c]);
    }
}

void pf__misfit_channels(const pf_kit *k, int probe, const double *response,
                         const double *predicted, double *u)
{
    const double *mean = k->misfit_mean + (size_t)probe * (size_t)k->n_chan;
    const double *sd = k->misfit_sd + (size_t)probe * (size_t)k->n_chan;
    pf__misfit_roots(k, probe, response, predicted, u);
    for (int c = 0; c < k->n_chan; c++) {
        bool stuck = pf__misfit_stuck(k, pf_kit_probe_rows(k, probe), response, c);
        u[c] = stuck ? PF_MISFIT_STILL : (u[c] - mean[c]) / sd[c];
    }
}

int pf__misfit_still(int rows, int n_chan, const double *response, int channel)
{
    const double *last = response + (size_t)(rows - 1) * (size_t)n_chan + channel;
    int n = 1;
    while (n < rows && last[-n * n_chan] == *last) {
        n++;
    }
    return n;
}

bool pf__misfit_stuck(const pf_kit *k, int rows, const double *response, int channel)
{
    return k->n_misfit > 0 &&
           pf__misfit_still(rows, k->n_chan, response, channel) > 2 * k->still[channel] + 1;
}

double pf__misfit_moved(int n_start, int n_chan, const double *start, int channel)
{
    double most = 0;
    for (int i = n_chan + channel; i < n_start; i += n_chan) {
        double moved = fabs(start[i] - start[i - n_chan]);
        most = moved <= most ? most : moved; // what is no number stays
    }
    return most;
}

bool pf__misfit_restless(const pf_kit *k, const double *start, int n_start, int channel)
{
    bool known = start && n_start == k->n_state;
    return k->n_before > 0 && !(known && pf__misfit_moved(n_start, k->n_chan, start, channel) <=
                                             PF_RESTLESS * k->before[channel]);
}

double pf__misfit_shape(double q, int n)
{
    double spread = 2.0 / (9.0 * n);
    return n > 0 ? (cbrt(q / n) - 1 + spread) / sqrt(spread) : 0;
}

void pf__misfit_reset(pf__misfit *m, int n_chan)
{
    for (int c = 0; c < n_chan; c++) {
        m->sum[c] = 0;
    }
    m->looks = m->look = m->shape_look = m->implausible = 0;
    m->channel = -1;
    m->chan = m->shape = 0;
}

void pf__misfit_add(pf__misfit *m, int n_chan, const double *u, double shape, int number)
{
    m->looks++;
    for (int c = 0; c < n_chan; c++) {
        m->sum[c] += u[c];
        double a = m->sum[c] / sqrt(m->looks);
        if (!(a <= m->chan)) { // what is no number fits nothing
            m->chan = isnan(a) ? INFINITY : a;
            m->channel = c;
            m->look = number;
        }
    }
    if (!(shape <= m->shape)) {
        m->shape = isnan(shape) ? INFINITY : shape;
        m->shape_look = number;
    }
}

double pf__misfit_value(const pf__misfit *m, const pf_kit *k)
{
    return k->n_misfit > 0 ? fmax(m->chan / k->misfit_chan, m->shape / k->misfit_shape) : 0;
}
