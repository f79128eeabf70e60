// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_OWN_METHOD_H
#define PF_OWN_METHOD_H

#include "preflight/kit.h"

// Methods that are Python classes, each behind a process of our package, as rows like any other's.
typedef struct pf_own_methods pf_own_methods;

// NULL: out of memory.
// stop (Nullable) ends every wait for them; it must outlive them.
pf_own_methods *pf__own_methods_create(const volatile int *stop);
void pf__own_methods_destroy(pf_own_methods *own); // Nullable. Ends their processes.

// Starts "python:FILE:CLASS"; *id is its id, "python:CLASS". A class that is not one is refused
// here, before anything runs.
pf_status pf__own_methods_open(pf_own_methods *own, const char *spec, const char **id,
                               pf_error *error);

// The row of an id: one of the table's, or one of these (Nullable: there are none). NULL: none.
const pf_method *pf__method_of(const pf_own_methods *own, const char *id);
// The same where it is one of these, else NULL: what a session's configuration has as `own`.
const pf_method *pf__own_method(const pf_own_methods *own, const char *id);

// Whether it has failed since it was opened: its choices are worth nothing then. Any method is
// allowed.
pf_status pf__own_method_check(const pf_own_methods *own, const char *id, pf_error *error);

#endif
