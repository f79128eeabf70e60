// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_MODEL_IMPL_H
#define PF_MODEL_IMPL_H

#include "host/arena.h"
#include "preflight/model.h"
#include "preflight/plant.h"
#include "safetensors.h"

// As pf_model_load, from the bytes of the file at path, which are taken over.
pf_status pf__model_read(pf_model **model, const char *path, void *bytes, size_t n,
                         pf_error *error);

// --- features.c

// How the channels of a plant enter a network and leave it, so that equal physics look equal and a
// change is small and continuous: an angle enters as sine and cosine and changes by less than half
// a turn; a quaternion enters with length one and its first non-zero number positive, and its
// change is measured from there.

// Refuses a quaternion that is not four channels in a row.
pf_status pf__features_check(int n_chan, const pf_channel_kind *kinds, pf_error *error);

// Features of the channels, commands not counted: one per channel, two per angle.
int pf__features_count(int n_chan, const pf_channel_kind *kinds);

void pf__features_of(int n_chan, const pf_channel_kind *kinds, const double *x, double *features);

// Features of `history` readings, oldest first: of the newest its own, of an older one what they
// lack to those of the next, since readings that follow each other differ by little.
void pf__features_history(int n_chan, const pf_channel_kind *kinds, int history, const double *x,
                          double *features);

// An angle brought to within half a turn of zero.
double pf__features_wrapped(double angle);
// What is to be predicted of the step from x to next.
void pf__features_change(int n_chan, const pf_channel_kind *kinds, const double *x,
                         const double *next, double *change);

// x after the change, in place.
void pf__features_apply(int n_chan, const pf_channel_kind *kinds, const double *change, double *x);

// Gradients of both. From that by the features, that by x, added to dx. From that by what follows
// x (dnext), that by x and by the change; dx may be dnext.
void pf__features_of_back(int n_chan, const pf_channel_kind *kinds, const double *x,
                          const double *dfeatures, double *dx);
void pf__features_apply_back(int n_chan, const pf_channel_kind *kinds, const double *change,
                             const double *x, const double *dnext, double *dx, double *dchange);

// --- network.c

// A multilayer perceptron in float32. All parameters lie in one block, layer by layer: weight
// (outputs x inputs, row-major, as in PyTorch), then bias.
typedef struct pf_net {
    int n_in, n_out;
    int n_layers, width; // hidden
    pf_activation activation;
} pf_net;

// Inputs and outputs of layer l in 0..n_layers (the last one has no activation), and where its
// weights and bias lie in the block.
int pf__net_inputs(const pf_net *net, int layer);
int pf__net_outputs(const pf_net *net, int layer);
size_t pf__net_weight(const pf_net *net, int layer);
size_t pf__net_bias(const pf_net *net, int layer);
size_t pf__net_parameters(const pf_net *net);

// Uniform in +-1/sqrt(inputs), weights and biases.
void pf__net_init(const pf_net *net, pf_rng *rng, float *theta);

// Floats of work space for a batch.
size_t pf__net_forward_work(const pf_net *net, int rows);
size_t pf__net_gradient_work(const pf_net *net, int rows);

// Weights that stay can be packed once for the forward pass: where those of a layer lie, for layer
// n_layers + 1 the floats of them all (0: packing is of no use here). At a 64-byte boundary.
size_t pf__net_packed(const pf_net *net, int layer);
void pf__net_pack(const pf_net *net, const float *theta, float *packed);

// y (rows x n_out) from x (rows x n_in). packed (Nullable): by pf__net_pack from theta. A row gives
// the same bits in any batch where the products are our own (matmul.h).
void pf__net_forward(const pf_net *net, const float *theta, const float *packed, int rows,
                     const float *x, float *work, float *y);

// Mean over rows and outputs of (y - target)^2, and its gradient by the parameters.
double pf__net_gradient(const pf_net *net, const float *theta, int rows, const float *x,
                        const float *target, float *work, float *gradient);

// The same in two halves, for losses of one's own: the output, which lies in the work space; then
// from its gradient dy (rows x n_out) that by the parameters, and with dx (Nullable) that by x. The
// work space must not change in between.
const float *pf__net_ahead(const pf_net *net, const float *theta, int rows, const float *x,
                           float *work);
void pf__net_back(const pf_net *net, const float *theta, int rows, const float *x, const float *dy,
                  float *work, float *gradient, float *dx);

// One step of Adam (decoupled weight decay) over n parameters; step counts from 1.
typedef struct pf_adam {
    float rate, beta1, beta2, epsilon, decay;
} pf_adam;
void pf__adam_step(const pf_adam *adam, int64_t step, size_t n, const float *gradient, float *first,
                   float *second, float *theta);

// --- model.c

struct pf_model {
    pf_arena arena;
    pf_model_info info;
    pf_net net;
    float *input_mean, *input_scale;   // n_in
    float *change_mean, *change_scale; // n_out = window x n_chan
    float *change_linear;              // n_out x n_in
    float *theta;                      // n_members x pf__net_parameters; NULL: no networks
    float *packed;                     // the weights of theta packed, NULL: not
    float *packed_linear;              // likewise, in the same memory
};

// Room for a model of this shape, all numbers zero. Names are copied.
pf_status pf__model_create(pf_model **model, const pf_model_info *info, pf_error *error);

// Packs the weights for rollouts, when they are final; without memory for it they stay as they are.
void pf__model_pack(pf_model *model);

// Writes the file and notes its sha256. extra: further metadata.
pf_status pf__model_save(pf_model *model, const char *path, int n_extra, const pf_meta *extra,
                         pf_error *error);

#endif
