// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "test.h"
#include "plant/bridge/hello.h"
#include "plant/bridge/process.h"
#include "plant/plant_impl.h"
#include "preflight/plant.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void test_gym(void);

// What a hello may suggest, and `gym:` without any Python: the interpreter is a script here.

#define MACHINE                                                                                    \
    "\"protocol\":1,\"name\":\"rig\",\"dt\":0.1,\"state_size\":1,"                                 \
    "\"mechanisms\":[\"a\",\"b\",\"c\"],\"channels\":[\"x\"]"

static pf_status parse(const char *more, pf_description *about, char *what)
{
    char text[1024];
    snprintf(text, sizeof text, "{" MACHINE "%s}", more);
    json_t *hello = json_loads(text, 0, NULL);
    CHECK(hello != NULL);
    what[0] = '\0';
    return pf__description_parse(hello, about, what);
}

static void test_suggestions(void)
{
    PF_CASE("pulses, weights, calm and a time limit");
    char what[PF_WHAT_SIZE];
    pf_description about;
    CHECK(parse(",\"title\":\"a rig\",\"calm\":true,\"timeout\":2.5,"
                "\"probe\":{\"steps\":4,\"doublet\":true,\"amplitude\":[0.2,-0.5,0.5]},"
                "\"task\":{\"steps\":3,\"rows\":5,\"amplitude\":[0,0.25,0.5]},"
                "\"reveal\":[0.25,0.75],\"importance\":[1,2.5]",
                &about, what) == PF_OK);
    pf_plant_info info = pf__description_info(&about, "exec:rig");
    CHECK_STR(info.title, "a rig");
    CHECK(info.deterministic && about.timeout_s == 2.5 && info.probe && info.task);
    CHECK(info.probe->steps == 4 && info.probe->rows == 4 && info.probe->doublet);
    CHECK(info.probe->amplitude[0] == .2 && info.probe->amplitude[1] == -.5);
    CHECK(info.task->steps == 3 && info.task->rows == 5 && !info.task->doublet);
    CHECK(info.task->amplitude[2] == .5 && info.reveal[1] == .75 && info.importance[1] == 2.5);

    PF_CASE("a changed suggestion is another plant");
    pf_description other;
    CHECK(parse(",\"calm\":true,\"reveal\":[0.5,0.5]", &other, what) == PF_OK);
    CHECK(pf__description_same(&about, &about) && !pf__description_same(&about, &other));
    pf__description_free(&about);
    pf__description_free(&other);

    PF_CASE("none of them is needed");
    CHECK(parse(",\"probe\":null", &about, what) == PF_OK);
    info = pf__description_info(&about, "exec:rig");
    CHECK(!info.deterministic && !info.probe && !info.task && !info.reveal && about.timeout_s == 0);
    CHECK_STR(info.title, "rig");
    pf__description_free(&about);
}

static void test_bad_suggestions(void)
{
    static const struct {
        const char *more, *part;
    } cases[] = {
        {",\"probe\":{\"amplitude\":[1,1,1]}", "\"probe\" needs whole numbers"},
        {",\"probe\":{\"steps\":0,\"amplitude\":[1,1,1]}", "1 <= steps <= rows"},
        {",\"probe\":{\"steps\":4,\"rows\":3,\"amplitude\":[1,1,1]}", "1 <= steps <= rows"},
        {",\"probe\":{\"steps\":2.5,\"amplitude\":[1,1,1]}", "needs whole numbers"},
        {",\"task\":{\"steps\":4,\"rows\":99999999,\"amplitude\":[1,1,1]}", "\"task\" needs"},
        {",\"task\":{\"steps\":4,\"amplitude\":[1,1]}", "\"amplitude\" of \"task\""},
        {",\"task\":{\"steps\":4,\"amplitude\":[1,1,\"x\"]}", "is not a list of 3 numbers"},
        {",\"probe\":7", "needs whole numbers"},
        {",\"reveal\":[1]", "\"reveal\" is not a list of 2 numbers >= 0"},
        {",\"importance\":[1,-1]", "\"importance\" is not a list of 2 numbers >= 0"},
        {",\"timeout\":0", "\"timeout\" must be seconds"},
        {",\"timeout\":\"long\"", "\"timeout\" must be seconds"},
        {",\"timeout\":1e9", "\"timeout\" must be seconds"},
        {",\"error\":\"no\\nrig\"", "no?rig"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        PF_CASE(cases[i].more);
        char what[PF_WHAT_SIZE];
        pf_description about;
        CHECK(parse(cases[i].more, &about, what) == PF_ERR_PLANT);
        CHECK_CONTAINS(what, cases[i].part);
        pf__description_free(&about);
    }
}

static void test_ids(void)
{
    static const char *const bad[] = {"gym:",     "gym:a b", "gym:x;y",
                                      "gym:$(x)", "gym:a'b", "gym:a\nb"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        PF_CASE("an id that a shell would read");
        pf_plant *plant = NULL;
        pf_error error = {PF_OK, ""};
        CHECK(pf_plant_create(&plant, bad[i], &error) == PF_ERR_ARGUMENT && plant == NULL);
        CHECK_CONTAINS(error.text, "give a Gymnasium id");
    }
}

// A script in place of the interpreter.
static void put_script(char path[160], const char *text)
{
    snprintf(path, 160, "%s/python", pf_scratch_dir());
    FILE *file = fopen(path, "w");
    if (CHECK(file != NULL)) {
        fprintf(file, "#!/bin/sh\n%s\n", text);
        fclose(file);
        CHECK(chmod(path, 0755) == 0);
    }
}

static void test_interpreter(void)
{
    pf_plant *plant = NULL, *copy = NULL;
    pf_error error = {PF_OK, ""};
    char path[160];

    PF_CASE("an interpreter that is not there");
    setenv("PREFLIGHT_PYTHON", "/nonexistent/python", 1);
    CHECK(pf_plant_create(&plant, "gym:Rig-v0", &error) == PF_ERR_PLANT);
    CHECK_CONTAINS(error.text,
                   "gym:Rig-v0: the process exited with status 127 (command not found)");
    CHECK_CONTAINS(error.text, "set PREFLIGHT_PYTHON");

    PF_CASE("what is missing is the answer to the hello");
    put_script(path, "read line; echo '{\"error\":\"no package\"}'");
    setenv("PREFLIGHT_PYTHON", path, 1);
    CHECK(pf_plant_create(&plant, "gym:Rig-v0", &error) == PF_ERR_PLANT);
    CHECK_STR(error.text, "gym:Rig-v0: no package");

    PF_CASE("the worker gets its name and is cloned under it");
    put_script(path, "[ \"$1\" = -c ] && [ \"$3\" = gym:Rig-v0 ] && exec '" PF_EXEC_CHILD "' good");
    CHECK(pf_plant_create(&plant, "gym:Rig-v0", &error) == PF_OK);
    if (plant) {
        CHECK_STR(pf_plant_get_info(plant)->name, "gym:Rig-v0");
        CHECK(pf_plant_clone(plant, &copy, &error) == PF_OK);
        CHECK(copy && strcmp(pf_plant_get_info(copy)->name, "gym:Rig-v0") == 0);
    }
    pf_plant_destroy(copy);
    pf_plant_destroy(plant);
    unsetenv("PREFLIGHT_PYTHON");
}

// An interpreter in an environment that answers only as it should be called.
static void put_environment(const char *environment, const char *text)
{
    char path[500];
    for (const char *slash = environment; (slash = strchr(slash + 1, '/'));) {
        snprintf(path, sizeof path, "%.*s", (int)(slash - environment), environment);
        mkdir(path, 0777);
    }
    mkdir(environment, 0777);
    snprintf(path, sizeof path, "%s/bin", environment);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/bin/python", environment);
    FILE *file = fopen(path, "w");
    if (CHECK(file != NULL)) {
        fprintf(file, "#!/bin/sh\n%s\n", text);
        fclose(file);
        CHECK(chmod(path, 0755) == 0);
    }
}

// Paths are arguments: whatever a folder is called, no shell reads its name.
#define HOSTILE "it's $(touch ran) `touch ran`; touch ran \"q\""

static void test_places(void)
{
    char tree[200], data[200], environment[300], source[300];
    pf_plant *plant = NULL;
    pf_error error = {PF_OK, ""};
    snprintf(tree, sizeof tree, "%s/" HOSTILE, pf_scratch_dir());
    snprintf(data, sizeof data, "%s/data " HOSTILE, pf_scratch_dir());
    snprintf(source, sizeof source, "%s/python", tree);
    unsetenv("PREFLIGHT_PYTHON");
    setenv("XDG_DATA_HOME", data, 1);
    setenv("WANTED_SOURCE", source, 1);

    PF_CASE("without its simulators a domain plant names the command that installs them");
    snprintf(environment, sizeof environment, "%s/build/venv", tree);
    put_environment(environment, "read line; echo \"{\\\"error\\\":\\\"$4\\\"}\"");
    CHECK(pf__domain_create_in(&plant, tree, "grid2op", NULL, &error) == PF_ERR_PLANT);
    CHECK_STR(error.text, "grid2op: run `make domains`");
    put_environment(environment, "exit 127");
    CHECK(pf__domain_create_in(&plant, tree, "grid2op", NULL, &error) == PF_ERR_PLANT);
    CHECK_CONTAINS(error.text, "run `make domains`, or set PREFLIGHT_PYTHON");

    PF_CASE("it finds them in the user's data folder");
    snprintf(environment, sizeof environment, "%s/preflight/domains", data);
    put_environment(environment,
                    "[ \"$3\" = grid2op ] && [ -z \"$5\" ] && exec '" PF_EXEC_CHILD "' good");
    CHECK(pf__domain_create_in(&plant, tree, "grid2op", NULL, &error) == PF_OK);
    pf_plant_destroy(plant);
    put_environment(environment, "exit 5");

    PF_CASE("and first of all in the build folder, with the package's source");
    snprintf(environment, sizeof environment, "%s/build/domains", tree);
    put_environment(environment,
                    "[ \"$5\" = \"$WANTED_SOURCE\" ] && exec '" PF_EXEC_CHILD "' good");
    CHECK(pf__domain_create_in(&plant, tree, "grid2op", NULL, &error) == PF_OK);
    pf_plant_destroy(plant);
    unsetenv("XDG_DATA_HOME");
    unsetenv("WANTED_SOURCE");
    CHECK(access("ran", F_OK) != 0);
}

// An exec: plant whose files are in another folder than the current one.
static void test_folder(void)
{
    PF_CASE("the folder of an exec: plant is an argument too");
    char folder[200], script[300];
    pf_plant *plant = NULL, *copy = NULL;
    pf_error error = {PF_OK, ""};
    snprintf(folder, sizeof folder, "%s/-folder " HOSTILE, pf_scratch_dir());
    CHECK(mkdir(folder, 0777) == 0);
    snprintf(script, sizeof script, "%s/only-here.sh", folder);
    FILE *file = fopen(script, "w");
    if (CHECK(file != NULL)) {
        fputs("[ \"$1\" = \"a b\" ] && exec '" PF_EXEC_CHILD "' good\n", file);
        fclose(file);
    }
    CHECK(pf__bridge_create(&plant, "exec sh ./only-here.sh 'a b'", folder, NULL, &error) == PF_OK);
    CHECK(plant && pf_plant_clone(plant, &copy, &error) == PF_OK);
    CHECK(copy && strcmp(pf_plant_get_info(copy)->folder, folder) == 0);
    pf_plant_destroy(copy);
    pf_plant_destroy(plant);
    CHECK(access("ran", F_OK) != 0);
}

// Modules of the names that the worker imports, in the current folder.
static void put_modules(const char *folder)
{
    static const char *const names[] = {
        "preflight/__init__", "preflight/worker", "json", "orjson", "numpy", "gymnasium", "mine"};
    char path[400];
    snprintf(path, sizeof path, "%s/preflight", folder);
    CHECK(mkdir(folder, 0777) == 0 && mkdir(path, 0777) == 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s.py", folder, names[i]);
        FILE *file = fopen(path, "w");
        if (CHECK(file != NULL)) {
            fputs("open('was-run', 'w').close()\n", file);
            fclose(file);
        }
    }
}

// Whether something of the current folder is run for a plant of that name.
static bool runs_here(const char *name)
{
    pf_plant *plant = NULL;
    pf_error error = {PF_OK, ""};
    remove("was-run");
    pf_plant_create(&plant, name, &error);
    pf_plant_destroy(plant);
    return access("was-run", F_OK) == 0;
}

static void test_current_folder(void)
{
    char was[400], folder[300];
    snprintf(folder, sizeof folder, "%s/somebody's", pf_scratch_dir());
    put_modules(folder);
    if (!CHECK(getcwd(was, sizeof was) != NULL) || !CHECK(chdir(folder) == 0)) {
        return;
    }
    PF_CASE("the current folder is not looked into for modules of a plain id");
    setenv("PREFLIGHT_PYTHON", "python3", 1);
    CHECK(!runs_here("gym:CartPole-v1"));
    CHECK(!runs_here("grid2op"));
    setenv("PYTHONPATH", ":.", 1);
    CHECK(!runs_here("gym:CartPole-v1"));
    unsetenv("PYTHONPATH");
    PF_CASE("but for those of an id that names a module");
    CHECK(runs_here("gym:mine:CartPole-v1"));
    unsetenv("PREFLIGHT_PYTHON");
    CHECK(chdir(was) == 0);
}

void test_gym(void)
{
    test_suggestions();
    test_bad_suggestions();
    test_ids();
    test_interpreter();
    test_places();
    test_folder();
    test_current_folder();
}
