// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_TRAIN_IMPL_H
#define PF_TRAIN_IMPL_H

#include "model_impl.h"
#include "preflight/train.h"

// Transitions, or the windows at the beginning of episodes, as a network sees them: standardised
// features, and what the linear part leaves of the change, standardised. Shared by all members. The
// last episodes are held out.
typedef struct pf_dataset {
    int n_in, n_out;
    int n_train, n_valid;
    float *x, *y; // (n_train + n_valid) rows
    double left;  // mean square of y in the held-out rows: what the linear part alone has there
    double error; // the same of what it leaves, over the energy of the change; mean over outputs
    void *memory; // owned
} pf_dataset;

// Also fills the means, scales and the linear part of the model, from the training rows alone.
pf_status pf__dataset_make(pf_dataset *set, const pf_transitions *data, double held_out,
                           pf_model *model, pf_error *error);
// The same from a share of the training rows: what more data would bring.
pf_status pf__dataset_make_part(pf_dataset *set, const pf_transitions *data, double held_out,
                                double share, pf_model *model, pf_error *error);
void pf__dataset_free(pf_dataset *set);

// --- windows.c

// The windows at the beginning of episodes, as kits use them, and what a miss in them weighs. All
// channels count alike, and so do all windows: those of small commands are what probes look like.
typedef struct pf_windows {
    const pf_transitions *data;
    int lead, steps;     // of an episode at rest, of a window
    int n_train, n_held; // windows
    int *episode;        // of each window, those to learn from first
    double *weight;      // n_chan: of a squared miss. Owned.
    double *alike;       // of each window, so that missing all that moves is about 1
} pf_windows;

pf_status pf__windows_open(pf_windows *windows, const pf_transitions *data, double held_out,
                           int steps, pf_error *error);
void pf__windows_close(pf_windows *windows);

// Readings of a window from the one before its first command, and its commands.
const double *pf__windows_at(const pf_windows *windows, int which, const float **commands);

// What a model leaves of the held-out windows of `window` steps, over what moves in them; mean over
// windows and channels. NaN where the data have no such windows.
pf_status pf__window_error(const pf_model *model, const pf_transitions *data, double held_out,
                           int window, double *left, pf_error *error);

// What a held-out window in which one mechanism moves, as in a probe, tells of its gain: the
// standard deviation by the model's error alone, geometric mean over mechanisms. NaN where the data
// have no such windows. This is what a model for a kit is chosen by: a model may leave little of
// what moves and still lose a small command in what it misses of the free motion.
pf_status pf__window_gain(const pf_model *model, const pf_transitions *data, double held_out,
                          int window, double *sd, pf_error *error);

// --- rollouts.c

// Doubles of work space for a batch.
size_t pf__rollouts_work(const pf_net *net, int n_chan, int steps, int rows);

// What a recursive member misses when it rolls through the first steps of `rows` windows, mean over
// them, as pf__window_error measures it; and the gradient by its parameters (Nullable). Means,
// scales and the linear part are the model's.
double pf__rollouts_loss(const pf_windows *windows, const pf_model *model, const float *theta,
                         int steps, int rows, const int *which, double *work, float *gradient);

// --- member.c

// One member in training. Between two epochs this is all there is of it, so a checkpoint of it is
// where training goes on with the same bits.
typedef struct pf_member {
    int index;
    int epoch;      // finished
    int best_epoch; // from 1; 0: none
    int turn;       // epochs of single steps before the rollouts; 0: still in them
    double best;    // held-out error of best_epoch, after the turn that of rollouts
    bool finished;
    float *theta, *first, *second, *kept; // kept: the parameters of best_epoch
    float *history;                       // pf__member_epochs x PF_HISTORY
} pf_member;

// Refuses settings that are out of range or would not fit in memory with so many channels and
// mechanisms.
pf_status pf__train_size(const pf_train_settings *s, int n_chan, int n_mech, pf_error *error);

// Epochs of a member at most: of single steps, then of rollouts.
int pf__member_epochs(const pf_train_settings *s);

// Columns of the history: training error, held-out error, samples per second.
enum { PF_HISTORY = 3 };

// What a worker needs for an epoch, shared between the members it serves.
typedef struct pf_epoch_space {
    int *order;      // n_train rows in the order of this epoch
    float *x, *y;    // one batch
    float *gradient; // one network
    float *work;     // pf__net_gradient_work
    double *rolled;  // pf__rollouts_work, with rollouts
} pf_epoch_space;

// What rollouts need.
typedef struct pf_rolled {
    pf_windows windows;
    const pf_model *model;
} pf_rolled;

// Windows of a batch of rollouts.
int pf__rollouts_batch(const pf_train_settings *s);

// Parameters drawn from the member's own stream, moments zero.
void pf__member_init(pf_member *m, const pf_train_settings *s, const pf_net *net);

// One pass over the member's own bootstrap of the training rows, or after the turn over that of the
// windows of rolled (Nullable: there is no turn), then the held-out error. Stops
// half way with PF_ERR_INTERRUPTED when *stop (Nullable) is set; the member is then of no use.
pf_status pf__member_epoch(pf_member *m, const pf_train_settings *s, const pf_net *net,
                           const pf_dataset *set, const pf_rolled *rolled, pf_epoch_space *space,
                           const volatile int *stop, pf_error *error);

// The smallest held-out error of single steps.
double pf__member_stepped(const pf_member *m);

// Checkpoints: fingerprint says what training they belong to. Reading finds nothing where there is
// no file (*found false) and refuses the file of another training.
pf_status pf__member_write(const pf_member *m, const pf_train_settings *s, const pf_net *net,
                           const char *path, const char *fingerprint, pf_error *error);
pf_status pf__member_read(pf_member *m, const pf_train_settings *s, const pf_net *net,
                          const char *path, const char *fingerprint, bool *found, pf_error *error);

#endif
