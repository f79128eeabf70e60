// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_CONFIG_H
#define PF_CONFIG_H

#include "preflight/base.h"

// A configuration as its author wrote it: every key optional, nothing resolved against a plant.
// Read from YAML against one schema table; --set overrides go through the same table. Numbers not
// given are NaN, counts not given -1, strings not given NULL.

// Where a value stands, for messages: "file:line:column". Line 0: from --set.
typedef struct pf_place {
    int line, column;
} pf_place;

typedef struct pf_config_mechanism {
    char *name;
    double lo, hi; // NaN: not given
    pf_place place;
} pf_config_mechanism;

typedef struct pf_config_channel {
    char *name;
    double scale; // NaN: not given
    pf_place place;
} pf_config_channel;

// A mechanism, task or probe is referred to by name or index; kept as text here.
typedef struct pf_config_refs {
    int n;
    char **text;
} pf_config_refs;

// rows x columns numbers, rectangular.
typedef struct pf_config_matrix {
    int rows, columns;
    double *value; // NULL: not given
} pf_config_matrix;

typedef struct pf_config_probe {
    char *name;
    pf_config_matrix command;
    char *pulse_mechanism; // NULL: no pulse
    double pulse_amplitude;
    int pulse_steps; // -1: not given
    double charge;
    pf_config_refs targets;
    pf_place place;
} pf_config_probe;

typedef struct pf_config_task {
    char *name;
    pf_config_refs mechanisms;
    pf_config_matrix command;
    char *policy;
    double reveal, importance;
    pf_place place;
} pf_config_task;

typedef struct pf_config_numbers {
    int n; // 0: not given
    double *value;
} pf_config_numbers;

// Lists of names, such as groups that must not act together.
typedef struct pf_config_ref_lists {
    int n;
    pf_config_refs *list;
} pf_config_ref_lists;

// What one mechanism may be asked for in a designed probe.
typedef struct pf_config_design_mechanism {
    char *name; // or index
    double amplitude, lo, hi, rate;
    int one_sided, zero_integral; // 0, 1, -1: not given
    pf_place place;
} pf_config_design_mechanism;

// How far a designed probe may move an output.
typedef struct pf_config_design_output {
    char *channel; // or index
    double most;
    pf_place place;
} pf_config_design_output;

typedef struct pf_config_design {
    double target, rate;
    int steps, at_once, starts, episodes;
    int one_sided, zero_integral, with_singles;
    pf_config_ref_lists apart;
    int n_mechanisms;
    pf_config_design_mechanism *mechanisms;
    int n_outputs;
    pf_config_design_output *outputs;
} pf_config_design;

typedef struct pf_config {
    char *file; // for messages; "--set" when there was none
    char *plant;
    int n_mechanisms;
    pf_config_mechanism *mechanisms;
    int n_channels;
    pf_config_channel *channels;
    int n_probes;
    pf_config_probe *probes;
    int n_tasks;
    pf_config_task *tasks;
    double g_cal;
    pf_config_numbers grid; // one number: how many points; several: the gains
    int bins;
    int episodes;
    int alarm_trials;
    int every_severity;      // 0, 1, -1: not given
    int sensed_start;        // the same
    pf_config_numbers prior; // one number: P(change); several: m + 1 probabilities
    double hazard;
    int budget_stage1, budget_stage2;
    double alpha, j_min;
    int stop;      // pf_stop, -1: not given
    int field;     // 0, 1, -1: not given
    int scale;     // pf_scale_rule, -1: not given
    int faults;    // pf_faults, -1: not given
    int weighting; // pf_weighting, -1: not given
    double sensor_noise;
    double seed; // an integer in 0..2^53-1, NaN: not given
    pf_config_design design;
} pf_config;

// Reads text (n bytes, called `file` in messages; text NULL: an empty configuration), applies the
// overrides ("a.b=value", value in YAML; lists by index: "probes.0.charge=.1") and checks all of it
// against the schema. On failure *config is empty and the error says "file:line:column: key: what,
// what to do".
pf_status pf_config_read(pf_config *config, const char *file, const char *text, size_t n,
                         const char *const *overrides, int n_overrides, pf_error *error);

// Frees what read allocated and zeroes *config.
void pf_config_free(pf_config *config);

// False where the program was built without libyaml; then read refuses anything but an empty
// configuration with PF_ERR_UNSUPPORTED and a message that names the library.
bool pf_config_supported(void);

// The known word nearest to `word` by edit distance, NULL if none is near (distance > 3 or more
// than half of the word).
const char *pf_nearest_word(const char *word, const char *const *known, int n);

#endif
