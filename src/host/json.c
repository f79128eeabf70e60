// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "json.h"

#include "text.h"

json_t *pf__json_load(const void *text, size_t size, size_t flags, json_error_t *problem)
{
    pf_locale locale = pf__locale_begin();
    json_t *json = json_loadb(text, size, flags, problem);
    pf__locale_end(locale);
    return json;
}

char *pf__json_dump(const json_t *json, size_t flags)
{
    pf_locale locale = pf__locale_begin();
    char *text = json_dumps(json, flags);
    pf__locale_end(locale);
    return text;
}
