// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "bench.h"

#include "bench/aggregate.h"
#include "bench/experiment.h"
#include "bench/figure.h"

#include <string.h>

// A suite's stored trials, aggregated, with the paper's numbers.
typedef struct loaded {
    bench_suite suite;
    pf_store *store;
    pf_paper paper;
    pf_entries entries;
    pf_report report;
    pf_text settings; // other than the suite's
    pf_store_counts counts;
    double alpha, g_cal;
    char hash[65];
} loaded;

static void unload(loaded *l)
{
    pf_text_free(&l->settings);
    pf_entries_free(&l->entries);
    pf_paper_free(&l->paper);
    pf_store_close(l->store);
    bench_suite_close(&l->suite);
}

// The configuration meant; only --set needs the suite's own hash, for which plants are started.
static pf_status find_hash(loaded *l, const bench_call *c, pf_error *error)
{
    const char *suite = l->suite.run->id;
    pf_experiment own = {0};
    pf_status status =
        c->set.n > 0 ? pf_experiment_init(&own, l->suite.run, c->profile, error) : PF_OK;
    status =
        status ? status : bench_find_config(c, l->suite.run, own.hash, l->store, l->hash, error);
    pf_experiment_free(&own);
    if (status == PF_OK && !l->hash[0]) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "%s has no trials of %s at profile %s; `preflight bench run %s --profile %s "
                       "--db %s` makes them",
                       c->db, suite, c->profile->name, suite, c->profile->name, c->db);
    }
    return status;
}

// What the configuration has set otherwise than the suite, and what its table needs of it.
static pf_status find_settings(loaded *l, const bench_call *c, const char *name, pf_error *error)
{
    l->alpha = l->suite.run->alpha;
    l->g_cal = l->suite.run->g_cal;
    pf_status status = pf_store_number(l->store, l->hash, "alpha", &l->alpha, error);
    status = status ? status : pf_store_number(l->store, l->hash, "g_cal", &l->g_cal, error);
    bench_call plain = *c;
    plain.set.n = 0;
    bench_suite suite;
    pf_experiment e = {0};
    if (status != PF_OK || bench_suite_open(&plain, name, &suite, NULL) != PF_OK) {
        return status;
    }
    // a suite that cannot be described any more is not compared
    if (pf_experiment_describe(&e, suite.run, c->profile, NULL) == PF_OK) {
        status = pf_store_differences(l->store, l->hash, e.settings, &l->settings, error);
    }
    pf_experiment_free(&e);
    bench_suite_close(&suite);
    return status;
}

static pf_status check_rows(loaded *l, const bench_call *c, pf_error *error)
{
    pf_status status = pf_store_count(l->store, l->hash, &l->counts, error);
    const pf_store_counts counts = l->counts;
    if (status != PF_OK) {
        return status;
    }
    if (counts.done == 0) {
        return pf_fail(error, PF_ERR_ARGUMENT, "%s has no finished trials of config %s%s", c->db,
                       l->hash,
                       counts.failed > 0 ? "; `preflight bench status` says why they failed" : "");
    }
    if (counts.done < counts.total) {
        fprintf(stderr,
                "preflight %s: %lld of %lld trials are done, %lld failed; the rest is not in "
                "here\n",
                c->command, (long long)counts.done, (long long)counts.total,
                (long long)counts.failed);
    }
    return PF_OK;
}

static pf_status aggregate(loaded *l, pf_error *error)
{
    const pf_suite *run = l->suite.run, *shown = &l->suite.shown;
    const char *names[64];
    pf_aggregate_options options = {.environments = (const char *const *)run->environments.text,
                                    .n_environments = run->environments.n,
                                    .shown = names,
                                    .n_shown = pf_paper_shown(&l->paper, shown->id, names, 64)};
    cli_progress progress;
    pf_effort effort = cli_effort(&progress, 0);
    options.effort = &effort;
    pf_status status = pf_aggregate(&l->entries, l->store, l->hash, &options, error);
    cli_progress_end(&progress);
    return status;
}

static pf_status load(loaded *l, const bench_call *c, const char *name, pf_error *error)
{
    char folder[BENCH_PATH + 16];
    memset(l, 0, sizeof *l);
    pf_status status = bench_suite_open(c, name, &l->suite, error);
    if (status != PF_OK) {
        return status;
    }
    snprintf(folder, sizeof folder, "%s/data", c->folder);
    status = pf_store_open(&l->store, c->db, PF_STORE_READ, error);
    status = status ? status : pf_paper_load(&l->paper, folder, error);
    status = status ? status : find_hash(l, c, error);
    status = status ? status : check_rows(l, c, error);
    status = status ? status : find_settings(l, c, name, error);
    status = status ? status : aggregate(l, error);
    const pf_suite *s = &l->suite.shown;
    l->report = (pf_report){.suite = s->id,
                            .title = s->title,
                            .table = s->table ? s->table : "metrics",
                            .profile = c->profile->name,
                            .hash = l->hash,
                            .metrics = (const char *const *)s->metrics.text,
                            .n_metrics = s->metrics.n,
                            .settings = l->settings.size > 0 ? l->settings.data : NULL,
                            .done = l->counts.done,
                            .failed = l->counts.failed,
                            .total = l->counts.total,
                            .alpha = l->alpha,
                            .g_cal = l->g_cal,
                            .entries = &l->entries,
                            .paper = &l->paper};
    return status;
}

static int write_table(const bench_call *c, const char *name, const char *format)
{
    loaded l;
    pf_error error = {PF_OK, ""};
    pf_text out = {0};
    pf_status status = load(&l, c, name, &error);
    if (status == PF_OK && strcmp(format, "csv") == 0) {
        pf_table_csv(&l.report, &out);
    } else if (status == PF_OK) {
        status = pf_table_text(&l.report, format, &out, &error);
    }
    int exit_status =
        status == PF_OK ? cli_write(c->command, "-", &out) : cli_fail(c->command, status, &error);
    pf_text_free(&out);
    unload(&l);
    return exit_status;
}

int cmd_bench_table(int argc, char **argv)
{
    const char *format = NULL;
    int status = EXIT_YES;
    cli_list words = {.n = 0};
    bench_call call = {.command = "bench table"};
    cli_option options[BENCH_OPTIONS + 1] = {[BENCH_OPTIONS] = {"--format", .value = &format}};
    bench_options(&call, options);
    if (!cli_parse(call.command, argc, argv, options, BENCH_OPTIONS + 1, &words)) {
        return EXIT_USAGE;
    }
    if (words.n != 1) {
        return cli_usage(call.command, "name one suite");
    }
    format = format ? format : "md";
    if (strcmp(format, "md") != 0 && strcmp(format, "csv") != 0 && strcmp(format, "tex") != 0) {
        return cli_usage(call.command, "--format: '%s' is not md, csv or tex", format);
    }
    return bench_resolve(&call, &status) ? write_table(&call, words.item[0], format) : status;
}

static int write_figure(const bench_call *c, const char *name, const char *folder)
{
    loaded l;
    pf_error error = {PF_OK, ""};
    pf_status status = load(&l, c, name, &error);
    if (status == PF_OK) {
        status = pf_figure_write(&l.report, folder, &error);
    }
    if (status == PF_OK) {
        printf("%s/%s.svg\n%s/%s.png\n", folder, l.report.suite, folder, l.report.suite);
    }
    int exit_status = status == PF_OK ? EXIT_YES : cli_fail(c->command, status, &error);
    unload(&l);
    return exit_status;
}

int cmd_bench_figure(int argc, char **argv)
{
    const char *folder = NULL;
    int status = EXIT_YES;
    cli_list words = {.n = 0};
    bench_call call = {.command = "bench figure"};
    cli_option options[BENCH_OPTIONS + 1] = {[BENCH_OPTIONS] = {"-o", .value = &folder}};
    bench_options(&call, options);
    if (!cli_parse(call.command, argc, argv, options, BENCH_OPTIONS + 1, &words)) {
        return EXIT_USAGE;
    }
    if (words.n != 1 || !folder) {
        return cli_usage(call.command, words.n != 1 ? "name one suite" : "-o DIR is missing");
    }
    return bench_resolve(&call, &status) ? write_figure(&call, words.item[0], folder) : status;
}
