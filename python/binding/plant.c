// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "binding.h"

#include "wire/reply.h"
#include "plant/plant_impl.h"

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

char *pf_py_plant_json(const pf_py_plant *plant)
{
    const pf_plant_info *info = pf_plant_get_info(plant->plant);
    pf_text out = {0};
    pf_text_add(&out, "{\"name\":");
    pf_json_string(&out, info->name);
    pf_json_key(&out, "title");
    pf_json_string(&out, info->title ? info->title : "");
    pf_json_key(&out, "source");
    pf_json_string(&out, info->source ? info->source : "");
    pf_json_key(&out, "environment");
    pf_json_string(&out, pf_plant_environment(info));
    pf_text_addf(&out, ",\"state_size\":%d,\"dt\":", info->n_state);
    pf_json_number(&out, info->dt_s);
    pf_text_add(&out, ",\"mechanisms\":[");
    for (int j = 0; j < info->n_mech; j++) {
        pf_json_comma(&out);
        pf_text_add(&out, "{\"name\":");
        pf_json_string(&out, info->mechanisms[j].name);
        pf_json_key(&out, "lo");
        pf_json_number(&out, info->mechanisms[j].lo);
        pf_json_key(&out, "hi");
        pf_json_number(&out, info->mechanisms[j].hi);
        pf_text_add(&out, "}");
    }
    pf_text_add(&out, "],\"channels\":[");
    for (int c = 0; c < info->n_chan; c++) {
        pf_json_comma(&out);
        pf_text_add(&out, "{\"name\":");
        pf_json_string(&out, info->channels[c].name);
        pf_json_key(&out, "scale");
        pf_json_number(&out, info->channels[c].scale);
        pf_text_add(&out, "}");
    }
    pf_text_add(&out, "]}");
    if (out.failed) {
        pf_text_free(&out);
        return NULL;
    }
    return out.data;
}

int pf_py_plant_roll(pf_py_plant *plant, uint64_t key, const double *start, const double *gains,
                     const double *commands, int rows, int noise, double *start_out,
                     double *initial, double *output, char *why)
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
    pf_trace trace = {.start = start_out, .initial = initial, .output = output};
    return pf_py_report(pf_plant_roll(plant->plant, &roll, &trace, &error), &error, why);
}

void pf_py_plant_limits(pf_py_plant *plant, double hello_s, double roll_s)
{
    pf__plant_set_timeouts(plant->plant, hello_s, roll_s);
}
