// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "preflight/odds.h"

#include <math.h>

// Beyond this, odds stay where they are: far from any decision and finite.
#define ODDS_MAX 1e300

static double capped(double odds)
{
    return odds < ODDS_MAX ? odds : ODDS_MAX;
}

void pf_odds_reset(int m, const double *prior, double *odds)
{
    for (int j = 0; j < m; j++) {
        odds[j] = capped(prior[j + 1] / (1 - prior[j + 1]));
    }
}

void pf_odds_hazard(int m, double *odds, double hazard)
{
    // b + r (1 - b) against (1 - b)(1 - r)
    double rate = hazard / m;
    for (int j = 0; j < m; j++) {
        odds[j] = capped((odds[j] + rate) / (1 - rate));
    }
}

double pf_odds_update(double odds, double ratio)
{
    return capped(odds * ratio);
}

double pf_odds_probability(double odds)
{
    return odds / (1 + odds);
}

// log prod (1 - b_j)
static double log_healthy(int m, const double *odds)
{
    double sum = 0;
    for (int j = 0; j < m; j++) {
        sum -= log1p(odds[j]);
    }
    return sum;
}

void pf_odds_belief(int m, const double *odds, double *belief)
{
    belief[0] = exp(log_healthy(m, odds));
    for (int j = 0; j < m; j++) {
        belief[j + 1] = pf_odds_probability(odds[j]);
    }
}

double pf_odds_change(int m, const double *odds)
{
    return -expm1(log_healthy(m, odds));
}

void pf_odds_risk_prepare(int m, const double *belief, const double *weight, pf_risk_terms *terms)
{
    for (int j = 0; j < m; j++) {
        terms->own[j] = weight[j] * belief[j + 1] * (1 - belief[j + 1]);
        terms->others[j] = 0;
    }
}

double pf_odds_explained_ratio(double nominal, double changed, int n, int own, const double *given,
                               size_t stride, const double *probability)
{
    double none = 1, total = 0, mixed = 0;
    for (int i = 0; i < n; i++) {
        if (i != own) {
            none *= 1 - probability[i];
            total += probability[i];
            mixed += probability[i] * given[(size_t)i * stride];
        }
    }
    double healthy = total > 0 ? none * nominal + (1 - none) * mixed / total : nominal;
    return changed / healthy;
}
