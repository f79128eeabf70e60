// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_KIT_JSON_H
#define PF_KIT_JSON_H

#include "preflight/kit.h"

// Checks what `kit show --json` prints of a kit of the attitude plant: every key of formats.md, and
// every number equal to the kit's to the bit.
void check_kit_json(const pf_kit *kit);

#endif
