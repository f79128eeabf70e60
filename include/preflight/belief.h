// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PREFLIGHT_BELIEF_H
#define PREFLIGHT_BELIEF_H

#include "preflight/channel.h"

#ifdef __cplusplus
extern "C" {
#endif

// What the belief holds possible: at most one changed mechanism (the paper's), or each changed or
// healthy on its own (odds.h).
typedef enum pf_faults { PF_FAULTS_ONE = 0, PF_FAULTS_MANY = 1 } pf_faults;

PF_API const char *pf_faults_name(pf_faults faults); // "one" or "many"

// The location belief b over hypotheses 0..m: 0 nothing changed, i mechanism i changed. It is an
// array of m + 1 doubles that sums to 1. Nothing here knows a gain (Proposition 1).

// Before an opportunity the share `hazard` of b[0] leaks evenly to the others.
PF_API void pf_belief_hazard(int m, double *belief, double hazard);

// Multiplies b[mechanism] by ratio and normalises (Eq. stage1_location_update with the rows of
// non-target faults equal to the nominal row).
PF_API void pf_belief_multiply(int m, double *belief, int mechanism, double ratio);

// Multiplies b[i] by ratios[i] for i = 0..m and normalises; for probes with full rows.
PF_API void pf_belief_multiply_all(int m, double *belief, const double *ratios);

// P(H != 0), on which the alarm acts, as the sum of b[1..m].
PF_API double pf_belief_change(int m, const double *belief);

// rho(b) = sum_i w[i-1] b[i] (1 - b[i]), the task-weighted Bayes risk; w has m entries.
PF_API double pf_belief_risk(int m, const double *belief, const double *weight);

// Per-candidate sums that make one acquisition cost O(K) instead of O(K m). Filled once per
// opportunity by pf_risk_prepare; own and others have m entries each.
typedef struct pf_risk_terms {
    double *own;    // w_j b_j (1 - b_j)
    double *others; // sum over i != j of w_i b_i^2
} pf_risk_terms;

PF_API void pf_risk_prepare(int m, const double *belief, const double *weight,
                            pf_risk_terms *terms);

// Expected reduction of rho by one look at `mechanism` through `row` (numerator of
// Eq. stage1_acquisition).
PF_API double pf_risk_reduction(int m, const double *belief, const pf_risk_terms *terms,
                                int mechanism, const pf_channel_row *row);

// The same for n targets at once: mechanisms (n), nominal and changed (n x n_bins) as a kit holds
// them.
PF_API void pf_risk_reductions(int n, const int32_t *mechanisms, const double *belief,
                               const pf_risk_terms *terms, int n_bins, const double *nominal,
                               const double *changed, double *out);

// The same by enumerating categories and posteriors, for any channel: rows holds the m + 1 rows
// p(c | i), K each; scratch needs m + 1 doubles. The plain reference, and the rule for full rows.
PF_API double pf_risk_reduction_plain(int m, const double *belief, const double *weight, int n_bins,
                                      const double *const *rows, double *scratch);

// A value rounded to 12 decimals, so that exact ties stay ties; the lowest index wins.
PF_API double pf_tie_round(double value);

#ifdef __cplusplus
}
#endif
#endif
