// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "dialogue.h"

#include <string.h>

// What stands in where the program was built without jansson: every call says so.

static pf_status missing(pf_error *error)
{
    return pf_fail(
        error, PF_ERR_UNSUPPORTED,
        "this program was built without jansson; install libjansson-dev and build again");
}

bool pf_dialogue_supported(void)
{
    return false;
}

pf_status pf_dialogue_create(pf_dialogue **dialogue, const void *kit, size_t n_kit,
                             const pf_dialogue_config *config, pf_error *error)
{
    (void)kit;
    (void)n_kit;
    (void)config;
    *dialogue = NULL;
    return missing(error);
}

void pf_dialogue_destroy(pf_dialogue *dialogue)
{
    (void)dialogue;
}

void pf_dialogue_line(pf_dialogue *dialogue, const char *line, size_t n, pf_text *reply,
                      pf_text *journal)
{
    (void)dialogue;
    (void)line;
    (void)n;
    (void)reply;
    (void)journal;
}

bool pf_dialogue_weighty(const pf_dialogue *dialogue)
{
    (void)dialogue;
    return false;
}

void pf_dialogue_too_long(pf_text *reply)
{
    (void)reply;
}

pf_session *pf_dialogue_session(pf_dialogue *dialogue)
{
    (void)dialogue;
    return NULL;
}

pf_status pf_replay_journal(const char *text, size_t n, bool explain, pf_replay *result,
                            pf_error *error)
{
    (void)text;
    (void)n;
    (void)explain;
    memset(result, 0, sizeof *result);
    return missing(error);
}

pf_status pf_explain_certificate(const char *text, size_t n, pf_text *out, pf_error *error)
{
    (void)text;
    (void)n;
    (void)out;
    return missing(error);
}
