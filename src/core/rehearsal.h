// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_REHEARSAL_H
#define PF_REHEARSAL_H

#include "kit_layout.h"
#include "preflight/session.h"

// Rehearsal: before go, the machine runs the corrected command of a task itself, and the response
// is compared with what the healthy machine would do under the uncorrected one. It is the only look
// at the amplitude, sign and shape that the task will have.

// What a rehearsal is judged by.
typedef struct pf__rehearsal_rule {
    double mean, sd, clean; // of the distance D of healthy runs, and its 99 % point
    double energy;          // what the task moves, the least of its starts and this one
    double limit;           // largest excess of D that still returns j_min
    double cv;              // how differently members miss there
    int n;                  // numbers that D is the sum of
    int runs;               // that D is the mean of
} pf__rehearsal_rule;

// Distance D of two runs of rehearsal `which` (a task, or n_tasks + a group) as far as it looks:
// without what lies in its blind directions. work: rows x channels.
double pf__rehearsal_distance(const pf_kit *kit, int which, const double *a, const double *b,
                              double *work);

// Takes one unit vector out of a difference of n numbers. One after the other for several: then no
// set of vectors, orthogonal or not, can make it longer.
void pf__blind_remove(int n, const double *unit, double *difference);

// Numbers that D is the sum of.
int pf__rehearsal_numbers(const pf_kit *kit, int which);

// The rule of a kit's rehearsal numbers (PF_REHEARSAL_NUMBERS of them) for D of n numbers.
pf__rehearsal_rule pf__rehearsal_rule_of(const pf_kit *kit, const double *numbers, double energy,
                                         int n);

// The share nearest to 1 on one side at which a use alone returns j_min. Where members miss there
// more differently than *cv, *cv becomes that spread over its mean.
double pf__use_edge(const pf_kit *kit, int use, bool above, double *cv);

// How many runs of a task must be averaged so that a healthy one passes: more than one where the
// noise is as large as what the task may miss.
int pf__rehearsal_runs(const pf_kit *kit, const double *numbers, int n);

// Rehearsals that a session of the kit may need: every group, and each task alone.
int pf__rehearsal_budget(const pf_kit *kit);

// Spread of the excess x of D beyond its healthy mean.
double pf__rehearsal_spread(const pf__rehearsal_rule *rule, double x);

// Whether the distance D lets the task pass; whether it is one of a healthy machine.
bool pf__rehearsal_passes(const pf__rehearsal_rule *rule, double d);
bool pf__rehearsal_clean(const pf__rehearsal_rule *rule, double d);

// The return that the distance supports.
double pf__rehearsal_bound(const pf__rehearsal_rule *rule, double d);

// What is known of a task so far.
typedef enum pf__rehearsal_state {
    PF__REHEARSAL_DUE = 0,   // in its group first
    PF__REHEARSAL_ALONE,     // due, but not in a group
    PF__REHEARSAL_PASSED,    // as often as the rules ask for
    PF__REHEARSAL_FAILED,    //
    PF__REHEARSAL_IMPOSSIBLE // outside the limits, over budget, given up, or nothing to compare
} pf__rehearsal_state;

typedef struct pf__rehearsal {
    pf__rehearsal_state state;
    int runs;      // that count so far
    double sum;    // of their D, of runs alone
    double energy; // the least of theirs
    bool apart;    // the last run was of this task alone
    bool failed;   // a run of its group did not come out well
    double bound;  // the return that its runs support; 1 before the first
} pf__rehearsal;

#endif
