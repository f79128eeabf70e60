// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "bench.h"

#include <string.h>

enum { CONFIGS = 64 };

static pf_status no_such(const bench_call *c, const pf_suite *suite, const char *hash,
                         pf_error *error)
{
    return pf_fail(error, PF_ERR_ARGUMENT,
                   "%s holds no run of %s at profile %s with config %s%s; `preflight bench status "
                   "%s` names what it holds",
                   c->db, suite->id, c->profile->name, hash,
                   c->config ? "" : ", which is that of --set here and now", suite->id);
}

// The others are named, with what they have set otherwise; where that cannot be told, without.
static void name_others(const bench_call *c, const pf_suite *suite, pf_store *store,
                        char (*hashes)[65], int n)
{
    enum { SHOWN = 8 };
    pf_text settings = {0};
    pf_store_settings(store, hashes[0], &settings, NULL);
    fprintf(stderr,
            "preflight %s: %s has %d configurations of %s at profile %s; this is %s, run last; "
            "--config HASH shows another:\n",
            c->command, c->db, n, suite->id, c->profile->name, hashes[0]);
    for (int i = 1; i < n && i <= SHOWN; i++) {
        pf_text other = {0};
        if (settings.size > 0) {
            pf_store_differences(store, hashes[i], settings.data, &other, NULL);
        }
        fprintf(stderr, "  %s%s%s\n", hashes[i], other.size > 0 ? ": " : "",
                other.size > 0 ? other.data : "");
        pf_text_free(&other);
    }
    if (n > SHOWN + 1) {
        fprintf(stderr, "  and %d more\n", n - SHOWN - 1);
    }
    pf_text_free(&settings);
}

pf_status bench_find_config(const bench_call *c, const pf_suite *suite, const char *own,
                            pf_store *store, char hash[65], pf_error *error)
{
    char hashes[CONFIGS][65];
    int n = 0;
    hash[0] = 0;
    pf_status status =
        pf_store_configs(store, suite->id, c->profile->name, CONFIGS, hashes, &n, error);
    if (status != PF_OK) {
        return status;
    }
    if (c->config && c->set.n > 0 && strcmp(c->config, own) != 0) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "--config %s is not the configuration of --set, which is %s; leave out one",
                       c->config, own);
    }
    if (!c->config && c->set.n == 0) {
        snprintf(hash, 65, "%s", n > 0 ? hashes[0] : "");
        if (n > 1) {
            name_others(c, suite, store, hashes, n < CONFIGS ? n : CONFIGS);
        }
        return PF_OK;
    }
    snprintf(hash, 65, "%s", c->config ? c->config : own);
    for (int i = 0; i < n && i < CONFIGS; i++) {
        if (strcmp(hashes[i], hash) == 0) {
            return PF_OK;
        }
    }
    return no_such(c, suite, hash, error);
}
