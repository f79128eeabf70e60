// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_VERDICT_H
#define PF_VERDICT_H

#include "audit/audit.h"
#include "trial.h"

// The verdict suite: sessions of an audit as trials. Its settings are entries of the catalogue, its
// methods are rules that decide about the same machines.

// Which rule a name is; -1: none.
int pf__verdict_rule(const char *name);
// All names, with a space before each.
void pf__verdict_names(char out[128]);
// Which kit a rule has: 0, that of the settings; 1, the same with the rules of version 0.1.
int pf__verdict_kit(int rule);

typedef struct pf_verdict_trial {
    const pf_catalogue *catalogue;
    const char *entry;
    pf_plant *plant;
    const pf_model *model;    // Nullable
    const pf_kit *const *kit; // two; the second is Nullable where no rule needs it
    uint64_t seed;
    int session;
} pf_verdict_trial;

// One session, decided by every rule; results in their order. Where the plant cannot have the fault
// nothing is defined.
pf_status pf__verdict_run(const pf_verdict_trial *trial, int n_rules, const char *const *rules,
                          pf_trial_result *results, pf_error *error);

#endif
