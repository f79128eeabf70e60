// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_TEST_TRANSITIONS_H
#define PF_TEST_TRANSITIONS_H

#include "preflight/train.h"

// A plant "own" with five mechanisms (wide, free, narrow, late, one-sided: all sorts of limits) and
// six channels (an angle, a quaternion, a counter).
pf_plant_class transitions_class(void);

// Settings of data; nothing of the training is set.
pf_train_settings transitions_settings(int transitions, int steps);

pf_status transitions_make(const pf_plant_class *c, const pf_train_settings *s, const char *path,
                           int threads, pf_error *error);

// A file that must open.
pf_transitions *transitions_open(const char *path);

// The file itself: damage, what fits it, and `data show`.
void check_transitions_file(const char *folder);

#endif
