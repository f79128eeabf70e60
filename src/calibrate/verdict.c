// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "fit.h"
#include "limits.h"
#include "source.h"

#include "core/certificate.h"
#include "core/constants.h"
#include "core/session_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// What the field's verdict needs beyond channels, returns and alarm: where the coordinates of a
// look lie at each gain (the joint posterior), how badly a machine of the model may fit (misfit),
// and what a healthy rehearsal looks like.

const double pf__look_knots[PF_LOOK_KNOTS] = {0, .2, .35, .5, .65, .8, .9, 1.25, 1.5};

// How many of each, from the episodes per class E and the alarm trials A of the plan. With the
// defaults (60 and 2000): 120 nominal looks per probe, 20 per knot and target, 300 residuals, 200
// misfits of healthy and as many of weakened machines, 400 sessions of each kind, 300 rehearsals.
enum { LEAST_LOOKS = 8 };
static int nominal_looks(const pf_plan *plan)
{
    return 2 * plan->settings.episodes;
}
static int knot_looks(const pf_plan *plan)
{
    int n = plan->settings.episodes / 3;
    return n > LEAST_LOOKS ? n : LEAST_LOOKS;
}
static int residual_looks(const pf_plan *plan)
{
    return 5 * plan->settings.episodes;
}
static int misfit_looks(const pf_plan *plan)
{
    return 10 * plan->settings.episodes / 3;
}
static int misfit_sessions(const pf_plan *plan)
{
    return plan->settings.alarm_trials / 5;
}

// The classes of misfit sessions: healthy, gains from 0 to .3, gains from .3 to 1.2.
enum { SESSION_CLASSES = 3 };
static const double class_gains[SESSION_CLASSES][2] = {{1, 1}, {0, .3}, {.3, 1.2}};

// Streams of PF_PURPOSE_MISFIT. Trials of a class are this far apart, so that none is shared.
enum { STREAM_LOOKS = 0, STREAM_RESIDUALS = 64, STREAM_MISFITS = 65, STREAM_REHEARSALS = 66 };
static const uint64_t class_trials = UINT64_C(1) << 32;

// Memory of a worker.
typedef struct desk {
    pf__evidence evidence;
    pf_match *matches;
    pf__look look;
    double *z, *others, *runs[2];
    int *still; // n_chan: most equal readings at the end of any run of this worker
    void *session_memory;
    pf_session *session;
} desk;

typedef struct verdict {
    pf_source *source;
    const pf_plan *plan;
    pf_kit_build *build;
    pf_arena arena;
    desk *desks;
    pf__between between[PF_POSTERIOR_GAINS];
    int probe;      // at hand
    int n_episodes; // of the part at hand
    double *values; // its results
    size_t stride;  // numbers per episode
    double *column, *scratch;
    size_t session_bytes;
    // rehearsals
    pf_ask ask;
    double *idle;            // a command of zeros
    pf_design_config limits; // of the design
} verdict;

static pf_status no_memory(pf_error *error)
{
    return pf_fail(error, PF_ERR_MEMORY, "out of memory for the verdict of a kit");
}

static pf_status open_verdict(verdict *v, pf_source *source, pf_error *error)
{
    const pf_kit *k = &source->build->kit;
    size_t window = (size_t)pf__kit_most_rows(k) * (size_t)k->n_chan, d = sizeof(double);
    size_t targets = (size_t)pf__kit_most_targets(k);
    size_t run = (size_t)pf__plan_most_rows(source->plan) * (size_t)k->n_chan;
    *v = (verdict){.source = source, .plan = source->plan, .build = source->build};
    v->desks = pf__arena_take(&v->arena, (size_t)source->n_workers, sizeof *v->desks);
    for (int i = 0; v->desks && i < source->n_workers; i++) {
        desk *w = &v->desks[i];
        w->evidence = (pf__evidence){
            .nominal = pf__arena_take(&v->arena, window, d),
            .predicted = pf__arena_take(&v->arena, window, d),
            .residual = pf__arena_take(&v->arena, window, d),
            .signatures = pf__arena_take(&v->arena, window * targets, d),
            .scratch = pf__arena_take(&v->arena, pf__match_scratch((int)targets), d)};
        w->matches = pf__arena_take(&v->arena, targets, sizeof *w->matches);
        w->z = pf__arena_take(&v->arena, targets, d);
        w->look = (pf__look){.z = w->z,
                             .said = pf__arena_take(&v->arena, targets, sizeof(int)),
                             .log_healthy = pf__arena_take(&v->arena, targets, d),
                             .q_healthy = pf__arena_take(&v->arena, targets, d),
                             .log_gain = pf__arena_take(&v->arena, targets * PF_POSTERIOR_GAINS, d),
                             .q_gain = pf__arena_take(&v->arena, targets * PF_POSTERIOR_GAINS, d)};
        w->others = pf__arena_take(&v->arena, (size_t)k->n_mech, d);
        w->still = pf__arena_take(&v->arena, (size_t)k->n_chan, sizeof *w->still);
        w->runs[0] = pf__arena_take(&v->arena, run, d);
        w->runs[1] = pf__arena_take(&v->arena, run, d);
    }
    return v->arena.failed ? no_memory(error) : PF_OK;
}

// Room for the results of n episodes; the part before this one is done with its own.
static pf_status make_room(verdict *v, int n, size_t stride, pf_error *error)
{
    free(v->values);
    free(v->column);
    v->n_episodes = n;
    v->stride = stride;
    v->values = calloc((size_t)n * stride, sizeof(double));
    v->column = calloc(2 * (size_t)n, sizeof(double));
    v->scratch = v->column ? v->column + n : NULL;
    return v->values && v->column ? PF_OK : no_memory(error);
}

static void close_verdict(verdict *v)
{
    free(v->values);
    free(v->column);
    pf__arena_free(&v->arena);
}

// Finite results `at` of episodes first..first+n-1, into v->column; gives how many.
static int gather_column(const verdict *v, int first, int n, size_t at)
{
    int count = 0;
    for (int i = first; i < first + n; i++) {
        double value = v->values[(size_t)i * v->stride + at];
        if (isfinite(value)) {
            v->column[count++] = value;
        }
    }
    return count;
}

static double mean_of(int n, const double *values)
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        sum += values[i];
    }
    return n > 0 ? sum / n : 0;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// The value of rank ceil(share (n + 1)), at least the first and at most the last. Sorts.
static double rank_point(int n, double *values, double share)
{
    qsort(values, (size_t)n, sizeof *values, by_size);
    int rank = (int)ceil(share * (n + 1) - 1e-9);
    rank = rank < 1 ? 1 : rank > n ? n : rank;
    return values[rank - 1];
}

// Notes how long the channels stand still at the end of a response.
static void note_still(const verdict *v, int worker, int rows, const double *response)
{
    desk *w = &v->desks[worker];
    for (int c = 0; c < v->build->kit.n_chan; c++) {
        int still = pf__misfit_still(rows, v->build->kit.n_chan, response, c);
        w->still[c] = still > w->still[c] ? still : w->still[c];
    }
}

static void keep_still(verdict *v)
{
    for (int i = 0; i < v->source->n_workers; i++) {
        for (int c = 0; v->build->kit.n_misfit > 0 && c < v->build->kit.n_chan; c++) {
            v->build->still[c] = fmax(v->build->still[c], v->desks[i].still[c]);
        }
    }
}

// --- looks

// A probe on a machine with one mechanism at a gain: response, signatures and matches into the
// desk.
static pf_status look_at(verdict *v, int worker, int probe, int mechanism, double gain, pf_key key,
                         const double **response, pf_error *error)
{
    desk *w = &v->desks[worker];
    const pf_predictor *predictor = NULL;
    pf_answer answer = {0};
    pf_machine machine = v->source->machine(v->source->self, worker, mechanism, gain, &predictor);
    pf_status status = machine.answer(machine.self, probe, key, &answer, error);
    if (status != PF_OK) {
        return status;
    }
    pf__evidence *e = &w->evidence;
    const pf_kit *k = &v->build->kit;
    pf__evidence_set(e, k, probe);
    e->predictor = predictor ? *predictor : pf__recorded_predictor(k);
    e->start = answer.start;
    e->n_start = answer.n_start;
    *response = answer.response;
    note_still(v, worker, pf_kit_probe_rows(k, probe), answer.response);
    status = pf__evidence_read(e, answer.response, w->matches, error);
    for (int t = 0; t < e->n_targets && status == PF_OK; t++) {
        const pf_match *m = &w->matches[t];
        bool shows = m->usable && pf__evidence_shows(k, probe, t, m);
        w->z[t] = shows ? pf__evidence_coordinate(k, probe, t, m) : NAN;
    }
    return status;
}

// Looks of a probe, class after class: nominal, then target t at knot k.
static pf_status run_look(void *self, int worker, size_t item, pf_error *error)
{
    verdict *v = self;
    const pf_kit *k = &v->build->kit;
    int first = nominal_looks(v->plan), per = knot_looks(v->plan), mechanism = 0, knot = -1;
    int episode = (int)item;
    if (episode >= first) {
        int class = (episode - first) / per;
        episode = (episode - first) % per;
        knot = class % k->n_knots;
        mechanism = v->plan->probes[v->probe].targets[class / k->n_knots];
    }
    pf_key key = pf_key_stream(v->plan->settings.seed, v->plan->environment, (uint64_t)episode,
                               PF_PURPOSE_MISFIT, (uint64_t)(STREAM_LOOKS + 1 + knot));
    const double *response = NULL;
    pf_status status = look_at(v, worker, v->probe, mechanism, knot < 0 ? 1 : k->knots[knot], key,
                               &response, error);
    if (status == PF_OK) {
        memcpy(v->values + item * v->stride, v->desks[worker].z, v->stride * sizeof(double));
    }
    return status;
}

// Median and variance of every coordinate of a class into the kit.
static void fit_look(const verdict *v, int first, int n, double *mean, double *variance)
{
    for (size_t t = 0; t < v->stride; t++) {
        int count = gather_column(v, first, n, t);
        double centre = count > 0 ? pf__fit_median(count, v->column, v->scratch) : 0;
        double spread = count > 1 ? pf__fit_spread(count, v->column, centre) : 1;
        mean[t] = centre;
        variance[t] = fmax(spread * spread, PF_POSTERIOR_VARIANCE_MIN);
    }
}

static pf_status fit_looks(verdict *v, pf_error *error)
{
    pf_kit_build *b = v->build;
    size_t at = pf__kit_look(&b->kit, v->probe), targets = v->stride;
    int first = nominal_looks(v->plan), per = knot_looks(v->plan);
    int classes = (int)targets * b->kit.n_knots;
    fit_look(v, 0, first, b->look_mean + at, b->look_variance + at);
    for (int class = 0; class < classes; class ++) {
        size_t row = at + (1 + (size_t) class) * targets;
        fit_look(v, first + class * per, per, b->look_mean + row, b->look_variance + row);
    }
    for (size_t i = at; i < at + targets * (1 + (size_t)classes); i++) {
        if (!isfinite(b->look_mean[i]) || !isfinite(b->look_variance[i])) {
            return pf_fail(error, PF_ERR_DEGENERATE,
                           "probe '%s': a coordinate is not finite; check the units",
                           v->plan->probes[v->probe].name);
        }
    }
    return PF_OK;
}

static pf_status calibrate_looks(verdict *v, pf_error *error)
{
    const pf_kit *k = &v->build->kit;
    pf_status status = PF_OK;
    for (v->probe = 0; v->probe < k->n_probes && status == PF_OK; v->probe++) {
        int targets = v->plan->probes[v->probe].n_targets;
        int n = nominal_looks(v->plan) + targets * k->n_knots * knot_looks(v->plan);
        status = make_room(v, n, (size_t)targets, error);
        if (status == PF_OK) {
            status = pf__parallel(v->source->effort, v->source->n_workers, (size_t)n, run_look, v,
                                  "looks", error);
        }
        if (status == PF_OK) {
            status = fit_looks(v, error);
        }
    }
    return status;
}

// --- misfit

static pf_status run_residual(void *self, int worker, size_t item, pf_error *error)
{
    verdict *v = self;
    const pf_kit *k = &v->build->kit;
    const double *response = NULL;
    pf_key key = pf_key_stream(v->plan->settings.seed, v->plan->environment, item,
                               PF_PURPOSE_MISFIT, STREAM_RESIDUALS);
    pf_status status = look_at(v, worker, v->probe, 0, 1, key, &response, error);
    double *out = v->values + item * v->stride;
    for (size_t i = 0; i < v->stride && status == PF_OK; i++) {
        double residual = response[i] - v->desks[worker].evidence.nominal[i];
        out[i] = residual / pf__kit_scale(k, (int)i);
    }
    return status;
}

// Root mean square of the nominal residual by row and channel.
static void fit_residuals(verdict *v)
{
    double *rms = v->build->residual_rms +
                  (size_t)v->build->probe_row[v->probe] * (size_t)v->build->kit.n_chan;
    for (size_t i = 0; i < v->stride; i++) {
        double sum = 0;
        for (int e = 0; e < v->n_episodes; e++) {
            double r = v->values[(size_t)e * v->stride + i];
            sum += r * r;
        }
        rms[i] = fmax(sqrt(sum / v->n_episodes), PF_MISFIT_MIN);
    }
}

// The first half healthy, the other with a target of the probe at a gain from 0 to 1.2.
static pf_status run_misfit(void *self, int worker, size_t item, pf_error *error)
{
    verdict *v = self;
    const pf_kit *k = &v->build->kit;
    desk *w = &v->desks[worker];
    pf_key key = pf_key_stream(v->plan->settings.seed, v->plan->environment, item,
                               PF_PURPOSE_MISFIT, STREAM_MISFITS);
    const pf_plan_probe *probe = &v->plan->probes[v->probe];
    int mechanism = 0;
    double gain = 1;
    if (item >= (size_t)v->n_episodes / 2) {
        pf_rng rng;
        pf_rng_init(&rng, key);
        mechanism = probe->targets[pf_rng_below(&rng, (uint32_t)probe->n_targets)];
        gain = 1.2 * pf_rng_uniform(&rng);
    }
    const double *response = NULL, *predicted = NULL;
    pf_status status = look_at(v, worker, v->probe, mechanism, gain, key, &response, error);
    if (status != PF_OK) {
        return status;
    }
    w->look.probe = v->probe;
    w->look.n_targets = w->evidence.n_targets;
    w->look.targets = w->evidence.targets;
    pf__look_weigh(&w->look, k, v->between);
    status = pf__misfit_predict(k, &w->look, &w->evidence, w->others, &predicted, error);
    if (status == PF_OK) {
        pf__misfit_roots(k, v->probe, response, predicted, v->values + item * v->stride);
    }
    return status;
}

static void fit_misfits(verdict *v)
{
    const pf_kit *k = &v->build->kit;
    for (size_t c = 0; c < v->stride; c++) {
        int n = gather_column(v, 0, v->n_episodes, c);
        double mean = mean_of(n, v->column);
        size_t at = (size_t)v->probe * (size_t)k->n_chan + c;
        double sd = fmax(pf__fit_spread(n, v->column, mean), PF_MISFIT_MIN + 1e-9 * mean);
        v->build->misfit_mean[at] = fmin(mean, PF_MISFIT_ROOT_MOST);
        v->build->misfit_sd[at] = fmin(sd, PF_MISFIT_ROOT_MOST);
    }
}

// One session of a class to the end of its probes: the largest misfits into the slot.
static pf_status run_session(void *self, int worker, size_t item, pf_error *error)
{
    verdict *v = self;
    const pf_kit *k = &v->build->kit;
    desk *w = &v->desks[worker];
    size_t class = item / (size_t)v->n_episodes, trial = item % (size_t)v->n_episodes;
    uint64_t number = (1 + class) * class_trials + trial;
    pf_rng rng;
    pf_rng_init(&rng, pf_key_stream(v->plan->settings.seed, v->plan->environment, number,
                                    PF_PURPOSE_MISFIT, STREAM_MISFITS + 10));
    int mechanism = class > 0 ? 1 + (int)pf_rng_below(&rng, (uint32_t)(k->n_mech - 1)) : 0;
    double lo = class_gains[class][0], gain = lo;
    gain += (class_gains[class][1] - lo) * pf_rng_uniform(&rng);
    pf_rules rules = pf_kit_get_info(k).rules;
    rules.rehearse = PF_REHEARSE_NONE; // a rehearsal adds nothing to the misfit
    pf_session_config config = {.seed = number, .rules = &rules};
    pf_status status =
        pf_session_init(&w->session, k, &config, w->session_memory, v->session_bytes, error);
    if (status != PF_OK) {
        return status;
    }
    const pf_predictor *predictor = NULL;
    pf_machine machine =
        v->source->machine(v->source->self, worker, mechanism, class > 0 ? gain : 1, &predictor);
    pf_drive drive = {
        .seed = v->plan->settings.seed, .trial = number, .purpose = PF_PURPOSE_MISFIT};
    status = pf_drive_session(w->session, &machine, predictor, &drive, error);
    double *out = v->values + item * v->stride;
    out[0] = w->session->misfit.chan;
    out[1] = w->session->misfit.shape;
    out[2] = w->session->alarm;
    return status;
}

// The largest over the classes of the 99 % point of a session's value `at`, above `least`.
static double worst_class(verdict *v, size_t at, double least)
{
    double worst = least;
    for (int class = 0; class < SESSION_CLASSES; class ++) {
        int n = gather_column(v, class * v->n_episodes, v->n_episodes, at);
        worst = n > 0 ? fmax(worst, rank_point(n, v->column, .99)) : worst;
    }
    return worst;
}

static pf_status calibrate_levels(verdict *v, pf_error *error)
{
    pf_kit *k = &v->build->kit;
    int n = misfit_sessions(v->plan);
    n = n > LEAST_LOOKS ? n : LEAST_LOOKS;
    pf_status status = make_room(v, SESSION_CLASSES * n, 3, error);
    v->n_episodes = n;
    v->session_bytes = pf_session_size(k);
    for (int i = 0; i < v->source->n_workers; i++) {
        v->desks[i].session_memory = pf__arena_take(&v->arena, v->session_bytes, 1);
    }
    if (status == PF_OK && v->arena.failed) {
        status = no_memory(error);
    }
    if (status == PF_OK && v->session_bytes == 0) {
        status = pf_kit_check(k, error);
    }
    if (status == PF_OK) {
        status = pf__parallel(v->source->effort, v->source->n_workers, SESSION_CLASSES * (size_t)n,
                              run_session, v, "sessions", error);
    }
    if (status != PF_OK) {
        return status;
    }
    k->misfit_chan = fmin(PF_MISFIT_MOST, worst_class(v, 0, PF_MISFIT_LEAST));
    k->misfit_shape = fmin(PF_MISFIT_MOST, worst_class(v, 1, PF_MISFIT_LEAST));
    for (int i = 0; i < SESSION_CLASSES * n; i++) {
        double *out = v->values + (size_t)i * v->stride;
        k->alarm_false += i < n ? out[2] : 0;
        out[0] = fmax(out[0] / k->misfit_chan, out[1] / k->misfit_shape);
    }
    k->misfit_level = fmin(PF_MISFIT_LEVEL_MOST, worst_class(v, 0, 1e-6));
    k->alarm_checks = n;
    return PF_OK;
}

static pf_status calibrate_misfit(verdict *v, pf_error *error)
{
    pf_kit *k = &v->build->kit;
    const pf_effort *effort = v->source->effort;
    int workers = v->source->n_workers;
    pf_status status = PF_OK;
    pf__posterior_between(k, v->between);
    k->misfit_chan = k->misfit_shape = 1;
    k->misfit_level = PF_MISFIT_LEVEL_MOST; // no misfit until the levels are known
    for (v->probe = 0; v->probe < k->n_probes && status == PF_OK; v->probe++) {
        int n = residual_looks(v->plan), m = 2 * misfit_looks(v->plan);
        size_t window = (size_t)pf_kit_probe_rows(k, v->probe) * (size_t)k->n_chan;
        status = make_room(v, n, window, error);
        if (status == PF_OK) {
            status = pf__parallel(effort, workers, (size_t)n, run_residual, v, "residuals", error);
        }
        if (status == PF_OK) {
            fit_residuals(v);
            status = make_room(v, m, (size_t)k->n_chan, error);
        }
        if (status == PF_OK) {
            status = pf__parallel(effort, workers, (size_t)m, run_misfit, v, "misfits", error);
        }
        if (status == PF_OK) {
            fit_misfits(v);
        }
    }
    keep_still(v); // the levels' sessions know it
    return status == PF_OK ? calibrate_levels(v, error) : status;
}

// --- rehearsals

// Mean over members of the tracking error of a use at a share, and its spread.
static double error_at(const pf_kit *k, int use, double share, double *sd)
{
    double mean = 0, square = 0;
    for (int e = 0; e < k->n_members; e++) {
        size_t row = (size_t)use * (size_t)k->n_members + (size_t)e;
        double nte = pf__tracking_error_at(k->n_shares, k->shares,
                                           k->tracking_error + row * (size_t)k->n_shares, share);
        mean += nte / k->n_members;
        square += nte * nte / k->n_members;
    }
    *sd = sqrt(fmax(0, square - mean * mean));
    return mean;
}

// The share nearest to 1 on one side at which a use alone returns j_min.
static double edge_of(const pf_kit *k, int use, bool above, double theta)
{
    double sd, inside = 1, last = above ? k->shares[k->n_shares - 1] : k->shares[0];
    int step = above ? 1 : -1, i = above ? 0 : k->n_shares - 1;
    for (; i >= 0 && i < k->n_shares; i += step) {
        double share = k->shares[i];
        if (above ? share <= 1 : share >= 1) {
            continue;
        }
        double here = error_at(k, use, share, &sd), before = error_at(k, use, inside, &sd);
        if (here >= theta) {
            double part = here > before ? (theta - before) / (here - before) : 1;
            return inside + fmin(1, fmax(0, part)) * (share - inside);
        }
        inside = share;
    }
    return last;
}

static void fit_edges(pf_kit_build *b, int task)
{
    const pf_kit *k = &b->kit;
    double theta = pf__error_of(k->j_min), worst = 0;
    for (int u = k->task_use[task]; u < k->task_use[task + 1]; u++) {
        for (int side = 0; side < 2; side++) {
            double edge = edge_of(k, u, side == 1, theta), sd;
            double mean = error_at(k, u, edge, &sd);
            b->use_edge[2 * u + side] = edge;
            worst = mean > 0 ? fmax(worst, sd / mean) : worst;
        }
    }
    b->rehearsal[(size_t)task * PF_REHEARSAL_NUMBERS + PF_REHEARSAL_CV] = worst;
}

// A healthy rehearsal, uncorrected: D, and what the task moves.
static pf_status run_rehearsal(void *self, int worker, size_t item, pf_error *error)
{
    verdict *v = self;
    const pf_kit *k = &v->build->kit;
    desk *w = &v->desks[worker];
    const pf_predictor *predictor = NULL;
    pf_answer answer = {0};
    pf_machine machine = v->source->machine(v->source->self, worker, 0, 1, &predictor);
    pf_key key = pf_key_stream(v->plan->settings.seed, v->plan->environment, item,
                               PF_PURPOSE_MISFIT, STREAM_REHEARSALS);
    pf_status status = machine.rehearse(machine.self, &v->ask, key, &answer, error);
    pf_predictor recorded = pf__recorded_predictor(k);
    predictor = predictor ? predictor : &recorded;
    for (int i = 0; i < 2 && status == PF_OK; i++) {
        pf_run run = {.task = v->ask.tasks[0],
                      .command = i == 0 ? v->ask.command : v->idle,
                      .rows = v->ask.rows,
                      .idle = i == 1};
        status =
            predictor->run(predictor->self, &run, answer.start, answer.n_start, w->runs[i], error);
    }
    if (status != PF_OK) {
        return status;
    }
    note_still(v, worker, v->ask.rows, answer.response);
    double *out = v->values + item * v->stride;
    out[2] = 0;
    for (int i = 0; i < v->ask.rows * k->n_chan; i++) {
        double most = v->limits.most[i % k->n_chan];
        out[2] = fmax(out[2], fabs(w->runs[0][i] - w->runs[1][i]) / most);
    }
    out[0] =
        pf__tracking_distance(v->ask.rows, k->n_chan, k->return_scale, answer.response, w->runs[0]);
    out[1] = pf__tracking_distance(v->ask.rows, k->n_chan, k->return_scale, w->runs[0], w->runs[1]);
    return isfinite(out[0]) && isfinite(out[1])
               ? PF_OK
               : pf_fail(error, PF_ERR_NONFINITE, "task '%s': its response is not finite",
                         pf_kit_task_name(k, v->ask.tasks[0]));
}

// Runs the rehearsal in v->ask on healthy machines and fills its numbers.
static pf_status rehearse(verdict *v, double *numbers, pf_error *error)
{
    int n = residual_looks(v->plan);
    pf_status status = make_room(v, n, 3, error);
    if (status == PF_OK) {
        status = pf__parallel(v->source->effort, v->source->n_workers, (size_t)n, run_rehearsal, v,
                              "rehearsals", error);
    }
    if (status != PF_OK) {
        return status;
    }
    gather_column(v, 0, n, 0);
    double mean = mean_of(n, v->column);
    numbers[PF_REHEARSAL_MEAN] = mean;
    // a machine without noise has no spread of its own, but the return scale's rounding
    numbers[PF_REHEARSAL_SD] = fmax(pf__fit_spread(n, v->column, mean), PF_MISFIT_MIN);
    numbers[PF_REHEARSAL_CLEAN] = rank_point(n, v->column, .99);
    gather_column(v, 0, n, 1);
    numbers[PF_REHEARSAL_ENERGY] = rank_point(n, v->column, .05);
    return PF_OK;
}

static pf_status rehearse_task(verdict *v, int task, pf_error *error)
{
    pf_kit_build *b = v->build;
    const pf_plan_task *t = &v->plan->tasks[task];
    int32_t tasks[1] = {task};
    double ones[PF_MECH_MAX], *numbers = b->rehearsal + (size_t)task * PF_REHEARSAL_NUMBERS;
    for (int j = 0; j < v->plan->n_mech; j++) {
        ones[j] = 1;
    }
    v->ask = (pf_ask){.kind = PF_ASK_REHEARSAL,
                      .probe = -1,
                      .rows = t->rows,
                      .n_tasks = 1,
                      .tasks = tasks,
                      .command = t->command,
                      .correction = ones};
    b->rehearsal_rows[task] = t->rows;
    fit_edges(b, task);
    pf_status status = rehearse(v, numbers, error);
    if (status == PF_OK && !(numbers[PF_REHEARSAL_ENERGY] > 0)) {
        b->rehearsal_rows[task] = 0; // some starts leave nothing to compare with
    }
    // how far the task moves an output, over what is allowed; each use counts as if it did it all
    for (int u = b->task_use[task]; u < b->task_use[task + 1] && b->kit.n_bounded > 0; u++) {
        int n = status == PF_OK ? gather_column(v, 0, v->n_episodes, 2) : 0;
        b->excursion[u] = n > 0 ? rank_point(n, v->column, 1) : 0;
    }
    return status;
}

// Whether a task can join a group: an open loop that can be rehearsed, moves nothing that the group
// moves already, and may act together with it.
static bool joins(const verdict *v, int task, const bool *moved)
{
    const pf_plan_task *t = &v->plan->tasks[task];
    int n_mech = v->plan->n_mech, acting = 0;
    bool fits = t->command && v->build->rehearsal_rows[task] > 0;
    for (int j = 0; j < n_mech; j++) {
        acting += moved[j] && j > 0;
        for (int u = 0; u < t->n_uses && moved[j]; u++) {
            fits = fits && t->uses[u] != j && !v->limits.apart[t->uses[u] * n_mech + j];
        }
    }
    for (int u = 0; u < t->n_uses; u++) {
        acting += t->uses[u] > 0;
    }
    // it may command the current mechanism without listing it
    for (int a = 0; fits && a < t->rows * n_mech; a++) {
        fits = t->command[a] == 0 || !moved[a % n_mech];
    }
    return fits && acting <= v->limits.at_once;
}

// Marks what a task moves, the current mechanism too where it is not listed.
static void mark_moved(const verdict *v, int task, bool *moved)
{
    const pf_plan_task *t = &v->plan->tasks[task];
    for (int u = 0; u < t->n_uses; u++) {
        moved[t->uses[u]] = true;
    }
    for (int a = 0; a < t->rows * v->plan->n_mech; a++) {
        moved[a % v->plan->n_mech] = moved[a % v->plan->n_mech] || t->command[a] != 0;
    }
}

// Divides the tasks into groups, first come first served; groups of one are left out. No group has
// more than half of the tasks: every mechanism must rest while others run, or one that is stuck
// where its task wants it would not show. first has n_tasks + 1 entries, tasks n_tasks. Gives how
// many.
static int plan_groups(const verdict *v, int32_t *first, int32_t *tasks)
{
    bool taken[4096] = {false};
    int n = 0, used = 0, can = 0;
    first[0] = 0;
    for (int t = 0; t < v->plan->n_tasks; t++) {
        can += v->plan->tasks[t].command && v->build->rehearsal_rows[t] > 0;
    }
    for (int start = 0; start < v->plan->n_tasks && start < 4096; start++) {
        bool moved[PF_MECH_MAX] = {false};
        int from = used;
        for (int t = start; t < v->plan->n_tasks && t < 4096; t++) {
            if (taken[t] || used - from >= (can + 1) / 2 || !joins(v, t, moved)) {
                continue;
            }
            taken[t] = true;
            tasks[used++] = t;
            mark_moved(v, t, moved);
        }
        if (used - from >= 2) {
            first[++n] = used;
        } else {
            used = from;
        }
    }
    return n;
}

static pf_status rehearse_group(verdict *v, int group, double *command, pf_error *error)
{
    pf_kit_build *b = v->build;
    int n_mech = v->plan->n_mech, rows = 0;
    const int32_t *tasks = b->group_task + b->group_first[group];
    int n = b->group_first[group + 1] - b->group_first[group];
    memset(command, 0, sizeof(double) * (size_t)pf__plan_most_rows(v->plan) * (size_t)n_mech);
    for (int i = 0; i < n; i++) {
        const pf_plan_task *t = &v->plan->tasks[tasks[i]];
        rows = t->rows > rows ? t->rows : rows;
        for (int a = 0; a < t->rows * n_mech; a++) {
            command[a] += t->command[a];
        }
    }
    v->ask = (pf_ask){.kind = PF_ASK_REHEARSAL,
                      .probe = -1,
                      .rows = rows,
                      .n_tasks = n,
                      .tasks = tasks,
                      .command = command};
    return rehearse(v, b->group_rehearsal + (size_t)group * PF_REHEARSAL_NUMBERS, error);
}

static pf_status rehearse_groups(verdict *v, double *command, pf_error *error)
{
    size_t n_tasks = (size_t)v->plan->n_tasks;
    int32_t *first = pf__arena_take(&v->arena, n_tasks + 1, sizeof *first);
    int32_t *tasks = pf__arena_take(&v->arena, n_tasks, sizeof *tasks);
    if (v->arena.failed) {
        return no_memory(error);
    }
    int n = v->source->groups ? plan_groups(v, first, tasks) : 0;
    pf_status status = pf__kit_build_groups(v->build, n, first, tasks, error);
    for (int g = 0; g < n && status == PF_OK; g++) {
        status = rehearse_group(v, g, command, error);
    }
    return status;
}

static pf_status calibrate_rehearsals(verdict *v, pf_error *error)
{
    const pf_plan *plan = v->plan;
    pf_kit_build *b = v->build;
    size_t commands = (size_t)pf__plan_most_rows(plan) * (size_t)plan->n_mech;
    double *command = pf__arena_take(&v->arena, commands, sizeof *command);
    v->idle = pf__arena_take(&v->arena, commands, sizeof *v->idle);
    if (v->arena.failed) {
        return no_memory(error);
    }
    pf_status status = pf__limits_read(&v->limits, plan, error);
    for (int j = 0; j < plan->n_mech && status == PF_OK; j++) {
        b->slew[j] = j > 0 ? v->limits.bounds[j].rate : INFINITY;
    }
    for (int t = 0; t < plan->n_tasks && status == PF_OK; t++) {
        if (v->source->can_rehearse(v->source->self, t)) {
            status = rehearse_task(v, t, error);
        }
    }
    status = status == PF_OK ? rehearse_groups(v, command, error) : status;
    if (status == PF_OK && plan->settings.budget3 < 0) {
        b->kit.budget3 = pf__rehearsal_budget(&b->kit);
    }
    pf__limits_free(&v->limits);
    return status;
}

// --- in the order of pf__calibrate

typedef pf_status (*part)(verdict *v, pf_error *error);

static pf_status run_part(pf_source *source, part run, pf_error *error)
{
    verdict v;
    pf_status status = open_verdict(&v, source, error);
    if (status == PF_OK) {
        status = run(&v, error);
        keep_still(&v);
    }
    close_verdict(&v);
    return status;
}

pf_status pf__calibrate_looks(pf_source *source, pf_error *error)
{
    return source->build->kit.n_knots > 0 ? run_part(source, calibrate_looks, error) : PF_OK;
}

pf_status pf__calibrate_misfit(pf_source *source, pf_error *error)
{
    return source->build->kit.n_misfit > 0 ? run_part(source, calibrate_misfit, error) : PF_OK;
}

pf_status pf__calibrate_rehearsals(pf_source *source, pf_error *error)
{
    return source->build->kit.n_rehearse > 0 ? run_part(source, calibrate_rehearsals, error)
                                             : PF_OK;
}
