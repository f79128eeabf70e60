// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "given.h"

#include <string.h>

static pf_status predict(void *self, const pf_hypothesis *h, const double *start, int n_start,
                         double *response, pf_error *error)
{
    (void)start;
    (void)n_start;
    const pf_given *given = self;
    const pf_kit *k = pf_session_kit(given->session);
    const int32_t *targets = NULL;
    int n = pf_kit_probe_targets(k, h->probe, &targets);
    size_t window = (size_t)pf_kit_probe_rows(k, h->probe) * (size_t)k->n_chan;
    const double *from = h->mechanism == 0 ? given->nominal : NULL;
    for (int t = 0; t < n && !from; t++) {
        if (targets[t] != h->mechanism) {
            continue;
        }
        if (pf_session_stage(given->session) == 1 || h->gain == 1) {
            from = given->fault + (size_t)t * window;
            break;
        }
        for (int g = 0; g < k->n_grid && !from; g++) {
            if (k->grid[g] == h->gain) {
                from = given->grid + ((size_t)t * (size_t)k->n_grid + (size_t)g) * window;
            }
        }
    }
    if (!from) {
        return pf_fail(error, PF_ERR_INTERNAL, "no prediction for mechanism %d", h->mechanism);
    }
    memcpy(response, from, window * sizeof(double));
    return PF_OK;
}

pf_predictor pf_given_predictor(pf_given *given)
{
    return (pf_predictor){given, predict};
}
