// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "attitude_kit.h"
#include "plant/plant_impl.h"
#include "preflight/run.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Faults against what they are defined as: sequences computed by hand, shifted and clipped commands
// on real plants, readings changed by hand.

enum { N = 6, ROWS = 24 };

static bool same_bits(const double *a, const double *b, int n)
{
    return memcmp(a, b, sizeof(double) * (size_t)n) == 0;
}

// --- what becomes of a command

static void run_steps(const pf_fault *faults, int n, const double *u, double *v)
{
    static const pf_mechanism limits[] = {{"none", -1, 1}, {"arm", -1, 1}};
    pf_fault_state *states = calloc((size_t)n, sizeof *states);
    for (int r = 0; r < N; r++) {
        double row[2] = {7, u[r]};
        pf__fault_step(faults, n, limits, states, row);
        CHECK(row[0] == 7); // nobody's business
        v[r] = row[1];
    }
    free(states);
}

static void check_sequences(void)
{
    static const double u[N] = {0, .5, .5, -.25, 0, 2}; // the last beyond the limit
    static const struct {
        pf_fault_kind kind;
        double value, want[N];
    } cases[] = {
        {PF_FAULT_GAIN_UP, .5, {0, .25, .25, -.25, 0, .5}},
        {PF_FAULT_GAIN_DOWN, .5, {0, .5, .5, -.125, 0, 1}},
        {PF_FAULT_DEAD_BAND, .25, {0, .375, .375, -.125, 0, .875}},
        {PF_FAULT_DEAD_BAND, .75, {0, .125, .125, 0, 0, .625}},
        {PF_FAULT_BACKLASH, .5, {0, .375, .375, -.125, -.125, .875}},
        {PF_FAULT_BACKLASH, .25, {0, .4375, .4375, -.1875, -.0625, .9375}},
        {PF_FAULT_SATURATION, .5, {0, .25, .25, -.25, 0, .25}},
        {PF_FAULT_SATURATION, 0, {0, 0, 0, 0, 0, 0}},
        {PF_FAULT_RATE_LIMIT, .5, {0, .25, .5, .25, 0, .25}},
        {PF_FAULT_DELAY, 1, {0, 0, .5, .5, -.25, 0}},
        {PF_FAULT_DELAY, 4, {0, 0, 0, 0, 0, .5}},
        {PF_FAULT_DELAY, 200, {0, 0, 0, 0, 0, 0}},
        {PF_FAULT_BIAS, .5, {.25, .75, .75, 0, .25, 1.25}},
        {PF_FAULT_BIAS, -1, {-.5, 0, 0, -.75, -.5, .5}},
        {PF_FAULT_STUCK, .5, {.25, .25, .25, .25, .25, .25}},
    };
    double v[N];
    PF_CASE("every kind of a mechanism, step by step by hand");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pf_fault f = {cases[i].kind, 1, cases[i].value, .5};
        run_steps(&f, 1, u, v);
        for (int r = 0; r < N; r++) {
            CHECK_NEAR(v[r], cases[i].want[r], 0);
        }
    }
    PF_CASE("a lag is the recursion a y + (1 - a) u with a = exp(-1/steps)");
    pf_fault lag = {PF_FAULT_LAG, 1, 3, 0};
    double y = 0, a = exp(-1. / 3);
    run_steps(&lag, 1, u, v);
    for (int r = 0; r < N; r++) {
        y = a * y + (1 - a) * (u[r] > 1 ? 1 : u[r]);
        CHECK_NEAR(v[r], y, 1e-15);
    }
    PF_CASE("several on one mechanism act in the order given");
    pf_fault two[] = {{PF_FAULT_BIAS, 1, .5, .5}, {PF_FAULT_SATURATION, 1, 1, .5}};
    pf_fault turned[] = {two[1], two[0]};
    double first[N] = {.25, .5, .5, 0, .25, .5}, other[N] = {.25, .75, .75, 0, .25, .75};
    run_steps(two, 2, u, v);
    CHECK(same_bits(v, first, N));
    run_steps(turned, 2, u, v);
    CHECK(same_bits(v, other, N));
}

// --- a plant, rolled

// Every mechanism is used, beyond its limits now and then.
static void fill(const pf_plant_info *info, int rows, double *command)
{
    for (int i = 0; i < rows * info->n_mech; i++) {
        const pf_mechanism *m = &info->mechanisms[i % info->n_mech];
        double lo = isfinite(m->lo) ? m->lo : -1, hi = isfinite(m->hi) ? m->hi : 1;
        double share = (double)((i * 7) % 11) / 10 - .05;
        command[i] = i / info->n_mech < 3 ? 0 : lo + share * (hi - lo);
    }
}

typedef struct rolled {
    double *output;
    int n;
    pf_status status;
    pf_error error;
} rolled;

static rolled roll_with(pf_plant *plant, const double *command, int rows, const double *gains,
                        const pf_fault *faults, int n, pf_key key)
{
    const pf_plant_info *info = pf_plant_get_info(plant);
    rolled out = {.n = rows * info->n_chan};
    out.output = calloc((size_t)out.n + 1, sizeof(double));
    pf_roll roll = pf_roll_default();
    roll.key = key;
    roll.command = command;
    roll.rows = rows;
    roll.gains = gains;
    roll.disturbance = true;
    roll.sensor_noise = 1;
    roll.faults = faults;
    roll.n_faults = n;
    out.status = pf_plant_roll(plant, &roll, &(pf_trace){.output = out.output}, &out.error);
    return out;
}

// Whether both are the same to the bit; frees both.
static bool agree(rolled a, rolled b)
{
    bool good =
        a.status == PF_OK && b.status == PF_OK && a.n == b.n && same_bits(a.output, b.output, a.n);
    free(a.output);
    free(b.output);
    return good;
}

static pf_plant *open_plant(const char *name)
{
    pf_plant *plant = NULL;
    pf_error error = {PF_OK, ""};
    if (!CHECK(pf_plant_create(&plant, name, &error) == PF_OK)) {
        printf("    %s\n", error.text);
        exit(4);
    }
    return plant;
}

static pf_plant *open_child(const char *mode)
{
    char name[2600];
    snprintf(name, sizeof name, "exec:exec '%s' %s", PF_EXEC_CHILD, mode);
    return open_plant(name);
}

static double clipped(const pf_plant_info *info, int j, double u)
{
    return fmin(fmax(u, info->mechanisms[j].lo), info->mechanisms[j].hi);
}

// A fault of a command is the response to the command that it leaves, to the bit.
static void check_commands_on(pf_plant *plant)
{
    const pf_plant_info *info = pf_plant_get_info(plant);
    int m = info->n_mech, n = ROWS * m, j = m - 1;
    double *u = calloc((size_t)n, sizeof *u), *v = calloc((size_t)n, sizeof *v);
    double gains[PF_MECH_MAX], all[PF_MECH_MAX];
    fill(info, ROWS, u);
    for (int delay = 0; delay <= 3; delay++) {
        memcpy(v, u, sizeof(double) * (size_t)n);
        for (int r = 0; r < ROWS; r++) {
            v[r * m + j] = r < delay ? 0 : clipped(info, j, u[(r - delay) * m + j]);
        }
        pf_fault f = {PF_FAULT_DELAY, j, delay, 0};
        CHECK(agree(roll_with(plant, u, ROWS, NULL, &f, 1, 5),
                    roll_with(plant, v, ROWS, NULL, NULL, 0, 5)));
    }
    memcpy(v, u, sizeof(double) * (size_t)n);
    pf_fault top = {PF_FAULT_SATURATION, j, .3, .5};
    for (int r = 0; r < ROWS; r++) {
        v[r * m + j] = fmin(fmax(clipped(info, j, u[r * m + j]), -.15), .15);
    }
    CHECK(agree(roll_with(plant, u, ROWS, NULL, &top, 1, 6),
                roll_with(plant, v, ROWS, NULL, NULL, 0, 6)));
    for (int i = 0; i < m; i++) {
        gains[i] = i == j ? .35 : 1;
        all[i] = i == 0 ? 2 * 1.25 : 1.25;
    }
    pf_fault loss = {PF_FAULT_GAIN, j, .35, 0};
    pf_fault more[] = {{PF_FAULT_GAIN, 0, 2, 0}, {PF_FAULT_EFFECTIVENESS, -1, 1.25, 0}};
    CHECK(agree(roll_with(plant, u, ROWS, NULL, &loss, 1, 7),
                roll_with(plant, u, ROWS, gains, NULL, 0, 7)));
    CHECK(agree(roll_with(plant, u, ROWS, NULL, more, 2, 8),
                roll_with(plant, u, ROWS, all, NULL, 0, 8)));
    free(u);
    free(v);
}

static void check_commands(void)
{
    PF_CASE("on a native plant a fault is the command that it leaves");
    static const char *const names[] = {"attitude", "dc_servo", "battery", "pendulum"};
    for (int i = 0; i < 4; i++) {
        pf_plant *plant = open_plant(names[i]);
        check_commands_on(plant);
        pf_plant_destroy(plant);
    }
    PF_CASE("and on a process");
    pf_plant *child = open_child("good");
    check_commands_on(child);
    pf_plant_destroy(child);
}

static void check_intermittent(void)
{
    pf_plant *plant = open_plant("attitude");
    const pf_plant_info *info = pf_plant_get_info(plant);
    double command[ROWS * 8];
    int weak = 0, apart = 0;
    fill(info, ROWS, command);
    PF_CASE("an intermittent one tosses a coin for each run, the same for the same key");
    for (pf_key key = 1; key <= 200; key++) {
        pf_fault f[] = {{PF_FAULT_INTERMITTENT, 3, .2, 0}, {PF_FAULT_INTERMITTENT, 4, .2, 0}};
        pf_fault gain[] = {{PF_FAULT_GAIN, 3, .2, 0}, {PF_FAULT_GAIN, 4, .2, 0}};
        bool is_weak = agree(roll_with(plant, command, ROWS, NULL, f, 1, key),
                             roll_with(plant, command, ROWS, NULL, gain, 1, key));
        bool is_well = agree(roll_with(plant, command, ROWS, NULL, f, 1, key),
                             roll_with(plant, command, ROWS, NULL, NULL, 0, key));
        CHECK(is_weak != is_well);
        weak += is_weak;
        // two of them have coins of their own, whatever else is listed
        bool other = agree(roll_with(plant, command, ROWS, NULL, f + 1, 1, key),
                           roll_with(plant, command, ROWS, NULL, gain + 1, 1, key));
        apart += other != is_weak;
        pf_fault want[2];
        int n = 0;
        if (is_weak) {
            want[n++] = gain[0];
        }
        if (other) {
            want[n++] = gain[1];
        }
        CHECK(agree(roll_with(plant, command, ROWS, NULL, f, 2, key),
                    roll_with(plant, command, ROWS, NULL, want, n, key)));
    }
    CHECK(weak > 75 && weak < 125); // 200 tosses: 3.5 standard deviations
    CHECK(apart > 75 && apart < 125);
    pf_plant_destroy(plant);
}

// --- every kind on every native plant

// The value that changes nothing, and one that does.
static const struct {
    double nothing, something;
} sizes[] = {
    [PF_FAULT_GAIN] = {1, .4},
    [PF_FAULT_GAIN_UP] = {1, .4},
    [PF_FAULT_GAIN_DOWN] = {1, .4},
    [PF_FAULT_INTERMITTENT] = {1, .4},
    [PF_FAULT_DEAD_BAND] = {0, .3},
    [PF_FAULT_BACKLASH] = {0, .5},
    [PF_FAULT_SATURATION] = {1e6, .5},
    [PF_FAULT_RATE_LIMIT] = {1e6, .2},
    [PF_FAULT_LAG] = {0, 3},
    [PF_FAULT_DELAY] = {0, 2},
    [PF_FAULT_BIAS] = {0, .25},
    [PF_FAULT_STUCK] = {NAN, .25},
    [PF_FAULT_READS_BIAS] = {0, 3},
    [PF_FAULT_READS_SCALE] = {1, 1.5},
    [PF_FAULT_READS_DELAY] = {0, 2},
    [PF_FAULT_READS_FROZEN] = {1e6, 0},
    [PF_FAULT_READS_NOISE] = {0, 3},
    [PF_FAULT_READS_DROPOUT] = {0, .5},
    [PF_FAULT_EFFECTIVENESS] = {1, .8},
    [PF_FAULT_DISTURBANCE] = {1, 2},
    [PF_FAULT_TIME_CONSTANT] = {1, 1.4},
};

// Readings of a machine with one fault, or none.
static rolled watch(pf_plant *plant, const double *command, const pf_fault *f)
{
    const pf_plant_info *info = pf_plant_get_info(plant);
    rolled out = roll_with(plant, command, ROWS, NULL, f, f ? 1 : 0, 9);
    if (out.status == PF_OK && f) {
        out.status = pf_fault_sense(f, 1, info, 9, NULL, ROWS, out.output, &out.error);
    }
    for (int i = 0; i < out.n && out.status == PF_OK; i++) {
        out.status = isfinite(out.output[i]) ? PF_OK : PF_ERR_NONFINITE;
    }
    return out;
}

static bool has_kind(const pf_plant_info *info, int kind)
{
    const char *name = pf_fault_at(kind)->name;
    for (int i = 0; i < info->n_faults; i++) {
        if (strcmp(info->faults[i].name, name) == 0) {
            return true;
        }
    }
    return pf_fault_at(kind)->place != PF_FAULT_ON_PLANT || kind == PF_FAULT_EFFECTIVENESS;
}

static void check_kinds_on(pf_plant *plant)
{
    const pf_plant_info *info = pf_plant_get_info(plant);
    double *command = calloc((size_t)(ROWS * info->n_mech), sizeof *command);
    fill(info, ROWS, command);
    for (int kind = 0; kind < pf_fault_count(); kind++) {
        int last = pf_fault_at(kind)->place == PF_FAULT_ON_CHANNEL ? info->n_chan : info->n_mech;
        int at = pf_fault_at(kind)->place == PF_FAULT_ON_PLANT ? -1 : last - 1;
        pf_fault f = {(pf_fault_kind)kind, at, sizes[kind].something, 0};
        pf_error error = {PF_OK, ""};
        pf_status status = pf_fault_set_units(&f, 1, NULL, info, &error);
        if (!has_kind(info, kind)) {
            CHECK(status == PF_ERR_UNSUPPORTED);
            CHECK_CONTAINS(error.text, pf_fault_at(kind)->name);
            CHECK_CONTAINS(error.text, "effectiveness");
            continue;
        }
        if (status != PF_OK) { // a channel of which neither noise nor scale is known
            CHECK(pf_fault_at(kind)->measure == PF_FAULT_DEVIATIONS);
            f.unit = .01;
        }
        CHECK(agree(watch(plant, command, &f), watch(plant, command, &f)));
        if (kind != PF_FAULT_STUCK) {
            f.value = sizes[kind].nothing;
            if (!CHECK(agree(watch(plant, command, &f), watch(plant, command, NULL)))) {
                printf("    %s, %s\n", info->name, pf_fault_at(kind)->name);
            }
        }
    }
    free(command);
}

static void check_kinds(void)
{
    PF_CASE("every kind on every native plant is finite and repeatable, or nothing at all");
    for (int p = 0; p < pf_plant_count(); p++) {
        pf_plant *plant = open_plant(pf_plant_at(p)->info.name);
        check_kinds_on(plant);
        pf_plant_destroy(plant);
    }
}

// --- physics

static void first_reset(double *x, pf_rng *rng)
{
    (void)rng;
    x[0] = 0;
}

// dx/dt = v - x + w
static void first_derivative(const double *knob, const double *x, const double *v, const double *w,
                             double *dx)
{
    dx[0] = knob[0] * (v[1] - x[0]) + w[0];
}

static void first_output(const double *knob, const double *x, const double *v, const double *w,
                         double *y)
{
    (void)knob;
    (void)v;
    (void)w;
    y[0] = x[0];
}

// Asks for the distance to 1.
static void first_command(int policy, const double *x, double *u)
{
    (void)policy;
    u[0] = 0;
    u[1] = 1 - x[0];
}

static bool first_score(int policy, const double *x, const double *v, const double *next,
                        double *score)
{
    (void)policy;
    (void)x;
    (void)next;
    *score += v[1];
    return true;
}

static const pf_mechanism first_mechanisms[] = {{"idle", -1, 1}, {"arm", -1, 1}};
static const pf_channel first_channels[] = {{"place", 0, 2}};
static const double first_phi[] = {0}, first_sd[] = {.1};
static const pf_knob first_knobs[] = {{"rate", 1, "how quickly it answers"}};
static const int first_uses[] = {1};
static const pf_policy first_policies[] = {
    {.name = "reach", .n_mechanisms = 1, .mechanisms = first_uses, .rows = 10, .norm = 1}};
static const pf_plant_loops first_loops = {.command = first_command, .score = first_score};
static const pf_plant_class first_order = {.info = {.name = "first_order",
                                                    .n_mech = 2,
                                                    .n_chan = 1,
                                                    .n_state = 1,
                                                    .dt_s = .1,
                                                    .mechanisms = first_mechanisms,
                                                    .channels = first_channels,
                                                    .n_knobs = 1,
                                                    .knobs = first_knobs,
                                                    .n_policies = 1,
                                                    .policies = first_policies},
                                           .n_wind = 1,
                                           .wind_phi = first_phi,
                                           .wind_sd = first_sd,
                                           .substeps = 8,
                                           .reset = first_reset,
                                           .derivative = first_derivative,
                                           .output = first_output,
                                           .loops = &first_loops};

static void check_physics(void)
{
    pf_plant *plant = NULL;
    double push[2 * N], y[N], other[N], still[2 * N] = {0};
    CHECK(pf_plant_from_class(&plant, &first_order, NULL) == PF_OK);
    for (int r = 0; r < N; r++) {
        push[2 * r] = 0;
        push[2 * r + 1] = 1;
    }
    pf_roll roll = pf_roll_default();
    roll.key = 3;
    roll.command = push;
    roll.rows = N;
    PF_CASE("time constants twice as long, against the closed form");
    pf_fault slow = {PF_FAULT_TIME_CONSTANT, -1, 2, 0};
    roll.faults = &slow;
    roll.n_faults = 1;
    CHECK(pf_plant_roll(plant, &roll, &(pf_trace){.output = y}, NULL) == PF_OK);
    for (int r = 0; r < N; r++) {
        CHECK_NEAR(y[r], 1 - exp(-.1 * (r + 1) / 2), 1e-9);
    }
    PF_CASE("a disturbance twice as large moves a linear plant twice as far");
    pf_fault windy = {PF_FAULT_DISTURBANCE, -1, 2, 0};
    roll.command = still;
    roll.disturbance = true;
    roll.n_faults = 0;
    CHECK(pf_plant_roll(plant, &roll, &(pf_trace){.output = y}, NULL) == PF_OK);
    roll.faults = &windy;
    roll.n_faults = 1;
    CHECK(pf_plant_roll(plant, &roll, &(pf_trace){.output = other}, NULL) == PF_OK);
    for (int r = 0; r < N; r++) {
        CHECK(y[r] != 0 && other[r] == 2 * y[r]);
    }
    PF_CASE("a knob as a fault is the knob set, and stays with the trajectory");
    pf_fault knob = {PF_FAULT_KNOB, 0, .5, 0};
    roll.command = push;
    roll.faults = &knob;
    CHECK(pf_plant_roll(plant, &roll, &(pf_trace){.output = y}, NULL) == PF_OK);
    CHECK(plant->knob[0] == 1);
    roll.n_faults = 0;
    CHECK(pf_plant_set_knob(plant, "rate", .5, NULL) == PF_OK);
    CHECK(pf_plant_roll(plant, &roll, &(pf_trace){.output = other}, NULL) == PF_OK);
    CHECK(same_bits(y, other, N));
    CHECK(pf_fault_sense(&knob, 1, pf_plant_get_info(plant), 1, NULL, N, y, NULL) == PF_OK);
    CHECK(same_bits(y, other, N)); // the readings stay what they are
    pf_plant_destroy(plant);
}

static void check_closed_loop(void)
{
    pf_plant *plant = NULL;
    CHECK(pf_plant_from_class(&plant, &first_order, NULL) == PF_OK);
    double y[10], open[10], sent[20], score = 0, sum = 0, correction[2] = {1, 1.5};
    pf_fault faults[] = {{PF_FAULT_DELAY, 1, 1, 0}, {PF_FAULT_SATURATION, 1, .5, .5}};
    pf_roll roll = pf_roll_default();
    roll.policy = 0;
    roll.rows = 10;
    roll.correction = correction;
    roll.faults = faults;
    roll.n_faults = 2;
    PF_CASE("in a closed loop of a native plant, step by step by hand");
    CHECK(pf_plant_roll(plant, &roll, &(pf_trace){.output = y, .score = &score}, NULL) == PF_OK);
    double asked = 0, x = 0;
    for (int r = 0; r < 10; r++) {
        sent[2 * r] = 0;
        sent[2 * r + 1] = fmin(fmax(asked, -.25), .25);
        sum += sent[2 * r + 1];
        asked = fmin(1.5 * (1 - x), 1);
        x = y[r];
    }
    pf_roll by_hand = pf_roll_default();
    by_hand.command = sent;
    by_hand.rows = 10;
    CHECK(pf_plant_roll(plant, &by_hand, &(pf_trace){.output = open}, NULL) == PF_OK);
    CHECK(same_bits(y, open, 10));
    CHECK_NEAR(score, sum, 1e-15);
    PF_CASE("a closed loop inside a process has gains and declared faults only");
    pf_plant *child = open_child("faults");
    pf_error error = {PF_OK, ""};
    double readings[8];
    roll = (pf_roll){.policy = 0, .rows = 4, .faults = faults, .n_faults = 1};
    pf_trace trace = {.output = readings};
    CHECK(pf_plant_roll(child, &roll, &trace, &error) == PF_ERR_UNSUPPORTED);
    CHECK_CONTAINS(error.text, "hold");
    CHECK_CONTAINS(error.text, "gains");
    pf_fault fine[] = {{PF_FAULT_GAIN, 1, .5, 0},
                       {PF_FAULT_INTERMITTENT, 1, .5, 0},
                       {PF_FAULT_EFFECTIVENESS, -1, .5, 0},
                       {PF_FAULT_DECLARED, 0, 1, 0}};
    roll.faults = fine;
    roll.n_faults = 4;
    CHECK(pf_plant_roll(child, &roll, &trace, &error) == PF_OK);
    CHECK(readings[0] == 0 && readings[2] == 0); // all of it leaks
    pf_plant_destroy(child);
    pf_plant_destroy(plant);
}

// --- readings

static void check_readings(void)
{
    static const pf_channel channels[] = {{"a", .5, 0}, {"b", .5, 0}};
    static const pf_mechanism none[] = {{"x", -1, 1}};
    pf_plant_info info = {
        .name = "rig", .n_mech = 1, .n_chan = 2, .mechanisms = none, .channels = channels};
    static const struct {
        pf_fault_kind kind;
        double value, rows[4], told[5]; // without and with a told start of 9
    } cases[] = {
        {PF_FAULT_READS_BIAS, 2, {2, 3, 5, 9}, {10, 2, 3, 5, 9}},
        {PF_FAULT_READS_SCALE, -2, {-2, -4, -8, -16}, {-18, -2, -4, -8, -16}},
        {PF_FAULT_READS_DELAY, 1, {1, 1, 2, 4}, {9, 9, 1, 2, 4}},
        {PF_FAULT_READS_DELAY, 2, {1, 1, 1, 2}, {9, 9, 9, 1, 2}},
        {PF_FAULT_READS_DELAY, 99, {1, 1, 1, 1}, {9, 9, 9, 9, 9}},
        {PF_FAULT_READS_FROZEN, 0, {1, 1, 1, 1}, {9, 9, 9, 9, 9}},
        {PF_FAULT_READS_FROZEN, 2, {1, 2, 4, 4}, {9, 1, 2, 2, 2}},
        {PF_FAULT_READS_DROPOUT, 1, {1, 1, 1, 1}, {9, 9, 9, 9, 9}},
    };
    PF_CASE("every kind of a channel, reading by reading by hand");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double y[] = {7, 1, 7, 2, 7, 4, 7, 8}, z[] = {7, 1, 7, 2, 7, 4, 7, 8}, start[] = {7, 9};
        pf_fault f = {cases[i].kind, 1, cases[i].value, .5};
        CHECK(pf_fault_sense(&f, 1, &info, 1, NULL, 4, y, NULL) == PF_OK);
        CHECK(pf_fault_sense(&f, 1, &info, 1, start, 4, z, NULL) == PF_OK);
        CHECK(start[0] == 7 && start[1] == cases[i].told[0]);
        for (int r = 0; r < 4; r++) {
            CHECK(y[2 * r] == 7 && y[2 * r + 1] == cases[i].rows[r]);
            CHECK(z[2 * r] == 7 && z[2 * r + 1] == cases[i].told[r + 1]);
        }
    }
    PF_CASE("noise and dropouts of a channel have their sizes");
    enum { MANY = 4000 };
    double *y = calloc(2 * MANY, sizeof *y);
    pf_fault noise = {PF_FAULT_READS_NOISE, 0, 3, .5}, lost = {PF_FAULT_READS_DROPOUT, 0, .25, 0};
    double sum = 0;
    int repeats = 0;
    CHECK(pf_fault_sense(&noise, 1, &info, 1, NULL, MANY, y, NULL) == PF_OK);
    for (int r = 0; r < MANY; r++) {
        sum += y[2 * r] * y[2 * r];
    }
    CHECK_NEAR(sqrt(sum / MANY), 1.5, .06);
    CHECK(pf_fault_sense(&lost, 1, &info, 1, NULL, MANY, y, NULL) == PF_OK);
    for (int r = 1; r < MANY; r++) {
        repeats += y[2 * r] == y[2 * (r - 1)];
    }
    CHECK_NEAR((double)repeats / MANY, .25, .03);
    free(y);
}

// --- texts and refusals

static void check_texts(void)
{
    pf_plant *plant = open_plant("attitude");
    const pf_plant_info *info = pf_plant_get_info(plant);
    static const struct {
        const char *text;
        pf_fault_kind kind;
        int at;
        double value;
        const char *again;
    } good[] = {
        {"3:0.35", PF_FAULT_GAIN, 3, .35, "thruster3:0.35"},
        {"thruster3:.35", PF_FAULT_GAIN, 3, .35, "thruster3:0.35"},
        {"0:2", PF_FAULT_GAIN, 0, 2, "thruster0:2"},
        {"3:gain=.5", PF_FAULT_GAIN, 3, .5, "thruster3:0.5"},
        {"3:backlash=.5", PF_FAULT_BACKLASH, 3, .5, "thruster3:backlash=0.5"},
        {"7:stuck", PF_FAULT_STUCK, 7, 0, "thruster7:stuck"},
        {"7:bias=-.25", PF_FAULT_BIAS, 7, -.25, "thruster7:bias=-0.25"},
        {"angle_z:bias=3", PF_FAULT_READS_BIAS, 2, 3, "angle_z:bias=3"},
        {"angle_z:frozen", PF_FAULT_READS_FROZEN, 2, 0, "angle_z:frozen"},
        {"effectiveness=.8", PF_FAULT_EFFECTIVENESS, -1, .8, "effectiveness=0.8"},
        {"plant:effectiveness=.8", PF_FAULT_EFFECTIVENESS, -1, .8, "effectiveness=0.8"},
        {"disturbance=2", PF_FAULT_DISTURBANCE, -1, 2, "disturbance=2"},
        {"thrust=.9", PF_FAULT_KNOB, 3, .9, "thrust=0.9"},
        {"plant:dead_band=.1", PF_FAULT_KNOB, 0, .1, "plant:dead_band=0.1"},
    };
    PF_CASE("texts that are faults");
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        pf_fault f;
        char text[80];
        CHECK(pf_fault_parse(good[i].text, info, &f, NULL) == PF_OK);
        CHECK(f.kind == good[i].kind && f.at == good[i].at && f.value == good[i].value);
        CHECK(f.unit == 0);
        pf_fault_text(&f, info, text, sizeof text);
        CHECK_STR(text, good[i].again);
    }
    pf_plant_destroy(plant);
}

static void check_bad_texts(void)
{
    pf_plant *plant = open_plant("attitude");
    const pf_plant_info *info = pf_plant_get_info(plant);
    static const char *const bad[][2] = {
        {"", "MECHANISM:GAIN"},
        {"5", "MECHANISM:GAIN"},
        {"5:", "can have: gain"},
        {"3:abc", "'abc' is no number"},
        {":.5", "thruster0"},
        {"8:.5", "0..7"},
        {"thruster9:.5", "thruster7"},
        {"thruster9:.5", "angle_x"},
        {"3:slack=.5", "backlash"},
        {"3:frozen", "backlash"},
        {"angle_z:backlash=1", "frozen"},
        {"angle_z:.5", "frozen"},
        {"3:backlash", "needs a number"},
        {"3:backlash=", "not a number"},
        {"3:backlash= 1", "not a number"},
        {"3:backlash=1x", "not a number"},
        {"3:backlash=-1", "from 0 to"},
        {"3:backlash=nan", "finite"},
        {"3:inf", "finite"},
        {"3:1e6", "from 0 to 100000"},
        {"3:delay=1.5", "whole"},
        {"3:delay=257", "256"},
        {"angle_z:dropout=1.1", "from 0 to 1"},
        {"backlash=.5", "of which mechanism"},
        {"weight=2", "effectiveness, disturbance, time_constant, dead_band"},
        {"weight=2", "thruster0, thruster1"},
        {"weight=2", "angle_x, angle_y"},
        {"plant:weight=2", "thrust; mechanisms"},
        {"effectiveness", "needs a number"},
        {"thrust=nan", "finite"},
        {"time_constant=0", "from 0.01"},
    };
    PF_CASE("texts that are none say what there is");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        pf_fault f;
        pf_error error = {PF_OK, ""};
        CHECK(pf_fault_parse(bad[i][0], info, &f, &error) == PF_ERR_ARGUMENT);
        CHECK_CONTAINS(error.text, bad[i][1]);
        CHECK_CONTAINS(error.text, "fault ");
    }
    pf_plant_destroy(plant);
}

static void check_refusals(void)
{
    pf_plant *plant = open_plant("attitude");
    double command[8] = {0};
    static const struct {
        pf_fault fault;
        const char *text;
    } cases[] = {
        {{PF_FAULT_GAIN, 8, .5, 0}, "no fault of kind"},
        {{PF_FAULT_GAIN, -1, .5, 0}, "no fault of kind"},
        {{PF_FAULT_READS_SCALE, 6, .5, 0}, "no fault of kind"},
        {{PF_FAULT_KNOB, 4, .5, 0}, "no fault of kind"},
        {{PF_FAULT_DECLARED, 9, .5, 0}, "no fault of kind"},
        {{(pf_fault_kind)99, 1, .5, 0}, "no fault of kind"},
        {{PF_FAULT_GAIN, 1, NAN, 0}, "finite"},
        {{PF_FAULT_GAIN, 1, -1, 0}, "from 0"},
        {{PF_FAULT_BACKLASH, 1, .5, 0}, "pf_fault_set_units"},
        {{PF_FAULT_BACKLASH, 1, .5, INFINITY}, "pf_fault_set_units"},
        {{PF_FAULT_READS_BIAS, 1, .5, -1}, "pf_fault_set_units"},
    };
    PF_CASE("a plant refuses what it cannot have");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rolled r = roll_with(plant, command, 1, NULL, &cases[i].fault, 1, 1);
        CHECK(r.status == PF_ERR_ARGUMENT);
        CHECK_CONTAINS(r.error.text, cases[i].text);
        free(r.output);
    }
    pf_fault twice[] = {{PF_FAULT_DELAY, 2, 1, 0}, {PF_FAULT_DELAY, 2, 2, 0}};
    rolled r = roll_with(plant, command, 1, NULL, twice, 2, 1);
    CHECK(r.status == PF_ERR_ARGUMENT);
    CHECK_CONTAINS(r.error.text, "has a fault already");
    free(r.output);
    pf_fault huge[] = {{PF_FAULT_GAIN, 2, 1e5, 0}, {PF_FAULT_EFFECTIVENESS, -1, 1e5, 0}};
    r = roll_with(plant, command, 1, NULL, huge, 2, 1);
    CHECK(r.status == PF_ERR_ARGUMENT);
    CHECK_CONTAINS(r.error.text, "gain");
    free(r.output);
    pf_plant_destroy(plant);
    PF_CASE("only physics can be slower, so a process cannot unless it says so");
    pf_plant *child = open_child("good");
    pf_error error = {PF_OK, ""};
    pf_fault f;
    CHECK(pf_fault_parse("time_constant=2", pf_plant_get_info(child), &f, &error) ==
          PF_ERR_UNSUPPORTED);
    CHECK_CONTAINS(error.text, "time_constant");
    CHECK_CONTAINS(error.text, "physics");
    pf_plant_destroy(child);
    PF_CASE("a native class declares none");
    pf_plant_class c = first_order;
    c.info.n_faults = 1;
    CHECK(pf_plant_from_class(&plant, &c, &error) == PF_ERR_ARGUMENT);
    CHECK_CONTAINS(error.text, "knobs");
}

// --- faults that a plant declares

static int no_roll(void *self, uint64_t seed, const double *start, int n_start, const double *gains,
                   const double *commands, int rows, int noise, double *start_out, double *initial,
                   double *output, char *why)
{
    (void)self, (void)seed, (void)start, (void)n_start, (void)gains, (void)commands, (void)rows;
    (void)noise, (void)start_out, (void)initial, (void)output, (void)why;
    return 1;
}

static void check_declared(void)
{
    pf_plant *child = open_child("faults");
    const pf_plant_info *info = pf_plant_get_info(child);
    double command[ROWS * 3];
    pf_fault leak, windy, f;
    pf_error error = {PF_OK, ""};
    fill(info, ROWS, command);
    PF_CASE("what a plant declares is told to it by name");
    CHECK(info->n_faults == 2);
    CHECK_STR(info->faults[0].line, "share that leaks");
    CHECK(pf_fault_parse("leak=1", info, &leak, &error) == PF_OK);
    CHECK(pf_fault_parse("disturbance=0", info, &windy, &error) == PF_OK);
    CHECK(leak.kind == PF_FAULT_DECLARED && windy.kind == PF_FAULT_DISTURBANCE);
    rolled r = roll_with(child, command, ROWS, NULL, &leak, 1, 4096);
    CHECK(r.status == PF_OK);
    rolled plain = roll_with(child, command, ROWS, NULL, NULL, 0, 4096);
    CHECK(plain.status == PF_OK && plain.output[0] != r.output[0]);
    free(r.output);
    pf_fault nothing = leak;
    nothing.value = 0;
    CHECK(agree(plain, roll_with(child, command, ROWS, NULL, &nothing, 1, 4096)));
    // without disturbance it is the trajectory without noise
    double output[ROWS * 2];
    pf_roll roll = {.key = 4096, .command = command, .rows = ROWS, .policy = -1};
    CHECK(pf_plant_roll(child, &roll, &(pf_trace){.output = output}, &error) == PF_OK);
    r = roll_with(child, command, ROWS, NULL, &windy, 1, 4096);
    CHECK(r.status == PF_OK && same_bits(r.output, output, ROWS * 2));
    free(r.output);
    CHECK(pf_fault_parse("leak=1.5", info, &f, &error) == PF_ERR_ARGUMENT);
    CHECK_CONTAINS(error.text, "from 0 to 1");
    CHECK(pf_fault_parse("disturbance=1e7", info, &f, &error) == PF_ERR_ARGUMENT);
    CHECK(pf_fault_parse("drip=1", info, &f, &error) == PF_ERR_ARGUMENT);
    CHECK_CONTAINS(error.text, "leak");
    pf_plant_destroy(child);
    static const char *const bad[][2] = {
        {"faults-ours", "preflight has itself"}, {"faults-range", "least > most"},
        {"faults-name", "small letters"},        {"faults-twice", "there twice"},
        {"faults-nameless", "no name"},          {"faults-number", "not a number"},
        {"faults-object", "not a list"},
    };
    PF_CASE("a hello whose faults are not in order is refused");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char name[2600];
        snprintf(name, sizeof name, "exec:exec '%s' %s", PF_EXEC_CHILD, bad[i][0]);
        CHECK(pf_plant_create(&child, name, &error) == PF_ERR_PLANT);
        CHECK_CONTAINS(error.text, bad[i][1]);
    }
    PF_CASE("a function cannot be told of faults, so it declares none");
    const char *hello = "{\"protocol\":1,\"name\":\"f\",\"mechanisms\":[\"a\",\"b\"],"
                        "\"channels\":[\"y\"],\"dt\":1,\"state_size\":0,\"faults\":[\"leak\"]}";
    CHECK(pf_plant_from_function(&child, "f", hello, no_roll, NULL, &error) == PF_ERR_UNSUPPORTED);
    CHECK_CONTAINS(error.text, "exec:");
}

// --- a machine that the caller steps

// Shows what is delivered, and before the first command 5 and 6.
static int echo_roll(void *self, uint64_t seed, const double *start, int n_start,
                     const double *gains, const double *commands, int rows, int noise,
                     double *start_out, double *initial, double *output, char *why)
{
    (void)self, (void)seed, (void)start, (void)n_start, (void)noise, (void)start_out, (void)why;
    initial[0] = 5;
    initial[1] = 6;
    for (int i = 0; i < 2 * rows; i++) {
        double u = commands[i];
        output[i] = gains[i % 2] * (u < -1 ? -1 : u > 1 ? 1 : u);
    }
    return 0;
}

// Stepped by hand, and in the middle by another run that goes on from the saved bytes.
static bool stepped_alike(pf_plant *plant, const pf_fault *faults, int n, pf_key key)
{
    const pf_plant_info *info = pf_plant_get_info(plant);
    double command[ROWS * 2], first[2], want[ROWS * 2], now[2] = {5, 6};
    fill(info, ROWS, command);
    pf_roll roll = {.key = key,
                    .command = command,
                    .rows = ROWS,
                    .policy = -1,
                    .faults = faults,
                    .n_faults = n};
    pf_trace trace = {.initial = first, .output = want};
    pf_fault_run *run, *other;
    if (!CHECK(pf_plant_roll(plant, &roll, &trace, NULL) == PF_OK) ||
        !CHECK(pf_fault_sense(faults, n, info, key, first, ROWS, want, NULL) == PF_OK) ||
        !CHECK(pf_fault_run_create(&run, faults, n, info, NULL) == PF_OK) ||
        !CHECK(pf_fault_run_create(&other, faults, n, info, NULL) == PF_OK)) {
        return false;
    }
    double dirt[2] = {1, 1};
    pf_fault_run_step(run, dirt);
    pf_fault_run_reset(run, key);
    pf_fault_run_read(run, now);
    bool same = same_bits(now, first, 2);
    for (int r = 0; r < ROWS; r++) {
        if (r == ROWS / 2) {
            size_t size = pf_fault_run_save(run, NULL);
            unsigned char *bytes = malloc(size);
            CHECK(pf_fault_run_save(run, bytes) == size);
            CHECK(pf_fault_run_load(other, bytes, size, NULL) == PF_OK);
            CHECK(pf_fault_run_load(run, bytes, size - 1, NULL) == PF_ERR_FORMAT);
            memset(bytes, 0xff, size);
            CHECK(pf_fault_run_load(run, bytes, size, NULL) == (n ? PF_ERR_FORMAT : PF_OK));
            free(bytes);
        }
        memcpy(now, command + 2 * r, sizeof now);
        pf_fault_run_step(r < ROWS / 2 ? run : other, now);
        pf_fault_run_read(r < ROWS / 2 ? run : other, now);
        same = same && same_bits(now, want + 2 * r, 2);
    }
    pf_fault_run_destroy(run);
    pf_fault_run_destroy(other);
    return same;
}

static void check_steps(void)
{
    const char *hello = "{\"protocol\":1,\"name\":\"echo\",\"mechanisms\":["
                        "{\"name\":\"a\",\"lo\":-1,\"hi\":1},{\"name\":\"b\",\"lo\":-1,\"hi\":1}],"
                        "\"channels\":[\"x\",\"y\"],\"dt\":1,\"state_size\":0}";
    pf_plant *plant;
    pf_error error = {PF_OK, ""};
    CHECK(pf_plant_from_function(&plant, "echo", hello, echo_roll, NULL, &error) == PF_OK);
    const pf_plant_info *info = pf_plant_get_info(plant);
    pf_fault all[64];
    int n = 0;
    PF_CASE("a machine that the caller steps has the bits of a trajectory, for every kind");
    CHECK(stepped_alike(plant, NULL, 0, 3));
    for (int k = 0; k < pf_fault_count(); k++) {
        const pf_fault_info *kind = pf_fault_at(k);
        bool whole = kind->place == PF_FAULT_ON_PLANT;
        pf_fault f = {(pf_fault_kind)k, whole ? -1 : 1,
                      kind->measure == PF_FAULT_WHOLE_STEPS ? 3 : .5, .25};
        if (!whole || k == PF_FAULT_EFFECTIVENESS) {
            CHECK(stepped_alike(plant, &f, 1, 3) && stepped_alike(plant, &f, 1, 4));
            all[n++] = f;
        }
    }
    CHECK(stepped_alike(plant, all, n, 5));
    PF_CASE("a delay longer than the trajectory");
    pf_fault late[] = {{PF_FAULT_READS_DELAY, 0, 1000, 0}, {PF_FAULT_READS_DELAY, 1, 0, 0}};
    CHECK(stepped_alike(plant, late, 2, 3));
    PF_CASE("what only the physics carries is refused");
    pf_plant *native = open_plant("attitude");
    pf_fault slow = {PF_FAULT_TIME_CONSTANT, -1, 2, 0}, bare = {PF_FAULT_BIAS, 1, 1, 0};
    pf_fault_run *run;
    CHECK(pf_fault_run_create(&run, &slow, 1, pf_plant_get_info(native), &error) ==
          PF_ERR_UNSUPPORTED);
    CHECK_CONTAINS(error.text, "time_constant");
    CHECK(pf_fault_run_create(&run, &bare, 1, info, &error) == PF_ERR_ARGUMENT && run == NULL);
    CHECK_CONTAINS(error.text, "unit is not set");
    pf_plant_destroy(native);
    pf_plant_destroy(plant);
}

// --- a kit: units, probes, checks, flights

static void check_units(void)
{
    pf_plant *plant = open_plant("attitude");
    const pf_plant_info *info = pf_plant_get_info(plant);
    const pf_kit *kit = attitude_small_kit();
    pf_kit_info k = pf_kit_get_info(kit);
    pf_fault f[] = {{PF_FAULT_BIAS, 1, 1, 0},        {PF_FAULT_BIAS, 2, 1, 0},
                    {PF_FAULT_STUCK, 5, 1, 0},       {PF_FAULT_READS_BIAS, 2, 1, 0},
                    {PF_FAULT_READS_NOISE, 2, 1, 9}, {PF_FAULT_GAIN, 1, 1, 0}};
    PF_CASE("units come from the kit's tasks, from the default tasks, from the noise");
    CHECK(pf_fault_set_units(f, 6, kit, info, NULL) == PF_OK);
    CHECK(f[0].unit == .25 && f[1].unit == .2);
    CHECK(f[2].unit == fabs(info->task->amplitude[5]));
    CHECK(f[3].unit == k.sensor_noise * info->channels[2].noise_sd && f[3].unit > 0);
    CHECK(f[4].unit == 9 && f[5].unit == 0);
    pf_plant_destroy(plant);
    pf_plant *child = open_child("good");
    pf_fault g[] = {{PF_FAULT_BIAS, 1, 1, 0},
                    {PF_FAULT_BIAS, 2, 1, 0},
                    {PF_FAULT_READS_BIAS, 1, 1, 0},
                    {PF_FAULT_READS_BIAS, 0, 1, 0}};
    pf_error error = {PF_OK, ""};
    CHECK(pf_fault_set_units(g, 3, NULL, pf_plant_get_info(child), &error) == PF_OK);
    CHECK(g[0].unit == .5 && g[1].unit == 1); // a quarter of -1..1; no upper limit
    CHECK_NEAR(g[2].unit, .025, 1e-15);
    CHECK(pf_fault_set_units(g, 4, NULL, pf_plant_get_info(child), &error) == PF_ERR_ARGUMENT);
    CHECK_CONTAINS(error.text, "sum");
    pf_plant_destroy(child);
}

static void check_rig(void)
{
    pf_plant *plant = open_plant("attitude");
    const pf_plant_info *info = pf_plant_get_info(plant);
    const pf_kit *kit = attitude_small_kit();
    double start[2][8] = {{0}}, response[2][ATTITUDE_ROWS * ATTITUDE_CHAN] = {{0}};
    pf_fault f[] = {{PF_FAULT_DELAY, 1, 2, 0},
                    {PF_FAULT_READS_FROZEN, 2, 0, 0},
                    {PF_FAULT_READS_NOISE, 3, 2, 0}};
    int rows = pf_kit_probe_rows(kit, 0);
    CHECK(pf_fault_set_units(f, 3, kit, info, NULL) == PF_OK);
    pf_rig rig = {plant, kit, NULL, start[0], response[0], false, f, 1};
    pf_rig all = {plant, kit, NULL, start[1], response[1], false, f, 3};
    PF_CASE("a rig's sensors lie after their noise, and say the start as it is");
    CHECK(pf_rig_run(&rig, 0, 11, NULL) == PF_OK);
    CHECK(pf_rig_run(&all, 0, 11, NULL) == PF_OK);
    CHECK(same_bits(start[0], start[1], 8));
    CHECK(pf_fault_sense(f, 3, info, 11, NULL, rows, response[0], NULL) == PF_OK);
    CHECK(same_bits(response[0], response[1], rows * ATTITUDE_CHAN));
    for (int r = 1; r < rows; r++) {
        CHECK(response[1][r * ATTITUDE_CHAN + 2] == response[1][2]);
    }
    pf_plant_destroy(plant);
}

static void check_flight(void)
{
    pf_plant *plant = open_plant("attitude");
    const pf_kit *kit = attitude_small_kit();
    pf_flight *flight = NULL;
    pf_flown flown[4];
    pf_fault late = {PF_FAULT_DELAY, 1, 1, 0}, blind = {PF_FAULT_READS_FROZEN, 0, 0, 0};
    pf_fault loss = {PF_FAULT_GAIN, 1, .35, 0};
    double gains[ATTITUDE_MECH] = {1, .35, 1, 1, 1, 1, 1, 1};
    pf_attempt tries[] = {{.task = 0, .key = 5},
                          {.task = 0, .key = 5, .faults = &blind, .n_faults = 1},
                          {.task = 0, .key = 5, .faults = &late, .n_faults = 1},
                          {.task = 0, .key = 5, .faults = &loss, .n_faults = 1}};
    PF_CASE("a flight has those of the mechanisms; lying sensors do not change it");
    CHECK(pf_flight_create(&flight, plant, kit, NULL) == PF_OK);
    CHECK(pf_flight_start(flight, 4, NULL) == PF_OK);
    for (int i = 0; i < 4; i++) {
        CHECK(pf_flight_fly(flight, &tries[i], &flown[i], NULL) == PF_OK);
    }
    CHECK(flown[1].ret == flown[0].ret && flown[2].ret < flown[0].ret);
    pf_attempt plain = {.task = 0, .key = 5, .gains = gains};
    pf_flown same;
    CHECK(pf_flight_fly(flight, &plain, &same, NULL) == PF_OK);
    CHECK(same.ret == flown[3].ret && same.ret < flown[0].ret);
    pf_flight_destroy(flight);
    PF_CASE("a check takes faults, sets their units and refuses wrong ones");
    pf_fault wrong = {PF_FAULT_BACKLASH, 9, .5, 0},
             given[] = {loss, {PF_FAULT_DEAD_BAND, 2, .5, 0}};
    pf_check_config config = {.machine = plant, .seed = 3, .faults = &wrong, .n_faults = 1};
    pf_check *check = NULL;
    CHECK(pf_check_create(&check, kit, &config, NULL) == PF_ERR_ARGUMENT && !check);
    config.faults = given;
    config.n_faults = 2;
    CHECK(pf_check_create(&check, kit, &config, NULL) == PF_OK);
    CHECK(given[1].unit == 0); // the check has a copy
    CHECK(pf_check_run(check, NULL, NULL) == PF_OK);
    pf_check_destroy(check);
    PF_CASE("a gain as a fault gives the verdict of a gain, to the bit");
    char *verdicts[2];
    for (int i = 0; i < 2; i++) {
        config =
            i == 0 ? (pf_check_config){.machine = plant, .seed = 3, .gains = gains}
                   : (pf_check_config){.machine = plant, .seed = 3, .faults = &loss, .n_faults = 1};
        CHECK(pf_check_create(&check, kit, &config, NULL) == PF_OK);
        CHECK(pf_check_run(check, NULL, NULL) == PF_OK);
        verdicts[i] = pf_session_json(pf_check_session(check));
        pf_check_destroy(check);
    }
    CHECK_STR(verdicts[0], verdicts[1]);
    free(verdicts[0]);
    free(verdicts[1]);
    pf_plant_destroy(plant);
}

void test_fault(void)
{
    check_sequences();
    check_commands();
    check_intermittent();
    check_kinds();
    check_physics();
    check_closed_loop();
    check_readings();
    check_texts();
    check_bad_texts();
    check_refusals();
    check_declared();
    check_steps();
    check_units();
    check_rig();
    check_flight();
}
