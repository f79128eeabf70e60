// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_JSON_H
#define PF_JSON_H

#include <jansson.h>

// jansson reads and prints its numbers with the decimal point of the current locale, of which it
// knows the first byte only: these two put the locale aside as text.h says. Free the text with
// free().
json_t *pf__json_load(const void *text, size_t size, size_t flags, json_error_t *problem);
char *pf__json_dump(const json_t *json, size_t flags);

#endif
