// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "plant/plant_impl.h"
#include "process.h"

#include <stdio.h>
#include <string.h>

// `gym:ID` and the domain plants: the bridge on a worker of our Python package. The shell picks the
// interpreter: PREFLIGHT_PYTHON, one that `make` installed, or python3.

#define ID_MAX 200
#define DOMAIN_HELLO_S 180.0

// Moves the real standard output aside before anything is imported, since libraries print, and puts
// the current folder behind the installed packages. What is missing is the answer to the hello.
#define WORKER                                                                                     \
    "import os, sys\n"                                                                             \
    "out = os.dup(1)\n"                                                                            \
    "os.dup2(2, 1)\n"                                                                              \
    "sys.path.append(sys.path.pop(0))\n"                                                           \
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

// An environment inside the source tree runs the package's source.
static const char command_format[] =
    "python=${PREFLIGHT_PYTHON:-}\n"
    "tree='%s'\n"
    "for place in %s; do\n"
    "    if [ -z \"$python\" ] && [ -x \"$place/bin/python\" ]; then\n"
    "        python=$place/bin/python\n"
    "        case $place in \"$tree\"/*)\n"
    "            PYTHONPATH=$tree/python${PYTHONPATH:+:$PYTHONPATH}\n"
    "            export PYTHONPATH ;;\n"
    "        esac\n"
    "    fi\n"
    "done\n"
    "exec \"${python:-python3}\" -c '" WORKER "' '%s' '%s'\n";

// What differs between the two kinds of plants.
typedef struct worker {
    const char *places; // environments to look for, in the shell's words
    const char *advice; // where the package is missing
    const char *hint;   // where Python is missing
} worker;

static const worker gym_worker = {
    "\"$tree/build/venv\"", "install it there",
    "set PREFLIGHT_PYTHON to a Python with preflight-readiness and gymnasium installed"};
static const worker domain_worker = {
    "\"$tree/build/domains\" \"${XDG_DATA_HOME:-${HOME:-}/.local/share}/preflight/domains\" "
    "\"$tree/build/venv\"",
    "run `make domains`",
    "run `make domains`, or set PREFLIGHT_PYTHON to a Python with preflight-readiness and the "
    "simulators"};

// The command that runs a worker.
static pf_status worker_command(const worker *w, const char *tree, const char *name, char *command,
                                size_t size, pf_error *error)
{
    int n = snprintf(command, size, command_format, tree, w->places, name, w->advice);
    return n < (int)size ? PF_OK
                         : pf_fail(error, PF_ERR_ARGUMENT,
                                   "%s: the path of the source folder is too long", name);
}

pf_status pf__worker_command(const char *spec, char command[PF_WORKER_COMMAND], pf_error *error)
{
    if (strchr(spec, '\'') || strlen(spec) > 1000) {
        return pf_fail(error, PF_ERR_ARGUMENT, "%s: a name with a quote or of over 1,000 bytes",
                       spec);
    }
    return worker_command(&gym_worker, PF_SOURCE_TREE, spec, command, PF_WORKER_COMMAND, error);
}

static pf_status open_worker(pf_plant **plant, const worker *w, const char *tree, const char *name,
                             double hello_s, pf_error *error)
{
    enum { ROOM = 4096 };
    char command[sizeof command_format + ROOM];
    pf_status status = worker_command(w, tree, name, command, sizeof command, error);
    if (status != PF_OK) {
        return status;
    }
    pf_bridge_program program = {
        .name = name, .command = command, .hint = w->hint, .hello_s = hello_s};
    return pf__bridge_open(plant, &program, error);
}

// What an id may hold: a namespace, a module, a name and a version, nothing that a shell reads.
static bool is_id(const char *id)
{
    size_t n = strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                          "-_./:");
    return n > 0 && n <= ID_MAX && id[n] == '\0';
}

pf_status pf__gym_create(pf_plant **plant, const char *id, pf_error *error)
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
    return open_worker(plant, &gym_worker, PF_SOURCE_TREE, name, 0, error);
}

pf_status pf__domain_create_in(pf_plant **plant, const char *tree, const char *name,
                               pf_error *error)
{
    // a grid and its power flow take ten seconds to load on a busy machine
    return open_worker(plant, &domain_worker, tree, name, DOMAIN_HELLO_S, error);
}

pf_status pf__domain_create(pf_plant **plant, const char *name, pf_error *error)
{
    return pf__domain_create_in(plant, PF_SOURCE_TREE, name, error);
}
