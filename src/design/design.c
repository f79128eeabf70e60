// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "design_impl.h"
#include "model/rollout.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The fewest probes in which every candidate stands out: one probe for all is tried first, then
// two, and so on, until the predictor separates every target and simulated episodes confirm it.

// Designs of a group that the predictor itself is asked about.
enum { KEEP = 3 };
// How often outputs are held to less where the predictor moves them farther than superposition
// does, and what every move then counts.
enum { TIGHTER = 5 };
static const double tighter = 1.2;
// A division is designed in full where a quick look gives at least this share of the target, and
// confirmed where the predictor gives this share of it. A learned model errs by the command, so
// its residuals under random ones say less about a given probe.
static const double quick_share = .6, twin_share = .9, model_share = .4;

double pf__design_share(const pf_maker *m)
{
    return m->job->model ? model_share : twin_share;
}

// --- one division

static pf_status make_probe(pf_maker *m, int n, const int *group, const int *levels,
                            pf_plan_probe *probe, pf_error *error)
{
    pf_design_job *job = m->job;
    const pf_design_config *c = job->config;
    double *command =
        pf__arena_take(&job->arena, (size_t)c->rows * (size_t)c->n_mech, sizeof *command);
    int *targets = pf__arena_take(&job->arena, (size_t)n, sizeof *targets);
    if (job->arena.failed) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a probe");
    }
    for (int i = 0; i < n; i++) {
        targets[i] = group[i];
        for (int r = 0; r < c->steps; r++) {
            command[r * c->n_mech + group[i]] =
                pf__design_command(&job->levels[group[i]], levels[i * c->steps + r]);
        }
    }
    *probe = (pf_plan_probe){"", c->rows, command, pf__design_charge(job->plan) * c->rows,
                             n,  targets, NULL};
    return PF_OK;
}

// The design out of a few that the predictor itself likes best; *smallest 0: none keeps the outputs
// within bounds.
static pf_status choose(pf_maker *m, int n, const pf_plan_probe *kept, pf_plan_probe *probe,
                        double *smallest, pf_error *error)
{
    pf_design_library library;
    pf_status status = pf__measure_library(m->job, "exchange", n, kept, &library, error);
    status = status ? status : pf__measure_predict(m->job, &library, error);
    for (int i = 0; i < n && status == PF_OK; i++) {
        double value = pf__measure_smallest(&library, i);
        if (pf__measure_within(m->job, &library.probes[i]) && value > *smallest) {
            *smallest = value;
            *probe = kept[i];
        }
    }
    return status;
}

static pf_status design_group(pf_maker *m, int n, const int *group, pf_plan_probe *probe,
                              double *smallest, pf_error *error)
{
    pf_design_job *job = m->job;
    size_t size = (size_t)n * (size_t)job->config->steps;
    int *levels = malloc(KEEP * size * sizeof *levels), found = 1;
    pf_status status = levels ? PF_OK : pf_fail(error, PF_ERR_MEMORY, "out of memory for a design");
    double factor = 1;
    *smallest = 0;
    for (int attempt = 0; status == PF_OK && attempt < TIGHTER && found > 0; attempt++) {
        pf_plan_probe kept[KEEP];
        // within bounds few starts lead anywhere
        int starts = job->config->starts * (pf__exchange_bounded(m->x) ? 2 : 1);
        found = pf__groups_design(job, m->s, n, group, factor, starts, KEEP, levels, error);
        status = found < 0 ? error->code : PF_OK;
        for (int i = 0; i < found && status == PF_OK; i++) {
            status = make_probe(m, n, group, levels + (size_t)i * size, &kept[i], error);
        }
        if (status == PF_OK && found > 0) {
            status = choose(m, found, kept, probe, smallest, error);
        }
        if (*smallest > 0 || m->s->n_moves == 0) {
            break;
        }
        // superposition fell short of how far the outputs go: hold them to less
        factor *= tighter;
    }
    free(levels);
    return status;
}

bool pf__design_same(const pf_plan *plan, const pf_plan_probe *a, const pf_plan_probe *b)
{
    return a->rows == b->rows &&
           memcmp(a->command, b->command,
                  (size_t)a->rows * (size_t)plan->n_mech * sizeof(double)) == 0;
}

// Single pulses that the constraints allow go after the designed probes.
static int add_singles(const pf_maker *m, pf_plan_probe *probes, int n)
{
    const pf_plan *plan = m->job->plan;
    for (int q = 0; q < plan->n_probes && m->job->config->with_singles; q++) {
        const pf_plan_probe *p = &plan->probes[q];
        bool fits = p->n_targets == 1 &&
                    pf__design_allows(m->job->config, plan, p->rows, p->command, NULL) == PF_OK;
        for (int i = 0; i < n && fits; i++) {
            fits = !pf__design_same(plan, &probes[i], p);
        }
        if (fits) {
            probes[n++] = *p;
        }
    }
    return n;
}

// What the designed probe of this number, from 1, is called.
static const char *design_name(pf_design_job *job, int number)
{
    char name[24];
    snprintf(name, sizeof name, "group_%d", number);
    return pf__arena_text(&job->arena, name);
}

static bool all_accepted(const pf_design_library *l, int q)
{
    const pf_design_probe *p = &l->probes[q];
    for (int t = 0; t < p->probe.n_targets; t++) {
        if (!l->targets[p->first + t].accepted) {
            return false;
        }
    }
    return true;
}

// Whether one of the first `n` probes that calibration takes and that keeps the outputs within
// bounds has a mechanism for a target; with `good` also whether it separates it.
static bool is_covered(const pf_maker *m, const pf_design_library *l, int n, int mechanism,
                       bool good)
{
    for (int t = 0; t < l->n_targets && l->targets[t].probe < n; t++) {
        const pf_design_target *target = &l->targets[t];
        if (target->mechanism == mechanism && (target->good || !good) &&
            all_accepted(l, target->probe) &&
            pf__measure_within(m->job, &l->probes[target->probe])) {
            return true;
        }
    }
    return false;
}

// Keeps a library if it is the best so far: more good candidates; within bounds on outputs more
// that any probe looks at, then fewer probes; then the larger smallest separation.
static void keep_best(pf_maker *m, const pf_design_library *l, int n_designed)
{
    bool bounded = pf__exchange_bounded(m->x);
    int good = 0, covered = 0;
    double smallest = INFINITY;
    for (int t = 0; t < l->n_targets && l->targets[t].probe < n_designed; t++) {
        smallest = fmin(smallest, l->targets[t].confirmed);
    }
    for (int j = 1; j < m->job->plan->n_mech; j++) {
        good += is_covered(m, l, n_designed, j, true);
        covered += bounded && is_covered(m, l, n_designed, j, false);
    }
    bool fewer = bounded && n_designed != m->best_designed;
    bool better = good != m->best_good         ? good > m->best_good
                  : covered != m->best_covered ? covered > m->best_covered
                  : fewer                      ? n_designed < m->best_designed
                                               : smallest > m->best_smallest;
    if (!m->best.probes || better) {
        m->best = *l;
        m->best_smallest = smallest;
        m->best_good = good;
        m->best_covered = covered;
        m->best_designed = n_designed;
    }
}

// Predicts and confirms a whole library, designed probes first, and keeps it if it is the best.
static pf_status weigh(pf_maker *m, int n_designed, const pf_plan_probe *designed, bool *all,
                       pf_error *error)
{
    pf_design_job *job = m->job;
    size_t room = (size_t)n_designed + (size_t)job->plan->n_probes;
    pf_plan_probe *probes = pf__arena_take(&job->arena, room, sizeof *probes);
    if (!probes) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a library");
    }
    memcpy(probes, designed, (size_t)n_designed * sizeof *probes);
    for (int q = 0; q < n_designed; q++) {
        probes[q].name = design_name(job, q + 1);
    }
    int n = add_singles(m, probes, n_designed);
    pf_design_library l;
    pf_status status = pf__measure_library(job, "exchange", n, probes, &l, error);
    status = status ? status : pf__measure_predict(job, &l, error);
    status = status ? status : pf__measure_confirm(job, &l, error);
    if (status != PF_OK) {
        return status;
    }
    *all = true;
    for (int i = 0; i < m->n_strong; i++) {
        *all = *all && is_covered(m, &l, n_designed, m->strong[i], true);
    }
    keep_best(m, &l, n_designed);
    return PF_OK;
}

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

// Members of group g of k shared ones, or after them a candidate that stays alone; sorted.
static int members(const pf_maker *m, int k, int g, const int *group_of, int *group)
{
    int n = 0;
    for (int i = 0; i < m->n_strong && g < k; i++) {
        if (group_of[i] == g) {
            group[n++] = m->strong[i];
        }
    }
    if (g >= k) {
        group[n++] = m->alone[g - k];
    }
    qsort(group, (size_t)n, sizeof *group, by_number);
    return n;
}

// Tries k shared probes, and one for each candidate that stays alone.
static pf_status try_division(pf_maker *m, int k, bool last, bool *done, pf_error *error)
{
    int group_of[PF_MECH_MAX], group[PF_MECH_MAX], n_probes = 0;
    double quick = INFINITY, share = pf__design_share(m) * m->job->config->target;
    double least = last ? 0 : quick_share * share;
    if (k > 0 &&
        !pf__groups_divide(m->job, m->x, m->n_strong, m->strong, k, least, group_of, &quick)) {
        return PF_OK; // more probes are needed
    }
    if (quick < least) {
        return PF_OK;
    }
    pf_plan_probe probes[PF_MECH_MAX];
    pf_status status = PF_OK;
    for (int g = 0; g < k + m->n_alone && status == PF_OK; g++) {
        double smallest = 0;
        int n = members(m, k, g, group_of, group);
        if (n == 0) {
            continue;
        }
        status = design_group(m, n, group, &probes[n_probes], &smallest, error);
        n_probes += smallest > 0;
        if (!last && g < k && smallest < share) {
            return status;
        }
    }
    return status == PF_OK && n_probes > 0 ? weigh(m, n_probes, probes, done, error) : status;
}

// --- conclusions: from the best library that was found to what is reported of it

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
            p.probe.name = design_name(m->job, ++d->n_designed);
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
    int *pairs = pf__arena_take(&m->job->arena, (size_t)n * (size_t)n + 1, sizeof *pairs);
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

// Refuses: no probe shows anything; and says what could be allowed.
static pf_status refuse_nothing(const pf_maker *m, pf_error *error)
{
    const pf_design_config *c = m->job->config;
    const pf_level *first = &m->job->levels[1];
    char bounds[160] = "";
    for (int i = 0, at = 0; i < c->n_chan; i++) {
        if (isfinite(c->most[i]) && at < (int)sizeof bounds - 80) {
            at += pf__print(bounds + at, sizeof bounds - (size_t)at, "%s'%.40s' %g",
                            at > 0 ? ", " : "", m->job->plan->channels[i].name, c->most[i]);
        }
    }
    return pf_fail(error, PF_ERR_DEGENERATE,
                   "%sno allowed probe was found%s%s that separates any mechanism: a loss to %g "
                   "shows too little beside the noise; allow more design.steps%s%s%s or larger "
                   "commands%s",
                   bounds[0] ? "design.excursion: " : "", bounds[0] ? " within " : "", bounds,
                   m->job->plan->settings.g_cal, bounds[0] ? ", a larger excursion" : "",
                   pf__design_slow(first) ? ", a faster design.rate" : "",
                   first->zero_integral ? ", no design.zero_integral" : "",
                   m->job->model ? ", or use a better model" : "");
}

// Drops what calibration would refuse, names what is missing, measures the other families.
static pf_status conclude(pf_maker *m, pf_design *d, pf_error *error)
{
    size_t n = (size_t)m->job->plan->n_mech;
    int *weak = pf__arena_take(&m->job->arena, n, sizeof *weak);
    int *left = pf__arena_take(&m->job->arena, n + (size_t)m->job->plan->n_probes, sizeof *left);
    bool *dropped = pf__arena_take(&m->job->arena, (size_t)m->best.n_probes, sizeof *dropped);
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
        return refuse_nothing(m, error);
    }
    if (status == PF_OK && m->best_designed > 1 && m->job->config->compare) {
        status = find_pairs(m, d, error);
    }
    return status == PF_OK ? compare(m, d, error) : status;
}

// --- all divisions

// Fewer probes than this cannot obey at_once.
static int fewest(const pf_maker *m)
{
    int most = m->job->config->at_once;
    return (m->n_strong + most - 1) / most;
}

// Adds a probe of a group to a list, unless there is none within bounds or it is in there already.
static pf_status add_group(pf_maker *m, int n, const int *group, pf_plan_probe *probes,
                           int *n_probes, pf_error *error)
{
    double smallest = 0;
    pf_plan_probe *made = &probes[*n_probes];
    pf_status status = design_group(m, n, group, made, &smallest, error);
    bool known = status != PF_OK || smallest == 0;
    for (int q = 0; q < *n_probes && !known; q++) {
        known = pf__design_same(m->job->plan, &probes[q], made);
    }
    *n_probes += !known;
    return status;
}

// Within bounds on outputs: adds to the best library a probe of two for every candidate that it
// leaves too weak, with the partner that helps most, and one of all where they may act at once.
static pf_status help(pf_maker *m, pf_error *error)
{
    const pf_design_config *c = m->job->config;
    pf_plan_probe probes[2 * PF_MECH_MAX + 1];
    bool helped[PF_MECH_MAX] = {false}, all_good;
    int n = m->best_designed, all[PF_MECH_MAX];
    pf_status status = PF_OK;
    for (int q = 0; q < n; q++) {
        probes[q] = m->best.probes[q].probe;
    }
    for (int j = 1; j < c->n_mech && status == PF_OK; j++) {
        double value;
        int k = helped[j] || is_covered(m, &m->best, m->best_designed, j, true)
                    ? 0
                    : pf__candidates_partner(m, j, &value);
        if (k > 0) {
            int pair[2] = {j < k ? j : k, j < k ? k : j};
            helped[k] = true;
            status = add_group(m, 2, pair, probes, &n, error);
        }
        all[j - 1] = j;
    }
    if (status == PF_OK && pf__groups_allowed(c, c->n_mech - 1, all)) {
        status = add_group(m, c->n_mech - 1, all, probes, &n, error);
    }
    return status == PF_OK && n > m->best_designed ? weigh(m, n, probes, &all_good, error) : status;
}

static pf_status search(pf_maker *m, pf_error *error)
{
    bool done = false;
    pf_status status = PF_OK;
    for (int k = fewest(m); k <= m->n_strong && status == PF_OK && !done; k++) {
        bool last = k == m->n_strong;
        status = try_division(m, k, last, &done, error);
    }
    bool weak = m->best_good < m->job->plan->n_mech - 1;
    if (status == PF_OK && weak && pf__exchange_bounded(m->x)) {
        status = help(m, error);
    }
    if (status == PF_OK && !m->best.probes) {
        status = refuse_nothing(m, error);
    }
    return status;
}

// --- all of it

static pf_status make(pf_design *d, pf_design_job *job, pf_error *error)
{
    pf_sensitivity s = {0};
    pf_maker m = {.job = job, .s = &s};
    pf_status status = pf__study_noise(job, error);
    status = status ? status : pf__sensitivity_find(&s, job, error);
    if (status == PF_OK) {
        m.x = pf__exchange_create(&s, job->config->n_mech - 1, 1);
        status = m.x ? pf__candidates_sort(&m, error)
                     : pf_fail(error, PF_ERR_MEMORY, "out of memory for the exchange");
    }
    status = status ? status : search(&m, error);
    status = status ? status : conclude(&m, d, error);
    pf__exchange_destroy(m.x);
    pf__sensitivity_free(&s);
    return status;
}

static pf_status check_call(const pf_design_config *config, const pf_plan *plan,
                            const pf_plant_info *info, const pf_model *model, pf_error *error)
{
    if (plan->n_mech != info->n_mech || plan->n_chan != info->n_chan ||
        plan->n_state != info->n_state) {
        return pf_fail(error, PF_ERR_MISMATCH, "the plan was made for another plant than %s",
                       info->name);
    }
    if (config->n_mech != plan->n_mech || config->n_chan != plan->n_chan) {
        return pf_fail(error, PF_ERR_MISMATCH, "the constraints were read for another plan");
    }
    for (int q = 0; q < plan->n_probes; q++) {
        if (plan->probes[q].policy) {
            return pf_fail(
                error, PF_ERR_UNSUPPORTED,
                "probe '%s' is a closed loop, and a design starts from commands; leave it "
                "out",
                plan->probes[q].name);
        }
    }
    return model ? pf__model_fits(model, info, error) : PF_OK;
}

pf_status pf__design_create(pf_design *d, const pf_design_config *config, const pf_plan *plan,
                            pf_plant *plant, const pf_model *model, const pf_effort *effort,
                            pf_error *error)
{
    memset(d, 0, sizeof *d);
    pf_error own = {PF_OK, ""};
    error = error ? error : &own;
    pf_design_job *job = calloc(1, sizeof *job);
    if (!job) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for the design");
    }
    d->memory = job;
    *job = (pf_design_job){.config = config,
                           .plan = plan,
                           .plant = plant,
                           .model = model,
                           .effort = effort,
                           .rows = config->rows};
    pf_status status = check_call(config, plan, pf_plant_get_info(plant), model, error);
    if (status != PF_OK) {
        pf__design_free(d);
        return status;
    }
    pf_level *levels = pf__arena_take(&job->arena, (size_t)plan->n_mech, sizeof *levels);
    for (int j = 1; j < plan->n_mech && levels; j++) {
        levels[j] = pf__design_level(config, &config->bounds[j]);
    }
    for (int q = 0; q < plan->n_probes; q++) {
        job->rows = plan->probes[q].rows > job->rows ? plan->probes[q].rows : job->rows;
    }
    job->levels = levels;
    if (status == PF_OK && job->arena.failed) {
        status = pf_fail(error, PF_ERR_MEMORY, "out of memory for the design");
    }
    status = status ? status : make(d, job, error);
    d->scale = job->return_scale;
    if (status != PF_OK) {
        pf__design_free(d);
    }
    return status;
}

void pf__design_free(pf_design *d)
{
    pf_design_job *job = d->memory;
    if (job) {
        pf__arena_free(&job->arena);
        free(job);
    }
    memset(d, 0, sizeof *d);
}
