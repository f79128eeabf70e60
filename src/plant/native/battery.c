// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "lanes.h"

#include <math.h>

// Parallel battery: five strings of twelve cells behind current-controlled converters on one bus.
// String 0 is the slack: it supplies the load minus what the others deliver. Cell: Chen and
// Rincon-Mora 2006, 850 mAh polymer Li-ion; converter limit and derating are engineering choices.

enum { N_STRINGS = 5, N_CELLS = 12, N_STATE = 3 * N_STRINGS };

// State of a string: charge (0 to 1), then the short and the long transient voltage of one cell.
enum { CHARGE, SHORT, LONG, PER_STRING };

static const double load_a = .5;              // A
static const double slack_a = 1.7;            // A, largest current of string 0 in either sense
static const double command_a = 1.2;          // A
static const double converter_a = .425;       // A, 0.5 C
static const double capacity_as = .85 * 3600; // A s

static double draw(pf_rng *rng, double sd)
{
    return rng ? sd * pf_rng_normal(rng) : 0;
}

// ohm
PF_INLINE double short_resistance(double charge)
{
    return .3208 * pf__exp(-29.14 * charge) + .04669;
}

PF_INLINE double long_resistance(double charge)
{
    return 6.603 * pf__exp(-155.2 * charge) + .04984;
}

// A common charge, each string near it; the slack carries the load since long.
static void reset(double *x, pf_rng *rng)
{
    double common = .34 + (.85 - .34) * (rng ? pf_rng_uniform(rng) : .5);
    for (int j = 0; j < N_STRINGS; j++) {
        double *string = x + PER_STRING * j;
        string[CHARGE] = common + draw(rng, .02);
        string[SHORT] = j == 0 ? load_a * short_resistance(string[CHARGE]) : 0;
        string[LONG] = j == 0 ? load_a * long_resistance(string[CHARGE]) : 0;
    }
}

// The converter saturates after the gain, at a limit that falls below 40 % charge.
PF_INLINE void deliver(const double *knob, const double *x, const double *u, const double *gains,
                       double *v)
{
    (void)knob;
    PF_UNROLL
    for (int j = 0; j < N_STRINGS; j++) {
        double derating = (x[PER_STRING * j + CHARGE] - .10) * (1 / .30);
        derating = derating < 0 ? 0 : derating > 1 ? 1 : derating;
        double limit = converter_a * derating;
        double current = gains[j] * (u[j] < 0 ? 0 : u[j] > command_a ? command_a : u[j]);
        v[j] = current < limit ? current : limit;
    }
}

// String currents in A under load ripple w.
PF_INLINE void currents(const double *v, const double *w, double *current)
{
    double slack = load_a + w[0] + v[0];
    for (int j = 1; j < N_STRINGS; j++) {
        current[j] = v[j];
        slack -= v[j];
    }
    current[0] = slack < -slack_a ? -slack_a : slack > slack_a ? slack_a : slack;
}

// alone: an idle string, which stays as it is with and without its exponentials, is left out.
PF_INLINE void rates(bool alone, const double *x, const double *v, const double *w, double *dx)
{
    double current[N_STRINGS];
    currents(v, w, current);
    PF_UNROLL
    for (int j = 0; j < N_STRINGS; j++) {
        const double *string = x + PER_STRING * j;
        double *change = dx + PER_STRING * j, i = current[j], charge = string[CHARGE];
        change[CHARGE] = change[SHORT] = change[LONG] = 0;
        if (alone && i == 0 && string[SHORT] == 0 && string[LONG] == 0) {
            continue;
        }
        double short_capacity = -752.9 * pf__exp(-13.51 * charge) + 703.6; // F
        double long_capacity = -6056 * pf__exp(-27.12 * charge) + 4475;    // F
        change[CHARGE] = -i * (1 / capacity_as);
        change[SHORT] = (i - string[SHORT] / short_resistance(charge)) / short_capacity;
        change[LONG] = (i - string[LONG] / long_resistance(charge)) / long_capacity;
    }
}

static void derivative(const double *knob, const double *x, const double *v, const double *w,
                       double *dx)
{
    (void)knob;
    rates(true, x, v, w, dx);
}

PF_INLINE void derivative_in_step(const double *knob, const double *x, const double *v,
                                  const double *w, double *dx)
{
    (void)knob;
    rates(false, x, v, w, dx);
}

// String voltages in V, with the currents at the end of the step.
PF_INLINE void output(const double *knob, const double *x, const double *v, const double *w,
                      double *y)
{
    (void)knob;
    double current[N_STRINGS];
    currents(v, w, current);
    PF_UNROLL
    for (int j = 0; j < N_STRINGS; j++) {
        const double *string = x + PER_STRING * j;
        double c = string[CHARGE];
        double open = -1.031 * pf__exp(-35 * c) + 3.685 + c * (.2156 + c * (-.1178 + c * .3201));
        double series = .1562 * pf__exp(-24.37 * c) + .07446; // ohm
        y[j] = N_CELLS * (open - series * current[j] - string[SHORT] - string[LONG]);
    }
}

// Currents in A; of string 0 the trim of the slack.
static const pf_mechanism mechanisms[] = {
    {"string_0", 0, 1.2}, {"string_1", 0, 1.2}, {"string_2", 0, 1.2},
    {"string_3", 0, 1.2}, {"string_4", 0, 1.2},
};
// V; 0.12 % of 50 V.
static const pf_channel channels[] = {
    {"voltage_0", .06, .06}, {"voltage_1", .06, .06}, {"voltage_2", .06, .06},
    {"voltage_3", .06, .06}, {"voltage_4", .06, .06},
};
static const double wind_phi[] = {.5};
static const double wind_sd[] = {.03}; // A; ripple of the load
// The probe takes over the whole load and exceeds the converter limit on purpose.
static const double probe_amplitude[] = {.05, .50, .50, .50, .50};
static const double task_amplitude[] = {0, .30, .30, .30, .30};
static const double reveal[] = {.15, .20, .30, .35};
static const double importance[] = {1, 1.3, 1.7, 2};
static const pf_pulse probe = {8, 8, false, probe_amplitude};
static const pf_pulse task = {8, 12, false, task_amplitude};

PF_NATIVE_LANES_BY(battery, derivative_in_step)

const pf_plant_class pf_plant_battery = {
    .info = {.name = "battery",
             .title = "parallel battery, five strings behind converters",
             .source = "preflight " PF_VERSION,
             .n_mech = N_STRINGS,
             .n_chan = N_STRINGS,
             .n_state = N_STATE,
             .dt_s = 5,
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
    .deliver = deliver,
    .output = output,
    .lanes = &lanes,
};
