// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_GNUPLOT_H
#define PF_GNUPLOT_H

#include "text.h"

// Runs gnuplot on a script of that name in a folder. Where it is not installed, PF_ERR_UNSUPPORTED
// says how to run it by hand.
pf_status pf_gnuplot(const char *folder, const char *script, pf_error *error);

// Writes the script of a picture beside it, as PICTURE.gp, and runs it there.
pf_status pf_gnuplot_draw(const char *picture, const pf_text *script, pf_error *error);

#endif
