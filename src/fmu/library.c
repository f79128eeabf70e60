// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _DEFAULT_SOURCE
#include "library.h"

#include "host/text.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- what the FMI standards 2.0 and 3.0 declare, as far as it is called here

enum { FMI_OK, FMI_WARNING, FMI_DISCARD, FMI_ERROR, FMI_FATAL };
enum { FMI2_CO_SIMULATION = 1 };

typedef struct fmi2_callbacks {
    void (*logger)(void *environment, const char *instance, int status, const char *category,
                   const char *message, ...);
    void *(*allocate)(size_t n, size_t size);
    void (*release)(void *memory);
    void (*step_finished)(void *environment, int status);
    void *environment;
} fmi2_callbacks;

typedef void fmi3_logger(void *environment, int status, const char *category, const char *message);

// Every function by its name without the prefix, and its type in either version.
typedef void *fmi2_instantiate(const char *name, int type, const char *guid, const char *resources,
                               const fmi2_callbacks *callbacks, int visible, int logging);
typedef int fmi2_setup(void *c, int tolerance_given, double tolerance, double start, int stop_given,
                       double stop);
typedef int fmi2_real(void *c, const unsigned *references, size_t n, double *values);
typedef int fmi2_do_step(void *c, double time, double step, int no_set_prior);
typedef void *fmi3_instantiate(const char *name, const char *token, const char *resources,
                               bool visible, bool logging, bool event_mode, bool early_return,
                               const uint32_t *intermediate, size_t n, void *environment,
                               fmi3_logger *logger, void (*update)(void));
typedef int fmi3_enter(void *c, bool tolerance_given, double tolerance, double start,
                       bool stop_given, double stop);
typedef int fmi3_float64(void *c, const uint32_t *references, size_t n, double *values,
                         size_t n_values);
typedef int fmi3_float32(void *c, const uint32_t *references, size_t n, float *values,
                         size_t n_values);
typedef int fmi3_do_step(void *c, double time, double step, bool no_set_prior, bool *event,
                         bool *terminate, bool *early, double *last);
typedef int fmi_plain(void *c); // exit initialisation, terminate, reset, enter (2)
typedef void fmi_free(void *c);
typedef int fmi_state(void *c, void **state);
typedef int fmi_set_state(void *c, void *state);

enum { REASON = 160, PATH_BYTES = 2048 };

struct pf_fmu {
    const pf_fmu_model *model;
    char path[PATH_BYTES], folder[PATH_BYTES], resources[PATH_BYTES];
    void *library;
    fmi2_callbacks callbacks;
    fmi2_instantiate *instantiate2;
    fmi2_setup *setup;
    fmi_plain *enter2;
    fmi2_real *get_real, *set_real;
    fmi2_do_step *step2;
    fmi3_instantiate *instantiate3;
    fmi3_enter *enter3;
    fmi3_float64 *get64, *set64;
    fmi3_float32 *get32, *set32;
    fmi3_do_step *step3;
    fmi_plain *leave, *terminate, *reset;
    fmi_free *release;
    fmi_state *get_state, *free_state;
    fmi_set_state *set_state;
    void *instance, *state;
    uint32_t *in, *out;  // references of all inputs and outputs
    bool singles;        // some are Float32
    bool runs;           // initialised and without an error since: it may be terminated
    bool lost;           // it said "fatal": nothing of the library may be called any more
    bool rewinds;        // states may be set later
    char reason[REASON]; // the last thing that it said of an error
};

const char *pf__fmu_platform(int major)
{
#if defined(__x86_64__)
    return major == 2 ? "linux64" : "x86_64-linux";
#elif defined(__aarch64__)
    (void)major;
    return "aarch64-linux";
#elif defined(__i386__)
    return major == 2 ? "linux32" : "x86-linux";
#else
    (void)major;
    return "unknown";
#endif
}

// --- loading

typedef struct symbol {
    const char *name;
    void *to;      // a pointer to the function pointer
    bool optional; // states and reset are only shortcuts
} symbol;

// dlsym gives an object pointer; POSIX promises that it fits.
static bool find(void *library, int major, const symbol *s)
{
    char name[64];
    snprintf(name, sizeof name, "fmi%d%s", major, s->name);
    void *found = dlsym(library, name);
    memcpy(s->to, &found, sizeof found);
    return found || s->optional;
}

static pf_status find_all(pf_fmu *f, void *library, pf_error *error)
{
    int major = f->model->major;
    const symbol both[] = {{"ExitInitializationMode", &f->leave, false},
                           {"Terminate", &f->terminate, false},
                           {"FreeInstance", &f->release, false},
                           {"Reset", &f->reset, true},
                           {major == 2 ? "GetFMUstate" : "GetFMUState", &f->get_state, true},
                           {major == 2 ? "SetFMUstate" : "SetFMUState", &f->set_state, true},
                           {major == 2 ? "FreeFMUstate" : "FreeFMUState", &f->free_state, true},
                           {NULL, NULL, false}};
    const symbol two[] = {{"Instantiate", &f->instantiate2, false},
                          {"SetupExperiment", &f->setup, false},
                          {"EnterInitializationMode", &f->enter2, false},
                          {"GetReal", &f->get_real, false},
                          {"SetReal", &f->set_real, false},
                          {"DoStep", &f->step2, false},
                          {NULL, NULL, false}};
    const symbol three[] = {{"InstantiateCoSimulation", &f->instantiate3, false},
                            {"EnterInitializationMode", &f->enter3, false},
                            {"GetFloat64", &f->get64, false},
                            {"SetFloat64", &f->set64, false},
                            {"GetFloat32", &f->get32, false},
                            {"SetFloat32", &f->set32, false},
                            {"DoStep", &f->step3, false},
                            {NULL, NULL, false}};
    const symbol *const lists[] = {both, major == 2 ? two : three};
    for (int i = 0; i < 2; i++) {
        for (const symbol *s = lists[i]; s->name; s++) {
            if (!find(library, major, s)) {
                return pf_fail(error, PF_ERR_PLANT,
                               "its library has no function fmi%d%s, which FMI %s demands", major,
                               s->name, f->model->version);
            }
        }
    }
    return PF_OK;
}

static const char needs_tool[] = "; it says that it needs the tool that made it";

// What the linker says, without the folder that we unpacked into.
static pf_status cannot_load(const char *folder, bool by_tool, pf_error *error)
{
    const char *why = dlerror();
    size_t n = strlen(folder);
    why = why ? why : "no reason given";
    if (strncmp(why, folder, n) == 0) {
        why += n + (why[n] == '/');
    }
    bool missing = strstr(why, "cannot open shared object file") != NULL;
    return pf_fail(error, PF_ERR_PLANT, "its library cannot be loaded: %s%s", why,
                   missing   ? "; install the library that is missing"
                   : by_tool ? needs_tool
                             : "");
}

// Bytes that a URI may not hold as they are.
static void add_uri(char *out, size_t size, const char *path)
{
    size_t used = strlen(out);
    for (; *path && used + 4 < size; path++) {
        bool plain =
            strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/", *path);
        used += (size_t)snprintf(out + used, size - used, plain ? "%c" : "%%%02X",
                                 (unsigned char)*path);
    }
}

// --- what the FMU says

// The last words about an error, in one line; all else is lost.
static void hear(pf_fmu *f, int status, const char *text)
{
    if (!f || status < FMI_DISCARD || !text[0]) {
        return; // some pass no environment on
    }
    char line[512];
    snprintf(line, sizeof line, "%s", text);
    for (char *c = line; *c; c++) {
        *c = (unsigned char)*c < ' ' ? ' ' : *c;
    }
    strcpy(f->reason, ": ");
    pf__text_shown(f->reason + 2, sizeof f->reason - 2, line, strlen(line));
}

static void hear_2(void *environment, const char *instance, int status, const char *category,
                   const char *message, ...)
{
    char text[512] = "";
    (void)instance, (void)category;
    va_list list;
    va_start(list, message);
    vsnprintf(text, sizeof text, message ? message : "", list);
    va_end(list);
    hear(environment, status, text);
}

static void hear_3(void *environment, int status, const char *category, const char *message)
{
    (void)category;
    hear(environment, status, message ? message : "");
}

static pf_status failed(pf_fmu *f, int status, const char *what, pf_error *error)
{
    static const char *const names[] = {"ok", "warning", "discard", "error", "fatal"};
    f->lost = f->lost || status == FMI_FATAL;
    f->runs = f->runs && status == FMI_DISCARD;
    return pf_fail(error, PF_ERR_PLANT, "it answers %s with '%s'%s", what,
                   status >= FMI_OK && status <= FMI_FATAL ? names[status] : "pending", f->reason);
}

static bool good(int status)
{
    return status == FMI_OK || status == FMI_WARNING;
}

// NULL: no memory.
static uint32_t *references(pf_fmu *f, const pf_fmu_variables *of)
{
    uint32_t *list = calloc((size_t)of->n + 1, sizeof *list);
    for (int i = 0; list && i < of->n; i++) {
        list[i] = of->list[i].reference;
        f->singles = f->singles || of->list[i].single;
    }
    return list;
}

static pf_status open_library(pf_fmu *f, pf_error *error)
{
    // all symbols now: one that is missing would end the process in the middle of a trajectory
    f->library = dlopen(f->path, RTLD_NOW | RTLD_LOCAL);
    return f->library ? find_all(f, f->library, error)
                      : cannot_load(f->folder, f->model->needs_tool, error);
}

pf_status pf__fmu_load(pf_fmu **fmu, const pf_fmu_model *model, const char *folder, pf_error *error)
{
    pf_fmu *f = *fmu = calloc(1, sizeof *f);
    int n = f ? snprintf(f->path, sizeof f->path, "%s/binaries/%s/%s.so", folder,
                         pf__fmu_platform(model->major), model->identifier)
              : PATH_BYTES;
    if (n >= PATH_BYTES) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory");
    }
    f->model = model;
    f->callbacks = (fmi2_callbacks){hear_2, calloc, free, NULL, f};
    snprintf(f->folder, sizeof f->folder, "%s", folder);
    if (model->major == 2) {
        strcpy(f->resources, "file://");
        add_uri(f->resources, sizeof f->resources, folder);
        strncat(f->resources, "/resources", sizeof f->resources - strlen(f->resources) - 1);
    } else {
        snprintf(f->resources, sizeof f->resources, "%.*s/resources/", PATH_BYTES - 16, folder);
    }
    f->in = references(f, &model->inputs);
    f->out = references(f, &model->outputs);
    return f->in && f->out ? open_library(f, error)
                           : pf_fail(error, PF_ERR_MEMORY, "out of memory");
}

// --- an instance

static pf_status create(pf_fmu *f, pf_error *error)
{
    const pf_fmu_model *m = f->model;
    f->reason[0] = '\0';
    f->instance = m->major == 2 ? f->instantiate2(m->name, FMI2_CO_SIMULATION, m->token,
                                                  f->resources, &f->callbacks, 0, 0)
                                : f->instantiate3(m->name, m->token, f->resources, false, false,
                                                  false, false, NULL, 0, f, hear_3, NULL);
    return f->instance ? PF_OK
                       : pf_fail(error, PF_ERR_PLANT, "it cannot be instantiated%s%s", f->reason,
                                 m->needs_tool ? needs_tool : "");
}

static pf_status initialise(pf_fmu *f, pf_error *error)
{
    const pf_fmu_model *m = f->model;
    int status;
    f->runs = false;
    if (m->major == 2) {
        status = f->setup(f->instance, m->tolerance > 0, m->tolerance, m->start_s, 0, 0);
        status = good(status) ? f->enter2(f->instance) : status;
    } else {
        status = f->enter3(f->instance, m->tolerance > 0, m->tolerance, m->start_s, false, 0);
    }
    status = good(status) ? f->leave(f->instance) : status;
    f->runs = good(status);
    return f->runs ? PF_OK : failed(f, status, "its initialisation", error);
}

void pf__fmu_end(pf_fmu *f)
{
    if (f->instance && f->state && f->runs) {
        f->lost = f->free_state(f->instance, &f->state) == FMI_FATAL;
    }
    if (f->instance && f->runs && !f->lost) {
        f->lost = f->terminate(f->instance) == FMI_FATAL;
    }
    if (f->instance && !f->lost) {
        f->release(f->instance);
    }
    f->instance = NULL;
    f->state = NULL;
    f->runs = false;
}

bool pf__fmu_lost(const pf_fmu *f)
{
    return f && f->lost;
}

static pf_status start(pf_fmu *f, pf_fmu_renewal renewal, pf_error *error)
{
    pf_status status = create(f, error);
    status = status == PF_OK ? initialise(f, error) : status;
    f->rewinds = renewal == PF_FMU_STATE;
    if (status == PF_OK && f->rewinds) {
        int code = f->get_state(f->instance, &f->state);
        status = good(code) ? PF_OK : failed(f, code, "fmiGetFMUState", error);
    }
    return status;
}

pf_status pf__fmu_renew(pf_fmu *f, pf_fmu_renewal renewal, pf_error *error)
{
    bool again = f->instance != NULL;
    if (f->lost) {
        return pf_fail(error, PF_ERR_PLANT, "it answered 'fatal', and cannot go on");
    }
    f->reason[0] = '\0';
    if ((renewal == PF_FMU_STATE && !(f->get_state && f->set_state && f->free_state)) ||
        (renewal == PF_FMU_RESET && !f->reset)) {
        return pf_fail(error, PF_ERR_UNSUPPORTED, "it has no such function");
    }
    if (again && renewal == PF_FMU_STATE && f->state) {
        int code = f->set_state(f->instance, f->state);
        return good(code) ? PF_OK : failed(f, code, "fmiSetFMUState", error);
    }
    if (again && renewal == PF_FMU_RESET) {
        int code = f->reset(f->instance);
        return good(code) ? initialise(f, error) : failed(f, code, "fmiReset", error);
    }
    pf__fmu_end(f);
    if (renewal == PF_FMU_LIBRARY) {
        dlclose(f->library);
        pf_status status = open_library(f, error);
        if (status != PF_OK) {
            return status;
        }
    }
    return start(f, renewal, error);
}

// --- numbers, and time

static pf_status about(pf_fmu *f, int status, const char *verb, const char *name, pf_error *error)
{
    char what[120], shown[84];
    pf__text_shown(shown, sizeof shown, name, strlen(name));
    snprintf(what, sizeof what, "%s %s", verb, shown);
    return failed(f, status, what, error);
}

static int set_single(const pf_fmu *f, const pf_fmu_variable *v, const double *values)
{
    float held[PF_FMU_NUMBERS_MOST];
    for (int i = 0; i < v->n; i++) {
        held[i] = (float)values[i];
    }
    return f->set32(f->instance, &v->reference, 1, held, (size_t)v->n);
}

static int get_single(const pf_fmu *f, const pf_fmu_variable *v, double *values)
{
    float held[PF_FMU_NUMBERS_MOST];
    int status = f->get32(f->instance, &v->reference, 1, held, (size_t)v->n);
    for (int i = 0; i < v->n && good(status); i++) {
        values[i] = (double)held[i];
    }
    return status;
}

pf_status pf__fmu_set(pf_fmu *f, double *inputs, pf_error *error)
{
    const pf_fmu_variables *all = &f->model->inputs;
    size_t n = (size_t)all->n, numbers = (size_t)all->numbers;
    if (!f->singles) {
        int status = n == 0                 ? FMI_OK
                     : f->model->major == 2 ? f->set_real(f->instance, f->in, n, inputs)
                                            : f->set64(f->instance, f->in, n, inputs, numbers);
        return good(status) ? PF_OK : about(f, status, "the values of", "its inputs", error);
    }
    for (int i = 0; i < all->n; inputs += all->list[i++].n) {
        const pf_fmu_variable *v = &all->list[i];
        int status = v->single ? set_single(f, v, inputs)
                               : f->set64(f->instance, &v->reference, 1, inputs, (size_t)v->n);
        if (!good(status)) {
            return about(f, status, "a value of", v->name, error);
        }
    }
    return PF_OK;
}

pf_status pf__fmu_get(pf_fmu *f, double *outputs, pf_error *error)
{
    const pf_fmu_variables *all = &f->model->outputs;
    size_t n = (size_t)all->n, numbers = (size_t)all->numbers;
    if (!f->singles) {
        int status = n == 0                 ? FMI_OK
                     : f->model->major == 2 ? f->get_real(f->instance, f->out, n, outputs)
                                            : f->get64(f->instance, f->out, n, outputs, numbers);
        return good(status) ? PF_OK : about(f, status, "a look at", "its outputs", error);
    }
    for (int i = 0; i < all->n; outputs += all->list[i++].n) {
        const pf_fmu_variable *v = &all->list[i];
        int status = v->single ? get_single(f, v, outputs)
                               : f->get64(f->instance, &v->reference, 1, outputs, (size_t)v->n);
        if (!good(status)) {
            return about(f, status, "a look at", v->name, error);
        }
    }
    return PF_OK;
}

pf_status pf__fmu_step(pf_fmu *f, double time_s, double step_s, pf_error *error)
{
    bool event = false, ended = false, early = false;
    double last = time_s + step_s;
    int status = f->model->major == 2 ? f->step2(f->instance, time_s, step_s, !f->rewinds)
                                      : f->step3(f->instance, time_s, step_s, !f->rewinds, &event,
                                                 &ended, &early, &last);
    char what[80];
    pf__print(what, sizeof what, "the step at %g s", time_s);
    if (good(status) && (ended || early)) {
        return pf_fail(error, PF_ERR_PLANT, "%s in %s",
                       ended ? "it asks to end" : "it returns early", what);
    }
    return good(status) ? PF_OK : failed(f, status, what, error);
}
