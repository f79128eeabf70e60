// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "lanes.h"

#include <math.h>

// Over-actuated attitude control: eight hydrazine thrusters on a rigid body, one of them in use.
// Body and thruster set of the Basilisk reference spacecraft; thruster data of the MOOG Monarc-1.

enum { N_THRUSTERS = 8, N_STATE = 6 };

// Knobs of the mechanism study; all off by default.
enum { KNOB_DEAD_BAND, KNOB_SATURATION, KNOB_COUPLING, KNOB_THRUST };

static const pf_knob knobs[] = {
    {"dead_band", 0, "dead band after the gain, in duty"},
    {"saturation", 0, "largest duty after the gain; 0: none"},
    {"coupling", 0, "share of the other dormant commands that leaks in before the gain"},
    {"thrust", 1, "thrust relative to nominal, for a mismatched twin"},
};

static const double inertia[3] = {900, 800, 600};                       // kg m2
static const double thrust_n = .9;                                      // N
static const double min_duty = .04;                                     // 20 ms of 0.5 s
static const double side_x[N_THRUSTERS] = {1, 1, -1, -1, -1, -1, 1, 1}; // signs of position
static const double side_y[N_THRUSTERS] = {-1, -1, -1, -1, 1, 1, 1, 1};
static const double side_z[N_THRUSTERS] = {1, -1, 1, -1, 1, -1, 1, -1};

PF_INLINE void cross(const double *a, const double *b, double *out)
{
    out[0] = a[1] * b[2] - a[2] * b[1];
    out[1] = a[2] * b[0] - a[0] * b[2];
    out[2] = a[0] * b[1] - a[1] * b[0];
}

// Torque of thruster j at full duty. With r = (a sx, b sy, c sz) and d = -(sx, sy, 0)/sqrt 2,
// F (r x d) = F/sqrt 2 (c sz sy, -c sz sx, (b - a) sx sy).
PF_INLINE void torque_of(int j, double *torque)
{
    const double a = .0387495, b = 1.2061827, c = .85245; // m
    const double force = thrust_n * 0.70710678118654752440;
    torque[0] = force * c * side_z[j] * side_y[j];
    torque[1] = -force * c * side_z[j] * side_x[j];
    torque[2] = force * (b - a) * side_x[j] * side_y[j];
}

static double draw(pf_rng *rng, double sd)
{
    return rng ? sd * pf_rng_normal(rng) : 0;
}

static void reset(double *x, pf_rng *rng)
{
    for (int i = 0; i < 3; i++) {
        x[i] = draw(rng, .00125);
    }
    for (int i = 3; i < 6; i++) {
        x[i] = draw(rng, 2e-4);
    }
}

// The dead zone acts on the command (valve timing), the gain on the thrust.
PF_INLINE void deliver(const double *knob, const double *x, const double *u, const double *gains,
                       double *v)
{
    (void)x;
    double others = 0, band = knob[KNOB_DEAD_BAND];
    double most = knob[KNOB_SATURATION] > 0 ? knob[KNOB_SATURATION] : INFINITY;
    for (int j = 1; j < N_THRUSTERS; j++) {
        others += u[j];
    }
    PF_UNROLL
    for (int j = 0; j < N_THRUSTERS; j++) {
        double leak = knob[KNOB_COUPLING] * (others - u[j]) / (N_THRUSTERS - 2);
        double duty = j > 0 && knob[KNOB_COUPLING] != 0 ? u[j] + leak : u[j];
        duty = duty < 0 ? 0 : duty > 1 ? 1 : duty;
        double thrust = gains[j] * (duty < min_duty ? 0 : duty);
        double beyond = thrust > band ? thrust - band : 0;
        thrust = band > 0 ? beyond : thrust;
        v[j] = thrust > most ? most : thrust;
    }
}

// m' = 1/4 [(1 - |m|^2) om + 2 m x om + 2 m (m.om)];  J om' = torques + w - om x J om
PF_INLINE void derivative(const double *knob, const double *x, const double *v, const double *w,
                          double *dx)
{
    const double *m = x, *om = x + 3;
    double torque[3] = {w[0], w[1], w[2]};
    PF_UNROLL
    for (int j = 0; j < N_THRUSTERS; j++) {
        double full[3];
        torque_of(j, full);
        for (int i = 0; i < 3; i++) {
            torque[i] += v[j] * knob[KNOB_THRUST] * full[i];
        }
    }
    double square = m[0] * m[0] + m[1] * m[1] + m[2] * m[2];
    double along = m[0] * om[0] + m[1] * om[1] + m[2] * om[2];
    double turn[3], momentum[3], gyro[3];
    cross(m, om, turn);
    for (int i = 0; i < 3; i++) {
        momentum[i] = inertia[i] * om[i];
    }
    cross(om, momentum, gyro);
    for (int i = 0; i < 3; i++) {
        dx[i] = .25 * ((1 - square) * om[i] + 2 * turn[i] + 2 * m[i] * along);
        dx[3 + i] = (torque[i] - gyro[i]) / inertia[i];
    }
}

PF_INLINE void output(const double *knob, const double *x, const double *v, const double *w,
                      double *y)
{
    (void)knob;
    (void)v;
    (void)w;
    for (int i = 0; i < 3; i++) {
        y[i] = 4 * x[i];
        y[3 + i] = x[3 + i];
    }
}

static const pf_mechanism mechanisms[] = {
    {"thruster0", 0, 1}, {"thruster1", 0, 1}, {"thruster2", 0, 1}, {"thruster3", 0, 1},
    {"thruster4", 0, 1}, {"thruster5", 0, 1}, {"thruster6", 0, 1}, {"thruster7", 0, 1},
};
static const pf_channel channels[] = {
    {"angle_x", 2e-4, 2e-4}, {"angle_y", 2e-4, 2e-4}, {"angle_z", 2e-4, 2e-4},
    {"rate_x", 2e-4, 2e-4},  {"rate_y", 2e-4, 2e-4},  {"rate_z", 2e-4, 2e-4},
};
static const double wind_phi[] = {.6, .6, .6};
static const double wind_sd[] = {5e-3, 5e-3, 5e-3}; // Nm; slosh and flexible modes
static const double probe_amplitude[] = {.20, .26, .26, .26, .26, .26, .26, .26};
static const double task_amplitude[] = {0, .25, .25, .25, .25, .25, .25, .25};
static const double reveal[] = {.08, .10, .12, .14, .16, .18, .22};
static const double importance[] = {1, 1.1, 1.2, 1.4, 1.6, 1.8, 2};
static const pf_pulse probe = {8, 8, false, probe_amplitude};
static const pf_pulse task = {8, 12, false, task_amplitude};

PF_NATIVE_LANES(attitude)

const pf_plant_class pf_plant_attitude = {
    .info = {.name = "attitude",
             .title = "over-actuated attitude control, eight thrusters",
             .source = "preflight " PF_VERSION,
             .n_mech = N_THRUSTERS,
             .n_chan = 6,
             .n_state = N_STATE,
             .dt_s = .5,
             .mechanisms = mechanisms,
             .channels = channels,
             .probe = &probe,
             .task = &task,
             .reveal = reveal,
             .importance = importance,
             .n_knobs = 4,
             .knobs = knobs},
    .n_wind = 3,
    .wind_phi = wind_phi,
    .wind_sd = wind_sd,
    .substeps = 4,
    .reset = reset,
    .derivative = derivative,
    .deliver = deliver,
    .output = output,
    .lanes = &lanes,
};
