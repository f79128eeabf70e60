// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "journal.h"

#include "core/joint.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

// A probability as a person writes it.
static void add_percent(pf_text *out, double p)
{
    double percent = 100 * p;
    if (percent > 0 && percent < .01) {
        pf__text_add(out, "under 0.01 %");
    } else if (percent < 100 && percent > 99.99) {
        pf__text_add(out, "over 99.99 %");
    } else {
        pf__text_addf(out, percent < 1 ? "%.2f %%" : "%.1f %%", percent);
    }
}

void pf__explain_start(pf_text *out, const pf_session *session)
{
    const pf_kit *kit = pf_session_kit(session);
    pf_kit_info k = pf_kit_get_info(kit);
    pf__text_addf(out, "Plant %s, %d candidates, method %s. Before the check: ",
                  pf_kit_get_string(kit, PF_KIT_PLANT), k.n_mech - 1,
                  pf_session_method(session)->label);
    bool many = k.faults == PF_FAULTS_MANY;
    add_percent(out, many ? pf_session_get_state(session).change : 1 - k.prior[0]);
    pf__text_add(out,
                 many ? " that any of them has changed, each on its own. The alarm sounds above "
                      : " that one of them has changed. The alarm sounds above ");
    add_percent(out, pf_session_get_state(session).threshold);
    pf__text_add(out, ".\n");
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
    pf__text_add(out, "P(changed) ");
    add_percent(out, before[r->mechanism]);
    pf__text_add(out, " -> ");
    add_percent(out, pf_session_belief(session)[r->mechanism]);
    pf__text_add(out, ".\n");
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
            pf__text_add(out, "   ALARM: P(anything changed) is ");
            add_percent(out, pf_session_get_state(session).change);
            pf__text_add(out, ", above the threshold ");
            add_percent(out, pf_session_get_state(session).threshold);
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
        add_percent(out, moments.changed);
        pf__text_addf(out,
                      ", gain %.3f on average, 90 %% between %.2f and %.2f; correction %.3f.\n",
                      moments.mean, lo, hi, pf__correction(&moments));
    }
}

void pf__explain_done(pf_text *out, pf_session *session)
{
    pf_ask ask = pf_session_ask(session);
    static const char *const texts[] = {
        [PF_DONE_NOT] = "it is not done",
        [PF_DONE_READY] = "every task is ready",
        [PF_DONE_BUDGET] = "the probes of both stages are spent",
        [PF_DONE_NO_ALARM] = "stage 1 ended without an alarm, so no recovery probes were spent",
        [PF_DONE_SETTLED] = "no further run can change a verdict",
        [PF_DONE_UNEXPLAINED] = "it alarmed, and nothing says why"};
    pf_session_state state = pf_session_get_state(session);
    pf__text_addf(out, "Done after %d probes and %d rehearsals (charge %.3g): %s.\n",
                  state.told - state.rehearsals, state.rehearsals, state.charge, texts[ask.why]);
    if (state.misfit > 1 || state.implausible > 0) {
        const pf_kit *kit = pf_session_kit(session);
        pf__text_addf(out, "The responses fit no machine of the model (%.2f times the level",
                      state.misfit);
        if (state.misfit_channel >= 0) {
            pf__text_addf(out, ", most in channel %s",
                          pf_kit_channel_name(kit, state.misfit_channel));
        }
        pf__text_addf(out,
                      ", since run %d; %d implausible looks). Only a clean rehearsal apart "
                      "makes a task go.\n",
                      state.misfit_look, state.implausible);
    }
}

// Why the bound of a task is low: the uses are searched for the usual reasons.
static void explain_bound(pf_text *out, pf_session *session, int task)
{
    const pf_kit *kit = pf_session_kit(session);
    const int32_t *uses = NULL;
    int n_uses = pf_kit_task_mechanisms(kit, task, &uses);
    for (int u = 0; u < n_uses; u++) {
        int j = uses[u];
        if (j == 0) {
            continue;
        }
        const pf_mechanism_readiness *r = pf_session_mechanism(session, j);
        const char *name = pf_kit_mechanism_name(kit, j);
        double share = pf_kit_delivered_share(kit, task, j, r->correction, 1);
        if (share < .98 * r->correction) {
            pf__text_addf(out,
                          " %s would need %.2f times its command, the limits let through %.2f.",
                          name, r->correction, share);
        }
        if (r->changed > .01 && r->changed < .99) {
            pf__text_addf(out, " Whether %s changed is open (", name);
            add_percent(out, r->changed);
            pf__text_add(out, ").");
        }
        if (r->interval[1] - r->interval[0] > .1) {
            pf__text_addf(out, " Its gain is uncertain: %.2f to %.2f.", r->interval[0],
                          r->interval[1]);
        }
    }
}

// A correction that is worth saying.
static void add_correction(pf_text *out, const char *name, double factor)
{
    if (fabs(factor - 1) > .005) {
        pf__text_addf(out, " Send %s %.3f times its command.", name, factor);
    }
}

static const char *shouted(pf_decision decision)
{
    return decision == PF_GO ? "GO" : decision == PF_GO_IF ? "GO-IF" : "NO-GO";
}

// What to do instead; "" or "uncorrected": the task as it is.
static void add_fallback(pf_text *out, const char *fallback)
{
    bool own = fallback && fallback[0] && strcmp(fallback, "uncorrected") != 0;
    pf__text_addf(out, own ? "Use the fallback: %s." : "Use the fallback, %s.",
                  own ? fallback : "the uncorrected command at your own risk or none");
}

static void explain_task(pf_text *out, pf_session *session, int task)
{
    const pf_kit *kit = pf_session_kit(session);
    pf_kit_info k = pf_kit_get_info(kit);
    const pf_task_readiness *r = pf_session_task(session, task);
    pf__text_addf(out, "%s: %s. ", pf_kit_task_name(kit, task), shouted(r->decision));
    if (r->why == PF_WHY_NOT_PROBED) {
        const int32_t *uses = NULL;
        int n_uses = pf_kit_task_mechanisms(kit, task, &uses);
        for (int u = 0; u < n_uses; u++) {
            int j = uses[u];
            if (j > 0 && !pf_session_probed(session, j)) {
                pf__text_addf(out, "%s was not probed in this check. ",
                              pf_kit_mechanism_name(kit, j));
            }
        }
        add_fallback(out, pf_kit_task_fallback(kit, task));
        pf__text_add(out, "\n");
        return;
    }
    pf__text_addf(
        out,
        "Predicted return %.3f (sd %.3f); with probability %.0f %% at least %.3f, required "
        "%.3g.",
        r->mean, r->sd, 100 * (1 - k.alpha), r->lower, k.j_min);
    const int32_t *uses = NULL;
    int n_uses = pf_kit_task_mechanisms(kit, task, &uses);
    for (int u = 0; u < n_uses && r->decision != PF_NO_GO; u++) {
        const pf_mechanism_readiness *mech = pf_session_mechanism(session, uses[u]);
        add_correction(out, pf_kit_mechanism_name(kit, uses[u]), mech->correction);
    }
    if (r->rehearsed != PF_REHEARSED_NOT) {
        pf__text_addf(out, " It was rehearsed %s.",
                      r->rehearsed == PF_REHEARSED_GROUP ? "with others" : "alone");
    }
    if (r->why == PF_WHY_BOUND) {
        explain_bound(out, session, task);
    } else if (r->why == PF_WHY_UNSEEN_LOSS) {
        pf__text_addf(out,
                      " But a gain between %.2f and %.2f would return less, and no probe "
                      "shows it.",
                      r->unseen[0], r->unseen[1]);
    } else if (r->decision != PF_GO) {
        pf__text_addf(out, " But %s.", pf_why_text(r->why));
    }
    if (r->decision == PF_NO_GO) {
        pf__text_add(out, " ");
        add_fallback(out, pf_kit_task_fallback(kit, task));
    }
    pf__text_add(out, "\n");
}

void pf__explain_readiness(pf_text *out, pf_session *session)
{
    pf_session_certify(session);
    for (int t = 0; t < pf_kit_get_info(pf_session_kit(session)).n_tasks; t++) {
        explain_task(out, session, t);
    }
}

// --- certificates

static double number_of(json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static const char *text_of(json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

// What a go rests on: every command that must be multiplied.
static void add_corrections(json_t *task, json_t *mechanisms, pf_text *out)
{
    json_t *uses = json_object_get(task, "mechanisms"),
           *factors = json_object_get(task, "correction");
    for (size_t i = 0; i < json_array_size(uses); i++) {
        double factor = json_number_value(json_array_get(factors, i));
        json_int_t mechanism = json_integer_value(json_array_get(uses, i));
        // candidates count from 1
        json_t *entry = mechanism > 0 ? json_array_get(mechanisms, (size_t)mechanism - 1) : NULL;
        const char *name = text_of(entry, "name");
        add_correction(out, name ? name : "its mechanism", factor);
    }
}

static void add_mechanism(json_t *mechanism, pf_text *out)
{
    const char *name = text_of(mechanism, "name");
    json_t *interval = json_object_get(mechanism, "interval");
    pf__text_addf(out,
                  "%s: %s, P(changed) %.4g; if so, gain %.3f on average, 90 %% in %.2f..%.2f.\n",
                  name ? name : "mechanism",
                  json_is_true(json_object_get(mechanism, "probed")) ? "probed" : "NOT probed",
                  number_of(mechanism, "p_changed"), number_of(mechanism, "mean_gain"),
                  json_number_value(json_array_get(interval, 0)),
                  json_number_value(json_array_get(interval, 1)));
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
static pf_status add_task(json_t *json, size_t i, pf_text *out, pf_error *error)
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
    pf__text_addf(out, "%s: %s. Predicted return %.3f (sd %.3f), lower bound %.3f.", name,
                  shouted(go      ? PF_GO
                          : go_if ? PF_GO_IF
                                  : PF_NO_GO),
                  number_of(task, "mean"), number_of(task, "sd"), json_number_value(lower));
    if (go || go_if) {
        add_corrections(task, json_object_get(json, "mechanisms"), out);
    }
    pf__text_addf(out, "%s%s.", go ? " It is go: " : " But ", pf_why_text((pf_why)code));
    if (!go && !go_if) {
        pf__text_add(out, " ");
        add_fallback(out, text_of(task, "fallback"));
    }
    pf__text_add(out, "\n");
    return PF_OK;
}

static pf_status explain_json(json_t *json, pf_text *out, pf_error *error)
{
    json_t *tasks = json_object_get(json, "tasks"),
           *mechanisms = json_object_get(json, "mechanisms");
    const char *plant = text_of(json, "plant"), *kit = text_of(json, "kit");
    if (!json_is_array(tasks) || !json_is_array(mechanisms) || !plant || !kit) {
        return pf_fail(error, PF_ERR_FORMAT,
                       "not a certificate: plant, kit, mechanisms and tasks are expected");
    }
    bool alarm = json_is_true(json_object_get(json, "alarm"));
    pf__text_addf(out, "Certificate of plant %s with kit %.16s.... %s Charge spent: %.3g.\n", plant,
                  kit, alarm ? "The alarm sounded." : "No alarm.", number_of(json, "charge"));
    for (size_t i = 0; i < json_array_size(mechanisms); i++) {
        add_mechanism(json_array_get(mechanisms, i), out);
    }
    json_t *misfit = json_object_get(json, "misfit");
    if (number_of(misfit, "value") > 1 || number_of(misfit, "implausible") > 0) {
        pf__text_add(out, "The responses fit no machine of the model.\n");
    }
    if (text_of(json, "looks_like")) {
        pf__text_addf(out, "They look like %s.\n", text_of(json, "looks_like"));
    }
    json_t *audit = json_object_get(json, "audit");
    if (json_is_object(audit)) {
        pf__text_addf(
            out,
            "Its kit was audited against %g of %g entries, %g sessions each: %g false, at "
            "worst %.1f %% (upper 95 %% limit).\n",
            number_of(audit, "covered"), number_of(audit, "entries"), number_of(audit, "sessions"),
            number_of(audit, "false_go"), 100 * number_of(audit, "worst_upper"));
    } else {
        pf__text_add(out, "Its kit was not audited.\n");
    }
    pf__text_add(out, "\n");
    pf_status status = PF_OK;
    for (size_t i = 0; i < json_array_size(tasks) && status == PF_OK; i++) {
        status = add_task(json, i, out, error);
    }
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
