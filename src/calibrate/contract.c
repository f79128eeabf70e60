// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "doctor.h"
#include "source.h"

#include "host/arena.h"
#include "plant/plant_impl.h"

#include <stdlib.h>

typedef struct checker {
    const pf_plan *plan;
    pf_plant *plant;
    double *gains; // n_mech
    double *one;   // outputs of two trajectories
    double *other;
    double tolerance;
    const char *kind, *name; // of what is run, for messages. Nullable: name
    const pf_effort *effort;
    size_t done, total; // comparisons
    pf_error *error;
} checker;

static pf_status run(checker *c, const pf_roll *roll, double *out)
{
    pf_status status = pf_plant_roll(c->plant, roll, &(pf_trace){.output = out}, c->error);
    return pf__name_failure(pf_plant_get_info(c->plant), c->kind, c->name, roll->gains, status,
                            c->error);
}

// Runs the same trajectory healthy and with mechanism j weak; tells whether they differ.
static pf_status compare(checker *c, pf_roll *roll, int mechanism, bool noisy, bool *differ)
{
    const pf_plant_info *info = pf_plant_get_info(c->plant);
    for (int j = 0; j < info->n_mech; j++) {
        c->gains[j] = 1;
    }
    roll->gains = c->gains;
    roll->disturbance = noisy;
    roll->sensor_noise = noisy ? 1 : 0;
    roll->key = pf_key_stream(c->plan->settings.seed, pf_plant_environment(info),
                              (uint64_t)mechanism, PF_PURPOSE_CONTRACT, 0);
    pf_status status = run(c, roll, c->one);
    if (status != PF_OK) {
        return status;
    }
    c->gains[mechanism] = PF_WEAK_GAIN;
    status = run(c, roll, c->other);
    double most = 0;
    if (status == PF_OK) {
        pf__differs(roll->rows, info->n_chan, c->one, c->other, 0, &most, NULL);
        c->gains[mechanism] = 1;
        status = pf__rounding_tolerance(c->plan, c->plant, roll, most, &c->tolerance, c->error);
        *differ = pf__differs(roll->rows, info->n_chan, c->one, c->other, c->tolerance, NULL, NULL);
    }
    return status ? status : pf__step(c->effort, "contract", ++c->done, c->total, c->error);
}

// The first of n mechanisms whose loss shows or does not show; -1: none.
static pf_status find_first(checker *c, pf_roll *roll, int n, const int *mechanisms, bool shows,
                            int *found)
{
    *found = -1;
    for (int i = 0; i < n && *found < 0; i++) {
        int j = mechanisms[i];
        bool differ = false;
        pf_status status = compare(c, roll, j, shows, &differ);
        if (status != PF_OK) {
            return status;
        }
        *found = differ == shows ? j : -1;
    }
    return PF_OK;
}

static pf_status check_dormancy(checker *c)
{
    const pf_plan *plan = c->plan;
    pf_roll roll = pf_roll_default();
    roll.command = plan->passive;
    roll.rows = plan->passive_rows;
    c->kind = "passive data";
    c->name = NULL;
    // what loses force loses what it holds at rest too, and is as dormant as its load lets it
    int n = 0, j = -1, *dormant = malloc((size_t)plan->n_mech * sizeof *dormant);
    if (!dormant) {
        return pf_fail(c->error, PF_ERR_MEMORY, "out of memory");
    }
    for (int i = 1; i < plan->n_mech; i++) {
        if (!pf__plant_loses_force(pf_plant_get_info(c->plant), i)) {
            dormant[n++] = i;
        }
    }
    pf_status status = find_first(c, &roll, n, dormant, true, &j);
    free(dormant);
    return j < 0 ? status
                 : pf_fail(c->error, PF_ERR_PLANT,
                           "plant %s: passive data change when mechanism '%s' is weak, so it is "
                           "not dormant",
                           plan->plant, plan->mechanisms[j].name);
}

static pf_status check_probe(checker *c, const pf_plan_probe *probe)
{
    pf_roll roll = pf__plan_probe_roll(probe, pf_plant_get_info(c->plant));
    c->kind = "probe";
    c->name = probe->name;
    int j = -1;
    pf_status status = find_first(c, &roll, probe->n_targets, probe->targets, false, &j);
    return j < 0 ? status
                 : pf_fail(c->error, PF_ERR_DEGENERATE,
                           "probe '%s' shows nothing of mechanism '%s': its response is the same "
                           "at gain %g",
                           probe->name, c->plan->mechanisms[j].name, PF_WEAK_GAIN);
}

static pf_status check_task(checker *c, const pf_plan_task *task)
{
    pf_roll roll = pf_roll_default();
    roll.command = task->command;
    roll.rows = task->rows;
    roll.policy = task->policy_index;
    c->kind = "task";
    c->name = task->name;
    int j = -1;
    pf_status status = find_first(c, &roll, task->n_uses, task->uses, false, &j);
    return j < 0 ? status
                 : pf_fail(c->error, PF_ERR_DEGENERATE,
                           "task '%s' does not need mechanism '%s': its outcome is the same at "
                           "gain %g",
                           task->name, c->plan->mechanisms[j].name, PF_WEAK_GAIN);
}

// How much work the checks are, and memory for them. all: of probes and tasks too.
static bool open_checker(checker *c, bool all, pf_arena *arena)
{
    const pf_plan *plan = c->plan;
    int most = pf__plan_most_rows(plan);
    size_t rows = (size_t)(plan->passive_rows > most ? plan->passive_rows : most);
    size_t n = rows * (size_t)plan->n_chan;
    c->total = (size_t)plan->n_mech - 1;
    for (int q = 0; q < plan->n_probes && all; q++) {
        c->total += (size_t)plan->probes[q].n_targets;
    }
    for (int t = 0; t < plan->n_tasks && all; t++) {
        c->total += (size_t)plan->tasks[t].n_uses;
    }
    c->gains = pf__arena_take(arena, (size_t)plan->n_mech, sizeof(double));
    c->one = pf__arena_take(arena, n, sizeof(double));
    c->other = pf__arena_take(arena, n, sizeof(double));
    return !arena->failed;
}

// What is a matter of the plant alone.
static pf_status check_plant(checker *c)
{
    pf_repeat repeat[PF_REPEAT_WAYS];
    enum { WAYS = PF_REPEAT_INSTANCE }; // another instance may take seconds to start
    pf_status status = pf__plant_repeats(c->plan, c->plant, WAYS, repeat, c->error);
    status = status ? status : pf__repeat_tolerance(c->plan, repeat, WAYS, &c->tolerance, c->error);
    return status ? status : check_dormancy(c);
}

pf_status pf__contract_check(const pf_plan *plan, pf_plant *plant, bool all,
                             const pf_effort *effort, double *tolerance, pf_error *error)
{
    pf_arena arena = {0};
    checker c = {.plan = plan, .plant = plant, .effort = effort, .error = error};
    pf_status status = open_checker(&c, all, &arena)
                           ? check_plant(&c)
                           : pf_fail(error, PF_ERR_MEMORY, "out of memory");
    for (int q = 0; q < plan->n_probes && all && status == PF_OK; q++) {
        status = check_probe(&c, &plan->probes[q]);
    }
    for (int t = 0; t < plan->n_tasks && all && status == PF_OK; t++) {
        status = check_task(&c, &plan->tasks[t]);
    }
    if (tolerance) {
        *tolerance = c.tolerance;
    }
    pf__arena_free(&arena);
    return status;
}
