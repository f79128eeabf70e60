// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_LIMITS_H
#define PF_LIMITS_H

#include "plan.h"

// What a machine may be asked for: the section `design` of a configuration. Designed probes obey
// it, and so do rehearsals.

// What one mechanism may be asked for. A level is a share of the amplitude, 1 or -1 where no rate
// says otherwise.
typedef struct pf_design_bound {
    double amplitude;   // of level 1; the sign is that of the plant's own pulse
    double lo, hi;      // commands allowed, within the mechanism's own limits
    double rate;        // most change from one row to the next, the first one from rest; may be inf
    bool one_sided;     // no level below zero
    bool zero_integral; // the commands of a probe add up to zero
} pf_design_bound;

// All of it resolved against a plan; lives in one piece of memory of its own.
typedef struct pf_design_config {
    double target;     // separation that every candidate shall reach in one probe
    int steps;         // rows with a command
    int rows;          // rows of a response, steps and what follows them
    int at_once;       // most targets of one probe
    int starts;        // of the exchange, per group
    int episodes;      // nominal ones that confirm a probe; two fifths of it per weakened target
    bool with_singles; // the single pulses go into the library too
    bool compare;      // measure the other families as well
    int n_mech, n_chan;
    const pf_design_bound *bounds; // n_mech; entry 0 is not used
    const bool *apart;             // n_mech x n_mech, symmetric: never in one probe
    const double *most;            // n_chan: how far a probe may move an output, raw units; inf
    void *memory;                  // owned
} pf_design_config;

// Reads the section of the plan's configuration; where it says nothing the plan's single pulses say
// it: their amplitude, length and limits. A constraint that is contradictory or names what is not
// there is refused by its name. Free follows whatever it returned.
pf_status pf__limits_read(pf_design_config *config, const pf_plan *plan, pf_error *error);
void pf__limits_free(pf_design_config *config);

// Refuses what a mechanism is allowed, by the key and the place in the file.
pf_status pf__limits_refuse(const pf_plan *plan, int mechanism, const char *key, const char *why,
                            pf_error *error);

#endif
