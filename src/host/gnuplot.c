// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "gnuplot.h"

#include "file.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

pf_status pf_gnuplot(const char *folder, const char *script, pf_error *error)
{
    enum { NOT_FOUND = 127, NO_FOLDER = 126 };
    int code = 0;
    pid_t child = fork();
    if (child == 0) {
        if (chdir(folder) != 0) {
            _exit(NO_FOLDER);
        }
        execlp("gnuplot", "gnuplot", script, (char *)NULL);
        _exit(NOT_FOUND);
    }
    while (child > 0 && waitpid(child, &code, 0) < 0 && errno == EINTR) {
    }
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

pf_status pf_gnuplot_draw(const char *picture, const pf_text *script, pf_error *error)
{
    pf_text name = {0}, folder = {0};
    const char *slash = strrchr(picture, '/');
    pf_text_addf(&name, "%s.gp", picture);
    pf_text_add_n(&folder, slash ? picture : ".", slash ? (size_t)(slash - picture) + 1 : 1);
    pf_status status = script->failed || name.failed || folder.failed
                           ? pf_fail(error, PF_ERR_MEMORY, "out of memory for the plot")
                           : pf_file_write(name.data, script->data, script->size, error);
    if (status == PF_OK) {
        const char *base = strrchr(name.data, '/');
        status = pf_gnuplot(folder.data, base ? base + 1 : name.data, error);
    }
    pf_text_free(&name);
    pf_text_free(&folder);
    return status;
}
