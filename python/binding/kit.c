// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "binding.h"

#include "host/file.h"
#include "host/parallel.h"
#include "host/text.h"
#include "preflight/design.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *pf_py_version(void)
{
    return PF_VERSION;
}

void pf_py_free(void *memory)
{
    free(memory);
}

const char *pf_py_status(int status)
{
    return pf_status_name((pf_status)status);
}

int pf_py_report(pf_status status, const pf_error *error, char *why)
{
    if (status != PF_OK) {
        memcpy(why, error->text, sizeof error->text < PF_PY_WHY ? sizeof error->text : PF_PY_WHY);
        why[PF_PY_WHY - 1] = '\0';
    }
    return (int)status;
}

int pf_py_kit_open(pf_py_kit **kit, const void *bytes, size_t n, char *why)
{
    pf_error error = {PF_OK, ""};
    *kit = NULL;
    pf_py_kit *made = calloc(1, sizeof *made);
    void *copy = aligned_alloc(16, (n + 15) & ~(size_t)15);
    if (!made || !copy) {
        free(made);
        free(copy);
        return pf_py_report(pf_fail(&error, PF_ERR_MEMORY, "out of memory for a kit"), &error, why);
    }
    memcpy(copy, bytes, n);
    made->bytes = copy;
    pf_status status = pf_kit_load(&made->kit, copy, n, made->memory, sizeof made->memory, &error);
    if (status != PF_OK) {
        pf_py_kit_close(made);
        return pf_py_report(status, &error, why);
    }
    *kit = made;
    return PF_OK;
}

void pf_py_kit_close(pf_py_kit *kit)
{
    if (kit) {
        free(kit->bytes);
        free(kit);
    }
}

int pf_py_kit_save(const char *path, const void *bytes, size_t n, char *why)
{
    pf_error error = {PF_OK, ""};
    return pf_py_report(pf__file_write(path, bytes, n, &error), &error, why);
}

char *pf_py_kit_json(const pf_py_kit *kit)
{
    return pf_kit_json(kit->kit);
}

static pf_status make_plan(pf_plan **plan, const pf_py_plan *given, const pf_plant_info *info,
                           pf_error *error)
{
    char set[96];
    size_t n = given->config ? strlen(given->config) : 0;
    pf_status status = pf_plan_create(plan, info, given->file, given->config, n, NULL, 0, error);
    if (status == PF_OK && given->method) {
        snprintf(set, sizeof set, "method=%s", given->method);
        status = pf_plan_set(*plan, set, error);
    }
    if (status == PF_OK && given->seed >= 0) {
        pf__print(set, sizeof set, "seed=%.0f", given->seed);
        status = pf_plan_set(*plan, set, error);
    }
    return status;
}

// Progress of a calibration, as often as Python can stand it.
typedef struct watched {
    const pf_py_plan *plan;
    double last;
} watched;

static void show_progress(void *self, const char *what, size_t done, size_t total)
{
    watched *w = self;
    double now = pf__seconds();
    if (w->plan->progress && (done == total || now - w->last > .1)) {
        w->last = now;
        w->plan->progress(what, done, total);
    }
}

static pf_effort effort_of(watched *w)
{
    return (pf_effort){
        .threads = w->plan->threads, .stop = w->plan->stop, .self = w, .progress = show_progress};
}

static pf_status calibrate(pf_plant *plant, const pf_py_plan *given, void **bytes, size_t *n,
                           pf_error *error)
{
    pf_plan *plan = NULL;
    pf_model *model = NULL;
    watched w = {.plan = given};
    pf_effort effort = effort_of(&w);
    pf_status status = make_plan(&plan, given, pf_plant_get_info(plant), error);
    if (status == PF_OK && given->model) {
        status = pf_model_load(&model, given->model, error);
    }
    if (status == PF_OK) {
        status = pf_plan_choose_probes(plan, given->probes, plant, model, &effort, error);
    }
    if (status == PF_OK) {
        status = pf_calibrate(plan, plant, model, &effort, bytes, n, error);
    }
    pf_model_destroy(model);
    pf_plan_destroy(plan);
    return status;
}

int pf_py_calibrate(pf_py_plant *plant, const pf_py_plan *plan, void **bytes, size_t *n, char *why)
{
    pf_error error = {PF_OK, ""};
    if (plan->method && !pf_method_find(plan->method)) {
        return pf_py_report(
            pf_fail(&error, PF_ERR_ARGUMENT, "method: '%s' is unknown", plan->method), &error, why);
    }
    return pf_py_report(calibrate(plant->plant, plan, bytes, n, &error), &error, why);
}

int pf_py_recordings(const char *file, const char *csv, size_t n_csv, const pf_py_plan *given,
                     void **bytes, size_t *n, char *why)
{
    pf_error error = {PF_OK, ""};
    pf_plan *plan = NULL;
    watched w = {.plan = given};
    pf_effort effort = effort_of(&w);
    pf_status status = given->config ? make_plan(&plan, given, NULL, &error) : PF_OK;
    if (status == PF_OK) {
        status = pf_calibrate_recordings(plan, file, csv, n_csv, &effort, bytes, n, &error);
    }
    pf_plan_destroy(plan);
    return pf_py_report(status, &error, why);
}
