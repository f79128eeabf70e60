// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_STEP_H
#define PF_STEP_H

#include "elementary.h"
#include "native.h"

// The step of a native plant: written once, for one machine (native.c) and for many (lanes.h).

typedef void (*pf_derivative)(const double *knob, const double *x, const double *v, const double *w,
                              double *dx);

// dx/dt is written into k1..k4; x moves by h.
PF_INLINE void pf__native_runge_kutta(const pf_plant_class *c, pf_derivative derivative,
                                      const double *knob, double *x, const double *v,
                                      const double *w, double h)
{
    int n = c->info.n_state;
    double k1[PF_NATIVE_STATE], k2[PF_NATIVE_STATE], k3[PF_NATIVE_STATE], k4[PF_NATIVE_STATE];
    double y[PF_NATIVE_STATE];
    derivative(knob, x, v, w, k1);
    for (int i = 0; i < n; i++) {
        y[i] = x[i] + .5 * h * k1[i];
    }
    derivative(knob, y, v, w, k2);
    for (int i = 0; i < n; i++) {
        y[i] = x[i] + .5 * h * k2[i];
    }
    derivative(knob, y, v, w, k3);
    for (int i = 0; i < n; i++) {
        y[i] = x[i] + h * k3[i];
    }
    derivative(knob, y, v, w, k4);
    for (int i = 0; i < n; i++) {
        x[i] += h / 6 * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]);
    }
}

PF_INLINE void pf__native_deliver(const pf_plant_class *c, const double *knob, const double *x,
                                  const double *u, const double *gains, double *v)
{
    if (c->deliver) {
        c->deliver(knob, x, u, gains, v);
    } else {
        pf__fault_deliver(c->info.n_mech, c->info.mechanisms, u, gains, v);
    }
}

PF_INLINE int pf__native_substeps(const pf_plant_class *c)
{
    return c->advance ? 1 : c->substeps;
}

// Whether what is delivered depends on the state, so that every substep has its own.
PF_INLINE bool pf__native_delivers_anew(const pf_plant_class *c)
{
    return c->deliver != NULL;
}

// One of the substeps under the delivered v. slow: how many times longer everything takes.
PF_INLINE void pf__native_substep(const pf_plant_class *c, pf_derivative derivative,
                                  const double *knob, double *x, const double *v, const double *w,
                                  double slow)
{
    if (c->advance) {
        c->advance(knob, x, v, w);
    } else {
        pf__native_runge_kutta(c, derivative, knob, x, v, w, c->info.dt_s / c->substeps / slow);
    }
    if (c->project) {
        c->project(x);
    }
}

#endif
