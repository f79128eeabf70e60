// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_BRIDGE_HELLO_H
#define PF_BRIDGE_HELLO_H

#include "preflight/plant.h"

#include <jansson.h>

// Room for the reason of a refusal.
#define PF_WHAT_SIZE 220

// What the child said in its hello. Names point into hello.
typedef struct pf_description {
    json_t *hello;
    char *source; // "name version"
    pf_mechanism *mechanisms;
    pf_channel *channels;
    pf_channel_kind *kinds;
    pf_policy *policies;
    int *policy_task; // which of the child's tasks a policy is
    int *indices;     // mechanisms of all policies
    int n_mech, n_chan, n_state, n_policies;
    double dt_s;
    // what it suggests, all optional
    pf_pulse probe, task; // rows 0: none
    double *numbers;      // amplitudes of both, reveal, importance, charge
    const double *reveal, *importance, *charge;
    bool deterministic;
    double timeout_s; // for one trajectory; 0: ours
    int n_metrics, draws;
    const char **metrics; // names, of a plant with measures of its own
    double sensor_noise;
    int n_faults;
    pf_plant_fault *faults; // that it declares
    bool raw;               // numbers of a trajectory are bytes behind a line, not text
    const char **words;     // n_mech + 1: about each mechanism, then the machine. NULL: nothing.
} pf_description;

// Reads a hello and takes it over; on failure says why in what (PF_WHAT_SIZE). Free the description
// in any case.
pf_status pf__description_parse(json_t *hello, pf_description *about, char *what);
void pf__description_free(pf_description *about);

// The description as a plant tells it; name must live as long as the plant.
pf_plant_info pf__description_info(const pf_description *about, const char *name);

// Whether two hellos describe the same plant. Versions may differ in wording only.
bool pf__description_same(const pf_description *a, const pf_description *b);

// Foreign text for a message: one line of printable ASCII, cut.
#define PF_QUOTE_SIZE 80
void pf__bridge_quote(char out[PF_QUOTE_SIZE], const char *text, size_t size);

// Says why in what (PF_WHAT_SIZE) and returns PF_ERR_PLANT, or PF_ERR_MEMORY.
pf_status pf__bridge_refuse(char *what, const char *format, ...)
#ifdef __GNUC__
    __attribute__((format(printf, 2, 3)))
#endif
    ;
pf_status pf__bridge_no_memory(char *what);

#endif
