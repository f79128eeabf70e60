// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "bench.h"
#include "core/rng.h"

#include "plant/mujoco/mujoco_load.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

// Control steps per second of pf_plant_roll on two threads, against a bare loop of mj_step over the
// same states and commands on two threads; by the clock, and by processor time, which other work on
// the machine disturbs less; the best of each, and the median ratio of neighbouring turns.
// `bench_mujoco [REPEATS] [SYSTEM]`.

enum { THREADS = 2, VARIANTS = 16, ROWS = 8 };

typedef struct rig {
    pf_mujoco_model *shared;
    const pf_mujoco_system *system;
    int n_state, n_chan;
    double start[VARIANTS][PF_STATE_MAX];
    double command[VARIANTS][ROWS * PF_MUJOCO_MECH];
    int rounds; // over all variants, per thread
} rig;

typedef struct worker {
    const rig *r;
    pf_plant *plant;
    mjData *data;
    bool bare;
    double cpu_s;
    double last[VARIANTS][PF_MUJOCO_CHAN]; // channels after the last step
} worker;

static void must(pf_status status, const pf_error *error)
{
    if (status != PF_OK) {
        fprintf(stderr, "bench_mujoco: %s\n", error->text);
        exit(1);
    }
}

static void run_bare(worker *w, int k)
{
    const rig *r = w->r;
    const pf_mujoco_system *s = r->system;
    const mjModel *m = r->shared->model;
    mjData *d = w->data;
    mj_setState(m, d, r->start[k], mjSTATE_INTEGRATION);
    for (int t = 0; t < ROWS; t++) {
        memcpy(d->ctrl, r->command[k] + t * s->nu, sizeof(double) * (size_t)s->nu);
        for (int i = 0; i < s->skip; i++) {
            mj_step(m, d);
        }
    }
    int n = s->nq - s->dropped;
    memcpy(w->last[k], d->qpos + s->dropped, sizeof(double) * (size_t)n);
    memcpy(w->last[k] + n, d->qvel, sizeof(double) * (size_t)s->nv);
}

static void run_roll(worker *w, int k)
{
    const rig *r = w->r;
    double output[ROWS * PF_MUJOCO_CHAN];
    pf_error error = {PF_OK, ""};
    pf_roll roll = pf_roll_default();
    roll.start = r->start[k];
    roll.command = r->command[k];
    roll.rows = ROWS;
    must(pf_plant_roll(w->plant, &roll, &(pf_trace){.output = output}, &error), &error);
    memcpy(w->last[k], output + (ROWS - 1) * r->n_chan, sizeof(double) * (size_t)r->n_chan);
}

static double thread_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void *work(void *argument)
{
    worker *w = argument;
    double begin = thread_now();
    for (int i = 0; i < w->r->rounds * VARIANTS; i++) {
        if (w->bare) {
            run_bare(w, i % VARIANTS);
        } else {
            run_roll(w, i % VARIANTS);
        }
    }
    w->cpu_s = thread_now() - begin;
    return NULL;
}

typedef struct timing {
    double wall_s, cpu_s;
} timing;

// Keeps the least of each; both threads together. Returns the time by the clock.
static double run(worker *workers, bool bare, timing *best)
{
    pthread_t threads[THREADS];
    double begin = bench_now(), cpu_s = 0;
    for (int t = 0; t < THREADS; t++) {
        workers[t].bare = bare;
        if (pthread_create(&threads[t], NULL, work, &workers[t]) != 0) {
            fprintf(stderr, "bench_mujoco: no thread\n");
            exit(1);
        }
    }
    for (int t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
        cpu_s += workers[t].cpu_s;
    }
    double wall_s = bench_now() - begin;
    best->wall_s = fmin(best->wall_s, wall_s);
    best->cpu_s = fmin(best->cpu_s, cpu_s);
    return wall_s;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void prepare(rig *r, worker *workers, const pf_mujoco_system *s)
{
    pf_error error = {PF_OK, ""};
    must(pf__mujoco_load(&r->shared, s, &error), &error);
    r->system = s;
    r->n_chan = r->shared->info.n_chan;
    r->n_state = r->shared->info.n_state;
    must(pf_plant_create(&workers[0].plant, s->name, &error), &error);
    for (int t = 0; t < THREADS; t++) {
        workers[t].r = r;
        workers[t].data = mj_makeData(r->shared->model);
        if (t > 0) {
            must(pf_plant_clone(workers[0].plant, &workers[t].plant, &error), &error);
        }
    }
    pf_rng rng;
    pf_rng_init(&rng, pf__key_text(pf_key_root(0), s->name));
    for (int k = 0; k < VARIANTS; k++) {
        pf_roll roll = pf_roll_default();
        roll.key = pf_key_stream(0, s->name, (uint64_t)k, PF_PURPOSE_TASK, 0);
        must(pf_plant_roll(workers[0].plant, &roll, &(pf_trace){.start = r->start[k]}, &error),
             &error);
        for (int i = 0; i < ROWS * s->nu; i++) {
            double hi = r->shared->info.mechanisms[i % s->nu].hi;
            r->command[k][i] = hi * (2 * pf_rng_uniform(&rng) - 1);
        }
    }
}

static void print(const char *plant, const char *what, double value, const char *unit)
{
    char name[128];
    snprintf(name, sizeof name, "mujoco_%s_%s", plant, what);
    bench_print(name, value, unit);
}

// The two must compute the same, or the ratio compares two different things.
static void compare(const rig *r, worker *workers)
{
    timing ignored = {INFINITY, INFINITY};
    double bits[VARIANTS][PF_MUJOCO_CHAN];
    run(workers, true, &ignored);
    memcpy(bits, workers[0].last, sizeof bits);
    run(workers, false, &ignored);
    if (memcmp(bits, workers[0].last, sizeof bits) != 0 ||
        memcmp(bits, workers[1].last, sizeof bits) != 0) {
        fprintf(stderr, "bench_mujoco: %s: roll and bare loop differ\n", r->system->name);
        exit(1);
    }
}

static void measure(const pf_mujoco_system *s, int repeats)
{
    rig *r = calloc(1, sizeof *r);
    worker *workers = calloc(THREADS, sizeof *workers);
    if (!r || !workers) {
        fprintf(stderr, "bench_mujoco: out of memory\n");
        exit(1);
    }
    prepare(r, workers, s);
    r->rounds = 1;
    compare(r, workers);
    // blocks of about 20 ms, turn about, so that a slow minute of the machine hits both
    timing bare = {INFINITY, INFINITY}, roll = bare;
    for (run(workers, true, &bare); bare.cpu_s < .02 * THREADS; run(workers, true, &bare)) {
        bare = roll;
        r->rounds *= 2;
    }
    double *ratio = calloc((size_t)repeats, sizeof *ratio);
    for (int i = 0; ratio && i < repeats; i++) {
        double by_bare = run(workers, true, &bare), by_roll = run(workers, false, &roll);
        ratio[i] = by_bare / by_roll;
    }
    if (ratio) {
        qsort(ratio, (size_t)repeats, sizeof *ratio, ascending);
        print(s->name, "roll_over_bare", ratio[repeats / 2], "median");
    }
    free(ratio);
    double steps = (double)THREADS * r->rounds * VARIANTS * ROWS;
    print(s->name, "bare_2_threads", steps / bare.wall_s, "steps/s");
    print(s->name, "roll_2_threads", steps / roll.wall_s, "steps/s");
    print(s->name, "bare_cpu", 1e6 * bare.cpu_s / steps, "us/step");
    print(s->name, "roll_cpu", 1e6 * roll.cpu_s / steps, "us/step");
    for (int t = 0; t < THREADS; t++) {
        mj_deleteData(workers[t].data);
        pf_plant_destroy(workers[t].plant);
    }
    pf__mujoco_release(r->shared);
    free(workers);
    free(r);
}

int main(int argc, char **argv)
{
    int repeats = argc > 1 && atoi(argv[1]) > 0 ? atoi(argv[1]) : 40;
    for (int i = 0; i < pf__mujoco_count(); i++) {
        const pf_mujoco_system *s = pf__mujoco_at(i);
        if (argc < 3 || strcmp(argv[2], s->name) == 0) {
            measure(s, repeats);
        }
    }
    return 0;
}
