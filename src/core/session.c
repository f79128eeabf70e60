// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "session_impl.h"

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

static void lay_out(pf_session *s, layout *l, const pf_kit *k)
{
    size_t m = (size_t)k->n_mech - 1, grid = (size_t)k->n_grid, probes = (size_t)k->n_probes;
    size_t targets = (size_t)pf_kit_most_targets(k);
    size_t window = (size_t)pf_kit_most_rows(k) * (size_t)k->n_chan;
    size_t hypotheses = 1 + (size_t)most_uses(k) * (grid + 1), d = sizeof(double);
    s->belief = take(l, m + 1, d);
    s->odds = take(l, m, d);
    s->severity = take(l, m * grid, d);
    s->joint.mass = take(l, m * grid, d);
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
    s->boundary.mass = take(l, m * grid, d);
    s->next = take(l, targets, sizeof(pf_reading));
    s->matches = take(l, targets, sizeof(pf_match));
    s->inverse = take(l, window, d);
    pf__evidence unused, *e = s->evidence = take(l, 1, sizeof *e);
    e = e ? e : &unused;
    e->nominal = take(l, window, d);
    e->predicted = take(l, window, d);
    e->residual = take(l, window, d);
    e->signatures = take(l, targets * window, d);
    e->scratch = take(l, pf_match_scratch((int)targets), d);
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
}

size_t pf_session_size(const pf_kit *kit)
{
    if (pf_kit_check(kit, NULL) != PF_OK) {
        return 0;
    }
    layout measure = {NULL, 0};
    pf_session nowhere;
    take(&measure, 1, sizeof nowhere);
    lay_out(&nowhere, &measure, kit);
    return measure.used <= SIZE_MAX / 2 ? measure.used : 0;
}

pf_session_config pf_session_config_default(void)
{
    return (pf_session_config){NULL, 0};
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
    s->most_targets = pf_kit_most_targets(kit);
    s->window = pf_kit_most_rows(kit) * kit->n_chan;
    s->seed = config ? config->seed : 0;
    s->joint = s->boundary =
        (pf_joint){s->m, kit->n_grid, kit->grid, 0, NULL, (pf_faults)kit->faults};
    lay_out(s, &l, kit);
    status = find_method(s, config ? config->method : NULL, error);
    if (status != PF_OK) {
        return status;
    }
    if (l.used > bytes) {
        return pf_fail(error, PF_ERR_INTERNAL, "session layout used %z of %z bytes", l.used, bytes);
    }
    for (int i = 0; i < s->window; i++) {
        s->inverse[i] = 1 / kit->scale[kit->n_scale > 1 ? i : i % kit->n_chan];
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
    s->opportunities = s->recoveries = s->told = s->n_readings = 0;
    s->charge = s->peak = 0;
    s->alarm = false;
    s->alarm_opportunity = -1;
    pf_rng_init(&s->rng, pf_key_derive(pf_key_root(s->seed), PF_PURPOSE_METHOD));
    memcpy(s->belief, k->prior, sizeof(double) * (size_t)(s->m + 1));
    if (pf__session_many(s)) {
        pf_odds_reset(s->m, k->prior, s->odds);
        pf_odds_belief(s->m, s->odds, s->belief);
    }
    for (int i = 0; i < s->m; i++) {
        pf_severity_reset(s->n_grid, s->severity + (size_t)i * (size_t)s->n_grid);
        s->own_evidence[i] = 0;
        s->beyond[i] = 0;
        s->admitted[i] = 0;
        s->own_readings[i] = 0;
    }
    memset(s->probed, 0, sizeof(bool) * (size_t)(s->m + 1));
    memset(s->skipped, 0, sizeof(bool) * (size_t)k->n_probes);
    memset(s->implausible, 0, sizeof(int) * (size_t)k->n_probes);
    for (int g = 0; g < s->n_grid; g++) {
        s->expected[g] = pf_severity_line(k->grid[g], k->g_cal);
    }
    if (s->method->rule == PF_RULE_SCHEDULE) {
        pf__session_make_schedule(s);
    }
    pf__session_forget_answers(s);
}

pf_ask pf_session_ask(pf_session *s)
{
    if (s->stage == 3) {
        return (pf_ask){PF_ASK_DONE, 0, -1, 0, false, 0, s->done};
    }
    if (!s->outstanding) {
        pf__session_forget_answers(s);
        if (s->stage == 1) {
            pf__session_open_opportunity(s);
        } else {
            pf__session_open_recovery(s);
        }
        s->ask.rows = pf_kit_probe_rows(s->kit, s->ask.probe);
        s->outstanding = true;
    }
    return s->ask;
}

bool pf_session_outstanding(const pf_session *s, pf_ask *ask)
{
    if (ask && s->outstanding) {
        *ask = s->ask;
    }
    return s->stage != 3 && s->outstanding;
}

// --- stages

static void finish(pf_session *s, pf_done why)
{
    s->stage = 3;
    s->done = why;
}

void pf__session_boundary(const pf_session *s, pf_joint *joint)
{
    if (s->method->transport) {
        pf_joint_transport(joint, s->belief, s->severity);
    } else {
        pf_joint_broad(joint, s->belief);
    }
}

// The boundary: from here on only the joint belief is read and written.
static void enter_stage2(pf_session *s)
{
    pf__session_boundary(s, &s->joint);
    s->stage = 2;
    if (!s->alarm) {
        finish(s, PF_DONE_NO_ALARM);
    } else if (s->recoveries >= s->kit->budget2 || pf__session_available(s) == 0) {
        finish(s, PF_DONE_BUDGET);
    }
}

// After every response or skip: is this stage over?
void pf__session_advance(pf_session *s)
{
    const pf_kit *k = s->kit;
    if (s->stage == 1) {
        bool stop = s->alarm && k->stop == PF_STOP_BREAK;
        bool ready = k->field && pf__session_all_go(s);
        if (stop || ready || s->opportunities >= k->budget1 || pf__session_available(s) == 0) {
            enter_stage2(s);
        }
        if (ready) {
            finish(s, PF_DONE_READY);
        }
    } else if (s->stage == 2) {
        if (k->field && pf__session_all_go(s)) {
            finish(s, PF_DONE_READY);
        } else if (s->recoveries >= k->budget2 || pf__session_available(s) == 0) {
            finish(s, PF_DONE_BUDGET);
        }
    }
}

pf_status pf_session_skip(pf_session *s, pf_error *error)
{
    if (s->stage == 3) {
        return pf_fail(error, PF_ERR_STAGE, "skip: the session is done");
    }
    if (!s->outstanding) {
        return pf_fail(error, PF_ERR_PROBE, "skip: no probe is outstanding; ask first");
    }
    pf__session_forget_answers(s);
    s->skipped[s->ask.probe] = true;
    s->outstanding = false;
    pf__session_advance(s);
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

int pf_session_stage(const pf_session *s)
{
    return s->stage;
}

double pf_session_charge(const pf_session *s)
{
    return s->charge;
}

int pf_session_told(const pf_session *s)
{
    return s->told;
}

int pf_session_opportunities(const pf_session *s)
{
    return s->opportunities;
}

bool pf_session_alarm(const pf_session *s)
{
    return s->alarm;
}

int pf_session_alarm_opportunity(const pf_session *s)
{
    return s->alarm_opportunity;
}

double pf_session_threshold(const pf_session *s)
{
    return s->threshold;
}

double pf_session_peak(const pf_session *s)
{
    return s->peak;
}

const double *pf_session_belief(const pf_session *s)
{
    return s->belief;
}

double pf_session_change(const pf_session *s)
{
    return pf__session_many(s) ? pf_odds_change(s->m, s->odds) : pf_belief_change(s->m, s->belief);
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
