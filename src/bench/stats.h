// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_STATS_H
#define PF_STATS_H

#include "preflight/base.h"
#include "store.h"

// Means, spreads and 95 % intervals.

typedef struct pf_interval {
    double lo, hi; // NaN: undefined
} pf_interval;

// Exact interval of a proportion after Clopper and Pearson: k successes of n, two-sided level
// 1 - alpha. Undefined with n = 0.
pf_interval pf__clopper_pearson(double k, double n, double alpha);

// Central 1 - alpha interval of n values, linear between order statistics. Reorders the values.
pf_interval pf__percentiles(double *values, int n, double alpha);

// The numbers of a table, by environment, setting, metric and method.

// Average over all environments, and over those that the paper prints.
#define PF_MACRO "macro"
#define PF_MACRO_SHOWN "macro-shown"
// A setting from which every varied key was averaged out.
#define PF_SETTING_ALL "all"
// The method all others are paired with, and what the metric of a difference ends in.
#define PF_REFERENCE "eg-mpt"
#define PF_DIFFERENCE "_minus_eg_mpt"

// The eight methods that the paper compares: its seven baselines, then the reference.
enum { PF_BASELINES = 7 };
extern const char *const pf__compared[PF_BASELINES + 1];

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
    size_t n;
    uint32_t *slot; // hash of names to entry + 1, made by pf__entries_sort
    size_t n_slots;
    char **name;
    int n_names;
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

// From stored trials to the numbers of a table: as the paper does (mean over the trials of a seed,
// then mean and sample sd of seed means), with a 95 % interval beside it.

typedef struct pf_aggregate_options {
    const char *const *environments; // their order; others follow as they come
    int n_environments;
    const char *const *settings; // the same of settings and methods; 0: as they come
    int n_settings;
    const char *const *methods;
    int n_methods;
    const char *const *shown; // environments of the second macro
    int n_shown;              // 0: there is none
    const pf_effort *effort;  // Nullable
} pf_aggregate_options;

// Aggregates one config_hash. Settings are also pooled over g, over B2 and over both where these
// vary: the key is left out. The same bits for any number of threads.
pf_status pf__aggregate(pf_entries *entries, pf_store *store, const char *hash,
                        const pf_aggregate_options *options, pf_error *error);

#endif
