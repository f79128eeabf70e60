// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "hello.h"
#include "plant/plant_impl.h"
#include "host/json.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

// A plant that is a function in this process, written in Python for one. It is described as behind
// the bridge and gets the same seeds, so its kits are those of the bridge to the bit.

typedef struct wrapped {
    atomic_int users; // clones share it
    char *name;
    pf_roll_function roll;
    void *function_self;
    pf_description about;
} wrapped;

static pf_status wrap_roll(pf_plant *plant, const pf_roll *roll, const pf_trace *trace,
                           pf_error *error)
{
    const wrapped *self = plant->self;
    const pf_plant_info *info = &plant->info;
    if (roll->mean_reset || trace->state || roll->policy >= 0) {
        return pf_fail(error, PF_ERR_UNSUPPORTED,
                       "%s: a plant in this process has no mean reset, states or closed loops",
                       info->name);
    }
    size_t n_state = (size_t)info->n_state, n_chan = (size_t)info->n_chan;
    size_t n_mech = (size_t)info->n_mech, n = (size_t)roll->rows * n_chan;
    double *room = calloc(n_state + n_chan + n_mech + n + 1, sizeof *room);
    if (!room) {
        return pf_fail(error, PF_ERR_MEMORY, "%s: out of memory", info->name);
    }
    double *start = room, *initial = start + n_state, *gains = initial + n_chan;
    double *output = gains + n_mech;
    for (size_t j = 0; j < n_mech; j++) {
        gains[j] = roll->gains ? roll->gains[j] : 1;
    }
    char why[sizeof error->text] = "";
    bool noise = roll->disturbance || roll->sensor_noise > 0;
    // 53 bits, as behind the bridge
    int failed = self->roll(self->function_self, roll->key >> 11, roll->start,
                            roll->start ? info->n_state : 0, gains, roll->command, roll->rows,
                            noise, start, initial, output, why);
    bool finite = true;
    for (size_t i = 0; i < n_state + n_chan + n_mech + n; i++) {
        finite = finite && isfinite(room[i]);
    }
    if (!failed && finite) {
        if (trace->start) {
            memcpy(trace->start, start, n_state * sizeof *start);
        }
        if (trace->initial) {
            memcpy(trace->initial, initial, n_chan * sizeof *initial);
        }
        if (trace->output) {
            memcpy(trace->output, output, n * sizeof *output);
        }
    }
    free(room);
    if (failed) {
        return pf_fail(error, PF_ERR_PLANT, "%s: the plant reports: %s", info->name, why);
    }
    return finite ? PF_OK
                  : pf_fail(error, PF_ERR_PLANT, "%s: its answer is not finite", info->name);
}

static void wrap_destroy(pf_plant *plant)
{
    wrapped *self = plant->self;
    if (atomic_fetch_sub(&self->users, 1) == 1) {
        pf__description_free(&self->about);
        free(self->name);
        free(self);
    }
}

static pf_status wrap_clone(const pf_plant *plant, pf_plant **copy, pf_error *error)
{
    wrapped *self = plant->self;
    *copy = malloc(sizeof **copy);
    if (!*copy) {
        return pf_fail(error, PF_ERR_MEMORY, "%s: out of memory", self->name);
    }
    atomic_fetch_add(&self->users, 1);
    **copy = *plant;
    return PF_OK;
}

static const pf_plant_ops wrap_ops = {
    .roll = wrap_roll, .clone = wrap_clone, .destroy = wrap_destroy};

static pf_status describe(wrapped *self, const char *hello, pf_error *error)
{
    json_error_t problem;
    char what[PF_WHAT_SIZE] = "";
    json_t *parsed = pf__json_load(hello, strlen(hello), JSON_REJECT_DUPLICATES, &problem);
    if (!parsed) {
        return pf_fail(error, PF_ERR_PLANT, "%s: its description is not JSON: %s", self->name,
                       problem.text);
    }
    pf_status status = pf__description_parse(parsed, &self->about, what);
    if (status == PF_OK && self->about.n_faults > 0) {
        return pf_fail(error, PF_ERR_UNSUPPORTED,
                       "%s: a plant in this process declares no faults, its function could not be "
                       "told of them; run it behind exec:",
                       self->name);
    }
    return status == PF_OK ? PF_OK : pf_fail(error, status, "%s: %s", self->name, what);
}

pf_status pf_plant_from_function(pf_plant **plant, const char *name, const char *hello,
                                 pf_roll_function roll, void *function_self, pf_error *error)
{
    *plant = NULL;
    pf_plant *made = calloc(1, sizeof *made);
    wrapped *self = calloc(1, sizeof *self);
    char *copy = malloc(strlen(name) + 1);
    pf_status status =
        made && self && copy ? PF_OK : pf_fail(error, PF_ERR_MEMORY, "%s: out of memory", name);
    if (status == PF_OK) {
        self->name = strcpy(copy, name);
        self->roll = roll;
        self->function_self = function_self;
        atomic_init(&self->users, 1);
        status = describe(self, hello, error);
    }
    if (status != PF_OK) {
        if (self) {
            pf__description_free(&self->about);
        }
        free(made);
        free(self);
        free(copy);
        return status;
    }
    *made = (pf_plant){.ops = &wrap_ops, .self = self};
    made->info = pf__description_info(&self->about, self->name);
    status = pf__plant_check_names(&made->info, error);
    if (status != PF_OK) {
        pf_plant_destroy(made);
        return status;
    }
    *plant = made;
    return PF_OK;
}
