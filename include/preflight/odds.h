// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PREFLIGHT_ODDS_H
#define PREFLIGHT_ODDS_H

#include "preflight/belief.h"

#ifdef __cplusplus
extern "C" {
#endif

// The location belief with several faults: every mechanism is healthy or changed on its own. The
// state is the odds o_j = b_j/(1 - b_j) of each candidate, m doubles, so that neither certainty
// ever rounds to a point of no return. Nothing here knows a gain (Proposition 1).

// The odds of the prior (m + 1 probabilities of a kit, entry 0 not used).
PF_API void pf_odds_reset(int m, const double *prior, double *odds);

// Before an opportunity each healthy mechanism changes with probability hazard/m.
PF_API void pf_odds_hazard(int m, double *odds, double hazard);

// Odds after a look of likelihood ratio p(c | changed)/p(c | healthy).
PF_API double pf_odds_update(double odds, double ratio);

// P(changed) of one mechanism.
PF_API double pf_odds_probability(double odds);

// The m + 1 numbers that a session shows: belief[j] = b_j, belief[0] = prod (1 - b_j).
PF_API void pf_odds_belief(int m, const double *odds, double *belief);

// 1 - prod (1 - b_j), on which the alarm acts.
PF_API double pf_odds_change(int m, const double *odds);

// pf_risk_prepare where a look at one mechanism says nothing about the others.
PF_API void pf_odds_risk_prepare(int m, const double *belief, const double *weight,
                                 pf_risk_terms *terms);

// The ratio of one target of a probe with full rows: what its category says for its own change
// against all that could have made it while the target is healthy. nominal and changed are its
// own two likelihoods of the category; given[i], of n, the likelihood if target i alone had
// changed, probability[i] how likely that one has (entry `own` is not used).
PF_API double pf_odds_explained_ratio(double nominal, double changed, int n, int own,
                                      const double *given, size_t stride,
                                      const double *probability);

#ifdef __cplusplus
}
#endif
#endif
