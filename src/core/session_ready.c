// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "session_impl.h"

#include <math.h>

pf_joint *pf__session_joint_now(pf_session *s)
{
    if (s->stage != 1) {
        return &s->joint;
    }
    if (s->method->transport) {
        pf_joint_transport(&s->boundary, s->belief, s->severity);
    } else {
        pf_joint_broad(&s->boundary, s->belief);
    }
    return &s->boundary;
}

pf_joint pf_session_joint(pf_session *s)
{
    return *pf__session_joint_now(s);
}

double pf_kit_delivered_share(const pf_kit *k, int task, int mechanism, double correction,
                              double gain)
{
    double asked = 0, sent = 0;
    for (int r = k->task_row[task]; r < k->task_row[task + 1]; r++) {
        double u = k->task_command[(size_t)r * (size_t)k->n_mech + (size_t)mechanism];
        asked += u * u;
        sent += u * pf_corrected_command(u, correction, k->lo[mechanism], k->hi[mechanism]);
    }
    return asked > 0 ? gain * (sent / asked) : gain * correction;
}

static double table_nte(const pf_kit *k, int use, int member, double share)
{
    size_t row = (size_t)use * (size_t)k->n_members + (size_t)member;
    return pf_nte_interpolate(k->n_shares, k->shares, k->nte + row * (size_t)k->n_shares, share);
}

// Moments of one mechanism; the current one is nominal by definition.
static pf_moments moments_of(const pf_joint *joint, int mechanism)
{
    return mechanism > 0 ? pf_joint_moments(joint, mechanism) : (pf_moments){0, 1, 1};
}

// Hypotheses that matter to a task: "none of its mechanisms changed", then each of its candidates
// at each grid gain. Fills probabilities and member x hypothesis returns; gives their number.
static int task_returns(pf_session *s, const pf_joint *joint, int task)
{
    const pf_kit *k = s->kit;
    int first = k->task_use[task], last = k->task_use[task + 1], n = 1 + (last - first) * s->n_grid;
    s->probability[0] = 1;
    for (int u = first; u < last; u++) {
        int j = k->use_mech[u];
        double *p = s->probability + 1 + (u - first) * s->n_grid;
        for (int g = 0; g < s->n_grid; g++) {
            p[g] = j > 0 ? joint->mass[(size_t)(j - 1) * (size_t)s->n_grid + (size_t)g] : 0;
            s->probability[0] -= p[g];
        }
    }
    s->probability[0] = fmax(0, s->probability[0]);
    for (int e = 0; e < k->n_members; e++) {
        double *ret = s->returns + e * n, healthy = 0;
        for (int u = first; u < last; u++) {
            healthy += table_nte(k, u, e, s->share[k->use_mech[u]]);
        }
        ret[0] = pf_return(healthy);
        for (int u = first; u < last; u++) {
            double share = s->share[k->use_mech[u]];
            double others = healthy - table_nte(k, u, e, share);
            for (int g = 0; g < s->n_grid; g++) {
                ret[1 + (u - first) * s->n_grid + g] =
                    pf_return(others + table_nte(k, u, e, k->grid[g] * share));
            }
        }
    }
    return n;
}

static bool task_probed(const pf_session *s, int task)
{
    const pf_kit *k = s->kit;
    for (int u = k->task_use[task]; u < k->task_use[task + 1]; u++) {
        if (k->use_mech[u] > 0 && !s->probed[k->use_mech[u]]) {
            return false;
        }
    }
    return true;
}

static void certify_task(pf_session *s, const pf_joint *joint, int task)
{
    const pf_kit *k = s->kit;
    for (int u = k->task_use[task]; u < k->task_use[task + 1]; u++) {
        int j = k->use_mech[u];
        pf_moments moments = moments_of(joint, j);
        s->share[j] = pf_kit_delivered_share(k, task, j, pf_correction(&moments), 1);
    }
    int n = task_returns(s, joint, task);
    pf_prediction p = pf_predict_return(k->n_members, n, s->probability, s->returns, k->alpha);
    pf_task_readiness *out = &s->tasks[task];
    out->mean = p.mean;
    out->sd = sqrt(p.variance);
    out->lower = p.lower;
    out->decision =
        pf_decide(p.lower, k->j_min, !k->require_probe || task_probed(s, task), &out->why);
}

bool pf__session_all_go(pf_session *s)
{
    for (int task = 0; task < s->kit->n_tasks; task++) {
        if (s->kit->require_probe && !task_probed(s, task)) {
            return false;
        }
    }
    const pf_joint *joint = pf__session_joint_now(s);
    for (int task = 0; task < s->kit->n_tasks; task++) {
        certify_task(s, joint, task);
        if (s->tasks[task].decision != PF_GO) {
            return false;
        }
    }
    return true;
}

void pf_session_certify(pf_session *s)
{
    const pf_joint *joint = pf__session_joint_now(s);
    for (int task = 0; task < s->kit->n_tasks; task++) {
        certify_task(s, joint, task);
    }
    for (int j = 0; j <= s->m; j++) {
        pf_mechanism_readiness *out = &s->mechanisms[j];
        pf_moments moments = moments_of(joint, j);
        out->changed = moments.changed;
        out->mean_gain = moments.mean;
        out->correction = pf_correction(&moments);
        out->probed = s->probed[j];
        out->interval[0] = out->interval[1] = 1;
        if (j > 0) {
            pf_joint_interval(joint, j, &out->interval[0], &out->interval[1]);
        }
    }
}

const pf_task_readiness *pf_session_task(const pf_session *s, int task)
{
    return &s->tasks[task];
}

const pf_mechanism_readiness *pf_session_mechanism(const pf_session *s, int mechanism)
{
    return &s->mechanisms[mechanism];
}
