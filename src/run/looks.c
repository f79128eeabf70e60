// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "looks.h"

const double *pf__ahead_next(pf_ahead *a, const pf_hypothesis *h)
{
    if (!a || a->next >= a->n || h->others) {
        return NULL;
    }
    const pf_hypothesis *next = &a->hypotheses[a->next];
    bool same = next->probe == h->probe && next->mechanism == h->mechanism && next->gain == h->gain;
    return same ? a->predicted + (size_t)a->next++ * a->window : NULL;
}

pf_status pf__looks_init(pf_looks *w, const pf_kit *kit, pf_error *error)
{
    size_t d = sizeof(double);
    *w = (pf_looks){.kit = kit, .info = pf_kit_get_info(kit)};
    w->n_state = (size_t)w->info.n_state + 1;
    w->window = (size_t)w->info.most_rows * (size_t)w->info.n_chan;
    size_t targets = (size_t)w->info.most_targets, grid = 1 + targets * (size_t)w->info.n_grid;
    size_t n = PF_ROLLS * (1 + targets);
    n = n > grid ? n : grid;
    w->start = pf__arena_take(&w->arena, PF_ROLLS * w->n_state, d);
    w->response = pf__arena_take(&w->arena, PF_ROLLS * w->window, d);
    w->predicted = pf__arena_take(&w->arena, n * w->window, d);
    w->hypotheses = pf__arena_take(&w->arena, n, sizeof *w->hypotheses);
    w->from = pf__arena_take(&w->arena, n, sizeof *w->from);
    w->to = pf__arena_take(&w->arena, n, sizeof *w->to);
    if (w->arena.failed) {
        pf__looks_free(w);
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for responses");
    }
    return PF_OK;
}

void pf__looks_free(pf_looks *w)
{
    pf__arena_free(&w->arena);
    *w = (pf_looks){.kit = NULL};
}

// Predicts the hypotheses 0..n-1.
static pf_status predict_all(pf_looks *w, const pf_predictor *predictor, int n, pf_error *error)
{
    pf_status status = PF_OK;
    for (int i = 0; i < n; i++) {
        w->to[i] = w->predicted + (size_t)i * w->window;
    }
    for (int i = 0; i < n && status == PF_OK; i += PF_ROLLS) {
        int some = n - i < PF_ROLLS ? n - i : PF_ROLLS;
        status = pf__predict_many(predictor, some, w->hypotheses + i, w->from + i, w->info.n_state,
                                  w->to + i, error);
    }
    return status;
}

static pf_status observe_all(pf_looks *w, pf_plant *plant, int n, const pf_probed *probed,
                             pf_error *error)
{
    pf_rig rigs[PF_ROLLS];
    int probes[PF_ROLLS];
    pf_key keys[PF_ROLLS];
    for (int i = 0; i < n; i++) {
        rigs[i] = (pf_rig){.plant = plant,
                           .kit = w->kit,
                           .gains = probed[i].gains,
                           .start = w->start + (size_t)i * w->n_state,
                           .response = w->response + (size_t)i * w->window};
        probes[i] = probed[i].probe;
        keys[i] = probed[i].key;
    }
    return pf__rigs_run(n, rigs, probes, keys, error);
}

pf_status pf__looks_run(pf_looks *w, pf_plant *plant, const pf_predictor *predictor, int n,
                        const pf_probed *probed, pf_error *error)
{
    pf_status status = observe_all(w, plant, n, probed, error);
    int at = 0;
    for (int i = 0; i < n; i++) {
        const int32_t *targets = NULL;
        int q = probed[i].probe, n_targets = pf_kit_probe_targets(w->kit, q, &targets);
        w->at[i] = at;
        for (int t = -1; t < n_targets; t++, at++) {
            w->hypotheses[at] = t < 0 ? (pf_hypothesis){q, 0, 1, NULL}
                                      : (pf_hypothesis){q, targets[t], w->info.g_cal, NULL};
            w->from[at] = w->start + (size_t)i * w->n_state;
        }
    }
    w->at[n] = at;
    return status ? status : predict_all(w, predictor, at, error);
}

pf_status pf__looks_grid(pf_looks *w, const pf_predictor *predictor, int probe, const double *start,
                         pf_error *error)
{
    const int32_t *targets = NULL;
    int grid = w->info.n_grid, n = 1 + grid * pf_kit_probe_targets(w->kit, probe, &targets);
    for (int i = 0; i < n; i++) {
        w->hypotheses[i] = i == 0 ? (pf_hypothesis){probe, 0, 1, NULL}
                                  : (pf_hypothesis){probe, targets[(i - 1) / grid],
                                                    w->info.grid[(i - 1) % grid], NULL};
        w->from[i] = start;
    }
    w->at[0] = 0;
    w->at[1] = n;
    return predict_all(w, predictor, n, error);
}

pf_ahead pf__looks_ahead(const pf_looks *w, int i)
{
    return (pf_ahead){.start = w->start + (size_t)i * w->n_state,
                      .response = w->response + (size_t)i * w->window,
                      .n = w->at[i + 1] - w->at[i],
                      .hypotheses = w->hypotheses + w->at[i],
                      .predicted = w->predicted + (size_t)w->at[i] * w->window,
                      .window = w->window};
}
