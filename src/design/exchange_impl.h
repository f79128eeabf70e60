// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_EXCHANGE_IMPL_H
#define PF_EXCHANGE_IMPL_H

#include "design_impl.h"

// What exchange.c keeps of a group and exchange_moves.c changes in it.

enum { GRAM, NOISE, MATRICES };

// Cost of a group that cannot be told at all; above it, of one that moves an output too far.
#define HOPELESS 1e300
#define TOO_FAR 1e301

// Columns that a change takes away from or adds to a mechanism's signature.
typedef struct change {
    int who; // in the group
    int n;
    int column[2 * PF_DESIGN_STEPS];
    double weight[2 * PF_DESIGN_STEPS];
    int level[PF_DESIGN_STEPS]; // all levels of the mechanism after it
} change;

struct pf_exchange {
    const pf_sensitivity *s;
    pf_arena arena;
    int most;
    double move_most;         // of a bounded output, over what is allowed
    int n;                    // mechanisms in the group
    int *who;                 // their indices
    int *levels;              // n x steps
    double *with[MATRICES];   // n_starts x n_columns x n: each column against each signature
    double *matrix[MATRICES]; // n_starts x n x n
    double *trial[MATRICES];  // n x n
    double *work;             // of pf__exchange_variance
    double *variance;         // n
    double *move;             // n_starts x n_moves
    double *before;           // the same while a change is only tried
    double cost;              // TOO_FAR and more: an output moves too far
    change *next;
};

// A group at rest.
void pf__exchange_clear(pf_exchange *x, int n, const int *group);
// The change from the present levels of a mechanism to others.
void pf__exchange_make_change(const pf_exchange *x, int who, const int *level, change *c);
// The same for one level of one step, `level` of it left out: enough for the bounded outputs.
void pf__exchange_make_step(const pf_exchange *x, int who, int step, int level, change *c);
// Moves the bounded outputs by a change, and nothing else.
void pf__exchange_shift(pf_exchange *x, const change *c);
// How far a change (Nullable: none) leaves the bounded outputs beyond what is allowed: the sum of
// the squares of what is too much, 0 where nothing is. Stops counting at `most`.
double pf__exchange_excess(const pf_exchange *x, const change *c, double most);
// The cost after a change; no less than `limit` where it is not below it.
double pf__exchange_change_cost(pf_exchange *x, const change *c, double limit);
void pf__exchange_accept(pf_exchange *x, const change *c);

#endif
