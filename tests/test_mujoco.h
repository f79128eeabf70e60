// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_TEST_MUJOCO_H
#define PF_TEST_MUJOCO_H

#include "plant/mujoco.h"

#include <jansson.h>

enum { MUJOCO_ROWS = 40, MUJOCO_OUT = MUJOCO_ROWS * PF_MUJOCO_CHAN };

// What Gymnasium did (tests/gymnasium_fixture.py). NULL: it could not be asked.
json_t *mujoco_fixture(void);

// A plant that must be there; the test's error text says which versions are compared.
pf_plant *mujoco_plant(const char *name);
void mujoco_roll_checked(pf_plant *plant, const pf_roll *roll, const pf_trace *trace);

// Saved states, threads, and failures of the simulator.
void test_mujoco_states(json_t *fixture);

#endif
