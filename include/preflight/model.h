// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PREFLIGHT_MODEL_H
#define PREFLIGHT_MODEL_H

#include "preflight/plant.h"

#ifdef __cplusplus
extern "C" {
#endif

// A learned model of a plant predicts how its channels change in a window of control steps,
//
//   x[1..window] = x[0] + mean + linear f + scale * net_e(f),
//
// with f the standardised features of the last readings before the first command (`history` of
// them, x[0] the newest) and of what the mechanisms deliver in each step between them and in the
// window. The linear
// part is the least-squares predictor, common to all members; each member is a network that learns
// the rest, or there is none. There are two kinds. A recursive model has a window of one step and
// goes on from its own prediction. A trajectory model predicts all rows at once; a row depends on
// the commands before it alone as far as the linear part goes. The gain of a hypothesis multiplies
// the command. A prediction starts from what the sensors read before the first command, while
// the machine rests, so a machine without a simulator can use a model too.

#define PF_MODEL_MEMBERS 64
#define PF_MODEL_LAYERS 8
#define PF_MODEL_WIDTH 4096
#define PF_MODEL_WINDOW 1024
#define PF_MODEL_HISTORY 32

typedef enum pf_activation { PF_ACTIVATION_SILU = 0, PF_ACTIVATION_RELU = 1 } pf_activation;

// What a model tells of itself. Strings and arrays belong to the model.
typedef struct pf_model_info {
    const char *plant;  // name of the plant it was trained on
    const char *source; // simulator and version
    int n_chan, n_mech;
    const char *const *channels; // names
    const pf_channel_kind *kinds;
    const pf_mechanism *mechanisms; // names and limits
    int window, history;            // 1 and 1: a recursive model
    int n_members, n_layers, width; // hidden layers and their width; no layers: no networks
    pf_activation activation;
    const char *data;      // sha256 of the transitions, or empty
    const char *processor; // what it was trained on: numeric library, version and CPU type
    const char *settings;  // of the training in words, or empty
    double valid_error;    // mean over members of the held-out error, NaN where not stated
    double window_error;   // of held-out windows, over the energy of their change; NaN: not stated
    char sha256[65];       // of the file; empty before it was saved or loaded
} pf_model_info;

// Immutable once made. Any number of threads may predict with it.
typedef struct pf_model pf_model;

PF_API pf_status pf_model_load(pf_model **model, const char *path, pf_error *error);
PF_API void pf_model_destroy(pf_model *model); // Nullable.
PF_API const pf_model_info *pf_model_get_info(const pf_model *model);

#ifdef __cplusplus
}
#endif
#endif
