// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "bench.h"

#include "host/file.h"

#include <unistd.h>

// bench merge.

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

static int report_merge(const char *path, int n, const pf_merge_report *report)
{
    printf("%s: %s from %s", path, pf__counted(report->added, "new trial").text,
           pf__counted(n, "database").text);
    if (report->twice > 0 && report->largest > 0) {
        printf("; %s found twice, at most %.2g apart", pf__counted(report->twice, "trial").text,
               report->largest);
    } else if (report->twice > 0) {
        printf("; %s found twice, equal to the bit", pf__counted(report->twice, "trial").text);
    }
    printf("\n");
    return EXIT_YES;
}

static int merge(const char *into, const cli_list *from)
{
    pf_error error = {PF_OK, ""};
    pf_merge_report report = {0};
    pf_store *store = NULL;
    bool made = !is_there(into);
    pf_status status = pf__file_writable(into, &error);
    status = status ? status : pf__store_open(&store, into, PF_STORE_WRITE, &error);
    if (status == PF_OK) {
        status = pf__store_merge(store, from->n, from->item, &report, &error);
    }
    pf__store_close(store);
    if (status == PF_OK) {
        return report_merge(into, from->n, &report);
    }
    if (made && store) {
        unlink(into); // there was nothing, and there is nothing
    }
    return cli_fail("bench merge", status, &error);
}

int bench_cmd_merge(int argc, char **argv)
{
    cli_list from = {.n = 0};
    const char *into = NULL;
    const cli_option options[] = {{"-o", .value = &into}};
    if (!cli_parse("bench merge", argc, argv, options, 1, &from)) {
        return EXIT_USAGE;
    }
    if (from.n == 0 || !into) {
        return cli_usage("bench merge", "%s",
                         into ? "name the databases to merge" : "name the database with -o FILE");
    }
    pf_error error = {PF_OK, ""};
    for (int i = 0; i <= from.n; i++) {
        const char *path = i < from.n ? from.item[i] : into;
        if (pf__store_check_name(path, &error) != PF_OK) {
            return cli_usage("bench merge", "%s", error.text);
        }
        if (i < from.n && pf__file_same(path, into)) {
            return cli_usage("bench merge",
                             "%s is named twice; -o FILE keeps what it has and takes the others in",
                             path);
        }
    }
    return merge(into, &from);
}
