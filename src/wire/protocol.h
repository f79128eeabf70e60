// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_PROTOCOL_H
#define PF_PROTOCOL_H

#include "host/text.h"
#include "preflight/session.h"

// One session behind ask/tell in JSON lines: what `serve` speaks and what a journal records.
typedef struct pf_protocol pf_protocol;

typedef struct pf_protocol_config {
    const char *method; // NULL: the kit's first
    uint64_t seed;
    const pf_predictor *predictor; // from a start state. Nullable; copied, its self is not owned.
    const char *no_predictor;      // why there is none. Nullable.
} pf_protocol_config;

// No kit has longer lines than this.
#define PF_LINE_MAX ((size_t)16 << 20)

// False where the program was built without jansson; then create returns PF_ERR_UNSUPPORTED.
bool pf__protocol_supported(void);

// The kit image must outlive the dialogue.
pf_status pf__protocol_create(pf_protocol **dialogue, const void *kit, size_t n_kit,
                              const pf_protocol_config *config, pf_error *error);
void pf__protocol_destroy(pf_protocol *dialogue); // Nullable.

// Answers one request line with one reply (no newline). A refused request leaves the session as it
// was. An accepted one is added to journal (Nullable), one line with newline.
void pf__protocol_line(pf_protocol *dialogue, const char *line, size_t n, pf_text *reply,
                       pf_text *journal);

// The longest line that a request for this kit may be, and the reply to one that was longer.
size_t pf__protocol_line_max(const pf_protocol *dialogue);
void pf__protocol_too_long(const pf_protocol *dialogue, pf_text *reply);

pf_session *pf__protocol_session(pf_protocol *dialogue);

// Handles a request that is parsed. predictions (Nullable) replaces the predictor: the journal's
// record. Writes the reply either way; tells whether it was accepted.
struct json_t;
bool pf__protocol_request(pf_protocol *dialogue, struct json_t *request, struct json_t *predictions,
                          pf_text *reply, pf_text *journal);

#endif
