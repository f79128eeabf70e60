// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_TRIAL_KITS_H
#define PF_TRIAL_KITS_H

#include "suite.h"
#include "trial.h"

// The kits of one (environment, seed, calibration setting): one per statistic that the methods
// need, with the alarm threshold of every method.
typedef struct pf_trial_kits {
    void *bytes[2]; // by statistic; NULL: no method needs it
    size_t n[2];
    pf_kit kit[2];
} pf_trial_kits;

// What future tasks are worth: the plant's own, or one of the paper's three profiles.
typedef enum pf_risk {
    PF_RISK_OWN,
    PF_RISK_UNIFORM,
    PF_RISK_HEAD_HEAVY,
    PF_RISK_RARE_CRITICAL
} pf_risk;

typedef struct pf_kits_request {
    pf_plant *plant;
    const pf_model *model; // Nullable: a twin
    uint64_t seed;
    double sensor_noise; // NaN: as a kit for use has it
    double amplitude;    // of the probes; NaN: the plant\'s
    pf_risk risk;
    int opportunities;           // of an alarm trial after round 10; 0: by the paper's law
    double g_cal, sigma, hazard; // hazard per round
    int grid, bins, episodes, alarm_trials;
    int n_methods;
    const char *const *methods;
    const char *fingerprint; // of the plant
} pf_kits_request;

// A checksum of what a plant does: its numbers and its probe and task responses, healthy and weak,
// disturbed and noisy, so that a changed plant is another plant whatever its name.
pf_status pf_plant_fingerprint(pf_plant *plant, char fingerprint[65], pf_error *error);

// Names everything that the kits depend on, for caches.
void pf_kits_key(const pf_kits_request *request, char key[65]);

pf_status pf_kits_calibrate(pf_trial_kits *kits, const pf_kits_request *request, pf_error *error);

// Points the views into bytes that were stored before.
pf_status pf_kits_load(pf_trial_kits *kits, pf_error *error);
void pf_kits_free(pf_trial_kits *kits);

#endif
