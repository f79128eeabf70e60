// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "lanes.h"

// Multi-zone thermal control: five zones of the DOE small-office prototype, each with a warm-air
// unit, on a mild day on which internal gains balance the losses of the perimeter. Only the unit of
// the core is in use. Geometry: Deru et al., NREL/TP-5500-46861; mass: ISO 13790, medium.
// Flow, lag, gains and conductances beyond these are engineering choices.

// State: air temperature, mass temperature, supply flow by zone, then outdoor temperature.
enum { N_ZONES = 5, AIR = 0, MASS = 5, FLOW = 10, OUTDOOR = 15, N_STATE = 16 };

static const double area[N_ZONES] = {149.66, 113.45, 67.30, 113.45, 67.30}; // m2
static const double outer[N_ZONES] = {33, 124, 74, 124, 74};                // W/K to outdoors
static const double full_flow[N_ZONES] = {.60, .45, .27, .45, .27};         // kg/s
static const double gain[N_ZONES] = {4, 18, 18, 18, 18};                    // W/m2, internal
static const double air_capacity = 5 * 1.2 * 1005 * 3.05; // J/(m2 K): 3.05 m of air, times 5
                                                          // for furniture
static const double mass_capacity = 165e3;                // J/(m2 K), ISO 13790
static const double to_mass = 1 / (1 / (3.45 * 4.5) + 1 / (9.1 * 2.5)); // W/(m2 K), ISO 13790
static const double heat_capacity = 1005;                               // J/(kg K), air
static const double supply_c = 35;                                      // C
static const double lag_s = 120;

// Partitions: areas times 2.6 W/(m2 K).
static const struct {
    int one, other;
    double conductance; // W/K
} partitions[] = {
    {0, 1, 140}, {0, 3, 140}, {0, 2, 67}, {0, 4, 67},
    {1, 2, 56},  {2, 3, 56},  {3, 4, 56}, {4, 1, 56},
};

static double draw(pf_rng *rng, double sd)
{
    return rng ? sd * pf_rng_normal(rng) : 0;
}

static void reset(double *x, pf_rng *rng)
{
    for (int i = 0; i < N_ZONES; i++) {
        x[AIR + i] = 21 + draw(rng, .3);
    }
    for (int i = 0; i < N_ZONES; i++) {
        x[MASS + i] = x[AIR + i] + draw(rng, .1);
        x[FLOW + i] = 0;
    }
    x[OUTDOOR] = 2 + 6 * (rng ? pf_rng_uniform(rng) : .5);
}

PF_INLINE void derivative(const double *knob, const double *x, const double *v, const double *w,
                          double *dx)
{
    (void)knob;
    const double *air = x + AIR, *mass = x + MASS, *flow = x + FLOW;
    double heat[N_ZONES]; // W
    for (int i = 0; i < N_ZONES; i++) {
        double exchange = to_mass * (mass[i] - air[i]);
        heat[i] = heat_capacity * flow[i] * (supply_c - air[i]) +
                  (gain[i] + w[i] + exchange) * area[i] + outer[i] * (x[OUTDOOR] - air[i]);
        dx[MASS + i] = -exchange * (1 / mass_capacity);
        dx[FLOW + i] = (full_flow[i] * v[i] - flow[i]) * (1 / lag_s);
    }
    for (size_t k = 0; k < sizeof partitions / sizeof partitions[0]; k++) {
        int one = partitions[k].one, other = partitions[k].other;
        double across = partitions[k].conductance * (air[other] - air[one]);
        heat[one] += across;
        heat[other] -= across;
    }
    for (int i = 0; i < N_ZONES; i++) {
        dx[AIR + i] = heat[i] / (air_capacity * area[i]);
    }
    dx[OUTDOOR] = 0;
}

PF_INLINE void output(const double *knob, const double *x, const double *v, const double *w,
                      double *y)
{
    (void)knob;
    (void)v;
    (void)w;
    for (int i = 0; i < N_ZONES; i++) {
        y[i] = x[AIR + i];
    }
}

// Command: fraction of the full flow.
static const pf_mechanism mechanisms[] = {
    {"unit_core", 0, 1},  {"unit_south", 0, 1}, {"unit_east", 0, 1},
    {"unit_north", 0, 1}, {"unit_west", 0, 1},
};
// C; room sensor.
static const pf_channel channels[] = {
    {"core", .1, .1}, {"south", .1, .1}, {"east", .1, .1}, {"north", .1, .1}, {"west", .1, .1},
};
static const double wind_phi[] = {.7, .7, .7, .7, .7};
static const double wind_sd[] = {.45, .45, .45, .45, .45}; // W/m2; people, sun
static const double probe_amplitude[] = {.20, .40, .40, .40, .40};
static const double task_amplitude[] = {0, .25, .25, .25, .25};
static const double reveal[] = {.20, .25, .20, .35};
static const double importance[] = {1, 1.3, 1, 2};
static const pf_pulse probe = {8, 8, false, probe_amplitude};
static const pf_pulse task = {8, 12, false, task_amplitude};

PF_NATIVE_LANES(building)

const pf_plant_class pf_plant_building = {
    .info = {.name = "building",
             .title = "multi-zone thermal control, five warm-air units",
             .source = "preflight " PF_VERSION,
             .n_mech = N_ZONES,
             .n_chan = N_ZONES,
             .n_state = N_STATE,
             .dt_s = 300,
             .mechanisms = mechanisms,
             .channels = channels,
             .probe = &probe,
             .task = &task,
             .reveal = reveal,
             .importance = importance},
    .n_wind = N_ZONES,
    .wind_phi = wind_phi,
    .wind_sd = wind_sd,
    .substeps = 5,
    .reset = reset,
    .derivative = derivative,
    .output = output,
    .lanes = &lanes,
};
