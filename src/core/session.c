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
    s->rehearsal_work = take(l, k->n_blind ? rows * chan : 0, d);
    if (gains == 0) {
        return;
    }
    s->q_healthy = take(l, m, d);
    s->q_gain = take(l, m * gains, d);
    if (k->faults == PF_FAULTS_MANY) {
        s->joint.healthy = take(l, m, d);
        s->boundary.healthy = take(l, m, d);
    }
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
    s->sent = take(l, m + 1, d);
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
    return (pf_session_config){NULL, 0, NULL, NULL};
}

static pf_status find_method(pf_session *s, const char *id, const pf_method *own, pf_error *error)
{
    id = own ? own->id : id;
    if (own && (own->rule != PF_RULE_OWN || !own->choose || !id ||
                (int)own->statistic != s->kit->statistic)) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "a method of yours needs an id, the kit's statistic and a function that "
                       "chooses");
    }
    for (int i = 0; i < s->kit->n_methods; i++) {
        const char *have = pf_kit_method_id(s->kit, i);
        if (!id || strcmp(have, id) == 0) {
            s->method = own ? own : pf_method_find(have);
            s->threshold = s->kit->threshold[i];
            return s->method ? PF_OK
                             : pf_fail(error, PF_ERR_MISMATCH,
                                       "method '%s' of the kit is not known here", have);
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
    status = find_method(s, config ? config->method : NULL, config ? config->own : NULL, error);
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
    pf_status status = stage2 ? pf__session_take_distances(s, s->ask.probe, error)
                              : pf__session_take_matches(s, s->ask.probe, error);
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
                 : s->posterior              ? pf__session_tell_look(s, tell, predictor, error)
                 : s->stage == PF_STAGE_LOOK ? pf__session_tell_stage1(s, tell, predictor, error)
                                             : pf__session_tell_stage2(s, tell, predictor, error);
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
        .change = pf__session_change(s),
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
