// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "program.h"
#include "test.h"

#include "host/file.h"

#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// Progress of the program: its forms, and going on after a stop or a kill.

static char folder[200];

static void path_in(const char *name, char path[300])
{
    snprintf(path, 300, "%s/%s", folder, name);
}

// Every line of a file of progress is an object of the documented shape; gives how many are of that
// stage, -1: one is not.
static int count_lines(const char *name, const char *stage)
{
    char path[300];
    void *data = NULL;
    size_t n = 0;
    int found = 0;
    path_in(name, path);
    if (pf__file_read(path, 1 << 24, &data, &n, NULL) != PF_OK) {
        return -1;
    }
    for (char *line = data, *end; found >= 0 && (end = strchr(line, '\n')); line = end + 1) {
        json_t *o = json_loadb(line, (size_t)(end - line), 0, NULL);
        const char *what = json_string_value(json_object_get(o, "progress"));
        bool whole = what && json_is_integer(json_object_get(o, "done")) &&
                     json_is_integer(json_object_get(o, "total")) && json_object_get(o, "rate") &&
                     json_object_get(o, "left_s");
        found = !whole ? -1 : found + (strcmp(what, stage) == 0);
        json_decref(o);
    }
    free(data);
    return found;
}

static void check_forms(void)
{
    PF_CASE("progress: an unknown form names the known ones");
    static const char *const calls[] = {
        "calibrate dc_servo -o @/k --progress bar", "design dc_servo -o @/l --progress bar",
        "audit @/k --progress bar", "train dc_servo -o @/m --progress bar",
        "bench run compact-plants --db @/d --progress bar"};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        CHECK(program_in(folder, calls[i], 2, "--progress bar: say auto, plain, json or none"));
    }
    PF_CASE("progress: JSON lines of every stage, in all five commands");
    CHECK(program_in(folder,
                     "calibrate dc_servo -o @/k --set episodes=20 --set alarm_trials=60 "
                     "--progress json 2>@/1",
                     0, "kit "));
    static const char *const stages[] = {"contract",  "episodes",     "returns",    "looks",
                                         "residuals", "alarm trials", "rehearsals", "sessions"};
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        CHECK(count_lines("1", stages[i]) > 0);
    }
    CHECK(program_in(folder, "design dc_servo -o @/l --progress json 2>@/2", 0, ""));
    CHECK(count_lines("2", "confirmation") > 0);
    CHECK(program_in(folder, "audit @/k --sessions 2 --progress json 2>@/3", 0, "false go"));
    CHECK(count_lines("3", "audit") > 0);
    CHECK(program_in(folder,
                     "train dc_servo -o @/m --profile quick --set epochs=3 --progress json 2>@/4",
                     0, ""));
    CHECK(count_lines("4", "epochs") > 0);
    CHECK(program_in(folder,
                     "bench run compact-plants --profile quick --only environment=dc_servo --db "
                     "@/d --progress json 2>@/5",
                     0, "trials"));
    CHECK(count_lines("5", "trials") > 0);
    PF_CASE("progress: a short job says nothing of it elsewhere, and its result is the same");
    CHECK(program_in(folder,
                     "calibrate dc_servo -o @/k2 --set episodes=20 --set alarm_trials=60 "
                     "--progress none 2>@/6",
                     0, "kit "));
    CHECK(program_in(folder,
                     "calibrate dc_servo -o @/k3 --set episodes=20 --set alarm_trials=60 2>@/7", 0,
                     "kit "));
    CHECK(count_lines("6", "") == 0 && count_lines("7", "") == 0);
}

// --- stops

// Starts the program with its errors going to a file. The argument list ends with NULL.
static pid_t start(const char *errors, const char *const *arguments)
{
    pid_t child = fork();
    if (child == 0) {
        const char *argv[24] = {PF_PROGRAM};
        for (int i = 0; i < 22 && arguments[i]; i++) {
            argv[i + 1] = arguments[i];
        }
        int out = open("/dev/null", O_WRONLY);
        int err = open(errors, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        dup2(out, 1);
        dup2(err, 2);
        execv(PF_PROGRAM, (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    return child;
}

// Waits until a file holds a text, at most a minute.
static bool comes(const char *path, const char *text)
{
    for (int i = 0; i < 6000; i++) {
        void *data = NULL;
        size_t n = 0;
        bool there =
            pf__file_read(path, 1 << 26, &data, &n, NULL) == PF_OK && (!text || strstr(data, text));
        free(data);
        if (there) {
            return true;
        }
        struct timespec moment = {0, 10000000};
        nanosleep(&moment, NULL);
    }
    return false;
}

static bool same_file(const char *a, const char *b)
{
    void *x = NULL, *y = NULL;
    size_t n = 0, m = 0;
    bool same = pf__file_read(a, 1 << 26, &x, &n, NULL) == PF_OK &&
                pf__file_read(b, 1 << 26, &y, &m, NULL) == PF_OK && n == m && memcmp(x, y, n) == 0;
    free(x);
    free(y);
    return same;
}

// A job of a few seconds, killed when its part is there; the same command goes on.
static void check_kill(void)
{
    char kit[300], part[300], errors[300], whole[300];
    path_in("killed.kit", kit);
    path_in("killed.kit.part", part);
    path_in("errors", errors);
    path_in("whole.kit", whole);
    const char *job[] = {"calibrate",         "dc_servo",  "-o", kit, "--set",
                         "alarm_trials=8000", "--threads", "1",  NULL};
    PF_CASE("progress: a calibration that was killed goes on and gives the same kit");
    pid_t child = start(errors, job);
    CHECK(comes(part, NULL));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    CHECK(access(kit, F_OK) != 0);
    CHECK(program_in(folder, "calibrate dc_servo -o @/killed.kit --set alarm_trials=8000", 0,
                     "goes on from"));
    CHECK(access(part, F_OK) != 0);
    CHECK(program_in(folder, "calibrate dc_servo -o @/whole.kit --set alarm_trials=8000", 0, ""));
    CHECK(same_file(kit, whole));
}

// Ctrl-C as soon as it says how long it takes.
static void check_interrupt(void)
{
    char kit[300], errors[300], part[300];
    path_in("long.kit", kit);
    path_in("long.kit.part", part);
    path_in("errors", errors);
    const char *job[] = {"calibrate",  "dc_servo", "-o", kit, "--set", "alarm_trials=1000000",
                         "--progress", "plain",    NULL};
    PF_CASE("progress: a long job says how long it takes; Ctrl-C says how it goes on");
    pid_t child = start(errors, job);
    CHECK(comes(errors, "calibration: about "));
    CHECK(comes(errors, "; --set alarm_trials=200 takes "));
    kill(child, SIGINT);
    int ended = 0;
    waitpid(child, &ended, 0);
    CHECK(WIFEXITED(ended) && WEXITSTATUS(ended) == 130);
    CHECK(comes(errors, "the same command goes on from"));
    CHECK(access(part, F_OK) == 0 && access(kit, F_OK) != 0);
    PF_CASE("progress: work of other settings is neither used nor lost");
    CHECK(program_in(folder,
                     "calibrate dc_servo -o @/long.kit --set alarm_trials=60 --set episodes=20", 3,
                     "finished work of another job"));
    CHECK(access(part, F_OK) == 0 && remove(part) == 0);
    CHECK(program_in(folder,
                     "calibrate dc_servo -o @/long.kit --set alarm_trials=60 --set episodes=20", 0,
                     "kit "));
    CHECK(access(part, F_OK) != 0);
    CHECK(same_file(kit, (path_in("k", errors), errors)));
    PF_CASE("progress: a file of the user's is not touched");
    CHECK(pf__file_write(part, "my notes", 8, NULL) == PF_OK);
    CHECK(program_in(folder, "calibrate dc_servo -o @/long.kit", 3, "holds no part of a job"));
    CHECK(comes(part, "my notes"));
}

void test_progress(void)
{
    if (!program_folder(folder, sizeof folder, "progress")) {
        CHECK(false);
        return;
    }
    check_forms();
    check_kill();
    check_interrupt();
}
