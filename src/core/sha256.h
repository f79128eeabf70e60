// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_SHA256_H
#define PF_SHA256_H

#include "preflight/base.h"

// SHA-256 (FIPS 180-4).
typedef struct pf_sha256 {
    uint32_t h[8];
    uint64_t bytes;
    uint8_t block[64];
} pf_sha256;

void pf__sha256_init(pf_sha256 *sha);
void pf__sha256_update(pf_sha256 *sha, const void *data, size_t bytes);
void pf__sha256_final(const pf_sha256 *sha, uint8_t digest[32]);
// Lower-case hexadecimal, terminated.
void pf__sha256_text(const uint8_t digest[32], char text[65]);
// Both in one, of a piece of memory.
void pf__sha256_of(const void *data, size_t bytes, char text[65]);

#endif
