// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "test.h"

#include "host/csv.h"
#include "host/file.h"
#include "core/method.h"
#include "bench/report.h"

#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// From trials with known numbers to means, intervals, ranks, tables and figures.

// --- intervals

static void check_clopper_pearson(void)
{
    PF_CASE("Clopper-Pearson: closed forms and published values");
    for (int n = 1; n < 400; n += 57) {
        pf_interval none = pf__clopper_pearson(0, n, .05), all = pf__clopper_pearson(n, n, .05);
        CHECK_NEAR(none.lo, 0, 0);
        CHECK_NEAR(none.hi, 1 - pow(.025, 1.0 / n), 1e-12);
        CHECK_NEAR(all.lo, pow(.025, 1.0 / n), 1e-12);
        CHECK_NEAR(all.hi, 1, 0);
    }
    // Newcombe, Statistics in Medicine 17 (1998), table I, method 5
    static const double published[][4] = {
        {81, 263, .2527, .3676}, {15, 148, .0578, .1617}, {0, 20, 0, .1684}, {1, 29, .0009, .1776}};
    for (int i = 0; i < 4; i++) {
        pf_interval v = pf__clopper_pearson(published[i][0], published[i][1], .05);
        CHECK_NEAR(v.lo, published[i][2], 5e-5);
        CHECK_NEAR(v.hi, published[i][3], 5e-5);
    }
    CHECK(isnan(pf__clopper_pearson(0, 0, .05).lo));
    // the tails of the binomial distribution are alpha/2 at the ends
    pf_interval v = pf__clopper_pearson(3, 11, .05);
    double below = 0, above = 0, choose = 1;
    for (int k = 0; k <= 11; k++) {
        above += k >= 3 ? choose * pow(v.lo, k) * pow(1 - v.lo, 11 - k) : 0;
        below += k <= 3 ? choose * pow(v.hi, k) * pow(1 - v.hi, 11 - k) : 0;
        choose = choose * (11 - k) / (k + 1);
    }
    CHECK_NEAR(above, .025, 1e-12);
    CHECK_NEAR(below, .025, 1e-12);

    PF_CASE("Percentiles are linear between order statistics");
    double values[101];
    for (int i = 0; i <= 100; i++) {
        values[i] = (i * 37) % 101;
    }
    v = pf__percentiles(values, 101, .05);
    CHECK_NEAR(v.lo, 2.5, 1e-12);
    CHECK_NEAR(v.hi, 97.5, 1e-12);
}

// --- a store with known numbers

enum { ENVIRONMENTS = 2, SETTINGS = 2, SEEDS = 2, TRIALS = 3, METHODS = 3 };
static const char *const environments[] = {"attitude", "building"};
static const char *const settings[] = {"B2=1;g=0.20", "B2=1;g=0.50"};
static const char *const methods[] = {"random", "eg-mpt", "eg-mpt:no-transport"};
static const char hash[] = "0123456789abcdef";

// Trial 2 of every seed is nominal: what speaks of the change is not defined there.
static void fill(pf_trial_result *r, const pf_unit *u, int e, int s, int m)
{
    static const double deployed[SEEDS][TRIALS] = {{4, 4, 2}, {1, 0, 1}};
    static const double violated[SEEDS][TRIALS] = {{1, 0, 1}, {1, 0, 1}};
    for (int i = 0; i < PF_METRIC_COUNT; i++) {
        r->value[i] = NAN;
    }
    r->value[PF_METRIC_worst_error] = 1 + e + .1 * m;
    r->value[PF_METRIC_probes] = 7;
    r->value[PF_METRIC_regret] =
        1 + 10 * e + 2 * s + 4 * u->seed + u->trial - (.5 + .1 * u->trial) * (m == 1);
    r->value[PF_METRIC_deployed] = deployed[u->seed][u->trial];
    r->value[PF_METRIC_violated] = violated[u->seed][u->trial];
    if (u->trial < 2) {
        r->value[PF_METRIC_detection] = m == 1 ? 1 : u->trial;
        r->value[PF_METRIC_compensation_error] = m == 0 ? .5 : m == 1 ? .3 : .2;
        r->value[PF_METRIC_coverage] = m == 0 ? 1 : u->trial;
        r->value[PF_METRIC_crps] = .25 + (m == 1 && e == 0 ? .01 : 0);
    }
}

static bool finish_one(pf_store *store, const pf_unit *u, pf_error *error)
{
    pf_trial_result results[METHODS];
    int e = strcmp(u->environment, environments[1]) == 0;
    int s = strcmp(u->setting, settings[1]) == 0;
    for (int m = 0; m < METHODS; m++) {
        fill(&results[m], u, e, s, m);
    }
    return pf__store_finish(store, u, "here", METHODS, methods, results, error) == PF_OK;
}

static bool finish(pf_store *store, pf_error *error)
{
    pf_unit units[PF_STORE_CLAIM];
    int n = 1;
    while (n > 0) {
        if (pf__store_claim(store, hash, NULL, NULL, NULL, units, &n, error) != PF_OK) {
            return false;
        }
        for (int i = 0; i < n; i++) {
            if (!finish_one(store, &units[i], error)) {
                return false;
            }
        }
    }
    return true;
}

static bool make_store(const char *path, pf_store **store)
{
    pf_unit units[ENVIRONMENTS * SETTINGS * SEEDS * TRIALS];
    pf_error error = {PF_OK, ""};
    size_t n = 0;
    for (int i = 0; i < ENVIRONMENTS * SETTINGS * SEEDS * TRIALS; i++) {
        pf_unit *u = &units[n++];
        memset(u, 0, sizeof *u);
        u->trial = i % TRIALS;
        u->seed = i / TRIALS % SEEDS;
        snprintf(u->setting, sizeof u->setting, "%s", settings[i / TRIALS / SEEDS % SETTINGS]);
        snprintf(u->environment, sizeof u->environment, "%s",
                 environments[i / TRIALS / SEEDS / SETTINGS]);
    }
    bool made =
        CHECK(pf__store_open(store, path, PF_STORE_WRITE, &error) == PF_OK) &&
        CHECK(pf__store_begin(*store, hash, "known", "quick", "{}", units, n, &error) == PF_OK) &&
        CHECK(finish(*store, &error));
    if (!made) {
        printf("%s\n", error.text);
    }
    return made;
}

static void check_entry(const pf_entries *all, const char *environment, const char *setting,
                        const char *metric, const char *method, double mean, double sd, double n)
{
    const pf_entry *e = pf__entries_find(all, environment, setting, metric, method);
    if (!CHECK(e != NULL)) {
        printf("no %s %s %s %s\n", environment, setting, metric, method);
        return;
    }
    CHECK_NEAR(e->mean, mean, 1e-12);
    CHECK_NEAR(e->n, n, 0);
    CHECK(isnan(sd) ? isnan(e->sd) : fabs(e->sd - sd) < 1e-12);
    CHECK(e->lo <= e->mean + 1e-12 && e->mean <= e->hi + 1e-12);
}

static void check_means(const pf_entries *all)
{
    PF_CASE("Means and sds of seed means, pooled settings, macro");
    const double sd = 4 / sqrt(2);
    // seed 0: 1 2 3, seed 1: 5 6 7
    check_entry(all, "attitude", "B2=1;g=0.20", "regret", "random", 4, sd, 6);
    check_entry(all, "attitude", "B2=1;g=0.50", "regret", "random", 6, sd, 6);
    check_entry(all, "attitude", "B2=1", "regret", "random", 5, sd, 12);
    check_entry(all, "building", "B2=1;g=0.20", "regret", "random", 14, sd, 6);
    check_entry(all, "macro", "B2=1;g=0.20", "regret", "random", 9, sd, 12);
    check_entry(all, "macro", "B2=1", "regret", "random", 10, sd, 24);
    // changed trials only
    check_entry(all, "attitude", "B2=1", "detection", "random", .5, 0, 8);
    check_entry(all, "attitude", "B2=1", "detection", "eg-mpt", 1, 0, 8);
    CHECK(!pf__entries_find(all, "attitude", "all", "regret", "random"));
    CHECK(!pf__entries_find(all, "macro-shown", "B2=1", "regret", "random"));

    PF_CASE("Paired differences to EG-MPT");
    check_entry(all, "attitude", "B2=1;g=0.20", "regret_minus_eg_mpt", "random", .6, 0, 6);
    check_entry(all, "macro", "B2=1", "regret_minus_eg_mpt", "random", .6, 0, 24);
    const pf_entry *e = pf__entries_find(all, "attitude", "B2=1", "regret_minus_eg_mpt", "random");
    // far narrower than the spread of the trials: what they share cancels
    CHECK(e && e->lo >= .5 && e->hi <= .7 && e->hi - e->lo > .05);
    CHECK(!pf__entries_find(all, "attitude", "B2=1", "regret_minus_eg_mpt", "eg-mpt"));
}

static void check_shares(const pf_entries *all)
{
    PF_CASE("Counts are pooled within a seed, then divided; exact intervals on pooled counts");
    // 2 of 10 and 2 of 2
    check_entry(all, "attitude", "B2=1;g=0.20", "violation", "random", .6, .8 / sqrt(2), 12);
    check_entry(all, "macro", "B2=1;g=0.20", "violation", "random", .6, .8 / sqrt(2), 24);
    const pf_entry *e = pf__entries_find(all, "attitude", "B2=1;g=0.20", "violation", "random");
    // 4 of 12, published tables of exact limits
    CHECK_NEAR(e->lo, .0992, 5e-5);
    CHECK_NEAR(e->hi, .6511, 5e-5);
    e = pf__entries_find(all, "attitude", "B2=1;g=0.20", "detection", "eg-mpt");
    CHECK_NEAR(e->lo, pow(.025, 1.0 / 4), 1e-12);
    CHECK_NEAR(e->hi, 1, 0);
    // a mean of shares is no share, unless it is all of them
    e = pf__entries_find(all, "macro", "B2=1;g=0.20", "detection", "eg-mpt");
    CHECK_NEAR(e->lo, pow(.025, 1.0 / 8), 1e-12);
    CHECK(!pf__entries_find(all, "attitude", "B2=1", "violation_changed", "random"));
    CHECK(!pf__entries_find(all, "attitude", "B2=1", "false_ready_share", "random"));

    PF_CASE("Ranks among the paper's methods, control arm left out, ties share the better rank");
    check_entry(all, "attitude", "B2=1", "rank_compensation_error", "eg-mpt", 1, NAN, 12);
    check_entry(all, "attitude", "B2=1", "rank_worst_error", "eg-mpt", 2, NAN, 12);
    check_entry(all, "attitude", "B2=1", "rank_crps", "eg-mpt", 2, NAN, 12);
    check_entry(all, "building", "B2=1", "rank_crps", "eg-mpt", 1, NAN, 12);
    check_entry(all, "macro", "B2=1", "rank_crps", "eg-mpt", 1.5, NAN, 24);
    check_entry(all, "attitude", "B2=1", "rank_probes", "eg-mpt", 1, NAN, 12);
    check_entry(all, "attitude", "B2=1", "rank_coverage", "eg-mpt", 2, NAN, 12);
}

// --- the same by SQL, against the printed table

// Field of the line that starts with the prefix; NaN if it is empty or there is none.
static double printed(const char *csv, const char *prefix, int field)
{
    const char *line = csv;
    size_t n = strlen(prefix);
    while (line && strncmp(line, prefix, n) != 0) {
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    if (!line) {
        return NAN;
    }
    for (line += n; field > 0; field--) {
        line += strcspn(line, ",\n") + 1;
    }
    return *line == ',' || *line == '\n' ? NAN : strtod(line, NULL);
}

static int compare_sql(sqlite3 *db, const char *csv, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    int n = 0;
    CHECK(sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK);
    while (sqlite3_step(statement) == SQLITE_ROW) {
        char prefix[256];
        snprintf(prefix, sizeof prefix, "known,%s,%s,%s,%s,",
                 (const char *)sqlite3_column_text(statement, 0),
                 (const char *)sqlite3_column_text(statement, 1),
                 (const char *)sqlite3_column_text(statement, 2),
                 (const char *)sqlite3_column_text(statement, 3));
        bool same = CHECK_NEAR(printed(csv, prefix, 0), sqlite3_column_double(statement, 4), 1e-12);
        same = CHECK_NEAR(printed(csv, prefix, 1) * printed(csv, prefix, 1),
                          sqlite3_column_double(statement, 5), 1e-9) &&
               same;
        if (!same) {
            printf("%s\n", prefix);
        }
        n++;
    }
    sqlite3_finalize(statement);
    return n;
}

#define OVER_SEEDS                                                                                 \
    "avg(m), (sum(m * m) - count(*) * avg(m) * avg(m)) / (count(*) - 1) FROM (SELECT "

static void check_sql(const char *path, const char *csv)
{
    PF_CASE("Tables computed by SQL equal the printed ones");
    sqlite3 *db = NULL;
    CHECK(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK);
    int n = compare_sql(db, csv,
                        "SELECT environment, setting, metric, method, " OVER_SEEDS
                        "environment, setting, metric, method, seed, avg(value) AS m FROM"
                        " trial_metric GROUP BY environment, setting, metric, method, seed)"
                        " GROUP BY environment, setting, metric, method");
    CHECK(n == ENVIRONMENTS * SETTINGS * METHODS * 9);
    // averaged over g, and over g and environments
    n = compare_sql(db, csv,
                    "SELECT environment, 'B2=1', metric, method, " OVER_SEEDS
                    "environment, metric, method, seed, avg(value) AS m FROM trial_metric GROUP BY"
                    " environment, metric, method, seed) GROUP BY environment, metric, method");
    CHECK(n == ENVIRONMENTS * METHODS * 9);
    n = compare_sql(db, csv,
                    "SELECT 'macro', 'B2=1', metric, method, " OVER_SEEDS
                    "metric, method, seed, avg(v) AS m FROM (SELECT environment, metric, method,"
                    " seed, avg(value) AS v FROM trial_metric GROUP BY environment, metric, method,"
                    " seed) GROUP BY metric, method, seed) GROUP BY metric, method");
    CHECK(n == METHODS * 9);
    n = compare_sql(db, csv,
                    "SELECT environment, setting, 'violation', method, " OVER_SEEDS
                    "environment, setting, method, seed, sum(CASE metric WHEN 'violated' THEN value"
                    " END) / sum(CASE metric WHEN 'deployed' THEN value END) AS m FROM trial_metric"
                    " GROUP BY environment, setting, method, seed) GROUP BY environment, setting,"
                    " method");
    CHECK(n == ENVIRONMENTS * SETTINGS * METHODS);
    n = compare_sql(db, csv,
                    "SELECT environment, setting, 'regret_minus_eg_mpt', method, " OVER_SEEDS
                    "a.environment, a.setting, a.method, a.seed, avg(a.value - b.value) AS m FROM"
                    " trial_metric a JOIN trial_metric b USING(environment, setting, seed, trial,"
                    " metric) WHERE metric = 'regret' AND b.method = 'eg-mpt' AND a.method !="
                    " 'eg-mpt' GROUP BY a.environment, a.setting, a.method, a.seed) GROUP BY"
                    " environment, setting, method");
    CHECK(n == ENVIRONMENTS * SETTINGS * (METHODS - 1));
    sqlite3_close(db);
}

// --- the paper's numbers

static bool is_plant(const char *name)
{
    static const char *const plants[] = {
        "attitude",   "building",     "pump_tank", "battery",     "reaction_wheel", "aircraft",
        "wood_berry", "dc_servo",     "quad_tank", "quadrotor",   "wind_pitch",     "ant",
        "humanoid",   "half_cheetah", "hopper",    "swimmer",     "walker2d",       "pendulum",
        "acrobot",    "cartpole",     PF_MACRO,    PF_MACRO_SHOWN};
    for (size_t i = 0; i < sizeof plants / sizeof plants[0]; i++) {
        if (strcmp(plants[i], name) == 0) {
            return true;
        }
    }
    return false;
}

// Metrics of simulators that are not here yet.
static bool is_native(const char *metric)
{
    static const char *const native[] = {"future_task_regret", "stability_regret", "return_regret",
                                         "otif", "safe_coverage"};
    for (size_t i = 0; i < sizeof native / sizeof native[0]; i++) {
        if (strcmp(native[i], metric) == 0) {
            return true;
        }
    }
    return false;
}

static void check_paper_names(const pf_paper *paper)
{
    PF_CASE("Every mapped name is a valid one");
    for (int i = 0; i < paper->n; i++) {
        const pf_paper_row *r = &paper->row[i];
        bool valid = (pf__entry_metric_known(r->metric) || is_native(r->metric)) &&
                     (pf_method_find(r->method) || strcmp(r->method, "best-baseline") == 0) &&
                     is_plant(r->environment);
        bool rate = strcmp(r->metric, "detection") != 0 || (r->mean >= 0 && r->mean <= 1);
        if (!CHECK(valid && rate)) {
            printf("%s %s %s %s\n", r->suite, r->environment, r->metric, r->method);
        }
    }
    CHECK(pf__entry_metric_known("crps_minus_eg_mpt") && !pf__entry_metric_known("crsp"));
    const pf_paper_row *r =
        pf__paper_find(paper, "compact-plants", "dc_servo", "B2=1", "worst_error", "task-oed");
    CHECK(r && r->mean == .214 && isnan(r->sd));
    r = pf__paper_find(paper, "mujoco-readiness", "ant", "B2=2;g=0.35", "detection", "eg-mpt");
    CHECK(r && fabs(r->mean - .555) < 1e-12);
    const char *shown[32];
    CHECK(pf__paper_shown(paper, "compact-plants", shown, 32) == 6);
    CHECK(pf__paper_shown(paper, "compact-ranks", shown, 32) == 11);
}

// Every line of the numbers is mapped: with one line of the map gone it is refused, by name.
static void check_paper_refused(void)
{
    PF_CASE("A number without a mapping is refused");
    char path[300], folder[256];
    void *text = NULL;
    size_t n = 0;
    pf_error error = {PF_OK, ""};
    pf_paper paper;
    snprintf(folder, sizeof folder, "%s/paper", pf_scratch_dir());
    CHECK(mkdir(folder, 0777) == 0);
    CHECK(pf__file_read(PF_SOURCE "/data/paper_numbers.csv", 1 << 24, &text, &n, &error) == PF_OK);
    snprintf(path, sizeof path, "%s/paper_numbers.csv", folder);
    CHECK(pf__file_write(path, text, n, &error) == PF_OK);
    free(text);
    CHECK(pf__paper_load(&paper, folder, &error) == PF_ERR_FILE);
    CHECK(pf__file_read(PF_SOURCE "/data/paper_map.csv", 1 << 24, &text, &n, &error) == PF_OK);
    char *last = text;
    last[n - 1] = 0;
    size_t shorter = (size_t)(strrchr(last, '\n') + 1 - last);
    snprintf(path, sizeof path, "%s/paper_map.csv", folder);
    CHECK(pf__file_write(path, text, shorter, &error) == PF_OK);
    CHECK(pf__paper_load(&paper, folder, &error) == PF_ERR_FORMAT);
    CHECK_CONTAINS(error.text, "paper_numbers.csv:690: paper_map.csv has no row for it");
    // a mapping of nothing
    last[0] = 'X';
    last[n - 1] = '\n';
    memcpy(strchr(last, '\n') + 1, "x", 1);
    CHECK(pf__file_write(path, text, n, &error) == PF_OK);
    CHECK(pf__paper_load(&paper, folder, &error) == PF_ERR_FORMAT);
    free(text);
}

static void check_paper(pf_paper *paper)
{
    PF_CASE("The map covers every row of the paper's numbers");
    pf_error error = {PF_OK, ""};
    if (!CHECK(pf__paper_load(paper, PF_SOURCE "/data", &error) == PF_OK)) {
        printf("%s\n", error.text);
        return;
    }
    CHECK(paper->n_numbers == 689);
    CHECK(paper->n >= paper->n_numbers);
    check_paper_names(paper);
    check_paper_refused();
}

// --- tables and figures

static void check_text(const pf_report *report)
{
    static const char *const kinds[] = {"metrics", "ranks", "ladder"};
    pf_error error = {PF_OK, ""};
    PF_CASE("Tables in Markdown and LaTeX");
    for (int i = 0; i < 3; i++) {
        pf_report r = *report;
        pf_text md = {0}, tex = {0};
        r.table = kinds[i];
        CHECK(pf__table_text(&r, "md", &md, &error) == PF_OK && !md.failed);
        CHECK(pf__table_text(&r, "tex", &tex, &error) == PF_OK && !tex.failed);
        CHECK_CONTAINS(tex.data, "\\begin{tabular}");
        if (i == 0) {
            // 3 of its rows: ours, interval, best in bold, paired difference
            CHECK_CONTAINS(md.data, "| EG-MPT, no transport | **0.200** [0.200, 0.200]");
            CHECK_CONTAINS(md.data, "| Random               | 0.200 [0.200, 0.200]");
            // 8 of 24; where all are alike, and in differences, nothing is best
            CHECK_CONTAINS(md.data, "| 0.600 [0.156, 0.553]");
            CHECK(!strstr(md.data, "**0.600**"));
            CHECK_CONTAINS(md.data, "regret: method minus EG-MPT (above zero EG-MPT is better)");
        } else if (i == 1) {
            CHECK_CONTAINS(md.data, "| Attitude    | **1** [1, 1]");
        } else {
            CHECK_CONTAINS(md.data, "Removal cost, compensation error");
        }
        pf__text_free(&md);
        pf__text_free(&tex);
    }
}

static void check_figure(const pf_report *report)
{
    PF_CASE("Figures, with and without gnuplot");
    char folder[256], path[300], before[4096];
    pf_error error = {PF_OK, ""};
    pf_figure figure = {PF_SOURCE "/suites/figures", "bars", report->suite, NULL};
    snprintf(folder, sizeof folder, "%s/figure", pf_scratch_dir());
    snprintf(before, sizeof before, "%s", getenv("PATH") ? getenv("PATH") : "");
    setenv("PATH", "/nonexistent", 1);
    CHECK(pf__figure_write(report, &figure, folder, &error) == PF_ERR_UNSUPPORTED);
    CHECK_CONTAINS(error.text, "gnuplot-nox");
    setenv("PATH", before, 1);
    // data and script are there all the same
    snprintf(path, sizeof path, "%s/known.dat", folder);
    CHECK(access(path, R_OK) == 0);
    snprintf(path, sizeof path, "%s/known.gp", folder);
    CHECK(access(path, R_OK) == 0);
    pf_status status = pf__figure_write(report, &figure, folder, &error);
    if (status == PF_ERR_UNSUPPORTED) {
        pf_skip("gnuplot is not installed");
        return;
    }
    CHECK(status == PF_OK);
    snprintf(path, sizeof path, "%s/known.svg", folder);
    CHECK(access(path, R_OK) == 0);
    snprintf(path, sizeof path, "%s/known.png", folder);
    CHECK(access(path, R_OK) == 0);
}

static void check_deterministic(pf_store *store, const pf_report *report, const char *csv)
{
    PF_CASE("The bootstrap gives the same bits again, with any number of threads");
    for (int threads = 1; threads <= 3; threads++) {
        pf_effort effort = {.threads = threads};
        pf_aggregate_options options = {.effort = &effort};
        pf_entries again;
        pf_error error = {PF_OK, ""};
        CHECK(pf__aggregate(&again, store, hash, &options, &error) == PF_OK);
        pf_report r = *report;
        pf_text text = {0};
        r.entries = &again;
        pf__table_csv(&r, &text);
        CHECK_STR(text.data, csv);
        pf__text_free(&text);
        pf__entries_free(&again);
    }
}

static void check_second_macro(pf_store *store)
{
    PF_CASE("The second macro is over the environments that the paper shows");
    static const char *const shown[] = {"attitude", "building", "nowhere"};
    for (int n = 1; n <= 3; n++) {
        pf_aggregate_options options = {.shown = shown, .n_shown = n};
        pf_entries all;
        pf_error error = {PF_OK, ""};
        CHECK(pf__aggregate(&all, store, hash, &options, &error) == PF_OK);
        // one is no mean, and both are the first macro
        CHECK(!pf__entries_find(&all, PF_MACRO_SHOWN, "B2=1", "regret", "random"));
        pf__entries_free(&all);
    }
    // a third one, not run yet
    pf_aggregate_options options = {
        .environments = shown, .n_environments = 3, .shown = shown, .n_shown = 2};
    pf_entries all;
    pf_error error = {PF_OK, ""};
    CHECK(pf__aggregate(&all, store, hash, &options, &error) == PF_OK);
    check_entry(&all, PF_MACRO_SHOWN, "B2=1", "regret", "random", 10, 4 / sqrt(2), 24);
    PF_CASE("A mean over all environments needs all of them");
    CHECK(!pf__entries_find(&all, PF_MACRO, "B2=1", "regret", "random"));
    pf__entries_free(&all);
}

void test_aggregate(void)
{
    static const char *const metrics[] = {"compensation_error", "regret"};
    char path[256];
    pf_store *store = NULL;
    pf_paper paper = {0};
    pf_entries all = {0};
    pf_error error = {PF_OK, ""};
    pf_text csv = {0};
    pf_aggregate_options options = {.environments = environments, .n_environments = 2};
    check_clopper_pearson();
    check_paper(&paper);
    snprintf(path, sizeof path, "%s/known.db", pf_scratch_dir());
    PF_CASE("A store with known numbers");
    if (make_store(path, &store) &&
        CHECK(pf__aggregate(&all, store, hash, &options, &error) == PF_OK)) {
        pf_report report = {.suite = "known",
                            .title = "known numbers",
                            .table = "metrics",
                            .profile = "quick",
                            .hash = hash,
                            .metrics = metrics,
                            .n_metrics = 2,
                            .alpha = .1,
                            .g_cal = .35,
                            .entries = &all,
                            .paper = &paper};
        check_means(&all);
        check_shares(&all);
        pf__table_csv(&report, &csv);
        CHECK_CONTAINS(csv.data, "suite,environment,setting,metric,method,mean,sd,lo,hi,n,"
                                 "paper_mean,paper_sd\nknown,attitude,");
        check_sql(path, csv.data);
        check_text(&report);
        check_figure(&report);
        check_deterministic(store, &report, csv.data);
        check_second_macro(store);
    }
    pf__text_free(&csv);
    pf__entries_free(&all);
    pf__paper_free(&paper);
    pf__store_close(store);
}
