// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "store_impl.h"

#include <stdio.h>
#include <string.h>

pf_status pf_store_configs(pf_store *s, const char *suite, const char *profile, int most,
                           char (*hashes)[65], int *n, pf_error *error)
{
    sqlite3_stmt *statement = NULL;
    *n = 0;
    pf_status status = pf__store_prepare(
        s,
        s->has_last_run ? "SELECT hash FROM experiment WHERE suite = ? AND profile = ?"
                          " ORDER BY coalesce(last_run, 0) DESC, ordinal DESC"
                        : "SELECT hash FROM experiment WHERE suite = ? AND profile = ?"
                          " ORDER BY ordinal DESC",
        &statement, error);
    if (status == PF_OK) {
        const pf_bound values[] = {{suite, 0}, {profile, 0}};
        pf__store_bind(statement, 2, values);
        bool more = true;
        while ((status = pf__store_next(s, statement, &more, error)) == PF_OK && more) {
            if (*n < most) {
                snprintf(hashes[*n], 65, "%s", (const char *)sqlite3_column_text(statement, 0));
            }
            (*n)++;
        }
    }
    sqlite3_finalize(statement);
    return status;
}

pf_status pf_store_settings(pf_store *s, const char *hash, pf_text *out, pf_error *error)
{
    sqlite3_stmt *statement = NULL;
    pf_status status =
        pf__store_prepare(s, "SELECT settings FROM experiment WHERE hash = ?", &statement, error);
    if (status == PF_OK) {
        bool more = false;
        pf__store_bind(statement, 1, &(pf_bound){hash, 0});
        status = pf__store_next(s, statement, &more, error);
        pf_text_add(out, more ? (const char *)sqlite3_column_text(statement, 0) : "");
    }
    sqlite3_finalize(statement);
    return status;
}

static void add_difference(pf_text *out, const char *key, const char *value)
{
    enum { SHOWN = 60 };
    if (!value && strcmp(key, "processor") == 0) {
        return; // goes with the predictor
    }
    if (!value && strcmp(key, "predictor") == 0) {
        value = "twin";
    }
    bool cut = value && strlen(value) > SHOWN;
    pf_text_addf(out, "%s%s=%.*s%s", out->size > 0 ? ", " : "", key, SHOWN, value ? value : "none",
                 cut ? "..." : "");
}

pf_status pf_store_differences(pf_store *s, const char *hash, const char *settings, pf_text *out,
                               pf_error *error)
{
    static const char sql[] =
        "WITH a AS (SELECT key, value FROM json_each((SELECT settings FROM experiment WHERE"
        " hash = ?1))), b AS (SELECT key, value FROM json_each(?2))"
        " SELECT key, value FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.key = a.key AND"
        " b.value IS a.value) AND (key <> 'fingerprints' OR key IN (SELECT key FROM b))"
        " UNION ALL SELECT key, NULL FROM b WHERE key NOT IN (SELECT key FROM a)";
    sqlite3_stmt *statement = NULL;
    pf_text found = {0};
    pf_status status = pf__store_prepare(s, sql, &statement, error);
    if (status == PF_OK) {
        const pf_bound values[] = {{hash, 0}, {settings, 0}};
        pf__store_bind(statement, 2, values);
        bool more = true;
        while ((status = pf__store_next(s, statement, &more, error)) == PF_OK && more) {
            add_difference(&found, (const char *)sqlite3_column_text(statement, 0),
                           (const char *)sqlite3_column_text(statement, 1));
        }
    }
    sqlite3_finalize(statement);
    pf_text_add(out, found.data ? found.data : "");
    pf_text_free(&found);
    return status;
}

pf_status pf_store_number(pf_store *s, const char *hash, const char *key, double *value,
                          pf_error *error)
{
    sqlite3_stmt *statement = NULL;
    pf_status status = pf__store_prepare(
        s, "SELECT json_extract(settings, '$.' || ?2) FROM experiment WHERE hash = ?1", &statement,
        error);
    if (status == PF_OK) {
        bool more = false;
        const pf_bound values[] = {{hash, 0}, {key, 0}};
        pf__store_bind(statement, 2, values);
        status = pf__store_next(s, statement, &more, error);
        if (more && sqlite3_column_type(statement, 0) != SQLITE_NULL) {
            *value = sqlite3_column_double(statement, 0);
        }
    }
    sqlite3_finalize(statement);
    return status;
}
