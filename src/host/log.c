// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _DEFAULT_SOURCE // flock
#include "log.h"

#include "file.h"
#include "parallel.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

bool pf__put(int fd, const char *data, size_t n, const volatile int *stop, double deadline)
{
    enum { LOOK_MS = 100 };
    while (n > 0) {
        struct pollfd wait = {fd, POLLOUT, 0};
        int ready = poll(&wait, 1, LOOK_MS);
        // what can be written at once is, also when we are told to stop
        if (ready <= 0 && pf__stopped(stop)) {
            errno = EINTR;
            return false;
        }
        if (ready == 0 && deadline > 0 && pf__seconds() > deadline) {
            errno = ETIMEDOUT;
            return false;
        }
        if (ready == 0 || (ready < 0 && errno == EINTR)) {
            continue;
        }
        // a pipe that is ready takes this much without a wait
        ssize_t did = write(fd, data, n < PIPE_BUF ? n : PIPE_BUF);
        if (did < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) {
            continue;
        }
        if (did <= 0) {
            return false;
        }
        data += did;
        n -= (size_t)did;
    }
    return true;
}

static pf_status refuse(const pf_log *log, pf_error *error)
{
    return pf_fail(error, errno == EINTR ? PF_ERR_INTERRUPTED : PF_ERR_FILE, "%s: %s",
                   strcmp(log->path, "-") == 0 ? "standard output" : log->path, strerror(errno));
}

// Two that write one log would mix their records, or one would take it from the other. Gives false
// where another process has it.
static bool lock(int fd)
{
    return flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

// A log that could not be started is none.
static pf_status give_up(pf_log *log, pf_status status)
{
    if (status != PF_OK && log->fd >= 0) {
        close(log->fd);
        log->fd = -1;
    }
    return status;
}

static pf_status refuse_held(const char *path, pf_error *error)
{
    return pf_fail(error, PF_ERR_FILE, "%s: another process writes it; stop that one first", path);
}

// Writes the first record so that it is there whole or not at all, and holds the file.
static pf_status write_first(pf_log *log, const pf_text *first, pf_error *error)
{
    pf_status status = pf__file_write(log->path, first->data, first->size, error);
    if (status != PF_OK) {
        return status;
    }
    log->fd = open(log->path, O_WRONLY | O_APPEND | O_CLOEXEC);
    return log->fd < 0     ? refuse(log, error)
           : lock(log->fd) ? PF_OK
                           : give_up(log, refuse_held(log->path, error));
}

// A file that is new, or is there and empty. It is held while it is replaced by the whole record.
static pf_status start_new(pf_log *log, const pf_text *first, pf_error *error)
{
    struct stat info;
    int claim = open(log->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    bool made = claim >= 0;
    if (!made && errno == EEXIST) {
        claim = open(log->path, O_WRONLY | O_CLOEXEC);
    }
    if (claim < 0) {
        return refuse(log, error);
    }
    pf_status status = PF_OK;
    if (!lock(claim)) {
        status = refuse_held(log->path, error);
    } else if (fstat(claim, &info) != 0 || info.st_size > 0) {
        status = pf_fail(error, PF_ERR_FILE,
                         "%s: holds something already and is not overwritten; move it away or name "
                         "another file, or go on from a journal with --resume",
                         log->path);
    } else {
        status = write_first(log, first, error);
        if (status != PF_OK && made) {
            unlink(log->path);
        }
    }
    close(claim);
    return status;
}

// In the place of what is there, once its first record is whole.
static pf_status replace(pf_log *log, const pf_text *first, pf_error *error)
{
    int old = open(log->path, O_WRONLY | O_CLOEXEC);
    pf_status status =
        old >= 0 && !lock(old) ? refuse_held(log->path, error) : write_first(log, first, error);
    if (old >= 0) {
        close(old);
    }
    return status;
}

pf_status pf__log_start(pf_log *log, const char *path, pf_log_start how, const volatile int *stop,
                        const pf_text *first, pf_error *error)
{
    struct stat info;
    *log = (pf_log){-1, path, stop};
    if (first->failed) {
        return pf_fail(error, PF_ERR_MEMORY, "%s: out of memory for a record", path);
    }
    bool standard = strcmp(path, "-") == 0;
    if (!standard && (stat(path, &info) != 0 || S_ISREG(info.st_mode))) {
        return (how == PF_LOG_NEW ? start_new : replace)(log, first, error);
    }
    log->fd = standard ? fcntl(1, F_DUPFD_CLOEXEC, 3) : open(path, O_WRONLY | O_CLOEXEC);
    return log->fd < 0 ? refuse(log, error) : give_up(log, pf__log_add(log, first, error));
}

pf_status pf__log_resume(pf_log *log, const char *path, size_t whole, const volatile int *stop,
                         pf_error *error)
{
    *log = (pf_log){open(path, O_WRONLY | O_APPEND | O_CLOEXEC), path, stop};
    if (log->fd < 0) {
        return refuse(log, error);
    }
    if (!lock(log->fd)) {
        return give_up(log, refuse_held(path, error));
    }
    bool good = ftruncate(log->fd, (off_t)whole) == 0 && fsync(log->fd) == 0;
    return good ? PF_OK : give_up(log, refuse(log, error));
}

pf_status pf__log_add(pf_log *log, const pf_text *record, pf_error *error)
{
    if (record->failed) {
        return pf_fail(error, PF_ERR_MEMORY, "%s: out of memory for a record", log->path);
    }
    // pipes and devices have no disk
    bool good = pf__put(log->fd, record->data, record->size, log->stop, 0) &&
                (fsync(log->fd) == 0 || errno == EINVAL || errno == ENOTSUP || errno == EROFS);
    return good ? PF_OK : refuse(log, error);
}

pf_status pf__log_close(pf_log *log, pf_error *error)
{
    int fd = log->fd;
    log->fd = -1;
    return fd < 0 || close(fd) == 0 ? PF_OK : refuse(log, error);
}
