// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_REPORT_H
#define PF_REPORT_H

#include "host/text.h"
#include "stats.h"

// The paper's numbers under our names. data/paper_numbers.csv has them as printed;
// data/paper_map.csv says, for every row, which entry of which suite it is and by which factor to
// multiply (.01 for percentages).

enum { PF_PAPER_WORD = 48 };

typedef struct pf_paper_row {
    char suite[PF_PAPER_WORD], environment[PF_PAPER_WORD], setting[PF_PAPER_WORD];
    char metric[PF_PAPER_WORD], method[PF_PAPER_WORD];
    double mean, sd; // sd NaN: not printed
} pf_paper_row;

typedef struct pf_paper {
    pf_paper_row *row;
    int n;
    int n_numbers; // rows of paper_numbers.csv, all of them mapped
} pf_paper;

// Reads both files of a folder. A number without a mapping, a mapping without a number, a row
// twice: refused with file and line.
pf_status pf__paper_load(pf_paper *paper, const char *folder, pf_error *error);
void pf__paper_free(pf_paper *paper);

// NULL: the paper does not have it.
const pf_paper_row *pf__paper_find(const pf_paper *paper, const char *suite,
                                   const char *environment, const char *setting, const char *metric,
                                   const char *method);

// Adds the best of the baselines as a method of its own wherever the paper prints that instead of
// each of them.
#define PF_BEST_BASELINE "best-baseline"
pf_status pf__paper_best(const pf_paper *paper, const char *suite, pf_entries *entries,
                         pf_error *error);

// Environments that the paper shows of a suite, averages left out; how many there are.
int pf__paper_shown(const pf_paper *paper, const char *suite, const char **names, int most);

// What a table or a figure of a suite is made of.
typedef struct pf_report {
    const char *suite, *title;
    const char *table; // "metrics", "ranks", "ladder" or "settings"
    const char *profile, *hash;
    const char *settings;        // what was set otherwise than in the suite. Nullable.
    int64_t done, failed, total; // trials; fewer done than there are is said below a table
    const char *const *metrics;  // shown first
    int n_metrics;
    double alpha, g_cal;
    const pf_entries *entries;
    const pf_paper *paper;
} pf_report;

// Adds a comma and a number, nothing behind it where it is NaN.
void pf__csv_number_add(pf_text *out, double value);

// suite,environment,setting,metric,method,mean,sd,lo,hi,n,paper_mean,paper_sd; every entry; a value
// that is not defined is empty.
void pf__table_csv(const pf_report *report, pf_text *out);

// For reading: format is "md" or "tex".
pf_status pf__table_text(const pf_report *report, const char *format, pf_text *out,
                         pf_error *error);

// The setting a table or figure shows first: the one that the paper prints, else the most pooled.
const char *pf__report_setting(const pf_report *report);

// How a suite is drawn: TEMPLATES/NAME.gp, a gnuplot script.
typedef struct pf_figure {
    const char *templates;    // the folder
    const char *name;         // what the suite's `figure:` says
    const char *file;         // what the files are called, without an ending
    const volatile int *stop; // ends the wait for gnuplot. Nullable.
} pf_figure;

// Writes FILE.dat (names and numbers), FILE.gp (which loads the template) and, through gnuplot,
// FILE.svg and FILE.png into a folder, which is made if it is not there. Without gnuplot the
// first two are written and PF_ERR_UNSUPPORTED says what to install.
pf_status pf__figure_write(const pf_report *report, const pf_figure *figure, const char *folder,
                           pf_error *error);

#endif
