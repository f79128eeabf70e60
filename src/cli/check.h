// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_CLI_CHECK_H
#define PF_CLI_CHECK_H

#include "cli.h"
#include "host/arena.h"
#include "host/log.h"
#include "preflight/run.h"
#include "wire/audit_file.h"
#include "wire/journal.h"
#include "wire/words.h"

// One check as `check` and `demo` run it: driven to its end, with its journal, its certificate and
// what it says to a person.
typedef struct cli_check {
    // what is checked; not owned
    const void *image; // of the kit
    size_t n_image;
    const pf_kit *kit;
    cli_trust trust;      // of its audit
    const char *signer;   // of the kit. NULL or "": nobody was asked for
    const char *kit_path; // whose audit is looked for. NULL: the kit is in no file
    pf_plant *machine;
    pf_plant *twin;  // the kit's simulator, where the machine is another. Nullable.
    pf_model *model; // of a kit that predicts with one. Nullable.
    const char *method;
    const pf_fault *faults;
    int n_faults;
    uint64_t seed;
    pf_accepted accepted;
    const char *journal_path; // where the journal is written as it goes. Nullable.
    bool live;                // shows every run when it is done
    bool likeness; // looks for a fault of the catalogue that explains what no gain explains

    pf_session *session;
    pf_text journal, certificate;
    pf_status lost;       // PF_OK, or why a record or a part of the certificate is missing
    pf_error error;       // of that
    pf_text runs;         // a table, for cli_show
    char looks_like[120]; // "": nothing that the catalogue knows
    pf_text audit;        // what the kit was audited against

    pf_log log; // of the journal
    pf_check *check;
    pf_witness witness;
    cli_columns columns;     // of the runs
    const double *rehearsed; // the command of the rehearsal under way
    bool alarmed;            // before the run under way
    bool named[PF_MECH_MAX]; // mechanisms that a row has named
    pf_observed *observed;   // what was seen, for the search of a likeness
    int n_observed;
    pf_arena arena; // of what was seen
} cli_check;

// Runs it to its end and certifies. Where it fails the journal holds what was observed until then,
// and so does its file.
pf_status cli_check_run(cli_check *c, pf_error *error);
// Then looks for a likeness, ends the journal and writes the certificate.
void cli_check_finish(cli_check *c);
// What was done, found and follows. What was shown live is not said again.
void cli_check_show(const cli_check *c);
// page: as a page of its own, else as a part of one.
pf_status cli_check_sheet(const cli_check *c, bool page, pf_text *html, pf_error *error);
void cli_check_close(cli_check *c);

#endif
