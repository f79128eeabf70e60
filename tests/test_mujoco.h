// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_TEST_MUJOCO_H
#define PF_TEST_MUJOCO_H

#include "gymnasium.h"
#include "plant/mujoco/mujoco.h"

enum { MUJOCO_ROWS = 40, MUJOCO_OUT = MUJOCO_ROWS * PF_MUJOCO_CHAN };

// Gymnasium's Hopper with one piece of its file replaced, as hopper.xml in that folder, which is
// made. `models`: Gymnasium's folder.
bool mujoco_variant(const char *models, const char *folder, const char *from, const char *to);

// PREFLIGHT_MODELS is that folder until mujoco_models_end gets what this returns.
char *mujoco_models_begin(const char *folder);
void mujoco_models_end(char *before);

// Saved states, threads, and failures of the simulator.
void test_mujoco_states(json_t *fixture);

// A suite whose simulator fails in some of its trials.
void test_mujoco_suite(json_t *fixture);

#endif
