// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_BANK_H
#define PF_BANK_H

#include "core/evidence.h"
#include "host/arena.h"
#include "run/ensemble.h"
#include "run/twin.h"
#include "memo.h"
#include "preflight/kit.h"
#include "preflight/plant.h"
#include "preflight/session.h"

// Physical responses of one trial, each computed when first asked for and then shared by all
// methods, and by the settings of a suite that ask in turn for the same trial: what a response says
// does not depend on who asked.

// Most opportunities and recovery probes of a trial.
enum { PF_BANK_OPPORTUNITIES = 32, PF_BANK_RECOVERIES = 8 };

// Members of a predicted return: draws of the disturbance with a twin (one where there is none),
// the networks of a learned model.
enum { PF_BANK_DRAWS = 8, PF_BANK_MEMBERS = PF_MODEL_MEMBERS };

// Starts that the alarm trials of a calm process share.
enum { PF_BANK_POOL = 32 };

// The NTE of a task over the delivered share, at nodes 0, 1/8, ..., 8, per member.
enum { PF_BANK_NODES = 65 };

typedef struct pf_evidence {
    bool known;
    pf_match *match; // by target
    double norm;
} pf_evidence;

typedef struct pf_recovery_evidence {
    bool known;
    double d_nominal;
    double *d; // targets x n_grid
} pf_recovery_evidence;

// A machine's response as it is, for what cannot be shared: predictions that depend on a belief.
typedef struct pf_bank_response {
    const double *start;    // n_state of the kit
    const double *response; // rows x n_chan
    pf_predictor predictor; // valid until the next call
} pf_bank_response;

typedef struct pf_bank {
    pf_plant *plant;       // not owned
    const pf_kit *kit;     // probes, tasks, scales
    const pf_model *model; // Nullable: a twin predicts
    pf_ensemble *ensemble; // of the model
    int n_members;
    bool any; // a trial was started: that of seed, trial, purpose and truth
    uint64_t seed, trial;
    pf_purpose purpose;
    double *truth; // n_mech: the gains once the change has happened
    long rolls;    // trajectories run, for statistics

    pf_arena arena;
    pf_evidence *evidence;          // opportunities x probes x (healthy, faulty)
    pf_recovery_evidence *recovery; // recoveries x probes x (healthy, faulty)
    double *nte;                    // tasks x members x nodes, NaN: not yet
    double *fallback;               // tasks: realised return uncorrected, NaN: not yet
    double *energy;                 // tasks: of reference minus free response
    double *reference;              // tasks x longest window
    double *start;                  // of the tasks
    double *initial;                // channels there
    double *table;                  // responses of a member at every node, and its work space
    double *table_gains;            // nodes x mechanisms
    bool started;
    size_t task_window;
    pf_memo memo; // of a process
    double *pool; // starts that alarm trials of a calm plant share. Nullable.
    bool *pool_known;

    pf_twin twin;
    double *gains, *begin, *response, *nominal, *predicted, *residual, *still; // work space
    double *signatures, *scratch; // of the largest probe
} pf_bank;

// Memory for trials of a plant and kit, with a model where the kit is one of a learned model; all
// must outlive it.
pf_status pf_bank_init(pf_bank *bank, pf_plant *plant, const pf_kit *kit, const pf_model *model,
                       pf_error *error);
void pf_bank_free(pf_bank *bank);

// Healthy trials of a calm plant start at one of a few states from now on, for its nominal residual
// is the sensors' noise and each start costs a message.
pf_status pf_bank_pool(pf_bank *bank, pf_error *error);

// Starts a trial, in which n mechanisms change to these gains, and forgets any other.
void pf_bank_start(pf_bank *bank, uint64_t seed, uint64_t trial, pf_purpose purpose, int n,
                   const int *mechanisms, const double *gains);

// The randomness of the trial at hand for a purpose, the same for all methods.
pf_key pf_bank_stream(const pf_bank *bank, pf_purpose purpose, int index);

// What the response to a probe at an opportunity says; faulty: the fault is present.
pf_status pf_bank_stage1(pf_bank *bank, int opportunity, int probe, bool faulty,
                         const pf_evidence **out, pf_error *error);
// The response to the recovery probe number `index`, valid until the next call.
pf_status pf_bank_recovery(pf_bank *bank, int index, int probe, bool faulty, pf_bank_response *out,
                           pf_error *error);
// Its discrepancies, one change at a time.
pf_status pf_bank_stage2(pf_bank *bank, int index, int probe, bool faulty,
                         const pf_recovery_evidence **out, pf_error *error);

// Predicted NTE of a task when its mechanism delivers the share, for a member: local parabola
// through the nearest nodes.
pf_status pf_bank_nte(pf_bank *bank, int task, int member, double share, double *nte,
                      pf_error *error);

// Realised return of a task under a correction of its mechanism.
pf_status pf_bank_fly(pf_bank *bank, int task, double correction, double *ret, pf_error *error);

#endif
