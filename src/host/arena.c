// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _DEFAULT_SOURCE // madvise
#include "arena.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct block {
    struct block *next;
    max_align_t data[];
} block;

void *pf__arena_take(pf_arena *arena, size_t count, size_t size)
{
    if (arena->failed || (size > 0 && count > (SIZE_MAX / 2 - sizeof(block)) / size)) {
        arena->failed = true;
        return NULL;
    }
    block *b = calloc(1, sizeof(block) + (count * size > 0 ? count * size : 1));
    if (!b) {
        arena->failed = true;
        return NULL;
    }
    b->next = arena->blocks;
    arena->blocks = b;
    return b->data;
}

char *pf__arena_text(pf_arena *arena, const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = pf__arena_take(arena, n, 1);
    return copy ? memcpy(copy, text, n) : NULL;
}

void pf__arena_free(pf_arena *arena)
{
    for (block *b = arena->blocks; b;) {
        block *next = b->next;
        free(b);
        b = next;
    }
    *arena = (pf_arena){0};
}

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
