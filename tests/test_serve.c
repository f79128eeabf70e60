// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _DEFAULT_SOURCE // usleep
#include "test.h"
#include "core/kit_layout.h"
#include "core/sha256.h"

#include "wire/reply.h"
#include "host/file.h"
#include "preflight/run.h"
#include "program.h"
#include "serve_talk.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

// --- fields of the replies

// Checks that an object has these keys with these kinds: b bool, i whole, n number, s text, l list,
// z number or null.
static void has(json_t *object, const char *const *keys)
{
    CHECK(json_is_object(object));
    for (int i = 0; keys[i]; i++) {
        json_t *v = json_object_get(object, keys[i] + 2);
        bool good = v != NULL;
        switch (keys[i][0]) {
        case 'b':
            good = json_is_boolean(v);
            break;
        case 'i':
            good = json_is_integer(v);
            break;
        case 'n':
            good = json_is_number(v);
            break;
        case 's':
            good = json_is_string(v);
            break;
        case 'l':
            good = json_is_array(v);
            break;
        case 'z':
            good = json_is_number(v) || json_is_null(v);
            break;
        }
        if (!CHECK(good)) {
            printf("    key %s\n", keys[i]);
        }
    }
}

static json_t *get(talk *t, const char *line, const char *const *keys)
{
    json_t *reply = parsed(say(t, line));
    CHECK(json_is_true(json_object_get(reply, "ok")));
    has(reply, keys);
    return reply;
}

static void check_hello(talk *t)
{
    static const char *const keys[] = {"i protocol", "s preflight",  "s kit",
                                       "s plant",    "l mechanisms", "l tasks",
                                       "l window",   "i state_size", NULL};
    char sha[65];
    json_t *hello = get(t, "{\"op\":\"hello\"}", keys), *window = json_object_get(hello, "window");
    pf__sha256_text(t->kit->sha256, sha);
    CHECK(json_integer_value(json_object_get(hello, "protocol")) == 2);
    CHECK_STR(json_string_value(json_object_get(hello, "kit")), sha);
    CHECK_STR(json_string_value(json_object_get(hello, "plant")), "attitude");
    CHECK(json_integer_value(json_array_get(window, 0)) == pf__kit_most_rows(t->kit));
    CHECK(json_integer_value(json_array_get(window, 1)) == t->kit->n_chan);
    CHECK(json_integer_value(json_object_get(hello, "state_size")) == ATTITUDE_STATE);
    CHECK(json_array_size(json_object_get(hello, "mechanisms")) == ATTITUDE_MECH);
    CHECK_STR(json_string_value(json_array_get(json_object_get(hello, "tasks"), 1)), "tilt");
    json_decref(hello);
}

static void check_ask(talk *t, int stage)
{
    static const char *const keys[] = {"s ask",     "i stage", "i probe",  "s name",  "l targets",
                                       "l command", "i rows",  "n charge", "n value", NULL};
    json_t *ask = get(t, "{\"op\":\"ask\"}", keys), *command = json_object_get(ask, "command");
    pf_ask now = {0};
    CHECK(pf_session_outstanding(t->session, &now));
    CHECK_STR(json_string_value(json_object_get(ask, "ask")), "probe");
    CHECK(json_integer_value(json_object_get(ask, "stage")) == stage);
    CHECK(json_integer_value(json_object_get(ask, "probe")) == now.probe);
    CHECK(json_integer_value(json_object_get(ask, "rows")) == now.rows);
    CHECK_STR(json_string_value(json_object_get(ask, "name")),
              pf_kit_probe_name(t->kit, now.probe));
    CHECK(json_number_value(json_object_get(ask, "charge")) == t->kit->charge[now.probe]);
    CHECK(json_number_value(json_object_get(ask, "value")) == now.value);
    CHECK(json_array_size(command) == (size_t)now.rows);
    CHECK(json_array_size(json_array_get(command, 0)) == ATTITUDE_MECH);
    CHECK(json_array_size(json_object_get(ask, "targets")) ==
          (size_t)pf_kit_probe_targets(t->kit, now.probe, NULL));
    json_t *again = parsed(say(t, "{\"op\":\"ask\"}"));
    CHECK(json_equal(ask, again)); // asking again gives the same answer
    json_decref(again);
    json_decref(ask);
}

static void check_tell(talk *t, int stage)
{
    static const char *const first[] = {"l targets", "l belief", "n change", "b alarm", NULL};
    static const char *const second[] = {"l belief", "l joint", "l mean_gain", NULL};
    static const char *const reading[] = {"i mechanism",  "n score", "i category",
                                          "z coordinate", "b gate",  NULL};
    json_t *tell = parsed(t->reply.data), *belief = json_object_get(tell, "belief");
    has(tell, stage == 1 ? first : second);
    CHECK(json_array_size(belief) == ATTITUDE_MECH);
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(tell, "targets"), i, item)
    {
        has(item, reading);
    }
    if (stage == 1) {
        double change = json_number_value(json_object_get(tell, "change"));
        CHECK_NEAR(change, 1 - json_number_value(json_array_get(belief, 0)), 1e-12);
        for (i = 0; i < ATTITUDE_MECH; i++) {
            CHECK(json_number_value(json_array_get(belief, i)) == pf_session_belief(t->session)[i]);
        }
    } else {
        json_t *joint = json_object_get(tell, "joint");
        CHECK(json_array_size(joint) == ATTITUDE_MECH - 1);
        CHECK(json_array_size(json_array_get(joint, 0)) == (size_t)t->kit->n_grid);
        CHECK(json_array_size(json_object_get(tell, "mean_gain")) == ATTITUDE_MECH - 1);
    }
    json_decref(tell);
}

static void check_readiness(talk *t)
{
    static const char *const keys[] = {"b alarm", "n charge", "l mechanisms", "l tasks", NULL};
    static const char *const mechanism[] = {"i mechanism", "n p_changed", "n mean_gain",
                                            "l interval",  "b probed",    NULL};
    static const char *const task[] = {"s name",  "l correction", "n mean", "n sd",
                                       "n lower", "s decision",   "s why",  NULL};
    json_t *ready = get(t, "{\"op\":\"readiness\"}", keys), *item;
    json_t *mechanisms = json_object_get(ready, "mechanisms"),
           *tasks = json_object_get(ready, "tasks");
    size_t i;
    CHECK(json_array_size(mechanisms) == ATTITUDE_MECH - 1);
    CHECK(json_array_size(tasks) == (size_t)t->kit->n_tasks);
    json_array_foreach(mechanisms, i, item)
    {
        has(item, mechanism);
        CHECK(json_integer_value(json_object_get(item, "mechanism")) == (int)i + 1);
        CHECK(json_array_size(json_object_get(item, "interval")) == 2);
    }
    json_array_foreach(tasks, i, item)
    {
        has(item, task);
        const char *decision = json_string_value(json_object_get(item, "decision"));
        const char *why = json_string_value(json_object_get(item, "why"));
        bool go = strcmp(decision, "go") == 0;
        bool go_if = strcmp(decision, "go-if") == 0;
        CHECK(go || go_if || strcmp(decision, "no-go") == 0);
        CHECK(go == (strcmp(why, "certified") == 0));
        CHECK(go_if == (strcmp(why, "not-rehearsed") == 0));
        CHECK(go || go_if || strcmp(why, "bound") == 0 || strcmp(why, "not-probed") == 0);
        CHECK(json_array_size(json_object_get(item, "correction")) ==
              (size_t)(t->kit->task_use[i + 1] - t->kit->task_use[i]));
    }
    json_decref(ready);
}

static void test_fields(void)
{
    static const char *const done[] = {"s ask", "s why", NULL};
    size_t n = 0;
    const void *bytes = attitude_small_kit_bytes(&n);
    talk t;
    open_talk(&t, bytes, n, 2, true);
    PF_CASE("serve: the fields of hello, ask, tell, readiness in stage 1");
    check_hello(&t);
    check_readiness(&t);
    CHECK_CONTAINS(say(&t, "{\"op\":\"readiness\"}"), "\"why\":\"not-probed\"");
    CHECK(!strstr(t.reply.data, "\"go\"")); // nobody looked yet
    check_ask(&t, 1);
    CHECK(step(&t, true));
    check_tell(&t, 1);
    PF_CASE("serve: skip costs nothing, counts, and the probe is not asked for again");
    double charge = pf_session_get_state(t.session).charge;
    pf_ask skipped = {0}, next = {0};
    check_ask(&t, 1);
    CHECK(pf_session_outstanding(t.session, &skipped));
    CHECK_STR(say(&t, "{\"op\":\"skip\"}"), "{\"ok\":true}");
    CHECK(pf_session_get_state(t.session).charge == charge &&
          pf_session_get_state(t.session).opportunities == 2);
    check_ask(&t, 1);
    CHECK(pf_session_outstanding(t.session, &next) && next.probe != skipped.probe);
    PF_CASE("serve: reset is a fresh session");
    CHECK_STR(say(&t, "{\"op\":\"reset\"}"), "{\"ok\":true}");
    CHECK(memcmp(pf_session_belief(t.session), t.kit->prior, sizeof(double) * ATTITUDE_MECH) == 0);
    CHECK(pf_session_get_state(t.session).charge == 0 && !pf_session_outstanding(t.session, NULL));
    PF_CASE("serve: the fields of stage 2, and done");
    while (!pf_session_get_state(t.session).alarm && step(&t, true)) {
    }
    say(&t, "{\"op\":\"ask\"}");
    CHECK_STR(say(&t, "{\"op\":\"stage2\"}"), "{\"ok\":true}");
    CHECK(!pf_session_outstanding(t.session, NULL)); // withdrawn
    check_ask(&t, 2);
    CHECK(step(&t, true));
    check_tell(&t, 2);
    check_readiness(&t);
    while (step(&t, true)) {
    }
    json_decref(get(&t, "{\"op\":\"ask\"}", done));
    CHECK(strstr(t.reply.data, "\"budget\"") || strstr(t.reply.data, "\"ready\""));
    check_readiness(&t);
    PF_CASE("serve: without an alarm stage 2 is done no-alarm");
    say(&t, "{\"op\":\"reset\"}");
    CHECK_STR(say(&t, "{\"op\":\"stage2\"}"), "{\"ok\":true}");
    CHECK_STR(say(&t, "{\"op\":\"ask\"}"), "{\"ok\":true,\"ask\":\"done\",\"why\":\"no-alarm\"}");
    close_talk(&t);
}

// --- state, own predictions and the library agree to the bit

static void test_equal(const void *bytes, size_t n, int weak)
{
    talk a, b;
    pf_session *s = NULL;
    pf_error error = {PF_OK, ""};
    open_talk(&a, bytes, n, weak, true);
    open_talk(&b, bytes, n, weak, false);
    size_t size = pf_session_size(a.kit);
    void *memory = aligned_alloc(16, (size + 15) & ~(size_t)15);
    CHECK(pf_session_init(&s, a.kit, NULL, memory, size, &error) == PF_OK);
    pf_predictor predictor;
    CHECK(pf_predictor_create(&predictor, a.kit, a.machine.plant, NULL, &error) == PF_OK);
    int steps = 0, recoveries = 0;
    while (step(&a, true)) {
        pf_ask ask = pf_session_ask(s);
        pf_tell tell = {.probe = ask.probe,
                        .response = a.machine.response,
                        .rows = ask.rows,
                        .channels = ATTITUDE_CHAN,
                        .start = a.machine.start,
                        .n_start = ATTITUDE_STATE};
        CHECK(step(&b, false));
        CHECK(pf_session_tell(s, &tell, &predictor, &error) == PF_OK);
        CHECK_STR(b.reply.data, a.reply.data);
        size_t row = sizeof(double) * ATTITUDE_MECH;
        CHECK(memcmp(pf_session_belief(s), pf_session_belief(a.session), row) == 0);
        pf_joint x = pf_session_joint(s), y = pf_session_joint(a.session);
        CHECK(memcmp(x.mass, y.mass, sizeof(double) * (size_t)(x.m * x.n_grid)) == 0);
        pf_text direct = {0};
        pf__text_add(&direct, "{\"ok\":true");
        pf_session_certify(s);
        pf__reply_readiness(&direct, s);
        pf__text_add(&direct, "}");
        CHECK_STR(say(&a, "{\"op\":\"readiness\"}"), direct.data);
        CHECK_STR(say(&b, "{\"op\":\"readiness\"}"), direct.data);
        pf__text_free(&direct);
        steps++;
        recoveries += ask.stage == 2;
        if (pf_session_get_state(s).stage == 1 && pf_session_get_state(s).alarm) {
            CHECK(pf_session_stage2(s, &error) == PF_OK);
            CHECK_STR(say(&a, "{\"op\":\"stage2\"}"), say(&b, "{\"op\":\"stage2\"}"));
        }
    }
    CHECK(!step(&b, false) && pf_session_ask(s).kind == PF_ASK_DONE);
    CHECK(steps >= 2 && (recoveries > 0) == (weak > 0));
    pf_predictor_destroy(&predictor);
    free(memory);
    close_talk(&a);
    close_talk(&b);
}

// --- the real program

// A conversation with a server that is another process.
typedef struct server {
    pid_t pid;
    int in, out; // our ends; the same descriptor for a socket
    char *buffer;
    size_t used, room;
} server;

static bool send_all(int fd, const char *data, size_t n)
{
    while (n > 0) {
        ssize_t did = write(fd, data, n);
        if (did <= 0) {
            return false;
        }
        data += did;
        n -= (size_t)did;
    }
    return true;
}

// The next line without its newline, or NULL at the end or after 30 s of silence.
static const char *next_reply(server *s, pf_text *line)
{
    pf__text_clear(line);
    for (;;) {
        char *end = s->used > 0 ? memchr(s->buffer, '\n', s->used) : NULL;
        if (end) {
            size_t n = (size_t)(end - s->buffer);
            pf__text_add_n(line, s->buffer, n);
            memmove(s->buffer, end + 1, s->used - n - 1);
            s->used -= n + 1;
            return line->data;
        }
        if (s->used == s->room) {
            s->room = s->room ? 2 * s->room : 65536;
            s->buffer = realloc(s->buffer, s->room);
        }
        struct pollfd wait = {s->out, POLLIN, 0};
        ssize_t got =
            poll(&wait, 1, 30000) > 0 ? read(s->out, s->buffer + s->used, s->room - s->used) : -1;
        if (got <= 0) {
            return NULL;
        }
        s->used += (size_t)got;
    }
}

static pid_t start_program(const char *const *arguments, int in, int out)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(in, 0);
        dup2(out, 1);
        for (int fd = 3; fd < 64; fd++) {
            close(fd);
        }
        execv(PF_PROGRAM, (char *const *)(uintptr_t)arguments);
        _exit(127);
    }
    return pid;
}

static void start_server(server *s, const char *kit)
{
    int to[2], from[2];
    const char *const arguments[] = {"preflight", "serve", kit, NULL};
    memset(s, 0, sizeof *s);
    CHECK(pipe(to) == 0 && pipe(from) == 0);
    s->pid = start_program(arguments, to[0], from[1]);
    close(to[0]);
    close(from[1]);
    s->in = to[1];
    s->out = from[0];
}

static int wait_for(pid_t pid)
{
    int status = 0;
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// The program must answer as the dialogue in this process does.
static void both(server *s, talk *t, const char *line, const char *ending)
{
    pf_text reply = {0};
    send_all(s->in, line, strlen(line));
    send_all(s->in, ending, strlen(ending));
    const char *expected = say(t, line);
    CHECK_STR(next_reply(s, &reply), expected);
    pf__text_free(&reply);
}

// One probe of a session; false when it is done.
static bool both_step(server *s, talk *t, bool state, const char *ending)
{
    pf_ask ask;
    both(s, t, "{\"op\":\"ask\"}", ending);
    if (!pf_session_outstanding(t->session, &ask)) {
        return false;
    }
    attitude_machine_probe(&t->machine, t->kit, ask.probe);
    attitude_machine_tell(&t->machine, t->kit, ask.probe, ask.stage, state, &t->request);
    both(s, t, t->request.data, ending);
    return true;
}

static void test_pipes(const char *kit)
{
    size_t n = 0;
    const void *bytes = attitude_transport_kit_bytes(false, &n);
    server s;
    talk t;
    pf_text reply = {0};
    PF_CASE("serve, the program: a whole session of a weak machine; blank lines, CRLF");
    open_talk(&t, bytes, n, 5, true);
    start_server(&s, kit);
    both(&s, &t, "{\"op\":\"hello\"}", "\n");
    static const char blank[] = "\n\r\n   \t \n";
    send_all(s.in, blank, sizeof blank - 1);
    for (int i = 0; both_step(&s, &t, i % 2 == 0, i % 3 ? "\n" : "\r\n\n"); i++) {
        both(&s, &t, "{\"op\":\"readiness\"}", "\n");
    }
    both(&s, &t, "{\"op\":\"skip\"}", "\n");
    CHECK_CONTAINS(t.reply.data, "wrong-stage");
    both(&s, &t, "{\"op\":\"reset\"}", "\n");
    PF_CASE("serve, the program: a line of 17 MiB is refused and the next one answered");
    char *flood = malloc((size_t)17 << 20);
    memset(flood, '[', (size_t)17 << 20);
    send_all(s.in, flood, (size_t)17 << 20);
    free(flood);
    send_all(s.in, "\n", 1);
    CHECK_CONTAINS(next_reply(&s, &reply), "\"code\":\"too-long\"");
    both(&s, &t, "{\"op\":\"ask\"}", "\n");
    PF_CASE("serve, the program: a last line without newline is answered, exit status 0");
    send_all(s.in, "{\"op\":\"readiness\"}", 18);
    close(s.in);
    CHECK_STR(next_reply(&s, &reply), say(&t, "{\"op\":\"readiness\"}"));
    CHECK(!next_reply(&s, &reply) && s.used == 0);
    CHECK(wait_for(s.pid) == 0);
    close(s.out);
    free(s.buffer);
    pf__text_free(&reply);
    close_talk(&t);
}

static bool connect_to(server *s, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memset(s, 0, sizeof *s);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    s->in = s->out = socket(AF_UNIX, SOCK_STREAM, 0);
    for (int i = 0; i < 500; i++) {
        if (connect(s->in, (struct sockaddr *)&address, sizeof address) == 0) {
            return true;
        }
        usleep(20000); // not listening yet
    }
    return false;
}

// Memory areas of a process.
static int mappings(pid_t pid)
{
    char path[64];
    int lines = 0;
    snprintf(path, sizeof path, "/proc/%ld/maps", (long)pid);
    FILE *f = fopen(path, "r");
    for (int c = f ? getc(f) : EOF; c != EOF; c = getc(f)) {
        lines += c == '\n';
    }
    if (f) {
        fclose(f);
    }
    return lines;
}

// Connections that come and go; each leaked thread would keep its stack, two areas.
static void test_many(const char *path, pid_t pid)
{
    pf_text reply = {0};
    int before = mappings(pid);
    for (int i = 0; i < 150; i++) {
        server s;
        CHECK(connect_to(&s, path));
        send_all(s.in, "{\"op\":\"ask\"}\n", 13);
        CHECK_CONTAINS(next_reply(&s, &reply), "{\"ok\":true,\"ask\":\"probe\"");
        shutdown(s.in, SHUT_WR);
        CHECK(!next_reply(&s, &reply));
        close(s.in);
        free(s.buffer);
    }
    CHECK(mappings(pid) - before < 100);
    pf__text_free(&reply);
}

// A second client is told so in one line, while the first goes on; when that one leaves, the next
// one is served.
static void test_busy(const char *path)
{
    server first, second;
    pf_text reply = {0};
    CHECK(connect_to(&first, path));
    send_all(first.in, "{\"op\":\"ask\"}\n", 13);
    CHECK_CONTAINS(next_reply(&first, &reply), "{\"ok\":true");
    for (int i = 0; i < 3; i++) {
        CHECK(connect_to(&second, path));
        CHECK_CONTAINS(next_reply(&second, &reply), "\"code\":\"busy\"");
        CHECK(!next_reply(&second, &reply));
        close(second.in);
        free(second.buffer);
    }
    send_all(first.in, "{\"op\":\"ask\"}\n", 13);
    CHECK_CONTAINS(next_reply(&first, &reply), "{\"ok\":true");
    close(first.in);
    free(first.buffer);
    CHECK(connect_to(&second, path));
    send_all(second.in, "{\"op\":\"ask\"}\n", 13);
    CHECK_CONTAINS(next_reply(&second, &reply), "{\"ok\":true");
    close(second.in);
    free(second.buffer);
    pf__text_free(&reply);
}

// A journal of an earlier run is in the way of the first connection.
static void test_numbers(const char *journal)
{
    char path[120];
    void *data = NULL;
    size_t n = 0;
    pf_error error = {PF_OK, ""};
    snprintf(path, sizeof path, "%s.1", journal);
    CHECK(pf__file_read(path, 1 << 20, &data, &n, &error) == PF_OK);
    CHECK_STR(data, "evidence\n");
    free(data);
    for (int i = 2; i <= 3; i++) {
        snprintf(path, sizeof path, "%s.%d", journal, i);
        CHECK(pf__file_read(path, 1 << 28, &data, &n, &error) == PF_OK);
        CHECK_CONTAINS(data, "\"op\":\"tell\"");
        free(data);
    }
}

static void test_socket(const char *kit)
{
    char path[100], journal[100], first[104];
    pf_error error = {PF_OK, ""};
    size_t n = 0;
    const void *bytes = attitude_transport_kit_bytes(false, &n);
    server a, b;
    talk t, u;
    struct stat info;
    pf_text reply = {0};
    PF_CASE("serve, the program: two sessions one after the other over a socket");
    snprintf(path, sizeof path, "%s/socket", pf_scratch_dir());
    snprintf(journal, sizeof journal, "%s/talk", pf_scratch_dir());
    snprintf(first, sizeof first, "%s.1", journal);
    CHECK(pf__file_write(first, "evidence\n", 9, &error) == PF_OK);
    const char *const arguments[] = {"preflight", "serve",     kit,     "--socket",
                                     path,        "--journal", journal, NULL};
    pid_t pid = start_program(arguments, 0, 1);
    open_talk(&t, bytes, n, 5, true);
    open_talk(&u, bytes, n, 3, true);
    CHECK(connect_to(&a, path));
    CHECK(stat(path, &info) == 0 && (info.st_mode & 0777) == 0600);
    while (both_step(&a, &t, true, "\n")) {
    }
    both(&a, &t, "{\"op\":\"readiness\"}", "\n");
    close(a.in);
    CHECK(connect_to(&b, path));
    while (both_step(&b, &u, false, "\r\n")) {
    }
    both(&b, &u, "{\"op\":\"readiness\"}", "\n");
    CHECK(strcmp(t.reply.data, u.reply.data) != 0);
    both(&b, &u, "{\"op\":\"reset\"}", "\n");
    send_all(b.in, "{\"op\":\"ask\"}", 12);
    shutdown(b.in, SHUT_WR);
    CHECK_STR(next_reply(&b, &reply), say(&u, "{\"op\":\"ask\"}"));
    CHECK(!next_reply(&b, &reply));
    close(b.in);
    PF_CASE("serve, the program: connections that ended leave nothing behind");
    test_many(path, pid);
    PF_CASE("serve, the program: a second client is told that another one is served");
    test_busy(path);
    PF_CASE("serve, the program: journals get numbers that are free");
    test_numbers(journal);
    PF_CASE("serve, the program: ends on a signal, takes its socket away");
    kill(pid, SIGTERM);
    CHECK(wait_for(pid) == 143);
    CHECK(access(path, F_OK) != 0);
    free(a.buffer);
    free(b.buffer);
    pf__text_free(&reply);
    close_talk(&t);
    close_talk(&u);
}

// Connections that say nothing or leave do not use up the session of --resume, which goes on in one
// after the other; from the start on no other process takes its journal.
static void test_socket_resume(const char *kit)
{
    char path[100], journal[100], command[600];
    size_t n = 0;
    const void *bytes = attitude_transport_kit_bytes(false, &n);
    server a;
    talk t;
    PF_CASE("serve, the program: --resume over a socket");
    snprintf(path, sizeof path, "%s/again", pf_scratch_dir());
    snprintf(journal, sizeof journal, "%s/again.journal", pf_scratch_dir());
    snprintf(command, sizeof command, "serve '%s' --journal '%s' --seed 0 </dev/null", kit,
             journal);
    CHECK(program(command, 0, ""));
    const char *const arguments[] = {"preflight", "serve",    kit,     "--socket",
                                     path,        "--resume", journal, NULL};
    pid_t pid = start_program(arguments, 0, 1);
    open_talk(&t, bytes, n, 5, true);
    CHECK(connect_to(&a, path));
    close(a.in); // it says nothing
    snprintf(command, sizeof command, "serve '%s' --resume '%s' </dev/null", kit, journal);
    CHECK(program(command, 3, "another process writes it"));
    snprintf(command, sizeof command, "check '%s' --journal '%s'", kit, journal);
    CHECK(program(command, 3, "another process writes it"));
    for (int part = 0; part < 3; part++) { // of one session
        CHECK(connect_to(&a, path));
        for (int i = 0; (i < 2 || part == 2) && both_step(&a, &t, true, "\n"); i++) {
        }
        if (part == 2) {
            both(&a, &t, "{\"op\":\"readiness\"}", "\n");
        }
        close(a.in);
        free(a.buffer);
    }
    CHECK(connect_to(&a, path)); // that one is over: a new one
    pf_text reply = {0};
    send_all(a.in, "{\"op\":\"readiness\"}\n", 20);
    CHECK_CONTAINS(next_reply(&a, &reply), "\"probes\":0");
    close(a.in);
    free(a.buffer);
    pf__text_free(&reply);
    kill(pid, SIGTERM);
    CHECK(wait_for(pid) == 143);
    snprintf(command, sizeof command, "replay '%s'", journal);
    CHECK(program(command, 0, "every reply equal to the last bit"));
    close_talk(&t);
}

// --- clients that mean no good

static pid_t start_socket(const char *kit, const char *path, const char *idle)
{
    const char *const arguments[] = {"preflight", "serve",  kit,  "--socket",
                                     path,        "--idle", idle, NULL};
    return start_program(arguments, 0, 1);
}

// Sends until nothing more is taken and reads nothing: the server is stuck with a reply.
static void never_read(int fd)
{
    fcntl(fd, F_SETFL, O_NONBLOCK);
    for (int still = 0; still < 20;) {
        ssize_t did = write(fd, "{\"op\":\"ask\"}\n{\"op\":\"hello\"}\n", 28);
        still = did > 0 ? 0 : still + 1;
        if (did <= 0) {
            usleep(10000);
        }
    }
}

static bool is_busy(const char *path)
{
    server s;
    pf_text reply = {0};
    CHECK(connect_to(&s, path));
    send_all(s.in, "{\"op\":\"ask\"}\n", 13);
    const char *said = next_reply(&s, &reply);
    bool busy = said && strstr(said, "\"busy\"");
    close(s.in);
    free(s.buffer);
    pf__text_free(&reply);
    return busy;
}

static void test_deaf(const char *kit)
{
    char path[100];
    server a;
    PF_CASE("serve, the program: a client that never reads does not make it deaf to signals");
    snprintf(path, sizeof path, "%s/deaf", pf_scratch_dir());
    pid_t pid = start_socket(kit, path, "0");
    CHECK(connect_to(&a, path));
    never_read(a.in);
    kill(pid, SIGINT);
    CHECK(wait_for(pid) == 130);
    CHECK(access(path, F_OK) != 0);
    close(a.in);
    PF_CASE("serve, the program: a client that is idle, drips or never reads is dropped");
    pid = start_socket(kit, path, "1");
    pf_text reply = {0};
    for (int way = 0; way < 3; way++) {
        server next;
        CHECK(connect_to(&a, path));
        if (way == 2) {
            never_read(a.in);
            for (int i = 0; i < 100 && is_busy(path); i++) {
                usleep(100000);
            }
            close(a.in); // only now
        } else {
            send_all(a.in, "{\"op\":", way == 1 ? 6 : 0); // never a whole line
            CHECK_CONTAINS(next_reply(&a, &reply), "\"code\":\"idle\"");
            CHECK(!next_reply(&a, &reply));
            close(a.in);
        }
        free(a.buffer);
        CHECK(connect_to(&next, path));
        send_all(next.in, "{\"op\":\"ask\"}\n", 13);
        CHECK_CONTAINS(next_reply(&next, &reply), "{\"ok\":true");
        close(next.in);
        free(next.buffer);
    }
    pf__text_free(&reply);
    kill(pid, SIGTERM);
    CHECK(wait_for(pid) == 143);
}

// The most memory that a process had, in KiB.
static long peak_kib(pid_t pid)
{
    char path[64], line[200];
    long kib = -1;
    snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        sscanf(line, "VmHWM: %ld", &kib);
    }
    if (f) {
        fclose(f);
    }
    return kib;
}

// Lines that would cost much more than they are long, each of the longest that is read.
static void test_costly(const char *kit)
{
    enum { SIZE = 15 << 20 };
    static const char *const parts[] = {"[", "0,", "{\"a\":", "[],", "\"", "\"a\":0,", "[[0],"};
    server s;
    pf_text reply = {0};
    PF_CASE("serve, the program: long and nested lines are refused before they cost memory");
    start_server(&s, kit);
    send_all(s.in, "{\"op\":\"ask\"}\n", 13);
    CHECK_CONTAINS(next_reply(&s, &reply), "{\"ok\":true");
    long before = peak_kib(s.pid);
    char *line = malloc(SIZE + 1);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        size_t n = strlen(parts[i]);
        for (int size = 200000; size <= SIZE; size += SIZE - 200000) {
            for (int at = 0; at < size; at++) {
                line[at] = at == 0 && i > 0 ? '[' : parts[i][(size_t)at % n];
            }
            line[size] = '\n';
            send_all(s.in, line, (size_t)size + 1);
            CHECK_CONTAINS(next_reply(&s, &reply), "\"ok\":false");
        }
    }
    free(line);
    long cost = peak_kib(s.pid) - before;
    if (!CHECK(before > 0 && cost < 16 * 1024)) {
        printf("    %ld KiB more\n", cost);
    }
    close(s.in);
    CHECK(wait_for(s.pid) == 0);
    close(s.out);
    free(s.buffer);
    pf__text_free(&reply);
}

// --- the path of the socket

static void test_path(const char *kit)
{
    char path[100];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    server a;
    pf_error error;
    PF_CASE("serve, the program: a file that is no socket, or one that somebody listens on, stays");
    snprintf(path, sizeof path, "%s/door", pf_scratch_dir());
    CHECK(pf__file_write(path, "mine", 4, &error) == PF_OK);
    CHECK(wait_for(start_socket(kit, path, "0")) == 3);
    CHECK(access(path, F_OK) == 0 && remove(path) == 0);
    pid_t pid = start_socket(kit, path, "0");
    CHECK(connect_to(&a, path));
    CHECK(wait_for(start_socket(kit, path, "0")) == 3);
    close(a.in);
    CHECK(connect_to(&a, path)); // the first one still listens
    close(a.in);
    PF_CASE("serve, the program: on exit it removes the socket that it made and no other");
    CHECK(remove(path) == 0);
    CHECK(pf__file_write(path, "mine", 4, &error) == PF_OK);
    kill(pid, SIGTERM);
    CHECK(wait_for(pid) == 143);
    CHECK(access(path, F_OK) == 0 && remove(path) == 0);
    PF_CASE("serve, the program: a socket that a killed server left is taken over");
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(bind(fd, (struct sockaddr *)&address, sizeof address) == 0);
    close(fd);
    pid = start_socket(kit, path, "0");
    CHECK(connect_to(&a, path));
    close(a.in);
    kill(pid, SIGTERM);
    CHECK(wait_for(pid) == 143 && access(path, F_OK) != 0);
}

void test_serve(void)
{
    size_t n = 0, n_small = 0;
    const void *bytes = attitude_transport_kit_bytes(false, &n),
               *small = attitude_small_kit_bytes(&n_small);
    char kit[200];
    pf_error error;
    test_fields();
    check_refusals();
    check_serve_rehearsals();
    PF_CASE("serve: state given, predictions given and the library agree to the bit");
    test_equal(bytes, n, 5);
    test_equal(bytes, n, 0);
    PF_CASE("serve: the same with a group probe");
    test_equal(small, n_small, 2);
    PF_CASE("serve: the same with several faults, the others at the gains of the ask");
    size_t n_many = 0;
    const void *many = attitude_transport_kit_bytes(true, &n_many);
    test_equal(many, n_many, 5);
    test_equal(many, n_many, 0);
    signal(SIGPIPE, SIG_IGN);
    snprintf(kit, sizeof kit, "%s/serve.kit", pf_scratch_dir());
    PF_CASE("serve: a kit file");
    CHECK(pf__file_write(kit, bytes, n, &error) == PF_OK);
    test_pipes(kit);
    test_socket(kit);
    test_socket_resume(kit);
    test_deaf(kit);
    test_costly(kit);
    test_path(kit);
}
