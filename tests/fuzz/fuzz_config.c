// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0

// The configuration reader on any bytes: what stands before the first NUL is the file, what follows
// is one override.
#include "settings/config.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_once(const char *text, size_t n, const char *const *overrides, int n_overrides)
{
    pf_config config;
    pf_error error;
    pf_status status =
        pf__config_read(&config, "fuzz.yaml", text, n, overrides, n_overrides, &error);
    // a refusal must say something, in one line
    if (status != PF_OK &&
        (error.code != status || error.text[0] == '\0' || strchr(error.text, '\n') != NULL)) {
        abort();
    }
    pf__config_free(&config);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    // a copy has the terminator that an override needs
    char *text = malloc(size + 1);
    if (text == NULL) {
        return 0;
    }
    if (size > 0) {
        memcpy(text, data, size);
    }
    text[size] = '\0';
    size_t n = strlen(text);
    if (n < size) {
        const char *override = text + n + 1;
        read_once(text, n, &override, 1);
    }
    // the whole of it as well, so that NUL bytes reach the reader
    read_once(text, size, NULL, 0);
    free(text);
    return 0;
}
