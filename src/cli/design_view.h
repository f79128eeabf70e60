// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_DESIGN_VIEW_H
#define PF_DESIGN_VIEW_H

#include "cli.h"
#include "preflight/design.h"

// What is seen of a designed library.
typedef struct design_view {
    const pf_design *design;
    const pf_design_config *config;
    const pf_plan *plan;
    const char *predictor; // "twin" or "ensemble:FILE"
    const char *path;      // of the library
} design_view;

// The report for people, and as one JSON object.
void design_view_report(const design_view *view);
void design_view_json(const design_view *view, pf_text *out);

// The waveforms of the designed probes: FILE by its ending .svg or .png, and the script beside it.
pf_status design_view_plot(const design_view *view, const char *path, pf_error *error);

#endif
