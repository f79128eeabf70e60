// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "design_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Coordinate exchange: one level of one mechanism in one step is changed at a time while that makes
// the least-squares coefficients surer. The plant is not run; a change of one mechanism's levels
// changes one row and column of two small matrices per start, the Gram matrix of the signatures and
// the covariance of their products with noise.

enum { GRAM, NOISE, MATRICES };

// Cost of a group that cannot be told at all.
#define HOPELESS 1e300
// A correlation matrix with a smaller pivot counts as having this one.
#define PIVOT_LEAST 1e-9
// A change must lower the cost by this share, so that rounding cannot go in circles.
#define LEAST_GAIN 1e-9
// Slack of the bound on outputs.
#define MOVE_MOST (1 + 1e-9)

// Columns that a change takes away from or adds to a mechanism's signature.
typedef struct change {
    int who; // in the group
    int n;
    int column[2 * PF_DESIGN_STEPS];
    double weight[2 * PF_DESIGN_STEPS];
    int level[PF_DESIGN_STEPS]; // all levels of the mechanism after it
} change;

struct pf_exchange {
    const pf_sensitivity *s;
    pf_arena arena;
    int most;
    double move_most;         // of a bounded output, over what is allowed
    int n;                    // mechanisms in the group
    int *who;                 // their indices
    int *levels;              // n x steps
    double *with[MATRICES];   // n_starts x n_columns x n: each column against each signature
    double *matrix[MATRICES]; // n_starts x n x n
    double *trial[MATRICES];  // n x n
    double *work;             // of pf__exchange_variance
    double *variance;         // n
    double *move;             // n_starts x n_moves
    double *moved;            // the same after a change
    double cost;
    change *next;
};

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
    x->moved = take(x, starts * (size_t)s->n_moves + 1, d);
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

const int *pf__exchange_levels(const pf_exchange *x)
{
    return x->levels;
}

// --- the cost

// Inverse of a correlation matrix c (n x n, overwritten by its factor) into inverse.
static void invert(int n, double *c, double *inverse)
{
    for (int i = 0; i < n; i++) {
        for (int k = 0; k <= i; k++) {
            double sum = c[i * n + k];
            for (int p = 0; p < k; p++) {
                sum -= c[i * n + p] * c[k * n + p];
            }
            c[i * n + k] = i == k ? sqrt(fmax(sum, PIVOT_LEAST)) : sum / c[k * n + k];
        }
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
}

void pf__exchange_variance(int n, const double *gram, const double *noise, double *work,
                           double *variance, double *remaining)
{
    double *corr = work, *inverse = work + n * n, *left = work + 2 * n * n;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < n; k++) {
            double size = sqrt(gram[i * n + i]) * sqrt(gram[k * n + k]);
            corr[i * n + k] = i == k ? 1 : size > 0 ? gram[i * n + k] / size : 0;
        }
    }
    invert(n, corr, inverse);
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
        variance[j] = size > 0 ? sum / (size * size) : HOPELESS;
        if (remaining) {
            remaining[j] = size > 0 ? 1 / sqrt(inverse[j * n + j]) : 0;
        }
    }
}

// Adds the cost of one start to `sum`.
static double add_cost(pf_exchange *x, const double *gram, const double *noise, double sum)
{
    pf__exchange_variance(x->n, gram, noise, x->work, x->variance, NULL);
    for (int j = 0; j < x->n; j++) {
        double v = x->variance[j];
        // nearly the largest alone, yet with a slope for the others
        sum += v < 1e70 ? v * v * v * v : HOPELESS;
    }
    return sum < HOPELESS ? sum : HOPELESS;
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
        separation[j] = 1 / sqrt(separation[j]);
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
                    const double *row = a + (size_t)i * (size_t)s->n_columns;
                    double sum = 0;
                    for (int e = 0; e < c->n; e++) {
                        sum += c->weight[e] * row[c->column[e]];
                    }
                    with[(size_t)i * (size_t)x->most + (size_t)c->who] += sum;
                }
            }
        }
    }
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

// Whether the bounded outputs stay where they may be after a change.
static bool change_moves(pf_exchange *x, const change *c)
{
    const pf_sensitivity *s = x->s;
    for (int start = 0; start < s->n_starts; start++) {
        const double *move = x->move + (size_t)start * (size_t)s->n_moves;
        for (int i = 0; i < s->n_moves; i++) {
            double at = move[i];
            for (int e = 0; e < c->n; e++) {
                at += c->weight[e] *
                      s->move[((size_t)start * (size_t)s->n_columns + (size_t)c->column[e]) *
                                  (size_t)s->n_moves +
                              (size_t)i];
            }
            if (!(fabs(at) <= x->move_most)) {
                return false;
            }
        }
    }
    return true;
}

static double change_cost(pf_exchange *x, const change *c)
{
    if (!change_moves(x, c)) {
        return INFINITY;
    }
    double sum = 0;
    for (int start = 0; start < x->s->n_starts && sum < x->cost; start++) {
        change_matrix(x, c, GRAM, start, x->trial[GRAM]);
        change_matrix(x, c, NOISE, start, x->trial[NOISE]);
        sum = add_cost(x, x->trial[GRAM], x->trial[NOISE], sum);
    }
    return sum;
}

static void accept(pf_exchange *x, const change *c)
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
    memcpy(x->levels + c->who * x->s->steps, c->level, (size_t)x->s->steps * sizeof(int));
    x->cost = sum;
}

// --- setting a group

// The change from the present levels of a mechanism to others.
static void make_change(const pf_exchange *x, int who, const int *level, change *c)
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

// A group at rest.
static void clear(pf_exchange *x, int n, const int *group)
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
    clear(x, n, group);
    bool within = true;
    for (int i = 0; i < n; i++) {
        make_change(x, i, levels + i * x->s->steps, x->next);
        accept(x, x->next);
    }
    for (int i = 0; i < x->s->n_starts * x->s->n_moves; i++) {
        within = within && fabs(x->move[i]) <= x->move_most;
    }
    return within;
}

// Weaker and weaker variants of a waveform until the outputs stay within bounds.
static bool draw_one(pf_exchange *x, int who, pf_rng *rng)
{
    const pf_sensitivity *s = x->s;
    const pf_level *level = &s->levels[x->who[who]];
    int l[PF_DESIGN_STEPS];
    for (int attempt = 0; attempt < 12; attempt++) {
        pf__design_random_waveform(s->config, level, rng, l);
        for (int weaker = 0; weaker <= level->top; weaker++) {
            make_change(x, who, l, x->next);
            if (pf__design_waveform_allowed(level, s->steps, l) && change_moves(x, x->next)) {
                accept(x, x->next);
                return true;
            }
            for (int r = 0; r < s->steps; r++) {
                l[r] -= (l[r] > 0) - (l[r] < 0);
            }
        }
    }
    // the least that can be asked for
    for (int i = 0; i < 2 * s->steps; i++) {
        memset(l, 0, sizeof l);
        l[i / 2] = i % 2 ? -1 : 1;
        make_change(x, who, l, x->next);
        if (pf__design_waveform_allowed(level, s->steps, l) && change_moves(x, x->next)) {
            accept(x, x->next);
            return true;
        }
    }
    return false;
}

bool pf__exchange_draw(pf_exchange *x, int n, const int *group, pf_rng *rng)
{
    clear(x, n, group);
    for (int i = 0; i < n; i++) {
        if (!draw_one(x, i, rng)) {
            return false;
        }
    }
    return true;
}

// --- moves

// Keeps the best change seen so far.
typedef struct best {
    double cost;
    int level[PF_DESIGN_STEPS];
} best;

static void consider(pf_exchange *x, int who, const int *level, best *b)
{
    if (!pf__design_waveform_allowed(&x->s->levels[x->who[who]], x->s->steps, level)) {
        return;
    }
    make_change(x, who, level, x->next);
    double cost = x->next->n > 0 ? change_cost(x, x->next) : INFINITY;
    if (cost < b->cost) {
        b->cost = cost;
        memcpy(b->level, level, (size_t)x->s->steps * sizeof(int));
    }
}

static bool take_best(pf_exchange *x, int who, const best *b)
{
    if (!(b->cost < x->cost * (1 - LEAST_GAIN))) {
        return false;
    }
    make_change(x, who, b->level, x->next);
    accept(x, x->next);
    return true;
}

// Every other level of one step.
static bool improve_step(pf_exchange *x, int who, int step)
{
    int top = x->s->levels[x->who[who]].top, l[PF_DESIGN_STEPS];
    best b = {x->cost, {0}};
    memcpy(l, x->levels + who * x->s->steps, (size_t)x->s->steps * sizeof(int));
    for (int v = -top; v <= top; v++) {
        l[step] = v;
        consider(x, who, l, &b);
    }
    return take_best(x, who, &b);
}

// Two steps at once: exchanged, or one up and the other down; runs of steps up or down; all signs.
static bool improve_pairs(pf_exchange *x, int who)
{
    int steps = x->s->steps, l[PF_DESIGN_STEPS];
    const int *now = x->levels + who * steps;
    best b = {x->cost, {0}};
    size_t size = (size_t)steps * sizeof(int);
    for (int r = 0; r < steps; r++) {
        for (int t = 0; t < steps; t++) {
            memcpy(l, now, size);
            l[r] = now[t];
            l[t] = now[r];
            if (t > r && now[r] != now[t]) {
                consider(x, who, l, &b);
            }
            memcpy(l, now, size);
            l[r] = now[r] + 1;
            l[t] = now[t] - 1;
            bool moves = t != r && l[r] <= x->s->levels[x->who[who]].top &&
                         l[t] >= -x->s->levels[x->who[who]].top;
            if (moves && x->s->levels[x->who[who]].zero_integral) {
                consider(x, who, l, &b);
            }
        }
    }
    for (int r = 0; r < steps; r++) {
        l[r] = -now[r];
    }
    consider(x, who, l, &b);
    return take_best(x, who, &b);
}

static bool improve_runs(pf_exchange *x, int who)
{
    int steps = x->s->steps, l[PF_DESIGN_STEPS], top = x->s->levels[x->who[who]].top;
    const int *now = x->levels + who * steps;
    best b = {x->cost, {0}};
    for (int first = 0; first < steps; first++) {
        for (int by = -1; by <= 1; by += 2) {
            memcpy(l, now, (size_t)steps * sizeof(int));
            for (int last = first; last < steps; last++) {
                l[last] = now[last] + by;
                if (l[last] > top || l[last] < -top) {
                    break;
                }
                consider(x, who, l, &b);
            }
        }
    }
    return take_best(x, who, &b);
}

// Whether single steps alone hardly lead anywhere: the others would have to follow.
static bool tied(const pf_exchange *x, int who)
{
    const pf_level *level = &x->s->levels[x->who[who]];
    return level->zero_integral || level->top > 1;
}

static bool improve_one(pf_exchange *x, int who, bool thorough)
{
    bool better = false;
    for (int step = 0; step < x->s->steps; step++) {
        better = improve_step(x, who, step) || better;
    }
    if (thorough || tied(x, who)) {
        better = improve_pairs(x, who) || better;
    }
    if (tied(x, who)) {
        better = improve_runs(x, who) || better;
    }
    return better;
}

double pf__exchange_improve(pf_exchange *x, bool thorough, int sweeps)
{
    bool better = true;
    for (int sweep = 0; sweep < sweeps && better; sweep++) {
        // pairs of free steps only where single ones are exhausted
        better = false;
        for (int who = 0; who < x->n; who++) {
            better = improve_one(x, who, false) || better;
        }
        for (int who = 0; who < x->n && thorough && !better; who++) {
            better = improve_one(x, who, true);
        }
    }
    return x->cost;
}
