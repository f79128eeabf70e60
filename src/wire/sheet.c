// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "sheet.h"
#include "journal.h"

#include "core/kit_layout.h"
#include "core/sha256.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct sheet {
    pf_text *out;
    json_t *lines;   // of the journal, the header first
    json_t *verdict; // the certificate, or the last readiness of the journal
    void *image;
    pf_kit kit;
} sheet;

// --- reading

static double number_of(json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static const char *text_of(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

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
        json_array_append_new(s->lines, json_loadb(journal + from, size, 0, NULL));
        from += size + 1;
    }
    size_t count = json_array_size(s->lines);
    for (size_t i = count; i-- > 1 && !s->verdict;) {
        json_t *entry = json_array_get(s->lines, i);
        bool is = strcmp(text_of(json_object_get(entry, "request"), "op"), "readiness") == 0;
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

// --- writing

static void add_escaped(pf_text *out, const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '&':
            pf__text_add(out, "&amp;");
            break;
        case '<':
            pf__text_add(out, "&lt;");
            break;
        case '>':
            pf__text_add(out, "&gt;");
            break;
        case '"':
            pf__text_add(out, "&quot;");
            break;
        default:
            pf__text_add_n(out, text, 1);
        }
    }
}

// <tag>text</tag>
static void add_cell(pf_text *out, const char *tag, const char *text)
{
    pf__text_addf(out, "<%s>", tag);
    add_escaped(out, text);
    pf__text_addf(out, "</%.*s>", (int)strcspn(tag, " "), tag);
}

static void add_fact(pf_text *out, const char *name, const char *value)
{
    pf__text_add(out, "<tr>");
    add_cell(out, "th scope=\"row\"", name);
    add_cell(out, "td", value);
    pf__text_add(out, "</tr>\n");
}

static void add_number(pf_text *out, double value, int digits)
{
    if (isnan(value)) {
        pf__text_add(out, "<td>-</td>");
    } else {
        pf__text_addf(out, "<td class=\"n\">%.*f</td>", digits, value);
    }
}

static void add_head(pf_text *out, const char *caption, int n, const char *const *names)
{
    pf__text_add(out, "<table>\n");
    add_cell(out, "caption", caption);
    pf__text_add(out, "<thead><tr>");
    for (int i = 0; i < n; i++) {
        add_cell(out, "th scope=\"col\"", names[i]);
    }
    pf__text_add(out, "</tr></thead>\n<tbody>\n");
}

#define HEAD(out, caption, ...)                                                                    \
    add_head(out, caption, (int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)),          \
             (const char *[]){__VA_ARGS__})

static const char style[] =
    "@page{size:A4;margin:12mm}@media print{body{font-size:11px;margin:0}}"
    "body{font:13px/1.4 system-ui,sans-serif;max-width:182mm;margin:1em auto;color:#111}"
    "h1{font-size:20px;margin:0 0 .3em}h2{font-size:15px;margin:1.2em 0 .3em}"
    "table{border-collapse:collapse;width:100%;margin:.5em 0}caption{text-align:left;"
    "font-weight:600}th,td{border:1px solid #bbb;padding:2px 5px;text-align:left;"
    "vertical-align:top}td.n{text-align:right;font-variant-numeric:tabular-nums}"
    "td.w{white-space:nowrap}.verdict{font-size:34px;font-weight:700;border:3px solid;padding:2px "
    "14px;"
    "display:inline-block}.go{color:#0a6b2d}.go-if{color:#8a5a00}.no-go{color:#a11212}"
    ".sign td{height:2.4em}.next{break-before:page}figure{display:inline-block;margin:4px 8px 4px "
    "0;break-inside:avoid}figcaption{font-size:11px}pre{white-space:pre-wrap;word-break:break-all;"
    "font-size:9px}.small{font-size:11px}";

// --- the verdict

static const char *overall(const sheet *s)
{
    json_t *tasks = json_object_get(s->verdict, "tasks");
    bool condition = false;
    for (size_t i = 0; i < json_array_size(tasks); i++) {
        const char *decision = text_of(json_array_get(tasks, i), "decision");
        condition = condition || strcmp(decision, "go-if") == 0;
        if (strcmp(decision, "go") != 0 && strcmp(decision, "go-if") != 0) {
            return "no-go";
        }
    }
    return condition || json_array_size(tasks) == 0 ? "go-if" : "go";
}

static const char *why_text(const char *name)
{
    int why = pf__explain_why(name);
    return why < 0 ? name : pf_why_text((pf_why)why);
}

// A decision as the page shows it; what is neither go nor go-if is no-go.
static const char *shouted(const char *decision)
{
    return strcmp(decision, "go") == 0 ? "GO" : strcmp(decision, "go-if") == 0 ? "GO-IF" : "NO-GO";
}

static const char *class_of(const char *decision)
{
    return strcmp(decision, "go") == 0 || strcmp(decision, "go-if") == 0 ? decision : "no-go";
}

// The first task that is not go, and how many more.
static void add_reason(const sheet *s, const char *verdict)
{
    json_t *tasks = json_object_get(s->verdict, "tasks");
    int others = -1;
    pf__text_add(s->out, "<p>");
    if (strcmp(verdict, "go") == 0) {
        pf__text_add(s->out, "Every task ran with its corrected command, came out as predicted, "
                             "and its bound reaches the required return.");
    }
    for (size_t i = 0; i < json_array_size(tasks); i++) {
        json_t *task = json_array_get(tasks, i);
        if (strcmp(text_of(task, "decision"), verdict) != 0 || strcmp(verdict, "go") == 0) {
            continue;
        }
        if (++others == 0) {
            pf__text_add(s->out, "Task ");
            add_escaped(s->out, text_of(task, "name"));
            pf__text_addf(s->out, " is %s: ", verdict);
            add_escaped(s->out, why_text(text_of(task, "why")));
            pf__text_add(s->out, ".");
        }
    }
    if (others > 0) {
        pf__text_addf(s->out, " So %s %d other task%s.", others == 1 ? "is" : "are", others,
                      others == 1 ? "" : "s");
    }
    pf__text_add(s->out, "</p>\n");
}

static void add_facts(const sheet *s)
{
    const pf_kit *k = &s->kit;
    pf_kit_info info = pf_kit_get_info(k);
    char sha[65], text[300];
    pf__sha256_text(info.sha256, sha);
    json_t *header = json_array_get(s->lines, 0), *audit = json_object_get(s->verdict, "audit");
    pf__text_add(s->out, "<table>\n");
    add_fact(s->out, "machine", pf_kit_get_string(k, PF_KIT_PLANT));
    snprintf(text, sizeof text, "%s (%s predictor, made by preflight %s)", sha,
             pf_kit_get_string(k, PF_KIT_PREDICTOR), pf_kit_get_string(k, PF_KIT_PREFLIGHT));
    add_fact(s->out, "kit, sha256", text);
    snprintf(text, sizeof text, "preflight %s, method %s, %g probes and %g rehearsals, charge %.3g",
             text_of(header, "preflight"), text_of(header, "method"),
             number_of(s->verdict, "probes"), number_of(s->verdict, "rehearsals"),
             number_of(s->verdict, "charge"));
    add_fact(s->out, "check", text);
    if (json_is_object(audit)) {
        snprintf(text, sizeof text,
                 "%g of %g faults, %g sessions each: %g with a false go among the promised ones, "
                 "at worst %.1f %% (upper 95 %% limit)",
                 number_of(audit, "covered"), number_of(audit, "entries"),
                 number_of(audit, "sessions"), number_of(audit, "false_go"),
                 100 * number_of(audit, "worst_upper"));
    } else {
        snprintf(text, sizeof text, "%s",
                 json_object_get(s->verdict, "kit") ? "this kit was not audited"
                                                    : "not known from a journal alone");
    }
    add_fact(s->out, "audit", text);
    snprintf(text, sizeof text, "return at least %.3g, with risk %.3g", info.j_min, info.alpha);
    add_fact(s->out, "required of a go", text);
    pf__text_add(s->out, "</table>\n");
}

static void add_tasks(const sheet *s)
{
    json_t *tasks = json_object_get(s->verdict, "tasks");
    char required[40];
    snprintf(required, sizeof required, "bound (%.3g needed)", s->kit.j_min);
    HEAD(s->out, "Tasks", "task", "correction", "return", required, "rehearsed", "verdict", "why",
         "fallback");
    for (size_t i = 0; i < json_array_size(tasks); i++) {
        json_t *task = json_array_get(tasks, i), *factors = json_object_get(task, "correction");
        const char *decision = text_of(task, "decision");
        pf__text_add(s->out, "<tr>");
        add_cell(s->out, "th scope=\"row\"", text_of(task, "name"));
        pf__text_add(s->out, "<td class=\"n\">");
        for (size_t u = 0; u < json_array_size(factors); u++) {
            pf__text_addf(s->out, "%s%.3f", u ? ", " : "",
                          json_number_value(json_array_get(factors, u)));
        }
        pf__text_add(s->out, "</td>");
        add_number(s->out, number_of(task, "mean"), 3);
        add_number(s->out, number_of(task, "lower"), 3);
        add_cell(s->out, "td", text_of(task, "rehearsed"));
        pf__text_addf(s->out, "<td class=\"%s\"><b>%s</b></td>", class_of(decision),
                      shouted(decision));
        bool go =
            strcmp(decision, "go") == 0; // then there is nothing to explain or to fall back to
        add_cell(s->out, "td", go ? "-" : why_text(text_of(task, "why")));
        add_cell(s->out, "td", go ? "-" : text_of(task, "fallback"));
        pf__text_add(s->out, "</tr>\n");
    }
    pf__text_add(s->out, "</tbody></table>\n");
}

// --- mechanisms

// The interval of a gain on a scale from 0 to 1.5, with a mark at 1.
static void add_interval(pf_text *out, double lo, double mean, double hi)
{
    const double width = 150, top = 1.5;
    double from = width * fmin(fmax(lo, 0), top) / top, to = width * fmin(fmax(hi, 0), top) / top;
    pf__text_addf(
        out,
        "<td class=\"w\"><svg role=\"img\" width=\"%.0f\" height=\"16\" viewBox=\"0 0 %.0f 16\">"
        "<title>gain %.2f</title><desc>90 %% interval from %.2f to %.2f; the mark is 1"
        "</desc><line x1=\"0\" y1=\"8\" x2=\"%.0f\" y2=\"8\" stroke=\"#bbb\"/>"
        "<line x1=\"100\" y1=\"1\" x2=\"100\" y2=\"15\" stroke=\"#0a6b2d\"/>"
        "<rect x=\"%.1f\" y=\"4\" width=\"%.1f\" height=\"8\" fill=\"#6b8fc9\"/>"
        "<line x1=\"%.1f\" y1=\"2\" x2=\"%.1f\" y2=\"14\" stroke=\"#111\" "
        "stroke-width=\"2\"/></svg> %.2f (%.2f to %.2f)</td>",
        width, width, mean, lo, hi, width, from, fmax(to - from, 1),
        width * fmin(fmax(mean, 0), top) / top, width * fmin(fmax(mean, 0), top) / top, mean, lo,
        hi);
}

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

static double correction_of(const sheet *s, int mechanism)
{
    json_t *tasks = json_object_get(s->verdict, "tasks");
    for (size_t i = 0; i < json_array_size(tasks); i++) {
        json_t *task = json_array_get(tasks, i), *uses = json_object_get(task, "mechanisms");
        for (size_t u = 0; u < json_array_size(uses); u++) {
            if (json_integer_value(json_array_get(uses, u)) == mechanism) {
                return json_number_value(json_array_get(json_object_get(task, "correction"), u));
            }
        }
    }
    return 1;
}

static void add_mechanisms(const sheet *s)
{
    json_t *list = json_object_get(s->verdict, "mechanisms");
    HEAD(s->out, "Mechanisms", "mechanism", "probed", "P(changed)", "gain, if it changed",
         "command left after correction");
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *m = json_array_get(list, i), *interval = json_object_get(m, "interval");
        int mechanism = (int)json_integer_value(json_object_get(m, "mechanism"));
        pf__text_add(s->out, "<tr>");
        add_cell(s->out, "th scope=\"row\"", text_of(m, "name"));
        add_cell(s->out, "td", json_is_true(json_object_get(m, "probed")) ? "yes" : "NO");
        add_number(s->out, number_of(m, "p_changed"), 4);
        if (number_of(m, "p_changed") > .01) {
            add_interval(s->out, json_number_value(json_array_get(interval, 0)),
                         number_of(m, "mean_gain"), json_number_value(json_array_get(interval, 1)));
        } else {
            pf__text_add(s->out, "<td>-</td>");
        }
        double left = mechanism > 0 && mechanism < s->kit.n_mech
                          ? margin_left(s, mechanism, correction_of(s, mechanism))
                          : NAN;
        if (isnan(left)) {
            pf__text_add(s->out, "<td>no limit is known</td>");
        } else if (left < 0) {
            pf__text_addf(s->out, "<td>none: %.0f %% more than it may send</td>", -100 * left);
        } else {
            pf__text_addf(s->out, "<td>%.0f %%</td>", 100 * left);
        }
        pf__text_add(s->out, "</tr>\n");
    }
    pf__text_add(s->out, "</tbody></table>\n");
}

// --- what is open

// What would make a task go, by its reason.
static const char *remedy(const char *why)
{
    static const char *const rows[][2] = {
        {"bound",
         "a gain that is known better (more recovery probes), a larger command limit, or a "
         "task that asks for less"},
        {"not-probed", "a larger budget of probes, so that every mechanism it needs is looked at"},
        {"not-rehearsed", "a machine that runs the rehearsal, or --accept not-rehearsed"},
        {"unseen-loss", "a probe that shows such a loss, or --accept unseen-loss"},
        {"misfit", "finding out what is wrong: check the channel and the actuator that the check "
                   "names, then check again"},
        {"unexplained", "finding out what changed: check again, or calibrate a kit that tells "
                        "several losses apart"},
        {"rehearsal", "finding out what its own run shows: the machine does not do what was "
                      "commanded"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i][0], why) == 0) {
            return rows[i][1];
        }
    }
    return "another check";
}

static void add_open(const sheet *s)
{
    json_t *tasks = json_object_get(s->verdict, "tasks"),
           *accepted = json_object_get(s->verdict, "accepted"),
           *misfit = json_object_get(s->verdict, "misfit");
    const char *looks = text_of(s->verdict, "looks_like");
    pf__text_add(s->out, "<h2>What was not tested, and what is assumed</h2>\n<ul>\n");
    for (size_t i = 0; i < json_array_size(tasks); i++) {
        json_t *task = json_array_get(tasks, i);
        if (strcmp(text_of(task, "decision"), "go") != 0) {
            pf__text_add(s->out, "<li>What would make ");
            add_escaped(s->out, text_of(task, "name"));
            pf__text_addf(s->out, " go: %s.</li>\n", remedy(text_of(task, "why")));
        }
    }
    if (number_of(misfit, "value") > 1 || number_of(misfit, "implausible") > 0) {
        pf__text_add(s->out, "<li>The responses fit no machine of the model, most in channel ");
        add_escaped(s->out, text_of(misfit, "channel"));
        pf__text_addf(s->out, "%s", looks[0] ? "; they look like " : "");
        add_escaped(s->out, looks);
        pf__text_add(s->out, ".</li>\n");
    }
    for (size_t i = 0; i < json_array_size(accepted); i++) {
        pf__text_add(s->out, "<li>The condition ");
        add_escaped(s->out, json_string_value(json_array_get(accepted, i)));
        pf__text_add(s->out, " was accepted by whoever ran the check.</li>\n");
    }
    if (!s->kit.field) {
        pf__text_add(s->out, "<li>This kit has the paper's rules: nothing is rehearsed, and every "
                             "response counts as plausible.</li>\n");
    }
    pf__text_add(s->out, "<li>Mechanism 0, ");
    add_escaped(s->out, pf_kit_mechanism_name(&s->kit, 0));
    pf__text_addf(s->out,
                  ", is never probed. %s A go is about the machine at its last rehearsal and about "
                  "starts like those of calibration. A fault that comes and goes may be absent "
                  "here.</li>\n</ul>\n",
                  s->kit.faults == PF_FAULTS_MANY ? "Several losses at once are told apart."
                                                  : "One loss at a time is assumed.");
    pf__text_add(s->out, "<table class=\"sign\"><tbody><tr><td>Name</td><td>Date</td>"
                         "<td>Signature</td></tr></tbody></table>\n");
}

// --- the runs

enum { PLOT_W = 150, PLOT_H = 70, MOST_PLOTS = 6, MOST_LINES = 8 };
static const char *const inks[MOST_LINES] = {"#a11212", "#1f4e9e", "#0a6b2d", "#8a5a00",
                                             "#6a1f9e", "#00707a", "#777777", "#b0508c"};

static void add_polyline(pf_text *out, size_t n, const double *y, double lo, double hi,
                         const char *ink, const char *dash)
{
    pf__text_addf(out,
                  "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.4\" "
                  "stroke-dasharray=\"%s\" points=\"",
                  ink, dash);
    for (size_t i = 0; i < n; i++) {
        double x = n > 1 ? (double)PLOT_W * (double)i / (double)(n - 1) : PLOT_W / 2.0;
        double v = hi > lo ? (y[i] - lo) / (hi - lo) : .5;
        pf__text_addf(out, "%s%.1f,%.1f", i ? " " : "", x, PLOT_H - 3 - (PLOT_H - 6) * v);
    }
    pf__text_add(out, "\"/>");
}

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

// One channel of one run: measured, healthy, and the nearest hypothesis where there is one.
static void add_plot(const sheet *s, json_t *response, json_t *nominal, json_t *nearest,
                     size_t channel, double *work)
{
    size_t rows = json_array_size(response);
    double lo = INFINITY, hi = -INFINITY, *y[3] = {work, work + rows, work + 2 * rows};
    column_of(response, rows, channel, y[0], &lo, &hi);
    column_of(nominal, rows, channel, y[1], &lo, &hi);
    if (nearest) {
        column_of(nearest, rows, channel, y[2], &lo, &hi);
    }
    const char *name = pf_kit_channel_name(&s->kit, (int)channel);
    pf__text_addf(s->out,
                  "<figure><svg role=\"img\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">"
                  "<title>",
                  PLOT_W, PLOT_H, PLOT_W, PLOT_H);
    add_escaped(s->out, name);
    pf__text_addf(s->out,
                  "</title><desc>from %.3g to %.3g; at most %.2f scales from the healthy "
                  "prediction</desc><rect width=\"%d\" height=\"%d\" fill=\"#f6f6f6\"/>",
                  lo, hi, apart(s, response, nominal, channel), PLOT_W, PLOT_H);
    add_polyline(s->out, rows, y[1], lo, hi, "#0a6b2d", "4 2");
    if (nearest) {
        add_polyline(s->out, rows, y[2], lo, hi, "#1f4e9e", "1 2");
    }
    add_polyline(s->out, rows, y[0], lo, hi, "#111", "none");
    pf__text_add(s->out, "</svg><figcaption>");
    add_escaped(s->out, name);
    pf__text_addf(s->out, ", off by %.2f</figcaption></figure>\n",
                  apart(s, response, nearest ? nearest : nominal, channel));
}

// The channels that differ most from a healthy machine.
static void add_run(const sheet *s, json_t *entry, int number, double *work)
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
        add_escaped(s->out, pf_kit_task_name(&s->kit, task));
    }
    if (tasks) {
        pf__text_addf(s->out, ": %s</h3>\n",
                      json_is_true(json_object_get(reply, "passed")) ? "as predicted"
                                                                     : "NOT as predicted");
    } else {
        pf__text_add(s->out, "probe ");
        add_escaped(s->out, pf_kit_probe_name(&s->kit, (int)number_of(request, "probe")));
        pf__text_add(s->out, "</h3>\n");
    }
    bool shown[4096] = {false};
    size_t channels = (size_t)s->kit.n_chan < 4096 ? (size_t)s->kit.n_chan : 4096;
    for (int plot = 0; nominal && plot < MOST_PLOTS && plot < (int)channels; plot++) {
        size_t next = channels;
        for (size_t c = 0; c < channels; c++) {
            bool more = next == channels ||
                        apart(s, response, nominal, c) > apart(s, response, nominal, next);
            next = !shown[c] && more ? c : next;
        }
        shown[next] = true;
        add_plot(s, response, nominal, nearest, next, work);
    }
}

// P(changed) of every mechanism after each look of stage 1.
static void add_belief(const sheet *s, double *work)
{
    size_t n = 0, mech = (size_t)s->kit.n_mech, lines = json_array_size(s->lines);
    for (size_t i = 1; i < lines; i++) {
        json_t *reply = json_object_get(json_array_get(s->lines, i), "reply");
        json_t *belief = json_object_get(reply, "belief");
        for (size_t j = 0; belief && j < mech; j++) {
            work[j * lines + n] = json_number_value(json_array_get(belief, j));
        }
        n += belief != NULL;
    }
    if (n == 0) {
        return;
    }
    pf__text_addf(s->out,
                  "<h2>The belief over the probes</h2>\n<figure><svg role=\"img\" width=\"%d\" "
                  "height=\"%d\" viewBox=\"0 0 %d %d\"><title>P(changed) after each look of stage "
                  "1</title><desc>one line per mechanism, from 0 to 1</desc><rect width=\"%d\" "
                  "height=\"%d\" fill=\"#f6f6f6\"/>",
                  2 * PLOT_W, 2 * PLOT_H, PLOT_W, PLOT_H, PLOT_W, PLOT_H);
    for (size_t j = 1; j < mech; j++) {
        add_polyline(s->out, n, work + j * lines, 0, 1, inks[(j - 1) % MOST_LINES], "none");
    }
    pf__text_addf(
        s->out,
        "</svg><figcaption>P(changed) from 0 (bottom) to 1, look 1 to %d; the colours are "
        "those of the table</figcaption></figure>\n",
        (int)n);
    HEAD(s->out, "P(changed) after each look", "mechanism", "first look", "last look");
    for (size_t j = 1; j < mech; j++) {
        pf__text_add(s->out, "<tr>");
        pf__text_addf(s->out, "<th scope=\"row\" style=\"color:%s\">", inks[(j - 1) % MOST_LINES]);
        add_escaped(s->out, pf_kit_mechanism_name(&s->kit, (int)j));
        pf__text_add(s->out, "</th>");
        add_number(s->out, work[j * lines], 4);
        add_number(s->out, work[j * lines + n - 1], 4);
        pf__text_add(s->out, "</tr>\n");
    }
    pf__text_add(s->out, "</tbody></table>\n");
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
    pf__text_add(s->out, "<div class=\"next\"></div>\n");
    add_belief(s, work);
    pf__text_addf(
        s->out,
        "<h2>The runs</h2>\n<p class=\"small\">Solid: measured. Dashed: a healthy "
        "machine. Dotted: the nearest hypothesis. The %d channels that differ most from a "
        "healthy machine; \"off by\" is the largest difference from the nearest "
        "prediction, in scales of the channel.</p>\n",
        MOST_PLOTS);
    int number = 0;
    for (size_t i = 1; i < lines; i++) {
        json_t *entry = json_array_get(s->lines, i);
        if (strcmp(text_of(json_object_get(entry, "request"), "op"), "tell") == 0 &&
            json_is_true(json_object_get(json_object_get(entry, "reply"), "ok"))) {
            add_run(s, entry, ++number, work);
        }
    }
    free(work);
    return PF_OK;
}

// --- all of it

static pf_status write_sheet(sheet *s, const char *certificate, pf_error *error)
{
    const char *verdict = overall(s);
    pf__text_add(s->out, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                         "<meta name=\"viewport\" content=\"width=device-width\"><title>Readiness "
                         "of ");
    add_escaped(s->out, pf_kit_get_string(&s->kit, PF_KIT_PLANT));
    pf__text_addf(s->out, "</title><style>%s</style></head><body>\n<h1>Readiness of ", style);
    add_escaped(s->out, pf_kit_get_string(&s->kit, PF_KIT_PLANT));
    pf__text_addf(s->out, "</h1>\n<div class=\"verdict %s\">%s</div>\n", verdict, shouted(verdict));
    add_reason(s, verdict);
    add_facts(s);
    add_tasks(s);
    add_mechanisms(s);
    add_open(s);
    pf_status status = add_runs(s, error);
    if (certificate) {
        pf__text_add(s->out, "<h2>The certificate</h2>\n<pre>");
        add_escaped(s->out, certificate);
        pf__text_add(s->out, "</pre>\n");
    }
    pf__text_add(s->out, "</body></html>\n");
    return status == PF_OK && s->out->failed
               ? pf_fail(error, PF_ERR_MEMORY, "out of memory for a sheet")
               : status;
}

pf_status pf__sheet(const char *journal, size_t n, const char *certificate, pf_text *html,
                    pf_error *error)
{
    sheet s = {.out = html};
    pf_status status = read_lines(&s, journal, n, error);
    status = status ? status : read_kit(&s, error);
    if (status == PF_OK && certificate) {
        json_t *whole = json_loads(certificate, 0, NULL);
        if (whole) {
            json_decref(s.verdict);
            s.verdict = whole;
        }
    }
    status = status ? status : write_sheet(&s, certificate, error);
    json_decref(s.lines);
    json_decref(s.verdict);
    free(s.image);
    return status;
}
