// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "test.h"
#include "calibrate/plan.h"
#include "core/kit_layout.h"

#include "preflight/calibrate.h"
#include "preflight/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Probes that are closed loops of the plant (appendix B.2: "open-loop sequence or feedback
// controller").

enum { CHAN = 4, STATE = 4, ROWS = 40, CHECKS = 20 };

#define PUSHES                                                                                     \
    "tasks:\n"                                                                                     \
    "  - {name: right, mechanisms: right, command: [[0,.25,0],[0,.25,0],[0,.25,0],[0,.25,0]]}\n"   \
    "  - {name: left, mechanisms: left, command: [[0,0,.25],[0,0,.25],[0,0,.25],[0,0,.25]]}\n"
static const char balance[] =
    "episodes: 40\nalarm_trials: 200\nprobes:\n"
    "  - {name: steady, policy: balance_right, rows: 40, targets: right}\n"
    "  - {name: firm, policy: balance_left, rows: 40, targets: left}\n"
    "  - {name: push, pulse: {mechanism: left, amplitude: .25}}\n" PUSHES;

static pf_status read_plan(pf_plan *plan, const pf_plant *plant, const char *text, pf_error *error)
{
    *error = (pf_error){PF_OK, ""};
    return pf__plan_from_config(plan, pf_plant_get_info(plant), "loops.yaml", text, strlen(text),
                                NULL, 0, error);
}

static void check_refused(const pf_plant *plant)
{
    PF_CASE("what cannot be a closed loop is refused, with the loops there are");
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"probes: [{name: a, policy: fly}]", "which has balance_right, balance_left"},
        {"probes: [{name: a, policy: balance_left, pulse: {mechanism: left, amplitude: 1}}]",
         "several of command, pulse and policy"},
        {"probes: [{name: a}]", "none of command, pulse and policy"},
        {"probes: [{name: a, policy: balance_left, rows: 501}]", "has 500 rows, not 501"},
        {"probes: [{name: a, command: [[0, 1, 0]], rows: 1}]", "rows are those of a policy"},
        {"probes: [{name: a, policy: balance_left}]", "add one, or list `tasks`"},
        {"probes: [{name: a, policy: balance_left, targets: cart}]", "is not a candidate"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pf_plan plan;
        pf_error error;
        CHECK(read_plan(&plan, plant, cases[i].text, &error) != PF_OK);
        CHECK_CONTAINS(error.text, cases[i].part);
    }
}

// The machine and its twin run the loop itself; the witness is the plant.
static void check_responses(pf_plant *plant, const pf_kit *kit)
{
    PF_CASE("response and prediction are the plant's loop, step by step");
    double start[STATE + 1], response[500 * CHAN], direct[ROWS * CHAN], predicted[ROWS * CHAN];
    double gains[] = {1, .35, 1};
    pf_rig rig = {.plant = plant,
                  .kit = kit,
                  .gains = gains,
                  .start = start,
                  .response = response,
                  .own_noise = true};
    pf_key key = pf_key_stream(5, "cartpole", 0, PF_PURPOSE_EVALUATION, 0);
    pf_roll roll = pf_roll_default();
    CHECK(pf_rig_run(&rig, 0, key, NULL) == PF_OK);
    roll.key = key;
    roll.policy = 0;
    roll.rows = ROWS;
    roll.gains = gains;
    roll.disturbance = true;
    roll.sensor_noise = 1;
    CHECK(pf_plant_roll(plant, &roll, &(pf_trace){.output = direct}, NULL) == PF_OK);
    CHECK(memcmp(direct, response, sizeof direct) == 0);
    pf_predictor twin;
    pf_hypothesis h = {.probe = 0, .mechanism = 1, .gain = .35};
    CHECK(pf_predictor_create(&twin, kit, plant, NULL, NULL) == PF_OK);
    CHECK(twin.predict(twin.self, &h, start, STATE, predicted, NULL) == PF_OK);
    roll.start = start;
    roll.disturbance = false;
    roll.sensor_noise = 0;
    CHECK(pf_plant_roll(plant, &roll, &(pf_trace){.output = direct}, NULL) == PF_OK);
    CHECK(memcmp(direct, predicted, sizeof direct) == 0);
    pf_predictor_destroy(&twin);
}

// At rest in the middle the loop does nothing, so a loss shows nothing there. A wild response is
// wild all the same.
static void check_hidden(pf_plant *plant, const pf_kit *kit)
{
    PF_CASE("a wild response from a start that hides every signature is implausible");
    double start[STATE] = {0}, response[ROWS * CHAN];
    size_t bytes = pf_session_size(kit);
    void *memory = aligned_alloc(16, (bytes + 15) / 16 * 16);
    pf_session *s = NULL;
    pf_predictor twin;
    for (int i = 0; i < ROWS * CHAN; i++) {
        response[i] = 1e6;
    }
    CHECK(pf_predictor_create(&twin, kit, plant, NULL, NULL) == PF_OK);
    CHECK(pf_session_init(&s, kit, NULL, memory, bytes, NULL) == PF_OK);
    pf_ask ask = pf_session_ask(s);
    while (ask.kind == PF_ASK_PROBE && ask.probe == 2) { // the push does show
        CHECK(pf_session_skip(s, NULL) == PF_OK);
        ask = pf_session_ask(s);
    }
    pf_tell tell = {.probe = ask.probe,
                    .response = response,
                    .rows = ask.rows,
                    .channels = CHAN,
                    .start = start,
                    .n_start = STATE};
    CHECK(pf_session_tell(s, &tell, &twin, NULL) == PF_OK);
    int n = 0;
    const pf_reading *r = pf_session_readings(s, &n);
    CHECK(n == 1 && !r[0].usable && !r[0].plausible);
    CHECK(pf_session_get_state(s).implausible == 1);
    pf_predictor_destroy(&twin);
    free(memory);
}

static void check_found(pf_plant *plant, const pf_kit *kit)
{
    PF_CASE("losses are found and named with loops for probes, healthy machines rarely alarm");
    int named = 0, alarms = 0;
    for (int i = 0; i < CHECKS; i++) {
        for (int weak = 0; weak < 2; weak++) {
            int j = 1 + i % 2;
            double gains[] = {1, weak && j == 1 ? .35 : 1, weak && j == 2 ? .35 : 1};
            pf_check_config config = {.machine = plant, .gains = gains, .seed = (uint64_t)i};
            pf_check *check = NULL;
            CHECK(pf_check_create(&check, kit, &config, NULL) == PF_OK &&
                  pf_check_run(check, NULL, NULL) == PF_OK);
            pf_session *s = pf_check_session(check);
            const pf_mechanism_readiness *m = pf_session_mechanism(s, j);
            named += weak && m->changed > .9;
            alarms += !weak && pf_session_get_state(s).alarm;
            pf_check_destroy(check);
        }
    }
    CHECK(named >= CHECKS - 1);
    CHECK(alarms <= 3);
}

static void check_kit(pf_plant *plant)
{
    pf_plan plan;
    pf_error error;
    void *bytes = NULL;
    size_t n = 0;
    pf_kit kit;
    PF_CASE("a kit with closed loops among its probes");
    bool good = CHECK(read_plan(&plan, plant, balance, &error) == PF_OK) &&
                CHECK(pf_calibrate(&plan, plant, NULL, NULL, &bytes, &n, &error) == PF_OK) &&
                CHECK(pf__kit_read(&kit, bytes, n, &error) == PF_OK);
    CHECK_STR(error.text, "");
    if (good) {
        CHECK_STR(pf_kit_probe_policy(&kit, 0), "balance_right");
        CHECK_STR(pf_kit_probe_policy(&kit, 1), "balance_left");
        CHECK_STR(pf_kit_probe_policy(&kit, 2), "");
        CHECK(pf_kit_probe_rows(&kit, 0) == ROWS);
        char *json = pf_kit_json(&kit);
        CHECK_CONTAINS(json, "\"rows\":40,\"policy\":\"balance_right\",\"targets\"");
        free(json);
        check_responses(plant, &kit);
        check_hidden(plant, &kit);
        check_found(plant, &kit);
    }
    free(bytes);
    pf__plan_free(&plan);
}

void test_loops(void)
{
    pf_plant *plant = NULL;
    if (CHECK(pf_plant_create(&plant, "cartpole", NULL) == PF_OK)) {
        check_refused(plant);
        check_kit(plant);
    }
    pf_plant_destroy(plant);
}
