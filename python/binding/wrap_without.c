// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "binding.h"

// What stands in where the library was built without jansson.
int pf_py_plant_wrap(pf_py_plant **plant, const char *name, const char *hello, pf_py_roll_fn roll,
                     char *why)
{
    (void)hello;
    (void)roll;
    *plant = NULL;
    pf_error error;
    return pf_py_report(pf_fail(&error, PF_ERR_UNSUPPORTED,
                                "%s: built without jansson; install libjansson-dev and build the "
                                "package again",
                                name),
                        &error, why);
}
