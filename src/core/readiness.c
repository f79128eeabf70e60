// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "session_impl.h"
#include "certificate.h"

#include <math.h>

pf_joint *pf__session_joint_now(pf_session *s)
{
    if (s->stage != 1) {
        return &s->joint;
    }
    pf__session_boundary(s, &s->boundary);
    return &s->boundary;
}

pf_joint pf_session_joint(pf_session *s)
{
    return *pf__session_joint_now(s);
}

// How much correction a policy is sure to deliver: its commands are unknown, and a kit of before
// reaches were found knows of none. Open loops: any.
static double policy_reach(const pf_kit *k, int task, int mechanism)
{
    if (pf_kit_task_rows(k, task) > 0) {
        return INFINITY;
    }
    for (int u = k->task_use[task]; u < k->task_use[task + 1] && k->n_reach > 0; u++) {
        if (k->use_mech[u] == mechanism) {
            return k->reach[u];
        }
    }
    return 1;
}

// What the corrected, clipped command of a mechanism is of the asked one: the share along it, and
// what is sent beside it (a command of varying amplitude that is clipped in part), both at gain 1.
static void deliver(const pf_kit *k, int task, int mechanism, double correction, double *share,
                    double *off_shape)
{
    double asked = 0, along = 0, sent = 0;
    correction = fmin(correction, policy_reach(k, task, mechanism));
    for (int r = k->task_row[task]; r < k->task_row[task + 1]; r++) {
        double u = k->task_command[(size_t)r * (size_t)k->n_mech + (size_t)mechanism];
        double v = pf__corrected_command(u, correction, k->lo[mechanism], k->hi[mechanism]);
        asked += u * u;
        along += u * v;
        sent += v * v;
    }
    *share = asked > 0 ? along / asked : correction;
    *off_shape = asked > 0 ? fmax(0, sent / asked - *share * *share) : 0;
}

double pf_kit_delivered_share(const pf_kit *k, int task, int mechanism, double correction,
                              double gain)
{
    double share, off_shape;
    deliver(k, task, mechanism, correction, &share, &off_shape);
    return gain * share;
}

// NTE of one use at a gain. Recordings know the command only, so what is sent beside it counts as
// error there: sum (u - g clip(c u))^2 / sum u^2 = (1 - e)^2 + g^2 off_shape.
static double use_error(const pf_session *s, int use, int member, double gain)
{
    const pf_kit *k = s->kit;
    int j = k->use_mech[use];
    size_t row = (size_t)use * (size_t)k->n_members + (size_t)member;
    const double *table = k->tracking_error + row * (size_t)k->n_shares;
    double tracking_error =
        pf__tracking_error_at(k->n_shares, k->shares, table, gain * s->share[j]);
    if (s->asked[j] > s->share[j]) {
        // what a policy delivers beyond its reach lies between that and all of the correction
        tracking_error = fmax(tracking_error, pf__tracking_error_at(k->n_shares, k->shares, table,
                                                                    gain * s->asked[j]));
    }
    return tracking_error + (k->n_response > 0 ? gain * gain * s->off_shape[j] : 0);
}

// Moments of one mechanism; the current one is nominal by definition.
static pf_moments moments_of(const pf_joint *joint, int mechanism)
{
    return mechanism > 0 ? pf_joint_moments(joint, mechanism) : (pf_moments){0, 1, 1};
}

// Uses of one task; with several faults a use counts by itself.
typedef struct task_at {
    const pf_session *session;
    int first, n;
} task_at;

static pf_status use_returns(void *self, int member, int use, int n, const double *gains,
                             double *returns, pf_error *error)
{
    (void)error;
    const task_at *t = self;
    double others = 0;
    for (int v = 0; v < t->n && !pf__session_many(t->session); v++) {
        others += v != use ? use_error(t->session, t->first + v, member, 1) : 0;
    }
    for (int g = 0; g < n; g++) {
        returns[g] = pf__return(
            use < 0 ? others : others + use_error(t->session, t->first + use, member, gains[g]));
    }
    return PF_OK;
}

// What speaks against a task before any bound is computed. A mechanism's own evidence must not be
// explained away by another's (a belief that knows one change at a time, or full rows), and an
// amplitude beyond the weakest gain of the grid means less is left than the model can say.
static bool task_blocked(const pf_session *s, const pf_joint *joint, int task, pf_why *why)
{
    const pf_kit *k = s->kit;
    bool conflict = false, off_grid = false;
    bool explains = !pf__session_many(s) || k->n_cross > 0;
    for (int u = k->task_use[task]; u < k->task_use[task + 1]; u++) {
        int j = k->use_mech[u];
        if (j == 0) {
            continue;
        }
        if (!s->probed[j]) {
            *why = PF_WHY_NOT_PROBED;
            return true;
        }
        double changed = pf_joint_moments(joint, j).changed;
        conflict = conflict || (explains && s->own_evidence[j - 1] > log(PF_CONFLICT_ODDS) &&
                                changed < PF_CONFLICT_BELIEF);
        int n = s->admitted[j - 1];
        off_grid = off_grid || (n > 0 && changed > PF_OFF_GRID_BELIEF &&
                                s->beyond[j - 1] > PF_OFF_GRID_SIGMAS * sqrt(n));
    }
    *why = conflict ? PF_WHY_CONFLICT : PF_WHY_OFF_GRID;
    return conflict || off_grid;
}

static pf_task_readiness certify_task(pf_session *s, const pf_joint *joint, int task)
{
    const pf_kit *k = s->kit;
    for (int u = k->task_use[task]; u < k->task_use[task + 1]; u++) {
        int j = k->use_mech[u];
        pf_moments moments = moments_of(joint, j);
        double correction = pf__correction(&moments);
        deliver(k, task, j, correction, &s->share[j], &s->off_shape[j]);
        s->asked[j] = pf_kit_task_rows(k, task) > 0 ? 0 : correction;
    }
    pf_prediction p;
    task_at at = {s, k->task_use[task], k->task_use[task + 1] - k->task_use[task]};
    pf_task_model model = {&at, k->n_members, at.n, k->use_mech + at.first, use_returns};
    pf__predict_task(&model, joint, k->alpha, s->probability, s->returns, &p, NULL);
    pf_task_readiness out = {p.mean, sqrt(p.variance), p.lower, PF_NO_GO, PF_WHY_NOT_PROBED};
    if (!s->rules.field || !task_blocked(s, joint, task, &out.why)) {
        out.decision = pf__decide(p.lower, k->j_min, true, &out.why);
    }
    return out;
}

bool pf__session_all_go(pf_session *s)
{
    const pf_joint *joint = NULL;
    for (int task = 0; task < s->kit->n_tasks; task++) {
        for (int u = s->kit->task_use[task]; u < s->kit->task_use[task + 1]; u++) {
            int j = s->kit->use_mech[u];
            if (j > 0 && s->rules.field && !s->probed[j]) {
                return false;
            }
        }
    }
    joint = pf__session_joint_now(s);
    for (int task = 0; task < s->kit->n_tasks; task++) {
        if (certify_task(s, joint, task).decision != PF_GO) {
            return false;
        }
    }
    return true;
}

void pf__session_forget_answers(pf_session *s)
{
    for (int task = 0; task < s->kit->n_tasks; task++) {
        s->tasks[task] = (pf_task_readiness){NAN, NAN, NAN, PF_NO_GO, PF_WHY_NOT_PROBED};
    }
    for (int j = 0; j <= s->m; j++) {
        s->mechanisms[j] = (pf_mechanism_readiness){NAN, NAN, {NAN, NAN}, 1, false};
    }
}

void pf_session_certify(pf_session *s)
{
    const pf_joint *joint = pf__session_joint_now(s);
    for (int task = 0; task < s->kit->n_tasks; task++) {
        s->tasks[task] = certify_task(s, joint, task);
    }
    for (int j = 0; j <= s->m; j++) {
        pf_mechanism_readiness *out = &s->mechanisms[j];
        pf_moments moments = moments_of(joint, j);
        out->changed = moments.changed;
        out->mean_gain = moments.mean;
        out->correction = pf__correction(&moments);
        out->probed = s->probed[j];
        out->interval[0] = out->interval[1] = 1;
        if (j > 0) {
            pf_joint_interval(joint, j, &out->interval[0], &out->interval[1]);
        }
    }
}

const pf_task_readiness *pf_session_task(const pf_session *s, int task)
{
    static const pf_task_readiness none = {0, 0, 0, PF_NO_GO, PF_WHY_NOT_PROBED};
    return task >= 0 && task < s->kit->n_tasks ? &s->tasks[task] : &none;
}

const pf_mechanism_readiness *pf_session_mechanism(const pf_session *s, int mechanism)
{
    static const pf_mechanism_readiness none = {0, 1, {0, 1}, 1, false};
    return mechanism >= 0 && mechanism <= s->m ? &s->mechanisms[mechanism] : &none;
}
