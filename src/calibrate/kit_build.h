// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_KIT_BUILD_H
#define PF_KIT_BUILD_H

#include "host/arena.h"
#include "core/kit_layout.h"
#include "plan.h"

// A kit under construction: the arrays of a pf_kit, writable, and the view onto them.
typedef struct pf_kit_build {
    pf_arena arena;
    pf_kit kit;
#define X(id, type, field, count) type *field;
    PF_KIT_ARRAYS(X)
#undef X
} pf_kit_build;

// What kind of kit, beyond the plan.
typedef struct pf_kit_kind {
    const char *predictor; // "twin", "ensemble", "recordings"
    const char *source;
    const char *model;     // sha256 of the model. Nullable.
    const char *processor; // numeric library of the model. Nullable.
    pf_statistic statistic;
    int n_state;
    int n_scale;    // rows of the scale
    bool responses; // room for recorded responses
    bool weighted;  // room for the whitening factors of all probes
    bool curves;    // room for a curve of z per target
    int n_members;
    int n_knots; // gains of looks; 0: no joint posterior, and no misfit
    const double *knots;
    bool rehearse;         // room for rehearsals
    const pf_loss *losses; // n_mech. Nullable: all lose command.
    int n_methods;         // 0: the plan's method alone
    const char *const *methods;
} pf_kit_kind;

// Allocates all arrays and fills in everything that comes from the plan. Thresholds start at 1 (no
// alarm), channels and tables at 0.
pf_status pf__kit_build_init(pf_kit_build *build, const pf_plan *plan, const pf_kit_kind *kind,
                             pf_error *error);

// Replaces the full rows: n doubles, probe_cross as given.
pf_status pf__kit_build_cross(pf_kit_build *build, int n, const double *cross, pf_error *error);

// Replaces the groups of rehearsals: first has n + 1 entries, tasks as many as the last one says.
pf_status pf__kit_build_groups(pf_kit_build *build, int n, const int32_t *first,
                               const int32_t *tasks, pf_error *error);

// Replaces the blind directions of rehearsals: n_first entries, the last one says how many doubles.
pf_status pf__kit_build_blind(pf_kit_build *build, int n_first, const int32_t *first,
                              const double *blind, pf_error *error);

// The file image; free with free().
pf_status pf__kit_build_save(const pf_kit_build *build, void **bytes, size_t *n_bytes,
                             pf_error *error);

void pf__kit_build_free(pf_kit_build *build);

// Points of the return table: 0, .05, ..., 2.
enum { PF_RETURN_SHARES = 41 };
double pf__return_share(int index);

#endif
