// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "cli.h"
#include "model/rollout.h"
#include "model/transitions.h"

#include "core/kit_layout.h"
#include "settings/config.h"
#include "host/file.h"
#include "plant/plant_impl.h"
#include "preflight/run.h"
#include "wire/audit_file.h"
#include "wire/reply.h"

#include <stdarg.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// "preflight COMMAND: ..." on standard error. Names in it come from files and callers.
static void say(const char *command, const char *format, va_list list)
{
    char text[4096];
    pf_text shown = {0};
    vsnprintf(text, sizeof text, format, list);
    pf__text_addf(&shown, "preflight %s: ", command);
    pf__text_add_shown(&shown, text, strlen(text), "\n\t");
    fprintf(stderr, "%s\n", shown.data ? shown.data : "out of memory");
    pf__text_free(&shown);
}

void cli_say(const char *command, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    say(command, format, list);
    va_end(list);
}

int cli_usage(const char *command, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    say(command, format, list);
    va_end(list);
    fprintf(stderr, "Try `preflight %s --help`.\n", command);
    return EXIT_USAGE;
}

int cli_fail(const char *command, pf_status status, const pf_error *error)
{
    if (status == PF_ERR_INTERRUPTED) {
        cli_say(command, "interrupted, nothing was written");
        return EXIT_INTERRUPTED;
    }
    cli_say(command, "%s", error->text[0] ? error->text : pf_status_text(status));
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

// --- kinds of files

// A file of ours by its beginning: at the byte `at` it says `mark`.
typedef struct own_file {
    cli_kind kind;
    size_t at;
    const char *mark, *is;
    const char *shown_by; // command that takes the file. Nullable
    const char *more;
} own_file;

static const own_file own_files[] = {
    {CLI_KIT, 0, PF_KIT_MAGIC, "a kit", "kit show", "; `kit report` writes a page about it"},
    {CLI_MODEL, 8, "{\"__metadata__\":{\"format\":\"preflight-model\"", "a learned model",
     "model show", ""},
    {CLI_DATA, 0, PF_TRANSITIONS_MAGIC, "training data", "data show", ""},
    {CLI_JOURNAL, 0, "{\"journal\"", "a journal", "explain", ""},
    {CLI_CERTIFICATE, 0, "{\"kit\":\"", "a certificate", "explain", ""},
    {CLI_OTHER_KIND, 0, "{\"format\":\"preflight-audit\"", "the audit of a kit", NULL,
     ": `preflight kit report` shows it, with its kit"},
    {CLI_OTHER_KIND, 0, "# Probe library by preflight", "a library of probes", NULL,
     ": `preflight calibrate --probes` takes it"},
    {CLI_OTHER_KIND, 0, "SQLite format 3", "a database", NULL,
     ": `preflight bench --db` takes one with trials"},
    {CLI_OTHER_KIND, 0, "PFPART1", "a part of a job that was stopped", NULL,
     ": the command that wrote it goes on from there"},
    {CLI_OTHER_KIND, 0, "<!doctype html>", "a page", NULL, ": a browser shows it"}};

// The kind of a plain file by its name, NULL: none of ours.
static const own_file *kind_of(const char *path)
{
    char head[160] = "";
    FILE *file = pf__file_regular(path) ? fopen(path, "rb") : NULL;
    size_t n = file ? fread(head, 1, sizeof head, file) : 0;
    if (file) {
        fclose(file);
    }
    for (size_t i = 0; i < sizeof own_files / sizeof own_files[0]; i++) {
        const own_file *own = &own_files[i];
        size_t size = strlen(own->mark);
        if (n >= own->at + size && memcmp(head + own->at, own->mark, size) == 0) {
            return own;
        }
    }
    return NULL;
}

bool cli_other_kind(const char *command, const char *path, int wanted)
{
    const own_file *own = kind_of(path);
    if (!own || own->kind & wanted) {
        return false;
    }
    char shown_by[300] = "";
    if (own->shown_by) {
        snprintf(shown_by, sizeof shown_by, ": `preflight %s %.240s` shows it", own->shown_by,
                 path);
    }
    cli_say(command, "%s is %s%s%s", path, own->is, shown_by, own->more);
    return true;
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

bool cli_kit_open(const char *command, const char *path, const cli_trust *trust, cli_kit *kit,
                  int *status)
{
    pf_error error = {PF_OK, ""};
    *kit = (cli_kit){0};
    if (cli_other_kind(command, path, CLI_KIT)) {
        *status = EXIT_BAD_INPUT;
        return false;
    }
    pf_status s = cli_trusted_read(trust, path, (size_t)1 << 30, &kit->bytes, &kit->n_bytes,
                                   kit->signer, &error);
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

pf_status cli_plant_create(pf_plant **plant, const char *name, pf_error *error)
{
    return pf__plant_create(plant, name, NULL, &cli_interrupted, error);
}

pf_status cli_plant_for_kit(pf_plant **plant, const pf_kit *kit, const char *name,
                            const cli_trust *trust, pf_error *error)
{
    const char *own = pf_kit_get_string(kit, PF_KIT_PLANT);
    bool recordings = pf_kit_get_info(kit).recorded;
    *plant = NULL;
    if (!name && recordings) {
        return pf_fail(error, PF_ERR_MISMATCH,
                       "the kit was calibrated from recordings and names no plant to run; use "
                       "`preflight serve`, or --plant exec:COMMAND");
    }
    if (!name && strncmp(own, "python:", 7) == 0) {
        return pf_fail(error, PF_ERR_MISMATCH,
                       "%s is a plant of a program in Python, which can check the kit: "
                       "Kit.load(...).check(plant); a kit made on 'exec:python3 -m "
                       "preflight.worker FILE:CLASS' can be checked here",
                       own);
    }
    pf_status status = name ? PF_OK : cli_trusted_plant(trust, "the kit", own, error);
    if (status != PF_OK) {
        return status;
    }
    return pf__plant_create(plant, name ? name : own, name ? NULL : pf_kit_folder(kit),
                            &cli_interrupted, error);
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
        cli_say(command,
                "warning: the kit was calibrated with numeric library '%s', here it is '%s'; "
                "predictions may differ in the last bits",
                was, is);
    }
    return true;
}

static int refuse_output(const char *command, const cli_file *output, const cli_file *other)
{
    return strcmp(output->path, "-") == 0
               ? cli_usage(command,
                           "%s and %s both write to standard output; give one of them a file",
                           other->name, output->name)
               : cli_usage(command, "%s and %s name the same file", other->name, output->name);
}

// Whether a path is that of the signature beside a file.
static bool is_signature_of(const char *path, const char *file)
{
    char signature[PATH_MAX];
    int n = snprintf(signature, sizeof signature, "%s.sig", file);
    return n < (int)sizeof signature && pf__file_regular(signature) &&
           pf__file_same(path, signature);
}

int cli_outputs(const char *command, int n_inputs, const cli_file *inputs, int n_outputs,
                const cli_file *outputs)
{
    pf_error error = {PF_OK, ""};
    for (int i = 0; i < n_outputs; i++) {
        const cli_file *output = &outputs[i];
        for (int k = 0; output->path && k < n_inputs; k++) {
            if (inputs[k].path && pf__file_same(output->path, inputs[k].path)) {
                return cli_usage(command, "%s %s would overwrite %s", output->name, output->path,
                                 inputs[k].name);
            }
            if (inputs[k].path && is_signature_of(output->path, inputs[k].path)) {
                return cli_usage(command, "%s %s would overwrite the signature of %s", output->name,
                                 output->path, inputs[k].path);
            }
        }
        for (int k = 0; output->path && k < i; k++) {
            if (outputs[k].path && pf__file_same(output->path, outputs[k].path)) {
                return refuse_output(command, output, &outputs[k]);
            }
        }
    }
    for (int i = 0; i < n_outputs; i++) {
        pf_status status = outputs[i].path ? pf__file_writable(outputs[i].path, &error) : PF_OK;
        if (status != PF_OK) {
            return cli_fail(command, status, &error);
        }
    }
    return EXIT_YES;
}

// Whether a path is that of a file by this name of n bytes, here or in a folder (Nullable).
static bool is_named(const char *path, const char *folder, const char *name, size_t n)
{
    char here[PATH_MAX], there[2 * PATH_MAX];
    if (n == 0 || n >= sizeof here) {
        return false;
    }
    snprintf(here, sizeof here, "%.*s", (int)n, name);
    snprintf(there, sizeof there, "%.4000s/%s", folder ? folder : ".", here);
    return (pf__file_regular(here) && pf__file_same(path, here)) ||
           (folder && pf__file_regular(there) && pf__file_same(path, there));
}

static bool plant_names(const char *plant, const char *folder, const char *path)
{
    static const char between[] = " \t\n\"'=:;#";
    const char *rest = strchr(plant, ':');
    if (!rest) {
        return false;
    }
    rest++;
    // the whole, without a keyframe, or any of its words
    if (is_named(path, folder, rest, strlen(rest)) ||
        is_named(path, folder, rest, strcspn(rest, "#"))) {
        return true;
    }
    for (size_t n = 0; *rest; rest += n + strspn(rest + n, between)) {
        n = strcspn(rest, between);
        if (is_named(path, folder, rest, n)) {
            return true;
        }
    }
    return false;
}

int cli_spare_plant(const char *command, const char *plant, const char *folder, int n_outputs,
                    const cli_file *outputs)
{
    for (int i = 0; plant && i < n_outputs; i++) {
        if (outputs[i].path && plant_names(plant, folder, outputs[i].path)) {
            return cli_usage(command, "%s %s would overwrite a file of the plant %s",
                             outputs[i].name, outputs[i].path, plant);
        }
    }
    return EXIT_YES;
}

void cli_warn_damaged(const char *command, const char *path)
{
    cli_say(command,
            "warning: %s is damaged, so the kit counts as not audited; run `preflight audit "
            "--replace`",
            path);
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

bool cli_output_lost = false;

void cli_print(const pf_text *text)
{
    cli_output_lost = cli_output_lost || text->failed;
    fputs(text->data && !text->failed ? text->data : "", stdout);
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
