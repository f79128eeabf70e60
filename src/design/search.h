// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_SEARCH_H
#define PF_SEARCH_H

#include "host/text.h"
#include "calibrate/limits.h"
#include "preflight/design.h"

// What the section `design` of the plan's configuration asks for, and where it says nothing as the
// plan's single pulses: their amplitude, length and limits. A constraint that is empty,
// contradictory or names what is not there is refused by its name.
pf_status pf__design_config_read(pf_design_config *config, const pf_plan *plan, pf_error *error);

// Whether a command (rows x n_mech, at most config->rows of them) obeys everything but `most`; the
// error names the constraint that it breaks.
pf_status pf__design_allows(const pf_design_config *config, const pf_plan *plan, int rows,
                            const double *command, pf_error *error);

// One target of one probe.
typedef struct pf_design_target {
    int probe, mechanism;
    double linear;    // separation by superposition of impulse sensitivities; NaN: not asked for
    double predicted; // by the predictor's own signatures and the covariance of its residuals
    double confirmed; // by simulated episodes
    double lo, hi;    // its 95 % limits
    double weakened;  // the same distance in standard deviations of the coefficient at g_cal
    double remaining; // |h'|/|h|, median over starts
    bool accepted;    // calibration will take it: not collinear, 3 dispersions apart
    bool good;        // accepted, and confirmed reaches the target
} pf_design_target;

typedef struct pf_design_probe {
    pf_plan_probe probe;
    int first;               // its first entry in targets
    int pair[2];             // mechanisms with the most collinear signatures; 0 0: one target
    double collinearity;     // |<h1,h2>|/(|h1||h2|) of that pair, mean over starts
    const double *excursion; // n_chan: largest predicted move away from the free response
} pf_design_probe;

// A library of one family, measured.
typedef struct pf_design_library {
    const char *family; // "exchange", "single", "hadamard", "multisine"
    int n_probes, n_targets;
    pf_design_probe *probes;
    pf_design_target *targets;
    double smallest;   // confirmed separation, over all its targets
    double worst_move; // excursion over the channel's scale, largest over its probes and channels
    char broken[160];  // the constraint that it does not obey; empty: none
} pf_design_library;

typedef struct pf_design {
    pf_design_library library; // the designed probes, then the single pulses where asked for
    int n_designed;            // of its probes
    int n_families;            // compared ones: exchange, single, hadamard, multisine
    pf_design_library families[4];
    int n_weak; // candidates that no allowed probe separates by the target
    const int *weak;
    int n_pairs; // pairs that no allowed probe tells apart at once; looked for with several probes
    const int *pairs; // n_pairs x 2
    int n_left;       // single pulses left out, because they break a constraint or show too little
    const int *left;
    const double *scale; // n_chan: what moves are measured in
    void *memory;        // owned
} pf_design;

// Designs a library on a plant with a learned model (Nullable: a twin). Random draws come from the
// plan's seed; the result is the same for any number of threads. Where nothing at all can be
// separated, PF_ERR_DEGENERATE names the reason; otherwise candidates short of the target are
// listed in `weak`.
pf_status pf__design_create(pf_design *design, const pf_design_config *config, const pf_plan *plan,
                            pf_plant *plant, const pf_model *model, const pf_effort *effort,
                            pf_error *error);
void pf__design_free(pf_design *design);

// Designs a library without comparing families and replaces the probes of the plan by it. config:
// Nullable, what the plan's own configuration asks for. Tasks stay.
pf_status pf__plan_design(pf_plan *plan, const pf_design_config *config, pf_plant *plant,
                          const pf_model *model, const pf_effort *effort, pf_error *error);

// The library as YAML: how it was made, the machine it is for, its probes in the syntax of a
// configuration. `predictor` goes into the comment only. Check text->failed.
void pf__library_write(const pf_design *design, const pf_design_config *config, const pf_plan *plan,
                       const char *predictor, pf_text *text);

#endif
