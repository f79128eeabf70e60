// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE // sched_getaffinity
#include "parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct team {
    pthread_mutex_t lock;
    size_t next, done, n;
    pf_item_fn run;
    void *self;
    const pf_effort *effort;
    const char *what;
    size_t failed_item; // n: none
    pf_error error;
    pf_slots_fn slots; // Nullable: nothing is kept
    uint8_t *kept;     // per item, see pf__part_stage. Nullable.
} team;

typedef struct worker {
    team *team;
    int index;
} worker;

static bool take(team *t, size_t *item)
{
    pthread_mutex_lock(&t->lock);
    bool stopped = t->effort && pf__stopped(t->effort->stop);
    while (t->kept && t->next < t->n && t->kept[t->next] == 1) {
        t->next++;
    }
    bool have = t->next < t->n && t->failed_item == t->n && !stopped;
    if (have) {
        *item = t->next++;
    }
    pthread_mutex_unlock(&t->lock);
    return have;
}

static void give(team *t, size_t item, pf_status status, pf_error *error)
{
    pthread_mutex_lock(&t->lock);
    t->done++;
    if (status == PF_OK && t->kept) {
        status = pf__part_item(t->effort->part, item, t->slots, t->self, t->kept[item], error);
    }
    if (status != PF_OK && item < t->failed_item) {
        t->failed_item = item;
        t->error = *error;
        t->error.code = status;
    }
    if (t->effort && t->effort->progress) {
        t->effort->progress(t->effort->self, t->what, t->done, t->n);
    }
    pthread_mutex_unlock(&t->lock);
}

static void *work(void *argument)
{
    worker *w = argument;
    size_t item = 0;
    while (take(w->team, &item)) {
        pf_error error = {PF_OK, ""};
        pf_status status = w->team->run(w->team->self, w->index, item, &error);
        give(w->team, item, status, &error);
    }
    return NULL;
}

enum { THREADS_MAX = 256 };

int pf__threads(const pf_effort *effort)
{
    int threads = effort && effort->threads > 0 ? effort->threads : pf__processors();
    return threads > THREADS_MAX ? THREADS_MAX : threads;
}

static pf_status run_team(team *t, int workers, pf_error *error)
{
    int threads = workers < THREADS_MAX ? workers : THREADS_MAX;
    worker crew[THREADS_MAX];
    pthread_t ids[THREADS_MAX];
    pthread_mutex_init(&t->lock, NULL);
    int started = 1;
    crew[0] = (worker){t, 0};
    for (; started < threads && (size_t)started < t->n; started++) {
        crew[started] = (worker){t, started};
        if (pthread_create(&ids[started], NULL, work, &crew[started]) != 0) {
            break; // fewer threads do the same work
        }
    }
    work(&crew[0]);
    for (int i = 1; i < started; i++) {
        pthread_join(ids[i], NULL);
    }
    pthread_mutex_destroy(&t->lock);
    if (t->failed_item < t->n) {
        if (error) {
            *error = t->error;
        }
        return t->error.code;
    }
    if (t->done < t->n) {
        return pf_fail(error, PF_ERR_INTERRUPTED, "%s: stopped after %z of %z", t->what, t->done,
                       t->n);
    }
    return PF_OK;
}

pf_status pf__parallel(const pf_effort *effort, int workers, size_t n, pf_item_fn run, void *self,
                       const char *what, pf_error *error)
{
    team t = {.n = n, .run = run, .self = self, .effort = effort, .what = what, .failed_item = n};
    return run_team(&t, workers, error);
}

pf_status pf__parallel_kept(const pf_effort *effort, int workers, size_t n, pf_item_fn run,
                            pf_slots_fn slots, void *self, const char *what, pf_error *error)
{
    if (!effort || !effort->part) {
        return pf__parallel(effort, workers, n, run, self, what, error);
    }
    team t = {.n = n,
              .run = run,
              .self = self,
              .effort = effort,
              .what = what,
              .failed_item = n,
              .slots = slots,
              .kept = calloc(n > 0 ? n : 1, 1)};
    pf_status status = t.kept ? PF_OK : pf_fail(error, PF_ERR_MEMORY, "%s: out of memory", what);
    status = status ? status : pf__part_stage(effort->part, n, slots, self, t.kept, &t.done, error);
    status = status ? status : run_team(&t, workers, error);
    free(t.kept);
    return status;
}

pf_status pf__step(const pf_effort *effort, const char *what, size_t done, size_t total,
                   pf_error *error)
{
    if (effort && effort->progress) {
        effort->progress(effort->self, what, done, total);
    }
    return effort && pf__stopped(effort->stop)
               ? pf_fail(error, PF_ERR_INTERRUPTED, "%s: stopped after %z of %z", what, done, total)
               : PF_OK;
}

static void time_item(void *self, const char *what, size_t done, size_t total)
{
    pf_timing *t = self;
    double elapsed = pf__seconds() - t->began;
    t->n++;
    if (!t->said && (elapsed > 1 || done == total)) {
        t->said = true;
        t->say(t->self, done - t->n, t->n, elapsed);
    }
    if (t->effort->progress) {
        t->effort->progress(t->effort->self, what, done, total);
    }
}

pf_effort pf__timed(pf_timing *t)
{
    pf_effort effort = t->effort ? *t->effort : (pf_effort){0};
    t->began = pf__seconds();
    if (effort.estimate) {
        effort.self = t;
        effort.progress = time_item;
    }
    return effort;
}

int pf__processors(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n > 0 ? n : 1;
}

void pf__processor_name(char *name, size_t size)
{
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "r");
    snprintf(name, size, "unknown");
    while (f && fgets(line, sizeof line, f)) {
        char *value = strncmp(line, "model name", 10) == 0 ? strchr(line, ':') : NULL;
        if (value) {
            value += 1 + strspn(value + 1, " \t");
            value[strcspn(value, "\n")] = 0;
            snprintf(name, size, "%s", value);
            break;
        }
    }
    if (f) {
        fclose(f);
    }
}

double pf__seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
