// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "field_kit.h"
#include "host/file.h"
#include "program.h"
#include "test.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The field's verdict from the first probe to the flight, and what the program makes of it.

// --- what was wrong once

static void check_interval(field *f, const char *fault, int mechanism, double gain, uint64_t seed)
{
    field_faults(f, fault);
    field_check(f, seed, NULL);
    const pf_mechanism_readiness *r = pf_session_mechanism(f->session, mechanism);
    CHECK(r->interval[0] <= gain && gain <= r->interval[1]);
    CHECK(r->interval[1] - r->interval[0] > .02);
}

static void check_quadrotor(void)
{
    field f;
    PF_CASE("quadrotor at .7, seed 3: the correction is that of the loss");
    field_open(&f, "quadrotor", &field_kit_of("quadrotor", NULL)->kit);
    check_interval(&f, "1:.7", 1, .7, 3);
    CHECK(pf_session_mechanism(f.session, 1)->changed > .5);
    CHECK_NEAR(pf_session_mechanism(f.session, 1)->correction, 1 / .7, .07);
    CHECK(field_go(&f) == 3 && field_fly(&f, 0) >= pf_session_task(f.session, 0)->lower);
    PF_CASE("quadrotor at .375, seed 2: an interval with a width, and the gain in it");
    check_interval(&f, "1:.375", 1, .375, 2);
    PF_CASE("intervals hold nine gains in ten, between the knots too");
    int sessions = pf_long() ? 2000 : 200, inside = 0;
    for (int i = 0; i < sessions; i++) {
        char fault[40];
        pf_rng rng;
        pf_rng_init(&rng, pf_key_root((uint64_t)i + 40));
        double gain = .1 + .85 * pf_rng_uniform(&rng);
        int j = 1 + i % 3;
        snprintf(fault, sizeof fault, "%d:%.9f", j, gain);
        field_faults(&f, fault);
        field_check(&f, 900 + (uint64_t)i, NULL);
        const pf_mechanism_readiness *r = pf_session_mechanism(f.session, j);
        inside += r->interval[0] <= gain && gain <= r->interval[1];
    }
    printf("    %d of %d gains inside\n", inside, sessions);
    CHECK(inside >= .86 * sessions);
    field_close(&f);
}

// A sensor of a slow machine that freezes after three readings looks like a weak unit, and a
// rehearsal with it shows what was expected.
static void check_frozen(void)
{
    field f;
    PF_CASE("building, a channel frozen after 2: nothing is go");
    field_open(&f, "building", &field_kit_of("building", NULL)->kit);
    int n = pf_kit_get_info(f.kit).n_chan;
    for (int i = 0; i < 2 * n; i++) {
        char fault[80];
        snprintf(fault, sizeof fault, "%s:frozen=2", pf_kit_channel_name(f.kit, i % n));
        field_faults(&f, fault);
        field_check(&f, (uint64_t)i, NULL);
        CHECK(field_go(&f) == 0 && field_misfit(&f));
    }
    PF_CASE("building, healthy: everything is go");
    field_faults(&f, "");
    field_check(&f, 3, NULL);
    CHECK(field_go(&f) == pf_kit_get_info(f.kit).n_tasks && !field_misfit(&f));
    field_close(&f);
}

// A mild loss that alarms is named, not printed as the healthy machine. It may stay unseen: flown
// as it is, the task returns enough.
static void check_mild(void)
{
    field f;
    int named = 0;
    PF_CASE("servo at .85: the mechanism is named and its gain is near");
    field_open(&f, "dc_servo", &field_kit_of("dc_servo", NULL)->kit);
    for (uint64_t seed = 0; seed < 20; seed++) {
        char fault[20];
        int j = 1 + (int)(seed % 3);
        snprintf(fault, sizeof fault, "%d:.85", j);
        field_faults(&f, fault);
        field_check(&f, seed, NULL);
        const pf_mechanism_readiness *r = pf_session_mechanism(f.session, j);
        named += r->changed > .5;
        CHECK(!pf_session_get_state(f.session).alarm || r->changed > .5);
        CHECK(fabs(r->mean_gain - .85) < .1);
        CHECK(field_false_go(&f) == 0);
    }
    printf("    %d of 20 named\n", named);
    CHECK(named >= 10);
    field_faults(&f, "1:.85");
    field_check(&f, 0, NULL);
    CHECK(pf_session_mechanism(f.session, 1)->changed > .9);
    field_close(&f);
}

// --- no go that is false

static void check_false_go(void)
{
    static const struct {
        const char *name, *fault;
    } rows[] = {{"nothing", ""},
                {"gain .5", "%d:.5"},
                {"gain .9", "%d:.9"},
                {"gain 2", "%d:2"},
                {"dead", "%d:0"},
                {"backlash .5", "%d:backlash=.5"},
                {"dead band .4", "%d:dead_band=.4"},
                {"top end lost above .5", "%d:saturation=.5"},
                {"delay 3", "%d:delay=3"},
                {"rate limit .1", "%d:rate_limit=.1"},
                {"angle frozen", "angle:frozen"},
                {"speed frozen", "speed:frozen"},
                {"two losses", "1:.4 %d:.5"}};
    int seeds = pf_long() ? 300 : 20;
    field f;
    field_open(&f, "dc_servo", &field_kit_of("dc_servo", NULL)->kit);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char label[80];
        int go = 0, wrong = 0;
        snprintf(label, sizeof label, "no go task of a servo with %s returns less than j_min",
                 rows[i].name);
        PF_CASE(label);
        for (int seed = 0; seed < seeds; seed++) {
            char fault[60];
            bool two = i + 1 == sizeof rows / sizeof rows[0];
            snprintf(fault, sizeof fault, rows[i].fault, two ? 2 + seed % 2 : 1 + seed % 3);
            field_faults(&f, fault);
            field_check(&f, (uint64_t)seed, NULL);
            go += field_go(&f);
            wrong += field_false_go(&f) > 0;
        }
        if (!CHECK(wrong <= (pf_long() ? .01 * seeds : 0))) {
            printf("    %d of %d sessions, %d go\n", wrong, seeds, go);
        }
        CHECK(i > 2 || go >= .95 * 3 * seeds); // and what can be go is
    }
    field_close(&f);
}

// --- the program

static json_t *certificate_of(const char *folder)
{
    char path[300];
    snprintf(path, sizeof path, "%s/certificate", folder);
    json_t *json = json_load_file(path, 0, NULL);
    CHECK(json != NULL);
    return json;
}

// Runs `check KIT MORE` and gives its certificate.
static json_t *check_with(const char *folder, const char *kit, const char *more, int status,
                          const char *part)
{
    char command[900];
    snprintf(command, sizeof command,
             "check %s/%s --certificate %s/certificate --journal %s/journal %s", folder, kit,
             folder, folder, more);
    CHECK(program(command, status, part));
    return certificate_of(folder);
}

// All tasks of a certificate decide and are rehearsed like this.
static void all_tasks(json_t *certificate, const char *decision, const char *why,
                      const char *rehearsed)
{
    size_t i;
    json_t *task;
    json_array_foreach(json_object_get(certificate, "tasks"), i, task)
    {
        CHECK_STR(json_string_value(json_object_get(task, "decision")), decision);
        CHECK_STR(json_string_value(json_object_get(task, "why")), why);
        const char *how = json_string_value(json_object_get(task, "rehearsed"));
        CHECK(strcmp(how, rehearsed) == 0 || (i == 2 && strcmp(rehearsed, "group") == 0 &&
                                              strcmp(how, "apart") == 0)); // two share a run
        CHECK_STR(json_string_value(json_object_get(task, "fallback")), "uncorrected");
    }
    CHECK(i == 3);
}

static void check_exit(const char *folder)
{
    PF_CASE("check: 0 only for go");
    json_t *c = check_with(folder, "servo.kit", "", 0, "GO: all ready.");
    all_tasks(c, "go", "certified", "group");
    CHECK(json_array_size(json_object_get(c, "accepted")) == 0);
    json_decref(c);
    c = check_with(folder, "servo.kit", "--fault 1:backlash=.5", 1,
                   "NO-GO because it did not come out");
    json_decref(c);
    c = check_with(folder, "servo.kit",
                   "--fault 1:backlash=.5 --accept not-rehearsed --accept "
                   "unseen-loss",
                   1, "not ready for every task");
    CHECK(json_array_size(json_object_get(c, "accepted")) == 2);
    json_decref(c);
    c = check_with(folder, "servo.kit", "--fault angle:frozen", 1,
                   "The responses fit no machine of the model");
    all_tasks(c, "no-go", "misfit", "apart");
    json_decref(c);
    PF_CASE("check: a kit without rehearsals is go-if, and 0 only where that is accepted");
    c = check_with(folder, "bare.kit", "", 1,
                   "GO-IF because its corrected command was not rehearsed");
    all_tasks(c, "go-if", "not-rehearsed", "no");
    json_decref(c);
    c = check_with(folder, "bare.kit", "--accept unseen-loss", 1, "not ready for every task");
    json_decref(c);
    c = check_with(folder, "bare.kit", "--accept not-rehearsed", 0,
                   "all ready under the accepted conditions");
    all_tasks(c, "go-if", "not-rehearsed", "no");
    json_t *accepted = json_object_get(c, "accepted");
    CHECK(json_array_size(accepted) == 1);
    CHECK_STR(json_string_value(json_array_get(accepted, 0)), "not-rehearsed");
    json_decref(c);
    PF_CASE("check: an unknown condition is a usage error that lists those there are");
    char command[400];
    snprintf(command, sizeof command, "check %s/bare.kit --accept everything", folder);
    CHECK(program(command, 2, "there are not-rehearsed and unseen-loss"));
}

// A journal replays to the bit, and both files are told in words.
static void check_words(const char *folder)
{
    static const struct {
        const char *name, *kit, *more, *part, *words;
        int status;
    } rows[] = {
        {"go", "servo.kit", "", "Rehearsal of motor_1, motor_2", "\nmotor_1  GO ", 0},
        {"a failed rehearsal", "servo.kit", "--fault 1:backlash=.5",
         "NO-GO because it did not come out well when it was rehearsed", "\nmotor_1  NO-GO ", 1},
        {"misfit", "servo.kit", "--fault angle:frozen", "fit no machine of the model",
         "\nmotor_1  NO-GO ", 1},
        {"go-if", "bare.kit", "", "its corrected command was not rehearsed", "\nmotor_1  GO-IF ",
         1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char label[80], command[400];
        snprintf(label, sizeof label, "replay and explain: %s", rows[i].name);
        PF_CASE(label);
        json_decref(check_with(folder, rows[i].kit, rows[i].more, rows[i].status, ""));
        snprintf(command, sizeof command, "replay %s/journal", folder);
        CHECK(program(command, 0, ""));
        snprintf(command, sizeof command, "explain %s/journal", folder);
        CHECK(program(command, 0, rows[i].part));
        CHECK(program(command, 0, rows[i].words));
        snprintf(command, sizeof command, "explain %s/certificate", folder);
        CHECK(program(command, 0, rows[i].words));
        CHECK(i == 0 || program(command, 0, rows[i].part));
    }
}

// --- a machine that is not the kit's simulator

static void check_mimic(const char *folder)
{
    PF_CASE("a servo of its own in Python moves as ours does");
    if (system("python3 -c 0 >/dev/null 2>&1") != 0) {
        pf_skip("there is no python3");
        return;
    }
    enum { ROWS = 12 };
    pf_plant *ours = NULL, *mimic = NULL;
    double command[ROWS * 4], a[ROWS * 2], b[ROWS * 2];
    const double start[] = {.3, -.4}, gains[] = {1, .6, 1, 1.2};
    for (int i = 0; i < ROWS * 4; i++) {
        command[i] = i % 4 == 0 ? .5 : 1.5 * (i % 4 - 2) * (i < 32);
    }
    CHECK(pf_plant_create(&ours, "dc_servo", NULL) == PF_OK);
    CHECK(pf_plant_create(&mimic, "exec:python3 " PF_SOURCE "/tests/servo_mimic.py", NULL) ==
          PF_OK);
    pf_roll roll = pf_roll_default();
    roll.start = start;
    roll.gains = gains;
    roll.rows = ROWS;
    roll.command = command;
    CHECK(pf_plant_roll(ours, &roll, &(pf_trace){.output = a}, NULL) == PF_OK);
    CHECK(pf_plant_roll(mimic, &roll, &(pf_trace){.output = b}, NULL) == PF_OK);
    for (int i = 0; i < ROWS * 2; i++) {
        CHECK_NEAR(b[i], a[i], i % 2 ? 2e-3 : 2e-4); // a twentieth of the noise
    }
    pf_plant_destroy(ours);
    pf_plant_destroy(mimic);
    int seeds = pf_long() ? 60 : 6;
    for (int zone = 0; zone < 2; zone++) {
        PF_CASE(zone ? "the same with a dead zone is never go on its motor"
                     : "its healthy machine is go");
        for (int seed = 0; seed < seeds; seed++) {
            char arguments[500], more[600];
            int motor = 1 + seed % 3;
            snprintf(arguments, sizeof arguments, zone ? " %d .6" : "", motor);
            snprintf(more, sizeof more,
                     "--plant 'exec:python3 %s/tests/servo_mimic.py%s' --seed %d", PF_SOURCE,
                     arguments, seed);
            json_t *c = check_with(folder, "servo.kit", more, zone, "");
            json_t *task = json_array_get(json_object_get(c, "tasks"), (size_t)motor - 1);
            const char *decision = json_string_value(json_object_get(task, "decision"));
            CHECK_STR(decision, zone ? "no-go" : "go");
            CHECK_CONTAINS(json_string_value(json_object_get(c, "plant")), "servo_mimic.py");
            json_decref(c);
        }
    }
}

static void write_kit(const char *folder, const char *name, const field_kit *kit)
{
    char path[300];
    pf_error error = {PF_OK, ""};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CHECK(pf__file_write(path, kit->bytes, kit->n, &error) == PF_OK);
}

void test_verdict(void)
{
    char folder[200];
    check_quadrotor();
    check_mild();
    check_frozen();
    check_false_go();
    PF_CASE("program: kits with and without rehearsals");
    CHECK(program_folder(folder, sizeof folder, "verdict"));
    write_kit(folder, "servo.kit", field_kit_of("dc_servo", NULL));
    write_kit(folder, "bare.kit", field_kit_of("dc_servo", "rehearse=none"));
    check_exit(folder);
    check_words(folder);
    check_mimic(folder);
}
