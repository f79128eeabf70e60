// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "signature.h"

#include "file.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAMESPACE "preflight"

enum { LINE = 512, ARGUMENTS = 16 };

// A child that is fed on its standard input and says a line. Arguments, never a shell.
static bool spawn(pid_t *pid, const char *const *arguments, int end)
{
    posix_spawn_file_actions_t actions;
    char *argv[ARGUMENTS] = {NULL}; // posix_spawn takes char *const[] but changes nothing
    for (int i = 0; i < ARGUMENTS - 1 && arguments[i]; i++) {
        memcpy(&argv[i], &arguments[i], sizeof argv[i]);
    }
    if (posix_spawn_file_actions_init(&actions) != 0) {
        return false;
    }
    bool made =
        posix_spawn_file_actions_adddup2(&actions, end, STDIN_FILENO) == 0 &&
        posix_spawn_file_actions_adddup2(&actions, end, STDOUT_FILENO) == 0 &&
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0) == 0;
    int code = made ? posix_spawnp(pid, argv[0], &actions, NULL, argv, environ) : ENOMEM;
    posix_spawn_file_actions_destroy(&actions);
    return code == 0;
}

// Sends all, then ends the child's input. A child that stops reading has made up its mind.
static void feed(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t sent = send(fd, data, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent <= 0) {
            break;
        }
        data += sent;
        size -= (size_t)sent;
    }
    shutdown(fd, SHUT_WR);
}

// The first line that the child says.
static void read_line(int fd, char line[LINE])
{
    char text[LINE];
    size_t used = 0;
    for (ssize_t got = 1; got != 0;) {
        got = read(fd, text, sizeof text);
        if (got < 0 && errno != EINTR) {
            break;
        }
        size_t n = got > 0 ? (size_t)got : 0, room = LINE - 1 - used;
        memcpy(line + used, text, n < room ? n : room);
        used += n < room ? n : room;
    }
    line[used] = 0;
    line[strcspn(line, "\r\n")] = 0;
}

// Runs ssh-keygen to its end. Its exit status, -1: it could not be run. line: LINE bytes.
static int run(const char *const *arguments, const void *data, size_t size, char *line)
{
    int pair[2], code = 0;
    pid_t child = 0;
    line[0] = 0;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        return -1;
    }
    bool started = spawn(&child, arguments, pair[1]);
    close(pair[1]);
    if (started) {
        feed(pair[0], data, size);
        read_line(pair[0], line);
    }
    close(pair[0]);
    while (started && waitpid(child, &code, 0) < 0 && errno == EINTR) {
    }
    return started && WIFEXITED(code) && WEXITSTATUS(code) != 127 ? WEXITSTATUS(code) : -1;
}

static pf_status check(const char *signers, const char *path, const char *signature,
                       const void *data, size_t size, pf_error *error)
{
    char signer[LINE], said[LINE];
    const char *const find[ARGUMENTS] = {"ssh-keygen", "-Y",   "find-principals", "-s", signature,
                                         "-f",         signers};
    int found = run(find, "", 0, signer);
    if (found < 0) {
        return pf_fail(error, PF_ERR_UNSUPPORTED,
                       "%s: ssh-keygen could not be run, so nothing is trusted; install OpenSSH's "
                       "client (package openssh-client)",
                       path);
    }
    if (found != 0 || !signer[0]) {
        return pf_fail(error, PF_ERR_MISMATCH,
                       "%s: its signature %s is by nobody that %s allows; have it signed again or "
                       "add the signer",
                       path, signature, signers);
    }
    const char *const verify[ARGUMENTS] = {"ssh-keygen", "-Y", "verify",  "-f", signers,  "-I",
                                           signer,       "-n", NAMESPACE, "-s", signature};
    int verified = run(verify, data, size, said);
    return verified == 0 ? PF_OK
                         : pf_fail(error, PF_ERR_MISMATCH,
                                   "%s: is not what %s signed for " NAMESPACE
                                   " (%s); it was edited, or signed for something else",
                                   path, signer, signature);
}

pf_status pf__signature_verify(const char *signers, const char *path, const void *data, size_t size,
                               pf_error *error)
{
    pf_text signature = {0};
    pf__text_addf(&signature, "%s.sig", path);
    pf_status status = PF_OK;
    if (signature.failed) {
        status = pf_fail(error, PF_ERR_MEMORY, "out of memory for a signature");
    } else if (!pf__file_regular(signers)) {
        status = pf_fail(error, PF_ERR_FILE, "--trust: %s is no file of allowed signers", signers);
    } else if (!pf__file_regular(signature.data)) {
        status =
            pf_fail(error, PF_ERR_MISMATCH,
                    "%s: is not signed; `ssh-keygen -Y sign -n " NAMESPACE " -f KEY %s` makes %s",
                    path, path, signature.data);
    } else {
        status = check(signers, path, signature.data, data, size, error);
    }
    pf__text_free(&signature);
    return status;
}
