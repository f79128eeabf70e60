// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_SAMPLE_H
#define PF_SAMPLE_H

#include "interval.h"
#include "trial.h"

// The trials of one environment and one (pooled) setting, all methods: statistics by seed, and the
// same statistics on resampled trials. Every statistic is a sum over a sum, so means of a metric
// and shares of pooled counts are one case.

// Shares of counts, pooled within a seed and divided: name, numerator, denominator.
#define PF_SHARES(X)                                                                               \
    X(violation, violated, deployed)                                                               \
    X(violation_changed, changed_violated, changed_deployed)                                       \
    X(false_ready_share, false_ready, deployed)                                                    \
    X(false_ready_changed, changed_false_ready, changed_deployed)                                  \
    X(mute_share, mute_looks, fault_looks)                                                         \
    X(safe_coverage, safe_ready, contracts)                                                        \
    X(unsafe_coverage, false_ready, contracts)                                                     \
    X(clipped_go_share, clipped_go, clipped)                                                       \
    X(clipped_false_share, clipped_false, clipped_go)                                              \
    X(clipped_recovered_share, clipped_recovered, clipped)

// Metrics in which a method is ranked: name, direction (1: higher is better).
#define PF_RANKED(X)                                                                               \
    X(compensation_error, -1)                                                                      \
    X(worst_error, -1)                                                                             \
    X(crps, -1)                                                                                    \
    X(probes, -1)                                                                                  \
    X(coverage, 1)

enum {
#define X(name, num, den) PF_SHARE_##name,
    PF_SHARES(X)
#undef X
        PF_SHARE_COUNT,
    PF_STATISTIC_COUNT = PF_METRIC_COUNT + PF_SHARE_COUNT, // metrics, then shares
    PF_RESAMPLES = 2000
};

enum {
#define X(name, direction) PF_RANK_##name,
    PF_RANKED(X)
#undef X
        PF_RANK_COUNT
};

const char *pf_statistic_id(int statistic); // "crps" or "violation"
const char *pf_rank_id(int rank);           // "rank_crps"

// One stored trial of one method; names are indices into lists of the caller's.
typedef struct pf_row {
    int environment, setting, method, seed, trial;
    double value[PF_METRIC_COUNT];
} pf_row;

typedef struct pf_sample {
    int n_methods, n_seeds;
    double *seed_mean; // methods x seeds x statistics; NaN: undefined
    double *sum;       // methods x statistics: pooled over seeds
    double *count;     // methods x statistics: what the sum is divided by
    double *resampled; // methods x statistics x PF_RESAMPLES: mean of seed means
    bool *paired;      // methods x statistics: same trials as the reference
    double rank[PF_RANK_COUNT];
    double *rank_resampled; // ranks x PF_RESAMPLES; NaN: undefined
} pf_sample;

// Rows of one environment (any order) whose settings are pooled; trials of a seed are resampled
// together with all methods and settings of theirs. reference: index of the method to pair with and
// to rank, -1 for none; ranked: which methods take part in ranks.
pf_status pf_sample_init(pf_sample *sample, const pf_row *const *rows, size_t n, int n_methods,
                         int n_seeds, int reference, const bool *ranked, pf_key key,
                         pf_error *error);
void pf_sample_free(pf_sample *sample);

// Mean over environments, seed by seed and resample by resample.
pf_status pf_sample_macro(pf_sample *sample, const pf_sample *const *parts, int n_parts,
                          pf_error *error);

#endif
