// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/experiment.h"
#include "bench/fidelity.h"
#include "host/file.h"
#include "program.h"
#include "settings/settings.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
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
    if (strncmp(environment, PF_MACRO, strlen(PF_MACRO)) != 0) {
        pf__entries_index(all, &all->environment, &all->n_environments, environment);
    }
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
                        "c1,sec. 1,s,a,B2=1,regret,opax,<,sept,0,0,lower than sept\n"
                        "c2,sec. 1,s,a macro-shown,B2=1,regret,sept,<,.5,0,1,low somewhere\n"
                        "c3,sec. 1,s,a,B2=1,regret,eg-mpt,>,random,0,0,worse than random\n"
                        "c4,sec. 1,other,a,B2=1,regret,eg-mpt,>,random,0,0,not run\n"
                        "c5,sec. 1,s,a,B2=1,regret,eg-mpt,<,baselines,0,0,four are missing\n"
                        "c6,sec. 1,s,a z,B2=1,regret,opax,<,sept,0,0,z is missing\n",
                        &error));
    f.profile = "quick";
    pf__fidelity_take(&f, &(pf_fidelity_suite){"s", "twin", &ours, 40, 50});
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
    // of half the intervals .01/.05, .01/.02, .055/.1 and .1/.1
    CHECK_NEAR(s.width, (.5 + .55) / 2, 1e-12);
    PF_CASE("claims: in enough environments; with one side or environment missing none is tested");
    CHECK(s.claims == 6 && s.held == 2 && s.unknown == 3);
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
    CHECK_CONTAINS(out.data, "| four are missing | sec. 1 | not run | - |");
    CHECK_CONTAINS(out.data, "| s | twin, 40 of 50 trials | 7 | 6 | 3 | ");
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
        CHECK(strcmp(reading, "edges=nominal") != 0 || common);
        CHECK(strncmp(reading, "stop=", 5) != 0 || !common);
    }
    CHECK(n == 17 && marked == 7); // eight readings, of which one has three values
    pf_fidelity_sum before = {.agree = 61, .tau = .49, .held = 7};
    pf_fidelity_reading r[] = {
        {"as it is", {689, 231, 61, 5, 1, 22, .49, 51, 7, 38}, before},
        {"edges=nominal", {689, 231, 78, NAN, NAN, 22, .43, 51, 9, 38}, before}};
    pf_text out = {0};
    pf__readings_md(r, 2, "paper", "--twin", &out);
    CHECK_CONTAINS(out.data, "Profile paper, settings --twin. ");
    CHECK_CONTAINS(out.data, "| as it is | 689 | 231 | 61 | 5.00 (1.00) | 0.49 (22) | 7 of 13 |");
    CHECK_CONTAINS(out.data,
                   "| edges=nominal | 689 | 231 | 78 | - | 0.43 (22) | 9 of 13 | 61, 0.49, "
                   "7 |\n");
    pf__text_free(&out);
    pf__readings_csv(r, 2, "paper", &out);
    CHECK_CONTAINS(out.data, "\nedges=nominal,689,231,78,,,0.43,22,13,9,61,0.49,7,paper\n");
    pf__text_free(&out);
    PF_CASE("readings: only what both have is compared");
    pf_fidelity_row rows[2][3] = {{{.ours = 1, .agree = true}, {.ours = 1}, {.ours = NAN}},
                                  {{.ours = NAN}, {.ours = 2, .agree = true}, {.ours = 3}}};
    pf_claim claims[2][1] = {{{.of = 1, .held = 1}}, {{.of = 1, .unknown = 1}}};
    pf_fidelity a = {.row = rows[0], .n = 3, .n_claims = 1, .claim = claims[0]};
    pf_fidelity b = {.row = rows[1], .n = 3, .n_claims = 1, .claim = claims[1]};
    pf__fidelity_match(&a, &b);
    CHECK(isnan(rows[0][0].ours) && !rows[0][0].agree && isnan(rows[1][2].ours));
    CHECK(rows[0][1].ours == 1 && rows[1][1].agree && claims[0][0].of == 0);
}

// What the paper prints, as if it were ours.
static void copy_paper(const pf_paper *paper, const char *suite, pf_entries *out)
{
    for (int i = 0; i < paper->n; i++) {
        const pf_paper_row *p = &paper->row[i];
        if (strcmp(p->suite, suite) != 0) {
            continue;
        }
        pf_entry e = {.environment = pf__entries_intern(out, p->environment),
                      .setting = pf__entries_intern(out, p->setting),
                      .metric = pf__entries_intern(out, p->metric),
                      .method = pf__entries_intern(out, p->method),
                      .mean = p->mean,
                      .lo = p->mean,
                      .hi = p->mean};
        if (strncmp(p->environment, PF_MACRO, strlen(PF_MACRO)) != 0) {
            pf__entries_index(out, &out->environment, &out->n_environments, p->environment);
        }
        CHECK(pf__entries_add(out, &e) != NULL);
    }
    CHECK(pf__entries_sort(out));
}

static void check_claims(void)
{
    PF_CASE("every claim that the printed numbers can be asked about holds on them");
    pf_paper paper;
    pf_fidelity f;
    int tested = 0;
    if (!CHECK(pf__paper_load(&paper, PF_SOURCE "/data", NULL) == PF_OK) ||
        !CHECK(pf__fidelity_init(&f, &paper, PF_SOURCE "/data", NULL) == PF_OK)) {
        return;
    }
    for (int i = 0; i < f.n_claims; i++) {
        pf_claim *c = &f.claim[i];
        pf_entries theirs = {0};
        copy_paper(&paper, c->suite, &theirs);
        pf__fidelity_take(&f, &(pf_fidelity_suite){c->suite, "twin", &theirs, 1, 1});
        bool can = c->of > 0 && c->unknown == 0;
        tested += can;
        if (can && !CHECK(c->held >= (c->least > 0 ? c->least : c->of))) {
            printf("%s: %d of %d\n", c->id, c->held, c->of);
        }
        pf__entries_free(&theirs);
    }
    CHECK(tested >= 50);
    printf("%d of %d claims are about printed numbers\n", tested, f.n_claims);
    pf__fidelity_free(&f);
    pf__paper_free(&paper);
}

// A method or setting that a suite does not have would be "not run" for ever.
static bool knows(const pf_experiment *e, const char *text)
{
    char method[PF_PAPER_WORD], *end;
    const char *at = strchr(text, '@');
    bool found = false;
    strtod(text, &end);
    snprintf(method, sizeof method, "%.*s", (int)strcspn(text, "@"), text);
    for (int i = 0; i < e->n_methods; i++) {
        found = found || strcmp(e->methods[i], method) == 0;
    }
    found = found || !*end || strcmp(text, "baselines") == 0 || strcmp(text, "best-baseline") == 0;
    return found && (!at || pf__experiment_cell(e, at + 1) || !strchr(at, ';'));
}

static void check_names(void)
{
    PF_CASE("claims name suites, environments, methods and settings that there are");
    pf_paper none = {0};
    pf_fidelity f;
    pf_paper_row row = {.suite = "s"};
    none.row = &row;
    none.n = 1;
    CHECK(pf__fidelity_init(&f, &none, PF_SOURCE "/data", NULL) == PF_OK);
    for (int i = 0; i < f.n_claims; i++) {
        const pf_claim *c = &f.claim[i];
        char path[400];
        void *text = NULL;
        size_t n = 0;
        pf_suite suite;
        pf_experiment e = {0};
        pf_error error = {PF_OK, ""};
        snprintf(path, sizeof path, PF_SOURCE "/suites/%s.yaml", c->suite);
        bool good = CHECK(pf__file_read(path, 1 << 20, &text, &n, &error) == PF_OK) &&
                    CHECK(pf__suite_read(&suite, c->suite, text, n, NULL, 0, &error) == PF_OK);
        if (good && suite.from) {
            free(text);
            snprintf(path, sizeof path, PF_SOURCE "/suites/%s.yaml", suite.from);
            pf__suite_free(&suite);
            good = CHECK(pf__file_read(path, 1 << 20, &text, &n, &error) == PF_OK) &&
                   CHECK(pf__suite_read(&suite, c->suite, text, n, NULL, 0, &error) == PF_OK);
        }
        if (good &&
            CHECK(pf__experiment_outline(&e, &suite, pf__profile_find("paper"), &error) == PF_OK)) {
            bool cell = pf__experiment_cell(&e, c->setting) || !strchr(c->setting, ';');
            if (!CHECK(cell && knows(&e, c->left) && knows(&e, c->right))) {
                printf("claim %s: %s %s %s\n", c->id, c->setting, c->left, c->right);
            }
            pf__experiment_free(&e);
            pf__suite_free(&suite);
        }
        free(text);
    }
    pf__fidelity_free(&f);
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
    check_claims();
    check_names();
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
