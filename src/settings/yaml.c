// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "schema.h"
#include "host/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef PF_HAVE_YAML
#include <yaml.h>
#endif

// Longest piece of somebody's text in a message, so that the message itself still fits.
#define SHOWN_SIZE 60
#define SHOWN_ORIGIN_SIZE 120

char *pf__yaml_copy(const char *text, size_t n)
{
    char *copy = malloc(n + 1);
    if (copy != NULL) {
        memcpy(copy, text, n);
        copy[n] = '\0';
    }
    return copy;
}

pf_status pf__yaml_refuse(pf_error *error, pf__yaml_place at, const char *format, ...)
{
    char origin[SHOWN_ORIGIN_SIZE];
    pf__text_shown(origin, sizeof origin, at.origin, strlen(at.origin));
    char what[sizeof error->text];
    va_list arguments;
    va_start(arguments, format);
    pf__vprint(what, sizeof what, format, arguments);
    va_end(arguments);
    if (at.line == 0) {
        return pf_fail(error, PF_ERR_FORMAT, "--set %s: %s", origin, what);
    }
    return pf_fail(error, PF_ERR_FORMAT, "%s:%d:%d: %s", origin, at.line, at.column, what);
}

static pf_status no_memory(pf_error *error, const char *origin)
{
    return pf_fail(error, PF_ERR_MEMORY, "%s: not enough memory to read it", origin);
}

// Frees what a node holds and leaves it without a value; key and siblings stay. The depth of a
// tree is limited where it grows, so recursion is too.
static void clear(pf__yaml_node *node)
{
    for (pf__yaml_node *child = node->first; child != NULL;) {
        pf__yaml_node *next = child->next;
        pf__yaml_free(child);
        child = next;
    }
    free(node->text);
    node->kind = PF__YAML_NONE;
    node->quoted = false;
    node->n = 0;
    node->text = NULL;
    node->first = NULL;
    node->last = NULL;
}

void pf__yaml_free(pf__yaml_node *root)
{
    if (root != NULL) {
        clear(root);
        free(root->key);
        free(root);
    }
}

pf__yaml_node *pf__yaml_mapping(const char *file)
{
    pf__yaml_node *node = calloc(1, sizeof *node);
    if (node != NULL) {
        node->kind = PF__YAML_MAPPING;
        node->at = (pf__yaml_place){file, 1, 1};
    }
    return node;
}

static pf__yaml_node *find(const pf__yaml_node *mapping, const char *key, size_t n)
{
    for (pf__yaml_node *child = mapping->first; child != NULL; child = child->next) {
        if (strncmp(child->key, key, n) == 0 && child->key[n] == '\0') {
            return child;
        }
    }
    return NULL;
}

const pf__yaml_node *pf__yaml_get(const pf__yaml_node *mapping, const char *key)
{
    return find(mapping, key, strlen(key));
}

bool pf__yaml_is_null(const pf__yaml_node *node)
{
    return node->kind == PF__YAML_SCALAR && !node->quoted &&
           (node->text[0] == '\0' || strcmp(node->text, "~") == 0 ||
            strcmp(node->text, "null") == 0);
}

// A new last child without a value; key NULL in a sequence. NULL without memory.
static pf__yaml_node *append(pf__yaml_node *parent, const char *key, size_t n, pf__yaml_place at)
{
    pf__yaml_node *child = calloc(1, sizeof *child);
    if (child == NULL) {
        return NULL;
    }
    if (key != NULL) {
        child->key = pf__yaml_copy(key, n);
        if (child->key == NULL) {
            free(child);
            return NULL;
        }
    }
    child->at = at;
    child->key_at = at;
    if (parent->last != NULL) {
        parent->last->next = child;
    } else {
        parent->first = child;
    }
    parent->last = child;
    parent->n++;
    return child;
}

// Bytes of the character that starts at s, 0 where it is none that YAML allows: no control
// character but tab, line ends and U+0085, neither U+FFFE nor U+FFFF.
static size_t character_bytes(const unsigned char *s, size_t n)
{
    if (s[0] < 0x80) {
        return s[0] == '\t' || s[0] == '\n' || s[0] == '\r' || (s[0] >= 0x20 && s[0] != 0x7f);
    }
    size_t bytes = pf__utf8_size((const char *)s, n);
    bool control = bytes == 2 && s[0] == 0xc2 && s[1] < 0xa0 && s[1] != 0x85;
    bool none = bytes == 3 && s[0] == 0xef && s[1] == 0xbf && s[2] >= 0xbe;
    return control || none ? 0 : bytes;
}

// Refuses what is too long or not text. libyaml would too, but without saying where.
static pf_status check_text(const char *text, size_t n, pf__yaml_place at, pf_error *error)
{
    if (n > PF__YAML_BYTES) {
        return pf__yaml_refuse(error, at, "is larger than 16 MiB; make it smaller");
    }
    const unsigned char *s = (const unsigned char *)text;
    for (size_t i = 0; i < n;) {
        size_t bytes = character_bytes(s + i, n - i);
        if (bytes == 0) {
            return pf__yaml_refuse(error, at, "byte 0x%02x is not text; use UTF-8", s[i]);
        }
        at.column++;
        if (s[i] == '\n' && at.line > 0) {
            at.line++;
            at.column = 1;
        }
        i += bytes;
    }
    return PF_OK;
}

#ifdef PF_HAVE_YAML

// A sequence or mapping that is still open.
typedef struct level {
    pf__yaml_node *node;
    bool value_due; // mapping: its last child has a key only
} level;

typedef struct builder {
    yaml_parser_t parser;
    const char *origin;
    bool in_file; // false: in an override, which has no lines
    pf_error *error;
    pf__yaml_node *root;
    level open[PF__YAML_DEPTH];
    int depth, nodes, documents;
} builder;

static pf__yaml_place place(const builder *b, yaml_mark_t mark)
{
    if (!b->in_file) {
        return (pf__yaml_place){b->origin, 0, 0};
    }
    return (pf__yaml_place){b->origin, (int)mark.line + 1, (int)mark.column + 1};
}

static pf_status parser_error(builder *b)
{
    const yaml_parser_t *p = &b->parser;
    if (p->error == YAML_MEMORY_ERROR) {
        return no_memory(b->error, b->origin);
    }
    const char *problem = p->problem != NULL ? p->problem : "it could not be read";
    bool context = p->context != NULL;
    return pf__yaml_refuse(b->error, place(b, p->problem_mark), "not valid YAML: %s%s%s", problem,
                           context ? ", " : "", context ? p->context : "");
}

// Adds the key that a scalar is to the innermost mapping; its value follows.
static pf_status add_key(builder *b, const yaml_event_t *event, pf__yaml_place at)
{
    level *top = &b->open[b->depth - 1];
    if (event->type != YAML_SCALAR_EVENT) {
        return pf__yaml_refuse(b->error, at, "a key must be a word, not a list or mapping");
    }
    const char *key = (const char *)event->data.scalar.value;
    const pf__yaml_node *same = pf__yaml_get(top->node, key);
    if (same != NULL) {
        char shown[SHOWN_SIZE];
        pf__text_shown(shown, sizeof shown, key, strlen(key));
        if (!b->in_file) {
            return pf__yaml_refuse(b->error, at, "%s: given twice; keep one", shown);
        }
        return pf__yaml_refuse(b->error, at, "%s: given twice, first in line %d; keep one", shown,
                               same->key_at.line);
    }
    if (top->node->n >= PF__YAML_KEYS) {
        return pf__yaml_refuse(b->error, at, "more than %d keys in one mapping", PF__YAML_KEYS);
    }
    top->value_due = true;
    if (append(top->node, key, strlen(key), at) == NULL) {
        return no_memory(b->error, b->origin);
    }
    return PF_OK;
}

// The node that the next value goes to, NULL without memory.
static pf__yaml_node *value_slot(builder *b, pf__yaml_place at)
{
    if (b->depth == 0) {
        b->root = calloc(1, sizeof *b->root);
        return b->root;
    }
    level *top = &b->open[b->depth - 1];
    if (top->node->kind == PF__YAML_SEQUENCE) {
        return append(top->node, NULL, 0, at);
    }
    top->value_due = false;
    return top->node->last;
}

static pf_status open_level(builder *b, pf__yaml_node *node)
{
    if (b->depth == PF__YAML_DEPTH) {
        return pf__yaml_refuse(b->error, node->at, "nested deeper than %d levels", PF__YAML_DEPTH);
    }
    b->open[b->depth++] = (level){node, false};
    return PF_OK;
}

static pf_status add_node(builder *b, const yaml_event_t *event)
{
    pf__yaml_place at = place(b, event->start_mark);
    if (++b->nodes > PF__YAML_NODES) {
        return pf__yaml_refuse(b->error, at, "more than %d values in all", PF__YAML_NODES);
    }
    if (b->depth > 0) {
        const level *top = &b->open[b->depth - 1];
        if (top->node->kind == PF__YAML_MAPPING && !top->value_due) {
            return add_key(b, event, at);
        }
    }
    pf__yaml_node *node = value_slot(b, at);
    if (node == NULL) {
        return no_memory(b->error, b->origin);
    }
    node->at = at;
    if (event->type == YAML_SCALAR_EVENT) {
        node->text =
            pf__yaml_copy((const char *)event->data.scalar.value, event->data.scalar.length);
        if (node->text == NULL) {
            return no_memory(b->error, b->origin);
        }
        node->kind = PF__YAML_SCALAR;
        node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
        return PF_OK;
    }
    bool mapping = event->type == YAML_MAPPING_START_EVENT;
    node->kind = mapping ? PF__YAML_MAPPING : PF__YAML_SEQUENCE;
    return open_level(b, node);
}

// Refuses an anchor or a tag: they make a text mean something else than it shows.
static pf_status check_properties(builder *b, yaml_mark_t mark, const yaml_char_t *anchor,
                                  const yaml_char_t *tag)
{
    if (anchor != NULL) {
        return pf__yaml_refuse(b->error, place(b, mark),
                               "anchors (&name) are not supported; remove it");
    }
    if (tag != NULL) {
        return pf__yaml_refuse(b->error, place(b, mark),
                               "tags (!name) are not supported; remove it");
    }
    return PF_OK;
}

static pf_status check_event(builder *b, const yaml_event_t *event)
{
    yaml_mark_t mark = event->start_mark;
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (b->documents++ > 0) {
            return pf__yaml_refuse(b->error, place(b, mark), "a second document; keep one");
        }
        return PF_OK;
    case YAML_ALIAS_EVENT:
        return pf__yaml_refuse(b->error, place(b, mark),
                               "aliases (*name) are not supported; write the value out");
    case YAML_SCALAR_EVENT:
        if (memchr(event->data.scalar.value, '\0', event->data.scalar.length) != NULL) {
            return pf__yaml_refuse(b->error, place(b, mark), "\\0 is not text; remove it");
        }
        return check_properties(b, mark, event->data.scalar.anchor, event->data.scalar.tag);
    case YAML_SEQUENCE_START_EVENT:
        return check_properties(b, mark, event->data.sequence_start.anchor,
                                event->data.sequence_start.tag);
    case YAML_MAPPING_START_EVENT:
        return check_properties(b, mark, event->data.mapping_start.anchor,
                                event->data.mapping_start.tag);
    default:
        return PF_OK;
    }
}

static pf_status take_event(builder *b, const yaml_event_t *event)
{
    pf_status status = check_event(b, event);
    if (status != PF_OK) {
        return status;
    }
    switch (event->type) {
    case YAML_SCALAR_EVENT:
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        return add_node(b, event);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        b->depth--;
        return PF_OK;
    default:
        return PF_OK;
    }
}

static pf_status build(builder *b)
{
    for (;;) {
        yaml_event_t event;
        if (!yaml_parser_parse(&b->parser, &event)) {
            return parser_error(b);
        }
        bool end = event.type == YAML_STREAM_END_EVENT;
        pf_status status = take_event(b, &event);
        yaml_event_delete(&event);
        if (status != PF_OK || end) {
            return status;
        }
    }
}

// The tree of a checked text; *root stays NULL where it holds no document.
static pf_status parse(pf__yaml_node **root, pf__yaml_place start, const char *text, size_t n,
                       pf_error *error)
{
    *root = NULL;
    builder b = {.origin = start.origin, .in_file = start.line > 0, .error = error};
    if (!yaml_parser_initialize(&b.parser)) {
        return no_memory(error, start.origin);
    }
    yaml_parser_set_encoding(&b.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&b.parser, (const unsigned char *)text, n);
    pf_status status = build(&b);
    yaml_parser_delete(&b.parser);
    if (status != PF_OK) {
        pf__yaml_free(b.root);
        return status;
    }
    *root = b.root;
    return PF_OK;
}

bool pf__yaml_supported(void)
{
    return true;
}

#else

#define PLAIN "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.+-_"

// A word or a number of an override needs no library.
static pf_status parse(pf__yaml_node **root, pf__yaml_place start, const char *text, size_t n,
                       pf_error *error)
{
    *root = NULL;
    if (start.line == 0 && n > 0 && strspn(text, PLAIN) == n) {
        pf__yaml_node *node = calloc(1, sizeof *node);
        char *copy = pf__yaml_copy(text, n);
        if (node == NULL || copy == NULL) {
            free(node);
            free(copy);
            return no_memory(error, start.origin);
        }
        *node = (pf__yaml_node){.kind = PF__YAML_SCALAR, .text = copy, .at = start};
        *root = node;
        return PF_OK;
    }
    return pf_fail(error, PF_ERR_UNSUPPORTED,
                   "%s: this program was built without libyaml; install libyaml-dev and rebuild",
                   start.origin);
}

bool pf__yaml_supported(void)
{
    return false;
}

#endif

pf_status pf__yaml_read(pf__yaml_node **root, const char *file, const char *text, size_t n,
                        pf_error *error)
{
    *root = NULL;
    pf__yaml_place start = {file, 1, 1};
    if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        text += 3;
        n -= 3;
    }
    pf_status status = check_text(text, n, start, error);
    status = status ? status : parse(root, start, text, n, error);
    if (status != PF_OK) {
        return status;
    }
    // nothing but comments, or a document without a value
    if (*root == NULL || pf__yaml_is_null(*root)) {
        pf__yaml_free(*root);
        *root = pf__yaml_mapping(file);
    }
    return *root != NULL ? PF_OK : no_memory(error, file);
}

// The item of a list that a path names; one past the last adds an item.
static pf_status step_index(pf__yaml_node **slot, const char *segment, size_t n, pf__yaml_place at,
                            pf_error *error)
{
    pf__yaml_node *list = *slot;
    int index = 0;
    for (size_t i = 0; i < n; i++) {
        if (segment[i] < '0' || segment[i] > '9' || index > PF__YAML_NODES) {
            return pf__yaml_refuse(error, at, "a list needs an index from 0 to %d", list->n);
        }
        index = index * 10 + (segment[i] - '0');
    }
    if (index > list->n) {
        return pf__yaml_refuse(error, at, "index %d is past the list; use 0 to %d", index, list->n);
    }
    if (index == list->n) {
        *slot = append(list, NULL, 0, at);
        return *slot != NULL ? PF_OK : no_memory(error, "--set");
    }
    *slot = list->first;
    for (int i = 0; i < index; i++) {
        *slot = (*slot)->next;
    }
    return PF_OK;
}

// Goes from *slot one segment down, making what is missing.
static pf_status step(pf__yaml_node **slot, const char *segment, size_t n, pf__yaml_place at,
                      pf_error *error)
{
    pf__yaml_node *node = *slot;
    if (n == 0) {
        return pf__yaml_refuse(error, at, "a key is empty; write it as a.b=value");
    }
    if (node->kind == PF__YAML_NONE || pf__yaml_is_null(node)) {
        clear(node);
        bool index = strspn(segment, "0123456789") >= n;
        node->kind = index ? PF__YAML_SEQUENCE : PF__YAML_MAPPING;
        node->at = at;
    }
    if (node->kind == PF__YAML_SEQUENCE) {
        return step_index(slot, segment, n, at, error);
    }
    if (node->kind == PF__YAML_SCALAR) {
        return pf__yaml_refuse(error, at, "%s: is a single value and has no parts",
                               node->key != NULL ? node->key : "the item");
    }
    pf__yaml_node *child = find(node, segment, n);
    if (child == NULL) {
        child = append(node, segment, n, at);
    }
    *slot = child;
    return child != NULL ? PF_OK : no_memory(error, "--set");
}

static pf_status walk(pf__yaml_node **slot, const char *path, pf__yaml_place at, pf_error *error)
{
    for (int depth = 0;; depth++) {
        if (depth == PF__YAML_DEPTH) {
            return pf__yaml_refuse(error, at, "nested deeper than %d levels", PF__YAML_DEPTH);
        }
        size_t n = strcspn(path, ".=");
        pf_status status = step(slot, path, n, at, error);
        if (status != PF_OK || path[n] == '=') {
            return status;
        }
        path += n + 1;
    }
}

// Moves the value into the slot, which keeps its key and its place among its siblings.
static void replace(pf__yaml_node *slot, pf__yaml_node *value)
{
    clear(slot);
    slot->kind = value->kind;
    slot->quoted = value->quoted;
    slot->n = value->n;
    slot->text = value->text;
    slot->at = value->at;
    slot->first = value->first;
    slot->last = value->last;
    free(value);
}

pf_status pf__yaml_set(pf__yaml_node *root, const char *assignment, pf_error *error)
{
    pf__yaml_place at = {assignment, 0, 0};
    pf_status status = check_text(assignment, strlen(assignment), at, error);
    if (status != PF_OK) {
        return status;
    }
    const char *equals = strchr(assignment, '=');
    if (equals == NULL) {
        return pf__yaml_refuse(error, at, "has no '='; write it as a.b=value");
    }
    pf__yaml_node *value;
    status = parse(&value, at, equals + 1, strlen(equals + 1), error);
    if (status != PF_OK) {
        return status;
    }
    if (value == NULL) {
        return pf__yaml_refuse(error, at, "has no value; write it as a.b=value");
    }
    pf__yaml_node *slot = root;
    status = walk(&slot, assignment, at, error);
    if (status == PF_OK) {
        replace(slot, value);
    } else {
        pf__yaml_free(value);
    }
    return status;
}
