// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0

// A tiny plant behind the bridge protocol for test_bridge.c: two states, three mechanisms, two
// channels. `exec_child MODE [KIND]`: every mode but good goes wrong in its own way, at the
// second roll of the process unless its name or a comment says otherwise. KIND bounded: every
// mechanism that is probed has limits, as a calibration needs, and there are no tasks of its own;
// domain: as the mode of that name.
#define _POSIX_C_SOURCE 200809L
#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define N_MECH 3
#define N_CHAN 2
#define N_STATE 2
#define TASK_ROWS 4
#define ROWS_MAX 100000
#define HOSTILE_LEFT "`touch ran` \"b\" 'c' \\ 100% @M"
#define HOSTILE_RIGHT "'.system('touch ran').'\".system('touch ran').\""

static const char *kind = "";

static bool is_mode(const char *mode, const char *name)
{
    return strcmp(mode, name) == 0;
}

static void sleep_ms(long ms)
{
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

// EXEC_CHILD_MARK names a file that is made where we hang.
static void sleep_forever(void)
{
    const char *mark = getenv("EXEC_CHILD_MARK");
    FILE *file = mark ? fopen(mark, "w") : NULL;
    if (file != NULL) {
        fclose(file);
    }
    for (;;) {
        sleep_ms(1000);
    }
}

// splitmix64, in [-1, 1)
static double draw(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ z >> 31) >> 11) * 0x1p-52 - 1;
}

static void say(const char *text)
{
    fputs(text, stdout);
    putchar('\n');
    fflush(stdout);
}

static void say_json(const char *mode, const json_t *reply)
{
    char *text = json_dumps(reply, JSON_COMPACT);
    if (!is_mode(mode, "slow-lines")) {
        say(text);
    } else {
        size_t size = strlen(text);
        for (size_t i = 0; i < size; i += 7) {
            fwrite(text + i, 1, size - i < 7 ? size - i : 7, stdout);
            fflush(stdout);
            sleep_ms(1);
        }
        say("\n");
    }
    free(text);
}

// A plant with measures of its own: a task per candidate, a return that saturates.
static bool is_domain(const char *mode)
{
    return strncmp(mode, "domain", 6) == 0 || strcmp(kind, "domain") == 0;
}

static void describe_domain(const char *mode, json_t *hello)
{
    json_object_set_new(hello, "tasks",
                        json_pack("[{s:s, s:[i], s:i}, {s:s, s:[i], s:i}]", "name", "a",
                                  "mechanisms", 1, "rows", TASK_ROWS, "name", "b", "mechanisms", 2,
                                  "rows", TASK_ROWS));
    json_object_set_new(hello, "metrics",
                        json_pack("[s, s, s]", is_mode(mode, "domain-first") ? "otif" : "return",
                                  "shortfall", "unknown"));
    json_object_set_new(hello, "draws", json_integer(2));
    json_object_set_new(hello, "calm", json_boolean(is_mode(mode, "domain-calm")));
    json_object_set_new(hello, "sensor_noise", json_real(.25));
    json_object_set_new(hello, "probe",
                        json_pack("{s:i, s:[f, f, f]}", "steps", 2, "amplitude", 0., .5, .5));
    json_object_set_new(hello, "charge", json_pack("[f, f]", .08, .08));
}

// A plant that declares faults of its own, in order or not.
static void describe_faults(const char *mode, json_t *hello)
{
    static const struct {
        const char *mode, *faults;
    } lists[] = {
        {"faults", "[{\"name\":\"leak\",\"help\":\"share that leaks\",\"least\":0,\"most\":1},"
                   "\"disturbance\"]"},
        {"faults-ours", "[\"dead_band\"]"},
        {"faults-range", "[{\"name\":\"leak\",\"least\":2,\"most\":1}]"},
        {"faults-name", "[\"a leak\"]"},
        {"faults-twice", "[\"leak\",\"leak\"]"},
        {"faults-nameless", "[{\"help\":\"x\"}]"},
        {"faults-number", "[{\"name\":\"leak\",\"most\":\"much\"}]"},
        {"faults-object", "{\"leak\":1}"},
    };
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        if (is_mode(mode, lists[i].mode)) {
            json_object_set_new(hello, "faults", json_loads(lists[i].faults, 0, NULL));
        }
    }
}

static void say_hello(const char *mode)
{
    if (is_mode(mode, "hang-hello")) {
        sleep_forever();
    }
    if (is_mode(mode, "die-hello")) {
        exit(4);
    }
    if (is_mode(mode, "stdout-noise")) {
        say("Welcome to the tiny rig!");
    }
    char version[32] = "1.5";
    if (is_mode(mode, "tell-pid")) {
        snprintf(version, sizeof version, "%ld", (long)getpid());
    }
    json_t *hello = json_pack(
        "{s:i, s:s, s:s, s:[s, {s:s, s:f, s:f}, {s:s, s:i, s:n}], s:[s, {s:s, s:f}], s:f, s:i,"
        " s:[s, {s:s, s:[i, s], s:i}]}",
        "protocol", is_mode(mode, "wrong-protocol") ? 2 : 1, "name", "tiny", "version", version,
        "mechanisms", "main", "name", "left", "lo", -1.0, "hi", 1.0, "name", "right", "lo", -2,
        "hi", "channels", "sum", "name", "lag", "scale", 0.5, "dt", 0.1, "state_size", N_STATE,
        "tasks", "only a name", "name", "hold", "mechanisms", 0, "right", "rows", TASK_ROWS);
    if (is_mode(mode, "angle") || is_mode(mode, "wrong-kind")) {
        json_object_set_new(json_array_get(json_object_get(hello, "channels"), 1), "kind",
                            json_string(is_mode(mode, "angle") ? "angle" : "degrees"));
    }
    // names that are commands in a shell or in gnuplot
    if (is_mode(mode, "hostile-names")) {
        json_t *mechanisms = json_object_get(hello, "mechanisms");
        json_t *left = json_array_get(mechanisms, 1), *right = json_array_get(mechanisms, 2);
        json_object_set_new(left, "name", json_string(HOSTILE_LEFT));
        json_object_set_new(right, "name", json_string(HOSTILE_RIGHT));
        json_object_set_new(right, "hi", json_real(2));
        json_object_del(hello, "tasks");
    }
    if (strcmp(kind, "bounded") == 0) {
        json_t *right = json_array_get(json_object_get(hello, "mechanisms"), 2);
        json_object_set_new(right, "hi", json_real(2));
        json_array_set_new(json_object_get(hello, "mechanisms"), 0,
                           json_pack("{s:s, s:f, s:f}", "name", "main", "lo", -1., "hi", 1.));
        json_object_del(hello, "tasks");
    }
    if (is_domain(mode)) {
        describe_domain(mode, hello);
    }
    describe_faults(mode, hello);
    if (is_mode(mode, "no-mechanisms")) {
        json_object_del(hello, "mechanisms");
    }
    // a plant that changes when it is started again: the number of its channels depends on a file
    if (strncmp(mode, "changing:", 9) == 0) {
        FILE *mark = fopen(mode + 9, "r");
        if (mark != NULL) {
            fclose(mark);
            json_array_append_new(json_object_get(hello, "channels"), json_string("more"));
        }
    }
    say_json(mode, hello);
    json_decref(hello);
}

static double clip(double u)
{
    return u < -1 ? -1 : u > 1 ? 1 : u;
}

static double number_at(const json_t *list, size_t i)
{
    return json_number_value(json_array_get(list, i));
}

static json_t *roll(const char *mode, const json_t *request)
{
    uint64_t random = (uint64_t)json_integer_value(json_object_get(request, "seed"));
    const json_t *state = json_object_get(request, "state");
    double x[N_STATE];
    for (size_t i = 0; i < N_STATE; i++) {
        x[i] = state != NULL ? number_at(state, i) : draw(&random);
    }
    const json_t *gains = json_object_get(request, "gains");
    const json_t *commands = json_object_get(request, "commands");
    const json_t *correction = json_object_get(request, "correction");
    bool noise = json_is_true(json_object_get(request, "noise"));
    const json_t *faults = json_object_get(request, "faults");
    const json_t *windy = json_object_get(faults, "disturbance");
    double leak = json_number_value(json_object_get(faults, "leak"));
    size_t rows = commands != NULL ? json_array_size(commands) : TASK_ROWS;
    json_t *reply =
        json_pack("{s:O, s:[f, f]}", "id", json_object_get(request, "id"), "start", x[0], x[1]);
    json_t *before = json_pack("[f, f]", x[0], x[1]);
    json_t *output = json_array();
    for (size_t t = 0; t < rows && t < ROWS_MAX; t++) {
        double v[N_MECH];
        for (size_t j = 0; j < N_MECH; j++) {
            double u = commands != NULL
                           ? number_at(json_array_get(commands, t), j)
                           : -x[0] * (is_mode(mode, "uncorrected") ? 1 : number_at(correction, j));
            v[j] = number_at(gains, j) * clip(u);
        }
        double w = noise ? 0.01 * draw(&random) : 0;
        w *= windy != NULL ? json_number_value(windy) : 1;
        x[0] += 0.1 * (v[0] + v[1] - 0.5 * v[2]) + w;
        x[1] += 0.1 * (x[0] - x[1] - v[2]);
        x[0] -= leak * x[0];
        json_array_append_new(output, json_pack("[f, f]", x[0], x[1]));
    }
    json_object_set_new(reply, "output", output);
    json_object_set_new(reply, "initial", before);
    return reply;
}

// gain x correction of the task's candidate, the correction limited to 2, the return to 1.
static double domain_return(const char *mode, const json_t *request, const json_t *gains)
{
    if (is_mode(mode, "domain-more") || is_mode(mode, "domain-less")) {
        return is_mode(mode, "domain-more") ? 1.5 : -.1;
    }

    size_t j = (size_t)json_integer_value(json_object_get(request, "task")) + 1;
    double c = number_at(json_object_get(request, "correction"), j);
    double value = number_at(gains, j) * (c < 2 ? c : 2);
    return value < 1 ? value : 1;
}

static void add_metrics(const char *mode, const json_t *request, json_t *reply)
{
    double value = domain_return(mode, request, json_object_get(request, "gains"));
    json_object_set_new(reply, "metrics",
                        json_pack("{s:f, s:f, s:f}", "return", value,
                                  is_mode(mode, "domain-metric") ? "other" : "shortfall", 1 - value,
                                  "unknown", 7.));
}

static json_t *forecast(const char *mode, const json_t *request)
{
    const json_t *hypotheses = json_object_get(request, "gains");
    size_t j = (size_t)json_integer_value(json_object_get(request, "task")) + 1;
    json_t *row = json_array(), *beyond = json_array();
    for (size_t h = 0; h < json_array_size(hypotheses); h++) {
        json_array_append_new(
            row, json_real(domain_return(mode, request, json_array_get(hypotheses, h))));
        json_array_append_new(beyond,
                              json_real(number_at(json_object_get(request, "correction"), j) > 2));
    }
    json_t *returns = json_pack("[o, O]", row, row);
    if (is_mode(mode, "domain-draws")) {
        json_array_remove(returns, 1);
    }
    return json_pack("{s:O, s:o, s:o}", "id", json_object_get(request, "id"), "returns", returns,
                     "beyond", beyond);
}

// Modes that put something into an answer which does not belong there.
static void spoil_answer(const char *mode, json_t *reply)
{
    json_t *output = json_object_get(reply, "output");
    json_t *row = json_array_get(output, 0);
    if (is_mode(mode, "wrong-size")) {
        json_array_remove(output, 0);
    } else if (is_mode(mode, "wrong-columns")) {
        json_array_append_new(row, json_real(1));
    } else if (is_mode(mode, "wrong-start")) {
        json_array_clear(json_object_get(reply, "start"));
    } else if (is_mode(mode, "wrong-initial")) {
        json_array_clear(json_object_get(reply, "initial"));
    } else if (is_mode(mode, "no-initial")) {
        json_object_del(reply, "initial");
    } else if (is_mode(mode, "no-output")) {
        json_object_del(reply, "output");
    } else if (is_mode(mode, "nan-string")) {
        json_array_set_new(row, 1, json_string("NaN"));
    } else if (is_mode(mode, "nan-null")) {
        json_array_set_new(row, 1, json_null());
    } else if (is_mode(mode, "start-string")) {
        json_array_set_new(json_object_get(reply, "start"), 0, json_string("nan"));
    } else if (is_mode(mode, "wrong-id")) {
        json_object_set_new(reply, "id", json_integer(1000));
    } else if (is_mode(mode, "no-id")) {
        json_object_del(reply, "id");
    } else if (is_mode(mode, "error-number")) {
        json_object_set_new(reply, "error", json_integer(5));
        json_object_del(reply, "output");
    }
}

static void say_huge_line(void)
{
    static char block[1 << 20];
    memset(block, 'x', sizeof block);
    for (int i = 0; i < 66; i++) {
        fwrite(block, 1, sizeof block, stdout);
    }
    say("");
}

// Modes that never come to an answer, or not to one that can be read.
static bool misbehave(const char *mode, json_int_t id)
{
    char line[200];
    const char *value = NULL;
    if (is_mode(mode, "hang-hard")) {
        signal(SIGTERM, SIG_IGN);
        sleep_forever();
    } else if (is_mode(mode, "hang-family")) {
        // a child of the child that ignores what it can
        signal(SIGTERM, SIG_IGN);
        signal(SIGHUP, SIG_IGN);
        fork();
        sleep_forever();
    } else if (is_mode(mode, "hang")) {
        sleep_forever();
    } else if (is_mode(mode, "crash")) {
        abort();
    } else if (is_mode(mode, "half-line")) {
        fputs("{\"id\":", stdout);
        fflush(stdout);
        exit(0);
    } else if (is_mode(mode, "close-stdout")) {
        fclose(stdout);
        close(STDOUT_FILENO);
        sleep_forever();
    } else if (is_mode(mode, "huge")) {
        say_huge_line();
        return true;
    } else if (is_mode(mode, "garbage")) {
        say("Traceback \001\377 (most recent call last)");
        return true;
    } else if (is_mode(mode, "not-object")) {
        say("[1, 2]");
        return true;
    } else if (is_mode(mode, "duplicate-key")) {
        value = "1,\"id\":1";
    } else if (is_mode(mode, "nan")) {
        value = "NaN";
    } else if (is_mode(mode, "nan-small")) {
        value = "nan";
    } else if (is_mode(mode, "infinity")) {
        value = "-Infinity";
    } else if (is_mode(mode, "overflow")) {
        value = "1e999";
    }
    if (value == NULL) {
        return false;
    }
    snprintf(line, sizeof line, "{\"id\":%d,\"start\":[0,0],\"output\":[[0,%s]]}", (int)id, value);
    say(line);
    return true;
}

static void answer(const char *mode, const json_t *request, int count)
{
    json_int_t id = json_integer_value(json_object_get(request, "id"));
    if (is_mode(mode, "die") && count == 3) {
        exit(3);
    }
    if (is_mode(mode, "error") && id % 2 == 1) {
        json_t *reply = json_pack("{s:I, s:s}", "id", id, "error", "the odd ones\nare out");
        say_json(mode, reply);
        json_decref(reply);
        return;
    }
    if (count == 2 && misbehave(mode, id)) {
        return;
    }
    bool asked = strcmp(json_string_value(json_object_get(request, "op")), "forecast") == 0;
    json_t *reply = asked ? forecast(mode, request) : roll(mode, request);
    if (is_domain(mode) && !asked && json_object_get(request, "task") != NULL) {
        add_metrics(mode, request, reply);
    }
    if (count == 2) {
        spoil_answer(mode, reply);
    }
    if (is_mode(mode, "out-of-order") && count >= 2) {
        json_t *other = json_pack("{s:I, s:s}", "id", id - 1, "error", "given up long ago");
        say_json(mode, other);
        json_decref(other);
    }
    if (is_mode(mode, "blank-lines")) {
        say("\n \t\r");
    }
    // as an echo of the request: no loss of digits on the way here
    if (is_mode(mode, "echo")) {
        json_object_set(reply, "start", json_object_get(request, "state"));
    }
    say_json(mode, reply);
    json_decref(reply);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "good";
    kind = argc > 2 ? argv[2] : "";
    // crashes are on purpose: no core files
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);

    static char line[8 << 20];
    int count = 0;
    while (fgets(line, sizeof line, stdin) != NULL) {
        json_t *request = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        const char *op = json_string_value(json_object_get(request, "op"));
        if (op == NULL) {
            return 5;
        }
        if (strcmp(op, "hello") == 0) {
            say_hello(mode);
            if (is_mode(mode, "deaf-at-once")) {
                sleep_forever();
            }
        } else {
            answer(mode, request, ++count);
        }
        json_decref(request);
        if (is_mode(mode, "idle-death") && count == 1) {
            return 6;
        }
        if (is_mode(mode, "deaf") && count == 1) {
            // reads no more, so that a large request fills the socket
            sleep_forever();
        }
    }
    if (is_mode(mode, "stay")) {
        signal(SIGTERM, SIG_IGN);
        sleep_forever();
    }
    return 0;
}
