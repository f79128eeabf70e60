// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "host/parallel.h"
#include "host/json.h"
#include "hello.h"
#include "plant/plant_impl.h"
#include "process.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROTOCOL 1
// A simulator that imports half of Python needs seconds to say hello.
#define HELLO_TIMEOUT_S 20.0
#define ROLL_TIMEOUT_S 60.0

typedef struct bridge {
    char *name;                // "exec:COMMAND", "gym:ID"
    char **arguments;          // what is run
    char *folder;              // of the files that it names. Nullable.
    const char *hint;          // what to do when it cannot be run. Nullable.
    char label[PF_QUOTE_SIZE]; // name, cut, for messages
    pf_bridge_limits limits;
    const volatile int *stop; // Nullable
    pf_process process;
    json_int_t last_id;  // of the last request
    json_int_t first_id; // of the first request to the running child
    pf_description about;
} bridge;

static pf_status explain(bridge *self, pf_process_result result, double limit_s, char *what)
{
    pf__process_explain(&self->process, result, limit_s, what, PF_WHAT_SIZE);
    return result == PF_PROCESS_MEMORY    ? PF_ERR_MEMORY
           : result == PF_PROCESS_STOPPED ? PF_ERR_INTERRUPTED
                                          : PF_ERR_PLANT;
}

// The numbers of a trajectory as bytes: gains, then the commands. NULL: no memory or not finite.
static double *raw_request(const bridge *self, const pf_roll *roll, size_t *n)
{
    size_t n_mech = (size_t)self->about.n_mech;
    *n = n_mech * ((size_t)roll->rows + 1);
    double *values = malloc(*n * sizeof *values);
    bool finite = values != NULL;
    for (size_t i = 0; finite && i < *n; i++) {
        double gain = roll->gains != NULL && i < n_mech ? roll->gains[i] : 1;
        values[i] = i < n_mech ? gain : roll->command[i - n_mech];
        finite = isfinite(values[i]);
    }
    if (!finite) {
        free(values);
        return NULL;
    }
    return values;
}

// A line, and behind it n numbers as bytes, in one piece.
static pf_status send_json(bridge *self, const json_t *request, const double *raw, size_t n,
                           double deadline, double limit_s, char *what)
{
    char *text = pf__json_dump(request, JSON_COMPACT);
    size_t size = text != NULL ? strlen(text) : 0, bytes = n * sizeof *raw;
    char *message = text != NULL ? realloc(text, size + 1 + bytes) : NULL;
    if (message == NULL) {
        free(text);
        return pf__bridge_no_memory(what);
    }
    message[size] = '\n';
    if (n > 0) {
        memcpy(message + size + 1, raw, bytes);
    }
    pf_process_result result =
        pf__process_send(&self->process, message, size + 1 + bytes, deadline);
    free(message);
    return result == PF_PROCESS_OK ? PF_OK : explain(self, result, limit_s, what);
}

// The next JSON object that the child says.
static pf_status read_json(bridge *self, json_t **reply, double deadline, double limit_s,
                           char *what)
{
    const char *line = NULL;
    size_t size = 0;
    pf_process_result result = pf__process_line(&self->process, &line, &size, deadline);
    if (result != PF_PROCESS_OK) {
        return explain(self, result, limit_s, what);
    }
    json_error_t problem;
    *reply = pf__json_load(line, size, JSON_REJECT_DUPLICATES, &problem);
    if (json_is_object(*reply)) {
        return PF_OK;
    }
    char start[PF_QUOTE_SIZE], reason[PF_QUOTE_SIZE];
    bool parsed = *reply != NULL;
    json_decref(*reply);
    *reply = NULL;
    pf__bridge_quote(start, line, size);
    pf__bridge_quote(reason, problem.text, parsed ? 0 : strlen(problem.text));
    return pf__bridge_refuse(what, "the answer is not a JSON object: %s%s%s", start,
                             parsed ? "" : ": ", reason);
}

static pf_status say_hello(bridge *self, json_t **reply, char *what)
{
    double limit_s = self->limits.hello_s;
    double deadline = pf__seconds() + limit_s;
    pf_process_result result =
        pf__process_start(&self->process, (const char *const *)self->arguments, self->stop);
    if (result != PF_PROCESS_OK) {
        return explain(self, result, limit_s, what);
    }
    json_t *request = json_pack("{s:s, s:i}", "op", "hello", "protocol", PROTOCOL);
    if (request == NULL) {
        return pf__bridge_no_memory(what);
    }
    pf_status status = send_json(self, request, NULL, 0, deadline, limit_s, what);
    json_decref(request);
    return status == PF_OK ? read_json(self, reply, deadline, limit_s, what) : status;
}

// Starts the child and fills *about. On failure nothing runs and *about is empty.
static pf_status start_child(bridge *self, pf_description *about, char *what)
{
    *about = (pf_description){0};
    json_t *hello = NULL;
    pf_status status = say_hello(self, &hello, what);
    if (status == PF_OK) {
        status = pf__description_parse(hello, about, what);
    }
    if (status != PF_OK) {
        pf__description_free(about);
        pf__process_stop(&self->process);
    }
    self->first_id = self->last_id + 1;
    return status;
}

// Starts a child again that was ended after a failure. It must still be the same plant.
static pf_status ensure_child(bridge *self, char *what)
{
    if (self->process.pid != 0) {
        return PF_OK;
    }
    pf_description now;
    pf_status status = start_child(self, &now, what);
    if (status == PF_OK && !pf__description_same(&self->about, &now)) {
        pf__process_stop(&self->process);
        status = pf__bridge_refuse(what, "started again, it describes another plant than before");
    }
    pf__description_free(&now);
    return status;
}

// A list of numbers, or of ones. NULL: no memory or not finite.
static json_t *number_list(const double *values, int n)
{
    json_t *list = json_array();
    for (int i = 0; list != NULL && i < n; i++) {
        if (json_array_append_new(list, json_real(values != NULL ? values[i] : 1)) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *number_rows(const double *values, int rows, int columns)
{
    json_t *list = json_array();
    for (int t = 0; list != NULL && t < rows; t++) {
        if (json_array_append_new(list, number_list(values + (size_t)t * columns, columns)) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

// Adds the faults that the plant declares, by name. Nonzero: no memory.
static int add_faults(json_t *request, const pf_description *about, const pf_roll *roll)
{
    pf_plant_info info = {.n_faults = about->n_faults, .faults = about->faults};
    int bad = 0;
    for (int i = 0; i < roll->n_faults; i++) {
        const char *name = pf__fault_declared_name(&roll->faults[i], &info);
        if (name != NULL && json_object_get(request, "faults") == NULL) {
            bad |= json_object_set_new(request, "faults", json_object());
        }
        if (name != NULL) {
            bad |= json_object_set_new(json_object_get(request, "faults"), name,
                                       json_real(roll->faults[i].value));
        }
    }
    return bad;
}

// Whether the numbers of this trajectory go as bytes.
static bool is_raw(const bridge *self, const pf_roll *roll)
{
    return self->about.raw && roll->policy < 0;
}

// NULL: no memory or a number that is not finite.
static json_t *make_request(const bridge *self, const pf_roll *roll)
{
    const pf_description *about = &self->about;
    json_t *request = json_pack("{s:s, s:I}", "op", "roll", "id", self->last_id);
    int bad = request == NULL;
    // 53 bits, so that every JSON reader gets the same integer
    json_t *from = roll->start != NULL ? number_list(roll->start, about->n_state)
                                       : json_integer((json_int_t)(roll->key >> 11));
    bad |= json_object_set_new(request, roll->start != NULL ? "state" : "seed", from);
    bool noise = roll->disturbance || roll->sensor_noise > 0;
    if (roll->start != NULL && noise) {
        // the start is given, what disturbs it is not
        bad |= json_object_set_new(request, "seed", json_integer((json_int_t)(roll->key >> 11)));
    }
    if (is_raw(self, roll)) {
        bad |= json_object_set_new(request, "rows", json_integer(roll->rows));
    } else {
        bad |= json_object_set_new(request, "gains", number_list(roll->gains, about->n_mech));
    }
    if (roll->policy >= 0) {
        bad |= json_object_set_new(request, "task", json_integer(about->policy_task[roll->policy]));
        bad |= json_object_set_new(request, "correction",
                                   number_list(roll->correction, about->n_mech));
    } else if (!is_raw(self, roll)) {
        bad |= json_object_set_new(request, "commands",
                                   number_rows(roll->command, roll->rows, about->n_mech));
    }
    bad |= json_object_set_new(request, "noise", json_boolean(noise));
    bad |= add_faults(request, about, roll);
    if (bad != 0) {
        json_decref(request);
        return NULL;
    }
    return request;
}

// Checks a list of n numbers and copies them; values may be NULL. False: some are wrong.
static bool read_list(const json_t *list, int n, double *values)
{
    if (!json_is_array(list) || json_array_size(list) != (size_t)n) {
        return false;
    }
    for (int i = 0; i < n; i++) {
        // finite: jansson refuses NaN, infinities and overflow
        const json_t *number = json_array_get(list, (size_t)i);
        if (!json_is_number(number)) {
            return false;
        }
        if (values != NULL) {
            values[i] = json_number_value(number);
        }
    }
    return true;
}

// Checks a whole answer before anything is copied.
static pf_status take_answer(const pf_description *about, const json_t *reply, int rows,
                             const pf_trace *trace, char *what)
{
    const json_t *start = json_object_get(reply, "start");
    const json_t *output = json_object_get(reply, "output");
    bool has_start = about->n_state > 0 || start != NULL;
    if (has_start && !read_list(start, about->n_state, NULL)) {
        return pf__bridge_refuse(what, "\"start\" is not a list of %d numbers", about->n_state);
    }
    if (!json_is_array(output) || json_array_size(output) != (size_t)rows) {
        return pf__bridge_refuse(what, "\"output\" has %zu rows instead of %d",
                                 json_array_size(output), rows);
    }
    for (int t = 0; t < rows; t++) {
        if (!read_list(json_array_get(output, (size_t)t), about->n_chan, NULL)) {
            return pf__bridge_refuse(what, "row %d of \"output\" is not a list of %d numbers", t,
                                     about->n_chan);
        }
    }
    const json_t *initial = json_object_get(reply, "initial");
    if (initial != NULL && !read_list(initial, about->n_chan, NULL)) {
        return pf__bridge_refuse(what, "\"initial\" is not a list of %d numbers", about->n_chan);
    }
    if (has_start && trace->start != NULL) {
        read_list(start, about->n_state, trace->start);
    }
    for (int t = 0; trace->output != NULL && t < rows; t++) {
        read_list(json_array_get(output, (size_t)t), about->n_chan,
                  trace->output + (size_t)t * about->n_chan);
    }
    for (int c = 0; trace->initial != NULL && c < about->n_chan; c++) {
        trace->initial[c] = NAN;
    }
    if (trace->initial != NULL && initial != NULL) {
        read_list(initial, about->n_chan, trace->initial);
    }
    return PF_OK;
}

// The bytes behind an answer: the channels before the first command, then the rows. *whole: all of
// them came, so that the child can go on.
static pf_status take_raw(bridge *self, const json_t *reply, int rows, const pf_trace *trace,
                          bool *whole, char *what)
{
    size_t n_chan = (size_t)self->about.n_chan, n = n_chan * ((size_t)rows + 1);
    const json_t *given = json_object_get(reply, "rows"), *start = json_object_get(reply, "start");
    if (!read_list(start, self->about.n_state, NULL)) {
        return pf__bridge_refuse(what, "\"start\" is not a list of %d numbers",
                                 self->about.n_state);
    }
    if (!json_is_integer(given) || json_integer_value(given) != rows) {
        return pf__bridge_refuse(what, "the answer's \"rows\" are not %d", rows);
    }
    double *values = malloc(n * sizeof *values);
    if (values == NULL) {
        return pf__bridge_no_memory(what);
    }
    double limit_s = self->limits.roll_s;
    pf_process_result result =
        pf__process_bytes(&self->process, values, n * sizeof *values, pf__seconds() + limit_s);
    *whole = result == PF_PROCESS_OK;
    pf_status status = *whole ? PF_OK : explain(self, result, limit_s, what);
    for (size_t i = 0; i < n && status == PF_OK; i++) {
        if (!isfinite(values[i])) {
            status = pf__bridge_refuse(
                what, "%s is not finite %s row %d", self->about.channels[i % n_chan].name,
                i < n_chan ? "before" : "after", i < n_chan ? 0 : (int)(i / n_chan) - 1);
        }
    }
    if (status == PF_OK && trace->start != NULL) {
        read_list(start, self->about.n_state, trace->start);
    }
    if (status == PF_OK && trace->initial != NULL) {
        memcpy(trace->initial, values, n_chan * sizeof *values);
    }
    if (status == PF_OK && trace->output != NULL) {
        memcpy(trace->output, values + n_chan, (n - n_chan) * sizeof *values);
    }
    free(values);
    return status;
}

// Returns are shares of the best; rounding may go a little beyond.
static bool take_return(double *value)
{
    bool good = *value >= 0 && *value <= 1 + 1e-9;
    *value = good && *value > 1 ? 1 : *value;
    return good;
}

// Every metric that the plant announced, in its order.
static pf_status take_metrics(const pf_description *about, const json_t *reply, double *metrics,
                              char *what)
{
    const json_t *given = json_object_get(reply, "metrics");
    for (int i = 0; i < about->n_metrics; i++) {
        const json_t *number = json_object_get(given, about->metrics[i]);
        if (!json_is_number(number)) {
            return pf__bridge_refuse(what, "\"metrics\" has no number \"%s\"", about->metrics[i]);
        }
        metrics[i] = json_number_value(number);
    }
    return about->n_metrics == 0 || take_return(&metrics[0])
               ? PF_OK
               : pf__bridge_refuse(what, "\"return\" is %g, must be in 0..1", metrics[0]);
}

static json_t *forecast_request(const bridge *self, const pf_forecast *f)
{
    const pf_description *about = &self->about;
    json_t *request =
        json_pack("{s:s, s:I, s:I, s:i}", "op", "forecast", "id", self->last_id, "seed",
                  (json_int_t)(f->key >> 11), "task", about->policy_task[f->policy]);
    int bad = request == NULL;
    bad |= json_object_set_new(request, "state", number_list(f->start, about->n_state));
    bad |= json_object_set_new(request, "correction", number_list(f->correction, about->n_mech));
    bad |= json_object_set_new(request, "gains", number_rows(f->gains, f->n, about->n_mech));
    if (bad != 0) {
        json_decref(request);
        return NULL;
    }
    return request;
}

static pf_status take_forecast(const pf_description *about, const json_t *reply, int n,
                               double *returns, double *beyond, char *what)
{
    const json_t *rows = json_object_get(reply, "returns");
    bool good = json_array_size(rows) == (size_t)about->draws &&
                read_list(json_object_get(reply, "beyond"), n, beyond);
    for (int d = 0; good && d < about->draws; d++) {
        good = read_list(json_array_get(rows, (size_t)d), n, returns + (size_t)d * (size_t)n);
    }
    if (!good) {
        return pf__bridge_refuse(what, "a forecast is not \"returns\" %d x %d and \"beyond\" %d",
                                 about->draws, n, n);
    }
    for (int i = 0; i < about->draws * n; i++) {
        if (!take_return(&returns[i])) {
            return pf__bridge_refuse(what, "a forecast has a return of %g, must be in 0..1",
                                     returns[i]);
        }
    }
    return PF_OK;
}

// Whether the child that answers so can do nothing more: the next request needs another one.
static bool wants_restart(const json_t *reply)
{
    return json_is_true(json_object_get(reply, "restart"));
}

// Sends one request and waits for its answer, which is the caller's. *keep: the child is in order,
// whatever the status.
static pf_status converse(bridge *self, const json_t *request, const double *raw, size_t n,
                          json_t **answer, bool *keep, char *what)
{
    double limit_s = self->limits.roll_s;
    double deadline = pf__seconds() + limit_s;
    pf_status status = send_json(self, request, raw, n, deadline, limit_s, what);
    json_t *reply = NULL;
    while (status == PF_OK) {
        status = read_json(self, &reply, deadline, limit_s, what);
        if (status != PF_OK) {
            return status;
        }
        // an answer to an earlier request is nobody's any more
        const json_t *id = json_object_get(reply, "id");
        json_int_t number = json_is_integer(id) ? json_integer_value(id) : -1;
        if (number == self->last_id) {
            break;
        }
        json_decref(reply);
        if (number < self->first_id || number > self->last_id) {
            return pf__bridge_refuse(what, "the answer's \"id\" is not that of a request");
        }
    }
    if (status != PF_OK) {
        return status;
    }
    const json_t *problem = json_object_get(reply, "error");
    if (json_is_string(problem)) {
        status = pf__bridge_refuse(what, "the plant reports: %s", json_string_value(problem));
        *keep = !wants_restart(reply);
        json_decref(reply);
    } else {
        *answer = reply;
    }
    return status;
}

// What the protocol has no words for.
static pf_status check_roll(const bridge *self, const pf_roll *roll, const pf_trace *trace,
                            pf_error *error)
{
    const char *cannot = NULL;
    if (roll->mean_reset) {
        cannot = "a process plant has no mean reset";
    } else if (trace->state != NULL) {
        cannot = "a process plant does not tell its states";
    } else if (roll->start != NULL && self->about.n_state == 0) {
        cannot = "this plant cannot start from a saved state (its state_size is 0)";
    }
    if (cannot != NULL) {
        return pf_fail(error, PF_ERR_UNSUPPORTED, "%s: %s", self->label, cannot);
    }
    if (roll->policy >= self->about.n_policies) {
        return pf_fail(error, PF_ERR_ARGUMENT, "%s: there is no policy %d", self->label,
                       roll->policy);
    }
    if (roll->policy >= 0 && roll->rows != self->about.policies[roll->policy].rows) {
        return pf_fail(error, PF_ERR_SHAPE, "%s: policy %s has %d rows, not %d", self->label,
                       self->about.policies[roll->policy].name,
                       self->about.policies[roll->policy].rows, roll->rows);
    }
    return PF_OK;
}

// The answer to a roll or a forecast, whichever is given, into where it goes.
typedef struct exchange {
    const pf_roll *roll;
    const pf_trace *trace;
    const pf_forecast *forecast;
    double *returns, *beyond;
} exchange;

// *keep: the child is in order, whatever the status.
static pf_status take(bridge *self, const exchange *x, const json_t *reply, bool *keep, char *what)
{
    const pf_description *about = &self->about;
    if (x->forecast != NULL) {
        return take_forecast(about, reply, x->forecast->n, x->returns, x->beyond, what);
    }
    if (is_raw(self, x->roll)) {
        return take_raw(self, reply, x->roll->rows, x->trace, keep, what);
    }
    pf_status status = take_answer(about, reply, x->roll->rows, x->trace, what);
    if (status == PF_OK && x->trace->metrics != NULL && x->roll->policy >= 0) {
        status = take_metrics(about, reply, x->trace->metrics, what);
    }
    return status;
}

static pf_status run_exchange(bridge *self, const exchange *x, pf_error *error)
{
    char what[PF_WHAT_SIZE] = "";
    pf_status status = ensure_child(self, what);
    if (status != PF_OK) {
        return pf_fail(error, status, "%s: %s", self->label, what);
    }
    self->last_id++;
    json_t *request =
        x->forecast != NULL ? forecast_request(self, x->forecast) : make_request(self, x->roll);
    size_t n = 0;
    bool is_bytes = x->roll != NULL && is_raw(self, x->roll);
    double *raw = is_bytes ? raw_request(self, x->roll, &n) : NULL;
    if (request == NULL || (is_bytes && raw == NULL)) {
        json_decref(request);
        free(raw);
        return pf_fail(error, PF_ERR_NONFINITE, "%s: a command, gain or state is not finite",
                       self->label);
    }
    bool keep = false;
    json_t *reply = NULL;
    status = converse(self, request, raw, n, &reply, &keep, what);
    json_decref(request);
    free(raw);
    if (status == PF_OK) {
        status = take(self, x, reply, &keep, what);
        keep = (keep || status == PF_OK) && !wants_restart(reply);
        json_decref(reply);
    }
    if (!keep) {
        pf__process_stop(&self->process);
    }
    return status == PF_OK ? PF_OK : pf_fail(error, status, "%s: %s", self->label, what);
}

static pf_status bridge_roll(pf_plant *plant, const pf_roll *roll, const pf_trace *trace,
                             pf_error *error)
{
    bridge *self = plant->self;
    pf_status status = check_roll(self, roll, trace, error);
    exchange x = {.roll = roll, .trace = trace};
    return status == PF_OK ? run_exchange(self, &x, error) : status;
}

static pf_status bridge_forecast(pf_plant *plant, const pf_forecast *forecast, double *returns,
                                 double *beyond, pf_error *error)
{
    exchange x = {.forecast = forecast, .returns = returns, .beyond = beyond};
    return run_exchange(plant->self, &x, error);
}

static void bridge_destroy(pf_plant *plant)
{
    bridge *self = plant->self;
    pf__process_stop(&self->process);
    pf__description_free(&self->about);
    free(self->name);
    free(self->arguments);
    free(self->folder);
    free(self);
    plant->self = NULL;
}

static const char *bridge_about(const pf_plant *plant, int mechanism)
{
    const pf_description *about = &((const bridge *)plant->self)->about;
    return about->words[mechanism < 0 ? about->n_mech : mechanism];
}

static void bridge_set_timeouts(pf_plant *plant, double hello_s, double roll_s)
{
    bridge *self = plant->self;
    self->limits.hello_s = hello_s >= 0 ? hello_s : self->limits.hello_s;
    self->limits.roll_s = roll_s >= 0 ? roll_s : self->limits.roll_s;
}

static pf_status bridge_clone(const pf_plant *plant, pf_plant **copy, pf_error *error);

static const pf_plant_ops bridge_ops = {.roll = bridge_roll,
                                        .clone = bridge_clone,
                                        .destroy = bridge_destroy,
                                        .forecast = bridge_forecast,
                                        .about = bridge_about,
                                        .set_timeouts = bridge_set_timeouts};

static char *copy_text(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    return copy != NULL ? memcpy(copy, text, size) : NULL;
}

// The list and its words in one block; NULL: no memory.
static char **copy_arguments(const char *const *arguments)
{
    size_t n = 0, size = 0;
    for (; arguments[n] != NULL; n++) {
        size += strlen(arguments[n]) + 1;
    }
    char **copy = malloc((n + 1) * sizeof *copy + size);
    char *at = (char *)(copy + (copy != NULL ? n + 1 : 0));
    for (size_t i = 0; copy != NULL && i < n; i++) {
        copy[i] = at;
        at = stpcpy(at, arguments[i]) + 1;
    }
    if (copy != NULL) {
        copy[n] = NULL;
    }
    return copy;
}

// Starts the child for the first time and reports why that failed.
static pf_status first_start(bridge *self, pf_error *error)
{
    char what[PF_WHAT_SIZE] = "";
    pf_status status = start_child(self, &self->about, what);
    if (status == PF_OK) {
        self->limits.roll_s =
            self->about.timeout_s > 0 ? self->about.timeout_s : self->limits.roll_s;
        return PF_OK;
    }
    // 126 and 127 are sh's words for a command that it could not run
    bool cannot = strstr(what, "status 127") != NULL || strstr(what, "status 126") != NULL ||
                  strstr(what, "cannot be started") != NULL;
    return pf_fail(error, status, "%s: %s%s%s", self->label, what,
                   cannot && self->hint != NULL ? "; " : "",
                   cannot && self->hint != NULL ? self->hint : "");
}

static pf_status create(pf_plant **plant, const pf_bridge_program *program, pf_bridge_limits limits,
                        pf_error *error)
{
    *plant = NULL;
    pf_plant *made = calloc(1, sizeof *made);
    bridge *self = calloc(1, sizeof *self);
    char *name = copy_text(program->name), **arguments = copy_arguments(program->arguments);
    char *folder = program->folder != NULL ? copy_text(program->folder) : NULL;
    bool lost = program->folder != NULL && folder == NULL;
    if (made == NULL || self == NULL || name == NULL || arguments == NULL || lost) {
        free(folder);
        free(made);
        free(self);
        free(name);
        free(arguments);
        return pf_fail(error, PF_ERR_MEMORY, "a process plant: not enough memory");
    }
    *self = (bridge){.name = name,
                     .arguments = arguments,
                     .folder = folder,
                     .hint = program->hint,
                     .stop = program->stop,
                     .limits = limits};
    const char *label = program->label != NULL ? program->label : name;
    pf__bridge_quote(self->label, label, strlen(label));
    pf__process_init(&self->process);
    *made = (pf_plant){.ops = &bridge_ops, .self = self};
    pf_status status = first_start(self, error);
    if (status != PF_OK) {
        bridge_destroy(made);
        free(made);
        return status;
    }
    made->info = pf__description_info(&self->about, self->name);
    made->info.folder = self->folder;
    *plant = made;
    return PF_OK;
}

static pf_status bridge_clone(const pf_plant *plant, pf_plant **copy, pf_error *error)
{
    const bridge *self = plant->self;
    pf_bridge_program program = {.name = self->name,
                                 .label = self->label,
                                 .hint = self->hint,
                                 .folder = self->folder,
                                 .stop = self->stop};
    for (int i = 0; self->arguments[i] != NULL; i++) {
        program.arguments[i] = self->arguments[i];
    }
    pf_status status = create(copy, &program, self->limits, error);
    if (status != PF_OK) {
        return status;
    }
    bridge *other = (*copy)->self;
    other->limits = self->limits;
    if (!pf__description_same(&self->about, &other->about)) {
        bridge_destroy(*copy);
        free(*copy);
        *copy = NULL;
        return pf_fail(error, PF_ERR_PLANT, "%s: a second process describes another plant",
                       self->label);
    }
    return PF_OK;
}

pf_status pf__bridge_open(pf_plant **plant, const pf_bridge_program *program, pf_error *error)
{
    pf_bridge_limits limits = {.hello_s = program->hello_s > 0 ? program->hello_s : HELLO_TIMEOUT_S,
                               .roll_s = ROLL_TIMEOUT_S};
    return create(plant, program, limits, error);
}

// --- the folder of a command

// The next word of a command that may be a relative path: not an option, not absolute. Its length;
// 0: there is none.
static size_t next_word(const char **at)
{
    static const char between[] = " \t\n'\"`;|&<>()=:,";
    for (;;) {
        *at += strspn(*at, between);
        size_t n = strcspn(*at, between);
        if (n == 0 || (**at != '/' && **at != '-' && n < PATH_MAX / 2)) {
            return n;
        }
        *at += n;
    }
}

static bool is_file(const char *folder, const char *word, size_t n)
{
    char path[PATH_MAX];
    int size = snprintf(path, sizeof path, "%s/%.*s", folder, (int)n, word);
    bool dots = strspn(word, "./") >= n;
    return size > 0 && (size_t)size < sizeof path && !dots && access(path, F_OK) == 0;
}

// Whether a command names a file in a folder, which is not in the other one (Nullable) too.
static bool names_file(const char *command, const char *folder, const char *other)
{
    size_t n;
    for (const char *at = command; (n = next_word(&at)) > 0; at += n) {
        if (is_file(folder, at, n) && (other == NULL || !is_file(other, at, n))) {
            return true;
        }
    }
    return false;
}

pf_status pf__bridge_create(pf_plant **plant, const char *command, const char *folder,
                            const volatile int *stop, pf_error *error)
{
    *plant = NULL;
    if (command == NULL || command[strspn(command, " \t\n")] == '\0') {
        return pf_fail(error, PF_ERR_ARGUMENT, "exec: needs a command, as in exec:./rig");
    }
    char here[PATH_MAX];
    const char *home = getcwd(here, sizeof here) != NULL ? here : NULL;
    bool away = folder != NULL && folder[0] != '\0' && names_file(command, folder, home);
    home = away ? folder : home;
    size_t size = sizeof "exec:" + strlen(command);
    char *name = malloc(size);
    if (name == NULL) {
        return pf_fail(error, PF_ERR_MEMORY, "exec: not enough memory");
    }
    snprintf(name, size, "exec:%s", command);
    // the command is a line of the user's for the shell; the folder is none
    pf_bridge_program program = {.name = name,
                                 .arguments = {"/bin/sh", "-c", command},
                                 .stop = stop,
                                 .folder =
                                     home != NULL && names_file(command, home, NULL) ? home : NULL};
    if (away) {
        program.arguments[2] = "cd -- \"$1\" || exit 126\neval \"$2\"";
        program.arguments[3] = "sh";
        program.arguments[4] = folder;
        program.arguments[5] = command;
    }
    pf_status status = pf__bridge_open(plant, &program, error);
    free(name);
    return status;
}
