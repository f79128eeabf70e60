// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "audit.h"

#include "catalogue_text.h" // made from data/catalogue.yaml
#include "core/sha256.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- the file

static const char along[] = "gain_along", against[] = "gain_against", nothing[] = "none";

// The kind of a name at a place, -1: none.
static int kind_at(const char *name, pf_fault_place place)
{
    for (int i = 0; i < pf_fault_count(); i++) {
        if (pf_fault_at(i)->place == place && strcmp(pf_fault_at(i)->name, name) == 0) {
            return i;
        }
    }
    return -1;
}

static pf_fault_place place_of(const pf_audit_entry *e)
{
    return e->on < 0 ? PF_FAULT_ON_MECHANISM : (pf_fault_place)e->on;
}

// Any kind of a mechanism, for messages.
static pf_status unknown(const pf__yaml_node *node, const pf_audit_entry *e, const char *path,
                         pf_error *error)
{
    pf_text list = {0};
    for (int i = 0; i < pf_fault_count(); i++) {
        if (pf_fault_at(i)->place == place_of(e)) {
            pf__text_addf(&list, "%s, ", pf_fault_at(i)->name);
        }
    }
    pf_status status = pf__yaml_refuse(error, node->at,
                                       "%s.fault: '%.40s' is no kind of fault there; there are %s"
                                       "and for mechanisms none, %s and %s",
                                       path, e->fault, list.data ? list.data : "", along, against);
    pf__text_free(&list);
    return status;
}

static pf_status check_entry(const pf__yaml_node *node, const void *base, const char *path,
                             pf_error *error)
{
    const pf_audit_entry *e = base;
    bool special = strcmp(e->fault, nothing) == 0 || strcmp(e->fault, along) == 0 ||
                   strcmp(e->fault, against) == 0;
    int kind = kind_at(e->fault, place_of(e));
    if (!(special && place_of(e) == PF_FAULT_ON_MECHANISM) && kind < 0) {
        return unknown(node, e, path, error);
    }
    bool alone = strcmp(e->fault, nothing) == 0 || place_of(e) != PF_FAULT_ON_MECHANISM;
    if (alone && !isnan(e->second)) {
        return pf__yaml_refuse(error, node->at, "%s: second goes with a fault of a mechanism",
                               path);
    }
    if (isnan(e->from) != isnan(e->to) || (!isnan(e->from) && !isnan(e->value)) ||
        e->from > e->to) {
        return pf__yaml_refuse(error, node->at, "%s: give either value, or from and a larger to",
                               path);
    }
    const pf_fault_info *info = kind >= 0 ? pf_fault_at(kind) : pf_fault_at(PF_FAULT_GAIN);
    double least = isnan(e->from) ? e->value : e->from, most = isnan(e->to) ? e->value : e->to;
    bool needed = strcmp(e->fault, nothing) != 0 && info->otherwise < info->least;
    if (needed && isnan(least)) {
        return pf__yaml_refuse(error, node->at, "%s: %s needs a value", path, e->fault);
    }
    bool whole = info->measure == PF_FAULT_WHOLE_STEPS;
    if (whole && (!isnan(e->from) || (!isnan(e->value) && e->value != floor(e->value)))) {
        return pf__yaml_refuse(error, node->at,
                               "%s: %s counts whole steps; give a whole number as value", path,
                               e->fault);
    }
    if (least < info->least || most > info->most) {
        return pf__yaml_refuse(error, node->at, "%s: a value of %s lies between %g and %g", path,
                               e->fault, info->least, info->most);
    }
    return PF_OK;
}

static const char *const places[] = {"mechanism", "channel", "plant", NULL};
static const pf_schema_shape place_shape = {.words = places};

#define AT(field) offsetof(pf_audit_entry, field)
static const pf_schema_row entry_rows[] = {
    {"name", PF_KIND_TEXT, PF_ROW_REQUIRED, 1, 64, AT(name), NULL, "what the entry is called"},
    {"fault", PF_KIND_NAME, PF_ROW_REQUIRED, 1, 64, AT(fault), NULL, "a kind of fault, or none"},
    {"value", PF_KIND_NUMBER, 0, -DBL_MAX, DBL_MAX, AT(value), NULL, "its number"},
    {"from", PF_KIND_NUMBER, 0, -DBL_MAX, DBL_MAX, AT(from), NULL, "its number, drawn from here"},
    {"to", PF_KIND_NUMBER, 0, -DBL_MAX, DBL_MAX, AT(to), NULL, "to here"},
    {"second", PF_KIND_NUMBER, 0, 0, 1e5, AT(second), NULL, "gain of another candidate"},
    {"on", PF_KIND_WORD, 0, 0, 2, AT(on), &place_shape, "where it acts; default: a mechanism"},
    {"promised", PF_KIND_FLAG, 0, 0, 0, AT(promised), NULL,
     "false: stated, but no promise is made about it"},
};
static const pf_schema entry_object = {.rows = entry_rows,
                                       .n = sizeof entry_rows / sizeof entry_rows[0],
                                       .size = sizeof(pf_audit_entry),
                                       .place = AT(place),
                                       .check = check_entry,
                                       .item = "an entry"};
static const pf_schema_shape entry_list = {.object = &entry_object,
                                           .count = offsetof(pf_catalogue, n)};
static const pf_schema_row catalogue_rows[] = {
    {"entries", PF_KIND_LIST, PF_ROW_REQUIRED, 1, 1000, offsetof(pf_catalogue, entries),
     &entry_list, "what a machine may have"},
};
static const pf_schema catalogue_schema = {
    .rows = catalogue_rows, .n = 1, .size = sizeof(pf_catalogue)};

pf_status pf__catalogue_read(pf_catalogue *c, const char *file, const char *text, size_t n,
                             pf_error *error)
{
    *c = (pf_catalogue){0};
    pf_text own = {0};
    for (size_t i = 0; !text && i < sizeof catalogue_text / sizeof catalogue_text[0]; i++) {
        pf__text_add(&own, catalogue_text[i]);
        pf__text_add(&own, "\n");
    }
    if (own.failed) {
        pf__text_free(&own);
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for the catalogue");
    }
    if (!text) {
        text = own.data;
        n = own.size;
        file = "catalogue.yaml";
    }
    pf__sha256_of(text, n, c->sha256);
    pf_status status =
        pf__schema_read(&catalogue_schema, "a catalogue", file, text, n, NULL, 0, c, error);
    pf__text_free(&own);
    return status;
}

void pf__catalogue_free(pf_catalogue *c)
{
    pf__schema_free(&catalogue_schema, c);
}

const pf_audit_entry *pf__catalogue_find(const pf_catalogue *catalogue, const char *name)
{
    for (int i = 0; i < catalogue->n; i++) {
        if (strcmp(catalogue->entries[i].name, name) == 0) {
            return &catalogue->entries[i];
        }
    }
    return NULL;
}

// --- what a session has

// Whether the task of a mechanism pushes it in the positive direction.
static bool pushes_up(const pf_kit *kit, int mechanism)
{
    pf_kit_info k = pf_kit_get_info(kit);
    double largest = 0;
    for (int t = 0; t < k.n_tasks; t++) {
        const double *command = pf_kit_task_command(kit, t);
        for (int r = 0; r < pf_kit_task_rows(kit, t); r++) {
            double u = command[r * k.n_mech + mechanism];
            largest = fabs(u) > fabs(largest) ? u : largest;
        }
    }
    return largest >= 0;
}

static pf_fault_kind kind_of(const pf_audit_entry *e, const pf_kit *kit, int mechanism)
{
    bool with = strcmp(e->fault, along) == 0, other = strcmp(e->fault, against) == 0;
    if (with || other) {
        return pushes_up(kit, mechanism) == with ? PF_FAULT_GAIN_UP : PF_FAULT_GAIN_DOWN;
    }
    return (pf_fault_kind)kind_at(e->fault, place_of(e));
}

pf_status pf__catalogue_faults(const pf_audit_entry *e, const pf_kit *kit,
                               const pf_plant_info *info, uint64_t seed, int session,
                               pf_fault *faults, int *n, pf_error *error)
{
    pf_rng rng;
    pf_rng_init(&rng, pf_key_stream(seed, e->name, (uint64_t)session, PF_PURPOSE_LAW, 0));
    double drawn = pf_rng_uniform(&rng);
    *n = 0;
    if (strcmp(e->fault, nothing) == 0) {
        return PF_OK;
    }
    pf_fault_place place = place_of(e);
    int m = info->n_mech - 1, at = place == PF_FAULT_ON_MECHANISM ? 1 + session % m
                                   : place == PF_FAULT_ON_CHANNEL ? session % info->n_chan
                                                                  : -1;
    pf_fault_kind kind = kind_of(e, kit, at);
    double value = !isnan(e->from)    ? e->from + drawn * (e->to - e->from)
                   : !isnan(e->value) ? e->value
                                      : pf_fault_at(kind)->otherwise;
    faults[(*n)++] = (pf_fault){.kind = kind, .at = at, .value = value};
    if (!isnan(e->second) && m < 2) {
        return pf_fail(error, PF_ERR_UNSUPPORTED, "there is only one candidate");
    }
    if (!isnan(e->second)) {
        int other = 1 + (at + (int)pf_rng_below(&rng, (uint32_t)(m - 1))) % m;
        faults[(*n)++] = (pf_fault){.kind = PF_FAULT_GAIN, .at = other, .value = e->second};
    }
    pf_status status = pf_fault_set_units(faults, *n, kit, info, error);
    return status == PF_OK ? pf_fault_check(faults, *n, info, error) : status;
}
