// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "process.h"

#include "host/child.h"
#include "host/parallel.h"
#include "host/text.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// Time between the end of the child's input and SIGTERM, and between SIGTERM and SIGKILL. The first
// lets a shell reap its command: killed together, they leave a zombie where init does not reap.
#define INPUT_GRACE_S 0.1
#define TERM_GRACE_S 0.5
// The most of either where we were told to stop: somebody waits for the prompt.
#define STOP_GRACE_S 0.1
// How often a wait looks whether it is to stop: the signal may have gone to another thread.
#define LOOK_S 0.05
// A child whose output ended has this long to end itself, so that its status can be told.
#define END_GRACE_S 0.5
// Bytes per read.
#define CHUNK ((size_t)64 << 10)

// The shell that becomes the program of the arguments. Before that it leaves a guard in the group,
// which reads the lifeline: its other end is ours alone, so it ends when we end, however that
// happens. Then the guard kills the whole group, with what the program started. It is nobody's
// child, or the program would wait for it. (The parent-death signal reaches one process only, and
// comes already when the thread that started it ends.) The arguments are no part of what it reads.
#define GUARDED                                                                                    \
    "({ trap '' HUP INT TERM; read -r end <&3; kill -9 0; } </dev/null >/dev/null 2>&1 &)\n"       \
    "exec 3<&-\n"                                                                                  \
    "exec \"$@\""

void pf__process_init(pf_process *process)
{
    *process = (pf_process){.in = -1, .out = -1, .lifeline = -1};
}

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
    }
    *fd = -1;
}

// The guard's descriptor.
enum { LIFELINE = STDERR_FILENO + 1 };

static int spawn(pid_t *pid, const char *const *arguments, int child_in, int child_out,
                 int lifeline)
{
    const char *call[PF_ARGUMENTS + 4] = {"/bin/sh", "-c", GUARDED, "sh"};
    for (int i = 0; i + 1 < PF_ARGUMENTS && arguments[i]; i++) {
        call[4 + i] = arguments[i];
    }
    posix_spawn_file_actions_t actions;
    int code = posix_spawn_file_actions_init(&actions);
    if (code != 0) {
        return code;
    }
    code = posix_spawn_file_actions_adddup2(&actions, child_in, STDIN_FILENO);
    code = code ? code : posix_spawn_file_actions_adddup2(&actions, child_out, STDOUT_FILENO);
    code = code ? code : posix_spawn_file_actions_adddup2(&actions, lifeline, LIFELINE);
    code = code ? code : pf__child_spawn(pid, call, &actions);
    posix_spawn_file_actions_destroy(&actions);
    return code;
}

pf_process_result pf__process_start(pf_process *process, const char *const *arguments,
                                    const volatile int *stop)
{
    pf__process_init(process);
    process->stop = stop;
    int in[2] = {-1, -1}, out[2] = {-1, -1}, life[2] = {-1, -1};
    int code = 0;
    if (!pf__child_pair(in) || !pf__child_pair(out) || !pf__child_pair(life)) {
        code = errno;
    } else {
        code = spawn(&process->pid, arguments, in[1], out[1], life[1]);
    }
    close_fd(&in[1]);
    close_fd(&out[1]);
    close_fd(&life[1]);
    if (code != 0) {
        close_fd(&in[0]);
        close_fd(&out[0]);
        close_fd(&life[0]);
        process->pid = 0;
        process->system_error = code;
        return PF_PROCESS_SYSTEM;
    }
    process->in = in[0];
    process->out = out[0];
    process->lifeline = life[0];
    return PF_PROCESS_OK;
}

static pf_process_result system_failed(pf_process *process)
{
    process->system_error = errno;
    return PF_PROCESS_SYSTEM;
}

// Waits until a descriptor is ready, the deadline passes or we are told to stop.
static pf_process_result wait_ready(pf_process *process, struct pollfd *fds, nfds_t n,
                                    double deadline)
{
    for (;;) {
        double left = deadline - pf__seconds();
        if (pf__stopped(process->stop)) {
            return PF_PROCESS_STOPPED;
        }
        if (!(left > 0)) {
            return PF_PROCESS_TIMEOUT;
        }
        int ready = poll(fds, n, (int)(1000 * (left < LOOK_S ? left : LOOK_S)) + 1);
        if (ready > 0) {
            return PF_PROCESS_OK;
        }
        if (ready < 0 && errno != EINTR) {
            return system_failed(process);
        }
    }
}

// Makes room for one more chunk behind what is held.
static bool make_room(pf_process *process)
{
    if (process->capacity - process->end >= CHUNK) {
        return true;
    }
    if (process->begin > 0) {
        memmove(process->buffer, process->buffer + process->begin, process->end - process->begin);
        process->end -= process->begin;
        process->searched -= process->begin;
        process->begin = 0;
    }
    if (process->capacity - process->end >= CHUNK) {
        return true;
    }
    // no overflow: fill keeps what is held near PF_PROCESS_LINE_MAX
    size_t capacity = 2 * process->capacity + CHUNK;
    char *buffer = realloc(process->buffer, capacity);
    if (buffer == NULL) {
        return false;
    }
    process->buffer = buffer;
    process->capacity = capacity;
    return true;
}

// Takes what the child has written, without waiting.
static pf_process_result fill(pf_process *process)
{
    if (process->end - process->begin > PF_PROCESS_LINE_MAX) {
        return PF_PROCESS_TOO_LONG;
    }
    if (!make_room(process)) {
        return PF_PROCESS_MEMORY;
    }
    ssize_t n = recv(process->out, process->buffer + process->end, CHUNK, MSG_DONTWAIT);
    if (n > 0) {
        process->end += (size_t)n;
        return PF_PROCESS_OK;
    }
    if (n == 0 || errno == ECONNRESET) {
        return PF_PROCESS_CLOSED;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) {
        return PF_PROCESS_OK;
    }
    return system_failed(process);
}

pf_process_result pf__process_send(pf_process *process, const char *data, size_t size,
                                   double deadline)
{
    size_t sent = 0;
    while (sent < size) {
        struct pollfd fds[2] = {{.fd = process->in, .events = POLLOUT},
                                {.fd = process->out, .events = POLLIN}};
        pf_process_result result = wait_ready(process, fds, 2, deadline);
        if (result == PF_PROCESS_OK && fds[1].revents != 0) {
            result = fill(process);
        }
        if (result != PF_PROCESS_OK) {
            return result;
        }
        if (fds[0].revents == 0) {
            continue;
        }
        ssize_t n = send(process->in, data + sent, size - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0) {
            sent += (size_t)n;
        } else if (errno == EPIPE || errno == ECONNRESET) {
            return PF_PROCESS_CLOSED;
        } else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
            return system_failed(process);
        }
    }
    return PF_PROCESS_OK;
}

static bool is_blank(const char *line, size_t size)
{
    size_t n = 0;
    while (n < size && (line[n] == ' ' || line[n] == '\t' || line[n] == '\r')) {
        n++;
    }
    return n == size;
}

// Takes a line out of the buffer if a whole one is there.
static bool take_line(pf_process *process, const char **line, size_t *size)
{
    if (process->searched == process->end) {
        return false;
    }
    const char *from = process->buffer + process->searched;
    const char *newline = memchr(from, '\n', process->end - process->searched);
    process->searched = process->end;
    if (newline == NULL) {
        return false;
    }
    *line = process->buffer + process->begin;
    *size = (size_t)(newline - *line);
    process->begin += *size + 1;
    process->searched = process->begin;
    return true;
}

// Waits for more output and takes it into the buffer.
static pf_process_result wait_more(pf_process *process, double deadline)
{
    struct pollfd fd = {.fd = process->out, .events = POLLIN};
    pf_process_result result = wait_ready(process, &fd, 1, deadline);
    return result == PF_PROCESS_OK ? fill(process) : result;
}

pf_process_result pf__process_line(pf_process *process, const char **line, size_t *size,
                                   double deadline)
{
    for (;;) {
        while (take_line(process, line, size)) {
            if (*size > PF_PROCESS_LINE_MAX) {
                return PF_PROCESS_TOO_LONG;
            }
            if (!is_blank(*line, *size)) {
                return PF_PROCESS_OK;
            }
        }
        pf_process_result result = wait_more(process, deadline);
        if (result != PF_PROCESS_OK) {
            return result;
        }
    }
}

pf_process_result pf__process_bytes(pf_process *process, void *to, size_t n, double deadline)
{
    char *at = to;
    for (;;) {
        size_t held = process->end - process->begin, taken = held < n ? held : n;
        if (taken > 0) {
            memcpy(at, process->buffer + process->begin, taken);
        }
        at += taken;
        n -= taken;
        process->begin += taken;
        process->searched = process->begin;
        if (n == 0) {
            return PF_PROCESS_OK;
        }
        pf_process_result result = wait_more(process, deadline);
        if (result != PF_PROCESS_OK) {
            return result;
        }
    }
}

// Waits for the end of the child but leaves it to be reaped: until then its number, which is also
// the group's, cannot go to somebody else. False: still running.
static bool wait_end(const pf_process *process, double grace_s, siginfo_t *info)
{
    pid_t pid = process->pid;
    double began = pf__seconds();
    long pause_ns = 500000;
    for (;;) {
        memset(info, 0, sizeof *info);
        int code = waitid(P_PID, (id_t)pid, info, WEXITED | WNOHANG | WNOWAIT);
        if (code == 0 && info->si_pid == pid) {
            return true;
        }
        if (code != 0 && errno != EINTR) {
            // reaped behind our back (SIGCHLD ignored): gone, nobody knows how
            memset(info, 0, sizeof *info);
            return true;
        }
        bool hurry = pf__stopped(process->stop) && grace_s > STOP_GRACE_S;
        if (pf__seconds() - began >= (hurry ? STOP_GRACE_S : grace_s)) {
            return false;
        }
        struct timespec pause = {.tv_nsec = pause_ns};
        nanosleep(&pause, NULL);
        pause_ns = pause_ns < 16000000 ? 2 * pause_ns : pause_ns;
    }
}

// True when the child ended within grace_s; text then says how.
static bool tell_end(const pf_process *process, double grace_s, char *text, size_t size)
{
    siginfo_t info;
    if (process->pid == 0 || !wait_end(process, grace_s, &info)) {
        return false;
    }
    int status = info.si_status;
    if (info.si_code == CLD_EXITED) {
        // what sh says of a command that it could not run
        const char *hint = status == 127 ? " (command not found)" : "";
        hint = status == 126 ? " (command cannot be run)" : hint;
        snprintf(text, size, "exited with status %d%s", status, hint);
    } else if (info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED) {
        snprintf(text, size, "was ended by signal %d", status);
    } else {
        snprintf(text, size, "ended");
    }
    return true;
}

void pf__process_explain(const pf_process *process, pf_process_result result, double limit_s,
                         char *text, size_t size)
{
    char end[64];
    switch (result) {
    case PF_PROCESS_TIMEOUT: {
        bool ended = tell_end(process, 0, end, sizeof end);
        pf__print(text, size, "no answer within %g s%s%s", limit_s, ended ? "; the process " : "",
                  ended ? end : "");
        return;
    }
    case PF_PROCESS_CLOSED:
        if (tell_end(process, END_GRACE_S, end, sizeof end)) {
            snprintf(text, size, "the process %s without an answer", end);
        } else {
            snprintf(text, size, "the process closed its standard input or output");
        }
        return;
    case PF_PROCESS_TOO_LONG:
        snprintf(text, size, "the answer is a line of more than %zu MiB",
                 PF_PROCESS_LINE_MAX >> 20);
        return;
    case PF_PROCESS_MEMORY:
        snprintf(text, size, "not enough memory");
        return;
    case PF_PROCESS_STOPPED:
        snprintf(text, size, "interrupted");
        return;
    case PF_PROCESS_OK:
    case PF_PROCESS_SYSTEM:
        break;
    }
    char reason[64] = "unknown";
    strerror_r(process->system_error, reason, sizeof reason);
    snprintf(text, size, "the process %s: %s",
             process->pid == 0 ? "cannot be started" : "cannot be talked to", reason);
}

// Kills the group and reaps its leader, and those of the group that are ours by then: the program
// adopts what a child leaves behind.
static void kill_group(pid_t group)
{
    // also when the leader is gone: others of its group may not be
    kill(-group, SIGKILL);
    while (waitpid(group, NULL, 0) < 0 && errno == EINTR) {
    }
    while (waitpid(-group, NULL, 0) > 0 || errno == EINTR) {
    }
}

void pf__process_stop(pf_process *process)
{
    close_fd(&process->in);
    close_fd(&process->out);
    if (process->pid > 0) {
        siginfo_t info;
        if (!wait_end(process, INPUT_GRACE_S, &info)) {
            kill(-process->pid, SIGTERM);
            wait_end(process, TERM_GRACE_S, &info);
        }
        kill_group(process->pid);
    }
    // last: until here the guard keeps the group from outliving us
    close_fd(&process->lifeline);
    free(process->buffer);
    pf__process_init(process);
}
