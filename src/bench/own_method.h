// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_OWN_METHOD_H
#define PF_OWN_METHOD_H

#include "preflight/kit.h"

// A method that is a Python class, behind a process of our package, as a row like any other's.

// The row of an id: one of the table's, or one that was opened here. NULL: none.
const pf_method *pf__method_of(const char *id);
// The same where it was opened here, else NULL: what a session's configuration has as `own`.
const pf_method *pf__own_method(const char *id);

// Starts "python:FILE:CLASS"; *id is its id, "python:CLASS". A class that is not one is
// refused here, before anything runs.
pf_status pf__own_method_open(const char *spec, const char **id, pf_error *error);

// Whether it has failed since it was opened: its choices are worth nothing then. Any method is
// allowed.
pf_status pf__own_method_check(const char *id, pf_error *error);

// Ends all of them.
void pf__own_method_close(void);

#endif
