// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "design_impl.h"

#include "host/arena.h"
#include "settings/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- levels, waveforms and what is allowed of them

// Slack of sums and differences of commands, relative to the amplitude.
static const double slack = 1e-9;

static double clip(double u, const pf_design_bound *b)
{
    return u < b->lo ? b->lo : u > b->hi ? b->hi : u;
}

static bool bounded(const pf_design_config *config)
{
    for (int c = 0; c < config->n_chan; c++) {
        if (isfinite(config->most[c])) {
            return true;
        }
    }
    return false;
}

pf_level pf__design_level(const pf_design_config *config, const pf_design_bound *b)
{
    // quarters of the amplitude where a bound on outputs may not admit all of it
    enum { FINE = 4 };
    double up = clip(b->amplitude, b);
    double down = b->one_sided ? 0 : clip(-b->amplitude, b);
    if (b->zero_integral) {
        double least = fmin(fabs(up), fabs(down));
        up = copysign(least, up);
        down = copysign(least, down);
    }
    double reach = fmax(fabs(up), fabs(down));
    int top = bounded(config) ? FINE : 1;
    if (b->rate < reach / top * (1 - slack)) {
        top = (int)fmin(ceil(reach / b->rate * (1 - slack)), config->steps);
        double most = fmin(reach, top * b->rate);
        up = fabs(up) > most ? copysign(most, up) : up;
        down = fabs(down) > most ? copysign(most, down) : down;
    }
    return (pf_level){.top = top,
                      .up = up,
                      .down = down,
                      .rate = b->rate,
                      .to_rest = config->rows > config->steps,
                      .zero_integral = b->zero_integral};
}

double pf__design_command(const pf_level *level, int l)
{
    if (l == 0) {
        return 0; // and not -0
    }
    // exact at full level, so that a pulse is the plant's own to the bit
    if (l == level->top || l == -level->top) {
        return l > 0 ? level->up : level->down;
    }
    return l >= 0 ? level->up * l / level->top : level->down * -l / level->top;
}

bool pf__design_slow(const pf_level *level)
{
    return level->rate < fmax(fabs(level->up), fabs(level->down)) * (1 - slack);
}

bool pf__design_waveform_allowed(const pf_level *level, int steps, const int *l)
{
    double before = 0, sum = 0, reach = fmax(fabs(level->up), fabs(level->down));
    bool moves = false;
    for (int r = 0; r < steps; r++) {
        if (l[r] > level->top || l[r] < -level->top || (l[r] > 0 && level->up == 0) ||
            (l[r] < 0 && level->down == 0)) {
            return false;
        }
        double u = pf__design_command(level, l[r]);
        if (fabs(u - before) > level->rate + slack * reach) {
            return false;
        }
        moves = moves || l[r] != 0;
        sum += u;
        before = u;
    }
    if (level->to_rest && fabs(before) > level->rate + slack * reach) {
        return false;
    }
    return moves && !(level->zero_integral && fabs(sum) > slack * reach);
}

// A simple waveform: a ramp up to `top`, and down again where it has to end at rest, or where the
// integral must vanish a hump and its mirror image, with `rest` rows at zero on either side of the
// middle.
static void fill_simple(const pf_level *level, int steps, int top, int side, int rest, int *l)
{
    int rows = level->zero_integral ? steps / 2 - rest : steps;
    for (int r = 0; r < steps; r++) {
        l[r] = 0;
    }
    for (int r = 0; r < rows; r++) {
        int ramp = r + 1;
        bool ends = level->zero_integral || level->to_rest;
        ramp = ends && rows - r < ramp ? rows - r : ramp;
        l[r] = side * (ramp < top ? ramp : top);
        if (level->zero_integral) {
            l[steps - 1 - r] = -l[r];
        }
    }
}

bool pf__design_any_waveform(const pf_design_config *config, const pf_level *level, int *l)
{
    for (int i = 0; i < 4 * level->top; i++) {
        int top = level->top - i / 4, side = i % 2 ? -1 : 1, rest = i / 2 % 2;
        fill_simple(level, config->steps, top, side, rest, l);
        if (pf__design_waveform_allowed(level, config->steps, l)) {
            return true;
        }
    }
    return false;
}

// Moves single levels towards a vanishing sum, at random places.
static void balance(const pf_level *level, int steps, pf_rng *rng, int *l)
{
    for (int attempt = 0; attempt < 40 * steps; attempt++) {
        int sum = 0;
        for (int r = 0; r < steps; r++) {
            sum += l[r];
        }
        if (sum == 0) {
            return;
        }
        int r = (int)pf_rng_below(rng, (uint32_t)steps), next = l[r] + (sum > 0 ? -1 : 1);
        l[r] = next > level->top || next < -level->top ? l[r] : next;
    }
}

void pf__design_random_waveform(const pf_design_config *config, const pf_level *level, pf_rng *rng,
                                int *l)
{
    int steps = config->steps, lowest = level->down != 0 ? -level->top : 0;
    int highest = level->up != 0 ? level->top : 0;
    bool slow = pf__design_slow(level);
    for (int attempt = 0; attempt < 60; attempt++) {
        int at = 0;
        for (int r = 0; r < steps; r++) {
            // full levels and rest where it may jump, a walk where it may not
            int draw = (int)pf_rng_below(rng, 3) - 1;
            at = slow ? at + draw : draw * level->top;
            at = at > highest ? highest : at < lowest ? lowest : at;
            if (slow && level->to_rest) { // back in time
                at = at > steps - r ? steps - r : at < r - steps ? r - steps : at;
            }
            l[r] = at;
        }
        if (level->zero_integral) {
            balance(level, steps, rng, l);
        }
        if (pf__design_waveform_allowed(level, steps, l)) {
            return;
        }
    }
    pf__design_any_waveform(config, level, l);
}

// --- a whole command

static pf_status broken(pf_error *error, const char *key, const char *name, const char *why)
{
    return pf_fail(error, PF_ERR_ARGUMENT, "%s: '%s' %s", key, name, why);
}

static pf_status column_allowed(const pf_design_config *config, const pf_plan *plan, int j,
                                int rows, const double *command, bool *moves, pf_error *error)
{
    const pf_design_bound *b = &config->bounds[j];
    const char *name = plan->mechanisms[j].name;
    double before = 0, sum = 0, size = fabs(b->amplitude);
    for (int r = 0; r < rows; r++) {
        double u = command[(size_t)r * (size_t)plan->n_mech + (size_t)j];
        size = fmax(size, fabs(u));
        if (u < b->lo - slack * size || u > b->hi + slack * size) {
            return broken(error, "limits", name, "is commanded beyond lo or hi");
        }
        if (b->one_sided && u * b->amplitude < 0) {
            return broken(error, "one_sided", name, "is commanded both ways");
        }
        if (fabs(u - before) > b->rate + slack * size) {
            return broken(error, "rate", name, "changes faster");
        }
        if (u != 0 && r >= config->steps) {
            return broken(error, "steps", name, "is commanded after the last step");
        }
        *moves = *moves || u != 0;
        sum += u;
        before = u;
    }
    return *moves && b->zero_integral && fabs(sum) > slack * size * rows
               ? broken(error, "zero_integral", name, "has another integral")
               : PF_OK;
}

pf_status pf__design_allows(const pf_design_config *config, const pf_plan *plan, int rows,
                            const double *command, pf_error *error)
{
    int n = 0, moved[PF_MECH_MAX];
    for (int j = 1; j < plan->n_mech; j++) {
        bool moves = false;
        pf_status status = column_allowed(config, plan, j, rows, command, &moves, error);
        if (status != PF_OK) {
            return status;
        }
        for (int k = 0; k < n && moves; k++) {
            if (config->apart[j * plan->n_mech + moved[k]]) {
                return pf_fail(error, PF_ERR_ARGUMENT, "apart: '%s' and '%s' act together",
                               plan->mechanisms[moved[k]].name, plan->mechanisms[j].name);
            }
        }
        if (moves) {
            moved[n++] = j;
        }
    }
    return n > config->at_once
               ? pf_fail(error, PF_ERR_ARGUMENT, "at_once: %d mechanisms act at once, %d may", n,
                         config->at_once)
               : PF_OK;
}

// --- the section `design`

static pf_status check_bound(const pf_design_config *c, const pf_plan *plan, int j, pf_error *error)
{
    const pf_design_bound *b = &c->bounds[j];
    if (b->amplitude == 0) {
        return pf__limits_refuse(
            plan, j, "design.mechanisms",
            "has no pulse and no finite limits to derive an amplitude from: give "
            "`amplitude`",
            error);
    }
    if (b->lo > 0 || b->hi < 0) {
        return pf__limits_refuse(plan, j, "design.mechanisms",
                                 "must be able to rest: 0 lies outside its limits lo and hi",
                                 error);
    }
    if (b->one_sided && b->zero_integral) {
        return pf__limits_refuse(
            plan, j, "design", "cannot be one_sided and have a zero_integral; drop one of the two",
            error);
    }
    double up = clip(b->amplitude, b), down = clip(-b->amplitude, b);
    if (up == 0 && (down == 0 || b->one_sided)) {
        return pf__limits_refuse(plan, j, "design.mechanisms",
                                 "cannot move: lo, hi and one_sided leave it no command but 0",
                                 error);
    }
    if (b->zero_integral && (up == 0 || down == 0 || c->steps < 2)) {
        return pf__limits_refuse(
            plan, j, "design",
            c->steps < 2 ? "cannot have a zero_integral in one step; raise `steps`"
                         : "cannot have a zero_integral: its limits allow one direction only",
            error);
    }
    pf_level level = pf__design_level(c, b);
    int wave[PF_DESIGN_STEPS];
    if (!pf__design_any_waveform(c, &level, wave)) {
        return pf__limits_refuse(
            plan, j, "design",
            "has no waveform that obeys rate, zero_integral and steps together; allow a "
            "faster rate or more steps",
            error);
    }
    return PF_OK;
}

pf_status pf__design_config_read(pf_design_config *out, const pf_plan *plan, pf_error *error)
{
    pf_status status = pf__limits_read(out, plan, error);
    if (status == PF_OK && out->rows > PF_DESIGN_STEPS) {
        status =
            pf_fail(error, PF_ERR_ARGUMENT, "%s: design.steps: %d rows, at most %d",
                    plan->config ? plan->config->file : "defaults", out->rows, PF_DESIGN_STEPS);
    }
    for (int j = 1; j < plan->n_mech && status == PF_OK; j++) {
        status = check_bound(out, plan, j, error);
    }
    if (status != PF_OK) {
        pf__limits_free(out);
    }
    return status;
}
