// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "bench.h"

#include <string.h>

// bench verify.

static pf_status recompute(const bench_call *c, bench_session *s, size_t sample, int threads,
                           pf_verify_report *report, char hash[65], pf_error *error)
{
    cli_progress progress;
    pf_status status = bench_find_hash(c, s, hash, error);
    if (status == PF_OK && strcmp(hash, s->experiment.hash) != 0) {
        status = pf_fail(error, PF_ERR_MISMATCH,
                         "config %s was run with other settings or another version; as called now "
                         "the suite is %s: repeat the --set of that run, or name a --config",
                         hash, s->experiment.hash);
    }
    if (status != PF_OK) {
        return status;
    }
    pf_effort effort = cli_effort(&progress, threads);
    progress.form = c->form;
    progress.main = progress.job = "verifying";
    status = bench_learn(c, &s->experiment, false, &effort, error);
    status = status ? status : pf__experiment_bound(&s->experiment, s->store, error);
    status = status
                 ? status
                 : pf__experiment_verify(&s->experiment, s->store, sample, &effort, report, error);
    cli_progress_end(&progress);
    if (status == PF_OK && report->available == 0) {
        status = pf_fail(error, PF_ERR_ARGUMENT, "no trial of %s is stored at profile %s",
                         s->suite.run->id, c->profile->name);
    }
    return status;
}

pf_status bench_recompute(const bench_call *c, const char *name, size_t sample, int threads,
                          pf_verify_report *report, char hash[65], pf_error *error)
{
    bench_session s = {.store = NULL};
    pf_status status = bench_suite_open(c, name, &s.suite, error);
    status = status ? status : bench_session_open(&s, c, PF_STORE_READ, error);
    if (status == PF_OK) {
        status = recompute(c, &s, sample, threads, report, hash, error);
        bench_session_close(&s);
    }
    return status;
}

static int verify_suite(bench_call *c, const char *name, size_t sample, int threads)
{
    char hash[65];
    pf_verify_report report;
    pf_error error = {PF_OK, ""};
    bench_take_last(c, name);
    pf_status status = bench_recompute(c, name, sample, threads, &report, hash, &error);
    if (status != PF_OK) {
        return cli_fail(c->command, status, &error);
    }
    printf("%s, %s, config %s: %zu of %zu stored trials recomputed, %zu differ\n", name,
           c->profile->name, hash, report.checked, report.available, report.different);
    if (report.different > 0) {
        printf("first difference: %s\n", report.difference);
    }
    return report.different > 0 ? EXIT_NO : EXIT_YES;
}

int bench_cmd_verify(int argc, char **argv)
{
    const char *threads_text = NULL, *sample_text = NULL, *progress = NULL;
    double threads = 0, sample = 50;
    int status = EXIT_YES;
    cli_list names = {.n = 0};
    bench_call call = {.command = "bench verify"};
    cli_option options[BENCH_OPTIONS + 4] = {
        [BENCH_OPTIONS] = {"--threads", .value = &threads_text},
        [BENCH_OPTIONS + 1] = {"--sample", .value = &sample_text},
        [BENCH_OPTIONS + 2] = {"--method", .list = &call.methods},
        [BENCH_OPTIONS + 3] = {"--progress", .value = &progress}};
    bench_options(&call, options);
    if (!cli_parse(call.command, argc, argv, options, BENCH_OPTIONS + 4, &names)) {
        return EXIT_USAGE;
    }
    if (names.n != 1) {
        return cli_usage(call.command, "name one suite; `preflight bench list` shows them");
    }
    if (!cli_threads(call.command, threads_text, &threads) ||
        !cli_progress_form(call.command, progress, &call.form) ||
        (sample_text && !cli_integer(call.command, "--sample", sample_text, 1, 1e9, &sample))) {
        return EXIT_USAGE;
    }
    if (bench_resolve(&call, &status)) {
        status = verify_suite(&call, names.item[0], (size_t)sample, (int)threads);
    }
    pf__own_methods_destroy(call.own);
    return status;
}
