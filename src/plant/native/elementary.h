// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_ELEMENTARY_H
#define PF_ELEMENTARY_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

// exp, tanh, sine and cosine for the plants: additions, products, at most one division, no branch
// and no table, so that a compiler can run them on many numbers at once. Every step is one rounding
// that IEEE 754 defines, so the bits are the same for one number or many, on every processor and
// with every C library. tests/test_lanes.c holds them against libm.

_Static_assert(FLT_EVAL_METHOD == 0, "doubles must be computed as doubles: on a 32-bit x86 build "
                                     "with -msse2 -mfpmath=sse");

#if defined(__GNUC__)
#define PF_INLINE static inline __attribute__((always_inline))
// Before a loop over the parts of a machine that has branches in it, so that none is left inside
// the loop over machines.
#define PF_UNROLL _Pragma("GCC unroll 8")
#else
#define PF_INLINE static inline
#define PF_UNROLL
#endif

// exp(y) = scale * (1 + p), scale a power of two, |p| < .42. For |y| < 709; NaN gives NaN.
PF_INLINE double pf__exp_parts(double y, double *scale)
{
    const double magic = 0x1.8p52; // adding it rounds to a whole number, which its low bits hold
    double shifted = y * 1.4426950408889634074 + magic;
    double whole = shifted - magic;
    // ln 2 in two parts, the first of 33 bits: its product with a whole number is exact
    double r = (y - whole * 6.93147180369123816490e-01) - whole * 1.90821492927058770002e-10;
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 1023) << 52;
    memcpy(scale, &bits, sizeof bits);
    // (exp(r) - 1 - r)/r^2 for |r| <= ln(2)/2, interpolated at Chebyshev's nodes: 4e-17 of p
    double r2 = r * r, r4 = r2 * r2;
    double low =
        (.5 + r * 0x1.5555555555556p-3) + r2 * (0x1.5555555553d64p-5 + r * 0x1.11111111109b4p-7);
    double middle = (0x1.6c16c1788b646p-10 + r * 0x1.a01a01a7c3d59p-13) +
                    r2 * (0x1.a019b90eefe8ep-16 + r * 0x1.71de0daf7a6ccp-19);
    double high = 0x1.2891834686c7ep-22 + r * 0x1.af38a71a18cb9p-26;
    return r + r2 * (low + r4 * (middle + r4 * high));
}

// exp(x) to 1.2 units in the last place. 0 below -708, infinite above 709.
PF_INLINE double pf__exp(double x)
{
    double y = x > 709 ? 709 : x, scale;
    y = y < -708 ? -708 : y;
    double p = pf__exp_parts(y, &scale);
    double value = scale + scale * p;
    value = x < -708 ? 0 : value;
    return x > 709 ? INFINITY : value;
}

// tanh(x) to 2.6 units in the last place: (e - 1)/(e + 1) with e = exp(2 |x|).
PF_INLINE double pf__tanh(double x)
{
    double z = fabs(x), scale;
    z = z > 20 ? 20 : z; // where tanh is 1
    double p = pf__exp_parts(z + z, &scale);
    double e = scale * p + (scale - 1); // exp(2 z) - 1
    return copysign(e / (e + 2), x);
}

// mask all ones: b, all zeros: a; then the sign turned where bit 1 of turn is set.
PF_INLINE double pf__pick(double a, double b, uint64_t mask, uint64_t turn)
{
    uint64_t one, other;
    memcpy(&one, &a, sizeof one);
    memcpy(&other, &b, sizeof other);
    one = ((one & ~mask) | (other & mask)) ^ (turn & 2) << 62;
    memcpy(&a, &one, sizeof a);
    return a;
}

// sin(x) and cos(x) to 2.4 units in the last place for |x| < 500000, beyond that NaN: no angle of a
// plant is. Polynomials and the three parts of pi/2 are those of fdlibm (Sun Microsystems 1993).
PF_INLINE void pf__sin_cos(double x, double *sine, double *cosine)
{
    const double magic = 0x1.8p52;
    double y = fabs(x) < 500000 ? x : NAN;
    double shifted = y * 6.36619772367581382433e-01 + magic;
    double whole = shifted - magic;
    // the first two parts have 33 bits: their products with a whole number are exact
    double r = (y - whole * 1.57079632673412561417e+00) - whole * 6.07710050630396597660e-11;
    r -= whole * 2.02226624879595063154e-21;
    double z = r * r;
    double s = 8.33333333332248946124e-03 +
               z * (-1.98412698298579493134e-04 +
                    z * (2.75573137070700676789e-06 +
                         z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10)));
    s = r + z * r * (-1.66666666666666324348e-01 + z * s);
    double c = 4.16666666666666019037e-02 +
               z * (-1.38888888888741095749e-03 +
                    z * (2.48015872894767294178e-05 +
                         z * (-2.75573143513906633035e-07 +
                              z * (2.08757232129817482790e-09 - z * 1.13596475577881948265e-11))));
    double half = .5 * z, near = 1 - half;
    c = near + (((1 - near) - half) + z * (z * c));
    uint64_t turns; // quarter turns
    memcpy(&turns, &shifted, sizeof turns);
    uint64_t mask = -(turns & 1);
    *sine = pf__pick(s, c, mask, turns);
    *cosine = pf__pick(c, s, mask, turns + 1);
}

#endif
