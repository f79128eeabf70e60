// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0

// The reader of probe libraries on any bytes, for the plant of the corpus.
#include "fuzz_input.h"
#include "preflight/design.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pf_error error = {PF_OK, ""};
    pf_plant *plant = NULL;
    pf_plan *plan = NULL;
    demand(pf_plant_create(&plant, "dc_servo", &error) == PF_OK);
    demand(pf_plan_create(&plan, pf_plant_get_info(plant), NULL, NULL, 0, NULL, 0, &error) ==
           PF_OK);
    char *exact = fuzz_copy(data, size);
    demand_reason(pf_plan_load_library(plan, "fuzz.probes", exact, size, &error), &error);
    free(exact);
    pf_plan_destroy(plan);
    pf_plant_destroy(plant);
    return 0;
}
