// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE // RTLD_NOW with dlopen, readlink, gethostname
#include "ranks.h"

#include "core/sha256.h"
#include "file.h"
#include "parallel.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// What a rank says of itself. The build comes first: ranks of another one may say the rest
// otherwise.
typedef struct card {
    char build[65]; // sha256 of the program
    char version[16];
    char machine[PF_MACHINE];
    char host[64];
    char configuration[65]; // sha256
} card;

struct pf_rank {
    card card;
    bool met;        // it waits for a piece of work to begin
    bool away;       // it will send nothing more
    char words[300]; // that it ended with
};

typedef struct outgoing {
    void *request, *bytes;
    struct outgoing *next;
} outgoing;

// --- launcher and module

// How many processes a launcher says that it has started; 0: there is no launcher, 1: it does not
// say.
static int launched(void)
{
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    for (int i = 0; i < 2; i++) {
        const char *text = getenv(sizes[i]);
        if (text) {
            return atoi(text) > 1 ? atoi(text) : 1;
        }
    }
    return getenv("PMIX_RANK") || getenv("PMI_RANK") ? 1 : 0;
}

// The module is found from the program, in the tree it was built in and where it is installed.
static pf_status load(const pf_mpi_calls **mpi, pf_error *error)
{
    static const char *const places[] = {PF_MPI_PLACES};
    char folder[PATH_MAX], path[PATH_MAX + 256];
    char found[sizeof path] = ""; // the last one that is there
    const char *why = NULL;
    void *module = NULL; // it stays: what it has started may still end
    bool known = pf__program_folder(folder, sizeof folder);
    for (size_t i = 0; i < sizeof places / sizeof places[0] && !module && known; i++) {
        snprintf(path, sizeof path, "%s/%s/preflight_mpi.so", folder, places[i]);
        if (access(path, F_OK) == 0) {
            memcpy(found, path, sizeof found);
            module = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
            why = module ? NULL : dlerror();
        }
    }
    *mpi = module ? dlsym(module, "pf_mpi") : NULL;
    if (*mpi && (*mpi)->version == PF_MPI_CALLS) {
        return PF_OK;
    }
    return module || why
               ? pf_fail(error, PF_ERR_FILE, "%s: MPI cannot be used: %s", found,
                         why ? why : "it is of another version of preflight; install both anew")
               : pf_fail(error, PF_ERR_UNSUPPORTED,
                         "started by mpirun, but this build has no MPI (build it with "
                         "libopenmpi-dev)");
}

bool pf__ranks_first(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"};
    for (int i = 0; i < 3; i++) {
        const char *text = getenv(names[i]);
        if (text) {
            return atoi(text) == 0;
        }
    }
    return true;
}

pf_status pf__ranks_open(pf_ranks **ranks, pf_error *error)
{
    int size = launched();
    const pf_mpi_calls *mpi = NULL;
    *ranks = NULL;
    if (size == 0) {
        return PF_OK;
    }
    pf_status status = load(&mpi, error);
    return status ? status : pf__ranks_join(ranks, mpi, size, error);
}

pf_status pf__ranks_join(pf_ranks **ranks, const pf_mpi_calls *mpi, int size, pf_error *error)
{
    pf_status status = PF_OK;
    pf_ranks *r = calloc(1, sizeof *r);
    *ranks = NULL;
    if (!r) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory");
    }
    r->mpi = mpi;
    if (r->mpi->start(&r->rank, &r->size) != 0) {
        status = pf_fail(error, PF_ERR_UNSUPPORTED, "MPI does not start");
    }
    if (status == PF_OK && size > 1 && r->size != size) {
        status = pf_fail(error, PF_ERR_MISMATCH,
                         "mpirun has started %d processes, of which MPI sees %d: it belongs to "
                         "another MPI than this build",
                         size, r->size);
        r->mpi->end();
    }
    r->other = status == PF_OK ? calloc((size_t)r->size, sizeof *r->other) : NULL;
    if (status == PF_OK && !r->other) {
        r->mpi->quit(1);
        status = pf_fail(error, PF_ERR_MEMORY, "out of memory");
    }
    if (status != PF_OK) {
        free(r);
        return status;
    }
    *ranks = r;
    return PF_OK;
}

// --- messages

void pf__ranks_rest(int *looks)
{
    enum { SHORTEST = 20000, LONGEST = 1000000 }; // ns
    long pause = SHORTEST;
    for (int i = 0; i < *looks && pause < LONGEST; i += 4) {
        pause *= 2;
    }
    struct timespec moment = {0, pause < LONGEST ? pause : LONGEST};
    nanosleep(&moment, NULL);
    *looks += *looks < 1000;
}

static pf_status broken(const pf_ranks *r, pf_error *error)
{
    return pf_fail(error, PF_ERR_FILE,
                   r->rank == 0 ? "MPI: a rank cannot be reached any more"
                                : "MPI: rank 0 cannot be reached any more");
}

// Forgets what has been sent.
static pf_status reap(pf_ranks *r, pf_error *error)
{
    pf_status status = PF_OK;
    for (outgoing **at = &r->outgoing; *at;) {
        outgoing *one = *at;
        bool done = false;
        if (r->mpi->sent(one->request, &done) != 0) {
            status = broken(r, error);
            done = true;
        }
        if (done) {
            *at = one->next;
            free(one->bytes);
            free(one);
        } else {
            at = &one->next;
        }
    }
    return status;
}

pf_status pf__ranks_send(pf_ranks *r, int to, pf_tag tag, const void *bytes, size_t n,
                         pf_error *error)
{
    outgoing *one = calloc(1, sizeof *one);
    void *copy = malloc(n > 0 ? n : 1);
    if (!one || !copy) {
        free(one);
        free(copy);
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a message");
    }
    if (n > 0) {
        memcpy(copy, bytes, n);
    }
    if (r->mpi->send(to, tag, copy, n, &one->request) != 0) {
        free(one);
        free(copy);
        return broken(r, error);
    }
    *one = (outgoing){one->request, copy, r->outgoing};
    r->outgoing = one;
    pf_status status = reap(r, error);
    for (int looks = 0; r->rank > 0 && r->outgoing && status == PF_OK;) {
        pf__ranks_rest(&looks);
        status = reap(r, error);
    }
    return status;
}

pf_status pf__ranks_receive(pf_ranks *r, pf_message *m, bool *there, pf_error *error)
{
    int tag = 0;
    size_t n = 0;
    *m = (pf_message){.from = 0};
    pf_status status = reap(r, error);
    *there = false;
    if (status != PF_OK || r->mpi->peek(&m->from, &tag, &n, there) != 0) {
        return status ? status : broken(r, error);
    }
    if (*there) {
        m->tag = (pf_tag)tag;
        m->bytes.data = malloc(n + 1);
        if (!m->bytes.data) {
            return pf_fail(error, PF_ERR_MEMORY, "out of memory for a message of %z bytes", n);
        }
        m->bytes.capacity = n + 1;
        m->bytes.size = n;
        m->bytes.data[n] = 0;
        if (r->mpi->take(m->from, tag, m->bytes.data, n) != 0) {
            pf__text_free(&m->bytes);
            return broken(r, error);
        }
    }
    return PF_OK;
}

// --- meeting

// Without the program's own hash nobody knows whether structs may travel as they are.
static pf_status fill_card(card *c, const pf_meeting *meeting, pf_error *error)
{
    void *program = NULL;
    size_t n = 0;
    pf_error why = {PF_OK, ""};
    memset(c, 0, sizeof *c); // gaps too: it is sent as it is
    pf_status status = pf__file_read("/proc/self/exe", (size_t)1 << 32, &program, &n, &why);
    if (status != PF_OK) {
        return pf_fail(error, status,
                       "the program cannot read itself, by which ranks are compared: %s", why.text);
    }
    pf__sha256_of(program, n, c->build);
    free(program);
    snprintf(c->version, sizeof c->version, PF_VERSION);
    snprintf(c->machine, sizeof c->machine, "%s", meeting->machine);
    gethostname(c->host, sizeof c->host - 1);
    pf__sha256_of(meeting->configuration, strlen(meeting->configuration), c->configuration);
    return PF_OK;
}

const char *pf__ranks_machine(const pf_ranks *r, int rank)
{
    return r->other[rank].card.machine;
}

const char *pf__ranks_host(const pf_ranks *r, int rank)
{
    return r->other[rank].card.host;
}

const char *pf__ranks_words(const pf_ranks *r, int rank)
{
    return r->other[rank].words[0] ? r->other[rank].words : "it has ended";
}

// Whether a rank fits rank 0.
static pf_status compare(const pf_ranks *r, const char *what, int rank, pf_error *error)
{
    const card *own = &r->other[0].card, *its = &r->other[rank].card;
    if (strcmp(own->build, its->build) != 0) {
        return pf_fail(error, PF_ERR_VERSION,
                       "rank %d (%s) runs another build of preflight than rank 0 (%s); install "
                       "the same one everywhere",
                       rank, its->host, own->host);
    }
    if (!r->mixed && strcmp(own->machine, its->machine) != 0) {
        return pf_fail(error, PF_ERR_MISMATCH,
                       "rank %d (%s) is on another kind of processor (%s) than rank 0 (%s: %s), so "
                       "its results may differ in the last digits; --mixed lets that pass",
                       rank, its->host, its->machine, own->host, own->machine);
    }
    if (strcmp(own->configuration, its->configuration) != 0) {
        return pf_fail(error, PF_ERR_MISMATCH,
                       "rank %d (%s) has another configuration of %s than rank 0 (%s); give all "
                       "ranks the same files and options",
                       rank, its->host, what, own->host);
    }
    return PF_OK;
}

void pf__ranks_note(pf_ranks *r, const pf_message *m)
{
    pf_rank *o = &r->other[m->from];
    if (m->tag == PF_TAG_BYE) {
        o->away = true;
        snprintf(o->words, sizeof o->words, "%s", m->bytes.data);
    }
    if (m->tag == PF_TAG_MEET) {
        o->met = true;
        memset(&o->card, 0, sizeof o->card);
        memcpy(&o->card, m->bytes.data,
               m->bytes.size < sizeof o->card ? m->bytes.size : sizeof o->card);
        o->card.host[sizeof o->card.host - 1] = 0;
        o->card.machine[PF_MACHINE - 1] = 0;
    }
}

static int missing(const pf_ranks *r)
{
    int n = 0;
    for (int i = 1; i < r->size; i++) {
        n += !r->other[i].met && !r->other[i].away;
    }
    return n;
}

// Waits for all.
static pf_status gather(pf_ranks *r, const char *what, pf_error *error)
{
    pf_status status = PF_OK;
    for (int looks = 0; missing(r) > 0 && status == PF_OK;) {
        pf_message m;
        bool there = false;
        status = pf__ranks_receive(r, &m, &there, error);
        r->stuck = r->stuck || status != PF_OK; // the job itself is broken
        if (there) {
            pf__ranks_note(r, &m);
        }
        pf__text_free(&m.bytes);
        looks = there ? 0 : looks;
        if (!there) {
            pf__ranks_rest(&looks);
        }
    }
    for (int i = 1; i < r->size && status == PF_OK; i++) {
        const pf_rank *o = &r->other[i];
        status = o->met ? compare(r, what, i, error)
                        : pf_fail(error, PF_ERR_PLANT, "rank %d: %s", i, pf__ranks_words(r, i));
    }
    return status;
}

// All ranks are known: they go on, or are told to leave.
static pf_status answer(pf_ranks *r, bool go, pf_error *error)
{
    pf_status status = PF_OK;
    for (int i = 1; i < r->size; i++) {
        if (!r->other[i].away && r->other[i].met) {
            pf_tag tag = go ? PF_TAG_GO : PF_TAG_LEAVE;
            pf_status one = pf__ranks_send(r, i, tag, NULL, 0, error);
            status = status ? status : one;
            r->other[i].away = !go;
        }
        r->other[i].met = false;
    }
    return status;
}

static pf_status ask_to_meet(pf_ranks *r, const card *own, pf_error *error)
{
    bool answered = false;
    pf_status status = pf__ranks_send(r, 0, PF_TAG_MEET, own, sizeof *own, error);
    for (int looks = 0; status == PF_OK && !answered;) {
        pf_message m;
        bool there = false;
        status = pf__ranks_receive(r, &m, &there, error);
        answered = there && (m.tag == PF_TAG_GO || m.tag == PF_TAG_LEAVE);
        r->dismissed = there && m.tag == PF_TAG_LEAVE;
        pf__text_free(&m.bytes);
        looks = there ? 0 : looks;
        if (!there) {
            pf__ranks_rest(&looks);
        }
    }
    return status || !r->dismissed ? status
                                   : pf_fail(error, PF_ERR_INTERRUPTED, "rank 0 has ended");
}

pf_status pf__ranks_meet(pf_ranks *r, const pf_meeting *meeting, pf_error *error)
{
    card own;
    pf_status status = fill_card(&own, meeting, error);
    if (status != PF_OK || r->rank > 0) {
        return status ? status : ask_to_meet(r, &own, error);
    }
    r->other[0].card = own;
    status = gather(r, meeting->what, error);
    pf_status told = answer(r, status == PF_OK, status == PF_OK ? error : NULL);
    return status ? status : told;
}

// --- the end

void pf__ranks_close(pf_ranks *r, const char *words, int status)
{
    enum { PATIENCE = 30 }; // s, for ranks that still start
    if (!r) {
        return;
    }
    if (r->rank > 0 && !r->dismissed) {
        words = words ? words : "";
        pf__ranks_send(r, 0, PF_TAG_BYE, words, strlen(words), NULL);
    }
    double began = pf__seconds();
    for (int looks = 0; r->rank == 0 && !r->stuck && missing(r) > 0;) {
        pf_message m;
        bool there = false;
        r->stuck =
            pf__ranks_receive(r, &m, &there, NULL) != PF_OK || pf__seconds() - began > PATIENCE;
        if (there && m.tag == PF_TAG_NEXT) { // there is no more work
            pf__ranks_send(r, m.from, PF_TAG_END, NULL, 0, NULL);
        } else if (there) {
            pf__ranks_note(r, &m);
        }
        pf__text_free(&m.bytes);
        looks = there ? 0 : looks;
        if (!there) {
            pf__ranks_rest(&looks);
        }
    }
    if (r->stuck) {
        r->mpi->quit(status);
    }
    if (r->rank == 0) {
        answer(r, false, NULL);
    }
    for (int looks = 0; r->outgoing && reap(r, NULL) == PF_OK && r->outgoing;) {
        pf__ranks_rest(&looks);
    }
    r->mpi->end();
    free(r->other);
    free(r);
}
