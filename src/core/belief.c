// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "belief.h"

#include "constants.h"

#include <math.h>

// --- the quantised channel

int pf__channel_category(const pf_channel_row *row, double score)
{
    int category = 0;
    while (category < row->n_bins - 1 && row->edges[category] < score) {
        category++;
    }
    return category;
}

double pf__channel_ratio(const pf_channel_row *row, int category)
{
    return row->changed[category] / row->nominal[category];
}

bool pf__gate_open(const pf_channel_row *row, int category)
{
    return row->changed[category] > row->nominal[category];
}

// --- one fault

const char *pf__faults_name(pf_faults faults)
{
    return faults == PF_FAULTS_MANY ? "many" : "one";
}

static void normalise(int n, double *p)
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        sum += p[i];
    }
    for (int i = 0; i < n; i++) {
        p[i] /= sum;
    }
}

void pf__belief_hazard(int m, double *belief, double hazard)
{
    double leak = hazard * belief[0];
    belief[0] -= leak;
    for (int i = 1; i <= m; i++) {
        belief[i] += leak / m;
    }
}

void pf__belief_multiply(int m, double *belief, int mechanism, double ratio)
{
    belief[mechanism] *= ratio;
    normalise(m + 1, belief);
}

void pf__belief_multiply_all(int m, double *belief, const double *ratios)
{
    for (int i = 0; i <= m; i++) {
        belief[i] *= ratios[i];
    }
    normalise(m + 1, belief);
}

double pf__belief_change(int m, const double *belief)
{
    double change = 0;
    for (int i = 1; i <= m; i++) {
        change += belief[i];
    }
    return change;
}

double pf__belief_risk(int m, const double *belief, const double *weight)
{
    double risk = 0;
    for (int i = 1; i <= m; i++) {
        risk += weight[i - 1] * belief[i] * (1 - belief[i]);
    }
    return risk;
}

void pf__risk_prepare(int m, const double *belief, const double *weight, pf_risk_terms *terms)
{
    // sums over the others from the left and from the right: no cancellation when one b is near 1
    double left = 0;
    for (int j = 0; j < m; j++) {
        double b = belief[j + 1];
        terms->own[j] = weight[j] * b * (1 - b);
        terms->others[j] = left;
        left += weight[j] * b * b;
    }
    double right = 0;
    for (int j = m - 1; j >= 0; j--) {
        terms->others[j] += right;
        right += weight[j] * belief[j + 1] * belief[j + 1];
    }
}

// With p0, p1 the two rows and Z_c = p0 (1 - b_j) + p1 b_j, the expected risk after the look is
// sum_{i != j} w_i b_i (1 - b_i) + sum_c p0/Z_c [(p1 - p0) b_j sum_{i != j} w_i b_i^2
//                                                + p1 w_j b_j (1 - b_j)];
// the first sum cancels against rho(b), so only category terms remain.
static inline double reduction(double b, double own, double others, int n_bins,
                               const double *nominal, const double *changed)
{
    double after = 0;
    others *= b;
    for (int c = 0; c < n_bins; c++) {
        double p0 = nominal[c], p1 = changed[c];
        double total = p0 * (1 - b) + p1 * b;
        after += p0 * ((p1 - p0) * others + p1 * own) / total;
    }
    return own - after;
}

double pf__risk_reduction(int m, const double *belief, const pf_risk_terms *terms, int mechanism,
                          const pf_channel_row *row)
{
    (void)m;
    return reduction(belief[mechanism], terms->own[mechanism - 1], terms->others[mechanism - 1],
                     row->n_bins, row->nominal, row->changed);
}

void pf__risk_reductions(int n, const int32_t *mechanisms, const double *belief,
                         const pf_risk_terms *terms, int n_bins, const double *nominal,
                         const double *changed, double *out)
{
    for (int t = 0; t < n; t++) {
        int j = mechanisms[t];
        size_t row = (size_t)t * (size_t)n_bins;
        out[t] = reduction(belief[j], terms->own[j - 1], terms->others[j - 1], n_bins,
                           nominal + row, changed + row);
    }
}

double pf__risk_reduction_plain(int m, const double *belief, const double *weight, int n_bins,
                                const double *const *rows, double *scratch)
{
    double after = 0;
    for (int c = 0; c < n_bins; c++) {
        double total = 0;
        for (int i = 0; i <= m; i++) {
            scratch[i] = rows[i][c] * belief[i];
            total += scratch[i];
        }
        for (int i = 0; i <= m; i++) {
            scratch[i] /= total;
        }
        after += total * pf__belief_risk(m, scratch, weight);
    }
    return pf__belief_risk(m, belief, weight) - after;
}

double pf__tie_round(double value)
{
    return fabs(value) < PF_TIE_LARGEST ? round(value * PF_TIE_UNITS) / PF_TIE_UNITS : value;
}

// --- several faults

static double capped(double odds)
{
    return odds < PF_ODDS_MAX ? odds : PF_ODDS_MAX;
}

void pf__odds_reset(int m, const double *prior, double *odds)
{
    for (int j = 0; j < m; j++) {
        odds[j] = capped(prior[j + 1] / (1 - prior[j + 1]));
    }
}

void pf__odds_hazard(int m, double *odds, double hazard)
{
    // b + r (1 - b) against (1 - b)(1 - r)
    double rate = hazard / m;
    for (int j = 0; j < m; j++) {
        odds[j] = capped((odds[j] + rate) / (1 - rate));
    }
}

double pf__odds_update(double odds, double ratio)
{
    return capped(odds * ratio);
}

double pf__odds_probability(double odds)
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

void pf__odds_belief(int m, const double *odds, double *belief)
{
    belief[0] = exp(log_healthy(m, odds));
    for (int j = 0; j < m; j++) {
        belief[j + 1] = pf__odds_probability(odds[j]);
    }
}

double pf__odds_change(int m, const double *odds)
{
    return -expm1(log_healthy(m, odds));
}

void pf__odds_risk_prepare(int m, const double *belief, const double *weight, pf_risk_terms *terms)
{
    for (int j = 0; j < m; j++) {
        terms->own[j] = weight[j] * belief[j + 1] * (1 - belief[j + 1]);
        terms->others[j] = 0;
    }
}

double pf__odds_explained_ratio(double nominal, double changed, int n, int own, const double *given,
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
