// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "library_write.h"

#include <math.h>

static void add_number(pf_text *out, double value)
{
    char text[32];
    pf_number_text(value, text);
    pf_text_add(out, text);
}

// How it was made; no dates, so that equal inputs give equal bytes.
static void add_head(const pf_design *d, const pf_design_config *c, const pf_plan *plan,
                     const char *predictor, pf_text *out)
{
    pf_text_addf(out,
                 "# Probe library by preflight " PF_VERSION ", for `preflight calibrate PLANT "
                 "--probes FILE`.\n"
                 "# %d designed, %d single pulses; predictor %s, seed %llu, gain %g.\n"
                 "# Separation in standard deviations of the coefficient, target %g; smallest "
                 "confirmed %.1f",
                 d->n_designed, d->library.n_probes - d->n_designed, predictor,
                 (unsigned long long)plan->seed, plan->g_cal, c->target, d->library.smallest);
    if (d->n_designed > 0 && d->n_designed < d->library.n_probes) {
        pf_text_addf(out, ", of the designed %.1f", d->families[0].smallest);
    }
    pf_text_add(out, ".\n");
    for (int i = 0; i < c->n_chan; i++) {
        if (isfinite(c->most[i])) {
            pf_text_addf(out, "# Designed to move output %s by at most %g.\n",
                         plan->channels[i].name, c->most[i]);
        }
    }
    for (int i = 0; i < d->n_weak; i++) {
        pf_text_addf(out, "# Not separated by the target: %s\n", plan->mechanisms[d->weak[i]].name);
    }
}

static void add_machine(const pf_design_config *c, const pf_plan *plan, pf_text *out)
{
    pf_text_add(out, "plant: ");
    pf_json_string(out, plan->plant);
    pf_text_addf(out, "\ndesign: {steps: %d, target: ", c->steps);
    add_number(out, c->target);
    pf_text_add(out, "}\nmechanisms:\n");
    for (int j = 0; j < plan->n_mech; j++) {
        const pf_mechanism *m = &plan->mechanisms[j];
        pf_text_add(out, "  - {name: ");
        pf_json_string(out, m->name);
        if (isfinite(m->lo)) {
            pf_text_add(out, ", lo: ");
            add_number(out, m->lo);
        }
        if (isfinite(m->hi)) {
            pf_text_add(out, ", hi: ");
            add_number(out, m->hi);
        }
        pf_text_add(out, "}\n");
    }
}

static void add_probe(const pf_design *d, int q, const pf_plan *plan, pf_text *out)
{
    const pf_design_probe *p = &d->library.probes[q];
    pf_text_add(out, "  - name: ");
    pf_json_string(out, p->probe.name);
    pf_text_add(out, "\n    # separation");
    for (int t = 0; t < p->probe.n_targets; t++) {
        pf_text_addf(out, " %.1f", d->library.targets[p->first + t].confirmed);
    }
    pf_text_add(out, "\n    targets: [");
    for (int t = 0; t < p->probe.n_targets; t++) {
        pf_text_add(out, t > 0 ? ", " : "");
        pf_json_string(out, plan->mechanisms[p->probe.targets[t]].name);
    }
    pf_text_add(out, "]\n    charge: ");
    add_number(out, p->probe.charge);
    pf_text_add(out, "\n    command:\n");
    for (int r = 0; r < p->probe.rows; r++) {
        pf_text_add(out, "      - [");
        for (int j = 0; j < plan->n_mech; j++) {
            pf_text_add(out, j > 0 ? ", " : "");
            add_number(out, p->probe.command[r * plan->n_mech + j]);
        }
        pf_text_add(out, "]\n");
    }
}

void pf_library_write(const pf_design *d, const pf_design_config *c, const pf_plan *plan,
                      const char *predictor, pf_text *out)
{
    add_head(d, c, plan, predictor, out);
    add_machine(c, plan, out);
    pf_text_add(out, "probes:\n");
    for (int q = 0; q < d->library.n_probes; q++) {
        add_probe(d, q, plan, out);
    }
}
