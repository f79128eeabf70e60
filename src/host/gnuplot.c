// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "gnuplot.h"

#include "child.h"
#include "file.h"

#include <string.h>

void pf__gnuplot_string(pf_text *out, const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                " _-+.,:;=/()[]<>";
    pf__text_add(out, "\"");
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        // bytes above 127 are parts of UTF-8 characters
        if (*c > 127 || strchr(plain, *c)) {
            pf__text_add_n(out, (const char *)c, 1);
        } else {
            pf__text_addf(out, "\\%03o", *c);
        }
    }
    pf__text_add(out, "\"");
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_png(const char *picture)
{
    const char *ending = strrchr(picture, '.');
    return ending && strcmp(ending, ".png") == 0;
}

// The picture as gnuplot writes it to its standard output, as pf__child_run.
static int draw(const char *folder, const char *script, const char *to, const volatile int *stop,
                pf_text *picture)
{
    pf_text path = {0}; // a file even if its name begins like an option
    pf__text_addf(&path, "./%s", script);
    // without the user's own settings
    const char *const arguments[] = {"gnuplot", "-d", "-e", to, path.data, NULL};
    const pf_child child = {.arguments = arguments, .folder = folder, .stop = stop};
    int code = path.failed ? PF_CHILD_FAILED : pf__child_run(&child, picture);
    pf__text_free(&path);
    return code;
}

pf_status pf__gnuplot(const char *folder, const char *script, const char *picture,
                      const volatile int *stop, pf_error *error)
{
    pf_text drawn = {0}, path = {0};
    pf__text_addf(&path, "%s/%s", folder, picture);
    int code = draw(folder, script, is_png(picture) ? "TO = 'png'" : "TO = 'svg'", stop, &drawn);
    pf_status status = PF_OK;
    if (code == PF_CHILD_MISSING) {
        status = pf_fail(error, PF_ERR_UNSUPPORTED,
                         "gnuplot is not installed (package gnuplot-nox); data and script are in "
                         "%s: run `gnuplot %s` there",
                         folder, script);
    } else if (code == PF_CHILD_STOPPED) {
        status = pf_fail(error, PF_ERR_INTERRUPTED, "interrupted in a plot");
    } else if (drawn.failed || path.failed) {
        status = pf_fail(error, PF_ERR_MEMORY, "out of memory for the plot");
    } else if (code != 0 || drawn.size == 0) {
        status = pf_fail(error, PF_ERR_FILE, "gnuplot failed on %s/%s", folder, script);
    } else {
        status = pf__file_write(path.data, drawn.data, drawn.size, error);
    }
    pf__text_free(&drawn);
    pf__text_free(&path);
    return status;
}

void pf__gnuplot_open(pf_text *script, const char *picture, int width, int height)
{
    pf__text_addf(script,
                  "set encoding utf8\nset terminal %s noenhanced size %d,%d font 'DejaVu Sans,12' "
                  "background '#ffffff'\nif (!exists('TO')) set output './'.",
                  is_png(picture) ? "pngcairo" : "svg", width, height);
    pf__gnuplot_string(script, base_name(picture));
    pf__text_add(script, "\nset border 3 lc rgb '#606060'\nset tics nomirror\n"
                         "set grid back lt 1 lw 0.6 lc rgb '#d8d8d8'\n"
                         // the label of a tic is a format
                         "tic(text) = strstrt(text, '%') == 0 ? text : text[1:strstrt(text, '%')]"
                         ".'%'.tic(text[strstrt(text, '%') + 1:*])\n");
}

pf_status pf__gnuplot_draw(const char *picture, const pf_text *script, const volatile int *stop,
                           pf_error *error)
{
    pf_text name = {0}, folder = {0};
    pf__text_addf(&name, "%s.gp", picture);
    pf__text_addf(&folder, "%.*s.", (int)(base_name(picture) - picture), picture);
    pf_status status = script->failed || name.failed || folder.failed
                           ? pf_fail(error, PF_ERR_MEMORY, "out of memory for the plot")
                           : pf__file_write(name.data, script->data, script->size, error);
    status = status
                 ? status
                 : pf__gnuplot(folder.data, base_name(name.data), base_name(picture), stop, error);
    pf__text_free(&name);
    pf__text_free(&folder);
    return status;
}
