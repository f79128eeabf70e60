// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "session_impl.h"

#include <math.h>
#include <string.h>

// Stage 1: from matches to readings and belief.

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
    return pf__evidence_shows(k, probe, target - k->probe_target[probe], match) &&
           match->off <= k->off_limit[probe] && z >= -slack && z <= dead + slack;
}

// Turns matches into readings (category, coordinate, gate) and the new belief, all in scratch.
pf_status pf__session_read_matches(pf_session *s, int probe, const int32_t *targets, int n_targets,
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
            // the start hides the signature; a wild response is one all the same
            bool judged = s->rules.field && k->statistic != PF_STATISTIC_NORM;
            out->plausible = !judged || match->off <= k->off_limit[probe];
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
void pf__session_give_up(pf_session *s, int probe)
{
    s->implausible[probe]++;
    s->skipped[probe] = s->skipped[probe] || s->implausible[probe] >= PF_IMPLAUSIBLE_MAX;
}

double pf__session_change(const pf_session *s)
{
    return pf__session_many(s) ? pf__odds_change(s->m, s->odds)
                               : pf__belief_change(s->m, s->belief);
}

// Accepts the readings in scratch. The severity is written here and read nowhere in stage 1.
void pf__session_accept(pf_session *s, int probe, int n_targets)
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
            pf__session_give_up(s, probe);
            break;
        }
    }
    if (!learned) {
        return;
    }
    double change = pf__session_change(s);
    s->peak = change > s->peak ? change : s->peak;
    if (!s->alarm && change > s->threshold) {
        s->alarm = true;
        s->alarm_opportunity = s->opportunities - 1;
    }
}

// Reads s->matches and accepts them.
pf_status pf__session_take_matches(pf_session *s, int probe, pf_error *error)
{
    const int32_t *targets = NULL;
    int n_targets = pf_kit_probe_targets(s->kit, probe, &targets);
    pf_status status = pf__session_read_matches(s, probe, targets, n_targets, error);
    if (status == PF_OK) {
        pf__session_accept(s, probe, n_targets);
    }
    return status;
}

pf__evidence *pf__session_gather(pf_session *s, const pf_tell *tell, const pf_predictor *predictor)
{
    pf__evidence *e = s->evidence;
    pf__evidence_set(e, s->kit, tell->probe);
    e->predictor = predictor ? *predictor : pf__recorded_predictor(s->kit);
    e->start = tell->start;
    e->n_start = tell->n_start;
    e->others = pf_session_others(s);
    return e;
}

pf_status pf__session_tell_stage1(pf_session *s, const pf_tell *tell, const pf_predictor *predictor,
                                  pf_error *error)
{
    pf_status status = pf__evidence_read(pf__session_gather(s, tell, predictor), tell->response,
                                         s->matches, error);
    return status == PF_OK ? pf__session_take_matches(s, tell->probe, error) : status;
}
