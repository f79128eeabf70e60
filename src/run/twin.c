// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "twin.h"

static pf_status predict(void *self, const pf_hypothesis *h, const double *start, int n_start,
                         double *response, pf_error *error)
{
    pf_twin *twin = self;
    const pf_kit *kit = twin->kit;
    const pf_plant_info *info = pf_plant_get_info(twin->plant);
    if (n_start != info->n_state || (info->n_state > 0 && !start)) {
        return pf_fail(error, PF_ERR_PREDICTION, "state: %d numbers, the twin %s needs %d", n_start,
                       info->name, info->n_state);
    }
    double gains[PF_MECH_MAX];
    for (int j = 0; j < info->n_mech; j++) {
        gains[j] = j == h->mechanism ? h->gain : h->others ? h->others[j] : 1;
    }
    pf_roll roll = pf_roll_default();
    roll.start = info->n_state > 0 ? start : NULL;
    roll.gains = gains;
    roll.rows = pf_kit_probe_rows(kit, h->probe);
    roll.command = kit->command + (size_t)kit->probe_row[h->probe] * (size_t)kit->n_mech;
    pf_trace trace = {.output = response};
    return pf_plant_roll(twin->plant, &roll, &trace, error);
}

pf_predictor pf_twin_predictor(pf_twin *twin)
{
    return (pf_predictor){twin, predict};
}
