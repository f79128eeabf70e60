// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "classic.h"

#include <math.h>

// Gymnasium's Acrobot-v1 (the book's equations): two links, a motor of 1 Nm at the joint between
// them as two directional mechanisms. The order of operations is Gymnasium's, so a step has its
// bits. Scales are the rms of nominal pulse responses minus free ones over its resets 1000 to 1039.

enum { ANGLE_1, ANGLE_2, SPEED_1, SPEED_2, N_STATE };

static const double torque_limit = 1; // Nm
static const double dt = .2;
static const double speed_limit_1 = 4 * PF_CLASSIC_PI, speed_limit_2 = 9 * PF_CLASSIC_PI;
// kg, m, kg m2: both links alike
static const double mass = 1, length = 1, centre = .5, inertia = 1, gravity = 9.8;

// The nominal law pumps energy with half the native torque, so that a correction of 2 fits.
static const double pumping = .5; // Nm

static void reset(double *x, pf_rng *rng)
{
    // rounded as Gymnasium's
    for (int i = 0; i < N_STATE; i++) {
        x[i] = rng ? (float)(.1 * (2 * pf_rng_uniform(rng) - 1)) : 0;
    }
}

static void derivative(const double *x, double torque, double *dx)
{
    double s1 = x[SPEED_1], s2 = x[SPEED_2], cos2 = cos(x[ANGLE_2]), sin2 = sin(x[ANGLE_2]);
    const double lc = length * centre, cc = centre * centre;
    double d1 = mass * cc + mass * (length * length + cc + 2 * lc * cos2) + inertia + inertia;
    double d2 = mass * (cc + lc * cos2) + inertia;
    double phi2 = mass * centre * gravity * cos(x[ANGLE_1] + x[ANGLE_2] - PF_CLASSIC_PI / 2);
    double phi1 = -mass * length * centre * pf__classic_square(s2) * sin2 -
                  2 * mass * length * centre * s2 * s1 * sin2 +
                  (mass * centre + mass * length) * gravity * cos(x[ANGLE_1] - PF_CLASSIC_PI / 2) +
                  phi2;
    double a2 =
        (torque + d2 / d1 * phi1 - mass * length * centre * pf__classic_square(s1) * sin2 - phi2) /
        (mass * cc + inertia - pf__classic_square(d2) / d1);
    dx[ANGLE_1] = s1;
    dx[ANGLE_2] = s2;
    dx[SPEED_1] = -(d2 * a2 + phi1) / d1;
    dx[SPEED_2] = a2;
}

static double wrapped(double angle)
{
    while (angle > PF_CLASSIC_PI) {
        angle -= 2 * PF_CLASSIC_PI;
    }
    while (angle < -PF_CLASSIC_PI) {
        angle += 2 * PF_CLASSIC_PI;
    }
    return angle;
}

static double bounded(double value, double limit)
{
    return value < -limit ? -limit : value > limit ? limit : value;
}

static void advance(const double *knob, double *x, const double *v, const double *w)
{
    (void)knob;
    (void)w;
    double torque = torque_limit * (v[1] - v[2]);
    double k1[N_STATE], k2[N_STATE], k3[N_STATE], k4[N_STATE], y[N_STATE];
    derivative(x, torque, k1);
    for (int i = 0; i < N_STATE; i++) {
        y[i] = x[i] + dt / 2 * k1[i];
    }
    derivative(y, torque, k2);
    for (int i = 0; i < N_STATE; i++) {
        y[i] = x[i] + dt / 2 * k2[i];
    }
    derivative(y, torque, k3);
    for (int i = 0; i < N_STATE; i++) {
        y[i] = x[i] + dt * k3[i];
    }
    derivative(y, torque, k4);
    for (int i = 0; i < N_STATE; i++) {
        x[i] = x[i] + dt / 6 * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]);
    }
    x[ANGLE_1] = wrapped(x[ANGLE_1]);
    x[ANGLE_2] = wrapped(x[ANGLE_2]);
    x[SPEED_1] = bounded(x[SPEED_1], speed_limit_1);
    x[SPEED_2] = bounded(x[SPEED_2], speed_limit_2);
}

static void output(const double *knob, const double *x, const double *v, const double *w, double *y)
{
    (void)knob;
    (void)v;
    (void)w;
    for (int i = 0; i < N_STATE; i++) {
        y[i] = x[i];
    }
}

// --- the task: swing the free end above the line, in as few steps as possible

static double law(const double *x)
{
    return -pumping * pf__classic_sign(x[SPEED_1]);
}

static void start(int policy, double *x)
{
    pf__classic_mirror(policy, law(x), N_STATE, x);
}

static void command(int policy, const double *x, double *u)
{
    (void)policy;
    pf__classic_push(law(x) / torque_limit, u);
}

static bool score(int policy, const double *x, const double *v, const double *next, double *sum)
{
    (void)policy;
    (void)x;
    (void)v;
    *sum -= 1;
    return !(-cos(next[ANGLE_1]) - cos(next[ANGLE_2] + next[ANGLE_1]) > 1);
}

static const pf_mechanism mechanisms[] = {{"none", 0, 0}, {"plus", 0, 1}, {"minus", 0, 1}};
static const pf_channel channels[] = {{"angle_1", .25 * .026389, .026389},
                                      {"angle_2", .25 * .092534, .092534},
                                      {"speed_1", .25 * .047317, .047317},
                                      {"speed_2", .25 * .11199, .11199}};
static const pf_channel_kind kinds[] = {PF_CHANNEL_ANGLE, PF_CHANNEL_ANGLE, PF_CHANNEL_PLAIN,
                                        PF_CHANNEL_PLAIN};
static const pf_policy policies[] = {
    {"swing_plus", 2, pf__classic_both, 500, 162, 1, "return_regret"},
    {"swing_minus", 2, pf__classic_both, 500, 162, 2, "return_regret"}};
static const pf_plant_loops loops = {.start = start, .command = command, .score = score};

const pf_plant_class pf_plant_acrobot = {
    .info = {.name = "acrobot",
             .title = "Gymnasium's Acrobot-v1, torque in two directions",
             .source = "preflight " PF_VERSION,
             .n_mech = 3,
             .n_chan = 4,
             .n_state = N_STATE,
             .dt_s = .2,
             .mechanisms = mechanisms,
             .channels = channels,
             .kinds = kinds,
             .probe = &pf__classic_probe,
             .task = &pf__classic_task,
             .n_policies = 2,
             .policies = policies,
             .deterministic = true},
    .reset = reset,
    .advance = advance,
    .output = output,
    .loops = &loops,
};
