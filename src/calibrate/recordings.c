// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "fit.h"
#include "recordings_read.h"

#include "core/evidence.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A kit from recorded responses. In every group even ranks make what is predicted (means, scale,
// signatures), odd ranks what is calibrated on it (channel, members, alarm), so that no episode is
// judged by itself.

// Gains that the channel is calibrated for, mixed evenly (protocol section 8): with g_cal alone a
// milder fault would fall between the classes, into a bin that says nothing, and go unnoticed.
static const double severities[] = {.2, .35, .5, .65, .8};
enum { N_SEVERITIES = sizeof severities / sizeof severities[0] };

typedef struct job {
    const pf_recordings *rec;
    pf_plan plan;
    const pf_effort *effort;
    pf_arena arena;
    pf_kit_build build;
    int most_targets;
    size_t most_window;      // rows x channels
    size_t most_episodes;    // of one group
    pf__evidence evidence;   // of a response to the probe at hand
    double *shift;           // two responses
    const pf_group **points; // recorded gains of one target and the nominal group
    double *pooled[2];       // N_SEVERITIES x most odd ranks, per class
    double *scratch;         // as much as both
    pf_match *matches; // (1 + most targets) x most odd ranks x most targets, see class_matches
    pf_match *spare;   // most odd ranks x most targets
    double *score[2], *coefficient[2];
    pf_error *error;
} job;

static const double *nominal_response(const job *b, int probe)
{
    return b->build.response + (size_t)b->build.probe_row[probe] * (size_t)b->plan.n_chan;
}

static size_t window(const job *b, int probe)
{
    return (size_t)b->plan.probes[probe].rows * (size_t)b->plan.n_chan;
}

static pf_status refuse(const job *b, int probe, int target, const char *why)
{
    const pf_plan_probe *p = &b->plan.probes[probe];
    return pf_fail(b->error, PF_ERR_DEGENERATE, "%s: probe '%s', mechanism '%s': %s", b->rec->file,
                   p->name, b->plan.mechanisms[p->targets[target]].name, why);
}

static int half(int n, int odd)
{
    return odd ? n / 2 : (n + 1) / 2;
}

// --- channel

// Signatures of a probe exactly as a session makes them from the kit.
static pf_status make_signatures(job *b, int probe)
{
    pf__evidence_set(&b->evidence, &b->build.kit, probe);
    return pf__evidence_signatures(&b->evidence, b->error);
}

// What one response says about the targets of the probe.
static void match(job *b, const double *response, pf_match *out)
{
    pf__evidence_residual(&b->evidence, response);
    pf__evidence_match(&b->evidence, out);
}

// The same for the odd ranks of a group: out is ranks x targets.
static void match_group(job *b, const pf_group *group, pf_match *out)
{
    int n_targets = b->plan.probes[group->probe].n_targets;
    for (int rank = 1; rank < group->n; rank += 2, out += n_targets) {
        match(b, pf_recordings_response(b->rec, group, rank), out);
    }
}

// The episodes of a class: 0 nominal, t + 1 target t at g_cal.
static const pf_group *class_group(const job *b, int probe, int class)
{
    int mechanism = class > 0 ? b->plan.probes[probe].targets[class - 1] : 0;
    return pf_recordings_find(b->rec, probe, mechanism, class > 0 ? b->plan.g_cal : 1);
}

// And their matches, odd ranks x targets.
static pf_match *class_matches(const job *b, int class)
{
    return b->matches + (size_t) class * (size_t)b->most_targets * (b->most_episodes / 2);
}

// Scores and coefficients of one target; how many, -1 if one is not finite.
static int pick(const job *b, const pf_group *group, const pf_match *matches, int target,
                double *score, double *coefficient)
{
    int n = half(group->n, 1), n_targets = b->plan.probes[group->probe].n_targets;
    for (int i = 0; i < n; i++) {
        const pf_match *m = &matches[i * n_targets + target];
        if (!isfinite(m->score) || !isfinite(m->coefficient)) {
            return -1;
        }
        score[i] = m->score;
        coefficient[i] = m->coefficient;
    }
    return n;
}

// Signatures must be there, and apart from each other.
static pf_status check_signatures(job *b, int probe)
{
    const pf_plan_probe *p = &b->plan.probes[probe];
    char why[200] = "cannot be told apart from";
    int at = (int)strlen(why), first = -1;
    match(b, nominal_response(b, probe), b->spare);
    for (int t = 0; t < p->n_targets; t++) {
        const double *h = b->evidence.signatures + (size_t)t * window(b, probe);
        double energy = pf_dot((int)window(b, probe), h, h);
        if (!(energy > 0) || !isfinite(energy)) {
            return refuse(b, probe, t,
                          energy > 0 ? "its effect is too large for a double; check the units"
                                     : "its weakened responses equal the nominal ones; does the "
                                       "probe move it?");
        }
        if (b->spare[t].remaining >= PF_REMAINING_CALIBRATION) {
            continue;
        }
        if (first < 0) {
            first = t;
        } else if (at < (int)sizeof why) {
            at += snprintf(why + at, sizeof why - (size_t)at, " '%s'",
                           b->plan.mechanisms[p->targets[t]].name);
        }
    }
    if (first < 0) {
        return PF_OK;
    }
    if (at < (int)sizeof why) {
        snprintf(why + at, sizeof why - (size_t)at, "; move them differently or one per probe");
    }
    return refuse(b, probe, first, why);
}

// The well recorded gain of a target that is nearest to a severity; g_cal is always one.
static const pf_group *nearest_group(const job *b, int probe, int target, double severity)
{
    const pf_group *best = class_group(b, probe, target + 1);
    for (int g = 0; g < b->rec->n_groups; g++) {
        const pf_group *group = &b->rec->groups[g];
        double closer = fabs(best->gain - severity) - fabs(group->gain - severity);
        if (group->probe == probe && group->mechanism == best->mechanism &&
            group->n >= PF_LEAST_EPISODES && closer > PF_SAME_GAIN) {
            best = group;
        }
    }
    return best;
}

// Scores of a target at a severity: recorded ones, moved by what the kit's own responses say of
// the step from the recorded gain (a score is linear in the response). How many, -1: not finite.
static int severity_scores(job *b, int probe, int target, double severity, double *score)
{
    const pf_group *cal = class_group(b, probe, target + 1);
    const pf_group *group = nearest_group(b, probe, target, severity);
    const pf_match *matches = class_matches(b, target + 1);
    if (group != cal) {
        match_group(b, group, b->spare);
        matches = b->spare;
    }
    int n = pick(b, group, matches, target, score, b->coefficient[1]);
    if (n < 0 || fabs(group->gain - severity) < PF_SAME_GAIN) {
        return n;
    }
    double *from = b->shift, *to = b->shift + window(b, probe);
    const double *nominal = nominal_response(b, probe);
    pf__recordings_mean(b->rec, group, from);
    pf__recordings_at(b->rec, group->probe, group->mechanism, severity, b->points, to,
                      b->evidence.residual);
    for (size_t i = 0; i < window(b, probe); i++) {
        to[i] = nominal[i] + (to[i] - from[i]);
    }
    match(b, to, b->spare);
    for (int i = 0; i < n; i++) {
        score[i] += b->spare[target].score;
    }
    return isfinite(b->spare[target].score) ? n : -1;
}

// Repeats n values evenly until there are m: classes of any size are pooled 1:1.
static void spread(int n, const double *values, int m, double *out)
{
    for (int i = 0; i < m; i++) {
        out[i] = values[(int)((int64_t)i * n / m)];
    }
}

// Bins of nominal and weakened scores pooled 1:1, and the two rows. n0 nominal scores are in
// b->score[0].
static pf_status fit_rows(job *b, int probe, int target, int n0)
{
    int at = b->build.probe_target[probe] + target, bins = b->plan.n_bins;
    // the paper's channel knows g_cal alone
    bool every = b->plan.every_severity;
    const double *gains = every ? severities : &b->plan.g_cal;
    int each = (int)(b->most_episodes / 2), n_gains = every ? N_SEVERITIES : 1;
    int most = each * n_gains;
    double *edges = b->build.edges + (size_t)at * (size_t)(bins - 1);
    double *changed = b->build.changed + (size_t)at * (size_t)bins, row[64];
    for (int pass = 0; pass < 2; pass++) {
        for (int s = 0; s < n_gains; s++) {
            int n = severity_scores(b, probe, target, gains[s], b->score[1]);
            if (n < 0) {
                return refuse(b, probe, target, "a score is not finite; check the units");
            }
            if (pass == 0) {
                spread(n, b->score[1], each, b->pooled[1] + s * each);
                continue;
            }
            // rows are smoothed one by one: moved episodes are no more episodes than recorded
            pf_fit_row(n, b->score[1], bins, edges, row);
            for (int k = 0; k < bins; k++) {
                changed[k] += row[k] / n_gains;
            }
        }
        if (pass == 0) {
            spread(n0, b->score[0], most, b->pooled[0]);
            (every ? pf_fit_edges_information
                   : pf_fit_edges)(most, b->pooled[0], most, b->pooled[1], bins, edges, b->scratch);
        }
    }
    pf_fit_row(n0, b->score[0], bins, edges, b->build.nominal + (size_t)at * (size_t)bins);
    return PF_OK;
}

// What is plausible of a probe's response: twice the largest rms off the signatures that an
// episode showed. And the size of a target's signature, which recordings fix.
static void fit_plausible(job *b, int probe, int target)
{
    int n_targets = b->plan.probes[probe].n_targets;
    double largest = 1e-12, size = 0;
    for (int class = 0; class <= n_targets; class ++) {
        int n = half(class_group(b, probe, class)->n, 1);
        for (int i = 0; i < n; i++) {
            const pf_match *m = &class_matches(b, class)[i * n_targets + target];
            largest = fmax(largest, m->off);
            size = m->size;
        }
    }
    b->build.off_limit[probe] = fmax(b->build.off_limit[probe], 2 * largest);
    b->build.distance_limit[probe] = b->build.off_limit[probe];
    b->build.signature[b->build.probe_target[probe] + target] = size;
}

// Bins, rows, centres and dispersion of one target (protocol section 2).
static pf_status fit_target(job *b, int probe, int target)
{
    const pf_plan *plan = &b->plan;
    int at = b->build.probe_target[probe] + target, n[2];
    for (int class = 0; class < 2; class ++) {
        int which = class == 0 ? 0 : target + 1;
        n[class] = pick(b, class_group(b, probe, which), class_matches(b, which), target,
                        b->score[class], b->coefficient[class]);
        if (n[class] < 0) {
            return refuse(b, probe, target, "a score is not finite; check the units");
        }
    }
    double m0 = pf_fit_median(n[0], b->coefficient[0], b->scratch);
    double m1 = pf_fit_median(n[1], b->coefficient[1], b->scratch), apart = fabs(m1 - m0);
    double dispersion = pf_fit_dispersion(n[1], b->coefficient[1], b->scratch);
    double worst = fmax(dispersion, pf_fit_dispersion(n[0], b->coefficient[0], b->scratch));
    if (!(apart > 1e-9) || apart < 3 * worst) {
        char why[176];
        snprintf(why, sizeof why,
                 "nominal and weakened responses lie %.3g dispersions apart, at least 3 are "
                 "needed; use a stronger or longer probe, or a smaller gain",
                 worst > 0 ? apart / worst : 0);
        return refuse(b, probe, target, why);
    }
    b->build.m0[at] = m0;
    b->build.m1[at] = m1;
    b->build.sigma[at] = plan->sigma_fixed > 0 ? plan->sigma_fixed : fmax(.02, dispersion / apart);
    fit_plausible(b, probe, target);
    return fit_rows(b, probe, target, n[0]);
}

// Coordinates of one recorded gain over its odd ranks, in b->coefficient[0]. Gives how many.
static int collect_coordinates(job *b, const pf_group *group, int target)
{
    int at = b->build.probe_target[group->probe] + target;
    double *z = b->coefficient[0];
    match_group(b, group, b->spare);
    int n = pick(b, group, b->spare, target, b->score[0], z);
    for (int i = 0; i < n; i++) {
        z[i] = pf_coordinate(z[i], b->build.m0[at], b->build.m1[at]);
    }
    return n;
}

static double mean(int n, const double *values)
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        sum += values[i];
    }
    return n > 0 ? sum / n : NAN;
}

// Mean z per grid gain between the recorded ones, falling with the gain; its spread about that
// curve is the one at the gain where it is largest.
static pf_status fit_curve(job *b, int probe, int target)
{
    int n_grid = b->plan.n_grid, at = b->build.probe_target[probe] + target;
    double *z = pf_arena_take(&b->arena, (size_t)b->rec->n_groups + 1, sizeof *z);
    if (!z) {
        return pf_fail(b->error, PF_ERR_MEMORY, "out of memory for the curve");
    }
    int n =
        pf__recordings_gains(b->rec, probe, b->plan.probes[probe].targets[target], 2, b->points);
    for (int k = n - 1; k >= 0; k--) {
        int count = collect_coordinates(b, b->points[k], target);
        z[k] = mean(count, b->coefficient[0]);
        z[k] = k + 1 < n ? fmax(z[k], z[k + 1]) : z[k];
        double spread = pf_fit_spread(count, b->coefficient[0], z[k]);
        if (b->plan.sigma_fixed <= 0 && isfinite(spread)) {
            b->build.sigma[at] = fmax(b->build.sigma[at], spread);
        }
    }
    double *curve = b->build.curve + (size_t)at * (size_t)n_grid;
    for (int g = 0; g < n_grid; g++) {
        int k = 0;
        double weight = pf__recordings_between(n, b->points, b->plan.grid[g], &k);
        curve[g] = z[k] + weight * (z[k + 1] - z[k]);
        if (!isfinite(curve[g])) {
            return refuse(b, probe, target, "a coordinate is not finite; check the units");
        }
    }
    return PF_OK;
}

// Rows of every target under every other's fault; gives the worst ratio to the nominal row, NaN
// if a score is not finite.
static double fit_cross(job *b, int probe, double *cross)
{
    const pf_plan_probe *p = &b->plan.probes[probe];
    size_t bins = (size_t)b->plan.n_bins;
    double worst = 1;
    for (int t = 0; t < p->n_targets; t++) {
        size_t at = (size_t)(b->build.probe_target[probe] + t);
        for (int other = 0; other < p->n_targets; other++) {
            double *row = cross + (size_t)(t * p->n_targets + other) * bins;
            int n = pick(b, class_group(b, probe, other + 1), class_matches(b, other + 1), t,
                         b->score[0], b->coefficient[0]);
            if (n < 0) {
                return NAN;
            }
            pf_fit_row(n, b->score[0], (int)bins, b->build.edges + at * (bins - 1), row);
            for (size_t k = 0; k < bins && other != t; k++) {
                double ratio = row[k] / b->build.nominal[at * bins + k];
                worst = fmax(worst, fmax(ratio, 1 / ratio));
            }
        }
    }
    return worst;
}

// All of one probe; full rows go to cross, *used doubles of it so far.
static pf_status fit_probe(job *b, int probe, double *cross, int *used)
{
    int n_targets = b->plan.probes[probe].n_targets;
    pf_status status = make_signatures(b, probe);
    if (status == PF_OK) {
        status = check_signatures(b, probe);
    }
    for (int class = 0; class <= n_targets && status == PF_OK; class ++) {
        match_group(b, class_group(b, probe, class), class_matches(b, class));
    }
    for (int t = 0; t < n_targets && status == PF_OK; t++) {
        status = fit_target(b, probe, t);
        if (status == PF_OK && b->build.kit.n_curve > 0) {
            status = fit_curve(b, probe, t);
        }
    }
    if (status != PF_OK || n_targets == 1) {
        return status;
    }
    double worst = fit_cross(b, probe, cross + *used);
    if (isnan(worst)) {
        return refuse(b, probe, 0, "a score under another fault is not finite; check the units");
    }
    b->build.kit.cross_ratio = fmax(b->build.kit.cross_ratio, worst);
    // protocol section 8: beyond 3 the rows of the targets depend on who failed
    if (worst > 3) {
        b->build.probe_cross[probe] = *used;
        *used += n_targets * n_targets * b->plan.n_bins;
    }
    return PF_OK;
}

static pf_status fit_channels(job *b)
{
    size_t room = 0;
    for (int q = 0; q < b->plan.n_probes; q++) {
        size_t t = (size_t)b->plan.probes[q].n_targets;
        room += t > 1 ? t * t * (size_t)b->plan.n_bins : 0;
    }
    double *cross = pf_arena_take(&b->arena, room, sizeof *cross);
    int used = 0;
    pf_status status =
        cross ? PF_OK : pf_fail(b->error, PF_ERR_MEMORY, "out of memory for full rows");
    for (int q = 0; q < b->plan.n_probes && status == PF_OK; q++) {
        status = fit_probe(b, q, cross, &used);
    }
    return status == PF_OK && used > 0 ? pf_kit_build_cross(&b->build, used, cross, b->error)
                                       : status;
}

// --- all of it

static void sizes(job *b, pf_kit_kind *kind)
{
    int members = 65536; // as many as a kit holds
    kind->curves = true;
    for (int q = 0; q < b->plan.n_probes; q++) {
        const pf_plan_probe *p = &b->plan.probes[q];
        int nominal = half(pf_recordings_find(b->rec, q, 0, 1)->n, 1);
        members = nominal < members ? nominal : members;
        b->most_targets = p->n_targets > b->most_targets ? p->n_targets : b->most_targets;
        b->most_window = window(b, q) > b->most_window ? window(b, q) : b->most_window;
        for (int t = 0; t < p->n_targets; t++) {
            int gains = 0;
            for (int g = 0; g < b->rec->n_groups; g++) {
                const pf_group *group = &b->rec->groups[g];
                gains += group->probe == q && group->mechanism == p->targets[t] && group->n >= 2;
            }
            kind->curves = kind->curves && gains >= 2;
        }
    }
    for (int g = 0; g < b->rec->n_groups; g++) {
        size_t n = (size_t)b->rec->groups[g].n;
        b->most_episodes = n > b->most_episodes ? n : b->most_episodes;
    }
    kind->n_members = members;
}

static pf_status make_room(job *b)
{
    size_t targets = (size_t)b->most_targets, d = sizeof(double);
    pf__evidence *e = &b->evidence;
    e->predictor = pf__recorded_predictor(&b->build.kit);
    e->nominal = pf_arena_take(&b->arena, b->most_window, d);
    e->predicted = pf_arena_take(&b->arena, b->most_window, d);
    e->residual = pf_arena_take(&b->arena, b->most_window, d);
    e->signatures = pf_arena_take(&b->arena, b->most_window * targets, d);
    e->scratch = pf_arena_take(&b->arena, pf_match_scratch(b->most_targets), d);
    size_t pooled = b->most_episodes / 2 * N_SEVERITIES;
    b->shift = pf_arena_take(&b->arena, 2 * b->most_window, d);
    b->points = pf_arena_take(&b->arena, (size_t)b->rec->n_groups + 1, sizeof *b->points);
    b->scratch = pf_arena_take(
        &b->arena, pf_fit_information_scratch((int)pooled, (int)pooled, b->plan.n_bins), d);
    size_t matches = targets * (b->most_episodes / 2);
    b->matches = pf_arena_take(&b->arena, matches * (targets + 1), sizeof *b->matches);
    b->spare = pf_arena_take(&b->arena, matches, sizeof *b->spare);
    for (int i = 0; i < 2; i++) {
        b->pooled[i] = pf_arena_take(&b->arena, pooled, d);
        b->score[i] = pf_arena_take(&b->arena, b->most_episodes, d);
        b->coefficient[i] = pf_arena_take(&b->arena, b->most_episodes, d);
    }
    return b->arena.failed ? pf_fail(b->error, PF_ERR_MEMORY, "out of memory for the channels")
                           : PF_OK;
}

static pf_status run(job *b, const char *source)
{
    pf_kit_kind kind = {.predictor = "recordings",
                        .source = source,
                        .statistic = PF_STATISTIC_MATCHED,
                        .n_scale = 1,
                        .responses = true};
    sizes(b, &kind);
    pf_status status = make_room(b);
    if (status == PF_OK) {
        status = pf_kit_build_init(&b->build, &b->plan, &kind, b->error);
    }
    if (status == PF_OK) {
        status = pf__recordings_responses(b->rec, &b->plan, &b->build, b->error);
    }
    if (status == PF_OK) {
        status = fit_channels(b);
    }
    if (status == PF_OK) {
        status = pf__recordings_returns(b->rec, &b->plan, &b->build, b->error);
    }
    if (status == PF_OK) {
        status = pf__recordings_alarm(b->rec, &b->plan, &b->build, b->effort, b->error);
    }
    return status;
}

// "sha256:" and the checksum of the recordings.
static void source_text(const char *csv, size_t n, char out[80])
{
    char hex[65];
    pf_sha256_of(csv, n, hex);
    snprintf(out, 80, "sha256:%s", hex);
}

pf_status pf__calibrate_recordings(const pf_plan *plan, const char *file, const char *csv, size_t n,
                                   int alarm_trials, const pf_effort *effort, void **bytes,
                                   size_t *n_bytes, pf_error *error)
{
    *bytes = NULL;
    *n_bytes = 0;
    if (plan && plan->weighting != PF_WEIGHTING_NONE) {
        return pf_fail(error, PF_ERR_UNSUPPORTED,
                       "weighting: shrunk needs a simulator to draw residuals from; recordings "
                       "have too few");
    }
    pf_recordings rec;
    pf_status status = pf_recordings_read(&rec, plan, file, csv, n, error);
    if (status != PF_OK) {
        return status;
    }
    job b = {.rec = &rec, .effort = effort, .error = error};
    char source[80];
    source_text(csv, n, source);
    status = pf__recordings_plan(&rec, &b.arena, &b.plan, error);
    if (status == PF_OK) {
        b.plan.alarm_trials = alarm_trials > 0 ? alarm_trials : b.plan.alarm_trials;
        status = run(&b, source);
    }
    if (status == PF_OK) {
        status = pf_kit_build_save(&b.build, bytes, n_bytes, error);
    }
    pf_kit_build_free(&b.build);
    pf_arena_free(&b.arena);
    pf_recordings_free(&rec);
    return status;
}

pf_status pf_calibrate_recordings(const pf_plan *plan, const char *file, const char *csv, size_t n,
                                  const pf_effort *effort, void **bytes, size_t *n_bytes,
                                  pf_error *error)
{
    return pf__calibrate_recordings(plan, file, csv, n, 0, effort, bytes, n_bytes, error);
}
