// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "identity.h"
#include "plant_impl.h"

#include "host/text.h"

#include <stdio.h>
#include <string.h>

// Names may be long; what to do must not fall off the end of the message.
enum { SHOWN = 64 };

void pf__differ(pf_comparison *c, const char *what, const char *name, const char *was,
                const char *is)
{
    char shown[3][SHOWN];
    snprintf(shown[0], SHOWN, "%s", name);
    snprintf(shown[1], SHOWN, "%s", was);
    snprintf(shown[2], SHOWN, "%s", is);
    c->status = pf_fail(c->error, PF_ERR_MISMATCH, "%s%s is %s in %s and %s here; %s", what,
                        shown[0], shown[1], c->where, shown[2], c->advice);
}

void pf__same_text(pf_comparison *c, const char *what, const char *was, const char *is)
{
    is = is ? is : "";
    if (c->status == PF_OK && strcmp(was, is) != 0) {
        char quoted[2][SHOWN];
        snprintf(quoted[0], SHOWN, "'%.61s'", was);
        snprintf(quoted[1], SHOWN, "'%.61s'", is);
        pf__differ(c, what, "", quoted[0], quoted[1]);
    }
}

void pf__same_number(pf_comparison *c, const char *what, const char *name, double was, double is)
{
    if (c->status == PF_OK && was != is) {
        char text[2][32];
        pf__number_text(was, text[0]);
        pf__number_text(is, text[1]);
        pf__differ(c, what, name, text[0], text[1]);
    }
}

static void same_count(pf_comparison *c, const char *what, int was, int is)
{
    if (was >= 0) {
        pf__same_number(c, what, "", was, is);
    }
}

static void same_name(pf_comparison *c, const char *what, int index, const char *was,
                      const char *is)
{
    char numbered[32];
    snprintf(numbered, sizeof numbered, "%s %d", what, index);
    pf__same_text(c, numbered, was, is);
}

static void same_channels(pf_comparison *c, const pf_identity *file, const pf_plant_info *plant)
{
    for (int i = 0; c->status == PF_OK && i < file->n_chan; i++) {
        pf_channel_kind kind = plant->kinds ? plant->kinds[i] : PF_CHANNEL_PLAIN;
        same_name(c, "channel", i, file->channel(file->self, i), plant->channels[i].name);
        if (c->status == PF_OK && file->kinds && file->kinds[i] != kind) {
            pf__differ(c, "the kind of channel ", plant->channels[i].name,
                       pf__channel_kind_name(file->kinds[i]), pf__channel_kind_name(kind));
        }
    }
}

pf_status pf__identity_same(pf_comparison *c, const pf_identity *file, const char *environment,
                            const pf_plant_info *plant)
{
    if (file->plant) {
        pf__same_text(c, "the plant", file->plant, environment);
    }
    if (file->source) {
        pf__same_text(c, "the plant's source", file->source, plant->source);
    }
    if (file->dt_s >= 0) {
        pf__same_number(c, "the time step", "", file->dt_s, plant->dt_s);
    }
    same_count(c, "the number of channels", file->n_chan, plant->n_chan);
    same_count(c, "the number of mechanisms", file->n_mech, plant->n_mech);
    same_count(c, "the size of the state", file->n_state, plant->n_state);
    same_channels(c, file, plant);
    for (int j = 0; c->status == PF_OK && j < file->n_mech; j++) {
        const pf_mechanism *is = &plant->mechanisms[j];
        same_name(c, "mechanism", j, file->mechanism(file->self, j), is->name);
        if (file->limits) {
            pf__same_number(c, "the lower limit of ", is->name, file->limits[j].lo, is->lo);
            pf__same_number(c, "the upper limit of ", is->name, file->limits[j].hi, is->hi);
        }
    }
    return c->status;
}

static const char *mechanism_of(const void *self, int mechanism)
{
    return ((const pf_plant_info *)self)->mechanisms[mechanism].name;
}

static const char *channel_of(const void *self, int channel)
{
    return ((const pf_plant_info *)self)->channels[channel].name;
}

pf_status pf__plants_alike(pf_comparison *c, const pf_plant_info *a, const pf_plant_info *b)
{
    pf_identity first = {.dt_s = -1,
                         .n_mech = a->n_mech,
                         .n_chan = a->n_chan,
                         .n_state = -1,
                         .self = a,
                         .mechanism = mechanism_of,
                         .channel = channel_of,
                         .limits = a->mechanisms};
    return pf__identity_same(c, &first, b->name, b);
}
