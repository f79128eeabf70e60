// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "attitude_kit.h"
#include "core/kit_layout.h"

#include "preflight/run.h"
#include "calibrate/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char small_config[] =
    "plant: attitude\n"
    "probes:\n"
    "  - {name: single, pulse: {mechanism: 1, amplitude: .26, steps: 6}}\n"
    "  - name: pair\n"
    "    command:\n"
    "      - [0, 0, .6, .9, 0, 0, 0, 0]\n"
    "      - [0, 0, .6, .9, 0, 0, 0, 0]\n"
    "      - [0, 0, .6, .9, 0, 0, 0, 0]\n"
    "      - [0, 0, .9, 0, 0, 0, 0, 0]\n"
    "      - [0, 0, .9, 0, 0, 0, 0, 0]\n"
    "      - [0, 0, .9, 0, 0, 0, 0, 0]\n"
    "    targets: [2, 3]\n"
    "tasks:\n"
    "  - {name: turn, mechanisms: [1], command: [[0, .25, 0, 0, 0, 0, 0, 0],\n"
    "                                            [0, .25, 0, 0, 0, 0, 0, 0]]}\n"
    "  - {name: tilt, mechanisms: [2, 3], command: [[0, 0, .2, .2, 0, 0, 0, 0],\n"
    "                                               [0, 0, .2, .1, 0, 0, 0, 0]]}\n"
    "posterior: transport\n" // predictions at every gain of the grid in stage 2
    "rehearse: none\n"
    "grid: [.2, .35, .5, .8]\n"
    "episodes: 60\n"
    "budget: {stage1: 6, stage2: 2}\n";

typedef struct image {
    void *bytes;
    size_t n;
    pf_kit kit;
} image;

// The tests cannot go on without a kit.
static void must(pf_status status, const pf_error *error)
{
    if (status != PF_OK) {
        fprintf(stderr, "attitude kit: %s\n", error->text);
        exit(4);
    }
}

static const image *calibrated(image *kit, const char *config)
{
    if (kit->bytes) {
        return kit;
    }
    pf_error error = {PF_OK, ""};
    pf_plant *plant = NULL;
    pf_plan plan;
    pf_effort effort = {0};
    must(pf_plant_create(&plant, "attitude", &error), &error);
    const pf_plant_info *info = pf_plant_get_info(plant);
    must(config ? pf__plan_from_config(&plan, info, "small.yaml", config, strlen(config), NULL, 0,
                                       &error)
                : pf__plan_default(&plan, info, &error),
         &error);
    plan.settings.alarm_trials = 200;
    must(pf_calibrate(&plan, plant, NULL, &effort, &kit->bytes, &kit->n, &error), &error);
    must(pf__kit_read(&kit->kit, kit->bytes, kit->n, &error), &error);
    pf__plan_free(&plan);
    pf_plant_destroy(plant);
    return kit;
}

// Kept for the life of the process.
static image whole_kit, small_kit, many_kit, transport_kit, transport_many_kit;

const pf_kit *attitude_kit(void)
{
    return &calibrated(&whole_kit, NULL)->kit;
}

const void *attitude_kit_bytes(size_t *n)
{
    const image *kit = calibrated(&whole_kit, NULL);
    *n = kit->n;
    return kit->bytes;
}

// Without the joint posterior recovery probes are predicted at every gain of the grid.
static const char transport_config[] = "plant: attitude\nposterior: transport\nrehearse: none\n";
static const char transport_many_config[] =
    "plant: attitude\nfaults: many\nposterior: transport\nrehearse: none\n";

const void *attitude_transport_kit_bytes(bool many, size_t *n)
{
    const image *kit = many ? calibrated(&transport_many_kit, transport_many_config)
                            : calibrated(&transport_kit, transport_config);
    *n = kit->n;
    return kit->bytes;
}

static const char many_config[] = "plant: attitude\nfaults: many\n";

const pf_kit *attitude_many_kit(void)
{
    return &calibrated(&many_kit, many_config)->kit;
}

const void *attitude_many_kit_bytes(size_t *n)
{
    const image *kit = calibrated(&many_kit, many_config);
    *n = kit->n;
    return kit->bytes;
}

const pf_kit *attitude_small_kit(void)
{
    return &calibrated(&small_kit, small_config)->kit;
}

const void *attitude_small_kit_bytes(size_t *n)
{
    const image *kit = calibrated(&small_kit, small_config);
    *n = kit->n;
    return kit->bytes;
}

void attitude_machine_open(attitude_machine *machine, int weak, double gain)
{
    pf_error error = {PF_OK, ""};
    *machine = (attitude_machine){.plant = NULL};
    must(pf_plant_create(&machine->plant, "attitude", &error), &error);
    for (int j = 0; j < ATTITUDE_MECH; j++) {
        machine->gains[j] = j > 0 && j == weak ? gain : 1;
    }
}

void attitude_machine_close(attitude_machine *machine)
{
    pf_plant_destroy(machine->plant);
    machine->plant = NULL;
}

void attitude_machine_probe(attitude_machine *machine, const pf_kit *kit, int probe)
{
    pf_error error = {PF_OK, ""};
    pf_rig rig = {.plant = machine->plant,
                  .kit = kit,
                  .gains = machine->gains,
                  .start = machine->start,
                  .response = machine->response};
    pf_key key = pf_key_stream(11, "attitude", 0, PF_PURPOSE_EVALUATION, machine->runs++);
    must(pf_rig_run(&rig, probe, key, &error), &error);
}

void attitude_machine_predict(attitude_machine *machine, const pf_kit *kit, int probe,
                              int mechanism, double gain, pf_text *out)
{
    pf_error error = {PF_OK, ""};
    double response[ATTITUDE_ROWS * ATTITUDE_CHAN];
    pf_predictor predictor;
    must(pf_predictor_create(&predictor, kit, machine->plant, NULL, &error), &error);
    pf_hypothesis hypothesis = {probe, mechanism, gain, machine->others};
    must(predictor.predict(predictor.self, &hypothesis, machine->start, ATTITUDE_STATE, response,
                           &error),
         &error);
    pf_predictor_destroy(&predictor);
    pf__json_matrix(out, pf_kit_probe_rows(kit, probe), kit->n_chan, response);
}

// "nominal", then "fault" per target or "grid" per target and gain; "healthy" per target instead of
// "nominal" where the others have gains of their own.
static void add_predictions(attitude_machine *machine, const pf_kit *kit, int probe, int stage,
                            pf_text *out)
{
    const int32_t *targets = NULL;
    int n = pf_kit_probe_targets(kit, probe, &targets);
    pf__json_key(out, machine->others ? "healthy" : "nominal");
    pf__text_add(out, machine->others ? "[" : "");
    for (int t = 0; t < (machine->others ? n : 1); t++) {
        pf__text_add(out, t > 0 ? "," : "");
        attitude_machine_predict(machine, kit, probe, machine->others ? targets[t] : 0, 1, out);
    }
    pf__text_add(out, machine->others ? "]" : "");
    pf__json_key(out, stage == 1 ? "fault" : "grid");
    pf__text_add(out, "[");
    for (int t = 0; t < n; t++) {
        pf__json_comma(out);
        if (stage == 1) {
            attitude_machine_predict(machine, kit, probe, targets[t], kit->g_cal, out);
            continue;
        }
        pf__text_add(out, "[");
        for (int g = 0; g < kit->n_grid; g++) {
            pf__json_comma(out);
            attitude_machine_predict(machine, kit, probe, targets[t], kit->grid[g], out);
        }
        pf__text_add(out, "]");
    }
    pf__text_add(out, "]");
}

void attitude_machine_tell(attitude_machine *machine, const pf_kit *kit, int probe, int stage,
                           bool state, pf_text *out)
{
    pf__text_clear(out);
    pf__text_addf(out, "{\"op\":\"tell\",\"probe\":%d,\"response\":", probe);
    pf__json_matrix(out, pf_kit_probe_rows(kit, probe), kit->n_chan, machine->response);
    if (state) {
        pf__json_key(out, "state");
        pf__json_numbers(out, ATTITUDE_STATE, machine->start);
    } else {
        add_predictions(machine, kit, probe, stage, out);
    }
    pf__text_add(out, "}");
}
