// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_IDENTITY_H
#define PF_IDENTITY_H

#include "preflight/plant.h"

// Does this file belong to this plant? Kits, models, transitions and probe libraries ask it here.

// A comparison that stops at the first difference: "WHAT is A in WHERE and B here; ADVICE".
typedef struct pf_comparison {
    const char *where;  // "the kit"
    const char *advice; // what to do
    pf_error *error;
    pf_status status; // PF_OK or PF_ERR_MISMATCH
} pf_comparison;

void pf__differ(pf_comparison *c, const char *what, const char *name, const char *was,
                const char *is);
void pf__same_text(pf_comparison *c, const char *what, const char *was, const char *is);
void pf__same_number(pf_comparison *c, const char *what, const char *name, double was, double is);

// What a file says of the plant it was made for.
typedef struct pf_identity {
    const char *plant, *source;  // Nullable: it does not say
    double dt_s;                 // negative: it does not say
    int n_mech, n_chan, n_state; // negative: it does not say
    const void *self;
    const char *(*mechanism)(const void *self, int mechanism); // names
    const char *(*channel)(const void *self, int channel);     // Nullable with n_chan < 0
    const pf_mechanism *limits;                                // Nullable: it does not say
    const pf_channel_kind *kinds;                              // Nullable: it does not say
} pf_identity;

// Whether two plants have the same channels and mechanisms, whatever else they are.
pf_status pf__plants_alike(pf_comparison *c, const pf_plant_info *a, const pf_plant_info *b);

// environment: what the plant is called in files, its own name or that of its random streams.
pf_status pf__identity_same(pf_comparison *c, const pf_identity *file, const char *environment,
                            const pf_plant_info *plant);

#endif
