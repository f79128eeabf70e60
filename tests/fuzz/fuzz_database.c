// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0

// A database of results on any bytes: every reader of it ends, and refuses in one line or gives
// rows.
#include "bench/stats.h"
#include "bench/store.h"
#include "fuzz_input.h"
#include "host/text.h"

#include <sqlite3.h>
#include <unistd.h>

enum { INPUT_MAX = 256 << 10, ROWS = 5000, HASHES = 8 };

static void demand_unit(const pf_unit *unit)
{
    demand(memchr(unit->environment, 0, sizeof unit->environment) &&
           memchr(unit->setting, 0, sizeof unit->setting));
}

static pf_status count_row(void *self, const pf_unit *unit, const char *method,
                           const pf_trial_result *result, pf_error *error)
{
    (void)result;
    demand_unit(unit);
    demand(method);
    return ++*(int *)self < ROWS ? PF_OK : pf_fail(error, PF_ERR_UNSUPPORTED, "that will do");
}

static void count_unit(void *self, const pf_unit *unit, const char *reason)
{
    (void)reason;
    demand_unit(unit);
    ++*(int *)self;
}

static void read_experiment(pf_store *store, const char *hash)
{
    pf_error error = {PF_OK, ""};
    pf_text text = {0};
    pf_store_counts counts;
    pf_entries entries;
    char bound[65];
    double alpha = 0;
    int n = 0;
    int64_t running = 0;
    demand_reason(pf__store_count(store, hash, &counts, &error), &error);
    demand_reason(pf__store_running(store, hash, &running, &error), &error);
    demand_reason(pf__store_settings(store, hash, &text, &error), &error);
    demand_reason(pf__store_differences(store, hash, "{\"alpha\":0.1}", &text, &error), &error);
    demand_reason(pf__store_number(store, hash, "alpha", &alpha, &error), &error);
    demand_reason(pf__store_done(store, hash, count_unit, &n, &error), &error);
    demand_reason(pf__store_failures(store, hash, count_unit, &n, &error), &error);
    demand_reason(pf__store_bound(store, hash, "pump_tank", bound, &error), &error);
    n = 0;
    pf_status rows = pf__store_rows(store, hash, count_row, &n, &error);
    demand_reason(rows, &error);
    static unsigned inputs =
        0; // the intervals of a table take long: of the first input, then of some
    if (rows == PF_OK && inputs++ % 64 == 0) {
        pf_aggregate_options options = {.n_environments = 0};
        pf_status status = pf__aggregate(&entries, store, hash, &options, &error);
        demand_reason(status, &error);
        if (status == PF_OK) {
            pf__entries_free(&entries);
        }
    }
    pf__text_free(&text);
}

static void read_all(pf_store *store)
{
    pf_error error = {PF_OK, ""};
    char hashes[HASHES][65], profile[32];
    void *bytes = NULL;
    size_t n_bytes = 0;
    int n = 0;
    demand_reason(pf__store_profile(store, "tiny", NULL, profile, &error), &error);
    demand_reason(pf__store_configs(store, "tiny", "quick", HASHES, hashes, &n, &error), &error);
    for (int i = 0; i < n && i < HASHES; i++) {
        demand(memchr(hashes[i], 0, sizeof hashes[i]));
        read_experiment(store, hashes[i]);
    }
    demand_reason(pf__store_get(store, PF_BLOB_KIT_MATCHED, "key", &bytes, &n_bytes, &error),
                  &error);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char path[64];
    pf_error error = {PF_OK, ""};
    pf_store *store = NULL;
    if (size > INPUT_MAX) {
        return 0;
    }
    if (!path[0]) {
        snprintf(path, sizeof path, "/tmp/fuzz-%ld.db", (long)getpid());
    }
    FILE *f = fopen(path, "wb");
    demand(f && fwrite(data, 1, size, f) == size && fclose(f) == 0);
    sqlite3_hard_heap_limit64(64 << 20);
    pf_status status = pf__store_open(&store, path, PF_STORE_READ, &error);
    demand_reason(status, &error);
    if (status == PF_OK) {
        read_all(store);
    }
    pf__store_close(store);
    unlink(path);
    return 0;
}
