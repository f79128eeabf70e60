// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "plant/plant_impl.h"
#include "process.h"

#include <stdio.h>
#include <string.h>

// `gym:ID`: the bridge on a worker of our Python package. The shell picks the interpreter:
// PREFLIGHT_PYTHON, the one of the build folder with the package's source where they are there, or
// python3.

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
    "    text = f\"{sys.executable} has no package preflight-readiness ({problem}): install it \"" \
    " \"there, or set PREFLIGHT_PYTHON\"\n"                                                        \
    "    os.write(out, (json.dumps({\"error\": text}) + \"\\n\").encode())\n"                      \
    "    sys.exit(0)\n"                                                                            \
    "main(sys.argv[1], out)\n"

static const char command_format[] =
    "python=${PREFLIGHT_PYTHON:-}\n"
    "if [ -z \"$python\" ]; then\n"
    "    python='" PF_PYTHON_BUILT "'\n"
    "    if [ -x \"$python\" ]; then\n"
    "        PYTHONPATH='" PF_PYTHON_SOURCE "'\"${PYTHONPATH:+:$PYTHONPATH}\"\n"
    "        export PYTHONPATH\n"
    "    else\n"
    "        python=python3\n"
    "    fi\n"
    "fi\n"
    "exec \"$python\" -c '" WORKER "' '%s'\n";

static const char hint[] =
    "set PREFLIGHT_PYTHON to a Python with preflight-readiness and gymnasium installed";

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
    char name[sizeof "gym:" + ID_MAX], command[sizeof command_format + sizeof name];
    snprintf(name, sizeof name, "gym:%s", id);
    snprintf(command, sizeof command, command_format, name);
    pf_bridge_program program = {.name = name, .command = command, .hint = hint};
    return pf__bridge_open(plant, &program, error);
}

pf_status pf__domain_create(pf_plant **plant, const char *name, pf_error *error)
{
    char command[sizeof command_format + ID_MAX];
    snprintf(command, sizeof command, command_format, name);
    // a grid and its power flow take ten seconds to load on a busy machine
    pf_bridge_program program = {
        .name = name, .command = command, .hint = hint, .hello_s = DOMAIN_HELLO_S};
    return pf__bridge_open(plant, &program, error);
}
