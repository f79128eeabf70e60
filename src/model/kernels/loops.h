// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_LOOPS_H
#define PF_LOOPS_H

#include <stdbool.h>
#include <stddef.h>

// The passes over memory between two matrix products, fused. Each runs in the widest vectors that
// the processor has; nothing is reordered, and fused only where it is written, so every width gives
// the same bits.

// For measurements, before any work starts: as on a processor without AVX-512.
void pf__loop_narrow(bool narrow);

// x = silu(x + bias) over rows x width, pitch from row to row, and the slope, of the same pitch,
// where slope is not NULL.
void pf__loop_silu(int rows, int width, size_t pitch, const float *bias, float *x, float *slope);
// The two it chooses from, the same to the bit: as the compiler does it, and by hand for AVX-512.
void pf__loop_silu_plain(int rows, int width, size_t pitch, const float *bias, float *x,
                         float *slope);
void pf__loop_silu_wide(int rows, int width, size_t pitch, const float *bias, float *x,
                        float *slope);
bool pf__loop_wide(void); // whether the second can run here
// The reciprocal in it, for its test: x = 1/x, n a multiple of 64, x in 1..2^127.
void pf__loop_reciprocal_wide(size_t n, float *x);

void pf__loop_relu(int rows, int width, size_t pitch, const float *bias, float *x, float *slope);
void pf__loop_bias(int rows, int width, size_t pitch, const float *bias, float *x);

// g = g * slope, and its columns added to column_sum.
void pf__loop_slope(int rows, int width, size_t pitch, const float *slope, float *g,
                    float *column_sum);

// y becomes 2 (y + bias - target) / (rows * width); the sums of its columns; returns the sum of the
// squared differences.
double pf__loop_error(int rows, int width, const float *bias, const float *target, float *y,
                      float *column_sum);

// row = (feature - mean)/scale, and back: change = mean + linear + scale * out.
void pf__loop_standardise(int n, const double *feature, const float *mean, const float *scale,
                          float *row);
void pf__loop_change(int n, const float *mean, const float *linear, const float *scale,
                     const float *out, double *change);

// One step of Adam with the bias corrections given.
typedef struct pf_loop_adam {
    float rate, beta1, beta2, epsilon, decay; // decay already multiplied by the rate
    float correct1, correct2;                 // 1/(1 - beta^step)
} pf_loop_adam;
void pf__loop_adam_step(const pf_loop_adam *a, size_t n, const float *gradient, float *first,
                        float *second, float *theta);

#endif
