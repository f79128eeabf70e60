// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PREFLIGHT_CALIBRATE_H
#define PREFLIGHT_CALIBRATE_H

#include "preflight/effort.h"
#include "preflight/kit.h"
#include "preflight/model.h"
#include "preflight/plant.h"

#ifdef __cplusplus
extern "C" {
#endif

// A plan says what a kit is calibrated for: the machine, its probes and tasks, and the settings.
// Everything in it is resolved; it lives in one piece of memory of its own.
typedef struct pf_plan_probe {
    const char *name;
    int rows;
    const double *command; // rows x n_mech
    double charge;
    int n_targets;
    const int *targets; // mechanisms, ascending
} pf_plan_probe;

typedef struct pf_plan_task {
    const char *name;
    int n_uses;
    const int *uses; // mechanisms
    int rows;
    const double *command; // rows x n_mech; NULL with a policy
    const char *policy;    // "" for an open loop
    int policy_index;      // of the plant, -1 for an open loop
    double reveal, importance;
} pf_plan_task;

// What residuals and signatures are divided by, per channel: its declared scale, or the rms pulse
// response where it declares none; or the rms of the predictor's own nominal residual at each
// step, which is the whitening a matched filter assumes. Auto: residual with a learned model.
// Returns always use the pulse scale.
typedef enum pf_scale_rule {
    PF_SCALE_AUTO = 0,
    PF_SCALE_PULSE = 1,
    PF_SCALE_RESIDUAL = 2
} pf_scale_rule;

typedef enum pf_weighting { PF_WEIGHTING_NONE = 0, PF_WEIGHTING_SHRUNK = 1 } pf_weighting;

struct pf_config; // private

typedef struct pf_plan {
    const char *plant;
    const char *environment; // what random streams are named after
    int n_mech, n_chan, n_state;
    const pf_mechanism *mechanisms;
    const pf_channel *channels; // scale 0: to be found
    int n_probes, n_tasks;
    const pf_plan_probe *probes;
    const pf_plan_task *tasks;
    const double *passive; // passive_rows x n_mech: what today's controller does. Nullable.
    int passive_rows;
    const char *method;
    double g_cal;
    int n_grid;
    const double *grid;
    int n_bins;
    int episodes;
    // The channel is calibrated at several gains, mixed evenly, with edges that maximise mutual
    // information, so that a mild loss has a category that speaks for it; false: at g_cal alone
    // with pooled quantiles, as in the paper.
    bool every_severity;
    // With every_severity: the coordinate at those gains takes the place of the straight line
    // through gain 1 and g_cal in what is learned about severity.
    bool severity_curve;
    const double *prior; // n_mech
    double hazard;       // per opportunity
    int budget1, budget2;
    double alpha, j_min, temperature;
    pf_stop stop;
    bool field;
    double sensor_noise; // multiple of the plant's own noise, or of the scale where it has none
    uint64_t seed;       // below 2^53
    int alarm_trials;
    double alarm_rate;
    // Opportunities of an alarm trial: budget1, or those of a reveal round drawn from
    // reveal_first..reveal_last with one opportunity every reveal_period rounds before it.
    int reveal_first, reveal_last, reveal_period;
    int members; // of the return table, at least
    pf_scale_rule scale;
    // The start that a learned model predicts from is read by the machine's own noisy sensors;
    // false: it is known, as the saved state of a twin is.
    bool sensed_start;
    double sigma_fixed; // 0: from the data
    pf_faults faults;   // what the belief holds possible
    // Inner products of scores and signatures: plain, or weighted by the inverse of the shrunk
    // covariance of nominal calibration residuals, probe by probe.
    pf_weighting weighting;
    struct pf_config *config; // what it was made from, owned. Nullable.
    void *memory;             // owned
} pf_plan;

// The defaults for a plant: one pulse per candidate, one task per candidate, settings of a kit for
// use.
PF_API pf_status pf_plan_default(pf_plan *plan, const pf_plant_info *info, pf_error *error);
// From a YAML text (Nullable) and "a.b=value" overrides; info NULL: a machine known only by its
// configuration.
PF_API pf_status pf_plan_from_config(pf_plan *plan, const pf_plant_info *info, const char *file,
                                     const char *text, size_t n, const char *const *overrides,
                                     int n_overrides, pf_error *error);
PF_API void pf_plan_free(pf_plan *plan);

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
