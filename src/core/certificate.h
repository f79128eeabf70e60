// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_CERTIFICATE_H
#define PF_CERTIFICATE_H

#include "preflight/session.h"

// Return of a task (Eq. task_return): exp(-min(tracking_error, 10)).
double pf__return(double tracking_error);

// The tracking error that has this return.
double pf__error_of(double ret);

// Sum of squared differences of two trajectories (rows x n_chan), each channel divided by its
// scale: numerator and denominator of the normalised tracking error.
double pf__tracking_distance(int rows, int n_chan, const double *scale, const double *a,
                             const double *b);

// NTE from a table over delivered shares, linear between the points and constant beyond the ends.
double pf__tracking_error_at(int n, const double *shares, const double *tracking_error,
                             double share);

// Predictive mean and variance of a task's return, and the bound they support.
typedef struct pf_prediction {
    double mean;
    double variance;
    double lower; // L (Eq. cantelli_certificate)
} pf_prediction;

// L = mean - sqrt((1 - alpha)/alpha * variance).
double pf__cantelli(double mean, double variance, double alpha);

// How a bound is taken. Cantelli's is the paper's: L above. The worst one asks within each
// hypothesis for the quantile over the members, and gives the smallest of these but for hypotheses
// that hold a fifth of the risk together. It needs no distribution, but members that are draws of
// what may happen, such as error curves.
typedef struct pf_bound_rule {
    double alpha;
    bool worst;
} pf_bound_rule;

// The worst one. Overwrites the returns of the first member.
double pf__worst_bound(int n_members, int n, const double *p, double *returns, double alpha);

// Mean, variance (Eq. appendix_posterior_predictive_mean and _variance) and bound of n_members x
// n returns with hypothesis probabilities p (n, sum 1), members equally likely.
pf_prediction pf__predict_return(int n_members, int n, const double *p, const double *returns,
                                 double alpha);

// The same for a return that is the product of n_factors independent ones: p is n_factors x n (each
// row sums to 1), returns n_members x n_factors x n.
pf_prediction pf__predict_product(int n_members, int n_factors, int n, const double *p,
                                  const double *returns, double alpha);

// What a task returns under hypotheses about the mechanisms it uses.
typedef struct pf_task_model {
    void *self;
    int n_members, n_uses;
    const int32_t *uses; // mechanisms
    // Returns of a member with one use at each of n gains and the other uses healthy; use -1 (then
    // n is 1): nothing changed. With several faults: the factor of that use by itself.
    pf_status (*returns)(void *self, int member, int use, int n, const double *gains,
                         double *returns, pf_error *error);
} pf_task_model;

// The predicted return of a task under a joint belief. Hypotheses are "none of its mechanisms
// changed", then each of them at each gain of the grid; with several faults each use has its own
// hypotheses and the return is a product, whose bound is Cantelli's. p has 1 + n_uses (1 + n_grid)
// numbers, returns n_members times as many: work space.
pf_status pf__predict_task(const pf_task_model *task, const pf_joint *joint, pf_bound_rule rule,
                           double *p, double *returns, pf_prediction *prediction, pf_error *error);

// The same under the joint posterior of a field kit. lost -1: as it is; else given that this use
// has lost strength. Hypotheses without weight are not asked for, so a sharp posterior is cheap.
// gains is work space too, n_grid numbers.
pf_status pf__predict_task_given(const pf_task_model *task, const pf_joint *joint, int lost,
                                 pf_bound_rule rule, double *p, double *returns, double *gains,
                                 pf_prediction *prediction, pf_error *error);

// What the corrected, clipped command of a mechanism is of the asked one: the share along it, the
// share of squares beside it, and of a policy what the correction asks for (0: it is a command).
// Where force is lost none of that counts, but the correction itself.
typedef struct pf__delivered {
    double share, off_shape, asked, correction;
} pf__delivered;
pf__delivered pf__deliver(const pf_kit *kit, int task, int mechanism, double correction);

// NTE of one use (counted over all tasks) at a gain.
double pf__use_error(const pf_kit *kit, int use, int member, double gain, pf__delivered delivered);

// The correction of a mechanism that loses force: of those in the table, the one with which its
// tasks miss least on average, over gains with weights, and `healthy` at gain 1.
double pf__force_correction(const pf_kit *kit, int mechanism, double healthy, int n,
                            const double *gains, const double *weights);

// The correction that is right for one gain.
double pf__right_correction(const pf_kit *kit, int mechanism, double gain);

// The correction of a mechanism under a joint belief.
double pf__session_correction(const pf_session *session, const pf_joint *joint, int mechanism);

// The deployment rule (Eq. deployment_rule), with the rule that an unprobed mechanism blocks. Any
// value that is not finite is a no-go.
pf_decision pf__decide(double lower, double j_min, bool probed, pf_why *why);

#endif
