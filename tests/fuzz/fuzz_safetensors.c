// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0

// The reader of tensor files on any bytes: refused in one line, or a file that, written again,
// reads as the same.
#include "model/safetensors.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_MAX = 64 << 10 };

static void demand(bool good)
{
    if (!good) {
        abort();
    }
}

static void same(const pf_safetensors *a, const pf_safetensors *b)
{
    demand(a->n_meta == b->n_meta && a->n_tensors == b->n_tensors);
    for (int i = 0; i < a->n_meta; i++) {
        demand(strcmp(a->meta[i].key, b->meta[i].key) == 0);
        demand(strcmp(a->meta[i].value, b->meta[i].value) == 0);
        demand(pf__safetensors_meta(a, a->meta[i].key) == a->meta[i].value);
    }
    for (int i = 0; i < a->n_tensors; i++) {
        const pf_tensor *x = &a->tensors[i], *y = &b->tensors[i];
        size_t bytes = pf__tensor_bytes(x);
        demand(strcmp(x->name, y->name) == 0 && x->n_dims == y->n_dims);
        demand(bytes > 0 && bytes == pf__tensor_bytes(y) && x->dims[0] == y->dims[0]);
        demand((uintptr_t)x->data % sizeof(float) == 0);
        demand(memcmp(x->data, y->data, bytes) == 0);
        demand(pf__safetensors_find(a, x->name) == x);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pf_error error = {PF_OK, ""};
    // a copy of exactly this size, so that a read beyond the end is seen
    uint8_t *bytes = size <= INPUT_MAX ? malloc(size > 0 ? size : 1) : NULL;
    if (!bytes) {
        return 0;
    }
    if (size > 0) {
        memcpy(bytes, data, size);
    }
    pf_safetensors file, again;
    pf_status status = pf__safetensors_parse(&file, "fuzz", bytes, size, &error);
    if (status != PF_OK) {
        demand(error.code == status && error.text[0] && !strchr(error.text, '\n'));
        demand(!file.memory);
        return 0;
    }
    void *copy = NULL;
    size_t n = 0;
    demand(pf__safetensors_build("fuzz", file.n_meta, file.meta, file.n_tensors, file.tensors,
                                 &copy, &n, &error) == PF_OK);
    demand(pf__safetensors_parse(&again, "fuzz", copy, n, &error) == PF_OK);
    same(&file, &again);
    pf__safetensors_free(&again);
    pf__safetensors_free(&file);
    return 0;
}
