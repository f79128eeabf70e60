// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "program.h"
#include "model/transitions.h"
#include "core/rng.h"
#include "core/sha256.h"
#include "test.h"
#include "transitions.h"

#include "host/file.h"
#include "preflight/kit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// --- a plant of our own: each state follows one command, the last one counts steps

enum { N_MECH = 5, N_CHAN = 6, COUNTER = 5 };

static const pf_mechanism mechanisms[N_MECH] = {{"wide", -1000, 1000},
                                                {"free", -INFINITY, INFINITY},
                                                {"narrow", -.1, .3},
                                                {"late", .7, 1.3},
                                                {"one-sided", 0, INFINITY}};
static const double amplitude[N_MECH] = {9, -.5, 9, 9, .25};
static const pf_pulse probe = {.steps = 1, .rows = 1, .amplitude = amplitude};
static const pf_channel channels[N_CHAN] = {{.name = "a"}, {.name = "w"}, {.name = "x"},
                                            {.name = "y"}, {.name = "z"}, {.name = "count"}};
static const pf_channel_kind kinds[N_CHAN] = {PF_CHANNEL_ANGLE,      PF_CHANNEL_QUATERNION,
                                              PF_CHANNEL_QUATERNION, PF_CHANNEL_QUATERNION,
                                              PF_CHANNEL_QUATERNION, PF_CHANNEL_PLAIN};

static void reset(double *x, pf_rng *rng)
{
    for (int i = 0; i < COUNTER; i++) {
        x[i] = rng ? pf_rng_uniform(rng) : .5;
    }
    x[COUNTER] = 0;
}

static void advance(const double *knob, double *x, const double *v, const double *w)
{
    (void)knob, (void)w;
    for (int i = 0; i < COUNTER; i++) {
        x[i] = .9 * x[i] + v[i];
    }
    x[COUNTER] += 1;
}

// Fails where the draw of the reset is large.
static void advance_or_fail(const double *knob, double *x, const double *v, const double *w)
{
    double first = x[0];
    bool fails = x[COUNTER] == 0 && first > .8;
    advance(knob, x, v, w);
    x[0] = fails ? INFINITY : x[0];
}

static void output(const double *knob, const double *x, const double *v, const double *w, double *y)
{
    (void)knob, (void)v, (void)w;
    memcpy(y, x, sizeof(double) * N_CHAN);
}

static void output_after(const double *knob, const double *x, const double *v, const double *w,
                         double *y)
{
    output(knob, x, v, w, y);
    y[1] = x[COUNTER] == 0 ? NAN : y[1];
}

static void output_until(const double *knob, const double *x, const double *v, const double *w,
                         double *y)
{
    output(knob, x, v, w, y);
    y[1] = x[COUNTER] == 7 ? NAN : y[1];
}

pf_plant_class transitions_class(void)
{
    return (pf_plant_class){.info = {.name = "own",
                                     .source = "tests 1",
                                     .n_mech = N_MECH,
                                     .n_chan = N_CHAN,
                                     .n_state = N_CHAN,
                                     .dt_s = .25,
                                     .mechanisms = mechanisms,
                                     .channels = channels,
                                     .kinds = kinds,
                                     .probe = &probe},
                            .reset = reset,
                            .advance = advance,
                            .output = output};
}

pf_train_settings transitions_settings(int transitions, int steps)
{
    return (pf_train_settings){.transitions = transitions,
                               .episode_steps = steps,
                               .correlation = .8,
                               .amplitude = .1,
                               .single = .25,
                               .disturbance = true,
                               .seed = 5};
}

pf_status transitions_make(const pf_plant_class *c, const pf_train_settings *s, const char *path,
                           int threads, pf_error *error)
{
    pf_plant *plant = NULL;
    pf_effort effort = {.threads = threads};
    *error = (pf_error){PF_OK, ""};
    pf_status status = pf_plant_from_class(&plant, c, error);
    if (status == PF_OK) {
        status = pf_transitions_make(s, plant, path, &effort, error);
    }
    pf_plant_destroy(plant);
    return status;
}

pf_transitions *transitions_open(const char *path)
{
    pf_error error = {PF_OK, ""};
    pf_transitions *data = NULL;
    pf_status status = pf_transitions_open(&data, path, &error);
    CHECK_STR(error.text, "");
    CHECK(status == PF_OK && data);
    return data;
}

typedef struct bytes {
    uint8_t *data;
    size_t size;
} bytes;

static bytes read_bytes(const char *path)
{
    pf_error error;
    void *data = NULL;
    bytes b = {NULL, 0};
    CHECK(pf__file_read(path, (size_t)1 << 28, &data, &b.size, &error) == PF_OK);
    b.data = data;
    return b;
}

static bool exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

// --- making

static void test_threads(const char *folder)
{
    char one[256], two[256];
    pf_error error;
    pf_plant_class c = *pf_plant_at(0);
    pf_train_settings s = transitions_settings(1003, 20);
    snprintf(one, sizeof one, "%s/one", folder);
    snprintf(two, sizeof two, "%s/two", folder);
    PF_CASE("make: the same bytes for 1, 2 and 5 threads, others for another seed");
    CHECK(transitions_make(&c, &s, one, 1, &error) == PF_OK);
    bytes a = read_bytes(one);
    for (int threads = 2; threads <= 5; threads += 3) {
        CHECK(transitions_make(&c, &s, two, threads, &error) == PF_OK);
        bytes b = read_bytes(two);
        CHECK(a.size == b.size && a.size > 1000 && memcmp(a.data, b.data, a.size) == 0);
        free(b.data);
    }
    s.seed++;
    CHECK(transitions_make(&c, &s, two, 2, &error) == PF_OK);
    bytes b = read_bytes(two);
    CHECK(a.size == b.size && memcmp(a.data + 200, b.data + 200, a.size - 300) != 0);
    PF_CASE("make: the digest is that of the whole file");
    pf_transitions *data = transitions_open(one);
    pf_sha256 sha;
    uint8_t digest[32];
    char text[65];
    pf__sha256_init(&sha);
    pf__sha256_update(&sha, a.data, a.size);
    pf__sha256_final(&sha, digest);
    pf__sha256_text(digest, text);
    CHECK_STR(pf_transitions_get_info(data)->sha256, text);
    pf_transitions_close(data);
    pf_transitions_close(NULL);
    free(a.data);
    free(b.data);
}

// Every stored episode is what the plant does on the same key and commands.
static void check_episodes(pf_plant *plant, const pf_transitions *data)
{
    const pf_transitions_info *info = pf_transitions_get_info(data);
    double *command = calloc((size_t)info->steps * (size_t)info->n_mech, sizeof(double));
    size_t row = (size_t)info->n_chan;
    double *rows = calloc(((size_t)info->steps + 1) * row, sizeof(double));
    int total = 0;
    for (int e = 0; e < info->n_episodes; e++) {
        const double *x = NULL;
        const float *u = NULL;
        int steps = pf__transitions_episode(data, e, &x, &u);
        CHECK(steps == (e + 1 < info->n_episodes ? info->steps : info->transitions - total));
        for (int i = 0; i < steps * info->n_mech; i++) {
            command[i] = (double)u[i];
        }
        pf_roll roll = pf_roll_default();
        roll.key = pf_key_stream(info->seed, pf_plant_environment(pf_plant_get_info(plant)),
                                 (uint64_t)e, PF_PURPOSE_TRAINING, 0);
        roll.command = command;
        roll.rows = steps;
        roll.disturbance = info->disturbance;
        pf_error error = {PF_OK, ""};
        CHECK(pf_plant_roll(plant, &roll, &(pf_trace){.initial = rows, .output = rows + row},
                            &error) == PF_OK);
        CHECK(memcmp(x, rows, sizeof(double) * ((size_t)steps + 1) * row) == 0);
        total += steps;
    }
    CHECK(total == info->transitions);
    free(command);
    free(rows);
}

static void test_episodes(const char *folder)
{
    char path[256];
    pf_error error = {PF_OK, ""};
    static const struct {
        int transitions, steps, episodes;
        bool disturbance;
    } shapes[] = {{200, 20, 10, true}, {201, 20, 11, false}, {7, 20, 1, true}, {3, 1, 3, true}};
    snprintf(path, sizeof path, "%s/episodes", folder);
    PF_CASE("make: every episode is the plant's own answer to the bit, the last one shorter");
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        pf_train_settings s = transitions_settings(shapes[i].transitions, shapes[i].steps);
        s.disturbance = shapes[i].disturbance;
        pf_plant *plant = NULL;
        CHECK(pf_plant_create(&plant, "attitude", &error) == PF_OK);
        CHECK(pf_transitions_make(&s, plant, path, NULL, &error) == PF_OK);
        pf_transitions *data = transitions_open(path);
        const pf_transitions_info *info = pf_transitions_get_info(data);
        CHECK_STR(info->plant, "attitude");
        CHECK(info->n_episodes == shapes[i].episodes && info->steps == shapes[i].steps);
        check_episodes(plant, data);
        const double *x;
        const float *u;
        CHECK(pf__transitions_episode(data, -1, &x, &u) == 0 && !x && !u);
        CHECK(pf__transitions_episode(data, info->n_episodes, &x, &u) == 0 && !x && !u);
        CHECK(pf_transitions_fit(data, &s, pf_plant_get_info(plant), &error) == PF_OK);
        pf_transitions_close(data);
        pf_plant_destroy(plant);
    }
    PF_CASE("make: a knob of the plant goes to every worker");
    pf_train_settings s = transitions_settings(100, 10);
    pf_plant *plant = NULL;
    CHECK(pf_plant_create(&plant, "attitude", &error) == PF_OK);
    const pf_knob *knob = &pf_plant_get_info(plant)->knobs[0];
    CHECK(pf_plant_set_knob(plant, knob->name, knob->value + .1, &error) == PF_OK);
    CHECK(pf_transitions_make(&s, plant, path, NULL, &error) == PF_OK);
    pf_transitions *data = transitions_open(path);
    check_episodes(plant, data);
    pf_transitions_close(data);
    pf_plant_destroy(plant);
}

// --- the law of the commands

// What an AR(1) law shows: lag-one correlation and standard deviation, around a known mean of 0.
static void moments(const pf_transitions *data, int j, double *correlation, double *sd, double *sd0)
{
    const pf_transitions_info *info = pf_transitions_get_info(data);
    double cross = 0, square = 0, first = 0;
    int pairs = 0, n = 0;
    for (int e = 0; e < info->n_episodes; e++) {
        const double *x;
        const float *u;
        int steps = pf__transitions_episode(data, e, &x, &u);
        for (int r = 0; r < steps; r++, n++) {
            double now = (double)u[r * info->n_mech + j];
            square += now * now;
            first += r == 0 ? now * now : 0;
            if (r > 0) {
                cross += now * (double)u[(r - 1) * info->n_mech + j];
                pairs++;
            }
        }
    }
    *correlation = cross / pairs / (square / n);
    *sd = sqrt(square / n);
    *sd0 = sqrt(first / info->n_episodes);
}

static void check_limits(const pf_transitions *data)
{
    const pf_transitions_info *info = pf_transitions_get_info(data);
    int beyond = 0, at_lo = 0, at_hi = 0, below = 0;
    for (int e = 0; e < info->n_episodes; e++) {
        const double *x;
        const float *u;
        int steps = pf__transitions_episode(data, e, &x, &u);
        for (int i = 0; i < steps * N_MECH; i++) {
            beyond += (double)u[i] < mechanisms[i % N_MECH].lo;
            beyond += (double)u[i] > mechanisms[i % N_MECH].hi;
        }
        for (int r = 0; r < steps; r++) {
            // .1 and .3 are no float32: the nearest one inside stands for them
            at_lo += u[r * N_MECH + 2] == nextafterf(-.1f, 0);
            at_hi += u[r * N_MECH + 2] == nextafterf(.3f, 0);
            below += u[r * N_MECH + 4] == 0;
        }
    }
    CHECK(beyond == 0);
    CHECK((double)nextafterf(-.1f, 0) > -.1 && (double)nextafterf(.3f, 0) < .3);
    // P(N(0, .3) < -.1) = .369, P(> .3) = .159, P(N(0, 1) < 0) = .5
    CHECK_NEAR(at_lo / (double)info->transitions, .3694, .02);
    CHECK_NEAR(at_hi / (double)info->transitions, .1587, .01);
    CHECK_NEAR(below / (double)info->transitions, .5, .02);
}

static double mean_command(const pf_transitions *data, int j)
{
    const pf_transitions_info *info = pf_transitions_get_info(data);
    double sum = 0;
    for (int e = 0; e < info->n_episodes; e++) {
        const double *x;
        const float *u;
        int steps = pf__transitions_episode(data, e, &x, &u);
        for (int t = 0; t < steps; t++) {
            sum += (double)u[t * info->n_mech + j];
        }
    }
    return sum / info->transitions;
}

static void test_law(const char *folder)
{
    char path[256];
    pf_error error;
    pf_plant_class c = transitions_class();
    pf_train_settings s = transitions_settings(24000, 40);
    snprintf(path, sizeof path, "%s/law", folder);
    s.single = 0;
    static const double phis[] = {0, .5, .9};
    for (size_t i = 0; i < sizeof phis / sizeof phis[0]; i++) {
        PF_CASE("law: AR(1) of the asked correlation and amplitude, stationary from the start");
        s.correlation = phis[i];
        CHECK(transitions_make(&c, &s, path, 2, &error) == PF_OK);
        pf_transitions *data = transitions_open(path);
        // a thousand from rest, and four probe amplitudes of .5, times .1; five standard errors
        static const double sds[] = {100, .2};
        for (int j = 0; j < 2; j++) {
            double correlation, sd, sd0;
            moments(data, j, &correlation, &sd, &sd0);
            double phi = phis[i], loss = (1 + phi * phi) / (1 - phi * phi);
            CHECK_NEAR(correlation, phi, 5 * sqrt((1 - phi * phi) / 24000) + .002);
            CHECK_NEAR(sd / sds[j], 1, 5 * sqrt(loss / 48000));
            CHECK_NEAR(sd0 / sds[j], 1, 5 * sqrt(1 / 1200.));
        }
        // one way only, .6 from rest: half of a normal of sd .06
        double excess = mean_command(data, 3) - (double).7f;
        CHECK_NEAR(excess / (.06 / sqrt(2 * acos(-1))), 1, 10 * sqrt(1 / 24000. / (1 - phis[i])));
        pf_transitions_close(data);
    }
    PF_CASE("law: limits hold and are reached");
    s.amplitude = 1;
    s.transitions = 12000;
    s.correlation = .2;
    CHECK(transitions_make(&c, &s, path, 2, &error) == PF_OK);
    pf_transitions *data = transitions_open(path);
    check_limits(data);
    pf_transitions_close(data);
}

// How many mechanisms move in an episode; the last one of them.
static int moving(const pf_transitions *data, int episode, int *which)
{
    const double *x;
    const float *u;
    int steps = pf__transitions_episode(data, episode, &x, &u), n = 0;
    for (int j = 0; j < N_MECH; j++) {
        float rest = j == 3 ? .7f : 0; // "late" cannot be zero; .7f lies below .7
        rest = (double)rest < mechanisms[j].lo ? nextafterf(rest, 1) : rest;
        bool moves = false;
        for (int r = 0; r < steps; r++) {
            moves = moves || u[r * N_MECH + j] != rest;
        }
        n += moves;
        *which = moves ? j : *which;
    }
    return n;
}

static void test_single(const char *folder)
{
    char path[256];
    pf_error error;
    pf_plant_class c = transitions_class();
    pf_train_settings s = transitions_settings(20 * 1000, 20);
    snprintf(path, sizeof path, "%s/single", folder);
    s.correlation = 0; // a clipped mechanism then leaves its limit within an episode
    static const double shares[] = {0, .25, 1};
    PF_CASE("single: in a share of episodes one mechanism moves and all others rest exactly");
    for (size_t i = 0; i < 3; i++) {
        int alone = 0, others = 0, agree = 0, which[N_MECH] = {0};
        s.single = shares[i];
        CHECK(transitions_make(&c, &s, path, 2, &error) == PF_OK);
        pf_transitions *data = transitions_open(path);
        for (int e = 0; e < 1000; e++) {
            int j = 0, n = moving(data, e, &j);
            alone += n == 1;
            others += n == N_MECH;
            which[j] += n == 1;
            const double *x;
            const float *u;
            pf__transitions_episode(data, e, &x, &u);
            agree += (n == 1) == (x[0] < shares[i]);
        }
        // commands and reset have streams of their own: their first draws agree by chance alone
        double chance = shares[i] * shares[i] + (1 - shares[i]) * (1 - shares[i]);
        CHECK_NEAR(agree / 1000., chance, 5 * sqrt(chance * (1 - chance) / 1000));
        CHECK(alone + others == 1000);
        CHECK_NEAR(alone / 1000., shares[i], 5 * sqrt(shares[i] * (1 - shares[i]) / 1000));
        for (int j = 0; j < N_MECH; j++) {
            double expected = 1000 * shares[i] / N_MECH;
            CHECK_NEAR(which[j], expected, 5 * sqrt(expected));
        }
        pf_transitions_close(data);
    }
}

// --- refusals of the maker

static void refused(const pf_plant_class *c, const pf_train_settings *s, const char *path,
                    const char *part)
{
    pf_error one, two;
    pf_status status = transitions_make(c, s, path, 1, &one);
    CHECK(status != PF_OK && status == transitions_make(c, s, path, 2, &two));
    CHECK_CONTAINS(one.text, part);
    CHECK_STR(two.text, one.text);
    CHECK(!exists(path));
}

static void test_refused(const char *folder)
{
    char path[256];
    pf_train_settings s = transitions_settings(200, 10);
    pf_plant_class c = transitions_class();
    snprintf(path, sizeof path, "%s/refused", folder);
    PF_CASE("make: a plant without channels before the first command is refused");
    c.output = output_after;
    refused(&c, &s, path, "does not tell channel w before the first command");
    PF_CASE("make: a channel that is not finite names episode and step");
    c.output = output_until;
    refused(&c, &s, path, "episode 0: channel w is not finite after step 7");
    PF_CASE("make: a plant that fails names the first episode where it did");
    c = transitions_class();
    c.advance = advance_or_fail;
    s.seed = 6;
    int first = -1;
    for (int e = 0; e < 20 && first < 0; e++) {
        pf_rng rng;
        double x[N_CHAN];
        pf_key key = pf_key_stream(s.seed, "own", (uint64_t)e, PF_PURPOSE_TRAINING, 0);
        pf_rng_init(&rng, pf__key_derive(key, 1)); // the reset's stream
        reset(x, &rng);
        first = x[0] > .8 ? e : first;
    }
    char part[64];
    snprintf(part, sizeof part, "episode %d: own: state 0", first);
    CHECK(first > 0);
    refused(&c, &s, path, part);
    PF_CASE("make: no way to tell how far a mechanism moves");
    c = transitions_class();
    c.info.probe = NULL;
    refused(&c, &s, path, "mechanism free has neither two limits nor a probe amplitude");
    c = transitions_class();
    pf_mechanism wrong[N_MECH];
    memcpy(wrong, mechanisms, sizeof wrong);
    c.info.mechanisms = wrong;
    wrong[0] = (pf_mechanism){"wide", -1e300, 1e300};
    refused(&c, &s, path, "limits -1e300 to 1e300 of mechanism wide");
    wrong[0] = (pf_mechanism){"wide", .1, .1};
    refused(&c, &s, path, "wide cannot be held as float32");
    PF_CASE("make: kinds that make no sense");
    pf_channel_kind broken[N_CHAN];
    memcpy(broken, kinds, sizeof broken);
    c = transitions_class();
    c.info.kinds = broken;
    broken[4] = PF_CHANNEL_PLAIN;
    refused(&c, &s, path, "channel 1 opens a quaternion");
    PF_CASE("make: sizes that make no sense");
    c = transitions_class();
    s.transitions = 0;
    refused(&c, &s, path, "0 transitions");
    s = transitions_settings(10, 1 << 23);
    refused(&c, &s, path, "steps of an episode");
    s = transitions_settings(10, 10);
    s.correlation = 1;
    refused(&c, &s, path, "correlation 1");
}

static void test_refused_more(const char *folder)
{
    char path[256], name[600];
    pf_error error = {PF_OK, ""};
    pf_plant *plant = NULL;
    volatile int stop = 1;
    pf_effort effort = {.threads = 2, .stop = &stop};
    pf_train_settings s = transitions_settings(200, 10);
    snprintf(path, sizeof path, "%s/refused", folder);
    PF_CASE("make: stopped, nothing is left behind");
    CHECK(pf_plant_create(&plant, "attitude", &error) == PF_OK);
    CHECK(pf_transitions_make(&s, plant, path, &effort, &error) == PF_ERR_INTERRUPTED);
    CHECK(!exists(path));
    PF_CASE("make: what cannot be written is named");
    CHECK(pf_transitions_make(&s, plant, folder, NULL, &error) == PF_ERR_FILE);
    CHECK_CONTAINS(error.text, folder);
    CHECK(pf_transitions_make(&s, plant, "/nosuch/x", NULL, &error) == PF_ERR_FILE);
    CHECK_CONTAINS(error.text, "/nosuch/x");
    pf_plant_destroy(plant);
    PF_CASE("make: an external plant that tells nothing before the first command");
    snprintf(name, sizeof name, "exec:exec '%s' no-initial", PF_EXEC_CHILD);
    if (!CHECK(pf_plant_create(&plant, name, &error) == PF_OK)) {
        return;
    }
    CHECK(pf_transitions_make(&s, plant, path, NULL, &error) == PF_ERR_UNSUPPORTED);
    CHECK_CONTAINS(error.text, "mechanism main has neither two limits nor a probe amplitude");
    // the same with a probe: only the first row is missing now
    pf_plant_info *info = (pf_plant_info *)(uintptr_t)pf_plant_get_info(plant);
    info->probe = &probe;
    effort.stop = NULL;
    effort.threads = 1;
    CHECK(pf_transitions_make(&s, plant, path, &effort, &error) == PF_ERR_UNSUPPORTED);
    CHECK_CONTAINS(error.text, "does not tell channel sum before the first command");
    CHECK(!exists(path));
    pf_plant_destroy(plant);
}

void test_transitions(void)
{
    char folder[200];
    PF_CASE("a folder for the files");
    CHECK(program_folder(folder, sizeof folder, "transitions"));
    test_threads(folder);
    test_episodes(folder);
    test_law(folder);
    test_single(folder);
    test_refused(folder);
    test_refused_more(folder);
    check_transitions_file(folder);
}
