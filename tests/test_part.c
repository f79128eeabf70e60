// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "test.h"

#include "host/file.h"
#include "host/parallel.h"
#include "preflight/design.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// What a job keeps of its finished work: nothing is done twice, nothing is believed that is
// damaged, and the result is that of a job that was never stopped, to the bit.

enum { ITEMS = 12, NUMBERS = 3 };

// A job of two stages; the second one needs the first.
typedef struct job {
    double one[ITEMS][NUMBERS], two[ITEMS];
    int runs;      // items that were run
    double factor; // of the plant
    int stop_after;
    volatile int stop;
} job;

static int one_slots(void *self, size_t item, pf_slot *slots)
{
    job *j = self;
    slots[0] = (pf_slot){.data = j->one[item], .size = sizeof j->one[item]};
    return 1;
}

static int two_slots(void *self, size_t item, pf_slot *slots)
{
    job *j = self;
    slots[0] = (pf_slot){.data = &j->two[item], .size = sizeof j->two[item]};
    return 1;
}

static void count(job *j)
{
    j->runs++;
    j->stop = j->stop_after > 0 && j->runs >= j->stop_after;
}

static pf_status run_one(void *self, int worker, size_t item, pf_error *error)
{
    (void)worker;
    (void)error;
    job *j = self;
    for (int i = 0; i < NUMBERS; i++) {
        j->one[item][i] = j->factor * (double)(item + 1) / (i + 3);
    }
    count(j);
    return PF_OK;
}

static pf_status run_two(void *self, int worker, size_t item, pf_error *error)
{
    (void)worker;
    (void)error;
    job *j = self;
    j->two[item] = j->one[item][0] + j->one[ITEMS - 1 - item][1];
    count(j);
    return PF_OK;
}

// Runs the job with a part of that key; as a program would, it keeps the file if it was stopped.
static pf_status run_job(job *j, const char *path, const char *key, bool *found, pf_error *error)
{
    pf_part *part = NULL;
    memset(j->one, 0, sizeof j->one);
    memset(j->two, 0, sizeof j->two);
    j->runs = 0;
    j->stop = 0;
    pf_status status = pf_part_open(&part, path, key, strlen(key), found, error);
    if (status != PF_OK) {
        return status;
    }
    pf_effort effort = {.threads = 1, .stop = &j->stop, .part = part};
    status = pf__parallel_kept(&effort, 1, ITEMS, run_one, one_slots, j, "one", error);
    status =
        status ? status : pf__parallel_kept(&effort, 1, ITEMS, run_two, two_slots, j, "two", error);
    pf_part_close(part, status == PF_ERR_INTERRUPTED);
    return status;
}

static void part_path(char *path, size_t n)
{
    snprintf(path, n, "%s/job.part", pf_scratch_dir());
    remove(path);
}

// Both stages of a job that nothing disturbed.
static job whole_job(void)
{
    job j = {.factor = 1};
    char path[300];
    bool found;
    pf_error error;
    part_path(path, sizeof path);
    CHECK(run_job(&j, path, "key", &found, &error) == PF_OK && !found);
    CHECK(access(path, F_OK) != 0);
    return j;
}

static bool same(const job *a, const job *b)
{
    return memcmp(a->one, b->one, sizeof a->one) == 0 && memcmp(a->two, b->two, sizeof a->two) == 0;
}

static void check_stops(const job *whole)
{
    char path[300];
    bool found;
    pf_error error;
    PF_CASE("part: stopped anywhere, a job goes on and gives the same bits");
    for (int stop = 1; stop < 2 * ITEMS; stop++) {
        job j = {.factor = 1, .stop_after = stop};
        part_path(path, sizeof path);
        CHECK(run_job(&j, path, "key", &found, &error) == PF_ERR_INTERRUPTED);
        CHECK(access(path, F_OK) == 0);
        j.stop_after = 0;
        CHECK(run_job(&j, path, "key", &found, &error) == PF_OK && found);
        // at most three of each stage are run again
        CHECK(same(&j, whole) && j.runs <= 2 * ITEMS - stop + 6);
        CHECK(access(path, F_OK) != 0);
    }
    PF_CASE("part: stopped again and again");
    job j = {.factor = 1, .stop_after = 8}; // six at most are run again
    part_path(path, sizeof path);
    int times = 1;
    while (run_job(&j, path, "key", &found, &error) == PF_ERR_INTERRUPTED && times < 100) {
        times++;
    }
    CHECK(same(&j, whole) && times > 2 && times < 50);
}

static void check_others(const job *whole)
{
    char path[300];
    bool found;
    pf_error error = {PF_OK, ""};
    job j = {.factor = 1, .stop_after = 15};
    part_path(path, sizeof path);
    PF_CASE("part: another job's is not used");
    CHECK(run_job(&j, path, "other", &found, &error) == PF_ERR_INTERRUPTED);
    j.stop_after = 0;
    CHECK(run_job(&j, path, "key", &found, &error) == PF_ERR_MISMATCH && j.runs == 0);
    CHECK_CONTAINS(error.text, "finished work of another job");
    CHECK(run_job(&j, path, "other", &found, &error) == PF_OK && found && same(&j, whole));
    PF_CASE("part: a plant that has changed is noticed");
    j.stop_after = 15;
    CHECK(run_job(&j, path, "key", &found, &error) == PF_ERR_INTERRUPTED);
    job changed = {.factor = 2};
    CHECK(run_job(&changed, path, "key", &found, &error) == PF_ERR_MISMATCH);
    CHECK_CONTAINS(error.text, "does not do what it did");
    PF_CASE("part: one run at a time");
    CHECK(run_job(&j, path, "key", &found, &error) == PF_ERR_INTERRUPTED);
    pf_part *part = NULL, *second = NULL;
    CHECK(pf_part_open(&part, path, "key", 3, &found, &error) == PF_OK);
    CHECK(pf_part_open(&second, path, "key", 3, &found, &error) == PF_ERR_FILE && !second);
    CHECK_CONTAINS(error.text, "another run is at work");
    pf_part_close(part, true);
    PF_CASE("part: somebody else's file is refused and stays");
    CHECK(pf__file_write(path, "my notes", 8, &error) == PF_OK);
    CHECK(pf_part_open(&part, path, "key", 3, &found, &error) == PF_ERR_FORMAT && !part);
    CHECK_CONTAINS(error.text, "holds no part of a job");
    CHECK(access(path, F_OK) == 0);
    PF_CASE("part: a link is not followed, not even to an empty file");
    char empty[320];
    struct stat info;
    snprintf(empty, sizeof empty, "%s.empty", path);
    CHECK(pf__file_write(empty, "", 0, &error) == PF_OK && remove(path) == 0);
    CHECK(symlink(empty, path) == 0);
    CHECK(run_job(&j, path, "key", &found, &error) == PF_ERR_FILE && j.runs == 0);
    CHECK_CONTAINS(error.text, "is a symbolic link");
    CHECK(stat(empty, &info) == 0 && info.st_size == 0 && remove(empty) == 0);
}

// Without the pains that pf__file_write takes.
static bool write_bytes(const char *path, const void *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");
    bool good = file && fwrite(bytes, 1, n, file) == n;
    return file && fclose(file) == 0 && good;
}

// A file with other bytes, or fewer: the job never fails, and never gives anything else.
static void check_damage(const job *whole)
{
    char path[300];
    bool found;
    pf_error error;
    void *bytes = NULL;
    size_t n = 0;
    job j = {.factor = 1, .stop_after = 20};
    part_path(path, sizeof path);
    CHECK(run_job(&j, path, "key", &found, &error) == PF_ERR_INTERRUPTED);
    if (!CHECK(pf__file_read(path, 1 << 20, &bytes, &n, &error) == PF_OK)) {
        return;
    }
    j.stop_after = 0;
    PF_CASE("part: torn anywhere");
    for (size_t size = 0; size < n; size++) {
        CHECK(write_bytes(path, bytes, size));
        CHECK(run_job(&j, path, "key", &found, &error) == PF_OK && same(&j, whole));
    }
    PF_CASE("part: any byte changed");
    for (size_t at = 8; at < n; at++) {
        ((uint8_t *)bytes)[at] ^= 0x41;
        CHECK(write_bytes(path, bytes, n));
        if (at < 8 + 32) { // of the key: another job's
            CHECK(run_job(&j, path, "key", &found, &error) == PF_ERR_MISMATCH);
        } else {
            CHECK(run_job(&j, path, "key", &found, &error) == PF_OK && same(&j, whole));
        }
        ((uint8_t *)bytes)[at] ^= 0x41;
    }
    free(bytes);
}

// --- calibrations

typedef struct stopper {
    volatile int stop;
    size_t reports, after; // 0: never
} stopper;

static void on_progress(void *self, const char *what, size_t done, size_t total)
{
    stopper *s = self;
    (void)what;
    CHECK(done <= total);
    s->reports++;
    if (s->after > 0 && s->reports >= s->after) {
        __atomic_store_n(&s->stop, 1, __ATOMIC_RELAXED);
    }
}

typedef struct kit_bytes {
    void *data;
    size_t n;
    size_t reports;
} kit_bytes;

// A kit with designed probes, both parts of which are kept.
static pf_status calibrate(const char *weighting, pf_part *part, int threads, size_t after,
                           kit_bytes *kit, pf_error *error)
{
    const char *set[] = {"episodes=10", "alarm_trials=40", "design.episodes=20", weighting};
    pf_plant *plant = NULL;
    pf_plan *plan = NULL;
    stopper s = {.after = after};
    pf_effort effort = {
        .threads = threads, .self = &s, .progress = on_progress, .stop = &s.stop, .part = part};
    pf_status status = pf_plant_create(&plant, "dc_servo", error);
    status = status
                 ? status
                 : pf_plan_create(&plan, pf_plant_get_info(plant), "--set", NULL, 0, set, 4, error);
    status = status ? status : pf_plan_choose_probes(plan, NULL, plant, NULL, &effort, error);
    status = status ? status : pf_calibrate(plan, plant, NULL, &effort, &kit->data, &kit->n, error);
    kit->reports = s.reports;
    pf_plan_destroy(plan);
    pf_plant_destroy(plant);
    return status;
}

// Stopped after that many reports, then run to its end with another number of threads.
static void check_resumed(const char *weighting, size_t after, const kit_bytes *whole)
{
    char path[300];
    pf_part *part = NULL;
    bool found;
    pf_error error = {PF_OK, ""};
    kit_bytes kit = {0};
    part_path(path, sizeof path);
    CHECK(pf_part_open(&part, path, weighting, strlen(weighting), &found, &error) == PF_OK);
    CHECK(calibrate(weighting, part, 2, after, &kit, &error) == PF_ERR_INTERRUPTED);
    pf_part_close(part, true);
    CHECK(pf_part_open(&part, path, weighting, strlen(weighting), &found, &error) == PF_OK);
    CHECK(found);
    CHECK(calibrate(weighting, part, 1, 0, &kit, &error) == PF_OK);
    CHECK(kit.n == whole->n && memcmp(kit.data, whole->data, whole->n) == 0);
    CHECK(kit.reports < whole->reports);
    pf_part_close(part, false);
    free(kit.data);
}

static void check_calibrations(void)
{
    static const char *const weightings[] = {"weighting=none", "weighting=shrunk"};
    PF_CASE("part: a calibration that was stopped gives the same kit");
    for (int w = 0; w < 2; w++) {
        pf_error error = {PF_OK, ""};
        kit_bytes whole = {0};
        CHECK(calibrate(weightings[w], NULL, 1, 0, &whole, &error) == PF_OK);
        enum { STOPS = 8 };
        for (size_t i = 1; i <= STOPS && whole.data; i++) {
            check_resumed(weightings[w], i * whole.reports / (STOPS + 1), &whole);
        }
        free(whole.data);
    }
}

// --- how long it takes

typedef struct told {
    pf_estimate estimate;
    volatile int stop;
} told;

static void on_estimate(void *self, const pf_estimate *estimate)
{
    told *t = self;
    if (strcmp(estimate->what, "calibration") == 0) {
        t->estimate = *estimate;
        t->stop = 1;
    }
}

static void check_estimate(const char *set, const char *setting)
{
    pf_error error = {PF_OK, ""};
    pf_plant *plant = NULL;
    pf_plan *plan = NULL;
    void *bytes = NULL;
    size_t n = 0;
    told t = {0};
    pf_effort effort = {.self = &t, .estimate = on_estimate, .stop = &t.stop};
    CHECK(pf_plant_create(&plant, "dc_servo", &error) == PF_OK);
    CHECK(pf_plan_create(&plan, pf_plant_get_info(plant), "--set", NULL, 0, &set, 1, &error) ==
          PF_OK);
    CHECK(pf_plan_choose_probes(plan, "single", plant, NULL, &effort, &error) == PF_OK);
    CHECK(pf_calibrate(plan, plant, NULL, &effort, &bytes, &n, &error) == PF_ERR_INTERRUPTED);
    CHECK(t.estimate.seconds > 0);
    if (CHECK(t.estimate.setting != NULL)) {
        CHECK_STR(t.estimate.setting, setting);
        CHECK(t.estimate.seconds_then < .1 * t.estimate.seconds);
    }
    pf_plan_destroy(plan);
    pf_plant_destroy(plant);
}

void test_part(void)
{
    job whole = whole_job();
    check_stops(&whole);
    check_others(&whole);
    check_damage(&whole);
    check_calibrations();
    PF_CASE("estimate: the setting that saves most");
    check_estimate("alarm_trials=100000", "alarm_trials=200");
    check_estimate("episodes=100000", "episodes=20");
}
