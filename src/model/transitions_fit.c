// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "transitions_impl.h"

#include "host/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// A comparison that stops at the first difference.
typedef struct fit {
    const pf_transitions *data;
    pf_status status;
    pf_error *error;
} fit;

// Names may be long; what to do must not fall off the end of the message.
enum { SHOWN = 64 };

static void differ(fit *f, const char *what, const char *name, const char *was, const char *is)
{
    char shown[3][SHOWN];
    snprintf(shown[0], SHOWN, "%s", name);
    snprintf(shown[1], SHOWN, "%s", was);
    snprintf(shown[2], SHOWN, "%s", is);
    f->status = pf_fail(f->error, PF_ERR_MISMATCH,
                        "%s%s is %s in the data and %s here; remove %s or name another with --data",
                        what, shown[0], shown[1], shown[2], f->data->path);
}

static void same_text(fit *f, const char *what, const char *was, const char *is)
{
    is = is ? is : "";
    if (f->status == PF_OK && strcmp(was, is) != 0) {
        char quoted[2][SHOWN];
        snprintf(quoted[0], SHOWN, "'%.61s'", was);
        snprintf(quoted[1], SHOWN, "'%.61s'", is);
        differ(f, what, "", quoted[0], quoted[1]);
    }
}

static void same_number(fit *f, const char *what, const char *name, double was, double is)
{
    if (f->status == PF_OK && was != is) {
        char text[2][32];
        pf_number_text(was, text[0]);
        pf_number_text(is, text[1]);
        differ(f, what, name, text[0], text[1]);
    }
}

static void same_seed(fit *f, uint64_t was, uint64_t is)
{
    if (f->status == PF_OK && was != is) {
        char text[2][32];
        snprintf(text[0], sizeof text[0], "%" PRIu64, was);
        snprintf(text[1], sizeof text[1], "%" PRIu64, is);
        differ(f, "the seed", "", text[0], text[1]);
    }
}

static void same_plant(fit *f, const pf_plant_info *info)
{
    const pf_transitions_info *d = &f->data->info;
    same_text(f, "the plant", d->plant, pf_plant_environment(info));
    same_text(f, "the plant's source", d->source, info->source);
    same_number(f, "the time step", "", d->dt_s, info->dt_s);
    same_number(f, "the number of channels", "", d->n_chan, info->n_chan);
    same_number(f, "the number of mechanisms", "", d->n_mech, info->n_mech);
    for (int c = 0; f->status == PF_OK && c < d->n_chan; c++) {
        pf_channel_kind kind = info->kinds ? info->kinds[c] : PF_CHANNEL_PLAIN;
        same_text(f, "a channel", d->channels[c], info->channels[c].name);
        if (f->status == PF_OK && d->kinds[c] != kind) {
            differ(f, "the kind of channel ", d->channels[c], pf_channel_kind_name(d->kinds[c]),
                   pf_channel_kind_name(kind));
        }
    }
    for (int j = 0; f->status == PF_OK && j < d->n_mech; j++) {
        const pf_mechanism *was = &d->mechanisms[j], *is = &info->mechanisms[j];
        same_text(f, "a mechanism", was->name, is->name);
        same_number(f, "the lower limit of ", was->name, was->lo, is->lo);
        same_number(f, "the upper limit of ", was->name, was->hi, is->hi);
    }
}

pf_status pf_transitions_fit(const pf_transitions *data, const pf_train_settings *settings,
                             const pf_plant_info *info, pf_error *error)
{
    const pf_transitions_info *d = &data->info;
    fit f = {.data = data, .status = PF_OK, .error = error};
    same_plant(&f, info);
    if (!settings) {
        return f.status;
    }
    same_number(&f, "the number of transitions", "", d->transitions, settings->transitions);
    same_number(&f, "the number of steps of an episode", "", d->steps, settings->episode_steps);
    same_number(&f, "the correlation", "", d->correlation, settings->correlation);
    same_number(&f, "the amplitude", "", d->amplitude, settings->amplitude);
    same_number(&f, "the share of single mechanisms", "", d->single, settings->single);
    if (f.status == PF_OK && d->disturbance != settings->disturbance) {
        differ(&f, "the disturbance", "", d->disturbance ? "on" : "off",
               settings->disturbance ? "on" : "off");
    }
    same_seed(&f, d->seed, settings->seed);
    return f.status;
}

pf_status pf_transitions_ready(pf_transitions **data, const pf_train_settings *settings, bool exact,
                               pf_plant *plant, const char *path, const pf_effort *effort,
                               pf_error *error)
{
    *data = NULL;
    pf_status status =
        access(path, F_OK) == 0 ? PF_OK : pf_transitions_make(settings, plant, path, effort, error);
    if (status == PF_OK) {
        status = pf_transitions_open(data, path, error);
    }
    if (status == PF_OK) {
        status =
            pf_transitions_fit(*data, exact ? settings : NULL, pf_plant_get_info(plant), error);
    }
    if (status != PF_OK) {
        pf_transitions_close(*data);
        *data = NULL;
    }
    return status;
}
