// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int num, den;
} shares[] = {
#define X(name, num, den) {#name, PF_METRIC_##num, PF_METRIC_##den},
    PF_SHARES(X)
#undef X
};

static const struct {
    const char *name;
    int metric, direction;
} ranks[] = {
#define X(name, direction) {"rank_" #name, PF_METRIC_##name, direction},
    PF_RANKED(X)
#undef X
};

const char *pf_statistic_id(int i)
{
    return i < PF_METRIC_COUNT ? pf_metric_name(i) : shares[i - PF_METRIC_COUNT].name;
}

const char *pf_rank_id(int rank)
{
    return ranks[rank].name;
}

// --- trials as clusters: what is drawn together

typedef struct cluster {
    int seed, trial;
} cluster;

// Sums and counts of every (method, cluster); equal columns of counts are kept once.
typedef struct table {
    int n_methods, n_clusters, width, n_patterns;
    cluster *clusters;
    double *cell;                 // methods x clusters x width: sums, then counts by pattern
    int pattern[PF_METRIC_COUNT]; // column of a metric's counts
} table;

static int compare_clusters(const void *a, const void *b)
{
    const cluster *x = a, *y = b;
    return x->seed != y->seed ? (x->seed > y->seed) - (x->seed < y->seed)
                              : (x->trial > y->trial) - (x->trial < y->trial);
}

static void table_free(table *t)
{
    free(t->clusters);
    free(t->cell);
}

static double *table_row(const table *t, int method, int at)
{
    return t->cell + ((size_t)method * (size_t)t->n_clusters + (size_t)at) * (size_t)t->width;
}

static pf_status find_clusters(table *t, const pf_row *const *rows, size_t n, pf_error *error)
{
    t->clusters = malloc((n ? n : 1) * sizeof *t->clusters);
    if (!t->clusters) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a table");
    }
    for (size_t i = 0; i < n; i++) {
        t->clusters[i] = (cluster){rows[i]->seed, rows[i]->trial};
    }
    qsort(t->clusters, n, sizeof *t->clusters, compare_clusters);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || compare_clusters(&t->clusters[i], &t->clusters[i - 1]) != 0) {
            t->clusters[t->n_clusters++] = t->clusters[i];
        }
    }
    return PF_OK;
}

static bool same_counts(const table *t, int a, int b)
{
    for (int m = 0; m < t->n_methods; m++) {
        for (int c = 0; c < t->n_clusters; c++) {
            const double *count = table_row(t, m, c) + PF_METRIC_COUNT;
            if (count[a] != count[b]) {
                return false;
            }
        }
    }
    return true;
}

// Most metrics are defined on the same trials: their counts need not be summed again.
static void merge_patterns(table *t)
{
    int representative[PF_METRIC_COUNT];
    for (int i = 0; i < PF_METRIC_COUNT; i++) {
        int p = 0;
        while (p < t->n_patterns && !same_counts(t, i, representative[p])) {
            p++;
        }
        if (p == t->n_patterns) {
            representative[t->n_patterns++] = i;
        }
        t->pattern[i] = PF_METRIC_COUNT + p;
    }
    // pack in place, front to back
    int packed = PF_METRIC_COUNT + t->n_patterns;
    size_t n = (size_t)t->n_methods * (size_t)t->n_clusters;
    for (size_t i = 0; i < n; i++) {
        double row[2 * PF_METRIC_COUNT];
        memcpy(row, t->cell + i * (size_t)t->width, sizeof row);
        for (int p = 0; p < t->n_patterns; p++) {
            row[PF_METRIC_COUNT + p] = row[PF_METRIC_COUNT + representative[p]];
        }
        memcpy(t->cell + i * (size_t)packed, row, (size_t)packed * sizeof *row);
    }
    t->width = packed;
}

static pf_status table_init(table *t, const pf_row *const *rows, size_t n, int n_methods,
                            pf_error *error)
{
    *t = (table){.n_methods = n_methods, .width = 2 * PF_METRIC_COUNT};
    pf_status status = find_clusters(t, rows, n, error);
    if (status != PF_OK) {
        return status;
    }
    size_t cells = (size_t)n_methods * (size_t)t->n_clusters * (size_t)t->width;
    t->cell = calloc(cells ? cells : 1, sizeof *t->cell);
    if (!t->cell) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a table");
    }
    for (size_t i = 0; i < n; i++) {
        cluster key = {rows[i]->seed, rows[i]->trial};
        const cluster *at = bsearch(&key, t->clusters, (size_t)t->n_clusters, sizeof *t->clusters,
                                    compare_clusters);
        double *cell = table_row(t, rows[i]->method, (int)(at - t->clusters));
        for (int k = 0; k < PF_METRIC_COUNT; k++) {
            if (!isnan(rows[i]->value[k])) {
                cell[k] += rows[i]->value[k];
                cell[PF_METRIC_COUNT + k] += 1;
            }
        }
    }
    merge_patterns(t);
    return PF_OK;
}

// --- statistics

static double divide(double sum, double count)
{
    return count > 0 ? sum / count : NAN;
}

// What a statistic divides, from the sums over clusters.
static void parts_of(const table *t, const double *sums, int statistic, double *sum, double *count)
{
    if (statistic < PF_METRIC_COUNT) {
        *sum = sums[statistic];
        *count = sums[t->pattern[statistic]];
        return;
    }
    int num = shares[statistic - PF_METRIC_COUNT].num,
        den = shares[statistic - PF_METRIC_COUNT].den;
    *sum = sums[num];
    // without any numerator there is no share
    *count = sums[t->pattern[num]] > 0 ? sums[den] : 0;
}

static pf_status sample_alloc(pf_sample *s, int n_methods, int n_seeds, pf_error *error)
{
    size_t cells = (size_t)n_methods * PF_STATISTIC_COUNT;
    *s = (pf_sample){.n_methods = n_methods, .n_seeds = n_seeds};
    s->seed_mean = calloc(cells * (size_t)(n_seeds ? n_seeds : 1), sizeof *s->seed_mean);
    s->sum = calloc(cells, sizeof *s->sum);
    s->count = calloc(cells, sizeof *s->count);
    s->resampled = calloc(cells * PF_RESAMPLES, sizeof *s->resampled);
    s->paired = calloc(cells, sizeof *s->paired);
    s->rank_resampled = calloc((size_t)PF_RANK_COUNT * PF_RESAMPLES, sizeof *s->rank_resampled);
    if (!s->seed_mean || !s->sum || !s->count || !s->resampled || !s->paired ||
        !s->rank_resampled) {
        pf_sample_free(s);
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a table");
    }
    return PF_OK;
}

void pf_sample_free(pf_sample *s)
{
    free(s->seed_mean);
    free(s->sum);
    free(s->count);
    free(s->resampled);
    free(s->paired);
    free(s->rank_resampled);
    *s = (pf_sample){0};
}

// Clusters of a seed are first..last-1.
static void seed_range(const table *t, int seed, int *first, int *last)
{
    *first = 0;
    while (*first < t->n_clusters && t->clusters[*first].seed < seed) {
        ++*first;
    }
    *last = *first;
    while (*last < t->n_clusters && t->clusters[*last].seed == seed) {
        ++*last;
    }
}

static void seed_means(pf_sample *s, const table *t)
{
    double sums[2 * PF_METRIC_COUNT];
    for (int m = 0; m < s->n_methods; m++) {
        for (int seed = 0; seed < s->n_seeds; seed++) {
            int first = 0, last = 0;
            seed_range(t, seed, &first, &last);
            memset(sums, 0, sizeof sums);
            for (int c = first; c < last; c++) {
                const double *row = table_row(t, m, c);
                for (int k = 0; k < t->width; k++) {
                    sums[k] += row[k];
                }
            }
            for (int i = 0; i < PF_STATISTIC_COUNT; i++) {
                size_t at = (size_t)m * PF_STATISTIC_COUNT + (size_t)i;
                double sum = 0, count = 0;
                parts_of(t, sums, i, &sum, &count);
                s->sum[at] += sum;
                s->count[at] += count;
                s->seed_mean[((size_t)m * (size_t)s->n_seeds + (size_t)seed) * PF_STATISTIC_COUNT +
                             (size_t)i] = divide(sum, count);
            }
        }
    }
}

// Adds one seed's statistics on drawn clusters; seen counts the seeds in which each is defined.
static void resample_seed(pf_sample *s, const table *t, int m, int first, int n,
                          const uint32_t *draws, uint16_t *seen)
{
    const double *base = table_row(t, m, first);
    const size_t width = (size_t)t->width;
    double *out = s->resampled + (size_t)m * PF_STATISTIC_COUNT * PF_RESAMPLES;
    for (int r = 0; r < PF_RESAMPLES; r++) {
        double sums[2 * PF_METRIC_COUNT] = {0};
        for (int d = 0; d < n; d++) {
            const double *row = base + draws[(size_t)r * (size_t)n + (size_t)d] * width;
            for (size_t k = 0; k < width; k++) {
                sums[k] += row[k];
            }
        }
        for (int i = 0; i < PF_STATISTIC_COUNT; i++) {
            double sum = 0, count = 0;
            parts_of(t, sums, i, &sum, &count);
            if (count > 0) {
                out[(size_t)i * PF_RESAMPLES + (size_t)r] += sum / count;
                seen[(size_t)i * PF_RESAMPLES + (size_t)r] += 1;
            }
        }
    }
}

static void finish_resamples(double *out, const uint16_t *seen)
{
    for (size_t i = 0; i < (size_t)PF_STATISTIC_COUNT * PF_RESAMPLES; i++) {
        out[i] = seen[i] ? out[i] / seen[i] : NAN;
    }
}

static pf_status resample(pf_sample *s, const table *t, pf_key key, pf_error *error)
{
    size_t per_method = (size_t)PF_STATISTIC_COUNT * PF_RESAMPLES;
    uint16_t *seen = calloc(per_method * (size_t)s->n_methods, sizeof *seen);
    uint32_t *draws =
        malloc((size_t)(t->n_clusters ? t->n_clusters : 1) * PF_RESAMPLES * sizeof *draws);
    if (!seen || !draws) {
        free(seen);
        free(draws);
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a table");
    }
    for (int seed = 0; seed < s->n_seeds; seed++) {
        int first = 0, last = 0;
        seed_range(t, seed, &first, &last);
        if (first == last) {
            continue;
        }
        // the same draws for all methods: what is compared stays paired
        pf_rng rng;
        pf_rng_init(&rng, pf_key_derive(key, (uint64_t)seed));
        for (size_t d = 0; d < (size_t)(last - first) * PF_RESAMPLES; d++) {
            draws[d] = pf_rng_below(&rng, (uint32_t)(last - first));
        }
        for (int m = 0; m < s->n_methods; m++) {
            resample_seed(s, t, m, first, last - first, draws, seen + per_method * (size_t)m);
        }
    }
    for (int m = 0; m < s->n_methods; m++) {
        finish_resamples(s->resampled + per_method * (size_t)m, seen + per_method * (size_t)m);
    }
    free(seen);
    free(draws);
    return PF_OK;
}

// Whether a method has values on exactly the trials on which the reference has.
static void mark_paired(pf_sample *s, const table *t, int reference)
{
    for (int m = 0; m < s->n_methods && reference >= 0; m++) {
        for (int i = 0; i < PF_STATISTIC_COUNT; i++) {
            int k = t->pattern[i < PF_METRIC_COUNT ? i : shares[i - PF_METRIC_COUNT].den];
            bool same = true;
            for (int c = 0; c < t->n_clusters && same; c++) {
                same = table_row(t, m, c)[k] == table_row(t, reference, c)[k];
            }
            s->paired[(size_t)m * PF_STATISTIC_COUNT + (size_t)i] = same;
        }
    }
}

// --- ranks

// 1 + methods that are better by more than rounding; NaN without a value or a competitor.
static double rank_of(const double *values, const bool *ranked, int n, int reference, int direction)
{
    double own = values[reference];
    int better = 0, competitors = 0;
    for (int m = 0; m < n; m++) {
        if (m != reference && ranked[m] && !isnan(values[m])) {
            competitors++;
            better += direction * (values[m] - own) > 1e-12;
        }
    }
    return isnan(own) || competitors == 0 ? NAN : 1 + better;
}

enum { MOST_METHODS = 64 };

static void rank_all(pf_sample *s, int reference, const bool *ranked)
{
    double values[MOST_METHODS], unused;
    for (int k = 0; k < PF_RANK_COUNT; k++) {
        size_t metric = (size_t)ranks[k].metric;
        s->rank[k] = NAN;
        for (int r = 0; r < PF_RESAMPLES; r++) {
            s->rank_resampled[(size_t)k * PF_RESAMPLES + (size_t)r] = NAN;
        }
        if (reference < 0 || s->n_methods > MOST_METHODS) {
            continue;
        }
        for (int m = 0; m < s->n_methods; m++) {
            double means[1024];
            int n = s->n_seeds < 1024 ? s->n_seeds : 1024;
            for (int seed = 0; seed < n; seed++) {
                means[seed] = s->seed_mean[((size_t)m * (size_t)s->n_seeds + (size_t)seed) *
                                               PF_STATISTIC_COUNT +
                                           metric];
            }
            pf_mean_sd(means, n, &values[m], &unused);
        }
        s->rank[k] = rank_of(values, ranked, s->n_methods, reference, ranks[k].direction);
        for (size_t r = 0; r < PF_RESAMPLES; r++) {
            for (int m = 0; m < s->n_methods; m++) {
                values[m] =
                    s->resampled[((size_t)m * PF_STATISTIC_COUNT + metric) * PF_RESAMPLES + r];
            }
            s->rank_resampled[(size_t)k * PF_RESAMPLES + r] =
                rank_of(values, ranked, s->n_methods, reference, ranks[k].direction);
        }
    }
}

pf_status pf_sample_init(pf_sample *s, const pf_row *const *rows, size_t n, int n_methods,
                         int n_seeds, int reference, const bool *ranked, pf_key key,
                         pf_error *error)
{
    table t = {0};
    *s = (pf_sample){0};
    pf_status status = table_init(&t, rows, n, n_methods, error);
    if (status == PF_OK) {
        status = sample_alloc(s, n_methods, n_seeds, error);
    }
    if (status == PF_OK) {
        seed_means(s, &t);
        mark_paired(s, &t, reference);
        status = resample(s, &t, key, error);
    }
    if (status == PF_OK) {
        rank_all(s, reference, ranked);
    } else {
        pf_sample_free(s);
    }
    table_free(&t);
    return status;
}

// --- over environments

// Mean of the defined values at the same place of several arrays.
static double mean_at(const double *const *arrays, int n, size_t at)
{
    double sum = 0;
    int kept = 0;
    for (int i = 0; i < n; i++) {
        if (!isnan(arrays[i][at])) {
            sum += arrays[i][at];
            kept++;
        }
    }
    return kept ? sum / kept : NAN;
}

enum { MOST_PARTS = 128 };

pf_status pf_sample_macro(pf_sample *s, const pf_sample *const *parts, int n_parts, pf_error *error)
{
    const double *arrays[MOST_PARTS];
    if (n_parts < 1 || n_parts > MOST_PARTS) {
        return pf_fail(error, PF_ERR_ARGUMENT, "a mean over %d environments", n_parts);
    }
    pf_status status = sample_alloc(s, parts[0]->n_methods, parts[0]->n_seeds, error);
    if (status != PF_OK) {
        return status;
    }
    size_t cells = (size_t)s->n_methods * PF_STATISTIC_COUNT;
    for (int i = 0; i < n_parts; i++) {
        arrays[i] = parts[i]->seed_mean;
        for (size_t c = 0; c < cells; c++) {
            s->sum[c] += parts[i]->sum[c];
            s->count[c] += parts[i]->count[c];
            s->paired[c] = (i == 0 || s->paired[c]) && parts[i]->paired[c];
        }
    }
    for (size_t at = 0; at < cells * (size_t)s->n_seeds; at++) {
        s->seed_mean[at] = mean_at(arrays, n_parts, at);
    }
    for (int i = 0; i < n_parts; i++) {
        arrays[i] = parts[i]->resampled;
    }
    for (size_t at = 0; at < cells * PF_RESAMPLES; at++) {
        s->resampled[at] = mean_at(arrays, n_parts, at);
    }
    for (int i = 0; i < n_parts; i++) {
        arrays[i] = parts[i]->rank_resampled;
    }
    for (size_t at = 0; at < (size_t)PF_RANK_COUNT * PF_RESAMPLES; at++) {
        s->rank_resampled[at] = mean_at(arrays, n_parts, at);
    }
    for (int i = 0; i < n_parts; i++) {
        arrays[i] = parts[i]->rank;
    }
    for (size_t k = 0; k < PF_RANK_COUNT; k++) {
        s->rank[k] = mean_at(arrays, n_parts, k);
    }
    return PF_OK;
}
