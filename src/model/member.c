// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "train_impl.h"
#include "core/rng.h"

#include "host/parallel.h"
#include "host/text.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Streams of a member.
enum { STREAM_INIT = 1, STREAM_BOOTSTRAP = 2, STREAM_ORDER = 3 };

static pf_key member_key(const pf_train_settings *s, int member, int stream)
{
    pf_key key = pf__key_derive(pf__key_text(pf_key_root(s->seed), "member"), (uint64_t)member);
    return pf__key_derive(key, (uint64_t)stream);
}

void pf__member_init(pf_member *m, const pf_train_settings *s, const pf_net *net)
{
    pf_rng rng;
    pf_rng_init(&rng, member_key(s, m->index, STREAM_INIT));
    pf__net_init(net, &rng, m->theta);
    size_t bytes = pf__net_parameters(net) * sizeof(float);
    memset(m->first, 0, bytes);
    memset(m->second, 0, bytes);
    memcpy(m->kept, m->theta, bytes);
    m->epoch = m->best_epoch = m->turn = 0;
    m->best = INFINITY;
    m->finished = false;
}

// The bootstrap is the same in every epoch, its order is not.
static void draw_order(const pf_member *m, const pf_train_settings *s, int n, int *order)
{
    pf_rng rng;
    pf_rng_init(&rng, member_key(s, m->index, STREAM_BOOTSTRAP));
    for (int i = 0; i < n; i++) {
        order[i] = (int)pf_rng_below(&rng, (uint32_t)n);
    }
    pf_rng_init(&rng, pf__key_derive(member_key(s, m->index, STREAM_ORDER), (uint64_t)m->epoch));
    for (int i = n - 1; i > 0; i--) {
        int k = (int)pf_rng_below(&rng, (uint32_t)i + 1), kept = order[i];
        order[i] = order[k];
        order[k] = kept;
    }
}

static void gather(const pf_dataset *set, int rows, const int *order, float *x, float *y)
{
    size_t in = (size_t)set->n_in, out = (size_t)set->n_out;
    for (int r = 0; r < rows; r++) {
        size_t from = (size_t)order[r];
        memcpy(x + (size_t)r * in, set->x + from * in, in * sizeof *x);
        memcpy(y + (size_t)r * out, set->y + from * out, out * sizeof *y);
    }
}

// Held-out error of the present parameters.
static double validate(const pf_member *m, const pf_train_settings *s, const pf_net *net,
                       const pf_dataset *set, pf_epoch_space *space)
{
    double total = 0;
    for (int at = 0; at < set->n_valid; at += s->batch) {
        int rows = set->n_valid - at < s->batch ? set->n_valid - at : s->batch;
        size_t first = (size_t)set->n_train + (size_t)at, n = (size_t)rows * (size_t)set->n_out;
        const float *y = set->y + first * (size_t)set->n_out;
        float *out = space->y;
        pf__net_forward(net, m->theta, NULL, rows, set->x + first * (size_t)set->n_in, space->work,
                        out);
        for (size_t i = 0; i < n; i++) {
            double e = (double)out[i] - (double)y[i];
            total += e * e;
        }
    }
    return total / ((double)set->n_valid * set->n_out);
}

// Epochs of rollouts after those of single steps.
static int rolled_epochs(const pf_train_settings *s)
{
    return s->rollouts ? (s->epochs + 3) / 4 : 0;
}

int pf__member_epochs(const pf_train_settings *s)
{
    return s->epochs + rolled_epochs(s);
}

static double rate_of(const pf_train_settings *s, int epoch, int epochs)
{
    const double pi = 3.14159265358979323846;
    return s->cosine ? s->learning_rate * .5 * (1 + cos(pi * epoch / epochs)) : s->learning_rate;
}

// Whether single steps have been learned.
static bool has_stepped(const pf_member *m, const pf_train_settings *s)
{
    return m->epoch >= s->epochs || m->epoch - m->best_epoch >= s->patience;
}

static bool is_finished(const pf_member *m, const pf_train_settings *s)
{
    return s->rollouts ? m->turn > 0 && m->epoch - m->turn >= rolled_epochs(s) : has_stepped(m, s);
}

// Takes note of a finished epoch: history, best parameters, whether to go on.
static void note_epoch(pf_member *m, const pf_train_settings *s, const pf_net *net, double train,
                       double valid, double rate)
{
    float *h = m->history + (size_t)m->epoch * PF_HISTORY;
    h[0] = (float)train;
    h[1] = (float)valid;
    h[2] = (float)rate;
    m->epoch++;
    if (valid < m->best) {
        m->best = valid;
        m->best_epoch = m->epoch;
        memcpy(m->kept, m->theta, pf__net_parameters(net) * sizeof(float));
    }
    m->finished = is_finished(m, s);
}

// --- rollouts

// A step along the gradient is never longer than this: a rollout that runs away has a huge one.
static const float longest_gradient = 1;
// Rollouts learn at this share of the rate.
static const double rolled_rate = .3;

int pf__rollouts_batch(const pf_train_settings *s)
{
    int rows = s->batch / 4; // each has several steps
    return rows < 16 ? 16 : rows;
}

// Rollouts get longer with the epochs: a sixth, a third, two thirds of the window, all of it.
static int rolled_steps(const pf_member *m, const pf_train_settings *s, int window)
{
    static const double shares[] = {1. / 6, 1. / 3, 2. / 3, 1};
    int quarter = 4 * (m->epoch - m->turn) / rolled_epochs(s);
    int steps = (int)ceil(shares[quarter] * window);
    return steps < 2 && window >= 2 ? 2 : steps;
}

// What the present parameters miss of held-out windows.
static double validate_rolled(const pf_member *m, const pf_train_settings *s, const pf_rolled *r,
                              pf_epoch_space *space)
{
    int batch = pf__rollouts_batch(s);
    double total = 0;
    for (int at = 0; at < r->windows.n_held; at += batch) {
        int rows = r->windows.n_held - at < batch ? r->windows.n_held - at : batch;
        for (int i = 0; i < rows; i++) {
            space->order[i] = r->windows.n_train + at + i;
        }
        total += rows * pf__rollouts_loss(&r->windows, r->model, m->theta, r->windows.steps, rows,
                                          space->order, space->rolled, NULL);
    }
    return total < (double)FLT_MAX ? total / r->windows.n_held : (double)FLT_MAX;
}

// From single steps to rollouts: from the best parameters on, with what these miss as the best.
static void turn(pf_member *m, const pf_train_settings *s, const pf_rolled *r,
                 pf_epoch_space *space)
{
    size_t bytes = pf__net_parameters(&r->model->net) * sizeof(float);
    memcpy(m->theta, m->kept, bytes);
    memset(m->first, 0, bytes);
    memset(m->second, 0, bytes);
    m->turn = m->best_epoch = m->epoch;
    m->best = validate_rolled(m, s, r, space);
}

static void shorten(size_t n, float *gradient)
{
    double square = 0;
    for (size_t i = 0; i < n; i++) {
        square += (double)gradient[i] * (double)gradient[i];
    }
    // what is not finite is no direction at all
    float share = isfinite(square) ? fminf(1, longest_gradient / (float)sqrt(square)) : 0;
    for (size_t i = 0; i < n && share < 1; i++) {
        gradient[i] = share > 0 ? share * gradient[i] : 0;
    }
}

static double learn_rolled(pf_member *m, const pf_train_settings *s, const pf_rolled *r,
                           pf_epoch_space *space, const volatile int *stop, int *rows)
{
    int batch = pf__rollouts_batch(s), steps = rolled_steps(m, s, r->windows.steps);
    batch = batch < r->windows.n_train ? batch : r->windows.n_train;
    int batches = r->windows.n_train / batch;
    size_t n = pf__net_parameters(&r->model->net);
    double total = 0, rate = rolled_rate * rate_of(s, m->epoch - m->turn, rolled_epochs(s));
    pf_adam adam = {(float)rate, .9f, .999f, 1e-8f, (float)s->weight_decay};
    draw_order(m, s, r->windows.n_train, space->order);
    *rows = batches * batch * steps;
    for (int b = 0; b < batches && !pf__stopped(stop); b++) {
        double loss = pf__rollouts_loss(&r->windows, r->model, m->theta, steps, batch,
                                        space->order + (size_t)b * (size_t)batch, space->rolled,
                                        space->gradient);
        shorten(n, space->gradient);
        pf__adam_step(&adam, (int64_t)(m->epoch - m->turn) * batches + b + 1, n, space->gradient,
                      m->first, m->second, m->theta);
        total += isfinite(loss) ? fmin(loss, 1) : 1; // what runs away misses everything
    }
    return total / batches;
}

// --- an epoch

static double learn_steps(pf_member *m, const pf_train_settings *s, const pf_net *net,
                          const pf_dataset *set, pf_epoch_space *space, const volatile int *stop,
                          int *rows)
{
    int batch = s->batch < set->n_train ? s->batch : set->n_train, batches = set->n_train / batch;
    size_t n = pf__net_parameters(net);
    double total = 0, rate = rate_of(s, m->epoch, s->epochs);
    pf_adam adam = {(float)rate, .9f, .999f, 1e-8f, (float)s->weight_decay};
    draw_order(m, s, set->n_train, space->order);
    *rows = batches * batch;
    for (int b = 0; b < batches && !pf__stopped(stop); b++) {
        gather(set, batch, space->order + (size_t)b * (size_t)batch, space->x, space->y);
        total += pf__net_gradient(net, m->theta, batch, space->x, space->y, space->work,
                                  space->gradient);
        pf__adam_step(&adam, (int64_t)m->epoch * batches + b + 1, n, space->gradient, m->first,
                      m->second, m->theta);
    }
    return total / batches;
}

pf_status pf__member_epoch(pf_member *m, const pf_train_settings *s, const pf_net *net,
                           const pf_dataset *set, const pf_rolled *rolled, pf_epoch_space *space,
                           const volatile int *stop, pf_error *error)
{
    double begin = pf__seconds();
    bool turned = m->turn > 0;
    int rows = 0;
    double train = turned ? learn_rolled(m, s, rolled, space, stop, &rows)
                          : learn_steps(m, s, net, set, space, stop, &rows);
    if (pf__stopped(stop)) {
        return pf_fail(error, PF_ERR_INTERRUPTED, "stopped");
    }
    double valid = turned ? validate_rolled(m, s, rolled, space) : validate(m, s, net, set, space);
    if (!isfinite(train) || !isfinite(valid)) {
        return pf_fail(error, PF_ERR_NONFINITE,
                       "member %d diverged in epoch %d; set a smaller learning_rate", m->index,
                       m->epoch + 1);
    }
    note_epoch(m, s, net, train, valid, rows / (pf__seconds() - begin));
    if (s->rollouts && !turned && has_stepped(m, s)) {
        turn(m, s, rolled, space);
    }
    return PF_OK;
}

double pf__member_stepped(const pf_member *m)
{
    double best = m->turn > 0 ? INFINITY : m->best;
    for (int e = 0; e < m->turn; e++) {
        best = fmin(best, (double)m->history[(size_t)e * PF_HISTORY + 1]);
    }
    return best;
}

// --- checkpoints

enum { N_TENSORS = 5 };

static void list_tensors(const pf_member *m, const pf_train_settings *s, const pf_net *net,
                         pf_tensor out[N_TENSORS])
{
    size_t n = pf__net_parameters(net);
    out[0] = (pf_tensor){"theta", 1, {n, 0}, m->theta};
    out[1] = (pf_tensor){"first", 1, {n, 0}, m->first};
    out[2] = (pf_tensor){"second", 1, {n, 0}, m->second};
    out[3] = (pf_tensor){"kept", 1, {n, 0}, m->kept};
    out[4] = (pf_tensor){"history", 2, {(size_t)pf__member_epochs(s), PF_HISTORY}, m->history};
}

pf_status pf__member_write(const pf_member *m, const pf_train_settings *s, const pf_net *net,
                           const char *path, const char *fingerprint, pf_error *error)
{
    pf_tensor tensors[N_TENSORS];
    char index[16], epoch[16], best_epoch[16], turn_epoch[16], best[40], digest[65] = "";
    list_tensors(m, s, net, tensors);
    snprintf(index, sizeof index, "%d", m->index);
    snprintf(epoch, sizeof epoch, "%d", m->epoch);
    snprintf(best_epoch, sizeof best_epoch, "%d", m->best_epoch);
    snprintf(turn_epoch, sizeof turn_epoch, "%d", m->turn);
    pf__print(best, sizeof best, "%a", m->best);
    const pf_meta meta[] = {{"format", "preflight-checkpoint"},
                            {"training", fingerprint},
                            {"member", index},
                            {"epoch", epoch},
                            {"best_epoch", best_epoch},
                            {"turn", turn_epoch},
                            {"best", best},
                            {"finished", m->finished ? "1" : "0"},
                            {PF_CONTENTS, digest}};
    pf__tensors_digest(sizeof meta / sizeof meta[0], meta, N_TENSORS, tensors, digest);
    return pf__safetensors_write(path, sizeof meta / sizeof meta[0], meta, N_TENSORS, tensors, NULL,
                                 error);
}

static bool take(const pf_safetensors *file, const char *name, size_t n, float *to)
{
    const pf_tensor *t = pf__safetensors_find(file, name);
    size_t have = t ? t->dims[0] * (t->n_dims == 2 ? t->dims[1] : 1) : 0;
    if (have != n) {
        return false;
    }
    memcpy(to, t->data, n * sizeof *to);
    return true;
}

static pf_status fill(pf_member *m, const pf_train_settings *s, const pf_net *net,
                      const pf_safetensors *file, const char *fingerprint, pf_error *error)
{
    size_t n = pf__net_parameters(net);
    const char *training = pf__safetensors_meta(file, "training");
    const char *index = pf__safetensors_meta(file, "member");
    const char *epoch = pf__safetensors_meta(file, "epoch");
    const char *best_epoch = pf__safetensors_meta(file, "best_epoch");
    const char *turn_epoch = pf__safetensors_meta(file, "turn");
    const char *best = pf__safetensors_meta(file, "best");
    const char *finished = pf__safetensors_meta(file, "finished");
    const char *digest = pf__safetensors_meta(file, PF_CONTENTS);
    if (!training || strcmp(training, fingerprint) != 0) {
        return pf_fail(error, PF_ERR_MISMATCH,
                       "%s: is the checkpoint of a training with other settings, data or numeric "
                       "library; remove it to start anew",
                       file->path);
    }
    if (!index || atoi(index) != m->index) {
        return pf_fail(error, PF_ERR_MISMATCH,
                       "%s: is the checkpoint of another member; remove it to start anew",
                       file->path);
    }
    bool whole = epoch && best_epoch && turn_epoch && best && finished &&
                 take(file, "theta", n, m->theta) && take(file, "first", n, m->first) &&
                 take(file, "second", n, m->second) && take(file, "kept", n, m->kept) &&
                 take(file, "history", (size_t)pf__member_epochs(s) * PF_HISTORY, m->history);
    if (whole && digest) {
        pf_tensor tensors[N_TENSORS];
        char actual[65];
        list_tensors(m, s, net, tensors);
        pf__tensors_digest(file->n_meta, file->meta, N_TENSORS, tensors, actual);
        whole = strcmp(digest, actual) == 0;
    }
    whole = whole && digest;
    if (whole) {
        m->epoch = atoi(epoch);
        m->best_epoch = atoi(best_epoch);
        m->turn = atoi(turn_epoch);
        m->best = pf__number_read(best, NULL);
        m->finished = strcmp(finished, "1") == 0;
        whole = m->epoch >= 1 && m->epoch <= pf__member_epochs(s) && m->best_epoch >= 1 &&
                m->best_epoch <= m->epoch && m->turn >= 0 && m->turn <= m->best_epoch &&
                (s->rollouts ? m->turn > 0 || !has_stepped(m, s) : m->turn == 0) &&
                m->turn <= s->epochs && (m->turn == 0 || m->epoch - m->turn <= rolled_epochs(s)) &&
                isfinite(m->best) && m->finished == is_finished(m, s);
    }
    return whole ? PF_OK
                 : pf_fail(error, PF_ERR_FORMAT,
                           "%s: is no whole checkpoint; remove it to start "
                           "anew",
                           file->path);
}

pf_status pf__member_read(pf_member *m, const pf_train_settings *s, const pf_net *net,
                          const char *path, const char *fingerprint, bool *found, pf_error *error)
{
    *found = access(path, F_OK) == 0;
    if (!*found) {
        return PF_OK;
    }
    pf_safetensors file;
    pf_status status = pf__safetensors_read(&file, path, error);
    if (status == PF_OK) {
        status = fill(m, s, net, &file, fingerprint, error);
        pf__safetensors_free(&file);
    }
    return status;
}
