// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_STATS_H
#define PF_STATS_H

#include "preflight/base.h"
#include "store.h"
#include "trial.h"

// Means, spreads and 95 % intervals.

typedef struct pf_interval {
    double lo, hi; // NaN: undefined
} pf_interval;

// Regularised incomplete beta function I_x(a, b), a and b > 0, x in [0, 1].
double pf__beta_share(double a, double b, double x);

// Exact interval of a proportion after Clopper and Pearson: k successes of n, two-sided level
// 1 - alpha. Undefined with n = 0.
pf_interval pf__clopper_pearson(double k, double n, double alpha);

// Central 1 - alpha interval of n values, linear between order statistics. Reorders the values.
pf_interval pf__percentiles(double *values, int n, double alpha);

// Mean and sample standard deviation of the values that are defined; sd is NaN for fewer than two.
void pf__mean_sd(const double *values, int n, double *mean, double *sd);

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

const char *pf__statistic_id(int statistic); // "crps" or "violation"
const char *pf__rank_id(int rank);           // "rank_crps"

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
pf_status pf__sample_init(pf_sample *sample, const pf_row *const *rows, size_t n, int n_methods,
                          int n_seeds, int reference, const bool *ranked, pf_key key,
                          pf_error *error);
void pf__sample_free(pf_sample *sample);

// Mean over environments, seed by seed and resample by resample.
pf_status pf__sample_macro(pf_sample *sample, const pf_sample *const *parts, int n_parts,
                           pf_error *error);

// The numbers of a table, by environment, setting, metric and method.

// Average over all environments, and over those that the paper prints.
#define PF_MACRO "macro"
#define PF_MACRO_SHOWN "macro-shown"
// A setting from which every varied key was averaged out.
#define PF_SETTING_ALL "all"
// The method all others are paired with, and what the metric of a difference ends in.
#define PF_REFERENCE "eg-mpt"
#define PF_DIFFERENCE "_minus_eg_mpt"

typedef struct pf_entry {
    const char *environment, *setting, *metric, *method; // the pf_entries' own
    double mean, sd;                                     // of seed means; NaN: undefined
    // Clopper-Pearson on pooled counts for rates, else bootstrap over trials within seeds.
    double lo, hi;
    double n; // trials that enter; for a share of counts the pooled denominator
    int order[4];
} pf_entry;

typedef struct pf_entries {
    pf_entry *entry; // by environment, setting, metric, method
    size_t n, capacity;
    uint32_t *slot; // hash of names to entry + 1, made by pf__entries_sort
    size_t n_slots;
    char **name;
    int n_names, names_capacity;
    char **environment, **setting, **method; // in the order of tables; pooled settings last
    int n_environments, n_settings, n_methods;
    int n_raw_settings; // settings as they were run
} pf_entries;

void pf__entries_free(pf_entries *entries);

// NULL: out of memory. The copy is kept once.
char *pf__entries_intern(pf_entries *entries, const char *name);
// Index of a name in one of the lists, added if it is new; -1: out of memory.
int pf__entries_index(pf_entries *entries, char ***list, int *n, const char *name);
// Appends an entry with interned names; NULL: out of memory.
pf_entry *pf__entries_add(pf_entries *entries, const pf_entry *entry);
// Sorts by `order` and makes entries findable; false: out of memory.
bool pf__entries_sort(pf_entries *entries);

// NULL: no such entry. After pf__entries_sort.
const pf_entry *pf__entries_find(const pf_entries *entries, const char *environment,
                                 const char *setting, const char *metric, const char *method);

// 1: higher is better, -1: lower, 0: neither.
int pf__metric_direction(const char *metric);
// Whether pf__aggregate can give entries of that metric.
bool pf__entry_metric_known(const char *metric);

// Names as the paper writes them; anything else is its own label.
const char *pf__label_environment(const char *environment);
const char *pf__label_method(const char *method);
// A metric in words ("compensation error").
void pf__label_metric(const char *metric, char out[64]);

// A setting without one of its keys; PF_SETTING_ALL if nothing is left.
void pf__setting_without(const char *setting, const char *key, char out[96]);

// From stored trials to the numbers of a table: as the paper does (mean over the trials of a seed,
// then mean and sample sd of seed means), with a 95 % interval beside it.

typedef struct pf_aggregate_options {
    const char *const *environments; // their order; others follow as they come
    int n_environments;
    const char *const *shown; // environments of the second macro
    int n_shown;              // 0: there is none
    const pf_effort *effort;  // Nullable
} pf_aggregate_options;

// Aggregates one config_hash. Settings are also pooled over g, over B2 and over both where these
// vary: the key is left out. The same bits for any number of threads.
pf_status pf__aggregate(pf_entries *entries, pf_store *store, const char *hash,
                        const pf_aggregate_options *options, pf_error *error);

#endif
