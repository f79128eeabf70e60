// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "classic.h"

#include <math.h>

// Gymnasium's Pendulum-v1: a rod on a motor of 2 Nm, two directional mechanisms on one torque. The
// order of operations is Gymnasium's, so a step has its bits. Scales are the rms of nominal pulse
// responses minus free ones over its resets 1000 to 1039.

enum { ANGLE, SPEED, N_STATE };

static const double torque_limit = 2; // Nm
static const double speed_limit = 8;  // rad/s
static const double dt = .05;

// The nominal law: energy pumping with half the native torque, so that a correction of 2 fits, and
// near the top the LQR of the native cost (Q diag(1, .1), R .001).
static const double pumping = 1;       // Nm
static const double top = .16;         // rad: .8 of what 1 Nm can hold
static const double energy_band = .05; // J, of no push
static const double lqr_angle = 19.69321655, lqr_speed = 5.26250008;

// numpy's floor modulo
static double wrapped(double angle)
{
    double turn = 2 * PF_CLASSIC_PI, rest = fmod(angle + PF_CLASSIC_PI, turn);
    return (rest < 0 ? rest + turn : rest) - PF_CLASSIC_PI;
}

static void reset(double *x, pf_rng *rng)
{
    x[ANGLE] = rng ? PF_CLASSIC_PI * (2 * pf_rng_uniform(rng) - 1) : 0;
    x[SPEED] = rng ? 2 * pf_rng_uniform(rng) - 1 : 0;
}

static void advance(const double *knob, double *x, const double *v, const double *w)
{
    (void)knob;
    (void)w;
    double torque = torque_limit * (v[1] - v[2]);
    double speed = x[SPEED] + (15 * sin(x[ANGLE]) + 3 * torque) * dt;
    x[SPEED] = speed < -speed_limit ? -speed_limit : speed > speed_limit ? speed_limit : speed;
    x[ANGLE] = x[ANGLE] + x[SPEED] * dt;
}

static void output(const double *knob, const double *x, const double *v, const double *w, double *y)
{
    (void)knob;
    (void)v;
    (void)w;
    y[0] = cos(x[ANGLE]);
    y[1] = sin(x[ANGLE]);
    y[2] = x[SPEED];
}

// --- the task: swing up and hold, scored by the native rewards

static double law(const double *x)
{
    double angle = wrapped(x[ANGLE]), speed = x[SPEED];
    if (fabs(angle) < top) {
        double torque = -lqr_angle * angle - lqr_speed * speed;
        return torque < -pumping ? -pumping : torque > pumping ? pumping : torque;
    }
    double energy = speed * speed / 6 + 5 * (cos(angle) - 1);
    return fabs(energy) <= energy_band ? 0 : -pumping * pf__classic_sign(speed * energy);
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

// The native reward is of the state before the step.
static bool score(int policy, const double *x, const double *v, const double *next, double *sum)
{
    (void)policy;
    (void)next;
    double torque = torque_limit * (v[1] - v[2]);
    *sum -= pf__classic_square(wrapped(x[ANGLE])) + .1 * pf__classic_square(x[SPEED]) +
            .001 * pf__classic_square(torque);
    return true;
}

static const pf_mechanism mechanisms[] = {{"none", 0, 0}, {"plus", 0, 1}, {"minus", 0, 1}};
static const pf_channel channels[] = {{"cos", .25 * .043306, .043306},
                                      {"sin", .25 * .052528, .052528},
                                      {"speed", .25 * .35096, .35096}};
static const double reveal[] = {.4, .6};
static const double importance[] = {1, 2.5};
static const pf_policy policies[] = {
    {"swing_plus", 2, pf__classic_both, 200, 233, 1, "return_regret"},
    {"swing_minus", 2, pf__classic_both, 200, 233, 2, "return_regret"}};
static const pf_plant_loops loops = {.start = start, .command = command, .score = score};

const pf_plant_class pf_plant_pendulum = {
    .info = {.name = "pendulum",
             .title = "Gymnasium's Pendulum-v1, torque in two directions",
             .source = "preflight " PF_VERSION,
             .n_mech = 3,
             .n_chan = 3,
             .n_state = N_STATE,
             .dt_s = .05,
             .mechanisms = mechanisms,
             .channels = channels,
             .probe = &pf__classic_probe,
             .task = &pf__classic_task,
             .reveal = reveal,
             .importance = importance,
             .n_policies = 2,
             .policies = policies,
             .deterministic = true},
    .reset = reset,
    .advance = advance,
    .output = output,
    .loops = &loops,
};
