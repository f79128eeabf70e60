// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "fit.h"
#include "core/score.h"
#include "source.h"

#include "core/constants.h"

#include "core/joint.h"
#include "host/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const double pf__severities[PF_SEVERITIES] = {.2, .35, .5, .65, .8};

// From the matches of all episodes to centres, dispersion, curve, limits, bins and rows.

typedef struct fitter {
    const pf_source *source;
    const pf_plan *plan;
    pf_kit_build *build;
    int most, n_sets;                  // scores of a class; sets of changed scores
    double *score[2], *coefficient[2]; // nominal, changed (score: n_sets x most)
    double *pooled[2];                 // n_sets x most
    double *values, *scratch;
    pf_samples *points; // of the curve
    double *gains, *z;  // there
    double *row;        // n_bins
    double *cross;      // full rows
    double *apart;      // per target of all probes: centres, in dispersions
    pf_error *error;
} fitter;

static pf_status refuse(const fitter *f, int probe, int target, const char *why)
{
    const pf_plan_probe *p = &f->plan->probes[probe];
    const char *file = f->source->file;
    return pf_fail(f->error, PF_ERR_DEGENERATE, "%s%sprobe '%s', mechanism '%s': %s",
                   file ? file : "", file ? ": " : "", p->name,
                   f->plan->mechanisms[p->targets[target]].name, why);
}

static pf_status not_finite(const fitter *f, int probe, int target)
{
    return refuse(f, probe, target, "a score is not finite; check the units");
}

static pf_samples class_samples(const fitter *f, int probe, int class)
{
    return f->source->class_samples(f->source->self, probe, class);
}

// Class of the episodes that speak for the change of a target in its channel.
static int channel_class(const fitter *f, int probe, int target)
{
    int n_targets = f->plan->probes[probe].n_targets;
    bool mixed = f->source->classes(f->source->self, probe) > 1 + n_targets;
    return 1 + target + (mixed ? n_targets : 0);
}

// Usable scores and coefficients of one target; how many, -1: one is not finite.
static int collect(const pf_samples *s, int target, double *score, double *coefficient)
{
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        const pf_match *m = s->match + (size_t)i * (size_t)s->stride + target;
        if (m->usable && !(isfinite(m->score) && isfinite(m->coefficient))) {
            return -1;
        }
        if (m->usable) {
            score[n] = m->score;
            coefficient[n++] = m->coefficient;
        }
    }
    return n;
}

// --- signatures

static double median_size(const fitter *f, const pf_samples *s, int target)
{
    for (int i = 0; i < s->n; i++) {
        const pf_match *m = s->match + (size_t)i * (size_t)s->stride + target;
        f->values[i] = m->usable ? m->size : 0;
    }
    return pf__fit_median(s->n, f->values, f->scratch);
}

static bool is_collinear(const fitter *f, const pf_samples *s, int target)
{
    for (int i = 0; i < s->n; i++) {
        f->values[i] = s->match[(size_t)i * (size_t)s->stride + (size_t)target].remaining;
    }
    return pf__fit_median(s->n, f->values, f->scratch) < PF_REMAINING_CALIBRATION;
}

// Names the other targets that the signature of `target` cannot be told from.
static pf_status refuse_collinear(const fitter *f, const pf_samples *s, int probe, int target)
{
    const pf_plan_probe *p = &f->plan->probes[probe];
    char why[240];
    int at = snprintf(why, sizeof why, "cannot be told apart from");
    for (int t = 0; t < p->n_targets; t++) {
        if (t != target && at < (int)sizeof why && is_collinear(f, s, t)) {
            at += snprintf(why + at, sizeof why - (size_t)at, " '%s'",
                           f->plan->mechanisms[p->targets[t]].name);
        }
    }
    bool named = at > (int)strlen("cannot be told apart from");
    if (at < (int)sizeof why) {
        snprintf(why + at, sizeof why - (size_t)at, "%s; move them differently or one per probe",
                 named ? "" : " the others together");
    }
    return refuse(f, probe, target, why);
}

// Signatures must be there, and apart from each other.
static pf_status check_signatures(const fitter *f, const pf_samples *s, int probe, int target)
{
    const double *energy = f->source->energy;
    double size = energy ? energy[f->build->probe_target[probe] + target] : 1;
    if (!(size > 0) || !isfinite(size)) {
        return refuse(f, probe, target,
                      size > 0 ? "its effect is too large for a double; check the units"
                               : f->source->no_effect);
    }
    return f->plan->probes[probe].n_targets > 1 && is_collinear(f, s, target)
               ? refuse_collinear(f, s, probe, target)
               : PF_OK;
}

// Scores and coefficients of one class; refused where too few are usable.
static pf_status collect_class(const fitter *f, int probe, int class, int target, int into, int *n)
{
    pf_samples s = class_samples(f, probe, class);
    pf_status status = check_signatures(f, &s, probe, target);
    if (status != PF_OK) {
        return status;
    }
    *n = collect(&s, target, f->score[into], f->coefficient[into]);
    if (*n < 0) {
        return not_finite(f, probe, target);
    }
    return *n < 2 || 2 * *n < s.n ? refuse(f, probe, target, f->source->no_effect) : PF_OK;
}

// --- centres, curve, limits

// Centres and dispersion of one target from its nominal and g_cal episodes.
static pf_status fit_centres(const fitter *f, int probe, int target, int *n0)
{
    pf_kit_build *b = f->build;
    int at = b->probe_target[probe] + target, n1 = 0;
    pf_status status = collect_class(f, probe, 0, target, 0, n0);
    if (status == PF_OK) {
        status = collect_class(f, probe, target + 1, target, 1, &n1);
    }
    if (status != PF_OK) {
        return status;
    }
    b->centre_nominal[at] = pf__fit_median(*n0, f->coefficient[0], f->scratch);
    b->centre_changed[at] = pf__fit_median(n1, f->coefficient[1], f->scratch);
    double apart = fabs(b->centre_changed[at] - b->centre_nominal[at]);
    double dispersion = pf__fit_dispersion(n1, f->coefficient[1], f->scratch);
    double worst = fmax(dispersion, pf__fit_dispersion(*n0, f->coefficient[0], f->scratch));
    if (!(apart > PF_APART_MIN)) {
        char why[200];
        snprintf(why, sizeof why, "the responses at gain 1 and g_cal coincide; use %s",
                 f->source->stronger);
        return refuse(f, probe, target, why);
    }
    f->apart[at] = apart / worst;
    double fixed = f->plan->settings.sigma;
    b->sigma[at] = fixed > 0 ? fixed : fmax(dispersion / apart, PF_SIGMA_MIN);
    return PF_OK;
}

// Coordinates of a target at a point of its curve, into f->values. Gives how many.
static int collect_coordinates(const fitter *f, const pf_samples *s, int at, int target)
{
    int n = collect(s, target, f->score[1], f->values);
    for (int i = 0; i < n; i++) {
        f->values[i] = pf__coordinate(f->values[i], f->build->centre_nominal[at],
                                      f->build->centre_changed[at]);
    }
    return n;
}

// The coordinate by grid gain: centres at the points, lines between them, falling with the gain.
// And its spread about that curve at the point where it is largest: signatures are taken at g_cal,
// so a state that decides how much a loss shows, or a grave loss that shows less than a mild one,
// spreads the coordinate elsewhere.
static pf_status fit_curve(const fitter *f, int probe, int target)
{
    const pf_plan *plan = f->plan;
    const pf_source *source = f->source;
    int at = f->build->probe_target[probe] + target;
    int n = source->points(source->self, probe, target, f->points);
    double *z = f->z, spread = 0, *curve = f->build->curve + (size_t)at * (size_t)plan->n_grid;
    for (int k = n - 1; k >= 0; k--) {
        const pf_samples *s = &f->points[k];
        int count = collect_coordinates(f, s, at, target);
        if (count < 0) {
            return refuse(f, probe, target, "a coordinate is not finite; check the units");
        }
        f->gains[k] = s->gain;
        z[k] = count > 0 ? source->centre(count, f->values, f->scratch)
                         : pf__severity_line(s->gain, plan->settings.g_cal);
        z[k] = k + 1 < n ? fmax(z[k], z[k + 1]) : z[k];
        spread = fmax(spread, pf__fit_spread(count, f->values, z[k]));
    }
    for (int g = 0; g < plan->n_grid; g++) {
        int k = 0;
        double weight = pf__fit_between(n, f->gains, plan->grid[g], source->same_gain, &k);
        curve[g] = z[k] + weight * (z[k + 1] - z[k]);
        if (!isfinite(curve[g])) {
            return refuse(f, probe, target, "a coordinate is not finite; check the units");
        }
    }
    if (!(plan->settings.sigma > 0)) {
        f->build->sigma[at] = fmax(f->build->sigma[at], spread);
    }
    return PF_OK;
}

// What is plausible of a probe's response: twice the largest rms off the signatures that an
// episode showed. And the typical size of a target's signature.
static void fit_plausible(const fitter *f, int probe, int target)
{
    pf_kit_build *b = f->build;
    const pf_source *source = f->source;
    int classes = source->classes(source->self, probe);
    double largest = PF_MISFIT_MIN;
    for (int class = 0; class < classes; class ++) {
        pf_samples s = class_samples(f, probe, class);
        for (int i = 0; i < s.n; i++) {
            const pf_match *m = s.match + (size_t)i * (size_t)s.stride + target;
            largest = m->usable ? fmax(largest, m->off) : largest;
        }
        if (class == classes - 1) {
            b->signature[b->probe_target[probe] + target] = median_size(f, &s, target);
        }
    }
    b->off_limit[probe] = fmax(b->off_limit[probe], PF_LARGEST_MULTIPLE * largest);
    b->distance_limit[probe] =
        source->plain_off
            ? PF_LARGEST_MULTIPLE * fmax(PF_MISFIT_MIN, source->plain_off(source->self, probe))
            : b->off_limit[probe];
}

// --- bins and rows

// Repeats n values evenly until there are m.
static void spread_values(int n, const double *values, int m, double *out)
{
    for (int i = 0; i < m; i++) {
        out[i] = values[(int)((int64_t)i * n / m)];
    }
}

// The changed scores of a target: one set per severity, or all in one.
static pf_status collect_changed(const fitter *f, int probe, int target, int *n)
{
    const pf_source *source = f->source;
    if (f->n_sets == 1) {
        return collect_class(f, probe, channel_class(f, probe, target), target, 1, n);
    }
    for (int s = 0; s < f->n_sets; s++) {
        n[s] = source->severity_scores(source->self, probe, target, pf__severities[s],
                                       f->score[1] + (size_t)s * (size_t)f->most);
        if (n[s] < 0) {
            return not_finite(f, probe, target);
        }
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

// Bins and the two rows of one target (protocol sections 2 and 8); n0 nominal scores are there.
static pf_status fit_rows(const fitter *f, int probe, int target, int n0)
{
    pf_kit_build *b = f->build;
    int at = b->probe_target[probe] + target, bins = f->plan->settings.bins, n[PF_SEVERITIES],
        pooled = 0;
    double *edges = b->edges + (size_t)at * (size_t)(bins - 1);
    pf_status status = collect_changed(f, probe, target, n);
    if (status != PF_OK) {
        return status;
    }
    if (f->source->no_noise && all_zero(n0, f->score[0])) {
        return refuse(f, probe, target, f->source->no_noise);
    }
    for (int s = 0; s < f->n_sets; s++) {
        int m = f->source->even ? f->most : n[s];
        spread_values(n[s], f->score[1] + (size_t)s * (size_t)f->most, m, f->pooled[1] + pooled);
        pooled += m;
    }
    int nominal = f->source->even ? pooled : n0;
    spread_values(n0, f->score[0], nominal, f->pooled[0]);
    int weak = f->plan->settings.edges == PF_EDGES_NOMINAL ? 0 : pooled;
    (f->plan->settings.every_severity ? pf__fit_edges_information : pf__fit_edges)(
        nominal, f->pooled[0], f->plan->settings.every_severity ? pooled : weak, f->pooled[1], bins,
        edges, f->scratch);
    pf__fit_row(n0, f->score[0], bins, edges, b->nominal + (size_t)at * (size_t)bins);
    // rows are smoothed set by set: moved episodes are no more episodes than recorded
    for (int s = 0; s < f->n_sets; s++) {
        pf__fit_row(n[s], f->score[1] + (size_t)s * (size_t)f->most, bins, edges, f->row);
        for (int k = 0; k < bins; k++) {
            b->changed[(size_t)at * (size_t)bins + (size_t)k] += f->row[k] / f->n_sets;
        }
    }
    return PF_OK;
}

// Rows of every target under every other's fault; gives the worst ratio to the nominal row, NaN if
// a score is not finite.
static double fit_cross(const fitter *f, int probe, double *cross)
{
    const pf_kit_build *b = f->build;
    int n_targets = f->plan->probes[probe].n_targets, bins = f->plan->settings.bins;
    double worst = 1;
    for (int t = 0; t < n_targets; t++) {
        int at = b->probe_target[probe] + t;
        for (int other = 0; other < n_targets; other++, cross += bins) {
            pf_samples s = class_samples(f, probe, channel_class(f, probe, other));
            int n = collect(&s, t, f->score[0], f->coefficient[0]);
            if (n < 0) {
                return NAN;
            }
            pf__fit_row(n, f->score[0], bins, b->edges + (size_t)at * (size_t)(bins - 1), cross);
            for (int k = 0; k < bins && other != t; k++) {
                double ratio = cross[k] / b->nominal[(size_t)at * (size_t)bins + (size_t)k];
                worst = fmax(worst, fmax(ratio, 1 / ratio));
            }
        }
    }
    return worst;
}

// --- all of it

// Every mechanism needs one probe that tells healthy from weakened. What others show of it less
// clearly is worth what its rows say.
static pf_status check_apart(const fitter *f)
{
    const int32_t *first = f->build->probe_target;
    double best[PF_MECH_MAX] = {0};
    for (int q = 0; q < f->plan->n_probes; q++) {
        const pf_plan_probe *p = &f->plan->probes[q];
        for (int t = 0; t < p->n_targets; t++) {
            best[p->targets[t]] = fmax(best[p->targets[t]], f->apart[first[q] + t]);
        }
    }
    for (int q = 0; q < f->plan->n_probes; q++) {
        const pf_plan_probe *p = &f->plan->probes[q];
        for (int t = 0; t < p->n_targets; t++) {
            if (best[p->targets[t]] < PF_APART_DISPERSIONS) {
                char why[200];
                pf__print(why, sizeof why,
                          "nominal and weakened responses lie %.3g dispersions apart, at least 3 "
                          "are needed; use %s",
                          best[p->targets[t]], f->source->stronger);
                return refuse(f, q, t, why);
            }
        }
    }
    return PF_OK;
}

// All of one probe; full rows go to f->cross, *used doubles of it so far.
static pf_status fit_probe(const fitter *f, int probe, int *used)
{
    int n_targets = f->plan->probes[probe].n_targets, n0 = 0;
    pf_status status = PF_OK;
    for (int t = 0; t < n_targets && status == PF_OK; t++) {
        status = fit_centres(f, probe, t, &n0);
        if (status == PF_OK) {
            status = fit_rows(f, probe, t, n0);
        }
        if (status == PF_OK) {
            fit_plausible(f, probe, t);
        }
        if (status == PF_OK && f->build->kit.n_curve > 0) {
            status = fit_curve(f, probe, t);
        }
    }
    if (status != PF_OK || n_targets == 1) {
        return status;
    }
    double worst = fit_cross(f, probe, f->cross + *used);
    if (isnan(worst)) {
        return refuse(f, probe, 0, "a score under another fault is not finite; check the units");
    }
    f->build->kit.cross_ratio = fmax(f->build->kit.cross_ratio, worst);
    // the rows of the targets depend on who failed
    if (worst > PF_CROSS_RATIO) {
        f->build->probe_cross[probe] = *used;
        *used += n_targets * n_targets * f->plan->settings.bins;
    }
    return PF_OK;
}

static void make_room(fitter *f, pf_arena *arena)
{
    size_t most = (size_t)f->most, sets = (size_t)f->n_sets, d = sizeof(double), cross = 0;
    for (int q = 0; q < f->plan->n_probes; q++) {
        size_t t = (size_t)f->plan->probes[q].n_targets;
        cross += t > 1 ? t * t * (size_t)f->plan->settings.bins : 0;
    }
    for (int i = 0; i < 2; i++) {
        f->score[i] = pf__arena_take(arena, sets * most, d);
        f->pooled[i] = pf__arena_take(arena, sets * most, d);
        f->coefficient[i] = pf__arena_take(arena, most, d);
    }
    int pooled = f->n_sets * f->most;
    f->values = pf__arena_take(arena, most, d);
    f->scratch = pf__arena_take(
        arena, pf__fit_information_scratch(pooled, pooled, f->plan->settings.bins), d);
    f->points = pf__arena_take(arena, (size_t)f->source->most_points, sizeof *f->points);
    f->gains = pf__arena_take(arena, (size_t)f->source->most_points, d);
    f->row = pf__arena_take(arena, (size_t)f->plan->settings.bins, d);
    f->z = pf__arena_take(arena, (size_t)f->source->most_points, d);
    f->cross = pf__arena_take(arena, cross, d);
    f->apart = pf__arena_take(arena, (size_t)f->build->kit.n_targets, d);
}

pf_status pf__calibrate_channels(pf_source *source, pf_error *error)
{
    pf_status status = source->read(source->self, error);
    if (status != PF_OK) {
        return status;
    }
    bool moved = source->severity_scores && source->plan->settings.every_severity;
    fitter f = {.source = source,
                .plan = source->plan,
                .build = source->build,
                .most = source->most_samples,
                .n_sets = moved ? PF_SEVERITIES : 1,
                .error = error};
    pf_arena arena = {0};
    int used = 0;
    make_room(&f, &arena);
    if (arena.failed) {
        status = pf_fail(error, PF_ERR_MEMORY, "out of memory for %d episodes per class", f.most);
    }
    for (int q = 0; q < f.plan->n_probes && status == PF_OK; q++) {
        status = fit_probe(&f, q, &used);
    }
    if (status == PF_OK && (source->apart || f.plan->settings.field)) {
        status = check_apart(&f);
    }
    if (status == PF_OK && used > 0) {
        status = pf__kit_build_cross(f.build, used, f.cross, error);
    }
    pf__arena_free(&arena);
    return status;
}
