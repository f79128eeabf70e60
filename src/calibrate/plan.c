// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "plan.h"
#include "plant/plant_impl.h"

#include "core/method.h"
#include "host/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Resolves a configuration against what a plant tells of itself. Whatever is not given gets the
// default of a field kit.

// "file:line:column: what 'name' rest" in the builder's error.
static pf_status complain(const pf_plan_builder *b, pf_place place, const char *what,
                          const char *name, const char *rest)
{
    if (place.line > 0) {
        return pf_fail(b->error, PF_ERR_ARGUMENT, "%s:%d:%d: %s '%s' %s", b->config->file,
                       place.line, place.column, what, name, rest);
    }
    return pf_fail(b->error, PF_ERR_ARGUMENT, "%s '%s' %s", what, name, rest);
}

static char *text(const pf_plan_builder *b, const char *s)
{
    return pf__arena_text(b->arena, s);
}

// How high a pulse of the plant's own is; where it has none, or the plant does not know the limits
// that the configuration gives, a quarter of the range.
static double pulse_amplitude(const pf_plan_builder *b, const pf_pulse *given, int mechanism)
{
    return given && isfinite(given->amplitude[mechanism])
               ? given->amplitude[mechanism]
               : pf__quarter_range(&b->plan->mechanisms[mechanism]);
}

// A pulse on one mechanism, all others zero; rows x n_mech from the arena.
static double *pulse_command(const pf_plan_builder *b, int mechanism, double amplitude, int steps,
                             int rows, bool doublet)
{
    int n_mech = b->plan->n_mech;
    double *command = pf__arena_take(b->arena, (size_t)rows * (size_t)n_mech, sizeof *command);
    for (int r = 0; command && r < steps; r++) {
        command[r * n_mech + mechanism] = doublet && r >= steps / 2 ? -amplitude : amplitude;
    }
    return command;
}

// --- the machine

// Limits of a configuration may be closer than the plant's own. Wider ones would promise commands
// that it clips.
static pf_status check_limits(const pf_plan_builder *b, int j, const pf_mechanism *wanted)
{
    const pf_config *c = b->config;
    pf_place place = c->n_mechanisms > 0 ? c->mechanisms[j].place : (pf_place){0, 0};
    if (!(wanted->lo <= wanted->hi)) {
        return complain(b, place, "mechanism", wanted->name, "has lo above hi");
    }
    if (b->info &&
        (wanted->lo < b->info->mechanisms[j].lo || wanted->hi > b->info->mechanisms[j].hi)) {
        char why[160];
        pf__print(why, sizeof why, "has limits %g .. %g, the plant clips at %g .. %g", wanted->lo,
                  wanted->hi, b->info->mechanisms[j].lo, b->info->mechanisms[j].hi);
        return complain(b, place, "mechanism", wanted->name, why);
    }
    return PF_OK;
}

static pf_status build_mechanisms(pf_plan_builder *b)
{
    const pf_config *c = b->config;
    pf_plan *plan = b->plan;
    if (c->n_mechanisms == 0 && !b->info) {
        return pf_fail(b->error, PF_ERR_ARGUMENT,
                       "%s: `mechanisms` is needed for a machine that is not a registered plant",
                       c->file);
    }
    if (c->n_mechanisms > 0 && b->info && c->n_mechanisms != b->info->n_mech) {
        return pf_fail(b->error, PF_ERR_ARGUMENT, "%s: %d mechanisms are listed, plant %s has %d",
                       c->file, c->n_mechanisms, b->info->name, b->info->n_mech);
    }
    plan->n_mech = c->n_mechanisms > 0 ? c->n_mechanisms : b->info->n_mech;
    if (plan->n_mech < 2) {
        return pf_fail(b->error, PF_ERR_ARGUMENT,
                       "%s: `mechanisms` needs the current one and at least one candidate",
                       c->file);
    }
    pf_mechanism *list = pf__arena_take(b->arena, (size_t)plan->n_mech, sizeof *list);
    for (int j = 0; list && j < plan->n_mech; j++) {
        list[j] = b->info ? b->info->mechanisms[j] : (pf_mechanism){"", -INFINITY, INFINITY};
        if (c->n_mechanisms > 0) {
            const pf_config_mechanism *given = &c->mechanisms[j];
            list[j].name = given->name;
            list[j].lo = isnan(given->lo) ? list[j].lo : given->lo;
            list[j].hi = isnan(given->hi) ? list[j].hi : given->hi;
        }
        list[j].name = text(b, list[j].name);
        pf_status status = check_limits(b, j, &list[j]);
        if (status != PF_OK) {
            return status;
        }
    }
    plan->mechanisms = list;
    return PF_OK;
}

static pf_status build_channels(pf_plan_builder *b)
{
    const pf_config *c = b->config;
    pf_plan *plan = b->plan;
    if (c->n_channels == 0 && !b->info) {
        return PF_OK; // recordings name them
    }
    if (c->n_channels > 0 && b->info && c->n_channels != b->info->n_chan) {
        return pf_fail(b->error, PF_ERR_ARGUMENT, "%s: %d channels are listed, plant %s has %d",
                       c->file, c->n_channels, b->info->name, b->info->n_chan);
    }
    plan->n_chan = c->n_channels > 0 ? c->n_channels : b->info->n_chan;
    pf_channel *list = pf__arena_take(b->arena, (size_t)plan->n_chan, sizeof *list);
    for (int i = 0; list && i < plan->n_chan; i++) {
        list[i] = b->info ? b->info->channels[i] : (pf_channel){"", 0, 0};
        if (c->n_channels > 0) {
            list[i].name = c->channels[i].name;
            list[i].scale = isnan(c->channels[i].scale) ? list[i].scale : c->channels[i].scale;
        }
        list[i].name = text(b, list[i].name);
    }
    plan->channels = list;
    return PF_OK;
}

// --- settings

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Gains of the settings, or that many points on [.15, .95].
static double grid_point(const pf_settings *settings, int n, int k)
{
    return settings->grid.n > 1 ? settings->grid.value[k] : .15 + .8 * k / (n - 1);
}

void pf__plan_set_grid(pf_plan *plan, pf_arena *arena, int n, const double *points)
{
    const pf_settings *s = &plan->settings;
    double g_cal = s->g_cal;
    if (!points) {
        n = s->grid.n > 1 ? s->grid.n : (int)pf__settings_number(&s->grid);
    }
    double *grid = pf__arena_take(arena, (size_t)n + 2, sizeof *grid); // g_cal and 1 may join
    bool has_g_cal = false;
    for (int k = 0; grid && k < n; k++) {
        grid[k] = points ? points[k] : grid_point(s, n, k);
        if (fabs(grid[k] - g_cal) < 1e-9) {
            grid[k] = g_cal;
            has_g_cal = true;
        }
    }
    if (grid && !has_g_cal) {
        grid[n++] = g_cal;
        qsort(grid, (size_t)n, sizeof *grid, by_value);
    }
    if (grid && s->grid_one == PF_GRID_WITH_ONE && grid[n - 1] < 1) {
        grid[n++] = 1;
    }
    plan->n_grid = n;
    plan->grid = grid;
}

static pf_status build_prior(pf_plan *plan, pf_arena *arena, pf_error *error)
{
    const pf_config_numbers *given = &plan->settings.prior;
    int n = plan->n_mech;
    double *prior = pf__arena_take(arena, (size_t)n, sizeof *prior);
    if (given->n > 1 && given->n != n) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "%s: prior: %d probabilities for %d hypotheses (0 is \"nothing changed\")",
                       plan->config->file, given->n, n);
    }
    double change = pf__settings_number(given);
    for (int i = 0; prior && i < n; i++) {
        prior[i] = given->n > 1 ? given->value[i] : i == 0 ? 1 - change : change / (n - 1);
    }
    plan->prior = prior;
    return PF_OK;
}

pf_status pf__plan_take_settings(pf_plan *plan, const pf_settings *given, pf_error *error)
{
    pf_arena *arena = plan->memory;
    pf__settings_take(&plan->settings, given, arena);
    pf__plan_set_grid(plan, arena, 0, NULL);
    pf_status status = build_prior(plan, arena, error);
    return status == PF_OK && arena->failed
               ? pf_fail(error, PF_ERR_MEMORY, "out of memory for the plan")
               : status;
}

static pf_status build_settings(pf_plan_builder *b)
{
    const pf_config *c = b->config;
    pf_plan *p = b->plan;
    int m = p->n_mech - 1;
    p->plant = text(b, c->plant ? c->plant : b->info ? b->info->name : "recordings");
    p->environment = b->info ? text(b, pf_plant_environment(b->info)) : p->plant;
    p->folder = b->info && b->info->folder ? text(b, b->info->folder) : NULL;
    p->n_state = b->info ? b->info->n_state : 0;
    p->method = "eg-mpt";
    p->settings = pf__settings_default(PF_SETTINGS_FIELD);
    p->settings.budget1 = 2 * m > 8 ? 2 * m : 8;
    bool own_noise = b->info && b->info->channels[0].noise_sd > 0;
    p->settings.sensor_noise = own_noise ? 1 : b->info ? b->info->sensor_noise : 0;
    return pf__plan_take_settings(p, &c->settings, b->error);
}

// What today's controller does: a pulse on the current mechanism where one is known.
static void build_passive(pf_plan_builder *b)
{
    const pf_pulse *pulse_known = b->info ? b->info->probe : NULL;
    double amplitude = pulse_amplitude(b, pulse_known, 0);
    b->plan->passive_rows = pulse_known ? pulse_known->rows : 8;
    b->plan->passive = pulse_command(b, 0, isfinite(amplitude) ? amplitude : 0,
                                     pulse_known ? pulse_known->steps : 8, b->plan->passive_rows,
                                     pulse_known && pulse_known->doublet);
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

// Whether a pulse can be derived from the limits of every candidate.
static bool has_pulses(const pf_plan *plan)
{
    for (int j = 1; j < plan->n_mech; j++) {
        double amplitude = pf__quarter_range(&plan->mechanisms[j]);
        if (!isfinite(amplitude) || amplitude == 0) {
            return false;
        }
    }
    return true;
}

static pf_status default_probes(pf_plan_builder *b)
{
    pf_plan *plan = b->plan;
    const pf_pulse *given = b->info ? b->info->probe : NULL;
    int m = plan->n_mech - 1;
    pf_plan_probe *list = pf__arena_take(b->arena, (size_t)m, sizeof *list);
    for (int q = 0; list && q < m; q++) {
        const pf_mechanism *mechanism = &plan->mechanisms[q + 1];
        double amplitude = pulse_amplitude(b, given, q + 1);
        if (!isfinite(amplitude) || amplitude == 0) {
            return complain(b, (pf_place){0, 0}, "mechanism", mechanism->name,
                            "has no finite limits to derive a pulse from: give `lo` and `hi`, or "
                            "list `probes`, in the file of `calibrate --config`");
        }
        int steps = given ? given->steps : 8, rows = given ? given->rows : 8;
        int *target = pf__arena_take(b->arena, 1, sizeof *target);
        if (target) {
            *target = q + 1;
        }
        list[q] = (pf_plan_probe){
            .name = mechanism->name,
            .rows = rows,
            .command = pulse_command(b, q + 1, amplitude, steps, rows, given && given->doublet),
            .charge = (given && b->info->charge ? b->info->charge[q] : .01) * rows,
            .n_targets = 1,
            .targets = target};
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
            pf__print(rest, sizeof rest,
                      "commands %.6g to %s in row %d, beyond its limits %.6g..%.6g", command[i],
                      mechanism->name, i / plan->n_mech, mechanism->lo, mechanism->hi);
            return complain(b, place, what, name, rest);
        }
    }
    return PF_OK;
}

// A closed loop that a probe or task names; -1: refused.
static pf_status find_loop(const pf_plan_builder *b, pf_place place, const char *name, int *policy)
{
    const pf_plant_info *info = b->info;
    *policy = info ? pf__plant_policy(info, name) : -1;
    if (*policy >= 0) {
        return PF_OK;
    }
    char rest[200] = "is not offered by the plant";
    size_t n = strlen(rest);
    for (int i = 0; info && i < info->n_policies && n < sizeof rest; i++) {
        n += (size_t)snprintf(rest + n, sizeof rest - n, "%s %s", i == 0 ? ", which has" : ",",
                              info->policies[i].name);
    }
    return complain(b, place, "policy", name, rest);
}

// The candidates that a loop acts on.
static int loop_targets(const pf_policy *policy, int *targets)
{
    int n = 0;
    for (int i = 0; i < policy->n_mechanisms; i++) {
        if (policy->mechanisms[i] > 0) {
            targets[n++] = policy->mechanisms[i];
        }
    }
    qsort(targets, (size_t)n, sizeof *targets, by_number);
    return n;
}

pf_roll pf__plan_probe_roll(const pf_plan_probe *probe, const pf_plant_info *info)
{
    pf_roll roll = pf_roll_default();
    roll.rows = probe->rows;
    roll.command = probe->policy ? NULL : probe->command;
    roll.policy = probe->policy ? pf__plant_policy(info, probe->policy) : -1;
    return roll;
}

static pf_status probe_targets(pf_plan_builder *b, const pf_config_probe *given,
                               pf_plan_probe *probe)
{
    pf_plan *plan = b->plan;
    int *targets = pf__arena_take(b->arena, (size_t)plan->n_mech, sizeof *targets);
    if (!targets) {
        return PF_OK; // reported once at the end
    }
    int n =
        probe->policy
            ? loop_targets(&b->info->policies[pf__plant_policy(b->info, probe->policy)], targets)
            : moved(plan, probe->rows, probe->command, targets);
    if (given->targets.n > 0) {
        if (given->targets.n >= plan->n_mech) {
            return complain(b, given->place, "probe", given->name,
                            "has more targets than there are candidates");
        }
        for (n = 0; n < given->targets.n; n++) {
            targets[n] = pf__plan_find_mechanism(plan, given->targets.text[n]);
            if (targets[n] < 1) {
                return complain(b, given->place, "target", given->targets.text[n],
                                "is not a candidate mechanism");
            }
        }
        qsort(targets, (size_t)n, sizeof *targets, by_number);
    }
    for (int i = 1; i < n; i++) {
        if (targets[i] == targets[i - 1]) {
            return complain(b, given->place, "probe", given->name, "names a target twice");
        }
    }
    if (n == 0) {
        return complain(b, given->place, "probe", given->name,
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
            return complain(b, given->place, "probe", given->name, rest);
        }
        size_t n = (size_t)given->command.rows * (size_t)plan->n_mech;
        double *command = pf__arena_take(b->arena, n, sizeof *command);
        if (command) {
            memcpy(command, given->command.value, n * sizeof *command);
        }
        probe->rows = given->command.rows;
        probe->command = command;
    } else if (given->policy) {
        int loop = -1;
        pf_status status = find_loop(b, given->place, given->policy, &loop);
        if (status != PF_OK) {
            return status;
        }
        if (b->info->n_metrics > 0) {
            return complain(b, given->place, "policy", given->policy,
                            "is measured inside the plant and shows no response to probe with");
        }
        probe->policy = text(b, given->policy);
        int rows = b->info->policies[loop].rows;
        if (given->rows > rows) {
            char rest[96];
            snprintf(rest, sizeof rest, "has %d rows, not %d", rows, given->rows);
            return complain(b, given->place, "policy", given->policy, rest);
        }
        probe->rows = given->rows > 0 ? given->rows : rows;
        probe->command = pf__arena_take(b->arena, (size_t)probe->rows * (size_t)plan->n_mech,
                                        sizeof *probe->command);
    } else {
        int j = pf__plan_find_mechanism(plan, given->pulse_mechanism);
        if (j < 1) {
            return complain(b, given->place, "pulse.mechanism", given->pulse_mechanism,
                            "is not a candidate mechanism");
        }
        int steps = given->pulse_steps > 0 ? given->pulse_steps : PF_PULSE_STEPS;
        probe->rows = given->pulse_rows > 0 ? given->pulse_rows : steps;
        probe->command = pulse_command(b, j, given->pulse_amplitude, steps, probe->rows, false);
    }
    if (!probe->command) {
        return PF_OK; // out of memory is reported once at the end
    }
    probe->charge = isnan(given->charge) ? .01 * probe->rows : given->charge;
    pf_status status = probe->policy ? PF_OK
                                     : within_limits(b, given->place, "probe", given->name,
                                                     probe->rows, probe->command);
    return status != PF_OK ? status : probe_targets(b, given, probe);
}

static pf_status build_probes(pf_plan_builder *b)
{
    const pf_config *c = b->config;
    if (c->n_probes == 0) {
        b->plan->probes_open = b->info == NULL;
        return b->info || has_pulses(b->plan) ? default_probes(b) : PF_OK;
    }
    pf_plan_probe *list = pf__arena_take(b->arena, (size_t)c->n_probes, sizeof *list);
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

// The first open-loop probe that targets a mechanism, alone if possible; NULL: none.
static const pf_plan_probe *probe_of(const pf_plan *plan, int mechanism)
{
    const pf_plan_probe *found = NULL;
    for (int q = 0; q < plan->n_probes; q++) {
        const pf_plan_probe *probe = &plan->probes[q];
        for (int t = 0; t < probe->n_targets; t++) {
            bool better = !found || (found->n_targets > 1 && probe->n_targets == 1);
            if (probe->targets[t] == mechanism && better && !probe->policy) {
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
    double *command =
        pf__arena_take(b->arena, (size_t)probe->rows * (size_t)n_mech, sizeof *command);
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
    pf_plan_task *list = pf__arena_take(b->arena, (size_t)m, sizeof *list);
    for (int t = 0; list && t < m; t++) {
        const pf_policy *policy = &b->info->policies[t];
        int *uses = pf__arena_take(b->arena, (size_t)policy->n_mechanisms, sizeof *uses);
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
    pf_plan_task *list = pf__arena_take(b->arena, (size_t)m, sizeof *list);
    for (int j = 1; list && j <= m; j++) {
        const pf_plan_probe *probe = probe_of(plan, j);
        if (!given && !probe) {
            return complain(b, (pf_place){0, 0}, "mechanism", plan->mechanisms[j].name,
                            "has no probe with a command that its task could have: add one, or "
                            "list `tasks`");
        }
        int *use = pf__arena_take(b->arena, 1, sizeof *use);
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
        task->command = given ? pulse_command(b, j, pulse_amplitude(b, given, j), given->steps,
                                              given->rows, given->doublet)
                              : one_column(b, probe, j);
    }
    plan->n_tasks = n;
    plan->tasks = list;
    return PF_OK;
}

static pf_status task_policy(pf_plan_builder *b, const pf_config_task *given, pf_plan_task *task)
{
    pf_status status = find_loop(b, given->place, given->policy, &task->policy_index);
    if (status == PF_OK) {
        task->policy = text(b, given->policy);
        task->rows = b->info->policies[task->policy_index].rows;
    }
    return status;
}

static pf_status task_command(pf_plan_builder *b, const pf_config_task *given, pf_plan_task *task)
{
    pf_plan *plan = b->plan;
    if (given->policy) {
        return task_policy(b, given, task);
    }
    if (given->command.value) {
        if (given->command.columns != plan->n_mech) {
            return complain(b, given->place, "task", given->name,
                            "has another number of command columns than there are mechanisms");
        }
        size_t n = (size_t)given->command.rows * (size_t)plan->n_mech;
        double *command = pf__arena_take(b->arena, n, sizeof *command);
        if (command) {
            memcpy(command, given->command.value, n * sizeof *command);
        }
        task->rows = given->command.rows;
        task->command = command;
        return PF_OK;
    }
    if (given->mechanisms.n != 1) {
        return complain(b, given->place, "task", given->name,
                        "needs a `command` or `policy` unless it uses exactly one mechanism");
    }
    int j = pf__plan_find_mechanism(plan, given->mechanisms.text[0]);
    const pf_plan_probe *probe = j > 0 ? probe_of(plan, j) : NULL;
    if (!probe) {
        return complain(b, given->place, "task", given->name,
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
    int *uses = pf__arena_take(b->arena, (size_t)plan->n_mech, sizeof *uses);
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
                return complain(b, given->place, "mechanism", given->mechanisms.text[i],
                                "is not one of the machine's");
            }
            // one that loses force may hold a load that matters to the task
            bool holds = b->info && pf__plant_loses_force(b->info, j);
            if (!commands_mechanism(plan, task, j) && !holds) {
                return complain(b, given->place, "task", given->name,
                                "uses a mechanism that its command never moves");
            }
            for (int k = 0; k < n; k++) {
                named += uses[k] == j;
            }
        }
        if (task->command && named < n) {
            return complain(b, given->place, "task", given->name,
                            "moves a candidate mechanism that it does not list");
        }
        for (n = 0; n < given->mechanisms.n && n < plan->n_mech; n++) {
            uses[n] = pf__plan_find_mechanism(plan, given->mechanisms.text[n]);
        }
        qsort(uses, (size_t)n, sizeof *uses, by_number);
        for (int i = 1; i < n; i++) {
            if (uses[i] == uses[i - 1]) {
                return complain(b, given->place, "task", given->name, "lists a mechanism twice");
            }
        }
    } else if (task->policy_index >= 0) {
        const pf_policy *policy = &b->info->policies[task->policy_index];
        for (n = 0; n < policy->n_mechanisms && n < plan->n_mech; n++) {
            uses[n] = policy->mechanisms[n];
        }
    }
    if (n == 0) {
        return complain(b, given->place, "task", given->name, "uses no mechanism");
    }
    task->n_uses = n;
    task->uses = uses;
    return PF_OK;
}

static pf_status build_tasks(pf_plan_builder *b)
{
    const pf_config *c = b->config;
    pf_plan *plan = b->plan;
    if (c->n_tasks == 0) {
        return default_tasks(b);
    }
    pf_plan_task *list = pf__arena_take(b->arena, (size_t)c->n_tasks, sizeof *list);
    for (int t = 0; list && t < c->n_tasks; t++) {
        const pf_config_task *given = &c->tasks[t];
        list[t] = (pf_plan_task){.name = text(b, given->name),
                                 .fallback = given->fallback ? text(b, given->fallback) : "",
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

// --- the whole

static pf_status build(pf_plan_builder *b)
{
    const char *plant = b->config->plant;
    if (plant && b->info && strcmp(plant, b->info->name) != 0) {
        return pf_fail(b->error, PF_ERR_MISMATCH, "%s: is for plant %s, not for %s",
                       b->config->file, plant, b->info->name);
    }
    pf_status status = build_mechanisms(b);
    if (status == PF_OK) {
        status = build_channels(b);
    }
    if (status == PF_OK) {
        build_passive(b);
        status = build_settings(b);
    }
    if (status == PF_OK) {
        status = build_probes(b);
    }
    if (status == PF_OK && !b->arena->failed && b->plan->n_probes > 0) {
        status = build_tasks(b);
    }
    if (status == PF_OK && b->arena->failed) {
        status = pf_fail(b->error, PF_ERR_MEMORY, "out of memory for the plan");
    }
    return status;
}

pf_status pf__plan_recorded(pf_plan *plan, pf_arena *arena, pf_error *error)
{
    pf_plan_builder b = {plan, arena, NULL, plan->config, error};
    pf_status status = PF_OK;
    for (int q = 0; q < plan->n_probes && status == PF_OK; q++) {
        const pf_plan_probe *p = &plan->probes[q];
        status = within_limits(&b, (pf_place){0, 0}, "probe", p->name, p->rows, p->command);
    }
    return status == PF_OK && plan->config->n_tasks > 0 ? build_tasks(&b) : status;
}

pf_status pf__plan_from_config(pf_plan *plan, const pf_plant_info *info, const char *file,
                               const char *yaml, size_t n, const char *const *overrides,
                               int n_overrides, pf_error *error)
{
    memset(plan, 0, sizeof *plan);
    pf_arena *arena = calloc(1, sizeof *arena);
    plan->memory = arena;
    plan->config = arena ? pf__arena_take(arena, 1, sizeof *plan->config) : NULL;
    pf_status status =
        plan->config ? pf__config_read(plan->config, file, yaml, n, overrides, n_overrides, error)
                     : pf_fail(error, PF_ERR_MEMORY, "out of memory for the plan");
    if (status == PF_OK) {
        pf_plan_builder b = {plan, arena, info, plan->config, error};
        status = build(&b);
    }
    if (status != PF_OK) {
        pf__plan_free(plan);
    }
    return status;
}

pf_status pf_plan_create(pf_plan **plan, const pf_plant_info *info, const char *file,
                         const char *yaml, size_t n, const char *const *overrides, int n_overrides,
                         pf_error *error)
{
    *plan = calloc(1, sizeof **plan);
    pf_status status =
        *plan ? pf__plan_from_config(*plan, info, file, yaml, n, overrides, n_overrides, error)
              : pf_fail(error, PF_ERR_MEMORY, "out of memory for the plan");
    if (status != PF_OK) {
        free(*plan);
        *plan = NULL;
    }
    return status;
}

static pf_status set_method(pf_plan *plan, const char *id, pf_error *error)
{
    const pf_method *method = pf_method_find(id);
    if (!method) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "method: there is no method '%s'; see `preflight list methods`", id);
    }
    plan->method = method->id;
    return PF_OK;
}

pf_status pf_plan_set(pf_plan *plan, const char *assignment, pf_error *error)
{
    static const char method[] = "method=";
    if (strncmp(assignment, method, sizeof method - 1) == 0) {
        return set_method(plan, assignment + sizeof method - 1, error);
    }
    pf_config config;
    pf_status status = pf__settings_known(assignment, error);
    if (status == PF_OK) {
        status = pf__config_read(&config, NULL, NULL, 0, &assignment, 1, error);
    }
    if (status != PF_OK) {
        return status;
    }
    pf_plan before = *plan;
    status = pf__plan_take_settings(plan, &config.settings, error);
    if (status != PF_OK) {
        *plan = before;
    }
    pf__config_free(&config);
    return status;
}

void pf_plan_destroy(pf_plan *plan)
{
    if (plan) {
        pf__plan_free(plan);
        free(plan);
    }
}

pf_status pf__plan_default(pf_plan *plan, const pf_plant_info *info, pf_error *error)
{
    return pf__plan_from_config(plan, info, "defaults", NULL, 0, NULL, 0, error);
}

void pf__plan_free(pf_plan *plan)
{
    pf__config_free(plan->config);
    if (plan->memory) {
        pf__arena_free(plan->memory);
        free(plan->memory);
    }
    memset(plan, 0, sizeof *plan);
}
