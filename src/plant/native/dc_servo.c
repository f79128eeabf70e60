// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "lanes.h"

// Four motors geared to one load: Quanser SRV02 in high gear (manual, table 3.1), one duty drive
// and three standby drives. Amplifiers hold 0 V when dormant, so back-EMF always damps. The Coulomb
// friction is an engineering choice.

enum { N_MOTORS = 4 };
enum { ANGLE, SPEED, N_STATE };

static const double emf = 7.68e-3 * 70;                           // V s/rad at the load: k_m K_g
static const double drive = .90 * .69 * 70 * 7.68e-3 / 2.6;       // Nm/V: eta_g eta_m K_g k_t / R_m
static const double inertia = 4 * .9 * 70 * 70 * 4.6e-7 + 5.3e-5; // kg m2, load disc added
static const double viscous = 4 * .015;                           // Nm s
static const double coulomb = .012;                               // Nm
static const double coulomb_speed = .05;                          // rad/s, smoothing

static void reset(double *x, pf_rng *rng)
{
    x[ANGLE] = rng ? 2 * pf_rng_uniform(rng) - 1 : 0;
    x[SPEED] = rng ? .02 * pf_rng_normal(rng) : 0;
}

PF_INLINE void derivative(const double *knob, const double *x, const double *v, const double *w,
                          double *dx)
{
    (void)knob;
    double speed = x[SPEED];
    double voltage = v[0] + v[1] + v[2] + v[3];
    double torque = drive * voltage - (drive * N_MOTORS * emf + viscous) * speed -
                    coulomb * pf__tanh(speed * (1 / coulomb_speed)) + w[0];
    dx[ANGLE] = speed;
    dx[SPEED] = torque * (1 / inertia);
}

PF_INLINE void output(const double *knob, const double *x, const double *v, const double *w,
                      double *y)
{
    (void)knob;
    (void)v;
    (void)w;
    y[0] = x[ANGLE];
    y[1] = x[SPEED];
}

// V, nominal motor voltage.
static const pf_mechanism mechanisms[] = {
    {"motor_0", -6, 6},
    {"motor_1", -6, 6},
    {"motor_2", -6, 6},
    {"motor_3", -6, 6},
};
// rad (one count of 4096), rad/s (tachometer)
static const pf_channel channels[] = {{"angle", 1.5e-3, 1.5e-3}, {"speed", .05, .05}};
static const double wind_phi[] = {.5};
static const double wind_sd[] = {.004}; // Nm
static const double probe_amplitude[] = {.5, 1, 1, 1};
static const double task_amplitude[] = {0, 1.5, 1.5, 1.5};
static const double reveal[] = {.25, .35, .40};
static const double importance[] = {1, 1.4, 2};
static const pf_pulse probe = {8, 8, false, probe_amplitude};
static const pf_pulse task = {8, 12, false, task_amplitude};

PF_NATIVE_LANES(dc_servo)

const pf_plant_class pf_plant_dc_servo = {
    .info = {.name = "dc_servo",
             .title = "four motors on one shaft",
             .source = "preflight " PF_VERSION,
             .n_mech = N_MOTORS,
             .n_chan = 2,
             .n_state = N_STATE,
             .dt_s = .01,
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
