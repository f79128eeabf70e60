// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "ledger.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MATCH_NUMBERS = 6 };

static size_t answer_numbers(const pf_ledger *l)
{
    return 1 + (size_t)l->most * MATCH_NUMBERS;
}

static double *answer(const pf_ledger *l, int trial, int opportunity, int probe)
{
    size_t at =
        ((size_t)trial * PF_LEDGER_OPPORTUNITIES + (size_t)opportunity) * (size_t)l->probes +
        (size_t)probe;
    return l->number + at * answer_numbers(l);
}

static void add_text(pf_sha256 *sha, const char *text)
{
    pf_sha256_update(sha, text, strlen(text) + 1);
}

static void name_key(pf_ledger *l, const pf_bank *b, uint64_t seed, const char *fingerprint)
{
    const pf_kit *k = b->kit;
    const double numbers[] = {(double)seed,    (double)l->trials, k->g_cal,    k->sensor_noise,
                              k->sensed_start, k->n_scale,        k->n_chan,   k->n_mech,
                              k->n_probes,     k->n_rows,         k->n_targets};
    pf_sha256 sha;
    uint8_t digest[32];
    pf_sha256_init(&sha);
    add_text(&sha, PF_VERSION);
    add_text(&sha, pf_kit_get_string(k, PF_KIT_PLANT));
    add_text(&sha, fingerprint);
    add_text(&sha, b->model ? pf_model_get_info(b->model)->sha256 : "");
    add_text(&sha, b->model ? pf_numeric_library() : "");
    pf_sha256_update(&sha, numbers, sizeof numbers);
    size_t chan = (size_t)k->n_chan, d = sizeof(double);
    pf_sha256_update(&sha, k->scale, (size_t)k->n_scale * chan * d);
    pf_sha256_update(&sha, k->return_scale, chan * d);
    pf_sha256_update(&sha, k->command, (size_t)k->n_rows * (size_t)k->n_mech * d);
    pf_sha256_update(&sha, k->probe_row, ((size_t)k->n_probes + 1) * sizeof *k->probe_row);
    pf_sha256_update(&sha, k->probe_target, ((size_t)k->n_probes + 1) * sizeof *k->probe_target);
    pf_sha256_update(&sha, k->target_mech, (size_t)k->n_targets * sizeof *k->target_mech);
    pf_sha256_update(&sha, k->whiten, (size_t)k->n_whiten * d);
    pf_sha256_final(&sha, digest);
    pf_sha256_text(digest, l->key);
}

pf_status pf_ledger_init(pf_ledger *l, const pf_bank *b, uint64_t seed, int trials,
                         const char *fingerprint, pf_error *error)
{
    *l = (pf_ledger){
        .trials = trials, .probes = b->kit->n_probes, .most = pf_kit_most_targets(b->kit)};
    l->n = (size_t)trials * PF_LEDGER_OPPORTUNITIES * (size_t)l->probes * answer_numbers(l);
    l->number = malloc(l->n * sizeof *l->number);
    if (!l->number) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for the answers of %d nominal trials",
                       trials);
    }
    for (size_t i = 0; i < l->n; i++) {
        l->number[i] = NAN;
    }
    name_key(l, b, seed, fingerprint);
    return PF_OK;
}

void pf_ledger_free(pf_ledger *l)
{
    free(l->number);
    *l = (pf_ledger){.number = NULL};
}

bool pf_ledger_read(pf_ledger *l, const void *bytes, size_t n)
{
    if (n != l->n * sizeof *l->number) {
        return false;
    }
    memcpy(l->number, bytes, n);
    return true;
}

void pf_ledger_give(const pf_ledger *l, int trial, pf_bank *b)
{
    for (int i = 0; i < PF_LEDGER_OPPORTUNITIES * l->probes; i++) {
        const double *from = answer(l, trial, i / l->probes, i % l->probes);
        pf_evidence *e = &b->evidence[i * 2];
        if (isnan(*from)) {
            continue;
        }
        e->known = true;
        e->norm = *from++;
        for (int t = 0; t < l->most; t++, from += MATCH_NUMBERS) {
            e->match[t] = (pf_match){.score = from[0],
                                     .coefficient = from[1],
                                     .remaining = from[2],
                                     .usable = from[3] != 0,
                                     .size = from[4],
                                     .off = from[5]};
        }
    }
}

void pf_ledger_take(pf_ledger *l, int trial, const pf_bank *b)
{
    for (int i = 0; i < PF_LEDGER_OPPORTUNITIES * l->probes; i++) {
        double *to = answer(l, trial, i / l->probes, i % l->probes);
        const pf_evidence *e = &b->evidence[i * 2];
        if (!e->known || !isnan(*to)) {
            continue;
        }
        l->fresh++;
        *to++ = e->norm;
        for (int t = 0; t < pf_kit_probe_targets(b->kit, i % l->probes, NULL); t++) {
            const pf_match *m = &e->match[t];
            const double numbers[MATCH_NUMBERS] = {m->score,  m->coefficient, m->remaining,
                                                   m->usable, m->size,        m->off};
            memcpy(to + t * MATCH_NUMBERS, numbers, sizeof numbers);
        }
    }
}
