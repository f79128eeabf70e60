// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate_impl.h"
#include "whiten.h"

// Nominal runs of each probe behind its weight, with random streams of their own: the channel is
// calibrated on other episodes than the weight.
enum { WEIGHT_RUNS = 200, STREAM_WEIGHT = 1002 };

typedef struct weight_work {
    pf_calibration *c;
    size_t window;     // of the longest probe
    double *residuals; // runs x window of the probe at hand
    int probe;
} weight_work;

static pf_status run_nominal(void *self, int worker, size_t item, pf_error *error)
{
    weight_work *work = self;
    pf_calibration *c = work->c;
    const pf_plan *plan = c->plan;
    pf_worker *w = &c->workers[worker];
    pf_rig rig = {.plant = w->plant,
                  .kit = &c->build.kit,
                  .start = w->start,
                  .response = w->response,
                  .sensed_start = plan->sensed_start};
    pf_key key =
        pf_key_stream(plan->seed, plan->environment, item, PF_PURPOSE_CALIBRATION, STREAM_WEIGHT);
    pf__evidence seen = pf__worker_evidence(c, worker, work->probe);
    seen.residual = work->residuals + item * (size_t)(seen.rows * seen.n_chan);
    pf_status status = pf_rig_run(&rig, work->probe, key, error);
    if (status == PF_OK) {
        status = pf__evidence_predict(&seen, 0, 1, seen.nominal, error);
    }
    if (status == PF_OK) {
        pf__evidence_residual(&seen, w->response);
    }
    return status;
}

pf_status pf__calibrate_weighting(pf_calibration *c, pf_error *error)
{
    const pf_plan *plan = c->plan;
    weight_work work = {.c = c};
    if (plan->weighting == PF_WEIGHTING_NONE) {
        return PF_OK;
    }
    for (int q = 0; q < plan->n_probes; q++) {
        size_t n = (size_t)plan->probes[q].rows * (size_t)plan->n_chan;
        work.window = n > work.window ? n : work.window;
    }
    work.residuals = pf_arena_take(&c->arena, WEIGHT_RUNS * work.window, sizeof(double));
    double *scratch = pf_arena_take(&c->arena, work.window * work.window, sizeof(double));
    if (c->arena.failed) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for the weights of the probes");
    }
    double *factor = c->build.whiten;
    pf_status status = PF_OK;
    for (int q = 0; q < plan->n_probes && status == PF_OK; q++) {
        int n = plan->probes[q].rows * plan->n_chan;
        work.probe = q;
        status =
            pf_parallel(c->effort, c->n_workers, WEIGHT_RUNS, run_nominal, &work, "weights", error);
        if (status == PF_OK) {
            pf_fit_whiten(n, WEIGHT_RUNS, work.residuals, scratch, factor);
            factor += (size_t)n * (size_t)(n + 1) / 2;
        }
    }
    return status;
}
