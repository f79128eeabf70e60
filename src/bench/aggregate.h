// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_AGGREGATE_H
#define PF_AGGREGATE_H

#include "entries.h"
#include "preflight/effort.h"
#include "store.h"

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
pf_status pf_aggregate(pf_entries *entries, pf_store *store, const char *hash,
                       const pf_aggregate_options *options, pf_error *error);

#endif
