// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_SESSION_IMPL_H
#define PF_SESSION_IMPL_H

#include "constants.h"
#include "evidence.h"
#include "joint.h"
#include "kit_layout.h"
#include "misfit.h"
#include "posterior.h"
#include "rehearsal.h"

struct pf_session {
    const pf_kit *kit;
    const pf_method *method;
    uint64_t seed;
    pf_rules rules;
    double threshold;
    int m, n_grid;
    int window;       // largest rows x channels
    int most_targets; // of one probe

    // where the session stands
    int stage; // pf_stage
    pf_done done;
    pf_ask ask; // the outstanding probe, kind done when there is none
    bool outstanding;
    int opportunities, recoveries, rehearsals; // asked for
    int told, rehearsed;                       // responses, those of rehearsals among them
    double charge;
    bool alarm;
    int alarm_opportunity;
    double peak;
    pf_rng rng;

    // what it believes
    double *belief;    // m + 1
    double *odds;      // m: with several faults what `belief` is made from
    double *severity;  // m x n_grid; nothing in stage 1 reads it
    pf_joint joint;    // from stage 2 on; the joint posterior from the start
    bool posterior;    // the joint posterior rules: a field kit that has looks
    double *q_healthy; // 1, with several faults m: squared distance over all looks
    double *q_gain;    // m x PF_POSTERIOR_GAINS, of the joint posterior
    int n_z;           // coordinates in them
    pf__misfit misfit;
    double *own_evidence; // m: own evidence of a mechanism, whatever the others say
    double *beyond;       // m: sum of admitted amplitudes beyond the grid's weakest gain, in sigmas
    int *admitted;        // m: how many were admitted
    int *own_readings;
    bool *probed;     // m + 1
    bool *skipped;    // n_probes
    int *implausible; // n_probes: responses that no machine of the model gives
    bool *eligible;   // n_probes, for the choice at hand
    int *schedule;    // n_probes, for PF_RULE_SCHEDULE
    pf_reading *readings;
    int n_readings;

    // rehearsals
    pf__rehearsal *rehearsal; // n_tasks
    int32_t *rehearsing;      // n_tasks: those that run, or would next
    int32_t *asked_tasks;     // n_tasks: those that were asked for last
    int group;                // that runs, -1: one task alone
    int first_group;          // that of the first run that was told
    bool other_run;           // a run besides it was told, in which its mechanisms rested
    double *rehearsal_command, *asked_command, *idle_command; // longest rehearsal x n_mech
    double *rehearsal_correction;                             // n_mech
    double *rehearsal_nominal, *rehearsal_other;              // longest rehearsal x n_chan
    double *rehearsal_work;                                   // the same, with blind directions
    double rehearsed_distance;                                // of the last one
    bool rehearsed_passed;

    // what it answers
    pf_task_readiness *tasks;           // n_tasks
    pf_mechanism_readiness *mechanisms; // m + 1, entry 0 unused

    // scratch, meaningless between calls
    pf_joint boundary;      // stage 1's joint as if it ended now; stage 2's next one
    pf_reading *next;       // readings of a tell before it is accepted
    pf_match *matches;      // most_targets
    double *inverse;        // window: 1/scale, set at init
    pf__evidence *evidence; // of the response that is told
    double *new_belief;     // m + 1
    double *new_odds;       // m
    double *others;         // m + 1: gains of the other mechanisms in stage 2, several faults
    int *order;             // most_targets: targets by the strength of their evidence
    double *target_belief;  // most_targets
    double *ratios;         // m + 1
    const double **rows;    // m + 1
    double *distance;       // 1 + most_targets x n_grid, or most_targets x (1 + n_grid)
    pf_risk_terms terms;    // m each
    double *value;          // n_targets: risk reductions of the opportunity at hand
    double *probability;    // hypotheses of the largest task
    double *returns;        // members x hypotheses of the largest task
    double *expected;       // n_grid: the straight line of z
    double *share;          // m + 1: what a healthy mechanism delivers of the task at hand
    double *asked;          // m + 1: the whole correction of a policy, 0 for an open loop
    double *sent;           // m + 1: the correction itself
    double *off_shape;      // m + 1: and what it sends beside the asked shape (recordings)
    pf__between *between;   // PF_POSTERIOR_GAINS: of the kit's knots
    pf__look look;          // of the response that is told
    double *z;              // most_targets
    double *u;              // n_chan: misfit of the look
    double *gains;          // PF_POSTERIOR_GAINS
};

// The next probe of stage 1 (with its hazard) or of stage 2, into s->ask.
void pf__session_open_opportunity(pf_session *s);
void pf__session_open_recovery(pf_session *s);
void pf__session_make_schedule(pf_session *s);
int pf__session_available(const pf_session *s); // probes not skipped

// Points s->rows[i] at the row p(c_target | i) for every hypothesis i of a probe with full rows.
void pf__session_full_rows(pf_session *s, int probe, int target);

// With several faults: the new odds and belief from the readings in s->next, in scratch.
void pf__session_update_odds(pf_session *s, int probe, int n_targets);

static inline bool pf__session_many(const pf_session *s)
{
    return s->kit->faults == PF_FAULTS_MANY;
}

// No verdict outlives what it was based on: every task is no-go until asked again.
void pf__session_forget_answers(pf_session *s);

// The joint belief at the end of stage 1: with the transported severity, or the broad prior.
void pf__session_boundary(const pf_session *s, pf_joint *joint);

// The joint belief as if stage 1 ended now; in later stages the present one.
pf_joint *pf__session_joint_now(pf_session *s);

// Whether the bound of every task is met now; stops at the first whose is not.
bool pf__session_all_go(pf_session *s);
// Whether a rehearsal could make a task go: its bound is met, or unmet only for an unseen loss.
bool pf__session_may_go(pf_session *s, int task);
// Whether no further probe can change a verdict: what is not go now never will be.
bool pf__session_settled(pf_session *s);

// How badly the looks fit every machine of the model, in units of the kit's level; and whether that
// is misfit: above 1, or an implausible look.
double pf__misfit_level(const pf_session *s);
bool pf__session_misfit(const pf_session *s);
// Whether a mechanism is rather changed than not.
bool pf__session_named(const pf_session *s);
// Whether only a clean rehearsal apart makes a task go: misfit, or an alarm without a loss to name.
bool pf__session_doubt(const pf_session *s);
// Whether more looks may say what an alarm was about: no loss is named yet, nor is the machine
// rather healthy again, and the looks fit.
bool pf__session_open_question(const pf_session *s);
// Whether an alarm has its reason: a loss is named without misfit, or every task ran clean.
bool pf__session_explained(const pf_session *s);

// What a tell does, by the stage and the posterior of the kit: diagnose.c, look.c, recover.c. All
// in scratch until nothing can fail any more.
pf_status pf__session_tell_stage1(pf_session *s, const pf_tell *tell, const pf_predictor *predictor,
                                  pf_error *error);
pf_status pf__session_tell_look(pf_session *s, const pf_tell *tell, const pf_predictor *predictor,
                                pf_error *error);
pf_status pf__session_tell_stage2(pf_session *s, const pf_tell *tell, const pf_predictor *predictor,
                                  pf_error *error);
// The same from evidence that somebody else gathered, in s->matches or s->distance.
pf_status pf__session_take_matches(pf_session *s, int probe, pf_error *error);
pf_status pf__session_take_distances(pf_session *s, int probe, pf_error *error);
// Steps that they share: the evidence of a tell; readings from s->matches into s->next; belief,
// severity and alarm from there; a probe that gave what no machine of the model gives.
pf__evidence *pf__session_gather(pf_session *s, const pf_tell *tell, const pf_predictor *predictor);
pf_status pf__session_read_matches(pf_session *s, int probe, const int32_t *targets, int n_targets,
                                   pf_error *error);
void pf__session_accept(pf_session *s, int probe, int n_targets);
void pf__session_give_up(pf_session *s, int probe);
// The belief in a change: what the alarm compares with its threshold.
double pf__session_change(const pf_session *s);

// Rehearsals. Reset: all that can be are due. Start: after the last probe; what is no-go is left
// out. Next: into s->ask; false: none is left.
void pf__session_reset_rehearsals(pf_session *s);
bool pf__session_start_rehearsals(pf_session *s);
bool pf__session_next_rehearsal(pf_session *s);
pf_status pf__session_tell_rehearsal(pf_session *s, const pf_tell *tell,
                                     const pf_predictor *predictor, pf_error *error);
void pf__session_skip_rehearsal(pf_session *s);
// Whether a task came out well, alone or in a group that may be believed. One run of several tasks
// and none besides may not: no mechanism of it has rested, and one that is stuck where its task
// wants it would not have shown. Nor where another task failed: its reason may be a mechanism of
// this run.
bool pf__session_confirmed(const pf_session *s, int task);

#endif
