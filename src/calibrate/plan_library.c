// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *text(const pf_plan_builder *b, const char *s)
{
    return pf_arena_text(b->arena, s);
}

static double *numbers(const pf_plan_builder *b, size_t n)
{
    return pf_arena_take(b->arena, n, sizeof(double));
}

int pf__plan_find_mechanism(const pf_plan *plan, const char *reference)
{
    for (int j = 0; j < plan->n_mech; j++) {
        if (strcmp(plan->mechanisms[j].name, reference) == 0) {
            return j;
        }
    }
    char *end = NULL;
    long index = strtol(reference, &end, 10);
    bool number = end != reference && *end == 0 && reference[0] != '+' && reference[0] != ' ';
    return number && index >= 0 && index < plan->n_mech ? (int)index : -1;
}

// --- probes

static pf_status default_probes(pf_plan_builder *b)
{
    pf_plan *plan = b->plan;
    const pf_pulse *given = b->info ? b->info->probe : NULL;
    int m = plan->n_mech - 1;
    pf_plan_probe *list = pf_arena_take(b->arena, (size_t)m, sizeof *list);
    for (int q = 0; list && q < m; q++) {
        const pf_mechanism *mechanism = &plan->mechanisms[q + 1];
        double amplitude = given ? given->amplitude[q + 1] : pf__plan_quarter_range(mechanism);
        if (!isfinite(amplitude) || amplitude == 0) {
            return pf__plan_complain(
                b, (pf_place){0, 0}, "mechanism", mechanism->name,
                "has no finite limits to derive a pulse from: give `lo` and `hi`, or "
                "list `probes`");
        }
        int steps = given ? given->steps : 8, rows = given ? given->rows : 8;
        int *target = pf_arena_take(b->arena, 1, sizeof *target);
        if (target) {
            *target = q + 1;
        }
        list[q] = (pf_plan_probe){
            mechanism->name,
            rows,
            pf__plan_pulse(b, q + 1, amplitude, steps, rows, given && given->doublet),
            (given && b->info->charge ? b->info->charge[q] : .01) * rows,
            1,
            target};
    }
    plan->n_probes = m;
    plan->probes = list;
    return PF_OK;
}

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

// Mechanisms that a command moves, candidates only.
static int moved(const pf_plan *plan, int rows, const double *command, int *out)
{
    int n = 0;
    for (int j = 1; j < plan->n_mech; j++) {
        bool moves = false;
        for (int r = 0; r < rows; r++) {
            moves = moves || command[(size_t)r * (size_t)plan->n_mech + (size_t)j] != 0;
        }
        if (moves) {
            out[n++] = j;
        }
    }
    return n;
}

static pf_status within_limits(const pf_plan_builder *b, pf_place place, const char *what,
                               const char *name, int rows, const double *command)
{
    const pf_plan *plan = b->plan;
    for (int i = 0; i < rows * plan->n_mech; i++) {
        const pf_mechanism *mechanism = &plan->mechanisms[i % plan->n_mech];
        if (command[i] < mechanism->lo || command[i] > mechanism->hi) {
            char rest[160];
            snprintf(rest, sizeof rest,
                     "commands %.6g to %s in row %d, beyond its limits %.6g..%.6g", command[i],
                     mechanism->name, i / plan->n_mech, mechanism->lo, mechanism->hi);
            return pf__plan_complain(b, place, what, name, rest);
        }
    }
    return PF_OK;
}

static pf_status probe_targets(pf_plan_builder *b, const pf_config_probe *given,
                               pf_plan_probe *probe)
{
    pf_plan *plan = b->plan;
    int *targets = pf_arena_take(b->arena, (size_t)plan->n_mech, sizeof *targets);
    if (!targets) {
        return PF_OK; // reported once at the end
    }
    int n = moved(plan, probe->rows, probe->command, targets);
    if (given->targets.n > 0) {
        if (given->targets.n >= plan->n_mech) {
            return pf__plan_complain(b, given->place, "probe", given->name,
                                     "has more targets than there are candidates");
        }
        for (n = 0; n < given->targets.n; n++) {
            targets[n] = pf__plan_find_mechanism(plan, given->targets.text[n]);
            if (targets[n] < 1) {
                return pf__plan_complain(b, given->place, "target", given->targets.text[n],
                                         "is not a candidate mechanism");
            }
        }
        qsort(targets, (size_t)n, sizeof *targets, by_number);
    }
    for (int i = 1; i < n; i++) {
        if (targets[i] == targets[i - 1]) {
            return pf__plan_complain(b, given->place, "probe", given->name, "names a target twice");
        }
    }
    if (n == 0) {
        return pf__plan_complain(b, given->place, "probe", given->name,
                                 "moves no candidate mechanism: it can find nothing");
    }
    probe->n_targets = n;
    probe->targets = targets;
    return PF_OK;
}

pf_status pf__plan_given_probe(pf_plan_builder *b, const pf_config_probe *given,
                               pf_plan_probe *probe)
{
    pf_plan *plan = b->plan;
    probe->name = text(b, given->name);
    if (given->command.value) {
        if (given->command.columns != plan->n_mech) {
            char rest[96];
            snprintf(rest, sizeof rest, "has %d columns of command, there are %d mechanisms",
                     given->command.columns, plan->n_mech);
            return pf__plan_complain(b, given->place, "probe", given->name, rest);
        }
        size_t n = (size_t)given->command.rows * (size_t)plan->n_mech;
        double *command = numbers(b, n);
        if (command) {
            memcpy(command, given->command.value, n * sizeof *command);
        }
        probe->rows = given->command.rows;
        probe->command = command;
    } else {
        int j = pf__plan_find_mechanism(plan, given->pulse_mechanism);
        if (j < 1) {
            return pf__plan_complain(b, given->place, "pulse.mechanism", given->pulse_mechanism,
                                     "is not a candidate mechanism");
        }
        probe->rows = given->pulse_steps > 0 ? given->pulse_steps : 8;
        probe->command =
            pf__plan_pulse(b, j, given->pulse_amplitude, probe->rows, probe->rows, false);
    }
    if (!probe->command) {
        return PF_OK; // out of memory is reported once at the end
    }
    probe->charge = isnan(given->charge) ? .01 * probe->rows : given->charge;
    pf_status status =
        within_limits(b, given->place, "probe", given->name, probe->rows, probe->command);
    return status != PF_OK ? status : probe_targets(b, given, probe);
}

pf_status pf__plan_probes(pf_plan_builder *b)
{
    const pf_config *c = b->config;
    if (c->n_probes == 0) {
        return default_probes(b);
    }
    pf_plan_probe *list = pf_arena_take(b->arena, (size_t)c->n_probes, sizeof *list);
    for (int q = 0; list && q < c->n_probes; q++) {
        pf_status status = pf__plan_given_probe(b, &c->probes[q], &list[q]);
        if (status != PF_OK) {
            return status;
        }
    }
    b->plan->n_probes = c->n_probes;
    b->plan->probes = list;
    return PF_OK;
}

// --- tasks

// The first probe that targets a mechanism, alone if possible; NULL: none.
static const pf_plan_probe *probe_of(const pf_plan *plan, int mechanism)
{
    const pf_plan_probe *found = NULL;
    for (int q = 0; q < plan->n_probes; q++) {
        const pf_plan_probe *probe = &plan->probes[q];
        for (int t = 0; t < probe->n_targets; t++) {
            bool better = !found || (found->n_targets > 1 && probe->n_targets == 1);
            if (probe->targets[t] == mechanism && better) {
                found = probe;
            }
        }
    }
    return found;
}

// The column of one mechanism of a command, all others zero.
static double *one_column(const pf_plan_builder *b, const pf_plan_probe *probe, int mechanism)
{
    int n_mech = b->plan->n_mech;
    double *command = numbers(b, (size_t)probe->rows * (size_t)n_mech);
    for (int r = 0; command && r < probe->rows; r++) {
        command[r * n_mech + mechanism] = probe->command[r * n_mech + mechanism];
    }
    return command;
}

// One task per candidate: the first policies of a plant with measures of its own. What follows them
// are variants.
static pf_status policy_tasks(pf_plan_builder *b)
{
    pf_plan *plan = b->plan;
    int m = plan->n_mech - 1;
    pf_plan_task *list = pf_arena_take(b->arena, (size_t)m, sizeof *list);
    for (int t = 0; list && t < m; t++) {
        const pf_policy *policy = &b->info->policies[t];
        int *uses = pf_arena_take(b->arena, (size_t)policy->n_mechanisms, sizeof *uses);
        for (int u = 0; uses && u < policy->n_mechanisms; u++) {
            uses[u] = policy->mechanisms[u];
        }
        list[t] = (pf_plan_task){.name = text(b, policy->name),
                                 .n_uses = policy->n_mechanisms,
                                 .uses = uses,
                                 .policy = text(b, policy->name),
                                 .policy_index = t,
                                 .rows = policy->rows,
                                 .reveal = 1.0 / m,
                                 .importance = 1};
    }
    plan->n_tasks = m;
    plan->tasks = list;
    return PF_OK;
}

static pf_status default_tasks(pf_plan_builder *b)
{
    pf_plan *plan = b->plan;
    if (b->info && b->info->n_metrics > 0 && !b->info->task &&
        b->info->n_policies >= plan->n_mech - 1) {
        return policy_tasks(b);
    }
    const pf_pulse *given = b->info && b->config->n_probes == 0 ? b->info->task : NULL;
    int m = plan->n_mech - 1, n = 0;
    pf_plan_task *list = pf_arena_take(b->arena, (size_t)m, sizeof *list);
    for (int j = 1; list && j <= m; j++) {
        const pf_plan_probe *probe = probe_of(plan, j);
        if (!given && !probe) {
            return pf__plan_complain(b, (pf_place){0, 0}, "mechanism", plan->mechanisms[j].name,
                                     "has no probe: add one, or list `tasks`");
        }
        int *use = pf_arena_take(b->arena, 1, sizeof *use);
        if (use) {
            *use = j;
        }
        pf_plan_task *task = &list[n++];
        *task = (pf_plan_task){
            .name = plan->mechanisms[j].name,
            .n_uses = 1,
            .uses = use,
            .policy = "",
            .policy_index = -1,
            .reveal = b->info && b->info->reveal ? b->info->reveal[j - 1] : 1.0 / m,
            .importance = b->info && b->info->importance ? b->info->importance[j - 1] : 1};
        task->rows = given ? given->rows : probe->rows;
        task->command = given ? pf__plan_pulse(b, j, given->amplitude[j], given->steps, given->rows,
                                               given->doublet)
                              : one_column(b, probe, j);
    }
    plan->n_tasks = n;
    plan->tasks = list;
    return PF_OK;
}

static pf_status task_policy(pf_plan_builder *b, const pf_config_task *given, pf_plan_task *task)
{
    const pf_plant_info *info = b->info;
    for (int i = 0; info && i < info->n_policies; i++) {
        if (strcmp(info->policies[i].name, given->policy) == 0) {
            task->policy = text(b, given->policy);
            task->policy_index = i;
            task->rows = info->policies[i].rows;
            return PF_OK;
        }
    }
    return pf__plan_complain(b, given->place, "policy", given->policy,
                             "is not offered by the plant");
}

static pf_status task_command(pf_plan_builder *b, const pf_config_task *given, pf_plan_task *task)
{
    pf_plan *plan = b->plan;
    if (given->policy) {
        return task_policy(b, given, task);
    }
    if (given->command.value) {
        if (given->command.columns != plan->n_mech) {
            return pf__plan_complain(
                b, given->place, "task", given->name,
                "has another number of command columns than there are mechanisms");
        }
        size_t n = (size_t)given->command.rows * (size_t)plan->n_mech;
        double *command = numbers(b, n);
        if (command) {
            memcpy(command, given->command.value, n * sizeof *command);
        }
        task->rows = given->command.rows;
        task->command = command;
        return PF_OK;
    }
    if (given->mechanisms.n != 1) {
        return pf__plan_complain(
            b, given->place, "task", given->name,
            "needs a `command` or `policy` unless it uses exactly one mechanism");
    }
    int j = pf__plan_find_mechanism(plan, given->mechanisms.text[0]);
    const pf_plan_probe *probe = j > 0 ? probe_of(plan, j) : NULL;
    if (!probe) {
        return pf__plan_complain(b, given->place, "task", given->name,
                                 "has no command and no probe to take it from");
    }
    task->rows = probe->rows;
    task->command = one_column(b, probe, j);
    return PF_OK;
}

static bool commands_mechanism(const pf_plan *plan, const pf_plan_task *task, int j)
{
    for (int r = 0; task->command && r < task->rows; r++) {
        if (task->command[r * plan->n_mech + j] != 0) {
            return true;
        }
    }
    return !task->command;
}

static pf_status task_uses(pf_plan_builder *b, const pf_config_task *given, pf_plan_task *task)
{
    pf_plan *plan = b->plan;
    int *uses = pf_arena_take(b->arena, (size_t)plan->n_mech, sizeof *uses);
    if (!uses || (!task->command && task->policy_index < 0)) {
        return PF_OK; // out of memory
    }
    int n = task->command ? moved(plan, task->rows, task->command, uses) : 0;
    if (given->mechanisms.n > 0) {
        // every candidate the command moves must be named, or its loss would go unnoticed
        int named = 0;
        for (int i = 0; i < given->mechanisms.n; i++) {
            int j = pf__plan_find_mechanism(plan, given->mechanisms.text[i]);
            if (j < 0) {
                return pf__plan_complain(b, given->place, "mechanism", given->mechanisms.text[i],
                                         "is not one of the machine's");
            }
            if (!commands_mechanism(plan, task, j)) {
                return pf__plan_complain(b, given->place, "task", given->name,
                                         "uses a mechanism that its command never moves");
            }
            for (int k = 0; k < n; k++) {
                named += uses[k] == j;
            }
        }
        if (task->command && named < n) {
            return pf__plan_complain(b, given->place, "task", given->name,
                                     "moves a candidate mechanism that it does not list");
        }
        for (n = 0; n < given->mechanisms.n && n < plan->n_mech; n++) {
            uses[n] = pf__plan_find_mechanism(plan, given->mechanisms.text[n]);
        }
        qsort(uses, (size_t)n, sizeof *uses, by_number);
        for (int i = 1; i < n; i++) {
            if (uses[i] == uses[i - 1]) {
                return pf__plan_complain(b, given->place, "task", given->name,
                                         "lists a mechanism twice");
            }
        }
    } else if (task->policy_index >= 0) {
        const pf_policy *policy = &b->info->policies[task->policy_index];
        for (n = 0; n < policy->n_mechanisms && n < plan->n_mech; n++) {
            uses[n] = policy->mechanisms[n];
        }
    }
    if (n == 0) {
        return pf__plan_complain(b, given->place, "task", given->name, "uses no mechanism");
    }
    task->n_uses = n;
    task->uses = uses;
    return PF_OK;
}

pf_status pf__plan_tasks(pf_plan_builder *b)
{
    const pf_config *c = b->config;
    pf_plan *plan = b->plan;
    if (c->n_tasks == 0) {
        return default_tasks(b);
    }
    pf_plan_task *list = pf_arena_take(b->arena, (size_t)c->n_tasks, sizeof *list);
    for (int t = 0; list && t < c->n_tasks; t++) {
        const pf_config_task *given = &c->tasks[t];
        list[t] = (pf_plan_task){.name = text(b, given->name),
                                 .policy = "",
                                 .policy_index = -1,
                                 .reveal = isnan(given->reveal) ? 1.0 / c->n_tasks : given->reveal,
                                 .importance = isnan(given->importance) ? 1 : given->importance};
        pf_status status = task_command(b, given, &list[t]);
        if (status == PF_OK && list[t].command) {
            status =
                within_limits(b, given->place, "task", given->name, list[t].rows, list[t].command);
        }
        if (status == PF_OK) {
            status = task_uses(b, given, &list[t]);
        }
        if (status != PF_OK) {
            return status;
        }
    }
    plan->n_tasks = c->n_tasks;
    plan->tasks = list;
    return PF_OK;
}
