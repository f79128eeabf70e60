// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_SERVE_TALK_H
#define PF_SERVE_TALK_H

#include "attitude_kit.h"
#include "core/kit_layout.h"
#include "wire/protocol.h"
#include "preflight/run.h"

#include <jansson.h>

// A dialogue and the machine it is about.
typedef struct talk {
    const pf_kit *kit;
    pf_protocol *dialogue;
    pf_session *session;
    attitude_machine machine;
    pf_kit twin_kit;
    pf_predictor twin;
    pf_text request, reply;
} talk;

// weak: the thruster at gain .35, 0: none. twin: whether the dialogue can predict from a state.
void open_talk(talk *t, const void *kit, size_t n, int weak, bool twin);
void close_talk(talk *t);

// The reply to one line, valid until the next.
const char *say(talk *t, const char *line);

// The reply as JSON, which it must be; free with json_decref.
json_t *parsed(const char *text);

// One ask, one run of the probe, one tell with the state or with own predictions (t->request);
// false when the session is done.
bool step(talk *t, bool state);

// Every refusal, in every state of a session.
void check_refusals(void);

// Rehearsals: protocol 2.
void check_serve_rehearsals(void);

#endif
