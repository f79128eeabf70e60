// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "rollout.h"
#include "train_impl.h"
#include "transitions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// How good a model is on windows that nobody trained on.

// A miss is not made smaller than this share of the movement of its channel.
static const double least_miss = 1e-3;

typedef struct windows {
    const pf_model *model;
    const pf_transitions *data;
    const pf_transitions_info *info;
    int first; // episode that is held out
    int window;
    double *command;                 // (lead + window) x n_mech
    double *gains;                   // 2 x n_mech
    double *response;                // 2 x window x n_chan
    double *missed, *energy, *scale; // window x n_chan; n_chan; window x n_chan
    double *scratch;
    void *memory; // owned
} windows;

static size_t size_of(const windows *w)
{
    return (size_t)w->window * (size_t)w->info->n_chan;
}

// Room for two hypotheses, and none where the data have no windows for this model.
static pf_status open_windows(windows *w, const pf_model *model, const pf_transitions *data,
                              double held_out, int window, pf_error *error)
{
    const pf_transitions_info *info = pf_transitions_get_info(data);
    *w = (windows){.model = model,
                   .data = data,
                   .info = info,
                   .first = info->n_episodes - (int)ceil(held_out * info->n_episodes),
                   .window = window};
    if (window < 1 || info->lead + 1 < model->info.history) {
        w->first = info->n_episodes;
        w->window = window < 1 ? 1 : window;
    }
    size_t mech = (size_t)info->n_mech, chan = (size_t)info->n_chan, size = size_of(w);
    size_t work = pf__model_scratch(model, 2) + 2 * size, sent = (size_t)(info->lead + w->window);
    w->memory = calloc((sent + 2) * mech + 4 * size + chan + work, sizeof(double));
    if (!w->memory) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for held-out windows");
    }
    w->command = w->memory;
    w->gains = w->command + sent * mech;
    w->response = w->gains + 2 * mech;
    w->missed = w->response + 2 * size;
    w->scale = w->missed + size;
    w->energy = w->scale + size;
    w->scratch = w->energy + chan;
    return PF_OK;
}

// The next held-out episode with a window; its readings from the one before the first command.
static const double *next_window(windows *w, int *episode)
{
    size_t chan = (size_t)w->info->n_chan, mech = (size_t)w->info->n_mech;
    for (; *episode < w->info->n_episodes; (*episode)++) {
        const double *x;
        const float *u;
        if (pf__transitions_episode(w->data, *episode, &x, &u) < w->info->lead + w->window) {
            continue;
        }
        for (size_t k = 0; k < (size_t)(w->info->lead + w->window) * mech; k++) {
            w->command[k] = (double)u[k];
        }
        (*episode)++;
        return x + (size_t)w->info->lead * chan;
    }
    return NULL;
}

// What the model expects at gains 1, and with `weak` (-1: nobody) at another.
static pf_status expect(windows *w, const double *now, int weak, double gain, pf_error *error)
{
    int mech = w->info->n_mech, n = weak < 0 ? 1 : 2;
    for (int i = 0; i < 2 * mech; i++) {
        w->gains[i] = i == mech + weak && weak >= 0 ? gain : 1;
    }
    int earlier = w->model->info.history - 1;
    const double *command = w->command + w->info->lead * mech;
    pf_model_request request = {.start = now - earlier * w->info->n_chan,
                                .command = command,
                                .steps = w->window,
                                .n_hypotheses = n,
                                .gains = w->gains,
                                .before = command - earlier * mech};
    return pf__model_mean(w->model, &request, w->scratch, w->response, error);
}

// From one number to another of the same channel; an angle the short way.
static double difference(const windows *w, size_t k, const double *from, const double *to)
{
    bool angle = w->info->kinds[k % (size_t)w->info->n_chan] == PF_CHANNEL_ANGLE;
    return angle ? pf__features_wrapped(to[k] - from[k]) : to[k] - from[k];
}

// Squares of what the model misses, by step, and of what moves.
static pf_status add_up(windows *w, int *n, pf_error *error)
{
    int episode = w->first;
    size_t chan = (size_t)w->info->n_chan;
    pf_status status = PF_OK;
    *n = 0;
    for (const double *now; status == PF_OK && (now = next_window(w, &episode)); (*n)++) {
        status = expect(w, now, -1, 1, error);
        for (size_t k = 0; k < size_of(w) && status == PF_OK; k++) {
            double missed = difference(w, k, w->response, now + chan);
            double moved = difference(w, k % chan, now, now + chan + (k - k % chan));
            w->missed[k] += missed * missed;
            w->energy[k % chan] += moved * moved;
        }
    }
    return status;
}

static double left_over(const windows *w)
{
    size_t chan = (size_t)w->info->n_chan;
    double sum = 0;
    int moving = 0;
    for (size_t c = 0; c < chan; c++) {
        double missed = 0;
        for (int t = 0; t < w->window; t++) {
            missed += w->missed[(size_t)t * chan + c];
        }
        sum += w->energy[c] > 0 ? missed / w->energy[c] : 0;
        moving += w->energy[c] > 0;
    }
    return moving > 0 ? sum / moving : NAN;
}

pf_status pf__window_error(const pf_model *model, const pf_transitions *data, double held_out,
                           int window, double *left, pf_error *error)
{
    windows w;
    int n = 0;
    *left = NAN;
    pf_status status = open_windows(&w, model, data, held_out, window, error);
    status = status ? status : add_up(&w, &n, error);
    *left = status == PF_OK ? left_over(&w) : NAN;
    free(w.memory);
    if (status == PF_ERR_NONFINITE) { // a model that runs away leaves everything
        *left = INFINITY;
        return PF_OK;
    }
    return status;
}

// --- without a plant to ask

// Misses are measured in what is usual at their step.
static void find_scales(windows *w, int n)
{
    size_t chan = (size_t)w->info->n_chan;
    for (size_t k = 0; k < size_of(w); k++) {
        double moved = sqrt(w->energy[k % chan] / n / w->window);
        w->scale[k] = fmax(sqrt(w->missed[k] / n), least_miss * moved);
    }
}

// Standard deviation of the gain of a mechanism that a window of the usual size tells. The
// coordinate of the matched filter, <r,h>/<h,h>, is as uncertain as the window is small, so squares
// are weighed by <h,h>.
static pf_status gain_of(windows *w, int mechanism, double gain, double *sd, pf_error *error)
{
    int episode = w->first, n = 0;
    size_t chan = (size_t)w->info->n_chan, size = size_of(w);
    double off = 0, energy = 0;
    pf_status status = PF_OK;
    for (const double *now; status == PF_OK && (now = next_window(w, &episode));) {
        double rh = 0, hh = 0;
        status = expect(w, now, mechanism, gain, error);
        for (size_t k = 0; k < size && status == PF_OK; k++) {
            double h = w->scale[k] > 0 ? (w->response[size + k] - w->response[k]) / w->scale[k] : 0;
            double missed = difference(w, k, w->response, now + chan);
            rh += h > 0 || h < 0 ? h * missed / w->scale[k] : 0;
            hh += h * h;
        }
        n += hh > 0;
        off += hh > 0 ? rh * rh / hh : 0;
        energy += hh;
    }
    *sd = n > 0 ? (1 - gain) * sqrt(off / energy) : NAN;
    return status;
}

// What a linear part leaves of the held-out windows when fitted to a share of the others; infinite:
// these are too few for its inputs.
static pf_status linear_error(const pf_model *model, const pf_transitions *data, double held_out,
                              double share, int window, int *inputs, double *left, pf_error *error)
{
    pf_model *own = NULL;
    pf_dataset set = {0};
    pf_error why;
    *left = INFINITY;
    pf_status status = pf__model_create(&own, &model->info, error);
    pf_status fitted =
        status ? status : pf__dataset_make_part(&set, data, held_out, share, own, &why);
    if (status == PF_OK && fitted == PF_OK) {
        *inputs = set.n_in;
        status = pf__window_error(own, data, held_out, window, left, error);
    } else if (status == PF_OK && fitted != PF_ERR_DEGENERATE) {
        *error = why;
        status = fitted;
    }
    pf__dataset_free(&set);
    pf_model_destroy(own);
    return status;
}

pf_status pf__windows_report(const pf_model *model, const pf_transitions *data, double held_out,
                             double gain, pf_windows_report *r, pf_error *error)
{
    const pf_transitions_info *info = pf_transitions_get_info(data);
    int window = model->info.window > 1 ? model->info.window : info->steps - info->lead;
    windows w;
    int n = 0;
    *r = (pf_windows_report){.left = NAN};
    pf_status status = open_windows(&w, model, data, held_out, window, error);
    status = status ? status
                    : linear_error(model, data, held_out, 1, window, &r->inputs, &r->linear, error);
    status = status ? status
                    : linear_error(model, data, held_out, .5, window, &r->inputs, &r->half, error);
    status = status ? status : add_up(&w, &n, error);
    if (status == PF_OK) {
        find_scales(&w, n);
        r->windows = info->n_episodes;
        r->held_out = n;
        r->left = left_over(&w);
    }
    for (int j = 0; j < info->n_mech && status == PF_OK; j++) {
        status = gain_of(&w, j, gain, &r->gain_sd[j], error);
    }
    free(w.memory);
    return status;
}
