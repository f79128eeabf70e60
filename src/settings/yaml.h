// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_YAML_H
#define PF_YAML_H

#include "preflight/base.h"

// A strict subset of YAML as a tree: one document, no duplicate keys, no anchors, aliases or tags.
// It keeps what a good message needs: where each key and value stands, and what was quoted.

// Limits of one text; they bound the memory and the stack that an input can cost.
#define PF__YAML_BYTES ((size_t)16 << 20)
#define PF__YAML_NODES 200000
#define PF__YAML_DEPTH 16
#define PF__YAML_KEYS 256

// Where something stands. Line 0: in the --set override whose text is `origin`; else in the file
// called `origin`, counted from 1. The origin is the caller's and outlives the tree.
typedef struct pf__yaml_place {
    const char *origin;
    int line, column;
} pf__yaml_place;

typedef enum pf__yaml_kind {
    PF__YAML_NONE, // a key whose value was not set yet
    PF__YAML_SCALAR,
    PF__YAML_SEQUENCE,
    PF__YAML_MAPPING
} pf__yaml_kind;

typedef struct pf__yaml_node {
    pf__yaml_kind kind;
    bool quoted; // scalar: written in quotes or as a block, so never a number or a boolean
    int n;       // children
    char *text;  // scalar, UTF-8 without NUL
    char *key;   // in a mapping
    pf__yaml_place at, key_at;
    struct pf__yaml_node *first, *last; // children in the order of the text
    struct pf__yaml_node *next;         // sibling
} pf__yaml_node;

// Reads one text into a new tree. No document at all gives an empty mapping.
pf_status pf__yaml_read(pf__yaml_node **root, const char *file, const char *text, size_t n,
                        pf_error *error);

// Applies one override "a.b=value" to the tree: replaces the node or adds it with what leads to it.
pf_status pf__yaml_set(pf__yaml_node *root, const char *assignment, pf_error *error);

// An empty mapping said to come from the top of `file`, NULL without memory.
pf__yaml_node *pf__yaml_mapping(const char *file);

// Nullable: root.
void pf__yaml_free(pf__yaml_node *root);

// The value of a key, NULL if the mapping has none.
const pf__yaml_node *pf__yaml_get(const pf__yaml_node *mapping, const char *key);

// A plain scalar that YAML reads as "no value": nothing, ~ or null.
bool pf__yaml_is_null(const pf__yaml_node *node);

// A copy of n bytes with a terminator, NULL without memory.
char *pf__yaml_copy(const char *text, size_t n);

// The text cut to fit `size` bytes, control characters replaced, so that a message stays one line.
const char *pf__yaml_shown(char *out, size_t size, const char *text);

// Fills the error with "file:line:column: ..." or "--set a.b=v: ..." and returns PF_ERR_FORMAT. The
// format is that of printf.
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
pf_status
pf__yaml_refuse(pf_error *error, pf__yaml_place at, const char *format, ...);

// Whether the program was built with libyaml.
bool pf__yaml_supported(void);

#endif
