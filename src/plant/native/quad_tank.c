// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "lanes.h"

#include <math.h>

// Quadruple tank: Johansson 2000, minimum-phase setting, with two added feeds to the upper tanks as
// in the modified four-tank process (Jorgensen, DTU). Each line has a duty pump at 3 V; the standby
// pumps and the feeds are off. Units: cm, s, V.

enum { N_TANKS = 4, N_OUTPUTS = 2 };

static const double tank_area[N_TANKS] = {28, 32, 28, 32}; // cm2
// Outlet in cm2 times sqrt(2 g), g = 981 cm/s2.
static const double outlet[N_TANKS] = {.071 * 44.294469180700204, .057 * 44.294469180700204,
                                       .071 * 44.294469180700204, .057 * 44.294469180700204};
static const double pump_1 = 3.33, pump_2 = 3.35; // cm3/(V s)
static const double share_1 = .70, share_2 = .60; // to the lower tanks
static const double feed = 3.33;                  // cm3/(V s), engineering choice
static const double duty_v = 3;                   // V of both duty pumps
static const double level_max = 20;               // cm

static double square(double x)
{
    return x * x;
}

// Levels at rest, where the outlets balance the duty pumps (12.263, 12.783, 1.634, 1.409 cm), each
// off by 3 %.
static void reset(double *x, pf_rng *rng)
{
    double line_1 = pump_1 * duty_v, line_2 = pump_2 * duty_v; // cm3/s
    double upper_1 = (1 - share_2) * line_2, upper_2 = (1 - share_1) * line_1;
    x[0] = square((share_1 * line_1 + upper_1) / outlet[0]);
    x[1] = square((share_2 * line_2 + upper_2) / outlet[1]);
    x[2] = square(upper_1 / outlet[2]);
    x[3] = square(upper_2 / outlet[3]);
    for (int i = 0; i < N_TANKS; i++) {
        x[i] *= 1 + (rng ? .03 * pf_rng_normal(rng) : 0);
    }
}

PF_INLINE void derivative(const double *knob, const double *x, const double *v, const double *w,
                          double *dx)
{
    (void)knob;
    double out[N_TANKS]; // cm3/s
    for (int i = 0; i < N_TANKS; i++) {
        out[i] = x[i] > 0 ? outlet[i] * sqrt(x[i]) : 0;
    }
    double line_1 = pump_1 * (duty_v + v[0] + v[1] + w[0]);
    double line_2 = pump_2 * (duty_v + v[2] + w[1]);
    dx[0] = (share_1 * line_1 + out[2] - out[0]) / tank_area[0];
    dx[1] = (share_2 * line_2 + out[3] - out[1]) / tank_area[1];
    dx[2] = ((1 - share_2) * line_2 + feed * v[3] - out[2]) / tank_area[2];
    dx[3] = ((1 - share_1) * line_1 + feed * v[4] - out[3]) / tank_area[3];
}

PF_INLINE void project(double *x)
{
    for (int i = 0; i < N_TANKS; i++) {
        x[i] = x[i] < 0 ? 0 : x[i] > level_max ? level_max : x[i];
    }
}

// Only the lower tanks have sensors, as in the rig.
PF_INLINE void output(const double *knob, const double *x, const double *v, const double *w,
                      double *y)
{
    (void)knob;
    (void)v;
    (void)w;
    y[0] = x[0];
    y[1] = x[1];
}

// V, 0 to 10 V each; of the duty pump the deviation from 3 V.
static const pf_mechanism mechanisms[] = {
    {"duty_1", -3, 7}, {"standby_1", 0, 10}, {"standby_2", 0, 10},
    {"feed_3", 0, 10}, {"feed_4", 0, 10},
};
static const pf_channel channels[] = {{"level_1", .1, .1}, {"level_2", .1, .1}}; // cm
static const double wind_phi[] = {0, 0};
static const double wind_sd[] = {.05, .05}; // V; ripple of both lines
static const double probe_amplitude[] = {.3, .75, .85, 1.3, 1.6};
static const double task_amplitude[] = {0, 2.5, 2.5, 2.5, 2.5};
static const double reveal[] = {.20, .30, .25, .25};
static const double importance[] = {1, 1.6, 1.2, 2};
static const pf_pulse probe = {8, 8, false, probe_amplitude};
static const pf_pulse task = {8, 12, false, task_amplitude};

PF_NATIVE_LANES(quad_tank)

const pf_plant_class pf_plant_quad_tank = {
    .info = {.name = "quad_tank",
             .title = "quadruple tank with standby pumps and upper feeds",
             .source = "preflight " PF_VERSION,
             .n_mech = 5,
             .n_chan = N_OUTPUTS,
             .n_state = N_TANKS,
             .dt_s = 5,
             .mechanisms = mechanisms,
             .channels = channels,
             .probe = &probe,
             .task = &task,
             .reveal = reveal,
             .importance = importance},
    .n_wind = 2,
    .wind_phi = wind_phi,
    .wind_sd = wind_sd,
    .substeps = 5,
    .reset = reset,
    .derivative = derivative,
    .project = project,
    .output = output,
    .lanes = &lanes,
};
