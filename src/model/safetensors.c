// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "safetensors_impl.h"

#include "host/file.h"
#include "host/text.h"
#include "preflight/kit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// The numbers of a file are used where they lie.
#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "safetensors files are little-endian; this needs a little-endian machine"
#endif
_Static_assert(sizeof(float) == 4, "float is not F32");

// --- rules

bool pf__tensor_name_good(const char *name)
{
    size_t n = strlen(name);
    if (n == 0 || n > PF_TENSOR_NAME) {
        return false;
    }
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)name[i];
        size_t size = c < 32 || c == 127 ? 0 : pf_utf8_size(name + i, n - i);
        if (size == 0) {
            return false;
        }
        i += size;
    }
    return true;
}

size_t pf__tensor_bytes(const pf_tensor *tensor)
{
    size_t count = 1;
    if (tensor->n_dims < 1 || tensor->n_dims > PF_TENSOR_DIMS) {
        return 0;
    }
    for (int d = 0; d < tensor->n_dims; d++) {
        if (tensor->dims[d] == 0 || tensor->dims[d] > PF_TENSORS_BYTES / sizeof(float) / count) {
            return 0;
        }
        count *= tensor->dims[d];
    }
    return count * sizeof(float);
}

const char *pf__tensor_shown(const char *name, char out[PF_TENSOR_SHOWN])
{
    return pf_csv_shown((pf_csv_field){name, strlen(name)}, out);
}

pf_status pf__tensor_finite(const char *path, const pf_tensor *tensor, pf_error *error)
{
    size_t count = pf__tensor_bytes(tensor) / sizeof(float);
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(tensor->data[i])) {
            char shown[PF_TENSOR_SHOWN];
            return pf_fail(error, PF_ERR_NONFINITE,
                           "%s: tensor '%s': number %z (from 0) is not finite; train again", path,
                           pf__tensor_shown(tensor->name, shown), i);
        }
    }
    return PF_OK;
}

// The entry whose key comes next after `last` (NULL: the first), NULL: there is none.
static const pf_meta *next_meta(int n_meta, const pf_meta *meta, const char *last)
{
    const pf_meta *next = NULL;
    for (int i = 0; i < n_meta; i++) {
        if ((!last || strcmp(meta[i].key, last) > 0) &&
            (!next || strcmp(meta[i].key, next->key) < 0)) {
            next = &meta[i];
        }
    }
    return next;
}

void pf_tensors_digest(int n_meta, const pf_meta *meta, int n_tensors, const pf_tensor *tensors,
                       char sha256[65])
{
    pf_sha256 sha;
    uint8_t digest[32];
    pf_sha256_init(&sha);
    for (const pf_meta *m = next_meta(n_meta, meta, NULL); m; m = next_meta(n_meta, meta, m->key)) {
        if (strcmp(m->key, PF_CONTENTS) != 0) {
            pf_sha256_update(&sha, m->key, strlen(m->key) + 1);
            pf_sha256_update(&sha, m->value, strlen(m->value) + 1);
        }
    }
    for (int i = 0; i < n_tensors; i++) {
        pf_sha256_update(&sha, tensors[i].name, strlen(tensors[i].name) + 1);
        pf_sha256_update(&sha, tensors[i].data, pf__tensor_bytes(&tensors[i]));
    }
    pf_sha256_final(&sha, digest);
    pf_sha256_text(digest, sha256);
}

// --- writing

static bool is_text(const char *s)
{
    for (size_t n = strlen(s); n > 0;) {
        size_t size = pf_utf8_size(s, n);
        if (size == 0) {
            return false;
        }
        s += size;
        n -= size;
    }
    return true;
}

static pf_status meta_check(const char *path, int n_meta, const pf_meta *meta, pf_error *error)
{
    char shown[PF_TENSOR_SHOWN];
    for (int i = 0; i < n_meta; i++) {
        pf__tensor_shown(meta[i].key, shown);
        if (!pf__tensor_name_good(meta[i].key)) {
            return pf_fail(error, PF_ERR_ARGUMENT,
                           "%s: '%s' cannot be a metadata key; use 1 to %d bytes of plain text",
                           path, shown, PF_TENSOR_NAME);
        }
        if (!is_text(meta[i].value)) {
            return pf_fail(error, PF_ERR_ARGUMENT, "%s: metadata '%s' is not UTF-8; write UTF-8",
                           path, shown);
        }
        for (int k = 0; k < i; k++) {
            if (strcmp(meta[k].key, meta[i].key) == 0) {
                return pf_fail(error, PF_ERR_ARGUMENT,
                               "%s: metadata '%s' is there twice; leave one out", path, shown);
            }
        }
    }
    return PF_OK;
}

// Also adds up the bytes of the numbers.
static pf_status tensors_check(const char *path, int n_tensors, const pf_tensor *tensors,
                               size_t *bytes, pf_error *error)
{
    char shown[PF_TENSOR_SHOWN];
    *bytes = 0;
    if (n_tensors > PF_TENSORS_MAX) {
        return pf_fail(error, PF_ERR_ARGUMENT, "%s: %d tensors; use at most %d", path, n_tensors,
                       PF_TENSORS_MAX);
    }
    for (int i = 0; i < n_tensors; i++) {
        pf__tensor_shown(tensors[i].name, shown);
        if (!pf__tensor_name_good(tensors[i].name) ||
            strcmp(tensors[i].name, "__metadata__") == 0) {
            return pf_fail(error, PF_ERR_ARGUMENT,
                           "%s: '%s' cannot name a tensor; use 1 to %d bytes of plain text", path,
                           shown, PF_TENSOR_NAME);
        }
        for (int k = 0; k < i; k++) {
            if (strcmp(tensors[k].name, tensors[i].name) == 0) {
                return pf_fail(error, PF_ERR_ARGUMENT, "%s: tensor '%s' is there twice; rename one",
                               path, shown);
            }
        }
        size_t size = pf__tensor_bytes(&tensors[i]);
        if (size == 0 || size > PF_TENSORS_BYTES - *bytes) {
            return pf_fail(error, PF_ERR_SHAPE,
                           "%s: tensor '%s' is empty or too large; use 1 or 2 dimensions and less "
                           "than 4 GiB in all",
                           path, shown);
        }
        *bytes += size;
        pf_status status = pf__tensor_finite(path, &tensors[i], error);
        if (status != PF_OK) {
            return status;
        }
    }
    return PF_OK;
}

static void header_text(pf_text *text, int n_meta, const pf_meta *meta, int n_tensors,
                        const pf_tensor *tensors)
{
    pf_text_add(text, "{");
    if (n_meta > 0) {
        pf_json_key(text, "__metadata__");
        pf_text_add(text, "{");
        for (int i = 0; i < n_meta; i++) {
            pf_json_key(text, meta[i].key);
            pf_json_string(text, meta[i].value);
        }
        pf_text_add(text, "}");
    }
    size_t at = 0;
    for (int i = 0; i < n_tensors; i++) {
        const pf_tensor *t = &tensors[i];
        pf_json_key(text, t->name);
        pf_text_addf(text, "{\"dtype\":\"F32\",\"shape\":[%zu", t->dims[0]);
        if (t->n_dims == 2) {
            pf_text_addf(text, ",%zu", t->dims[1]);
        }
        size_t end = at + pf__tensor_bytes(t);
        pf_text_addf(text, "],\"data_offsets\":[%zu,%zu]}", at, end);
        at = end;
    }
    pf_text_add(text, "}");
    while (text->size % 8 != 0 && !text->failed) {
        pf_text_add(text, " ");
    }
}

// Header and numbers in one block.
static pf_status join(const char *path, const pf_text *header, int n_tensors,
                      const pf_tensor *tensors, size_t n_data, void **bytes, size_t *n,
                      pf_error *error)
{
    uint64_t length = header->size;
    if (header->failed) {
        return pf_fail(error, PF_ERR_MEMORY, "%s: out of memory", path);
    }
    if (header->size > PF_TENSORS_HEADER || header->size + 8 > PF_TENSORS_BYTES - n_data) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "%s: too large; use less than 16 MiB of metadata and 4 GiB in all", path);
    }
    uint8_t *block = malloc(8 + header->size + n_data);
    if (!block) {
        return pf_fail(error, PF_ERR_MEMORY, "%s: out of memory", path);
    }
    memcpy(block, &length, 8);
    memcpy(block + 8, header->data, header->size);
    size_t at = 8 + header->size;
    for (int i = 0; i < n_tensors; i++) {
        size_t size = pf__tensor_bytes(&tensors[i]);
        memcpy(block + at, tensors[i].data, size);
        at += size;
    }
    *bytes = block;
    *n = at;
    return PF_OK;
}

pf_status pf__safetensors_build(const char *path, int n_meta, const pf_meta *meta, int n_tensors,
                                const pf_tensor *tensors, void **bytes, size_t *n, pf_error *error)
{
    size_t n_data = 0;
    *bytes = NULL;
    *n = 0;
    pf_status status = meta_check(path, n_meta, meta, error);
    if (status == PF_OK) {
        status = tensors_check(path, n_tensors, tensors, &n_data, error);
    }
    if (status != PF_OK) {
        return status;
    }
    pf_text header = {0};
    header_text(&header, n_meta, meta, n_tensors, tensors);
    status = join(path, &header, n_tensors, tensors, n_data, bytes, n, error);
    pf_text_free(&header);
    return status;
}

pf_status pf_safetensors_write(const char *path, int n_meta, const pf_meta *meta, int n_tensors,
                               const pf_tensor *tensors, char *sha256, pf_error *error)
{
    void *bytes = NULL;
    size_t n = 0;
    pf_status status =
        pf__safetensors_build(path, n_meta, meta, n_tensors, tensors, &bytes, &n, error);
    if (status == PF_OK) {
        status = pf_file_write(path, bytes, n, error);
    }
    if (status == PF_OK && sha256) {
        pf_sha256_of(bytes, n, sha256);
    }
    free(bytes);
    return status;
}

// --- asking

static int name_order(const void *name, const void *tensor)
{
    return strcmp(name, ((const pf_tensor *)tensor)->name);
}

static int key_order(const void *key, const void *meta)
{
    return strcmp(key, ((const pf_meta *)meta)->key);
}

const pf_tensor *pf_safetensors_find(const pf_safetensors *file, const char *name)
{
    return file->n_tensors == 0 ? NULL
                                : bsearch(name, file->tensors, (size_t)file->n_tensors,
                                          sizeof *file->tensors, name_order);
}

const char *pf_safetensors_meta(const pf_safetensors *file, const char *key)
{
    const pf_meta *found = file->n_meta == 0 ? NULL
                                             : bsearch(key, file->meta, (size_t)file->n_meta,
                                                       sizeof *file->meta, key_order);
    return found ? found->value : NULL;
}
