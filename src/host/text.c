// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "text.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

pf_locale pf__locale_begin(void)
{
    // a locale of all categories that is C is not made but there already
    locale_t mine = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return (pf_locale){mine, mine ? uselocale(mine) : (locale_t)0};
}

void pf__locale_end(pf_locale locale)
{
    if (locale.mine) {
        uselocale(locale.before);
        freelocale(locale.mine);
    }
}

int pf__vprint(char *out, size_t size, const char *format, va_list list)
{
    pf_locale locale = pf__locale_begin();
    int n = vsnprintf(out, size, format, list);
    pf__locale_end(locale);
    return n;
}

int pf__print(char *out, size_t size, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int n = pf__vprint(out, size, format, list);
    va_end(list);
    return n;
}

double pf__number_read(const char *text, char **end)
{
    pf_locale locale = pf__locale_begin();
    double value = strtod(text, end);
    pf__locale_end(locale);
    return value;
}

void pf__text_free(pf_text *text)
{
    free(text->data);
    *text = (pf_text){0};
}

void pf__text_clear(pf_text *text)
{
    text->size = 0;
    if (text->data) {
        text->data[0] = 0;
    }
}

void pf__text_add_n(pf_text *text, const char *s, size_t n)
{
    if (text->failed) {
        return;
    }
    if (n + 1 > text->capacity - text->size || text->capacity == 0) {
        size_t want = 2 * (text->size + n + 1);
        char *grown = want < 64 ? realloc(text->data, 64) : realloc(text->data, want);
        if (!grown) {
            text->failed = true;
            return;
        }
        text->data = grown;
        text->capacity = want < 64 ? 64 : want;
    }
    memcpy(text->data + text->size, s, n);
    text->size += n;
    text->data[text->size] = 0;
}

void pf__text_add_word(pf_text *text, const char *word)
{
    bool plain = word[0] && strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                         "0123456789_-./=:,+@%") == strlen(word);
    pf__text_add(text, plain ? "" : "'");
    for (; *word; word++) {
        pf__text_add(text, *word == '\'' ? "'\\'" : "");
        pf__text_add_n(text, word, 1);
    }
    pf__text_add(text, plain ? "" : "'");
}

void pf__text_join(pf_text *text, const pf_text *part)
{
    pf__text_add_n(text, part->data ? part->data : "", part->size);
    text->failed = text->failed || part->failed;
}

void pf__text_add(pf_text *text, const char *s)
{
    pf__text_add_n(text, s, strlen(s));
}

void pf__text_addf(pf_text *text, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    pf__text_vaddf(text, format, list);
    va_end(list);
}

void pf__text_vaddf(pf_text *text, const char *format, va_list list)
{
    char small[512];
    va_list again;
    va_copy(again, list);
    int n = pf__vprint(small, sizeof small, format, again);
    va_end(again);
    if (n < 0) {
        text->failed = true;
        return;
    }
    if ((size_t)n < sizeof small) {
        pf__text_add_n(text, small, (size_t)n);
        return;
    }
    char *large = malloc((size_t)n + 1);
    if (!large) {
        text->failed = true;
        return;
    }
    pf__vprint(large, (size_t)n + 1, format, list);
    pf__text_add_n(text, large, (size_t)n);
    free(large);
}

size_t pf__utf8_size(const char *text, size_t n)
{
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80) {
        return 1;
    }
    size_t size = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4 || size > n) {
        return 0;
    }
    for (size_t i = 1; i < size; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    bool bad = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
               (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f);
    return bad ? 0 : size;
}

// The number of a character of a known size.
static unsigned code_of(const char *s, size_t size)
{
    unsigned code = size == 1 ? (unsigned char)*s : (unsigned char)*s & (0x7fu >> size);
    for (size_t i = 1; i < size; i++) {
        code = code << 6 | ((unsigned char)s[i] & 0x3fu);
    }
    return code;
}

size_t pf__text_steers(const char *s, size_t n)
{
    size_t size = pf__utf8_size(s, n);
    unsigned code = size > 0 ? code_of(s, size) : 0;
    bool control = code < 0x20 || (code >= 0x7f && code < 0xa0);
    bool turns = code == 0x61c || code == 0x200e || code == 0x200f ||
                 (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
    bool breaks = code == 0x2028 || code == 0x2029;
    return size == 0 ? 1 : control || turns || breaks ? size : 0;
}

void pf__text_add_shown(pf_text *text, const char *s, size_t n, const char *keep)
{
    while (n > 0) {
        size_t steers = *s && strchr(keep, *s) ? 0 : pf__text_steers(s, n);
        size_t size = pf__utf8_size(s, n);
        if (steers > 0) {
            bool none = size == 0; // a byte of no character
            pf__text_addf(text, none ? "\\x%02x" : "\\u%04x",
                          none ? (unsigned char)*s : code_of(s, size));
        } else {
            pf__text_add_n(text, s, size);
        }
        size = size ? size : 1;
        s += size;
        n -= size;
    }
}

const char *pf__text_shown(char *out, size_t size, const char *text, size_t n)
{
    const char *tail = n < size ? "" : "...";
    n = n < size ? n : size - 4;
    while (*tail && n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80) {
        n--;
    }
    char *to = out;
    for (size_t i = 0, step; i < n; i += step) {
        size_t steers = pf__text_steers(text + i, n - i);
        step = steers > 0 ? steers : pf__utf8_size(text + i, n - i);
        if (steers > 0) {
            *to++ = '?';
        } else {
            memcpy(to, text + i, step);
            to += step;
        }
    }
    strcpy(to, tail);
    return out;
}

bool pf__is_decimal(const char *s, bool whole)
{
    const char *digits = "0123456789";
    s += *s == '+' || *s == '-';
    size_t before = strspn(s, digits), after = 0;
    s += before;
    if (*s == '.' && !whole) {
        after = strspn(++s, digits);
        s += after;
    }
    if (before + after > 0 && (*s == 'e' || *s == 'E') && !whole) {
        s++;
        s += *s == '+' || *s == '-';
        size_t exponent = strspn(s, digits);
        s += exponent;
        before = exponent > 0 ? before : 0;
        after = exponent > 0 ? after : 0;
    }
    return before + after > 0 && *s == '\0';
}

void pf__name_tidy(char out[PF_NAME_MOST + 1], const char *name)
{
    bool number = pf__is_decimal(name, true);
    snprintf(out, PF_NAME_MOST + 1, "%s%.*s", number ? "_" : "", PF_NAME_MOST - number, name);
    for (size_t at = 0, size; out[at]; at += size) {
        size_t left = strlen(out + at);
        size = pf__utf8_size(out + at, left);
        bool bad = pf__text_steers(out + at, left) > 0 || strchr(",\"'`=", out[at]);
        size = size > 0 ? size : 1;
        memset(out + at, bad ? '_' : out[at], bad ? size : 1);
    }
}

void pf__number_text(double value, char out[32])
{
    if (value == 0) {
        // a bare -0 would be read as an integer and lose its sign
        strcpy(out, signbit(value) ? "-0.0" : "0");
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        pf__print(out, 32, "%.*g", digits, value);
        if (pf__number_read(out, NULL) == value) {
            return;
        }
    }
}

void pf__json_number(pf_text *text, double value)
{
    char number[32];
    if (!isfinite(value)) {
        pf__text_add(text, "null");
        return;
    }
    pf__number_text(value, number);
    pf__text_add(text, number);
}

void pf__json_string(pf_text *text, const char *s)
{
    pf__text_add(text, "\"");
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') {
            char pair[3] = {'\\', (char)c, 0};
            pf__text_add(text, pair);
        } else if (c < 32) {
            pf__text_addf(text, "\\u%04x", c);
        } else {
            pf__text_add_n(text, s, 1);
        }
    }
    pf__text_add(text, "\"");
}

void pf__json_string_or_null(pf_text *text, const char *s)
{
    if (s && s[0]) {
        pf__json_string(text, s);
    } else {
        pf__text_add(text, "null");
    }
}

void pf__json_comma(pf_text *text)
{
    char last = text->size > 0 ? text->data[text->size - 1] : '{';
    if (last != '{' && last != '[' && last != ':') {
        pf__text_add(text, ",");
    }
}

void pf__json_key(pf_text *text, const char *key)
{
    pf__json_comma(text);
    pf__json_string(text, key);
    pf__text_add(text, ":");
}

void pf__json_open(pf_text *text, const char *key, const char *bracket)
{
    if (key) {
        pf__json_key(text, key);
    } else {
        pf__json_comma(text);
    }
    pf__text_add(text, bracket);
}

void pf__json_numbers(pf_text *text, int n, const double *values)
{
    pf__text_add(text, "[");
    for (int i = 0; i < n; i++) {
        pf__json_comma(text);
        pf__json_number(text, values[i]);
    }
    pf__text_add(text, "]");
}

void pf__json_strings(pf_text *text, int n, const char *const *strings)
{
    pf__text_add(text, "[");
    for (int i = 0; i < n; i++) {
        pf__json_comma(text);
        pf__json_string(text, strings[i]);
    }
    pf__text_add(text, "]");
}

void pf__json_ints(pf_text *text, int n, const int *values)
{
    pf__text_add(text, "[");
    for (int i = 0; i < n; i++) {
        pf__json_comma(text);
        pf__text_addf(text, "%d", values[i]);
    }
    pf__text_add(text, "]");
}

void pf__json_matrix(pf_text *text, int rows, int columns, const double *values)
{
    pf__text_add(text, "[");
    for (int r = 0; r < rows; r++) {
        pf__json_comma(text);
        pf__json_numbers(text, columns, values + (size_t)r * (size_t)columns);
    }
    pf__text_add(text, "]");
}

void pf__json_add_int(pf_text *text, const char *key, int value)
{
    pf__json_key(text, key);
    pf__text_addf(text, "%d", value);
}

void pf__json_add_number(pf_text *text, const char *key, double value)
{
    pf__json_key(text, key);
    pf__json_number(text, value);
}

void pf__json_add_string(pf_text *text, const char *key, const char *value)
{
    pf__json_key(text, key);
    pf__json_string(text, value);
}

pf_counted pf__counted(long long n, const char *noun)
{
    pf_counted c;
    size_t size = strlen(noun);
    bool ies = n != 1 && size > 1 && noun[size - 1] == 'y' && !strchr("aeou", noun[size - 2]);
    bool es = size > 0 && noun[size - 1] == 's';
    snprintf(c.text, sizeof c.text, "%lld %.*s%s", n, (int)(size - ies), noun,
             n == 1 ? ""
             : ies  ? "ies"
             : es   ? "es"
                    : "s");
    return c;
}
