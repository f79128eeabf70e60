// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "loops.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

// Only pf__loop_narrow writes it.
static bool narrowed = false;

void pf__loop_narrow(bool narrow)
{
    narrowed = narrow;
}

// A loop is written once, as name_body, and compiled for each width; `give` is `return` for a loop
// with a value.
#if defined(__x86_64__) && defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define TARGET_512 "avx512f,avx512dq"
#else
#define TARGET_512 "avx512f,avx512dq,prefer-vector-width=512"
#endif
#define LOOP(type, give, name, parameters, arguments)                                              \
    __attribute__((target(TARGET_512))) static type name##_512 parameters                          \
    {                                                                                              \
        give name##_body arguments;                                                                \
    }                                                                                              \
    __attribute__((target("avx2,fma"))) static type name##_256 parameters                          \
    {                                                                                              \
        give name##_body arguments;                                                                \
    }                                                                                              \
    type name parameters                                                                           \
    {                                                                                              \
        if (!narrowed && __builtin_cpu_supports("avx512f") &&                                      \
            __builtin_cpu_supports("avx512dq")) {                                                  \
            give name##_512 arguments;                                                             \
        } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {              \
            give name##_256 arguments;                                                             \
        } else {                                                                                   \
            give name##_body arguments;                                                            \
        }                                                                                          \
    }
#else
#define INLINE static inline
#define LOOP(type, give, name, parameters, arguments)                                              \
    type name parameters                                                                           \
    {                                                                                              \
        give name##_body arguments;                                                                \
    }
#endif
#define NOTHING

// exp(-x) to about two units in the last place, without a branch: 2^n times a polynomial on half
// an octave either side, fused where it says so on every processor. Beyond +-87 it stands still,
// where a sigmoid is 0 or 1 anyway.
INLINE float exp_minus(float x)
{
    const float magic = 12582912.0f; // 1.5 * 2^23: adding it rounds to a whole number
    float y = -x;
    y = y < -87.0f ? -87.0f : y;
    y = y > 87.0f ? 87.0f : y;
    float shifted = fmaf(y, 1.44269504f, magic);
    uint32_t n; // unsigned: without a meaning, but defined, where x is not a number
    memcpy(&n, &shifted, sizeof n);
    float whole = shifted - magic;
    float r = fmaf(whole, 2.12194440e-4f, fmaf(whole, -0.693359375f, y));
    float p = 1.9875691500e-4f;
    p = fmaf(p, r, 1.3981999507e-3f);
    p = fmaf(p, r, 8.3334519073e-3f);
    p = fmaf(p, r, 4.1665795894e-2f);
    p = fmaf(p, r, 1.6666665459e-1f);
    p = fmaf(p, r, 5.0000001201e-1f);
    p = fmaf(p, r * r, r) + 1.0f;
    uint32_t bits = (n - 0x4B400000u + 127u) << 23;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return p * scale;
}

INLINE void pf__loop_silu_plain_body(int rows, int width, size_t pitch, const float *bias, float *x,
                                     float *slope)
{
    for (int r = 0; r < rows; r++) {
        float *restrict row = x + (size_t)r * pitch;
        if (!slope) {
            for (int j = 0; j < width; j++) {
                float z = row[j] + bias[j];
                row[j] = z * (1.0f / (1.0f + exp_minus(z)));
            }
            continue;
        }
        float *restrict d = slope + (size_t)r * pitch;
        for (int j = 0; j < width; j++) {
            float z = row[j] + bias[j];
            float s = 1.0f / (1.0f + exp_minus(z));
            float a = z * s;
            row[j] = a;
            d[j] = fmaf(a, 1.0f - s, s);
        }
    }
}
LOOP(void, NOTHING, pf__loop_silu_plain,
     (int rows, int width, size_t pitch, const float *bias, float *x, float *slope),
     (rows, width, pitch, bias, x, slope))

void pf__loop_silu(int rows, int width, size_t pitch, const float *bias, float *x, float *slope)
{
    if (!narrowed && pf__loop_wide()) {
        pf__loop_silu_wide(rows, width, pitch, bias, x, slope);
    } else {
        pf__loop_silu_plain(rows, width, pitch, bias, x, slope);
    }
}

INLINE void pf__loop_relu_body(int rows, int width, size_t pitch, const float *bias, float *x,
                               float *slope)
{
    for (int r = 0; r < rows; r++) {
        float *restrict row = x + (size_t)r * pitch;
        for (int j = 0; j < width; j++) {
            float z = row[j] + bias[j];
            row[j] = z <= 0 ? 0 : z; // keeps what is not a number
        }
        if (slope) {
            float *restrict d = slope + (size_t)r * pitch;
            for (int j = 0; j < width; j++) {
                d[j] = row[j] > 0 ? 1.0f : 0.0f;
            }
        }
    }
}
LOOP(void, NOTHING, pf__loop_relu,
     (int rows, int width, size_t pitch, const float *bias, float *x, float *slope),
     (rows, width, pitch, bias, x, slope))

INLINE void pf__loop_bias_body(int rows, int width, size_t pitch, const float *bias, float *x)
{
    for (int r = 0; r < rows; r++) {
        float *restrict row = x + (size_t)r * pitch;
        for (int j = 0; j < width; j++) {
            row[j] = row[j] + bias[j];
        }
    }
}
LOOP(void, NOTHING, pf__loop_bias, (int rows, int width, size_t pitch, const float *bias, float *x),
     (rows, width, pitch, bias, x))

INLINE void pf__loop_slope_body(int rows, int width, size_t pitch, const float *slope, float *g,
                                float *column_sum)
{
    for (int r = 0; r < rows; r++) {
        float *restrict row = g + (size_t)r * pitch;
        const float *restrict d = slope + (size_t)r * pitch;
        float *restrict sum = column_sum;
        for (int j = 0; j < width; j++) {
            float value = row[j] * d[j];
            row[j] = value;
            sum[j] += value;
        }
    }
}
LOOP(void, NOTHING, pf__loop_slope,
     (int rows, int width, size_t pitch, const float *slope, float *g, float *column_sum),
     (rows, width, pitch, slope, g, column_sum))

INLINE double pf__loop_error_body(int rows, int width, const float *bias, const float *target,
                                  float *y, float *column_sum)
{
    double total = 0;
    float factor = 2.0f / ((float)rows * (float)width);
    memset(column_sum, 0, (size_t)width * sizeof *column_sum);
    for (int r = 0; r < rows; r++) {
        float *restrict row = y + (size_t)r * (size_t)width;
        const float *restrict t = target + (size_t)r * (size_t)width;
        float *restrict sum = column_sum;
        for (int j = 0; j < width; j++) {
            float e = row[j] + bias[j] - t[j];
            total += (double)e * (double)e;
            row[j] = e * factor;
            sum[j] += e * factor;
        }
    }
    return total;
}
LOOP(double, return, pf__loop_error,
     (int rows, int width, const float *bias, const float *target, float *y, float *column_sum),
     (rows, width, bias, target, y, column_sum))

INLINE void pf__loop_standardise_body(int n, const double *feature, const float *mean,
                                      const float *scale, float *row)
{
    float *restrict to = row;
    for (int i = 0; i < n; i++) {
        to[i] = (float)((feature[i] - (double)mean[i]) / (double)scale[i]);
    }
}
LOOP(void, NOTHING, pf__loop_standardise,
     (int n, const double *feature, const float *mean, const float *scale, float *row),
     (n, feature, mean, scale, row))

INLINE void pf__loop_change_body(int n, const float *mean, const float *linear, const float *scale,
                                 const float *out, double *change)
{
    double *restrict to = change;
    for (int i = 0; i < n; i++) {
        to[i] = (double)mean[i] + (double)linear[i] + (double)scale[i] * (double)out[i];
    }
}
LOOP(void, NOTHING, pf__loop_change,
     (int n, const float *mean, const float *linear, const float *scale, const float *out,
      double *change),
     (n, mean, linear, scale, out, change))

INLINE void pf__loop_adam_step_body(const pf_loop_adam *a, size_t n, const float *gradient,
                                    float *first, float *second, float *theta)
{
    const float b1 = a->beta1, b2 = a->beta2, c1 = a->correct1, c2 = a->correct2;
    const float rate = a->rate, epsilon = a->epsilon, keep = 1.0f - a->decay;
    const float n1 = 1.0f - b1, n2 = 1.0f - b2;
    const float *restrict g = gradient;
    float *restrict m = first, *restrict v = second, *restrict t = theta;
    for (size_t i = 0; i < n; i++) {
        float mi = b1 * m[i] + n1 * g[i];
        float vi = b2 * v[i] + n2 * (g[i] * g[i]);
        m[i] = mi;
        v[i] = vi;
        t[i] = t[i] * keep - rate * (mi * c1) / (sqrtf(vi * c2) + epsilon);
    }
}
LOOP(void, NOTHING, pf__loop_adam_step,
     (const pf_loop_adam *a, size_t n, const float *gradient, float *first, float *second,
      float *theta),
     (a, n, gradient, first, second, theta))
