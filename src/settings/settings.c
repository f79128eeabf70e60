// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "settings.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// --- shapes

static const pf_schema_row grid_single = {
    "", PF_KIND_WHOLE, 0, 2, 256, 0, NULL, "points, or a list of gains"};
static const pf_schema_row grid_element = {"", PF_KIND_NUMBER, PF_ROW_OPEN, 0, 1,
                                           0,  NULL,           "a gain"};
const pf_schema_shape pf_settings_grid = {.single = &grid_single, .element = &grid_element};

static const pf_schema_row prior_single = {"",
                                           PF_KIND_NUMBER,
                                           PF_ROW_OPEN,
                                           0,
                                           1,
                                           0,
                                           NULL,
                                           "the belief in a change, or a list for "
                                           "'none' and each candidate"};
static const pf_schema_row prior_element = {"", PF_KIND_NUMBER, 0, 0, 1, 0, NULL, "a probability"};
const pf_schema_shape pf_settings_prior = {.single = &prior_single, .element = &prior_element};

// --- the table

enum {
    NO,
    YES,
    TOP,
    BUDGET,
    AXIS,
    GROUP,
    READING,
    ALWAYS,
    CHANGED,
    PAPER
}; // the words of settings.def

typedef struct setting {
    pf_schema_row row;   // its key as an override names it, its place in pf_settings
    double otherwise[2]; // by pf_settings_use
    int config, suite, kit, hash;
    const char *group;
} setting;

#define PF_PATH_BUDGET "budget."
#define PF_PATH_TOP
#define PF_PATH_NO
static const setting table[] = {
#define PF_SETTING(field, key, type, field_kit, suite_default, least, most, ends, shape, config,   \
                   suite, kit, hash, group, help)                                                  \
    {{PF_PATH_##config key, PF_KIND_##type, PF_ROW_##ends, least, most,                            \
      offsetof(pf_settings, field), shape, help},                                                  \
     {field_kit, suite_default},                                                                   \
     config,                                                                                       \
     suite,                                                                                        \
     kit,                                                                                          \
     hash,                                                                                         \
     group},
#include "settings.def"
};

static bool is_list(int i)
{
    return table[i].row.kind == PF_KIND_NUMBERS;
}

static bool is_double(int i)
{
    return table[i].row.kind == PF_KIND_NUMBER || table[i].row.kind == PF_KIND_WHOLE;
}

static pf_config_numbers *list_at(int i, pf_settings *settings)
{
    return (pf_config_numbers *)((char *)settings + table[i].row.offset);
}

static const pf_config_numbers *list_of(int i, const pf_settings *settings)
{
    return (const pf_config_numbers *)((const char *)settings + table[i].row.offset);
}

static bool is_given(int i, const pf_settings *settings)
{
    const char *at = (const char *)settings + table[i].row.offset;
    return is_list(i)     ? list_of(i, settings)->n > 0
           : is_double(i) ? !isnan(*(const double *)at)
                          : *(const int *)at >= 0;
}

// One value that is no list.
static void set_value(int i, pf_settings *settings, double value)
{
    char *at = (char *)settings + table[i].row.offset;
    if (is_double(i)) {
        *(double *)at = value;
    } else {
        *(int *)at = (int)value;
    }
}

static double get_value(int i, const pf_settings *settings)
{
    const char *at = (const char *)settings + table[i].row.offset;
    return is_double(i) ? *(const double *)at : *(const int *)at;
}

void pf__settings_clear(pf_settings *settings)
{
    for (int i = 0; i < PF_COUNT(table); i++) {
        if (is_list(i)) {
            *list_at(i, settings) = (pf_config_numbers){.otherwise = NAN};
        } else {
            set_value(i, settings, is_double(i) ? NAN : -1);
        }
    }
}

void pf__settings_complete(pf_settings *settings, pf_settings_use use)
{
    for (int i = 0; i < PF_COUNT(table); i++) {
        if (is_list(i)) {
            list_at(i, settings)->otherwise = table[i].otherwise[use];
        } else if (!is_given(i, settings)) {
            set_value(i, settings, table[i].otherwise[use]);
        }
    }
}

pf_settings pf__settings_default(pf_settings_use use)
{
    pf_settings s;
    pf__settings_clear(&s);
    pf__settings_complete(&s, use);
    return s;
}

static void take_list(pf_config_numbers *to, const pf_config_numbers *from, pf_arena *arena)
{
    to->otherwise = isnan(from->otherwise) ? to->otherwise : from->otherwise;
    double *value = from->n > 0 ? pf__arena_take(arena, (size_t)from->n, sizeof *value) : NULL;
    if (value) {
        memcpy(value, from->value, (size_t)from->n * sizeof *value);
        to->n = from->n;
        to->value = value;
    }
}

void pf__settings_take(pf_settings *settings, const pf_settings *given, pf_arena *arena)
{
    for (int i = 0; i < PF_COUNT(table); i++) {
        if (is_list(i)) {
            take_list(list_at(i, settings), list_of(i, given), arena);
        } else if (is_given(i, given)) {
            set_value(i, settings, get_value(i, given));
        }
    }
}

const char *pf__settings_given_group(const pf_settings *settings)
{
    for (int i = 0; i < PF_COUNT(table); i++) {
        if (table[i].suite == GROUP && is_given(i, settings)) {
            return table[i].row.key;
        }
    }
    return NULL;
}

const char *pf__settings_given_reading(const pf_settings *settings)
{
    for (int i = 0; i < PF_COUNT(table); i++) {
        if (table[i].hash == PAPER && table[i].config == NO && is_given(i, settings)) {
            return table[i].row.key;
        }
    }
    return NULL;
}

pf_status pf__settings_known(const char *assignment, pf_error *error)
{
    const char *keys[PF_COUNT(table)];
    char key[64];
    int n = 0;
    snprintf(key, sizeof key, "%.*s", (int)strcspn(assignment, "="), assignment);
    for (int i = 0; i < PF_COUNT(table); i++) {
        const char *old = table[i].row.shape ? table[i].row.shape->old : NULL;
        if (table[i].config) {
            keys[n++] = table[i].row.key;
            if (strcmp(table[i].row.key, key) == 0 || (old && strcmp(old, key) == 0)) {
                return PF_OK;
            }
        }
    }
    const char *near = pf__nearest_word(key, keys, n);
    return pf_fail(error, PF_ERR_ARGUMENT, "%s: is no setting; %s%s%s", key,
                   near ? "did you mean '" : "see `preflight list settings`", near ? near : "",
                   near ? "'?" : "");
}

double pf__settings_number(const pf_config_numbers *numbers)
{
    return numbers->n == 1 ? numbers->value[0] : numbers->otherwise;
}

// --- JSON

static void add_value(int i, pf_text *out, const pf_settings *s)
{
    if (is_list(i) && list_of(i, s)->n > 1) {
        pf__json_numbers(out, list_of(i, s)->n, list_of(i, s)->value);
    } else if (is_list(i)) {
        pf__json_number(out, pf__settings_number(list_of(i, s)));
    } else if (table[i].row.kind == PF_KIND_FLAG) {
        pf__text_add(out, get_value(i, s) != 0 ? "true" : "false");
    } else if (table[i].row.kind == PF_KIND_WORD) {
        pf__json_string(out, table[i].row.shape->words[(int)get_value(i, s)]);
    } else {
        pf__json_number(out, get_value(i, s));
    }
}

// Whether the hash of a suite holds a setting.
static bool is_hashed(int i, const pf_settings *s, bool groups)
{
    double otherwise = table[i].otherwise[PF_SETTINGS_SUITE];
    double value = is_list(i) ? pf__settings_number(list_of(i, s)) : get_value(i, s);
    bool same = value == otherwise || (isnan(value) && isnan(otherwise));
    bool changed = !same || (is_list(i) && list_of(i, s)->n > 1);
    bool paper = table[i].hash == PAPER && s->verdict == PF_VERDICT_PAPER && is_given(i, s);
    return (table[i].hash == ALWAYS || paper || (table[i].hash == CHANGED && changed)) &&
           (table[i].suite != GROUP || groups);
}

// The key, where the first one of the budget opens its object.
static void open_key(int i, pf_text *out)
{
    const char *dot = strchr(table[i].row.key, '.');
    if (dot && (i == 0 || table[i - 1].config != BUDGET)) {
        pf__json_open(out, "budget", "{");
    }
    pf__json_key(out, dot ? dot + 1 : table[i].row.key);
}

void pf__settings_json(pf_text *out, const pf_settings *settings, pf_settings_which which)
{
    for (int i = 0; i < PF_COUNT(table); i++) {
        bool wanted = which == PF_SETTINGS_ALL ? true
                      : which == PF_SETTINGS_KIT
                          ? table[i].kit == YES
                          : is_hashed(i, settings, which == PF_SETTINGS_HASH_GROUPS);
        if (!wanted) {
            continue;
        }
        open_key(i, out);
        add_value(i, out, settings);
        bool last = i + 1 == PF_COUNT(table) || table[i + 1].config != BUDGET;
        pf__text_add(out, table[i].config == BUDGET && last ? "}" : "");
        const char *old = table[i].row.shape ? table[i].row.shape->old : NULL;
        if (which == PF_SETTINGS_KIT && old) { // who reads kits knows it by that name
            pf__json_key(out, old);
            add_value(i, out, settings);
        }
    }
}

// --- what users see of them

static void show_default(int i, double value, char *out, size_t size)
{
    pf_schema_kind kind = table[i].row.kind;
    if (isnan(value) || (kind == PF_KIND_COUNT && value < 0)) {
        snprintf(out, size, "auto");
    } else if (kind == PF_KIND_WORD) {
        snprintf(out, size, "%s", table[i].row.shape->words[(int)value]);
    } else if (kind == PF_KIND_FLAG) {
        snprintf(out, size, "%s", value != 0 ? "true" : "false");
    } else {
        pf__print(out, size, "%g", value);
    }
}

bool pf__settings_at(int index, pf_setting_info *info)
{
    int i = 0;
    for (; i < PF_COUNT(table); i++) {
        bool seen = table[i].config != NO || table[i].suite != NO;
        if (seen && index-- == 0) {
            break;
        }
    }
    if (i == PF_COUNT(table)) {
        return false;
    }
    const setting *s = &table[i];
    *info = (pf_setting_info){.key = s->row.key,
                              .old = s->row.shape ? s->row.shape->old : NULL,
                              .group = s->group,
                              .help = s->row.help,
                              .config = s->config != NO,
                              .suite = s->suite != NO,
                              .axis = s->suite == AXIS,
                              .group_methods = s->suite == GROUP,
                              .kit = s->kit == YES};
    pf__schema_range(&s->row, info->range, sizeof info->range);
    for (int use = 0; use < 2; use++) {
        show_default(i, s->otherwise[use], info->otherwise[use], sizeof info->otherwise[use]);
    }
    return true;
}

bool pf__settings_reading(int index, char *out, size_t size, bool *common)
{
    for (int i = 0; i < PF_COUNT(table); i++) {
        const char *const *words = table[i].suite == READING ? table[i].row.shape->words : NULL;
        for (int w = 0; words && words[w]; w++) {
            if (index-- == 0) {
                snprintf(out, size, "%s=%s", table[i].row.key, words[w]);
                *common = table[i].hash == PAPER && table[i].otherwise[PF_SETTINGS_SUITE] == w;
                return true;
            }
        }
    }
    return false;
}

// --- what ranges cannot say

pf_status pf__settings_check(const pf__yaml_node *node, const pf_settings *s, pf_error *error)
{
    for (int i = 1; i < s->grid.n; i++) {
        if (s->grid.value[i] <= s->grid.value[i - 1]) {
            return pf__yaml_refuse(error, pf__yaml_get(node, "grid")->at,
                                   "grid: must ascend, but %.6g follows %.6g; sort it",
                                   s->grid.value[i], s->grid.value[i - 1]);
        }
    }
    double sum = 0;
    for (int i = 0; i < s->prior.n; i++) {
        sum += s->prior.value[i];
    }
    if (s->prior.n > 1 && fabs(sum - 1) > 1e-9) {
        return pf__yaml_refuse(error, pf__yaml_get(node, "prior")->at,
                               "prior: sums to %.12g; the probabilities must sum to 1", sum);
    }
    return PF_OK;
}
