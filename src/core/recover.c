// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "session_impl.h"

#include <math.h>
#include <string.h>

// Stage 2: from distances to the joint belief.

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
    if (!pf__joint_proper(next)) {
        return pf_fail(error, PF_ERR_NONFINITE, "response: the joint belief would not be finite");
    }
    s->joint.nominal = next->nominal;
    memcpy(s->joint.mass, next->mass, bytes);
    return PF_OK;
}

// The update of stage 2 from s->distance and the sizes in s->matches.
pf_status pf__session_take_distances(pf_session *s, int probe, pf_error *error)
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
        pf__session_give_up(s, probe);
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
pf_status pf__session_tell_stage2(pf_session *s, const pf_tell *tell, const pf_predictor *predictor,
                                  pf_error *error)
{
    pf__evidence *e = pf__session_gather(s, tell, predictor);
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
    return status == PF_OK ? pf__session_take_distances(s, tell->probe, error) : status;
}
