// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "source.h"

#include "host/arena.h"

#include <string.h>

// A fault strong enough that any effect shows.
static const double weak = .15;

typedef struct checker {
    const pf_plan *plan;
    pf_plant *plant;
    double *gains; // n_mech
    double *one;   // outputs of two trajectories
    double *other;
    pf_error *error;
} checker;

// Runs the same trajectory healthy and with mechanism j weak; tells whether any bit differs.
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
    pf_trace trace = {.output = c->one};
    pf_status status = pf_plant_roll(c->plant, roll, &trace, c->error);
    if (status != PF_OK) {
        return status;
    }
    c->gains[mechanism] = weak;
    trace.output = c->other;
    status = pf_plant_roll(c->plant, roll, &trace, c->error);
    size_t n = (size_t)roll->rows * (size_t)info->n_chan;
    *differ = memcmp(c->one, c->other, n * sizeof(double)) != 0;
    return status;
}

static pf_status check_dormancy(checker *c)
{
    const pf_plan *plan = c->plan;
    pf_roll roll = pf_roll_default();
    roll.command = plan->passive;
    roll.rows = plan->passive_rows;
    for (int j = 1; j < plan->n_mech; j++) {
        bool differ = false;
        pf_status status = compare(c, &roll, j, true, &differ);
        if (status != PF_OK) {
            return status;
        }
        if (differ) {
            return pf_fail(c->error, PF_ERR_PLANT,
                           "plant %s: passive data change when mechanism '%s' is weak, so it is "
                           "not dormant (or equal seeds do not give equal data)",
                           plan->plant, plan->mechanisms[j].name);
        }
    }
    return PF_OK;
}

static pf_status check_probes(checker *c)
{
    const pf_plan *plan = c->plan;
    for (int q = 0; q < plan->n_probes; q++) {
        const pf_plan_probe *probe = &plan->probes[q];
        pf_roll roll = pf_roll_default();
        roll.command = probe->command;
        roll.rows = probe->rows;
        for (int t = 0; t < probe->n_targets; t++) {
            bool differ = false;
            pf_status status = compare(c, &roll, probe->targets[t], false, &differ);
            if (status != PF_OK) {
                return status;
            }
            if (!differ) {
                return pf_fail(c->error, PF_ERR_DEGENERATE,
                               "probe '%s' shows nothing of mechanism '%s': its response is the "
                               "same at gain %g",
                               probe->name, plan->mechanisms[probe->targets[t]].name, weak);
            }
        }
    }
    return PF_OK;
}

static pf_status check_tasks(checker *c)
{
    const pf_plan *plan = c->plan;
    for (int t = 0; t < plan->n_tasks; t++) {
        const pf_plan_task *task = &plan->tasks[t];
        pf_roll roll = pf_roll_default();
        roll.command = task->command;
        roll.rows = task->rows;
        roll.policy = task->policy_index;
        for (int u = 0; u < task->n_uses; u++) {
            bool differ = false;
            pf_status status = compare(c, &roll, task->uses[u], false, &differ);
            if (status != PF_OK) {
                return status;
            }
            if (!differ) {
                return pf_fail(c->error, PF_ERR_DEGENERATE,
                               "task '%s' does not need mechanism '%s': its outcome is the same at "
                               "gain %g",
                               task->name, plan->mechanisms[task->uses[u]].name, weak);
            }
        }
    }
    return PF_OK;
}

static int most_rows(const pf_plan *plan)
{
    int most = plan->passive_rows;
    for (int q = 0; q < plan->n_probes; q++) {
        most = plan->probes[q].rows > most ? plan->probes[q].rows : most;
    }
    for (int t = 0; t < plan->n_tasks; t++) {
        most = plan->tasks[t].rows > most ? plan->tasks[t].rows : most;
    }
    return most;
}

pf_status pf_contract_check(const pf_plan *plan, pf_plant *plant, pf_error *error)
{
    pf_arena arena = {0};
    size_t n = (size_t)most_rows(plan) * (size_t)plan->n_chan;
    checker c = {plan, plant, NULL, NULL, NULL, error};
    c.gains = pf_arena_take(&arena, (size_t)plan->n_mech, sizeof(double));
    c.one = pf_arena_take(&arena, n, sizeof(double));
    c.other = pf_arena_take(&arena, n, sizeof(double));
    pf_status status = arena.failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory") : PF_OK;
    if (status == PF_OK) {
        status = check_dormancy(&c);
    }
    if (status == PF_OK) {
        status = check_probes(&c);
    }
    if (status == PF_OK) {
        status = check_tasks(&c);
    }
    pf_arena_free(&arena);
    return status;
}
