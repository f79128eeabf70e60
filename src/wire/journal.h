// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_JOURNAL_H
#define PF_JOURNAL_H

#include "host/text.h"
#include "preflight/session.h"

// The journal: JSON lines, self-contained. The first holds the kit; every other one a request, the
// reply it got and, for a tell, the predictions it used, so that a replay never calls a predictor.

// A predictor that passes on another's answers and keeps them as JSON for the journal.
typedef struct pf_witness {
    const pf_kit *kit;
    const pf_predictor *inner;
    pf_text nominal; // matrix
    pf_text healthy; // stage 2 with several faults: matrices per target, at gain 1
    pf_text targets; // matrices per target, per_gain: per target and gain
    pf_text nearest; // matrix: the nearest hypothesis, where it is none of these
    pf_text runs;    // of a rehearsal: matrices after the nominal one
    int seen;        // predictions for targets so far
    bool per_gain;   // stage 2 without the joint posterior
    int n_runs;      // predictions of a rehearsal so far
    bool idle;       // the second of them was the free response
} pf_witness;

pf_predictor pf__witness_predictor(pf_witness *witness);
void pf__witness_start(pf_witness *witness, const pf_kit *kit, const pf_predictor *inner,
                       bool per_gain);
void pf__witness_free(pf_witness *witness);
void pf__witness_clear(pf_witness *witness);
bool pf__witness_failed(const pf_witness *witness); // out of memory somewhere

// The first line, without a newline. machine: what `check` ran (NULL: serve does not know it), with
// the faults that were put into it (NULL: none).
void pf__journal_header(pf_text *out, const void *kit, size_t n_kit, const char *method,
                        uint64_t seed, const char *machine, const char *injected);
// A later line with its newline: request and reply are whole JSON objects, witness Nullable.
void pf__journal_entry(pf_text *out, const pf_text *request, const pf_witness *witness,
                       const pf_text *reply);

typedef struct pf_replay {
    int events;          // lines recomputed
    bool cut;            // the last line was incomplete and left out
    bool open;           // the journal ends before the session was done
    bool differs;        // a reply was not the recorded one
    char where[320];     // the first difference
    pf_text explanation; // when asked for; free with pf__text_free
} pf_replay;

// Recomputes a journal. A difference is not an error: see result->differs. explain: also put the
// story in words into result->explanation, which stays empty where the journal does not replay.
pf_status pf__replay_journal(const char *text, size_t n, bool explain, pf_replay *result,
                             pf_error *error);

// The first line of a journal.
typedef struct pf_journal_head {
    char method[64];
    uint64_t seed;
    void *kit; // the image; free with free()
    size_t n_kit;
} pf_journal_head;

pf_status pf__journal_head_read(const char *text, size_t n, pf_journal_head *head, pf_error *error);

typedef struct pf_resumed {
    int records;  // recomputed
    size_t whole; // bytes that stand; what follows is part of a record
    bool over;    // the session is done and its verdict was given
} pf_resumed;

// Brings a fresh dialogue with that kit, method and seed to where a journal ends. Refused where a
// recomputed reply is another than the recorded one.
struct pf_protocol;
pf_status pf__replay_resume(struct pf_protocol *dialogue, const char *text, size_t n,
                            pf_resumed *resumed, pf_error *error);

void pf__base64_encode(pf_text *out, const void *data, size_t n);
// Decodes into at most n bytes at data; the number of bytes, or SIZE_MAX if the text is not base64
// or too long.
size_t pf__base64_decode(const char *text, size_t n_text, void *data, size_t n);

// A session in words and numbers, event by event, for src/cli/screen.h to lay out.

// After a tell. number counts responses from 1; before is P(H = i) for i = 0..m before it.
void pf__explain_tell(pf_text *out, pf_session *session, const pf_ask *ask, int number,
                      const double *before, bool alarm_before);

// After a probe or rehearsal that was asked for was given up.
void pf__explain_skip(pf_text *out, const pf_session *session, const pf_ask *ask);

// What was found and what follows.
void pf__explain_readiness(pf_text *out, pf_session *session);

// The readiness of a certificate in words.
pf_status pf__explain_certificate(const char *text, size_t n, pf_text *out, pf_error *error);

#endif
