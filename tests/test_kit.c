// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "test.h"
#include "core/kit_layout.h"
#include "core/sha256.h"

#include "attitude_kit.h"
#include "kit_json.h"
#include "kit_sections.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Order of the fixed part of the file.
enum {
#define X(field) DIM_##field,
    PF_KIT_DIMS(X)
#undef X
        N_DIMS
};
enum {
#define X(field) SCALAR_##field,
    PF_KIT_SCALARS(X)
#undef X
        N_SCALARS
};

static const char *const dim_names[] = {
#define X(field) #field,
    PF_KIT_DIMS(X)
#undef X
};
static const char *const scalar_names[] = {
#define X(field) #field,
    PF_KIT_SCALARS(X)
#undef X
};

// A private copy of a kit file, of exactly its size so that a read beyond the end is seen.
typedef struct copy {
    uint8_t *bytes;
    size_t n;
    pf_kit kit; // before any damage
} copy;

static copy copy_of(const void *bytes, size_t n)
{
    copy c = {malloc(n), n, {0}};
    pf_error error;
    memcpy(c.bytes, bytes, n);
    CHECK(pf__kit_read(&c.kit, c.bytes, n, &error) == PF_OK);
    return c;
}

static void digest_of(const void *bytes, size_t n, uint8_t digest[32])
{
    pf_sha256 sha;
    pf__sha256_init(&sha);
    pf__sha256_update(&sha, bytes, n);
    pf__sha256_final(&sha, digest);
}

// Makes the checksum right again after a change.
static void seal(copy *c)
{
    digest_of(c->bytes, c->n - 32, c->bytes + c->n - 32);
}

// Loads n bytes at a place of exactly n bytes. A refused kit must leave an empty view and a text.
static pf_status load(const void *bytes, size_t n, pf_error *error)
{
    pf_kit kit, none;
    memset(&kit, 1, sizeof kit);
    memset(&none, 0, sizeof none);
    *error = (pf_error){PF_OK, ""};
    pf_status status = pf__kit_read(&kit, bytes, n, error);
    if (status != PF_OK) {
        CHECK(memcmp(&kit, &none, sizeof kit) == 0);
        CHECK(error->code == status && error->text[0] && !strchr(error->text, '\n'));
    }
    return status;
}

static pf_status load_part(const void *bytes, size_t n, pf_error *error)
{
    uint8_t *part = malloc(n > 0 ? n : 1);
    memcpy(part, bytes, n);
    pf_status status = load(part, n, error);
    free(part);
    return status;
}

// --- a kit that uses every array of the format

typedef struct full_arrays {
    double *scale, *curve, *cross, *response, *variant, *whiten;
    int32_t *probe_cross;
} full_arrays;

static double *filled(size_t n, double value)
{
    double *x = calloc(n, sizeof *x);
    for (size_t i = 0; i < n; i++) {
        x[i] = value;
    }
    return x;
}

// The small kit with curves, full rows, recorded responses, weights and a scale per step added.
static copy full_kit(void)
{
    pf_kit k = *attitude_small_kit();
    pf_error error = {PF_OK, ""};
    full_arrays a;
    size_t n_chan = (size_t)k.n_chan, n_bins = (size_t)k.n_bins;
    k.n_curve = k.n_targets;
    k.n_cross = 4 * k.n_bins;
    k.n_response = k.n_rows;
    k.n_scale = pf__kit_most_rows(&k);
    k.n_variant = 0;
    for (int q = 0; q < k.n_probes; q++) {
        k.n_variant += pf_kit_probe_rows(&k, q) * pf_kit_probe_targets(&k, q, NULL) * k.n_grid;
    }
    k.n_whiten = 0;
    for (int q = 0; q < k.n_probes; q++) {
        int window = pf_kit_probe_rows(&k, q) * k.n_chan;
        k.n_whiten += window * (window + 1) / 2;
    }
    a.whiten = filled((size_t)k.n_whiten, .5);
    k.whiten = a.whiten;
    a.curve = filled((size_t)k.n_curve * (size_t)k.n_grid, .5);
    a.cross = filled((size_t)k.n_cross, 1 / (double)n_bins);
    a.response = filled((size_t)k.n_response * n_chan, .25);
    a.variant = filled((size_t)k.n_variant * n_chan, .125);
    a.scale = filled((size_t)k.n_scale * n_chan, 2e-4);
    a.probe_cross = calloc((size_t)k.n_probes, sizeof(int32_t));
    a.probe_cross[0] = -1; // the group probe is the second
    k.curve = a.curve;
    k.cross = a.cross;
    k.response = a.response;
    k.variant = a.variant;
    k.scale = a.scale;
    k.probe_cross = a.probe_cross;
    copy c = {malloc(pf__kit_image_size(&k)), pf__kit_image_size(&k), {0}};
    CHECK(pf__kit_save(&k, c.bytes, c.n, &error) == PF_OK);
    CHECK_STR(error.text, "");
    CHECK(pf__kit_read(&c.kit, c.bytes, c.n, &error) == PF_OK);
    free(a.whiten);
    free(a.curve);
    free(a.cross);
    free(a.response);
    free(a.variant);
    free(a.scale);
    free(a.probe_cross);
    return c;
}

// --- whole files

static void round_trip(const void *bytes, size_t n)
{
    copy c = copy_of(bytes, n);
    pf_error error = {PF_OK, ""};
    uint8_t *again = malloc(n), digest[32];
    CHECK(pf__kit_image_size(&c.kit) == n);
    CHECK(pf__kit_save(&c.kit, again, n, &error) == PF_OK);
    CHECK(memcmp(again, bytes, n) == 0);
    memset(again, 0x5a, n);
    CHECK(pf__kit_save(&c.kit, again, n - 1, &error) == PF_ERR_MEMORY);
    CHECK(again[0] == 0x5a && again[n - 1] == 0x5a);
    digest_of(bytes, n, digest);
    CHECK(memcmp(digest, c.kit.sha256, 32) == 0);
    free(again);
    free(c.bytes);
}

static void test_whole(void)
{
    size_t n = 0;
    const uint8_t *bytes = attitude_kit_bytes(&n);
    copy full = full_kit();
    pf_error error;
    PF_CASE("kit: saving what was loaded gives the same bytes; sha256 is that of the file");
    round_trip(bytes, n);
    round_trip(full.bytes, full.n);
    PF_CASE("sha256: published vectors");
    uint8_t digest[32];
    char text[65];
    digest_of("abc", 3, digest);
    pf__sha256_text(digest, text);
    CHECK_STR(text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    digest_of("", 0, digest);
    pf__sha256_text(digest, text);
    CHECK_STR(text, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    PF_CASE("kit: cut at every 64th byte and at every one of the first 512");
    for (size_t i = 0; i < n; i += i < 512 ? 1 : 64) {
        CHECK(load_part(bytes, i, &error) != PF_OK);
    }
    CHECK(load_part(bytes, n - 1, &error) == PF_ERR_FORMAT);
    CHECK_CONTAINS(error.text, "cut off");
    PF_CASE("kit: trailing bytes, empty, no memory, misaligned");
    uint8_t *longer = calloc(1, n + 16);
    memcpy(longer, bytes, n);
    CHECK(load(longer, n + 1, &error) == PF_ERR_FORMAT);
    CHECK_CONTAINS(error.text, "trailing bytes");
    CHECK(load(longer, n + 8, &error) == PF_ERR_FORMAT);
    CHECK(load(longer, 0, &error) == PF_ERR_FORMAT);
    CHECK(load(NULL, 0, &error) == PF_ERR_ARGUMENT);
    for (size_t shift = 1; shift < 8; shift++) {
        memmove(longer + shift, bytes, n);
        CHECK(load(longer + shift, n, &error) == PF_ERR_ARGUMENT);
        CHECK_CONTAINS(error.text, "multiple of 8");
    }
    free(longer);
    free(full.bytes);
}

static void flip(const void *bytes, size_t n, size_t from, size_t to, size_t step, int bits)
{
    copy c = copy_of(bytes, n);
    pf_error error;
    int accepted = 0;
    for (size_t at = from; at < to; at += step) {
        for (int i = 0; i < bits; i++) {
            uint8_t bit = (uint8_t)(1u << ((at + (size_t)i) % 8));
            c.bytes[at] ^= bit;
            accepted += load(c.bytes, n, &error) == PF_OK;
            c.bytes[at] ^= bit;
        }
    }
    CHECK(accepted == 0);
    CHECK(load(c.bytes, n, &error) == PF_OK);
    free(c.bytes);
}

static void test_damage(void)
{
    size_t n = 0, n_small = 0;
    const void *bytes = attitude_kit_bytes(&n), *small = attitude_small_kit_bytes(&n_small);
    pf_error error;
    PF_CASE("kit: every flipped bit of the header is found");
    flip(small, n_small, 0, 192, 1, 8);
    PF_CASE("kit: a flipped bit in any byte is found");
    flip(small, n_small, 192, n_small, 5, 1);
    flip(bytes, n, 5, n, 997, 1);
    PF_CASE("kit: another magic or version is called so");
    copy c = copy_of(bytes, n);
    c.bytes[0] = 'Q';
    seal(&c);
    CHECK(load(c.bytes, n, &error) == PF_ERR_FORMAT);
    CHECK_CONTAINS(error.text, "not a preflight kit");
    c.bytes[0] = 'P';
    for (int version = 0; version < 4; version++) {
        c.bytes[8] = (uint8_t)version;
        seal(&c);
        CHECK((load(c.bytes, n, &error) == PF_OK) == (version == PF_KIT_VERSION));
        if (version != PF_KIT_VERSION) {
            CHECK(error.code == PF_ERR_VERSION);
            CHECK_CONTAINS(error.text, "version");
        }
    }
    c.bytes[8] = PF_KIT_VERSION;
    c.bytes[12] ^= 8; // another number of sections
    seal(&c);
    CHECK(load(c.bytes, n, &error) == PF_ERR_FORMAT);
    c.bytes[12] ^= 8;
    c.bytes[n - 40] ^= 1;
    CHECK(load(c.bytes, n, &error) == PF_ERR_CHECKSUM);
    CHECK_CONTAINS(error.text, "checksum");
    free(c.bytes);
}

// --- dimensions

// Where the row of a section stands in the table, and where the section itself begins.
static uint8_t *table_row(const copy *c, uint32_t id)
{
    uint32_t n = 0;
    memcpy(&n, c->bytes + 12, sizeof n);
    for (uint32_t i = 0; i < n; i++) {
        uint8_t *row = c->bytes + PF_KIT_HEAD_BYTES + i * PF_KIT_SECTION_BYTES;
        if (memcmp(row, &id, sizeof id) == 0) {
            return row;
        }
    }
    CHECK(!"the section is in the table");
    return c->bytes;
}

static uint8_t *section(const copy *c, uint32_t id)
{
    pf_kit_section s;
    memcpy(&s, table_row(c, id), sizeof s);
    return c->bytes + s.offset;
}

static void set_dim(copy *c, int dim, int32_t value)
{
    memcpy(section(c, PF_KIT_ID_DIMS) + 4 * dim, &value, sizeof value);
}

static void test_dims(void)
{
    static const int32_t absurd[] = {-1, INT_MIN, INT_MAX, (1 << 26) + 1, 1 << 26, 1 << 25};
    size_t n = 0;
    const void *bytes = attitude_kit_bytes(&n);
    pf_error error;
    PF_CASE("kit: absurd dimensions are refused, checksum right");
    pf_kit_section dims;
    copy whole = copy_of(bytes, n);
    memcpy(&dims, table_row(&whole, PF_KIT_ID_DIMS), sizeof dims);
    free(whole.bytes);
    // the last one is left out where it is 0
    CHECK(dims.count == N_DIMS - 1);
    for (int dim = 0; dim < (int)dims.count; dim++) {
        for (size_t i = 0; i < sizeof absurd / sizeof absurd[0]; i++) {
            copy c = copy_of(bytes, n);
            set_dim(&c, dim, absurd[i]);
            seal(&c);
            if (!CHECK(load(c.bytes, n, &error) == PF_ERR_FORMAT)) {
                printf("%s = %d\n", dim_names[dim], (int)absurd[i]);
            }
            if (absurd[i] < 0 || absurd[i] > 1 << 26) {
                CHECK_CONTAINS(error.text, dim_names[dim]);
            }
            free(c.bytes);
        }
    }
    PF_CASE("kit: large dimensions together do not overflow");
    copy c = copy_of(bytes, n);
    static const int32_t large[][2] = {
        {DIM_n_mech, 256},
        {DIM_n_chan, 4096},
        {DIM_n_grid, 256},
        {DIM_n_bins, 64},
        {DIM_n_probes, 4096},
        {DIM_n_targets, 65536},
        {DIM_n_rows, 1 << 20},
        {DIM_n_tasks, 4096},
        {DIM_n_uses, 65536},
        {DIM_n_shares, 4096},
        {DIM_n_members, 4096},
        {DIM_n_methods, 64},
        {DIM_n_scale, 1 << 20},
        {DIM_n_curve, 65536},
        {DIM_n_response, 1 << 20},
        {DIM_n_variant, 1 << 26},
        {DIM_n_cross, 1 << 26},
        {DIM_n_task_rows, 1 << 20},
        {DIM_n_names, PF_KIT_STRINGS + 256 + 4096 + 4096 + 3 * 4096 + 64}};
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
        set_dim(&c, large[i][0], large[i][1]);
    }
    seal(&c);
    CHECK(load(c.bytes, n, &error) == PF_ERR_FORMAT);
    CHECK(strstr(error.text, "absurd dimensions") || strstr(error.text, "cut off") ||
          strstr(error.text, "too many"));
    free(c.bytes);
}

// --- rules on the contents

// Writes bytes behind a pointer of the view, seals, loads, restores.
static void damage(copy *c, const void *at, const void *value, size_t size, const char *expect,
                   int line)
{
    uint8_t saved[16];
    pf_error error = {PF_OK, ""};
    size_t offset = (size_t)((const uint8_t *)at - c->bytes);
    memcpy(saved, c->bytes + offset, size);
    memcpy(c->bytes + offset, value, size);
    seal(c);
    pf_test_check(load(c->bytes, c->n, &error) == PF_ERR_FORMAT, __FILE__, line, expect);
    pf_check_contains(error.text, expect, __FILE__, line);
    memcpy(c->bytes + offset, saved, size);
    seal(c);
}

static void damage_number(copy *c, const double *at, double value, const char *expect, int line)
{
    damage(c, at, &value, sizeof value, expect, line);
}

static void damage_int(copy *c, const int32_t *at, int32_t value, const char *expect, int line)
{
    damage(c, at, &value, sizeof value, expect, line);
}

// Every array of numbers, its first and last entry, with values out of its range.
static void test_ranges(copy *c)
{
    const pf_kit *k = &c->kit;
    size_t rows = (size_t)k->n_targets * (size_t)k->n_bins, m = (size_t)k->n_mech - 1;
    const struct {
        const char *name;
        const double *value;
        size_t n;
        double too_low, too_high;
    } rules[] = {
        {"grid", k->grid, (size_t)k->n_grid, 0, 1},
        {"prior", k->prior, m + 1, -.1, 1.1},
        {"weight", k->weight, m, -1, 1e13},
        {"importance", k->importance, m, -1, 1e13},
        {"reveal", k->reveal, m, -1, 1e13},
        {"scale", k->scale, (size_t)k->n_scale * (size_t)k->n_chan, 0, 1e301},
        {"return_scale", k->return_scale, (size_t)k->n_chan, 0, 1e301},
        {"charge", k->charge, (size_t)k->n_probes, 0, 1e13},
        {"command", k->command, (size_t)k->n_rows * (size_t)k->n_mech, -1e301, 1e301},
        {"edges", k->edges, (size_t)k->n_targets * (size_t)(k->n_bins - 1), -1e301, 1e301},
        {"nominal", k->nominal, rows, 0, 1.1},
        {"changed", k->changed, rows, 0, 1.1},
        {"m0", k->centre_nominal, (size_t)k->n_targets, -1e301, 1e301},
        {"m1", k->centre_changed, (size_t)k->n_targets, -1e301, 1e301},
        {"sigma", k->sigma, (size_t)k->n_targets, 0, 1e13},
        {"curve", k->curve, (size_t)k->n_curve * (size_t)k->n_grid, -1e301, 1e301},
        {"cross", k->cross, (size_t)k->n_cross, 0, 1.1},
        {"response", k->response, (size_t)k->n_response * (size_t)k->n_chan, -1e301, 1e301},
        {"variant", k->variant, (size_t)k->n_variant * (size_t)k->n_chan, -1e301, 1e301},
        {"task_command", k->task_command, (size_t)k->n_task_rows * (size_t)k->n_mech, -1e301,
         1e301},
        {"task_reveal", k->task_reveal, (size_t)k->n_tasks, -1, 1e13},
        {"task_importance", k->task_importance, (size_t)k->n_tasks, -1, 1e13},
        {"shares", k->shares, (size_t)k->n_shares, -1, 1e7},
        {"nte", k->tracking_error, (size_t)k->n_uses * (size_t)k->n_members * (size_t)k->n_shares,
         -1, 1e301},
        {"threshold", k->threshold, (size_t)k->n_methods, -.1, 1.1},
        {"off_limit", k->off_limit, (size_t)k->n_probes, 0, 1e301},
        {"distance_limit", k->distance_limit, (size_t)k->n_probes, 0, 1e301},
        {"whiten", k->whiten, (size_t)k->n_whiten, -1e151, 1e151},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        const double bad[] = {NAN, INFINITY, -INFINITY, rules[i].too_low, rules[i].too_high};
        CHECK(rules[i].n > 0);
        for (size_t j = 0; j < 5; j++) {
            damage_number(c, rules[i].value, bad[j], rules[i].name, __LINE__);
            damage_number(c, rules[i].value + rules[i].n - 1, bad[j], rules[i].name, __LINE__);
        }
    }
}

static void test_scalars(copy *c)
{
    const double *first = (const double *)(const void *)section(c, PF_KIT_ID_SCALARS);
    for (int i = 0; i < N_SCALARS; i++) {
        const double bad[] = {NAN, INFINITY, -INFINITY};
        for (int j = 0; j < 3; j++) {
            damage_number(c, first + i, bad[j], scalar_names[i], __LINE__);
        }
    }
}

// Every setting with values out of the range of settings.def.
static void test_settings_of(copy *c)
{
    static const struct {
        const char *name;
        bool whole;
        double least, most;
        int open; // 1: the least, 2: the most
    } rows[] = {
#define END_CLOSED 0
#define END_OPEN_MIN 1
#define END_OPEN_MAX 2
#define END_OPEN 3
#define PF_SETTING(field, key, type, field_kit, suite_default, least, most, ends, shape, config,   \
                   suite, kit, hash, group, help)                                                  \
    PF_KIT_##kit({#field, sizeof(PF_KIT_##type) == 4, least, most, END_##ends}, )
#include "settings/settings.def"
    };
    const double *first = (const double *)(const void *)section(c, PF_KIT_ID_SETTINGS);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double step = rows[i].whole ? 1 : .1;
        const double bad[] = {NAN,
                              INFINITY,
                              -INFINITY,
                              rows[i].open & 1 ? rows[i].least : rows[i].least - step,
                              rows[i].open & 2 ? rows[i].most : rows[i].most * 1.0001 + 1,
                              rows[i].whole ? rows[i].least + .5 : NAN};
        for (size_t j = 0; j < sizeof bad / sizeof bad[0]; j++) {
            damage_number(c, first + i, bad[j], rows[i].name, __LINE__);
        }
    }
}

static void test_structure(copy *c)
{
    const pf_kit *k = &c->kit;
    damage_int(c, k->probe_row, 1, "probe_row", __LINE__);
    damage_int(c, k->probe_row + 1, INT_MIN, "probe_row", __LINE__);
    damage_int(c, k->probe_row + 1, INT_MAX, "probe_row", __LINE__);
    damage_int(c, k->probe_row + 1, 0, "probe_row", __LINE__);
    damage_int(c, k->probe_row + k->n_probes, k->n_rows - 1, "probe_row", __LINE__);
    damage_int(c, k->probe_target + 1, 0, "probe_target", __LINE__);
    damage_int(c, k->probe_target + k->n_probes, INT_MAX, "probe_target", __LINE__);
    damage_int(c, k->task_use + 1, 0, "task_use", __LINE__);
    damage_int(c, k->task_use + 1, -1, "task_use", __LINE__);
    damage_int(c, k->task_row + 1, k->n_task_rows + 1, "task_row", __LINE__);
    damage_int(c, k->target_mech, 0, "target 0", __LINE__);
    damage_int(c, k->target_mech, k->n_mech, "target 0", __LINE__);
    damage_int(c, k->target_mech, INT_MIN, "target 0", __LINE__);
    damage_int(c, k->target_mech + 2, k->target_mech[1], "probe 1 has a target twice", __LINE__);
    damage_int(c, k->use_mech, -1, "use 0", __LINE__);
    damage_int(c, k->use_mech + k->n_uses - 1, k->n_mech, "use 2", __LINE__);
    damage_int(c, k->probe_cross + 1, 8, "full rows of probe 1", __LINE__);
    damage_int(c, k->probe_cross + 1, INT_MAX, "full rows of probe 1", __LINE__);
    damage_int(c, k->probe_cross + 1, -1, "full rows", __LINE__);
    damage_number(c, k->grid + 1, k->grid[0], "grid must ascend", __LINE__);
    damage_number(c, k->shares + 1, k->shares[0], "shares must ascend", __LINE__);
    damage_number(c, k->prior, k->prior[0] - .01, "prior sums", __LINE__);
    damage_number(c, k->nominal, k->nominal[0] / 2, "nominal row", __LINE__);
    damage_number(c, k->changed, k->changed[0] / 2, "changed row", __LINE__);
    damage_number(c, k->centre_changed, k->centre_nominal[0], "centres of target 0", __LINE__);
    damage_number(c, k->edges + 1, k->edges[0] - 1, "edges of target 0", __LINE__);
    damage_number(c, k->lo + 2, 2, "limits of mechanism 2", __LINE__);
    damage_number(c, k->hi + 3, NAN, "limits of mechanism 3", __LINE__);
}

static void test_names(copy *c)
{
    const pf_kit *k = &c->kit;
    uint32_t outside = (uint32_t)k->n_text;
    char letter = 'x', control = '\n', erase = 127;
    damage(c, k->name, &outside, 4, "name 0", __LINE__);
    outside = UINT32_MAX;
    damage(c, k->name + k->n_names - 1, &outside, 4, "name", __LINE__);
    damage(c, k->text + k->n_text - 1, &letter, 1, "text is not terminated", __LINE__);
    damage(c, k->text + k->n_text - 2, &letter, 1, "method", __LINE__);
    damage(c, k->text, &control, 1, "control character", __LINE__);
    damage(c, k->text, &erase, 1, "control character", __LINE__);
    PF_CASE("kit: a name that is not UTF-8 is refused, replies could not quote it");
    char latin = (char)0xe9;
    damage(c, k->text, &latin, 1, "kit: ", __LINE__);
}

// Dimensions that do not fit each other, and settings out of range.
static void test_misfits(copy *c)
{
    static const struct {
        int dim, value;
        const char *expect;
    } misfits[] = {{DIM_n_mech, 1, "n_mech"},         {DIM_n_mech, 257, "n_mech"},
                   {DIM_n_grid, 1, "n_grid"},         {DIM_n_bins, 1, "n_bins"},
                   {DIM_n_bins, 65, "n_bins"},        {DIM_n_probes, 0, "n_probes"},
                   {DIM_n_targets, 1, "n_targets"},   {DIM_n_rows, 1, "n_rows"},
                   {DIM_n_scale, 0, "n_scale"},       {DIM_n_curve, 1, "n_curve"},
                   {DIM_n_response, 1, "n_response"}, {DIM_n_response, 0, "responses"},
                   {DIM_n_variant, 0, "responses"},   {DIM_n_tasks, 0, "n_tasks"},
                   {DIM_n_uses, 1, "n_uses"},         {DIM_n_shares, 1, "n_shares"},
                   {DIM_n_members, 0, "n_members"},   {DIM_n_methods, 0, "n_methods"},
                   {DIM_n_names, 3, "n_names"},       {DIM_n_text, 0, "n_text"},
                   {DIM_statistic, 2, "statistic"},   {DIM_statistic, 1, "matched statistic"},
                   {DIM_n_whiten, 1, "whiten"},       {DIM_n_chan, 0, "n_chan"}};
    for (size_t i = 0; i < sizeof misfits / sizeof misfits[0]; i++) {
        damage_int(c, (const int32_t *)(const void *)section(c, PF_KIT_ID_DIMS) + misfits[i].dim,
                   misfits[i].value, misfits[i].expect, __LINE__);
    }
    // rules on sizes, seen only where the file is as long as they say
    pf_kit k = c->kit;
    pf_error error;
    k.n_scale = 2;
    CHECK(pf_kit_check(&k, &error) == PF_ERR_FORMAT);
    CHECK_CONTAINS(error.text, "scales");
    k = c->kit;
    k.n_variant--;
    CHECK(pf_kit_check(&k, &error) == PF_ERR_FORMAT);
    CHECK_CONTAINS(error.text, "responses");
    CHECK(pf__kit_save(&k, NULL, 0, &error) == PF_ERR_FORMAT);
}

// Two targets where the kit has only one candidate.
static void test_too_many_targets(void)
{
    pf_kit k = *attitude_small_kit();
    static const int32_t first[] = {0, 1, 9};
    static const int32_t mech[] = {1, 1, 2, 3, 4, 5, 6, 7, 1};
    pf_error error;
    k.n_probes = 2;
    k.n_targets = 9;
    k.n_curve = 0;
    k.probe_target = first;
    k.target_mech = mech;
    double *rows = filled(9 * (size_t)k.n_bins, 1 / (double)k.n_bins);
    double *zero = filled(9 * (size_t)k.n_bins, 0), *one = filled(9, 1);
    k.edges = k.centre_nominal = zero;
    k.centre_changed = k.sigma = one;
    k.nominal = k.changed = rows;
    CHECK(pf_kit_check(&k, &error) == PF_ERR_FORMAT);
    CHECK_CONTAINS(error.text, "probe 1 has too many targets");
    free(rows);
    free(zero);
    free(one);
}

static void test_view(void)
{
    PF_CASE("kit: the view takes exactly its size, and its functions tell what the file holds");
    size_t n = 0;
    const void *image = attitude_kit_bytes(&n);
    const pf_kit *whole = attitude_kit();
    uint8_t *memory = malloc(pf_kit_size()); // exactly: a sanitizer watches the end
    pf_kit *k = NULL;
    pf_error error;
    CHECK(pf_kit_size() <= PF_KIT_BYTES);
    CHECK(pf_kit_load(&k, image, n, memory, pf_kit_size() - 1, &error) == PF_ERR_MEMORY && !k);
    CHECK(pf_kit_load(&k, image, n, memory + 1, pf_kit_size(), &error) == PF_ERR_ARGUMENT && !k);
    CHECK(pf_kit_load(&k, image, n, NULL, pf_kit_size(), &error) == PF_ERR_ARGUMENT && !k);
    CHECK(pf_kit_load(&k, image, n - 1, memory, pf_kit_size(), &error) != PF_OK && !k);
    if (!CHECK(pf_kit_load(&k, image, n, memory, pf_kit_size(), &error) == PF_OK)) {
        free(memory);
        return;
    }
    pf_kit_info info = pf_kit_get_info(k);
    CHECK(info.n_mech == whole->n_mech && info.n_chan == whole->n_chan);
    CHECK(info.n_probes == whole->n_probes && info.n_tasks == whole->n_tasks);
    CHECK(info.rules.field == (whole->field != 0) && info.rules.budget2 == whole->budget2);
    CHECK(memcmp(info.sha256, whole->sha256, 32) == 0 && !info.recorded);
    for (int q = 0; q < info.n_probes; q++) {
        const int32_t *targets = NULL;
        int rows = pf_kit_probe_rows(k, q), m = pf_kit_probe_targets(k, q, &targets);
        size_t row = (size_t)whole->probe_row[q] * (size_t)info.n_mech;
        CHECK(rows <= info.most_rows && m <= info.most_targets);
        CHECK(memcmp(pf_kit_probe_command(k, q), whole->command + row,
                     sizeof(double) * (size_t)rows * (size_t)info.n_mech) == 0);
        CHECK(pf_kit_probe_charge(k, q) == whole->charge[q]);
        CHECK(targets[m - 1] == whole->target_mech[whole->probe_target[q + 1] - 1]);
        CHECK(pf_kit_probe_sigma(k, q)[m - 1] == whole->sigma[whole->probe_target[q + 1] - 1]);
    }
    for (int t = 0; t < info.n_tasks; t++) {
        const int32_t *uses = NULL;
        CHECK(pf_kit_task_mechanisms(k, t, &uses) > 0 &&
              uses[0] == whole->use_mech[whole->task_use[t]]);
        CHECK(pf_kit_task_command(k, t)[0] ==
              whole->task_command[(size_t)whole->task_row[t] * (size_t)info.n_mech]);
        CHECK(pf_kit_task_reveal(k, t) == whole->task_reveal[t]);
        CHECK(pf_kit_task_importance(k, t) == whole->task_importance[t]);
    }
    CHECK(pf_kit_threshold(k, 0) == whole->threshold[0]);
    free(memory);
}

void test_kit(void)
{
    test_whole();
    test_view();
    test_damage();
    check_kit_sections();
    test_dims();
    copy full = full_kit();
    PF_CASE("kit: every number out of its range is named");
    test_ranges(&full);
    test_scalars(&full);
    test_settings_of(&full);
    PF_CASE("kit: every broken rule on the structure is named");
    test_structure(&full);
    test_misfits(&full);
    test_too_many_targets();
    PF_CASE("kit: bad names are refused");
    test_names(&full);
    PF_CASE("kit show --json: every key, every number to the bit");
    check_kit_json(attitude_kit());
    PF_CASE("kit show --json: curves, full rows and recorded responses too");
    check_kit_json(&full.kit);
    free(full.bytes);
}
