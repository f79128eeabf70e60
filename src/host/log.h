// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_LOG_H
#define PF_LOG_H

#include "text.h"

// A file that grows by whole records, each of them on the disk before the next one: a journal.
typedef struct pf_log {
    int fd;                   // -1: there is none
    const char *path;         // not owned
    const volatile int *stop; // ends a wait for whoever reads a pipe. Nullable.
} pf_log;

// What pf__log_start does with a file that is there.
typedef enum pf_log_start {
    PF_LOG_NEW,    // refuses it unless it is empty
    PF_LOG_REPLACE // takes its place, once the first record is whole; not while another writes it
} pf_log_start;

// Starts a log with its first record. A pipe or a device is written to as it is; "-" is standard
// output.
pf_status pf__log_start(pf_log *log, const char *path, pf_log_start how, const volatile int *stop,
                        const pf_text *first, pf_error *error);

// Goes on with a log: keeps its first `whole` bytes and removes what follows. Refused while another
// process writes it.
pf_status pf__log_resume(pf_log *log, const char *path, size_t whole, const volatile int *stop,
                         pf_error *error);

pf_status pf__log_add(pf_log *log, const pf_text *record, pf_error *error);
pf_status pf__log_close(pf_log *log, pf_error *error); // Allowed when there is none.

// Writes all of it, however slowly it is taken. False: an error (errno), the flag (Nullable, EINTR)
// or the deadline in seconds of pf__seconds (0: none, ETIMEDOUT).
bool pf__put(int fd, const char *data, size_t n, const volatile int *stop, double deadline);

#endif
