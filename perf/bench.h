// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef BENCH_H
#define BENCH_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

// Seconds of a clock that never goes back. Needs _POSIX_C_SOURCE 200809L before the first include.
static inline double bench_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// Seconds of the processor that all threads of this process took; other work on the machine does
// not lengthen them.
static inline double bench_cpu(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// Takes turns with a rival, as perf/bench.py asks for them: after `ready` every line of standard
// input has the seconds of a turn, of the processor. work does a piece and returns how much that
// was. An answer is `turn,AMOUNT,PROCESSOR SECONDS,SECONDS BY THE CLOCK`.
static inline int bench_turns(double (*work)(void *self), void *self)
{
    char line[64];
    work(self); // warm
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        double seconds = atof(line), amount = 0, begin = bench_now(), cpu = bench_cpu();
        do {
            amount += work(self);
        } while (bench_cpu() - cpu < seconds);
        cpu = bench_cpu() - cpu;
        printf("turn,%.9g,%.9g,%.9g\n", amount, cpu, bench_now() - begin);
        fflush(stdout);
    }
    return 0;
}

// One line of result, as perf/bench.py reads it.
static inline void bench_print(const char *what, double value, const char *unit)
{
    printf("%s,%.6g,%s\n", what, value, unit);
    fflush(stdout);
}

#endif
