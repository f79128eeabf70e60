// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "cli.h"

#include "config/config.h"
#include "host/file.h"
#include "preflight/design.h"

#include <stdlib.h>
#include <string.h>

// What `calibrate` and `design` are told: settings, predictor, probes.

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

// --- probes

static pf_status lists_probes(const cli_config *t, bool *lists, pf_error *error)
{
    pf_config config;
    pf_status status =
        pf_config_read(&config, t->file, t->data, t->n, t->overrides, t->n_overrides, error);
    *lists = status == PF_OK && config.n_probes > 0;
    pf_config_free(&config);
    return status;
}

static pf_status load_library(pf_plan *plan, const char *file, pf_error *error)
{
    void *text = NULL;
    size_t n = 0;
    pf_status status = pf_file_read(file, (size_t)16 << 20, &text, &n, error);
    if (status == PF_OK) {
        status = pf_plan_load_library(plan, file, text, n, error);
    }
    free(text);
    return status;
}

static bool is_probed(const pf_plan *plan, int mechanism)
{
    for (int q = 0; q < plan->n_probes; q++) {
        for (int t = 0; t < plan->probes[q].n_targets; t++) {
            if (plan->probes[q].targets[t] == mechanism) {
                return true;
            }
        }
    }
    return false;
}

// A kit needs a probe for every candidate.
static pf_status all_probed(const pf_plan *plan, bool learned, pf_error *error)
{
    for (int j = 1; j < plan->n_mech; j++) {
        if (!is_probed(plan, j)) {
            return pf_fail(
                error, PF_ERR_DEGENERATE,
                "mechanism '%s': under every allowed probe healthy and weakened "
                "responses lie less than 3 dispersions apart; use %sa stronger or longer "
                "probe (`preflight design` tells more)",
                plan->mechanisms[j].name, learned ? "a better model, or " : "");
        }
    }
    return PF_OK;
}

static pf_status design_in_place(pf_plan *plan, const cli_config *t, pf_plant *plant,
                                 const pf_model *model, const pf_effort *effort, pf_error *error)
{
    pf_design_config config;
    pf_status status = pf_design_config_read(&config, plan, t->file, t->data, t->n, t->overrides,
                                             t->n_overrides, error);
    if (status == PF_OK) {
        status = pf_plan_design(plan, &config, plant, model, effort, error);
        pf_design_config_free(&config);
    }
    return status == PF_OK ? all_probed(plan, model != NULL, error) : status;
}

pf_status cli_plan_probes(pf_plan *plan, cli_probes which, const char *library,
                          const cli_config *config, pf_plant *plant, const pf_model *model,
                          const pf_effort *effort, pf_error *error)
{
    bool lists = false;
    pf_status status = lists_probes(config, &lists, error);
    if (status != PF_OK) {
        return status;
    }
    if (lists && which != CLI_PROBES_DEFAULT) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "%s: lists `probes`, so --probes cannot ask for others; drop one of the two",
                       config->file);
    }
    if (which == CLI_PROBES_LIBRARY) {
        return load_library(plan, library, error);
    }
    // the norm of a residual cannot tell the targets of a group probe apart
    const pf_method *method = pf_method_find(plan->method);
    bool group = method && method->statistic == PF_STATISTIC_MATCHED;
    if (which == CLI_PROBES_DEFAULT && !lists && group) {
        which = CLI_PROBES_DESIGNED;
    }
    if (which == CLI_PROBES_DESIGNED && !group) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "--probes designed: method %s cannot read group probes; use eg-mpt, or "
                       "--probes single",
                       plan->method);
    }
    return which == CLI_PROBES_DESIGNED ? design_in_place(plan, config, plant, model, effort, error)
                                        : PF_OK;
}
