// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_ATTITUDE_KIT_H
#define PF_ATTITUDE_KIT_H

#include "host/text.h"
#include "preflight/kit.h"
#include "preflight/plant.h"

// What several groups share: real kits of the attitude plant, calibrated once per process, and a
// machine to check with them.

// The default kit: one pulse and one task per thruster.
const pf_kit *attitude_kit(void);
const void *attitude_kit_bytes(size_t *n);

// The same for several faults at once.
const pf_kit *attitude_many_kit(void);
const void *attitude_many_kit_bytes(size_t *n);

// Both without the joint posterior and without rehearsals.
const void *attitude_transport_kit_bytes(bool many, size_t *n);

// A kit of a few KB: a probe of thruster 1, a group probe of 2 and 3, two tasks, four gains.
const pf_kit *attitude_small_kit(void);
const void *attitude_small_kit_bytes(size_t *n);

enum { ATTITUDE_MECH = 8, ATTITUDE_CHAN = 6, ATTITUDE_STATE = 6, ATTITUDE_ROWS = 16 };

// An attitude plant with at most one weak thruster, watched through its sensors.
typedef struct attitude_machine {
    pf_plant *plant;
    double gains[ATTITUDE_MECH];
    double start[ATTITUDE_STATE];                   // of the last probe
    double response[ATTITUDE_ROWS * ATTITUDE_CHAN]; // of the last probe
    const double *others; // gains that predictions give the other mechanisms. NULL: 1
    uint64_t runs;
} attitude_machine;

// weak 0: healthy. Close destroys the plant.
void attitude_machine_open(attitude_machine *machine, int weak, double gain);
void attitude_machine_close(attitude_machine *machine);

// Runs a probe from a fresh start, with disturbance and noise.
void attitude_machine_probe(attitude_machine *machine, const pf_kit *kit, int probe);

// The response that the twin predicts for mechanism at gain from the last start, as JSON.
void attitude_machine_predict(attitude_machine *machine, const pf_kit *kit, int probe,
                              int mechanism, double gain, pf_text *out);

// The tell of the last probe: with the start state, or with the caller's own predictions (grid in
// stage 2, with several faults also healthy, both with the gains of `others`).
void attitude_machine_tell(attitude_machine *machine, const pf_kit *kit, int probe, int stage,
                           bool state, pf_text *out);

#endif
