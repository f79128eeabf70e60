// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PREFLIGHT_EFFORT_H
#define PREFLIGHT_EFFORT_H

#include "preflight/base.h"

#ifdef __cplusplus
extern "C" {
#endif

// How long work is run, watched and stopped. Zero-initialise, then set fields.
typedef struct pf_effort {
    int threads; // 0: as many as there are processors
    void *self;
    // Called from one thread at a time. Nullable.
    void (*progress)(void *self, const char *what, size_t done, size_t total);
    const volatile int *stop; // nonzero: stop soon with PF_ERR_INTERRUPTED. Nullable.
} pf_effort;

#ifdef __cplusplus
}
#endif
#endif
