// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "preflight/train.h"
#include "model/rollout.h"

#include "core/certificate.h"
#include "host/parallel.h"
#include "model/model_impl.h"
#include "fit.h"
#include "plan.h"

#include <math.h>
#include <string.h>

// Starts 0..STARTS-1 are measured, as many others give the residual scale.
enum { STARTS = PF_ASSESS_STARTS, ALL_STARTS = 2 * STARTS, ROWS_LEAST = 12 };
static const int horizons[PF_ASSESS_HORIZONS] = {1, 2, 4, 8, 12};
// Probes that the usual budget has for a mechanism: two, and two more once it is suspected.
enum { HEALTHY_PROBES = 2, LOST_PROBES = 4 };

// Shares of a task's command that the plant is run at, from CURVES starts.
enum { SHARES = 11, CURVES = PF_ASSESS_STARTS / 2 };
static const double shares[SHARES] = {0, .3, .6, .8, .9, .95, 1, 1.05, 1.1, 1.2, 1.5};

// Share of the pulse scale below which a residual scale does not fall.
static const double least_residual = 1e-3;

const int *pf_assess_horizons(void)
{
    return horizons;
}

// Responses of one (start, probe), each rows x n_chan.
typedef enum response {
    PLANT_NOMINAL,
    PLANT_FAULT,
    MODEL_NOMINAL,
    MODEL_FAULT,
    MODEL_VARIANCE, // over members, nominal
    LINEAR_NOMINAL,
    COPY_NOMINAL,
    N_RESPONSES
} response;

typedef struct assess_worker {
    pf_plant *plant;
    double *start;   // n_chan
    double *gains;   // 2 x n_mech
    double *members; // three trajectories
    double *scratch;
} assess_worker;

typedef struct assess {
    const pf_model *model;
    pf_model linear; // shallow: the same without its networks
    const pf_plan *plan;
    const pf_plant_info *info;
    double g_cal;
    uint64_t seed;
    int rows;         // of probes
    int longest;      // of probes and tasks
    double *command;  // per probe rows x n_mech
    double *still;    // longest x n_mech
    double *data;     // starts x probes x N_RESPONSES x rows x n_chan
    double *pulse;    // n_chan
    double *residual; // rows x n_chan
    double *free;     // starts x rows x n_chan
    double *curves;   // tasks x CURVES x SHARES: normalised tracking errors
    assess_worker *workers;
    pf_arena arena;
} assess;

static double *at(const assess *a, int start, int probe, response which)
{
    size_t size = (size_t)a->rows * (size_t)a->info->n_chan;
    return a->data + (((size_t)start * (size_t)a->plan->n_probes + (size_t)probe) * N_RESPONSES +
                      (size_t)which) *
                         size;
}

static int rows_of_plan(const pf_plan *plan)
{
    int rows = ROWS_LEAST;
    for (int q = 0; q < plan->n_probes; q++) {
        rows = plan->probes[q].rows > rows ? plan->probes[q].rows : rows;
    }
    return rows;
}

// Of the longest trajectory: a task may be longer than the probes.
static int longest_of_plan(const pf_plan *plan)
{
    int rows = rows_of_plan(plan);
    for (int k = 0; k < plan->n_tasks; k++) {
        rows = plan->tasks[k].rows > rows ? plan->tasks[k].rows : rows;
    }
    return rows;
}

// The probes with their last command held to the end.
static void fill_commands(assess *a)
{
    size_t mech = (size_t)a->info->n_mech;
    for (int q = 0; q < a->plan->n_probes; q++) {
        const pf_plan_probe *p = &a->plan->probes[q];
        for (int r = 0; r < a->rows; r++) {
            int from = r < p->rows ? r : p->rows - 1;
            memcpy(a->command + ((size_t)q * (size_t)a->rows + (size_t)r) * mech,
                   p->command + (size_t)from * mech, mech * sizeof(double));
        }
    }
}

static pf_status predict(const assess *a, assess_worker *w, int start, int probe, pf_error *error)
{
    int n = a->rows * a->info->n_chan, members = a->model->info.n_members;
    const double *command = a->command + (size_t)probe * (size_t)a->rows * (size_t)a->info->n_mech;
    pf_model_request request = {w->start, command, a->rows, 2, w->gains, NULL};
    double *nominal = at(a, start, probe, MODEL_NOMINAL), *fault = at(a, start, probe, MODEL_FAULT);
    double *variance = at(a, start, probe, MODEL_VARIANCE);
    for (int e = 0; e < members; e++) {
        pf_status status = pf__model_roll(a->model, e, &request, w->scratch, w->members, error);
        if (status != PF_OK) {
            return status;
        }
        for (int i = 0; i < n; i++) {
            double distance = w->members[i] - nominal[i]; // Welford's way
            nominal[i] += distance / (e + 1);
            variance[i] += distance * (w->members[i] - nominal[i]);
            fault[i] += w->members[n + i] / members;
        }
    }
    for (int i = 0; i < n; i++) {
        variance[i] = members > 1 ? variance[i] / (members - 1) : NAN;
    }
    pf_status status = pf__model_roll(&a->linear, 0, &request, w->scratch, w->members, error);
    if (status == PF_OK) {
        memcpy(at(a, start, probe, LINEAR_NOMINAL), w->members, (size_t)n * sizeof(double));
    }
    const double *last = w->start + (a->model->info.history - 1) * a->info->n_chan;
    for (int i = 0; i < n; i++) {
        at(a, start, probe, COPY_NOMINAL)[i] = last[i % a->info->n_chan];
    }
    return status;
}

// One start: the plant left alone, then every probe on the plant and on the model.
static pf_status run_start(void *self, int worker, size_t item, pf_error *error)
{
    assess *a = self;
    assess_worker *w = &a->workers[worker];
    size_t mech = (size_t)a->info->n_mech;
    pf_roll roll = pf_roll_default();
    roll.key = pf_key_stream(a->seed, pf_plant_environment(a->info), item, PF_PURPOSE_TRAINING, 1);
    roll.rows = a->rows;
    roll.lead = a->model->info.history - 1;
    roll.command = a->still;
    pf_trace trace = {.initial = w->start,
                      .output = a->free + item * (size_t)a->rows * (size_t)a->info->n_chan};
    pf_status status = pf_plant_roll(w->plant, &roll, &trace, error);
    for (int q = 0; q < a->plan->n_probes && status == PF_OK; q++) {
        for (size_t j = 0; j < 2 * mech; j++) {
            w->gains[j] = 1;
        }
        w->gains[mech + (size_t)a->plan->probes[q].targets[0]] = a->g_cal;
        roll.command = a->command + (size_t)q * (size_t)a->rows * mech;
        for (int h = 0; h < 2 && status == PF_OK; h++) {
            roll.gains = w->gains + (size_t)h * mech;
            trace = (pf_trace){.output = at(a, (int)item, q, h == 0 ? PLANT_NOMINAL : PLANT_FAULT)};
            status = pf_plant_roll(w->plant, &roll, &trace, error);
        }
        if (status == PF_OK) {
            status = predict(a, w, (int)item, q, error);
        }
    }
    return status;
}

static void find_scales(assess *a)
{
    int n_chan = a->info->n_chan, size = a->rows * n_chan;
    double n = (double)STARTS * a->plan->n_probes;
    for (int s = STARTS; s < ALL_STARTS; s++) {
        const double *free = a->free + (size_t)s * (size_t)size;
        for (int q = 0; q < a->plan->n_probes; q++) {
            const double *plant = at(a, s, q, PLANT_NOMINAL), *model = at(a, s, q, MODEL_NOMINAL);
            for (int i = 0; i < size; i++) {
                double pulse = plant[i] - free[i], error = plant[i] - model[i];
                a->pulse[i % n_chan] += pulse * pulse / (n * a->rows);
                a->residual[i] += error * error / n;
            }
        }
    }
    for (int c = 0; c < n_chan; c++) {
        double declared = a->info->channels[c].scale;
        a->pulse[c] = declared > 0 ? declared : fmax(sqrt(a->pulse[c]), 1e-12);
    }
    for (int i = 0; i < size; i++) {
        a->residual[i] = fmax(sqrt(a->residual[i]), least_residual * a->pulse[i % n_chan]);
    }
}

static double scale_at(const assess *a, pf_assess_scale scale, int i)
{
    return scale == PF_ASSESS_PULSE ? a->pulse[i % a->info->n_chan] : a->residual[i];
}

// Sum over starts and the first `rows` steps of the squared scaled difference of two responses.
static double energy(const assess *a, int probe, pf_assess_scale scale, int rows, response one,
                     response other)
{
    double sum = 0;
    for (int s = 0; s < STARTS; s++) {
        const double *x = at(a, s, probe, one), *y = at(a, s, probe, other);
        for (int i = 0; i < rows * a->info->n_chan; i++) {
            double d = (x[i] - y[i]) / scale_at(a, scale, i);
            sum += d * d;
        }
    }
    return sum;
}

// How far g_cal lies from nominal in the coordinate of the matched filter, in dispersions of model
// error alone. sd and bias (Nullable): of the gain that this tells with the sensors' noise, which a
// kit's scale of residuals contains as well; and what is always wrong in it.
static double separation(const assess *a, int probe, pf_assess_scale scale, double *sd,
                         double *bias)
{
    double b[2][STARTS], buffer[STARTS], noise = 0;
    int rows = a->plan->probes[probe].rows;
    for (int s = 0; s < STARTS; s++) {
        const double *nominal = at(a, s, probe, MODEL_NOMINAL);
        const double *fault = at(a, s, probe, MODEL_FAULT);
        double hh = 0, shaken = 0, rh[2] = {0, 0};
        for (int i = 0; i < rows * a->info->n_chan; i++) {
            double noise_sd = a->info->channels[i % a->info->n_chan].noise_sd;
            double weight = 1 / hypot(scale_at(a, scale, i), sd ? noise_sd : 0);
            double h = (fault[i] - nominal[i]) * weight, sensor = h * weight * noise_sd;
            hh += h * h;
            shaken += sensor * sensor;
            rh[0] += h * (at(a, s, probe, PLANT_NOMINAL)[i] - nominal[i]) * weight;
            rh[1] += h * (at(a, s, probe, PLANT_FAULT)[i] - nominal[i]) * weight;
        }
        b[0][s] = hh > 0 ? rh[0] / hh : 0;
        b[1][s] = hh > 0 ? rh[1] / hh : 0;
        noise += hh > 0 ? shaken / (hh * hh) / STARTS : 0;
    }
    double apart = pf__fit_median(STARTS, b[1], buffer) - pf__fit_median(STARTS, b[0], buffer);
    double dispersion = pf__fit_dispersion(STARTS, b[0], buffer);
    // what a loss does to the machine is 1 in the coordinate of a model that knows it; a model that
    // is wrong about it is off by as much
    if (sd) {
        *bias = (1 - a->g_cal) * fabs(1 - 1 / fmax(apart, 1e-3));
        *sd = hypot((1 - a->g_cal) * sqrt(dispersion * dispersion + noise) / apart, *bias);
    }
    return apart / dispersion;
}

static double spread(const assess *a, int probe)
{
    double variance = 0;
    for (int s = 0; s < STARTS; s++) {
        for (int i = 0; i < horizons[3] * a->info->n_chan; i++) {
            double scale = scale_at(a, PF_ASSESS_PULSE, i);
            variance += at(a, s, probe, MODEL_VARIANCE)[i] / (scale * scale);
        }
    }
    return sqrt(variance /
                energy(a, probe, PF_ASSESS_PULSE, horizons[3], PLANT_NOMINAL, MODEL_NOMINAL));
}

static void measure(const assess *a, int probe, pf_assessment *out)
{
    out->mechanism = a->plan->probes[probe].targets[0];
    for (int h = 0; h < PF_ASSESS_HORIZONS; h++) {
        int rows = horizons[h];
        for (int s = 0; s < PF_ASSESS_SCALES; s++) {
            double signature =
                energy(a, probe, (pf_assess_scale)s, rows, PLANT_FAULT, PLANT_NOMINAL);
            out->error[s][h] =
                sqrt(energy(a, probe, (pf_assess_scale)s, rows, MODEL_NOMINAL, PLANT_NOMINAL) /
                     signature);
        }
        double signature = energy(a, probe, PF_ASSESS_PULSE, rows, PLANT_FAULT, PLANT_NOMINAL);
        out->copy[h] =
            sqrt(energy(a, probe, PF_ASSESS_PULSE, rows, COPY_NOMINAL, PLANT_NOMINAL) / signature);
        out->linear[h] = sqrt(
            energy(a, probe, PF_ASSESS_PULSE, rows, LINEAR_NOMINAL, PLANT_NOMINAL) / signature);
    }
    for (int s = 0; s < PF_ASSESS_SCALES; s++) {
        out->separation[s] = separation(a, probe, (pf_assess_scale)s, NULL, NULL);
    }
    separation(a, probe, PF_ASSESS_RESIDUAL, &out->gain_sd, &out->gain_bias);
    out->spread = spread(a, probe);
}

// --- tasks

// One start of one task: the error at every share, against the two trajectories that are known.
static pf_status run_curve(void *self, int worker, size_t item, pf_error *error)
{
    assess *a = self;
    assess_worker *w = &a->workers[worker];
    const pf_plan_task *t = &a->plan->tasks[item / CURVES];
    size_t size = (size_t)a->longest * (size_t)a->info->n_chan;
    enum { FREE, REFERENCE, SHARE };
    double *rows[] = {w->members, w->members + size, w->members + 2 * size};
    if (!t->command) {
        return PF_OK; // a closed loop has no shares
    }
    for (int j = 0; j < a->info->n_mech; j++) {
        w->gains[j] = 1;
    }
    pf_roll roll = pf_roll_default();
    roll.key = pf_key_stream(a->seed, pf_plant_environment(a->info), item % CURVES,
                             PF_PURPOSE_TRAINING, 2);
    roll.rows = t->rows;
    roll.gains = w->gains;
    roll.command = a->still;
    pf_status status = pf_plant_roll(w->plant, &roll, &(pf_trace){.output = rows[FREE]}, error);
    roll.command = t->command;
    status = status ? status
                    : pf_plant_roll(w->plant, &roll, &(pf_trace){.output = rows[REFERENCE]}, error);
    double energy =
        pf__tracking_distance(t->rows, a->info->n_chan, a->pulse, rows[FREE], rows[REFERENCE]);
    roll.disturbance = true;
    for (int s = 0; s < SHARES && status == PF_OK; s++) {
        w->gains[t->uses[0]] = shares[s];
        status = pf_plant_roll(w->plant, &roll, &(pf_trace){.output = rows[SHARE]}, error);
        double off =
            pf__tracking_distance(t->rows, a->info->n_chan, a->pulse, rows[SHARE], rows[REFERENCE]);
        a->curves[item * SHARES + (size_t)s] = energy > 0 ? off / energy : INFINITY;
    }
    return status;
}

// Bound of the return where the delivered share is 1 give or take sd, normal.
static double task_bound(const assess *a, int task, double sd)
{
    enum { WIDTHS = 13 };
    double p[WIDTHS], returns[CURVES * WIDTHS], sum = 0;
    for (int i = 0; i < WIDTHS; i++) {
        double z = .5 * (i - WIDTHS / 2);
        p[i] = exp(-z * z / 2);
        sum += p[i];
        for (int k = 0; k < CURVES; k++) {
            const double *curve = a->curves + ((size_t)task * CURVES + (size_t)k) * SHARES;
            returns[k * WIDTHS + i] =
                pf__return(pf__tracking_error_at(SHARES, shares, curve, 1 + sd * z));
        }
    }
    for (int i = 0; i < WIDTHS; i++) {
        p[i] /= sum;
    }
    return pf__predict_return(CURVES, WIDTHS, p, returns, a->plan->settings.alpha).lower;
}

// The default task of the mechanism, none of which is a closed loop.
static void measure_task(const assess *a, pf_assessment *out)
{
    out->bound_exact = out->bound_healthy = out->bound_lost = NAN;
    for (int k = 0; k < a->plan->n_tasks; k++) {
        if (a->plan->tasks[k].uses[0] == out->mechanism && a->plan->tasks[k].command) {
            out->bound_exact = task_bound(a, k, 0);
            out->bound_healthy = task_bound(a, k, out->gain_sd / sqrt(HEALTHY_PROBES));
            out->bound_lost = task_bound(a, k, out->gain_sd / sqrt(LOST_PROBES) / a->g_cal);
        }
    }
}

static pf_status take_memory(assess *a, int n_workers, pf_plant *plant, pf_error *error)
{
    size_t chan = (size_t)a->info->n_chan, mech = (size_t)a->info->n_mech, d = sizeof(double);
    size_t rows = (size_t)a->rows, probes = (size_t)a->plan->n_probes, size = rows * chan;
    a->command = pf__arena_take(&a->arena, probes * rows * mech, d);
    a->still = pf__arena_take(&a->arena, (size_t)a->longest * mech, d);
    a->data = pf__arena_take(&a->arena, ALL_STARTS * probes * N_RESPONSES * size, d);
    a->free = pf__arena_take(&a->arena, ALL_STARTS * size, d);
    a->curves = pf__arena_take(&a->arena, (size_t)a->plan->n_tasks * CURVES * SHARES, d);
    a->pulse = pf__arena_take(&a->arena, chan, d);
    a->residual = pf__arena_take(&a->arena, size, d);
    a->linear.change_scale = pf__arena_take(&a->arena, (size_t)a->model->net.n_out, sizeof(float));
    a->workers = pf__arena_take(&a->arena, (size_t)n_workers, sizeof *a->workers);
    for (int i = 0; i < n_workers && a->workers; i++) {
        assess_worker *w = &a->workers[i];
        w->start = pf__arena_take(&a->arena, (size_t)a->model->info.history * chan, d);
        w->gains = pf__arena_take(&a->arena, 2 * mech, d);
        w->members = pf__arena_take(&a->arena, 3 * (size_t)a->longest * chan, d);
        w->scratch = pf__arena_take(&a->arena, pf__model_scratch(a->model, 2), d);
        pf_status status = pf_plant_clone(plant, &w->plant, error);
        if (status != PF_OK) {
            return status;
        }
    }
    return a->arena.failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory for the assessment")
                           : PF_OK;
}

pf_status pf_assess(const pf_model *model, pf_plant *plant, double g_cal, uint64_t seed,
                    const pf_effort *effort, pf_assessment *out, pf_error *error)
{
    const pf_plant_info *info = pf_plant_get_info(plant);
    pf_plan plan;
    pf_status status = pf__model_fits(model, info, error);
    if (status == PF_OK) {
        status = pf__plan_default(&plan, info, error);
    }
    if (status != PF_OK) {
        return status;
    }
    int n_workers = pf__threads(effort);
    assess a = {.model = model,
                .linear = *model,
                .plan = &plan,
                .info = info,
                .g_cal = g_cal,
                .seed = seed,
                .rows = rows_of_plan(&plan),
                .longest = longest_of_plan(&plan)};
    status = take_memory(&a, n_workers, plant, error);
    if (status == PF_OK) {
        fill_commands(&a);
        status = pf__parallel(effort, n_workers, ALL_STARTS, run_start, &a, "assessment", error);
    }
    if (status == PF_OK) {
        find_scales(&a);
        status = pf__parallel(effort, n_workers, (size_t)plan.n_tasks * CURVES, run_curve, &a,
                              "assessment of tasks", error);
    }
    for (int q = 0; q < plan.n_probes && status == PF_OK; q++) {
        measure(&a, q, &out[q]);
        measure_task(&a, &out[q]);
    }
    for (int i = 0; a.workers && i < n_workers; i++) {
        pf_plant_destroy(a.workers[i].plant);
    }
    pf__arena_free(&a.arena);
    pf__plan_free(&plan);
    return status;
}
