// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0

// The readers behind replay and explain on any bytes.
#include "wire/journal.h"
#include "wire/protocol.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_MAX = 1 << 18 };

static void demand(bool good)
{
    if (!good) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pf_error error = {PF_OK, ""};
    pf_replay result;
    pf_text words = {0};
    char *text = malloc(size > 0 ? size : 1);
    if (!text || size > INPUT_MAX) {
        free(text);
        return 0;
    }
    if (size > 0) {
        memcpy(text, data, size);
    }
    pf_status status = pf__replay_journal(text, size, size % 2 == 0, &result, &error);
    demand(status == PF_OK || (error.code == status && error.text[0] && !result.explanation.data));
    demand(status != PF_ERR_INTERNAL);
    demand(status != PF_OK || result.differs == (result.where[0] != 0));
    pf__text_free(&result.explanation);
    error = (pf_error){PF_OK, ""};
    status = pf__explain_certificate(text, size, &words, &error);
    demand(status == PF_OK || (error.code == status && error.text[0]));
    pf__text_free(&words);
    free(text);
    return 0;
}
