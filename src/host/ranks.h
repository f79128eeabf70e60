// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_RANKS_H
#define PF_RANKS_H

#include "text.h"

// The ranks of an MPI job: equal processes on one machine or many. Rank 0 owns every file and hands
// out work, the others compute. MPI itself is behind a module that is loaded only where a launcher
// such as mpirun has started the program: nothing else pays for it, and without it all works as
// before. One thread speaks to the others.

// What the module offers; calls give 0 where all went well. It exports one, named pf_mpi.
typedef struct pf_mpi_calls {
    int version; // PF_MPI_CALLS
    int (*start)(int *rank, int *size);
    // Begins to send; the bytes stay where they are until it is sent.
    int (*send)(int to, int tag, const void *bytes, size_t n, void **request);
    int (*sent)(void *request, bool *done); // frees the request once it is done
    // The message that comes next, if one is there.
    int (*peek)(int *from, int *tag, size_t *n, bool *there);
    int (*take)(int from, int tag, void *bytes, size_t n);
    void (*end)(void);        // waits for the end of all ranks
    void (*quit)(int status); // ends all of them at once
} pf_mpi_calls;

enum { PF_MPI_CALLS = 1 };

// Kinds of messages.
typedef enum pf_tag {
    PF_TAG_MEET = 1, // a rank says who it is; rank 0: go on, or leave
    PF_TAG_GO,
    PF_TAG_LEAVE,
    PF_TAG_BYE,  // a rank has ended; with words it failed
    PF_TAG_NEXT, // asks for a job; rank 0: a short one, a long one, or the end
    PF_TAG_SHORT,
    PF_TAG_LONG,
    PF_TAG_END,
    PF_TAG_ASK, // in the midst of a job; rank 0: the reply, or a refusal
    PF_TAG_REPLY,
    PF_TAG_REFUSED,
    PF_TAG_TELL,   // without a reply
    PF_TAG_FAILED, // it cannot go on
    PF_TAG_STOP    // rank 0: end soon
} pf_tag;

enum { PF_MACHINE = 256 };

typedef struct pf_rank pf_rank; // what rank 0 knows of another

typedef struct pf_ranks {
    const pf_mpi_calls *mpi;
    int rank, size;
    bool mixed;     // ranks on different kinds of processors are let pass
    bool dismissed; // other ranks: rank 0 has told us to leave
    bool stuck;     // rank 0: somebody did not end when asked to
    pf_rank *other; // rank 0: of each
    struct outgoing *outgoing;
} pf_ranks;

// A message that came; free() the bytes.
typedef struct pf_message {
    int from;
    pf_tag tag;
    pf_text bytes;
} pf_message;

// The job that a launcher has started this process in; *ranks is NULL where there is no launcher.
// PF_ERR_UNSUPPORTED: there is one, but this build has no MPI.
pf_status pf__ranks_open(pf_ranks **ranks, pf_error *error);
// The same with these calls; size: what the launcher says, 1: it does not say.
pf_status pf__ranks_join(pf_ranks **ranks, const pf_mpi_calls *mpi, int size, pf_error *error);
// Whether the launcher calls this process the first, before there is a job. No launcher: it is.
bool pf__ranks_first(void);
// Ends this rank's part of the job, with the words that it ends with (Nullable; rank 0 has its own
// ways to say them). Rank 0 sees to it that all end, with `status` where they must be made to.
void pf__ranks_close(pf_ranks *ranks, const char *words, int status);

// A piece of work that all ranks begin together.
typedef struct pf_meeting {
    const char *what;          // "the suite NAME", for messages
    const char *configuration; // all that decides the result
    const char *machine;       // the kind of processor; equal names give equal bits
} pf_meeting;

// Begins it. The ranks must be of the same build, on the same kind of processor and have the same
// configuration, else it is refused. PF_ERR_INTERRUPTED: rank 0 has told this one to leave.
pf_status pf__ranks_meet(pf_ranks *ranks, const pf_meeting *meeting, pf_error *error);
// Where a rank runs, of rank 0: the kind of processor, and the name of the machine.
const char *pf__ranks_machine(const pf_ranks *ranks, int rank);
const char *pf__ranks_host(const pf_ranks *ranks, int rank);
// What a rank has ended with, of rank 0.
const char *pf__ranks_words(const pf_ranks *ranks, int rank);

// Whether ranks other than this one compute. Nullable.
static inline bool pf__ranks_many(const pf_ranks *ranks)
{
    return ranks && ranks->size > 1;
}

// Whether this process only computes. Nullable.
static inline bool pf__ranks_worker(const pf_ranks *ranks)
{
    return ranks && ranks->rank > 0;
}

// A message of a rank that is done with a piece of work: it is ready for the next, or has ended.
void pf__ranks_note(pf_ranks *ranks, const pf_message *message);

// Sends a copy. Rank 0 does not wait; another rank waits until it is on its way.
pf_status pf__ranks_send(pf_ranks *ranks, int to, pf_tag tag, const void *bytes, size_t n,
                         pf_error *error);
// The next message, if one is there: *there.
pf_status pf__ranks_receive(pf_ranks *ranks, pf_message *message, bool *there, pf_error *error);
// Sleeps between two looks for a message, longer from time to time; *looks counts them and is 0
// when something came. MPI itself would keep a processor busy.
void pf__ranks_rest(int *looks);

#endif
