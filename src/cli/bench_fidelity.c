// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "bench.h"

#include "bench/fidelity.h"

#include <string.h>

// bench fidelity.

// Our numbers of a suite, where it was run.
static pf_status take_suite(pf_fidelity *f, const bench_call *c, const char *suite, pf_error *error)
{
    bench_loaded l;
    pf_status status = bench_load(&l, c, suite, error);
    if (l.not_run) {
        status = PF_OK;
    } else if (status == PF_OK) {
        const char *predictor = l.suite.run->predictor;
        pf__fidelity_take(f, &(pf_fidelity_suite){.name = suite,
                                                  .predictor = predictor ? predictor : "twin",
                                                  .entries = &l.entries,
                                                  .done = l.counts.done,
                                                  .total = l.counts.total});
    }
    bench_unload(&l);
    return status;
}

// Every suite that a number or a claim stands in, once.
static pf_status take_all(pf_fidelity *f, const bench_call *c, pf_error *error)
{
    enum { MOST = 256 };
    const char *names[MOST];
    int n = 0;
    pf_status status = PF_OK;
    for (int i = 0; i < f->n + f->n_claims; i++) {
        const char *suite = i < f->n ? f->row[i].paper.suite : f->claim[i - f->n].suite;
        int k = 0;
        while (k < n && strcmp(names[k], suite) != 0) {
            k++;
        }
        if (k == n && n < MOST) {
            names[n++] = suite;
        }
    }
    for (int k = 0; k < n && status == PF_OK; k++) {
        status = take_suite(f, c, names[k], error);
    }
    return status;
}

// The paper's numbers and claims with ours beside them.
static pf_status open_fidelity(pf_fidelity *f, pf_paper *paper, const bench_call *c,
                               pf_error *error)
{
    char folder[BENCH_PATH + 16];
    snprintf(folder, sizeof folder, "%s/data", c->folder);
    pf_status status = pf__paper_load(paper, folder, error);
    status = status ? status : pf__fidelity_init(f, paper, folder, error);
    f->profile = c->profile->name;
    return status ? status : take_all(f, c, error);
}

// What was set, for the first line.
static const char *settings_text(const bench_call *c, pf_text *out)
{
    pf__text_add(out, c->twin ? "--twin" : "");
    for (int i = 0; i < c->set.n; i++) {
        pf__text_addf(out, "%s%s", out->size > 0 ? " " : "", c->set.item[i]);
    }
    return out->size > 0 ? out->data : NULL;
}

static pf_status nothing_run(const bench_call *c, pf_error *error)
{
    return pf_fail(error, PF_ERR_ARGUMENT,
                   "%s has no number of the paper at profile %s with these settings and without "
                   "--method; `preflight bench run SUITE...` makes them",
                   c->db, c->profile->name);
}

pf_status bench_fidelity(const bench_call *c, bool csv, const char *picture, pf_text *out,
                         int *produced, pf_error *error)
{
    pf_paper paper = {0};
    pf_fidelity f = {0};
    pf_text settings = {0};
    pf_status status = open_fidelity(&f, &paper, c, error);
    f.settings = settings_text(c, &settings);
    *produced = status == PF_OK ? pf__fidelity_sum(&f, NULL).produced : 0;
    if (*produced > 0) {
        (csv ? pf__fidelity_csv : pf__fidelity_md)(&f, out);
        status = picture ? pf__fidelity_draw(&f, picture, &cli_interrupted, error) : PF_OK;
    }
    pf__text_free(&settings);
    pf__fidelity_free(&f);
    pf__paper_free(&paper);
    return status;
}

static int write_fidelity(const bench_call *c, bool csv, const char *picture)
{
    pf_error error = {PF_OK, ""};
    pf_text out = {0};
    int produced = 0;
    pf_status status = bench_fidelity(c, csv, picture, &out, &produced, &error);
    if (status == PF_OK && produced == 0) {
        status = nothing_run(c, &error);
    }
    int exit_status =
        status == PF_OK ? cli_write(c->command, "-", &out) : cli_fail(c->command, status, &error);
    pf__text_free(&out);
    return exit_status;
}

// Whether a call has a reading already: it says so, or says nothing and all suites have it.
static bool has_reading(const bench_call *c, const char *reading, bool common)
{
    size_t key = strcspn(reading, "=") + 1;
    for (int i = c->set.n - 1; i >= 0; i--) {
        if (strncmp(c->set.item[i], reading, key) == 0) {
            return strcmp(c->set.item[i], reading) == 0;
        }
    }
    return common;
}

// A reading, and the first one over the same numbers.
static pf_status sum_reading(const bench_call *c, const bench_call *first, pf_fidelity_reading *out,
                             pf_error *error)
{
    pf_paper paper[2] = {{0}, {0}};
    pf_fidelity f[2] = {{0}, {0}};
    pf_status status = open_fidelity(&f[0], &paper[0], c, error);
    status = status ? status : open_fidelity(&f[1], &paper[1], first, error);
    if (status == PF_OK) {
        pf__fidelity_match(&f[0], &f[1]);
        out->sum = pf__fidelity_sum(&f[0], NULL);
        out->before = pf__fidelity_sum(&f[1], NULL);
    }
    for (int i = 0; i < 2; i++) {
        pf__fidelity_free(&f[i]);
        pf__paper_free(&paper[i]);
    }
    return status;
}

// One reading after the other; those of which nothing was run are left out.
static pf_status sum_readings(const bench_call *c, pf_fidelity_reading *out, int most, int *n,
                              pf_error *error)
{
    char reading[64] = "as it is";
    bool common = false;
    pf_status status = PF_OK;
    *n = 0;
    for (int i = -1; i < 0 || pf__settings_reading(i, reading, sizeof reading, &common); i++) {
        bench_call one = *c;
        one.quiet = true; // its row says how many numbers there are
        if (*n == most || status != PF_OK || (i >= 0 && has_reading(c, reading, common))) {
            continue;
        }
        if (i >= 0 && one.set.n < (int)(sizeof one.set.item / sizeof one.set.item[0])) {
            one.set.item[one.set.n++] = reading;
        }
        status = sum_reading(&one, c, &out[*n], error);
        snprintf(out[*n].name, sizeof out->name, "%s", reading);
        *n += status == PF_OK && out[*n].sum.produced > 0;
    }
    return status;
}

static int write_readings(const bench_call *c, bool csv, const char *picture)
{
    enum { MOST = 64 };
    pf_fidelity_reading readings[MOST];
    pf_error error = {PF_OK, ""};
    pf_text out = {0}, settings = {0};
    int n = 0;
    pf_status status = sum_readings(c, readings, MOST, &n, &error);
    const char *given = settings_text(c, &settings);
    if (status == PF_OK && n == 0) {
        status = nothing_run(c, &error);
    }
    if (status == PF_OK && csv) {
        pf__readings_csv(readings, n, c->profile->name, &out);
    } else if (status == PF_OK) {
        pf__readings_md(readings, n, c->profile->name, given, &out);
    }
    status = status || !picture ? status
                                : pf__readings_draw(readings, n, picture, &cli_interrupted, &error);
    int exit_status =
        status == PF_OK ? cli_write(c->command, "-", &out) : cli_fail(c->command, status, &error);
    pf__text_free(&out);
    pf__text_free(&settings);
    return exit_status;
}

int bench_cmd_fidelity(int argc, char **argv)
{
    const char *format = NULL, *picture = NULL;
    bool readings = false;
    int status = EXIT_YES;
    cli_list words = {.n = 0};
    bench_call call = {.command = "bench fidelity", .exact = true};
    cli_option options[BENCH_OPTIONS + 3] = {
        [BENCH_OPTIONS] = {"--format", .value = &format},
        [BENCH_OPTIONS + 1] = {"--plot", .value = &picture},
        [BENCH_OPTIONS + 2] = {"--readings", .flag = &readings}};
    bench_options(&call, options);
    if (!cli_parse(call.command, argc, argv, options, BENCH_OPTIONS + 3, &words)) {
        return EXIT_USAGE;
    }
    if (words.n > 0) {
        return cli_usage(call.command, "it is about all suites; leave '%s' out", words.item[0]);
    }
    if (format && strcmp(format, "md") != 0 && strcmp(format, "csv") != 0) {
        return cli_usage(call.command, "--format: '%s' is not md or csv", format);
    }
    if (call.config) {
        return cli_usage(call.command, "--config is of one suite; choose readings with --set");
    }
    if (picture && !cli_picture(call.command, picture)) {
        return EXIT_USAGE;
    }
    bool csv = format && strcmp(format, "csv") == 0;
    if (!bench_resolve(&call, &status)) {
        return status;
    }
    bench_take_last(&call, NULL);
    return readings ? write_readings(&call, csv, picture) : write_fidelity(&call, csv, picture);
}
