// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_MUJOCO_LOAD_H
#define PF_MUJOCO_LOAD_H

#include "mujoco.h"

#include "host/arena.h"

#include <mujoco/mjbatch.h>
#include <mujoco/mujoco.h>
#include <stdatomic.h>

// Where a channel is read.
typedef enum pf_mujoco_field { PF_MUJOCO_QPOS, PF_MUJOCO_QVEL, PF_MUJOCO_SENSOR } pf_mujoco_field;

typedef struct pf_mujoco_reading {
    pf_mujoco_field field;
    int at;
} pf_mujoco_reading;

// Whether channels are sensors: none, some that positions and velocities give, or some that need
// forces and accelerations too.
typedef enum pf_mujoco_senses {
    PF_MUJOCO_SENSES_NOTHING,
    PF_MUJOCO_SENSES_MOTION,
    PF_MUJOCO_SENSES_FORCES
} pf_mujoco_senses;

// What a plant and its clones share: the compiled model, never written after loading (each makes
// its batch from it), and the description that the runner follows. Arrays are the arena's.
typedef struct pf_mujoco_model {
    atomic_int users;
    pf_arena arena;
    mjModel *model;
    pf_plant_info info;
    pf_pulse probe, task;
    double *amplitude;              // of both. NULL: of a system of the table.
    const pf_mujoco_system *system; // of the table. NULL: a file of somebody's own.
    int first;                      // the mechanism that the first actuator is
    int skip;                       // MuJoCo steps per control step
    pf_mujoco_senses senses;
    const pf_mujoco_reading *readings; // n_chan
    double *rest;                      // n_state: a start before anything is drawn
    double *hold;                      // nu: what is commanded at rest. NULL: 0 everywhere.
    // Each mechanism in words, and after them the machine. NULL: there are none.
    const char **words;
    // Draws a start around the rest, which d is at.
    void (*draw)(const struct pf_mujoco_model *model, pf_rng *rng, mjData *d);
} pf_mujoco_model;

// Finds and compiles the model file and checks that it is the system the table describes.
pf_status pf__mujoco_load(pf_mujoco_model **model, const pf_mujoco_system *system, pf_error *error);
// What both kinds of files need. Ready: the library is the one that this was built for, and reports
// its errors. Call: one call of a function on data of the model, where an error of MuJoCo does not
// end the process.
pf_status pf__mujoco_ready(const char *name, pf_error *error);
void pf__mujoco_set_options(mjModel *model);
pf_status pf__mujoco_call(const pf_mujoco_model *m, mjfBatchFunc function, void *argument,
                          pf_error *error);
void pf__mujoco_one_line(char *text);

// Compiles FILE or FILE#KEYFRAME and makes of it what a plant is.
pf_status pf__mujoco_load_file(pf_mujoco_model **model, const char *reference, pf_error *error);

// Makes the pulses of a plant at rest stronger where a loss would drown in the suggested noise.
pf_status pf__mujoco_choose_pulses(pf_plant *plant, const double *rest, double *amplitude,
                                   pf_error *error);

// The first warning that MuJoCo has counted, in words, and what it is about; NULL: none.
const char *pf__mujoco_warning(const mjData *d, int *about);

// A batch of one simulation on the caller's thread: mjb_apply returns where MuJoCo raises an error;
// everywhere else that ends the process. NULL: reason says why.
mjBatch *pf__mujoco_batch(const mjModel *model, char *reason, size_t size);

void pf__mujoco_release(pf_mujoco_model *model); // the last user frees it

#endif
