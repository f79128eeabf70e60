// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "bench.h"
#include "design/search.h"
#include "core/score.h"

#include "design/design_impl.h"

#include <math.h>
#include <stdlib.h>

// Time of the exchange alone for sixteen mechanisms and eight steps (window 8 x 45, four starts,
// made-up sensitivities), and of a whole design of the attitude library on one thread.
// `bench_design`.

enum { MECH = 17, STEPS = 8, WINDOW = 8 * 45, STARTS = 4, COLUMNS = (MECH - 1) * STEPS * 2 };

static void fill(pf_sensitivity *s, double *signature)
{
    pf_rng rng;
    pf_rng_init(&rng, pf_key_root(1));
    for (size_t i = 0; i < (size_t)STARTS * COLUMNS * WINDOW; i++) {
        signature[i] = pf_rng_normal(&rng);
    }
    for (size_t i = 0; i < (size_t)STARTS * COLUMNS; i++) {
        size_t start = i / COLUMNS;
        for (size_t k = 0; k < COLUMNS; k++) {
            s->gram[i * COLUMNS + k] =
                pf__dot(WINDOW, signature + i * WINDOW, signature + (start * COLUMNS + k) * WINDOW);
            s->noise[i * COLUMNS + k] = .01 * s->gram[i * COLUMNS + k];
        }
    }
}

static void bench_exchange(void)
{
    static double most[1] = {INFINITY};
    static pf_level levels[MECH];
    pf_design_config config = {
        .steps = STEPS, .rows = STEPS, .n_mech = MECH, .n_chan = 1, .most = most};
    pf_sensitivity s = {.n_starts = STARTS,
                        .steps = STEPS,
                        .n_mech = MECH,
                        .n_columns = COLUMNS,
                        .levels = levels,
                        .config = &config};
    double *signature = malloc(sizeof(double) * STARTS * COLUMNS * WINDOW), move = 0;
    s.gram = malloc(sizeof(double) * STARTS * COLUMNS * COLUMNS);
    s.noise = malloc(sizeof(double) * STARTS * COLUMNS * COLUMNS);
    s.move = &move;
    int group[MECH - 1];
    for (int j = 1; j < MECH; j++) {
        levels[j] = (pf_level){.top = 1, .up = 1, .down = -1, .rate = INFINITY};
        group[j - 1] = j;
    }
    pf_exchange *x = pf__exchange_create(&s, MECH - 1, 1);
    if (!signature || !s.gram || !s.noise || !x) {
        exit(1);
    }
    fill(&s, signature);
    double begin = bench_now();
    for (uint64_t start = 0; start < 8; start++) {
        pf_rng rng;
        pf_rng_init(&rng, pf_key_root(10 + start));
        pf__exchange_draw(x, MECH - 1, group, &rng);
        pf__exchange_improve(x, true, 60);
    }
    bench_print("design_exchange_16x8_8_starts", bench_now() - begin, "s");
    pf__exchange_destroy(x);
    free(signature);
    free(s.gram);
    free(s.noise);
}

static void bench_attitude(void)
{
    pf_plant *plant = NULL;
    pf_plan plan;
    pf_design_config config;
    pf_design design;
    pf_effort effort = {.threads = 1};
    if (pf_plant_create(&plant, "attitude", NULL) != PF_OK ||
        pf__plan_default(&plan, pf_plant_get_info(plant), NULL) != PF_OK ||
        pf__design_config_read(&config, &plan, NULL) != PF_OK) {
        exit(1);
    }
    config.compare = false;
    double begin = bench_now();
    if (pf__design_create(&design, &config, &plan, plant, NULL, &effort, NULL) != PF_OK) {
        exit(1);
    }
    bench_print("design_attitude_1_thread", bench_now() - begin, "s");
    pf__design_free(&design);
    pf__limits_free(&config);
    pf__plan_free(&plan);
    pf_plant_destroy(plant);
}

int main(void)
{
    bench_exchange();
    bench_attitude();
    return 0;
}
