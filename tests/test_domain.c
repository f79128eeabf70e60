// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "test.h"
#include "plant/plant_impl.h"
#include "core/kit_layout.h"

#include "calibrate/plan.h"
#include "bench/trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Plants with measures of their own, behind the bridge: exec_child's return of a task is gain times
// correction of its candidate, the correction limited to 2, the return to 1.

#ifdef PF_HAVE_JANSSON

static pf_plant *open_mode(const char *mode, pf_error *error)
{
    char name[2600];
    pf_plant *plant = NULL;
    *error = (pf_error){PF_OK, ""};
    snprintf(name, sizeof name, "exec:exec '%s' %s", PF_EXEC_CHILD, mode);
    pf_plant_create(&plant, name, error);
    return plant;
}

static void test_description(void)
{
    PF_CASE("description");
    pf_error error;
    pf_plant *plant = open_mode("domain", &error);
    if (!CHECK(plant != NULL)) {
        printf("%s\n", error.text);
        return;
    }
    const pf_plant_info *info = pf_plant_get_info(plant);
    CHECK(info->n_metrics == 3 && info->draws == 2 && info->n_policies == 2);
    CHECK(strcmp(info->metrics[1], "shortfall") == 0);
    CHECK(info->sensor_noise == .25 && info->charge[1] == .08);
    pf_plan plan;
    if (CHECK(pf__plan_default(&plan, info, &error) == PF_OK)) {
        CHECK(plan.settings.sensor_noise == .25 && plan.probes[0].charge == .16);
        CHECK(plan.n_tasks == 2 && plan.tasks[1].policy_index == 1 && !plan.tasks[1].command);
        CHECK(plan.tasks[1].n_uses == 1 && plan.tasks[1].uses[0] == 2);
        pf__plan_free(&plan);
    }
    pf_plant_destroy(plant);
    CHECK(open_mode("domain-first", &error) == NULL);
    CHECK_CONTAINS(error.text, "return first");
}

static void test_forecasts(void)
{
    PF_CASE("metrics and forecasts");
    pf_error error;
    pf_plant *plant = open_mode("domain", &error);
    const double gains[] = {1, .4, 1}, correction[] = {1, 1.5, 1}, start[] = {0, 0};
    const double hypotheses[] = {1, 1, 1, 1, .5, 1};
    double metrics[3] = {0}, returns[4], beyond[2];
    if (!CHECK(plant != NULL)) {
        return;
    }
    pf_roll roll = pf_roll_default();
    roll.policy = 0;
    roll.rows = 4;
    roll.gains = gains;
    roll.correction = correction;
    pf_trace trace = {.metrics = metrics};
    CHECK(pf_plant_roll(plant, &roll, &trace, &error) == PF_OK);
    CHECK_NEAR(metrics[0], .6, 1e-15);
    CHECK_NEAR(metrics[1], .4, 1e-15);
    CHECK(metrics[2] == 7);
    pf_forecast f = {.start = start, .correction = correction, .n = 2, .gains = hypotheses};
    CHECK(pf__plant_forecast(plant, &f, returns, beyond, &error) == PF_OK);
    CHECK(returns[0] == 1 && returns[1] == .75 && returns[2] == 1 && returns[3] == .75);
    CHECK(beyond[0] == 0 && beyond[1] == 0);
    f.policy = 2;
    CHECK(pf__plant_forecast(plant, &f, returns, beyond, &error) == PF_ERR_UNSUPPORTED);
    pf_plant_destroy(plant);

    plant = open_mode("domain-metric", &error);
    CHECK(plant && pf_plant_roll(plant, &roll, &trace, &error) == PF_ERR_PLANT);
    CHECK_CONTAINS(error.text, "shortfall");
    pf_plant_destroy(plant);
    plant = open_mode("domain-draws", &error);
    f.policy = 0;
    CHECK(plant && pf__plant_forecast(plant, &f, returns, beyond, &error) == PF_ERR_PLANT);
    CHECK_CONTAINS(error.text, "\"returns\" 2 x 2");
    pf_plant_destroy(plant);
    plant = open_mode("good", &error);
    CHECK(plant && pf__plant_forecast(plant, &f, returns, beyond, &error) == PF_ERR_UNSUPPORTED);
    pf_plant_destroy(plant);
}

// One deployment with all belief on mechanism 1 at its true gain.
static void deploy(pf_plant *plant, double gain, double value[PF_METRIC_COUNT])
{
    const double grid[] = {.4, .5}, reveal[] = {.5, .5};
    double mass[4] = {gain == .4, gain == .5, 0, 0};
    static double nte[2 * PF_RESPONSES_MEMBERS * PF_RESPONSES_NODES];
    static const uint32_t names[64]; // all of them are empty
    const int32_t task_row[] = {0, 0, 0};
    pf_flown fallback[2];
    pf_joint joint = {.m = 2, .n_grid = 2, .grid = grid, .mass = mass};
    pf_kit kit = {.n_tasks = 2,
                  .n_mech = 3,
                  .n_chan = pf_plant_get_info(plant)->n_chan,
                  .name = names,
                  .text = "",
                  .task_row = task_row,
                  .task_reveal = reveal};
    double truth[] = {1, gain, 1}, attainable[2 * PF_RESPONSES_VARIANTS];
    pf_responses responses = {.plant = plant,
                              .kit = &kit,
                              .info = pf_kit_get_info(&kit),
                              .truth = truth,
                              .nte = nte,
                              .fallback = fallback,
                              .attainable = attainable};
    pf_schedule schedule = {
        .n_changed = 1, .mechanism = {1}, .gain = {gain}, .tau = 10, .reveal = 40};
    pf_trial_setup setup = {.rule = {.1, false}, .j_min = .85};
    pf_error error = {PF_OK, ""};
    for (int i = 0; i < PF_METRIC_COUNT; i++) {
        value[i] = 0;
    }
    responses.info = pf_kit_get_info(&kit);
    CHECK(pf_flight_create(&responses.flight, plant, &kit, &error) == PF_OK);
    if (!CHECK(pf__domain_deploy(&responses, &joint, &schedule, &setup, value, &error) == PF_OK)) {
        printf("%s\n", error.text);
    }
    pf_flight_destroy(responses.flight);
}

static void test_deployment(void)
{
    PF_CASE("what is deployed");
    pf_error error;
    double value[PF_METRIC_COUNT];
    pf_plant *plant = open_mode("domain", &error);
    if (!CHECK(plant != NULL)) {
        return;
    }
    // 1/.5 is within the limit: corrected, and both tasks go
    deploy(plant, .5, value);
    CHECK(value[PF_METRIC_contracts] == 2 && value[PF_METRIC_safe_ready] == 2);
    CHECK(value[PF_METRIC_changed_task_return] == 1 && value[PF_METRIC_shortfall] == 0);
    CHECK(value[PF_METRIC_clipped] == 0 && value[PF_METRIC_abstention] == 0);
    CHECK(value[PF_METRIC_attainable_return] == 1);
    // 1/.4 is not: .8 at best, so the changed task stays uncorrected
    deploy(plant, .4, value);
    CHECK(value[PF_METRIC_clipped] == 1 && value[PF_METRIC_clipped_go] == 0);
    CHECK(value[PF_METRIC_clipped_recovered] == 0);
    CHECK_NEAR(value[PF_METRIC_changed_task_return], .4, 1e-15);
    CHECK_NEAR(value[PF_METRIC_shortfall], .6, 1e-15);
    CHECK_NEAR(value[PF_METRIC_attainable_return], .8, 1e-15);
    CHECK_NEAR(value[PF_METRIC_asked_shortfall], .2, 1e-15);
    CHECK(value[PF_METRIC_abstention] == .5 && value[PF_METRIC_safe_ready] == 1);
    CHECK_NEAR(value[PF_METRIC_selective_return], .7, 1e-15);
    pf_plant_destroy(plant);
    // a calm plant: tasks that are not measured are foreseen, over all draws
    plant = open_mode("domain-calm", &error);
    if (CHECK(plant != NULL)) {
        deploy(plant, .4, value);
        CHECK_NEAR(value[PF_METRIC_selective_return], .7, 1e-15);
        pf_plant_destroy(plant);
    }
}

static void test_returns(void)
{
    PF_CASE("returns are shares of the best");
    static const char *const modes[] = {"domain-more", "domain-less"};
    const double gains[] = {1, .4, 1}, start[] = {0, 0};
    double metrics[3], returns[2], beyond[1];
    pf_error error;
    for (int i = 0; i < 2; i++) {
        pf_plant *plant = open_mode(modes[i], &error);
        pf_roll roll = pf_roll_default();
        roll.policy = 0;
        roll.rows = 4;
        CHECK(plant &&
              pf_plant_roll(plant, &roll, &(pf_trace){.metrics = metrics}, &error) == PF_ERR_PLANT);
        CHECK_CONTAINS(error.text, "must be in 0..1");
        pf_forecast f = {.start = start, .correction = gains, .n = 1, .gains = gains};
        CHECK(plant && pf__plant_forecast(plant, &f, returns, beyond, &error) == PF_ERR_PLANT);
        CHECK_CONTAINS(error.text, "must be in 0..1");
        pf_plant_destroy(plant);
    }
}

// A small kit of the child in a mode; bytes hold it.
static bool small_kit(const char *mode, pf_plan *plan, pf_kit *kit, void **bytes)
{
    static const char config[] =
        "sensor_noise: .01\nepisodes: 20\nalarm_trials: 40\nprobes:\n"
        "  - {name: l, pulse: {mechanism: left, amplitude: .9, steps: 8}}\n"
        "  - {name: r, pulse: {mechanism: right, amplitude: .9, steps: 8}}\n"
        "tasks: [{name: t, policy: hold}]\n";
    pf_error error;
    // a plant with measures brings its tasks
    bool own = strcmp(mode, "domain") == 0;
    size_t n = 0, n_config = own ? (size_t)(strstr(config, "tasks") - config) : sizeof config - 1;
    pf_plant *plant = open_mode(mode, &error);
    pf_status status = plant ? pf__plan_from_config(plan, pf_plant_get_info(plant), "config",
                                                    config, n_config, NULL, 0, &error)
                             : error.code;
    if (status == PF_OK) {
        status = pf_calibrate(plan, plant, NULL, &(pf_effort){.threads = 1}, bytes, &n, &error);
    }
    status = status ? status : pf__kit_read(kit, *bytes, n, &error);
    if (status != PF_OK) {
        printf("%s\n", error.text);
    }
    pf_plant_destroy(plant);
    return status == PF_OK;
}

// The largest command of the child's own loop, u = -x[0], from the starts that a kit looks at.
static double loop_peak(const pf_plan *plan, int starts)
{
    enum { ROWS = 4 };
    pf_error error;
    pf_plant *plant = open_mode("good", &error);
    double peak = 0;
    for (int s = 0; plant && s < starts; s++) {
        double start[2], output[ROWS * 2];
        pf_roll roll = pf_roll_default();
        roll.key = pf_key_stream(plan->settings.seed, plan->environment, (uint64_t)s,
                                 PF_PURPOSE_MEMBER, 0);
        roll.policy = 0;
        roll.rows = ROWS;
        roll.disturbance = true;
        CHECK(pf_plant_roll(plant, &roll, &(pf_trace){.start = start, .output = output}, &error) ==
              PF_OK);
        peak = fmax(peak, fabs(start[0]));
        for (int t = 0; t < ROWS - 1; t++) {
            peak = fmax(peak, fabs(output[2 * t]));
        }
    }
    pf_plant_destroy(plant);
    return peak;
}

static void test_deaf(void)
{
    PF_CASE("a loop that ignores its correction is refused");
    void *bytes = NULL;
    pf_kit kit;
    pf_plan plan = {0};
    CHECK(!small_kit("uncorrected", &plan, &kit, &bytes));
    free(bytes);
    pf__plan_free(&plan);
}

static void test_reach(void)
{
    PF_CASE("the limits of a closed loop bound its correction in a kit");
    void *bytes = NULL;
    pf_kit kit;
    pf_plan plan = {0};
    if (CHECK(small_kit("domain", &plan, &kit, &bytes))) {
        CHECK(kit.n_reach == 2 && kit.reach[0] == 2 && kit.reach[1] == 2);
        CHECK_NEAR(pf_kit_delivered_share(&kit, 0, 1, 1.5, .5), .75, 1e-15);
        CHECK_NEAR(pf_kit_delivered_share(&kit, 0, 1, 5, .2), .4, 1e-15);
        // a kit of before there were reaches has no credit to give
        kit.n_reach = 0;
        CHECK_NEAR(pf_kit_delivered_share(&kit, 0, 1, 1.5, .5), .5, 1e-15);
    }
    free(bytes);
    pf__plan_free(&plan);
    bytes = NULL;
    if (CHECK(small_kit("good", &plan, &kit, &bytes))) {
        // the loop asks for x[0] of every mechanism; "hold" is told to use 0 and 2
        double reach = kit.reach[1], peak = loop_peak(&plan, kit.n_members);
        CHECK(kit.n_reach == 2 && kit.use_mech[1] == 2 && peak > 0);
        CHECK(reach == 1 || reach * peak <= 1.02);
        CHECK(reach == 10 || 1.6 * reach * peak > 1);
        CHECK_NEAR(pf_kit_delivered_share(&kit, 0, 2, 100, .01), .01 * reach, 1e-15);
    }
    free(bytes);
    pf__plan_free(&plan);
}

// One roll of the child from a start: its loop or nothing at all.
static void roll_from(pf_plant *plant, const double *start, const pf_roll *how, double *output)
{
    pf_error error;
    pf_roll roll = *how;
    roll.start = start;
    CHECK(pf_plant_roll(plant, &roll, &(pf_trace){.output = output}, &error) == PF_OK);
}

static void test_flown(void)
{
    PF_CASE("a flown loop returns what it misses of the healthy one, by hand");
    enum { LOOP_ROWS = 4, CHAN = 2 };
    void *bytes = NULL;
    pf_kit kit;
    pf_plan plan = {0};
    pf_error error;
    pf_plant *plant = open_mode("good", &error);
    if (!CHECK(plant && small_kit("good", &plan, &kit, &bytes))) {
        return;
    }
    static const double gains[] = {1, 1, .5}, corrections[] = {1, 1, 1.5};
    static const double zero[LOOP_ROWS * 3] = {0};
    double start[2], healthy[LOOP_ROWS * CHAN], idle[LOOP_ROWS * CHAN], weak[LOOP_ROWS * CHAN];
    pf_roll reset = pf_roll_default(), loop = reset, still = reset, sick = reset;
    reset.key = loop.key = still.key = 77;
    reset.command = zero;
    CHECK(pf_plant_roll(plant, &reset, &(pf_trace){.start = start}, &error) == PF_OK);
    loop.policy = 0;
    loop.rows = still.rows = LOOP_ROWS;
    still.command = zero;
    sick = loop;
    sick.key = 78;
    sick.gains = gains;
    sick.correction = corrections;
    sick.disturbance = true;
    roll_from(plant, start, &loop, healthy);
    roll_from(plant, start, &still, idle);
    roll_from(plant, start, &sick, weak);
    double missed = 0, whole = 0;
    for (int i = 0; i < LOOP_ROWS * CHAN; i++) {
        missed += pow((weak[i] - healthy[i]) / kit.return_scale[i % CHAN], 2);
        whole += pow((idle[i] - healthy[i]) / kit.return_scale[i % CHAN], 2);
    }
    pf_flight *flight = NULL;
    pf_flown flown;
    pf_attempt attempt = {.task = 0, .key = 78, .gains = gains, .corrections = corrections};
    CHECK(pf_flight_create(&flight, plant, &kit, &error) == PF_OK);
    CHECK(pf_flight_start(flight, 77, &error) == PF_OK);
    CHECK(pf_flight_fly(flight, &attempt, &flown, &error) == PF_OK);
    CHECK(missed > 0 && whole > 0);
    CHECK_NEAR(flown.ret, exp(-missed / whole), 1e-12);
    pf_flight_destroy(flight);
    pf_plant_destroy(plant);
    pf__plan_free(&plan);
    free(bytes);
}

void test_domain(void)
{
    test_reach();
    test_flown();
    test_deaf();
    test_returns();
    test_description();
    test_forecasts();
    test_deployment();
}

#else

void test_domain(void)
{
    PF_CASE("without jansson");
    pf_error error;
    pf_plant *plant = NULL;
    CHECK(pf_plant_create(&plant, "highway", &error) == PF_ERR_UNSUPPORTED && plant == NULL);
}

#endif
