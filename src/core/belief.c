// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "preflight/belief.h"

#include <math.h>

const char *pf_faults_name(pf_faults faults)
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

void pf_belief_hazard(int m, double *belief, double hazard)
{
    double leak = hazard * belief[0];
    belief[0] -= leak;
    for (int i = 1; i <= m; i++) {
        belief[i] += leak / m;
    }
}

void pf_belief_multiply(int m, double *belief, int mechanism, double ratio)
{
    belief[mechanism] *= ratio;
    normalise(m + 1, belief);
}

void pf_belief_multiply_all(int m, double *belief, const double *ratios)
{
    for (int i = 0; i <= m; i++) {
        belief[i] *= ratios[i];
    }
    normalise(m + 1, belief);
}

double pf_belief_change(int m, const double *belief)
{
    double change = 0;
    for (int i = 1; i <= m; i++) {
        change += belief[i];
    }
    return change;
}

double pf_belief_risk(int m, const double *belief, const double *weight)
{
    double risk = 0;
    for (int i = 1; i <= m; i++) {
        risk += weight[i - 1] * belief[i] * (1 - belief[i]);
    }
    return risk;
}

void pf_risk_prepare(int m, const double *belief, const double *weight, pf_risk_terms *terms)
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

double pf_risk_reduction(int m, const double *belief, const pf_risk_terms *terms, int mechanism,
                         const pf_channel_row *row)
{
    (void)m;
    return reduction(belief[mechanism], terms->own[mechanism - 1], terms->others[mechanism - 1],
                     row->n_bins, row->nominal, row->changed);
}

void pf_risk_reductions(int n, const int32_t *mechanisms, const double *belief,
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

double pf_risk_reduction_plain(int m, const double *belief, const double *weight, int n_bins,
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
        after += total * pf_belief_risk(m, scratch, weight);
    }
    return pf_belief_risk(m, belief, weight) - after;
}

double pf_tie_round(double value)
{
    // beyond 2^53 units of 1e-12 there are no decimals left to round
    return fabs(value) < 9007.0 ? round(value * 1e12) / 1e12 : value;
}
