// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_SAID_H
#define PF_SAID_H

#include "words.h"

#include <jansson.h>

// What a check said, read again from its certificate or from the last readiness of its journal.
// One reader for explain and the sheet. It may have been edited or cut: whatever is missing, of
// another kind or in contradiction to the rest is refused, so nothing is ever made up.

typedef struct pf_said_audit {
    int entries, covered, sessions, false_go;
    double worst_upper;
} pf_said_audit;

typedef struct pf_said {
    json_t *json;         // the caller's: texts and the getters point into it
    const pf_kit *limits; // the kit, where limits are known; Nullable
    double alpha, j_min;
    bool rehearses; // its rules do
    // of a certificate only
    bool certificate;
    const char *plant, *kit; // sha256
    const char *injected;    // "": none
    const char *signer;      // of the kit. "": nobody was asked for
    pf_accepted accepted;
    int n_weakened; // settings that weaken the verdict
    bool audited;
    pf_said_audit audit;
    // of both
    pf_odd odd;
    int probes, rehearsals;
    double charge;
    int n_mechanisms, n_tasks; // candidates; tasks
} pf_said;

// kit: that of a journal, whose readiness knows neither alpha nor j_min. Nullable: json must be a
// certificate. It must outlive what was read.
pf_status pf__said_read(pf_said *said, json_t *json, const pf_kit *kit, pf_error *error);

// Of what was read: candidate 1 to n_mechanisms, and a task. Without a kit it is not known what
// limits let through of a correction (NaN), nor is the name of mechanism 0.
pf_found pf__said_mechanism(const pf_said *said, int mechanism);
pf_found pf__said_finding(const pf_said *said, int mechanism); // and what the tasks say of it
bool pf__said_doubtful(const pf_said *said);                   // whether a finding is odd itself
void pf__said_task(const pf_said *said, int task, pf_task_said *out);

// What setting i weakens, in words.
const char *pf__said_weakened(const pf_said *said, int i);

// A text, "" where there is none.
const char *pf__said_text(json_t *object, const char *key);

#endif
