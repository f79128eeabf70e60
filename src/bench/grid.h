// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_GRID_H
#define PF_GRID_H

#include "host/text.h"

// A table of short texts, written as Markdown or LaTeX.

enum { PF_GRID_WORD = 72 };

typedef enum pf_grid_format { PF_GRID_MD, PF_GRID_TEX } pf_grid_format;

typedef struct pf_grid {
    int rows, columns;          // without the header row and the label column
    char (*word)[PF_GRID_WORD]; // (rows + 1) x (columns + 1), the first of each are labels
    bool *bold;                 // likewise
    char caption[256];
} pf_grid;

pf_status pf_grid_init(pf_grid *grid, int rows, int columns, pf_error *error);
void pf_grid_free(pf_grid *grid);

// Sets a word; row and column 0 are labels.
void pf_grid_set(pf_grid *grid, int row, int column, bool bold, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 5, 6)))
#endif
    ;

void pf_grid_write(const pf_grid *grid, pf_grid_format format, pf_text *out);
// A heading and a paragraph of the same document.
void pf_grid_heading(const char *text, pf_grid_format format, pf_text *out);
void pf_grid_paragraph(const char *text, pf_grid_format format, pf_text *out);

#endif
