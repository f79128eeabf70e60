// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_SCREEN_H
#define PF_SCREEN_H

#include "host/text.h"

// The terminal. One place knows its width and its colours. Commands write plain text; it is laid
// out here:
//   "# Title" and "## Part"   headings
//   cells between tabs        a row of a table. The first row is its head; a head that starts with
//                             '>' has its column to the right
//   any other line            a paragraph. Lines that go on keep its indent and its list number
// Verdicts are words, GO, GO-IF and NO-GO; colour comes on top where it may.

// --color auto, always or never (Nullable: auto), for the rest of this run. False: a usage error
// was printed.
bool cli_color(const char *command, const char *when);

// From here on standard output is no terminal, though it looks like one: mpirun gives every process
// one of its own and writes what it reads there to a file or wherever.
void cli_screen_piped(void);

const char *cli_paint(const char *colour); // "" where there is no colour; NULL resets
#define CLI_RED "\033[31m"
#define CLI_GREEN "\033[32m"
#define CLI_YELLOW "\033[33m"
#define CLI_BOLD "\033[1m"

// COLUMNS, else the width of the terminal, else 80.
int cli_width(void);

void cli_show(const pf_text *text); // on standard output

// Text that is not laid out, without the control characters that names may hold; no colours.
void cli_printf(const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 1, 2)))
#endif
    ;

// A table whose rows come one after the other, while a machine runs.
typedef struct cli_columns {
    const char *head;
    int n;
    int width[12];
    bool right[12];
} cli_columns;

void cli_columns_start(cli_columns *columns, const char *head);           // cells between tabs
void cli_columns_fit(cli_columns *columns, int column, const char *cell); // such a cell may come
void cli_show_head(const cli_columns *columns);
void cli_show_row(const cli_columns *columns, const pf_text *row);

#endif
