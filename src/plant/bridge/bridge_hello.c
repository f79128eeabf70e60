// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "bridge_hello.h"
#include "plant/plant_impl.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROTOCOL 1

pf_status pf__bridge_refuse(char *what, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, PF_WHAT_SIZE, format, arguments);
    va_end(arguments);
    // names are the child's: a message stays one line of ASCII
    for (char *c = what; *c != '\0'; c++) {
        *c = *c >= ' ' && *c <= '~' ? *c : '?';
    }
    return PF_ERR_PLANT;
}

void pf__bridge_quote(char out[PF_QUOTE_SIZE], const char *text, size_t size)
{
    size_t n = 0;
    for (; n < size && n < PF_QUOTE_SIZE - 4; n++) {
        out[n] = text[n] >= ' ' && text[n] <= '~' ? text[n] : '?';
    }
    strcpy(out + n, n < size ? "..." : "");
}

pf_status pf__bridge_no_memory(char *what)
{
    pf__bridge_refuse(what, "not enough memory");
    return PF_ERR_MEMORY;
}

void pf__description_free(pf_description *about)
{
    json_decref(about->hello);
    free(about->source);
    free(about->mechanisms);
    free(about->channels);
    free(about->kinds);
    free(about->policies);
    free(about->policy_task);
    free(about->indices);
    free(about->numbers);
    free(about->metrics);
    *about = (pf_description){0};
}

const char *pf__item_name(const json_t *item)
{
    const char *name =
        json_string_value(json_is_object(item) ? json_object_get(item, "name") : item);
    return name != NULL && name[0] != '\0' ? name : NULL;
}

// An optional number of a list entry; null counts as absent.
static pf_status read_number(const json_t *item, const char *key, double absent, double *value,
                             char *what)
{
    const json_t *number = json_object_get(item, key);
    *value = absent;
    if (number == NULL || json_is_null(number)) {
        return PF_OK;
    }
    if (!json_is_number(number)) {
        return pf__bridge_refuse(what, "hello: \"%s\" of %s is not a number", key,
                                 pf__item_name(item));
    }
    *value = json_number_value(number);
    return PF_OK;
}

static pf_status parse_mechanisms(pf_description *about, char *what)
{
    const json_t *list = json_object_get(about->hello, "mechanisms");
    size_t n = json_array_size(list);
    if (n < 2 || n > PF_MECH_MAX) {
        return pf__bridge_refuse(
            what, "hello: \"mechanisms\" must list 2 to %d, the current one first", PF_MECH_MAX);
    }
    about->mechanisms = calloc(n, sizeof *about->mechanisms);
    if (about->mechanisms == NULL) {
        return pf__bridge_no_memory(what);
    }
    about->n_mech = (int)n;
    for (size_t j = 0; j < n; j++) {
        const json_t *item = json_array_get(list, j);
        pf_mechanism *mechanism = &about->mechanisms[j];
        mechanism->name = pf__item_name(item);
        if (mechanism->name == NULL) {
            return pf__bridge_refuse(what, "hello: mechanism %zu has no name", j);
        }
        for (size_t i = 0; i < j; i++) {
            if (strcmp(about->mechanisms[i].name, mechanism->name) == 0) {
                return pf__bridge_refuse(what, "hello: mechanisms %zu and %zu have the same name",
                                         i, j);
            }
        }
        pf_status status = read_number(item, "lo", -INFINITY, &mechanism->lo, what);
        if (status == PF_OK) {
            status = read_number(item, "hi", INFINITY, &mechanism->hi, what);
        }
        if (status == PF_OK && mechanism->lo > mechanism->hi) {
            status = pf__bridge_refuse(what, "hello: lo > hi of mechanism %s", mechanism->name);
        }
        if (status != PF_OK) {
            return status;
        }
    }
    return PF_OK;
}

// "kind" of a channel; without one it is plain.
static pf_status parse_kind(const json_t *item, const char *name, pf_channel_kind *kind, char *what)
{
    const json_t *value = json_object_get(item, "kind");
    const char *word = json_string_value(value);
    if (word != NULL && pf_channel_kind_find(word, kind)) {
        return PF_OK;
    }
    return value == NULL ? PF_OK
                         : pf__bridge_refuse(what,
                                             "hello: \"kind\" of %s must be plain, angle or "
                                             "quaternion",
                                             name);
}

static pf_status parse_channels(pf_description *about, char *what)
{
    const json_t *list = json_object_get(about->hello, "channels");
    size_t n = json_array_size(list);
    if (n < 1 || n > PF_TRACE_MAX) {
        return pf__bridge_refuse(what, "hello: \"channels\" must list at least one");
    }
    about->channels = calloc(n, sizeof *about->channels);
    about->kinds = calloc(n, sizeof *about->kinds);
    if (about->channels == NULL || about->kinds == NULL) {
        return pf__bridge_no_memory(what);
    }
    about->n_chan = (int)n;
    for (size_t c = 0; c < n; c++) {
        const json_t *item = json_array_get(list, c);
        pf_channel *channel = &about->channels[c];
        channel->name = pf__item_name(item);
        if (channel->name == NULL) {
            return pf__bridge_refuse(what, "hello: channel %zu has no name", c);
        }
        pf_status status = read_number(item, "scale", 0, &channel->scale, what);
        if (status == PF_OK) {
            status = parse_kind(item, channel->name, &about->kinds[c], what);
        }
        if (status == PF_OK && channel->scale < 0) {
            status = pf__bridge_refuse(what, "hello: \"scale\" of %s is negative", channel->name);
        }
        if (status != PF_OK) {
            return status;
        }
    }
    return PF_OK;
}

// Index of a mechanism given by index or by name; -1: there is none.
static int find_mechanism(const pf_description *about, const json_t *item)
{
    if (json_is_integer(item)) {
        json_int_t index = json_integer_value(item);
        return index >= 0 && index < about->n_mech ? (int)index : -1;
    }
    const char *name = json_string_value(item);
    for (int j = 0; name != NULL && j < about->n_mech; j++) {
        if (strcmp(about->mechanisms[j].name, name) == 0) {
            return j;
        }
    }
    return -1;
}

static pf_status parse_policy(const pf_description *about, const json_t *task, pf_policy *policy,
                              int *indices, char *what)
{
    const json_t *list = json_object_get(task, "mechanisms");
    const json_t *rows = json_object_get(task, "rows");
    size_t n = json_array_size(list);
    policy->name = pf__item_name(task);
    if (n < 1 || n > (size_t)about->n_mech) {
        return pf__bridge_refuse(what, "hello: task %s does not list its mechanisms", policy->name);
    }
    for (size_t i = 0; i < n; i++) {
        indices[i] = find_mechanism(about, json_array_get(list, i));
        bool known = indices[i] >= 0;
        for (size_t k = 0; k < i; k++) {
            known = known && indices[k] != indices[i];
        }
        if (!known) {
            return pf__bridge_refuse(
                what, "hello: mechanism %zu of task %s is unknown or there twice", i, policy->name);
        }
    }
    json_int_t n_rows = json_integer_value(rows);
    if (n_rows < 1 || n_rows > PF_TRACE_MAX / about->n_chan) {
        return pf__bridge_refuse(what, "hello: \"rows\" of task %s must be 1 to %d", policy->name,
                                 PF_TRACE_MAX / about->n_chan);
    }
    policy->n_mechanisms = (int)n;
    policy->mechanisms = indices;
    policy->rows = (int)n_rows;
    return PF_OK;
}

// Tasks with rows are closed loops that can be rolled; the others are only names.
static pf_status parse_tasks(pf_description *about, char *what)
{
    const json_t *list = json_object_get(about->hello, "tasks");
    size_t n = json_array_size(list);
    if (list == NULL || json_is_null(list) || (json_is_array(list) && n == 0)) {
        return PF_OK;
    }
    if (!json_is_array(list) || n > PF_TRACE_MAX) {
        return pf__bridge_refuse(what, "hello: \"tasks\" is not a list");
    }
    size_t n_indices = 0;
    for (size_t k = 0; k < n; k++) {
        const json_t *task = json_array_get(list, k);
        if (pf__item_name(task) == NULL) {
            return pf__bridge_refuse(what, "hello: task %zu has no name", k);
        }
        n_indices += json_array_size(json_object_get(task, "mechanisms"));
    }
    about->policies = calloc(n, sizeof *about->policies);
    about->policy_task = calloc(n, sizeof *about->policy_task);
    about->indices = calloc(n_indices + 1, sizeof *about->indices);
    if (about->policies == NULL || about->policy_task == NULL || about->indices == NULL) {
        return pf__bridge_no_memory(what);
    }
    int *indices = about->indices;
    for (size_t k = 0; k < n; k++) {
        const json_t *task = json_array_get(list, k);
        if (json_object_get(task, "rows") == NULL) {
            continue;
        }
        pf_policy *policy = &about->policies[about->n_policies];
        pf_status status = parse_policy(about, task, policy, indices, what);
        if (status != PF_OK) {
            return status;
        }
        about->policy_task[about->n_policies++] = (int)k;
        indices += policy->n_mechanisms;
    }
    return PF_OK;
}

pf_status pf__description_parse(json_t *hello, pf_description *about, char *what)
{
    *about = (pf_description){.hello = hello};
    const json_t *problem = json_object_get(hello, "error");
    if (json_is_string(problem)) {
        return pf__bridge_refuse(what, "%s", json_string_value(problem));
    }
    const json_t *protocol = json_object_get(hello, "protocol");
    if (!json_is_integer(protocol) || json_integer_value(protocol) != PROTOCOL) {
        return pf__bridge_refuse(what, "hello: \"protocol\" is not %d", PROTOCOL);
    }
    const char *name = pf__item_name(hello);
    if (name == NULL) {
        return pf__bridge_refuse(what, "hello: \"name\" is missing or not a string");
    }
    const char *version = json_string_value(json_object_get(hello, "version"));
    version = version != NULL ? version : "";
    size_t size = strlen(name) + strlen(version) + 2;
    about->source = malloc(size);
    if (about->source == NULL) {
        return pf__bridge_no_memory(what);
    }
    snprintf(about->source, size, "%s%s%s", name, version[0] != '\0' ? " " : "", version);

    const json_t *dt = json_object_get(hello, "dt");
    about->dt_s = json_number_value(dt);
    if (!json_is_number(dt) || about->dt_s < 0) {
        return pf__bridge_refuse(what, "hello: \"dt\" is not a number >= 0");
    }
    const json_t *state_size = json_object_get(hello, "state_size");
    json_int_t n_state = json_integer_value(state_size);
    if (!json_is_integer(state_size) || n_state < 0 || n_state > PF_STATE_MAX) {
        return pf__bridge_refuse(what, "hello: \"state_size\" is not an integer in 0..%d",
                                 PF_STATE_MAX);
    }
    about->n_state = (int)n_state;
    pf_status status = parse_mechanisms(about, what);
    status = status == PF_OK ? parse_channels(about, what) : status;
    status = status == PF_OK ? parse_tasks(about, what) : status;
    return status == PF_OK ? pf__description_suggestions(about, what) : status;
}

pf_plant_info pf__description_info(const pf_description *about, const char *name)
{
    const char *title = json_string_value(json_object_get(about->hello, "title"));
    const char *own = pf__item_name(about->hello);
    return (pf_plant_info){.name = name,
                           .title = title != NULL ? title : own,
                           .environment = own,
                           .source = about->source,
                           .n_mech = about->n_mech,
                           .n_chan = about->n_chan,
                           .n_state = about->n_state,
                           .dt_s = about->dt_s,
                           .mechanisms = about->mechanisms,
                           .channels = about->channels,
                           .kinds = about->kinds,
                           .probe = about->probe.rows > 0 ? &about->probe : NULL,
                           .task = about->task.rows > 0 ? &about->task : NULL,
                           .reveal = about->reveal,
                           .importance = about->importance,
                           .n_policies = about->n_policies,
                           .policies = about->policies,
                           .calm = about->calm,
                           .n_metrics = about->n_metrics,
                           .metrics = about->metrics,
                           .draws = about->draws,
                           .sensor_noise = about->sensor_noise,
                           .charge = about->charge};
}

bool pf__description_same(const pf_description *a, const pf_description *b)
{
    bool same = a->n_mech == b->n_mech && a->n_chan == b->n_chan && a->n_state == b->n_state &&
                a->n_policies == b->n_policies && a->dt_s == b->dt_s;
    for (int j = 0; same && j < a->n_mech; j++) {
        const pf_mechanism *x = &a->mechanisms[j], *y = &b->mechanisms[j];
        same = strcmp(x->name, y->name) == 0 && x->lo == y->lo && x->hi == y->hi;
    }
    for (int c = 0; same && c < a->n_chan; c++) {
        const pf_channel *x = &a->channels[c], *y = &b->channels[c];
        same = strcmp(x->name, y->name) == 0 && x->scale == y->scale && a->kinds[c] == b->kinds[c];
    }
    for (int p = 0; same && p < a->n_policies; p++) {
        same = strcmp(a->policies[p].name, b->policies[p].name) == 0 &&
               a->policies[p].rows == b->policies[p].rows && a->policy_task[p] == b->policy_task[p];
    }
    static const char *const suggestions[] = {"probe",  "task",    "reveal", "importance",
                                              "calm",   "metrics", "draws",  "sensor_noise",
                                              "charge", "tasks"};
    for (int i = 0; same && i < (int)(sizeof suggestions / sizeof suggestions[0]); i++) {
        const json_t *x = json_object_get(a->hello, suggestions[i]);
        const json_t *y = json_object_get(b->hello, suggestions[i]);
        same = (x == NULL && y == NULL) || json_equal(x, y);
    }
    return same;
}
