// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "plant/plant_impl.h"
#include "process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// `gym:ID` and the domain plants: the bridge on a worker of our Python package. The interpreter is
// PREFLIGHT_PYTHON, one that `make` installed, or python3.

#define ID_MAX 200
#define DOMAIN_HELLO_S 180.0

// Its arguments: a name, advice, the folder of the package's source or nothing, and whether the
// name is of a module of the user's. Moves the real standard output aside before anything is
// imported, since libraries print. Nothing is imported from the current folder, which may be
// anybody's, but modules of the user's, and these behind the installed packages. What is missing is
// the answer to the hello. (Python's own option for that, -P, is of 3.11.)
#define WORKER                                                                                     \
    "import os, sys\n"                                                                             \
    "out = os.dup(1)\n"                                                                            \
    "os.dup2(2, 1)\n"                                                                              \
    "here = os.getcwd()\n"                                                                         \
    "sys.path[:] = [p for p in sys.path if os.path.abspath(p) != here]\n"                          \
    "if sys.argv[4]:\n"                                                                            \
    "    sys.path.append(here)\n"                                                                  \
    "if sys.argv[3]:\n"                                                                            \
    "    sys.path.insert(0, sys.argv[3])\n"                                                        \
    "try:\n"                                                                                       \
    "    from preflight.worker import main\n"                                                      \
    "except ImportError as problem:\n"                                                             \
    "    import json\n"                                                                            \
    "    sys.stdin.readline()\n"                                                                   \
    "    text = f\"{sys.executable} has no package preflight-readiness ({problem}): \" \\\n"       \
    "           f\"{sys.argv[2]}, or set PREFLIGHT_PYTHON\"\n"                                     \
    "    os.write(out, (json.dumps({\"error\": text}) + \"\\n\").encode())\n"                      \
    "    sys.exit(0)\n"                                                                            \
    "main(sys.argv[1], out)\n"

// What differs between the two kinds of plants.
typedef struct worker {
    const char *places[4]; // environments to look for: below the tree, or with ~ the user's data
    const char *advice;    // where the package is missing
    const char *hint;      // where Python is missing
} worker;

static const worker gym_worker = {
    {"build/venv"},
    "install it there",
    "set PREFLIGHT_PYTHON to a Python with preflight-readiness and gymnasium installed"};
static const worker domain_worker = {
    {"build/domains", "~preflight/domains", "build/venv"},
    "run `make domains`",
    "run `make domains`, or set PREFLIGHT_PYTHON to a Python with preflight-readiness and the "
    "simulators"};

// Room for what a call of the worker names.
typedef struct call {
    char python[4096], source[4096];
} call;

// The interpreter of an environment, if there is one.
static bool has_python(const char *place, const char *tree, char *python, size_t size)
{
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    bool given = data && data[0];
    int n = place[0] != '~' ? snprintf(python, size, "%s/%s/bin/python", tree, place)
            : given         ? snprintf(python, size, "%s/%s/bin/python", data, place + 1)
                    : snprintf(python, size, "%s/.local/share/%s/bin/python", home ? home : "",
                               place + 1);
    return n < (int)size && access(python, X_OK) == 0;
}

// Fills in what is run. An environment inside the source tree runs the package's source. own: the
// name is of code of the user's.
static void call_worker(const worker *w, const char *tree, const char *name, bool own, call *c,
                        const char *arguments[PF_ARGUMENTS])
{
    const char *chosen = getenv("PREFLIGHT_PYTHON");
    bool found = chosen && chosen[0];
    c->source[0] = '\0';
    for (int i = 0; !found && w->places[i]; i++) {
        if (has_python(w->places[i], tree, c->python, sizeof c->python)) {
            found = true;
            chosen = c->python;
            if (w->places[i][0] != '~') {
                snprintf(c->source, sizeof c->source, "%s/python", tree);
            }
        }
    }
    const char *const words[] = {
        found ? chosen : "python3", "-c", WORKER, name, w->advice, c->source, own ? "own" : ""};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        arguments[i] = words[i];
    }
}

pf_status pf__worker_start(pf_process *process, const char *spec, const volatile int *stop,
                           pf_error *error)
{
    call c;
    const char *arguments[PF_ARGUMENTS] = {NULL};
    call_worker(&gym_worker, PF_SOURCE_TREE, spec, true, &c, arguments);
    return pf__process_start(process, arguments, stop) == PF_PROCESS_OK
               ? PF_OK
               : pf_fail(error, PF_ERR_PLANT, "%s: %s cannot be started; %s", spec, arguments[0],
                         gym_worker.hint);
}

static pf_status open_worker(pf_plant **plant, const worker *w, const char *tree, const char *name,
                             double hello_s, const volatile int *stop, pf_error *error)
{
    call c;
    pf_bridge_program program = {.name = name, .hint = w->hint, .hello_s = hello_s, .stop = stop};
    call_worker(w, tree, name, pf__plant_runs_code(name), &c, program.arguments);
    return pf__bridge_open(plant, &program, error);
}

// What an id may hold: a namespace, a module, a name and a version.
static bool is_id(const char *id)
{
    size_t n = strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                          "-_./:");
    return n > 0 && n <= ID_MAX && id[n] == '\0';
}

pf_status pf__gym_create(pf_plant **plant, const char *id, const volatile int *stop,
                         pf_error *error)
{
    *plant = NULL;
    if (!is_id(id)) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "gym:%s: give a Gymnasium id of letters, digits and -_./: as in "
                       "gym:BipedalWalker-v3",
                       id);
    }
    char name[sizeof "gym:" + ID_MAX];
    snprintf(name, sizeof name, "gym:%s", id);
    return open_worker(plant, &gym_worker, PF_SOURCE_TREE, name, 0, stop, error);
}

pf_status pf__domain_create_in(pf_plant **plant, const char *tree, const char *name,
                               const volatile int *stop, pf_error *error)
{
    // a grid and its power flow take ten seconds to load on a busy machine
    return open_worker(plant, &domain_worker, tree, name, DOMAIN_HELLO_S, stop, error);
}

pf_status pf__domain_create(pf_plant **plant, const char *name, const volatile int *stop,
                            pf_error *error)
{
    return pf__domain_create_in(plant, PF_SOURCE_TREE, name, stop, error);
}
