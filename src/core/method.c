// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "method.h"

#include "constants.h"

#include <math.h>
#include <string.h>

const char *pf__statistic_name(pf_statistic statistic)
{
    return statistic == PF_STATISTIC_NORM ? "norm" : "matched";
}

double pf__value_bayes_risk(const pf_look *look)
{
    return pf__risk_reduction(look->m, look->belief, look->terms, look->mechanism, look->row);
}

// CUSUM of the arm plus an exploration bonus; an arm never tried comes first.
double pf__value_bandit(const pf_look *look)
{
    if (look->own_readings == 0) {
        return PF_BANDIT_UNVISITED;
    }
    return look->own_evidence + sqrt(2 * log(look->opportunity + 2.0) / look->own_readings);
}

// Symmetric (Jeffreys) divergence of the two rows.
double pf__value_sept(const pf_look *look)
{
    double sum = 0;
    for (int c = 0; c < look->row->n_bins; c++) {
        double p0 = look->row->nominal[c], p1 = look->row->changed[c];
        sum += (p1 - p0) * log(p1 / p0);
    }
    return sum;
}

// A-optimal reduction of the variance of 1{H = j} with the secant Fisher information.
double pf__value_asid_fim(const pf_look *look)
{
    double b = look->belief[look->mechanism], variance = b * (1 - b);
    if (!(variance > 0)) {
        return 0;
    }
    double information = 0, step = 1 - look->g_cal;
    for (int c = 0; c < look->row->n_bins; c++) {
        double p0 = look->row->nominal[c], p1 = look->row->changed[c];
        information += (p1 - p0) * (p1 - p0) / ((p1 + p0) / 2) / (step * step);
    }
    return variance - 1 / (1 / variance + information);
}

// Mutual information of hypothesis and category, in nats.
double pf__value_opax(const pf_look *look)
{
    double b = look->belief[look->mechanism], sum = 0;
    for (int c = 0; c < look->row->n_bins; c++) {
        double p0 = look->row->nominal[c], p1 = look->row->changed[c];
        double total = p0 * (1 - b) + p1 * b;
        sum += (1 - b) * p0 * log(p0 / total) + b * p1 * log(p1 / total);
    }
    return sum;
}

double pf__value_task_oed(const pf_look *look)
{
    double b = look->belief[look->mechanism];
    return pf__value_sept(look) * b * (1 - b) * look->weight[look->mechanism - 1];
}

static const pf_method methods[] = {
    {"random", "Random", "uniform choice", PF_STATISTIC_NORM, PF_RULE_RANDOM, NULL, true, false,
     false, NULL, NULL},
    {"bayes-risk", "Bayes-Risk", "largest expected drop of the task-weighted risk",
     PF_STATISTIC_NORM, PF_RULE_BEST, pf__value_bayes_risk, true, false, false, NULL, NULL},
    {"bandit-qcd", "Bandit-QCD", "cumulative evidence plus exploration bonus", PF_STATISTIC_NORM,
     PF_RULE_BEST, pf__value_bandit, true, false, false, NULL, NULL},
    {"sept", "SEPT", "fixed schedule by symmetric divergence", PF_STATISTIC_NORM, PF_RULE_SCHEDULE,
     pf__value_sept, true, false, false, NULL, NULL},
    {"asid-fim", "ASID-FIM", "A-optimal reduction of variance", PF_STATISTIC_NORM, PF_RULE_BEST,
     pf__value_asid_fim, true, false, false, NULL, NULL},
    {"opax", "OPAX", "largest mutual information", PF_STATISTIC_NORM, PF_RULE_BEST, pf__value_opax,
     true, false, false, NULL, NULL},
    {"task-oed", "Task-OED", "divergence times uncertainty times task weight", PF_STATISTIC_NORM,
     PF_RULE_BEST, pf__value_task_oed, true, false, false, NULL, NULL},
    {"eg-mpt", "EG-MPT", "matched score, risk-driven choice, gated transport", PF_STATISTIC_MATCHED,
     PF_RULE_BEST, pf__value_bayes_risk, true, true, false, NULL, NULL},
    {"eg-mpt:no-gate", "EG-MPT, no gate", "every coordinate admitted", PF_STATISTIC_MATCHED,
     PF_RULE_BEST, pf__value_bayes_risk, false, true, false, NULL, NULL},
    {"eg-mpt:no-transport", "EG-MPT, no transport", "broad prior at the boundary; control arm",
     PF_STATISTIC_MATCHED, PF_RULE_BEST, pf__value_bayes_risk, true, false, false, NULL, NULL},
    {"eg-mpt:uniform", "EG-MPT, uniform", "uniform choice, gated transport", PF_STATISTIC_MATCHED,
     PF_RULE_RANDOM, NULL, true, true, false, NULL, NULL},
    {"eg-mpt:neither", "EG-MPT, neither", "uniform choice, broad prior", PF_STATISTIC_MATCHED,
     PF_RULE_RANDOM, NULL, true, false, false, NULL, NULL},
    {"group", "Group", "EG-MPT on probes that look at several mechanisms at once",
     PF_STATISTIC_MATCHED, PF_RULE_BEST, pf__value_bayes_risk, true, true, true, NULL, NULL},
    {"group:random", "Group, random", "the same probes, uniform choice; control arm",
     PF_STATISTIC_MATCHED, PF_RULE_RANDOM, NULL, true, true, true, NULL, NULL},
};

int pf_method_count(void)
{
    return (int)(sizeof methods / sizeof methods[0]);
}

const pf_method *pf_method_at(int index)
{
    return index >= 0 && index < pf_method_count() ? &methods[index] : NULL;
}

const pf_method *pf_method_find(const char *id)
{
    for (int i = 0; id && i < pf_method_count(); i++) {
        if (strcmp(methods[i].id, id) == 0) {
            return &methods[i];
        }
    }
    return NULL;
}
