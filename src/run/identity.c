// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "identity.h"

#include <string.h>

pf_status pf_machine_matches(const pf_kit *kit, const pf_plant_info *info, pf_error *error)
{
    bool recordings = kit->n_response > 0;
    bool same = info->n_mech == kit->n_mech && info->n_chan == kit->n_chan &&
                (recordings || pf_kit_starts_from_channels(kit) || info->n_state == kit->n_state);
    for (int j = 0; same && j < kit->n_mech; j++) {
        same = strcmp(info->mechanisms[j].name, pf_kit_mechanism_name(kit, j)) == 0;
    }
    for (int c = 0; same && c < kit->n_chan; c++) {
        same = strcmp(info->channels[c].name, pf_kit_channel_name(kit, c)) == 0;
    }
    return same ? PF_OK
                : pf_fail(error, PF_ERR_MISMATCH,
                          "the kit was calibrated for plant %s; %s has other mechanisms, channels "
                          "or states",
                          pf_kit_get_string(kit, PF_KIT_PLANT), info->name);
}

pf_status pf_twin_matches(const pf_kit *kit, const pf_plant_info *info, pf_error *error)
{
    pf_status status = pf_machine_matches(kit, info, error);
    const char *was = pf_kit_get_string(kit, PF_KIT_SOURCE);
    if (status == PF_OK && strcmp(was, info->source) != 0) {
        status = pf_fail(error, PF_ERR_MISMATCH,
                         "the simulator has changed since calibration (it was '%s', it is '%s'); "
                         "calibrate again",
                         was, info->source);
    }
    return status;
}
