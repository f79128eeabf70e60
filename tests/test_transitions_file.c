// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "program.h"
#include "model/transitions.h"
#include "core/sha256.h"
#include "test.h"
#include "transitions.h"

#include "host/file.h"
#include "preflight/kit.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// A small file, and a copy to damage.
typedef struct victim {
    char good[256], bad[256];
    uint8_t *bytes, *copy;
    size_t size;
} victim;

// Without waiting for the disk, which pf__file_write does.
static bool put(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    bool good = f && fwrite(bytes, 1, n, f) == n;
    return f && fclose(f) == 0 && good;
}

// The file with the copy's first `size` bytes is refused, in one line that names it.
static bool refuses(const victim *v, size_t size, pf_status expected, const char *part)
{
    pf_error error = {PF_OK, ""};
    pf_transitions *data = NULL;
    bool good = put(v->bad, v->copy, size);
    pf_status status = pf_transitions_open(&data, v->bad, &error);
    good = good && status == expected && error.code == status && !data &&
           strstr(error.text, v->bad) && strstr(error.text, part) && !strchr(error.text, '\n');
    if (!good) {
        printf("    status %s, expected %s; no \"%s\" in: %s\n", pf_status_name(status),
               pf_status_name(expected), part, error.text);
    }
    pf_transitions_close(data);
    return good;
}

// Makes the checksum of the copy right again.
static void seal(const victim *v)
{
    pf_sha256 sha;
    pf__sha256_init(&sha);
    pf__sha256_update(&sha, v->copy, v->size - 32);
    pf__sha256_final(&sha, v->copy + v->size - 32);
}

// Puts bytes into a fresh copy at an offset and seals it.
static void patch(const victim *v, size_t at, const void *value, size_t n)
{
    memcpy(v->copy, v->bytes, v->size);
    memcpy(v->copy + at, value, n);
    seal(v);
}

static void test_damage(const victim *v)
{
    PF_CASE("open: the file itself is fine");
    pf_transitions_close(transitions_open(v->good));
    PF_CASE("open: any flipped bit is refused");
    for (size_t i = 0; i < v->size; i += i < 400 || i + 40 > v->size ? 1 : 97) {
        memcpy(v->copy, v->bytes, v->size);
        v->copy[i] ^= (uint8_t)(1 << i % 8);
        pf_error error = {PF_OK, ""};
        pf_transitions *data = NULL;
        CHECK(put(v->bad, v->copy, v->size));
        CHECK(pf_transitions_open(&data, v->bad, &error) != PF_OK && !data);
        CHECK_CONTAINS(error.text, v->bad);
    }
    memcpy(v->copy, v->bytes, v->size);
    v->copy[v->size / 2] ^= 1;
    CHECK(refuses(v, v->size, PF_ERR_CHECKSUM, "is damaged"));
    v->copy[0] = 'p';
    CHECK(refuses(v, v->size, PF_ERR_FORMAT, "not a preflight data file"));
    PF_CASE("open: a file cut anywhere is refused");
    memcpy(v->copy, v->bytes, v->size);
    CHECK(refuses(v, 0, PF_ERR_FORMAT, "not a preflight data file"));
    CHECK(refuses(v, 7, PF_ERR_FORMAT, "not a preflight data file"));
    static const size_t cuts[] = {8, 12, 87, 88, 119, 120, 200, 1000};
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        CHECK(refuses(v, cuts[i], PF_ERR_FORMAT, "is cut off"));
    }
    CHECK(refuses(v, v->size - 1, PF_ERR_FORMAT, "is cut off"));
    CHECK(refuses(v, v->size - 32, PF_ERR_FORMAT, "is cut off"));
    PF_CASE("open: a longer file is refused");
    CHECK(refuses(v, v->size + 1, PF_ERR_FORMAT, "has trailing bytes"));
}

static void test_counts(const victim *v)
{
    static const uint32_t absurd[] = {0,          1u << 16,   0x10000001, 0x1fffffff,
                                      0x20000000, 0x7fffffff, 0x80000000, 0xffffffff};
    PF_CASE("open: absurd counts with a right checksum are refused");
    for (size_t at = 12; at < 40; at += 4) { // n_chan to n_text
        for (size_t i = 0; i < sizeof absurd / sizeof absurd[0]; i++) {
            if (at == 32 && absurd[i] == 0) {
                continue; // no disturbance
            }
            patch(v, at, &absurd[i], 4);
            CHECK(refuses(v, v->size, PF_ERR_FORMAT, ""));
        }
    }
    PF_CASE("open: counts that change the meaning but not the size are refused");
    // 95 transitions in episodes of 10: 10 episodes of any 10 steps or of 11
    uint32_t steps = 11, episodes = 9;
    patch(v, 20, &episodes, 4);
    CHECK(refuses(v, v->size, PF_ERR_FORMAT, "95 transitions are not 9 episodes of 10 steps"));
    patch(v, 24, &steps, 4);
    CHECK(refuses(v, v->size, PF_ERR_FORMAT, "95 transitions are not 10 episodes of 11 steps"));
    PF_CASE("open: other versions are refused");
    for (uint32_t version = 0; version < 5; version += version == 1 ? 2 : 1) {
        patch(v, 8, &version, 4);
        CHECK(refuses(v, v->size, PF_ERR_VERSION, "format version "));
    }
    PF_CASE("open: settings that make no sense are refused");
    static const double values[] = {NAN, INFINITY, -INFINITY, -1};
    for (size_t at = 48; at < 80; at += 8) { // dt_s to single
        for (size_t i = 0; i < 4; i++) {
            patch(v, at, &values[i], 8);
            CHECK(refuses(v, v->size, PF_ERR_FORMAT, "is out of range"));
        }
    }
}

// The layout of docs/formats.md, computed anew: 5 mechanisms, 6 channels, 95 steps in 10 episodes.
enum {
    LIMITS = 88,
    KINDS = LIMITS + 5 * 16,
    TEXT = KINDS + 6 * 4,
    N_TEXT = 4 + 8 + 2 * 5 + 6 + 5 + 5 + 7 + 5 + 10,
    CHANNELS = TEXT + (N_TEXT + 7) / 8 * 8,
    COMMANDS = CHANNELS + (95 + 10) * 6 * 8,
    DIGEST = COMMANDS + (95 * 5 * 4 + 7) / 8 * 8
};

static void test_numbers(const victim *v)
{
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    PF_CASE("open: the layout is the documented one");
    CHECK(v->size == DIGEST + 32);
    CHECK_STR((const char *)v->bytes + TEXT, "own");
    CHECK_STR((const char *)v->bytes + TEXT + 4, "tests 1");
    PF_CASE("open: a number that is not finite is refused, wherever it stands");
    for (size_t i = 0; i < 3; i++) {
        float command = (float)bad[i];
        patch(v, CHANNELS, &bad[i], 8);
        CHECK(refuses(v, v->size, PF_ERR_NONFINITE, "episode 0, step 0: channel a is not finite"));
        patch(v, CHANNELS + (11 * 6 + 7) * 8, &bad[i], 8);
        CHECK(refuses(v, v->size, PF_ERR_NONFINITE, "episode 1, step 1: channel w"));
        patch(v, COMMANDS - 8, &bad[i], 8);
        CHECK(refuses(v, v->size, PF_ERR_NONFINITE, "episode 9, step 5: channel count"));
        patch(v, COMMANDS, &command, 4);
        CHECK(refuses(v, v->size, PF_ERR_NONFINITE, "episode 0, step 0: command"));
        patch(v, COMMANDS + 4 * (95 * 5 - 4), &command, 4);
        CHECK(refuses(v, v->size, PF_ERR_NONFINITE, "episode 9, step 4: command"));
    }
    PF_CASE("open: a command beyond the limits is refused");
    float beyond = .3f; // larger than .3
    patch(v, COMMANDS + 4 * 2, &beyond, 4);
    CHECK(refuses(v, v->size, PF_ERR_FORMAT, "command 0.3 of narrow is not within -0.1 to 0.3"));
    beyond = 0;
    patch(v, COMMANDS + 4 * 3, &beyond, 4);
    CHECK(refuses(v, v->size, PF_ERR_FORMAT, "command 0 of late"));
    PF_CASE("open: limits, kinds and names that make no sense are refused");
    double upside_down = 2000;
    patch(v, LIMITS, &upside_down, 8);
    CHECK(refuses(v, v->size, PF_ERR_FORMAT, "limits 2000 to 1000 of mechanism wide"));
    patch(v, LIMITS, &bad[0], 8);
    CHECK(refuses(v, v->size, PF_ERR_FORMAT, "of mechanism wide"));
    uint32_t kind = 3;
    patch(v, KINDS, &kind, 4);
    CHECK(refuses(v, v->size, PF_ERR_FORMAT, "unknown kind 3"));
    kind = 2;
    patch(v, KINDS, &kind, 4);
    CHECK(refuses(v, v->size, PF_ERR_FORMAT, "channel 4 opens a quaternion"));
    // a quaternion that would go on in the names: 13 of them still, the first ones like kinds
    uint32_t end[4] = {2, 2, 2, 2};
    char names[N_TEXT];
    memset(names, 'x', sizeof names);
    memcpy(names, end, 12);
    names[20] = names[30] = names[40] = names[N_TEXT - 1] = 0;
    patch(v, TEXT, names, sizeof names);
    CHECK(put(v->bad, v->copy, v->size));
    pf_transitions_close(transitions_open(v->bad)); // the names alone would do
    memcpy(v->copy + KINDS + 5 * 4, end, 4);
    seal(v);
    CHECK(refuses(v, v->size, PF_ERR_FORMAT, "channel 5 opens a quaternion"));
    patch(v, TEXT + 1, "\0", 1);
    CHECK(refuses(v, v->size, PF_ERR_FORMAT, "the names do not match"));
    patch(v, TEXT + 3, "x", 1);
    CHECK(refuses(v, v->size, PF_ERR_FORMAT, "the names do not match"));
    patch(v, TEXT + N_TEXT - 1, "x", 1);
    CHECK(refuses(v, v->size, PF_ERR_FORMAT, "the names do not match"));
}

static void test_no_file(const char *folder)
{
    char path[256];
    pf_error error = {PF_OK, ""};
    pf_transitions *data = NULL;
    PF_CASE("open: what is no file is refused, not waited for");
    snprintf(path, sizeof path, "%s/nosuch", folder);
    CHECK(pf_transitions_open(&data, path, &error) == PF_ERR_FILE && !data);
    CHECK_CONTAINS(error.text, path);
    CHECK(pf_transitions_open(&data, folder, &error) == PF_ERR_FILE && !data);
    CHECK_CONTAINS(error.text, "is a folder");
    snprintf(path, sizeof path, "%s/pipe", folder);
    CHECK(mkfifo(path, 0666) == 0);
    CHECK(pf_transitions_open(&data, path, &error) == PF_ERR_FILE && !data);
    CHECK_CONTAINS(error.text, "pipe");
}

// --- what fits

// The message names the difference with both values, the file and what to do.
static void misfit(const pf_transitions *data, const pf_train_settings *s,
                   const pf_plant_info *info, const char *path, const char *part)
{
    pf_error error = {PF_OK, ""};
    CHECK(pf_transitions_fit(data, s, info, &error) == PF_ERR_MISMATCH);
    char tail[300];
    snprintf(tail, sizeof tail, "; remove %s or name another with --data", path);
    CHECK_CONTAINS(error.text, part);
    CHECK_CONTAINS(error.text, tail);
}

static void test_fit_settings(const pf_transitions *data, const char *path)
{
    pf_plant_class c = transitions_class();
    pf_train_settings good = transitions_settings(95, 10), s = good;
    pf_error error = {PF_OK, ""};
    PF_CASE("fit: the same settings, whatever the training's are");
    s.epochs = 17;
    s.width = 3;
    CHECK(pf_transitions_fit(data, &s, &c.info, &error) == PF_OK);
    PF_CASE("fit: each setting that differs is named");
    s = good, s.transitions = 96;
    misfit(data, &s, &c.info, path, "number of transitions is 95 in the data and 96 here");
    s = good, s.episode_steps = 9;
    misfit(data, &s, &c.info, path, "steps of an episode is 10 in the data and 9 here");
    s = good, s.correlation = nextafter(.8, 1);
    misfit(data, &s, &c.info, path, "correlation is 0.8 in the data and 0.8000000000000002 here");
    s = good, s.amplitude = .2;
    misfit(data, &s, &c.info, path, "amplitude is 0.1 in the data and 0.2 here");
    s = good, s.single = 0;
    misfit(data, &s, &c.info, path, "single mechanisms is 0.25 in the data and 0 here");
    s = good, s.disturbance = false;
    misfit(data, &s, &c.info, path, "disturbance is on in the data and off here");
    s = good, s.seed = UINT64_MAX;
    misfit(data, &s, &c.info, path, "seed is 5 in the data and 18446744073709551615 here");
}

static void test_fit_plant(const pf_transitions *data, const char *path)
{
    pf_plant_class c = transitions_class();
    const pf_plant_info good = c.info;
    pf_plant_info p = good;
    pf_train_settings s = transitions_settings(95, 10);
    pf_mechanism m[5];
    pf_channel x[6];
    PF_CASE("fit: each part of the plant that differs is named");
    p.name = "other";
    misfit(data, &s, &p, path, "the plant is 'own' in the data and 'other' here");
    p = good, p.source = NULL;
    misfit(data, &s, &p, path, "source is 'tests 1' in the data and '' here");
    p = good, p.dt_s = .5;
    misfit(data, &s, &p, path, "time step is 0.25 in the data and 0.5 here");
    p = good, p.n_chan = 5;
    misfit(data, &s, &p, path, "number of channels is 6 in the data and 5 here");
    p = good, p.n_mech = 4;
    misfit(data, &s, &p, path, "number of mechanisms is 5 in the data and 4 here");
    p = good, p.kinds = NULL;
    misfit(data, &s, &p, path, "kind of channel a is angle in the data and plain here");
    p = good, p.channels = memcpy(x, good.channels, sizeof x), x[5].name = "clock";
    misfit(data, &s, &p, path, "channel 5 is 'count' in the data and 'clock' here");
    p = good, p.mechanisms = memcpy(m, good.mechanisms, sizeof m), m[4].name = "half";
    misfit(data, &s, &p, path, "mechanism 4 is 'one-sided' in the data and 'half' here");
    memcpy(m, good.mechanisms, sizeof m), m[2].lo = -.2;
    misfit(data, &s, &p, path, "lower limit of narrow is -0.1 in the data and -0.2 here");
    memcpy(m, good.mechanisms, sizeof m), m[1].hi = 1;
    misfit(data, &s, &p, path, "upper limit of free is inf in the data and 1 here");
}

// --- `data show`

static json_t *shown(const char *folder, const char *path)
{
    char arguments[600], output[256];
    snprintf(output, sizeof output, "%s/shown", folder);
    snprintf(arguments, sizeof arguments, "data show '%s' --json >'%s'", path, output);
    CHECK(program(arguments, 0, ""));
    json_t *json = json_load_file(output, JSON_REJECT_DUPLICATES, NULL);
    CHECK(json_is_object(json));
    return json;
}

static double number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

// Two passes over what the program sums in one.
static double plain_sd(const double *values, int n)
{
    double mean = 0, squares = 0;
    for (int i = 0; i < n; i++) {
        mean += values[i] / n;
    }
    for (int i = 0; i < n; i++) {
        squares += (values[i] - mean) * (values[i] - mean);
    }
    return sqrt(squares / (n - 1));
}

static void check_tables(const pf_transitions *data, const json_t *json)
{
    double level[105], change[95], command[95];
    int n_level = 0, n_change = 0, active = 0;
    for (int e = 0; e < 10; e++) {
        const double *x;
        const float *u;
        int steps = pf__transitions_episode(data, e, &x, &u);
        for (int r = 0; r <= steps; r++) {
            level[n_level++] = x[r * 6];
            if (r > 0) {
                command[n_change] = (double)u[(r - 1) * 5 + 1];
                active += u[(r - 1) * 5 + 1] != 0;
                change[n_change++] = x[r * 6] - x[(r - 1) * 6];
            }
        }
    }
    const json_t *angle = json_array_get(json_object_get(json, "channels"), 0);
    const json_t *count = json_array_get(json_object_get(json, "channels"), 5);
    const json_t *mechanism = json_array_get(json_object_get(json, "mechanisms"), 1);
    CHECK_STR(json_string_value(json_object_get(angle, "name")), "a");
    CHECK_STR(json_string_value(json_object_get(angle, "kind")), "angle");
    CHECK_NEAR(number_of(angle, "sd"), plain_sd(level, n_level), 1e-9);
    CHECK_NEAR(number_of(angle, "change_sd"), plain_sd(change, n_change), 1e-9);
    CHECK(number_of(count, "min") == 0 && number_of(count, "max") == 10);
    CHECK_NEAR(number_of(count, "mean"), (9 * 55 + 15) / 105., 1e-12);
    CHECK(number_of(count, "change_sd") == 0);
    CHECK_STR(json_string_value(json_object_get(mechanism, "name")), "free");
    CHECK(json_is_null(json_object_get(mechanism, "lo")));
    CHECK_NEAR(number_of(mechanism, "sd"), plain_sd(command, n_change), 1e-12);
    CHECK_NEAR(number_of(mechanism, "active"), active / 95., 1e-12);
    CHECK(active > 0 && active < 95);
}

static void test_show(const char *folder, const victim *v, const pf_transitions *data)
{
    char arguments[1000];
    PF_CASE("data show: as JSON, every number");
    json_t *json = shown(folder, v->good);
    CHECK_STR(json_string_value(json_object_get(json, "format")), "preflight-data");
    CHECK_STR(json_string_value(json_object_get(json, "plant")), "own");
    CHECK_STR(json_string_value(json_object_get(json, "source")), "tests 1");
    CHECK_STR(json_string_value(json_object_get(json, "sha256")),
              pf_transitions_get_info(data)->sha256);
    CHECK(number_of(json, "bytes") == (double)v->size);
    CHECK(number_of(json, "episodes") == 10 && number_of(json, "steps") == 10);
    CHECK(number_of(json, "transitions") == 95 && number_of(json, "dt") == .25);
    CHECK(number_of(json, "correlation") == .8 && number_of(json, "amplitude") == .1);
    CHECK(number_of(json, "single") == .25 && number_of(json, "seed") == 5);
    CHECK(json_is_true(json_object_get(json, "disturbance")));
    CHECK(json_array_size(json_object_get(json, "channels")) == 6);
    CHECK(json_array_size(json_object_get(json, "mechanisms")) == 5);
    check_tables(data, json);
    json_decref(json);
    PF_CASE("data show: for people");
    snprintf(arguments, sizeof arguments, "data show '%s'", v->good);
    CHECK(program(arguments, 0, "plant          own (tests 1)"));
    CHECK(program(arguments, 0, pf_transitions_get_info(data)->sha256));
    CHECK(program(arguments, 0, "10 of 10 steps, 95 transitions in all"));
    CHECK(program(arguments, 0, "quaternion"));
    snprintf(arguments, sizeof arguments,
             "data show '%s' >'%s.shown'; tr -s ' ' <'%s.shown' | grep -q '^one-sided 0 inf '",
             v->good, v->good, v->good);
    CHECK(program(arguments, 0, ""));
    PF_CASE("data show: damaged files are 3, a full output is no success");
    memcpy(v->copy, v->bytes, v->size);
    v->copy[v->size / 2] ^= 4;
    CHECK(refuses(v, v->size, PF_ERR_CHECKSUM, "is damaged"));
    snprintf(arguments, sizeof arguments, "data show '%s'", v->bad);
    CHECK(program(arguments, 3, "is damaged"));
    snprintf(arguments, sizeof arguments, "data show '%s' >/dev/full", v->good);
    CHECK(program(arguments, 3, "")); // the message goes to the error output, /dev/full took ours
}

void check_transitions_file(const char *folder)
{
    victim v = {.bytes = NULL};
    pf_error error = {PF_OK, ""};
    pf_plant_class c = transitions_class();
    pf_train_settings s = transitions_settings(95, 10);
    void *bytes = NULL;
    snprintf(v.good, sizeof v.good, "%s/good", folder);
    snprintf(v.bad, sizeof v.bad, "%s/bad", folder);
    PF_CASE("open: a file to damage");
    CHECK(transitions_make(&c, &s, v.good, 2, &error) == PF_OK);
    CHECK(pf__file_read(v.good, (size_t)1 << 24, &bytes, &v.size, &error) == PF_OK);
    v.bytes = bytes;
    v.copy = calloc(1, v.size + 1);
    test_damage(&v);
    test_counts(&v);
    test_numbers(&v);
    test_no_file(folder);
    pf_transitions *data = transitions_open(v.good);
    test_fit_settings(data, v.good);
    test_fit_plant(data, v.good);
    test_show(folder, &v, data);
    pf_transitions_close(data);
    free(v.bytes);
    free(v.copy);
}
