// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_NATIVE_H
#define PF_NATIVE_H

#include "plant_impl.h"

// Sizes of a native plant; a class beyond them is refused when it is opened.
#define PF_NATIVE_STATE 64
#define PF_NATIVE_MECH 64
#define PF_NATIVE_WIND 32

// One control step of a native plant: delivery, integration, projection.
void pf__native_step(const pf_plant_class *c, const double *knob, double *x, const double *u,
                     const double *gains, const double *w);

// What its sensors see, without noise.
void pf__native_output(const pf_plant_class *c, const double *knob, const double *x,
                       const double *u, const double *gains, const double *w, double *y);

pf_status pf__native_roll(const pf_plant_class *c, const double *knob, const pf_roll *roll,
                          const pf_trace *trace, pf_error *error);

// The native plants, one file each.
extern const pf_plant_class pf_plant_attitude;

#endif
