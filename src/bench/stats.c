// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "stats.h"
#include "core/rng.h"

#include "host/parallel.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_METHODS = 64, MOST_SEEDS = 1000 };

static pf_status no_memory(pf_error *error)
{
    return pf_fail(error, PF_ERR_MEMORY, "out of memory for a table");
}

// --- intervals

// Continued fraction of the incomplete beta function (modified Lentz); converges fast for
// x < (a + 1)/(a + b + 2).
static double beta_fraction(double a, double b, double x)
{
    const double tiny = 1e-300;
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double h = d;
    for (int m = 1; m < 10000; m++) {
        double change = 1;
        for (int half = 0; half < 2; half++) {
            double term = half == 0 ? m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
                                    : -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
            d = 1 + term * d;
            c = 1 + term / c;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            c = fabs(c) < tiny ? tiny : c;
            change *= d * c;
            h *= d * c;
        }
        if (fabs(change - 1) < 1e-15) {
            break;
        }
    }
    return h;
}

// Regularised incomplete beta function I_x(a, b), a and b > 0, x in [0, 1].
static double beta_share(double a, double b, double x)
{
    if (!(x > 0) || !(x < 1)) {
        return x >= 1 ? 1 : 0;
    }
    double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a
                                     : 1 - front * beta_fraction(b, a, 1 - x) / b;
}

// The x at which I_x(a, b) reaches p, by bisection.
static double beta_quantile(double a, double b, double p)
{
    double lo = 0, hi = 1;
    for (int i = 0; i < 60; i++) {
        double middle = (lo + hi) / 2;
        if (beta_share(a, b, middle) < p) {
            lo = middle;
        } else {
            hi = middle;
        }
    }
    return (lo + hi) / 2;
}

pf_interval pf__clopper_pearson(double k, double n, double alpha)
{
    pf_interval out = {NAN, NAN};
    if (n > 0) {
        out.lo = k <= 0 ? 0 : beta_quantile(k, n - k + 1, alpha / 2);
        out.hi = k >= n ? 1 : beta_quantile(k + 1, n - k, 1 - alpha / 2);
    }
    return out;
}

static void swap(double *a, double *b)
{
    double t = *a;
    *a = *b;
    *b = t;
}

// Puts the k-th smallest value at its place, smaller ones before it (Hoare).
static void select_nth(double *v, int n, int k)
{
    int lo = 0, hi = n - 1;
    while (lo < hi) {
        double pivot = v[lo + (hi - lo) / 2];
        int i = lo, j = hi;
        while (i <= j) {
            while (v[i] < pivot) {
                i++;
            }
            while (v[j] > pivot) {
                j--;
            }
            if (i <= j) {
                swap(&v[i++], &v[j--]);
            }
        }
        if (k <= j) {
            hi = j;
        } else if (k >= i) {
            lo = i;
        } else {
            return;
        }
    }
}

static double quantile(double *v, int n, double p)
{
    double place = p * (n - 1);
    int k = (int)floor(place);
    select_nth(v, n, k);
    double low = v[k], next = low;
    for (int i = k + 1; i < n; i++) {
        next = i == k + 1 || v[i] < next ? v[i] : next;
    }
    return low + (place - k) * (next - low);
}

pf_interval pf__percentiles(double *values, int n, double alpha)
{
    int kept = 0;
    for (int i = 0; i < n; i++) {
        if (!isnan(values[i])) {
            values[kept++] = values[i];
        }
    }
    if (kept == 0) {
        return (pf_interval){NAN, NAN};
    }
    double lo = quantile(values, kept, alpha / 2);
    return (pf_interval){lo, quantile(values, kept, 1 - alpha / 2)};
}

// Mean and sample standard deviation of the values that are defined; sd is NaN for fewer than two.
static void mean_sd(const double *values, int n, double *mean, double *sd)
{
    double sum = 0, squares = 0;
    int kept = 0;
    for (int i = 0; i < n; i++) {
        if (!isnan(values[i])) {
            sum += values[i];
            kept++;
        }
    }
    *mean = kept ? sum / kept : NAN;
    for (int i = 0; i < n; i++) {
        if (!isnan(values[i])) {
            squares += (values[i] - *mean) * (values[i] - *mean);
        }
    }
    *sd = kept > 1 ? sqrt(squares / (kept - 1)) : NAN;
}

// --- one environment and setting

// The trials of one environment and one (pooled) setting, all methods: statistics by seed, and the
// same statistics on resampled trials. Every statistic is a sum over a sum, so means of a metric
// and shares of pooled counts are one case.

// Shares of counts, pooled within a seed and divided: name, numerator, denominator.
#define PF_SHARES(X)                                                                               \
    X(violation, violated, deployed)                                                               \
    X(violation_changed, changed_violated, changed_deployed)                                       \
    X(false_ready_share, false_ready, deployed)                                                    \
    X(false_ready_changed, changed_false_ready, changed_deployed)                                  \
    X(mute_share, mute_looks, fault_looks)                                                         \
    X(safe_coverage, safe_ready, contracts)                                                        \
    X(unsafe_coverage, false_ready, contracts)                                                     \
    X(clipped_go_share, clipped_go, clipped)                                                       \
    X(clipped_false_share, clipped_false, clipped_go)                                              \
    X(clipped_recovered_share, clipped_recovered, clipped)

// Metrics in which a method is ranked: name, direction (1: higher is better).
#define PF_RANKED(X)                                                                               \
    X(compensation_error, -1)                                                                      \
    X(worst_error, -1)                                                                             \
    X(crps, -1)                                                                                    \
    X(probes, -1)                                                                                  \
    X(coverage, 1)

enum {
#define X(name, num, den) PF_SHARE_##name,
    PF_SHARES(X)
#undef X
        PF_SHARE_COUNT,
    PF_STATISTIC_COUNT = PF_METRIC_COUNT + PF_SHARE_COUNT, // metrics, then shares
    PF_RESAMPLES = 2000
};

enum {
#define X(name, direction) PF_RANK_##name,
    PF_RANKED(X)
#undef X
        PF_RANK_COUNT
};

// One stored trial of one method; names are indices into lists of the caller's.
typedef struct trial_row {
    int environment, setting, method, seed, trial;
    int layout;   // which metrics it has
    size_t value; // where they begin
} trial_row;

// Which metrics a row has, in ascending order. A suite defines few of all, and most rows the same.
typedef struct row_layout {
    int n, metric[PF_METRIC_COUNT];
} row_layout;

// The rows of an experiment.
typedef struct rows {
    pf_entries *entries;
    trial_row *row;
    size_t n;
    double *value; // of all rows, one row after the other
    size_t n_values, room;
    row_layout *layout;
    int n_layouts;
    int seed[MOST_SEEDS]; // seed numbers, in order of appearance
    int n_seeds;
} rows;

typedef struct sample {
    bool empty; // no trials
    int n_methods, n_seeds;
    double *seed_mean; // methods x seeds x statistics; NaN: undefined
    double *sum;       // methods x statistics: pooled over seeds
    double *count;     // methods x statistics: what the sum is divided by
    double *resampled; // methods x statistics x PF_RESAMPLES: mean of seed means
    bool *paired;      // methods x statistics: same trials as the reference
    double rank[PF_RANK_COUNT];
    double *rank_resampled; // ranks x PF_RESAMPLES; NaN: undefined
    pf_arena arena;         // of all that
} sample;

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

static const char *statistic_id(int i) // "crps" or "violation"
{
    return i < PF_METRIC_COUNT ? pf__metric_name(i) : shares[i - PF_METRIC_COUNT].name;
}

// --- trials as clusters: what is drawn together

typedef struct cluster {
    int seed, trial;
} cluster;

// Columns that are added up side by side, in registers.
enum { LANES = 8, MOST_WIDTH = 2 * PF_METRIC_COUNT + LANES };

// Sums and counts of every (method, cluster), of the metrics that any row has; equal columns of
// counts are kept once. LANES columns of a method's clusters lie together: resampling walks over
// them in any order, and they fit a near cache.
typedef struct sums_table {
    int n_methods, n_clusters, n_patterns;
    cluster *clusters;
    int n_columns, n_slabs;       // of sums; slabs of a method
    double *slab;                 // methods x slabs x clusters x LANES; free it
    int column[PF_METRIC_COUNT];  // of a metric's sums; -1: no row has it
    int pattern[PF_METRIC_COUNT]; // column of a metric's counts
    pf_arena arena;
} sums_table;

static int compare_clusters(const void *a, const void *b)
{
    const cluster *x = a, *y = b;
    return x->seed != y->seed ? (x->seed > y->seed) - (x->seed < y->seed)
                              : (x->trial > y->trial) - (x->trial < y->trial);
}

// The first of LANES columns of a method's cluster.
static double *slab_at(const sums_table *t, int method, int slab, int at)
{
    size_t row = (size_t)method * (size_t)t->n_slabs + (size_t)slab;
    return t->slab + (row * (size_t)t->n_clusters + (size_t)at) * LANES;
}

static double table_value(const sums_table *t, int method, int at, int column)
{
    return slab_at(t, method, column / LANES, at)[column % LANES];
}

static pf_status find_clusters(sums_table *t, const trial_row *const *mine, size_t n,
                               pf_error *error)
{
    t->clusters = pf__arena_take(&t->arena, n, sizeof *t->clusters);
    if (!t->clusters) {
        return no_memory(error);
    }
    for (size_t i = 0; i < n; i++) {
        t->clusters[i] = (cluster){mine[i]->seed, mine[i]->trial};
    }
    qsort(t->clusters, n, sizeof *t->clusters, compare_clusters);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || compare_clusters(&t->clusters[i], &t->clusters[i - 1]) != 0) {
            t->clusters[t->n_clusters++] = t->clusters[i];
        }
    }
    return PF_OK;
}

// Sums and counts before equal counts are merged: methods x clusters x (sums, counts).
static bool same_counts(const sums_table *t, const double *cell, int a, int b)
{
    size_t n = (size_t)t->n_columns, cells = (size_t)t->n_methods * (size_t)t->n_clusters;
    for (size_t i = 0; i < cells; i++) {
        const double *count = cell + i * 2 * n + n;
        if (count[a] != count[b]) {
            return false;
        }
    }
    return true;
}

// Most metrics are defined on the same trials: their counts need not be summed again.
static pf_status merge_patterns(sums_table *t, const double *cell, pf_error *error)
{
    int representative[PF_METRIC_COUNT], of[PF_METRIC_COUNT], n = t->n_columns;
    for (int i = 0; i < n; i++) {
        int p = 0;
        while (p < t->n_patterns && !same_counts(t, cell, i, representative[p])) {
            p++;
        }
        if (p == t->n_patterns) {
            representative[t->n_patterns++] = i;
        }
        of[i] = n + p;
    }
    for (int k = 0; k < PF_METRIC_COUNT; k++) {
        t->pattern[k] = t->column[k] < 0 ? -1 : of[t->column[k]];
    }
    t->n_slabs = (n + t->n_patterns + LANES - 1) / LANES;
    size_t cells = (size_t)t->n_methods * (size_t)t->n_clusters;
    size_t bytes = (cells * (size_t)t->n_slabs + 1) * LANES * sizeof *t->slab;
    t->slab = pf__pages_take(bytes); // a row of a slab is a line of the cache
    if (!t->slab) {
        return no_memory(error);
    }
    memset(t->slab, 0, bytes);
    for (size_t i = 0; i < cells; i++) {
        int method = (int)(i / (size_t)t->n_clusters), at = (int)(i % (size_t)t->n_clusters);
        const double *row = cell + i * 2 * (size_t)n;
        for (int k = 0; k < n + t->n_patterns; k++) {
            slab_at(t, method, k / LANES, at)[k % LANES] =
                k < n ? row[k] : row[n + representative[k - n]];
        }
    }
    return PF_OK;
}

// The metrics that any of these rows has become columns.
static void find_columns(sums_table *t, const rows *all, const trial_row *const *mine, size_t n)
{
    bool any[PF_METRIC_COUNT] = {false};
    int last = -1;
    for (size_t i = 0; i < n; i++) {
        const row_layout *l = &all->layout[mine[i]->layout];
        for (int k = 0; k < l->n && mine[i]->layout != last; k++) {
            any[l->metric[k]] = true;
        }
        last = mine[i]->layout;
    }
    for (int k = 0; k < PF_METRIC_COUNT; k++) {
        t->column[k] = any[k] ? t->n_columns++ : -1;
    }
}

static void add_row(const sums_table *t, const rows *all, const trial_row *row, double *cells)
{
    cluster key = {row->seed, row->trial};
    const cluster *at =
        bsearch(&key, t->clusters, (size_t)t->n_clusters, sizeof *t->clusters, compare_clusters);
    size_t place = (size_t)row->method * (size_t)t->n_clusters + (size_t)(at - t->clusters);
    double *cell = cells + place * 2 * (size_t)t->n_columns;
    const row_layout *l = &all->layout[row->layout];
    for (int k = 0; k < l->n; k++) {
        int column = t->column[l->metric[k]];
        cell[column] += all->value[row->value + (size_t)k];
        cell[t->n_columns + column] += 1;
    }
}

static pf_status table_init(sums_table *t, const rows *all, const trial_row *const *mine, size_t n,
                            int n_methods, pf_error *error)
{
    *t = (sums_table){.n_methods = n_methods};
    pf_status status = find_clusters(t, mine, n, error);
    if (status != PF_OK) {
        return status;
    }
    find_columns(t, all, mine, n);
    size_t cells = (size_t)n_methods * (size_t)t->n_clusters;
    double *cell = calloc(cells * (size_t)t->n_columns + 1, 2 * sizeof *cell);
    if (!cell) {
        return no_memory(error);
    }
    for (size_t i = 0; i < n; i++) {
        add_row(t, all, mine[i], cell);
    }
    status = merge_patterns(t, cell, error);
    free(cell);
    return status;
}

static void table_free(sums_table *t)
{
    free(t->slab);
    pf__arena_free(&t->arena);
}

// --- statistics

// What a statistic divides, from the sums over clusters.
static void parts_of(const sums_table *t, const double *sums, int statistic, double *sum,
                     double *count)
{
    bool share = statistic >= PF_METRIC_COUNT;
    int num = share ? shares[statistic - PF_METRIC_COUNT].num : statistic;
    *sum = *count = 0;
    if (t->column[num] < 0) {
        return;
    }
    *sum = sums[t->column[num]];
    *count = sums[t->pattern[num]];
    if (share) {
        // without any numerator there is no share
        int den = t->column[shares[statistic - PF_METRIC_COUNT].den];
        *count = *count > 0 && den >= 0 ? sums[den] : 0;
    }
}

static pf_status sample_alloc(sample *s, int n_methods, int n_seeds, pf_error *error)
{
    size_t cells = (size_t)n_methods * PF_STATISTIC_COUNT, d = sizeof(double);
    *s = (sample){.n_methods = n_methods, .n_seeds = n_seeds};
    s->seed_mean = pf__arena_take(&s->arena, cells * (size_t)n_seeds, d);
    s->sum = pf__arena_take(&s->arena, cells, d);
    s->count = pf__arena_take(&s->arena, cells, d);
    s->resampled = pf__arena_take(&s->arena, cells * PF_RESAMPLES, d);
    s->paired = pf__arena_take(&s->arena, cells, sizeof *s->paired);
    s->rank_resampled = pf__arena_take(&s->arena, (size_t)PF_RANK_COUNT * PF_RESAMPLES, d);
    return s->arena.failed ? no_memory(error) : PF_OK;
}

static size_t statistic_at(int method, int statistic)
{
    return (size_t)method * PF_STATISTIC_COUNT + (size_t)statistic;
}

static void seed_values(const sample *s, int method, int statistic, double *out)
{
    for (int k = 0; k < s->n_seeds; k++) {
        out[k] = s->seed_mean[statistic_at(method * s->n_seeds + k, statistic)];
    }
}

// The first cluster whose seed is not below this one.
static int seed_begin(const sums_table *t, int seed)
{
    int lo = 0, hi = t->n_clusters;
    while (lo < hi) {
        int middle = lo + (hi - lo) / 2;
        if (t->clusters[middle].seed < seed) {
            lo = middle + 1;
        } else {
            hi = middle;
        }
    }
    return lo;
}

// Clusters of a seed are first..last-1.
static void seed_range(const sums_table *t, int seed, int *first, int *last)
{
    *first = seed_begin(t, seed);
    *last = seed_begin(t, seed + 1);
}

static void seed_means(sample *s, const sums_table *t)
{
    double sums[MOST_WIDTH];
    for (int m = 0; m < s->n_methods; m++) {
        for (int seed = 0; seed < s->n_seeds; seed++) {
            int first = 0, last = 0;
            seed_range(t, seed, &first, &last);
            memset(sums, 0, sizeof sums);
            for (int slab = 0; slab < t->n_slabs; slab++) {
                const double *row = slab_at(t, m, slab, first);
                for (int c = first; c < last; c++, row += LANES) {
                    for (int k = 0; k < LANES; k++) {
                        sums[slab * LANES + k] += row[k];
                    }
                }
            }
            for (int i = 0; i < PF_STATISTIC_COUNT; i++) {
                size_t at = statistic_at(m, i);
                double sum = 0, count = 0;
                parts_of(t, sums, i, &sum, &count);
                s->sum[at] += sum;
                s->count[at] += count;
                s->seed_mean[statistic_at(m * s->n_seeds + seed, i)] =
                    count > 0 ? sum / count : NAN;
            }
        }
    }
}

// Sums of one slab over drawn clusters, in the order of the draws. By itself, so that the compiler
// keeps the sums in registers.
#if defined(__GNUC__)
__attribute__((noinline))
#endif
static void
sum_slab(const double *base, int n, const uint32_t *draws, double out[LANES])
{
    double sum[LANES] = {0};
    for (int d = 0; d < n; d++) {
        const double *row = base + (size_t)draws[d] * LANES;
        for (int k = 0; k < LANES; k++) {
            sum[k] += row[k];
        }
    }
    memcpy(out, sum, sizeof sum);
}

// Adds one seed's statistics on drawn clusters, as resample `r`; seen counts the seeds in which
// each is defined.
static void resample_seed(sample *s, const sums_table *t, int m, int r, const double *sums,
                          uint16_t *seen)
{
    for (int i = 0; i < PF_STATISTIC_COUNT; i++) {
        double sum = 0, count = 0;
        parts_of(t, sums, i, &sum, &count);
        if (count > 0) {
            size_t at = statistic_at(m, i) * PF_RESAMPLES + (size_t)r;
            s->resampled[at] += sum / count;
            seen[at] += 1;
        }
    }
}

static pf_status resample(sample *s, const sums_table *t, pf_key key, pf_error *error)
{
    size_t n = (size_t)s->n_methods * PF_STATISTIC_COUNT * PF_RESAMPLES;
    uint16_t *seen = calloc(n, sizeof *seen);
    uint32_t *draws = malloc((size_t)(t->n_clusters ? t->n_clusters : 1) * sizeof *draws);
    if (!seen || !draws) {
        free(seen);
        free(draws);
        return no_memory(error);
    }
    for (int seed = 0; seed < s->n_seeds; seed++) {
        int first = 0, last = 0;
        seed_range(t, seed, &first, &last);
        pf_rng rng;
        pf_rng_init(&rng, pf__key_derive(key, (uint64_t)seed));
        for (int r = 0; r < PF_RESAMPLES && first < last; r++) {
            // the same draws for all methods: what is compared stays paired
            for (int d = 0; d < last - first; d++) {
                draws[d] = pf_rng_below(&rng, (uint32_t)(last - first));
            }
            for (int m = 0; m < s->n_methods; m++) {
                double sums[MOST_WIDTH];
                for (int slab = 0; slab < t->n_slabs; slab++) {
                    sum_slab(slab_at(t, m, slab, first), last - first, draws, sums + slab * LANES);
                }
                resample_seed(s, t, m, r, sums, seen);
            }
        }
    }
    for (size_t i = 0; i < n; i++) {
        s->resampled[i] = seen[i] ? s->resampled[i] / seen[i] : NAN;
    }
    free(seen);
    free(draws);
    return PF_OK;
}

// Whether a method has values on exactly the trials on which the reference has.
static void mark_paired(sample *s, const sums_table *t, int reference)
{
    for (int m = 0; m < s->n_methods && reference >= 0; m++) {
        for (int i = 0; i < PF_STATISTIC_COUNT; i++) {
            int k = t->pattern[i < PF_METRIC_COUNT ? i : shares[i - PF_METRIC_COUNT].den];
            bool same = true;
            for (int c = 0; c < t->n_clusters && same && k >= 0; c++) {
                same = table_value(t, m, c, k) == table_value(t, reference, c, k);
            }
            s->paired[statistic_at(m, i)] = same;
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

static void rank_all(sample *s, int reference, const bool *ranked)
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
            double means[MOST_SEEDS];
            seed_values(s, m, ranks[k].metric, means);
            mean_sd(means, s->n_seeds, &values[m], &unused);
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

// Rows of one environment (any order) whose settings are pooled; trials of a seed are resampled
// together with all methods and settings of theirs. reference: index of the method to pair with and
// to rank, -1 for none; ranked: which methods take part in ranks.
static pf_status sample_init(sample *s, const rows *all, const trial_row *const *mine, size_t n,
                             int n_methods, int reference, const bool *ranked, pf_key key,
                             pf_error *error)
{
    sums_table t = {0};
    *s = (sample){0};
    pf_status status = table_init(&t, all, mine, n, n_methods, error);
    status = status ? status : sample_alloc(s, n_methods, all->n_seeds, error);
    if (status == PF_OK) {
        seed_means(s, &t);
        mark_paired(s, &t, reference);
        status = resample(s, &t, key, error);
    }
    if (status == PF_OK) {
        s->empty = n == 0;
        rank_all(s, reference, ranked);
    } else {
        pf__arena_free(&s->arena);
    }
    table_free(&t);
    return status;
}

// --- over environments

// Means of the defined values at the same place of n arrays, all of that size.
static void mean_of(int n, const double *const *arrays, size_t size, double *out)
{
    for (size_t at = 0; at < size; at++) {
        double sum = 0;
        int kept = 0;
        for (int i = 0; i < n; i++) {
            if (!isnan(arrays[i][at])) {
                sum += arrays[i][at];
                kept++;
            }
        }
        out[at] = kept ? sum / kept : NAN;
    }
}

enum { MOST_PARTS = 128 };

// Mean over environments, seed by seed and resample by resample.
static pf_status sample_macro(sample *s, const sample *const *parts, int n_parts, pf_error *error)
{
    if (n_parts < 1 || n_parts > MOST_PARTS) {
        return pf_fail(error, PF_ERR_ARGUMENT, "a mean over %d environments", n_parts);
    }
    pf_status status = sample_alloc(s, parts[0]->n_methods, parts[0]->n_seeds, error);
    if (status != PF_OK) {
        return status;
    }
    size_t cells = (size_t)s->n_methods * PF_STATISTIC_COUNT;
    const double *means[MOST_PARTS], *resampled[MOST_PARTS], *rank[MOST_PARTS];
    const double *rank_resampled[MOST_PARTS];
    for (int i = 0; i < n_parts; i++) {
        means[i] = parts[i]->seed_mean;
        resampled[i] = parts[i]->resampled;
        rank[i] = parts[i]->rank;
        rank_resampled[i] = parts[i]->rank_resampled;
        for (size_t c = 0; c < cells; c++) {
            s->sum[c] += parts[i]->sum[c];
            s->count[c] += parts[i]->count[c];
            s->paired[c] = (i == 0 || s->paired[c]) && parts[i]->paired[c];
        }
    }
    mean_of(n_parts, means, cells * (size_t)s->n_seeds, s->seed_mean);
    mean_of(n_parts, resampled, cells * PF_RESAMPLES, s->resampled);
    mean_of(n_parts, rank, PF_RANK_COUNT, s->rank);
    mean_of(n_parts, rank_resampled, (size_t)PF_RANK_COUNT * PF_RESAMPLES, s->rank_resampled);
    return PF_OK;
}

// --- what metrics and methods are

static const char *const higher[] = {"log_score",
                                     "detection",
                                     "located",
                                     "selective_return",
                                     "coverage",
                                     "changed_return",
                                     "changed_task_return",
                                     "gate_openings",
                                     "min_ttc",
                                     "min_headway",
                                     "tail_ttc",
                                     "otif",
                                     "safe_coverage",
                                     "all_named",
                                     "go",
                                     "all_go",
                                     "right_go",
                                     "bound"};
static const char *const neutral[] = {"deployed",         "violated",
                                      "false_ready",      "changed_deployed",
                                      "changed_violated", "changed_false_ready",
                                      "fault_looks",      "mute_looks",
                                      "clipped",          "attainable_return",
                                      "mute_share",       "coordinate",
                                      "coordinate_bias",  "contracts",
                                      "safe_ready",       "clipped_go",
                                      "clipped_false",    "clipped_recovered",
                                      "clipped_go_share", "clipped_recovered_share",
                                      "misfit",           "rehearsals"};
const char *const pf__compared[PF_BASELINES + 1] = {
    "random", "bayes-risk", "bandit-qcd", "sept", "asid-fim", "opax", "task-oed", PF_REFERENCE};

static bool is_in(const char *word, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(word, list[i]) == 0) {
            return true;
        }
    }
    return false;
}
#define IS_IN(word, list) is_in((word), (list), sizeof(list) / sizeof(list)[0])

int pf__metric_direction(const char *metric)
{
    return IS_IN(metric, neutral) ? 0 : IS_IN(metric, higher) ? 1 : -1;
}

bool pf__entry_metric_known(const char *metric)
{
    size_t n = strlen(metric), tail = strlen(PF_DIFFERENCE);
    char base[64];
    if (n > tail && strcmp(metric + n - tail, PF_DIFFERENCE) == 0) {
        n -= tail;
    }
    snprintf(base, sizeof base, "%.*s", (int)n, metric);
    for (int i = 0; i < PF_STATISTIC_COUNT; i++) {
        if (strcmp(base, statistic_id(i)) == 0) {
            return true;
        }
    }
    for (int i = 0; i < PF_RANK_COUNT; i++) {
        if (strcmp(metric, ranks[i].name) == 0) {
            return true;
        }
    }
    return false;
}

static const char *const labels[][2] = {
    {"attitude", "Attitude"},
    {"building", "Building"},
    {"pump_tank", "Pump network"},
    {"battery", "Battery pack"},
    {"reaction_wheel", "Reaction wheel"},
    {"aircraft", "Aircraft"},
    {"wood_berry", "Distillation"},
    {"dc_servo", "Servo"},
    {"quad_tank", "Quad tank"},
    {"quadrotor", "Quadrotor"},
    {"wind_pitch", "Turbine"},
    {"pendulum", "Pendulum"},
    {"acrobot", "Acrobot"},
    {"cartpole", "CartPole"},
    {"gym:BipedalWalker-v3", "BipedalWalker"},
    {"gym:BipedalWalkerHardcore-v3", "Hardcore"},
    {"gym:CarRacing-v3", "CarRacing"},
    {"grid2op", "Grid2Op"},
    {"highway", "highway-v0"},
    {"inventory_serial", "Serial, backlog"},
    {"inventory_lost_sales", "Serial, lost sales"},
    {"inventory_multi", "Multi-echelon"},
    {PF_MACRO, "Mean of all"},
    {PF_MACRO_SHOWN, "Mean of these"},
};

const char *pf__label_environment(const char *environment)
{
    for (size_t i = 0; i < sizeof labels / sizeof labels[0]; i++) {
        if (strcmp(labels[i][0], environment) == 0) {
            return labels[i][1];
        }
    }
    return environment;
}

const char *pf__label_method(const char *method)
{
    const pf_method *m = pf_method_find(method);
    bool own = strncmp(method, PF_METHOD_OWN, strlen(PF_METHOD_OWN)) == 0;
    return m ? m->label : own ? method + strlen(PF_METHOD_OWN) : method;
}

void pf__label_metric(const char *metric, char out[64])
{
    snprintf(out, 64, "%s", metric);
    for (char *at = out; *at; at++) {
        *at = *at == '_' ? ' ' : *at;
    }
}

// A setting without one of its keys; PF_SETTING_ALL if nothing is left.
static void setting_without(const char *setting, const char *key, char out[96])
{
    size_t length = strlen(key), used = 0;
    out[0] = 0;
    while (*setting) {
        size_t n = strcspn(setting, ";");
        bool match = n > length && setting[length] == '=' && strncmp(setting, key, length) == 0;
        if (!match && used + n + 2 < 96) {
            used +=
                (size_t)snprintf(out + used, 96 - used, "%s%.*s", used ? ";" : "", (int)n, setting);
        }
        setting += n + (setting[n] == ';');
    }
    if (used == 0) {
        strcpy(out, PF_SETTING_ALL);
    }
}

// --- names

// A list of n with room for one more; it doubles when n is a power of two. NULL: out of memory, and
// the list is as it was.
static void *grown(void *list, size_t n, size_t size)
{
    bool full = (n & (n - 1)) == 0;
    return full ? realloc(list, (n > 0 ? 2 * n : 1) * size) : list;
}

static char *known_name(const pf_entries *c, const char *name)
{
    for (int i = 0; i < c->n_names; i++) {
        if (strcmp(c->name[i], name) == 0) {
            return c->name[i];
        }
    }
    return NULL;
}

char *pf__entries_intern(pf_entries *c, const char *name)
{
    char *known = known_name(c, name);
    if (known) {
        return known;
    }
    char **names = grown(c->name, (size_t)c->n_names, sizeof *names);
    c->name = names ? names : c->name;
    char *copy = names ? malloc(strlen(name) + 1) : NULL;
    return copy ? c->name[c->n_names++] = strcpy(copy, name) : NULL;
}

// Index of a name in a list that grows; -1: out of memory.
int pf__entries_index(pf_entries *c, char ***list, int *n, const char *name)
{
    for (int i = 0; i < *n; i++) {
        if (strcmp((*list)[i], name) == 0) {
            return i;
        }
    }
    char *own = pf__entries_intern(c, name);
    char **names = own ? grown(*list, (size_t)*n, sizeof *names) : NULL;
    if (!names) {
        return -1;
    }
    *list = names;
    names[*n] = own;
    return (*n)++;
}

void pf__entries_free(pf_entries *c)
{
    for (int i = 0; i < c->n_names; i++) {
        free(c->name[i]);
    }
    free(c->name);
    free(c->environment);
    free(c->setting);
    free(c->method);
    free(c->entry);
    free(c->slot);
    *c = (pf_entries){0};
}

// Names are kept once, so their addresses tell them apart.
static size_t hash_names(const pf_entry *e)
{
    const char *const names[] = {e->environment, e->setting, e->metric, e->method};
    uint64_t hash = 0;
    for (int i = 0; i < 4; i++) {
        hash = pf__key_derive(hash, (uint64_t)(uintptr_t)names[i]);
    }
    return (size_t)hash;
}

static bool same_names(const pf_entry *a, const pf_entry *b)
{
    return a->metric == b->metric && a->method == b->method && a->setting == b->setting &&
           a->environment == b->environment;
}

const pf_entry *pf__entries_find(const pf_entries *c, const char *environment, const char *setting,
                                 const char *metric, const char *method)
{
    pf_entry key = {.environment = known_name(c, environment),
                    .setting = known_name(c, setting),
                    .metric = known_name(c, metric),
                    .method = known_name(c, method)};
    for (size_t at = hash_names(&key); c->n_slots; at++) {
        uint32_t slot = c->slot[at & (c->n_slots - 1)];
        if (slot == 0) {
            return NULL;
        }
        if (same_names(&c->entry[slot - 1], &key)) {
            return &c->entry[slot - 1];
        }
    }
    return NULL;
}

pf_entry *pf__entries_add(pf_entries *c, const pf_entry *entry)
{
    pf_entry *entries = grown(c->entry, c->n, sizeof *entries);
    if (!entries) {
        return NULL;
    }
    c->entry = entries;
    c->entry[c->n] = *entry;
    return &c->entry[c->n++];
}

static int compare_entries(const void *a, const void *b)
{
    const pf_entry *x = a, *y = b;
    for (int k = 0; k < 4; k++) {
        if (x->order[k] != y->order[k]) {
            return x->order[k] < y->order[k] ? -1 : 1;
        }
    }
    return 0;
}

bool pf__entries_sort(pf_entries *c)
{
    free(c->slot);
    c->n_slots = 16;
    while (c->n_slots < 2 * c->n) {
        c->n_slots *= 2;
    }
    c->slot = calloc(c->n_slots, sizeof *c->slot);
    if (!c->slot) {
        c->n_slots = 0;
        return false;
    }
    if (c->n > 0) {
        qsort(c->entry, c->n, sizeof *c->entry, compare_entries);
    }
    for (size_t i = 0; i < c->n; i++) {
        size_t at = hash_names(&c->entry[i]);
        while (c->slot[at & (c->n_slots - 1)]) {
            at++;
        }
        c->slot[at & (c->n_slots - 1)] = (uint32_t)(i + 1);
    }
    return true;
}

// --- from trials to entries

static const char *const rates[] = {"detection", "early",  "false_alarm", "located", "coverage",
                                    "clipped",   "all_go", "false_go",    "misfit"};

static bool is_rate(int statistic)
{
    return statistic >= PF_METRIC_COUNT || IS_IN(statistic_id(statistic), rates);
}

// --- the rows of an experiment

static int seed_index(rows *r, int seed)
{
    for (int i = 0; i < r->n_seeds; i++) {
        if (r->seed[i] == seed) {
            return i;
        }
    }
    if (r->n_seeds == MOST_SEEDS) {
        return -1;
    }
    r->seed[r->n_seeds] = seed;
    return r->n_seeds++;
}

// The layout of a result, from the list; -1: out of memory.
static int layout_index(rows *r, const row_layout *wanted)
{
    for (int i = 0; i < r->n_layouts; i++) {
        const row_layout *l = &r->layout[i];
        if (l->n == wanted->n &&
            memcmp(l->metric, wanted->metric, (size_t)l->n * sizeof *l->metric) == 0) {
            return i;
        }
    }
    row_layout *all = grown(r->layout, (size_t)r->n_layouts, sizeof *all);
    if (!all) {
        return -1;
    }
    r->layout = all;
    all[r->n_layouts] = *wanted;
    return r->n_layouts++;
}

// Keeps the values that are defined.
static pf_status keep_values(rows *r, trial_row *row, const pf_trial_result *result,
                             pf_error *error)
{
    row_layout layout = {0};
    if (r->room - r->n_values < PF_METRIC_COUNT) {
        size_t room = 2 * r->room + PF_METRIC_COUNT;
        double *all = realloc(r->value, room * sizeof *all);
        if (!all) {
            return no_memory(error);
        }
        r->value = all;
        r->room = room;
    }
    row->value = r->n_values;
    for (int k = 0; k < PF_METRIC_COUNT; k++) {
        if (!isnan(result->value[k])) {
            layout.metric[layout.n++] = k;
            r->value[r->n_values++] = result->value[k];
        }
    }
    row->layout = layout_index(r, &layout);
    return row->layout < 0 ? no_memory(error) : PF_OK;
}

static pf_status take_row(void *self, const pf_unit *unit, const char *method,
                          const pf_trial_result *result, pf_error *error)
{
    rows *r = self;
    pf_entries *c = r->entries;
    trial_row *all = grown(r->row, r->n, sizeof *all);
    if (!all) {
        return no_memory(error);
    }
    r->row = all;
    trial_row *row = &r->row[r->n];
    row->environment = pf__entries_index(c, &c->environment, &c->n_environments, unit->environment);
    row->setting = pf__entries_index(c, &c->setting, &c->n_settings, unit->setting);
    row->method = pf__entries_index(c, &c->method, &c->n_methods, method);
    row->seed = seed_index(r, unit->seed);
    row->trial = unit->trial;
    if (row->environment < 0 || row->setting < 0 || row->method < 0 || row->seed < 0) {
        return no_memory(error);
    }
    r->n++;
    return keep_values(r, row, result, error);
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
        setting_without(c->setting[i], key, a);
        for (int k = 0; k < i; k++) {
            setting_without(c->setting[k], key, b);
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
        setting_without(setting, "g", rest);
    } else {
        snprintf(rest, sizeof rest, "%s", setting);
    }
    if ((mask & POOL_B2) && strcmp(rest, PF_SETTING_ALL) != 0) {
        setting_without(rest, "B2", out);
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
            int at = pf__entries_index(c, &c->setting, &c->n_settings, name);
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
    const trial_row **sorted; // rows by environment and setting
    size_t *first;            // environments x raw settings + 1: where each starts
    const int *masks;
    int setting, reference;
    bool ranked[MOST_METHODS];
    sample *samples; // by environment
} work;

static pf_status add_entry(pf_entries *c, const int order[4], const char *metric,
                           const pf_entry *value, pf_error *error)
{
    pf_entry entry = *value;
    memcpy(entry.order, order, sizeof entry.order);
    entry.setting = c->setting[order[1]];
    entry.metric = pf__entries_intern(c, metric);
    entry.method = c->method[order[3]];
    bool added = entry.metric && entry.environment && pf__entries_add(c, &entry);
    return added ? PF_OK : no_memory(error);
}

// A metric of a method, or (reference >= 0) its paired difference to the reference.
static pf_entry make_entry(const sample *s, int method, int statistic, int reference, bool macro)
{
    double seeds[MOST_SEEDS], other[MOST_SEEDS], draws[PF_RESAMPLES];
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
    mean_sd(seeds, s->n_seeds, &entry.mean, &entry.sd);
    double share = s->count[at] > 0 ? s->sum[at] / s->count[at] : NAN;
    // a mean over environments is no pooled share, unless it is nothing or all
    bool exact = reference < 0 && is_rate(statistic) && (!macro || share == 0 || share == 1);
    pf_interval interval = exact ? pf__clopper_pearson(s->sum[at], s->count[at], .05)
                                 : pf__percentiles(draws, PF_RESAMPLES, .05);
    entry.lo = interval.lo;
    entry.hi = interval.hi;
    return entry;
}

static pf_status add_ranks(work *w, sample *s, const char *environment, int order[4],
                           pf_error *error)
{
    pf_status status = PF_OK;
    for (int k = 0; k < PF_RANK_COUNT && w->reference >= 0 && status == PF_OK; k++) {
        if (isnan(s->rank[k])) {
            continue;
        }
        pf_interval interval =
            pf__percentiles(s->rank_resampled + (size_t)k * PF_RESAMPLES, PF_RESAMPLES, .05);
        pf_entry entry = {.environment = environment,
                          .mean = s->rank[k],
                          .sd = NAN,
                          .lo = interval.lo,
                          .hi = interval.hi,
                          .n = s->count[statistic_at(w->reference, PF_METRIC_probes)]};
        order[2] = 2 * PF_STATISTIC_COUNT + k;
        order[3] = w->reference;
        status = add_entry(w->entries, order, ranks[k].name, &entry, error);
    }
    return status;
}

static pf_status add_sample(work *w, sample *s, const char *environment, int place, bool macro,
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
            status = add_entry(w->entries, order, statistic_id(i), &entry, error);
            if (status != PF_OK || m == w->reference || w->reference < 0 ||
                !s->paired[statistic_at(m, i)]) {
                continue;
            }
            snprintf(metric, sizeof metric, "%s" PF_DIFFERENCE, statistic_id(i));
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
    const trial_row **mine = NULL;
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
            return no_memory(error);
        }
    }
    pf_key key = pf__key_text(pf__key_text(pf_key_root(0), "bootstrap"), c->environment[item]);
    pf_status status = sample_init(&w->samples[item], w->rows, mine, n, c->n_methods, w->reference,
                                   w->ranked, key, error);
    free(mine);
    return status;
}

static pf_status add_macro(work *w, const char *name, int place, const char *const *shown,
                           int n_shown, pf_error *error)
{
    const sample *parts[MOST_PARTS];
    pf_entries *c = w->entries;
    int n = 0;
    bool whole = true;
    for (int e = 0; e < c->n_environments && n < MOST_PARTS; e++) {
        if (!shown || is_in(c->environment[e], shown, (size_t)n_shown)) {
            whole = whole && !w->samples[e].empty;
            parts[n++] = &w->samples[e];
        }
    }
    // of all environments or not at all; the second one only where it says something else
    if (n < 2 || !whole || (shown && n == c->n_environments)) {
        return PF_OK;
    }
    sample macro = {0};
    pf_status status = sample_macro(&macro, parts, n, error);
    status =
        status ? status : add_sample(w, &macro, pf__entries_intern(c, name), place, true, error);
    pf__arena_free(&macro.arena);
    return status;
}

static pf_status aggregate_setting(work *w, const pf_aggregate_options *options, pf_error *error)
{
    pf_entries *c = w->entries;
    pf_status status =
        pf__parallel(options->effort, pf__threads(options->effort), (size_t)c->n_environments,
                     sample_environment, w, "table", error);
    if (status == PF_OK && options->n_shown > 0) {
        status = add_macro(w, PF_MACRO_SHOWN, c->n_environments, options->shown, options->n_shown,
                           error);
    }
    status = status ? status : add_macro(w, PF_MACRO, c->n_environments + 1, NULL, 0, error);
    for (int e = 0; e < c->n_environments; e++) {
        status =
            status ? status : add_sample(w, &w->samples[e], c->environment[e], e, false, error);
        pf__arena_free(&w->samples[e].arena);
    }
    return status;
}

static int compare_rows(const void *a, const void *b)
{
    const trial_row *x = *(const trial_row *const *)a, *y = *(const trial_row *const *)b;
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
        return no_memory(error);
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
    for (int m = 0; m < c->n_methods && m < MOST_METHODS; m++) {
        w.reference = strcmp(c->method[m], PF_REFERENCE) == 0 ? m : w.reference;
        w.ranked[m] = IS_IN(c->method[m], pf__compared);
    }
    status = status ? status : sort_rows(&w, error);
    for (w.setting = 0; w.setting < c->n_settings && status == PF_OK; w.setting++) {
        status = aggregate_setting(&w, options, error);
    }
    free(w.sorted);
    free(w.first);
    free(w.samples);
    if (status == PF_OK && !pf__entries_sort(c)) {
        status = no_memory(error);
    }
    return status;
}

pf_status pf__aggregate(pf_entries *entries, pf_store *store, const char *hash,
                        const pf_aggregate_options *options, pf_error *error)
{
    *entries = (pf_entries){0};
    rows *r = calloc(1, sizeof *r);
    if (!r) {
        return no_memory(error);
    }
    r->entries = entries;
    pf_status status = PF_OK;
    const struct {
        char ***list;
        int *n, n_names;
        const char *const *names;
    } orders[] = {{&entries->environment, &entries->n_environments, options->n_environments,
                   options->environments},
                  {&entries->setting, &entries->n_settings, options->n_settings, options->settings},
                  {&entries->method, &entries->n_methods, options->n_methods, options->methods}};
    for (size_t k = 0; k < sizeof orders / sizeof orders[0]; k++) {
        for (int i = 0; i < orders[k].n_names; i++) {
            if (pf__entries_index(entries, orders[k].list, orders[k].n, orders[k].names[i]) < 0) {
                status = no_memory(error);
            }
        }
    }
    status = status ? status : pf__store_rows(store, hash, take_row, r, error);
    status = status ? status : aggregate_rows(r, options, error);
    free(r->row);
    free(r->value);
    free(r->layout);
    free(r);
    if (status != PF_OK) {
        pf__entries_free(entries);
    }
    return status;
}
