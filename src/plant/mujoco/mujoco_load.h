// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_MUJOCO_LOAD_H
#define PF_MUJOCO_LOAD_H

#include "mujoco.h"

#include <mujoco/mujoco.h>
#include <stdatomic.h>

// What a plant and its clones share: the compiled model, never written after loading (each makes
// its batch from it), and the description that points into this object.
typedef struct pf_mujoco_model {
    atomic_int users;
    const pf_mujoco_system *system;
    mjModel *model;
    pf_plant_info info;
    char source[128];
    char names[PF_MUJOCO_MECH + PF_MUJOCO_CHAN][PF_MUJOCO_NAME];
    pf_mechanism mechanisms[PF_MUJOCO_MECH];
    pf_channel channels[PF_MUJOCO_CHAN];
    pf_channel_kind kinds[PF_MUJOCO_CHAN];
    double probe_amplitude[PF_MUJOCO_MECH], task_amplitude[PF_MUJOCO_MECH];
    pf_pulse probe, task;
} pf_mujoco_model;

// Finds and compiles the model file and checks that it is the system the table describes.
pf_status pf__mujoco_load(pf_mujoco_model **model, const pf_mujoco_system *system, pf_error *error);
void pf__mujoco_release(pf_mujoco_model *model); // the last user frees it

#endif
