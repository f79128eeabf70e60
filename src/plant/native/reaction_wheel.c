// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "lanes.h"

#include <math.h>

// Four reaction wheels in a pyramid on a rigid body, one of them in use. Body and pyramid of the
// Basilisk reference spacecraft; wheel: Honeywell HR16 data sheet (0.2 Nm, 100 Nms at 6000 rpm).

enum { N_WHEELS = 4, N_STATE = 10 };

// State: modified Rodrigues parameters, body rate (rad/s), wheel speeds (rad/s).
enum { MRP = 0, RATE = 3, SPEED = 6 };

static const double inertia[3] = {900, 800, 600};            // kg m2
static const double wheel_inertia = .15915494309189533577;   // kg m2: 100 Nms / (200 pi rad/s)
static const double friction = 5e-4;                         // Nm, Coulomb; not scaled by the gain
static const double friction_speed = .1;                     // rad/s, smoothing
static const double speed_max_reset = 62.831853071795864769; // rad/s: 600 rpm

// Elevation 40 deg, azimuth 45, 135, 225, 315 deg: cos 40 / sqrt 2 across, sin 40 up.
static const double side_x[N_WHEELS] = {1, -1, -1, 1};
static const double side_y[N_WHEELS] = {1, 1, -1, -1};
static const double across = .54167522041970180, up = .64278760968653932632;

static double draw(pf_rng *rng, double sd)
{
    return rng ? sd * pf_rng_normal(rng) : 0;
}

PF_INLINE void cross(const double *a, const double *b, double *out)
{
    out[0] = a[1] * b[2] - a[2] * b[1];
    out[1] = a[2] * b[0] - a[0] * b[2];
    out[2] = a[0] * b[1] - a[1] * b[0];
}

static void reset(double *x, pf_rng *rng)
{
    for (int i = 0; i < 3; i++) {
        x[MRP + i] = draw(rng, .00125);
    }
    for (int i = 0; i < 3; i++) {
        x[RATE + i] = draw(rng, 1e-4);
    }
    for (int i = 0; i < N_WHEELS; i++) {
        x[SPEED + i] = rng ? speed_max_reset * (2 * pf_rng_uniform(rng) - 1) : 0;
    }
}

// Sum over the wheels of value times axis.
PF_INLINE void along_axes(const double *value, double *out)
{
    double sum[3] = {0, 0, 0};
    for (int i = 0; i < N_WHEELS; i++) {
        sum[0] += side_x[i] * value[i];
        sum[1] += side_y[i] * value[i];
        sum[2] += value[i];
    }
    out[0] = across * sum[0];
    out[1] = across * sum[1];
    out[2] = up * sum[2];
}

// m' = 1/4 [(1 - |m|^2) om + 2 m x om + 2 m (m.om)];
// J om' = -sum a_i u_i + w - om x (J om + J_s sum Om_i a_i);  Om_i' = u_i/J_s - a_i.om'
PF_INLINE void derivative(const double *knob, const double *x, const double *v, const double *w,
                          double *dx)
{
    (void)knob;
    const double *m = x + MRP, *om = x + RATE, *speed = x + SPEED;
    double motor[N_WHEELS], reaction[3], stored[3], momentum[3], gyro[3], turn[3];
    for (int i = 0; i < N_WHEELS; i++) {
        motor[i] = v[i] - friction * pf__tanh(speed[i] * (1 / friction_speed));
    }
    along_axes(motor, reaction);
    along_axes(speed, stored);
    for (int i = 0; i < 3; i++) {
        momentum[i] = inertia[i] * om[i] + wheel_inertia * stored[i];
    }
    cross(om, momentum, gyro);
    cross(m, om, turn);
    double square = m[0] * m[0] + m[1] * m[1] + m[2] * m[2];
    double along = m[0] * om[0] + m[1] * om[1] + m[2] * om[2];
    double *acceleration = dx + RATE;
    for (int i = 0; i < 3; i++) {
        dx[MRP + i] = .25 * ((1 - square) * om[i] + 2 * turn[i] + 2 * m[i] * along);
        acceleration[i] = (w[i] - reaction[i] - gyro[i]) / inertia[i];
    }
    for (int i = 0; i < N_WHEELS; i++) {
        double body = across * (side_x[i] * acceleration[0] + side_y[i] * acceleration[1]) +
                      up * acceleration[2];
        dx[SPEED + i] = motor[i] * (1 / wheel_inertia) - body;
    }
}

PF_INLINE void output(const double *knob, const double *x, const double *v, const double *w,
                      double *y)
{
    (void)knob;
    (void)v;
    (void)w;
    for (int i = 0; i < 3; i++) {
        y[i] = 4 * x[MRP + i];
        y[3 + i] = x[RATE + i];
    }
}

// Motor torque in Nm.
static const pf_mechanism mechanisms[] = {
    {"wheel_0", -.2, .2},
    {"wheel_1", -.2, .2},
    {"wheel_2", -.2, .2},
    {"wheel_3", -.2, .2},
};
// rad (20 arcsec), rad/s
static const pf_channel channels[] = {
    {"angle_x", 1e-4, 1e-4}, {"angle_y", 1e-4, 1e-4}, {"angle_z", 1e-4, 1e-4},
    {"rate_x", 1e-4, 1e-4},  {"rate_y", 1e-4, 1e-4},  {"rate_z", 1e-4, 1e-4},
};
static const double wind_phi[] = {.6, .6, .6};
static const double wind_sd[] = {1e-3, 1e-3, 1e-3}; // Nm
static const double probe_amplitude[] = {.02, .042, .042, .042};
static const double task_amplitude[] = {0, .05, .05, .05};
static const double reveal[] = {.25, .35, .40};
static const double importance[] = {1, 1.4, 2};
static const pf_pulse probe = {8, 8, false, probe_amplitude};
static const pf_pulse task = {8, 12, false, task_amplitude};

PF_NATIVE_LANES(reaction_wheel)

const pf_plant_class pf_plant_reaction_wheel = {
    .info = {.name = "reaction_wheel",
             .title = "four reaction wheels in a pyramid",
             .source = "preflight " PF_VERSION,
             .n_mech = N_WHEELS,
             .n_chan = 6,
             .n_state = N_STATE,
             .dt_s = 1,
             .mechanisms = mechanisms,
             .channels = channels,
             .probe = &probe,
             .task = &task,
             .reveal = reveal,
             .importance = importance},
    .n_wind = 3,
    .wind_phi = wind_phi,
    .wind_sd = wind_sd,
    .substeps = 4,
    .reset = reset,
    .derivative = derivative,
    .output = output,
    .lanes = &lanes,
};
