// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/fidelity.h"
#include "host/file.h"
#include "program.h"
#include "settings/settings.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Our numbers beside the paper's, on numbers that are known.

static const char claims_head[] =
    "id,place,suite,environments,setting,metric,left,relation,right,margin,least,words\n";

static void add(pf_entries *all, const char *environment, const char *method, double mean,
                double lo, double hi)
{
    pf_entry e = {pf__entries_intern(all, environment),
                  pf__entries_intern(all, "B2=1"),
                  pf__entries_intern(all, "regret"),
                  pf__entries_intern(all, method),
                  mean,
                  .1,
                  lo,
                  hi,
                  40,
                  {0, 0, 0, 0}};
    pf__entries_index(all, &all->environment, &all->n_environments, environment);
    CHECK(pf__entries_add(all, &e) != NULL);
}

static pf_paper_row printed(const char *environment, const char *method, double mean, double sd)
{
    pf_paper_row r = {.suite = "s", .setting = "B2=1", .metric = "regret", .mean = mean, .sd = sd};
    snprintf(r.environment, sizeof r.environment, "%s", environment);
    snprintf(r.method, sizeof r.method, "%s", method);
    return r;
}

static bool open_fidelity(pf_fidelity *f, const char *folder, const pf_paper *paper,
                          const char *claims, pf_error *error)
{
    char path[300], text[2000];
    int n = snprintf(text, sizeof text, "%s%s", claims_head, claims);
    snprintf(path, sizeof path, "%s/paper_claims.csv", folder);
    CHECK(pf__file_write(path, text, (size_t)n, NULL) == PF_OK);
    return pf__fidelity_init(f, paper, folder, error) == PF_OK;
}

static void check_numbers(const char *folder)
{
    pf_paper_row rows[] = {
        printed("a", "random", .50, NAN),       printed("a", "sept", .40, .05),
        printed("a", "opax", .30, NAN),         printed("a", "eg-mpt", .20, .02),
        printed("a", "best-baseline", .30, .1), printed("b", "eg-mpt", .9, .1),
        printed("macro-shown", "sept", .4, .1), printed("macro", "sept", .4, .1)};
    pf_paper paper = {rows, 8, 7};
    pf_entries ours = {0};
    pf_fidelity f;
    pf_error error;
    PF_CASE("agreement: the interval holds the number, or the sd holds ours; means count once");
    add(&ours, "a", "random", .60, .55, .65); // neither, and no sd to say more
    add(&ours, "a", "sept", .44, .43, .45);   // within .05
    add(&ours, "a", "opax", .25, .20, .31);   // inside
    add(&ours, "a", "eg-mpt", .26, .25, .27); // three sd away, and before opax
    add(&ours, "macro-shown", "sept", .7, .6, .8);
    CHECK(pf__entries_sort(&ours) && pf__paper_best(&paper, "s", &ours, &error) == PF_OK);
    CHECK(open_fidelity(&f, folder, &paper,
                        "c1,sec. 1,s,a,B2=1,regret,opax,<,baselines,-1e-9,0,lowest of all\n"
                        "c2,sec. 1,s,each,B2=1,regret,eg-mpt,<,.3,0,1,low somewhere\n"
                        "c3,sec. 1,s,a,B2=1,regret,eg-mpt,>,random,0,0,worse than random\n"
                        "c4,sec. 1,other,a,B2=1,regret,eg-mpt,>,random,0,0,not run\n",
                        &error));
    f.profile = "quick";
    pf__fidelity_take(&f, "s", "twin", &ours);
    static const bool agree[] = {false, true, true, false, true, false, false, false};
    for (int i = 0; i < 8; i++) {
        CHECK(f.row[i].agree == agree[i] && f.row[i].again == (i == 7));
    }
    CHECK(f.row[4].ours == .25); // opax is the best of three baselines
    pf_fidelity_sum s = pf__fidelity_sum(&f, NULL);
    CHECK(s.numbers == 7 && s.produced == 6 && s.agree == 3);
    // of |.44-.40|/.05, |.26-.20|/.02, |.25-.30|/.1 and |.7-.4|/.1
    CHECK_NEAR(s.median, (.8 + 3) / 2, 1e-12);
    PF_CASE("the order of methods: five of them, by hand");
    // random sept opax eg-mpt best: the paper ties opax and best, so do we; eg-mpt and opax swap,
    // eg-mpt and best too: 7 pairs agree, 2 do not, 1 is tied in both
    CHECK(s.cells == 1);
    CHECK_NEAR(s.tau, 5 / sqrt(9. * 9), 1e-12);
    PF_CASE("claims: against all baselines, in enough environments, and not run");
    CHECK(s.claims == 4 && s.held == 2 && s.unknown == 1);
    CHECK(f.claim[0].held == 1 && f.claim[1].held == 1 && f.claim[2].held == 0);
    PF_CASE("as CSV and as a page");
    pf_text out = {0};
    pf__fidelity_csv(&f, &out);
    CHECK_CONTAINS(out.data, "s,a,B2=1,regret,sept,0.4,0.44,0.43,0.45,1,quick,twin,40\n");
    CHECK_CONTAINS(out.data, "s,b,B2=1,regret,eg-mpt,0.9,,,,0,quick,,0\n");
    pf__text_free(&out);
    pf__fidelity_md(&f, &out);
    CHECK_CONTAINS(out.data, "3 of 7 numbers agree, 6 are produced");
    CHECK_CONTAINS(out.data, "| worse than random | sec. 1 | **no** | 0 of 1 |");
    CHECK_CONTAINS(out.data, "| not run | sec. 1 | not run | - |");
    pf__text_free(&out);
    pf__fidelity_free(&f);
    pf__entries_free(&ours);
}

static void check_readings(void)
{
    PF_CASE("readings: each value of each, those of all suites marked; as a page and as CSV");
    char reading[64];
    bool common = false;
    int n = 0, marked = 0;
    for (; pf__settings_reading(n, reading, sizeof reading, &common); n++) {
        marked += common;
        CHECK(strcmp(reading, "edges=pooled") != 0 || common);
        CHECK(strncmp(reading, "stop=", 5) != 0 || !common);
    }
    CHECK(n == 15 && marked == 6); // seven readings, of which one has three values
    pf_fidelity_reading r[] = {{"as it is", {689, 231, 61, 5, 22, .49, 51, 7, 38}},
                               {"edges=nominal", {689, 231, 78, NAN, 22, .43, 51, 9, 38}}};
    pf_text out = {0};
    pf__readings_md(r, 2, "paper", "--twin", &out);
    CHECK_CONTAINS(out.data, "Profile paper, settings --twin. ");
    CHECK_CONTAINS(out.data, "| as it is | 689 | 231 | 61 | 5.00 | 0.49 (22) | 7 of 13 |\n");
    CHECK_CONTAINS(out.data, "| edges=nominal | 689 | 231 | 78 | - | 0.43 (22) | 9 of 13 |\n");
    pf__text_free(&out);
    pf__readings_csv(r, 2, "paper", &out);
    CHECK_CONTAINS(out.data, "\nedges=nominal,689,231,78,,0.43,22,13,9,paper\n");
    pf__text_free(&out);
}

static void check_refused(const char *folder)
{
    PF_CASE("claims that say nothing are refused with their line");
    static const struct {
        const char *claims, *why;
    } bad[] = {{"c,p,s,a,B2=1,regret,x,=,y,0,0,w\n", ":2:"},
               {"c,p,s,a,B2=1,gremlins,x,<,y,0,0,w\n", ":2:"},
               {"c,p,s,a,B2=1,regret,x,<,y,much,0,w\n", ":2:"},
               {"c,p,s,a,B2=1,regret,,<,y,0,0,w\n", "must be a text"}};
    pf_paper paper = {0};
    pf_paper_row row = printed("a", "random", 1, 1);
    paper.row = &row;
    paper.n = 1;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        pf_fidelity f;
        pf_error error = {PF_OK, ""};
        CHECK(!open_fidelity(&f, folder, &paper, bad[i].claims, &error));
        CHECK_CONTAINS(error.text, bad[i].why);
        pf__fidelity_free(&f);
    }
}

void test_fidelity(void)
{
    char folder[200];
    if (!CHECK(program_folder(folder, sizeof folder, "fidelity"))) {
        return;
    }
    check_numbers(folder);
    check_readings();
    check_refused(folder);
    PF_CASE("the claims that come with the program can be read");
    pf_paper paper;
    pf_fidelity f = {0};
    pf_error error = {PF_OK, ""};
    CHECK(pf__paper_load(&paper, PF_SOURCE "/data", &error) == PF_OK);
    CHECK(pf__fidelity_init(&f, &paper, PF_SOURCE "/data", &error) == PF_OK);
    CHECK(pf__fidelity_sum(&f, NULL).numbers == 689 && f.n_claims > 40);
    pf__fidelity_free(&f);
    pf__paper_free(&paper);
}
