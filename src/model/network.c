// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "model_impl.h"

#include "model/kernels/loops.h"
#include "model/kernels/matmul.h"

#include <math.h>
#include <string.h>

int pf__net_inputs(const pf_net *net, int layer)
{
    return layer == 0 ? net->n_in : net->width;
}

int pf__net_outputs(const pf_net *net, int layer)
{
    return layer == net->n_layers ? net->n_out : net->width;
}

static size_t weights(const pf_net *net, int layer)
{
    return (size_t)pf__net_inputs(net, layer) * (size_t)pf__net_outputs(net, layer);
}

size_t pf__net_weight(const pf_net *net, int layer)
{
    size_t at = 0;
    for (int l = 0; l < layer; l++) {
        at += weights(net, l) + (size_t)pf__net_outputs(net, l);
    }
    return at;
}

size_t pf__net_bias(const pf_net *net, int layer)
{
    return pf__net_weight(net, layer) + weights(net, layer);
}

size_t pf__net_parameters(const pf_net *net)
{
    return pf__net_weight(net, net->n_layers + 1);
}

void pf__net_init(const pf_net *net, pf_rng *rng, float *theta)
{
    for (int l = 0; l <= net->n_layers; l++) {
        double bound = 1 / sqrt(pf__net_inputs(net, l));
        size_t n = weights(net, l) + (size_t)pf__net_outputs(net, l);
        for (size_t i = 0; i < n; i++) {
            *theta++ = (float)(bound * (2 * pf_rng_uniform(rng) - 1));
        }
    }
}

static size_t hidden_size(const pf_net *net, int rows)
{
    return (size_t)rows * (size_t)net->width;
}

size_t pf__net_forward_work(const pf_net *net, int rows)
{
    return 2 * hidden_size(net, rows);
}

// Activations and slopes of every hidden layer, two gradients of a hidden layer, the output.
size_t pf__net_gradient_work(const pf_net *net, int rows)
{
    return (2 * (size_t)net->n_layers + 2) * hidden_size(net, rows) +
           (size_t)rows * (size_t)net->n_out;
}

size_t pf__net_packed(const pf_net *net, int layer)
{
    size_t at = 0;
    for (int l = 0; l < layer; l++) {
        at += pf__matmul_packed_size(pf__net_outputs(net, l), pf__net_inputs(net, l));
    }
    return at;
}

void pf__net_pack(const pf_net *net, const float *theta, float *packed)
{
    for (int l = 0; l <= net->n_layers; l++) {
        pf__matmul_pack(true, pf__net_outputs(net, l), pf__net_inputs(net, l),
                        theta + pf__net_weight(net, l), packed + pf__net_packed(net, l));
    }
}

// --- what follows a product, part by part

typedef struct forward {
    const pf_net *net;
    const float *bias;
    float *slope; // NULL: not wanted
} forward;

static void activate(void *self, int row, int column, int rows, int width, size_t pitch, float *x)
{
    const forward *f = self;
    float *slope = f->slope ? f->slope + (size_t)row * pitch + (size_t)column : NULL;
    if (f->net->activation == PF_ACTIVATION_SILU) {
        pf__loop_silu(rows, width, pitch, f->bias + column, x, slope);
    } else {
        pf__loop_relu(rows, width, pitch, f->bias + column, x, slope);
    }
}

static void add_bias(void *self, int row, int column, int rows, int width, size_t pitch, float *x)
{
    (void)row;
    const forward *f = self;
    pf__loop_bias(rows, width, pitch, f->bias + column, x);
}

typedef struct backward {
    const float *slope;
    float *column_sum;
} backward;

static void slope_back(void *self, int row, int column, int rows, int width, size_t pitch, float *x)
{
    const backward *b = self;
    pf__loop_slope(rows, width, pitch, b->slope + (size_t)row * pitch + (size_t)column, x,
                   b->column_sum + column);
}

// --- passes

// in (rows x inputs) times the weights of a layer; packed: Nullable.
static pf_product layer_product(const pf_net *net, int l, const float *theta, const float *packed,
                                int rows, const float *in, float *out)
{
    return (pf_product){.b_transposed = true,
                        .m = rows,
                        .n = pf__net_outputs(net, l),
                        .k = pf__net_inputs(net, l),
                        .a = in,
                        .b = theta + pf__net_weight(net, l),
                        .packed = packed ? packed + pf__net_packed(net, l) : NULL,
                        .c = out};
}

static void hidden_layer(const pf_net *net, int l, const float *theta, const float *packed,
                         int rows, const float *in, float *out, float *slope)
{
    forward f = {net, theta + pf__net_bias(net, l), slope};
    pf_product p = layer_product(net, l, theta, packed, rows, in, out);
    p.finish = (pf_finish){activate, &f};
    p.beside = slope;
    pf__matmul_run(&p);
}

void pf__net_forward(const pf_net *net, const float *theta, const float *packed, int rows,
                     const float *x, float *work, float *y)
{
    const float *in = x;
    for (int l = 0; l < net->n_layers; l++) {
        float *out = work + (size_t)(l % 2) * hidden_size(net, rows);
        hidden_layer(net, l, theta, packed, rows, in, out, NULL);
        in = out;
    }
    int last = net->n_layers;
    forward f = {net, theta + pf__net_bias(net, last), NULL};
    pf_product p = layer_product(net, last, theta, packed, rows, in, y);
    p.finish = (pf_finish){add_bias, &f};
    pf__matmul_run(&p);
}

// to = (from W) * slope, and the sums of its columns.
static void hidden_back(const pf_net *net, int l, const float *theta, int rows, const float *from,
                        const float *slope, float *to, float *column_sum)
{
    backward b = {slope, column_sum};
    pf_product p = {.m = rows,
                    .n = pf__net_inputs(net, l),
                    .k = pf__net_outputs(net, l),
                    .a = from,
                    .b = theta + pf__net_weight(net, l),
                    .c = to,
                    .finish = {slope_back, &b},
                    .beside = slope};
    memset(column_sum, 0, (size_t)p.n * sizeof *column_sum);
    pf__matmul_run(&p);
}

// Where the parts of the gradient's work space lie.
typedef struct passes {
    float *act, *slope; // of every hidden layer
    float *back[2];     // gradients of a hidden layer
    float *y;           // the output
} passes;

static passes passes_in(const pf_net *net, int rows, float *work)
{
    size_t size = hidden_size(net, rows), all = (size_t)net->n_layers * size;
    passes p = {.act = work, .slope = work + all};
    p.back[0] = p.slope + all;
    p.back[1] = p.back[0] + size;
    p.y = p.back[1] + size;
    return p;
}

// Activations and slopes, and the output without its bias.
static void pass_forward(const pf_net *net, const float *theta, int rows, const float *x, passes *p)
{
    size_t size = hidden_size(net, rows);
    int last = net->n_layers;
    const float *in = x;
    for (int l = 0; l < last; l++) {
        float *out = p->act + (size_t)l * size;
        hidden_layer(net, l, theta, NULL, rows, in, out, p->slope + (size_t)l * size);
        in = out;
    }
    pf_product output = layer_product(net, last, theta, NULL, rows, in, p->y);
    pf__matmul_run(&output);
}

// From the gradient by the output, which is in p->y: that by all parameters but the last bias, and
// with dx (Nullable) that by the input.
static void pass_backward(const pf_net *net, const float *theta, int rows, const float *x,
                          const passes *p, float *gradient, float *dx)
{
    size_t size = hidden_size(net, rows);
    const float *from = p->y;
    for (int l = net->n_layers; l >= 0; l--) {
        const float *below = l > 0 ? p->act + (size_t)(l - 1) * size : x;
        pf__matmul(true, false, pf__net_outputs(net, l), pf__net_inputs(net, l), rows, from, below,
                   gradient + pf__net_weight(net, l));
        if (l > 0) {
            float *to = p->back[l % 2];
            hidden_back(net, l, theta, rows, from, p->slope + (size_t)(l - 1) * size, to,
                        gradient + pf__net_bias(net, l - 1));
            from = to;
        } else if (dx) {
            pf__matmul(false, false, rows, net->n_in, pf__net_outputs(net, 0), from,
                       theta + pf__net_weight(net, 0), dx);
        }
    }
}

double pf__net_gradient(const pf_net *net, const float *theta, int rows, const float *x,
                        const float *target, float *work, float *gradient)
{
    passes p = passes_in(net, rows, work);
    pass_forward(net, theta, rows, x, &p);
    size_t bias = pf__net_bias(net, net->n_layers);
    double total = pf__loop_error(rows, net->n_out, theta + bias, target, p.y, gradient + bias);
    pass_backward(net, theta, rows, x, &p, gradient, NULL);
    return total / ((double)rows * net->n_out);
}

const float *pf__net_ahead(const pf_net *net, const float *theta, int rows, const float *x,
                           float *work)
{
    passes p = passes_in(net, rows, work);
    pass_forward(net, theta, rows, x, &p);
    pf__loop_bias(rows, net->n_out, (size_t)net->n_out, theta + pf__net_bias(net, net->n_layers),
                  p.y);
    return p.y;
}

void pf__net_back(const pf_net *net, const float *theta, int rows, const float *x, const float *dy,
                  float *work, float *gradient, float *dx)
{
    passes p = passes_in(net, rows, work);
    float *bias = gradient + pf__net_bias(net, net->n_layers);
    memset(bias, 0, (size_t)net->n_out * sizeof *bias);
    for (int r = 0; r < rows; r++) {
        for (int c = 0; c < net->n_out; c++) {
            p.y[r * net->n_out + c] = dy[r * net->n_out + c];
            bias[c] += dy[r * net->n_out + c];
        }
    }
    pass_backward(net, theta, rows, x, &p, gradient, dx);
}

void pf__adam_step(const pf_adam *adam, int64_t step, size_t n, const float *gradient, float *first,
                   float *second, float *theta)
{
    pf_loop_adam a = {.rate = adam->rate,
                      .beta1 = adam->beta1,
                      .beta2 = adam->beta2,
                      .epsilon = adam->epsilon,
                      .decay = adam->rate * adam->decay,
                      .correct1 = (float)(1 / (1 - pow((double)adam->beta1, (double)step))),
                      .correct2 = (float)(1 / (1 - pow((double)adam->beta2, (double)step)))};
    pf__loop_adam_step(&a, n, gradient, first, second, theta);
}
