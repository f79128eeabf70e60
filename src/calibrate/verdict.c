// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "fit.h"
#include "source.h"

#include "core/certificate.h"
#include "core/constants.h"
#include "core/session_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// What the field's verdict needs beyond channels, returns and alarm: where the coordinates of a
// look lie at each gain (the joint posterior), and how badly a machine of the model may fit
// (misfit). Rehearsals are in rehearsals.c.

const double pf__look_knots[PF_LOOK_KNOTS] = {0, .2, .35, .5, .65, .8, .9, 1.25, 1.5};

enum { LEAST_LOOKS = 8 };

static int at_least(int n)
{
    return n > LEAST_LOOKS ? n : LEAST_LOOKS;
}

// With the defaults (60 episodes and 2000 alarm trials): 120 nominal looks per probe, 20 per knot
// and target, 300 residuals, 400 misfits, half of them of healthy machines, 400 sessions of each
// kind, 300 healthy rehearsals.
pf_counts pf__counts(const pf_plan *plan)
{
    int e = plan->settings.episodes;
    return (pf_counts){.nominal_looks = 2 * e,
                       .knot_looks = at_least(e / 3),
                       .residuals = 5 * e,
                       .misfits = 2 * (10 * e / 3),
                       .sessions = at_least(plan->settings.alarm_trials / 5),
                       .rehearsals = 5 * e};
}

// The classes of misfit sessions: healthy, gains from 0 to .3, gains from .3 to 1.2.
enum { SESSION_CLASSES = PF_SESSION_CLASSES };
static const double class_gains[SESSION_CLASSES][2] = {{1, 1}, {0, .3}, {.3, 1.2}};

// Streams of PF_PURPOSE_MISFIT. Trials of a class are this far apart, so that none is shared.
enum { STREAM_LOOKS = 0, STREAM_RESIDUALS = 64, STREAM_MISFITS = 65 };
static const uint64_t class_trials = UINT64_C(1) << 32;

// Memory of a worker.
typedef struct desk {
    pf__evidence evidence;
    pf_match *matches;
    pf__look look;
    double *z, *others;
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
    pf_rest *rests; // n_chan per episode: of its run
    pf_rest *rest;  // n_chan: of all runs
    double *column, *scratch;
    size_t session_bytes;
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
    }
    v->rest = pf__arena_take(&v->arena, (size_t)k->n_chan, sizeof *v->rest);
    return v->arena.failed ? no_memory(error) : PF_OK;
}

// Room for the results of n episodes; the part before this one is done with its own.
static pf_status make_room(verdict *v, int n, size_t stride, pf_error *error)
{
    free(v->values);
    free(v->column);
    free(v->rests);
    v->n_episodes = n;
    v->stride = stride;
    v->values = calloc((size_t)n * stride, sizeof(double));
    v->column = calloc(2 * (size_t)n, sizeof(double));
    v->rests = calloc((size_t)n * (size_t)v->build->kit.n_chan, sizeof *v->rests);
    v->scratch = v->column ? v->column + n : NULL;
    return v->values && v->column && v->rests ? PF_OK : no_memory(error);
}

static int slots_of(void *self, size_t item, pf_slot *slots)
{
    verdict *v = self;
    size_t n_chan = (size_t)v->build->kit.n_chan;
    slots[0] = (pf_slot){.data = v->values + item * v->stride, .size = v->stride * sizeof(double)};
    slots[1] = (pf_slot){.data = v->rests + item * n_chan, .size = n_chan * sizeof *v->rests};
    return 2;
}

// Runs the n episodes that there is room for.
static pf_status run_episodes(verdict *v, size_t n, pf_item_fn run, const char *what,
                              pf_error *error)
{
    size_t n_chan = (size_t)v->build->kit.n_chan;
    pf_status status = pf__parallel_kept(v->source->effort, v->source->n_workers, n, run, slots_of,
                                         v, what, error);
    for (size_t i = 0; i < n * n_chan && status == PF_OK; i++) {
        pf_rest *rest = &v->rest[i % n_chan];
        rest->still = v->rests[i].still > rest->still ? v->rests[i].still : rest->still;
        rest->before = fmax(rest->before, v->rests[i].before);
    }
    return status;
}

static void close_verdict(verdict *v)
{
    free(v->values);
    free(v->column);
    free(v->rests);
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

void pf__rest_note(const pf_kit *k, int rows, const pf_answer *answer, bool healthy, pf_rest *rest)
{
    for (int c = 0; c < k->n_chan; c++) {
        int now = pf__misfit_still(rows, k->n_chan, answer->response, c);
        rest[c].still = now > rest[c].still ? now : rest[c].still;
        if (k->n_before > 0 && healthy) {
            double moved = pf__misfit_moved(answer->n_start, k->n_chan, answer->start, c);
            rest[c].before = fmax(rest[c].before, moved);
        }
    }
}

void pf__rest_keep(pf_kit_build *build, const pf_rest *rest)
{
    for (int c = 0; build->kit.n_misfit > 0 && c < build->kit.n_chan; c++) {
        build->still[c] = fmax(build->still[c], rest[c].still);
    }
    for (int c = 0; c < build->kit.n_before; c++) {
        double known = build->before[c] < PF_UNBOUNDED ? build->before[c] : 0;
        build->before[c] = fmax(known, rest[c].before);
    }
}

// --- looks

// The probe at hand on a machine with one mechanism at a gain, for an episode: response, signatures
// and matches into the desk.
static pf_status look_at(verdict *v, int worker, size_t episode, int mechanism, double gain,
                         pf_key key, const double **response, pf_error *error)
{
    int probe = v->probe;
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
    pf__rest_note(k, pf_kit_probe_rows(k, probe), &answer, gain == 1,
                  v->rests + episode * (size_t)k->n_chan);
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
    int first = pf__counts(v->plan).nominal_looks, per = pf__counts(v->plan).knot_looks,
        mechanism = 0, knot = -1;
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
    pf_status status =
        look_at(v, worker, item, mechanism, knot < 0 ? 1 : k->knots[knot], key, &response, error);
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
    int first = pf__counts(v->plan).nominal_looks, per = pf__counts(v->plan).knot_looks;
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
        int n = pf__counts(v->plan).nominal_looks +
                targets * k->n_knots * pf__counts(v->plan).knot_looks;
        status = make_room(v, n, (size_t)targets, error);
        if (status == PF_OK) {
            status = run_episodes(v, (size_t)n, run_look, "looks", error);
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
    pf_status status = look_at(v, worker, item, 0, 1, key, &response, error);
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
    pf_status status = look_at(v, worker, item, mechanism, gain, key, &response, error);
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
        double mean = n > 0 ? pf__fit_mean(n, v->column, NULL) : 0;
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
        worst = n > 0 ? fmax(worst, pf__fit_rank(n, v->column, .99)) : worst;
    }
    return worst;
}

static pf_status calibrate_levels(verdict *v, pf_error *error)
{
    pf_kit *k = &v->build->kit;
    int n = pf__counts(v->plan).sessions;
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
        status = run_episodes(v, SESSION_CLASSES * (size_t)n, run_session, "sessions", error);
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
    pf_status status = PF_OK;
    pf__posterior_between(k, v->between);
    k->misfit_chan = k->misfit_shape = 1;
    k->misfit_level = PF_MISFIT_LEVEL_MOST; // no misfit until the levels are known
    for (v->probe = 0; v->probe < k->n_probes && status == PF_OK; v->probe++) {
        int n = pf__counts(v->plan).residuals, m = pf__counts(v->plan).misfits;
        size_t window = (size_t)pf_kit_probe_rows(k, v->probe) * (size_t)k->n_chan;
        status = make_room(v, n, window, error);
        if (status == PF_OK) {
            status = run_episodes(v, (size_t)n, run_residual, "residuals", error);
        }
        if (status == PF_OK) {
            fit_residuals(v);
            status = make_room(v, m, (size_t)k->n_chan, error);
        }
        if (status == PF_OK) {
            status = run_episodes(v, (size_t)m, run_misfit, "misfits", error);
        }
        if (status == PF_OK) {
            fit_misfits(v);
        }
    }
    pf__rest_keep(v->build, v->rest); // the levels' sessions know it
    return status == PF_OK ? calibrate_levels(v, error) : status;
}

// --- in the order of pf__calibrate

typedef pf_status (*part)(verdict *v, pf_error *error);

static pf_status run_part(pf_source *source, part run, pf_error *error)
{
    verdict v;
    pf_status status = open_verdict(&v, source, error);
    if (status == PF_OK) {
        status = run(&v, error);
        pf__rest_keep(v.build, v.rest);
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
