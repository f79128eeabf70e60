// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const struct {
    const char *name;
    void (*run)(void);
    bool asan;
} groups[] = {
#define X(name, asan) {#name, test_##name, asan},
    GROUPS(X)
#undef X
};

static struct {
    const char *group;
    char label[160];
    const char *golden;
    char scratch[64];
    int passed, failed, skipped;
    bool open, bad, full;
} run;

static void close_case(void)
{
    if (!run.open) {
        return;
    }
    run.open = false;
    if (run.bad) {
        run.failed++;
        printf("FAILED %s\n", run.label);
    } else {
        run.passed++;
    }
}

void pf_case(const char *name)
{
    close_case();
    snprintf(run.label, sizeof run.label, "%s: %s", run.group, name);
    run.open = true;
    run.bad = false;
}

bool pf_test_check(bool passed, const char *file, int line, const char *what)
{
    if (!passed) {
        run.bad = true;
        printf("%s:%d: [%s] %s\n", file, line, run.label, what);
    }
    return passed;
}

bool pf_check_near(double actual, double expected, double tolerance, const char *file, int line,
                   const char *what)
{
    bool passed = fabs(actual - expected) <= tolerance;
    if (!passed) {
        run.bad = true;
        printf("%s:%d: [%s] %s is %.17g, expected %.17g within %g\n", file, line, run.label, what,
               actual, expected, tolerance);
    }
    return passed;
}

bool pf_check_string(const char *actual, const char *expected, const char *file, int line)
{
    bool passed = actual && strcmp(actual, expected) == 0;
    if (!passed) {
        run.bad = true;
        printf("%s:%d: [%s] got \"%s\", expected \"%s\"\n", file, line, run.label,
               actual ? actual : "(null)", expected);
    }
    return passed;
}

bool pf_check_contains(const char *actual, const char *part, const char *file, int line)
{
    bool passed = actual && strstr(actual, part);
    if (!passed) {
        run.bad = true;
        printf("%s:%d: [%s] \"%s\" does not contain \"%s\"\n", file, line, run.label,
               actual ? actual : "(null)", part);
    }
    return passed;
}

void pf_skip(const char *why)
{
    if (getenv("CI")) {
        pf_test_check(false, __FILE__, __LINE__, why);
        return;
    }
    run.open = false;
    run.skipped++;
    printf("SKIPPED %s (%s)\n", run.label, why);
}

bool pf_long(void)
{
    return run.full;
}

const char *pf_golden_file(void)
{
    return run.golden;
}

const char *pf_scratch_dir(void)
{
    if (!run.scratch[0]) {
        snprintf(run.scratch, sizeof run.scratch, "/tmp/preflight-test-XXXXXX");
        if (!mkdtemp(run.scratch)) {
            perror("mkdtemp");
            exit(4);
        }
    }
    return run.scratch;
}

static void remove_scratch(void)
{
    if (run.scratch[0]) {
        char command[128];
        snprintf(command, sizeof command, "rm -rf '%s'", run.scratch);
        if (system(command) != 0) {
            fprintf(stderr, "could not remove %s\n", run.scratch);
        }
    }
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    run.golden = PF_GOLDEN;
    const char *filter = NULL;
    bool only_asan = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--list") == 0) {
            for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++) {
                printf("%s\n", groups[g].name);
            }
            return 0;
        }
        if (strcmp(argv[i], "--asan") == 0) {
            only_asan = true;
        } else if (strcmp(argv[i], "--long") == 0) {
            run.full = true;
        } else if (strcmp(argv[i], "--golden") == 0 && i + 1 < argc) {
            run.golden = argv[++i];
        } else if (argv[i][0] == '-') {
            fprintf(stderr,
                    "usage: preflight_test [--list] [--asan] [--long] [--golden FILE] [NAME]\n");
            return 2;
        } else {
            filter = argv[i];
        }
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++) {
        if ((filter && !strstr(groups[g].name, filter)) || (only_asan && !groups[g].asan)) {
            continue;
        }
        run.group = groups[g].name;
        double start = now();
        int before = run.passed;
        groups[g].run();
        close_case();
        printf("%-14s %4d cases %7.2f s\n", run.group, run.passed - before, now() - start);
    }
    remove_scratch();
    printf("%d passed, %d failed", run.passed, run.failed);
    printf(run.skipped ? ", %d skipped\n" : "\n", run.skipped);
    return run.failed > 0 || run.passed == 0;
}
