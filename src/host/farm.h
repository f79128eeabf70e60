// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_FARM_H
#define PF_FARM_H

#include "ranks.h"

// Work that one hands out and several do: the foreman has the jobs and takes what comes of them,
// workers ask for the next job until there is none. Workers are threads of this process, or the
// other ranks of an MPI job; nobody but this file knows which. Jobs and results are bytes. All who
// take part run the same build, so structs may travel as they are.

// What a worker that asks for a job gets. While it does a short one it asks for the next, so that
// it need not wait.
typedef enum pf_turn { PF_TURN_SHORT, PF_TURN_LONG, PF_TURN_LATER, PF_TURN_END } pf_turn;

// Called from one thread at a time. worker: from 0, of ranks the rank.
typedef struct pf_foreman {
    void *self;
    // The next job for a worker. PF_TURN_LATER: none now, but there may be one when others have
    // told what they did, or after a moment. What fails ends the work of all.
    pf_status (*next)(void *self, int worker, pf_turn *turn, pf_text *job, pf_error *error);
    // What a worker says in the midst of its job; reply: what it is given back, where it asked.
    pf_status (*hear)(void *self, int worker, const pf_text *said, pf_text *reply, pf_error *error);
    // Nobody wants anything at the moment: time for what was put off. Of ranks. Nullable.
    pf_status (*rest)(void *self, pf_error *error);
} pf_foreman;

// A worker's way to the foreman.
typedef struct pf_link pf_link;

// Asks and waits for the reply, or only tells.
pf_status pf__link_ask(pf_link *link, const pf_text *said, pf_text *reply, pf_error *error);
pf_status pf__link_tell(pf_link *link, const pf_text *said, pf_error *error);
// Whether a job should be left as soon as may be, given back as far as it is not done.
bool pf__link_stopped(pf_link *link);

// Does one job. What fails ends the work of all; what only this job cannot do is told the foreman.
typedef pf_status (*pf_job_fn)(void *self, int worker, pf_link *link, const pf_text *job,
                               pf_error *error);

// Until the foreman has no more jobs. Of ranks (Nullable), rank 0 has the foreman alone and the
// others work; else `threads` of this process do. With effort->stop no more jobs are begun, then
// PF_ERR_INTERRUPTED. Ranks that do not end then in time are left behind (ranks->stuck).
typedef struct pf_farm {
    pf_ranks *ranks;         // Nullable
    const pf_effort *effort; // its flag to stop. Nullable.
    int threads;
    pf_foreman foreman;
    pf_job_fn work;
    void *self; // of work
} pf_farm;

pf_status pf__farm_run(const pf_farm *farm, pf_error *error);

#endif
