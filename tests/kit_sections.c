// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "kit_sections.h"
#include "core/kit_layout.h"
#include "core/sha256.h"

#include "attitude_kit.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

enum { DIGEST = 32 };

// A file taken apart, to be changed and put together again.
typedef struct parts {
    int n;
    pf_kit_section row[80];
    uint8_t *data[80]; // padded to 8
} parts;

static size_t padded(const pf_kit_section *s)
{
    return ((size_t)s->count * s->element + 7) & ~(size_t)7;
}

static parts take_apart(const uint8_t *bytes)
{
    parts p;
    uint32_t n = 0;
    memcpy(&n, bytes + 12, sizeof n);
    p.n = (int)n;
    for (int i = 0; i < p.n; i++) {
        memcpy(&p.row[i], bytes + PF_KIT_HEAD_BYTES + i * PF_KIT_SECTION_BYTES, sizeof p.row[i]);
        p.data[i] = calloc(1, padded(&p.row[i]));
        memcpy(p.data[i], bytes + p.row[i].offset, (size_t)p.row[i].count * p.row[i].element);
    }
    return p;
}

static void free_parts(parts *p)
{
    for (int i = 0; i < p->n; i++) {
        free(p->data[i]);
    }
}

static void add(parts *p, uint32_t id, uint16_t flags, uint64_t count)
{
    p->row[p->n] = (pf_kit_section){id, 8, flags, 0, count};
    p->data[p->n] = calloc(count + 1, 8);
    p->n++;
}

static int find(const parts *p, uint32_t id)
{
    for (int i = 0; i < p->n; i++) {
        if (p->row[i].id == id) {
            return i;
        }
    }
    CHECK(!"the section is there");
    return 0;
}

// Makes a section longer by `more` elements of zeros, the last byte of which is then `last`.
static void extend(parts *p, uint32_t id, int more, uint8_t last)
{
    pf_kit_section *s = &p->row[find(p, id)];
    uint8_t **data = &p->data[find(p, id)];
    size_t was = (size_t)s->count * s->element;
    s->count = (uint64_t)((int64_t)s->count + more);
    uint8_t *grown = calloc(1, padded(s) + 8);
    memcpy(grown, *data, more > 0 ? was : (size_t)s->count * s->element);
    if (more > 0) {
        grown[(size_t)s->count * s->element - 1] = last;
    }
    free(*data);
    *data = grown;
}

// The file of the parts, sealed; loads it.
static pf_status load(const parts *p, pf_kit *kit, pf_error *error)
{
    size_t size = PF_KIT_HEAD_BYTES + (size_t)p->n * PF_KIT_SECTION_BYTES;
    uint64_t at = size;
    for (int i = 0; i < p->n; i++) {
        size += padded(&p->row[i]);
    }
    uint64_t whole = size + DIGEST;
    uint32_t head[2] = {PF_KIT_VERSION, (uint32_t)p->n};
    static uint8_t *bytes; // of the last call: a loaded kit points into it
    free(bytes);
    bytes = calloc(1, (size_t)whole);
    memcpy(bytes, PF_KIT_MAGIC, 8);
    memcpy(bytes + 8, head, sizeof head);
    memcpy(bytes + 16, &whole, sizeof whole);
    for (int i = 0; i < p->n; i++) {
        pf_kit_section row = p->row[i];
        row.offset = p->row[i].offset == UINT64_MAX ? at + 8 : at;
        memcpy(bytes + PF_KIT_HEAD_BYTES + i * PF_KIT_SECTION_BYTES, &row, sizeof row);
        memcpy(bytes + at, p->data[i], padded(&p->row[i]));
        at += padded(&p->row[i]);
    }
    pf_sha256 sha;
    pf__sha256_init(&sha);
    pf__sha256_update(&sha, bytes, size);
    pf__sha256_final(&sha, bytes + size);
    *error = (pf_error){PF_OK, ""};
    return pf__kit_read(kit, bytes, (size_t)whole, error);
}

// Changes a fresh copy of the small kit and expects the status and a part of the text.
static void expect(void (*change)(parts *), pf_status status, const char *text)
{
    size_t n = 0;
    parts p = take_apart(attitude_small_kit_bytes(&n));
    pf_kit kit;
    pf_error error;
    change(&p);
    CHECK(load(&p, &kit, &error) == status);
    CHECK_CONTAINS(error.text, text);
    CHECK(status != PF_OK || kit.n_mech == attitude_small_kit()->n_mech);
    free_parts(&p);
}

static void nothing(parts *p)
{
    (void)p;
}

static void add_optional(parts *p)
{
    add(p, 4000, PF_KIT_OPTIONAL, 5);
}

static void add_required(parts *p)
{
    add(p, 4000, 0, 5);
}

static void add_twice(parts *p)
{
    add(p, 4000, PF_KIT_OPTIONAL, 5);
    add(p, 4000, PF_KIT_OPTIONAL, 5);
}

static void more_dims(parts *p)
{
    extend(p, PF_KIT_ID_DIMS, 3, 0);
}

static void more_scalars(parts *p)
{
    extend(p, PF_KIT_ID_SCALARS, 2, 0);
}

static void set_dim(parts *p)
{
    extend(p, PF_KIT_ID_DIMS, 3, 1);
}

static void set_scalar(parts *p)
{
    extend(p, PF_KIT_ID_SCALARS, 1, 0x40);
}

static void fewer_dims(parts *p)
{
    extend(p, PF_KIT_ID_DIMS, -1, 0); // an earlier file: n_bounded is 0
}

static void fewer_settings(parts *p)
{
    extend(p, PF_KIT_ID_SETTINGS, -1, 0);
}

static void other_settings(parts *p)
{
    p->data[find(p, PF_KIT_ID_SETTING_NAMES)][0] ^= 1;
}

static void lose_settings(parts *p)
{
    p->row[find(p, PF_KIT_ID_SETTINGS)].id = 4005;
    p->row[find(p, 4005)].flags = PF_KIT_OPTIONAL;
}

static void lose_dims(parts *p)
{
    p->row[find(p, PF_KIT_ID_DIMS)].id = 4001;
    p->row[find(p, 4001)].flags = PF_KIT_OPTIONAL;
}

static void lose_grid(parts *p)
{
    p->row[find(p, 20)].id = 4002;
    p->row[find(p, 4002)].flags = PF_KIT_OPTIONAL;
}

static void short_grid(parts *p)
{
    extend(p, 20, -1, 0);
}

static void other_element(parts *p)
{
    p->row[find(p, 20)].element = 4;
}

static void gap(parts *p)
{
    p->row[p->n - 1].offset = UINT64_MAX; // eight bytes further than it may be
}

static void empty(parts *p)
{
    add(p, 4003, PF_KIT_OPTIONAL, 0);
}

static void huge(parts *p)
{
    add(p, 4004, PF_KIT_OPTIONAL, 1);
    p->row[p->n - 1].element = 0;
}

void check_kit_sections(void)
{
    PF_CASE("kit: what a later program may add is passed over");
    expect(nothing, PF_OK, "");
    expect(add_optional, PF_OK, "");
    expect(more_dims, PF_OK, "");
    expect(more_scalars, PF_OK, "");
    PF_CASE("kit: an earlier file lacks what came later");
    expect(fewer_dims, PF_OK, "");
    PF_CASE("kit: of a program with other settings");
    expect(fewer_settings, PF_ERR_VERSION, "other settings than this one; calibrate again");
    expect(other_settings, PF_ERR_VERSION, "calibrate again");
    expect(lose_settings, PF_ERR_VERSION, "calibrate again");
    PF_CASE("kit: what may not be passed over is refused as newer");
    expect(add_required, PF_ERR_VERSION, "newer");
    expect(set_dim, PF_ERR_VERSION, "newer");
    expect(set_scalar, PF_ERR_VERSION, "newer");
    PF_CASE("kit: sections that are missing, short, repeated or misplaced are named");
    expect(add_twice, PF_ERR_FORMAT, "repeats");
    expect(lose_dims, PF_ERR_FORMAT, "no dimensions");
    expect(lose_grid, PF_ERR_FORMAT, "grid has 0 elements");
    expect(short_grid, PF_ERR_FORMAT, "grid has 3 elements");
    expect(other_element, PF_ERR_FORMAT, "kit: ");
    expect(gap, PF_ERR_FORMAT, "does not fit");
    expect(empty, PF_ERR_FORMAT, "does not fit");
    expect(huge, PF_ERR_FORMAT, "does not fit");
}
