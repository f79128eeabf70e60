// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_CONFIG_H
#define PF_CONFIG_H

#include "settings.h"

// A configuration as its author wrote it: every key optional, nothing resolved against a plant.
// Read from YAML against one schema table; --set overrides go through the same table. Numbers not
// given are NaN, counts not given -1, strings not given NULL.

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

// Control steps of a pulse that gives none.
enum { PF_PULSE_STEPS = 8 };

typedef struct pf_config_probe {
    char *name;
    pf_config_matrix command;
    char *pulse_mechanism; // NULL: no pulse
    double pulse_amplitude;
    int pulse_steps; // -1: PF_PULSE_STEPS
    int pulse_rows;  // -1: as many as steps
    char *policy;    // NULL: an open loop
    int rows;        // of the policy, -1: not given
    double charge;
    pf_config_refs targets;
    pf_place place;
} pf_config_probe;

typedef struct pf_config_task {
    char *name;
    pf_config_refs mechanisms;
    pf_config_matrix command;
    char *policy;
    char *fallback; // NULL: the uncorrected command
    double reveal, importance;
    pf_place place;
} pf_config_task;

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
    pf_settings settings;
    pf_config_design design;
} pf_config;

// Reads text (n bytes, called `file` in messages; text NULL: an empty configuration), applies the
// overrides ("a.b=value", value in YAML; lists by index: "probes.0.charge=.1") and checks all of it
// against the schema. On failure *config is empty and the error says "file:line:column: key: what,
// what to do".
pf_status pf__config_read(pf_config *config, const char *file, const char *text, size_t n,
                          const char *const *overrides, int n_overrides, pf_error *error);

// Frees what read allocated and zeroes *config.
void pf__config_free(pf_config *config);

// False where the program was built without libyaml; then read takes words and numbers of
// overrides, and refuses any text with PF_ERR_UNSUPPORTED and a message that names the library.
bool pf__config_supported(void);

#endif
