// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0

// The archive of an FMU on any bytes: what is refused has a reason, and no more comes out of it
// than was allowed. Nothing is written.
#include "fmu/unpack.h"
#include "fuzz_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { MOST = 1 << 20 };
    pf_error error = {PF_OK, ""};
    pf_fmu_zip *zip = NULL;
    char there[120];
    void *exact = fuzz_copy(data, size), *xml = NULL;
    size_t n = 0;
    pf_status status = pf__fmu_zip_open(&zip, exact, size, MOST, &error);
    demand_reason(status, &error);
    demand((status == PF_OK) == (zip != NULL));
    if (zip) {
        pf__fmu_zip_platforms(zip, there, sizeof there);
        demand(strlen(there) < sizeof there);
        status = pf__fmu_zip_read(zip, "modelDescription.xml", &xml, &n, &error);
        demand_reason(status, &error);
        demand(status != PF_OK || (n <= MOST && ((char *)xml)[n] == '\0'));
        demand_reason(pf__fmu_zip_unpack(zip, "linux64", NULL, &error), &error);
    }
    free(xml);
    pf__fmu_zip_close(zip);
    free(exact);
    return 0;
}
