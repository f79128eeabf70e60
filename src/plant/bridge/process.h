// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_PROCESS_H
#define PF_PROCESS_H

#include "preflight/plant.h"

#include <sys/types.h>

// A child process that is spoken to in lines, behind `exec:` plants. Every wait has a deadline.

// Longest line that is accepted from a child, without its newline.
#define PF_PROCESS_LINE_MAX ((size_t)64 << 20)

typedef enum pf_process_result {
    PF_PROCESS_OK,
    PF_PROCESS_TIMEOUT,
    PF_PROCESS_CLOSED,   // the child closed its end, mostly by dying
    PF_PROCESS_TOO_LONG, // more than PF_PROCESS_LINE_MAX without an end
    PF_PROCESS_MEMORY,
    PF_PROCESS_STOPPED, // told so by the flag
    PF_PROCESS_SYSTEM   // a system call failed; see system_error
} pf_process_result;

typedef struct pf_process {
    pid_t pid;                // leader of its own process group; 0: not running
    int in;                   // our end of the child's standard input
    int out;                  // our end of the child's standard output
    int lifeline;             // when it closes, and when we end, the whole group is killed
    const volatile int *stop; // ends every wait. Nullable.
    int system_error;         // errno of the call that failed
    char *buffer;             // what was read: buffer[begin..end)
    size_t begin, end, capacity;
    size_t searched; // buffer[begin..searched) holds no newline
} pf_process;

// Nothing runs. pf__process_stop is allowed from here on.
void pf__process_init(pf_process *process);

// Runs a program with its arguments, the first of which names it (as found on PATH) and the last of
// which is NULL, in a process group of its own; standard error is ours. No shell reads them. The
// group ends when we end, by whatever signal. stop (Nullable) must outlive the process.
pf_process_result pf__process_start(pf_process *process, const char *const *arguments,
                                    const volatile int *stop);

// Sends all of data. Reads meanwhile, so that a child that writes before it has read cannot block.
pf_process_result pf__process_send(pf_process *process, const char *data, size_t size,
                                   double deadline);

// Next line that is not blank, without its newline, not terminated; valid until the next call.
pf_process_result pf__process_line(pf_process *process, const char **line, size_t *size,
                                   double deadline);

// The next n bytes, whatever they are.
pf_process_result pf__process_bytes(pf_process *process, void *to, size_t n, double deadline);

// Says what went wrong with the last call, and how the child ended if it has.
void pf__process_explain(const pf_process *process, pf_process_result result, double limit_s,
                         char *text, size_t size);

// Ends the whole group, reaps the child and frees the buffer. Allowed when nothing runs.
void pf__process_stop(pf_process *process);

// Time limits of a process plant, in seconds.
typedef struct pf_bridge_limits {
    double hello_s; // from the start of the child to its first answer
    double roll_s;  // for one trajectory
} pf_bridge_limits;

// A program behind a plant: the plant's name, the program's arguments up to a NULL, and what to do
// when it cannot be run (Nullable). open copies the first two; the hint is static.
enum { PF_ARGUMENTS = 8 }; // with the NULL
typedef struct pf_bridge_program {
    const char *name, *hint;
    const char *label; // the name in messages. Nullable: the name; copied.
    const char *arguments[PF_ARGUMENTS];
    const char *folder;       // of the files that the command names. Nullable; copied.
    double hello_s;           // 0: the default
    const volatile int *stop; // ends every wait for it. Nullable.
} pf_bridge_program;

// Starts the Python worker on something it knows: method:FILE:CLASS.
pf_status pf__worker_start(pf_process *process, const char *spec, const volatile int *stop,
                           pf_error *error);

pf_status pf__bridge_open(pf_plant **plant, const pf_bridge_program *program, pf_error *error);

#endif
