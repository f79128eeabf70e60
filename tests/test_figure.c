// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "test.h"

#include "bench/report.h"
#include "host/file.h"
#include "host/gnuplot.h"
#include "program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Names reach gnuplot as data: whatever they hold, nothing is run and the picture shows them.

// A command in backquotes, both quotes, a backslash, a format, a macro, markup, and a comment.
#define HOSTILE "`touch ran` \"q\" 'p' \\n 100% @M _{x} # <b>"
// the same in an SVG
#define HOSTILE_DRAWN "`touch ran` \"q\" 'p' \\n 100% @M _{x} # &lt;b>"
#define CLOSING "'.system('touch ran').'\".system('touch ran').\""

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

static const char *const templates[] = {
    "bars",     "severity", "ladder", "families", "ranks",     "mechanism",   "budget",
    "deadline", "driving",  "grid",   "controls", "amplitude", "sensitivity", "coordinate"};

static void add_entries(pf_entries *all, const char *environment, int e, const char *setting, int s)
{
    static const char *const metrics[] = {"compensation_error",
                                          HOSTILE,
                                          "compensation_error" PF_DIFFERENCE,
                                          HOSTILE PF_DIFFERENCE,
                                          "coverage",
                                          "detection",
                                          "delay",
                                          "crps",
                                          "log_score",
                                          "future_task_regret",
                                          "changed_task_return",
                                          "coordinate",
                                          "coordinate_sd",
                                          "rank_compensation_error",
                                          "rank_worst_error",
                                          "rank_crps",
                                          "rank_probes",
                                          "rank_coverage",
                                          "violation",
                                          "collision",
                                          "min_ttc",
                                          "min_ttc" PF_DIFFERENCE,
                                          "min_headway",
                                          "tail_ttc",
                                          "gain_mae",
                                          "asked_shortfall",
                                          "asked_infeasible"};
    static const char *const methods[] = {"random", "eg-mpt",    HOSTILE,   CLOSING,
                                          "bayes",  "transport", "category"};
    for (int i = 0; i < (int)COUNT(metrics); i++) {
        for (int m = 0; m < (int)COUNT(methods); m++) {
            double mean = .5 + .1 * m + .01 * e + .02 * s;
            pf_entry entry = {.environment = pf__entries_intern(all, environment),
                              .setting = pf__entries_intern(all, setting),
                              .metric = pf__entries_intern(all, metrics[i]),
                              .method = pf__entries_intern(all, methods[m]),
                              .mean = mean,
                              .sd = .01,
                              .lo = mean - .05,
                              .hi = mean + .05,
                              .n = 10,
                              .order = {e, s, i, m}};
            pf__entries_index(all, &all->method, &all->n_methods, methods[m]);
            CHECK(pf__entries_add(all, &entry) != NULL);
        }
    }
}

static void make_entries(pf_entries *all)
{
    static const char *const environments[] = {HOSTILE, CLOSING, PF_MACRO};
    static const char *const settings[] = {"A=1;B2=1;K=2;N=25;P=1;g=0.35;knob=none;value=0",
                                           "A=2;B2=2;K=3;N=50;P=2;g=0.5;knob=" HOSTILE ";value=1",
                                           HOSTILE};
    for (int e = 0; e < 3; e++) {
        for (int s = 0; s < 3; s++) {
            add_entries(all, environments[e], e, settings[s], s);
        }
    }
    for (int i = 0; i < 3; i++) {
        pf__entries_index(all, &all->setting, &all->n_settings, settings[i]);
        if (i < 2) {
            pf__entries_index(all, &all->environment, &all->n_environments, environments[i]);
        }
    }
    all->n_raw_settings = 2;
    CHECK(pf__entries_sort(all));
}

static bool file_has(const char *path, const char *part)
{
    void *text = NULL;
    size_t n = 0;
    bool found = false;
    if (CHECK(pf__file_read(path, 1 << 24, &text, &n, NULL) == PF_OK)) {
        char *copy = calloc(n + 1, 1);
        found = copy && memcpy(copy, text, n) && strstr(copy, part);
        free(copy);
    }
    free(text);
    return found;
}

static void check_templates(void)
{
    static const char *const metrics[] = {"compensation_error", HOSTILE};
    char folder[256], path[600];
    pf_error error = {PF_OK, ""};
    pf_entries all = {0};
    pf_paper paper = {0};
    make_entries(&all);
    pf_report report = {.suite = HOSTILE,
                        .title = HOSTILE,
                        .table = "metrics",
                        .profile = "quick",
                        .hash = HOSTILE,
                        .metrics = metrics,
                        .n_metrics = 2,
                        .g_cal = .35,
                        .entries = &all,
                        .paper = &paper};
    for (size_t i = 0; i < COUNT(templates); i++) {
        char label[80];
        snprintf(label, sizeof label, "Names that are commands, template %s", templates[i]);
        PF_CASE(label);
        snprintf(folder, sizeof folder, "%s/figure-%s", pf_scratch_dir(), templates[i]);
        pf_figure figure = {PF_SOURCE "/suites/figures", templates[i], HOSTILE, NULL};
        pf_status status = pf__figure_write(&report, &figure, folder, &error);
        if (status == PF_ERR_UNSUPPORTED) {
            pf_skip("gnuplot is not installed");
            break;
        }
        CHECK(status == PF_OK);
        snprintf(path, sizeof path, "%s/ran", folder);
        CHECK(access(path, F_OK) != 0);
        snprintf(path, sizeof path, "%s/%s.png", folder, HOSTILE);
        CHECK(access(path, R_OK) == 0);
        snprintf(path, sizeof path, "%s/%s.svg", folder, HOSTILE);
        // the ranks show no name but those of environments, of which this is one
        CHECK(file_has(path, HOSTILE_DRAWN));
    }
    PF_CASE("A template that is not there, or elsewhere");
    static const char *const bad[] = {"nosuch", "../figures/bars", "`touch ran`"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        pf_figure figure = {PF_SOURCE "/suites/figures", bad[i], HOSTILE, NULL};
        CHECK(pf__figure_write(&report, &figure, folder, &error) == PF_ERR_FILE);
        CHECK_CONTAINS(error.text, "there is no template");
    }
    pf_figure figure = {PF_SOURCE "/suites/figures", "bars", "../up", NULL};
    CHECK(pf__figure_write(&report, &figure, folder, &error) == PF_ERR_FORMAT);
    pf__entries_free(&all);
}

static void check_design(void)
{
    PF_CASE("design --plot: mechanisms and a file whose names are commands");
    char folder[200], command[1200], path[400];
    CHECK(program_folder(folder, sizeof folder, "figure-design"));
    snprintf(command, sizeof command,
             "design \"exec:exec '%s' hostile-names\" -o '%s/library' --plot "
             "'%s/|touch ran; `touch ran` \"x\".svg'",
             PF_EXEC_CHILD, folder, folder);
    if (access("/usr/bin/gnuplot", X_OK) != 0) {
        pf_skip("gnuplot is not installed");
        return;
    }
    // a link under the name of the picture is replaced, not followed
    char picture[300], victim[300];
    snprintf(picture, sizeof picture, "%s/|touch ran; `touch ran` \"x\".svg", folder);
    snprintf(victim, sizeof victim, "%s/victim", folder);
    CHECK(pf__file_write(victim, "mine", 4, NULL) == PF_OK && symlink(victim, picture) == 0);
    CHECK(program(command, 0, "touch ran"));
    CHECK(file_has(victim, "mine"));
    snprintf(path, sizeof path, "%s/ran", folder);
    CHECK(access(path, F_OK) != 0);
    snprintf(path, sizeof path, "%s/|touch ran; `touch ran` \"x\".svg", folder);
    CHECK(file_has(path, "`touch ran` \"b\" 'c' \\ 100% @M"));
    CHECK(file_has(path, CLOSING));
}

// A suite, and the paper's numbers of it, under a name that is commands.
#define SUITE "`touch ran` $(touch ran) 5%g |touch ran"

static void put(const char *folder, const char *name, const char *text)
{
    char path[700];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CHECK(pf__file_write(path, text, strlen(text), NULL) == PF_OK);
}

// The header of a CSV file of the sources and its rows of one suite, renamed.
static void put_renamed(const char *folder, const char *file, const char *name)
{
    static const char from[] = "directional,";
    char path[600];
    void *bytes = NULL;
    size_t n = 0;
    pf_text out = {0};
    snprintf(path, sizeof path, PF_SOURCE "/%s", file);
    if (!CHECK(pf__file_read(path, 1 << 24, &bytes, &n, NULL) == PF_OK)) {
        return;
    }
    for (const char *at = bytes, *end; (end = strchr(at, '\n')); at = end + 1) {
        const char *found = strstr(at, from);
        if (at != bytes && (!found || found > end)) {
            continue;
        }
        for (; found && found < end; found = strstr(at, from)) {
            pf__text_add_n(&out, at, (size_t)(found - at));
            pf__text_add(&out, SUITE ",");
            at = found + strlen(from);
        }
        pf__text_add_n(&out, at, (size_t)(end - at) + 1);
    }
    put(folder, name, out.data);
    pf__text_free(&out);
    free(bytes);
}

static void make_data(const char *folder, char data[300])
{
    static const char *const csv[] = {"paper_numbers.csv", "paper_map.csv", "paper_claims.csv"};
    char path[400], other[200];
    snprintf(data, 300, "%s/data", folder);
    CHECK(mkdir(data, 0777) == 0);
    snprintf(path, sizeof path, "%s/suites", data);
    CHECK(mkdir(path, 0777) == 0);
    snprintf(path, sizeof path, "%s/data", data);
    CHECK(mkdir(path, 0777) == 0);
    for (size_t i = 0; i < COUNT(csv); i++) {
        snprintf(other, sizeof other, "data/%s", csv[i]);
        put_renamed(path, other, csv[i]);
    }
    put(data, "suites/" SUITE ".yaml",
        "id: '" SUITE "'\n"
        "title: \"`touch ran` $(touch ran) 'p' \\\"q\\\" \\\\n @M\"\n"
        "environments: [cartpole, pendulum]\ngains: [.25, .35]\nstage2: 0\n"
        "metrics: [stability_regret, detection]\nmethods: [random, eg-mpt]\n"
        "seeds: 5\ntrials: 30\nnominal: 0\nbins: 5\nepisodes: 60\ngrid: 17\nstop: latch\n"
        "table: metrics\nfigure: bars\n");
    snprintf(path, sizeof path, "%s/suites/figures", data);
    CHECK(symlink(PF_SOURCE "/suites/figures", path) == 0);
}

// Every other way from a name to gnuplot: a suite's id and title, and the names of pictures.
static void check_bench(void)
{
    static const struct {
        const char *arguments, *made;
    } calls[] = {
        {"bench run '" SUITE "' --data @/data --profile quick --db '@/x.db'", "x.db"},
        {"bench figure '" SUITE "' --data @/data --profile quick --db @/x.db -o '@/" SUITE "'",
         SUITE "/" SUITE ".svg"},
        {"bench report '" SUITE "' --data @/data --profile quick --db @/x.db -o @/pages",
         "pages/figures/" SUITE ".svg"},
        {"bench report '" SUITE "' --name '|`touch ran`' --data @/data --profile quick --db @/x.db "
         "-o @/pages",
         "pages/figures/|`touch ran`.svg"},
        {"bench fidelity --data @/data --profile quick --db @/x.db --plot '@/" SUITE ".svg'",
         SUITE ".svg"},
        {"bench fidelity --data @/data --profile quick --db @/x.db --plot '@/" SUITE ".png'",
         SUITE ".png"},
        {"train dc_servo --profile quick --kind recursive --set members=1 --set layers=1 --set "
         "width=16 --set epochs=3 --set transitions=4000 -o @/m.model --plot '@/|" SUITE ".svg'",
         "|" SUITE ".svg"},
    };
    char folder[200], path[600], data[300];
    PF_CASE("a suite, its title and pictures whose names are commands: figure, report, fidelity");
    CHECK(program_folder(folder, sizeof folder, "figure-bench"));
    make_data(folder, data);
    for (size_t i = 0; i < COUNT(calls); i++) {
        CHECK(program_in(folder, calls[i].arguments, 0, ""));
        snprintf(path, sizeof path, "%s/%s", folder, calls[i].made);
        CHECK(pf__file_regular(path));
    }
    // the names are drawn as they are
    CHECK(file_has(path, "dc_servo"));
    snprintf(path, sizeof path, "%s/%s/%s.svg", folder, SUITE, SUITE);
    CHECK(file_has(path, SUITE));
    snprintf(path, sizeof path, "%s/%s.svg", folder, SUITE);
    CHECK(file_has(path, SUITE));
    PF_CASE("no name was run as a command, wherever gnuplot stood");
    snprintf(path, sizeof path, "test -z \"$(find '%s' . -maxdepth 4 -name ran)\"",
             pf_scratch_dir());
    CHECK(system(path) == 0);
}

void test_figure(void)
{
    PF_CASE("What gnuplot would act on is written in octal");
    pf_text text = {0};
    pf__gnuplot_string(&text, "a`b\"c'd\\e@f%g\nh é");
    CHECK_STR(text.data, "\"a\\140b\\042c\\047d\\134e\\100f\\045g\\012h é\"");
    pf__text_free(&text);
    check_templates();
    check_design();
    if (access("/usr/bin/gnuplot", X_OK) == 0) {
        check_bench();
    }
}
