// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_PLAN_IMPL_H
#define PF_PLAN_IMPL_H

#include "settings/config.h"
#include "host/arena.h"
#include "preflight/calibrate.h"

// A plan under construction.
typedef struct pf_plan_builder {
    pf_plan *plan;
    pf_arena *arena;
    const pf_plant_info *info; // NULL: machine known by its configuration only
    const pf_config *config;
    pf_error *error;
} pf_plan_builder;

// "file:line:column: what 'name' rest" in the builder's error.
pf_status pf__plan_complain(const pf_plan_builder *b, pf_place place, const char *what,
                            const char *name, const char *rest);

// A pulse on one mechanism, all others zero; rows x n_mech from the arena.
double *pf__plan_pulse(const pf_plan_builder *b, int mechanism, double amplitude, int steps,
                       int rows, bool doublet);

// A quarter of the command range on the side that reaches farther.
double pf__plan_quarter_range(const pf_mechanism *mechanism);

// Index of a mechanism by name, or by number where no name matches; -1: none.
int pf__plan_find_mechanism(const pf_plan *plan, const char *reference);

// One probe as a configuration gives it: command, charge, limits, targets.
pf_status pf__plan_given_probe(pf_plan_builder *b, const pf_config_probe *given,
                               pf_plan_probe *probe);

// The probe library and the tasks, given or by default.
pf_status pf__plan_probes(pf_plan_builder *b);
pf_status pf__plan_tasks(pf_plan_builder *b);

#endif
