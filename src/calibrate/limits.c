// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "limits.h"

#include "host/arena.h"
#include "plant/plant_impl.h"
#include "settings/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- the section `design`

// From the section `design` to what each mechanism may be asked for. Whatever contradicts itself is
// refused here, by the key that does.

typedef struct reading {
    pf_design_config *out;
    const pf_plan *plan;
    const pf_config *config;
    pf_arena *arena;
    pf_design_bound *bounds;
    bool *apart;
    double *most;
    pf_error *error;
} reading;

static pf_status refuse(const reading *r, pf_place place, const char *key, const char *name,
                        const char *why)
{
    if (place.line > 0) {
        return pf_fail(r->error, PF_ERR_ARGUMENT, "%s:%d:%d: %s: '%s' %s", r->config->file,
                       place.line, place.column, key, name, why);
    }
    return pf_fail(r->error, PF_ERR_ARGUMENT, "%s: %s: '%s' %s", r->config->file, key, name, why);
}

// The place of a mechanism in the list of the section; 0, 0: not in it.
static pf_place place_of(const reading *r, int mechanism)
{
    const pf_config_design *d = &r->config->design;
    for (int i = 0; i < d->n_mechanisms; i++) {
        if (pf__plan_find_mechanism(r->plan, d->mechanisms[i].name) == mechanism) {
            return d->mechanisms[i].place;
        }
    }
    return (pf_place){0, 0};
}

// --- what the single pulses do

// First command of a mechanism in its own pulse, and the last row that has one. 0: it has none.
static double pulse_amplitude(const pf_plan *plan, int mechanism, int *steps)
{
    for (int q = 0; q < plan->n_probes; q++) {
        const pf_plan_probe *p = &plan->probes[q];
        double first = 0;
        for (int i = 0; i < p->rows && p->n_targets == 1 && p->targets[0] == mechanism; i++) {
            double u = p->command[(size_t)i * (size_t)plan->n_mech + (size_t)mechanism];
            first = first == 0 ? u : first;
            *steps = u != 0 && i + 1 > *steps ? i + 1 : *steps;
        }
        if (first != 0) {
            return first;
        }
    }
    double quarter = pf__quarter_range(&plan->mechanisms[mechanism]);
    return isfinite(quarter) ? quarter : 0;
}

static void default_bounds(reading *r)
{
    const pf_plan *plan = r->plan;
    int steps = 0, rows = 0;
    for (int j = 1; j < plan->n_mech; j++) {
        const pf_mechanism *m = &plan->mechanisms[j];
        r->bounds[j] = (pf_design_bound){.amplitude = pulse_amplitude(plan, j, &steps),
                                         .lo = m->lo,
                                         .hi = m->hi,
                                         .rate = INFINITY};
    }
    for (int q = 0; q < plan->n_probes; q++) {
        bool single = plan->probes[q].n_targets == 1;
        rows = single && plan->probes[q].rows > rows ? plan->probes[q].rows : rows;
    }
    steps = steps > 0 ? steps : 8;
    rows = rows > steps ? rows : steps;
    pf_design_config *c = r->out;
    const pf_config_design *d = &r->config->design;
    c->n_mech = plan->n_mech;
    c->n_chan = plan->n_chan;
    c->target = isnan(d->target) ? 6 : d->target;
    c->steps = d->steps > 0 ? d->steps : steps;
    c->rows = c->steps + rows - steps;
    c->at_once = d->at_once > 0 ? d->at_once : plan->n_mech - 1;
    c->starts = d->starts > 0 ? d->starts : 8;
    c->episodes = d->episodes > 0 ? d->episodes : 100;
    c->with_singles = d->with_singles != 0;
    c->compare = true;
}

// --- the section

static pf_status read_mechanisms(reading *r)
{
    const pf_config_design *d = &r->config->design;
    for (int j = 1; j < r->plan->n_mech; j++) {
        pf_design_bound *b = &r->bounds[j];
        b->one_sided = d->one_sided == 1;
        b->zero_integral = d->zero_integral == 1;
    }
    for (int i = 0; i < d->n_mechanisms; i++) {
        const pf_config_design_mechanism *given = &d->mechanisms[i];
        int j = pf__plan_find_mechanism(r->plan, given->name);
        if (j < 1) {
            return refuse(r, given->place, "design.mechanisms", given->name,
                          j == 0 ? "is the current mechanism, which probes leave alone"
                                 : "is not a mechanism of the plant");
        }
        for (int k = 0; k < i; k++) {
            if (pf__plan_find_mechanism(r->plan, d->mechanisms[k].name) == j) {
                return refuse(r, given->place, "design.mechanisms", given->name, "is named twice");
            }
        }
        pf_design_bound *b = &r->bounds[j];
        b->amplitude = isnan(given->amplitude) ? b->amplitude : given->amplitude;
        b->lo = given->lo > b->lo ? given->lo : b->lo;
        b->hi = given->hi < b->hi ? given->hi : b->hi;
        b->rate = isnan(given->rate) ? b->rate : given->rate;
        b->one_sided = given->one_sided < 0 ? b->one_sided : given->one_sided == 1;
        b->zero_integral = given->zero_integral < 0 ? b->zero_integral : given->zero_integral == 1;
        if (!isnan(given->amplitude) && (given->amplitude < b->lo || given->amplitude > b->hi)) {
            return refuse(r, given->place, "design.mechanisms", given->name,
                          "has an amplitude outside its limits");
        }
    }
    // a rate for all is in amplitudes, so it comes last
    for (int j = 1; j < r->plan->n_mech; j++) {
        pf_design_bound *b = &r->bounds[j];
        double all = isnan(d->rate) ? INFINITY : d->rate * fabs(b->amplitude);
        b->rate = isinf(b->rate) ? all : b->rate;
    }
    return PF_OK;
}

static pf_status read_apart(reading *r)
{
    const pf_config_ref_lists *groups = &r->config->design.apart;
    int n = r->plan->n_mech;
    for (int g = 0; g < groups->n; g++) {
        const pf_config_refs *refs = &groups->list[g];
        char key[40];
        snprintf(key, sizeof key, "design.apart.%d", g);
        for (int i = 0; i < refs->n; i++) {
            int a = pf__plan_find_mechanism(r->plan, refs->text[i]);
            if (a < 1) {
                return refuse(r, (pf_place){0, 0}, key, refs->text[i],
                              a == 0 ? "is the current mechanism, which probes leave alone"
                                     : "is not a mechanism of the plant");
            }
            for (int k = 0; k < i; k++) {
                int b = pf__plan_find_mechanism(r->plan, refs->text[k]);
                if (a == b) {
                    return refuse(r, (pf_place){0, 0}, key, refs->text[i],
                                  "would have to stay apart from itself");
                }
                r->apart[a * n + b] = r->apart[b * n + a] = true;
            }
        }
    }
    return PF_OK;
}

// Index of a channel by name, or by number where no name matches; -1: none.
static int find_channel(const pf_plan *plan, const char *reference)
{
    for (int c = 0; c < plan->n_chan; c++) {
        if (strcmp(plan->channels[c].name, reference) == 0) {
            return c;
        }
    }
    char *end = NULL;
    long index = strtol(reference, &end, 10);
    bool number = end != reference && *end == 0 && reference[0] >= '0' && reference[0] <= '9';
    return number && index < plan->n_chan ? (int)index : -1;
}

static pf_status read_outputs(reading *r)
{
    const pf_config_design *d = &r->config->design;
    for (int i = 0; i < d->n_outputs; i++) {
        const pf_config_design_output *given = &d->outputs[i];
        int c = find_channel(r->plan, given->channel);
        if (c < 0) {
            return refuse(r, given->place, "design.excursion", given->channel,
                          "is not a channel of the plant");
        }
        if (isfinite(r->most[c])) {
            return refuse(r, given->place, "design.excursion", given->channel, "is named twice");
        }
        r->most[c] = given->most;
    }
    return PF_OK;
}

static pf_status resolve(reading *r)
{
    size_t mech = (size_t)r->plan->n_mech, chan = (size_t)r->plan->n_chan;
    r->bounds = pf__arena_take(r->arena, mech, sizeof *r->bounds);
    r->apart = pf__arena_take(r->arena, mech * mech, sizeof *r->apart);
    r->most = pf__arena_take(r->arena, chan, sizeof *r->most);
    if (r->arena->failed) {
        return pf_fail(r->error, PF_ERR_MEMORY, "out of memory for the constraints");
    }
    for (size_t c = 0; c < chan; c++) {
        r->most[c] = INFINITY;
    }
    r->out->bounds = r->bounds;
    r->out->apart = r->apart;
    r->out->most = r->most;
    default_bounds(r);
    pf_status status = read_outputs(r);
    status = status ? status : read_mechanisms(r);
    return status == PF_OK ? read_apart(r) : status;
}

pf_status pf__limits_read(pf_design_config *out, const pf_plan *plan, pf_error *error)
{
    memset(out, 0, sizeof *out);
    pf_config empty = {0};
    pf_status status =
        plan->config ? PF_OK : pf__config_read(&empty, "defaults", NULL, 0, NULL, 0, error);
    if (status != PF_OK) {
        return status;
    }
    pf_arena *arena = calloc(1, sizeof *arena);
    out->memory = arena;
    reading r = {.out = out,
                 .plan = plan,
                 .config = plan->config ? plan->config : &empty,
                 .arena = arena,
                 .error = error};
    status =
        arena ? resolve(&r) : pf_fail(error, PF_ERR_MEMORY, "out of memory for the constraints");
    pf__config_free(&empty);
    if (status != PF_OK) {
        pf__limits_free(out);
    }
    return status;
}

void pf__limits_free(pf_design_config *config)
{
    if (config->memory) {
        pf__arena_free(config->memory);
        free(config->memory);
    }
    memset(config, 0, sizeof *config);
}

pf_status pf__limits_refuse(const pf_plan *plan, int mechanism, const char *key, const char *why,
                            pf_error *error)
{
    pf_config nothing = {.file = "defaults"};
    reading r = {.plan = plan, .config = plan->config ? plan->config : &nothing, .error = error};
    return refuse(&r, place_of(&r, mechanism), key, plan->mechanisms[mechanism].name, why);
}
