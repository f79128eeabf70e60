// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_FMU_LIBRARY_H
#define PF_FMU_LIBRARY_H

#include "description.h"

// The library inside an FMU and one instance of it. A host of both versions: what differs between
// them ends here.

typedef struct pf_fmu pf_fmu;

// How a trajectory gets a machine that has not moved yet.
typedef enum pf_fmu_renewal {
    PF_FMU_PROCESS,  // an instance in another process, where no other ever was: what is true
    PF_FMU_LIBRARY,  // another instance, of the library loaded anew
    PF_FMU_INSTANCE, // another instance
    PF_FMU_STATE,    // the instance's state as it was
    PF_FMU_RESET     // the instance, reset
} pf_fmu_renewal;

// Its folder below binaries/ here: "linux64", "x86_64-linux".
const char *pf__fmu_platform(int major);

// Opens the library of a model that was unpacked into a folder; both must outlive it.
pf_status pf__fmu_load(pf_fmu **fmu, const pf_fmu_model *model, const char *folder,
                       pf_error *error);

// A machine at its start, initialised, in this process.
pf_status pf__fmu_renew(pf_fmu *fmu, pf_fmu_renewal renewal, pf_error *error);

// All inputs (which the FMU has no reason to change), or all outputs, as many numbers as the model
// has.
pf_status pf__fmu_set(pf_fmu *fmu, double *inputs, pf_error *error);
pf_status pf__fmu_get(pf_fmu *fmu, double *outputs, pf_error *error);

pf_status pf__fmu_step(pf_fmu *fmu, double time_s, double step_s, pf_error *error);

// Ends the instance, if there is one: in order, after an error without terminating it, and after
// "fatal" by forgetting it.
void pf__fmu_end(pf_fmu *fmu);

// Whether it said "fatal" in this process, where nothing of it may run any more.
bool pf__fmu_lost(const pf_fmu *fmu);

#endif
