// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#define _XOPEN_SOURCE 700
#include "report.h"

#include "host/file.h"
#include "host/gnuplot.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// --- the data: a block of names, then a block of numbers per metric; suites/figures/common.gp
// reads them

static void add_name(pf_text *out, const char *what, const char *id, const char *label)
{
    pf__gnuplot_string(out, what);
    pf__text_add(out, " ");
    pf__gnuplot_string(out, id);
    pf__text_add(out, " ");
    pf__gnuplot_string(out, label);
    pf__text_add(out, "\n");
}

static void add_names(pf_text *out, const pf_report *r)
{
    const pf_entries *all = r->entries;
    char g_cal[32];
    pf__number_text(r->g_cal, g_cal);
    pf__text_add(out, "# what id label\n");
    add_name(out, "suite", r->suite, r->title);
    add_name(out, "profile", r->profile, r->hash);
    add_name(out, "g_cal", g_cal, "calibration gain");
    add_name(out, "at", pf__report_setting(r), "the setting shown");
    for (int i = 0; i < all->n_methods; i++) {
        if (strcmp(all->method[i], PF_BEST_BASELINE) != 0) { // it is one of the others
            add_name(out, "method", all->method[i], pf__label_method(all->method[i]));
        }
    }
    for (int i = 0; i < all->n_environments; i++) {
        add_name(out, "environment", all->environment[i],
                 pf__label_environment(all->environment[i]));
    }
    for (size_t i = 0; i < all->n; i++) {
        if (strcmp(all->entry[i].environment, PF_MACRO_SHOWN) == 0) {
            add_name(out, "paper_mean", PF_MACRO_SHOWN, "Mean of the paper's");
            break;
        }
    }
    for (int i = 0; i < all->n_settings; i++) {
        add_name(out, i < all->n_raw_settings ? "run" : "pooled", all->setting[i], all->setting[i]);
    }
    for (int i = 0; i < r->n_metrics; i++) {
        add_name(out, "shown", r->metrics[i], r->metrics[i]);
    }
}

static void add_value(pf_text *out, double value)
{
    char text[32] = "NaN";
    if (!isnan(value)) {
        pf__number_text(value, text);
    }
    pf__text_addf(out, " %s", text);
}

static void add_entry(pf_text *out, const pf_report *r, const pf_entry *e)
{
    const pf_paper_row *paper =
        pf__paper_find(r->paper, r->suite, e->environment, e->setting, e->metric, e->method);
    const double values[] = {e->mean, e->sd, e->lo, e->hi, paper ? paper->mean : NAN};
    pf__gnuplot_string(out, e->environment);
    pf__text_add(out, " ");
    pf__gnuplot_string(out, e->setting);
    pf__text_add(out, " ");
    pf__gnuplot_string(out, e->method);
    for (int k = 0; k < 5; k++) {
        add_value(out, values[k]);
    }
    pf__text_add(out, "\n");
}

// Whether it is the first entry of its metric; names are kept once.
static bool is_first(const pf_entries *all, size_t i)
{
    for (size_t k = 0; k < i; k++) {
        if (all->entry[k].metric == all->entry[i].metric) {
            return false;
        }
    }
    return true;
}

static void add_data(pf_text *out, const pf_report *r)
{
    const pf_entries *all = r->entries;
    pf_text blocks = {0};
    add_names(out, r);
    for (size_t i = 0; i < all->n; i++) {
        if (!is_first(all, i)) {
            continue;
        }
        char label[64];
        const char *metric = all->entry[i].metric;
        pf__label_metric(metric, label);
        add_name(out, "metric", metric, label);
        pf__text_add(&blocks, "\n\n# environment setting method mean sd lo hi paper: ");
        pf__gnuplot_string(&blocks, metric);
        pf__text_add(&blocks, "\n");
        for (size_t k = i; k < all->n; k++) {
            if (all->entry[k].metric == metric) {
                add_entry(&blocks, r, &all->entry[k]);
            }
        }
    }
    pf__text_join(out, &blocks);
    out->failed = out->failed || blocks.failed;
    pf__text_free(&blocks);
}

// --- the script

static pf_status add_script(pf_text *out, const pf_report *r, const pf_figure *f, pf_error *error)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/%s.gp", f->templates, f->name);
    if (strspn(f->name, "abcdefghijklmnopqrstuvwxyz0123456789-_") != strlen(f->name) ||
        n >= (int)sizeof path || access(path, R_OK) != 0) {
        return pf_fail(error, PF_ERR_FILE, "%s: figure: there is no template '%s' in %s", r->suite,
                       f->name, f->templates);
    }
    char *folder = realpath(f->templates, NULL); // the script runs in another one
    if (!folder) {
        return pf_fail(error, PF_ERR_FILE, "%s: %s", f->templates, strerror(errno));
    }
    pf__text_add(out,
                 "# draws the pictures below from the data; run it in this folder\nFIGURES = ");
    pf__gnuplot_string(out, folder);
    pf__text_add(out, "\nPICTURE = './'.");
    pf__gnuplot_string(out, f->file);
    pf__text_addf(out,
                  "\nDATA = PICTURE.'.dat'\n"
                  "do for [ENDING in exists('TO') ? TO : 'svg png'] { load FIGURES.'/%s.gp' }\n",
                  f->name);
    free(folder);
    return PF_OK;
}

// --- both

static pf_status write_file(const char *folder, const char *file, const char *ending,
                            const pf_text *text, pf_error *error)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/%s.%s", folder, file, ending);
    if (text->failed || n >= (int)sizeof path) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a figure");
    }
    return pf__file_write(path, text->data ? text->data : "", text->size, error);
}

pf_status pf__figure_write(const pf_report *r, const pf_figure *figure, const char *folder,
                           pf_error *error)
{
    pf_text data = {0}, script = {0};
    if (!pf__file_name_fits(figure->file)) {
        return pf_fail(error, PF_ERR_FORMAT,
                       "%s: id: a figure's file cannot have a '/' or a control character in its "
                       "name, nor '.' or '-' at its beginning",
                       r->suite);
    }
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        return pf_fail(error, PF_ERR_FILE, "%s: the folder cannot be made: %s", folder,
                       strerror(errno));
    }
    pf_status status = add_script(&script, r, figure, error);
    add_data(&data, r);
    status = status ? status : write_file(folder, figure->file, "dat", &data, error);
    status = status ? status : write_file(folder, figure->file, "gp", &script, error);
    static const char *const endings[] = {"svg", "png"};
    for (int i = 0; i < 2 && status == PF_OK; i++) {
        char name[300], picture[300];
        snprintf(name, sizeof name, "%s.gp", figure->file);
        snprintf(picture, sizeof picture, "%s.%s", figure->file, endings[i]);
        status = pf__gnuplot(folder, name, picture, figure->stop, error);
    }
    pf__text_free(&data);
    pf__text_free(&script);
    return status;
}
