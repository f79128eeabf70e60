// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_DOCTOR_H
#define PF_DOCTOR_H

#include "core/constants.h"
#include "host/arena.h"
#include "plan.h"

// What a plant is like before anything is calibrated on it, found out by trying.

// A loss strong enough that any effect of it shows.
#define PF_WEAK_GAIN .15

// --- does it repeat itself

// How the same trajectory is run again.
#define PF_REPEAT_LIST(X)                                                                          \
    X(PF_REPEAT_AGAIN, "at once", "it draws from something else than its seed")                    \
    X(PF_REPEAT_AFTER, "after another one", "something of the last trajectory is left over")       \
    X(PF_REPEAT_INSTANCE, "in another instance", "an instance has a state or a seed of its own")   \
    X(PF_REPEAT_START, "from its saved start", "the start that it tells is not all of its state")

typedef enum pf_repeat_way {
#define X(code, name, cause) code,
    PF_REPEAT_LIST(X)
#undef X
        PF_REPEAT_WAYS
} pf_repeat_way;

const char *pf__repeat_name(pf_repeat_way way);
const char *pf__repeat_cause(pf_repeat_way way);

// By how much two equal trajectories differ: the largest difference of a reading, as a share of the
// largest reading of its channel. 0: equal to the bit.
typedef struct pf_repeat {
    double differs;
    int channel;
} pf_repeat;

// The first probe in the first `ways` of the list.
pf_status pf__plant_repeats(const pf_plan *plan, pf_plant *plant, int ways, pf_repeat *repeat,
                            pf_error *error);

// What counts as equal where trajectories differ by so much: ten times as much, and nothing where
// they are equal to the bit. A plant that differs by more than rounding does is refused.
pf_status pf__repeat_tolerance(const pf_plan *plan, const pf_repeat *repeat, int ways,
                               double *tolerance, pf_error *error);

// A difference between two trajectories that is no more than rounding may be what one of them
// differs by from itself: runs `roll` again between others, and lets the tolerance be what that
// shows. A plant that rounds differently once in a while may not have done so before.
pf_status pf__rounding_tolerance(const pf_plan *plan, pf_plant *plant, const pf_roll *roll,
                                 double differs, double *tolerance, pf_error *error);

// Refuses a plant that nothing disturbs where the plan adds no noise to its sensors: a twin would
// predict it to the bit.
pf_status pf__plant_noise(const pf_plan *plan, pf_plant *plant, pf_error *error);

// Whether two trajectories (rows x n_chan) differ by more than the tolerance; 0: in any bit.
// differs and channel (Nullable): by how much, as in pf_repeat.
bool pf__differs(int rows, int n_chan, const double *a, const double *b, double tolerance,
                 double *differs, int *channel);

// --- the rest

// Standard deviations between a healthy machine and a weak one that make one probe enough.
enum { PF_GOOD_APART = 6 };

// Amplitudes of the sweep, in those of the probe.
enum { PF_SWEEP = 7, PF_SWEEP_PROBE = 4 };
extern const double pf__sweep[PF_SWEEP]; // [PF_SWEEP_PROBE] is 1

// Indices: mechanisms 0..n_mech-1, of which 0 has nothing; channels; tasks.
typedef struct pf_doctor {
    int starts; // set before: over how many starts everything is averaged
    pf_arena arena;
    pf_repeat repeat[PF_REPEAT_WAYS];
    double tolerance;
    pf_repeat *passive;  // n_mech: how far passive data move when it is weak
    double trajectory_s; // mean time of a trajectory, and its rows
    double trajectory_rows;
    double calibration_s; // expected, on one thread
    double *scale;        // n_chan: what a kit would divide by
    double *largest;      // n_chan: the largest reading
    double *moved;        // n_chan: rms of what probes move it
    double *noise;        // n_chan: rms of disturbance and noise in a probe
    double *shows;        // n_mech x n_chan: rms of what a loss to g_cal moves in its probe
    double *apart;        // n_mech: all channels together, in standard deviations of the noise
    double *sweep; // n_mech x PF_SWEEP: response per amplitude beside that of the probe. NaN:
                   // beyond the limits
    double *fails; // n_mech: multiple of its probe under which the machine fails; 0: none was seen
    char failure[sizeof((pf_error *)0)->text]; // what stops a calibration; "": nothing was seen
    double *mean, *bound;                      // n_tasks: of a healthy machine's return
    double *error_share;                       // n_tasks x n_chan: of what a healthy machine misses
} pf_doctor;

// Tries everything; free follows whatever it returned. Where the plant does not repeat itself the
// rest is not tried.
pf_status pf__doctor_run(pf_doctor *doctor, const pf_plan *plan, pf_plant *plant,
                         const pf_effort *effort, pf_error *error);
void pf__doctor_free(pf_doctor *doctor);

// Whether all of the first `ways` repeat, to the bit or to rounding.
bool pf__repeats_itself(const pf_repeat *repeat, int ways);

// Responses to small commands are less than half of what they should be; to large ones less than
// three quarters.
bool pf__doctor_dead_zone(const pf_doctor *doctor, int mechanism);
bool pf__doctor_saturates(const pf_doctor *doctor, int mechanism);
// A factor on the amplitude of its probe that would be better; 1: it is good.
double pf__doctor_amplitude(const pf_doctor *doctor, int mechanism);
// A factor on its steps: more than 1 where a stronger probe would show no more.
int pf__doctor_longer(const pf_doctor *doctor, int mechanism);

#endif
