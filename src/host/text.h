// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_TEXT_H
#define PF_TEXT_H

#include "preflight/base.h"

#include <stdarg.h>

// A decimal point, whatever locale the caller's program has set. Files, messages and what other
// programs read are those of the C locale: the thread's own locale gives way for the time of a
// call. That changes no other thread and no setting of the program, and takes no memory. The online
// path has no text, so it pays nothing. Only these functions, and those of json.h, print or read a
// number with a fraction.
typedef struct pf_locale {
    void *mine, *before;
} pf_locale;
pf_locale pf__locale_begin(void);
void pf__locale_end(pf_locale locale);

// snprintf, vsnprintf and strtod in it.
int pf__print(char *out, size_t size, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;
int pf__vprint(char *out, size_t size, const char *format, va_list list)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 0)))
#endif
    ;
double pf__number_read(const char *text, char **end);

// A text that grows. Starts as {0}; when memory runs out `failed` is set and the text stops
// growing.
typedef struct pf_text {
    char *data; // terminated; NULL while empty
    size_t size;
    size_t capacity;
    bool failed;
} pf_text;

void pf__text_free(pf_text *text);
void pf__text_clear(pf_text *text);
void pf__text_add(pf_text *text, const char *s);
void pf__text_add_n(pf_text *text, const char *s, size_t n);
// A word of a command as a shell reads it, quoted where it must be.
void pf__text_add_word(pf_text *text, const char *word);
// A text that memory ran out for makes the whole one failed too.
void pf__text_join(pf_text *text, const pf_text *part);
void pf__text_addf(pf_text *text, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;
void pf__text_vaddf(pf_text *text, const char *format, va_list list)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 0)))
#endif
    ;

// JSON pieces. A number is printed with as many digits as give the same double back; one that is
// not finite as null. Keys and separators are the caller's: pf__json_key writes a comma where the
// text does not just open an object or list.
void pf__json_number(pf_text *text, double value);
void pf__json_string(pf_text *text, const char *s);
void pf__json_string_or_null(pf_text *text, const char *s); // null where there is none or ""
void pf__json_key(pf_text *text, const char *key);          // ,"key":
void pf__json_add_int(pf_text *text, const char *key, int value);
void pf__json_add_number(pf_text *text, const char *key, double value);
void pf__json_add_string(pf_text *text, const char *key, const char *value);
void pf__json_comma(pf_text *text); // a comma unless something was just opened
// Opens an object or list, "{" or "[": the value of a key, or with NULL the next item of a list.
void pf__json_open(pf_text *text, const char *key, const char *bracket);
void pf__json_numbers(pf_text *text, int n, const double *values);
void pf__json_ints(pf_text *text, int n, const int *values);
void pf__json_strings(pf_text *text, int n, const char *const *strings);
void pf__json_matrix(pf_text *text, int rows, int columns, const double *values);

// Bytes of the UTF-8 character at s (n > 0 bytes left), 0 if there is none: overlong forms,
// surrogates and what lies beyond U+10FFFF are none.
size_t pf__utf8_size(const char *s, size_t n);

// The size of the character here that no reader may be handed as it is, 0: it is a plain one. That
// is a control character, one that turns the direction of the text around it, or a byte of none.
size_t pf__text_steers(const char *s, size_t n);
// Adds a text with such characters shown as \u001b or \xff. keep: the ones that stay, such as "\n".
void pf__text_add_shown(pf_text *text, const char *s, size_t n, const char *keep);

// The first n bytes of a text for a message: short enough for `size`, never half a character, '?'
// for a control character, for one that turns the text, and for a byte of none: UTF-8 whatever the
// text is. Returns out.
const char *pf__text_shown(char *out, size_t size, const char *text, size_t n);

// Whether it is a decimal number: digits, a point and an exponent, nothing else that strtod would
// take (hex, inf, nan). whole: digits only.
bool pf__is_decimal(const char *s, bool whole);

// A name of somebody else's as files and options take it: no commas, quotes and control characters,
// not a number, not too long.
enum { PF_NAME_MOST = 60 };
void pf__name_tidy(char out[PF_NAME_MOST + 1], const char *name);

// A count and its noun: "1 probe", "2 probes", "3 entries", "4 losses".
typedef struct pf_counted {
    char text[64];
} pf_counted;
pf_counted pf__counted(long long n, const char *noun);

// Shortest decimal that reads back as the same double.
void pf__number_text(double value, char out[32]);

#endif
