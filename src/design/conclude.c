// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "design_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// From the best library that was found to what is reported of it.

// Levels of a designed column back from its commands.
static void levels_of(const pf_maker *m, const pf_plan_probe *probe, int *levels)
{
    const pf_design_config *c = m->job->config;
    for (int t = 0; t < probe->n_targets; t++) {
        int j = probe->targets[t];
        const pf_level *level = &m->job->levels[j];
        for (int r = 0; r < c->steps; r++) {
            double u = probe->command[r * c->n_mech + j];
            int l = 0;
            for (int v = -level->top; v <= level->top && u != 0; v++) {
                l = pf__design_command(level, v) == u ? v : l;
            }
            levels[t * c->steps + r] = l;
        }
    }
}

static pf_status fill_linear(pf_maker *m, pf_design_library *l, int n_designed, pf_error *error)
{
    size_t steps = (size_t)m->job->config->steps;
    int *levels = malloc((size_t)PF_MECH_MAX * steps * sizeof *levels);
    double separation[PF_MECH_MAX];
    if (!levels) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a design");
    }
    for (int q = 0; q < n_designed; q++) {
        const pf_design_probe *p = &l->probes[q];
        levels_of(m, &p->probe, levels);
        pf__exchange_set(m->x, p->probe.n_targets, p->probe.targets, levels);
        pf__exchange_separation(m->x, separation);
        for (int t = 0; t < p->probe.n_targets; t++) {
            l->targets[p->first + t].linear = separation[t];
        }
    }
    free(levels);
    return PF_OK;
}

// Whether another designed probe that is kept separates a mechanism.
static bool good_elsewhere(const pf_maker *m, const pf_design_library *l, const bool *dropped,
                           int probe, int mechanism)
{
    for (int t = 0; t < l->n_targets; t++) {
        const pf_design_target *target = &l->targets[t];
        if (target->mechanism == mechanism && target->good && target->probe != probe &&
            target->probe < m->best_designed && !dropped[target->probe]) {
            return true;
        }
    }
    return false;
}

// Drops probes with a target that calibration would refuse and those that move an output too far;
// then designed ones that others make superfluous, first those that leave a target too weak.
static void drop_probes(const pf_maker *m, const pf_design_library *l, bool *dropped)
{
    for (int q = 0; q < l->n_probes; q++) {
        const pf_design_probe *p = &l->probes[q];
        dropped[q] = !pf__measure_within(m->job, p);
        for (int t = 0; t < p->probe.n_targets; t++) {
            dropped[q] = dropped[q] || !l->targets[p->first + t].accepted;
        }
    }
    for (int pass = 0; pass < 2; pass++) {
        for (int q = 0; q < m->best_designed; q++) {
            const pf_design_probe *p = &l->probes[q];
            bool superfluous = true, good = true;
            for (int t = 0; t < p->probe.n_targets; t++) {
                good = good && l->targets[p->first + t].good;
                superfluous = superfluous && good_elsewhere(m, l, dropped, q, p->probe.targets[t]);
            }
            dropped[q] = dropped[q] || (superfluous && (pass == 1 || !good));
        }
    }
}

// What is left of the library, its designed probes numbered anew.
static void prune(pf_maker *m, pf_design *d, const bool *dropped, int *left)
{
    pf_design_library *l = &d->library;
    int probes = 0, targets = 0;
    d->n_designed = 0;
    for (int q = 0; q < l->n_probes; q++) {
        pf_design_probe p = l->probes[q];
        if (dropped[q]) {
            continue;
        }
        if (q < m->best_designed) {
            p.probe.name = pf__design_name(m->job, ++d->n_designed);
        }
        for (int t = 0; t < p.probe.n_targets; t++) {
            l->targets[targets + t] = l->targets[p.first + t];
            l->targets[targets + t].probe = probes;
        }
        p.first = targets;
        targets += p.probe.n_targets;
        l->probes[probes++] = p;
    }
    l->n_probes = probes;
    l->n_targets = targets;
    pf__measure_extremes(m->job, l);
    // single pulses that are not in the library
    const pf_plan *plan = m->job->plan;
    for (int q = 0; q < plan->n_probes && m->job->config->with_singles; q++) {
        bool in = plan->probes[q].n_targets != 1;
        for (int i = 0; i < probes && !in; i++) {
            in = pf__design_same(plan, &l->probes[i].probe, &plan->probes[q]);
        }
        if (!in) {
            left[d->n_left++] = plan->probes[q].targets[0];
        }
    }
    d->left = left;
}

static void find_weak(pf_maker *m, pf_design *d, int *weak)
{
    for (int j = 1; j < m->job->plan->n_mech; j++) {
        bool good = false;
        for (int t = 0; t < d->library.n_targets; t++) {
            good = good || (d->library.targets[t].mechanism == j && d->library.targets[t].good);
        }
        if (!good) {
            weak[d->n_weak++] = j;
        }
    }
    d->weak = weak;
}

// Whether one probe of the library separates both.
static bool told_apart(const pf_design_library *l, int a, int b)
{
    for (int q = 0; q < l->n_probes; q++) {
        int good = 0;
        for (int t = 0; t < l->probes[q].probe.n_targets; t++) {
            const pf_design_target *target = &l->targets[l->probes[q].first + t];
            good += target->good && (target->mechanism == a || target->mechanism == b);
        }
        if (good == 2) {
            return true;
        }
    }
    return false;
}

// Pairs that neither the library nor a probe of the two alone tells apart; only asked where one
// probe was not enough.
static pf_status find_pairs(pf_maker *m, pf_design *d, pf_error *error)
{
    enum { PAIR_STARTS = 4, CANDIDATES_MOST = 40 };
    size_t steps = (size_t)m->job->config->steps;
    int n = m->n_strong, *levels = malloc(2 * steps * sizeof *levels);
    int *pairs = pf_arena_take(&m->job->arena, (size_t)n * (size_t)n + 1, sizeof *pairs);
    pf_status status = levels && pairs ? PF_OK : pf_fail(error, PF_ERR_MEMORY, "out of memory");
    bool asked = n <= CANDIDATES_MOST && m->job->config->at_once > 1;
    for (int i = 0; i < n && asked && status == PF_OK; i++) {
        for (int k = 0; k < i && status == PF_OK; k++) {
            int a = m->strong[k], b = m->strong[i];
            int pair[2] = {a < b ? a : b, a < b ? b : a};
            double separation[2];
            if (m->job->config->apart[a * m->job->config->n_mech + b] ||
                told_apart(&d->library, a, b)) {
                continue;
            }
            int found = pf__groups_design(m->job, m->s, 2, pair, 1, PAIR_STARTS, 1, levels, error);
            status = found < 0 ? error->code : PF_OK;
            bool apart = found > 0 && pf__exchange_set(m->x, 2, pair, levels) &&
                         pf__exchange_separation(m->x, separation) >= m->job->config->target;
            if (status == PF_OK && !apart) {
                memcpy(pairs + 2 * d->n_pairs++, pair, sizeof pair);
            }
        }
    }
    free(levels);
    d->pairs = pairs;
    return status;
}

static pf_status compare(pf_maker *m, pf_design *d, pf_error *error)
{
    static const char *const others[] = {"single", "hadamard", "multisine"};
    pf_status status = PF_OK;
    // the designed probes without the single pulses beside them
    pf_design_library *own = &d->families[0];
    *own = d->library;
    own->n_probes = d->n_designed;
    if (d->n_designed < d->library.n_probes) {
        own->n_targets = d->library.probes[d->n_designed].first;
    }
    pf__measure_extremes(m->job, own);
    pf__family_check(m->job, own);
    d->n_families = 1;
    for (int i = 0; i < 3 && status == PF_OK && m->job->config->compare; i++) {
        pf_design_library *l = &d->families[d->n_families];
        status = pf__family_measure(m->job, others[i], l, error);
        d->n_families += l->n_probes > 0;
    }
    return status;
}

pf_status pf__design_nothing(const pf_maker *m, pf_error *error)
{
    const pf_design_config *c = m->job->config;
    const pf_level *first = &m->job->levels[1];
    char bounds[160] = "";
    for (int i = 0, at = 0; i < c->n_chan; i++) {
        if (isfinite(c->most[i]) && at < (int)sizeof bounds - 80) {
            at += snprintf(bounds + at, sizeof bounds - (size_t)at, "%s'%.40s' %g",
                           at > 0 ? ", " : "", m->job->plan->channels[i].name, c->most[i]);
        }
    }
    return pf_fail(error, PF_ERR_DEGENERATE,
                   "%sno allowed probe was found%s%s that separates any mechanism: a loss to %g "
                   "shows too little beside the noise; allow more design.steps%s%s%s or larger "
                   "commands%s",
                   bounds[0] ? "design.excursion: " : "", bounds[0] ? " within " : "", bounds,
                   m->job->plan->g_cal, bounds[0] ? ", a larger excursion" : "",
                   pf__design_slow(first) ? ", a faster design.rate" : "",
                   first->zero_integral ? ", no design.zero_integral" : "",
                   m->job->model ? ", or use a better model" : "");
}

pf_status pf__design_conclude(pf_maker *m, pf_design *d, pf_error *error)
{
    size_t n = (size_t)m->job->plan->n_mech;
    int *weak = pf_arena_take(&m->job->arena, n, sizeof *weak);
    int *left = pf_arena_take(&m->job->arena, n + (size_t)m->job->plan->n_probes, sizeof *left);
    bool *dropped = pf_arena_take(&m->job->arena, (size_t)m->best.n_probes, sizeof *dropped);
    if (m->job->arena.failed) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for the design");
    }
    d->library = m->best;
    pf_status status = fill_linear(m, &d->library, m->best_designed, error);
    drop_probes(m, &d->library, dropped);
    prune(m, d, dropped, left);
    if (m->job->arena.failed) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for the design");
    }
    find_weak(m, d, weak);
    if (status == PF_OK && d->library.n_probes == 0) {
        return pf__design_nothing(m, error);
    }
    if (status == PF_OK && m->best_designed > 1 && m->job->config->compare) {
        status = find_pairs(m, d, error);
    }
    return status == PF_OK ? compare(m, d, error) : status;
}
