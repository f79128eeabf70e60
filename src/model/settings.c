// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "settings/settings.h"
#include "transitions.h"
#include "host/parallel.h"
#include "member.h"
#include "preflight/train.h"

#include <math.h>
#include <string.h>

// What a training may take at most; above it the settings are a mistake.
static const double most_bytes = 16e9;

static const pf_train_settings common = {.episode_steps = 20,
                                         .correlation = .8,
                                         .amplitude = .4,
                                         .single = .5,
                                         .disturbance =
                                             false, // as a twin predicts: one undisturbed rollout
                                         .activation = PF_ACTIVATION_SILU,
                                         .patience = 30,
                                         .learning_rate = 1e-3,
                                         .cosine = true,
                                         .held_out = .1,
                                         .seed = 1};

typedef struct profile {
    const char *name;
    int transitions, members, layers, width, epochs, batch;
    double weight_decay; // few rows need some
} profile;

static const profile profiles[] = {
    {"quick", 4000, 2, 2, 64, 150, 64, .2},
    {"standard", 100000, 5, 3, 256, 60, 256, 0},
    {"paper", 500000, 12, 3, 512, 300, 1024, 0},
};
enum { N_PROFILES = sizeof profiles / sizeof profiles[0] };

const char *const *pf__train_profiles(void)
{
    static const char *const names[] = {"quick", "standard", "paper", NULL};
    return names;
}

pf_status pf_train_profile(pf_train_settings *s, const char *name, pf_error *error)
{
    for (int i = 0; i < N_PROFILES; i++) {
        const profile *p = &profiles[i];
        if (strcmp(name, p->name) == 0) {
            *s = common;
            s->transitions = p->transitions;
            s->members = p->members;
            s->layers = p->layers;
            s->width = p->width;
            s->epochs = p->epochs;
            s->batch = p->batch;
            s->weight_decay = p->weight_decay;
            return PF_OK;
        }
    }
    return pf_fail(error, PF_ERR_ARGUMENT,
                   "no profile is called '%s'; there are quick, standard and "
                   "paper",
                   name);
}

// (field, kind, least, most, shape, help): what a configuration may say and what is checked.
#define SETTINGS(X)                                                                                \
    X(transitions, COUNT, 10, 1e8, NULL, "in all")                                                 \
    X(episode_steps, COUNT, 1, 10000, NULL, "steps from a reset")                                  \
    X(correlation, NUMBER, 0, .9999, NULL, "of a command with its last")                           \
    X(amplitude, NUMBER, 1e-6, 100, NULL, "of how far a command can go")                           \
    X(single, NUMBER, 0, 1, NULL, "share with one active mechanism")                               \
    X(disturbance, FLAG, 0, 1, NULL, "the plant's own")                                            \
    X(members, COUNT, 1, PF_MODEL_MEMBERS, NULL, "networks")                                       \
    X(layers, COUNT, 1, PF_MODEL_LAYERS, NULL, "hidden layers")                                    \
    X(width, COUNT, 1, PF_MODEL_WIDTH, NULL, "of a hidden layer")                                  \
    X(activation, WORD, PF_ACTIVATION_SILU, PF_ACTIVATION_RELU, PF_WORDS("silu", "relu"),          \
      "of a hidden layer")                                                                         \
    X(epochs, COUNT, 1, 100000, NULL, "at most")                                                   \
    X(batch, COUNT, 1, 65536, NULL, "rows of a step")                                              \
    X(patience, COUNT, 1, 100000, NULL, "epochs without progress")                                 \
    X(learning_rate, NUMBER, 1e-8, 1, NULL, "of Adam")                                             \
    X(weight_decay, NUMBER, 0, 1, NULL, "decoupled")                                               \
    X(cosine, FLAG, 0, 1, NULL, "the rate falls along a cosine")                                   \
    X(held_out, NUMBER, .001, .9, NULL, "share of the episodes")                                   \
    X(seed, WHOLE, 0, PF_WHOLE_MAX, NULL, "of data and members")

static pf_status check_ranges(const pf_train_settings *s, pf_error *error)
{
    const struct {
        const char *name;
        double value, least, most;
    } ranges[] = {
#define X(field, kind, least, most, shape, help) {#field, (double)s->field, least, most},
        SETTINGS(X)
#undef X
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        if (!(ranges[i].value >= ranges[i].least && ranges[i].value <= ranges[i].most)) {
            return pf_fail(error, PF_ERR_ARGUMENT, "%s: %g is outside %g..%g", ranges[i].name,
                           ranges[i].value, ranges[i].least, ranges[i].most);
        }
    }
    return PF_OK;
}

// Bytes that a training takes at its peak, data and one checkpoint in the writing included.
static double bytes_of(const pf_train_settings *s, int n_chan, int n_mech)
{
    pf_net net = {2 * n_chan + n_mech, n_chan, s->layers, s->width, s->activation};
    double rows = s->transitions, parameters = (double)pf__net_parameters(&net);
    double data = rows * (n_chan * 8 * (1 + 1.0 / s->episode_steps) + n_mech * 4);
    double set = rows * (net.n_in + net.n_out) * 4;
    double threads = pf__processors() < s->members ? pf__processors() : s->members;
    double worker = 4.0 * (rows + (double)pf__net_gradient_work(&net, s->batch) + parameters +
                           (double)s->batch * (net.n_in + net.n_out));
    return 2 * data + set + 20.0 * s->members * parameters + threads * (worker + 16 * parameters);
}

pf_status pf__train_size(const pf_train_settings *s, int n_chan, int n_mech, pf_error *error)
{
    pf_status status = check_ranges(s, error);
    double bytes = status == PF_OK ? bytes_of(s, n_chan, n_mech) : 0;
    if (bytes > most_bytes) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "these settings would take %g GB of memory, the most is %g; fewer "
                       "transitions or members, or a smaller width or batch",
                       bytes * 1e-9, most_bytes * 1e-9);
    }
    return status;
}

pf_status pf_train_check(const pf_train_settings *s, const pf_plant_info *info, pf_error *error)
{
    return pf__train_size(s, info->n_chan, info->n_mech, error);
}

// --- from a configuration

// As written: numbers not given are NaN, counts, flags and words -1.
typedef struct written {
#define X(field, kind, least, most, shape, help) pf_setting_##kind field;
    SETTINGS(X)
#undef X
} written;

static const pf_schema_row rows[] = {
#define X(field, kind, least, most, shape, help)                                                   \
    {#field, PF_KIND_##kind, PF_ROW_CLOSED, least, most, offsetof(written, field), shape, help},
    SETTINGS(X)
#undef X
};
static const pf_schema schema = {rows, PF_COUNT(rows), sizeof(written), 0, NULL};

static void apply(pf_train_settings *s, const written *w)
{
#define X(field, kind, least, most, shape, help)                                                   \
    if (w->field >= 0) { /* false for NaN */                                                       \
        s->field = w->field;                                                                       \
    }
    SETTINGS(X)
#undef X
}

pf_status pf_train_configure(pf_train_settings *settings, const char *file, const char *text,
                             size_t n, const char *const *overrides, int n_overrides,
                             pf_error *error)
{
    if (!text && n_overrides == 0) {
        return PF_OK;
    }
    written w = {0};
    pf_status status = pf__schema_read(&schema, "a training", text ? file : "--set", text, n,
                                       overrides, n_overrides, &w, error);
    if (status == PF_OK) {
        apply(settings, &w);
    }
    return status;
}
