// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_PLAN_H
#define PF_PLAN_H

#include "settings/config.h"
#include "host/arena.h"
#include "preflight/calibrate.h"

typedef struct pf_plan_task {
    const char *name;
    int n_uses;
    const int *uses; // mechanisms
    int rows;
    const double *command; // rows x n_mech; NULL with a policy
    const char *policy;    // "" for an open loop
    int policy_index;      // of the plant, -1 for an open loop
    const char *fallback;  // Nullable: the uncorrected command
    double reveal, importance;
} pf_plan_task;

struct pf_plan {
    const char *plant;
    const char *environment; // what random streams are named after
    const char *folder;      // that the plant's command names files in. Nullable.
    int n_mech, n_chan, n_state;
    const pf_mechanism *mechanisms;
    const pf_channel *channels; // scale 0: to be found
    int n_probes, n_tasks;
    const pf_plan_probe *probes;
    const pf_plan_task *tasks;
    const double *passive; // passive_rows x n_mech: what today's controller does. Nullable.
    int passive_rows;
    // Neither a plant nor the configuration has probes: those of recordings are what was recorded.
    // Where no pulse can be derived from the limits, n_probes is 0 until then, and so is n_chan
    // where no channels are listed.
    bool probes_open;
    const char *method;
    pf_settings settings; // complete; its lists are the configuration's
    int n_grid;
    const double *grid;  // of the settings, with g_cal on it
    const double *prior; // n_mech, of the settings
    // Opportunities of an alarm trial: budget1, or those of a reveal round drawn from
    // reveal_first..reveal_last with one opportunity every reveal_period rounds before it.
    int reveal_first, reveal_last, reveal_period;
    pf_config *config; // what it was made from, owned. Nullable.
    void *memory;      // owned
};

// The defaults for a plant: one pulse per candidate, one task per candidate, settings of a kit for
// use.
pf_status pf__plan_default(pf_plan *plan, const pf_plant_info *info, pf_error *error);
// Fills the caller's struct as pf_plan_create does.
pf_status pf__plan_from_config(pf_plan *plan, const pf_plant_info *info, const char *file,
                               const char *text, size_t n, const char *const *overrides,
                               int n_overrides, pf_error *error);
void pf__plan_free(pf_plan *plan);

// Takes over what is given of these settings, and what follows from them.
pf_status pf__plan_take_settings(pf_plan *plan, const pf_settings *given, pf_error *error);

// The grid of n points (NULL: as the settings say) with g_cal on it to the last bit: predictions at
// g_cal are looked up there.
void pf__plan_set_grid(pf_plan *plan, pf_arena *arena, int n, const double *points);

// A plan under construction.
typedef struct pf_plan_builder {
    pf_plan *plan;
    pf_arena *arena;
    const pf_plant_info *info; // NULL: machine known by its configuration only
    const pf_config *config;
    pf_error *error;
} pf_plan_builder;

// Index of a mechanism by name, or by number where no name matches; -1: none.
int pf__plan_find_mechanism(const pf_plan *plan, const char *reference);

// What a probe of a plan sends to its plant, which refuses a loop that it does not have.
pf_roll pf__plan_probe_roll(const pf_plan_probe *probe, const pf_plant_info *info);

// One probe as a configuration gives it: command, charge, limits, targets.
pf_status pf__plan_given_probe(pf_plan_builder *b, const pf_config_probe *given,
                               pf_plan_probe *probe);

// With recorded probes in the plan (probes_open): refuses what leaves the limits, and takes the
// tasks of the configuration where it lists some.
pf_status pf__plan_recorded(pf_plan *plan, pf_arena *arena, pf_error *error);

#endif
