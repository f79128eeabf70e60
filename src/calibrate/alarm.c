// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "fit.h"
#include "core/rng.h"
#include "source.h"

#include "core/method.h"

#include <math.h>
#include <string.h>

// The alarm threshold: nominal responses through real sessions, so that its rate holds whatever the
// channel assumes.

typedef struct work {
    const pf_alarm *alarm;
    int in_step;             // trials
    size_t *bytes;           // of a session, per method
    void **memory;           // workers x trials in step x methods
    pf_session **sessions;   // the same; NULL: not yet
    pf_alarm_trial **trials; // per worker: trials in step x methods
    double *peaks;           // methods x trials
} work;

// The session of one method in one trial, before its first question.
static pf_status begin_session(const work *w, int at, int method, uint64_t trial, pf_error *error)
{
    const pf_alarm *a = w->alarm;
    pf_session **session = &w->sessions[at];
    pf_rules rules =
        pf_kit_get_info(a->kits[method]).rules; // nothing ends stage 1 before its opportunities
    rules.field = false;
    rules.stop = PF_STOP_LATCH;
    pf_session_config config = {
        .method = a->methods[method],
        .seed = pf_key_stream(a->seed, a->environment, trial, PF_PURPOSE_METHOD, a->stream),
        .rules = &rules,
        .own = a->own ? a->own[method] : NULL};
    // only a method that draws its probes needs the trial's own seed
    pf_rule rule = *session ? pf_session_method(*session)->rule : PF_RULE_RANDOM;
    if (rule == PF_RULE_RANDOM || rule == PF_RULE_OWN) {
        return pf_session_init(session, a->kits[method], &config, w->memory[at], w->bytes[method],
                               error);
    }
    pf_session_reset(*session);
    return PF_OK;
}

// Stage 1 of every method in the trials of one item.
static pf_status run_item(void *self, int worker, size_t item, pf_error *error)
{
    const work *w = self;
    const pf_alarm *a = w->alarm;
    uint64_t first = item * (uint64_t)w->in_step;
    int places = w->in_step < a->trials - (int)first ? w->in_step : a->trials - (int)first, n = 0;
    pf_alarm_trial *trials = w->trials[worker];
    pf_status status = PF_OK;
    for (int p = 0; p < places; p++) {
        uint64_t trial = first + (uint64_t)p;
        if (a->begin) {
            a->begin(a->self, p, trial);
        }
        for (int i = 0; i < a->n_methods && status == PF_OK; i++, n++) {
            int at = (worker * w->in_step + p) * a->n_methods + i;
            status = begin_session(w, at, i, trial, error);
            trials[n] =
                (pf_alarm_trial){worker, i, trial, p, a->opportunities[trial], w->sessions[at]};
        }
    }
    status = status ? status : a->run_trials(a->self, n, trials, error);
    for (int i = 0; i < n && status == PF_OK; i++) {
        w->peaks[(size_t)trials[i].method * (size_t)a->trials + trials[i].trial] =
            pf_session_get_state(trials[i].session).peak;
    }
    for (int p = 0; p < places && a->end && status == PF_OK; p++) {
        a->end(a->self, p, first + (uint64_t)p);
    }
    return status;
}

// The peak of a trial. Only a job with one method and one trial at a time is ever kept.
static int slots_of(void *self, size_t trial, pf_slot *slots)
{
    const work *w = self;
    slots[0] = (pf_slot){.data = w->peaks + trial, .size = sizeof *w->peaks};
    return 1;
}

static pf_status make_room(work *w, pf_arena *arena, int n_workers, pf_error *error)
{
    const pf_alarm *a = w->alarm;
    size_t methods = (size_t)a->n_methods, some = methods * (size_t)w->in_step;
    size_t all = some * (size_t)n_workers;
    w->bytes = pf__arena_take(arena, methods, sizeof *w->bytes);
    w->memory = pf__arena_take(arena, all, sizeof *w->memory);
    w->sessions = pf__arena_take(arena, all, sizeof *w->sessions);
    w->trials = pf__arena_take(arena, (size_t)n_workers, sizeof *w->trials);
    for (int i = 0; !arena->failed && i < n_workers; i++) {
        w->trials[i] = pf__arena_take(arena, some, sizeof **w->trials);
    }
    w->peaks = pf__arena_take(arena, methods * (size_t)a->trials, sizeof *w->peaks);
    for (size_t i = 0; !arena->failed && i < methods; i++) {
        // a kit that is not valid is reported as such, not as a session of no size
        pf_status status = pf_kit_check(a->kits[i], error);
        if (status != PF_OK) {
            return status;
        }
        w->bytes[i] = pf_session_size(a->kits[i]);
    }
    for (size_t i = 0; !arena->failed && i < all; i++) {
        w->memory[i] = pf__arena_take(arena, w->bytes[i % methods], 1);
    }
    return arena->failed
               ? pf_fail(error, PF_ERR_MEMORY, "out of memory for %d alarm trials", a->trials)
               : PF_OK;
}

// The peaks of the methods that share a threshold, to the front; how many.
static int gather_shared(work *w)
{
    const pf_alarm *a = w->alarm;
    size_t n = 0, trials = (size_t)a->trials;
    for (int i = 0; i < a->n_methods; i++) {
        if (a->shared[i]) {
            memmove(w->peaks + n, w->peaks + (size_t)i * trials, trials * sizeof *w->peaks);
            n += trials;
        }
    }
    return (int)n;
}

pf_status pf__fit_alarm(const pf_alarm *a, const pf_effort *effort, int n_workers,
                        double *thresholds, pf_error *error)
{
    work w = {.alarm = a, .in_step = a->in_step > 0 ? a->in_step : 1};
    pf_arena arena = {0};
    size_t items = ((size_t)a->trials + (size_t)w.in_step - 1) / (size_t)w.in_step;
    n_workers = (size_t)n_workers < items ? n_workers : (int)items;
    pf_status status = make_room(&w, &arena, n_workers, error);
    if (status == PF_OK) {
        status = w.in_step > 1
                     ? pf__parallel(effort, n_workers, items, run_item, &w, "alarm trials", error)
                     : pf__parallel_kept(effort, n_workers, items, run_item, slots_of, &w,
                                         "alarm trials", error);
    }
    // one threshold for all: that which the trials of those who share it together keep
    int n = a->shared ? gather_shared(&w) : a->trials;
    for (int i = 0; i < a->n_methods && status == PF_OK; i++) {
        double *peaks = w.peaks + (a->shared ? 0 : (size_t)i * (size_t)a->trials);
        thresholds[i] = fmin(1, pf__fit_threshold(n, peaks, a->rate));
    }
    pf__arena_free(&arena);
    return status;
}

// Opportunities before a reveal drawn by the plan's law.
static int draw_opportunities(const pf_plan *plan, uint64_t trial)
{
    if (plan->reveal_period == 0) {
        return plan->settings.budget1;
    }
    pf_rng rng;
    pf_rng_init(&rng, pf__key_derive(pf_key_stream(plan->settings.seed, plan->environment, trial,
                                                   PF_PURPOSE_THRESHOLD, 0),
                                     PF_PURPOSE_LAW));
    int span = plan->reveal_last - plan->reveal_first + 1;
    int reveal = plan->reveal_first + (int)pf_rng_below(&rng, (uint32_t)span);
    return (reveal - 1) / plan->reveal_period;
}

// One trial of one method.
static pf_status drive_trial(void *self, int n, const pf_alarm_trial *t, pf_error *error)
{
    (void)n;
    const pf_source *source = self;
    const pf_predictor *predictor = NULL;
    pf_machine machine = source->machine(source->self, t->worker, 0, 1, &predictor);
    pf_drive drive = {.seed = source->plan->settings.seed,
                      .trial = t->trial,
                      .purpose = PF_PURPOSE_THRESHOLD,
                      .only_stage1 = true,
                      .most = t->most};
    return pf_drive_session(t->session, &machine, predictor, &drive, error);
}

pf_status pf__calibrate_alarm(pf_source *source, pf_error *error)
{
    const pf_plan *plan = source->plan;
    pf_arena arena = {0};
    int *opportunities = pf__arena_take(&arena, (size_t)plan->settings.alarm_trials, sizeof(int));
    if (!opportunities) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for %d alarm trials",
                       plan->settings.alarm_trials);
    }
    for (int i = 0; i < plan->settings.alarm_trials; i++) {
        opportunities[i] = draw_opportunities(plan, (uint64_t)i);
    }
    const pf_kit *kit = &source->build->kit;
    pf_alarm alarm = {.n_methods = 1,
                      .methods = &plan->method,
                      .kits = &kit,
                      .trials = plan->settings.alarm_trials,
                      .opportunities = opportunities,
                      .rate = plan->settings.alarm_rate,
                      .seed = plan->settings.seed,
                      .environment = plan->environment,
                      .self = source,
                      .run_trials = drive_trial};
    pf_status status =
        pf__fit_alarm(&alarm, source->effort, source->n_workers, source->build->threshold, error);
    pf__arena_free(&arena);
    return status;
}
