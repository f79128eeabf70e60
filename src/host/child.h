// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_CHILD_H
#define PF_CHILD_H

#include "text.h"

#include <spawn.h>

// Another program that runs once, to its end. (What is spoken to for long is a pf_process.)
typedef struct pf_child {
    const char *const
        *arguments;     // the first names it, as found on PATH; the last is NULL. No shell.
    const char *folder; // where it runs. NULL: where we do.
    const void *input;  // what it may read
    size_t n_input;
    bool quiet;               // what it says on standard error is lost
    const volatile int *stop; // kills it. Nullable.
} pf_child;

// How it ended, where it has no exit status.
enum {
    PF_CHILD_MISSING = -1, // it could not be started
    PF_CHILD_FAILED = -2,  // it was killed, or nobody knows
    PF_CHILD_STOPPED = -3  // we were told to stop
};

// Gives its exit status, or one of these. Whatever it writes is added to output.
int pf__child_run(const pf_child *child, pf_text *output);

// For who starts children. A pair of connected sockets, both above the descriptors of a child: dup2
// in the child must not run over its own source when our caller has closed a standard stream.
// Sockets, not pipes, because they can be created close-on-exec in one call (another thread may
// start a child at any time) and written to without SIGPIPE.
enum { PF_CHILD_DESCRIPTORS = 4 }; // standard streams, and one that a pf_process has
bool pf__child_pair(int pair[2]);

// Starts a program, found on PATH, in a group of its own, with no signal blocked and those that we
// may ignore back at their default. 0, or an errno.
int pf__child_spawn(pid_t *pid, const char *const *arguments,
                    const posix_spawn_file_actions_t *actions);

#endif
