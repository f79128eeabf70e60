// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
// A Unix socket to listen at. Only this user may connect.
#ifndef PF_DOOR_H
#define PF_DOOR_H

#include "preflight/base.h"

#include <sys/types.h>
#include <sys/un.h>

// A socket that we made: only that one is ours to remove. Who holds PATH.lock may make it.
typedef struct pf_door {
    int fd, lock;
    dev_t device;
    ino_t inode;
    struct sockaddr_un address;
} pf_door;

// A socket that nobody listens at any more is removed first; everything else that stands at the
// path is refused.
pf_status pf__door_open(pf_door *door, const char *path, pf_error *error);

void pf__door_close(pf_door *door);

#endif
