// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "test.h"
#include "core/rng.h"

#include "attitude_kit.h"
#include "preflight/run.h"
#include "wire/protocol.h"
#include "wire/journal.h"
#include "host/file.h"
#include "program.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A journal in memory.
typedef struct journal {
    char *text;
    size_t n;
} journal;

static journal read_journal(const char *path)
{
    journal j = {NULL, 0};
    void *data = NULL;
    pf_error error = {PF_OK, ""};
    CHECK(pf__file_read(path, (size_t)1 << 28, &data, &j.n, &error) == PF_OK);
    CHECK_STR(error.text, "");
    j.text = data;
    return j;
}

// Replays from memory of exactly n bytes.
static pf_status replay(const char *text, size_t n, pf_replay *result, pf_error *error)
{
    char *exact = malloc(n > 0 ? n : 1);
    memcpy(exact, text, n);
    *error = (pf_error){PF_OK, ""};
    pf_status status = pf__replay_journal(exact, n, false, result, error);
    free(exact);
    return status;
}

static void replays(const journal *j, int events, bool done)
{
    pf_replay result;
    pf_error error;
    CHECK(replay(j->text, j->n, &result, &error) == PF_OK);
    CHECK_STR(error.text, "");
    CHECK_STR(result.where, "");
    CHECK(!result.differs && !result.cut && result.open == !done && result.events == events);
}

// Whole lines before byte n, the header among them.
static int lines_before(const journal *j, size_t n)
{
    int lines = 0;
    for (size_t i = 0; i < n; i++) {
        lines += j->text[i] == '\n';
    }
    return lines;
}

// --- differences

// Changes the first digit of the number that follows `field` on the line that holds `mark`, then
// expects a difference on that line.
static void tamper(const journal *j, const char *mark, const char *field, const char *expect)
{
    char *text = malloc(j->n + 1);
    memcpy(text, j->text, j->n + 1);
    char *line = strstr(text, mark), *digit = line ? strstr(line, field) : NULL;
    if (!CHECK(digit != NULL)) {
        free(text);
        return;
    }
    digit += strlen(field);
    digit += strcspn(digit, "123456789");
    *digit = *digit == '5' ? '7' : '5';
    int number = lines_before(j, (size_t)(line - text)) + 1;
    char where[64];
    snprintf(where, sizeof where, "line %d: %s", number, expect);
    pf_replay result;
    pf_error error;
    CHECK(replay(text, j->n, &result, &error) == PF_OK);
    CHECK(result.differs);
    if (!CHECK_CONTAINS(result.where, where)) {
        printf("    %s after %s\n", field, mark);
    }
    CHECK_CONTAINS(result.where, "recorded ");
    free(text);
}

static void test_differences(const journal *j, const char *folder)
{
    PF_CASE("replay: a changed digit is found, line and field named");
    tamper(j, "{\"request\":{\"op\":\"tell\"", "\"response\":[[", "reply.targets[0].score");
    tamper(j, "{\"request\":{\"op\":\"tell\"", "\"nominal\":[[", "reply.targets[0].score");
    tamper(j, "{\"request\":{\"op\":\"tell\"", "\"fault\":[[[", "reply.targets[0].score");
    tamper(j, "{\"request\":{\"op\":\"tell\"", "\"score\":", "reply.targets[0].score");
    tamper(j, "{\"request\":{\"op\":\"tell\"", "\"belief\":[", "reply.belief[0]");
    tamper(j, "{\"request\":{\"op\":\"tell\"", "\"change\":", "reply.change");
    tamper(j, "{\"request\":{\"op\":\"ask\"", "\"value\":", "reply.value");
    tamper(j, "{\"request\":{\"op\":\"ask\"", "\"charge\":", "reply.charge");
    tamper(j, "{\"request\":{\"op\":\"readiness\"", "\"charge\":", "reply.charge");
    tamper(j, "{\"request\":{\"op\":\"readiness\"", "\"lower\":", "reply.tasks[0].lower");
    tamper(j, "{\"request\":{\"op\":\"readiness\"",
           "\"mean_gain\":", "reply.mechanisms[0].mean_gain");
    PF_CASE("replay: the program names it and exits 1");
    char path[256], command[1200];
    snprintf(path, sizeof path, "%s/changed", folder);
    char *text = malloc(j->n + 1), *digit;
    pf_error error;
    memcpy(text, j->text, j->n + 1);
    digit = strstr(strstr(text, "\"op\":\"readiness\""), "\"p_changed\":") + 12;
    digit += strcspn(digit, "123456789");
    *digit = *digit == '5' ? '7' : '5';
    CHECK(pf__file_write(path, text, j->n, &error) == PF_OK);
    snprintf(command, sizeof command, "replay '%s'", path);
    CHECK(program(command, 1, "reply.mechanisms[0].p_changed"));
    snprintf(command, sizeof command, "replay --json '%s'", path);
    CHECK(program(command, 1, "\"equal\":false"));
    snprintf(command, sizeof command, "explain '%s'", path);
    CHECK(program(command, 1, "does not replay"));
    PF_CASE("explain: no verdict in words for a journal that does not replay");
    snprintf(command, sizeof command,
             "explain '%s' >'%s/words'; head -1 '%s/words' | grep -q Warning && ! grep -q "
             "'GO\\|is go\\|eady' '%s/words'",
             path, folder, folder, folder);
    CHECK(program(command, 0, ""));
    free(text);
}

static void test_header(const journal *j)
{
    pf_replay result;
    pf_error error;
    char *text = malloc(j->n + 1);
    static const struct {
        const char *at, *put;
        pf_status status;
        const char *part;
    } changes[] = {
        {"\"kit\":\"", "\"kit\":\"A", PF_ERR_FORMAT, "line 1"},
        {"\"kit\":\"UEZM", "\"kit\":\"UEZ?", PF_ERR_FORMAT, "line 1: kit: is not base64"},
        {"\"journal\":1", "\"journal\":2", PF_ERR_VERSION, "line 1: journal of version 2"},
        {"\"journal\":1", "\"journax\":1", PF_ERR_FORMAT, "line 1: not the header"},
        {"\"method\":\"eg-mpt\"", "\"method\":\"random\"", PF_ERR_MISMATCH, "line 1"},
        {"{\"request\"", "{\"requesx\"", PF_ERR_FORMAT, "line 2: has no request"},
        {"{\"request\":{", "{\"request\":[", PF_ERR_FORMAT, "line 2"},
    };
    PF_CASE("replay: a changed header or structure is bad input, with its line");
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        memcpy(text, j->text, j->n + 1);
        char *at = strstr(text, changes[i].at);
        CHECK(at != NULL);
        memcpy(at, changes[i].put, strlen(changes[i].put));
        CHECK(replay(text, j->n, &result, &error) == changes[i].status);
        CHECK_CONTAINS(error.text, changes[i].part);
    }
    PF_CASE("replay: a changed character of the kit is found");
    size_t first = (size_t)(strstr(j->text, "\"kit\":\"") - j->text) + 7;
    for (size_t at = first; at < strcspn(j->text, "\n") - 40; at += 3001) {
        memcpy(text, j->text, j->n + 1);
        text[at] = text[at] == 'A' ? 'B' : 'A';
        CHECK(replay(text, j->n, &result, &error) != PF_OK);
        CHECK_CONTAINS(error.text, "line 1: ");
    }
    free(text);
}

// --- cuts

// A journal cut after n bytes: what was whole is replayed, a part of a line is said to be cut off.
static void cut_at(const journal *j, size_t n)
{
    pf_replay result;
    pf_error error;
    size_t header = strcspn(j->text, "\n");
    pf_status status = replay(j->text, n, &result, &error);
    if (n < header) {
        CHECK(status == PF_ERR_FORMAT && error.text[0] && !result.explanation.data);
        return;
    }
    bool whole = n == j->n || j->text[n] == '\n' || n == 0 || j->text[n - 1] == '\n';
    int events = lines_before(j, n) - 1 + (n < j->n && j->text[n] == '\n');
    if (!CHECK(status == PF_OK && !result.differs && result.cut == !whole &&
               result.events == (events < 0 ? 0 : events))) {
        printf("    cut at %zu: status %d, %d events, expected %d\n", n, (int)status, result.events,
               events);
    }
}

// --- going on from a journal

// The record in a line of a journal.
static json_t *record_at(const char *line)
{
    return json_loadb(line, strcspn(line, "\n"), JSON_REJECT_DUPLICATES, NULL);
}

// Asks what the rest of the journal asks. True if every reply is the recorded one to the byte, so
// the session is where it was.
static bool goes_on(pf_protocol *dialogue, const journal *j, size_t from)
{
    bool same = true;
    pf_text reply = {0};
    for (size_t at = from; at < j->n && same; at += strcspn(j->text + at, "\n") + 1) {
        json_t *record = record_at(j->text + at);
        pf__protocol_request(dialogue, json_object_get(record, "request"),
                             json_object_get(record, "predictions"), &reply, NULL);
        const char *was = strstr(j->text + at, ",\"reply\":");
        same = was && strncmp(was + 9, reply.data, reply.size) == 0;
        json_decref(record);
    }
    pf__text_free(&reply);
    return same;
}

// Whether the last of n bytes of whole lines is a verdict on a session that is done.
static bool is_over(pf_protocol *dialogue, const char *text, size_t n)
{
    static const char verdict[] = "{\"request\":{\"op\":\"readiness\"}";
    size_t line = n - 1;
    while (line > 0 && text[line - 1] != '\n') {
        line--;
    }
    return pf_session_get_state(pf__protocol_session(dialogue)).stage == PF_STAGE_DONE &&
           strncmp(text + line, verdict, sizeof verdict - 1) == 0;
}

// A power cut after n bytes: the session goes on after the last whole record, or is refused in
// words where it was over or never began. on: also ask for the rest.
static bool resume_at(const journal *j, size_t n, bool on)
{
    size_t whole = n;
    while (whole > 0 && j->text[whole - 1] != '\n') {
        whole--;
    }
    pf_journal_head head;
    pf_error error = {PF_OK, ""};
    char *exact = malloc(n > 0 ? n : 1);
    memcpy(exact, j->text, n);
    pf_status status = pf__journal_head_read(exact, whole > 0 ? whole : n, &head, &error);
    bool good = whole > 0 ? status == PF_OK : status == PF_ERR_FORMAT && error.text[0];
    if (status == PF_OK) {
        pf_protocol *dialogue = NULL;
        pf_protocol_config config = {.method = head.method, .seed = head.seed};
        int expected = lines_before(j, whole) - 1;
        pf_resumed resumed = {-1, 0, false};
        good = pf__protocol_create(&dialogue, head.kit, head.n_kit, &config, &error) == PF_OK;
        status = good ? pf__replay_resume(dialogue, exact, n, &resumed, &error) : status;
        good = good && status == PF_OK && resumed.records == expected && resumed.whole == whole &&
               resumed.over == is_over(dialogue, exact, whole) &&
               (!on || resumed.over || goes_on(dialogue, j, whole));
        pf__protocol_destroy(dialogue);
        free(head.kit);
    }
    free(exact);
    if (!good) {
        printf("    power cut after %zu of %zu bytes: %s\n", n, j->n, error.text);
    }
    return good;
}

static void test_power_cuts(const journal *j, const char *name)
{
    size_t cuts = 0, step = pf_long() ? 1 : 4999;
    PF_CASE(name);
    for (size_t n = 0; n <= j->n; n += n + step > j->n && n < j->n ? j->n - n : step) {
        CHECK(resume_at(j, n, false));
        cuts++;
    }
    size_t ends = 0;
    for (size_t n = 1; n <= j->n; n++) {
        if (j->text[n - 1] == '\n') {
            CHECK(resume_at(j, n - 1, true) && resume_at(j, n, true));
            ends++;
        }
    }
    if (pf_long()) {
        printf("%s: %zu cuts, %zu records\n", name, cuts, ends);
    }
}

// The program goes on from what a power cut left, and what it wrote then is whole.
static void test_resume(const journal *j, const char *folder)
{
    char path[256], rest[256], command[1200];
    pf_error error;
    size_t n = j->n;
    PF_CASE("serve --resume: goes on from a journal that is cut, and the whole replays");
    for (int lines = 0; lines < 6; n--) {
        lines += j->text[n - 1] == '\n';
    }
    n += 1; // after a whole line, five lines before the end
    snprintf(path, sizeof path, "%s/resumed", folder);
    snprintf(rest, sizeof rest, "%s/rest", folder);
    CHECK(pf__file_write(path, j->text, n + 40, &error) == PF_OK);
    FILE *f = fopen(rest, "w");
    for (size_t at = n; f && at < j->n; at += strcspn(j->text + at, "\n") + 1) {
        json_t *record = record_at(j->text + at);
        json_dumpf(json_object_get(record, "request"), f, JSON_COMPACT | JSON_REAL_PRECISION(17));
        fputc('\n', f);
        json_decref(record);
    }
    CHECK(f && fclose(f) == 0);
    snprintf(command, sizeof command, "serve '%s/attitude.kit' --resume '%s' <'%s'", folder, path,
             rest);
    CHECK(program(command, 0, "goes on after "));
    journal now = read_journal(path);
    const char *was = strstr(j->text, "{\"request\":{\"op\":\"readiness\""),
               *is = strstr(now.text, "{\"request\":{\"op\":\"readiness\"");
    CHECK(is && strcmp(was, is) == 0); // the verdict, to the byte
    CHECK(lines_before(&now, now.n) == lines_before(j, j->n));
    replays(&now, lines_before(j, j->n) - 1, true);
    PF_CASE("serve --resume: a session that is over, another kit, a changed record, no journal");
    CHECK(program(command, 3, "resumed: the session is done and its verdict was given"));
    snprintf(command, sizeof command, "serve '%s/many.kit' --resume '%s'", folder, path);
    CHECK(program(command, 3, "resumed: the journal is of another kit than this one"));
    char *digit = strstr(now.text, "\"response\":[[") + 13;
    digit += strcspn(digit, "123456789");
    *digit = *digit == '5' ? '7' : '5';
    CHECK(pf__file_write(path, now.text, n, &error) == PF_OK);
    snprintf(command, sizeof command, "serve '%s/attitude.kit' --resume '%s'", folder, path);
    CHECK(program(command, 3, "resumed: the journal does not replay: line "));
    CHECK(pf__file_write(path, now.text, 100, &error) == PF_OK);
    CHECK(program(command, 3, "resumed: line 1: cut off inside the header"));
    CHECK(pf__file_write(path, "", 0, &error) == PF_OK);
    CHECK(program(command, 3, "resumed: the journal is empty"));
    snprintf(command, sizeof command, "serve '%s/attitude.kit' --resume '%s' --seed 3", folder,
             path);
    CHECK(program(command, 2, "leave --method and --seed out"));
    free(now.text);
}

// The first n bytes in a file, and what the program says of them.
static void test_end(const journal *j, size_t n, const char *path, bool done)
{
    char command[900];
    pf_error error;
    CHECK(pf__file_write(path, j->text, n, &error) == PF_OK);
    snprintf(command, sizeof command, "replay '%s' --json", path);
    CHECK(program(command, 0, done ? "\"cut\":false" : "\"cut\":true"));
    snprintf(command, sizeof command, "replay '%s' >'%s.said'; %s grep -q '%s' '%s.said'", path,
             path, done ? "!" : "", "the journal ends before the session was done", path);
    CHECK(program(command, 0, ""));
    snprintf(command, sizeof command, "explain '%s' >'%s.said'; %s grep -q '%s' '%s.said'", path,
             path, done ? "!" : "", "The journal ends before the session was done", path);
    CHECK(program(command, 0, ""));
}

// Journals that end where a line does: whole or not, that is what the session says.
static void test_ends(const journal *j, const char *folder)
{
    char path[256];
    snprintf(path, sizeof path, "%s/end", folder);
    PF_CASE("replay: a whole journal is done, also without its last newline");
    test_end(j, j->n, path, true);
    test_end(j, j->n - 1, path, true);
    PF_CASE("replay: a journal that ends at a line end before the session was done says so");
    // the last three lines are the tell that ended it, the ask that said so, and the readiness
    size_t n = j->n;
    for (int lines = 0; lines < 4; n--) {
        lines += j->text[n - 1] == '\n';
    }
    test_end(j, n + 1, path, false);
    test_end(j, n, path, false);
}

static void test_cuts(const journal *whole, const journal *small, const char *folder)
{
    PF_CASE("replay: a journal cut at every 97th byte");
    for (size_t n = 0; n <= whole->n; n += 97) {
        cut_at(whole, n);
    }
    PF_CASE("replay: a small journal cut at every byte of its tail");
    for (size_t n = small->n - 700; n <= small->n; n++) {
        cut_at(small, n);
    }
    size_t header = strcspn(small->text, "\n");
    for (size_t n = header - 5; n < header + 40; n++) {
        cut_at(small, n);
    }
    PF_CASE("replay: the program says that a journal is cut, exit status 0");
    char path[256], command[600];
    pf_error error;
    snprintf(path, sizeof path, "%s/cut", folder);
    CHECK(pf__file_write(path, whole->text, whole->n - 100, &error) == PF_OK);
    snprintf(command, sizeof command, "replay '%s'", path);
    CHECK(program(command, 0, "cut off"));
    snprintf(command, sizeof command, "replay '%s' --json", path);
    CHECK(program(command, 0, "\"cut\":true"));
    snprintf(command, sizeof command, "explain '%s'", path);
    CHECK(program(command, 0, "cut off"));
    CHECK(pf__file_write(path, whole->text, 1000, &error) == PF_OK);
    snprintf(command, sizeof command, "replay '%s'", path);
    CHECK(program(command, 3, "line 1"));
    PF_CASE(
        "replay: a last record whose bytes are not all on the disk, though its newline is, is cut");
    char *torn = malloc(whole->n + 1);
    memcpy(torn, whole->text, whole->n + 1);
    size_t last = whole->n - 1;
    while (torn[last - 1] != '\n') {
        last--;
    }
    memset(torn + last + 5, 0, 60);
    pf_replay part;
    CHECK(replay(torn, whole->n, &part, &error) == PF_OK && part.cut && !part.differs);
    CHECK(part.events == lines_before(whole, last) - 1);
    free(torn);
    PF_CASE("replay: garbage in the middle is bad input, not a cut");
    char *text = malloc(whole->n + 1);
    pf_replay result;
    memcpy(text, whole->text, whole->n + 1);
    strstr(text, "\"op\":\"tell\"")[0] = '!';
    CHECK(replay(text, whole->n, &result, &error) == PF_ERR_FORMAT);
    CHECK_CONTAINS(error.text, "line 4: ");
    free(text);
}

// --- what serve writes

static void add_line(pf_text *requests, const char *line, int *accepted)
{
    pf__text_add(requests, line);
    pf__text_add(requests, "\n");
    (*accepted)++;
}

// Requests of every kind for a session of the small kit; refused ones between them.
static int make_requests(pf_text *out, int weak)
{
    size_t n = 0;
    const void *bytes = attitude_small_kit_bytes(&n);
    attitude_machine machine;
    pf_protocol *dialogue = NULL;
    pf_error error;
    pf_text line = {0}, reply = {0};
    int accepted = 0, probes = 0;
    attitude_machine_open(&machine, weak, .35);
    pf_predictor predictor;
    CHECK(pf_predictor_create(&predictor, attitude_small_kit(), machine.plant, NULL, &error) ==
          PF_OK);
    pf_protocol_config config = {.predictor = &predictor};
    CHECK(pf__protocol_create(&dialogue, bytes, n, &config, &error) == PF_OK);
    pf_session *session = pf__protocol_session(dialogue);
    add_line(out, "{\"op\":\"hello\"}", &accepted);
    static const char *const last[] = {
        "{\"op\":\"readiness\"}", "{\"op\":\"reset\"}",  "{\"op\":\"ask\"}", "{\"op\":\"skip\"}",
        "{\"op\":\"ask\"}",       "{\"op\":\"stage2\"}", "{\"op\":\"ask\"}"};
    for (;;) {
        pf__protocol_line(dialogue, "{\"op\":\"ask\"}", 12, &reply, NULL);
        add_line(out, "{\"op\":\"ask\"}", &accepted);
        pf_ask ask;
        if (!pf_session_outstanding(session, &ask)) {
            break;
        }
        attitude_machine_probe(&machine, attitude_small_kit(), ask.probe);
        attitude_machine_tell(&machine, attitude_small_kit(), ask.probe, ask.stage,
                              probes++ % 2 == 0, &line);
        pf__protocol_line(dialogue, line.data, line.size, &reply, NULL);
        add_line(out, line.data, &accepted);
        pf__text_add(out, "{\"op\":\"refused\"}\n\nnot JSON\n");
        if (pf_session_get_state(session).stage == 1 && pf_session_get_state(session).alarm) {
            pf__protocol_line(dialogue, "{\"op\":\"stage2\"}", 15, &reply, NULL);
            add_line(out, "{\"op\":\"stage2\"}", &accepted);
        }
    }
    for (size_t i = 0; i < sizeof last / sizeof last[0]; i++) {
        add_line(out, last[i], &accepted);
    }
    pf__protocol_destroy(dialogue);
    pf_predictor_destroy(&predictor);
    attitude_machine_close(&machine);
    pf__text_free(&line);
    pf__text_free(&reply);
    return accepted;
}

static journal test_serve_journal(const char *folder)
{
    size_t n = 0;
    const void *bytes = attitude_small_kit_bytes(&n);
    char kit[256], requests[256], path[256], command[900];
    pf_text lines = {0};
    pf_error error;
    PF_CASE("serve: its journal replays; state, predictions, skip, stage2, reset in it");
    snprintf(kit, sizeof kit, "%s/small.kit", folder);
    snprintf(requests, sizeof requests, "%s/requests", folder);
    snprintf(path, sizeof path, "%s/served", folder);
    int accepted = make_requests(&lines, 2);
    CHECK_CONTAINS(lines.data, "\"state\":[");
    CHECK_CONTAINS(lines.data, "\"grid\":[[[");
    CHECK(pf__file_write(kit, bytes, n, &error) == PF_OK);
    CHECK(pf__file_write(requests, lines.data, lines.size, &error) == PF_OK);
    snprintf(command, sizeof command, "serve '%s' --journal '%s' <'%s'", kit, path, requests);
    CHECK(program(command, 0, "\"ok\":true"));
    journal j = read_journal(path);
    replays(&j, accepted, true);
    snprintf(command, sizeof command, "replay '%s'", path);
    CHECK(program(command, 0, "equal to the last bit"));
    PF_CASE("explain: a served journal in words");
    snprintf(command, sizeof command, "explain '%s'", path);
    CHECK(program(command, 0, "was skipped"));
    CHECK(program(command, 0, "Stage 1 was ended by request"));
    CHECK(program(command, 0, "A fresh session"));
    CHECK(program(command, 0, "thruster2"));
    pf__text_free(&lines);
    return j;
}

// --- check, explain

static void test_explain(const char *folder, const char *fault, const char *verdict)
{
    char command[900];
    snprintf(command, sizeof command, "explain '%s/run'", folder);
    CHECK(program(command, 0, fault));
    CHECK(program(command, 0, "ALARM"));
    CHECK(program(command, 0, verdict));
    for (int t = 1; t < ATTITUDE_MECH; t++) {
        char task[32];
        snprintf(task, sizeof task, "\nthruster%d  %s ", t, t == 5 ? verdict : "GO");
        snprintf(command, sizeof command, "explain '%s/run'", folder);
        CHECK(program(command, 0, task));
        snprintf(command, sizeof command, "explain '%s/certificate'", folder);
        CHECK(program(command, 0, task));
    }
    CHECK(program(command, 0, "The alarm sounded"));
    snprintf(command, sizeof command, "explain '%s/garbage'", folder);
    CHECK(program(command, 3, "garbage"));
    snprintf(command, sizeof command, "explain '%s/attitude.kit'", folder);
    CHECK(program(command, 3, "attitude.kit"));
}

static journal test_check(const char *folder)
{
    char command[900], path[256];
    PF_CASE("check: a weak machine, corrected; its journal replays");
    snprintf(command, sizeof command,
             "check '%s/attitude.kit' --fault thruster5:0.35 --seed 7 --journal '%s/run' "
             "--certificate '%s/certificate'",
             folder, folder, folder);
    CHECK(program(command, 0, "all ready"));
    snprintf(path, sizeof path, "%s/run", folder);
    journal j = read_journal(path);
    replays(&j, lines_before(&j, j.n) - 1, true);
    snprintf(command, sizeof command, "replay '%s'", path);
    CHECK(program(command, 0, "every reply equal to the last bit"));
    PF_CASE("explain: the weak mechanism and every task in words");
    test_explain(folder, "thruster5: score", "GO");
    snprintf(command, sizeof command, "explain '%s/certificate'", folder);
    CHECK(program(command, 0, " Send thruster5 "));
    PF_CASE("check: two weak mechanisms with a kit for several; replay and explain");
    snprintf(command, sizeof command,
             "check '%s/many.kit' --fault 3:0.35 --fault 5:0.5 --seed 7 --journal '%s/many'",
             folder, folder);
    CHECK(program(command, 0, "  named: thruster3\n"));
    CHECK(program(command, 0, "  named: thruster5\n"));
    snprintf(command, sizeof command, "replay '%s/many'", folder);
    CHECK(program(command, 0, "every reply equal to the last bit"));
    snprintf(command, sizeof command, "explain '%s/many'", folder);
    CHECK(program(command, 0, "any of them has changed, each on its own"));
    PF_CASE("check: a machine too weak for a task is no-go, exit status 1");
    snprintf(command, sizeof command,
             "check '%s/attitude.kit' --fault 5:0.15 --journal '%s/run' --certificate "
             "'%s/certificate' --json",
             folder, folder, folder);
    CHECK(program(command, 1, "\"decision\":\"no-go\",\"why\":\"bound\""));
    test_explain(folder, "thruster5 would need", "NO-GO");
    return j;
}

static void test_base64(void)
{
    static const char *const pairs[][2] = {{"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foob", "Zm9vYg=="},
                                           {"fooba", "Zm9vYmE="},
                                           {"foobar", "Zm9vYmFy"}};
    static const char *const garbage[] = {"Z",    "Zg",   "Zg=",      "Zg===",      "=Zg=",
                                          "Z===", "====", "Zg==Zg==", "Zm9v\n",     "Zm 9",
                                          "Zm9-", "Zm9_", "Zm=v",     "\xc3\xa9xx", "Zm8=Zm8="};
    char room[64];
    pf_text text = {0};
    PF_CASE("base64: published vectors");
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        pf__text_clear(&text);
        pf__text_add(&text, "");
        pf__base64_encode(&text, pairs[i][0], strlen(pairs[i][0]));
        CHECK_STR(text.data, pairs[i][1]);
        size_t n = pf__base64_decode(pairs[i][1], strlen(pairs[i][1]), room, sizeof room);
        CHECK(n == strlen(pairs[i][0]) && memcmp(room, pairs[i][0], n) == 0);
        // room for exactly n, and one byte too few
        CHECK(pf__base64_decode(pairs[i][1], strlen(pairs[i][1]), room, n) == n);
        CHECK(n == 0 ||
              pf__base64_decode(pairs[i][1], strlen(pairs[i][1]), room, n - 1) == SIZE_MAX);
    }
    PF_CASE("base64: any bytes of any length round trip");
    pf_rng rng;
    pf_rng_init(&rng, pf_key_root(2));
    for (size_t n = 0; n < 300; n++) {
        uint8_t in[300], out[300];
        for (size_t i = 0; i < n; i++) {
            in[i] = (uint8_t)pf__rng_bits(&rng);
        }
        pf__text_clear(&text);
        pf__base64_encode(&text, in, n);
        CHECK(text.size == (n + 2) / 3 * 4);
        CHECK(pf__base64_decode(text.data, text.size, out, n) == n && memcmp(in, out, n) == 0);
    }
    PF_CASE("base64: garbage is refused");
    for (size_t i = 0; i < sizeof garbage / sizeof garbage[0]; i++) {
        CHECK(pf__base64_decode(garbage[i], strlen(garbage[i]), room, sizeof room) == SIZE_MAX);
    }
    CHECK(pf__base64_decode("Zm\0v", 4, room, sizeof room) == SIZE_MAX);
    pf__text_free(&text);
}

static void test_empty(void)
{
    static const char *const bad[] = {
        "",
        "\n",
        "{}\n",
        "[]\n",
        "garbage",
        "{\"journal\":1}\n",
        "{\"journal\":1,\"method\":\"eg-mpt\",\"seed\":0,\"kit\":\"\"}\n",
        "{\"journal\":1,\"method\":\"eg-mpt\",\"seed\":1e3,\"kit\":\"\"}\n"};
    pf_replay result;
    pf_error error;
    PF_CASE("replay: nothing, garbage and headers without a kit are bad input");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK(replay(bad[i], strlen(bad[i]), &result, &error) == PF_ERR_FORMAT);
        CHECK(error.text[0] && !strchr(error.text, '\n'));
    }
}

void test_journal(void)
{
    size_t n = 0;
    const void *bytes = attitude_kit_bytes(&n);
    char folder[200], path[256];
    pf_error error;
    test_base64();
    test_empty();
    PF_CASE("journal: a folder with a kit");
    CHECK(program_folder(folder, sizeof folder, "journal"));
    snprintf(path, sizeof path, "%s/attitude.kit", folder);
    CHECK(pf__file_write(path, bytes, n, &error) == PF_OK);
    bytes = attitude_many_kit_bytes(&n);
    snprintf(path, sizeof path, "%s/many.kit", folder);
    CHECK(pf__file_write(path, bytes, n, &error) == PF_OK);
    snprintf(path, sizeof path, "%s/garbage", folder);
    CHECK(pf__file_write(path, "{\"tasks\":[", 10, &error) == PF_OK);
    journal checked = test_check(folder), served = test_serve_journal(folder);
    test_differences(&checked, folder);
    test_header(&checked);
    test_cuts(&checked, &served, folder);
    test_ends(&checked, folder);
    test_power_cuts(&checked, "power cuts: a journal of check");
    test_power_cuts(&served, "power cuts: a journal of serve");
    test_resume(&checked, folder);
    check_exit_status(folder);
    free(checked.text);
    free(served.text);
}
