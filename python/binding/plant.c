// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "binding.h"

#include "plant/plant_impl.h"

#include <math.h>
#include <stdlib.h>

int pf_py_plant_runs_code(const char *name)
{
    return pf__plant_runs_code(name);
}

int pf_py_plant_open(pf_py_plant **plant, const char *name, const char *folder, char *why)
{
    pf_error error = {PF_OK, ""};
    *plant = NULL;
    pf_py_plant *made = calloc(1, sizeof *made);
    pf_status status = made ? pf_plant_create_in(&made->plant, name, folder, &error)
                            : pf_fail(&error, PF_ERR_MEMORY, "out of memory for a plant");
    if (status != PF_OK) {
        free(made);
        return pf_py_report(status, &error, why);
    }
    *plant = made;
    return PF_OK;
}

void pf_py_plant_close(pf_py_plant *plant)
{
    if (plant) {
        pf_plant_destroy(plant->plant);
        free(plant);
    }
}

// The function in Python takes no self.
static int call_python(void *self, uint64_t seed, const double *start, int n_start,
                       const double *gains, const double *commands, int rows, int noise,
                       double *start_out, double *initial, double *output, char *why)
{
    const pf_py_plant *plant = self;
    return plant->roll(seed, start, n_start, gains, commands, rows, noise, start_out, initial,
                       output, why);
}

int pf_py_plant_wrap(pf_py_plant **plant, const char *name, const char *hello, pf_py_roll_fn roll,
                     char *why)
{
    pf_error error = {PF_OK, ""};
    *plant = NULL;
    pf_py_plant *made = calloc(1, sizeof *made);
    pf_status status =
        made ? pf_plant_from_function(&made->plant, name, hello, call_python, made, &error)
             : pf_fail(&error, PF_ERR_MEMORY, "out of memory for a plant");
    if (status != PF_OK) {
        free(made);
        return pf_py_report(status, &error, why);
    }
    made->roll = roll;
    *plant = made;
    return PF_OK;
}

char *pf_py_plant_json(const pf_py_plant *plant)
{
    return pf_plant_json(plant->plant);
}

// n faults from their texts, with their units.
static pf_status read_faults(pf_fault *faults, const char *const *texts, int n,
                             const pf_py_kit *kit, const pf_plant_info *info, pf_error *error)
{
    pf_status status = PF_OK;
    for (int i = 0; i < n && status == PF_OK; i++) {
        status = pf_fault_parse(texts[i], info, &faults[i], error);
    }
    if (status == PF_OK) {
        status = pf_fault_set_units(faults, n, kit ? kit->kit : NULL, info, error);
    }
    return status == PF_OK ? pf_fault_check(faults, n, info, error) : status;
}

int pf_py_faults_open(pf_py_faults **faults, const pf_py_plant *plant, const pf_py_kit *kit,
                      const char *const *texts, int n, char *why)
{
    pf_error error = {PF_OK, ""};
    *faults = NULL;
    pf_py_faults *made = calloc(1, sizeof *made + (size_t)n * sizeof made->item[0]);
    pf_status status =
        made ? read_faults(made->item, texts, n, kit, pf_plant_get_info(plant->plant), &error)
             : pf_fail(&error, PF_ERR_MEMORY, "out of memory for the faults of a plant");
    if (status != PF_OK) {
        free(made);
        return pf_py_report(status, &error, why);
    }
    made->n = n;
    *faults = made;
    return PF_OK;
}

void pf_py_faults_close(pf_py_faults *faults)
{
    free(faults);
}

int pf_py_steps_open(pf_fault_run **run, const pf_py_body *body, const pf_py_kit *kit,
                     const char *const *texts, int n, char *why)
{
    pf_error error = {PF_OK, ""};
    *run = NULL;
    size_t n_mech = (size_t)body->n_mech, n_chan = (size_t)body->n_chan;
    pf_mechanism *mechanisms = calloc(n_mech + 1, sizeof *mechanisms);
    pf_channel *channels = calloc(n_chan + 1, sizeof *channels);
    pf_fault *faults = calloc((size_t)n + 1, sizeof *faults);
    pf_status status = mechanisms && channels && faults
                           ? PF_OK
                           : pf_fail(&error, PF_ERR_MEMORY, "out of memory for faults");
    for (size_t j = 0; status == PF_OK && j < n_mech; j++) {
        mechanisms[j] = (pf_mechanism){body->mechanisms[j], body->lo[j], body->hi[j]};
    }
    for (size_t c = 0; status == PF_OK && c < n_chan; c++) {
        channels[c] = (pf_channel){body->channels[c], 0, body->scale[c]};
    }
    pf_plant_info info = {.name = body->name,
                          .n_mech = body->n_mech,
                          .n_chan = body->n_chan,
                          .mechanisms = mechanisms,
                          .channels = channels};
    status = status == PF_OK ? read_faults(faults, texts, n, kit, &info, &error) : status;
    status = status == PF_OK ? pf_fault_run_create(run, faults, n, &info, &error) : status;
    free(mechanisms);
    free(channels);
    free(faults);
    return pf_py_report(status, &error, why);
}

void pf_py_steps_close(pf_fault_run *run)
{
    pf_fault_run_destroy(run);
}

void pf_py_steps_reset(pf_fault_run *run, uint64_t key)
{
    pf_fault_run_reset(run, key);
}

void pf_py_steps_act(pf_fault_run *run, double *command)
{
    pf_fault_run_step(run, command);
}

void pf_py_steps_read(pf_fault_run *run, double *reading)
{
    pf_fault_run_read(run, reading);
}

size_t pf_py_steps_save(const pf_fault_run *run, void *bytes)
{
    return pf_fault_run_save(run, bytes);
}

int pf_py_steps_load(pf_fault_run *run, const void *bytes, size_t n, char *why)
{
    pf_error error = {PF_OK, ""};
    return pf_py_report(pf_fault_run_load(run, bytes, n, &error), &error, why);
}

int pf_py_plant_roll(pf_py_plant *plant, uint64_t key, const double *start, const double *gains,
                     const pf_py_faults *faults, const double *commands, int rows, int noise,
                     double *start_out, double *initial, double *output, char *why)
{
    pf_error error = {PF_OK, ""};
    pf_roll roll = pf_roll_default();
    roll.key = key;
    roll.start = start;
    roll.gains = gains;
    roll.command = commands;
    roll.rows = rows;
    roll.disturbance = noise != 0;
    roll.sensor_noise = noise != 0;
    roll.faults = faults ? faults->item : NULL;
    roll.n_faults = faults ? faults->n : 0;
    pf_trace trace = {.start = start_out, .initial = initial, .output = output};
    pf_status status = pf_plant_roll(plant->plant, &roll, &trace, &error);
    if (status == PF_OK && roll.n_faults > 0) {
        status = pf_fault_sense(roll.faults, roll.n_faults, pf_plant_get_info(plant->plant), key,
                                isfinite(initial[0]) ? initial : NULL, rows, output, &error);
    }
    return pf_py_report(status, &error, why);
}

void pf_py_plant_limits(pf_py_plant *plant, double hello_s, double roll_s)
{
    pf_plant_set_timeouts(plant->plant, hello_s, roll_s);
}
