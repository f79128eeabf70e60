// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "bench.h"
#include "plant/plant_impl.h"

#include "plant/native/native.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Control steps per second of pf_plant_roll on probes, against a bare loop over the plant's step on
// the same commands, starts and disturbances: once as a prediction (saved start, nothing random),
// once as a physical response (reset, disturbance, sensor noise). `bench_plants [REPEATS]`;
// `bench_plants turns PLANT predicted|bare|physical|bare_windy`.

enum { MOST_ROWS = 64, VARIANTS = 16 };

typedef struct rig {
    const pf_plant_class *plant_class;
    pf_plant *plant;
    int rows;
    double start[VARIANTS][PF_NATIVE_STATE];
    double wind[VARIANTS][MOST_ROWS * PF_NATIVE_WIND];
    double command[MOST_ROWS * PF_NATIVE_MECH];
    double gains[PF_NATIVE_MECH];
    double output[MOST_ROWS * PF_NATIVE_STATE];
    double sink; // what the loops computed, so that none is left out
} rig;

static void must(pf_status status, const pf_error *error)
{
    if (status != PF_OK) {
        fprintf(stderr, "bench_plants: %s\n", error->text);
        exit(1);
    }
}

static pf_key variant_key(const rig *r, int variant)
{
    const char *name = r->plant_class->info.name;
    return pf_key_stream(0, name, (uint64_t)variant, PF_PURPOSE_TASK, 0);
}

// A disturbance of the plant's law; which one it is does not matter.
static void draw_wind(rig *r, int variant)
{
    const pf_plant_class *c = r->plant_class;
    pf_rng rng;
    pf_rng_init(&rng, variant_key(r, variant));
    for (int i = 0; i < r->rows * c->n_wind; i++) {
        double phi = c->wind_phi[i % c->n_wind],
               e = c->wind_sd[i % c->n_wind] * pf_rng_normal(&rng);
        double *w = r->wind[variant] + i;
        *w = i < c->n_wind ? e : phi * w[-c->n_wind] + sqrt(1 - phi * phi) * e;
    }
}

static void prepare(rig *r, const pf_plant_class *c)
{
    pf_error error = {PF_OK, ""};
    memset(r, 0, sizeof *r);
    r->plant_class = c;
    r->rows = c->info.probe->rows;
    if (r->rows > MOST_ROWS || c->info.n_chan > PF_NATIVE_STATE) {
        fprintf(stderr, "bench_plants: %s has too long a probe\n", c->info.name);
        exit(1);
    }
    must(pf_plant_from_class(&r->plant, c, &error), &error);
    pf__pulse_command(c->info.probe, c->info.n_mech, 1, r->command);
    for (int j = 0; j < c->info.n_mech; j++) {
        r->gains[j] = 1;
    }
    r->gains[1] = .35;
    for (int i = 0; i < VARIANTS; i++) {
        pf_roll roll = pf_roll_default();
        roll.command = r->command;
        roll.key = variant_key(r, i);
        must(pf_plant_roll(r->plant, &roll, &(pf_trace){.start = r->start[i]}, &error), &error);
        draw_wind(r, i);
    }
}

// One probe by the step function alone; x ends as its last state.
static void step_probe(rig *r, int variant, bool windy, double *x)
{
    static const double calm[PF_NATIVE_WIND] = {0};
    const pf_plant_class *c = r->plant_class;
    memcpy(x, r->start[variant], sizeof(double) * (size_t)c->info.n_state);
    for (int k = 0; k < r->rows; k++) {
        const double *wind = windy ? r->wind[variant] + k * c->n_wind : calm;
        pf__native_step(c, r->plant->knob, x, r->command + k * c->info.n_mech, r->gains, wind);
    }
}

static void roll_probe(rig *r, int variant, bool physical, const pf_trace *trace)
{
    pf_error error = {PF_OK, ""};
    pf_roll roll = pf_roll_default();
    roll.key = variant_key(r, variant);
    roll.start = physical ? NULL : r->start[variant];
    roll.gains = r->gains;
    roll.command = r->command;
    roll.rows = r->rows;
    roll.disturbance = physical;
    roll.sensor_noise = physical ? 1 : 0;
    must(pf_plant_roll(r->plant, &roll, trace, &error), &error);
}

// Seconds of n probes.
static double run_bare(rig *r, int n, bool windy)
{
    double x[PF_NATIVE_STATE], begin = bench_now();
    for (int i = 0; i < n; i++) {
        step_probe(r, i % VARIANTS, windy, x);
        r->sink += x[0];
    }
    return bench_now() - begin;
}

static double run_roll(rig *r, int n, bool physical)
{
    pf_trace trace = {.output = r->output};
    double begin = bench_now();
    for (int i = 0; i < n; i++) {
        roll_probe(r, i % VARIANTS, physical, &trace);
        r->sink += r->output[0];
    }
    return bench_now() - begin;
}

// Predictions must be what the bare loop computes, or the ratio compares two different things.
static void compare(rig *r)
{
    double x[PF_NATIVE_STATE], state[MOST_ROWS * PF_NATIVE_STATE];
    size_t n = (size_t)r->plant_class->info.n_state;
    for (int i = 0; i < VARIANTS; i++) {
        step_probe(r, i, false, x);
        roll_probe(r, i, false, &(pf_trace){.state = state});
        if (memcmp(state + (size_t)(r->rows - 1) * n, x, sizeof(double) * n) != 0) {
            fprintf(stderr, "bench_plants: %s: roll and bare loop differ\n",
                    r->plant_class->info.name);
            exit(1);
        }
    }
}

static void print(const char *plant, const char *what, double value, const char *unit)
{
    char name[128];
    snprintf(name, sizeof name, "plant_%s_%s", plant, what);
    bench_print(name, value, unit);
}

static void measure(const pf_plant_class *c, int repeats)
{
    rig r;
    prepare(&r, c);
    compare(&r);
    // blocks of about 2 ms
    int n = VARIANTS;
    run_bare(&r, n, false);
    while (run_bare(&r, n, false) < 2e-3) {
        n *= 2;
    }
    // turn about, so that a slow minute of the machine hits all
    double bare[2] = {INFINITY, INFINITY}, roll[2] = {INFINITY, INFINITY};
    for (int i = 0; i < 2 * repeats; i++) {
        bare[i % 2] = fmin(bare[i % 2], run_bare(&r, n, i % 2));
        roll[i % 2] = fmin(roll[i % 2], run_roll(&r, n, i % 2));
    }
    if (!isfinite(r.sink)) {
        fprintf(stderr, "bench_plants: %s is not finite\n", c->info.name);
        exit(1);
    }
    double steps = (double)n * r.rows;
    print(c->info.name, "candidates", c->info.n_mech - 1, "count");
    print(c->info.name, "bare", steps / bare[0], "steps/s");
    print(c->info.name, "predicted", steps / roll[0], "steps/s");
    print(c->info.name, "bare_windy", steps / bare[1], "steps/s");
    print(c->info.name, "physical", steps / roll[1], "steps/s");
    pf_plant_destroy(r.plant);
}

typedef struct turn {
    rig r;
    bool roll, physical; // by pf_plant_roll; with what is random
} turn;

static double one_turn(void *self)
{
    enum { PROBES = 64 * VARIANTS };
    turn *t = self;
    if (t->roll) {
        run_roll(&t->r, PROBES, t->physical);
    } else {
        run_bare(&t->r, PROBES, t->physical);
    }
    return (double)PROBES * t->r.rows;
}

// Turns of one way, after it is seen that both compute the same.
static int take_turns(const char *plant, const char *way)
{
    static turn t;
    for (int i = 0; i < pf_plant_count(); i++) {
        if (strcmp(pf_plant_at(i)->info.name, plant) == 0) {
            prepare(&t.r, pf_plant_at(i));
            compare(&t.r);
            t.physical = strcmp(way, "physical") == 0 || strcmp(way, "bare_windy") == 0;
            t.roll = strcmp(way, "physical") == 0 || strcmp(way, "predicted") == 0;
            int code = bench_turns(one_turn, &t);
            pf_plant_destroy(t.r.plant);
            return code;
        }
    }
    fprintf(stderr, "bench_plants: no plant is called %s\n", plant);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "turns") == 0) {
        return take_turns(argv[2], argv[3]);
    }
    int repeats = argc > 1 ? atoi(argv[1]) : 40;
    for (int i = 0; i < pf_plant_count(); i++) {
        measure(pf_plant_at(i), repeats);
    }
    return 0;
}
