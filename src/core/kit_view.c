// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "kit_impl.h"

#include <string.h>

static const char *string_at(const pf_kit *kit, int index)
{
    return kit->text + kit->name[index];
}

const char *pf_kit_get_string(const pf_kit *kit, pf_kit_string which)
{
    return string_at(kit, (int)which);
}

const char *pf_kit_mechanism_name(const pf_kit *kit, int mechanism)
{
    return string_at(kit, PF_KIT_STRINGS + mechanism);
}

const char *pf_kit_channel_name(const pf_kit *kit, int channel)
{
    return string_at(kit, PF_KIT_STRINGS + kit->n_mech + channel);
}

const char *pf_kit_probe_name(const pf_kit *kit, int probe)
{
    return string_at(kit, PF_KIT_STRINGS + kit->n_mech + kit->n_chan + probe);
}

const char *pf_kit_task_name(const pf_kit *kit, int task)
{
    return string_at(kit, PF_KIT_STRINGS + kit->n_mech + kit->n_chan + kit->n_probes + task);
}

const char *pf_kit_task_policy(const pf_kit *kit, int task)
{
    return string_at(kit, PF_KIT_STRINGS + kit->n_mech + kit->n_chan + kit->n_probes +
                              kit->n_tasks + task);
}

const char *pf_kit_method_id(const pf_kit *kit, int method)
{
    return string_at(kit, PF_KIT_STRINGS + kit->n_mech + kit->n_chan + kit->n_probes +
                              2 * kit->n_tasks + method);
}

bool pf_kit_starts_from_channels(const pf_kit *kit)
{
    return strcmp(pf_kit_get_string(kit, PF_KIT_PREDICTOR), "ensemble") == 0;
}

int pf_kit_probe_rows(const pf_kit *kit, int probe)
{
    return kit->probe_row[probe + 1] - kit->probe_row[probe];
}

int pf_kit_task_rows(const pf_kit *kit, int task)
{
    return kit->task_row[task + 1] - kit->task_row[task];
}

int pf_kit_most_rows(const pf_kit *kit)
{
    int most = 0;
    for (int q = 0; q < kit->n_probes; q++) {
        int rows = pf_kit_probe_rows(kit, q);
        most = rows > most ? rows : most;
    }
    return most;
}

int pf_kit_probe_targets(const pf_kit *kit, int probe, const int32_t **mechanisms)
{
    if (mechanisms) {
        *mechanisms = kit->target_mech + kit->probe_target[probe];
    }
    return kit->probe_target[probe + 1] - kit->probe_target[probe];
}

int pf_kit_most_targets(const pf_kit *kit)
{
    int most = 0;
    for (int q = 0; q < kit->n_probes; q++) {
        int n = pf_kit_probe_targets(kit, q, NULL);
        most = n > most ? n : most;
    }
    return most;
}

pf_channel_row pf_kit_channel(const pf_kit *kit, int target)
{
    size_t row = (size_t)target * (size_t)kit->n_bins;
    return (pf_channel_row){kit->n_bins, kit->edges + (size_t)target * (size_t)(kit->n_bins - 1),
                            kit->nominal + row, kit->changed + row};
}

const double *pf_kit_whiten(const pf_kit *kit, int probe)
{
    int64_t at = 0;
    if (kit->n_whiten == 0) {
        return NULL;
    }
    for (int q = 0; q < probe; q++) {
        at += pf__whiten_size(pf_kit_probe_rows(kit, q) * kit->n_chan);
    }
    return kit->whiten + at;
}
