// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "sheet.h"
#include "journal.h"
#include "said.h"
#include "weakened.h"

#include "core/kit_layout.h"
#include "core/sha256.h"
#include "host/json.h"
#include "host/page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct sheet {
    pf_text *out;
    json_t *lines;   // of the journal, the header first
    json_t *verdict; // the certificate, or the last readiness of the journal
    pf_said said;    // what that says
    void *image;
    pf_kit kit;
} sheet;

// --- reading

static double at(json_t *matrix, size_t row, size_t column)
{
    return json_number_value(json_array_get(json_array_get(matrix, row), column));
}

static pf_status read_lines(sheet *s, const char *journal, size_t n, pf_error *error)
{
    s->lines = json_array();
    for (size_t from = 0; s->lines && from < n;) {
        const char *end = memchr(journal + from, '\n', n - from);
        size_t size = end ? (size_t)(end - journal) - from : n - from;
        // a line that is left out would be a probe or rehearsal that the sheet does not show
        if (json_array_append_new(s->lines, pf__json_load(journal + from, size, 0, NULL)) != 0) {
            return pf_fail(error, PF_ERR_FORMAT,
                           "line %z of the journal is no JSON, or there is no memory for it",
                           json_array_size(s->lines) + 1);
        }
        from += size + 1;
    }
    size_t count = json_array_size(s->lines);
    for (size_t i = count; i-- > 1 && !s->verdict;) {
        json_t *entry = json_array_get(s->lines, i);
        bool is = strcmp(pf__said_text(json_object_get(entry, "request"), "op"), "readiness") == 0;
        s->verdict = is ? json_incref(json_object_get(entry, "reply")) : NULL;
    }
    if (!s->verdict) {
        return pf_fail(error, PF_ERR_FORMAT,
                       "the journal has no readiness: ask for it at the end of the session");
    }
    return PF_OK;
}

static pf_status read_kit(sheet *s, pf_error *error)
{
    json_t *kit = json_object_get(json_array_get(s->lines, 0), "kit");
    size_t n = json_string_length(kit), room = n / 4 * 3 + 3;
    s->image = malloc(room);
    if (!s->image) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a sheet");
    }
    return pf__kit_read(&s->kit, s->image,
                        pf__base64_decode(json_string_value(kit), n, s->image, room), error);
}

// --- the verdict

static int count_tasks(const sheet *s, pf_decision decision)
{
    int n = 0;
    for (int t = 0; t < s->said.n_tasks; t++) {
        pf_task_said task;
        pf__said_task(&s->said, t, &task);
        n += task.decision == decision;
    }
    return n;
}

static pf_decision overall(const sheet *s)
{
    return pf__overall(s->said.n_tasks, count_tasks(s, PF_NO_GO), count_tasks(s, PF_GO_IF),
                       s->said.rehearses);
}

static void add_percent(const sheet *s, const char *before, double probability, const char *after)
{
    pf__text_add(s->out, before);
    pf__words_percent(s->out, probability);
    pf__text_add(s->out, after);
}

// What the probes found: every mechanism that is not healthy, then what is odd or not confirmed. Of
// many that were not probed the first stand there, and how many more.
static void add_found(const sheet *s)
{
    enum { NAMED = 3 };
    int found = 0, unprobed = 0;
    pf_text notes = {0};
    pf__text_add(s->out, "<p>Found: ");
    for (int j = 1; j <= s->said.n_mechanisms; j++) {
        pf_found f = pf__said_finding(&s->said, j);
        const char *finding = pf__finding(&f);
        bool silent = strcmp(finding, "not probed") == 0 && f.changed <= .05;
        unprobed += silent;
        if (strcmp(finding, "healthy") == 0 || (silent && unprobed > NAMED)) {
            continue;
        }
        pf__text_add(s->out, found++ ? "; " : "");
        pf__page_name(s->out, f.mechanism);
        pf__text_addf(s->out, ": %s", finding);
        if (f.changed > .05) {
            add_percent(s, ", P(changed) ", f.changed, "");
            pf__text_addf(s->out, ", then it delivers %.2f of its %s (90 %% interval %.2f to %.2f)",
                          f.gain, pf_kit_loses_force(&s->kit, j) ? "force" : "command",
                          f.interval[0], f.interval[1]);
        }
        pf__text_add(s->out, f.unconfirmed ? ", not confirmed" : "");
        pf__words_unconfirmed(&notes, &f, &s->said.odd);
    }
    pf__words_odd(&notes, &s->said.odd);
    if (unprobed > NAMED) {
        pf__text_addf(s->out, "; %s: not probed",
                      pf__counted(unprobed - NAMED, "other mechanism").text);
    }
    pf__text_add(s->out, found ? ".</p>\n" : "every mechanism is healthy.</p>\n");
    if (notes.size > 0) {
        pf__text_add(s->out, "<p><b>");
        pf__page_text(s->out, notes.data);
        pf__text_add(s->out, "</b></p>\n");
    }
    s->out->failed = s->out->failed || notes.failed;
    pf__text_free(&notes);
}

// Go holds for the corrected commands only: which, by how much.
static void add_condition(const sheet *s)
{
    bool told[PF_MECH_MAX] = {false};
    int n = 0;
    for (int t = 0; t < s->said.n_tasks; t++) {
        pf_task_said task;
        pf__said_task(&s->said, t, &task);
        for (int u = 0; u < task.n_uses && task.decision != PF_NO_GO; u++) {
            const pf_use *use = &task.uses[u];
            if (use->index == 0 || told[use->index] || fabs(use->factor - 1) <= .005) {
                continue;
            }
            told[use->index] = true;
            pf__text_add(s->out, n++ ? ", " : "<p><b>It holds for corrected commands only: send ");
            pf__page_name(s->out, use->mechanism);
            pf__text_addf(s->out, " %.3f times its command", use->factor);
        }
    }
    pf__text_add(s->out, n ? ".</b></p>\n" : "");
}

// Why the verdict is what it is, by the first task that is not go.
static void add_reason(const sheet *s, pf_decision verdict)
{
    int all = s->said.n_tasks, go = count_tasks(s, PF_GO), same = count_tasks(s, verdict);
    pf_task_said task = {.decision = PF_GO};
    for (int t = 0; t < all && (t == 0 || task.decision != verdict); t++) {
        pf__said_task(&s->said, t, &task);
    }
    pf__text_add(s->out, "<p>");
    if (verdict == PF_GO) {
        pf__text_add(s->out, "The bound of every task reaches the required return, and every task "
                             "ran with its corrected command and came out as predicted.");
    } else if (same > 0) {
        pf__text_addf(s->out, "%d of %s %s go. Task ", go, pf__counted(all, "task").text,
                      go == 1 ? "is" : "are");
        pf__page_name(s->out, task.name);
        pf__text_addf(s->out, " is %s: ", pf_decision_name(verdict));
        pf__page_text(s->out, pf_why_text(task.why));
        pf__text_addf(s->out, same > 1 ? ". So %s %s." : ".", same == 2 ? "is" : "are",
                      pf__counted(same - 1, "other task").text);
    } else {
        pf__text_add(s->out, all == 0 ? "There is no task."
                                      : "The bound of every task reaches the required return, but "
                                        "this kit has the paper's rules: nothing was rehearsed.");
    }
    pf__text_add(s->out, "</p>\n");
}

static long long seed_of(const sheet *s)
{
    return json_integer_value(json_object_get(json_array_get(s->lines, 0), "seed"));
}

// The kit's plant and what was checked: a machine that `check` ran by its name, with the fault that
// was put into it, or one behind serve. What a program answers may be a machine.
static void add_machine(const sheet *s, json_t *header)
{
    const char *plant = pf_kit_get_string(&s->kit, PF_KIT_PLANT);
    const char *machine = pf__said_text(header, "machine");
    const char *injected = pf__said_text(header, "injected");
    bool other = machine[0] && strcmp(machine, plant) != 0;
    pf_text text = {0};
    pf__text_add(&text, plant);
    if (other) {
        pf__text_add(&text, "; checked was ");
        pf__text_add(&text, machine);
    }
    if (injected[0]) {
        pf__text_add(&text, ", simulated, with this fault put into it: ");
        pf__text_add(&text, injected);
    } else if (machine[0] && strncmp(machine, "exec:", 5) != 0) {
        pf__text_add(&text, ", simulated, with no fault put into it");
    } else if (!machine[0]) {
        pf__text_add(&text, ", told by the program that talked to serve");
    }
    pf__page_fact(s->out, "machine", text.data ? text.data : "");
    s->out->failed = s->out->failed || text.failed;
    pf__text_free(&text);
}

// Beside the verdict: whoever signs may read no further.
static void add_doubt(const sheet *s)
{
    const pf_said_audit *audit = &s->said.audit;
    pf_text words = {0};
    if (s->said.audited) {
        pf__words_audit_failed(&words, audit->false_go, audit->worst_upper,
                               pf_kit_get_info(&s->kit).alpha);
    }
    if (words.size > 0) {
        pf__text_add(s->out, "<p><b>This kit was audited.");
        pf__page_text(s->out, words.data);
        pf__text_add(s->out, "</b></p>\n");
    }
    s->out->failed = s->out->failed || words.failed;
    pf__text_free(&words);
}

static void add_facts(const sheet *s)
{
    const pf_kit *k = &s->kit;
    pf_kit_info info = pf_kit_get_info(k);
    char sha[65], text[300];
    pf__sha256_text(info.sha256, sha);
    json_t *header = json_array_get(s->lines, 0);
    pf__page_head(s->out, "Machine, kit and check", 0, NULL);
    add_machine(s, header);
    snprintf(text, sizeof text, "%s (%s predictor, made by preflight %s)", sha,
             pf_kit_get_string(k, PF_KIT_PREDICTOR), pf_kit_get_string(k, PF_KIT_PREFLIGHT));
    pf__page_fact(s->out, "kit, sha256", text);
    if (s->said.signer[0]) {
        pf__page_fact(s->out, "kit signed by", s->said.signer);
    }
    pf__print(text, sizeof text, "preflight %s, method %s, seed %lld, %s and %s, charge %.3g",
              pf__said_text(header, "preflight"), pf__said_text(header, "method"), seed_of(s),
              pf__counted(s->said.probes, "probe").text,
              pf__counted(s->said.rehearsals, "rehearsal").text, s->said.charge);
    pf__page_fact(s->out, "check", text);
    const pf_said_audit *audit = &s->said.audit;
    if (s->said.audited) {
        pf__print(text, sizeof text,
                  "%d of %d faults, %d sessions each: %d with a false go among the promised ones, "
                  "at worst %.1f %% (upper 95 %% limit)",
                  audit->covered, audit->entries, audit->sessions, audit->false_go,
                  100 * audit->worst_upper);
    } else {
        snprintf(text, sizeof text, "%s",
                 s->said.certificate ? "this kit was not audited"
                                     : "not known from a journal alone");
    }
    pf__page_fact(s->out, "audit", text);
    pf__print(text, sizeof text, "return at least %.3g, with risk %.3g", info.j_min, info.alpha);
    pf__page_fact(s->out, "required of a go", text);
    pf__page_table_end(s->out);
}

// The factors of its commands. A task that is no-go is not sent.
static void add_correction(const sheet *s, const pf_task_said *task)
{
    pf__text_add(s->out, "<td class=\"n\">");
    for (int u = 0; u < task->n_uses && task->decision != PF_NO_GO; u++) {
        pf__text_addf(s->out, "%s%.3f", u ? ", " : "", task->uses[u].factor);
    }
    pf__text_add(s->out, task->decision == PF_NO_GO ? "-</td>" : "</td>");
}

// A task that is go has nothing to explain or to fall back to.
static void add_why(const sheet *s, const pf_task_said *task)
{
    bool go = task->decision == PF_GO;
    pf__text_add(s->out, go ? "<td class=\"y\">-" : "<td class=\"y\">");
    if (!go) {
        pf__page_text(s->out, pf_why_text(task->why));
    }
    if (!go && pf__has_fallback(task->fallback)) {
        pf__text_add(s->out, "; fallback: ");
        pf__page_name(s->out, task->fallback);
    }
    pf__text_add(s->out, "</td>");
}

static void add_tasks(const sheet *s)
{
    char required[40];
    pf__print(required, sizeof required, "bound (%.3g needed)", s->kit.j_min);
    PF_PAGE_HEAD(s->out, "Tasks", "task", "verdict", "correction", "return", required, "rehearsed",
                 "why not, and fallback");
    for (int t = 0; t < s->said.n_tasks; t++) {
        pf_task_said task;
        pf__said_task(&s->said, t, &task);
        pf__page_row(s->out, task.name);
        pf__text_addf(s->out, "<td class=\"%s\"><b>%s</b></td>", pf_decision_name(task.decision),
                      pf__shouted(task.decision));
        add_correction(s, &task);
        pf__page_number(s->out, task.mean, 3);
        pf__page_number(s->out, task.lower, 3);
        pf__page_cell(s->out, "td", task.rehearsed);
        add_why(s, &task);
        pf__page_row_end(s->out);
    }
    pf__page_table_end(s->out);
}

// --- mechanisms

// The share of its limits that the corrected commands of all tasks leave a mechanism, NaN: it has
// none, or no open loop uses it.
static double margin_left(const sheet *s, int mechanism, double correction)
{
    const pf_kit *k = &s->kit;
    double left = NAN;
    for (int t = 0; t < k->n_tasks; t++) {
        const double *command = pf_kit_task_command(k, t);
        for (int r = 0; command && r < pf_kit_task_rows(k, t); r++) {
            double u = correction * command[r * k->n_mech + mechanism];
            double limit = u < 0 ? k->lo[mechanism] : k->hi[mechanism];
            if (u != 0 && isfinite(limit) && limit != 0) {
                left = fmin(isnan(left) ? 1 : left, 1 - u / limit);
            }
        }
    }
    return left;
}

// Of the commands of a mechanism, 1 where no task uses it.
static double correction_of(const sheet *s, int mechanism)
{
    for (int t = 0; t < s->said.n_tasks; t++) {
        pf_task_said task;
        pf__said_task(&s->said, t, &task);
        for (int u = 0; u < task.n_uses; u++) {
            if (task.uses[u].index == mechanism) {
                return task.uses[u].factor;
            }
        }
    }
    return 1;
}

static void add_mechanisms(const sheet *s)
{
    PF_PAGE_HEAD(s->out, "Mechanisms", "mechanism", "probed", "P(changed)", "finding",
                 "gain, if it changed", "command left after correction");
    for (int j = 1; j <= s->said.n_mechanisms; j++) {
        pf_found f = pf__said_mechanism(&s->said, j);
        pf__page_row(s->out, f.mechanism);
        pf__page_cell(s->out, "td", f.probed ? "yes" : "NO");
        add_percent(s, "<td class=\"n\">", f.changed, "</td>");
        pf__page_cell(s->out, "td", pf__finding(&f));
        if (f.changed > .01) {
            pf__page_interval(s->out, f.interval[0], f.gain, f.interval[1], 1.5);
        } else {
            pf__text_add(s->out, "<td>-</td>");
        }
        double left = margin_left(s, j, correction_of(s, j));
        if (isnan(left)) {
            bool limited = isfinite(s->kit.lo[j]) && isfinite(s->kit.hi[j]);
            pf__text_addf(s->out, "<td>%s</td>",
                          limited ? "no open-loop task uses it" : "no limit is known");
        } else if (left < 0) {
            pf__text_addf(s->out, "<td>none: %.0f %% more than it may send</td>", -100 * left);
        } else {
            pf__text_addf(s->out, "<td>%.0f %%</td>", 100 * left);
        }
        pf__page_row_end(s->out);
    }
    pf__page_table_end(s->out);
}

// --- what is open

static void end_remedy(const sheet *s, pf_text *remedy)
{
    if (remedy->size > 0) {
        pf__text_add(s->out, " go: ");
        pf__page_text(s->out, remedy->data);
        pf__text_add(s->out, ".</li>\n");
    }
    pf__text_clear(remedy);
}

// What would make tasks go that are not; the ones that need the same stand together.
static void add_remedies(const sheet *s)
{
    bool doubtful = pf__said_doubtful(&s->said);
    pf_text last = {0}, remedy = {0};
    for (int why = 0; why < PF_WHY_CERTIFIED; why++) {
        pf__text_clear(&last);
        for (int t = 0; t < s->said.n_tasks; t++) {
            pf_task_said task;
            pf__said_task(&s->said, t, &task);
            if (task.decision == PF_GO || (int)task.why != why) {
                continue;
            }
            pf__text_clear(&remedy);
            pf__words_remedy(&remedy, &task, doubtful);
            bool same = last.size > 0 && strcmp(last.data, remedy.data) == 0;
            if (!same) {
                end_remedy(s, &last);
                pf__text_join(&last, &remedy);
            }
            pf__text_add(s->out, same ? ", " : "<li>What would make ");
            pf__page_name(s->out, task.name);
        }
        end_remedy(s, &last);
        s->out->failed = s->out->failed || last.failed;
    }
    pf__text_free(&last);
    pf__text_free(&remedy);
}

// What would make it go, and what to do where nothing does.
static void add_not_go(const sheet *s)
{
    bool none = false;
    for (int t = 0; t < s->said.n_tasks; t++) {
        pf_task_said task;
        pf__said_task(&s->said, t, &task);
        none = none || (task.decision == PF_NO_GO && !pf__has_fallback(task.fallback));
    }
    if (count_tasks(s, PF_GO) == s->said.n_tasks) {
        return;
    }
    pf__text_add(s->out, "<h2>What would make it go</h2>\n<ul>\n");
    add_remedies(s);
    pf__text_add(s->out, none ? "<li>Where no fallback is named it is the uncorrected command, at "
                                "your own risk.</li>\n"
                              : "");
    pf__text_add(s->out, "</ul>\n");
}

static void add_open(const sheet *s)
{
    const struct {
        bool was;
        pf_why why;
    } accepted[] = {{s->said.accepted.not_rehearsed, PF_WHY_NOT_REHEARSED},
                    {s->said.accepted.unseen_loss, PF_WHY_UNSEEN_LOSS}};
    pf__text_add(s->out, "<h2>What was not tested, and what is assumed</h2>\n<ul>\n");
    for (int i = 0; i < 2; i++) {
        if (accepted[i].was) {
            pf__text_addf(s->out,
                          "<li>The condition %s was accepted by whoever ran the check.</li>\n",
                          pf_why_name(accepted[i].why));
        }
    }
    pf_weakened weak[PF_WEAKENED_MOST];
    int n_weak = pf__weakened(&s->kit, weak);
    for (int i = 0; i < n_weak; i++) {
        pf__text_add(s->out, "<li>A setting of the kit weakens the verdict: ");
        pf__page_name(s->out, weak[i].words);
        pf__text_add(s->out, ".</li>\n");
    }
    if (!s->kit.field) {
        pf__text_add(s->out, "<li>This kit has the paper's rules: nothing is rehearsed, and every "
                             "response counts as plausible.</li>\n");
    }
    pf__text_add(s->out, "<li>Mechanism 0, ");
    pf__page_name(s->out, pf_kit_mechanism_name(&s->kit, 0));
    pf__text_addf(s->out,
                  ", is never probed. %s A go is about the machine at its last rehearsal and about "
                  "starts like those of calibration. A fault that comes and goes may be absent "
                  "here.</li>\n</ul>\n",
                  s->kit.faults == PF_FAULTS_MANY ? "Several losses at once are told apart."
                                                  : "One loss at a time is assumed.");
}

// What is signed stands beside the signature, whatever page that comes to.
static void add_signature(const sheet *s, pf_decision verdict)
{
    char sha[65];
    pf__sha256_text(pf_kit_get_info(&s->kit).sha256, sha);
    pf__text_addf(s->out,
                  "<table class=\"sign\"><tbody><tr><td colspan=\"3\"><b class=\"%s\">%s</b> for ",
                  pf_decision_name(verdict), pf__shouted(verdict));
    pf__page_name(s->out, pf_kit_get_string(&s->kit, PF_KIT_PLANT));
    pf__text_addf(s->out,
                  ", kit <span class=\"x\">%s</span>, seed %lld</td></tr>\n<tr class=\"s\"><td>Name"
                  "</td><td>Date and time</td><td>Signature</td></tr></tbody></table>\n",
                  sha, seed_of(s));
}

// --- the runs

// A page has at most about ALL_PLOTS of them, so that it stays small.
enum {
    PLOT_W = 150,
    PLOT_H = 70,
    STRIP_H = 24,
    MOST_PLOTS = 6,
    ALL_PLOTS = 120,
    MOST_CHANNELS = 4096,
    MOST_LINES = 16
};
enum { INK_MEASURED = 0, INK_HEALTHY = 1, INK_NEAREST = 2 };

static void column_of(json_t *matrix, size_t rows, size_t column, double *y, double *lo, double *hi)
{
    for (size_t r = 0; r < rows; r++) {
        y[r] = at(matrix, r, column);
        *lo = fmin(*lo, y[r]);
        *hi = fmax(*hi, y[r]);
    }
}

// How far a channel of a response lies from what was expected, in its scale: the largest over rows.
static double apart(const sheet *s, json_t *response, json_t *expected, size_t channel)
{
    double most = 0;
    for (size_t r = 0; r < json_array_size(response); r++) {
        most = fmax(most, fabs(at(response, r, channel) - at(expected, r, channel)));
    }
    return most / s->kit.return_scale[channel];
}

// One channel of one run: measured, healthy, and the nearest hypothesis where there is one; below
// it what is left of the measured one after the best prediction.
static void add_plot(const sheet *s, json_t *response, json_t *nominal, json_t *nearest,
                     size_t channel, double *work)
{
    size_t rows = json_array_size(response);
    double lo = INFINITY, hi = -INFINITY, *y[3] = {work, work + rows, work + 2 * rows};
    column_of(response, rows, channel, y[0], &lo, &hi);
    column_of(nominal, rows, channel, y[1], &lo, &hi);
    column_of(nearest ? nearest : nominal, rows, channel, y[2], &lo, &hi);
    const char *name = pf_kit_channel_name(&s->kit, (int)channel);
    double off = apart(s, response, nearest ? nearest : nominal, channel);
    char text[160];
    pf__print(text, sizeof text,
              "from %.3g to %.3g; at most %.2f scales from the healthy prediction", lo, hi,
              apart(s, response, nominal, channel));
    pf_plot plot = {.lo = lo, .hi = hi, .width = PLOT_W, .height = PLOT_H};
    pf__text_add(s->out, "<figure>");
    pf__page_plot(s->out, &plot, name, text);
    pf__page_line(s->out, &plot, rows, y[1], INK_HEALTHY, "4 2");
    if (nearest) {
        pf__page_line(s->out, &plot, rows, y[2], INK_NEAREST, "1 2");
    }
    pf__page_line(s->out, &plot, rows, y[0], INK_MEASURED, "none");
    pf__page_plot_end(s->out);
    pf__text_add(s->out, "<br>");
    for (size_t r = 0; r < rows; r++) {
        y[2][r] = (y[0][r] - y[2][r]) / s->kit.return_scale[channel];
    }
    double most = fmax(off, 1);
    pf_plot strip = {.lo = -most, .hi = most, .width = PLOT_W, .height = STRIP_H};
    pf__print(text, sizeof text, "at most %.2f scales; drawn from -%.3g to %.3g", off, most, most);
    pf__page_plot(s->out, &strip, "measured less predicted", text);
    pf__page_level(s->out, &strip, 0);
    pf__page_line(s->out, &strip, rows, y[2], INK_MEASURED, "none");
    pf__page_plot_end(s->out);
    pf__text_add(s->out, "<figcaption>");
    pf__page_name(s->out, name);
    pf__text_addf(s->out, ", off by %.2f</figcaption></figure>\n", off);
}

// The channels that differ most from a healthy machine.
static void add_run(const sheet *s, json_t *entry, int number, int plots, double *work)
{
    json_t *request = json_object_get(entry, "request"), *reply = json_object_get(entry, "reply");
    json_t *predictions = json_object_get(entry, "predictions");
    json_t *response = json_object_get(request, "response");
    json_t *nominal = json_object_get(predictions, "nominal");
    json_t *nearest = json_object_get(predictions, "nearest");
    json_t *tasks = json_object_get(request, "rehearsal");
    pf__text_addf(s->out, "<h3>%d. ", number);
    for (size_t i = 0; i < json_array_size(tasks); i++) {
        int task = (int)json_integer_value(json_array_get(tasks, i));
        pf__text_add(s->out, i ? ", " : "rehearsal of ");
        pf__page_name(s->out, pf_kit_task_name(&s->kit, task));
    }
    if (tasks) {
        pf__text_addf(s->out, ": %s</h3>\n",
                      json_is_true(json_object_get(reply, "passed")) ? "as predicted"
                                                                     : "NOT as predicted");
    } else {
        pf__text_add(s->out, "probe ");
        pf__page_name(s->out, pf_kit_probe_name(&s->kit, (int)json_integer_value(
                                                             json_object_get(request, "probe"))));
        pf__text_add(s->out, "</h3>\n");
    }
    double away[MOST_CHANNELS]; // from healthy; below 0: shown already
    size_t channels = s->kit.n_chan < MOST_CHANNELS ? (size_t)s->kit.n_chan : (size_t)MOST_CHANNELS;
    for (size_t c = 0; c < channels && nominal; c++) {
        away[c] = apart(s, response, nominal, c);
    }
    for (int plot = 0; nominal && plot < plots && plot < (int)channels; plot++) {
        size_t next = 0;
        for (size_t c = 1; c < channels; c++) {
            next = away[c] > away[next] ? c : next;
        }
        away[next] = -1;
        add_plot(s, response, nominal, nearest, next, work);
    }
}

// The belief that a mechanism changed, for each, after each look of stage 1.
static void add_belief(const sheet *s, double *work)
{
    size_t n = 1, mech = (size_t)s->kit.n_mech, lines = json_array_size(s->lines);
    for (size_t j = 0; j < mech; j++) {
        work[j * lines] = s->kit.prior[j];
    }
    for (size_t i = 1; i < lines; i++) {
        json_t *reply = json_object_get(json_array_get(s->lines, i), "reply");
        json_t *belief = json_object_get(reply, "belief");
        for (size_t j = 0; belief && j < mech; j++) {
            work[j * lines + n] = json_number_value(json_array_get(belief, j));
        }
        n += belief != NULL;
    }
    if (n == 1) {
        return;
    }
    pf_plot plot = {.lo = 0, .hi = 1, .width = PLOT_W, .height = PLOT_H, .shown = 2};
    pf__text_add(s->out, "<h2>The belief over the probes</h2>\n<figure>");
    pf__page_plot(s->out, &plot, "Belief after each look of stage 1",
                  "one line per mechanism, the likeliest ones of many, from 0 to 1");
    for (size_t j = 1; j < mech; j++) {
        int above = 0; // mechanisms that are likelier
        for (size_t i = 1; i < mech; i++) {
            above += work[i * lines + n - 1] > work[j * lines + n - 1];
        }
        if (above < MOST_LINES) {
            pf__page_line(s->out, &plot, n, work + j * lines, (int)j, "none");
        }
    }
    pf__page_plot_end(s->out);
    pf__text_add(
        s->out, "<figcaption>The belief that a mechanism changed, from 0 (bottom) to 1, before the "
                "first look and after each; the colours are those of the table. The belief "
                "chooses probes and sounds the alarm. The verdict rests on P(changed), which "
                "also knows how strong every answer was.</figcaption></figure>\n");
    PF_PAGE_HEAD(s->out, "Belief before and after the looks of stage 1", "mechanism", "before",
                 "after the last");
    for (size_t j = 1; j < mech; j++) {
        pf__text_addf(s->out, "<tr><th scope=\"row\" class=\"k%d\">", (int)(j % PF_PAGE_INKS));
        pf__page_text(s->out, pf_kit_mechanism_name(&s->kit, (int)j));
        pf__text_add(s->out, "</th>");
        add_percent(s, "<td class=\"n\">", work[j * lines], "</td>");
        add_percent(s, "<td class=\"n\">", work[j * lines + n - 1], "</td>");
        pf__page_row_end(s->out);
    }
    pf__page_table_end(s->out);
}

// Whether a line of the journal is a response that was taken.
static bool is_run(json_t *entry)
{
    return strcmp(pf__said_text(json_object_get(entry, "request"), "op"), "tell") == 0 &&
           json_is_true(json_object_get(json_object_get(entry, "reply"), "ok"));
}

static pf_status add_runs(const sheet *s, pf_error *error)
{
    size_t lines = json_array_size(s->lines), most = 0;
    for (size_t i = 1; i < lines; i++) {
        json_t *request = json_object_get(json_array_get(s->lines, i), "request");
        size_t rows = json_array_size(json_object_get(request, "response"));
        most = rows > most ? rows : most;
    }
    size_t belief = lines * (size_t)s->kit.n_mech, plot = 3 * most;
    double *work = calloc(belief > plot ? belief : plot, sizeof *work);
    if (!work) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a sheet");
    }
    int n = 0;
    for (size_t i = 1; i < lines; i++) {
        n += is_run(json_array_get(s->lines, i));
    }
    int plots = n * MOST_PLOTS <= ALL_PLOTS ? MOST_PLOTS : n < ALL_PLOTS ? ALL_PLOTS / n : 1;
    pf__text_add(s->out, "<p class=\"paper small\">The belief, the runs and the certificate are in "
                         "the file that this sheet was printed from.</p>\n<div "
                         "class=\"screen\">\n");
    add_belief(s, work);
    pf__text_addf(
        s->out,
        "<h2>The runs</h2>\n<p class=\"small\">Solid: measured. Dashed: a healthy machine. "
        "Dotted: the nearest hypothesis. Below: measured less the best prediction, in scales of "
        "the channel; \"off by\" is its largest value. Shown: the %s that differ most from a "
        "healthy machine.</p>\n",
        pf__counted(plots, "channel").text);
    if (n > ALL_PLOTS) {
        pf__text_addf(s->out, "<p>The first %d of %d runs; the journal has all of them.</p>\n",
                      ALL_PLOTS, n);
    }
    int number = 0;
    for (size_t i = 1; i < lines && number < ALL_PLOTS; i++) {
        if (is_run(json_array_get(s->lines, i))) {
            add_run(s, json_array_get(s->lines, i), ++number, plots, work);
        }
    }
    free(work);
    return PF_OK;
}

// --- all of it

static pf_status write_sheet(sheet *s, const char *certificate, pf_error *error)
{
    pf_decision verdict = overall(s);
    pf__text_add(s->out, "<section>\n");
    pf__page_heading(s->out, "Readiness of ", pf_kit_get_string(&s->kit, PF_KIT_PLANT));
    pf__text_addf(s->out, "<div class=\"verdict %s\">%s</div>\n", pf_decision_name(verdict),
                  pf__shouted(verdict));
    add_reason(s, verdict);
    add_found(s);
    add_condition(s);
    add_doubt(s);
    add_facts(s);
    add_tasks(s);
    add_mechanisms(s);
    add_not_go(s);
    add_open(s);
    add_signature(s, verdict);
    pf_status status = add_runs(s, error);
    if (certificate) {
        // what steers text stands there as JSON escapes it: the numbers and names are the same
        pf_text same = {0};
        pf__text_add_shown(&same, certificate, strlen(certificate), "\n");
        pf__text_add(s->out, "<h2>The certificate</h2>\n<pre>");
        pf__page_text(s->out, same.data ? same.data : "");
        pf__text_add(s->out, "</pre>\n");
        s->out->failed = s->out->failed || same.failed;
        pf__text_free(&same);
    }
    pf__text_add(s->out, "</div>\n</section>\n");
    return status == PF_OK && s->out->failed
               ? pf_fail(error, PF_ERR_MEMORY, "out of memory for a sheet")
               : status;
}

static pf_status make(sheet *s, const char *journal, size_t n, const char *certificate, bool page,
                      pf_error *error)
{
    pf_status status = read_lines(s, journal, n, error);
    status = status ? status : read_kit(s, error);
    if (status == PF_OK && certificate) {
        json_decref(s->verdict);
        s->verdict = pf__json_load(certificate, strlen(certificate), JSON_REJECT_DUPLICATES, NULL);
        status = s->verdict ? PF_OK : pf_fail(error, PF_ERR_FORMAT, "the certificate is no JSON");
    }
    status = status ? status : pf__said_read(&s->said, s->verdict, &s->kit, error);
    if (status == PF_OK && page) {
        pf__page_open(s->out, "Readiness of ", pf_kit_get_string(&s->kit, PF_KIT_PLANT), false);
    }
    status = status ? status : write_sheet(s, certificate, error);
    if (status == PF_OK && page) {
        pf__page_close(s->out);
    }
    json_decref(s->lines);
    json_decref(s->verdict);
    free(s->image);
    return status;
}

pf_status pf__sheet(const char *journal, size_t n, const char *certificate, pf_text *html,
                    pf_error *error)
{
    return make(&(sheet){.out = html}, journal, n, certificate, true, error);
}

pf_status pf__sheet_section(const char *journal, size_t n, const char *certificate, pf_text *html,
                            pf_error *error)
{
    return make(&(sheet){.out = html}, journal, n, certificate, false, error);
}
