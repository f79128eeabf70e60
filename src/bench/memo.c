// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "memo.h"

#include "preflight/rng.h"

#include <string.h>

enum { PLACES = 4096, BYTES = 16 << 20 };

pf_status pf_memo_init(pf_memo *m, pf_arena *arena, int n_state, size_t window, pf_error *error)
{
    m->n_state = (size_t)n_state;
    m->window = window;
    m->places = BYTES / ((m->n_state + 1 + window) * sizeof(double)) + 1;
    m->places = m->places < PLACES ? m->places : PLACES;
    m->start = pf_arena_take(arena, m->places * (m->n_state + 1), sizeof(double));
    m->response = pf_arena_take(arena, m->places * window, sizeof(double));
    m->hypothesis = pf_arena_take(arena, m->places, sizeof *m->hypothesis);
    m->known = pf_arena_take(arena, m->places, sizeof *m->known);
    return arena->failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory for predictions") : PF_OK;
}

static pf_key mixed(pf_key hash, double number)
{
    uint64_t bits = 0;
    memcpy(&bits, &number, sizeof bits);
    return pf_key_derive(hash, bits);
}

static size_t place(const pf_memo *m, const double *start, const pf_hypothesis *h)
{
    pf_key hash = pf_key_derive((pf_key)h->probe, (uint64_t)h->mechanism);
    hash = mixed(hash, h->gain);
    for (size_t i = 0; i < m->n_state; i++) {
        hash = mixed(hash, start[i]);
    }
    return (size_t)(hash % m->places);
}

const double *pf_memo_find(const pf_memo *m, const double *start, const pf_hypothesis *h)
{
    size_t at = place(m, start, h);
    const pf_hypothesis *kept = &m->hypothesis[at];
    bool same = m->known[at] && kept->probe == h->probe && kept->mechanism == h->mechanism &&
                memcmp(&kept->gain, &h->gain, sizeof h->gain) == 0 &&
                memcmp(m->start + at * (m->n_state + 1), start, m->n_state * sizeof *start) == 0;
    return same ? m->response + at * m->window : NULL;
}

void pf_memo_keep(pf_memo *m, const double *start, const pf_hypothesis *h, const double *response,
                  size_t n)
{
    size_t at = place(m, start, h);
    m->hypothesis[at] = *h;
    memcpy(m->start + at * (m->n_state + 1), start, m->n_state * sizeof *start);
    memcpy(m->response + at * m->window, response, n * sizeof *response);
    m->known[at] = true;
}
