// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_MUJOCO_H
#define PF_MUJOCO_H

#include "plant/plant_impl.h"

// The six MuJoCo systems of Gymnasium (v5), and any model file by its path (`mujoco:FILE`). The
// table is in every build, so that a build without the library can name them; the physics are
// MuJoCo's own, the models Gymnasium's own files.

// The most mechanisms and channels that one of them has.
#define PF_MUJOCO_MECH 17
#define PF_MUJOCO_CHAN 45

typedef struct pf_mujoco_system {
    const char *name, *title;
    const char *file;  // of the model, in Gymnasium's folder
    const char *known; // first digits of the sha256 of that file
    int nq, nv, nu;    // positions, velocities, actuators
    int skip;          // MuJoCo steps per control step
    int dropped;       // leading positions that are no channel: x, or x and y
    double dt_s;       // of a control step
    double reset_qpos; // half width of the uniform reset of the positions
    double reset_qvel; // half width, or standard deviation if normal
    bool reset_normal;
    const double *scale;      // nq - dropped + nv
    const double *reveal;     // nu - 1. Nullable: equal.
    const double *importance; // nu - 1. Nullable: 1.
} pf_mujoco_system;

int pf__mujoco_count(void);
const pf_mujoco_system *pf__mujoco_at(int index);
const pf_mujoco_system *pf__mujoco_find(const char *name); // NULL: none
int pf__mujoco_channels(const pf_mujoco_system *system);

// The version of MuJoCo ("" without), and whether the system can be made here: PF_ERR_UNSUPPORTED
// in a build without MuJoCo and where its file is not found.
const char *pf__mujoco_version(void);
pf_status pf__mujoco_present(const pf_mujoco_system *system, pf_error *error);

pf_status pf__mujoco_create(pf_plant **plant, const pf_mujoco_system *system, pf_error *error);

// FILE or FILE#KEYFRAME: MJCF, or URDF whose joints get motors.
#define PF_MUJOCO_PREFIX "mujoco:"
pf_status pf__mujoco_create_file(pf_plant **plant, const char *reference, pf_error *error);

#endif
