// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- a table of short texts, written as Markdown or LaTeX

enum { WORD = 72 };

typedef enum table_format { FORMAT_MD, FORMAT_TEX } table_format;

typedef struct text_cell {
    char word[WORD];
    bool bold;
} text_cell;

typedef struct text_table {
    int rows, columns; // without the header row and the label column
    text_cell *cell;   // (rows + 1) x (columns + 1), the first of each are labels; free it
    char caption[256];
} text_table;

static pf_status text_table_init(text_table *g, int rows, int columns, pf_error *error)
{
    *g = (text_table){.rows = rows, .columns = columns};
    g->cell = calloc(((size_t)rows + 1) * ((size_t)columns + 1), sizeof *g->cell);
    return g->cell ? PF_OK : pf_fail(error, PF_ERR_MEMORY, "out of memory for a table");
}

static text_cell *cell_at(const text_table *g, int row, int column)
{
    return &g->cell[(size_t)row * ((size_t)g->columns + 1) + (size_t)column];
}

// Sets a word; row and column 0 are labels.
#if defined(__GNUC__)
__attribute__((format(printf, 5, 6)))
#endif
static void
text_table_set(text_table *g, int row, int column, bool bold, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    pf__vprint(cell_at(g, row, column)->word, WORD, format, list);
    va_end(list);
    cell_at(g, row, column)->bold = bold;
}

// Markdown

// The bold part is what stands before the first space: the number without its interval.
static void md_word(const text_table *g, int row, int column, char out[WORD + 8])
{
    const char *word = cell_at(g, row, column)->word;
    int head = (int)strcspn(word, column ? " " : "");
    if (cell_at(g, row, column)->bold) {
        snprintf(out, WORD + 8, "**%.*s**%s", head, word, word + head);
    } else {
        snprintf(out, WORD + 8, "%s", word);
    }
}

static void write_md(const text_table *g, pf_text *out)
{
    char word[WORD + 8];
    pf__text_addf(out, "%s\n\n", g->caption);
    for (int row = 0; row <= g->rows; row++) {
        for (int column = 0; column <= g->columns; column++) {
            int width = 3;
            for (int r = 0; r <= g->rows; r++) {
                md_word(g, r, column, word);
                width = (int)strlen(word) > width ? (int)strlen(word) : width;
            }
            md_word(g, row, column, word);
            pf__text_addf(out, "| %-*s ", width, word);
        }
        pf__text_add(out, "|\n");
        for (int column = 0; row == 0 && column <= g->columns; column++) {
            pf__text_add(out, column ? "|---:" : "|---");
        }
        pf__text_add(out, row == 0 ? "|\n" : "");
    }
    pf__text_add(out, "\n");
}

// LaTeX

static void add_tex(pf_text *out, const char *s, size_t n)
{
    for (size_t i = 0; i < n && s[i]; i++) {
        if (strchr("_%&#$", s[i])) {
            pf__text_addf(out, "\\%c", s[i]);
        } else {
            pf__text_add_n(out, s + i, 1);
        }
    }
}

static void tex_word(const text_table *g, int row, int column, pf_text *out)
{
    const char *word = cell_at(g, row, column)->word;
    size_t head = strcspn(word, column ? " " : "");
    bool bold = cell_at(g, row, column)->bold;
    pf__text_add(out, bold ? "\\textbf{" : "");
    add_tex(out, word, head);
    pf__text_add(out, bold ? "}" : "");
    add_tex(out, word + head, strlen(word + head));
}

static void write_tex(const text_table *g, pf_text *out)
{
    pf__text_add(out, "\\begin{table}[ht]\n\\centering\n\\caption{");
    add_tex(out, g->caption, strlen(g->caption));
    pf__text_add(out, "}\n\\resizebox{\\linewidth}{!}{%\n\\begin{tabular}{l");
    for (int column = 0; column < g->columns; column++) {
        pf__text_add(out, "r");
    }
    pf__text_add(out, "}\n\\hline\n");
    for (int row = 0; row <= g->rows; row++) {
        for (int column = 0; column <= g->columns; column++) {
            pf__text_add(out, column ? " & " : "");
            tex_word(g, row, column, out);
        }
        pf__text_addf(out, " \\\\\n%s", row == 0 || row == g->rows ? "\\hline\n" : "");
    }
    pf__text_add(out, "\\end{tabular}}\n\\end{table}\n\n");
}

static void text_table_write(const text_table *g, table_format format, pf_text *out)
{
    if (format == FORMAT_TEX) {
        write_tex(g, out);
    } else {
        write_md(g, out);
    }
}

// A heading and a paragraph of the same document.
static void write_heading(const char *text, table_format format, pf_text *out)
{
    if (format == FORMAT_TEX) {
        pf__text_add(out, "\\subsection*{");
        add_tex(out, text, strlen(text));
        pf__text_add(out, "}\n\n");
    } else {
        pf__text_addf(out, "## %s\n\n", text);
    }
}

static void write_paragraph(const char *text, table_format format, pf_text *out)
{
    if (format == FORMAT_TEX) {
        add_tex(out, text, strlen(text));
    } else {
        pf__text_add(out, text);
    }
    pf__text_add(out, "\n\n");
}

// --- csv

void pf__csv_number_add(pf_text *out, double value)
{
    char text[32] = "";
    if (!isnan(value)) {
        pf__number_text(value, text);
    }
    pf__text_addf(out, ",%s", text);
}

void pf__table_csv(const pf_report *r, pf_text *out)
{
    pf__text_add(out,
                 "suite,environment,setting,metric,method,mean,sd,lo,hi,n,paper_mean,paper_sd\n");
    for (size_t i = 0; i < r->entries->n; i++) {
        const pf_entry *e = &r->entries->entry[i];
        const pf_paper_row *p =
            pf__paper_find(r->paper, r->suite, e->environment, e->setting, e->metric, e->method);
        pf__text_addf(out, "%s,%s,%s,%s,%s", r->suite, e->environment, e->setting, e->metric,
                      e->method);
        const double values[] = {e->mean, e->sd, e->lo, e->hi, e->n};
        for (int k = 0; k < 5; k++) {
            pf__csv_number_add(out, values[k]);
        }
        pf__csv_number_add(out, p ? p->mean : NAN);
        pf__csv_number_add(out, p ? p->sd : NAN);
        pf__text_add(out, "\n");
    }
}

// --- what is shown

// Whether the paper prints something of the suite at a setting; with a metric: whether it prints
// that for single environments.
static bool paper_has(const pf_report *r, const char *setting, const char *metric)
{
    for (int i = 0; i < r->paper->n; i++) {
        const pf_paper_row *p = &r->paper->row[i];
        bool single =
            strcmp(p->environment, PF_MACRO) != 0 && strcmp(p->environment, PF_MACRO_SHOWN) != 0;
        if (strcmp(p->suite, r->suite) == 0 && strcmp(p->setting, setting) == 0 &&
            (!metric || (single && strcmp(p->metric, metric) == 0))) {
            return true;
        }
    }
    return false;
}

const char *pf__report_setting(const pf_report *r)
{
    const pf_entries *e = r->entries;
    for (int i = 0; i < e->n_settings; i++) {
        if (paper_has(r, e->setting[i], NULL)) {
            return e->setting[i];
        }
    }
    return e->n_settings ? e->setting[e->n_settings - 1] : "";
}

// One environment at settings that are not averaged: these are what is compared.
static bool by_setting(const pf_report *r)
{
    const pf_entries *e = r->entries;
    return e->n_environments == 1 && e->n_raw_settings > 1 && e->n_settings == e->n_raw_settings;
}

// Environments in the order of columns: the paper's and their mean, then the others and the mean.
enum { MOST_COLUMNS = 130, CHUNK = 7 };

static int list_environments(const pf_report *r, const char **out)
{
    const char *shown[64];
    const pf_entries *e = r->entries;
    int n = 0, n_shown = pf__paper_shown(r->paper, r->suite, shown, 64);
    bool part = n_shown > 0 && n_shown < e->n_environments;
    for (int i = 0; part && i < n_shown; i++) {
        out[n++] = shown[i];
    }
    if (part) {
        out[n++] = PF_MACRO_SHOWN;
    }
    for (int i = 0; i < e->n_environments && n < MOST_COLUMNS - 1; i++) {
        bool listed = false;
        for (int k = 0; k < n; k++) {
            listed = listed || strcmp(out[k], e->environment[i]) == 0;
        }
        if (!listed) {
            out[n++] = e->environment[i];
        }
    }
    if (e->n_environments > 1) {
        out[n++] = PF_MACRO;
    }
    return n;
}

// --- one grid: methods in rows

typedef struct sheet {
    const pf_report *report;
    table_format format;
    pf_text *out;
    const char *environment[MOST_COLUMNS];
    int n_environments;
} sheet;

typedef struct column {
    const char *environment, *setting, *label;
} column;

static int digits(double value)
{
    return fabs(value) < 10 ? 3 : 1;
}

static void put_entry(text_table *g, int row, int at, bool bold, const pf_entry *e,
                      const pf_paper_row *paper)
{
    char beside[24] = "";
    int d = e ? digits(e->mean) : 3;
    if (paper) {
        pf__print(beside, sizeof beside, " (%.*f)", digits(paper->mean), paper->mean);
    }
    if (e && !isnan(e->lo)) {
        text_table_set(g, row, at, bold, "%.*f [%.*f, %.*f]%s", d, e->mean, d, e->lo, d, e->hi,
                       beside);
    } else if (e) {
        text_table_set(g, row, at, bold, "%.*f%s", d, e->mean, beside);
    } else {
        text_table_set(g, row, at, false, "-%s", beside);
    }
}

// Whether no method is better and one is worse: where all are alike none is best.
static bool is_best(const pf_entries *all, const column *c, const char *metric, const pf_entry *e)
{
    int direction = pf__metric_direction(metric);
    bool worse = false;
    for (int m = 0; e && direction && m < all->n_methods; m++) {
        const pf_entry *other =
            pf__entries_find(all, c->environment, c->setting, metric, all->method[m]);
        double ahead = other ? direction * (other->mean - e->mean) : 0;
        worse = worse || ahead < -1e-12;
        if (ahead > 1e-12) {
            return false;
        }
    }
    return worse;
}

// The paper's mean over environments is over those it shows, and goes beside ours over these.
static const pf_paper_row *paper_beside(const pf_report *r, const column *c, const char *metric,
                                        const char *method)
{
    bool other = strcmp(c->environment, PF_MACRO) == 0 &&
                 pf__entries_find(r->entries, PF_MACRO_SHOWN, c->setting, metric, method);
    return other ? NULL
                 : pf__paper_find(r->paper, r->suite, c->environment, c->setting, metric, method);
}

static pf_status write_methods(const sheet *s, const char *metric, const column *columns, int n,
                               const char *caption, bool difference, pf_error *error)
{
    const pf_entries *all = s->report->entries;
    text_table g;
    int row = 0;
    pf_status status = text_table_init(&g, all->n_methods - difference, n, error);
    if (status != PF_OK) {
        return status;
    }
    snprintf(g.caption, sizeof g.caption, "%s", caption);
    text_table_set(&g, 0, 0, false, "Method");
    for (int m = 0; m < all->n_methods; m++) {
        const char *method = all->method[m];
        if (difference && strcmp(method, PF_REFERENCE) == 0) {
            continue;
        }
        text_table_set(&g, ++row, 0, false, "%s", pf__label_method(method));
        for (int c = 0; c < n; c++) {
            const column *k = &columns[c];
            const pf_entry *e = pf__entries_find(all, k->environment, k->setting, metric, method);
            const pf_paper_row *p = paper_beside(s->report, k, metric, method);
            text_table_set(&g, 0, c + 1, false, "%s", k->label);
            put_entry(&g, row, c + 1, !difference && is_best(all, k, metric, e), e, p);
        }
    }
    text_table_write(&g, s->format, s->out);
    free(g.cell);
    return PF_OK;
}

static bool has_metric(const pf_entries *all, const char *metric)
{
    for (size_t i = 0; i < all->n; i++) {
        if (strcmp(all->entry[i].metric, metric) == 0) {
            return true;
        }
    }
    return false;
}

// A metric by environment, in pieces that fit a page.
static pf_status write_metric(const sheet *s, const char *metric, const char *setting,
                              const char *note, bool difference, pf_error *error)
{
    pf_status status = PF_OK;
    char name[64], caption[256];
    pf__label_metric(metric, name);
    if (difference) {
        name[strlen(name) - strlen(PF_DIFFERENCE)] = 0;
    }
    for (int first = 0; first < s->n_environments && status == PF_OK; first += CHUNK) {
        column columns[CHUNK];
        int n = 0;
        for (; n < CHUNK && first + n < s->n_environments; n++) {
            const char *e = s->environment[first + n];
            columns[n] = (column){e, setting, pf__label_environment(e)};
        }
        snprintf(caption, sizeof caption, "%s%s, %s", name, note, setting);
        status = write_methods(s, metric, columns, n, caption, difference, error);
    }
    return status;
}

// Pooled settings that the paper prints, where it prints several.
static int pooled_settings(const pf_report *r, const char **out, int most)
{
    const pf_entries *all = r->entries;
    int n = 0;
    for (int i = all->n_raw_settings; i < all->n_settings && n < most; i++) {
        if (paper_has(r, all->setting[i], NULL)) {
            out[n++] = all->setting[i];
        }
    }
    return n > 1 ? n : 0;
}

// The mean over environments (or the only one) by setting.
static pf_status write_settings(const sheet *s, const char *metric, const char *note,
                                bool difference, pf_error *error)
{
    const pf_entries *all = s->report->entries;
    pf_status status = PF_OK;
    char name[64], caption[256];
    const char *environment = all->n_environments > 1 ? PF_MACRO : all->environment[0];
    const char *pooled[CHUNK];
    int n_pooled = pooled_settings(s->report, pooled, CHUNK);
    int total = all->n_raw_settings + n_pooled;
    pf__label_metric(metric, name);
    for (int first = 0; first < total && status == PF_OK; first += CHUNK) {
        column columns[CHUNK];
        int n = 0;
        for (; n < CHUNK && first + n < total; n++) {
            int at = first + n;
            const char *setting = at < n_pooled ? pooled[at] : all->setting[at - n_pooled];
            columns[n] = (column){environment, setting, setting};
        }
        snprintf(caption, sizeof caption, "%s%s, %s, by setting", name, note,
                 pf__label_environment(environment));
        status = write_methods(s, metric, columns, n, caption, difference, error);
    }
    return status;
}

static const char *direction_note(const char *metric)
{
    int direction = pf__metric_direction(metric);
    return direction > 0 ? " (higher is better)" : direction < 0 ? " (lower is better)" : "";
}

static pf_status write_metrics(const sheet *s, const char *setting, pf_error *error)
{
    const pf_report *r = s->report;
    pf_status status = PF_OK;
    for (int i = 0; i < r->n_metrics && status == PF_OK; i++) {
        const char *metric = r->metrics[i];
        if (!by_setting(r)) {
            status = write_metric(s, metric, setting, direction_note(metric), false, error);
        }
        for (int k = 0; k < r->entries->n_raw_settings && status == PF_OK; k++) {
            const char *other = r->entries->setting[k];
            if (strcmp(other, setting) != 0 && paper_has(r, other, metric)) {
                status = write_metric(s, metric, other, direction_note(metric), false, error);
            }
        }
        if (status == PF_OK && r->entries->n_raw_settings > 1) {
            status = write_settings(s, metric, direction_note(metric), false, error);
        }
    }
    return status;
}

static pf_status write_differences(const sheet *s, const char *setting, pf_error *error)
{
    const pf_report *r = s->report;
    pf_status status = PF_OK;
    bool headed = false;
    for (int i = 0; i < r->n_metrics && status == PF_OK; i++) {
        char metric[80], note[96];
        snprintf(metric, sizeof metric, "%s" PF_DIFFERENCE, r->metrics[i]);
        if (!has_metric(r->entries, metric)) {
            continue;
        }
        if (!headed) {
            write_heading("Paired differences to EG-MPT", s->format, s->out);
            write_paragraph("Method minus EG-MPT on the same trials.", s->format, s->out);
            headed = true;
        }
        int direction = pf__metric_direction(r->metrics[i]);
        snprintf(note, sizeof note, ": method minus EG-MPT%s",
                 direction < 0   ? " (above zero EG-MPT is better)"
                 : direction > 0 ? " (below zero EG-MPT is better)"
                                 : "");
        status = write_metric(s, metric, setting, note, true, error);
    }
    return status;
}

static pf_status write_certificates(const sheet *s, const char *setting, pf_error *error)
{
    static const char *const metrics[][2] = {
        {"violation", ": deployed tasks that realise less than their bound"},
        {"violation_changed", ": the same on the changed task alone"},
        {"false_ready_share", ": deployed tasks that realise less than required"},
        {"false_ready_changed", ": the same on the changed task alone"},
        {"mute_share", ": readings of the fault in a category with ratio 1"}};
    pf_status status = PF_OK;
    char text[200];
    if (!has_metric(s->report->entries, metrics[0][0])) {
        return PF_OK;
    }
    write_heading("Certificates", s->format, s->out);
    pf__print(text, sizeof text,
              "Shares pooled within a seed, Clopper-Pearson intervals on the pooled counts; the "
              "certificate promises at most %g violations.",
              s->report->alpha);
    write_paragraph(text, s->format, s->out);
    for (int i = 0; i < 5 && status == PF_OK; i++) {
        if (has_metric(s->report->entries, metrics[i][0])) {
            status = write_metric(s, metrics[i][0], setting, metrics[i][1], false, error);
        }
    }
    return status;
}

// --- ranks and ladder: environments in rows

static pf_status write_ranks(const sheet *s, const char *setting, pf_error *error)
{
    static const char *const metrics[] = {"rank_compensation_error", "rank_worst_error",
                                          "rank_crps", "rank_probes", "rank_coverage"};
    const pf_report *r = s->report;
    text_table g;
    pf_status status = text_table_init(&g, s->n_environments, 5, error);
    if (status != PF_OK) {
        return status;
    }
    snprintf(g.caption, sizeof g.caption,
             "Rank of EG-MPT among the eight methods, %s: ours [95 %% interval] (the paper's)",
             setting);
    text_table_set(&g, 0, 0, false, "Plant");
    for (int k = 0; k < 5; k++) {
        char name[64];
        pf__label_metric(metrics[k] + strlen("rank_"), name);
        text_table_set(&g, 0, k + 1, false, "%s", name);
        for (int i = 0; i < s->n_environments; i++) {
            const char *environment = s->environment[i];
            const pf_entry *e =
                pf__entries_find(r->entries, environment, setting, metrics[k], PF_REFERENCE);
            const pf_paper_row *p =
                pf__paper_find(r->paper, r->suite, environment, setting, metrics[k], PF_REFERENCE);
            char beside[24] = "";
            if (p) {
                pf__print(beside, sizeof beside, " (%.0f)", p->mean);
            }
            text_table_set(&g, i + 1, 0, false, "%s", pf__label_environment(environment));
            bool mean = strcmp(environment, PF_MACRO) == 0;
            if (e) {
                text_table_set(&g, i + 1, k + 1, e->mean == 1, "%.*f [%.*f, %.*f]%s", mean ? 1 : 0,
                               e->mean, mean ? 1 : 0, e->lo, mean ? 1 : 0, e->hi, beside);
            } else {
                text_table_set(&g, i + 1, k + 1, false, "-%s", beside);
            }
        }
    }
    text_table_write(&g, s->format, s->out);
    free(g.cell);
    return PF_OK;
}

static pf_status write_removal(const sheet *s, const char *metric, const char *setting,
                               pf_error *error)
{
    const pf_report *r = s->report;
    const pf_entries *all = r->entries;
    text_table g;
    char name[64], difference[80];
    int at = 0;
    pf_status status = text_table_init(&g, s->n_environments, all->n_methods - 1, error);
    if (status != PF_OK) {
        return status;
    }
    pf__label_metric(metric, name);
    snprintf(difference, sizeof difference, "%s" PF_DIFFERENCE, metric);
    snprintf(g.caption, sizeof g.caption, "Removal cost, %s, %s: rung minus full; %s", name,
             setting,
             pf__metric_direction(metric) > 0 ? "below zero the removed part helps"
                                              : "above zero the removed part helps");
    text_table_set(&g, 0, 0, false, "Plant");
    for (int m = 0; m < all->n_methods; m++) {
        if (strcmp(all->method[m], PF_REFERENCE) == 0) {
            continue;
        }
        const char *label = pf__label_method(all->method[m]), *comma = strstr(label, ", ");
        text_table_set(&g, 0, ++at, false, "%s", comma ? comma + 2 : label);
        for (int i = 0; i < s->n_environments; i++) {
            // the overall row first
            const char *environment =
                s->environment[(i + s->n_environments - 1) % s->n_environments];
            const pf_entry *e =
                pf__entries_find(all, environment, setting, difference, all->method[m]);
            text_table_set(&g, i + 1, 0, false, "%s", pf__label_environment(environment));
            put_entry(&g, i + 1, at, false, e, NULL);
        }
    }
    text_table_write(&g, s->format, s->out);
    free(g.cell);
    return PF_OK;
}

static pf_status write_ladder(const sheet *s, const char *setting, pf_error *error)
{
    pf_status status = PF_OK;
    for (int i = 0; i < s->report->n_metrics && status == PF_OK; i++) {
        status = write_removal(s, s->report->metrics[i], setting, error);
    }
    return status;
}

// --- settings in rows

// The environment where a method is worst at a metric; NULL: none has it.
static const pf_entry *worst_of(const pf_entries *all, const char *setting, const char *metric,
                                const char *method)
{
    const pf_entry *worst = NULL;
    for (int i = 0; i < all->n_environments; i++) {
        const pf_entry *e = pf__entries_find(all, all->environment[i], setting, metric, method);
        int direction = pf__metric_direction(metric);
        if (e && (!worst || direction * (worst->mean - e->mean) > 1e-12)) {
            worst = e;
        }
    }
    return worst;
}

// A metric: the mean over environments of every method, and where the first one is worst.
static pf_status write_by_setting(const sheet *s, const char *metric, pf_error *error)
{
    const pf_entries *all = s->report->entries;
    const char *mean = all->n_environments > 1 ? PF_MACRO : all->environment[0];
    bool worst = all->n_environments > 1 && pf__metric_direction(metric);
    text_table g;
    pf_status status = text_table_init(&g, all->n_raw_settings, all->n_methods + worst, error);
    if (status != PF_OK) {
        return status;
    }
    char name[64];
    pf__label_metric(metric, name);
    snprintf(g.caption, sizeof g.caption, "%s%s, %s", name, direction_note(metric),
             all->n_environments > 1 ? "mean of the plants" : all->environment[0]);
    text_table_set(&g, 0, 0, false, "Setting");
    for (int m = 0; m < all->n_methods; m++) {
        text_table_set(&g, 0, m + 1, false, "%s", pf__label_method(all->method[m]));
    }
    if (worst) {
        text_table_set(&g, 0, all->n_methods + 1, false, "%s is worst", all->method[0]);
    }
    for (int i = 0; i < all->n_raw_settings; i++) {
        const column c = {mean, all->setting[i], NULL};
        text_table_set(&g, i + 1, 0, false, "%s", all->setting[i]);
        for (int m = 0; m < all->n_methods; m++) {
            const pf_entry *e =
                pf__entries_find(all, mean, all->setting[i], metric, all->method[m]);
            put_entry(&g, i + 1, m + 1, is_best(all, &c, metric, e), e, NULL);
        }
        const pf_entry *e = worst ? worst_of(all, all->setting[i], metric, all->method[0]) : NULL;
        const pf_entry *all_plants =
            pf__entries_find(all, mean, all->setting[i], metric, all->method[0]);
        if (e && all_plants && fabs(e->mean - all_plants->mean) > 1e-12) {
            text_table_set(&g, i + 1, all->n_methods + 1, false, "%.3f [%.3f, %.3f] %s", e->mean,
                           e->lo, e->hi, pf__label_environment(e->environment));
        }
    }
    text_table_write(&g, s->format, s->out);
    free(g.cell);
    return PF_OK;
}

// --- a document

static void write_head(const sheet *s)
{
    const pf_report *r = s->report;
    char text[600];
    snprintf(text, sizeof text, "%s: %s", r->suite, r->title);
    write_heading(text, s->format, s->out);
    snprintf(
        text, sizeof text,
        "Profile %s, config %s. Mean of seed means [95 %% interval] (the paper's number); bold "
        "is best.%s",
        r->profile, r->hash,
        has_metric(r->entries, "compensation_error") && s->n_environments > 2 &&
                pf__entries_find(r->entries, PF_MACRO_SHOWN, pf__report_setting(r),
                                 "compensation_error", PF_REFERENCE)
            ? " The paper's mean is over the plants it shows: compare it with 'Mean of "
              "these'."
            : "");
    write_paragraph(text, s->format, s->out);
    if (r->settings) {
        pf_text set = {0};
        pf__text_addf(&set, "Settings other than the suite's: %s.", r->settings);
        write_paragraph(set.data ? set.data : "", s->format, s->out);
        s->out->failed = s->out->failed || set.failed;
        pf__text_free(&set);
    }
}

static void write_foot(const sheet *s)
{
    const pf_report *r = s->report;
    char text[200];
    if (r->done < r->total) {
        snprintf(text, sizeof text,
                 "%lld of %lld trials are done, %lld failed: the numbers above are without the "
                 "rest.",
                 (long long)r->done, (long long)r->total, (long long)r->failed);
        write_paragraph(text, s->format, s->out);
    }
}

static pf_status write_grids(const sheet *s, pf_error *error)
{
    const char *setting = pf__report_setting(s->report);
    if (strcmp(s->report->table, "ranks") == 0) {
        return write_ranks(s, setting, error);
    }
    if (strcmp(s->report->table, "settings") == 0) {
        pf_status status = PF_OK;
        for (int i = 0; i < s->report->n_metrics && status == PF_OK; i++) {
            status = write_by_setting(s, s->report->metrics[i], error);
        }
        return status;
    }
    bool ladder = strcmp(s->report->table, "ladder") == 0;
    pf_status status = ladder ? write_ladder(s, setting, error) : PF_OK;
    status = status ? status : write_metrics(s, setting, error);
    if (status == PF_OK && !ladder) {
        status = write_differences(s, setting, error);
    }
    status = status ? status : write_certificates(s, setting, error);
    return status;
}

pf_status pf__table_text(const pf_report *r, const char *format, pf_text *out, pf_error *error)
{
    sheet s = {.report = r, .out = out};
    s.format = strcmp(format, "tex") == 0 ? FORMAT_TEX : FORMAT_MD;
    s.n_environments = list_environments(r, s.environment);
    write_head(&s);
    pf_status status = write_grids(&s, error);
    if (status == PF_OK) {
        write_foot(&s);
    }
    return status;
}
