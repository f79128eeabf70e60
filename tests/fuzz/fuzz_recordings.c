// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0

// A calibration on any bytes as recordings: refused in one line, or a kit that loads.
#include "calibrate/recordings.h"
#include "core/kit_layout.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Enough to enter every loop; the full number only costs time.
enum { ALARM_TRIALS = 3, INPUT_MAX = 64 << 10 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > INPUT_MAX) {
        return 0;
    }
    // a copy of exactly this size, so that a read beyond the end is seen
    char *text = malloc(size > 0 ? size : 1);
    if (text == NULL) {
        return 0;
    }
    if (size > 0) {
        memcpy(text, data, size);
    }
    pf_effort effort = {.threads = 1};
    pf_error error = {PF_OK, ""};
    void *bytes = NULL;
    size_t n_bytes = 0;
    pf_status status = pf__calibrate_recordings(NULL, "fuzz.csv", text, size, ALARM_TRIALS, &effort,
                                                &bytes, &n_bytes, &error);
    if (status != PF_OK && (error.code != status || error.text[0] == '\0' ||
                            strchr(error.text, '\n') != NULL || bytes != NULL)) {
        abort();
    }
    pf_kit kit;
    if (status == PF_OK && pf__kit_read(&kit, bytes, n_bytes, &error) != PF_OK) {
        abort();
    }
    free(bytes);
    free(text);
    return 0;
}
