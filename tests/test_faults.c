// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "preflight/run.h"
#include "core/kit_layout.h"
#include "core/rng.h"
#include "calibrate/plan.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Several faults at once on real plants: who is named, who is blamed. Kits for use with single
// pulses that spend their whole budget: no task can reach a j_min of 1, so none ends the check
// before everything was looked at as often as the budget allows.

enum { TRIALS = 40 };
static const double gains_of[] = {.2, .35, .5, .65};

typedef struct score {
    int trials, named, healthy, blamed;
} score;

static void run_trial(pf_plant *plant, const pf_kit *kit, int n_faults, int trial, score *out)
{
    const pf_plant_info *info = pf_plant_get_info(plant);
    double gains[PF_MECH_MAX];
    pf_rng rng;
    pf_rng_init(&rng, pf__key_text(pf_key_root((uint64_t)trial), info->name));
    for (int j = 0; j < kit->n_mech; j++) {
        gains[j] = 1;
    }
    for (int i = 0; i < n_faults;) {
        int j = 1 + (int)pf_rng_below(&rng, (uint32_t)(kit->n_mech - 1));
        if (gains[j] == 1) {
            gains[j] = gains_of[pf_rng_below(&rng, 4)];
            i++;
        }
    }
    pf_check *check = NULL;
    pf_check_config config = {.machine = plant, .gains = gains, .seed = 31};
    pf_drive drive = pf_drive_default();
    drive.trial = (uint64_t)trial;
    CHECK(pf_check_create(&check, kit, &config, NULL) == PF_OK);
    CHECK(pf_check_run(check, &drive, NULL) == PF_OK);
    const pf_session *s = pf_check_session(check);
    bool all = true;
    for (int j = 1; j < kit->n_mech; j++) {
        const pf_mechanism_readiness *r = pf_session_mechanism(s, j);
        all = all && (gains[j] == 1 || r->changed > .5);
        out->healthy += gains[j] == 1;
        out->blamed += gains[j] == 1 && r->changed > .5;
    }
    out->trials++;
    out->named += all;
    pf_check_destroy(check);
}

static score run_plant(const char *name, int n_faults)
{
    score out = {0};
    pf_plant *plant = NULL;
    pf_plan plan;
    void *bytes = NULL;
    size_t n = 0;
    pf_kit kit;
    pf_error error = {PF_OK, ""};
    const char *set[] = {"faults=many", "j_min=1"};
    CHECK(pf_plant_create(&plant, name, &error) == PF_OK);
    CHECK(pf__plan_from_config(&plan, pf_plant_get_info(plant), "--set", NULL, 0, set, 2, &error) ==
          PF_OK);
    plan.settings.alarm_trials = 500;
    bool good = pf_calibrate(&plan, plant, NULL, NULL, &bytes, &n, &error) == PF_OK &&
                pf__kit_read(&kit, bytes, n, &error) == PF_OK;
    if (CHECK(good)) {
        for (int trial = 0; trial < TRIALS; trial++) {
            run_trial(plant, &kit, n_faults, trial, &out);
        }
    }
    free(bytes);
    pf__plan_free(&plan);
    pf_plant_destroy(plant);
    return out;
}

void test_faults(void)
{
    for (int n_faults = 1; n_faults <= 3; n_faults++) {
        int plants = 0, blamed = 0, healthy = 0;
        char name[80];
        snprintf(name, sizeof name, "%d at once, eleven plants: named and not blamed", n_faults);
        PF_CASE(name);
        for (int p = 0; p < pf_plant_count(); p++) {
            const pf_plant_class *c = pf_plant_at(p);
            if (c->info.n_mech - 1 < 3) {
                continue; // classic control: no three candidates
            }
            score s = run_plant(c->info.name, n_faults);
            printf("    %d at once, %-14s all named in %d of %d, %d of %d healthy ones blamed\n",
                   n_faults, c->info.name, s.named, s.trials, s.blamed, s.healthy);
            plants += s.named >= .9 * s.trials;
            blamed += s.blamed;
            healthy += s.healthy;
        }
        CHECK(plants >= 9);
        CHECK(blamed <= .01 * healthy);
    }
}
