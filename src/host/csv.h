// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_CSV_H
#define PF_CSV_H

#include "preflight/base.h"

// A strict reader of comma separated values over a text in memory: one header line, then rows with
// as many fields. LF or CRLF, a byte order mark and blank lines at the end are tolerated, spaces
// around a field are not part of it. No quotes, no control characters, UTF-8 only. Every refusal
// is one line, "file:line: column 'name': what, what to do".

// Limits of one text; they bound what an input can cost.
#define PF_CSV_BYTES ((size_t)1 << 30)
#define PF_CSV_LINE ((size_t)1 << 20)
#define PF_CSV_COLUMNS 8192

// A piece of the text, not terminated.
typedef struct pf_csv_field {
    const char *text;
    size_t n;
} pf_csv_field;

typedef struct pf_csv {
    const char *file; // in messages; the caller's, like the text
    const char *text;
    size_t n;
    size_t at; // where the next line starts
    size_t body;
    int line; // of the row just read, from 1
    int n_columns;
    pf_csv_field *header; // n_columns, all different, none empty
    pf_csv_field *field;  // n_columns: the row just read
} pf_csv;

// Reads the header. The text must outlive *csv and every field of it. On failure nothing is left to
// close.
pf_status pf__csv_open(pf_csv *csv, const char *file, const char *text, size_t n, pf_error *error);
void pf__csv_close(pf_csv *csv);

// A file with exactly these columns, in this order.
typedef struct pf_csv_file {
    pf_csv csv;
    void *text;
} pf_csv_file;
// name: of the file in the folder, which must outlive it. Close follows whatever it returned.
pf_status pf__csv_file_open(pf_csv_file *file, const char *folder, const char *name,
                            const char *const *columns, int n_columns, pf_error *error);
void pf__csv_file_close(pf_csv_file *file);

// The field of the row just read as a terminated text of at least one character.
pf_status pf__csv_word(const pf_csv *csv, int column, char *out, size_t room, pf_error *error);

// Reads the next row into csv->field; *more is false when there was none.
pf_status pf__csv_next(pf_csv *csv, bool *more, pf_error *error);

// Back to before the first row.
void pf__csv_rewind(pf_csv *csv);

// The field of the row just read as a finite number, or as a whole number in lo..hi.
pf_status pf__csv_number(const pf_csv *csv, int column, double *value, pf_error *error);
pf_status pf__csv_integer(const pf_csv *csv, int column, int lo, int hi, int *value,
                          pf_error *error);

// Fills the error with "file:line: column 'name': what" of the row just read (column -1: without
// one) and returns code.
pf_status pf__csv_refuse(const pf_csv *csv, int column, pf_status code, const char *what,
                         pf_error *error);

bool pf__csv_is(pf_csv_field field, const char *text);
bool pf__csv_same(pf_csv_field a, pf_csv_field b);

// The field as a short terminated text for messages.
enum { PF_CSV_SHOWN = 48 };
const char *pf__csv_shown(pf_csv_field field, char out[PF_CSV_SHOWN]);

#endif
