// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "fidelity.h"

#include "host/csv.h"
#include "host/gnuplot.h"
#include "host/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- claims

static const char *const columns[] = {"id",      "place",  "suite", "environments",
                                      "setting", "metric", "left",  "relation",
                                      "right",   "margin", "least", "words"};
enum { COLUMNS = sizeof columns / sizeof columns[0], CLAIMS_MOST = 1000 };

static pf_status read_claim(const pf_csv *csv, pf_claim *c, pf_error *error)
{
    const struct {
        char *to;
        size_t room;
    } words[] = {{c->id, sizeof c->id},           {c->place, sizeof c->place},
                 {c->suite, sizeof c->suite},     {c->environments, sizeof c->environments},
                 {c->setting, sizeof c->setting}, {c->metric, sizeof c->metric},
                 {c->left, sizeof c->left},       {c->relation, sizeof c->relation},
                 {c->right, sizeof c->right}};
    pf_status status = PF_OK;
    for (int i = 0; i < 9 && status == PF_OK; i++) {
        status = pf__csv_word(csv, i, words[i].to, words[i].room, error);
    }
    status = status ? status : pf__csv_number(csv, 9, &c->margin, error);
    status = status ? status : pf__csv_integer(csv, 10, 0, 1000, &c->least, error);
    status = status ? status : pf__csv_word(csv, 11, c->words, sizeof c->words, error);
    if (status != PF_OK) {
        return status;
    }
    bool known = strcmp(c->relation, "<") == 0 || strcmp(c->relation, ">") == 0;
    return known && pf__entry_metric_known(c->metric)
               ? PF_OK
               : pf__csv_refuse(csv, 7, PF_ERR_FORMAT, "must be < or >, with a metric of ours",
                                error);
}

static pf_status read_claims(pf_fidelity *f, const char *folder, pf_error *error)
{
    pf_csv_file file;
    bool more = true;
    pf_status status =
        pf__csv_file_open(&file, folder, "paper_claims.csv", columns, COLUMNS, error);
    f->claim = calloc(CLAIMS_MOST, sizeof *f->claim);
    if (status == PF_OK && !f->claim) {
        status = pf_fail(error, PF_ERR_MEMORY, "out of memory for the paper's claims");
    }
    while (status == PF_OK && more) {
        status = pf__csv_next(&file.csv, &more, error);
        if (status == PF_OK && more && f->n_claims == CLAIMS_MOST) {
            status = pf__csv_refuse(&file.csv, -1, PF_ERR_FORMAT, "more than 1000 claims", error);
        } else if (status == PF_OK && more) {
            status = read_claim(&file.csv, &f->claim[f->n_claims++], error);
        }
    }
    pf__csv_file_close(&file);
    return status;
}

// One side of a claim in an environment; NaN: we do not have it.
static double side(const pf_claim *c, const pf_entries *entries, const char *environment,
                   const char *text)
{
    char method[PF_PAPER_WORD], *end;
    double number = pf__number_read(text, &end);
    if (!*end) {
        return number;
    }
    const char *at = strchr(text, '@');
    snprintf(method, sizeof method, "%.*s", at ? (int)(at - text) : (int)strlen(text), text);
    const pf_entry *e =
        pf__entries_find(entries, environment, at ? at + 1 : c->setting, c->metric, method);
    return e ? e->mean : NAN;
}

// What the paired difference of two methods is, with the sign of ours; NULL: there is none.
static const pf_entry *paired(const pf_claim *c, const pf_entries *entries, const char *environment,
                              const char *method)
{
    char metric[2 * PF_PAPER_WORD];
    snprintf(metric, sizeof metric, "%s" PF_DIFFERENCE, c->metric);
    bool reference = strcmp(c->left, PF_REFERENCE) == 0;
    return reference ? pf__entries_find(entries, environment, c->setting, metric, method) : NULL;
}

// Whether a claim holds in an environment. *close: its nearest difference is not resolved. False
// with *known false: one side is missing.
static bool holds(const pf_claim *c, const pf_entries *entries, const char *environment,
                  bool *known, bool *close)
{
    double sign = strcmp(c->relation, "<") == 0 ? -1 : 1;
    double left = side(c, entries, environment, c->left), least = INFINITY;
    bool all = strcmp(c->right, "baselines") == 0;
    *known = !isnan(left);
    *close = false;
    for (int i = 0; i < (all ? PF_BASELINES : 1); i++) {
        const char *method = all ? pf__compared[i] : c->right;
        double right = side(c, entries, environment, method);
        *known = *known && !isnan(right);
        if (sign * (left - right) < least) {
            const pf_entry *pair = paired(c, entries, environment, method);
            least = sign * (left - right);
            *close = pair && pair->lo <= 0 && pair->hi >= 0;
        }
    }
    return *known && least > c->margin;
}

// Whether a list of words has one of them.
static bool has_word(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += n) {
        if ((at == list || at[-1] == ' ') && (at[n] == 0 || at[n] == ' ')) {
            return true;
        }
    }
    return false;
}

// Every environment that it names must be there, and with `each` every one of the suite.
static void test_claim(pf_claim *c, const pf_entries *entries)
{
    bool each = strcmp(c->environments, "each") == 0;
    int named = 1;
    for (const char *at = c->environments; (at = strchr(at, ' ')); at++) {
        named++;
    }
    c->held = c->of = c->close = c->unknown = 0;
    for (int i = -2; i < entries->n_environments; i++) {
        const char *name = i == -2 ? PF_MACRO : i == -1 ? PF_MACRO_SHOWN : entries->environment[i];
        if (each ? i >= 0 : has_word(c->environments, name)) {
            bool known, close;
            c->held += holds(c, entries, name, &known, &close);
            c->of++;
            c->close += known && close;
            c->unknown += !known;
        }
    }
    c->unknown += each ? 0 : named - c->of;
}

static bool is_tested(const pf_claim *c)
{
    return c->of > 0 && c->unknown == 0;
}

static bool is_held(const pf_claim *c)
{
    return is_tested(c) && c->held >= (c->least > 0 ? c->least : c->of);
}

// --- numbers

// Whether two rows are one number; the paper's mean over plants stands under both of our means.
static bool same_number(const pf_paper_row *a, const pf_paper_row *b)
{
    bool mean = strncmp(a->environment, PF_MACRO, strlen(PF_MACRO)) == 0 &&
                strncmp(b->environment, PF_MACRO, strlen(PF_MACRO)) == 0;
    return a->mean == b->mean && strcmp(a->suite, b->suite) == 0 &&
           (mean || strcmp(a->environment, b->environment) == 0) &&
           strcmp(a->setting, b->setting) == 0 && strcmp(a->metric, b->metric) == 0 &&
           strcmp(a->method, b->method) == 0;
}

pf_status pf__fidelity_init(pf_fidelity *f, const pf_paper *paper, const char *folder,
                            pf_error *error)
{
    memset(f, 0, sizeof *f);
    f->row = calloc((size_t)paper->n, sizeof *f->row);
    if (!f->row) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for the paper's numbers");
    }
    f->n = paper->n;
    for (int i = 0; i < f->n; i++) {
        pf_fidelity_row *r = &f->row[i];
        *r = (pf_fidelity_row){.paper = paper->row[i], .ours = NAN, .lo = NAN, .hi = NAN};
    }
    // of the two means the one over the plants that the paper shows counts
    for (int i = 0; i < f->n; i++) {
        const pf_paper_row *p = &f->row[i].paper;
        for (int k = 0; k < f->n && strcmp(p->environment, PF_MACRO) == 0; k++) {
            const pf_paper_row *q = &f->row[k].paper;
            f->row[i].again = f->row[i].again || (k != i && same_number(q, p));
        }
    }
    return read_claims(f, folder, error);
}

void pf__fidelity_free(pf_fidelity *f)
{
    free(f->row);
    free(f->claim);
    memset(f, 0, sizeof *f);
}

void pf__fidelity_take(pf_fidelity *f, const pf_fidelity_suite *suite)
{
    for (int i = 0; i < f->n; i++) {
        pf_fidelity_row *r = &f->row[i];
        const pf_paper_row *p = &r->paper;
        if (strcmp(p->suite, suite->name) != 0) {
            continue;
        }
        const pf_entry *e =
            pf__entries_find(suite->entries, p->environment, p->setting, p->metric, p->method);
        r->done = suite->done;
        r->total = suite->total;
        if (!e || isnan(e->mean)) {
            continue;
        }
        r->ours = e->mean;
        r->lo = e->lo;
        r->hi = e->hi;
        r->n = e->n;
        snprintf(r->predictor, sizeof r->predictor, "%s", suite->predictor);
        r->agree = (e->lo <= p->mean && p->mean <= e->hi) ||
                   (!isnan(p->sd) && fabs(e->mean - p->mean) <= p->sd);
    }
    for (int i = 0; i < f->n_claims; i++) {
        if (strcmp(f->claim[i].suite, suite->name) == 0) {
            test_claim(&f->claim[i], suite->entries);
        }
    }
}

void pf__fidelity_match(pf_fidelity *a, pf_fidelity *b)
{
    for (int i = 0; i < a->n && i < b->n; i++) {
        pf_fidelity_row *x = &a->row[i], *y = &b->row[i];
        if (isnan(x->ours) || isnan(y->ours)) {
            x->ours = y->ours = NAN;
            x->agree = y->agree = false;
        }
    }
    for (int i = 0; i < a->n_claims && i < b->n_claims; i++) {
        if (!is_tested(&a->claim[i]) || !is_tested(&b->claim[i])) {
            a->claim[i].of = b->claim[i].of = 0;
        }
    }
}

// --- what it comes to

static bool counts(const pf_fidelity_row *r, const char *suite)
{
    return !r->again && (!suite || strcmp(r->paper.suite, suite) == 0);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Of the difference to the paper, or of half our interval, in the paper's sd.
static double median_of(const pf_fidelity *f, const char *suite, bool width)
{
    double *values = calloc((size_t)f->n + 1, sizeof *values), median = NAN;
    int n = 0;
    for (int i = 0; values && i < f->n; i++) {
        const pf_fidelity_row *r = &f->row[i];
        if (counts(r, suite) && !isnan(r->ours) && r->paper.sd > 0) {
            double size = width ? (r->hi - r->lo) / 2 : fabs(r->ours - r->paper.mean);
            values[n++] = size / r->paper.sd;
        }
    }
    if (n > 0) {
        qsort(values, (size_t)n, sizeof *values, by_value);
        median = (values[(n - 1) / 2] + values[n / 2]) / 2;
    }
    free(values);
    return median;
}

static bool same_cell(const pf_paper_row *a, const pf_paper_row *b)
{
    return strcmp(a->suite, b->suite) == 0 && strcmp(a->environment, b->environment) == 0 &&
           strcmp(a->setting, b->setting) == 0 && strcmp(a->metric, b->metric) == 0;
}

// Kendall's tau-b of the methods in the cell of a row; NaN: fewer than three, or all are equal.
static double cell_tau(const pf_fidelity *f, int first)
{
    enum { MOST = 64 };
    const pf_fidelity_row *row[MOST];
    int n = 0, sum = 0, tied[2] = {0, 0}, pairs = 0;
    for (int i = first; i < f->n && n < MOST; i++) {
        const pf_fidelity_row *r = &f->row[i];
        if (!r->again && !isnan(r->ours) && same_cell(&r->paper, &f->row[first].paper)) {
            row[n++] = r;
        }
    }
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < i; k++) {
            double a = row[i]->paper.mean - row[k]->paper.mean, b = row[i]->ours - row[k]->ours;
            sum += ((a > 0) - (a < 0)) * ((b > 0) - (b < 0));
            tied[0] += a == 0;
            tied[1] += b == 0;
            pairs++;
        }
    }
    double whole = sqrt((double)(pairs - tied[0]) * (pairs - tied[1]));
    return n >= 3 && whole > 0 ? sum / whole : NAN;
}

pf_fidelity_sum pf__fidelity_sum(const pf_fidelity *f, const char *suite)
{
    pf_fidelity_sum s = {.median = median_of(f, suite, false), .width = median_of(f, suite, true)};
    double tau = 0;
    for (int i = 0; i < f->n; i++) {
        const pf_fidelity_row *r = &f->row[i];
        if (!counts(r, suite)) {
            continue;
        }
        s.numbers++;
        s.produced += !isnan(r->ours);
        s.agree += r->agree;
        bool first = true;
        for (int k = 0; k < i && first; k++) {
            first = f->row[k].again || !same_cell(&f->row[k].paper, &r->paper);
        }
        double one = first ? cell_tau(f, i) : NAN;
        if (!isnan(one)) {
            s.cells++;
            tau += one;
        }
    }
    s.tau = s.cells > 0 ? tau / s.cells : NAN;
    for (int i = 0; i < f->n_claims; i++) {
        const pf_claim *c = &f->claim[i];
        if (!suite || strcmp(c->suite, suite) == 0) {
            s.claims++;
            s.held += is_held(c);
            s.unknown += !is_tested(c);
        }
    }
    return s;
}

// Whether no row before this one is of its suite.
static bool is_first(const pf_fidelity *f, int row)
{
    for (int k = 0; k < row; k++) {
        if (strcmp(f->row[k].paper.suite, f->row[row].paper.suite) == 0) {
            return false;
        }
    }
    return true;
}

static const char *predictor_of(const pf_fidelity *f, const char *suite)
{
    for (int i = 0; i < f->n; i++) {
        if (f->row[i].predictor[0] && strcmp(f->row[i].paper.suite, suite) == 0) {
            return f->row[i].predictor;
        }
    }
    return "-";
}

// The predictor, and how much was run where that is not all.
static void describe(const pf_fidelity *f, const char *suite, char *out, size_t size)
{
    int64_t done = 0, total = 0;
    for (int i = 0; i < f->n; i++) {
        if (strcmp(f->row[i].paper.suite, suite) == 0) {
            done = f->row[i].done;
            total = f->row[i].total;
        }
    }
    snprintf(out, size, "%s", predictor_of(f, suite));
    if (done < total) {
        size_t n = strlen(out);
        snprintf(out + n, size - n, ", %lld of %lld trials", (long long)done, (long long)total);
    }
}

// --- as text

void pf__fidelity_csv(const pf_fidelity *f, pf_text *out)
{
    pf__text_add(
        out,
        "table,environment,setting,metric,method,paper,ours,lo,hi,agree,profile,predictor,n\n");
    for (int i = 0; i < f->n; i++) {
        const pf_fidelity_row *r = &f->row[i];
        const pf_paper_row *p = &r->paper;
        if (r->again) {
            continue;
        }
        pf__text_addf(out, "%s,%s,%s,%s,%s", p->suite, p->environment, p->setting, p->metric,
                      p->method);
        pf__csv_number_add(out, p->mean);
        pf__csv_number_add(out, r->ours);
        pf__csv_number_add(out, r->lo);
        pf__csv_number_add(out, r->hi);
        pf__text_addf(out, ",%d,%s,%s,%.0f\n", r->agree, f->profile, r->predictor, r->n);
    }
}

// predictor NULL: without that column.
static void add_sum(pf_text *out, const char *name, const char *predictor, pf_fidelity_sum s)
{
    pf__text_addf(out, "| %s |", name);
    if (predictor) {
        pf__text_addf(out, " %s |", predictor);
    }
    pf__text_addf(out, " %d | %d | %d |", s.numbers, s.produced, s.agree);
    if (isnan(s.median)) {
        pf__text_add(out, " - |");
    } else {
        pf__text_addf(out, " %.2f (%.2f) |", s.median, s.width);
    }
    if (isnan(s.tau)) {
        pf__text_add(out, " - |");
    } else {
        pf__text_addf(out, " %.2f (%d) |", s.tau, s.cells);
    }
    pf__text_addf(out, " %d of %d |", s.held, s.claims - s.unknown);
}

static void add_claims(const pf_fidelity *f, pf_text *out)
{
    pf__text_add(out, "\n| claim | where | held | in |\n|---|---|---|---|\n");
    for (int i = 0; i < f->n_claims; i++) {
        const pf_claim *c = &f->claim[i];
        pf__text_addf(out, "| %s | %s | %s |", c->words, c->place,
                      !is_tested(c) ? "not run"
                      : is_held(c)  ? "yes"
                                    : "**no**");
        if (!is_tested(c)) {
            pf__text_add(out, " - |\n");
        } else {
            pf__text_addf(out, " %d of %d%s |\n", c->held, c->of,
                          c->close > 0 ? ", within noise" : "");
        }
    }
}

static const char how_counted[] =
    "A number agrees if our 95 % interval holds the paper's, or the paper's +- sd holds ours. "
    "Difference: median of |ours - paper| in the paper's sd, and of half our interval: a wide one "
    "agrees easily. Tau: Kendall's, of the order of the methods, mean over the cells with at least "
    "three. A claim within noise holds or fails by less than its 95 % interval.\n\n";

void pf__fidelity_md(const pf_fidelity *f, pf_text *out)
{
    pf_fidelity_sum all = pf__fidelity_sum(f, NULL);
    pf__text_addf(out,
                  "## fidelity: our numbers beside the paper's\n\nProfile %s%s%s. %d of %d numbers "
                  "agree, %d are produced. %s",
                  f->profile, f->settings ? ", settings " : "", f->settings ? f->settings : "",
                  all.agree, all.numbers, all.produced, how_counted);
    pf__text_add(
        out,
        "| table | predictor | numbers | produced | agree | difference (half-width) | tau (cells) "
        "| claims held |\n|---|---|---:|---:|---:|---:|---:|---:|\n");
    for (int i = 0; i < f->n; i++) {
        const char *suite = f->row[i].paper.suite;
        if (is_first(f, i)) {
            char predictor[80];
            describe(f, suite, predictor, sizeof predictor);
            add_sum(out, suite, predictor, pf__fidelity_sum(f, suite));
            pf__text_add(out, "\n");
        }
    }
    add_sum(out, "all", "", all);
    pf__text_add(out, "\n");
    add_claims(f, out);
}

void pf__readings_md(const pf_fidelity_reading *r, int n, const char *profile, const char *settings,
                     pf_text *out)
{
    pf__text_addf(out, "## fidelity by reading\n\nProfile %s%s%s. %s", profile,
                  settings ? ", settings " : "", settings ? settings : "", how_counted);
    pf__text_add(out, "| reading | numbers | produced | agree | difference (half-width) | "
                      "tau (cells) | claims held | before, on the same: agree, tau, claims |\n"
                      "|---|---:|---:|---:|---:|---:|---:|---:|\n");
    for (int i = 0; i < n; i++) {
        const pf_fidelity_sum *b = &r[i].before;
        add_sum(out, r[i].name, NULL, r[i].sum);
        pf__text_addf(out, " %d, %.2f, %d |\n", b->agree, b->tau, b->held);
    }
}

void pf__readings_csv(const pf_fidelity_reading *r, int n, const char *profile, pf_text *out)
{
    pf__text_add(out, "reading,numbers,produced,agree,difference,half_width,tau,cells,claims,held,"
                      "before_agree,before_tau,before_held,profile\n");
    for (int i = 0; i < n; i++) {
        const pf_fidelity_sum *s = &r[i].sum;
        pf__text_addf(out, "%s,%d,%d,%d", r[i].name, s->numbers, s->produced, s->agree);
        pf__csv_number_add(out, s->median);
        pf__csv_number_add(out, s->width);
        pf__csv_number_add(out, s->tau);
        pf__text_addf(out, ",%d,%d,%d,%d", s->cells, s->claims - s->unknown, s->held,
                      r[i].before.agree);
        pf__csv_number_add(out, r[i].before.tau);
        pf__text_addf(out, ",%d,%s\n", r[i].before.held, profile);
    }
}

// --- as a picture

static void add_bar(pf_text *script, const char *name, pf_fidelity_sum s)
{
    char label[160];
    snprintf(label, sizeof label, "%s, %d of %d", name, s.agree, s.numbers);
    pf__gnuplot_string(script, label);
    pf__text_addf(script, " %.6f %.6f\n", (double)s.agree / s.numbers,
                  (double)s.produced / s.numbers);
}

static void open_bars(pf_text *script, const char *picture, int n)
{
    pf__gnuplot_open(script, picture, 900, 120 + 34 * n);
    pf__text_add(script, "$bars << END\n");
}

static pf_status draw_bars(pf_text *script, const char *picture, int n, const char *what,
                           const volatile int *stop, pf_error *error)
{
    pf__text_addf(script,
                  "END\nset xrange [0:1]\nset yrange [-%d:0.6]\nset ytics () scale 0\n"
                  "set xlabel 'share of the %s'\nset grid xtics\n"
                  "set key outside top center horizontal\n"
                  "plot $bars using (column(3)/2):(-$0):(column(3)/2):(.36):yticlabels(strcol"
                  "(1)) with boxxyerror fs solid noborder lc rgb '#d8d8d8' title 'produced', "
                  "$bars using (column(2)/2):(-$0):(column(2)/2):(.36) with boxxyerror fs solid "
                  "noborder lc rgb '#D55E00' title 'agree with the paper'\n",
                  n, what);
    pf_status status = pf__gnuplot_draw(picture, script, stop, error);
    pf__text_free(script);
    return status;
}

pf_status pf__fidelity_draw(const pf_fidelity *f, const char *picture, const volatile int *stop,
                            pf_error *error)
{
    pf_text script = {0};
    int n = 0;
    for (int i = 0; i < f->n; i++) {
        n += is_first(f, i);
    }
    open_bars(&script, picture, n);
    for (int i = 0; i < f->n; i++) {
        const char *suite = f->row[i].paper.suite;
        if (is_first(f, i)) {
            char name[120];
            snprintf(name, sizeof name, "%s (%s)", suite, predictor_of(f, suite));
            add_bar(&script, name, pf__fidelity_sum(f, suite));
        }
    }
    return draw_bars(&script, picture, n, "numbers of a table", stop, error);
}

pf_status pf__readings_draw(const pf_fidelity_reading *r, int n, const char *picture,
                            const volatile int *stop, pf_error *error)
{
    pf_text script = {0};
    open_bars(&script, picture, n);
    for (int i = 0; i < n; i++) {
        add_bar(&script, r[i].name, r[i].sum);
    }
    return draw_bars(&script, picture, n, "numbers of the paper", stop, error);
}
