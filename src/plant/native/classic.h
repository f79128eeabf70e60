// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_CLASSIC_H
#define PF_CLASSIC_H

#include "native.h"

// What Gymnasium's three classic-control systems share: one signed input as two directional
// mechanisms (1 pushes up, 2 down; there is no current one), pulses and tasks, mirrored starts.

#define PF_CLASSIC_PI 3.141592653589793

extern const int pf__classic_both[2];    // mechanisms of a policy: both directions
extern const pf_pulse pf__classic_probe; // hold of a quarter for 8 steps; passive: no push
extern const pf_pulse pf__classic_task;  // the same for 12 steps

double pf__classic_sign(double value); // -1, 0, 1

// Python's value**2: libm's pow, which is not always the rounded product. A compiler may not put
// the product in its place.
double pf__classic_square(double value);

// A signed push, a share of the limit, as commands of the two directions.
void pf__classic_push(double share, double *u);

// Negates a start whose first nominal push is in the other direction than the task's; reset laws
// are symmetric, so it stays a native start.
void pf__classic_mirror(int policy, double push, int n_state, double *x);

#endif
