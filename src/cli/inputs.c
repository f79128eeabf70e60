// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "cli.h"

#include "host/file.h"

#include <stdlib.h>
#include <string.h>

// What `calibrate` and `design` are told: settings, predictor.

int cli_config_open(const char *command, const char *path, const cli_list *set, cli_config *config)
{
    pf_error error = {PF_OK, ""};
    *config = (cli_config){.file = path ? path : "--set"};
    for (int i = 0; i < set->n; i++) {
        config->overrides[config->n_overrides++] = set->item[i];
    }
    if (path) {
        pf_status status = pf_file_read(path, (size_t)16 << 20, &config->data, &config->n, &error);
        if (status != PF_OK) {
            return cli_fail(command, status, &error);
        }
    }
    return EXIT_YES;
}

void cli_config_close(cli_config *config)
{
    free(config->data);
    config->data = NULL;
}

int cli_predictor(const char *command, const char *given, const char *output, const char **model)
{
    static const char ensemble[] = "ensemble:";
    given = given ? given : "twin";
    *model = NULL;
    if (strncmp(given, ensemble, sizeof ensemble - 1) == 0) {
        *model = given + sizeof ensemble - 1;
    }
    if (*model ? !(*model)[0] : strcmp(given, "twin") != 0) {
        return cli_usage(command, "--predictor %s: say twin or ensemble:FILE", given);
    }
    if (*model && pf_file_same(output, *model)) {
        return cli_usage(command, "-o %s would overwrite the model", output);
    }
    return EXIT_YES;
}
