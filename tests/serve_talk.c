// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "serve_talk.h"
#include "core/kit_layout.h"

#include "test.h"

#include <stdlib.h>
#include <string.h>

void open_talk(talk *t, const void *bytes, size_t n, int weak, bool twin)
{
    pf_error error = {PF_OK, ""};
    memset(t, 0, sizeof *t);
    attitude_machine_open(&t->machine, weak, .35);
    CHECK(pf__kit_read(&t->twin_kit, bytes, n, &error) == PF_OK);
    CHECK(pf_predictor_create(&t->twin, &t->twin_kit, t->machine.plant, NULL, &error) == PF_OK);
    pf_protocol_config config = {.predictor = twin ? &t->twin : NULL,
                                 .no_predictor = "the twin is at the cleaner's"};
    CHECK(pf__protocol_create(&t->dialogue, bytes, n, &config, &error) == PF_OK);
    CHECK_STR(error.text, "");
    t->session = pf__protocol_session(t->dialogue);
    t->kit = pf_session_kit(t->session);
}

void close_talk(talk *t)
{
    pf__protocol_destroy(t->dialogue);
    pf_predictor_destroy(&t->twin);
    attitude_machine_close(&t->machine);
    pf__text_free(&t->request);
    pf__text_free(&t->reply);
}

const char *say(talk *t, const char *line)
{
    // a copy of exactly the line's size, so that a read beyond its end is seen
    size_t n = strlen(line);
    char *exact = malloc(n > 0 ? n : 1);
    memcpy(exact, line, n);
    pf__protocol_line(t->dialogue, exact, n, &t->reply, NULL);
    free(exact);
    return t->reply.data;
}

json_t *parsed(const char *text)
{
    json_error_t problem;
    json_t *json = json_loads(text ? text : "", JSON_REJECT_DUPLICATES, &problem);
    CHECK(json != NULL);
    return json;
}

bool step(talk *t, bool state)
{
    pf_ask ask;
    say(t, "{\"op\":\"ask\"}");
    if (!pf_session_outstanding(t->session, &ask)) {
        return false;
    }
    // with several faults stage 2 predicts with the gains that the ask tells
    double others[ATTITUDE_MECH];
    json_t *asked = parsed(t->reply.data), *gains = json_object_get(asked, "gains");
    CHECK((gains != NULL) == (ask.stage == 2 && t->kit->faults == PF_FAULTS_MANY));
    for (size_t j = 0; gains && j < ATTITUDE_MECH; j++) {
        others[j] = json_number_value(json_array_get(gains, j));
    }
    t->machine.others = gains ? others : NULL;
    json_decref(asked);
    attitude_machine_probe(&t->machine, t->kit, ask.probe);
    attitude_machine_tell(&t->machine, t->kit, ask.probe, ask.stage, state, &t->request);
    t->machine.others = NULL;
    CHECK_CONTAINS(say(t, t->request.data), "{\"ok\":true,");
    return true;
}
