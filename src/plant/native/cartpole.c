// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "classic.h"

#include <math.h>

// Gymnasium's CartPole-v1 with the magnitude of its force set at every step (a native action is the
// magnitude 1 to either side): right and left are two directional mechanisms. The order of
// operations is Gymnasium's, so a step has its bits. Scales are the rms of nominal pulse responses
// minus free ones over its resets 1000 to 1039. The left diagnostic is the paper's nuisance: five
// times the charge, and (our choice) three times the noise.

enum { PLACE, SPEED, ANGLE, RATE, N_STATE };

static const double force_limit = 10; // N
static const double dt = .02;
static const double gravity = 9.8, pole_mass = .1, total_mass = 1.1;
static const double length = .5, pole_moment = .05; // m (half the pole), kg m
static const double place_limit = 2.4, angle_limit = 12 * 2 * PF_CLASSIC_PI / 360;

// The nominal law: LQR of the native Euler model, Q = I, R = 100. It uses at most .12 of the limit.
static const double lqr[] = {.09223634, .49259716, 23.17050705, 5.85570809};

static void reset(double *x, pf_rng *rng)
{
    for (int i = 0; i < N_STATE; i++) {
        x[i] = rng ? .05 * (2 * pf_rng_uniform(rng) - 1) : 0;
    }
}

static void advance(const double *knob, double *x, const double *v, const double *w)
{
    (void)knob;
    (void)w;
    double force = force_limit * (v[1] - v[2]), cosine = cos(x[ANGLE]), sine = sin(x[ANGLE]);
    double push = (force + pole_moment * (x[RATE] * x[RATE]) * sine) / total_mass;
    double turn = (gravity * sine - cosine * push) /
                  (length * (4.0 / 3.0 - pole_mass * (cosine * cosine) / total_mass));
    double acceleration = push - pole_moment * turn * cosine / total_mass;
    x[PLACE] = x[PLACE] + dt * x[SPEED];
    x[SPEED] = x[SPEED] + dt * acceleration;
    x[ANGLE] = x[ANGLE] + dt * x[RATE];
    x[RATE] = x[RATE] + dt * turn;
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

static double noise(const double *u)
{
    return u[2] != 0 ? 3 : 1;
}

// --- the task: keep the pole up

static double law(const double *x)
{
    return lqr[PLACE] * x[PLACE] + lqr[SPEED] * x[SPEED] + lqr[ANGLE] * x[ANGLE] +
           lqr[RATE] * x[RATE];
}

static void start(int policy, double *x)
{
    pf__classic_mirror(policy, law(x), N_STATE, x);
}

static void command(int policy, const double *x, double *u)
{
    (void)policy;
    pf__classic_push(law(x) / force_limit, u);
}

static bool score(int policy, const double *x, const double *v, const double *next, double *sum)
{
    (void)policy;
    (void)x;
    (void)v;
    *sum += 1;
    return fabs(next[PLACE]) <= place_limit && fabs(next[ANGLE]) <= angle_limit;
}

static const pf_mechanism mechanisms[] = {{"none", 0, 0}, {"right", 0, 1}, {"left", 0, 1}};
static const pf_channel channels[] = {{"place", .25 * .01379, .01379},
                                      {"speed", .25 * .24676, .24676},
                                      {"angle", .25 * .020902, .020902},
                                      {"rate", .25 * .37941, .37941}};
static const pf_channel_kind kinds[] = {PF_CHANNEL_PLAIN, PF_CHANNEL_PLAIN, PF_CHANNEL_ANGLE,
                                        PF_CHANNEL_PLAIN};
static const double reveal[] = {.4, .6};
static const double importance[] = {1, 2.5};
static const double charge[] = {.01, .05};
static const pf_policy policies[] = {
    {"balance_right", 2, pf__classic_both, 500, 500, 1, "stability_regret"},
    {"balance_left", 2, pf__classic_both, 500, 500, 2, "stability_regret"}};
static const pf_plant_loops loops = {.start = start, .command = command, .score = score};

const pf_plant_class pf_plant_cartpole = {
    .info = {.name = "cartpole",
             .title = "Gymnasium's CartPole-v1, force in two directions",
             .source = "preflight " PF_VERSION,
             .n_mech = 3,
             .n_chan = 4,
             .n_state = N_STATE,
             .dt_s = .02,
             .mechanisms = mechanisms,
             .channels = channels,
             .kinds = kinds,
             .probe = &pf__classic_probe,
             .task = &pf__classic_task,
             .reveal = reveal,
             .importance = importance,
             .n_policies = 2,
             .policies = policies,
             .deterministic = true,
             .charge = charge},
    .reset = reset,
    .advance = advance,
    .output = output,
    .noise = noise,
    .loops = &loops,
};
