// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdint.h>
#include <string.h>

// Two C libraries differ in the last bits of log, exp and the like, and in nothing else that the
// example uses: addition, multiplication, division and square root are IEEE 754's. To show that,
// the linker sends those functions here (--wrap), which keeps the first 28 bits of each result.
// What is computed then must be equal on host and board to the last bit.

static double coarse(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (isfinite(value)) {
        bits = (bits + ((uint64_t)1 << 23)) & ~(((uint64_t)1 << 24) - 1);
    }
    memcpy(&value, &bits, sizeof value);
    return value;
}

#define COARSE(name)                                                                               \
    double __real_##name(double x);                                                                \
    double __wrap_##name(double x);                                                                \
    double __wrap_##name(double x)                                                                 \
    {                                                                                              \
        return coarse(__real_##name(x));                                                           \
    }

COARSE(cbrt)
COARSE(exp)
COARSE(expm1)
COARSE(log)
COARSE(log10)
COARSE(log1p)

double __real_pow(double x, double y);
double __wrap_pow(double x, double y);
double __wrap_pow(double x, double y)
{
    return coarse(__real_pow(x, y));
}
