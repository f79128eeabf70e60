// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE // memfd_create
#include "fuzz_input.h"

#include "model/safetensors.h"

#include <sys/mman.h>
#include <unistd.h>

const char *fuzz_file(const void *data, size_t size)
{
    static char path[64];
    static int fd = -1;
    if (fd < 0) {
        fd = memfd_create("fuzz", MFD_CLOEXEC);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    demand(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
    return path;
}

bool fuzz_reseal(const uint8_t *data, size_t size, void **sealed, size_t *n)
{
    pf_safetensors file;
    char digest[65] = "";
    *sealed = NULL;
    if (pf__safetensors_parse(&file, "fuzz", fuzz_copy(data, size), size, NULL) != PF_OK) {
        return false;
    }
    pf__tensors_digest(file.n_meta, file.meta, file.n_tensors, file.tensors, digest);
    bool found = false;
    pf_meta *meta = calloc((size_t)file.n_meta + 1, sizeof *meta);
    demand(meta);
    for (int i = 0; i < file.n_meta; i++) {
        meta[i] = file.meta[i];
        if (strcmp(meta[i].key, PF_CONTENTS) == 0) {
            meta[i].value = digest;
            found = true;
        }
    }
    if (found) {
        found = pf__safetensors_build("fuzz", file.n_meta, meta, file.n_tensors, file.tensors,
                                      sealed, n, NULL) == PF_OK;
    }
    free(meta);
    pf__safetensors_free(&file);
    return found;
}
