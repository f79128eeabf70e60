// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "recordings.h"

#include "core/method.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What a kit is made for, when its machine is known by recordings: with a configuration they must
// agree, without one the recordings say it all.

pf_status pf__recordings_match(pf_recordings *rec, pf_error *error)
{
    const pf_plan *plan = rec->plan;
    const char *file = rec->file;
    if (!plan) {
        if (rec->n_u < 2 || rec->n_u > PF_MECH_MAX) {
            return pf_fail(error, PF_ERR_FORMAT,
                           "%s:1: %d u columns; without a configuration the commands come from u0 "
                           "(the current mechanism, zeros if there is none), u1, ... (at most %d)",
                           file, rec->n_u, PF_MECH_MAX);
        }
        rec->n_mech = rec->n_u;
        rec->own_probes = true;
        return PF_OK;
    }
    rec->n_mech = plan->n_mech;
    rec->own_probes = plan->probes_open && rec->n_u > 0;
    if (plan->n_probes == 0 && rec->n_u == 0) {
        return pf_fail(error, PF_ERR_MISMATCH,
                       "%s:1: there are no u columns, and the configuration has neither `probes` "
                       "nor finite limits of all mechanisms to derive pulses from; give one of "
                       "them",
                       file);
    }
    if (rec->n_u > 0 && rec->n_u != plan->n_mech) {
        return pf_fail(error, PF_ERR_MISMATCH,
                       "%s:1: %d u columns, the configuration has %d mechanisms; give one column "
                       "for each or none",
                       file, rec->n_u, plan->n_mech);
    }
    if (plan->n_chan > 0 && rec->n_chan != plan->n_chan) {
        return pf_fail(error, PF_ERR_MISMATCH,
                       "%s:1: %d channel columns, the configuration has %d channels", file,
                       rec->n_chan, plan->n_chan);
    }
    for (int c = 0; c < plan->n_chan; c++) {
        if (strcmp(rec->channels[c], plan->channels[c].name) != 0) {
            return pf_fail(error, PF_ERR_MISMATCH,
                           "%s:1: column '%s': channel %d of the configuration is called '%s'; "
                           "use the same names in the same order",
                           file, rec->channels[c], c, plan->channels[c].name);
        }
    }
    return PF_OK;
}

// --- groups

const pf_group *pf__recordings_find(const pf_recordings *rec, int probe, int mechanism, double gain)
{
    for (int i = 0; i < rec->n_groups; i++) {
        const pf_group *g = &rec->groups[i];
        if (g->probe == probe && g->mechanism == mechanism && fabs(g->gain - gain) < PF_SAME_GAIN) {
            return g;
        }
    }
    return NULL;
}

const double *pf__recordings_response(const pf_recordings *rec, const pf_group *group, int rank)
{
    return rec->episodes[group->episodes[rank]].response;
}

// --- targets

static bool weakened(const pf_recordings *rec, int probe, int mechanism)
{
    for (int g = 0; g < rec->n_groups; g++) {
        if (rec->groups[g].probe == probe && rec->groups[g].mechanism == mechanism) {
            return true;
        }
    }
    return false;
}

// Recorded targets of a probe, ascending.
static int recorded_targets(const pf_recordings *rec, int probe, int *targets)
{
    bool seen[PF_MECH_MAX] = {false};
    for (int g = 0; g < rec->n_groups; g++) {
        if (rec->groups[g].probe == probe) {
            seen[rec->groups[g].mechanism] = true;
        }
    }
    int n = 0;
    for (int j = 1; j < rec->n_mech; j++) {
        if (seen[j]) {
            targets[n++] = j;
        }
    }
    return n;
}

static const char *mechanism_name(const pf_plan *plan, int mechanism)
{
    return plan->mechanisms[mechanism].name;
}

// The plan's targets and the recorded ones are the same.
static pf_status targets_check(const pf_recordings *rec, const pf_plan *plan, int probe,
                               pf_error *error)
{
    const pf_plan_probe *p = &plan->probes[probe];
    for (int t = 0; t < p->n_targets; t++) {
        if (!weakened(rec, probe, p->targets[t])) {
            return pf_fail(error, PF_ERR_MISMATCH,
                           "%s: probe '%s', mechanism '%s': no weakened episodes; record at least "
                           "%d or take it off the probe's targets",
                           rec->file, p->name, mechanism_name(plan, p->targets[t]),
                           PF_LEAST_EPISODES);
        }
    }
    for (int j = 1; j < rec->n_mech; j++) {
        bool target = false;
        for (int t = 0; t < p->n_targets; t++) {
            target = target || p->targets[t] == j;
        }
        if (!target && weakened(rec, probe, j)) {
            return pf_fail(error, PF_ERR_MISMATCH,
                           "%s: probe '%s', mechanism '%s': weakened episodes, but it is not one "
                           "of the probe's targets; add it there or drop the rows",
                           rec->file, p->name, mechanism_name(plan, j));
        }
    }
    return PF_OK;
}

// --- calibration gain

static bool in_all(const pf_recordings *rec, const pf_plan *plan, double gain)
{
    for (int q = 0; q < plan->n_probes; q++) {
        for (int t = 0; t < plan->probes[q].n_targets; t++) {
            if (!pf__recordings_find(rec, q, plan->probes[q].targets[t], gain)) {
                return false;
            }
        }
    }
    return true;
}

// The gain common to all that is nearest to the wanted one; the smaller of two equally near.
static pf_status choose_g_cal(const pf_recordings *rec, pf_plan *plan, double wanted,
                              pf_error *error)
{
    double best = -1;
    for (int g = 0; g < rec->n_groups; g++) {
        const pf_group *group = &rec->groups[g];
        // a dead mechanism (gain 0) is no anchor: the kit's grid lies strictly between 0 and 1
        bool candidate = group->probe == 0 && group->mechanism == plan->probes[0].targets[0] &&
                         group->gain > 1e-6 && in_all(rec, plan, group->gain);
        double closer = fabs(best - wanted) - fabs(group->gain - wanted);
        if (candidate &&
            (best < 0 || closer > PF_SAME_GAIN || (closer > -PF_SAME_GAIN && group->gain < best))) {
            best = group->gain;
        }
    }
    if (best < 0) {
        return pf_fail(error, PF_ERR_FORMAT,
                       "%s: column 'gain': no gain was recorded for every mechanism of every "
                       "probe; record all of them at one, best near %g",
                       rec->file, wanted);
    }
    plan->settings.g_cal = best;
    return PF_OK;
}

static bool moves(const pf_plan *plan, const pf_plan_probe *probe, int mechanism)
{
    for (int r = 0; r < probe->rows; r++) {
        if (probe->command[(size_t)r * (size_t)plan->n_mech + (size_t)mechanism] != 0) {
            return true;
        }
    }
    return false;
}

static pf_status counts_check(const pf_recordings *rec, pf_plan *plan, pf_error *error)
{
    plan->settings.episodes = rec->n_episodes;
    for (int q = 0; q < plan->n_probes; q++) {
        const pf_plan_probe *p = &plan->probes[q];
        for (int t = 0; t < p->n_targets; t++) {
            if (!moves(plan, p, p->targets[t])) {
                return pf_fail(error, PF_ERR_FORMAT,
                               "%s: probe '%s' never moves mechanism '%s', so its rows cannot show "
                               "a loss of it; check the mechanism column",
                               rec->file, p->name, mechanism_name(plan, p->targets[t]));
            }
            for (int class = 0; class < 2; class ++) {
                const pf_group *group =
                    class == 0 ? pf__recordings_find(rec, q, 0, 1)
                               : pf__recordings_find(rec, q, p->targets[t], plan->settings.g_cal);
                int n = group ? group->n : 0;
                if (n < PF_LEAST_EPISODES) {
                    return pf_fail(error, PF_ERR_DEGENERATE,
                                   "%s: probe '%s', mechanism '%s': %d %s episodes at gain %g, at "
                                   "least %d are needed; record more",
                                   rec->file, p->name, mechanism_name(plan, p->targets[t]), n,
                                   class == 0 ? "nominal" : "weakened",
                                   class == 0 ? 1.0 : plan->settings.g_cal, PF_LEAST_EPISODES);
                }
                plan->settings.episodes = n < plan->settings.episodes ? n : plan->settings.episodes;
            }
        }
    }
    return PF_OK;
}

// --- a machine known by its recordings only

static void make_channels(const pf_recordings *rec, pf_arena *arena, pf_plan *plan)
{
    pf_channel *channels = pf__arena_take(arena, (size_t)rec->n_chan, sizeof *channels);
    for (int c = 0; channels && c < rec->n_chan; c++) {
        channels[c] = (pf_channel){rec->channels[c], 0, 0};
    }
    plan->n_chan = rec->n_chan;
    plan->channels = channels;
}

static void make_machine(const pf_recordings *rec, pf_arena *arena, pf_plan *plan)
{
    plan->plant = "recordings";
    plan->n_mech = rec->n_mech;
    pf_mechanism *mechanisms = pf__arena_take(arena, (size_t)rec->n_mech, sizeof *mechanisms);
    for (int j = 0; mechanisms && j < rec->n_mech; j++) {
        char name[16];
        snprintf(name, sizeof name, "u%d", j);
        mechanisms[j] = (pf_mechanism){pf__arena_text(arena, name), -INFINITY, INFINITY};
    }
    plan->mechanisms = mechanisms;
    make_channels(rec, arena, plan);
}

// Probes as recorded; each is also a task. Gives the number of mechanisms that appear weakened.
static int make_probes(const pf_recordings *rec, pf_arena *arena, pf_plan *plan, bool *candidate)
{
    size_t n = (size_t)rec->n_probes;
    pf_plan_probe *probes = pf__arena_take(arena, n, sizeof *probes);
    pf_plan_task *tasks = pf__arena_take(arena, n, sizeof *tasks);
    int m = 0;
    for (int q = 0; probes && tasks && q < rec->n_probes; q++) {
        const pf_recorded_probe *r = &rec->probes[q];
        int *targets = pf__arena_take(arena, (size_t)rec->n_mech, sizeof *targets);
        if (!targets) {
            return 0;
        }
        probes[q] = (pf_plan_probe){.name = r->name,
                                    .rows = r->rows,
                                    .command = r->command,
                                    .charge = .01 * r->rows,
                                    .n_targets = recorded_targets(rec, q, targets),
                                    .targets = targets};
        tasks[q] = (pf_plan_task){.name = r->name,
                                  .n_uses = probes[q].n_targets,
                                  .uses = targets,
                                  .rows = r->rows,
                                  .command = r->command,
                                  .policy = "",
                                  .policy_index = -1,
                                  .importance = 1};
        for (int t = 0; t < probes[q].n_targets; t++) {
            m += !candidate[targets[t]];
            candidate[targets[t]] = true;
        }
    }
    for (int q = 0; tasks && q < rec->n_probes && m > 0; q++) {
        tasks[q].reveal = 1.0 / m;
    }
    plan->n_probes = plan->n_tasks = rec->n_probes;
    plan->probes = probes;
    plan->tasks = tasks;
    return m;
}

// Probes, tasks and prior as the recordings have them; change is the prior of any loss, NaN: the
// plan has a prior of its own.
static pf_status take_recorded(const pf_recordings *rec, pf_arena *arena, pf_plan *plan,
                               double change, pf_error *error)
{
    bool candidate[PF_MECH_MAX] = {false};
    int m = make_probes(rec, arena, plan, candidate);
    double *prior = pf__arena_take(arena, (size_t)rec->n_mech, sizeof *prior);
    if (arena->failed) {
        return pf_fail(error, PF_ERR_MEMORY, "%s: out of memory", rec->file);
    }
    for (int q = 0; q < plan->n_probes; q++) {
        if (plan->probes[q].n_targets == 0) {
            return pf_fail(error, PF_ERR_DEGENERATE,
                           "%s: probe '%s' has no weakened episodes; record at least %d with the "
                           "mechanism it moves at a gain near 0.35",
                           rec->file, plan->probes[q].name, PF_LEAST_EPISODES);
        }
    }
    // a mechanism that was never weakened is no candidate: nothing could be said of it
    prior[0] = 1 - change;
    for (int j = 1; j < rec->n_mech; j++) {
        prior[j] = candidate[j] ? change / m : 0;
    }
    plan->prior = isnan(change) ? plan->prior : prior;
    return PF_OK;
}

static pf_status make_plan(const pf_recordings *rec, pf_arena *arena, pf_plan *plan,
                           pf_error *error)
{
    *plan = (pf_plan){0};
    make_machine(rec, arena, plan);
    pf_status status = take_recorded(rec, arena, plan, .05, error);
    int m = 0;
    for (int j = 1; status == PF_OK && j < rec->n_mech; j++) {
        m += plan->prior[j] > 0;
    }
    plan->method = "eg-mpt";
    plan->settings = pf__settings_default(PF_SETTINGS_FIELD);
    plan->settings.budget1 = 2 * m > 8 ? 2 * m : 8;
    plan->settings.sensor_noise = 0;
    return status;
}

// --- both

// What the configuration leaves to the recordings.
static pf_status fill_plan(const pf_recordings *rec, pf_arena *arena, pf_plan *plan,
                           pf_error *error)
{
    if (plan->n_chan == 0) {
        make_channels(rec, arena, plan);
    }
    if (!rec->own_probes) {
        return PF_OK;
    }
    const pf_config_numbers *prior = &plan->settings.prior;
    pf_status status =
        take_recorded(rec, arena, plan, prior->n > 1 ? NAN : pf__settings_number(prior), error);
    return status == PF_OK ? pf__plan_recorded(plan, arena, error) : status;
}

static pf_status given_plan(const pf_recordings *rec, pf_arena *arena, pf_plan *plan,
                            pf_error *error)
{
    *plan = *rec->plan;
    plan->n_state = 0;
    plan->plant = plan->plant && plan->plant[0] ? plan->plant : "recordings";
    const pf_method *method = pf_method_find(plan->method);
    if (!method || method->statistic != PF_STATISTIC_MATCHED) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "method '%s' %s; recordings need one, such as eg-mpt", plan->method,
                       method ? "has not the matched statistic" : "is unknown");
    }
    if (plan->settings.scale == PF_SCALE_PULSE) {
        return pf_fail(
            error, PF_ERR_ARGUMENT,
            "scale: recordings are divided by their own residual, or by the scale that a "
            "channel is given; there is no pulse response from a simulator");
    }
    if (plan->settings.alarm_trials < 1 ||
        !(plan->settings.alarm_rate >= 0 && plan->settings.alarm_rate < 1)) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "alarm_trials is %d and alarm_rate %g; at least 1, and 0 to below 1",
                       plan->settings.alarm_trials, plan->settings.alarm_rate);
    }
    pf_status status = fill_plan(rec, arena, plan, error);
    for (int q = 0; q < plan->n_probes && status == PF_OK; q++) {
        status = targets_check(rec, plan, q, error);
    }
    return status;
}

pf_status pf__recordings_plan(const pf_recordings *rec, pf_arena *arena, pf_plan *plan,
                              pf_error *error)
{
    pf_status status =
        rec->plan ? given_plan(rec, arena, plan, error) : make_plan(rec, arena, plan, error);
    if (status == PF_OK) {
        status = choose_g_cal(rec, plan, plan->settings.g_cal, error);
    }
    if (status == PF_OK) {
        status = counts_check(rec, plan, error);
    }
    if (status == PF_OK) {
        pf__plan_set_grid(plan, arena, plan->n_grid, plan->grid);
    }
    if (status == PF_OK && arena->failed) {
        status = pf_fail(error, PF_ERR_MEMORY, "%s: out of memory", rec->file);
    }
    return status;
}
