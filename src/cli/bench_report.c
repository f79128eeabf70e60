// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "bench.h"

#include "commit.h" // PF_COMMIT, of the sources that were built
#include "host/file.h"
#include "host/page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

// bench report: a page per suite, with its figure, and without names an index and the fidelity.
// Everything is written once, as Markdown; the HTML page is made of that.

enum { MOST_FAILURES = 20 };

typedef struct report_call {
    bench_call bench;
    const char *folder;
    const char *name; // of the page, for one suite. NULL: the suite's
    bool html;
    size_t sample; // trials that are recomputed; 0: none
} report_call;

static pf_status write_file(const report_call *r, const char *name, const char *ending,
                            const pf_text *text, pf_error *error)
{
    char path[BENCH_PATH + 300];
    snprintf(path, sizeof path, "%s/%s.%s", r->folder, name, ending);
    return text->failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory for a page")
                        : pf__file_write(path, text->data ? text->data : "", text->size, error);
}

// A page in Markdown and, if asked for, in HTML.
static pf_status write_page(const report_call *r, const char *name, const char *title,
                            const pf_text *md, pf_error *error)
{
    pf_text html = {0};
    pf_status status = write_file(r, name, "md", md, error);
    if (status == PF_OK && r->html) {
        pf__page_open(&html, title, "", true);
        pf__page_markdown(&html, md->data ? md->data : "");
        pf__page_close(&html);
        status = write_file(r, name, "html", &html, error);
    }
    pf__text_free(&html);
    return status;
}

// --- where it comes from

static void add_options(pf_text *out, const report_call *r)
{
    const bench_call *c = &r->bench;
    pf__text_addf(out, " --profile %s%s", c->profile->name, c->twin ? " --twin" : "");
    for (int i = 0; i < c->set.n; i++) {
        pf__text_add(out, " --set ");
        pf__text_add_word(out, c->set.item[i]);
    }
}

static void add_commands(pf_text *out, const report_call *r, const bench_loaded *l)
{
    pf__text_addf(out, "| command | `preflight bench run %s", l->suite.run->id);
    add_options(out, r);
    pf__text_addf(out, "`%s |\n| page | `preflight bench report %s",
                  l->counts.done < l->counts.total ? ", in part (`--only`, or stopped)" : "",
                  l->report.suite);
    add_options(out, r);
    pf__text_add(out, " -o DIR");
    if (r->sample > 0) {
        pf__text_addf(out, " --sample %zu", r->sample);
    }
    if (r->name) {
        pf__text_add(out, " --name ");
        pf__text_add_word(out, r->name);
    }
    pf__text_add(out, "` |\n");
}

static pf_status add_provenance(pf_text *out, const report_call *r, const bench_loaded *l,
                                pf_error *error)
{
    time_t now = time(NULL);
    struct tm day;
    char date[16] = "", hash[65];
    if (gmtime_r(&now, &day)) {
        strftime(date, sizeof date, "%Y-%m-%d", &day);
    }
    const char *predictor = l->suite.run->predictor;
    pf__text_add(out, "| | |\n|---|---|\n");
    add_commands(out, r, l);
    pf__text_addf(out, "| trials | %lld of %lld, %lld failed; profile %s, predictor %s |\n",
                  (long long)l->counts.done, (long long)l->counts.total,
                  (long long)l->counts.failed, r->bench.profile->name,
                  predictor ? predictor : "twin");
    pf__text_addf(out, "| program | preflight %s, %s; page of %s |\n", pf_version(), PF_COMMIT,
                  date);
    if (r->sample == 0) {
        pf__text_add(out, "| checked | no stored trial was recomputed |\n\n");
        return PF_OK;
    }
    pf_verify_report report;
    pf_status status =
        bench_recompute(&r->bench, l->report.suite, r->sample, 0, &report, hash, error);
    if (status == PF_OK && report.different > 0) {
        status = pf_fail(error, PF_ERR_MISMATCH,
                         "%s: %z of %z recomputed trials differ, the first one: %s; run the suite "
                         "again with this program",
                         l->report.suite, report.different, report.checked, report.difference);
    } else if (status == PF_OK) {
        pf__text_addf(out, "| checked | %zu of %zu stored trials recomputed, none differs |\n\n",
                      report.checked, report.available);
    }
    return status;
}

// --- a suite

typedef struct failures {
    pf_text *out;
    int n;
} failures;

static void add_failure(void *self, const pf_unit *u, const char *reason)
{
    failures *f = self;
    if (f->n++ < MOST_FAILURES) {
        pf__text_addf(f->out, "- %s, %s, seed %d, trial %d: %s\n", u->environment, u->setting,
                      u->seed, u->trial, reason ? reason : "no reason is known");
    }
}

static pf_status add_failures(pf_text *out, const bench_loaded *l, pf_error *error)
{
    failures f = {.out = out};
    if (l->counts.failed == 0) {
        return PF_OK;
    }
    pf__text_add(out, "## Failures\n\n");
    pf_status status = pf__store_failures(l->store, l->hash, add_failure, &f, error);
    if (f.n > MOST_FAILURES) {
        pf__text_addf(out, "- and %d more\n", f.n - MOST_FAILURES);
    }
    pf__text_add(out, "\n");
    return status;
}

// The line "## Notes" of a text, whatever ends it; NULL: there is none.
static const char *find_notes(const char *text)
{
    static const char mark[] = "## Notes";
    for (const char *at = text; at; at = strchr(at, '\n'), at = at ? at + 1 : NULL) {
        size_t n = sizeof mark - 1;
        if (strncmp(at, mark, n) == 0 &&
            (at[n + strspn(at + n, " \t\r")] == '\n' || at[n + strspn(at + n, " \t\r")] == '\0')) {
            return at;
        }
    }
    return NULL;
}

// What people wrote below "## Notes" of the page that is there. A page that cannot be read is not
// written over.
static pf_status keep_notes(pf_text *out, const report_call *r, const char *name, pf_error *error)
{
    char path[BENCH_PATH + 300];
    void *data = NULL;
    size_t n = 0;
    struct stat about;
    snprintf(path, sizeof path, "%s/%s.md", r->folder, name);
    if (stat(path, &about) != 0 && errno == ENOENT) {
        return PF_OK;
    }
    pf_status status =
        pf__file_read_until(path, (size_t)1 << 26, &cli_interrupted, &data, &n, error);
    pf_text before = {0};
    if (status == PF_OK) {
        pf__text_add_n(&before, data, n);
        const char *notes = before.data ? find_notes(before.data) : NULL;
        pf__text_add(out, notes ? notes : "");
    }
    free(data);
    pf__text_free(&before);
    return status;
}

// The figure beside the page; a machine without gnuplot has a page without it.
static pf_status add_figure(pf_text *out, const report_call *r, const bench_loaded *l,
                            const char *name, pf_error *error)
{
    char folder[BENCH_PATH + 300], path[BENCH_PATH + 600];
    pf_error why = {PF_OK, ""};
    snprintf(folder, sizeof folder, "%s/figures", r->folder);
    pf_status status = bench_draw(l, &r->bench, folder, name, &why);
    if (status == PF_ERR_UNSUPPORTED) {
        fprintf(stderr, "preflight %s: no figure of %s: %s\n", r->bench.command, l->report.suite,
                why.text);
        return PF_OK;
    }
    if (status != PF_OK) {
        return pf_fail(error, status, "%s", why.text);
    }
    static const char *const endings[] = {"gp", "dat"}; // what gnuplot was given
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s.%s", folder, name, endings[i]);
        remove(path);
    }
    pf__text_addf(out, "![%s](figures/%s.svg)\n\n", name, name);
    return PF_OK;
}

// Only when there is something to put into it.
static pf_status make_folder(const report_call *r, pf_error *error)
{
    bool made = mkdir(r->folder, 0777) == 0 || errno == EEXIST;
    return made ? PF_OK
                : pf_fail(error, PF_ERR_FILE, "%s: the folder cannot be made: %s", r->folder,
                          strerror(errno));
}

// A suite's page. *row gets its line of the index, unless it was never run.
static pf_status report_suite(const report_call *call, const char *suite, pf_text *row,
                              pf_error *error)
{
    report_call own = *call, *r = &own;
    bench_loaded l;
    bench_take_last(&r->bench, suite);
    pf_text md = {0}, table = {0};
    pf_status status = bench_load(&l, &r->bench, suite, error);
    const char *name = r->name ? r->name : l.report.suite;
    bool skip = l.not_run && row;
    status = status ? status : make_folder(r, error);
    if (status == PF_OK) {
        pf__text_addf(&md, "# %s: %s\n\n", l.report.suite, l.report.title);
        status = add_provenance(&md, r, &l, error);
        status = status ? status : add_figure(&md, r, &l, name, error);
        status = status ? status : pf__table_text(&l.report, "md", &table, error);
    }
    if (status == PF_OK) {
        const char *body = strchr(table.data ? table.data : "", '\n'); // after its own heading
        pf__text_add(&md, body ? body + 1 + (body[1] == '\n') : "");
        md.failed = md.failed || table.failed;
        status = add_failures(&md, &l, error);
        status = status ? status : keep_notes(&md, r, name, error);
    }
    status = status ? status : write_page(r, name, suite, &md, error);
    if (status == PF_OK && row) {
        pf__text_addf(row, "| [%s](%s.md) | %s | %s | %lld of %lld | %lld |\n", suite, name,
                      l.report.title, r->bench.profile->name, (long long)l.counts.done,
                      (long long)l.counts.total, (long long)l.counts.failed);
    }
    if (status == PF_OK) {
        printf("%s/%s.%s\n", r->folder, name, r->html ? "html" : "md");
    }
    pf__text_free(&md);
    pf__text_free(&table);
    bench_unload(&l);
    return skip ? PF_OK : status;
}

// --- all of it

static pf_status report_fidelity(const report_call *r, pf_text *index, pf_error *error)
{
    pf_text md = {0}, page = {0};
    int produced = 0;
    bench_call call = r->bench;
    bench_take_last(&call, NULL);
    pf_status status = bench_fidelity(&call, false, NULL, &md, &produced, error);
    if (status == PF_OK && produced > 0) {
        const char *text = md.data ? md.data : "";
        pf__text_add(&page, text + (strncmp(text, "##", 2) == 0)); // it heads this page
        page.failed = page.failed || md.failed;
        status = keep_notes(&page, r, "fidelity", error);
        status = status ? status : write_page(r, "fidelity", "fidelity", &page, error);
        pf__text_add(index, "\n[Fidelity](fidelity.md): how many of the paper's numbers and claims "
                            "agree with these.\n");
    }
    pf__text_free(&md);
    pf__text_free(&page);
    return status;
}

static pf_status report_all(const report_call *r, pf_error *error)
{
    char **names = NULL;
    int n = 0;
    pf_text rows = {0}, index = {0};
    pf_status status = bench_names(&r->bench, &names, &n, error);
    for (int i = 0; i < n && status == PF_OK; i++) {
        status = report_suite(r, names[i], &rows, error);
    }
    if (status == PF_OK && rows.size == 0) {
        status = pf_fail(error, PF_ERR_ARGUMENT,
                         "%s has no trials%s%s; `preflight bench run SUITE...` makes them",
                         r->bench.db, r->bench.profile_name ? " at profile " : "",
                         r->bench.profile_name ? r->bench.profile_name : "");
    }
    if (status == PF_OK) {
        pf__text_addf(
            &index,
            "# Results\n\npreflight %s, %s.\n\n| suite | what | profile | trials | failed "
            "|\n|---|---|---|---:|---:|\n%s",
            pf_version(), PF_COMMIT, rows.data);
        status = report_fidelity(r, &index, error);
    }
    status = status ? status : keep_notes(&index, r, "index", error);
    status = status ? status : write_page(r, "index", "Results", &index, error);
    pf__text_free(&rows);
    pf__text_free(&index);
    bench_names_free(names, n);
    return status;
}

static int report(const report_call *r, const cli_list *names)
{
    pf_error error = {PF_OK, ""};
    pf_status status = names->n == 0 ? report_all(r, &error) : PF_OK;
    for (int i = 0; i < names->n && status == PF_OK; i++) {
        status = report_suite(r, names->item[i], NULL, &error);
    }
    return status == PF_OK ? EXIT_YES : cli_fail(r->bench.command, status, &error);
}

int bench_cmd_report(int argc, char **argv)
{
    const char *format = NULL, *sample_text = NULL;
    double sample = 0;
    int status = EXIT_YES;
    cli_list names = {.n = 0};
    report_call r = {.bench = {.command = "bench report", .quiet = true}};
    cli_option options[BENCH_OPTIONS + 4] = {
        [BENCH_OPTIONS] = {"-o", .value = &r.folder},
        [BENCH_OPTIONS + 1] = {"--name", .value = &r.name},
        [BENCH_OPTIONS + 2] = {"--format", .value = &format},
        [BENCH_OPTIONS + 3] = {"--sample", .value = &sample_text}};
    bench_options(&r.bench, options);
    if (!cli_parse(r.bench.command, argc, argv, options, BENCH_OPTIONS + 4, &names)) {
        return EXIT_USAGE;
    }
    if (!r.folder) {
        return cli_usage(r.bench.command, "-o DIR is missing: the folder for the pages");
    }
    if (r.name && (names.n != 1 || !pf__file_name_fits(r.name) || strchr(r.name, '\\'))) {
        return cli_usage(r.bench.command,
                         "--name is a file's name without its folder and ending, with no control "
                         "character and no '-' at its beginning, and goes with one suite");
    }
    if (format && strcmp(format, "md") != 0 && strcmp(format, "html") != 0) {
        return cli_usage(r.bench.command, "--format: '%s' is not html or md", format);
    }
    r.html = !format || strcmp(format, "html") == 0;
    if (sample_text && !cli_integer(r.bench.command, "--sample", sample_text, 0, 1e9, &sample)) {
        return EXIT_USAGE;
    }
    r.sample = (size_t)sample;
    return bench_resolve(&r.bench, &status) ? report(&r, &names) : status;
}
