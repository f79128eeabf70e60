// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_AGGREGATE_H
#define PF_AGGREGATE_H

#include "store.h"
#include "preflight/effort.h"

// From stored trials to the numbers of a table: as the paper does (mean over the trials of a seed,
// then mean and sample sd of seed means), with a 95 % interval beside it.

// Average over all environments, and over those that the paper prints.
#define PF_MACRO "macro"
#define PF_MACRO_SHOWN "macro-shown"
// A setting from which every varied key was averaged out.
#define PF_SETTING_ALL "all"
// The method all others are paired with, and what the metric of a difference ends in.
#define PF_REFERENCE "eg-mpt"
#define PF_DIFFERENCE "_minus_eg_mpt"

typedef struct pf_cell {
    const char *environment, *setting, *metric, *method; // the pf_cells' own
    double mean, sd;                                     // of seed means; NaN: undefined
    // Clopper-Pearson on pooled counts for rates, else bootstrap over trials within seeds.
    double lo, hi;
    double n; // trials that enter; for a share of counts the pooled denominator
    int order[4];
} pf_cell;

typedef struct pf_cells {
    pf_cell *cell; // by environment, setting, metric, method
    size_t n, capacity;
    char **name;
    int n_names, names_capacity;
    char **environment, **setting, **method; // in the order of tables; pooled settings last
    int n_environments, n_settings, n_methods;
    int n_raw_settings; // settings as they were run
} pf_cells;

// Aggregates one config_hash. Settings are also pooled over g, over B2 and over both where these
// vary: the key is left out. shown: environments of the second macro, none if n_shown is 0.
pf_status pf_aggregate(pf_cells *cells, pf_store *store, const char *hash, const char *const *shown,
                       int n_shown, const pf_effort *effort, pf_error *error);
void pf_cells_free(pf_cells *cells);

// NULL: no such cell.
const pf_cell *pf_cells_find(const pf_cells *cells, const char *environment, const char *setting,
                             const char *metric, const char *method);

// 1: higher is better, -1: lower, 0: neither.
int pf_metric_direction(const char *metric);
// Whether pf_aggregate can give cells of that metric.
bool pf_cell_metric_known(const char *metric);
// One of the eight methods that the paper compares.
bool pf_method_of_paper(const char *method);

// A setting without one of its keys; PF_SETTING_ALL if nothing is left.
void pf_setting_without(const char *setting, const char *key, char out[96]);

#endif
