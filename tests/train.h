// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_TEST_TRAIN_H
#define PF_TEST_TRAIN_H

#include "preflight/train.h"

// A file of that name in this run's scratch folder.
void train_path(char path[256], const char *name);

// The quick profile with fewer epochs.
pf_train_settings train_settings(int epochs);

// Transitions of a plant by these settings; must succeed.
pf_transitions *train_data(const char *plant, const pf_train_settings *s, const char *path);

bool train_same_bytes(const char *one, const char *other);
bool train_exists(const char *path);

// The learned model against others that predict, on episodes it has not seen; pf_assess.
// most: rms error of the open loop over that of least squares.
void check_train_good(const char *plant, double most);

// A constant channel of a plant of our own.
void check_train_constant(void);

// Settings that are refused, and the program's refusals.
void check_train_refused(void);

#endif
