// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "file.h"

#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

// Why a file cannot be opened or written.
static pf_status refuse(const char *path, int problem, pf_error *error)
{
    return problem == EISDIR ? pf_fail(error, PF_ERR_FILE, "%s: is a folder, not a file", path)
                             : pf_fail(error, PF_ERR_FILE, "%s: %s", path, strerror(problem));
}

// The folder of a path, ended without its slash; false: too long.
static bool folder_of(const char *path, char folder[PATH_BYTES])
{
    const char *slash = strrchr(path, '/');
    int n = !slash || slash == path ? 1 : (int)(slash - path);
    return snprintf(folder, PATH_BYTES, "%.*s", n, slash ? path : ".") < PATH_BYTES;
}

pf_status pf__file_read(const char *path, size_t most, void **data, size_t *size, pf_error *error)
{
    *data = NULL;
    *size = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0) {
        refuse(path, errno, error);
        if (fd >= 0) {
            close(fd);
        }
        return PF_ERR_FILE;
    }
    if (S_ISDIR(info.st_mode)) {
        close(fd);
        return refuse(path, EISDIR, error);
    }
    // grows as it reads, so pipes work and a lying size does no harm
    size_t used = 0, room = 1 << 16;
    uint8_t *buffer = malloc(room + 1);
    pf_status status = buffer ? PF_OK : pf_fail(error, PF_ERR_MEMORY, "%s: out of memory", path);
    while (status == PF_OK) {
        ssize_t got = read(fd, buffer + used, room - used);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            status = refuse(path, errno, error);
            break;
        }
        if (got == 0) {
            break;
        }
        used += (size_t)got;
        if (used > most) {
            status = pf_fail(error, PF_ERR_FILE, "%s: larger than %z bytes", path, most);
        } else if (used == room) {
            void *grown = realloc(buffer, 2 * room + 1);
            if (!grown) {
                status = pf_fail(error, PF_ERR_MEMORY, "%s: out of memory", path);
                break;
            }
            buffer = grown;
            room *= 2;
        }
    }
    close(fd);
    if (status != PF_OK) {
        free(buffer);
        return status;
    }
    buffer[used] = 0;
    *data = buffer;
    *size = used;
    return PF_OK;
}

static bool write_all(int fd, const uint8_t *data, size_t size)
{
    while (size > 0) {
        ssize_t put = write(fd, data, size);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return false;
        }
        data += put;
        size -= (size_t)put;
    }
    return true;
}

pf_status pf__file_write(const char *path, const void *data, size_t size, pf_error *error)
{
    if (strcmp(path, "-") == 0) {
        return write_all(1, data, size)
                   ? PF_OK
                   : pf_fail(error, PF_ERR_FILE, "standard output: %s", strerror(errno));
    }
    // a device or pipe cannot be renamed over; write into it
    struct stat info;
    bool special = stat(path, &info) == 0 && !S_ISREG(info.st_mode);
    char temporary[4096];
    int n =
        snprintf(temporary, sizeof temporary, special ? "%s" : "%s.%ld.tmp", path, (long)getpid());
    if (n < 0 || (size_t)n >= sizeof temporary) {
        return pf_fail(error, PF_ERR_FILE, "%s: the path is too long", path);
    }
    int fd = open(temporary, O_WRONLY | O_CLOEXEC | (special ? 0 : O_CREAT | O_TRUNC), 0666);
    if (fd < 0) {
        return refuse(path, errno, error);
    }
    bool good = write_all(fd, data, size) && (special || fsync(fd) == 0);
    int problem = errno;
    if (close(fd) != 0 && good) {
        problem = errno;
        good = false;
    }
    if (good && !special && rename(temporary, path) != 0) {
        problem = errno;
        good = false;
    }
    if (!good) {
        if (!special) {
            unlink(temporary);
        }
        return refuse(path, problem, error);
    }
    return PF_OK;
}

pf_status pf__file_writable(const char *path, pf_error *error)
{
    struct stat info;
    char folder[PATH_BYTES];
    if (strcmp(path, "-") == 0) {
        return PF_OK;
    }
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        return refuse(path, EISDIR, error);
    }
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) { // a device or pipe is there already
        return access(path, W_OK) == 0 ? PF_OK : refuse(path, errno, error);
    }
    if (!folder_of(path, folder)) {
        return pf_fail(error, PF_ERR_FILE, "the name of a file is too long");
    }
    if (stat(folder, &info) != 0 && errno == ENOENT) {
        return pf_fail(error, PF_ERR_FILE, "%s: there is no folder %s", path, folder);
    }
    return access(folder, W_OK) == 0 ? PF_OK : refuse(path, errno, error);
}

bool pf__file_same(const char *a, const char *b)
{
    struct stat x, y;
    if (strcmp(a, b) == 0) {
        return true;
    }
    bool there = stat(a, &x) == 0;
    if (there || stat(b, &y) == 0) {
        return there && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino &&
               S_ISREG(x.st_mode);
    }
    // neither is there yet: the same name in the same folder
    char folder[2][PATH_BYTES];
    const char *names[2] = {strrchr(a, '/'), strrchr(b, '/')};
    return folder_of(a, folder[0]) && folder_of(b, folder[1]) &&
           strcmp(names[0] ? names[0] + 1 : a, names[1] ? names[1] + 1 : b) == 0 &&
           stat(folder[0], &x) == 0 && stat(folder[1], &y) == 0 && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}

bool pf__file_name_fits(const char *name)
{
    size_t left = strlen(name);
    bool fits = left > 0 && *name != '.' && *name != '-' && !strchr(name, '/');
    while (fits && left > 0) {
        size_t size = pf__utf8_size(name, left);
        fits = pf__text_steers(name, left) == 0;
        name += size;
        left -= size;
    }
    return fits;
}

bool pf__file_regular(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}
