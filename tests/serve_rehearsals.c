// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "host/file.h"
#include "program.h"
#include "serve_talk.h"
#include "test.h"
#include "wire/journal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Protocol 2: rehearsals over serve, with the start state or with predictions of one's own.

enum { GROUP_TASKS = 7, FIRST_GROUP = 4 }; // in two groups: no group has more than half

// A dialogue with its journal; every request is kept as a line.
typedef struct client {
    talk t;
    pf_text journal, requests, replies;
    bool state; // predictions from the start state, else own ones
} client;

static const char *tell_it(client *c, const char *line)
{
    pf__protocol_line(c->t.dialogue, line, strlen(line), &c->t.reply, &c->journal);
    pf__text_add(&c->requests, line);
    pf__text_add(&c->requests, "\n");
    pf__text_add_n(&c->replies, c->t.reply.data, c->t.reply.size);
    pf__text_add(&c->replies, "\n");
    return c->t.reply.data;
}

static void open_client(client *c, int weak, bool state, const char *hello)
{
    size_t n = 0;
    const void *bytes = attitude_kit_bytes(&n);
    memset(c, 0, sizeof *c);
    open_talk(&c->t, bytes, n, weak, state);
    c->state = state;
    pf__journal_header(&c->journal, bytes, n, pf_session_method(c->t.session)->id, 0, NULL, NULL);
    pf__text_add(&c->journal, "\n");
    CHECK_CONTAINS(tell_it(c, hello), "\"protocol\":2,");
}

static void close_client(client *c)
{
    close_talk(&c->t);
    pf__text_free(&c->journal);
    pf__text_free(&c->requests);
    pf__text_free(&c->replies);
}

// --- what the machine does, and what is told of it

static void perform(client *c, const pf_ask *ask)
{
    attitude_machine *m = &c->t.machine;
    pf_rig rig = {.plant = m->plant,
                  .kit = c->t.kit,
                  .gains = m->gains,
                  .start = m->start,
                  .response = m->response};
    pf_key key = pf_key_stream(11, "attitude", 0, PF_PURPOSE_REHEARSAL, m->runs++);
    CHECK(ask->rows <= ATTITUDE_ROWS && pf_rig_rehearse(&rig, ask, key, NULL) == PF_OK);
}

// A prediction of the uncorrected tasks, with one mechanism at a gain (0: all healthy), or of no
// command at all.
static void add_run(client *c, const pf_ask *ask, bool idle, int mechanism, double gain)
{
    double command[ATTITUDE_ROWS * ATTITUDE_MECH] = {0}, gains[ATTITUDE_MECH];
    double response[ATTITUDE_ROWS * ATTITUDE_CHAN];
    for (int i = 0; i < ask->n_tasks && !idle; i++) {
        for (int a = 0; a < ask->rows * ATTITUDE_MECH; a++) {
            command[a] += pf_kit_task_command(c->t.kit, ask->tasks[i])[a];
        }
    }
    for (int j = 0; j < ATTITUDE_MECH; j++) {
        gains[j] = mechanism > 0 && j == mechanism ? gain : 1;
    }
    pf_run run = {.task = ask->tasks[0], .command = command, .rows = ask->rows, .gains = gains};
    run.idle = idle;
    CHECK(c->t.twin.run(c->t.twin.self, &run, c->t.machine.start, ATTITUDE_STATE, response, NULL) ==
          PF_OK);
    pf__json_matrix(&c->t.request, ask->rows, ATTITUDE_CHAN, response);
}

// The edges that the ask names, each predicted.
static void add_edges(client *c, const pf_ask *ask)
{
    json_t *asked = parsed(c->t.reply.data), *item;
    size_t i;
    pf__text_add(&c->t.request, ",\"edges\":[");
    json_array_foreach(json_object_get(asked, "edges"), i, item)
    {
        pf__text_add(&c->t.request, i ? "," : "");
        add_run(c, ask, false, (int)json_integer_value(json_object_get(item, "mechanism")),
                json_number_value(json_object_get(item, "gain")));
    }
    CHECK(i == 2 * (size_t)ask->n_tasks);
    pf__text_add(&c->t.request, "]");
    json_decref(asked);
}

// The tell of a rehearsal that was performed; without: a key that is left out.
static void request_rehearsal(client *c, const pf_ask *ask, const char *without)
{
    pf_text *out = &c->t.request;
    pf__text_clear(out);
    pf__text_add(out, "{\"op\":\"tell\",\"rehearsal\":[");
    for (int i = 0; i < ask->n_tasks; i++) {
        pf__text_addf(out, i ? ",%d" : "%d", (int)ask->tasks[i]);
    }
    pf__text_add(out, "],\"response\":");
    pf__json_matrix(out, ask->rows, ATTITUDE_CHAN, c->t.machine.response);
    if (c->state) {
        pf__text_add(out, ",\"state\":");
        pf__json_numbers(out, ATTITUDE_STATE, c->t.machine.start);
        pf__text_add(out, "}");
        return;
    }
    if (strcmp(without, "nominal") != 0) {
        pf__text_add(out, ",\"nominal\":");
        add_run(c, ask, false, 0, 1);
    }
    if (ask->n_tasks > 1 && strcmp(without, "edges") != 0) {
        add_edges(c, ask);
    } else if (ask->n_tasks == 1 && strcmp(without, "free") != 0) {
        pf__text_add(out, ",\"free\":");
        add_run(c, ask, true, 0, 1);
    }
    pf__text_add(out, "}");
}

// One ask and one tell; false: done, or nothing but a rehearsal is left and they are not wanted.
static bool advance(client *c, bool rehearsals)
{
    pf_ask ask;
    tell_it(c, "{\"op\":\"ask\"}");
    if (!pf_session_outstanding(c->t.session, &ask) ||
        (ask.kind == PF_ASK_REHEARSAL && !rehearsals)) {
        return false;
    }
    if (ask.kind == PF_ASK_REHEARSAL) {
        perform(c, &ask);
        request_rehearsal(c, &ask, "");
    } else {
        attitude_machine_probe(&c->t.machine, c->t.kit, ask.probe);
        attitude_machine_tell(&c->t.machine, c->t.kit, ask.probe, 1, c->state, &c->t.request);
    }
    CHECK_CONTAINS(tell_it(c, c->t.request.data), "{\"ok\":true,");
    return true;
}

// The journal replays to the bit and can be told in words.
static void replays(client *c, const char *words)
{
    pf_replay result;
    pf_error error = {PF_OK, ""};
    CHECK(pf__replay_journal(c->journal.data, c->journal.size, true, &result, &error) == PF_OK);
    CHECK_STR(error.text, "");
    CHECK_STR(result.where, "");
    CHECK(!result.differs && !result.cut);
    CHECK_CONTAINS(result.explanation.data, words);
    pf__text_free(&result.explanation);
}

static const char version2[] = "{\"op\":\"hello\",\"protocol\":2}";

// --- cases

static int count(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = strstr(text, part); at; at = strstr(at + 1, part)) {
        n++;
    }
    return n;
}

static void check_fields(void)
{
    client c;
    PF_CASE("serve 2: a client that says so is asked for rehearsals");
    open_client(&c, 2, true, version2);
    CHECK_CONTAINS(c.t.reply.data, "\"rehearse\":\"group\"");
    while (advance(&c, false)) {
    }
    json_t *ask = parsed(c.t.reply.data);
    CHECK_STR(json_string_value(json_object_get(ask, "ask")), "rehearsal");
    CHECK(json_integer_value(json_object_get(ask, "stage")) == 3);
    json_t *tasks = json_object_get(ask, "tasks"), *names = json_object_get(ask, "names");
    CHECK(json_array_size(tasks) == FIRST_GROUP && json_array_size(names) == FIRST_GROUP);
    CHECK_STR(json_string_value(json_array_get(names, 1)), pf_kit_task_name(c.t.kit, 1));
    json_t *command = json_object_get(ask, "command");
    int rows = (int)json_integer_value(json_object_get(ask, "rows"));
    CHECK((int)json_array_size(command) == rows);
    say(&c.t, "{\"op\":\"readiness\"}");
    double correction = pf_session_mechanism(c.t.session, 2)->correction;
    CHECK_NEAR(correction, 1 / .35, .8);
    for (int r = 0; r < rows; r++) {
        double u = pf_kit_task_command(c.t.kit, 1)[r * ATTITUDE_MECH + 2] * correction;
        json_t *row = json_array_get(command, (size_t)r);
        CHECK(json_array_size(row) == ATTITUDE_MECH);
        u = u > c.t.kit->hi[2] ? c.t.kit->hi[2] : u < c.t.kit->lo[2] ? c.t.kit->lo[2] : u;
        CHECK_NEAR(json_number_value(json_array_get(row, 2)), u, 1e-12);
    }
    json_decref(ask);
    CHECK(advance(&c, true));
    CHECK_CONTAINS(c.t.reply.data, "\"passed\":true,\"distance\":");
    CHECK(advance(&c, true)); // the other group
    CHECK(!advance(&c, true));
    CHECK_CONTAINS(c.t.reply.data, "\"ask\":\"done\"");
    CHECK_CONTAINS(tell_it(&c, "{\"op\":\"readiness\"}"), "\"rehearsals\":2");
    CHECK(count(c.t.reply.data, "\"rehearsed\":\"group\"") == GROUP_TASKS);
    replays(&c, "Rehearsal of ");
    close_client(&c);
}

static void check_version1(void)
{
    static const char *const hellos[] = {"{\"op\":\"hello\"}", "{\"op\":\"hello\",\"protocol\":1}"};
    for (int i = 0; i < 2; i++) {
        client c;
        open_client(&c, 0, true, hellos[i]);
        int probes = 0;
        while (advance(&c, true)) {
            probes++;
        }
        CHECK_CONTAINS(c.t.reply.data, "\"ask\":\"done\"");
        CHECK(!strstr(c.requests.data, "rehearsal"));
        json_t *ready = parsed(tell_it(&c, "{\"op\":\"readiness\"}"));
        CHECK(json_integer_value(json_object_get(ready, "rehearsals")) == 0);
        CHECK(json_integer_value(json_object_get(ready, "probes")) == probes);
        CHECK(count(c.t.reply.data, "\"decision\":\"go-if\",\"why\":\"not-rehearsed\"") ==
              GROUP_TASKS);
        CHECK(count(c.t.reply.data, "\"decision\":\"go\"") == 0);
        json_decref(ready);
        replays(&c, "GO-IF");
        close_client(&c);
    }
    client c;
    PF_CASE("serve 2: other protocols are refused");
    open_client(&c, 0, true, version2);
    CHECK_CONTAINS(tell_it(&c, "{\"op\":\"hello\",\"protocol\":3}"), "\"code\":\"wrong-version\"");
    CHECK_CONTAINS(tell_it(&c, "{\"op\":\"hello\",\"protocol\":0}"), "1 to 2 are");
    CHECK_CONTAINS(tell_it(&c, "{\"op\":\"hello\",\"protocol\":\"2\"}"), "whole number");
    while (advance(&c, false)) {
    }
    CHECK_CONTAINS(c.t.reply.data, "\"ask\":\"rehearsal\""); // still 2
    close_client(&c);
}

// Requests of one dialogue told again with the predictions that its journal has.
static void check_given(client *from, int weak)
{
    client to;
    json_error_t problem;
    open_client(&to, weak, false, version2);
    const char *line = strchr(from->journal.data, '\n') + 1; // after the header
    line = strchr(line, '\n') + 1;                           // and the hello
    int tells = 0, nearest = 0;
    while (*line) {
        size_t n = strcspn(line, "\n");
        json_t *entry = json_loadb(line, n, 0, &problem);
        json_t *request = json_object_get(entry, "request");
        json_t *predictions = json_object_get(entry, "predictions");
        if (predictions) {
            json_object_del(request, "state");
            json_object_update(request, predictions);
            nearest += json_object_get(predictions, "nearest") != NULL;
            tells++;
        }
        char *text = json_dumps(request, JSON_COMPACT | JSON_REAL_PRECISION(17));
        json_t *reply = parsed(tell_it(&to, text));
        CHECK(json_equal(reply, json_object_get(entry, "reply")));
        free(text);
        json_decref(reply);
        json_decref(entry);
        line += n + (line[n] == '\n');
    }
    CHECK(tells > 1 && nearest > 0);
    replays(&to, "Rehearsal of ");
    close_client(&to);
}

static void check_predictions(void)
{
    static const int weak[] = {0, 5};
    for (int i = 0; i < 2; i++) {
        client a, b;
        PF_CASE("serve 2: a session from start states, and again from its predictions");
        open_client(&a, weak[i], true, version2);
        while (advance(&a, true)) {
        }
        tell_it(&a, "{\"op\":\"readiness\"}");
        CHECK(count(a.t.reply.data, "\"decision\":\"go\"") >= GROUP_TASKS - 1);
        replays(&a, "Rehearsal of ");
        check_given(&a, weak[i]);
        PF_CASE("serve 2: a session from own predictions, the nearest on a line between them");
        open_client(&b, weak[i], false, version2);
        while (advance(&b, true)) {
        }
        tell_it(&b, "{\"op\":\"readiness\"}");
        CHECK(count(b.t.reply.data, "\"decision\":\"go\"") >= GROUP_TASKS - 1);
        CHECK(pf_session_get_state(b.t.session).misfit < 1);
        replays(&b, "Rehearsal of ");
        close_client(&a);
        close_client(&b);
    }
}

static void refused(client *c, const char *line, const char *code, const char *part)
{
    pf_ask before, after;
    int told = pf_session_get_state(c->t.session).told;
    CHECK(pf_session_outstanding(c->t.session, &before));
    CHECK_CONTAINS(tell_it(c, line), code);
    CHECK_CONTAINS(c->t.reply.data, part);
    CHECK(pf_session_outstanding(c->t.session, &after) && before.tasks == after.tasks);
    CHECK(pf_session_get_state(c->t.session).told == told);
}

static void check_refused(void)
{
    client c;
    pf_ask ask;
    char line[400];
    open_client(&c, 0, false, version2);
    while (advance(&c, false)) {
    }
    pf_session_outstanding(c.t.session, &ask);
    perform(&c, &ask);
    request_rehearsal(&c, &ask, "nominal");
    refused(&c, c.t.request.data, "missing-prediction", "nominal: is missing");
    request_rehearsal(&c, &ask, "edges");
    refused(&c, c.t.request.data, "missing-prediction", "edges: is missing");
    CHECK_CONTAINS(c.t.reply.data, "or skip");
    refused(&c, "{\"op\":\"tell\",\"probe\":0,\"response\":[]}", "wrong-probe",
            "a rehearsal was asked for");
    refused(&c, "{\"op\":\"tell\",\"rehearsal\":[0],\"response\":[]}", "wrong-probe",
            "other tasks were asked for");
    refused(&c, "{\"op\":\"tell\",\"rehearsal\":[1,0,2,3],\"response\":[]}", "wrong-probe",
            "in that order");
    refused(&c, "{\"op\":\"tell\",\"rehearsal\":0,\"response\":[]}", "wrong-type", "list of tasks");
    refused(&c, "{\"op\":\"tell\",\"rehearsal\":[0],\"probe\":0,\"response\":[]}", "ambiguous",
            "either");
    refused(&c, "{\"op\":\"tell\",\"rehearsal\":[0,1,2,3]}", "missing-key", "response");
    snprintf(line, sizeof line, "{\"op\":\"tell\",\"rehearsal\":[0,1,2,3],\"response\":[[0]]}");
    refused(&c, line, "wrong-shape", "response: has 1 rows");
    // after a skip of both groups each is asked for alone, and needs the free response
    CHECK_CONTAINS(tell_it(&c, "{\"op\":\"skip\"}"), "{\"ok\":true");
    tell_it(&c, "{\"op\":\"ask\"}");
    CHECK_CONTAINS(tell_it(&c, "{\"op\":\"skip\"}"), "{\"ok\":true");
    tell_it(&c, "{\"op\":\"ask\"}");
    pf_session_outstanding(c.t.session, &ask);
    CHECK(ask.n_tasks == 1 && ask.tasks[0] == 0);
    CHECK(!strstr(c.t.reply.data, "edges"));
    perform(&c, &ask);
    request_rehearsal(&c, &ask, "free");
    refused(&c, c.t.request.data, "missing-prediction", "free: is missing");
    request_rehearsal(&c, &ask, "");
    CHECK_CONTAINS(tell_it(&c, c.t.request.data), "\"passed\":true");
    // one more is skipped, the rest runs
    tell_it(&c, "{\"op\":\"ask\"}");
    CHECK_CONTAINS(tell_it(&c, "{\"op\":\"skip\"}"), "{\"ok\":true");
    while (advance(&c, true)) {
    }
    json_t *ready = parsed(tell_it(&c, "{\"op\":\"readiness\"}"));
    CHECK(json_integer_value(json_object_get(ready, "rehearsals")) == GROUP_TASKS - 1);
    CHECK(count(c.t.reply.data, "\"rehearsed\":\"apart\"") == GROUP_TASKS - 1);
    CHECK(count(c.t.reply.data, "\"why\":\"not-rehearsed\"") == 1);
    json_decref(ready);
    replays(&c, "was skipped");
    close_client(&c);
    PF_CASE("serve 2: without a twin a state is no prediction");
    open_client(&c, 0, false, version2);
    while (advance(&c, false)) {
    }
    pf_session_outstanding(c.t.session, &ask);
    perform(&c, &ask);
    c.state = true;
    request_rehearsal(&c, &ask, "");
    refused(&c, c.t.request.data, "missing-prediction", "cleaner");
    close_client(&c);
}

// The program answers a whole session as the dialogue in this process did.
static void check_program(void)
{
    char folder[200], path[300], command[1500];
    size_t n = 0;
    const void *bytes = attitude_kit_bytes(&n);
    pf_error error = {PF_OK, ""};
    client c;
    CHECK(program_folder(folder, sizeof folder, "rehearsals"));
    open_client(&c, 3, true, version2);
    while (advance(&c, true)) {
    }
    tell_it(&c, "{\"op\":\"readiness\"}");
    snprintf(path, sizeof path, "%s/kit", folder);
    CHECK(pf__file_write(path, bytes, n, &error) == PF_OK);
    snprintf(path, sizeof path, "%s/requests", folder);
    CHECK(pf__file_write(path, c.requests.data, c.requests.size, &error) == PF_OK);
    snprintf(path, sizeof path, "%s/expected", folder);
    CHECK(pf__file_write(path, c.replies.data, c.replies.size, &error) == PF_OK);
    snprintf(command, sizeof command,
             "serve %s/kit --journal %s/journal <%s/requests >%s/replies && cmp %s/replies "
             "%s/expected",
             folder, folder, folder, folder, folder, folder);
    CHECK(program(command, 0, ""));
    snprintf(command, sizeof command, "replay %s/journal", folder);
    CHECK(program(command, 0, ""));
    close_client(&c);
}

void check_serve_rehearsals(void)
{
    check_fields();
    PF_CASE("serve 2: a client of protocol 1 is asked for probes only, and gets go-if");
    check_version1();
    check_predictions();
    PF_CASE("serve 2: refusals name what is missing; group and task are skipped");
    check_refused();
    PF_CASE("serve 2: the program answers the same, its journal replays");
    check_program();
}
