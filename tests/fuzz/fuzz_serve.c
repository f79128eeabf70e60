// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0

// The serve line: the input is a conversation, one request per line, on a fresh session of the
// small attitude kit.
#include "../attitude_kit.h"
#include "core/kit_layout.h"
#include "wire/protocol.h"
#include "preflight/run.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_MAX = 1 << 16, LINES_MAX = 64 };

static void demand(bool good)
{
    if (!good) {
        abort();
    }
}

static json_t *parse(const pf_text *reply)
{
    json_t *json = json_loadb(reply->data, reply->size, JSON_REJECT_DUPLICATES, NULL);
    demand(json_is_object(json) && json_is_boolean(json_object_get(json, "ok")));
    return json;
}

// The readiness as text; a go must be certified, by its bound and by a look at every mechanism.
static void readiness(pf_protocol *dialogue, pf_text *out)
{
    static const char request[] = "{\"op\":\"readiness\"}";
    pf_session *session = pf__protocol_session(dialogue);
    const pf_kit *k = pf_session_kit(session);
    pf__protocol_line(dialogue, request, sizeof request - 1, out, NULL);
    json_t *json = parse(out), *task;
    size_t t;
    demand(json_is_true(json_object_get(json, "ok")));
    json_array_foreach(json_object_get(json, "tasks"), t, task)
    {
        const char *why = json_string_value(json_object_get(task, "why"));
        bool go = strcmp(json_string_value(json_object_get(task, "decision")), "go") == 0;
        demand(go == (strcmp(why, "certified") == 0));
        demand(!go || json_number_value(json_object_get(task, "lower")) >= k->j_min);
        for (int u = k->task_use[t]; go && u < k->task_use[t + 1]; u++) {
            demand(pf_session_probed(session, k->use_mech[u]));
        }
    }
    json_decref(json);
}

// ready holds the readiness before the line, then after it.
static void one_line(pf_protocol *dialogue, const char *line, size_t n, pf_text *ready)
{
    pf_text after = {0}, reply = {0}, journal = {0};
    double belief[ATTITUDE_MECH];
    pf_session *session = pf__protocol_session(dialogue);
    memcpy(belief, pf_session_belief(session), sizeof belief);
    int stage = pf_session_get_state(session).stage, told = pf_session_get_state(session).told;
    bool outstanding = pf_session_outstanding(session, NULL);
    char *exact = malloc(n > 0 ? n : 1);
    memcpy(exact, line, n);
    pf__protocol_line(dialogue, exact, n, &reply, &journal);
    free(exact);
    json_t *json = parse(&reply);
    readiness(dialogue, &after);
    bool accepted = json_is_true(json_object_get(json, "ok"));
    demand(accepted == (journal.size > 0));
    if (!accepted) {
        demand(strcmp(ready->data, after.data) == 0);
        demand(memcmp(belief, pf_session_belief(session), sizeof belief) == 0);
        demand(stage == pf_session_get_state(session).stage &&
               told == pf_session_get_state(session).told);
        demand(outstanding == pf_session_outstanding(session, NULL));
        demand(json_is_string(json_object_get(json_object_get(json, "error"), "message")));
    } else {
        json_t *entry = json_loadb(journal.data, journal.size, JSON_REJECT_DUPLICATES, NULL);
        demand(entry != NULL);
        json_decref(entry);
    }
    json_decref(json);
    pf__text_free(ready);
    *ready = after;
    pf__text_free(&reply);
    pf__text_free(&journal);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t n_kit = 0;
    const void *kit = attitude_small_kit_bytes(&n_kit);
    pf_plant *twin = NULL;
    pf_protocol *dialogue = NULL;
    pf_error error;
    if (size > INPUT_MAX) {
        return 0;
    }
    demand(pf_plant_create(&twin, "attitude", &error) == PF_OK);
    pf_predictor predictor;
    demand(pf_predictor_create(&predictor, attitude_small_kit(), twin, NULL, &error) == PF_OK);
    pf_protocol_config config = {.predictor = &predictor};
    demand(pf__protocol_create(&dialogue, kit, n_kit, &config, &error) == PF_OK);
    pf_text ready = {0};
    readiness(dialogue, &ready);
    size_t at = 0;
    for (int i = 0; i < LINES_MAX && at < size; i++) {
        const uint8_t *end = memchr(data + at, '\n', size - at);
        size_t n = end ? (size_t)(end - data) - at : size - at;
        one_line(dialogue, (const char *)data + at, n, &ready);
        at += n + 1;
    }
    pf__text_free(&ready);
    pf__protocol_destroy(dialogue);
    pf_predictor_destroy(&predictor);
    pf_plant_destroy(twin);
    return 0;
}
