// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_DIALOGUE_H
#define PF_DIALOGUE_H

#include "host/text.h"
#include "preflight/session.h"

// One session behind ask/tell in JSON lines: what `serve` speaks and what a journal records.
typedef struct pf_dialogue pf_dialogue;

typedef struct pf_dialogue_config {
    const char *method; // NULL: the kit's first
    uint64_t seed;
    const pf_predictor *predictor; // from a start state. Nullable; copied, its self is not owned.
    const char *no_predictor;      // why there is none. Nullable.
} pf_dialogue_config;

// A line longer than this is refused.
#define PF_LINE_MAX ((size_t)16 << 20)

// False where the program was built without jansson; then create returns PF_ERR_UNSUPPORTED.
bool pf_dialogue_supported(void);

// The kit image must outlive the dialogue.
pf_status pf_dialogue_create(pf_dialogue **dialogue, const void *kit, size_t n_kit,
                             const pf_dialogue_config *config, pf_error *error);
void pf_dialogue_destroy(pf_dialogue *dialogue); // Nullable.

// Answers one request line with one reply (no newline). A refused request leaves the session as it
// was. An accepted one is added to journal (Nullable), one line with newline.
void pf_dialogue_line(pf_dialogue *dialogue, const char *line, size_t n, pf_text *reply,
                      pf_text *journal);

// Whether the last accepted request gave evidence or a verdict (tell, readiness): its journal line
// is worth a sync.
bool pf_dialogue_weighty(const pf_dialogue *dialogue);

// The reply to a line that was longer than PF_LINE_MAX.
void pf_dialogue_too_long(pf_text *reply);

pf_session *pf_dialogue_session(pf_dialogue *dialogue);

// --- journals

typedef struct pf_replay {
    int events;          // lines recomputed
    bool cut;            // the last line was incomplete and left out
    bool open;           // the journal ends before the session was done
    bool differs;        // a reply was not the recorded one
    char where[320];     // the first difference
    pf_text explanation; // when asked for; free with pf_text_free
} pf_replay;

// Recomputes a journal. A difference is not an error: see result->differs. explain: also put the
// story in words into result->explanation, which stays empty where the journal does not replay.
pf_status pf_replay_journal(const char *text, size_t n, bool explain, pf_replay *result,
                            pf_error *error);

// The readiness of a certificate in words.
pf_status pf_explain_certificate(const char *text, size_t n, pf_text *out, pf_error *error);

#endif
