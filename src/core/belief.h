// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_BELIEF_H
#define PF_BELIEF_H

#include "preflight/kit.h"

// --- the quantised channel

// The quantised channel of one target of one probe: edges between the K categories, and the
// probability of each category when nothing changed and when this target changed.
typedef struct pf_channel_row {
    int n_bins;            // K
    const double *edges;   // K - 1, not decreasing
    const double *nominal; // K, p_q(c | 0)
    const double *changed; // K, p_q(c | j)
} pf_channel_row;

// The category of a score: the number of edges strictly below it, 0..K-1.
int pf__channel_category(const pf_channel_row *row, double score);

// p_q(c | j)/p_q(c | 0).
double pf__channel_ratio(const pf_channel_row *row, int category);

// The evidence gate (Eq. evidence_gate): open where the category speaks for the change.
bool pf__gate_open(const pf_channel_row *row, int category);

// --- one fault

// The location belief b over hypotheses 0..m: 0 nothing changed, i mechanism i changed. It is an
// array of m + 1 doubles that sums to 1. Nothing here knows a gain (Proposition 1).

// Before an opportunity the share `hazard` of b[0] leaks evenly to the others.
void pf__belief_hazard(int m, double *belief, double hazard);

// Multiplies b[mechanism] by ratio and normalises (Eq. stage1_location_update with the rows of
// non-target faults equal to the nominal row).
void pf__belief_multiply(int m, double *belief, int mechanism, double ratio);

// Multiplies b[i] by ratios[i] for i = 0..m and normalises; for probes with full rows.
void pf__belief_multiply_all(int m, double *belief, const double *ratios);

// P(H != 0), on which the alarm acts, as the sum of b[1..m].
double pf__belief_change(int m, const double *belief);

// rho(b) = sum_i w[i-1] b[i] (1 - b[i]), the task-weighted Bayes risk; w has m entries.
double pf__belief_risk(int m, const double *belief, const double *weight);

// Per-candidate sums that make one acquisition cost O(K) instead of O(K m). Filled once per
// opportunity by pf__risk_prepare; own and others have m entries each.
typedef struct pf_risk_terms {
    double *own;    // w_j b_j (1 - b_j)
    double *others; // sum over i != j of w_i b_i^2
} pf_risk_terms;

void pf__risk_prepare(int m, const double *belief, const double *weight, pf_risk_terms *terms);

// Expected reduction of rho by one look at `mechanism` through `row` (numerator of
// Eq. stage1_acquisition).
double pf__risk_reduction(int m, const double *belief, const pf_risk_terms *terms, int mechanism,
                          const pf_channel_row *row);

// The same for n targets at once: mechanisms (n), nominal and changed (n x n_bins) as a kit holds
// them.
void pf__risk_reductions(int n, const int32_t *mechanisms, const double *belief,
                         const pf_risk_terms *terms, int n_bins, const double *nominal,
                         const double *changed, double *out);

// The same by enumerating categories and posteriors, for any channel: rows holds the m + 1 rows
// p(c | i), K each; scratch needs m + 1 doubles. The plain reference, and the rule for full rows.
double pf__risk_reduction_plain(int m, const double *belief, const double *weight, int n_bins,
                                const double *const *rows, double *scratch);

// A value rounded to 12 decimals, so that exact ties stay ties; the lowest index wins.
double pf__tie_round(double value);

// --- several faults

// The location belief with several faults: every mechanism is healthy or changed on its own. The
// state is the odds o_j = b_j/(1 - b_j) of each candidate, m doubles, so that neither certainty
// ever rounds to a point of no return. Nothing here knows a gain (Proposition 1).

// The odds of the prior (m + 1 probabilities of a kit, entry 0 not used).
void pf__odds_reset(int m, const double *prior, double *odds);

// Before an opportunity each healthy mechanism changes with probability hazard/m.
void pf__odds_hazard(int m, double *odds, double hazard);

// Odds after a look of likelihood ratio p(c | changed)/p(c | healthy).
double pf__odds_update(double odds, double ratio);

// P(changed) of one mechanism.
double pf__odds_probability(double odds);

// The m + 1 numbers that a session shows: belief[j] = b_j, belief[0] = prod (1 - b_j).
void pf__odds_belief(int m, const double *odds, double *belief);

// 1 - prod (1 - b_j), on which the alarm acts.
double pf__odds_change(int m, const double *odds);

// pf__risk_prepare where a look at one mechanism says nothing about the others.
void pf__odds_risk_prepare(int m, const double *belief, const double *weight, pf_risk_terms *terms);

// The ratio of one target of a probe with full rows: what its category says for its own change
// against all that could have made it while the target is healthy. nominal and changed are its
// own two likelihoods of the category; given[i], of n, the likelihood if target i alone had
// changed, probability[i] how likely that one has (entry `own` is not used).
double pf__odds_explained_ratio(double nominal, double changed, int n, int own, const double *given,
                                size_t stride, const double *probability);

const char *pf__faults_name(pf_faults faults); // "one" or "many"

#endif
