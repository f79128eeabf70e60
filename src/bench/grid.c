// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "grid.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

pf_status pf_grid_init(pf_grid *g, int rows, int columns, pf_error *error)
{
    size_t n = ((size_t)rows + 1) * ((size_t)columns + 1);
    *g = (pf_grid){.rows = rows, .columns = columns};
    g->word = calloc(n, sizeof *g->word);
    g->bold = calloc(n, sizeof *g->bold);
    if (!g->word || !g->bold) {
        pf_grid_free(g);
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a table");
    }
    return PF_OK;
}

void pf_grid_free(pf_grid *g)
{
    free(g->word);
    free(g->bold);
    *g = (pf_grid){0};
}

static size_t place(const pf_grid *g, int row, int column)
{
    return (size_t)row * ((size_t)g->columns + 1) + (size_t)column;
}

void pf_grid_set(pf_grid *g, int row, int column, bool bold, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(g->word[place(g, row, column)], PF_GRID_WORD, format, list);
    va_end(list);
    g->bold[place(g, row, column)] = bold;
}

// --- Markdown

// The bold part is what stands before the first space: the number without its interval.
static void md_word(const pf_grid *g, int row, int column, char out[PF_GRID_WORD + 8])
{
    const char *word = g->word[place(g, row, column)];
    int head = (int)strcspn(word, column ? " " : "");
    if (g->bold[place(g, row, column)]) {
        snprintf(out, PF_GRID_WORD + 8, "**%.*s**%s", head, word, word + head);
    } else {
        snprintf(out, PF_GRID_WORD + 8, "%s", word);
    }
}

static void write_md(const pf_grid *g, pf_text *out)
{
    char word[PF_GRID_WORD + 8];
    pf_text_addf(out, "%s\n\n", g->caption);
    for (int row = 0; row <= g->rows; row++) {
        for (int column = 0; column <= g->columns; column++) {
            int width = 3;
            for (int r = 0; r <= g->rows; r++) {
                md_word(g, r, column, word);
                width = (int)strlen(word) > width ? (int)strlen(word) : width;
            }
            md_word(g, row, column, word);
            pf_text_addf(out, "| %-*s ", width, word);
        }
        pf_text_add(out, "|\n");
        for (int column = 0; row == 0 && column <= g->columns; column++) {
            pf_text_add(out, column ? "|---:" : "|---");
        }
        pf_text_add(out, row == 0 ? "|\n" : "");
    }
    pf_text_add(out, "\n");
}

// --- LaTeX

static void add_tex(pf_text *out, const char *s, size_t n)
{
    for (size_t i = 0; i < n && s[i]; i++) {
        if (strchr("_%&#$", s[i])) {
            pf_text_addf(out, "\\%c", s[i]);
        } else {
            pf_text_add_n(out, s + i, 1);
        }
    }
}

static void tex_word(const pf_grid *g, int row, int column, pf_text *out)
{
    const char *word = g->word[place(g, row, column)];
    size_t head = strcspn(word, column ? " " : "");
    bool bold = g->bold[place(g, row, column)];
    pf_text_add(out, bold ? "\\textbf{" : "");
    add_tex(out, word, head);
    pf_text_add(out, bold ? "}" : "");
    add_tex(out, word + head, strlen(word + head));
}

static void write_tex(const pf_grid *g, pf_text *out)
{
    pf_text_add(out, "\\begin{table}[ht]\n\\centering\n\\caption{");
    add_tex(out, g->caption, strlen(g->caption));
    pf_text_add(out, "}\n\\resizebox{\\linewidth}{!}{%\n\\begin{tabular}{l");
    for (int column = 0; column < g->columns; column++) {
        pf_text_add(out, "r");
    }
    pf_text_add(out, "}\n\\hline\n");
    for (int row = 0; row <= g->rows; row++) {
        for (int column = 0; column <= g->columns; column++) {
            pf_text_add(out, column ? " & " : "");
            tex_word(g, row, column, out);
        }
        pf_text_addf(out, " \\\\\n%s", row == 0 || row == g->rows ? "\\hline\n" : "");
    }
    pf_text_add(out, "\\end{tabular}}\n\\end{table}\n\n");
}

void pf_grid_write(const pf_grid *g, pf_grid_format format, pf_text *out)
{
    if (format == PF_GRID_TEX) {
        write_tex(g, out);
    } else {
        write_md(g, out);
    }
}

void pf_grid_heading(const char *text, pf_grid_format format, pf_text *out)
{
    if (format == PF_GRID_TEX) {
        pf_text_add(out, "\\subsection*{");
        add_tex(out, text, strlen(text));
        pf_text_add(out, "}\n\n");
    } else {
        pf_text_addf(out, "## %s\n\n", text);
    }
}

void pf_grid_paragraph(const char *text, pf_grid_format format, pf_text *out)
{
    if (format == PF_GRID_TEX) {
        add_tex(out, text, strlen(text));
    } else {
        pf_text_add(out, text);
    }
    pf_text_add(out, "\n\n");
}
