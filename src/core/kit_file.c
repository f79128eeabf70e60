// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "kit_impl.h"

#include <string.h>

// The file image of a kit: a table of sections and the sections themselves.

enum { DIGEST_BYTES = 32, SECTIONS_MAX = 4096 };

enum {
    N_DIMS = 0
#define X(field) +1
    PF_KIT_DIMS(X)
#undef X
};
enum {
    N_SCALARS = 0
#define X(field) +1
    PF_KIT_SCALARS(X)
#undef X
};

static bool little_endian(void)
{
    uint32_t one = 1;
    uint8_t first;
    memcpy(&first, &one, 1);
    return first == 1;
}

static size_t padded(size_t bytes)
{
    return (bytes + 7) & ~(size_t)7;
}

static int count_sections(const pf_kit *k)
{
    int n = 2;
#define X(id, type, field, count) n += (size_t)(count) > 0;
    PF_KIT_ARRAYS(X)
#undef X
    return n;
}

size_t pf_kit_size(const pf_kit *k)
{
    if (pf__kit_check_dims(k, NULL) != PF_OK) {
        return 0;
    }
    size_t bytes = PF_KIT_HEAD_BYTES + (size_t)count_sections(k) * PF_KIT_SECTION_BYTES +
                   padded(N_DIMS * sizeof(int32_t)) + N_SCALARS * sizeof(double);
#define X(id, type, field, count)                                                                  \
    {                                                                                              \
        size_t n = (size_t)(count);                                                                \
        if (n > (SIZE_MAX / 4 - bytes) / sizeof(type)) {                                           \
            return 0;                                                                              \
        }                                                                                          \
        bytes += padded(n * sizeof(type));                                                         \
    }
    PF_KIT_ARRAYS(X)
#undef X
    return bytes + DIGEST_BYTES;
}

// --- writing

typedef struct writer {
    uint8_t *image;
    size_t entry; // where the next row of the table goes
    size_t at;    // where the next section goes
} writer;

static void put_section(writer *w, uint32_t id, size_t element, size_t count, const void *data)
{
    if (count == 0) {
        return;
    }
    pf_kit_section section = {id, (uint16_t)element, 0, w->at, count};
    memcpy(w->image + w->entry, &section, sizeof section);
    memcpy(w->image + w->at, data, count * element);
    w->entry += PF_KIT_SECTION_BYTES;
    w->at += padded(count * element);
}

pf_status pf_kit_save(const pf_kit *k, void *mem, size_t bytes, pf_error *error)
{
    pf_status s = pf_kit_check(k, error);
    if (s != PF_OK) {
        return s;
    }
    uint64_t size = pf_kit_size(k);
    if (!little_endian()) {
        return pf_fail(error, PF_ERR_UNSUPPORTED, "kit: this machine is not little-endian");
    }
    if (bytes < size) {
        return pf_fail(error, PF_ERR_MEMORY, "kit: needs %z bytes, got %z", (size_t)size, bytes);
    }
    uint32_t head[2] = {PF_KIT_VERSION, (uint32_t)count_sections(k)};
    const int32_t dims[] = {
#define X(field) k->field,
        PF_KIT_DIMS(X)
#undef X
    };
    const double scalars[] = {
#define X(field) k->field,
        PF_KIT_SCALARS(X)
#undef X
    };
    memset(mem, 0, (size_t)size);
    writer w = {mem, PF_KIT_HEAD_BYTES, PF_KIT_HEAD_BYTES + (size_t)head[1] * PF_KIT_SECTION_BYTES};
    memcpy(w.image, PF_KIT_MAGIC, 8);
    memcpy(w.image + 8, head, sizeof head);
    memcpy(w.image + 16, &size, sizeof size);
    put_section(&w, PF_KIT_ID_DIMS, sizeof dims[0], N_DIMS, dims);
    put_section(&w, PF_KIT_ID_SCALARS, sizeof scalars[0], N_SCALARS, scalars);
#define X(id, type, field, count) put_section(&w, id, sizeof(type), (size_t)(count), k->field);
    PF_KIT_ARRAYS(X)
#undef X
    pf_sha256 sha;
    pf_sha256_init(&sha);
    pf_sha256_update(&sha, mem, w.at);
    pf_sha256_final(&sha, w.image + w.at);
    return PF_OK;
}

// --- reading

// Head and size; *n_sections rows of the table are inside the file then.
static pf_status check_head(const uint8_t *p, size_t n_bytes, int *n_sections, pf_error *error)
{
    if (!little_endian()) {
        return pf_fail(error, PF_ERR_UNSUPPORTED, "kit: this machine is not little-endian");
    }
    if (!p || (uintptr_t)p % 8 != 0) {
        return pf_fail(error, PF_ERR_ARGUMENT, "kit: the image must start at a multiple of 8");
    }
    if (n_bytes < 16 || memcmp(p, PF_KIT_MAGIC, 8) != 0) {
        return pf_fail(error, PF_ERR_FORMAT, "not a preflight kit (wrong first bytes)");
    }
    uint32_t head[2];
    memcpy(head, p + 8, sizeof head);
    if (head[0] != PF_KIT_VERSION) {
        return pf_fail(error, PF_ERR_VERSION,
                       "kit of format version %d, this program reads version %d; calibrate again",
                       (int)head[0], PF_KIT_VERSION);
    }
    uint64_t size = 0;
    if (n_bytes < PF_KIT_HEAD_BYTES + DIGEST_BYTES) {
        return pf_fail(error, PF_ERR_FORMAT, "kit is cut off: %z bytes", n_bytes);
    }
    memcpy(&size, p + 16, sizeof size);
    if (size != n_bytes) {
        return pf_fail(error, PF_ERR_FORMAT, "kit %s: %z bytes, its header says %z",
                       n_bytes < size ? "is cut off" : "has trailing bytes", n_bytes, (size_t)size);
    }
    if (head[1] < 2 || head[1] > SECTIONS_MAX ||
        (size_t)head[1] * PF_KIT_SECTION_BYTES > n_bytes - PF_KIT_HEAD_BYTES - DIGEST_BYTES) {
        return pf_fail(error, PF_ERR_FORMAT, "kit: a table of %d sections does not fit",
                       (int)head[1]);
    }
    *n_sections = (int)head[1];
    return PF_OK;
}

// One pass gives both the inner checksum and the checksum of the whole file.
static pf_status check_digest(const uint8_t *p, size_t n_bytes, uint8_t whole[32], pf_error *error)
{
    pf_sha256 sha;
    uint8_t digest[DIGEST_BYTES];
    pf_sha256_init(&sha);
    pf_sha256_update(&sha, p, n_bytes - DIGEST_BYTES);
    pf_sha256_final(&sha, digest);
    if (memcmp(digest, p + n_bytes - DIGEST_BYTES, DIGEST_BYTES) != 0) {
        return pf_fail(error, PF_ERR_CHECKSUM, "kit is damaged (checksum differs); copy it again");
    }
    pf_sha256_update(&sha, p + n_bytes - DIGEST_BYTES, DIGEST_BYTES);
    pf_sha256_final(&sha, whole);
    return PF_OK;
}

// A file that is whole, and its table.
typedef struct reader {
    const uint8_t *image;
    int n_sections;
} reader;

static pf_kit_section section_at(const reader *r, int index)
{
    pf_kit_section section;
    memcpy(&section, r->image + PF_KIT_HEAD_BYTES + (size_t)index * PF_KIT_SECTION_BYTES,
           sizeof section);
    return section;
}

static bool known(uint32_t id)
{
    switch (id) {
    case PF_KIT_ID_DIMS:
    case PF_KIT_ID_SCALARS:
#define X(number, type, field, count) case number:
        PF_KIT_ARRAYS(X)
#undef X
        return true;
    default:
        return false;
    }
}

// Sections follow each other from the table to the checksum, each id once, and every one that may
// not be passed over is known.
static pf_status check_table(const reader *r, size_t n_bytes, pf_error *error)
{
    uint64_t at = PF_KIT_HEAD_BYTES + (uint64_t)r->n_sections * PF_KIT_SECTION_BYTES;
    uint64_t end = n_bytes - DIGEST_BYTES;
    for (int i = 0; i < r->n_sections; i++) {
        pf_kit_section s = section_at(r, i);
        bool fits = s.offset == at && s.element > 0 && s.count > 0 && s.offset <= end &&
                    s.count <= (end - s.offset) / s.element;
        if (!fits) {
            return pf_fail(error, PF_ERR_FORMAT, "kit: section %d does not fit into the file", i);
        }
        at += padded((size_t)(s.count * s.element));
        for (int k = 0; k < i; k++) {
            if (section_at(r, k).id == s.id) {
                return pf_fail(error, PF_ERR_FORMAT, "kit: section %d repeats an earlier one", i);
            }
        }
        if (!known(s.id) && !(s.flags & PF_KIT_OPTIONAL)) {
            return pf_fail(error, PF_ERR_VERSION,
                           "kit: section %d (id %d) is not known to this program; use a newer "
                           "preflight, or calibrate again",
                           i, (int)s.id);
        }
    }
    return at == end ? PF_OK : pf_fail(error, PF_ERR_FORMAT, "kit: sections do not fill the file");
}

// The elements of a section, NULL where the file has none. Its size must be as said.
static const void *find(const reader *r, uint32_t id, size_t element, uint64_t *count)
{
    for (int i = 0; i < r->n_sections; i++) {
        pf_kit_section s = section_at(r, i);
        if (s.id == id && s.element == element) {
            *count = s.count;
            return r->image + s.offset;
        }
    }
    *count = 0;
    return NULL;
}

// Copies the n numbers that this program knows; a file may have fewer, or more if they are 0.
static pf_status read_fixed(const reader *r, uint32_t id, size_t element, size_t n, void *out,
                            pf_error *error)
{
    uint64_t count = 0;
    const uint8_t *from = find(r, id, element, &count);
    if (!from) {
        return pf_fail(error, PF_ERR_FORMAT, "kit: has no %s",
                       id == PF_KIT_ID_DIMS ? "dimensions" : "scalars");
    }
    for (uint64_t i = n * element; i < count * element; i++) {
        if (from[i] != 0) {
            return pf_fail(error, PF_ERR_VERSION,
                           "kit: sets something that this program does not know; use a newer "
                           "preflight, or calibrate again");
        }
    }
    memset(out, 0, n * element);
    memcpy(out, from, (count < n ? (size_t)count : n) * element);
    return PF_OK;
}

static pf_status read_array(const reader *r, uint32_t id, const char *name, size_t element,
                            size_t count, const void **field, pf_error *error)
{
    uint64_t have = 0;
    const void *from = find(r, id, element, &have);
    if (have != count) {
        return pf_fail(error, PF_ERR_FORMAT, "kit: %s has %z elements, its dimensions ask for %z",
                       name, (size_t)have, count);
    }
    // an empty array points somewhere all the same: nobody needs to ask first
    *field = from ? from : r->image;
    return PF_OK;
}

static pf_status read_view(const reader *r, pf_kit *k, pf_error *error)
{
    int32_t dims[N_DIMS];
    double scalars[N_SCALARS];
    pf_status s = read_fixed(r, PF_KIT_ID_DIMS, sizeof dims[0], N_DIMS, dims, error);
    if (s == PF_OK) {
        s = read_fixed(r, PF_KIT_ID_SCALARS, sizeof scalars[0], N_SCALARS, scalars, error);
    }
    if (s != PF_OK) {
        return s;
    }
    int at = 0;
#define X(field) k->field = dims[at++];
    PF_KIT_DIMS(X)
#undef X
    at = 0;
#define X(field) k->field = scalars[at++];
    PF_KIT_SCALARS(X)
#undef X
    s = pf__kit_check_dims(k, error);
    if (s != PF_OK || pf_kit_size(k) == 0) {
        return s != PF_OK ? s : pf_fail(error, PF_ERR_FORMAT, "kit: absurd dimensions");
    }
#define X(id, type, field, count)                                                                  \
    if (s == PF_OK) {                                                                              \
        const void *from = NULL;                                                                   \
        s = read_array(r, id, #field, sizeof(type), (size_t)(count), &from, error);                \
        k->field = from;                                                                           \
    }
    PF_KIT_ARRAYS(X)
#undef X
    return s;
}

pf_status pf_kit_load(pf_kit *kit, const void *bytes, size_t n_bytes, pf_error *error)
{
    memset(kit, 0, sizeof *kit);
    reader r = {bytes, 0};
    pf_kit view = {0};
    pf_status s = check_head(bytes, n_bytes, &r.n_sections, error);
    if (s == PF_OK) {
        s = check_digest(bytes, n_bytes, view.sha256, error);
    }
    if (s == PF_OK) {
        s = check_table(&r, n_bytes, error);
    }
    if (s == PF_OK) {
        s = read_view(&r, &view, error);
    }
    if (s == PF_OK) {
        s = pf_kit_check(&view, error);
    }
    if (s == PF_OK) {
        *kit = view;
    }
    return s;
}
