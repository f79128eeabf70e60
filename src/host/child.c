// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE // posix_spawn_file_actions_addchdir_np
#include "child.h"

#include "parallel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// How often a wait looks whether it is to stop: the signal may have gone to another thread.
enum { LOOK_MS = 50, PAUSE_NS = 2000000 };

bool pf__child_pair(int pair[2])
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        pair[0] = pair[1] = -1;
        return false;
    }
    for (int i = 0; i < 2; i++) {
        if (pair[i] >= PF_CHILD_DESCRIPTORS) {
            continue;
        }
        int moved = fcntl(pair[i], F_DUPFD_CLOEXEC, PF_CHILD_DESCRIPTORS);
        if (moved < 0) {
            return false;
        }
        close(pair[i]);
        pair[i] = moved;
    }
    return true;
}

// Own group, nothing blocked, and signals that we may ignore back at their default. 0, or an errno.
static int set_attributes(posix_spawnattr_t *attributes)
{
    sigset_t none, standard;
    sigemptyset(&none);
    sigemptyset(&standard);
    sigaddset(&standard, SIGPIPE);
    sigaddset(&standard, SIGTERM);
    sigaddset(&standard, SIGINT);
    short flags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    int code = posix_spawnattr_setflags(attributes, flags);
    code = code != 0 ? code : posix_spawnattr_setpgroup(attributes, 0);
    code = code != 0 ? code : posix_spawnattr_setsigmask(attributes, &none);
    return code != 0 ? code : posix_spawnattr_setsigdefault(attributes, &standard);
}

int pf__child_spawn(pid_t *pid, const char *const *arguments,
                    const posix_spawn_file_actions_t *actions)
{
    posix_spawnattr_t attributes;
    int code = posix_spawnattr_init(&attributes);
    if (code != 0) {
        return code;
    }
    code = set_attributes(&attributes);
    if (code == 0) {
        // posix_spawn takes char *const[] but changes nothing
        union {
            const char *const *given;
            char *const *taken;
        } list = {.given = arguments};
        code = posix_spawnp(pid, arguments[0], actions, &attributes, list.taken, environ);
    }
    posix_spawnattr_destroy(&attributes);
    return code;
}

// What happens between fork and exec. 0, or an errno.
static int fill_actions(posix_spawn_file_actions_t *actions, const pf_child *c, int end)
{
    int code = posix_spawn_file_actions_adddup2(actions, end, STDIN_FILENO);
    code = code ? code : posix_spawn_file_actions_adddup2(actions, end, STDOUT_FILENO);
    if (code == 0 && c->quiet) {
        code = posix_spawn_file_actions_addopen(actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    }
    if (code == 0 && c->folder) {
        code = posix_spawn_file_actions_addchdir_np(actions, c->folder);
    }
    return code;
}

// 0, or an errno.
static int start(pid_t *pid, const pf_child *c, int end)
{
    posix_spawn_file_actions_t actions;
    int code = posix_spawn_file_actions_init(&actions);
    if (code != 0) {
        return code;
    }
    code = fill_actions(&actions, c, end);
    code = code ? code : pf__child_spawn(pid, c->arguments, &actions);
    posix_spawn_file_actions_destroy(&actions);
    return code;
}

// Takes what it has written. False: there will be no more.
static bool take(int fd, pf_text *output)
{
    char block[1 << 14];
    ssize_t n = recv(fd, block, sizeof block, MSG_DONTWAIT);
    if (n > 0) {
        pf__text_add_n(output, block, (size_t)n);
    }
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR));
}

// Gives it more of its input, and the end of that.
static void feed(int fd, const pf_child *c, size_t *sent)
{
    const char *data = c->input;
    ssize_t n = send(fd, data + *sent, c->n_input - *sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
        *sent += (size_t)n;
    } else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
        *sent = c->n_input; // one that stops reading has made up its mind
    }
    if (*sent == c->n_input) {
        shutdown(fd, SHUT_WR);
    }
}

// Until its output ends, or we are told to stop.
static void talk(int fd, const pf_child *c, pf_text *output)
{
    size_t sent = 0;
    if (c->n_input == 0) {
        shutdown(fd, SHUT_WR);
    }
    while (!pf__stopped(c->stop)) {
        short wanted = sent < c->n_input ? POLLIN | POLLOUT : POLLIN;
        struct pollfd ready = {fd, wanted, 0};
        if (poll(&ready, 1, LOOK_MS) <= 0) {
            continue;
        }
        if ((ready.revents & ~POLLOUT) && !take(fd, output)) {
            return;
        }
        if ((ready.revents & POLLOUT) && sent < c->n_input) {
            feed(fd, c, &sent);
        }
    }
}

// Waits for its end, and makes that come where we are told to stop. Until it is reaped its number,
// which is also the group's, cannot go to somebody else.
static int finish(pid_t pid, const volatile int *stop)
{
    int code = 0;
    pid_t ended = 0;
    while ((ended = waitpid(pid, &code, WNOHANG)) == 0 || (ended < 0 && errno == EINTR)) {
        if (pf__stopped(stop)) {
            kill(-pid, SIGKILL);
        }
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
    // one that was reaped behind our back (SIGCHLD ignored) has no exit status, least of all 0
    bool told = ended == pid && WIFEXITED(code);
    return pf__stopped(stop) ? PF_CHILD_STOPPED : told ? WEXITSTATUS(code) : PF_CHILD_FAILED;
}

int pf__child_run(const pf_child *c, pf_text *output)
{
    enum { NOT_FOUND = 127 }; // where posix_spawn cannot tell
    int pair[2], result = PF_CHILD_MISSING;
    pid_t pid = 0;
    bool open = pf__child_pair(pair), started = open && start(&pid, c, pair[1]) == 0;
    if (pair[1] >= 0) {
        close(pair[1]);
    }
    if (started) {
        talk(pair[0], c, output);
        result = finish(pid, c->stop);
    }
    if (pair[0] >= 0) {
        close(pair[0]);
    }
    return result == NOT_FOUND ? PF_CHILD_MISSING : result;
}
