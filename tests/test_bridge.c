// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "test.h"
#include "host/parallel.h"
#include "plant/plant_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void test_bridge(void);

#ifdef PF_HAVE_JANSSON

#define ROWS 3
#define N_MECH 3
#define N_CHAN 2
#define N_STATE 2
#define TASK_ROWS 4

typedef struct answer {
    double start[N_STATE];
    double initial[N_CHAN];
    double output[TASK_ROWS * N_CHAN];
} answer;

static const double command[ROWS * N_MECH] = {0.1, 1.0 / 3, -0.7, 0, 1e-17, 2, -0.3, 0.25, 0};
static const double gains[N_MECH] = {1, 0.35, 1.0 / 7};

static void drop(pf_plant *plant)
{
    if (plant != NULL) {
        plant->ops->destroy(plant);
        free(plant);
    }
}

static pf_plant *open_command(const char *text, pf_error *error)
{
    pf_plant *plant = NULL;
    char name[2700];
    snprintf(name, sizeof name, "exec:%s", text);
    pf_status status = pf_plant_create(&plant, name, error);
    CHECK((status == PF_OK) == (plant != NULL));
    return plant;
}

static pf_plant *open_mode(const char *mode, pf_error *error)
{
    char text[2600];
    snprintf(text, sizeof text, "exec '%s' %s", PF_EXEC_CHILD, mode);
    *error = (pf_error){.code = PF_OK};
    return open_command(text, error);
}

static pf_roll test_roll(void)
{
    pf_roll roll = {0};
    roll.key = UINT64_C(0xfedcba9876543210);
    roll.gains = gains;
    roll.command = command;
    roll.rows = ROWS;
    roll.policy = -1;
    roll.disturbance = true;
    return roll;
}

static pf_status run(pf_plant *plant, const pf_roll *roll, answer *got, pf_error *error)
{
    memset(got, 0, sizeof *got);
    *error = (pf_error){.code = PF_OK};
    pf_trace trace = {.start = got->start, .initial = got->initial, .output = got->output};
    return plant->ops->roll(plant, roll, &trace, error);
}

// What a plant in order answers to test_roll.
static bool reference(answer *expected)
{
    pf_error error;
    pf_plant *plant = open_mode("good", &error);
    pf_roll roll = test_roll();
    bool ok = plant != NULL && run(plant, &roll, expected, &error) == PF_OK;
    drop(plant);
    return ok;
}

static bool same(const answer *a, const answer *b)
{
    return memcmp(a->start, b->start, sizeof a->start) == 0 &&
           memcmp(a->output, b->output, sizeof a->output) == 0;
}

static int count_fds(void)
{
    int n = 0;
    for (int fd = 0; fd < 1024; fd++) {
        n += fcntl(fd, F_GETFD) != -1;
    }
    return n;
}

// Whether a process runs; a zombie that its new parent has not reaped yet does not.
static bool is_alive(long pid)
{
    char path[64], line[256] = "";
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return false;
    }
    char *got = fgets(line, sizeof line, file);
    fclose(file);
    const char *state = got != NULL ? strrchr(line, ')') : NULL;
    return state != NULL && strncmp(state, ") Z", 3) != 0 && strncmp(state, ") X", 3) != 0;
}

static void test_start(void)
{
    pf_error error;
    answer got;
    pf_roll roll = test_roll();
    PF_CASE("the channels before the first command are not a number where the plant has none");
    pf_plant *plant = open_mode("no-initial", &error);
    if (CHECK(plant != NULL) && CHECK(run(plant, &roll, &got, &error) == PF_OK) &&
        CHECK(run(plant, &roll, &got, &error) == PF_OK)) { // the second answer lacks it
        CHECK(isnan(got.initial[0]) && isnan(got.initial[1]));
        CHECK(plant->info.kinds[1] == PF_CHANNEL_PLAIN);
    }
    drop(plant);
    PF_CASE("kind of a channel");
    plant = open_mode("angle", &error);
    if (CHECK(plant != NULL)) {
        CHECK(plant->info.kinds[0] == PF_CHANNEL_PLAIN && plant->info.kinds[1] == PF_CHANNEL_ANGLE);
    }
    drop(plant);
}

static void test_description(void)
{
    PF_CASE("hello");
    pf_error error;
    pf_plant *plant = open_mode("good", &error);
    if (!CHECK(plant != NULL)) {
        return;
    }
    const pf_plant_info *info = &plant->info;
    CHECK_CONTAINS(info->name, "exec:exec '");
    CHECK_STR(info->title, "tiny");
    CHECK_STR(info->source, "tiny 1.5");
    CHECK(info->n_mech == N_MECH && info->n_chan == N_CHAN && info->n_state == N_STATE);
    CHECK(info->dt_s == 0.1);
    CHECK_STR(info->mechanisms[0].name, "main");
    CHECK(info->mechanisms[0].lo == -INFINITY && info->mechanisms[0].hi == INFINITY);
    CHECK_STR(info->mechanisms[1].name, "left");
    CHECK(info->mechanisms[1].lo == -1 && info->mechanisms[1].hi == 1);
    CHECK(info->mechanisms[2].lo == -2 && info->mechanisms[2].hi == INFINITY);
    CHECK_STR(info->channels[0].name, "sum");
    CHECK(info->channels[0].scale == 0 && info->channels[0].noise_sd == 0);
    CHECK_STR(info->channels[1].name, "lag");
    CHECK(info->channels[1].scale == 0.5);
    CHECK(info->probe == NULL && info->task == NULL && info->n_knobs == 0);
    CHECK(info->reveal == NULL && info->importance == NULL);
    CHECK(info->n_policies == 1);
    CHECK_STR(info->policies[0].name, "hold");
    CHECK(info->policies[0].rows == TASK_ROWS && info->policies[0].n_mechanisms == 2);
    CHECK(info->policies[0].mechanisms[0] == 0 && info->policies[0].mechanisms[1] == 2);
    drop(plant);
}

static void test_answers(const answer *expected)
{
    PF_CASE("answers");
    pf_error error;
    answer got, other;
    pf_plant *plant = open_mode("good", &error);
    pf_plant *copy = NULL;
    CHECK(plant != NULL && plant->ops->clone(plant, &copy, &error) == PF_OK);
    if (copy == NULL) {
        drop(plant);
        return;
    }
    pf_roll roll = test_roll();
    for (int i = 0; i < 20; i++) {
        CHECK(run(plant, &roll, &got, &error) == PF_OK && same(&got, expected));
    }
    CHECK(memcmp(got.initial, got.start, sizeof got.initial) == 0); // its state is what it shows
    CHECK(run(copy, &roll, &other, &error) == PF_OK && same(&other, expected));
    CHECK_STR(copy->info.name, plant->info.name);

    // another seed, no noise, and the same again from the start that was told
    roll.key = 12345678901;
    CHECK(run(plant, &roll, &other, &error) == PF_OK && !same(&other, &got));
    roll.disturbance = false;
    CHECK(run(plant, &roll, &other, &error) == PF_OK);
    const double start[N_STATE] = {other.start[0], other.start[1]};
    roll.start = start;
    CHECK(run(copy, &roll, &got, &error) == PF_OK && same(&got, &other));

    // by hand: the digits survive both ways
    double x0 = start[0] + 0.1 * (0.1 + 0.35 * (1.0 / 3) - 0.5 * (1.0 / 7 * -0.7));
    CHECK(fabs(got.output[0] - x0) < 1e-15);
    roll.gains = NULL;
    CHECK(run(copy, &roll, &got, &error) == PF_OK);
    x0 = start[0] + 0.1 * (0.1 + 1.0 / 3 + 0.5 * 0.7);
    CHECK(fabs(got.output[0] - x0) < 1e-15);

    // nothing wanted
    pf_trace nothing = {0};
    CHECK(plant->ops->roll(plant, &roll, &nothing, &error) == PF_OK);
    drop(plant);
    CHECK(run(copy, &roll, &other, &error) == PF_OK && same(&got, &other));
    drop(copy);
}

static void test_task_and_refusals(void)
{
    PF_CASE("policy");
    pf_error error;
    answer got, other;
    pf_plant *plant = open_mode("good", &error);
    if (!CHECK(plant != NULL)) {
        return;
    }
    const double correction[N_MECH] = {2, 1, 1};
    pf_roll roll = test_roll();
    roll.policy = 0;
    roll.command = NULL;
    roll.rows = TASK_ROWS;
    CHECK(run(plant, &roll, &got, &error) == PF_OK);
    CHECK(got.output[2 * TASK_ROWS - 1] != 0);
    roll.correction = correction;
    CHECK(run(plant, &roll, &other, &error) == PF_OK && !same(&got, &other));
    roll.rows = TASK_ROWS - 1;
    CHECK(run(plant, &roll, &got, &error) == PF_ERR_SHAPE);
    roll.policy = 1;
    CHECK(run(plant, &roll, &got, &error) == PF_ERR_ARGUMENT);

    PF_CASE("unsupported");
    roll = test_roll();
    roll.mean_reset = true;
    CHECK(run(plant, &roll, &got, &error) == PF_ERR_UNSUPPORTED);
    CHECK_CONTAINS(error.text, "a process plant has no mean reset");
    roll.mean_reset = false;
    double states[ROWS * N_STATE];
    pf_trace trace = {.state = states};
    CHECK(plant->ops->roll(plant, &roll, &trace, &error) == PF_ERR_UNSUPPORTED);
    const double bad[N_MECH] = {1, NAN, 1};
    roll.gains = bad;
    CHECK(run(plant, &roll, &got, &error) == PF_ERR_NONFINITE);
    roll.gains = gains;
    CHECK(run(plant, &roll, &got, &error) == PF_OK);
    drop(plant);

    pf_plant *none = NULL;
    CHECK(pf__bridge_create(&none, "  ", NULL, NULL, &error) == PF_ERR_ARGUMENT && none == NULL);
}

// Failures at the second roll (die: the third): the one before and the one after are right.
static const struct {
    const char *mode;
    const char *part; // of the message
} failures[] = {
    {"hang", "no answer within 0.3 s"},
    {"hang-hard", "no answer within 0.3 s"},
    {"die", "exited with status 3"},
    {"crash", "was ended by signal 6"},
    {"half-line", "exited with status 0"},
    {"close-stdout", "closed its standard"},
    {"huge", "more than 64 MiB"},
    {"garbage", "not a JSON object: Traceback ?? (most recent"},
    {"not-object", "not a JSON object: [1, 2]"},
    {"duplicate-key", "duplicate"},
    {"wrong-size", "2 rows instead of 3"},
    {"wrong-columns", "row 0 of \"output\" is not a list of 2 numbers"},
    {"wrong-start", "\"start\" is not a list of 2 numbers"},
    {"wrong-initial", "\"initial\" is not a list of 2 numbers"},
    {"no-output", "0 rows instead of 3"},
    {"nan", "NaN"},
    {"nan-small", "nan"},
    {"infinity", "-"},
    {"overflow", "overflow"},
    {"nan-string", "row 0 of \"output\" is not"},
    {"nan-null", "row 0 of \"output\" is not"},
    {"start-string", "\"start\" is not"},
    {"wrong-id", "\"id\" is not that of a request"},
    {"no-id", "\"id\" is not that of a request"},
    {"error-number", "0 rows instead of 3"},
};

static void test_failures(const answer *expected)
{
    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
        PF_CASE(failures[i].mode);
        pf_error error;
        pf_plant *plant = open_mode(failures[i].mode, &error);
        if (!CHECK(plant != NULL)) {
            continue;
        }
        bool hangs = strncmp(failures[i].mode, "hang", 4) == 0;
        pf_plant_set_timeouts(plant, 20, hangs ? 0.3 : 20);
        pf_roll roll = test_roll();
        answer got;
        int good = strcmp(failures[i].mode, "die") == 0 ? 2 : 1;
        double before = pf__seconds();
        for (int round = 0; round < 2; round++) {
            for (int k = 0; k < good; k++) {
                CHECK(run(plant, &roll, &got, &error) == PF_OK && same(&got, expected));
            }
            CHECK(run(plant, &roll, &got, &error) == PF_ERR_PLANT);
            CHECK(error.code == PF_ERR_PLANT);
            CHECK_CONTAINS(error.text, failures[i].part);
            CHECK_CONTAINS(error.text, "exec:exec '");
            // a refused answer leaves nothing behind
            CHECK(got.output[0] == 0 && got.start[0] == 0);
        }
        CHECK(run(plant, &roll, &got, &error) == PF_OK && same(&got, expected));
        CHECK(pf__seconds() - before < 15);
        drop(plant);
    }
}

static void test_hello_failures(void)
{
    static const struct {
        const char *mode;
        const char *part;
    } modes[] = {
        {"wrong-protocol", "\"protocol\" is not 1"},
        {"no-mechanisms", "\"mechanisms\" must list"},
        {"wrong-kind", "\"kind\" of lag must be plain, angle or quaternion"},
        {"stdout-noise", "not a JSON object: Welcome to the tiny rig!"},
        {"die-hello", "exited with status 4"},
    };
    PF_CASE("hello refused");
    pf_error error;
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        pf_plant *plant = open_mode(modes[i].mode, &error);
        CHECK(plant == NULL && error.code == PF_ERR_PLANT);
        CHECK_CONTAINS(error.text, modes[i].part);
        drop(plant);
    }
    CHECK(open_command("/nonexistent/rig 2>/dev/null", &error) == NULL);
    CHECK_CONTAINS(error.text, "command not found");
    CHECK_CONTAINS(error.text, "/nonexistent/rig");
}

// What a plain shell command says as its hello.
static void check_hello(const char *hello, const char *part)
{
    char text[800];
    snprintf(text, sizeof text, "read line; echo '%s'; cat >/dev/null", hello);
    pf_error error = {.code = PF_OK, .text = ""};
    pf_plant *plant = open_command(text, &error);
    CHECK((plant == NULL) == (part[0] != '\0'));
    CHECK_CONTAINS(error.text, part);
    drop(plant);
}

static void test_hello_fields(void)
{
    PF_CASE("hello fields");
#define HELLO(m, c, rest) "{\"protocol\":1,\"name\":\"x\",\"mechanisms\":" m ",\"channels\":" c rest
#define REST ",\"dt\":0,\"state_size\":0}"
#define TASKS(list) ",\"dt\":0,\"state_size\":0,\"tasks\":" list "}"
#define AB "[\"a\",\"b\"]"
    check_hello(HELLO(AB, "[\"y\"]", REST), "");
    check_hello(HELLO(AB, "[\"y\"]", TASKS("null")), "");
    check_hello(HELLO(AB, "[\"y\"]", TASKS("[{\"name\":\"t\"}]")), "");
    check_hello(HELLO("[\"a\"]", "[\"y\"]", REST), "must list 2 to 256");
    check_hello(HELLO("[\"a\",\"a\"]", "[\"y\"]", REST),
                "two of its mechanisms have the same name 'a'");
    check_hello(HELLO(AB, "[\"y\",\"z\",\"y\"]", REST),
                "two of its channels have the same name 'y'");
    check_hello(HELLO("[\"a\",\"b\\\\u001b[31m\"]", "[\"y\"]", REST),
                "its mechanism 'b\033[31m' holds a control character or is not UTF-8");
    check_hello(HELLO(AB, "[\"y\\\\nz\"]", REST), "its channel 'y\nz' holds a control character");
    check_hello(
        HELLO(AB, "[\"y\"]", TASKS("[{\"name\":\"t\\\\u0007\",\"mechanisms\":[1],\"rows\":1}]")),
        "its task 't\a' holds a control character");
    check_hello("{\"protocol\":1,\"name\":\"x\\\\u007f\",\"mechanisms\":" AB
                ",\"channels\":[\"y\"]" REST,
                "its environment 'x\177' holds a control character");
    check_hello(HELLO("[\"a\",7]", "[\"y\"]", REST), "mechanism 1 has no name");
    check_hello(HELLO("[\"a\",{\"name\":\"b\",\"lo\":\"x\"}]", "[\"y\"]", REST),
                "\"lo\" of b is not a number");
    check_hello(HELLO("[\"a\",{\"name\":\"b\",\"lo\":1,\"hi\":0}]", "[\"y\"]", REST), "lo > hi");
    check_hello(HELLO(AB, "[]", REST), "\"channels\" must list");
    check_hello(HELLO(AB, "[{\"name\":\"y\",\"scale\":-1}]", REST), "negative");
    check_hello(HELLO(AB, "[\"y\"]", ",\"dt\":-1,\"state_size\":0}"), "\"dt\" is not");
    check_hello(HELLO(AB, "[\"y\"]", ",\"dt\":0,\"state_size\":4097}"), "0..4096");
    check_hello(HELLO(AB, "[\"y\"]", ",\"dt\":0,\"state_size\":1.5}"), "0..4096");
    check_hello(HELLO(AB, "[\"y\"]", TASKS("7")), "\"tasks\" is not a list");
    check_hello(HELLO(AB, "[\"y\"]", TASKS("[{\"name\":\"t\",\"mechanisms\":[2],\"rows\":1}]")),
                "mechanism 0 of task t is unknown");
    check_hello(
        HELLO(AB, "[\"y\"]", TASKS("[{\"name\":\"t\",\"mechanisms\":[1,\"b\"],\"rows\":1}]")),
        "there twice");
    check_hello(HELLO(AB, "[\"y\"]", TASKS("[{\"name\":\"t\",\"mechanisms\":[1],\"rows\":0}]")),
                "\"rows\" of task t");
    check_hello(HELLO(AB, "[\"y\"]", TASKS("[{\"name\":\"t\",\"rows\":1}]")),
                "does not list its mechanisms");
}

static void touch(const char *path)
{
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fclose(file) == 0);
}

// A plant that hangs in its hello only when it is started again.
static void test_hello_timeout(const char *mark)
{
    PF_CASE("hello on restart");
    char text[4000];
    snprintf(text, sizeof text, "if [ -e '%s' ]; then exec '%s' hang-hello; fi; exec '%s' crash",
             mark, PF_EXEC_CHILD, PF_EXEC_CHILD);
    remove(mark);
    pf_error error;
    pf_plant *plant = open_command(text, &error);
    if (!CHECK(plant != NULL)) {
        return;
    }
    answer got;
    pf_roll roll = test_roll();
    pf_plant_set_timeouts(plant, 0.3, 20);
    CHECK(run(plant, &roll, &got, &error) == PF_OK);
    CHECK(run(plant, &roll, &got, &error) == PF_ERR_PLANT);
    touch(mark);
    double before = pf__seconds();
    CHECK(run(plant, &roll, &got, &error) == PF_ERR_PLANT);
    CHECK_CONTAINS(error.text, "no answer within 0.3 s");
    CHECK(pf__seconds() - before < 10);
    remove(mark);
    pf_plant_set_timeouts(plant, 20, 20);
    CHECK(run(plant, &roll, &got, &error) == PF_OK);
    drop(plant);
}

static void test_other_plant(const char *mark)
{
    PF_CASE("another plant on restart");
    char mode[1100];
    snprintf(mode, sizeof mode, "'changing:%s'", mark);
    remove(mark);
    pf_error error;
    pf_plant *plant = open_mode(mode, &error);
    if (!CHECK(plant != NULL)) {
        return;
    }
    touch(mark);
    pf_plant *copy = plant;
    CHECK(plant->ops->clone(plant, &copy, &error) == PF_ERR_PLANT && copy == NULL);
    CHECK_CONTAINS(error.text, "describes another plant");

    // a time-out ends the child; the next one says something else
    answer got;
    pf_roll roll = test_roll();
    pf_plant_set_timeouts(plant, 20, 0);
    CHECK(run(plant, &roll, &got, &error) == PF_ERR_PLANT);
    pf_plant_set_timeouts(plant, 20, 20);
    CHECK(run(plant, &roll, &got, &error) == PF_ERR_PLANT);
    CHECK_CONTAINS(error.text, "describes another plant than before");
    remove(mark);
    CHECK(run(plant, &roll, &got, &error) == PF_OK);
    drop(plant);
}

static void test_oddities(const answer *expected)
{
    static const char *const modes[] = {"slow-lines", "out-of-order", "blank-lines"};
    pf_error error;
    answer got;
    pf_roll roll = test_roll();
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        PF_CASE(modes[i]);
        pf_plant *plant = open_mode(modes[i], &error);
        CHECK(plant != NULL);
        for (int k = 0; plant != NULL && k < 3; k++) {
            CHECK(run(plant, &roll, &got, &error) == PF_OK && same(&got, expected));
        }
        drop(plant);
    }

    PF_CASE("error replies leave the child running");
    pf_plant *plant = open_mode("error", &error);
    CHECK(plant != NULL);
    for (int k = 0; plant != NULL && k < 3; k++) {
        // had the child been restarted, ids would still go on: odd, even, odd
        CHECK(run(plant, &roll, &got, &error) == PF_ERR_PLANT);
        CHECK_CONTAINS(error.text, "the plant reports: the odd ones?are out");
        CHECK(run(plant, &roll, &got, &error) == PF_OK && same(&got, expected));
    }
    drop(plant);

    PF_CASE("a child that dies between rolls");
    plant = open_mode("idle-death", &error);
    CHECK(plant != NULL && run(plant, &roll, &got, &error) == PF_OK);
    if (plant != NULL) {
        CHECK(run(plant, &roll, &got, &error) == PF_ERR_PLANT);
        CHECK_CONTAINS(error.text, "exited with status 6");
        CHECK(run(plant, &roll, &got, &error) == PF_OK && same(&got, expected));
    }
    drop(plant);

    PF_CASE("digits");
    plant = open_mode("echo", &error);
    const double start[N_STATE] = {1.0 / 3, -2.2250738585072011e-308};
    roll.start = start;
    CHECK(plant != NULL && run(plant, &roll, &got, &error) == PF_OK);
    CHECK(memcmp(got.start, start, sizeof start) == 0);
    drop(plant);
}

static void test_large_request(void)
{
    PF_CASE("large requests");
    pf_error error;
    int rows = 40000;
    double *large = malloc(sizeof *large * (size_t)rows * N_MECH);
    double *output = malloc(sizeof *output * (size_t)rows * N_CHAN);
    pf_plant *plant = open_mode("good", &error);
    pf_plant *deaf = open_mode("deaf", &error);
    if (CHECK(large != NULL && output != NULL && plant != NULL && deaf != NULL)) {
        for (int i = 0; i < rows * N_MECH; i++) {
            large[i] = 1.0 / (i + 3);
        }
        pf_roll roll = test_roll();
        pf_trace trace = {.output = output};
        CHECK(deaf->ops->roll(deaf, &roll, &trace, &error) == PF_OK);
        roll.command = large;
        roll.rows = rows;
        CHECK(plant->ops->roll(plant, &roll, &trace, &error) == PF_OK);
        CHECK(isfinite(output[(size_t)rows * N_CHAN - 1]));
        // a child that does not read: the request does not fit into the socket
        pf_plant_set_timeouts(deaf, 20, 0.3);
        CHECK(deaf->ops->roll(deaf, &roll, &trace, &error) == PF_ERR_PLANT);
        CHECK_CONTAINS(error.text, "no answer within 0.3 s");
    }
    drop(plant);
    drop(deaf);
    free(large);
    free(output);
}

static void test_cleanup(void)
{
    PF_CASE("nothing is left behind");
    pf_error error;
    answer got;
    pf_roll roll = test_roll();
    struct sigaction before, after;
    sigaction(SIGPIPE, NULL, &before);
    int fds = count_fds();
    for (int i = 0; i < 50; i++) {
        pf_plant *plant = open_mode(i % 5 == 0   ? "crash"
                                    : i % 5 == 1 ? "die-hello"
                                                 : "good",
                                    &error);
        for (int k = 0; plant != NULL && k < i % 3; k++) {
            run(plant, &roll, &got, &error);
        }
        drop(plant);
    }
    CHECK(count_fds() == fds);
    sigaction(SIGPIPE, NULL, &after);
    CHECK(before.sa_handler == after.sa_handler);

    // a shell that stays in between does not shield its child
    char text[1200];
    snprintf(text, sizeof text, "'%s' tell-pid; true", PF_EXEC_CHILD);
    pf_plant *plant = open_command(text, &error);
    CHECK(plant != NULL);
    if (plant != NULL) {
        long pid = strtol(plant->info.source + strlen("tiny "), NULL, 10);
        CHECK(pid > 1 && is_alive(pid));
        drop(plant);
        for (int i = 0; i < 100 && is_alive(pid); i++) {
            struct timespec pause = {.tv_nsec = 10000000};
            nanosleep(&pause, NULL);
        }
        CHECK(!is_alive(pid));
    }

    // standard streams that our own caller has closed
    int saved = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    close(STDIN_FILENO);
    plant = open_mode("good", &error);
    CHECK(plant != NULL && run(plant, &roll, &got, &error) == PF_OK);
    drop(plant);
    if (saved >= 0) {
        dup2(saved, STDIN_FILENO);
        close(saved);
    }
    CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
}

void test_bridge(void)
{
    PF_CASE("reference");
    answer expected;
    CHECK(reference(&expected));
    char mark[1000];
    snprintf(mark, sizeof mark, "%s/mark", pf_scratch_dir());
    test_description();
    test_start();
    test_answers(&expected);
    test_task_and_refusals();
    test_failures(&expected);
    test_hello_failures();
    test_hello_fields();
    test_hello_timeout(mark);
    test_other_plant(mark);
    test_oddities(&expected);
    test_large_request();
    test_cleanup();
}

#else

void test_bridge(void)
{
    PF_CASE("without jansson");
    pf_error error;
    pf_plant *plant = NULL;
    CHECK(pf__bridge_create(&plant, "true", NULL, NULL, &error) == PF_ERR_UNSUPPORTED &&
          plant == NULL);
    CHECK_CONTAINS(error.text, "libjansson-dev");
}

#endif
