// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_RESPONSES_H
#define PF_RESPONSES_H

#include "host/arena.h"
#include "run/looks.h"
#include "preflight/kit.h"
#include "preflight/plant.h"
#include "preflight/session.h"
#include "preflight/run.h"

#include <stdbool.h>

// Whether a trajectory of this plant costs more than the memory to remember it: a message to a
// process, or MuJoCo's contacts.
bool pf__responses_cost(const pf_plant_info *info);

// Predictions that were asked for before, by start and hypothesis, where the starts return. A table
// with one place for each hash: a later prediction takes the place of an earlier one. What is found
// is what would be predicted, to the bit. Hypotheses have no others.
typedef struct pf_predictions {
    double *start;    // places x (n_state + 1)
    double *response; // places x window
    pf_hypothesis *hypothesis;
    bool *known;
    size_t n_state, window, places;
} pf_predictions;

// Memory comes from the arena and goes with it. window: the longest response in numbers.
pf_status pf__predictions_init(pf_predictions *predictions, pf_arena *arena, int n_state,
                               size_t window, pf_error *error);

// NULL: not there.
const double *pf__predictions_find(const pf_predictions *predictions, const double *start,
                                   const pf_hypothesis *h);

void pf__predictions_keep(pf_predictions *predictions, const double *start, const pf_hypothesis *h,
                          const double *response, size_t n);

// Physical responses of one trial, each computed when first asked for and then shared by all
// methods, and by the settings of a suite that ask in turn for the same trial: what a response says
// does not depend on who asked.

// Most opportunities and recovery probes of a trial.
enum { PF_RESPONSES_OPPORTUNITIES = 32, PF_RESPONSES_RECOVERIES = 8 };

// Members of a predicted return: draws of the disturbance with a twin (one where there is none),
// the networks of a learned model.
enum { PF_RESPONSES_DRAWS = 8, PF_RESPONSES_MEMBERS = PF_MODEL_MEMBERS };

// Error curves of a task in the place of members: as many starts of their own.
enum { PF_RESPONSES_CURVES = 32 };

// Variants of the tasks of a plant with measures of its own: plain, and under a shock.
enum { PF_RESPONSES_VARIANTS = 2 };

// Starts that the alarm trials of a deterministic simulator share.
enum { PF_RESPONSES_POOL = 32 };

// The NTE of a task over the delivered share, at nodes 0, 1/8, ..., 8, per member.
enum { PF_RESPONSES_NODES = 65 };

typedef struct pf_stage1_answer {
    bool known;
    pf_match *match; // by target
    double norm;
} pf_stage1_answer;

typedef struct pf_stage2_answer {
    bool known;
    double d_nominal;
    double *d; // targets x n_grid
} pf_stage2_answer;

// A machine's response as it is, for what cannot be shared: predictions that depend on a belief.
typedef struct pf_recovery_response {
    const double *start;    // n_state of the kit
    const double *response; // rows x n_chan
    pf_predictor predictor; // valid until the next call
} pf_recovery_response;

typedef struct pf_responses {
    pf_plant *plant;       // not owned
    const pf_kit *kit;     // probes, tasks, scales
    pf_kit_info info;      // of the kit
    const pf_model *model; // Nullable: a twin predicts
    bool own_reference;    // a member's return is measured against what it expects itself
    bool anchored;         // members are error curves of the plant, from starts of their own
    pf_flight *anchor;     // that flies them. NULL: not anchored
    uint64_t curve_seed;   // whose curves are known
    double *curves;        // tasks x curves x nodes, NaN: not yet
    int n_members;
    int askers;     // methods that ask for the same trial one after the other
    bool has_trial; // a trial was started: that of seed, trial, purpose and truth
    uint64_t seed, trial;
    pf_purpose purpose;
    double *truth; // n_mech: the gains once the change has happened
    long rolls;    // trajectories run, for statistics

    pf_arena arena;
    pf_stage1_answer *evidence; // opportunities x probes x (healthy, faulty)
    pf_stage2_answer *recovery; // recoveries x probes x (healthy, faulty)
    double *nte;                // tasks x members x nodes, NaN: not yet
    pf_flown *fallback;         // tasks: realised uncorrected, return NaN: not yet
    double *attainable;         // variants x tasks: return with the exact correction, NaN: not yet
    double *table;              // responses of a member at every node, and its work space
    double *table_gains;        // nodes x mechanisms
    bool started;
    pf_predictions predictions; // of a plant whose trajectories cost much
    double *pool; // starts that alarm trials of a deterministic plant share. Nullable.
    bool *pool_known;

    pf_ahead *ahead; // what the next questions find answered. NULL: nothing
    double *window;  // the longest task's outputs, PF_ROLLS times. NULL: none run in step

    pf_predictor predictor;
    pf_flight *flight;                                                 // of the tasks
    double *gains, *begin, *response, *nominal, *predicted, *residual; // work space
    double *signatures, *scratch;                                      // of the largest probe
} pf_responses;

// Memory for trials of a plant and kit, with a model where the kit is one of a learned model; all
// must outlive it.
pf_status pf__responses_init(pf_responses *responses, pf_plant *plant, const pf_kit *kit,
                             const pf_model *model, pf_error *error);
void pf__responses_free(pf_responses *responses);

// The reading `certificate: anchored` of a learned model.
pf_status pf__responses_anchor(pf_responses *responses, pf_error *error);

// Healthy trials of a deterministic plant start at one of a few states from now on, for its nominal
// residual is the sensors' noise and each start costs a message.
pf_status pf__responses_pool(pf_responses *responses, pf_error *error);

// Starts a trial, in which n mechanisms change to these gains, and forgets any other.
void pf__responses_start(pf_responses *responses, uint64_t seed, uint64_t trial, pf_purpose purpose,
                         int n, const int *mechanisms, const double *gains);

// The randomness of the trial at hand for a purpose, the same for all methods.
pf_key pf__responses_stream(const pf_responses *responses, pf_purpose purpose, int index);

// What the response to a probe at an opportunity says; faulty: the fault is present.
pf_status pf__responses_stage1(pf_responses *responses, int opportunity, int probe, bool faulty,
                               const pf_stage1_answer **out, pf_error *error);

// One question of pf__responses_stage1.
typedef struct pf_question {
    pf_responses *responses;
    int opportunity, probe;
    bool faulty;
} pf_question;

// Whether questions to these are better asked together.
bool pf__responses_in_step(const pf_responses *responses);
// Whether a question is answered already.
bool pf__responses_knows(const pf_responses *responses, int opportunity, int probe, bool faulty);
// Answers n questions, all to the same plant and kit, with the bits of one after the other;
// pf__responses_stage1 then finds them.
pf_status pf__responses_looks(int n, const pf_question *looks, pf_error *error);

// The response to the recovery probe number `index`, valid until the next call.
pf_status pf__responses_recovery(pf_responses *responses, int index, int probe, bool faulty,
                                 pf_recovery_response *out, pf_error *error);
// Its discrepancies, one change at a time.
pf_status pf__responses_stage2(pf_responses *responses, int index, int probe, bool faulty,
                               const pf_stage2_answer **out, pf_error *error);

// Predicted NTE of a task when its mechanism delivers the share, for a member: local parabola
// through the nearest nodes.
pf_status pf__responses_nte(pf_responses *responses, int task, int member, double share,
                            double *nte, pf_error *error);

// Computes what pf__responses_nte needs for n shares of a task, all members at once where the plant
// can; without it each number is computed when it is asked for.
pf_status pf__responses_nte_ahead(pf_responses *responses, int task, int n, const double *shares,
                                  pf_error *error);

// One start for all tasks of the trial.
pf_status pf__responses_start_tasks(pf_responses *responses, pf_error *error);
// Flies a task from there.
pf_status pf__responses_fly(pf_responses *responses, const pf_attempt *attempt, pf_flown *flown,
                            pf_error *error);
// The same on the trial's own machine, once the change has happened; corrections are Nullable:
// none.
pf_status pf__responses_realise(pf_responses *responses, int task, const double *corrections,
                                pf_flown *flown, pf_error *error);

// What the limits allow on a task, in the place of J* (Eq. end_to_end_regret): the return of the
// trial's own machine with every command divided by what is left of its mechanism, and clipped. No
// maximum is searched for, so a flown return may be a little higher. variant: as in pf_attempt.
pf_status pf__responses_attainable(pf_responses *responses, int task, int variant, double *ret,
                                   pf_error *error);

// What the nominal trials of an alarm calibration said, by trial, opportunity and probe. Kits that
// differ in bins, episodes, methods or what tasks are worth put the same questions to the same
// machine; with a cache the simulator and the model answer them once.

// Answers of later opportunities are not kept.
enum { PF_NOMINAL_OPPORTUNITIES = 10 };

typedef struct pf_nominal_cache {
    char key[65]; // names all that an answer depends on
    int trials, probes, most;
    size_t n;       // numbers
    double *number; // per answer its norm, NaN where there is none, and `most` matches
    long fresh;     // answers since it was made or read
} pf_nominal_cache;

// An empty one for trials on the kit of these responses; fingerprint: of the plant.
pf_status pf__nominal_init(pf_nominal_cache *cache, const pf_responses *responses, uint64_t seed,
                           int trials, const char *fingerprint, pf_error *error);
void pf__nominal_free(pf_nominal_cache *cache);

// Takes over what was kept under the same key. False, and it stays as it was: these are none.
bool pf__nominal_read(pf_nominal_cache *cache, const void *bytes, size_t n);

// Gives the responses, started for a nominal trial, the answers that are there; takes those it
// found.
void pf__nominal_give(const pf_nominal_cache *cache, int trial, pf_responses *responses);
void pf__nominal_take(pf_nominal_cache *cache, int trial, const pf_responses *responses);

#endif
