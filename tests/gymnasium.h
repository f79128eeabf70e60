// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_TEST_GYMNASIUM_H
#define PF_TEST_GYMNASIUM_H

#include "preflight/plant.h"

#include <jansson.h>

// What Gymnasium did, by a script of tests/. NULL: it could not be asked.
json_t *gymnasium_fixture(const char *script);
const json_t *gymnasium_system(const json_t *fixture, const char *name);
void gymnasium_numbers(const json_t *list, double *to);

// A plant that must be there, and a roll that must succeed.
pf_plant *plant_checked(const char *name);
void roll_checked(pf_plant *plant, const pf_roll *roll, const pf_trace *trace);

#endif
