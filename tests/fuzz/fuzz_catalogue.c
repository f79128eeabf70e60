// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0

// The reader of catalogues of faults on any bytes, and what its entries put on a machine.
#include "../attitude_kit.h"
#include "audit/audit.h"
#include "fuzz_input.h"

#include <math.h>

enum { FAULTS = 2 }; // that an entry puts on a machine at most

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pf_error error = {PF_OK, ""};
    pf_catalogue catalogue;
    char *exact = fuzz_copy(data, size);
    pf_status status = pf__catalogue_read(&catalogue, "fuzz.yaml", exact, size, &error);
    demand_reason(status, &error);
    const pf_kit *kit = attitude_small_kit();
    pf_plant *plant = NULL;
    demand(pf_plant_create(&plant, "attitude", &error) == PF_OK);
    for (int i = 0; status == PF_OK && i < catalogue.n; i++) {
        pf_fault faults[FAULTS];
        int n = 0;
        pf_status made = pf__catalogue_faults(&catalogue.entries[i], kit, pf_plant_get_info(plant),
                                              1, i, faults, &n, &error);
        demand_reason(made, &error);
        demand(n >= 0 && n <= FAULTS);
        for (int k = 0; made == PF_OK && k < n; k++) {
            demand(isfinite(faults[k].value));
        }
    }
    pf__catalogue_free(&catalogue);
    pf_plant_destroy(plant);
    free(exact);
    return 0;
}
