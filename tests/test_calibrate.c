// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate/observe.h"
#include "preflight/calibrate.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Calibration on the attitude plant: bytes, contents, and what a kit for use does in use.

typedef struct bench {
    pf_plant *plant;
    void *bytes;
    size_t n;
    pf_kit kit;
    void *memory;
    double start[8], response[64 * 8];
} bench;

static bool calibrated(bench *b, const pf_plan *plan, int threads)
{
    pf_error error = {PF_OK, ""};
    pf_effort effort = {.threads = threads};
    bool good = pf_calibrate(plan, b->plant, &effort, &b->bytes, &b->n, &error) == PF_OK &&
                pf_kit_load(&b->kit, b->bytes, b->n, &error) == PF_OK;
    if (!CHECK(good)) {
        printf("%s\n", error.text);
        return false;
    }
    b->memory = aligned_alloc(16, (pf_session_size(&b->kit) + 15) / 16 * 16);
    return true;
}

static void release(bench *b)
{
    free(b->bytes);
    free(b->memory);
    pf_plant_destroy(b->plant);
}

static pf_session *check_once(bench *b, const double *gains, uint64_t seed)
{
    pf_session *session = NULL;
    pf_error error = {PF_OK, ""};
    pf_rig rig = {b->plant, &b->kit, gains, b->start, b->response};
    pf_drive drive = {.seed = seed, .purpose = PF_PURPOSE_EVALUATION};
    CHECK(pf_session_init(&session, &b->kit, NULL, b->memory, pf_session_size(&b->kit), &error) ==
          PF_OK);
    if (!CHECK(pf_drive_session(session, &rig, &drive, &error) == PF_OK)) {
        printf("%s\n", error.text);
    }
    pf_session_certify(session);
    return session;
}

static bool all_go(const bench *b, const pf_session *session)
{
    for (int t = 0; t < b->kit.n_tasks; t++) {
        if (pf_session_task(session, t)->decision != PF_GO) {
            return false;
        }
    }
    return true;
}

static void check_bytes(void)
{
    pf_plan plan;
    bench one = {0}, two = {0}, other = {0};
    CHECK(pf_plant_create(&one.plant, "attitude", NULL) == PF_OK);
    CHECK(pf_plant_create(&two.plant, "attitude", NULL) == PF_OK);
    CHECK(pf_plant_create(&other.plant, "attitude", NULL) == PF_OK);
    CHECK(pf_plan_default(&plan, pf_plant_get_info(one.plant), NULL) == PF_OK);
    if (calibrated(&one, &plan, 1) && calibrated(&two, &plan, 3)) {
        CHECK(one.n == two.n && memcmp(one.bytes, two.bytes, one.n) == 0);
    }
    plan.seed = 1;
    if (calibrated(&other, &plan, 2)) {
        CHECK(one.n == other.n && memcmp(one.bytes, other.bytes, one.n) != 0);
    }
    // what a kit for use starts from
    const pf_kit *k = &one.kit;
    CHECK(k->prior[0] == .95 && k->hazard == 0 && k->require_probe == 1);
    CHECK(k->budget1 == 14 && k->budget2 == 2 && k->stop == PF_STOP_LATCH);
    CHECK(k->n_grid == 17 && k->n_bins == 5 && k->g_cal == .35);
    for (int t = 0; t < k->n_targets; t++) {
        CHECK_NEAR(k->m0[t], 0, .05);
        CHECK_NEAR(k->m1[t], 1, .05);
        CHECK_NEAR(k->sigma[t], .06, .03);
    }
    // a healthy mechanism that delivers everything tracks; none at all misses by the whole energy
    CHECK(k->nte[20] < .01);
    CHECK_NEAR(k->nte[0], 1, .1);
    pf_plan_free(&plan);
    release(&one);
    release(&two);
    release(&other);
}

static void check_use(void)
{
    pf_plan plan;
    bench b = {0};
    CHECK(pf_plant_create(&b.plant, "attitude", NULL) == PF_OK);
    CHECK(pf_plan_default(&plan, pf_plant_get_info(b.plant), NULL) == PF_OK);
    if (calibrated(&b, &plan, 0)) {
        int ready = 0, found = 0, located = 0, blamed = 0;
        for (uint64_t seed = 0; seed < 200; seed++) {
            pf_session *session = check_once(&b, NULL, seed);
            ready += all_go(&b, session);
            double gains[8] = {1, 1, 1, 1, 1, 1, 1, 1};
            int j = 1 + (int)(seed % 7);
            gains[j] = .35;
            session = check_once(&b, gains, seed);
            found += pf_session_alarm(session);
            located += pf_session_mechanism(session, j)->changed > .9;
            for (int i = 1; i < 8; i++) {
                blamed += i != j && pf_session_mechanism(session, i)->changed > .5;
            }
        }
        printf("attitude kit: healthy all ready %d/200, loss to .35 alarmed %d/200, located "
               "%d/200, others blamed %d\n",
               ready, found, located, blamed);
        CHECK(ready >= 180);
        CHECK(found >= 180);
        CHECK(located >= 170);
        CHECK(blamed <= 5);
    }
    pf_plan_free(&plan);
    release(&b);
}

static void check_methods(void)
{
    pf_error error = {PF_OK, ""};
    for (int i = 0; i < pf_method_count(); i++) {
        pf_plan plan;
        bench b = {0};
        CHECK(pf_plant_create(&b.plant, "attitude", NULL) == PF_OK);
        CHECK(pf_plan_default(&plan, pf_plant_get_info(b.plant), &error) == PF_OK);
        plan.method = pf_method_at(i)->id;
        plan.alarm_trials = 100;
        if (calibrated(&b, &plan, 0)) {
            double gains[8] = {1, 1, .3, 1, 1, 1, 1, 1};
            pf_session *session = check_once(&b, gains, 3);
            CHECK(pf_session_told(session) > 0);
            CHECK_STR(pf_session_method(session)->id, plan.method);
        }
        pf_plan_free(&plan);
        release(&b);
    }
}

static void check_refusals(void)
{
    pf_plant *plant = NULL;
    pf_plan plan;
    pf_error error = {PF_OK, ""};
    void *bytes = NULL;
    size_t n = 0;
    CHECK(pf_plant_create(&plant, "attitude", NULL) == PF_OK);
    CHECK(pf_plan_default(&plan, pf_plant_get_info(plant), &error) == PF_OK);
    plan.method = "no-such";
    CHECK(pf_calibrate(&plan, plant, NULL, &bytes, &n, &error) == PF_ERR_ARGUMENT);
    CHECK_CONTAINS(error.text, "no-such");
    plan.method = "eg-mpt";
    // no noise at all: the channel would be a lie
    plan.sensor_noise = 0;
    pf_plan quiet = plan;
    volatile int stop = 1;
    pf_effort effort = {.threads = 2, .stop = &stop};
    CHECK(pf_calibrate(&quiet, plant, &effort, &bytes, &n, &error) == PF_ERR_INTERRUPTED);
    CHECK(bytes == NULL);
    // a probe too weak to open the valve shows nothing
    pf_plan_free(&plan);
    const char *set[] = {"probes=[{name: tiny, pulse: {mechanism: 1, amplitude: .03}}]",
                         "tasks=[{name: t, mechanisms: 1, command: [[0,.3,0,0,0,0,0,0]]}]"};
    CHECK(pf_plan_from_config(&plan, pf_plant_get_info(plant), "--set", NULL, 0, set, 2, &error) ==
          PF_OK);
    CHECK(pf_calibrate(&plan, plant, NULL, &bytes, &n, &error) == PF_ERR_DEGENERATE);
    CHECK_CONTAINS(error.text, "thruster1");
    pf_plan_free(&plan);
    // two thrusters that push the same way cannot be told apart in one probe
    const char *twin[] = {"probes=[{name: pair, command: [[0,.3,0,0,.3,0,0,0],[0,.3,0,0,.3,0,0,0],"
                          "[0,.3,0,0,.3,0,0,0],[0,.3,0,0,.3,0,0,0]], targets: [1, 4]}]",
                          "tasks=[{name: t, mechanisms: 1, command: [[0,.3,0,0,0,0,0,0]]}]"};
    CHECK(pf_plan_from_config(&plan, pf_plant_get_info(plant), "--set", NULL, 0, twin, 2, &error) ==
          PF_OK);
    pf_status status = pf_calibrate(&plan, plant, NULL, &bytes, &n, &error);
    CHECK(status == PF_OK || status == PF_ERR_DEGENERATE);
    free(bytes);
    pf_plan_free(&plan);
    pf_plant_destroy(plant);
}

void test_calibrate(void)
{
    PF_CASE("byte-identical for any number of threads");
    check_bytes();
    PF_CASE("healthy machines are ready, losses are found");
    check_use();
    PF_CASE("every method calibrates and checks");
    check_methods();
    PF_CASE("refusals");
    check_refusals();
}
