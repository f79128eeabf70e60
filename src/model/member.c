// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "train_impl.h"
#include "core/rng.h"

#include "host/parallel.h"

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
    m->epoch = m->best_epoch = 0;
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

static double rate_of(const pf_train_settings *s, int epoch)
{
    const double pi = 3.14159265358979323846;
    return s->cosine ? s->learning_rate * .5 * (1 + cos(pi * epoch / s->epochs)) : s->learning_rate;
}

static bool is_finished(const pf_member *m, const pf_train_settings *s)
{
    return m->epoch >= s->epochs || m->epoch - m->best_epoch >= s->patience;
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

pf_status pf__member_epoch(pf_member *m, const pf_train_settings *s, const pf_net *net,
                           const pf_dataset *set, pf_epoch_space *space, const volatile int *stop,
                           pf_error *error)
{
    double begin = pf__seconds(), total = 0;
    int batch = s->batch < set->n_train ? s->batch : set->n_train, batches = set->n_train / batch;
    size_t n = pf__net_parameters(net);
    pf_adam adam = {(float)rate_of(s, m->epoch), .9f, .999f, 1e-8f, (float)s->weight_decay};
    draw_order(m, s, set->n_train, space->order);
    for (int b = 0; b < batches; b++) {
        if (pf__stopped(stop)) {
            return pf_fail(error, PF_ERR_INTERRUPTED, "stopped");
        }
        gather(set, batch, space->order + (size_t)b * (size_t)batch, space->x, space->y);
        double loss = pf__net_gradient(net, m->theta, batch, space->x, space->y, space->work,
                                       space->gradient);
        pf__adam_step(&adam, (int64_t)m->epoch * batches + b + 1, n, space->gradient, m->first,
                      m->second, m->theta);
        total += loss;
    }
    double train = total / batches, valid = validate(m, s, net, set, space);
    if (!isfinite(train) || !isfinite(valid)) {
        return pf_fail(error, PF_ERR_NONFINITE,
                       "member %d diverged in epoch %d; set a smaller learning_rate", m->index,
                       m->epoch + 1);
    }
    note_epoch(m, s, net, train, valid, (double)batches * batch / (pf__seconds() - begin));
    return PF_OK;
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
    out[4] = (pf_tensor){"history", 2, {(size_t)s->epochs, PF_HISTORY}, m->history};
}

pf_status pf__member_write(const pf_member *m, const pf_train_settings *s, const pf_net *net,
                           const char *path, const char *fingerprint, pf_error *error)
{
    pf_tensor tensors[N_TENSORS];
    char epoch[16], best_epoch[16], best[40], digest[65] = "";
    list_tensors(m, s, net, tensors);
    snprintf(epoch, sizeof epoch, "%d", m->epoch);
    snprintf(best_epoch, sizeof best_epoch, "%d", m->best_epoch);
    snprintf(best, sizeof best, "%a", m->best);
    const pf_meta meta[] = {{"format", "preflight-checkpoint"},
                            {"training", fingerprint},
                            {"epoch", epoch},
                            {"best_epoch", best_epoch},
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
    const char *epoch = pf__safetensors_meta(file, "epoch");
    const char *best_epoch = pf__safetensors_meta(file, "best_epoch");
    const char *best = pf__safetensors_meta(file, "best");
    const char *finished = pf__safetensors_meta(file, "finished");
    const char *digest = pf__safetensors_meta(file, PF_CONTENTS);
    if (!training || strcmp(training, fingerprint) != 0) {
        return pf_fail(error, PF_ERR_MISMATCH,
                       "%s: is the checkpoint of a training with other settings, data or numeric "
                       "library; remove it to start anew",
                       file->path);
    }
    bool whole = epoch && best_epoch && best && finished && take(file, "theta", n, m->theta) &&
                 take(file, "first", n, m->first) && take(file, "second", n, m->second) &&
                 take(file, "kept", n, m->kept) &&
                 take(file, "history", (size_t)s->epochs * PF_HISTORY, m->history);
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
        m->best = strtod(best, NULL);
        m->finished = strcmp(finished, "1") == 0;
        whole = m->epoch >= 1 && m->epoch <= s->epochs && m->best_epoch >= 1 &&
                m->best_epoch <= m->epoch && isfinite(m->best) && m->finished == is_finished(m, s);
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
