// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_SCHEMA_H
#define PF_SCHEMA_H

#include "preflight/base.h"

// --- yaml.c

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

// Fills the error with "file:line:column: ..." or "--set a.b=v: ..." and returns PF_ERR_FORMAT. The
// format is that of printf.
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
pf_status
pf__yaml_refuse(pf_error *error, pf__yaml_place at, const char *format, ...);

// Whether the program was built with libyaml.
bool pf__yaml_supported(void);

// --- schema.c

// The one reader of YAML against a table. A schema is rows of keys with what they hold, the range
// allowed, and where in a struct the value goes; defaults, reading, messages and freeing walk it.

#define PF_COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

// Largest integer up to which every integer is a double.
#define PF_WHOLE_MAX 9007199254740991.0

// --- what values are read into

// Where a value stands, for messages: "file:line:column". Line 0: from --set.
typedef struct pf_place {
    int line, column;
} pf_place;

// A mechanism, task or probe is referred to by name or index; kept as text here.
typedef struct pf_config_refs {
    int n;
    char **text;
} pf_config_refs;

// rows x columns numbers, rectangular.
typedef struct pf_config_matrix {
    int rows, columns;
    double *value; // NULL: not given
} pf_config_matrix;

typedef struct pf_config_numbers {
    int n; // 0: not given
    double *value;
    double otherwise; // a setting's default, where none are given
} pf_config_numbers;

// Lists of names, such as groups that must not act together.
typedef struct pf_config_ref_lists {
    int n;
    pf_config_refs *list;
} pf_config_ref_lists;

// --- the table

// What a key holds.
typedef enum pf_schema_kind {
    PF_KIND_TEXT,    // char *, min to max bytes
    PF_KIND_NAME,    // char *, as text, and safe in a CSV header
    PF_KIND_NUMBER,  // double in min..max
    PF_KIND_WHOLE,   // double, an integer in min..max
    PF_KIND_COUNT,   // int in min..max
    PF_KIND_FLAG,    // int, true or false
    PF_KIND_WORD,    // int, index of one of the shape's words
    PF_KIND_NUMBERS, // pf_config_numbers: one value, or a list of min to max elements
    PF_KIND_MATRIX,  // pf_config_matrix, min to max rows
    PF_KIND_REFS,    // pf_config_refs: one name, or a list of min to max
    PF_KIND_GROUPS,  // pf_config_ref_lists: a list of min to max lists of names
    PF_KIND_OBJECT,  // a mapping whose values lie in the same struct
    PF_KIND_LIST     // an array of structs, min to max of them, first row of each its unique name
} pf_schema_kind;

enum {
    PF_ROW_CLOSED = 0,
    PF_ROW_REQUIRED = 1,
    PF_ROW_OPEN_MIN = 2,
    PF_ROW_OPEN_MAX = 4,
    PF_ROW_OPEN = PF_ROW_OPEN_MIN | PF_ROW_OPEN_MAX,
    PF_ROW_NONZERO = 8,
    PF_ROW_ALONE = 16 // of the name of a list's items: an item may be its name alone
};

typedef struct pf_schema_row {
    const char *key;
    pf_schema_kind kind;
    int flags;
    double min, max;
    size_t offset;                       // in the struct that the object fills
    const struct pf_schema_shape *shape; // NULL: none needed
    const char *help;
} pf_schema_row;

typedef struct pf_schema {
    const pf_schema_row *rows;
    int n;
    size_t size;  // PF_KIND_LIST: of one struct
    size_t place; // PF_KIND_LIST: offset of its pf_place
    pf_status (*check)(const pf__yaml_node *node, const void *base, const char *path,
                       pf_error *error); // NULL: none
    const char *item;                    // PF_KIND_LIST: what one of them is
} pf_schema;

// What a row has beside its range.
typedef struct pf_schema_shape {
    const pf_schema *object;      // PF_KIND_OBJECT, PF_KIND_LIST
    const pf_schema_row *single;  // how a lone value is read. NULL: a list only
    const pf_schema_row *element; // how an item of a list is. NULL: as a lone value
    size_t count;                 // PF_KIND_LIST: offset of the int that counts the structs
    const char *const *words;     // PF_KIND_WORD: at least two, NULL at the end
    const char *old;              // the key's name in older files, which still reads. NULL: none
} pf_schema_shape;

// The shape of a key that takes a value or a list of them.
#define PF_ONE_OR_MORE(kind, flags, min, max, help)                                                \
    (&(const pf_schema_shape){                                                                     \
        .single = &(const pf_schema_row){"", kind, flags, min, max, 0, NULL, help}})

// Reads text (n bytes of YAML, called `file` in messages; NULL: an empty mapping) with the
// overrides
// ("a.b=value", value in YAML; lists by index: "probes.0.charge=.1") into the struct at base by its
// schema. `what` says in messages what it is. On failure the struct may be half filled: free it.
pf_status pf__schema_read(const pf_schema *schema, const char *what, const char *file,
                          const char *text, size_t n, const char *const *overrides, int n_overrides,
                          void *base, pf_error *error);

// The values that a row takes, in short: "(0, 1)", "2..64", "break|latch".
void pf__schema_range(const pf_schema_row *row, char *out, size_t size);

// Frees what read allocated inside the struct.
void pf__schema_free(const pf_schema *schema, void *base);

// The known word nearest to `word` by edit distance, NULL if none is near (distance > 3 or more
// than half of the word).
const char *pf__nearest_word(const char *word, const char *const *known, int n);

#endif
