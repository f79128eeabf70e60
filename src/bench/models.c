// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "experiment.h"

#include "preflight/train.h"
#include "store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };
static const double checkpoint_s = 5;

static pf_status another_model(const char *environment, const char *bound, const char *sha,
                               pf_error *error)
{
    char before[17], now[17];
    snprintf(before, sizeof before, "%.16s", bound);
    snprintf(now, sizeof now, "%.16s", sha);
    return pf_fail(error, PF_ERR_MISMATCH,
                   "%s: the trials in the database were made with another model (sha256 %s..., "
                   "this is %s...); name its folder with --models, or another --db",
                   environment, before, now);
}

pf_status pf_experiment_bound(const pf_experiment *e, pf_store *store, pf_error *error)
{
    pf_status status = PF_OK;
    for (int i = 0; e->models && i < e->suite->environments.n && status == PF_OK; i++) {
        const char *name = e->suite->environments.text[i];
        char bound[65];
        status = pf_store_bound(store, e->hash, name, bound, error);
        if (status != PF_OK || !bound[0]) {
            continue;
        }
        const char *sha = e->models[i] ? pf_model_get_info(e->models[i])->sha256 : "";
        if (!e->models[i]) {
            status = pf_fail(error, PF_ERR_FILE,
                             "the model that made the trials of %s is not in the folder of models; "
                             "name that with --models",
                             name);
        } else if (strcmp(bound, sha) != 0) {
            status = another_model(name, bound, sha, error);
        }
    }
    return status;
}

pf_status pf_experiment_bind(const pf_experiment *e, pf_store *store, pf_error *error)
{
    pf_status status = PF_OK;
    for (int i = 0; e->models && i < e->suite->environments.n && status == PF_OK; i++) {
        if (!e->models[i]) {
            continue;
        }
        const char *name = e->suite->environments.text[i];
        const char *sha = pf_model_get_info(e->models[i])->sha256;
        char bound[65];
        status = pf_store_bind(store, e->hash, name, sha, bound, error);
        if (status == PF_OK && strcmp(bound, sha) != 0) {
            status = another_model(name, bound, sha, error);
        }
    }
    return status;
}

bool pf_experiment_learned(const pf_experiment *e)
{
    return e->suite->predictor && strcmp(e->suite->predictor, "ensemble") == 0;
}

// Epochs over all members as one progress.
typedef struct watcher {
    const pf_effort *effort;
    const pf_train_settings *settings;
    char what[96];
    size_t done[PF_MODEL_MEMBERS];
} watcher;

static void on_epoch(void *self, const pf_epoch *epoch)
{
    watcher *w = self;
    size_t all = (size_t)w->settings->epochs, done = 0;
    w->done[epoch->member] = epoch->finished ? all : (size_t)epoch->epoch;
    for (int e = 0; e < w->settings->members; e++) {
        done += w->done[e];
    }
    if (w->effort && w->effort->progress) {
        w->effort->progress(w->effort->self, w->what, done, all * (size_t)w->settings->members);
    }
}

// Data and checkpoints stand beside the model, so a run that was stopped goes on here too.
static pf_status train_model(pf_plant *plant, const pf_train_settings *s, const char *path,
                             const pf_effort *effort, pf_error *error)
{
    char data_path[PATH_BYTES + 8];
    const pf_plant_info *info = pf_plant_get_info(plant);
    pf_transitions *data = NULL;
    watcher w = {.effort = effort, .settings = s};
    pf_train_watch watch = {&w, on_epoch};
    snprintf(data_path, sizeof data_path, "%s.data", path);
    snprintf(w.what, sizeof w.what, "learning %s", info->name);
    pf_status status = pf_train_check(s, info, error);
    if (status == PF_OK) {
        status = pf_transitions_ready(&data, s, true, plant, data_path, effort, error);
    }
    if (status == PF_OK) {
        status = pf_train(s, data, path, checkpoint_s, effort, &watch, error);
    }
    pf_transitions_close(data);
    return status;
}

// A model that is there must be of this plant and profile.
static pf_status check_shape(const pf_model *m, const pf_plant_info *plant,
                             const pf_train_settings *s, const char *path, pf_error *error)
{
    const pf_model_info *info = pf_model_get_info(m);
    pf_error why = {PF_OK, ""};
    if (pf_model_fits(m, plant, &why) != PF_OK) {
        return pf_fail(error, PF_ERR_MISMATCH, "%s: %s", path, why.text);
    }
    if (info->n_members != s->members || info->n_layers != s->layers || info->width != s->width) {
        return pf_fail(error, PF_ERR_MISMATCH,
                       "%s: %d members of %d x %d, this profile has %d of %d x %d; remove it or "
                       "name another folder",
                       path, info->n_members, info->n_layers, info->width, s->members, s->layers,
                       s->width);
    }
    if (pf_train_made(s, m, &why) != PF_OK) {
        return pf_fail(error, PF_ERR_MISMATCH,
                       "%s is not of this profile: %s; remove it or name another folder", path,
                       why.text);
    }
    return PF_OK;
}

static pf_status rest(const pf_effort *effort, pf_error *error)
{
    struct timespec moment = {0, 200000000};
    nanosleep(&moment, NULL);
    return effort && effort->stop && *effort->stop
               ? pf_fail(error, PF_ERR_INTERRUPTED, "stopped; run it again to go on")
               : PF_OK;
}

static pf_status learn_one(pf_experiment *e, int i, const char *folder, bool train,
                           const pf_effort *effort, pf_error *error)
{
    const char *name = e->suite->environments.text[i];
    char path[PATH_BYTES];
    pf_train_settings s;
    pf_plant *plant = NULL;
    pf_status status = pf_train_profile(&s, e->profile->name, error);
    if (snprintf(path, sizeof path, "%s/%s-%s.model", folder, name, e->profile->name) >=
        PATH_BYTES) {
        status = pf_fail(error, PF_ERR_ARGUMENT, "the folder's name is too long");
    }
    if (status != PF_OK || (!train && access(path, F_OK) != 0)) {
        return status;
    }
    status = pf_plant_create(&plant, name, error);
    while (status == PF_OK && access(path, F_OK) != 0) {
        status = train_model(plant, &s, path, effort, error);
        if (status == PF_ERR_FILE && (pf_train_busy(path) || access(path, F_OK) == 0)) {
            status = rest(effort, error); // another run learns it
        }
    }
    status = status ? status : pf_model_load(&e->models[i], path, error);
    if (status == PF_OK) {
        status = check_shape(e->models[i], pf_plant_get_info(plant), &s, path, error);
    }
    pf_plant_destroy(plant);
    return status;
}

static bool wanted(const pf_experiment *e, const pf_filter *filter, int environment)
{
    if (pf_experiment_missing(e, e->suite->environments.text[environment])) {
        return false;
    }
    pf_filter part = filter ? *filter : (pf_filter){0};
    part.experiment = e;
    for (size_t i = 0; filter && i < e->n_units; i++) {
        if (strcmp(e->units[i].environment, e->suite->environments.text[environment]) == 0 &&
            pf_filter_wants(&part, &e->units[i])) {
            return true;
        }
    }
    return !filter;
}

pf_status pf_experiment_learn(pf_experiment *e, const char *folder, const pf_filter *filter,
                              bool train, const pf_effort *effort, pf_error *error)
{
    if (!pf_experiment_learned(e)) {
        return PF_OK;
    }
    if (train && mkdir(folder, 0777) != 0 && errno != EEXIST) {
        return pf_fail(error, PF_ERR_FILE, "the folder of models '%s' cannot be made: %s", folder,
                       strerror(errno));
    }
    e->models = calloc((size_t)e->suite->environments.n, sizeof(*e->models));
    pf_status status =
        e->models ? PF_OK : pf_fail(error, PF_ERR_MEMORY, "out of memory for models");
    for (int i = 0; i < e->suite->environments.n && status == PF_OK; i++) {
        status = wanted(e, filter, i) ? learn_one(e, i, folder, train, effort, error) : PF_OK;
    }
    return status;
}
