// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "bench.h"

#include "preflight/plant.h"

#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

// Trajectories per second of a plant behind the bridge, a process for every thread, as calibration
// and the experiments use it. `bench_bridge PLANT MECHANISM AMPLITUDE STEPS DOUBLET WORKERS
// SECONDS` prints rolls per second by the clock and per second of processor time, its own and the
// workers'.

enum { MOST = 64 };

typedef struct rig {
    pf_plant *plant;
    double *command;
    int rows;
    pf_key first;
    double stop;
    long done;
} rig;

static void must(pf_status status, const pf_error *error)
{
    if (status != PF_OK) {
        fprintf(stderr, "bench_bridge: %s\n", error->text);
        exit(1);
    }
}

static void roll_once(rig *r, pf_key seed)
{
    pf_error error = {PF_OK, ""};
    const pf_plant_info *info = pf_plant_get_info(r->plant);
    double *output = malloc((size_t)r->rows * (size_t)info->n_chan * sizeof *output);
    pf_roll roll = pf_roll_default();
    roll.command = r->command;
    roll.rows = r->rows;
    roll.key = seed << 11;
    must(pf_plant_roll(r->plant, &roll, &(pf_trace){.output = output}, &error), &error);
    free(output);
}

static void *work(void *self)
{
    rig *r = self;
    while (bench_now() < r->stop) {
        roll_once(r, r->first + (pf_key)r->done++);
    }
    return NULL;
}

// Processor time of this process and of its children that still run, in seconds.
static double spent(void)
{
    struct rusage own;
    getrusage(RUSAGE_SELF, &own);
    double sum = (double)(own.ru_utime.tv_sec + own.ru_stime.tv_sec) +
                 1e-6 * (double)(own.ru_utime.tv_usec + own.ru_stime.tv_usec);
    DIR *folder = opendir("/proc");
    for (struct dirent *e = folder ? readdir(folder) : NULL; e; e = readdir(folder)) {
        char path[300], line[1024] = "";
        snprintf(path, sizeof path, "/proc/%s/stat", e->d_name);
        FILE *file = e->d_name[0] >= '0' && e->d_name[0] <= '9' ? fopen(path, "r") : NULL;
        if (!file) {
            continue;
        }
        const char *rest = fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
        long parent = 0, user = 0, system = 0;
        if (rest &&
            sscanf(rest, ") %*c %ld %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld", &parent, &user,
                   &system) == 3 &&
            parent == (long)getpid()) {
            sum += (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
        }
        fclose(file);
    }
    if (folder) {
        closedir(folder);
    }
    return sum;
}

int main(int argc, char **argv)
{
    int workers = argc == 8 ? atoi(argv[6]) : 0;
    if (workers < 1 || workers > MOST) {
        fprintf(stderr,
                "usage: bench_bridge PLANT MECHANISM AMPLITUDE STEPS DOUBLET WORKERS SECONDS\n");
        return 2;
    }
    int mechanism = atoi(argv[2]), steps = atoi(argv[4]);
    double amplitude = atof(argv[3]), seconds = atof(argv[7]);
    rig rigs[MOST];
    pthread_t threads[MOST];
    pf_error error = {PF_OK, ""};
    for (int i = 0; i < workers; i++) {
        rig *r = &rigs[i];
        *r = (rig){.rows = steps, .first = 1000000 * (pf_key)(i + 1)};
        must(pf_plant_create(&r->plant, argv[1], &error), &error);
        int n = pf_plant_get_info(r->plant)->n_mech;
        r->command = calloc((size_t)steps * (size_t)n, sizeof *r->command);
        for (int t = 0; t < steps; t++) {
            r->command[t * n + mechanism] = atoi(argv[5]) && t < steps / 2 ? -amplitude : amplitude;
        }
        roll_once(r, 0);
    }
    double before = spent(), begin = bench_now();
    for (int i = 0; i < workers; i++) {
        rigs[i].stop = begin + seconds;
        pthread_create(&threads[i], NULL, work, &rigs[i]);
    }
    long done = 0;
    for (int i = 0; i < workers; i++) {
        pthread_join(threads[i], NULL);
        done += rigs[i].done;
    }
    double took = bench_now() - begin, used = spent() - before;
    bench_print("rolls", (double)done / took, "rolls/s");
    bench_print("rolls_cpu", (double)done / used, "rolls/cpu s");
    for (int i = 0; i < workers; i++) {
        pf_plant_destroy(rigs[i].plant);
        free(rigs[i].command);
    }
    return 0;
}
