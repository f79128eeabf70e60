// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include "host/csv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAPER_ROWS = 65536 };

static pf_status copy_words(const pf_csv *csv, int first, int n, char *const *out, pf_error *error)
{
    pf_status status = PF_OK;
    for (int i = 0; i < n && status == PF_OK; i++) {
        status = pf__csv_word(csv, first + i, out[i], PF_PAPER_WORD, error);
    }
    return status;
}

// --- the numbers as printed

typedef struct number {
    char experiment[PF_PAPER_WORD], setting[PF_PAPER_WORD];
    char metric[PF_PAPER_WORD], method[PF_PAPER_WORD];
    double mean, sd;
    int line;
    bool mapped;
} number;

typedef struct numbers {
    number *row;
    int n, capacity;
} numbers;

static number *find_number(const numbers *list, const number *key)
{
    for (int i = 0; i < list->n; i++) {
        number *n = &list->row[i];
        if (strcmp(n->setting, key->setting) == 0 && strcmp(n->method, key->method) == 0 &&
            strcmp(n->metric, key->metric) == 0 && strcmp(n->experiment, key->experiment) == 0) {
            return n;
        }
    }
    return NULL;
}

static pf_status take_number(numbers *list, const pf_csv *csv, pf_error *error)
{
    number n = {.sd = NAN, .line = csv->line};
    char *const words[] = {n.experiment, n.setting, n.metric, n.method};
    pf_status status = copy_words(csv, 0, 4, words, error);
    status = status ? status : pf__csv_number(csv, 4, &n.mean, error);
    if (status == PF_OK && csv->field[5].n > 0) {
        status = pf__csv_number(csv, 5, &n.sd, error);
    }
    if (status == PF_OK && find_number(list, &n)) {
        status = pf__csv_refuse(csv, -1, PF_ERR_FORMAT, "is there twice", error);
    }
    if (status == PF_OK && list->n == list->capacity) {
        int capacity = list->capacity ? 2 * list->capacity : 1024;
        number *grown =
            capacity <= PAPER_ROWS ? realloc(list->row, (size_t)capacity * sizeof *grown) : NULL;
        if (!grown) {
            return pf_fail(error, PF_ERR_MEMORY, "out of memory for the paper's numbers");
        }
        list->row = grown;
        list->capacity = capacity;
    }
    if (status == PF_OK) {
        list->row[list->n++] = n;
    }
    return status;
}

static pf_status load_numbers(numbers *list, const char *folder, pf_error *error)
{
    static const char *const columns[] = {"experiment", "setting", "metric",
                                          "method",     "mean",    "sd"};
    pf_csv_file s;
    bool more = true;
    pf_status status = pf__csv_file_open(&s, folder, "paper_numbers.csv", columns, 6, error);
    while (status == PF_OK && (status = pf__csv_next(&s.csv, &more, error)) == PF_OK && more) {
        status = take_number(list, &s.csv, error);
    }
    pf__csv_file_close(&s);
    return status;
}

// --- their names here

static pf_status take_mapping(pf_paper *paper, const numbers *list, const pf_csv *csv,
                              pf_error *error)
{
    number key = {.sd = NAN};
    pf_paper_row row;
    double factor = 1;
    char *const theirs[] = {key.experiment, key.setting, key.metric, key.method};
    char *const ours[] = {row.suite, row.environment, row.setting, row.metric, row.method};
    pf_status status = copy_words(csv, 0, 4, theirs, error);
    status = status ? status : copy_words(csv, 4, 5, ours, error);
    status = status ? status : pf__csv_number(csv, 9, &factor, error);
    if (status != PF_OK) {
        return status;
    }
    number *n = find_number(list, &key);
    if (!n) {
        return pf__csv_refuse(csv, -1, PF_ERR_FORMAT, "is no row of paper_numbers.csv", error);
    }
    if (pf__paper_find(paper, row.suite, row.environment, row.setting, row.metric, row.method)) {
        return pf__csv_refuse(csv, -1, PF_ERR_FORMAT, "maps to the same entry as another row",
                              error);
    }
    pf_paper_row *grown = realloc(paper->row, (size_t)(paper->n + 1) * sizeof *grown);
    if (!grown) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for the paper's numbers");
    }
    paper->row = grown;
    row.mean = n->mean * factor;
    row.sd = n->sd * factor;
    n->mapped = true;
    paper->row[paper->n++] = row;
    return PF_OK;
}

static pf_status load_map(pf_paper *paper, const numbers *list, const char *folder, pf_error *error)
{
    static const char *const columns[] = {
        "paper_experiment", "paper_setting", "paper_metric", "paper_method", "suite",
        "environment",      "setting",       "metric",       "method",       "factor"};
    pf_csv_file s;
    bool more = true;
    pf_status status = pf__csv_file_open(&s, folder, "paper_map.csv", columns, 10, error);
    while (status == PF_OK && (status = pf__csv_next(&s.csv, &more, error)) == PF_OK && more) {
        status = take_mapping(paper, list, &s.csv, error);
    }
    pf__csv_file_close(&s);
    for (int i = 0; i < list->n && status == PF_OK; i++) {
        if (!list->row[i].mapped) {
            status =
                pf_fail(error, PF_ERR_FORMAT,
                        "paper_numbers.csv:%d: paper_map.csv has no row for it", list->row[i].line);
        }
    }
    return status;
}

pf_status pf__paper_load(pf_paper *paper, const char *folder, pf_error *error)
{
    numbers list = {0};
    *paper = (pf_paper){0};
    pf_status status = load_numbers(&list, folder, error);
    status = status ? status : load_map(paper, &list, folder, error);
    paper->n_numbers = list.n;
    free(list.row);
    if (status != PF_OK) {
        pf__paper_free(paper);
    }
    return status;
}

void pf__paper_free(pf_paper *paper)
{
    free(paper->row);
    *paper = (pf_paper){0};
}

const pf_paper_row *pf__paper_find(const pf_paper *paper, const char *suite,
                                   const char *environment, const char *setting, const char *metric,
                                   const char *method)
{
    for (int i = 0; i < paper->n; i++) {
        const pf_paper_row *r = &paper->row[i];
        if (strcmp(r->metric, metric) == 0 && strcmp(r->suite, suite) == 0 &&
            strcmp(r->method, method) == 0 && strcmp(r->environment, environment) == 0 &&
            strcmp(r->setting, setting) == 0) {
            return r;
        }
    }
    return NULL;
}

static const pf_entry *best_baseline(const pf_entries *all, const pf_paper_row *p)
{
    const pf_entry *best = NULL;
    int direction = pf__metric_direction(p->metric);
    for (int i = 0; i < PF_BASELINES; i++) {
        const pf_entry *e =
            pf__entries_find(all, p->environment, p->setting, p->metric, pf__compared[i]);
        if (e && (!best || direction * (e->mean - best->mean) > 0)) {
            best = e;
        }
    }
    return best;
}

pf_status pf__paper_best(const pf_paper *paper, const char *suite, pf_entries *entries,
                         pf_error *error)
{
    bool good = true;
    for (int i = 0; i < paper->n && good; i++) {
        const pf_paper_row *p = &paper->row[i];
        const pf_entry *best =
            strcmp(p->suite, suite) == 0 && strcmp(p->method, PF_BEST_BASELINE) == 0
                ? best_baseline(entries, p)
                : NULL;
        if (best) {
            pf_entry own = *best;
            own.order[3] =
                pf__entries_index(entries, &entries->method, &entries->n_methods, PF_BEST_BASELINE);
            good = own.order[3] >= 0;
            own.method = good ? entries->method[own.order[3]] : NULL;
            good = good && pf__entries_add(entries, &own) && pf__entries_sort(entries);
        }
    }
    return good ? PF_OK : pf_fail(error, PF_ERR_MEMORY, "out of memory for a table");
}

int pf__paper_shown(const pf_paper *paper, const char *suite, const char **names, int most)
{
    int n = 0;
    for (int i = 0; i < paper->n && n < most; i++) {
        const char *name = paper->row[i].environment;
        bool wanted = strcmp(paper->row[i].suite, suite) == 0 && strcmp(name, PF_MACRO) != 0 &&
                      strcmp(name, PF_MACRO_SHOWN) != 0;
        for (int k = 0; k < n && wanted; k++) {
            wanted = strcmp(names[k], name) != 0;
        }
        if (wanted) {
            names[n++] = name;
        }
    }
    return n;
}
