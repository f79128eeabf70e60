// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_PAGE_H
#define PF_PAGE_H

#include "text.h"

// Pieces of an HTML page that needs nothing else: no network, no script, style and pictures inside,
// light and dark, readable on a phone and on A4. Texts come from files: they are escaped here, and
// a name is kept apart from the words around it, so that right-to-left text stays in its place.

// The head of a page called "title name"; wide: for tables rather than paper. A heading follows.
void pf__page_open(pf_text *out, const char *title, const char *name, bool wide);
void pf__page_heading(pf_text *out, const char *title, const char *name);
void pf__page_close(pf_text *out);

void pf__page_text(pf_text *out, const char *text);
void pf__page_text_n(pf_text *out, const char *text, size_t n);
void pf__page_name(pf_text *out, const char *name);
void pf__page_cell(pf_text *out, const char *tag, const char *text); // <tag>text</tag>
void pf__page_fact(pf_text *out, const char *name, const char *value);
void pf__page_number(pf_text *out, double value, int digits); // "-" for NaN

// A table: head, then rows of cells, then end. On a narrow screen it scrolls.
void pf__page_head(pf_text *out, const char *caption, int n, const char *const *names);
void pf__page_row(pf_text *out, const char *name); // opens a row
void pf__page_row_end(pf_text *out);
void pf__page_table_end(pf_text *out);

#define PF_PAGE_HEAD(out, caption, ...)                                                            \
    pf__page_head(out, caption, (int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)),     \
                  (const char *[]){__VA_ARGS__})

// A picture of lines. Its title says what it shows, its description the numbers.
typedef struct pf_plot {
    double lo, hi;     // of the values
    int width, height; // of the drawing
    int shown;         // times its size; 0: 1
} pf_plot;

#define PF_PAGE_INKS 8
void pf__page_plot(pf_text *out, const pf_plot *plot, const char *title, const char *description);
// ink: 0 .. PF_PAGE_INKS - 1; dash: as of SVG, "none" for a solid line. x is spread evenly.
void pf__page_line(pf_text *out, const pf_plot *plot, size_t n, const double *y, int ink,
                   const char *dash);
void pf__page_level(pf_text *out, const pf_plot *plot, double y); // a thin line across
void pf__page_plot_end(pf_text *out);

// A value and its 90 % interval on a scale from 0 to top, with a mark at 1, as a cell.
void pf__page_interval(pf_text *out, double lo, double value, double hi, double top);

// A text in Markdown, as far as our own reports use it. Links lead nearby or to https.
void pf__page_markdown(pf_text *out, const char *text);

#endif
