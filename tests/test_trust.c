// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "attitude_kit.h"
#include "core/kit_layout.h"
#include "core/sha256.h"
#include "field_kit.h"
#include "program.h"
#include "test.h"
#include "wire/said.h"
#include "wire/weakened.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What a file is believed: edited kits whose checksum is right, settings that weaken a verdict,
// programs that a file names.

// --- edited kits

enum { DIGEST = 32 };

typedef struct copy {
    uint8_t *image;
    size_t n;
    pf_kit kit;
} copy;

static copy fresh(void)
{
    size_t n = 0;
    const void *bytes = attitude_kit_bytes(&n);
    copy c = {malloc(n), n, {0}};
    memcpy(c.image, bytes, n);
    CHECK(pf__kit_read(&c.kit, c.image, n, NULL) == PF_OK);
    return c;
}

// A field of the image, to be changed.
static double *field_of(const copy *c, const double *numbers)
{
    return (double *)(void *)(c->image + ((const uint8_t *)numbers - c->image));
}

// Whether the edited kit, sealed again, is refused with these words.
static bool refused(copy *c, const char *part)
{
    pf_kit kit;
    pf_error error = {PF_OK, ""};
    pf_sha256 sha;
    pf__sha256_init(&sha);
    pf__sha256_update(&sha, c->image, c->n - DIGEST);
    pf__sha256_final(&sha, c->image + c->n - DIGEST);
    bool good = CHECK(pf__kit_read(&kit, c->image, c->n, &error) == PF_ERR_FORMAT) &&
                CHECK_CONTAINS(error.text, part);
    free(c->image);
    return good;
}

// A kit whose field at an index gets another value.
#define EDIT(field, index, change, part)                                                           \
    do {                                                                                           \
        copy edited = fresh();                                                                     \
        double *value = field_of(&edited, edited.kit.field) + (index);                             \
        *value = change;                                                                           \
        CHECK(refused(&edited, part));                                                             \
    } while (0)

static void check_readings(void)
{
    PF_CASE("edited: scale and return_scale differ");
    EDIT(scale, 2, *value * 2, "scale and return_scale of channel 2");
    EDIT(return_scale, 0, *value * .5, "scale and return_scale of channel 0");
    PF_CASE("edited: centres that no matched response gives");
    EDIT(centre_nominal, 1, 3, "m0 and m1 of target 1 are 3 and ");
    EDIT(centre_changed, 1, -*value, "m0 and m1 of target 1");
    EDIT(centre_changed, 0, *value * 2, "m0 and m1 of target 0");
    PF_CASE("edited: a curve that rises, or is not 1 at g_cal");
    EDIT(curve, edited.kit.n_grid, 0, "curve of target 1 rises");
    copy c = fresh();
    for (int g = 0; g < c.kit.n_grid; g++) {
        field_of(&c, c.kit.curve)[g] *= 3;
    }
    CHECK(refused(&c, "at g_cal, where a coordinate is 1"));
    PF_CASE("edited: a misfit level below what calibration gives");
    const pf_kit *k = attitude_kit();
    pf_kit low = *k;
    pf_error error = {PF_OK, ""};
    low.misfit_chan = .5;
    CHECK(pf__kit_check_relations(k, &error) == PF_OK);
    CHECK(pf__kit_check_relations(&low, &error) == PF_ERR_FORMAT);
    CHECK_CONTAINS(error.text, "misfit levels 0.5 and ");
}

static void check_commands(void)
{
    PF_CASE("edited: commands beyond limits, and a probe that moves nothing");
    EDIT(hi, 1, .1, "beyond its limits");
    EDIT(task_command, 1, 100, "task row 0 commands 100 to mechanism 1");
    copy c = fresh();
    double *command = field_of(&c, c.kit.command);
    for (int i = 0; i < pf_kit_probe_rows(&c.kit, 0) * c.kit.n_mech; i++) {
        command[i] = 0;
    }
    CHECK(refused(&c, "probe 0 does not move its target"));
    PF_CASE("edited: limits wider than the plant's");
    pf_plant *plant = NULL;
    pf_error error = {PF_OK, ""};
    CHECK(pf_plant_create(&plant, "attitude", &error) == PF_OK);
    CHECK(pf_kit_fits_twin(attitude_kit(), pf_plant_get_info(plant), &error) == PF_OK);
    c = fresh();
    field_of(&c, c.kit.hi)[2] *= 10;
    CHECK(pf_kit_fits_twin(&c.kit, pf_plant_get_info(plant), &error) == PF_ERR_MISMATCH);
    CHECK_CONTAINS(error.text, "the kit lets mechanism 'thruster2' go from 0 to 10, plant");
    free(c.image);
    pf_plant_destroy(plant);
    PF_CASE("edited: weights that the tasks do not give");
    EDIT(weight, 2, *value * 2, "weight, reveal and importance of mechanism 3");
    EDIT(task_importance, 0, *value + 1, "weight, reveal and importance of mechanism");
}

static void check_returns(void)
{
    PF_CASE("edited: where a task just returns j_min comes from the return table");
    EDIT(use_edge, 0, *value * .5, "task 0 returns j_min at share");
    EDIT(rehearsal, PF_REHEARSAL_CV, *value * .5 + .1, "the rehearsal of task 0 spreads by");
    pf_kit other = *attitude_kit();
    pf_error error = {PF_OK, ""};
    other.j_min = .5;
    CHECK(pf__kit_check_relations(&other, &error) == PF_ERR_FORMAT);
    CHECK_CONTAINS(error.text, "task 0 returns j_min at share");
    other.j_min = .2;
    CHECK(pf_kit_check(&other, &error) == PF_ERR_FORMAT);
    CHECK_CONTAINS(error.text, "kit: j_min is 0.2, must be 0.37 to 1");
    PF_CASE("edited: a dead mechanism that loses nothing");
    EDIT(tracking_error, 3 * edited.kit.n_shares, 0,
         "the return table of task 0, member 3, loses nothing");
    PF_CASE("edited: parts that the settings do not ask for");
    other = *attitude_kit();
    other.rehearse = PF_REHEARSE_NONE;
    CHECK(pf__kit_check_relations(&other, &error) == PF_ERR_FORMAT);
    CHECK_CONTAINS(error.text, "kit: has rehearsals, but its settings");
    other = *attitude_kit();
    other.posterior = PF_POSTERIOR_TRANSPORT;
    CHECK(pf__kit_check_relations(&other, &error) == PF_ERR_FORMAT);
    CHECK_CONTAINS(error.text, "kit: has looks, but its settings");
}

// --- settings that weaken a verdict

// The kit of the tests as if it had been calibrated with default settings.
static pf_kit usual(void)
{
    pf_kit k = *attitude_kit();
    k.episodes = 60;
    k.alarm_trials = 2000;
    return k;
}

static void check_weakened(void)
{
    pf_weakened list[PF_WEAKENED_MOST];
    pf_kit k = usual();
    PF_CASE("weakened: nothing by default");
    CHECK(pf__weakened(&k, list) == 0);
    PF_CASE("weakened: each setting with what it is and what it is by default");
    k.j_min = .5;
    k.alpha = .25;
    k.episodes = 10;
    k.alarm_trials = 50;
    k.rehearse = PF_REHEARSE_NONE;
    CHECK(pf__weakened(&k, list) == 5);
    CHECK_STR(list[0].setting, "rehearse");
    CHECK_STR(list[1].words, "j_min is 0.5, not 0.85: a task that returns this little is go");
    CHECK_STR(list[2].words, "alpha is 0.25, not 0.1: a bound may be broken more often");
    k = usual();
    k.field = 0;
    CHECK(pf__weakened(&k, list) == 1);
    CHECK_STR(list[0].setting, "field");
    k = usual();
    k.j_min = .9; // asks for more
    k.alpha = .05;
    CHECK(pf__weakened(&k, list) == 0);
    PF_CASE("weakened: a mechanism that is all but ruled out beforehand, whatever the others are");
    k = usual();
    double prior[64] = {.95};
    for (int j = 1; j < k.n_mech; j++) {
        prior[j] = .05 / (k.n_mech - 1);
    }
    k.prior = prior;
    CHECK(pf__weakened(&k, list) == 0);
    prior[1] += prior[2] - 1e-7;
    prior[2] = 1e-7;
    CHECK(pf__weakened(&k, list) == 1);
    CHECK_STR(list[0].setting, "prior");
    CHECK_CONTAINS(list[0].words, "prior is 1e-07, not 0.00");
    CHECK_CONTAINS(list[0].words, pf_kit_mechanism_name(&k, 2));
    PF_CASE("weakened: more noise than the plant has");
    k = usual();
    k.sensor_noise = 4;
    CHECK(pf__weakened(&k, list) == 1);
    CHECK_STR(list[0].words,
              "sensor_noise is 4: what is off by less than so much noise is not noticed");
    PF_CASE("weakened: rehearsals that the budget leaves out");
    k = usual();
    k.budget3 = 0;
    CHECK(pf__weakened(&k, list) == 1);
    CHECK_STR(list[0].setting, "budget.rehearsal");
}

static void check_weakened_said(void)
{
    PF_CASE("weakened: terminal, certificate, explain and sheet say the same");
    char folder[200];
    CHECK(program_folder(folder, sizeof folder, "trust"));
    CHECK(program_in(folder, "calibrate dc_servo --set alpha=.2 --set alarm_trials=100 -o @/k", 0,
                     ""));
    const char *alpha = "alpha is 0.2, not 0.1: a bound may be broken more often";
    CHECK(program_in(folder, "check @/k --journal @/j --certificate @/c --report @/s.html", 0,
                     alpha));
    CHECK(program_in(folder, "explain @/j", 0, alpha));
    CHECK(program_in(folder, "explain @/c", 0, alpha));
    static const char *const files[] = {"c", "s.html"};
    for (int i = 0; i < 2; i++) {
        char *text = program_text(folder, files[i]);
        CHECK_CONTAINS(text, alpha);
        CHECK_CONTAINS(text, "alarm_trials is 100, not 2000");
        free(text);
    }
}

// --- programs that a file names

static void check_programs(void)
{
    char folder[200], calibrate[700];
    const char *refusal = "names a program, which was not run: 'exec:touch ";
    PF_CASE("programs: a kit's own command is not run before somebody allows it");
    CHECK(program_folder(folder, sizeof folder, "exec"));
    snprintf(
        calibrate, sizeof calibrate,
        "calibrate 'exec:touch %s/was-run; exec python3 %s/examples/exec_plant.py' --probes single "
        "--set episodes=20 --set alarm_trials=20 -o %s/k",
        folder, PF_SOURCE, folder);
    CHECK(program(calibrate, 0, ""));
    CHECK(program_in(folder, "check @/k >@/out 2>&1; rm @/was-run", 0, ""));
    static const char *const calls[] = {"check @/k", "audit @/k", "serve @/k </dev/null"};
    for (int i = 0; i < 3; i++) {
        CHECK(program_in(folder, calls[i], 3, refusal));
        CHECK(program_in(folder, calls[i], 3, "--allow-exec, or --plant with the same words, or"));
    }
    CHECK(program_in(folder, "kit show @/k", 0, "exec:touch"));
    CHECK(program_in(folder, "list plants; test ! -e @/was-run", 0, ""));
    CHECK(program_in(folder, "serve @/k --allow-exec </dev/null; test -e @/was-run", 0, ""));
}

void test_trust(void)
{
    check_readings();
    check_commands();
    check_returns();
    check_weakened();
    check_weakened_said();
    check_programs();
}
