// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PREFLIGHT_CHANNEL_H
#define PREFLIGHT_CHANNEL_H

#include "preflight/base.h"

#ifdef __cplusplus
extern "C" {
#endif

// The quantised channel of one target of one probe: edges between the K categories, and the
// probability of each category when nothing changed and when this target changed.
typedef struct pf_channel_row {
    int n_bins;            // K
    const double *edges;   // K - 1, not decreasing
    const double *nominal; // K, p_q(c | 0)
    const double *changed; // K, p_q(c | j)
} pf_channel_row;

// The category of a score: the number of edges strictly below it, 0..K-1.
PF_API int pf_channel_category(const pf_channel_row *row, double score);

// p_q(c | j)/p_q(c | 0).
PF_API double pf_channel_ratio(const pf_channel_row *row, int category);

// The evidence gate (Eq. evidence_gate): open where the category speaks for the change.
PF_API bool pf_gate_open(const pf_channel_row *row, int category);

#ifdef __cplusplus
}
#endif
#endif
