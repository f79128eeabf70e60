// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PREFLIGHT_TRAIN_H
#define PREFLIGHT_TRAIN_H

#include "preflight/base.h"
#include "preflight/model.h"

#ifdef __cplusplus
extern "C" {
#endif

// What is learned: one of the two kinds of model.h, or the one that predicts held-out windows
// better.
typedef enum pf_train_kind {
    PF_TRAIN_RECURSIVE = 0,
    PF_TRAIN_TRAJECTORY = 1,
    PF_TRAIN_BEST = 2
} pf_train_kind;

// Commands of the data: AR(1) noise alone, or in half of the episodes holds and doublets of one
// mechanism at 0 to 3 times its pulse, in a quarter several of them at once, and noise in the rest.
typedef enum pf_train_commands {
    PF_TRAIN_COMMANDS_NOISE = 0,
    PF_TRAIN_COMMANDS_USE = 1
} pf_train_commands;

// How a model is learned: the data, the networks, the descent.
typedef struct pf_train_settings {
    pf_train_kind kind;
    int window;  // steps of a trajectory model and of rollouts; 0: the longest of 12, probe and
                 // task
    int history; // readings that it may start from at most; held-out windows choose
    pf_train_commands commands;
    int transitions;    // in all; the last episode may be shorter
    int episode_steps;  // from a reset
    double correlation; // of the commands from step to step, AR(1)
    double amplitude;   // standard deviation of a command relative to how far it can go from
                        // rest, or to four probe amplitudes where it has no limits
    double single;      // share of episodes with one active mechanism
    bool disturbance;   // the plant's own
    int members, layers, width;
    pf_activation activation;
    int epochs, batch, patience;
    double learning_rate, weight_decay;
    bool cosine;     // the rate falls to zero along a cosine over all epochs
    bool rollouts;   // a recursive model learns whole windows in a quarter more epochs, and
                     // held-out windows choose the epoch
    double held_out; // share of episodes that no member trains on
    uint64_t seed;
} pf_train_settings;

// "quick", "standard" or "paper".
PF_API pf_status pf_train_profile(pf_train_settings *settings, const char *name, pf_error *error);

// Changes a profile, which is the paper's, into one for a kit in use: the better kind counts, and
// commands are like those in use.
PF_API void pf_train_for_use(pf_train_settings *settings);

// The window that is not given, and episodes that are long enough for it.
PF_API void pf_train_complete(pf_train_settings *settings, const pf_plant_info *info);

// Overrides settings from a YAML text (Nullable, called `file` in messages) with the names above as
// keys, then from "key=value" texts.
PF_API pf_status pf_train_configure(pf_train_settings *settings, const char *file, const char *text,
                                    size_t n, const char *const *overrides, int n_overrides,
                                    pf_error *error);

// Refuses settings that make no sense or would not fit in memory, before anything is allocated.
PF_API pf_status pf_train_check(const pf_train_settings *settings, const pf_plant_info *info,
                                pf_error *error);

// --- transitions

// Episodes of the nominal plant under AR(1) commands, in a memory-mapped file.
typedef struct pf_transitions pf_transitions;

typedef struct pf_transitions_info {
    const char *plant, *source;
    int n_chan, n_mech;
    const char *const *channels; // names
    const pf_channel_kind *kinds;
    const pf_mechanism *mechanisms; // names and limits
    int n_episodes, steps;          // steps of every episode but perhaps the last
    int lead;                       // of these at rest, before the first command
    pf_train_commands commands;
    int transitions;
    double correlation, amplitude, single;
    bool disturbance;
    uint64_t seed;
    double dt_s;
    char sha256[65]; // of the file
} pf_transitions_info;

// Rolls the plant and writes the file; the same bytes for any number of threads.
PF_API pf_status pf_transitions_make(const pf_train_settings *settings, pf_plant *plant,
                                     const char *path, const pf_effort *effort, pf_error *error);
// Maps a file; every byte of it is checked.
PF_API pf_status pf_transitions_open(pf_transitions **data, const char *path, pf_error *error);
PF_API void pf_transitions_close(pf_transitions *data); // Nullable.
PF_API const pf_transitions_info *pf_transitions_get_info(const pf_transitions *data);
// Whether the data were made by these settings (Nullable: by any) on this plant.
PF_API pf_status pf_transitions_fit(const pf_transitions *data, const pf_train_settings *settings,
                                    const pf_plant_info *info, pf_error *error);

// --- training

// One finished epoch of one member.
typedef struct pf_epoch {
    int member, epoch;    // from 0 and from 1
    int epochs;           // of a member at most
    double train, valid;  // mean squared error of the standardised change; of rollouts: what is
                          // missed of windows, over what moves
    double best;          // smallest valid so far
    double samples_per_s; // of this member
    bool rollouts;        // it learned whole windows
    bool finished;        // the member is done
    bool restored;        // from a checkpoint, not run now
} pf_epoch;

typedef struct pf_train_watch {
    void *self;
    // Called from one thread at a time after each epoch. Nullable.
    void (*epoch)(void *self, const pf_epoch *epoch);
} pf_train_watch;

// Trains and writes the model to `path`. Checkpoints stand beside it (path.member-00, ...) while
// it runs. A training that finds them goes on from them, and the model has the same bits as without
// the interruption. checkpoint_s: seconds between two checkpoints of a member.
// watch is Nullable. PF_TRAIN_BEST trains a trajectory model and, unless that is good enough, a
// recursive one (path.trajectory, path.recursive until both are done), and keeps the one that
// predicts the held-out windows better. The networks of a trajectory model are kept where they
// predict better than its linear part.
PF_API pf_status pf_train(const pf_train_settings *settings, const pf_transitions *data,
                          const char *path, double checkpoint_s, const pf_effort *effort,
                          const pf_train_watch *watch, pf_error *error);

// --- assessment

// Is a model good enough for the method? The assessment compares open-loop responses of the
// undisturbed plant with what the model expects of them. The commands are the plant's default
// probes, with the last command held to the longest horizon.
#define PF_ASSESS_HORIZONS 5
PF_API const int *pf_assess_horizons(void); // 1, 2, 4, 8, 12

// Scales that differences are measured in: the pulse's (the plant's own where it declares one, else
// the rms of the nominal pulse response), and the rms of the model's own error by channel and step.
typedef enum pf_assess_scale {
    PF_ASSESS_PULSE,
    PF_ASSESS_RESIDUAL,
    PF_ASSESS_SCALES
} pf_assess_scale;

typedef struct pf_assessment {
    int mechanism;
    // rms of model less plant up to a step, over that of the signature (plant at g_cal less
    // nominal).
    double error[PF_ASSESS_SCALES][PF_ASSESS_HORIZONS];
    double copy[PF_ASSESS_HORIZONS];   // the same for "nothing changes", pulse scale
    double linear[PF_ASSESS_HORIZONS]; // and for the linear part alone
    // Distance of the medians of <r,h>/<h,h> at g_cal and at gain 1, in dispersions at gain 1.
    double separation[PF_ASSESS_SCALES];
    // rms standard deviation over the members over the rms error of their mean, at steps 1..8,
    // pulse scale. Below 1: overconfident. NaN with one member.
    double spread;
    // Standard deviation of the gain that one probe tells: model error (residual scale) and the
    // sensors' noise.
    double gain_sd;
    double gain_bias; // the part of it that is always wrong in the same way
    // Bound of the return of the mechanism's default task, with the anchored certificate: the gain
    // known exactly; a healthy machine after two probes; one at g_cal, corrected, after four. NaN:
    // the plant has no such task.
    double bound_exact, bound_healthy, bound_lost;
} pf_assessment;

enum { PF_ASSESS_STARTS = 40 };

// One entry per candidate, n_mech - 1 of them, from PF_ASSESS_STARTS fresh starts (and as many
// others for the residual scale).
PF_API pf_status pf_assess(const pf_model *model, pf_plant *plant, double g_cal, uint64_t seed,
                           const pf_effort *effort, pf_assessment *out, pf_error *error);

#ifdef __cplusplus
}
#endif
#endif
