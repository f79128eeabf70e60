// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PREFLIGHT_SESSION_H
#define PREFLIGHT_SESSION_H

#include "preflight/kit.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- predictions

// One hypothesis about one run of a probe. Mechanism 0 with gain 1 is "nothing changed".
typedef struct pf_hypothesis {
    int probe;
    int mechanism;
    double gain;
    const double *others; // n_mech gains that hold for all other mechanisms. Nullable: 1
} pf_hypothesis;

// One run of a command that is no probe, or of a closed loop: what a rehearsal is compared with.
typedef struct pf_run {
    int task;              // the first of those that run
    const double *command; // rows x n_mech, uncorrected. NULL: the policy of the task
    int rows;
    bool idle;           // the command is zero throughout: the free response
    const double *gains; // n_mech. Nullable: 1
} pf_run;

// A predictor says what the model expects. The core asks for one hypothesis at a time and knows
// nothing else of the model. It may be a twin, a learned ensemble (its mean), recordings in the kit
// or the caller's own numbers.
typedef struct pf_predictor {
    void *self; // Not owned.
    // Writes the response (rows x n_chan, raw units) that the model expects from the saved start
    // state (n_start doubles, Nullable when n_start is 0).
    pf_status (*predict)(void *self, const pf_hypothesis *hypothesis, const double *start,
                         int n_start, double *response, pf_error *error);
    // The same for a run that is no probe. Nullable: nothing can be rehearsed.
    pf_status (*run)(void *self, const pf_run *run, const double *start, int n_start,
                     double *response, pf_error *error);
} pf_predictor;

// --- a session

// The state of one readiness check: ask, tell, ask, tell, verdict. It is in the caller's memory.
// Nothing is allocated after init. A call that fails leaves the session exactly as it was.
typedef struct pf_session pf_session;

typedef struct pf_session_config {
    const char *method;    // NULL: the kit's first method.
    uint64_t seed;         // Only the random methods use it.
    const pf_rules *rules; // Copied. NULL: the kit's.
    const pf_method *own;  // A row of yours with PF_RULE_OWN, which must outlive it; its id is in
                           // the kit. Nullable: `method` is one of the table's.
} pf_session_config;

PF_API pf_session_config pf_session_config_default(void);

// Bytes a session on this kit needs, 0 if the kit is not valid.
PF_API size_t pf_session_size(const pf_kit *kit);

// Lays a session into mem (aligned to 16). The kit must outlive it. Config may be NULL.
PF_API pf_status pf_session_init(pf_session **session, const pf_kit *kit,
                                 const pf_session_config *config, void *mem, size_t bytes,
                                 pf_error *error);

// A fresh session on the same kit and config.
PF_API void pf_session_reset(pf_session *session);

// A rehearsal runs the corrected command of a task, or of several tasks at once, before they are
// go.
typedef enum pf_ask_kind { PF_ASK_PROBE = 0, PF_ASK_DONE = 1, PF_ASK_REHEARSAL = 2 } pf_ask_kind;

// Where a session stands.
typedef enum pf_stage {
    PF_STAGE_LOOK = 1,     // whether and where something changed
    PF_STAGE_RECOVER = 2,  // how much is left
    PF_STAGE_REHEARSE = 3, // whether it is so
    PF_STAGE_DONE = 4
} pf_stage;

#define PF_DONE_LIST(X)                                                                            \
    X(PF_DONE_NOT, "not-done")                                                                     \
    X(PF_DONE_READY, "ready")                                                                      \
    X(PF_DONE_BUDGET, "budget")                                                                    \
    X(PF_DONE_NO_ALARM, "no-alarm")                                                                \
    X(PF_DONE_SETTLED, "settled")         /* no further run can change a verdict */                \
    X(PF_DONE_UNEXPLAINED, "unexplained") /* it alarmed, and nothing says why */

typedef enum pf_done {
#define X(code, name) code,
    PF_DONE_LIST(X)
#undef X
} pf_done;

PF_API const char *pf_done_name(pf_done done);

typedef struct pf_ask {
    pf_ask_kind kind;
    int stage;      // pf_stage
    int probe;      // index in the kit, -1: it is no probe
    int rows;       // rows of the response that tell expects
    bool has_value; // false where the method has no value
    double value;   // acquisition value per charge
    pf_done why;    // when done
    // of a rehearsal; the memory is the session's, the command holds until the next tell
    int n_tasks;
    const int32_t *tasks;
    const double *command;    // rows x n_mech: corrected, within limits. NULL: the task's policy
    const double *correction; // n_mech: what the policy multiplies its commands by
} pf_ask;

// The next probe or rehearsal, or done. The first ask after a tell opens an opportunity (hazard,
// choice); asking again gives the same answer.
PF_API pf_ask pf_session_ask(pf_session *session);

// Whether a probe is outstanding, and which (Nullable). It never opens an opportunity.
PF_API bool pf_session_outstanding(const pf_session *session, pf_ask *ask);

// What a response says about one target of its probe.
typedef struct pf_match {
    double score;       // S_j = <r, h'>/|h'| (Eq. matched_score), or |r| for the norm statistic.
    double coefficient; // <r, h'>/<h', h>, the least-squares amplitude of the signature.
    double remaining;   // |h'|/|h|: what decorrelation left of the signature, 1 for one target.
    bool usable;        // False: h = 0 or the others span h; the target is skipped.
    double size;        // |h|
    double off;         // rms of what no signature explains of the residual; 0 where unknown
} pf_match;

// What stage 1 read from a response about one target.
typedef struct pf_reading {
    int mechanism;
    bool usable;       // false: signature vanished among the others', nothing was learned
    double score;      // NaN when not usable
    int category;      // -1 when not usable
    double coordinate; // NaN where the statistic has none
    bool gate;         // the coordinate was admitted
    double ratio;      // p(c | changed)/p(c | nominal), 1 when not usable
    bool plausible;    // false: no healthy or weakened machine of the model answers like this
} pf_reading;

typedef struct pf_tell {
    int probe;              // -1: a rehearsal
    const double *response; // rows x channels, raw units
    int rows;
    int channels;
    const double *start; // saved start state for the predictor. Nullable.
    int n_start;
    int n_tasks; // of a rehearsal: what was asked for
    const int32_t *tasks;
} pf_tell;

// The response of the outstanding probe or rehearsal. predictor may be NULL for a kit with recorded
// responses. A rehearsal changes no belief.
PF_API pf_status pf_session_tell(pf_session *session, const pf_tell *tell,
                                 const pf_predictor *predictor, pf_error *error);

// What a response says. It is computed once and told to several sessions on kits with the same
// probes: experiments compare methods on the same responses.
typedef struct pf_evidence {
    const pf_match *match; // stage 1: per target; one under the norm statistic
    double d_nominal;      // stage 2, one fault at most: discrepancy with nothing changed
    const double *d;       // and n_targets x n_grid: with each target at each gain
    const double *size; // |h| per target at the weakest gain. Nullable where rules are not field.
} pf_evidence;

// Tells the outstanding probe by its evidence; everything after it is the same as after a response.
// With several faults the predictions of stage 2 depend on the belief, so only stage 1 can be told.
PF_API pf_status pf_session_tell_evidence(pf_session *session, const pf_evidence *evidence,
                                          pf_error *error);

// Gives up the outstanding probe: no charge, the opportunity counts, and the probe is not asked
// again in this session. A rehearsal that is given up leaves its tasks not rehearsed.
PF_API pf_status pf_session_skip(pf_session *session, pf_error *error);

// Ends stage 1 now and withdraws an outstanding probe.
PF_API pf_status pf_session_stage2(pf_session *session, pf_error *error);

// --- what it believes

// The joint belief b2 over (location, gain): the only state that recovery, correction, predicted
// return and certificate read (invariant 3).
typedef struct pf_joint {
    int m;
    int n_grid;
    const double *grid; // n_grid gains
    double nominal;     // mass of H = 0
    double *mass;       // m x n_grid; mass[(i-1)*n_grid + k] of (H = i, g = grid[k])
    // With PF_FAULTS_MANY the rows are independent: mass[..] is the probability that i changed and
    // has that gain, whatever the others have, and nominal the product of "did not change".
    pf_faults faults;
    bool cells; // the joint posterior of a field kit: each mass is spread evenly over its cell
    // m: P(i did not change) with PF_FAULTS_MANY, kept apart where a later look must be able to
    // bring back what an earlier one left next to nothing of. Nullable: 1 - the row's sum.
    double *healthy;
} pf_joint;

// Moments of G_i under the joint belief, with G_i = 1 where i did not change.
typedef struct pf_moments {
    double changed;     // P(i changed)
    double mean;        // E[G_i]
    double mean_square; // E[G_i^2]
} pf_moments;

// Moments, and the central 90 % interval of G_i on the grid and 1: the lowest values whose
// cumulative mass reaches .05 and .95. With cells it is that of the gain if i changed.
PF_API pf_moments pf_joint_moments(const pf_joint *joint, int mechanism);
PF_API void pf_joint_interval(const pf_joint *joint, int mechanism, double *lo, double *hi);

// Where a session stands.
typedef struct pf_session_state {
    int stage;         // pf_stage
    int told;          // responses accepted, all stages
    int rehearsals;    // of them
    int opportunities; // of stage 1, opened so far
    double charge;     // spent
    bool alarm;
    int alarm_opportunity; // from 0, -1 without alarm
    double threshold;      // of the alarm
    double change;         // belief in a change, on which the alarm acts
    double peak;           // its largest value after an update
    bool named;            // a mechanism is rather changed than not
    bool doubt;            // only a clean rehearsal apart makes a task go: misfit, or an alarm
                           // without a loss to name
    bool explained;        // the alarm: a loss is named without misfit, or every task ran clean
    // Whether the looks fit no machine of the model: above 1, or an implausible look.
    double misfit;
    int misfit_channel; // that speaks loudest, -1: the coordinates do
    int misfit_look;    // and since which run, from 1; 0: none
    int implausible;    // looks
    // Recovery probes need predictions at every gain of the grid, not at g_cal alone: kits without
    // the joint posterior.
    bool per_gain;
} pf_session_state;

PF_API pf_session_state pf_session_get_state(const pf_session *session);

// Read access. Arrays stay valid until the next call that changes the session.
PF_API const pf_kit *pf_session_kit(const pf_session *session);
PF_API const pf_method *pf_session_method(const pf_session *session);
// m + 1 numbers: P(H = i), which sum to 1; with several faults entry i is P(i changed) by itself
// and entry 0 P(nothing changed), their product.
PF_API const double *pf_session_belief(const pf_session *session);
PF_API const double *pf_session_severity(const pf_session *session);             // m x grid
PF_API const pf_reading *pf_session_readings(const pf_session *session, int *n); // last tell
PF_API bool pf_session_probed(const pf_session *session, int mechanism);
// Whether the last rehearsal told passed, and its distance to the prediction (Nullable).
PF_API bool pf_session_rehearsed(const pf_session *session, double *distance);
// The joint belief. In stage 1 it is the one that stage 2 would start from.
PF_API pf_joint pf_session_joint(pf_session *session);
// What all mechanisms but the target at hand have in the predictions of stage 2 with several
// faults: n_mech mean gains. NULL: the session is not there.
PF_API const double *pf_session_others(pf_session *session);

// --- what it answers

// What is decided for a task, and why. An abstention is an outcome, not an error.
// Go-if is go under a condition that `why` names.
typedef enum pf_decision { PF_NO_GO = 0, PF_GO = 1, PF_GO_IF = 2 } pf_decision;

PF_API const char *pf_decision_name(pf_decision decision);

// Code, name in files, and what it means to a person.
#define PF_WHY_LIST(X)                                                                             \
    X(PF_WHY_NOT_PROBED, "not-probed", "a mechanism it needs was not probed")                      \
    X(PF_WHY_TOO_STRONG, "too-strong",                                                             \
      "a mechanism it needs is too strong for its probes to judge")                                \
    X(PF_WHY_CONFLICT, "conflict", "more than one mechanism seems to have changed")                \
    X(PF_WHY_OFF_GRID, "off-grid", "less is left than the model can say")                          \
    X(PF_WHY_MISFIT, "misfit", "the responses fit no machine of the model")                        \
    X(PF_WHY_UNEXPLAINED, "unexplained", "it alarmed, and nothing says why")                       \
    X(PF_WHY_REHEARSAL, "rehearsal", "it did not come out well when it was rehearsed")             \
    X(PF_WHY_NOT_REHEARSED, "not-rehearsed", "its corrected command was not rehearsed")            \
    X(PF_WHY_UNSEEN_LOSS, "unseen-loss", "a loss that no probe shows is not ruled out")            \
    X(PF_WHY_BOUND, "bound", "the bound is below the requirement")                                 \
    X(PF_WHY_CERTIFIED, "certified", "the bound meets the requirement")

typedef enum pf_why {
#define X(code, name, text) code,
    PF_WHY_LIST(X)
#undef X
} pf_why;

PF_API const char *pf_why_text(pf_why why);
PF_API const char *pf_why_name(pf_why why);

// How a task was rehearsed.
typedef enum pf_rehearsed {
    PF_REHEARSED_NOT = 0,
    PF_REHEARSED_GROUP,
    PF_REHEARSED_APART
} pf_rehearsed;

PF_API const char *pf_rehearsed_name(pf_rehearsed rehearsed);

typedef struct pf_task_readiness {
    double mean;
    double sd;
    double lower;
    pf_decision decision;
    pf_why why;
    pf_rehearsed rehearsed;
    double unseen[2]; // of an unseen loss: the gains it would have
} pf_task_readiness;

typedef struct pf_mechanism_readiness {
    double changed;
    double mean_gain;   // E[G]; with the joint posterior E[G] if it changed
    double interval[2]; // 90 %, of the same
    double correction;
    bool probed; // a reading spoke for or against a loss, or the looks say that it is too strong
} pf_mechanism_readiness;

// Answers as if the session ended now, from the kit's return table. The session goes on as before.
// Eq. readiness_certificate is what a bound promises. Read the results with the two getters below.
// A call that changes the session turns every task back to no-go.
PF_API void pf_session_certify(pf_session *session);
PF_API const pf_task_readiness *pf_session_task(const pf_session *session, int task);
// mechanism 1..m
PF_API const pf_mechanism_readiness *pf_session_mechanism(const pf_session *session, int mechanism);

#ifdef __cplusplus
}
#endif
#endif
