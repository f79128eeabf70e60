// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_WEAKENED_H
#define PF_WEAKENED_H

#include "host/text.h"
#include "preflight/kit.h"

// Settings of a kit that make its verdict weaker than their defaults do. Every certificate lists
// them; check, explain and the sheet say them with these words.

enum { PF_WEAKENED_MOST = 12 };

typedef struct pf_weakened {
    const char *setting; // its key in a configuration
    char words[160];     // what it is, what it is by default, and what follows
} pf_weakened;

// Those of a kit; gives how many.
int pf__weakened(const pf_kit *kit, pf_weakened list[PF_WEAKENED_MOST]);

// A member of an object: [{"setting":..,"words":..}, ..], empty where all is as by default.
void pf__weakened_json(pf_text *out, const pf_kit *kit);

// A line for a person, and one more per setting; nothing where there is none.
void pf__words_weakened(pf_text *out, const pf_kit *kit);
void pf__words_weakened_head(pf_text *out);
void pf__words_weakened_one(pf_text *out, const char *words);

#endif
