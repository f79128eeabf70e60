// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "signature.h"

#include "child.h"
#include "file.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define NAMESPACE "preflight"

// Runs ssh-keygen to its end, as pf__child_run. line: the first that it says, PF_SIGNER_BYTES.
static int run(const char *const *arguments, const void *data, size_t size,
               const volatile int *stop, char *line)
{
    pf_text said = {0};
    const pf_child child = {
        .arguments = arguments, .input = data, .n_input = size, .quiet = true, .stop = stop};
    int code = pf__child_run(&child, &said);
    pf__text_add(&said, "");
    snprintf(line, PF_SIGNER_BYTES, "%s", said.data && !said.failed ? said.data : "");
    line[strcspn(line, "\r\n")] = 0;
    pf__text_free(&said);
    return code;
}

static pf_status interrupted(const char *path, pf_error *error)
{
    return pf_fail(error, PF_ERR_INTERRUPTED, "%s: interrupted", path);
}

static pf_status check(const char *signers, const char *path, const char *signature,
                       const void *data, size_t size, char *signer, const volatile int *stop,
                       pf_error *error)
{
    char said[PF_SIGNER_BYTES];
    const char *const find[] = {"ssh-keygen", "-Y", "find-principals", "-s",
                                signature,    "-f", signers,           NULL};
    int found = run(find, NULL, 0, stop, signer);
    if (found == PF_CHILD_STOPPED) {
        return interrupted(path, error);
    }
    if (found < 0) {
        return pf_fail(error, PF_ERR_UNSUPPORTED,
                       "%s: ssh-keygen could not be run, so nothing is trusted; install OpenSSH's "
                       "client (package openssh-client)",
                       path);
    }
    if (found != 0 || !signer[0]) {
        return pf_fail(
            error, PF_ERR_MISMATCH,
            "%s: its signature %s is by nobody that %s allows now; have it signed again or "
            "add the signer",
            path, signature, signers);
    }
    const char *const verify[] = {"ssh-keygen", "-Y", "verify",  "-f", signers,   "-I",
                                  signer,       "-n", NAMESPACE, "-s", signature, NULL};
    int verified = run(verify, data, size, stop, said);
    if (verified == PF_CHILD_STOPPED) {
        return interrupted(path, error);
    }
    return verified == 0 ? PF_OK
                         : pf_fail(error, PF_ERR_MISMATCH,
                                   "%s: is not what %s signed for " NAMESPACE
                                   " (%s); it was edited, or signed or allowed for something else",
                                   path, signer, signature);
}

static pf_status not_signed(const char *path, const char *signature, pf_error *error)
{
    pf_text word = {0};
    pf__text_add(&word, path[0] == '-' ? "./" : "");
    pf__text_add_word(&word, path);
    pf_status status =
        pf_fail(error, PF_ERR_MISMATCH,
                "%s: is not signed; `ssh-keygen -Y sign -n " NAMESPACE " -f KEY %s` makes %s", path,
                word.data && !word.failed ? word.data : "FILE", signature);
    pf__text_free(&word);
    return status;
}

pf_status pf__signature_verify(const char *signers, const char *path, const void *data, size_t size,
                               char signer[PF_SIGNER_BYTES], const volatile int *stop,
                               pf_error *error)
{
    char somebody[PF_SIGNER_BYTES];
    enum { SIGNATURE_BYTES = 1 << 16 }; // a larger one keeps ssh-keygen busy for minutes
    struct stat info;
    pf_text signature = {0};
    pf__text_addf(&signature, "%s.sig", path);
    pf_status status = PF_OK;
    if (signature.failed) {
        status = pf_fail(error, PF_ERR_MEMORY, "out of memory for a signature");
    } else if (!pf__file_regular(signers)) {
        status = pf_fail(error, PF_ERR_FILE,
                         "--trust: %s is no plain file; name one of allowed signers, a line with "
                         "name and key for each",
                         signers);
    } else if (!pf__file_regular(signature.data)) {
        status = not_signed(path, signature.data, error);
    } else if (stat(signature.data, &info) != 0 || info.st_size > SIGNATURE_BYTES) {
        status = pf_fail(error, PF_ERR_MISMATCH, "%s: %s is no signature of OpenSSH", path,
                         signature.data);
    } else {
        status = check(signers, path, signature.data, data, size, signer ? signer : somebody, stop,
                       error);
    }
    pf__text_free(&signature);
    return status;
}
