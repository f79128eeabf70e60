// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "journal.h"

#include <string.h>

static pf_status predict(void *self, const pf_hypothesis *h, const double *start, int n_start,
                         double *response, pf_error *error)
{
    pf_witness *w = self;
    pf_status status = w->inner->predict(w->inner->self, h, start, n_start, response, error);
    if (status != PF_OK) {
        return status;
    }
    int rows = pf_kit_probe_rows(w->kit, h->probe), n_chan = pf_kit_get_info(w->kit).n_chan;
    if (h->mechanism == 0) {
        pf__text_clear(&w->nominal);
        pf__json_matrix(&w->nominal, rows, n_chan, response);
        return PF_OK;
    }
    if (h->others && h->gain == 1) {
        pf__text_add(&w->healthy, w->healthy.size > 0 ? "," : "");
        pf__json_matrix(&w->healthy, rows, n_chan, response);
        return PF_OK;
    }
    if (!w->per_gain && w->seen == pf_kit_probe_targets(w->kit, h->probe, NULL)) {
        // at g_cal it is one of the targets' own
        if (h->others || h->gain != pf_kit_get_info(w->kit).g_cal) {
            pf__json_matrix(&w->nearest, rows, n_chan, response);
        }
        return PF_OK;
    }
    int n_grid = pf_kit_get_info(w->kit).n_grid;
    bool opens = w->per_gain && w->seen % n_grid == 0;
    pf__text_add(&w->targets, w->seen > 0 ? "," : "");
    pf__text_add(&w->targets, opens ? "[" : "");
    pf__json_matrix(&w->targets, rows, n_chan, response);
    w->seen++;
    pf__text_add(&w->targets, w->per_gain && w->seen % n_grid == 0 ? "]" : "");
    return PF_OK;
}

static pf_status run(void *self, const pf_run *asked, const double *start, int n_start,
                     double *response, pf_error *error)
{
    pf_witness *w = self;
    pf_status status = w->inner->run(w->inner->self, asked, start, n_start, response, error);
    if (status != PF_OK) {
        return status;
    }
    pf_text *out = w->n_runs == 0 ? &w->nominal : &w->runs;
    pf__text_add(out, w->n_runs > 1 ? "," : "");
    pf__json_matrix(out, asked->rows, pf_kit_get_info(w->kit).n_chan, response);
    w->idle = w->idle || asked->idle;
    w->n_runs++;
    return PF_OK;
}

pf_predictor pf__witness_predictor(pf_witness *witness)
{
    return (pf_predictor){witness, predict, witness->inner->run ? run : NULL};
}

void pf__witness_clear(pf_witness *w)
{
    w->seen = w->n_runs = 0;
    w->idle = false;
    pf__text_clear(&w->nearest);
    pf__text_clear(&w->runs);
    pf__text_clear(&w->nominal);
    pf__text_clear(&w->healthy);
    pf__text_clear(&w->targets);
}

bool pf__witness_failed(const pf_witness *w)
{
    return w->nominal.failed || w->healthy.failed || w->targets.failed || w->nearest.failed ||
           w->runs.failed;
}

void pf__witness_start(pf_witness *w, const pf_kit *kit, const pf_predictor *inner, bool per_gain)
{
    w->kit = kit;
    w->inner = inner;
    w->per_gain = per_gain;
    pf__witness_clear(w);
}

// {"nominal":..,"fault":..} or {"nominal":..,"grid":..}, with several faults
// {"healthy":..,"grid":..}; nothing was predicted: nothing is added.
static void add_predictions(const pf_witness *w, pf_text *out)
{
    bool each = w->healthy.size > 0;
    if (w->nominal.size == 0 && !each) {
        return;
    }
    pf__json_key(out, "predictions");
    pf__text_add(out, each ? "{\"healthy\":[" : "{\"nominal\":");
    const pf_text *first = each ? &w->healthy : &w->nominal;
    pf__text_add_n(out, first->data, first->size);
    pf__text_add(out, each ? "]" : "");
    if (w->seen > 0) {
        pf__text_add(out, w->per_gain ? ",\"grid\":[" : ",\"fault\":[");
        pf__text_add_n(out, w->targets.data, w->targets.size);
        pf__text_add(out, "]");
    }
    if (w->nearest.size > 0) {
        pf__text_add(out, ",\"nearest\":");
        pf__text_add_n(out, w->nearest.data, w->nearest.size);
    }
    if (w->runs.size > 0) {
        pf__text_add(out, w->idle ? ",\"free\":" : ",\"edges\":[");
        pf__text_add_n(out, w->runs.data, w->runs.size);
        pf__text_add(out, w->idle ? "" : "]");
    }
    pf__text_add(out, "}");
}

void pf__witness_free(pf_witness *w)
{
    pf__text_free(&w->nominal);
    pf__text_free(&w->healthy);
    pf__text_free(&w->targets);
    pf__text_free(&w->nearest);
    pf__text_free(&w->runs);
}

void pf__journal_header(pf_text *out, const void *kit, size_t n_kit, const char *method,
                        uint64_t seed, const char *machine, const char *injected)
{
    pf__text_add(out, "{\"journal\":1,\"preflight\":\"" PF_VERSION "\",\"method\":");
    pf__json_string(out, method);
    if (machine) {
        pf__json_add_string(out, "machine", machine);
        pf__json_key(out, "injected");
        pf__json_string_or_null(out, injected);
    }
    pf__text_addf(out, ",\"seed\":%llu,\"kit\":\"", (unsigned long long)seed);
    pf__base64_encode(out, kit, n_kit);
    pf__text_add(out, "\"}");
}

void pf__journal_entry(pf_text *out, const pf_text *request, const pf_witness *witness,
                       const pf_text *reply)
{
    size_t before = out->size;
    pf__text_add(out, "{\"request\":");
    pf__text_join(out, request);
    if (witness) {
        add_predictions(witness, out);
    }
    pf__text_add(out, ",\"reply\":");
    pf__text_join(out, reply);
    pf__text_add(out, "}\n");
    out->failed = out->failed || (witness && pf__witness_failed(witness));
    if (out->failed && out->data) { // no half of an entry
        out->size = before;
        out->data[before] = 0;
    }
}

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void pf__base64_encode(pf_text *out, const void *data, size_t n)
{
    const uint8_t *p = data;
    for (size_t i = 0; i < n; i += 3) {
        uint32_t three = (uint32_t)p[i] << 16;
        three |= i + 1 < n ? (uint32_t)p[i + 1] << 8 : 0;
        three |= i + 2 < n ? (uint32_t)p[i + 2] : 0;
        char four[4] = {alphabet[three >> 18], alphabet[three >> 12 & 63],
                        i + 1 < n ? alphabet[three >> 6 & 63] : '=',
                        i + 2 < n ? alphabet[three & 63] : '='};
        pf__text_add_n(out, four, 4);
    }
}

size_t pf__base64_decode(const char *text, size_t n_text, void *data, size_t n)
{
    uint8_t *out = data;
    size_t used = 0;
    if (n_text % 4 != 0) {
        return SIZE_MAX;
    }
    for (size_t i = 0; i < n_text; i += 4) {
        uint32_t three = 0;
        int padding = 0;
        for (size_t k = 0; k < 4; k++) {
            char c = text[i + k];
            const char *at = c ? strchr(alphabet, c) : NULL;
            bool pad = c == '=' && i + 4 == n_text && k >= 2;
            if ((!at && !pad) || (at && padding > 0)) {
                return SIZE_MAX;
            }
            padding += pad;
            three = three << 6 | (at ? (uint32_t)(at - alphabet) : 0);
        }
        for (int k = 0; k < 3 - padding; k++) {
            if (used == n) {
                return SIZE_MAX;
            }
            out[used++] = (uint8_t)(three >> (16 - 8 * k));
        }
    }
    return used;
}
