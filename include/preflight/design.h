// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PREFLIGHT_DESIGN_H
#define PREFLIGHT_DESIGN_H

#include "preflight/calibrate.h"

#ifdef __cplusplus
extern "C" {
#endif

// Group probes designed on the predictor: the fewest command sequences in which every candidate
// stands out. The separation of a target is how many standard deviations of its least-squares
// coefficient <r, h'>/<h', h> lie between the healthy machine and the gain g_cal, its signature
// freed of those of the other targets.

// Reads the probes of a library file into the plan. One of another plant or with other mechanisms
// is refused.
PF_API pf_status pf_plan_load_library(pf_plan *plan, const char *file, const char *text, size_t n,
                                      pf_error *error);

// Gives the plan the probes of a kit. probes: "designed", "single" (one pulse per candidate) or the
// name of a library file; NULL: those that the plan's configuration lists, or without any designed
// ones where the plan's method can read them, else single pulses. The section `design` of that
// configuration says what a designed probe may do.
PF_API pf_status pf_plan_choose_probes(pf_plan *plan, const char *probes, pf_plant *plant,
                                       const pf_model *model, const pf_effort *effort,
                                       pf_error *error);

#ifdef __cplusplus
}
#endif
#endif
