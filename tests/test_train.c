// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "program.h"
#include "model/transitions.h"
#include "test.h"
#include "train.h"

#include "host/file.h"
#include "model/train_impl.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void train_path(char path[256], const char *name)
{
    snprintf(path, 256, "%s/%s", pf_scratch_dir(), name);
}

pf_train_settings train_settings(int epochs)
{
    pf_train_settings s;
    pf_error error;
    CHECK(pf_train_profile(&s, "quick", &error) == PF_OK);
    s.epochs = epochs;
    return s;
}

pf_transitions *train_data(const char *plant, const pf_train_settings *s, const char *path)
{
    pf_error error = {PF_OK, ""};
    pf_plant *p = NULL;
    pf_transitions *data = NULL;
    CHECK(pf_plant_create(&p, plant, &error) == PF_OK);
    CHECK(pf_transitions_make(s, p, path, NULL, &error) == PF_OK);
    CHECK(pf_transitions_open(&data, path, &error) == PF_OK);
    CHECK_STR(error.text, "");
    pf_plant_destroy(p);
    return data;
}

bool train_same_bytes(const char *one, const char *other)
{
    void *a = NULL, *b = NULL;
    size_t n = 0, m = 1;
    pf_error error;
    bool same = pf__file_read(one, 1 << 26, &a, &n, &error) == PF_OK &&
                pf__file_read(other, 1 << 26, &b, &m, &error) == PF_OK && n == m && n > 1000 &&
                memcmp(a, b, n) == 0;
    free(a);
    free(b);
    return same;
}

bool train_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static int checkpoints(const char *model)
{
    int n = 0;
    for (int e = 0; e < PF_MODEL_MEMBERS; e++) {
        char path[400];
        snprintf(path, sizeof path, "%s.member-%02d", model, e);
        n += train_exists(path);
    }
    return n;
}

// --- interruptions

// Stops after some epochs of this run, or when a member is finished.
typedef struct stopper {
    volatile int stop;
    int after; // epochs; -1: when a member is finished; 0: never
    int run, restored;
    double last_valid, last_best;
    bool disordered; // restored epochs come first
} stopper;

static void count(void *self, const pf_epoch *e)
{
    stopper *s = self;
    s->disordered = s->disordered || (e->restored && s->run > 0);
    *(e->restored ? &s->restored : &s->run) += 1;
    s->last_valid = e->valid;
    s->last_best = e->best;
    if ((s->after > 0 && s->run == s->after) || (s->after < 0 && e->finished)) {
        __atomic_store_n(&s->stop, 1, __ATOMIC_RELAXED);
    }
}

static pf_status train(const pf_train_settings *s, const pf_transitions *data, const char *path,
                       int threads, stopper *stop, pf_error *error)
{
    pf_effort effort = {.threads = threads, .stop = stop ? &stop->stop : NULL};
    pf_train_watch watch = {stop, count};
    *error = (pf_error){PF_OK, ""};
    return pf_train(s, data, path, 0, &effort, stop ? &watch : NULL, error);
}

static void test_threads(const char *plant)
{
    char label[100], file[256], one[256], two[256];
    pf_train_settings s = train_settings(40);
    pf_error error;
    s.members = 3;
    s.transitions = 2000;
    snprintf(label, sizeof label, "train: %s has the same bytes from 1 and 2 threads", plant);
    PF_CASE(label);
    train_path(file, "threads.data");
    train_path(one, "one.model");
    train_path(two, "two.model");
    pf_transitions *data = train_data(plant, &s, file);
    CHECK(train(&s, data, one, 1, NULL, &error) == PF_OK);
    CHECK(train(&s, data, two, 2, NULL, &error) == PF_OK);
    CHECK(train_same_bytes(one, two));
    CHECK(checkpoints(one) == 0 && checkpoints(two) == 0);
    s.seed++;
    CHECK(train(&s, data, two, 2, NULL, &error) == PF_OK);
    CHECK(!train_same_bytes(one, two));
    pf_transitions_close(data);
    pf_model *model = NULL;
    CHECK(pf_model_load(&model, two, &error) == PF_OK);
    CHECK(pf__train_made(&s, model, &error) == PF_OK);
    s.seed++;
    CHECK(pf__train_made(&s, model, &error) == PF_OK);
    s.epochs++;
    CHECK(pf__train_made(&s, model, &error) == PF_ERR_MISMATCH);
    CHECK_CONTAINS(error.text, "epochs 40");
    pf_model_destroy(model);
}

static void test_resume(bool rollouts)
{
    char file[256], whole[256], parts[256];
    pf_train_settings s = train_settings(40);
    pf_error error;
    s.transitions = 2000;
    s.rollouts = rollouts;
    s.window = rollouts ? 12 : 0;
    PF_CASE(rollouts
                ? "train: the same with rollouts"
                : "train: stopped again and again, with 1 and 2 threads, it has the same bytes");
    train_path(file, "resume.data");
    train_path(whole, "whole.model");
    train_path(parts, rollouts ? "rolled-parts.model" : "parts.model");
    pf_transitions *data = train_data("dc_servo", &s, file);
    stopper all = {.after = 0};
    CHECK(train(&s, data, whole, 2, &all, &error) == PF_OK);
    CHECK(all.restored == 0 && all.run > 20 && all.last_best <= all.last_valid);
    int runs = 0, last = 0;
    pf_status status = PF_ERR_INTERRUPTED;
    while (status == PF_ERR_INTERRUPTED && runs < 30) {
        stopper some = {.after = 7 + runs};
        status = train(&s, data, parts, 1 + runs % 2, &some, &error);
        CHECK(some.restored >= last && !some.disordered);
        CHECK(status == PF_OK || (!train_exists(parts) && checkpoints(parts) > 0));
        last = some.restored;
        runs++;
    }
    CHECK(status == PF_OK && runs > 3);
    CHECK(train_same_bytes(whole, parts));
    CHECK(checkpoints(parts) == 0);
    pf_transitions_close(data);
}

static void pause_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

// Ends a process in the middle, without warning, once there are checkpoints. False: it was done.
static bool kill_midway(pid_t child, const char *model)
{
    int status = 0;
    for (int i = 0; i < 60000 && checkpoints(model) == 0; i++) {
        if (waitpid(child, &status, WNOHANG) == child) {
            return false;
        }
        pause_ms(1);
    }
    pause_ms(30);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

static void test_killed(void)
{
    char file[256], whole[256], parts[256];
    pf_train_settings s = train_settings(100);
    pf_error error;
    s.transitions = 2000;
    s.patience = 1000;
    PF_CASE("train: a process killed twice while it writes checkpoints has the same bytes");
    train_path(file, "killed.data");
    train_path(whole, "calm.model");
    train_path(parts, "killed.model");
    pf_transitions *data = train_data("attitude", &s, file);
    CHECK(train(&s, data, whole, 2, NULL, &error) == PF_OK);
    for (int k = 0; k < 2; k++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            _exit(train(&s, data, parts, 2, NULL, &error) == PF_OK ? 0 : 1);
        }
        CHECK(child > 0 && kill_midway(child, parts));
        CHECK(!train_exists(parts) && checkpoints(parts) > 0);
    }
    stopper rest = {.after = 0};
    CHECK(train(&s, data, parts, 1, &rest, &error) == PF_OK);
    CHECK_STR(error.text, "");
    CHECK(rest.restored > 0 && rest.run > 0);
    CHECK(train_same_bytes(whole, parts));
    pf_transitions_close(data);
}

// Starts the program; its output goes nowhere.
static pid_t start_program(char *const *arguments)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, 0);
        dup2(null, 1);
        dup2(null, 2);
        execv(PF_PROGRAM, arguments);
        _exit(127);
    }
    return child;
}

// The program keeps a checkpoint of a finished member at once, of others every five seconds;
// members that stop early at different epochs give it something to go on from.
static void test_program_killed(void)
{
    char folder[200], arguments[700], whole[256], parts[256], rival[300];
    PF_CASE("train: the program killed in the middle and run again has the same bytes");
    CHECK(program_folder(folder, sizeof folder, "killed"));
    snprintf(whole, sizeof whole, "%s/whole", folder);
    snprintf(parts, sizeof parts, "%s/parts", folder);
    const char *call = "train dc_servo -o '%s' --profile quick --set epochs=400 --set members=8 "
                       "--set patience=12 --set transitions=2000 --threads 2";
    snprintf(arguments, sizeof arguments, call, whole);
    CHECK(program(arguments, 0, "sha256"));
    char *const child[] = {"preflight", "train", "dc_servo",    "-o",         parts,
                           "--profile", "quick", "--set",       "epochs=400", "--set",
                           "members=8", "--set", "patience=12", "--set",      "transitions=2000",
                           "--threads", "2",     NULL};
    snprintf(rival, sizeof rival, "%s.recursive", parts); // windows are too few for the other kind
    CHECK(kill_midway(start_program(child), rival));
    CHECK(!train_exists(parts) && !train_exists(rival) && checkpoints(rival) > 0);
    snprintf(arguments, sizeof arguments, call, parts);
    CHECK(program(arguments, 0, "sha256"));
    CHECK(train_same_bytes(whole, parts));
    CHECK(checkpoints(rival) == 0 && !train_exists(rival));
}

// --- checkpoints that are refused

// Replaces a text in a file by one of the same length.
static bool patch(const char *path, const char *from, const char *to)
{
    void *data = NULL;
    size_t n = 0, length = strlen(from);
    pf_error error;
    bool done = false;
    if (pf__file_read(path, 1 << 26, &data, &n, &error) == PF_OK) {
        char *bytes = data;
        for (size_t i = 0; i + length <= n && !done; i++) {
            if (memcmp(bytes + i, from, length) == 0) {
                memcpy(bytes + i, to, length);
                done = pf__file_write(path, bytes, n, &error) == PF_OK;
            }
        }
    }
    free(data);
    return done;
}

static void test_other_settings(const pf_train_settings *s, const pf_transitions *data,
                                const pf_transitions *other, const char *path)
{
    PF_CASE("train: checkpoints of other settings or data are refused and left alone");
    pf_error error;
    char first[300];
    snprintf(first, sizeof first, "%s.member-00", path);
    for (int k = 0; k < 7; k++) {
        pf_train_settings t = *s;
        t.epochs += k == 0;
        t.seed += k == 1;
        t.learning_rate *= k == 2 ? 1 + 1e-15 : 1;
        t.patience += k == 3;
        t.cosine = k == 4 ? !t.cosine : t.cosine;
        t.width += k == 5;
        CHECK(train(&t, k == 6 ? other : data, path, 1, NULL, &error) == PF_ERR_MISMATCH);
        CHECK_CONTAINS(error.text,
                       "member-00: is the checkpoint of a training with other settings");
        CHECK(train_exists(first) && !train_exists(path));
    }
}

static void test_damaged(const pf_train_settings *s, const pf_transitions *data, const char *path)
{
    static const char *const patches[][2] = {{"\"finished\":\"1\"", "\"finished\":\"0\""},
                                             {"\"best_epoch\":\"", "\"best_epohc\":\""},
                                             {"\"epoch\":\"1", "\"epoch\":\"9"},
                                             {"\"epoch\":\"1", "\"epoch\":\"-"},
                                             {"\"theta\"", "\"thetb\""}};
    char first[300], kept[256];
    void *data_bytes = NULL;
    size_t n = 0;
    pf_error error;
    PF_CASE("train: damaged checkpoints are refused");
    train_path(kept, "kept");
    snprintf(first, sizeof first, "%s.member-00", path);
    CHECK(pf__file_read(first, 1 << 26, &data_bytes, &n, &error) == PF_OK);
    for (size_t k = 0; k < sizeof patches / sizeof patches[0]; k++) {
        CHECK(pf__file_write(first, data_bytes, n, &error) == PF_OK);
        CHECK(patch(first, patches[k][0], patches[k][1]));
        bool bad = train(s, data, path, 1, NULL, &error) != PF_OK;
        if (!CHECK(bad)) {
            printf("    accepted with %s\n", patches[k][1]);
            return;
        }
        CHECK_CONTAINS(error.text, "member-00");
    }
    for (size_t cut = 0; cut < n; cut += n / 5) {
        CHECK(pf__file_write(first, data_bytes, cut, &error) == PF_OK);
        CHECK(train(s, data, path, 1, NULL, &error) != PF_OK);
        CHECK_CONTAINS(error.text, "member-00");
    }
    float bad = NAN;
    memcpy((char *)data_bytes + n - 40, &bad, 4);
    CHECK(pf__file_write(first, data_bytes, n, &error) == PF_OK);
    CHECK(train(s, data, path, 1, NULL, &error) == PF_ERR_NONFINITE);
    free(data_bytes);
}

static void test_checkpoints(void)
{
    char file[256], path[256];
    pf_error error;
    pf_train_settings s = train_settings(12), other = s;
    s.transitions = other.transitions = 1000;
    s.width = other.width = 8;
    other.seed = 99;
    PF_CASE("train: stopped when a member is finished, it has a checkpoint of it");
    train_path(file, "checkpoints.data");
    train_path(path, "checkpoints.model");
    pf_transitions *data = train_data("dc_servo", &s, file);
    train_path(file, "other.data");
    pf_transitions *second = train_data("dc_servo", &other, file);
    stopper stop = {.after = -1};
    CHECK(train(&s, data, path, 1, &stop, &error) == PF_ERR_INTERRUPTED);
    CHECK(checkpoints(path) == 2);
    test_other_settings(&s, data, second, path);
    test_damaged(&s, data, path);
    pf_transitions_close(data);
    pf_transitions_close(second);
}

// Checkpoints with sound digests that no training writes.
static void test_contradictory(void)
{
    enum { EPOCHS = 8, N = 2 * 3 + 3 + 3 + 1 };
    const pf_net net = {2, 1, 1, 3, PF_ACTIVATION_SILU};
    float theta[N] = {0}, first[N] = {0}, second[N] = {0}, kept[N] = {0};
    float history[2 * EPOCHS * PF_HISTORY] = {0};
    char path[256];
    PF_CASE("train: checkpoints that contradict themselves, or are of another member, are refused");
    train_path(path, "contradictory.member");
    pf_train_settings s = train_settings(EPOCHS);
    s.rollouts = true;
    s.patience = EPOCHS;
    static const struct {
        int index, epoch, best_epoch, turn;
        pf_status status;
        const char *part;
    } cases[] = {{0, 3, 2, 0, PF_OK, ""},
                 {0, 9, 8, 8, PF_OK, ""},
                 {1, 3, 2, 0, PF_ERR_MISMATCH, "another member"},
                 {0, 10, 1, 0, PF_ERR_FORMAT, "no whole checkpoint"},
                 {0, 8, 1, 0, PF_ERR_FORMAT, "no whole checkpoint"},
                 {0, 9, 3, 5, PF_ERR_FORMAT, "no whole checkpoint"},
                 {0, 9, 9, 9, PF_ERR_FORMAT, "no whole checkpoint"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pf_member m = {.index = cases[i].index,
                       .epoch = cases[i].epoch,
                       .best_epoch = cases[i].best_epoch,
                       .turn = cases[i].turn,
                       .best = .5,
                       .theta = theta,
                       .first = first,
                       .second = second,
                       .kept = kept,
                       .history = history};
        pf_error error = {PF_OK, ""};
        bool found = false;
        CHECK(pf__member_write(&m, &s, &net, path, "same", &error) == PF_OK);
        m.index = 0;
        if (!CHECK(pf__member_read(&m, &s, &net, path, "same", &found, &error) ==
                   cases[i].status)) {
            printf("    case %d: %s\n", (int)i, error.text);
        }
        CHECK(found);
        CHECK_CONTAINS(error.text, cases[i].part);
    }
}

static void test_too_few(void)
{
    char file[256], path[256];
    pf_error error;
    pf_train_settings s = train_settings(5);
    s.transitions = 10;
    PF_CASE("train: too few transitions are refused");
    train_path(file, "few.data");
    train_path(path, "few.model");
    pf_transitions *data = train_data("dc_servo", &s, file);
    CHECK(train(&s, data, path, 1, NULL, &error) == PF_ERR_DEGENERATE);
    CHECK_CONTAINS(error.text, "set more transitions");
    pf_transitions_close(data);
    CHECK(checkpoints(path) == 0 && !train_exists(path));
}

// All rows are the same, so neither bootstrap nor order matter.
static void test_steps(void)
{
    enum { ROWS = 12, BATCH = 5, N = 2 * 3 + 3 + 3 + 1, EPOCHS = 6 };
    const pf_net net = {2, 1, 1, 3, PF_ACTIVATION_SILU};
    float x[ROWS * 2], y[ROWS], bx[BATCH * 2], by[BATCH], gradient[N], work[100];
    float theta[N], first[N], second[N], kept[N], history[EPOCHS * PF_HISTORY], m[N] = {0};
    float v[N] = {0}, expected[N];
    int order[ROWS];
    pf_error error;
    PF_CASE("train: epochs are Adam's steps counted through, at the rate of the cosine");
    for (int r = 0; r < ROWS; r++) {
        x[2 * r] = .5f;
        x[2 * r + 1] = -1;
        y[r] = 2;
    }
    pf_train_settings s = train_settings(EPOCHS);
    s.batch = BATCH;
    s.weight_decay = .1;
    pf_dataset set = {.n_in = 2, .n_out = 1, .n_train = 10, .n_valid = 2, .x = x, .y = y};
    pf_member member = {
        .theta = theta, .first = first, .second = second, .kept = kept, .history = history};
    pf_epoch_space space = {order, bx, by, gradient, work, NULL};
    CHECK(pf__net_parameters(&net) == N && pf__net_gradient_work(&net, BATCH) <= 100);
    pf__member_init(&member, &s, &net);
    memcpy(expected, theta, sizeof theta);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        double rate = s.learning_rate * (1 + cos(acos(-1.) * epoch / EPOCHS)) / 2;
        const pf_adam adam = {(float)rate, .9f, .999f, 1e-8f, .1f};
        CHECK(pf__member_epoch(&member, &s, &net, &set, NULL, &space, NULL, &error) == PF_OK);
        for (int b = 1; b <= 2; b++) {
            pf__net_gradient(&net, expected, BATCH, x, y, work, gradient);
            pf__adam_step(&adam, 2 * epoch + b, N, gradient, m, v, expected);
        }
        for (int i = 0; i < N; i++) {
            CHECK_NEAR((double)theta[i], (double)expected[i], 1e-7);
        }
    }
    CHECK(member.finished && member.epoch == EPOCHS);
}

void test_train(void)
{
    test_steps();
    test_threads("dc_servo");
    test_threads("attitude");
    test_resume(false);
    test_resume(true);
    test_killed();
    test_program_killed();
    test_checkpoints();
    test_contradictory();
    test_too_few();
    // the attitude residual is a dead zone of 4 % of the duty: 4,000 transitions do not show it
    check_train_good("dc_servo", .2);
    check_train_good("attitude", 1);
    check_train_constant();
    check_train_refused();
}
