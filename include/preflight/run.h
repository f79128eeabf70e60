// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PREFLIGHT_RUN_H
#define PREFLIGHT_RUN_H

#include "preflight/model.h"
#include "preflight/plant.h"
#include "preflight/session.h"

#ifdef __cplusplus
extern "C" {
#endif

// From a machine to a verdict. A machine answers probes. A predictor says what to expect. The drive
// loop asks and tells until the session is done. The session certifies. A flight shows what really
// happens. pf_check does all but the flight in three calls.

// --- a machine answers probes

// The answer to one probe. The memory is the machine's and stays valid until its next answer.
typedef struct pf_answer {
    const double *response; // rows x n_chan, raw units
    const double *start;    // n_start numbers that a prediction starts from. Nullable.
    int n_start;
} pf_answer;

// Anything that answers a probe: a simulated plant, recordings, a rig of one's own. The drive loop
// derives a key for every probe; a machine that draws nothing at random ignores it.
typedef struct pf_machine {
    void *self;              // Not owned.
    const char *environment; // What its random streams are named after.
    pf_status (*answer)(void *self, int probe, pf_key key, pf_answer *answer, pf_error *error);
    // Runs a rehearsal that was asked for. Nullable: it cannot, and tasks stay not rehearsed.
    pf_status (*rehearse)(void *self, const pf_ask *ask, pf_key key, pf_answer *answer,
                          pf_error *error);
} pf_machine;

// A plant, possibly with faults, watched through its sensors. It runs a kit's probes the way the
// real machine would. All memory is the caller's.
typedef struct pf_rig {
    pf_plant *plant;
    const pf_kit *kit;
    const double *gains; // n_mech. Nullable: healthy
    // Where the last probe began: the larger of the plant's and the kit's n_state, and one more.
    // It holds the plant's state, or with a kit of a learned model the channels.
    double *start;
    double *response;       // rows x n_chan of the last probe or rehearsal, the longest of both
    bool own_noise;         // the machine has sensor noise of its own: none is added here
    const pf_fault *faults; // with their units. Nullable: none
    int n_faults;
} pf_rig;

// Runs one probe from a fresh reset, with disturbance and sensor noise, into rig->start and
// rig->response. Where the plant declares no sensor noise it is added, unless own_noise. Faults of
// channels act last, on what would be read of response and told start.
PF_API pf_status pf_rig_run(pf_rig *rig, int probe, pf_key key, pf_error *error);
// The same for the command or policy of a rehearsal.
PF_API pf_status pf_rig_rehearse(pf_rig *rig, const pf_ask *ask, pf_key key, pf_error *error);

// The rig as a machine; it must stay where it is.
PF_API pf_machine pf_rig_machine(pf_rig *rig);

// --- predictors

// Makes the predictor of a kit. A kit that was calibrated with a learned model predicts with its
// mean; another model is refused. Other kits predict with the twin, a plant that is rolled from the
// saved start. Its knobs may make it differ from the machine. A kit from recordings predicts by
// itself: *predictor is then {NULL, NULL}. kit, twin and model must outlive the predictor.
// Nullable: twin and model, whichever the kit does not use. All memory is taken here. One thread
// owns the predictor.
PF_API pf_status pf_predictor_create(pf_predictor *predictor, const pf_kit *kit, pf_plant *twin,
                                     const pf_model *model, pf_error *error);
PF_API void pf_predictor_destroy(pf_predictor *predictor); // Only of pf_predictor_create.

// Predictions that came with a response take the place of a predictor. They are of one probe, whose
// window is rows x n_chan. The memory is the caller's and holds what the stage of the session
// needs.
typedef struct pf_given {
    const pf_session *session;
    double *nominal; // window
    double *fault;   // targets x window: at g_cal, in stage 2 with several faults at gain 1
    double *grid;    // targets x gains x window
    double *nearest; // window: what was predicted for the nearest hypothesis. Nullable: a straight
                     // line through nominal and fault
    // Of a rehearsal: responses in the order that the session asks for them, each as long as the
    // rehearsal: the uncorrected command, then the free response or per task and edge of its group.
    double *runs;
    int n_runs;
    int next_run; // of them
} pf_given;

// given must stay where it is.
PF_API pf_predictor pf_given_predictor(pf_given *given);

// --- the drive loop

// How a session is driven. Keys are (seed, environment, trial, purpose, opportunity); recovery
// probes have PF_PURPOSE_RECOVERY. Hooks are Nullable.
typedef struct pf_drive {
    uint64_t seed, trial;
    pf_purpose purpose;
    bool only_stage1;
    int most;                 // opportunities of stage 1 at most; 0: the kit's budget
    const volatile int *stop; // nonzero: PF_ERR_INTERRUPTED. Nullable.
    void *self;
    void (*after_ask)(void *self, const pf_ask *ask);
    // What to predict with instead of inner; both stay valid for one tell.
    pf_predictor (*watch)(void *self, const pf_predictor *inner, const pf_ask *ask);
    void (*after_tell)(void *self, const pf_ask *ask, const pf_answer *answer);
} pf_drive;

// Of a check: PF_PURPOSE_EVALUATION, everything else zero.
PF_API pf_drive pf_drive_default(void);

// Asks, runs and tells until the session is done, or until stage 1 ends with `only_stage1`.
// predictor is Nullable for a kit from recordings, which predicts by itself.
PF_API pf_status pf_drive_session(pf_session *session, const pf_machine *machine,
                                  const pf_predictor *predictor, const pf_drive *drive,
                                  pf_error *error);

// --- a whole check

// One readiness check of a simulated or external machine: session, rig and predictor with their
// memory.
typedef struct pf_check pf_check;

typedef struct pf_check_config {
    pf_plant *machine;     // what is checked
    const double *gains;   // n_mech: what its mechanisms deliver; copied. Nullable: healthy
    pf_plant *twin;        // what predicts. Nullable: the machine itself (pure simulation)
    const pf_model *model; // of a kit that predicts with one. Nullable.
    const char *method;    // Nullable: the kit's first
    uint64_t seed;
    const pf_fault *faults; // what else is wrong with the machine; copied, and units that are 0 are
                            // set from the kit. Nullable: nothing
    int n_faults;
} pf_check_config;

// Refuses a machine, twin or model that does not belong to the kit. Everything given must outlive
// the check. Noise is added to the sensors of the kit's own plant only.
PF_API pf_status pf_check_create(pf_check **check, const pf_kit *kit, const pf_check_config *config,
                                 pf_error *error);
PF_API void pf_check_destroy(pf_check *check); // Nullable.

// Drives the session to its end and certifies. drive is Nullable; its seed is the config's.
PF_API pf_status pf_check_run(pf_check *check, const pf_drive *drive, pf_error *error);

// Its session, for the verdict.
PF_API pf_session *pf_check_session(pf_check *check);

// --- tasks flown

// The tasks of a kit on a plant: what really happens. Owned by one thread.
typedef struct pf_flight pf_flight;

PF_API pf_status pf_flight_create(pf_flight **flight, pf_plant *plant, const pf_kit *kit,
                                  pf_error *error);
PF_API void pf_flight_destroy(pf_flight *flight); // Nullable.

// All tasks start where the reset of this key leads. References are computed when first needed and
// kept until the next start.
PF_API pf_status pf_flight_start(pf_flight *flight, pf_key reset, pf_error *error);

#define PF_METRICS_MAX 32

// One task under one hypothesis about the machine, or under the truth.
typedef struct pf_attempt {
    int task;
    int variant;               // of the tasks of a plant with measures of its own; 0 elsewhere
    pf_key key;                // of the disturbance
    const double *gains;       // n_mech. Nullable: all 1
    const double *corrections; // n_mech. Nullable: all 1; corrected commands are clipped to limits
    double *metrics;           // n_metrics of the plant, at most PF_METRICS_MAX. Nullable.
    const pf_fault *faults; // with their units; those of channels do nothing in a flight. Nullable.
    int n_faults;
} pf_attempt;

typedef struct pf_flown {
    double ret;    // return
    double nte;    // normalised tracking error, or regret over its norm; NaN where there is none
    double regret; // of a scored loop in its own units, else NaN
} pf_flown;

// Flies one task from the start, disturbed, without sensor noise. An open loop returns by its
// tracking error against the undisturbed nominal trajectory from the same start. A scored closed
// loop returns by its regret against that trajectory. Another closed loop returns what the plant
// measures.
PF_API pf_status pf_flight_fly(pf_flight *flight, const pf_attempt *attempt, pf_flown *flown,
                               pf_error *error);

// --- does this file belong to this plant

// Whether the machine is the one that the kit was calibrated for: the same mechanisms and channels,
// and for a twin the same size of state.
PF_API pf_status pf_kit_fits_machine(const pf_kit *kit, const pf_plant_info *info, pf_error *error);

// Whether the plant may predict for the kit: the machine above and the same simulator.
PF_API pf_status pf_kit_fits_twin(const pf_kit *kit, const pf_plant_info *info, pf_error *error);

// Whether this is the model that the kit was calibrated with.
PF_API pf_status pf_kit_fits_model(const pf_kit *kit, const pf_model *model, pf_error *error);

// --- as JSON, for other programs; free() the text. NULL: out of memory

PF_API char *pf_plant_json(const pf_plant *plant);
PF_API char *pf_kit_json(const pf_kit *kit);
// The verdict as if the session ended now.
PF_API char *pf_session_json(pf_session *session);

#ifdef __cplusplus
}
#endif
#endif
