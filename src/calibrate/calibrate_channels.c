// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate_impl.h"
#include "fit.h"
#include "preflight/severity.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Gains that the channel for every severity is calibrated at, mixed evenly.
static const double severities[] = {.2, .35, .5, .65, .8};
enum { N_SEVERITIES = sizeof severities / sizeof severities[0] };

// Slots of all episodes: per probe, class, episode, target. Class 0 is nominal, t + 1 is target t
// at g_cal (centres, and the paper's channel), n_targets + 1 + t is target t at mixed severities.
typedef struct episodes {
    pf_calibration *c;
    pf_match *matches;
    double *plain; // with weights: what no signature explains of a residual, unweighted, by slot
    size_t *first; // first slot of each probe
    int *probe_of; // per unit of work
    int *class_of;
} episodes;

static pf_match *slot(const episodes *e, int probe, int class, int episode)
{
    const pf_plan *plan = e->c->plan;
    size_t targets = (size_t)plan->probes[probe].n_targets;
    return e->matches + e->first[probe] +
           ((size_t) class * (size_t)plan->episodes + (size_t)episode) * targets;
}

// The matches of an episode; where the kit whitens, also what no signature explains without it.
static void match_episode(episodes *e, pf__evidence *seen, pf_match *out)
{
    pf__evidence_match(seen, out);
    if (seen->norm) {
        out[0].score = pf_residual_norm(seen->rows * seen->n_chan, seen->residual);
    }
    if (seen->whiten) {
        e->plain[out - e->matches] = out[0].off;
        pf__evidence_whiten(seen);
        pf__evidence_match(seen, out);
    }
}

// One episode: the physical response, the predictions from its saved start, the matches.
static pf_status run_episode(void *self, int worker, size_t item, pf_error *error)
{
    episodes *e = self;
    pf_calibration *c = e->c;
    const pf_plan *plan = c->plan;
    pf_worker *w = &c->workers[worker];
    size_t unit = item / (size_t)plan->episodes;
    int episode = (int)(item % (size_t)plan->episodes);
    int q = e->probe_of[unit], class = e->class_of[unit];
    const pf_plan_probe *probe = &plan->probes[q];
    bool mixed = class > probe->n_targets;
    for (int j = 0; j < plan->n_mech; j++) {
        w->gains[j] = 1;
    }
    if (class > 0) {
        w->gains[probe->targets[(class - 1) % probe->n_targets]] =
            mixed ? severities[episode % N_SEVERITIES] : plan->g_cal;
    }
    pf_rig rig = {.plant = w->plant,
                  .kit = &c->build.kit,
                  .gains = w->gains,
                  .start = w->start,
                  .response = w->response,
                  .sensed_start = plan->sensed_start};
    pf_key key =
        pf_key_stream(plan->seed, plan->environment, (uint64_t)episode, PF_PURPOSE_CALIBRATION,
                      mixed       ? 2
                      : class > 0 ? 1
                                  : 0);
    pf_status status = pf_rig_run(&rig, q, key, error);
    pf__evidence seen = pf__worker_evidence(c, worker, q);
    if (status == PF_OK) {
        status = pf__evidence_signatures(&seen, error);
    }
    if (status == PF_OK) {
        pf__evidence_residual(&seen, w->response);
        match_episode(e, &seen, slot(e, q, class, episode));
    }
    return status;
}

// Usable scores and coefficients of one target in one class.
static int collect(const episodes *e, int probe, int class, int target, double *score,
                   double *coefficient, double *remaining)
{
    int n = 0;
    for (int i = 0; i < e->c->plan->episodes; i++) {
        const pf_match *m = slot(e, probe, class, i) + target;
        remaining[i] = m->remaining;
        if (m->usable) {
            score[n] = m->score;
            coefficient[n++] = m->coefficient;
        }
    }
    return n;
}

static pf_status refuse(const pf_plan *plan, int probe, int target, const char *why,
                        pf_error *error)
{
    const pf_plan_probe *p = &plan->probes[probe];
    return pf_fail(error, PF_ERR_DEGENERATE, "probe '%s', mechanism '%s': %s", p->name,
                   plan->mechanisms[p->targets[target]].name, why);
}

// Names the other targets that the signature of `target` cannot be told from.
static pf_status refuse_collinear(const pf_plan *plan, int probe, int target, pf_error *error)
{
    const pf_plan_probe *p = &plan->probes[probe];
    char text[240];
    int at = snprintf(text, sizeof text, "cannot be told apart from");
    for (int t = 0; t < p->n_targets; t++) {
        if (t != target && at > 0 && (size_t)at < sizeof text) {
            at += snprintf(text + at, sizeof text - (size_t)at, " '%s'",
                           plan->mechanisms[p->targets[t]].name);
        }
    }
    return refuse(plan, probe, target, text, error);
}

typedef struct fit_buffers {
    double *score[2], *coefficient[2], *remaining, *scratch;
} fit_buffers;

// Class of the episodes that speak for the change of a target in its channel.
static int channel_class(const pf_plan *plan, int probe, int target)
{
    return 1 + target + (plan->every_severity ? plan->probes[probe].n_targets : 0);
}

// Scores and coefficients of one class into buffer `into`; refused where too few are usable.
static pf_status collect_class(episodes *e, int probe, int class, int target, fit_buffers *f,
                               int into, int *n, pf_error *error)
{
    const pf_plan *plan = e->c->plan;
    *n = collect(e, probe, class, target, f->score[into], f->coefficient[into], f->remaining);
    double median = pf_fit_median(plan->episodes, f->remaining, f->scratch);
    if (median < PF_REMAINING_CALIBRATION && plan->probes[probe].n_targets > 1) {
        return refuse_collinear(plan, probe, target, error);
    }
    if (*n < 2 || 2 * *n < plan->episodes) {
        return refuse(plan, probe, target, "the model predicts no effect of a loss", error);
    }
    return PF_OK;
}

static bool all_zero(int n, const double *values)
{
    for (int i = 0; i < n; i++) {
        if (values[i] != 0) {
            return false;
        }
    }
    return true;
}

// Centres and dispersion of one target from its nominal and g_cal episodes.
static pf_status fit_centres(episodes *e, int probe, int target, fit_buffers *f, pf_error *error)
{
    const pf_plan *plan = e->c->plan;
    pf_kit_build *b = &e->c->build;
    int at = b->probe_target[probe] + target, n0 = 0, n1 = 0;
    pf_status status = collect_class(e, probe, 0, target, f, 0, &n0, error);
    if (status == PF_OK) {
        status = collect_class(e, probe, target + 1, target, f, 1, &n1, error);
    }
    if (status != PF_OK) {
        return status;
    }
    b->m0[at] = pf_fit_median(n0, f->coefficient[0], f->scratch);
    b->m1[at] = pf_fit_median(n1, f->coefficient[1], f->scratch);
    double apart = b->m1[at] - b->m0[at];
    if (!(fabs(apart) > 1e-9)) {
        return refuse(plan, probe, target, "the responses at gain 1 and g_cal coincide", error);
    }
    double sigma = pf_fit_dispersion(n1, f->coefficient[1], f->scratch) / fabs(apart);
    double spread = pf_fit_dispersion(n0, f->coefficient[0], f->scratch) / fabs(apart);
    if (plan->require_probe && fmax(sigma, spread) > 1.0 / 3) {
        return refuse(plan, probe, target,
                      e->c->model
                          ? "healthy and weakened responses lie less than 3 dispersions apart; "
                            "use a better model, or a stronger or longer probe"
                          : "healthy and weakened responses lie less than 3 dispersions apart; "
                            "use a stronger or longer probe",
                      error);
    }
    b->sigma[at] = plan->sigma_fixed > 0 ? plan->sigma_fixed : fmax(sigma, .02);
    return PF_OK;
}

// Coordinates of a target at one of the severities, into z. Gives how many.
static int collect_severity(const episodes *e, int probe, int target, int severity, double *z)
{
    const pf_plan *plan = e->c->plan;
    const pf_kit_build *b = &e->c->build;
    int at = b->probe_target[probe] + target, n = 0;
    for (int i = severity; i < plan->episodes; i += N_SEVERITIES) {
        const pf_match *m = slot(e, probe, 1 + plan->probes[probe].n_targets + target, i) + target;
        if (m->usable) {
            z[n++] = pf_coordinate(m->coefficient, b->m0[at], b->m1[at]);
        }
    }
    return n;
}

// The coordinate by grid gain: medians at the severities, lines between them and to 0 at gain 1,
// falling with the gain. And its spread about that curve at the severity where it is largest:
// signatures are taken at g_cal, so a state that decides how much a loss shows, or a grave loss
// that shows less than a mild one, spreads the coordinate elsewhere.
static void fit_curve(const episodes *e, int probe, int target, fit_buffers *f)
{
    const pf_plan *plan = e->c->plan;
    pf_kit_build *b = &e->c->build;
    int at = b->probe_target[probe] + target;
    double z[N_SEVERITIES + 1], gain[N_SEVERITIES + 1], *values = f->remaining, spread = 0;
    gain[N_SEVERITIES] = 1;
    z[N_SEVERITIES] = 0;
    for (int s = N_SEVERITIES - 1; s >= 0; s--) {
        int n = collect_severity(e, probe, target, s, values);
        gain[s] = severities[s];
        z[s] =
            n > 0 ? pf_fit_median(n, values, f->scratch) : pf_severity_line(gain[s], plan->g_cal);
        z[s] = fmax(z[s], z[s + 1]);
        spread = fmax(spread, pf_fit_spread(n, values, z[s]));
    }
    double *curve = b->curve + (size_t)at * (size_t)plan->n_grid;
    for (int g = 0; g < plan->n_grid; g++) {
        int k = 0;
        while (k < N_SEVERITIES - 1 && plan->grid[g] > gain[k + 1]) {
            k++;
        }
        double weight = (plan->grid[g] - gain[k]) / (gain[k + 1] - gain[k]);
        curve[g] = z[k] + weight * (z[k + 1] - z[k]);
    }
    if (plan->sigma_fixed <= 0) {
        b->sigma[at] = fmax(b->sigma[at], spread);
    }
}

// What is plausible of a probe's response: twice the largest rms off the signatures that any
// calibration episode showed. And the typical size of a target's signature.
static void fit_plausible(episodes *e, int probe, int target, fit_buffers *f)
{
    const pf_plan *plan = e->c->plan;
    pf_kit_build *b = &e->c->build;
    int classes = 1 + plan->probes[probe].n_targets * (plan->every_severity ? 2 : 1);
    double largest = 1e-12, plain = 1e-12;
    for (int class = 0; class < classes; class ++) {
        for (int i = 0; i < plan->episodes; i++) {
            const pf_match *m = slot(e, probe, class, i) + target;
            largest = m->usable && m->off > largest ? m->off : largest;
            if (e->plain) {
                plain = fmax(plain, e->plain[slot(e, probe, class, i) - e->matches]);
            }
            f->remaining[i] = m->usable ? m->size : 0;
        }
    }
    b->off_limit[probe] = fmax(b->off_limit[probe], 2 * largest);
    b->distance_limit[probe] = e->plain ? 2 * plain : b->off_limit[probe];
    b->signature[b->probe_target[probe] + target] =
        pf_fit_median(plan->episodes, f->remaining, f->scratch);
}

// Bins and the two rows of one target (protocol sections 2 and 8).
static pf_status fit_target(episodes *e, int probe, int target, fit_buffers *f, pf_error *error)
{
    const pf_plan *plan = e->c->plan;
    pf_kit_build *b = &e->c->build;
    int at = b->probe_target[probe] + target, bins = plan->n_bins, n0 = 0, n1 = 0;
    pf_status status = fit_centres(e, probe, target, f, error);
    if (status == PF_OK) {
        status = collect_class(e, probe, 0, target, f, 0, &n0, error);
    }
    if (status == PF_OK) {
        status =
            collect_class(e, probe, channel_class(plan, probe, target), target, f, 1, &n1, error);
    }
    if (status != PF_OK) {
        return status;
    }
    if (all_zero(n0, f->score[0])) {
        return refuse(plan, probe, target,
                      "nominal responses equal the prediction to the last bit: there is no noise "
                      "to calibrate against; set sensor_noise (for example .25)",
                      error);
    }
    if (b->kit.n_curve > 0) {
        fit_curve(e, probe, target, f);
    }
    fit_plausible(e, probe, target, f);
    double *edges = b->edges + (size_t)at * (size_t)(bins - 1);
    (plan->every_severity ? pf_fit_edges_information : pf_fit_edges)(
        n0, f->score[0], n1, f->score[1], bins, edges, f->scratch);
    pf_fit_row(n0, f->score[0], bins, edges, b->nominal + (size_t)at * (size_t)bins);
    pf_fit_row(n1, f->score[1], bins, edges, b->changed + (size_t)at * (size_t)bins);
    return PF_OK;
}

// How far the row of one target moves under another's fault; beyond 3 the probe keeps full rows.
static double fit_cross(episodes *e, int probe, fit_buffers *f, double *cross)
{
    pf_calibration *c = e->c;
    const pf_plan *plan = c->plan;
    int n_targets = plan->probes[probe].n_targets, bins = plan->n_bins;
    double worst = 1;
    for (int t = 0; t < n_targets; t++) {
        int at = c->build.probe_target[probe] + t;
        const double *edges = c->build.edges + (size_t)at * (size_t)(bins - 1);
        const double *nominal = c->build.nominal + (size_t)at * (size_t)bins;
        for (int other = 0; other < n_targets; other++) {
            double *row = cross + ((size_t)t * (size_t)n_targets + (size_t)other) * (size_t)bins;
            int n = collect(e, probe, channel_class(plan, probe, other), t, f->score[0],
                            f->coefficient[0], f->remaining);
            pf_fit_row(n, f->score[0], bins, edges, row);
            for (int k = 0; k < bins && other != t; k++) {
                double ratio = row[k] / nominal[k];
                worst = fmax(worst, fmax(ratio, 1 / ratio));
            }
        }
    }
    return worst;
}

static pf_status fit_all_cross(episodes *e, fit_buffers *f, pf_error *error)
{
    pf_calibration *c = e->c;
    const pf_plan *plan = c->plan;
    size_t total = 0;
    for (int q = 0; q < plan->n_probes; q++) {
        size_t t = (size_t)plan->probes[q].n_targets;
        total += t > 1 ? t * t * (size_t)plan->n_bins : 0;
    }
    if (total == 0) {
        return PF_OK;
    }
    double *cross = pf_arena_take(&c->arena, total, sizeof *cross);
    if (!cross) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for full rows");
    }
    int used = 0;
    for (int q = 0; q < plan->n_probes; q++) {
        int t = plan->probes[q].n_targets;
        if (t == 1) {
            continue;
        }
        double worst = fit_cross(e, q, f, cross + used);
        c->build.kit.cross_ratio = fmax(c->build.kit.cross_ratio, worst);
        if (worst > 3) {
            c->build.probe_cross[q] = used;
            used += t * t * plan->n_bins;
        }
    }
    return used > 0 ? pf_kit_build_cross(&c->build, used, cross, error) : PF_OK;
}

static pf_status fit_all(episodes *e, pf_error *error)
{
    const pf_plan *plan = e->c->plan;
    pf_arena *arena = &e->c->arena;
    size_t n = (size_t)plan->episodes;
    fit_buffers f;
    for (int i = 0; i < 2; i++) {
        f.score[i] = pf_arena_take(arena, n, sizeof(double));
        f.coefficient[i] = pf_arena_take(arena, n, sizeof(double));
    }
    f.remaining = pf_arena_take(arena, n, sizeof(double));
    f.scratch = pf_arena_take(
        arena, pf_fit_information_scratch(plan->episodes, plan->episodes, plan->n_bins),
        sizeof(double));
    if (arena->failed) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for %d episodes", plan->episodes);
    }
    for (int q = 0; q < plan->n_probes; q++) {
        for (int t = 0; t < plan->probes[q].n_targets; t++) {
            pf_status status = fit_target(e, q, t, &f, error);
            if (status != PF_OK) {
                return status;
            }
        }
    }
    return fit_all_cross(e, &f, error);
}

pf_status pf__calibrate_channels(pf_calibration *c, pf_error *error)
{
    const pf_plan *plan = c->plan;
    episodes e = {.c = c};
    size_t units = 0, slots = 0, n_probes = (size_t)plan->n_probes;
    e.first = pf_arena_take(&c->arena, n_probes, sizeof *e.first);
    for (size_t q = 0; q < n_probes && e.first; q++) {
        size_t t = (size_t)plan->probes[q].n_targets;
        size_t classes = 1 + t * (plan->every_severity ? 2 : 1);
        e.first[q] = slots;
        units += classes;
        slots += classes * (size_t)plan->episodes * t;
    }
    e.matches = pf_arena_take(&c->arena, slots, sizeof *e.matches);
    if (c->build.kit.n_whiten > 0) {
        e.plain = pf_arena_take(&c->arena, slots, sizeof *e.plain);
    }
    e.probe_of = pf_arena_take(&c->arena, units, sizeof(int));
    e.class_of = pf_arena_take(&c->arena, units, sizeof(int));
    if (c->arena.failed) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for %d episodes per class",
                       plan->episodes);
    }
    int unit = 0;
    for (int q = 0; q < plan->n_probes; q++) {
        int classes = 1 + plan->probes[q].n_targets * (plan->every_severity ? 2 : 1);
        for (int class = 0; class < classes; class ++) {
            e.probe_of[unit] = q;
            e.class_of[unit++] = class;
        }
    }
    pf_status status = pf_parallel(c->effort, c->n_workers, units * (size_t)plan->episodes,
                                   run_episode, &e, "episodes", error);
    return status == PF_OK ? fit_all(&e, error) : status;
}
