// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_FMU_DESCRIPTION_H
#define PF_FMU_DESCRIPTION_H

#include "host/arena.h"

// What modelDescription.xml of an FMU says that a plant is made of (FMI 2.0 and 3.0).

enum { PF_FMU_NUMBERS_MOST = 4096 }; // of all inputs or of all outputs

typedef struct pf_fmu_variable {
    const char *name;
    uint32_t reference;
    bool single;   // Float32
    bool array;    // has dimensions, so that its elements are numbered
    int n;         // numbers
    double lo, hi; // infinite where it has none
    double *start; // n
} pf_fmu_variable;

typedef struct pf_fmu_variables {
    pf_fmu_variable *list;
    int n;       // variables
    int numbers; // of all of them
    int others;  // that are no real numbers
} pf_fmu_variables;

typedef struct pf_fmu_model {
    pf_arena arena;
    int major; // 2 or 3
    const char *version, *name, *token, *identifier, *tool;
    bool has_state, needs_tool;
    double start_s, step_s, tolerance; // step 0, tolerance 0: not said
    double stop_s;                     // 0: not said
    pf_fmu_variables inputs, outputs;
} pf_fmu_model;

// Reads the text of modelDescription.xml. Free the model in any case.
pf_status pf__fmu_describe(pf_fmu_model *model, const void *xml, size_t size, pf_error *error);
void pf__fmu_model_free(pf_fmu_model *model);

#endif
