// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_FUZZ_KIT_H
#define PF_FUZZ_KIT_H

#include <stddef.h>
#include <stdint.h>

// Loads n bytes as a kit, from aligned memory of exactly that size. A kit that loads runs a short
// session on random finite responses. Aborts on a refusal without a text, on a belief that is none,
// on a `go` that its bound does not support and on a description that is not JSON.
void fuzz_kit_run(const uint8_t *bytes, size_t n);

#endif
