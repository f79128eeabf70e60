// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "exchange_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Coordinate exchange: one level of one mechanism in one step is changed at a time while that makes
// the least-squares coefficients surer. The plant is not run; a change of one mechanism's levels
// changes one row and column of two small matrices per start, the Gram matrix of the signatures and
// the covariance of their products with noise.

// A correlation matrix with a smaller pivot counts as singular.
#define PIVOT_LEAST 1e-9
// A larger variance of a coefficient says nothing.
#define TELLABLE 1e70
// Slack of the bound on outputs.
#define MOVE_MOST (1 + 1e-9)

static void *take(pf_exchange *x, size_t count, size_t size)
{
    return pf_arena_take(&x->arena, count, size);
}

pf_exchange *pf__exchange_create(const pf_sensitivity *s, int most, double factor)
{
    pf_exchange *x = calloc(1, sizeof *x);
    if (!x) {
        return NULL;
    }
    size_t n = (size_t)most, starts = (size_t)s->n_starts, d = sizeof(double);
    x->s = s;
    x->most = most;
    x->move_most = MOVE_MOST / factor;
    x->who = take(x, n, sizeof(int));
    x->levels = take(x, n * (size_t)s->steps, sizeof(int));
    for (int i = 0; i < MATRICES; i++) {
        x->with[i] = take(x, starts * (size_t)s->n_columns * n, d);
        x->matrix[i] = take(x, starts * n * n, d);
        x->trial[i] = take(x, n * n, d);
    }
    x->work = take(x, 3 * n * n, d);
    x->variance = take(x, n, d);
    x->move = take(x, starts * (size_t)s->n_moves + 1, d);
    x->before = take(x, starts * (size_t)s->n_moves + 1, d);
    x->next = take(x, 1, sizeof *x->next);
    if (x->arena.failed) {
        pf__exchange_destroy(x);
        return NULL;
    }
    return x;
}

void pf__exchange_destroy(pf_exchange *x)
{
    if (x) {
        pf_arena_free(&x->arena);
        free(x);
    }
}

double pf__exchange_cost(const pf_exchange *x)
{
    return x->cost;
}

bool pf__exchange_bounded(const pf_exchange *x)
{
    return x->s->n_moves > 0;
}

bool pf__exchange_within(const pf_exchange *x)
{
    return x->cost < TOO_FAR;
}

const int *pf__exchange_levels(const pf_exchange *x)
{
    return x->levels;
}

// --- the cost

// Inverse of a correlation matrix c (n x n, overwritten by its factor) into inverse. Gives how many
// signatures cannot be told from those before them; 0: it is one.
static int invert(int n, double *c, double *inverse)
{
    int lost = 0;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k <= i; k++) {
            double sum = c[i * n + k];
            for (int p = 0; p < k; p++) {
                sum -= c[i * n + p] * c[k * n + p];
            }
            lost += i == k && !(sum >= PIVOT_LEAST);
            c[i * n + k] = i == k ? sqrt(fmax(sum, PIVOT_LEAST)) : sum / c[k * n + k];
        }
    }
    if (lost > 0) {
        return lost;
    }
    // the factor's own inverse, in place
    for (int k = 0; k < n; k++) {
        c[k * n + k] = 1 / c[k * n + k];
        for (int i = k + 1; i < n; i++) {
            double sum = 0;
            for (int p = k; p < i; p++) {
                sum -= c[i * n + p] * c[p * n + k];
            }
            c[i * n + k] = sum / c[i * n + i];
        }
    }
    for (int i = 0; i < n; i++) {
        for (int k = 0; k <= i; k++) {
            double sum = 0;
            for (int p = i; p < n; p++) {
                sum += c[p * n + i] * c[p * n + k];
            }
            inverse[i * n + k] = inverse[k * n + i] = sum;
        }
    }
    return 0;
}

int pf__exchange_variance(int n, const double *gram, const double *noise, double *work,
                          double *variance, double *remaining)
{
    double *corr = work, *inverse = work + n * n, *left = work + 2 * n * n;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < n; k++) {
            double size = sqrt(gram[i * n + i]) * sqrt(gram[k * n + k]);
            corr[i * n + k] = i == k ? 1 : size > 0 ? gram[i * n + k] / size : 0;
        }
    }
    int lost = invert(n, corr, inverse);
    if (lost > 0) {
        for (int j = 0; j < n; j++) {
            variance[j] = HOPELESS;
            if (remaining) {
                remaining[j] = 0;
            }
        }
        return lost;
    }
    // (C^-1 N C^-1)_jj/|h_j|^2 with N = noise/(|h_i||h_k|)
    for (int j = 0; j < n; j++) {
        double size = sqrt(gram[j * n + j]);
        for (int i = 0; i < n; i++) {
            double other = sqrt(gram[i * n + i]);
            left[i] = other > 0 ? inverse[j * n + i] / other : 0;
        }
        double sum = 0;
        for (int i = 0; i < n; i++) {
            double row = 0;
            for (int k = 0; k < n; k++) {
                row += noise[i * n + k] * left[k];
            }
            sum += left[i] * row;
        }
        variance[j] = size > 0 && sum >= 0 ? sum / (size * size) : HOPELESS;
        if (remaining) {
            remaining[j] = size > 0 ? 1 / sqrt(inverse[j * n + j]) : 0;
        }
    }
    return 0;
}

// Adds the cost of one start to `sum`. Where signatures cannot be told apart, fewer of those are
// better.
static double add_cost(pf_exchange *x, const double *gram, const double *noise, double sum)
{
    int lost = pf__exchange_variance(x->n, gram, noise, x->work, x->variance, NULL);
    double hopeless = HOPELESS * (1 + lost / (double)x->n) / x->s->n_starts;
    for (int j = 0; j < x->n && lost == 0; j++) {
        double v = x->variance[j];
        // nearly the largest alone, yet with a slope for the others
        sum += v < TELLABLE ? v * v * v * v : hopeless / x->n;
    }
    return lost > 0 ? sum + hopeless : sum;
}

double pf__exchange_apart(double variance)
{
    return variance < TELLABLE ? 1 / sqrt(variance) : 0; // not for NaN either
}

double pf__exchange_separation(pf_exchange *x, double *separation)
{
    int n = x->n;
    double smallest = INFINITY;
    for (int j = 0; j < n; j++) {
        separation[j] = 0;
    }
    for (int s = 0; s < x->s->n_starts; s++) {
        size_t at = (size_t)s * (size_t)n * (size_t)n;
        pf__exchange_variance(n, x->matrix[GRAM] + at, x->matrix[NOISE] + at, x->work, x->variance,
                              NULL);
        for (int j = 0; j < n; j++) {
            separation[j] += x->variance[j] / x->s->n_starts;
        }
    }
    for (int j = 0; j < n; j++) {
        separation[j] = pf__exchange_apart(separation[j]);
        smallest = fmin(smallest, separation[j]);
    }
    return smallest;
}

// --- columns

static int column_of(const pf_exchange *x, int who, int step, int level)
{
    return ((x->who[who] - 1) * x->s->steps + step) * 2 + (level < 0);
}

static double weight_of(const pf_exchange *x, int who, int level)
{
    return (level < 0 ? -level : level) / (double)x->s->levels[x->who[who]].top;
}

static const double *matrix_of(const pf_sensitivity *s, int which, int start)
{
    size_t n = (size_t)s->n_columns;
    return (which == GRAM ? s->gram : s->noise) + (size_t)start * n * n;
}

// Products of every column with a mechanism's signature, changed by some columns.
static void add_products(pf_exchange *x, const change *c)
{
    const pf_sensitivity *s = x->s;
    for (int which = 0; which < MATRICES; which++) {
        for (int start = 0; start < s->n_starts; start++) {
            const double *a = matrix_of(s, which, start);
            double *with = x->with[which] + (size_t)start * (size_t)s->n_columns * (size_t)x->most;
            for (int g = 0; g < x->n; g++) {
                int first = (x->who[g] - 1) * s->steps * 2;
                for (int i = first; i < first + 2 * s->steps; i++) {
                    double sum = 0;
                    for (int e = 0; e < c->n; e++) {
                        // symmetric: along the rows of the few columns, they lie together
                        sum += c->weight[e] *
                               a[(size_t)c->column[e] * (size_t)s->n_columns + (size_t)i];
                    }
                    with[(size_t)i * (size_t)x->most + (size_t)c->who] += sum;
                }
            }
        }
    }
}

void pf__exchange_shift(pf_exchange *x, const change *c)
{
    const pf_sensitivity *s = x->s;
    for (int start = 0; start < s->n_starts && s->n_moves > 0; start++) {
        double *move = x->move + (size_t)start * (size_t)s->n_moves;
        for (int e = 0; e < c->n; e++) {
            const double *row =
                s->move +
                ((size_t)start * (size_t)s->n_columns + (size_t)c->column[e]) * (size_t)s->n_moves;
            for (int i = 0; i < s->n_moves; i++) {
                move[i] += c->weight[e] * row[i];
            }
        }
    }
}

// One matrix of one start after a change, into trial.
static void change_matrix(const pf_exchange *x, const change *c, int which, int start,
                          double *trial)
{
    const pf_sensitivity *s = x->s;
    int n = x->n, w = c->who;
    const double *a = matrix_of(s, which, start);
    const double *with = x->with[which] + (size_t)start * (size_t)s->n_columns * (size_t)x->most;
    memcpy(trial, x->matrix[which] + (size_t)start * (size_t)n * (size_t)n,
           (size_t)n * (size_t)n * sizeof *trial);
    double own = 0;
    for (int e = 0; e < c->n; e++) {
        const double *products = with + (size_t)c->column[e] * (size_t)x->most;
        for (int k = 0; k < n; k++) {
            if (k != w) {
                trial[w * n + k] += c->weight[e] * products[k];
            }
        }
        own += 2 * c->weight[e] * products[w];
        const double *row = a + (size_t)c->column[e] * (size_t)s->n_columns;
        for (int f = 0; f < c->n; f++) {
            own += c->weight[e] * c->weight[f] * row[c->column[f]];
        }
    }
    trial[w * n + w] += own;
    for (int k = 0; k < n; k++) {
        trial[k * n + w] = trial[w * n + k];
    }
}

double pf__exchange_excess(const pf_exchange *x, const change *c, double most)
{
    const pf_sensitivity *s = x->s;
    size_t moves = (size_t)s->n_moves;
    double sum = 0;
    for (int start = 0; start < s->n_starts; start++) {
        const double *move = x->move + (size_t)start * moves;
        for (size_t i = moves; i-- > 0;) { // what drifts is farthest off at the end
            double at = move[i];
            for (int e = 0; c && e < c->n; e++) {
                size_t row = (size_t)start * (size_t)s->n_columns + (size_t)c->column[e];
                at += c->weight[e] * s->move[row * moves + i];
            }
            if (!(fabs(at) <= x->move_most)) {
                double over = fabs(at) / x->move_most - 1;
                sum += over * over;
                if (!(sum < most)) {
                    return sum;
                }
            }
        }
    }
    return sum;
}

// What counts for an excess: more of it is always worse, and worse than any group within bounds.
static double excess_cost(double excess)
{
    return TOO_FAR * (1 + log1p(excess));
}

// The excess of a cost; 0: below it only what is within bounds counts.
static double cost_excess(double cost)
{
    return cost > TOO_FAR ? expm1(cost / TOO_FAR - 1) : 0;
}

double pf__exchange_change_cost(pf_exchange *x, const change *c, double limit)
{
    double excess = pf__exchange_excess(x, c, cost_excess(limit));
    if (excess > 0 || !isfinite(excess)) {
        return excess_cost(excess);
    }
    double sum = 0;
    for (int start = 0; start < x->s->n_starts && sum < limit; start++) {
        change_matrix(x, c, GRAM, start, x->trial[GRAM]);
        change_matrix(x, c, NOISE, start, x->trial[NOISE]);
        sum = add_cost(x, x->trial[GRAM], x->trial[NOISE], sum);
    }
    return sum;
}

void pf__exchange_accept(pf_exchange *x, const change *c)
{
    size_t n = (size_t)x->n;
    double sum = 0;
    for (int start = 0; start < x->s->n_starts; start++) {
        for (int which = 0; which < MATRICES; which++) {
            change_matrix(x, c, which, start, x->trial[which]);
            memcpy(x->matrix[which] + (size_t)start * n * n, x->trial[which],
                   n * n * sizeof(double));
        }
        sum = add_cost(x, x->trial[GRAM], x->trial[NOISE], sum);
    }
    add_products(x, c);
    pf__exchange_shift(x, c);
    memcpy(x->levels + c->who * x->s->steps, c->level, (size_t)x->s->steps * sizeof(int));
    double excess = pf__exchange_excess(x, NULL, INFINITY);
    x->cost = excess > 0 || !isfinite(excess) ? excess_cost(excess) : sum;
}

// --- setting a group

void pf__exchange_make_change(const pf_exchange *x, int who, const int *level, change *c)
{
    const int *now = x->levels + who * x->s->steps;
    c->who = who;
    c->n = 0;
    for (int r = 0; r < x->s->steps; r++) {
        c->level[r] = level[r];
        if (level[r] == now[r]) {
            continue;
        }
        if (now[r] != 0) {
            c->column[c->n] = column_of(x, who, r, now[r]);
            c->weight[c->n++] = -weight_of(x, who, now[r]);
        }
        if (level[r] != 0) {
            c->column[c->n] = column_of(x, who, r, level[r]);
            c->weight[c->n++] = weight_of(x, who, level[r]);
        }
    }
}

void pf__exchange_make_step(const pf_exchange *x, int who, int step, int level, change *c)
{
    int now = x->levels[who * x->s->steps + step];
    c->who = who;
    c->n = 0;
    if (now != 0) {
        c->column[c->n] = column_of(x, who, step, now);
        c->weight[c->n++] = -weight_of(x, who, now);
    }
    if (level != 0) {
        c->column[c->n] = column_of(x, who, step, level);
        c->weight[c->n++] = weight_of(x, who, level);
    }
}

void pf__exchange_clear(pf_exchange *x, int n, const int *group)
{
    const pf_sensitivity *s = x->s;
    x->n = n;
    x->cost = HOPELESS;
    memcpy(x->who, group, (size_t)n * sizeof(int));
    memset(x->levels, 0, (size_t)n * (size_t)s->steps * sizeof(int));
    for (int i = 0; i < MATRICES; i++) {
        memset(x->with[i], 0,
               (size_t)s->n_starts * (size_t)s->n_columns * (size_t)x->most * sizeof(double));
        memset(x->matrix[i], 0, (size_t)s->n_starts * (size_t)n * (size_t)n * sizeof(double));
    }
    memset(x->move, 0, ((size_t)s->n_starts * (size_t)s->n_moves + 1) * sizeof(double));
}

bool pf__exchange_set(pf_exchange *x, int n, const int *group, const int *levels)
{
    pf__exchange_clear(x, n, group);
    for (int i = 0; i < n; i++) {
        pf__exchange_make_change(x, i, levels + i * x->s->steps, x->next);
        pf__exchange_accept(x, x->next);
    }
    return pf__exchange_within(x);
}
