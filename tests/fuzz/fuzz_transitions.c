// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0

// The reader of transitions on any bytes, as they are and with a right checksum: refused in one
// line, or every episode can be read.
#include "preflight/kit.h"
#include "core/sha256.h"
#include "model/transitions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_all(const pf_transitions *data)
{
    const pf_transitions_info *info = pf_transitions_get_info(data);
    size_t names = strlen(info->plant) + strlen(info->source);
    int total = 0;
    for (int c = 0; c < info->n_chan; c++) {
        names += strlen(info->channels[c]);
    }
    for (int j = 0; j < info->n_mech; j++) {
        names += strlen(info->mechanisms[j].name);
    }
    for (int e = 0; e < info->n_episodes; e++) {
        const double *x;
        const float *u;
        int steps = pf__transitions_episode(data, e, &x, &u);
        double last = x[(size_t)(steps + 1) * (size_t)info->n_chan - 1];
        float command = u[(size_t)steps * (size_t)info->n_mech - 1];
        if (steps < 1 || !isfinite(last) || !isfinite(command)) {
            abort();
        }
        total += steps;
    }
    if (total != info->transitions || names > PF_TRANSITIONS_TEXT) {
        abort();
    }
}

static void run(const uint8_t *bytes, size_t size)
{
    char path[] = "fuzz.data";
    pf_transitions data = {.path = path};
    pf_error error = {PF_OK, ""};
    pf_status status = pf__transitions_view(&data, bytes, size, &error);
    if (status == PF_OK) {
        read_all(&data);
    } else if (error.code != status || !strstr(error.text, path)) {
        abort();
    }
    pf__arena_free(&data.arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    // a copy of exactly this size, so that a read beyond the end is seen
    uint8_t *bytes = malloc(size > 0 ? size : 1);
    if (!bytes) {
        return 0;
    }
    if (size > 0) {
        memcpy(bytes, data, size);
    }
    run(bytes, size);
    if (size > PF_TRANSITIONS_DIGEST) {
        pf_sha256 sha;
        pf__sha256_init(&sha);
        pf__sha256_update(&sha, bytes, size - PF_TRANSITIONS_DIGEST);
        pf__sha256_final(&sha, bytes + size - PF_TRANSITIONS_DIGEST);
        run(bytes, size);
    }
    free(bytes);
    return 0;
}
