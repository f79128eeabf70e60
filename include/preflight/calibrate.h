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
    const double *command; // rows x n_mech; all zero where a policy acts
    double charge;
    int n_targets;
    const int *targets; // mechanisms, ascending
    const char *policy; // closed loop of the plant that is the probe. NULL: an open loop
} pf_plan_probe;

// Makes a plan with the settings of a field kit. info is what a plant tells of itself; NULL: the
// configuration alone describes the machine. text is a configuration (YAML, called `file` in
// messages); NULL: none. The overrides are "key=value". Destroy the plan with pf_plan_destroy.
PF_API pf_status pf_plan_create(pf_plan **plan, const pf_plant_info *info, const char *file,
                                const char *text, size_t n, const char *const *overrides,
                                int n_overrides, pf_error *error);
// Changes one setting of `preflight list settings`, or the method: "alpha=.05", "budget.stage1=4",
// "method=sept". A refused setting changes nothing.
PF_API pf_status pf_plan_set(pf_plan *plan, const char *assignment, pf_error *error);
// Nullable: plan.
PF_API void pf_plan_destroy(pf_plan *plan);

// Opens a file that keeps what a job has finished, for pf_effort: after a stop or a crash the same
// job goes on from it and ends with the same bits. The key is any bytes that name all that decides
// the result: settings, plant, model. One part serves the calls of one job, always in the same
// order. The file appears when the job takes more than a second, or is stopped; found says whether
// it was there. A file that is no part or another job's, or that another run has open, is refused.
PF_API pf_status pf_part_open(pf_part **part, const char *path, const void *key, size_t n_key,
                              bool *found, pf_error *error);
// keep false: the job is done, and the file is removed. Nullable: part.
PF_API void pf_part_close(pf_part *part, bool keep);

// Calibrates a kit on a plant. A learned model of the plant predicts; model NULL: a twin, which is
// a copy of the plant, predicts. On success *bytes is the file image, to be freed with free().
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
