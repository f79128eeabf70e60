// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_DIALOGUE_IMPL_H
#define PF_DIALOGUE_IMPL_H

#include "dialogue.h"

#include <jansson.h>

// A refusal before it becomes a reply: code and message.
typedef struct pf_refusal {
    const char *code; // NULL: accepted
    char message[320];
} pf_refusal;

// Handles a parsed request. predictions (Nullable) replaces the predictor: the journal's record.
// Writes the reply either way; tells whether it was accepted. journal as in pf_dialogue_line.
bool pf__dialogue_request(pf_dialogue *d, json_t *request, json_t *predictions, pf_text *reply,
                          pf_text *journal);

// A short name for what jansson complained about, and its message for people.
const char *pf__json_problem(const json_error_t *error);

#endif
