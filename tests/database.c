// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "database.h"

#include <sqlite3.h>
#include <stdio.h>

long long database_ask(const char *path, const char *other, const char *sql)
{
    sqlite3 *handle = NULL;
    sqlite3_stmt *statement = NULL;
    sqlite3_int64 answer = -1;
    char attach[600];
    if (sqlite3_open(path, &handle) == SQLITE_OK) {
        sqlite3_busy_timeout(handle, 10000);
        if (other) {
            snprintf(attach, sizeof attach, "ATTACH '%s' AS b", other);
            sqlite3_exec(handle, attach, NULL, NULL, NULL);
        }
        if (sqlite3_prepare_v2(handle, sql, -1, &statement, NULL) == SQLITE_OK) {
            int code = sqlite3_step(statement);
            answer = code == SQLITE_ROW    ? sqlite3_column_int64(statement, 0)
                     : code == SQLITE_DONE ? 0
                                           : -1;
        }
        sqlite3_finalize(statement);
    }
    sqlite3_close(handle);
    return answer;
}
