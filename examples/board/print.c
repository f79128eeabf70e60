// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "board.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

// printf for a board: that of the C library takes memory from a heap, this one takes none. It knows
// %s, %d, %u, %x with width and l or z, and %.Nf with N up to 3, rounded as exactly as any other.

typedef struct line {
    char text[160];
    int n;
} line;

static void put(line *l, char c)
{
    if (l->n + 1 == (int)sizeof l->text) {
        l->text[l->n] = '\0';
        board_write(l->text);
        l->n = 0;
    }
    l->text[l->n++] = c;
}

static void put_text(line *l, const char *text)
{
    while (*text) {
        put(l, *text++);
    }
}

static void put_number(line *l, uint64_t value, unsigned base, int width)
{
    char digits[20];
    int n = 0;
    for (; value > 0 || n < width || n == 0; value /= base) {
        digits[n++] = "0123456789abcdef"[value % base];
    }
    while (n > 0) {
        put(l, digits[--n]);
    }
}

// |value| * 10^places, rounded to an integer, ties to even: exact, since a mantissa has 53 bits and
// 1000 has 10. A value of 2^52 or more is "large".
static uint64_t scaled(double value, int places)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    int shift = 1075 - (int)(bits >> 52 & 0x7ff);
    uint64_t m = (bits & 0xfffffffffffffu) | 0x10000000000000u;
    for (int i = 0; i < places; i++) {
        m *= 10;
    }
    if (shift <= 0) {
        return UINT64_MAX;
    }
    if (shift > 63) {
        return 0;
    }
    uint64_t whole = m >> shift, rest = m << (64 - shift), half = (uint64_t)1 << 63;
    return whole + (rest > half || (rest == half && whole % 2 == 1));
}

static void put_double(line *l, double value, int places)
{
    uint64_t unit = 1, n = scaled(value, places);
    for (int i = 0; i < places; i++) {
        unit *= 10;
    }
    if (signbit(value)) {
        put(l, '-');
    }
    if (n == UINT64_MAX) {
        put_text(l, isnan(value) ? "nan" : isinf(value) ? "inf" : "large");
        return;
    }
    put_number(l, n / unit, 10, 1);
    if (places > 0) {
        put(l, '.');
        put_number(l, n % unit, 10, places);
    }
}

// one conversion, from behind its %; returns what follows it
static const char *convert(line *l, const char *f, va_list *args)
{
    int width = 0;
    bool wide = false;
    for (; *f == '.' || (*f >= '0' && *f <= '9'); f++) {
        width = *f == '.' ? 0 : 10 * width + (*f - '0');
    }
    for (; *f == 'l' || *f == 'z'; f++) {
        wide = true;
    }
    if (*f == 's') {
        put_text(l, va_arg(*args, const char *));
    } else if (*f == 'f') {
        put_double(l, va_arg(*args, double), width);
    } else if (*f == 'd') {
        int value = va_arg(*args, int);
        if (value < 0) {
            put(l, '-');
        }
        put_number(l, (uint64_t)(value < 0 ? -(int64_t)value : value), 10, width);
    } else if (*f == 'u' || *f == 'x') {
        uint64_t value = wide ? va_arg(*args, unsigned long) : va_arg(*args, unsigned);
        put_number(l, value, *f == 'x' ? 16 : 10, width);
    } else {
        put(l, *f);
    }
    return f + 1;
}

int printf(const char *format, ...)
{
    line l = {.n = 0};
    va_list args;
    va_start(args, format);
    for (const char *f = format; *f;) {
        if (*f == '%' && f[1]) {
            f = convert(&l, f + 1, &args);
        } else {
            put(&l, *f++);
        }
    }
    va_end(args);
    l.text[l.n] = '\0';
    board_write(l.text);
    return 0;
}
