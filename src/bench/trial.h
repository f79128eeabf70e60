// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_TRIAL_H
#define PF_TRIAL_H

#include "preflight/base.h"
#include "calibrate/plan.h"
#include "core/certificate.h"
#include "responses.h"

// What does not depend on a method: drawn from (seed, environment, trial) alone.
enum {
    PF_SCHEDULE_PERIOD = 5,
    PF_SCHEDULE_REVEAL_FIRST = 35,
    PF_SCHEDULE_REVEAL_LAST = 45,
    PF_SCHEDULE_TAU = 10
};
enum { PF_SCHEDULE_FAULTS = 8 }; // most mechanisms that change at once

typedef struct pf_schedule {
    bool nominal;
    int n_changed;                     // 0 in a nominal trial
    int mechanism[PF_SCHEDULE_FAULTS]; // the changed ones, distinct
    double gain[PF_SCHEDULE_FAULTS];   // what they have left
    int tau, reveal;
} pf_schedule;

// What is drawn: from whom, how many at once, and their gains.
typedef struct pf_schedule_settings {
    int trials;   // of a seed
    double share; // of nominal trials: exactly round(share * trials)
    int candidates;
    int opportunities; // so many after a change at round 10; 0: change and reveal are drawn
    int n_faults;      // at once, or as many as there are candidates
    int n_gains;       // one: all faults have it; several: drawn, different while they last
    const double *gains;
} pf_schedule_settings;

// The first changed mechanism, tau and R are the same for any number of faults.
pf_schedule pf__schedule_draw(uint64_t seed, const char *environment, int trial,
                              const pf_schedule_settings *settings);

// Which of the changed ones a mechanism is, -1: it is healthy.
int pf__schedule_fault(const pf_schedule *schedule, int mechanism);

// One trial of the paper's protocol: a change at round tau, opportunities every five rounds, a
// reveal at round R, run with several methods on the same draws.

// Numbers of one method on one trial. Names are the metric ids. With several faults gain_mae, crps,
// compensation_error, coverage and changed_task_return are means over the changed mechanisms.
#define PF_METRICS(X)                                                                              \
    X(detection)   /* first alarm at or after tau and before R */                                  \
    X(early)       /* first alarm before tau */                                                    \
    X(delay)       /* rounds from tau to the alarm, R - tau without one */                         \
    X(false_alarm) /* nominal trials: any alarm */                                                 \
    X(located)     /* the changed mechanisms are the likeliest hypotheses */                       \
    X(gain_mae)                                                                                    \
    X(crps)                                                                                        \
    X(compensation_error)                                                                          \
    X(worst_error)                                                                                 \
    X(selective_return)                                                                            \
    X(changed_task_return)                                                                         \
    X(changed_return) /* the same on changed trials alone, where changed_task_return is 1 else */  \
    X(attainable_return) /* changed task, corrected exactly within the limits; nominal: 1 */       \
    X(regret)            /* with J* = 1, as the paper seems to have it */                          \
    X(regret_limits)     /* with J* = attainable_return */                                         \
    X(regret_selective)  /* of what was deployed (Eq. end_to_end_regret) */                        \
    X(coverage)                                                                                    \
    X(abstention)                                                                                  \
    X(deployed) /* counts over tasks, pooled within a seed */                                      \
    X(violated)                                                                                    \
    X(false_ready)                                                                                 \
    X(changed_deployed) /* the same on the changed task alone */                                   \
    X(changed_violated)                                                                            \
    X(changed_false_ready)                                                                         \
    X(go) /* field verdict: share of the tasks that are go; all_go: whether all are */             \
    X(all_go)                                                                                      \
    X(false_go) /* verdict suite: a task was go and returned less than j_min; right_go: share of   \
                 */                                                                                \
    X(right_go) /* the tasks that are go and return as much; misfit: of the session */             \
    X(misfit)                                                                                      \
    X(rehearsals)                                                                                  \
    X(blocked) /* field verdict: tasks refused before any bound: no reading, conflict, off grid */ \
    X(bound)   /* field verdict: mean of the lower bounds of the tasks */                          \
    X(probes)  /* both stages */                                                                   \
    X(recovery_probes)                                                                             \
    X(cost)               /* charge of both stages */                                              \
    X(fault_looks)        /* looks at the changed mechanism while the fault was present */         \
    X(mute_looks)         /* of these, in a category with ratio 1: the gate stays shut */          \
    X(gate_openings)      /* of these, with an open gate */                                        \
    X(clipped)            /* changed task asks for more than the limits allow */                   \
    X(log_score)          /* mechanism study: bits of the gain recovered */                        \
    X(future_task_regret) /* 1 - changed-task return, no cost in it */                             \
    X(return_regret)      /* changed task with a native score: nominal score - score */            \
    X(stability_regret)   /* the same where the score is steps survived */                         \
    X(coordinate)         /* coordinate study: mean z at the gain */                               \
    X(coordinate_bias)    /* mean z - (1 - g)/(1 - g_cal) */                                       \
    X(coordinate_sd)      /* spread of z within a mechanism */                                     \
    X(noise_to_signal)    /* that spread / the ideal z */                                          \
    X(all_named)          /* every changed mechanism is rather changed than not; the next too: */  \
    X(healthy_blamed)     /* share of healthy ones; suites with group methods or n_faults */       \
    /* plants with measures of their own, on the task of the changed mechanism, in nominal trials  \
       on that of a drawn one; "asked" is the correction as it would be sent, go or no-go */       \
    X(shortfall)       /* grid: undelivered share of the request */                                \
    X(ramp_infeasible) /* grid: share of the steps that ask for more than the unit can ramp */     \
    X(ramp_excess)     /* grid: share of what is asked that it cannot */                           \
    X(asked_shortfall)                                                                             \
    X(asked_infeasible)                                                                            \
    X(asked_excess)                                                                                \
    X(collision)         /* driving */                                                             \
    X(min_ttc)           /* driving: smallest time to collision, s */                              \
    X(min_headway)       /* driving: smallest headway, m */                                        \
    X(tail_ttc)          /* driving: mean of the lowest tenth of the steps, s */                   \
    X(otif)              /* inventory: periods on time in full */                                  \
    X(contracts)         /* count: tasks of the trial */                                           \
    X(safe_ready)        /* count: go, and the return reaches j_min */                             \
    X(clipped_go)        /* count: clipped on the changed task, and go */                          \
    X(clipped_false)     /* count: of these, less than j_min */                                    \
    X(clipped_recovered) /* count: clipped, and the correction would have reached j_min */

typedef enum pf_metric {
#define X(name) PF_METRIC_##name,
    PF_METRICS(X)
#undef X
        PF_METRIC_COUNT
} pf_metric;

const char *pf__metric_name(int metric);
int pf__metric_find(const char *name); // -1: none

typedef struct pf_trial_result {
    double value[PF_METRIC_COUNT]; // NaN: not defined on this trial
} pf_trial_result;

// Nothing is defined but n counts, which are 0.
void pf__trial_clear(double *value, size_t n, const int *counts);

// The mitigation loss by threshold: the sum over tasks of 1 - R of what would be deployed if a
// bound of at least i/100 decided.
enum { PF_REVEAL_STEPS = 101 };
typedef struct pf_reveal_losses {
    double loss[PF_REVEAL_STEPS];
} pf_reveal_losses;
// The threshold of least loss, the largest of equals.
double pf__reveal_threshold(const pf_reveal_losses *losses);

// What a cell of an experiment sets beyond the kit.
typedef struct pf_trial_setup {
    bool blame; // count who is named and who is blamed
    int budget2;
    pf_stop stop;
    pf_bound_rule rule;
    double j_min;
    double deploy;            // bound that deploys a task: j_min, or a calibrated threshold
    pf_reveal_losses *losses; // where this trial's are added, tasks flown both ways. Nullable.
    const struct pf_own_methods *own; // where a method that no table has is found. Nullable.
    int variant; // of the tasks of a plant that has them; 0: plain, 1: under a shock
} pf_trial_setup;

// Runs one method. kit: of the method's statistic; memory: of a session on it.
pf_status pf__trial_run(pf_responses *responses, const pf_kit *kit, const char *method,
                        const pf_schedule *schedule, const pf_trial_setup *setup, void *memory,
                        size_t bytes, pf_trial_result *result, pf_error *error);

// Future tasks that are closed loops with a score of their own (classic control): one episode from
// a known start, return exp(-max(regret, 0)/norm) with regret = nominal score - score. A loop may
// use every mechanism, so every correction is in it and nothing collapses.

// Makes the owned, scored policies of a plant the tasks of the suites' plan: the task of mechanism
// j is the policy that j owns.
void pf__policy_tasks(pf_plan *plan, const pf_plant_info *info);

// The policy of a task that is one; NULL: an open loop.
const pf_policy *pf__policy_of_task(const pf_responses *responses, int task);

// A trial by the shipped verdict: the check of a machine that has its change from the start. It is
// `preflight check --seed N` on the kit, N = pf__field_seed; then every task is flown, with its
// corrections where it is go.
typedef struct pf_field_trial {
    pf_plant *plant;
    const pf_model *model; // Nullable: a twin
    uint64_t seed;
} pf_field_trial;

uint64_t pf__field_seed(int seed, int trial);
pf_status pf__trial_field(const pf_field_trial *trial, const pf_kit *kit, const char *method,
                          const pf_schedule *schedule, const pf_trial_setup *setup,
                          pf_trial_result *result, pf_error *error);

// Predicted return under the posterior's corrections: hypotheses "nothing changed" and each
// mechanism at each grid gain.
pf_status pf__policy_predict(pf_responses *responses, const pf_joint *joint, int task,
                             pf_bound_rule rule, pf_prediction *out, pf_error *error);

// The end of a trial on a plant with measures of its own: every task is forecast by the plant's
// twin under every hypothesis with all corrections in the policy, decided, and flown in the
// simulator. Fills what a trial tells of returns, decisions and the domain's measures.
pf_status pf__domain_deploy(pf_responses *responses, const pf_joint *joint,
                            const pf_schedule *schedule, const pf_trial_setup *setup, double *value,
                            pf_error *error);

// The known-model study: what the transported severity recovers of what a response holds, on the
// attitude plant with one assumption broken at a time. Three arms see the same responses: the
// transported amplitude, the category alone, and the exact Bayes posterior as the ceiling.
enum { PF_ARM_TRANSPORT, PF_ARM_CATEGORY, PF_ARM_BAYES, PF_ARMS };

// Names of the arms (PF_ARMS), in the place of method ids.
const char *const *pf_mechanism_arms(void);

// One cell, all gains of the grid: setting is "knob=NAME;value=X" with NAME one of none, dead_band,
// saturation, coupling, mismatch, mismatch_recentred, noise. `responses` per gain. Results are
// means over responses and gains (gain_mae, crps, coverage, log_score).
pf_status pf__mechanism_run(const char *setting, uint64_t seed, int responses,
                            pf_trial_result results[PF_ARMS], pf_error *error);

// The calibration of the transported coordinate: z of responses at one true gain against the ideal
// (1 - g)/(1 - g_cal), for every mechanism and over all of them.

// Arms: "all", then a mechanism each; a plant with fewer leaves the rest undefined.
enum { PF_COORDINATE_ARMS = 9 };
const char *const *pf_coordinate_arms(void);

// So many episodes per mechanism. responses and kit: of the matched statistic, centres calibrated.
pf_status pf__coordinate_run(pf_responses *responses, const pf_kit *kit, uint64_t seed, double gain,
                             int episodes, pf_trial_result results[PF_COORDINATE_ARMS],
                             pf_error *error);

#endif
