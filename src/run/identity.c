// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "preflight/run.h"
#include "plant/identity.h"

#include <stdio.h>
#include <string.h>

static const char *mechanism_name(const void *kit, int mechanism)
{
    return pf_kit_mechanism_name(kit, mechanism);
}

static const char *channel_name(const void *kit, int channel)
{
    return pf_kit_channel_name(kit, channel);
}

pf_status pf_kit_fits_machine(const pf_kit *kit, const pf_plant_info *info, pf_error *error)
{
    char where[120];
    const char *plant = pf_kit_get_string(kit, PF_KIT_PLANT);
    pf_kit_info k = pf_kit_get_info(kit);
    bool twin = !k.recorded && !k.starts_from_channels;
    snprintf(where, sizeof where, "the kit, which was calibrated for plant %.60s,", plant);
    pf_comparison c = {where, "check the machine that it is for, or calibrate again", error, PF_OK};
    pf_identity file = {.dt_s = -1,
                        .n_mech = k.n_mech,
                        .n_chan = k.n_chan,
                        .n_state = twin ? k.n_state : -1,
                        .self = kit,
                        .mechanism = mechanism_name,
                        .channel = channel_name};
    return pf__identity_same(&c, &file, info->name, info);
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
    // calibration takes closer limits than the plant's, never wider ones
    pf_kit_info k = pf_kit_get_info(kit);
    for (int j = 0; j < k.n_mech && status == PF_OK; j++) {
        const pf_mechanism *m = &info->mechanisms[j];
        if (k.lo[j] < m->lo || k.hi[j] > m->hi) {
            status = pf_fail(error, PF_ERR_MISMATCH,
                             "the kit lets mechanism '%s' go from %g to %g, plant %s clips at %g "
                             "and %g; calibrate again",
                             m->name, k.lo[j], k.hi[j], info->name, m->lo, m->hi);
        }
    }
    return status;
}

pf_status pf_kit_fits_model(const pf_kit *kit, const pf_model *model, pf_error *error)
{
    const pf_model_info *info = pf_model_get_info(model);
    const char *plant = pf_kit_get_string(kit, PF_KIT_PLANT);
    const char *was = pf_kit_get_string(kit, PF_KIT_MODEL);
    pf_kit_info k = pf_kit_get_info(kit);
    bool same = strcmp(info->sha256, was) == 0;
    if (!same && strcmp(info->plant, plant) != 0) {
        return pf_fail(error, PF_ERR_MISMATCH, "the model is of plant %s, the kit of plant %s",
                       info->plant, plant);
    }
    if (!same) {
        return pf_fail(error, PF_ERR_MISMATCH,
                       "the kit was calibrated with another model: sha256 %s, not %s", was,
                       info->sha256);
    }
    if (info->n_chan != k.n_chan || info->n_mech != k.n_mech ||
        k.n_state != info->history * k.n_chan) {
        return pf_fail(error, PF_ERR_MISMATCH,
                       "the model has %d channels and %d mechanisms, the kit %d and %d",
                       info->n_chan, info->n_mech, k.n_chan, k.n_mech);
    }
    return PF_OK;
}
