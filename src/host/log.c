// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "log.h"

#include "file.h"
#include "parallel.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool pf__put(int fd, const char *data, size_t n, const volatile int *stop, double deadline)
{
    enum { LOOK_MS = 100 };
    while (n > 0) {
        struct pollfd wait = {fd, POLLOUT, 0};
        int ready = poll(&wait, 1, LOOK_MS);
        if (ready <= 0 && pf__stopped(stop)) { // a record that can be ended is
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
        // so much a pipe takes without a wait once it is ready
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

// Whether the file is ours to write: it was not there, and is now, or is empty or no plain file.
static bool claim(const char *path, bool *made)
{
    struct stat info;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    *made = fd >= 0;
    if (fd >= 0) {
        close(fd);
        return true;
    }
    bool there = errno == EEXIST && stat(path, &info) == 0;
    errno = there ? EEXIST : errno;
    return there && (!S_ISREG(info.st_mode) || info.st_size == 0);
}

// Two that go on with one log would mix their records.
static bool lock(int fd)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_SETLK, &whole) == 0 || (errno != EACCES && errno != EAGAIN);
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

pf_status pf__log_start(pf_log *log, const char *path, pf_log_start how, const volatile int *stop,
                        const pf_text *first, pf_error *error)
{
    struct stat info;
    bool made = false;
    *log = (pf_log){-1, path, stop};
    if (first->failed) {
        return pf_fail(error, PF_ERR_MEMORY, "%s: out of memory for a record", path);
    }
    if (strcmp(path, "-") == 0) {
        log->fd = fcntl(1, F_DUPFD_CLOEXEC, 3);
    } else if (how == PF_LOG_NEW && !claim(path, &made)) {
        return errno == EEXIST
                   ? pf_fail(error, PF_ERR_FILE,
                             "%s: holds a journal already and is not overwritten; move it away or "
                             "name another file, or go on from it with --resume",
                             path)
                   : refuse(log, error);
    } else if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
        log->fd = open(path, O_WRONLY | O_CLOEXEC);
    } else {
        pf_status status = pf__file_write(path, first->data, first->size, error);
        if (status != PF_OK) {
            if (made) {
                unlink(path);
            }
            return status;
        }
        log->fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
        return log->fd >= 0 && lock(log->fd) ? PF_OK : give_up(log, refuse(log, error));
    }
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
        return give_up(log, pf_fail(error, PF_ERR_FILE,
                                    "%s: another process writes it; stop that one first", path));
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
