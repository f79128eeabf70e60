// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate_impl.h"
#include "fit.h"

#include <math.h>

typedef struct alarm_work {
    pf_calibration *c;
    pf_kit kit; // the kit as calibrated so far, without alarm and without an early end
    double *maxima;
} alarm_work;

// Opportunities before a reveal drawn by the plan's law.
static int draw_opportunities(const pf_plan *plan, uint64_t trial)
{
    if (plan->reveal_period == 0) {
        return plan->budget1;
    }
    pf_rng rng;
    pf_rng_init(&rng, pf_key_derive(pf_key_stream(plan->seed, plan->environment, trial,
                                                  PF_PURPOSE_THRESHOLD, 0),
                                    PF_PURPOSE_LAW));
    int span = plan->reveal_last - plan->reveal_first + 1;
    int reveal = plan->reveal_first + (int)pf_rng_below(&rng, (uint32_t)span);
    return (reveal - 1) / plan->reveal_period;
}

// One nominal trial with the method's own acquisition over the whole stage-1 budget.
static pf_status run_trial(void *self, int worker, size_t trial, pf_error *error)
{
    alarm_work *work = self;
    pf_calibration *c = work->c;
    pf_worker *w = &c->workers[worker];
    pf_session_config config = pf_session_config_default();
    config.seed = pf_key_stream(c->plan->seed, c->plan->environment, trial, PF_PURPOSE_METHOD, 0);
    pf_session *session = NULL;
    pf_status status =
        pf_session_init(&session, &work->kit, &config, w->session_memory, w->session_bytes, error);
    if (status != PF_OK) {
        return status;
    }
    pf_rig rig = {.plant = w->plant,
                  .kit = &work->kit,
                  .start = w->start,
                  .response = w->response,
                  .sensed_start = c->plan->sensed_start,
                  .predictor = &w->predictor};
    pf_drive drive = {.seed = c->plan->seed,
                      .trial = trial,
                      .purpose = PF_PURPOSE_THRESHOLD,
                      .only_stage1 = true,
                      .most = draw_opportunities(c->plan, trial)};
    status = pf_drive_session(session, &rig, &drive, error);
    work->maxima[trial] = pf_session_peak(session);
    return status;
}

pf_status pf__calibrate_alarm(pf_calibration *c, pf_error *error)
{
    const pf_plan *plan = c->plan;
    alarm_work work = {.c = c, .kit = c->build.kit};
    work.kit.require_probe = 0;
    work.kit.stop = PF_STOP_LATCH;
    size_t bytes = pf_session_size(&work.kit);
    if (bytes == 0) {
        return pf_kit_check(&work.kit, error);
    }
    work.maxima = pf_arena_take(&c->arena, (size_t)plan->alarm_trials, sizeof(double));
    for (int i = 0; i < c->n_workers; i++) {
        c->workers[i].session_memory = pf_arena_take(&c->arena, bytes, 1);
        c->workers[i].session_bytes = bytes;
    }
    if (c->arena.failed) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for the alarm trials");
    }
    pf_status status = pf_parallel(c->effort, c->n_workers, (size_t)plan->alarm_trials, run_trial,
                                   &work, "alarm trials", error);
    if (status == PF_OK) {
        c->build.threshold[0] =
            fmin(1, pf_fit_threshold(plan->alarm_trials, work.maxima, plan->alarm_rate));
    }
    return status;
}
