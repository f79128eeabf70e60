// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_PLANT_IMPL_H
#define PF_PLANT_IMPL_H

#include "preflight/plant.h"

// What stands behind a plant: native physics or a process. roll has checked its arguments.
typedef struct pf_plant_ops {
    bool native; // our own fault layer delivers: gains above 1 count, limits are where info says so
    pf_status (*roll)(pf_plant *plant, const pf_roll *roll, const pf_trace *trace, pf_error *error);
    pf_status (*clone)(const pf_plant *plant, pf_plant **copy, pf_error *error);
    void (*destroy)(pf_plant *plant); // frees what self owns, not the plant
    // A full state from n numbers that are not one. Nullable: n must be n_state.
    pf_status (*state_from)(pf_plant *plant, int n, const double *values, double *state,
                            pf_error *error);
    // Nullable: the plant has no measures of its own.
    pf_status (*forecast)(pf_plant *plant, const pf_forecast *forecast, double *returns,
                          double *beyond, pf_error *error);
    // Nullable: the plant is no process.
    void (*set_timeouts)(pf_plant *plant, double hello_s, double roll_s);
} pf_plant_ops;

struct pf_plant {
    const pf_plant_ops *ops;
    pf_plant_info info; // points into self or into static data
    double knob[PF_KNOBS_MAX];
    void *self;
};

// Rows x channels of one response may not exceed this many numbers.
#define PF_TRACE_MAX (1 << 22)

// A plant in a child process that speaks the bridge protocol (`exec:COMMAND`).
pf_status pf__bridge_create(pf_plant **plant, const char *command, pf_error *error);

// A Gymnasium environment behind the same protocol, in a worker of our Python package (`gym:ID`).
pf_status pf__gym_create(pf_plant **plant, const char *id, pf_error *error);

// The simulators of a domain that our Python package knows by name, behind the same protocol.
#define PF_DOMAIN_PLANTS(X)                                                                        \
    X(grid2op, "Grid2Op, L2RPN NeurIPS 2020: five dormant generators")                             \
    X(highway, "highway-env, highway-v0: brake and steering dormant")                              \
    X(inventory_serial, "gym-invmgmt, serial supply chain with backlog")                           \
    X(inventory_lost_sales, "gym-invmgmt, serial supply chain with lost sales")                    \
    X(inventory_multi, "gym-invmgmt, multi-echelon network")
pf_status pf__domain_create(pf_plant **plant, const char *name, pf_error *error);
// The same with another source tree, whose build folder is looked into. Its path has no quotes.
pf_status pf__domain_create_in(pf_plant **plant, const char *tree, const char *name,
                               pf_error *error);

#endif
