// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_SIGNATURE_H
#define PF_SIGNATURE_H

#include "preflight/base.h"

// Signatures of OpenSSH, made with `ssh-keygen -Y sign -n preflight`. ssh-keygen verifies them.

// Whether PATH.sig signs these bytes of the file at path, for the namespace preflight, with a key
// of somebody in the file of allowed signers, whose name there is given (Nullable). stop (Nullable)
// ends the wait for ssh-keygen.
enum { PF_SIGNER_BYTES = 512 };
pf_status pf__signature_verify(const char *signers, const char *path, const void *data, size_t size,
                               char signer[PF_SIGNER_BYTES], const volatile int *stop,
                               pf_error *error);

#endif
