// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_TEST_MUJOCO_H
#define PF_TEST_MUJOCO_H

#include "gymnasium.h"
#include "plant/mujoco.h"

enum { MUJOCO_ROWS = 40, MUJOCO_OUT = MUJOCO_ROWS * PF_MUJOCO_CHAN };

// Saved states, threads, and failures of the simulator.
void test_mujoco_states(json_t *fixture);

#endif
