// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "certificate.h"
#include "constants.h"
#include "kit_layout.h"
#include "rehearsal.h"

#include "../settings/settings.def"

#include <math.h>

// What the fields of a kit owe each other by the way calibration makes them. A file whose checksum
// is right but in which a field was changed mostly breaks one of these. Each row is checked when a
// kit is read or written, not in every session.

// Sums and quotients that calibration formed, formed again; libm may round otherwise elsewhere.
static bool same(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

// --- parts and settings

// A kit has the parts that its settings ask for.
static pf_status parts(const pf_kit *k, pf_error *error)
{
    bool looks = k->field && k->posterior == PF_POSTERIOR_JOINT;
    bool rehearses = k->field && k->rehearse != PF_REHEARSE_NONE;
    if (k->n_knots > 0 && !looks) {
        return pf_fail(error, PF_ERR_FORMAT,
                       "kit: has looks, but its settings (field %d, posterior %d) ask for none",
                       (int)k->field, (int)k->posterior);
    }
    if ((k->n_rehearse > 0) != rehearses) {
        return pf_fail(error, PF_ERR_FORMAT,
                       "kit: %s rehearsals, but its settings (field %d, rehearse %d) ask for %s",
                       rehearses ? "has no" : "has", (int)k->field, (int)k->rehearse,
                       rehearses ? "them" : "none");
    }
    if (k->n_misfit > 0 &&
        (k->misfit_chan < PF_MISFIT_LEAST || k->misfit_shape < PF_MISFIT_LEAST)) {
        return pf_fail(error, PF_ERR_FORMAT,
                       "kit: misfit levels %g and %g, calibration gives at least %g",
                       k->misfit_chan, k->misfit_shape, PF_MISFIT_LEAST);
    }
    return PF_OK;
}

// w_j sums reveal times importance over the tasks of a mechanism.
static pf_status weights(const pf_kit *k, pf_error *error)
{
    for (int j = 1; j < k->n_mech; j++) {
        double weight = 0, reveal = 0;
        for (int t = 0; t < k->n_tasks; t++) {
            for (int u = k->task_use[t]; u < k->task_use[t + 1]; u++) {
                bool uses = k->use_mech[u] == j;
                weight += uses ? k->task_reveal[t] * k->task_importance[t] : 0;
                reveal += uses ? k->task_reveal[t] : 0;
            }
        }
        if (!same(k->weight[j - 1], weight) || !same(k->reveal[j - 1], reveal) ||
            !same(k->importance[j - 1], reveal > 0 ? weight / reveal : 0)) {
            return pf_fail(error, PF_ERR_FORMAT,
                           "kit: weight, reveal and importance of mechanism %d are %g, %g and %g; "
                           "its tasks give %g and %g",
                           j, k->weight[j - 1], k->reveal[j - 1], k->importance[j - 1], weight,
                           reveal);
        }
    }
    return PF_OK;
}

// --- commands

// Rows of commands, within the limits of every mechanism.
static pf_status within(const pf_kit *k, const char *what, int rows, const double *command,
                        pf_error *error)
{
    for (int i = 0; i < rows * k->n_mech; i++) {
        int j = i % k->n_mech;
        if (command[i] < k->lo[j] || command[i] > k->hi[j]) {
            return pf_fail(error, PF_ERR_FORMAT,
                           "kit: %s row %d commands %g to mechanism %d, beyond its limits %g to %g",
                           what, i / k->n_mech, command[i], j, k->lo[j], k->hi[j]);
        }
    }
    return PF_OK;
}

// A probe says nothing about a mechanism that it does not move, unless that holds a load.
static pf_status targets_move(const pf_kit *k, int probe, pf_error *error)
{
    const double *command = pf_kit_probe_command(k, probe);
    int rows = pf_kit_probe_rows(k, probe);
    for (int t = k->probe_target[probe]; t < k->probe_target[probe + 1]; t++) {
        int j = k->target_mech[t];
        bool moves = !command || pf_kit_loses_force(k, j);
        for (int r = 0; r < rows && !moves; r++) {
            moves = command[r * k->n_mech + j] != 0;
        }
        if (!moves) {
            return pf_fail(error, PF_ERR_FORMAT, "kit: probe %d does not move its target %d", probe,
                           j);
        }
    }
    return PF_OK;
}

static pf_status commands(const pf_kit *k, pf_error *error)
{
    pf_status s = within(k, "probe", k->n_rows, k->command, error);
    s = s ? s : within(k, "task", k->n_task_rows, k->task_command, error);
    for (int q = 0; q < k->n_probes && s == PF_OK && k->n_response == 0; q++) {
        s = targets_move(k, q, error);
    }
    return s;
}

// --- readings

// Residuals have the scale of returns, unless each row has one of its own.
static pf_status scales(const pf_kit *k, pf_error *error)
{
    for (int c = 0; c < k->n_chan && k->n_scale == 1 && pf__kit_most_rows(k) > 1; c++) {
        if (k->scale[c] != k->return_scale[c]) {
            return pf_fail(error, PF_ERR_FORMAT,
                           "kit: scale and return_scale of channel %d differ: %g and %g", c,
                           k->scale[c], k->return_scale[c]);
        }
    }
    return PF_OK;
}

// How far a median of coordinates may lie from what it is by definition.
static double slack_of(const pf_kit *k, int target)
{
    return PF_CENTRE_SLACK + PF_CENTRE_SIGMAS * k->sigma[target];
}

// A signature is what a loss down to g_cal does. Matched with it, a healthy response comes to 0 and
// one at g_cal to 1, in the mean.
static pf_status centres(const pf_kit *k, pf_error *error)
{
    for (int t = 0; t < k->n_targets && k->statistic == PF_STATISTIC_MATCHED; t++) {
        if (fabs(k->centre_nominal[t]) > slack_of(k, t) ||
            fabs(k->centre_changed[t] - 1) > slack_of(k, t)) {
            return pf_fail(error, PF_ERR_FORMAT,
                           "kit: m0 and m1 of target %d are %g and %g; matched, a healthy response "
                           "is 0 and one at g_cal is 1",
                           t, k->centre_nominal[t], k->centre_changed[t]);
        }
    }
    return PF_OK;
}

// The curve of a target falls with the gain. It is near 1 at g_cal, where the coordinate is 1 by
// definition: other episodes give another median, but not by much.
static pf_status curves(const pf_kit *k, pf_error *error)
{
    for (int t = 0; t < k->n_targets && k->n_curve > 0; t++) {
        const double *curve = k->curve + (size_t)t * (size_t)k->n_grid;
        for (int g = 1; g < k->n_grid; g++) {
            if (curve[g] > curve[g - 1] + 1e-9 * fabs(curve[g - 1])) {
                return pf_fail(error, PF_ERR_FORMAT,
                               "kit: curve of target %d rises from %g to %g with the gain", t,
                               curve[g - 1], curve[g]);
            }
        }
        if (k->g_cal < k->grid[0] || k->g_cal > k->grid[k->n_grid - 1]) {
            continue;
        }
        double z = pf__tracking_error_at(k->n_grid, k->grid, curve, k->g_cal);
        if (fabs(z - 1) > slack_of(k, t)) {
            return pf_fail(error, PF_ERR_FORMAT,
                           "kit: curve of target %d is %g at g_cal, where a coordinate is 1", t, z);
        }
    }
    return PF_OK;
}

// --- returns

// Whether the uses of an open loop are all that it moves, and stands still without: what loses
// force may stay where it is, or be moved by its load.
static bool lists_all(const pf_kit *k, int task)
{
    const double *command = pf_kit_task_command(k, task);
    bool current = false, listed = false, force = false;
    for (int r = 0; r < pf_kit_task_rows(k, task); r++) {
        current = current || command[r * k->n_mech] != 0;
    }
    for (int u = k->task_use[task]; u < k->task_use[task + 1]; u++) {
        listed = listed || k->use_mech[u] == 0;
        force = force || pf_kit_loses_force(k, k->use_mech[u]);
    }
    return pf_kit_task_rows(k, task) > 0 && (listed || !current) && !force;
}

// What a task misses without its mechanisms and what it misses with them cannot both be small: from
// a machine that does nothing to one that does all it is as far as the task moves.
static pf_status returns(const pf_kit *k, int task, pf_error *error)
{
    bool members = pf__kit_starts_from_channels(k) && k->certificate == PF_CERTIFICATE_MEMBERS;
    if (members || !lists_all(k, task) || k->shares[0] > 0 || k->shares[k->n_shares - 1] < 1) {
        return PF_OK;
    }
    for (int e = 0; e < k->n_members; e++) {
        double way = 0;
        for (int u = k->task_use[task]; u < k->task_use[task + 1]; u++) {
            size_t row = (size_t)u * (size_t)k->n_members + (size_t)e;
            const double *nte = k->tracking_error + row * (size_t)k->n_shares;
            way += sqrt(nte[0]) + sqrt(pf__tracking_error_at(k->n_shares, k->shares, nte, 1));
        }
        if (way < PF_WAY_LEAST) {
            return pf_fail(error, PF_ERR_FORMAT,
                           "kit: the return table of task %d, member %d, loses nothing without its "
                           "mechanisms",
                           task, e);
        }
    }
    return PF_OK;
}

// A command that is not corrected misses the same in the table over gain and correction as in the
// one over shares: both are the same runs.
static pf_status force(const pf_kit *k, int task, pf_error *error)
{
    for (int u = k->task_use[task]; u < k->task_use[task + 1]; u++) {
        for (int i = 0; i < k->n_members * PF_FORCE_GAINS; i++) {
            size_t row = (size_t)u * (size_t)k->n_members + (size_t)(i / PF_FORCE_GAINS);
            int g = i % PF_FORCE_GAINS;
            if (!pf_kit_loses_force(k, k->use_mech[u])) {
                break;
            }
            double with = pf__tracking_error_at(
                PF_FORCE_CORRECTIONS, k->corrections,
                k->force_error + (row * PF_FORCE_GAINS + (size_t)g) * PF_FORCE_CORRECTIONS, 1);
            double without = pf__tracking_error_at(k->n_shares, k->shares,
                                                   k->tracking_error + row * (size_t)k->n_shares,
                                                   k->force_gains[g]);
            if (!same(with, without)) {
                return pf_fail(error, PF_ERR_FORMAT,
                               "kit: without a correction task %d misses %g at gain %g of "
                               "mechanism %d, by its table of shares %g",
                               task, with, k->force_gains[g], (int)k->use_mech[u], without);
            }
        }
    }
    return PF_OK;
}

// Where a task just returns j_min is known from its return table.
static pf_status edges(const pf_kit *k, int task, pf_error *error)
{
    const double *numbers = k->rehearsal + (size_t)task * PF_REHEARSAL_NUMBERS;
    double cv = 0;
    for (int e = 2 * k->task_use[task]; e < 2 * k->task_use[task + 1]; e++) {
        double edge = pf__use_edge(k, e / 2, e % 2 == 1, &cv);
        if (!same(k->use_edge[e], edge)) {
            return pf_fail(error, PF_ERR_FORMAT,
                           "kit: task %d returns j_min at share %g of mechanism %d by its return "
                           "table, at %g by its rehearsal",
                           task, edge, (int)k->use_mech[e / 2], k->use_edge[e]);
        }
    }
    return same(numbers[PF_REHEARSAL_CV], cv)
               ? PF_OK
               : pf_fail(error, PF_ERR_FORMAT,
                         "kit: the rehearsal of task %d spreads by %g, its return table by %g",
                         task, numbers[PF_REHEARSAL_CV], cv);
}

pf_status pf__kit_check_relations(const pf_kit *k, pf_error *error)
{
    pf_status s = parts(k, error);
    s = s ? s : weights(k, error);
    s = s ? s : commands(k, error);
    s = s ? s : scales(k, error);
    if (s != PF_OK || !k->field) {
        return s; // suites with the paper's rules take any probe, and fly tasks instead of a table
    }
    s = centres(k, error);
    s = s ? s : curves(k, error);
    for (int t = 0; t < k->n_tasks && s == PF_OK; t++) {
        s = returns(k, t, error);
        s = s ? s : force(k, t, error);
        bool rehearsed = k->n_rehearse > 0 && k->rehearsal_rows[t] > 0;
        s = s == PF_OK && rehearsed ? edges(k, t, error) : s;
    }
    return s;
}
