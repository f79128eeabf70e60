// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_LIBRARY_H
#define PF_LIBRARY_H

#include "host/text.h"
#include "search.h"
#include "preflight/design.h"

// The library as YAML: how it was made, the machine it is for, its probes in the syntax of a
// configuration. `predictor` goes into the comment only. Check text->failed.
void pf__library_write(const pf_design *design, const pf_design_config *config, const pf_plan *plan,
                       const char *predictor, pf_text *text);

#endif
