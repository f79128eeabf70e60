// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0

// A configuration into a plan, as calibrate does it, and settings of a training. What stands before
// the first NUL is the file, what follows are overrides, each ended by a NUL.
#include "fuzz_input.h"
#include "preflight/design.h"
#include "preflight/train.h"

enum { OVERRIDES = 8 };

static void make_plan(const pf_plant_info *info, const char *text, size_t n,
                      const char *const *overrides, int n_overrides)
{
    pf_plan *plan = NULL;
    pf_error error = {PF_OK, ""};
    pf_status status =
        pf_plan_create(&plan, info, "fuzz.yaml", text, n, overrides, n_overrides, &error);
    demand_reason(status, &error);
    demand((status == PF_OK) == (plan != NULL));
    for (int i = 0; i < n_overrides && plan; i++) {
        demand_reason(pf_plan_set(plan, overrides[i], &error), &error);
    }
    pf_plan_destroy(plan);
}

static void configure_training(const pf_plant_info *info, const char *text, size_t n,
                               const char *const *overrides, int n_overrides)
{
    pf_train_settings settings;
    pf_error error = {PF_OK, ""};
    demand(pf_train_profile(&settings, "quick", &error) == PF_OK);
    pf_status status =
        pf_train_configure(&settings, "fuzz.yaml", text, n, overrides, n_overrides, &error);
    demand_reason(status, &error);
    if (status == PF_OK) {
        pf_train_complete(&settings, info);
        demand_reason(pf_train_check(&settings, info, &error), &error);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    const char *overrides[OVERRIDES];
    int n_overrides = 0;
    pf_error error;
    pf_plant *plant = NULL;
    demand(text && pf_plant_create(&plant, "dc_servo", &error) == PF_OK);
    memcpy(text, size > 0 ? data : (const uint8_t *)"", size);
    text[size] = '\0';
    size_t n = strlen(text);
    for (size_t at = n + 1; at < size && n_overrides < OVERRIDES; at += strlen(text + at) + 1) {
        overrides[n_overrides++] = text + at;
    }
    const pf_plant_info *info = pf_plant_get_info(plant);
    make_plan(info, text, n, overrides, n_overrides);
    make_plan(NULL, text, n, overrides, n_overrides);
    configure_training(info, text, n, overrides, n_overrides);
    pf_plant_destroy(plant);
    free(text);
    return 0;
}
