// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_FIELD_KIT_H
#define PF_FIELD_KIT_H

#include "core/kit_layout.h"
#include "preflight/run.h"

// What the groups of the field's verdict share: kits of plants that come with the program,
// calibrated once per process, and checks of faulty machines with them.

typedef struct field_kit {
    void *bytes;
    size_t n;
    pf_kit kit;
} field_kit;

// The default kit of a plant, or one with settings ("key=value", NULL: none).
const field_kit *field_kit_of(const char *plant, const char *set);

// A machine and the last check of it.
typedef struct field {
    const pf_kit *kit;
    pf_plant *plant;
    pf_check *check;
    pf_session *session; // of the check, certified
    uint64_t seed;
    pf_fault faults[4];
    int n_faults;
} field;

void field_open(field *f, const char *plant, const pf_kit *kit);
void field_close(field *f);

// Takes the faults of the machine from words as after --fault, with spaces between ("" for none);
// then checks it. drive is Nullable.
void field_faults(field *f, const char *words);
pf_session *field_check(field *f, uint64_t seed, const pf_drive *drive);

// What a task really returns, flown with the corrections of the last check.
double field_fly(field *f, int task);

// Tasks of the last check that are go; that are go and return less than j_min when flown.
int field_go(const field *f);
int field_false_go(field *f);
bool field_misfit(const field *f);

#endif
