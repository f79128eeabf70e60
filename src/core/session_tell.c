// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "session_impl.h"

#include <math.h>
#include <string.h>

static pf_status tell_check(const pf_session *s, const pf_tell *tell, pf_error *error)
{
    if (s->stage == 3) {
        return pf_fail(error, PF_ERR_STAGE, "tell: the session is done");
    }
    if (!s->outstanding) {
        return pf_fail(error, PF_ERR_PROBE, "tell: no probe is outstanding; ask first");
    }
    if (tell->probe != s->ask.probe) {
        return pf_fail(error, PF_ERR_PROBE, "probe: %d was told, %d was asked for", tell->probe,
                       s->ask.probe);
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

// Whether some machine of the model could have answered like this: a signature of the usual size,
// little that no signature explains, and an amplitude between healthy and dead, each with a wide
// margin. A frozen or wild sensor fails here instead of counting as healthy. Kits of the paper's
// suites set no limits.
static bool plausible(const pf_kit *k, int probe, int target, const pf_match *match)
{
    if (k->statistic == PF_STATISTIC_NORM || !k->field) {
        return true;
    }
    double z =
        pf_coordinate(match->coefficient, k->centre_nominal[target], k->centre_changed[target]);
    double slack = .5 + 8 * k->sigma[target], dead = pf_severity_line(0, k->g_cal);
    return match->size >= .1 * k->signature[target] && match->off <= k->off_limit[probe] &&
           z >= -slack && z <= dead + slack;
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
        pf_channel_row row = pf_kit_channel(k, at);
        out->score = match->score;
        out->plausible = plausible(k, probe, at, match);
        if (!out->plausible) {
            out->usable = false;
            continue;
        }
        out->category = pf_channel_category(&row, match->score);
        out->coordinate =
            pf_coordinate(match->coefficient, k->centre_nominal[at], k->centre_changed[at]);
        out->gate = pf_gate_open(&row, out->category) || !s->method->gate;
        out->gate = out->gate && isfinite(out->coordinate);
        out->ratio = pf_channel_ratio(&row, out->category);
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
        pf_belief_multiply_all(s->m, s->new_belief, s->ratios);
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
    s->skipped[probe] = s->skipped[probe] || s->implausible[probe] >= 2;
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
        s->probed[r->mechanism] = s->probed[r->mechanism] || fabs(log(r->ratio)) > .1;
        s->own_evidence[j] = fmax(0, s->own_evidence[j] + log(r->ratio));
        s->own_readings[j]++;
        if (r->gate) {
            const double *expected =
                k->n_curve > 0 ? k->curve + (size_t)at * (size_t)s->n_grid : s->expected;
            pf_severity_update(s->n_grid, s->severity + (size_t)j * (size_t)s->n_grid, expected,
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
    double change = pf_session_change(s);
    s->peak = change > s->peak ? change : s->peak;
    if (!s->alarm && change > s->threshold) {
        s->alarm = true;
        s->alarm_opportunity = s->opportunities - 1;
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

// --- stage 2

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

// Whether the predictions for a target differ by at least a tenth of its usual signature, so that
// the response says something about it.
static bool shows(const pf_session *s, int probe, int target)
{
    const pf_kit *k = s->kit;
    return !k->field ||
           s->matches[target].size >= .1 * k->signature[k->probe_target[probe] + target];
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
    return s->kit->field && sqrt(least) > s->kit->distance_limit[probe];
}

// Whether every probability is one: with one fault they sum to 1, with several each row is below.
static bool proper(const pf_joint *joint)
{
    double sum = joint->nominal;
    for (int j = 1; j <= joint->m; j++) {
        double changed = pf_joint_moments(joint, j).changed;
        if (!(changed >= 0 && changed < 1 + 1e-6)) {
            return false;
        }
        sum += changed;
    }
    return joint->faults == PF_FAULTS_MANY || fabs(sum - 1) < 1e-6;
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
        pf_joint_update_each(next, n_targets, (const int *)targets, d, temperature);
    } else {
        pf_joint_update(next, n_targets, (const int *)targets, d[0], d + 1, temperature);
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
        pf_temperature(s->distance[0], n - 1, s->distance + 1, s->kit->temperature);
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

static void close_probe(pf_session *s)
{
    pf__session_forget_answers(s);
    s->charge += s->kit->charge[s->ask.probe];
    s->told++;
    s->outstanding = false;
    pf__session_advance(s);
}

pf_status pf__session_tell_matches(pf_session *s, const pf_match *matches, pf_error *error)
{
    if (s->stage != 1 || !s->outstanding) {
        return pf_fail(error, PF_ERR_STAGE, "no probe of stage 1 is outstanding");
    }
    memcpy(s->matches, matches,
           sizeof *matches * (size_t)pf_kit_probe_targets(s->kit, s->ask.probe, NULL));
    pf_status status = take_matches(s, s->ask.probe, error);
    if (status == PF_OK) {
        close_probe(s);
    }
    return status;
}

pf_status pf__session_tell_discrepancies(pf_session *s, double d_nominal, const double *d,
                                         pf_error *error)
{
    if (s->stage != 2 || !s->outstanding || pf__session_many(s)) {
        return pf_fail(error, PF_ERR_STAGE, "no probe of stage 2 is outstanding");
    }
    int n_targets = pf_kit_probe_targets(s->kit, s->ask.probe, NULL);
    s->distance[0] = d_nominal;
    memcpy(s->distance + 1, d, sizeof *d * (size_t)n_targets * (size_t)s->n_grid);
    pf_status status = take_distances(s, s->ask.probe, error);
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
        status = s->stage == 1 ? tell_stage1(s, tell, predictor, error)
                               : tell_stage2(s, tell, predictor, error);
    }
    if (status != PF_OK) {
        return status;
    }
    close_probe(s);
    return PF_OK;
}
