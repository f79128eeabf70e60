// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_KIT_SECTIONS_H
#define PF_KIT_SECTIONS_H

// The part of the group `kit` about the table of sections: what a later program may add to a file,
// and what may not be wrong with it.
void check_kit_sections(void);

#endif
