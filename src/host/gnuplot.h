// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_GNUPLOT_H
#define PF_GNUPLOT_H

#include "text.h"

// Adds a text in double quotes, for a script and for a data file alike. What gnuplot would act on
// (quotes, backquotes, backslashes, macros, line ends) is written in octal, so no text is ever a
// command.
void pf__gnuplot_string(pf_text *out, const char *text);

// Runs gnuplot on a script of that name in a folder and writes the picture of that name, .svg or
// .png, beside it. The script finds the ending in TO and draws to standard output; run by hand it
// has no TO and writes files. Where gnuplot is not installed, PF_ERR_UNSUPPORTED says how to do
// that. stop (Nullable) ends the wait for it.
pf_status pf__gnuplot(const char *folder, const char *script, const char *picture,
                      const volatile int *stop, pf_error *error);

// Adds the commands that open a picture of that path, .svg or .png, when run in its folder. They
// define tic(text), through which a label of `set xtics` or `set ytics` must go: it is a format.
void pf__gnuplot_open(pf_text *script, const char *picture, int width, int height);
// Writes the script of a picture beside it, as PICTURE.gp, and runs it there.
pf_status pf__gnuplot_draw(const char *picture, const pf_text *script, const volatile int *stop,
                           pf_error *error);

#endif
