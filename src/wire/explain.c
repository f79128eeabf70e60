// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "journal.h"
#include "words.h"

#include "core/joint.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

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
                      moments.mean, lo, hi, pf__correction(&moments));
    }
}

void pf__explain_readiness(pf_text *out, pf_session *session)
{
    pf_session_certify(session);
    pf__words_found(out, session, "");
    pf__words_follows(out, session, NULL);
}

// --- certificates

static double number_of(json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static int count_of(json_t *object, const char *key)
{
    json_int_t n = json_integer_value(json_object_get(object, key));
    return n > 0 && n < 1000000000 ? (int)n : 0;
}

static const char *text_of(json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

// "" where there is none.
static const char *text_or_empty(json_t *object, const char *key)
{
    const char *text = text_of(object, key);
    return text ? text : "";
}

static void read_interval(json_t *mechanism, double interval[2])
{
    for (size_t i = 0; i < 2; i++) {
        interval[i] = json_number_value(json_array_get(json_object_get(mechanism, "interval"), i));
    }
}

static void add_mechanisms(json_t *mechanisms, pf_text *out)
{
    pf__words_found_head(out);
    for (size_t i = 0; i < json_array_size(mechanisms); i++) {
        json_t *m = json_array_get(mechanisms, i);
        pf_found found = {.mechanism = text_or_empty(m, "name"),
                          .changed = number_of(m, "p_changed"),
                          .gain = number_of(m, "mean_gain"),
                          .probed = json_is_true(json_object_get(m, "probed")),
                          .gain_if_changed = true};
        read_interval(m, found.interval);
        pf__words_found_row(out, &found);
    }
}

// The mechanisms of a task. A certificate does not know what their limits let through.
static void read_uses(json_t *task, json_t *mechanisms, pf_task_said *said)
{
    json_t *uses = json_object_get(task, "mechanisms"),
           *factors = json_object_get(task, "correction");
    for (size_t i = 0; i < json_array_size(uses) && i < PF_MECH_MAX; i++) {
        json_int_t j = json_integer_value(json_array_get(uses, i));
        // candidates count from 1
        json_t *m = j > 0 ? json_array_get(mechanisms, (size_t)j - 1) : NULL;
        const char *name = text_of(m, "name");
        pf_use *use = &said->uses[said->n_uses++];
        *use = (pf_use){.mechanism = name ? name : "its mechanism",
                        .factor = json_number_value(json_array_get(factors, i)),
                        .through = NAN,
                        .changed = number_of(m, "p_changed"),
                        .probed = !m || json_is_true(json_object_get(m, "probed"))};
        read_interval(m, use->interval);
    }
}

int pf__explain_why(const char *name)
{
    for (int why = 0; why <= PF_WHY_CERTIFIED; why++) {
        if (strcmp(pf_why_name((pf_why)why), name) == 0) {
            return why;
        }
    }
    return -1;
}

// Whether a decision, its reason and its bound go together.
static bool agrees(const char *decision, int why, bool reached)
{
    bool condition = why == PF_WHY_NOT_REHEARSED || why == PF_WHY_UNSEEN_LOSS;
    return strcmp(decision, "go") == 0      ? why == PF_WHY_CERTIFIED && reached
           : strcmp(decision, "go-if") == 0 ? condition && (reached || why == PF_WHY_UNSEEN_LOSS)
                                            : why != PF_WHY_CERTIFIED && !condition;
}

// Task i of a certificate. It may have been edited: go only where its own numbers say so.
static pf_status check_task(json_t *json, size_t i, pf_task_said *said, pf_error *error)
{
    json_t *task = json_array_get(json_object_get(json, "tasks"), i);
    const char *name = text_of(task, "name"), *decision = text_of(task, "decision");
    const char *why = text_of(task, "why");
    if (!name || !decision || !why) {
        return pf_fail(error, PF_ERR_FORMAT, "tasks[%z]: name, decision or why is missing", i);
    }
    json_t *lower = json_object_get(task, "lower"), *j_min = json_object_get(json, "j_min");
    bool reached = json_is_number(lower) && json_is_number(j_min) &&
                   json_number_value(lower) >= json_number_value(j_min);
    bool go = strcmp(decision, "go") == 0, go_if = strcmp(decision, "go-if") == 0;
    int code = pf__explain_why(why);
    if ((!go && !go_if && strcmp(decision, "no-go") != 0) || code < 0) {
        return pf_fail(error, PF_ERR_FORMAT,
                       "tasks[%z]: decision '%s' is none of go, go-if and no-go, or '%s' is no "
                       "reason",
                       i, decision, why);
    }
    if (!agrees(decision, code, reached)) {
        return pf_fail(error, PF_ERR_FORMAT,
                       "tasks[%z]: decision '%s' contradicts its bound, j_min or reason; replay "
                       "the journal instead",
                       i, decision);
    }
    said->decision = go ? PF_GO : go_if ? PF_GO_IF : PF_NO_GO;
    said->why = (pf_why)code;
    return PF_OK;
}

static pf_status add_task(json_t *json, size_t i, const pf_accepted *accepted, pf_follows *f,
                          pf_error *error)
{
    json_t *task = json_array_get(json_object_get(json, "tasks"), i);
    json_t *unseen = json_object_get(task, "unseen");
    pf_task_said said = {.name = text_or_empty(task, "name"),
                         .fallback = text_or_empty(task, "fallback"),
                         .rehearsed = text_or_empty(task, "rehearsed"),
                         .mean = number_of(task, "mean"),
                         .lower = number_of(task, "lower"),
                         .unseen = {json_number_value(json_array_get(unseen, 0)),
                                    json_number_value(json_array_get(unseen, 1))}};
    pf_status status = check_task(json, i, &said, error);
    if (status == PF_OK) {
        said.accepted = pf__accepts(accepted, said.why);
        read_uses(task, json_object_get(json, "mechanisms"), &said);
        pf__words_follow(f, &said);
    }
    return status;
}

static void add_done(json_t *json, pf_text *out)
{
    json_t *audit = json_object_get(json, "audit");
    const char *plant = text_of(json, "plant"), *kit = text_of(json, "kit");
    char short_kit[17];
    snprintf(short_kit, sizeof short_kit, "%s", kit ? kit : "");
    pf__text_add(out, "## What was done\nCertificate of plant ");
    pf__words_name(out, plant ? plant : "");
    pf__text_add(out, " with kit ");
    pf__words_name(out, short_kit);
    pf__text_addf(out, "... %s ",
                  json_is_true(json_object_get(json, "alarm")) ? "The alarm sounded."
                                                               : "No alarm.");
    pf__words_spent(out, count_of(json, "probes"), count_of(json, "rehearsals"),
                    number_of(json, "charge"));
    pf__text_add(out, ".\n");
    if (!json_is_object(audit)) {
        pf__text_add(out, "Its kit was not audited.\n");
        return;
    }
    pf__text_addf(out,
                  "Its kit was audited against %g of %s, %s each: %g false, at worst %.1f %% "
                  "(upper 95 %% limit).\n",
                  number_of(audit, "covered"),
                  pf__counted(count_of(audit, "entries"), "entry").text,
                  pf__counted(count_of(audit, "sessions"), "session").text,
                  number_of(audit, "false_go"), 100 * number_of(audit, "worst_upper"));
}

static void add_odd(json_t *json, pf_text *out)
{
    json_t *misfit = json_object_get(json, "misfit");
    pf__words_odd(out, &(pf_odd){.misfit = number_of(misfit, "value"),
                                 .implausible = count_of(misfit, "implausible"),
                                 .look = count_of(misfit, "look"),
                                 .channel = text_or_empty(misfit, "channel"),
                                 .looks_like = text_or_empty(json, "looks_like"),
                                 .alarm = json_is_true(json_object_get(json, "alarm")),
                                 .explained = json_is_true(json_object_get(json, "explained"))});
}

static pf_accepted read_accepted(json_t *json)
{
    json_t *list = json_object_get(json, "accepted");
    pf_accepted accepted = {false, false};
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *word = json_string_value(json_array_get(list, i));
        int why = word ? pf__explain_why(word) : -1;
        accepted.not_rehearsed = accepted.not_rehearsed || why == PF_WHY_NOT_REHEARSED;
        accepted.unseen_loss = accepted.unseen_loss || why == PF_WHY_UNSEEN_LOSS;
    }
    return accepted;
}

static pf_status explain_json(json_t *json, pf_text *out, pf_error *error)
{
    json_t *tasks = json_object_get(json, "tasks"),
           *mechanisms = json_object_get(json, "mechanisms");
    if (!json_is_array(tasks) || !json_is_array(mechanisms) || !text_of(json, "plant") ||
        !text_of(json, "kit")) {
        return pf_fail(error, PF_ERR_FORMAT,
                       "not a certificate: plant, kit, mechanisms and tasks are expected");
    }
    pf_accepted accepted = read_accepted(json);
    pf_follows f = {.alpha = number_of(json, "alpha"),
                    .j_min = number_of(json, "j_min"),
                    .rehearsed = strcmp(text_or_empty(json, "rules"), "paper") != 0,
                    .agreed = accepted.not_rehearsed};
    add_done(json, out);
    add_mechanisms(mechanisms, out);
    add_odd(json, out);
    pf_status status = PF_OK;
    for (size_t i = 0; i < json_array_size(tasks) && status == PF_OK; i++) {
        status = add_task(json, i, &accepted, &f, error);
    }
    pf__words_follows_end(&f, out);
    return status;
}

pf_status pf__explain_certificate(const char *text, size_t n, pf_text *out, pf_error *error)
{
    json_error_t problem;
    json_t *json = json_loadb(text, n, JSON_REJECT_DUPLICATES, &problem);
    if (!json) {
        return pf_fail(error, PF_ERR_FORMAT, "line %d, column %d: %s", problem.line, problem.column,
                       problem.text);
    }
    pf_status status = explain_json(json, out, error);
    json_decref(json);
    return status;
}
