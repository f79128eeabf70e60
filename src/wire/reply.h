// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_REPLY_H
#define PF_REPLY_H

// What `hello` says. 2: rehearsals.
#define PF_PROTOCOL_VERSION 2

#include "host/text.h"
#include "preflight/session.h"

// What programs read: replies of a session and a kit, as JSON. One writer for serve, check, the
// journal and the certificate. Each adds the members of an object, without the braces.

void pf__reply_hello(pf_text *out, const pf_kit *kit);
void pf__reply_ask(pf_text *out, pf_session *session, const pf_ask *ask);
// After a tell of the given stage.
void pf__reply_tell(pf_text *out, pf_session *session, int stage);
// Of a session that is certified.
void pf__reply_readiness(pf_text *out, const pf_session *session);

// Why a task is not go, as the rest of a sentence; "" for one that is.
const char *pf__why_reason(pf_why why);

// {"ok":false,"error":{...}}
void pf__reply_refusal(pf_text *out, const char *code, const char *message);

// The whole kit as one object (`kit show --json`).
void pf__reply_kit(pf_text *out, const pf_kit *kit);

#endif
