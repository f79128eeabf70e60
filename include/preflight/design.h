// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PREFLIGHT_DESIGN_H
#define PREFLIGHT_DESIGN_H

#include "preflight/calibrate.h"

#ifdef __cplusplus
extern "C" {
#endif

// Designs group probes on the predictor: the fewest command sequences in which every candidate
// stands out. The separation of a target counts standard deviations of its least-squares
// coefficient <r, h'>/<h', h> between the healthy machine and the gain g_cal. Here h' is the
// target's signature without the part that the other targets explain.

// Reads the probes of a library file into the plan. Refuses a library of another plant or with
// other mechanisms.
PF_API pf_status pf_plan_load_library(pf_plan *plan, const char *file, const char *text, size_t n,
                                      pf_error *error);

// Gives the plan the probes of a kit. probes is "designed", "single" (one pulse per candidate) or
// the name of a library file. NULL: the probes that the plan's configuration lists. If it lists
// none they are designed, or single pulses where the plan's method cannot read group probes. The
// section `design` of that configuration says what a designed probe may do.
PF_API pf_status pf_plan_choose_probes(pf_plan *plan, const char *probes, pf_plant *plant,
                                       const pf_model *model, const pf_effort *effort,
                                       pf_error *error);

#ifdef __cplusplus
}
#endif
#endif
