// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "design_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// What is kept of a group and what a move changes in it.

enum { GRAM, NOISE, MATRICES };

// Cost of a group that cannot be told at all; above it, of one that moves an output too far.
#define HOPELESS 1e300
#define TOO_FAR 1e301

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
    double *before;           // the same while a change is only tried
    double cost;              // TOO_FAR and more: an output moves too far
    change *next;
};

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
    return pf__arena_take(&x->arena, count, size);
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
        pf__arena_free(&x->arena);
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

// Moves the bounded outputs by a change, and nothing else.
static void shift_outputs(pf_exchange *x, const change *c)
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

// How far a change (Nullable: none) leaves the bounded outputs beyond what is allowed: the sum of
// the squares of what is too much, 0 where nothing is. Stops counting at `most`.
static double excess_of(const pf_exchange *x, const change *c, double most)
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

// The cost after a change; no less than `limit` where it is not below it.
static double change_cost(pf_exchange *x, const change *c, double limit)
{
    double excess = excess_of(x, c, cost_excess(limit));
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

static void accept_change(pf_exchange *x, const change *c)
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
    shift_outputs(x, c);
    memcpy(x->levels + c->who * x->s->steps, c->level, (size_t)x->s->steps * sizeof(int));
    double excess = excess_of(x, NULL, INFINITY);
    x->cost = excess > 0 || !isfinite(excess) ? excess_cost(excess) : sum;
}

// --- setting a group

// Adds to a change of a mechanism that of one step from one level to another.
static void add_step(const pf_exchange *x, int step, int now, int level, change *c)
{
    if (now != 0) {
        c->column[c->n] = column_of(x, c->who, step, now);
        c->weight[c->n++] = -weight_of(x, c->who, now);
    }
    if (level != 0) {
        c->column[c->n] = column_of(x, c->who, step, level);
        c->weight[c->n++] = weight_of(x, c->who, level);
    }
}

// The change from the present levels of a mechanism to others.
static void make_change(const pf_exchange *x, int who, const int *level, change *c)
{
    const int *now = x->levels + who * x->s->steps;
    c->who = who;
    c->n = 0;
    for (int r = 0; r < x->s->steps; r++) {
        c->level[r] = level[r];
        if (level[r] != now[r]) {
            add_step(x, r, now[r], level[r], c);
        }
    }
}

// The same for one level of one step, `level` of it left out: enough for the bounded outputs.
static void make_step(const pf_exchange *x, int who, int step, int level, change *c)
{
    c->who = who;
    c->n = 0;
    add_step(x, step, x->levels[who * x->s->steps + step], level, c);
}

// Gives a mechanism other levels.
static void set_levels(pf_exchange *x, int who, const int *level)
{
    make_change(x, who, level, x->next);
    accept_change(x, x->next);
}

// A group at rest.
static void clear_group(pf_exchange *x, int n, const int *group)
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
    clear_group(x, n, group);
    for (int i = 0; i < n; i++) {
        set_levels(x, i, levels + i * x->s->steps);
    }
    return pf__exchange_within(x);
}

// Where the exchange begins, and what it tries. Groups that move an output too far may be passed
// through: their cost is above that of all others and falls with the excess.

// A change must lower the cost by this share, so that rounding cannot go in circles.
#define LEAST_GAIN 1e-9

static bool stays_within(const pf_exchange *x, const change *c)
{
    return excess_of(x, c, 0) == 0;
}

static bool set_if_within(pf_exchange *x, int who, const int *l)
{
    make_change(x, who, l, x->next);
    bool good = pf__design_waveform_allowed(&x->s->levels[x->who[who]], x->s->steps, l) &&
                stays_within(x, x->next);
    if (good) {
        accept_change(x, x->next);
    }
    return good;
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
            if (set_if_within(x, who, l)) {
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
        if (set_if_within(x, who, l)) {
            return true;
        }
    }
    return false;
}

bool pf__exchange_draw(pf_exchange *x, int n, const int *group, pf_rng *rng)
{
    clear_group(x, n, group);
    for (int i = 0; i < n; i++) {
        if (!draw_one(x, i, rng)) {
            return false;
        }
    }
    return true;
}

void pf__exchange_draw_freely(pf_exchange *x, int n, const int *group, pf_rng *rng)
{
    int l[PF_DESIGN_STEPS];
    clear_group(x, n, group);
    for (int i = 0; i < n; i++) {
        pf__design_random_waveform(x->s->config, &x->s->levels[group[i]], rng, l);
        set_levels(x, i, l);
    }
}

void pf__exchange_draw_holds(pf_exchange *x, int n, const int *group, pf_rng *rng)
{
    const pf_sensitivity *s = x->s;
    int l[PF_DESIGN_STEPS];
    clear_group(x, n, group);
    for (int i = 0; i < n; i++) {
        const pf_level *level = &s->levels[group[i]];
        bool up = level->down == 0 || (level->up != 0 && pf_rng_below(rng, 2) == 0);
        for (int r = 0; r < s->steps; r++) {
            l[r] = up ? level->top : -level->top;
        }
        if (!pf__design_waveform_allowed(level, s->steps, l)) {
            pf__design_any_waveform(s->config, level, l);
        }
        set_levels(x, i, l);
    }
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
    double cost = x->next->n > 0 ? change_cost(x, x->next, b->cost) : INFINITY;
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
    set_levels(x, who, b->level);
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
    const pf_level *level = &x->s->levels[x->who[who]];
    best b = {x->cost, {0}};
    size_t size = (size_t)steps * sizeof(int);
    for (int r = 0; r < steps; r++) {
        for (int t = 0; t < steps; t++) {
            if (t > r && now[r] != now[t]) {
                memcpy(l, now, size);
                l[r] = now[t];
                l[t] = now[r];
                consider(x, who, l, &b);
            }
            if (t != r && level->zero_integral && now[r] < level->top && now[t] > -level->top) {
                memcpy(l, now, size);
                l[r] = now[r] + 1;
                l[t] = now[t] - 1;
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
    return level->zero_integral || pf__design_slow(level);
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

// Steps that a change may be made up for in.
static void near(const pf_exchange *x, int step, int *first, int *end)
{
    enum { NEAR = 4 };
    *first = step > NEAR ? step - NEAR : 0;
    *end = step + NEAR < x->s->steps ? step + NEAR + 1 : x->s->steps;
}

// Whether any level near a step brings the outputs within bounds, or nearer to them than they were,
// after a change that moves them only.
static bool can_make_up(pf_exchange *x, int changed, int step, double most)
{
    int first, end;
    near(x, step, &first, &end);
    for (int who = 0; who < x->n; who++) {
        const pf_level *level = &x->s->levels[x->who[who]];
        int lowest = level->down != 0 ? -level->top : 0, highest = level->up != 0 ? level->top : 0;
        for (int r = first; r < end; r++) {
            for (int v = lowest; v <= highest && !(who == changed && r == step); v++) {
                make_step(x, who, r, v, x->next);
                double excess = excess_of(x, x->next, most);
                if (excess == 0 || excess < most) {
                    return true;
                }
            }
        }
    }
    return false;
}

// The best level near one step, of any mechanism, that makes up for a change which was accepted
// already.
static bool make_up(pf_exchange *x, int step, double cost)
{
    int steps = x->s->steps, l[PF_DESIGN_STEPS], found = -1, first, end;
    best b = {cost * (1 - LEAST_GAIN), {0}};
    near(x, step, &first, &end);
    for (int who = 0; who < x->n; who++) {
        int top = x->s->levels[x->who[who]].top;
        const int *now = x->levels + who * steps;
        memcpy(l, now, (size_t)steps * sizeof(int));
        for (int r = first; r < end; r++) {
            for (int v = -top; v <= top; v++) {
                double before = b.cost;
                make_step(x, who, r, v, x->next);
                if (before < TOO_FAR && !stays_within(x, x->next)) {
                    continue;
                }
                l[r] = v;
                consider(x, who, l, &b);
                found = b.cost < before ? who : found;
            }
            l[r] = now[r];
        }
    }
    if (found >= 0) {
        set_levels(x, found, b.level);
    }
    return found >= 0;
}

// One level of one step that would move an output too far, together with another one that makes up
// for it: opposed mechanisms within tight bounds get nowhere else.
static bool improve_couple(pf_exchange *x, int who, int step, int v)
{
    int steps = x->s->steps, l[PF_DESIGN_STEPS], now[PF_DESIGN_STEPS];
    size_t moves = (size_t)x->s->n_starts * (size_t)x->s->n_moves * sizeof *x->move;
    double cost = x->cost, excess = 0;
    make_step(x, who, step, v, x->next);
    if (v == x->levels[who * steps + step] || stays_within(x, x->next)) {
        return false; // the exchange of single levels has seen it
    }
    memcpy(now, x->levels + who * steps, (size_t)steps * sizeof(int));
    memcpy(l, now, (size_t)steps * sizeof(int));
    l[step] = v;
    if (!pf__design_waveform_allowed(&x->s->levels[x->who[who]], steps, l)) {
        return false;
    }
    if (!pf__exchange_within(x)) {
        excess = excess_of(x, NULL, INFINITY);
    }
    memcpy(x->before, x->move, moves);
    shift_outputs(x, x->next);
    bool possible = can_make_up(x, who, step, excess);
    memcpy(x->move, x->before, moves);
    if (!possible) {
        return false;
    }
    set_levels(x, who, l);
    if (make_up(x, step, cost)) {
        return true;
    }
    set_levels(x, who, now);
    return false;
}

// All steps of all mechanisms, or evenly spread ones, other ones in every round.
static bool improve_couples(pf_exchange *x, int most, int round)
{
    int total = 0, at = round;
    bool better = false;
    for (int who = 0; who < x->n; who++) {
        total += x->s->steps * (2 * x->s->levels[x->who[who]].top + 1);
    }
    int every = (total + most - 1) / most;
    for (int who = 0; who < x->n; who++) {
        int top = x->s->levels[x->who[who]].top;
        for (int step = 0; step < x->s->steps; step++, at++) {
            for (int v = -top; v <= top && at % every == 0; v++) {
                better = improve_couple(x, who, step, v) || better;
            }
        }
    }
    return better;
}

double pf__exchange_improve(pf_exchange *x, bool thorough, int sweeps)
{
    // by far the dearest look; six rounds of it bring nearly all there is
    enum { ROUNDS = 6, MOST = 4000, QUICK_MOST = 1000 };
    int rounds = thorough ? ROUNDS : 1;
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
        if (!better && pf__exchange_bounded(x) && rounds-- > 0) {
            better = improve_couples(x, thorough ? MOST : QUICK_MOST, rounds);
        }
    }
    return x->cost;
}
