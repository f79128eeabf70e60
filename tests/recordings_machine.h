// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_RECORDINGS_MACHINE_H
#define PF_RECORDINGS_MACHINE_H

#include "calibrate/plan.h"
#include "core/kit_layout.h"

// A machine for the tests of recordings, and files recorded on it; defined in test_recordings.c.
enum { ROWS = 6, CHAN = 2, MECH = 3, WINDOW = ROWS * CHAN };

// Two outputs, each a first-order lag of what three mechanisms deliver.
typedef struct machine {
    bool group; // one probe that moves both candidates at once, else one pulse each
    bool same;  // both candidates act in the same way
    double noise;
    double dead; // what a candidate delivers loses so much
    double top;  // and was never more than this before; 0: no limit
} machine;

extern const double recording_commands[2][ROWS][MECH];

typedef struct recording {
    machine w;
    int nominal, weak; // episodes per class
    int n_gains;
    double gains[4];
    bool no_u, by_index, crlf, by_step; // by_step: all first steps, then all second ones, ...
} recording;

// 40 episodes per class, weakened to .35, noise .1.
recording recording_usual(void);
// The CSV text, to be freed.
char *recording_text(const recording *r);

typedef struct made {
    void *bytes; // to be freed
    size_t n;
    pf_kit kit;
    pf_status status;
    pf_error error;
} made;

// A kit from a text called log.csv; from a recording, which must succeed.
made recording_kit_of_text(const pf_plan *plan, const char *csv, int threads);
made recording_kit(const pf_plan *plan, const recording *r);
// Equal in all but the names.
bool recording_kits_agree(const made *a, const made *b);

// The part of the group in test_recordings_refused.c: configurations, refusals, the CSV reader.
void test_recordings_refused(void);

#endif
