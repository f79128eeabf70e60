// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_KIT_FIXTURE_H
#define PF_KIT_FIXTURE_H

#include "preflight/preflight.h"
#include "core/kit_layout.h"

// A small kit made by hand, in memory, with a machine whose responses are linear in the loss of
// gain. Everything is drawn from the seed. Take the defaults, change what the test is about.
typedef struct pf_fixture_config {
    uint64_t seed;
    int m;            // candidates
    int n_bins;       // K
    int n_grid;       // G, evenly on [.15, .95]
    int rows, n_chan; // longest window; every second probe is one row shorter
    int n_probes;     // 0: m
    int targets;      // of each probe; probe q targets q + 1, q + 2, ... (mod m)
    int n_members;    // of the return table
    int scale_rows;   // 1: one scale per channel, else one per row as well
    bool norm;        // the statistic of the baselines
    bool field;
    bool cross;           // every probe has full rows
    bool curve;           // z has a calibrated curve
    bool recorded;        // the kit holds its responses, so NULL is a predictor
    bool whiten;          // every probe has a whitening factor: the identity, to be edited
    bool looks;           // the joint posterior, calibrated for responses with `noise`
    bool misfit;          // and how badly a machine may fit
    pf_rehearse rehearse; // none: the kit has no room for rehearsals
    bool bounded;         // rehearsals have limits: far away, to be edited
    bool blind;           // a rehearsal does not see what adds the same to all its numbers
    double noise;         // of the machine, in units of the scale
    pf_faults faults;
    pf_stop stop;
    int budget1, budget2;
    double prior0; // prior mass of "nothing changed", the rest evenly
    double hazard;
    double threshold;
    double j_min;
    double disorder;    // 0: rows that separate well, 1: random rows
    const char *method; // the only one; NULL: all methods of the statistic
} pf_fixture_config;

typedef struct pf_fixture {
    pf_kit kit; // a view of the arrays below
    pf_fixture_config config;
    struct { // the kit's arrays, to be edited by a test
#define X(id, type, field, count) type *field;
        PF_KIT_ARRAYS(X)
#undef X
    } at;
    int window;        // doubles of the longest response
    double *base;      // n_probes x window: responses when nothing changed
    double *direction; // n_targets x window: what losing all of the target adds
    double *effect;    // n_mech x n_chan: what a command of 1 adds to a row of a rehearsal
} pf_fixture;

pf_fixture_config pf_fixture_config_default(void);

// Never NULL; the kit passes pf_kit_check (checked). pf_fixture_free takes it back.
pf_fixture *pf_fixture_create(const pf_fixture_config *config);
void pf_fixture_free(pf_fixture *fixture);

// Again from base and direction: edges around the scores, and the recorded responses.
void pf_fixture_refit(pf_fixture *fixture);

// What the machine answers to a probe when `mechanism` has `gain` (0 or a non-target: nothing
// changed) and the others theirs; noise in units of the scale, rng may be NULL without it.
void pf_fixture_response(const pf_fixture *fixture, const pf_hypothesis *hypothesis, double noise,
                         pf_rng *rng, double *response);

// What it does in a run of a command (NULL: the policy of the task, under a correction, Nullable),
// with the gains of the run.
void pf_fixture_run(const pf_fixture *fixture, const pf_run *run, const double *correction,
                    double noise, pf_rng *rng, double *response);

// The machine's own response without noise as a model, plus the sum of the start state, if any.
pf_predictor pf_fixture_predictor(pf_fixture *fixture);

// A session in memory of its own, to be freed with free(). Method NULL: the kit's first.
pf_session *pf_fixture_session(const pf_fixture *fixture, const char *method, uint64_t seed);

// Tells the outstanding probe the machine's response under (mechanism, gain).
pf_status pf_fixture_tell(pf_fixture *fixture, pf_session *session, int mechanism, double gain,
                          double noise, pf_rng *rng);

// A random distribution of n entries, none below floor.
void pf_fixture_simplex(pf_rng *rng, int n, double floor, double *p);

#endif
