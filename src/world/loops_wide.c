// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "loops.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#define TARGET __attribute__((target("avx512f")))
#define INLINE TARGET static inline __attribute__((always_inline))

bool pf_loop_wide(void)
{
    return __builtin_cpu_supports("avx512f");
}

// Vectors in step: one alone waits for its own results most of the time.
enum { GROUP = 4, LANES = 16 };
#define EACH _Pragma("GCC unroll 4") for (int i = 0; i < GROUP; i++)

INLINE void times_plus(__m512 p[GROUP], const __m512 r[GROUP], float plus)
{
    EACH p[i] = _mm512_mul_ps(p[i], r[i]);
    EACH p[i] = _mm512_add_ps(p[i], _mm512_set1_ps(plus));
}

// 1/(1 + exp(-z)) with the roundings of loops.c one by one. The signs are arranged so that no
// negation is left, and 2^n is applied by its exponent; neither changes a bit.
INLINE void sigmoid(const __m512 z[GROUP], __m512 s[GROUP])
{
    const __m512 magic = _mm512_set1_ps(12582912.0f), one = _mm512_set1_ps(1.0f);
    __m512 x[GROUP], whole[GROUP], r[GROUP], p[GROUP];
    // in this order of the operands a NaN stays
    EACH x[i] = _mm512_max_ps(_mm512_set1_ps(-87.0f), z[i]);
    EACH x[i] = _mm512_min_ps(_mm512_set1_ps(87.0f), x[i]);
    EACH whole[i] = _mm512_mul_ps(x[i], _mm512_set1_ps(-1.44269504f));
    EACH whole[i] = _mm512_add_ps(whole[i], magic);
    EACH whole[i] = _mm512_sub_ps(whole[i], magic);
    EACH r[i] = _mm512_mul_ps(whole[i], _mm512_set1_ps(0.693359375f));
    EACH r[i] = _mm512_add_ps(x[i], r[i]);
    EACH r[i] = _mm512_sub_ps(_mm512_mul_ps(whole[i], _mm512_set1_ps(2.12194440e-4f)), r[i]);
    EACH p[i] = _mm512_set1_ps(1.9875691500e-4f);
    times_plus(p, r, 1.3981999507e-3f);
    times_plus(p, r, 8.3334519073e-3f);
    times_plus(p, r, 4.1665795894e-2f);
    times_plus(p, r, 1.6666665459e-1f);
    times_plus(p, r, 5.0000001201e-1f);
    EACH p[i] = _mm512_mul_ps(p[i], _mm512_mul_ps(r[i], r[i]));
    EACH p[i] = _mm512_add_ps(_mm512_add_ps(p[i], r[i]), one);
    EACH p[i] = _mm512_add_ps(one, _mm512_scalef_ps(p[i], whole[i]));
    EACH s[i] = _mm512_div_ps(one, p[i]);
}

// Up to 16 numbers of a row.
typedef struct piece {
    __mmask16 mask;
    const float *bias;
    float *x, *slope;
} piece;

INLINE void silu(const piece q[GROUP], bool slope)
{
    __m512 z[GROUP], s[GROUP];
    EACH z[i] = _mm512_add_ps(_mm512_maskz_loadu_ps(q[i].mask, q[i].x),
                              _mm512_maskz_loadu_ps(q[i].mask, q[i].bias));
    sigmoid(z, s);
    EACH z[i] = _mm512_mul_ps(z[i], s[i]);
    EACH _mm512_mask_storeu_ps(q[i].x, q[i].mask, z[i]);
    if (slope) {
        EACH z[i] = _mm512_mul_ps(z[i], _mm512_sub_ps(_mm512_set1_ps(1.0f), s[i]));
        EACH _mm512_mask_storeu_ps(q[i].slope, q[i].mask, _mm512_add_ps(s[i], z[i]));
    }
}

TARGET void pf_loop_silu_wide(int rows, int width, size_t pitch, const float *bias, float *x,
                              float *slope)
{
    piece q[GROUP];
    int n = 0;
    for (int r = 0; r < rows; r++) {
        size_t row = (size_t)r * pitch;
        for (int j = 0; j < width; j += LANES) {
            unsigned mask = width - j < LANES ? (1u << (width - j)) - 1 : 0xffff;
            size_t at = row + (size_t)j;
            q[n++] = (piece){(__mmask16)mask, bias + j, x + at, slope ? slope + at : NULL};
            if (r == rows - 1 && j + LANES >= width) {
                // the last group: nothing more is loaded or stored
                for (; n < GROUP; n++) {
                    q[n] = (piece){0, bias, x, slope};
                }
            }
            if (n == GROUP) {
                silu(q, slope != NULL);
                n = 0;
            }
        }
    }
}

#else

bool pf_loop_wide(void)
{
    return false;
}

void pf_loop_silu_wide(int rows, int width, size_t pitch, const float *bias, float *x, float *slope)
{
    pf_loop_silu_plain(rows, width, pitch, bias, x, slope);
}

#endif
