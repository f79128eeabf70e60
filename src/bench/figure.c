// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "figure.h"

#include "host/file.h"
#include "host/gnuplot.h"
#include "figure_impl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void pf_figure_text(const pf_report *r, pf_text *data, pf_text *script)
{
    static const char common[] = "set datafile missing '?'\nset border 3 lc rgb '#606060'\n"
                                 "set tics nomirror\nset pointintervalbox 0\n"
                                 "set grid back lt 1 lw 0.6 lc rgb '#d8d8d8'\n";
    pf__drawing d = {.report = r, .data = data, .width = 900, .height = 600};
    pf_text_addf(data, "# %s, profile %s, config %s\n", r->suite, r->profile, r->hash);
    if (strcmp(r->table, "ranks") == 0) {
        pf__figure_ranks(&d);
    } else if (strcmp(r->suite, "per-family") == 0) {
        pf__figure_families(&d);
    } else if (strcmp(r->table, "ladder") == 0) {
        pf__figure_ladder(&d);
    } else if (strcmp(r->suite, "mechanism") == 0) {
        pf__figure_mechanism(&d);
    } else if (strcmp(r->suite, "budget-curves") == 0 || strcmp(r->suite, "budget") == 0) {
        pf__figure_budgets(&d);
    } else if (strcmp(r->suite, "deadline") == 0) {
        pf__figure_deadline(&d);
    } else if (strcmp(r->suite, "sensitivity") == 0) {
        pf__figure_sensitivity(&d);
    } else if (strcmp(r->suite, "coordinate") == 0) {
        pf__figure_coordinate(&d);
    } else if (pf__figure_gains(r->entries) > 3) {
        pf__figure_severity(&d);
    } else {
        pf__figure_bars(&d);
    }
    pf_text_addf(script,
                 "# gnuplot %s.gp draws %s.svg and %s.png from %s.dat\nFILE = '%s.dat'\n"
                 "%s",
                 r->suite, r->suite, r->suite, r->suite, r->suite, common);
    pf_text_addf(
        script,
        "set terminal svg size %d,%d font 'DejaVu Sans,13' background '#ffffff'\nset output "
        "'%s.svg'\n%sset output\n",
        d.width, d.height, r->suite, d.body.data ? d.body.data : "");
    pf_text_addf(script,
                 "reset\n%sset terminal pngcairo size %d,%d font 'DejaVu Sans,13' background "
                 "'#ffffff'\nset output '%s.png'\n%sset output\n",
                 common, d.width, d.height, r->suite, d.body.data ? d.body.data : "");
    script->failed = script->failed || d.body.failed;
    pf_text_free(&d.body);
}

static pf_status write_file(const char *folder, const char *suite, const char *ending,
                            const pf_text *text, pf_error *error)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/%s.%s", folder, suite, ending);
    if (text->failed || n >= (int)sizeof path) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a figure");
    }
    return pf_file_write(path, text->data ? text->data : "", text->size, error);
}

pf_status pf_figure_write(const pf_report *r, const char *folder, pf_error *error)
{
    pf_text data = {0}, script = {0};
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        return pf_fail(error, PF_ERR_FILE, "%s: the folder cannot be made: %s", folder,
                       strerror(errno));
    }
    pf_figure_text(r, &data, &script);
    pf_status status = write_file(folder, r->suite, "dat", &data, error);
    if (status == PF_OK) {
        status = write_file(folder, r->suite, "gp", &script, error);
    }
    if (status == PF_OK) {
        char name[128];
        snprintf(name, sizeof name, "%s.gp", r->suite);
        status = pf_gnuplot(folder, name, error);
    }
    pf_text_free(&data);
    pf_text_free(&script);
    return status;
}
