// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "safetensors.h"
#include "core/sha256.h"

#include "host/file.h"
#include "host/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// The numbers of a file are used where they lie.
#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "safetensors files are little-endian; this needs a little-endian machine"
#endif
_Static_assert(sizeof(float) == 4, "float is not F32");

// --- rules

// The rules of names: 1 to PF_TENSOR_NAME bytes of UTF-8 without control characters.
static bool tensor_name_good(const char *name)
{
    size_t n = strlen(name);
    if (n == 0 || n > PF_TENSOR_NAME) {
        return false;
    }
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)name[i];
        size_t size = c < 32 || c == 127 ? 0 : pf__utf8_size(name + i, n - i);
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

static const char *tensor_shown(const char *name, char out[PF_TENSOR_SHOWN])
{
    return pf__csv_shown((pf_csv_field){name, strlen(name)}, out);
}

// Fails with name and index where a number is not finite.
static pf_status tensor_finite(const char *path, const pf_tensor *tensor, pf_error *error)
{
    size_t count = pf__tensor_bytes(tensor) / sizeof(float);
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(tensor->data[i])) {
            char shown[PF_TENSOR_SHOWN];
            return pf_fail(error, PF_ERR_NONFINITE,
                           "%s: tensor '%s': number %z (from 0) is not finite; train again", path,
                           tensor_shown(tensor->name, shown), i);
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

void pf__tensors_digest(int n_meta, const pf_meta *meta, int n_tensors, const pf_tensor *tensors,
                        char sha256[65])
{
    pf_sha256 sha;
    uint8_t digest[32];
    pf__sha256_init(&sha);
    for (const pf_meta *m = next_meta(n_meta, meta, NULL); m; m = next_meta(n_meta, meta, m->key)) {
        if (strcmp(m->key, PF_CONTENTS) != 0) {
            pf__sha256_update(&sha, m->key, strlen(m->key) + 1);
            pf__sha256_update(&sha, m->value, strlen(m->value) + 1);
        }
    }
    for (int i = 0; i < n_tensors; i++) {
        pf__sha256_update(&sha, tensors[i].name, strlen(tensors[i].name) + 1);
        pf__sha256_update(&sha, tensors[i].data, pf__tensor_bytes(&tensors[i]));
    }
    pf__sha256_final(&sha, digest);
    pf__sha256_text(digest, sha256);
}

// --- writing

static bool is_text(const char *s)
{
    for (size_t n = strlen(s); n > 0;) {
        size_t size = pf__utf8_size(s, n);
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
        tensor_shown(meta[i].key, shown);
        if (!tensor_name_good(meta[i].key)) {
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
        tensor_shown(tensors[i].name, shown);
        if (!tensor_name_good(tensors[i].name) || strcmp(tensors[i].name, "__metadata__") == 0) {
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
        pf_status status = tensor_finite(path, &tensors[i], error);
        if (status != PF_OK) {
            return status;
        }
    }
    return PF_OK;
}

static void header_text(pf_text *text, int n_meta, const pf_meta *meta, int n_tensors,
                        const pf_tensor *tensors)
{
    pf__text_add(text, "{");
    if (n_meta > 0) {
        pf__json_open(text, "__metadata__", "{");
        for (int i = 0; i < n_meta; i++) {
            pf__json_key(text, meta[i].key);
            pf__json_string(text, meta[i].value);
        }
        pf__text_add(text, "}");
    }
    size_t at = 0;
    for (int i = 0; i < n_tensors; i++) {
        const pf_tensor *t = &tensors[i];
        pf__json_key(text, t->name);
        pf__text_addf(text, "{\"dtype\":\"F32\",\"shape\":[%zu", t->dims[0]);
        if (t->n_dims == 2) {
            pf__text_addf(text, ",%zu", t->dims[1]);
        }
        size_t end = at + pf__tensor_bytes(t);
        pf__text_addf(text, "],\"data_offsets\":[%zu,%zu]}", at, end);
        at = end;
    }
    pf__text_add(text, "}");
    while (text->size % 8 != 0 && !text->failed) {
        pf__text_add(text, " ");
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
    status = status ? status : tensors_check(path, n_tensors, tensors, &n_data, error);
    if (status != PF_OK) {
        return status;
    }
    pf_text header = {0};
    header_text(&header, n_meta, meta, n_tensors, tensors);
    status = join(path, &header, n_tensors, tensors, n_data, bytes, n, error);
    pf__text_free(&header);
    return status;
}

pf_status pf__safetensors_write(const char *path, int n_meta, const pf_meta *meta, int n_tensors,
                                const pf_tensor *tensors, char *sha256, pf_error *error)
{
    void *bytes = NULL;
    size_t n = 0;
    pf_status status =
        pf__safetensors_build(path, n_meta, meta, n_tensors, tensors, &bytes, &n, error);
    status = status ? status : pf__file_write(path, bytes, n, error);
    if (status == PF_OK && sha256) {
        pf__sha256_of(bytes, n, sha256);
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

const pf_tensor *pf__safetensors_find(const pf_safetensors *file, const char *name)
{
    return file->n_tensors == 0 ? NULL
                                : bsearch(name, file->tensors, (size_t)file->n_tensors,
                                          sizeof *file->tensors, name_order);
}

const char *pf__safetensors_meta(const pf_safetensors *file, const char *key)
{
    const pf_meta *found = file->n_meta == 0 ? NULL
                                             : bsearch(key, file->meta, (size_t)file->n_meta,
                                                       sizeof *file->meta, key_order);
    return found ? found->value : NULL;
}

// --- reading, which needs a JSON parser

#ifdef PF_HAVE_JANSSON

#include "host/json.h"

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
                   tensor_shown(name, shown), what);
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
    *header = pf__json_load((const char *)bytes, n, JSON_REJECT_DUPLICATES, &problem);
    if (!*header && json_error_code(&problem) == json_error_out_of_memory) {
        return pf_fail(error, PF_ERR_MEMORY, "%s: out of memory for the header", path);
    }
    if (!*header) {
        char shown[PF_TENSOR_SHOWN];
        return pf_fail(error, PF_ERR_FORMAT,
                       "%s: the header is damaged: %s at byte %d; copy it again", path,
                       tensor_shown(problem.text, shown), problem.position);
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
        if (!tensor_name_good(key)) {
            return pf_fail(r->error, PF_ERR_FORMAT,
                           "%s: metadata key '%s' is not plain text of 1 to %d bytes; rename it",
                           r->file->path, tensor_shown(key, shown), PF_TENSOR_NAME);
        }
        if (!json_is_string(value)) {
            return pf_fail(r->error, PF_ERR_FORMAT,
                           "%s: metadata '%s' is not a text; write every value as a string",
                           r->file->path, tensor_shown(key, shown));
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
    if (!tensor_name_good(name)) {
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
                       tensor_shown(name, shown), tensor_shown(json_string_value(dtype), type));
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
        pf_status status = tensor_finite(file->path, t, r->error);
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
    pf__sha256_of(bytes, n, file->sha256);
    // a header that was not padded leaves the numbers askew: move them over its end
    size_t start = 8 + n_header;
    size_t n_data = n - start;
    uint8_t *data = bytes + start - start % sizeof(float);
    memmove(data, bytes + start, n_data);
    reading r = {file, (const float *)(void *)data, n_data, (char *)(file->meta + n_meta), error};
    return file_fill(&r, header);
}

pf_status pf__safetensors_parse(pf_safetensors *file, const char *path, void *bytes, size_t n,
                                pf_error *error)
{
    *file = (pf_safetensors){.path = path};
    size_t n_header = 0;
    json_t *header = NULL;
    pf_status status = layout_check(path, bytes, n, &n_header, error);
    status =
        status ? status : header_parse(path, (const uint8_t *)bytes + 8, n_header, &header, error);
    if (status == PF_OK) {
        status = file_take(file, header, bytes, n, n_header, error);
    } else {
        free(bytes);
    }
    json_decref(header);
    if (status != PF_OK) {
        pf__safetensors_free(file);
    }
    return status;
}

pf_status pf__safetensors_read(pf_safetensors *file, const char *path, pf_error *error)
{
    void *bytes = NULL;
    size_t n = 0;
    *file = (pf_safetensors){.path = path};
    struct stat info;
    bool there = stat(path, &info) == 0;
    if (there && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) {
        return pf_fail(error, PF_ERR_FILE, "%s: is no plain file; give a file", path);
    }
    pf_status status = pf__file_read(path, PF_TENSORS_BYTES, &bytes, &n, error);
    return status == PF_OK ? pf__safetensors_parse(file, path, bytes, n, error) : status;
}

void pf__safetensors_free(pf_safetensors *file)
{
    owned *memory = file->memory;
    if (memory) {
        free(memory->bytes);
        free(memory);
    }
    *file = (pf_safetensors){0};
}

#else

pf_status pf__safetensors_parse(pf_safetensors *file, const char *path, void *bytes, size_t n,
                                pf_error *error)
{
    (void)n;
    free(bytes);
    return pf__safetensors_read(file, path, error);
}

pf_status pf__safetensors_read(pf_safetensors *file, const char *path, pf_error *error)
{
    *file = (pf_safetensors){0};
    return pf_fail(error, PF_ERR_UNSUPPORTED,
                   "%s: built without libjansson; install libjansson-dev and rebuild", path);
}

void pf__safetensors_free(pf_safetensors *file)
{
    *file = (pf_safetensors){0};
}

#endif
