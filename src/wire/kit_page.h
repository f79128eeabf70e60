// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_KIT_PAGE_H
#define PF_KIT_PAGE_H

#include "host/text.h"
#include "preflight/kit.h"

// How good a calibration is, as one HTML page: how well each mechanism separates at each gain, the
// coordinates over the gain, the channels, what healthy tasks return and how much loss each can
// bear, the rehearsals, and the audit. audit (Nullable): the bytes of its file, shown if it is of
// this kit.
pf_status pf__kit_page(const pf_kit *kit, const char *audit, size_t n_audit, pf_text *html,
                       pf_error *error);

#endif
