// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_DESIGN_IMPL_H
#define PF_DESIGN_IMPL_H

#include "calibrate/source.h"
#include "search.h"
#include "calibrate/plan.h"

// Rows of a designed probe at most.
#define PF_DESIGN_STEPS 256

// --- limits.c: command levels of one mechanism

typedef struct pf_level {
    int top;         // levels are -top..top; level +-top is a full command
    double up, down; // command at level top and -top; 0: not allowed
    double rate;
    bool to_rest; // rows follow the last step, in which it is at rest
    bool zero_integral;
} pf_level;

pf_level pf__design_level(const pf_design_config *config, const pf_design_bound *bound);
double pf__design_command(const pf_level *level, int l);
// Whether the rate keeps it from its full command in one step.
bool pf__design_slow(const pf_level *level);
// Whether the levels l (one per step) obey all that concerns one mechanism, and move it.
bool pf__design_waveform_allowed(const pf_level *level, int steps, const int *l);
// Some allowed waveform; false: there is none of a simple shape.
bool pf__design_any_waveform(const pf_design_config *config, const pf_level *level, int *l);
void pf__design_random_waveform(const pf_design_config *config, const pf_level *level, pf_rng *rng,
                                int *l);

// --- study.c: the machine and its predictor on a library under study

typedef struct pf_design_job {
    const pf_design_config *config;
    const pf_plan *plan;
    pf_plant *plant;
    const pf_model *model; // Nullable: a twin predicts
    const pf_effort *effort;
    const pf_level *levels; // n_mech
    int rows;               // longest response: a designed probe or a single pulse
    int n_scale;            // 1 or rows
    double *scale;          // n_scale x n_chan
    double *return_scale;   // n_chan
    int n_residuals;
    double *residuals; // n_residuals x (rows x n_chan), scaled, about the mean of their command
    int freedom;       // degrees of it left
    double *variance;  // rows x n_chan of them
    double shrink;     // weight of the variances alone in what the exchange sees of the covariance
    pf_arena arena;    // what lasts as long as the job
} pf_design_job;

typedef struct pf_study {
    pf_plan plan; // the job's with other probes
    pf_plant_source c;
    pf_arena arena;
} pf_study;

// Streams of the design, indices of PF_PURPOSE_DESIGN.
enum {
    PF_STREAM_START = 0,   // starts that sensitivities and signatures are taken from
    PF_STREAM_NOISE = 1,   // nominal residuals
    PF_STREAM_CONFIRM = 2, // episodes of the confirmation
    PF_STREAM_DRAW = 3     // waveforms
};

// Charge of a row in the plan's single pulses.
double pf__design_charge(const pf_plan *plan);

pf_key pf__design_key(const pf_design_job *job, uint64_t index, uint64_t stream);

// A library with the scales of the job, or with its own as calibration would find them; `still`
// appends a probe without any command. Close follows whatever it returned.
pf_status pf__study_open(pf_study *study, const pf_design_job *job, int n,
                         const pf_plan_probe *probes, bool still, bool own_scales, pf_error *error);
void pf__study_close(pf_study *study);

// Runs a probe on the machine with mechanism `weak` (0: none) at g_cal: where it began into the
// worker's `start`, what it did into `response`.
pf_status pf__study_machine(pf_study *study, int worker, int probe, int weak, pf_key key,
                            pf_error *error);
// What the predictor expects from a start: the raw nominal response into the worker's `nominal`,
// and with `signatures` those of all targets, scaled, into `signatures`.
pf_status pf__study_predict(pf_study *study, int worker, int probe, const double *start,
                            bool signatures, pf_error *error);
// A start, and what the machine is expected to do from there when left alone (window numbers);
// still: the probe without a command.
pf_status pf__study_rest(pf_study *study, int worker, int still, pf_key key, double *start,
                         size_t window, double *response, pf_error *error);
// Turns `response` into the scaled residual and matches it with `signatures`. Nullable: out
void pf__study_match(pf_study *study, int worker, int probe, pf_match *out);

// Scales, then nominal residuals under random allowed commands and their covariance.
pf_status pf__study_noise(pf_design_job *job, pf_error *error);

// Covariance of the products of residuals with the signatures (n x window) into noise (n x n). Not
// shrunk: of given signatures it is unbiased. projections needs n x n_residuals doubles.
void pf__study_covariance(const pf_design_job *job, int n, int window, const double *signatures,
                          double *projections, double *noise);

// --- sensitivity.c: superposition of impulses

typedef struct pf_sensitivity {
    int n_starts, steps, n_mech, n_columns; // column ((j - 1) * steps + r) * 2 + (level < 0)
    double *gram;                           // n_starts x n_columns x n_columns
    double *noise;                          // the same
    int n_moves;                            // rows x bounded outputs
    double *move;                           // n_starts x n_columns x n_moves, over what is allowed
    const pf_level *levels;                 // n_mech
    const pf_design_config *config;
    pf_arena arena;
} pf_sensitivity;

// Free follows whatever it returned.
pf_status pf__sensitivity_find(pf_sensitivity *s, pf_design_job *job, pf_error *error);
void pf__sensitivity_free(pf_sensitivity *s);

// --- exchange.c: waveforms of one group

typedef struct pf_exchange pf_exchange;

// Works for groups of up to `most` mechanisms; every move of a bounded output counts `factor`
// times. NULL: out of memory.
pf_exchange *pf__exchange_create(const pf_sensitivity *s, int most, double factor);
void pf__exchange_destroy(pf_exchange *x);

// Sets the group and its levels (n x steps); false: the outputs would move too far.
bool pf__exchange_set(pf_exchange *x, int n, const int *group, const int *levels);
// Random levels; false: none were found that keep the outputs within bounds.
bool pf__exchange_draw(pf_exchange *x, int n, const int *group, pf_rng *rng);
// Random levels whatever the outputs do, for the exchange to bring within bounds.
void pf__exchange_draw_freely(pf_exchange *x, int n, const int *group, pf_rng *rng);
// Every mechanism at full level in one direction throughout, or as near to it as it may be.
void pf__exchange_draw_holds(pf_exchange *x, int n, const int *group, pf_rng *rng);
// Changes one level after the other, and with `thorough` two at a time, while that lowers the cost
// and at most `sweeps` times round; with bounded outputs also one level of one mechanism together
// with one of another that makes up for it. Gives the cost: the sum of the fourth powers of the
// variances of the coefficients over targets and starts.
double pf__exchange_improve(pf_exchange *x, bool thorough, int sweeps);
double pf__exchange_cost(const pf_exchange *x);
// Whether any output is bounded, and whether those that are stay where they may be.
bool pf__exchange_bounded(const pf_exchange *x);
bool pf__exchange_within(const pf_exchange *x);
const int *pf__exchange_levels(const pf_exchange *x);
// What a variance of a coefficient means; 0: nothing can be told.
double pf__exchange_apart(double variance);
// Separation of each target, from the mean variance over starts. Gives the smallest.
double pf__exchange_separation(pf_exchange *x, double *separation);

// The variances of the least-squares coefficients from the Gram matrix of the signatures and the
// covariance of their products with noise, both n x n. work needs 3 n n doubles. remaining:
// |h'|/|h| (Nullable). Gives how many signatures cannot be told from others; then nothing can.
int pf__exchange_variance(int n, const double *gram, const double *noise, double *work,
                          double *variance, double *remaining);

// --- groups.c: who shares a probe

// The best exchange-designed levels (n x steps) for a group out of `starts` random ones, and up to
// `keep` runners-up after them, best first. Moves of bounded outputs count `factor` times. Gives
// how many.
int pf__groups_design(const pf_design_job *job, const pf_sensitivity *s, int n, const int *group,
                      double factor, int starts, int keep, int *levels, pf_error *error);

// Whether the constraints let these mechanisms act together.
bool pf__groups_allowed(const pf_design_config *c, int n, const int *group);

// Divides the candidates in `members` into k groups, as well as a local search can; false: the
// constraints do not allow it, or separations stay far below `least`.
bool pf__groups_divide(const pf_design_job *job, pf_exchange *x, int n, const int *members, int k,
                       double least, int *group_of, double *smallest);

// --- measure.c

// Adds predicted separations, collinearity and excursions to a library whose probes are set.
pf_status pf__measure_predict(pf_design_job *job, pf_design_library *library, pf_error *error);
// Adds what simulated episodes say, and the extremes.
pf_status pf__measure_confirm(pf_design_job *job, pf_design_library *library, pf_error *error);
// The smallest confirmed separation and the worst move of what the library holds now.
void pf__measure_extremes(const pf_design_job *job, pf_design_library *library);
// Whether the predicted moves of the outputs stay within bounds.
bool pf__measure_within(const pf_design_job *job, const pf_design_probe *probe);
// Smallest predicted separation of a probe, -1: of all.
double pf__measure_smallest(const pf_design_library *library, int probe);
// Room for a library of these probes, from the job's arena; commands are copied.
pf_status pf__measure_library(pf_design_job *job, const char *family, int n,
                              const pf_plan_probe *probes, pf_design_library *library,
                              pf_error *error);

// --- families.c: how others would do it

// The library of one family with the fewest probes that reach the target, predicted and confirmed.
pf_status pf__family_measure(pf_design_job *job, const char *family, pf_design_library *library,
                             pf_error *error);
// What of the constraints a library breaks, into library->broken.
void pf__family_check(const pf_design_job *job, pf_design_library *library);

// --- families.c: what others would send, unit waveforms (n x steps) in -1..1

void pf__family_hadamard(int n, int steps, double *wave);
// Sums of harmonics of their own for each; n may be at most steps / 2. Phases keep the peak low.
void pf__family_multisine(int n, int steps, double *wave);

// --- design.c

// A design under way.
typedef struct pf_maker {
    pf_design_job *job;
    pf_sensitivity *s;
    pf_exchange *x;
    int n_strong, n_alone; // candidates that share probes, and those that do not
    int *strong, *alone;
    pf_design_library best;
    int best_good, best_covered; // see keep_best
    int best_designed;
    double best_smallest; // confirmed separation of the designed ones
} pf_maker;

// Share of the target that a prediction must reach to be worth confirming.
double pf__design_share(const pf_maker *maker);
bool pf__design_same(const pf_plan *plan, const pf_plan_probe *a, const pf_plan_probe *b);

// --- groups.c, strong and weak candidates

// Candidates that a quick look separates share probes; the others keep to themselves.
pf_status pf__candidates_sort(pf_maker *maker, pf_error *error);
// The best partner of a mechanism in a probe of two, and what a quick look gives it there; 0: none.
int pf__candidates_partner(pf_maker *maker, int mechanism, double *value);

#endif
