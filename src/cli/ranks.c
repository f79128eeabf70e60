// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "cli.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The ranks of a job that mpirun has started. Rank 0 alone speaks: what another one prints goes
// nowhere, and what it fails with before there is work goes to rank 0.

static pf_ranks *job;
static int own_stderr = -1; // of another rank, while what it says is collected

static void be_quiet(void)
{
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    FILE *words = tmpfile();
    if (nowhere >= 0) {
        dup2(nowhere, STDOUT_FILENO);
        close(nowhere);
    }
    own_stderr = words ? fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3) : -1;
    if (own_stderr >= 0) {
        dup2(fileno(words), STDERR_FILENO);
    }
    if (words) {
        fclose(words);
    }
}

// The first line of what was collected, and the standard error is ours again.
static void speak_again(char *line, size_t size)
{
    line[0] = 0;
    if (own_stderr < 0) {
        return;
    }
    fflush(stderr);
    if (lseek(STDERR_FILENO, 0, SEEK_SET) == 0) {
        ssize_t n = read(STDERR_FILENO, line, size - 1);
        line[n > 0 ? n : 0] = 0;
        line[strcspn(line, "\n")] = 0;
    }
    dup2(own_stderr, STDERR_FILENO);
    close(own_stderr);
    own_stderr = -1;
}

bool cli_ranks_open(const char *command, pf_ranks **ranks, int *status)
{
    pf_error error = {PF_OK, ""};
    pf_status opened = pf__ranks_open(&job, &error);
    *ranks = job;
    if (opened == PF_ERR_UNSUPPORTED) {
        if (pf__ranks_first()) {
            cli_say(command, "warning: %s; every process runs for itself", error.text);
        }
        return true;
    }
    if (opened != PF_OK) {
        bool first = pf__ranks_first();
        *status = first ? cli_fail(command, opened, &error) : EXIT_BAD_INPUT;
        return false;
    }
    if (job) {
        cli_screen_piped();
    }
    if (pf__ranks_worker(job)) {
        be_quiet();
    }
    return true;
}

void cli_ranks_mixed(bool mixed)
{
    if (job) {
        job->mixed = mixed;
    }
}

void cli_ranks_begin(void)
{
    char line[400];
    speak_again(line, sizeof line);
}

void cli_ranks_end(void)
{
    fflush(stderr);
    be_quiet();
}

int cli_ranks_close(int status)
{
    char line[400] = "";
    const char *words = line;
    bool worker = pf__ranks_worker(job);
    if (worker) {
        speak_again(line, sizeof line);
        if (strstr(line, "preflight ") == line && strstr(line, ": ")) {
            words = strstr(line, ": ") + 2; // rank 0 says the command itself
        }
    }
    pf__ranks_close(job, words, status);
    job = NULL;
    return worker ? EXIT_YES : status; // the exit status of the job is that of rank 0
}
