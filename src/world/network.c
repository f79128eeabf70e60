// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "network.h"

#include "loops.h"
#include "matmul.h"

#include <math.h>

int pf_net_inputs(const pf_net *net, int layer)
{
    return layer == 0 ? net->n_in : net->width;
}

int pf_net_outputs(const pf_net *net, int layer)
{
    return layer == net->n_layers ? net->n_out : net->width;
}

static size_t weights(const pf_net *net, int layer)
{
    return (size_t)pf_net_inputs(net, layer) * (size_t)pf_net_outputs(net, layer);
}

size_t pf_net_weight(const pf_net *net, int layer)
{
    size_t at = 0;
    for (int l = 0; l < layer; l++) {
        at += weights(net, l) + (size_t)pf_net_outputs(net, l);
    }
    return at;
}

size_t pf_net_bias(const pf_net *net, int layer)
{
    return pf_net_weight(net, layer) + weights(net, layer);
}

size_t pf_net_parameters(const pf_net *net)
{
    return pf_net_weight(net, net->n_layers + 1);
}

void pf_net_init(const pf_net *net, pf_rng *rng, float *theta)
{
    for (int l = 0; l <= net->n_layers; l++) {
        double bound = 1 / sqrt(pf_net_inputs(net, l));
        size_t n = weights(net, l) + (size_t)pf_net_outputs(net, l);
        for (size_t i = 0; i < n; i++) {
            *theta++ = (float)(bound * (2 * pf_rng_uniform(rng) - 1));
        }
    }
}

static size_t hidden_size(const pf_net *net, int rows)
{
    return (size_t)rows * (size_t)net->width;
}

size_t pf_net_forward_work(const pf_net *net, int rows)
{
    return 2 * hidden_size(net, rows);
}

// Activations and slopes of every hidden layer, two gradients of a hidden layer, the output.
size_t pf_net_gradient_work(const pf_net *net, int rows)
{
    return (2 * (size_t)net->n_layers + 2) * hidden_size(net, rows) +
           (size_t)rows * (size_t)net->n_out;
}

static void activate(const pf_net *net, int rows, const float *bias, float *x, float *slope)
{
    if (net->activation == PF_ACTIVATION_SILU) {
        pf_loop_silu(rows, net->width, bias, x, slope);
    } else {
        pf_loop_relu(rows, net->width, bias, x, slope);
    }
}

void pf_net_forward(const pf_net *net, const float *theta, int rows, const float *x, float *work,
                    float *y)
{
    const float *in = x;
    for (int l = 0; l < net->n_layers; l++) {
        float *out = work + (size_t)(l % 2) * hidden_size(net, rows);
        pf_matmul(false, true, rows, net->width, pf_net_inputs(net, l), in,
                  theta + pf_net_weight(net, l), out);
        activate(net, rows, theta + pf_net_bias(net, l), out, NULL);
        in = out;
    }
    int last = net->n_layers;
    pf_matmul(false, true, rows, net->n_out, pf_net_inputs(net, last), in,
              theta + pf_net_weight(net, last), y);
    pf_loop_bias(rows, net->n_out, theta + pf_net_bias(net, last), y);
}

double pf_net_gradient(const pf_net *net, const float *theta, int rows, const float *x,
                       const float *target, float *work, float *gradient)
{
    size_t size = hidden_size(net, rows);
    int last = net->n_layers;
    float *act = work, *slope = act + (size_t)last * size, *g[2];
    g[0] = slope + (size_t)last * size;
    g[1] = g[0] + size;
    float *y = g[1] + size;
    const float *in = x;
    for (int l = 0; l < last; l++) {
        float *out = act + (size_t)l * size;
        pf_matmul(false, true, rows, net->width, pf_net_inputs(net, l), in,
                  theta + pf_net_weight(net, l), out);
        activate(net, rows, theta + pf_net_bias(net, l), out, slope + (size_t)l * size);
        in = out;
    }
    pf_matmul(false, true, rows, net->n_out, pf_net_inputs(net, last), in,
              theta + pf_net_weight(net, last), y);
    double total = pf_loop_error(rows, net->n_out, theta + pf_net_bias(net, last), target, y,
                                 gradient + pf_net_bias(net, last));
    const float *from = y;
    for (int l = last; l >= 0; l--) {
        int outputs = pf_net_outputs(net, l), inputs = pf_net_inputs(net, l);
        const float *below = l > 0 ? act + (size_t)(l - 1) * size : x;
        pf_matmul(true, false, outputs, inputs, rows, from, below,
                  gradient + pf_net_weight(net, l));
        if (l > 0) {
            float *to = g[l % 2];
            pf_matmul(false, false, rows, inputs, outputs, from, theta + pf_net_weight(net, l), to);
            pf_loop_slope(rows, inputs, slope + (size_t)(l - 1) * size, to,
                          gradient + pf_net_bias(net, l - 1));
            from = to;
        }
    }
    return total / ((double)rows * net->n_out);
}

void pf_adam_step(const pf_adam *adam, int64_t step, size_t n, const float *gradient, float *first,
                  float *second, float *theta)
{
    pf_loop_adam a = {.rate = adam->rate,
                      .beta1 = adam->beta1,
                      .beta2 = adam->beta2,
                      .epsilon = adam->epsilon,
                      .decay = adam->rate * adam->decay,
                      .correct1 = (float)(1 / (1 - pow((double)adam->beta1, (double)step))),
                      .correct2 = (float)(1 / (1 - pow((double)adam->beta2, (double)step)))};
    pf_loop_adam_step(&a, n, gradient, first, second, theta);
}
