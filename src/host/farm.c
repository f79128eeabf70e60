// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "farm.h"

#include "parallel.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOMENT_MS = 50 }; // after which a foreman that said "later" is asked again

static bool asked_to_stop(const pf_farm *f)
{
    return f->effort && pf__stopped(f->effort->stop);
}

static pf_status interrupted(pf_error *error)
{
    return pf_fail(error, PF_ERR_INTERRUPTED, "stopped; run it again to go on");
}

// How a worker reaches the foreman: within this process, or over messages.
struct pf_link {
    const pf_farm *farm;
    // Waits for a job.
    pf_status (*next)(pf_link *link, pf_turn *turn, pf_text *job, pf_error *error);
    // reply NULL: it only tells.
    pf_status (*say)(pf_link *link, const pf_text *said, pf_text *reply, pf_error *error);
    bool (*stopped)(pf_link *link);
    void (*ahead)(pf_link *link); // asks for the next job already
    int worker;
    struct hall *hall; // threads
    // ranks:
    bool asked;     // for the next job, which is on its way
    bool told;      // by rank 0 to stop
    bool left;      // rank 0 knows that a signal has stopped us
    bool kept;      // the answer for the next job came while something else was waited for
    pf_message job; // it
};

pf_status pf__link_ask(pf_link *link, const pf_text *said, pf_text *reply, pf_error *error)
{
    pf__text_clear(reply);
    return link->say(link, said, reply, error);
}

pf_status pf__link_tell(pf_link *link, const pf_text *said, pf_error *error)
{
    return said->failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory for a message")
                        : link->say(link, said, NULL, error);
}

bool pf__link_stopped(pf_link *link)
{
    return link->stopped(link);
}

// --- what every worker does

static pf_status work(pf_link *link, pf_error *error)
{
    const pf_farm *f = link->farm;
    pf_text job = {0};
    pf_turn turn = PF_TURN_END;
    pf_status status = PF_OK;
    do {
        pf__text_clear(&job);
        status = link->next(link, &turn, &job, error);
        if (status == PF_OK && turn == PF_TURN_SHORT) {
            link->ahead(link);
        }
        if (status == PF_OK && turn != PF_TURN_END) {
            status = f->work(f->self, link->worker, link, &job, error);
        }
    } while (status == PF_OK && turn != PF_TURN_END);
    pf__text_free(&job);
    return status;
}

// --- threads

typedef struct hall {
    const pf_farm *farm;
    pthread_mutex_t lock; // of everything below, and of the foreman
    pthread_cond_t news;
    bool broken; // somebody failed; the others stop too
} hall;

static void wait_for_news(hall *h)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += MOMENT_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_cond_timedwait(&h->news, &h->lock, &until);
}

static pf_status next_here(pf_link *link, pf_turn *turn, pf_text *job, pf_error *error)
{
    hall *h = link->hall;
    const pf_foreman *f = &h->farm->foreman;
    pf_status status = PF_OK;
    *turn = PF_TURN_LATER;
    pthread_mutex_lock(&h->lock);
    while (status == PF_OK && *turn == PF_TURN_LATER) {
        if (h->broken || asked_to_stop(h->farm)) {
            *turn = PF_TURN_END;
        } else {
            status = f->next(f->self, link->worker, turn, job, error);
        }
        if (status == PF_OK && *turn == PF_TURN_LATER) {
            wait_for_news(h);
        }
    }
    h->broken = h->broken || status != PF_OK;
    pthread_mutex_unlock(&h->lock);
    return status;
}

static pf_status say_here(pf_link *link, const pf_text *said, pf_text *reply, pf_error *error)
{
    hall *h = link->hall;
    const pf_foreman *f = &h->farm->foreman;
    pthread_mutex_lock(&h->lock);
    pf_status status = f->hear(f->self, link->worker, said, reply, error);
    h->broken = h->broken || status != PF_OK;
    pthread_cond_broadcast(&h->news);
    pthread_mutex_unlock(&h->lock);
    return status;
}

static bool stopped_here(pf_link *link)
{
    hall *h = link->hall;
    pthread_mutex_lock(&h->lock);
    bool stop = h->broken || asked_to_stop(h->farm);
    pthread_mutex_unlock(&h->lock);
    return stop;
}

static void ahead_here(pf_link *link)
{
    (void)link; // the foreman is near
}

static pf_status work_here(void *self, int worker, size_t item, pf_error *error)
{
    (void)item;
    hall *h = self;
    pf_link link = {.farm = h->farm,
                    .next = next_here,
                    .say = say_here,
                    .stopped = stopped_here,
                    .ahead = ahead_here,
                    .worker = worker,
                    .hall = h};
    pf_status status = work(&link, error);
    pthread_mutex_lock(&h->lock);
    h->broken = h->broken || status != PF_OK;
    pthread_cond_broadcast(&h->news);
    pthread_mutex_unlock(&h->lock);
    return status;
}

static pf_status run_here(const pf_farm *f, pf_error *error)
{
    hall h = {.farm = f};
    pf_effort team = {.threads = f->threads};
    pthread_mutex_init(&h.lock, NULL);
    pthread_cond_init(&h.news, NULL);
    pf_status status =
        pf__parallel(&team, f->threads, (size_t)f->threads, work_here, &h, "work", error);
    pthread_cond_destroy(&h.news);
    pthread_mutex_destroy(&h.lock);
    return status == PF_OK && asked_to_stop(f) ? interrupted(error) : status;
}

// --- ranks

// A status and its words, as a message.
typedef struct refusal {
    pf_status status;
    pf_error error;
} refusal;

static pf_status refused(const pf_message *m, pf_error *error)
{
    refusal r = {PF_ERR_INTERNAL, {PF_ERR_INTERNAL, "rank 0 has refused"}};
    memcpy(&r, m->bytes.data, m->bytes.size < sizeof r ? m->bytes.size : sizeof r);
    return pf_fail(error, r.status, "%s", r.error.text);
}

// A signal may have come to this rank alone: then rank 0 hears of it.
static pf_status notice_stop(pf_link *link, pf_error *error)
{
    if (link->left || !asked_to_stop(link->farm)) {
        return PF_OK;
    }
    link->left = true;
    return pf__ranks_send(link->farm->ranks, 0, PF_TAG_STOP, NULL, 0, error);
}

// Takes what is there, if anything: a word to stop and an early job are kept for later. *reply is
// the rest.
static pf_status look(pf_link *link, pf_message *reply, bool *there, pf_error *error)
{
    bool came = false;
    pf_status status = notice_stop(link, error);
    status = status ? status : pf__ranks_receive(link->farm->ranks, reply, &came, error);
    *there = false;
    if (status != PF_OK || !came) {
        return status;
    }
    if (reply->tag == PF_TAG_SHORT || reply->tag == PF_TAG_LONG || reply->tag == PF_TAG_END) {
        link->job = *reply;
        link->kept = true;
    } else if (reply->tag == PF_TAG_REPLY || reply->tag == PF_TAG_REFUSED) {
        *there = true;
        return PF_OK;
    } else {
        link->told = link->told || reply->tag == PF_TAG_STOP;
        pf__text_free(&reply->bytes);
    }
    *reply = (pf_message){.from = 0};
    return PF_OK;
}

// Asks for the next job, once.
static pf_status request(pf_link *link, pf_error *error)
{
    pf_status status =
        link->asked ? PF_OK : pf__ranks_send(link->farm->ranks, 0, PF_TAG_NEXT, NULL, 0, error);
    link->asked = status == PF_OK;
    return status;
}

static void ahead_there(pf_link *link)
{
    request(link, NULL); // what fails now fails again
}

static pf_status next_there(pf_link *link, pf_turn *turn, pf_text *job, pf_error *error)
{
    pf_status status = request(link, error);
    for (int looks = 0; status == PF_OK && !link->kept;) {
        pf_message m;
        bool there = false;
        status = look(link, &m, &there, error);
        if (status == PF_OK && there) {
            status = refused(&m, error);
            pf__text_free(&m.bytes);
        } else if (status == PF_OK && !link->kept) {
            pf__ranks_rest(&looks);
        }
    }
    if (status == PF_OK) {
        pf_tag tag = link->job.tag;
        *turn = tag == PF_TAG_SHORT  ? PF_TURN_SHORT
                : tag == PF_TAG_LONG ? PF_TURN_LONG
                                     : PF_TURN_END;
        pf__text_free(job);
        *job = link->job.bytes;
        link->kept = link->asked = false;
    }
    return status;
}

static pf_status say_there(pf_link *link, const pf_text *said, pf_text *reply, pf_error *error)
{
    pf_tag tag = reply ? PF_TAG_ASK : PF_TAG_TELL;
    pf_status status = pf__ranks_send(link->farm->ranks, 0, tag, said->data, said->size, error);
    pf_message m;
    bool there = false;
    for (int looks = 0; status == PF_OK && reply && !there;) {
        status = look(link, &m, &there, error);
        if (status == PF_OK && !there) {
            pf__ranks_rest(&looks);
        }
    }
    if (there && m.tag == PF_TAG_REFUSED) {
        status = refused(&m, error);
        pf__text_free(&m.bytes);
    } else if (there) {
        pf__text_free(reply);
        *reply = m.bytes;
    }
    return status;
}

static bool stopped_there(pf_link *link)
{
    pf_message m;
    bool there = false;
    if (look(link, &m, &there, NULL) != PF_OK || there) { // nothing was asked
        link->told = true;
    }
    if (there) {
        pf__text_free(&m.bytes);
    }
    return link->told || asked_to_stop(link->farm);
}

static pf_status work_there(const pf_farm *f, pf_error *error)
{
    pf_link link = {.farm = f,
                    .next = next_there,
                    .say = say_there,
                    .stopped = stopped_there,
                    .ahead = ahead_there,
                    .worker = f->ranks->rank};
    pf_error why = {PF_OK, ""};
    refusal r;
    memset(&r, 0, sizeof r);
    pf_status status = work(&link, &why);
    if (status != PF_OK) {
        r.status = status;
        r.error = why;
        pf__ranks_send(f->ranks, 0, PF_TAG_FAILED, &r, sizeof r, NULL);
        pf_fail(error, status, "%s", why.text);
    }
    if (link.kept) {
        pf__text_free(&link.job.bytes);
    }
    return status;
}

// --- rank 0

typedef struct office {
    const pf_farm *farm;
    bool *waits;    // by rank: it wants a job and there was none
    bool *told_end; // by rank: it has been told that there is none any more; it may still compute
    bool *ended;    // by rank: it is ready for other work, has left or has failed
    int working;    // ranks that have not ended
    bool stops;     // all were told to
    double told;    // when
    double asked;   // when those who wait were last considered
    pf_status status;
    pf_error error;
} office;

static void note(office *o, pf_status status, const pf_error *why)
{
    if (status != PF_OK && o->status == PF_OK) {
        o->status = status;
        o->error = *why;
    }
}

static void send(office *o, int to, pf_tag tag, const pf_text *bytes)
{
    pf_error why = {PF_OK, ""};
    const char *data = bytes && bytes->data ? bytes->data : "";
    note(o, pf__ranks_send(o->farm->ranks, to, tag, data, bytes ? bytes->size : 0, &why), &why);
}

static void end(office *o, int rank)
{
    o->working -= !o->ended[rank];
    o->ended[rank] = true;
    o->waits[rank] = false;
}

// A rank wants a job: it gets one, is told that there is none any more, or waits.
static void hand_out(office *o, int rank)
{
    const pf_foreman *f = &o->farm->foreman;
    pf_error why = {PF_OK, ""};
    pf_text job = {0};
    pf_turn turn = PF_TURN_END;
    if (o->status == PF_OK && !o->stops) {
        note(o, f->next(f->self, rank, &turn, &job, &why), &why);
    }
    turn = o->status == PF_OK ? turn : PF_TURN_END;
    o->waits[rank] = turn == PF_TURN_LATER;
    if (turn == PF_TURN_END) {
        send(o, rank, PF_TAG_END, NULL);
        o->told_end[rank] = true; // it ends once it has told what it still computes
    } else if (turn != PF_TURN_LATER) {
        send(o, rank, turn == PF_TURN_SHORT ? PF_TAG_SHORT : PF_TAG_LONG, &job);
    }
    pf__text_free(&job);
}

static void consider_waiting(office *o)
{
    o->asked = pf__seconds();
    for (int i = 1; i < o->farm->ranks->size; i++) {
        if (o->waits[i]) {
            hand_out(o, i);
        }
    }
}

static void hear(office *o, const pf_message *m)
{
    const pf_foreman *f = &o->farm->foreman;
    pf_text reply = {0};
    refusal r;
    memset(&r, 0, sizeof r);
    pf_text refusal_bytes = {.data = (char *)&r, .size = sizeof r};
    bool asks = m->tag == PF_TAG_ASK;
    r.status = f->hear(f->self, m->from, &m->bytes, asks ? &reply : NULL, &r.error);
    note(o, r.status, &r.error);
    if (asks) {
        send(o, m->from, r.status == PF_OK ? PF_TAG_REPLY : PF_TAG_REFUSED,
             r.status == PF_OK ? &reply : &refusal_bytes);
    }
    pf__text_free(&reply);
}

static void take_message(office *o, const pf_message *m)
{
    pf_error why = {PF_OK, ""};
    pf_status status = PF_OK;
    switch (m->tag) {
    case PF_TAG_NEXT:
        hand_out(o, m->from);
        break;
    case PF_TAG_ASK:
    case PF_TAG_TELL:
        hear(o, m);
        consider_waiting(o); // what was told may be what they wait for
        break;
    case PF_TAG_STOP: // a signal came to that rank alone
        interrupted(&why);
        note(o, PF_ERR_INTERRUPTED, &why);
        break;
    case PF_TAG_FAILED:
        status = refused(m, &why);
        if (status != PF_ERR_INTERRUPTED) {
            pf_error own = why;
            pf_fail(&why, status, "rank %d (%s): %s", m->from,
                    pf__ranks_host(o->farm->ranks, m->from), own.text);
        }
        note(o, status, &why);
        end(o, m->from);
        break;
    default:
        pf__ranks_note(o->farm->ranks, m);
        if (!o->told_end[m->from] && !o->ended[m->from]) {
            status = pf_fail(&why, PF_ERR_PLANT, "rank %d (%s): %s", m->from,
                             pf__ranks_host(o->farm->ranks, m->from),
                             pf__ranks_words(o->farm->ranks, m->from));
        }
        note(o, status, &why);
        end(o, m->from);
    }
}

// Those who work are told to end; those who wait, that there is nothing more.
static void stop_all(office *o)
{
    o->stops = true;
    o->told = pf__seconds();
    for (int i = 1; i < o->farm->ranks->size; i++) {
        if (!o->ended[i]) {
            send(o, i, PF_TAG_STOP, NULL);
        }
    }
    consider_waiting(o);
}

// Launchers kill what does not end within a second of a signal; what is merely wrong has more time.
static bool out_of_patience(const office *o)
{
    double patience = asked_to_stop(o->farm) ? .5 : 10;
    return o->stops && pf__seconds() - o->told > patience;
}

static void rest(office *o, int *looks)
{
    const pf_foreman *f = &o->farm->foreman;
    pf_error why = {PF_OK, ""};
    if (f->rest && *looks == 0) {
        note(o, f->rest(f->self, &why), &why);
    }
    pf__ranks_rest(looks);
}

static void serve(office *o)
{
    for (int looks = 0; o->working > 0 && !out_of_patience(o);) {
        pf_message m;
        bool there = false;
        pf_error why = {PF_OK, ""};
        pf_status status = pf__ranks_receive(o->farm->ranks, &m, &there, &why);
        note(o, status, &why);
        if (status != PF_OK) {
            o->farm->ranks->stuck = true;
            return;
        }
        if (there) {
            take_message(o, &m);
        }
        pf__text_free(&m.bytes);
        if (!o->stops && (asked_to_stop(o->farm) || o->status != PF_OK)) {
            stop_all(o);
        }
        if (pf__seconds() - o->asked > MOMENT_MS * 1e-3) {
            consider_waiting(o);
        }
        looks = there ? 0 : looks;
        if (!there) {
            rest(o, &looks);
        }
    }
}

static pf_status lead(const pf_farm *f, pf_error *error)
{
    size_t n = (size_t)f->ranks->size;
    office o = {.farm = f,
                .waits = calloc(n, sizeof *o.waits),
                .told_end = calloc(n, sizeof *o.told_end),
                .ended = calloc(n, sizeof *o.ended),
                .working = f->ranks->size - 1,
                .status = PF_OK};
    if (o.waits && o.told_end && o.ended) {
        serve(&o);
    } else {
        o.status = pf_fail(&o.error, PF_ERR_MEMORY, "out of memory for ranks");
    }
    f->ranks->stuck = f->ranks->stuck || o.working > 0;
    free(o.waits);
    free(o.told_end);
    free(o.ended);
    if (o.status != PF_OK) {
        return pf_fail(error, o.status, "%s", o.error.text);
    }
    return asked_to_stop(f) ? interrupted(error) : PF_OK;
}

pf_status pf__farm_run(const pf_farm *f, pf_error *error)
{
    return !pf__ranks_many(f->ranks)    ? run_here(f, error)
           : pf__ranks_worker(f->ranks) ? work_there(f, error)
                                        : lead(f, error);
}
