// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "embedded_plant.h"
#include "preflight/calibrate.h"

#include <stdio.h>
#include <stdlib.h>

// The host's part of the embedded example: calibrates the kit that the board holds in flash and
// writes it to the file given. scripts/embed_kit.py turns that into embedded_kit.h.

static void reset(double *x, pf_rng *rng)
{
    for (int i = 0; i < TANKS; i++) {
        x[i] = 1 + (rng ? .05 * pf_rng_normal(rng) : 0);
    }
}

static void advance(const double *knob, double *x, const double *v, const double *w)
{
    (void)knob;
    tanks_step(x, v, w);
}

static void output(const double *knob, const double *x, const double *v, const double *w, double *y)
{
    (void)knob;
    (void)v;
    (void)w;
    for (int i = 0; i < TANKS; i++) {
        y[i] = x[i];
    }
}

static const pf_mechanism pumps[] = {
    {"main", 0, 1}, {"standby-1", 0, 1}, {"standby-2", 0, 1}, {"standby-3", 0, 1}};
static const pf_channel levels[] = {{"level-1", SENSOR_SD, SENSOR_SD},
                                    {"level-2", SENSOR_SD, SENSOR_SD},
                                    {"level-3", SENSOR_SD, SENSOR_SD}};
static const double probe_amplitude[] = {.2, .3, .3, .3};
static const double task_amplitude[] = {0, .25, .25, .25};
static const pf_pulse probe = {PROBE_ROWS, PROBE_ROWS, false, probe_amplitude};
static const pf_pulse task = {8, TASK_ROWS, false, task_amplitude};
static const double wind_phi[] = {.5, .5, .5};
static const double wind_sd[] = {WIND_SD, WIND_SD, WIND_SD};

static const pf_plant_class tanks = {
    .info = {.name = "tanks",
             .title = "three tanks with standby pumps",
             .source = "examples/embedded_plant.h",
             .n_mech = PUMPS,
             .n_chan = TANKS,
             .n_state = TANKS,
             .dt_s = 1,
             .mechanisms = pumps,
             .channels = levels,
             .probe = &probe,
             .task = &task},
    .n_wind = TANKS,
    .wind_phi = wind_phi,
    .wind_sd = wind_sd,
    .reset = reset,
    .advance = advance,
    .output = output,
};

int main(int argc, char **argv)
{
    pf_error error = {PF_OK, ""};
    pf_plan *plan = NULL;
    pf_plant *plant = NULL;
    void *bytes = NULL;
    size_t n = 0;
    if (argc != 2) {
        fprintf(stderr, "usage: embedded_calibrate FILE\n");
        return 2;
    }
    pf_status status = pf_plant_from_class(&plant, &tanks, &error);
    if (status == PF_OK) {
        // a short return table, for a small flash; one probe of each pump and one to spare
        const char *const settings[] = {"members=4", "budget.stage1=4"};
        status = pf_plan_create(&plan, &tanks.info, NULL, NULL, 0, settings, 2, &error);
    }
    if (status == PF_OK) {
        status = pf_calibrate(plan, plant, NULL, NULL, &bytes, &n, &error);
    }
    if (status == PF_OK) {
        FILE *file = fopen(argv[1], "wb");
        bool written = file && fwrite(bytes, 1, n, file) == n;
        if ((file && fclose(file) != 0) || !written) {
            status = pf_fail(&error, PF_ERR_FILE, "%s cannot be written", argv[1]);
        }
    }
    if (status != PF_OK) {
        fprintf(stderr, "embedded_calibrate: %s\n", error.text);
    }
    pf_plan_destroy(plan);
    pf_plant_destroy(plant);
    free(bytes);
    return status == PF_OK ? 0 : 1;
}
