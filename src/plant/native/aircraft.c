// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "lanes.h"

// Short period and roll of a delta-canard fighter with redundant surfaces: ADMIRE (FOI-R-1624),
// per-surface linearisation at Mach 0.75 (Bouvier et al.). The inboard elevons carry the stability
// augmentation; canards and outboard elevons rest. Angles in rad, rates in rad/s; the tables below
// divide degrees by 57.29577951308232.

enum { N_SURFACES = 4, N_STATE = 7 };

// State: angle of attack, pitch rate, roll rate, surface positions.
enum { ALPHA, PITCH, ROLL, SURFACE };

static const double bandwidth = 20; // rad/s, surface actuators
static const double elevon_max = 25 / 57.29577951308232;
// rad/s: 150 deg/s elevons, 50 deg/s canards
static const double rate_max[N_SURFACES] = {150 / 57.29577951308232, 50 / 57.29577951308232,
                                            150 / 57.29577951308232, 150 / 57.29577951308232};

PF_INLINE double limit(double x, double most)
{
    return x < -most ? -most : x > most ? most : x;
}

static double draw(pf_rng *rng, double sd)
{
    return rng ? sd * pf_rng_normal(rng) : 0;
}

static void reset(double *x, pf_rng *rng)
{
    x[ALPHA] = draw(rng, .5 / 57.29577951308232);
    x[PITCH] = draw(rng, 1 / 57.29577951308232);
    x[ROLL] = draw(rng, 1 / 57.29577951308232);
    for (int j = 0; j < N_SURFACES; j++) {
        x[SURFACE + j] = 0;
    }
}

// x' = A (x + gust) + B d;  d' = clip(20 (ref - d), rate). Pairs move together: sum of both sides.
PF_INLINE void derivative(const double *knob, const double *x, const double *v, const double *w,
                          double *dx)
{
    (void)knob;
    const double *d = x + SURFACE;
    double alpha = x[ALPHA] + w[0], q = x[PITCH], both = d[2] + d[3];
    dx[ALPHA] = -1.85 * alpha + .96 * q - .38 * d[0] - .02 * d[1] - .10 * both;
    dx[PITCH] = 12.73 * alpha - 2.26 * q - 26.24 * d[0] + 14.14 * d[1] - 7.65 * both;
    dx[ROLL] = -3.67 * x[ROLL] + 25.2 * (d[3] - d[2]);
    for (int j = 0; j < N_SURFACES; j++) {
        double ref = j == 0 ? limit(v[0] + .8 * x[ALPHA] + .10 * q, elevon_max) : v[j];
        dx[SURFACE + j] = limit(bandwidth * (ref - d[j]), rate_max[j]);
    }
}

PF_INLINE void output(const double *knob, const double *x, const double *v, const double *w,
                      double *y)
{
    (void)knob;
    (void)v;
    (void)w;
    for (int i = 0; i < 3; i++) {
        y[i] = x[i];
    }
}

// rad: elevons -25 to 25 deg, canards -55 to 25 deg
static const pf_mechanism mechanisms[] = {
    {"inboard_elevons", -25 / 57.29577951308232, 25 / 57.29577951308232},
    {"canards", -55 / 57.29577951308232, 25 / 57.29577951308232},
    {"right_elevon", -25 / 57.29577951308232, 25 / 57.29577951308232},
    {"left_elevon", -25 / 57.29577951308232, 25 / 57.29577951308232},
};
// rad, rad/s; gusts widen the residual of the pitch rate beyond its noise
static const pf_channel channels[] = {
    {"alpha", .25 / 57.29577951308232, .25 / 57.29577951308232},
    {"pitch_rate", .25 / 57.29577951308232, .50 / 57.29577951308232},
    {"roll_rate", .25 / 57.29577951308232, .25 / 57.29577951308232},
};
// Vertical gust over 246 m/s of airspeed: light turbulence, Dryden length 533 m.
static const double wind_phi[] = {.9775290462529921}; // exp(-.05/2.2)
static const double wind_sd[] = {.5 / 246};
static const double probe_amplitude[] = {.5 / 57.29577951308232, 3.5 / 57.29577951308232,
                                         .65 / 57.29577951308232, .65 / 57.29577951308232};
static const double task_amplitude[] = {0, 6 / 57.29577951308232, 6 / 57.29577951308232,
                                        6 / 57.29577951308232};
static const double reveal[] = {.40, .30, .30};
static const double importance[] = {2, 1.2, 1.2};
static const pf_pulse probe = {8, 8, false, probe_amplitude};
static const pf_pulse task = {8, 12, false, task_amplitude};

PF_NATIVE_LANES(aircraft)

const pf_plant_class pf_plant_aircraft = {
    .info = {.name = "aircraft",
             .title = "short period of a fighter, redundant surfaces",
             .source = "preflight " PF_VERSION,
             .n_mech = N_SURFACES,
             .n_chan = 3,
             .n_state = N_STATE,
             .dt_s = .05,
             .mechanisms = mechanisms,
             .channels = channels,
             .probe = &probe,
             .task = &task,
             .reveal = reveal,
             .importance = importance},
    .n_wind = 1,
    .wind_phi = wind_phi,
    .wind_sd = wind_sd,
    .substeps = 5,
    .reset = reset,
    .derivative = derivative,
    .output = output,
    .lanes = &lanes,
};
