// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "binding.h"

#include <math.h>
#include <stdlib.h>

int pf_py_plant_open(pf_py_plant **plant, const char *name, char *why)
{
    pf_error error = {PF_OK, ""};
    *plant = NULL;
    pf_py_plant *made = calloc(1, sizeof *made);
    pf_status status = made ? pf_plant_create(&made->plant, name, &error)
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

int pf_py_faults_open(pf_py_faults **faults, const pf_py_plant *plant, const pf_py_kit *kit,
                      const char *const *texts, int n, char *why)
{
    pf_error error = {PF_OK, ""};
    const pf_plant_info *info = pf_plant_get_info(plant->plant);
    *faults = NULL;
    pf_py_faults *made = calloc(1, sizeof *made + (size_t)n * sizeof made->item[0]);
    pf_status status =
        made ? PF_OK : pf_fail(&error, PF_ERR_MEMORY, "out of memory for the faults of a plant");
    for (int i = 0; i < n && status == PF_OK; i++) {
        status = pf_fault_parse(texts[i], info, &made->item[i], &error);
        made->n = n;
    }
    if (status == PF_OK) {
        status = pf_fault_set_units(made->item, n, kit ? kit->kit : NULL, info, &error);
    }
    if (status == PF_OK) {
        status = pf_fault_check(made->item, n, info, &error);
    }
    if (status != PF_OK) {
        free(made);
        return pf_py_report(status, &error, why);
    }
    *faults = made;
    return PF_OK;
}

void pf_py_faults_close(pf_py_faults *faults)
{
    free(faults);
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
