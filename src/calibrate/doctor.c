// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "doctor.h"

#include "core/certificate.h"
#include "source.h"

#include <math.h>
#include <string.h>

const double pf__sweep[PF_SWEEP] = {1. / 16, 1. / 8, 1. / 4, 1. / 2, 1, 2, 4};

// Keys of their own, so that no draw is shared with a calibration.
enum { STREAM_DOCTOR = 2 };

// Below this share of what it should be a response to a small command is a dead zone; below the
// other one a response to a large command is saturated.
static const double dead = .5, saturated = .75;
// Twice the command is worth it if its response is so many times as large.
static const double helps = 1.2;

// One examination under way: the doctor's numbers, and buffers of one trajectory each.
typedef struct exam {
    pf_doctor *d;
    const pf_plan *plan;
    pf_plant *plant;
    const pf_effort *effort;
    double *gains, *command, *still; // n_mech; rows x n_mech
    double *a, *b, *c;
    const char *kind, *name; // of what is run, for messages. Nullable: name
    double rows, seconds;    // of the trajectories so far
    long n;
    size_t done, total;
    pf_error *error;
} exam;

// --- trajectories

static pf_key key_of(const exam *e, int start)
{
    return pf_key_stream(e->plan->settings.seed, e->plan->environment, (uint64_t)start,
                         PF_PURPOSE_CONTRACT, STREAM_DOCTOR);
}

static pf_status roll(exam *e, const pf_roll *what, double *out)
{
    double before = pf__seconds();
    pf_status status = pf_plant_roll(e->plant, what, &(pf_trace){.output = out}, e->error);
    e->seconds += pf__seconds() - before;
    e->rows += what->rows;
    e->n++;
    const pf_plan *plan = e->plan;
    for (int i = 0; i < what->rows * plan->n_chan && status == PF_OK; i++) {
        double *largest = &e->d->largest[i % plan->n_chan];
        *largest = fmax(*largest, fabs(out[i]));
    }
    return pf__name_failure(pf_plant_get_info(e->plant), e->kind, e->name, what->gains, status,
                            e->error);
}

static void name(exam *e, const char *kind, const char *which)
{
    e->kind = kind;
    e->name = which;
}

static const double *healthy_but(exam *e, int mechanism, double gain)
{
    for (int j = 0; j < e->plan->n_mech; j++) {
        e->gains[j] = 1;
    }
    e->gains[mechanism] = mechanism > 0 ? gain : 1;
    return e->gains;
}

static pf_status step(exam *e)
{
    return pf__step(e->effort, "examining", ++e->done, e->total, e->error);
}

// --- is a loss dormant

static pf_status try_passive(exam *e, int mechanism)
{
    const pf_plan *plan = e->plan;
    pf_roll passive = pf_roll_default();
    name(e, "passive data", NULL);
    passive.command = plan->passive;
    passive.rows = plan->passive_rows;
    passive.key = key_of(e, 0);
    passive.disturbance = true;
    passive.sensor_noise = 1;
    passive.gains = healthy_but(e, 0, 1);
    pf_status status = roll(e, &passive, e->a);
    passive.gains = healthy_but(e, mechanism, PF_WEAK_GAIN);
    status = status ? status : roll(e, &passive, e->b);
    if (status == PF_OK) {
        pf_repeat *r = &e->d->passive[mechanism];
        pf__differs(passive.rows, plan->n_chan, e->a, e->b, 0, &r->differs, &r->channel);
        passive.gains = healthy_but(e, 0, 1);
        status = pf__rounding_tolerance(plan, e->plant, &passive, r->differs, &e->d->tolerance,
                                        e->error);
    }
    return status ? status : step(e);
}

// --- what shows

// Adds the squared differences of two trajectories to sums by channel.
static void add_squares(const exam *e, int rows, const double *a, const double *b, double *sum)
{
    int n_chan = e->plan->n_chan;
    for (int i = 0; i < rows * n_chan; i++) {
        sum[i % n_chan] += (a[i] - b[i]) * (a[i] - b[i]);
    }
}

// A probe from one start: what it moves, what a loss of its mechanism takes away, and what
// disturbance and noise do.
static pf_status try_probe(exam *e, const pf_plan_probe *probe, int start)
{
    const pf_plan *plan = e->plan;
    int j = probe->targets[0];
    name(e, "probe", probe->name);
    pf_roll run = pf__plan_probe_roll(probe, pf_plant_get_info(e->plant)), idle = run;
    run.key = idle.key = key_of(e, start);
    idle.policy = -1;
    idle.command = e->still;
    pf_status status = roll(e, &run, e->a);
    status = status ? status : roll(e, &idle, e->b);
    if (status == PF_OK) {
        add_squares(e, probe->rows, e->a, e->b, e->d->moved);
    }
    run.gains = healthy_but(e, j, plan->settings.g_cal);
    status = status ? status : roll(e, &run, e->b);
    if (status == PF_OK) {
        add_squares(e, probe->rows, e->a, e->b, e->d->shows + (size_t)j * (size_t)plan->n_chan);
    }
    run.gains = NULL;
    run.disturbance = true;
    status = status ? status
                    : pf__observe(e->plant, &run, plan->settings.sensor_noise, e->d->scale,
                                  &(pf_trace){.output = e->b}, e->error);
    if (status == PF_OK) {
        add_squares(e, probe->rows, e->a, e->b, e->d->noise);
    }
    return status ? status : step(e);
}

// From sums of squares over `n` readings each to root mean squares.
static void root(double *sum, int n_chan, double n)
{
    for (int c = 0; c < n_chan; c++) {
        sum[c] = n > 0 ? sqrt(sum[c] / n) : 0;
    }
}

static pf_status try_probes(exam *e)
{
    const pf_plan *plan = e->plan;
    pf_status status = PF_OK;
    double all = 0;
    for (int q = 0; q < plan->n_probes && status == PF_OK; q++) {
        const pf_plan_probe *probe = &plan->probes[q];
        double readings = (double)probe->rows * e->d->starts;
        for (int s = 0; s < e->d->starts && status == PF_OK; s++) {
            status = try_probe(e, probe, s);
        }
        root(e->d->shows + (size_t)probe->targets[0] * (size_t)plan->n_chan, plan->n_chan,
             readings);
        all += readings;
    }
    root(e->d->moved, plan->n_chan, all);
    root(e->d->noise, plan->n_chan, all);
    for (int q = 0; q < plan->n_probes && status == PF_OK; q++) {
        int j = plan->probes[q].targets[0];
        double sum = 0;
        for (int c = 0; c < plan->n_chan; c++) {
            double noise = e->d->noise[c] > 0 ? e->d->noise[c] : e->d->scale[c];
            double z = e->d->shows[(size_t)j * (size_t)plan->n_chan + (size_t)c] / noise;
            sum += z * z * plan->probes[q].rows;
        }
        e->d->apart[j] = sqrt(sum);
    }
    return status;
}

// --- small and large commands

// Whether a factor keeps the command of a probe within the limits.
static bool scaled_command(exam *e, const pf_plan_probe *probe, double factor)
{
    const pf_plan *plan = e->plan;
    for (int i = 0; i < probe->rows * plan->n_mech; i++) {
        const pf_mechanism *m = &plan->mechanisms[i % plan->n_mech];
        e->command[i] = factor * probe->command[i];
        // single precision is what environments give their limits in
        double slack = 1e-6 * fmax(fabs(m->lo), fabs(m->hi));
        if (factor > 1 && (e->command[i] > m->hi + slack || e->command[i] < m->lo - slack)) {
            return false;
        }
    }
    return true;
}

// Whether it is the machine that gave up.
static bool failed(pf_status status)
{
    return status == PF_ERR_PLANT || status == PF_ERR_NONFINITE;
}

static pf_status try_amplitude(exam *e, const pf_plan_probe *probe, int at, double *size)
{
    const pf_plan *plan = e->plan;
    pf_roll run = pf_roll_default();
    pf_status status = PF_OK;
    run.rows = probe->rows;
    *size = NAN;
    if (!scaled_command(e, probe, pf__sweep[at])) {
        return step(e);
    }
    double sum = 0, factor = pf__sweep[at];
    name(e, "probe", probe->name);
    for (int s = 0; s < e->d->starts && status == PF_OK; s++) {
        run.key = key_of(e, s);
        run.command = e->still;
        status = roll(e, &run, e->b);
        run.command = e->command;
        status = status ? status : roll(e, &run, e->a);
        if (status == PF_OK) {
            sum += pf__tracking_distance(probe->rows, plan->n_chan, e->d->scale, e->a, e->b);
        }
    }
    // more than calibrate sends: to be told, not a failure of the doctor's
    if (factor > 1 && failed(status)) {
        double *fails = &e->d->fails[probe->targets[0]];
        *fails = *fails > 0 ? *fails : factor;
        return step(e);
    }
    *size = sqrt(sum) / factor;
    return status ? status : step(e);
}

static pf_status try_sweep(exam *e, const pf_plan_probe *probe)
{
    double *sweep = e->d->sweep + (size_t)probe->targets[0] * PF_SWEEP;
    pf_status status = PF_OK;
    for (int i = 0; i < PF_SWEEP && status == PF_OK; i++) {
        status = try_amplitude(e, probe, i, &sweep[i]);
    }
    double size = sweep[PF_SWEEP_PROBE];
    for (int i = 0; i < PF_SWEEP; i++) {
        sweep[i] /= size;
    }
    return status;
}

bool pf__doctor_dead_zone(const pf_doctor *d, int mechanism)
{
    return d->sweep[(size_t)mechanism * PF_SWEEP] < dead;
}

bool pf__doctor_saturates(const pf_doctor *d, int mechanism)
{
    const double *sweep = d->sweep + (size_t)mechanism * PF_SWEEP;
    return sweep[PF_SWEEP_PROBE + 1] < saturated || sweep[PF_SWEEP_PROBE + 2] < saturated;
}

static bool is_weak(const pf_doctor *d, int mechanism)
{
    return d->apart[mechanism] < PF_GOOD_APART;
}

// Twice as much while the response still grows faster than the command, half where that does more
// than its share. A probe that shows too little grows as long as that helps, and is never halved.
double pf__doctor_amplitude(const pf_doctor *d, int mechanism)
{
    const double *sweep = d->sweep + (size_t)mechanism * PF_SWEEP + PF_SWEEP_PROBE;
    if (is_weak(d, mechanism)) {
        return 2 * sweep[1] > helps * sweep[0] ? 2 : 1;
    }
    return sweep[1] * saturated > sweep[0] ? 2 : sweep[-1] * saturated > sweep[0] ? .5 : 1;
}

int pf__doctor_longer(const pf_doctor *d, int mechanism)
{
    return is_weak(d, mechanism) && pf__doctor_amplitude(d, mechanism) == 1 ? 4 : 1;
}

// --- the bound of a healthy machine

// What a closed loop of the plant returns is told by the plant, not by these channels.
static pf_status try_task(exam *e, int task, double *returns)
{
    const pf_plan *plan = e->plan;
    const pf_plan_task *t = &plan->tasks[task];
    double *share = e->d->error_share + (size_t)task * (size_t)plan->n_chan, sum = 0;
    name(e, "task", t->name);
    for (int s = 0; s < e->d->starts; s++) {
        pf_roll run = pf_roll_default();
        run.key = key_of(e, s);
        run.rows = t->rows;
        run.command = e->still;
        pf_status status = roll(e, &run, e->c);
        run.command = t->command;
        run.policy = t->policy_index;
        status = status ? status : roll(e, &run, e->a);
        run.disturbance = true;
        status = status ? status : roll(e, &run, e->b);
        if (status != PF_OK) {
            return status;
        }
        double energy = pf__tracking_distance(t->rows, plan->n_chan, e->d->scale, e->a, e->c);
        returns[s] = exp(-fmin(
            pf__tracking_distance(t->rows, plan->n_chan, e->d->scale, e->a, e->b) / energy, 10));
        add_squares(e, t->rows, e->a, e->b, share);
    }
    for (int c = 0; c < plan->n_chan; c++) {
        share[c] /= e->d->scale[c] * e->d->scale[c];
        sum += share[c];
    }
    for (int c = 0; c < plan->n_chan && sum > 0; c++) {
        share[c] /= sum;
    }
    return step(e);
}

// The tasks as a kit foresees them, from the first start of its return table: what fails here fails
// in a calibration too. A loop with returns of its own is left to its plant.
static pf_status try_shares(exam *e, int task)
{
    const pf_plan *plan = e->plan;
    const pf_plan_task *t = &plan->tasks[task];
    pf_status status = PF_OK;
    bool own = t->policy_index >= 0 && pf_plant_get_info(e->plant)->n_metrics > 0;
    for (int i = 0; i < t->n_uses * PF_RETURN_SHARES && status == PF_OK && !own; i++) {
        pf_roll run = pf_roll_default();
        run.key = pf_key_stream(plan->settings.seed, plan->environment, 0, PF_PURPOSE_MEMBER, 0);
        run.rows = t->rows;
        run.command = t->command;
        run.policy = t->policy_index;
        run.disturbance = true;
        run.gains =
            healthy_but(e, t->uses[i / PF_RETURN_SHARES], pf__return_share(i % PF_RETURN_SHARES));
        status = roll(e, &run, e->a);
    }
    if (failed(status) && !e->d->failure[0]) {
        memcpy(e->d->failure, e->error->text, sizeof e->d->failure);
    }
    return failed(status) ? PF_OK : status;
}

static void bound_task(exam *e, int task, const double *returns)
{
    int n = e->d->starts;
    double mean = 0, variance = 0;
    for (int s = 0; s < n; s++) {
        mean += returns[s] / n;
    }
    for (int s = 0; s < n; s++) {
        variance += (returns[s] - mean) * (returns[s] - mean) / n;
    }
    e->d->mean[task] = mean;
    e->d->bound[task] = pf__cantelli(mean, variance, e->plan->settings.alpha);
}

// --- all of it

static bool take_memory(exam *e, double **returns)
{
    const pf_plan *plan = e->plan;
    pf_doctor *d = e->d;
    pf_arena *arena = &d->arena;
    size_t mech = (size_t)plan->n_mech, chan = (size_t)plan->n_chan, tasks = (size_t)plan->n_tasks;
    int most = pf__plan_most_rows(plan);
    size_t rows = (size_t)(plan->passive_rows > most ? plan->passive_rows : most);
    size_t number = sizeof(double);
    d->passive = pf__arena_take(arena, mech, sizeof *d->passive);
    d->scale = pf__arena_take(arena, chan, number);
    d->largest = pf__arena_take(arena, chan, number);
    d->moved = pf__arena_take(arena, chan, number);
    d->noise = pf__arena_take(arena, chan, number);
    d->shows = pf__arena_take(arena, mech * chan, number);
    d->apart = pf__arena_take(arena, mech, number);
    d->sweep = pf__arena_take(arena, mech * PF_SWEEP, number);
    d->fails = pf__arena_take(arena, mech, number);
    d->mean = pf__arena_take(arena, tasks, number);
    d->bound = pf__arena_take(arena, tasks, number);
    d->error_share = pf__arena_take(arena, tasks * chan, number);
    e->gains = pf__arena_take(arena, mech, number);
    e->command = pf__arena_take(arena, rows * mech, number);
    e->still = pf__arena_take(arena, rows * mech, number);
    e->a = pf__arena_take(arena, rows * chan, number);
    e->b = pf__arena_take(arena, rows * chan, number);
    e->c = pf__arena_take(arena, rows * chan, number);
    *returns = pf__arena_take(arena, (size_t)d->starts, number);
    return !arena->failed;
}

// The scales of a kit of this plan, and how much work its calibration is.
static pf_status ask_calibration(exam *e, double *rows)
{
    pf_effort one = e->effort ? *e->effort : (pf_effort){0};
    one.threads = 1;
    one.part = NULL;
    pf_plant_source c = {.plan = e->plan, .effort = &one};
    pf_kit_kind kind = pf__plant_kind(&c, pf_plant_get_info(e->plant), PF_STATISTIC_MATCHED);
    pf_status status = pf__plant_open(&c, e->plant, &kind, e->error);
    status = status ? status : pf__plant_scales(&c, e->error);
    if (status == PF_OK) {
        memcpy(e->d->scale, c.build.return_scale, sizeof(double) * (size_t)e->plan->n_chan);
        *rows = pf__plant_rows(e->plan, &c.build.kit);
    }
    pf__plant_free(&c);
    return status;
}

static pf_status examine(exam *e, double *returns)
{
    const pf_plan *plan = e->plan;
    double rows = 0;
    e->total = (size_t)plan->n_mech - 1 + (size_t)plan->n_probes * (size_t)e->d->starts +
               (size_t)plan->n_probes * PF_SWEEP + (size_t)plan->n_tasks;
    pf_status status = ask_calibration(e, &rows);
    for (int j = 1; j < plan->n_mech && status == PF_OK; j++) {
        status = try_passive(e, j);
    }
    status = status ? status : try_probes(e);
    for (int q = 0; q < plan->n_probes && status == PF_OK; q++) {
        status = plan->probes[q].policy ? PF_OK : try_sweep(e, &plan->probes[q]);
    }
    for (int t = 0; t < plan->n_tasks && status == PF_OK; t++) {
        status = try_task(e, t, returns);
        if (status == PF_OK) {
            bound_task(e, t, returns);
            status = try_shares(e, t);
        }
    }
    e->d->trajectory_s = e->n > 0 ? e->seconds / (double)e->n : 0;
    e->d->trajectory_rows = e->n > 0 ? e->rows / (double)e->n : 0;
    e->d->calibration_s = e->rows > 0 ? e->seconds / e->rows * rows : 0;
    return status;
}

pf_status pf__doctor_run(pf_doctor *d, const pf_plan *plan, pf_plant *plant,
                         const pf_effort *effort, pf_error *error)
{
    exam e = {.d = d, .plan = plan, .plant = plant, .effort = effort, .error = error};
    double *returns = NULL;
    for (int q = 0; q < plan->n_probes; q++) {
        if (plan->probes[q].n_targets != 1) {
            return pf_fail(error, PF_ERR_ARGUMENT,
                           "probe '%s' moves several mechanisms; the doctor looks at one at a "
                           "time: leave `probes` out",
                           plan->probes[q].name);
        }
    }
    if (!take_memory(&e, &returns)) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for an examination");
    }
    pf_status status = pf__plant_repeats(plan, plant, PF_REPEAT_WAYS, d->repeat, error);
    if (status != PF_OK || !pf__repeats_itself(d->repeat, PF_REPEAT_WAYS)) {
        return status;
    }
    status = pf__repeat_tolerance(plan, d->repeat, PF_REPEAT_WAYS, &d->tolerance, error);
    return status ? status : examine(&e, returns);
}

void pf__doctor_free(pf_doctor *d)
{
    pf__arena_free(&d->arena);
}
