// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "lanes.h"

#include <math.h>

// Pitch control of a 4.8 MW turbine: the fault-diagnosis benchmark of Odgaard, Stoustrup and
// Kinnaert 2013, with the power coefficient of Heier 2014 (the benchmark's own is a table). Partial
// load: the generator torque regulates, the three blades rest at fine pitch.

enum { N_BLADES = 3 };

// State: rotor and generator speed (rad/s), twist of the drive train (rad), generator torque (Nm),
// pitch angles (deg), their rates (deg/s), mean wind (m/s).
enum { ROTOR, GENERATOR, TWIST, TORQUE, PITCH, RATE = PITCH + 3, WIND = RATE + 3, N_STATE };

static const double radius = 57.5;                                    // m
static const double stiffness = 2.7e9, damping = 775.49;              // Nm/rad, Nm s/rad
static const double rotor_inertia = 55e6, generator_inertia = 390;    // kg m2
static const double rotor_friction = 7.11, generator_friction = 45.6; // Nm s/rad
static const double gear = 95, efficiency = .97;                      // of the drive train
static const double generator_band = 50;                              // rad/s
static const double pitch_band = 11.11, pitch_damping = .6;           // rad/s
static const double pitch_rate_max = 8;                               // deg/s
static const double tip_ratio = 8.1;                                  // best tip speed ratio
// rho/2 pi R^3, rho = 1.225 kg/m3
static const double aero = .5 * 1.225 * 3.14159265358979323846 * 57.5 * 57.5 * 57.5;
// Optimal torque over generator speed squared: rho/2 pi R^5 C_p(8.1, 0)/(8.1 N_g)^3.
static const double optimal = .5 * 1.225 * 3.14159265358979323846 * 57.5 * 57.5 * 57.5 * 57.5 *
                              57.5 * .48001190251033915 / (8.1 * 95 * 8.1 * 95 * 8.1 * 95);

// Heier's approximation; pitch b in deg.
PF_INLINE double power_coefficient(double lambda, double b)
{
    double y = 1 / (lambda + .08 * b) - .035 / (b * b * b + 1);
    return .5176 * (116 * y - .4 * b - 5) * pf__exp(-21 * y) + .0068 * lambda;
}

// Mean over the blades; blades at the same pitch share the work.
PF_INLINE double mean_coefficient(double lambda, const double *pitch)
{
    double b[N_BLADES], c[N_BLADES];
    for (int i = 0; i < N_BLADES; i++) {
        b[i] = pitch[i] > -.5 ? pitch[i] : -.5;
    }
    c[0] = power_coefficient(lambda, b[0]);
    c[1] = b[1] == b[0] ? c[0] : power_coefficient(lambda, b[1]);
    c[2] = b[2] == b[0] ? c[0] : b[2] == b[1] ? c[1] : power_coefficient(lambda, b[2]);
    return (c[0] + c[1] + c[2]) * (1. / N_BLADES);
}

// At the optimal tip speed ratio, with the twist and the generator torque that hold it there.
static void reset(double *x, pf_rng *rng)
{
    double wind = 9 + (rng ? .5 * pf_rng_normal(rng) : 0);
    double rotor = tip_ratio * wind / radius, generator = gear * rotor;
    x[ROTOR] = rotor;
    x[GENERATOR] = generator;
    double torque = aero * wind * wind * power_coefficient(tip_ratio, 0) / tip_ratio;
    double shaft = torque - rotor_friction * rotor; // Nm on the slow side
    x[TWIST] = shaft / stiffness;
    x[TORQUE] = shaft * (efficiency / gear) - generator_friction * generator;
    for (int i = 0; i < N_BLADES; i++) {
        x[PITCH + i] = 0;
        x[RATE + i] = 0;
    }
    x[WIND] = wind;
}

PF_INLINE void derivative(const double *knob, const double *x, const double *v, const double *w,
                          double *dx)
{
    (void)knob;
    double rotor = x[ROTOR], generator = x[GENERATOR], wind = x[WIND] + w[0];
    double lambda = radius * rotor / wind;
    double torque = aero * wind * wind * mean_coefficient(lambda, x + PITCH) / lambda;
    double slip = rotor - generator * (1 / gear);
    double shaft = stiffness * x[TWIST] + damping * slip;
    dx[ROTOR] = (torque - shaft - rotor_friction * rotor) * (1 / rotor_inertia);
    dx[GENERATOR] = (shaft * (efficiency / gear) - generator_friction * generator - x[TORQUE]) *
                    (1 / generator_inertia);
    dx[TWIST] = slip;
    double asked = efficiency * optimal * generator * generator - generator_friction * generator;
    dx[TORQUE] = generator_band * (asked + v[0] - x[TORQUE]);
    for (int i = 0; i < N_BLADES; i++) {
        double rate = x[RATE + i];
        double change = pitch_band * pitch_band * (v[1 + i] - x[PITCH + i]) -
                        2 * pitch_damping * pitch_band * rate;
        // at the rate limit the rate grows no further
        bool high = rate >= pitch_rate_max, low = rate <= -pitch_rate_max;
        dx[PITCH + i] = high ? pitch_rate_max : low ? -pitch_rate_max : rate;
        dx[RATE + i] = (high && change > 0) || (low && change < 0) ? 0 : change;
    }
    dx[WIND] = 0;
}

PF_INLINE void output(const double *knob, const double *x, const double *v, const double *w,
                      double *y)
{
    (void)knob;
    (void)v;
    (void)w;
    for (int i = 0; i < N_BLADES; i++) {
        y[i] = x[PITCH + i];
    }
    y[3] = x[ROTOR];
    y[4] = x[GENERATOR];
}

// Trim of the generator torque in Nm (four times the passive pulse, engineering choice); pitch
// references in deg.
static const pf_mechanism mechanisms[] = {
    {"torque_trim", -4e3, 4e3},
    {"pitch_1", -2, 90},
    {"pitch_2", -2, 90},
    {"pitch_3", -2, 90},
};
// deg, rad/s; turbulence widens the residual of the generator speed beyond its noise
static const pf_channel channels[] = {
    {"pitch_1", .2, .2},         {"pitch_2", .2, .2},           {"pitch_3", .2, .2},
    {"rotor_speed", .025, .025}, {"generator_speed", .05, .55},
};
static const double wind_phi[] = {.95};
static const double wind_sd[] = {.5}; // m/s, turbulence
static const double probe_amplitude[] = {1e3, 1.8, 1.8, 1.8};
static const double task_amplitude[] = {0, 5, 5, 5};
static const double reveal[] = {1. / 3, 1. / 3, 1. / 3};
static const double importance[] = {1, 1, 1};
static const pf_pulse probe = {8, 8, false, probe_amplitude};
static const pf_pulse task = {8, 12, false, task_amplitude};

PF_NATIVE_LANES(wind_pitch)

const pf_plant_class pf_plant_wind_pitch = {
    .info = {.name = "wind_pitch",
             .title = "turbine pitch control, three blades",
             .source = "preflight " PF_VERSION,
             .n_mech = 1 + N_BLADES,
             .n_chan = N_BLADES + 2,
             .n_state = N_STATE,
             .dt_s = .25,
             .mechanisms = mechanisms,
             .channels = channels,
             .probe = &probe,
             .task = &task,
             .reveal = reveal,
             .importance = importance},
    .n_wind = 1,
    .wind_phi = wind_phi,
    .wind_sd = wind_sd,
    .substeps = 25, // the benchmark's step of .01 s; the rate limit makes results depend on it
    .reset = reset,
    .derivative = derivative,
    .output = output,
    .lanes = &lanes,
};
