// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate_impl.h"

#include "plant/plant_impl.h"
#include "preflight/certificate.h"

#include <math.h>
#include <stdlib.h>

typedef struct return_work {
    pf_calibration *c;
    int *task_of; // per use
} return_work;

static pf_status roll_task(pf_calibration *c, pf_worker *w, int task, pf_roll *roll, double *out,
                           pf_error *error)
{
    roll->gains = w->gains;
    roll->rows = c->plan->tasks[task].rows;
    pf_trace trace = {.output = out};
    return pf_plant_roll(w->plant, roll, &trace, error);
}

// One member of one use.
typedef struct member_run {
    int task, mechanism, member;
    double energy; // of what the task moves
    double *nte;   // per share
} member_run;

static double tracking_error(const pf_calibration *c, const member_run *run, const double *response,
                             const double *reference)
{
    return fmin(pf_tracking_distance(c->plan->tasks[run->task].rows, c->plan->n_chan,
                                     c->build.return_scale, response, reference) /
                    run->energy,
                1e6);
}

// A twin: the disturbed task at every share against the undisturbed reference in w->predicted.
static pf_status plant_errors(pf_calibration *c, pf_worker *w, const member_run *run, pf_roll *roll,
                              pf_error *error)
{
    pf_status status = PF_OK;
    for (int s = 0; s < PF_SHARES && status == PF_OK; s++) {
        w->gains[run->mechanism] = c->build.shares[s];
        status = roll_task(c, w, run->task, roll, w->response, error);
        run->nte[s] = tracking_error(c, run, w->response, w->predicted);
    }
    return status;
}

// A model: what one of its members expects at every share against the nominal response as it was
// recorded with its disturbance, as the paper defines the predicted return. Error, disagreement and
// disturbance show in the mean and the spread of the table; where one member errs against the loss
// it predicts too well, which the others do not repeat.
static pf_status model_errors(pf_calibration *c, pf_worker *w, const member_run *run, pf_roll *roll,
                              pf_error *error)
{
    const pf_plan_task *t = &c->plan->tasks[run->task];
    int n_mech = c->plan->n_mech;
    roll->gains = w->gains;
    pf_trace trace = {.initial = w->start, .output = w->response};
    pf_status status = pf_plant_roll(w->plant, roll, &trace, error);
    if (status == PF_OK) {
        status = pf_initial_check(pf_plant_get_info(w->plant), w->start, error);
    }
    for (int i = 0; i < PF_SHARES * n_mech; i++) {
        w->table_gains[i] = i % n_mech == run->mechanism ? c->build.shares[i / n_mech] : 1;
    }
    pf_model_request request = {w->start, t->command, t->rows, PF_SHARES, w->table_gains};
    int member = run->member % pf_model_get_info(c->model)->n_members;
    if (status == PF_OK) {
        status = pf_model_roll(c->model, member, &request, w->table_scratch, w->table, error);
    }
    size_t window = (size_t)t->rows * (size_t)c->plan->n_chan;
    for (size_t s = 0; s < PF_SHARES && status == PF_OK; s++) {
        run->nte[s] = tracking_error(c, run, w->table + s * window, w->response);
    }
    return status;
}

// A closed loop whose plant has a return of its own: what its twin foresees at every share, for one
// start and one draw of the disturbance, told as the error that stands for it.
static pf_status own_errors(pf_calibration *c, pf_worker *w, int policy, int mechanism, pf_key key,
                            double *nte, pf_error *error)
{
    const pf_plant_info *info = pf_plant_get_info(w->plant);
    size_t mech = (size_t)info->n_mech, draws = (size_t)info->draws;
    double *returns = malloc((draws + 1 + mech) * PF_SHARES * sizeof *returns);
    if (!returns) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for the return table");
    }
    double *beyond = returns + draws * PF_SHARES, *gains = beyond + PF_SHARES;
    for (size_t i = 0; i < PF_SHARES * mech; i++) {
        gains[i] = i % mech == (size_t)mechanism ? c->build.shares[i / mech] : 1;
    }
    pf_roll reset = pf_roll_default();
    reset.key = key;
    pf_status status = pf_plant_roll(w->plant, &reset, &(pf_trace){.start = w->start}, error);
    pf_forecast f = {.key = key,
                     .start = w->start,
                     .policy = policy,
                     .correction = w->gains,
                     .n = PF_SHARES,
                     .gains = gains};
    for (int i = 0; i < info->n_mech; i++) {
        w->gains[i] = 1;
    }
    if (status == PF_OK) {
        status = pf_plant_forecast(w->plant, &f, returns, beyond, error);
    }
    for (int s = 0; s < PF_SHARES && status == PF_OK; s++) {
        nte[s] = -log(fmax(returns[s], exp(-10)));
    }
    free(returns);
    return status;
}

// One member of one use: the normalised tracking error at every delivered share. The member's
// start and disturbance are common to all tasks.
static pf_status run_member(void *self, int worker, size_t item, pf_error *error)
{
    return_work *work = self;
    pf_calibration *c = work->c;
    const pf_plan *plan = c->plan;
    pf_worker *w = &c->workers[worker];
    size_t members = (size_t)c->build.kit.n_members;
    size_t member = item % members, use = item / members;
    int task = work->task_of[use], j = c->build.use_mech[use];
    const pf_plan_task *t = &plan->tasks[task];
    for (int i = 0; i < plan->n_mech; i++) {
        w->gains[i] = 1;
    }
    pf_roll roll = pf_roll_default();
    roll.key = pf_key_stream(plan->seed, plan->environment, member, PF_PURPOSE_MEMBER, 0);
    if (t->policy_index >= 0 && pf_plant_get_info(w->plant)->n_metrics > 0) {
        return own_errors(c, w, t->policy_index, j, roll.key, c->build.nte + item * PF_SHARES,
                          error);
    }
    roll.command = w->still;
    pf_status status = roll_task(c, w, task, &roll, w->nominal, error);
    roll.command = t->command;
    roll.policy = t->policy_index;
    if (status == PF_OK) {
        status = roll_task(c, w, task, &roll, w->predicted, error);
    }
    if (status != PF_OK) {
        return status;
    }
    double energy = pf_tracking_distance(t->rows, plan->n_chan, c->build.return_scale, w->predicted,
                                         w->nominal);
    if (!(energy > 0)) {
        return pf_fail(error, PF_ERR_DEGENERATE, "task '%s' moves no channel", t->name);
    }
    roll.disturbance = true;
    member_run run = {task, j, (int)member, energy, c->build.nte + item * PF_SHARES};
    return c->model ? model_errors(c, w, &run, &roll, error)
                    : plant_errors(c, w, &run, &roll, error);
}

// Whether the errors of a use stand still to the bit from share 1 on but not before it: the plant
// clamped the gain. A plant that saturates stands still earlier.
static bool stops_at_one(const pf_calibration *c, size_t use)
{
    const double *shares = c->build.shares;
    int one = 1;
    while (one < PF_SHARES - 1 && shares[one] < 1) {
        one++;
    }
    bool moved = false;
    int members = c->build.kit.n_members;
    for (int member = 0; member < members; member++) {
        const double *nte = c->build.nte + (use * (size_t)members + (size_t)member) * PF_SHARES;
        moved = moved || nte[one - 1] != nte[one];
        for (int s = one + 1; s < PF_SHARES; s++) {
            if (nte[s] != nte[one]) {
                return false;
            }
        }
    }
    return moved;
}

// Shares above 1 stand for a correction that sends too much; a table that is flat there would call
// that harmless. Only somebody else's simulator can get it wrong: native plants saturate where they
// say so, and a return of the plant's own may well be one-sided. A task at the limits of its
// mechanism, to the single precision in which environments give them, cannot ask for more.
static pf_status check_shares(const return_work *work, pf_error *error)
{
    const pf_calibration *c = work->c;
    const double most = 1e6; // a correction that only the limits hold back
    const double more = 1 + 1e-6;
    const pf_plant *plant = c->workers[0].plant;
    if (plant->ops->native || plant->info.n_metrics > 0) {
        return PF_OK;
    }
    for (int use = 0; use < c->build.kit.n_uses; use++) {
        int task = work->task_of[use], j = c->build.use_mech[use];
        bool reachable = pf_kit_delivered_share(&c->build.kit, task, j, most, 1) > more;
        if (reachable && stops_at_one(c, (size_t)use)) {
            return pf_fail(error, PF_ERR_PLANT,
                           "task '%s', mechanism '%s': a gain above 1 does what 1 does; the plant "
                           "must honour `gains` above 1, or say the limits that it clips at",
                           c->plan->tasks[task].name, c->plan->mechanisms[j].name);
        }
    }
    return PF_OK;
}

pf_status pf__calibrate_returns(pf_calibration *c, pf_error *error)
{
    const pf_plan *plan = c->plan;
    size_t uses = (size_t)c->build.kit.n_uses;
    return_work work = {c, pf_arena_take(&c->arena, uses, sizeof(int))};
    if (!work.task_of) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for the return table");
    }
    const pf_plant_info *info = pf_plant_get_info(c->workers[0].plant);
    for (int t = 0, use = 0; t < plan->n_tasks; t++) {
        int policy = plan->tasks[t].policy_index;
        // a table over the delivered share cannot hold what the limits take of a corrected loop
        if (policy >= 0 && info->policies[policy].norm > 0) {
            return pf_fail(error, PF_ERR_UNSUPPORTED,
                           "task '%s': the scored loop '%s' is for `bench`; a kit for use needs an "
                           "open-loop task",
                           plan->tasks[t].name, plan->tasks[t].policy);
        }
        for (int u = 0; u < plan->tasks[t].n_uses; u++) {
            work.task_of[use++] = t;
        }
    }
    size_t items = uses * (size_t)c->build.kit.n_members;
    pf_status status =
        pf_parallel(c->effort, c->n_workers, items, run_member, &work, "returns", error);
    status = status ? status : pf__calibrate_reach(c, work.task_of, error);
    return status == PF_OK && !c->model ? check_shares(&work, error) : status;
}
