// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_PAPER_H
#define PF_PAPER_H

#include "preflight/base.h"

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

// Environments that the paper shows of a suite, averages left out; how many there are.
int pf__paper_shown(const pf_paper *paper, const char *suite, const char **names, int most);

#endif
