// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "cli.h"
#include "core/kit_layout.h"
#include "core/method.h"
#include "core/sha256.h"

#include "wire/reply.h"

#include <string.h>

static void show(const pf_kit *k)
{
    char sha[65];
    pf__sha256_text(k->sha256, sha);
    printf("plant          %s (%s)\n", pf_kit_get_string(k, PF_KIT_PLANT),
           pf_kit_get_string(k, PF_KIT_SOURCE));
    printf("predictor      %s, statistic %s\n", pf_kit_get_string(k, PF_KIT_PREDICTOR),
           pf__statistic_name((pf_statistic)k->statistic));
    if (pf__kit_starts_from_channels(k)) {
        printf("model          %s (%s)\n", pf_kit_get_string(k, PF_KIT_MODEL),
               pf_kit_get_string(k, PF_KIT_PROCESSOR));
    }
    printf("sha256         %s\n", sha);
    printf("made by        preflight %s, seed %.0f, %d episodes per class, %d alarm trials\n",
           pf_kit_get_string(k, PF_KIT_PREFLIGHT), k->seed, (int)k->episodes, (int)k->alarm_trials);
    printf("mechanisms     %d (candidates %d), channels %d, gains %d in %.2f..%.2f, g_cal %.2f\n",
           (int)k->n_mech, (int)k->n_mech - 1, (int)k->n_chan, (int)k->n_grid, k->grid[0],
           k->grid[k->n_grid - 1], k->g_cal);
    printf("prior          %.4f that something changed, hazard %.4f\n", 1 - k->prior[0], k->hazard);
    printf("budget         %d opportunities, then %d recovery probes after an alarm (%s)\n",
           (int)k->budget1, (int)k->budget2, k->stop == PF_STOP_BREAK ? "break" : "latch");
    printf("certificate    alpha %.3g, j_min %.3g, unprobed mechanisms %s\n", k->alpha, k->j_min,
           k->field ? "block" : "do not block");
    for (int i = 0; i < k->n_methods; i++) {
        printf("alarm          %s above %.6g\n", pf_kit_method_id(k, i), k->threshold[i]);
    }
    printf("session        %zu bytes\n\nprobes\n", pf_session_size(k));
    for (int q = 0; q < k->n_probes; q++) {
        printf("  %2d %-16s %3d rows, charge %.3g, targets", q, pf_kit_probe_name(k, q),
               pf_kit_probe_rows(k, q), k->charge[q]);
        for (int t = k->probe_target[q]; t < k->probe_target[q + 1]; t++) {
            printf(" %s (dispersion %.3f)", pf_kit_mechanism_name(k, k->target_mech[t]),
                   k->sigma[t]);
        }
        printf("\n");
    }
    printf("tasks\n");
    for (int t = 0; t < k->n_tasks; t++) {
        printf("  %2d %-16s reveal %.3f, importance %.3g, uses", t, pf_kit_task_name(k, t),
               k->task_reveal[t], k->task_importance[t]);
        for (int u = k->task_use[t]; u < k->task_use[t + 1]; u++) {
            printf(" %s", pf_kit_mechanism_name(k, k->use_mech[u]));
        }
        printf("\n");
    }
}

int cmd_kit(int argc, char **argv)
{
    bool json = false;
    cli_list words = {.n = 0};
    const cli_option options[] = {{"--json", .flag = &json}};
    if (!cli_parse("kit", argc, argv, options, 1, &words)) {
        return EXIT_USAGE;
    }
    if (words.n != 2 || strcmp(words.item[0], "show") != 0) {
        return cli_usage("kit", "say `kit show KIT`");
    }
    int status = EXIT_YES;
    cli_kit file;
    if (!cli_kit_open("kit", words.item[1], &file, &status)) {
        return status;
    }
    if (json) {
        pf_text out = {0};
        pf_reply_kit(&out, &file.kit);
        pf_text_add(&out, "\n");
        status = cli_write("kit", "-", &out);
        pf_text_free(&out);
    } else {
        show(&file.kit);
    }
    cli_kit_close(&file);
    return status;
}
