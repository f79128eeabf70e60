// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate/plan.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// From configurations to plans: defaults, references, and everything that does not fit together.

static const char machine[] = "mechanisms: [{name: base, lo: 0, hi: 1}, {name: a, lo: -1, hi: 1}, "
                              "{name: b, lo: 0, hi: 2}]\n"
                              "channels: [{name: x}, {name: y, scale: .5}]\n";

static pf_status read_plan(pf_plan *plan, const char *more, pf_error *error)
{
    char text[2048];
    int n = snprintf(text, sizeof text, "%s%s", machine, more);
    *error = (pf_error){PF_OK, ""};
    return pf__plan_from_config(plan, NULL, "rig.yaml", text, (size_t)n, NULL, 0, error);
}

static void refused(const char *more, const char *part)
{
    pf_plan plan;
    pf_error error;
    CHECK(read_plan(&plan, more, &error) != PF_OK);
    CHECK_CONTAINS(error.text, part);
    CHECK(plan.memory == NULL);
    pf__plan_free(&plan);
}

static void check_defaults(void)
{
    pf_plan plan;
    pf_error error;
    if (!CHECK(read_plan(&plan, "", &error) == PF_OK)) {
        printf("%s\n", error.text);
        return;
    }
    CHECK(plan.n_mech == 3 && plan.n_chan == 2 && plan.n_probes == 2 && plan.n_tasks == 2);
    CHECK(plan.settings.budget1 == 8 && plan.settings.budget2 == 2 && plan.settings.field);
    CHECK(plan.settings.stop == PF_STOP_LATCH && plan.settings.hazard == 0);
    CHECK(plan.prior[0] == .95 && plan.prior[1] == .025);
    CHECK(plan.n_grid == 17 && fabs(plan.grid[4] - .35) < 1e-12);
    // a quarter of the range for eight steps, one cent a step
    CHECK(plan.probes[1].rows == 8 && plan.probes[1].command[2] == .5);
    CHECK_NEAR(plan.probes[1].charge, .08, 1e-15);
    CHECK(plan.probes[0].n_targets == 1 && plan.probes[0].targets[0] == 1);
    CHECK(plan.tasks[1].n_uses == 1 && plan.tasks[1].uses[0] == 2);
    CHECK(plan.tasks[0].reveal == .5 && plan.tasks[0].importance == 1);
    CHECK(plan.channels[0].scale == 0 && plan.channels[1].scale == .5);
    pf__plan_free(&plan);
}

static void check_set(void)
{
    pf_plan *plan = NULL;
    pf_error error = {PF_OK, ""};
    PF_CASE("plan: settings one by one");
    if (!CHECK(pf_plan_create(&plan, NULL, "rig.yaml", machine, strlen(machine), NULL, 0, &error) ==
               PF_OK)) {
        return;
    }
    CHECK(pf_plan_set(plan, "alpha=.05", &error) == PF_OK && plan->settings.alpha == .05);
    CHECK(pf_plan_set(plan, "budget.stage1=4", &error) == PF_OK && plan->settings.budget1 == 4);
    CHECK(pf_plan_set(plan, "method=sept", &error) == PF_OK && strcmp(plan->method, "sept") == 0);
    // grid and prior follow
    CHECK(pf_plan_set(plan, "g_cal=.4", &error) == PF_OK && plan->n_grid == 17);
    CHECK(plan->grid[5] == .4);
    CHECK(pf_plan_set(plan, "prior=.2", &error) == PF_OK && plan->prior[1] == .1);
    CHECK(plan->settings.alpha == .05 && plan->settings.g_cal == .4);
    PF_CASE("plan: a refused setting changes nothing");
    CHECK(pf_plan_set(plan, "alpha=2", &error) != PF_OK && plan->settings.alpha == .05);
    CHECK_CONTAINS(error.text, "alpha: must be a number in (0, 1)");
    CHECK(pf_plan_set(plan, "prior=[.9, .1]", &error) != PF_OK && plan->prior[1] == .1);
    CHECK(pf_plan_set(plan, "method=odd", &error) != PF_OK && strcmp(plan->method, "sept") == 0);
    CHECK(pf_plan_set(plan, "tasks=[]", &error) != PF_OK);
    CHECK_CONTAINS(error.text, "is no setting");
    pf_plan_destroy(plan);
    pf_plan_destroy(NULL);
    CHECK(pf_plan_create(&plan, NULL, "rig.yaml", "bins: 1\n", 8, NULL, 0, &error) != PF_OK);
    CHECK(plan == NULL);
}

static void check_pulse_rows(void)
{
    pf_plan plan;
    pf_error error;
    const char *more =
        "probes: [{name: one, pulse: {mechanism: b, amplitude: 1, steps: 3, rows: 5}},"
        " {name: two, pulse: {mechanism: a, amplitude: 1, rows: 9}}]\n";
    if (!CHECK(read_plan(&plan, more, &error) == PF_OK)) {
        printf("%s\n", error.text);
        return;
    }
    CHECK(plan.probes[0].rows == 5 && plan.probes[0].charge == .05);
    for (int r = 0; r < 5; r++) {
        CHECK(plan.probes[0].command[r * 3 + 2] == (r < 3 ? 1 : 0));
    }
    CHECK(plan.probes[1].rows == 9 && plan.probes[1].command[7 * 3 + 1] == 1 &&
          plan.probes[1].command[8 * 3 + 1] == 0);
    pf__plan_free(&plan);
}

static void check_plain_names(void)
{
    pf_plan plan;
    pf_error error;
    const char *text = "mechanisms: [base, {name: arm, lo: -1, hi: 1}]\nchannels: [x, y]\n"
                       "probes: [{name: p, pulse: {mechanism: arm, amplitude: 1}}]\n";
    if (!CHECK(pf__plan_from_config(&plan, NULL, "x.yaml", text, strlen(text), NULL, 0, &error) ==
               PF_OK)) {
        printf("%s\n", error.text);
        return;
    }
    CHECK_STR(plan.mechanisms[0].name, "base");
    CHECK(isinf(plan.mechanisms[0].lo) && plan.mechanisms[1].hi == 1);
    CHECK_STR(plan.channels[1].name, "y");
    CHECK(plan.n_chan == 2 && plan.channels[1].scale == 0);
    pf__plan_free(&plan);
}

static void check_given(void)
{
    pf_plan plan;
    pf_error error;
    const char *more = "g_cal: .4\ngrid: [.2, .5, .8]\nprior: [.9, .04, .06]\n"
                       "probes: [{name: both, command: [[0,.5,.5],[0,-.5,1]], charge: .3},\n"
                       "         {name: one, pulse: {mechanism: b, amplitude: 1, steps: 3}}]\n"
                       "tasks: [{name: lift, mechanisms: [a, 2], command: [[0,.1,.1]], reveal: .7, "
                       "importance: 2},\n"
                       "        {name: hold, mechanisms: b}]\n";
    if (!CHECK(read_plan(&plan, more, &error) == PF_OK)) {
        printf("%s\n", error.text);
        return;
    }
    CHECK(plan.n_grid == 4 && plan.grid[1] == .4); // g_cal joins the grid
    CHECK(plan.prior[2] == .06);
    CHECK(plan.probes[0].n_targets == 2 && plan.probes[0].targets[1] == 2);
    CHECK(plan.probes[0].charge == .3 && plan.probes[1].rows == 3);
    CHECK(plan.tasks[0].n_uses == 2 && plan.tasks[0].reveal == .7);
    CHECK(plan.tasks[1].rows == 3 && plan.tasks[1].command[2] == 1 &&
          plan.tasks[1].command[1] == 0);
    pf__plan_free(&plan);
}

void test_plan(void)
{
    PF_CASE("defaults of a kit for use");
    check_defaults();
    PF_CASE("given probes and tasks");
    check_set();
    check_given();
    PF_CASE("a pulse may have rows after its steps");
    check_pulse_rows();
    PF_CASE("mechanisms and channels may be names alone");
    check_plain_names();
    PF_CASE("refusals name the place and the thing");
    refused("probes: [{name: p, pulse: {mechanism: c, amplitude: 1}}]", "'c'");
    refused("probes: [{name: p, pulse: {mechanism: base, amplitude: 1}}]", "'base'");
    refused("probes: [{name: p, pulse: {mechanism: a, amplitude: 2}}]", "limits");
    refused("probes: [{name: p, pulse: {mechanism: a, amplitude: 1, steps: 4, rows: 3}}]",
            "3 rows");
    refused("probes: [{name: p, pulse: {mechanism: a, amplitude: 1, rows: 7}}]", "its 8 steps");
    refused("probes: [{name: p, rows: 9, pulse: {mechanism: a, amplitude: 1}}]",
            "a key of `pulse`");
    refused("probes: [{name: p, command: [[0,0,0]]}]", "moves no candidate");
    refused("probes: [{name: p, command: [[0,1]]}]", "columns");
    refused("probes: [{name: p, command: [[0,1,0]], targets: [a, a]}]", "twice");
    refused("probes: [{name: p, command: [[0,1,0]], targets: [z]}]", "'z'");
    refused("probes: [{name: p, pulse: {mechanism: a, amplitude: 1}}]", "'b'");
    refused("tasks: [{name: t, mechanisms: [a], policy: fly}]", "'fly'");
    refused("tasks: [{name: t, mechanisms: [a], command: [[0,.1,.1]]}]", "does not list");
    refused("tasks: [{name: t, mechanisms: [a, b], command: [[0,.1,0]]}]", "never moves");
    refused("tasks: [{name: t, mechanisms: [a, b]}]", "command");
    refused("tasks: [{name: t, mechanisms: [q]}]", "'");
    refused("tasks: [{name: t, mechanisms: [a], command: [[0,7,0]]}]", "limits");
    refused("prior: [.5, .5]", "hypotheses");
    pf_plan plan;
    pf_error error;
    CHECK(pf__plan_from_config(&plan, NULL, "x.yaml", "g_cal: .3", 9, NULL, 0, &error) != PF_OK);
    CHECK_CONTAINS(error.text, "mechanisms");
    const char *unbounded = "mechanisms: [{name: a}, {name: b}]\nchannels: [{name: x}]\n";
    PF_CASE("without probes and limits the recordings must bring the probes");
    pf_plan *open;
    CHECK(pf_plan_create(&open, NULL, "x.yaml", unbounded, strlen(unbounded), NULL, 0, &error) ==
          PF_OK);
    CHECK(open->probes_open && open->n_probes == 0 && open->n_tasks == 0);
    const char *log = "episode,probe,mechanism,gain,step,x\n1,p,,1,1,.5\n";
    void *bytes = NULL;
    size_t n_bytes = 0;
    CHECK(pf_calibrate_recordings(open, "log.csv", log, strlen(log), NULL, &bytes, &n_bytes,
                                  &error) == PF_ERR_MISMATCH);
    CHECK_CONTAINS(error.text, "limits");
    pf_plant *plant;
    CHECK(pf_plant_create(&plant, "dc_servo", NULL) == PF_OK);
    CHECK(pf_calibrate(open, plant, NULL, NULL, &bytes, &n_bytes, &error) == PF_ERR_ARGUMENT);
    CHECK(bytes == NULL);
    pf_plant_destroy(plant);
    pf_plan_destroy(open);
    PF_CASE("limits may be closer than the plant's, not wider");
    int at = 0;
    while (strcmp(pf_plant_at(at)->info.name, "aircraft") != 0) {
        at++;
    }
    const pf_plant_info *craft = &pf_plant_at(at)->info;
    char wide[160], close[160];
    snprintf(wide, sizeof wide, "mechanisms: [{name: a}, {name: b, hi: %g}, {name: c}, {name: d}]",
             craft->mechanisms[1].hi * 1.01);
    snprintf(close, sizeof close,
             "mechanisms: [{name: a}, {name: b, hi: %g}, {name: c}, {name: d}]",
             craft->mechanisms[1].hi * .99);
    CHECK(craft->n_mech == 4);
    CHECK(pf__plan_from_config(&plan, craft, "x.yaml", wide, strlen(wide), NULL, 0, &error) ==
          PF_ERR_ARGUMENT);
    CHECK_CONTAINS(error.text, "the plant clips at");
    CHECK(pf__plan_from_config(&plan, craft, "x.yaml", close, strlen(close), NULL, 0, &error) ==
          PF_OK);
    pf__plan_free(&plan);
}
