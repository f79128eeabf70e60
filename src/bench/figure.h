// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_FIGURE_H
#define PF_FIGURE_H

#include "table.h"

// How a suite is drawn: TEMPLATES/NAME.gp, a gnuplot script.
typedef struct pf_figure {
    const char *templates; // the folder
    const char *name;      // what the suite's `figure:` says
} pf_figure;

// Writes SUITE.dat (names and numbers), SUITE.gp (which loads the template) and, through gnuplot,
// SUITE.svg and SUITE.png into a folder, which is made if it is not there. Without gnuplot the
// first two are written and PF_ERR_UNSUPPORTED says what to install.
pf_status pf__figure_write(const pf_report *report, const pf_figure *figure, const char *folder,
                           pf_error *error);

#endif
