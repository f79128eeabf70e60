// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef FUZZ_INPUT_H
#define FUZZ_INPUT_H

#include "preflight/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// What must hold whatever the input is.
static inline void demand(bool good)
{
    if (!good) {
        abort();
    }
}

// A refusal says why, in one line, and is never our own mistake.
static inline void demand_reason(pf_status status, const pf_error *error)
{
    demand(status == PF_OK || (error->code == status && error->text[0] &&
                               !strchr(error->text, '\n') && status != PF_ERR_INTERNAL));
}

// A copy of exactly this size, so that a read beyond the end is seen; it ends the run where there
// is no memory.
static inline void *fuzz_copy(const uint8_t *data, size_t size)
{
    void *copy = malloc(size > 0 ? size : 1);
    demand(copy);
    if (size > 0) {
        memcpy(copy, data, size);
    }
    return copy;
}

// The input as a file, for readers that take a path: the same one each time, in memory.
const char *fuzz_file(const void *data, size_t size);

// A safetensors file with the right digest of its contents, where it has one; false: it has none.
bool fuzz_reseal(const uint8_t *data, size_t size, void **sealed, size_t *n);

#endif
