// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PREFLIGHT_ASSESS_H
#define PREFLIGHT_ASSESS_H

#include "preflight/effort.h"
#include "preflight/model.h"

#ifdef __cplusplus
extern "C" {
#endif

// Is a model good enough for the method? Open-loop responses of the undisturbed plant to each of
// its default probes, the last command held to the longest horizon, against what the model expects
// of them.
#define PF_ASSESS_HORIZONS 5
PF_API const int *pf_assess_horizons(void); // 1, 2, 4, 8, 12

// Scales that differences are measured in: the pulse's (the plant's own where it declares one, else
// the rms of the nominal pulse response), and the rms of the model's own error by channel and step.
typedef enum pf_assess_scale {
    PF_ASSESS_PULSE,
    PF_ASSESS_RESIDUAL,
    PF_ASSESS_SCALES
} pf_assess_scale;

typedef struct pf_assessment {
    int mechanism;
    // rms of model less plant up to a step, over that of the signature (plant at g_cal less
    // nominal).
    double error[PF_ASSESS_SCALES][PF_ASSESS_HORIZONS];
    double copy[PF_ASSESS_HORIZONS];   // the same for "nothing changes", pulse scale
    double linear[PF_ASSESS_HORIZONS]; // and for the linear part alone
    // Distance of the medians of <r,h>/<h,h> at g_cal and at gain 1, in dispersions at gain 1.
    double separation[PF_ASSESS_SCALES];
    // rms standard deviation over the members over the rms error of their mean, at steps 1..8,
    // pulse scale. Below 1: overconfident. NaN with one member.
    double spread;
} pf_assessment;

enum { PF_ASSESS_STARTS = 40 };

// One entry per candidate, n_mech - 1 of them, from PF_ASSESS_STARTS fresh starts (and as many
// others for the residual scale).
PF_API pf_status pf_assess(const pf_model *model, pf_plant *plant, double g_cal, uint64_t seed,
                           const pf_effort *effort, pf_assessment *out, pf_error *error);

#ifdef __cplusplus
}
#endif
#endif
