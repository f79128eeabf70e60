// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "audit.h"

#include "core/kit_layout.h"
#include "core/rehearsal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Learn, then test (Angelopoulos and others, 2021): the verdict has two knobs, the level of the
// misfit and what a rehearsal may miss. A fixed sequence of settings is tried, the strictest first,
// and goes on while every entry rejects "its rate of false sessions is above alpha" by an exact
// binomial test at 5 %. The last setting that passed is the kit's. Since the sequence is fixed and
// ends at the first failure, the confidence holds for the choice too.

typedef struct setting {
    double level;      // times the calibrated level of the misfit
    double strictness; // share of what a rehearsal may miss that is taken away
} setting;

static const setting sequence[] = {{.5, .6}, {.6, .45}, {.7, .3}, {.85, .15}, {1, 0}};
enum { SETTINGS = sizeof sequence / sizeof sequence[0] };

// A copy of the kit's image with other knobs.
static pf_status with_setting(const pf_kit *kit, const setting *s, void **image, size_t *n,
                              pf_error *error)
{
    pf_kit changed = *kit;
    changed.misfit_level *= s->level;
    changed.rehearsal_strictness = s->strictness;
    // less to miss may take more runs; a budget that somebody set stays
    if (kit->budget3 == pf__rehearsal_budget(kit)) {
        changed.budget3 = pf__rehearsal_budget(&changed);
    }
    *n = pf__kit_image_size(&changed);
    *image = malloc(*n);
    if (!*image) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a kit of %z bytes", *n);
    }
    return pf__kit_save(&changed, *image, *n, error);
}

// One setting: its audit into `results`.
static pf_status try_setting(const pf_audit *audit, const void *image, size_t n,
                             pf_audit_result *results, pf_error *error)
{
    pf_kit kit;
    pf_audit one = *audit;
    pf_status status = pf__kit_read(&kit, image, n, error);
    one.kit = &kit;
    one.done = NULL;
    return status ? status : pf__audit_run(&one, NULL, results, error);
}

// Whether every entry that counts passes; on the first round those that do not are left out for
// good.
static bool passes(const pf_audit *audit, const pf_audit_result *results, bool first, bool *out)
{
    bool all = true;
    double alpha = pf_kit_get_info(audit->kit).alpha;
    for (int e = 0; e < audit->catalogue->n; e++) {
        const pf_audit_result *r = &results[e];
        bool counts = (r->covered || r->broke) && r->promised && !out[e];
        bool rejects = !counts || (!r->broke &&
                                   pf__audit_p_value(r->with.false_go, r->sessions, alpha) <= .05);
        out[e] = out[e] || (first && !rejects);
        all = all && (rejects || first);
    }
    return all;
}

pf_status pf__audit_choose(const pf_audit *audit, void **image, size_t *n_image, bool *not_covered,
                           pf_audit_result *results, int *chosen, pf_error *error)
{
    size_t entries = (size_t)audit->catalogue->n;
    pf_audit_result *trial = calloc(entries, sizeof *trial);
    pf_status status = trial ? PF_OK : pf_fail(error, PF_ERR_MEMORY, "out of memory for an audit");
    *image = NULL;
    *chosen = 0;
    memset(not_covered, 0, entries * sizeof *not_covered);
    for (int i = 0; i < SETTINGS && status == PF_OK; i++) {
        void *changed = NULL;
        size_t n = 0;
        status = with_setting(audit->kit, &sequence[i], &changed, &n, error);
        status = status ? status : try_setting(audit, changed, n, trial, error);
        bool good = status == PF_OK && passes(audit, trial, i == 0, not_covered);
        if (!good) {
            free(changed);
            break;
        }
        free(*image);
        *image = changed;
        *n_image = n;
        *chosen = i + 1;
        memcpy(results, trial, entries * sizeof *trial);
    }
    free(trial);
    if (status != PF_OK) {
        free(*image);
        *image = NULL;
    }
    return status;
}

int pf__audit_settings(int index, double *level, double *strictness)
{
    if (index >= 0 && index < SETTINGS) {
        *level = sequence[index].level;
        *strictness = sequence[index].strictness;
    }
    return SETTINGS;
}
