// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "core/constants.h"
#include "host/arena.h"
#include "rollout.h"
#include "plant/plant_impl.h"

#include "model_impl.h"
#include "host/text.h"
#include "model/kernels/loops.h"
#include "model/kernels/matmul.h"
#include "plant/identity.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(PF_MODEL_HISTORY == PF_HISTORY_MAX, "a kit holds the readings of every model");

// Coefficients of a linear part; more are a mistake.
#define MOST_LINEAR 2e8

static pf_status check_shape(const pf_model_info *i, pf_error *error)
{
    if (i->n_chan < 1 || i->n_chan > PF_STATE_MAX || i->n_mech < 1 || i->n_mech > PF_MECH_MAX ||
        i->n_members < 1 || i->n_members > PF_MODEL_MEMBERS || i->n_layers < 0 ||
        i->n_layers > PF_MODEL_LAYERS || i->width > PF_MODEL_WIDTH ||
        (i->n_layers > 0 && i->width < 1) || (i->n_layers == 0 && i->n_members > 1)) {
        return pf_fail(error, PF_ERR_SHAPE,
                       "a model of %d channels, %d mechanisms, %d members, %d layers of %d is out "
                       "of range (members to %d, layers to %d, width to %d)",
                       i->n_chan, i->n_mech, i->n_members, i->n_layers, i->width, PF_MODEL_MEMBERS,
                       PF_MODEL_LAYERS, PF_MODEL_WIDTH);
    }
    if (i->window < 1 || i->window > PF_MODEL_WINDOW || i->history < 1 ||
        i->history > PF_MODEL_HISTORY || (i->window == 1 && i->history > 1) ||
        (double)i->window * i->n_chan *
                (2.0 * i->history * i->n_chan + (i->history - 1.0 + i->window) * i->n_mech) >
            MOST_LINEAR) {
        return pf_fail(error, PF_ERR_SHAPE,
                       "a model with a window of %d steps and %d readings is out of range (windows "
                       "to %d, readings to %d, and in all to %d coefficients)",
                       i->window, i->history, PF_MODEL_WINDOW, PF_MODEL_HISTORY, (int)MOST_LINEAR);
    }
    return pf__features_check(i->n_chan, i->kinds, error);
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
    const char **channels = pf__arena_take(a, (size_t)from->n_chan, sizeof *channels);
    pf_channel_kind *kinds = pf__arena_take(a, (size_t)from->n_chan, sizeof *kinds);
    pf_mechanism *mechanisms = pf__arena_take(a, (size_t)from->n_mech, sizeof *mechanisms);
    for (int c = 0; c < from->n_chan && !a->failed; c++) {
        channels[c] = pf__arena_text(a, from->channels[c]);
        kinds[c] = from->kinds[c];
    }
    for (int j = 0; j < from->n_mech && !a->failed; j++) {
        mechanisms[j] = from->mechanisms[j];
        mechanisms[j].name = pf__arena_text(a, from->mechanisms[j].name);
    }
    m->info.channels = channels;
    m->info.kinds = kinds;
    m->info.mechanisms = mechanisms;
    m->info.plant = pf__arena_text(a, from->plant);
    m->info.source = pf__arena_text(a, from->source);
    m->info.data = pf__arena_text(a, from->data);
    m->info.processor = pf__arena_text(a, from->processor);
    m->info.settings = pf__arena_text(a, from->settings ? from->settings : "");
}

pf_status pf__model_create(pf_model **model, const pf_model_info *info, pf_error *error)
{
    *model = NULL;
    pf_status status = check_shape(info, error);
    status = status ? status : check_names(info, error);
    if (status != PF_OK) {
        return status;
    }
    pf_model *m = calloc(1, sizeof *m);
    if (!m) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a model");
    }
    m->info = *info;
    copy_names(m, info);
    int n_in = info->history * pf__features_count(info->n_chan, info->kinds) +
               (info->history - 1 + info->window) * info->n_mech;
    int n_out = info->window * info->n_chan;
    m->net = (pf_net){n_in, n_out, info->n_layers, info->width, info->activation};
    size_t in = (size_t)n_in, out = (size_t)n_out, f = sizeof(float);
    m->input_mean = pf__arena_take(&m->arena, in, f);
    m->input_scale = pf__arena_take(&m->arena, in, f);
    m->change_mean = pf__arena_take(&m->arena, out, f);
    m->change_scale = pf__arena_take(&m->arena, out, f);
    m->change_linear = pf__arena_take(&m->arena, out * in, f);
    if (info->n_layers > 0) {
        m->theta =
            pf__arena_take(&m->arena, (size_t)info->n_members * pf__net_parameters(&m->net), f);
    }
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
    size_t n = model->theta ? (size_t)model->info.n_members : 0;
    size_t each = n > 0 ? pf__net_packed(net, net->n_layers + 1) : 0;
    size_t linear = pf__matmul_packed_size(net->n_out, net->n_in);
    bool useless = n > 0 ? each == 0 : linear == 0;
    float *memory =
        model->packed || useless ? NULL : pf__pages_take((n * each + linear) * sizeof(float));
    if (!memory) {
        return;
    }
    model->packed = memory;
    for (size_t e = 0; e < n; e++) {
        pf__net_pack(net, model->theta + e * pf__net_parameters(net), model->packed + e * each);
    }
    model->packed_linear = model->packed + n * each;
    pf__matmul_pack(true, net->n_out, net->n_in, model->change_linear, model->packed_linear);
}

void pf_model_destroy(pf_model *model)
{
    if (model) {
        pf__arena_free(&model->arena);
        free(model->packed);
        free(model);
    }
}

const pf_model_info *pf_model_get_info(const pf_model *model)
{
    return &model->info;
}

static const char *mechanism_name(const void *info, int mechanism)
{
    return ((const pf_model_info *)info)->mechanisms[mechanism].name;
}

static const char *channel_name(const void *info, int channel)
{
    return ((const pf_model_info *)info)->channels[channel];
}

pf_status pf__model_fits(const pf_model *model, const pf_plant_info *info, pf_error *error)
{
    const pf_model_info *m = &model->info;
    pf_comparison c = {"the model", "train again, or name the plant that it was trained on", error,
                       PF_OK};
    pf_identity file = {.plant = m->plant,
                        .source = m->source[0] ? m->source : NULL,
                        .dt_s = -1,
                        .n_mech = m->n_mech,
                        .n_chan = m->n_chan,
                        .n_state = -1,
                        .self = m,
                        .mechanism = mechanism_name,
                        .channel = channel_name,
                        .limits = m->mechanisms,
                        .kinds = m->kinds};
    return pf__identity_same(&c, &file, pf_plant_environment(info), info);
}

// --- rollouts

// What a request works in.
typedef struct work {
    double *state;            // n x n_chan
    double *feature, *change; // one row
    float *in, *out, *linear; // pf__matmul_rows
    float *hidden;
} work;

static size_t floats_as_doubles(size_t n)
{
    return (n + 1) / 2;
}

static work work_in(const pf_model *m, int n, double *scratch, size_t *used)
{
    size_t rows = (size_t)pf__matmul_rows(n), out = (size_t)m->net.n_out, in = (size_t)m->net.n_in,
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
    TAKE(hidden, float,
         floats_as_doubles(m->theta ? pf__net_forward_work(&m->net, pf__matmul_rows(n)) : 0))
#undef TAKE
    *used = at;
    return w;
}

size_t pf__model_scratch(const pf_model *model, int n_hypotheses)
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
    pf__features_of(info->n_chan, info->kinds, state, feature);
    int n = m->net.n_in - info->n_mech;
    pf__fault_deliver(info->n_mech, info->mechanisms, command, gains, feature + n);
    pf__loop_standardise(m->net.n_in, feature, m->input_mean, m->input_scale, row);
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
    for (int i = 0; i < m->info.history * m->info.n_chan; i++) {
        if (!isfinite(q->start[i])) {
            return pf_fail(error, PF_ERR_NONFINITE, "start: channel '%s' is not a finite number",
                           m->info.channels[i % m->info.n_chan]);
        }
    }
    if (m->info.window > 1 && q->steps > m->info.window) {
        return pf_fail(error, PF_ERR_UNSUPPORTED,
                       "the model predicts %d steps at once, not %d: train it with a longer window "
                       "(--set window=%d), or a recursive one",
                       m->info.window, q->steps, q->steps);
    }
    return PF_OK;
}

// One member at work.
typedef struct roller {
    const pf_model *model;
    const pf_model_request *q;
    const float *theta, *packed; // NULL: no network
    work w;
    int rows; // of the products
} roller;

// The linear part and the network of all hypotheses, from w.in into w.linear and w.out.
static void evaluate(const roller *r)
{
    const pf_net *net = &r->model->net;
    pf_product linear = {.b_transposed = true,
                         .m = r->rows,
                         .n = net->n_out,
                         .k = net->n_in,
                         .a = r->w.in,
                         .b = r->model->change_linear,
                         .packed = r->model->packed_linear,
                         .c = r->w.linear};
    pf__matmul_run(&linear);
    if (r->theta) {
        pf__net_forward(net, r->theta, r->packed, r->rows, r->w.in, r->w.hidden, r->w.out);
    }
}

// Row `t` of a hypothesis: what is predicted for it, added to the reading x in place.
static void apply_row(const roller *r, int h, int t, double *x)
{
    const pf_model *m = r->model;
    size_t out = (size_t)m->net.n_out, at = (size_t)t * (size_t)m->info.n_chan;
    pf__loop_change(m->info.n_chan, m->change_mean + at, r->w.linear + (size_t)h * out + at,
                    m->change_scale + at, r->w.out + (size_t)h * out + at, r->w.change);
    pf__features_apply(m->info.n_chan, m->info.kinds, r->w.change, x);
}

// Step after step, each from the one before.
static void roll_steps(const roller *r, double *response)
{
    const pf_model *m = r->model;
    const pf_model_request *q = r->q;
    size_t chan = (size_t)m->info.n_chan, mech = (size_t)m->info.n_mech, steps = (size_t)q->steps;
    for (int h = 0; h < q->n_hypotheses; h++) {
        memcpy(r->w.state + (size_t)h * chan, q->start, chan * sizeof(double));
    }
    for (size_t t = 0; t < steps; t++) {
        for (int h = 0; h < q->n_hypotheses; h++) {
            fill_row(m, r->w.state + (size_t)h * chan, q->command + t * mech,
                     q->gains + (size_t)h * mech, r->w.feature,
                     r->w.in + (size_t)h * (size_t)m->net.n_in);
        }
        evaluate(r);
        for (int h = 0; h < q->n_hypotheses; h++) {
            double *state = r->w.state + (size_t)h * chan;
            apply_row(r, h, 0, state);
            memcpy(response + ((size_t)h * steps + t) * chan, state, chan * sizeof(double));
        }
    }
}

// All rows at once. Commands after the last step are zero.
static void roll_window(const roller *r, double *response)
{
    const pf_model *m = r->model;
    const pf_model_info *info = &m->info;
    const pf_model_request *q = r->q;
    size_t chan = (size_t)info->n_chan, mech = (size_t)info->n_mech, steps = (size_t)q->steps;
    int n = pf__features_count(info->n_chan, info->kinds);
    const double zero[PF_MECH_MAX] = {0};
    double one[PF_MECH_MAX];
    for (size_t j = 0; j < mech; j++) {
        one[j] = 1;
    }
    for (int h = 0; h < q->n_hypotheses; h++) {
        double *feature = r->w.feature;
        pf__features_history(info->n_chan, info->kinds, info->history, q->start, feature);
        feature += info->history * n;
        for (size_t t = 0; t + 1 < (size_t)info->history; t++, feature += mech) {
            pf__fault_deliver(info->n_mech, info->mechanisms,
                              q->before ? q->before + t * mech : zero, one, feature);
        }
        for (size_t t = 0; t < (size_t)info->window; t++, feature += mech) {
            pf__fault_deliver(info->n_mech, info->mechanisms,
                              t < steps ? q->command + t * mech : zero, q->gains + (size_t)h * mech,
                              feature);
        }
        pf__loop_standardise(m->net.n_in, r->w.feature, m->input_mean, m->input_scale,
                             r->w.in + (size_t)h * (size_t)m->net.n_in);
    }
    evaluate(r);
    const double *last = q->start + (size_t)(info->history - 1) * chan;
    for (int h = 0; h < q->n_hypotheses; h++) {
        for (size_t t = 0; t < steps; t++) {
            double *row = response + ((size_t)h * steps + t) * chan;
            memcpy(row, last, chan * sizeof(double));
            apply_row(r, h, (int)t, row);
        }
    }
}

pf_status pf__model_roll(const pf_model *model, int member, const pf_model_request *q,
                         double *scratch, double *response, pf_error *error)
{
    pf_status status = check_request(model, member, q, error);
    if (status != PF_OK) {
        return status;
    }
    const pf_net *net = &model->net;
    size_t used, each = model->theta ? pf__net_packed(net, net->n_layers + 1) : 0;
    roller r = {.model = model,
                .q = q,
                .w = work_in(model, q->n_hypotheses, scratch, &used),
                .rows = pf__matmul_rows(q->n_hypotheses)};
    if (model->theta) {
        r.theta = model->theta + (size_t)member * pf__net_parameters(net);
        r.packed = model->packed ? model->packed + (size_t)member * each : NULL;
    } else {
        memset(r.w.out, 0, (size_t)r.rows * (size_t)net->n_out * sizeof(float));
    }
    memset(r.w.in, 0, (size_t)r.rows * (size_t)net->n_in * sizeof(float));
    if (model->info.window == 1) {
        roll_steps(&r, response);
    } else {
        roll_window(&r, response);
    }
    size_t chan = (size_t)model->info.n_chan;
    for (size_t i = 0; i < (size_t)q->n_hypotheses * (size_t)q->steps * chan; i++) {
        if (!isfinite(response[i])) {
            return pf_fail(error, PF_ERR_NONFINITE,
                           "member %d of the model leaves the finite numbers at channel '%s'",
                           member, model->info.channels[i % chan]);
        }
    }
    return PF_OK;
}

pf_status pf__model_mean(const pf_model *model, const pf_model_request *q, double *scratch,
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
        status = pf__model_roll(model, e, q, rest, own, error);
        if (status != PF_OK) {
            return status;
        }
        for (size_t i = 0; i < n; i++) {
            response[i] += own[i] / members;
        }
    }
    return PF_OK;
}

// The words of the metadata, in the order of their enumerations.
static const char *const activation_words[] = {"silu", "relu"};
enum { N_ACTIVATIONS = 2, FIXED_META = 18, SHARED_TENSORS = 5, NAME_BYTES = 48 };

// --- writing

static void add_item(pf_text *list, int index, const char *item)
{
    pf__text_addf(list, "%s%s", index > 0 ? "," : "", item);
}

// The lists of names, kinds and limits, separated by commas.
enum { CHANNELS, KINDS, MECHANISMS, LO, HI, N_LISTS };

static bool fill_lists(pf_text lists[N_LISTS], const pf_model_info *info)
{
    char number[32];
    bool good = true;
    for (int c = 0; c < info->n_chan; c++) {
        add_item(&lists[CHANNELS], c, info->channels[c]);
        add_item(&lists[KINDS], c, pf__channel_kind_name(info->kinds[c]));
    }
    for (int j = 0; j < info->n_mech; j++) {
        add_item(&lists[MECHANISMS], j, info->mechanisms[j].name);
        pf__number_text(info->mechanisms[j].lo, number);
        add_item(&lists[LO], j, number);
        pf__number_text(info->mechanisms[j].hi, number);
        add_item(&lists[HI], j, number);
    }
    for (int i = 0; i < N_LISTS; i++) {
        good = good && !lists[i].failed;
    }
    return good;
}

// All tensors of a model, names in `names` (NAME_BYTES each). Returns their number.
static int list_tensors(const pf_model *m, pf_tensor *t, char (*names)[NAME_BYTES])
{
    const pf_net *net = &m->net;
    size_t in = (size_t)net->n_in, out = (size_t)net->n_out;
    int n = 0;
    t[n++] = (pf_tensor){"input.mean", 1, {in, 0}, m->input_mean};
    t[n++] = (pf_tensor){"input.scale", 1, {in, 0}, m->input_scale};
    t[n++] = (pf_tensor){"change.mean", 1, {out, 0}, m->change_mean};
    t[n++] = (pf_tensor){"change.scale", 1, {out, 0}, m->change_scale};
    t[n++] = (pf_tensor){"change.linear", 2, {out, in}, m->change_linear};
    for (int e = 0; m->theta && e < m->info.n_members; e++) {
        const float *theta = m->theta + (size_t)e * pf__net_parameters(net);
        for (int l = 0; l <= net->n_layers; l++) {
            size_t o = (size_t)pf__net_outputs(net, l), i = (size_t)pf__net_inputs(net, l);
            snprintf(names[n], NAME_BYTES, "members.%d.%d.weight", e, l);
            t[n] = (pf_tensor){names[n], 2, {o, i}, theta + pf__net_weight(net, l)};
            n++;
            snprintf(names[n], NAME_BYTES, "members.%d.%d.bias", e, l);
            t[n] = (pf_tensor){names[n], 1, {o, 0}, theta + pf__net_bias(net, l)};
            n++;
        }
    }
    return n;
}

pf_status pf__model_save(pf_model *m, const char *path, int n_extra, const pf_meta *extra,
                         pf_error *error)
{
    const pf_model_info *info = &m->info;
    int most = SHARED_TENSORS + 2 * info->n_members * (info->n_layers + 1);
    pf_text lists[N_LISTS] = {{0}};
    bool good = fill_lists(lists, info);
    pf_arena arena = {0};
    pf_tensor *tensors = pf__arena_take(&arena, (size_t)most, sizeof *tensors);
    char(*names)[NAME_BYTES] = pf__arena_take(&arena, (size_t)most, sizeof *names);
    pf_meta *meta = pf__arena_take(&arena, (size_t)(FIXED_META + n_extra), sizeof *meta);
    pf_status status = PF_OK;
    if (arena.failed || !good) {
        status = pf_fail(error, PF_ERR_MEMORY, "out of memory for the model file");
    } else {
        char valid[32], left[32], window[16], history[16], digest[65] = "";
        pf__number_text(info->valid_error, valid);
        pf__number_text(info->window_error, left);
        snprintf(window, sizeof window, "%d", info->window);
        snprintf(history, sizeof history, "%d", info->history);
        const pf_meta fixed[] = {{"format", "preflight-model"},
                                 {"version", "1"},
                                 {"preflight", PF_VERSION},
                                 {"plant", info->plant},
                                 {"source", info->source},
                                 {"channels", lists[CHANNELS].data},
                                 {"kinds", lists[KINDS].data},
                                 {"mechanisms", lists[MECHANISMS].data},
                                 {"lo", lists[LO].data},
                                 {"hi", lists[HI].data},
                                 {"window", window},
                                 {"history", history},
                                 {"activation", activation_words[info->activation]},
                                 {"data_sha256", info->data},
                                 {"processor", info->processor},
                                 {"valid_error", valid},
                                 {"window_error", left},
                                 {PF_CONTENTS, digest}};
        _Static_assert(sizeof fixed / sizeof fixed[0] == FIXED_META, "one entry per row");
        memcpy(meta, fixed, sizeof fixed);
        if (n_extra > 0) {
            memcpy(meta + FIXED_META, extra, (size_t)n_extra * sizeof *extra);
        }
        int n = list_tensors(m, tensors, names);
        pf__tensors_digest(FIXED_META + n_extra, meta, n, tensors, digest);
        status = pf__safetensors_write(path, FIXED_META + n_extra, meta, n, tensors, m->info.sha256,
                                       error);
    }
    pf__arena_free(&arena);
    for (int i = 0; i < N_LISTS; i++) {
        pf__text_free(&lists[i]);
    }
    return status;
}

// --- reading

// Splits a list at its commas in place, as many items as it has, `most` at most.
static int split(char *text, int most, char **items)
{
    int n = 0;
    for (char *at = text; at && n < most; n++) {
        items[n] = at;
        at = strchr(at, ',');
        if (at) {
            *at++ = '\0';
        }
    }
    return n;
}

typedef struct reader {
    const pf_safetensors *file;
    pf_arena arena; // of the names while reading
    char *items[PF_STATE_MAX + 1];
    pf_error *error;
} reader;

static pf_status refuse(const reader *r, const char *key, const char *what)
{
    return pf_fail(r->error, PF_ERR_FORMAT, "%s: metadata '%s' %s", r->file->path, key, what);
}

// The items of a list in the metadata, in the arena's memory.
static pf_status read_list(reader *r, const char *key, int most, int *n)
{
    const char *value = pf__safetensors_meta(r->file, key);
    char *copy = value ? pf__arena_text(&r->arena, value) : NULL;
    if (!value) {
        return refuse(r, key, "is missing; docs/formats.md lists what a model file needs");
    }
    if (!copy) {
        return pf_fail(r->error, PF_ERR_MEMORY, "out of memory for a model");
    }
    *n = split(copy, most + 1, r->items);
    return *n > most ? refuse(r, key, "has too many entries") : PF_OK;
}

static pf_status read_channels(reader *r, pf_model_info *info)
{
    int n = 0;
    pf_status status = read_list(r, "channels", PF_STATE_MAX, &info->n_chan);
    if (status != PF_OK) {
        return status;
    }
    const char **channels = pf__arena_take(&r->arena, (size_t)info->n_chan, sizeof *channels);
    pf_channel_kind *kinds = pf__arena_take(&r->arena, (size_t)info->n_chan, sizeof *kinds);
    if (r->arena.failed) {
        return pf_fail(r->error, PF_ERR_MEMORY, "out of memory for a model");
    }
    memcpy(channels, r->items, (size_t)info->n_chan * sizeof *channels);
    info->channels = channels;
    info->kinds = kinds;
    if (!pf__safetensors_meta(r->file, "kinds")) {
        return PF_OK; // all plain
    }
    status = read_list(r, "kinds", PF_STATE_MAX, &n);
    if (status == PF_OK && n != info->n_chan) {
        status = refuse(r, "kinds", "has another number of entries than 'channels'");
    }
    for (int c = 0; c < n && status == PF_OK; c++) {
        if (!pf__channel_kind_find(r->items[c], &kinds[c])) {
            status = refuse(r, "kinds", "knows plain, angle and quaternion only");
        }
    }
    return status;
}

static pf_status read_limit(reader *r, const char *key, pf_mechanism *mechanisms, int n, bool upper)
{
    int found = 0;
    pf_status status = read_list(r, key, PF_MECH_MAX, &found);
    if (status == PF_OK && found != n) {
        status = refuse(r, key, "has another number of entries than 'mechanisms'");
    }
    for (int j = 0; j < n && status == PF_OK; j++) {
        char *end;
        double value = pf__number_read(r->items[j], &end);
        if (end == r->items[j] || *end != '\0' || isnan(value)) {
            status = refuse(r, key, "has an entry that is no number");
        }
        *(upper ? &mechanisms[j].hi : &mechanisms[j].lo) = value;
    }
    return status;
}

static pf_status read_mechanisms(reader *r, pf_model_info *info)
{
    pf_status status = read_list(r, "mechanisms", PF_MECH_MAX, &info->n_mech);
    if (status != PF_OK) {
        return status;
    }
    pf_mechanism *mechanisms = pf__arena_take(&r->arena, (size_t)info->n_mech, sizeof *mechanisms);
    if (!mechanisms) {
        return pf_fail(r->error, PF_ERR_MEMORY, "out of memory for a model");
    }
    for (int j = 0; j < info->n_mech; j++) {
        mechanisms[j].name = r->items[j];
    }
    info->mechanisms = mechanisms;
    status = read_limit(r, "lo", mechanisms, info->n_mech, false);
    status = status ? status : read_limit(r, "hi", mechanisms, info->n_mech, true);
    for (int j = 0; j < info->n_mech && status == PF_OK; j++) {
        if (!(mechanisms[j].lo <= mechanisms[j].hi)) {
            status = refuse(r, "lo", "has a limit above that of 'hi'");
        }
    }
    return status;
}

static const char *text_or_none(const pf_safetensors *file, const char *key)
{
    const char *text = pf__safetensors_meta(file, key);
    return text ? text : "";
}

// A count of the metadata, 1 where there is none; what is no count is out of range.
static int count_or_one(const pf_safetensors *file, const char *key)
{
    const char *text = pf__safetensors_meta(file, key);
    char *end = NULL;
    double value = text ? pf__number_read(text, &end) : 1;
    bool whole =
        !text || (end != text && !*end && value >= 1 && value < 1e6 && value == (int)value);
    return whole ? (int)value : 0;
}

static pf_status read_texts(reader *r, pf_model_info *info)
{
    const pf_safetensors *f = r->file;
    const char *format = pf__safetensors_meta(f, "format");
    const char *version = pf__safetensors_meta(f, "version");
    const char *activation = pf__safetensors_meta(f, "activation");
    const char *valid = pf__safetensors_meta(f, "valid_error");
    const char *left = pf__safetensors_meta(f, "window_error");
    if (!format || strcmp(format, "preflight-model") != 0) {
        return refuse(r, "format", "is not 'preflight-model': this is no model of preflight");
    }
    if (!version || strcmp(version, "1") != 0) {
        return pf_fail(r->error, PF_ERR_VERSION, "%s: model version %s, this program reads 1",
                       f->path, version ? version : "is missing");
    }
    int known = 0;
    while (known < N_ACTIVATIONS &&
           (!activation || strcmp(activation, activation_words[known]) != 0)) {
        known++;
    }
    if (known == N_ACTIVATIONS) {
        return refuse(r, "activation", "must be silu or relu");
    }
    info->activation = (pf_activation)known;
    info->window = count_or_one(f, "window");
    info->history = count_or_one(f, "history");
    info->plant = pf__safetensors_meta(f, "plant");
    if (!info->plant || !info->plant[0]) {
        return refuse(r, "plant", "is missing");
    }
    info->source = text_or_none(f, "source");
    info->data = text_or_none(f, "data_sha256");
    info->processor = text_or_none(f, "processor");
    info->settings = text_or_none(f, "settings");
    info->valid_error = valid ? pf__number_read(valid, NULL) : NAN;
    info->window_error = left ? pf__number_read(left, NULL) : NAN;
    return PF_OK;
}

// Members and layers by counting tensors, the width from the first weight.
static pf_status read_shape(reader *r, pf_model_info *info)
{
    char name[NAME_BYTES];
    while (info->n_members <= PF_MODEL_MEMBERS &&
           (snprintf(name, sizeof name, "members.%d.0.weight", info->n_members),
            pf__safetensors_find(r->file, name))) {
        info->n_members++;
    }
    const pf_tensor *first = pf__safetensors_find(r->file, "members.0.0.weight");
    if (info->n_members == 0 && info->window > 1) {
        info->n_members = 1; // its linear part is all there is
        return pf__safetensors_find(r->file, "change.linear")
                   ? PF_OK
                   : pf_fail(r->error, PF_ERR_SHAPE,
                             "%s: has neither networks nor the tensor 'change.linear'",
                             r->file->path);
    }
    if (!first || first->n_dims != 2 || first->dims[0] > PF_MODEL_WIDTH) {
        return pf_fail(r->error, PF_ERR_SHAPE,
                       "%s: tensor 'members.0.0.weight' is missing or out of range", r->file->path);
    }
    info->width = (int)first->dims[0];
    info->n_layers = -1;
    while (info->n_layers <= PF_MODEL_LAYERS &&
           (snprintf(name, sizeof name, "members.0.%d.weight", info->n_layers + 1),
            pf__safetensors_find(r->file, name))) {
        info->n_layers++;
    }
    return PF_OK;
}

// Copies one tensor into its place after comparing shapes.
static pf_status take(const reader *r, const pf_tensor *want)
{
    const pf_tensor *have = pf__safetensors_find(r->file, want->name);
    if (!have && strcmp(want->name, "change.linear") == 0) {
        return PF_OK; // a model without a linear part
    }
    if (!have) {
        return pf_fail(r->error, PF_ERR_SHAPE, "%s: tensor '%s' is missing", r->file->path,
                       want->name);
    }
    size_t n = 1;
    for (int d = 0; d < want->n_dims; d++) {
        n *= want->dims[d];
        if (have->n_dims != want->n_dims || have->dims[d] != want->dims[d]) {
            return pf_fail(r->error, PF_ERR_SHAPE,
                           "%s: tensor '%s' has another shape than the channels, mechanisms and "
                           "layers of this model need",
                           r->file->path, want->name);
        }
    }
    // the model's own memory, handed out as const by list_tensors
    memcpy((float *)(uintptr_t)want->data, have->data, n * sizeof(float));
    return PF_OK;
}

static pf_status read_tensors(const reader *r, pf_model *m)
{
    const pf_model_info *info = &m->info;
    int most = SHARED_TENSORS + 2 * info->n_members * (info->n_layers + 1);
    pf_arena arena = {0};
    pf_tensor *tensors = pf__arena_take(&arena, (size_t)most, sizeof *tensors);
    char(*names)[NAME_BYTES] = pf__arena_take(&arena, (size_t)most, sizeof *names);
    if (arena.failed) {
        pf__arena_free(&arena);
        return pf_fail(r->error, PF_ERR_MEMORY, "out of memory for a model");
    }
    pf_status status = PF_OK;
    int n = list_tensors(m, tensors, names),
        linear = pf__safetensors_find(r->file, "change.linear") ? 0 : 1;
    for (int i = 0; i < n && status == PF_OK; i++) {
        status = take(r, &tensors[i]);
    }
    if (status == PF_OK && r->file->n_tensors != n - linear) {
        status = pf_fail(r->error, PF_ERR_SHAPE, "%s: %d tensors where this model has %d",
                         r->file->path, r->file->n_tensors, n - linear);
    }
    for (int i = 0; i < m->net.n_in && status == PF_OK; i++) {
        if (!(m->input_scale[i] > 0)) {
            status = pf_fail(r->error, PF_ERR_FORMAT, "%s: 'input.scale' %d is not positive",
                             r->file->path, i);
        }
    }
    const char *digest = pf__safetensors_meta(r->file, PF_CONTENTS);
    char actual[65];
    pf__tensors_digest(r->file->n_meta, r->file->meta, n, tensors, actual);
    if (status == PF_OK && digest && strcmp(digest, actual) != 0) {
        status = pf_fail(r->error, PF_ERR_CHECKSUM, "%s: is not what was written; train again",
                         r->file->path);
    }
    pf__arena_free(&arena);
    return status;
}

// Takes the file over.
static pf_status load(pf_model **model, pf_safetensors *file, pf_error *error)
{
    pf_status status = PF_OK;
    reader *r = calloc(1, sizeof *r);
    pf_model_info info = {.n_chan = 0};
    if (!r) {
        pf__safetensors_free(file);
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a model");
    }
    r->file = file;
    r->error = error;
    status = read_texts(r, &info);
    status = status ? status : read_channels(r, &info);
    status = status ? status : read_mechanisms(r, &info);
    status = status ? status : read_shape(r, &info);
    status = status ? status : pf__model_create(model, &info, error);
    status = status ? status : read_tensors(r, *model);
    if (status == PF_OK) {
        pf__model_pack(*model);
        memcpy((*model)->info.sha256, file->sha256, sizeof file->sha256);
    } else {
        pf_model_destroy(*model);
        *model = NULL;
    }
    pf__arena_free(&r->arena);
    free(r);
    pf__safetensors_free(file);
    return status;
}

pf_status pf_model_load(pf_model **model, const char *path, pf_error *error)
{
    *model = NULL;
    pf_safetensors file;
    pf_status status = pf__safetensors_read(&file, path, error);
    return status == PF_OK ? load(model, &file, error) : status;
}

pf_status pf__model_read(pf_model **model, const char *path, void *bytes, size_t n, pf_error *error)
{
    *model = NULL;
    pf_safetensors file;
    pf_status status = pf__safetensors_parse(&file, path, bytes, n, error);
    return status == PF_OK ? load(model, &file, error) : status;
}
