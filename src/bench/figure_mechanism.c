// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "figure_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// The mechanism study: how much of what Bayes recovers transport recovers, and how much lies within
// a category.

// CRPS of the uniform prior on 17 gains from .15 to .95, averaged over the truths: what knowing
// nothing costs.
static double prior_crps(void)
{
    enum { N = 17 };
    double sum = 0;
    for (int truth = 0; truth < N; truth++) {
        for (int k = 0; k < N - 1; k++) {
            double below = (k + 1.0) / N, step = k >= truth ? 1 : 0;
            sum += .05 * (below - step) * (below - step) / N;
        }
    }
    return sum;
}

static double mean_of(const pf__drawing *d, const char *setting, const char *metric,
                      const char *arm)
{
    const pf_entries *all = d->report->entries;
    const pf_entry *e = pf_entries_find(all, all->environment[0], setting, metric, arm);
    return e ? e->mean : NAN;
}

// "knob=dead_band;value=0.05" as "dead band 0.05"; false for other settings.
static bool label_of(const char *setting, char knob[64], double *value, char label[96])
{
    if (sscanf(setting, "knob=%63[a-z_];value=%lf", knob, value) != 2) {
        return false;
    }
    snprintf(label, 96, "%s %g", knob, *value);
    for (char *c = label; *c; c++) {
        *c = *c == '_' ? ' ' : *c;
    }
    return true;
}

static void efficiency_panel(pf__drawing *d)
{
    const pf_entries *all = d->report->entries;
    int at = 0;
    pf_text tics = {0};
    pf_text_addf(d->data, "# block %d: transport efficiency: x value label\n", d->block);
    for (int i = 0; i < all->n_raw_settings; i++) {
        char knob[64], label[96];
        double value = 0;
        if (!label_of(all->setting[i], knob, &value, label) || strcmp(knob, "noise") == 0) {
            continue;
        }
        double prior = prior_crps(), bayes = mean_of(d, all->setting[i], "crps", "bayes");
        double transport = mean_of(d, all->setting[i], "crps", "transport");
        pf_text_addf(d->data, "%d %.6g \"%s\"\n", at, (prior - transport) / (prior - bayes), label);
        pf_text_addf(&tics, "%s\"%s\" %d", at ? ", " : "", value == 0 ? "none" : label, at);
        at++;
    }
    pf_text_add(d->data, "\n\n");
    pf_text_addf(&d->body,
                 "set ylabel 'share of the Bayes gain in CRPS'\nset xtics (%s) rotate by 45 right "
                 "scale 0\nset xrange [-1:%d]\nset yrange [*:1.15]\nset boxwidth 0.7\nplot FILE "
                 "index %d using 1:2 with boxes fs solid 0.85 noborder lc rgb '#D55E00' notitle, 1 "
                 "lw 1 dt 2 lc rgb 'black' notitle, 0 lw 1 lc rgb 'black' notitle\n",
                 tics.data ? tics.data : "", at, d->block++);
    pf_text_free(&tics);
}

static void noise_panel(pf__drawing *d)
{
    static const char *const arms[] = {"bayes", "transport", "category"};
    static const char *const colours[] = {"#000000", "#D55E00", "#0072B2"};
    const pf_entries *all = d->report->entries;
    int first = d->block;
    for (int a = 0; a < 3; a++) {
        pf_text_addf(d->data, "# block %d: bits of the gain, %s: noise bits\n", d->block++,
                     arms[a]);
        for (int i = 0; i < all->n_raw_settings; i++) {
            char knob[64], label[96];
            double value = 0;
            bool known = label_of(all->setting[i], knob, &value, label);
            bool none = known && strcmp(knob, "none") == 0;
            if (none || (known && strcmp(knob, "noise") == 0)) {
                pf_text_addf(d->data, "%g %.6g\n", none ? 1 : value,
                             mean_of(d, all->setting[i], "log_score", arms[a]));
            }
        }
        pf_text_add(d->data, "\n\n");
    }
    pf_text_add(&d->body,
                "set ylabel 'bits of the gain recovered'\nset xlabel 'sensor noise, "
                "multiple of nominal'\nset logscale x 2\nset xtics (0.5, 1, 2, 4) rotate "
                "by 0 center\nset xrange [0.45:4.5]\nset yrange [0:*]\nset key top right\n"
                "plot ");
    for (int a = 0; a < 3; a++) {
        pf_text_addf(&d->body,
                     "%sFILE index %d using 1:2 smooth unique with linespoints lw 2 pt 7 lc rgb "
                     "'%s' title '%s'",
                     a ? ", " : "", first + a, colours[a], arms[a]);
    }
    pf_text_add(&d->body, "\n");
}

void pf__figure_mechanism(pf__drawing *d)
{
    d->width = 1300;
    d->height = 600;
    pf_text_add(&d->body,
                "set multiplot title \"mechanism: transport against the exact posterior "
                "(left), and what a category discards (right)\"\nset lmargin at screen "
                "0.07\nset rmargin at screen 0.66\nset bmargin at screen 0.38\nset tmargin "
                "at screen 0.9\n");
    efficiency_panel(d);
    pf_text_add(&d->body, "set lmargin at screen 0.73\nset rmargin at screen 0.98\nset bmargin at "
                          "screen 0.13\n");
    noise_panel(d);
    pf_text_add(&d->body, "unset multiplot\n");
}
