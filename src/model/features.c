// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "model_impl.h"

#include <math.h>
#include <string.h>

static const double pi = 3.14159265358979323846;

pf_status pf__features_check(int n_chan, const pf_channel_kind *kinds, pf_error *error)
{
    for (int c = 0; c < n_chan; c++) {
        if (kinds[c] != PF_CHANNEL_QUATERNION) {
            continue;
        }
        for (int i = 1; i < 4; i++) {
            if (c + i >= n_chan || kinds[c + i] != PF_CHANNEL_QUATERNION) {
                return pf_fail(error, PF_ERR_FORMAT,
                               "channel %d: a quaternion needs four channels in a row", c);
            }
        }
        c += 3;
    }
    return PF_OK;
}

int pf__features_count(int n_chan, const pf_channel_kind *kinds)
{
    int n = n_chan;
    for (int c = 0; c < n_chan; c++) {
        n += kinds[c] == PF_CHANNEL_ANGLE;
    }
    return n;
}

// Length one and the first non-zero number positive. Returns the sign that was taken out. A
// quaternion of no length is the identity; what is not a number stays so.
static double canonical(const double *q, double *out)
{
    double length = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
    if (length == 0) {
        out[0] = 1;
        out[1] = out[2] = out[3] = 0;
        return 1;
    }
    int first = 0;
    while (q[first] == 0) {
        first++;
    }
    double sign = q[first] < 0 ? -1 : 1;
    for (int i = 0; i < 4; i++) {
        out[i] = sign * q[i] / length;
    }
    return sign;
}

// Plain channels from c on, which are most of them and go as one.
static int plain_run(int n_chan, const pf_channel_kind *kinds, int c)
{
    int end = c;
    while (end < n_chan && kinds[end] != PF_CHANNEL_ANGLE && kinds[end] != PF_CHANNEL_QUATERNION) {
        end++;
    }
    return end - c;
}

void pf__features_of(int n_chan, const pf_channel_kind *kinds, const double *x, double *features)
{
    for (int c = 0; c < n_chan;) {
        int run;
        switch (kinds[c]) {
        case PF_CHANNEL_ANGLE:
            *features++ = sin(x[c]);
            *features++ = cos(x[c]);
            c++;
            break;
        case PF_CHANNEL_QUATERNION:
            canonical(x + c, features);
            features += 4;
            c += 4;
            break;
        default:
            run = plain_run(n_chan, kinds, c);
            memcpy(features, x + c, (size_t)run * sizeof *features);
            features += run;
            c += run;
        }
    }
}

void pf__features_history(int n_chan, const pf_channel_kind *kinds, int history, const double *x,
                          double *features)
{
    int n = pf__features_count(n_chan, kinds);
    for (int k = 0; k < history; k++) {
        pf__features_of(n_chan, kinds, x + (size_t)k * (size_t)n_chan,
                        features + (size_t)k * (size_t)n);
    }
    for (int i = 0; i < (history - 1) * n; i++) {
        features[i] -= features[i + n];
    }
}

double pf__features_wrapped(double angle)
{
    return angle - 2 * pi * round(angle / (2 * pi));
}

void pf__features_change(int n_chan, const pf_channel_kind *kinds, const double *x,
                         const double *next, double *change)
{
    for (int c = 0; c < n_chan;) {
        if (kinds[c] == PF_CHANNEL_QUATERNION) {
            double from[4], to[4], along = 0;
            canonical(x + c, from);
            canonical(next + c, to);
            for (int i = 0; i < 4; i++) {
                along += from[i] * to[i];
            }
            for (int i = 0; i < 4; i++) {
                change[c + i] = (along < 0 ? -to[i] : to[i]) - from[i];
            }
            c += 4;
            continue;
        }
        change[c] = next[c] - x[c];
        if (kinds[c] == PF_CHANNEL_ANGLE) {
            change[c] = pf__features_wrapped(change[c]);
        }
        c++;
    }
}

void pf__features_apply(int n_chan, const pf_channel_kind *kinds, const double *change, double *x)
{
    for (int c = 0; c < n_chan;) {
        int run = kinds[c] == PF_CHANNEL_ANGLE ? 1 : plain_run(n_chan, kinds, c);
        if (run > 0) {
            for (int i = 0; i < run; i++) {
                x[c + i] += change[c + i];
            }
            c += run;
            continue;
        }
        double q[4], length = 0, sign = canonical(x + c, q);
        for (int i = 0; i < 4; i++) {
            q[i] += change[c + i];
            length += q[i] * q[i];
        }
        length = sqrt(length);
        for (int i = 0; i < 4; i++) {
            x[c + i] = length != 0 ? sign * q[i] / length : (i == 0 ? sign : 0);
        }
        c += 4;
    }
}

// --- backwards

// out = (I - u u') d / length, with u = q / length: what moves a vector's direction. In place too.
static void direction_back(const double *q, const double *d, double sign, double *out)
{
    double square = q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3], along = 0;
    for (int i = 0; i < 4 && square > 0; i++) {
        along += q[i] * d[i] / square;
    }
    for (int i = 0; i < 4; i++) {
        out[i] = square > 0 ? sign * (d[i] - along * q[i]) / sqrt(square) : 0;
    }
}

void pf__features_of_back(int n_chan, const pf_channel_kind *kinds, const double *x,
                          const double *dfeatures, double *dx)
{
    const double *d = dfeatures;
    for (int c = 0; c < n_chan;) {
        double q[4], back[4];
        switch (kinds[c]) {
        case PF_CHANNEL_ANGLE:
            dx[c] += cos(x[c]) * d[0] - sin(x[c]) * d[1];
            d += 2;
            c++;
            break;
        case PF_CHANNEL_QUATERNION:
            direction_back(x + c, d, canonical(x + c, q), back);
            for (int i = 0; i < 4; i++) {
                dx[c + i] += back[i];
            }
            d += 4;
            c += 4;
            break;
        default:
            dx[c] += *d++;
            c++;
        }
    }
}

void pf__features_apply_back(int n_chan, const pf_channel_kind *kinds, const double *change,
                             const double *x, const double *dnext, double *dx, double *dchange)
{
    for (int c = 0; c < n_chan;) {
        if (kinds[c] != PF_CHANNEL_QUATERNION) {
            dchange[c] = dx[c] = dnext[c];
            c++;
            continue;
        }
        double q[4], sign = canonical(x + c, q);
        for (int i = 0; i < 4; i++) {
            q[i] += change[c + i];
        }
        direction_back(q, dnext + c, sign, dchange + c);
        direction_back(x + c, dchange + c, sign, dx + c);
        c += 4;
    }
}
