// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "test.h"

#include "run/drive.h"
#include "preflight/calibrate.h"
#include "bench/bank.h"
#include "bench/trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The response bank of a trial against what it stands for: real trajectories.

// A small kit of a plant, for its probes and tasks.
static bool small_kit(const pf_plant_class *c, pf_plant **plant, void **bytes, pf_kit *kit)
{
    pf_plan plan;
    pf_error error = {PF_OK, ""};
    size_t n = 0;
    bool good = pf_plant_from_class(plant, c, &error) == PF_OK &&
                pf_plan_default(&plan, &c->info, &error) == PF_OK;
    if (!CHECK(good)) {
        return false;
    }
    plan.episodes = 12;
    plan.alarm_trials = 20;
    plan.members = 1;
    plan.every_severity = false;
    plan.require_probe = false;
    good = pf_calibrate(&plan, *plant, NULL, NULL, bytes, &n, &error) == PF_OK &&
           pf_kit_load(kit, *bytes, n, &error) == PF_OK;
    pf_plan_free(&plan);
    if (!CHECK(good)) {
        printf("%s\n", error.text);
    }
    return good;
}

// NTE of a task at a share by a rollout of its own.
static double direct_nte(pf_bank *b, int task, int member, double share)
{
    const pf_kit *k = b->kit;
    static double out[4096];
    double gains[PF_MECH_MAX], sum = 0;
    int rows = pf_kit_task_rows(k, task);
    for (int j = 0; j < k->n_mech; j++) {
        gains[j] = 1;
    }
    gains[k->use_mech[k->task_use[task]]] = share;
    pf_roll roll = pf_roll_default();
    roll.start = b->start;
    roll.key = pf_key_stream(b->seed, pf_plant_get_info(b->plant)->name, b->trial,
                             PF_PURPOSE_MEMBER, (uint64_t)member);
    roll.gains = gains;
    roll.rows = rows;
    roll.command = k->task_command + (size_t)k->task_row[task] * (size_t)k->n_mech;
    roll.disturbance = true;
    CHECK(pf_plant_roll(b->plant, &roll, &(pf_trace){.output = out}, NULL) == PF_OK);
    const double *reference = b->reference + (size_t)task * b->task_window;
    for (int i = 0; i < rows * k->n_chan; i++) {
        double d = (out[i] - reference[i]) / k->return_scale[i % k->n_chan];
        sum += d * d;
    }
    return sum / b->energy[task];
}

// The parabola through the nodes against the physics: what a predicted return may be off by.
static void check_returns(void)
{
    for (int p = 0; p < pf_plant_count(); p++) {
        const pf_plant_class *c = pf_plant_at(p);
        pf_plant *plant = NULL;
        void *bytes = NULL;
        pf_kit kit;
        pf_bank bank;
        double worst = 0;
        pf_rng rng;
        pf_rng_init(&rng, (pf_key)p);
        if (small_kit(c, &plant, &bytes, &kit) &&
            CHECK(pf_bank_init(&bank, plant, &kit, NULL, NULL) == PF_OK)) {
            for (int i = 0; i < 60; i++) {
                int task = i % kit.n_tasks, member = i % PF_BANK_MEMBERS;
                double share = 2.5 * pf_rng_uniform(&rng), nte = 0;
                if (i % 12 == 0) {
                    pf_bank_start(&bank, 3, (uint64_t)i, PF_PURPOSE_EVALUATION, 1, &(int){1},
                                  &(double){.35});
                }
                CHECK(pf_bank_nte(&bank, task, member, share, &nte, NULL) == PF_OK);
                double real = direct_nte(&bank, task, member, share);
                worst = fmax(worst, fabs(exp(-fmin(nte, 10)) - exp(-fmin(real, 10))));
            }
            pf_bank_free(&bank);
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
    pf_bank bank;
    if (!small_kit(pf_plant_at(0), &plant, &bytes, &kit) ||
        !CHECK(pf_bank_init(&bank, plant, &kit, NULL, NULL) == PF_OK)) {
        return;
    }
    for (int i = 0; i < 2; i++) {
        pf_error error = {PF_OK, ""};
        double share = i == 0 ? .5 : .55, nte = -1;
        pf_bank_start(&bank, 3, 0, PF_PURPOSE_EVALUATION, 1, &(int){1}, &(double){.35});
        CHECK(pf_bank_nte(&bank, 0, 0, 1, &nte, &error) == PF_OK && nte >= 0);
        double energy = bank.energy[0], start = bank.start[0];
        bank.energy[0] = 0;
        nte = -1;
        CHECK(pf_bank_nte(&bank, 0, 0, share, &nte, &error) == PF_ERR_NONFINITE && nte == -1);
        CHECK_CONTAINS(error.text, "its tracking error is not finite");
        bank.energy[0] = energy;
        bank.start[0] = NAN;
        CHECK(pf_bank_nte(&bank, 0, 1, share, &nte, &error) != PF_OK && nte == -1);
        bank.start[0] = start;
        CHECK(pf_bank_nte(&bank, 0, 1, share, &nte, &error) == PF_OK && nte >= 0);
    }
    pf_bank_free(&bank);
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
                pf_plan_from_config(&plan, pf_plant_get_info(*plant), "pairs", config,
                                    sizeof config - 1, NULL, 0, &error) == PF_OK;
    if (CHECK(good)) {
        plan.alarm_trials = 20;
        good = pf_calibrate(&plan, *plant, NULL, NULL, bytes, &n, &error) == PF_OK &&
               pf_kit_load(kit, *bytes, n, &error) == PF_OK;
        pf_plan_free(&plan);
    }
    CHECK_STR(error.text, "");
    return good;
}

// What the bank tells a session is what a session reads from the response itself.
static void check_evidence(bool pairs)
{
    pf_plant *plant = NULL;
    void *bytes = NULL;
    pf_kit kit;
    pf_bank bank;
    if (!pair_kit(&plant, &bytes, &kit, pairs) ||
        !CHECK(pf_bank_init(&bank, plant, &kit, NULL, NULL) == PF_OK)) {
        return;
    }
    void *memory = aligned_alloc(16, (pf_session_size(&kit) + 15) / 16 * 16);
    double start[8], response[64], gains[8] = {1, 1, .35, .5, 1, 1, 1, 1};
    pf_rig rig = {
        .plant = plant, .kit = &kit, .gains = gains, .start = start, .response = response};
    pf_twin twin = {plant, &kit};
    pf_predictor predictor = pf_twin_predictor(&twin);
    pf_session *session = NULL;
    CHECK(pf_session_init(&session, &kit, NULL, memory, pf_session_size(&kit), NULL) == PF_OK);
    pf_bank_start(&bank, 9, 4, PF_PURPOSE_EVALUATION, 2, (const int[]){2, 3},
                  (const double[]){.35, .5});
    int first = pf_session_ask(session).probe;
    for (int i = 0; i < 6; i++) {
        pf_ask ask = pf_session_ask(session);
        const pf_evidence *e = NULL;
        CHECK(pf_bank_stage1(&bank, i, ask.probe, true, &e, NULL) == PF_OK);
        pf_key key = pf_key_stream(9, "attitude", 4, PF_PURPOSE_EVALUATION, (uint64_t)i);
        CHECK(pf_rig_run(&rig, ask.probe, key, NULL) == PF_OK);
        pf_tell tell = {ask.probe, response, ask.rows, kit.n_chan, start, kit.n_state};
        CHECK(pf_session_tell(session, &tell, &predictor, NULL) == PF_OK);
        int n = 0;
        const pf_reading *r = pf_session_readings(session, &n);
        CHECK(n == (pairs ? 2 : 1));
        for (int t = 0; t < n; t++) {
            CHECK_NEAR(r[t].score, e->match[t].score, 1e-9 * fabs(r[t].score) + 1e-12);
        }
        long rolls = bank.rolls;
        CHECK(pf_bank_stage1(&bank, i, ask.probe, true, &e, NULL) == PF_OK);
        CHECK(bank.rolls == rolls); // asked again it is remembered, not run
        // a recovery probe of its own stream, as it is
        pf_bank_response recovery;
        key = pf_key_stream(9, "attitude", 4, PF_PURPOSE_RECOVERY, (uint64_t)i);
        CHECK(pf_rig_run(&rig, ask.probe, key, NULL) == PF_OK);
        CHECK(pf_bank_recovery(&bank, i, ask.probe, true, &recovery, NULL) == PF_OK);
        CHECK(memcmp(recovery.response, response,
                     sizeof(double) * (size_t)(ask.rows * kit.n_chan)) == 0);
        CHECK(memcmp(recovery.start, start, sizeof(double) * (size_t)kit.n_state) == 0);
    }
    // the same trial in another setting goes on with what is known; another trial or loss does not
    for (int i = 0; i < 3; i++) {
        const pf_evidence *e = NULL;
        pf_bank_start(&bank, 9, i == 1 ? 5 : 4, PF_PURPOSE_EVALUATION, 2, (const int[]){2, 3},
                      (const double[]){.35, i == 2 ? .6 : .5});
        long rolls = bank.rolls;
        CHECK(pf_bank_stage1(&bank, 0, first, true, &e, NULL) == PF_OK);
        CHECK((bank.rolls == rolls) == (i == 0));
    }
    free(memory);
    pf_bank_free(&bank);
    free(bytes);
    pf_plant_destroy(plant);
}

// The law of trials: exact share of nominal ones, ranges, all mechanisms, nothing but the names.
static void check_law(void)
{
    const double gain = .35;
    pf_law_settings settings = {50, .2, 7, 0, 1, 1, &gain};
    int nominal = 0, seen[8] = {0};
    for (int t = 0; t < 50; t++) {
        pf_law law = pf_law_draw(2, "attitude", t, &settings);
        pf_law again = pf_law_draw(2, "attitude", t, &settings);
        CHECK(law.tau == again.tau && law.reveal == again.reveal &&
              law.mechanism[0] == again.mechanism[0]);
        CHECK(law.tau >= 10 && law.tau <= 20 && law.reveal >= 35 && law.reveal <= 45);
        CHECK(law.nominal == (law.n_changed == 0));
        nominal += law.nominal;
        seen[law.nominal ? 0 : law.mechanism[0]]++;
    }
    CHECK(nominal == 10);
    for (int j = 1; j < 8; j++) {
        CHECK(seen[j] > 0);
    }
    settings = (pf_law_settings){40, 0, 7, 0, 1, 1, &gain};
    CHECK(!pf_law_draw(2, "attitude", 0, &settings).nominal);
}

void test_bank(void)
{
    PF_CASE("predicted returns against rollouts of their own");
    check_returns();
    PF_CASE("a return that cannot be predicted is an error");
    check_bad_returns();
    PF_CASE("shared evidence is what a session reads itself");
    check_evidence(false);
    PF_CASE("shared evidence of group probes, weighted, two faults at once");
    check_evidence(true);
    PF_CASE("the law of trials");
    check_law();
}
