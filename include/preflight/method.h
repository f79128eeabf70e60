// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PREFLIGHT_METHOD_H
#define PREFLIGHT_METHOD_H

#include "preflight/belief.h"
#include "preflight/rng.h"

#ifdef __cplusplus
extern "C" {
#endif

// Which number a response is turned into before it is quantised.
typedef enum pf_statistic {
    PF_STATISTIC_MATCHED = 0, // signed matched score, one per target
    PF_STATISTIC_NORM = 1     // norm of the residual, one target only
} pf_statistic;

PF_API const char *pf_statistic_name(pf_statistic statistic);

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
    int own_readings;    // times it was looked at
    int opportunity;     // t, from 0
} pf_look;

// Value of one target before division by the charge; values of a probe's targets are added.
typedef double (*pf_value_fn)(const pf_look *look);

// How the value is used.
typedef enum pf_rule {
    PF_RULE_BEST,     // the largest value per charge
    PF_RULE_SCHEDULE, // probes sorted once by value per charge, then cycled
    PF_RULE_RANDOM    // uniform; has no value
} pf_rule;

// A method is a row of this table; nothing else differs between methods.
typedef struct pf_method {
    const char *id;    // "eg-mpt"
    const char *label; // "EG-MPT"
    const char *line;  // One line for `list methods`.
    pf_statistic statistic;
    pf_rule rule;
    pf_value_fn value; // NULL with PF_RULE_RANDOM
    bool gate;         // false: every coordinate is admitted
    bool transport;    // false: stage 2 starts from the broad prior
    bool group;        // experiments give it the suite's library of group probes
} pf_method;

PF_API int pf_method_count(void);
PF_API const pf_method *pf_method_at(int index);
// NULL when there is none of that id.
PF_API const pf_method *pf_method_find(const char *id);

// The values themselves, before division by the charge.
PF_API double pf_value_bayes_risk(const pf_look *look);
PF_API double pf_value_bandit(const pf_look *look);
PF_API double pf_value_sept(const pf_look *look);
PF_API double pf_value_asid_fim(const pf_look *look);
PF_API double pf_value_opax(const pf_look *look);
PF_API double pf_value_task_oed(const pf_look *look);

#ifdef __cplusplus
}
#endif
#endif
