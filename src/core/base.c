// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "preflight/base.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

const char *pf_version(void)
{
    return PF_VERSION;
}

const char *pf_status_name(pf_status status)
{
    switch (status) {
#define X(code, name, text)                                                                        \
    case code:                                                                                     \
        return name;
        PF_STATUS_LIST(X)
#undef X
    }
    return "unknown";
}

const char *pf_status_text(pf_status status)
{
    switch (status) {
#define X(code, name, text)                                                                        \
    case code:                                                                                     \
        return text;
        PF_STATUS_LIST(X)
#undef X
    }
    return "unknown status";
}

// A text that grows in a fixed buffer and is cut, never overrun.
typedef struct writer {
    char *out;
    size_t used, size;
} writer;

static void put_char(writer *w, char c)
{
    if (w->used + 1 < w->size) {
        w->out[w->used++] = c;
    }
}

static void put_text(writer *w, const char *s)
{
    for (; *s; s++) {
        put_char(w, *s);
    }
}

static void put_unsigned(writer *w, uint64_t value)
{
    char digits[24];
    int n = 0;
    do {
        digits[n++] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    while (n > 0) {
        put_char(w, digits[--n]);
    }
}

static void put_int(writer *w, int value)
{
    if (value < 0) {
        put_char(w, '-');
    }
    put_unsigned(w, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

// six significant digits, in the manner of %g, good enough for a message
static void put_double(writer *w, double value)
{
    if (isnan(value)) {
        put_text(w, "nan");
        return;
    }
    if (value < 0) {
        put_char(w, '-');
        value = -value;
    }
    if (isinf(value)) {
        put_text(w, "inf");
        return;
    }
    if (value == 0) {
        put_char(w, '0');
        return;
    }
    // a subnormal is lifted first: its power of ten would underflow
    int lift = value < 1e-290 ? 30 : 0;
    value = lift ? value * 1e30 : value;
    int exponent = (int)floor(log10(value));
    double scaled = floor(value / pow(10, exponent - 5) + .5);
    if (!(scaled < 1e6)) {
        scaled = floor(scaled / 10 + .5);
        exponent++;
    }
    exponent -= lift;
    char digits[8];
    uint64_t integer = (uint64_t)scaled;
    for (int i = 5; i >= 0; i--) {
        digits[i] = (char)('0' + integer % 10);
        integer /= 10;
    }
    int last = 5;
    while (last > 0 && digits[last] == '0') {
        last--;
    }
    bool scientific = exponent < -5 || exponent > 5;
    int point = scientific ? 0 : exponent;
    if (point < 0) {
        put_text(w, "0.");
        for (int i = point + 1; i < 0; i++) {
            put_char(w, '0');
        }
    }
    for (int i = 0; i <= last || i <= point; i++) {
        put_char(w, digits[i]);
        if (i == point && last > point) {
            put_char(w, '.');
        }
    }
    if (scientific) {
        put_char(w, 'e');
        put_int(w, exponent);
    }
}

pf_status pf_fail(pf_error *error, pf_status code, const char *format, ...)
{
    if (!error) {
        return code;
    }
    writer w = {error->text, 0, sizeof error->text};
    va_list list;
    va_start(list, format);
    for (const char *f = format; *f; f++) {
        if (*f != '%') {
            put_char(&w, *f);
            continue;
        }
        switch (*++f) {
        case 's': {
            const char *s = va_arg(list, const char *);
            put_text(&w, s ? s : "(none)");
            break;
        }
        case 'd':
            put_int(&w, va_arg(list, int));
            break;
        case 'z':
            put_unsigned(&w, va_arg(list, size_t));
            break;
        case 'g':
            put_double(&w, va_arg(list, double));
            break;
        case 0: // a lone % at the end
            f--;
            break;
        case '%':
            put_char(&w, '%');
            break;
        default: // what follows would read the arguments wrongly: scripts/check_formats.py finds it
            put_char(&w, '%');
            put_text(&w, f);
            f += strlen(f) - 1;
            break;
        }
    }
    va_end(list);
    error->code = code;
    error->text[w.used] = 0;
    return code;
}
