// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _DEFAULT_SOURCE
#include "pages.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

static const size_t large = (size_t)2 << 20;

void *pf__pages_take(size_t bytes)
{
    void *memory = NULL;
    if (bytes < large / 2) {
        return posix_memalign(&memory, 64, bytes) == 0 ? memory : NULL;
    }
    if (bytes > SIZE_MAX - large) {
        return NULL;
    }
    bytes = (bytes + large - 1) / large * large;
    if (posix_memalign(&memory, large, bytes) != 0) {
        return NULL;
    }
#ifdef MADV_HUGEPAGE
    madvise(memory, bytes, MADV_HUGEPAGE); // a wish
#endif
    return memory;
}
