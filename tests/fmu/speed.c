// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0

// speed FOLDER FILE.fmu[#STEP] ROWS N: what N trajectories of an FMU cost behind `fmu:` and in a
// bare host of one process that calls the standard and nothing else. FOLDER is the FMU unpacked.
// The bare host makes an instance per trajectory; where FMI_RELOAD is set it also loads the library
// anew, as FMPy does. Both get the same commands and must give the same bits. Prints "rows
// microseconds-bare microseconds-ours ratio-of-processor-time ratio-of-time".
#define _GNU_SOURCE
#include "plant/plant_impl.h"
#include "fmu/description.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define DEMAND(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "speed: line %d: %s\n", __LINE__, #condition);                         \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static void hear(void *e, const char *i, int s, const char *c, const char *m, ...)
{
    (void)e, (void)i, (void)s, (void)c, (void)m;
}

static void hear_3(void *e, int s, const char *c, const char *m)
{
    (void)e, (void)s, (void)c, (void)m;
}

static const struct {
    void (*logger)(void *, const char *, int, const char *, const char *, ...);
    void *(*allocate)(size_t, size_t);
    void (*release)(void *);
    void *step_finished, *environment;
} callbacks = {hear, calloc, free, NULL, NULL};

typedef struct bare {
    const pf_fmu_model *model;
    char path[2048], resources[2048];
    void *library;
    unsigned in[256], out[4096];
} bare;

static double clock_s(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double children_s(void)
{
    struct rusage u;
    getrusage(RUSAGE_CHILDREN, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

// The address of a function of the standard.
static void *function(const bare *b, const char *name)
{
    void *found = dlsym(b->library, name);
    DEMAND(found);
    return found;
}

#define CALL(name, type) (__extension__((type)function(b, name)))

static void roll_2(bare *b, double step_s, const double *inputs, int rows, double *output)
{
    const pf_fmu_model *m = b->model;
    size_t n_in = (size_t)m->inputs.n, n_out = (size_t)m->outputs.n;
    int (*set)(void *, const unsigned *, size_t, const double *) =
        CALL("fmi2SetReal", int (*)(void *, const unsigned *, size_t, const double *));
    int (*get)(void *, const unsigned *, size_t, double *) =
        CALL("fmi2GetReal", int (*)(void *, const unsigned *, size_t, double *));
    int (*step)(void *, double, double, int) =
        CALL("fmi2DoStep", int (*)(void *, double, double, int));
    void *c = CALL("fmi2Instantiate",
                   void *(*)(const char *, int, const char *, const char *, const void *, int,
                             int))(m->name, 1, m->token, b->resources, &callbacks, 0, 0);
    DEMAND(c);
    DEMAND(CALL("fmi2SetupExperiment", int (*)(void *, int, double, double, int, double))(
               c, m->tolerance > 0, m->tolerance, m->start_s, 0, 0) <= 1);
    DEMAND(CALL("fmi2EnterInitializationMode", int (*)(void *))(c) <= 1);
    DEMAND(CALL("fmi2ExitInitializationMode", int (*)(void *))(c) <= 1);
    for (int r = 0; r < rows; r++) {
        DEMAND(set(c, b->in, n_in, inputs + (size_t)r * n_in) <= 1);
        DEMAND(step(c, m->start_s + r * step_s, step_s, 1) <= 1);
        DEMAND(get(c, b->out, n_out, output + (size_t)r * n_out) <= 1);
    }
    CALL("fmi2Terminate", int (*)(void *))(c);
    CALL("fmi2FreeInstance", void (*)(void *))(c);
}

static void roll_3(bare *b, double step_s, const double *inputs, int rows, double *output)
{
    const pf_fmu_model *m = b->model;
    size_t n_in = (size_t)m->inputs.n, n_out = (size_t)m->outputs.n;
    size_t some = (size_t)m->inputs.numbers, seen = (size_t)m->outputs.numbers;
    typedef int number(void *, const unsigned *, size_t, double *, size_t);
    number *set = CALL("fmi3SetFloat64", number *), *get = CALL("fmi3GetFloat64", number *);
    int (*step)(void *, double, double, bool, bool *, bool *, bool *, double *) =
        CALL("fmi3DoStep", int (*)(void *, double, double, bool, bool *, bool *, bool *, double *));
    void *c = CALL("fmi3InstantiateCoSimulation",
                   void *(*)(const char *, const char *, const char *, bool, bool, bool, bool,
                             const unsigned *, size_t, void *,
                             void (*)(void *, int, const char *, const char *), void (*)(void)))(
        m->name, m->token, b->resources, false, false, false, false, NULL, 0, NULL, hear_3, NULL);
    DEMAND(c);
    DEMAND(CALL("fmi3EnterInitializationMode", int (*)(void *, bool, double, double, bool, double))(
               c, m->tolerance > 0, m->tolerance, m->start_s, false, 0) <= 1);
    DEMAND(CALL("fmi3ExitInitializationMode", int (*)(void *))(c) <= 1);
    for (int r = 0; r < rows; r++) {
        bool event, end, early;
        double last, held[256];
        memcpy(held, inputs + (size_t)r * some, some * sizeof *held);
        DEMAND(set(c, b->in, n_in, held, some) <= 1);
        DEMAND(step(c, m->start_s + r * step_s, step_s, true, &event, &end, &early, &last) <= 1);
        DEMAND(get(c, b->out, n_out, output + (size_t)r * seen, seen) <= 1);
    }
    CALL("fmi3Terminate", int (*)(void *))(c);
    CALL("fmi3FreeInstance", void (*)(void *))(c);
}

static void bare_roll(bare *b, double step_s, const double *inputs, int rows, double *output)
{
    bool reload = getenv("FMI_RELOAD") != NULL;
    if (!b->library) {
        b->library = dlopen(b->path, RTLD_NOW | RTLD_LOCAL);
        DEMAND(b->library);
    }
    (b->model->major == 2 ? roll_2 : roll_3)(b, step_s, inputs, rows, output);
    if (reload) {
        dlclose(b->library);
        b->library = NULL;
    }
}

static void open_bare(bare *b, const pf_fmu_model *m, const char *folder)
{
    *b = (bare){.model = m};
    snprintf(b->path, sizeof b->path, "%s/binaries/%s/%s.so", folder,
             m->major == 2 ? "linux64" : "x86_64-linux", m->identifier);
    snprintf(b->resources, sizeof b->resources,
             m->major == 2 ? "file://%s/resources" : "%s/resources/", folder);
    for (int i = 0; i < m->inputs.n; i++) {
        b->in[i] = m->inputs.list[i].reference;
    }
    for (int i = 0; i < m->outputs.n; i++) {
        b->out[i] = m->outputs.list[i].reference;
    }
}

static pf_plant *open_ours(const char *file)
{
    char name[2048];
    pf_plant *plant = NULL;
    pf_error error = {PF_OK, ""};
    snprintf(name, sizeof name, "fmu:%s", file);
    if (pf_plant_create(&plant, name, &error) != PF_OK) {
        fprintf(stderr, "speed: %s\n", error.text);
        exit(1);
    }
    return plant;
}

static pf_fmu_model read_model(const char *folder)
{
    static char text[1 << 20];
    char path[2048];
    pf_fmu_model model;
    snprintf(path, sizeof path, "%s/modelDescription.xml", folder);
    FILE *file = fopen(path, "rb");
    DEMAND(file);
    size_t size = fread(text, 1, sizeof text, file);
    fclose(file);
    DEMAND(pf__fmu_describe(&model, text, size, NULL) == PF_OK);
    return model;
}

// The trajectories of both: as many kinds of pushes, with commands and with the inputs that they
// are.
enum { KINDS = 16, BLOCK = 25 };
typedef struct work {
    bare *host;
    pf_plant *plant;
    int rows;
    size_t n_in, n_chan;
    double *commands, *inputs, *one, *two;
} work;

static void make_work(work *w)
{
    const pf_fmu_model *model = w->host->model;
    size_t length = (size_t)w->rows, at = 0;
    double rest[256];
    w->commands = calloc(KINDS * length * (w->n_in + 1), sizeof *w->commands);
    w->inputs = calloc(KINDS * length * w->n_in, sizeof *w->inputs);
    w->one = calloc(length * w->n_chan, sizeof *w->one);
    w->two = calloc(length * w->n_chan, sizeof *w->two);
    DEMAND(w->commands && w->inputs && w->one && w->two);
    for (int i = 0; i < model->inputs.n; i++) {
        for (int k = 0; k < model->inputs.list[i].n; k++) {
            rest[at++] = model->inputs.list[i].start[k];
        }
    }
    for (size_t i = 0; i < KINDS * length; i++) {
        for (size_t j = 0; j < w->n_in; j++) {
            double u = .2 * sin((double)(i / length + 1) * (double)(j + 1));
            w->commands[i * (w->n_in + 1) + j + 1] = u;
            w->inputs[i * w->n_in + j] = rest[j] + u;
        }
    }
}

static void block_bare(const work *w, double step_s)
{
    for (size_t k = 0; k < BLOCK; k++) {
        bare_roll(w->host, step_s, w->inputs + k % KINDS * (size_t)w->rows * w->n_in, w->rows,
                  w->one);
    }
}

static void block_ours(const work *w)
{
    for (size_t k = 0; k < BLOCK; k++) {
        pf_roll roll = pf_roll_default();
        roll.command = w->commands + k % KINDS * (size_t)w->rows * (w->n_in + 1);
        roll.rows = w->rows;
        DEMAND(pf_plant_roll(w->plant, &roll, &(pf_trace){.output = w->two}, NULL) == PF_OK);
    }
}

// Seconds of this process and of the wall, from here on in `used`.
static void start_clocks(double used[2])
{
    used[0] -= clock_s(CLOCK_PROCESS_CPUTIME_ID);
    used[1] -= clock_s(CLOCK_MONOTONIC);
}

static void stop_clocks(double used[2])
{
    used[0] += clock_s(CLOCK_PROCESS_CPUTIME_ID);
    used[1] += clock_s(CLOCK_MONOTONIC);
}

int main(int argc, char **argv)
{
    DEMAND(argc == 5);
    int n = atoi(argv[4]);
    pf_fmu_model model = read_model(argv[1]);
    bare b;
    open_bare(&b, &model, argv[1]);
    // what it costs that a process comes and goes without a trajectory
    double began = children_s();
    pf_plant_destroy(open_ours(argv[2]));
    double empty_s = children_s() - began;
    pf_plant *plant = open_ours(argv[2]);
    const pf_plant_info *info = pf_plant_get_info(plant);
    work w = {.host = &b,
              .plant = plant,
              .rows = atoi(argv[3]),
              .n_in = (size_t)info->n_mech - 1,
              .n_chan = (size_t)info->n_chan};
    make_work(&w);
    double theirs[2] = {0, 0}, ours[2] = {0, 0};
    began = children_s();
    for (int i = 0; i < n; i += BLOCK) {
        start_clocks(theirs);
        block_bare(&w, info->dt_s);
        stop_clocks(theirs);
        start_clocks(ours);
        block_ours(&w);
        stop_clocks(ours);
        DEMAND(memcmp(w.one, w.two, (size_t)w.rows * w.n_chan * sizeof *w.one) == 0);
    }
    pf_plant_destroy(plant);
    ours[0] += children_s() - began - empty_s;
    printf("%d %.1f %.1f %.2f %.2f\n", w.rows, 1e6 * theirs[0] / n, 1e6 * ours[0] / n,
           theirs[0] / ours[0], theirs[1] / ours[1]);
    pf__fmu_model_free(&model);
    return 0;
}
