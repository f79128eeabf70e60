// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "exchange_impl.h"

#include <math.h>
#include <string.h>

// Where the exchange begins, and what it tries. Groups that move an output too far may be passed
// through: their cost is above that of all others and falls with the excess.

// A change must lower the cost by this share, so that rounding cannot go in circles.
#define LEAST_GAIN 1e-9

static bool stays_within(const pf_exchange *x, const change *c)
{
    return pf__exchange_excess(x, c, 0) == 0;
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
            pf__exchange_make_change(x, who, l, x->next);
            if (pf__design_waveform_allowed(level, s->steps, l) && stays_within(x, x->next)) {
                pf__exchange_accept(x, x->next);
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
        pf__exchange_make_change(x, who, l, x->next);
        if (pf__design_waveform_allowed(level, s->steps, l) && stays_within(x, x->next)) {
            pf__exchange_accept(x, x->next);
            return true;
        }
    }
    return false;
}

bool pf__exchange_draw(pf_exchange *x, int n, const int *group, pf_rng *rng)
{
    pf__exchange_clear(x, n, group);
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
    pf__exchange_clear(x, n, group);
    for (int i = 0; i < n; i++) {
        pf__design_random_waveform(x->s->config, &x->s->levels[group[i]], rng, l);
        pf__exchange_make_change(x, i, l, x->next);
        pf__exchange_accept(x, x->next);
    }
}

void pf__exchange_draw_holds(pf_exchange *x, int n, const int *group, pf_rng *rng)
{
    const pf_sensitivity *s = x->s;
    int l[PF_DESIGN_STEPS];
    pf__exchange_clear(x, n, group);
    for (int i = 0; i < n; i++) {
        const pf_level *level = &s->levels[group[i]];
        bool up = level->down == 0 || (level->up != 0 && pf_rng_below(rng, 2) == 0);
        for (int r = 0; r < s->steps; r++) {
            l[r] = up ? level->top : -level->top;
        }
        if (!pf__design_waveform_allowed(level, s->steps, l)) {
            pf__design_any_waveform(s->config, level, l);
        }
        pf__exchange_make_change(x, i, l, x->next);
        pf__exchange_accept(x, x->next);
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
    pf__exchange_make_change(x, who, level, x->next);
    double cost = x->next->n > 0 ? pf__exchange_change_cost(x, x->next, b->cost) : INFINITY;
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
    pf__exchange_make_change(x, who, b->level, x->next);
    pf__exchange_accept(x, x->next);
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
                pf__exchange_make_step(x, who, r, v, x->next);
                double excess = pf__exchange_excess(x, x->next, most);
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
                pf__exchange_make_step(x, who, r, v, x->next);
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
        pf__exchange_make_change(x, found, b.level, x->next);
        pf__exchange_accept(x, x->next);
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
    pf__exchange_make_step(x, who, step, v, x->next);
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
        excess = pf__exchange_excess(x, NULL, INFINITY);
    }
    memcpy(x->before, x->move, moves);
    pf__exchange_shift(x, x->next);
    bool possible = can_make_up(x, who, step, excess);
    memcpy(x->move, x->before, moves);
    if (!possible) {
        return false;
    }
    pf__exchange_make_change(x, who, l, x->next);
    pf__exchange_accept(x, x->next);
    if (make_up(x, step, cost)) {
        return true;
    }
    pf__exchange_make_change(x, who, now, x->next);
    pf__exchange_accept(x, x->next);
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
