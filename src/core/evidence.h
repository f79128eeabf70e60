// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_EVIDENCE_H
#define PF_EVIDENCE_H

#include "score.h"

// From a response to what it says about the targets of its probe: residual and signatures
// (Eq. residual_signature), then the match (Eq. matched_score). Session, calibration, design and
// experiments all come through here. A window is rows x n_chan numbers.
typedef struct pf__evidence {
    // the probe and how its windows are compared, see pf__evidence_set
    int probe, rows, n_chan;
    int n_targets;
    const int32_t *targets; // mechanisms
    double g_cal;           // gain of the signatures
    const double *scale;    // n_scale rows of n_chan
    int n_scale;
    const double *whiten;  // Nullable: inner products are plain
    const double *inverse; // window: 1/scale. Nullable: a single target takes no short cut
    bool norm;             // the statistic is the norm of the residual
    // where predictions come from
    pf_predictor predictor;
    const double *start; // n_start numbers. Nullable
    int n_start;
    const double *others; // gains of the other mechanisms. Nullable: 1
    bool check;           // refuse numbers that are not finite
    // memory of the caller
    double *nominal;    // window: the response predicted with nothing changed
    double *predicted;  // window
    double *residual;   // window; may be the response itself
    double *signatures; // n_targets windows
    double *scratch;    // pf__match_scratch(n_targets)
} pf__evidence;

// Sets the probe's part from a kit and leaves the rest.
void pf__evidence_set(pf__evidence *e, const pf_kit *kit, int probe);

// The kit's own recorded responses as a predictor. They show one loss at a time; several add up.
pf_predictor pf__recorded_predictor(const pf_kit *kit);
// The probe with this command, -1: none.
int pf__recorded_probe(const pf_kit *kit, int rows, const double *command);

pf_status pf__evidence_predict(const pf__evidence *e, int mechanism, double gain, double *out,
                               pf_error *error);

// Predicts the nominal response into `nominal` and the scaled signatures of all targets.
pf_status pf__evidence_signatures(pf__evidence *e, pf_error *error);
// The scaled residual of a response.
void pf__evidence_residual(pf__evidence *e, const double *response);
// Whitens the residual and the signatures where the kit whitens.
void pf__evidence_whiten(pf__evidence *e);
// Matches of the residual with the signatures as they are; out has n_targets entries.
void pf__evidence_match(pf__evidence *e, pf_match *out);
// All of it: what a response says about every target. Under the norm statistic out has one entry.
pf_status pf__evidence_read(pf__evidence *e, const double *response, pf_match *out,
                            pf_error *error);

// Whether a match has a signature of the usual size; else the start hides the mechanism.
bool pf__evidence_shows(const pf_kit *kit, int probe, int target, const pf_match *match);

// The amplitude of a loss in a match (Eq. matched_coordinate): 0 healthy, 1 at g_cal.
double pf__evidence_coordinate(const pf_kit *kit, int probe, int target, const pf_match *match);

// Stage 2: mean square of the scaled difference between a response and the prediction for a
// mechanism at a gain, which stays in `predicted` (Eq. appendix_recovery_discrepancy).
pf_status pf__evidence_distance(pf__evidence *e, const double *response, int mechanism, double gain,
                                double *distance, pf_error *error);
// Size of what `predicted` changes of `nominal`, measured like a signature; uses the first one.
double pf__evidence_size(pf__evidence *e);

// Refuses a window that is not finite by naming the place.
pf_status pf__evidence_finite(const pf__evidence *e, const char *what, const double *window,
                              pf_error *error);

#endif
