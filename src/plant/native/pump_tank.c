// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "lanes.h"

#include <math.h>

// Three-tank network: tank 1 flows to tank 3, tank 3 to tank 2, tank 2 drains. DTS200 benchmark
// (Mesbah et al. 2014), flow coefficients of Noura et al. 2009; third pump and drain valve as in
// Sim3Tanks (Farias et al. 2018). Pump 1 is in use; the other pumps and the valve are at rest.

enum { N_TANKS = 3 };

static const double tank_area = .0154; // m2
// Pipe section 5e-5 m2 times sqrt(2 g), g = 9.81 m/s2, in m^2.5/s.
static const double pipe = 5e-5 * 4.4294469180700204;
static const double mu_13 = .5, mu_32 = .5, mu_20 = .675;
static const double level_max = .62;    // m
static const double flow_rest = 3.5e-5; // m3/s of pump 1, the operating flow of the benchmark

PF_INLINE double signed_root(double x)
{
    return x < 0 ? -sqrt(-x) : sqrt(x);
}

// Levels at rest, each off by 3 %.
static void reset(double *x, pf_rng *rng)
{
    static const double rest[N_TANKS] = {.25458, .05482, .15470}; // m
    for (int i = 0; i < N_TANKS; i++) {
        x[i] = rest[i] * (1 + (rng ? .03 * pf_rng_normal(rng) : 0));
    }
}

PF_INLINE void derivative(const double *knob, const double *x, const double *v, const double *w,
                          double *dx)
{
    (void)knob;
    double q13 = pipe * mu_13 * signed_root(x[0] - x[2]);
    double q32 = pipe * mu_32 * signed_root(x[2] - x[1]);
    double q20 = pipe * mu_20 * signed_root(x[1]);
    double drain = pipe * v[3] * signed_root(x[0]);
    dx[0] = (flow_rest + v[0] - q13 - drain + w[0]) * (1 / tank_area);
    dx[1] = (v[1] + q32 - q20 + w[1]) * (1 / tank_area);
    dx[2] = (v[2] + q13 - q32 + w[2]) * (1 / tank_area);
}

PF_INLINE void project(double *x)
{
    for (int i = 0; i < N_TANKS; i++) {
        x[i] = x[i] < 0 ? 0 : x[i] > level_max ? level_max : x[i];
    }
}

PF_INLINE void output(const double *knob, const double *x, const double *v, const double *w,
                      double *y)
{
    (void)knob;
    (void)v;
    (void)w;
    for (int i = 0; i < N_TANKS; i++) {
        y[i] = x[i];
    }
}

// Flows in m3/s, of pump 1 as deviation from the operating flow; valve opening 0 to 1.
static const pf_mechanism mechanisms[] = {
    {"pump_1", -3.5e-5, 8.5e-5},
    {"pump_2", 0, 1.2e-4},
    {"pump_3", 0, 1.2e-4},
    {"drain_valve", 0, 1},
};
static const pf_channel channels[] = {
    {"level_1", 2e-3, 2e-3}, {"level_2", 2e-3, 2e-3}, {"level_3", 2e-3, 2e-3}, // m
};
static const double wind_phi[] = {0, 0, 0};
static const double wind_sd[] = {1.5e-6, 1.5e-6, 1.5e-6}; // m3/s
static const double probe_amplitude[] = {1e-5, 2.2e-5, 2.2e-5, .19};
static const double task_amplitude[] = {0, 3e-5, 3e-5, .25};
static const double reveal[] = {.35, .40, .25};
static const double importance[] = {1, 1.4, 2};
static const pf_pulse probe = {8, 8, false, probe_amplitude};
static const pf_pulse task = {8, 12, false, task_amplitude};

PF_NATIVE_LANES(pump_tank)

const pf_plant_class pf_plant_pump_tank = {
    .info = {.name = "pump_tank",
             .title = "three-tank network, three pumps and a drain valve",
             .source = "preflight " PF_VERSION,
             .n_mech = 4,
             .n_chan = N_TANKS,
             .n_state = N_TANKS,
             .dt_s = 5,
             .mechanisms = mechanisms,
             .channels = channels,
             .probe = &probe,
             .task = &task,
             .reveal = reveal,
             .importance = importance},
    .n_wind = N_TANKS,
    .wind_phi = wind_phi,
    .wind_sd = wind_sd,
    .substeps = 5,
    .reset = reset,
    .derivative = derivative,
    .project = project,
    .output = output,
    .lanes = &lanes,
};
