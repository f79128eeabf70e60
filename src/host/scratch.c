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
enum { RANDOM = 6, TRIES = 16, OPEN_FOLDERS = 16 };

static const char *parent(void)
{
    const char *given = getenv("TMPDIR");
    return given && given[0] == '/' ? given : "/tmp";
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *place)
{
    (void)info, (void)type, (void)place;
    remove(path);
    return 0; // what cannot be removed does not keep the rest
}

static void remove_all(const char *path)
{
    nftw(path, remove_entry, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS);
}

// Whether a folder is ours and nobody holds it; *fd then holds it. A link is none.
static bool take(const char *path, int *fd)
{
    struct stat info;
    *fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool mine = *fd >= 0 && fstat(*fd, &info) == 0 && info.st_uid == geteuid() &&
                flock(*fd, LOCK_EX | LOCK_NB) == 0;
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
        if (named && n < (int)sizeof path && take(path, &fd)) {
            remove_all(path);
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
    for (int i = 0; i < TRIES; i++) {
        int n = snprintf(scratch->path, sizeof scratch->path, "%s/%sXXXXXX", parent(), head);
        if (n >= (int)sizeof scratch->path || !mkdtemp(scratch->path)) {
            scratch->path[0] = '\0';
            return pf_fail(error, PF_ERR_FILE, "no folder can be made in %s: %s", parent(),
                           strerror(n < (int)sizeof scratch->path ? errno : ENAMETOOLONG));
        }
        // another process may have taken it for left over before it was held
        struct stat info;
        if (take(scratch->path, &scratch->lock) && stat(scratch->path, &info) == 0) {
            return PF_OK;
        }
        if (scratch->lock >= 0) {
            close(scratch->lock);
            scratch->lock = -1;
        }
    }
    scratch->path[0] = '\0';
    return pf_fail(error, PF_ERR_FILE, "no folder can be held in %s", parent());
}

void pf__scratch_remove(pf_scratch *scratch)
{
    if (scratch->path[0]) {
        remove_all(scratch->path);
    }
    if (scratch->lock >= 0) {
        close(scratch->lock);
    }
    *scratch = (pf_scratch){.lock = -1};
}
