// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_NATIVE_H
#define PF_NATIVE_H

#include "plant/plant_impl.h"

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
// n trajectories, each with the bits that it has alone; the error is that of the first that fails.
pf_status pf__native_roll_many(const pf_plant_class *c, const double *knob, int n,
                               const pf_roll *rolls, const pf_trace *traces, pf_error *error);

// The native plants: one file that defines pf_plant_NAME and one row here each.
#define PF_NATIVE_PLANTS(X)                                                                        \
    X(attitude)                                                                                    \
    X(aircraft)                                                                                    \
    X(battery)                                                                                     \
    X(building)                                                                                    \
    X(dc_servo)                                                                                    \
    X(pump_tank)                                                                                   \
    X(quad_tank)                                                                                   \
    X(quadrotor)                                                                                   \
    X(reaction_wheel)                                                                              \
    X(wind_pitch)                                                                                  \
    X(wood_berry)                                                                                  \
    X(pendulum)                                                                                    \
    X(acrobot)                                                                                     \
    X(cartpole)

#define X(name) extern const pf_plant_class pf_plant_##name;
PF_NATIVE_PLANTS(X)
#undef X

#endif
