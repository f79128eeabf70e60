// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE // flock
#include "scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char head[] = "preflight-fmu-";
// What says that a folder is ours, not only named alike: a file in it with these words.
static const char mark[] = ".preflight-fmu";
static const char words[] =
    "preflight-fmu made this folder and removes it with all that is in it.\n";
enum { RANDOM = 6, OPEN_FOLDERS = 16 };

static const char *parent(void)
{
    const char *given = getenv("TMPDIR");
    return given && given[0] == '/' ? given : "/tmp";
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *place)
{
    (void)info, (void)type;
    if (place->level != 1 || strcmp(path + place->base, mark) != 0) {
        remove(path);
    }
    return 0; // what cannot be removed does not keep the rest
}

// The folder that fd holds. The mark goes last: what a process leaves that is killed here is still
// known as ours.
static void remove_all(const char *path, int fd)
{
    nftw(path, remove_entry, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS);
    unlinkat(fd, mark, 0);
    rmdir(path);
}

static bool put_mark(int folder)
{
    ssize_t n = sizeof words - 1;
    int fd = openat(folder, mark, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool put = fd >= 0 && write(fd, words, (size_t)n) == n;
    if (fd >= 0) {
        close(fd);
    }
    return put;
}

static bool has_mark(int folder)
{
    char found[sizeof words];
    ssize_t n = sizeof words - 1;
    int fd = openat(folder, mark, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool has =
        fd >= 0 && read(fd, found, sizeof found) == n && memcmp(found, words, (size_t)n) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return has;
}

// Whether a folder is this user's and nobody holds it; *fd then holds it. A link is none. marked:
// and has our mark, without which it is not even held for a moment.
static bool take(const char *path, bool marked, int *fd)
{
    struct stat info;
    *fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool mine = *fd >= 0 && fstat(*fd, &info) == 0 && info.st_uid == geteuid() &&
                (!marked || has_mark(*fd)) && flock(*fd, LOCK_EX | LOCK_NB) == 0;
    if (!mine && *fd >= 0) {
        close(*fd);
        *fd = -1;
    }
    return mine;
}

// Removes what processes left that are gone.
static void tidy(void)
{
    DIR *list = opendir(parent());
    for (struct dirent *e = list ? readdir(list) : NULL; e; e = readdir(list)) {
        char path[PF_SCRATCH_BYTES];
        int fd, n = snprintf(path, sizeof path, "%s/%s", parent(), e->d_name);
        bool named = strncmp(e->d_name, head, sizeof head - 1) == 0 &&
                     strlen(e->d_name) == sizeof head - 1 + RANDOM;
        if (named && n < (int)sizeof path && take(path, true, &fd)) {
            remove_all(path, fd);
            close(fd);
        }
    }
    if (list) {
        closedir(list);
    }
}

pf_status pf__scratch_create(pf_scratch *scratch, pf_error *error)
{
    tidy();
    scratch->lock = -1;
    int n = snprintf(scratch->path, sizeof scratch->path, "%s/%sXXXXXX", parent(), head);
    if (n >= (int)sizeof scratch->path || !mkdtemp(scratch->path)) {
        scratch->path[0] = '\0';
        return pf_fail(error, PF_ERR_FILE, "no folder can be made in %s: %s", parent(),
                       strerror(n < (int)sizeof scratch->path ? errno : ENAMETOOLONG));
    }
    // held before it is marked: no other process takes it for left over
    if (take(scratch->path, false, &scratch->lock) && put_mark(scratch->lock)) {
        return PF_OK;
    }
    rmdir(scratch->path);
    pf__scratch_remove(scratch);
    return pf_fail(error, PF_ERR_FILE, "no folder can be held in %s", parent());
}

void pf__scratch_remove(pf_scratch *scratch)
{
    if (scratch->lock >= 0) {
        remove_all(scratch->path, scratch->lock);
        close(scratch->lock);
    }
    *scratch = (pf_scratch){.lock = -1};
}
