// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "core/rng.h"
#include "plant/native/elementary.h"
#include "plant/native/native.h"
#include "plant/plant_impl.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Trajectories in step have the bits that each has alone; their functions are libm's but for
// rounding.

// --- exp and tanh

// The error in units of the last place of the true value, which libm tells to about one.
static double units(double got, double true_value)
{
    int exponent;
    frexp(true_value, &exponent);
    return fabs(got - true_value) / ldexp(1, exponent - 53);
}

static void test_elementary(void)
{
    double worst_exp = 0, worst_tanh = 0;
    pf_rng rng;
    pf_rng_init(&rng, 7);
    for (int i = 0; i < 400000; i++) {
        double wide = 1400 * pf_rng_uniform(&rng) - 700, near = 2 * pf_rng_uniform(&rng) - 1;
        double small = near * ldexp(1, -(i % 60));
        worst_exp = fmax(worst_exp, units(pf__exp(wide), exp(wide)));
        worst_exp = fmax(worst_exp, units(pf__exp(10 * near), exp(10 * near)));
        worst_exp = fmax(worst_exp, units(pf__exp(small), exp(small)));
        worst_tanh = fmax(worst_tanh, units(pf__tanh(25 * near), tanh(25 * near)));
        worst_tanh = fmax(worst_tanh, units(pf__tanh(small), tanh(small)));
    }
    if (!CHECK(worst_exp <= 2 && worst_tanh <= 4)) {
        printf("exp off by %g, tanh by %g units\n", worst_exp, worst_tanh);
    }
    double worst_sine = 0, s, c;
    for (int i = 0; i < 400000; i++) {
        double scale = ldexp(1, i % 60 - 40), x = scale * (2 * pf_rng_uniform(&rng) - 1);
        x = fabs(x) < 500000 ? x : x / 4;
        x = i % 3 ? x : rint(fmod(x, 300000)) * 1.5707963267948966 + x * 1e-12;
        pf__sin_cos(x, &s, &c);
        worst_sine = fmax(worst_sine, fmax(units(s, sin(x)), units(c, cos(x))));
    }
    if (!CHECK(worst_sine <= 3)) {
        printf("sine off by %g units\n", worst_sine);
    }
    pf__sin_cos(-0.0, &s, &c);
    CHECK(s == 0 && c == 1);
    pf__sin_cos(INFINITY, &s, &c);
    CHECK(isnan(s) && isnan(c));
    pf__sin_cos(-1e6, &s, &c);
    CHECK(isnan(s) && isnan(c));
    CHECK(pf__exp(0) == 1 && pf__exp(-0.0) == 1 && pf__tanh(0) == 0);
    CHECK(signbit(pf__tanh(-0.0)) && pf__tanh(-30) == -1 && pf__tanh(INFINITY) == 1);
    CHECK(pf__exp(-800) == 0 && pf__exp(-INFINITY) == 0 && isinf(pf__exp(800)) &&
          isinf(pf__exp(INFINITY)));
    CHECK(isnan(pf__exp(NAN)) && isnan(pf__tanh(NAN)));
}

// --- trajectories

enum { MOST = 75, ROWS = 20 }; // trajectories at once, more than two tiles of them

typedef struct batch {
    pf_roll rolls[MOST];
    pf_trace traces[MOST];
    double start[MOST][PF_NATIVE_STATE], initial[MOST][PF_NATIVE_STATE];
    double gains[MOST][PF_NATIVE_MECH], command[MOST][ROWS * PF_NATIVE_MECH];
    double output[MOST][ROWS * PF_NATIVE_STATE], state[MOST][ROWS * PF_NATIVE_STATE];
} batch;

// Trajectories as unlike as they can be: some disturbed, some noisy, some from a saved start, of
// any number of rows, runs of them with one key.
static void fill(batch *b, const pf_plant_info *info, int n)
{
    pf_rng rng;
    pf_rng_init(&rng, pf__key_text(pf_key_root(3), info->name));
    memset(b, 0, sizeof *b);
    for (int i = 0; i < n; i++) {
        pf_roll *roll = &b->rolls[i];
        *roll = pf_roll_default();
        roll->key = (pf_key)(i / 3);
        roll->rows = i % 5 == 4 ? (int)pf_rng_below(&rng, ROWS + 1) : ROWS;
        roll->disturbance = pf_rng_below(&rng, 3) > 0;
        roll->sensor_noise = pf_rng_below(&rng, 2) ? .5 * (1 + pf_rng_below(&rng, 2)) : 0;
        roll->start = i > 0 && i % 4 == 1 ? b->start[i - 1] : NULL;
        roll->gains = i % 6 ? b->gains[i] : NULL;
        roll->command = b->command[i];
        for (int j = 0; j < info->n_mech; j++) {
            b->gains[i][j] = 1.2 * pf_rng_uniform(&rng);
        }
        for (int k = 0; k < ROWS * info->n_mech; k++) {
            const pf_mechanism *m = &info->mechanisms[k % info->n_mech];
            bool idle = pf_rng_below(&rng, 4) == 0;
            b->command[i][k] = idle ? 0 : m->lo + (m->hi - m->lo) * pf_rng_uniform(&rng) * .4;
        }
        b->traces[i] = (pf_trace){.start = b->start[i],
                                  .initial = i % 2 ? b->initial[i] : NULL,
                                  .output = i % 7 == 6 ? NULL : b->output[i],
                                  .state = i % 3 ? b->state[i] : NULL};
    }
}

static void check_plant(const pf_plant_class *c, int n)
{
    pf_plant *plant = NULL;
    pf_error error = {PF_OK, ""};
    batch *alone = calloc(1, sizeof *alone), *together = calloc(1, sizeof *together);
    bool made = alone && together && pf_plant_from_class(&plant, c, &error) == PF_OK;
    if (CHECK(made)) {
        fill(alone, &c->info, n);
        fill(together, &c->info, n);
        for (int i = 0; i < n; i++) {
            CHECK(pf_plant_roll(plant, &alone->rolls[i], &alone->traces[i], &error) == PF_OK);
        }
        CHECK(pf__plant_roll_many(plant, n, together->rolls, together->traces, &error) == PF_OK);
        bool same = memcmp(alone->start, together->start, sizeof alone->start) == 0 &&
                    memcmp(alone->initial, together->initial, sizeof alone->initial) == 0 &&
                    memcmp(alone->output, together->output, sizeof alone->output) == 0 &&
                    memcmp(alone->state, together->state, sizeof alone->state) == 0;
        if (!CHECK(same)) {
            printf("%s: %d trajectories in step differ from each alone\n", c->info.name, n);
        }
    }
    pf_plant_destroy(plant);
    free(alone);
    free(together);
}

static void test_in_step(void)
{
    static const int numbers[] = {1, 2, 3, 8, 9, 31, 32, 33, MOST};
    for (int p = 0; p < pf_plant_count(); p++) {
        for (size_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++) {
            check_plant(pf_plant_at(p), numbers[k]);
        }
    }
}

// A plant whose state runs away tells of the first trajectory that fails, as alone.
static void test_errors(void)
{
    pf_plant *plant = NULL;
    pf_error one = {PF_OK, ""}, many = {PF_OK, ""};
    static batch b;
    CHECK(pf_plant_create(&plant, "dc_servo", NULL) == PF_OK);
    const pf_plant_info *info = pf_plant_get_info(plant);
    static double wild[2] = {0, 1e308};
    fill(&b, info, 12);
    b.rolls[7].start = wild;
    b.rolls[7].rows = b.rolls[9].rows = ROWS;
    CHECK(pf_plant_roll(plant, &b.rolls[7], &b.traces[7], &one) != PF_OK);
    CHECK(pf__plant_roll_many(plant, 12, b.rolls, b.traces, &many) == one.code);
    CHECK(strcmp(one.text, many.text) == 0);
    b.command[9][3] = NAN;
    CHECK(pf__plant_roll_many(plant, 12, b.rolls, b.traces, &many) == one.code);
    b.rolls[7].start = NULL;
    CHECK(pf__plant_roll_many(plant, 12, b.rolls, b.traces, &many) == PF_ERR_NONFINITE);
    pf_plant_destroy(plant);
}

void test_lanes(void)
{
    PF_CASE("functions of the plants are libm's but for rounding");
    test_elementary();
    PF_CASE("trajectories in step have the bits of each alone");
    test_in_step();
    PF_CASE("a trajectory that fails says what it says alone");
    test_errors();
}
