// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "source.h"
#include "model/rollout.h"

#include "plant/plant_impl.h"
#include "core/certificate.h"
#include "core/joint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct return_work {
    pf_plant_source *c;
    int *task_of; // per use
} return_work;

static pf_status roll_task(pf_plant_source *c, pf_worker *w, int task, pf_roll *roll, double *out,
                           pf_error *error)
{
    roll->gains = w->gains;
    roll->rows = c->plan->tasks[task].rows;
    pf_trace trace = {.output = out};
    return pf__name_failure(pf_plant_get_info(w->plant), "task", c->plan->tasks[task].name,
                            w->gains, pf_plant_roll(w->plant, roll, &trace, error), error);
}

// One member of one use.
typedef struct member_run {
    int task, mechanism, member;
    double energy; // of what the task moves
    double *nte;   // per share
} member_run;

static double tracking_error(const pf_plant_source *c, const member_run *run,
                             const double *response, const double *reference)
{
    return fmin(pf__tracking_distance(c->plan->tasks[run->task].rows, c->plan->n_chan,
                                      c->build.return_scale, response, reference) /
                    run->energy,
                1e6);
}

// The plant itself at every share of the command, disturbed, against the undisturbed reference in
// w->predicted: what a twin expects, or the error curves that anchor the certificate of a learned
// model. In a machine without a simulator these are runs with scaled commands.
static pf_status plant_errors(pf_plant_source *c, pf_worker *w, const member_run *run,
                              pf_roll *roll, pf_error *error)
{
    pf_status status = PF_OK;
    for (int s = 0; s < PF_RETURN_SHARES && status == PF_OK; s++) {
        w->gains[run->mechanism] = c->build.shares[s];
        status = roll_task(c, w, run->task, roll, w->response, error);
        run->nte[s] = tracking_error(c, run, w->response, w->predicted);
    }
    return status;
}

// The same over gain and correction, where a loss is one of force: the plant itself runs the
// corrected command.
static pf_status force_errors(pf_plant_source *c, pf_worker *w, const member_run *run,
                              pf_roll *roll, double *nte, pf_error *error)
{
    const pf_plan_task *t = &c->plan->tasks[run->task];
    const pf_mechanism *m = &c->plan->mechanisms[run->mechanism];
    size_t mech = (size_t)c->plan->n_mech, n = (size_t)t->rows * mech;
    double *command = malloc(n * sizeof *command);
    if (!command) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for the return table");
    }
    memcpy(command, t->command, n * sizeof *command);
    pf_status status = PF_OK;
    bool moves = false; // else it holds a load while the task runs, and no correction matters
    for (size_t at = (size_t)run->mechanism; at < n; at += mech) {
        moves = moves || t->command[at] != 0;
    }
    for (int i = 0; i < PF_FORCE_GAINS * PF_FORCE_CORRECTIONS && status == PF_OK; i++) {
        double correction = c->build.corrections[i % PF_FORCE_CORRECTIONS];
        if (!moves && i % PF_FORCE_CORRECTIONS > 0) {
            nte[i] = nte[i - 1];
            continue;
        }
        for (size_t at = (size_t)run->mechanism; at < n; at += mech) {
            command[at] = pf__corrected_command(t->command[at], correction, m->lo, m->hi);
        }
        w->gains[run->mechanism] = c->build.force_gains[i / PF_FORCE_CORRECTIONS];
        roll->command = command;
        status = roll_task(c, w, run->task, roll, w->response, error);
        nte[i] = tracking_error(c, run, w->response, w->predicted);
    }
    roll->command = t->command;
    free(command);
    return status;
}

// A model: what one of its members expects at every share against the nominal response as it was
// recorded with its disturbance, as the paper defines the predicted return. Error, disagreement and
// disturbance show in the mean and the spread of the table; where one member errs against the loss
// it predicts too well, which the others do not repeat.
static pf_status model_errors(pf_plant_source *c, pf_worker *w, const member_run *run,
                              pf_roll *roll, pf_error *error)
{
    const pf_plan_task *t = &c->plan->tasks[run->task];
    int n_mech = c->plan->n_mech;
    int readings = pf_model_get_info(c->model)->history;
    roll->gains = w->gains;
    pf_trace trace = {.initial = w->start, .output = w->response};
    pf_status status = pf_plant_roll(w->plant, roll, &trace, error);
    if (status == PF_OK) {
        status = pf__initial_check(pf_plant_get_info(w->plant), readings, w->start, error);
    }
    for (int i = 0; i < PF_RETURN_SHARES * n_mech; i++) {
        w->table_gains[i] = i % n_mech == run->mechanism ? c->build.shares[i / n_mech] : 1;
    }
    pf_model_request request = {w->start,         t->command,     t->rows,
                                PF_RETURN_SHARES, w->table_gains, NULL};
    int member = run->member % pf_model_get_info(c->model)->n_members;
    if (status == PF_OK) {
        status = pf__model_roll(c->model, member, &request, w->table_scratch, w->table, error);
    }
    size_t window = (size_t)t->rows * (size_t)c->plan->n_chan;
    for (size_t s = 0; s < PF_RETURN_SHARES && status == PF_OK; s++) {
        run->nte[s] = tracking_error(c, run, w->table + s * window, w->response);
    }
    return status;
}

// A closed loop whose plant has a return of its own: what its twin foresees at every share, for one
// start and one draw of the disturbance, told as the error that stands for it.
static pf_status own_errors(pf_plant_source *c, pf_worker *w, int policy, int mechanism, pf_key key,
                            double *nte, pf_error *error)
{
    const pf_plant_info *info = pf_plant_get_info(w->plant);
    size_t mech = (size_t)info->n_mech, draws = (size_t)info->draws;
    double *returns = malloc((draws + 1 + mech) * PF_RETURN_SHARES * sizeof *returns);
    if (!returns) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for the return table");
    }
    double *beyond = returns + draws * PF_RETURN_SHARES, *gains = beyond + PF_RETURN_SHARES;
    for (size_t i = 0; i < PF_RETURN_SHARES * mech; i++) {
        gains[i] = i % mech == (size_t)mechanism ? c->build.shares[i / mech] : 1;
    }
    pf_roll reset = pf_roll_default();
    reset.key = key;
    pf_status status = pf_plant_roll(w->plant, &reset, &(pf_trace){.start = w->start}, error);
    pf_forecast f = {.key = key,
                     .start = w->start,
                     .policy = policy,
                     .correction = w->gains,
                     .n = PF_RETURN_SHARES,
                     .gains = gains};
    for (int i = 0; i < info->n_mech; i++) {
        w->gains[i] = 1;
    }
    if (status == PF_OK) {
        status = pf__plant_forecast(w->plant, &f, returns, beyond, error);
    }
    for (int s = 0; s < PF_RETURN_SHARES && status == PF_OK; s++) {
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
    pf_plant_source *c = work->c;
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
    roll.key = pf_key_stream(plan->settings.seed, plan->environment, member, PF_PURPOSE_MEMBER, 0);
    if (t->policy_index >= 0 && pf_plant_get_info(w->plant)->n_metrics > 0) {
        return own_errors(c, w, t->policy_index, j, roll.key,
                          c->build.tracking_error + item * PF_RETURN_SHARES, error);
    }
    roll.lead = c->model ? pf_model_get_info(c->model)->history - 1 : 0;
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
    double energy = pf__tracking_distance(t->rows, plan->n_chan, c->build.return_scale,
                                          w->predicted, w->nominal);
    if (!(energy > 0)) {
        return pf_fail(error, PF_ERR_DEGENERATE, "task '%s' moves no channel", t->name);
    }
    roll.disturbance = true;
    member_run run = {task, j, (int)member, energy,
                      c->build.tracking_error + item * PF_RETURN_SHARES};
    if (pf_kit_loses_force(&c->build.kit, j)) {
        double *nte = c->build.force_error + item * PF_FORCE_GAINS * PF_FORCE_CORRECTIONS;
        status = force_errors(c, w, &run, &roll, nte, error);
    }
    return status                  ? status
           : pf__plant_anchored(c) ? plant_errors(c, w, &run, &roll, error)
                                   : model_errors(c, w, &run, &roll, error);
}

// Whether the errors of a use stand still to the bit from share 1 on but not before it: the plant
// clamped the gain. A plant that saturates stands still earlier.
static bool stops_at_one(const pf_plant_source *c, size_t use)
{
    const double *shares = c->build.shares;
    int one = 1;
    while (one < PF_RETURN_SHARES - 1 && shares[one] < 1) {
        one++;
    }
    bool moved = false;
    int members = c->build.kit.n_members;
    for (int member = 0; member < members; member++) {
        const double *nte =
            c->build.tracking_error + (use * (size_t)members + (size_t)member) * PF_RETURN_SHARES;
        moved = moved || nte[one - 1] != nte[one];
        for (int s = one + 1; s < PF_RETURN_SHARES; s++) {
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
    const pf_plant_source *c = work->c;
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

// --- reach

// What the limits leave of a corrected closed loop. Its commands are not known, only what comes of
// them: a correction c of a mechanism with gain 1/c does nothing at all unless a limit is in its
// way. The largest one that still does nothing is the reach of the loop.

// Corrections in use are at most 1/.1 with the default grid.
static const double ladder[] = {1.25, 1.5, 1.75, 2, 2.5, 3, 4, 5, 7, 10};
enum { STEPS = sizeof ladder / sizeof ladder[0] };
static const double nothing = 1e-4; // of NTE: what rounding may do to a loop

// One use of a mechanism by a loop, from one start.
typedef struct loop {
    pf_plant_source *c;
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
    return pf__name_failure(
        pf_plant_get_info(l->w->plant), "task", l->c->plan->tasks[l->task].name, l->gains,
        pf_plant_roll(l->w->plant, &roll, &(pf_trace){.output = out}, error), error);
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
                     : pf__tracking_distance(rows, plan->n_chan, l->c->build.return_scale,
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
               : pf__tracking_distance(plan->tasks[l->task].rows, plan->n_chan,
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
    return pf__plant_forecast(l->w->plant, &f, returns, &unused, error);
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

static pf_status one_use(void *self, int worker, size_t use, pf_error *error)
{
    const return_work *work = self;
    pf_plant_source *c = work->c;
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
        l.key = pf_key_stream(plan->settings.seed, plan->environment, (uint64_t)s,
                              PF_PURPOSE_MEMBER, 0);
        status = climb(&l, reach, error);
    }
    free(l.healthy);
    return status;
}

// --- both

static int member_slots(void *self, size_t item, pf_slot *slots)
{
    enum { CELLS = PF_FORCE_GAINS * PF_FORCE_CORRECTIONS };
    pf_kit_build *b = &((return_work *)self)->c->build;
    slots[0] = (pf_slot){.data = b->tracking_error + item * PF_RETURN_SHARES,
                         .size = PF_RETURN_SHARES * sizeof(double)};
    if (b->kit.n_force > 0) {
        slots[1] = (pf_slot){.data = b->force_error + item * CELLS, .size = CELLS * sizeof(double)};
    }
    return b->kit.n_force > 0 ? 2 : 1;
}

static int use_slots(void *self, size_t use, pf_slot *slots)
{
    pf_kit_build *b = &((return_work *)self)->c->build;
    slots[0] = (pf_slot){.data = b->reach + use, .size = sizeof *b->reach};
    return 1;
}

pf_status pf__plant_returns(pf_plant_source *c, pf_error *error)
{
    const pf_plan *plan = c->plan;
    size_t uses = (size_t)c->build.kit.n_uses;
    return_work work = {c, pf__arena_take(&c->arena, uses, sizeof(int))};
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
    pf_status status = pf__parallel_kept(c->effort, c->n_workers, items, run_member, member_slots,
                                         &work, "returns", error);
    if (status == PF_OK) {
        status = pf__parallel_kept(c->effort, c->n_workers, (size_t)c->build.kit.n_reach, one_use,
                                   use_slots, &work, "limits", error);
    }
    return status == PF_OK && pf__plant_anchored(c) ? check_shares(&work, error) : status;
}
