// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_MUJOCO_FILE_H
#define PF_MUJOCO_FILE_H

#include "mujoco_load.h"

#include "host/text.h"

// Between the two halves of a model file: mujoco_file.c compiles it and brings the machine to rest,
// mujoco_describe.c says in terms of a plant what it has.

enum { PF_MUJOCO_NAME = PF_NAME_MOST }; // room for a name

// A file on its way to a description.
typedef struct pf_mujoco_maker {
    pf_mujoco_model *m;
    const char *label; // "mujoco:FILE#KEY" as it was asked for
    char *path;        // of the file, absolute
    const char *key;   // NULL: none was named
    int home;          // index of the keyframe; -1: qpos0
    bool urdf;
    bool rests;    // it came to rest
    double time_s; // after so long
    int moving;    // the joint that moves most where it did not, how fast
    double speed;
    const char *unheld; // joint without a motor, for which gravity is not held. NULL: none.
    const char *warning;
    int warning_at;
    pf_error *error;
} pf_mujoco_maker;

pf_status pf__mujoco_no_memory(const pf_mujoco_maker *k);

const char *pf__mujoco_joint_name(const mjModel *m, int joint, char *room, size_t size);
const char *pf__mujoco_actuator_name(const mjModel *m, int a, char *room, size_t size);
bool pf__mujoco_has_bias(const mjModel *m, int a);
// Whether it pulls towards a length that the command sets.
bool pf__mujoco_is_servo(const mjModel *m, int a);
// Torque or force by command alone, on one hinge or slide: that joint; else -1.
int pf__mujoco_motor_joint(const mjModel *m, int a);

// Mechanisms need what is held, the rest needs both.
pf_status pf__mujoco_describe_mechanisms(const pf_mujoco_maker *k);
pf_status pf__mujoco_describe_channels(const pf_mujoco_maker *k);
void pf__mujoco_describe_rest(const pf_mujoco_maker *k);

#endif
