// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "verdict.h"

#include <stdio.h>
#include <string.h>

// `shipped` is what `check` prints; `unrehearsed` takes its go-if for go; `version-0.1` is the
// transported posterior without misfit and rehearsal; then what practitioners do.
enum { SHIPPED, UNREHEARSED, OLD, FIRST_RULE };
static const char *const names[] = {"shipped",   "unrehearsed",   "version-0.1",
                                    "threshold", "least-squares", "rehearsal-only"};
enum { NAMES = sizeof names / sizeof names[0] };
_Static_assert((int)NAMES == FIRST_RULE + PF_RULES, "a name for every rule");

int pf__verdict_rule(const char *name)
{
    int i = NAMES - 1;
    while (i >= 0 && strcmp(names[i], name) != 0) {
        i--;
    }
    return i;
}

void pf__verdict_names(char out[128])
{
    int n = 0;
    for (int i = 0; i < NAMES; i++) {
        n += snprintf(out + n, 128 - (size_t)n, " %s", names[i]);
    }
}

int pf__verdict_kit(int rule)
{
    return rule == OLD;
}

// What a rule's verdict about one session was worth.
static void score(const pf_audit_result *r, const pf_audit_count *c, double *value)
{
    value[PF_METRIC_go] = (double)c->go / r->tasks;
    value[PF_METRIC_right_go] = (double)(c->go - c->below_j_min) / r->tasks;
    value[PF_METRIC_all_go] = c->all_go;
    value[PF_METRIC_false_go] = c->false_go;
    value[PF_METRIC_deployed] = c->go;
    value[PF_METRIC_violated] = c->below_bound;
    value[PF_METRIC_false_ready] = c->below_j_min;
}

// What a session of ours says beside its verdict.
static void describe(const pf_audit_result *r, const pf_audit_entry *entry, double *value)
{
    bool healthy = strcmp(entry->fault, "none") == 0;
    value[healthy ? PF_METRIC_false_alarm : PF_METRIC_detection] = r->alarm;
    value[PF_METRIC_misfit] = r->misfit;
    value[PF_METRIC_located] = r->named;
    if (r->within >= 0) {
        value[PF_METRIC_coverage] = r->within;
    }
}

pf_status pf__verdict_run(const pf_verdict_trial *t, int n_rules, const char *const *rules,
                          pf_trial_result *results, pf_error *error)
{
    const pf_audit_entry *entry = pf__catalogue_find(t->catalogue, t->entry);
    pf_audit_result found[2];
    pf_audit audit = {.catalogue = t->catalogue, .model = t->model, .seed = t->seed};
    bool needed[2] = {false, false};
    for (int i = 0; i < n_rules; i++) {
        int rule = pf__verdict_rule(rules[i]);
        pf__trial_clear(results[i].value, 0, NULL);
        needed[pf__verdict_kit(rule)] = true;
        audit.rules = audit.rules || rule >= FIRST_RULE;
    }
    pf_status status = entry ? PF_OK : pf_fail(error, PF_ERR_INTERNAL, "no entry '%s'", t->entry);
    for (int k = 0; k < 2 && status == PF_OK; k++) {
        audit.kit = t->kit[k];
        audit.rules = audit.rules && k == 0;
        if (needed[k]) {
            status = pf__audit_session(&audit, t->plant, entry, t->session, &found[k], error);
        }
    }
    if (status == PF_ERR_UNSUPPORTED) {
        return PF_OK;
    }
    for (int i = 0; i < n_rules && status == PF_OK; i++) {
        int rule = pf__verdict_rule(rules[i]);
        const pf_audit_result *r = &found[pf__verdict_kit(rule)];
        double *value = results[i].value;
        bool ours = rule < FIRST_RULE;
        score(r,
              rule == SHIPPED ? &r->with
              : ours          ? &r->without
                              : &r->rules[rule - FIRST_RULE],
              value);
        if (ours) {
            describe(r, entry, value);
        }
        bool rehearses = rule == FIRST_RULE + PF_RULE_REHEARSAL_ONLY;
        int runs = ours ? r->probes : r->rule_runs[rule - FIRST_RULE];
        value[PF_METRIC_probes] = rehearses ? 0 : runs;
        value[PF_METRIC_rehearsals] = rehearses ? runs : rule == SHIPPED ? r->rehearsals : 0;
    }
    return status;
}
