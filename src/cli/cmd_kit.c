// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "cli.h"
#include "core/kit_layout.h"
#include "core/method.h"
#include "core/rehearsal.h"
#include "core/sha256.h"

#include "wire/audit_file.h"
#include "wire/kit_page.h"
#include "wire/reply.h"

#include <stdlib.h>
#include <string.h>

static void show_losses(const pf_kit *kit, int n_mech)
{
    int n = 0;
    for (int j = 0; j < n_mech; j++) {
        if (pf_kit_loses_force(kit, j)) {
            cli_printf("%s%s", n++ ? ", " : "losses of force ", pf_kit_mechanism_name(kit, j));
        }
    }
    cli_printf("%s", n > 0 ? "\n" : "");
}

static void show_origin(const pf_kit *kit)
{
    pf_kit_info k = pf_kit_get_info(kit);
    char sha[65];
    pf__sha256_text(k.sha256, sha);
    cli_printf("plant          %s (%s)\n", pf_kit_get_string(kit, PF_KIT_PLANT),
               pf_kit_get_string(kit, PF_KIT_SOURCE));
    if (pf_kit_folder(kit)[0]) {
        cli_printf("folder         %s\n", pf_kit_folder(kit));
    }
    cli_printf("predictor      %s, statistic %s\n", pf_kit_get_string(kit, PF_KIT_PREDICTOR),
               pf__statistic_name(k.statistic));
    if (k.starts_from_channels) {
        cli_printf("model          %s (%s)\n", pf_kit_get_string(kit, PF_KIT_MODEL),
                   pf_kit_get_string(kit, PF_KIT_PROCESSOR));
    }
    cli_printf("sha256         %s\n", sha);
    cli_printf("made by        preflight %s, seed %.0f, %s per class, %s\n",
               pf_kit_get_string(kit, PF_KIT_PREFLIGHT), (double)k.seed,
               pf__counted(k.episodes, "episode").text,
               pf__counted(k.alarm_trials, "alarm trial").text);
    cli_printf(
        "mechanisms     %d (candidates %d), channels %d, gains %d in %.2f..%.2f, g_cal %.2f\n",
        k.n_mech, k.n_mech - 1, k.n_chan, k.n_grid, k.grid[0], k.grid[k.n_grid - 1], k.g_cal);
    show_losses(kit, k.n_mech);
}

static void show_rules(const pf_kit *kit)
{
    pf_kit_info k = pf_kit_get_info(kit);
    cli_printf("prior          %.4f that something changed, hazard %.4f\n", 1 - k.prior[0],
               k.hazard);
    cli_printf("budget         %s, then %s after an alarm (%s)\n",
               pf__counted(k.rules.budget1, "opportunity").text,
               pf__counted(k.rules.budget2, "recovery probe").text,
               k.rules.stop == PF_STOP_BREAK ? "break" : "latch");
    cli_printf("certificate    alpha %.3g, j_min %.3g, unprobed mechanisms %s\n", k.alpha, k.j_min,
               k.rules.field ? "block" : "do not block");
    if (k.rules.field) {
        static const char *const modes[] = {"none", "each task alone", "in groups, then alone"};
        cli_printf("verdict        %s, rehearsals: %s, %d at most\n",
                   k.joint_posterior ? "joint posterior over gains 0..1.5" : "transported severity",
                   k.rehearsable ? modes[k.rules.rehearse] : modes[0], k.rules.budget3);
    }
    if (k.tolerance > 0) {
        cli_printf("tolerance      %.2g of a reading: the simulator repeats to rounding only\n",
                   k.tolerance);
    }
    if (k.alarm_checks > 0) {
        cli_printf("fresh checks   %d of %d healthy sessions alarmed\n", k.alarm_false,
                   k.alarm_checks);
    }
    for (int i = 0; i < k.n_methods; i++) {
        cli_printf("alarm          %s above %.6g\n", pf_kit_method_id(kit, i),
                   pf_kit_threshold(kit, i));
    }
    cli_printf("session        %zu bytes\n", pf_session_size(kit));
}

static void show_probes(const pf_kit *kit)
{
    pf_kit_info k = pf_kit_get_info(kit);
    cli_printf("\nprobes\n");
    for (int q = 0; q < k.n_probes; q++) {
        const char *policy = pf_kit_probe_policy(kit, q);
        cli_printf("  %2d %-16s %3d rows%s%s, charge %.3g, targets", q, pf_kit_probe_name(kit, q),
                   pf_kit_probe_rows(kit, q), policy[0] ? " of the closed loop " : "", policy,
                   pf_kit_probe_charge(kit, q));
        const int32_t *targets = NULL;
        int n = pf_kit_probe_targets(kit, q, &targets);
        for (int t = 0; t < n; t++) {
            cli_printf(" %s (dispersion %.3f)", pf_kit_mechanism_name(kit, targets[t]),
                       pf_kit_probe_sigma(kit, q)[t]);
        }
        cli_printf("\n");
    }
}

static void show_tasks(const pf_kit *kit)
{
    pf_kit_info k = pf_kit_get_info(kit);
    cli_printf("tasks\n");
    for (int t = 0; t < k.n_tasks; t++) {
        cli_printf("  %2d %-16s reveal %.3f, importance %.3g, uses", t, pf_kit_task_name(kit, t),
                   pf_kit_task_reveal(kit, t), pf_kit_task_importance(kit, t));
        const int32_t *uses = NULL;
        int n_uses = pf_kit_task_mechanisms(kit, t, &uses);
        for (int u = 0; u < n_uses; u++) {
            cli_printf(" %s", pf_kit_mechanism_name(kit, uses[u]));
        }
        int runs = pf_kit_task_rehearsals(kit, t);
        if (k.rules.field && runs == 0) {
            cli_printf(", cannot be rehearsed");
        } else if (k.rules.field) {
            int n_blind = 0;
            pf__kit_blind(kit, t, &n_blind);
            cli_printf(", rehearsed %s", pf__counted(runs, "time").text);
            if (n_blind > 0) {
                cli_printf(", blind in %d of %d directions", n_blind,
                           n_blind + pf__rehearsal_numbers(kit, t));
            }
        }
        const char *fallback = pf_kit_task_fallback(kit, t);
        cli_printf("%s%s\n", fallback[0] ? ", fallback " : "", fallback);
    }
}

static void show(const pf_kit *kit)
{
    show_origin(kit);
    show_rules(kit);
    show_probes(kit);
    show_tasks(kit);
}

// Under --trust an audit that is not signed is not shown.
static int report(const pf_kit *kit, const char *path, const cli_trust *trust, const char *output)
{
    pf_error error = {PF_OK, ""};
    pf_text html = {0};
    char *audit = pf__audit_path(path), *text = NULL;
    size_t n = 0;
    pf_status status = cli_audit_read(trust, audit, &text, &n, &error);
    status = status == PF_ERR_MISMATCH ? PF_OK : status;
    if (pf__audit_damaged(text, n)) {
        cli_warn_damaged("kit", audit);
    }
    status = status == PF_OK ? pf__kit_page(kit, text, n, &html, &error) : status;
    int result =
        status == PF_OK ? cli_write("kit", output, &html) : cli_fail("kit", status, &error);
    free(text);
    free(audit);
    pf__text_free(&html);
    return result;
}

static int check_output(const char *path, const char *output)
{
    char *audit = pf__audit_path(path);
    const cli_file inputs[] = {{"the kit", path}, {"the audit of the kit", audit}};
    int status = cli_outputs("kit", 2, inputs, 1, &(cli_file){"-o", output});
    free(audit);
    return status;
}

int cmd_kit(int argc, char **argv)
{
    bool json = false;
    const char *output = NULL;
    cli_list words = {.n = 0};
    cli_trust trust = {.signers = NULL};
    const cli_option options[] = {
        {"--json", .flag = &json}, {"-o", .value = &output}, {"--trust", .value = &trust.signers}};
    if (!cli_parse("kit", argc, argv, options, sizeof options / sizeof options[0], &words)) {
        return EXIT_USAGE;
    }
    bool page = words.n == 2 && strcmp(words.item[0], "report") == 0;
    if (words.n != 2 || (strcmp(words.item[0], "show") != 0 && !page)) {
        return cli_usage("kit", "say `kit show KIT` or `kit report KIT -o FILE`");
    }
    if (page != (output != NULL) || (page && json)) {
        return cli_usage("kit", page ? "report needs -o FILE, the page to write, and no --json"
                                     : "-o belongs to `kit report`");
    }
    int status = page ? check_output(words.item[1], output) : EXIT_YES;
    cli_kit file;
    if (status != EXIT_YES || !cli_kit_open("kit", words.item[1], &trust, &file, &status)) {
        return status;
    }
    if (page) {
        status = cli_spare_plant("kit", pf_kit_get_string(file.kit, PF_KIT_PLANT),
                                 pf_kit_folder(file.kit), 1, &(cli_file){"-o", output});
        status = status == EXIT_YES ? report(file.kit, words.item[1], &trust, output) : status;
    } else if (json) {
        pf_text out = {0};
        pf__reply_kit(&out, file.kit);
        pf__text_add(&out, "\n");
        status = cli_write("kit", "-", &out);
        pf__text_free(&out);
    } else {
        show(file.kit);
    }
    cli_kit_close(&file);
    return status;
}
