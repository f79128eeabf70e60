// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "schema.h"
#include "host/text.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_SIZE 60
// Keys of the largest object a nearest one is looked for in.
#define KEYS_MAX 64

// --- the nearest word

// Longest word that a nearest one is looked for.
#define WORD_MAX 64

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

const char *pf__nearest_word(const char *word, const char *const *known, int n)
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

// --- reading

// Where a reader stands.
typedef struct reader {
    pf_error *error;
    char path[128]; // "probes.0.charge"; made of known keys and indices only, so it fits
} reader;

static pf_status read_value(reader *r, const pf_schema_row *row, const pf__yaml_node *node,
                            char *base);

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
static const char *list_keys(char *out, size_t size, const pf_schema *object)
{
    size_t used = 0;
    for (int i = 0; i < object->n && used < size; i++) {
        int n = snprintf(out + used, size - used, "%s%s", i > 0 ? ", " : "", object->rows[i].key);
        used += (size_t)n;
    }
    return out;
}

// Whether an item of a list may be its name alone.
static bool takes_name(const pf_schema *object)
{
    return (object->rows[0].flags & PF_ROW_ALONE) != 0;
}

// The name of an item, which has been read and so has one.
static const pf__yaml_node *name_of(const pf_schema *object, const pf__yaml_node *item)
{
    return item->kind == PF__YAML_SCALAR ? item : pf__yaml_get(item, object->rows[0].key);
}

static int count_words(const char *const *words)
{
    int n = 0;
    while (words[n]) {
        n++;
    }
    return n;
}

// "break or latch", "auto, pulse or residual"
static void list_words(char *out, size_t size, const char *const *words)
{
    int n = count_words(words), used = 0;
    for (int i = 0; i < n && used >= 0 && (size_t)used < size; i++) {
        used += snprintf(out + used, size - (size_t)used, "%s%s",
                         i == 0       ? ""
                         : i == n - 1 ? " or "
                                      : ", ",
                         words[i]);
    }
}

static void describe_number(char *out, size_t size, const pf_schema_row *row)
{
    bool below = row->min > -DBL_MAX;
    bool above = row->max < DBL_MAX;
    if (below && above) {
        pf__print(out, size, "a number in %c%g, %g%c", row->flags & PF_ROW_OPEN_MIN ? '(' : '[',
                  row->min, row->max, row->flags & PF_ROW_OPEN_MAX ? ')' : ']');
    } else if (below) {
        pf__print(out, size, "a finite number %s %g",
                  row->flags & PF_ROW_OPEN_MIN ? "above" : "of at least", row->min);
    } else {
        snprintf(out, size, "a finite number%s",
                 row->flags & PF_ROW_NONZERO ? " other than 0" : "");
    }
}

void pf__schema_range(const pf_schema_row *row, char *out, size_t size)
{
    int used = 0;
    switch (row->kind) {
    case PF_KIND_NUMBER:
        pf__print(out, size, "%c%g, %g%c", row->flags & PF_ROW_OPEN_MIN ? '(' : '[', row->min,
                  row->max, row->flags & PF_ROW_OPEN_MAX ? ')' : ']');
        break;
    case PF_KIND_WHOLE:
    case PF_KIND_COUNT:
        pf__print(out, size, "%.16g..%.16g", row->min, row->max);
        break;
    case PF_KIND_FLAG:
        snprintf(out, size, "true|false");
        break;
    case PF_KIND_WORD:
        for (const char *const *w = row->shape->words; *w && (size_t)used < size; w++) {
            used += snprintf(out + used, size - (size_t)used, "%s%s", used > 0 ? "|" : "", *w);
        }
        break;
    case PF_KIND_NUMBERS:
        pf__schema_range(row->shape->single, out, size);
        used = (int)strlen(out);
        snprintf(out + used, size - (size_t)used, " or a list");
        break;
    default:
        snprintf(out, size, "-");
    }
}

// What a row wants: "must be ...".
static const char *describe_row(char *out, size_t size, const pf_schema_row *row)
{
    switch (row->kind) {
    case PF_KIND_TEXT:
    case PF_KIND_NAME:
        pf__print(out, size, "text of %g to %g bytes%s", row->min, row->max,
                  row->kind == PF_KIND_NAME ? " without commas, quotes and control characters"
                                            : " without control characters");
        break;
    case PF_KIND_NUMBER:
        describe_number(out, size, row);
        break;
    case PF_KIND_WHOLE:
    case PF_KIND_COUNT:
        pf__print(out, size, "a whole number from %.16g to %.16g", row->min, row->max);
        break;
    case PF_KIND_FLAG:
        snprintf(out, size, "true or false");
        break;
    case PF_KIND_WORD:
        list_words(out, size, row->shape->words);
        break;
    case PF_KIND_NUMBERS:
    case PF_KIND_REFS:
        pf__print(out, size, "a list of %g to %g %s", row->min, row->max,
                  row->kind == PF_KIND_REFS ? "names" : "numbers");
        break;
    case PF_KIND_GROUPS:
        pf__print(out, size, "a list of %g to %g lists of names", row->min, row->max);
        break;
    case PF_KIND_MATRIX:
        pf__print(out, size, "a list of 1 to %g rows, each a list of 1 to 256 numbers", row->max);
        break;
    case PF_KIND_OBJECT: {
        char keys[160];
        const pf_schema *object = row->shape->object;
        snprintf(out, size, "%sa mapping of %s", takes_name(object) ? "a name or " : "",
                 list_keys(keys, sizeof keys, object));
        break;
    }
    case PF_KIND_LIST:
        pf__print(out, size, "a list of %g to %g %smappings", row->min, row->max,
                  takes_name(row->shape->object) ? "names or " : "");
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
        pf__text_shown(shown, sizeof shown, node->text, strlen(node->text));
        snprintf(out, size, "%s'%s'", node->quoted ? "quoted " : "", shown);
    }
}

static pf_status refuse_value(reader *r, const pf_schema_row *row, const pf__yaml_node *node)
{
    char want[200], got[SHOWN_SIZE + 16];
    describe_row(want, sizeof want, row);
    describe_node(got, sizeof got, node);
    return pf__yaml_refuse(r->error, node->at, "%s: must be %s, not %s (%s)", r->path, want, got,
                           row->help);
}

// The number that a plain scalar is, without a leading zero, which YAML 1.1 reads as octal.
static bool parse_number(const pf__yaml_node *node, bool whole, double *value)
{
    if (node->kind != PF__YAML_SCALAR || node->quoted) {
        return false;
    }
    const char *s = node->text + (node->text[0] == '+' || node->text[0] == '-');
    bool octal = s[0] == '0' && s[1] >= '0' && s[1] <= '9';
    if (octal || !pf__is_decimal(node->text, whole)) {
        return false;
    }
    char *end;
    *value = pf__number_read(node->text, &end);
    return *end == '\0' && isfinite(*value);
}

static pf_status read_number(reader *r, const pf_schema_row *row, const pf__yaml_node *node,
                             double *value)
{
    double x;
    bool whole = row->kind != PF_KIND_NUMBER;
    if (!parse_number(node, whole, &x) || x < row->min || x > row->max ||
        (x == row->min && row->flags & PF_ROW_OPEN_MIN) ||
        (x == row->max && row->flags & PF_ROW_OPEN_MAX) ||
        (x == 0 && row->flags & PF_ROW_NONZERO)) {
        return refuse_value(r, row, node);
    }
    *value = x;
    return PF_OK;
}

// One of n words: *value is the index of the one that the node is.
static pf_status read_word(reader *r, const pf_schema_row *row, const pf__yaml_node *node,
                           const char *const *words, int n, int *value)
{
    for (int i = 0; i < n; i++) {
        bool flag = row->kind == PF_KIND_FLAG;
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

static pf_status read_text(reader *r, const pf_schema_row *row, const pf__yaml_node *node,
                           char **text)
{
    if (node->kind != PF__YAML_SCALAR || pf__yaml_is_null(node)) {
        return refuse_value(r, row, node);
    }
    size_t n = strlen(node->text);
    if (n < row->min || n > row->max || !text_fits(node->text, row->kind != PF_KIND_TEXT)) {
        return refuse_value(r, row, node);
    }
    *text = pf__yaml_copy(node->text, n);
    return *text != NULL ? PF_OK : no_memory(r);
}

// Whether a node is a list with as many items as the row allows.
static bool is_list(const pf_schema_row *row, const pf__yaml_node *node)
{
    return node->kind == PF__YAML_SEQUENCE && node->n >= row->min && node->n <= row->max;
}

// Reads the items of a list to base, base + stride, ...
static pf_status read_items(reader *r, const pf_schema_row *element, const pf__yaml_node *list,
                            char *base, size_t stride)
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
static pf_status read_array(reader *r, const pf_schema_row *row, const pf__yaml_node *node,
                            const pf_schema_row *element, int *n, void *owner, size_t stride)
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
    return list ? read_items(r, element ? element : row->shape->single, node, array, stride)
                : read_value(r, row->shape->single, node, array);
}

// Refuses rows that are no lists of numbers of one length.
static pf_status check_rows(reader *r, const pf_schema_row *row, const pf__yaml_node *node)
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

static pf_status read_matrix(reader *r, const pf_schema_row *row, const pf__yaml_node *node,
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
static pf_status read_list(reader *r, const pf_schema_row *row, const pf__yaml_node *node,
                           char *base)
{
    const pf_schema *object = row->shape->object;
    const pf_schema_row element = {"", PF_KIND_OBJECT, 0, 0, 0, 0, row->shape, object->item};
    int *n = (int *)(base + row->shape->count);
    pf_status status = read_array(r, row, node, &element, n, base + row->offset, object->size);
    if (status != PF_OK) {
        return status;
    }
    int i = 0;
    for (const pf__yaml_node *item = node->first; item != NULL; item = item->next, i++) {
        const pf__yaml_node *name = name_of(object, item);
        int j = 0;
        for (const pf__yaml_node *other = node->first; other != item; other = other->next, j++) {
            if (strcmp(name_of(object, other)->text, name->text) == 0) {
                return pf__yaml_refuse(r->error, name->at,
                                       "%s: %d and %d are both called '%s'; rename one", r->path, j,
                                       i, name->text);
            }
        }
    }
    return PF_OK;
}

static void set_defaults(const pf_schema *object, char *base)
{
    for (int i = 0; i < object->n; i++) {
        char *at = base + object->rows[i].offset;
        switch (object->rows[i].kind) {
        case PF_KIND_NUMBER:
        case PF_KIND_WHOLE:
            *(double *)at = NAN;
            break;
        case PF_KIND_COUNT:
        case PF_KIND_FLAG:
        case PF_KIND_WORD:
            *(int *)at = -1;
            break;
        case PF_KIND_OBJECT:
            set_defaults(object->rows[i].shape->object, at);
            break;
        default: // nothing, and all zero already
            break;
        }
    }
}

static pf_status refuse_key(reader *r, const pf_schema *object, const pf__yaml_node *child)
{
    const char *known[KEYS_MAX];
    int n = object->n < KEYS_MAX ? object->n : KEYS_MAX;
    for (int i = 0; i < n; i++) {
        known[i] = object->rows[i].key;
    }
    char shown[SHOWN_SIZE];
    pf__text_shown(shown, sizeof shown, child->key, strlen(child->key));
    push(r, shown, 0);
    const char *near = pf__nearest_word(child->key, known, n);
    if (near != NULL) {
        return pf__yaml_refuse(r->error, child->key_at, "%s: unknown key; did you mean '%s'?",
                               r->path, near);
    }
    char keys[320];
    return pf__yaml_refuse(r->error, child->key_at, "%s: unknown key; use one of %s", r->path,
                           list_keys(keys, sizeof keys, object));
}

static const pf_schema_row *find_row(const pf_schema *object, const char *key)
{
    for (int i = 0; i < object->n; i++) {
        const pf_schema_shape *shape = object->rows[i].shape;
        const char *old = shape ? shape->old : NULL;
        if (strcmp(object->rows[i].key, key) == 0 || (old && strcmp(old, key) == 0)) {
            return &object->rows[i];
        }
    }
    return NULL;
}

static pf_status read_object(reader *r, const pf_schema_row *row, const pf__yaml_node *node,
                             char *base)
{
    const pf_schema *object = row->shape->object;
    set_defaults(object, base);
    bool alone = node->kind == PF__YAML_SCALAR && takes_name(object) && !pf__yaml_is_null(node);
    if (node->kind != PF__YAML_MAPPING && !alone) {
        return refuse_value(r, row, node);
    }
    if (object->place > 0) {
        *(pf_place *)(base + object->place) = (pf_place){node->at.line, node->at.column};
    }
    if (alone) {
        return read_value(r, &object->rows[0], node, base);
    }
    for (const pf__yaml_node *child = node->first; child != NULL; child = child->next) {
        const pf_schema_row *found = find_row(object, child->key);
        if (found == NULL) {
            return refuse_key(r, object, child);
        }
        // an override comes last, so it wins under either name
        if (strcmp(found->key, child->key) != 0 && child->key_at.line > 0 &&
            pf__yaml_get(node, found->key) && pf__yaml_get(node, found->key)->key_at.line > 0) {
            push(r, child->key, 0);
            return pf__yaml_refuse(r->error, child->key_at,
                                   "%s: is the old name of '%s', which is given too; drop one",
                                   r->path, found->key);
        }
        size_t cut = push(r, child->key, 0);
        pf_status status = read_value(r, found, child, base);
        if (status != PF_OK) {
            return status;
        }
        r->path[cut] = '\0';
    }
    for (int i = 0; i < object->n; i++) {
        const pf_schema_row *wanted = &object->rows[i];
        if (wanted->flags & PF_ROW_REQUIRED && pf__yaml_get(node, wanted->key) == NULL) {
            push(r, wanted->key, 0);
            return pf__yaml_refuse(r->error, node->at, "%s: is missing (%s)", r->path,
                                   wanted->help);
        }
    }
    return object->check != NULL ? object->check(node, base, r->path, r->error) : PF_OK;
}

static pf_status read_value(reader *r, const pf_schema_row *row, const pf__yaml_node *node,
                            char *base)
{
    static const char *const flags[] = {"false", "true"};
    char *at = base + row->offset;
    switch (row->kind) {
    case PF_KIND_TEXT:
    case PF_KIND_NAME:
        return read_text(r, row, node, (char **)at);
    case PF_KIND_NUMBER:
    case PF_KIND_WHOLE:
        return read_number(r, row, node, (double *)at);
    case PF_KIND_COUNT: {
        double x = -1;
        pf_status status = read_number(r, row, node, &x);
        *(int *)at = (int)x;
        return status;
    }
    case PF_KIND_FLAG:
        return read_word(r, row, node, flags, PF_COUNT(flags), (int *)at);
    case PF_KIND_WORD:
        return read_word(r, row, node, row->shape->words, count_words(row->shape->words),
                         (int *)at);
    case PF_KIND_NUMBERS: {
        pf_config_numbers *numbers = (pf_config_numbers *)at;
        return read_array(r, row, node, row->shape->element, &numbers->n, &numbers->value,
                          sizeof *numbers->value);
    }
    case PF_KIND_REFS: {
        pf_config_refs *refs = (pf_config_refs *)at;
        return read_array(r, row, node, row->shape->element, &refs->n, &refs->text,
                          sizeof *refs->text);
    }
    case PF_KIND_GROUPS: {
        pf_config_ref_lists *groups = (pf_config_ref_lists *)at;
        return read_array(r, row, node, row->shape->element, &groups->n, &groups->list,
                          sizeof *groups->list);
    }
    case PF_KIND_MATRIX:
        return read_matrix(r, row, node, (pf_config_matrix *)at);
    case PF_KIND_OBJECT:
        return read_object(r, row, node, at);
    case PF_KIND_LIST:
        return read_list(r, row, node, base);
    }
    return pf_fail(r->error, PF_ERR_INTERNAL, "%s: the schema has no such kind", r->path);
}

static void free_object(const pf_schema *object, char *base);

static void free_list(const pf_schema_row *row, char *base)
{
    char *items;
    memcpy(&items, base + row->offset, sizeof items);
    int n = *(int *)(base + row->shape->count);
    for (int i = 0; i < n; i++) {
        free_object(row->shape->object, items + (size_t)i * row->shape->object->size);
    }
    free(items);
}

static void free_refs(const pf_config_refs *refs)
{
    for (int j = 0; j < refs->n; j++) {
        free(refs->text[j]);
    }
    free(refs->text);
}

static void free_object(const pf_schema *object, char *base)
{
    for (int i = 0; i < object->n; i++) {
        const pf_schema_row *row = &object->rows[i];
        char *at = base + row->offset;
        switch (row->kind) {
        case PF_KIND_TEXT:
        case PF_KIND_NAME:
            free(*(char **)at);
            break;
        case PF_KIND_NUMBERS:
            free(((pf_config_numbers *)at)->value);
            break;
        case PF_KIND_MATRIX:
            free(((pf_config_matrix *)at)->value);
            break;
        case PF_KIND_REFS:
            free_refs((pf_config_refs *)at);
            break;
        case PF_KIND_GROUPS: {
            pf_config_ref_lists *groups = (pf_config_ref_lists *)at;
            for (int j = 0; j < groups->n; j++) {
                free_refs(&groups->list[j]);
            }
            free(groups->list);
            break;
        }
        case PF_KIND_OBJECT:
            free_object(row->shape->object, at);
            break;
        case PF_KIND_LIST:
            free_list(row, base);
            break;
        default: // a number
            break;
        }
    }
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

pf_status pf__schema_read(const pf_schema *schema, const char *what, const char *file,
                          const char *text, size_t n, const char *const *overrides, int n_overrides,
                          void *base, pf_error *error)
{
    const pf_schema_shape shape = {.object = schema};
    const pf_schema_row row = {"", PF_KIND_OBJECT, 0, 0, 0, 0, &shape, what};
    reader r = {.error = error};
    pf__yaml_node *root = NULL;
    pf_status status = read_tree(&root, file, text, n, overrides, n_overrides, error);
    status = status ? status : read_value(&r, &row, root, base);
    pf__yaml_free(root);
    return status;
}

void pf__schema_free(const pf_schema *schema, void *base)
{
    free_object(schema, base);
}
