// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_SOURCE_H
#define PF_SOURCE_H

#include "core/evidence.h"
#include "model/rollout.h"
#include "core/score.h"
#include "host/parallel.h"
#include "kit_build.h"
#include "preflight/session.h"
#include "run/looks.h"

// One calibration over two sources. A source (a plant with its predictor, or recordings) gives
// scales, the matches of its episodes and a return table; the fit and the alarm are the same.

// Gains that the channel for every severity is calibrated at, mixed evenly (protocol section 8):
// with g_cal alone a milder loss would fall between the classes, into a bin that says nothing.
enum { PF_SEVERITIES = 5 };
extern const double pf__severities[PF_SEVERITIES];

// Matches of some episodes of a probe at one gain: n episodes, `stride` matches apart, each with
// one match per target.
typedef struct pf_samples {
    double gain;
    int n;
    int stride;
    const pf_match *match;
} pf_samples;

typedef struct pf_source {
    void *self;
    const pf_plan *plan;
    pf_kit_build *build;
    const pf_effort *effort;
    int n_workers;

    // How scores become numbers of a kit.
    double (*centre)(int n, const double *values, double *scratch); // of the curve at a gain
    double same_gain; // a gain this near to a point of the curve is that point
    bool even;        // classes of any size are pooled 1:1: each is spread over as many scores
    bool apart;       // a kit of the paper's, too, needs 3 dispersions between the centres

    // What a refusal says.
    const char *file;      // begins it. Nullable
    const char *no_effect; // the signature of a target is nothing
    const char *no_noise;  // all nominal scores are 0. Nullable: that is no fault
    const char *stronger;  // what to do where the centres are too near

    // Scales, weights where inner products are weighted, and the matches of all episodes.
    pf_status (*read)(void *self, pf_error *error);
    // Class 0 is nominal, 1 + t is target t at g_cal. With mixed severities, 1 + n_targets + t is
    // target t at pf__severities.
    int (*classes)(const void *self, int probe);
    pf_samples (*class_samples)(const void *self, int probe, int class);
    int most_samples; // of one class
    // Points of the curve of a target: ascending gains, the last one is 1; n 0: on the line.
    int (*points)(const void *self, int probe, int target, pf_samples *out);
    int most_points;
    // Scores of a target at one severity; how many, -1: one is not finite. Nullable: the class with
    // mixed severities has them.
    int (*severity_scores)(void *self, int probe, int target, double gain, double *score);
    // Per target of the kit: squared size of the signature that all episodes share. Nullable: each
    // has its own.
    const double *energy;
    // The largest rms off the signatures without weights. Nullable: there are none.
    double (*plain_off)(const void *self, int probe);

    pf_status (*returns)(void *self, pf_error *error);
    // What answers the probes of a machine with one mechanism at a gain (mechanism 0: healthy), and
    // what predicts there (Nullable).
    pf_machine (*machine)(void *self, int worker, int mechanism, double gain,
                          const pf_predictor **predictor);
    // Whether that machine can rehearse a task, and several at once.
    bool (*can_rehearse)(const void *self, int task);
    bool groups;
} pf_source;

// The steps of every calibration, in order; free() the image.
pf_status pf__calibrate(pf_source *source, void **bytes, size_t *n_bytes, pf_error *error);

// Everything but the return table and the thresholds.
pf_status pf__calibrate_channels(pf_source *source, pf_error *error);

// --- the field's verdict: nothing is done where the kit has no room for it

// Gains that looks are calibrated at on a plant. The one at .9 matters: some coordinates are flat
// above .85.
enum { PF_LOOK_KNOTS = 9 };
extern const double pf__look_knots[PF_LOOK_KNOTS];

// How many of each the verdict takes, from the episodes and the alarm trials of the plan.
typedef struct pf_counts {
    int nominal_looks, knot_looks; // per probe, and per target and knot
    int residuals, misfits;        // per probe
    int sessions;                  // of each class
    int rehearsals;                // of each task and group
} pf_counts;

enum { PF_SESSION_CLASSES = 3 };
pf_counts pf__counts(const pf_plan *plan);

// How a channel rests: the most equal readings at the end of a response, and of a healthy machine
// the most that it moves between the readings of a start.
typedef struct pf_rest {
    int still;
    double before;
} pf_rest;

// Notes the most of each channel into rest (n_chan). Then the kit keeps the most of all runs.
void pf__rest_note(const pf_kit *kit, int rows, const pf_answer *answer, bool healthy,
                   pf_rest *rest);
void pf__rest_keep(pf_kit_build *build, const pf_rest *rest);

pf_status pf__calibrate_looks(pf_source *source, pf_error *error);
pf_status pf__calibrate_misfit(pf_source *source, pf_error *error); // after the alarm
pf_status pf__calibrate_rehearsals(pf_source *source, pf_error *error);

// --- alarm

// Stage 1 of a method's session in a nominal trial.
typedef struct pf_alarm_trial {
    int worker, method;
    uint64_t trial;
    int place; // among the trials in step
    int most;  // opportunities
    pf_session *session;
} pf_alarm_trial;

// Nominal trials of one or several methods through real sessions, over whatever answers a probe.
typedef struct pf_alarm {
    int n_methods;
    const char *const *methods;
    const pf_kit *const *kits; // per method: finished but for its thresholds
    int trials;
    const int *opportunities; // per trial: of stage 1 at most
    double rate;
    // Per method: whether its trials are among those that one threshold for all is taken from.
    // Nullable: each has its own.
    const bool *shared;
    const pf_method *const *own; // per method: its row where no table has it. Nullable.
    uint64_t seed;
    const char *environment; // what random streams are named after
    uint64_t stream;         // of the methods that draw their probes
    void *self;
    int in_step; // trials that run side by side, at most PF_ALARM_IN_STEP; 0: one
    // Before and after the methods of a trial. Nullable.
    void (*begin)(void *self, int place, uint64_t trial);
    void (*end)(void *self, int place, uint64_t trial);
    // Some trials, each with every method, the methods of a trial side by side.
    pf_status (*run_trials)(void *self, int n, const pf_alarm_trial *trials, pf_error *error);
} pf_alarm;
enum { PF_ALARM_IN_STEP = 16 };

// thresholds[i] is the smallest that at most `rate` of the trials of method i exceed, or with
// `shared` of the trials of all methods.
pf_status pf__fit_alarm(const pf_alarm *alarm, const pf_effort *effort, int n_workers,
                        double *thresholds, pf_error *error);

// The threshold of a source's kit, for the plan's method.
pf_status pf__calibrate_alarm(pf_source *source, pf_error *error);

// --- plant

int pf__plan_most_rows(const pf_plan *plan); // of the longest probe or task

// What must hold of a plant before anything is calibrated on it, checked on real trajectories: it
// repeats itself, and passive data are equal under every dormant fault; with `all` every fault has
// an effect on its own probe, too, and every task needs each mechanism that it names. The error
// names the offender. tolerance (Nullable): what counts as equal, 0: to the bit.
pf_status pf__contract_check(const pf_plan *plan, pf_plant *plant, bool all,
                             const pf_effort *effort, double *tolerance, pf_error *error);

// Each worker thread has a plant (the first one the caller's) and buffers of its own; every result
// goes to its own slot.
typedef struct pf_worker {
    pf_plant *plant;
    pf_rig rig; // the plant as a machine, with start, response and gains
    pf_predictor predictor;
    double *start;         // n_state or n_chan, whichever is more
    double *response;      // longest probe or task x n_chan
    double *nominal;       // the same
    double *predicted;     // the same
    double *signatures;    // most targets x window
    double *scratch;       // pf__match_scratch
    pf_ahead *ahead;       // what the next predictions are, where somebody computed them. NULL: no
    double *gains;         // n_mech
    double *still;         // longest probe or task x n_mech: no command at all
    pf_match *matches;     // most targets
    double *table;         // with a model: shares x longest task x n_chan
    double *table_gains;   // shares x n_mech
    double *table_scratch; // pf__model_scratch
} pf_worker;

typedef struct pf_plant_source {
    const pf_plan *plan;
    const pf_model *model; // Nullable: a twin predicts
    const pf_effort *effort;
    pf_kit_build build;
    pf_arena arena;
    int n_workers;
    pf_worker *workers;
    int in_step; // episodes of a class that run side by side
    // Slots of all episodes: per probe, class, episode, target.
    pf_match *matches;
    double *plain; // with weights: rms off the signatures without them, by slot
    size_t *first; // first slot of each probe
} pf_plant_source;

// The kind of kit that the plan and the model ask for.
pf_kit_kind pf__plant_kind(const pf_plant_source *c, const pf_plant_info *info,
                           pf_statistic statistic);

// Whether returns are those of the plant itself, not of the members of a model.
bool pf__plant_anchored(const pf_plant_source *c);

// Whether residuals are divided by the predictor's own nominal residual.
bool pf__plant_residual(const pf_plant_source *c);

// Whether the inner products of this statistic are weighted.
bool pf__plant_weighted(const pf_plant_source *c, pf_statistic statistic);

// Says how long the calibration takes (effort->estimate): `seconds` is what one row of a trajectory
// was measured to take, all workers at once.
void pf__plant_estimate(const pf_plant_source *c, double seconds);
// Rows of all trajectories that a calibration simulates or predicts; kit: laid out.
double pf__plant_rows(const pf_plan *plan, const pf_kit *kit);
// Rows that one episode of a probe simulates and predicts.
double pf__look_rows(const pf_plan *plan, int probe);

// Lays out the kit and makes the workers; free follows whatever it returned.
pf_status pf__plant_open(pf_plant_source *c, pf_plant *plant, const pf_kit_kind *kind,
                         pf_error *error);
void pf__plant_free(pf_plant_source *c);
pf_source pf__plant_source(pf_plant_source *c);

// What a response in the worker's memory says about the targets of a probe. The residual takes the
// place of the response.
pf__evidence pf__worker_evidence(const pf_plant_source *c, int worker, int probe);

// A probe on the worker's machine, watched through its sensors: response and start. gains is
// Nullable: healthy.
pf_status pf__plant_run(pf_plant_source *c, int worker, int probe, const double *gains, pf_key key,
                        pf_error *error);
// The same of a healthy machine, and what was predicted of it into w->nominal.
pf_status pf__plant_run_nominal(pf_plant_source *c, int worker, int probe, pf_key key,
                                pf_error *error);

// Channel scales: the pulse scale, and where it is asked for the residual scale.
pf_status pf__plant_scales(pf_plant_source *c, pf_error *error);
// The whitening factor of every probe, where inner products are weighted.
pf_status pf__plant_weights(pf_plant_source *c, pf_error *error);
// The table of normalised tracking errors over delivered shares, and the reach of closed loops.
pf_status pf__plant_returns(pf_plant_source *c, pf_error *error);

#endif
