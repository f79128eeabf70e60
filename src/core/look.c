// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "session_impl.h"

#include <math.h>
#include <string.h>

// A look of a field kit, in either stage: the joint posterior and the misfit.

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
        bool wild = !(match->off <= k->off_limit[probe]);
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
        pf__session_give_up(s, probe);
    }
}

static void copy_posterior(pf_joint *to, const pf_joint *from)
{
    to->nominal = from->nominal;
    memcpy(to->mass, from->mass, sizeof(double) * (size_t)from->m * PF_POSTERIOR_GAINS);
    if (from->healthy) {
        memcpy(to->healthy, from->healthy, sizeof(double) * (size_t)from->m);
    }
}

// Readings, posterior and misfit of one look, all in scratch until nothing can fail any more.
pf_status pf__session_tell_look(pf_session *s, const pf_tell *tell, const pf_predictor *predictor,
                                pf_error *error)
{
    pf__evidence *e = pf__session_gather(s, tell, predictor);
    pf_status status = pf__evidence_read(e, tell->response, s->matches, error);
    if (status == PF_OK) {
        status = pf__session_read_matches(s, tell->probe, e->targets, e->n_targets, error);
    }
    if (status != PF_OK) {
        return status;
    }
    pf_joint *next = &s->boundary;
    bool good = take_coordinates(s, tell->probe, e->n_targets);
    s->look.probe = tell->probe;
    s->look.n_targets = e->n_targets;
    s->look.targets = e->targets;
    pf__look_weigh(&s->look, s->kit, s->between);
    bool counts = good && s->look.n_z > 0;
    if (counts) {
        const double *predicted = NULL;
        copy_posterior(next, &s->joint);
        pf__posterior_update(next, &s->look, s->kit);
        if (s->kit->n_misfit > 0) {
            status = pf__misfit_predict(s->kit, &s->look, e, s->others, &predicted, error);
        }
        if (status == PF_OK && !pf__joint_proper(next)) {
            status = pf_fail(error, PF_ERR_NONFINITE, "response: the posterior is not finite");
        }
        if (status == PF_OK && predicted) {
            pf__misfit_channels(s->kit, tell->probe, tell->response, predicted, s->u);
            for (int c = 0; c < s->kit->n_chan; c++) {
                bool restless = pf__misfit_restless(s->kit, tell->start, tell->n_start, c);
                s->u[c] = restless ? PF_MISFIT_STILL : s->u[c];
            }
        }
    }
    if (status != PF_OK) {
        return status;
    }
    if (s->stage == PF_STAGE_LOOK) {
        pf__session_accept(s, tell->probe, e->n_targets);
    } else {
        accept_recovery(s, tell->probe, e->n_targets);
    }
    s->misfit.implausible += !good;
    if (counts) {
        add_distances(s);
        copy_posterior(&s->joint, next);
        if (s->kit->n_misfit > 0) {
            double shape = pf__misfit_shape(likeliest_distance(s), s->n_z);
            pf__misfit_add(&s->misfit, s->kit->n_chan, s->u, shape, s->told + 1);
        }
    }
    return PF_OK;
}
