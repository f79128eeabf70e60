// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "figure_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Okabe and Ito's colours, told apart with any colour vision; EG-MPT is vermillion.
static const char *colour_of(const char *method)
{
    static const char *const colours[][2] = {
        {"bayes", "#0072B2"},          {"category", "#E69F00"},
        {"transport", "#D55E00"},      {"random", "#999999"},
        {"bayes-risk", "#0072B2"},     {"bandit-qcd", "#56B4E9"},
        {"sept", "#009E73"},           {"asid-fim", "#F0E442"},
        {"opax", "#CC79A7"},           {"task-oed", "#000000"},
        {"eg-mpt", "#D55E00"},         {"eg-mpt:no-transport", "#E69F00"},
        {"eg-mpt:no-gate", "#0072B2"}, {"eg-mpt:uniform", "#009E73"},
        {"eg-mpt:neither", "#999999"}, {"group", "#009E73"},
        {"group:random", "#56B4E9"}};
    for (size_t i = 0; i < sizeof colours / sizeof colours[0]; i++) {
        if (strcmp(colours[i][0], method) == 0) {
            return colours[i][1];
        }
    }
    return "#666666";
}

const char *pf__figure_colour(const char *method)
{
    return colour_of(method);
}

// --- the data file

static void add_value(pf_text *out, double value)
{
    char text[32] = "?";
    if (!isnan(value)) {
        pf_number_text(value, text);
    }
    pf_text_addf(out, " %s", text);
}

static void add_point(pf__drawing *d, double x, const pf_entry *e, double paper, const char *label)
{
    add_value(d->data, x);
    add_value(d->data, e ? e->mean : NAN);
    add_value(d->data, e ? e->lo : NAN);
    add_value(d->data, e ? e->hi : NAN);
    add_value(d->data, paper);
    pf_text_addf(d->data, " \"%s\"\n", label);
}

// Ends a block; gives its index.
static int end_block(pf__drawing *d)
{
    pf_text_add(d->data, "\n\n");
    return d->block++;
}

static void start_block(pf__drawing *d, const char *what, const char *metric, const char *setting)
{
    pf_text_addf(d->data, "# block %d: %s, %s, %s: x mean lo hi paper label\n", d->block, what,
                 metric, setting);
}

static const pf_entry *entry_of(const pf__drawing *d, const char *environment, const char *setting,
                                const char *metric, const char *method)
{
    return pf_entries_find(d->report->entries, environment, setting, metric, method);
}

static double paper_of(const pf__drawing *d, const char *environment, const char *setting,
                       const char *metric, const char *method)
{
    const pf_paper_row *p =
        pf_paper_find(d->report->paper, d->report->suite, environment, setting, metric, method);
    return p ? p->mean : NAN;
}

// --- bars: methods by environment

enum { MOST_GROUPS = 130 };

// A group of bars: one environment at one setting.
typedef struct group {
    const char *environment, *setting, *label;
} group;

// Each environment, the mean of the paper's if that is another, the mean of all; or the settings
// of a single environment.
static int list_groups(const pf__drawing *d, const char *metric, group *out)
{
    const pf_entries *all = d->report->entries;
    const char *setting = pf_report_setting(d->report);
    int n = 0;
    for (int i = 0; pf_report_by_setting(d->report) && i < all->n_settings && n < MOST_GROUPS;
         i++) {
        out[n++] = (group){all->environment[0], all->setting[i], all->setting[i]};
    }
    for (int e = 0; !pf_report_by_setting(d->report) && e < all->n_environments; e++) {
        if (n < MOST_GROUPS - 2) {
            const char *name = all->environment[e];
            out[n++] = (group){name, setting, pf_label_environment(name)};
        }
    }
    if (entry_of(d, PF_MACRO_SHOWN, setting, metric, PF_REFERENCE)) {
        out[n++] = (group){PF_MACRO_SHOWN, setting, "Mean of the paper's"};
    }
    if (all->n_environments > 1) {
        out[n++] = (group){PF_MACRO, setting, "Mean of all"};
    }
    return n;
}

// The label in two lines where it has several words.
static void add_tic(pf_text *out, const char *label, double at, bool first)
{
    const char *space = strstr(label, " of "), *comma = first ? "" : ", ";
    space = space ? space + 3 : strchr(label, ' ');
    if (space) {
        pf_text_addf(out, "%s\"%.*s\\n%s\" %g", comma, (int)(space - label), label, space + 1, at);
    } else {
        pf_text_addf(out, "%s\"%s\" %g", comma, label, at);
    }
}

// Bars of every method at every group; gives whether the paper has any of them.
static bool bars_data(pf__drawing *d, const char *metric, const group *groups, int n_groups,
                      bool *in_paper)
{
    const pf_entries *all = d->report->entries;
    bool any = false;
    for (int m = 0; m < all->n_methods; m++) {
        start_block(d, all->method[m], metric, "by group");
        in_paper[m] = false;
        for (int i = 0; i < n_groups; i++) {
            const group *g = &groups[i];
            double paper = paper_of(d, g->environment, g->setting, metric, all->method[m]);
            // the paper's mean is over the plants it shows
            bool other = strcmp(g->environment, PF_MACRO) == 0 && i > 0 &&
                         strcmp(groups[i - 1].environment, PF_MACRO_SHOWN) == 0;
            add_point(d, i * (all->n_methods + 2) + m,
                      entry_of(d, g->environment, g->setting, metric, all->method[m]),
                      other ? NAN : paper, g->label);
            in_paper[m] = in_paper[m] || (!other && !isnan(paper));
        }
        any = any || in_paper[m];
        end_block(d);
    }
    return any;
}

// The values of a setting without their keys.
static void add_values_tic(pf_text *out, const char *setting, double at, bool first)
{
    pf_text_add(out, first ? "\"" : ", \"");
    for (const char *s = setting; *s;) {
        size_t n = strcspn(s, ";"), key = strcspn(s, "=");
        const char *value = key < n ? s + key + 1 : s;
        pf_text_addf(out, "%s%.*s", s == setting ? "" : " ", (int)(s + n - value), value);
        s += n + (s[n] == ';');
    }
    pf_text_addf(out, "\" %g", at);
}

static void bars_axes(pf__drawing *d, const char *metric, const group *groups, int n_groups,
                      bool key)
{
    const pf_entries *all = d->report->entries;
    char name[64];
    pf_label_metric(metric, name);
    pf_text_addf(&d->body, "set ylabel '%s'\nset xtics (", name);
    for (int g = 0; g < n_groups; g++) {
        double at = g * (all->n_methods + 2) + (all->n_methods - 1) / 2.0;
        if (pf_report_by_setting(d->report)) {
            add_values_tic(&d->body, groups[g].label, at, g == 0);
        } else {
            add_tic(&d->body, groups[g].label, at, g == 0);
        }
    }
    pf_text_addf(&d->body,
                 ") scale 0%s\nset xrange [-2:%d]\nset yrange [*<0:*]\nset boxwidth 0.9\n%s\n"
                 "plot \\\n",
                 pf_report_by_setting(d->report) ? " rotate by -30 font ',10' noenhanced"
                                                 : " noenhanced",
                 n_groups * (all->n_methods + 2) - 1,
                 key ? "set key at screen 0.5,0.935 center horizontal maxrows 2 samplen 1.5 width 1"
                     : "unset key");
}

static void bars_panel(pf__drawing *d, const char *metric, bool key)
{
    const pf_entries *all = d->report->entries;
    group groups[MOST_GROUPS];
    int n_groups = list_groups(d, metric, groups), first = d->block;
    bool in_paper[64] = {false};
    bool paper = all->n_methods <= 64 && bars_data(d, metric, groups, n_groups, in_paper);
    bars_axes(d, metric, groups, n_groups, key);
    for (int m = 0; m < all->n_methods; m++) {
        pf_text_addf(
            &d->body,
            "  FILE index %d using 1:2 with boxes fs solid 0.9 noborder lc rgb '%s' title "
            "'%s', \\\n  FILE index %d using 1:3:(0):($4-$3) with vectors nohead lw 1.2 lc "
            "rgb '#303030' notitle%s\n",
            first + m, colour_of(all->method[m]), pf_label_method(all->method[m]), first + m,
            paper || m + 1 < all->n_methods ? ", \\" : "");
    }
    for (int m = 0, shown = 0; m < all->n_methods; m++) {
        if (in_paper[m]) {
            pf_text_addf(&d->body,
                         "%s  FILE index %d using 1:5 with points pt 9 ps 0.9 lc rgb 'black' %s",
                         shown ? ", \\\n" : "", first + m, shown ? "notitle" : "title 'the paper'");
            shown++;
        }
    }
    pf_text_add(&d->body, "\n");
}

void pf__figure_bars(pf__drawing *d)
{
    const pf_report *r = d->report;
    bool by_setting = pf_report_by_setting(r);
    int n = r->n_metrics < 2 ? r->n_metrics : 2;
    d->width = 1600;
    d->height = 90 + (by_setting ? 450 : 400) * n;
    pf_text_addf(&d->body,
                 "set multiplot layout %d,1 title \"%s, %s: mean and 95 %% interval\" margins "
                 "0.065,0.97,%s,0.88 spacing 0,%s\nset grid noxtics\n",
                 n, r->suite,
                 by_setting ? pf_label_environment(r->entries->environment[0])
                            : pf_report_setting(r),
                 by_setting ? "0.15" : "0.08", by_setting ? "0.19" : "0.11");
    for (int i = 0; i < n; i++) {
        bars_panel(d, r->metrics[i], i == 0);
    }
    pf_text_add(&d->body, "unset multiplot\n");
}

// --- lines over the severity

static double gain_of(const char *setting)
{
    const char *at = strncmp(setting, "g=", 2) == 0 ? setting : strstr(setting, ";g=");
    return at ? strtod(at + (*at == ';' ? 3 : 2), NULL) : NAN;
}

int pf__figure_gains(const pf_entries *all)
{
    int n = 0;
    for (int i = 0; i < all->n_raw_settings; i++) {
        bool fresh = !isnan(gain_of(all->setting[i]));
        for (int k = 0; k < i && fresh; k++) {
            fresh = gain_of(all->setting[k]) != gain_of(all->setting[i]);
        }
        n += fresh;
    }
    return n;
}

// Panel 0..3 in two rows of two, below the legend.
static void panel_head(pf__drawing *d, int panel, const char *ylabel, const char *extra)
{
    double left = panel % 2 ? .585 : .095, bottom = panel / 2 ? .07 : .515;
    pf_text_addf(
        &d->body,
        "set lmargin at screen %g\nset rmargin at screen %g\nset bmargin at screen %g\n"
        "set tmargin at screen %g\nset xlabel 'true gain g' offset 0,0.3\nset ylabel '%s'\n"
        "set xrange [0.1:0.9]\nset yrange [*:*]\nset ytics autofreq\nset offsets 0,0,0,0\n"
        "unset arrow\nunset key\n"
        "set arrow 1 from %g, graph 0 to %g, graph 1 nohead dt 3 lw 1.5 lc rgb '#606060'\n"
        "%s\nplot \\\n",
        left, left + .395, bottom, bottom + .365, ylabel, d->report->g_cal, d->report->g_cal,
        extra);
}

static void add_line_style(pf__drawing *d, int m)
{
    const char *method = d->report->entries->method[m];
    pf_text_addf(&d->body, "with linespoints lw %s dt %d pt %d ps 0.8 lc rgb '%s'",
                 strcmp(method, PF_REFERENCE) == 0 ? "3" : "1.7", strchr(method, ':') ? 2 : 1,
                 4 + m, colour_of(method));
}

static void legend_panel(pf__drawing *d)
{
    const pf_entries *all = d->report->entries;
    pf_text_add(&d->body,
                "set lmargin at screen 0.02\nset rmargin at screen 0.98\nset bmargin at screen "
                "0.89\nset tmargin at screen 0.96\nunset border\nunset tics\nunset grid\n"
                "set xrange [0:1]\nset yrange [0:1]\n"
                "set key center center horizontal maxrows 2 samplen 3 width 1\nplot \\\n");
    for (int m = 0; m < all->n_methods; m++) {
        pf_text_add(&d->body, "  NaN ");
        add_line_style(d, m);
        pf_text_addf(&d->body, " title '%s'%s\n", pf_label_method(all->method[m]),
                     m + 1 < all->n_methods ? ", \\" : "");
    }
    pf_text_add(&d->body, "set border 3 lc rgb '#606060'\nset tics nomirror\nset grid back lt 1 lw "
                          "0.6 lc rgb '#d8d8d8'\n");
}

static void lines_panel(pf__drawing *d, int panel, const char *environment, const char *metric,
                        const char *label, const char *extra)
{
    const pf_entries *all = d->report->entries;
    int first = d->block;
    for (int m = 0; m < all->n_methods; m++) {
        start_block(d, all->method[m], metric, environment);
        for (int i = 0; i < all->n_raw_settings; i++) {
            add_point(d, gain_of(all->setting[i]),
                      entry_of(d, environment, all->setting[i], metric, all->method[m]), NAN,
                      all->setting[i]);
        }
        end_block(d);
    }
    panel_head(d, panel, label, extra);
    for (int m = 0; m < all->n_methods; m++) {
        bool own = strcmp(all->method[m], PF_REFERENCE) == 0;
        if (own) {
            pf_text_addf(&d->body,
                         "  FILE index %d using 1:3:4 with filledcurves fs transparent solid 0.2 "
                         "noborder lc rgb '%s' notitle, \\\n",
                         first + m, colour_of(all->method[m]));
        }
        pf_text_addf(&d->body, "  FILE index %d using 1:2 ", first + m);
        add_line_style(d, m);
        pf_text_addf(&d->body, " notitle%s\n", m + 1 < all->n_methods ? ", \\" : "");
    }
}

// The competitor with the smallest error at a setting; its paired difference is the margin.
static const char *best_competitor(const pf__drawing *d, const char *environment,
                                   const char *setting, const char *metric)
{
    const pf_entries *all = d->report->entries;
    const char *best = NULL;
    double least = INFINITY;
    for (int m = 0; m < all->n_methods; m++) {
        const pf_entry *e = entry_of(d, environment, setting, metric, all->method[m]);
        if (e && e->mean < least && pf_method_of_paper(all->method[m]) &&
            strcmp(all->method[m], PF_REFERENCE) != 0) {
            best = all->method[m];
            least = e->mean;
        }
    }
    return best;
}

static void single_panel(pf__drawing *d, int panel, const char *environment, const char *metric,
                         bool margin, const char *label, const char *extra)
{
    const pf_entries *all = d->report->entries;
    start_block(d, margin ? "best competitor" : PF_REFERENCE, metric, environment);
    for (int i = 0; i < all->n_raw_settings; i++) {
        const char *method =
            margin ? best_competitor(d, environment, all->setting[i], "compensation_error")
                   : PF_REFERENCE;
        const pf_entry *e =
            method ? entry_of(d, environment, all->setting[i], metric, method) : NULL;
        add_point(d, gain_of(all->setting[i]), e, NAN, method ? pf_label_method(method) : "");
    }
    int block = end_block(d);
    panel_head(d, panel, label, extra);
    pf_text_addf(
        &d->body,
        "  FILE index %d using 1:2:3:4 with yerrorbars lw 1.5 pt 7 ps 0.8 lc rgb '#D55E00' "
        "notitle, \\\n  FILE index %d using 1:2 with lines lw 2 lc rgb '#D55E00' notitle%s",
        block, block, margin ? ", \\\n" : "\n");
    if (margin) {
        pf_text_addf(&d->body,
                     "  FILE index %d using 1:4:6 with labels left rotate by 70 offset 0.2,0.4 "
                     "font ',10' tc rgb "
                     "'#404040' notitle, 0 lw 1 lc rgb 'black' notitle\n",
                     block);
    }
}

void pf__figure_severity(pf__drawing *d)
{
    const pf_entries *all = d->report->entries;
    const char *environment = all->n_environments > 1 ? PF_MACRO : all->environment[0];
    d->width = 1200;
    d->height = 960;
    pf_text_addf(&d->body,
                 "set multiplot title \"%s, mean over %d plants; dotted: the calibration gain\"\n",
                 d->report->suite, all->n_environments);
    legend_panel(d);
    lines_panel(d, 0, environment, "compensation_error", "compensation error", "set yrange [0:*]");
    // ranked against baselines, where there are some
    if (pf_entries_find(all, environment, all->setting[0], "rank_compensation_error",
                        PF_REFERENCE)) {
        single_panel(d, 1, environment, "rank_compensation_error", false,
                     "rank of EG-MPT, mean over plants", "set yrange [8.3:0.7]\nset ytics 1");
        single_panel(d, 2, environment, "compensation_error" PF_DIFFERENCE, true,
                     "best competitor minus EG-MPT", "set offsets 0,0,graph 0.25,graph 0.03");
    } else {
        lines_panel(d, 1, environment, "detection", "detection", "set yrange [0:1.02]");
        lines_panel(d, 2, environment, "delay", "delay, rounds", "set yrange [0:*]");
    }
    lines_panel(
        d, 3, environment, "coverage", "coverage of the 90 % interval",
        "set yrange [0:1]\nset arrow 2 from graph 0, first 0.9 to graph 1, first 0.9 nohead "
        "dt 2 lc rgb 'black'");
    pf_text_add(&d->body, "unset multiplot\n");
}

// --- removal costs

static const char *rung_label(const char *method)
{
    const char *label = pf_label_method(method), *comma = strstr(label, ", ");
    return comma ? comma + 2 : label;
}

// The pooled setting first, then those that were run.
static const char *ladder_setting(const pf_entries *all, int i)
{
    return all->setting[(all->n_settings - 1 + i) % all->n_settings];
}

static void ladder_panel(pf__drawing *d, const char *metric, const char *environment)
{
    static const char *const tones[] = {"#0072B2", "#56B4E9", "#E69F00", "#009E73", "#CC79A7"};
    const pf_entries *all = d->report->entries;
    char name[64], difference[80], tics[512];
    size_t used = 0;
    int first = d->block, n = all->n_settings < 5 ? all->n_settings : 5, rung = 0;
    snprintf(difference, sizeof difference, "%s" PF_DIFFERENCE, metric);
    for (int i = 0; i < n; i++) {
        const char *setting = ladder_setting(all, i);
        start_block(d, setting, difference, environment);
        rung = 0;
        used = 0;
        for (int m = 0; m < all->n_methods; m++) {
            if (strcmp(all->method[m], PF_REFERENCE) == 0) {
                continue;
            }
            add_point(d, rung * (n + 1) + i,
                      entry_of(d, environment, setting, difference, all->method[m]), NAN,
                      rung_label(all->method[m]));
            used +=
                (size_t)snprintf(tics + used, sizeof tics - used, "%s\"%s\" %g", rung ? ", " : "",
                                 rung_label(all->method[m]), rung * (n + 1) + (n - 1) / 2.0);
            rung++;
        }
        end_block(d);
    }
    pf_label_metric(metric, name);
    pf_text_addf(&d->body,
                 "set ylabel '%s: rung minus full'\nset xtics (%s) scale 0\nset xrange [-1:%d]\n"
                 "set boxwidth 0.85\nset offsets 0,0,graph 0.08,0\nset key top right\nplot \\\n",
                 name, tics, rung * (n + 1) - 1);
    for (int i = 0; i < n; i++) {
        const char *setting = ladder_setting(all, i);
        pf_text_addf(
            &d->body,
            "  FILE index %d using 1:2 with boxes fs solid 0.85 noborder lc rgb '%s' title "
            "'%s', \\\n  FILE index %d using 1:3:(0):($4-$3) with vectors nohead lw 1.5 lc rgb "
            "'black' "
            "notitle, \\\n",
            first + i, tones[i], isnan(gain_of(setting)) ? "all gains" : strstr(setting, "g="),
            first + i);
    }
    pf_text_add(&d->body, "  0 lw 1 lc rgb 'black' notitle\n");
}

void pf__figure_ladder(pf__drawing *d)
{
    const pf_report *r = d->report;
    const char *environment =
        r->entries->n_environments > 1 ? PF_MACRO : r->entries->environment[0];
    int n = r->n_metrics < 2 ? r->n_metrics : 2;
    d->width = 600 * n;
    d->height = 520;
    pf_text_addf(&d->body,
                 "set multiplot layout 1,%d title \"%s: what removing a part costs, mean over %d "
                 "plants\" margins 0.08,0.985,0.08,0.9 spacing 0.1,0\nset grid noxtics\n",
                 n, r->suite, r->entries->n_environments);
    for (int i = 0; i < n; i++) {
        ladder_panel(d, r->metrics[i], environment);
    }
    pf_text_add(&d->body, "unset multiplot\n");
}

static void family_panel(pf__drawing *d, const char *method, const char *metric, bool labelled)
{
    const pf_entries *all = d->report->entries;
    const char *setting = pf_report_setting(d->report);
    char difference[80];
    int n = all->n_environments + (all->n_environments > 1);
    snprintf(difference, sizeof difference, "%s" PF_DIFFERENCE, metric);
    int own = d->block;
    bool any_below = false;
    for (int reversal = 0; reversal < 2; reversal++) {
        start_block(d, method, difference, reversal ? "resolved below zero" : setting);
        for (int i = 0; i < n; i++) {
            const char *e = i < all->n_environments ? all->environment[i] : PF_MACRO;
            const pf_entry *entry = entry_of(d, e, setting, difference, method);
            bool below = entry && entry->hi < 0;
            any_below = any_below || below;
            add_point(d, n - i, reversal == below ? entry : NULL, NAN, pf_label_environment(e));
        }
        end_block(d);
    }
    pf_text_addf(&d->body, "set title '%s'\nset yrange [0.3:%g]\nset ytics (", rung_label(method),
                 n + .7);
    for (int i = 0; i < n; i++) {
        const char *e = i < all->n_environments ? all->environment[i] : PF_MACRO;
        pf_text_addf(&d->body, "%s\"%s\" %d", i ? ", " : "",
                     labelled ? pf_label_environment(e) : "", n - i);
    }
    pf_text_addf(&d->body,
                 ") scale 0\nset arrow 1 from 0, graph 0 to 0, graph 1 nohead lc rgb 'black'\n"
                 "plot FILE index %d using 2:1:3:4 with xerrorbars pt 7 ps 0.9 lw 1.5 lc rgb "
                 "'#0072B2' notitle",
                 own);
    if (any_below) {
        pf_text_addf(&d->body,
                     ", \\\n  FILE index %d using 2:1:3:4 with xerrorbars pt 5 ps 1 lw 1.5 lc rgb "
                     "'#D55E00' notitle",
                     own + 1);
    }
    pf_text_add(&d->body, "\n");
}

void pf__figure_families(pf__drawing *d)
{
    const pf_report *r = d->report;
    const pf_entries *all = r->entries;
    const char *metric = r->n_metrics ? r->metrics[0] : "compensation_error";
    char name[64];
    pf_label_metric(metric, name);
    d->width = 200 + 300 * (all->n_methods - 1);
    d->height = 560;
    pf_text_addf(&d->body,
                 "set multiplot layout 1,%d title \"%s: rung minus full, %s; squares: resolved "
                 "below zero\" margins %g,0.975,0.11,0.85 spacing 0.025,0\n"
                 "set grid noytics\nset xtics rotate by -45\nset xrange [*<0:0<*]\n",
                 all->n_methods - 1, r->suite, name, 180.0 / d->width);
    bool first = true;
    for (int m = 0; m < all->n_methods; m++) {
        if (strcmp(all->method[m], PF_REFERENCE) != 0) {
            family_panel(d, all->method[m], metric, first);
            first = false;
        }
    }
    pf_text_add(&d->body, "unset multiplot\n");
}

// --- ranks

void pf__figure_ranks(pf__drawing *d)
{
    static const char *const metrics[] = {"rank_compensation_error", "rank_worst_error",
                                          "rank_crps", "rank_probes", "rank_coverage"};
    const pf_entries *all = d->report->entries;
    const char *setting = pf_report_setting(d->report);
    pf_text xtics = {0}, ytics = {0};
    start_block(d, PF_REFERENCE, "ranks", setting);
    for (int i = 0; i < all->n_environments; i++) {
        const char *e = all->environment[i];
        pf_text_addf(&ytics, "%s\"%s\" %d", i ? ", " : "", pf_label_environment(e), i);
        for (int k = 0; k < 5; k++) {
            const pf_entry *entry = entry_of(d, e, setting, metrics[k], PF_REFERENCE);
            double paper = paper_of(d, e, setting, metrics[k], PF_REFERENCE);
            pf_text_addf(d->data, "%d %d", k, i);
            add_value(d->data, entry ? entry->mean : NAN);
            pf_text_addf(d->data, " \"%.0f (%.0f)\"\n", entry ? entry->mean : NAN, paper);
        }
    }
    int block = end_block(d);
    for (int k = 0; k < 5; k++) {
        char name[64];
        pf_label_metric(metrics[k] + strlen("rank_"), name);
        char *space = strchr(name, ' ');
        if (space) {
            *space = 0;
        }
        pf_text_addf(&xtics, "%s\"%s%s%s\" %d", k ? ", " : "", name, space ? "\\n" : "",
                     space ? space + 1 : "", k);
    }
    d->width = 860;
    d->height = 620;
    pf_text_addf(&d->body,
                 "set title \"Rank of EG-MPT among eight methods: ours (the paper's)\"\n"
                 "set palette defined (1 '#D55E00', 2 '#E69F00', 4 '#f2f2f2', 8 '#9ecae1')\n"
                 "set bmargin 4\nset cbrange [1:8]\nset cblabel 'rank'\nset xtics (%s) scale "
                 "0\nset ytics (%s) "
                 "scale 0\nset xrange [-0.5:4.5]\nset yrange [%g:-0.5]\nunset key\nunset grid\n"
                 "plot FILE index %d using 1:2:3 with image notitle, \\\n"
                 "  FILE index %d using 1:2:4 with labels notitle\n",
                 xtics.data ? xtics.data : "", ytics.data ? ytics.data : "",
                 all->n_environments - .5, block, block);
    pf_text_free(&xtics);
    pf_text_free(&ytics);
}
