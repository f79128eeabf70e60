// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "safetensors_impl.h"

#include "preflight/kit.h"

#include "host/file.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The one block of a file: this, the tensors, the metadata, then the texts.
typedef struct owned {
    uint8_t *bytes;
} owned;

// What is read, and where the next text goes.
typedef struct reading {
    pf_safetensors *file;
    const float *data;
    size_t n_data; // bytes
    char *texts;
    pf_error *error;
} reading;

static pf_status refuse(const reading *r, const char *name, const char *what)
{
    char shown[PF_TENSOR_SHOWN];
    return pf_fail(r->error, PF_ERR_FORMAT, "%s: tensor '%s': %s", r->file->path,
                   pf__tensor_shown(name, shown), what);
}

static const char *keep(reading *r, const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = memcpy(r->texts, text, n);
    r->texts += n;
    return copy;
}

// --- header

static pf_status layout_check(const char *path, const uint8_t *bytes, size_t n, size_t *n_header,
                              pf_error *error)
{
    uint64_t length = 0;
    if (n < 8) {
        return pf_fail(error, PF_ERR_FORMAT, "%s: %z bytes are no safetensors file; copy it again",
                       path, n);
    }
    memcpy(&length, bytes, 8);
    if (length > n - 8) {
        return pf_fail(error, PF_ERR_FORMAT,
                       "%s: the file is cut or no safetensors file: its %z bytes do not hold the "
                       "header they announce; copy it again",
                       path, n);
    }
    if (length > PF_TENSORS_HEADER) {
        return pf_fail(error, PF_ERR_FORMAT,
                       "%s: the header is larger than %z bytes; write less metadata", path,
                       PF_TENSORS_HEADER);
    }
    if (length == 0 || bytes[8] != '{') {
        return pf_fail(error, PF_ERR_FORMAT,
                       "%s: no safetensors file: the header does not begin with '{'; give a file "
                       "that preflight or the safetensors package wrote",
                       path);
    }
    *n_header = (size_t)length;
    return PF_OK;
}

static pf_status header_parse(const char *path, const uint8_t *bytes, size_t n, json_t **header,
                              pf_error *error)
{
    json_error_t problem;
    *header = json_loadb((const char *)bytes, n, JSON_REJECT_DUPLICATES, &problem);
    if (!*header) {
        char shown[PF_TENSOR_SHOWN];
        return pf_fail(error, PF_ERR_FORMAT,
                       "%s: the header is damaged: %s at byte %d; copy it again", path,
                       pf__tensor_shown(problem.text, shown), problem.position);
    }
    const json_t *meta = json_object_get(*header, "__metadata__");
    if (meta && !json_is_object(meta)) {
        return pf_fail(error, PF_ERR_FORMAT,
                       "%s: __metadata__ is not an object; write keys with text values", path);
    }
    size_t n_tensors = json_object_size(*header) - (meta ? 1 : 0);
    if (n_tensors > PF_TENSORS_MAX) {
        return pf_fail(error, PF_ERR_FORMAT, "%s: %z tensors; at most %d are read", path, n_tensors,
                       PF_TENSORS_MAX);
    }
    return PF_OK;
}

static pf_status meta_read(reading *r, json_t *json)
{
    const char *key;
    json_t *value;
    char shown[PF_TENSOR_SHOWN];
    json_object_foreach(json, key, value)
    {
        if (!pf__tensor_name_good(key)) {
            return pf_fail(r->error, PF_ERR_FORMAT,
                           "%s: metadata key '%s' is not plain text of 1 to %d bytes; rename it",
                           r->file->path, pf__tensor_shown(key, shown), PF_TENSOR_NAME);
        }
        if (!json_is_string(value)) {
            return pf_fail(r->error, PF_ERR_FORMAT,
                           "%s: metadata '%s' is not a text; write every value as a string",
                           r->file->path, pf__tensor_shown(key, shown));
        }
        pf_meta *meta = &r->file->meta[r->file->n_meta++];
        meta->key = keep(r, key);
        meta->value = keep(r, json_string_value(value));
    }
    return PF_OK;
}

// --- tensors

// A list of whole numbers from 0 to limit; how many there are, or -1.
static int sizes_read(const json_t *list, int most, size_t limit, size_t *sizes)
{
    size_t n = json_array_size(list);
    if (!json_is_array(list) || n > (size_t)most) {
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(list, i);
        json_int_t value = json_integer_value(item);
        if (!json_is_integer(item) || value < 0 || (uint64_t)value > limit) {
            return -1;
        }
        sizes[i] = (size_t)value;
    }
    return (int)n;
}

static pf_status tensor_read(reading *r, const char *name, const json_t *entry)
{
    char shown[PF_TENSOR_SHOWN], type[PF_TENSOR_SHOWN];
    if (!pf__tensor_name_good(name)) {
        return refuse(r, name, "a name is plain text of 1 to 200 bytes; rename it");
    }
    const json_t *dtype = json_object_get(entry, "dtype");
    const json_t *shape = json_object_get(entry, "shape");
    const json_t *range = json_object_get(entry, "data_offsets");
    if (json_object_size(entry) != 3 || !json_is_string(dtype) || !shape || !range) {
        return refuse(r, name,
                      "needs dtype, shape and data_offsets and nothing else; write it "
                      "with preflight or the safetensors package");
    }
    if (strcmp(json_string_value(dtype), "F32") != 0) {
        return pf_fail(r->error, PF_ERR_FORMAT,
                       "%s: tensor '%s' has dtype %s; only F32 is read, convert it", r->file->path,
                       pf__tensor_shown(name, shown),
                       pf__tensor_shown(json_string_value(dtype), type));
    }
    pf_tensor *t = &r->file->tensors[r->file->n_tensors];
    size_t ends[2];
    t->n_dims = sizes_read(shape, PF_TENSOR_DIMS, PF_TENSORS_BYTES, t->dims);
    size_t bytes = pf__tensor_bytes(t);
    if (bytes == 0) {
        return refuse(r, name,
                      "the shape is not 1 or 2 whole numbers of at least 1, or is too "
                      "large; reshape it");
    }
    if (sizes_read(range, 2, r->n_data, ends) != 2 || ends[0] > ends[1]) {
        return refuse(r, name, "data_offsets is no range of bytes within the file; copy it again");
    }
    if (ends[1] - ends[0] != bytes || ends[0] % sizeof(float) != 0) {
        return refuse(r, name, "data_offsets does not fit the shape; write it again");
    }
    t->name = keep(r, name);
    t->data = r->data + ends[0] / sizeof(float);
    r->file->n_tensors++;
    return PF_OK;
}

static int by_place(const void *a, const void *b)
{
    const pf_tensor *x = a, *y = b;
    return (x->data > y->data) - (x->data < y->data);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const pf_tensor *)a)->name, ((const pf_tensor *)b)->name);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const pf_meta *)a)->key, ((const pf_meta *)b)->key);
}

// Every byte belongs to one tensor, and every number is finite.
static pf_status tensors_cover(const reading *r)
{
    pf_safetensors *file = r->file;
    const float *at = r->data;
    qsort(file->tensors, (size_t)file->n_tensors, sizeof *file->tensors, by_place);
    for (int i = 0; i < file->n_tensors; i++) {
        const pf_tensor *t = &file->tensors[i];
        if (t->data < at) {
            return refuse(r, t->name, "overlaps the one before it; write the file again");
        }
        if (t->data > at) {
            return refuse(r, t->name, "bytes before it belong to no tensor; write the file again");
        }
        at += pf__tensor_bytes(t) / sizeof(float);
        pf_status status = pf__tensor_finite(file->path, t, r->error);
        if (status != PF_OK) {
            return status;
        }
    }
    size_t used = (size_t)(at - r->data) * sizeof(float);
    if (used != r->n_data) {
        return pf_fail(r->error, PF_ERR_FORMAT,
                       "%s: %z bytes at the end belong to no tensor; write the file again",
                       file->path, r->n_data - used);
    }
    return PF_OK;
}

// --- the file

static pf_status file_fill(reading *r, json_t *header)
{
    pf_safetensors *file = r->file;
    const char *name;
    json_t *entry;
    json_object_foreach(header, name, entry)
    {
        pf_status status =
            strcmp(name, "__metadata__") == 0 ? meta_read(r, entry) : tensor_read(r, name, entry);
        if (status != PF_OK) {
            return status;
        }
    }
    pf_status status = tensors_cover(r);
    qsort(file->tensors, (size_t)file->n_tensors, sizeof *file->tensors, by_name);
    qsort(file->meta, (size_t)file->n_meta, sizeof *file->meta, by_key);
    return status;
}

// Lays out the one block; from here on the bytes are its own.
static pf_status file_take(pf_safetensors *file, json_t *header, uint8_t *bytes, size_t n,
                           size_t n_header, pf_error *error)
{
    size_t n_meta = json_object_size(json_object_get(header, "__metadata__"));
    size_t n_tensors = json_object_size(header);
    if (n_meta > PF_META_MOST) {
        free(bytes);
        return pf_fail(error, PF_ERR_FORMAT, "%s: %z entries of metadata, more than %d", file->path,
                       n_meta, (int)PF_META_MOST);
    }
    // a text with its end takes less than its JSON, quotes included
    size_t size = sizeof(owned) + n_tensors * sizeof *file->tensors + n_meta * sizeof *file->meta;
    owned *memory = calloc(1, size + n_header);
    if (!memory) {
        free(bytes);
        return pf_fail(error, PF_ERR_MEMORY, "%s: out of memory", file->path);
    }
    memory->bytes = bytes;
    file->memory = memory;
    file->tensors = (pf_tensor *)(memory + 1);
    file->meta = (pf_meta *)(file->tensors + n_tensors);
    pf_sha256_of(bytes, n, file->sha256);
    // a header that was not padded leaves the numbers askew: move them over its end
    size_t start = 8 + n_header;
    size_t n_data = n - start;
    uint8_t *data = bytes + start - start % sizeof(float);
    memmove(data, bytes + start, n_data);
    reading r = {file, (const float *)(void *)data, n_data, (char *)(file->meta + n_meta), error};
    return file_fill(&r, header);
}

pf_status pf_safetensors_parse(pf_safetensors *file, const char *path, void *bytes, size_t n,
                               pf_error *error)
{
    *file = (pf_safetensors){.path = path};
    size_t n_header = 0;
    json_t *header = NULL;
    pf_status status = layout_check(path, bytes, n, &n_header, error);
    if (status == PF_OK) {
        status = header_parse(path, (const uint8_t *)bytes + 8, n_header, &header, error);
    }
    if (status == PF_OK) {
        status = file_take(file, header, bytes, n, n_header, error);
    } else {
        free(bytes);
    }
    json_decref(header);
    if (status != PF_OK) {
        pf_safetensors_free(file);
    }
    return status;
}

pf_status pf_safetensors_read(pf_safetensors *file, const char *path, pf_error *error)
{
    void *bytes = NULL;
    size_t n = 0;
    *file = (pf_safetensors){.path = path};
    if (access(path, F_OK) == 0 && !pf_file_regular(path)) {
        return pf_fail(error, PF_ERR_FILE, "%s: is no plain file; give a file", path);
    }
    pf_status status = pf_file_read(path, PF_TENSORS_BYTES, &bytes, &n, error);
    return status == PF_OK ? pf_safetensors_parse(file, path, bytes, n, error) : status;
}

void pf_safetensors_free(pf_safetensors *file)
{
    owned *memory = file->memory;
    if (memory) {
        free(memory->bytes);
        free(memory);
    }
    *file = (pf_safetensors){0};
}
