// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_JOINT_H
#define PF_JOINT_H

#include "preflight/session.h"

// --- severity

// The severity phi_j(g): a distribution over the gain grid given that mechanism j changed. It is
// written by gated coordinates only and never read by stage 1.

// Uniform on the grid.
void pf__severity_reset(int n_grid, double *severity);

// Where z is expected at each grid gain when nothing better is known: (1 - g)/(1 - g_cal).
double pf__severity_line(double gain, double g_cal);

// One admitted coordinate (Eq. gated_gain_update). expected has n_grid entries (the line or a
// calibrated curve), sigma > 0. Computed by subtracting the largest exponent, so it never
// underflows to nothing.
void pf__severity_update(int n_grid, double *severity, const double *expected, double z,
                         double sigma);

// --- the joint belief

// The boundary (Eq. recovery_initialization, transported_initialization): belief (m + 1) times
// severity (m x n_grid).
void pf__joint_transport(pf_joint *joint, const double *belief, const double *severity);

// The same with the broad prior in place of the transported severity (the baselines).
void pf__joint_broad(pf_joint *joint, const double *belief);

// Mean square of a scaled difference of response and prediction (Eq.
// appendix_recovery_discrepancy).
double pf__discrepancy(int n, const double *difference);

// T = max(relative * std, 1e-12), the population std of d_nominal and all n discrepancies.
double pf__temperature(double d_nominal, int n, const double *d, double relative);

// One recovery response (Eq. stage2_gain_likelihood, appendix_normalized_recovery_update) of a
// probe with the given targets: d is n_targets x n_grid; hypotheses of other mechanisms predict the
// nominal response.
void pf__joint_update(pf_joint *joint, int n_targets, const int *targets, double d_nominal,
                      const double *d, double temperature);

// The same with PF_FAULTS_MANY, each target by itself: d is n_targets x (1 + n_grid), first the
// discrepancy with the target healthy, then at each grid gain, the others at their mean gain.
void pf__joint_update_each(pf_joint *joint, int n_targets, const int *targets, const double *d,
                           double temperature);

// Whether every probability is one: with one fault they sum to 1, with several each row is below.
bool pf__joint_proper(const pf_joint *joint);

// E[G_i] if i changed; 1 where that is certain not to be.
double pf__joint_mean_if_changed(const pf_joint *joint, int mechanism);

// Whether a mechanism is rather changed than not, and then delivers more than its command.
bool pf__too_strong(double changed, const double interval[2]);

// Whether [lo, hi] holds the truth, ends included (slack 1e-9).
bool pf__interval_covers(double lo, double hi, double truth);

// Continuous ranked probability score of the marginal of G_i (grid and 1) against the truth.
double pf__joint_crps(const pf_joint *joint, int mechanism, double truth);

// --- recovery and correction

// Residual risk of a mechanism after its best scalar correction, 1 - E[G]^2/E[G^2].
double pf__residual_risk(const pf_moments *moments);

// The numerator of Eq. stage2_acquisition summed over a probe's targets; weight has m entries.
double pf__recovery_value(const pf_joint *joint, const double *weight, int n_targets,
                          const int *targets);

// c = E[G]/E[G^2] (Eq. bayes_gain_correction).
double pf__correction(const pf_moments *moments);

// The command that is really sent: c*u, clipped to the limits; nothing where nothing is asked for.
double pf__corrected_command(double command, double correction, double lo, double hi);

#endif
