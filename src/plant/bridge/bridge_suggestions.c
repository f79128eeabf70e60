// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "bridge_hello.h"
#include "plant/plant_impl.h"

#include <stdlib.h>
#include <string.h>

// Longest time limit that a plant may ask for, in seconds.
#define TIMEOUT_MAX_S 3600.0
#define METRICS_MAX 32
#define DRAWS_MAX 4096

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

pf_status pf__description_suggestions(pf_description *about, char *what)
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
    about->calm = json_is_true(json_object_get(about->hello, "calm"));
    const json_t *timeout = json_object_get(about->hello, "timeout");
    about->timeout_s = json_number_value(timeout);
    if (status == PF_OK && timeout != NULL &&
        !(about->timeout_s > 0 && about->timeout_s <= TIMEOUT_MAX_S)) {
        status =
            pf__bridge_refuse(what, "hello: \"timeout\" must be seconds in (0, %g]", TIMEOUT_MAX_S);
    }
    return status;
}
