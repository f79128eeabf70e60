// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_METHOD_H
#define PF_METHOD_H

#include "belief.h"

// What a rule may look at when it values one target of one probe. All of it is categorical: no
// gain, no coordinate (invariant 1).
typedef struct pf_look {
    int m;
    const double *belief; // m + 1, after the hazard
    const double *weight; // m
    const pf_risk_terms *terms;
    double g_cal;
    int mechanism;
    const pf_channel_row *row;
    double own_evidence; // cumulative log-likelihood ratio of the mechanism
    int own_readings;    // informative readings of it
    int opportunity;     // t, from 0
} pf_look;

// Value of one target before division by the charge; values of a probe's targets are added.
double pf__value_bayes_risk(const pf_look *look);
double pf__value_bandit(const pf_look *look);
double pf__value_sept(const pf_look *look);
double pf__value_asid_fim(const pf_look *look);
double pf__value_opax(const pf_look *look);
double pf__value_task_oed(const pf_look *look);

const char *pf__statistic_name(pf_statistic statistic);

#endif
