// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "hello.h"

#include "plant/plant_impl.h"
#include "host/text.h"

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
    pf__vprint(what, PF_WHAT_SIZE, format, arguments);
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
    free(about->faults);
    free(about->words);
    *about = (pf_description){0};
}

// The name of a list entry: the entry itself or its "name". NULL: neither.
static const char *item_name(const json_t *item)
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
        return pf__bridge_refuse(what, "hello: \"%s\" of %s is not a number", key, item_name(item));
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
        mechanism->name = item_name(item);
        if (mechanism->name == NULL) {
            return pf__bridge_refuse(what, "hello: mechanism %zu has no name", j);
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
    if (word != NULL && pf__channel_kind_find(word, kind)) {
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
        channel->name = item_name(item);
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
    policy->name = item_name(task);
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
        if (item_name(task) == NULL) {
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

// --- what a hello suggests besides the machine itself

// Longest time limit that a plant may ask for, in seconds.
#define TIMEOUT_MAX_S 3600.0
#define METRICS_MAX 32
#define DRAWS_MAX 4096
#define FAULTS_MAX 64
#define FAULT_NAME_MAX 40
// What a declared fault may be where the hello does not say.
#define FAULT_LEAST 0.0
#define FAULT_MOST 1e6

// Takes n numbers of a list into *room and moves on; NULL where the list is something else.
static const double *take_numbers(const json_t *list, int n, double **room)
{
    double *values = *room;
    if (json_array_size(list) != (size_t)n) {
        return NULL;
    }
    for (int i = 0; i < n; i++) {
        const json_t *number = json_array_get(list, (size_t)i);
        if (!json_is_number(number)) {
            return NULL;
        }
        values[i] = json_number_value(number);
    }
    *room += n;
    return values;
}

// {steps, rows, doublet, amplitude}: rows default to steps, doublet to false.
static pf_status parse_pulse(const pf_description *about, const char *key, pf_pulse *pulse,
                             double **room, char *what)
{
    const json_t *given = json_object_get(about->hello, key);
    if (given == NULL || json_is_null(given)) {
        return PF_OK;
    }
    const json_t *rows = json_object_get(given, "rows");
    json_int_t n_steps = json_integer_value(json_object_get(given, "steps"));
    json_int_t n_rows = rows != NULL ? json_integer_value(rows) : n_steps;
    if (n_steps < 1 || n_rows < n_steps || n_rows > PF_TRACE_MAX / about->n_chan) {
        return pf__bridge_refuse(what, "hello: \"%s\" needs whole numbers 1 <= steps <= rows", key);
    }
    const double *amplitude =
        take_numbers(json_object_get(given, "amplitude"), about->n_mech, room);
    if (amplitude == NULL) {
        return pf__bridge_refuse(what, "hello: \"amplitude\" of \"%s\" is not a list of %d numbers",
                                 key, about->n_mech);
    }
    *pulse = (pf_pulse){.steps = (int)n_steps,
                        .rows = (int)n_rows,
                        .doublet = json_is_true(json_object_get(given, "doublet")),
                        .amplitude = amplitude};
    return PF_OK;
}

// A weight per candidate, none negative.
static pf_status parse_weights(const pf_description *about, const char *key, const double **weights,
                               double **room, char *what)
{
    const json_t *given = json_object_get(about->hello, key);
    if (given == NULL || json_is_null(given)) {
        return PF_OK;
    }
    int n = about->n_mech - 1;
    *weights = take_numbers(given, n, room);
    for (int i = 0; *weights != NULL && i < n; i++) {
        if ((*weights)[i] < 0) {
            *weights = NULL;
        }
    }
    return *weights != NULL ? PF_OK
                            : pf__bridge_refuse(what,
                                                "hello: \"%s\" is not a list of %d numbers >= 0, "
                                                "one per candidate",
                                                key, n);
}

// Names of what a policy is measured by, "return" first, and how a forecast is made.
static pf_status parse_metrics(pf_description *about, char *what)
{
    const json_t *list = json_object_get(about->hello, "metrics");
    size_t n = json_array_size(list);
    about->sensor_noise = json_number_value(json_object_get(about->hello, "sensor_noise"));
    if (about->sensor_noise < 0) {
        return pf__bridge_refuse(what, "hello: \"sensor_noise\" is negative");
    }
    if (n == 0) {
        return PF_OK;
    }
    about->metrics = calloc(n, sizeof *about->metrics);
    if (about->metrics == NULL) {
        return pf__bridge_no_memory(what);
    }
    for (size_t i = 0; i < n; i++) {
        about->metrics[i] = json_string_value(json_array_get(list, i));
        if (about->metrics[i] == NULL || (i == 0 && strcmp(about->metrics[0], "return") != 0)) {
            return pf__bridge_refuse(what, "hello: \"metrics\" must list names, return first");
        }
    }
    json_int_t draws = json_integer_value(json_object_get(about->hello, "draws"));
    if (n > METRICS_MAX || draws < 1 || draws > DRAWS_MAX) {
        return pf__bridge_refuse(what, "hello: \"metrics\" are at most %d, \"draws\" 1 to %d",
                                 METRICS_MAX, DRAWS_MAX);
    }
    about->n_metrics = (int)n;
    about->draws = (int)draws;
    return PF_OK;
}

// A name that a command line can hold: small letters, digits and _.
static bool is_fault_name(const char *name)
{
    return name != NULL && strlen(name) <= FAULT_NAME_MAX &&
           name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")] == '\0';
}

static pf_status parse_fault(pf_description *about, size_t i, const json_t *item, char *what)
{
    pf_plant_fault *fault = &about->faults[i];
    const json_t *help = json_object_get(item, "help");
    fault->name = item_name(item);
    fault->line = json_is_string(help) ? json_string_value(help) : "";
    if (!is_fault_name(fault->name)) {
        return pf__bridge_refuse(what,
                                 "hello: fault %zu has no name of small letters, digits and _, at "
                                 "most %d",
                                 i, FAULT_NAME_MAX);
    }
    if (!pf__fault_name_free(fault->name)) {
        return pf__bridge_refuse(what,
                                 "hello: fault %s is a kind that preflight has itself; give it "
                                 "another name",
                                 fault->name);
    }
    for (size_t k = 0; k < i; k++) {
        if (strcmp(about->faults[k].name, fault->name) == 0) {
            return pf__bridge_refuse(what, "hello: fault %s is there twice", fault->name);
        }
    }
    pf_status status = read_number(item, "least", FAULT_LEAST, &fault->least, what);
    status = status == PF_OK ? read_number(item, "most", FAULT_MOST, &fault->most, what) : status;
    return status != PF_OK || fault->least <= fault->most
               ? status
               : pf__bridge_refuse(what, "hello: least > most of fault %s", fault->name);
}

// What can be wrong with the plant that only it can simulate.
static pf_status parse_faults(pf_description *about, char *what)
{
    const json_t *list = json_object_get(about->hello, "faults");
    size_t n = json_array_size(list);
    if (list == NULL || json_is_null(list) || (json_is_array(list) && n == 0)) {
        return PF_OK;
    }
    if (!json_is_array(list) || n > FAULTS_MAX) {
        return pf__bridge_refuse(what, "hello: \"faults\" is not a list of at most %d", FAULTS_MAX);
    }
    about->faults = calloc(n, sizeof *about->faults);
    if (about->faults == NULL) {
        return pf__bridge_no_memory(what);
    }
    about->n_faults = (int)n;
    pf_status status = PF_OK;
    for (size_t i = 0; i < n && status == PF_OK; i++) {
        status = parse_fault(about, i, json_array_get(list, i), what);
    }
    return status;
}

// What the machine says of itself and its mechanisms, for people.
static pf_status parse_words(pf_description *about, char *what)
{
    const json_t *list = json_object_get(about->hello, "mechanisms");
    int n = about->n_mech;
    about->words = calloc((size_t)n + 1, sizeof *about->words);
    if (about->words == NULL) {
        return pf__bridge_no_memory(what);
    }
    for (int j = 0; j <= n; j++) {
        const json_t *item = j < n ? json_array_get(list, (size_t)j) : about->hello;
        about->words[j] = json_string_value(json_object_get(item, "about"));
    }
    return PF_OK;
}

// Reads what a hello suggests besides the machine itself: pulses, weights, calm, time limit.
static pf_status parse_suggestions(pf_description *about, char *what)
{
    about->numbers = calloc(5 * (size_t)about->n_mech, sizeof *about->numbers);
    if (about->numbers == NULL) {
        return pf__bridge_no_memory(what);
    }
    double *room = about->numbers;
    pf_status status = parse_pulse(about, "probe", &about->probe, &room, what);
    status = status == PF_OK ? parse_pulse(about, "task", &about->task, &room, what) : status;
    status = status == PF_OK ? parse_weights(about, "reveal", &about->reveal, &room, what) : status;
    status = status == PF_OK ? parse_weights(about, "importance", &about->importance, &room, what)
                             : status;
    status = status == PF_OK ? parse_weights(about, "charge", &about->charge, &room, what) : status;
    status = status == PF_OK ? parse_metrics(about, what) : status;
    status = status == PF_OK ? parse_faults(about, what) : status;
    status = status == PF_OK ? parse_words(about, what) : status;
    about->raw = json_is_true(json_object_get(about->hello, "raw"));
    about->deterministic = json_is_true(json_object_get(about->hello, "calm"));
    const json_t *timeout = json_object_get(about->hello, "timeout");
    about->timeout_s = json_number_value(timeout);
    if (status == PF_OK && timeout != NULL &&
        !(about->timeout_s > 0 && about->timeout_s <= TIMEOUT_MAX_S)) {
        status =
            pf__bridge_refuse(what, "hello: \"timeout\" must be seconds in (0, %g]", TIMEOUT_MAX_S);
    }
    return status;
}

// --- all of it

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
    const char *name = item_name(hello);
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
    return status == PF_OK ? parse_suggestions(about, what) : status;
}

pf_plant_info pf__description_info(const pf_description *about, const char *name)
{
    const char *title = json_string_value(json_object_get(about->hello, "title"));
    const char *own = item_name(about->hello);
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
                           .deterministic = about->deterministic,
                           .n_metrics = about->n_metrics,
                           .metrics = about->metrics,
                           .draws = about->draws,
                           .sensor_noise = about->sensor_noise,
                           .charge = about->charge,
                           .n_faults = about->n_faults,
                           .faults = about->faults};
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
                                              "charge", "tasks",   "faults", "raw"};
    for (int i = 0; same && i < (int)(sizeof suggestions / sizeof suggestions[0]); i++) {
        const json_t *x = json_object_get(a->hello, suggestions[i]);
        const json_t *y = json_object_get(b->hello, suggestions[i]);
        same = (x == NULL && y == NULL) || json_equal(x, y);
    }
    return same;
}
