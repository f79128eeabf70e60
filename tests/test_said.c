// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "test.h"
#include "wire/journal.h"
#include "wire/said.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A certificate is read whole or not at all.

static const char whole[] =
    "{\"kit\":\"5e1f\",\"plant\":\"servo\",\"preflight\":\"0\",\"seed\":0,\"injected\":\"2:0.4\","
    "\"alpha\":0.1,\"j_min\":0.85,\"accepted\":[\"unseen-loss\"],\"rules\":\"field\","
    "\"looks_like\":null,\"audit\":{\"entries\":45,\"covered\":44,\"sessions\":60,\"false_go\":1,"
    "\"worst_upper\":0.08},\"alarm\":true,\"explained\":true,\"charge\":0.5,\"probes\":3,"
    "\"rehearsals\":2,\"misfit\":{\"value\":0.5,\"implausible\":0,\"channel\":\"angle\","
    "\"look\":2},\"mechanisms\":["
    "{\"mechanism\":1,\"name\":\"one\",\"p_changed\":0.001,\"mean_gain\":0.9,"
    "\"interval\":[0.5,1.2],\"probed\":true},"
    "{\"mechanism\":2,\"name\":\"two\",\"p_changed\":1,\"mean_gain\":0.4,"
    "\"interval\":[0.35,0.45],\"probed\":true}],\"tasks\":["
    "{\"name\":\"a\",\"mechanisms\":[0,2],\"correction\":[1,2.5],\"mean\":0.99,\"sd\":0.01,"
    "\"lower\":0.9,\"decision\":\"go\",\"why\":\"certified\",\"rehearsed\":\"apart\","
    "\"fallback\":\"stop\"},"
    "{\"name\":\"b\",\"mechanisms\":[1],\"correction\":[1],\"mean\":0.95,\"sd\":0.01,"
    "\"lower\":0.8,\"decision\":\"go-if\",\"why\":\"unseen-loss\",\"unseen\":[0.6,0.7],"
    "\"rehearsed\":\"no\",\"fallback\":\"uncorrected\"}]}";

static json_t *certificate(void)
{
    json_t *json = json_loads(whole, 0, NULL);
    CHECK(json != NULL);
    return json;
}

static void check_whole(void)
{
    pf_said said;
    pf_task_said task;
    json_t *json = certificate();
    CHECK(pf__said_read(&said, json, NULL, NULL) == PF_OK);
    CHECK(said.certificate && said.rehearses && said.alpha == .1 && said.j_min == .85);
    CHECK_STR(said.injected, "2:0.4");
    CHECK(said.accepted.unseen_loss && !said.accepted.not_rehearsed);
    CHECK(said.audited && said.audit.entries == 45 && said.audit.covered == 44 &&
          said.audit.sessions == 60 && said.audit.false_go == 1 && said.audit.worst_upper == .08);
    CHECK(said.odd.misfit == .5 && said.odd.look == 2 && said.odd.alarm && said.odd.explained);
    CHECK(said.probes == 3 && said.rehearsals == 2 && said.charge == .5);
    CHECK(said.n_mechanisms == 2 && said.n_tasks == 2);
    pf_found two = pf__said_mechanism(&said, 2);
    CHECK_STR(two.mechanism, "two");
    CHECK(two.changed == 1 && two.gain == .4 && two.interval[1] == .45 && two.probed);
    pf__said_task(&said, 0, &task);
    CHECK(task.decision == PF_GO && task.why == PF_WHY_CERTIFIED && task.lower == .9);
    CHECK(task.n_uses == 2 && task.uses[0].index == 0 && task.uses[1].factor == 2.5);
    CHECK(task.uses[1].changed == 1 && isnan(task.uses[1].through));
    pf__said_task(&said, 1, &task);
    CHECK(task.decision == PF_GO_IF && task.accepted && task.unseen[1] == .7);
    json_decref(json);
}

// It is refused with a message that has the part, by the reader and by explain.
static void refused(json_t *json, const char *part)
{
    pf_said said;
    pf_text words = {0};
    pf_error error = {PF_OK, ""};
    char *text = json_dumps(json, 0);
    if (!CHECK(pf__said_read(&said, json, NULL, &error) == PF_ERR_FORMAT) ||
        !CHECK(strstr(error.text, part) != NULL)) {
        printf("    '%s' in '%s'\n", part, error.text);
    }
    CHECK(pf__explain_certificate(text, strlen(text), &words, &error) == PF_ERR_FORMAT);
    CHECK(words.size == 0);
    pf__text_free(&words);
    free(text);
}

// Every key of an object is needed, and of its kind; but those of `free_keys`, with spaces around.
static void check_keys(json_t *json, json_t *object, const char *free_keys)
{
    void *at;
    const char *key;
    json_t *value, *copy = json_deep_copy(object);
    int n = 0;
    json_object_foreach_safe(copy, at, key, value)
    {
        char padded[40];
        snprintf(padded, sizeof padded, " %s ", key);
        bool list = strcmp(key, "mechanisms") == 0;
        bool head = strcmp(key, "kit") == 0 || strcmp(key, "plant") == 0 ||
                    strcmp(key, "tasks") == 0 || (list && object == json);
        const char *part = head ? "not a certificate" : list ? "correction" : key;
        if (strstr(free_keys, padded)) {
            continue;
        }
        json_object_del(object, key);
        refused(json, part);
        json_object_set_new(object, key, json_true());
        if (!json_is_boolean(value)) {
            refused(json, part);
        }
        json_object_set_new(object, key, json_string("1"));
        if (!json_is_string(value) && !json_is_null(value)) {
            refused(json, part);
        }
        json_object_set(object, key, value);
        n++;
    }
    CHECK(n > 3);
    json_decref(copy);
}

static void check_missing(void)
{
    json_t *json = certificate();
    check_keys(json, json, " preflight seed ");
    check_keys(json, json_object_get(json, "misfit"), "");
    check_keys(json, json_object_get(json, "audit"), "");
    for (size_t i = 0; i < 2; i++) {
        check_keys(json, json_array_get(json_object_get(json, "mechanisms"), i), "");
        check_keys(json, json_array_get(json_object_get(json, "tasks"), i), " sd ");
    }
    json_decref(json);
}

static void check_numbers(void)
{
    pf_said said;
    json_t *json = certificate(), *tasks = json_object_get(json, "tasks");
    json_t *a = json_array_get(tasks, 0),
           *m = json_array_get(json_object_get(json, "mechanisms"), 1);
    json_object_set_new(a, "lower", json_null());
    refused(json, "in contradiction to its bound"); // no go without one
    json_object_set_new(a, "decision", json_string("no-go"));
    json_object_set_new(a, "why", json_string("bound"));
    CHECK(pf__said_read(&said, json, NULL, NULL) == PF_OK);
    pf_task_said task;
    pf__said_task(&said, 0, &task);
    CHECK(isnan(task.lower));
    json_object_set_new(a, "decision", json_string("maybe"));
    refused(json, "none of go, go-if and no-go");
    json_object_set_new(a, "decision", json_string("no-go"));
    json_object_set_new(a, "why", json_string("luck"));
    refused(json, "no reason");
    json_object_set_new(a, "why", json_string("certified"));
    refused(json, "in contradiction");
    json_object_set_new(a, "why", json_string("bound"));
    json_array_set_new(json_object_get(a, "correction"), 1, json_null());
    refused(json, "tasks[0]: `correction`");
    json_array_set_new(json_object_get(a, "correction"), 1, json_real(2));
    json_array_set_new(json_object_get(a, "mechanisms"), 1, json_integer(3));
    refused(json, "tasks[0]: `mechanisms`");
    json_array_set_new(json_object_get(a, "mechanisms"), 1, json_integer(2));
    json_array_remove(json_object_get(m, "interval"), 1);
    refused(json, "mechanisms[1]: `interval`");
    json_decref(json);
}

// What no check can say, though every key is there.
static void check_claims(void)
{
    static const struct {
        const char *list; // NULL: the certificate itself
        int at;
        const char *key, *value, *part;
    } edits[] = {{"tasks", 0, "rehearsed", "\"no\"", "bound, j_min, reason or rehearsal"},
                 {"tasks", 0, "rehearsed", "\"perhaps\"", "reason or rehearsal"},
                 {"tasks", 0, "lower", "5", "tasks[0]: `lower` is out of range"},
                 {"tasks", 1, "mean", "1.1", "tasks[1]: `mean` is out of range"},
                 {"mechanisms", 0, "p_changed", "-0.1", "`p_changed` is out of range"},
                 {"mechanisms", 1, "p_changed", "1.5", "`p_changed` is out of range"},
                 {NULL, 0, "j_min", "0", "`j_min` is out of range"},
                 {NULL, 0, "alpha", "2", "`alpha` is out of range"}};
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        json_t *json = certificate(), *object = json;
        if (edits[i].list) {
            object = json_array_get(json_object_get(json, edits[i].list), (size_t)edits[i].at);
        }
        json_object_set_new(object, edits[i].key,
                            json_loads(edits[i].value, JSON_DECODE_ANY, NULL));
        refused(json, edits[i].part);
        json_decref(json);
    }
}

void test_said(void)
{
    PF_CASE("a certificate says what stands in it");
    check_whole();
    PF_CASE("a certificate without one of its keys, or with another kind of value, is refused");
    check_missing();
    PF_CASE("a number that is missing is no fine number");
    check_numbers();
    PF_CASE("a certificate that claims what no check can find is refused");
    check_claims();
}
