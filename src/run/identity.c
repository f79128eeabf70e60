// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "preflight/run.h"

#include <string.h>

pf_status pf_kit_fits_machine(const pf_kit *kit, const pf_plant_info *info, pf_error *error)
{
    pf_kit_info k = pf_kit_get_info(kit);
    bool same = info->n_mech == k.n_mech && info->n_chan == k.n_chan &&
                (k.recorded || k.starts_from_channels || info->n_state == k.n_state);
    for (int j = 0; same && j < k.n_mech; j++) {
        same = strcmp(info->mechanisms[j].name, pf_kit_mechanism_name(kit, j)) == 0;
    }
    for (int c = 0; same && c < k.n_chan; c++) {
        same = strcmp(info->channels[c].name, pf_kit_channel_name(kit, c)) == 0;
    }
    return same ? PF_OK
                : pf_fail(error, PF_ERR_MISMATCH,
                          "the kit was calibrated for plant %s; %s has other mechanisms, channels "
                          "or states",
                          pf_kit_get_string(kit, PF_KIT_PLANT), info->name);
}

pf_status pf_kit_fits_twin(const pf_kit *kit, const pf_plant_info *info, pf_error *error)
{
    pf_status status = pf_kit_fits_machine(kit, info, error);
    const char *was = pf_kit_get_string(kit, PF_KIT_SOURCE);
    if (status == PF_OK && strcmp(was, info->source) != 0) {
        status = pf_fail(error, PF_ERR_MISMATCH,
                         "the simulator has changed since calibration (it was '%s', it is '%s'); "
                         "calibrate again",
                         was, info->source);
    }
    return status;
}

pf_status pf_kit_fits_model(const pf_kit *kit, const pf_model *model, pf_error *error)
{
    const pf_model_info *info = pf_model_get_info(model);
    const char *plant = pf_kit_get_string(kit, PF_KIT_PLANT);
    const char *was = pf_kit_get_string(kit, PF_KIT_MODEL);
    pf_kit_info k = pf_kit_get_info(kit);
    if (strcmp(info->plant, plant) != 0) {
        return pf_fail(error, PF_ERR_MISMATCH, "the model is of plant %s, the kit of plant %s",
                       info->plant, plant);
    }
    if (strcmp(info->sha256, was) != 0) {
        return pf_fail(error, PF_ERR_MISMATCH,
                       "the kit was calibrated with another model: sha256 %s, not %s", was,
                       info->sha256);
    }
    if (info->n_chan != k.n_chan || info->n_mech != k.n_mech || k.n_state != k.n_chan) {
        return pf_fail(error, PF_ERR_MISMATCH,
                       "the model has %d channels and %d mechanisms, the kit %d and %d",
                       info->n_chan, info->n_mech, k.n_chan, k.n_mech);
    }
    return PF_OK;
}
