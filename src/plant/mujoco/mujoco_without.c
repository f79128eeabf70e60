// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "mujoco.h"

// What stands in where the program was built without MuJoCo, as packages are.
#define ADVICE                                                                                     \
    "built without MuJoCo (packages have none); get the source, run `make deps` and `make`"

const char *pf__mujoco_version(void)
{
    return "";
}

pf_status pf__mujoco_present(const pf_mujoco_system *system, pf_error *error)
{
    return pf_fail(error, PF_ERR_UNSUPPORTED, "%s: " ADVICE, system->name);
}

pf_status pf__mujoco_create(pf_plant **plant, const pf_mujoco_system *system, pf_error *error)
{
    *plant = NULL;
    return pf__mujoco_present(system, error);
}

pf_status pf__mujoco_create_file(pf_plant **plant, const char *reference, pf_error *error)
{
    *plant = NULL;
    return pf_fail(error, PF_ERR_UNSUPPORTED, "mujoco:%s: " ADVICE, reference);
}
