// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "bench.h"

#include "settings/config.h"

#include <string.h>

int cmd_bench(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } verbs[] = {{"list", bench_cmd_list},         {"run", bench_cmd_run},
                 {"status", bench_cmd_status},     {"verify", bench_cmd_verify},
                 {"table", bench_cmd_table},       {"figure", bench_cmd_figure},
                 {"fidelity", bench_cmd_fidelity}, {"report", bench_cmd_report},
                 {"merge", bench_cmd_merge}};
    enum { VERBS = sizeof verbs / sizeof verbs[0] };
    const char *known[VERBS];
    for (int i = 0; i < VERBS; i++) {
        known[i] = verbs[i].name;
        if (argc > 0 && strcmp(argv[0], verbs[i].name) == 0) {
            return verbs[i].run(argc - 1, argv + 1);
        }
    }
    if (argc > 0 && argv[0][0] == '-' && argv[0][1]) {
        return cli_usage("bench",
                         "unknown option %s; say list, run, status, table, figure, "
                         "verify, fidelity, report or merge first",
                         argv[0]);
    }
    const char *near = argc > 0 ? pf__nearest_word(argv[0], known, VERBS) : NULL;
    return cli_usage(
        "bench", "say list, run, status, table, figure, verify, fidelity, report or merge%s%s%s",
        near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}
