// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0

// Preloaded into the program by scripts/torture_*.sh: makes one call fail, or kills the process at
// it. Counted are calls on files below FAIL_FOLDER (write, sync, rename, truncate, making a file or
// a folder, and close of what was open for writing), or with FAIL_HOW=memory and dry allocations
// from the start of main.
//
//   FAIL_AT=N       the call, from 1; 0: none, which only counts
//   FAIL_HOW=full   half of the write succeeds, then nothing can be written or made (ENOSPC)
//           =once   this call alone fails (EIO)
//           =kill   the process is killed before the call
//           =memory this allocation alone fails
//           =dry    this allocation and all later ones fail
//   FAIL_COUNT=FILE gets how many calls there were, when the process ends by itself
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef enum how { FULL, ONCE, KILL, MEMORY, DRY } how;

static atomic_long count;
static long at;
static how mode;
static const char *folder;
static bool armed;

static void tell_count(void)
{
    const char *path = getenv("FAIL_COUNT");
    char text[32];
    int flags = O_WRONLY | O_CREAT | O_TRUNC;
    int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0600) : -1;
    int n = snprintf(text, sizeof text, "%ld\n", atomic_load(&count));
    if (fd >= 0) {
        syscall(SYS_write, fd, text, n);
        syscall(SYS_close, fd);
    }
}

static void arm(void)
{
    const char *text = getenv("FAIL_HOW");
    folder = getenv("FAIL_FOLDER");
    at = getenv("FAIL_AT") ? atol(getenv("FAIL_AT")) : 0;
    mode = !text || strcmp(text, "full") == 0 ? FULL
           : strcmp(text, "once") == 0        ? ONCE
           : strcmp(text, "kill") == 0        ? KILL
           : strcmp(text, "dry") == 0         ? DRY
                                              : MEMORY;
    atexit(tell_count);
    unsetenv("LD_PRELOAD"); // children are left alone
    armed = mode >= MEMORY || folder;
}

// Whether this call fails. lasts: it needs what does not come back, space on the disk or memory.
static bool strikes(bool lasts)
{
    long n = atomic_fetch_add(&count, 1) + 1;
    if (at > 0 && n == at && mode == KILL) {
        raise(SIGKILL);
    }
    return at > 0 && (n == at || (n > at && (mode == FULL || mode == DRY) && lasts));
}

// --- files

static bool is_below(const char *path)
{
    size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

// Whether what the link says is below the folder; more: what follows it in the path.
static bool links_below(const char *link, const char *more)
{
    char path[8192];
    ssize_t n = readlink(link, path, sizeof path / 2);
    if (n <= 0) {
        return false;
    }
    snprintf(path + n, sizeof path - (size_t)n, "/%s", more);
    return is_below(path);
}

static bool counts(int fd)
{
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    return armed && mode < MEMORY && links_below(name, "");
}

// The same for a path as openat takes it.
static bool counts_at(int at_folder, const char *path)
{
    char name[64];
    if (!armed || mode >= MEMORY) {
        return false;
    }
    snprintf(name, sizeof name, at_folder == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d",
             at_folder);
    return path[0] == '/' ? is_below(path) : links_below(name, path);
}

// Whether there is nothing at a path that counts, so that a call that makes it needs space.
static bool makes(int at_folder, const char *path)
{
    return counts_at(at_folder, path) && faccessat(at_folder, path, F_OK, AT_SYMLINK_NOFOLLOW) != 0;
}

static int refuse(void)
{
    errno = mode == FULL ? ENOSPC : EIO;
    return -1;
}

static ssize_t put(int fd, const void *data, size_t size, off_t where, bool here)
{
    long seen = counts(fd) ? (strikes(true) ? atomic_load(&count) : 0) : 0;
    if (seen == at && mode == FULL && seen > 0 && size > 1) {
        size /= 2; // the last that fits
    } else if (seen > 0) {
        return refuse();
    }
    return here ? syscall(SYS_write, fd, data, size) : syscall(SYS_pwrite64, fd, data, size, where);
}

ssize_t write(int fd, const void *data, size_t size)
{
    return put(fd, data, size, 0, true);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t where)
{
    return put(fd, data, size, where, false);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off_t where)
{
    return put(fd, data, size, where, false);
}

static int truncate_to(int fd, off_t size)
{
    return counts(fd) && strikes(true) ? refuse() : (int)syscall(SYS_ftruncate, fd, size);
}

int ftruncate(int fd, off_t size)
{
    return truncate_to(fd, size);
}

int ftruncate64(int fd, off_t size)
{
    return truncate_to(fd, size);
}

int fsync(int fd)
{
    return counts(fd) && strikes(true) ? refuse() : (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    return counts(fd) && strikes(true) ? refuse() : (int)syscall(SYS_fdatasync, fd);
}

int close(int fd)
{
    int flags = armed && mode < MEMORY ? fcntl(fd, F_GETFL) : -1;
    bool fails = flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && counts(fd) && strikes(false);
    int result = (int)syscall(SYS_close, fd);
    return fails ? refuse() : result;
}

int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
    return counts_at(to_folder, to) && strikes(false)
               ? refuse()
               : (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, 0);
}

int rename(const char *from, const char *to)
{
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

static int open_at(int at_folder, const char *path, int flags, va_list rest)
{
    bool mode_follows = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
    int rights = mode_follows ? va_arg(rest, int) : 0;
    return (flags & O_CREAT) && makes(at_folder, path) && strikes(true)
               ? refuse()
               : (int)syscall(SYS_openat, at_folder, path, flags, rights);
}

int open(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    int fd = open_at(AT_FDCWD, path, flags, rest);
    va_end(rest);
    return fd;
}

int open64(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    int fd = open_at(AT_FDCWD, path, flags, rest);
    va_end(rest);
    return fd;
}

int openat(int at_folder, const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    int fd = open_at(at_folder, path, flags, rest);
    va_end(rest);
    return fd;
}

int openat64(int at_folder, const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    int fd = open_at(at_folder, path, flags, rest);
    va_end(rest);
    return fd;
}

int mkdir(const char *path, mode_t rights)
{
    return makes(AT_FDCWD, path) && strikes(true)
               ? refuse()
               : (int)syscall(SYS_mkdirat, AT_FDCWD, path, rights);
}

// --- memory

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static bool lacks(void)
{
    if (!armed || mode < MEMORY || !strikes(true)) {
        return false;
    }
    errno = ENOMEM;
    return true;
}

void *malloc(size_t size)
{
    return lacks() ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    return lacks() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *memory, size_t size)
{
    return lacks() ? NULL : __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return lacks() ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size)
{
    *memory = lacks() ? NULL : __libc_memalign(alignment, size);
    return *memory ? 0 : ENOMEM;
}

// --- from the start of main on

typedef int (*main_fn)(int, char **, char **);
static main_fn real_main;

static int armed_main(int argc, char **argv, char **environment)
{
    arm();
    return real_main(argc, argv, environment);
}

int __libc_start_main(main_fn program, int argc, char **argv, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void), void *stack)
{
    int (*start)(main_fn, int, char **, void (*)(void), void (*)(void), void (*)(void), void *);
    *(void **)&start = dlsym(RTLD_NEXT, "__libc_start_main");
    real_main = program;
    return start(armed_main, argc, argv, init, fini, rtld_fini, stack);
}
