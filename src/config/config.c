// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "config.h"

#include "yaml.h"

#include "preflight/kit.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

// Largest integer up to which every integer is a double.
#define WHOLE_MAX 9007199254740991.0
#define SHOWN_SIZE 60
// Longest word that a nearest one is looked for.
#define WORD_MAX 64

// What a key holds. The schema below is all that knows the keys: defaults, reading, messages and
// freeing walk it.
typedef enum kind {
    KIND_TEXT,    // char *, min to max bytes
    KIND_NAME,    // char *, as text, and safe in a CSV header
    KIND_NUMBER,  // double in min..max
    KIND_WHOLE,   // double, an integer in min..max
    KIND_COUNT,   // int in min..max
    KIND_FLAG,    // int, true or false
    KIND_STOP,    // int, pf_stop
    KIND_NUMBERS, // pf_config_numbers: one value, or a list of min to max elements
    KIND_MATRIX,  // pf_config_matrix, min to max rows
    KIND_REFS,    // pf_config_refs: one name, or a list of min to max
    KIND_OBJECT,  // a mapping whose values lie in the same struct
    KIND_LIST     // an array of structs, min to max of them, first row of each its unique name
} kind;

enum { REQUIRED = 1, OPEN_MIN = 2, OPEN_MAX = 4, OPEN = OPEN_MIN | OPEN_MAX, NONZERO = 8 };

typedef struct rule {
    const char *key;
    kind kind;
    int flags;
    double min, max;
    size_t offset;             // in the struct that the object fills
    const struct shape *shape; // NULL: none needed
    const char *help;
} rule;

typedef struct schema {
    const rule *rows;
    int n;
    size_t size;  // KIND_LIST: of one struct
    size_t place; // KIND_LIST: offset of its pf_place
    pf_status (*check)(const pf__yaml_node *node, const void *base, const char *path,
                       pf_error *error); // NULL: none
} schema;

// The parts of a kind that has any.
typedef struct shape {
    const schema *object;         // KIND_OBJECT, KIND_LIST
    const rule *single, *element; // how a lone value and an item of a list are read
    size_t count;                 // KIND_LIST: offset of the int that counts the structs
} shape;

// Where a reader stands.
typedef struct reader {
    pf_error *error;
    char path[128]; // "probes.0.charge"; made of known keys and indices only, so it fits
} reader;

static pf_status check_mechanism(const pf__yaml_node *node, const void *base, const char *path,
                                 pf_error *error)
{
    const pf_config_mechanism *m = base;
    if (m->lo > m->hi) {
        return pf__yaml_refuse(error, node->at, "%s: lo %.6g is above hi %.6g; swap them", path,
                               m->lo, m->hi);
    }
    return PF_OK;
}

static pf_status check_probe(const pf__yaml_node *node, const void *base, const char *path,
                             pf_error *error)
{
    const pf_config_probe *p = base;
    bool command = p->command.value != NULL;
    bool pulse = p->pulse_mechanism != NULL;
    if (command == pulse) {
        return pf__yaml_refuse(error, node->at, "%s: has %s; give one of them", path,
                               command ? "both command and pulse" : "neither command nor pulse");
    }
    return PF_OK;
}

static pf_status check_task(const pf__yaml_node *node, const void *base, const char *path,
                            pf_error *error)
{
    const pf_config_task *t = base;
    if (t->command.value != NULL && t->policy != NULL) {
        return pf__yaml_refuse(error, node->at, "%s: has both command and policy; keep one", path);
    }
    return PF_OK;
}

static pf_status check_config(const pf__yaml_node *node, const void *base, const char *path,
                              pf_error *error)
{
    (void)path;
    const pf_config *c = base;
    for (int i = 1; i < c->grid.n; i++) {
        if (c->grid.value[i] <= c->grid.value[i - 1]) {
            return pf__yaml_refuse(error, pf__yaml_get(node, "grid")->at,
                                   "grid: must ascend, but %.6g follows %.6g; sort it",
                                   c->grid.value[i], c->grid.value[i - 1]);
        }
    }
    double sum = 0;
    for (int i = 0; i < c->prior.n; i++) {
        sum += c->prior.value[i];
    }
    if (c->prior.n > 1 && fabs(sum - 1) > 1e-9) {
        return pf__yaml_refuse(error, pf__yaml_get(node, "prior")->at,
                               "prior: sums to %.12g; the probabilities must sum to 1", sum);
    }
    return PF_OK;
}

static const rule matrix_element = {"", KIND_NUMBER, 0, -DBL_MAX, DBL_MAX, 0, NULL, "a command"};
static const shape matrix_shape = {.element = &matrix_element};

static const rule ref_element = {"", KIND_NAME, 0, 1, 64, 0, NULL, "a name or an index"};
static const shape refs_shape = {.single = &ref_element, .element = &ref_element};

static const rule mechanism_rows[] = {
    {"name", KIND_NAME, REQUIRED, 1, 64, offsetof(pf_config_mechanism, name), NULL,
     "what the mechanism is called"},
    {"lo", KIND_NUMBER, 0, -DBL_MAX, DBL_MAX, offsetof(pf_config_mechanism, lo), NULL,
     "least command"},
    {"hi", KIND_NUMBER, 0, -DBL_MAX, DBL_MAX, offsetof(pf_config_mechanism, hi), NULL,
     "greatest command"},
};
static const schema mechanism_object = {mechanism_rows, COUNT(mechanism_rows),
                                        sizeof(pf_config_mechanism),
                                        offsetof(pf_config_mechanism, place), check_mechanism};
static const shape mechanism_shape = {.object = &mechanism_object};
static const rule mechanism_element = {"",           KIND_OBJECT, 0, 0, 0, 0, &mechanism_shape,
                                       "a mechanism"};
static const shape mechanism_list = {.object = &mechanism_object,
                                     .element = &mechanism_element,
                                     .count = offsetof(pf_config, n_mechanisms)};

static const rule channel_rows[] = {
    {"name", KIND_NAME, REQUIRED, 1, 64, offsetof(pf_config_channel, name), NULL,
     "what the channel is called"},
    {"scale", KIND_NUMBER, OPEN_MIN, 0, DBL_MAX, offsetof(pf_config_channel, scale), NULL,
     "responses are divided by it"},
};
static const schema channel_object = {channel_rows, COUNT(channel_rows), sizeof(pf_config_channel),
                                      offsetof(pf_config_channel, place), NULL};
static const shape channel_shape = {.object = &channel_object};
static const rule channel_element = {"", KIND_OBJECT, 0, 0, 0, 0, &channel_shape, "a channel"};
static const shape channel_list = {.object = &channel_object,
                                   .element = &channel_element,
                                   .count = offsetof(pf_config, n_channels)};

static const rule pulse_rows[] = {
    {"mechanism", KIND_NAME, REQUIRED, 1, 64, offsetof(pf_config_probe, pulse_mechanism), NULL,
     "name or index of the mechanism that is pulsed"},
    {"amplitude", KIND_NUMBER, REQUIRED | NONZERO, -DBL_MAX, DBL_MAX,
     offsetof(pf_config_probe, pulse_amplitude), NULL,
     "height of the pulse in units of the command"},
    {"steps", KIND_COUNT, 0, 1, 65536, offsetof(pf_config_probe, pulse_steps), NULL,
     "length of the pulse in control steps"},
};
static const schema pulse_object = {pulse_rows, COUNT(pulse_rows), 0, 0, NULL};
static const shape pulse_shape = {.object = &pulse_object};

static const rule probe_rows[] = {
    {"name", KIND_NAME, REQUIRED, 1, 64, offsetof(pf_config_probe, name), NULL,
     "what the probe is called"},
    {"command", KIND_MATRIX, 0, 1, 65536, offsetof(pf_config_probe, command), &matrix_shape,
     "one row per control step, one number per mechanism"},
    {"pulse", KIND_OBJECT, 0, 0, 0, 0, &pulse_shape, "a constant command to one mechanism"},
    {"charge", KIND_NUMBER, OPEN_MIN, 0, DBL_MAX, offsetof(pf_config_probe, charge), NULL,
     "what running the probe costs"},
    {"targets", KIND_REFS, 0, 1, 256, offsetof(pf_config_probe, targets), &refs_shape,
     "names or indices of the mechanisms that it tests"},
};
static const schema probe_object = {probe_rows, COUNT(probe_rows), sizeof(pf_config_probe),
                                    offsetof(pf_config_probe, place), check_probe};
static const shape probe_shape = {.object = &probe_object};
static const rule probe_element = {"", KIND_OBJECT, 0, 0, 0, 0, &probe_shape, "a probe"};
static const shape probe_list = {
    .object = &probe_object, .element = &probe_element, .count = offsetof(pf_config, n_probes)};

static const rule task_rows[] = {
    {"name", KIND_NAME, REQUIRED, 1, 64, offsetof(pf_config_task, name), NULL,
     "what the task is called"},
    {"mechanisms", KIND_REFS, 0, 1, 256, offsetof(pf_config_task, mechanisms), &refs_shape,
     "names or indices of the mechanisms that it uses"},
    {"command", KIND_MATRIX, 0, 1, 65536, offsetof(pf_config_task, command), &matrix_shape,
     "one row per control step, one number per mechanism"},
    {"policy", KIND_NAME, 0, 1, 64, offsetof(pf_config_task, policy), NULL,
     "a closed loop that the plant offers"},
    {"reveal", KIND_NUMBER, 0, 0, DBL_MAX, offsetof(pf_config_task, reveal), NULL,
     "how likely the task is asked for"},
    {"importance", KIND_NUMBER, 0, 0, DBL_MAX, offsetof(pf_config_task, importance), NULL,
     "how much the task matters"},
};
static const schema task_object = {task_rows, COUNT(task_rows), sizeof(pf_config_task),
                                   offsetof(pf_config_task, place), check_task};
static const shape task_shape = {.object = &task_object};
static const rule task_element = {"", KIND_OBJECT, 0, 0, 0, 0, &task_shape, "a task"};
static const shape task_list = {
    .object = &task_object, .element = &task_element, .count = offsetof(pf_config, n_tasks)};

static const rule budget_rows[] = {
    {"stage1", KIND_COUNT, 0, 1, 100000, offsetof(pf_config, budget_stage1), NULL,
     "opportunities to look for a change"},
    {"stage2", KIND_COUNT, 0, 0, 100000, offsetof(pf_config, budget_stage2), NULL,
     "recovery probes after an alarm"},
};
static const schema budget_object = {budget_rows, COUNT(budget_rows), 0, 0, NULL};
static const shape budget_shape = {.object = &budget_object};

static const rule grid_single = {"", KIND_WHOLE, 0, 2, 256, 0, NULL, "points, or a list of gains"};
static const rule grid_element = {"", KIND_NUMBER, OPEN, 0, 1, 0, NULL, "a gain"};
static const shape grid_shape = {.single = &grid_single, .element = &grid_element};
static const rule prior_single = {
    "", KIND_NUMBER, OPEN, 0, 1, 0, NULL, "P(change), or a list for 'none' and each candidate"};
static const rule prior_element = {"", KIND_NUMBER, 0, 0, 1, 0, NULL, "a probability"};
static const shape prior_shape = {.single = &prior_single, .element = &prior_element};

static const rule config_rows[] = {
    {"plant", KIND_TEXT, 0, 1, 4096, offsetof(pf_config, plant), NULL, "name of the plant"},
    {"mechanisms", KIND_LIST, 0, 1, 256, offsetof(pf_config, mechanisms), &mechanism_list,
     "what can be commanded, current one first"},
    {"channels", KIND_LIST, 0, 1, 4096, offsetof(pf_config, channels), &channel_list,
     "what is measured"},
    {"probes", KIND_LIST, 0, 1, 4096, offsetof(pf_config, probes), &probe_list,
     "experiments that may be run"},
    {"tasks", KIND_LIST, 0, 1, 4096, offsetof(pf_config, tasks), &task_list,
     "what the machine is needed for"},
    {"g_cal", KIND_NUMBER, OPEN, 0, 1, offsetof(pf_config, g_cal), NULL,
     "gain that probes are calibrated at"},
    {"grid", KIND_NUMBERS, 0, 2, 256, offsetof(pf_config, grid), &grid_shape,
     "gains that severity is told apart at"},
    {"bins", KIND_COUNT, 0, 2, 64, offsetof(pf_config, bins), NULL, "categories of a score"},
    {"episodes", KIND_COUNT, 0, 2, 1000000, offsetof(pf_config, episodes), NULL,
     "calibration episodes per class"},
    {"prior", KIND_NUMBERS, 0, 2, 256, offsetof(pf_config, prior), &prior_shape,
     "belief before the first probe"},
    {"hazard", KIND_NUMBER, OPEN_MAX, 0, 1, offsetof(pf_config, hazard), NULL,
     "P(change) at each opportunity"},
    {"budget", KIND_OBJECT, 0, 0, 0, 0, &budget_shape, "how many probes may be run"},
    {"alpha", KIND_NUMBER, OPEN, 0, 1, offsetof(pf_config, alpha), NULL, "risk of the certificate"},
    {"j_min", KIND_NUMBER, 0, 0, 1, offsetof(pf_config, j_min), NULL, "return that a go needs"},
    {"stop", KIND_STOP, 0, 0, 0, offsetof(pf_config, stop), NULL, "what an alarm does to stage 1"},
    {"require_probe", KIND_FLAG, 0, 0, 0, offsetof(pf_config, require_probe), NULL,
     "whether an unprobed mechanism blocks its tasks"},
    {"sensor_noise", KIND_NUMBER, 0, 0, 1e6, offsetof(pf_config, sensor_noise), NULL,
     "noise added to what is measured"},
    {"seed", KIND_WHOLE, 0, 0, WHOLE_MAX, offsetof(pf_config, seed), NULL, "of all random draws"},
};
static const schema config_object = {config_rows, COUNT(config_rows), sizeof(pf_config), 0,
                                     check_config};

static pf_status read_value(reader *r, const rule *row, const pf__yaml_node *node, char *base);

// Adds a segment to the path and returns the length to cut it back to.
static size_t push(reader *r, const char *key, int index)
{
    size_t n = strlen(r->path);
    const char *dot = n > 0 ? "." : "";
    if (key != NULL) {
        snprintf(r->path + n, sizeof r->path - n, "%s%s", dot, key);
    } else {
        snprintf(r->path + n, sizeof r->path - n, "%s%d", dot, index);
    }
    return n;
}

static pf_status no_memory(reader *r)
{
    return pf_fail(r->error, PF_ERR_MEMORY, "%s: not enough memory to read it", r->path);
}

// The keys of an object in a row, for messages.
static const char *list_keys(char *out, size_t size, const schema *object)
{
    size_t used = 0;
    for (int i = 0; i < object->n && used < size; i++) {
        int n = snprintf(out + used, size - used, "%s%s", i > 0 ? ", " : "", object->rows[i].key);
        used += (size_t)n;
    }
    return out;
}

static void describe_number(char *out, size_t size, const rule *row)
{
    bool below = row->min > -DBL_MAX;
    bool above = row->max < DBL_MAX;
    if (below && above) {
        snprintf(out, size, "a number in %c%g, %g%c", row->flags & OPEN_MIN ? '(' : '[', row->min,
                 row->max, row->flags & OPEN_MAX ? ')' : ']');
    } else if (below) {
        snprintf(out, size, "a finite number %s %g",
                 row->flags & OPEN_MIN ? "above" : "of at least", row->min);
    } else {
        snprintf(out, size, "a finite number%s", row->flags & NONZERO ? " other than 0" : "");
    }
}

// What a row wants: "must be ...".
static const char *describe_row(char *out, size_t size, const rule *row)
{
    switch (row->kind) {
    case KIND_TEXT:
    case KIND_NAME:
        snprintf(out, size, "text of %g to %g bytes%s", row->min, row->max,
                 row->kind == KIND_NAME ? " without commas, quotes and control characters"
                                        : " without control characters");
        break;
    case KIND_NUMBER:
        describe_number(out, size, row);
        break;
    case KIND_WHOLE:
    case KIND_COUNT:
        snprintf(out, size, "a whole number from %.16g to %.16g", row->min, row->max);
        break;
    case KIND_FLAG:
        snprintf(out, size, "true or false");
        break;
    case KIND_STOP:
        snprintf(out, size, "break or latch");
        break;
    case KIND_NUMBERS:
    case KIND_REFS:
        snprintf(out, size, "a list of %g to %g %s", row->min, row->max,
                 row->kind == KIND_REFS ? "names" : "numbers");
        break;
    case KIND_MATRIX:
        snprintf(out, size, "a list of 1 to %g rows, each a list of 1 to 256 numbers", row->max);
        break;
    case KIND_OBJECT: {
        char keys[160];
        snprintf(out, size, "a mapping of %s", list_keys(keys, sizeof keys, row->shape->object));
        break;
    }
    case KIND_LIST:
        snprintf(out, size, "a list of %g to %g mappings", row->min, row->max);
        break;
    }
    return out;
}

static void describe_node(char *out, size_t size, const pf__yaml_node *node)
{
    if (node->kind == PF__YAML_SEQUENCE) {
        snprintf(out, size, "a list of %d", node->n);
    } else if (node->kind == PF__YAML_MAPPING) {
        snprintf(out, size, "a mapping");
    } else if (pf__yaml_is_null(node)) {
        snprintf(out, size, "empty");
    } else {
        char shown[SHOWN_SIZE];
        pf__yaml_shown(shown, sizeof shown, node->text);
        snprintf(out, size, "%s'%s'", node->quoted ? "quoted " : "", shown);
    }
}

static pf_status refuse_value(reader *r, const rule *row, const pf__yaml_node *node)
{
    char want[200], got[SHOWN_SIZE + 16];
    describe_row(want, sizeof want, row);
    describe_node(got, sizeof got, node);
    return pf__yaml_refuse(r->error, node->at, "%s: must be %s, not %s (%s)", r->path, want, got,
                           row->help);
}

// The number that a plain scalar is: digits, a point, an exponent, nothing else that strtod would
// take, and no leading zero, which YAML 1.1 reads as octal.
static bool parse_number(const pf__yaml_node *node, bool whole, double *value)
{
    if (node->kind != PF__YAML_SCALAR || node->quoted) {
        return false;
    }
    const char *s = node->text + (node->text[0] == '+' || node->text[0] == '-');
    const char *digits = "0123456789";
    size_t before = strspn(s, digits);
    if (before > 1 && s[0] == '0') {
        return false;
    }
    s += before;
    size_t after = 0;
    if (*s == '.' && !whole) {
        after = strspn(++s, digits);
        s += after;
    }
    if (before + after > 0 && (*s == 'e' || *s == 'E') && !whole) {
        s++;
        s += *s == '+' || *s == '-';
        size_t exponent = strspn(s, digits);
        s += exponent;
        after = exponent > 0 ? after : 0;
        before = exponent > 0 ? before : 0;
    }
    if (before + after == 0 || *s != '\0') {
        return false;
    }
    char *end;
    *value = strtod(node->text, &end);
    return *end == '\0' && isfinite(*value);
}

static pf_status read_number(reader *r, const rule *row, const pf__yaml_node *node, double *value)
{
    double x;
    bool whole = row->kind != KIND_NUMBER;
    if (!parse_number(node, whole, &x) || x < row->min || x > row->max ||
        (x == row->min && row->flags & OPEN_MIN) || (x == row->max && row->flags & OPEN_MAX) ||
        (x == 0 && row->flags & NONZERO)) {
        return refuse_value(r, row, node);
    }
    *value = x;
    return PF_OK;
}

// One of two words: *value is the index of the one that the node is.
static pf_status read_word(reader *r, const rule *row, const pf__yaml_node *node,
                           const char *const words[2], int *value)
{
    for (int i = 0; i < 2; i++) {
        bool flag = row->kind == KIND_FLAG;
        if (node->kind == PF__YAML_SCALAR && !(flag && node->quoted) &&
            strcmp(node->text, words[i]) == 0) {
            *value = i;
            return PF_OK;
        }
    }
    return refuse_value(r, row, node);
}

static bool text_fits(const char *text, bool name)
{
    for (const unsigned char *s = (const unsigned char *)text; *s != '\0'; s++) {
        // the second test is for U+0080 to U+009F
        if (*s < 0x20 || *s == 0x7f || (*s == 0xc2 && s[1] < 0xa0)) {
            return false;
        }
        if (name && strchr(",'\"", *s) != NULL) {
            return false;
        }
    }
    return true;
}

static pf_status read_text(reader *r, const rule *row, const pf__yaml_node *node, char **text)
{
    if (node->kind != PF__YAML_SCALAR || pf__yaml_is_null(node)) {
        return refuse_value(r, row, node);
    }
    size_t n = strlen(node->text);
    if (n < row->min || n > row->max || !text_fits(node->text, row->kind != KIND_TEXT)) {
        return refuse_value(r, row, node);
    }
    *text = pf__yaml_copy(node->text, n);
    return *text != NULL ? PF_OK : no_memory(r);
}

// Whether a node is a list with as many items as the row allows.
static bool is_list(const rule *row, const pf__yaml_node *node)
{
    return node->kind == PF__YAML_SEQUENCE && node->n >= row->min && node->n <= row->max;
}

// Reads the items of a list to base, base + stride, ...
static pf_status read_items(reader *r, const rule *element, const pf__yaml_node *list, char *base,
                            size_t stride)
{
    int i = 0;
    for (const pf__yaml_node *item = list->first; item != NULL; item = item->next, i++) {
        size_t cut = push(r, NULL, i);
        pf_status status = read_value(r, element, item, base + (size_t)i * stride);
        if (status != PF_OK) {
            return status;
        }
        r->path[cut] = '\0';
    }
    return PF_OK;
}

// Reads one value or a list of them into a new array. The owner has it at once, so that it is freed
// whatever follows.
static pf_status read_array(reader *r, const rule *row, const pf__yaml_node *node, int *n,
                            void *owner, size_t stride)
{
    bool list = node->kind == PF__YAML_SEQUENCE;
    if ((list || row->shape->single == NULL) && !is_list(row, node)) {
        return refuse_value(r, row, node);
    }
    size_t count = list ? (size_t)node->n : 1;
    void *array = calloc(count, stride);
    if (array == NULL) {
        return no_memory(r);
    }
    memcpy(owner, &array, sizeof array);
    *n = (int)count;
    return list ? read_items(r, row->shape->element, node, array, stride)
                : read_value(r, row->shape->single, node, array);
}

// Refuses rows that are no lists of numbers of one length.
static pf_status check_rows(reader *r, const rule *row, const pf__yaml_node *node)
{
    for (const pf__yaml_node *line = node->first; line != NULL; line = line->next) {
        if (line->kind != PF__YAML_SEQUENCE || line->n < 1 || line->n > 256) {
            return refuse_value(r, row, line);
        }
        if (line->n != node->first->n) {
            return pf__yaml_refuse(r->error, line->at,
                                   "%s: a row of %d, the first has %d; make them equally long",
                                   r->path, line->n, node->first->n);
        }
    }
    return PF_OK;
}

static pf_status read_matrix(reader *r, const rule *row, const pf__yaml_node *node,
                             pf_config_matrix *matrix)
{
    if (!is_list(row, node)) {
        return refuse_value(r, row, node);
    }
    pf_status status = check_rows(r, row, node);
    if (status != PF_OK) {
        return status;
    }
    // at most as many numbers as a tree has nodes, so the product is small
    size_t columns = (size_t)node->first->n;
    matrix->value = calloc((size_t)node->n * columns, sizeof *matrix->value);
    if (matrix->value == NULL) {
        return no_memory(r);
    }
    matrix->rows = node->n;
    matrix->columns = (int)columns;
    double *value = matrix->value;
    int i = 0;
    for (const pf__yaml_node *line = node->first; line != NULL; line = line->next, i++) {
        size_t cut = push(r, NULL, i);
        status = read_items(r, row->shape->element, line, (char *)value, sizeof *value);
        if (status != PF_OK) {
            return status;
        }
        r->path[cut] = '\0';
        value += columns;
    }
    return PF_OK;
}

// Reads an array of structs. Names are how tasks, probes and recordings refer to one another, so
// they must differ.
static pf_status read_list(reader *r, const rule *row, const pf__yaml_node *node, char *base)
{
    const schema *object = row->shape->object;
    int *n = (int *)(base + row->shape->count);
    pf_status status = read_array(r, row, node, n, base + row->offset, object->size);
    if (status != PF_OK) {
        return status;
    }
    int i = 0;
    for (const pf__yaml_node *item = node->first; item != NULL; item = item->next, i++) {
        const pf__yaml_node *name = pf__yaml_get(item, object->rows[0].key);
        int j = 0;
        for (const pf__yaml_node *other = node->first; other != item; other = other->next, j++) {
            if (strcmp(pf__yaml_get(other, object->rows[0].key)->text, name->text) == 0) {
                return pf__yaml_refuse(r->error, name->at,
                                       "%s: %d and %d are both called '%s'; rename one", r->path, j,
                                       i, name->text);
            }
        }
    }
    return PF_OK;
}

static void set_defaults(const schema *object, char *base)
{
    for (int i = 0; i < object->n; i++) {
        char *at = base + object->rows[i].offset;
        switch (object->rows[i].kind) {
        case KIND_NUMBER:
        case KIND_WHOLE:
            *(double *)at = NAN;
            break;
        case KIND_COUNT:
        case KIND_FLAG:
        case KIND_STOP:
            *(int *)at = -1;
            break;
        case KIND_OBJECT:
            set_defaults(object->rows[i].shape->object, at);
            break;
        default: // nothing, and all zero already
            break;
        }
    }
}

static pf_status refuse_key(reader *r, const schema *object, const pf__yaml_node *child)
{
    const char *known[COUNT(config_rows)];
    for (int i = 0; i < object->n; i++) {
        known[i] = object->rows[i].key;
    }
    char shown[SHOWN_SIZE];
    pf__yaml_shown(shown, sizeof shown, child->key);
    push(r, shown, 0);
    const char *near = pf_nearest_word(child->key, known, object->n);
    if (near != NULL) {
        return pf__yaml_refuse(r->error, child->key_at, "%s: unknown key; did you mean '%s'?",
                               r->path, near);
    }
    char keys[200];
    return pf__yaml_refuse(r->error, child->key_at, "%s: unknown key; use one of %s", r->path,
                           list_keys(keys, sizeof keys, object));
}

static const rule *find_row(const schema *object, const char *key)
{
    for (int i = 0; i < object->n; i++) {
        if (strcmp(object->rows[i].key, key) == 0) {
            return &object->rows[i];
        }
    }
    return NULL;
}

static pf_status read_object(reader *r, const rule *row, const pf__yaml_node *node, char *base)
{
    const schema *object = row->shape->object;
    set_defaults(object, base);
    if (node->kind != PF__YAML_MAPPING) {
        return refuse_value(r, row, node);
    }
    if (object->place > 0) {
        *(pf_place *)(base + object->place) = (pf_place){node->at.line, node->at.column};
    }
    for (const pf__yaml_node *child = node->first; child != NULL; child = child->next) {
        const rule *found = find_row(object, child->key);
        if (found == NULL) {
            return refuse_key(r, object, child);
        }
        size_t cut = push(r, found->key, 0);
        pf_status status = read_value(r, found, child, base);
        if (status != PF_OK) {
            return status;
        }
        r->path[cut] = '\0';
    }
    for (int i = 0; i < object->n; i++) {
        const rule *wanted = &object->rows[i];
        if (wanted->flags & REQUIRED && pf__yaml_get(node, wanted->key) == NULL) {
            push(r, wanted->key, 0);
            return pf__yaml_refuse(r->error, node->at, "%s: is missing (%s)", r->path,
                                   wanted->help);
        }
    }
    return object->check != NULL ? object->check(node, base, r->path, r->error) : PF_OK;
}

static pf_status read_value(reader *r, const rule *row, const pf__yaml_node *node, char *base)
{
    static const char *const flags[] = {"false", "true"};
    static const char *const stops[] = {[PF_STOP_BREAK] = "break", [PF_STOP_LATCH] = "latch"};
    char *at = base + row->offset;
    switch (row->kind) {
    case KIND_TEXT:
    case KIND_NAME:
        return read_text(r, row, node, (char **)at);
    case KIND_NUMBER:
    case KIND_WHOLE:
        return read_number(r, row, node, (double *)at);
    case KIND_COUNT: {
        double x = -1;
        pf_status status = read_number(r, row, node, &x);
        *(int *)at = (int)x;
        return status;
    }
    case KIND_FLAG:
        return read_word(r, row, node, flags, (int *)at);
    case KIND_STOP:
        return read_word(r, row, node, stops, (int *)at);
    case KIND_NUMBERS: {
        pf_config_numbers *numbers = (pf_config_numbers *)at;
        return read_array(r, row, node, &numbers->n, &numbers->value, sizeof *numbers->value);
    }
    case KIND_REFS: {
        pf_config_refs *refs = (pf_config_refs *)at;
        return read_array(r, row, node, &refs->n, &refs->text, sizeof *refs->text);
    }
    case KIND_MATRIX:
        return read_matrix(r, row, node, (pf_config_matrix *)at);
    case KIND_OBJECT:
        return read_object(r, row, node, at);
    case KIND_LIST:
        return read_list(r, row, node, base);
    }
    return pf_fail(r->error, PF_ERR_INTERNAL, "%s: the schema has no such kind", r->path);
}

static void free_object(const schema *object, char *base);

static void free_list(const rule *row, char *base)
{
    char *items;
    memcpy(&items, base + row->offset, sizeof items);
    int n = *(int *)(base + row->shape->count);
    for (int i = 0; i < n; i++) {
        free_object(row->shape->object, items + (size_t)i * row->shape->object->size);
    }
    free(items);
}

static void free_object(const schema *object, char *base)
{
    for (int i = 0; i < object->n; i++) {
        const rule *row = &object->rows[i];
        char *at = base + row->offset;
        switch (row->kind) {
        case KIND_TEXT:
        case KIND_NAME:
            free(*(char **)at);
            break;
        case KIND_NUMBERS:
            free(((pf_config_numbers *)at)->value);
            break;
        case KIND_MATRIX:
            free(((pf_config_matrix *)at)->value);
            break;
        case KIND_REFS: {
            pf_config_refs *refs = (pf_config_refs *)at;
            for (int j = 0; j < refs->n; j++) {
                free(refs->text[j]);
            }
            free(refs->text);
            break;
        }
        case KIND_OBJECT:
            free_object(row->shape->object, at);
            break;
        case KIND_LIST:
            free_list(row, base);
            break;
        default: // a number
            break;
        }
    }
}

void pf_config_free(pf_config *config)
{
    if (config != NULL) {
        free_object(&config_object, (char *)config);
        free(config->file);
        memset(config, 0, sizeof *config);
    }
}

bool pf_config_supported(void)
{
    return pf__yaml_supported();
}

// The tree of the text with the overrides in it.
static pf_status read_tree(pf__yaml_node **root, const char *file, const char *text, size_t n,
                           const char *const *overrides, int n_overrides, pf_error *error)
{
    pf_status status = PF_OK;
    if (text != NULL && n > 0) {
        status = pf__yaml_read(root, file, text, n, error);
    } else {
        *root = pf__yaml_mapping(file);
        if (*root == NULL) {
            status = pf_fail(error, PF_ERR_MEMORY, "%s: not enough memory to read it", file);
        }
    }
    if (status == PF_OK && (*root)->kind != PF__YAML_MAPPING) {
        status = pf__yaml_refuse(error, (*root)->at, "must be a mapping; write it as key: value");
    }
    for (int i = 0; i < n_overrides && status == PF_OK; i++) {
        status = pf__yaml_set(*root, overrides[i], error);
    }
    return status;
}

pf_status pf_config_read(pf_config *config, const char *file, const char *text, size_t n,
                         const char *const *overrides, int n_overrides, pf_error *error)
{
    static const shape config_shape = {.object = &config_object};
    static const rule root_row = {"", KIND_OBJECT, 0, 0, 0, 0, &config_shape, "the configuration"};
    memset(config, 0, sizeof *config);
    const char *called = file != NULL ? file : "--set";
    config->file = pf__yaml_copy(called, strlen(called));
    if (config->file == NULL) {
        return pf_fail(error, PF_ERR_MEMORY, "%s: not enough memory to read it", called);
    }
    pf__yaml_node *root = NULL;
    reader r = {.error = error};
    pf_status status = read_tree(&root, called, text, n, overrides, n_overrides, error);
    if (status == PF_OK) {
        status = read_value(&r, &root_row, root, (char *)config);
    }
    pf__yaml_free(root);
    if (status != PF_OK) {
        pf_config_free(config);
    }
    return status;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

// Levenshtein distance of two words of at most WORD_MAX bytes.
static int edit_distance(const char *a, const char *b)
{
    int n = (int)strlen(b);
    int cost[WORD_MAX + 1];
    for (int j = 0; j <= n; j++) {
        cost[j] = j;
    }
    for (int i = 1; a[i - 1] != '\0'; i++) {
        int diagonal = cost[0];
        cost[0] = i;
        for (int j = 1; j <= n; j++) {
            int replaced = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = cost[j];
            cost[j] = least(replaced, least(cost[j - 1], cost[j]) + 1);
        }
    }
    return cost[n];
}

const char *pf_nearest_word(const char *word, const char *const *known, int n)
{
    size_t length = strlen(word);
    if (length > WORD_MAX) {
        return NULL;
    }
    const char *nearest = NULL;
    int limit = least(3, (int)length / 2);
    for (int i = 0; i < n; i++) {
        if (strlen(known[i]) > WORD_MAX) {
            continue;
        }
        int distance = edit_distance(word, known[i]);
        if (distance <= limit) {
            nearest = known[i];
            limit = distance - 1;
        }
    }
    return nearest;
}
