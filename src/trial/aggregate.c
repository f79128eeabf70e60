// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "aggregate.h"

#include "../host/parallel.h"
#include "preflight/method.h"
#include "sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- what metrics and methods are

static const char *const higher[] = {"detection",     "located",      "selective_return",
                                     "coverage",      "changed_task_return",
                                     "gate_openings", "rank_none"};
static const char *const rates[] = {"detection", "early", "false_alarm", "located", "coverage",
                                    "clipped"};
static const char *const neutral[] = {"deployed",         "violated",        "false_ready",
                                      "changed_deployed", "changed_violated",
                                      "changed_false_ready", "fault_looks",
                                      "mute_looks",       "clipped",         "mute_share"};
static const char *const compared[] = {"random", "bayes-risk", "bandit-qcd", "sept",
                                       "asid-fim", "opax",     "task-oed",   "eg-mpt"};

static bool is_in(const char *word, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(word, list[i]) == 0) {
            return true;
        }
    }
    return false;
}
#define IS_IN(word, list) is_in((word), (list), sizeof(list) / sizeof(list)[0])

int pf_metric_direction(const char *metric)
{
    return IS_IN(metric, neutral) ? 0 : IS_IN(metric, higher) ? 1 : -1;
}

bool pf_method_of_paper(const char *method)
{
    return IS_IN(method, compared);
}

static bool is_rate(int statistic)
{
    return statistic >= PF_METRIC_COUNT || IS_IN(pf_statistic_id(statistic), rates);
}

bool pf_cell_metric_known(const char *metric)
{
    size_t n = strlen(metric), tail = strlen(PF_DIFFERENCE);
    char base[64];
    if (n > tail && strcmp(metric + n - tail, PF_DIFFERENCE) == 0) {
        n -= tail;
    }
    snprintf(base, sizeof base, "%.*s", (int)n, metric);
    for (int i = 0; i < PF_STATISTIC_COUNT; i++) {
        if (strcmp(base, pf_statistic_id(i)) == 0) {
            return true;
        }
    }
    for (int i = 0; i < PF_RANK_COUNT; i++) {
        if (strcmp(metric, pf_rank_id(i)) == 0) {
            return true;
        }
    }
    return false;
}

void pf_setting_without(const char *setting, const char *key, char out[96])
{
    size_t length = strlen(key), used = 0;
    out[0] = 0;
    while (*setting) {
        size_t n = strcspn(setting, ";");
        bool match = n > length && setting[length] == '=' && strncmp(setting, key, length) == 0;
        if (!match && used + n + 2 < 96) {
            used += (size_t)snprintf(out + used, 96 - used, "%s%.*s", used ? ";" : "", (int)n,
                                     setting);
        }
        setting += n + (setting[n] == ';');
    }
    if (used == 0) {
        strcpy(out, PF_SETTING_ALL);
    }
}

// --- names

static char *intern(pf_cells *c, const char *name)
{
    for (int i = 0; i < c->n_names; i++) {
        if (strcmp(c->name[i], name) == 0) {
            return c->name[i];
        }
    }
    if (c->n_names == c->names_capacity) {
        int capacity = c->names_capacity ? 2 * c->names_capacity : 128;
        char **grown = realloc(c->name, (size_t)capacity * sizeof *grown);
        if (!grown) {
            return NULL;
        }
        c->name = grown;
        c->names_capacity = capacity;
    }
    char *copy = malloc(strlen(name) + 1);
    if (copy) {
        strcpy(copy, name);
        c->name[c->n_names++] = copy;
    }
    return copy;
}

// Index of a name in a list that grows; -1: out of memory.
static int index_in(pf_cells *c, char ***list, int *n, const char *name)
{
    for (int i = 0; i < *n; i++) {
        if (strcmp((*list)[i], name) == 0) {
            return i;
        }
    }
    char *own = intern(c, name);
    char **grown = own ? realloc(*list, (size_t)(*n + 1) * sizeof *grown) : NULL;
    if (!grown) {
        return -1;
    }
    *list = grown;
    grown[*n] = own;
    return (*n)++;
}

void pf_cells_free(pf_cells *c)
{
    for (int i = 0; i < c->n_names; i++) {
        free(c->name[i]);
    }
    free(c->name);
    free(c->environment);
    free(c->setting);
    free(c->method);
    free(c->cell);
    *c = (pf_cells){0};
}

static const char *known_name(const pf_cells *c, const char *name)
{
    for (int i = 0; i < c->n_names; i++) {
        if (strcmp(c->name[i], name) == 0) {
            return c->name[i];
        }
    }
    return NULL;
}

const pf_cell *pf_cells_find(const pf_cells *c, const char *environment, const char *setting,
                             const char *metric, const char *method)
{
    environment = known_name(c, environment);
    setting = known_name(c, setting);
    metric = known_name(c, metric);
    method = known_name(c, method);
    for (size_t i = 0; i < c->n; i++) {
        const pf_cell *cell = &c->cell[i];
        // names are kept once, so pointers tell
        if (cell->metric == metric && cell->method == method && cell->setting == setting &&
            cell->environment == environment) {
            return cell;
        }
    }
    return NULL;
}

// --- the rows of an experiment

typedef struct rows {
    pf_cells *cells;
    pf_row *row;
    size_t n, capacity;
    int seed[1000]; // seed numbers, in order of appearance
    int n_seeds;
} rows;

static int seed_index(rows *r, int seed)
{
    for (int i = 0; i < r->n_seeds; i++) {
        if (r->seed[i] == seed) {
            return i;
        }
    }
    if (r->n_seeds == (int)(sizeof r->seed / sizeof r->seed[0])) {
        return -1;
    }
    r->seed[r->n_seeds] = seed;
    return r->n_seeds++;
}

static pf_status take_row(void *self, const pf_unit *unit, const char *method,
                          const pf_trial_result *result, pf_error *error)
{
    rows *r = self;
    pf_cells *c = r->cells;
    if (r->n == r->capacity) {
        size_t capacity = r->capacity ? 2 * r->capacity : 4096;
        pf_row *grown = realloc(r->row, capacity * sizeof *grown);
        if (!grown) {
            return pf_fail(error, PF_ERR_MEMORY, "out of memory for a table");
        }
        r->row = grown;
        r->capacity = capacity;
    }
    pf_row *row = &r->row[r->n];
    row->environment = index_in(c, &c->environment, &c->n_environments, unit->environment);
    row->setting = index_in(c, &c->setting, &c->n_settings, unit->setting);
    row->method = index_in(c, &c->method, &c->n_methods, method);
    row->seed = seed_index(r, unit->seed);
    row->trial = unit->trial;
    if (row->environment < 0 || row->setting < 0 || row->method < 0 || row->seed < 0) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a table");
    }
    memcpy(row->value, result->value, sizeof row->value);
    r->n++;
    return PF_OK;
}

static int method_order(const char *id)
{
    for (int i = 0; i < pf_method_count(); i++) {
        if (strcmp(pf_method_at(i)->id, id) == 0) {
            return i;
        }
    }
    return pf_method_count();
}

// Methods in the order of the table of methods, unknown ones after it.
static void sort_methods(rows *r)
{
    pf_cells *c = r->cells;
    for (int i = 1; i < c->n_methods; i++) {
        for (int k = i; k > 0 && method_order(c->method[k]) < method_order(c->method[k - 1]); k--) {
            char *name = c->method[k];
            c->method[k] = c->method[k - 1];
            c->method[k - 1] = name;
            for (size_t at = 0; at < r->n; at++) {
                int m = r->row[at].method;
                r->row[at].method = m == k ? k - 1 : m == k - 1 ? k : m;
            }
        }
    }
}

// --- pooled settings

static bool key_varies(const pf_cells *c, const char *key)
{
    char a[96], b[96];
    for (int i = 0; i < c->n_raw_settings; i++) {
        pf_setting_without(c->setting[i], key, a);
        for (int k = 0; k < i; k++) {
            pf_setting_without(c->setting[k], key, b);
            if (strcmp(a, b) == 0) {
                return true;
            }
        }
    }
    return false;
}

// Bits of mask: leave out g, leave out B2.
static void pooled_name(const char *setting, int mask, char out[96])
{
    snprintf(out, 96, "%s", setting);
    if (mask & 1) {
        pf_setting_without(out, "g", out + 0 == setting ? out : (char[96]){0});
    }
}
