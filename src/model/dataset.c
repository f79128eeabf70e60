// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "train_impl.h"
#include "transitions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// A channel that the linear part predicts to this share of its change is not magnified further.
static const double smallest_rest = 1e-4;
// A feature that varies by less, relative to its mean, is a constant and not magnified.
static const double smallest_sd = 1e-6;
// Added to the diagonal of the normal equations of standardised features.
static const double ridge = 1e-8;

// What making a set works in.
typedef struct maker {
    const pf_transitions *data;
    const pf_transitions_info *info;
    pf_dataset *set;
    pf_model *model;
    double *feature; // n_in
    double *change;  // n_out
    double *moment;  // n_in + 1 squared: normal equations
    double *right;   // (n_in + 1) x n_out
    double *energy;  // n_out: mean square of the change
    double *scale;   // n_in
    double *mean;    // n_in
} maker;

typedef void (*row_fn)(maker *m, size_t row);

// Features and change of every transition in `first`..`last`, in order.
static void each_row(maker *m, int first, int last, size_t row, row_fn visit)
{
    const pf_transitions_info *info = m->info;
    size_t chan = (size_t)info->n_chan, mech = (size_t)info->n_mech;
    int n_state = m->set->n_in - info->n_mech;
    for (int e = first; e < last; e++) {
        const double *x;
        const float *u;
        int steps = pf__transitions_episode(m->data, e, &x, &u);
        for (int t = 0; t < steps; t++) {
            pf__features_of(info->n_chan, info->kinds, x + (size_t)t * chan, m->feature);
            for (size_t j = 0; j < mech; j++) {
                m->feature[(size_t)n_state + j] = (double)u[(size_t)t * mech + j];
            }
            pf__features_change(info->n_chan, info->kinds, x + (size_t)t * chan,
                                x + ((size_t)t + 1) * chan, m->change);
            visit(m, row++);
        }
    }
}

static void add_mean(maker *m, size_t row)
{
    (void)row;
    for (int i = 0; i < m->set->n_in; i++) {
        m->mean[i] += m->feature[i];
    }
}

static void add_variance(maker *m, size_t row)
{
    (void)row;
    for (int i = 0; i < m->set->n_in; i++) {
        double d = m->feature[i] - m->mean[i];
        m->scale[i] += d * d;
    }
}

static void standardise(maker *m)
{
    for (int i = 0; i < m->set->n_in; i++) {
        m->feature[i] = (double)(float)((m->feature[i] - (double)m->model->input_mean[i]) /
                                        (double)m->model->input_scale[i]);
    }
    m->feature[m->set->n_in] = 1;
}

static void add_moments(maker *m, size_t row)
{
    (void)row;
    standardise(m);
    int n = m->set->n_in + 1, out = m->set->n_out;
    for (int i = 0; i < n; i++) {
        double f = m->feature[i];
        double *restrict to = m->moment + (size_t)i * (size_t)n;
        for (int k = 0; k <= i; k++) {
            to[k] += f * m->feature[k];
        }
        double *restrict right = m->right + (size_t)i * (size_t)out;
        for (int c = 0; c < out; c++) {
            right[c] += f * m->change[c];
        }
    }
    for (int c = 0; c < out; c++) {
        m->energy[c] += m->change[c] * m->change[c];
    }
}

// Solves moment * right = right in place by Cholesky; moment is positive thanks to the ridge.
static bool solve(int n, int n_right, double *a, double *right)
{
    for (int j = 0; j < n; j++) {
        double *row = a + (size_t)j * (size_t)n;
        for (int k = 0; k <= j; k++) {
            const double *other = a + (size_t)k * (size_t)n;
            double sum = row[k];
            for (int i = 0; i < k; i++) {
                sum -= row[i] * other[i];
            }
            if (k < j) {
                row[k] = sum / other[k];
            } else if (sum > 0) {
                row[j] = sqrt(sum);
            } else {
                return false;
            }
        }
    }
    for (int pass = 0; pass < 2; pass++) {
        for (int s = 0; s < n; s++) {
            int j = pass == 0 ? s : n - 1 - s;
            double *to = right + (size_t)j * (size_t)n_right;
            int first = pass == 0 ? 0 : j + 1, last = pass == 0 ? j : n;
            for (int k = first; k < last; k++) {
                double factor = pass == 0 ? a[(size_t)j * (size_t)n + (size_t)k]
                                          : a[(size_t)k * (size_t)n + (size_t)j];
                const double *from = right + (size_t)k * (size_t)n_right;
                for (int c = 0; c < n_right; c++) {
                    to[c] -= factor * from[c];
                }
            }
            double diagonal = a[(size_t)j * (size_t)n + (size_t)j];
            for (int c = 0; c < n_right; c++) {
                to[c] /= diagonal;
            }
        }
    }
    return true;
}

// Features as floats, and the change less the linear part, not yet scaled.
static void store_row(maker *m, size_t row)
{
    standardise(m);
    int n_in = m->set->n_in, n_out = m->set->n_out;
    float *x = m->set->x + row * (size_t)n_in, *y = m->set->y + row * (size_t)n_out;
    for (int i = 0; i < n_in; i++) {
        x[i] = (float)m->feature[i];
    }
    for (int c = 0; c < n_out; c++) {
        const float *linear = m->model->change_linear + (size_t)c * (size_t)n_in;
        double rest = m->change[c] - (double)m->model->change_mean[c];
        for (int i = 0; i < n_in; i++) {
            rest -= (double)linear[i] * m->feature[i];
        }
        y[c] = (float)rest;
    }
}

static pf_status fit_linear(maker *m, int first_held, pf_error *error)
{
    int n = m->set->n_in + 1, out = m->set->n_out;
    double rows = m->set->n_train;
    each_row(m, 0, first_held, 0, add_moments);
    for (int i = 0; i < n; i++) {
        m->moment[(size_t)i * (size_t)n + (size_t)i] += ridge * rows;
    }
    if (!solve(n, out, m->moment, m->right)) {
        return pf_fail(error, PF_ERR_DEGENERATE,
                       "the transitions leave the linear predictor undetermined");
    }
    for (int c = 0; c < out; c++) {
        for (int i = 0; i < n - 1; i++) {
            m->model->change_linear[(size_t)c * (size_t)(n - 1) + (size_t)i] =
                (float)m->right[(size_t)i * (size_t)out + (size_t)c];
        }
        m->model->change_mean[c] = (float)m->right[(size_t)(n - 1) * (size_t)out + (size_t)c];
    }
    return PF_OK;
}

// Divides what is left by its rms over the training rows. A channel that never changes has nothing
// left and scale 0.
static void scale_rest(maker *m)
{
    const pf_dataset *s = m->set;
    size_t out = (size_t)s->n_out, all = (size_t)s->n_train + (size_t)s->n_valid;
    for (size_t c = 0; c < out; c++) {
        double sum = 0;
        for (size_t r = 0; r < (size_t)s->n_train; r++) {
            sum += (double)s->y[r * out + c] * (double)s->y[r * out + c];
        }
        double rms = sqrt(sum / s->n_train), change = sqrt(m->energy[c] / s->n_train);
        float scale = (float)fmax(rms, smallest_rest * change);
        m->model->change_scale[c] = scale;
        for (size_t r = 0; r < all; r++) {
            s->y[r * out + c] = scale > 0 ? s->y[r * out + c] / scale : 0;
        }
    }
}

static void fit_inputs(maker *m, int first_held)
{
    double rows = m->set->n_train;
    each_row(m, 0, first_held, 0, add_mean);
    for (int i = 0; i < m->set->n_in; i++) {
        m->mean[i] /= rows;
        m->model->input_mean[i] = (float)m->mean[i];
    }
    each_row(m, 0, first_held, 0, add_variance);
    for (int i = 0; i < m->set->n_in; i++) {
        double sd = sqrt(m->scale[i] / rows);
        bool constant = sd <= fmax(smallest_sd * fabs(m->mean[i]), 1e-12);
        m->model->input_scale[i] = constant ? 1 : (float)sd;
    }
}

static pf_status take_memory(maker *m, size_t rows, pf_error *error)
{
    pf_dataset *s = m->set;
    size_t in = (size_t)s->n_in, out = (size_t)s->n_out, n = in + 1;
    size_t floats = rows * (in + out);
    size_t doubles = n + out + n * n + n * out + out + in + in;
    s->memory = calloc(doubles * sizeof(double) + floats * sizeof(float), 1);
    if (!s->memory) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for %z transitions", rows);
    }
    m->feature = s->memory;
    m->change = m->feature + n;
    m->moment = m->change + out;
    m->right = m->moment + n * n;
    m->energy = m->right + n * out;
    m->scale = m->energy + out;
    m->mean = m->scale + in;
    s->x = (float *)(m->mean + in);
    s->y = s->x + rows * in;
    return PF_OK;
}

pf_status pf__dataset_make(pf_dataset *set, const pf_transitions *data, double held_out,
                           pf_model *model, pf_error *error)
{
    const pf_transitions_info *info = pf_transitions_get_info(data);
    *set = (pf_dataset){.n_in = model->net.n_in, .n_out = model->net.n_out};
    maker m = {.data = data, .info = info, .set = set, .model = model};
    int held = (int)ceil(held_out * info->n_episodes), first_held = info->n_episodes - held;
    for (int e = 0; e < info->n_episodes; e++) {
        const double *x;
        const float *u;
        *(e < first_held ? &set->n_train : &set->n_valid) +=
            pf__transitions_episode(data, e, &x, &u);
    }
    if (set->n_train < 2 * (set->n_in + 1) || set->n_valid < 1) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "%d transitions to learn from and %d held out are too few for %d inputs; "
                       "set more transitions",
                       set->n_train, set->n_valid, set->n_in);
    }
    pf_status status = take_memory(&m, (size_t)set->n_train + (size_t)set->n_valid, error);
    if (status == PF_OK) {
        fit_inputs(&m, first_held);
        status = fit_linear(&m, first_held, error);
    }
    if (status == PF_OK) {
        each_row(&m, 0, info->n_episodes, 0, store_row);
        scale_rest(&m);
    } else {
        pf__dataset_free(set);
    }
    return status;
}

void pf__dataset_free(pf_dataset *set)
{
    free(set->memory);
    *set = (pf_dataset){0};
}
