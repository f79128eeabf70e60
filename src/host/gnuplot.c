// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "gnuplot.h"

#include "file.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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

pf_status pf__gnuplot(const char *folder, const char *script, pf_error *error)
{
    enum { NOT_FOUND = 127, NO_FOLDER = 126 };
    int code = 0;
    pf_text path = {0}; // a file even if its name begins like an option
    pf__text_addf(&path, "./%s", script);
    if (path.failed) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for the plot");
    }
    pid_t child = fork();
    if (child == 0) {
        if (chdir(folder) != 0) {
            _exit(NO_FOLDER);
        }
        // without the user's own settings
        execlp("gnuplot", "gnuplot", "-d", path.data, (char *)NULL);
        _exit(NOT_FOUND);
    }
    while (child > 0 && waitpid(child, &code, 0) < 0 && errno == EINTR) {
    }
    pf__text_free(&path);
    if (child > 0 && WIFEXITED(code) && WEXITSTATUS(code) == 0) {
        return PF_OK;
    }
    if (child > 0 && WIFEXITED(code) && WEXITSTATUS(code) == NOT_FOUND) {
        return pf_fail(error, PF_ERR_UNSUPPORTED,
                       "gnuplot is not installed (package gnuplot-nox); data and script are in %s: "
                       "run `gnuplot %s` there",
                       folder, script);
    }
    return pf_fail(error, PF_ERR_FILE, "gnuplot failed on %s/%s", folder, script);
}

void pf__gnuplot_open(pf_text *script, const char *picture, int width, int height)
{
    const char *ending = strrchr(picture, '.');
    bool png = ending && strcmp(ending, ".png") == 0;
    pf__text_addf(script,
                  "set encoding utf8\nset terminal %s noenhanced size %d,%d font 'DejaVu Sans,12' "
                  "background '#ffffff'\nset output './'.",
                  png ? "pngcairo" : "svg", width, height);
    pf__gnuplot_string(script, base_name(picture));
    pf__text_add(script, "\nset border 3 lc rgb '#606060'\nset tics nomirror\n"
                         "set grid back lt 1 lw 0.6 lc rgb '#d8d8d8'\n"
                         // the label of a tic is a format
                         "tic(text) = strstrt(text, '%') == 0 ? text : text[1:strstrt(text, '%')]"
                         ".'%'.tic(text[strstrt(text, '%') + 1:*])\n");
}

pf_status pf__gnuplot_draw(const char *picture, const pf_text *script, pf_error *error)
{
    pf_text name = {0}, folder = {0};
    pf__text_addf(&name, "%s.gp", picture);
    pf__text_addf(&folder, "%.*s.", (int)(base_name(picture) - picture), picture);
    pf_status status = script->failed || name.failed || folder.failed
                           ? pf_fail(error, PF_ERR_MEMORY, "out of memory for the plot")
                           : pf__file_write(name.data, script->data, script->size, error);
    status = status ? status : pf__gnuplot(folder.data, base_name(name.data), error);
    pf__text_free(&name);
    pf__text_free(&folder);
    return status;
}
