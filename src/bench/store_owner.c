// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "store_impl.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void pf__owner_of(pid_t pid, char out[64])
{
    char path[64], line[1024];
    unsigned long long started = 0;
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    FILE *f = fopen(path, "r");
    if (f) {
        size_t n = fread(line, 1, sizeof line - 1, f);
        line[n] = 0;
        // the 22nd field; the second may hold spaces but ends at the last bracket
        char *at = strrchr(line, ')');
        for (int field = 2; at && field < 22; field++) {
            at = strchr(at + 1, ' ');
        }
        started = at ? strtoull(at, NULL, 10) : 0;
        fclose(f);
    }
    snprintf(out, 64, "%ld-%llu", (long)pid, started);
}

// Whether the process is there and not merely waiting to be reaped.
static bool process_runs(pid_t pid)
{
    char path[64], line[512] = "";
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(line, 1, sizeof line - 1, f) : 0;
    line[n] = 0;
    if (f) {
        fclose(f);
    }
    const char *state = strrchr(line, ')');
    return state && state[1] == ' ' && state[2] != 'Z' && state[2] != 'X';
}

bool pf__owner_alive(const char *owner)
{
    char now[64];
    pid_t pid = (pid_t)strtol(owner, NULL, 10);
    if (pid <= 0 || (kill(pid, 0) != 0 && errno == ESRCH) || !process_runs(pid)) {
        return false;
    }
    pf__owner_of(pid, now);
    return strcmp(now, owner) == 0;
}
