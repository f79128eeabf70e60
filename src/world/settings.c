// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "features.h"
#include "network.h"
#include "preflight/train.h"

#include <math.h>
#include <string.h>

// What a training may take at most; above it the settings are a mistake.
static const double most_bytes = 16e9;

static const pf_train_settings common = {.episode_steps = 20,
                                         .correlation = .8,
                                         .amplitude = .4,
                                         .single = .5,
                                         .disturbance = true,
                                         .activation = PF_ACTIVATION_SILU,
                                         .patience = 30,
                                         .learning_rate = 1e-3,
                                         .cosine = true,
                                         .held_out = .1,
                                         .seed = 1};

typedef struct profile {
    const char *name;
    int transitions, members, layers, width, epochs, batch;
} profile;

static const profile profiles[] = {
    {"quick", 4000, 2, 2, 64, 60, 64},
    {"standard", 100000, 5, 3, 256, 60, 256},
    {"paper", 500000, 12, 3, 512, 300, 1024},
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

pf_status pf_train_check(const pf_train_settings *s, const pf_plant_info *info, pf_error *error)
{
    pf_status status = check_ranges(s, error);
    if (status != PF_OK) {
        return status;
    }
    double chan = info->n_chan, mech = info->n_mech;
    pf_net net = {2 * info->n_chan + info->n_mech, info->n_chan, s->layers, s->width,
                  s->activation};
    double data = (double)s->transitions * (chan * 8 * (1 + 1.0 / s->episode_steps) + mech * 4);
    double set = (double)s->transitions * (net.n_in + net.n_out) * 4;
    double members = 5.0 * 4 * s->members * (double)pf_net_parameters(&net);
    double work = 4.0 * 2 * (double)pf_net_gradient_work(&net, s->batch);
    if (data + set + members + work > most_bytes) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "these settings would take %g GB of memory, the most is %g; fewer "
                       "transitions, members, or a smaller width or batch",
                       (data + set + members + work) * 1e-9, most_bytes * 1e-9);
    }
    return PF_OK;
}
