// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0

// The kit reader behind its checksum: the input is made as long as its header says and sealed, so
// that what is wrong with it must be found by the rules.
#include "fuzz_kit.h"
#include "core/kit_layout.h"
#include "core/sha256.h"

#include "preflight/kit.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { IMAGE_MAX = 1 << 18 };

// Bytes that the header speaks of; 0 if there is none.
static size_t wanted(const uint8_t *data, size_t size)
{
    uint64_t bytes = 0;
    if (size < PF_KIT_HEAD_BYTES) {
        return 0;
    }
    memcpy(&bytes, data + 16, sizeof bytes);
    return bytes <= IMAGE_MAX ? (size_t)bytes : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t n = wanted(data, size);
    if (n == 0) {
        n = size;
    }
    if (n < 32) {
        return 0;
    }
    uint8_t *image = calloc(1, n);
    if (!image) {
        return 0;
    }
    memcpy(image, data, size < n ? size : n);
    pf_sha256 sha;
    pf__sha256_init(&sha);
    pf__sha256_update(&sha, image, n - 32);
    pf__sha256_final(&sha, image + n - 32);
    fuzz_kit_run(image, n);
    free(image);
    return 0;
}
