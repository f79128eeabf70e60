// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "test.h"
#include "attitude_kit.h"
#include "host/file.h"
#include "program.h"
#include "wire/sheet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The sheet that a check writes and `explain --html` writes again.

static char folder[200];

static bool run(const char *arguments, int status, const char *part)
{
    return program_in(folder, arguments, status, part);
}

// Every element that opens closes, in order; those without an end are few.
static bool is_nested(const char *text)
{
    char open[64][16];
    int depth = 0;
    for (const char *p = strchr(text, '<'); p; p = strchr(p + 1, '<')) {
        char name[16] = "";
        bool end = p[1] == '/';
        const char *from = p + 1 + end;
        size_t n = strcspn(from, " >/");
        snprintf(name, sizeof name, "%.*s", (int)(n < 15 ? n : 15), from);
        const char *close = strchr(p, '>');
        bool empty = !close || close[-1] == '/' || name[0] == '!' || strcmp(name, "meta") == 0 ||
                     strcmp(name, "br") == 0;
        if (empty) {
            continue;
        }
        if (end && (depth == 0 || strcmp(open[--depth], name) != 0)) {
            return false;
        }
        if (!end && depth < 64) {
            memcpy(open[depth++], name, sizeof name);
        }
    }
    return depth == 0;
}

static void check_page(const char *name)
{
    char *text = program_text(folder, name);
    CHECK(strncmp(text, "<!doctype html>", 15) == 0 && is_nested(text));
    // nothing from elsewhere, nothing that runs
    CHECK(!strstr(text, "http") && !strstr(text, "<script") && !strstr(text, "src="));
    int pictures = program_count(text, "<svg ");
    CHECK(pictures > 0 && program_count(text, "<title>") == pictures + 1);
    CHECK(program_count(text, "<desc>") == pictures &&
          program_count(text, "role=\"img\"") == pictures);
    CHECK(strstr(text, "Signature") && strstr(text, "@page{size:A4"));
    CHECK(!strstr(text, "nan") && !strstr(text, "inf,"));
    free(text);
}

static void holds(const char *name, const char *part, bool wanted)
{
    char *text = program_text(folder, name);
    if (!CHECK((strstr(text, part) != NULL) == wanted)) {
        printf("    %s: '%s'\n", name, part);
    }
    free(text);
}

// Of a journal and its certificate, from which a part is cut. The part is in the message.
static void check_cut(const char *part, const char *key)
{
    char *journal = program_text(folder, "no.j"), *certificate = program_text(folder, "no.c");
    pf_text html = {0};
    pf_error error = {PF_OK, ""};
    CHECK(pf__sheet(journal, strlen(journal), certificate, &html, &error) == PF_OK);
    pf__text_clear(&html);
    char *at = strstr(certificate, part);
    if (CHECK(at != NULL)) {
        memmove(at, at + strlen(part), strlen(at + strlen(part)) + 1);
        CHECK(pf__sheet(journal, strlen(journal), certificate, &html, &error) == PF_ERR_FORMAT);
        CHECK_CONTAINS(error.text, key);
        CHECK(html.size == 0);
    }
    pf__text_free(&html);
    free(certificate);
    free(journal);
}

// What would turn the direction of the text stands in the certificate inside as JSON escapes it.
static void check_turned(void)
{
    char *journal = program_text(folder, "no.j"), *certificate = program_text(folder, "no.c");
    pf_text html = {0};
    pf_error error = {PF_OK, ""};
    char *at = strstr(certificate, "\"preflight\":\"");
    PF_CASE("the certificate inside a sheet turns no text, and says the same");
    if (CHECK(at != NULL)) {
        memcpy(at + strlen("\"preflight\":\""), "\xe2\x80\xae", 3); // over the version
        CHECK(pf__sheet(journal, strlen(journal), certificate, &html, &error) == PF_OK);
        CHECK_CONTAINS(html.data, "&quot;preflight&quot;:&quot;\\u202e");
        CHECK(!strstr(html.data, "\xe2\x80\xae"));
    }
    pf__text_free(&html);
    free(certificate);
    free(journal);
}

// Up to the list of what was not tested.
static char *first_page(const char *call, int status)
{
    char whole[200];
    snprintf(whole, sizeof whole, "check @/a.kit --report @/first.html %s", call);
    CHECK(run(whole, status, ""));
    char *page = program_text(folder, "first.html"), *end = strstr(page, "What was not tested");
    if (CHECK(end != NULL)) {
        *end = 0;
    }
    return page;
}

static void check_first_page(void)
{
    PF_CASE("the first page has the misfit, what it looks like, and what is not confirmed");
    char *page = first_page("--fault angle_z:frozen --seed 7", 1);
    CHECK_CONTAINS(page, "The responses fit no machine of the model: channel angle_z speaks");
    CHECK_CONTAINS(page, "It looks like angle_z:frozen.");
    free(page);
    page = first_page("--fault 3:.5 --fault 1:.3", 1);
    CHECK_CONTAINS(page, "The responses fit no machine of the model: the mix of amplitudes speaks");
    free(page);
    holds("first.html", "in channel <bdi></bdi>", false);
    page = first_page("--fault 3:0", 1);
    CHECK_CONTAINS(page, "thruster3</bdi>: lost strength, P(changed) over 99.99 %");
    CHECK_CONTAINS(page, ", not confirmed.");
    CHECK_CONTAINS(page, "What was found of thruster3 is not confirmed: ");
    free(page);
    PF_CASE("verdicts stand beside the names; no probability is 0 or 1");
    page = first_page("--fault 3:.5", 0);
    CHECK_CONTAINS(page, "thruster3</th><td class=\"go\"><b>GO</b></td>");
    CHECK_CONTAINS(page, "<td class=\"n\">over 99.99 %</td>");
    CHECK_CONTAINS(page, "<td class=\"n\">below 0.01 %</td>");
    CHECK(!strstr(page, ">0.0000<") && !strstr(page, ">1.0000<") && !strstr(page, "100 %"));
    CHECK(!strstr(page, "not confirmed"));
    free(page);
    PF_CASE("what is signed stands beside the signature, with the seed");
    page = first_page("--seed 7", 0);
    CHECK_CONTAINS(page, "method eg-mpt, seed 7, ");
    free(page);
    page = program_text(folder, "first.html");
    const char *sign = strstr(page, "<table class=\"sign\">");
    if (CHECK(sign != NULL)) {
        CHECK_CONTAINS(sign, "<b class=\"go\">GO</b> for <bdi>attitude</bdi>, kit ");
        CHECK_CONTAINS(sign,
                       ", seed 7</td></tr>\n<tr class=\"s\"><td>Name</td><td>Date and time</td>");
    }
    free(page);
}

static void check_not_probed(void)
{
    PF_CASE("what was not probed does not push the tasks off the first page");
    const char config[] =
        "probes:\n  - {name: a, pulse: {mechanism: 1, amplitude: .25, steps: 8}}\n"
        "tasks:\n  - {name: t, mechanisms: [1]}\n";
    char path[300];
    snprintf(path, sizeof path, "%s/one.yaml", folder);
    CHECK(pf__file_write(path, config, sizeof config - 1, NULL) == PF_OK);
    CHECK(run("calibrate attitude --config @/one.yaml --set alarm_trials=100 --set episodes=20 -o "
              "@/one.kit",
              0, "1 task"));
    CHECK(run("check @/one.kit --report @/one.html", 0, ""));
    holds("one.html", "thruster4</bdi>: not probed; 3 other mechanisms: not probed.</p>", true);
    holds("one.html", "thruster5</bdi>: not probed", false);
    holds("one.html", "thruster7</th>", true);
    holds("one.html", "<td>no open-loop task uses it</td>", true);
    holds("one.html", "no limit is known", false);
}

void test_sheet(void)
{
    size_t n = 0;
    char path[300];
    const void *bytes = attitude_kit_bytes(&n);
    PF_CASE("a sheet of a healthy machine, of a loss and of a machine that is sick otherwise");
    CHECK(program_folder(folder, sizeof folder, "sheet"));
    snprintf(path, sizeof path, "%s/a.kit", folder);
    CHECK(pf__file_write(path, bytes, n, NULL) == PF_OK);
    CHECK(run("check @/a.kit --report @/go.html --seed 2", 0, "all ready"));
    CHECK(run("check @/a.kit --report @/lost.html --journal @/lost.j --fault 3:0.35 --seed 7", 0,
              "all ready"));
    CHECK(run("check @/a.kit --report @/no.html --journal @/no.j --certificate @/no.c --fault "
              "3:saturation=.4",
              1, ""));
    check_page("go.html");
    check_page("lost.html");
    check_page("no.html");
    holds("go.html", "<div class=\"verdict go\">GO</div>", true);
    holds("lost.html", "<div class=\"verdict go\">GO</div>", true);
    holds("lost.html", "90 % interval from 0.3", true);
    holds("lost.html", "The certificate", true);
    holds("no.html", "<div class=\"verdict no-go\">NO-GO</div>", true);
    holds("no.html", "<h2>What would make it go</h2>\n<ul>\n<li>What would make ", true);
    holds("go.html", "What would make it go", false);
    holds("go.html", "every mechanism is healthy", true);
    holds("go.html", "corrected commands only", false);
    holds("lost.html", "thruster3</bdi>: lost strength", true);
    holds("lost.html", "It holds for corrected commands only: send <bdi>thruster3</bdi> ", true);
    holds("lost.html", "simulated, with this fault put into it: ", true);
    holds("go.html", "simulated, with no fault put into it", true);
    PF_CASE("the sheet of a journal says what was checked too");
    CHECK(run("explain @/lost.j --html @/again.html", 0, ""));
    holds("again.html", "simulated, with this fault put into it: ", true);
    CHECK(run("explain @/lost.j", 0, "The machine was simulated, with this fault put into it: "));
    CHECK(run("explain @/no.c", 0, "The machine was simulated, with this fault put into it: "));
    check_first_page();
    check_not_probed();
    PF_CASE("a loss that is not certain is on the sheet");
    bool doubted = false;
    for (int seed = 0; seed < 12 && !doubted; seed++) {
        char call[200];
        snprintf(call, sizeof call, "check @/a.kit --report @/doubt.html --fault 3:%.2f --seed %d",
                 .88 + .01 * seed, seed);
        CHECK(run(call, 0, ""));
        char *page = program_text(folder, "doubt.html");
        doubted = strstr(page, "thruster3</bdi>: not sure") != NULL;
        // not certain is something else than healthy
        CHECK(doubted || !strstr(page, "<td>not sure</td>"));
        free(page);
    }
    CHECK(doubted);
    PF_CASE("a kit that rehearses nothing has no GO in large letters");
    CHECK(run("calibrate dc_servo --set field=false --set alarm_trials=100 -o @/paper.kit", 0, ""));
    CHECK(run("check @/paper.kit --report @/paper.html", 1, "GO-IF"));
    holds("paper.html", "<div class=\"verdict go-if\">GO-IF</div>", true);
    holds("paper.html", "nothing was rehearsed", true);
    PF_CASE("the same sheet from the journal, but for what only the check knows");
    CHECK(run("explain @/no.j --html @/again.html", 0, ""));
    check_page("again.html");
    holds("again.html", "<div class=\"verdict no-go\">NO-GO</div>", true);
    holds("again.html", "not known from a journal alone", true);
    check_turned();
    PF_CASE("no sheet says what its certificate does not");
    check_cut("\"implausible\":0,", "implausible");
    check_cut("\"audit\":null,", "audit");
    check_cut("\"rehearsals\":", "no JSON");
    PF_CASE("names cannot become elements of the page");
    const char config[] = "tasks:\n  - {name: <b>x</b>&y, mechanisms: [1]}\n";
    snprintf(path, sizeof path, "%s/names.yaml", folder);
    CHECK(pf__file_write(path, config, sizeof config - 1, NULL) == PF_OK);
    CHECK(run("calibrate dc_servo --probes single --config @/names.yaml --set alarm_trials=100 -o "
              "@/names.kit",
              0, "1 task"));
    CHECK(run("check @/names.kit --report @/names.html", 0, ""));
    check_page("names.html");
    holds("names.html", "&lt;b&gt;x&lt;/b&gt;&amp;y", true);
    holds("names.html", "<b>x</b>", false);
    PF_CASE("sheets that cannot be written or made");
    CHECK(run("check @/a.kit --report @/none/x.html", 3, "x.html"));
    CHECK(run("check @/a.kit --report @/a.kit", 2, "overwrite the kit"));
    CHECK(run("check @/a.kit --report @/x --journal @/x", 2, "name the same file"));
    CHECK(run("explain @/no.j --html @/no.j", 2, "overwrite the journal"));
    CHECK(run("check @/a.kit --certificate @/c.json", 0, ""));
    CHECK(run("explain @/c.json --html @/c.html", 2, "needs a journal"));
    char *text = program_text(folder, "no.j");
    char *last = strstr(text, "{\"request\":{\"op\":\"readiness\"}");
    snprintf(path, sizeof path, "%s/open.j", folder);
    CHECK(last && pf__file_write(path, text, (size_t)(last - text), NULL) == PF_OK);
    CHECK(run("explain @/open.j --html @/open.html", 3, "has no readiness"));
    free(text);
}
