// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "figure_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Curves over what a suite varies (recovery budget, opportunities, categories, episodes), and the
// realised coordinate over the true gain.

static double key_of(const char *setting, const char *key)
{
    size_t n = strlen(key);
    for (const char *at = setting; at; at = strchr(at, ';')) {
        at += *at == ';';
        if (strncmp(at, key, n) == 0 && at[n] == '=') {
            return strtod(at + n + 1, NULL);
        }
    }
    return NAN;
}

static void margins(pf__drawing *d, int panel, int panels)
{
    double left = .085 + .955 * panel / panels, right = left + .955 / panels - .095;
    pf_text_addf(&d->body,
                 "set lmargin at screen %g\nset rmargin at screen %g\nset bmargin at screen 0.12\n"
                 "set tmargin at screen 0.8\n",
                 left, right);
}

static const char *mean_environment(const pf_entries *all)
{
    return all->n_environments > 1 ? PF_MACRO : all->environment[0];
}

// --- over a number that the settings name

typedef struct axis {
    const char *key, *label;
    const char *range; // gnuplot commands for x and y
} axis;

// Settings that name the key, and nothing else where gains were averaged out.
static bool on_axis(const pf_entries *all, int i, const char *key)
{
    bool pooled = pf__figure_gains(all) > 1;
    const char *s = all->setting[i];
    return !isnan(key_of(s, key)) && (!pooled || strchr(s, ';') == NULL);
}

static void curve_panel(pf__drawing *d, int panel, const axis *x, const char *metric)
{
    const pf_entries *all = d->report->entries;
    int first = d->block;
    char label[64];
    pf_label_metric(metric, label);
    for (int m = 0; m < all->n_methods; m++) {
        pf_text_addf(d->data, "# block %d: %s, %s: %s mean sd\n", d->block++, metric,
                     all->method[m], x->key);
        for (int i = 0; i < all->n_settings; i++) {
            const pf_entry *e = on_axis(all, i, x->key)
                                    ? pf_entries_find(all, mean_environment(all), all->setting[i],
                                                      metric, all->method[m])
                                    : NULL;
            if (e) {
                pf_text_addf(d->data, "%g %.6g %.6g\n", key_of(all->setting[i], x->key), e->mean,
                             isnan(e->sd) ? 0 : e->sd);
            }
        }
        pf_text_add(d->data, "\n\n");
    }
    margins(d, panel, 2);
    pf_text_addf(&d->body, "set xlabel '%s'\nset ylabel '%s' offset 1,0\n%s\nunset key\nplot ",
                 x->label, label, x->range);
    for (int m = 0; m < all->n_methods; m++) {
        bool own = strcmp(all->method[m], PF_REFERENCE) == 0;
        const char *colour = pf__figure_colour(all->method[m]);
        pf_text_addf(
            &d->body,
            "%sFILE index %d using 1:2 smooth unique with linespoints lw %s pt %d lc rgb '%s' "
            "notitle",
            m ? ", " : "", first + m, own ? "3" : "1.7", 4 + m, colour);
        if (own) {
            pf_text_addf(&d->body,
                         ", FILE index %d using 1:2:3 with yerrorbars lw 1.5 pt 0 lc rgb '%s' "
                         "notitle",
                         first + m, colour);
        }
    }
    pf_text_add(&d->body, "\n");
}

static void legend(pf__drawing *d)
{
    const pf_entries *all = d->report->entries;
    pf_text_add(&d->body,
                "set lmargin at screen 0.02\nset rmargin at screen 0.98\nset bmargin at screen "
                "0.83\nset tmargin at screen 0.94\nunset border\nunset tics\nunset grid\n"
                "set xrange [0:1]\nset yrange [0:1]\n"
                "set key center center horizontal maxrows 2 samplen 3 width 1\nplot ");
    for (int m = 0; m < all->n_methods; m++) {
        bool own = strcmp(all->method[m], PF_REFERENCE) == 0;
        pf_text_addf(&d->body, "%sNaN with linespoints lw %s pt %d lc rgb '%s' title '%s'",
                     m ? ", " : "", own ? "3" : "1.7", 4 + m, pf__figure_colour(all->method[m]),
                     pf_label_method(all->method[m]));
    }
    pf_text_add(&d->body, "\nset border 3 lc rgb '#606060'\nset tics nomirror\nset grid back lt "
                          "1 lw 0.6 lc rgb '#d8d8d8'\n");
}

static int with_results(const pf_entries *all, const char *metric)
{
    int n = 0;
    for (int e = 0; e < all->n_environments; e++) {
        bool found = false;
        for (int i = 0; i < all->n_settings && !found; i++) {
            found = pf_entries_find(all, all->environment[e], all->setting[i], metric,
                                    all->method[0]) != NULL;
        }
        n += found;
    }
    return n;
}

static void curves(pf__drawing *d, const axis x[2], const char *const metric[2])
{
    int n = with_results(d->report->entries, metric[0]);
    d->width = 1200;
    d->height = 560;
    pf_text_addf(&d->body,
                 "set multiplot title \"%s: mean over %d environment%s; bars: seed "
                 "standard deviation of EG-MPT\"\n",
                 d->report->suite, n, n == 1 ? "" : "s");
    legend(d);
    curve_panel(d, 0, &x[0], metric[0]);
    curve_panel(d, 1, &x[1], metric[1]);
    pf_text_add(&d->body, "unset multiplot\n");
}

void pf__figure_budgets(pf__drawing *d)
{
    const axis b = {"B2", "recovery probes B2",
                    "set xtics 1\nset xrange [-0.2:*]\nset yrange [0:*]"};
    curves(d, (axis[]){b, b}, (const char *const[]){"future_task_regret", "crps"});
}

void pf__figure_deadline(pf__drawing *d)
{
    const axis p = {"P", "opportunities after the change P",
                    "set xtics 1\nset xrange [0.5:6.5]\nset yrange [*:*]"};
    curves(d, (axis[]){p, p}, (const char *const[]){"detection", "changed_task_return"});
}

void pf__figure_sensitivity(pf__drawing *d)
{
    const axis x[] = {
        {"K", "categories K", "set xtics (2,3,5,9)\nset xrange [1.5:9.5]\nset yrange [*:*]"},
        {"N", "calibration episodes N",
         "set logscale x 2\nset xtics (25,50,100,200)\nset xrange [20:250]\nset yrange [*:*]"}};
    curves(d, x, (const char *const[]){"changed_task_return", "changed_task_return"});
}

// --- the coordinate

// One block per mechanism: gain, mean z, spread of z.
static int coordinate_data(pf__drawing *d, const char *environment)
{
    const pf_entries *all = d->report->entries;
    int blocks = 0;
    for (int m = 0; m < all->n_methods; m++) {
        if (strcmp(all->method[m], "all") == 0 ||
            !pf_entries_find(all, environment, all->setting[0], "coordinate", all->method[m])) {
            continue;
        }
        pf_text_addf(d->data, "# block %d: %s, %s: gain z spread\n", d->block++, environment,
                     all->method[m]);
        for (int i = 0; i < all->n_raw_settings; i++) {
            const char *s = all->setting[i], *arm = all->method[m];
            const pf_entry *z = pf_entries_find(all, environment, s, "coordinate", arm);
            const pf_entry *sd = pf_entries_find(all, environment, s, "coordinate_sd", arm);
            if (z && sd) {
                pf_text_addf(d->data, "%g %.6g %.6g\n", key_of(s, "g"), z->mean, sd->mean);
            }
        }
        pf_text_add(d->data, "\n\n");
        blocks++;
    }
    return blocks;
}

static void coordinate_panel(pf__drawing *d, int panel, int panels, const char *environment)
{
    static const char *const colours[] = {"#D55E00", "#0072B2", "#009E73", "#CC79A7",
                                          "#E69F00", "#56B4E9", "#000000", "#999999"};
    int first = d->block, n = coordinate_data(d, environment);
    double g_cal = d->report->g_cal;
    margins(d, panel, panels);
    pf_text_addf(&d->body,
                 "set title '%s'\nset xlabel 'true gain g'\nset ylabel 'coordinate z' offset "
                 "1,0\nset xrange "
                 "[0.1:1]\nset yrange [*:*]\nset key top right\nset arrow 1 from %g, graph 0 to "
                 "%g, graph 1 nohead dt 3 lw 1.5 lc rgb '#606060'\nplot (1-x)/%g lw 2 lc rgb "
                 "'black' dt 2 title 'ideal'",
                 pf_label_environment(environment), g_cal, g_cal, 1 - g_cal);
    for (int i = 0; i < n; i++) {
        pf_text_addf(&d->body,
                     ", FILE index %d using 1:2:3 with yerrorbars lw 1.5 pt 7 ps 0.6 lc rgb '%s' "
                     "title 'mechanism %d'",
                     first + i, colours[i % 8], i + 1);
    }
    pf_text_add(&d->body, "\n");
}

void pf__figure_coordinate(pf__drawing *d)
{
    enum { MOST_PANELS = 4 };
    const pf_entries *all = d->report->entries;
    int n = all->n_environments < MOST_PANELS ? all->n_environments : MOST_PANELS;
    d->width = n > 1 ? 200 + 500 * n : 950;
    d->height = 560;
    pf_text_addf(&d->body,
                 "set multiplot title \"%s: realised coordinate, mean and spread over episodes; "
                 "dotted: the calibration gain\"\n",
                 d->report->suite);
    for (int e = 0; e < n; e++) {
        coordinate_panel(d, e, n, all->environment[e]);
    }
    pf_text_add(&d->body, "unset multiplot\n");
}
