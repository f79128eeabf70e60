// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "../host/parallel.h"
#include "fit.h"
#include "kit_build.h"
#include "recordings_read.h"

#include "preflight/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A kit from recorded responses. In every group even ranks make what is predicted (means, scale,
// signatures), odd ranks what is calibrated on it (channel, members, alarm), so that no episode is
// judged by itself.

typedef struct job {
    const pf_recordings *rec;
    pf_plan plan;
    const pf_effort *effort;
    pf_arena arena;
    pf_kit_build build;
    int most_targets;
    size_t most_window;    // rows x channels
    size_t most_episodes;  // of one group
    double *mean;          // one response
    double *residual;      // one response
    double *signatures;    // most targets x window
    double *match_scratch; // pf_match_scratch
    double *scratch;       // 2 x most episodes
    pf_match *matches;     // most targets
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

// --- mean responses

static void mean_response(const job *b, const pf_group *group, double *out)
{
    size_t n = window(b, group->probe);
    memset(out, 0, n * sizeof *out);
    for (int rank = 0; rank < group->n; rank += 2) {
        const double *response = pf_recordings_response(b->rec, group, rank);
        for (size_t i = 0; i < n; i++) {
            out[i] += response[i];
        }
    }
    for (size_t i = 0; i < n; i++) {
        out[i] /= half(group->n, 0);
    }
}

static int by_gain(const void *a, const void *b)
{
    double x = (*(const pf_group *const *)a)->gain, y = (*(const pf_group *const *)b)->gain;
    return (x > y) - (x < y);
}

// Recorded gains of one target, ascending, then the nominal group. `least`: episodes a gain needs.
static int gains_of(const job *b, int probe, int mechanism, int least, const pf_group **out)
{
    int n = 0;
    for (int g = 0; g < b->rec->n_groups; g++) {
        const pf_group *group = &b->rec->groups[g];
        if (group->probe == probe && group->mechanism == mechanism && group->n >= least) {
            out[n++] = group;
        }
    }
    qsort(out, (size_t)n, sizeof *out, by_gain);
    out[n++] = pf_recordings_find(b->rec, probe, 0, 1);
    return n;
}

// The two recorded points that a gain is interpolated between (extrapolated below the first), and
// the weight of the upper one.
static double between(int n, const pf_group *const *at, double gain, int *lower)
{
    int k = 0;
    while (k + 2 < n && gain > at[k + 1]->gain - PF_SAME_GAIN) {
        k++;
    }
    *lower = k;
    double weight = (gain - at[k]->gain) / (at[k + 1]->gain - at[k]->gain);
    // a recorded gain gives the recorded response, to the last bit
    return fabs(gain - at[k]->gain) < PF_SAME_GAIN ? 0 : weight;
}

// Responses of one target at every grid gain.
static pf_status fill_target(job *b, int probe, int mechanism, const pf_group **points,
                             double *variant)
{
    size_t n = window(b, probe);
    int n_points = gains_of(b, probe, mechanism, 1, points);
    double *means = malloc(sizeof *means * n * (size_t)n_points);
    if (!means) {
        return pf_fail(b->error, PF_ERR_MEMORY, "out of memory for mean responses");
    }
    for (int k = 0; k < n_points; k++) {
        mean_response(b, points[k], means + (size_t)k * n);
    }
    for (int g = 0; g < b->plan.n_grid; g++) {
        int k = 0;
        double weight = between(n_points, points, b->plan.grid[g], &k);
        const double *low = means + (size_t)k * n, *high = low + n;
        for (size_t i = 0; i < n; i++) {
            variant[(size_t)g * n + i] = low[i] + weight * (high[i] - low[i]);
        }
    }
    free(means);
    return PF_OK;
}

static pf_status fill_responses(job *b)
{
    double *variant = b->build.variant;
    const pf_group **points =
        pf_arena_take(&b->arena, (size_t)b->rec->n_groups + 1, sizeof *points);
    if (!points) {
        return pf_fail(b->error, PF_ERR_MEMORY, "out of memory for mean responses");
    }
    for (int q = 0; q < b->plan.n_probes; q++) {
        const pf_plan_probe *probe = &b->plan.probes[q];
        size_t at = (size_t)b->build.probe_row[q] * (size_t)b->plan.n_chan;
        mean_response(b, pf_recordings_find(b->rec, q, 0, 1), b->build.response + at);
        for (int t = 0; t < probe->n_targets; t++) {
            pf_status status = fill_target(b, q, probe->targets[t], points, variant);
            if (status != PF_OK) {
                return status;
            }
            variant += window(b, q) * (size_t)b->plan.n_grid;
        }
    }
    return PF_OK;
}

// --- scale

// Squares of the nominal residuals of the signature half, per channel; gives the rows summed.
static double residual_energy(job *b, double *energy)
{
    int n_chan = b->plan.n_chan;
    double rows = 0;
    for (int q = 0; q < b->plan.n_probes; q++) {
        const pf_group *group = pf_recordings_find(b->rec, q, 0, 1);
        const double *mean = nominal_response(b, q);
        for (int rank = 0; rank < group->n; rank += 2) {
            const double *response = pf_recordings_response(b->rec, group, rank);
            for (size_t i = 0; i < window(b, q); i++) {
                double error = response[i] - mean[i];
                energy[i % (size_t)n_chan] += error * error;
            }
        }
        rows += (double)half(group->n, 0) * b->plan.probes[q].rows;
    }
    return rows;
}

static pf_status fit_scale(job *b)
{
    double *energy = pf_arena_take(&b->arena, (size_t)b->plan.n_chan, sizeof *energy);
    if (!energy) {
        return pf_fail(b->error, PF_ERR_MEMORY, "out of memory for the scales");
    }
    double rows = residual_energy(b, energy);
    for (int c = 0; c < b->plan.n_chan; c++) {
        double given = b->plan.channels[c].scale, rms = sqrt(energy[c] / rows);
        // a constant channel leaves rounding errors of its mean; they are no noise
        if (!(given > 0) && !(rms > 1e-150)) {
            return pf_fail(b->error, PF_ERR_DEGENERATE,
                           "%s: column '%s': the nominal episodes do not differ at all, so its "
                           "scale is unknown; record real noise, drop the column, or give its "
                           "`scale` in a configuration",
                           b->rec->file, b->plan.channels[c].name);
        }
        b->build.scale[c] = b->build.return_scale[c] = given > 0 ? given : rms;
    }
    return PF_OK;
}

// --- channel

// Signatures of a probe exactly as a session makes them from the kit.
static void make_signatures(job *b, int probe)
{
    const pf_kit *k = &b->build.kit;
    int rows = b->plan.probes[probe].rows, cal = 0;
    while (fabs(k->grid[cal] - k->g_cal) >= PF_SAME_GAIN) {
        cal++;
    }
    const double *variant = k->variant;
    for (int q = 0; q < probe; q++) {
        variant += window(b, q) * (size_t)(b->plan.probes[q].n_targets * k->n_grid);
    }
    for (int t = 0; t < b->plan.probes[probe].n_targets; t++) {
        const double *weak = variant + window(b, probe) * (size_t)(t * k->n_grid + cal);
        pf_scaled_difference(rows, k->n_chan, weak, nominal_response(b, probe), k->scale,
                             k->n_scale, b->signatures + (size_t)t * window(b, probe));
    }
}

// Matches of one response into b->matches.
static void match(job *b, int probe, const double *response)
{
    const pf_kit *k = &b->build.kit;
    const pf_plan_probe *p = &b->plan.probes[probe];
    pf_scaled_difference(p->rows, k->n_chan, response, nominal_response(b, probe), k->scale,
                         k->n_scale, b->residual);
    pf_match_targets(p->n_targets, (int)window(b, probe), b->signatures, b->residual,
                     b->match_scratch, b->matches);
}

// Scores and coefficients of one target over the odd ranks of a group; how many, -1 if one is not
// finite.
static int collect(job *b, const pf_group *group, int target, double *score, double *coefficient)
{
    int n = 0;
    for (int rank = 1; rank < group->n; rank += 2) {
        match(b, group->probe, pf_recordings_response(b->rec, group, rank));
        const pf_match *m = &b->matches[target];
        if (!isfinite(m->score) || !isfinite(m->coefficient)) {
            return -1;
        }
        score[n] = m->score;
        coefficient[n++] = m->coefficient;
    }
    return n;
}

// Signatures must be there, and apart from each other.
static pf_status check_signatures(job *b, int probe)
{
    const pf_plan_probe *p = &b->plan.probes[probe];
    char why[200] = "cannot be told apart from";
    int at = (int)strlen(why), first = -1;
    match(b, probe, nominal_response(b, probe));
    for (int t = 0; t < p->n_targets; t++) {
        const double *h = b->signatures + (size_t)t * window(b, probe);
        double energy = pf_dot((int)window(b, probe), h, h);
        if (!(energy > 0) || !isfinite(energy)) {
            return refuse(b, probe, t,
                          energy > 0 ? "its effect is too large for a double; check the units"
                                     : "its weakened responses equal the nominal ones; does the "
                                       "probe move it?");
        }
        if (b->matches[t].remaining >= PF_REMAINING_CALIBRATION) {
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

// Bins, rows, centres and dispersion of one target (protocol section 2).
static pf_status fit_target(job *b, int probe, int target)
{
    const pf_plan *plan = &b->plan;
    int at = b->build.probe_target[probe] + target, bins = plan->n_bins, n[2];
    for (int class = 0; class < 2; class ++) {
        int mechanism = class == 0 ? 0 : plan->probes[probe].targets[target];
        double gain = class == 0 ? 1 : plan->g_cal;
        n[class] = collect(b, pf_recordings_find(b->rec, probe, mechanism, gain), target,
                           b->score[class], b->coefficient[class]);
        if (n[class] < 0) {
            return refuse(b, probe, target,
                          "a score is not finite (values too large); check the units");
        }
    }
    double *edges = b->build.edges + (size_t)at * (size_t)(bins - 1);
    double *m = &b->build.m0[at], *m1 = &b->build.m1[at];
    pf_fit_edges(n[0], b->score[0], n[1], b->score[1], bins, edges, b->scratch);
    pf_fit_row(n[0], b->score[0], bins, edges, b->build.nominal + (size_t)at * (size_t)bins);
    pf_fit_row(n[1], b->score[1], bins, edges, b->build.changed + (size_t)at * (size_t)bins);
    *m = pf_fit_median(n[0], b->coefficient[0], b->scratch);
    *m1 = pf_fit_median(n[1], b->coefficient[1], b->scratch);
    double apart = fabs(*m1 - *m);
    double spread[2] = {pf_fit_dispersion(n[0], b->coefficient[0], b->scratch),
                        pf_fit_dispersion(n[1], b->coefficient[1], b->scratch)};
    double worst = fmax(spread[0], spread[1]);
    if (!(apart > 1e-9) || apart < 3 * worst) {
        char why[176];
        snprintf(why, sizeof why,
                 "nominal and weakened responses lie %.3g dispersions apart, at least 3 are "
                 "needed; use a stronger or longer probe, or a smaller gain",
                 worst > 0 ? apart / worst : 0);
        return refuse(b, probe, target, why);
    }
    b->build.sigma[at] = plan->sigma_fixed > 0 ? plan->sigma_fixed : fmax(.02, spread[1] / apart);
    return PF_OK;
}

// Mean z of one recorded gain over its odd ranks.
static double mean_coordinate(job *b, const pf_group *group, int target)
{
    int at = b->build.probe_target[group->probe] + target;
    int n = collect(b, group, target, b->score[0], b->coefficient[0]);
    double sum = 0;
    for (int i = 0; i < n; i++) {
        sum += pf_coordinate(b->coefficient[0][i], b->build.m0[at], b->build.m1[at]);
    }
    return n > 0 ? sum / n : NAN;
}

// Mean z per grid gain between the recorded ones, falling with the gain.
static pf_status fit_curve(job *b, int probe, int target)
{
    int n_grid = b->plan.n_grid, at = b->build.probe_target[probe] + target;
    size_t room = (size_t)b->rec->n_groups + 1;
    const pf_group **points = pf_arena_take(&b->arena, room, sizeof *points);
    double *z = pf_arena_take(&b->arena, room, sizeof *z);
    if (!points || !z) {
        return pf_fail(b->error, PF_ERR_MEMORY, "out of memory for the curve");
    }
    int n = gains_of(b, probe, b->plan.probes[probe].targets[target], 2, points);
    for (int k = 0; k < n; k++) {
        z[k] = mean_coordinate(b, points[k], target);
    }
    double *curve = b->build.curve + (size_t)at * (size_t)n_grid;
    for (int g = n_grid - 1; g >= 0; g--) {
        int k = 0;
        double weight = between(n, points, b->plan.grid[g], &k);
        curve[g] = z[k] + weight * (z[k + 1] - z[k]);
        curve[g] = g + 1 < n_grid ? fmax(curve[g], curve[g + 1]) : curve[g];
        if (!isfinite(curve[g])) {
            return refuse(b, probe, target, "a coordinate is not finite; check the units");
        }
    }
    return PF_OK;
}

// Rows of every target under every other's fault; gives the worst ratio to the nominal row.
static double fit_cross(job *b, int probe, double *cross)
{
    const pf_plan_probe *p = &b->plan.probes[probe];
    size_t bins = (size_t)b->plan.n_bins;
    double worst = 1;
    for (int t = 0; t < p->n_targets; t++) {
        size_t at = (size_t)(b->build.probe_target[probe] + t);
        for (int other = 0; other < p->n_targets; other++) {
            double *row = cross + (size_t)(t * p->n_targets + other) * bins;
            const pf_group *group =
                pf_recordings_find(b->rec, probe, p->targets[other], b->plan.g_cal);
            int n = collect(b, group, t, b->score[0], b->coefficient[0]);
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
    make_signatures(b, probe);
    pf_status status = check_signatures(b, probe);
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

// --- returns

// The probe whose runs show the error of a mechanism: its own alone if there is one; -1: none.
static int probe_of(const pf_plan *plan, int mechanism)
{
    int found = -1;
    for (int q = 0; q < plan->n_probes; q++) {
        for (int t = 0; t < plan->probes[q].n_targets; t++) {
            bool better =
                found < 0 || (plan->probes[found].n_targets > 1 && plan->probes[q].n_targets == 1);
            if (plan->probes[q].targets[t] == mechanism && better) {
                found = q;
            }
        }
    }
    return found;
}

// Error energy of the nominal odd-rank episode `member` relative to that of the mean response.
static pf_status error_share(job *b, int probe, int member, double *share)
{
    const pf_kit *k = &b->build.kit;
    int rows = b->plan.probes[probe].rows, n = (int)window(b, probe);
    const pf_group *group = pf_recordings_find(b->rec, probe, 0, 1);
    const double *mean = nominal_response(b, probe);
    memset(b->residual, 0, sizeof(double) * (size_t)n);
    pf_scaled_difference(rows, k->n_chan, mean, b->residual, k->return_scale, 1, b->mean);
    double energy = pf_dot(n, b->mean, b->mean);
    pf_scaled_difference(rows, k->n_chan, pf_recordings_response(b->rec, group, 2 * member + 1),
                         mean, k->return_scale, 1, b->residual);
    *share = pf_dot(n, b->residual, b->residual) / energy;
    if (!(energy > 0) || !isfinite(*share)) {
        return pf_fail(b->error, PF_ERR_DEGENERATE,
                       "%s: probe '%s': its mean nominal response is zero, so an error has no "
                       "measure; use a stronger probe",
                       b->rec->file, b->plan.probes[probe].name);
    }
    return PF_OK;
}

// NTE = (1 - e)^2 + e_k. Entries of a task's mechanisms are added in use, so each carries an equal
// part of e_k: a run has its error once. The current mechanism carries none.
static pf_status fill_returns(job *b)
{
    const pf_kit *k = &b->build.kit;
    for (int task = 0; task < k->n_tasks; task++) {
        int candidates = 0;
        for (int u = k->task_use[task]; u < k->task_use[task + 1]; u++) {
            candidates += k->use_mech[u] > 0;
        }
        for (int u = k->task_use[task]; u < k->task_use[task + 1]; u++) {
            int probe = k->use_mech[u] > 0 ? probe_of(&b->plan, k->use_mech[u]) : -1;
            for (int e = 0; e < k->n_members; e++) {
                double share = 0;
                pf_status status = probe >= 0 ? error_share(b, probe, e, &share) : PF_OK;
                if (status != PF_OK) {
                    return status;
                }
                double *row =
                    b->build.nte + ((size_t)u * (size_t)k->n_members + (size_t)e) * PF_SHARES;
                for (int i = 0; i < PF_SHARES; i++) {
                    double missing = 1 - k->shares[i];
                    row[i] = missing * missing + (candidates > 0 ? share / candidates : 0);
                }
            }
        }
    }
    return PF_OK;
}

// --- alarm

typedef struct alarm {
    const job *b;
    pf_kit kit; // as calibrated so far, with nothing that ends stage 1 before its budget
    bool random;
    size_t bytes;
    void **memory; // per worker
    pf_session **sessions;
    double *peaks; // per trial
} alarm;

// One nominal sequence: stage 1 of a real session on responses drawn from the odd ranks.
static pf_status run_trial(void *self, int worker, size_t trial, pf_error *error)
{
    alarm *a = self;
    const job *b = a->b;
    uint64_t seed = b->plan.seed;
    pf_session_config config = {NULL,
                                pf_key_stream(seed, "recordings", trial, PF_PURPOSE_METHOD, 0)};
    pf_status status = PF_OK;
    // only a method that draws its probes needs the trial's own seed
    if (!a->sessions[worker] || a->random) {
        status = pf_session_init(&a->sessions[worker], &a->kit, &config, a->memory[worker],
                                 a->bytes, error);
    } else {
        pf_session_reset(a->sessions[worker]);
    }
    for (uint64_t opportunity = 0; status == PF_OK; opportunity++) {
        pf_ask ask = pf_session_ask(a->sessions[worker]);
        if (ask.kind == PF_ASK_DONE) {
            break;
        }
        const pf_group *group = pf_recordings_find(b->rec, ask.probe, 0, 1);
        pf_rng rng;
        pf_rng_init(&rng,
                    pf_key_stream(seed, "recordings", trial, PF_PURPOSE_THRESHOLD, opportunity));
        int rank = 2 * (int)pf_rng_below(&rng, (uint32_t)half(group->n, 1)) + 1;
        pf_tell tell = {.probe = ask.probe,
                        .response = pf_recordings_response(b->rec, group, rank),
                        .rows = ask.rows,
                        .channels = a->kit.n_chan};
        status = pf_session_tell(a->sessions[worker], &tell, NULL, error);
    }
    a->peaks[trial] = status == PF_OK ? pf_session_peak(a->sessions[worker]) : 0;
    return status;
}

static pf_status fit_alarm(job *b)
{
    int workers = pf_threads(b->effort), trials = b->plan.alarm_trials;
    workers = workers < trials ? workers : trials;
    alarm a = {.b = b, .kit = b->build.kit};
    a.kit.require_probe = 0;
    a.kit.stop = PF_STOP_LATCH;
    a.random = pf_method_find(b->plan.method)->rule == PF_RULE_RANDOM;
    pf_status status = pf_kit_check(&a.kit, b->error);
    if (status != PF_OK) {
        return status;
    }
    a.bytes = pf_session_size(&a.kit);
    a.memory = pf_arena_take(&b->arena, (size_t)workers, sizeof *a.memory);
    a.sessions = pf_arena_take(&b->arena, (size_t)workers, sizeof *a.sessions);
    a.peaks = pf_arena_take(&b->arena, (size_t)trials, sizeof *a.peaks);
    for (int i = 0; a.memory && i < workers; i++) {
        a.memory[i] = pf_arena_take(&b->arena, a.bytes, 1);
    }
    if (b->arena.failed) {
        return pf_fail(b->error, PF_ERR_MEMORY, "out of memory for %d alarm trials", trials);
    }
    status = pf_parallel(b->effort, (size_t)trials, run_trial, &a, "alarm trials", b->error);
    if (status == PF_OK) {
        b->build.threshold[0] = fmin(1, pf_fit_threshold(trials, a.peaks, b->plan.alarm_rate));
    }
    return status;
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
    b->mean = pf_arena_take(&b->arena, b->most_window, d);
    b->residual = pf_arena_take(&b->arena, b->most_window, d);
    b->signatures = pf_arena_take(&b->arena, b->most_window * targets, d);
    b->match_scratch = pf_arena_take(&b->arena, pf_match_scratch(b->most_targets), d);
    b->scratch = pf_arena_take(&b->arena, 2 * b->most_episodes, d);
    b->matches = pf_arena_take(&b->arena, targets, sizeof *b->matches);
    for (int i = 0; i < 2; i++) {
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
    pf_status (*const steps[])(job *) = {fill_responses, fit_scale, fit_channels, fill_returns,
                                         fit_alarm};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0] && status == PF_OK; i++) {
        status = steps[i](b);
    }
    return status;
}

// "sha256:" and the checksum of the recordings.
static void source_text(const char *csv, size_t n, char out[80])
{
    pf_sha256 sha;
    uint8_t digest[32];
    char hex[65];
    pf_sha256_init(&sha);
    pf_sha256_update(&sha, csv, n);
    pf_sha256_final(&sha, digest);
    pf_sha256_text(digest, hex);
    snprintf(out, 80, "sha256:%s", hex);
}

pf_status pf__calibrate_recordings(const pf_plan *plan, const char *file, const char *csv, size_t n,
                                   int alarm_trials, const pf_effort *effort, void **bytes,
                                   size_t *n_bytes, pf_error *error)
{
    *bytes = NULL;
    *n_bytes = 0;
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
