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

// One machine among the others.
typedef struct pf_lane_numbers {
    double x[PF_NATIVE_STATE], u[PF_NATIVE_MECH], gains[PF_NATIVE_MECH], w[PF_NATIVE_WIND];
} pf_lane_numbers;

PF_INLINE void pf__lane_take(const pf_plant_class *c, int l, const double *restrict x,
                             const double *restrict u, const double *restrict gains,
                             const double *restrict w, pf_lane_numbers *one)
{
    for (int i = 0; i < c->info.n_state; i++) {
        one->x[i] = x[i * PF_LANES + l];
    }
    for (int j = 0; j < c->info.n_mech; j++) {
        one->u[j] = u[j * PF_LANES + l];
        one->gains[j] = gains[j * PF_LANES + l];
    }
    for (int i = 0; i < c->n_wind; i++) {
        one->w[i] = w[i * PF_LANES + l];
    }
}

PF_INLINE void pf__lanes_step(const pf_plant_class *c, int n, const double *restrict knob,
                              double *restrict x, const double *restrict u,
                              const double *restrict gains, const double *restrict w)
{
    n &= -PF_LANES_ALIGN; // what the compiler may count on
    for (int s = 0; s < pf__native_substeps(c); s++) {
        for (int l = 0; l < n; l++) {
            pf_lane_numbers one;
            pf__lane_take(c, l, x, u, gains, w, &one);
            pf__native_substep(c, knob, one.x, one.u, one.gains, one.w, 1);
            for (int i = 0; i < c->info.n_state; i++) {
                x[i * PF_LANES + l] = one.x[i];
            }
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
        double v[PF_NATIVE_MECH], seen[PF_NATIVE_STATE];
        pf_lane_numbers one;
        pf__lane_take(c, l, x, u, gains, w, &one);
        pf__native_deliver(c, knob, one.x, one.u, one.gains, v);
        c->output(knob, one.x, v, one.w, seen);
        for (int i = 0; i < c->info.n_chan; i++) {
            y[i * PF_LANES + l] = seen[i];
        }
    }
}

// PF_NATIVE_LANES(NAME) stands before the definition of pf_plant_NAME, whose member `lanes` is
// &lanes. The loops are compiled for each width; a processor runs the widest that it has.
#define PF_LANES_OF(target, name, suffix)                                                          \
    target static void lanes_step_##suffix(int n, const double *restrict knob, double *restrict x, \
                                           const double *restrict u, const double *restrict gains, \
                                           const double *restrict w)                               \
    {                                                                                              \
        pf__lanes_step(&pf_plant_##name, n, knob, x, u, gains, w);                                 \
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
#define PF_LANES_WIDE(name)                                                                        \
    PF_LANES_OF(PF_LANES_512, name, 512)                                                           \
    PF_LANES_OF(PF_LANES_256, name, 256)
#else
#define PF_LANES_RUN(what, arguments) lanes_##what##_plain arguments;
#define PF_LANES_WIDE(name)
#endif

#define PF_NATIVE_LANES(name)                                                                      \
    PF_LANES_WIDE(name)                                                                            \
    PF_LANES_OF(, name, plain)                                                                     \
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

#endif
