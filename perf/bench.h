// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef BENCH_H
#define BENCH_H

#include <stdio.h>
#include <time.h>

// Seconds of a clock that never goes back. Needs _POSIX_C_SOURCE 200809L before the first include.
static inline double bench_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// One line of result, as perf/run.py reads it.
static inline void bench_print(const char *what, double value, const char *unit)
{
    printf("%s,%.6g,%s\n", what, value, unit);
    fflush(stdout);
}

#endif
