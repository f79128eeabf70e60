// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_SCRATCH_H
#define PF_SCRATCH_H

#include "preflight/base.h"

// A folder of ours below TMPDIR or /tmp, preflight-fmu-<6 characters>, held by a lock that goes
// with the process. Whoever makes one removes those whose process is gone: those with the mark that
// is put into each. What is only named so is somebody else's.
enum { PF_SCRATCH_BYTES = 512 };
typedef struct pf_scratch {
    char path[PF_SCRATCH_BYTES];
    int lock;
} pf_scratch;

pf_status pf__scratch_create(pf_scratch *scratch, pf_error *error);

// With all that is in it; links are not followed. Allowed after a failure.
void pf__scratch_remove(pf_scratch *scratch);

#endif
