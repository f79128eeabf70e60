// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_FMU_MACHINE_H
#define PF_FMU_MACHINE_H

#include "library.h"

#include "host/text.h"

// An FMU as a machine: mechanism 0 moves nothing, each number of its real inputs is a mechanism,
// each number of its real outputs a channel.

typedef struct pf_fmu_machine {
    const pf_fmu_model *model;
    pf_fmu *fmu;
    double step_s;
    int n_mech, n_chan;
    double *rest;    // n_mech: what an input has under no command
    double *lo, *hi; // n_mech: of commands
    double *inputs;  // n_mech: under a command
    pf_fmu_renewal renewal;
} pf_fmu_machine;

// Makes the machine of a model: step_s 0 takes the model's own. Memory is that of the arena.
pf_status pf__fmu_machine(pf_fmu_machine *machine, pf_arena *arena, const pf_fmu_model *model,
                          double step_s, pf_error *error);

// Loads the library below a folder, sees that it starts, and finds out what renews it truly.
pf_status pf__fmu_machine_load(pf_fmu_machine *machine, const char *folder, pf_error *error);

// One trajectory: gains n_mech, commands rows x n_mech; initial n_chan, output rows x n_chan.
pf_status pf__fmu_roll(pf_fmu_machine *machine, const double *gains, const double *commands,
                       int rows, double *initial, double *output, pf_error *error);

// Its answer to a hello, as one line without its end. file: its name without folders.
void pf__fmu_hello(const pf_fmu_machine *machine, const char *file, const char *sha256,
                   pf_text *out);

#endif
