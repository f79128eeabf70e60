// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE // flock, getentropy, O_PATH
#include "file.h"

#include "parallel.h"
#include "text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

pf_status pf__file_refuse(const char *path, int problem, pf_error *error)
{
    const char *why = problem == EISDIR  ? "is a folder, not a file"
                      : problem == ELOOP ? "is a symbolic link, which is not followed; remove it"
                                         : strerror(problem);
    return pf_fail(error, PF_ERR_FILE, "%s: %s", path, why);
}

// The folder of a path, ended without its slash; false: too long.
static bool folder_of(const char *path, char folder[PATH_BYTES])
{
    const char *slash = strrchr(path, '/');
    int n = !slash || slash == path ? 1 : (int)(slash - path);
    return snprintf(folder, PATH_BYTES, "%.*s", n, slash ? path : ".") < PATH_BYTES;
}

// Opens a file to be read. With a flag nothing waits in here, not even for who writes into a pipe.
static int open_file(const char *path, const volatile int *stop, pf_error *error)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | (stop ? O_NONBLOCK : 0));
    int problem = fd < 0 || fstat(fd, &info) != 0 ? errno : S_ISDIR(info.st_mode) ? EISDIR : 0;
    if (problem != 0) {
        if (fd >= 0) {
            close(fd);
        }
        pf__file_refuse(path, problem, error);
        return -1;
    }
    return fd;
}

// The next bytes, 0 at the end, -1 with errno; EINTR: told to stop.
static ssize_t read_some(int fd, uint8_t *to, size_t most, const volatile int *stop)
{
    enum { LOOK_MS = 50 }; // the signal may have gone to another thread
    for (;;) {
        struct pollfd wait = {fd, POLLIN, 0};
        if (pf__stopped(stop)) {
            errno = EINTR;
            return -1;
        }
        if (stop && poll(&wait, 1, LOOK_MS) <= 0) {
            continue;
        }
        ssize_t got = read(fd, to, most);
        if (got >= 0 || (errno != EINTR && errno != EAGAIN)) {
            return got;
        }
    }
}

pf_status pf__file_read_until(const char *path, size_t most, const volatile int *stop, void **data,
                              size_t *size, pf_error *error)
{
    *data = NULL;
    *size = 0;
    int fd = open_file(path, stop, error);
    if (fd < 0) {
        return PF_ERR_FILE;
    }
    // grows as it reads, so pipes work and a lying size does no harm
    size_t used = 0, room = 1 << 16;
    uint8_t *buffer = malloc(room + 1);
    pf_status status = buffer ? PF_OK : pf_fail(error, PF_ERR_MEMORY, "%s: out of memory", path);
    ssize_t got = 1;
    while (status == PF_OK && (got = read_some(fd, buffer + used, room - used, stop)) > 0) {
        used += (size_t)got;
        if (used > most) {
            status = pf_fail(error, PF_ERR_FILE, "%s: larger than %z bytes", path, most);
        } else if (used == room) {
            void *grown = realloc(buffer, 2 * room + 1);
            status = grown ? PF_OK : pf_fail(error, PF_ERR_MEMORY, "%s: out of memory", path);
            buffer = grown ? grown : buffer;
            room *= 2;
        }
    }
    if (got < 0) {
        status = errno == EINTR ? pf_fail(error, PF_ERR_INTERRUPTED, "%s: interrupted", path)
                                : pf__file_refuse(path, errno, error);
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

pf_status pf__file_read(const char *path, size_t most, void **data, size_t *size, pf_error *error)
{
    return pf__file_read_until(path, most, NULL, data, size, error);
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

// Into a device or pipe, which cannot be renamed over. It may be a file by now: that one stays.
static pf_status write_special(const char *path, const void *data, size_t size, pf_error *error)
{
    struct stat info;
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        return pf__file_refuse(path, errno, error);
    }
    bool special = fstat(fd, &info) == 0 && !S_ISREG(info.st_mode);
    bool good = special && write_all(fd, data, size);
    int problem = special ? errno : EEXIST;
    if (close(fd) != 0 && good) {
        problem = errno;
        good = false;
    }
    return good ? PF_OK : pf__file_refuse(path, problem, error);
}

// --- temporary files: preflight-<16 hex digits>.tmp, in the folder of what they become. Whoever
// writes one holds a lock on it, which goes with the process.

static const char temporary_head[] = "preflight-", temporary_tail[] = ".tmp";
enum { TEMPORARY_DIGITS = 16, TEMPORARY_BYTES = 40 };

static bool is_temporary(const char *name)
{
    size_t head = sizeof temporary_head - 1;
    return strncmp(name, temporary_head, head) == 0 &&
           strspn(name + head, "0123456789abcdef") == TEMPORARY_DIGITS &&
           strcmp(name + head + TEMPORARY_DIGITS, temporary_tail) == 0;
}

// Removes what a process left here that is gone: our own plain file under one name alone, which
// nobody holds.
static void remove_left_over(int folder, const char *name)
{
    struct stat info;
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
        info.st_nlink == 1 && flock(fd, LOCK_EX | LOCK_NB) == 0) {
        unlinkat(folder, name, 0);
    }
    if (fd >= 0) {
        close(fd);
    }
}

static void tidy(int folder)
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = fd >= 0 ? fdopendir(fd) : NULL;
    for (struct dirent *e = list ? readdir(list) : NULL; e; e = readdir(list)) {
        if (is_temporary(e->d_name)) {
            remove_left_over(folder, e->d_name);
        }
    }
    if (list) {
        closedir(list);
    } else if (fd >= 0) {
        close(fd);
    }
}

// A new file that nobody can have foreseen, held by this process; -1: errno says why.
static int create_temporary(int folder, char name[TEMPORARY_BYTES])
{
    enum { TRIES = 16 };
    for (int i = 0; i < TRIES; i++) {
        uint64_t number;
        struct stat info;
        if (getentropy(&number, sizeof number) != 0) {
            return -1;
        }
        snprintf(name, TEMPORARY_BYTES, "%s%0*" PRIx64 "%s", temporary_head, TEMPORARY_DIGITS,
                 number, temporary_tail);
        int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST) {
            return -1;
        }
        // another process may have taken it for left over before it was held
        bool lost = fd >= 0 && ((flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) ||
                                (fstat(fd, &info) == 0 && info.st_nlink == 0));
        if (fd >= 0 && !lost) {
            return fd;
        }
        if (fd >= 0) {
            close(fd);
        }
        errno = EEXIST;
    }
    return -1;
}

// --- names in a folder

// The folder of a path, open; -1: errno says why. One that may be written but not listed cannot be
// synced either.
static int open_folder(const char *path)
{
    char folder[PATH_BYTES];
    if (!folder_of(path, folder)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 && errno == EACCES ? open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC) : fd;
}

// The new name must outlast a power cut like the bytes; a file system that cannot promise it may go
// without.
static pf_status sync_folder(int folder, const char *path, pf_error *error)
{
    if (fsync(folder) == 0 || errno == EINVAL || errno == EBADF || errno == ENOTSUP) {
        return PF_OK;
    }
    return pf_fail(error, PF_ERR_FILE,
                   "%s: is written, but its folder could not be synced (%s): it may be gone after "
                   "a power cut; check the disk and write it again",
                   path, strerror(errno));
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// The bytes into a temporary file, and that under its name.
static pf_status write_beside(int folder, const char *path, const void *data, size_t size,
                              pf_error *error)
{
    char temporary[TEMPORARY_BYTES];
    int fd = create_temporary(folder, temporary);
    int held = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1; // keeps the lock when fd is closed
    if (fd < 0) {
        return pf__file_refuse(path, errno, error);
    }
    bool good = held >= 0 && write_all(fd, data, size) && fsync(fd) == 0;
    int problem = errno;
    if (close(fd) != 0 && good) {
        problem = errno;
        good = false;
    }
    if (good && renameat(folder, temporary, folder, name_of(path)) != 0) {
        problem = errno;
        good = false;
    }
    if (!good) {
        unlinkat(folder, temporary, 0);
    }
    if (held >= 0) {
        close(held);
    }
    return good ? sync_folder(folder, path, error) : pf__file_refuse(path, problem, error);
}

pf_status pf__file_write(const char *path, const void *data, size_t size, pf_error *error)
{
    if (strcmp(path, "-") == 0) {
        return write_all(1, data, size)
                   ? PF_OK
                   : pf_fail(error, PF_ERR_FILE, "standard output: %s", strerror(errno));
    }
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
        return write_special(path, data, size, error);
    }
    int folder = open_folder(path);
    if (folder < 0) {
        return pf__file_refuse(path, errno, error);
    }
    tidy(folder);
    pf_status status = write_beside(folder, path, data, size, error);
    close(folder);
    return status;
}

pf_status pf__file_move(const char *from, const char *to, pf_error *error)
{
    int folder = open_folder(to);
    if (folder < 0 || renameat(AT_FDCWD, from, folder, name_of(to)) != 0) {
        int problem = errno;
        if (folder >= 0) {
            close(folder);
        }
        return pf__file_refuse(to, problem, error);
    }
    pf_status status = sync_folder(folder, to, error);
    close(folder);
    return status;
}

bool pf__file_on_network(const char *path)
{
    static const unsigned long networks[] = {NFS_SUPER_MAGIC,  SMB_SUPER_MAGIC, CIFS_SUPER_MAGIC,
                                             SMB2_SUPER_MAGIC, AFS_SUPER_MAGIC, V9FS_MAGIC};
    struct statfs info;
    bool there = statfs(path, &info) == 0;
    for (size_t i = 0; i < sizeof networks / sizeof networks[0] && there; i++) {
        if ((unsigned long)info.f_type == networks[i]) {
            return true;
        }
    }
    return false;
}

pf_status pf__file_writable(const char *path, pf_error *error)
{
    struct stat info;
    char folder[PATH_BYTES];
    if (strcmp(path, "-") == 0) {
        return PF_OK;
    }
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        return pf__file_refuse(path, EISDIR, error);
    }
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) { // a device or pipe is there already
        return access(path, W_OK) == 0 ? PF_OK : pf__file_refuse(path, errno, error);
    }
    if (!folder_of(path, folder)) {
        return pf_fail(error, PF_ERR_FILE, "the name of a file is too long");
    }
    if (stat(folder, &info) != 0 && errno == ENOENT) {
        return pf_fail(error, PF_ERR_FILE, "%s: there is no folder %s", path, folder);
    }
    return access(folder, W_OK) == 0 ? PF_OK : pf__file_refuse(path, errno, error);
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
    return folder_of(a, folder[0]) && folder_of(b, folder[1]) &&
           strcmp(name_of(a), name_of(b)) == 0 && stat(folder[0], &x) == 0 &&
           stat(folder[1], &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
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

bool pf__file_none(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        return errno == ENOENT || errno == ENOTDIR;
    }
    return !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

bool pf__program_folder(char *folder, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", folder, size - 1);
    folder[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash) {
        *slash = '\0';
    }
    return slash != NULL;
}
