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
// `bench_mujoco [REPEATS] [SYSTEM | mujoco:FILE]`; `bench_mujoco turns SYSTEM roll|bare|sensed`.
// Where channels are sensors the bare loop is timed without reading them, as `bare`, and with one
// mj_forward per control step, as `sensed`.

enum { THREADS = 2, VARIANTS = 16, ROWS = 8 };

typedef struct rig {
    pf_mujoco_model *shared;
    char name[64]; // of the system, or of the file
    int n_state, n_chan, n_mech, nu;
    double start[VARIANTS][PF_STATE_MAX];
    double *command[VARIANTS]; // ROWS x n_mech
    int rounds;                // over all variants, per thread
} rig;

typedef enum way { BARE, SENSED, ROLL } way;

typedef struct worker {
    const rig *r;
    pf_plant *plant;
    mjData *data;
    way way;
    double cpu_s;
    double *output; // ROWS x n_chan
    double *last;   // VARIANTS x n_chan: channels after the last step
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
    const pf_mujoco_model *shared = r->shared;
    const mjModel *m = shared->model;
    mjData *d = w->data;
    mj_setState(m, d, r->start[k], mjSTATE_INTEGRATION);
    for (int t = 0; t < ROWS; t++) {
        for (int i = 0; i < r->nu; i++) {
            double u = r->command[k][t * r->n_mech + i + shared->first];
            d->ctrl[i] = shared->hold ? shared->hold[i] + u : u;
        }
        for (int i = 0; i < shared->skip; i++) {
            mj_step(m, d);
        }
        if (w->way == SENSED && shared->senses) {
            mj_forward(m, d);
        }
    }
    const double *const fields[] = {
        [PF_MUJOCO_QPOS] = d->qpos, [PF_MUJOCO_QVEL] = d->qvel, [PF_MUJOCO_SENSOR] = d->sensordata};
    for (int c = 0; c < r->n_chan; c++) {
        w->last[k * r->n_chan + c] = fields[shared->readings[c].field][shared->readings[c].at];
    }
}

static void run_roll(worker *w, int k)
{
    const rig *r = w->r;
    pf_error error = {PF_OK, ""};
    pf_roll roll = pf_roll_default();
    roll.start = r->start[k];
    roll.command = r->command[k];
    roll.rows = ROWS;
    must(pf_plant_roll(w->plant, &roll, &(pf_trace){.output = w->output}, &error), &error);
    memcpy(w->last + k * r->n_chan, w->output + (ROWS - 1) * r->n_chan,
           sizeof(double) * (size_t)r->n_chan);
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
        if (w->way == ROLL) {
            run_roll(w, i % VARIANTS);
        } else {
            run_bare(w, i % VARIANTS);
        }
    }
    w->cpu_s = thread_now() - begin;
    return NULL;
}

typedef struct timing {
    double wall_s, cpu_s;
} timing;

// Keeps the least of each; both threads together. Returns the time by the clock.
static double run(worker *workers, way how, timing *best)
{
    pthread_t threads[THREADS];
    double begin = bench_now(), cpu_s = 0;
    for (int t = 0; t < THREADS; t++) {
        workers[t].way = how;
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

static void *room(size_t n, size_t size)
{
    void *memory = calloc(n, size);
    if (!memory) {
        fprintf(stderr, "bench_mujoco: out of memory\n");
        exit(1);
    }
    return memory;
}

// The name of the plant, which is the system's or that of the last folder and file.
static void name_rig(rig *r, const char *plant)
{
    const char *name = strrchr(plant, '/') ? strrchr(plant, '/') + 1 : plant;
    snprintf(r->name, sizeof r->name, "%.40s", name);
    r->name[strcspn(r->name, ".")] = 0;
}

static void load(rig *r, const char *plant)
{
    pf_error error = {PF_OK, ""};
    const pf_mujoco_system *system = pf__mujoco_find(plant);
    size_t prefix = strlen(PF_MUJOCO_PREFIX);
    if (!system && strncmp(plant, PF_MUJOCO_PREFIX, prefix) != 0) {
        fprintf(stderr, "bench_mujoco: no system is called %s\n", plant);
        exit(1);
    }
    must(system ? pf__mujoco_load(&r->shared, system, &error)
                : pf__mujoco_load_file(&r->shared, plant + prefix, &error),
         &error);
    name_rig(r, plant);
    r->n_chan = r->shared->info.n_chan;
    r->n_mech = r->shared->info.n_mech;
    r->n_state = r->shared->info.n_state;
    r->nu = (int)r->shared->model->nu;
}

// Commands are evenly drawn within a tenth of the limits for a file, whose machine may not bear all
// of them, and within all of them for a system.
static void prepare(rig *r, worker *workers, const char *plant)
{
    pf_error error = {PF_OK, ""};
    load(r, plant);
    must(pf_plant_create(&workers[0].plant, plant, &error), &error);
    for (int t = 0; t < THREADS; t++) {
        workers[t].r = r;
        workers[t].data = mj_makeData(r->shared->model);
        workers[t].output = room((size_t)ROWS * (size_t)r->n_chan, sizeof(double));
        workers[t].last = room((size_t)VARIANTS * (size_t)r->n_chan, sizeof(double));
        if (t > 0) {
            must(pf_plant_clone(workers[0].plant, &workers[t].plant, &error), &error);
        }
    }
    pf_rng rng;
    pf_rng_init(&rng, pf__key_text(pf_key_root(0), r->name));
    for (int k = 0; k < VARIANTS; k++) {
        pf_roll roll = pf_roll_default();
        roll.key = pf_key_stream(0, r->name, (uint64_t)k, PF_PURPOSE_TASK, 0);
        must(pf_plant_roll(workers[0].plant, &roll, &(pf_trace){.start = r->start[k]}, &error),
             &error);
        r->command[k] = room((size_t)ROWS * (size_t)r->n_mech, sizeof(double));
        for (int i = 0; i < ROWS * r->n_mech; i++) {
            const pf_mechanism *m = &r->shared->info.mechanisms[i % r->n_mech];
            double share = r->shared->first > 0 ? .1 : 1, u = 2 * pf_rng_uniform(&rng) - 1;
            r->command[k][i] = share * (r->shared->first > 0 && u < 0 ? -u * m->lo : u * m->hi);
        }
    }
}

// As a probe has them: one command for the whole trajectory.
static void hold_commands(rig *r)
{
    for (int k = 0; k < VARIANTS; k++) {
        for (int i = r->n_mech; i < ROWS * r->n_mech; i++) {
            r->command[k][i] = r->command[k][i % r->n_mech];
        }
    }
    snprintf(r->name + strlen(r->name), sizeof r->name - strlen(r->name), "_held");
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
    size_t size = sizeof(double) * (size_t)VARIANTS * (size_t)r->n_chan;
    double *bits = room(1, size);
    run(workers, SENSED, &ignored);
    memcpy(bits, workers[0].last, size);
    run(workers, ROLL, &ignored);
    if (memcmp(bits, workers[0].last, size) != 0 || memcmp(bits, workers[1].last, size) != 0) {
        fprintf(stderr, "bench_mujoco: %s: roll and bare loop differ\n", r->name);
        exit(1);
    }
    free(bits);
}

// Neighbouring turns of a bare loop and of rolls: their median ratio, and the best of each.
static void race(const rig *r, worker *workers, way bare_way, int repeats)
{
    static const char *const names[] = {[BARE] = "bare", [SENSED] = "sensed"};
    timing bare = {INFINITY, INFINITY}, roll = bare;
    double *ratio = room((size_t)repeats, sizeof *ratio);
    for (int i = 0; i < repeats; i++) {
        double by_bare = run(workers, bare_way, &bare), by_roll = run(workers, ROLL, &roll);
        ratio[i] = by_bare / by_roll;
    }
    qsort(ratio, (size_t)repeats, sizeof *ratio, ascending);
    double steps = (double)THREADS * r->rounds * VARIANTS * ROWS;
    char what[32];
    snprintf(what, sizeof what, "roll_over_%s", names[bare_way]);
    print(r->name, what, ratio[repeats / 2], "median");
    free(ratio);
    snprintf(what, sizeof what, "roll_over_%s_cpu", names[bare_way]);
    print(r->name, what, bare.cpu_s / roll.cpu_s, "best of each");
    snprintf(what, sizeof what, "%s_2_threads", names[bare_way]);
    print(r->name, what, steps / bare.wall_s, "steps/s");
    snprintf(what, sizeof what, "%s_cpu", names[bare_way]);
    print(r->name, what, 1e6 * bare.cpu_s / steps, "us/step");
    print(r->name, "roll_2_threads", steps / roll.wall_s, "steps/s");
    print(r->name, "roll_cpu", 1e6 * roll.cpu_s / steps, "us/step");
}

static void clean(rig *r, worker *workers)
{
    for (int t = 0; t < THREADS; t++) {
        mj_deleteData(workers[t].data);
        pf_plant_destroy(workers[t].plant);
        free(workers[t].output);
        free(workers[t].last);
    }
    for (int k = 0; k < VARIANTS; k++) {
        free(r->command[k]);
    }
    pf__mujoco_release(r->shared);
    free(workers);
    free(r);
}

static void measure(const char *plant, int repeats)
{
    rig *r = room(1, sizeof *r);
    worker *workers = room(THREADS, sizeof *workers);
    prepare(r, workers, plant);
    r->rounds = 1;
    compare(r, workers);
    // blocks of about 20 ms, turn about, so that a slow minute of the machine hits both
    timing once = {INFINITY, INFINITY};
    for (run(workers, BARE, &once); once.cpu_s < .02 * THREADS; run(workers, BARE, &once)) {
        once = (timing){INFINITY, INFINITY};
        r->rounds *= 2;
    }
    race(r, workers, BARE, repeats);
    if (r->shared->senses) {
        race(r, workers, SENSED, repeats);
        hold_commands(r);
        compare(r, workers);
        race(r, workers, BARE, repeats);
    }
    clean(r, workers);
}

typedef struct turn {
    const rig *r;
    worker *workers;
    way way;
} turn;

static double one_turn(void *self)
{
    turn *t = self;
    run(t->workers, t->way, &(timing){INFINITY, INFINITY});
    return (double)THREADS * t->r->rounds * VARIANTS * ROWS;
}

// Turns of one way, after it is seen that all compute the same.
static int take_turns(const char *plant, const char *name)
{
    rig *r = room(1, sizeof *r);
    worker *workers = room(THREADS, sizeof *workers);
    way how = strcmp(name, "roll") == 0 ? ROLL : strcmp(name, "sensed") == 0 ? SENSED : BARE;
    prepare(r, workers, plant);
    r->rounds = 1;
    compare(r, workers);
    int code = bench_turns(one_turn, &(turn){r, workers, how});
    clean(r, workers);
    return code;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "turns") == 0) {
        return take_turns(argv[2], argv[3]);
    }
    int repeats = argc > 1 && atoi(argv[1]) > 0 ? atoi(argv[1]) : 40;
    for (int i = 2; i < argc; i++) {
        measure(argv[i], repeats);
    }
    for (int i = 0; i < pf__mujoco_count() && argc < 3; i++) {
        measure(pf__mujoco_at(i)->name, repeats);
    }
    return 0;
}
