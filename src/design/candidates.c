// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "design_impl.h"

#include <math.h>

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
        double separation[2], found = pf__groups_quick(m->job, m->x, 2, pair, separation);
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
        value[j] = pf__groups_quick(m->job, m->x, 1, &j, NULL);
    }
    if (!pf__exchange_bounded(m->x)) {
        return;
    }
    if (pf__groups_allowed(c, n, all)) {
        pf__groups_quick(m->job, m->x, n, all, with_all);
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
    m->strong = pf_arena_take(&job->arena, (size_t)n, sizeof(int));
    m->alone = pf_arena_take(&job->arena, (size_t)n, sizeof(int));
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
