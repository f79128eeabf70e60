// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_OBSERVE_H
#define PF_OBSERVE_H

#include "preflight/kit.h"
#include "preflight/plant.h"
#include "preflight/session.h"
#include "twin.h"

// A machine under check: a plant, possibly with faults, watched through its sensors. It runs a
// kit's probes the way the real machine would.
typedef struct pf_rig {
    pf_plant *plant; // not owned
    const pf_kit *kit;
    const double *gains; // n_mech, Nullable: healthy
    // Where the last probe began: the plant's n_state, or its n_chan with a kit that starts from
    // the channels.
    double *start;
    double *response; // rows x n_chan of the last probe
    // Nullable: the plant itself as its own twin (pure simulation). Kits that start from the
    // channels need one.
    const pf_predictor *predictor;
    bool sensed_start; // the channels before the first command are as noisy as the others
    bool own_noise;    // the machine's sensors are its own affair: no noise is added here
} pf_rig;

// Runs one probe from a fresh reset, with disturbance and sensor noise, into rig->start and
// rig->response. Where the plant declares no sensor noise it is added, unless own_noise.
pf_status pf_rig_run(pf_rig *rig, int probe, pf_key key, pf_error *error);

// One command sequence with disturbance and with sensor noise of `sensor_noise` times the plant's
// own, or times scale[c] (n_chan, the size of a response) where the plant declares none. scale is
// Nullable: none is added then.
pf_status pf_observe(pf_plant *plant, const pf_roll *roll, double sensor_noise, const double *scale,
                     const pf_trace *trace, pf_error *error);

// The noise that pf_observe adds to rows x n_chan of a trajectory with this key.
void pf_observe_noise(const pf_plant_info *info, pf_key key, int rows, double sensor_noise,
                      const double *scale, double *output);

// Whether the plant told its channels before the first command, as a learned model needs.
pf_status pf_initial_check(const pf_plant_info *info, const double *initial, pf_error *error);

// How a session is driven on a rig. Keys are (seed, environment, trial, purpose, opportunity);
// recovery probes have PF_PURPOSE_RECOVERY. Hooks are Nullable.
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
    void (*after_tell)(void *self, const pf_ask *ask);
} pf_drive;

// Asks, runs and tells until the session is done, or until stage 1 ends with `only_stage1`. Kits
// with recorded responses predict by themselves, others through the rig's predictor.
pf_status pf_drive_session(pf_session *session, pf_rig *rig, const pf_drive *drive,
                           pf_error *error);

#endif
