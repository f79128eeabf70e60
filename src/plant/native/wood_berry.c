// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "native.h"

#include <string.h>

// Distillation column: Wood and Berry 1973 with both feed channels. Inputs in lb/min as deviations
// from reflux 1.95, steam 1.71, feed 2.45; outputs in weight per cent. A standby reflux pump, steam
// and feed rest; the reflux duty pump is in use.

enum { N_INPUTS = 4, N_OUTPUTS = 2, HISTORY = 10, N_LAGS = N_INPUTS * N_OUTPUTS };

// State: one lag per input and output (input major), then per input its last ten values, newest
// first.
enum { PAST = N_LAGS, N_STATE = N_LAGS + N_INPUTS * HISTORY };

static const double rest[N_OUTPUTS] = {96.25, .5};

// gain exp(-delay s)/(tau s + 1), in minutes. The delay is `whole` steps of one minute and a
// fraction f, so an input acts in two parts of a step: first the older value for f with decay
// exp(-f/tau), then the newer one for 1 - f with exp(-(1 - f)/tau).
typedef struct lag {
    double gain;
    int whole;
    double first, second; // decays
} lag;

static const lag lags[N_LAGS] = {
    {12.8, 1, 1, .9418773265098680},                // delay 1, tau 16.7: duty pump to top
    {6.6, 7, 1, .9123394818817833},                 // 7, 10.9: to bottom
    {12.8, 1, 1, .9418773265098680},                // 1, 16.7: standby pump
    {6.6, 7, 1, .9123394818817833},                 // 7, 10.9
    {-18.9, 3, 1, .9534969548334767},               // 3, 21.0: steam
    {-19.4, 3, 1, .9329119603871474},               // 3, 14.4
    {3.8, 8, .9933110618128032, .9413853758894782}, // 8.1, 14.9: feed
    {4.9, 3, .9701515036966302, .9555630362682842}, // 3.4, 13.2
};

static void reset(double *x, pf_rng *rng)
{
    memset(x, 0, sizeof(double) * N_STATE);
    for (int i = 0; i < N_OUTPUTS && rng; i++) {
        x[i] = .1 * pf_rng_normal(rng);
    }
}

// Exact over one minute: inputs are constant between the steps. The feed also receives w.
static void advance(const double *knob, double *x, const double *v, const double *w)
{
    (void)knob;
    for (int j = 0; j < N_INPUTS; j++) {
        double *past = x + PAST + HISTORY * j;
        memmove(past + 1, past, sizeof(double) * (HISTORY - 1));
        past[0] = j == N_INPUTS - 1 ? v[j] + w[0] : v[j];
        for (int i = 0; i < N_OUTPUTS; i++) {
            int k = N_OUTPUTS * j + i;
            const lag *p = &lags[k];
            double z = p->first * x[k] + p->gain * (1 - p->first) * past[p->whole + 1];
            x[k] = p->second * z + p->gain * (1 - p->second) * past[p->whole];
        }
    }
}

static void output(const double *knob, const double *x, const double *v, const double *w, double *y)
{
    (void)knob;
    (void)v;
    (void)w;
    for (int i = 0; i < N_OUTPUTS; i++) {
        double percent = rest[i];
        for (int j = 0; j < N_INPUTS; j++) {
            percent += x[N_OUTPUTS * j + i];
        }
        y[i] = percent < 0 ? 0 : percent > 100 ? 100 : percent;
    }
}

static const pf_mechanism mechanisms[] = {
    {"reflux_duty", -.5, .5},
    {"reflux_standby", 0, .5},
    {"steam", -.5, .5},
    {"feed", -.9, .9},
};
static const pf_channel channels[] = {{"top", .05, .05}, {"bottom", .05, .05}};
static const double wind_phi[] = {.8};
static const double wind_sd[] = {.005}; // lb/min of feed
// Less steam: the bottom starts at .5 and must not reach zero.
static const double probe_amplitude[] = {.02, .085, -.053, .23};
static const double task_amplitude[] = {0, .12, -.12, .22};
static const double reveal[] = {.30, .45, .25};
static const double importance[] = {1, 2, 1.2};
static const pf_pulse probe = {8, 16, false, probe_amplitude}; // eight more rows for the dead time
static const pf_pulse task = {8, 24, false, task_amplitude};

const pf_plant_class pf_plant_wood_berry = {
    .info = {.name = "wood_berry",
             .title = "distillation column with dead times",
             .source = "preflight " PF_VERSION,
             .n_mech = N_INPUTS,
             .n_chan = N_OUTPUTS,
             .n_state = N_STATE,
             .dt_s = 60, // the model counts minutes; the exact step does not read this
             .mechanisms = mechanisms,
             .channels = channels,
             .probe = &probe,
             .task = &task,
             .reveal = reveal,
             .importance = importance},
    .n_wind = 1,
    .wind_phi = wind_phi,
    .wind_sd = wind_sd,
    .substeps = 1,
    .reset = reset,
    .advance = advance,
    .output = output,
};
