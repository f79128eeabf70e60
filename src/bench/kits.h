// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_TRIAL_KITS_H
#define PF_TRIAL_KITS_H

#include "preflight/model.h"
#include "suite.h"

// Methods of one family share a kit: those of the paper's library by their statistic, which number
// the first two, and the group methods with the suite's library of group probes.
enum { PF_FAMILY_GROUP = 2, PF_FAMILIES = 3, PF_KITS_MAX = 32 };
int pf__family_of(const struct pf_own_methods *own, const char *method);

// Which methods a threshold that all share is taken from: those that the paper compares, so that
// what else a suite has changes nothing; all of them where there is none of these.
void pf__sharing_methods(int n, const char *const *methods, bool *shares);

// The kits of one (environment, seed, calibration setting): one per family that the methods need,
// with the alarm threshold of every method; with the field's verdict one per method.
typedef struct pf_trial_kits {
    void *bytes[PF_KITS_MAX]; // by family, or by method. NULL: no method needs it
    size_t n[PF_KITS_MAX];
    pf_kit *kit[PF_KITS_MAX];
} pf_trial_kits;

// Which of them a method has.
int pf__kits_place(const pf_suite *suite, int method);

// A kit whose probes the methods of a family run, for its responses: families of the paper's
// library share theirs. NULL: no method needs it.
const pf_kit *pf__kits_library(const pf_trial_kits *kits, bool group);

// Bytes of a session on the largest of them.
size_t pf__kits_session_size(const pf_trial_kits *kits);

// What the group methods get instead of the paper's library.
typedef struct pf_group_settings {
    const char *probes;  // "single", "designed" or the name of a file. NULL: by the method
    const char *library; // the text of that file. NULL: there is none
} pf_group_settings;

// What future tasks are worth: the plant's own, or one of the paper's three profiles.
typedef enum pf_risk {
    PF_RISK_OWN,
    PF_RISK_UNIFORM,
    PF_RISK_HEAD_HEAVY,
    PF_RISK_RARE_CRITICAL
} pf_risk;

// Where bytes are kept under a key, to save work: what get does not give is computed, and whether a
// put that fails matters is its own affair. Both are Nullable: nothing is kept. *bytes
// (free with free()) is NULL where there is none.
typedef struct pf_blob_store {
    void *self;
    bool (*get)(void *self, const char *key, void **bytes, size_t *n);
    bool (*put)(void *self, const char *key, const void *bytes, size_t n);
} pf_blob_store;

typedef struct pf_kits_request {
    pf_plant *plant;
    const pf_model *model; // Nullable: a twin
    uint64_t seed;
    const pf_settings *settings; // of a cell
    double amplitude;            // of the probes; NaN: the plant's
    pf_risk risk;
    int opportunities; // of an alarm trial after round 10; 0: by the paper's law
    int n_methods;
    const char *const *methods;
    const struct pf_own_methods *own; // where those that no table has are found. Nullable.
    bool old;                         // the second kit has the rules of version 0.1
    const char *fingerprint;          // of the plant
    pf_group_settings group;
    pf_blob_store nominal; // of the nominal trials
} pf_kits_request;

// A checksum of what a plant does: its numbers and its probe and task responses, healthy and weak,
// disturbed and noisy, so that a changed plant is another plant whatever its name.
pf_status pf__plant_fingerprint(pf_plant *plant, char fingerprint[65], pf_error *error);

// Names everything that the kits depend on, for caches.
void pf__kits_key(const pf_kits_request *request, char key[65]);

pf_status pf__kits_calibrate(pf_trial_kits *kits, const pf_kits_request *request, pf_error *error);

// Points the views into bytes that were stored before.
pf_status pf__kits_load(pf_trial_kits *kits, pf_error *error);
void pf__kits_free(pf_trial_kits *kits);

#endif
