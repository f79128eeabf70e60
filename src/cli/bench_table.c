// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "bench.h"

#include <string.h>

// bench table and bench figure.

void bench_unload(bench_loaded *l)
{
    pf__text_free(&l->settings);
    pf__entries_free(&l->entries);
    pf__paper_free(&l->paper);
    pf__store_close(l->store);
    bench_suite_close(&l->suite);
}

// The configuration meant; only --set needs the suite's own hash, for which plants are started.
static pf_status find_stored(bench_loaded *l, const bench_call *c, pf_error *error)
{
    const char *suite = l->suite.run->id;
    pf_experiment own = {0};
    pf_status status = c->set.n > 0 || c->exact || c->twin
                           ? pf__experiment_init(&own, l->suite.run, c->profile, error)
                           : PF_OK;
    bool described = status == PF_OK;
    status =
        status ? status : bench_find_config(c, l->suite.run, own.hash, l->store, l->hash, error);
    pf__experiment_free(&own);
    l->not_run = described && (status == PF_ERR_ARGUMENT || (status == PF_OK && !l->hash[0]));
    if (status == PF_OK && !l->hash[0]) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "%s has no trials of %s at profile %s; `preflight bench run %s --profile %s "
                       "--db %s` makes them",
                       c->db, suite, c->profile->name, suite, c->profile->name, c->db);
    }
    return status;
}

// What the configuration has set otherwise than the suite, and what its table needs of it.
static pf_status find_settings(bench_loaded *l, const bench_call *c, const char *name,
                               pf_error *error)
{
    l->alpha = l->suite.run->settings.alpha;
    l->g_cal = l->suite.run->settings.g_cal;
    pf_status status = pf__store_number(l->store, l->hash, "alpha", &l->alpha, error);
    status = status ? status : pf__store_number(l->store, l->hash, "g_cal", &l->g_cal, error);
    bench_call plain = *c;
    plain.set.n = 0;
    bench_suite as_written = {.run = NULL};
    pf_experiment e = {0};
    // a suite that cannot be read or described any more is not compared
    bool read = c->set.n == 0 || bench_suite_open(&plain, name, &as_written, NULL) == PF_OK;
    const pf_suite *suite = c->set.n == 0 ? l->suite.run : as_written.run;
    if (status == PF_OK && read && pf__experiment_describe(&e, suite, c->profile, NULL) == PF_OK) {
        status = pf__store_differences(l->store, l->hash, e.settings, &l->settings, error);
    }
    pf__experiment_free(&e);
    bench_suite_close(&as_written);
    return status;
}

static pf_status check_rows(bench_loaded *l, const bench_call *c, pf_error *error)
{
    pf_status status = pf__store_count(l->store, l->hash, &l->counts, error);
    const pf_store_counts counts = l->counts;
    if (status != PF_OK) {
        return status;
    }
    l->not_run = counts.done == 0;
    if (l->not_run) {
        return pf_fail(error, PF_ERR_ARGUMENT, "%s has no finished trials of config %s%s", c->db,
                       l->hash,
                       counts.failed > 0 ? "; `preflight bench status` says why they failed" : "");
    }
    if (counts.done < counts.total && !c->quiet) {
        fprintf(stderr,
                "preflight %s: %lld of %s are done, %lld failed; the rest is not in "
                "here\n",
                c->command, (long long)counts.done,
                pf__counted((long long)counts.total, "trial").text, (long long)counts.failed);
    }
    return PF_OK;
}

static pf_status aggregate(bench_loaded *l, pf_error *error)
{
    const pf_suite *run = l->suite.run, *shown = &l->suite.shown;
    const char *names[64];
    pf_aggregate_options options = {.environments = (const char *const *)run->environments.text,
                                    .n_environments = run->environments.n,
                                    .shown = names,
                                    .n_shown = pf__paper_shown(&l->paper, shown->id, names, 64)};
    // entries of a catalogue and rules come in their own order
    enum { MOST_ENTRIES = 4096 };
    const char *entries[MOST_ENTRIES];
    pf_experiment own = {0};
    pf_status status = PF_OK;
    if (pf__suite_audits(run)) {
        status = pf__experiment_outline(&own, run, pf__profile_find("quick"), error);
        for (int i = 0; i < own.n_cells && i < MOST_ENTRIES; i++) {
            entries[options.n_settings++] = own.cells[i].text;
        }
        options.settings = entries;
        options.methods = (const char *const *)run->methods.text;
        options.n_methods = run->methods.n;
    }
    cli_progress progress;
    pf_effort effort = cli_effort(&progress, 0);
    options.effort = &effort;
    status = status ? status : pf__aggregate(&l->entries, l->store, l->hash, &options, error);
    cli_progress_end(&progress);
    pf__experiment_free(&own);
    return status;
}

pf_status bench_load(bench_loaded *l, const bench_call *c, const char *name, pf_error *error)
{
    char folder[BENCH_PATH + 16];
    memset(l, 0, sizeof *l);
    pf_status status = bench_suite_open(c, name, &l->suite, error);
    if (status != PF_OK) {
        return status;
    }
    snprintf(folder, sizeof folder, "%s/data", c->folder);
    status = pf__store_open(&l->store, c->db, PF_STORE_READ, error);
    status = status ? status : pf__paper_load(&l->paper, folder, error);
    status = status ? status : find_stored(l, c, error);
    status = status ? status : check_rows(l, c, error);
    status = status ? status : find_settings(l, c, name, error);
    status = status ? status : aggregate(l, error);
    status = status ? status : pf__paper_best(&l->paper, l->suite.shown.id, &l->entries, error);
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

static int write_table(bench_call *c, const char *name, const char *format)
{
    bench_loaded l;
    bench_take_last(c, name);
    pf_error error = {PF_OK, ""};
    pf_text out = {0};
    pf_status status = bench_load(&l, c, name, &error);
    if (status == PF_OK && strcmp(format, "csv") == 0) {
        pf__table_csv(&l.report, &out);
    } else if (status == PF_OK) {
        status = pf__table_text(&l.report, format, &out, &error);
    }
    int exit_status =
        status == PF_OK ? cli_write(c->command, "-", &out) : cli_fail(c->command, status, &error);
    pf__text_free(&out);
    bench_unload(&l);
    return exit_status;
}

int bench_cmd_table(int argc, char **argv)
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

pf_status bench_draw(const bench_loaded *l, const bench_call *c, const char *folder,
                     const char *file, pf_error *error)
{
    char templates[BENCH_PATH + 32];
    snprintf(templates, sizeof templates, "%s/suites/figures", c->folder);
    const char *figure = l->suite.shown.figure;
    pf_figure drawn = {templates, figure ? figure : "bars", file, &cli_interrupted};
    return pf__figure_write(&l->report, &drawn, folder, error);
}

static int write_figure(bench_call *c, const char *name, const char *folder)
{
    bench_loaded l;
    bench_take_last(c, name);
    pf_error error = {PF_OK, ""};
    pf_status status = bench_load(&l, c, name, &error);
    status = status ? status : bench_draw(&l, c, folder, l.report.suite, &error);
    if (status == PF_OK) {
        printf("%s/%s.svg\n%s/%s.png\n", folder, l.report.suite, folder, l.report.suite);
    }
    int exit_status = status == PF_OK ? EXIT_YES : cli_fail(c->command, status, &error);
    bench_unload(&l);
    return exit_status;
}

int bench_cmd_figure(int argc, char **argv)
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
