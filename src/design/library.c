// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "design_impl.h"

#include "calibrate/doctor.h"
#include "host/file.h"
#include "plant/identity.h"
#include "settings/config.h"
#include "preflight/design.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// From a library into a plan.

static pf_status take_probes(pf_plan *plan, int n, const pf_design_probe *probes, pf_error *error)
{
    pf_arena *arena = plan->memory;
    pf_plan_probe *list = pf__arena_take(arena, (size_t)n, sizeof *list);
    for (int q = 0; q < n && list; q++) {
        const pf_plan_probe *probe = &probes[q].probe;
        size_t size = (size_t)probe->rows * (size_t)plan->n_mech;
        double *command = pf__arena_take(arena, size, sizeof *command);
        int *targets = pf__arena_take(arena, (size_t)probe->n_targets, sizeof *targets);
        list[q] = *probe;
        list[q].name = pf__arena_text(arena, probe->name);
        if (!command || !targets) {
            break;
        }
        memcpy(command, probe->command, size * sizeof *command);
        memcpy(targets, probe->targets, (size_t)probe->n_targets * sizeof *targets);
        list[q].command = command;
        list[q].targets = targets;
    }
    if (arena->failed) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for %d probes", n);
    }
    plan->n_probes = n;
    plan->probes = list;
    return PF_OK;
}

pf_status pf__plan_design(pf_plan *plan, const pf_design_config *config, pf_plant *plant,
                          const pf_model *model, const pf_effort *effort, pf_error *error)
{
    pf_design_config own = {0};
    pf_design design;
    pf_status status = config ? PF_OK : pf__design_config_read(&own, plan, error);
    if (status != PF_OK) {
        return status;
    }
    pf_design_config alone = config ? *config : own;
    alone.compare = false;
    status = pf__design_create(&design, &alone, plan, plant, model, effort, error);
    if (status == PF_OK) {
        status = take_probes(plan, design.library.n_probes, design.library.probes, error);
        pf__design_free(&design);
    }
    pf__limits_free(&own);
    return status;
}

static const char *mechanism_name(const void *config, int mechanism)
{
    return ((const pf_config *)config)->mechanisms[mechanism].name;
}

static pf_status same_machine(const pf_plan *plan, const pf_config *c, pf_error *error)
{
    if (!c->plant || c->n_mechanisms == 0 || c->n_probes == 0) {
        return pf_fail(error, PF_ERR_FORMAT,
                       "%s: not a probe library: `%s` is missing; `preflight design` writes one",
                       c->file,
                       !c->plant              ? "plant"
                       : c->n_mechanisms == 0 ? "mechanisms"
                                              : "probes");
    }
    char where[120];
    snprintf(where, sizeof where, "the library %.100s", c->file);
    pf_comparison comparison = {where, "design it anew", error, PF_OK};
    pf_identity file = {.plant = c->plant,
                        .dt_s = -1,
                        .n_mech = c->n_mechanisms,
                        .n_chan = -1,
                        .n_state = -1,
                        .self = c,
                        .mechanism = mechanism_name};
    pf_plant_info info = {
        .name = plan->plant, .n_mech = plan->n_mech, .mechanisms = plan->mechanisms};
    return pf__identity_same(&comparison, &file, plan->plant, &info);
}

pf_status pf_plan_load_library(pf_plan *plan, const char *file, const char *text, size_t n,
                               pf_error *error)
{
    pf_config config;
    pf_status status = pf__config_read(&config, file, text, n, NULL, 0, error);
    if (status != PF_OK) {
        return status;
    }
    pf_plan_builder b = {plan, plan->memory, NULL, &config, error};
    status = same_machine(plan, &config, error);
    pf_plan_probe *list = pf__arena_take(b.arena, (size_t)config.n_probes + 1, sizeof *list);
    for (int q = 0; q < config.n_probes && list && status == PF_OK; q++) {
        status = pf__plan_given_probe(&b, &config.probes[q], &list[q]);
    }
    if (status == PF_OK && b.arena->failed) {
        status = pf_fail(error, PF_ERR_MEMORY, "%s: out of memory for its probes", file);
    }
    if (status == PF_OK) {
        plan->n_probes = config.n_probes;
        plan->probes = list;
    }
    pf__config_free(&config);
    return status;
}

// Which probes a kit is calibrated with.

typedef enum choice { LISTED, SINGLE, DESIGNED, LIBRARY } choice;

// What the configuration lists stays; without a word designed ones, where the method can read them:
// the norm of a residual cannot tell the targets of a group probe apart.
static pf_status choose(const pf_plan *plan, const char *probes, choice *which, pf_error *error)
{
    bool lists = plan->config && plan->config->n_probes > 0;
    const pf_method *method = pf_method_find(plan->method);
    bool group = method && method->statistic == PF_STATISTIC_MATCHED;
    if (!probes) {
        *which = lists ? LISTED : group ? DESIGNED : SINGLE;
        return PF_OK;
    }
    if (lists) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "%s: lists `probes`, so no others (%s) can be asked for; drop one of the "
                       "two",
                       plan->config->file, probes);
    }
    *which = strcmp(probes, "single") == 0     ? SINGLE
             : strcmp(probes, "designed") == 0 ? DESIGNED
                                               : LIBRARY;
    if (*which == DESIGNED && !group) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "probes designed: method %s cannot read group probes; use eg-mpt, or "
                       "probes single",
                       plan->method);
    }
    return PF_OK;
}

static pf_status load_library(pf_plan *plan, const char *file, pf_error *error)
{
    void *text = NULL;
    size_t n = 0;
    pf_status status = pf__file_read(file, (size_t)16 << 20, &text, &n, error);
    status = status ? status : pf_plan_load_library(plan, file, text, n, error);
    free(text);
    return status;
}

static bool is_probed(const pf_plan *plan, int mechanism)
{
    for (int q = 0; q < plan->n_probes; q++) {
        for (int t = 0; t < plan->probes[q].n_targets; t++) {
            if (plan->probes[q].targets[t] == mechanism) {
                return true;
            }
        }
    }
    return false;
}

// A candidate that no probe looks at keeps its tasks from being certified, unless looks are not
// required; then nothing would.
static pf_status all_probed(const pf_plan *plan, bool learned, pf_error *error)
{
    for (int j = 1; j < plan->n_mech && !plan->settings.field; j++) {
        if (!is_probed(plan, j)) {
            return pf_fail(
                error, PF_ERR_DEGENERATE,
                "mechanism '%s': no allowed probe was found under which healthy and weakened "
                "responses lie 3 dispersions apart; use %sa stronger or longer probe "
                "(`preflight design` tells more)",
                plan->mechanisms[j].name, learned ? "a better model, or " : "");
        }
    }
    return PF_OK;
}

// --- probes that were not designed here obey what `design` says all the same

static bool is_constrained(const pf_config *config)
{
    const pf_config_design *d = config ? &config->design : NULL;
    return d && (d->n_outputs > 0 || d->n_mechanisms > 0 || d->apart.n > 0 || d->at_once > 0 ||
                 !isnan(d->rate) || d->one_sided == 1 || d->zero_integral == 1);
}

static double moved(int rows, int n_chan, int channel, const double *a, const double *b)
{
    double most = 0;
    for (int t = 0; t < rows; t++) {
        most = fmax(most, fabs(a[t * n_chan + channel] - b[t * n_chan + channel]));
    }
    return most;
}

// How far a probe moves the bounded outputs from a few starts; a fifth more is let pass, since
// starts differ.
static pf_status check_moves(const pf_design_config *config, const pf_plan *plan, int probe,
                             pf_plant *plant, double *work, pf_error *error)
{
    enum { STARTS = 4 };
    const pf_plan_probe *p = &plan->probes[probe];
    size_t window = (size_t)p->rows * (size_t)plan->n_chan;
    double *still = work, *idle = still + (size_t)p->rows * (size_t)plan->n_mech;
    double *response = idle + window;
    pf_status status = PF_OK;
    for (int s = 0; s < STARTS && status == PF_OK; s++) {
        pf_roll roll = pf__plan_probe_roll(p, pf_plant_get_info(plant)), free_run = roll;
        roll.key = free_run.key = pf_key_stream(plan->settings.seed, plan->environment, (uint64_t)s,
                                                PF_PURPOSE_MEMBER, 1);
        free_run.policy = -1;
        free_run.command = still;
        status = pf_plant_roll(plant, &free_run, &(pf_trace){.output = idle}, error);
        status =
            status ? status : pf_plant_roll(plant, &roll, &(pf_trace){.output = response}, error);
        for (int c = 0; c < plan->n_chan && status == PF_OK; c++) {
            double far = moved(p->rows, plan->n_chan, c, response, idle);
            if (far > 1.2 * config->most[c]) {
                status = pf_fail(error, PF_ERR_ARGUMENT,
                                 "probe '%s' moves output '%s' by %g, `design` allows %g; use "
                                 "designed probes, or leave that constraint out",
                                 p->name, plan->channels[c].name, far, config->most[c]);
            }
        }
    }
    return status;
}

static pf_status keep_constraints(pf_design_config *config, const pf_plan *plan, pf_plant *plant,
                                  pf_error *error)
{
    pf_status status = PF_OK;
    if (plan->config->design.steps <= 0) {
        config->steps = INT_MAX; // not asked for: as many as they have
    }
    for (int q = 0; q < plan->n_probes && status == PF_OK; q++) {
        const pf_plan_probe *p = &plan->probes[q];
        pf_error why = {PF_OK, ""};
        if (pf__design_allows(config, plan, p->rows, p->command, &why) != PF_OK) {
            return pf_fail(error, PF_ERR_ARGUMENT,
                           "probe '%s' breaks what `design` asks for (%s); use designed probes, "
                           "or leave that constraint out",
                           p->name, why.text);
        }
        size_t n = (size_t)p->rows * (size_t)(plan->n_mech + 2 * plan->n_chan);
        double *work = calloc(n, sizeof *work);
        status = work ? check_moves(config, plan, q, plant, work, error)
                      : pf_fail(error, PF_ERR_MEMORY, "out of memory for a probe");
        free(work);
    }
    return status;
}

// Probes that the plan has already, or those of a library.
static pf_status take_given(pf_plan *plan, const char *library, pf_plant *plant, pf_error *error)
{
    pf_design_config config = {0};
    bool constrained = is_constrained(plan->config);
    // amplitudes are those of the plant's own pulses, so before the library takes their place
    pf_status status = constrained ? pf__design_config_read(&config, plan, error) : PF_OK;
    if (status == PF_OK && library) {
        status = load_library(plan, library, error);
    }
    if (status == PF_OK && constrained) {
        status = keep_constraints(&config, plan, plant, error);
    }
    pf__limits_free(&config);
    return status;
}

pf_status pf_plan_choose_probes(pf_plan *plan, const char *probes, pf_plant *plant,
                                const pf_model *model, const pf_effort *effort, pf_error *error)
{
    choice which = LISTED;
    pf_status status = choose(plan, probes, &which, error);
    if (status != PF_OK) {
        return status;
    }
    if (which != DESIGNED) {
        return take_given(plan, which == LIBRARY ? probes : NULL, plant, error);
    }
    // what a few trajectories show is said before thousands are run
    status = model ? PF_OK : pf__plant_noise(plan, plant, error);
    status = status ? status : pf__contract_check(plan, plant, false, effort, NULL, error);
    status = status ? status : pf__plan_design(plan, NULL, plant, model, effort, error);
    return status == PF_OK ? all_probed(plan, model != NULL, error) : status;
}

static void add_number(pf_text *out, double value)
{
    char text[32];
    pf__number_text(value, text);
    pf__text_add(out, text);
}

// How it was made; no dates, so that equal inputs give equal bytes.
static void add_head(const pf_design *d, const pf_design_config *c, const pf_plan *plan,
                     const char *predictor, pf_text *out)
{
    pf__text_addf(out,
                  "# Probe library by preflight " PF_VERSION ", for `preflight calibrate PLANT "
                  "--probes FILE`.\n"
                  "# %d designed, %d single pulses; predictor %s, seed %llu, gain %g.\n"
                  "# Separation in standard deviations of the coefficient, target %g; smallest "
                  "confirmed %.1f",
                  d->n_designed, d->library.n_probes - d->n_designed, predictor,
                  (unsigned long long)plan->settings.seed, plan->settings.g_cal, c->target,
                  d->library.smallest);
    if (d->n_designed > 0 && d->n_designed < d->library.n_probes) {
        pf__text_addf(out, ", of the designed %.1f", d->families[0].smallest);
    }
    pf__text_add(out, ".\n");
    for (int i = 0; i < c->n_chan; i++) {
        if (isfinite(c->most[i])) {
            pf__text_addf(out, "# Designed to move output %s by at most %g.\n",
                          plan->channels[i].name, c->most[i]);
        }
    }
    for (int i = 0; i < d->n_weak; i++) {
        pf__text_addf(out, "# Not separated by the target: %s\n",
                      plan->mechanisms[d->weak[i]].name);
    }
}

static void add_machine(const pf_design_config *c, const pf_plan *plan, pf_text *out)
{
    pf__text_add(out, "plant: ");
    pf__json_string(out, plan->plant);
    pf__text_addf(out, "\ndesign: {steps: %d, target: ", c->steps);
    add_number(out, c->target);
    pf__text_add(out, "}\nmechanisms:\n");
    for (int j = 0; j < plan->n_mech; j++) {
        const pf_mechanism *m = &plan->mechanisms[j];
        pf__text_add(out, "  - {name: ");
        pf__json_string(out, m->name);
        if (isfinite(m->lo)) {
            pf__text_add(out, ", lo: ");
            add_number(out, m->lo);
        }
        if (isfinite(m->hi)) {
            pf__text_add(out, ", hi: ");
            add_number(out, m->hi);
        }
        pf__text_add(out, "}\n");
    }
}

static void add_probe(const pf_design *d, int q, const pf_plan *plan, pf_text *out)
{
    const pf_design_probe *p = &d->library.probes[q];
    pf__text_add(out, "  - name: ");
    pf__json_string(out, p->probe.name);
    pf__text_add(out, "\n    # separation");
    for (int t = 0; t < p->probe.n_targets; t++) {
        pf__text_addf(out, " %.1f", d->library.targets[p->first + t].confirmed);
    }
    pf__text_add(out, "\n    targets: [");
    for (int t = 0; t < p->probe.n_targets; t++) {
        pf__text_add(out, t > 0 ? ", " : "");
        pf__json_string(out, plan->mechanisms[p->probe.targets[t]].name);
    }
    pf__text_add(out, "]\n    charge: ");
    add_number(out, p->probe.charge);
    pf__text_add(out, "\n    command:\n");
    for (int r = 0; r < p->probe.rows; r++) {
        pf__text_add(out, "      - [");
        for (int j = 0; j < plan->n_mech; j++) {
            pf__text_add(out, j > 0 ? ", " : "");
            add_number(out, p->probe.command[r * plan->n_mech + j]);
        }
        pf__text_add(out, "]\n");
    }
}

void pf__library_write(const pf_design *d, const pf_design_config *c, const pf_plan *plan,
                       const char *predictor, pf_text *out)
{
    add_head(d, c, plan, predictor, out);
    add_machine(c, plan, out);
    pf__text_add(out, "probes:\n");
    for (int q = 0; q < d->library.n_probes; q++) {
        add_probe(d, q, plan, out);
    }
}
