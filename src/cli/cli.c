// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "cli.h"
#include "model/rollout.h"

#include "settings/config.h"
#include "host/file.h"
#include "preflight/run.h"
#include "wire/reply.h"

#include <math.h>
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

// --- the terminal

bool cli_colour(void)
{
    const char *no_colour = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(1) && !(no_colour && no_colour[0]) && term && strcmp(term, "dumb") != 0;
}

const char *cli_paint(const char *colour)
{
    return !cli_colour() ? "" : colour ? colour : "\033[0m";
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

bool cli_accept(const char *command, const cli_list *words, cli_accepted *accepted)
{
    *accepted = (cli_accepted){false, false};
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

bool cli_task_go(const pf_task_readiness *task, const cli_accepted *accepted)
{
    bool agreed = accepted && ((task->why == PF_WHY_NOT_REHEARSED && accepted->not_rehearsed) ||
                               (task->why == PF_WHY_UNSEEN_LOSS && accepted->unseen_loss));
    return task->decision == PF_GO || (task->decision == PF_GO_IF && agreed);
}

bool cli_all_go(const pf_session *session, const cli_accepted *accepted)
{
    pf_kit_info k = pf_kit_get_info(pf_session_kit(session));
    // a go by the paper's rules was never rehearsed
    bool all = k.rules.field || (accepted && accepted->not_rehearsed);
    for (int t = 0; t < k.n_tasks; t++) {
        all = all && cli_task_go(pf_session_task(session, t), accepted);
    }
    return all;
}

static void print_task(const pf_session *session, int t, const cli_accepted *accepted)
{
    const pf_kit *kit = pf_session_kit(session);
    const pf_task_readiness *r = pf_session_task(session, t);
    const int32_t *uses = NULL;
    pf_kit_task_mechanisms(kit, t, &uses);
    double correction = pf_session_mechanism(session, uses[0])->correction;
    const char *word = r->decision == PF_GO ? "go" : r->decision == PF_GO_IF ? "GO-IF" : "NO-GO";
    const char *paint = r->decision == PF_GO      ? CLI_GREEN
                        : r->decision == PF_GO_IF ? CLI_YELLOW
                                                  : CLI_RED;
    const char *fallback = pf_kit_task_fallback(kit, t);
    printf("%-16s %10.3f %10.3f %10.3f %9s  %s%s%s", pf_kit_task_name(kit, t), correction, r->mean,
           r->lower, pf_rehearsed_name(r->rehearsed), cli_paint(paint), word, cli_paint(NULL));
    if (r->why == PF_WHY_UNSEEN_LOSS) {
        printf("  (unless a gain is between %.2f and %.2f, which no probe shows)", r->unseen[0],
               r->unseen[1]);
    } else if (r->decision != PF_GO) {
        printf("  (%s)", pf_why_text(r->why));
    }
    if (r->decision == PF_GO_IF && cli_task_go(r, accepted)) {
        printf("  accepted");
    }
    if (r->decision == PF_NO_GO && fallback[0]) {
        printf("; fallback: %s", fallback);
    }
    printf("\n");
}

void cli_print_readiness(const pf_session *session, const cli_accepted *accepted)
{
    const pf_kit *kit = pf_session_kit(session);
    pf_kit_info k = pf_kit_get_info(kit);
    bool joint = k.joint_posterior; // its gains are those if the mechanism changed
    printf("\n%-16s %10s %12s %13s %7s\n", "mechanism", "P(changed)",
           joint ? "gain, if so" : "gain", "90 % interval", "probed");
    for (int j = 1; j < k.n_mech; j++) {
        const pf_mechanism_readiness *r = pf_session_mechanism(session, j);
        const char *name = pf_kit_mechanism_name(kit, j), *probed = r->probed ? "yes" : "no";
        if (joint && r->changed < .01) {
            printf("%-16s %10.4f %12s %13s %7s\n", name, r->changed, "-", "-", probed);
            continue;
        }
        printf("%s%-16s %10.4f %12.3f  %5.2f .. %4.2f %7s%s\n",
               cli_paint(r->changed > .5 ? CLI_YELLOW : ""), name, r->changed, r->mean_gain,
               r->interval[0], r->interval[1], probed, cli_paint(NULL));
    }
    printf("\n%-16s %10s %10s %10s %9s  %s\n", "task", "correction", "return", "at least",
           "rehearsed", "verdict");
    for (int t = 0; t < k.n_tasks; t++) {
        print_task(session, t, accepted);
    }
}
