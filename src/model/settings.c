// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "settings/schema.h"
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

const char *const *pf_train_profiles(void)
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

typedef struct range {
    const char *name;
    double value, least, most;
} range;

static pf_status check_ranges(const pf_train_settings *s, pf_error *error)
{
    const range ranges[] = {
        {"transitions", s->transitions, 10, 1e8},
        {"episode_steps", s->episode_steps, 1, 10000},
        {"correlation", s->correlation, 0, .9999},
        {"amplitude", s->amplitude, 1e-6, 100},
        {"single", s->single, 0, 1},
        {"members", s->members, 1, PF_MODEL_MEMBERS},
        {"layers", s->layers, 1, PF_MODEL_LAYERS},
        {"width", s->width, 1, PF_MODEL_WIDTH},
        {"epochs", s->epochs, 1, 100000},
        {"batch", s->batch, 1, 65536},
        {"patience", s->patience, 1, 100000},
        {"learning_rate", s->learning_rate, 1e-8, 1},
        {"weight_decay", s->weight_decay, 0, 1},
        {"held_out", s->held_out, .001, .9},
        {"seed", (double)s->seed, 0, 9007199254740991.0},
        {"activation", s->activation, PF_ACTIVATION_SILU, PF_ACTIVATION_RELU},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        const range *r = &ranges[i];
        if (!(r->value >= r->least && r->value <= r->most)) {
            return pf_fail(error, PF_ERR_ARGUMENT, "%s: %g is outside %g..%g", r->name, r->value,
                           r->least, r->most);
        }
    }
    return PF_OK;
}

// Bytes that a training takes at its peak, data and one checkpoint in the writing included.
static double bytes_of(const pf_train_settings *s, int n_chan, int n_mech)
{
    pf_net net = {2 * n_chan + n_mech, n_chan, s->layers, s->width, s->activation};
    double rows = s->transitions, parameters = (double)pf_net_parameters(&net);
    double data = rows * (n_chan * 8 * (1 + 1.0 / s->episode_steps) + n_mech * 4);
    double set = rows * (net.n_in + net.n_out) * 4;
    double threads = pf_processors() < s->members ? pf_processors() : s->members;
    double worker = 4.0 * (rows + (double)pf_net_gradient_work(&net, s->batch) + parameters +
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

// As written: numbers not given are NaN, counts and flags -1, texts NULL.
typedef struct written {
    int transitions, episode_steps, members, layers, width, epochs, batch, patience;
    int disturbance, cosine;
    double correlation, amplitude, single, learning_rate, weight_decay, held_out, seed;
    char *activation;
} written;

#define AT(field) offsetof(written, field)
static const pf_schema_row rows[] = {
    {"transitions", PF_KIND_COUNT, 0, 10, 1e8, AT(transitions), NULL, "in all"},
    {"episode_steps", PF_KIND_COUNT, 0, 1, 10000, AT(episode_steps), NULL, "steps from a reset"},
    {"correlation", PF_KIND_NUMBER, 0, 0, .9999, AT(correlation), NULL,
     "of a command with its last"},
    {"amplitude", PF_KIND_NUMBER, 0, 1e-6, 100, AT(amplitude), NULL, "of how far a command can go"},
    {"single", PF_KIND_NUMBER, 0, 0, 1, AT(single), NULL, "share with one active mechanism"},
    {"disturbance", PF_KIND_FLAG, 0, 0, 0, AT(disturbance), NULL, "the plant's own"},
    {"members", PF_KIND_COUNT, 0, 1, PF_MODEL_MEMBERS, AT(members), NULL, "networks"},
    {"layers", PF_KIND_COUNT, 0, 1, PF_MODEL_LAYERS, AT(layers), NULL, "hidden layers"},
    {"width", PF_KIND_COUNT, 0, 1, PF_MODEL_WIDTH, AT(width), NULL, "of a hidden layer"},
    {"activation", PF_KIND_NAME, 0, 1, 16, AT(activation), NULL, "silu or relu"},
    {"epochs", PF_KIND_COUNT, 0, 1, 100000, AT(epochs), NULL, "at most"},
    {"batch", PF_KIND_COUNT, 0, 1, 65536, AT(batch), NULL, "rows of a step"},
    {"patience", PF_KIND_COUNT, 0, 1, 100000, AT(patience), NULL, "epochs without progress"},
    {"learning_rate", PF_KIND_NUMBER, 0, 1e-8, 1, AT(learning_rate), NULL, "of Adam"},
    {"weight_decay", PF_KIND_NUMBER, 0, 0, 1, AT(weight_decay), NULL, "decoupled"},
    {"cosine", PF_KIND_FLAG, 0, 0, 0, AT(cosine), NULL, "the rate falls along a cosine"},
    {"held_out", PF_KIND_NUMBER, 0, .001, .9, AT(held_out), NULL, "share of the episodes"},
    {"seed", PF_KIND_WHOLE, 0, 0, PF_WHOLE_MAX, AT(seed), NULL, "of data and members"},
};
#undef AT
static const pf_schema schema = {rows, PF_COUNT(rows), sizeof(written), 0, NULL};

static void set_count(int *to, int value)
{
    *to = value >= 0 ? value : *to;
}

static void set_number(double *to, double value)
{
    *to = isnan(value) ? *to : value;
}

static pf_status apply(pf_train_settings *s, const written *w, pf_error *error)
{
    set_count(&s->transitions, w->transitions);
    set_count(&s->episode_steps, w->episode_steps);
    set_count(&s->members, w->members);
    set_count(&s->layers, w->layers);
    set_count(&s->width, w->width);
    set_count(&s->epochs, w->epochs);
    set_count(&s->batch, w->batch);
    set_count(&s->patience, w->patience);
    set_number(&s->correlation, w->correlation);
    set_number(&s->amplitude, w->amplitude);
    set_number(&s->single, w->single);
    set_number(&s->learning_rate, w->learning_rate);
    set_number(&s->weight_decay, w->weight_decay);
    set_number(&s->held_out, w->held_out);
    s->disturbance = w->disturbance >= 0 ? w->disturbance != 0 : s->disturbance;
    s->cosine = w->cosine >= 0 ? w->cosine != 0 : s->cosine;
    s->seed = isnan(w->seed) ? s->seed : (uint64_t)w->seed;
    if (w->activation) {
        bool silu = strcmp(w->activation, "silu") == 0;
        if (!silu && strcmp(w->activation, "relu") != 0) {
            return pf_fail(error, PF_ERR_FORMAT, "activation: '%s' is neither silu nor relu",
                           w->activation);
        }
        s->activation = silu ? PF_ACTIVATION_SILU : PF_ACTIVATION_RELU;
    }
    return PF_OK;
}

pf_status pf_train_configure(pf_train_settings *settings, const char *file, const char *text,
                             size_t n, const char *const *overrides, int n_overrides,
                             pf_error *error)
{
    if (!text && n_overrides == 0) {
        return PF_OK;
    }
    written w = {0};
    pf__yaml_node *root = NULL;
    pf_status status =
        pf__yaml_read(&root, text ? file : "--set", text ? text : "", text ? n : 0, error);
    for (int i = 0; i < n_overrides && status == PF_OK; i++) {
        status = pf__yaml_set(root, overrides[i], error);
    }
    if (status == PF_OK) {
        status = pf_schema_read(&schema, "a training", root, &w, error);
        if (status == PF_OK) {
            status = apply(settings, &w, error);
        }
        pf_schema_free(&schema, &w);
    }
    pf__yaml_free(root);
    return status;
}
