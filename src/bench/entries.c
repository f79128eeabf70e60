// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "entries.h"

#include "preflight/method.h"
#include "sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- what metrics and methods are

static const char *const higher[] = {"log_score",        "detection", "located",
                                     "selective_return", "coverage",  "changed_task_return",
                                     "gate_openings",    "min_ttc",   "min_headway",
                                     "tail_ttc",         "otif",      "safe_coverage",
                                     "all_named"};
static const char *const neutral[] = {"deployed",
                                      "violated",
                                      "false_ready",
                                      "changed_deployed",
                                      "changed_violated",
                                      "changed_false_ready",
                                      "fault_looks",
                                      "mute_looks",
                                      "clipped",
                                      "mute_share",
                                      "coordinate",
                                      "coordinate_bias",
                                      "contracts",
                                      "safe_ready",
                                      "clipped_go",
                                      "clipped_false",
                                      "clipped_recovered",
                                      "clipped_go_share",
                                      "clipped_recovered_share"};
static const char *const compared[] = {"random",   "bayes-risk", "bandit-qcd", "sept",
                                       "asid-fim", "opax",       "task-oed",   "eg-mpt"};

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

bool pf_entry_metric_known(const char *metric)
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

static const char *const labels[][2] = {
    {"attitude", "Attitude"},
    {"building", "Building"},
    {"pump_tank", "Pump network"},
    {"battery", "Battery pack"},
    {"reaction_wheel", "Reaction wheel"},
    {"aircraft", "Aircraft"},
    {"wood_berry", "Distillation"},
    {"dc_servo", "Servo"},
    {"quad_tank", "Quad tank"},
    {"quadrotor", "Quadrotor"},
    {"wind_pitch", "Turbine"},
    {"pendulum", "Pendulum"},
    {"acrobot", "Acrobot"},
    {"cartpole", "CartPole"},
    {"gym:BipedalWalker-v3", "BipedalWalker"},
    {"gym:BipedalWalkerHardcore-v3", "Hardcore"},
    {"gym:CarRacing-v3", "CarRacing"},
    {"grid2op", "Grid2Op"},
    {"highway", "highway-v0"},
    {"inventory_serial", "Serial, backlog"},
    {"inventory_lost_sales", "Serial, lost sales"},
    {"inventory_multi", "Multi-echelon"},
    {PF_MACRO, "Mean of all"},
    {PF_MACRO_SHOWN, "Mean of these"},
};

const char *pf_label_environment(const char *environment)
{
    for (size_t i = 0; i < sizeof labels / sizeof labels[0]; i++) {
        if (strcmp(labels[i][0], environment) == 0) {
            return labels[i][1];
        }
    }
    return environment;
}

const char *pf_label_method(const char *method)
{
    const pf_method *m = pf_method_find(method);
    return m ? m->label : method;
}

void pf_label_metric(const char *metric, char out[64])
{
    snprintf(out, 64, "%s", metric);
    for (char *at = out; *at; at++) {
        *at = *at == '_' ? ' ' : *at;
    }
}

void pf_setting_without(const char *setting, const char *key, char out[96])
{
    size_t length = strlen(key), used = 0;
    out[0] = 0;
    while (*setting) {
        size_t n = strcspn(setting, ";");
        bool match = n > length && setting[length] == '=' && strncmp(setting, key, length) == 0;
        if (!match && used + n + 2 < 96) {
            used +=
                (size_t)snprintf(out + used, 96 - used, "%s%.*s", used ? ";" : "", (int)n, setting);
        }
        setting += n + (setting[n] == ';');
    }
    if (used == 0) {
        strcpy(out, PF_SETTING_ALL);
    }
}

// --- names

char *pf_entries_intern(pf_entries *c, const char *name)
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
int pf_entries_index(pf_entries *c, char ***list, int *n, const char *name)
{
    for (int i = 0; i < *n; i++) {
        if (strcmp((*list)[i], name) == 0) {
            return i;
        }
    }
    char *own = pf_entries_intern(c, name);
    char **grown = own ? realloc(*list, (size_t)(*n + 1) * sizeof *grown) : NULL;
    if (!grown) {
        return -1;
    }
    *list = grown;
    grown[*n] = own;
    return (*n)++;
}

void pf_entries_free(pf_entries *c)
{
    for (int i = 0; i < c->n_names; i++) {
        free(c->name[i]);
    }
    free(c->name);
    free(c->environment);
    free(c->setting);
    free(c->method);
    free(c->entry);
    free(c->slot);
    *c = (pf_entries){0};
}

static const char *known_name(const pf_entries *c, const char *name)
{
    for (int i = 0; i < c->n_names; i++) {
        if (strcmp(c->name[i], name) == 0) {
            return c->name[i];
        }
    }
    return NULL;
}

// Names are kept once, so their addresses tell them apart.
static size_t hash_names(const pf_entry *e)
{
    const char *const names[] = {e->environment, e->setting, e->metric, e->method};
    uint64_t hash = 0;
    for (int i = 0; i < 4; i++) {
        hash = pf_key_derive(hash, (uint64_t)(uintptr_t)names[i]);
    }
    return (size_t)hash;
}

static bool same_names(const pf_entry *a, const pf_entry *b)
{
    return a->metric == b->metric && a->method == b->method && a->setting == b->setting &&
           a->environment == b->environment;
}

const pf_entry *pf_entries_find(const pf_entries *c, const char *environment, const char *setting,
                                const char *metric, const char *method)
{
    pf_entry key = {.environment = known_name(c, environment),
                    .setting = known_name(c, setting),
                    .metric = known_name(c, metric),
                    .method = known_name(c, method)};
    for (size_t at = hash_names(&key); c->n_slots; at++) {
        uint32_t slot = c->slot[at & (c->n_slots - 1)];
        if (slot == 0) {
            return NULL;
        }
        if (same_names(&c->entry[slot - 1], &key)) {
            return &c->entry[slot - 1];
        }
    }
    return NULL;
}

pf_entry *pf_entries_add(pf_entries *c, const pf_entry *entry)
{
    if (c->n == c->capacity) {
        size_t capacity = c->capacity ? 2 * c->capacity : 4096;
        pf_entry *grown = realloc(c->entry, capacity * sizeof *grown);
        if (!grown) {
            return NULL;
        }
        c->entry = grown;
        c->capacity = capacity;
    }
    c->entry[c->n] = *entry;
    return &c->entry[c->n++];
}

static int compare(const void *a, const void *b)
{
    const pf_entry *x = a, *y = b;
    for (int k = 0; k < 4; k++) {
        if (x->order[k] != y->order[k]) {
            return x->order[k] < y->order[k] ? -1 : 1;
        }
    }
    return 0;
}

bool pf_entries_sort(pf_entries *c)
{
    free(c->slot);
    c->n_slots = 16;
    while (c->n_slots < 2 * c->n) {
        c->n_slots *= 2;
    }
    c->slot = calloc(c->n_slots, sizeof *c->slot);
    if (!c->slot) {
        c->n_slots = 0;
        return false;
    }
    if (c->n > 0) {
        qsort(c->entry, c->n, sizeof *c->entry, compare);
    }
    for (size_t i = 0; i < c->n; i++) {
        size_t at = hash_names(&c->entry[i]);
        while (c->slot[at & (c->n_slots - 1)]) {
            at++;
        }
        c->slot[at & (c->n_slots - 1)] = (uint32_t)(i + 1);
    }
    return true;
}
