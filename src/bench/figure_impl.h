// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_FIGURE_IMPL_H
#define PF_FIGURE_IMPL_H

#include "figure.h"

// What a figure is drawn from: blocks of numbers in the data file, plot commands in the body.
typedef struct pf__drawing {
    const pf_report *report;
    pf_text *data;
    pf_text body;
    int block; // next index in the data file
    int width, height;
} pf__drawing;

void pf__figure_bars(pf__drawing *d);     // methods by environment
void pf__figure_severity(pf__drawing *d); // four panels over the true gain
void pf__figure_ladder(pf__drawing *d);   // removal costs, mean over environments
void pf__figure_families(pf__drawing *d); // removal costs by environment
void pf__figure_ranks(pf__drawing *d);    // ranks of the reference as a map

void pf__figure_mechanism(pf__drawing *d); // efficiency by knob, bits over the noise

void pf__figure_budgets(pf__drawing *d);
void pf__figure_deadline(pf__drawing *d);
void pf__figure_sensitivity(pf__drawing *d); // regret and CRPS over the recovery budget
void pf__figure_coordinate(pf__drawing *d);  // realised coordinate over the true gain

const char *pf__figure_colour(const char *method);
// How many true gains were run.
int pf__figure_gains(const pf_entries *entries);

#endif
