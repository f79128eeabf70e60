// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_LANES_H
#define PF_LANES_H

#include "step.h"

// Many machines of one plant in step. Number i of machine l of a state, command, ... is at
// [i * PF_LANES + l], so that a compiler makes vector instructions of the loop over machines. What
// it compiles are the functions of the plant's class and step.h themselves, with one machine's
// numbers gathered before and spread after. Nothing is fused or reordered: the bits are those of
// one machine alone, for any number of machines and any width of vectors.
enum { PF_LANES = PF_ROLLS, PF_LANES_ALIGN = 8 }; // most, and what their number is rounded up to

struct pf_native_lanes {
    // n machines, a multiple of PF_LANES_ALIGN.
    void (*step)(int n, const double *knob, double *x, const double *u, const double *gains,
                 const double *w);
    void (*output)(int n, const double *knob, const double *x, const double *u, const double *gains,
                   const double *w, double *y);
};

// n numbers of machine l, and back.
PF_INLINE void pf__lane_take(int n, int l, const double *restrict from, double *one)
{
    for (int i = 0; i < n; i++) {
        one[i] = from[i * PF_LANES + l];
    }
}

PF_INLINE void pf__lane_put(int n, int l, const double *one, double *restrict to)
{
    for (int i = 0; i < n; i++) {
        to[i * PF_LANES + l] = one[i];
    }
}

// What each machine is delivered.
PF_INLINE void pf__lanes_deliver(const pf_plant_class *c, int n, const double *restrict knob,
                                 const double *restrict x, const double *restrict u,
                                 const double *restrict gains, double *restrict v)
{
    for (int l = 0; l < n; l++) {
        double state[PF_NATIVE_STATE], command[PF_NATIVE_MECH], gain[PF_NATIVE_MECH];
        double delivered[PF_NATIVE_MECH];
        pf__lane_take(c->info.n_state, l, x, state);
        pf__lane_take(c->info.n_mech, l, u, command);
        pf__lane_take(c->info.n_mech, l, gains, gain);
        pf__native_deliver(c, knob, state, command, gain, delivered);
        pf__lane_put(c->info.n_mech, l, delivered, v);
    }
}

PF_INLINE void pf__lanes_step(const pf_plant_class *c, pf_derivative derivative, int n,
                              const double *restrict knob, double *restrict x,
                              const double *restrict u, const double *restrict gains,
                              const double *restrict w)
{
    double v[PF_NATIVE_MECH * PF_LANES];
    n &= -PF_LANES_ALIGN; // what the compiler may count on
    for (int s = 0; s < pf__native_substeps(c); s++) {
        if (s == 0 || pf__native_delivers_anew(c)) {
            pf__lanes_deliver(c, n, knob, x, u, gains, v);
        }
        for (int l = 0; l < n; l++) {
            double state[PF_NATIVE_STATE], delivered[PF_NATIVE_MECH], wind[PF_NATIVE_WIND];
            pf__lane_take(c->info.n_state, l, x, state);
            pf__lane_take(c->info.n_mech, l, v, delivered);
            pf__lane_take(c->n_wind, l, w, wind);
            pf__native_substep(c, derivative, knob, state, delivered, wind, 1);
            pf__lane_put(c->info.n_state, l, state, x);
        }
    }
}

PF_INLINE void pf__lanes_output(const pf_plant_class *c, int n, const double *restrict knob,
                                const double *restrict x, const double *restrict u,
                                const double *restrict gains, const double *restrict w,
                                double *restrict y)
{
    n &= -PF_LANES_ALIGN;
    for (int l = 0; l < n; l++) {
        double state[PF_NATIVE_STATE], command[PF_NATIVE_MECH], gain[PF_NATIVE_MECH];
        double delivered[PF_NATIVE_MECH], wind[PF_NATIVE_WIND], seen[PF_NATIVE_STATE];
        pf__lane_take(c->info.n_state, l, x, state);
        pf__lane_take(c->info.n_mech, l, u, command);
        pf__lane_take(c->info.n_mech, l, gains, gain);
        pf__lane_take(c->n_wind, l, w, wind);
        pf__native_deliver(c, knob, state, command, gain, delivered);
        c->output(knob, state, delivered, wind, seen);
        pf__lane_put(c->info.n_chan, l, seen, y);
    }
}

// PF_NATIVE_LANES(NAME) stands before the definition of pf_plant_NAME, whose member `lanes` is
// &lanes. The loops are compiled for each width; a processor runs the widest that it has.
// PF_NATIVE_LANES_BY: with another derivative of the same bits, where one machine alone has a
// branch that saves work.
#define PF_LANES_OF(target, name, derivative, suffix)                                              \
    target static void lanes_step_##suffix(int n, const double *restrict knob, double *restrict x, \
                                           const double *restrict u, const double *restrict gains, \
                                           const double *restrict w)                               \
    {                                                                                              \
        pf__lanes_step(&pf_plant_##name, derivative, n, knob, x, u, gains, w);                     \
    }                                                                                              \
    target static void lanes_output_##suffix(                                                      \
        int n, const double *restrict knob, const double *restrict x, const double *restrict u,    \
        const double *restrict gains, const double *restrict w, double *restrict y)                \
    {                                                                                              \
        pf__lanes_output(&pf_plant_##name, n, knob, x, u, gains, w, y);                            \
    }

#if defined(__x86_64__) && defined(__GNUC__)
#if defined(__clang__)
#define PF_LANES_512 __attribute__((target("avx512f,avx512dq")))
#else
#define PF_LANES_512 __attribute__((target("avx512f,avx512dq,prefer-vector-width=512")))
#endif
#define PF_LANES_256 __attribute__((target("avx2")))
#define PF_LANES_RUN(what, arguments)                                                              \
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) {                 \
        lanes_##what##_512 arguments;                                                              \
    } else if (__builtin_cpu_supports("avx2")) {                                                   \
        lanes_##what##_256 arguments;                                                              \
    } else {                                                                                       \
        lanes_##what##_plain arguments;                                                            \
    }
#define PF_LANES_WIDE(name, derivative)                                                            \
    PF_LANES_OF(PF_LANES_512, name, derivative, 512)                                               \
    PF_LANES_OF(PF_LANES_256, name, derivative, 256)
#else
#define PF_LANES_RUN(what, arguments) lanes_##what##_plain arguments;
#define PF_LANES_WIDE(name, derivative)
#endif

#define PF_NATIVE_LANES_BY(name, derivative)                                                       \
    PF_LANES_WIDE(name, derivative)                                                                \
    PF_LANES_OF(, name, derivative, plain)                                                         \
    static void lanes_step(int n, const double *knob, double *x, const double *u,                  \
                           const double *gains, const double *w)                                   \
    {                                                                                              \
        PF_LANES_RUN(step, (n, knob, x, u, gains, w))                                              \
    }                                                                                              \
    static void lanes_output(int n, const double *knob, const double *x, const double *u,          \
                             const double *gains, const double *w, double *y)                      \
    {                                                                                              \
        PF_LANES_RUN(output, (n, knob, x, u, gains, w, y))                                         \
    }                                                                                              \
    static const struct pf_native_lanes lanes = {lanes_step, lanes_output};
#define PF_NATIVE_LANES(name) PF_NATIVE_LANES_BY(name, pf_plant_##name.derivative)

#endif
