// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "host/door.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct lock_path {
    char text[sizeof((struct sockaddr_un){0}).sun_path];
} lock_path;

static lock_path lock_of(const pf_door *d)
{
    lock_path lock;
    snprintf(lock.text, sizeof lock.text, "%.*s.lock", (int)(sizeof lock.text - sizeof ".lock"),
             d->address.sun_path);
    return lock;
}

// Takes the lock; false: another server has it, or it cannot be made (errno).
static bool hold(pf_door *d)
{
    struct stat info;
    lock_path lock = lock_of(d);
    do {
        if (d->lock >= 0) {
            close(d->lock);
        }
        d->lock = open(lock.text, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (d->lock < 0 || flock(d->lock, LOCK_EX | LOCK_NB) != 0) {
            return false;
        }
        // the one before may have removed it meanwhile
    } while (fstat(d->lock, &info) != 0 || info.st_nlink == 0);
    return true;
}

// Whether somebody listens at a socket that is there already.
static bool is_served(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool dead = fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof *address) != 0 &&
                errno == ECONNREFUSED;
    if (fd >= 0) {
        close(fd);
    }
    return !dead;
}

static pf_status taken(const char *path, pf_error *error)
{
    return pf_fail(error, PF_ERR_FILE,
                   "%s: exists already and another server listens there; stop it or choose another "
                   "path",
                   path);
}

static pf_status clear_path(const char *path, const struct sockaddr_un *address, pf_error *error)
{
    struct stat info;
    if (lstat(path, &info) != 0) {
        return PF_OK;
    }
    if (!S_ISSOCK(info.st_mode)) {
        return pf_fail(error, PF_ERR_FILE,
                       "%s: exists already and is no socket; choose another path", path);
    }
    if (is_served(address)) {
        return taken(path, error);
    }
    return unlink(path) == 0 ? PF_OK : pf_fail(error, PF_ERR_FILE, "%s: %s", path, strerror(errno));
}

static pf_status listen_at(pf_door *d, pf_error *error)
{
    struct stat info;
    const struct sockaddr *address = (const struct sockaddr *)&d->address;
    mode_t mask = umask(0177); // 0600 from its first moment on
    d->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good = d->fd >= 0 && bind(d->fd, address, sizeof d->address) == 0;
    umask(mask);
    good = good && lstat(d->address.sun_path, &info) == 0 && listen(d->fd, 16) == 0;
    if (!good) {
        return pf_fail(error, PF_ERR_FILE, "%s: %s", d->address.sun_path, strerror(errno));
    }
    d->device = info.st_dev;
    d->inode = info.st_ino;
    return PF_OK;
}

void pf__door_close(pf_door *d)
{
    struct stat info;
    const char *path = d->address.sun_path;
    if (d->fd >= 0) {
        close(d->fd);
    }
    if (d->inode != 0 && lstat(path, &info) == 0 && info.st_dev == d->device &&
        info.st_ino == d->inode) {
        unlink(path);
    }
    if (d->lock >= 0) {
        unlink(lock_of(d).text); // while it is held
        close(d->lock);
    }
    *d = (pf_door){.fd = -1, .lock = -1};
}

pf_status pf__door_open(pf_door *d, const char *path, pf_error *error)
{
    *d = (pf_door){.fd = -1, .lock = -1, .address.sun_family = AF_UNIX};
    enum { LONGEST = sizeof d->address.sun_path - sizeof ".lock" };
    if (strlen(path) > LONGEST) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "--socket: the path may have %d characters; choose a shorter one",
                       (int)LONGEST);
    }
    strcpy(d->address.sun_path, path);
    if (!hold(d)) {
        pf_status status = errno == EWOULDBLOCK
                               ? taken(path, error)
                               : pf_fail(error, PF_ERR_FILE, "%s: %s", path, strerror(errno));
        if (d->lock >= 0) {
            close(d->lock); // it is another server's
        }
        d->lock = -1;
        return status;
    }
    pf_status status = clear_path(path, &d->address, error);
    if (status == PF_OK) {
        status = listen_at(d, error);
    }
    if (status != PF_OK) {
        pf__door_close(d);
    }
    return status;
}
