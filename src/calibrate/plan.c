// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "plan.h"

#include "preflight/method.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Resolves a configuration against what a plant tells of itself. Whatever is not given gets the
// default of a kit for use.

pf_status pf__plan_complain(const pf_plan_builder *b, pf_place place, const char *what,
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
    return pf_arena_text(b->arena, s);
}

double pf__plan_quarter_range(const pf_mechanism *mechanism)
{
    return fabs(mechanism->hi) >= fabs(mechanism->lo) ? .25 * mechanism->hi : .25 * mechanism->lo;
}

double *pf__plan_pulse(const pf_plan_builder *b, int mechanism, double amplitude, int steps,
                       int rows, bool doublet)
{
    int n_mech = b->plan->n_mech;
    double *command = pf_arena_take(b->arena, (size_t)rows * (size_t)n_mech, sizeof *command);
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
        return pf__plan_complain(b, place, "mechanism", wanted->name, "has lo above hi");
    }
    if (b->info &&
        (wanted->lo < b->info->mechanisms[j].lo || wanted->hi > b->info->mechanisms[j].hi)) {
        char why[160];
        snprintf(why, sizeof why, "has limits %g .. %g, the plant clips at %g .. %g", wanted->lo,
                 wanted->hi, b->info->mechanisms[j].lo, b->info->mechanisms[j].hi);
        return pf__plan_complain(b, place, "mechanism", wanted->name, why);
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
    pf_mechanism *list = pf_arena_take(b->arena, (size_t)plan->n_mech, sizeof *list);
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
        return pf_fail(b->error, PF_ERR_ARGUMENT,
                       "%s: `channels` is needed for a machine that is not a registered plant",
                       c->file);
    }
    if (c->n_channels > 0 && b->info && c->n_channels != b->info->n_chan) {
        return pf_fail(b->error, PF_ERR_ARGUMENT, "%s: %d channels are listed, plant %s has %d",
                       c->file, c->n_channels, b->info->name, b->info->n_chan);
    }
    plan->n_chan = c->n_channels > 0 ? c->n_channels : b->info->n_chan;
    pf_channel *list = pf_arena_take(b->arena, (size_t)plan->n_chan, sizeof *list);
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

// Gains as given, or that many points on [.15, .95], always with g_cal.
static void build_grid(pf_plan *plan, pf_arena *arena)
{
    const pf_config_numbers *given = &plan->settings.grid;
    double g_cal = plan->settings.g_cal;
    int n = given->n > 1 ? given->n : (int)pf_settings_number(given);
    double *grid = pf_arena_take(arena, (size_t)n + 1, sizeof *grid);
    bool has_g_cal = false;
    for (int k = 0; grid && k < n; k++) {
        grid[k] = given->n > 1 ? given->value[k] : .15 + .8 * k / (n - 1);
        if (fabs(grid[k] - g_cal) < 1e-9) {
            grid[k] = g_cal;
            has_g_cal = true;
        }
    }
    if (grid && !has_g_cal) {
        grid[n++] = g_cal;
        qsort(grid, (size_t)n, sizeof *grid, by_value);
    }
    plan->n_grid = n;
    plan->grid = grid;
}

static pf_status build_prior(pf_plan *plan, pf_arena *arena, pf_error *error)
{
    const pf_config_numbers *given = &plan->settings.prior;
    int n = plan->n_mech;
    double *prior = pf_arena_take(arena, (size_t)n, sizeof *prior);
    if (given->n > 1 && given->n != n) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "%s: prior: %d probabilities for %d hypotheses (0 is \"nothing changed\")",
                       plan->config->file, given->n, n);
    }
    double change = pf_settings_number(given);
    for (int i = 0; prior && i < n; i++) {
        prior[i] = given->n > 1 ? given->value[i] : i == 0 ? 1 - change : change / (n - 1);
    }
    plan->prior = prior;
    return PF_OK;
}

pf_status pf__plan_take_settings(pf_plan *plan, const pf_settings *given, pf_error *error)
{
    pf_arena *arena = plan->memory;
    pf_settings_take(&plan->settings, given, arena);
    build_grid(plan, arena);
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
    p->n_state = b->info ? b->info->n_state : 0;
    p->method = "eg-mpt";
    p->settings = pf_settings_default(PF_SETTINGS_FIELD);
    p->settings.budget1 = 2 * m > 8 ? 2 * m : 8;
    bool own_noise = b->info && b->info->channels[0].noise_sd > 0;
    p->settings.sensor_noise = own_noise ? 1 : b->info ? b->info->sensor_noise : 0;
    return pf__plan_take_settings(p, &c->settings, b->error);
}

// What today's controller does: a pulse on the current mechanism where one is known.
static void build_passive(pf_plan_builder *b)
{
    const pf_pulse *pulse_known = b->info ? b->info->probe : NULL;
    double amplitude =
        pulse_known ? pulse_known->amplitude[0] : pf__plan_quarter_range(&b->plan->mechanisms[0]);
    b->plan->passive_rows = pulse_known ? pulse_known->rows : 8;
    b->plan->passive = pf__plan_pulse(b, 0, isfinite(amplitude) ? amplitude : 0,
                                      pulse_known ? pulse_known->steps : 8, b->plan->passive_rows,
                                      pulse_known && pulse_known->doublet);
}

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
        status = pf__plan_probes(b);
    }
    if (status == PF_OK && !b->arena->failed) {
        status = pf__plan_tasks(b);
    }
    if (status == PF_OK && b->arena->failed) {
        status = pf_fail(b->error, PF_ERR_MEMORY, "out of memory for the plan");
    }
    return status;
}

pf_status pf_plan_from_config(pf_plan *plan, const pf_plant_info *info, const char *file,
                              const char *yaml, size_t n, const char *const *overrides,
                              int n_overrides, pf_error *error)
{
    memset(plan, 0, sizeof *plan);
    pf_arena *arena = calloc(1, sizeof *arena);
    plan->memory = arena;
    plan->config = arena ? pf_arena_take(arena, 1, sizeof *plan->config) : NULL;
    pf_status status =
        plan->config ? pf_config_read(plan->config, file, yaml, n, overrides, n_overrides, error)
                     : pf_fail(error, PF_ERR_MEMORY, "out of memory for the plan");
    if (status == PF_OK) {
        pf_plan_builder b = {plan, arena, info, plan->config, error};
        status = build(&b);
    }
    if (status != PF_OK) {
        pf_plan_free(plan);
    }
    return status;
}

pf_status pf_plan_create(pf_plan **plan, const pf_plant_info *info, const char *file,
                         const char *yaml, size_t n, const char *const *overrides, int n_overrides,
                         pf_error *error)
{
    *plan = calloc(1, sizeof **plan);
    pf_status status =
        *plan ? pf_plan_from_config(*plan, info, file, yaml, n, overrides, n_overrides, error)
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
    pf_status status = pf_settings_known(assignment, error);
    if (status == PF_OK) {
        status = pf_config_read(&config, NULL, NULL, 0, &assignment, 1, error);
    }
    if (status != PF_OK) {
        return status;
    }
    pf_plan before = *plan;
    status = pf__plan_take_settings(plan, &config.settings, error);
    if (status != PF_OK) {
        *plan = before;
    }
    pf_config_free(&config);
    return status;
}

void pf_plan_destroy(pf_plan *plan)
{
    if (plan) {
        pf_plan_free(plan);
        free(plan);
    }
}

pf_status pf_plan_default(pf_plan *plan, const pf_plant_info *info, pf_error *error)
{
    return pf_plan_from_config(plan, info, "defaults", NULL, 0, NULL, 0, error);
}

void pf_plan_free(pf_plan *plan)
{
    pf_config_free(plan->config);
    if (plan->memory) {
        pf_arena_free(plan->memory);
        free(plan->memory);
    }
    memset(plan, 0, sizeof *plan);
}
