// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _XOPEN_SOURCE 700 // SIGXFSZ
#include "test.h"
#include "core/rng.h"

#include "host/arena.h"
#include "host/child.h"
#include "host/farm.h"
#include "host/file.h"
#include "host/gnuplot.h"
#include "host/parallel.h"
#include "host/text.h"
#include "preflight/base.h"

#include <dirent.h>
#include <float.h>
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>

// --- numbers and text

static bool reads_back(double value)
{
    char text[32];
    pf__number_text(value, text);
    double again = strtod(text, NULL);
    return strlen(text) < sizeof text && memcmp(&again, &value, sizeof value) == 0;
}

// The same through JSON, where -0 without a point would become the integer 0.
static bool json_reads_back(double value)
{
    pf_text text = {0};
    pf__json_numbers(&text, 1, &value);
    json_t *list = json_loads(text.data, 0, NULL);
    double again = json_number_value(json_array_get(list, 0));
    bool number = json_is_number(json_array_get(list, 0));
    json_decref(list);
    pf__text_free(&text);
    return number && memcmp(&again, &value, sizeof value) == 0;
}

static void test_numbers(void)
{
    static const double special[] = {0.0,
                                     -0.0,
                                     1,
                                     -1,
                                     .1,
                                     1. / 3,
                                     DBL_MAX,
                                     -DBL_MAX,
                                     DBL_MIN,
                                     4.9e-324,
                                     -4.9e-324,
                                     2.2e-308,
                                     1e15,
                                     1e16,
                                     1e17,
                                     1e22,
                                     1e23,
                                     1.2345678901234568e17,
                                     9007199254740991.,
                                     9007199254740993.,
                                     9.2233720368547758e18,
                                     -9.2233720368547758e18,
                                     1.8446744073709552e19,
                                     DBL_EPSILON};
    pf_rng rng;
    pf_rng_init(&rng, pf_key_root(1));
    PF_CASE("numbers read back to the bit: special ones");
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++) {
        CHECK(reads_back(special[i]));
        CHECK(json_reads_back(special[i]));
    }
    PF_CASE("numbers read back to the bit: any bit pattern");
    int wrong = 0, checked = 0;
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = pf__rng_bits(&rng);
        if (i % 4 == 0) {
            bits &= ~((uint64_t)0x7ff << 52); // subnormal
        }
        double value;
        memcpy(&value, &bits, sizeof value);
        if (isfinite(value)) {
            checked++;
            wrong += !reads_back(value) || (i % 8 == 0 && !json_reads_back(value));
        }
    }
    CHECK(wrong == 0);
    CHECK(checked > 19000);
    PF_CASE("numbers: not finite is null in JSON");
    const double bad[3] = {NAN, INFINITY, -INFINITY};
    pf_text text = {0};
    pf__json_numbers(&text, 3, bad);
    CHECK_STR(text.data, "[null,null,null]");
    pf__text_free(&text);
}

static void test_text(void)
{
    pf_text text = {0};
    PF_CASE("text: strings are escaped");
    pf__json_string(&text, "a\"b\\c\n\t\x01\x1f/ \xc3\xa9");
    CHECK_STR(text.data, "\"a\\\"b\\\\c\\u000a\\u0009\\u0001\\u001f/ \xc3\xa9\"");
    json_t *back = json_loads(text.data, JSON_DECODE_ANY, NULL);
    CHECK_STR(json_string_value(back), "a\"b\\c\n\t\x01\x1f/ \xc3\xa9");
    json_decref(back);
    PF_CASE("text: keys and commas");
    const double values[4] = {1, 2.5, -3, 1e-7};
    const int ints[2] = {-4, 5};
    pf__text_clear(&text);
    pf__text_add(&text, "{");
    pf__json_key(&text, "a");
    pf__json_matrix(&text, 2, 2, values);
    pf__json_key(&text, "b");
    pf__json_ints(&text, 2, ints);
    pf__json_key(&text, "c");
    pf__json_matrix(&text, 0, 2, values);
    pf__text_add(&text, "}");
    CHECK_STR(text.data, "{\"a\":[[1,2.5],[-3,1e-07]],\"b\":[-4,5],\"c\":[]}");
    PF_CASE("text: grows, clears and formats at any size");
    pf__text_clear(&text);
    CHECK(text.size == 0 && text.data[0] == 0);
    for (int i = 0; i < 3000; i++) {
        pf__text_addf(&text, "%d,", i % 10);
    }
    CHECK(text.size == 6000 && strlen(text.data) == 6000 && !text.failed);
    char *wide = malloc(2000);
    memset(wide, 'x', 1999);
    wide[1999] = 0;
    pf__text_addf(&text, "%s|%d", wide, 7);
    CHECK(text.size == 6000 + 1999 + 2);
    CHECK_STR(text.data + text.size - 3, "x|7");
    free(wide);
    pf__text_free(&text);
    CHECK(text.data == NULL && text.size == 0);
}

// --- files

static bool file_is(const char *path, const char *content)
{
    void *data = NULL;
    size_t n = 0;
    pf_error error;
    bool same = pf__file_read(path, 1 << 20, &data, &n, &error) == PF_OK && n == strlen(content) &&
                memcmp(data, content, n) == 0;
    free(data);
    return same;
}

static int files_in(const char *folder)
{
    DIR *d = opendir(folder);
    int n = 0;
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        n += e->d_name[0] != '.';
    }
    if (d) {
        closedir(d);
    }
    return d ? n : -1;
}

static void check_shown(const char *text, const char *expected)
{
    char out[12];
    CHECK_STR(pf__text_shown(out, sizeof out, text, strlen(text)), expected);
}

static void test_shown(void)
{
    PF_CASE("text: a message is UTF-8, whatever it quotes");
    check_shown("a\xc3\xa9z", "a\xc3\xa9z");
    check_shown("hei\xdf", "hei?");         // Latin-1
    check_shown("a\tb\x7f", "a?b?");        // control characters
    check_shown("a\xe2\x80\xae z", "a? z"); // turns the text around
    check_shown("half\xc3", "half?");       // cut by others
    check_shown("1234567\xc3\xa9 9", "1234567\xc3\xa9 9");
    check_shown("1234567\xc3\xa9 901", "1234567..."); // cut here, at a character
}

static void test_write(const char *folder)
{
    char path[256], other[300];
    pf_error error = {PF_OK, ""};
    snprintf(path, sizeof path, "%s/a", folder);
    PF_CASE("file: appears whole, replaces what was there, leaves nothing beside it");
    CHECK(pf__file_write(path, "one", 3, &error) == PF_OK && file_is(path, "one"));
    CHECK(pf__file_write(path, "two and more", 12, &error) == PF_OK &&
          file_is(path, "two and more"));
    CHECK(pf__file_write(path, "", 0, &error) == PF_OK && file_is(path, ""));
    CHECK(pf__file_write(path, "old", 3, &error) == PF_OK && file_is(path, "old"));
    CHECK(files_in(folder) == 1);
    PF_CASE("file: a failure leaves the old content and no temporary");
    snprintf(other, sizeof other, "%s/folder", folder);
    CHECK(mkdir(other, 0777) == 0);
    CHECK(pf__file_write(other, "x", 1, &error) == PF_ERR_FILE);
    CHECK_CONTAINS(error.text, other);
    snprintf(other, sizeof other, "%s/a/below", folder); // a file is no folder
    CHECK(pf__file_write(other, "x", 1, &error) == PF_ERR_FILE);
    snprintf(other, sizeof other, "%s/nosuch/below", folder);
    CHECK(pf__file_write(other, "x", 1, &error) == PF_ERR_FILE);
    char wide[5000];
    memset(wide, 'w', sizeof wide - 1);
    wide[sizeof wide - 1] = 0;
    CHECK(pf__file_write(wide, "x", 1, &error) == PF_ERR_FILE);
    CHECK(strlen(error.text) > 0 && !strchr(error.text, '\n'));
    CHECK(file_is(path, "old") && files_in(folder) == 2);
    PF_CASE("file: a write that fails half way leaves the old content and no temporary");
    struct rlimit limit, small;
    char *large = calloc(1, 5000);
    fflush(stdout); // the limit holds for every file of this process
    CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    small = (struct rlimit){1000, limit.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    pf_status status = pf__file_write(path, large, 5000, &error);
    setrlimit(RLIMIT_FSIZE, &limit);
    signal(SIGXFSZ, handler);
    free(large);
    CHECK(status == PF_ERR_FILE);
    CHECK_CONTAINS(error.text, path);
    CHECK(file_is(path, "old") && files_in(folder) == 2);
    PF_CASE("file: a full device is a failure");
    CHECK(pf__file_write("/dev/full", "x", 1, &error) == PF_ERR_FILE);
    CHECK(pf__file_write("/dev/null", "x", 1, &error) == PF_OK);
}

static void test_read(const char *folder)
{
    char path[256];
    pf_error error = {PF_OK, ""};
    void *data = &error;
    size_t n = 1;
    snprintf(path, sizeof path, "%s/nosuch", folder);
    PF_CASE("file: what cannot be read is named");
    CHECK(pf__file_read(path, 100, &data, &n, &error) == PF_ERR_FILE && !data && n == 0);
    CHECK_CONTAINS(error.text, path);
    CHECK(pf__file_read(folder, 100, &data, &n, &error) == PF_ERR_FILE && !data);
    CHECK_CONTAINS(error.text, "folder");
    PF_CASE("file: the limit holds, one byte fewer is fine");
    char *big = calloc(1, 200001);
    snprintf(path, sizeof path, "%s/big", folder);
    CHECK(pf__file_write(path, big, 200001, &error) == PF_OK);
    CHECK(pf__file_read(path, 200000, &data, &n, &error) == PF_ERR_FILE && !data);
    CHECK(pf__file_read("/dev/zero", 200000, &data, &n, &error) == PF_ERR_FILE && !data);
    CHECK(pf__file_read(path, 200001, &data, &n, &error) == PF_OK && n == 200001);
    CHECK((uintptr_t)data % 8 == 0 && ((char *)data)[n] == 0);
    free(data);
    free(big);
}

// --- waits that a signal ends

static volatile int stopped;

static void on_alarm(int number)
{
    stopped = number;
}

// Raises the flag soon. The limit below is no test of speed.
enum { PATIENCE_S = 5 };
static void stop_soon(void)
{
    stopped = 0;
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {.tv_usec = 100000}}, NULL);
}

static void test_pipe(const char *folder)
{
    char path[256];
    pf_error error = {PF_OK, ""};
    void *data = NULL;
    size_t n = 0;
    snprintf(path, sizeof path, "%s/pipe", folder);
    CHECK(mkfifo(path, 0600) == 0);
    PF_CASE("file: a wait for who writes into a pipe ends when it is told to stop");
    double began = pf__seconds();
    stop_soon();
    CHECK(pf__file_read_until(path, 100, &stopped, &data, &n, &error) == PF_ERR_INTERRUPTED);
    CHECK(!data && pf__seconds() - began < PATIENCE_S);
    PF_CASE("file: a pipe is read to its end");
    stopped = 0;
    char command[400];
    snprintf(command, sizeof command, "(sleep .2; echo one; sleep .2; echo two) >%s &", path);
    CHECK(system(command) == 0);
    CHECK(pf__file_read_until(path, 100, &stopped, &data, &n, &error) == PF_OK);
    CHECK_STR((char *)data, "one\ntwo\n");
    free(data);
}

static int run_child(const char *script, const char *folder, const char *input, pf_text *output)
{
    const char *const arguments[] = {"sh", "-c", script, NULL};
    pf_child child = {.arguments = arguments,
                      .folder = folder,
                      .input = input,
                      .n_input = input ? strlen(input) : 0,
                      .quiet = true,
                      .stop = &stopped};
    pf__text_clear(output);
    return pf__child_run(&child, output);
}

static void test_child(const char *folder)
{
    pf_text output = {0};
    enum { MUCH = 1000000 };
    char *much = calloc(1, MUCH + 1);
    memset(much, 'x', MUCH);
    stopped = 0;
    PF_CASE("child: input, output, folder and exit status");
    CHECK(run_child("pwd; echo error >&2; exit 3", folder, NULL, &output) == 3);
    CHECK_CONTAINS(output.data, "/host\n");
    CHECK(!strstr(output.data, "error"));
    CHECK(run_child("cat; echo", NULL, much, &output) == 0 && output.size == MUCH + 1);
    CHECK(memcmp(output.data, much, MUCH) == 0);
    PF_CASE("child: one that does not read");
    CHECK(run_child("exec <&-; echo done", NULL, much, &output) == 0);
    CHECK_STR(output.data, "done\n");
    PF_CASE("child: no exit status is not success");
    CHECK(run_child("kill -9 $$", NULL, NULL, &output) == PF_CHILD_FAILED);
    CHECK(run_child("exit 127", NULL, NULL, &output) == PF_CHILD_MISSING);
    CHECK(run_child("exit 0", "/nonexistent", NULL, &output) == PF_CHILD_MISSING);
    signal(SIGCHLD, SIG_IGN);
    CHECK(run_child("exit 1", NULL, NULL, &output) == PF_CHILD_FAILED);
    signal(SIGCHLD, SIG_DFL);
    PF_CASE("child: one that hangs is killed when we are told to stop, with all that it started");
    static const char *const hang[] = {"sleep 100 & sleep 100", "exec >&- <&-; sleep 100"};
    for (int i = 0; i < 2; i++) {
        double began = pf__seconds();
        stop_soon();
        CHECK(run_child(hang[i], NULL, much, &output) == PF_CHILD_STOPPED);
        CHECK(pf__seconds() - began < PATIENCE_S);
    }
    free(much);
    pf__text_free(&output);
}

static void test_gnuplot(const char *folder)
{
    char program[256], before[4096];
    static const char hangs[] = "#!/bin/sh\nsleep 100\n";
    pf_error error = {PF_OK, ""};
    snprintf(before, sizeof before, "%s", getenv("PATH") ? getenv("PATH") : "");
    snprintf(program, sizeof program, "%s/gnuplot", folder);
    CHECK(pf__file_write(program, hangs, sizeof hangs - 1, &error) == PF_OK);
    CHECK(chmod(program, 0700) == 0);
    snprintf(program, sizeof program, "%s:/usr/bin:/bin", folder);
    setenv("PATH", program, 1);
    PF_CASE("gnuplot: one that hangs");
    double began = pf__seconds();
    stop_soon();
    CHECK(pf__gnuplot(folder, "x.gp", "x.svg", &stopped, &error) == PF_ERR_INTERRUPTED);
    CHECK(pf__seconds() - began < PATIENCE_S);
    setenv("PATH", before, 1);
}

// --- threads

typedef struct work {
    double slot[1000];
    int worker_max;
    size_t fails_from; // every item from here on whose number is odd fails
    volatile int stop;
    size_t stops_at;
} work;

static pf_status compute(void *self, int worker, size_t item, pf_error *error)
{
    work *w = self;
    if (worker < 0 || worker >= w->worker_max) {
        return pf_fail(error, PF_ERR_INTERNAL, "worker %d", worker);
    }
    if (item >= w->fails_from && item % 2 == 1) {
        return pf_fail(error, PF_ERR_DEGENERATE, "item %z failed", item);
    }
    if (item == w->stops_at) {
        __atomic_store_n(&w->stop, 1, __ATOMIC_RELAXED);
    }
    pf_rng rng;
    pf_rng_init(&rng, pf__key_derive(pf_key_root(3), item));
    double sum = 0;
    for (size_t i = 0; i < 50 + item % 97; i++) {
        sum += pf_rng_normal(&rng);
    }
    w->slot[item] = sum;
    return PF_OK;
}

static void count(void *self, const char *what, size_t done, size_t total)
{
    size_t *calls = self;
    *calls += strcmp(what, "test") == 0 && done <= total;
}

// Works until the flag is seen; whoever sets it shares no lock with the workers.
static pf_status wait_for_stop(void *self, int worker, size_t item, pf_error *error)
{
    (void)worker, (void)item, (void)error;
    while (!pf__stopped(self)) {
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    return PF_OK;
}

static void *set_stop(void *flag)
{
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    __atomic_store_n((volatile int *)flag, 1, __ATOMIC_RELAXED);
    return NULL;
}

static void test_parallel(void)
{
    static work one, many;
    static const int threads[] = {1, 2, 5};
    pf_error error = {PF_OK, ""};
    PF_CASE("parallel: the same results for 1, 2 and 5 threads");
    for (int i = 0; i < 3; i++) {
        work *w = i == 0 ? &one : &many;
        size_t calls = 0;
        *w = (work){.worker_max = threads[i], .fails_from = SIZE_MAX, .stops_at = SIZE_MAX};
        pf_effort effort = {.threads = threads[i], .self = &calls, .progress = count};
        CHECK(pf__threads(&effort) == threads[i]);
        CHECK(pf__parallel(&effort, threads[i], 1000, compute, w, "test", &error) == PF_OK);
        CHECK(calls == 1000);
        CHECK(memcmp(w->slot, one.slot, sizeof one.slot) == 0);
    }
    PF_CASE("parallel: the lowest failing item is reported, whatever the number of threads");
    for (int i = 0; i < 30; i++) {
        many = (work){.worker_max = threads[i % 3], .fails_from = 300, .stops_at = SIZE_MAX};
        pf_effort effort = {.threads = threads[i % 3]};
        CHECK(pf__parallel(&effort, threads[i % 3], 1000, compute, &many, "test", &error) ==
              PF_ERR_DEGENERATE);
        CHECK_STR(error.text, "item 301 failed");
        CHECK(error.code == PF_ERR_DEGENERATE);
        CHECK(pf__parallel(&effort, threads[i % 3], 1000, compute, &many, "test", NULL) ==
              PF_ERR_DEGENERATE);
    }
    PF_CASE("parallel: the stop flag stops");
    for (int i = 0; i < 3; i++) {
        many = (work){.worker_max = threads[i], .fails_from = SIZE_MAX, .stops_at = 100};
        pf_effort effort = {.threads = threads[i], .stop = &many.stop};
        CHECK(pf__parallel(&effort, threads[i], 1000, compute, &many, "test", &error) ==
              PF_ERR_INTERRUPTED);
        CHECK_CONTAINS(error.text, "test: stopped after ");
        CHECK(many.slot[999] == 0);
    }
    PF_CASE("parallel: a flag that another thread sets is no race (ThreadSanitizer would say so)");
    volatile int flag = 0;
    pthread_t setter;
    pf_effort watched = {.threads = 2, .stop = &flag};
    if (CHECK(pthread_create(&setter, NULL, set_stop, (void *)&flag) == 0)) {
        CHECK(pf__parallel(&watched, 2, 10, wait_for_stop, (void *)&flag, "test", &error) ==
              PF_ERR_INTERRUPTED);
        pthread_join(setter, NULL);
    }
    PF_CASE("parallel: nothing to do, and no effort given");
    CHECK(pf__parallel(NULL, 3, 0, compute, &many, "test", &error) == PF_OK);
    many = (work){.worker_max = pf__processors(), .fails_from = SIZE_MAX, .stops_at = SIZE_MAX};
    CHECK(pf__processors() >= 1 && pf__threads(NULL) == pf__processors());
    CHECK(pf__parallel(NULL, many.worker_max, 1000, compute, &many, "test", &error) == PF_OK);
    CHECK(memcmp(many.slot, one.slot, sizeof one.slot) == 0);
}

static void test_arena(void)
{
    pf_arena arena = {0};
    PF_CASE("arena: zeroed, aligned, given back at once");
    for (size_t n = 0; n < 50; n++) {
        uint8_t *piece = pf__arena_take(&arena, n, 3);
        CHECK(piece && (uintptr_t)piece % 16 == 0);
        for (size_t i = 0; i < 3 * n; i++) {
            CHECK(piece[i] == 0);
            piece[i] = 0xff;
        }
    }
    CHECK_STR(pf__arena_text(&arena, "text"), "text");
    pf__arena_free(&arena);
    CHECK(!arena.failed && !arena.blocks);
    PF_CASE("arena: sizes that overflow are refused, and every take after them");
    CHECK(!pf__arena_take(&arena, SIZE_MAX / 8 + 2, 8) && arena.failed);
    CHECK(!pf__arena_take(&arena, 1, 1));
    CHECK(!pf__arena_text(&arena, "x"));
    pf__arena_free(&arena);
    CHECK(!pf__arena_take(&arena, SIZE_MAX, 1));
    pf__arena_free(&arena);
    CHECK(!pf__arena_take(&arena, 1, SIZE_MAX));
    pf__arena_free(&arena);
    CHECK(pf__arena_take(&arena, SIZE_MAX, 0) && !arena.failed);
    pf__arena_free(&arena);
}

// --- a farm: jobs in two rounds, the second of which waits for the first

enum { FARM_JOBS = 40, FARM_FIRST = 10 };

typedef struct farm_test {
    int handed, first_back, back, times[FARM_JOBS];
    bool early;  // a job of the second round was handed out before the first was back
    int fails;   // the job that fails; -1: none
    int refuses; // the result that the foreman refuses; -1: none
    volatile int stop;
} farm_test;

static pf_status farm_next(void *self, int worker, pf_turn *turn, pf_text *job, pf_error *error)
{
    (void)worker;
    (void)error;
    farm_test *t = self;
    if (t->handed == FARM_JOBS) {
        *turn = t->back == FARM_JOBS ? PF_TURN_END : PF_TURN_LATER;
    } else if (t->handed == FARM_FIRST && t->first_back < FARM_FIRST) {
        *turn = PF_TURN_LATER;
    } else {
        t->early = t->early || (t->handed >= FARM_FIRST && t->first_back < FARM_FIRST);
        *turn = t->handed % 2 ? PF_TURN_SHORT : PF_TURN_LONG;
        pf__text_add_n(job, (const char *)&t->handed, sizeof t->handed);
        t->handed++;
    }
    return PF_OK;
}

static pf_status farm_hear(void *self, int worker, const pf_text *said, pf_text *reply,
                           pf_error *error)
{
    (void)worker;
    farm_test *t = self;
    int job = 0;
    memcpy(&job, said->data, sizeof job);
    if (reply) { // the double of it
        int twice = 2 * job;
        pf__text_add_n(reply, (const char *)&twice, sizeof twice);
        return PF_OK;
    }
    t->times[job]++;
    t->back++;
    t->first_back += job < FARM_FIRST;
    return job == t->refuses ? pf_fail(error, PF_ERR_FILE, "no room for %d", job) : PF_OK;
}

static pf_status farm_work(void *self, int worker, pf_link *link, const pf_text *job,
                           pf_error *error)
{
    (void)worker;
    farm_test *t = self;
    pf_text reply = {0};
    int number = 0, twice = 0;
    memcpy(&number, job->data, sizeof number);
    pf_status status = pf__link_ask(link, job, &reply, error);
    if (status == PF_OK) {
        memcpy(&twice, reply.data, sizeof twice);
    }
    pf__text_free(&reply);
    if (status == PF_OK && (number == t->fails || twice != 2 * number)) {
        return pf_fail(error, PF_ERR_PLANT, "job %d", number);
    }
    return status ? status : pf__link_tell(link, job, error);
}

static pf_status farm_run(farm_test *t, int threads, pf_error *error)
{
    pf_effort effort = {.stop = &t->stop};
    pf_farm farm = {.effort = &effort,
                    .threads = threads,
                    .foreman = {.self = t, .next = farm_next, .hear = farm_hear},
                    .work = farm_work,
                    .self = t};
    return pf__farm_run(&farm, error);
}

static void test_farm(void)
{
    pf_error error = {PF_OK, ""};
    PF_CASE("farm: every job once, those that wait for others after them");
    for (int threads = 1; threads <= 4; threads++) {
        farm_test t = {.fails = -1, .refuses = -1};
        bool once = farm_run(&t, threads, &error) == PF_OK && t.back == FARM_JOBS && !t.early;
        for (int i = 0; i < FARM_JOBS; i++) {
            once = once && t.times[i] == 1;
        }
        CHECK(once);
    }
    PF_CASE("farm: a job or a result that fails ends the work, with its reason");
    farm_test failing = {.fails = 5, .refuses = -1};
    CHECK(farm_run(&failing, 3, &error) == PF_ERR_PLANT);
    CHECK_STR(error.text, "job 5");
    CHECK(failing.handed <= FARM_FIRST);
    farm_test refusing = {.fails = -1, .refuses = 12};
    CHECK(farm_run(&refusing, 2, &error) == PF_ERR_FILE);
    CHECK_STR(error.text, "no room for 12");
    CHECK(refusing.handed < FARM_JOBS);
    PF_CASE("farm: a stop hands out nothing more");
    farm_test ended = {.fails = -1, .refuses = -1, .stop = 1};
    CHECK(farm_run(&ended, 2, &error) == PF_ERR_INTERRUPTED);
    CHECK(ended.handed == 0);
}

// --- ranks: the calls of MPI, with messages that were written down before

typedef struct wire_message {
    int from;
    pf_tag tag;
    const char *words; // Nullable
    int after;         // it comes once so many have been sent
} wire_message;

static struct {
    int rank, size, at, looks, tried, n_sent, heard;
    int fails; // the message that cannot be sent, from 1; 0: none
    bool handed, quit;
    pf_tag sent[32];
    wire_message in[10];
} wire;

static int wire_start(int *rank, int *size)
{
    *rank = wire.rank;
    *size = wire.size;
    return 0;
}

static int wire_send(int to, int tag, const void *bytes, size_t n, void **request)
{
    (void)to;
    (void)bytes;
    (void)n;
    *request = &wire;
    if (++wire.tried == wire.fails || wire.n_sent == 32) {
        return 1;
    }
    wire.sent[wire.n_sent++] = (pf_tag)tag;
    return 0;
}

static int wire_sent(void *request, bool *done)
{
    (void)request;
    *done = true;
    return 0;
}

// What waits for ever is told in the end that the wire is broken.
static int wire_peek(int *from, int *tag, size_t *n, bool *there)
{
    enum { LOOKS = 5000 };
    const wire_message *m = &wire.in[wire.at];
    *there = m->tag != 0 && wire.n_sent >= m->after;
    *from = m->from;
    *tag = m->tag;
    *n = m->words ? strlen(m->words) : 0;
    return !*there && ++wire.looks > LOOKS;
}

static int wire_take(int from, int tag, void *bytes, size_t n)
{
    (void)from;
    (void)tag;
    memcpy(bytes, n > 0 ? wire.in[wire.at].words : "", n);
    wire.at++;
    return 0;
}

static void wire_end(void)
{
}

static void wire_quit(int status)
{
    (void)status;
    wire.quit = true;
}

static pf_ranks *wire_open(int rank, int size, const wire_message *in, int n)
{
    static const pf_mpi_calls calls = {PF_MPI_CALLS, wire_start, wire_send, wire_sent,
                                       wire_peek,    wire_take,  wire_end,  wire_quit};
    pf_ranks *ranks = NULL;
    memset(&wire, 0, sizeof wire);
    wire.rank = rank;
    wire.size = size;
    memcpy(wire.in, in, (size_t)n * sizeof *in);
    CHECK(pf__ranks_join(&ranks, &calls, 1, NULL) == PF_OK);
    return ranks;
}

static int wire_count(pf_tag tag)
{
    int n = 0;
    for (int i = 0; i < wire.n_sent; i++) {
        n += wire.sent[i] == tag;
    }
    return n;
}

// One job, and then there may be more.
static pf_status wire_next(void *self, int worker, pf_turn *turn, pf_text *job, pf_error *error)
{
    (void)self;
    (void)worker;
    (void)error;
    *turn = wire.handed ? PF_TURN_LATER : PF_TURN_SHORT;
    pf__text_add_n(job, "job", wire.handed ? 0 : 3);
    wire.handed = true;
    return PF_OK;
}

static pf_status wire_hear(void *self, int worker, const pf_text *said, pf_text *reply,
                           pf_error *error)
{
    (void)self;
    (void)worker;
    (void)said;
    (void)reply;
    (void)error;
    wire.heard++;
    return PF_OK;
}

static pf_status wire_work(void *self, int worker, pf_link *link, const pf_text *job,
                           pf_error *error)
{
    (void)self;
    (void)worker;
    return pf__link_tell(link, job, error);
}

static pf_status wire_run(pf_ranks *ranks, const volatile int *stop, pf_error *error)
{
    pf_effort effort = {.stop = stop};
    pf_farm farm = {.ranks = ranks,
                    .effort = &effort,
                    .foreman = {.next = wire_next, .hear = wire_hear},
                    .work = wire_work};
    return pf__farm_run(&farm, error);
}

static void test_rank_0(void)
{
    pf_error error = {PF_OK, ""};
    const int stop = 1;
    PF_CASE("ranks: what a rank still computes at a stop is heard, though it had asked ahead");
    static const wire_message late[] = {{1, PF_TAG_NEXT, NULL, 0},  {1, PF_TAG_NEXT, NULL, 0},
                                        {2, PF_TAG_NEXT, NULL, 0},  {2, PF_TAG_STOP, NULL, 0},
                                        {1, PF_TAG_TELL, "job", 0}, {1, PF_TAG_BYE, "", 0},
                                        {2, PF_TAG_BYE, "", 0}};
    pf_ranks *ranks = wire_open(0, 3, late, 7);
    CHECK(wire_run(ranks, NULL, &error) == PF_ERR_INTERRUPTED);
    CHECK(wire.heard == 1 && wire_count(PF_TAG_END) == 2 && wire_count(PF_TAG_STOP) == 2);
    pf__ranks_close(ranks, NULL, 0);
    CHECK(!wire.quit);
    PF_CASE("ranks: after a signal one that was told to end and does not is left behind");
    static const wire_message silent[] = {
        {1, PF_TAG_NEXT, NULL, 0}, {2, PF_TAG_NEXT, NULL, 0}, {1, PF_TAG_NEXT, NULL, 0}};
    ranks = wire_open(0, 3, silent, 3);
    CHECK(wire_run(ranks, &stop, &error) == PF_ERR_INTERRUPTED);
    CHECK(ranks->stuck && wire_count(PF_TAG_END) == 2);
    pf__ranks_close(ranks, NULL, 0);
    CHECK(wire.quit);
    PF_CASE("ranks: what a rank ended with before it asked for work is said");
    static const wire_message leaving[] = {{1, PF_TAG_BYE, "no folder for models", 0},
                                           {2, PF_TAG_NEXT, NULL, 0},
                                           {2, PF_TAG_BYE, "", 0}};
    ranks = wire_open(0, 3, leaving, 3);
    CHECK(wire_run(ranks, NULL, &error) == PF_ERR_PLANT);
    CHECK_CONTAINS(error.text, "rank 1 (");
    CHECK_CONTAINS(error.text, "no folder for models");
    pf__ranks_close(ranks, NULL, 0);
}

static void test_rank_1(void)
{
    pf_error error = {PF_OK, ""};
    PF_CASE("ranks: a job that could not be asked for ahead is asked for again");
    static const wire_message jobs[] = {{0, PF_TAG_SHORT, "job", 1}, {0, PF_TAG_END, NULL, 3}};
    pf_ranks *ranks = wire_open(1, 2, jobs, 2);
    wire.fails = 2;
    CHECK(wire_run(ranks, NULL, &error) == PF_OK);
    CHECK(wire_count(PF_TAG_NEXT) == 2 && wire_count(PF_TAG_TELL) == 1);
    pf__ranks_close(ranks, NULL, 0);
    PF_CASE("ranks: one that cannot read its own program does not meet the others");
    struct rlimit files, none;
    ranks = wire_open(1, 2, jobs, 0);
    CHECK(getrlimit(RLIMIT_NOFILE, &files) == 0);
    none = (struct rlimit){0, files.rlim_max};
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    CHECK(pf__ranks_meet(ranks, &(pf_meeting){"a", "b", "c"}, &error) != PF_OK);
    CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
    CHECK_CONTAINS(error.text, "cannot read itself");
    CHECK(wire_count(PF_TAG_MEET) == 0);
    pf__ranks_close(ranks, NULL, 0);
}

void test_host(void)
{
    char folder[200];
    snprintf(folder, sizeof folder, "%s/host", pf_scratch_dir());
    test_numbers();
    test_text();
    test_shown();
    PF_CASE("file: a folder to write in");
    CHECK(mkdir(folder, 0777) == 0);
    test_write(folder);
    test_read(folder);
    struct sigaction alarm_action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &alarm_action, NULL);
    test_pipe(folder);
    test_child(folder);
    test_gnuplot(folder);
    signal(SIGALRM, SIG_DFL);
    test_parallel();
    test_farm();
    test_rank_0();
    test_rank_1();
    test_arena();
}
