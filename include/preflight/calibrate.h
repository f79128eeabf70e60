// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PREFLIGHT_CALIBRATE_H
#define PREFLIGHT_CALIBRATE_H

#include "preflight/base.h"
#include "preflight/kit.h"
#include "preflight/model.h"
#include "preflight/plant.h"

#ifdef __cplusplus
extern "C" {
#endif

// A plan says what a kit is calibrated for: the machine, its probes and tasks, and the settings.
typedef struct pf_plan pf_plan;

typedef struct pf_plan_probe {
    const char *name;
    int rows;
    const double *command; // rows x n_mech
    double charge;
    int n_targets;
    const int *targets; // mechanisms, ascending
} pf_plan_probe;

// A plan with the settings of a kit for use in the field. From what a plant tells of itself (info
// NULL: a machine known by its configuration alone), a configuration (YAML, called `file` in
// messages; text NULL: none) and overrides "key=value". Destroy it with pf_plan_destroy.
PF_API pf_status pf_plan_create(pf_plan **plan, const pf_plant_info *info, const char *file,
                                const char *text, size_t n, const char *const *overrides,
                                int n_overrides, pf_error *error);
// One setting of `preflight list settings`, or the method: "alpha=.05", "budget.stage1=4",
// "method=sept". A refused one changes nothing.
PF_API pf_status pf_plan_set(pf_plan *plan, const char *assignment, pf_error *error);
// Nullable: plan.
PF_API void pf_plan_destroy(pf_plan *plan);

// Calibrates a kit on a plant. What predicts is a learned model of it, or without one (Nullable) a
// twin, which is a copy of the plant. On success *bytes is the file image, to be freed with
// free().
PF_API pf_status pf_calibrate(const pf_plan *plan, pf_plant *plant, const pf_model *model,
                              const pf_effort *effort, void **bytes, size_t *n_bytes,
                              pf_error *error);

// Calibrates a kit from recorded responses (CSV text, called `file` in messages). The plan may be
// NULL: then probes and mechanisms come from the u columns.
PF_API pf_status pf_calibrate_recordings(const pf_plan *plan, const char *file, const char *csv,
                                         size_t n, const pf_effort *effort, void **bytes,
                                         size_t *n_bytes, pf_error *error);

#ifdef __cplusplus
}
#endif
#endif
