// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "rollout.h"
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
    double *one;     // 1, then the features: the row of the normal equations
    double *feature; // n_in, one + 1
    double *change;  // n_out
    double *moment;  // n_in + 1 squared: normal equations
    double *right;   // (n_in + 1) x n_out
    double *energy;  // n_out: mean square of the change
    double *scale;   // n_in
    double *mean;    // n_in
} maker;

typedef void (*row_fn)(maker *m, size_t row);

// Features and change of what begins at reading `t` of an episode, be it a step or a window.
static void fill(maker *m, const double *x, const float *u, int t)
{
    const pf_model_info *i = &m->model->info;
    size_t chan = (size_t)i->n_chan, n = (size_t)pf__features_count(i->n_chan, i->kinds);
    const double *now = x + (size_t)t * chan;
    double *feature = m->feature;
    pf__features_history(i->n_chan, i->kinds, i->history, now - (size_t)(i->history - 1) * chan,
                         feature);
    feature += (size_t)i->history * n;
    const float *command = u + (t - (i->history - 1)) * i->n_mech;
    for (int j = 0; j < (i->history - 1 + i->window) * i->n_mech; j++) {
        feature[j] = (double)command[j];
    }
    for (int s = 0; s < i->window; s++) {
        double *change = m->change + (size_t)s * chan;
        const double *next = now + (size_t)(s + 1) * chan;
        pf__features_change(i->n_chan, i->kinds, now, next, change);
        for (int c = 0; s > 0 && c < i->n_chan; c++) { // an angle may go round more than once
            if (i->kinds[c] == PF_CHANNEL_ANGLE) {
                double before = change[c - i->n_chan], step = next[c] - next[c - i->n_chan];
                change[c] = before + pf__features_wrapped(step);
            }
        }
    }
}

// Rows of an episode of so many steps: every step, or the one window after the lead.
static int rows_of(const maker *m, int steps)
{
    const pf_model_info *i = &m->model->info;
    return i->window == 1 ? steps : steps >= m->info->lead + i->window;
}

static void each_row(maker *m, int first, int last, size_t row, row_fn visit)
{
    bool windows = m->model->info.window > 1;
    for (int e = first; e < last; e++) {
        const double *x;
        const float *u;
        int n = rows_of(m, pf__transitions_episode(m->data, e, &x, &u));
        for (int t = 0; t < n; t++) {
            fill(m, x, u, windows ? m->info->lead : t);
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
}

static void add_moments(maker *m, size_t row)
{
    (void)row;
    standardise(m);
    int n = m->set->n_in + 1, out = m->set->n_out;
    for (int i = 0; i < n; i++) {
        double f = m->one[i];
        double *restrict to = m->moment + (size_t)i * (size_t)n;
        for (int k = 0; k <= i; k++) {
            to[k] += f * m->one[k];
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

// The lower Cholesky factor of a in its place; a is positive thanks to the ridge.
static bool factor(int n, double *a)
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
    return true;
}

// Takes `f` times one row of columns first..last from another.
static void take_row(double *to, const double *from, double f, int first, int last)
{
    for (int c = first; c < last; c++) {
        to[c] -= f * from[c];
    }
}

// right = inverse of the factor times right, row by row.
static void solve_forward(int n, int n_right, const double *l, double *right)
{
    for (int j = 0; j < n; j++) {
        double *to = right + (size_t)j * (size_t)n_right;
        for (int k = 0; k < j; k++) {
            take_row(to, right + (size_t)k * (size_t)n_right, l[(size_t)j * (size_t)n + (size_t)k],
                     0, n_right);
        }
        for (int c = 0; c < n_right; c++) {
            to[c] /= l[(size_t)j * (size_t)n + (size_t)j];
        }
    }
}

// The columns first..last as if there were only the first `used` unknowns: the factor of a leading
// part is the leading part of the factor.
static void solve_backward(int n, int used, int n_right, int first, int last, const double *l,
                           double *right)
{
    for (int j = n - 1; j >= 0; j--) {
        double *to = right + (size_t)j * (size_t)n_right;
        for (int k = j + 1; k < used && j < used; k++) {
            take_row(to, right + (size_t)k * (size_t)n_right, l[(size_t)k * (size_t)n + (size_t)j],
                     first, last);
        }
        for (int c = first; c < last; c++) {
            to[c] = j < used ? to[c] / l[(size_t)j * (size_t)n + (size_t)j] : 0;
        }
    }
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

// Least squares. A row of a window has the constant, the readings and the commands before it, which
// come first.
static pf_status fit_linear(maker *m, int first_held, pf_error *error)
{
    const pf_model_info *info = &m->model->info;
    int n = m->set->n_in + 1, out = m->set->n_out, chan = info->n_chan;
    double rows = m->set->n_train;
    each_row(m, 0, first_held, 0, add_moments);
    for (int i = 0; i < n; i++) {
        m->moment[(size_t)i * (size_t)n + (size_t)i] += ridge * rows;
    }
    if (!factor(n, m->moment)) {
        return pf_fail(error, PF_ERR_DEGENERATE,
                       "the transitions leave the linear predictor undetermined");
    }
    solve_forward(n, out, m->moment, m->right);
    for (int t = 0; t < info->window; t++) {
        int used = n - (info->window - 1 - t) * info->n_mech;
        solve_backward(n, used, out, t * chan, (t + 1) * chan, m->moment, m->right);
    }
    for (int c = 0; c < out; c++) {
        for (int i = 0; i < n - 1; i++) {
            m->model->change_linear[(size_t)c * (size_t)(n - 1) + (size_t)i] =
                (float)m->right[((size_t)i + 1) * (size_t)out + (size_t)c];
        }
        m->model->change_mean[c] = (float)m->right[c];
    }
    return PF_OK;
}

// What the linear part leaves of the held-out rows, in the units of the change still.
static void measure_rest(const maker *m)
{
    pf_dataset *s = m->set;
    size_t out = (size_t)s->n_out;
    int moving = 0;
    s->error = 0;
    for (size_t c = 0; c < out; c++) {
        double sum = 0, energy = m->energy[c] / s->n_train;
        for (size_t r = (size_t)s->n_train; r < (size_t)s->n_train + (size_t)s->n_valid; r++) {
            sum += (double)s->y[r * out + c] * (double)s->y[r * out + c];
        }
        moving += energy > 0;
        s->error += energy > 0 ? sum / s->n_valid / energy : 0;
    }
    s->error = moving > 0 ? s->error / moving : 0;
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
        for (size_t r = (size_t)s->n_train; r < all; r++) {
            m->set->left += (double)s->y[r * out + c] * (double)s->y[r * out + c];
        }
    }
    m->set->left /= (double)s->n_valid * s->n_out;
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
    m->one = s->memory;
    m->one[0] = 1;
    m->feature = m->one + 1;
    m->change = m->one + n;
    m->moment = m->change + out;
    m->right = m->moment + n * n;
    m->energy = m->right + n * out;
    m->scale = m->energy + out;
    m->mean = m->scale + in;
    s->x = (float *)(m->mean + in);
    s->y = s->x + rows * in;
    return PF_OK;
}

static pf_status check_data(const maker *m, pf_error *error)
{
    const pf_model_info *i = &m->model->info;
    const pf_dataset *set = m->set;
    bool steps = m->info->lead + i->window <= m->info->steps;
    if (i->window > 1 && (m->info->lead + 1 < i->history || !steps)) {
        return pf_fail(
            error, PF_ERR_ARGUMENT,
            "the data have episodes of %d steps, %d of them at rest; a window of %d with "
            "%d readings needs longer ones",
            m->info->steps, m->info->lead, i->window, i->history);
    }
    if (set->n_train < 2 * (set->n_in + 1) || set->n_valid < 1) {
        return pf_fail(error, PF_ERR_DEGENERATE,
                       "%d %s to learn from and %d held out are too few for %d inputs; set more "
                       "transitions, or record more",
                       set->n_train, i->window > 1 ? "windows" : "transitions", set->n_valid,
                       set->n_in);
    }
    return PF_OK;
}

pf_status pf__dataset_make_part(pf_dataset *set, const pf_transitions *data, double held_out,
                                double share, pf_model *model, pf_error *error)
{
    const pf_transitions_info *info = pf_transitions_get_info(data);
    *set = (pf_dataset){.n_in = model->net.n_in, .n_out = model->net.n_out};
    maker m = {.data = data, .info = info, .set = set, .model = model};
    int held = (int)ceil(held_out * info->n_episodes), first_held = info->n_episodes - held;
    int used = (int)ceil(share * first_held); // of those to learn from, the first ones
    for (int e = 0; e < info->n_episodes; e++) {
        const double *x;
        const float *u;
        int rows = rows_of(&m, pf__transitions_episode(data, e, &x, &u));
        set->n_train += e < used ? rows : 0;
        set->n_valid += e >= first_held ? rows : 0;
    }
    pf_status status = check_data(&m, error);
    if (status != PF_OK) {
        return status;
    }
    status = take_memory(&m, (size_t)set->n_train + (size_t)set->n_valid, error);
    if (status == PF_OK) {
        fit_inputs(&m, used);
        status = fit_linear(&m, used, error);
    }
    if (status == PF_OK) {
        each_row(&m, 0, used, 0, store_row);
        each_row(&m, first_held, info->n_episodes, (size_t)set->n_train, store_row);
        measure_rest(&m);
        scale_rest(&m);
    } else {
        pf__dataset_free(set);
    }
    return status;
}

pf_status pf__dataset_make(pf_dataset *set, const pf_transitions *data, double held_out,
                           pf_model *model, pf_error *error)
{
    return pf__dataset_make_part(set, data, held_out, 1, model, error);
}

void pf__dataset_free(pf_dataset *set)
{
    free(set->memory);
    *set = (pf_dataset){0};
}
