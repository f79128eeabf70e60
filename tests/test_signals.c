// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "test.h"
#include "host/file.h"
#include "host/parallel.h"
#include "plant/mujoco/mujoco.h"
#include "program.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// A signal while the process behind a plant hangs: every command ends with 130 or 143, soon, and no
// process of the child's group is left. So too after kill -9.

// How long we wait for what takes a fraction of a second. The limit is no test of speed: on a
// loaded machine anything may take longer, so the long run only says how many took over a second.
enum { PATIENCE_S = 60 };
static const double SOON_S = 1;

static char folder[200], mark[220];
static int stopped, late; // commands that got a signal, and those that were not gone soon
static double latest_s;

static void rest(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

static void write_file(const char *name, const char *text)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CHECK(pf__file_write(path, text, strlen(text), NULL) == PF_OK);
}

// Processes that were started with our mark in their environment, and run.
static int processes(void)
{
    static char text[1 << 16];
    int n = 0;
    DIR *all = opendir("/proc");
    for (struct dirent *e = all ? readdir(all) : NULL; e; e = readdir(all)) {
        char path[300];
        snprintf(path, sizeof path, "/proc/%.20s/environ", e->d_name);
        int fd = e->d_name[0] > '0' && e->d_name[0] <= '9' ? open(path, O_RDONLY) : -1;
        ssize_t size = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
        if (fd >= 0) {
            close(fd);
        }
        text[size > 0 ? size : 0] = 0;
        for (ssize_t at = 0; at < size; at += (ssize_t)strlen(text + at) + 1) {
            bool ours = strncmp(text + at, "EXEC_CHILD_MARK=", 16) == 0;
            n += ours && strcmp(text + at + 16, mark) == 0;
        }
    }
    if (all) {
        closedir(all);
    }
    return n;
}

// Runs the program with arguments as a shell reads them, with its own number.
static pid_t start(const char *arguments)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        char command[2000];
        setenv("EXEC_CHILD_MARK", mark, 1);
        // redirections among the arguments come later and win
        snprintf(command, sizeof command, "cd '%s' && </dev/null >out 2>&1 exec '%s' %s", folder,
                 PF_PROGRAM, arguments);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    return pid;
}

// The exit status, 128 + the signal that ended it, -1: it does not end.
static int wait_for(pid_t pid)
{
    int status = 0;
    for (double end = pf__seconds() + PATIENCE_S; pf__seconds() < end; rest()) {
        if (waitpid(pid, &status, WNOHANG) == pid) {
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return -1;
}

static bool wait_for_mark(void)
{
    double end = pf__seconds() + PATIENCE_S;
    while (access(mark, F_OK) != 0 && pf__seconds() < end) {
        rest();
    }
    return access(mark, F_OK) == 0;
}

static bool all_gone(void)
{
    double end = pf__seconds() + PATIENCE_S;
    while (processes() > 0 && pf__seconds() < end) {
        rest();
    }
    return processes() == 0;
}

// A command whose child hangs in that mode gets a signal.
static void stop_one(const char *arguments, const char *mode, int signal_number)
{
    remove(mark);
    write_file("mode", mode);
    pid_t pid = start(arguments);
    bool hangs = wait_for_mark();
    double start_s = pf__seconds();
    kill(pid, signal_number);
    int status = wait_for(pid);
    bool gone = all_gone();
    double took_s = pf__seconds() - start_s;
    stopped++;
    late += took_s > SOON_S;
    latest_s = took_s > latest_s ? took_s : latest_s;
    if (!CHECK(hangs && status == 128 + signal_number && gone)) {
        char *out = program_text(folder, "out");
        printf("    preflight %s: child %s, signal %d: %s, exit status %d, %d processes left\n"
               "    %.300s\n",
               arguments, mode, signal_number, hangs ? "hung" : "did not hang", status, processes(),
               out);
        free(out);
    }
}

// Commands that talk to a child. @: the plant.
static const char *const commands[] = {
    "calibrate \"$(cat plant)\" -o new.kit --threads 2",
    "check a.kit --journal j --allow-exec",
    "design \"$(cat plant)\" -o library --threads 2",
    "audit a.kit --allow-exec --sessions 5 --threads 2",
    "doctor \"$(cat plant)\"",
    "bench run hang --allow-exec --data . --db new.db --profile quick --threads 2",
    "train \"$(cat plant)\" -o new.model --profile quick --threads 2",
    "rollout \"$(cat plant)\" --commands u",
    "serve a.kit --allow-exec <tell",
    "demo \"$(cat plant)\""};
enum { N_COMMANDS = sizeof commands / sizeof commands[0], ROLLOUT = 7 };

// Waiting for hello, for a roll, with a child that ignores SIGTERM, with one that has children of
// its own, writing to one that does not read, closing one that stays.
static const char *const modes[] = {"hang-hello",  "hang",         "hang-hard",
                                    "hang-family", "deaf-at-once", "stay"};
enum { N_MODES = sizeof modes / sizeof modes[0] };

static void make_files(void)
{
    char text[1200];
    CHECK(program_folder(folder, sizeof folder, "signals"));
    snprintf(mark, sizeof mark, "%s/mark", folder);
    snprintf(text, sizeof text, "%s/suites", folder);
    CHECK(mkdir(text, 0777) == 0);
    snprintf(text, sizeof text, "exec '%s' \"$(cat '%s/mode')\" ${KIND:-bounded}\n", PF_EXEC_CHILD,
             folder);
    write_file("rig.sh", text);
    snprintf(text, sizeof text, "exec:sh '%s/rig.sh'", folder);
    write_file("plant", text);
    snprintf(text, sizeof text,
             "id: hang\ntitle: t\npaper: p\nenvironments: [\"exec:KIND=domain sh '%s/rig.sh'\"]\n"
             "methods: [eg-mpt]\nmetrics: [detection]\ngains: [.35]\nstage2: 1\nbins: 5\n"
             "episodes: 4\nseeds: 1\ntrials: 2\ngrid: 17\n",
             folder);
    write_file("suites/hang.yaml", text);
    write_file("mode", "good");
    write_file("u", "u0,u1,u2\n0,.1,.2\n");
    CHECK(wait_for(start("calibrate \"$(cat plant)\" -o a.kit --probes single --set episodes=2 "
                         "--set alarm_trials=50 --threads 1")) == 0);
    CHECK(wait_for(start("check a.kit --journal j --allow-exec")) == 0);
    // what the machine told in that check
    snprintf(text, sizeof text,
             "cd '%s' && { echo '{\"op\":\"ask\"}'; grep '\"op\":\"tell\"' j | head -n 1 | "
             "sed 's/^{\"request\":\\(.*\\),\"predictions\".*/\\1/'; } >tell",
             folder);
    CHECK(system(text) == 0);
}

// `timeout` asks the command and the group that it is in.
static void stop_twice(void)
{
    remove(mark);
    write_file("mode", "hang-hello");
    pid_t pid = start(commands[1]);
    CHECK(wait_for_mark());
    kill(pid, SIGTERM);
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    kill(pid, SIGTERM);
    CHECK(wait_for(pid) == 128 + SIGTERM);
    char *out = program_text(folder, "out");
    CHECK_CONTAINS(out, "interrupted");
    free(out);
}

// A library that looks at no flag, over a model file that would take it hours.
static void stop_a_library(void)
{
    write_file(
        "huge.xml",
        "<mujoco><worldbody><replicate count=\"100000000\" offset=\"1 0 0\"><body>"
        "<joint type=\"hinge\"/><geom size=\".1\"/></body></replicate></worldbody></mujoco>");
    pid_t pid = start("list mujoco:huge.xml");
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    kill(pid, SIGTERM);
    CHECK(wait_for(pid) == 128 + SIGTERM);
}

void test_signals(void)
{
    PF_CASE("signals: a plant, a kit, a suite");
    make_files();
    PF_CASE("signals: every command ends while its child hangs, and its group with it");
    for (int c = 0; c < N_COMMANDS; c++) {
        stop_one(commands[c], "hang-hello", c % 2 ? SIGINT : SIGTERM);
        bool once = c == ROLLOUT; // rolls once, so it never comes to the second roll
        stop_one(commands[c], once ? "deaf-at-once" : "hang-family", c % 2 ? SIGTERM : SIGINT);
        for (int m = 0; pf_long() && m < N_MODES - 1; m += once ? N_MODES - 2 : 1) {
            stop_one(commands[c], modes[m], SIGINT);
            stop_one(commands[c], modes[m], SIGTERM);
            stop_one(commands[c], modes[m], SIGKILL);
        }
    }
    PF_CASE("signals: in every state of the child, and after kill -9");
    for (int m = 0; m < N_MODES; m++) {
        bool stays = m == N_MODES - 1;
        const char *arguments = commands[stays ? ROLLOUT : 1];
        stop_one(arguments, modes[m], SIGINT);
        stop_one(arguments, modes[m], SIGTERM);
        stop_one(arguments, modes[m], SIGKILL);
    }
    PF_CASE("signals: two at once are one");
    stop_twice();
    PF_CASE("signals: a library that hangs is left after a while");
    if (pf__mujoco_version()[0]) {
        stop_a_library();
    } else {
        pf_skip("built without MuJoCo (make deps)");
    }
    if (pf_long()) {
        printf("    %d of %d commands took more than %g s to be gone, the slowest %.2f s\n", late,
               stopped, SOON_S, latest_s);
    }
}
