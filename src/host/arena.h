// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_ARENA_H
#define PF_ARENA_H

#include "preflight/base.h"

// Memory that is taken piece by piece and given back all at once. Zeroed. Starts as {0}.
typedef struct pf_arena {
    void *blocks;
    bool failed; // an allocation failed; every later take returns NULL too
} pf_arena;

// NULL when memory is short or count*size overflows; then arena->failed stays set, so a caller may
// take many pieces and ask once at the end.
void *pf__arena_take(pf_arena *arena, size_t count, size_t size);
char *pf__arena_text(pf_arena *arena, const char *text);
void pf__arena_free(pf_arena *arena);

// Memory that is walked through again and again, at a 64-byte boundary: in large pages where it is
// large and the system has them, since looking up small ones takes a twentieth of a rollout. NULL:
// there is none. Free with free().
void *pf__pages_take(size_t bytes);

#endif
