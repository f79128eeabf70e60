// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0

// The file with parts of a job on any bytes, as they are and with right sums: refused in one line,
// or what it gives goes into the slots it fits.
#include "core/sha256.h"
#include "fuzz_input.h"
#include "host/part.h"
#include "preflight/calibrate.h"

#include <unistd.h>

enum { ITEMS = 12, NUMBERS = 3, HEAD = 40, RECORD = 32, SUM = 16, INPUT_MAX = 64 << 10 };

typedef struct job {
    double one[ITEMS][NUMBERS], two[ITEMS];
} job;

static int one_slots(void *self, size_t item, pf_slot *slots)
{
    job *j = self;
    demand(item < ITEMS);
    slots[0] = (pf_slot){.data = j->one[item], .size = sizeof j->one[item]};
    return 1;
}

static int two_slots(void *self, size_t item, pf_slot *slots)
{
    job *j = self;
    demand(item < ITEMS);
    slots[0] = (pf_slot){.data = &j->two[item], .size = sizeof j->two[item]};
    return 1;
}

static void load(const uint8_t *data, size_t size)
{
    static char path[64];
    static const char key[] = "key";
    pf_error error = {PF_OK, ""};
    pf_part *part = NULL;
    bool found = false;
    job j = {.two = {0}};
    uint8_t kept[ITEMS] = {0};
    size_t n = 0;
    snprintf(path, sizeof path, "/tmp/fuzz-%ld.part", (long)getpid());
    FILE *f = fopen(path, "wb");
    demand(f && fwrite(data, 1, size, f) == size && fclose(f) == 0);
    pf_status status = pf_part_open(&part, path, key, 3, &found, &error);
    demand_reason(status, &error);
    status = status ? status : pf__part_stage(part, ITEMS, one_slots, &j, kept, &n, &error);
    demand_reason(status, &error);
    demand(n <= ITEMS);
    for (size_t i = 0; i < ITEMS && status == PF_OK; i++) {
        status = kept[i] == 1 ? PF_OK : pf__part_item(part, i, one_slots, &j, kept[i], &error);
    }
    demand_reason(status, &error);
    memset(kept, 0, sizeof kept);
    status = status ? status : pf__part_stage(part, ITEMS, two_slots, &j, kept, &n, &error);
    demand_reason(status, &error);
    pf_part_close(part, false);
    unlink(path);
}

// Every record as long as it says, with the sum of what it holds.
static void reseal(uint8_t *image, size_t size)
{
    uint8_t key[32], digest[32];
    pf_sha256 sha;
    pf__sha256_init(&sha);
    pf__sha256_update(&sha, PF_VERSION, sizeof PF_VERSION);
    pf__sha256_update(&sha, "key", 3);
    pf__sha256_final(&sha, key);
    memcpy(image, "PFPART1\n", 8);
    memcpy(image + 8, key, sizeof key);
    for (size_t at = HEAD; at + RECORD <= size;) {
        uint32_t n;
        memcpy(&n, image + at + 4, sizeof n);
        if (n > size - at - RECORD) {
            return;
        }
        pf__sha256_init(&sha);
        pf__sha256_update(&sha, key, sizeof key);
        pf__sha256_update(&sha, image + at, RECORD - SUM);
        pf__sha256_update(&sha, image + at + RECORD, n);
        pf__sha256_final(&sha, digest);
        memcpy(image + at + RECORD - SUM, digest, SUM);
        at += RECORD + n;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > INPUT_MAX) {
        return 0;
    }
    load(data, size);
    if (size >= HEAD) {
        uint8_t *sealed = fuzz_copy(data, size);
        reseal(sealed, size);
        load(sealed, size);
        free(sealed);
    }
    return 0;
}
