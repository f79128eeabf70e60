// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_ENTRIES_H
#define PF_ENTRIES_H

#include "preflight/base.h"

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
    uint32_t *slot; // hash of names to entry + 1, made by pf_entries_sort
    size_t n_slots;
    char **name;
    int n_names, names_capacity;
    char **environment, **setting, **method; // in the order of tables; pooled settings last
    int n_environments, n_settings, n_methods;
    int n_raw_settings; // settings as they were run
} pf_entries;

void pf_entries_free(pf_entries *entries);

// NULL: out of memory. The copy is kept once.
char *pf_entries_intern(pf_entries *entries, const char *name);
// Index of a name in one of the lists, added if it is new; -1: out of memory.
int pf_entries_index(pf_entries *entries, char ***list, int *n, const char *name);
// Appends an entry with interned names; NULL: out of memory.
pf_entry *pf_entries_add(pf_entries *entries, const pf_entry *entry);
// Sorts by `order` and makes entries findable; false: out of memory.
bool pf_entries_sort(pf_entries *entries);

// NULL: no such entry. After pf_entries_sort.
const pf_entry *pf_entries_find(const pf_entries *entries, const char *environment,
                                const char *setting, const char *metric, const char *method);

// 1: higher is better, -1: lower, 0: neither.
int pf_metric_direction(const char *metric);
// Whether pf_aggregate can give entries of that metric.
bool pf_entry_metric_known(const char *metric);
// One of the eight methods that the paper compares.
bool pf_method_of_paper(const char *method);

// Names as the paper writes them; anything else is its own label.
const char *pf_label_environment(const char *environment);
const char *pf_label_method(const char *method);
// A metric in words ("compensation error").
void pf_label_metric(const char *metric, char out[64]);

// A setting without one of its keys; PF_SETTING_ALL if nothing is left.
void pf_setting_without(const char *setting, const char *key, char out[96]);

#endif
