// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_NETWORK_H
#define PF_NETWORK_H

#include "preflight/model.h"

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
// the same bits in any batch where the products are our own (matmul_wide.h).
void pf__net_forward(const pf_net *net, const float *theta, const float *packed, int rows,
                     const float *x, float *work, float *y);

// Mean over rows and outputs of (y - target)^2, and its gradient by the parameters.
double pf__net_gradient(const pf_net *net, const float *theta, int rows, const float *x,
                        const float *target, float *work, float *gradient);

// One step of Adam (decoupled weight decay) over n parameters; step counts from 1.
typedef struct pf_adam {
    float rate, beta1, beta2, epsilon, decay;
} pf_adam;
void pf__adam_step(const pf_adam *adam, int64_t step, size_t n, const float *gradient, float *first,
                   float *second, float *theta);

#endif
