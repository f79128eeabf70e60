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
    double quarter = pf__plan_quarter_range(&plan->mechanisms[mechanism]);
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

static pf_status check_bound(const reading *r, int j)
{
    const pf_design_bound *b = &r->bounds[j];
    const char *name = r->plan->mechanisms[j].name;
    pf_place place = place_of(r, j);
    if (b->amplitude == 0) {
        return refuse(r, place, "design.mechanisms", name,
                      "has no pulse and no finite limits to derive an amplitude from: give "
                      "`amplitude`");
    }
    if (b->lo > 0 || b->hi < 0) {
        return refuse(r, place, "design.mechanisms", name,
                      "must be able to rest: 0 lies outside its limits lo and hi");
    }
    if (b->one_sided && b->zero_integral) {
        return refuse(r, place, "design", name,
                      "cannot be one_sided and have a zero_integral; drop one of the two");
    }
    double up = clip(b->amplitude, b), down = clip(-b->amplitude, b);
    if (up == 0 && (down == 0 || b->one_sided)) {
        return refuse(r, place, "design.mechanisms", name,
                      "cannot move: lo, hi and one_sided leave it no command but 0");
    }
    if (b->zero_integral && (up == 0 || down == 0 || r->out->steps < 2)) {
        return refuse(r, place, "design", name,
                      r->out->steps < 2
                          ? "cannot have a zero_integral in one step; raise `steps`"
                          : "cannot have a zero_integral: its limits allow one direction only");
    }
    pf_level level = pf__design_level(r->out, b);
    int wave[PF_DESIGN_STEPS];
    if (!pf__design_any_waveform(r->out, &level, wave)) {
        return refuse(r, place, "design", name,
                      "has no waveform that obeys rate, zero_integral and steps together; allow a "
                      "faster rate or more steps");
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
    if (r->out->rows > PF_DESIGN_STEPS) {
        return pf_fail(r->error, PF_ERR_ARGUMENT, "%s: design.steps: %d rows, at most %d",
                       r->config->file, r->out->rows, PF_DESIGN_STEPS);
    }
    pf_status status = read_outputs(r);
    status = status ? status : read_mechanisms(r);
    for (int j = 1; j < r->plan->n_mech && status == PF_OK; j++) {
        status = check_bound(r, j);
    }
    return status == PF_OK ? read_apart(r) : status;
}

pf_status pf__design_config_read(pf_design_config *out, const pf_plan *plan, pf_error *error)
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
        pf__design_config_free(out);
    }
    return status;
}

void pf__design_config_free(pf_design_config *config)
{
    if (config->memory) {
        pf__arena_free(config->memory);
        free(config->memory);
    }
    memset(config, 0, sizeof *config);
}
