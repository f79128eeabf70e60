// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PREFLIGHT_MODEL_H
#define PREFLIGHT_MODEL_H

#include "preflight/plant.h"

#ifdef __cplusplus
extern "C" {
#endif

// A learned model of a plant: an ensemble of networks, each of which predicts from the observed
// channels and what the mechanisms deliver how the channels change in one control step,
//
//   x' = x + mean + linear f(x, v) + scale * net_e(f(x, v)),
//
// with f the standardised features of channels and commands. The linear part is the least-squares
// predictor, common to all members; each member learns what that leaves over. A hypothesised gain
// multiplies the command. The start of a prediction is what the sensors read before the first
// command, so a machine without a simulator can use a model too.

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

// Immutable after it was made; any number of threads may predict with it.
typedef struct pf_model pf_model;

PF_API pf_status pf_model_load(pf_model **model, const char *path, pf_error *error);
PF_API void pf_model_destroy(pf_model *model); // Nullable.
PF_API const pf_model_info *pf_model_get_info(const pf_model *model);

// Whether the model speaks of this plant: the same name, source, channels and mechanisms.
PF_API pf_status pf_model_fits(const pf_model *model, const pf_plant_info *info, pf_error *error);

// One request: what members expect of one command sequence from one start under many hypotheses.
// Its shape alone decides the shape of the matrix products, so a request gives the same bits
// whatever else is asked, in any thread, on one numeric library and CPU type.
typedef struct pf_model_request {
    const double *start;   // n_chan: the channels before the first command
    const double *command; // steps x n_mech, before limits
    int steps;
    int n_hypotheses;
    const double *gains; // n_hypotheses x n_mech
} pf_model_request;

// Doubles that a request of this size works in.
PF_API size_t pf_model_scratch(const pf_model *model, int n_hypotheses);

// Writes n_hypotheses x steps x n_chan for one member. A prediction that leaves the finite numbers
// is PF_ERR_NONFINITE.
PF_API pf_status pf_model_roll(const pf_model *model, int member, const pf_model_request *request,
                               double *scratch, double *response, pf_error *error);

// The mean over all members; scratch as above plus n_hypotheses x steps x n_chan.
PF_API pf_status pf_model_mean(const pf_model *model, const pf_model_request *request,
                               double *scratch, double *response, pf_error *error);

// What computes matrix products here: "avx512 1" (our own kernel), "openblas 0.3.21 Haswell", or
// "plain" without either.
PF_API const char *pf_numeric_library(void);

#ifdef __cplusplus
}
#endif
#endif
