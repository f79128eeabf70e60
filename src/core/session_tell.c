// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "session_impl.h"

#include <math.h>
#include <string.h>

// Whether all are finite, without a branch for each: only an exponent of all ones carries into the
// sign bit.
static bool only_finite(int n, const double *x)
{
    const uint64_t exponent = UINT64_C(0x7ff) << 52, last = UINT64_C(1) << 52;
    uint64_t seen = 0;
    for (int i = 0; i < n; i++) {
        uint64_t bits;
        memcpy(&bits, x + i, sizeof bits);
        seen |= (bits & exponent) + last;
    }
    return seen >> 63 == 0;
}

static pf_status all_finite(const char *what, int rows, int n_chan, const double *x,
                            pf_error *error)
{
    if (only_finite(rows * n_chan, x)) {
        return PF_OK;
    }
    for (int i = 0; i < rows * n_chan; i++) {
        if (!isfinite(x[i])) {
            return pf_fail(error, PF_ERR_NONFINITE, "%s: row %d, channel %d is not finite", what,
                           i / n_chan, i % n_chan);
        }
    }
    return PF_OK;
}

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

// Where the recorded responses of a mechanism to a probe begin, gain after gain; NULL: it is no
// target.
static const double *recorded_gains(const pf_kit *k, int probe, int mechanism)
{
    size_t at = 0;
    for (int q = 0; q <= probe; q++) {
        for (int t = k->probe_target[q]; t < k->probe_target[q + 1]; t++) {
            if (q == probe && k->target_mech[t] == mechanism) {
                return k->variant + at * (size_t)k->n_chan;
            }
            at += (size_t)pf_kit_probe_rows(k, q) * (size_t)k->n_grid;
        }
    }
    return NULL;
}

// Adds to response (nominal before) what a mechanism at a gain changes of it: linear between the
// recorded gains and 1, held beyond the weakest.
static void add_recorded(const pf_kit *k, int probe, int mechanism, double gain, const double *base,
                         double *response)
{
    const double *rows = recorded_gains(k, probe, mechanism);
    int n = pf_kit_probe_rows(k, probe) * k->n_chan, g = 0;
    gain = gain > k->grid[0] ? gain : k->grid[0];
    while (g < k->n_grid && k->grid[g] < gain) {
        g++;
    }
    // between grid[g - 1] and grid[g], the last of which is 1
    double above = g < k->n_grid ? k->grid[g] : 1, below = g > 0 ? k->grid[g - 1] : above;
    double share = above > below ? (gain - below) / (above - below) : 1;
    for (int i = 0; i < n && rows; i++) {
        double low = g > 0 ? rows[(g - 1) * n + i] - base[i] : 0;
        double high = g < k->n_grid ? rows[g * n + i] - base[i] : 0;
        response[i] += g > 0 ? low + share * (high - low) : high;
    }
}

// The kit's own recorded responses as a predictor. They show one loss at a time; several add up.
static pf_status predict_recorded(const pf_session *s, const pf_hypothesis *h, double *response,
                                  pf_error *error)
{
    const pf_kit *k = s->kit;
    size_t n_chan = (size_t)k->n_chan, rows = (size_t)pf_kit_probe_rows(k, h->probe);
    if (k->n_response == 0) {
        return pf_fail(error, PF_ERR_PREDICTION,
                       "this kit holds no responses: give a start state or predictions");
    }
    const double *base = k->response + (size_t)k->probe_row[h->probe] * n_chan;
    if (h->mechanism == 0 || h->others) {
        memcpy(response, base, rows * n_chan * sizeof(double));
        for (int j = 1; h->others && j < k->n_mech; j++) {
            double gain = j == h->mechanism ? h->gain : h->others[j];
            add_recorded(k, h->probe, j, gain, base, response);
        }
        return PF_OK;
    }
    const double *gains = recorded_gains(k, h->probe, h->mechanism);
    for (int g = 0; gains && g < k->n_grid; g++) {
        if (fabs(k->grid[g] - h->gain) < 1e-9) {
            memcpy(response, gains + (size_t)g * rows * n_chan, rows * n_chan * sizeof(double));
            return PF_OK;
        }
    }
    return pf_fail(error, PF_ERR_PREDICTION, "the kit holds no response at gain %g", h->gain);
}

static pf_status predict_unchecked(pf_session *s, const pf_tell *tell,
                                   const pf_predictor *predictor, int mechanism, double gain,
                                   double *out, pf_error *error)
{
    bool each = s->stage == 2 && pf__session_many(s);
    pf_hypothesis h = {tell->probe, mechanism, gain, each ? s->others : NULL};
    return predictor
               ? predictor->predict(predictor->self, &h, tell->start, tell->n_start, out, error)
               : predict_recorded(s, &h, out, error);
}

static pf_status predict(pf_session *s, const pf_tell *tell, const pf_predictor *predictor,
                         int mechanism, double gain, double *out, pf_error *error)
{
    pf_status status = predict_unchecked(s, tell, predictor, mechanism, gain, out, error);
    return status != PF_OK ? status
                           : all_finite("prediction", tell->rows, s->kit->n_chan, out, error);
}

// Score of a probe with one target. Values that are not finite show in the sums, so the response
// and the predictions are searched for them only then.
static pf_status match_single(pf_session *s, const pf_tell *tell, const pf_predictor *predictor,
                              int target, pf_error *error)
{
    const pf_kit *k = s->kit;
    int rows = tell->rows, n_chan = k->n_chan;
    pf_status status = predict_unchecked(s, tell, predictor, 0, 1, s->nominal, error);
    if (status == PF_OK) {
        status = predict_unchecked(s, tell, predictor, target, k->g_cal, s->predicted, error);
    }
    if (status != PF_OK || pf_match_window(rows * n_chan, tell->response, s->nominal, s->predicted,
                                           s->inverse, s->matches)) {
        return status;
    }
    if ((status = all_finite("response", rows, n_chan, tell->response, error)) ||
        (status = all_finite("prediction", rows, n_chan, s->nominal, error)) ||
        (status = all_finite("prediction", rows, n_chan, s->predicted, error))) {
        return status;
    }
    return PF_OK; // too large a signature is no look, too large a score is refused by its reader
}

// Scores of one response into s->matches.
static pf_status match_response(pf_session *s, const pf_tell *tell, const pf_predictor *predictor,
                                const int32_t *targets, int n_targets, pf_error *error)
{
    const pf_kit *k = s->kit;
    int n = tell->rows * k->n_chan;
    const double *whiten = pf_kit_whiten(k, tell->probe);
    if (n_targets == 1 && k->statistic == PF_STATISTIC_MATCHED && !whiten) {
        return match_single(s, tell, predictor, targets[0], error);
    }
    pf_status status = all_finite("response", tell->rows, k->n_chan, tell->response, error);
    if (status == PF_OK) {
        status = predict(s, tell, predictor, 0, 1, s->nominal, error);
    }
    if (status != PF_OK) {
        return status;
    }
    pf_scaled_difference(tell->rows, k->n_chan, tell->response, s->nominal, k->scale, k->n_scale,
                         s->residual);
    if (whiten) {
        pf_whiten(n, whiten, s->residual);
    }
    if (k->statistic == PF_STATISTIC_NORM) {
        s->matches[0] = pf_match_norm(pf_residual_norm(n, s->residual));
        return PF_OK;
    }
    for (int t = 0; t < n_targets; t++) {
        status = predict(s, tell, predictor, targets[t], k->g_cal, s->predicted, error);
        if (status != PF_OK) {
            return status;
        }
        pf_scaled_difference(tell->rows, k->n_chan, s->predicted, s->nominal, k->scale, k->n_scale,
                             s->signatures + (size_t)t * (size_t)n);
        if (whiten) {
            pf_whiten(n, whiten, s->signatures + (size_t)t * (size_t)n);
        }
    }
    pf_match_targets(n_targets, n, s->signatures, s->residual, s->match_scratch, s->matches);
    return PF_OK;
}

// Whether some machine of the model could have answered like this: a signature of the usual size,
// little that no signature explains, and an amplitude between healthy and dead, each with a wide
// margin. A frozen or wild sensor fails here instead of counting as healthy. Kits of the paper's
// suites set no limits.
static bool plausible(const pf_kit *k, int probe, int target, const pf_match *match)
{
    if (k->statistic == PF_STATISTIC_NORM || !k->require_probe) {
        return true;
    }
    double z = pf_coordinate(match->coefficient, k->m0[target], k->m1[target]);
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
        out->coordinate = pf_coordinate(match->coefficient, k->m0[at], k->m1[at]);
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
void pf__session_give_up(pf_session *s, int probe)
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
        s->bandit_w[j] = fmax(0, s->bandit_w[j] + log(r->ratio));
        s->bandit_count[j]++;
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
            pf__session_give_up(s, probe);
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

static pf_status tell_stage1(pf_session *s, const pf_tell *tell, const pf_predictor *predictor,
                             pf_error *error)
{
    const int32_t *targets = NULL;
    int n_targets = pf_kit_probe_targets(s->kit, tell->probe, &targets);
    pf_status status = match_response(s, tell, predictor, targets, n_targets, error);
    return status == PF_OK ? take_matches(s, tell->probe, error) : status;
}

static pf_status discrepancy(pf_session *s, const pf_tell *tell, const pf_predictor *predictor,
                             int mechanism, double gain, double *d, pf_error *error)
{
    const pf_kit *k = s->kit;
    pf_status status = predict(s, tell, predictor, mechanism, gain, s->predicted, error);
    if (status != PF_OK) {
        return status;
    }
    pf_scaled_difference(tell->rows, k->n_chan, tell->response, s->predicted, k->scale, k->n_scale,
                         s->residual);
    *d = pf_discrepancy(tell->rows * k->n_chan, s->residual);
    if (!isfinite(*d)) {
        return pf_fail(error, PF_ERR_NONFINITE,
                       "response: its distance to the prediction for "
                       "mechanism %d is not finite",
                       mechanism);
    }
    return PF_OK;
}

// What the weakest gain of the grid would change of the response that was just predicted without
// it, as large as a signature is measured.
static void measure_look(pf_session *s, const pf_tell *tell, int target)
{
    const pf_kit *k = s->kit;
    const double *whiten = pf_kit_whiten(k, tell->probe);
    int n = tell->rows * k->n_chan;
    pf_scaled_difference(tell->rows, k->n_chan, s->predicted, s->nominal, k->scale, k->n_scale,
                         s->signatures);
    if (whiten) {
        pf_whiten(n, whiten, s->signatures);
    }
    s->matches[target].size = pf_residual_norm(n, s->signatures);
}

bool pf__session_looked(const pf_session *s, int probe, int target)
{
    const pf_kit *k = s->kit;
    return !k->require_probe ||
           s->matches[target].size >= .1 * k->signature[k->probe_target[probe] + target];
}

// Targets that were not looked at say nothing: at every gain as far away as healthy (d has n
// numbers per target, the first of them healthy where n is 1 + n_grid). False: none was looked at.
bool pf__session_blind(pf_session *s, int probe, double healthy, int n)
{
    bool any = false;
    for (int t = 0; t < pf_kit_probe_targets(s->kit, probe, NULL); t++) {
        bool looked = pf__session_looked(s, probe, t);
        double *d = s->discrepancy + (size_t)t * (size_t)n;
        double same = n > s->n_grid ? d[0] : healthy;
        for (int i = 0; i < n && !looked; i++) {
            d[i] = same;
        }
        any = any || looked;
    }
    return any;
}

bool pf__session_far(const pf_session *s, int probe, double least)
{
    return s->kit->require_probe && sqrt(least) > s->kit->distance_limit[probe];
}

// Updates the joint belief from d_nominal and s->discrepancy, in scratch first.
static pf_status take_discrepancies(pf_session *s, int probe, double d_nominal, pf_error *error)
{
    const int32_t *targets = NULL;
    int n_targets = pf_kit_probe_targets(s->kit, probe, &targets), n_grid = s->n_grid;
    if (!pf__session_blind(s, probe, d_nominal, n_grid)) {
        s->n_readings = 0;
        pf__session_give_up(s, probe);
        return PF_OK;
    }
    double temperature =
        pf_temperature(d_nominal, n_targets * n_grid, s->discrepancy, s->kit->temperature);
    if (!isfinite(temperature)) {
        return pf_fail(error, PF_ERR_NONFINITE, "response: too far from every prediction");
    }
    // nothing is learned from what no machine of the model gives
    double least = d_nominal;
    for (int i = 0; i < n_targets * n_grid; i++) {
        least = s->discrepancy[i] < least ? s->discrepancy[i] : least;
    }
    if (pf__session_far(s, probe, least)) {
        s->n_readings = 0;
        pf__session_give_up(s, probe);
        return PF_OK;
    }
    size_t bytes = sizeof(double) * (size_t)s->m * (size_t)n_grid;
    s->boundary.nominal = s->joint.nominal;
    memcpy(s->boundary.mass, s->joint.mass, bytes);
    pf_joint_update(&s->boundary, n_targets, (const int *)targets, d_nominal, s->discrepancy,
                    temperature);
    double sum = s->boundary.nominal;
    for (int i = 0; i < s->m * n_grid; i++) {
        sum += s->boundary.mass[i];
    }
    if (!(fabs(sum - 1) < 1e-6)) {
        return pf_fail(error, PF_ERR_NONFINITE, "response: the joint belief would not be finite");
    }
    s->joint.nominal = s->boundary.nominal;
    memcpy(s->joint.mass, s->boundary.mass, bytes);
    // a target whose counterfactuals hardly differ was not looked at
    for (int t = 0; t < n_targets; t++) {
        for (int g = 0; g < n_grid; g++) {
            bool differs = pf__session_looked(s, probe, t) &&
                           fabs(s->discrepancy[t * n_grid + g] - d_nominal) >= temperature;
            s->probed[targets[t]] = s->probed[targets[t]] || differs;
        }
    }
    s->n_readings = 0;
    return PF_OK;
}

// After the prediction for a target healthy (which 0) or at a gain of the grid.
static void note_prediction(pf_session *s, const pf_tell *tell, int target, int which)
{
    if (which == 0) {
        memcpy(s->nominal, s->predicted,
               sizeof(double) * (size_t)tell->rows * (size_t)s->kit->n_chan);
    } else if (which == 1) {
        measure_look(s, tell, target);
    }
}

// Every target healthy and at each grid gain, the others at their mean gain.
static pf_status tell_each(pf_session *s, const pf_tell *tell, const pf_predictor *predictor,
                           pf_error *error)
{
    const pf_kit *k = s->kit;
    const int32_t *targets = NULL;
    int n_targets = pf_kit_probe_targets(k, tell->probe, &targets), n = s->n_grid + 1;
    pf_status status = all_finite("response", tell->rows, k->n_chan, tell->response, error);
    pf_session_others(s); // what predict() reads
    for (int i = 0; i < n_targets * n && status == PF_OK; i++) {
        double gain = i % n == 0 ? 1 : k->grid[i % n - 1];
        status = discrepancy(s, tell, predictor, targets[i / n], gain, &s->discrepancy[i], error);
        note_prediction(s, tell, i / n, i % n);
    }
    return status == PF_OK ? pf__session_take_each(s, tell->probe, error) : status;
}

// One counterfactual at a time, so a board needs room for one prediction only.
static pf_status tell_stage2(pf_session *s, const pf_tell *tell, const pf_predictor *predictor,
                             pf_error *error)
{
    const pf_kit *k = s->kit;
    const int32_t *targets = NULL;
    int n_targets = pf_kit_probe_targets(k, tell->probe, &targets), n_grid = s->n_grid;
    double d_nominal = 0;
    if (pf__session_many(s)) {
        return tell_each(s, tell, predictor, error);
    }
    pf_status status = all_finite("response", tell->rows, k->n_chan, tell->response, error);
    if (status == PF_OK) {
        status = discrepancy(s, tell, predictor, 0, 1, &d_nominal, error);
        note_prediction(s, tell, 0, 0);
    }
    for (int t = 0; t < n_targets && status == PF_OK; t++) {
        for (int g = 0; g < n_grid && status == PF_OK; g++) {
            status = discrepancy(s, tell, predictor, targets[t], k->grid[g],
                                 &s->discrepancy[t * n_grid + g], error);
            note_prediction(s, tell, t, g + 1);
        }
    }
    return status == PF_OK ? take_discrepancies(s, tell->probe, d_nominal, error) : status;
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
    memcpy(s->discrepancy, d, sizeof *d * (size_t)n_targets * (size_t)s->n_grid);
    pf_status status = take_discrepancies(s, s->ask.probe, d_nominal, error);
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
