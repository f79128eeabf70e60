// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "certificate.h"

#include "constants.h"

#include <math.h>

double pf__return(double tracking_error)
{
    return exp(-fmin(tracking_error, PF_TRACKING_ERROR_MAX));
}

double pf__error_of(double ret)
{
    return fmin(PF_TRACKING_ERROR_MAX, -log(fmax(ret, 1e-300)));
}

double pf__tracking_distance(int rows, int n_chan, const double *scale, const double *a,
                             const double *b)
{
    double sum = 0;
    for (int i = 0; i < rows * n_chan; i++) {
        double d = (a[i] - b[i]) / scale[i % n_chan];
        sum += d * d;
    }
    return sum;
}

double pf__tracking_error_at(int n, const double *shares, const double *tracking_error,
                             double share)
{
    if (!(share > shares[0])) {
        return tracking_error[0];
    }
    if (share >= shares[n - 1]) {
        return tracking_error[n - 1];
    }
    // the shares are about evenly spaced: begin where it would be then
    int k = 1 + (int)((share - shares[0]) / (shares[n - 1] - shares[0]) * (n - 1));
    k = k < n - 1 ? k : n - 1;
    while (k > 1 && shares[k - 1] >= share) {
        k--;
    }
    while (shares[k] < share) {
        k++;
    }
    double part = (share - shares[k - 1]) / (shares[k] - shares[k - 1]);
    return tracking_error[k - 1] + part * (tracking_error[k] - tracking_error[k - 1]);
}

double pf__cantelli(double mean, double variance, double alpha)
{
    return mean - sqrt((1 - alpha) / alpha * variance);
}

pf_prediction pf__predict_return(int n_members, int n, const double *p, const double *returns,
                                 double alpha)
{
    double mean = 0;
    for (int e = 0; e < n_members; e++) {
        for (int i = 0; i < n; i++) {
            mean += p[i] * returns[e * n + i];
        }
    }
    mean /= n_members;
    double variance = 0;
    for (int e = 0; e < n_members; e++) {
        for (int i = 0; i < n; i++) {
            double away = returns[e * n + i] - mean;
            variance += p[i] * away * away;
        }
    }
    variance /= n_members;
    return (pf_prediction){mean, variance, pf__cantelli(mean, variance, alpha)};
}

// Mean and variance of the product of independent factors, one after the other:
// Var(XY) = Vx Vy + Vx my^2 + Vy mx^2, which never cancels.
static void product_moments(int n_factors, int n, const double *p, const double *returns,
                            double *mean, double *variance)
{
    *mean = 1;
    *variance = 0;
    for (int f = 0; f < n_factors; f++) {
        const double *weight = p + (size_t)f * (size_t)n, *ret = returns + (size_t)f * (size_t)n;
        double m = 0, v = 0;
        for (int i = 0; i < n; i++) {
            m += weight[i] * ret[i];
        }
        for (int i = 0; i < n; i++) {
            v += weight[i] * (ret[i] - m) * (ret[i] - m);
        }
        *variance = *variance * v + *variance * m * m + v * *mean * *mean;
        *mean *= m;
    }
}

pf_prediction pf__predict_product(int n_members, int n_factors, int n, const double *p,
                                  const double *returns, double alpha)
{
    size_t block = (size_t)n_factors * (size_t)n;
    double mean = 0, variance = 0;
    for (int e = 0; e < n_members; e++) {
        double m, v;
        product_moments(n_factors, n, p, returns + (size_t)e * block, &m, &v);
        mean += m;
    }
    mean /= n_members;
    for (int e = 0; e < n_members; e++) {
        double m, v;
        product_moments(n_factors, n, p, returns + (size_t)e * block, &m, &v);
        variance += v + (m - mean) * (m - mean);
    }
    variance /= n_members;
    return (pf_prediction){mean, variance, pf__cantelli(mean, variance, alpha)};
}

// Probabilities of one use: its mass at each gain of the grid. Gives what is left of `rest`.
static double use_probability(const pf_joint *joint, int mechanism, double rest, double *p)
{
    for (int g = 0; g < joint->n_grid; g++) {
        size_t at = (size_t)(mechanism - 1) * (size_t)joint->n_grid + (size_t)g;
        p[g] = mechanism > 0 ? joint->mass[at] : 0;
        rest -= p[g];
    }
    return rest;
}

// The k-th smallest return (from 1) that the members have under one hypothesis of n.
static double smallest(int n_members, int n, const double *returns, int k)
{
    double last = -INFINITY;
    for (int found = 0; found < k;) {
        double next = INFINITY;
        int ties = 0;
        for (int e = 0; e < n_members; e++) {
            double r = returns[(size_t)e * (size_t)n];
            if (isnan(r)) {
                return NAN; // what is not a number has no order
            }
            ties = r > last && r < next ? 1 : r == next ? ties + 1 : ties;
            next = r > last && r < next ? r : next;
        }
        if (ties == 0) {
            return NAN; // fewer members than that
        }
        found += ties;
        last = next;
    }
    return last;
}

double pf__worst_bound(int n_members, int n, const double *p, double *returns, double alpha)
{
    // a part of the risk for the gain, the rest for what happens at that gain
    double left_out = PF_WORST_SHARE * alpha, within = alpha - left_out;
    // a new run falls below the k-th smallest of n with probability k / (n + 1)
    int k = (int)(within * (n_members + 1) + 1e-9);
    if (k < 1) {
        return NAN; // too few members to promise it
    }
    for (int i = 0; i < n; i++) {
        double value = p[i] > 0 ? smallest(n_members, n, returns + i, k) : INFINITY;
        returns[i] = isnan(value) ? -INFINITY : value;
    }
    // the smallest value that hypotheses below it do not hold too much for
    double bound = INFINITY;
    for (int i = 0; i < n; i++) {
        double below = 0;
        for (int j = 0; j < n; j++) {
            below += returns[j] <= returns[i] ? p[j] : 0;
        }
        bound = below > left_out && returns[i] < bound ? returns[i] : bound;
    }
    return isfinite(bound) ? bound : NAN;
}

static pf_status predict_each(const pf_task_model *t, const pf_joint *joint, double alpha,
                              double *p, double *returns, pf_prediction *out, pf_error *error)
{
    int n = 1 + joint->n_grid;
    const double healthy = 1;
    for (int u = 0; u < t->n_uses; u++) {
        p[u * n] = fmax(0, use_probability(joint, t->uses[u], 1, p + u * n + 1));
    }
    for (int i = 0; i < t->n_members * t->n_uses; i++) {
        int member = i / t->n_uses, use = i % t->n_uses;
        double *ret = returns + (size_t)i * (size_t)n;
        pf_status status = t->returns(t->self, member, use, 1, &healthy, ret, error);
        if (status == PF_OK) {
            status = t->returns(t->self, member, use, joint->n_grid, joint->grid, ret + 1, error);
        }
        if (status != PF_OK) {
            return status;
        }
    }
    *out = pf__predict_product(t->n_members, t->n_uses, n, p, returns, alpha);
    return PF_OK;
}

// One change at a time: the moments, and the bound by its rule.
static pf_prediction conclude(int n_members, int n, const double *p, double *returns,
                              pf_bound_rule rule)
{
    pf_prediction out = pf__predict_return(n_members, n, p, returns, rule.alpha);
    if (rule.worst) {
        out.lower = pf__worst_bound(n_members, n, p, returns, rule.alpha);
    }
    return out;
}

pf_status pf__predict_task(const pf_task_model *t, const pf_joint *joint, pf_bound_rule rule,
                           double *p, double *returns, pf_prediction *out, pf_error *error)
{
    if (joint->faults == PF_FAULTS_MANY) {
        return predict_each(t, joint, rule.alpha, p, returns, out, error);
    }
    int n = 1 + t->n_uses * joint->n_grid;
    const double healthy = 1;
    p[0] = 1;
    for (int u = 0; u < t->n_uses; u++) {
        p[0] = use_probability(joint, t->uses[u], p[0], p + 1 + u * joint->n_grid);
    }
    p[0] = fmax(0, p[0]);
    for (int e = 0; e < t->n_members; e++) {
        double *ret = returns + (size_t)e * (size_t)n;
        pf_status status = t->returns(t->self, e, -1, 1, &healthy, ret, error);
        for (int u = 0; u < t->n_uses && status == PF_OK; u++) {
            status = t->returns(t->self, e, u, joint->n_grid, joint->grid,
                                ret + 1 + u * joint->n_grid, error);
        }
        if (status != PF_OK) {
            return status;
        }
    }
    *out = conclude(t->n_members, n, p, returns, rule);
    return PF_OK;
}

// Weights of the gains of one use that count, and the gains: how many. lost: given that it has lost
// strength. *sum is what they add up to; with `lost` 1.
static int count_gains(const pf_joint *joint, int mechanism, bool lost, double *p, double *gains,
                       double *sum)
{
    double whole = lost ? 0 : 1, kept = 0;
    int n = 0;
    *sum = 0;
    if (mechanism == 0) {
        return 0; // the current one is healthy by definition
    }
    const double *mass = joint->mass + (size_t)(mechanism - 1) * (size_t)joint->n_grid;
    for (int g = 0; lost && g < joint->n_grid; g++) {
        whole += joint->grid[g] < 1 ? mass[g] : 0;
    }
    for (int g = 0; g < joint->n_grid; g++) {
        if (!(mass[g] > PF_NEGLIGIBLE * whole) || (lost && joint->grid[g] > 1)) {
            continue;
        }
        p[n] = mass[g] / whole;
        gains[n] = joint->grid[g];
        kept += p[n++];
    }
    for (int i = 0; i < n && lost; i++) {
        p[i] /= kept; // what was left out is spread over the rest
    }
    *sum = lost ? 1 : kept;
    return n;
}

// The weights of one use (n_grid of them, the rest 0) and what every member returns there; members
// are `stride` returns apart.
static pf_status weigh_use(const pf_task_model *t, const pf_joint *joint, int use, bool lost,
                           size_t stride, double *p, double *returns, double *gains, double *sum,
                           pf_error *error)
{
    int n = count_gains(joint, t->uses[use], lost, p, gains, sum);
    for (int g = n; g < joint->n_grid; g++) {
        p[g] = 0;
    }
    for (int e = 0; e < t->n_members; e++) {
        double *ret = returns + (size_t)e * stride;
        pf_status status = n > 0 ? t->returns(t->self, e, use, n, gains, ret, error) : PF_OK;
        if (status != PF_OK) {
            return status;
        }
        for (int g = n; g < joint->n_grid; g++) {
            ret[g] = 0; // without weight
        }
    }
    return PF_OK;
}

// Returns with one use healthy, -1: with nothing changed.
static pf_status weigh_healthy(const pf_task_model *t, int use, size_t stride, double *returns,
                               pf_error *error)
{
    const double healthy = 1;
    pf_status status = PF_OK;
    for (int e = 0; e < t->n_members && status == PF_OK; e++) {
        status = t->returns(t->self, e, use, 1, &healthy, returns + (size_t)e * stride, error);
    }
    return status;
}

pf_status pf__predict_task_given(const pf_task_model *t, const pf_joint *joint, int lost,
                                 pf_bound_rule rule, double *p, double *returns, double *gains,
                                 pf_prediction *out, pf_error *error)
{
    bool many = joint->faults == PF_FAULTS_MANY;
    size_t n = (size_t)joint->n_grid, uses = (size_t)t->n_uses;
    size_t stride = many ? uses * (1 + n) : 1 + uses * n;
    double all = 0;
    pf_status status = many ? PF_OK : weigh_healthy(t, -1, stride, returns, error);
    for (size_t u = 0; u < uses && status == PF_OK; u++) {
        bool is_lost = (int)u == lost;
        size_t at = many ? u * (1 + n) + 1 : 1 + u * n;
        double sum = 0;
        if (many) {
            status = weigh_healthy(t, (int)u, stride, returns + at - 1, error);
        }
        if (status == PF_OK) {
            status = weigh_use(t, joint, (int)u, is_lost, stride, p + at, returns + at, gains, &sum,
                               error);
        }
        for (size_t g = 0; !many && lost >= 0 && !is_lost && g < n; g++) {
            p[at + g] = sum = 0; // one change at a time
        }
        if (many) {
            p[at - 1] = fmax(0, 1 - sum);
        }
        all += sum;
    }
    if (status != PF_OK) {
        return status;
    }
    if (many) {
        *out =
            pf__predict_product(t->n_members, t->n_uses, 1 + joint->n_grid, p, returns, rule.alpha);
        return PF_OK;
    }
    p[0] = fmax(0, 1 - all);
    *out = conclude(t->n_members, (int)stride, p, returns, rule);
    return PF_OK;
}

const char *pf_decision_name(pf_decision decision)
{
    return decision == PF_GO ? "go" : decision == PF_GO_IF ? "go-if" : "no-go";
}

const char *pf_rehearsed_name(pf_rehearsed rehearsed)
{
    return rehearsed == PF_REHEARSED_GROUP   ? "group"
           : rehearsed == PF_REHEARSED_APART ? "apart"
                                             : "no";
}

const char *pf_why_name(pf_why why)
{
    switch (why) {
#define X(code, name, text)                                                                        \
    case code:                                                                                     \
        return name;
        PF_WHY_LIST(X)
#undef X
    }
    return "unknown";
}

const char *pf_why_text(pf_why why)
{
    switch (why) {
#define X(code, name, text)                                                                        \
    case code:                                                                                     \
        return text;
        PF_WHY_LIST(X)
#undef X
    }
    return "unknown";
}

pf_decision pf__decide(double lower, double j_min, bool probed, pf_why *why)
{
    bool reached = isfinite(lower) && isfinite(j_min) && lower >= j_min;
    *why = !probed ? PF_WHY_NOT_PROBED : reached ? PF_WHY_CERTIFIED : PF_WHY_BOUND;
    return *why == PF_WHY_CERTIFIED ? PF_GO : PF_NO_GO;
}
