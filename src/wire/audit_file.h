// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_AUDIT_FILE_H
#define PF_AUDIT_FILE_H

#include "audit/audit.h"

// The result of an audit as a file beside the kit: KIT.audit.json. It is written after every entry,
// so that an audit that was stopped goes on.

// The largest file of an audit.
#define PF_AUDIT_BYTES ((size_t)1 << 26)

// What is said of a file that is refused.
#define PF_AUDIT_DAMAGED "is no audit, or a damaged one, or its numbers contradict each other"

// Where the audit of a kit is kept; free() it. NULL: out of memory.
char *pf__audit_path(const char *kit);

// All of it as JSON: what was audited, and the entries that `known` marks.
void pf__audit_json(pf_text *out, const pf_audit *audit, const bool *known,
                    const pf_audit_result *results);

// What follows takes the bytes of an earlier file, NULL where there is none, so that what was
// verified is what is used. Refused where they are no audit.

// Takes over the entries of an earlier audit with the same kit, catalogue, sessions and seed; *n
// counts them. Of another one, or of none, nothing is taken over.
pf_status pf__audit_resume(const char *text, size_t n_text, const pf_audit *audit, bool *known,
                           pf_audit_result *results, int *n, pf_error *error);

// Whether they are another audit of this kit and machine that this one would not make up for: with
// more sessions, with a fault that is not in the catalogue, or with rules that are left out. what:
// that, in words; empty where nothing is lost.
pf_status pf__audit_would_lose(const char *text, size_t n, const pf_audit *audit, char *what,
                               size_t size, pf_error *error);

// What a certificate says of the audit of its kit, as members of an object: entries, sessions, the
// false ones of promised entries and their upper limit at worst. Gives false, and adds nothing,
// where the text of the file is no whole audit of this very kit and machine.
// unrehearsed: what counts is the verdict without rehearsals, since the operator accepts that.
// words: "audited against ... ." and, where that is more than alpha allows, what it means.
bool pf__audit_summary(pf_text *out, const char *text, size_t n_text, const char *kit_sha256,
                       const pf_plant *machine, bool unrehearsed, double alpha, pf_text *words);

// Whether bytes are no audit any more: cut off, overwritten, or with numbers that cannot be.
bool pf__audit_damaged(const char *text, size_t n);

// The audit of a kit as a table of an HTML page, entry by entry, unfinished ones too. False, and
// nothing is added, where this is no audit of the kit.
bool pf__audit_table(pf_text *html, const char *text, size_t n_text, const char *kit_sha256);

#endif
