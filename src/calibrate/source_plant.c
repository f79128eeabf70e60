// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "fit.h"
#include "model/rollout.h"
#include "core/score.h"
#include "source.h"

#include <math.h>
#include <string.h>

// A plant as the source of a calibration, with a twin or a learned model that predicts.

// --- workers

int pf__plan_most_rows(const pf_plan *plan)
{
    int rows = 1;
    for (int q = 0; q < plan->n_probes; q++) {
        rows = plan->probes[q].rows > rows ? plan->probes[q].rows : rows;
    }
    for (int t = 0; t < plan->n_tasks; t++) {
        rows = plan->tasks[t].rows > rows ? plan->tasks[t].rows : rows;
    }
    return rows;
}

// A twin, or the model with room for the return table.
static pf_status make_predictor(pf_plant_source *c, pf_worker *w, size_t window, pf_error *error)
{
    const pf_kit *k = &c->build.kit;
    pf_status status = pf_predictor_create(&w->predictor, k, w->plant, c->model, error);
    if (status != PF_OK || !c->model) {
        return status;
    }
    size_t d = sizeof(double);
    w->table = pf__arena_take(&c->arena, PF_RETURN_SHARES * window, d);
    w->table_gains = pf__arena_take(&c->arena, PF_RETURN_SHARES * (size_t)k->n_mech, d);
    w->table_scratch = pf__arena_take(&c->arena, pf__model_scratch(c->model, PF_RETURN_SHARES), d);
    return PF_OK;
}

static pf_status make_workers(pf_plant_source *c, pf_plant *plant, pf_error *error)
{
    const pf_plan *plan = c->plan;
    size_t rows = (size_t)pf__plan_most_rows(plan), window = rows * (size_t)plan->n_chan,
           d = sizeof(double);
    int targets = pf__kit_most_targets(&c->build.kit);
    int start = plan->n_state > c->build.kit.n_state ? plan->n_state : c->build.kit.n_state;
    c->n_workers = pf__threads(c->effort);
    c->workers = pf__arena_take(&c->arena, (size_t)c->n_workers, sizeof *c->workers);
    for (int i = 0; c->workers && i < c->n_workers; i++) {
        pf_worker *w = &c->workers[i];
        w->start = pf__arena_take(&c->arena, (size_t)start + 1, d);
        w->response = pf__arena_take(&c->arena, window, d);
        w->nominal = pf__arena_take(&c->arena, window, d);
        w->predicted = pf__arena_take(&c->arena, window, d);
        w->signatures = pf__arena_take(&c->arena, window * (size_t)targets, d);
        w->scratch = pf__arena_take(&c->arena, pf__match_scratch(targets), d);
        w->gains = pf__arena_take(&c->arena, (size_t)plan->n_mech, d);
        w->matches = pf__arena_take(&c->arena, (size_t)targets, sizeof *w->matches);
        w->still = pf__arena_take(&c->arena, rows * (size_t)plan->n_mech, d);
        if (c->arena.failed) {
            break;
        }
        // the first one is the caller's own: a process takes seconds to start
        w->plant = i == 0 ? plant : NULL;
        pf_status status = i == 0 ? PF_OK : pf_plant_clone(plant, &w->plant, error);
        w->rig = (pf_rig){
            .plant = w->plant, .kit = &c->build.kit, .start = w->start, .response = w->response};
        if (status == PF_OK) {
            status = make_predictor(c, w, window, error);
        }
        if (status != PF_OK) {
            return status;
        }
    }
    return c->arena.failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory for calibration") : PF_OK;
}

void pf__plant_free(pf_plant_source *c)
{
    for (int i = 0; c->workers && i < c->n_workers; i++) {
        pf_plant_destroy(i == 0 ? NULL : c->workers[i].plant);
        pf_predictor_destroy(&c->workers[i].predictor);
    }
    pf__arena_free(&c->arena);
    pf__kit_build_free(&c->build);
}

pf_status pf__plant_open(pf_plant_source *c, pf_plant *plant, const pf_kit_kind *kind,
                         pf_error *error)
{
    pf_status status = pf__kit_build_init(&c->build, c->plan, kind, error);
    return status == PF_OK ? make_workers(c, plant, error) : status;
}

// Error curves of each use: enough for a quantile at alpha .1.
enum { CURVES = 60 };

bool pf__plant_anchored(const pf_plant_source *c)
{
    return !c->model || c->plan->settings.certificate == PF_CERTIFICATE_ANCHORED;
}

pf_kit_kind pf__plant_kind(const pf_plant_source *c, const pf_plant_info *info,
                           pf_statistic statistic)
{
    const pf_plan *plan = c->plan;
    pf_kit_kind kind = {.predictor = "twin",
                        .source = info->source,
                        .statistic = statistic,
                        .n_state = plan->n_state,
                        .n_scale = 1,
                        .n_members = plan->settings.members,
                        .losses = info->losses,
                        .weighted = pf__plant_weighted(c, statistic),
                        .curves = plan->settings.every_severity && plan->settings.severity_curve &&
                                  statistic == PF_STATISTIC_MATCHED};
    if (plan->settings.field && statistic == PF_STATISTIC_MATCHED &&
        plan->settings.posterior == PF_POSTERIOR_JOINT) {
        kind.n_knots = PF_LOOK_KNOTS;
        kind.knots = pf__look_knots;
    }
    kind.rehearse = plan->settings.field && plan->settings.rehearse != PF_REHEARSE_NONE;
    for (int q = 0; pf__plant_residual(c) && q < plan->n_probes; q++) {
        int rows = plan->probes[q].rows;
        kind.n_scale = rows > kind.n_scale ? rows : kind.n_scale;
    }
    if (c->model) {
        const pf_model_info *model = pf_model_get_info(c->model);
        kind.predictor = "ensemble";
        kind.model = model->sha256;
        kind.processor = pf__numeric_library();
        kind.n_state = model->history * plan->n_chan;
        // many curves, or every member of the model equally often
        int n = model->n_members, most = plan->settings.members;
        kind.n_members = !pf__plant_anchored(c) ? (most + n - 1) / n * n
                         : most > CURVES        ? most
                                                : CURVES;
    }
    return kind;
}

// --- episodes

pf_status pf__plant_run(pf_plant_source *c, int worker, int probe, const double *gains, pf_key key,
                        pf_error *error)
{
    c->workers[worker].rig.gains = gains;
    return pf_rig_run(&c->workers[worker].rig, probe, key, error);
}

static int n_classes(const void *self, int probe)
{
    const pf_plant_source *c = self;
    return 1 + c->plan->probes[probe].n_targets * (c->plan->settings.every_severity ? 2 : 1);
}

static size_t slot(const pf_plant_source *c, int probe, int class, int episode)
{
    size_t targets = (size_t)c->plan->probes[probe].n_targets;
    return c->first[probe] +
           ((size_t) class * (size_t)c->plan->settings.episodes + (size_t)episode) * targets;
}

// What was computed ahead, or else what the worker's own predictor says.
static pf_status predict_ahead(void *self, const pf_hypothesis *h, const double *start, int n_start,
                               double *response, pf_error *error)
{
    const pf_worker *w = self;
    const double *known = pf__ahead_next(w->ahead, h);
    if (!known) {
        return w->predictor.predict(w->predictor.self, h, start, n_start, response, error);
    }
    size_t rows = (size_t)pf_kit_probe_rows(w->rig.kit, h->probe);
    memcpy(response, known, rows * (size_t)pf_kit_get_info(w->rig.kit).n_chan * sizeof *known);
    return PF_OK;
}

pf__evidence pf__worker_evidence(const pf_plant_source *c, int worker, int probe)
{
    const pf_worker *w = &c->workers[worker];
    pf__evidence e = {.predictor = w->ahead
                                       ? (pf_predictor){(void *)(uintptr_t)w, predict_ahead, NULL}
                                       : w->predictor,
                      .start = w->start,
                      .n_start = c->build.kit.n_state,
                      .nominal = w->nominal,
                      .predicted = w->predicted,
                      .residual = w->response,
                      .signatures = w->signatures,
                      .scratch = w->scratch};
    pf__evidence_set(&e, &c->build.kit, probe);
    return e;
}

pf_status pf__plant_run_nominal(pf_plant_source *c, int worker, int probe, pf_key key,
                                pf_error *error)
{
    pf__evidence e = pf__worker_evidence(c, worker, probe);
    pf_status status = pf__plant_run(c, worker, probe, NULL, key, error);
    return status == PF_OK ? pf__evidence_predict(&e, 0, 1, e.nominal, error) : status;
}

// What the response of a worker says about the targets of a probe.
static pf_status match_episode(pf_plant_source *c, int worker, int probe, size_t at,
                               pf_error *error)
{
    pf__evidence e = pf__worker_evidence(c, worker, probe);
    pf_match *out = c->matches + at;
    pf_status status = pf__evidence_signatures(&e, error);
    if (status != PF_OK) {
        return pf__name_failure(pf_plant_get_info(c->workers[worker].plant), "prediction of probe",
                                c->plan->probes[probe].name, NULL, status, error);
    }
    pf__evidence_residual(&e, e.residual);
    pf__evidence_match(&e, out);
    if (e.norm) {
        out[0].score = pf__residual_norm(e.rows * e.n_chan, e.residual);
    }
    if (e.whiten) {
        c->plain[at] = out[0].off;
        pf__evidence_whiten(&e);
        pf__evidence_match(&e, out);
    }
    return PF_OK;
}

// The gains of an episode of a class.
static void set_gains(const pf_plan *plan, int probe, int class, int episode, double *gains)
{
    const pf_plan_probe *p = &plan->probes[probe];
    for (int j = 0; j < plan->n_mech; j++) {
        gains[j] = 1;
    }
    if (class > 0) {
        gains[p->targets[(class - 1) % p->n_targets]] =
            class > p->n_targets ? pf__severities[episode % PF_SEVERITIES] : plan->settings.g_cal;
    }
}

enum { EPISODES_IN_STEP = 16 };

// Items of a class.
static size_t groups(const pf_plant_source *c)
{
    return ((size_t)c->plan->settings.episodes + (size_t)c->in_step - 1) / (size_t)c->in_step;
}

// The probe and class of an item, and its first episode; how many it has.
static int find_episodes(const pf_plant_source *c, size_t item, int *probe, int *class,
                         int *episode)
{
    *class = (int)(item / groups(c));
    *episode = (int)(item % groups(c)) * c->in_step;
    *probe = 0;
    while (*class >= n_classes(c, *probe)) {
        *class -= n_classes(c, (*probe)++);
    }
    int left = c->plan->settings.episodes - *episode;
    return left < c->in_step ? left : c->in_step;
}

static pf_key episode_key(const pf_plan *plan, int probe, int class, int episode)
{
    int stream = class > plan->probes[probe].n_targets ? 2 : class > 0;
    return pf_key_stream(plan->settings.seed, plan->environment, (uint64_t)episode,
                         PF_PURPOSE_CALIBRATION, (uint64_t)stream);
}

// One episode: the physical response, the predictions from its saved start, the matches.
static pf_status run_episode(pf_plant_source *c, int worker, int probe, int class, int episode,
                             pf_error *error)
{
    pf_worker *w = &c->workers[worker];
    set_gains(c->plan, probe, class, episode, w->gains);
    pf_key key = episode_key(c->plan, probe, class, episode);
    pf_status status = pf__plant_run(c, worker, probe, w->gains, key, error);
    return status == PF_OK ? match_episode(c, worker, probe, slot(c, probe, class, episode), error)
                           : status;
}

// The same of some episodes of a class in step.
static pf_status run_in_step(pf_plant_source *c, int worker, int probe, int class, int first, int n,
                             pf_error *error)
{
    pf_worker *w = &c->workers[worker];
    double gains[PF_ROLLS][PF_MECH_MAX];
    pf_probed probed[PF_ROLLS];
    pf_looks looks;
    pf_status status = pf__looks_init(&looks, &c->build.kit, error);
    for (int i = 0; i < n; i++) {
        set_gains(c->plan, probe, class, first + i, gains[i]);
        probed[i] = (pf_probed){gains[i], probe, episode_key(c->plan, probe, class, first + i)};
    }
    status = status ? status : pf__looks_run(&looks, w->plant, &w->predictor, n, probed, error);
    for (int i = 0; i < n && status == PF_OK; i++) {
        size_t rows = (size_t)c->plan->probes[probe].rows, d = sizeof(double);
        pf_ahead ahead = pf__looks_ahead(&looks, i);
        memcpy(w->start, ahead.start, (size_t)c->plan->n_state * d);
        memcpy(w->response, ahead.response, rows * (size_t)c->plan->n_chan * d);
        w->ahead = &ahead;
        status = match_episode(c, worker, probe, slot(c, probe, class, first + i), error);
        w->ahead = NULL;
    }
    pf__looks_free(&looks);
    return status;
}

static pf_status run_episodes_of(void *self, int worker, size_t item, pf_error *error)
{
    pf_plant_source *c = self;
    int probe, class, episode, n = find_episodes(c, item, &probe, &class, &episode);
    return c->in_step > 1 ? run_in_step(c, worker, probe, class, episode, n, error)
                          : run_episode(c, worker, probe, class, episode, error);
}

static int episode_slots(void *self, size_t item, pf_slot *slots)
{
    pf_plant_source *c = self;
    int probe, class, episode, some = find_episodes(c, item, &probe, &class, &episode);
    size_t at = slot(c, probe, class, episode);
    size_t n = (size_t)some * (size_t)c->plan->probes[probe].n_targets;
    slots[0] = (pf_slot){.data = c->matches + at, .size = n * sizeof *c->matches, .loose = true};
    if (c->plain) {
        slots[1] = (pf_slot){.data = c->plain + at, .size = n * sizeof *c->plain};
    }
    return c->plain ? 2 : 1;
}

// The first episodes tell how long the whole calibration takes.
static void say_time(void *self, size_t first, size_t n, double seconds)
{
    const pf_plant_source *c = self;
    double rows = 0;
    for (size_t i = first; i < first + n; i++) {
        int probe, class, episode, some = find_episodes(c, i, &probe, &class, &episode);
        rows += some * pf__look_rows(c->plan, probe);
    }
    pf__plant_estimate(c, seconds / rows);
}

static pf_status run_episodes(pf_plant_source *c, pf_error *error)
{
    const pf_plan *plan = c->plan;
    size_t units = 0, slots = 0;
    bool in_step = !c->model && pf__predicts_many(&c->workers[0].predictor);
    c->in_step = in_step ? EPISODES_IN_STEP : 1;
    c->first = pf__arena_take(&c->arena, (size_t)plan->n_probes, sizeof *c->first);
    for (int q = 0; q < plan->n_probes && c->first; q++) {
        c->first[q] = slots;
        units += (size_t)n_classes(c, q);
        slots = slot(c, q, n_classes(c, q), 0);
    }
    c->matches = pf__arena_take(&c->arena, slots, sizeof *c->matches);
    if (c->build.kit.n_whiten > 0) {
        c->plain = pf__arena_take(&c->arena, slots, sizeof *c->plain);
    }
    if (c->arena.failed) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for %d episodes per class",
                       plan->settings.episodes);
    }
    pf_timing timing = {.effort = c->effort, .self = c, .say = say_time};
    pf_effort effort = pf__timed(&timing);
    return pf__parallel_kept(&effort, c->n_workers, units * groups(c), run_episodes_of,
                             episode_slots, c, "episodes", error);
}

// --- the source

static pf_status read_plant(void *self, pf_error *error)
{
    pf_plant_source *c = self;
    pf_status status = pf__plant_scales(c, error);
    if (status == PF_OK) {
        status = pf__plant_weights(c, error);
    }
    return status == PF_OK ? run_episodes(c, error) : status;
}

static pf_samples class_samples(const void *self, int probe, int class)
{
    const pf_plant_source *c = self;
    return (pf_samples){.n = c->plan->settings.episodes,
                        .stride = c->plan->probes[probe].n_targets,
                        .match = c->matches + slot(c, probe, class, 0)};
}

static double plain_off(const void *self, int probe)
{
    const pf_plant_source *c = self;
    double largest = 0;
    for (size_t i = slot(c, probe, 0, 0); i < slot(c, probe, n_classes(c, probe), 0); i++) {
        largest = fmax(largest, c->plain[i]);
    }
    return largest;
}

// The severities, and 0 at gain 1.
static int curve_points(const void *self, int probe, int target, pf_samples *out)
{
    const pf_plant_source *c = self;
    int n_targets = c->plan->probes[probe].n_targets;
    pf_samples all = class_samples(self, probe, 1 + n_targets + target);
    for (int s = 0; s < PF_SEVERITIES; s++) {
        out[s] = (pf_samples){.gain = pf__severities[s],
                              .n = (all.n + PF_SEVERITIES - 1 - s) / PF_SEVERITIES,
                              .stride = PF_SEVERITIES * n_targets,
                              .match = all.match + s * n_targets};
    }
    out[PF_SEVERITIES] = (pf_samples){.gain = 1};
    return PF_SEVERITIES + 1;
}

static pf_status plant_returns(void *self, pf_error *error)
{
    return pf__plant_returns(self, error);
}

static pf_machine machine(void *self, int worker, int mechanism, double gain,
                          const pf_predictor **predictor)
{
    pf_plant_source *c = self;
    pf_worker *w = &c->workers[worker];
    for (int j = 0; j < c->plan->n_mech; j++) {
        w->gains[j] = j == mechanism && j > 0 ? gain : 1;
    }
    w->rig.gains = mechanism > 0 ? w->gains : NULL;
    *predictor = &w->predictor;
    return pf_rig_machine(&w->rig);
}

// A plant with returns of its own measures its loops itself: there is nothing to compare. A model
// predicts commands only.
static bool can_rehearse(const void *self, int task)
{
    const pf_plant_source *c = self;
    bool policy = c->plan->tasks[task].policy_index >= 0;
    return !policy || (!c->model && pf_plant_get_info(c->workers[0].plant)->n_metrics == 0);
}

pf_source pf__plant_source(pf_plant_source *c)
{
    return (pf_source){
        .self = c,
        .plan = c->plan,
        .build = &c->build,
        .effort = c->effort,
        .n_workers = c->n_workers,
        .centre = pf__fit_median,
        .no_effect = "the model predicts no effect of a loss",
        .no_noise = "nominal responses equal the prediction to the last bit: there is no noise to "
                    "calibrate against; set sensor_noise (for example .25)",
        .stronger = c->model ? "a better model, or a stronger or longer probe"
                             : "a stronger or longer probe",
        .read = read_plant,
        .classes = n_classes,
        .class_samples = class_samples,
        .most_samples = c->plan->settings.episodes,
        .points = curve_points,
        .most_points = PF_SEVERITIES + 1,
        .plain_off = c->build.kit.n_whiten > 0 ? plain_off : NULL,
        .returns = plant_returns,
        .machine = machine,
        .can_rehearse = can_rehearse,
        .groups = true,
    };
}
