// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_PARALLEL_H
#define PF_PARALLEL_H

#include "part.h"

// Runs item 0..n-1 on that many threads. Each item writes to its own slot, so the result does not
// depend on their number. worker is 0..workers-1: whoever keeps memory per worker asks pf__threads
// once, since the processors of a process may change. When items fail, the error of the lowest one
// reached is returned and the rest is not started.
typedef pf_status (*pf_item_fn)(void *self, int worker, size_t item, pf_error *error);

pf_status pf__parallel(const pf_effort *effort, int workers, size_t n, pf_item_fn run, void *self,
                       const char *what, pf_error *error);

// The same where the results of an item are in slots of its own, which decide all that follows:
// with effort->part they are kept, and an item that is kept already is not run.
pf_status pf__parallel_kept(const pf_effort *effort, int workers, size_t n, pf_item_fn run,
                            pf_slots_fn slots, void *self, const char *what, pf_error *error);

// One step of work in a loop of its own is done: says so, and stops where it is asked to.
pf_status pf__step(const pf_effort *effort, const char *what, size_t done, size_t total,
                   pf_error *error);

// Times the first items of a stage, to tell how long a job takes. Set the first three fields.
typedef struct pf_timing {
    const pf_effort *effort; // Nullable
    void *self;
    // Called once: the items first..first+n-1 took `seconds` together, on all threads.
    void (*say)(void *self, size_t first, size_t n, double seconds);
    double began;
    size_t n;
    bool said;
} pf_timing;

// The same effort, timed; only where somebody asks for an estimate. It begins now.
pf_effort pf__timed(pf_timing *timing);

// Threads that an effort (Nullable) means here and now.
int pf__threads(const pf_effort *effort);

// Whether a flag (Nullable) asks to stop. Other threads and signal handlers set it.
static inline bool pf__stopped(const volatile int *flag)
{
    return flag && __atomic_load_n(flag, __ATOMIC_RELAXED);
}

// Number of processors this process may use.
int pf__processors(void);

// What kind the processor is, "unknown" where the system does not say.
void pf__processor_name(char *name, size_t size);

// Seconds of a clock that never goes back.
double pf__seconds(void);

#endif
