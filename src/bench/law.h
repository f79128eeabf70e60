// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_LAW_H
#define PF_LAW_H

#include "preflight/base.h"

// What does not depend on a method: drawn from (seed, environment, trial) alone.
enum { PF_LAW_PERIOD = 5, PF_LAW_REVEAL_FIRST = 35, PF_LAW_REVEAL_LAST = 45, PF_LAW_TAU = 10 };
enum { PF_LAW_FAULTS = 8 }; // most mechanisms that change at once

typedef struct pf_law {
    bool nominal;
    int n_changed;                // 0 in a nominal trial
    int mechanism[PF_LAW_FAULTS]; // the changed ones, distinct
    double gain[PF_LAW_FAULTS];   // what they have left
    int tau, reveal;
} pf_law;

// What is drawn: from whom, how many at once, and their gains.
typedef struct pf_law_settings {
    int trials;   // of a seed
    double share; // of nominal trials: exactly round(share * trials)
    int candidates;
    int opportunities; // so many after a change at round 10; 0: change and reveal are drawn
    int n_faults;      // at once, or as many as there are candidates
    int n_gains;       // one: all faults have it; several: drawn, different while they last
    const double *gains;
} pf_law_settings;

// The first changed mechanism, tau and R are the same for any number of faults.
pf_law pf_law_draw(uint64_t seed, const char *environment, int trial,
                   const pf_law_settings *settings);

// Which of the changed ones a mechanism is, -1: it is healthy.
int pf_law_fault(const pf_law *law, int mechanism);

#endif
