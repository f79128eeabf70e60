// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "experiment.h"
#include "model/rollout.h"
#include "core/belief.h"
#include "core/sha256.h"

#include "host/text.h"

#include <string.h>

static void add_names(pf_text *out, const char *key, const pf_config_refs *names)
{
    pf__json_key(out, key);
    pf__text_add(out, "[");
    for (int i = 0; i < names->n; i++) {
        pf__json_comma(out);
        pf__json_string(out, names->text[i]);
    }
    pf__text_add(out, "]");
}

static void add_number(pf_text *out, const char *key, double value)
{
    pf__json_key(out, key);
    pf__json_number(out, value);
}

static void add_list(pf_text *out, const char *key, int n, const double *values)
{
    pf__json_key(out, key);
    pf__json_numbers(out, n, values);
}

static void add_string(pf_text *out, const char *key, const char *value)
{
    pf__json_key(out, key);
    pf__json_string(out, value);
}

static void add_group(const pf_experiment *e, pf_text *out)
{
    const pf_suite *s = e->suite;
    const char *probes = e->library ? s->probes : pf__experiment_group(e, 0).probes;
    add_string(out, "probes", probes ? probes : "by the method");
    for (int i = 0; e->library && i < s->environments.n; i++) {
        add_string(out, "library", e->library[i]);
    }
}

static void add_fingerprints(const pf_experiment *e, pf_text *out)
{
    pf__json_key(out, "fingerprints");
    pf__text_add(out, "[");
    for (int i = 0; i < e->suite->environments.n; i++) {
        pf__json_comma(out);
        pf__json_string(out, e->fingerprint[i]);
    }
    pf__text_add(out, "]");
}

// What older suites did not have stays out where it is not used, so that their hashes hold.
static void add_later(const pf_experiment *e, pf_text *out)
{
    const pf_suite *s = e->suite;
    if (s->opportunities.n > 0) {
        add_list(out, "opportunities", s->opportunities.n, s->opportunities.value);
    }
    if (s->named.n > 0 && e->responses == 0) {
        add_names(out, "settings", &s->named);
    }
    if (s->recalibrate > 0) {
        add_string(out, "recalibrate", "g");
    }
    if (s->settings.verdict == PF_VERDICT_FIELD) {
        pf__json_key(out, "kit");
        pf__text_add(out, "{");
        pf__settings_json(out, &s->settings, PF_SETTINGS_ALL);
        pf__text_add(out, "}");
    }
    if (s->n_faults.n > 0) {
        add_list(out, "n_faults", s->n_faults.n, s->n_faults.value);
    }
    if (pf__suite_groups(s) || s->settings.verdict == PF_VERDICT_FIELD) {
        add_group(e, out);
    }
    if (pf__experiment_learned(e)) {
        // a model follows from the plant, the profile and the numeric library, its seed aside: the
        // database notes which one it was
        add_string(out, "predictor", "ensemble");
        add_string(out, "processor", pf__numeric_library());
    }
}

pf_status pf__experiment_settings(pf_experiment *e, pf_error *error)
{
    const pf_suite *s = e->suite;
    pf_text out = {0};
    pf__text_add(&out, "{");
    add_string(&out, "suite", s->id);
    add_string(&out, "profile", e->profile->name);
    add_string(&out, "preflight", PF_VERSION);
    add_names(&out, "environments", &s->environments);
    if (e->fingerprint) {
        add_fingerprints(e, &out);
    }
    add_names(&out, "methods", &s->methods);
    if (e->responses > 0) {
        add_names(&out, "knobs", &s->named);
        add_number(&out, "responses", e->responses);
    }
    add_list(&out, "gains", s->gains.n, s->gains.value);
    add_list(&out, "stage2", s->stage2.n, s->stage2.value);
    add_list(&out, "bins", s->bins.n, s->bins.value);
    add_list(&out, "episodes", e->n_episodes, e->episodes);
    add_number(&out, "seeds", e->seeds);
    add_number(&out, "trials", e->trials);
    add_number(&out, "nominal", s->nominal);
    pf_settings settings = s->settings;
    settings.alarm_trials = e->alarm_trials;
    pf__settings_json(&out, &settings,
                      pf__suite_groups(s) ? PF_SETTINGS_HASH_GROUPS : PF_SETTINGS_HASH);
    add_later(e, &out);
    pf__text_add(&out, "}");
    if (out.failed) {
        pf__text_free(&out);
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for the settings of a suite");
    }
    if (e->fingerprint) {
        char hash[65];
        pf__sha256_of(out.data, out.size, hash);
        memcpy(e->hash, hash, PF_HASH_TEXT - 1);
    }
    e->settings = out.data;
    return PF_OK;
}
