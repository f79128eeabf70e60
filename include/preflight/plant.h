// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PREFLIGHT_PLANT_H
#define PREFLIGHT_PLANT_H

#include "preflight/base.h"
#include "preflight/fault.h"

#ifdef __cplusplus
extern "C" {
#endif

// A plant is a machine or a simulator of one. Mechanism 0 is the current one, which today's
// controller uses; mechanisms 1..m are the candidates, whose command is exactly zero in passive
// operation.

typedef struct pf_mechanism {
    const char *name;
    double lo, hi; // command limits; infinite where unknown
} pf_mechanism;

typedef struct pf_channel {
    const char *name;
    double noise_sd; // sensor noise of the plant itself, raw units; 0: none declared
    double scale;    // what a channel is divided by; 0: taken from the pulse responses
} pf_channel;

// How a channel is read as a number that changes smoothly, which matters to a learned model.
typedef enum pf_channel_kind {
    PF_CHANNEL_PLAIN = 0,
    PF_CHANNEL_ANGLE = 1,     // rad; the physics depend on it through sine and cosine alone
    PF_CHANNEL_QUATERNION = 2 // one of four channels in a row, real part first
} pf_channel_kind;

// What a mechanism delivers that has gain g.
typedef enum pf_loss {
    PF_LOSS_COMMAND = 0, // g times the command within its limits
    PF_LOSS_FORCE = 1    // g times the force, under the whole command: a servo that keeps its set
                         // point, a motor that holds a load
} pf_loss;

// A command shape, one mechanism at a time: a hold of `steps` rows, or a doublet (first half
// positive, second half negative), then zero up to `rows`.
typedef struct pf_pulse {
    int steps;
    int rows;
    bool doublet;
    const double *amplitude; // n_mech
} pf_pulse;

// A closed loop that the plant offers as a task.
typedef struct pf_policy {
    const char *name;
    int n_mechanisms;
    const int *mechanisms;
    int rows;
    // A loop with a score of its own returns exp(-max(regret, 0)/norm), regret being the nominal
    // score from the same start minus the score; norm 0: it returns by its tracking error.
    double norm;
    int owner;          // the candidate whose future task it is; 0: nobody's
    const char *regret; // metric id of the regret in the score's own units. Nullable.
} pf_policy;

// A knob changes the physics (mechanism studies, mismatched twins). Off by default.
typedef struct pf_knob {
    const char *name;
    double value; // default
    const char *line;
} pf_knob;

#define PF_KNOBS_MAX 8
#define PF_STATE_MAX 4096
#define PF_MECH_MAX 256

// What a plant tells of itself. Strings and arrays belong to the plant.
typedef struct pf_plant_info {
    const char *name;   // "attitude", "exec:./rig"
    const char *title;  // one line
    const char *source; // simulator and version, for the kit
    int n_mech, n_chan, n_state;
    double dt_s; // control step; 0 if unknown
    const pf_mechanism *mechanisms;
    const pf_channel *channels;
    const pf_channel_kind *kinds; // n_chan. Nullable: all plain.
    const pf_pulse *probe;        // default pulses; amplitude[0] is the passive one. Nullable.
    const pf_pulse *task;         // default tasks. Nullable.
    const double *reveal;         // nu by candidate, m entries. Nullable: 1/m.
    const double *importance;     // s by candidate, m entries. Nullable: 1.
    int n_policies;
    const pf_policy *policies;
    int n_knobs;
    const pf_knob *knobs;
    // What its random streams are named after. Nullable: the name. A process plant gives its own
    // name, so that results do not depend on where its program lies.
    const char *environment;
    bool deterministic;   // no disturbance of its own: the same start and commands give the same
                          // response
    const double *charge; // of a default probe per step, by candidate. Nullable: .01.
    // A plant whose policies have returns in measures of its own; 0 for all others.
    int n_metrics;              // what it measures of a policy; the first is "return"
    const char *const *metrics; // names
    int draws;                  // of the disturbance in a forecast
    double sensor_noise;        // suggested for kits, in shares of a channel's scale; 0: none
    // Faults beyond what commands and readings carry. A native plant gets them from its class.
    int n_faults;
    const pf_plant_fault *faults;
    const pf_loss *losses; // n_mech. Nullable: the command of each.
    // Of a process: the folder that its command names files in. Nullable: it names none.
    const char *folder;
} pf_plant_info;

// The closed loops of a native plant, by index in info.policies. All functions must be pure.
typedef struct pf_plant_loops {
    // Turns a start into one of that task; a start that already is one stays as it is. Nullable.
    void (*start)(int policy, double *x);
    // The nominal command u, n_mech numbers.
    void (*command)(int policy, const double *x, double *u);
    // What the step from x to next under the delivered v adds to the score; false: the episode ends
    // with it.
    bool (*score)(int policy, const double *x, const double *v, const double *next, double *score);
} pf_plant_loops;

// A native plant: one file that fills one of these, and one row in the registry. State is a plain
// array, so saving and loading it is a copy. Inputs v are what the mechanisms deliver after limits
// and faults; disturbances w are the declared AR(1) noise. All functions must be pure.
typedef struct pf_plant_class {
    pf_plant_info info;
    int n_wind;             // disturbance channels
    const double *wind_phi; // n_wind
    const double *wind_sd;  // n_wind
    int substeps;           // RK4 steps per control step
    // Draws a start state; rng NULL: every draw replaced by its mean.
    void (*reset)(double *x, pf_rng *rng);
    // dx/dt of the state under held v and w.
    void (*derivative)(const double *knob, const double *x, const double *v, const double *w,
                       double *dx);
    // Replaces derivative and substeps by an exact step. Nullable.
    void (*advance)(const double *knob, double *x, const double *v, const double *w);
    // Clamps after each substep. Nullable.
    void (*project)(double *x);
    // From command u and gains to the delivered v, at the start of each substep. Nullable: the
    // fault layer's g * clip(u, lo, hi).
    void (*deliver)(const double *knob, const double *x, const double *u, const double *gains,
                    double *v);
    // What the sensors see of x (and of the inputs of the last substep), without noise.
    void (*output)(const double *knob, const double *x, const double *v, const double *w,
                   double *y);
    // How many times the declared sensor noise there is under command u. Nullable: 1.
    double (*noise)(const double *u);
    const pf_plant_loops *loops; // of info.policies
    // Many machines in step, for plants of the library's own. Nullable: one after the other.
    const struct pf_native_lanes *lanes;
} pf_plant_class;

// An instance, owned by one thread.
typedef struct pf_plant pf_plant;

// By name ("attitude", "ant", "mujoco:FILE", "fmu:FILE", "exec:COMMAND"); the error lists what
// there is.
PF_API pf_status pf_plant_create(pf_plant **plant, const char *name, pf_error *error);
// The same; an exec: command that names files which are in this folder (Nullable) and not in the
// current one runs there.
PF_API pf_status pf_plant_create_in(pf_plant **plant, const char *name, const char *folder,
                                    pf_error *error);
// From a class of the caller's, which must outlive it.
PF_API pf_status pf_plant_from_class(pf_plant **plant, const pf_plant_class *plant_class,
                                     pf_error *error);
// Another instance of the same plant for another thread.
PF_API pf_status pf_plant_clone(const pf_plant *plant, pf_plant **copy, pf_error *error);
PF_API void pf_plant_destroy(pf_plant *plant); // Nullable.
PF_API const pf_plant_info *pf_plant_get_info(const pf_plant *plant);
PF_API const char *pf_plant_environment(const pf_plant_info *info);
PF_API pf_status pf_plant_set_knob(pf_plant *plant, const char *name, double value,
                                   pf_error *error);

// The registry of native plants.
PF_API int pf_plant_count(void);
PF_API const pf_plant_class *pf_plant_at(int index);

// A plant whose trajectories come from a function in this process. The function gets 53 bits of the
// key as a seed, a saved start (n_start numbers, Nullable: from the seed), n_mech gains and rows x
// n_mech commands; it fills start_out (n_state), initial (n_chan) and output (rows x n_chan).
// noise: with disturbance and sensor noise. Nonzero: it failed and said why (400 bytes).
typedef int (*pf_roll_function)(void *self, uint64_t seed, const double *start, int n_start,
                                const double *gains, const double *commands, int rows, int noise,
                                double *start_out, double *initial, double *output, char *why);

// hello: what the plant tells of itself, as in the bridge protocol (docs/formats.md). self must
// outlive the plant and its clones.
PF_API pf_status pf_plant_from_function(pf_plant **plant, const char *name, const char *hello,
                                        pf_roll_function roll, void *self, pf_error *error);

// Seconds that a process has from its start to its hello, and for one trajectory; negative: as
// before. Nothing happens to a plant that is no process.
PF_API void pf_plant_set_timeouts(pf_plant *plant, double hello_s, double roll_s);

// One whole trajectory.
typedef struct pf_roll {
    pf_key key;            // reset, disturbance and sensor noise have streams derived from it
    const double *start;   // saved state instead of a reset. Nullable.
    bool mean_reset;       // every random draw of the reset replaced by its mean
    const double *gains;   // n_mech, Nullable: all 1
    const double *command; // rows x n_mech; ignored with a policy
    int rows;
    int lead;   // steps at rest before the first command, of which only pf_trace.initial tells
    int policy; // index in info.policies, or -1
    const double *correction; // n_mech, policy only. Nullable: all 1
    bool disturbance;
    double sensor_noise; // multiple of the plant's own noise; 0: none
    // What is wrong besides the gains; NULL and 0: nothing. Faults of mechanisms act in the order
    // given on the command, clipped to its limits; gains act last. Those of channels do nothing
    // here (pf_fault_sense). A closed loop of a plant that is not native has gains and what the
    // plant declares.
    const pf_fault *faults;
    int n_faults;
} pf_roll;

PF_API pf_roll pf_roll_default(void);

// Where the trajectory goes; any pointer may be NULL.
typedef struct pf_trace {
    double *start; // n_state
    // (1 + lead) x n_chan, oldest first: the output before the first command, without sensor noise
    // (NaN where the plant has none)
    double *initial;
    double *output;  // rows x n_chan: after each command
    double *state;   // rows x n_state: after each command (not of process plants)
    double *score;   // of a policy that has one; rows after its end repeat the last one
    double *metrics; // n_metrics, of a policy
} pf_trace;

PF_API pf_status pf_plant_roll(pf_plant *plant, const pf_roll *roll, const pf_trace *trace,
                               pf_error *error);

#ifdef __cplusplus
}
#endif
#endif
