// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "fit.h"
#include "core/certificate.h"
#include "core/score.h"
#include "core/sha256.h"
#include "recordings.h"
#include "source.h"
#include "host/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Recorded responses as the source of a calibration. In every group even ranks make what is
// predicted (means, scale, signatures), odd ranks what is calibrated on it (channel, members,
// alarm), so that no episode is judged by itself.

// Knots of looks at most.
enum { PF_KNOTS_RECORDED = 32 };

typedef struct recorded {
    struct recorded_machine *machines; // one per worker
    int n_workers;
    const pf_recordings *rec;
    const pf_effort *effort;
    pf_plan plan;
    pf_arena arena;
    pf_kit_build build;
    int most_samples;        // odd ranks of one group
    pf_match **matches;      // per group: odd ranks x targets
    double *energy;          // of the signatures, per target of the kit
    pf_match *spare;         // most targets
    pf__evidence evidence;   // with the signatures of its probe
    double *from, *to;       // responses
    const pf_group **points; // recorded gains of one target and the nominal group
    double *gains;           // there
    double knots[PF_KNOTS_RECORDED];
} recorded;

static size_t window(const pf_recordings *rec, int probe)
{
    return (size_t)rec->probes[probe].rows * (size_t)rec->n_chan;
}

// --- what is predicted

// Mean response of a group (even ranks).
static void mean_response(const pf_recordings *rec, const pf_group *group, double *out)
{
    size_t n = window(rec, group->probe);
    memset(out, 0, n * sizeof *out);
    for (int rank = 0; rank < group->n; rank += 2) {
        const double *response = pf__recordings_response(rec, group, rank);
        for (size_t i = 0; i < n; i++) {
            out[i] += response[i];
        }
    }
    for (size_t i = 0; i < n; i++) {
        out[i] /= (group->n + 1) / 2;
    }
}

static int by_gain(const void *a, const void *b)
{
    double x = (*(const pf_group *const *)a)->gain, y = (*(const pf_group *const *)b)->gain;
    return (x > y) - (x < y);
}

// Recorded gains of a mechanism with at least `least` episodes, ascending, then the nominal group.
static int find_points(const pf_recordings *rec, int probe, int mechanism, int least,
                       const pf_group **out)
{
    int n = 0;
    for (int g = 0; g < rec->n_groups; g++) {
        const pf_group *group = &rec->groups[g];
        if (group->probe == probe && group->mechanism == mechanism && group->n >= least) {
            out[n++] = group;
        }
    }
    qsort(out, (size_t)n, sizeof *out, by_gain);
    out[n++] = pf__recordings_find(rec, probe, 0, 1);
    return n;
}

// Response of a mechanism at any gain: straight lines between the recorded ones.
static void response_at(recorded *r, int probe, int mechanism, double gain, double *out)
{
    int n = find_points(r->rec, probe, mechanism, 1, r->points), k = 0;
    double *upper = r->evidence.residual;
    for (int i = 0; i < n; i++) {
        r->gains[i] = r->points[i]->gain;
    }
    double weight = pf__fit_between(n, r->gains, gain, PF_SAME_GAIN, &k);
    mean_response(r->rec, r->points[k], out);
    mean_response(r->rec, r->points[k + 1], upper);
    for (size_t i = 0; i < window(r->rec, probe); i++) {
        out[i] += weight * (upper[i] - out[i]);
    }
}

static void fill_responses(recorded *r)
{
    const pf_plan *plan = &r->plan;
    double *nominal = r->build.response, *variant = r->build.variant;
    for (int q = 0; q < plan->n_probes; q++) {
        const pf_plan_probe *probe = &plan->probes[q];
        mean_response(r->rec, pf__recordings_find(r->rec, q, 0, 1), nominal);
        nominal += window(r->rec, q);
        for (int t = 0; t < probe->n_targets; t++) {
            for (int g = 0; g < plan->n_grid; g++, variant += window(r->rec, q)) {
                response_at(r, q, probe->targets[t], plan->grid[g], variant);
            }
        }
    }
}

// Sum of squares of one channel's nominal residuals over the even ranks, and the largest value.
static double residual_energy(const pf_recordings *rec, const pf_kit *k, int channel,
                              double *largest)
{
    double energy = 0;
    size_t n_chan = (size_t)k->n_chan;
    *largest = 0;
    for (int q = 0; q < k->n_probes; q++) {
        const pf_group *group = pf__recordings_find(rec, q, 0, 1);
        const double *mean = k->response + (size_t)k->probe_row[q] * n_chan;
        for (int rank = 0; rank < group->n; rank += 2) {
            const double *response = pf__recordings_response(rec, group, rank);
            for (size_t i = (size_t)channel; i < window(rec, q); i += n_chan) {
                energy += (response[i] - mean[i]) * (response[i] - mean[i]);
                *largest = fmax(*largest, fabs(response[i]));
            }
        }
    }
    return energy;
}

// The scale of the noise around the nominal means.
static pf_status fit_scale(recorded *r, pf_error *error)
{
    const pf_recordings *rec = r->rec;
    double rows = 0;
    for (int q = 0; q < rec->n_probes; q++) {
        rows += (double)((pf__recordings_find(rec, q, 0, 1)->n + 1) / 2) * rec->probes[q].rows;
    }
    for (int c = 0; c < rec->n_chan; c++) {
        double largest = 0, given = r->plan.channels[c].scale;
        double rms = sqrt(residual_energy(rec, &r->build.kit, c, &largest) / rows);
        // a constant channel leaves the rounding errors of its mean, which are no noise
        if (!(given > 0) && !(rms > 1e-13 * largest && rms > 1e-150)) {
            return pf_fail(error, PF_ERR_DEGENERATE,
                           "%s: column '%s': the nominal episodes do not differ, so its scale is "
                           "unknown; record real noise, drop the column, or give its `scale` in a "
                           "configuration",
                           rec->file, rec->channels[c]);
        }
        r->build.scale[c] = r->build.return_scale[c] = given > 0 ? given : rms;
    }
    return PF_OK;
}

// --- what is calibrated on it

// What a response says about the targets of the probe whose signatures are there.
static void match(recorded *r, const double *response, pf_match *out)
{
    pf__evidence_residual(&r->evidence, response);
    pf__evidence_match(&r->evidence, out);
}

static pf_status read_recordings(void *self, pf_error *error)
{
    recorded *r = self;
    fill_responses(r);
    pf_status status = fit_scale(r, error);
    for (int q = 0; q < r->plan.n_probes && status == PF_OK; q++) {
        pf__evidence_set(&r->evidence, &r->build.kit, q);
        status = pf__evidence_signatures(&r->evidence, error);
        int n = (int)window(r->rec, q);
        for (int t = 0; t < r->evidence.n_targets && status == PF_OK; t++) {
            const double *h = r->evidence.signatures + (size_t)t * (size_t)n;
            r->energy[r->build.probe_target[q] + t] = pf__dot(n, h, h);
        }
        for (int g = 0; g < r->rec->n_groups && status == PF_OK; g++) {
            const pf_group *group = &r->rec->groups[g];
            for (int i = 0; i < group->n / 2 && group->probe == q; i++) {
                match(r, pf__recordings_response(r->rec, group, 2 * i + 1),
                      r->matches[g] + i * r->evidence.n_targets);
            }
        }
    }
    return status;
}

static pf_samples group_samples(const recorded *r, const pf_group *group)
{
    return (pf_samples){group->gain, group->n / 2, r->plan.probes[group->probe].n_targets,
                        r->matches[group - r->rec->groups]};
}

static int n_classes(const void *self, int probe)
{
    const recorded *r = self;
    return 1 + r->plan.probes[probe].n_targets;
}

static const pf_group *class_group(const recorded *r, int probe, int class)
{
    int mechanism = class > 0 ? r->plan.probes[probe].targets[class - 1] : 0;
    return pf__recordings_find(r->rec, probe, mechanism, class > 0 ? r->plan.settings.g_cal : 1);
}

static pf_samples class_samples(const void *self, int probe, int class)
{
    return group_samples(self, class_group(self, probe, class));
}

static int curve_points(const void *self, int probe, int target, pf_samples *out)
{
    const recorded *r = self;
    int n = find_points(r->rec, probe, r->plan.probes[probe].targets[target], 2, r->points);
    for (int i = 0; i < n; i++) {
        out[i] = group_samples(r, r->points[i]);
    }
    return n;
}

// The well recorded gain of a target that is nearest to a severity; g_cal is always one.
static const pf_group *nearest_group(const recorded *r, int probe, int target, double severity)
{
    const pf_group *best = class_group(r, probe, target + 1);
    for (int g = 0; g < r->rec->n_groups; g++) {
        const pf_group *group = &r->rec->groups[g];
        double closer = fabs(best->gain - severity) - fabs(group->gain - severity);
        if (group->probe == probe && group->mechanism == best->mechanism &&
            group->n >= PF_LEAST_EPISODES && closer > PF_SAME_GAIN) {
            best = group;
        }
    }
    return best;
}

// Recorded scores at the nearest gain, moved by what the kit's own responses say of the step from
// there (a score is linear in the response).
static int severity_scores(void *self, int probe, int target, double severity, double *score)
{
    recorded *r = self;
    const pf_group *group = nearest_group(r, probe, target, severity);
    pf_samples s = group_samples(r, group);
    double moved = 0;
    if (fabs(group->gain - severity) >= PF_SAME_GAIN) {
        const double *nominal = r->evidence.nominal;
        pf__evidence_set(&r->evidence, &r->build.kit, probe);
        if (pf__evidence_signatures(&r->evidence, NULL) != PF_OK) {
            return -1;
        }
        mean_response(r->rec, group, r->from);
        response_at(r, probe, group->mechanism, severity, r->to);
        for (size_t i = 0; i < window(r->rec, probe); i++) {
            r->to[i] = nominal[i] + (r->to[i] - r->from[i]);
        }
        match(r, r->to, r->spare);
        moved = r->spare[target].score;
    }
    for (int i = 0; i < s.n; i++) {
        const pf_match *m = s.match + (size_t)i * (size_t)s.stride + target;
        if (!isfinite(m->score) || !isfinite(m->coefficient) || !isfinite(moved)) {
            return -1;
        }
        score[i] = m->score + moved;
    }
    return s.n;
}

// --- returns

// The return table of a machine without a simulator: error curves of the tasks that were recorded
// themselves, at several shares of their command. What was not recorded has no return.

// Shares that a task was recorded at, at most.
enum { PF_CURVE_POINTS = 64 };

// What one odd-rank run missed of the mean nominal response beyond what a response in proportion to
// its command misses: the part of the tracking error that the law does not explain.
static double run_excess(const recorded *r, const pf_group *group, int member, double energy)
{
    const pf_kit *k = &r->build.kit;
    const double *nominal = k->response + (size_t)k->probe_row[group->probe] * (size_t)k->n_chan;
    int rank = 2 * (member % (group->n / 2)) + 1;
    double missed =
        pf__tracking_distance(pf_kit_probe_rows(k, group->probe), k->n_chan, k->return_scale,
                              pf__recordings_response(r->rec, group, rank), nominal);
    return missed / energy - (1 - group->gain) * (1 - group->gain);
}

// The excess at a share: straight lines between what was recorded, and beyond it that of the
// outermost run, but no less than nothing.
static double excess_at(int n, const pf_group *const *points, const double *excess, double share)
{
    int p = 0;
    while (p < n - 1 && points[p + 1]->gain <= share) {
        p++;
    }
    if (share < points[0]->gain || p == n - 1) {
        return points[p]->gain == share ? excess[p] : fmax(0, excess[p]);
    }
    double part = (share - points[p]->gain) / (points[p + 1]->gain - points[p]->gain);
    return excess[p] + part * (excess[p + 1] - excess[p]);
}

// Each member of a use is an error curve: what one run at each recorded share missed. Entries of a
// task's mechanisms are added in use, so each carries an equal part of what the healthy run missed.
static pf_status fill_curves(recorded *r, int probe, int mechanism, int candidates, double *row,
                             pf_error *error)
{
    const pf_kit *k = &r->build.kit;
    const double *nominal = k->response + (size_t)k->probe_row[probe] * (size_t)k->n_chan;
    int n = find_points(r->rec, probe, mechanism, 2, r->points);
    double energy = 0, excess[PF_CURVE_POINTS];
    if (n > PF_CURVE_POINTS) {
        return pf_fail(error, PF_ERR_FORMAT,
                       "%s: probe '%s', mechanism '%s': recorded at %d gains, at most %d are read",
                       r->rec->file, pf_kit_probe_name(k, probe),
                       r->plan.mechanisms[mechanism].name, n, PF_CURVE_POINTS);
    }
    for (size_t i = 0; i < window(r->rec, probe); i++) {
        double whole = nominal[i] / k->return_scale[i % (size_t)k->n_chan];
        energy += whole * whole;
    }
    if (!(energy > 0) || !isfinite(energy)) {
        return pf_fail(error, PF_ERR_DEGENERATE,
                       "%s: probe '%s': its mean nominal response is zero, so an error has no "
                       "measure; use a stronger probe",
                       r->rec->file, pf_kit_probe_name(k, probe));
    }
    for (int e = 0; e < k->n_members; e++, row += k->n_shares) {
        for (int p = 0; p < n; p++) {
            excess[p] = run_excess(r, r->points[p], e, energy);
        }
        double others = excess_at(n, r->points, excess, 1) * (1 - 1.0 / candidates);
        for (int s = 0; s < k->n_shares; s++) {
            double share = k->shares[s], law = (1 - share) * (1 - share);
            double missed = law + excess_at(n, r->points, excess, share) - others;
            row[s] = isfinite(missed) ? fmin(PF_TRACKING_ERROR_MAX, fmax(0, missed))
                                      : PF_TRACKING_ERROR_MAX;
        }
    }
    return PF_OK;
}

// The current mechanism follows the law of proportion: nothing else is known of it. A candidate
// without a curve returns nothing at any share, so that no rule calls its task go.
static void fill_unknown(const recorded *r, int mechanism, double *row)
{
    const pf_kit *k = &r->build.kit;
    for (int e = 0; e < k->n_members; e++, row += k->n_shares) {
        for (int s = 0; s < k->n_shares; s++) {
            double law = (1 - k->shares[s]) * (1 - k->shares[s]);
            row[s] = mechanism == 0 ? law : PF_TRACKING_ERROR_MAX;
        }
    }
}

static int probe_of_task(const recorded *r, int task);

// Whether the probe that a task is tells of a mechanism.
static bool is_target(const pf_plan *plan, int probe, int mechanism)
{
    for (int t = 0; probe >= 0 && t < plan->probes[probe].n_targets; t++) {
        if (plan->probes[probe].targets[t] == mechanism) {
            return true;
        }
    }
    return false;
}

static pf_status fill_returns(void *self, pf_error *error)
{
    recorded *r = self;
    const pf_kit *k = &r->build.kit;
    pf_status status = PF_OK;
    for (int task = 0; task < k->n_tasks; task++) {
        int candidates = 0;
        for (int u = k->task_use[task]; u < k->task_use[task + 1]; u++) {
            candidates += k->use_mech[u] > 0;
        }
        for (int u = k->task_use[task]; u < k->task_use[task + 1] && status == PF_OK; u++) {
            size_t at = (size_t)u * (size_t)k->n_members * (size_t)k->n_shares;
            int probe = probe_of_task(r, task);
            double *row = r->build.tracking_error + at;
            if (is_target(&r->plan, probe, k->use_mech[u])) {
                status = fill_curves(r, probe, k->use_mech[u], candidates, row, error);
            } else {
                fill_unknown(r, k->use_mech[u], row);
            }
        }
    }
    return status;
}

// --- alarm

// A recorded machine with one mechanism at a gain, one per worker.
typedef struct recorded_machine {
    const recorded *r;
    int mechanism;
    double gain;
    double *moved, *from; // windows: an answer at a gain that was not recorded
} recorded_machine;

// The group of a probe that is nearest to a mechanism's gain; healthy where the probe does not move
// that mechanism.
static const pf_group *group_near(const recorded *r, int probe, int mechanism, double gain)
{
    const pf_group *best = pf__recordings_find(r->rec, probe, 0, 1);
    double least = INFINITY;
    for (int g = 0; mechanism > 0 && g < r->rec->n_groups; g++) {
        const pf_group *group = &r->rec->groups[g];
        double away = fabs(group->gain - gain);
        if (group->probe == probe && group->mechanism == mechanism && group->n >= 2 &&
            away < least) {
            least = away;
            best = group;
        }
    }
    return best;
}

// Moves a response from the gain that it was recorded at to the machine's, by what the kit's own
// responses say of the step.
static pf_status move_answer(const recorded_machine *m, int probe, const pf_group *group,
                             pf_answer *answer, pf_error *error)
{
    const pf_predictor p = pf__recorded_predictor(&m->r->build.kit);
    pf_hypothesis h = {.probe = probe, .mechanism = m->mechanism, .gain = group->gain};
    pf_status status = p.predict(p.self, &h, NULL, 0, m->from, error);
    h.gain = m->gain;
    status = status ? status : p.predict(p.self, &h, NULL, 0, m->moved, error);
    for (size_t i = 0; i < window(m->r->rec, probe) && status == PF_OK; i++) {
        m->moved[i] += answer->response[i] - m->from[i];
    }
    answer->response = m->moved;
    return status;
}

// A response drawn from the odd ranks.
static pf_status draw_answer(void *self, int probe, pf_key key, pf_answer *answer, pf_error *error)
{
    const recorded_machine *m = self;
    const pf_group *group = group_near(m->r, probe, m->mechanism, m->gain);
    pf_rng rng;
    pf_rng_init(&rng, key);
    int rank = 2 * (int)pf_rng_below(&rng, (uint32_t)(group->n / 2)) + 1;
    *answer = (pf_answer){.response = pf__recordings_response(m->r->rec, group, rank)};
    bool there = group->mechanism == 0 || fabs(group->gain - m->gain) < PF_SAME_GAIN;
    return there ? PF_OK : move_answer(m, probe, group, answer, error);
}

static pf_status draw_rehearsal(void *self, const pf_ask *ask, pf_key key, pf_answer *answer,
                                pf_error *error)
{
    const recorded_machine *m = self;
    int probe = pf__recorded_probe(&m->r->build.kit, ask->rows, ask->command);
    return draw_answer(self, probe, key, answer, error);
}

static pf_machine machine(void *self, int worker, int mechanism, double gain,
                          const pf_predictor **predictor)
{
    recorded *r = self;
    (void)predictor; // the kit predicts by itself
    recorded_machine *m = &r->machines[worker];
    *m = (recorded_machine){r, mechanism, gain, m->moved, m->from};
    return (pf_machine){&r->machines[worker], r->plan.environment, draw_answer, draw_rehearsal};
}

// A task that is one of the probes was recorded with it.
static int probe_of_task(const recorded *r, int task)
{
    const pf_plan_task *t = &r->plan.tasks[task];
    return t->command ? pf__recorded_probe(&r->build.kit, t->rows, t->command) : -1;
}

// A candidate that a task uses and was never recorded with, so that its error curve is missing; 0:
// none. Every one is missing if the task was not recorded at all.
static int without_curve(const recorded *r, int task)
{
    const pf_plan_task *t = &r->plan.tasks[task];
    int probe = probe_of_task(r, task);
    for (int u = 0; u < t->n_uses; u++) {
        if (t->uses[u] > 0 && !is_target(&r->plan, probe, t->uses[u])) {
            return t->uses[u];
        }
    }
    return 0;
}

// A task without an error curve is not rehearsed, and so never go.
static bool can_rehearse(const void *self, int task)
{
    return probe_of_task(self, task) >= 0 && without_curve(self, task) == 0;
}

// --- what is odd about a log

static void warn(const recorded *r, const char *format, ...)
{
    char text[480];
    va_list list;
    if (!r->effort || !r->effort->warn) {
        return;
    }
    va_start(list, format);
    pf__vprint(text, sizeof text, format, list);
    va_end(list);
    r->effort->warn(r->effort->self, text);
}

// A clock would become a channel that every mechanism moves.
static void warn_clocks(const recorded *r)
{
    static const char *const clocks[] = {"time", "t", "timestamp", "seconds", "time_s", "t_s"};
    for (int c = 0; c < r->rec->n_chan; c++) {
        for (size_t i = 0; i < sizeof clocks / sizeof clocks[0]; i++) {
            if (strcmp(r->rec->channels[c], clocks[i]) == 0) {
                warn(r,
                     "%s: column '%s' counts as a channel of the machine; drop it if it is a "
                     "clock",
                     r->rec->file, clocks[i]);
            }
        }
    }
}

// Readings that begin far from zero and hardly move: the free response is not zero then.
static void warn_offsets(const recorded *r)
{
    const pf_kit *k = &r->build.kit;
    for (int c = 0; c < k->n_chan; c++) {
        double begin = 0, moved = 0;
        for (int i = 0; i < k->n_rows; i++) {
            double y = k->response[i * k->n_chan + c];
            begin = i == 0 ? y : begin;
            moved = fmax(moved, fabs(y - begin));
        }
        if (fabs(begin) > 5 * fmax(moved, k->scale[c])) {
            warn(r,
                 "%s: column '%s' begins at %.3g and moves by %.3g: record deviations from rest, "
                 "or a loss is measured against the offset",
                 r->rec->file, r->rec->channels[c], begin, moved);
        }
    }
}

// How much of the nominal response a recorded gain gives: in proportion it is the gain itself.
static void warn_proportion(recorded *r, int probe, int target)
{
    const pf_kit *k = &r->build.kit;
    int mechanism = r->plan.probes[probe].targets[target];
    const double *nominal = k->response + (size_t)k->probe_row[probe] * (size_t)k->n_chan;
    int n = find_points(r->rec, probe, mechanism, 2, r->points);
    if (r->plan.probes[probe].n_targets > 1) {
        return; // the others' part does not shrink
    }
    for (int p = 0; p < n - 1; p++) {
        double along = 0, whole = 0, gain = r->points[p]->gain;
        mean_response(r->rec, r->points[p], r->from);
        for (size_t i = 0; i < window(r->rec, probe); i++) {
            double scale = k->return_scale[i % (size_t)k->n_chan];
            along += r->from[i] * nominal[i] / (scale * scale);
            whole += nominal[i] * nominal[i] / (scale * scale);
        }
        if (whole > 0 && fabs(along / whole - gain) > .15) {
            warn(r,
                 "%s: probe '%s', mechanism '%s': at gain %.2f it does %.2f of its nominal "
                 "response, which is not in proportion (a dead zone?); a real loss may look "
                 "otherwise than a scaled command",
                 r->rec->file, r->plan.probes[probe].name, r->plan.mechanisms[mechanism].name, gain,
                 along / whole);
            return;
        }
    }
}

static void warn_uncertified(const recorded *r, int task)
{
    const pf_plan_task *t = &r->plan.tasks[task];
    int missing = without_curve(r, task);
    if (probe_of_task(r, task) < 0) {
        warn(r,
             "%s: task '%s' was not recorded, so it has no error curve and is never go; record its "
             "command as a probe: at least %d healthy runs, and %d with each of its mechanisms at "
             "each of two gains such as 0.35 and 0.8",
             r->rec->file, t->name, PF_LEAST_EPISODES, PF_LEAST_EPISODES);
    } else if (missing > 0) {
        warn(r,
             "%s: task '%s' was never recorded with mechanism '%s' weakened, so it has no error "
             "curve there and is never go; record at least %d runs of it at each of two gains such "
             "as 0.35 and 0.8",
             r->rec->file, t->name, r->plan.mechanisms[missing].name, PF_LEAST_EPISODES);
    }
}

static void warn_odd(recorded *r)
{
    for (int task = 0; task < r->plan.n_tasks; task++) {
        warn_uncertified(r, task);
    }
    warn_clocks(r);
    warn_offsets(r);
    for (int q = 0; q < r->plan.n_probes; q++) {
        for (int t = 0; t < r->plan.probes[q].n_targets; t++) {
            warn_proportion(r, q, t);
        }
    }
}

// --- all of it

// Whether every target of every probe was recorded at a gain, at least twice for calibration.
static bool everywhere(const recorded *r, double gain)
{
    for (int q = 0; q < r->plan.n_probes; q++) {
        const pf_plan_probe *p = &r->plan.probes[q];
        for (int t = 0; t < p->n_targets; t++) {
            const pf_group *group = pf__recordings_find(r->rec, q, p->targets[t], gain);
            if (!group || group->n < 4) {
                return false;
            }
        }
    }
    return true;
}

// The gains that looks are calibrated at: those that every target was recorded at.
static void set_knots(recorded *r, pf_kit_kind *kind)
{
    const pf_settings *s = &r->plan.settings;
    int n = 0;
    for (int g = 0; g < r->rec->n_groups && n < PF_KNOTS_RECORDED; g++) {
        double gain = r->rec->groups[g].gain;
        bool known = r->rec->groups[g].mechanism == 0 || fabs(gain - 1) < PF_SAME_GAIN;
        for (int i = 0; i < n; i++) {
            known = known || fabs(r->knots[i] - gain) < PF_SAME_GAIN;
        }
        if (!known && everywhere(r, gain)) {
            int at = n++;
            for (; at > 0 && r->knots[at - 1] > gain; at--) {
                r->knots[at] = r->knots[at - 1];
            }
            r->knots[at] = gain;
        }
    }
    if (s->field && s->posterior == PF_POSTERIOR_JOINT) {
        kind->n_knots = n;
        kind->knots = r->knots;
    }
    kind->rehearse = s->field && s->rehearse != PF_REHEARSE_NONE;
}

// A curve needs two recorded gains of every target; there are as many members as every probe has
// nominal episodes.
static void set_sizes(const recorded *r, pf_kit_kind *kind)
{
    kind->n_members = 65536; // as many as a kit holds
    kind->curves = true;
    for (int q = 0; q < r->plan.n_probes; q++) {
        const pf_plan_probe *p = &r->plan.probes[q];
        int nominal = pf__recordings_find(r->rec, q, 0, 1)->n / 2;
        kind->n_members = nominal < kind->n_members ? nominal : kind->n_members;
        for (int t = 0; t < p->n_targets; t++) {
            int points = find_points(r->rec, q, p->targets[t], 2, r->points);
            kind->curves = kind->curves && points > 2;
        }
    }
}

static pf_status make_room(recorded *r, pf_error *error)
{
    const pf_kit *k = &r->build.kit;
    size_t most = (size_t)pf__kit_most_rows(k) * (size_t)k->n_chan, d = sizeof(double);
    size_t targets = (size_t)pf__kit_most_targets(k), groups = (size_t)r->rec->n_groups;
    r->evidence =
        (pf__evidence){.predictor = pf__recorded_predictor(k),
                       .nominal = pf__arena_take(&r->arena, most, d),
                       .predicted = pf__arena_take(&r->arena, most, d),
                       .residual = pf__arena_take(&r->arena, most, d),
                       .signatures = pf__arena_take(&r->arena, most * targets, d),
                       .scratch = pf__arena_take(&r->arena, pf__match_scratch((int)targets), d)};
    r->n_workers = pf__threads(r->effort);
    r->machines = pf__arena_take(&r->arena, (size_t)r->n_workers, sizeof *r->machines);
    for (int i = 0; r->machines && i < r->n_workers; i++) {
        r->machines[i].moved = pf__arena_take(&r->arena, most, d);
        r->machines[i].from = pf__arena_take(&r->arena, most, d);
    }
    r->from = pf__arena_take(&r->arena, most, d);
    r->to = pf__arena_take(&r->arena, most, d);
    r->energy = pf__arena_take(&r->arena, (size_t)k->n_targets, d);
    r->spare = pf__arena_take(&r->arena, targets, sizeof *r->spare);
    r->matches = pf__arena_take(&r->arena, groups, sizeof *r->matches);
    for (size_t g = 0; g < groups && r->matches; g++) {
        const pf_group *group = &r->rec->groups[g];
        size_t n = (size_t)(group->n / 2) * (size_t)r->plan.probes[group->probe].n_targets;
        r->most_samples = group->n / 2 > r->most_samples ? group->n / 2 : r->most_samples;
        r->matches[g] = pf__arena_take(&r->arena, n, sizeof **r->matches);
    }
    return r->arena.failed
               ? pf_fail(error, PF_ERR_MEMORY, "%s: out of memory for the channels", r->rec->file)
               : PF_OK;
}

// The kit is named after the checksum of the recordings.
static pf_status open_kit(recorded *r, const char *csv, size_t n, pf_error *error)
{
    char hex[65], source[80];
    pf__sha256_of(csv, n, hex);
    snprintf(source, sizeof source, "sha256:%s", hex);
    pf_kit_kind kind = {.predictor = "recordings",
                        .source = source,
                        .statistic = PF_STATISTIC_MATCHED,
                        .n_scale = 1,
                        .responses = true};
    size_t points = (size_t)r->rec->n_groups + 1;
    r->points = pf__arena_take(&r->arena, points, sizeof *r->points);
    r->gains = pf__arena_take(&r->arena, points, sizeof *r->gains);
    if (r->arena.failed) {
        return pf_fail(error, PF_ERR_MEMORY, "%s: out of memory for responses", r->rec->file);
    }
    set_sizes(r, &kind);
    set_knots(r, &kind);
    pf_status status = pf__kit_build_init(&r->build, &r->plan, &kind, error);
    return status == PF_OK ? make_room(r, error) : status;
}

static pf_source source_of(recorded *r)
{
    return (pf_source){
        .self = r,
        .plan = &r->plan,
        .build = &r->build,
        .effort = r->effort,
        .n_workers = r->n_workers,
        .centre = pf__fit_mean,
        .same_gain = PF_SAME_GAIN,
        .even = true,
        .apart = true,
        .file = r->rec->file,
        .no_effect = "its weakened responses equal the nominal ones; does the probe move it?",
        .stronger = "a stronger or longer probe, or a smaller gain",
        .read = read_recordings,
        .classes = n_classes,
        .class_samples = class_samples,
        .most_samples = r->most_samples,
        .points = curve_points,
        .most_points = r->rec->n_groups + 1,
        .severity_scores = severity_scores,
        .energy = r->energy,
        .returns = fill_returns,
        .machine = machine,
        .can_rehearse = can_rehearse,
    };
}

pf_status pf__calibrate_recordings(const pf_plan *plan, const char *file, const char *csv, size_t n,
                                   int alarm_trials, const pf_effort *effort, void **bytes,
                                   size_t *n_bytes, pf_error *error)
{
    *bytes = NULL;
    *n_bytes = 0;
    if (plan && plan->settings.weighting == PF_WEIGHTING_SHRUNK) {
        return pf_fail(error, PF_ERR_UNSUPPORTED,
                       "weighting: shrunk needs a simulator to draw residuals from; recordings "
                       "have too few");
    }
    pf_recordings rec;
    pf_status status = pf__recordings_read(&rec, plan, file, csv, n, error);
    if (status != PF_OK) {
        return status;
    }
    recorded r = {.rec = &rec, .effort = effort};
    status = pf__recordings_plan(&rec, &r.arena, &r.plan, error);
    if (status == PF_OK) {
        r.plan.environment = "recordings";
        r.plan.settings.alarm_trials =
            alarm_trials > 0 ? alarm_trials : r.plan.settings.alarm_trials;
        status = open_kit(&r, csv, n, error);
    }
    if (status == PF_OK) {
        pf_source source = source_of(&r);
        status = pf__calibrate(&source, bytes, n_bytes, error);
    }
    if (status == PF_OK) {
        warn_odd(&r);
    }
    pf__kit_build_free(&r.build);
    pf__arena_free(&r.arena);
    pf__recordings_free(&rec);
    return status;
}

pf_status pf_calibrate_recordings(const pf_plan *plan, const char *file, const char *csv, size_t n,
                                  const pf_effort *effort, void **bytes, size_t *n_bytes,
                                  pf_error *error)
{
    return pf__calibrate_recordings(plan, file, csv, n, 0, effort, bytes, n_bytes, error);
}
