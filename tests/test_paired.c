// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "preflight/run.h"
#include "core/kit_layout.h"
#include "calibrate/plan.h"
#include "preflight/train.h"
#include "program.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The same machines checked twice, once with a twin and once with an ensemble of the quick profile.

enum { TRIALS = 200 };

typedef struct side {
    void *bytes;
    size_t n;
    pf_kit kit;
    pf_session *session;
    void *memory;
    bool hit[TRIALS]; // the fault of this trial was found
    int found, false_alarms;
    double gain_error; // summed over found
} side;

static bool passed(pf_status status, const pf_error *error)
{
    if (!CHECK(status == PF_OK)) {
        printf("    %s\n", error->text);
    }
    return status == PF_OK;
}

static bool learn(pf_plant *plant, pf_model **model)
{
    char folder[200], data_path[300], path[300];
    pf_train_settings settings;
    pf_transitions *data = NULL;
    pf_error error = {PF_OK, ""};
    program_folder(folder, sizeof folder, "paired");
    snprintf(data_path, sizeof data_path, "%s/%s.data", folder, pf_plant_get_info(plant)->name);
    snprintf(path, sizeof path, "%s/%s.model", folder, pf_plant_get_info(plant)->name);
    pf_status status = pf_train_profile(&settings, "quick", &error);
    if (status == PF_OK) {
        status = pf_transitions_make(&settings, plant, data_path, NULL, &error);
    }
    if (status == PF_OK) {
        status = pf_transitions_open(&data, data_path, &error);
    }
    if (status == PF_OK) {
        status = pf_train(&settings, data, path, 3600, NULL, NULL, &error);
    }
    if (status == PF_OK) {
        status = pf_model_load(model, path, &error);
    }
    pf_transitions_close(data);
    return passed(status, &error);
}

static bool open_side(side *s, pf_plant *plant, const pf_model *model, bool sensed)
{
    pf_plan plan;
    pf_error error = {PF_OK, ""};
    memset(s, 0, sizeof *s);
    if (!passed(pf__plan_default(&plan, pf_plant_get_info(plant), &error), &error)) {
        return false;
    }
    plan.settings.sensed_start = sensed;
    bool good = passed(pf_calibrate(&plan, plant, model, NULL, &s->bytes, &s->n, &error), &error) &&
                passed(pf__kit_read(&s->kit, s->bytes, s->n, &error), &error);
    pf__plan_free(&plan);
    if (good) {
        size_t bytes = pf_session_size(&s->kit);
        s->memory = malloc(bytes);
        good =
            CHECK(s->memory != NULL) &&
            passed(pf_session_init(&s->session, &s->kit, NULL, s->memory, bytes, &error), &error);
    }
    return good;
}

static void close_side(side *s)
{
    free(s->memory);
    free(s->bytes);
}

// One check of the machine of this trial; mechanism 0: healthy.
static void run_trial(side *s, pf_plant *plant, const pf_predictor *predictor, int trial,
                      int mechanism, double loss)
{
    double gains[PF_MECH_MAX], start[PF_STATE_MAX], response[4096];
    pf_error error = {PF_OK, ""};
    for (int j = 0; j < s->kit.n_mech; j++) {
        gains[j] = j == mechanism && j > 0 ? loss : 1;
    }
    pf_rig rig = {
        .plant = plant, .kit = &s->kit, .gains = gains, .start = start, .response = response};
    pf_machine machine = pf_rig_machine(&rig);
    pf_drive drive = {.seed = 11, .trial = (uint64_t)trial, .purpose = PF_PURPOSE_EVALUATION};
    pf_session_reset(s->session);
    if (!passed(pf_drive_session(s->session, &machine, predictor, &drive, &error), &error)) {
        return;
    }
    pf_session_certify(s->session);
    bool alarm = pf_session_get_state(s->session).alarm;
    int likeliest = 1;
    for (int j = 2; j < s->kit.n_mech; j++) {
        likeliest = pf_session_mechanism(s->session, j)->changed >
                            pf_session_mechanism(s->session, likeliest)->changed
                        ? j
                        : likeliest;
    }
    s->false_alarms += mechanism == 0 && alarm;
    if (mechanism > 0 && alarm && likeliest == mechanism) {
        s->found++;
        s->hit[trial] = true;
        s->gain_error += fabs(pf_session_mechanism(s->session, mechanism)->mean_gain - loss);
    }
}

static void compare(const char *name, bool sensed, double loss)
{
    pf_plant *plant = NULL;
    pf_model *model = NULL;
    pf_predictor simulator = {0}, network = {0};
    pf_error error = {PF_OK, ""};
    side twin = {0}, learned = {0};
    if (passed(pf_plant_create(&plant, name, &error), &error) && learn(plant, &model) &&
        open_side(&twin, plant, NULL, false) && open_side(&learned, plant, model, sensed) &&
        passed(pf_predictor_create(&simulator, &twin.kit, plant, NULL, &error), &error) &&
        passed(pf_predictor_create(&network, &learned.kit, NULL, model, &error), &error)) {
        int candidates = twin.kit.n_mech - 1;
        for (int t = 0; t < TRIALS; t++) {
            int mechanism = 1 + t % candidates;
            run_trial(&twin, plant, &simulator, t, mechanism, loss);
            run_trial(&learned, plant, &network, t, mechanism, loss);
            run_trial(&twin, plant, &simulator, TRIALS + t, 0, loss);
            run_trial(&learned, plant, &network, TRIALS + t, 0, loss);
        }
        int both = 0;
        for (int t = 0; t < TRIALS; t++) {
            both += twin.hit[t] && learned.hit[t];
        }
        printf("    %s%s, gain %.2f, %d trials: twin found %d (gain error %.3f, false alarms %d), "
               "ensemble found %d (gain error %.3f, false alarms %d), both %d\n",
               name, sensed ? " (sensed starts)" : "", loss, TRIALS, twin.found,
               twin.gain_error / fmax(twin.found, 1), twin.false_alarms, learned.found,
               learned.gain_error / fmax(learned.found, 1), learned.false_alarms, both);
        CHECK(twin.found > TRIALS * 3 / 4);
        CHECK(both >= twin.found * 9 / 10);
        CHECK(learned.false_alarms < TRIALS / 8);
    }
    pf_predictor_destroy(&simulator);
    pf_predictor_destroy(&network);
    close_side(&twin);
    close_side(&learned);
    pf_model_destroy(model);
    pf_plant_destroy(plant);
}

void test_paired(void)
{
    PF_CASE("dc_servo: an ensemble finds what a twin finds");
    compare("dc_servo", false, .35);
    PF_CASE("dc_servo: a mild loss");
    compare("dc_servo", false, .8);
    PF_CASE("dc_servo: starts read by noisy sensors, on a kit that was told so");
    compare("dc_servo", true, .35);
    PF_CASE("attitude: an ensemble finds what a twin finds");
    compare("attitude", false, .35);
    PF_CASE("attitude: a mild loss");
    compare("attitude", false, .8);
}
