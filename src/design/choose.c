// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "preflight/design.h"

#include "../config/config.h"
#include "../host/file.h"

#include <stdlib.h>
#include <string.h>

// Which probes a kit is calibrated with.

typedef enum choice { LISTED, SINGLE, DESIGNED, LIBRARY } choice;

// What the configuration lists stays; without a word designed ones, where the method can read them:
// the norm of a residual cannot tell the targets of a group probe apart.
static pf_status choose(const pf_plan *plan, const char *probes, choice *which, pf_error *error)
{
    bool lists = plan->config && plan->config->n_probes > 0;
    const pf_method *method = pf_method_find(plan->method);
    bool group = method && method->statistic == PF_STATISTIC_MATCHED;
    if (!probes) {
        *which = lists ? LISTED : group ? DESIGNED : SINGLE;
        return PF_OK;
    }
    if (lists) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "%s: lists `probes`, so no others (%s) can be asked for; drop one of the "
                       "two",
                       plan->config->file, probes);
    }
    *which = strcmp(probes, "single") == 0     ? SINGLE
             : strcmp(probes, "designed") == 0 ? DESIGNED
                                               : LIBRARY;
    if (*which == DESIGNED && !group) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "probes designed: method %s cannot read group probes; use eg-mpt, or "
                       "probes single",
                       plan->method);
    }
    return PF_OK;
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

pf_status pf_plan_choose_probes(pf_plan *plan, const char *probes, pf_plant *plant,
                                const pf_model *model, const pf_effort *effort, pf_error *error)
{
    choice which = LISTED;
    pf_status status = choose(plan, probes, &which, error);
    if (status != PF_OK || which == LISTED || which == SINGLE) {
        return status; // the plan has them already
    }
    if (which == LIBRARY) {
        return load_library(plan, probes, error);
    }
    status = pf_plan_design(plan, NULL, plant, model, effort, error);
    return status == PF_OK ? all_probed(plan, model != NULL, error) : status;
}
