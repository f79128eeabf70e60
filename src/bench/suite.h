// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_SUITE_H
#define PF_SUITE_H

#include "settings/config.h"
#include "preflight/plant.h"

// An experiment: ids with settings, environments, methods, explicit seeds. Read from suites/*.yaml
// against a schema; everything that varies is a list.
typedef struct pf_suite {
    char *id, *title, *paper;
    char *kind;   // "readiness", "mechanism", "coordinate" or "verdict"
    char *needs;  // what it needs beyond the program, for `bench list`. Nullable.
    char *cost;   // what it costs at paper scale, for `bench list`. Nullable.
    char *from;   // the suite whose units it shows; it then has none of its own. Nullable.
    char *table;  // "metrics", "ranks", "ladder" or "settings"
    char *figure; // the template that draws it. Nullable: bars.
    pf_config_refs environments, methods;
    const struct pf_own_methods *own; // methods that no table has, set by the caller. Nullable.
    const volatile int *stop;         // ends every wait for a process, set by the caller. Nullable.
    pf_config_refs named;   // `settings`: of a mechanism study "knob=NAME;value=X", of a verdict
                            // suite entries of the catalogue
    pf_config_refs metrics; // what its table shows first
    pf_config_numbers gains, stage2, bins, episodes; // axes
    int seeds, trials;
    pf_config_numbers opportunities; // axis: after the change at round 10; none: the paper's law
    char *predictor;                 // "twin" or "ensemble"
    pf_config_refs learned_on;       // see pf__suite_learned_on; none or `itself`: where it is used
    int recalibrate;                 // g_cal follows the true gain
    double nominal;                  // share of nominal trials
    // Complete; hazard is per round, sensor_noise NaN: as the plant's kits have it. Those for the
    // group methods are every_severity, faults and weighting; the others have the paper's. The
    // axes take the place of bins, episodes and budget2. With the verdict `field` they are those of
    // a configuration, for every method.
    pf_settings settings;
    // Axis: mechanisms that change at once, each to a gain drawn from `gains`, which is no axis
    // then. None: one, to the gain of the setting.
    pf_config_numbers n_faults;
    // What the group methods have instead of the paper's library: "single", "designed", or a file
    // whose {} stands for the environment. Nullable.
    char *probes;
} pf_suite;

// Reads and checks; overrides as in pf__config_read, but not of a suite that shows the units of
// another (`from`), where they act on that one. Methods and plants must exist, numbers must
// make sense, or it is refused before any work.
pf_status pf__suite_read(pf_suite *suite, const char *file, const char *text, size_t n,
                         const char *const *overrides, int n_overrides, pf_error *error);
void pf__suite_free(pf_suite *suite);

// Ranges of the axes, and of the keys of named settings.
enum {
    PF_SUITE_BINS_LEAST = 2,
    PF_SUITE_BINS_MOST = 64,
    PF_SUITE_EPISODES_LEAST = 4,
    PF_SUITE_EPISODES_MOST = 100000,
    PF_SUITE_OPPORTUNITIES_MOST = 30
};

// Whether a plant that could not be made, with this status, is one whose backend is not here: it is
// left out, the rest runs. Of plants in a Python worker any failure to start is, for it says why.
bool pf__environment_missing(const char *name, pf_status status);

// Refuses a plant that suites cannot use; file: who named it.
pf_status pf__environment_usable(const pf_plant *plant, const char *name, const char *file,
                                 pf_error *error);

// The plant that the ensemble of an environment is learned on.
const char *pf__suite_learned_on(const pf_suite *suite, int environment);

// Whether it is a verdict suite: machines with the faults of the catalogue, decided by rules.
bool pf__suite_audits(const pf_suite *suite);
// Whether a group method is among its methods.
bool pf__suite_groups(const pf_suite *suite);

// How much of a suite is run.
typedef struct pf_profile {
    const char *name;
    int seeds, trials;          // 0: the suite's
    int episodes, alarm_trials; // 0: the suite's
} pf_profile;

// NULL if there is none of that name (quick, standard, paper).
const pf_profile *pf__profile_find(const char *name);

#endif
