// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "test.h"
#include "core/kit_layout.h"

#include "preflight/run.h"
#include "calibrate/plan.h"
#include "bench/responses.h"
#include "bench/trial.h"
#include "run/run_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The response responses of a trial against what it stands for: real trajectories.

// A small kit of a plant, for its probes and tasks.
static bool plant_kit(pf_plant *plant, void **bytes, pf_kit *kit)
{
    pf_plan plan;
    pf_error error = {PF_OK, ""};
    size_t n = 0;
    if (!CHECK(pf__plan_default(&plan, pf_plant_get_info(plant), &error) == PF_OK)) {
        return false;
    }
    plan.settings.episodes = 12;
    plan.settings.alarm_trials = 20;
    plan.settings.members = 1;
    plan.settings.every_severity = false;
    plan.settings.field = false;
    if (pf_plant_get_info(plant)->deterministic) {
        plan.settings.sensor_noise = .25;
    }
    bool good = pf_calibrate(&plan, plant, NULL, NULL, bytes, &n, &error) == PF_OK &&
                pf__kit_read(kit, *bytes, n, &error) == PF_OK;
    pf__plan_free(&plan);
    if (!CHECK(good)) {
        printf("%s\n", error.text);
    }
    return good;
}

static bool small_kit(const pf_plant_class *c, pf_plant **plant, void **bytes, pf_kit *kit)
{
    return CHECK(pf_plant_from_class(plant, c, NULL) == PF_OK) && plant_kit(*plant, bytes, kit);
}

// One rollout of a task from the trial's start.
static const double *direct_roll(pf_responses *r, int task, const double *gains, int member,
                                 bool moves)
{
    static double out[3][4096], zero[4096];
    double start[PF_STATE_MAX];
    const pf_kit *k = r->kit;
    const char *name = pf_plant_get_info(r->plant)->name;
    double *to = out[!moves ? 0 : gains ? 1 : 2];
    pf_roll roll = pf_roll_default();
    roll.key = pf_key_stream(r->seed, name, r->trial, PF_PURPOSE_TASK, 0);
    CHECK(pf_plant_roll(r->plant, &roll, &(pf_trace){.start = start}, NULL) == PF_OK);
    roll.start = start;
    roll.key = pf_key_stream(r->seed, name, r->trial, PF_PURPOSE_MEMBER, (uint64_t)member);
    roll.gains = gains;
    roll.rows = pf_kit_task_rows(k, task);
    roll.command = moves ? k->task_command + (size_t)k->task_row[task] * (size_t)k->n_mech : zero;
    roll.disturbance = gains != NULL;
    CHECK(pf_plant_roll(r->plant, &roll, &(pf_trace){.output = to}, NULL) == PF_OK);
    return to;
}

// NTE of a task at a share by rollouts of its own.
static double direct_nte(pf_responses *r, int task, int member, double share)
{
    const pf_kit *k = r->kit;
    double gains[PF_MECH_MAX], sum = 0, energy = 0;
    for (int j = 0; j < k->n_mech; j++) {
        gains[j] = 1;
    }
    gains[k->use_mech[k->task_use[task]]] = share;
    const double *out = direct_roll(r, task, gains, member, true);
    const double *reference = direct_roll(r, task, NULL, 0, true);
    const double *still = direct_roll(r, task, NULL, 0, false);
    for (int i = 0; i < pf_kit_task_rows(k, task) * k->n_chan; i++) {
        double scale = k->return_scale[i % k->n_chan];
        sum += (out[i] - reference[i]) / scale * ((out[i] - reference[i]) / scale);
        energy += (reference[i] - still[i]) / scale * ((reference[i] - still[i]) / scale);
    }
    return sum / energy;
}

// The parabola through the nodes against the physics: what a predicted return may be off by.
static void check_returns(void)
{
    for (int p = 0; p < pf_plant_count(); p++) {
        const pf_plant_class *c = pf_plant_at(p);
        pf_plant *plant = NULL;
        void *bytes = NULL;
        pf_kit kit;
        pf_responses responses;
        double worst = 0;
        pf_rng rng;
        pf_rng_init(&rng, (pf_key)p);
        if (small_kit(c, &plant, &bytes, &kit) &&
            CHECK(pf__responses_init(&responses, plant, &kit, NULL, NULL) == PF_OK)) {
            for (int i = 0; i < 60; i++) {
                int task = i % kit.n_tasks, member = i % PF_RESPONSES_MEMBERS;
                double share = 2.5 * pf_rng_uniform(&rng), nte = 0;
                if (i % 12 == 0) {
                    pf__responses_start(&responses, 3, (uint64_t)i, PF_PURPOSE_EVALUATION, 1,
                                        &(int){1}, &(double){.35});
                }
                CHECK(pf__responses_nte(&responses, task, member, share, &nte, NULL) == PF_OK);
                double real = direct_nte(&responses, task, member, share);
                worst = fmax(worst, fabs(exp(-fmin(nte, 10)) - exp(-fmin(real, 10))));
            }
            pf__responses_free(&responses);
        }
        printf("%-16s largest error of a predicted return %.1e\n", c->info.name, worst);
        // limits put a kink into the range of two plants: current and level
        bool battery = strcmp(c->info.name, "battery") == 0;
        bool tank = strcmp(c->info.name, "quad_tank") == 0;
        CHECK(worst < (battery ? 2e-2 : tank ? 6e-3 : 2e-3));
        free(bytes);
        pf_plant_destroy(plant);
    }
}

// At a node and between nodes alike: a rollout that fails, an error that is not finite.
static void check_bad_returns(void)
{
    pf_plant *plant = NULL;
    void *bytes = NULL;
    pf_kit kit;
    pf_responses responses;
    if (!small_kit(pf_plant_at(0), &plant, &bytes, &kit) ||
        !CHECK(pf__responses_init(&responses, plant, &kit, NULL, NULL) == PF_OK)) {
        return;
    }
    for (int i = 0; i < 2; i++) {
        pf_error error = {PF_OK, ""};
        double share = i == 0 ? .5 : .55, nte = -1;
        pf__responses_start(&responses, 3, 0, PF_PURPOSE_EVALUATION, 1, &(int){1}, &(double){.35});
        CHECK(pf__responses_nte(&responses, 0, 0, 1, &nte, &error) == PF_OK && nte >= 0);
        // an error that cannot be scaled, and a start that no plant takes
        double *scale = (double *)(uintptr_t)kit.return_scale, kept_scale = scale[0];
        double *start = (double *)(uintptr_t)pf__flight_state(responses.flight), kept = start[0];
        scale[0] = 0;
        nte = -1;
        CHECK(pf__responses_nte(&responses, 0, 0, share, &nte, &error) == PF_ERR_NONFINITE &&
              nte == -1);
        CHECK_CONTAINS(error.text, "its tracking error is not finite");
        scale[0] = kept_scale;
        start[0] = NAN;
        CHECK(pf__responses_nte(&responses, 0, 1, share, &nte, &error) != PF_OK && nte == -1);
        start[0] = kept;
        CHECK(pf__responses_nte(&responses, 0, 1, share, &nte, &error) == PF_OK && nte >= 0);
    }
    pf__responses_free(&responses);
    free(bytes);
    pf_plant_destroy(plant);
}

// The most that limits allow is what a machine delivers whose commands are multiplied by 1/gain and
// clipped: all of the task at a mild loss, the clipped share of it at a grave one.
static void check_attainable(void)
{
    pf_plant *plant = NULL;
    void *bytes = NULL;
    pf_kit kit;
    pf_responses r;
    if (!small_kit(pf_plant_at(0), &plant, &bytes, &kit) ||
        !CHECK(pf__responses_init(&r, plant, &kit, NULL, NULL) == PF_OK)) {
        return;
    }
    int j = kit.use_mech[kit.task_use[0]];
    for (int i = 0; i < 2; i++) {
        double gain = i == 0 ? .8 : .05, gains[PF_MECH_MAX], most = 0;
        double share = pf_kit_delivered_share(&kit, 0, j, 1 / gain, gain);
        CHECK((fabs(share - 1) < 1e-12) == (i == 0));
        pf__responses_start(&r, 3, 1, PF_PURPOSE_EVALUATION, 1, &j, &gain);
        CHECK(pf__responses_attainable(&r, 0, 0, &most, NULL) == PF_OK);
        for (int k = 0; k < kit.n_mech; k++) {
            gains[k] = k == j ? share : 1;
        }
        pf_flown flown;
        pf_attempt same = {
            .task = 0, .key = pf__responses_stream(&r, PF_PURPOSE_TASK, 1), .gains = gains};
        CHECK(pf__responses_fly(&r, &same, &flown, NULL) == PF_OK);
        CHECK_NEAR(most, flown.ret, 1e-9);
        long rolls = r.rolls;
        CHECK(pf__responses_attainable(&r, 0, 0, &most, NULL) == PF_OK && r.rolls == rolls);
    }
    pf__responses_free(&r);
    free(bytes);
    pf_plant_destroy(plant);
}

// A kit with single pulses, or with a pair of targets in each probe and weights.
static bool pair_kit(pf_plant **plant, void **bytes, pf_kit *kit, bool pairs)
{
    if (!pairs) {
        return small_kit(pf_plant_at(0), plant, bytes, kit);
    }
    static const char config[] =
        "weighting: shrunk\nfaults: many\nrequire_probe: false\n"
        "episodes: 20\nprobes:\n"
        "  - {name: a, command: [[0,.26,.26,0,0,0,0,0],"
        "[0,.26,.26,0,0,0,0,0],[0,.26,0,0,0,0,0,0],[0,.26,0,0,0,0,0,0]]}\n"
        "  - {name: b, command: [[0,0,0,.26,.26,0,0,0],"
        "[0,0,0,.26,.26,0,0,0],[0,0,0,.26,0,0,0,0],[0,0,0,.26,0,0,0,0]]}\n"
        "tasks: [{name: t, mechanisms: 1, command: [[0,.2,0,0,0,0,0,0]]}]\n";
    pf_plan plan;
    pf_error error = {PF_OK, ""};
    size_t n = 0;
    bool good = pf_plant_create(plant, "attitude", &error) == PF_OK &&
                pf__plan_from_config(&plan, pf_plant_get_info(*plant), "pairs", config,
                                     sizeof config - 1, NULL, 0, &error) == PF_OK;
    if (CHECK(good)) {
        plan.settings.alarm_trials = 20;
        good = pf_calibrate(&plan, *plant, NULL, NULL, bytes, &n, &error) == PF_OK &&
               pf__kit_read(kit, *bytes, n, &error) == PF_OK;
        pf__plan_free(&plan);
    }
    CHECK_STR(error.text, "");
    return good;
}

// What the responses tells a session is what a session reads from the response itself.
static void check_evidence(bool pairs)
{
    pf_plant *plant = NULL;
    void *bytes = NULL;
    pf_kit kit;
    pf_responses responses;
    if (!pair_kit(&plant, &bytes, &kit, pairs) ||
        !CHECK(pf__responses_init(&responses, plant, &kit, NULL, NULL) == PF_OK)) {
        return;
    }
    void *memory = aligned_alloc(16, (pf_session_size(&kit) + 15) / 16 * 16);
    double start[8], response[64], gains[8] = {1, 1, .35, .5, 1, 1, 1, 1};
    pf_rig rig = {
        .plant = plant, .kit = &kit, .gains = gains, .start = start, .response = response};
    pf_predictor predictor;
    CHECK(pf_predictor_create(&predictor, &kit, plant, NULL, NULL) == PF_OK);
    pf_session *session = NULL;
    CHECK(pf_session_init(&session, &kit, NULL, memory, pf_session_size(&kit), NULL) == PF_OK);
    pf__responses_start(&responses, 9, 4, PF_PURPOSE_EVALUATION, 2, (const int[]){2, 3},
                        (const double[]){.35, .5});
    int first = pf_session_ask(session).probe;
    for (int i = 0; i < 6; i++) {
        pf_ask ask = pf_session_ask(session);
        const pf_stage1_answer *e = NULL;
        CHECK(pf__responses_stage1(&responses, i, ask.probe, true, &e, NULL) == PF_OK);
        pf_key key = pf_key_stream(9, "attitude", 4, PF_PURPOSE_EVALUATION, (uint64_t)i);
        CHECK(pf_rig_run(&rig, ask.probe, key, NULL) == PF_OK);
        pf_tell tell = {.probe = ask.probe,
                        .response = response,
                        .rows = ask.rows,
                        .channels = kit.n_chan,
                        .start = start,
                        .n_start = kit.n_state};
        CHECK(pf_session_tell(session, &tell, &predictor, NULL) == PF_OK);
        int n = 0;
        const pf_reading *r = pf_session_readings(session, &n);
        CHECK(n == (pairs ? 2 : 1));
        for (int t = 0; t < n; t++) {
            CHECK_NEAR(r[t].score, e->match[t].score, 1e-9 * fabs(r[t].score) + 1e-12);
        }
        long rolls = responses.rolls;
        CHECK(pf__responses_stage1(&responses, i, ask.probe, true, &e, NULL) == PF_OK);
        CHECK(responses.rolls == rolls); // asked again it is remembered, not run
        // a recovery probe of its own stream, as it is
        pf_recovery_response recovery;
        key = pf_key_stream(9, "attitude", 4, PF_PURPOSE_RECOVERY, (uint64_t)i);
        CHECK(pf_rig_run(&rig, ask.probe, key, NULL) == PF_OK);
        CHECK(pf__responses_recovery(&responses, i, ask.probe, true, &recovery, NULL) == PF_OK);
        CHECK(memcmp(recovery.response, response,
                     sizeof(double) * (size_t)(ask.rows * kit.n_chan)) == 0);
        CHECK(memcmp(recovery.start, start, sizeof(double) * (size_t)kit.n_state) == 0);
    }
    // the same trial in another setting goes on with what is known; another trial or loss does not
    for (int i = 0; i < 3; i++) {
        const pf_stage1_answer *e = NULL;
        pf__responses_start(&responses, 9, i == 1 ? 5 : 4, PF_PURPOSE_EVALUATION, 2,
                            (const int[]){2, 3}, (const double[]){.35, i == 2 ? .6 : .5});
        long rolls = responses.rolls;
        CHECK(pf__responses_stage1(&responses, 0, first, true, &e, NULL) == PF_OK);
        CHECK((responses.rolls == rolls) == (i == 0));
    }
    pf_predictor_destroy(&predictor);
    free(memory);
    pf__responses_free(&responses);
    free(bytes);
    pf_plant_destroy(plant);
}

// Healthy trials that share a few starts: what they take for the machine's response is what the
// machine says from that start, with the noise of this opportunity, and few starts cost few rolls.
static void check_pool(void)
{
    enum { TRIALS = 200 };
    pf_plant *plant = NULL;
    void *bytes = NULL;
    pf_kit kit;
    pf_responses r;
    if (pf_plant_create(&plant, "hopper", NULL) != PF_OK) {
        pf_skip("hopper is not to be had (make deps)");
        return;
    }
    CHECK(pf__responses_cost(pf_plant_get_info(plant)));
    if (!plant_kit(plant, &bytes, &kit) ||
        !CHECK(pf__responses_init(&r, plant, &kit, NULL, NULL) == PF_OK) ||
        !CHECK(pf__responses_pool(&r, NULL) == PF_OK)) {
        return;
    }
    double own[1024], starts[TRIALS];
    int different = 0;
    for (int i = 0; i < TRIALS; i++) {
        const pf_stage1_answer *e = NULL;
        pf__responses_start(&r, 3, (uint64_t)i, PF_PURPOSE_THRESHOLD, 0, NULL, NULL);
        CHECK(pf__responses_stage1(&r, 0, 1, false, &e, NULL) == PF_OK);
        pf_roll roll = pf_roll_default();
        roll.start = r.begin;
        roll.rows = pf_kit_probe_rows(&kit, 1);
        roll.command = pf_kit_probe_command(&kit, 1);
        CHECK(pf_plant_roll(plant, &roll, &(pf_trace){.output = own}, NULL) == PF_OK);
        pf__observe_noise(pf_plant_get_info(plant),
                          pf__responses_stream(&r, PF_PURPOSE_THRESHOLD, 0), roll.rows,
                          kit.sensor_noise, kit.return_scale, own);
        CHECK(memcmp(own, r.response, sizeof *own * (size_t)(roll.rows * kit.n_chan)) == 0);
        starts[i] = r.begin[1];
        int before = 0;
        while (starts[before] != starts[i]) {
            before++;
        }
        different += before == i;
    }
    CHECK(different > PF_RESPONSES_POOL / 2 && different <= PF_RESPONSES_POOL);
    // the nominal response and that of the weakened mechanism, mostly once for each start
    printf("    %ld rolls for %d trials\n", r.rolls, TRIALS);
    CHECK(r.rolls <= 3 * PF_RESPONSES_POOL);
    pf__responses_free(&r);
    free(bytes);
    pf_plant_destroy(plant);
}

// The schedule of trials: exact share of nominal ones, ranges, all mechanisms, nothing but the
// names.
static void check_law(void)
{
    const double gain = .35;
    pf_schedule_settings settings = {50, .2, 7, 0, 1, 1, &gain};
    int nominal = 0, seen[8] = {0};
    for (int t = 0; t < 50; t++) {
        pf_schedule schedule = pf__schedule_draw(2, "attitude", t, &settings);
        pf_schedule again = pf__schedule_draw(2, "attitude", t, &settings);
        CHECK(schedule.tau == again.tau && schedule.reveal == again.reveal &&
              schedule.mechanism[0] == again.mechanism[0]);
        CHECK(schedule.tau >= 10 && schedule.tau <= 20 && schedule.reveal >= 35 &&
              schedule.reveal <= 45);
        CHECK(schedule.nominal == (schedule.n_changed == 0));
        nominal += schedule.nominal;
        seen[schedule.nominal ? 0 : schedule.mechanism[0]]++;
    }
    CHECK(nominal == 10);
    for (int j = 1; j < 8; j++) {
        CHECK(seen[j] > 0);
    }
    settings = (pf_schedule_settings){40, 0, 7, 0, 1, 1, &gain};
    CHECK(!pf__schedule_draw(2, "attitude", 0, &settings).nominal);
}

void test_responses(void)
{
    PF_CASE("predicted returns against rollouts of their own");
    check_returns();
    PF_CASE("a return that cannot be predicted is an error");
    check_bad_returns();
    check_attainable();
    PF_CASE("shared evidence is what a session reads itself");
    check_evidence(false);
    PF_CASE("shared evidence of group probes, weighted, two faults at once");
    check_evidence(true);
    PF_CASE("healthy trials of MuJoCo share starts");
    check_pool();
    PF_CASE("the schedule of trials");
    check_law();
}

// What is kept is found under its own start and hypothesis and under no other.
static void check_found(pf_predictions *m)
{
    PF_CASE("a prediction is found by its own start, probe, mechanism and gain alone");
    const double start[] = {.25, -1}, other[] = {.25, -1.0000001};
    const double response[] = {1, 2, 3};
    pf_hypothesis h = {2, 1, .35, NULL};
    CHECK(pf__predictions_find(m, start, &h) == NULL);
    pf__predictions_keep(m, start, &h, response, 3);
    const double *found = pf__predictions_find(m, start, &h);
    CHECK(found && found[0] == 1 && found[2] == 3);
    CHECK(pf__predictions_find(m, other, &h) == NULL);
    const pf_hypothesis others[] = {{1, 1, .35, NULL}, {2, 2, .35, NULL}, {2, 1, .36, NULL}};
    for (int i = 0; i < 3; i++) {
        CHECK(pf__predictions_find(m, start, &others[i]) == NULL);
    }
}

static void check_crowded(pf_predictions *m)
{
    PF_CASE("more than it has room for: what is found is right, the last one is there");
    int found = 0;
    for (int i = 0; i < 20000; i++) {
        double start[] = {i, -i}, response = i;
        pf_hypothesis h = {0, i % 3, .5, NULL};
        pf__predictions_keep(m, start, &h, &response, 1);
        CHECK(*pf__predictions_find(m, start, &h) == i);
    }
    for (int i = 0; i < 20000; i++) {
        double start[] = {i, -i};
        pf_hypothesis h = {0, i % 3, .5, NULL};
        const double *response = pf__predictions_find(m, start, &h);
        found += response != NULL;
        CHECK(!response || *response == i);
    }
    CHECK(found > 1000 && found < 20000);
}

void test_predictions(void)
{
    pf_arena arena = {0};
    pf_predictions memo = {0};
    pf_error error;
    if (CHECK(pf__predictions_init(&memo, &arena, 2, 3, &error) == PF_OK)) {
        check_found(&memo);
        check_crowded(&memo);
    }
    pf__arena_free(&arena);
}
