// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "own_method.h"

#include "core/sha256.h"
#include "host/file.h"
#include "host/json.h"
#include "host/parallel.h"
#include "host/text.h"
#include "plant/bridge/process.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double hello_s = 30, choose_s = 30;

typedef struct own_method {
    char id[96], label[96], line[80]; // line: the checksum of its file
    pthread_mutex_t lock;             // of the process and what follows
    pf_process process;
    pf_error failed;
    const volatile int *stop; // ends its waits
    pf_method row;
} own_method;

enum { MOST = 16 };
struct pf_own_methods {
    own_method method[MOST];
    int n;
    const volatile int *stop;
};

pf_own_methods *pf__own_methods_create(const volatile int *stop)
{
    pf_own_methods *own = calloc(1, sizeof *own);
    if (own) {
        own->stop = stop;
    }
    return own;
}

static void close_method(own_method *m)
{
    pf__process_stop(&m->process);
    pthread_mutex_destroy(&m->lock);
}

void pf__own_methods_destroy(pf_own_methods *own)
{
    for (int i = 0; own && i < own->n; i++) {
        close_method(&own->method[i]);
    }
    free(own);
}

const pf_method *pf__own_method(const pf_own_methods *own, const char *id)
{
    for (int i = 0; own && i < own->n; i++) {
        if (strcmp(own->method[i].id, id) == 0) {
            return &own->method[i].row;
        }
    }
    return NULL;
}

const pf_method *pf__method_of(const pf_own_methods *own, const char *id)
{
    const pf_method *method = pf_method_find(id);
    return method ? method : pf__own_method(own, id);
}

// One line there and one back; free the answer with json_decref. NULL: m->failed says why.
static json_t *ask(own_method *m, const pf_text *request, double limit_s)
{
    const char *line = NULL;
    size_t n = 0;
    double deadline = pf__seconds() + limit_s;
    pf_process_result result =
        pf__process_send(&m->process, request->data, request->size, deadline);
    if (result == PF_PROCESS_OK) {
        result = pf__process_line(&m->process, &line, &n, deadline);
    }
    if (result != PF_PROCESS_OK) {
        char why[200];
        pf__process_explain(&m->process, result, limit_s, why, sizeof why);
        pf_fail(&m->failed, result == PF_PROCESS_STOPPED ? PF_ERR_INTERRUPTED : PF_ERR_PLANT,
                "method %s: %s", m->id, why);
        return NULL;
    }
    json_t *answer = pf__json_load(line, n, 0, NULL);
    const char *problem = json_string_value(json_object_get(answer, "error"));
    if (!json_is_object(answer) || problem) {
        pf_fail(&m->failed, PF_ERR_PLANT, "method %s: %s", m->id,
                problem ? problem : "its answer is not a JSON object");
        json_decref(answer);
        return NULL;
    }
    return answer;
}

static void add_probe(pf_text *out, const pf_kit *kit, int q)
{
    const int32_t *targets = NULL;
    int n = pf_kit_probe_targets(kit, q, &targets);
    pf__json_comma(out);
    pf__text_addf(out, "{\"index\":%d", q);
    pf__json_add_string(out, "name", pf_kit_probe_name(kit, q));
    pf__json_add_number(out, "charge", pf_kit_probe_charge(kit, q));
    pf__json_key(out, "targets");
    pf__text_add(out, "[");
    for (int t = 0; t < n; t++) {
        pf__text_addf(out, "%s%d", t > 0 ? "," : "", (int)targets[t]);
    }
    pf__text_add(out, "]}");
}

static int choose(void *self, const pf_choice *c)
{
    own_method *m = self;
    pf_text request = {0};
    int chosen = -1;
    pf__text_addf(&request,
                  "{\"op\":\"choose\",\"session\":\"%p\",\"opportunity\":%d,\"seed\":%llu",
                  c->session, c->opportunity, (unsigned long long)(c->seed >> 11));
    pf__json_key(&request, "belief");
    pf__json_numbers(&request, c->n_mech, c->belief);
    pf__json_open(&request, "probes", "[");
    for (int q = 0; q < c->n_probes; q++) {
        if (c->eligible[q]) {
            add_probe(&request, c->kit, q);
        }
    }
    pf__text_add(&request, "]}\n");
    pthread_mutex_lock(&m->lock);
    json_t *answer = m->failed.code == PF_OK && !request.failed ? ask(m, &request, choose_s) : NULL;
    json_t *probe = json_object_get(answer, "probe");
    chosen = json_is_integer(probe) ? (int)json_integer_value(probe) : -1;
    bool good = chosen >= 0 && chosen < c->n_probes && c->eligible[chosen];
    if (answer && !good) {
        pf_fail(&m->failed, PF_ERR_PLANT, "method %s: it chose a probe that it may not", m->id);
    }
    pthread_mutex_unlock(&m->lock);
    json_decref(answer);
    pf__text_free(&request);
    return good ? chosen : -1;
}

// The checksum of its file is part of every experiment with it.
static pf_status read_file(own_method *m, const char *file, pf_error *error)
{
    void *text = NULL;
    size_t n = 0;
    char sha[65];
    pf_status status = pf__file_read(file, (size_t)1 << 24, &text, &n, error);
    if (status == PF_OK) {
        pf__sha256_of(text, n, sha);
        snprintf(m->line, sizeof m->line, "sha256:%s", sha);
    }
    free(text);
    return status;
}

static pf_status add_row(own_method *m, json_t *hello, pf_error *error)
{
    const char *statistic = json_string_value(json_object_get(hello, "statistic"));
    bool matched = statistic && strcmp(statistic, "matched") == 0;
    if (!matched && (!statistic || strcmp(statistic, "norm") != 0)) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "method %s: its statistic must be \"matched\" or \"norm\"", m->id);
    }
    m->row = (pf_method){.id = m->id,
                         .label = m->label,
                         .line = m->line,
                         .statistic = matched ? PF_STATISTIC_MATCHED : PF_STATISTIC_NORM,
                         .rule = PF_RULE_OWN,
                         .gate = true,
                         .transport = json_is_true(json_object_get(hello, "transport")),
                         .choose = choose,
                         .self = m};
    if (m->row.transport && !matched) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "method %s: only the matched statistic has something to transport", m->id);
    }
    return PF_OK;
}

static pf_status start(own_method *m, const char *spec, pf_error *error)
{
    char worker[1100];
    snprintf(worker, sizeof worker, "method:%.1000s", spec);
    pf_status status = pf__worker_start(&m->process, worker, m->stop, error);
    if (status != PF_OK) {
        return status;
    }
    pf_text request = {0};
    pf__text_add(&request, "{\"op\":\"hello\"}\n");
    json_t *hello = ask(m, &request, hello_s);
    pf__text_free(&request);
    if (!hello) {
        bool stopped = m->failed.code == PF_ERR_INTERRUPTED;
        return pf_fail(error, stopped ? PF_ERR_INTERRUPTED : PF_ERR_ARGUMENT, "%s", m->failed.text);
    }
    status = add_row(m, hello, error);
    json_decref(hello);
    return status;
}

pf_status pf__own_methods_open(pf_own_methods *own, const char *spec, const char **id,
                               pf_error *error)
{
    const char *rest = strncmp(spec, PF_METHOD_OWN, strlen(PF_METHOD_OWN)) == 0
                           ? spec + strlen(PF_METHOD_OWN)
                           : NULL;
    const char *colon = rest ? strrchr(rest, ':') : NULL;
    if (!colon || colon == rest || !colon[1] || strlen(colon) > 60 || strlen(spec) > 1000) {
        return pf_fail(error, PF_ERR_ARGUMENT, "'%s' is not python:FILE:CLASS", spec);
    }
    if (own->n == MOST) {
        return pf_fail(error, PF_ERR_ARGUMENT, "more than %d methods of yours", (int)MOST);
    }
    char file[1001];
    own_method *m = &own->method[own->n];
    memset(m, 0, sizeof *m);
    m->stop = own->stop;
    snprintf(file, sizeof file, "%.*s", (int)(colon - rest), rest);
    snprintf(m->id, sizeof m->id, PF_METHOD_OWN "%s", colon + 1);
    snprintf(m->label, sizeof m->label, "%s", colon + 1);
    if (pf__own_method(own, m->id)) {
        return pf_fail(error, PF_ERR_ARGUMENT, "there is a method %s already", m->id);
    }
    pthread_mutex_init(&m->lock, NULL);
    pf__process_init(&m->process);
    pf_status status = read_file(m, file, error);
    status = status ? status : start(m, rest, error);
    if (status != PF_OK) {
        close_method(m);
        return status;
    }
    own->n++;
    *id = m->id;
    return PF_OK;
}

pf_status pf__own_method_check(const pf_own_methods *own, const char *id, pf_error *error)
{
    const pf_method *method = pf__own_method(own, id);
    own_method *m = method ? method->self : NULL;
    if (!m) {
        return PF_OK;
    }
    pthread_mutex_lock(&m->lock);
    pf_status status = m->failed.code;
    if (status != PF_OK && error) {
        *error = m->failed;
    }
    pthread_mutex_unlock(&m->lock);
    return status;
}
