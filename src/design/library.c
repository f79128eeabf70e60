// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "design_impl.h"

#include "settings/config.h"

#include <string.h>

// From a library into a plan.

static pf_status take_probes(pf_plan *plan, int n, const pf_design_probe *probes, pf_error *error)
{
    pf_arena *arena = plan->memory;
    pf_plan_probe *list = pf_arena_take(arena, (size_t)n, sizeof *list);
    for (int q = 0; q < n && list; q++) {
        const pf_plan_probe *probe = &probes[q].probe;
        size_t size = (size_t)probe->rows * (size_t)plan->n_mech;
        double *command = pf_arena_take(arena, size, sizeof *command);
        int *targets = pf_arena_take(arena, (size_t)probe->n_targets, sizeof *targets);
        list[q] = *probe;
        list[q].name = pf_arena_text(arena, probe->name);
        if (!command || !targets) {
            break;
        }
        memcpy(command, probe->command, size * sizeof *command);
        memcpy(targets, probe->targets, (size_t)probe->n_targets * sizeof *targets);
        list[q].command = command;
        list[q].targets = targets;
    }
    if (arena->failed) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for %d probes", n);
    }
    plan->n_probes = n;
    plan->probes = list;
    return PF_OK;
}

pf_status pf_plan_design(pf_plan *plan, const pf_design_config *config, pf_plant *plant,
                         const pf_model *model, const pf_effort *effort, pf_error *error)
{
    pf_design_config own = {0};
    pf_design design;
    pf_status status = config ? PF_OK : pf_design_config_read(&own, plan, error);
    if (status != PF_OK) {
        return status;
    }
    pf_design_config alone = config ? *config : own;
    alone.compare = false;
    status = pf_design_create(&design, &alone, plan, plant, model, effort, error);
    if (status == PF_OK) {
        status = take_probes(plan, design.library.n_probes, design.library.probes, error);
        pf_design_free(&design);
    }
    pf_design_config_free(&own);
    return status;
}

static pf_status same_machine(const pf_plan *plan, const pf_config *c, pf_error *error)
{
    if (!c->plant || c->n_mechanisms == 0 || c->n_probes == 0) {
        return pf_fail(error, PF_ERR_FORMAT,
                       "%s: not a probe library: `%s` is missing; `preflight design` writes one",
                       c->file,
                       !c->plant              ? "plant"
                       : c->n_mechanisms == 0 ? "mechanisms"
                                              : "probes");
    }
    if (strcmp(c->plant, plan->plant) != 0) {
        return pf_fail(error, PF_ERR_MISMATCH, "%s: a library for plant %s, not for %s", c->file,
                       c->plant, plan->plant);
    }
    if (c->n_mechanisms != plan->n_mech) {
        return pf_fail(error, PF_ERR_MISMATCH,
                       "%s: a library for %d mechanisms, plant %s has %d; design it anew", c->file,
                       c->n_mechanisms, plan->plant, plan->n_mech);
    }
    for (int j = 0; j < plan->n_mech; j++) {
        if (strcmp(c->mechanisms[j].name, plan->mechanisms[j].name) != 0) {
            return pf_fail(error, PF_ERR_MISMATCH,
                           "%s: mechanism %d is called '%s', that of plant %s '%s'; design the "
                           "library anew",
                           c->file, j, c->mechanisms[j].name, plan->plant,
                           plan->mechanisms[j].name);
        }
    }
    return PF_OK;
}

pf_status pf_plan_load_library(pf_plan *plan, const char *file, const char *text, size_t n,
                               pf_error *error)
{
    pf_config config;
    pf_status status = pf_config_read(&config, file, text, n, NULL, 0, error);
    if (status != PF_OK) {
        return status;
    }
    pf_plan_builder b = {plan, plan->memory, NULL, &config, error};
    status = same_machine(plan, &config, error);
    pf_plan_probe *list = pf_arena_take(b.arena, (size_t)config.n_probes + 1, sizeof *list);
    for (int q = 0; q < config.n_probes && list && status == PF_OK; q++) {
        status = pf__plan_given_probe(&b, &config.probes[q], &list[q]);
    }
    if (status == PF_OK && b.arena->failed) {
        status = pf_fail(error, PF_ERR_MEMORY, "%s: out of memory for its probes", file);
    }
    if (status == PF_OK) {
        plan->n_probes = config.n_probes;
        plan->probes = list;
    }
    pf_config_free(&config);
    return status;
}
