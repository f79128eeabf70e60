// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "journal.h"
#include "protocol.h"
#include "said.h"
#include "words.h"

#include "host/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- comparison to the last bit

typedef struct difference {
    bool found;
    char path[128];
    char text[160];
} difference;

static void describe(json_t *value, char *out, size_t n)
{
    char *text =
        value ? pf__json_dump(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(17))
              : NULL;
    snprintf(out, n, "%.60s", text ? text : "nothing");
    free(text);
}

static bool same_bits(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

static void compare(json_t *was, json_t *is, const char *path, difference *d)
{
    char at[128];
    if (d->found) {
        return;
    }
    if (json_is_object(was) && json_is_object(is) &&
        json_object_size(was) == json_object_size(is)) {
        const char *key;
        json_t *value;
        json_object_foreach(was, key, value)
        {
            snprintf(at, sizeof at, "%s.%.40s", path, key);
            compare(value, json_object_get(is, key), at, d);
        }
        return;
    }
    if (json_is_array(was) && json_is_array(is) && json_array_size(was) == json_array_size(is)) {
        for (size_t i = 0; i < json_array_size(was); i++) {
            snprintf(at, sizeof at, "%s[%zu]", path, i);
            compare(json_array_get(was, i), json_array_get(is, i), at, d);
        }
        return;
    }
    bool numbers = json_is_number(was) && json_is_number(is);
    if (numbers ? same_bits(json_number_value(was), json_number_value(is))
                : was && is && json_equal(was, is)) {
        return;
    }
    char left[64], right[64];
    describe(was, left, sizeof left);
    describe(is, right, sizeof right);
    d->found = true;
    snprintf(d->path, sizeof d->path, "%s", path);
    snprintf(d->text, sizeof d->text, "recorded %s, recomputed %s", left, right);
}

// --- the walk through a journal

typedef struct walk {
    pf_journal_head head;
    pf_protocol *dialogue;
    pf_text reply;
    double *before; // location belief before a tell
    int told;
    bool told_done;
    bool judged;  // the last record is a verdict
    size_t whole; // bytes up to the end of the last line that can be read
    pf_replay *result;
    bool explain;
} walk;

static pf_status make_before(walk *w, pf_error *error)
{
    pf_session *session = pf__protocol_session(w->dialogue);
    w->before = calloc((size_t)pf_kit_get_info(pf_session_kit(session)).n_mech, sizeof(double));
    if (!w->before) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a journal");
    }
    if (w->explain) {
        pf__text_add(&w->result->explanation, "## What was done\n");
        pf__words_start(&w->result->explanation, session);
        pf__text_add(&w->result->explanation, "\n");
    }
    return PF_OK;
}

// What the first line says. On failure nothing is left to free.
static pf_status read_head(json_t *header, pf_journal_head *head, pf_error *error)
{
    json_t *version = json_object_get(header, "journal"), *kit = json_object_get(header, "kit");
    json_t *method = json_object_get(header, "method"), *seed = json_object_get(header, "seed");
    *head = (pf_journal_head){.kit = NULL};
    if (!json_is_integer(version) || !json_is_string(kit) || !json_is_string(method) ||
        !json_is_integer(seed)) {
        return pf_fail(error, PF_ERR_FORMAT, "line 1: not the header of a preflight journal");
    }
    if (json_integer_value(version) != 1) {
        return pf_fail(error, PF_ERR_VERSION, "line 1: journal of version %d, this program reads 1",
                       (int)json_integer_value(version));
    }
    size_t n_text = json_string_length(kit), room = n_text / 4 * 3 + 3;
    snprintf(head->method, sizeof head->method, "%s", json_string_value(method));
    head->seed = (uint64_t)json_integer_value(seed);
    head->kit = malloc(room);
    if (!head->kit) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a journal");
    }
    head->n_kit = pf__base64_decode(json_string_value(kit), n_text, head->kit, room);
    if (head->n_kit == SIZE_MAX) {
        free(head->kit);
        head->kit = NULL;
        return pf_fail(error, PF_ERR_FORMAT, "line 1: kit: is not base64");
    }
    return PF_OK;
}

static pf_status read_header(walk *w, json_t *header, pf_error *error)
{
    pf_status status = read_head(header, &w->head, error);
    if (status != PF_OK) {
        return status;
    }
    pf_protocol_config config = {.method = w->head.method, .seed = w->head.seed};
    status = pf__protocol_create(&w->dialogue, w->head.kit, w->head.n_kit, &config, error);
    if (status != PF_OK) {
        char text[240];
        snprintf(text, sizeof text, "%.200s", error->text);
        return pf_fail(error, status, "line 1: %s", text);
    }
    status = make_before(w, error);
    if (status == PF_OK && w->explain) {
        pf__words_injected(&w->result->explanation, pf__said_text(header, "injected"));
    }
    return status;
}

static void explain_event(walk *w, const char *op, const pf_ask *ask, bool alarm_before)
{
    pf_session *session = pf__protocol_session(w->dialogue);
    pf_text *out = &w->result->explanation;
    if (strcmp(op, "tell") == 0) {
        pf__explain_tell(out, session, ask, ++w->told, w->before, alarm_before);
    } else if (strcmp(op, "skip") == 0) {
        pf__explain_skip(out, session, ask);
    } else if (strcmp(op, "stage2") == 0) {
        pf__text_add(out, "   Stage 1 was ended by request.\n");
    } else if (strcmp(op, "reset") == 0) {
        pf__text_add(out, "\nA fresh session.\n");
        w->told = 0;
        w->told_done = false;
    }
    if (pf_session_get_state(session).stage == PF_STAGE_DONE && !w->told_done) {
        pf__text_add(out, "\n");
        pf__words_done(out, session);
        w->told_done = true;
    }
}

static pf_status run_entry(walk *w, json_t *entry, int line, pf_error *error)
{
    json_t *request = json_object_get(entry, "request"), *reply = json_object_get(entry, "reply");
    if (!json_is_object(request) || !json_is_object(reply)) {
        return pf_fail(error, PF_ERR_FORMAT, "line %d: has no request and reply", line);
    }
    pf_session *session = pf__protocol_session(w->dialogue);
    pf_ask ask = {0};
    pf_session_outstanding(session, &ask);
    bool alarm_before = pf_session_get_state(session).alarm;
    memcpy(w->before, pf_session_belief(session),
           sizeof(double) * (size_t)pf_kit_get_info(pf_session_kit(session)).n_mech);
    pf__protocol_request(w->dialogue, request, json_object_get(entry, "predictions"), &w->reply,
                         NULL);
    json_error_t problem;
    json_t *again = pf__json_load(w->reply.data ? w->reply.data : "", w->reply.size, 0, &problem);
    if (!again || w->reply.failed) {
        bool memory = w->reply.failed || json_error_code(&problem) == json_error_out_of_memory;
        json_decref(again);
        return memory ? pf_fail(error, PF_ERR_MEMORY, "line %d: out of memory", line)
                      : pf_fail(error, PF_ERR_INTERNAL, "line %d: the reply is not JSON", line);
    }
    difference d = {0};
    compare(reply, again, "reply", &d);
    json_decref(again);
    w->result->events++;
    if (d.found && !w->result->differs) {
        w->result->differs = true;
        snprintf(w->result->where, sizeof w->result->where, "line %d: %s: %s", line, d.path,
                 d.text);
    }
    const char *op = json_string_value(json_object_get(request, "op"));
    w->judged = op && strcmp(op, "readiness") == 0;
    if (w->explain && op) {
        explain_event(w, op, &ask, alarm_before);
    }
    return PF_OK;
}

static pf_status run_line(walk *w, const char *text, size_t n, int line, bool last, pf_error *error)
{
    json_error_t problem;
    json_t *entry = pf__json_load(text, n, JSON_REJECT_DUPLICATES, &problem);
    if (!entry && json_error_code(&problem) == json_error_out_of_memory) {
        return pf_fail(error, PF_ERR_MEMORY, "line %d: out of memory", line);
    }
    if (!entry && last && line > 1) {
        w->result->cut = true; // what came before stands
        return PF_OK;
    }
    if (!entry) {
        char what[120];
        snprintf(what, sizeof what, "%.100s", problem.text);
        return pf_fail(error, PF_ERR_FORMAT, "line %d: %s%s", line,
                       last ? "cut off inside the header, nothing to replay: " : "", what);
    }
    pf_status status = line == 1 ? read_header(w, entry, error) : run_entry(w, entry, line, error);
    json_decref(entry);
    return status;
}

// Runs all lines of a journal; the dialogue is there already where it is to go on.
static pf_status run_lines(walk *w, const char *text, size_t n, pf_error *error)
{
    pf_status status = n == 0 ? pf_fail(error, PF_ERR_FORMAT, "the journal is empty") : PF_OK;
    int line = 0;
    for (size_t at = 0; at < n && status == PF_OK;) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t size = end ? (size_t)(end - text) - at : n - at;
        bool last = at + size + 1 >= n; // its newline may be on the disk before the rest of it is
        if (++line > 1 || !w->dialogue) {
            status = run_line(w, text + at, size, line, last, error);
        }
        at += size + 1;
        w->whole = end && !w->result->cut ? at : w->whole;
    }
    if (status == PF_OK && w->dialogue) {
        w->result->open =
            pf_session_get_state(pf__protocol_session(w->dialogue)).stage != PF_STAGE_DONE;
    }
    return status;
}

pf_status pf__replay_journal(const char *text, size_t n, bool explain, pf_replay *result,
                             pf_error *error)
{
    memset(result, 0, sizeof *result);
    walk w = {.result = result, .explain = explain};
    pf_status status = run_lines(&w, text, n, error);
    // words about a journal that does not replay would be words about something else
    if (result->differs) {
        pf__text_clear(&result->explanation);
    } else if (status == PF_OK && explain && w.dialogue) {
        pf__explain_readiness(&result->explanation, pf__protocol_session(w.dialogue));
    }
    if (status == PF_OK && result->explanation.failed) {
        status = pf_fail(error, PF_ERR_MEMORY, "out of memory for an explanation");
    }
    pf__protocol_destroy(w.dialogue);
    free(w.head.kit);
    free(w.before);
    pf__text_free(&w.reply);
    if (status != PF_OK) {
        pf__text_free(&result->explanation);
    }
    return status;
}

pf_status pf__journal_head_read(const char *text, size_t n, pf_journal_head *head, pf_error *error)
{
    const char *end = memchr(text, '\n', n);
    json_error_t problem = {.line = -1};
    *head = (pf_journal_head){.kit = NULL};
    json_t *header =
        end ? pf__json_load(text, (size_t)(end - text), JSON_REJECT_DUPLICATES, &problem) : NULL;
    if (!header) {
        return end && json_error_code(&problem) == json_error_out_of_memory
                   ? pf_fail(error, PF_ERR_MEMORY, "out of memory for a journal")
                   : pf_fail(error, PF_ERR_FORMAT,
                             n == 0 ? "the journal is empty"
                             : end  ? "line 1: not the header of a preflight journal"
                                    : "line 1: cut off inside the header, nothing to go on from");
    }
    pf_status status = read_head(header, head, error);
    json_decref(header);
    return status;
}

pf_status pf__replay_resume(pf_protocol *dialogue, const char *text, size_t n, pf_resumed *resumed,
                            pf_error *error)
{
    pf_replay result = {0};
    walk w = {.result = &result, .dialogue = dialogue};
    while (n > 0 && text[n - 1] != '\n') {
        n--; // what follows the last line was never answered
    }
    pf_status status = make_before(&w, error);
    status = status ? status : run_lines(&w, text, n, error);
    free(w.before);
    pf__text_free(&w.reply);
    *resumed = (pf_resumed){result.events, w.whole, !result.open && w.judged};
    return status == PF_OK && result.differs
               ? pf_fail(error, PF_ERR_FORMAT, "the journal does not replay: %s", result.where)
               : status;
}
