// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_LEDGER_H
#define PF_LEDGER_H

#include "bank.h"

// What the nominal trials of an alarm calibration said, by trial, opportunity and probe. Kits that
// differ in bins, episodes, methods or what tasks are worth put the same questions to the same
// machine; with a ledger the simulator and the model answer them once.

// Answers of later opportunities are not kept.
enum { PF_LEDGER_OPPORTUNITIES = 10 };

typedef struct pf_ledger {
    char key[65]; // names all that an answer depends on
    int trials, probes, most;
    size_t n;       // numbers
    double *number; // per answer its norm, NaN where there is none, and `most` matches
    long fresh;     // answers since it was made or read
} pf_ledger;

// An empty one for trials of this bank's kit; fingerprint: of the plant.
pf_status pf_ledger_init(pf_ledger *ledger, const pf_bank *bank, uint64_t seed, int trials,
                         const char *fingerprint, pf_error *error);
void pf_ledger_free(pf_ledger *ledger);

// Takes over what was kept under the same key. False, and it stays as it was: these are none.
bool pf_ledger_read(pf_ledger *ledger, const void *bytes, size_t n);

// Gives the bank, started for a nominal trial, the answers that are there; takes those it found.
void pf_ledger_give(const pf_ledger *ledger, int trial, pf_bank *bank);
void pf_ledger_take(pf_ledger *ledger, int trial, const pf_bank *bank);

#endif
