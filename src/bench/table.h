// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_TABLE_H
#define PF_TABLE_H

#include "host/text.h"
#include "stats.h"
#include "paper.h"

// What a table or a figure of a suite is made of.
typedef struct pf_report {
    const char *suite, *title;
    const char *table; // "metrics", "ranks" or "ladder"
    const char *profile, *hash;
    const char *settings;        // what was set otherwise than in the suite. Nullable.
    int64_t done, failed, total; // trials; fewer done than there are is said below a table
    const char *const *metrics;  // shown first
    int n_metrics;
    double alpha, g_cal;
    const pf_entries *entries;
    const pf_paper *paper;
} pf_report;

// suite,environment,setting,metric,method,mean,sd,lo,hi,n,paper_mean,paper_sd; every entry; a value
// that is not defined is empty.
void pf__table_csv(const pf_report *report, pf_text *out);

// For reading: format is "md" or "tex".
pf_status pf__table_text(const pf_report *report, const char *format, pf_text *out,
                         pf_error *error);

// The setting a table or figure shows first: the one that the paper prints, else the most pooled.
const char *pf__report_setting(const pf_report *report);

#endif
