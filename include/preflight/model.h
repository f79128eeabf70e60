// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PREFLIGHT_MODEL_H
#define PREFLIGHT_MODEL_H

#include "preflight/plant.h"

#ifdef __cplusplus
extern "C" {
#endif

// A learned model of a plant is an ensemble of networks. Each network takes the observed channels
// and what the mechanisms deliver. It predicts how the channels change in one control step,
//
//   x' = x + mean + linear f(x, v) + scale * net_e(f(x, v)),
//
// with f the standardised features of channels and commands. The linear part is the least-squares
// predictor, common to all members; each member learns the rest. The gain of a hypothesis
// multiplies the command. A prediction starts from what the sensors read before the first command,
// so a machine without a simulator can use a model too.

#define PF_MODEL_MEMBERS 64
#define PF_MODEL_LAYERS 8
#define PF_MODEL_WIDTH 4096

typedef enum pf_activation { PF_ACTIVATION_SILU = 0, PF_ACTIVATION_RELU = 1 } pf_activation;

// What a model tells of itself. Strings and arrays belong to the model.
typedef struct pf_model_info {
    const char *plant;  // name of the plant it was trained on
    const char *source; // simulator and version
    int n_chan, n_mech;
    const char *const *channels; // names
    const pf_channel_kind *kinds;
    const pf_mechanism *mechanisms; // names and limits
    int n_members, n_layers, width; // hidden layers and their width
    pf_activation activation;
    const char *data;      // sha256 of the transitions, or empty
    const char *processor; // what it was trained on: numeric library, version and CPU type
    const char *settings;  // of the training in words, or empty
    double valid_error;    // mean over members of the held-out error, NaN where not stated
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
