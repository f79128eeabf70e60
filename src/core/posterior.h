// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_POSTERIOR_H
#define PF_POSTERIOR_H

#include "kit_layout.h"
#include "preflight/session.h"

// The joint posterior of a field kit: which mechanism changed and what gain it has, from the
// coordinates of every plausible look. Calibration stored where the coordinates of a probe lie when
// nothing changed and when a target has the gain of a knot; between the knots both mean and
// variance are linear in the gain.

// Gains of the posterior: 0, .025, ..., 1.5 without 1.
enum { PF_POSTERIOR_GAINS = 60 };
extern const double pf__posterior_gains[PF_POSTERIOR_GAINS];

// How probable each gain is if a mechanism changed: sums to 1.
void pf__posterior_prior(double *weight);

// Where each gain of the posterior lies among the knots of a kit and 1: value = from + share * (to
// - from), where `from` and `to` count the knots and -1 is the nominal look. Beyond the last knot
// on either side means go on in a straight line (share outside 0..1) and variances stay.
typedef struct pf__between {
    int from, to;
    double share, variance_share;
} pf__between;
void pf__posterior_between(const pf_kit *kit, pf__between *between);

// What one look says about its targets: for every hypothesis a log likelihood up to a constant and
// the squared distance Q in standard deviations. The arrays are the caller's.
typedef struct pf__look {
    int probe, n_targets;
    const int32_t *targets;
    const double *z; // n_targets coordinates; NaN: this one says nothing
    int n_z;         // how many say something
    int *said;       // which: n_targets
    // nothing changed: one number, with several faults one per target (of its own coordinate alone)
    double *log_healthy, *q_healthy;
    double *log_gain, *q_gain; // n_targets x PF_POSTERIOR_GAINS
} pf__look;

void pf__look_weigh(pf__look *look, const pf_kit *kit, const pf__between *between);

// The target of a look that is this mechanism; -1: it is none, or says nothing by itself with
// several faults.
int pf__look_target(const pf__look *look, const pf_kit *kit, int mechanism);

// The hypothesis of least Q: its target and gain; target -1: nothing changed. With several faults
// of one target by itself: gain -1: not changed.
int pf__look_nearest(const pf__look *look, int *gain);
int pf__look_nearest_gain(const pf__look *look, int target);

// A fresh posterior, and what a look makes of it.
void pf__posterior_reset(pf_joint *joint, const double *prior);
void pf__posterior_update(pf_joint *joint, const pf__look *look, const pf_kit *kit);

#endif
