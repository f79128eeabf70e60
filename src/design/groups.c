// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "design_impl.h"
#include "core/rng.h"

#include <math.h>
#include <string.h>

// Who shares a probe.

enum { QUICK_STARTS = 2, QUICK_BOUNDED = 3, QUICK_SWEEPS = 3, FULL_SWEEPS = 60, PASSES = 3 };

// Draws of a group depend on its members and their order alone, so that a result does not depend on
// what was tried before it.
static pf_key group_key(const pf_design_job *job, int n, const int *group, int start)
{
    pf_key key = pf__design_key(job, 1000, PF_STREAM_DRAW);
    for (int i = 0; i < n; i++) {
        key = pf__key_derive(key, (uint64_t)group[i]);
    }
    return pf__key_derive(key, 100000 + (uint64_t)start);
}

// Where a start begins. Drawn within bounds on outputs, one mechanism after the other, none has
// room for more than what it may do alone; so others are drawn without them, and as plain holds, in
// which opposed mechanisms cancel.
static void draw(pf_exchange *x, int n, const int *group, int start, pf_key key)
{
    enum { WITHIN, FREELY, HOLDS };
    int kind = !pf__exchange_bounded(x) || start == 0 ? WITHIN : start % 2 ? FREELY : HOLDS;
    pf_rng rng;
    pf_rng_init(&rng, key);
    if (kind == HOLDS) {
        pf__exchange_draw_holds(x, n, group, &rng);
    } else if (kind == FREELY || !pf__exchange_draw(x, n, group, &rng)) {
        pf__exchange_draw_freely(x, n, group, &rng);
    }
}

// --- one group

typedef struct design_work {
    const pf_design_job *job;
    const pf_sensitivity *s;
    int n;
    const int *group;
    double factor;
    int *levels;   // starts x n x steps
    double *costs; // starts
} design_work;

static pf_status run_start(void *self, int worker, size_t start, pf_error *error)
{
    (void)worker;
    design_work *w = self;
    pf_exchange *x = pf__exchange_create(w->s, w->n, w->factor);
    if (!x) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for the exchange");
    }
    draw(x, w->n, w->group, (int)start, group_key(w->job, w->n, w->group, (int)start));
    double cost = pf__exchange_improve(x, true, FULL_SWEEPS);
    w->costs[start] = INFINITY;
    if (pf__exchange_within(x)) {
        w->costs[start] = cost;
        size_t size = (size_t)w->n * (size_t)w->s->steps;
        memcpy(w->levels + start * size, pf__exchange_levels(x), size * sizeof(int));
    }
    pf__exchange_destroy(x);
    return PF_OK;
}

static int start_slots(void *self, size_t start, pf_slot *slots)
{
    design_work *w = self;
    size_t size = (size_t)w->n * (size_t)w->s->steps;
    slots[0] = (pf_slot){.data = w->levels + start * size, .size = size * sizeof *w->levels};
    slots[1] = (pf_slot){.data = w->costs + start, .size = sizeof *w->costs};
    return 2;
}

// The lowest cost that was not taken yet; -1: none is left.
static int next_best(int n, const double *costs, const bool *taken)
{
    int found = -1;
    for (int i = 0; i < n; i++) {
        if (!taken[i] && isfinite(costs[i]) && (found < 0 || costs[i] < costs[found])) {
            found = i;
        }
    }
    return found;
}

int pf__groups_design(const pf_design_job *job, const pf_sensitivity *s, int n, const int *group,
                      double factor, int starts, int keep, int *levels, pf_error *error)
{
    pf_arena arena = {0};
    size_t size = (size_t)n * (size_t)s->steps;
    design_work w = {.job = job, .s = s, .n = n, .group = group, .factor = factor};
    w.levels = pf__arena_take(&arena, (size_t)starts * size, sizeof(int));
    w.costs = pf__arena_take(&arena, (size_t)starts, sizeof(double));
    bool *taken = pf__arena_take(&arena, (size_t)starts, sizeof *taken);
    pf_status status =
        arena.failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory for the design") : PF_OK;
    status = status ? status
                    : pf__parallel_kept(job->effort, pf__threads(job->effort), (size_t)starts,
                                        run_start, start_slots, &w, "exchange", error);
    int found = 0;
    for (int best = 0; status == PF_OK && found < keep && best >= 0;) {
        best = next_best(starts, w.costs, taken);
        if (best >= 0) {
            taken[best] = true;
            memcpy(levels + (size_t)found * size, w.levels + (size_t)best * size,
                   size * sizeof(int));
            found++;
        }
    }
    pf__arena_free(&arena);
    return status == PF_OK ? found : -1;
}

// The smallest predicted separation of a group after a quick exchange, 0: none keeps the outputs
// within bounds; and those of all its members (Nullable).
static double groups_quick(const pf_design_job *job, pf_exchange *x, int n, const int *group,
                           double *separation)
{
    double own[PF_MECH_MAX], best = 0;
    int starts = pf__exchange_bounded(x) ? QUICK_BOUNDED : QUICK_STARTS;
    for (int start = 0; start < starts; start++) {
        draw(x, n, group, start, group_key(job, n, group, start));
        pf__exchange_improve(x, false, QUICK_SWEEPS);
        double smallest = pf__exchange_within(x) ? pf__exchange_separation(x, own) : 0;
        if (smallest > best && separation) {
            memcpy(separation, own, (size_t)n * sizeof *own);
        }
        best = fmax(best, smallest);
    }
    return best;
}

// --- many groups

typedef struct division {
    const pf_design_job *job;
    pf_exchange *x;
    int n, k;
    const int *members;
    int *group_of; // by member, not by mechanism
    double value[PF_MECH_MAX];
} division;

bool pf__groups_allowed(const pf_design_config *c, int n, const int *group)
{
    for (int a = 0; a < n; a++) {
        for (int b = 0; b < a; b++) {
            if (c->apart[group[a] * c->n_mech + group[b]]) {
                return false;
            }
        }
    }
    return n <= c->at_once;
}

// Members of a group, with `extra` (-1: none) and without `less`. Gives how many, or -1 where the
// constraints forbid it.
static int collect(const division *d, int group, int extra, int less, int *out)
{
    int n = 0;
    for (int i = 0; i < d->n; i++) {
        if (i != less && (d->group_of[i] == group || i == extra)) {
            out[n++] = d->members[i];
        }
    }
    return pf__groups_allowed(d->job->config, n, out) ? n : -1;
}

// Value of a group after a change; -1: not allowed; infinite: empty.
static double value_with(division *d, int group, int extra, int less)
{
    int list[PF_MECH_MAX] = {0}, n = collect(d, group, extra, less, list);
    return n < 0 ? -1 : n == 0 ? INFINITY : groups_quick(d->job, d->x, n, list, NULL);
}

// Puts every member where it leaves the smallest separation largest. False: it cannot be done, or
// only with far less than `least`; within bounds on outputs that shows only when all are placed,
// since one may need the other to move at all.
static bool place_all(division *d, double least)
{
    for (int i = 0; i < d->n; i++) {
        int best = -1;
        double best_value = -1;
        for (int g = 0; g < d->k; g++) {
            double value = value_with(d, g, i, -1);
            if (value > best_value) {
                best = g;
                best_value = value;
            }
            if (isinf(d->value[g])) {
                break; // all empty groups are alike
            }
        }
        // the search that follows may gain something, but not much
        if (best < 0 || (best_value < .5 * least && !pf__exchange_bounded(d->x))) {
            return false;
        }
        d->group_of[i] = best;
        d->value[best] = best_value;
    }
    return true;
}

static int worst_group(const division *d)
{
    int worst = 0;
    for (int g = 1; g < d->k; g++) {
        worst = d->value[g] < d->value[worst] ? g : worst;
    }
    return worst;
}

// Moves a member out of the worst group, or exchanges it, if both groups then beat the worst.
static bool try_member(division *d, int worst, int i)
{
    double least = d->value[worst] * 1.02;
    for (int g = 0; g < d->k; g++) {
        if (g == worst) {
            continue;
        }
        double there = value_with(d, g, i, -1);
        double here = there > least ? value_with(d, worst, -1, i) : 0;
        if (there > least && here > least) {
            d->group_of[i] = g;
            d->value[g] = there;
            d->value[worst] = here;
            return true;
        }
        for (int other = 0; other < d->n; other++) {
            if (d->group_of[other] != g) {
                continue;
            }
            there = value_with(d, g, i, other);
            here = there > least ? value_with(d, worst, other, i) : 0;
            if (there > least && here > least) {
                d->group_of[i] = g;
                d->group_of[other] = worst;
                d->value[g] = there;
                d->value[worst] = here;
                return true;
            }
        }
    }
    return false;
}

// Moves a member of the worst group and another one into an empty group, if all of them then beat
// the worst: two that need each other to keep the outputs within bounds.
static bool try_couple(division *d, int worst, int i)
{
    double least = d->value[worst] * 1.02;
    int empty = 0;
    while (empty < d->k && !isinf(d->value[empty])) {
        empty++;
    }
    for (int other = 0; other < d->n && empty < d->k; other++) {
        int from = d->group_of[other];
        if (other == i || (from == worst && other < i)) {
            continue;
        }
        d->group_of[other] = empty;
        double there = value_with(d, empty, i, -1);
        double here = there > least ? value_with(d, worst, -1, i) : 0;
        double left = from != worst && here > least ? value_with(d, from, -1, -1) : here;
        if (there > least && here > least && left > least) {
            d->group_of[i] = empty;
            d->value[empty] = there;
            d->value[from] = left;
            d->value[worst] = here;
            return true;
        }
        d->group_of[other] = from;
    }
    return false;
}

bool pf__groups_divide(const pf_design_job *job, pf_exchange *x, int n, const int *members, int k,
                       double least, int *group_of, double *smallest)
{
    division d = {.job = job, .x = x, .n = n, .k = k, .members = members, .group_of = group_of};
    for (int i = 0; i < n; i++) {
        group_of[i] = -1;
    }
    for (int g = 0; g < k; g++) {
        d.value[g] = INFINITY;
    }
    if (!place_all(&d, least)) {
        return false;
    }
    for (int pass = 0; pass < PASSES * n && k > 1; pass++) {
        int worst = worst_group(&d);
        bool better = false;
        for (int i = 0; i < n && !better && d.value[worst] < 3 * job->config->target; i++) {
            better = group_of[i] == worst && try_member(&d, worst, i);
        }
        for (int i = 0; i < n && !better && pf__exchange_bounded(x); i++) {
            better = group_of[i] == worst && try_couple(&d, worst, i);
        }
        if (!better) {
            break;
        }
    }
    *smallest = d.value[worst_group(&d)];
    return true;
}

// Who is strong enough to share a probe, and who needs whom.

// How far one full command takes the bounded output that it takes farthest, over what is allowed.
static double farthest(const pf_sensitivity *s, int column, int *which)
{
    double largest = 0;
    for (int i = 0; i < s->n_starts * s->n_moves; i++) {
        int start = i / s->n_moves, move = i % s->n_moves;
        size_t row = (size_t)start * (size_t)s->n_columns + (size_t)column;
        double size = fabs(s->move[row * (size_t)s->n_moves + (size_t)move]);
        *which = size > largest ? move : *which;
        largest = fmax(largest, size);
    }
    return largest;
}

// The channel of a bounded output: moves hold the bounded ones only, row by row.
static int channel_of(const pf_design_config *c, int move)
{
    for (int i = 0; i < c->rows * c->n_chan; i++) {
        if (isfinite(c->most[i % c->n_chan]) && move-- == 0) {
            return i % c->n_chan;
        }
    }
    return 0;
}

// Says which output the least level of a mechanism, in its best step, takes too far.
static pf_status refuse_excursion(const pf_maker *m, int mechanism, pf_error *error)
{
    const pf_sensitivity *s = m->s;
    const pf_design_config *c = s->config;
    const pf_level *level = &s->levels[mechanism];
    int move = 0;
    double least = INFINITY;
    for (int i = 0; i < 2 * c->steps; i++) {
        int which = 0;
        bool allowed = i % 2 ? level->down != 0 : level->up != 0;
        double far = allowed ? farthest(s, (mechanism - 1) * c->steps * 2 + i, &which) : INFINITY;
        move = far < least ? which : move;
        least = fmin(least, far);
    }
    int worst = channel_of(c, move);
    return pf_fail(error, PF_ERR_ARGUMENT,
                   "design.excursion: no probe of '%s' was found, alone or with others, that keeps "
                   "output '%s' within %g: its least level moves it by %g; allow more, or a "
                   "smaller amplitude",
                   m->job->plan->mechanisms[mechanism].name, m->job->plan->channels[worst].name,
                   c->most[worst], least * c->most[worst] / level->top);
}

int pf__candidates_partner(pf_maker *m, int j, double *value)
{
    const pf_design_config *c = m->job->config;
    int best = 0;
    *value = 0;
    for (int k = 1; k < c->n_mech && c->at_once > 1; k++) {
        int pair[2] = {j < k ? j : k, j < k ? k : j};
        if (k == j || c->apart[j * c->n_mech + k]) {
            continue;
        }
        double separation[2], found = groups_quick(m->job, m->x, 2, pair, separation);
        found = found > 0 ? separation[pair[1] == j] : 0;
        best = found > *value ? k : best;
        *value = fmax(*value, found);
    }
    return best;
}

// What a quick look gives each mechanism. Within bounds on outputs one may need others that make up
// for its moves: the best of alone, with one other, and with all.
static void look(pf_maker *m, double *value)
{
    const pf_design_config *c = m->job->config;
    int all[PF_MECH_MAX], n = c->n_mech - 1;
    double with_all[PF_MECH_MAX] = {0};
    for (int j = 1; j <= n; j++) {
        all[j - 1] = j;
        value[j] = groups_quick(m->job, m->x, 1, &j, NULL);
    }
    if (!pf__exchange_bounded(m->x)) {
        return;
    }
    if (pf__groups_allowed(c, n, all)) {
        groups_quick(m->job, m->x, n, all, with_all);
    }
    for (int j = 1; j <= n; j++) {
        value[j] = fmax(value[j], with_all[j - 1]);
        if (value[j] < pf__design_share(m) * c->target) {
            double paired;
            pf__candidates_partner(m, j, &paired);
            value[j] = fmax(value[j], paired);
        }
    }
}

pf_status pf__candidates_sort(pf_maker *m, pf_error *error)
{
    pf_design_job *job = m->job;
    int n = job->config->n_mech;
    m->strong = pf__arena_take(&job->arena, (size_t)n, sizeof(int));
    m->alone = pf__arena_take(&job->arena, (size_t)n, sizeof(int));
    if (job->arena.failed) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for the design");
    }
    double value[PF_MECH_MAX];
    look(m, value);
    for (int j = 1; j < n; j++) {
        if (value[j] == 0 && pf__exchange_bounded(m->x)) {
            return refuse_excursion(m, j, error);
        }
        if (value[j] >= pf__design_share(m) * job->config->target) {
            // weakest first: they are the hardest to place
            int at = m->n_strong++;
            for (; at > 0 && value[m->strong[at - 1]] > value[j]; at--) {
                m->strong[at] = m->strong[at - 1];
            }
            m->strong[at] = j;
        } else {
            m->alone[m->n_alone++] = j;
        }
    }
    return PF_OK;
}
