// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "csv.h"

#include "file.h"
#include "text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- messages and fields

bool pf__csv_same(pf_csv_field a, pf_csv_field b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.text, b.text, a.n) == 0);
}

bool pf__csv_is(pf_csv_field field, const char *text)
{
    return pf__csv_same(field, (pf_csv_field){text, strlen(text)});
}

const char *pf__csv_shown(pf_csv_field field, char out[PF_CSV_SHOWN])
{
    return pf__text_shown(out, PF_CSV_SHOWN, field.text, field.n);
}

pf_status pf__csv_refuse(const pf_csv *csv, int column, pf_status code, const char *what,
                         pf_error *error)
{
    if (column < 0) {
        return pf_fail(error, code, "%s:%d: %s", csv->file, csv->line, what);
    }
    char name[PF_CSV_SHOWN];
    return pf_fail(error, code, "%s:%d: column '%s': %s", csv->file, csv->line,
                   pf__csv_shown(csv->header[column], name), what);
}

static pf_csv_field trim(const char *from, const char *to)
{
    while (from < to && (*from == ' ' || *from == '\t')) {
        from++;
    }
    while (to > from && (to[-1] == ' ' || to[-1] == '\t')) {
        to--;
    }
    return (pf_csv_field){from, (size_t)(to - from)};
}

// --- lines

// Bytes of the UTF-8 character at s (n bytes left), 0 if it is not one that may stand in a text:
// control characters, U+0080 to U+009F among them, may not.
static size_t character(const unsigned char *s, size_t n)
{
    bool control = (s[0] < 32 && s[0] != '\t') || s[0] == 127;
    size_t size = pf__utf8_size((const char *)s, n);
    return control || (size == 2 && s[0] == 0xc2 && s[1] < 0xa0) ? 0 : size;
}

static pf_status line_check(const pf_csv *csv, const char *line, size_t n, pf_error *error)
{
    if (n > PF_CSV_LINE) {
        return pf__csv_refuse(csv, -1, PF_ERR_FORMAT,
                              "the line is longer than 1 MiB; is this a CSV file?", error);
    }
    const unsigned char *s = (const unsigned char *)line;
    for (size_t i = 0; i < n;) {
        size_t size = character(s + i, n - i);
        if (size == 0) {
            char what[112];
            snprintf(what, sizeof what,
                     "byte %zu of the line is %s (0x%02x); write plain UTF-8 text", i + 1,
                     s[i] < 0x80 ? "a control character" : "not UTF-8", s[i]);
            return pf__csv_refuse(csv, -1, PF_ERR_FORMAT, what, error);
        }
        if (s[i] == '"') {
            return pf__csv_refuse(csv, -1, PF_ERR_FORMAT,
                                  "quotes are not supported; write plain fields without \" and "
                                  "without commas inside",
                                  error);
        }
        i += size;
    }
    return PF_OK;
}

// Only spaces and line ends from here to the end of the text?
static bool only_blank(const pf_csv *csv)
{
    for (size_t i = csv->at; i < csv->n; i++) {
        if (!strchr(" \t\r\n", csv->text[i]) || csv->text[i] == 0) {
            return false;
        }
    }
    return true;
}

// The next line without its end, checked. *more is false at the end of the text.
static pf_status take_line(pf_csv *csv, pf_csv_field *line, bool *more, pf_error *error)
{
    *more = false;
    if (csv->at >= csv->n) {
        return PF_OK;
    }
    const char *start = csv->text + csv->at;
    const char *end = memchr(start, '\n', csv->n - csv->at);
    size_t n = end ? (size_t)(end - start) : csv->n - csv->at;
    size_t next = csv->at + n + (end ? 1 : 0);
    csv->line++;
    n -= n > 0 && start[n - 1] == '\r' ? 1 : 0;
    pf_csv_field trimmed = trim(start, start + n);
    if (trimmed.n == 0) {
        if (!only_blank(csv)) {
            return pf__csv_refuse(csv, -1, PF_ERR_FORMAT,
                                  "the line is blank; remove it (blank lines may stand at the end "
                                  "only)",
                                  error);
        }
        csv->at = csv->n;
        return PF_OK;
    }
    pf_status status = line_check(csv, start, n, error);
    if (status != PF_OK) {
        return status;
    }
    csv->at = next;
    *line = (pf_csv_field){start, n};
    *more = true;
    return PF_OK;
}

// Splits at commas into at most `most` fields; gives how many there are.
static int split(pf_csv_field line, pf_csv_field *field, int most)
{
    const char *from = line.text, *end = line.text + line.n;
    for (int n = 0;; n++) {
        const char *comma = memchr(from, ',', (size_t)(end - from));
        if (n < most) {
            field[n] = trim(from, comma ? comma : end);
        }
        if (!comma) {
            return n + 1;
        }
        from = comma + 1;
    }
}

// --- header and rows

static int by_text(const void *a, const void *b)
{
    const pf_csv_field *x = a, *y = b;
    int order = memcmp(x->text, y->text, x->n < y->n ? x->n : y->n);
    return order != 0 ? order : (x->n > y->n) - (x->n < y->n);
}

static pf_status header_check(pf_csv *csv, pf_error *error)
{
    char shown[PF_CSV_SHOWN], what[112];
    for (int i = 0; i < csv->n_columns; i++) {
        if (csv->header[i].n == 0) {
            snprintf(what, sizeof what, "column %d has no name; name every column", i + 1);
            return pf__csv_refuse(csv, -1, PF_ERR_FORMAT, what, error);
        }
    }
    // the row buffer is free until the first row: names sorted there show duplicates
    memcpy(csv->field, csv->header, (size_t)csv->n_columns * sizeof *csv->field);
    qsort(csv->field, (size_t)csv->n_columns, sizeof *csv->field, by_text);
    for (int i = 1; i < csv->n_columns; i++) {
        if (pf__csv_same(csv->field[i - 1], csv->field[i])) {
            snprintf(what, sizeof what, "two columns are called '%s'; rename one",
                     pf__csv_shown(csv->field[i], shown));
            return pf__csv_refuse(csv, -1, PF_ERR_FORMAT, what, error);
        }
    }
    return PF_OK;
}

static pf_status read_header(pf_csv *csv, pf_error *error)
{
    if (csv->n >= 3 && memcmp(csv->text, "\xef\xbb\xbf", 3) == 0) {
        csv->at = 3; // spreadsheets put a byte order mark in front
    }
    pf_csv_field line;
    bool more = false;
    pf_status status = take_line(csv, &line, &more, error);
    if (status != PF_OK) {
        return status;
    }
    if (!more) {
        return pf_fail(error, PF_ERR_FORMAT, "%s: the file is empty; it needs a header line",
                       csv->file);
    }
    csv->n_columns = split(line, NULL, 0);
    if (csv->n_columns > PF_CSV_COLUMNS) {
        return pf_fail(error, PF_ERR_FORMAT, "%s:%d: %d columns, at most %d are read", csv->file,
                       csv->line, csv->n_columns, PF_CSV_COLUMNS);
    }
    csv->header = calloc((size_t)csv->n_columns * 2, sizeof *csv->header);
    if (!csv->header) {
        return pf_fail(error, PF_ERR_MEMORY, "%s: out of memory for %d columns", csv->file,
                       csv->n_columns);
    }
    csv->field = csv->header + csv->n_columns;
    split(line, csv->header, csv->n_columns);
    csv->body = csv->at;
    return header_check(csv, error);
}

pf_status pf__csv_open(pf_csv *csv, const char *file, const char *text, size_t n, pf_error *error)
{
    *csv = (pf_csv){.file = file ? file : "csv", .text = text, .n = text ? n : 0};
    if (n > PF_CSV_BYTES) {
        return pf_fail(error, PF_ERR_FORMAT, "%s: %z bytes, at most 1 GiB is read", csv->file, n);
    }
    pf_status status = read_header(csv, error);
    if (status != PF_OK) {
        pf__csv_close(csv);
    }
    return status;
}

void pf__csv_close(pf_csv *csv)
{
    free(csv->header);
    *csv = (pf_csv){0};
}

void pf__csv_rewind(pf_csv *csv)
{
    csv->at = csv->body;
    csv->line = 1;
}

pf_status pf__csv_next(pf_csv *csv, bool *more, pf_error *error)
{
    pf_csv_field line;
    pf_status status = take_line(csv, &line, more, error);
    if (status != PF_OK || !*more) {
        return status;
    }
    int n = split(line, csv->field, csv->n_columns);
    if (n != csv->n_columns) {
        char what[112];
        snprintf(what, sizeof what, "%d field%s, the header has %d; %s", n, n == 1 ? "" : "s",
                 csv->n_columns, n < csv->n_columns ? "is the file cut off?" : "remove the rest");
        *more = false;
        return pf__csv_refuse(csv, -1, PF_ERR_FORMAT, what, error);
    }
    return PF_OK;
}

// --- numbers

static bool same_word(const char *s, const char *word)
{
    for (; *word; s++, word++) {
        if ((*s | 0x20) != *word) {
            return false;
        }
    }
    return true;
}

static bool spells_nonfinite(const char *s)
{
    s += *s == '+' || *s == '-';
    return same_word(s, "nan") || same_word(s, "inf");
}

pf_status pf__csv_number(const pf_csv *csv, int column, double *value, pf_error *error)
{
    pf_csv_field field = csv->field[column];
    char text[128], what[176], shown[PF_CSV_SHOWN];
    if (field.n == 0) {
        return pf__csv_refuse(csv, column, PF_ERR_FORMAT, "empty; a number is needed", error);
    }
    size_t n = field.n < sizeof text ? field.n : sizeof text - 1;
    memcpy(text, field.text, n);
    text[n] = 0;
    pf__csv_shown(field, shown);
    if (spells_nonfinite(text)) {
        snprintf(what, sizeof what, "'%s' is not finite; remove the whole episode or trajectory",
                 shown);
        return pf__csv_refuse(csv, column, PF_ERR_NONFINITE, what, error);
    }
    char *end = text;
    double x = n == field.n && pf__is_decimal(text, false) ? pf__number_read(text, &end) : 0;
    if (end == text || *end != 0) {
        snprintf(what, sizeof what, "'%s' is not a number; write it like -1.5 or 2e-3", shown);
        return pf__csv_refuse(csv, column, PF_ERR_FORMAT, what, error);
    }
    if (!isfinite(x)) {
        snprintf(what, sizeof what, "'%s' is too large for a double; check the units", shown);
        return pf__csv_refuse(csv, column, PF_ERR_NONFINITE, what, error);
    }
    *value = x;
    return PF_OK;
}

pf_status pf__csv_integer(const pf_csv *csv, int column, int lo, int hi, int *value,
                          pf_error *error)
{
    pf_csv_field field = csv->field[column];
    size_t sign = field.n > 0 && field.text[0] == '-' ? 1 : 0;
    int64_t x = 0;
    bool good = field.n > sign && field.n <= 12;
    for (size_t i = sign; i < field.n && good; i++) {
        good = field.text[i] >= '0' && field.text[i] <= '9';
        x = 10 * x + (field.text[i] - '0');
    }
    x = sign ? -x : x;
    if (!good || x < lo || x > hi) {
        char what[144], shown[PF_CSV_SHOWN];
        snprintf(what, sizeof what, "'%s' is not a whole number from %d to %d",
                 pf__csv_shown(field, shown), lo, hi);
        return pf__csv_refuse(csv, column, PF_ERR_FORMAT, what, error);
    }
    *value = (int)x;
    return PF_OK;
}

// --- a file of fixed columns

enum { FILE_BYTES = 1 << 24 };

pf_status pf__csv_file_open(pf_csv_file *f, const char *folder, const char *name,
                            const char *const *columns, int n_columns, pf_error *error)
{
    char path[4300];
    size_t n = 0;
    *f = (pf_csv_file){.text = NULL};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    pf_status status = pf__file_read(path, FILE_BYTES, &f->text, &n, error);
    if (status == PF_OK) {
        status = pf__csv_open(&f->csv, name, f->text, n, error);
    }
    for (int i = 0; i < n_columns && status == PF_OK; i++) {
        if (f->csv.n_columns != n_columns || !pf__csv_is(f->csv.header[i], columns[i])) {
            status = pf_fail(error, PF_ERR_FORMAT, "%s: column %d must be '%s'", name, i + 1,
                             columns[i]);
        }
    }
    return status;
}

void pf__csv_file_close(pf_csv_file *f)
{
    pf__csv_close(&f->csv);
    free(f->text);
    *f = (pf_csv_file){.text = NULL};
}

pf_status pf__csv_word(const pf_csv *csv, int column, char *out, size_t room, pf_error *error)
{
    pf_csv_field field = csv->field[column];
    if (field.n == 0 || field.n >= room) {
        char what[64];
        snprintf(what, sizeof what, "must be a text of 1 to %zu characters", room - 1);
        return pf__csv_refuse(csv, column, PF_ERR_FORMAT, what, error);
    }
    memcpy(out, field.text, field.n);
    out[field.n] = 0;
    return PF_OK;
}
