// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "train_impl.h"

#include "model/kernels/loops.h"
#include "model/kernels/matmul.h"

#include <math.h>
#include <string.h>

// What a recursive model misses of whole windows, and how that changes with its parameters: the
// error of a step is carried on to the next one, forth and back.

size_t pf__rollouts_work(const pf_net *net, int n_chan, int steps, int rows)
{
    size_t numbers = (size_t)rows * (size_t)n_chan, in = (size_t)rows * (size_t)net->n_in;
    size_t floats = (size_t)steps * (in + pf__net_gradient_work(net, rows)) + 2 * numbers + 2 * in +
                    pf__net_parameters(net);
    return (2 * (size_t)steps + 3) * numbers + (size_t)net->n_in + (floats + 1) / 2;
}

// Where the parts of the work space lie.
typedef struct batch {
    const pf_windows *w;
    const pf_model *model;
    const float *theta;
    const int *which;
    int rows, steps;
    size_t numbers;                        // rows x channels
    double *x, *change;                    // steps + 1 and steps times rows x channels
    double *dx, *dchange;                  // rows x channels
    double *feature;                       // n_in
    float *in, *net;                       // of each step: inputs, and work of the network
    float *linear, *dy, *din, *din_linear; // of one step
    float *part;                           // gradient of one step
} batch;

static batch lay_out(const pf_windows *w, const pf_model *model, const float *theta, int steps,
                     int rows, const int *which, double *work)
{
    const pf_net *net = &model->net;
    size_t in = (size_t)rows * (size_t)net->n_in, n = (size_t)steps;
    batch b = {
        .w = w, .model = model, .theta = theta, .which = which, .rows = rows, .steps = steps};
    b.numbers = (size_t)rows * (size_t)model->info.n_chan;
    b.x = work;
    b.change = b.x + (n + 1) * b.numbers;
    b.dx = b.change + n * b.numbers;
    b.dchange = b.dx + b.numbers;
    b.feature = b.dchange + b.numbers;
    b.in = (float *)(void *)(b.feature + net->n_in);
    b.net = b.in + n * in;
    b.linear = b.net + n * pf__net_gradient_work(net, rows);
    b.dy = b.linear + b.numbers;
    b.din = b.dy + b.numbers;
    b.din_linear = b.din + in;
    b.part = b.din_linear + in;
    return b;
}

static void step_ahead(const batch *b, int t)
{
    const pf_model *m = b->model;
    const pf_model_info *i = &m->info;
    size_t chan = (size_t)i->n_chan, n_in = (size_t)m->net.n_in;
    float *in = b->in + (size_t)t * (size_t)b->rows * n_in;
    double *x = b->x + (size_t)t * b->numbers, *next = x + b->numbers;
    double *change = b->change + (size_t)t * b->numbers;
    for (int row = 0; row < b->rows; row++) {
        const float *u;
        pf__windows_at(b->w, b->which[row], &u);
        pf__features_of(i->n_chan, i->kinds, x + (size_t)row * chan, b->feature);
        for (int j = 0; j < i->n_mech; j++) {
            b->feature[n_in - (size_t)i->n_mech + (size_t)j] = (double)u[t * i->n_mech + j];
        }
        pf__loop_standardise(m->net.n_in, b->feature, m->input_mean, m->input_scale,
                             in + (size_t)row * n_in);
    }
    pf__matmul(false, true, b->rows, i->n_chan, m->net.n_in, in, m->change_linear, b->linear);
    size_t each = pf__net_gradient_work(&m->net, b->rows);
    const float *y = pf__net_ahead(&m->net, b->theta, b->rows, in, b->net + (size_t)t * each);
    memcpy(next, x, b->numbers * sizeof *next);
    for (int row = 0; row < b->rows; row++) {
        size_t at = (size_t)row * chan;
        pf__loop_change(i->n_chan, m->change_mean, b->linear + at, m->change_scale, y + at,
                        change + at);
        pf__features_apply(i->n_chan, i->kinds, change + at, next + at);
    }
}

// What is missed after step t, squared and weighed; its gradient is added to dx (Nullable).
static double miss(const batch *b, int t, double *dx)
{
    const pf_model_info *i = &b->model->info;
    double sum = 0;
    for (int row = 0; row < b->rows; row++) {
        const float *u;
        const double *truth =
            pf__windows_at(b->w, b->which[row], &u) + (size_t)(t + 1) * (size_t)i->n_chan;
        for (int c = 0; c < i->n_chan; c++) {
            size_t at = (size_t)row * (size_t)i->n_chan + (size_t)c;
            double missed = b->x[(size_t)(t + 1) * b->numbers + at] - truth[c];
            missed = i->kinds[c] == PF_CHANNEL_ANGLE ? pf__features_wrapped(missed) : missed;
            double weight = b->w->weight[c] * b->w->alike[b->which[row]] / b->rows;
            sum += weight * missed * missed;
            if (dx) {
                dx[at] += 2 * weight * missed;
            }
        }
    }
    return sum;
}

// dx: from that by the readings after step t to that by those before it.
static void step_back(const batch *b, int t, float *gradient)
{
    const pf_model *m = b->model;
    const pf_model_info *i = &m->info;
    size_t chan = (size_t)i->n_chan, n_in = (size_t)m->net.n_in;
    const double *x = b->x + (size_t)t * b->numbers, *change = b->change + (size_t)t * b->numbers;
    const float *in = b->in + (size_t)t * (size_t)b->rows * n_in;
    for (int row = 0; row < b->rows; row++) {
        size_t at = (size_t)row * chan;
        pf__features_apply_back(i->n_chan, i->kinds, change + at, x + at, b->dx + at, b->dx + at,
                                b->dchange + at);
        for (size_t c = 0; c < chan; c++) {
            b->dy[at + c] = (float)b->dchange[at + c] * m->change_scale[c];
            b->linear[at + c] = (float)b->dchange[at + c];
        }
    }
    size_t each = pf__net_gradient_work(&m->net, b->rows);
    pf__net_back(&m->net, b->theta, b->rows, in, b->dy, b->net + (size_t)t * each, b->part, b->din);
    size_t n = pf__net_parameters(&m->net);
    for (size_t p = 0; p < n; p++) {
        gradient[p] += b->part[p];
    }
    pf__matmul(false, false, b->rows, m->net.n_in, i->n_chan, b->linear, m->change_linear,
               b->din_linear);
    for (int row = 0; row < b->rows; row++) {
        for (size_t k = 0; k < n_in; k++) {
            size_t at = (size_t)row * n_in + k;
            b->feature[k] = (double)(b->din[at] + b->din_linear[at]) / (double)m->input_scale[k];
        }
        size_t at = (size_t)row * chan;
        pf__features_of_back(i->n_chan, i->kinds, x + at, b->feature, b->dx + at);
    }
}

double pf__rollouts_loss(const pf_windows *w, const pf_model *model, const float *theta, int steps,
                         int rows, const int *which, double *work, float *gradient)
{
    const pf_model_info *i = &model->info;
    batch b = lay_out(w, model, theta, steps, rows, which, work);
    for (int row = 0; row < rows; row++) {
        const float *u;
        memcpy(b.x + (size_t)row * (size_t)i->n_chan, pf__windows_at(w, which[row], &u),
               (size_t)i->n_chan * sizeof(double));
    }
    double sum = 0;
    for (int t = 0; t < steps; t++) {
        step_ahead(&b, t);
        sum += gradient ? 0 : miss(&b, t, NULL);
    }
    if (gradient) {
        memset(gradient, 0, pf__net_parameters(&model->net) * sizeof *gradient);
        memset(b.dx, 0, b.numbers * sizeof *b.dx);
    }
    for (int t = steps - 1; t >= 0 && gradient; t--) {
        sum += miss(&b, t, b.dx);
        step_back(&b, t, gradient);
    }
    return sum;
}
