// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0

// A tiny FMU for test_fmu.c, of both versions at once: two masses with friction, each pushed by an
// input, and what they read. Its token says in which way it is bad; with a push of more than HARD
// most do it. Compiled without some functions, or with a library that is not there, it cannot be
// loaded.
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define HARD 1.5

typedef void logger_2(void *, const char *, int, const char *, const char *, ...);
typedef void logger_3(void *, int, const char *, const char *);
typedef struct callbacks {
    logger_2 *logger;
    void *allocate, *release, *step_finished, *environment;
} callbacks;

typedef struct machine {
    char token[32];
    double x[2], v[2], u[2];
    bool failed; // it answered "error": it may only be freed
} machine;

static double steps_ever; // what a machine with statics forgets to begin anew
static bool corrupt;      // something was fatal: no function may be called any more

#ifdef MISSING_LIBRARY
int fmu_gone(void);
EXPORT int fmu_uses_gone(void);
int fmu_uses_gone(void)
{
    return fmu_gone();
}
#endif

static bool is(const machine *m, const char *token)
{
    return strcmp(m->token, token) == 0;
}

// What the standard forbids ends the process.
static void forbid(bool what)
{
    if (what) {
        abort();
    }
}

// Who hears what is said, of either version.
static const callbacks *ears_2;
static logger_3 *ears_3;
static void *environment_3;

// Words in Latin-1, and more of them in UTF-8 than a message has room for.
static void grumble(void)
{
    char words[400] = "zu hei\xdf, ";
    for (int i = 0; i < 150; i++) {
        strcat(words, "\xc3\xa9");
    }
    if (ears_2) {
        ears_2->logger(ears_2->environment, "m", 3, "error", "%s", words);
    } else {
        ears_3(environment_3, 3, "error", words);
    }
}

static machine *create(const char *token)
{
    forbid(corrupt);
    machine *m = calloc(1, sizeof *m);
    if (m) {
        snprintf(m->token, sizeof m->token, "%s", token);
    }
    if (m && is(m, "ends at birth")) {
        exit(9);
    }
    if (m && is(m, "refuses")) {
        free(m);
        return NULL;
    }
    return m;
}

// Goes wrong, or gives the status of the step.
static int misbehave(machine *m)
{
    if (is(m, "prints")) {
        printf("{\"id\":1,\"rows\":3}\nhello\n");
        fflush(stdout);
        char line[8];
        return fgets(line, sizeof line, stdin) ? 3 : 0; // nobody can have written to it
    }
    bool hard = fabs(m->u[0]) > HARD;
    if (hard && is(m, "crashes")) {
        abort();
    } else if (hard && is(m, "exits")) {
        exit(7);
    } else if (hard && is(m, "hangs")) {
        for (;;) {
            sleep(1);
        }
    }
    corrupt = hard && is(m, "is fatal");
    m->failed = hard && (is(m, "answers with an error") || is(m, "grumbles"));
    if (hard && is(m, "grumbles")) {
        grumble();
    }
    return corrupt ? 4 : m->failed ? 3 : hard && is(m, "discards") ? 2 : 0;
}

static int step(machine *m, double dt)
{
    int status = misbehave(m);
    for (int i = 0; i < 2; i++) {
        m->v[i] += dt * ((i + 1) * m->u[i] - .5 * m->v[i]);
        m->x[i] += dt * m->v[i];
    }
    steps_ever += is(m, "statics") ? 1 : 0;
    return status;
}

static int get(const machine *m, double *y)
{
    bool hard = fabs(m->u[0]) > HARD;
    y[0] = hard && is(m, "is not a number") ? NAN : m->x[0] + 1e-9 * steps_ever;
    y[1] = m->x[1];
    return 0;
}

static int restore(machine *m, const machine *to)
{
    if (is(m, "lies")) {
        m->x[0] = to->x[0]; // and no more
        return 0;
    }
    if (is(m, "ends in states")) {
        abort();
    }
    while (is(m, "hangs in states")) {
        sleep(1);
    }
    *m = *to;
    return 0;
}

static int reset(machine *m)
{
    machine fresh = {.x = {0, 0}};
    memcpy(fresh.token, m->token, sizeof fresh.token);
    return restore(m, &fresh);
}

// --- FMI 2.0

EXPORT void *fmi2Instantiate(const char *name, int type, const char *guid, const char *resources,
                             const callbacks *c, int visible, int logging);
void *fmi2Instantiate(const char *name, int type, const char *guid, const char *resources,
                      const callbacks *c, int visible, int logging)
{
    (void)type, (void)resources, (void)visible, (void)logging;
    ears_2 = c;
    machine *m = create(guid);
    if (!m) {
        c->logger(c->environment, name, 3, "error", "the license of %s\nhas ended", name);
    }
    return m;
}

EXPORT int fmi2SetupExperiment(void *m, int a, double b, double c, int d, double e);
int fmi2SetupExperiment(void *m, int a, double b, double c, int d, double e)
{
    (void)m, (void)a, (void)b, (void)c, (void)d, (void)e;
    return 0;
}

EXPORT int fmi2EnterInitializationMode(void *m);
int fmi2EnterInitializationMode(void *m)
{
    return m == NULL;
}

EXPORT int fmi2ExitInitializationMode(void *m);
int fmi2ExitInitializationMode(void *m)
{
    return m == NULL;
}

EXPORT int fmi2Terminate(void *m);
int fmi2Terminate(void *m)
{
    forbid(corrupt || ((machine *)m)->failed);
    return 0;
}

EXPORT int fmi2Reset(void *m);
int fmi2Reset(void *m)
{
    return reset(m);
}

EXPORT void fmi2FreeInstance(void *m);
void fmi2FreeInstance(void *m)
{
    forbid(corrupt);
    free(m);
}

EXPORT int fmi2GetFMUstate(void *m, void **state);
int fmi2GetFMUstate(void *m, void **state)
{
    *state = malloc(sizeof(machine));
    if (*state) {
        memcpy(*state, m, sizeof(machine));
    }
    return 0;
}

EXPORT int fmi2SetFMUstate(void *m, void *state);
int fmi2SetFMUstate(void *m, void *state)
{
    return restore(m, state);
}

EXPORT int fmi2FreeFMUstate(void *m, void **state);
int fmi2FreeFMUstate(void *m, void **state)
{
    (void)m;
    free(*state);
    *state = NULL;
    return 0;
}

EXPORT int fmi2SetReal(void *m, const unsigned *references, size_t n, const double *values);
int fmi2SetReal(void *m, const unsigned *references, size_t n, const double *values)
{
    for (size_t i = 0; i < n; i++) {
        ((machine *)m)->u[references[i]] = values[i];
    }
    return 0;
}

EXPORT int fmi2GetReal(void *m, const unsigned *references, size_t n, double *values);
int fmi2GetReal(void *m, const unsigned *references, size_t n, double *values)
{
    double y[2];
    get(m, y);
    for (size_t i = 0; i < n; i++) {
        values[i] = y[references[i] - 2];
    }
    return 0;
}

#ifndef MISSING_FUNCTION
EXPORT int fmi2DoStep(void *m, double time, double dt, int no_set_prior);
int fmi2DoStep(void *m, double time, double dt, int no_set_prior)
{
    (void)time, (void)no_set_prior;
    return step(m, dt);
}
#endif

// --- FMI 3.0: one input of two elements, outputs of 64 and 32 bits

EXPORT void *fmi3InstantiateCoSimulation(const char *name, const char *token, const char *resources,
                                         bool visible, bool logging, bool events, bool early,
                                         const unsigned *intermediate, size_t n, void *environment,
                                         logger_3 *logger, void (*update)(void));
void *fmi3InstantiateCoSimulation(const char *name, const char *token, const char *resources,
                                  bool visible, bool logging, bool events, bool early,
                                  const unsigned *intermediate, size_t n, void *environment,
                                  logger_3 *logger, void (*update)(void))
{
    (void)resources, (void)visible, (void)logging, (void)events, (void)early, (void)intermediate;
    (void)n, (void)update;
    ears_3 = logger;
    environment_3 = environment;
    machine *m = create(token);
    if (!m) {
        logger(environment, 3, "error", name);
    }
    return m;
}

EXPORT int fmi3EnterInitializationMode(void *m, bool a, double b, double c, bool d, double e);
int fmi3EnterInitializationMode(void *m, bool a, double b, double c, bool d, double e)
{
    (void)a, (void)b, (void)c, (void)d, (void)e;
    return m == NULL;
}

EXPORT int fmi3ExitInitializationMode(void *m);
int fmi3ExitInitializationMode(void *m)
{
    return m == NULL;
}

EXPORT int fmi3Terminate(void *m);
int fmi3Terminate(void *m)
{
    return fmi2Terminate(m);
}

EXPORT int fmi3Reset(void *m);
int fmi3Reset(void *m)
{
    return reset(m);
}

EXPORT void fmi3FreeInstance(void *m);
void fmi3FreeInstance(void *m)
{
    fmi2FreeInstance(m);
}

EXPORT int fmi3GetFMUState(void *m, void **state);
int fmi3GetFMUState(void *m, void **state)
{
    return fmi2GetFMUstate(m, state);
}

EXPORT int fmi3SetFMUState(void *m, void *state);
int fmi3SetFMUState(void *m, void *state)
{
    return restore(m, state);
}

EXPORT int fmi3FreeFMUState(void *m, void **state);
int fmi3FreeFMUState(void *m, void **state)
{
    return fmi2FreeFMUstate(m, state);
}

EXPORT int fmi3SetFloat64(void *m, const unsigned *references, size_t n, const double *values,
                          size_t n_values);
int fmi3SetFloat64(void *m, const unsigned *references, size_t n, const double *values,
                   size_t n_values)
{
    if (n != 1 || references[0] != 0 || n_values != 2) {
        return 3;
    }
    memcpy(((machine *)m)->u, values, 2 * sizeof *values);
    return 0;
}

EXPORT int fmi3SetFloat32(void *m, const unsigned *references, size_t n, const float *values,
                          size_t n_values);
int fmi3SetFloat32(void *m, const unsigned *references, size_t n, const float *values,
                   size_t n_values)
{
    (void)m, (void)references, (void)n, (void)values, (void)n_values;
    return 3;
}

EXPORT int fmi3GetFloat64(void *m, const unsigned *references, size_t n, double *values,
                          size_t n_values);
int fmi3GetFloat64(void *m, const unsigned *references, size_t n, double *values, size_t n_values)
{
    double y[2];
    get(m, y);
    if (n != 1 || references[0] != 2 || n_values != 1) {
        return 3;
    }
    values[0] = y[0];
    return 0;
}

EXPORT int fmi3GetFloat32(void *m, const unsigned *references, size_t n, float *values,
                          size_t n_values);
int fmi3GetFloat32(void *m, const unsigned *references, size_t n, float *values, size_t n_values)
{
    double y[2];
    get(m, y);
    if (n != 1 || references[0] != 3 || n_values != 1) {
        return 3;
    }
    values[0] = (float)y[1];
    return 0;
}

EXPORT int fmi3DoStep(void *m, double time, double dt, bool no_set_prior, bool *event, bool *end,
                      bool *early, double *last);
int fmi3DoStep(void *m, double time, double dt, bool no_set_prior, bool *event, bool *end,
               bool *early, double *last)
{
    (void)no_set_prior;
    *event = *early = false;
    *end = fabs(((machine *)m)->u[0]) > HARD && is(m, "asks to end");
    *last = time + dt;
    return step(m, dt);
}
