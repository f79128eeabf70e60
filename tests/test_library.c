// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate/plan.h"
#include "design/search.h"
#include "host/file.h"
#include "preflight/design.h"
#include "program.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Library files and constraints as their authors write them.

// --- constraints that cannot be

typedef struct refusal {
    const char *plant, *override, *part;
} refusal;

static const refusal refusals[] = {
    {"battery", "design.mechanisms=[{name: nosuch, hi: 1}]", "design.mechanisms: 'nosuch' is not"},
    {"battery", "design.mechanisms=[{name: 0, hi: 1}]", "is the current mechanism"},
    {"battery", "design.mechanisms=[{name: string_1, hi: 1}, {name: 1, lo: 0}]", "is named twice"},
    {"battery", "design.mechanisms=[{name: string_1, lo: .1}]", "must be able to rest"},
    {"battery", "design.mechanisms=[{name: string_1, lo: 2, hi: 1}]", "lo 2 is above hi 1"},
    {"battery", "design.mechanisms=[{name: string_1, lo: 0, hi: 0}]", "cannot move"},
    {"battery", "design.mechanisms=[{name: string_1, amplitude: 1e9}]", "outside its limits"},
    {"battery", "design.mechanisms=[]", "design.mechanisms: must be"},
    {"battery", "design.mechanisms=[{name: string_1, rate: 0}]", "rate"},
    {"battery", "design.apart=[[string_1, nosuch]]", "design.apart.0: 'nosuch' is not"},
    {"battery", "design.apart=[[string_1, string_1]]", "apart from itself"},
    {"battery", "design.apart=[[string_1]]", "design.apart.0"},
    {"battery", "design.apart=[string_1, string_2]", "design.apart.0: must be a list of 2"},
    {"battery", "design.apart=[]", "design.apart: must be"},
    {"battery", "design.excursion=[{channel: nosuch, most: 1}]", "design.excursion: 'nosuch'"},
    {"battery", "design.excursion=[]", "design.excursion: must be"},
    {"battery", "design.excursion=[{channel: 0, most: 0}]", "design.excursion.0.most"},
    {"battery", "design.excursion=[{channel: 0}]", "most: is missing"},
    {"battery", "design.at_once=0", "design.at_once"},
    {"battery", "design.steps=0", "design.steps"},
    {"battery", "design.target=0", "design.target"},
    {"battery", "design.targets=6", "did you mean 'target'?"},
    {"quadrotor", "design={one_sided: true, zero_integral: true}",
     "cannot be one_sided and have a zero_integral"},
    {"attitude", "design.zero_integral=true", "allow one direction only"},
    {"quadrotor", "design={zero_integral: true, steps: 1}", "zero_integral in one step"},
    {"quadrotor", "design={zero_integral: true, steps: 2, rate: .5}",
     "obeys rate, zero_integral and steps together"},
};

static void test_refusals(void)
{
    PF_CASE("bad constraints are refused by name");
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        pf_plant *plant = NULL;
        pf_plan plan;
        pf_design_config config = {0};
        pf_error error = {PF_OK, ""};
        CHECK(pf_plant_create(&plant, refusals[i].plant, &error) == PF_OK);
        // what is no constraint at all is refused with the plan, what contradicts the plant here
        CHECK(pf__plan_from_config(&plan, pf_plant_get_info(plant), "test", NULL, 0,
                                   &refusals[i].override, 1, &error) != PF_OK ||
              pf__design_config_read(&config, &plan, &error) != PF_OK);
        CHECK_CONTAINS(error.text, refusals[i].part);
        CHECK(config.memory == NULL);
        pf__plan_free(&plan);
        pf_plant_destroy(plant);
    }
}

// A plan keeps what it was made from, whatever becomes of the text.
static void test_chosen(void)
{
    PF_CASE("probes are chosen by the configuration that the plan was made from");
    static const struct {
        const char *text, *probes;
        int n; // 0: refused
    } cases[] = {
        {"design: {with_singles: false}\n", NULL, 1},
        {"design: {with_singles: false}\n", "single", 3},
        {"design: {at_once: 1, with_singles: false}\n", "designed", 3},
        {"design: {at_once: 1}\nprobes: [{name: p, pulse: {mechanism: 1, amplitude: .1}}]\n"
         "tasks: [{name: t, mechanisms: 1}]\n",
         NULL, 1},
        {"probes: [{name: p, pulse: {mechanism: 1, amplitude: .1}}]\n"
         "tasks: [{name: t, mechanisms: 1}]\n",
         "single", 0},
        {"{}", NULL, 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pf_plant *plant = NULL;
        pf_plan plan;
        pf_error error = {PF_OK, ""};
        char text[200], file[] = "servo.yaml";
        snprintf(text, sizeof text, "%s", cases[i].text);
        CHECK(pf_plant_create(&plant, "dc_servo", &error) == PF_OK);
        CHECK(pf__plan_from_config(&plan, pf_plant_get_info(plant), file, text, strlen(text), NULL,
                                   0, &error) == PF_OK);
        memset(text, '?', sizeof text);
        memset(file, '?', sizeof file - 1);
        pf_status status = pf_plan_choose_probes(&plan, cases[i].probes, plant, NULL, NULL, &error);
        CHECK((status == PF_OK) == (cases[i].n > 0));
        CHECK(status != PF_OK || plan.n_probes == cases[i].n);
        if (cases[i].n == 0) {
            CHECK_CONTAINS(error.text, "servo.yaml: lists `probes`");
        }
        pf__plan_free(&plan);
        pf_plant_destroy(plant);
    }
}

static void test_impossible(void)
{
    PF_CASE("a bound that no probe can respect is refused by name, nothing is written");
    char path[300], command[700];
    snprintf(path, sizeof path, "%s/no.probes", pf_scratch_dir());
    snprintf(command, sizeof command,
             "design attitude -o %s --set 'design.excursion=[{channel: rate_z, most: 1e-9}]'",
             path);
    CHECK(program(command, 3, "design.excursion: no allowed probe was found within 'rate_z'"));
    CHECK(!pf__file_regular(path));
    snprintf(command, sizeof command, "design attitude -o %s --set design.zero_integral=true",
             path);
    CHECK(program(command, 3, "zero_integral"));
    CHECK(!pf__file_regular(path));
    snprintf(command, sizeof command, "design attitude -o %s --set design.rate=1e-9", path);
    CHECK(program(command, 3, "a faster design.rate"));
    CHECK(!pf__file_regular(path));
}

// Its probes last longer than their commands, so these have to come back to rest.
static void test_own_library(void)
{
    PF_CASE("calibrate takes the library that design made under the same constraints");
    static const char *const constraints[] = {"design.rate=.25",
                                              "design.excursion=[{channel: bottom, most: .05}]"};
    for (size_t i = 0; i < 2; i++) {
        char command[900];
        snprintf(command, sizeof command, "design wood_berry -o %s/w.probes --set '%s'",
                 pf_scratch_dir(), constraints[i]);
        CHECK(program(command, 0, "obeyed"));
        snprintf(command, sizeof command,
                 "calibrate wood_berry -o %s/w.kit --probes %s/w.probes --set '%s' --set "
                 "episodes=40 --set alarm_trials=200",
                 pf_scratch_dir(), pf_scratch_dir(), constraints[i]);
        CHECK(program(command, 0, ""));
    }
}

// --- the file

static void test_round_trip(void)
{
    PF_CASE("a library is read as it was written, to the bit");
    pf_plant *plant = NULL;
    pf_plan plan, again;
    pf_design_config config;
    pf_design design;
    pf_text text = {0};
    pf_error error = {PF_OK, ""};
    CHECK(pf_plant_create(&plant, "pump_tank", &error) == PF_OK);
    const pf_plant_info *info = pf_plant_get_info(plant);
    CHECK(pf__plan_default(&plan, info, &error) == PF_OK);
    CHECK(pf__plan_default(&again, info, &error) == PF_OK);
    CHECK(pf__design_config_read(&config, &plan, &error) == PF_OK);
    config.compare = false;
    if (CHECK(pf__design_create(&design, &config, &plan, plant, NULL, NULL, &error) == PF_OK)) {
        pf__library_write(&design, &config, &plan, "twin", &text);
        CHECK(!text.failed);
        CHECK(pf_plan_load_library(&again, "lib", text.data, text.size, &error) == PF_OK);
        CHECK(again.n_probes == design.library.n_probes);
        for (int q = 0; q < again.n_probes; q++) {
            const pf_plan_probe *a = &again.probes[q], *b = &design.library.probes[q].probe;
            CHECK_STR(a->name, b->name);
            CHECK(a->rows == b->rows && a->n_targets == b->n_targets && a->charge == b->charge);
            size_t n = (size_t)a->rows * (size_t)plan.n_mech;
            CHECK(memcmp(a->command, b->command, n * sizeof(double)) == 0);
            CHECK(memcmp(a->targets, b->targets, (size_t)a->n_targets * sizeof(int)) == 0);
        }
    }
    pf__design_free(&design);
    pf__limits_free(&config);
    pf__plan_free(&plan);
    pf__plan_free(&again);
    pf_plant_destroy(plant);
    pf__text_free(&text);
}

static void test_foreign(void)
{
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"plant: battery\nmechanisms: [{name: a}]\nprobes: [{name: p, command: [[1]]}]\n",
         "the plant is 'battery' in the library"},
        {"plant: dc_servo\nmechanisms: [{name: a}]\nprobes: [{name: p, command: [[1]]}]\n",
         "the number of mechanisms is 1 in the library"},
        {"plant: dc_servo\nmechanisms: [{name: a}, {name: b}, {name: c}, {name: d}]\n"
         "probes: [{name: p, command: [[0, 1, 0, 0]]}]\n",
         "mechanism 0 is 'a' in the library"},
        {"mechanisms: [{name: a}]\nprobes: [{name: p, command: [[1]]}]\n", "`plant` is missing"},
        {"plant: dc_servo\nprobes: [{name: p, command: [[1]]}]\n", "`mechanisms` is missing"},
        {"plant: dc_servo\nmechanisms: [{name: a}]\n", "`probes` is missing"},
        {"garbage", "must be a mapping"},
        {"plant: dc_servo\nwaves: 3\n", "unknown key"},
    };
    PF_CASE("libraries of other machines, and what is none, are refused");
    pf_plant *plant = NULL;
    pf_plan plan;
    pf_error error = {PF_OK, ""};
    CHECK(pf_plant_create(&plant, "dc_servo", &error) == PF_OK);
    CHECK(pf__plan_default(&plan, pf_plant_get_info(plant), &error) == PF_OK);
    const pf_plan_probe *before = plan.probes;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CHECK(pf_plan_load_library(&plan, "lib", cases[i].text, strlen(cases[i].text), &error) !=
              PF_OK);
        CHECK_CONTAINS(error.text, cases[i].part);
        CHECK(plan.probes == before);
    }
    pf__plan_free(&plan);
    pf_plant_destroy(plant);
}

// A library of the plant's own pulses is the paper's library: with one target nothing changes.
static void test_singles(void)
{
    PF_CASE("single pulses from a library give the kit of --probes single, to the bit");
    char folder[200], command[900], path[300];
    CHECK(program_folder(folder, sizeof folder, "library"));
    pf_plant *plant = NULL;
    pf_plan plan;
    pf_text text = {0};
    pf_error error = {PF_OK, ""};
    CHECK(pf_plant_create(&plant, "dc_servo", &error) == PF_OK);
    CHECK(pf__plan_default(&plan, pf_plant_get_info(plant), &error) == PF_OK);
    // a design of nothing but them
    pf_design_config config;
    CHECK(pf__design_config_read(&config, &plan, &error) == PF_OK);
    pf_design_probe probes[4];
    pf_design_target targets[4] = {{0}};
    pf_design design = {
        .library = {.n_probes = plan.n_probes, .probes = probes, .targets = targets}};
    for (int q = 0; q < plan.n_probes; q++) {
        probes[q] = (pf_design_probe){.probe = plan.probes[q], .first = q};
    }
    pf__library_write(&design, &config, &plan, "twin", &text);
    snprintf(path, sizeof path, "%s/singles", folder);
    CHECK(pf__file_write(path, text.data, text.size, &error) == PF_OK);
    snprintf(command, sizeof command, "calibrate dc_servo -o %s/a.kit --probes single", folder);
    CHECK(program(command, 0, "3 probes"));
    snprintf(command, sizeof command, "calibrate dc_servo -o %s/b.kit --probes %s", folder, path);
    CHECK(program(command, 0, "3 probes"));
    void *a = NULL, *b = NULL;
    size_t n_a = 0, n_b = 0;
    snprintf(path, sizeof path, "%s/a.kit", folder);
    CHECK(pf__file_read(path, 1 << 24, &a, &n_a, &error) == PF_OK);
    snprintf(path, sizeof path, "%s/b.kit", folder);
    CHECK(pf__file_read(path, 1 << 24, &b, &n_b, &error) == PF_OK);
    CHECK(n_a == n_b && a && b && memcmp(a, b, n_a) == 0);
    free(a);
    free(b);
    pf__text_free(&text);
    pf__limits_free(&config);
    pf__plan_free(&plan);
    pf_plant_destroy(plant);
}

// --- the program

static void test_program(void)
{
    static const struct {
        const char *arguments;
        int status;
        const char *part;
    } calls[] = {
        {"design", 2, "-o LIBRARY is missing"},
        {"design -o @/x", 2, "name one plant"},
        {"design nosuch -o @/x", 3, "nosuch"},
        {"design dc_servo -o @/x --plot curve", 2, ".svg or .png"},
        {"design dc_servo -o @/x --seed -1", 2, "--seed"},
        {"design dc_servo -o @/x --predictor oracle", 2, "oracle"},
        {"design dc_servo -o @/no/x", 3, "/no/x"},
        {"design dc_servo -o @/servo", 0, "family"},
        {"design dc_servo -o @/servo --json", 0, "\"families\""},
        {"design dc_servo -o @/far --set design.target=1000", 1,
         "no allowed probe was found that separates it by 1000"},
        {"calibrate dc_servo -o @/k --probes @/servo", 0, "4 probes"},
        {"calibrate dc_servo -o @/k --probes designed", 0, "4 probes"},
        {"calibrate dc_servo -o @/k", 0, "4 probes"},
        {"calibrate dc_servo -o @/k --set design.with_singles=false", 0, "1 probe,"},
        {"calibrate dc_servo -o @/k --method sept", 0, "3 probes"},
        {"calibrate attitude -o @/k --probes single --set "
         "'design.excursion=[{channel: angle_z, most: .0005}]'",
         3, "moves output 'angle_z' by"},
        {"calibrate attitude -o @/k --method sept --set design.rate=.1", 3,
         "breaks what `design` asks for (rate"},
        {"calibrate dc_servo -o @/k --method sept --probes designed", 3,
         "cannot read group probes"},
        {"calibrate dc_servo -o @/k --method sept --probes @/servo", 3, "matched statistic"},
        {"calibrate attitude -o @/k --probes @/servo", 3, "the plant is 'dc_servo' in the library"},
        {"calibrate dc_servo -o @/k --probes @/nosuch", 3, "nosuch"},
        {"calibrate dc_servo -o @/servo --probes @/servo", 2, "overwrite"},
        {"calibrate dc_servo -o @/k --config @/servo", 0, "4 probes"},
        {"calibrate dc_servo -o @/k --config @/servo --probes single", 3, "lists `probes`"},
        {"calibrate attitude -o @/k --config @/servo", 3,
         "is for plant dc_servo, not for attitude"},
        {"design attitude -o @/k --config @/servo", 3, "is for plant dc_servo, not for attitude"},
        {"calibrate --recordings @/servo -o @/k --probes single", 2, "recordings"},
    };
    PF_CASE("design and calibrate --probes: exit status and what is said");
    char folder[200];
    CHECK(program_folder(folder, sizeof folder, "design"));
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        char command[700];
        size_t n = 0;
        for (const char *c = calls[i].arguments; *c && n + 220 < sizeof command; c++) {
            n += (size_t)(*c == '@' ? snprintf(command + n, sizeof command - n, "%s", folder)
                                    : snprintf(command + n, sizeof command - n, "%c", *c));
        }
        CHECK(program(command, calls[i].status, calls[i].part));
    }
}

void test_library(void)
{
    test_refusals();
    test_chosen();
    test_impossible();
    test_own_library();
    test_round_trip();
    test_foreign();
    test_singles();
    test_program();
}
