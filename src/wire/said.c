// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "said.h"

#include "core/kit_layout.h"

#include <math.h>
#include <string.h>

// --- one value

// Where a value is looked for, and the first one that is not what it must be.
typedef struct reader {
    const char *list; // "tasks", "mechanisms"; "": the object itself
    size_t at;
    pf_status status;
    pf_error *error;
} reader;

static void refuse(reader *r, const char *key, const char *what)
{
    if (r->status != PF_OK) {
        return;
    }
    r->status = r->list[0] ? pf_fail(r->error, PF_ERR_FORMAT, "%s[%z]: `%s` is %s", r->list, r->at,
                                     key, what)
                           : pf_fail(r->error, PF_ERR_FORMAT, "`%s` is %s", key, what);
}

static double as_number(reader *r, const char *key, json_t *value)
{
    if (!json_is_number(value)) {
        refuse(r, key, "missing or no number");
        return NAN;
    }
    return json_number_value(value);
}

static double number(reader *r, json_t *object, const char *key)
{
    return as_number(r, key, json_object_get(object, key));
}

// A number that no check gives beyond these ends, but for rounding.
static double number_within(reader *r, json_t *object, const char *key, double least, double most)
{
    const double rounding = 1e-9;
    double value = number(r, object, key);
    if (!(value >= least - rounding && value <= most + rounding)) {
        refuse(r, key, "out of range");
    }
    return value;
}

// null is what no number could be had for.
static double return_or_null(reader *r, json_t *object, const char *key)
{
    return json_is_null(json_object_get(object, key)) ? NAN
                                                      : number_within(r, object, key, -HUGE_VAL, 1);
}

static int count(reader *r, json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    json_int_t n = json_is_integer(value) ? json_integer_value(value) : -1;
    if (n < 0 || n > 1000000000) {
        refuse(r, key, "missing or no count");
        return 0;
    }
    return (int)n;
}

static bool truth(reader *r, json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    if (!json_is_boolean(value)) {
        refuse(r, key, "missing or neither true nor false");
    }
    return json_is_true(value);
}

const char *pf__said_text(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static const char *text(reader *r, json_t *object, const char *key)
{
    if (!json_is_string(json_object_get(object, key))) {
        refuse(r, key, "missing or no text");
    }
    return pf__said_text(object, key);
}

static const char *text_or_null(reader *r, json_t *object, const char *key)
{
    return json_is_null(json_object_get(object, key)) ? "" : text(r, object, key);
}

static void pair(reader *r, json_t *object, const char *key, double out[2])
{
    json_t *list = json_object_get(object, key);
    for (size_t i = 0; i < 2; i++) {
        out[i] = as_number(r, key, json_array_get(list, i));
    }
}

// --- mechanisms

static pf_found read_mechanism(reader *r, const pf_said *said, int mechanism)
{
    size_t i = (size_t)mechanism - 1; // candidates count from 1
    json_t *m = json_array_get(json_object_get(said->json, "mechanisms"), i);
    r->list = "mechanisms";
    r->at = i;
    pf_found found = {.mechanism = text(r, m, "name"),
                      .changed = number_within(r, m, "p_changed", 0, 1),
                      .gain = number(r, m, "mean_gain"),
                      .probed = truth(r, m, "probed"),
                      .gain_if_changed = true};
    pair(r, m, "interval", found.interval);
    if (count(r, m, "mechanism") != mechanism) {
        refuse(r, "mechanism", "not its place in the list");
    }
    return found;
}

pf_found pf__said_mechanism(const pf_said *said, int mechanism)
{
    reader r = {.list = ""};
    return read_mechanism(&r, said, mechanism);
}

// --- tasks

// The mechanisms of a task; i is its place.
static void read_uses(reader *r, const pf_said *said, json_t *task, int i, pf_task_said *out)
{
    json_t *uses = json_object_get(task, "mechanisms"),
           *factors = json_object_get(task, "correction");
    size_t n = json_array_size(uses);
    if (!json_is_array(uses) || n > PF_MECH_MAX || json_array_size(factors) != n) {
        refuse(r, "correction", "missing or not one number per mechanism");
        return;
    }
    for (size_t u = 0; u < n; u++) {
        json_t *index = json_array_get(uses, u);
        json_int_t j = json_is_integer(index) ? json_integer_value(index) : -1;
        if (j < 0 || j > said->n_mechanisms) {
            refuse(r, "mechanisms", "no list of mechanisms");
            return;
        }
        // mechanism 0 is never probed nor corrected
        pf_found m = {.mechanism = "its mechanism", .interval = {1, 1}, .probed = true};
        m = j > 0 ? pf__said_mechanism(said, (int)j) : m;
        double factor = as_number(r, "correction", json_array_get(factors, u));
        out->uses[out->n_uses++] =
            (pf_use){.index = (int)j,
                     .mechanism = m.mechanism,
                     .factor = factor,
                     .through = said->limits && j > 0
                                    ? pf_kit_delivered_share(said->limits, i, (int)j, factor, 1)
                                    : NAN,
                     .changed = m.changed,
                     .interval = {m.interval[0], m.interval[1]},
                     .probed = m.probed};
    }
}

// The code of a reason by its name, -1: there is none.
static int why_of(const char *name)
{
    for (int why = 0; why <= PF_WHY_CERTIFIED; why++) {
        if (strcmp(pf_why_name((pf_why)why), name) == 0) {
            return why;
        }
    }
    return -1;
}

static int decision_of(const char *name)
{
    static const pf_decision all[] = {PF_NO_GO, PF_GO, PF_GO_IF};
    for (int i = 0; i < 3; i++) {
        if (strcmp(pf_decision_name(all[i]), name) == 0) {
            return (int)all[i];
        }
    }
    return -1;
}

// Whether a decision, its reason, its bound and its rehearsal go together.
static bool agrees(const pf_task_said *task, const pf_said *said)
{
    bool reached = task->lower >= said->j_min, unseen = task->why == PF_WHY_UNSEEN_LOSS;
    bool condition = task->why == PF_WHY_NOT_REHEARSED || unseen;
    bool ran = !said->rehearses || strcmp(task->rehearsed, "group") == 0 ||
               strcmp(task->rehearsed, "apart") == 0;
    return task->decision == PF_GO      ? task->why == PF_WHY_CERTIFIED && reached && ran
           : task->decision == PF_GO_IF ? condition && (reached || unseen)
                                        : task->why != PF_WHY_CERTIFIED && !condition;
}

static void read_task(reader *r, const pf_said *said, int i, pf_task_said *out)
{
    json_t *task = json_array_get(json_object_get(said->json, "tasks"), (size_t)i);
    r->list = "tasks";
    r->at = (size_t)i;
    *out = (pf_task_said){.name = text(r, task, "name"),
                          .fallback = text(r, task, "fallback"),
                          .rehearsed = text(r, task, "rehearsed"),
                          .mean = return_or_null(r, task, "mean"),
                          .lower = return_or_null(r, task, "lower")};
    int decision = decision_of(text(r, task, "decision")), why = why_of(text(r, task, "why"));
    if (decision < 0) {
        refuse(r, "decision", "none of go, go-if and no-go");
    } else if (why < 0) {
        refuse(r, "why", "no reason");
    } else {
        out->decision = (pf_decision)decision;
        out->why = (pf_why)why;
        out->accepted = pf__accepts(&said->accepted, out->why);
        read_uses(r, said, task, i, out);
        if (out->why == PF_WHY_UNSEEN_LOSS) {
            pair(r, task, "unseen", out->unseen);
        }
        if (!agrees(out, said)) {
            refuse(r, "decision",
                   "in contradiction to its bound, j_min, reason or rehearsal; replay the journal "
                   "instead");
        }
    }
}

void pf__said_task(const pf_said *said, int task, pf_task_said *out)
{
    reader r = {.list = ""};
    read_task(&r, said, task, out);
}

pf_found pf__said_finding(const pf_said *said, int mechanism)
{
    pf_found found = pf__said_mechanism(said, mechanism);
    found.unconfirmed = said->rehearses && found.changed > .5;
    for (int t = 0; t < said->n_tasks && found.unconfirmed; t++) {
        pf_task_said task;
        pf__said_task(said, t, &task);
        pf__found_by_task(&found, mechanism, &task);
    }
    return found;
}

bool pf__said_doubtful(const pf_said *said)
{
    bool doubtful = pf__misfits(&said->odd);
    for (int j = 1; j <= said->n_mechanisms; j++) {
        doubtful = doubtful || pf__said_finding(said, j).silent;
    }
    return doubtful;
}

// --- all of it

static pf_odd read_odd(reader *r, json_t *json)
{
    json_t *misfit = json_object_get(json, "misfit");
    if (!json_is_object(misfit)) {
        refuse(r, "misfit", "missing");
    }
    return (pf_odd){.misfit = number(r, misfit, "value"),
                    .implausible = count(r, misfit, "implausible"),
                    .look = count(r, misfit, "look"),
                    .channel = text(r, misfit, "channel"),
                    .looks_like = "",
                    .alarm = truth(r, json, "alarm"),
                    .explained = truth(r, json, "explained")};
}

static void read_accepted(reader *r, pf_said *said)
{
    json_t *list = json_object_get(said->json, "accepted");
    if (!json_is_array(list)) {
        refuse(r, "accepted", "missing or no list");
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *word = json_string_value(json_array_get(list, i));
        int why = word ? why_of(word) : -1;
        said->accepted.not_rehearsed = said->accepted.not_rehearsed || why == PF_WHY_NOT_REHEARSED;
        said->accepted.unseen_loss = said->accepted.unseen_loss || why == PF_WHY_UNSEEN_LOSS;
    }
}

// What the settings weaken. Certificates that were written before there was such a list lack it.
static void read_weakened(reader *r, pf_said *said)
{
    json_t *list = json_object_get(said->json, "weakened");
    if (list && !json_is_array(list)) {
        refuse(r, "weakened", "no list");
    }
    said->n_weakened = (int)json_array_size(list);
    for (int i = 0; i < said->n_weakened; i++) {
        text(r, json_array_get(list, (size_t)i), "words");
    }
}

const char *pf__said_weakened(const pf_said *said, int i)
{
    json_t *list = json_object_get(said->json, "weakened");
    return pf__said_text(json_array_get(list, (size_t)i), "words");
}

static void read_audit(reader *r, pf_said *said)
{
    json_t *audit = json_object_get(said->json, "audit");
    said->audited = json_is_object(audit);
    if (said->audited) {
        said->audit = (pf_said_audit){.entries = count(r, audit, "entries"),
                                      .covered = count(r, audit, "covered"),
                                      .sessions = count(r, audit, "sessions"),
                                      .false_go = count(r, audit, "false_go"),
                                      .worst_upper = number(r, audit, "worst_upper")};
    } else if (!json_is_null(audit)) {
        refuse(r, "audit", "missing; it is null where there is none");
    }
}

// What only the check knows.
static void read_certificate(reader *r, pf_said *said)
{
    json_t *json = said->json;
    said->plant = text(r, json, "plant");
    said->kit = text(r, json, "kit");
    said->injected = text_or_null(r, json, "injected");
    said->signer = json_object_get(json, "signed_by") ? text_or_null(r, json, "signed_by") : "";
    said->odd.looks_like = text_or_null(r, json, "looks_like");
    said->alpha = number_within(r, json, "alpha", 0, 1);
    said->j_min = number_within(r, json, "j_min", exp(-1), 1); // what doing nothing returns
    said->rehearses = strcmp(text(r, json, "rules"), "paper") != 0;
    read_accepted(r, said);
    read_weakened(r, said);
    read_audit(r, said);
}

pf_status pf__said_read(pf_said *said, json_t *json, const pf_kit *kit, pf_error *error)
{
    reader r = {.list = "", .error = error};
    json_t *mechanisms = json_object_get(json, "mechanisms"),
           *tasks = json_object_get(json, "tasks");
    *said = (pf_said){
        .json = json, .limits = kit, .plant = "", .kit = "", .injected = "", .signer = ""};
    said->certificate = json_is_string(json_object_get(json, "kit")) &&
                        json_is_string(json_object_get(json, "plant"));
    if (!json_is_array(mechanisms) || !json_is_array(tasks) || (!kit && !said->certificate)) {
        return pf_fail(error, PF_ERR_FORMAT,
                       "not a certificate: plant, kit, mechanisms and tasks are expected");
    }
    size_t n_tasks = json_array_size(tasks), n_mechanisms = json_array_size(mechanisms);
    if (n_mechanisms >= PF_MECH_MAX || n_tasks > 1000000) {
        return pf_fail(error, PF_ERR_FORMAT, "a certificate of %z mechanisms and %z tasks",
                       n_mechanisms, n_tasks);
    }
    said->n_mechanisms = (int)n_mechanisms;
    said->n_tasks = (int)n_tasks;
    if (kit && (kit->n_mech - 1 != said->n_mechanisms || kit->n_tasks != said->n_tasks)) {
        return pf_fail(error, PF_ERR_MISMATCH,
                       "a certificate of %d mechanisms and %d tasks, the kit has %d and %d",
                       said->n_mechanisms, said->n_tasks, (int)kit->n_mech - 1, (int)kit->n_tasks);
    }
    said->odd = read_odd(&r, json);
    said->probes = count(&r, json, "probes");
    said->rehearsals = count(&r, json, "rehearsals");
    said->charge = number(&r, json, "charge");
    if (said->certificate) {
        read_certificate(&r, said);
    }
    if (kit) {
        pf_kit_info k = pf_kit_get_info(kit);
        said->alpha = k.alpha;
        said->j_min = k.j_min;
        said->rehearses = k.rules.field;
    }
    for (int j = 1; j <= said->n_mechanisms && r.status == PF_OK; j++) {
        read_mechanism(&r, said, j);
    }
    for (int t = 0; t < said->n_tasks && r.status == PF_OK; t++) {
        pf_task_said task;
        read_task(&r, said, t, &task);
    }
    return r.status;
}
