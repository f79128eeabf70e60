// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate_impl.h"

#include "preflight/certificate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// What the limits leave of a corrected closed loop. Its commands are not known, only what comes of
// them: a correction c of a mechanism with gain 1/c does nothing at all unless a limit is in its
// way. The largest one that still does nothing is the reach of the loop.

// Corrections in use are at most 1/.1 with the default grid.
static const double ladder[] = {1.25, 1.5, 1.75, 2, 2.5, 3, 4, 5, 7, 10};
enum { STEPS = sizeof ladder / sizeof ladder[0] };
static const double nothing = 1e-4; // of NTE: what rounding may do to a loop

// One use of a mechanism by a loop, from one start.
typedef struct loop {
    pf_calibration *c;
    pf_worker *w;
    int task, mechanism;
    pf_key key;
    double *healthy; // of a plant with returns of its own: 2 x draws, healthy and corrected
    double gains[PF_MECH_MAX], correction[PF_MECH_MAX];
} loop;

static void set(loop *l, double correction)
{
    for (int i = 0; i < l->c->plan->n_mech; i++) {
        l->gains[i] = l->correction[i] = 1;
    }
    l->gains[l->mechanism] = 1 / correction;
    l->correction[l->mechanism] = correction;
}

static pf_status fly_set(loop *l, double *out, pf_error *error)
{
    pf_roll roll = pf_roll_default();
    roll.key = l->key;
    roll.gains = l->gains;
    roll.correction = l->correction;
    roll.policy = l->c->plan->tasks[l->task].policy_index;
    roll.rows = l->c->plan->tasks[l->task].rows;
    roll.disturbance = true; // a loop works harder then; the same one in every flight
    return pf_plant_roll(l->w->plant, &roll, &(pf_trace){.output = out}, error);
}

static pf_status fly(loop *l, double correction, double *out, pf_error *error)
{
    set(l, correction);
    return fly_set(l, out, error);
}

// The response of an idle machine and of the healthy loop, what the former lacks.
static pf_status fly_nominal(loop *l, double *energy, pf_error *error)
{
    const pf_plan *plan = l->c->plan;
    int rows = plan->tasks[l->task].rows;
    pf_roll still = pf_roll_default();
    still.key = l->key;
    still.command = l->w->still;
    still.rows = rows;
    still.disturbance = true;
    pf_status status =
        pf_plant_roll(l->w->plant, &still, &(pf_trace){.output = l->w->nominal}, error);
    status = status ? status : fly(l, 1, l->w->predicted, error);
    *energy = status ? NAN
                     : pf_tracking_distance(rows, plan->n_chan, l->c->build.return_scale,
                                            l->w->predicted, l->w->nominal);
    return status;
}

// NTE that the correction costs, by the observed channels.
static pf_status lost(loop *l, double energy, double correction, double *nte, pf_error *error)
{
    const pf_plan *plan = l->c->plan;
    pf_status status = fly(l, correction, l->w->response, error);
    *nte = status
               ? NAN
               : pf_tracking_distance(plan->tasks[l->task].rows, plan->n_chan,
                                      l->c->build.return_scale, l->w->response, l->w->predicted) /
                     energy;
    return status;
}

// The returns of a plant that has its own, one per draw, from the start in w->start.
static pf_status foretell(loop *l, double correction, double *returns, pf_error *error)
{
    double unused;
    set(l, correction);
    pf_forecast f = {.key = l->key,
                     .start = l->w->start,
                     .policy = l->c->plan->tasks[l->task].policy_index,
                     .correction = l->correction,
                     .n = 1,
                     .gains = l->gains};
    return pf_plant_forecast(l->w->plant, &f, returns, &unused, error);
}

static pf_status foretell_nominal(loop *l, pf_error *error)
{
    pf_roll reset = pf_roll_default();
    reset.key = l->key;
    pf_status status = pf_plant_roll(l->w->plant, &reset, &(pf_trace){.start = l->w->start}, error);
    return status ? status : foretell(l, 1, l->healthy, error);
}

// NTE that the correction costs there, the worst over the draws.
static pf_status lost_return(loop *l, double correction, double *nte, pf_error *error)
{
    int draws = pf_plant_get_info(l->w->plant)->draws;
    double *returns = l->healthy + draws;
    pf_status status = foretell(l, correction, returns, error);
    *nte = status ? NAN : 0;
    for (int i = 0; i < draws && status == PF_OK; i++) {
        *nte = fmax(*nte, log(fmax(l->healthy[i], 1e-5) / fmax(returns[i], 1e-5)));
    }
    return status;
}

// A loop that does not even reach the first rung, whose flight is in w->response: is its correction
// heard at all? Without a limit in the way, correcting a weak mechanism must do something.
static pf_status check_heard(loop *l, pf_error *error)
{
    const pf_plan *plan = l->c->plan;
    size_t n = (size_t)plan->tasks[l->task].rows * (size_t)plan->n_chan;
    set(l, 1);
    l->gains[l->mechanism] = 1 / ladder[0];
    pf_status status = fly_set(l, l->w->nominal, error);
    if (status == PF_OK && memcmp(l->w->response, l->w->nominal, n * sizeof(double)) == 0 &&
        memcmp(l->w->response, l->w->predicted, n * sizeof(double)) != 0) {
        status =
            pf_fail(error, PF_ERR_PLANT,
                    "task '%s', mechanism '%s': a correction of %g does nothing; the plant must "
                    "multiply the commands of its loop by `correction`, one number per "
                    "mechanism, before their limits",
                    plan->tasks[l->task].name, plan->mechanisms[l->mechanism].name, ladder[0]);
    }
    return status;
}

// Up the ladder until something is lost; never further than from the starts before.
static pf_status climb(loop *l, double *reach, pf_error *error)
{
    bool own = l->healthy != NULL;
    double energy = 1, nte = 0, top = 1;
    pf_status status = own ? foretell_nominal(l, error) : fly_nominal(l, &energy, error);
    for (int i = 0; i < STEPS && ladder[i] <= *reach && status == PF_OK; i++) {
        status =
            own ? lost_return(l, ladder[i], &nte, error) : lost(l, energy, ladder[i], &nte, error);
        if (!(nte <= nothing)) {
            break;
        }
        top = ladder[i];
    }
    *reach = fmin(*reach, top);
    return status == PF_OK && !own && top == 1 ? check_heard(l, error) : status;
}

typedef struct reach_work {
    pf_calibration *c;
    const int *task_of;
} reach_work;

static pf_status one_use(void *self, int worker, size_t use, pf_error *error)
{
    const reach_work *work = self;
    pf_calibration *c = work->c;
    const pf_plan *plan = c->plan;
    loop l = {.c = c,
              .w = &c->workers[worker],
              .task = work->task_of[use],
              .mechanism = c->build.use_mech[use]};
    double *reach = &c->build.reach[use];
    pf_status status = PF_OK;
    *reach = ladder[STEPS - 1];
    if (plan->tasks[l.task].policy_index < 0 || l.mechanism == 0) {
        return PF_OK;
    }
    const pf_plant_info *info = pf_plant_get_info(l.w->plant);
    if (info->n_metrics > 0) {
        l.healthy = malloc(2 * (size_t)info->draws * sizeof *l.healthy);
        status = l.healthy ? PF_OK : pf_fail(error, PF_ERR_MEMORY, "out of memory for forecasts");
    }
    // at 1 no other start can take more
    for (int s = 0; s < c->build.kit.n_members && *reach != 1 && status == PF_OK; s++) {
        l.key = pf_key_stream(plan->seed, plan->environment, (uint64_t)s, PF_PURPOSE_MEMBER, 0);
        status = climb(&l, reach, error);
    }
    free(l.healthy);
    return status;
}

pf_status pf__calibrate_reach(pf_calibration *c, const int *task_of, pf_error *error)
{
    reach_work work = {c, task_of};
    return pf_parallel(c->effort, c->n_workers, (size_t)c->build.kit.n_reach, one_use, &work,
                       "limits", error);
}
