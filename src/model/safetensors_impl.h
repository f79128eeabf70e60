// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_SAFETENSORS_IMPL_H
#define PF_SAFETENSORS_IMPL_H

#include "safetensors.h"

#include "host/csv.h"

// What writer and reader share.

// The rules of names: 1 to PF_TENSOR_NAME bytes of UTF-8 without control characters.
bool pf__tensor_name_good(const char *name);

// Bytes of its numbers, 0 where the shape is not 1 or 2 dimensions of at least 1 or has more than a
// file may.
size_t pf__tensor_bytes(const pf_tensor *tensor);

// Fails with name and index where a number is not finite.
pf_status pf__tensor_finite(const char *path, const pf_tensor *tensor, pf_error *error);

// A name as messages show it: short, in one line.
#define PF_TENSOR_SHOWN PF_CSV_SHOWN
const char *pf__tensor_shown(const char *name, char out[PF_TENSOR_SHOWN]);

// The bytes that pf_safetensors_write writes, from malloc; path stands in messages.
pf_status pf__safetensors_build(const char *path, int n_meta, const pf_meta *meta, int n_tensors,
                                const pf_tensor *tensors, void **bytes, size_t *n, pf_error *error);

#endif
