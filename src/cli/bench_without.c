// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "cli.h"

// In place of bench where its libraries are missing.

static int missing(const char *command)
{
    fprintf(stderr,
            "preflight %s: this build has no experiments; install " PF_BENCH_MISSING
            " and build again\n",
            command);
    return EXIT_BAD_INPUT;
}

int cmd_bench(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return missing("bench");
}

int bench_list_suites(bool json)
{
    (void)json;
    return missing("list");
}
