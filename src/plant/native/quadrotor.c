// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "lanes.h"

#include <math.h>

// Altitude control of a Crazyflie 2.x (parameters of gym-pybullet-drones, Panerati et al. 2021).
// The policy holds altitude through the collective; the three moment channels are idle. A gain is
// the effectiveness of a control channel ahead of the mixer: single rotors are never dormant.

enum { N_ROTORS = 4, N_CHANNELS = 8 };

// State: altitude, climb rate, roll, pitch, yaw, body rates, rotor speeds in rpm.
enum { ALTITUDE, CLIMB, ANGLE, RATE = ANGLE + 3, SPEED = RATE + 3, N_STATE = SPEED + N_ROTORS };

static const double mass = .027;                            // kg
static const double weight = .027 * 9.81;                   // N
static const double gravity = 9.81;                         // m/s2
static const double inertia[3] = {1.4e-5, 1.4e-5, 2.17e-5}; // kg m2
static const double force_factor = 3.16e-10;                // N/rpm2
static const double arm = .0397 * .70710678118654752440;    // m, lever about roll and pitch
static const double drag = 7.94e-12 / 3.16e-10;             // m, yaw moment over force
static const double force_max = 2.25 * .027 * 9.81 / 4;     // N per rotor, thrust to weight 2.25
static const double lag_s = .05;                            // rotor, engineering choice

static const double roll_sign[N_ROTORS] = {-1, -1, 1, 1};
static const double pitch_sign[N_ROTORS] = {-1, 1, 1, -1};
static const double yaw_sign[N_ROTORS] = {-1, 1, -1, 1};

static double draw(pf_rng *rng, double sd)
{
    return rng ? sd * pf_rng_normal(rng) : 0;
}

// Near hover at 1 m.
static void reset(double *x, pf_rng *rng)
{
    x[ALTITUDE] = 1 + draw(rng, .05);
    x[CLIMB] = draw(rng, .05);
    for (int i = 0; i < 3; i++) {
        x[ANGLE + i] = draw(rng, .02);
    }
    for (int i = 0; i < 3; i++) {
        x[RATE + i] = draw(rng, .05);
    }
    for (int i = 0; i < N_ROTORS; i++) {
        x[SPEED + i] = sqrt(weight / 4 / force_factor); // 14475.81 rpm
    }
}

// N, Nm
static const pf_mechanism mechanisms[] = {
    {"collective", -.15, .15},
    {"roll", -2.2e-3, 2.2e-3},
    {"pitch", -2.2e-3, 2.2e-3},
    {"yaw", -1e-3, 1e-3},
};

// Gains and limits act on the channels; the mixer turns them into the speeds (rpm) that the rotors
// are told to reach, which is what the rest of this plant takes as v.
PF_INLINE void deliver(const double *knob, const double *x, const double *u, const double *gains,
                       double *v)
{
    (void)knob;
    (void)x;
    double c[4];
    pf__fault_deliver(4, mechanisms, u, gains, c);
    for (int i = 0; i < N_ROTORS; i++) {
        double force = .25 * (weight + c[0] + roll_sign[i] * c[1] * (1 / arm) +
                              pitch_sign[i] * c[2] * (1 / arm) + yaw_sign[i] * c[3] * (1 / drag));
        force = force < 0 ? 0 : force > force_max ? force_max : force;
        v[i] = sqrt(force * (1 / force_factor));
    }
}

// Euler angles 3-2-1;  M v_z' = T cos phi cos theta - M g;  J om' = moments - om x J om
PF_INLINE void derivative(const double *knob, const double *x, const double *v, const double *w,
                          double *dx)
{
    (void)knob;
    double thrust = w[0], lift[3] = {0, 0, 0};
    for (int i = 0; i < N_ROTORS; i++) {
        double force = force_factor * x[SPEED + i] * x[SPEED + i];
        thrust += force;
        lift[0] += roll_sign[i] * force;
        lift[1] += pitch_sign[i] * force;
        lift[2] += yaw_sign[i] * force;
        dx[SPEED + i] = (v[i] - x[SPEED + i]) * (1 / lag_s);
    }
    double moment[3] = {arm * lift[0] + w[1], arm * lift[1] + w[2], drag * lift[2] + w[3]};
    double p = x[RATE], q = x[RATE + 1], r = x[RATE + 2];
    double sin_roll, cos_roll, sin_pitch, cos_pitch;
    pf__sin_cos(x[ANGLE], &sin_roll, &cos_roll);
    pf__sin_cos(x[ANGLE + 1], &sin_pitch, &cos_pitch);
    double turn = (sin_roll * q + cos_roll * r) / cos_pitch; // yaw' of the Euler angles
    dx[ALTITUDE] = x[CLIMB];
    dx[CLIMB] = thrust * cos_roll * cos_pitch * (1 / mass) - gravity;
    dx[ANGLE] = p + sin_pitch * turn;
    dx[ANGLE + 1] = cos_roll * q - sin_roll * r;
    dx[ANGLE + 2] = turn;
    dx[RATE] = (moment[0] - (inertia[2] - inertia[1]) * q * r) * (1 / inertia[0]);
    dx[RATE + 1] = (moment[1] - (inertia[0] - inertia[2]) * r * p) * (1 / inertia[1]);
    dx[RATE + 2] = (moment[2] - (inertia[1] - inertia[0]) * p * q) * (1 / inertia[2]);
}

PF_INLINE void output(const double *knob, const double *x, const double *v, const double *w,
                      double *y)
{
    (void)knob;
    (void)v;
    (void)w;
    for (int i = 0; i < N_CHANNELS; i++) {
        y[i] = x[i];
    }
}

// m (range finder), m/s and rad (state estimate), rad/s (gyro)
static const pf_channel channels[] = {
    {"altitude", .01, .01},   {"climb", .03, .03},    {"roll", .01, .01},
    {"pitch", .01, .01},      {"yaw", .01, .01},      {"roll_rate", .02, .02},
    {"pitch_rate", .02, .02}, {"yaw_rate", .02, .02},
};
static const double wind_phi[] = {.8, .8, .8, .8};
static const double wind_sd[] = {2e-3, 2e-6, 2e-6, 1e-6}; // N, Nm
static const double probe_amplitude[] = {.02, 1.3e-4, 1.3e-4, 1.2e-4};
static const double task_amplitude[] = {0, 5e-4, 5e-4, 2.5e-4};
static const double reveal[] = {.40, .35, .25};
static const double importance[] = {2, 2, 1};
static const pf_pulse probe = {8, 8, true, probe_amplitude};
static const pf_pulse task = {8, 12, true, task_amplitude};

PF_NATIVE_LANES(quadrotor)

const pf_plant_class pf_plant_quadrotor = {
    .info = {.name = "quadrotor",
             .title = "altitude control of a quadrotor, idle moment channels",
             .source = "preflight " PF_VERSION,
             .n_mech = 4,
             .n_chan = N_CHANNELS,
             .n_state = N_STATE,
             .dt_s = .02,
             .mechanisms = mechanisms,
             .channels = channels,
             .probe = &probe,
             .task = &task,
             .reveal = reveal,
             .importance = importance},
    .n_wind = 4,
    .wind_phi = wind_phi,
    .wind_sd = wind_sd,
    .substeps = 4,
    .reset = reset,
    .derivative = derivative,
    .deliver = deliver,
    .output = output,
    .lanes = &lanes,
};
