// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "session_impl.h"
#include "rng.h"

#include <math.h>
#include <string.h>

// --- memory: one block, laid out by the same walk that measures it

typedef struct layout {
    uint8_t *base; // NULL while measuring
    size_t used;
} layout;

static void *take(layout *l, size_t count, size_t size)
{
    // a size that does not fit saturates, so that it can never look small
    if (l->used > SIZE_MAX / 2 || count > SIZE_MAX / 4 / size) {
        l->used = SIZE_MAX;
        return NULL;
    }
    l->used = (l->used + 15) & ~(size_t)15;
    void *at = l->base ? l->base + l->used : NULL;
    l->used += count * size;
    return at;
}

static int most_uses(const pf_kit *k)
{
    int most = 0;
    for (int t = 0; t < k->n_tasks; t++) {
        int n = k->task_use[t + 1] - k->task_use[t];
        most = n > most ? n : most;
    }
    return most;
}

// What the field's verdict needs; gains is 0 without the joint posterior, rows without rehearsals.
static void lay_out_field(pf_session *s, layout *l, const pf_kit *k, size_t gains, size_t rows)
{
    size_t m = (size_t)k->n_mech - 1, targets = (size_t)pf__kit_most_targets(k);
    size_t d = sizeof(double), chan = (size_t)k->n_chan, mech = (size_t)k->n_mech;
    s->rehearsal = take(l, (size_t)k->n_tasks, sizeof *s->rehearsal);
    s->rehearsing = take(l, (size_t)k->n_tasks, sizeof *s->rehearsing);
    s->asked_tasks = take(l, (size_t)k->n_tasks, sizeof *s->asked_tasks);
    s->rehearsal_command = take(l, rows * mech, d);
    s->asked_command = take(l, rows * mech, d);
    s->idle_command = take(l, rows * mech, d);
    s->rehearsal_correction = take(l, mech, d);
    s->rehearsal_nominal = take(l, rows * chan, d);
    s->rehearsal_other = take(l, rows * chan, d);
    if (gains == 0) {
        return;
    }
    s->q_healthy = take(l, m, d);
    s->q_gain = take(l, m * gains, d);
    s->misfit.sum = take(l, chan, d);
    s->between = take(l, gains, sizeof *s->between);
    s->look.log_healthy = take(l, targets, d);
    s->look.q_healthy = take(l, targets, d);
    s->look.log_gain = take(l, targets * gains, d);
    s->look.q_gain = take(l, targets * gains, d);
    s->look.z = s->z = take(l, targets, d);
    s->look.said = take(l, targets, sizeof *s->look.said);
    s->u = take(l, chan, d);
    s->gains = take(l, gains, d);
}

static void lay_out(pf_session *s, layout *l, const pf_kit *k)
{
    size_t m = (size_t)k->n_mech - 1, grid = (size_t)k->n_grid, probes = (size_t)k->n_probes;
    size_t targets = (size_t)pf__kit_most_targets(k);
    size_t window = (size_t)pf__kit_most_rows(k) * (size_t)k->n_chan;
    size_t gains = s->posterior ? PF_POSTERIOR_GAINS : 0, cells = gains > grid ? gains : grid;
    size_t hypotheses = 1 + (size_t)most_uses(k) * (cells + 1), d = sizeof(double);
    size_t rehearsed = s->rules.field ? (size_t)pf__kit_rehearsal_rows(k) : 0;
    s->belief = take(l, m + 1, d);
    s->odds = take(l, m, d);
    s->severity = take(l, m * grid, d);
    s->joint.mass = take(l, m * cells, d);
    s->own_evidence = take(l, m, d);
    s->beyond = take(l, m, d);
    s->admitted = take(l, m, sizeof(int));
    s->own_readings = take(l, m, sizeof(int));
    s->probed = take(l, m + 1, sizeof(bool));
    s->skipped = take(l, probes, sizeof(bool));
    s->implausible = take(l, probes, sizeof(int));
    s->eligible = take(l, probes, sizeof(bool));
    s->schedule = take(l, probes, sizeof(int));
    s->readings = take(l, targets, sizeof(pf_reading));
    s->tasks = take(l, (size_t)k->n_tasks, sizeof(pf_task_readiness));
    s->mechanisms = take(l, m + 1, sizeof(pf_mechanism_readiness));
    s->boundary.mass = take(l, m * cells, d);
    s->next = take(l, targets, sizeof(pf_reading));
    s->matches = take(l, targets, sizeof(pf_match));
    s->inverse = take(l, window, d);
    pf__evidence unused, *e = s->evidence = take(l, 1, sizeof *e);
    e = e ? e : &unused;
    e->nominal = take(l, window, d);
    e->predicted = take(l, window, d);
    e->residual = take(l, window, d);
    e->signatures = take(l, targets * window, d);
    e->scratch = take(l, pf__match_scratch((int)targets), d);
    s->new_belief = take(l, m + 1, d);
    s->new_odds = take(l, m, d);
    s->others = take(l, m + 1, d);
    s->order = take(l, targets, sizeof(int));
    s->target_belief = take(l, targets, d);
    s->ratios = take(l, m + 1, d);
    s->rows = take(l, m + 1, sizeof(double *));
    s->distance = take(l, targets * (grid + 1), d);
    s->terms.own = take(l, m, d);
    s->terms.others = take(l, m, d);
    s->value = take(l, (size_t)k->n_targets, d);
    s->probability = take(l, hypotheses, d);
    s->returns = take(l, hypotheses * (size_t)k->n_members, d);
    s->expected = take(l, grid, d);
    s->share = take(l, m + 1, d);
    s->off_shape = take(l, m + 1, d);
    s->asked = take(l, m + 1, d);
    lay_out_field(s, l, k, gains, rehearsed);
}

size_t pf_session_size(const pf_kit *kit)
{
    if (pf_kit_check(kit, NULL) != PF_OK) {
        return 0;
    }
    layout measure = {NULL, 0};
    // as the kit's own rules need it; no others need more
    pf_session nowhere = {.rules = {.field = true},
                          .posterior = kit->posterior == PF_POSTERIOR_JOINT && kit->n_knots > 0};
    take(&measure, 1, sizeof nowhere);
    lay_out(&nowhere, &measure, kit);
    return measure.used <= SIZE_MAX / 2 ? measure.used : 0;
}

pf_session_config pf_session_config_default(void)
{
    return (pf_session_config){NULL, 0, NULL};
}

static pf_status find_method(pf_session *s, const char *id, pf_error *error)
{
    for (int i = 0; i < s->kit->n_methods; i++) {
        const char *have = pf_kit_method_id(s->kit, i);
        if (!id || strcmp(have, id) == 0) {
            s->method = pf_method_find(have);
            s->threshold = s->kit->threshold[i];
            return PF_OK;
        }
    }
    return pf_fail(error, PF_ERR_MISMATCH,
                   "the kit has no alarm threshold for method '%s'; it was calibrated for '%s'", id,
                   pf_kit_method_id(s->kit, 0));
}

pf_status pf_session_init(pf_session **session, const pf_kit *kit, const pf_session_config *config,
                          void *mem, size_t bytes, pf_error *error)
{
    *session = NULL;
    pf_status status = pf_kit_check(kit, error);
    if (status != PF_OK) {
        return status;
    }
    size_t need = pf_session_size(kit);
    if (!mem || (uintptr_t)mem % 16 != 0) {
        return pf_fail(error, PF_ERR_ARGUMENT, "session memory must be aligned to 16 bytes");
    }
    if (bytes < need) {
        return pf_fail(error, PF_ERR_MEMORY, "a session on this kit needs %z bytes, got %z", need,
                       bytes);
    }
    memset(mem, 0, need);
    layout l = {mem, 0};
    pf_session *s = take(&l, 1, sizeof *s);
    s->kit = kit;
    s->m = kit->n_mech - 1;
    s->n_grid = kit->n_grid;
    s->most_targets = pf__kit_most_targets(kit);
    s->window = pf__kit_most_rows(kit) * kit->n_chan;
    s->seed = config ? config->seed : 0;
    s->rules = config && config->rules ? *config->rules : pf_kit_get_info(kit).rules;
    if (s->rules.budget1 < 1 || s->rules.budget2 < 0 || s->rules.budget3 < 0 ||
        (unsigned)s->rules.stop > PF_STOP_LATCH ||
        (unsigned)s->rules.rehearse > PF_REHEARSE_GROUP || s->rules.rehearsals < 1) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "session rules: budgets %d, %d, %d, stop %d, rehearse %d or rehearsals %d",
                       s->rules.budget1, s->rules.budget2, s->rules.budget3, (int)s->rules.stop,
                       (int)s->rules.rehearse, s->rules.rehearsals);
    }
    s->posterior = s->rules.field && kit->posterior == PF_POSTERIOR_JOINT && kit->n_knots > 0;
    s->joint = s->boundary = (pf_joint){.m = s->m,
                                        .n_grid = s->posterior ? PF_POSTERIOR_GAINS : kit->n_grid,
                                        .grid = s->posterior ? pf__posterior_gains : kit->grid,
                                        .faults = (pf_faults)kit->faults,
                                        .cells = s->posterior};
    lay_out(s, &l, kit);
    if (s->posterior) {
        pf__posterior_between(kit, s->between);
    }
    status = find_method(s, config ? config->method : NULL, error);
    if (status != PF_OK) {
        return status;
    }
    if (l.used > bytes) {
        return pf_fail(error, PF_ERR_INTERNAL, "session layout used %z of %z bytes", l.used, bytes);
    }
    for (int i = 0; i < s->window; i++) {
        s->inverse[i] = 1 / pf__kit_scale(kit, i);
    }
    s->evidence->inverse = s->inverse;
    s->evidence->check = true;
    pf_session_reset(s);
    *session = s;
    return PF_OK;
}

void pf_session_reset(pf_session *s)
{
    const pf_kit *k = s->kit;
    s->stage = 1;
    s->done = PF_DONE_NOT;
    s->outstanding = false;
    s->opportunities = s->recoveries = s->told = s->rehearsed = s->n_readings = 0;
    pf__session_reset_rehearsals(s);
    s->rehearsed_distance = 0;
    s->rehearsed_passed = false;
    s->charge = s->peak = 0;
    s->alarm = false;
    s->alarm_opportunity = -1;
    pf_rng_init(&s->rng, pf__key_derive(pf_key_root(s->seed), PF_PURPOSE_METHOD));
    memcpy(s->belief, k->prior, sizeof(double) * (size_t)(s->m + 1));
    if (pf__session_many(s)) {
        pf__odds_reset(s->m, k->prior, s->odds);
        pf__odds_belief(s->m, s->odds, s->belief);
    }
    for (int i = 0; i < s->m; i++) {
        pf__severity_reset(s->n_grid, s->severity + (size_t)i * (size_t)s->n_grid);
        s->own_evidence[i] = 0;
        s->beyond[i] = 0;
        s->admitted[i] = 0;
        s->own_readings[i] = 0;
    }
    memset(s->probed, 0, sizeof(bool) * (size_t)(s->m + 1));
    memset(s->skipped, 0, sizeof(bool) * (size_t)k->n_probes);
    memset(s->implausible, 0, sizeof(int) * (size_t)k->n_probes);
    for (int g = 0; g < s->n_grid; g++) {
        s->expected[g] = pf__severity_line(k->grid[g], k->g_cal);
    }
    if (s->method->rule == PF_RULE_SCHEDULE) {
        pf__session_make_schedule(s);
    }
    if (s->posterior) {
        pf__posterior_reset(&s->joint, k->prior);
        pf__misfit_reset(&s->misfit, k->n_chan);
        memset(s->q_healthy, 0, sizeof(double) * (size_t)s->m);
        memset(s->q_gain, 0, sizeof(double) * (size_t)s->m * PF_POSTERIOR_GAINS);
        s->n_z = 0;
    }
    pf__session_forget_answers(s);
}

// --- ask, skip and the end of a stage

pf_ask pf_session_ask(pf_session *s)
{
    if (s->stage == PF_STAGE_DONE) {
        return (pf_ask){.kind = PF_ASK_DONE, .probe = -1, .why = s->done};
    }
    if (!s->outstanding && s->stage == PF_STAGE_REHEARSE) {
        s->rehearsals++; // s->ask has been the next one since the last tell
        memcpy(s->asked_tasks, s->rehearsing, sizeof(int32_t) * (size_t)s->ask.n_tasks);
        s->ask.tasks = s->asked_tasks;
    } else if (!s->outstanding) {
        pf__session_forget_answers(s);
        if (s->stage == PF_STAGE_LOOK) {
            pf__session_open_opportunity(s);
        } else {
            pf__session_open_recovery(s);
        }
        s->ask.rows = pf_kit_probe_rows(s->kit, s->ask.probe);
    }
    s->outstanding = true;
    return s->ask;
}

bool pf_session_outstanding(const pf_session *s, pf_ask *ask)
{
    if (ask && s->outstanding) {
        *ask = s->ask;
    }
    return s->stage != PF_STAGE_DONE && s->outstanding;
}

// --- stages

// The rehearsals are over.
static void end(pf_session *s)
{
    bool ready = true;
    s->stage = PF_STAGE_DONE;
    for (int t = 0; t < s->kit->n_tasks && s->rules.field; t++) {
        ready = ready && s->rehearsal[t].state != PF__REHEARSAL_FAILED;
    }
    if (s->rules.field && s->alarm && !pf_session_get_state(s).explained) {
        s->done = PF_DONE_UNEXPLAINED;
    } else if (s->done == PF_DONE_READY && !ready) {
        s->done = PF_DONE_SETTLED;
    }
}

// The probes are over: rehearse what they leave.
static void finish(pf_session *s, pf_done why)
{
    s->done = why;
    s->stage = PF_STAGE_REHEARSE;
    if (!s->rules.field) {
        s->stage = PF_STAGE_DONE;
    } else if (!pf__session_start_rehearsals(s)) {
        end(s);
    }
}

void pf__session_boundary(const pf_session *s, pf_joint *joint)
{
    if (s->method->transport) {
        pf__joint_transport(joint, s->belief, s->severity);
    } else {
        pf__joint_broad(joint, s->belief);
    }
}

// The boundary: from here on only the joint belief is read and written.
static void enter_stage2(pf_session *s)
{
    if (!s->posterior) {
        pf__session_boundary(s, &s->joint);
    }
    s->stage = PF_STAGE_RECOVER;
}

// Whether the probes are over before their budget is: nothing more is to be learned from them.
static bool nothing_left(pf_session *s, bool *ready, bool *settled)
{
    // an alarm asks for its reason first
    *ready = s->rules.field && !pf__session_open_question(s) && pf__session_all_go(s);
    *settled = s->rules.field && !*ready && pf__session_settled(s);
    return *ready || *settled;
}

// After every response or skip: is this stage over?
static void advance(pf_session *s)
{
    bool ready = false, settled = false;
    if (s->stage == PF_STAGE_REHEARSE) {
        if (!pf__session_next_rehearsal(s)) {
            end(s);
        }
        return;
    }
    bool over = nothing_left(s, &ready, &settled);
    if (s->stage == PF_STAGE_LOOK) {
        bool stop = s->alarm && s->rules.stop == PF_STOP_BREAK;
        if (!stop && !over && s->opportunities < s->rules.budget1 && pf__session_available(s) > 0) {
            return;
        }
        enter_stage2(s);
    }
    bool spent = s->recoveries >= s->rules.budget2 || pf__session_available(s) == 0;
    if (over) {
        finish(s, ready ? PF_DONE_READY : PF_DONE_SETTLED);
    } else if (!s->alarm || spent) {
        finish(s, s->alarm ? PF_DONE_BUDGET : PF_DONE_NO_ALARM);
    }
}

pf_status pf_session_skip(pf_session *s, pf_error *error)
{
    if (s->stage == PF_STAGE_DONE) {
        return pf_fail(error, PF_ERR_STAGE, "skip: the session is done");
    }
    if (!s->outstanding) {
        return pf_fail(error, PF_ERR_PROBE, "skip: no probe is outstanding; ask first");
    }
    pf__session_forget_answers(s);
    if (s->stage == PF_STAGE_REHEARSE) {
        pf__session_skip_rehearsal(s);
    } else {
        s->skipped[s->ask.probe] = true;
    }
    s->outstanding = false;
    advance(s);
    return PF_OK;
}

pf_status pf_session_stage2(pf_session *s, pf_error *error)
{
    if (s->stage != 1) {
        return pf_fail(error, PF_ERR_STAGE, "stage2: stage 1 has ended already");
    }
    pf__session_forget_answers(s);
    s->outstanding = false;
    enter_stage2(s);
    if (!s->alarm || s->recoveries >= s->rules.budget2 || pf__session_available(s) == 0) {
        finish(s, s->alarm ? PF_DONE_BUDGET : PF_DONE_NO_ALARM);
    }
    return PF_OK;
}

// --- stage 1: from matches to readings and belief

// Usable targets by falling ratio, equal ones by index; gives their number.
static int sort_targets(pf_session *s, int n_targets)
{
    int n = 0;
    for (int t = 0; t < n_targets; t++) {
        if (!s->next[t].usable) {
            continue;
        }
        int at = n++;
        while (at > 0 && s->next[s->order[at - 1]].ratio < s->next[t].ratio) {
            s->order[at] = s->order[at - 1];
            at--;
        }
        s->order[at] = t;
    }
    return n;
}

// Full rows: another target's change can make this one's category, so what it says is weighed
// against that. The strongest evidence is taken first; whatever follows may be explained by it.
static void update_explained(pf_session *s, int probe, int n_targets)
{
    const pf_kit *k = s->kit;
    int first = k->probe_target[probe], n = sort_targets(s, n_targets);
    size_t bins = (size_t)k->n_bins;
    for (int t = 0; t < n_targets; t++) {
        s->target_belief[t] = s->belief[s->next[t].mechanism];
    }
    for (int i = 0; i < n; i++) {
        int t = s->order[i], j = s->next[t].mechanism - 1;
        size_t category = (size_t)s->next[t].category;
        pf_channel_row own = pf__kit_channel(k, first + t);
        const double *given =
            k->cross + k->probe_cross[probe] + (size_t)t * (size_t)n_targets * bins + category;
        double ratio = pf__odds_explained_ratio(own.nominal[category], own.changed[category],
                                                n_targets, t, given, bins, s->target_belief);
        s->new_odds[j] = pf__odds_update(s->odds[j], ratio);
        s->target_belief[t] = pf__odds_probability(s->new_odds[j]);
    }
}

void pf__session_update_odds(pf_session *s, int probe, int n_targets)
{
    memcpy(s->new_odds, s->odds, sizeof(double) * (size_t)s->m);
    if (s->kit->probe_cross[probe] >= 0) {
        update_explained(s, probe, n_targets);
    } else {
        for (int t = 0; t < n_targets; t++) {
            int j = s->next[t].mechanism - 1;
            s->new_odds[j] = pf__odds_update(s->odds[j], s->next[t].ratio);
        }
    }
    pf__odds_belief(s->m, s->new_odds, s->new_belief);
}

// Whether some machine of the model could have answered like this: a signature of the usual size,
// little that no signature explains, and an amplitude between healthy and dead, each with a wide
// margin. A frozen or wild sensor fails here instead of counting as healthy. Kits of the paper's
// suites set no limits.
static bool plausible(const pf_session *s, int probe, int target, const pf_match *match, double z)
{
    const pf_kit *k = s->kit;
    if (k->statistic == PF_STATISTIC_NORM || !s->rules.field) {
        return true;
    }
    double slack = PF_AMPLITUDE_SLACK + PF_AMPLITUDE_SIGMAS * k->sigma[target],
           dead = pf__severity_line(0, k->g_cal);
    return match->size >= PF_SIGNATURE_SHARE * k->signature[target] &&
           match->off <= k->off_limit[probe] && z >= -slack && z <= dead + slack;
}

// Turns matches into readings (category, coordinate, gate) and the new belief, all in scratch.
static pf_status read_matches(pf_session *s, int probe, const int32_t *targets, int n_targets,
                              pf_error *error)
{
    const pf_kit *k = s->kit;
    for (int i = 0; i <= s->m; i++) {
        s->ratios[i] = 1;
    }
    for (int t = 0; t < n_targets; t++) {
        int at = k->probe_target[probe] + t;
        const pf_match *match = &s->matches[t];
        pf_reading *out = &s->next[t];
        *out = (pf_reading){targets[t], match->usable, NAN, -1, NAN, false, 1, true};
        if (!match->usable) {
            continue;
        }
        if (!isfinite(match->score)) {
            return pf_fail(error, PF_ERR_NONFINITE,
                           "response: the score of mechanism %d is not finite (values too large)",
                           (int)targets[t]);
        }
        pf_channel_row row = pf__kit_channel(k, at);
        out->score = match->score;
        double z = pf__evidence_coordinate(k, probe, t, match);
        out->plausible = plausible(s, probe, at, match, z);
        if (!out->plausible) {
            out->usable = false;
            continue;
        }
        out->category = pf__channel_category(&row, match->score);
        out->coordinate = z;
        out->gate = pf__gate_open(&row, out->category) || !s->method->gate;
        out->gate = out->gate && isfinite(out->coordinate);
        out->ratio = pf__channel_ratio(&row, out->category);
        if (k->probe_cross[probe] < 0 || pf__session_many(s)) {
            s->ratios[targets[t]] *= out->ratio;
            continue;
        }
        pf__session_full_rows(s, probe, t);
        for (int i = 1; i <= s->m; i++) {
            s->ratios[i] *= s->rows[i][out->category] / s->rows[0][out->category];
        }
    }
    if (pf__session_many(s)) {
        pf__session_update_odds(s, probe, n_targets);
    } else {
        memcpy(s->new_belief, s->belief, sizeof(double) * (size_t)(s->m + 1));
        pf__belief_multiply_all(s->m, s->new_belief, s->ratios);
    }
    for (int i = 0; i <= s->m; i++) {
        if (!isfinite(s->new_belief[i])) {
            return pf_fail(error, PF_ERR_INTERNAL, "the belief is not finite any more");
        }
    }
    return PF_OK;
}

// A probe that twice gave what no machine of the model gives is not asked again in this session, so
// that the others still get their turn.
static void give_up(pf_session *s, int probe)
{
    s->implausible[probe]++;
    s->skipped[probe] = s->skipped[probe] || s->implausible[probe] >= PF_IMPLAUSIBLE_MAX;
}

static double change_of(const pf_session *s)
{
    return pf__session_many(s) ? pf__odds_change(s->m, s->odds)
                               : pf__belief_change(s->m, s->belief);
}

// Accepts the readings in scratch. The severity is written here and read nowhere in stage 1.
static void accept_readings(pf_session *s, int probe, int n_targets)
{
    const pf_kit *k = s->kit;
    memcpy(s->belief, s->new_belief, sizeof(double) * (size_t)(s->m + 1));
    if (pf__session_many(s)) {
        memcpy(s->odds, s->new_odds, sizeof(double) * (size_t)s->m);
    }
    memcpy(s->readings, s->next, sizeof(pf_reading) * (size_t)n_targets);
    s->n_readings = n_targets;
    for (int t = 0; t < n_targets; t++) {
        const pf_reading *r = &s->readings[t];
        int at = k->probe_target[probe] + t, j = r->mechanism - 1;
        if (!r->usable) {
            continue;
        }
        // an answer as likely from a weak as from a healthy machine is no look
        s->probed[r->mechanism] =
            s->probed[r->mechanism] || fabs(log(r->ratio)) > PF_PROBED_LOG_RATIO;
        s->own_evidence[j] = fmax(0, s->own_evidence[j] + log(r->ratio));
        s->own_readings[j]++;
        if (r->gate) {
            const double *expected =
                k->n_curve > 0 ? k->curve + (size_t)at * (size_t)s->n_grid : s->expected;
            pf__severity_update(s->n_grid, s->severity + (size_t)j * (size_t)s->n_grid, expected,
                                r->coordinate, k->sigma[at]);
            s->beyond[j] += (r->coordinate - expected[0]) / k->sigma[at];
            s->admitted[j]++;
        }
    }
    bool learned = false;
    for (int t = 0; t < n_targets; t++) {
        learned = learned || s->readings[t].usable;
        if (!s->readings[t].plausible) {
            give_up(s, probe);
            break;
        }
    }
    if (!learned) {
        return;
    }
    double change = change_of(s);
    s->peak = change > s->peak ? change : s->peak;
    if (!s->alarm && change > s->threshold) {
        s->alarm = true;
        s->alarm_opportunity = s->opportunities - 1;
    }
}

// Whether every probability is one: with one fault they sum to 1, with several each row is below.
static bool proper(const pf_joint *joint)
{
    double sum = joint->nominal;
    for (int j = 1; j <= joint->m; j++) {
        double changed = pf_joint_moments(joint, j).changed;
        if (!(changed >= 0 && changed < 1 + PF_SUM_SLACK)) {
            return false;
        }
        sum += changed;
    }
    return joint->faults == PF_FAULTS_MANY || fabs(sum - 1) < PF_SUM_SLACK;
}

// A recovery probe of a field kit: the location belief and the alarm stay as they are.
static void accept_recovery(pf_session *s, int probe, int n_targets)
{
    bool implausible = false;
    for (int t = 0; t < n_targets; t++) {
        const pf_reading *r = &s->next[t];
        implausible = implausible || !r->plausible;
        s->probed[r->mechanism] =
            s->probed[r->mechanism] || (r->usable && fabs(log(r->ratio)) > PF_PROBED_LOG_RATIO);
    }
    s->n_readings = 0;
    if (implausible) {
        give_up(s, probe);
    }
}

// Reads s->matches and accepts them.
static pf_status take_matches(pf_session *s, int probe, pf_error *error)
{
    const int32_t *targets = NULL;
    int n_targets = pf_kit_probe_targets(s->kit, probe, &targets);
    pf_status status = read_matches(s, probe, targets, n_targets, error);
    if (status == PF_OK) {
        accept_readings(s, probe, n_targets);
    }
    return status;
}

static pf__evidence *gather(pf_session *s, const pf_tell *tell, const pf_predictor *predictor)
{
    pf__evidence *e = s->evidence;
    pf__evidence_set(e, s->kit, tell->probe);
    e->predictor = predictor ? *predictor : pf__recorded_predictor(s->kit);
    e->start = tell->start;
    e->n_start = tell->n_start;
    e->others = pf_session_others(s);
    return e;
}

static pf_status tell_stage1(pf_session *s, const pf_tell *tell, const pf_predictor *predictor,
                             pf_error *error)
{
    pf_status status =
        pf__evidence_read(gather(s, tell, predictor), tell->response, s->matches, error);
    return status == PF_OK ? take_matches(s, tell->probe, error) : status;
}

// --- a look of a field kit, in either stage: the joint posterior and the misfit

// Coordinates of the look from the readings in scratch. False: no machine of the model answers like
// this. A target whose signature the start state hides says nothing, which is no fault of the
// response.
static bool take_coordinates(pf_session *s, int probe, int n_targets)
{
    const pf_kit *k = s->kit;
    bool good = true;
    for (int t = 0; t < n_targets; t++) {
        const pf_match *match = &s->matches[t];
        bool hidden = !match->usable || !pf__evidence_shows(k, probe, t, match);
        s->z[t] = s->next[t].usable ? s->next[t].coordinate : NAN;
        bool wild = match->usable && !(match->off <= k->off_limit[probe]);
        good = good && !wild && (hidden || s->next[t].plausible);
    }
    return good;
}

// What the look at hand adds to the squared distance of a mechanism at a gain (-1: healthy), of
// which it has target t (-1: none). With several faults a look says nothing of others than its
// targets.
static double look_distance(const pf_session *s, int t, int gain)
{
    if (t < 0 || gain < 0) {
        bool many = pf__session_many(s);
        return !many ? s->look.q_healthy[0] : t >= 0 ? s->look.q_healthy[t] : 0;
    }
    return s->look.q_gain[t * PF_POSTERIOR_GAINS + gain];
}

// Adds the squared distances of the look at hand.
static void add_distances(pf_session *s)
{
    int n = PF_POSTERIOR_GAINS;
    if (!pf__session_many(s)) {
        s->q_healthy[0] += look_distance(s, -1, -1);
    }
    for (int j = 1; j <= s->m; j++) {
        int t = pf__look_target(&s->look, s->kit, j);
        s->q_healthy[j - 1] += pf__session_many(s) ? look_distance(s, t, -1) : 0;
        for (int g = 0; g < n; g++) {
            s->q_gain[(j - 1) * n + g] += look_distance(s, t, g);
        }
    }
    s->n_z += s->look.n_z;
}

// Squared distance over all looks at the likeliest hypothesis.
static double likeliest_distance(const pf_session *s)
{
    int n = PF_POSTERIOR_GAINS;
    const pf_joint *joint = &s->joint;
    double most = joint->nominal, q = s->q_healthy[0], all = 0;
    for (int j = 1; j <= s->m; j++) {
        const double *mass = joint->mass + (j - 1) * n;
        if (pf__session_many(s)) {
            most = 1 - pf_joint_moments(joint, j).changed;
            q = s->q_healthy[j - 1];
        }
        for (int g = 0; g < n; g++) {
            if (mass[g] > most) {
                most = mass[g];
                q = s->q_gain[(j - 1) * n + g];
            }
        }
        all += q;
    }
    return pf__session_many(s) ? all : q;
}

// Readings, posterior and misfit of one look, all in scratch until nothing can fail any more.
static pf_status tell_look(pf_session *s, const pf_tell *tell, const pf_predictor *predictor,
                           pf_error *error)
{
    pf__evidence *e = gather(s, tell, predictor);
    pf_status status = pf__evidence_read(e, tell->response, s->matches, error);
    if (status == PF_OK) {
        status = read_matches(s, tell->probe, e->targets, e->n_targets, error);
    }
    if (status != PF_OK) {
        return status;
    }
    pf_joint *next = &s->boundary;
    size_t bytes = sizeof(double) * (size_t)s->m * PF_POSTERIOR_GAINS;
    bool good = take_coordinates(s, tell->probe, e->n_targets);
    s->look.probe = tell->probe;
    s->look.n_targets = e->n_targets;
    s->look.targets = e->targets;
    pf__look_weigh(&s->look, s->kit, s->between);
    bool counts = good && s->look.n_z > 0;
    if (counts) {
        const double *predicted = NULL;
        next->nominal = s->joint.nominal;
        memcpy(next->mass, s->joint.mass, bytes);
        pf__posterior_update(next, &s->look, s->kit);
        if (s->kit->n_misfit > 0) {
            status = pf__misfit_predict(s->kit, &s->look, e, s->others, &predicted, error);
        }
        if (status == PF_OK && !proper(next)) {
            status = pf_fail(error, PF_ERR_NONFINITE, "response: the posterior is not finite");
        }
        if (status == PF_OK && predicted) {
            pf__misfit_channels(s->kit, tell->probe, tell->response, predicted, s->u);
        }
    }
    if (status != PF_OK) {
        return status;
    }
    if (s->stage == PF_STAGE_LOOK) {
        accept_readings(s, tell->probe, e->n_targets);
    } else {
        accept_recovery(s, tell->probe, e->n_targets);
    }
    s->misfit.implausible += !good;
    if (counts) {
        add_distances(s);
        s->joint.nominal = next->nominal;
        memcpy(s->joint.mass, next->mass, bytes);
        if (s->kit->n_misfit > 0) {
            double shape = pf__misfit_shape(likeliest_distance(s), s->n_z);
            pf__misfit_add(&s->misfit, s->kit->n_chan, s->u, shape, s->told + 1);
        }
    }
    return PF_OK;
}

// --- stage 2: from distances to the joint belief

const double *pf_session_others(pf_session *s)
{
    if (s->stage != PF_STAGE_RECOVER || s->posterior || !pf__session_many(s)) {
        return NULL;
    }
    s->others[0] = 1;
    for (int j = 1; j <= s->m; j++) {
        s->others[j] = pf_joint_moments(&s->joint, j).mean;
    }
    return s->others;
}

// The distances of a probe. With one fault: nominal, then each target at each grid gain. With
// several: each target healthy and then at each grid gain, the others at their mean gain.
static int n_distances(const pf_session *s, int n_targets)
{
    return pf__session_many(s) ? n_targets * (1 + s->n_grid) : 1 + n_targets * s->n_grid;
}

static double *at_healthy(const pf_session *s, int target)
{
    return s->distance + (pf__session_many(s) ? target * (1 + s->n_grid) : 0);
}

static double *at_gains(const pf_session *s, int target)
{
    return pf__session_many(s) ? at_healthy(s, target) + 1
                               : s->distance + 1 + (size_t)target * (size_t)s->n_grid;
}

// Whether the predictions for a target differ enough from the nominal one, so that
// the response says something about it.
static bool shows(const pf_session *s, int probe, int target)
{
    return !s->rules.field || pf__evidence_shows(s->kit, probe, target, &s->matches[target]);
}

// Makes the other targets say nothing: at every gain as far away as healthy. False: none shows.
static bool silence_unseen(pf_session *s, int probe, int n_targets)
{
    bool any = false;
    for (int t = 0; t < n_targets; t++) {
        bool seen = shows(s, probe, t);
        for (int g = 0; g < s->n_grid && !seen; g++) {
            at_gains(s, t)[g] = *at_healthy(s, t);
        }
        any = any || seen;
    }
    return any;
}

// Whether even the nearest hypothesis is farther than any calibration episode was: nothing is
// learned from what no machine of the model gives.
static bool too_far(const pf_session *s, int probe, int n)
{
    double least = s->distance[0];
    for (int i = 1; i < n; i++) {
        least = s->distance[i] < least ? s->distance[i] : least;
    }
    return s->rules.field && sqrt(least) > s->kit->distance_limit[probe];
}

// The joint belief after s->distance, in scratch first.
static pf_status update_joint(pf_session *s, int n_targets, const int32_t *targets,
                              double temperature, pf_error *error)
{
    pf_joint *next = &s->boundary;
    size_t bytes = sizeof(double) * (size_t)s->m * (size_t)s->n_grid;
    const double *d = s->distance;
    next->nominal = s->joint.nominal;
    memcpy(next->mass, s->joint.mass, bytes);
    if (pf__session_many(s)) {
        pf__joint_update_each(next, n_targets, (const int *)targets, d, temperature);
    } else {
        pf__joint_update(next, n_targets, (const int *)targets, d[0], d + 1, temperature);
    }
    if (!proper(next)) {
        return pf_fail(error, PF_ERR_NONFINITE, "response: the joint belief would not be finite");
    }
    s->joint.nominal = next->nominal;
    memcpy(s->joint.mass, next->mass, bytes);
    return PF_OK;
}

// The update of stage 2 from s->distance and the sizes in s->matches.
static pf_status take_distances(pf_session *s, int probe, pf_error *error)
{
    const int32_t *targets = NULL;
    int n_targets = pf_kit_probe_targets(s->kit, probe, &targets), n = n_distances(s, n_targets);
    bool seen = silence_unseen(s, probe, n_targets);
    double temperature =
        pf__temperature(s->distance[0], n - 1, s->distance + 1, s->kit->temperature);
    if (seen && !isfinite(temperature)) {
        return pf_fail(error, PF_ERR_NONFINITE, "response: too far from every prediction");
    }
    if (!seen || too_far(s, probe, n)) {
        s->n_readings = 0;
        give_up(s, probe);
        return PF_OK;
    }
    pf_status status = update_joint(s, n_targets, targets, temperature, error);
    if (status != PF_OK) {
        return status;
    }
    // a target whose distances hardly differ was not probed
    for (int t = 0; t < n_targets; t++) {
        for (int g = 0; g < s->n_grid; g++) {
            bool differs =
                shows(s, probe, t) && fabs(at_gains(s, t)[g] - *at_healthy(s, t)) >= temperature;
            s->probed[targets[t]] = s->probed[targets[t]] || differs;
        }
    }
    s->n_readings = 0;
    return PF_OK;
}

// The distance with a mechanism healthy (0: all of them).
static pf_status measure_healthy(pf__evidence *e, const double *response, int mechanism, double *d,
                                 pf_error *error)
{
    pf_status status = pf__evidence_distance(e, response, mechanism, 1, d, error);
    if (status == PF_OK) {
        memcpy(e->nominal, e->predicted, sizeof(double) * (size_t)(e->rows * e->n_chan));
    }
    return status;
}

// One counterfactual at a time, so a board needs room for one prediction only.
static pf_status tell_stage2(pf_session *s, const pf_tell *tell, const pf_predictor *predictor,
                             pf_error *error)
{
    pf__evidence *e = gather(s, tell, predictor);
    bool many = pf__session_many(s);
    pf_status status = pf__evidence_finite(e, "response", tell->response, error);
    for (int t = 0; t < e->n_targets && status == PF_OK; t++) {
        if (t == 0 || many) {
            status = measure_healthy(e, tell->response, many ? e->targets[t] : 0, at_healthy(s, t),
                                     error);
        }
        for (int g = 0; g < s->n_grid && status == PF_OK; g++) {
            status = pf__evidence_distance(e, tell->response, e->targets[t], s->kit->grid[g],
                                           &at_gains(s, t)[g], error);
            if (g == 0 && status == PF_OK) {
                s->matches[t].size = pf__evidence_size(e); // the weakest gain shows most
            }
        }
    }
    return status == PF_OK ? take_distances(s, tell->probe, error) : status;
}

// --- tell

static pf_status rehearsal_check(const pf_session *s, const pf_tell *tell, pf_error *error)
{
    bool same = tell->probe < 0 && tell->n_tasks == s->ask.n_tasks && tell->tasks;
    for (int i = 0; same && i < tell->n_tasks; i++) {
        same = tell->tasks[i] == s->ask.tasks[i];
    }
    if (!same) {
        return pf_fail(error, PF_ERR_PROBE,
                       "rehearsal: of %d tasks from '%s' on was asked for, %s was told",
                       s->ask.n_tasks, pf_kit_task_name(s->kit, s->ask.tasks[0]),
                       tell->probe >= 0 ? "a probe" : "another");
    }
    return PF_OK;
}

static pf_status tell_check(const pf_session *s, const pf_tell *tell, pf_error *error)
{
    bool rehearsal = s->stage == PF_STAGE_REHEARSE;
    if (s->stage == PF_STAGE_DONE) {
        return pf_fail(error, PF_ERR_STAGE, "tell: the session is done");
    }
    if (!s->outstanding) {
        return pf_fail(error, PF_ERR_PROBE, "tell: no %s is outstanding; ask first",
                       rehearsal ? "rehearsal" : "probe");
    }
    if (!rehearsal && tell->probe != s->ask.probe) {
        return pf_fail(error, PF_ERR_PROBE, "probe: %d was told, %d was asked for", tell->probe,
                       s->ask.probe);
    }
    pf_status status = rehearsal ? rehearsal_check(s, tell, error) : PF_OK;
    if (status != PF_OK) {
        return status;
    }
    if (!tell->response) {
        return pf_fail(error, PF_ERR_ARGUMENT, "response: there is none");
    }
    if (tell->rows != s->ask.rows || tell->channels != s->kit->n_chan) {
        return pf_fail(error, PF_ERR_SHAPE, "response: %d rows of %d channels, expected %d of %d",
                       tell->rows, tell->channels, s->ask.rows, (int)s->kit->n_chan);
    }
    return PF_OK;
}

static void close_probe(pf_session *s)
{
    pf__session_forget_answers(s);
    s->charge += s->stage == PF_STAGE_REHEARSE ? PF_REHEARSAL_CHARGE * s->ask.rows
                                               : s->kit->charge[s->ask.probe];
    s->told++;
    s->rehearsed += s->stage == PF_STAGE_REHEARSE;
    s->outstanding = false;
    advance(s);
}

pf_status pf_session_tell_evidence(pf_session *s, const pf_evidence *e, pf_error *error)
{
    bool stage2 = s->stage == PF_STAGE_RECOVER;
    if (s->stage >= PF_STAGE_REHEARSE || !s->outstanding) {
        return pf_fail(error, PF_ERR_STAGE, "no probe is outstanding; ask first");
    }
    if (s->posterior) {
        return pf_fail(error, PF_ERR_STAGE, "a field kit needs the response itself");
    }
    if (stage2 && pf__session_many(s)) {
        return pf_fail(error, PF_ERR_STAGE,
                       "with several faults stage 2 needs the response itself");
    }
    if (stage2 ? !e->d || (s->rules.field && !e->size) : !e->match) {
        return pf_fail(error, PF_ERR_ARGUMENT, "evidence: there is none for stage %d", s->stage);
    }
    size_t n_targets = (size_t)pf_kit_probe_targets(s->kit, s->ask.probe, NULL);
    if (stage2) {
        s->distance[0] = e->d_nominal;
        memcpy(s->distance + 1, e->d, sizeof *e->d * n_targets * (size_t)s->n_grid);
    } else {
        memcpy(s->matches, e->match, sizeof *e->match * n_targets);
    }
    for (size_t t = 0; stage2 && e->size && t < n_targets; t++) {
        s->matches[t].size = e->size[t];
    }
    pf_status status =
        stage2 ? take_distances(s, s->ask.probe, error) : take_matches(s, s->ask.probe, error);
    if (status == PF_OK) {
        close_probe(s);
    }
    return status;
}

pf_status pf_session_tell(pf_session *s, const pf_tell *tell, const pf_predictor *predictor,
                          pf_error *error)
{
    pf_status status = tell_check(s, tell, error);
    if (status == PF_OK) {
        status = s->stage == PF_STAGE_REHEARSE
                     ? pf__session_tell_rehearsal(s, tell, predictor, error)
                 : s->posterior              ? tell_look(s, tell, predictor, error)
                 : s->stage == PF_STAGE_LOOK ? tell_stage1(s, tell, predictor, error)
                                             : tell_stage2(s, tell, predictor, error);
    }
    if (status != PF_OK) {
        return status;
    }
    close_probe(s);
    return PF_OK;
}

// --- read access

const pf_kit *pf_session_kit(const pf_session *s)
{
    return s->kit;
}

const pf_method *pf_session_method(const pf_session *s)
{
    return s->method;
}

pf_session_state pf_session_get_state(const pf_session *s)
{
    bool shape = s->posterior && s->kit->n_misfit > 0 &&
                 s->misfit.shape / s->kit->misfit_shape > s->misfit.chan / s->kit->misfit_chan;
    return (pf_session_state){
        .stage = s->stage,
        .told = s->told,
        .rehearsals = s->rehearsed,
        .opportunities = s->opportunities,
        .charge = s->charge,
        .alarm = s->alarm,
        .alarm_opportunity = s->alarm_opportunity,
        .threshold = s->threshold,
        .change = change_of(s),
        .peak = s->peak,
        .named = pf__session_named(s),
        .doubt = pf__session_doubt(s),
        .explained = pf__session_explained(s),
        .misfit = pf__misfit_level(s),
        .misfit_channel = shape || !s->posterior ? -1 : s->misfit.channel,
        .misfit_look = shape ? s->misfit.shape_look : s->misfit.look,
        .implausible = s->misfit.implausible,
        .per_gain = s->stage == PF_STAGE_RECOVER && !s->posterior,
    };
}

const double *pf_session_belief(const pf_session *s)
{
    return s->belief;
}

const double *pf_session_severity(const pf_session *s)
{
    return s->severity;
}

const pf_reading *pf_session_readings(const pf_session *s, int *n)
{
    *n = s->n_readings;
    return s->readings;
}

bool pf_session_rehearsed(const pf_session *s, double *distance)
{
    if (distance) {
        *distance = s->rehearsed_distance;
    }
    return s->rehearsed_passed;
}

bool pf_session_probed(const pf_session *s, int mechanism)
{
    return mechanism >= 0 && mechanism <= s->m && s->probed[mechanism];
}

const char *pf_done_name(pf_done done)
{
    switch (done) {
#define X(code, name)                                                                              \
    case code:                                                                                     \
        return name;
        PF_DONE_LIST(X)
#undef X
    }
    return "unknown";
}
