// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE // dl_iterate_phdr
#include "plant/plant_impl.h"
#include "process.h"

#include "host/file.h"
#include "host/text.h"

#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// `fmu:FILE` and `fmu:FILE#STEP`: the bridge on preflight-fmu, a program that is installed with the
// library. It runs one FMU.

#define HELLO_S 120.0 // a large archive, and an FMU whose functions are tried out

static const char hint[] = "preflight-fmu, which runs FMUs, is not installed here: build with "
                           "libzip-dev and libexpat1-dev, or set PREFLIGHT_FMU to it";

// The file that holds this code: a library, or "" for the program itself.
static int find_self(struct dl_phdr_info *info, size_t size, void *found)
{
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        ElfW(Addr) from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        ElfW(Addr) here = (ElfW(Addr))(uintptr_t)hint;
        if (info->dlpi_phdr[i].p_type == PT_LOAD && here >= from &&
            here < from + info->dlpi_phdr[i].p_memsz) {
            snprintf(found, PATH_MAX, "%s", info->dlpi_name);
            return 1;
        }
    }
    return 0;
}

// Its folder; false: unknown.
static bool own_folder(char folder[PATH_MAX])
{
    folder[0] = '\0';
    dl_iterate_phdr(find_self, folder);
    if (folder[0] == '\0') {
        return pf__program_folder(folder, PATH_MAX);
    }
    char *slash = strrchr(folder, '/');
    if (slash) {
        *slash = '\0';
    }
    return slash != NULL;
}

// Beside us, as built or in the Python package; where an installed program or library finds it;
// where it was to be installed.
static bool find_program(char path[PATH_MAX])
{
    static const char *const places[] = {"", "/..", "/libexec/preflight", "/../libexec/preflight",
                                         "/../../libexec/preflight"};
    const char *given = getenv("PREFLIGHT_FMU");
    char folder[PATH_MAX];
    if (given && given[0]) {
        snprintf(path, PATH_MAX, "%s", given);
        return true;
    }
    bool known = own_folder(folder);
    for (size_t i = 0; known && i < sizeof places / sizeof places[0]; i++) {
        int n = snprintf(path, PATH_MAX, "%s%s/preflight-fmu", folder, places[i]);
        if (n < PATH_MAX && access(path, X_OK) == 0) {
            return true;
        }
    }
    snprintf(path, PATH_MAX, "%s", PF_FMU_INSTALLED);
    return access(path, X_OK) == 0;
}

// FILE#STEP, unless a file has that whole name. The file by its absolute path; NULL: there is none.
static char *find_file(char *reference, const char **step)
{
    char *mark = pf__file_regular(reference) ? NULL : strrchr(reference, '#');
    *step = mark ? mark + 1 : NULL;
    if (mark) {
        *mark = '\0';
    }
    return pf__file_regular(reference) ? realpath(reference, NULL) : NULL;
}

pf_status pf__fmu_create(pf_plant **plant, const char *reference, const volatile int *stop,
                         pf_error *error)
{
    char program[PATH_MAX];
    const char *step = NULL;
    pf_text copy = {0}, name = {0}, label = {0};
    *plant = NULL;
    pf__text_add(&copy, reference);
    char *path = copy.data ? find_file(copy.data, &step) : NULL;
    pf__text_addf(&name, "fmu:%s%s%s", path ? path : "", step ? "#" : "", step ? step : "");
    pf__text_addf(&label, "fmu:%s", path ? strrchr(path, '/') + 1 : "");
    pf_status status = PF_OK;
    if (copy.failed || name.failed || label.failed) {
        status = pf_fail(error, PF_ERR_MEMORY, "fmu: out of memory");
    } else if (!path) {
        status = pf_fail(error, PF_ERR_FILE,
                         "fmu:%s: there is no such file; say fmu:FILE or fmu:FILE#STEP", reference);
    } else if (!find_program(program)) {
        status = pf_fail(error, PF_ERR_UNSUPPORTED, "fmu:%s: %s", reference, hint);
    } else {
        pf_bridge_program call = {.name = name.data,
                                  .label = label.data,
                                  .hint = hint,
                                  .arguments = {program, path, step},
                                  .hello_s = HELLO_S,
                                  .stop = stop};
        status = pf__bridge_open(plant, &call, error);
    }
    free(path);
    pf__text_free(&copy);
    pf__text_free(&name);
    pf__text_free(&label);
    return status;
}
