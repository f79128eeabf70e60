// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "design_impl.h"

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
        pf_arena_take(&job->arena, (size_t)c->rows * (size_t)c->n_mech, sizeof *command);
    int *targets = pf_arena_take(&job->arena, (size_t)n, sizeof *targets);
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
    *probe =
        (pf_plan_probe){"", c->rows, command, pf__design_charge(job->plan) * c->rows, n, targets};
    return PF_OK;
}

// The design out of a few that the predictor itself likes best; *smallest 0: none keeps the outputs
// within bounds.
static pf_status choose(pf_maker *m, int n, const pf_plan_probe *kept, pf_plan_probe *probe,
                        double *smallest, pf_error *error)
{
    pf_design_library library;
    pf_status status = pf__measure_library(m->job, "exchange", n, kept, &library, error);
    if (status == PF_OK) {
        status = pf__measure_predict(m->job, &library, error);
    }
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
                    pf_design_allows(m->job->config, plan, p->rows, p->command, NULL) == PF_OK;
        for (int i = 0; i < n && fits; i++) {
            fits = !pf__design_same(plan, &probes[i], p);
        }
        if (fits) {
            probes[n++] = *p;
        }
    }
    return n;
}

const char *pf__design_name(pf_design_job *job, int number)
{
    char name[24];
    snprintf(name, sizeof name, "group_%d", number);
    return pf_arena_text(&job->arena, name);
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
    pf_plan_probe *probes = pf_arena_take(&job->arena, room, sizeof *probes);
    if (!probes) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a library");
    }
    memcpy(probes, designed, (size_t)n_designed * sizeof *probes);
    for (int q = 0; q < n_designed; q++) {
        probes[q].name = pf__design_name(job, q + 1);
    }
    int n = add_singles(m, probes, n_designed);
    pf_design_library l;
    pf_status status = pf__measure_library(job, "exchange", n, probes, &l, error);
    if (status == PF_OK) {
        status = pf__measure_predict(job, &l, error);
    }
    if (status == PF_OK) {
        status = pf__measure_confirm(job, &l, error);
    }
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
        status = pf__design_nothing(m, error);
    }
    return status;
}

// --- all of it

static pf_status make(pf_design *d, pf_design_job *job, pf_error *error)
{
    pf_sensitivity s = {0};
    pf_maker m = {.job = job, .s = &s};
    pf_status status = pf__study_noise(job, error);
    if (status == PF_OK) {
        status = pf__sensitivity_find(&s, job, error);
    }
    if (status == PF_OK) {
        m.x = pf__exchange_create(&s, job->config->n_mech - 1, 1);
        status = m.x ? pf__candidates_sort(&m, error)
                     : pf_fail(error, PF_ERR_MEMORY, "out of memory for the exchange");
    }
    if (status == PF_OK) {
        status = search(&m, error);
    }
    if (status == PF_OK) {
        status = pf__design_conclude(&m, d, error);
    }
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
    return model ? pf_model_fits(model, info, error) : PF_OK;
}

pf_status pf_design_create(pf_design *d, const pf_design_config *config, const pf_plan *plan,
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
        pf_design_free(d);
        return status;
    }
    pf_level *levels = pf_arena_take(&job->arena, (size_t)plan->n_mech, sizeof *levels);
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
    if (status == PF_OK) {
        status = make(d, job, error);
    }
    d->scale = job->return_scale;
    if (status != PF_OK) {
        pf_design_free(d);
    }
    return status;
}

void pf_design_free(pf_design *d)
{
    pf_design_job *job = d->memory;
    if (job) {
        pf_arena_free(&job->arena);
        free(job);
    }
    memset(d, 0, sizeof *d);
}
