// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "words.h"

#include "weakened.h"

#include "core/joint.h"

#include <math.h>
#include <string.h>

void pf__words_name(pf_text *out, const char *name)
{
    pf__text_add_shown(out, name, strlen(name), "");
}

void pf__words_percent(pf_text *out, double probability)
{
    double percent = 100 * probability;
    if (percent < .01) {
        pf__text_add(out, "below 0.01 %");
    } else if (percent > 99.99) {
        pf__text_add(out, "over 99.99 %");
    } else {
        pf__text_addf(out, percent < 1 || percent > 99.9 ? "%.2f %%" : "%.1f %%", percent);
    }
}

// --- what was done

void pf__words_audit_failed(pf_text *out, int false_go, double worst_upper, double alpha)
{
    if (false_go > 0 && worst_upper > alpha) {
        pf__text_addf(
            out,
            " It did not pass: of the checks with one fault up to %.1f %% may have a false "
            "go, and %.3g %% are allowed. A go of this kit may be false.",
            100 * worst_upper, 100 * alpha);
    }
}

void pf__words_injected(pf_text *out, const char *injected)
{
    if (injected[0]) {
        pf__text_add(out, "The machine was simulated, with this fault put into it: ");
        pf__words_name(out, injected);
        pf__text_add(out, ".\n");
    }
}

void pf__words_start(pf_text *out, const pf_session *session)
{
    const pf_kit *kit = pf_session_kit(session);
    pf_kit_info k = pf_kit_get_info(kit);
    bool many = k.faults == PF_FAULTS_MANY;
    pf__text_addf(out, "Plant %s, %s, method %s. Before the check the belief that ",
                  pf_kit_get_string(kit, PF_KIT_PLANT), pf__counted(k.n_mech - 1, "candidate").text,
                  pf_session_method(session)->label);
    pf__text_add(out, many ? "any of them has changed, each on its own, is "
                           : "one of them has changed is ");
    pf__words_percent(out, many ? pf_session_get_state(session).change : 1 - k.prior[0]);
    pf__text_add(out, ". The alarm sounds above ");
    pf__words_percent(out, pf_session_get_state(session).threshold);
    pf__text_add(out, ".\n");
}

void pf__words_spent(pf_text *out, int probes, int rehearsals, double charge)
{
    pf__text_addf(out, "Done after %s and %s, charge %.3g", pf__counted(probes, "probe").text,
                  pf__counted(rehearsals, "rehearsal").text, charge);
}

void pf__words_done(pf_text *out, pf_session *session)
{
    static const char *const texts[] = {
        [PF_DONE_NOT] = "it is not done",
        [PF_DONE_READY] = "every task is ready",
        [PF_DONE_BUDGET] = "the probes of both stages are spent",
        [PF_DONE_NO_ALARM] = "stage 1 ended without an alarm, so no recovery probes were spent",
        [PF_DONE_SETTLED] = "no further run can change a verdict",
        [PF_DONE_UNEXPLAINED] = "it alarmed, and what was found does not explain it"};
    pf_session_state state = pf_session_get_state(session);
    pf__words_spent(out, state.told - state.rehearsals, state.rehearsals, state.charge);
    pf__text_addf(out, ": %s.\n", texts[pf_session_ask(session).why]);
}

// --- what was found

void pf__words_found_head(pf_text *out)
{
    pf__text_add(out,
                 "\n## What was found\nmechanism\tfinding\t>P(changed)\t>gain\t>90 % interval\n");
}

// In one or two words. Changed is what is rather so than not, healthy what is so at 20 to 1.
const char *pf__finding(const pf_found *f)
{
    return f->changed > .5 && f->interval[1] < 1     ? "lost strength"
           : pf__too_strong(f->changed, f->interval) ? "too strong"
           : f->changed > .5                         ? "changed"
           : !f->probed                              ? "not probed"
           : f->changed < .05                        ? "healthy"
                                                     : "not sure";
}

void pf__words_found_row(pf_text *out, const pf_found *f)
{
    pf__words_name(out, f->mechanism);
    pf__text_addf(out, "\t%s\t", pf__finding(f));
    pf__words_percent(out, f->changed);
    if (f->gain_if_changed && f->changed < .01) {
        pf__text_add(out, "\t-\t-\n");
    } else {
        pf__text_addf(out, "\t%.3f\t%.2f to %.2f\n", f->gain, f->interval[0], f->interval[1]);
    }
}

bool pf__misfits(const pf_odd *odd)
{
    return odd->misfit > 1 || odd->implausible > 0;
}

void pf__words_odd(pf_text *out, const pf_odd *odd)
{
    if (odd->misfit > 1) {
        pf__text_addf(out, "The responses fit no machine of the model: %s",
                      odd->channel[0] ? "channel " : "the mix of amplitudes");
        pf__words_name(out, odd->channel);
        pf__text_addf(out, " speaks since run %d.", odd->look);
    } else if (odd->implausible > 0) {
        pf__text_addf(out, "%s %s such as no machine of the model gives.",
                      pf__counted(odd->implausible, "response").text,
                      odd->implausible == 1 ? "was" : "were");
    } else if (odd->alarm && !odd->explained) {
        pf__text_add(out, "The alarm sounded and nothing explains it.\n");
    }
    if (pf__misfits(odd)) {
        pf__text_add(out,
                     " What was found may be wrong, and a task is go only if its own rehearsal "
                     "is clean.\n");
    }
    if (odd->looks_like[0]) {
        pf__text_add(out, "It looks like ");
        pf__words_name(out, odd->looks_like);
        pf__text_add(out, ".\n");
    }
}

void pf__words_unconfirmed(pf_text *out, const pf_found *found, const pf_odd *odd)
{
    if (!found->unconfirmed || (pf__misfits(odd) && !found->silent)) {
        return;
    }
    pf__text_add(out, "What was found of ");
    pf__words_name(out, found->mechanism);
    pf__text_addf(out,
                  " is not confirmed: no task that uses it came out as predicted in a "
                  "rehearsal%s.\n",
                  found->silent ? ", and no response of its own probes says so; another fault, "
                                  "also of another mechanism, may look the same"
                                : "");
}

void pf__found_by_task(pf_found *found, int mechanism, const pf_task_said *task)
{
    for (int u = 0; u < task->n_uses; u++) {
        const pf_use *use = &task->uses[u];
        bool passed = task->decision != PF_NO_GO &&
                      strcmp(task->rehearsed, pf_rehearsed_name(PF_REHEARSED_NOT)) != 0;
        if (use->index == mechanism) {
            found->unconfirmed = found->unconfirmed && !passed;
            found->silent = found->silent || (task->why == PF_WHY_TOO_STRONG &&
                                              pf__too_strong(use->changed, use->interval));
        }
    }
}

// A task of a session, as it is told.
static void read_task(const pf_session *session, int t, const pf_accepted *accepted,
                      pf_task_said *task)
{
    const pf_kit *kit = pf_session_kit(session);
    const pf_task_readiness *r = pf_session_task(session, t);
    const int32_t *uses = NULL;
    int n = pf_kit_task_mechanisms(kit, t, &uses);
    *task = (pf_task_said){.name = pf_kit_task_name(kit, t),
                           .fallback = pf_kit_task_fallback(kit, t),
                           .rehearsed = pf_rehearsed_name(r->rehearsed),
                           .decision = r->decision,
                           .why = r->why,
                           .mean = r->mean,
                           .lower = r->lower,
                           .unseen = {r->unseen[0], r->unseen[1]},
                           .accepted = pf__accepts(accepted, r->why),
                           .n_uses = n < PF_MECH_MAX ? n : PF_MECH_MAX};
    for (int u = 0; u < task->n_uses; u++) {
        const pf_mechanism_readiness *m = pf_session_mechanism(session, uses[u]);
        bool candidate = uses[u] > 0; // mechanism 0 is never probed nor corrected
        task->uses[u] = (pf_use){
            .index = uses[u],
            .mechanism = pf_kit_mechanism_name(kit, uses[u]),
            .factor = m->correction,
            .through = candidate ? pf_kit_delivered_share(kit, t, uses[u], m->correction, 1) : NAN,
            .changed = candidate ? m->changed : 0,
            .interval = {m->interval[0], m->interval[1]},
            .probed = !candidate || m->probed};
    }
}

// Of a session that is certified.
static pf_found find(const pf_session *session, int mechanism)
{
    const pf_kit *kit = pf_session_kit(session);
    const pf_mechanism_readiness *r = pf_session_mechanism(session, mechanism);
    pf_kit_info k = pf_kit_get_info(kit);
    pf_found found = {.mechanism = pf_kit_mechanism_name(kit, mechanism),
                      .changed = r->changed,
                      .gain = r->mean_gain,
                      .interval = {r->interval[0], r->interval[1]},
                      .probed = r->probed,
                      .gain_if_changed = k.joint_posterior,
                      .unconfirmed = k.rules.field && r->changed > .5};
    for (int t = 0; t < k.n_tasks && found.unconfirmed; t++) {
        pf_task_said task;
        read_task(session, t, NULL, &task);
        pf__found_by_task(&found, mechanism, &task);
    }
    return found;
}

static pf_odd find_odd(const pf_session *session, const char *looks_like)
{
    pf_session_state state = pf_session_get_state(session);
    int channel = state.misfit_channel;
    return (pf_odd){.misfit = state.misfit,
                    .implausible = state.implausible,
                    .look = state.misfit_look,
                    .channel =
                        channel >= 0 ? pf_kit_channel_name(pf_session_kit(session), channel) : "",
                    .looks_like = looks_like,
                    .alarm = state.alarm,
                    .explained = state.explained};
}

void pf__words_found(pf_text *out, const pf_session *session, const char *looks_like)
{
    int n = pf_kit_get_info(pf_session_kit(session)).n_mech;
    pf_odd odd = find_odd(session, looks_like);
    pf_text notes = {0};
    pf__words_found_head(out);
    for (int j = 1; j < n; j++) {
        pf_found found = find(session, j);
        pf__words_found_row(out, &found);
        pf__words_unconfirmed(&notes, &found, &odd);
    }
    pf__words_odd(&notes, &odd);
    pf__words_notes(out, &notes);
}

void pf__words_notes(pf_text *out, pf_text *notes)
{
    pf__text_add(out, notes->size > 0 ? "\n" : "");
    pf__text_add(out, notes->size > 0 ? notes->data : "");
    out->failed = out->failed || notes->failed;
    pf__text_free(notes);
}

// --- what follows

bool pf__accepts(const pf_accepted *accepted, pf_why why)
{
    return accepted && ((why == PF_WHY_NOT_REHEARSED && accepted->not_rehearsed) ||
                        (why == PF_WHY_UNSEEN_LOSS && accepted->unseen_loss));
}

pf_decision pf__overall(int tasks, int no_go, int go_if, bool rehearses)
{
    return tasks == 0 || no_go > 0 ? PF_NO_GO : go_if > 0 || !rehearses ? PF_GO_IF : PF_GO;
}

bool pf__all_go(const pf_session *session, const pf_accepted *accepted)
{
    pf_kit_info k = pf_kit_get_info(pf_session_kit(session));
    // a go by the paper's rules was never rehearsed
    bool all = k.rules.field || (accepted && accepted->not_rehearsed);
    for (int t = 0; t < k.n_tasks; t++) {
        const pf_task_readiness *task = pf_session_task(session, t);
        all = all && (task->decision == PF_GO ||
                      (task->decision == PF_GO_IF && pf__accepts(accepted, task->why)));
    }
    return all;
}

const char *pf__shouted(pf_decision decision)
{
    return decision == PF_GO ? "GO" : decision == PF_GO_IF ? "GO-IF" : "NO-GO";
}

// Whether a factor is worth saying.
static bool corrects(const pf_use *use)
{
    return fabs(use->factor - 1) > .005;
}

// The factor of its commands in one cell. A task that is no-go is not sent.
static void add_sent(pf_text *out, const pf_task_said *task)
{
    int n = 0, at = 0;
    for (int u = 0; u < task->n_uses; u++) {
        n += corrects(&task->uses[u]);
        at = corrects(&task->uses[u]) ? u : at;
    }
    if (task->decision == PF_NO_GO) {
        pf__text_add(out, "-");
    } else if (n == 1) {
        pf__text_addf(out, "x %.3f", task->uses[at].factor);
    } else {
        pf__text_add(out, n == 0 ? "as it is" : "corrected");
    }
}

static bool is_clipped(const pf_use *use)
{
    return use->through < .98 * use->factor;
}

// The commands of a task that is limited: what would be enough.
static void add_limit(pf_text *out, const pf_use *use)
{
    pf__text_addf(out, "limits that let %.2f times the command of ", use->factor);
    pf__words_name(out, use->mechanism);
    pf__text_addf(out,
                  " through (they let %.2f), a task that asks for at most %.0f %% of that "
                  "command",
                  use->through, 100 * use->through / use->factor);
}

// Of a bound that is too low. The mechanism whose limits cut most comes first.
static void add_bound_remedy(pf_text *out, const pf_task_said *task)
{
    const pf_use *cut = NULL;
    bool changed = false, known = true;
    for (int u = 0; u < task->n_uses; u++) {
        const pf_use *use = &task->uses[u];
        bool worse = !cut || use->through / use->factor < cut->through / cut->factor;
        cut = is_clipped(use) && worse ? use : cut;
        changed = changed || use->changed > .01;
        known = known && (use->index == 0 || isfinite(use->through));
    }
    if (cut) {
        // with the largest gain that it may have
        bool hopeless = cut->interval[1] > 0 && 1 / cut->interval[1] > 1.02 * cut->through;
        add_limit(out, cut);
        pf__text_add(out, hopeless ? ", or repair; a gain that is known better does not help"
                                   : ", or a gain that is known better (more recovery probes)");
    } else if (changed) {
        pf__text_addf(out,
                      "a gain that is known better (more recovery probes)%s or a task that "
                      "asks for less",
                      known ? "," : ", a larger command limit,");
    } else {
        pf__text_add(out, "a task that asks for less; no loss was found that explains its return");
    }
}

void pf__words_remedy(pf_text *out, const pf_task_said *task, bool doubtful)
{
    static const struct {
        pf_why why;
        const char *text;
    } rows[] = {
        {PF_WHY_NOT_PROBED,
         "a larger budget of probes, so that every mechanism it needs is looked at"},
        {PF_WHY_TOO_STRONG, "finding out why the mechanism delivers more than its command, or what "
                            "else looks so; if that "
                            "is to stay, a kit that is calibrated with it"},
        {PF_WHY_NOT_REHEARSED, "a machine that runs the rehearsal, or --accept not-rehearsed"},
        {PF_WHY_UNSEEN_LOSS, "a probe that shows such a loss, or --accept unseen-loss"},
        {PF_WHY_MISFIT, "finding out what is wrong with the channel or the mechanism that the "
                        "check names, then another check"},
        {PF_WHY_UNEXPLAINED, "finding out what changed, by another check or with a kit that tells "
                             "several losses apart"},
        {PF_WHY_REHEARSAL,
         "finding out what its own run shows, since the machine does not do what was "
         "commanded"}};
    const char *text = "another check";
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        text = rows[i].why == task->why ? rows[i].text : text;
    }
    if (task->why == PF_WHY_BOUND) {
        add_bound_remedy(out, task);
    } else if (task->why == PF_WHY_NOT_PROBED && doubtful) {
        pf__text_add(out, "finding out first what is wrong with what was found: probes were spent "
                          "on that");
    } else {
        pf__text_add(out, text);
    }
}

// What a go or go-if needs of whoever sends its commands.
static void add_corrections(pf_text *out, const pf_task_said *task)
{
    for (int u = 0; u < task->n_uses; u++) {
        const pf_use *use = &task->uses[u];
        if (!corrects(use)) {
            continue;
        }
        pf__text_add(out, " Send ");
        pf__words_name(out, use->mechanism);
        pf__text_addf(out, " %.3f times its command.", use->factor);
        if (is_clipped(use)) {
            pf__text_addf(out, " Its limits let %.2f times through; the bound counts that.",
                          use->through);
        }
    }
}

// Why a bound is low: the mechanisms are searched for the usual reasons.
static void add_bound(pf_text *out, const pf_task_said *task)
{
    for (int u = 0; u < task->n_uses; u++) {
        const pf_use *use = &task->uses[u];
        if (is_clipped(use)) {
            pf__text_add(out, " ");
            pf__words_name(out, use->mechanism);
            pf__text_addf(out,
                          " would need %.2f times its command, and its limits let %.2f times "
                          "through.",
                          use->factor, use->through);
        }
        if (use->changed > .01 && use->changed < .99) {
            pf__text_add(out, " Whether ");
            pf__words_name(out, use->mechanism);
            pf__text_add(out, " changed is open (");
            pf__words_percent(out, use->changed);
            pf__text_add(out, ").");
        }
        if (use->changed > .01 && use->interval[1] - use->interval[0] > .1) {
            pf__text_add(out, " The gain of ");
            pf__words_name(out, use->mechanism);
            pf__text_addf(out, " is uncertain: %.2f to %.2f.", use->interval[0], use->interval[1]);
        }
    }
}

bool pf__has_fallback(const char *fallback)
{
    return fallback[0] && strcmp(fallback, "uncorrected") != 0;
}

static void add_fallback(pf_text *out, const char *fallback)
{
    if (pf__has_fallback(fallback)) {
        pf__text_add(out, " Fallback: ");
        pf__words_name(out, fallback);
        pf__text_add(out, ".");
    } else {
        pf__text_add(out,
                     " Fallback: the uncorrected command, at your own risk; no other is named.");
    }
}

// Why a task is not go.
static void add_why(pf_text *out, const pf_follows *f, const pf_task_said *task)
{
    if (task->why == PF_WHY_BOUND) {
        pf__text_addf(out, "it may return as little as %.3f, and %.3g is required.", task->lower,
                      f->j_min);
        add_bound(out, task);
        return;
    }
    if (task->why == PF_WHY_UNSEEN_LOSS) {
        pf__text_addf(out,
                      "a gain between %.2f and %.2f would return less than %.3g, and no probe "
                      "shows it.",
                      task->unseen[0], task->unseen[1], f->j_min);
        return;
    }
    pf__text_addf(out, "%s.", pf_why_text(task->why));
    for (int u = 0; u < task->n_uses; u++) {
        const pf_use *use = &task->uses[u];
        if (task->why == PF_WHY_NOT_PROBED && !use->probed) {
            pf__text_add(out, " It needs ");
            pf__words_name(out, use->mechanism);
            pf__text_add(out, ".");
        }
        if (task->why == PF_WHY_TOO_STRONG && pf__too_strong(use->changed, use->interval)) {
            pf__text_add(out, " ");
            pf__words_name(out, use->mechanism);
            pf__text_addf(out, " delivers %.2f to %.2f times its command.", use->interval[0],
                          use->interval[1]);
        }
    }
}

// What is to be said of a task beside its row; nothing of one that is go as it is.
static void add_line(pf_text *out, const pf_follows *f, const pf_task_said *task)
{
    if (task->decision != PF_GO) {
        pf__text_addf(out, "%s because ", pf__shouted(task->decision));
        add_why(out, f, task);
    }
    if (task->decision != PF_GO && !task->accepted) {
        pf__text_add(out, " What would make it go: ");
        pf__words_remedy(out, task, f->doubtful);
        pf__text_add(out, ".");
    }
    if (task->decision == PF_GO_IF && task->accepted) {
        pf__text_add(out, " This was accepted.");
    }
    if (task->decision == PF_NO_GO) {
        add_fallback(out, task->fallback);
        return;
    }
    pf_text sent = {0};
    add_corrections(&sent, task);
    if (sent.size > 0) {
        pf__text_add(out, task->decision == PF_GO ? "GO." : "");
        pf__text_join(out, &sent);
    }
    out->failed = out->failed || sent.failed;
    pf__text_free(&sent);
}

// Tasks in a row that have the same said of them share a line.
static void end_line(pf_follows *f)
{
    if (f->line.size > 0 && f->names.size > 0) {
        pf__text_addf(&f->lines, "%s: %s\n", f->names.data, f->line.data);
    }
    f->lines.failed = f->lines.failed || f->names.failed || f->line.failed;
    pf__text_clear(&f->names);
    pf__text_clear(&f->line);
}

void pf__words_follow(pf_follows *f, const pf_task_said *task)
{
    f->tasks++;
    f->no_go += task->decision == PF_NO_GO;
    f->conditions += task->decision == PF_GO_IF && task->accepted;
    f->open += task->decision == PF_GO_IF && !task->accepted;
    pf__words_name(&f->table, task->name);
    pf__text_addf(&f->table, "\t%s\t", pf__shouted(task->decision));
    add_sent(&f->table, task);
    pf__text_addf(&f->table, "\t%.3f\t%.3f\t", task->mean, task->lower);
    pf__words_name(&f->table, task->rehearsed);
    pf__text_add(&f->table, "\n");
    pf_text line = {0};
    add_line(&line, f, task);
    bool same = line.size > 0 && f->line.size > 0 && strcmp(line.data, f->line.data) == 0;
    if (!same) {
        end_line(f);
        pf__text_join(&f->line, &line);
    }
    f->lines.failed = f->lines.failed || line.failed;
    pf__text_add(&f->names, same ? ", " : "");
    pf__words_name(&f->names, task->name);
    pf__text_free(&line);
}

// The last line: what whoever runs the check must know.
static void add_verdict(const pf_follows *f, pf_text *out)
{
    pf_decision all = pf__overall(f->tasks, f->no_go, f->conditions + f->open, f->rehearsed);
    bool open = f->open > 0 || (!f->rehearsed && !f->agreed);
    pf__text_addf(out, "\n%s: %s.\n", pf__shouted(all),
                  all == PF_NO_GO ? "not ready for every task"
                  : all == PF_GO  ? "all ready"
                  : open ? "not ready for every task, unless a condition is accepted (check "
                           "--accept)"
                         : "all ready under the accepted conditions");
}

void pf__words_follows_end(pf_follows *f, pf_text *out)
{
    end_line(f);
    pf__text_addf(out,
                  "\n## What follows\nA task is go if it returns at least %.3g with probability "
                  "%.0f %%%s.\n",
                  f->j_min, 100 * (1 - f->alpha),
                  f->rehearsed ? " and came out as predicted when it was rehearsed" : "");
    pf__text_add(out, "\ntask\tverdict\tsend\t>return\t>at least\trehearsed\n");
    pf__text_add(out, f->table.size > 0 ? f->table.data : "");
    pf__text_add(out, f->lines.size > 0 ? "\n" : "");
    pf__text_add(out, f->lines.size > 0 ? f->lines.data : "");
    if (!f->rehearsed) {
        pf__text_add(out,
                     "\nThis kit has the paper's rules: nothing is rehearsed, and what fits no "
                     "machine of the model is not noticed.\n");
    }
    add_verdict(f, out);
    out->failed = out->failed || f->table.failed || f->lines.failed;
    pf__text_free(&f->table);
    pf__text_free(&f->lines);
    pf__text_free(&f->names);
    pf__text_free(&f->line);
}

void pf__words_follows(pf_text *out, const pf_session *session, const pf_accepted *accepted)
{
    pf_kit_info k = pf_kit_get_info(pf_session_kit(session));
    pf_follows f = {.alpha = k.alpha,
                    .j_min = k.j_min,
                    .rehearsed = k.rules.field,
                    .agreed = accepted && accepted->not_rehearsed};
    pf_odd odd = find_odd(session, "");
    pf__words_weakened(out, pf_session_kit(session));
    f.doubtful = pf__misfits(&odd);
    for (int j = 1; j < k.n_mech; j++) {
        f.doubtful = f.doubtful || find(session, j).silent;
    }
    for (int t = 0; t < k.n_tasks; t++) {
        pf_task_said task;
        read_task(session, t, accepted, &task);
        pf__words_follow(&f, &task);
    }
    pf__words_follows_end(&f, out);
}
