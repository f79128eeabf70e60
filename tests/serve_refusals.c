// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "serve_talk.h"
#include "core/kit_layout.h"

#include "test.h"

#include <stdio.h>
#include <string.h>

// --- what must not change when a request is refused

typedef struct snapshot {
    pf_text readiness, ask;
    double belief[ATTITUDE_MECH], severity[256], joint[256], charge, peak;
    int stage, told, opportunities;
    bool outstanding, alarm;
} snapshot;

static void take_snapshot(talk *t, snapshot *s)
{
    pf_session *session = t->session;
    size_t cells = (size_t)(t->kit->n_mech - 1) * (size_t)t->kit->n_grid;
    memset(s, 0, sizeof *s);
    memcpy(s->belief, pf_session_belief(session), sizeof s->belief);
    memcpy(s->severity, pf_session_severity(session), cells * sizeof(double));
    pf_joint joint = pf_session_joint(session);
    memcpy(s->joint, joint.mass, cells * sizeof(double));
    s->charge = pf_session_get_state(session).charge;
    s->peak = pf_session_get_state(session).peak;
    s->stage = pf_session_get_state(session).stage;
    s->told = pf_session_get_state(session).told;
    s->opportunities = pf_session_get_state(session).opportunities;
    s->alarm = pf_session_get_state(session).alarm;
    s->outstanding = pf_session_outstanding(session, NULL);
    pf__text_add(&s->readiness, say(t, "{\"op\":\"readiness\"}"));
    // asking again opens nothing while a probe is outstanding or the session is done
    if (s->outstanding || s->stage == PF_STAGE_DONE) {
        pf__text_add(&s->ask, say(t, "{\"op\":\"ask\"}"));
    } else {
        pf__text_add(&s->ask, "none");
    }
}

static bool unchanged(talk *t, const snapshot *before)
{
    snapshot now;
    take_snapshot(t, &now);
    bool same = strcmp(now.readiness.data, before->readiness.data) == 0 &&
                strcmp(now.ask.data, before->ask.data) == 0;
    pf__text_free(&now.readiness);
    pf__text_free(&now.ask);
    // the rest bit by bit
    now.readiness = before->readiness;
    now.ask = before->ask;
    return same && memcmp(now.belief, before->belief, sizeof now.belief) == 0 &&
           memcmp(now.severity, before->severity, sizeof now.severity) == 0 &&
           memcmp(now.joint, before->joint, sizeof now.joint) == 0 &&
           now.charge == before->charge && now.peak == before->peak && now.stage == before->stage &&
           now.told == before->told && now.opportunities == before->opportunities &&
           now.alarm == before->alarm && now.outstanding == before->outstanding;
}

static void free_snapshot(snapshot *s)
{
    pf__text_free(&s->readiness);
    pf__text_free(&s->ask);
}

// The line is refused with this code, the message holds this part, and the session is as it was.
static void refused_n(talk *t, const char *line, size_t n, const char *code, const char *part)
{
    snapshot before;
    pf_text journal = {0};
    take_snapshot(t, &before);
    pf__protocol_line(t->dialogue, line, n, &t->reply, &journal);
    json_t *reply = parsed(t->reply.data), *error = json_object_get(reply, "error");
    const char *message = json_string_value(json_object_get(error, "message"));
    bool good = CHECK(json_is_false(json_object_get(reply, "ok")));
    good = CHECK_STR(json_string_value(json_object_get(error, "code")), code) && good;
    good = CHECK_CONTAINS(message, part) && good;
    good = CHECK(json_object_size(reply) == 2 && json_object_size(error) == 2) && good;
    good = CHECK(message && message[0] && !strchr(message, '\n')) && good;
    good = CHECK(journal.size == 0) && good; // only what was accepted is evidence
    json_decref(reply);
    good = CHECK(unchanged(t, &before)) && good;
    if (!good) {
        printf("    request %.200s\n", line);
    }
    free_snapshot(&before);
    pf__text_free(&journal);
}

static void refused(talk *t, const char *line, const char *code, const char *part)
{
    refused_n(t, line, strlen(line), code, part);
}

// --- refusals that do not depend on where the session stands

typedef struct refusal {
    const char *line, *code, *part;
} refusal;

static const refusal general[] = {
    {"", "not-json", "column"},
    {"hello", "not-json", "column"},
    {"{", "not-json", "column"},
    {"{\"op\":\"ask\"", "not-json", "column"},
    {"{'op':'ask'}", "not-json", "column"},
    {"{\"op\":\"ask\",}", "not-json", "column"},
    {"{\"op\":\"as\nk\"}", "not-json", "column"},
    {"{\"op\":\"ask\xff\"}", "not-json", "column"},
    {"\xef\xbb\xbf{\"op\":\"ask\"}", "not-json", "column"},
    {"{\"op\":\"as\\u0000k\"}", "not-json", "column"},
    {"{\"op\":\"ask\"} {\"op\":\"ask\"}", "not-json", "column"},
    {"{\"op\":\"ask\"}{\"op\":\"ask\"}", "not-json", "column"},
    {"{\"op\":\"ask\"},{\"op\":\"ask\"}", "not-json", "column"},
    {"{\"op\":\"ask\"}]", "not-json", "column"},
    {"[{\"op\":\"ask\"}]", "wrong-type", "request"},
    {"[]", "wrong-type", "request"},
    {"{}", "missing-key", "op"},
    {"{\"OP\":\"ask\"}", "missing-key", "op"},
    {"{\"op\":1}", "wrong-type", "op"},
    {"{\"op\":null}", "wrong-type", "op"},
    {"{\"op\":[\"ask\"]}", "wrong-type", "op"},
    {"{\"op\":\"\"}", "unknown-op", "op"},
    {"{\"op\":\"Ask\"}", "unknown-op", "ask"},
    {"{\"op\":\"tel\"}", "unknown-op", "did you mean 'tell'"},
    {"{\"op\":\"readyness\"}", "unknown-op", "did you mean 'readiness'"},
    {"{\"op\":\"ask\",\"op\":\"ask\"}", "duplicate-key", "op"},
    {"{\"op\":\"tell\",\"probe\":0,\"probe\":0}", "duplicate-key", "probe"},
    {"{\"op\":\"ask\",\"probe\":0}", "unknown-key", "probe"},
    {"{\"op\":\"hello\",\"x\":1}", "unknown-key", "x"},
    {"{\"op\":\"skip\",\"probe\":1}", "unknown-key", "probe"},
    {"{\"op\":\"stage2\",\"now\":true}", "unknown-key", "now"},
    {"{\"op\":\"readiness\",\"task\":1}", "unknown-key", "task"},
    {"{\"op\":\"reset\",\"seed\":1}", "unknown-key", "seed"},
    {"{\"op\":\"tell\",\"prob\":0,\"response\":[]}", "unknown-key", "did you mean 'probe'"},
    {"{\"op\":\"tell\",\"probe\":0,\"respnse\":[]}", "unknown-key", "did you mean 'response'"},
    {"{\"op\":\"tell\",\"probe\":0,\"response\":[],\"gird\":[]}", "unknown-key", "'grid'"},
    {"{\"op\":\"tell\"}", "missing-key", "probe"},
    {"{\"op\":\"tell\",\"probe\":0}", "missing-key", "response"},
    {"{\"op\":\"tell\",\"response\":[]}", "missing-key", "probe"},
    {"{\"op\":\"tell\",\"probe\":\"0\",\"response\":[]}", "wrong-type", "probe"},
    {"{\"op\":\"tell\",\"probe\":0.0,\"response\":[]}", "wrong-type", "probe"},
    {"{\"op\":\"tell\",\"probe\":null,\"response\":[]}", "wrong-type", "probe"},
    {"{\"op\":\"tell\",\"probe\":true,\"response\":[]}", "wrong-type", "probe"},
    {"{\"op\":\"tell\",\"probe\":[0],\"response\":[]}", "wrong-type", "probe"},
    {"{\"op\":\"tell\",\"probe\":99999999999999999999,\"response\":[]}", "not-finite", "big"},
    {"{\"op\":\"tell\",\"probe\":0,\"response\":[[1e999]]}", "not-finite", "overflow"},
    {"{\"op\":\"tell\",\"probe\":0,\"response\":[[-1e999]]}", "not-finite", "overflow"},
    {"{\"op\":\"tell\",\"probe\":0,\"response\":[[NaN]]}", "not-json", "column"},
    {"{\"op\":\"tell\",\"probe\":0,\"response\":[[nan]]}", "not-json", "column"},
    {"{\"op\":\"tell\",\"probe\":0,\"response\":[[Infinity]]}", "not-json", "column"},
    {"{\"op\":\"tell\",\"probe\":0,\"response\":[[-Infinity]]}", "not-json", "column"},
    {"{\"op\":\"tell\",\"probe\":0,\"response\":[[inf]]}", "not-json", "column"},
    {"{\"op\":\"tell\",\"probe\":0,\"response\":[[+1]]}", "not-json", "column"},
    {"{\"op\":\"tell\",\"probe\":0,\"response\":[[0x10]]}", "not-json", "column"},
};

static void check_general(talk *t)
{
    for (size_t i = 0; i < sizeof general / sizeof general[0]; i++) {
        refused(t, general[i].line, general[i].code, general[i].part);
    }
    refused_n(t, "{\"op\":\"ask\"}\0", 13, "not-json", "column");
    refused_n(t, "{\"op\":\0\"ask\"}", 13, "not-json", "column");
    pf_text deep = {0};
    for (int i = 0; i < 100000; i++) {
        pf__text_add(&deep, "[");
    }
    refused(t, deep.data, "too-deep", "column 17: ");
    pf__text_free(&deep);
    snapshot before;
    take_snapshot(t, &before);
    pf__protocol_too_long(t->dialogue, &t->reply);
    CHECK_CONTAINS(t->reply.data, "{\"ok\":false,\"error\":{\"code\":\"too-long\",\"message\":\"");
    CHECK(unchanged(t, &before));
    free_snapshot(&before);
}

// --- refusals of a tell whose probe is outstanding

// Texts of a right tell, to be spoilt one at a time.
typedef struct parts {
    int probe, rows, stage;
    pf_text response, state, nominal, fault, grid;
} parts;

static void free_parts(parts *p)
{
    pf__text_free(&p->response);
    pf__text_free(&p->state);
    pf__text_free(&p->nominal);
    pf__text_free(&p->fault);
    pf__text_free(&p->grid);
}

static void make_parts(talk *t, parts *p)
{
    pf_ask ask = {0};
    const int32_t *targets = NULL;
    const pf_kit *k = t->kit;
    memset(p, 0, sizeof *p);
    CHECK(pf_session_outstanding(t->session, &ask));
    p->probe = ask.probe;
    p->rows = ask.rows;
    p->stage = ask.stage;
    attitude_machine_probe(&t->machine, k, ask.probe);
    pf__json_matrix(&p->response, ask.rows, k->n_chan, t->machine.response);
    pf__json_numbers(&p->state, ATTITUDE_STATE, t->machine.start);
    attitude_machine_predict(&t->machine, k, ask.probe, 0, 1, &p->nominal);
    int n = pf_kit_probe_targets(k, ask.probe, &targets);
    pf__text_add(&p->fault, "[");
    pf__text_add(&p->grid, "[");
    for (int i = 0; i < n; i++) {
        pf__json_comma(&p->fault);
        attitude_machine_predict(&t->machine, k, ask.probe, targets[i], k->g_cal, &p->fault);
        pf__json_comma(&p->grid);
        pf__text_add(&p->grid, "[");
        for (int g = 0; g < k->n_grid; g++) {
            pf__json_comma(&p->grid);
            attitude_machine_predict(&t->machine, k, ask.probe, targets[i], k->grid[g], &p->grid);
        }
        pf__text_add(&p->grid, "]");
    }
    pf__text_add(&p->fault, "]");
    pf__text_add(&p->grid, "]");
}

// A tell with the given texts (NULL: left out) must be refused.
static void tell_refused(talk *t, int probe, const char *response, const char *state,
                         const char *nominal, const char *fault, const char *grid, const char *code,
                         const char *part)
{
    const char *const names[] = {"state", "nominal", "fault", "grid"};
    const char *const texts[] = {state, nominal, fault, grid};
    pf_text line = {0};
    pf__text_addf(&line, "{\"op\":\"tell\",\"probe\":%d,\"response\":%s", probe, response);
    for (int i = 0; i < 4; i++) {
        if (texts[i]) {
            pf__json_key(&line, names[i]);
            pf__text_add(&line, texts[i]);
        }
    }
    pf__text_add(&line, "}");
    refused(t, line.data, code, part);
    pf__text_free(&line);
}

// rows x columns zeros; the last row has `last` columns, one item of it replaced.
static const char *zeros(pf_text *out, int rows, int columns, int last, const char *item)
{
    pf__text_clear(out);
    pf__text_add(out, "[");
    for (int r = 0; r < rows; r++) {
        pf__json_comma(out);
        pf__text_add(out, "[");
        int n = r + 1 < rows ? columns : last;
        for (int c = 0; c < n; c++) {
            pf__json_comma(out);
            pf__text_add(out, item && r + 1 == rows && c + 1 == n ? item : "0");
        }
        pf__text_add(out, "]");
    }
    pf__text_add(out, "]");
    return out->data;
}

// What is wrong with a rows x channels matrix, whichever field it is in; wrap puts it there.
typedef void (*wrap_fn)(talk *t, const parts *p, const char *matrix, const char *code,
                        const char *part);

static void spoil_matrix(talk *t, const parts *p, const char *name, wrap_fn wrap)
{
    static const char *const wrong[] = {"5",  "1.5",     "null",     "true",
                                        "{}", "\"NaN\"", "\"[[]]\"", "false"};
    static const char *const items[] = {"null", "\"nan\"", "\"1\"",       "true",
                                        "[0]",  "{}",      "\"Infinity\""};
    pf_text m = {0};
    char row[64], item[64];
    int rows = p->rows, n = t->kit->n_chan;
    snprintf(row, sizeof row, "%s[%d]", name, rows - 1);
    snprintf(item, sizeof item, "%s[%d][%d]", name, rows - 1, n - 1);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        wrap(t, p, wrong[i], "wrong-type", name);
    }
    for (size_t i = 0; i < sizeof items / sizeof items[0]; i++) {
        wrap(t, p, zeros(&m, rows, n, n, items[i]), "wrong-type", item);
    }
    wrap(t, p, "[]", "wrong-shape", name);
    wrap(t, p, zeros(&m, rows - 1, n, n, NULL), "wrong-shape", name);
    wrap(t, p, zeros(&m, rows + 1, n, n, NULL), "wrong-shape", name);
    wrap(t, p, zeros(&m, rows, n - 1, n - 1, NULL), "wrong-shape", name);
    wrap(t, p, zeros(&m, rows, n + 1, n + 1, NULL), "wrong-shape", name);
    wrap(t, p, zeros(&m, rows, n, n - 1, NULL), "wrong-shape", row);
    wrap(t, p, zeros(&m, rows, n, n + 1, NULL), "wrong-shape", row);
    wrap(t, p, zeros(&m, rows, n, 0, NULL), "wrong-shape", row);
    wrap(t, p, zeros(&m, rows, n, n, "1e999"), "not-finite", "overflow");
    wrap(t, p, zeros(&m, rows, n, n, "-1e999"), "not-finite", "overflow");
    wrap(t, p, zeros(&m, rows, n, n, "99999999999999999999"), "not-finite", "big");
    wrap(t, p, zeros(&m, rows, n, n, "NaN"), "not-json", "column");
    wrap(t, p, zeros(&m, rows, n, n, "-inf"), "not-json", "column");
    pf__text_clear(&m);
    pf__text_add(&m, "[");
    for (int r = 0; r < rows; r++) {
        pf__text_add(&m, r ? ",0" : "0"); // rows that are numbers
    }
    pf__text_add(&m, "]");
    wrap(t, p, m.data, "wrong-type", name);
    pf__text_free(&m);
}

static void wrap_response(talk *t, const parts *p, const char *m, const char *code,
                          const char *part)
{
    tell_refused(t, p->probe, m, p->state.data, NULL, NULL, NULL, code, part);
}

static void wrap_nominal(talk *t, const parts *p, const char *m, const char *code, const char *part)
{
    tell_refused(t, p->probe, p->response.data, NULL, m, p->fault.data, p->grid.data, code, part);
}

// The matrix as the last prediction of `fault`, the others right.
static void wrap_fault(talk *t, const parts *p, const char *m, const char *code, const char *part)
{
    pf_text list = {0};
    int n = pf_kit_probe_targets(t->kit, p->probe, NULL);
    pf__text_add(&list, "[");
    for (int i = 0; i < n; i++) {
        pf__json_comma(&list);
        pf__text_add(&list, i + 1 < n ? p->nominal.data : m);
    }
    pf__text_add(&list, "]");
    tell_refused(t, p->probe, p->response.data, NULL, p->nominal.data, list.data, p->grid.data,
                 code, part);
    pf__text_free(&list);
}

static void wrap_grid(talk *t, const parts *p, const char *m, const char *code, const char *part)
{
    pf_text list = {0};
    int n = pf_kit_probe_targets(t->kit, p->probe, NULL);
    pf__text_add(&list, "[");
    for (int i = 0; i < n; i++) {
        pf__json_comma(&list);
        pf__text_add(&list, "[");
        for (int g = 0; g < t->kit->n_grid; g++) {
            pf__json_comma(&list);
            pf__text_add(&list, i + 1 < n || g + 1 < t->kit->n_grid ? p->nominal.data : m);
        }
        pf__text_add(&list, "]");
    }
    pf__text_add(&list, "]");
    tell_refused(t, p->probe, p->response.data, NULL, p->nominal.data, p->fault.data, list.data,
                 code, part);
    pf__text_free(&list);
}

static void check_tell(talk *t)
{
    parts p;
    make_parts(t, &p);
    const char *response = p.response.data, *state = p.state.data, *nominal = p.nominal.data;
    const char *fault = p.fault.data, *grid = p.grid.data;
    char name[64];
    int last = pf_kit_probe_targets(t->kit, p.probe, NULL) - 1;
    spoil_matrix(t, &p, "response", wrap_response);
    spoil_matrix(t, &p, "nominal", wrap_nominal);
    if (p.stage == 2) { // finite, but its square is not
        pf_text huge = {0};
        zeros(&huge, p.rows, t->kit->n_chan, t->kit->n_chan, "1e300");
        wrap_response(t, &p, huge.data, "not-finite", "response");
        pf__text_free(&huge);
    }
    snprintf(name, sizeof name, "fault[%d]", last);
    spoil_matrix(t, &p, name, wrap_fault);
    snprintf(name, sizeof name, "grid[%d][%d]", last, (int)t->kit->n_grid - 1);
    spoil_matrix(t, &p, name, wrap_grid);
    static const refusal states[] = {{"[]", "wrong-shape", "state"},
                                     {"[0,0,0,0,0]", "wrong-shape", "state"},
                                     {"[0,0,0,0,0,0,0]", "wrong-shape", "state"},
                                     {"0", "wrong-type", "state"},
                                     {"null", "wrong-type", "state"},
                                     {"{\"x\":0}", "wrong-type", "state"},
                                     {"\"0,0,0,0,0,0\"", "wrong-type", "state"},
                                     {"[0,0,\"nan\",0,0,0]", "wrong-type", "state[2]"},
                                     {"[0,0,0,0,0,null]", "wrong-type", "state[5]"},
                                     {"[0,0,0,0,0,1e999]", "not-finite", "overflow"},
                                     {"[0,0,0,0,0,NaN]", "not-json", "column"}};
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        tell_refused(t, p.probe, response, states[i].line, NULL, NULL, NULL, states[i].code,
                     states[i].part);
    }
    static const refusal lists[] = {
        {"5", "wrong-type", ""},   {"null", "wrong-type", ""},
        {"{}", "wrong-type", ""},  {"\"nan\"", "wrong-type", ""},
        {"[]", "wrong-shape", ""}, {"[0,0,0,0,0,0]", "wrong-shape", ""}};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        tell_refused(t, p.probe, response, NULL, nominal, lists[i].line, grid, lists[i].code,
                     "fault");
        tell_refused(t, p.probe, response, NULL, nominal, fault, lists[i].line, lists[i].code,
                     "grid");
    }
    tell_refused(t, p.probe + 1, response, state, NULL, NULL, NULL, "wrong-probe", "probe");
    tell_refused(t, -1, response, state, NULL, NULL, NULL, "wrong-probe", "probe");
    tell_refused(t, 2147483647, response, state, NULL, NULL, NULL, "wrong-probe", "probe");
    tell_refused(t, p.probe, response, NULL, NULL, NULL, NULL, "missing-prediction", "state");
    tell_refused(t, p.probe, response, NULL, NULL, fault, grid, "missing-prediction", "nominal");
    tell_refused(t, p.probe, response, NULL, nominal, p.stage == 1 ? NULL : fault,
                 p.stage == 1 ? grid : NULL, "missing-prediction", p.stage == 1 ? "fault" : "grid");
    tell_refused(t, p.probe, response, state, nominal, NULL, NULL, "ambiguous", "state");
    tell_refused(t, p.probe, response, state, NULL, fault, NULL, "ambiguous", "state");
    tell_refused(t, p.probe, response, state, NULL, NULL, grid, "ambiguous", "state");
    tell_refused(t, p.probe, response, state, nominal, fault, grid, "ambiguous", "state");
    free_parts(&p);
}

// --- the refusals in every state of a session

// Stage 2 with several faults needs both halves of its predictions.
static void refuse_halves(void)
{
    talk t;
    size_t n = 0;
    const void *bytes = attitude_transport_kit_bytes(true, &n);
    open_talk(&t, bytes, n, 5, false);
    while (pf_session_get_state(t.session).stage == 1 && !pf_session_get_state(t.session).alarm) {
        CHECK(step(&t, false));
    }
    say(&t, "{\"op\":\"stage2\"}");
    say(&t, "{\"op\":\"ask\"}");
    pf_ask ask;
    if (CHECK(pf_session_outstanding(t.session, &ask) && ask.stage == 2)) {
        // what one change at a time would need is not enough
        attitude_machine_probe(&t.machine, t.kit, ask.probe);
        attitude_machine_tell(&t.machine, t.kit, ask.probe, 2, false, &t.request);
        CHECK_CONTAINS(say(&t, t.request.data), "\"code\":\"missing-prediction\"");
        CHECK_CONTAINS(t.reply.data, "healthy");
        CHECK(pf_session_outstanding(t.session, NULL));
    }
    close_talk(&t);
}

void check_refusals(void)
{
    size_t n = 0;
    const void *bytes = attitude_small_kit_bytes(&n);
    talk t;
    PF_CASE("serve refuses: before the first ask");
    open_talk(&t, bytes, n, 2, true);
    check_general(&t);
    refused(&t, "{\"op\":\"tell\",\"probe\":0,\"response\":[]}", "wrong-probe", "ask first");
    refused(&t, "{\"op\":\"skip\"}", "wrong-probe", "ask first");
    PF_CASE("serve refuses: with a probe of stage 1 outstanding");
    step(&t, true);
    say(&t, "{\"op\":\"ask\"}");
    check_general(&t);
    check_tell(&t);
    PF_CASE("serve refuses: between a tell and the next ask");
    CHECK(step(&t, false));
    check_general(&t);
    refused(&t, "{\"op\":\"tell\",\"probe\":0,\"response\":[]}", "wrong-probe", "ask first");
    refused(&t, "{\"op\":\"skip\"}", "wrong-probe", "ask first");
    PF_CASE("serve refuses: with a probe of stage 2 outstanding");
    while (!pf_session_get_state(t.session).alarm && step(&t, true)) {
    }
    CHECK_STR(say(&t, "{\"op\":\"stage2\"}"), "{\"ok\":true}");
    CHECK(pf_session_get_state(t.session).stage == 2);
    refused(&t, "{\"op\":\"stage2\"}", "wrong-stage", "stage2");
    CHECK_CONTAINS(say(&t, "{\"op\":\"ask\"}"), "\"stage\":2");
    check_general(&t);
    check_tell(&t);
    refused(&t, "{\"op\":\"stage2\"}", "wrong-stage", "stage2");
    PF_CASE("serve refuses: when the session is done");
    while (step(&t, true)) {
    }
    CHECK(pf_session_get_state(t.session).stage == PF_STAGE_DONE);
    check_general(&t);
    refused(&t, "{\"op\":\"tell\",\"probe\":0,\"response\":[]}", "wrong-stage", "tell");
    refused(&t, "{\"op\":\"skip\"}", "wrong-stage", "skip");
    refused(&t, "{\"op\":\"stage2\"}", "wrong-stage", "stage2");
    close_talk(&t);
    PF_CASE("serve refuses: a state where there is no twin, and says why");
    open_talk(&t, bytes, n, 2, false);
    say(&t, "{\"op\":\"ask\"}");
    parts p;
    make_parts(&t, &p);
    tell_refused(&t, p.probe, p.response.data, p.state.data, NULL, NULL, NULL, "missing-prediction",
                 "cleaner's");
    CHECK(step(&t, false)); // predictions of the caller's do
    free_parts(&p);
    close_talk(&t);
    PF_CASE("serve: with several faults stage 2 needs healthy and grid");
    refuse_halves();
}
