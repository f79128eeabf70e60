// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "journal.h"
#include "said.h"
#include "weakened.h"

#include "core/certificate.h"
#include "host/json.h"

#include <math.h>

// Belief moves against a reading where another hypothesis fits the whole response better. Names
// that one: the one that rose most, or fell most.
static void explain_against(pf_text *out, pf_session *session, const pf_reading *r,
                            const double *before)
{
    const pf_kit *kit = pf_session_kit(session);
    pf_kit_info k = pf_kit_get_info(kit);
    const double *after = pf_session_belief(session);
    double moved = after[r->mechanism] - before[r->mechanism], sign = moved < 0 ? 1 : -1;
    bool against = (r->ratio > 1 && moved < -1e-4) || (r->ratio < 1 && moved > 1e-4);
    int most = r->mechanism;
    for (int i = 0; i < k.n_mech; i++) {
        most = sign * (after[i] - before[i]) > sign * (after[most] - before[most]) ? i : most;
    }
    if (!against) {
        return;
    }
    if (most == r->mechanism) {
        pf__text_add(out, " The other readings of this probe count too.");
        return;
    }
    pf__text_addf(out, " It %s all the same: the whole response speaks more %s %s",
                  moved < 0 ? "fell" : "rose", moved < 0 ? "for" : "against",
                  most == 0 ? "a healthy machine" : "a loss of ");
    pf__text_add(out, most == 0 ? "" : pf_kit_mechanism_name(kit, most));
    pf__text_add(out, " (");
    pf__words_percent(out, before[most]);
    pf__text_add(out, " -> ");
    pf__words_percent(out, after[most]);
    pf__text_addf(out, ")%s.",
                  k.faults == PF_FAULTS_MANY ? ", which moves these readings too"
                                             : ", and only one of these can be true");
}

static void explain_reading(pf_text *out, pf_session *session, const pf_reading *r,
                            const double *before)
{
    const pf_kit *kit = pf_session_kit(session);
    pf_kit_info k = pf_kit_get_info(kit);
    const char *name = pf_kit_mechanism_name(kit, r->mechanism);
    if (!r->plausible) {
        pf__text_addf(out,
                      "   %s: the response is none that a healthy or weakened machine would give "
                      "(score %.3g); nothing learned. Check the sensors.\n",
                      name, r->score);
        return;
    }
    if (!r->usable) {
        pf__text_addf(out,
                      "   %s: its effect could not be told from the other targets' here; nothing "
                      "learned.\n",
                      name);
        return;
    }
    pf__text_addf(out, "   %s: score %.3g, category %d of %d, ", name, r->score, r->category + 1,
                  k.n_bins);
    if (r->ratio > 1) {
        pf__text_addf(out, "%.3g times more likely if it were weak than if healthy. ", r->ratio);
    } else if (r->ratio < 1) {
        pf__text_addf(out, "%.3g times more likely if healthy than if weak. ", 1 / r->ratio);
    } else {
        pf__text_add(out, "which says nothing either way. ");
    }
    pf__text_add(out, "Belief ");
    pf__words_percent(out, before[r->mechanism]);
    pf__text_add(out, " -> ");
    pf__words_percent(out, pf_session_belief(session)[r->mechanism]);
    pf__text_add(out, ".");
    explain_against(out, session, r, before);
    pf__text_add(out, "\n");
    if (r->gate) {
        double gain = 1 - r->coordinate * (1 - k.g_cal);
        pf__text_addf(out,
                      "   Gate open: the amplitude z = %.3f is admitted; it points to a gain near "
                      "%.2f.\n",
                      r->coordinate, gain < 0 ? 0 : gain);
    } else if (!isnan(r->coordinate)) {
        pf__text_addf(out, "   Gate shut: the amplitude z = %.3f is not used.\n", r->coordinate);
    }
}

// "Rehearsal of a, b".
static void add_rehearsal(pf_text *out, const pf_kit *kit, const pf_ask *ask)
{
    pf__text_add(out, "Rehearsal of ");
    for (int i = 0; i < ask->n_tasks; i++) {
        pf__text_addf(out, i ? ", %s" : "%s", pf_kit_task_name(kit, ask->tasks[i]));
    }
}

static void explain_rehearsal(pf_text *out, const pf_session *session, const pf_ask *ask,
                              int number)
{
    bool passed = pf_session_rehearsed(session, NULL);
    pf__text_addf(out, "%d. ", number);
    add_rehearsal(out, pf_session_kit(session), ask);
    pf__text_addf(out, ": %s.\n",
                  passed             ? "as predicted"
                  : ask->n_tasks > 1 ? "not as predicted, or a failing task would not show in the "
                                       "whole; each runs alone"
                                     : "not as predicted");
}

void pf__explain_skip(pf_text *out, const pf_session *session, const pf_ask *ask)
{
    const pf_kit *kit = pf_session_kit(session);
    pf__text_add(out, "   ");
    if (ask->kind == PF_ASK_REHEARSAL) {
        add_rehearsal(out, kit, ask);
    } else {
        pf__text_addf(out, "Probe '%s'", pf_kit_probe_name(kit, ask->probe));
    }
    pf__text_add(out, " was skipped: the machine could not run it.\n");
}

void pf__explain_tell(pf_text *out, pf_session *session, const pf_ask *ask, int number,
                      const double *before, bool alarm_before)
{
    const pf_kit *kit = pf_session_kit(session);
    int n = 0;
    if (ask->kind == PF_ASK_REHEARSAL) {
        explain_rehearsal(out, session, ask, number);
        return;
    }
    const char *name = pf_kit_probe_name(kit, ask->probe);
    if (ask->stage == PF_STAGE_LOOK) {
        pf__text_addf(out, "%d. Probe '%s'.\n", number, name);
        const pf_reading *readings = pf_session_readings(session, &n);
        for (int t = 0; t < n; t++) {
            explain_reading(out, session, &readings[t], before);
        }
        if (pf_session_get_state(session).alarm && !alarm_before) {
            pf__text_add(out, "   ALARM: the belief in a change is ");
            pf__words_percent(out, pf_session_get_state(session).change);
            pf__text_add(out, ", above the threshold ");
            pf__words_percent(out, pf_session_get_state(session).threshold);
            pf__text_add(out, ".\n");
        }
        return;
    }
    pf__text_addf(out, "%d. Recovery probe '%s'.\n", number, name);
    pf_joint joint = pf_session_joint(session);
    const int32_t *targets = NULL;
    n = pf_kit_probe_targets(kit, ask->probe, &targets);
    for (int t = 0; t < n; t++) {
        pf_moments moments = pf_joint_moments(&joint, targets[t]);
        double lo, hi;
        pf_joint_interval(&joint, targets[t], &lo, &hi);
        pf__text_addf(out, "   %s: P(changed) ", pf_kit_mechanism_name(kit, targets[t]));
        pf__words_percent(out, moments.changed);
        pf__text_addf(out,
                      ", gain %.3f on average, 90 %% between %.2f and %.2f; correction %.3f.\n",
                      moments.mean, lo, hi, pf__session_correction(session, &joint, targets[t]));
    }
}

void pf__explain_readiness(pf_text *out, pf_session *session)
{
    pf_session_certify(session);
    pf__words_found(out, session, "");
    pf__words_follows(out, session, NULL);
}

// --- certificates

static void add_done(const pf_said *said, pf_text *out)
{
    char short_kit[17];
    snprintf(short_kit, sizeof short_kit, "%s", said->kit);
    pf__text_add(out, "## What was done\nCertificate of plant ");
    pf__words_name(out, said->plant);
    pf__text_add(out, " with kit ");
    pf__words_name(out, short_kit);
    pf__text_addf(out, "... %s ", said->odd.alarm ? "The alarm sounded." : "No alarm.");
    pf__words_spent(out, said->probes, said->rehearsals, said->charge);
    pf__text_add(out, ".\n");
    pf__words_injected(out, said->injected);
    if (said->signer[0]) {
        pf__text_add(out, "Its kit is signed by ");
        pf__words_name(out, said->signer);
        pf__text_add(out, ".\n");
    }
    if (!said->audited) {
        pf__text_add(out, "Its kit was not audited.\n");
        return;
    }
    const pf_said_audit *audit = &said->audit;
    pf__text_addf(out,
                  "Its kit was audited against %d of %s, %s each: %d false, at worst %.1f %% "
                  "(upper 95 %% limit).",
                  audit->covered, pf__counted(audit->entries, "entry").text,
                  pf__counted(audit->sessions, "session").text, audit->false_go,
                  100 * audit->worst_upper);
    pf__words_audit_failed(out, audit->false_go, audit->worst_upper, said->alpha);
    pf__text_add(out, "\n");
}

static void explain_said(const pf_said *said, pf_text *out)
{
    pf_follows f = {.alpha = said->alpha,
                    .j_min = said->j_min,
                    .rehearsed = said->rehearses,
                    .agreed = said->accepted.not_rehearsed,
                    .doubtful = pf__said_doubtful(said)};
    pf_text notes = {0};
    add_done(said, out);
    pf__words_found_head(out);
    for (int j = 1; j <= said->n_mechanisms; j++) {
        pf_found found = pf__said_finding(said, j);
        pf__words_found_row(out, &found);
        pf__words_unconfirmed(&notes, &found, &said->odd);
    }
    pf__words_odd(&notes, &said->odd);
    pf__words_notes(out, &notes);
    for (int i = 0; i < said->n_weakened; i++) {
        if (i == 0) {
            pf__words_weakened_head(out);
        }
        pf__words_weakened_one(out, pf__said_weakened(said, i));
    }
    for (int t = 0; t < said->n_tasks; t++) {
        pf_task_said task;
        pf__said_task(said, t, &task);
        pf__words_follow(&f, &task);
    }
    pf__words_follows_end(&f, out);
}

pf_status pf__explain_certificate(const char *text, size_t n, pf_text *out, pf_error *error)
{
    json_error_t problem;
    json_t *json = pf__json_load(text, n, JSON_REJECT_DUPLICATES, &problem);
    if (!json) {
        return pf_fail(error, PF_ERR_FORMAT, "line %d, column %d: %s", problem.line, problem.column,
                       problem.text);
    }
    pf_said said;
    pf_status status = pf__said_read(&said, json, NULL, error);
    if (status == PF_OK) {
        explain_said(&said, out);
    }
    json_decref(json);
    return status;
}
