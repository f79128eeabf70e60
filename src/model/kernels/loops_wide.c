// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "loops.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#define TARGET __attribute__((target("avx512f")))
#define INLINE TARGET static inline __attribute__((always_inline))

bool pf__loop_wide(void)
{
    return __builtin_cpu_supports("avx512f");
}

// Vectors in step: one alone waits for its own results most of the time.
enum { GROUP = 4, LANES = 16 };
#define EACH _Pragma("GCC unroll 4") for (int i = 0; i < GROUP; i++)

INLINE void times_plus(__m512 p[GROUP], const __m512 r[GROUP], float plus)
{
    EACH p[i] = _mm512_fmadd_ps(p[i], r[i], _mm512_set1_ps(plus));
}

// 1/x, rounded as a division rounds it: two steps of Newton from 14 bits, which err in the one
// significand that is all ones (Markstein). For x in 1..2^127, as a sigmoid has it; what is not a
// number need not stay so here, since it is multiplied by one that is not. The test goes through
// every significand.
INLINE void reciprocal(const __m512 x[GROUP], __m512 y[GROUP])
{
    const __m512 one = _mm512_set1_ps(1.0f);
    __m512 e[GROUP];
    EACH y[i] = _mm512_rcp14_ps(x[i]);
    EACH e[i] = _mm512_fnmadd_ps(x[i], y[i], one);
    EACH y[i] = _mm512_fmadd_ps(e[i], y[i], y[i]);
    EACH e[i] = _mm512_fnmadd_ps(x[i], y[i], one);
    EACH y[i] = _mm512_fmadd_ps(e[i], y[i], y[i]);
    EACH
    {
        __m512i bits = _mm512_or_si512(_mm512_castps_si512(x[i]), _mm512_set1_epi32(-0x800000));
        __mmask16 ones = _mm512_cmpeq_epi32_mask(bits, _mm512_set1_epi32(-1));
        __m512i up = _mm512_castps_si512(y[i]);
        up = _mm512_mask_add_epi32(up, ones, up, _mm512_set1_epi32(1));
        y[i] = _mm512_castsi512_ps(up);
    }
}

TARGET void pf__loop_reciprocal_wide(size_t n, float *x)
{
    for (size_t at = 0; at < n; at += GROUP * LANES) {
        __m512 v[GROUP], y[GROUP];
        EACH v[i] = _mm512_loadu_ps(x + at + (size_t)i * LANES);
        reciprocal(v, y);
        EACH _mm512_storeu_ps(x + at + (size_t)i * LANES, y[i]);
    }
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
    EACH whole[i] = _mm512_fmadd_ps(x[i], _mm512_set1_ps(-1.44269504f), magic);
    EACH whole[i] = _mm512_sub_ps(whole[i], magic);
    EACH r[i] = _mm512_fmadd_ps(whole[i], _mm512_set1_ps(0.693359375f), x[i]);
    EACH r[i] = _mm512_fmsub_ps(whole[i], _mm512_set1_ps(2.12194440e-4f), r[i]);
    EACH p[i] = _mm512_set1_ps(1.9875691500e-4f);
    times_plus(p, r, 1.3981999507e-3f);
    times_plus(p, r, 8.3334519073e-3f);
    times_plus(p, r, 4.1665795894e-2f);
    times_plus(p, r, 1.6666665459e-1f);
    times_plus(p, r, 5.0000001201e-1f);
    EACH p[i] = _mm512_fmadd_ps(p[i], _mm512_mul_ps(r[i], r[i]), r[i]);
    EACH p[i] = _mm512_scalef_ps(_mm512_add_ps(p[i], one), whole[i]);
    EACH p[i] = _mm512_add_ps(one, p[i]);
    reciprocal(p, s);
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
        EACH s[i] = _mm512_fmadd_ps(z[i], _mm512_sub_ps(_mm512_set1_ps(1.0f), s[i]), s[i]);
        EACH _mm512_mask_storeu_ps(q[i].slope, q[i].mask, s[i]);
    }
}

// Rows of GROUP whole vectors, as the parts of a wide product are.
TARGET static void silu_rows(int rows, size_t pitch, const float *bias, float *x, float *slope)
{
    piece q[GROUP];
    for (int r = 0; r < rows; r++) {
        size_t at = (size_t)r * pitch;
        EACH q[i] = (piece){0xffff, bias + i * LANES, x + at + i * LANES,
                            slope ? slope + at + i * LANES : NULL};
        silu(q, slope != NULL);
    }
}

TARGET void pf__loop_silu_wide(int rows, int width, size_t pitch, const float *bias, float *x,
                               float *slope)
{
    if (width == GROUP * LANES) {
        silu_rows(rows, pitch, bias, x, slope);
        return;
    }
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

void pf__loop_reciprocal_wide(size_t n, float *x)
{
    for (size_t i = 0; i < n; i++) {
        x[i] = 1.0f / x[i];
    }
}

bool pf__loop_wide(void)
{
    return false;
}

void pf__loop_silu_wide(int rows, int width, size_t pitch, const float *bias, float *x,
                        float *slope)
{
    pf__loop_silu_plain(rows, width, pitch, bias, x, slope);
}

#endif
