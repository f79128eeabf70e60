// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_FIDELITY_H
#define PF_FIDELITY_H

#include "report.h"

// How close our numbers are to the paper's: number by number, in the order of the methods, and in
// what the paper says in words.

typedef struct pf_fidelity_row {
    pf_paper_row paper;
    double ours, lo, hi, n; // ours NaN: we do not produce it
    bool agree;             // our interval holds the paper's number, or the paper's +- sd ours
    bool again;             // the same number stood in another row: not counted
    char predictor[12];
    int64_t done, total; // trials of its suite
} pf_fidelity_row;

// A sentence of the paper as a comparison: METHOD or METHOD@SETTING on either side, or a number, or
// `baselines` (each of the seven) on the right.
typedef struct pf_claim {
    char id[PF_PAPER_WORD], place[PF_PAPER_WORD], suite[PF_PAPER_WORD];
    char environments[160]; // `each`, one of its own, or several with spaces
    char setting[PF_PAPER_WORD], metric[PF_PAPER_WORD];
    char left[PF_PAPER_WORD], relation[4], right[PF_PAPER_WORD];
    double margin; // that the left side must be beyond the right one
    int least;     // environments in which it must hold; 0: all
    char words[300];
    int held, of; // environments in which it does, and in which it must be said
    int close; // of those, with the nearest difference inside its 95 % interval, where we have one
    int unknown; // environments in which it cannot be said; with one the claim is not tested
} pf_claim;

typedef struct pf_fidelity {
    pf_fidelity_row *row;
    int n, n_claims;
    pf_claim *claim;
    const char *profile;
    const char *settings; // other than the suites'. Nullable.
} pf_fidelity;

// All numbers of the paper, none of them ours yet, and the claims of paper_claims.csv in the
// folder.
pf_status pf__fidelity_init(pf_fidelity *fidelity, const pf_paper *paper, const char *folder,
                            pf_error *error);
void pf__fidelity_free(pf_fidelity *fidelity);

// Our numbers of a suite.
typedef struct pf_fidelity_suite {
    const char *name, *predictor;
    const pf_entries *entries;
    int64_t done, total; // trials
} pf_fidelity_suite;
void pf__fidelity_take(pf_fidelity *fidelity, const pf_fidelity_suite *suite);

// What it comes to.
typedef struct pf_fidelity_sum {
    int numbers, produced, agree;
    double median; // of |ours - paper| over the paper's sd, where it prints one; NaN: none
    double width;  // median of half our interval over the paper's sd there
    int cells;     // with at least three methods on both sides
    double tau;    // mean over them of Kendall's tau-b of the order of the methods
    int claims, held, unknown;
} pf_fidelity_sum;
// Of one suite; NULL: of all.
pf_fidelity_sum pf__fidelity_sum(const pf_fidelity *fidelity, const char *suite);

// Forgets in both what one of them lacks, so that their sums can be compared.
void pf__fidelity_match(pf_fidelity *a, pf_fidelity *b);

// table,environment,setting,metric,method,paper,ours,lo,hi,agree,profile,predictor,n
void pf__fidelity_csv(const pf_fidelity *fidelity, pf_text *out);
void pf__fidelity_md(const pf_fidelity *fidelity, pf_text *out);
// A picture, .svg or .png: by table what agrees and what we produce, as shares of its numbers. stop
// (Nullable) ends the wait for gnuplot.
pf_status pf__fidelity_draw(const pf_fidelity *fidelity, const char *picture,
                            const volatile int *stop, pf_error *error);

// The same by reading: one row each of all numbers.
typedef struct pf_fidelity_reading {
    char name[64]; // "edges=nominal"
    pf_fidelity_sum sum;
    pf_fidelity_sum before; // of the first reading, over the same numbers and claims
} pf_fidelity_reading;
void pf__readings_md(const pf_fidelity_reading *readings, int n, const char *profile,
                     const char *settings, pf_text *out);
void pf__readings_csv(const pf_fidelity_reading *readings, int n, const char *profile,
                      pf_text *out);
pf_status pf__readings_draw(const pf_fidelity_reading *readings, int n, const char *picture,
                            const volatile int *stop, pf_error *error);

#endif
