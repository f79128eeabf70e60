// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "plant/plant_impl.h"

// What stands in where the program was built without jansson.

pf_status pf__bridge_create(pf_plant **plant, const char *command, pf_error *error)
{
    *plant = NULL;
    return pf_fail(error, PF_ERR_UNSUPPORTED,
                   "exec:%s: built without jansson; install libjansson-dev and rebuild", command);
}

pf_status pf_plant_from_function(pf_plant **plant, const char *name, const char *hello,
                                 pf_roll_function roll, void *self, pf_error *error)
{
    (void)hello;
    (void)roll;
    (void)self;
    *plant = NULL;
    return pf_fail(error, PF_ERR_UNSUPPORTED,
                   "%s: built without jansson; install libjansson-dev and build again", name);
}

pf_status pf__gym_create(pf_plant **plant, const char *id, pf_error *error)
{
    *plant = NULL;
    return pf_fail(error, PF_ERR_UNSUPPORTED,
                   "gym:%s: built without jansson; install libjansson-dev and rebuild", id);
}

pf_status pf__domain_create(pf_plant **plant, const char *name, pf_error *error)
{
    *plant = NULL;
    return pf_fail(error, PF_ERR_UNSUPPORTED,
                   "%s: built without jansson; install libjansson-dev and rebuild", name);
}
