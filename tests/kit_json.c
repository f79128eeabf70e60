// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "kit_json.h"
#include "core/belief.h"
#include "core/kit_layout.h"
#include "core/sha256.h"

#include "wire/reply.h"
#include "test.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static bool same(json_t *value, double expected)
{
    double actual = json_number_value(value);
    return json_is_number(value) && memcmp(&actual, &expected, sizeof actual) == 0;
}

static bool same_list(json_t *list, int n, const double *expected)
{
    bool good = json_array_size(list) == (size_t)n;
    for (int i = 0; i < n && good; i++) {
        good = same(json_array_get(list, (size_t)i), expected[i]);
    }
    return good;
}

static bool same_matrix(json_t *list, int rows, int n, const double *expected)
{
    bool good = json_array_size(list) == (size_t)rows;
    for (int r = 0; r < rows && good; r++) {
        good = same_list(json_array_get(list, (size_t)r), n, expected + (size_t)r * (size_t)n);
    }
    return good;
}

static void check_machine(json_t *j, const pf_kit *k)
{
    json_t *list = json_object_get(j, "mechanisms");
    CHECK(json_array_size(list) == (size_t)k->n_mech);
    for (int i = 0; i < k->n_mech; i++) {
        json_t *one = json_array_get(list, (size_t)i);
        CHECK_STR(json_string_value(json_object_get(one, "name")), pf_kit_mechanism_name(k, i));
        CHECK(same(json_object_get(one, "lo"), k->lo[i]));
        CHECK(same(json_object_get(one, "hi"), k->hi[i]));
    }
    list = json_object_get(j, "channels");
    CHECK(json_array_size(list) == (size_t)k->n_chan);
    for (int i = 0; i < k->n_chan; i++) {
        json_t *one = json_array_get(list, (size_t)i), *scale = json_object_get(one, "scale");
        CHECK_STR(json_string_value(json_object_get(one, "name")), pf_kit_channel_name(k, i));
        CHECK(same(json_object_get(one, "return_scale"), k->return_scale[i]));
        CHECK(json_is_array(scale) == (k->n_scale > 1));
        for (int r = 0; r < k->n_scale; r++) {
            CHECK(same(k->n_scale > 1 ? json_array_get(scale, (size_t)r) : scale,
                       k->scale[r * k->n_chan + i]));
        }
    }
}

// The weight of a probe is F^T F of its factor F.
static void check_weight(json_t *j, const double *factor, int n)
{
    CHECK((j != NULL) == (factor != NULL));
    for (int a = 0; factor && a < n; a++) {
        for (int b = 0; b < n; b++) {
            double sum = 0;
            for (int i = a > b ? a : b; i < n; i++) {
                sum += factor[i * (i + 1) / 2 + a] * factor[i * (i + 1) / 2 + b];
            }
            double have =
                json_number_value(json_array_get(json_array_get(j, (size_t)a), (size_t)b));
            CHECK_NEAR(have, sum, 1e-12 * fabs(sum));
        }
    }
}

// variant walks through the recorded responses, in the order of the file.
static void check_probe(json_t *j, const pf_kit *k, int q, const double **variant)
{
    int rows = pf_kit_probe_rows(k, q), first = k->probe_target[q];
    json_t *targets = json_object_get(j, "targets");
    CHECK_STR(json_string_value(json_object_get(j, "name")), pf_kit_probe_name(k, q));
    CHECK(same(json_object_get(j, "charge"), k->charge[q]));
    CHECK(same_matrix(json_object_get(j, "command"), rows, k->n_mech,
                      k->command + k->probe_row[q] * k->n_mech));
    CHECK(json_array_size(targets) == (size_t)(k->probe_target[q + 1] - first));
    CHECK((k->n_response > 0) == (json_object_get(j, "nominal_response") != NULL));
    if (k->n_response > 0) {
        CHECK(same_matrix(json_object_get(j, "nominal_response"), rows, k->n_chan,
                          k->response + k->probe_row[q] * k->n_chan));
    }
    check_weight(json_object_get(j, "weight"), pf__kit_whiten(k, q), rows * k->n_chan);
    for (int t = first; t < k->probe_target[q + 1]; t++) {
        json_t *one = json_array_get(targets, (size_t)(t - first));
        CHECK(json_integer_value(json_object_get(one, "mechanism")) == k->target_mech[t]);
        CHECK(same_list(json_object_get(one, "edges"), k->n_bins - 1,
                        k->edges + t * (k->n_bins - 1)));
        CHECK(same_list(json_object_get(one, "nominal"), k->n_bins, k->nominal + t * k->n_bins));
        CHECK(same_list(json_object_get(one, "changed"), k->n_bins, k->changed + t * k->n_bins));
        CHECK(same(json_object_get(one, "m0"), k->centre_nominal[t]));
        CHECK(same(json_object_get(one, "m1"), k->centre_changed[t]));
        CHECK(same(json_object_get(one, "sigma"), k->sigma[t]));
        if (k->n_curve > 0) {
            CHECK(same_list(json_object_get(one, "curve"), k->n_grid, k->curve + t * k->n_grid));
        }
        if (k->n_variant > 0) {
            json_t *responses = json_object_get(one, "responses");
            CHECK(json_array_size(responses) == (size_t)k->n_grid);
            for (int g = 0; g < k->n_grid; g++, *variant += rows * k->n_chan) {
                CHECK(same_matrix(json_array_get(responses, (size_t)g), rows, k->n_chan, *variant));
            }
        }
    }
}

static void check_task(json_t *j, const pf_kit *k, int t)
{
    int first = k->task_use[t], n = k->task_use[t + 1] - first;
    json_t *uses = json_object_get(j, "mechanisms"), *nte = json_object_get(j, "nte");
    CHECK_STR(json_string_value(json_object_get(j, "name")), pf_kit_task_name(k, t));
    CHECK(same(json_object_get(j, "reveal"), k->task_reveal[t]));
    CHECK(same(json_object_get(j, "importance"), k->task_importance[t]));
    CHECK(same_list(json_object_get(j, "shares"), k->n_shares, k->shares));
    CHECK(same_matrix(json_object_get(j, "command"), pf_kit_task_rows(k, t), k->n_mech,
                      k->task_command + k->task_row[t] * k->n_mech));
    CHECK(json_array_size(uses) == (size_t)n && json_array_size(nte) == (size_t)n);
    for (int u = 0; u < n; u++) {
        CHECK(json_integer_value(json_array_get(uses, (size_t)u)) == k->use_mech[first + u]);
        CHECK(same_matrix(json_array_get(nte, (size_t)u), k->n_members, k->n_shares,
                          k->tracking_error + (first + u) * k->n_members * k->n_shares));
    }
}

static void check_settings(json_t *j, const pf_kit *k)
{
    char sha[65];
    int m = k->n_mech - 1;
    pf__sha256_text(k->sha256, sha);
    CHECK_STR(json_string_value(json_object_get(j, "sha256")), sha);
    CHECK_STR(json_string_value(json_object_get(j, "plant")), "attitude");
    CHECK_STR(json_string_value(json_object_get(j, "predictor")), "twin");
    CHECK_STR(json_string_value(json_object_get(j, "statistic")), "matched");
    CHECK_STR(json_string_value(json_object_get(j, "preflight")), PF_VERSION);
    CHECK(json_integer_value(json_object_get(j, "version")) == PF_KIT_VERSION);
    CHECK(same_list(json_object_get(j, "grid"), k->n_grid, k->grid));
    CHECK(same_list(json_object_get(j, "prior"), k->n_mech, k->prior));
    CHECK(same_list(json_object_get(j, "weights"), m, k->weight));
    CHECK(same_list(json_object_get(j, "importance"), m, k->importance));
    CHECK(same_list(json_object_get(j, "reveal"), m, k->reveal));
    CHECK(same(json_object_get(j, "g_cal"), k->g_cal));
    CHECK(same(json_object_get(j, "hazard"), k->hazard));
    CHECK(same(json_object_get(j, "temperature"), k->temperature));
    CHECK(same(json_object_get(j, "alpha"), k->alpha));
    CHECK(same(json_object_get(j, "j_min"), k->j_min));
    CHECK(same(json_object_get(json_object_get(j, "threshold"), "eg-mpt"), k->threshold[0]));
    CHECK(same(json_object_get(json_object_get(j, "budget"), "stage1"), k->budget1));
    CHECK(same(json_object_get(json_object_get(j, "budget"), "stage2"), k->budget2));
    CHECK_STR(json_string_value(json_object_get(j, "stop")), "latch");
    CHECK(json_is_true(json_object_get(j, "field")));
    CHECK(json_is_true(json_object_get(j, "require_probe"))); // its old name
    CHECK(same(json_object_get(j, "sensor_noise"), k->sensor_noise));
    CHECK(same(json_object_get(j, "seed"), k->seed));
    CHECK_STR(json_string_value(json_object_get(j, "faults")), pf__faults_name(k->faults));
    CHECK(json_is_true(json_object_get(j, "sensed_start")) == (k->sensed_start == 1));
    CHECK_STR(json_string_value(json_object_get(j, "weighting")),
              k->n_whiten > 0 ? "shrunk" : "none");
}

void check_kit_json(const pf_kit *k)
{
    static const char *const keys[] = {
        "format",      "version",    "sha256",       "preflight",  "plant",      "predictor",
        "statistic",   "mechanisms", "channels",     "grid",       "g_cal",      "prior",
        "hazard",      "probes",     "weights",      "importance", "reveal",     "threshold",
        "temperature", "budget",     "alpha",        "j_min",      "stop",       "require_probe",
        "faults",      "weighting",  "sensed_start", "tasks",      "calibration"};
    const double *variant = k->variant;
    pf_text text = {0};
    json_error_t problem;
    pf__reply_kit(&text, k);
    json_t *j = json_loads(text.data, JSON_REJECT_DUPLICATES, &problem);
    CHECK(j != NULL);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (!CHECK(json_object_get(j, keys[i]) != NULL)) {
            printf("%s\n", keys[i]);
        }
    }
    check_machine(j, k);
    check_settings(j, k);
    for (int q = 0; q < k->n_probes; q++) {
        check_probe(json_array_get(json_object_get(j, "probes"), (size_t)q), k, q, &variant);
    }
    for (int t = 0; t < k->n_tasks; t++) {
        check_task(json_array_get(json_object_get(j, "tasks"), (size_t)t), k, t);
    }
    json_t *calibration = json_object_get(j, "calibration");
    CHECK(same(json_object_get(calibration, "seed"), k->seed));
    CHECK(same(json_object_get(calibration, "episodes"), k->episodes));
    CHECK_CONTAINS(json_string_value(json_object_get(calibration, "source")), PF_VERSION);
    json_decref(j);
    pf__text_free(&text);
}
