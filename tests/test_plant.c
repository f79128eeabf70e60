// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate/plan.h"
#include "plant/plant_impl.h"
#include "core/rng.h"
#include "plant/native/native.h"
#include "test.h"

#include "calibrate/source.h"
#include "calibrate/fit.h"
#include "core/score.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// The contract of every registered plant, and published values of each.

enum { N_MOST = 64 * 64 };

static void roll_checked(pf_plant *plant, const pf_roll *roll, const pf_trace *trace)
{
    pf_error error = {PF_OK, ""};
    if (!CHECK(pf_plant_roll(plant, roll, trace, &error) == PF_OK)) {
        printf("%s\n", error.text);
    }
}

// Seeded reset, repeatable steps, save and load, finite states, limits.
static void check_contract(const pf_plant_class *c)
{
    pf_plant *plant = NULL;
    const pf_plant_info *info = &c->info;
    CHECK(pf_plant_from_class(&plant, c, NULL) == PF_OK);
    static double command[N_MOST], one[N_MOST], two[N_MOST], states[N_MOST];
    double start[PF_NATIVE_STATE], again[PF_NATIVE_STATE];
    int rows = 16;
    pf_rng rng;
    pf_rng_init(&rng, pf__key_text(pf_key_root(1), info->name));
    for (int i = 0; i < rows * info->n_mech; i++) {
        const pf_mechanism *m = &info->mechanisms[i % info->n_mech];
        command[i] = m->lo + (m->hi - m->lo) * pf_rng_uniform(&rng) * .3;
    }
    pf_roll roll = pf_roll_default();
    roll.key = 42;
    roll.command = command;
    roll.rows = rows;
    roll.disturbance = true;
    roll.sensor_noise = 1;
    size_t bytes = sizeof(double) * (size_t)rows * (size_t)info->n_chan;
    roll_checked(plant, &roll, &(pf_trace){.start = start, .output = one, .state = states});
    roll_checked(plant, &roll, &(pf_trace){.start = again, .output = two});
    CHECK(memcmp(one, two, bytes) == 0);
    CHECK(memcmp(start, again, sizeof(double) * (size_t)info->n_state) == 0);
    roll.key = 43;
    roll_checked(plant, &roll, &(pf_trace){.start = again, .output = two});
    CHECK(memcmp(one, two, bytes) != 0);
    CHECK(memcmp(start, again, sizeof(double) * (size_t)info->n_state) != 0);
    // a saved state continues with the same bits
    roll.disturbance = false;
    roll.sensor_noise = 0;
    roll_checked(plant, &roll, &(pf_trace){.start = start, .output = one, .state = states});
    roll.start = states + 4 * info->n_state;
    roll.command = command + 5 * info->n_mech;
    roll.rows = rows - 5;
    roll_checked(plant, &roll, &(pf_trace){.output = two});
    CHECK(memcmp(one + 5 * info->n_chan, two,
                 sizeof(double) * (size_t)(rows - 5) * (size_t)info->n_chan) == 0);
    // a command beyond the limits does what the limit does
    roll.start = start;
    roll.rows = 1;
    for (int j = 0; j < info->n_mech; j++) {
        command[j] = info->mechanisms[j].hi;
        command[info->n_mech + j] = info->mechanisms[j].hi * 3 + 1;
    }
    roll.command = command;
    roll_checked(plant, &roll, &(pf_trace){.output = one});
    roll.command = command + info->n_mech;
    roll_checked(plant, &roll, &(pf_trace){.output = two});
    CHECK(memcmp(one, two, sizeof(double) * (size_t)info->n_chan) == 0);
    pf_plant_destroy(plant);
}

// Eq. dormant_equivalence, to the bit.
static void check_passive(const pf_plant_class *c)
{
    pf_plant *plant = NULL;
    pf_plan plan;
    pf_error error = {PF_OK, ""};
    CHECK(pf_plant_from_class(&plant, c, NULL) == PF_OK);
    CHECK(pf__plan_default(&plan, &c->info, &error) == PF_OK);
    if (!CHECK(pf__contract_check(&plan, plant, true, NULL, NULL, &error) == PF_OK)) {
        printf("%s\n", error.text);
    }
    // a hundred passive steps with disturbance stay finite
    static double command[100 * PF_NATIVE_MECH], out[100 * 64];
    memset(command, 0, sizeof command);
    for (int r = 0; r < 100; r++) {
        command[r * c->info.n_mech] = c->info.probe->amplitude[0];
    }
    pf_roll roll = pf_roll_default();
    roll.command = command;
    roll.rows = 100;
    roll.disturbance = true;
    roll.sensor_noise = 1;
    roll_checked(plant, &roll, &(pf_trace){.output = out});
    for (int i = 0; i < 100 * c->info.n_chan; i++) {
        CHECK(isfinite(out[i]));
    }
    pf__plan_free(&plan);
    pf_plant_destroy(plant);
}

// Outputs after the last window step of the mean-reset probe of effector 1, g = 1 and .35
// (an independent implementation).
static const struct {
    const char *plant;
    double tolerance; // relative
    double nominal[16], weak[16];
} deterministic[] = {
    {"attitude",
     2e-8,
     {0.00125349952, 0.00141089319, -0.00257546194, 0.000626614926, 0.000705648137, -0.00128768164},
     {0.000438785925, 0.000493720691, -0.000901433908, 0.000219376468, 0.000246885057,
      -0.000450710928}},
    {"building",
     2e-8,
     {21.0980812, 22.3727444, 21.0849572, 21.0418446, 21.0849572},
     {21.0586404, 21.5272008, 21.050419, 21.0388815, 21.050419}},
    {"pump_tank",
     2e-8,
     {0.255713479, 0.0886516448, 0.161842966},
     {0.254965594, 0.0664943369, 0.157098307}},
    {"battery",
     2e-8,
     {45.6264012, 45.451377, 46.0680633, 46.0680633, 46.0680633},
     {45.2636397, 45.8140935, 46.0680633, 46.0680633, 46.0680633}},
    {"reaction_wheel",
     2e-8,
     {0.000799890175, -0.000899874535, -0.00142377785, 0.000199897701, -0.0002248842,
      -0.000355808188},
     {0.000275169536, -0.000309565085, -0.000489792598, 6.86008109e-05, -7.71756754e-05,
      -0.000122106108}},
    {"aircraft", 2e-8, {0.0238507374, 0.143966575, 0}, {0.00842989179, 0.0504641408, 0}},
    {"wood_berry", 2e-8, {96.5223233, 0.766141723}, {96.3453132, 0.593149603}},
    {"dc_servo", 2e-8, {0.0196898204, 0.333599204}, {0.00592687827, 0.0966733469}},
    {"quad_tank", 2e-8, {14.120346, 13.1256152}, {12.9099343, 12.9064333}},
    {"quadrotor",
     2e-8,
     {0.999986966, -0.00042274328, 0.0446425013, 0, 0, 0.295741349, 0, 0},
     {0.999998403, -5.1790574e-05, 0.0156246595, 0, 0, 0.103507666, 0, 0}},
    {"wind_pitch",
     1e-6,
     {1.80000161, 0, 0, 1.26508627, 120.183683},
     {0.630000186, 0, 0, 1.26713102, 120.377355}},
};

static void check_deterministic(const pf_plant_class *c)
{
    for (size_t i = 0; i < sizeof deterministic / sizeof deterministic[0]; i++) {
        if (strcmp(deterministic[i].plant, c->info.name) != 0) {
            continue;
        }
        pf_plant *plant = NULL;
        static double command[N_MOST], out[N_MOST];
        double gains[PF_NATIVE_MECH];
        CHECK(pf_plant_from_class(&plant, c, NULL) == PF_OK);
        pf__pulse_command(c->info.probe, c->info.n_mech, 1, command);
        for (int j = 0; j < c->info.n_mech; j++) {
            gains[j] = 1;
        }
        pf_roll roll = pf_roll_default();
        roll.mean_reset = true;
        roll.command = command;
        roll.rows = c->info.probe->rows;
        roll.gains = gains;
        const double *last = out + (roll.rows - 1) * c->info.n_chan;
        for (int weak = 0; weak < 2; weak++) {
            gains[1] = weak ? .35 : 1;
            const double *want = weak ? deterministic[i].weak : deterministic[i].nominal;
            roll_checked(plant, &roll, &(pf_trace){.output = out});
            for (int k = 0; k < c->info.n_chan; k++) {
                CHECK_NEAR(last[k], want[k], deterministic[i].tolerance * fabs(want[k]) + 1e-14);
            }
        }
        pf_plant_destroy(plant);
        return;
    }
    CHECK(!"a plant without validation values");
}

// Mean and sd of z over the dormant effectors at seven gains, and sigma_j (independent values; the
// mean within .006, the sd within .004, on 4000 episodes per effector there).
static const double table_gains[7] = {.15, .20, .35, .50, .65, .80, .95};
static const struct {
    const char *plant;
    double mean[7], sd[7], sigma;
    double mean_slack, sd_slack;
} table[] = {
    {"attitude",
     {1.308, 1.230, .999, .769, .538, .307, .077},
     {.059, .059, .059, .060, .059, .060, .060},
     .060,
     .006,
     .004},
    {"building",
     {1.322, 1.240, .998, .761, .529, .300, .075},
     {.063, .063, .063, .063, .062, .062, .063},
     .063,
     .006,
     .004},
    {"pump_tank",
     {1.309, 1.231, .999, .767, .537, .307, .077},
     {.059, .059, .059, .059, .059, .060, .059},
     .059,
     .006,
     .004},
    {"battery",
     {1.412, 1.309, .999, .690, .381, .090, .000},
     {.077, .071, .061, .070, .088, .067, .060},
     .059,
     .008,
     .008},
    {"reaction_wheel",
     {1.309, 1.230, 1.001, .769, .538, .307, .077},
     {.060, .060, .059, .060, .060, .059, .059},
     .059,
     .006,
     .004},
    {"aircraft",
     {1.309, 1.232, 1.000, .769, .536, .306, .075},
     {.061, .061, .060, .061, .061, .060, .060},
     .061,
     .006,
     .004},
    {"wood_berry",
     {1.306, 1.230, .999, .769, .539, .307, .076},
     {.061, .060, .060, .061, .060, .061, .061},
     .061,
     .006,
     .004},
    {"dc_servo",
     {1.267, 1.206, 1.001, .777, .546, .314, .079},
     {.059, .060, .060, .062, .062, .062, .062},
     .061,
     .006,
     .004},
    {"quad_tank",
     {1.331, 1.246, 1.000, .761, .527, .298, .074},
     {.060, .061, .061, .061, .061, .060, .060},
     .061,
     .006,
     .004},
    {"quadrotor",
     {1.308, 1.232, .999, .771, .538, .308, .077},
     {.061, .061, .061, .061, .061, .061, .061},
     .062,
     .006,
     .004},
    {"wind_pitch",
     {1.309, 1.232, .998, .766, .533, .299, .075},
     {.061, .061, .061, .061, .061, .061, .061},
     .062,
     .006,
     .004},
};

enum { EPISODES = 600 };

// Coefficients of EPISODES runs of the probe of mechanism j at gain g.
static void coefficients(pf_plant *plant, const pf_plant_info *info, int j, double g, int stream,
                         double *out)
{
    static double command[N_MOST], x[N_MOST], x0[N_MOST], h[N_MOST], scale[64];
    double start[PF_NATIVE_STATE], gains[PF_NATIVE_MECH];
    pf__pulse_command(info->probe, info->n_mech, j, command);
    int rows = info->probe->rows, n = rows * info->n_chan;
    for (int c = 0; c < info->n_chan; c++) {
        scale[c] = info->channels[c].scale;
    }
    for (int e = 0; e < EPISODES; e++) {
        for (int i = 0; i < info->n_mech; i++) {
            gains[i] = 1;
        }
        gains[j] = g;
        pf_roll roll = pf_roll_default();
        roll.key = pf_key_stream(5, info->name, (uint64_t)e, PF_PURPOSE_CALIBRATION,
                                 (uint64_t)(1000 * j + stream));
        roll.command = command;
        roll.rows = rows;
        roll.gains = gains;
        roll.disturbance = true;
        roll.sensor_noise = 1;
        roll_checked(plant, &roll, &(pf_trace){.start = start, .output = x});
        roll.disturbance = false;
        roll.sensor_noise = 0;
        roll.start = start;
        gains[j] = 1;
        roll_checked(plant, &roll, &(pf_trace){.output = x0});
        gains[j] = .35;
        roll_checked(plant, &roll, &(pf_trace){.output = h});
        pf__scaled_difference(rows, info->n_chan, h, x0, scale, 1, h);
        pf__scaled_difference(rows, info->n_chan, x, x0, scale, 1, x);
        pf_match match;
        pf__match_targets(1, n, h, x, NULL, &match);
        out[e] = match.coefficient;
    }
}

static void check_table(const pf_plant_class *c, size_t row)
{
    pf_plant *plant = NULL;
    const pf_plant_info *info = &c->info;
    static double b[EPISODES], scratch[EPISODES];
    double mean[7] = {0}, sd[7] = {0}, sigma = 0;
    int m = info->n_mech - 1;
    CHECK(pf_plant_from_class(&plant, c, NULL) == PF_OK);
    for (int j = 1; j <= m; j++) {
        coefficients(plant, info, j, 1, 0, b);
        double m0 = pf__fit_median(EPISODES, b, scratch);
        coefficients(plant, info, j, .35, 1, b);
        double m1 = pf__fit_median(EPISODES, b, scratch);
        sigma += pf__fit_dispersion(EPISODES, b, scratch) / (m1 - m0) / m;
        for (int g = 0; g < 7; g++) {
            double sum = 0, square = 0;
            coefficients(plant, info, j, table_gains[g], 2 + g, b);
            for (int e = 0; e < EPISODES; e++) {
                double z = (b[e] - m0) / (m1 - m0);
                sum += z;
                square += z * z;
            }
            double centre = sum / EPISODES;
            mean[g] += centre / m;
            sd[g] += sqrt(square / EPISODES - centre * centre) / m;
        }
    }
    for (int g = 0; g < 7; g++) {
        CHECK_NEAR(mean[g], table[row].mean[g], table[row].mean_slack);
        CHECK_NEAR(sd[g], table[row].sd[g], table[row].sd_slack);
    }
    CHECK_NEAR(sigma, table[row].sigma, .006);
    pf_plant_destroy(plant);
}

static void check_knobs(void)
{
    pf_plant *plant = NULL;
    pf_error error = {PF_OK, ""};
    CHECK(pf_plant_create(&plant, "attitude", &error) == PF_OK);
    CHECK(pf_plant_set_knob(plant, "no_such", 1, &error) != PF_OK);
    CHECK_CONTAINS(error.text, "no_such");
    // saturation after the gain: z = 1.403 at g = .15 for a limit of .22 (published with the plant)
    static double command[64], x[64], x0[64], h[64];
    double gains[8] = {1, 1, 1, 1, 1, 1, 1, 1}, scale[6] = {1, 1, 1, 1, 1, 1};
    pf__pulse_command(pf_plant_get_info(plant)->probe, 8, 1, command);
    CHECK(pf_plant_set_knob(plant, "saturation", .22, &error) == PF_OK);
    static const double gain[7] = {.15, .20, .35, .50, .65, .80, .95};
    static const double want[7] = {1.403, 1.302, 1, .698, .395, .093, 0};
    pf_roll roll = pf_roll_default();
    roll.mean_reset = true;
    roll.command = command;
    roll.rows = 8;
    roll.gains = gains;
    roll_checked(plant, &roll, &(pf_trace){.output = x0});
    gains[1] = .35;
    roll_checked(plant, &roll, &(pf_trace){.output = h});
    pf__scaled_difference(8, 6, h, x0, scale, 1, h);
    for (int g = 0; g < 7; g++) {
        gains[1] = gain[g];
        roll_checked(plant, &roll, &(pf_trace){.output = x});
        pf__scaled_difference(8, 6, x, x0, scale, 1, x);
        pf_match match;
        pf__match_targets(1, 48, h, x, NULL, &match);
        CHECK_NEAR(match.coefficient, want[g], .0006);
    }
    pf_plant_destroy(plant);
}

static void check_refusals(void)
{
    pf_plant *plant = NULL;
    pf_error error = {PF_OK, ""};
    CHECK(pf_plant_create(&plant, "atitude", &error) == PF_ERR_ARGUMENT);
    CHECK_CONTAINS(error.text, "atitude");
    CHECK(pf_plant_create(&plant, "attitude", &error) == PF_OK);
    double command[8] = {0, NAN}, out[6], gains[8] = {1, -1, 1, 1, 1, 1, 1, 1};
    pf_roll roll = pf_roll_default();
    roll.command = command;
    roll.rows = 1;
    CHECK(pf_plant_roll(plant, &roll, &(pf_trace){.output = out}, &error) == PF_ERR_NONFINITE);
    CHECK_CONTAINS(error.text, "mechanism 1");
    command[1] = 0;
    roll.gains = gains;
    CHECK(pf_plant_roll(plant, &roll, &(pf_trace){.output = out}, &error) == PF_ERR_ARGUMENT);
    roll.gains = NULL;
    roll.command = NULL;
    CHECK(pf_plant_roll(plant, &roll, &(pf_trace){.output = out}, &error) == PF_ERR_ARGUMENT);
    CHECK_CONTAINS(error.text, "no command");
    roll.command = command;
    roll.rows = -1;
    CHECK(pf_plant_roll(plant, &roll, &(pf_trace){.output = out}, &error) == PF_ERR_ARGUMENT);
    roll.rows = 1;
    roll.policy = 3;
    CHECK(pf_plant_roll(plant, &roll, &(pf_trace){.output = out}, &error) == PF_ERR_ARGUMENT);
    // a state that explodes is an error, never a number
    double wild[6] = {1e200, 1e200, 1e200, 1e200, 1e200, 1e200};
    roll.policy = -1;
    roll.start = wild;
    CHECK(pf_plant_roll(plant, &roll, &(pf_trace){.output = out}, &error) == PF_ERR_PLANT);
    pf_plant_destroy(plant);
    // nobody would run the policies of a native class
    pf_plant_class with_policy = *pf_plant_at(0);
    with_policy.info.n_policies = 1;
    CHECK(pf_plant_from_class(&plant, &with_policy, &error) == PF_ERR_ARGUMENT && !plant);
    CHECK_CONTAINS(error.text, "policies");
}

void test_plant(void)
{
    char name[64];
    for (int i = 0; i < pf_plant_count(); i++) {
        const pf_plant_class *c = pf_plant_at(i);
        snprintf(name, sizeof name, "%s: contract", c->info.name);
        PF_CASE(name);
        check_contract(c);
        snprintf(name, sizeof name, "%s: dormancy, effect, tasks", c->info.name);
        PF_CASE(name);
        check_passive(c);
        if (c->info.n_policies == 0) { // test_classic.c has the values of the others
            snprintf(name, sizeof name, "%s: deterministic values", c->info.name);
            PF_CASE(name);
            check_deterministic(c);
        }
        for (size_t t = 0; t < sizeof table / sizeof table[0]; t++) {
            if (strcmp(table[t].plant, c->info.name) == 0) {
                snprintf(name, sizeof name, "%s: coordinate table", c->info.name);
                PF_CASE(name);
                check_table(c, t);
            }
        }
    }
    PF_CASE("knobs of the mechanism study");
    check_knobs();
    PF_CASE("refusals");
    check_refusals();
}
