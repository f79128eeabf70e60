// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "aggregate.h"

#include "host/parallel.h"
#include "preflight/method.h"
#include "sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const rates[] = {"detection", "early",    "false_alarm",
                                    "located",   "coverage", "clipped"};

static bool is_in(const char *word, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(word, list[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_rate(int statistic)
{
    return statistic >= PF_METRIC_COUNT ||
           is_in(pf_statistic_id(statistic), rates, sizeof rates / sizeof rates[0]);
}

// --- the rows of an experiment

typedef struct rows {
    pf_entries *entries;
    pf_row *row;
    size_t n, capacity;
    int seed[1000]; // seed numbers, in order of appearance
    int n_seeds;
} rows;

static int seed_index(rows *r, int seed)
{
    for (int i = 0; i < r->n_seeds; i++) {
        if (r->seed[i] == seed) {
            return i;
        }
    }
    if (r->n_seeds == (int)(sizeof r->seed / sizeof r->seed[0])) {
        return -1;
    }
    r->seed[r->n_seeds] = seed;
    return r->n_seeds++;
}

static pf_status take_row(void *self, const pf_unit *unit, const char *method,
                          const pf_trial_result *result, pf_error *error)
{
    rows *r = self;
    pf_entries *c = r->entries;
    if (r->n == r->capacity) {
        size_t capacity = r->capacity ? 2 * r->capacity : 4096;
        pf_row *grown = realloc(r->row, capacity * sizeof *grown);
        if (!grown) {
            return pf_fail(error, PF_ERR_MEMORY, "out of memory for a table");
        }
        r->row = grown;
        r->capacity = capacity;
    }
    pf_row *row = &r->row[r->n];
    row->environment = pf_entries_index(c, &c->environment, &c->n_environments, unit->environment);
    row->setting = pf_entries_index(c, &c->setting, &c->n_settings, unit->setting);
    row->method = pf_entries_index(c, &c->method, &c->n_methods, method);
    row->seed = seed_index(r, unit->seed);
    row->trial = unit->trial;
    if (row->environment < 0 || row->setting < 0 || row->method < 0 || row->seed < 0) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a table");
    }
    memcpy(row->value, result->value, sizeof row->value);
    r->n++;
    return PF_OK;
}

static int method_order(const char *id)
{
    for (int i = 0; i < pf_method_count(); i++) {
        if (strcmp(pf_method_at(i)->id, id) == 0) {
            return i;
        }
    }
    return pf_method_count();
}

// Methods in the order of the table of methods, unknown ones after it.
static void sort_methods(rows *r)
{
    pf_entries *c = r->entries;
    for (int i = 1; i < c->n_methods; i++) {
        for (int k = i; k > 0 && method_order(c->method[k]) < method_order(c->method[k - 1]); k--) {
            char *name = c->method[k];
            c->method[k] = c->method[k - 1];
            c->method[k - 1] = name;
            for (size_t at = 0; at < r->n; at++) {
                int m = r->row[at].method;
                r->row[at].method = m == k ? k - 1 : m == k - 1 ? k : m;
            }
        }
    }
}

// --- pooled settings

static bool key_varies(const pf_entries *c, const char *key)
{
    char a[96], b[96];
    for (int i = 0; i < c->n_raw_settings; i++) {
        pf_setting_without(c->setting[i], key, a);
        for (int k = 0; k < i; k++) {
            pf_setting_without(c->setting[k], key, b);
            if (strcmp(a, b) == 0) {
                return true;
            }
        }
    }
    return false;
}

// Bits of mask: leave out g, leave out B2.
enum { POOL_G = 1, POOL_B2 = 2, POOL_BOTH = 3 };

static void pooled_name(const char *setting, int mask, char out[96])
{
    char rest[96];
    if (mask & POOL_G) {
        pf_setting_without(setting, "g", rest);
    } else {
        snprintf(rest, sizeof rest, "%s", setting);
    }
    if ((mask & POOL_B2) && strcmp(rest, PF_SETTING_ALL) != 0) {
        pf_setting_without(rest, "B2", out);
    } else {
        memcpy(out, rest, sizeof rest);
    }
}

// Whether a setting as run belongs to the (pooled) setting at an index.
static bool belongs(const pf_entries *c, const int *masks, int raw, int setting)
{
    char name[96];
    if (setting < c->n_raw_settings) {
        return raw == setting;
    }
    pooled_name(c->setting[raw], masks[setting - c->n_raw_settings], name);
    return strcmp(name, c->setting[setting]) == 0;
}

enum { MOST_POOLED = 256 };

static pf_status add_pooled(pf_entries *c, int *masks, pf_error *error)
{
    c->n_raw_settings = c->n_settings;
    bool g = key_varies(c, "g"), b2 = key_varies(c, "B2");
    for (int mask = POOL_G; mask <= POOL_BOTH; mask++) {
        if (((mask & POOL_G) && !g) || ((mask & POOL_B2) && !b2)) {
            continue;
        }
        for (int i = 0; i < c->n_raw_settings; i++) {
            char name[96];
            int before = c->n_settings;
            pooled_name(c->setting[i], mask, name);
            int at = pf_entries_index(c, &c->setting, &c->n_settings, name);
            if (at < 0 || at - c->n_raw_settings >= MOST_POOLED) {
                return pf_fail(error, PF_ERR_MEMORY, "too many settings for a table");
            }
            if (at >= before) {
                masks[at - c->n_raw_settings] = mask;
            }
        }
    }
    return PF_OK;
}

// --- entries

typedef struct work {
    pf_entries *entries;
    const rows *rows;
    const pf_row **sorted; // rows by environment and setting
    size_t *first;         // environments x raw settings + 1: where each starts
    const int *masks;
    int setting, reference;
    bool ranked[64];
    pf_sample *samples; // by environment
} work;

static pf_status add_entry(pf_entries *c, const int order[4], const char *metric,
                           const pf_entry *value, pf_error *error)
{
    pf_entry entry = *value;
    memcpy(entry.order, order, sizeof entry.order);
    entry.setting = c->setting[order[1]];
    entry.metric = pf_entries_intern(c, metric);
    entry.method = c->method[order[3]];
    bool added = entry.metric && entry.environment && pf_entries_add(c, &entry);
    return added ? PF_OK : pf_fail(error, PF_ERR_MEMORY, "out of memory for a table");
}

static size_t statistic_at(int method, int statistic)
{
    return (size_t)method * PF_STATISTIC_COUNT + (size_t)statistic;
}

static void seed_values(const pf_sample *s, int method, int statistic, double *out)
{
    for (int k = 0; k < s->n_seeds; k++) {
        out[k] = s->seed_mean[statistic_at(method * s->n_seeds + k, statistic)];
    }
}

// A metric of a method, or (reference >= 0) its paired difference to the reference.
static pf_entry make_entry(const pf_sample *s, int method, int statistic, int reference, bool macro)
{
    double seeds[1000], other[1000], draws[PF_RESAMPLES];
    size_t at = statistic_at(method, statistic);
    pf_entry entry = {.n = s->count[at]};
    seed_values(s, method, statistic, seeds);
    memcpy(draws, s->resampled + at * PF_RESAMPLES, sizeof draws);
    if (reference >= 0) {
        seed_values(s, reference, statistic, other);
        const double *base = s->resampled + statistic_at(reference, statistic) * PF_RESAMPLES;
        for (int k = 0; k < s->n_seeds; k++) {
            seeds[k] -= other[k];
        }
        for (int r = 0; r < PF_RESAMPLES; r++) {
            draws[r] -= base[r];
        }
    }
    pf_mean_sd(seeds, s->n_seeds, &entry.mean, &entry.sd);
    double share = s->count[at] > 0 ? s->sum[at] / s->count[at] : NAN;
    // a mean over environments is no pooled share, unless it is nothing or all
    bool exact = reference < 0 && is_rate(statistic) && (!macro || share == 0 || share == 1);
    pf_interval interval = exact ? pf_clopper_pearson(s->sum[at], s->count[at], .05)
                                 : pf_percentiles(draws, PF_RESAMPLES, .05);
    entry.lo = interval.lo;
    entry.hi = interval.hi;
    return entry;
}

static pf_status add_ranks(work *w, pf_sample *s, const char *environment, int order[4],
                           pf_error *error)
{
    pf_status status = PF_OK;
    for (int k = 0; k < PF_RANK_COUNT && w->reference >= 0 && status == PF_OK; k++) {
        if (isnan(s->rank[k])) {
            continue;
        }
        pf_interval interval =
            pf_percentiles(s->rank_resampled + (size_t)k * PF_RESAMPLES, PF_RESAMPLES, .05);
        pf_entry entry = {.environment = environment,
                          .mean = s->rank[k],
                          .sd = NAN,
                          .lo = interval.lo,
                          .hi = interval.hi,
                          .n = s->count[statistic_at(w->reference, PF_METRIC_probes)]};
        order[2] = 2 * PF_STATISTIC_COUNT + k;
        order[3] = w->reference;
        status = add_entry(w->entries, order, pf_rank_id(k), &entry, error);
    }
    return status;
}

static pf_status add_sample(work *w, pf_sample *s, const char *environment, int place, bool macro,
                            pf_error *error)
{
    pf_status status = PF_OK;
    int order[4] = {place, w->setting, 0, 0};
    for (int m = 0; m < s->n_methods && status == PF_OK; m++) {
        for (int i = 0; i < PF_STATISTIC_COUNT && status == PF_OK; i++) {
            char metric[80];
            order[3] = m;
            order[2] = i;
            pf_entry entry = make_entry(s, m, i, -1, macro);
            entry.environment = environment;
            if (isnan(entry.mean)) {
                continue;
            }
            status = add_entry(w->entries, order, pf_statistic_id(i), &entry, error);
            if (status != PF_OK || m == w->reference || w->reference < 0 ||
                !s->paired[statistic_at(m, i)]) {
                continue;
            }
            snprintf(metric, sizeof metric, "%s" PF_DIFFERENCE, pf_statistic_id(i));
            order[2] = PF_STATISTIC_COUNT + i;
            entry = make_entry(s, m, i, w->reference, macro);
            entry.environment = environment;
            if (!isnan(entry.mean)) {
                status = add_entry(w->entries, order, metric, &entry, error);
            }
        }
    }
    return status == PF_OK ? add_ranks(w, s, environment, order, error) : status;
}

// --- one setting, all environments

static pf_status sample_environment(void *self, int worker, size_t item, pf_error *error)
{
    (void)worker;
    work *w = self;
    const pf_entries *c = w->entries;
    const pf_row **mine = NULL;
    size_t n = 0;
    for (int pass = 0; pass < 2; pass++) {
        n = 0;
        for (int raw = 0; raw < c->n_raw_settings; raw++) {
            size_t slot = item * (size_t)c->n_raw_settings + (size_t)raw;
            size_t count = w->first[slot + 1] - w->first[slot];
            if (!belongs(c, w->masks, raw, w->setting)) {
                continue;
            }
            if (pass == 1) {
                memcpy(mine + n, w->sorted + w->first[slot], count * sizeof *mine);
            }
            n += count;
        }
        if (pass == 0 && !(mine = malloc((n ? n : 1) * sizeof *mine))) {
            return pf_fail(error, PF_ERR_MEMORY, "out of memory for a table");
        }
    }
    pf_key key = pf_key_text(pf_key_text(pf_key_root(0), "bootstrap"), c->environment[item]);
    pf_status status = pf_sample_init(&w->samples[item], mine, n, c->n_methods, w->rows->n_seeds,
                                      w->reference, w->ranked, key, error);
    free(mine);
    return status;
}

static pf_status add_macro(work *w, const char *name, int place, const char *const *shown,
                           int n_shown, pf_error *error)
{
    const pf_sample *parts[128];
    pf_entries *c = w->entries;
    int n = 0;
    for (int e = 0; e < c->n_environments && n < 128; e++) {
        if (!shown || is_in(c->environment[e], shown, (size_t)n_shown)) {
            parts[n++] = &w->samples[e];
        }
    }
    // the second one only where it says something else
    if (n < 2 || (shown && n == c->n_environments)) {
        return PF_OK;
    }
    pf_sample macro = {0};
    pf_status status = pf_sample_macro(&macro, parts, n, error);
    if (status == PF_OK) {
        status = add_sample(w, &macro, pf_entries_intern(c, name), place, true, error);
    }
    pf_sample_free(&macro);
    return status;
}

static pf_status aggregate_setting(work *w, const pf_aggregate_options *options, pf_error *error)
{
    pf_entries *c = w->entries;
    pf_status status =
        pf_parallel(options->effort, pf_threads(options->effort), (size_t)c->n_environments,
                    sample_environment, w, "table", error);
    if (status == PF_OK && options->n_shown > 0) {
        status = add_macro(w, PF_MACRO_SHOWN, c->n_environments, options->shown, options->n_shown,
                           error);
    }
    if (status == PF_OK) {
        status = add_macro(w, PF_MACRO, c->n_environments + 1, NULL, 0, error);
    }
    for (int e = 0; e < c->n_environments; e++) {
        if (status == PF_OK) {
            status = add_sample(w, &w->samples[e], c->environment[e], e, false, error);
        }
        pf_sample_free(&w->samples[e]);
    }
    return status;
}

static int compare_rows(const void *a, const void *b)
{
    const pf_row *x = *(const pf_row *const *)a, *y = *(const pf_row *const *)b;
    int by_environment = (x->environment > y->environment) - (x->environment < y->environment);
    int by_setting = (x->setting > y->setting) - (x->setting < y->setting);
    int by_place = (x > y) - (x < y);
    return by_environment ? by_environment : by_setting ? by_setting : by_place;
}

static pf_status sort_rows(work *w, pf_error *error)
{
    const rows *r = w->rows;
    const pf_entries *c = w->entries;
    size_t slots = (size_t)c->n_environments * (size_t)c->n_raw_settings, at = 0;
    w->sorted = malloc((r->n ? r->n : 1) * sizeof *w->sorted);
    w->first = malloc((slots + 1) * sizeof *w->first);
    w->samples = calloc((size_t)c->n_environments + 1, sizeof *w->samples);
    if (!w->sorted || !w->first || !w->samples) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a table");
    }
    for (size_t i = 0; i < r->n; i++) {
        w->sorted[i] = &r->row[i];
    }
    qsort(w->sorted, r->n, sizeof *w->sorted, compare_rows);
    for (size_t slot = 0; slot <= slots; slot++) {
        while (at < r->n && (size_t)w->sorted[at]->environment * (size_t)c->n_raw_settings +
                                    (size_t)w->sorted[at]->setting <
                                slot) {
            at++;
        }
        w->first[slot] = at;
    }
    return PF_OK;
}

static pf_status aggregate_rows(rows *r, const pf_aggregate_options *options, pf_error *error)
{
    pf_entries *c = r->entries;
    int masks[MOST_POOLED] = {0};
    work w = {.entries = c, .rows = r, .masks = masks, .reference = -1};
    sort_methods(r);
    pf_status status = add_pooled(c, masks, error);
    for (int m = 0; m < c->n_methods && m < 64; m++) {
        w.reference = strcmp(c->method[m], PF_REFERENCE) == 0 ? m : w.reference;
        w.ranked[m] = pf_method_of_paper(c->method[m]);
    }
    if (status == PF_OK) {
        status = sort_rows(&w, error);
    }
    for (w.setting = 0; w.setting < c->n_settings && status == PF_OK; w.setting++) {
        status = aggregate_setting(&w, options, error);
    }
    free(w.sorted);
    free(w.first);
    free(w.samples);
    if (status == PF_OK && !pf_entries_sort(c)) {
        status = pf_fail(error, PF_ERR_MEMORY, "out of memory for a table");
    }
    return status;
}

pf_status pf_aggregate(pf_entries *entries, pf_store *store, const char *hash,
                       const pf_aggregate_options *options, pf_error *error)
{
    *entries = (pf_entries){0};
    rows *r = calloc(1, sizeof *r);
    if (!r) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a table");
    }
    r->entries = entries;
    pf_status status = PF_OK;
    for (int e = 0; e < options->n_environments; e++) {
        if (pf_entries_index(entries, &entries->environment, &entries->n_environments,
                             options->environments[e]) < 0) {
            status = pf_fail(error, PF_ERR_MEMORY, "out of memory for a table");
        }
    }
    if (status == PF_OK) {
        status = pf_store_rows(store, hash, take_row, r, error);
    }
    if (status == PF_OK) {
        status = aggregate_rows(r, options, error);
    }
    free(r->row);
    free(r);
    if (status != PF_OK) {
        pf_entries_free(entries);
    }
    return status;
}
