// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE // sched_setaffinity
#include "calibrate/fit.h"
#include "core/kit_layout.h"
#include "preflight/run.h"
#include "calibrate/plan.h"
#include "host/file.h"
#include "program.h"
#include "test.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Calibration on the attitude plant: bytes, contents, and what a kit for use does in use.

typedef struct bench {
    pf_plant *plant;
    void *bytes;
    size_t n;
    pf_kit kit;
    pf_check *check;
} bench;

static bool calibrated(bench *b, const pf_plan *plan, int threads)
{
    pf_error error = {PF_OK, ""};
    pf_effort effort = {.threads = threads};
    bool good = pf_calibrate(plan, b->plant, NULL, &effort, &b->bytes, &b->n, &error) == PF_OK &&
                pf__kit_read(&b->kit, b->bytes, b->n, &error) == PF_OK;
    if (!CHECK(good)) {
        printf("%s\n", error.text);
        return false;
    }
    return true;
}

static void release(bench *b)
{
    free(b->bytes);
    pf_check_destroy(b->check);
    pf_plant_destroy(b->plant);
}

static pf_session *check_once(bench *b, const double *gains, uint64_t seed)
{
    pf_error error = {PF_OK, ""};
    pf_check_config config = {.machine = b->plant, .gains = gains, .seed = seed};
    pf_check_destroy(b->check);
    if (!CHECK(pf_check_create(&b->check, &b->kit, &config, &error) == PF_OK &&
               pf_check_run(b->check, NULL, &error) == PF_OK)) {
        printf("%s\n", error.text);
    }
    return pf_check_session(b->check);
}

static bool all_go(const bench *b, const pf_session *session)
{
    for (int t = 0; t < b->kit.n_tasks; t++) {
        if (pf_session_task(session, t)->decision != PF_GO) {
            return false;
        }
    }
    return true;
}

static void check_bytes(void)
{
    pf_plan plan;
    bench one = {0}, two = {0}, other = {0};
    CHECK(pf_plant_create(&one.plant, "attitude", NULL) == PF_OK);
    CHECK(pf_plant_create(&two.plant, "attitude", NULL) == PF_OK);
    CHECK(pf_plant_create(&other.plant, "attitude", NULL) == PF_OK);
    CHECK(pf__plan_default(&plan, pf_plant_get_info(one.plant), NULL) == PF_OK);
    if (calibrated(&one, &plan, 1) && calibrated(&two, &plan, 3)) {
        CHECK(one.n == two.n && memcmp(one.bytes, two.bytes, one.n) == 0);
    }
    plan.settings.seed = 1;
    if (calibrated(&other, &plan, 2)) {
        CHECK(one.n == other.n && memcmp(one.bytes, other.bytes, one.n) != 0);
    }
    // what a kit for use starts from
    const pf_kit *k = &one.kit;
    CHECK(k->prior[0] == .95 && k->hazard == 0 && k->field == 1);
    CHECK(k->budget1 == 14 && k->budget2 == 2 && k->stop == PF_STOP_LATCH);
    CHECK(k->n_grid == 17 && k->n_bins == 5 && k->g_cal == .35);
    for (int t = 0; t < k->n_targets; t++) {
        CHECK_NEAR(k->centre_nominal[t], 0, .05);
        CHECK_NEAR(k->centre_changed[t], 1, .05);
        CHECK_NEAR(k->sigma[t], .06, .03);
    }
    // a healthy mechanism that delivers everything tracks; none at all misses by the whole energy
    CHECK(k->tracking_error[20] < .01);
    CHECK_NEAR(k->tracking_error[0], 1, .1);
    pf__plan_free(&plan);
    release(&one);
    release(&two);
    release(&other);
}

// Gives the calling thread back the processors that it had.
static void grow(void *self, const char *what, size_t done, size_t total)
{
    (void)what, (void)done, (void)total;
    sched_setaffinity(0, sizeof(cpu_set_t), self);
}

// One processor at first, all of them from the first episode on: the workers stay what they were.
static void check_growing(void)
{
    pf_plan plan;
    pf_plant *plant = NULL;
    pf_error error = {PF_OK, ""};
    void *fixed = NULL, *growing = NULL;
    size_t n = 0, n_growing = 0;
    cpu_set_t all, first;
    CPU_ZERO(&first);
    CHECK(pf_plant_create(&plant, "dc_servo", &error) == PF_OK);
    CHECK(pf__plan_default(&plan, pf_plant_get_info(plant), &error) == PF_OK);
    CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
    for (int i = 0; CPU_COUNT(&first) == 0 && i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &all)) {
            CPU_SET(i, &first);
        }
    }
    pf_effort one = {.threads = 1}, any = {.self = &all, .progress = grow};
    CHECK(pf_calibrate(&plan, plant, NULL, &one, &fixed, &n, &error) == PF_OK);
    CHECK(sched_setaffinity(0, sizeof first, &first) == 0);
    CHECK(pf_calibrate(&plan, plant, NULL, &any, &growing, &n_growing, &error) == PF_OK);
    CHECK(sched_setaffinity(0, sizeof all, &all) == 0);
    CHECK(n > 0 && n == n_growing && memcmp(fixed, growing, n) == 0);
    free(fixed);
    free(growing);
    pf__plan_free(&plan);
    pf_plant_destroy(plant);
}

// What 140 checks of one kind of machine came to.
typedef struct tally {
    int ready, alarmed, located, blamed, deployed, violated, false_ready;
    int changed_deployed, changed_violated; // on the task of the changed mechanism alone
} tally;

// One machine per seed: the gain is that of mechanism 1 + seed % 7, which is given.
static int one_loss(uint64_t seed, double gain, double gains[8])
{
    int j = 1 + (int)(seed % 7);
    for (int i = 0; i < 8; i++) {
        gains[i] = i == j ? gain : 1;
    }
    return j;
}

// Tasks that are go are flown. Gain 1: healthy.
static tally check_many(bench *b, double gain)
{
    tally t = {0};
    pf_flight *flight = NULL;
    CHECK(pf_flight_create(&flight, b->plant, &b->kit, NULL) == PF_OK);
    for (uint64_t seed = 0; seed < 140; seed++) {
        double gains[8], corrections[8];
        int j = one_loss(seed, gain, gains);
        pf_session *session = check_once(b, gains, seed);
        t.ready += all_go(b, session);
        t.alarmed += pf_session_get_state(session).alarm;
        t.located += pf_session_mechanism(session, j)->changed > .5;
        for (int i = 0; i < 8; i++) {
            corrections[i] = pf_session_mechanism(session, i)->correction;
            t.blamed += i > 0 && i != j && pf_session_mechanism(session, i)->changed > .5;
        }
        pf_key key = pf_key_stream(seed, "attitude", 0, PF_PURPOSE_TASK, 0);
        CHECK(pf_flight_start(flight, key, NULL) == PF_OK);
        for (int task = 0; task < b->kit.n_tasks; task++) {
            const pf_task_readiness *r = pf_session_task(session, task);
            pf_attempt attempt = {
                .task = task, .key = key, .gains = gains, .corrections = corrections};
            pf_flown outcome;
            if (r->decision != PF_GO) {
                continue;
            }
            CHECK(pf_flight_fly(flight, &attempt, &outcome, NULL) == PF_OK);
            double flown = outcome.ret;
            t.deployed++;
            t.violated += flown < r->lower;
            t.false_ready += flown < b->kit.j_min;
            t.changed_deployed += task == j - 1;
            t.changed_violated += task == j - 1 && flown < r->lower;
        }
    }
    pf_flight_destroy(flight);
    return t;
}

static void check_use(void)
{
    static const double gains[] = {1, .8, .65, .5, .35, .2};
    pf_plan plan;
    bench b = {0};
    CHECK(pf_plant_create(&b.plant, "attitude", NULL) == PF_OK);
    CHECK(pf__plan_default(&plan, pf_plant_get_info(b.plant), NULL) == PF_OK);
    if (calibrated(&b, &plan, 0)) {
        printf("gain  all-ready alarmed located blamed | tasks flown, below bound, below j_min | "
               "changed task flown, below bound\n");
        for (size_t i = 0; i < sizeof gains / sizeof gains[0]; i++) {
            tally t = check_many(&b, gains[i]);
            printf("%.2f  %9d %7d %7d %6d | %d %d %d | %d %d\n", gains[i], t.ready, t.alarmed,
                   t.located, t.blamed, t.deployed, t.violated, t.false_ready, t.changed_deployed,
                   t.changed_violated);
            CHECK(t.blamed <= 3);
            CHECK(t.false_ready * 50 <= t.deployed);
            CHECK(gains[i] < .3 || t.ready >= 126);
            CHECK(gains[i] > .6 || (t.alarmed >= 133 && t.located >= 126));
            CHECK(gains[i] != 1 || t.alarmed <= 14);
        }
    }
    pf__plan_free(&plan);
    release(&b);
}

// A pulse of .5 A drives the converters beyond their .425 A, so a loss shows as .425 - .5 g, and
// above .85 not at all. The line through gain 1 and g_cal would read .5 as .545 and .65 as .74.
static void check_curve(void)
{
    bench b = {0};
    pf_plan plan;
    pf_error error = {PF_OK, ""};
    CHECK(pf_plant_create(&b.plant, "battery", &error) == PF_OK);
    CHECK(pf__plan_default(&plan, pf_plant_get_info(b.plant), &error) == PF_OK);
    if (calibrated(&b, &plan, 0) && CHECK(b.kit.n_curve == b.kit.n_targets)) {
        for (int t = 0; t < b.kit.n_targets; t++) {
            const double *curve = b.kit.curve + t * b.kit.n_grid;
            for (int g = 0; g < b.kit.n_grid; g++) {
                double gain = b.kit.grid[g];
                double true_z = fmax(.425 - .5 * gain, 0) / (.425 - .5 * .35);
                CHECK_NEAR(curve[g], true_z, .08);
                CHECK(g == 0 || curve[g] <= curve[g - 1]);
            }
        }
    }
    plan.settings.every_severity = false; // the paper's
    free(b.bytes);
    CHECK(calibrated(&b, &plan, 0) && b.kit.n_curve == 0);
    release(&b);
    pf__plan_free(&plan);
}

// How much a loss shows on ant depends on where its feet are: the coordinate spreads three times as
// far at gains other than g_cal, where the signature is taken from the same state.
static void check_spread(void)
{
    const double loss = .65;
    bench b = {0};
    pf_plan plan;
    pf_error error = {PF_OK, ""};
    if (pf_plant_create(&b.plant, "ant", &error) != PF_OK) {
        pf_skip(error.text);
        return;
    }
    CHECK(pf__plan_default(&plan, pf_plant_get_info(b.plant), &error) == PF_OK);
    plan.settings.sensor_noise = .25;
    plan.settings.alarm_trials = 100;
    plan.settings.members = 4;
    if (calibrated(&b, &plan, 0)) {
        int named = 0, held = 0;
        for (uint64_t seed = 0; seed < 14; seed++) {
            double gains[8];
            int j = one_loss(seed, loss, gains);
            const pf_mechanism_readiness *r = pf_session_mechanism(check_once(&b, gains, seed), j);
            bool holds = r->interval[0] < loss + 1e-9 && r->interval[1] > loss - 1e-9;
            named += r->changed > .5;
            held += r->changed > .5 && holds;
        }
        printf("ant at %.2f: %d of 14 named, %d intervals hold it\n", loss, named, held);
        CHECK(named >= 12);
        CHECK(10 * held >= 8 * named); // of nine in ten that are promised
        for (uint64_t seed = 0; seed < 14; seed++) {
            double gains[8];
            int j = one_loss(seed, 0, gains);
            CHECK(pf_session_task(check_once(&b, gains, seed), j - 1)->decision != PF_GO);
        }
    }
    pf__plan_free(&plan);
    release(&b);
}

static double information(int n0, const double *a, int n1, const double *c, int bins,
                          const double *edges)
{
    double p0[8], p1[8], sum = 0;
    pf__fit_row(n0, a, bins, edges, p0);
    pf__fit_row(n1, c, bins, edges, p1);
    for (int k = 0; k < bins; k++) {
        double mean = .5 * (p0[k] + p1[k]);
        sum += .5 * (p0[k] * log(p0[k] / mean) + p1[k] * log(p1[k] / mean));
    }
    return sum;
}

// The dynamic programme against every choice of two cuts.
static void check_information(void)
{
    double a[14], c[10], edges[2], scratch[4096];
    CHECK(pf__fit_information_scratch(14, 10, 3) <= 4096);
    for (uint64_t seed = 0; seed < 40; seed++) {
        pf_rng rng;
        double all[26], best = -1;
        pf_rng_init(&rng, seed);
        for (int i = 0; i < 24; i++) {
            double score = round(8 * (pf_rng_normal(&rng) + (i < 14 ? 0 : .1 * (double)seed))) / 8;
            *(i < 14 ? &a[i] : &c[i - 14]) = all[i] = score;
        }
        all[24] = -100;
        all[25] = 100;
        for (int i = 0; i < 26; i++) {
            for (int j = 0; j < 26; j++) {
                double cuts[2] = {fmin(all[i], all[j]), fmax(all[i], all[j])};
                best = fmax(best, information(14, a, 10, c, 3, cuts));
            }
        }
        pf__fit_edges_information(14, a, 10, c, 3, edges, scratch);
        CHECK(edges[0] <= edges[1]);
        CHECK_NEAR(information(14, a, 10, c, 3, edges), best, 1e-12);
    }
}

static void check_methods(void)
{
    pf_error error = {PF_OK, ""};
    for (int i = 0; i < pf_method_count(); i++) {
        pf_plan plan;
        bench b = {0};
        CHECK(pf_plant_create(&b.plant, "attitude", NULL) == PF_OK);
        CHECK(pf__plan_default(&plan, pf_plant_get_info(b.plant), &error) == PF_OK);
        plan.method = pf_method_at(i)->id;
        plan.settings.alarm_trials = 100;
        if (calibrated(&b, &plan, 0)) {
            double gains[8] = {1, 1, .3, 1, 1, 1, 1, 1};
            pf_session *session = check_once(&b, gains, 3);
            CHECK(pf_session_get_state(session).told > 0);
            CHECK_STR(pf_session_method(session)->id, plan.method);
        }
        pf__plan_free(&plan);
        release(&b);
    }
}

// Beliefs that add up to one but for rounding: the threshold must not end above it.
static void check_threshold(void)
{
    static const double prior[8] = {0, .1, .2, .1, .2, .1, .2, .1};
    pf_plan plan;
    bench b = {0};
    CHECK(pf_plant_create(&b.plant, "attitude", NULL) == PF_OK);
    CHECK(pf__plan_default(&plan, pf_plant_get_info(b.plant), NULL) == PF_OK);
    plan.prior = prior;
    plan.settings.episodes = 20;
    plan.settings.alarm_trials = 200;
    if (calibrated(&b, &plan, 0)) {
        CHECK(b.kit.threshold[0] == 1);
    }
    pf__plan_free(&plan);
    release(&b);
}

static void check_refusals(void)
{
    pf_plant *plant = NULL;
    pf_plan plan;
    pf_error error = {PF_OK, ""};
    void *bytes = NULL;
    size_t n = 0;
    CHECK(pf_plant_create(&plant, "attitude", NULL) == PF_OK);
    CHECK(pf__plan_default(&plan, pf_plant_get_info(plant), &error) == PF_OK);
    plan.method = "no-such";
    CHECK(pf_calibrate(&plan, plant, NULL, NULL, &bytes, &n, &error) == PF_ERR_ARGUMENT);
    CHECK_CONTAINS(error.text, "no-such");
    plan.method = "eg-mpt";
    // no noise at all: the channel would be a lie
    plan.settings.sensor_noise = 0;
    pf_plan quiet = plan;
    volatile int stop = 1;
    pf_effort effort = {.threads = 2, .stop = &stop};
    CHECK(pf_calibrate(&quiet, plant, NULL, &effort, &bytes, &n, &error) == PF_ERR_INTERRUPTED);
    CHECK(bytes == NULL);
    // a probe too weak to open the valve shows nothing
    pf__plan_free(&plan);
    const char *set[] = {"probes=[{name: tiny, pulse: {mechanism: 1, amplitude: .03}}]",
                         "tasks=[{name: t, mechanisms: 1, command: [[0,.3,0,0,0,0,0,0]]}]"};
    CHECK(pf__plan_from_config(&plan, pf_plant_get_info(plant), "--set", NULL, 0, set, 2, &error) ==
          PF_OK);
    CHECK(pf_calibrate(&plan, plant, NULL, NULL, &bytes, &n, &error) == PF_ERR_DEGENERATE);
    CHECK_CONTAINS(error.text, "thruster1");
    pf__plan_free(&plan);
    // two thrusters that push the same way cannot be told apart in one probe
    const char *twin[] = {"probes=[{name: pair, command: [[0,.3,0,0,.3,0,0,0],[0,.3,0,0,.3,0,0,0],"
                          "[0,.3,0,0,.3,0,0,0],[0,.3,0,0,.3,0,0,0]], targets: [1, 4]}]",
                          "tasks=[{name: t, mechanisms: 1, command: [[0,.3,0,0,0,0,0,0]]}]"};
    CHECK(pf__plan_from_config(&plan, pf_plant_get_info(plant), "--set", NULL, 0, twin, 2,
                               &error) == PF_OK);
    CHECK(pf_calibrate(&plan, plant, NULL, NULL, &bytes, &n, &error) == PF_ERR_DEGENERATE);
    CHECK_CONTAINS(error.text, "probe 'pair', mechanism 'thruster1': cannot be told apart from "
                               "'thruster4'; move them differently or one per probe");
    CHECK(bytes == NULL);
    pf__plan_free(&plan);
    pf_plant_destroy(plant);
}

// A faint probe beside a strong one of the same mechanism is kept; alone it refuses the kit.
static void check_faint(void)
{
    char folder[200], file[300], line[900], text[600];
    CHECK(program_folder(folder, sizeof folder, "faint"));
    for (int strong = 0; strong < 2; strong++) {
        int n = snprintf(text, sizeof text,
                         "probes:\n"
                         "  - {name: a, pulse: {mechanism: 1, amplitude: %s, steps: 8}}\n"
                         "  - {name: faint, pulse: {mechanism: 1, amplitude: .004, steps: 8}}\n"
                         "  - {name: b, pulse: {mechanism: 2, amplitude: 1, steps: 8}}\n"
                         "  - {name: c, pulse: {mechanism: 3, amplitude: 1, steps: 8}}\n",
                         strong ? "1" : ".004");
        snprintf(file, sizeof file, "%s/faint.yaml", folder);
        CHECK(pf__file_write(file, text, (size_t)n, NULL) == PF_OK);
        snprintf(line, sizeof line,
                 "calibrate dc_servo --config %s --set alarm_trials=100 -o %s/faint.kit", file,
                 folder);
        CHECK(program(line, strong ? 0 : 3, strong ? "4 probes" : "at least 3 are needed"));
    }
}

void test_calibrate(void)
{
    PF_CASE("byte-identical for any number of threads");
    check_bytes();
    PF_CASE("processors that come while it calibrates change nothing");
    check_growing();
    PF_CASE("healthy machines are ready, losses are found");
    check_use();
    PF_CASE("how much is left is read off the curve of the machine, not off a line");
    check_curve();
    PF_CASE("where a loss shows by the state intervals hold it, and nothing dead is go");
    check_spread();
    PF_CASE("edges that maximise mutual information");
    check_information();
    PF_CASE("every method calibrates and checks");
    check_methods();
    PF_CASE("a certain change: the threshold is a probability");
    check_threshold();
    PF_CASE("refusals");
    check_refusals();
    PF_CASE("a mechanism needs one probe that separates, not all of them");
    check_faint();
}
