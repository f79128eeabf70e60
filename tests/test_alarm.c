// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate/plan.h"
#include "design/search.h"
#include "core/kit_layout.h"
#include "preflight/run.h"
#include "host/parallel.h"
#include "preflight/design.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

// The family-wise alarm rate on fresh nominal trials, under the settings of the paper's suites,
// with the paper's library and with a designed one.

enum { CALIBRATIONS = 8, TRIALS = 10000, SHORT_TRIALS = 2000, THREADS = 2 };

typedef struct rate_work {
    const pf_kit *kit;
    uint64_t seed;
    pf_plant *plant[THREADS];
    void *memory[THREADS];
    bool *alarm;
} rate_work;

static pf_status run_trial(void *self, int worker, size_t trial, pf_error *error)
{
    rate_work *w = self;
    pf_session *session = NULL;
    double start[8], response[64];
    pf_rng rng;
    pf_rng_init(&rng, pf_key_stream(w->seed, "attitude", trial, PF_PURPOSE_LAW, 0));
    pf_rig rig = {.plant = w->plant[worker], .kit = w->kit, .start = start, .response = response};
    pf_drive drive = {.seed = w->seed,
                      .trial = trial,
                      .purpose = PF_PURPOSE_EVALUATION,
                      .only_stage1 = true,
                      .most = (35 + (int)pf_rng_below(&rng, 11) - 1) / 5};
    pf_machine machine = pf_rig_machine(&rig);
    pf_predictor twin;
    pf_status status = pf_predictor_create(&twin, w->kit, w->plant[worker], NULL, error);
    if (status != PF_OK) {
        return status;
    }
    status =
        pf_session_init(&session, w->kit, NULL, w->memory[worker], pf_session_size(w->kit), error);
    if (status == PF_OK) {
        status = pf_drive_session(session, &machine, &twin, &drive, error);
        w->alarm[trial] = pf_session_get_state(session).alarm;
    }
    pf_predictor_destroy(&twin);
    return status;
}

static double measure(const pf_kit *kit, uint64_t seed)
{
    pf_error error = {PF_OK, ""};
    const int trials = pf_long() ? TRIALS : SHORT_TRIALS;
    rate_work w = {.kit = kit, .seed = seed};
    w.alarm = calloc((size_t)trials, sizeof *w.alarm);
    for (int i = 0; i < THREADS; i++) {
        CHECK(pf_plant_create(&w.plant[i], "attitude", NULL) == PF_OK);
        w.memory[i] = aligned_alloc(16, (pf_session_size(kit) + 15) / 16 * 16);
    }
    if (!CHECK(pf__parallel(NULL, THREADS, (size_t)trials, run_trial, &w, "trials", &error) ==
               PF_OK)) {
        printf("%s\n", error.text);
    }
    int alarms = 0;
    for (int i = 0; i < trials; i++) {
        alarms += w.alarm[i];
    }
    for (int i = 0; i < THREADS; i++) {
        pf_plant_destroy(w.plant[i]);
        free(w.memory[i]);
    }
    free(w.alarm);
    return (double)alarms / trials;
}

static void check_rates(pf_plant *plant, bool designed, pf_faults faults)
{
    pf_error error = {PF_OK, ""};
    double sum = 0;
    for (int i = 0; i < CALIBRATIONS; i++) {
        static const double prior[8] = {1};
        pf_plan plan;
        void *bytes = NULL;
        size_t n = 0;
        pf_kit kit;
        CHECK(pf__plan_default(&plan, pf_plant_get_info(plant), &error) == PF_OK);
        plan.settings.seed = (uint64_t)i;
        plan.prior = prior;
        plan.settings.hazard = 1 - .99 * .99 * .99 * .99 * .99;
        plan.settings.field = false;
        plan.settings.faults = faults;
        plan.settings.every_severity = designed;
        plan.settings.budget1 = 8;
        plan.reveal_first = 35;
        plan.reveal_last = 45;
        plan.reveal_period = 5;
        bool good =
            (!designed || pf__plan_design(&plan, NULL, plant, NULL, NULL, &error) == PF_OK) &&
            pf_calibrate(&plan, plant, NULL, NULL, &bytes, &n, &error) == PF_OK &&
            pf__kit_read(&kit, bytes, n, &error) == PF_OK;
        if (CHECK(good)) {
            double rate = measure(&kit, 1000 + (uint64_t)i);
            printf("calibration %d: threshold %.4f, alarm rate %.4f\n", i, kit.threshold[0], rate);
            CHECK(!pf_long() || (rate >= .03 && rate <= .066)); // the short one has the mean alone
            sum += rate;
        }
        free(bytes);
        pf__plan_free(&plan);
    }
    printf("mean alarm rate %.4f\n", sum / CALIBRATIONS);
    CHECK(sum / CALIBRATIONS >= .035 && sum / CALIBRATIONS <= .055);
}

void test_alarm(void)
{
    pf_plant *plant = NULL;
    CHECK(pf_plant_create(&plant, "attitude", NULL) == PF_OK);
    PF_CASE("alarm rate of eight calibrations on fresh nominal trials");
    check_rates(plant, false, PF_FAULTS_ONE);
    PF_CASE("the same with several faults possible");
    check_rates(plant, false, PF_FAULTS_MANY);
    PF_CASE("the same with a designed library, the channel for every severity");
    check_rates(plant, true, PF_FAULTS_ONE);
    pf_plant_destroy(plant);
}
