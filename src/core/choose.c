// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "session_impl.h"
#include "method.h"

void pf__session_full_rows(pf_session *s, int probe, int target)
{
    const pf_kit *k = s->kit;
    int first = k->probe_target[probe], n = k->probe_target[probe + 1] - first;
    pf_channel_row own = pf__kit_channel(k, first + target);
    for (int i = 0; i <= s->m; i++) {
        s->rows[i] = own.nominal;
    }
    const double *cross =
        k->cross + k->probe_cross[probe] + (size_t)target * (size_t)n * (size_t)k->n_bins;
    for (int other = 0; other < n; other++) {
        int mechanism = k->target_mech[first + other];
        s->rows[mechanism] =
            other == target ? own.changed : cross + (size_t)other * (size_t)k->n_bins;
    }
}

// Full rows make a look at one target speak about the others; with several faults the value of a
// look is what it says about its own target.
static bool full_rows(const pf_session *s, int probe)
{
    return s->kit->probe_cross[probe] >= 0 && !pf__session_many(s);
}

// Values of all targets of a probe added, before division by the charge.
static double probe_value(pf_session *s, int probe)
{
    const pf_kit *k = s->kit;
    double value = 0;
    for (int t = k->probe_target[probe]; t < k->probe_target[probe + 1]; t++) {
        if (full_rows(s, probe) && s->method->value == pf__value_bayes_risk) {
            pf__session_full_rows(s, probe, t - k->probe_target[probe]);
            value +=
                pf__risk_reduction_plain(s->m, s->belief, k->weight, k->n_bins, s->rows, s->ratios);
            continue;
        }
        pf_channel_row row = pf__kit_channel(k, t);
        int j = k->target_mech[t];
        pf_look look = {.m = s->m,
                        .belief = s->belief,
                        .weight = k->weight,
                        .terms = &s->terms,
                        .g_cal = k->g_cal,
                        .mechanism = j,
                        .row = &row,
                        .own_evidence = s->own_evidence[j - 1],
                        .own_readings = s->own_readings[j - 1],
                        .opportunity = s->opportunities};
        value += s->method->value(&look);
    }
    return value;
}

// Value per charge as it is compared; an arm never tried stands above all, whatever it costs.
static double per_charge_exact(double value, double charge)
{
    return value >= PF_BANDIT_UNVISITED ? PF_BANDIT_UNVISITED : value / charge;
}

static double per_charge(double value, double charge)
{
    return pf__tie_round(per_charge_exact(value, charge));
}

// Whether a value beats the best so far once both are rounded. Rounding keeps the order, so it is
// needed only where the two are close.
static bool beats(double value, double best)
{
    return value > best + 2 / PF_TIE_UNITS ||
           (value > best && pf__tie_round(value) > pf__tie_round(best));
}

int pf__session_available(const pf_session *s)
{
    int n = 0;
    for (int q = 0; q < s->kit->n_probes; q++) {
        n += !s->skipped[q];
    }
    return n;
}

static bool looks_at_new(const pf_session *s, int probe)
{
    const pf_kit *k = s->kit;
    for (int t = k->probe_target[probe]; t < k->probe_target[probe + 1]; t++) {
        if (!s->probed[k->target_mech[t]]) {
            return true;
        }
    }
    return false;
}

// Marks the probes that may be asked for. After an alarm the risk stays with the mechanism that
// raised it, and the rest of the machine would be left unprobed and so blocked: where that
// matters (a field kit), probes with a target not yet probed go first.
static int mark_eligible(pf_session *s)
{
    int n_new = 0, n = 0;
    bool new_first = s->stage == PF_STAGE_LOOK && s->alarm && s->rules.field;
    for (int q = 0; new_first && q < s->kit->n_probes; q++) {
        n_new += !s->skipped[q] && looks_at_new(s, q);
    }
    for (int q = 0; q < s->kit->n_probes; q++) {
        s->eligible[q] = !s->skipped[q] && (n_new == 0 || looks_at_new(s, q));
        n += s->eligible[q];
    }
    return n;
}

static int choose_random(pf_session *s)
{
    int pick = (int)pf_rng_below(&s->rng, (uint32_t)mark_eligible(s));
    for (int q = 0; q < s->kit->n_probes; q++) {
        if (s->eligible[q] && pick-- == 0) {
            return q;
        }
    }
    return -1;
}

// A function of the user's chooses; what it may not choose counts as the first probe it may.
static int choose_own(pf_session *s)
{
    mark_eligible(s);
    pf_choice choice = {.session = s,
                        .seed = s->seed,
                        .opportunity = s->opportunities,
                        .kit = s->kit,
                        .n_mech = s->m + 1,
                        .belief = s->belief,
                        .n_probes = s->kit->n_probes,
                        .eligible = s->eligible};
    int chosen = s->method->choose(s->method->self, &choice), first = -1;
    for (int q = s->kit->n_probes - 1; q >= 0; q--) {
        first = s->eligible[q] ? q : first;
    }
    return chosen >= 0 && chosen < s->kit->n_probes && s->eligible[chosen] ? chosen : first;
}

static int choose_scheduled(pf_session *s)
{
    mark_eligible(s);
    for (int i = 0; i < s->kit->n_probes; i++) {
        int q = s->schedule[(s->opportunities + i) % s->kit->n_probes];
        if (s->eligible[q]) {
            return q;
        }
    }
    return -1;
}

static int choose_best(pf_session *s, double (*value_of)(pf_session *, int), double *best_value)
{
    int best = -1;
    double top = 0;
    mark_eligible(s);
    for (int q = 0; q < s->kit->n_probes; q++) {
        if (!s->eligible[q]) {
            continue;
        }
        double value = per_charge_exact(value_of(s, q), s->kit->charge[q]);
        if (best < 0 || beats(value, top)) {
            best = q;
            top = value;
        }
    }
    *best_value = pf__tie_round(top);
    return best;
}

// probe_value of the risk-driven methods, from the reductions in s->value.
static double risk_value(pf_session *s, int probe)
{
    const pf_kit *k = s->kit;
    if (full_rows(s, probe)) {
        return probe_value(s, probe);
    }
    double value = 0;
    for (int t = k->probe_target[probe]; t < k->probe_target[probe + 1]; t++) {
        value += s->value[t];
    }
    return value;
}

static int choose_by_risk(pf_session *s, double *best_value)
{
    const pf_kit *k = s->kit;
    pf__risk_reductions(k->n_targets, k->target_mech, s->belief, &s->terms, k->n_bins, k->nominal,
                        k->changed, s->value);
    if (k->n_targets != k->n_probes || k->n_cross > 0) {
        return choose_best(s, risk_value, best_value);
    }
    // one target each: its reduction is the probe's value
    int best = -1;
    double top = 0;
    mark_eligible(s);
    for (int q = 0; q < k->n_probes; q++) {
        double value = s->value[q] / k->charge[q];
        if (s->eligible[q] && (best < 0 || beats(value, top))) {
            best = q;
            top = value;
        }
    }
    *best_value = pf__tie_round(top);
    return best;
}

static double recovery_value(pf_session *s, int probe)
{
    const pf_kit *k = s->kit;
    double value = 0;
    for (int t = k->probe_target[probe]; t < k->probe_target[probe + 1]; t++) {
        int j = k->target_mech[t];
        value += pf__recovery_value(&s->joint, k->weight, 1, &j);
    }
    return value;
}

// Probes by value per charge, best first; equal ones by index.
void pf__session_make_schedule(pf_session *s)
{
    for (int q = 0; q < s->kit->n_probes; q++) {
        double value = per_charge(probe_value(s, q), s->kit->charge[q]);
        int at = q;
        while (at > 0) {
            int before = s->schedule[at - 1];
            if (per_charge(probe_value(s, before), s->kit->charge[before]) >= value) {
                break;
            }
            s->schedule[at] = before;
            at--;
        }
        s->schedule[at] = q;
    }
}

void pf__session_open_opportunity(pf_session *s)
{
    const pf_kit *k = s->kit;
    if (pf__session_many(s)) {
        pf__odds_hazard(s->m, s->odds, k->hazard);
        pf__odds_belief(s->m, s->odds, s->belief);
        pf__odds_risk_prepare(s->m, s->belief, k->weight, &s->terms);
    } else {
        pf__belief_hazard(s->m, s->belief, k->hazard);
        pf__risk_prepare(s->m, s->belief, k->weight, &s->terms);
    }
    s->ask = (pf_ask){.kind = PF_ASK_PROBE, .stage = PF_STAGE_LOOK, .probe = -1};
    switch (s->method->rule) {
    case PF_RULE_RANDOM:
        s->ask.probe = choose_random(s);
        break;
    case PF_RULE_OWN:
        s->ask.probe = choose_own(s);
        break;
    case PF_RULE_SCHEDULE:
        s->ask.probe = choose_scheduled(s);
        s->ask.value = per_charge(probe_value(s, s->ask.probe), k->charge[s->ask.probe]);
        s->ask.has_value = true;
        break;
    case PF_RULE_BEST:
        s->ask.probe = s->method->value == pf__value_bayes_risk
                           ? choose_by_risk(s, &s->ask.value)
                           : choose_best(s, probe_value, &s->ask.value);
        s->ask.has_value = true;
        break;
    }
    s->opportunities++;
}

void pf__session_open_recovery(pf_session *s)
{
    s->ask =
        (pf_ask){.kind = PF_ASK_PROBE, .stage = PF_STAGE_RECOVER, .probe = -1, .has_value = true};
    s->ask.probe = choose_best(s, recovery_value, &s->ask.value);
    s->recoveries++;
}
