// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "law.h"

#include "preflight/rng.h"

#include <math.h>

// Position of a trial in a shuffle of all trials of its seed.
static int shuffled_rank(uint64_t seed, const char *environment, int trial, int trials)
{
    pf_rng rng;
    int rank = 0;
    uint64_t mine = 0;
    for (int i = 0; i < trials; i++) {
        pf_rng_init(&rng, pf_key_stream(seed, environment, (uint64_t)i, PF_PURPOSE_LAW, 1));
        uint64_t bits = pf_rng_bits(&rng);
        mine = i == trial ? bits : mine;
    }
    for (int i = 0; i < trials; i++) {
        pf_rng_init(&rng, pf_key_stream(seed, environment, (uint64_t)i, PF_PURPOSE_LAW, 1));
        uint64_t bits = pf_rng_bits(&rng);
        rank += bits < mine || (bits == mine && i < trial);
    }
    return rank;
}

int pf_law_fault(const pf_law *law, int mechanism)
{
    for (int i = 0; i < law->n_changed; i++) {
        if (law->mechanism[i] == mechanism) {
            return i;
        }
    }
    return -1;
}

// Further changed mechanisms, different from those before.
static void draw_mechanisms(pf_law *law, pf_rng *rng, int n, int candidates)
{
    while (law->n_changed < n) {
        int mechanism = 1 + (int)pf_rng_below(rng, (uint32_t)candidates);
        if (pf_law_fault(law, mechanism) < 0) {
            law->mechanism[law->n_changed++] = mechanism;
        }
    }
}

// Whether a gain was given to one of the first n faults.
static bool taken(const pf_law *law, int n, double gain)
{
    for (int i = 0; i < n; i++) {
        if (law->gain[i] == gain) {
            return true;
        }
    }
    return false;
}

static void draw_gains(pf_law *law, pf_rng *rng, int n_gains, const double *gains)
{
    for (int i = 0; i < law->n_changed; i++) {
        int pick = n_gains > 1 ? (int)pf_rng_below(rng, (uint32_t)n_gains) : 0;
        while (i < n_gains && taken(law, i, gains[pick])) {
            pick = (pick + 1) % n_gains;
        }
        law->gain[i] = gains[pick];
    }
}

pf_law pf_law_draw(uint64_t seed, const char *environment, int trial, const pf_law_settings *s)
{
    pf_rng rng;
    pf_rng_init(&rng, pf_key_stream(seed, environment, (uint64_t)trial, PF_PURPOSE_LAW, 0));
    pf_law law = {.n_changed = 0};
    law.tau = 10 + (int)pf_rng_below(&rng, 11);
    law.reveal =
        PF_LAW_REVEAL_FIRST + (int)pf_rng_below(&rng, PF_LAW_REVEAL_LAST - PF_LAW_REVEAL_FIRST + 1);
    law.mechanism[0] = 1 + (int)pf_rng_below(&rng, (uint32_t)s->candidates);
    if (s->opportunities > 0) {
        law.tau = PF_LAW_TAU;
        law.reveal = PF_LAW_TAU + PF_LAW_PERIOD * s->opportunities;
    }
    law.nominal =
        shuffled_rank(seed, environment, trial, s->trials) < (int)lround(s->share * s->trials);
    if (!law.nominal) {
        // a stream of its own, so that the draws above stay what they are
        pf_rng_init(&rng, pf_key_stream(seed, environment, (uint64_t)trial, PF_PURPOSE_LAW, 3));
        law.n_changed = 1;
        draw_mechanisms(&law, &rng, s->n_faults < s->candidates ? s->n_faults : s->candidates,
                        s->candidates);
        draw_gains(&law, &rng, s->n_gains, s->gains);
    }
    return law;
}
