// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_SAFETENSORS_H
#define PF_SAFETENSORS_H

#include "host/csv.h"
#include "preflight/base.h"

// Files of named float32 tensors with text metadata, in the safetensors layout: u64 length of a
// JSON header, the header, the numbers. Readable by the Python package of that name, and files
// written there are read here.

#define PF_TENSORS_MAX 4096
#define PF_TENSOR_DIMS 2
#define PF_META_MOST 256
// Limits of a file; they bound what an input can cost. Names of tensors and metadata have at least
// one byte and at most PF_TENSOR_NAME, UTF-8 without control characters.
#define PF_TENSOR_NAME 200
#define PF_TENSORS_HEADER ((size_t)16 << 20)
#define PF_TENSORS_BYTES ((size_t)0xffffffff)

typedef struct pf_tensor {
    const char *name;
    int n_dims; // 1 or 2
    size_t dims[PF_TENSOR_DIMS];
    const float *data; // row-major
} pf_tensor;

typedef struct pf_meta {
    const char *key, *value;
} pf_meta;

// Writes the file so that it appears whole or not at all; tensors in the order given. sha256 (65
// bytes, Nullable) receives the digest of the file. What could not be read back is refused: numbers
// that are not finite, names twice or out of the rules, text that is not UTF-8.
pf_status pf__safetensors_write(const char *path, int n_meta, const pf_meta *meta, int n_tensors,
                                const pf_tensor *tensors, char *sha256, pf_error *error);

// Of metadata (by key, without PF_CONTENTS) and of names and numbers in the order given: the value
// of PF_CONTENTS, which tells a flipped bit.
#define PF_CONTENTS "contents_sha256"
void pf__tensors_digest(int n_meta, const pf_meta *meta, int n_tensors, const pf_tensor *tensors,
                        char sha256[65]);

// A file that was read and checked: layout, names, shapes against byte ranges, no overlap, no gap,
// F32 only, every number finite. Tensors are sorted by name, metadata by key.
typedef struct pf_safetensors {
    const char *path; // the caller's, in messages
    int n_meta;
    pf_meta *meta;
    int n_tensors;
    pf_tensor *tensors;
    char sha256[65];
    void *memory; // owned
} pf_safetensors;

pf_status pf__safetensors_read(pf_safetensors *file, const char *path, pf_error *error);
// The same on the n bytes of a file in memory; path stands in messages. The bytes come from malloc
// and belong to *file afterwards; on failure they are freed.
pf_status pf__safetensors_parse(pf_safetensors *file, const char *path, void *bytes, size_t n,
                                pf_error *error);
void pf__safetensors_free(pf_safetensors *file);
// NULL where there is none of that name.
const pf_tensor *pf__safetensors_find(const pf_safetensors *file, const char *name);
const char *pf__safetensors_meta(const pf_safetensors *file, const char *key);

// --- for the writer, the reader and their tests

// Bytes of its numbers, 0 where the shape is not 1 or 2 dimensions of at least 1 or has more than a
// file may.
size_t pf__tensor_bytes(const pf_tensor *tensor);

// A name as messages show it: short, in one line.
#define PF_TENSOR_SHOWN PF_CSV_SHOWN

// The bytes that pf__safetensors_write writes, from malloc; path stands in messages.
pf_status pf__safetensors_build(const char *path, int n_meta, const pf_meta *meta, int n_tensors,
                                const pf_tensor *tensors, void **bytes, size_t *n, pf_error *error);

#endif
