// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_AUDIT_H
#define PF_AUDIT_H

#include "host/ranks.h"
#include "host/text.h"
#include "preflight/run.h"
#include "settings/schema.h"

// An audit puts the shipped check on machines with every fault of a catalogue, flies every task
// that comes out go, and counts how often that was false.

// --- the catalogue

typedef struct pf_audit_entry {
    char *name;
    char *fault;     // "none", a kind of fault, gain_along or gain_against
    double value;    // NaN: the kind's own
    double from, to; // the value is drawn from here to there. NaN: it is not drawn
    double second;   // gain of another candidate. NaN: none
    int on;          // pf_fault_place, -1: of a mechanism
    int promised;    // whether a false go of it counts against the aim; not given: -1, it does
    pf_place place;
} pf_audit_entry;

typedef struct pf_catalogue {
    int n;
    pf_audit_entry *entries;
    char sha256[65]; // of the text
} pf_catalogue;

// Reads a catalogue (YAML, called `file` in messages); text NULL: the one that comes with the
// program. Free follows whatever it returned.
pf_status pf__catalogue_read(pf_catalogue *catalogue, const char *file, const char *text, size_t n,
                             pf_error *error);
void pf__catalogue_free(pf_catalogue *catalogue);
// The entry of a name; NULL: there is none.
const pf_audit_entry *pf__catalogue_find(const pf_catalogue *catalogue, const char *name);

// The faults of one session of an entry: where in turn, and which value. faults has room for 2.
// PF_ERR_UNSUPPORTED: this plant cannot have it.
pf_status pf__catalogue_faults(const pf_audit_entry *entry, const pf_kit *kit,
                               const pf_plant_info *info, uint64_t seed, int session,
                               pf_fault *faults, int *n, pf_error *error);

// --- what it looks like

// One run that a session saw.
typedef struct pf_observed {
    int probe; // -1: a rehearsal
    int task;  // of a rehearsal, the first
    int rows;
    const double *command;  // rows x n_mech, as it was sent
    const double *start;    // n_state
    const double *response; // rows x n_chan
} pf_observed;

// The fault of the catalogue that explains the runs much better than any gain does; found false:
// none.
pf_status pf__looks_like(const pf_kit *kit, pf_plant *twin, const pf_catalogue *catalogue, int n,
                         const pf_observed *runs, pf_fault *fault, bool *found, pf_error *error);

// --- what was found

// One way to decide, counted over the sessions of an entry.
typedef struct pf_audit_count {
    int go;          // tasks that were go
    int below_bound; // of them, flown below their bound
    int below_j_min; // and below j_min
    int false_go;    // sessions with at least one of the latter
    int all_go;      // sessions with every task go
} pf_audit_count;

// --- what practitioners would do instead

enum { PF_RULE_THRESHOLD, PF_RULE_LEAST_SQUARES, PF_RULE_REHEARSAL_ONLY, PF_RULES };
const char *pf__rule_name(int rule);

// One machine that a rule decides about.
typedef struct pf_rule_trial {
    const pf_kit *kit;
    pf_plant *plant;
    const pf_model *model; // Nullable
    uint64_t seed;
    const pf_fault *faults; // Nullable
    int n_faults;
} pf_rule_trial;

typedef struct pf_rule_verdict {
    bool *go;           // n_tasks
    double *correction; // n_mech
    int runs;           // of the machine
} pf_rule_verdict;

pf_status pf__rule_decide(int rule, const pf_rule_trial *trial, pf_rule_verdict *verdict,
                          pf_error *error);

typedef struct pf_audit_result {
    const char *name;
    bool covered;  // false: the plant cannot have this fault, or
    bool broke;    // it failed while it had it: nothing is known
    char why[240]; // then
    bool promised;
    int sessions, tasks;
    int alarm;  // sessions
    int misfit; // sessions
    int named;  // sessions in which exactly the changed mechanisms were named
    int within; // sessions in which the 90 % interval holds the gain; -1: the entry is no gain
    int probes; // all of them
    int rehearsals;
    pf_audit_count with, without; // rehearsal; without it a go-if counts as go
    pf_audit_count rules[PF_RULES];
    int rule_runs[PF_RULES]; // of the machine
} pf_audit_result;

// The largest rate of false sessions that k of n are still compatible with, at 95 %.
double pf__audit_upper(int k, int n);

typedef struct pf_audit {
    const pf_kit *kit;
    pf_plant *plant;       // the kit's machine
    const pf_model *model; // Nullable
    const pf_catalogue *catalogue;
    int sessions; // per entry
    uint64_t seed;
    bool rules; // the practitioners' rules decide about the same machines too
    const pf_effort *effort;
    pf_ranks *ranks; // of an MPI job: rank 0 hands out the sessions, others fly them. Nullable.
    // After every entry, from one thread. Nullable.
    pf_status (*done)(void *self, int entry, const pf_audit_result *result, pf_error *error);
    void *self;
} pf_audit;

// One machine, whatever is wrong with it.
typedef struct pf_audit_machine {
    pf_plant *plant;
    pf_plant *twin;         // what predicts. Nullable: the plant itself
    uint64_t seed;          // of its check
    const pf_fault *faults; // with their units. Nullable: none
    int n_faults;
} pf_audit_machine;

// What a session showed besides its counts. Each array has n_tasks.
typedef struct pf_audit_detail {
    double gain_error; // mean of |estimate - gain| over the gains put in; NaN: there are none
    int32_t *decision; // pf_decision
    double *lower;     // bound on the return; NaN: none
    double *flown;     // return on this machine, with the session's corrections
} pf_audit_detail;

// The seed of a session of what is called `name`.
uint64_t pf__audit_seed(uint64_t seed, const char *name, int session);

// The check of one machine and its tasks flown, counted as a result of one. detail (Nullable) has
// every task flown, not those alone that count.
pf_status pf__audit_machine(const pf_audit *audit, const pf_audit_machine *machine,
                            pf_audit_result *result, pf_audit_detail *detail, pf_error *error);

// One session of an entry on a plant of the caller's, counted as a result of one. What the plant
// cannot have is PF_ERR_UNSUPPORTED.
pf_status pf__audit_session(const pf_audit *audit, pf_plant *plant, const pf_audit_entry *entry,
                            int session, pf_audit_result *result, pf_error *error);

// Runs the entries that `known` (Nullable: none) does not mark as done; results has one per entry.
// A rank that only flies sessions has neither.
pf_status pf__audit_run(const pf_audit *audit, const bool *known, pf_audit_result *results,
                        pf_error *error);

// --- a kit that was chosen by its audit

// P(at most k of n are false) where the rate is `rate`: small where the rate must be lower.
double pf__audit_p_value(int k, int n, double rate);

// Chooses how strict the verdict of a kit is, so that every entry has at most alpha of false
// sessions at a confidence of 95 %, while as many right go verdicts as possible are kept. *image is
// the chosen kit, free() it; results are its audit; not_covered marks entries for which no setting
// does (one per entry). *chosen counts the settings that passed.
pf_status pf__audit_choose(const pf_audit *audit, void **image, size_t *n_image, bool *not_covered,
                           pf_audit_result *results, int *chosen, pf_error *error);

// The settings that are tried, the strictest first; gives how many.
int pf__audit_settings(int index, double *level, double *strictness);

#endif
