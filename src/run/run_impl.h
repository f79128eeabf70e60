// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_RUN_IMPL_H
#define PF_RUN_IMPL_H

#include "preflight/run.h"
#include "model/rollout.h"

// One command sequence with disturbance and with sensor noise of `sensor_noise` times the plant's
// own, or times scale[c] (n_chan, the size of a response) where the plant declares none. scale is
// Nullable: none is added then.
pf_status pf__observe(pf_plant *plant, const pf_roll *roll, double sensor_noise,
                      const double *scale, const pf_trace *trace, pf_error *error);

// The noise that pf__observe adds to rows x n_chan of a trajectory with this key.
void pf__observe_noise(const pf_plant_info *info, pf_key key, int rows, double sensor_noise,
                       const double *scale, double *output);

// Refuses a plant whose responses, commands or (with `state`) saved starts have another size than
// the kit's: memory is laid out by the kit.
pf_status pf__same_size(const pf_kit_info *kit, const pf_plant_info *plant, bool state,
                        pf_error *error);

// pf_rig_run of n machines at once, at most PF_ROLLS, of one plant and one kit of a twin, without
// faults and noise of their own.
pf_status pf__rigs_run(int n, pf_rig *rigs, const int *probes, const pf_key *keys, pf_error *error);

// An error of the plant, with what it ran in front: "task 'lift', 'hip' at gain 2: ". Other errors
// stay as they are. name and gains (healthy) are Nullable. Gives the status.
pf_status pf__name_failure(const pf_plant_info *info, const char *kind, const char *name,
                           const double *gains, pf_status status, pf_error *error);

// What a probe sends: its command, or the closed loop of the plant that it names.
pf_status pf__probe_roll(const pf_plant_info *info, const pf_kit *kit, int probe, pf_roll *roll,
                         pf_error *error);

// The policy of a plant that a task names.
pf_status pf__task_policy(const pf_plant_info *info, const pf_kit *kit, int task, int *policy,
                          pf_error *error);

// Whether the plant told its channels before the first command, n readings of them, as a learned
// model needs.
pf_status pf__initial_check(const pf_plant_info *info, int n, const double *initial,
                            pf_error *error);

// Whether pf__predict_many takes less time than one prediction after the other.
bool pf__predicts_many(const pf_predictor *predictor);
// What a twin predicts for n hypotheses at once, at most PF_ROLLS, each from a start of its own.
pf_status pf__predict_many(const pf_predictor *predictor, int n, const pf_hypothesis *hypotheses,
                           const double *const *starts, int n_start, double *const *responses,
                           pf_error *error);

// pf_flight_fly of n attempts at once, at most PF_ROLLS, at one open-loop task without corrections
// and faults. memory: n x rows x n_chan numbers.
pf_status pf__flight_fly_many(pf_flight *flight, int n, const pf_attempt *attempts, double *memory,
                              pf_flown *flown, pf_error *error);

// The state where all tasks of a flight start: n_state of the plant.
const double *pf__flight_state(const pf_flight *flight);

// The tracking errors that a member of a learned model expects of an open-loop task under n
// hypotheses (gains: n x n_mech), from the channels at the start, against the plant's reference or,
// with `own` not -1, against what it expects under that one of them. scratch:
// pf__model_scratch(model, n) and n x rows x n_chan doubles more.
pf_status pf__flight_expect(pf_flight *flight, int task, const pf_model *model, int member, int n,
                            const double *gains, int own, double *scratch, double *nte,
                            pf_error *error);

#endif
