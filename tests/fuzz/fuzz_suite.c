// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0

// The reader of suites on any bytes. No program is ever started: what would start one is replaced.
#include "fuzz_input.h"
#include "bench/suite.h"
#include "plant/bridge/process.h"
#include "plant/plant_impl.h"

static pf_status refuse(pf_error *error)
{
    return pf_fail(error, PF_ERR_UNSUPPORTED, "nothing is started here");
}

pf_status pf__bridge_open(pf_plant **plant, const pf_bridge_program *program, pf_error *error)
{
    (void)plant;
    (void)program;
    return refuse(error);
}

pf_status pf__bridge_create(pf_plant **plant, const char *command, const char *folder,
                            const volatile int *stop, pf_error *error)
{
    (void)plant;
    (void)command;
    (void)folder;
    (void)stop;
    return refuse(error);
}

pf_status pf__worker_start(pf_process *process, const char *spec, const volatile int *stop,
                           pf_error *error)
{
    (void)process;
    (void)spec;
    (void)stop;
    return refuse(error);
}

pf_status pf__gym_create(pf_plant **plant, const char *id, const volatile int *stop,
                         pf_error *error)
{
    (void)plant;
    (void)id;
    (void)stop;
    return refuse(error);
}

pf_status pf__domain_create(pf_plant **plant, const char *name, const volatile int *stop,
                            pf_error *error)
{
    (void)plant;
    (void)name;
    (void)stop;
    return refuse(error);
}

pf_status pf__domain_create_in(pf_plant **plant, const char *tree, const char *name,
                               const volatile int *stop, pf_error *error)
{
    (void)plant;
    (void)tree;
    (void)name;
    (void)stop;
    return refuse(error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pf_error error = {PF_OK, ""};
    pf_suite suite;
    char *exact = fuzz_copy(data, size);
    pf_status status = pf__suite_read(&suite, "fuzz.yaml", exact, size, NULL, 0, &error);
    demand_reason(status, &error);
    if (status == PF_OK) {
        demand(suite.id && suite.title);
        pf__suite_free(&suite);
    }
    free(exact);
    return 0;
}
