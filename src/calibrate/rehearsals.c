// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "fit.h"
#include "limits.h"
#include "source.h"

#include "core/certificate.h"
#include "core/constants.h"
#include "core/misfit.h"
#include "core/rehearsal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// What a healthy rehearsal looks like: of each task, and of groups of tasks that run at once.

// Memory of a worker.
typedef struct desk {
    double *nominal, *other; // longest task x n_chan: predictions
    double *gains;           // n_mech
} desk;

typedef struct rehearsals {
    pf_source *source;
    const pf_plan *plan;
    pf_kit_build *build;
    pf_arena arena;
    desk *desks;
    double *idle;            // a command of zeros
    pf_design_config limits; // of the design
    // the rehearsal at hand
    pf_ask ask;
    int n;       // numbers of a run: rows x channels
    int n_moves; // per run: what the tasks move, and beside blind directions what each of several
                 // mechanisms shows where its task just fails
    int n_runs;  // in values
    uint64_t stream;
    double *values; // per run: residual, moves (n numbers each, scaled), excursion
    double *column; // n_runs
    pf_rest *rests; // n_runs x n_chan
    // blind directions of all rehearsals so far
    int32_t *blind_first;
    double *blind;
    int n_blind;
} rehearsals;

// Streams of PF_PURPOSE_MISFIT beside those of looks and misfits.
enum { STREAM_REHEARSALS = 66, STREAM_BLIND = 67 };

static pf_status no_memory(pf_error *error)
{
    return pf_fail(error, PF_ERR_MEMORY, "out of memory for the rehearsals of a kit");
}

// --- where a task just fails

// Both edges of each use of a task, and how differently members miss there.
static void fit_edges(pf_kit_build *b, int task)
{
    double cv = 0;
    for (int u = b->task_use[task]; u < b->task_use[task + 1]; u++) {
        for (int side = 0; side < 2; side++) {
            b->use_edge[2 * u + side] = pf__use_edge(&b->kit, u, side == 1, &cv);
        }
    }
    b->rehearsal[(size_t)task * PF_REHEARSAL_NUMBERS + PF_REHEARSAL_CV] = cv;
}

// --- healthy runs

// Doubles of one run in r->values.
static size_t stride_of(const rehearsals *r)
{
    return (size_t)(1 + r->n_moves) * (size_t)r->n + 1;
}

static double *run_at(const rehearsals *r, int run)
{
    return r->values + (size_t)run * stride_of(r);
}

static void subtract(const rehearsals *r, const double *a, const double *b, double *out)
{
    const pf_kit *k = &r->build->kit;
    for (int i = 0; i < r->n; i++) {
        out[i] = (a[i] - b[i]) / k->return_scale[i % k->n_chan];
    }
}

static double square_of(int n, const double *x)
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        sum += x[i] * x[i];
    }
    return sum;
}

// Gains of the machine on which the next task of a group just fails: use and side e.
static void gains_at_edge(const rehearsals *r, int e, double *gains)
{
    const pf_kit *k = &r->build->kit;
    for (int j = 0; j < k->n_mech; j++) {
        gains[j] = j == k->use_mech[e / 2] ? k->use_edge[e] : 1;
    }
}

// How far the tasks move an output, over what is allowed.
static double excursion_of(const rehearsals *r, const double *nominal, const double *idle)
{
    double most = 0;
    for (int i = 0; i < r->n; i++) {
        double allowed = r->limits.most[i % r->build->kit.n_chan];
        most = fmax(most, fabs(nominal[i] - idle[i]) / allowed);
    }
    return most;
}

// What the tasks move, and how far, into the slots after the residual.
static pf_status predict_moves(const rehearsals *r, const desk *w, const pf_predictor *predictor,
                               const pf_answer *answer, double *out, pf_error *error)
{
    const pf_kit *k = &r->build->kit;
    pf_run run = {.task = r->ask.tasks[0], .command = r->idle, .rows = r->ask.rows, .idle = true};
    pf_status status =
        predictor->run(predictor->self, &run, answer->start, answer->n_start, w->other, error);
    subtract(r, w->nominal, w->other, out);
    out[(size_t)r->n_moves * (size_t)r->n] = excursion_of(r, w->nominal, w->other);
    run = (pf_run){
        .task = r->ask.tasks[0], .command = r->ask.command, .rows = r->ask.rows, .gains = w->gains};
    for (int i = 0, move = 1; i < r->ask.n_tasks && move < r->n_moves; i++) {
        int task = r->ask.tasks[i];
        for (int e = 2 * k->task_use[task]; e < 2 * k->task_use[task + 1] && status == PF_OK; e++) {
            gains_at_edge(r, e, w->gains);
            status = predictor->run(predictor->self, &run, answer->start, answer->n_start, w->other,
                                    error);
            subtract(r, w->other, w->nominal, out + (size_t)move++ * (size_t)r->n);
        }
    }
    return status;
}

// A healthy rehearsal, uncorrected.
static pf_status run_healthy(rehearsals *r, int worker, pf_key key, double *out, pf_rest *rest,
                             pf_error *error)
{
    const pf_kit *k = &r->build->kit;
    desk *w = &r->desks[worker];
    const pf_predictor *predictor = NULL;
    pf_answer answer = {0};
    pf_machine machine = r->source->machine(r->source->self, worker, 0, 1, &predictor);
    pf_status status = machine.rehearse(machine.self, &r->ask, key, &answer, error);
    pf_predictor recorded = pf__recorded_predictor(k);
    predictor = predictor ? predictor : &recorded;
    pf_run run = {.task = r->ask.tasks[0], .command = r->ask.command, .rows = r->ask.rows};
    if (status == PF_OK) {
        status =
            predictor->run(predictor->self, &run, answer.start, answer.n_start, w->nominal, error);
    }
    if (status == PF_OK) {
        status = predict_moves(r, w, predictor, &answer, out + r->n, error);
    }
    if (status != PF_OK) {
        return status;
    }
    pf__rest_note(k, r->ask.rows, &answer, true, rest);
    subtract(r, answer.response, w->nominal, out);
    return isfinite(square_of((1 + r->n_moves) * r->n, out))
               ? PF_OK
               : pf_fail(error, PF_ERR_NONFINITE, "task '%s': its response is not finite",
                         pf_kit_task_name(k, r->ask.tasks[0]));
}

static pf_status run_rehearsal(void *self, int worker, size_t item, pf_error *error)
{
    rehearsals *r = self;
    pf_key key = pf_key_stream(r->plan->settings.seed, r->plan->environment, item,
                               PF_PURPOSE_MISFIT, r->stream);
    return run_healthy(r, worker, key, run_at(r, (int)item),
                       r->rests + item * (size_t)r->build->kit.n_chan, error);
}

static int slots_of(void *self, size_t item, pf_slot *slots)
{
    rehearsals *r = self;
    size_t n_chan = (size_t)r->build->kit.n_chan;
    slots[0] = (pf_slot){.data = run_at(r, (int)item), .size = stride_of(r) * sizeof(double)};
    slots[1] = (pf_slot){.data = r->rests + item * n_chan, .size = n_chan * sizeof *r->rests};
    return 2;
}

// Fills r->values with runs of the rehearsal at hand.
static pf_status run_all(rehearsals *r, int n_moves, int stream, pf_error *error)
{
    size_t n_chan = (size_t)r->build->kit.n_chan;
    free(r->values);
    free(r->column);
    free(r->rests);
    r->n_runs = pf__counts(r->plan).rehearsals;
    r->n_moves = n_moves;
    r->stream = (uint64_t)stream;
    r->values = calloc((size_t)r->n_runs * stride_of(r), sizeof(double));
    r->column = calloc((size_t)r->n_runs, sizeof(double));
    r->rests = calloc((size_t)r->n_runs * n_chan, sizeof *r->rests);
    if (!r->values || !r->column || !r->rests) {
        return no_memory(error);
    }
    pf_status status = pf__parallel_kept(r->source->effort, r->source->n_workers, (size_t)r->n_runs,
                                         run_rehearsal, slots_of, r, "rehearsals", error);
    for (int i = 0; i < r->n_runs && status == PF_OK; i++) {
        pf__rest_keep(r->build, r->rests + (size_t)i * n_chan);
    }
    return status;
}

// Length of number `part` of each run (0: the residual), squared; into r->column.
static void gather(rehearsals *r, int part)
{
    for (int i = 0; i < r->n_runs; i++) {
        r->column[i] = square_of(r->n, run_at(r, i) + (size_t)part * (size_t)r->n);
    }
}

// --- blind directions

// A learned model errs over a whole task, by more than the task may miss, but in few directions:
// what it misses of the free motion from a start. The directions in which it erred on healthy runs
// are found one by one, the longest error first. A rehearsal leaves out as few as it can.

// Unit vectors of the residuals in r->values, the longest first, each without those before it (Gram
// and Schmidt with pivots). Overwrites the residuals. Gives how many.
static int find_directions(rehearsals *r, int most, double *units)
{
    for (int u = 0; u < most; u++) {
        gather(r, 0);
        int longest = 0;
        for (int i = 1; i < r->n_runs; i++) {
            longest = r->column[i] > r->column[longest] ? i : longest;
        }
        double length = sqrt(r->column[longest]), *unit = units + (size_t)u * (size_t)r->n;
        if (!(length > PF_MISFIT_MIN)) {
            return u;
        }
        for (int i = 0; i < r->n; i++) {
            unit[i] = run_at(r, longest)[i] / length;
        }
        for (int i = 0; i < r->n_runs; i++) {
            pf__blind_remove(r->n, unit, run_at(r, i));
        }
    }
    return most;
}

// Square of a move without what lies along a unit vector (Nullable).
static double square_beside(int n, const double *move, const double *unit)
{
    double along = 0;
    for (int i = 0; unit && i < n; i++) {
        along += unit[i] * move[i];
    }
    return fmax(0, square_of(n, move) - along * along);
}

// Over runs: the 5 % point of the least that must be seen, without a direction (Nullable).
static double least_limit(rehearsals *r, const double *unit)
{
    double theta = pf__error_of(r->build->kit.j_min);
    for (int i = 0; i < r->n_runs; i++) {
        const double *moves = run_at(r, i) + r->n;
        r->column[i] = theta * square_beside(r->n, moves, unit);
        for (int m = 1; m < r->n_moves; m++) {
            const double *move = moves + (size_t)m * (size_t)r->n;
            r->column[i] = fmin(r->column[i], square_beside(r->n, move, unit));
        }
    }
    return pf__fit_rank(r->n_runs, r->column, .05);
}

// What noise does to D.
static double noise_of(rehearsals *r)
{
    gather(r, 0);
    double mean = pf__fit_mean(r->n_runs, r->column, NULL);
    return pf__fit_rank(r->n_runs, r->column, .99) - mean;
}

// Takes directions out of all runs until noise is small beside what must be seen, or little would
// be left to see. Gives how many.
static int remove_directions(rehearsals *r, int n_units, const double *units)
{
    double all = least_limit(r, NULL);
    for (int u = 0; u < n_units; u++) {
        const double *unit = units + (size_t)u * (size_t)r->n;
        if (noise_of(r) <= PF_BLIND_NOISE * least_limit(r, NULL) ||
            least_limit(r, unit) < PF_BLIND_LEAST * all) {
            return u;
        }
        for (int i = 0; i < r->n_runs; i++) {
            for (int part = 0; part < 1 + r->n_moves; part++) {
                pf__blind_remove(r->n, unit, run_at(r, i) + (size_t)part * (size_t)r->n);
            }
        }
    }
    return n_units;
}

// Keeps the blind directions of rehearsal `which`, which comes after those before it.
static pf_status keep_blind(rehearsals *r, int which, int n_units, const double *units,
                            pf_error *error)
{
    size_t n = (size_t)n_units * (size_t)r->n;
    if (n > (size_t)(INT32_MAX - r->n_blind)) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "the tasks are too long for the blind directions of a learned model");
    }
    double *grown = n > 0 ? realloc(r->blind, sizeof *grown * ((size_t)r->n_blind + n)) : NULL;
    if (n > 0 && !grown) {
        return no_memory(error);
    }
    if (n > 0) {
        memcpy(grown + r->n_blind, units, sizeof *units * n);
        r->blind = grown;
    }
    r->n_blind += (int)n;
    r->blind_first[which + 1] = r->n_blind;
    return PF_OK;
}

// Of a learned model: where a rehearsal does not look.
static pf_status find_blind(rehearsals *r, double **units, int *n_units, pf_error *error)
{
    int most = (int)(PF_BLIND_MOST * r->n), runs = pf__counts(r->plan).rehearsals / 2;
    most = most < runs ? most : runs;
    if (most < 1) {
        return PF_OK;
    }
    *units = malloc(sizeof **units * (size_t)most * (size_t)r->n);
    pf_status status = *units ? run_all(r, 1, STREAM_BLIND, error) : no_memory(error);
    *n_units = status == PF_OK ? find_directions(r, most, *units) : 0;
    return status;
}

// --- tasks and groups

// Runs the rehearsal in r->ask on healthy machines and fills its numbers.
static pf_status rehearse(rehearsals *r, int which, double *numbers, pf_error *error)
{
    const pf_kit *k = &r->build->kit;
    bool learned = pf__kit_starts_from_channels(k);
    int n_units = 0;
    double *units = NULL;
    r->n = r->ask.rows * k->n_chan;
    pf_status status = learned ? find_blind(r, &units, &n_units, error) : PF_OK;
    int uses = 0;
    for (int i = 0; i < r->ask.n_tasks; i++) {
        uses += k->task_use[r->ask.tasks[i] + 1] - k->task_use[r->ask.tasks[i]];
    }
    // one mechanism alone shows of a failure what it shows of the task
    int n_moves = n_units > 0 && uses > 1 ? 1 + 2 * uses : 1;
    status = status == PF_OK ? run_all(r, n_moves, STREAM_REHEARSALS, error) : status;
    if (status == PF_OK) {
        n_units = remove_directions(r, n_units, units);
        gather(r, 0);
        double mean = pf__fit_mean(r->n_runs, r->column, NULL);
        numbers[PF_REHEARSAL_MEAN] = mean;
        // a machine without noise has no spread of its own, but the return scale's rounding
        numbers[PF_REHEARSAL_SD] = fmax(pf__fit_spread(r->n_runs, r->column, mean), PF_MISFIT_MIN);
        numbers[PF_REHEARSAL_CLEAN] = pf__fit_rank(r->n_runs, r->column, .99);
        gather(r, 1);
        numbers[PF_REHEARSAL_ENERGY] = pf__fit_rank(r->n_runs, r->column, .05);
        if (n_units > 0) { // each mechanism of a task must be seen to fail, not the whole alone
            double theta = pf__error_of(k->j_min), least = least_limit(r, NULL) / theta;
            numbers[PF_REHEARSAL_ENERGY] = fmin(numbers[PF_REHEARSAL_ENERGY], least);
        }
        bool seen = numbers[PF_REHEARSAL_ENERGY] > 0;
        status = keep_blind(r, which, seen ? n_units : 0, units, error);
    }
    free(units);
    return status;
}

static pf_status rehearse_task(rehearsals *r, int task, pf_error *error)
{
    pf_kit_build *b = r->build;
    const pf_plan_task *t = &r->plan->tasks[task];
    int32_t tasks[1] = {task};
    double ones[PF_MECH_MAX], *numbers = b->rehearsal + (size_t)task * PF_REHEARSAL_NUMBERS;
    for (int j = 0; j < r->plan->n_mech; j++) {
        ones[j] = 1;
    }
    r->ask = (pf_ask){.kind = PF_ASK_REHEARSAL,
                      .probe = -1,
                      .rows = t->rows,
                      .n_tasks = 1,
                      .tasks = tasks,
                      .command = t->command,
                      .correction = ones};
    b->rehearsal_rows[task] = t->rows;
    fit_edges(b, task);
    pf_status status = rehearse(r, task, numbers, error);
    if (status == PF_OK && !(numbers[PF_REHEARSAL_ENERGY] > 0)) {
        b->rehearsal_rows[task] = 0; // some starts leave nothing to compare with
    }
    // each use counts as if it moved the outputs alone
    for (int u = b->task_use[task]; u < b->task_use[task + 1] && b->kit.n_bounded > 0; u++) {
        b->excursion[u] = 0;
        for (int i = 0; i < r->n_runs && status == PF_OK; i++) {
            b->excursion[u] = fmax(b->excursion[u], run_at(r, i)[stride_of(r) - 1]);
        }
    }
    return status;
}

// Whether a task can join a group: an open loop that can be rehearsed, moves nothing that the group
// moves already, and may act together with it.
static bool joins(const rehearsals *r, int task, const bool *moved)
{
    const pf_plan_task *t = &r->plan->tasks[task];
    int n_mech = r->plan->n_mech, acting = 0;
    bool fits = t->command && r->build->rehearsal_rows[task] > 0;
    for (int j = 0; j < n_mech; j++) {
        acting += moved[j] && j > 0;
        for (int u = 0; u < t->n_uses && moved[j]; u++) {
            fits = fits && t->uses[u] != j && !r->limits.apart[t->uses[u] * n_mech + j];
        }
    }
    for (int u = 0; u < t->n_uses; u++) {
        acting += t->uses[u] > 0;
    }
    // it may command the current mechanism without listing it
    for (int a = 0; fits && a < t->rows * n_mech; a++) {
        fits = t->command[a] == 0 || !moved[a % n_mech];
    }
    return fits && acting <= r->limits.at_once;
}

// Marks what a task moves, the current mechanism too where it is not listed.
static void mark_moved(const rehearsals *r, int task, bool *moved)
{
    const pf_plan_task *t = &r->plan->tasks[task];
    for (int u = 0; u < t->n_uses; u++) {
        moved[t->uses[u]] = true;
    }
    for (int a = 0; a < t->rows * r->plan->n_mech; a++) {
        moved[a % r->plan->n_mech] = moved[a % r->plan->n_mech] || t->command[a] != 0;
    }
}

// Divides the tasks into groups, first come first served; groups of one are left out. No group has
// more than half of the tasks: every mechanism must rest while others run, or one that is stuck
// where its task wants it would not show. first has n_tasks + 1 entries, tasks n_tasks. Gives how
// many.
static int plan_groups(const rehearsals *r, int32_t *first, int32_t *tasks)
{
    bool taken[4096] = {false};
    int n = 0, used = 0, can = 0;
    first[0] = 0;
    for (int t = 0; t < r->plan->n_tasks; t++) {
        can += r->plan->tasks[t].command && r->build->rehearsal_rows[t] > 0;
    }
    for (int start = 0; start < r->plan->n_tasks && start < 4096; start++) {
        bool moved[PF_MECH_MAX] = {false};
        int from = used;
        for (int t = start; t < r->plan->n_tasks && t < 4096; t++) {
            if (taken[t] || used - from >= (can + 1) / 2 || !joins(r, t, moved)) {
                continue;
            }
            taken[t] = true;
            tasks[used++] = t;
            mark_moved(r, t, moved);
        }
        if (used - from >= 2) {
            first[++n] = used;
        } else {
            used = from;
        }
    }
    return n;
}

static pf_status rehearse_group(rehearsals *r, int group, double *command, pf_error *error)
{
    pf_kit_build *b = r->build;
    int n_mech = r->plan->n_mech, rows = 0;
    const int32_t *tasks = b->group_task + b->group_first[group];
    int n = b->group_first[group + 1] - b->group_first[group];
    memset(command, 0, sizeof(double) * (size_t)pf__plan_most_rows(r->plan) * (size_t)n_mech);
    for (int i = 0; i < n; i++) {
        const pf_plan_task *t = &r->plan->tasks[tasks[i]];
        rows = t->rows > rows ? t->rows : rows;
        for (int a = 0; a < t->rows * n_mech; a++) {
            command[a] += t->command[a];
        }
    }
    r->ask = (pf_ask){.kind = PF_ASK_REHEARSAL,
                      .probe = -1,
                      .rows = rows,
                      .n_tasks = n,
                      .tasks = tasks,
                      .command = command};
    return rehearse(r, r->plan->n_tasks + group,
                    b->group_rehearsal + (size_t)group * PF_REHEARSAL_NUMBERS, error);
}

static pf_status rehearse_groups(rehearsals *r, double *command, pf_error *error)
{
    size_t n_tasks = (size_t)r->plan->n_tasks;
    int32_t *first = pf__arena_take(&r->arena, n_tasks + 1, sizeof *first);
    int32_t *tasks = pf__arena_take(&r->arena, n_tasks, sizeof *tasks);
    if (r->arena.failed) {
        return no_memory(error);
    }
    int n = r->source->groups ? plan_groups(r, first, tasks) : 0;
    pf_status status = pf__kit_build_groups(r->build, n, first, tasks, error);
    for (int g = 0; g < n && status == PF_OK; g++) {
        status = rehearse_group(r, g, command, error);
    }
    return status;
}

static pf_status rehearse_all(rehearsals *r, pf_error *error)
{
    const pf_plan *plan = r->plan;
    pf_kit_build *b = r->build;
    size_t commands = (size_t)pf__plan_most_rows(plan) * (size_t)plan->n_mech;
    double *command = pf__arena_take(&r->arena, commands, sizeof *command);
    r->idle = pf__arena_take(&r->arena, commands, sizeof *r->idle);
    if (r->arena.failed) {
        return no_memory(error);
    }
    pf_status status = pf__limits_read(&r->limits, plan, error);
    for (int j = 0; j < plan->n_mech && status == PF_OK; j++) {
        b->slew[j] = j > 0 ? r->limits.bounds[j].rate : INFINITY;
    }
    for (int t = 0; t < plan->n_tasks && status == PF_OK; t++) {
        status = r->source->can_rehearse(r->source->self, t) ? rehearse_task(r, t, error)
                                                             : keep_blind(r, t, 0, NULL, error);
    }
    status = status == PF_OK ? rehearse_groups(r, command, error) : status;
    if (status == PF_OK && r->n_blind > 0) {
        int n_first = plan->n_tasks + b->kit.n_groups + 1;
        status = pf__kit_build_blind(b, n_first, r->blind_first, r->blind, error);
    }
    if (status == PF_OK && plan->settings.budget3 < 0) {
        b->kit.budget3 = pf__rehearsal_budget(&b->kit);
    }
    pf__limits_free(&r->limits);
    return status;
}

static pf_status open_rehearsals(rehearsals *r, pf_source *source, pf_error *error)
{
    const pf_kit *k = &source->build->kit;
    size_t run = (size_t)pf__plan_most_rows(source->plan) * (size_t)k->n_chan, d = sizeof(double);
    *r = (rehearsals){.source = source, .plan = source->plan, .build = source->build};
    r->desks = pf__arena_take(&r->arena, (size_t)source->n_workers, sizeof *r->desks);
    for (int i = 0; r->desks && i < source->n_workers; i++) {
        r->desks[i] = (desk){.nominal = pf__arena_take(&r->arena, run, d),
                             .other = pf__arena_take(&r->arena, run, d),
                             .gains = pf__arena_take(&r->arena, (size_t)k->n_mech, d)};
    }
    // a group has two tasks at least
    r->blind_first = pf__arena_take(&r->arena, 2 * (size_t)k->n_tasks + 1, sizeof *r->blind_first);
    return r->arena.failed ? no_memory(error) : PF_OK;
}

pf_status pf__calibrate_rehearsals(pf_source *source, pf_error *error)
{
    if (source->build->kit.n_rehearse == 0) {
        return PF_OK;
    }
    rehearsals r;
    pf_status status = open_rehearsals(&r, source, error);
    status = status == PF_OK ? rehearse_all(&r, error) : status;
    free(r.values);
    free(r.column);
    free(r.rests);
    free(r.blind);
    pf__arena_free(&r.arena);
    return status;
}
