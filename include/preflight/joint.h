// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PREFLIGHT_JOINT_H
#define PREFLIGHT_JOINT_H

#include "preflight/belief.h"

#ifdef __cplusplus
extern "C" {
#endif

// The joint belief b2 over (location, gain): the only state that recovery, correction, predicted
// return and certificate read (invariant 3).
typedef struct pf_joint {
    int m;
    int n_grid;
    const double *grid; // n_grid gains
    double nominal;     // mass of H = 0
    double *mass;       // m x n_grid; mass[(i-1)*n_grid + k] of (H = i, g = grid[k])
    // With PF_FAULTS_MANY the rows are independent: mass[..] is the probability that i changed and
    // has that gain, whatever the others have, and nominal the product of "did not change".
    pf_faults faults;
} pf_joint;

// Moments of G_i under the joint belief, with G_i = 1 where i did not change.
typedef struct pf_moments {
    double changed;     // P(i changed)
    double mean;        // E[G_i]
    double mean_square; // E[G_i^2]
} pf_moments;

// The boundary (Eq. recovery_initialization, transported_initialization): belief (m + 1) times
// severity (m x n_grid).
PF_API void pf_joint_transport(pf_joint *joint, const double *belief, const double *severity);

// The same with the broad prior in place of the transported severity (the baselines).
PF_API void pf_joint_broad(pf_joint *joint, const double *belief);

PF_API pf_moments pf_joint_moments(const pf_joint *joint, int mechanism);

// Mean square of a scaled difference of response and prediction (Eq.
// appendix_recovery_discrepancy).
PF_API double pf_discrepancy(int n, const double *difference);

// T = max(relative * std, 1e-12), the population std of d_nominal and all n discrepancies.
PF_API double pf_temperature(double d_nominal, int n, const double *d, double relative);

// One recovery response (Eq. stage2_gain_likelihood, appendix_normalized_recovery_update) of a
// probe with the given targets: d is n_targets x n_grid; hypotheses of other mechanisms predict the
// nominal response.
PF_API void pf_joint_update(pf_joint *joint, int n_targets, const int *targets, double d_nominal,
                            const double *d, double temperature);

// The same with PF_FAULTS_MANY, each target by itself: d is n_targets x (1 + n_grid), first the
// discrepancy with the target healthy, then at each grid gain, the others at their mean gain.
PF_API void pf_joint_update_each(pf_joint *joint, int n_targets, const int *targets,
                                 const double *d, double temperature);

// Central 90 % interval of G_i on the grid and 1: the lowest values whose cumulative mass reaches
// .05 and .95 (slack 1e-12).
PF_API void pf_joint_interval(const pf_joint *joint, int mechanism, double *lo, double *hi);

// Whether [lo, hi] holds the truth, ends included (slack 1e-9).
PF_API bool pf_interval_covers(double lo, double hi, double truth);

// Continuous ranked probability score of the marginal of G_i (grid and 1) against the truth.
PF_API double pf_joint_crps(const pf_joint *joint, int mechanism, double truth);

#ifdef __cplusplus
}
#endif
#endif
