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
    static const char *const colours[][2] = {{"random", "#999999"},
                                             {"bayes-risk", "#0072B2"},
                                             {"bandit-qcd", "#56B4E9"},
                                             {"sept", "#009E73"},
                                             {"asid-fim", "#F0E442"},
                                             {"opax", "#CC79A7"},
                                             {"task-oed", "#000000"},
                                             {"eg-mpt", "#D55E00"},
                                             {"eg-mpt:no-transport", "#E69F00"},
                                             {"eg-mpt:no-gate", "#0072B2"},
                                             {"eg-mpt:uniform", "#009E73"},
                                             {"eg-mpt:neither", "#999999"}};
    for (size_t i = 0; i < sizeof colours / sizeof colours[0]; i++) {
        if (strcmp(colours[i][0], method) == 0) {
            return colours[i][1];
        }
    }
    return "#666666";
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

static void bars_panel(pf__drawing *d, const char *metric, const char *setting, bool key)
{
    const pf_entries *all = d->report->entries;
    int n_groups = all->n_environments + (all->n_environments > 1);
    char name[64], tics[2048];
    size_t used = 0;
    int first = d->block;
    for (int m = 0; m < all->n_methods; m++) {
        start_block(d, all->method[m], metric, setting);
        for (int g = 0; g < n_groups; g++) {
            const char *e = g < all->n_environments ? all->environment[g] : PF_MACRO;
            // the paper's mean is over the plants it shows
            double paper = paper_of(d, e, setting, metric, all->method[m]);
            bool mean = g == all->n_environments;
            paper =
                mean && entry_of(d, PF_MACRO_SHOWN, setting, metric, all->method[m]) ? NAN : paper;
            add_point(d, g * (all->n_methods + 2) + m,
                      entry_of(d, e, setting, metric, all->method[m]), paper,
                      pf_label_environment(e));
        }
        end_block(d);
    }
    for (int g = 0; g < n_groups && used < sizeof tics - 100; g++) {
        const char *e = g < all->n_environments ? all->environment[g] : PF_MACRO;
        used += (size_t)snprintf(tics + used, sizeof tics - used, "%s\"%s\" %g", g ? ", " : "",
                                 pf_label_environment(e),
                                 g * (all->n_methods + 2) + (all->n_methods - 1) / 2.0);
    }
    pf_label_metric(metric, name);
    pf_text_addf(&d->body,
                 "set ylabel '%s'\nset xtics (%s) rotate by 0 scale 0\nset xrange [-2:%d]\n"
                 "set yrange [0:*]\nset boxwidth 0.9\n%s\nplot \\\n",
                 name, tics, n_groups * (all->n_methods + 2) - 1,
                 key ? "set key outside top center horizontal maxrows 2 samplen 1.5" : "unset key");
    for (int m = 0; m < all->n_methods; m++) {
        pf_text_addf(
            &d->body,
            "  FILE index %d using 1:2 with boxes fs solid 0.85 noborder lc rgb '%s' title "
            "'%s', \\\n"
            "  FILE index %d using 1:2:3:4 with yerrorbars lc rgb '#404040' lw 1 pt 0 "
            "notitle, \\\n",
            first + m, colour_of(all->method[m]), pf_label_method(all->method[m]), first + m);
    }
    for (int m = 0; m < all->n_methods; m++) {
        pf_text_addf(
            &d->body, "  FILE index %d using 1:5 with points pt 9 ps 0.8 lc rgb 'black' %s%s\n",
            first + m, m == 0 ? "title 'paper'" : "notitle", m + 1 < all->n_methods ? ", \\" : "");
    }
}

void pf__figure_bars(pf__drawing *d)
{
    const pf_report *r = d->report;
    const char *setting = pf_report_setting(r);
    int n = r->n_metrics < 2 ? r->n_metrics : 2;
    d->width = 1500;
    d->height = 60 + 400 * n;
    pf_text_addf(&d->body,
                 "set multiplot layout %d,1 title \"%s, %s\"\nset grid ytics lc rgb "
                 "'#dddddd'\n",
                 n, r->suite, setting);
    for (int i = 0; i < n; i++) {
        bars_panel(d, r->metrics[i], setting, i == 0);
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

static void panel_head(pf__drawing *d, const char *ylabel, const char *extra)
{
    pf_text_addf(&d->body,
                 "set xlabel 'true gain g'\nset ylabel '%s'\nset xrange [0.1:0.9]\nset yrange "
                 "[*:*]\nunset arrow\nunset key\n"
                 "set arrow 1 from %g, graph 0 to %g, graph 1 nohead dt 3 lw 1.5 lc rgb '#606060'\n"
                 "%s\nplot \\\n",
                 ylabel, d->report->g_cal, d->report->g_cal, extra);
}

static void lines_panel(pf__drawing *d, const char *environment, const char *metric, const char *label,
                        const char *extra)
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
    panel_head(d, label, extra);
    for (int m = 0; m < all->n_methods; m++) {
        bool own = strcmp(all->method[m], PF_REFERENCE) == 0;
        if (own) {
            pf_text_addf(&d->body,
                         "  FILE index %d using 1:3:4 with filledcurves fs transparent solid 0.2 "
                         "noborder lc rgb '%s' notitle, \\\n",
                         first + m, colour_of(all->method[m]));
        }
        pf_text_addf(&d->body,
                     "  FILE index %d using 1:2 with linespoints lw %s dt %d pt %d ps 0.7 lc rgb "
                     "'%s' title '%s'%s\n",
                     first + m, own ? "3" : "1.5", strchr(all->method[m], ':') ? 2 : 1, 4 + m,
                     colour_of(all->method[m]), pf_label_method(all->method[m]),
                     m + 1 < all->n_methods ? ", \\" : "");
    }
}

// The competitor with the smallest error at a setting; its paired difference is the margin.
static const char *best_competitor(const pf__drawing *d, const char *environment, const char *setting,
                                   const char *metric)
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

static void single_panel(pf__drawing *d, const char *environment, const char *metric, bool margin,
                         const char *label, const char *extra)
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
    panel_head(d, label, extra);
    pf_text_addf(
        &d->body,
        "  FILE index %d using 1:2:3:4 with yerrorbars lw 1.5 pt 7 ps 0.8 lc rgb '#D55E00' "
        "notitle, \\\n  FILE index %d using 1:2 with lines lw 2 lc rgb '#D55E00' notitle%s",
        block, block, margin ? ", \\\n" : "\n");
    if (margin) {
        pf_text_addf(&d->body,
                     "  FILE index %d using 1:4:6 with labels offset 0,0.8 font ',9' tc rgb "
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
    pf_text_addf(
        &d->body,
        "set multiplot layout 2,2 title \"%s, mean over %d plants; dotted: the calibration "
        "gain\" margins 0.07,0.98,0.07,0.86 spacing 0.09,0.10\n"
        "set grid lc rgb '#dddddd'\n",
        d->report->suite, all->n_environments);
    lines_panel(d, environment, "compensation_error", "compensation error",
                "set yrange [0:*]\nset key at screen 0.5,0.945 center horizontal maxrows 2 samplen "
                "2 width 1");
    single_panel(d, environment, "rank_compensation_error", false,
                 "rank of EG-MPT (compensation error)", "set yrange [8.3:0.7]\nset ytics 1");
    pf_text_add(&d->body, "set ytics autofreq\n");
    single_panel(d, environment, "compensation_error" PF_DIFFERENCE, true,
                 "best competitor minus EG-MPT", "set offsets 0,0,graph 0.12,graph 0.03");
    pf_text_add(&d->body, "set offsets 0,0,0,0\n");
    lines_panel(
        d, environment, "coverage", "coverage of the 90 % interval",
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

static void ladder_panel(pf__drawing *d, const char *metric, const char *environment)
{
    static const char *const tones[] = {"#0072B2", "#56B4E9", "#E69F00", "#009E73", "#CC79A7"};
    const pf_entries *all = d->report->entries;
    char name[64], difference[80], tics[512];
    size_t used = 0;
    int first = d->block, n = all->n_settings < 5 ? all->n_settings : 5, rung = 0;
    snprintf(difference, sizeof difference, "%s" PF_DIFFERENCE, metric);
    for (int i = 0; i < n; i++) {
        // the pooled setting first
        const char *setting = all->setting[all->n_settings - 1 - i];
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
                 "set boxwidth 0.85\nset key top left reverse Left\nplot \\\n",
                 name, tics, rung * (n + 1) - 1);
    for (int i = 0; i < n; i++) {
        const char *setting = all->setting[all->n_settings - 1 - i];
        pf_text_addf(
            &d->body,
            "  FILE index %d using 1:2 with boxes fs solid 0.85 noborder lc rgb '%s' title "
            "'%s', \\\n  FILE index %d using 1:2:3:4 with yerrorbars lc rgb 'black' lw 1.5 "
            "pt 0 notitle, \\\n",
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
                 "plants\"\nset grid ytics lc rgb '#dddddd'\n",
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
    for (int reversal = 0; reversal < 2; reversal++) {
        start_block(d, method, difference, reversal ? "resolved below zero" : setting);
        for (int i = 0; i < n; i++) {
            const char *e = i < all->n_environments ? all->environment[i] : PF_MACRO;
            const pf_entry *entry = entry_of(d, e, setting, difference, method);
            bool below = entry && entry->hi < 0;
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
    pf_text_addf(
        &d->body,
        ") scale 0\nset arrow 1 from 0, graph 0 to 0, graph 1 nohead lc rgb 'black'\n"
        "plot FILE index %d using 2:1:3:4 with xerrorbars pt 7 ps 0.9 lw 1.5 lc rgb "
        "'#0072B2' notitle, \\\n  FILE index %d using 2:1:3:4 with xerrorbars pt 5 ps 1 lw "
        "1.5 lc rgb '#D55E00' notitle\n",
        own, own + 1);
}

void pf__figure_families(pf__drawing *d)
{
    const pf_report *r = d->report;
    const pf_entries *all = r->entries;
    const char *metric = r->n_metrics ? r->metrics[0] : "compensation_error";
    char name[64];
    pf_label_metric(metric, name);
    d->width = 150 + 300 * (all->n_methods - 1);
    d->height = 560;
    pf_text_addf(&d->body,
                 "set multiplot layout 1,%d title \"%s: rung minus full, %s; squares: resolved "
                 "below zero\" margins %g,0.985,0.09,0.85 spacing 0.015,0\n"
                 "set grid xtics lc rgb '#dddddd'\nset xtics rotate by -45\n",
                 all->n_methods - 1, r->suite, name, 130.0 / d->width);
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
        pf_text_addf(&xtics, "%s\"%s\" %d", k ? ", " : "", name, k);
    }
    d->width = 860;
    d->height = 620;
    pf_text_addf(&d->body,
                 "set title 'Rank of EG-MPT among eight methods: ours (the paper'\"'\"'s)'\n"
                 "set palette defined (1 '#D55E00', 2 '#E69F00', 4 '#f2f2f2', 8 '#9ecae1')\n"
                 "set cbrange [1:8]\nset cblabel 'rank'\nset xtics (%s) scale 0\nset ytics (%s) "
                 "scale 0\nset xrange [-0.5:4.5]\nset yrange [%g:-0.5]\nunset key\n"
                 "plot FILE index %d using 1:2:3 with image notitle, \\\n"
                 "  FILE index %d using 1:2:4 with labels notitle\n",
                 xtics.data ? xtics.data : "", ytics.data ? ytics.data : "",
                 all->n_environments - .5, block, block);
    pf_text_free(&xtics);
    pf_text_free(&ytics);
}

