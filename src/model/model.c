// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "host/pages.h"
#include "features.h"
#include "model/kernels/loops.h"
#include "model/kernels/matmul.h"
#include "model_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static pf_status check_shape(const pf_model_info *i, pf_error *error)
{
    if (i->n_chan < 1 || i->n_chan > PF_STATE_MAX || i->n_mech < 1 || i->n_mech > PF_MECH_MAX ||
        i->n_members < 1 || i->n_members > PF_MODEL_MEMBERS || i->n_layers < 1 ||
        i->n_layers > PF_MODEL_LAYERS || i->width < 1 || i->width > PF_MODEL_WIDTH) {
        return pf_fail(error, PF_ERR_SHAPE,
                       "a model of %d channels, %d mechanisms, %d members, %d layers of %d is out "
                       "of range (members to %d, layers to %d, width to %d)",
                       i->n_chan, i->n_mech, i->n_members, i->n_layers, i->width, PF_MODEL_MEMBERS,
                       PF_MODEL_LAYERS, PF_MODEL_WIDTH);
    }
    return pf_features_check(i->n_chan, i->kinds, error);
}

// A model file has its names in lists separated by commas.
static pf_status check_names(const pf_model_info *i, pf_error *error)
{
    for (int k = 0; k < i->n_chan + i->n_mech; k++) {
        const char *name = k < i->n_chan ? i->channels[k] : i->mechanisms[k - i->n_chan].name;
        if (strchr(name, ',')) {
            return pf_fail(error, PF_ERR_FORMAT,
                           "'%s': a model cannot have a channel or mechanism with a comma in its "
                           "name",
                           name);
        }
    }
    return PF_OK;
}

static void copy_names(pf_model *m, const pf_model_info *from)
{
    pf_arena *a = &m->arena;
    const char **channels = pf_arena_take(a, (size_t)from->n_chan, sizeof *channels);
    pf_channel_kind *kinds = pf_arena_take(a, (size_t)from->n_chan, sizeof *kinds);
    pf_mechanism *mechanisms = pf_arena_take(a, (size_t)from->n_mech, sizeof *mechanisms);
    for (int c = 0; c < from->n_chan && !a->failed; c++) {
        channels[c] = pf_arena_text(a, from->channels[c]);
        kinds[c] = from->kinds[c];
    }
    for (int j = 0; j < from->n_mech && !a->failed; j++) {
        mechanisms[j] = from->mechanisms[j];
        mechanisms[j].name = pf_arena_text(a, from->mechanisms[j].name);
    }
    m->info.channels = channels;
    m->info.kinds = kinds;
    m->info.mechanisms = mechanisms;
    m->info.plant = pf_arena_text(a, from->plant);
    m->info.source = pf_arena_text(a, from->source);
    m->info.data = pf_arena_text(a, from->data);
    m->info.processor = pf_arena_text(a, from->processor);
    m->info.settings = pf_arena_text(a, from->settings ? from->settings : "");
}

pf_status pf__model_create(pf_model **model, const pf_model_info *info, pf_error *error)
{
    *model = NULL;
    pf_status status = check_shape(info, error);
    status = status == PF_OK ? check_names(info, error) : status;
    if (status != PF_OK) {
        return status;
    }
    pf_model *m = calloc(1, sizeof *m);
    if (!m) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a model");
    }
    m->info = *info;
    copy_names(m, info);
    int n_in = pf_features_count(info->n_chan, info->kinds) + info->n_mech;
    m->net = (pf_net){n_in, info->n_chan, info->n_layers, info->width, info->activation};
    size_t in = (size_t)n_in, out = (size_t)info->n_chan, f = sizeof(float);
    m->input_mean = pf_arena_take(&m->arena, in, f);
    m->input_scale = pf_arena_take(&m->arena, in, f);
    m->change_mean = pf_arena_take(&m->arena, out, f);
    m->change_scale = pf_arena_take(&m->arena, out, f);
    m->change_linear = pf_arena_take(&m->arena, out * in, f);
    m->theta = pf_arena_take(&m->arena, (size_t)info->n_members * pf_net_parameters(&m->net), f);
    if (m->arena.failed) {
        pf_model_destroy(m);
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a model of %d members",
                       info->n_members);
    }
    *model = m;
    return PF_OK;
}

void pf__model_pack(pf_model *model)
{
    const pf_net *net = &model->net;
    size_t each = pf_net_packed(net, net->n_layers + 1), n = (size_t)model->info.n_members;
    size_t linear = pf_matmul_packed_size(net->n_out, net->n_in);
    float *memory =
        model->packed || each == 0 ? NULL : pf_pages_take((n * each + linear) * sizeof(float));
    if (!memory) {
        return;
    }
    model->packed = memory;
    for (size_t e = 0; e < n; e++) {
        pf_net_pack(net, model->theta + e * pf_net_parameters(net), model->packed + e * each);
    }
    model->packed_linear = model->packed + n * each;
    pf_matmul_pack(true, net->n_out, net->n_in, model->change_linear, model->packed_linear);
}

void pf_model_destroy(pf_model *model)
{
    if (model) {
        pf_arena_free(&model->arena);
        free(model->packed);
        free(model);
    }
}

const pf_model_info *pf_model_get_info(const pf_model *model)
{
    return &model->info;
}

pf_status pf_model_fits(const pf_model *model, const pf_plant_info *info, pf_error *error)
{
    const pf_model_info *m = &model->info;
    if (strcmp(m->plant, pf_plant_environment(info)) != 0) {
        return pf_fail(error, PF_ERR_MISMATCH, "the model is of plant %s, not of %s", m->plant,
                       info->name);
    }
    if (m->source[0] && strcmp(m->source, info->source ? info->source : "") != 0) {
        return pf_fail(error, PF_ERR_MISMATCH,
                       "the model was trained on '%s', plant %s is '%s' now; train again",
                       m->source, info->name, info->source ? info->source : "");
    }
    if (m->n_chan != info->n_chan || m->n_mech != info->n_mech) {
        return pf_fail(error, PF_ERR_MISMATCH,
                       "the model has %d channels and %d mechanisms, plant %s has %d and %d",
                       m->n_chan, m->n_mech, info->name, info->n_chan, info->n_mech);
    }
    for (int c = 0; c < m->n_chan; c++) {
        pf_channel_kind kind = info->kinds ? info->kinds[c] : PF_CHANNEL_PLAIN;
        if (strcmp(m->channels[c], info->channels[c].name) != 0 || m->kinds[c] != kind) {
            return pf_fail(error, PF_ERR_MISMATCH,
                           "channel %d: '%s' in the model, '%s' of plant %s, or another kind", c,
                           m->channels[c], info->channels[c].name, info->name);
        }
    }
    for (int j = 0; j < m->n_mech; j++) {
        const pf_mechanism *a = &m->mechanisms[j], *b = &info->mechanisms[j];
        if (strcmp(a->name, b->name) != 0 || a->lo != b->lo || a->hi != b->hi) {
            return pf_fail(error, PF_ERR_MISMATCH,
                           "mechanism %d: '%s' in %g..%g in the model, '%s' in %g..%g of plant %s",
                           j, a->name, a->lo, a->hi, b->name, b->lo, b->hi, info->name);
        }
    }
    return PF_OK;
}

// --- rollouts

// What a request works in.
typedef struct work {
    double *state;            // n x n_chan
    double *feature, *change; // one row
    float *in, *out, *linear; // pf_matmul_rows
    float *hidden;
} work;

static size_t floats_as_doubles(size_t n)
{
    return (n + 1) / 2;
}

static work work_in(const pf_model *m, int n, double *scratch, size_t *used)
{
    size_t rows = (size_t)pf_matmul_rows(n), out = (size_t)m->net.n_out, in = (size_t)m->net.n_in,
           at = 0;
    work w;
#define TAKE(field, type, count)                                                                   \
    w.field = (type *)(void *)(scratch ? scratch + at : NULL);                                     \
    at += count;
    TAKE(state, double, (size_t)n *out)
    TAKE(feature, double, in)
    TAKE(change, double, out)
    TAKE(in, float, floats_as_doubles(rows * in))
    TAKE(out, float, floats_as_doubles(rows * out))
    TAKE(linear, float, floats_as_doubles(rows * out))
    TAKE(hidden, float, floats_as_doubles(pf_net_forward_work(&m->net, pf_matmul_rows(n))))
#undef TAKE
    *used = at;
    return w;
}

size_t pf_model_scratch(const pf_model *model, int n_hypotheses)
{
    size_t used;
    work_in(model, n_hypotheses, NULL, &used);
    return used;
}

// Standardised features of one hypothesis: its channels, and what its mechanisms deliver.
static void fill_row(const pf_model *m, const double *state, const double *command,
                     const double *gains, double *feature, float *row)
{
    const pf_model_info *info = &m->info;
    pf_features_of(info->n_chan, info->kinds, state, feature);
    int n = m->net.n_in - info->n_mech;
    pf_fault_deliver(info->n_mech, info->mechanisms, command, gains, feature + n);
    pf_loop_standardise(m->net.n_in, feature, m->input_mean, m->input_scale, row);
}

static pf_status check_request(const pf_model *m, int member, const pf_model_request *q,
                               pf_error *error)
{
    if (member < 0 || member >= m->info.n_members || q->steps < 1 || q->n_hypotheses < 1 ||
        (double)q->steps * q->n_hypotheses > 1e7) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "a request of %d steps and %d hypotheses to member %d of %d", q->steps,
                       q->n_hypotheses, member, m->info.n_members);
    }
    for (int c = 0; c < m->info.n_chan; c++) {
        if (!isfinite(q->start[c])) {
            return pf_fail(error, PF_ERR_NONFINITE, "start: channel '%s' is not a finite number",
                           m->info.channels[c]);
        }
    }
    return PF_OK;
}

pf_status pf_model_roll(const pf_model *model, int member, const pf_model_request *q,
                        double *scratch, double *response, pf_error *error)
{
    pf_status status = check_request(model, member, q, error);
    if (status != PF_OK) {
        return status;
    }
    const pf_net *net = &model->net;
    int n = q->n_hypotheses, rows = pf_matmul_rows(n), n_chan = net->n_out,
        n_mech = model->info.n_mech;
    const float *theta = model->theta + (size_t)member * pf_net_parameters(net);
    const float *packed =
        model->packed ? model->packed + (size_t)member * pf_net_packed(net, net->n_layers + 1)
                      : NULL;
    size_t used, chan = (size_t)n_chan, steps = (size_t)q->steps;
    work w = work_in(model, n, scratch, &used);
    pf_product linear = {.b_transposed = true,
                         .m = rows,
                         .n = n_chan,
                         .k = net->n_in,
                         .a = w.in,
                         .b = model->change_linear,
                         .packed = model->packed_linear,
                         .c = w.linear};
    memset(w.in, 0, (size_t)rows * (size_t)net->n_in * sizeof(float));
    for (int h = 0; h < n; h++) {
        memcpy(w.state + (size_t)h * chan, q->start, chan * sizeof(double));
    }
    for (int t = 0; t < q->steps; t++) {
        const double *command = q->command + (size_t)t * (size_t)n_mech;
        for (int h = 0; h < n; h++) {
            fill_row(model, w.state + (size_t)h * chan, command,
                     q->gains + (size_t)h * (size_t)n_mech, w.feature,
                     w.in + (size_t)h * (size_t)net->n_in);
        }
        pf_matmul_run(&linear);
        pf_net_forward(net, theta, packed, rows, w.in, w.hidden, w.out);
        for (int h = 0; h < n; h++) {
            const float *line = w.linear + (size_t)h * chan, *out = w.out + (size_t)h * chan;
            double *state = w.state + (size_t)h * chan;
            pf_loop_change(n_chan, model->change_mean, line, model->change_scale, out, w.change);
            pf_features_apply(n_chan, model->info.kinds, w.change, state);
            memcpy(response + ((size_t)h * steps + (size_t)t) * chan, state, chan * sizeof(double));
        }
    }
    for (size_t i = 0; i < (size_t)n * steps * chan; i++) {
        if (!isfinite(response[i])) {
            return pf_fail(error, PF_ERR_NONFINITE,
                           "member %d of the model leaves the finite numbers at channel '%s'",
                           member, model->info.channels[i % chan]);
        }
    }
    return PF_OK;
}

pf_status pf_model_mean(const pf_model *model, const pf_model_request *q, double *scratch,
                        double *response, pf_error *error)
{
    pf_status status = check_request(model, 0, q, error);
    if (status != PF_OK) {
        return status;
    }
    size_t n = (size_t)q->n_hypotheses * (size_t)q->steps * (size_t)model->info.n_chan;
    double *own = scratch, *rest = scratch + n;
    int members = model->info.n_members;
    for (size_t i = 0; i < n; i++) {
        response[i] = 0;
    }
    for (int e = 0; e < members; e++) {
        status = pf_model_roll(model, e, q, rest, own, error);
        if (status != PF_OK) {
            return status;
        }
        for (size_t i = 0; i < n; i++) {
            response[i] += own[i] / members;
        }
    }
    return PF_OK;
}
