// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_EXPLAIN_H
#define PF_EXPLAIN_H

#include "host/text.h"
#include "preflight/session.h"

// A session in words and numbers, event by event.

void pf__explain_start(pf_text *out, const pf_session *session);

// After a tell. number counts responses from 1; before is P(H = i) for i = 0..m before it.
void pf__explain_tell(pf_text *out, pf_session *session, const pf_ask *ask, int number,
                      const double *before, bool alarm_before);

void pf__explain_done(pf_text *out, pf_session *session);

// Why each task is go or no-go.
void pf__explain_readiness(pf_text *out, pf_session *session);

// The readiness of a certificate in words.
pf_status pf__explain_certificate(const char *text, size_t n, pf_text *out, pf_error *error);

#endif
