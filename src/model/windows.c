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

// A window in which nearly nothing moves counts as if this share of what usually moves did.
static const double least_energy = .01;

// --- the windows

// By channel: the sum over a window of the squares of what moves.
static void moved_in(const pf_windows *w, int which, double *energy)
{
    const pf_transitions_info *info = pf_transitions_get_info(w->data);
    const float *u;
    const double *x = pf__windows_at(w, which, &u);
    for (int c = 0; c < info->n_chan; c++) {
        energy[c] = 0;
        for (int t = 1; t <= w->steps; t++) {
            double moved = x[t * info->n_chan + c] - x[c];
            moved = info->kinds[c] == PF_CHANNEL_ANGLE ? pf__features_wrapped(moved) : moved;
            energy[c] += moved * moved;
        }
    }
}

// Channels by what moves in the windows to learn from, windows by what moves in them.
static void weigh(pf_windows *w, int n_chan, double *energy)
{
    int moving = 0;
    for (int i = 0; i < w->n_train; i++) {
        moved_in(w, i, energy);
        for (int c = 0; c < n_chan; c++) {
            w->weight[c] += energy[c] / w->n_train;
        }
    }
    for (int c = 0; c < n_chan; c++) {
        moving += w->weight[c] > 0;
    }
    for (int c = 0; c < n_chan; c++) {
        w->weight[c] = w->weight[c] > 0 ? 1 / w->weight[c] / moving : 0;
    }
    for (int i = 0; i < w->n_train + w->n_held; i++) {
        double all = 0; // 1 on average
        moved_in(w, i, energy);
        for (int c = 0; c < n_chan; c++) {
            all += w->weight[c] * energy[c];
        }
        w->alike[i] = 1 / (all + least_energy);
    }
}

pf_status pf__windows_open(pf_windows *w, const pf_transitions *data, double held_out, int steps,
                           pf_error *error)
{
    const pf_transitions_info *info = pf_transitions_get_info(data);
    int held = (int)ceil(held_out * info->n_episodes), first_held = info->n_episodes - held;
    size_t chan = (size_t)info->n_chan, episodes = (size_t)info->n_episodes;
    *w = (pf_windows){.data = data, .lead = info->lead, .steps = steps};
    w->weight = calloc((2 * chan + episodes) * sizeof(double) + episodes * sizeof(int), 1);
    if (!w->weight) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for the windows of the data");
    }
    double *energy = w->weight + chan;
    w->alike = energy + chan;
    w->episode = (int *)(void *)(w->alike + episodes);
    for (int e = 0; e < info->n_episodes; e++) {
        const double *x;
        const float *u;
        if (pf__transitions_episode(data, e, &x, &u) >= info->lead + steps) {
            w->episode[w->n_train + w->n_held] = e;
            w->n_train += e < first_held;
            w->n_held += e >= first_held;
        }
    }
    if (w->n_train < 1 || w->n_held < 1) {
        pf__windows_close(w);
        return pf_fail(error, PF_ERR_DEGENERATE,
                       "no episode has the %d steps of a window, or none is held out; set more or "
                       "longer episodes, record longer runs, or set rollouts=false",
                       steps);
    }
    weigh(w, info->n_chan, energy);
    return PF_OK;
}

void pf__windows_close(pf_windows *w)
{
    free(w->weight);
    *w = (pf_windows){0};
}

const double *pf__windows_at(const pf_windows *w, int which, const float **commands)
{
    const pf_transitions_info *info = pf_transitions_get_info(w->data);
    const double *x;
    pf__transitions_episode(w->data, w->episode[which], &x, commands);
    *commands += (size_t)w->lead * (size_t)info->n_mech;
    return x + (size_t)w->lead * (size_t)info->n_chan;
}

// --- a model in them

typedef struct windows {
    const pf_model *model;
    const pf_transitions_info *info;
    pf_windows all;
    int window;
    bool alone;                      // only windows in which one mechanism moves count
    int n;                           // held-out windows that count
    double *command;                 // (history - 1 + window) x n_mech
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

// Room for two hypotheses.
static pf_status open_windows(windows *w, const pf_model *model, const pf_transitions *data,
                              double held_out, int window, pf_error *error)
{
    const pf_transitions_info *info = pf_transitions_get_info(data);
    *w = (windows){.model = model, .info = info, .window = window};
    if (window < 1 || info->lead + 1 < model->info.history) {
        return pf_fail(error, PF_ERR_DEGENERATE,
                       "the data have %d readings before a window, the model starts from %d",
                       info->lead + 1, model->info.history);
    }
    pf_status status = pf__windows_open(&w->all, data, held_out, window, error);
    size_t mech = (size_t)info->n_mech, chan = (size_t)info->n_chan, size = size_of(w);
    size_t work = pf__model_scratch(model, 2) + 2 * size;
    size_t sent = (size_t)(model->info.history - 1 + window);
    w->memory = calloc((sent + 2) * mech + 4 * size + chan + work, sizeof(double));
    if (status == PF_OK && !w->memory) {
        status = pf_fail(error, PF_ERR_MEMORY, "out of memory for held-out windows");
    }
    w->command = w->memory;
    w->gains = w->command + sent * mech;
    w->response = w->gains + 2 * mech;
    w->missed = w->response + 2 * size;
    w->scale = w->missed + size;
    w->energy = w->scale + size;
    w->scratch = w->energy + chan;
    return status;
}

static void close_windows(windows *w)
{
    pf__windows_close(&w->all);
    free(w->memory);
}

// Held-out window i of n_held; its readings from the one before the first command.
static const double *take_window(windows *w, int i)
{
    const float *u;
    const double *x = pf__windows_at(&w->all, w->all.n_train + i, &u);
    int earlier = (w->model->info.history - 1) * w->info->n_mech;
    for (int k = 0; k < earlier + w->window * w->info->n_mech; k++) {
        w->command[k] = (double)u[k - earlier];
    }
    return x;
}

// The mechanism that moves alone in held-out window i, -1: none or several do. The others rest.
static int mover(const windows *w, int i)
{
    const float *u;
    int only = -1, mech = w->info->n_mech;
    pf__windows_at(&w->all, w->all.n_train + i, &u);
    for (int k = 0; k < w->window * mech; k++) {
        float rest = pf__transitions_command(&w->info->mechanisms[k % mech], 0);
        if (u[k] != rest && only != k % mech) {
            if (only >= 0) {
                return -1;
            }
            only = k % mech;
        }
    }
    return only;
}

// What the model expects at gains 1, and with `weak` (-1: nobody) at another.
static pf_status expect(windows *w, const double *now, int weak, double gain, pf_error *error)
{
    int mech = w->info->n_mech, n = weak < 0 ? 1 : 2;
    for (int i = 0; i < 2 * mech; i++) {
        w->gains[i] = i == mech + weak && weak >= 0 ? gain : 1;
    }
    int earlier = w->model->info.history - 1;
    const double *command = w->command + earlier * mech;
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

// Squares of what the model misses, by step, and of what moves; *left: over all windows alike.
static pf_status add_up(windows *w, double *left, pf_error *error)
{
    size_t chan = (size_t)w->info->n_chan;
    double sum = 0;
    pf_status status = PF_OK;
    w->n = 0;
    for (int i = 0; i < w->all.n_held && status == PF_OK; i++) {
        if (w->alone && mover(w, i) < 0) {
            continue;
        }
        const double *now = take_window(w, i);
        status = expect(w, now, -1, 1, error);
        w->n++;
        for (size_t k = 0; k < size_of(w) && status == PF_OK; k++) {
            double missed = difference(w, k, w->response, now + chan);
            double moved = difference(w, k % chan, now, now + chan + (k - k % chan));
            w->missed[k] += missed * missed;
            w->energy[k % chan] += moved * moved;
            sum += w->all.weight[k % chan] * w->all.alike[w->all.n_train + i] * missed * missed;
        }
    }
    *left = sum / w->n;
    return status;
}

pf_status pf__window_error(const pf_model *model, const pf_transitions *data, double held_out,
                           int window, double *left, pf_error *error)
{
    windows w;
    pf_error why = {PF_OK, ""};
    pf_status status = open_windows(&w, model, data, held_out, window, &why);
    status = status ? status : add_up(&w, left, &why);
    close_windows(&w);
    if (status == PF_ERR_DEGENERATE) { // there is nothing to measure it with
        *left = NAN;
        return PF_OK;
    }
    if (status == PF_ERR_NONFINITE) { // a model that runs away leaves everything
        *left = INFINITY;
        return PF_OK;
    }
    if (status != PF_OK && error) {
        *error = why;
    }
    return status;
}

// --- without a plant to ask

// Of the loss whose effect a window shows.
static const double half_lost = .5;
// Windows in which a mechanism moves alone that are enough to choose a model by.
enum { least_lone = 8 };

// Misses are measured in what is usual at their step.
static void find_scales(windows *w)
{
    int n = w->n;
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
    int n = 0, lone = 0;
    size_t chan = (size_t)w->info->n_chan, size = size_of(w);
    double off = 0, energy = 0;
    pf_status status = PF_OK;
    for (int i = 0; i < w->all.n_held && status == PF_OK; i++) {
        if (w->alone && mover(w, i) != mechanism) {
            continue;
        }
        lone++;
        const double *now = take_window(w, i);
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
    if (w->alone) { // too few windows say nothing, and those without an effect that there is none
        *sd = lone < least_lone ? NAN : n > 0 ? *sd : INFINITY;
    }
    return status;
}

pf_status pf__window_gain(const pf_model *model, const pf_transitions *data, double held_out,
                          int window, double *sd, pf_error *error)
{
    windows w;
    double left, one, sum = 0;
    int n = 0;
    *sd = NAN;
    pf_error why = {PF_OK, ""};
    pf_status status = open_windows(&w, model, data, held_out, window, &why);
    w.alone = true;
    status = status ? status : add_up(&w, &left, &why);
    if (status == PF_OK && w.n > 0) {
        find_scales(&w);
        for (int j = 0; j < w.info->n_mech && status == PF_OK; j++) {
            status = gain_of(&w, j, half_lost, &one, &why);
            n += one > 0;
            sum += one > 0 ? log(one) : 0; // false for NaN
        }
        *sd = n > 0 ? exp(sum / n) : NAN;
    }
    close_windows(&w);
    if (status == PF_ERR_NONFINITE) { // a model that runs away tells nothing
        *sd = INFINITY;
        return PF_OK;
    }
    if (status != PF_OK && status != PF_ERR_DEGENERATE && error) {
        *error = why;
    }
    return status == PF_ERR_DEGENERATE ? PF_OK : status;
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
    *r = (pf_windows_report){.left = NAN};
    pf_status status = open_windows(&w, model, data, held_out, window, error);
    status = status ? status
                    : linear_error(model, data, held_out, 1, window, &r->inputs, &r->linear, error);
    status = status ? status
                    : linear_error(model, data, held_out, .5, window, &r->inputs, &r->half, error);
    status = status ? status : add_up(&w, &r->left, error);
    if (status == PF_OK) {
        find_scales(&w);
        r->windows = info->n_episodes;
        r->held_out = w.all.n_held;
    }
    for (int j = 0; j < info->n_mech && status == PF_OK; j++) {
        status = gain_of(&w, j, gain, &r->gain_sd[j], error);
    }
    close_windows(&w);
    return status;
}
