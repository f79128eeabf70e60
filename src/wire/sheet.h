// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_SHEET_H
#define PF_SHEET_H

#include "host/text.h"

// The sign-off sheet of a check: one HTML page from its journal, which must replay and end in a
// readiness. It needs nothing else: no network, no script, styles and pictures inside, A4 when
// printed. certificate (Nullable): that of the check, as JSON; it knows the audit, what was
// accepted and what the responses look like. Names in it come from files: they are escaped.
pf_status pf__sheet(const char *journal, size_t n, const char *certificate, pf_text *html,
                    pf_error *error);
// The same as a part of a page of several, which the caller opens and closes (host/page.h).
pf_status pf__sheet_section(const char *journal, size_t n, const char *certificate, pf_text *html,
                            pf_error *error);

#endif
