// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_FIGURE_H
#define PF_FIGURE_H

#include "table.h"

// Writes SUITE.dat, SUITE.gp and, through gnuplot, SUITE.svg and SUITE.png into a folder, which is
// made if it is not there. Without gnuplot the first two are written and PF_ERR_UNSUPPORTED says
// what to install.
pf_status pf_figure_write(const pf_report *report, const char *folder, pf_error *error);

// The data and the script alone, for tests.
void pf_figure_text(const pf_report *report, pf_text *data, pf_text *script);

#endif
