// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "cli.h"
#include "model/rollout.h"

#include "settings/config.h"
#include "host/file.h"
#include "preflight/run.h"
#include "wire/reply.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int cli_usage(const char *command, const char *format, ...)
{
    fprintf(stderr, "preflight %s: ", command);
    va_list list;
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fprintf(stderr, "\nTry `preflight %s --help`.\n", command);
    return EXIT_USAGE;
}

int cli_fail(const char *command, pf_status status, const pf_error *error)
{
    if (status == PF_ERR_INTERRUPTED) {
        fprintf(stderr, "preflight %s: interrupted, nothing was written\n", command);
        return EXIT_INTERRUPTED;
    }
    fprintf(stderr, "preflight %s: %s\n", command,
            error->text[0] ? error->text : pf_status_text(status));
    return status == PF_ERR_INTERNAL || status == PF_ERR_MEMORY ? EXIT_INTERNAL : EXIT_BAD_INPUT;
}

int cli_fail_in(const char *command, const char *file, pf_status status, const pf_error *error)
{
    pf_error named = {PF_OK, ""};
    char text[240];
    snprintf(text, sizeof text, "%.230s", error->text);
    pf_fail(&named, status, "%s: %s", file, text);
    return cli_fail(command, status, &named);
}

// --- things commands share

pf_status cli_kit_load(pf_kit **kit, const void *image, size_t n, pf_error *error)
{
    *kit = NULL;
    void *memory = malloc(pf_kit_size());
    pf_status status = memory ? pf_kit_load(kit, image, n, memory, pf_kit_size(), error)
                              : pf_fail(error, PF_ERR_MEMORY, "out of memory for a kit");
    if (status != PF_OK) {
        free(memory);
    }
    return status;
}

bool cli_kit_open(const char *command, const char *path, cli_kit *kit, int *status)
{
    pf_error error = {PF_OK, ""};
    *kit = (cli_kit){0};
    pf_status s = pf__file_read(path, (size_t)1 << 30, &kit->bytes, &kit->n_bytes, &error);
    if (s != PF_OK) {
        *status = cli_fail(command, s, &error);
        return false;
    }
    s = cli_kit_load(&kit->kit, kit->bytes, kit->n_bytes, &error);
    if (s != PF_OK) {
        *status = cli_fail_in(command, path, s, &error);
        cli_kit_close(kit);
    }
    return s == PF_OK;
}

void cli_kit_close(cli_kit *kit)
{
    free(kit->bytes);
    free(kit->kit);
    *kit = (cli_kit){0};
}

pf_status cli_plant_for_kit(pf_plant **plant, const pf_kit *kit, const char *name, pf_error *error)
{
    const char *own = pf_kit_get_string(kit, PF_KIT_PLANT);
    bool recordings = pf_kit_get_info(kit).recorded;
    *plant = NULL;
    if (!name && recordings) {
        return pf_fail(error, PF_ERR_MISMATCH,
                       "the kit was calibrated from recordings and names no plant to run; use "
                       "`preflight serve`, or --plant exec:COMMAND");
    }
    return pf_plant_create(plant, name ? name : own, error);
}

bool cli_model_for_kit(const char *command, const pf_kit *kit, const char *path, pf_model **model,
                       int *status)
{
    pf_error error = {PF_OK, ""};
    *model = NULL;
    if (!path) {
        return true;
    }
    if (!pf_kit_get_info(kit).starts_from_channels) {
        *status = cli_usage(command, "--model: the kit predicts with %s, not with a learned model",
                            pf_kit_get_info(kit).recorded ? "its recordings" : "a twin");
        return false;
    }
    pf_status result = pf_model_load(model, path, &error);
    if (result != PF_OK) {
        *status = cli_fail(command, result, &error);
        return false;
    }
    result = pf_kit_fits_model(kit, *model, &error);
    if (result != PF_OK) {
        *status = cli_fail_in(command, path, result, &error);
        pf_model_destroy(*model);
        *model = NULL;
        return false;
    }
    const char *was = pf_kit_get_string(kit, PF_KIT_PROCESSOR), *is = pf__numeric_library();
    if (strcmp(was, is) != 0) {
        fprintf(stderr,
                "preflight %s: warning: the kit was calibrated with numeric library '%s', here it "
                "is '%s'; predictions may differ in the last bits\n",
                command, was, is);
    }
    return true;
}

int cli_write(const char *command, const char *path, const pf_text *text)
{
    pf_error error = {PF_OK, ""};
    if (text->failed) {
        pf_fail(&error, PF_ERR_MEMORY, "out of memory");
        return cli_fail(command, PF_ERR_MEMORY, &error);
    }
    pf_status status = pf__file_write(path, text->data ? text->data : "", text->size, &error);
    return status == PF_OK ? EXIT_YES : cli_fail(command, status, &error);
}

bool cli_accept(const char *command, const cli_list *words, pf_accepted *accepted)
{
    *accepted = (pf_accepted){false, false};
    for (int i = 0; i < words->n; i++) {
        if (strcmp(words->item[i], pf_why_name(PF_WHY_NOT_REHEARSED)) == 0) {
            accepted->not_rehearsed = true;
        } else if (strcmp(words->item[i], pf_why_name(PF_WHY_UNSEEN_LOSS)) == 0) {
            accepted->unseen_loss = true;
        } else {
            cli_usage(command,
                      "--accept: '%s' is no condition; there are not-rehearsed and "
                      "unseen-loss",
                      words->item[i]);
            return false;
        }
    }
    return true;
}
