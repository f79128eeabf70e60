// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "test.h"
#include "attitude_kit.h"
#include "calibrate/quality.h"
#include "core/kit_layout.h"
#include "host/file.h"
#include "host/page.h"
#include "program.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Pages: their pieces, the report of a kit and the reports of experiments.

static char folder[200];

static bool run(const char *arguments, int status, const char *part)
{
    return program_in(folder, arguments, status, part);
}

static bool renders(const char *markdown, const char *html)
{
    pf_text out = {0};
    pf__page_markdown(&out, markdown);
    bool same = out.data && strcmp(out.data, html) == 0;
    if (!same) {
        printf("    got '%s'\n", out.data ? out.data : "");
    }
    pf__text_free(&out);
    return same;
}

static bool escapes(const char *text, const char *html)
{
    pf_text out = {0};
    pf__page_text(&out, text);
    bool same = strcmp(out.data ? out.data : "", html) == 0;
    pf__text_free(&out);
    return same;
}

static void check_pieces(void)
{
    PF_CASE("texts from files cannot become elements");
    CHECK(escapes("<b a=\"1\">&'", "&lt;b a=&quot;1&quot;&gt;&amp;'"));
    CHECK(escapes("a\x01"
                  "b\x7f\xff\xc3\xa9",
                  "a&#xfffd;b&#xfffd;&#xfffd;\xc3\xa9"));
    CHECK(escapes("a\xe2\x80\xae"
                  "b\xc2\x9b",
                  "a&#xfffd;b&#xfffd;"));
    CHECK(escapes("", ""));
    PF_CASE("the Markdown of reports as HTML");
    CHECK(renders("# A `b<c` **d**\ntext\nmore\n\nnext",
                  "<h1>A <code>b&lt;c</code> <b>d</b></h1>\n<p>text\nmore</p>\n<p>next</p>\n"));
    CHECK(renders("- one\n  two\n- three\n", "<ul>\n<li>one\ntwo</li>\n<li>three</li>\n</ul>\n"));
    CHECK(renders("| a | b |\n|---|---:|\n| `x|y` | **1** [2, 3] |\n",
                  "<div class=\"t\" tabindex=\"0\"><table>\n<thead><tr><th scope=\"col\">a</th><th "
                  "scope=\"col\">b</th></tr>\n</thead>\n<tbody>\n<tr><th "
                  "scope=\"row\"><code>x|y</code></th><td class=\"n\"><b>1</b> [2, 3]</td></tr>\n"
                  "</tbody></table></div>\n"));
    CHECK(renders("```\n<x>\n```\n", "<pre>&lt;x&gt;\n</pre>\n"));
    CHECK(renders("[a](b.md) ![p](figures/p.svg) [c](../d.md)",
                  "<p><a href=\"b.html\">a</a> <img src=\"figures/p.svg\" alt=\"p\"> <a "
                  "href=\"../d.md\">c</a></p>\n"));
    PF_CASE("links that run something, and marks without an end, stay text");
    CHECK(renders("[a](javascript:x) **b `c [d](e", "<p>[a](javascript:x) **b `c [d](e</p>\n"));
    CHECK(renders("![p](https://a/b) [q](//a/b)",
                  "<p>!<a href=\"https://a/b\">p</a> [q](//a/b)</p>\n"));
    CHECK(renders("[q](https://a/b)", "<p><a href=\"https://a/b\">q</a></p>\n"));
    CHECK(renders("<script>x</script>", "<p>&lt;script&gt;x&lt;/script&gt;</p>\n"));
    CHECK(renders("|", "<p>|</p>\n") && renders("```", "<pre></pre>\n") &&
          renders("- ", "<ul>\n<li></li>\n</ul>\n"));
}

// What quality.h says of a kit, by other ways than its own.
static void check_quality(void)
{
    const pf_kit *k = attitude_kit();
    PF_CASE("the separation of a look, against its stored mean and variance");
    int n = 0, probe = -1;
    double best[PF_MECH_MAX] = {0};
    const double *gains = pf__quality_gains(k, &n);
    CHECK(n == k->n_knots && gains == k->knots);
    for (int q = 0; q < k->n_probes; q++) {
        const int32_t *targets = NULL;
        if (pf_kit_probe_targets(k, q, &targets) == 1) {
            size_t at = pf__kit_look(k, q);
            double apart = fabs(k->look_mean[at + 2] - k->look_mean[at]) /
                           sqrt((k->look_variance[at + 2] + k->look_variance[at]) / 2);
            best[targets[0]] = fmax(best[targets[0]], apart);
        }
    }
    for (int j = 1; j < k->n_mech; j++) {
        // every mechanism of this kit has a pulse of its own; groups may do better
        CHECK(best[j] > 0 && pf__quality_apart(k, j, 1, &probe) >= best[j] && probe >= 0);
        CHECK(pf__quality_apart(k, j, 1, NULL) < 100);
    }
    CHECK(pf__quality_apart(k, 0, 0, &probe) == 0 && probe == -1);
    PF_CASE("the bits of a look: none where both rows are equal, one where they never meet");
    double edges[] = {0}, half[] = {.5, .5}, left[] = {1, 0}, right[] = {0, 1};
    pf_kit two = {.n_bins = 2, .edges = edges, .nominal = half, .changed = half};
    CHECK(pf__quality_bits(&two, 0) == 0);
    two.nominal = left;
    CHECK_NEAR(pf__quality_bits(&two, 0), .5 * log2(1 / .75) + .25 * log2(.5 / .75) + .25 * 1,
               1e-12);
    two.changed = right;
    CHECK(pf__quality_bits(&two, 0) == 1);
    PF_CASE("the least gain that a task bears, against the limits of its command");
    for (int t = 0; t < k->n_tasks; t++) {
        double mean, healthy = pf__quality_bound(k, t, -1, 1, &mean);
        double least = pf__quality_least_gain(k, t, 0);
        int j = k->use_mech[k->task_use[t]];
        CHECK(healthy <= mean && mean <= 1 && healthy > k->j_min);
        CHECK(least > 0 && least < 1);
        // there, or a step below, the limits cut what the correction asks for
        CHECK(pf_kit_delivered_share(k, t, j, 1 / (least - .01), least - .01) < 1 - 1e-9);
        CHECK(pf__quality_bound(k, t, 0, least, &mean) >= k->j_min);
        CHECK(pf__quality_bound(k, t, 0, least - .01, &mean) < k->j_min);
    }
}

static void check_kit_report(void)
{
    size_t n = 0;
    char path[300];
    const void *bytes = attitude_kit_bytes(&n);
    PF_CASE("the report of a kit, audited and not");
    snprintf(path, sizeof path, "%s/a.kit", folder);
    CHECK(pf__file_write(path, bytes, n, NULL) == PF_OK);
    CHECK(run("kit report @/a.kit -o -", 0, "This kit was not audited"));
    CHECK(run("audit @/a.kit --sessions 5", 0, ""));
    CHECK(run("kit report @/a.kit -o @/a.html", 0, ""));
    CHECK(run("kit report @/a.kit -o -", 0, "channel frozen"));
    CHECK(run("kit report @/a.kit -o -", 0, "7 of 7 candidates show a loss to gain 0.35"));
    PF_CASE("reports that cannot be made");
    CHECK(run("kit report @/a.kit", 2, "needs -o FILE"));
    CHECK(run("kit show @/a.kit -o @/x", 2, "-o belongs to"));
    CHECK(run("kit report @/none.kit -o @/x.html", 3, "none.kit"));
    CHECK(run("kit report @/a.kit -o @/a.kit", 2, "overwrite the kit"));
    CHECK(run("kit report @/a.html -o @/x.html", 3, "kit"));
}

static void check_bench_report(void)
{
    char path[300];
    PF_CASE("the report of an experiment keeps what people wrote");
    CHECK(run("bench run directional --profile quick --db @/b.db", 0, ""));
    CHECK(run("bench report directional --profile quick --db @/b.db -o @/rep --sample 2", 0,
              "directional.html"));
    const char notes[] = "# old\n\n## Notes\n\n- It <holds>.\n";
    snprintf(path, sizeof path, "%s/rep/directional.md", folder);
    CHECK(pf__file_write(path, notes, sizeof notes - 1, NULL) == PF_OK);
    CHECK(run("bench report --profile quick --db @/b.db -o @/rep --sample 2", 0, "directional"));
    static const struct {
        const char *file, *part;
    } parts[] = {
        {"directional.md", "- It <holds>."},
        {"directional.md", "2 of 16 stored trials recomputed, none differs"},
        {"directional.html", "<li>It &lt;holds&gt;.</li>"},
        {"directional.html", "<code>preflight bench run directional --profile quick</code>"},
        {"index.html", "<a href=\"directional.html\">directional</a>"},
        {"fidelity.html", "<h1>fidelity"}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        void *text = NULL;
        size_t size = 0;
        snprintf(path, sizeof path, "%s/rep/%s", folder, parts[i].file);
        if (CHECK(pf__file_read(path, 1 << 24, &text, &size, NULL) == PF_OK)) {
            CHECK(memmem(text, size, parts[i].part, strlen(parts[i].part)) != NULL);
        }
        free(text);
    }
    PF_CASE("a page of another name leaves those of the suite alone");
    CHECK(run("bench report directional --profile quick --db @/b.db -o @/rep --name other", 0,
              "other.html"));
    static const char *const both[] = {"directional", "other"};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/rep/figures/%s.svg", folder, both[i]);
        CHECK(pf__file_regular(path));
    }
    PF_CASE("reports of nothing");
    CHECK(run("bench report -o @/none --db @/none.db", 3, "no such database"));
    snprintf(path, sizeof path, "%s/none", folder);
    CHECK(access(path, F_OK) != 0);
    CHECK(
        run("bench report --profile paper -o @/rep --db @/b.db", 3, "no trials at profile paper"));
    CHECK(
        run("bench report ladder --profile quick -o @/rep --db @/b.db", 3, "no trials of ladder"));
    CHECK(run("bench report --db @/b.db", 2, "-o DIR is missing"));
    static const char *const names[] = {"../x", "a/b", "..", "''", "-x", "'a\nb'", "'a\\b'"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char arguments[200];
        snprintf(arguments, sizeof arguments,
                 "bench report directional --name=%s -o @/rep --db @/b.db", names[i]);
        CHECK(run(arguments, 2, "--name is a file's name"));
    }
    CHECK(run("bench report -o @/rep --format pdf --db @/b.db", 2, "not html or md"));
}

void test_pages(void)
{
    check_pieces();
    check_quality();
    CHECK(program_folder(folder, sizeof folder, "pages"));
    check_kit_report();
    check_bench_report();
}
