// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "protocol.h"

#include "core/kit_layout.h"
#include "host/arena.h"
#include "host/json.h"
#include "preflight/run.h"
#include "settings/schema.h"
#include "journal.h"
#include "reply.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A refusal before it becomes a reply: code and message.
typedef struct refusal {
    const char *code; // NULL: accepted
    char message[320];
} refusal;

struct pf_protocol {
    _Alignas(16) unsigned char kit_memory[PF_KIT_BYTES];
    pf_kit *kit;
    pf_kit_info info; // of the kit
    pf_session *session;
    pf_predictor predictor; // from a start state; predict NULL: none
    char no_predictor[320];
    pf_witness witness;
    // one tell
    double *response, *state, *nearest;
    pf_given given;
    bool has_given; // its predictions are to be used
    bool has_state; // it says where the run began
    int version;    // of the protocol that the client speaks
    pf_arena arena; // of the session and a tell
};

bool pf__protocol_supported(void)
{
    return true;
}

pf_status pf__protocol_create(pf_protocol **dialogue, const void *image, size_t n_image,
                              const pf_protocol_config *config, pf_error *error)
{
    *dialogue = NULL;
    pf_protocol *d = calloc(1, sizeof *d);
    if (!d) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a session");
    }
    pf_status status =
        pf_kit_load(&d->kit, image, n_image, d->kit_memory, sizeof d->kit_memory, error);
    if (status != PF_OK) {
        pf__protocol_destroy(d);
        return status;
    }
    pf_kit_info k = d->info = pf_kit_get_info(d->kit);
    int most = k.most_rows > k.rehearsal_rows ? k.most_rows : k.rehearsal_rows;
    size_t window = (size_t)most * (size_t)k.n_chan;
    d->version = 1;
    size_t targets = (size_t)k.most_targets, bytes = pf_session_size(d->kit);
    void *memory = pf__arena_take(&d->arena, bytes, 1);
    d->response = pf__arena_take(&d->arena, window, sizeof(double));
    d->given.nominal = pf__arena_take(&d->arena, window, sizeof(double));
    d->given.fault = pf__arena_take(&d->arena, targets * window, sizeof(double));
    d->given.grid = pf__arena_take(&d->arena, targets * (size_t)k.n_grid * window, sizeof(double));
    d->state = pf__arena_take(&d->arena, (size_t)k.n_state, sizeof(double));
    d->nearest = pf__arena_take(&d->arena, window, sizeof(double));
    // the uncorrected command, then the free response or two edges per mechanism
    d->given.runs = pf__arena_take(&d->arena, (1 + 2 * (size_t)k.n_mech) * window, sizeof(double));
    pf_session_config session = {.method = config->method, .seed = config->seed};
    status = d->arena.failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory for a session")
                             : pf_session_init(&d->session, d->kit, &session, memory, bytes, error);
    if (status != PF_OK) {
        pf__protocol_destroy(d);
        return status;
    }
    d->given.session = d->session;
    d->predictor = config->predictor ? *config->predictor : (pf_predictor){NULL, NULL, NULL};
    snprintf(d->no_predictor, sizeof d->no_predictor, "%s",
             config->no_predictor ? config->no_predictor
                                  : "there is nothing to predict from a state with");
    *dialogue = d;
    return PF_OK;
}

void pf__protocol_destroy(pf_protocol *d)
{
    if (!d) {
        return;
    }
    pf__witness_free(&d->witness);
    pf__arena_free(&d->arena);
    free(d);
}

pf_session *pf__protocol_session(pf_protocol *d)
{
    return d->session;
}

// --- refusals

static bool refuse(refusal *r, const char *code, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

static bool refuse(refusal *r, const char *code, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    pf__vprint(r->message, sizeof r->message, format, list);
    va_end(list);
    r->code = code;
    return false;
}

static bool refuse_error(refusal *r, const pf_error *error)
{
    return refuse(r, pf_status_name(error->code), "%s", error->text);
}

static const char *json_problem(const json_error_t *error)
{
    switch (json_error_code(error)) {
    case json_error_duplicate_key:
        return "duplicate-key";
    case json_error_numeric_overflow:
        return "not-finite";
    default:
        return "not-json";
    }
}

// --- reading numbers

static bool read_number(json_t *value, const char *where, int i, double *out, refusal *r)
{
    if (!json_is_number(value)) {
        return refuse(r, "wrong-type", "%s[%d]: must be a number", where, i);
    }
    *out = json_number_value(value);
    return isfinite(*out) || refuse(r, "not-finite", "%s[%d]: is not finite", where, i);
}

// Numbers in lists of that depth, the size of the outermost first; `where` names them in messages.
static bool read_numbers(json_t *value, const char *where, int depth, const int *sizes, double *out,
                         refusal *r)
{
    static const char *const items[] = {"", "numbers", "rows", "predictions", "targets"};
    size_t each = 1;
    if (!json_is_array(value)) {
        return refuse(r, "wrong-type", "%s: must be a list of %d %s", where, sizes[0],
                      items[depth]);
    }
    if (json_array_size(value) != (size_t)sizes[0]) {
        return refuse(r, "wrong-shape", "%s: has %zu %s, expected %d", where,
                      json_array_size(value), items[depth], sizes[0]);
    }
    for (int d = 1; d < depth; d++) {
        each *= (size_t)sizes[d];
    }
    for (int i = 0; i < sizes[0]; i++) {
        json_t *item = json_array_get(value, (size_t)i);
        double *to = out + (size_t)i * each;
        char at[96];
        if (depth > 1) {
            snprintf(at, sizeof at, "%.80s[%d]", where, i);
        }
        if (depth > 1 ? !read_numbers(item, at, depth - 1, sizes + 1, to, r)
                      : !read_number(item, where, i, to, r)) {
            return false;
        }
    }
    return true;
}

// --- predictions that came with the request

// One per target and gain.
static bool read_grid(pf_protocol *d, json_t *grid, const pf_ask *ask, refusal *r)
{
    const int sizes[] = {pf_kit_probe_targets(d->kit, ask->probe, NULL), d->info.n_grid, ask->rows,
                         d->info.n_chan};
    return read_numbers(grid, "grid", 4, sizes, d->given.grid, r);
}

// Stage 2 with several faults: each target healthy and at each gain, the others at the gains that
// the ask told.
static bool read_each(pf_protocol *d, json_t *from, const pf_ask *ask, refusal *r)
{
    int n = pf_kit_probe_targets(d->kit, ask->probe, NULL);
    json_t *healthy = json_object_get(from, "healthy"), *grid = json_object_get(from, "grid");
    if (!healthy || !grid) {
        return refuse(r, "missing-prediction",
                      "%s: the predictions %s are missing, the other mechanisms at the gains of "
                      "the ask",
                      healthy ? "grid" : "healthy", healthy ? "per gain" : "at gain 1");
    }
    const int sizes[] = {n, ask->rows, d->info.n_chan};
    return read_numbers(healthy, "healthy", 3, sizes, d->given.fault, r) &&
           read_grid(d, grid, ask, r);
}

// Reads nominal, fault and grid as far as this stage needs them.
static bool read_predictions(pf_protocol *d, json_t *from, const pf_ask *ask, refusal *r)
{
    const int sizes[] = {pf_kit_probe_targets(d->kit, ask->probe, NULL), ask->rows, d->info.n_chan};
    bool matched = d->info.statistic == PF_STATISTIC_MATCHED;
    json_t *nominal = json_object_get(from, "nominal"), *fault = json_object_get(from, "fault");
    json_t *grid = json_object_get(from, "grid"), *nearest = json_object_get(from, "nearest");
    bool per_gain = pf_session_get_state(d->session).per_gain;
    d->given.nearest = NULL;
    if (per_gain && d->info.faults == PF_FAULTS_MANY) {
        return read_each(d, from, ask, r);
    }
    if (!nominal) {
        return refuse(r, "missing-prediction", "nominal: the prediction at gain 1 is missing");
    }
    if (!fault && !per_gain && matched) {
        return refuse(r, "missing-prediction", "fault: the predictions at g_cal are missing");
    }
    if (!grid && per_gain) {
        return refuse(r, "missing-prediction", "grid: the predictions per gain are missing");
    }
    d->given.nearest = nearest ? d->nearest : NULL;
    return read_numbers(nominal, "nominal", 2, sizes + 1, d->given.nominal, r) &&
           (!fault || read_numbers(fault, "fault", 3, sizes, d->given.fault, r)) &&
           (!nearest || read_numbers(nearest, "nearest", 2, sizes + 1, d->nearest, r)) &&
           (!grid || read_grid(d, grid, ask, r));
}

// Predictions of a rehearsal: the uncorrected command, and the free response or the edges of a
// group.
static bool read_runs(pf_protocol *d, json_t *from, const pf_ask *ask, refusal *r)
{
    json_t *nominal = json_object_get(from, "nominal"), *idle = json_object_get(from, "free");
    json_t *edges = json_object_get(from, "edges");
    int n = 0;
    size_t window = (size_t)ask->rows * (size_t)d->info.n_chan;
    bool group = ask->n_tasks > 1;
    if (!nominal || (group ? !edges : !idle)) {
        return refuse(r, "missing-prediction", "%s: is missing: the prediction of %s%s",
                      !nominal ? "nominal"
                      : group  ? "edges"
                               : "free",
                      !nominal ? "the uncorrected command"
                      : group  ? "the whole with each mechanism at the gains of the ask"
                               : "no command at all",
                      group ? "; or skip, then each task is asked for alone" : "");
    }
    for (int i = 0; group && i < ask->n_tasks; i++) {
        const int32_t *uses = NULL;
        int n_uses = pf_kit_task_mechanisms(d->kit, ask->tasks[i], &uses);
        for (int u = 0; u < n_uses; u++) {
            n += uses[u] > 0 ? 2 : 0;
        }
    }
    d->given.n_runs = 1 + (group ? n : 1);
    d->given.next_run = 0;
    const int sizes[] = {n, ask->rows, d->info.n_chan};
    return read_numbers(nominal, "nominal", 2, sizes + 1, d->given.runs, r) &&
           (group ? read_numbers(edges, "edges", 3, sizes, d->given.runs + window, r)
                  : read_numbers(idle, "free", 2, sizes + 1, d->given.runs + window, r));
}

// --- tell

// What a `state` is: that of a twin, or one or several readings of the channels.
static const char *start_of(const pf_kit_info *k)
{
    return !k->starts_from_channels  ? "the saved start state"
           : k->n_state == k->n_chan ? "the channels before the first command"
                                     : "the last readings of all channels before the first "
                                       "command, one after the other, the oldest first";
}

// Decides what predicts: the caller's numbers, twin or model from `state`, or the kit itself.
static bool choose_predictor(pf_protocol *d, json_t *request, json_t *predictions,
                             const pf_ask *ask, refusal *r)
{
    pf_kit_info k = d->info;
    json_t *state = json_object_get(request, "state");
    bool own = json_object_get(request, "nominal") || json_object_get(request, "fault") ||
               json_object_get(request, "grid") || json_object_get(request, "healthy") ||
               json_object_get(request, "free") || json_object_get(request, "edges") ||
               json_object_get(request, "nearest");
    d->has_given = d->has_state = false;
    if (k.recorded) {
        if (state || own) {
            return refuse(r, "ambiguous",
                          "%s: this kit predicts from its own recordings; leave it out",
                          state ? "state" : "nominal");
        }
        return true;
    }
    // several readings are judged beside the predictions that begin there
    if (state && own && d->kit->n_before == 0) {
        return refuse(r, "ambiguous", "state: give either the start state or predictions");
    }
    if (!state && !own) {
        return refuse(r, "missing-prediction", "state: give %s, or nominal and fault predictions",
                      start_of(&k));
    }
    if (json_is_array(state) && json_array_size(state) != (size_t)k.n_state) {
        return refuse(r, "wrong-shape", "state: has %zu numbers, expected %d: %s",
                      json_array_size(state), k.n_state, start_of(&k));
    }
    d->has_state = state != NULL;
    if (state && !read_numbers(state, "state", 1, &k.n_state, d->state, r)) {
        return false;
    }
    if (own || predictions) {
        d->has_given = true;
        json_t *from = own ? request : predictions;
        return ask->kind == PF_ASK_REHEARSAL ? read_runs(d, from, ask, r)
                                             : read_predictions(d, from, ask, r);
    }
    if (!d->predictor.predict || (ask->kind == PF_ASK_REHEARSAL && !d->predictor.run)) {
        return refuse(r, "missing-prediction", "state: %s; give predictions instead",
                      d->no_predictor);
    }
    return true;
}

// Whether a tell names what was asked for: its probe, or the tasks of its rehearsal.
static bool names_ask(json_t *request, const pf_ask *ask, refusal *r)
{
    json_t *probe = json_object_get(request, "probe");
    json_t *tasks = json_object_get(request, "rehearsal");
    bool rehearsal = ask->kind == PF_ASK_REHEARSAL;
    if (probe && tasks) {
        return refuse(r, "ambiguous", "rehearsal: give either a probe or a rehearsal");
    }
    if (rehearsal != (tasks != NULL)) {
        return refuse(r, "wrong-probe",
                      rehearsal ? "probe: a rehearsal was asked for; give its "
                                  "tasks as `rehearsal`"
                                : "rehearsal: a probe was asked for");
    }
    if (!rehearsal && json_integer_value(probe) != ask->probe) {
        return refuse(r, "wrong-probe", "probe: %lld was told, %d was asked for",
                      (long long)json_integer_value(probe), ask->probe);
    }
    bool same = !rehearsal || json_array_size(tasks) == (size_t)ask->n_tasks;
    for (int i = 0; rehearsal && same && i < ask->n_tasks; i++) {
        json_t *item = json_array_get(tasks, (size_t)i);
        same = json_is_integer(item) && json_integer_value(item) == ask->tasks[i];
    }
    return same || refuse(r, "wrong-probe", "rehearsal: other tasks were asked for, in that order");
}

static bool tell(pf_protocol *d, json_t *request, json_t *predictions, pf_text *reply, refusal *r)
{
    pf_ask ask;
    json_t *probe = json_object_get(request, "probe");
    json_t *tasks = json_object_get(request, "rehearsal");
    json_t *response = json_object_get(request, "response");
    if ((!probe && !tasks) || !response) {
        return refuse(r, "missing-key", "%s: is missing", probe || tasks ? "response" : "probe");
    }
    if (probe && !json_is_integer(probe)) {
        return refuse(r, "wrong-type", "probe: must be a whole number");
    }
    if (tasks && !json_is_array(tasks)) {
        return refuse(r, "wrong-type", "rehearsal: must be a list of tasks, as in the ask");
    }
    if (pf_session_get_state(d->session).stage == PF_STAGE_DONE) {
        return refuse(r, "wrong-stage", "tell: the session is done");
    }
    if (!pf_session_outstanding(d->session, &ask)) {
        return refuse(r, "wrong-probe", "probe: no probe is outstanding; ask first");
    }
    const int sizes[] = {ask.rows, d->info.n_chan};
    if (!names_ask(request, &ask, r) ||
        !read_numbers(response, "response", 2, sizes, d->response, r) ||
        !choose_predictor(d, request, predictions, &ask, r)) {
        return false;
    }
    pf_predictor from_caller = pf_given_predictor(&d->given);
    const pf_predictor *inner = d->has_given ? &from_caller : &d->predictor;
    pf__witness_start(&d->witness, d->kit, inner, pf_session_get_state(d->session).per_gain);
    pf_predictor watched = pf__witness_predictor(&d->witness);
    pf_tell told = {.probe = ask.probe,
                    .response = d->response,
                    .rows = ask.rows,
                    .channels = d->info.n_chan,
                    .start = d->has_state ? d->state : NULL,
                    .n_start = d->has_state ? d->info.n_state : 0,
                    .n_tasks = ask.n_tasks,
                    .tasks = ask.tasks};
    pf_error error;
    pf_status status = pf_session_tell(d->session, &told,
                                       d->info.recorded ? NULL
                                       : d->has_given   ? inner
                                                        : &watched,
                                       &error);
    if (status != PF_OK) {
        return refuse_error(r, &error);
    }
    pf__reply_tell(reply, d->session, ask.stage);
    return true;
}

// Which protocol the client speaks; 1 where it does not say.
static bool take_version(pf_protocol *d, json_t *request, refusal *r)
{
    json_t *version = json_object_get(request, "protocol");
    if (version && !json_is_integer(version)) {
        return refuse(r, "wrong-type", "protocol: must be a whole number");
    }
    json_int_t asked = version ? json_integer_value(version) : d->version;
    if (asked < 1 || asked > PF_PROTOCOL_VERSION) {
        return refuse(r, "wrong-version", "protocol: %lld is not spoken here, 1 to %d are",
                      (long long)asked, PF_PROTOCOL_VERSION);
    }
    d->version = (int)asked;
    return true;
}

// The next ask. A client of protocol 1 knows no rehearsals: its tasks stay not rehearsed.
static pf_ask next_ask(pf_protocol *d)
{
    pf_ask ask = pf_session_ask(d->session);
    while (ask.kind == PF_ASK_REHEARSAL && d->version < 2) {
        pf_session_skip(d->session, NULL);
        ask = pf_session_ask(d->session);
    }
    return ask;
}

// --- all requests

typedef enum operation { HELLO, ASK, TELL, SKIP, STAGE2, READINESS, RESET } operation;

// One row per request; keys besides "op".
static const struct {
    const char *op;
    const char *keys[12];
} operations[] = {
    [HELLO] = {"hello", {"protocol", NULL}},
    [ASK] = {"ask", {NULL}},
    [TELL] = {"tell",
              {"probe", "rehearsal", "response", "state", "nominal", "fault", "grid", "healthy",
               "free", "edges", "nearest", NULL}},
    [SKIP] = {"skip", {NULL}},
    [STAGE2] = {"stage2", {NULL}},
    [READINESS] = {"readiness", {NULL}},
    [RESET] = {"reset", {NULL}},
};

enum { N_OPERATIONS = sizeof operations / sizeof operations[0] };

static bool run_operation(pf_protocol *d, operation op, json_t *request, json_t *predictions,
                          pf_text *reply, refusal *r)
{
    pf_error error;
    pf_ask ask;
    switch (op) {
    case HELLO:
        pf__reply_hello(reply, d->kit);
        return take_version(d, request, r);
    case ASK:
        ask = next_ask(d);
        pf__reply_ask(reply, d->session, &ask);
        return true;
    case TELL:
        return tell(d, request, predictions, reply, r);
    case SKIP:
        return pf_session_skip(d->session, &error) == PF_OK || refuse_error(r, &error);
    case STAGE2:
        return pf_session_stage2(d->session, &error) == PF_OK || refuse_error(r, &error);
    case READINESS:
        pf_session_certify(d->session);
        pf__reply_readiness(reply, d->session);
        return true;
    case RESET:
        pf_session_reset(d->session);
        return true;
    }
    return false;
}

static int find_operation(const char *op)
{
    for (int i = 0; i < N_OPERATIONS; i++) {
        if (strcmp(operations[i].op, op) == 0) {
            return i;
        }
    }
    return -1;
}

static bool check_keys(json_t *request, operation op, refusal *r)
{
    const char *const *known = operations[op].keys;
    int n = 0;
    while (known[n]) {
        n++;
    }
    const char *key;
    json_t *value;
    json_object_foreach(request, key, value)
    {
        bool found = strcmp(key, "op") == 0;
        for (int i = 0; i < n; i++) {
            found = found || strcmp(key, known[i]) == 0;
        }
        if (!found) {
            const char *near = pf__nearest_word(key, known, n);
            return refuse(r, "unknown-key", "%.64s: %s has no such key%s%s%s", key,
                          operations[op].op, near ? "; did you mean '" : "", near ? near : "",
                          near ? "'?" : "");
        }
    }
    return true;
}

static bool run_request(pf_protocol *d, json_t *request, json_t *predictions, pf_text *reply,
                        refusal *r)
{
    if (!json_is_object(request)) {
        return refuse(r, "wrong-type", "a request is an object such as {\"op\":\"ask\"}");
    }
    json_t *op = json_object_get(request, "op");
    if (!op) {
        return refuse(r, "missing-key", "op: is missing");
    }
    if (!json_is_string(op)) {
        return refuse(r, "wrong-type", "op: must be a text");
    }
    int i = find_operation(json_string_value(op));
    if (i < 0) {
        const char *names[N_OPERATIONS];
        for (int k = 0; k < N_OPERATIONS; k++) {
            names[k] = operations[k].op;
        }
        const char *near = pf__nearest_word(json_string_value(op), names, N_OPERATIONS);
        return refuse(r, "unknown-op",
                      "op: '%.64s' is unknown; there are hello, ask, tell, skip, "
                      "stage2, readiness, reset%s%s%s",
                      json_string_value(op), near ? " (did you mean '" : "", near ? near : "",
                      near ? "'?)" : "");
    }
    if (!check_keys(request, (operation)i, r) ||
        !run_operation(d, (operation)i, request, predictions, reply, r)) {
        return false;
    }
    return true;
}

bool pf__protocol_request(pf_protocol *d, json_t *request, json_t *predictions, pf_text *reply,
                          pf_text *journal)
{
    refusal r = {NULL, ""};
    pf__text_clear(reply);
    pf__witness_clear(&d->witness);
    pf__text_add(reply, "{\"ok\":true");
    if (!run_request(d, request, predictions, reply, &r)) {
        pf__text_clear(reply);
        pf__reply_refusal(reply, r.code, r.message);
        return false;
    }
    pf__text_add(reply, "}");
    if (journal) {
        char *text = pf__json_dump(request, JSON_COMPACT | JSON_REAL_PRECISION(17));
        pf_text echo = {.failed = !text};
        pf__text_add(&echo, text ? text : "");
        pf__journal_entry(journal, &echo, &d->witness, reply);
        pf__text_free(&echo);
        free(text);
    }
    return true;
}

// --- what a line may cost, before it costs that

// Bytes of a number with 17 digits and what stands around it.
enum { NUMBER_BYTES = 32, REST_BYTES = 1 << 16 };
// The deepest request, a grid of predictions in its object, nests 5 deep; a mistake in one is still
// named.
enum { DEEPEST = 16 };

// The most values that a request for this kit has.
static size_t most_values(const pf_kit_info *k)
{
    int most = k->most_rows > k->rehearsal_rows ? k->most_rows : k->rehearsal_rows;
    size_t targets = (size_t)k->most_targets;
    size_t windows = 4 + targets * ((size_t)k->n_grid + 1) + 2 * (size_t)k->n_mech;
    // a row of a response is a value too
    return windows * (size_t)most * ((size_t)k->n_chan + 2) + (size_t)k->n_state + 1000;
}

size_t pf__protocol_line_max(const pf_protocol *d)
{
    size_t most = REST_BYTES + NUMBER_BYTES * most_values(&d->info);
    return most < PF_LINE_MAX ? most : PF_LINE_MAX;
}

// Whether the text nests no deeper and has no more values than a request may, counted without a
// parser: brackets, and the commas between values, outside of strings.
static bool is_modest(const pf_protocol *d, const char *line, size_t n, refusal *r)
{
    size_t values = 0, most = most_values(&d->info);
    int depth = 0;
    bool text = false;
    for (size_t i = 0; i < n; i++) {
        char c = line[i];
        if (text) {
            i += c == '\\';
            text = c != '"';
            continue;
        }
        text = c == '"';
        depth += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
        values += c == ',' || c == '[' || c == '{';
        if (depth > DEEPEST) {
            return refuse(r, "too-deep", "column %zu: lists may nest %d deep", i + 1, DEEPEST);
        }
    }
    return values <= most ||
           refuse(r, "too-many", "a request for this kit has at most %zu values", most);
}

void pf__protocol_line(pf_protocol *d, const char *line, size_t n, pf_text *reply, pf_text *journal)
{
    json_error_t problem;
    refusal r = {NULL, ""};
    if (!is_modest(d, line, n, &r)) {
        pf__text_clear(reply);
        pf__reply_refusal(reply, r.code, r.message);
        return;
    }
    json_t *request = pf__json_load(line, n, JSON_REJECT_DUPLICATES, &problem);
    if (!request) {
        char message[320];
        snprintf(message, sizeof message, "column %d: %s", problem.column, problem.text);
        pf__text_clear(reply);
        pf__reply_refusal(reply, json_problem(&problem), message);
        return;
    }
    pf__protocol_request(d, request, NULL, reply, journal);
    json_decref(request);
}

void pf__protocol_too_long(const pf_protocol *d, pf_text *reply)
{
    char message[120];
    snprintf(message, sizeof message,
             "a line for this kit may have %zu bytes; this one was discarded",
             pf__protocol_line_max(d));
    pf__text_clear(reply);
    pf__reply_refusal(reply, "too-long", message);
}
