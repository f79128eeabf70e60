// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "session_impl.h"
#include "certificate.h"

#include <math.h>

pf_joint *pf__session_joint_now(pf_session *s)
{
    if (s->stage != PF_STAGE_LOOK || s->posterior) {
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

pf__delivered pf__deliver(const pf_kit *k, int task, int mechanism, double correction)
{
    double asked = 0, along = 0, sent = 0, whole = correction;
    correction = fmin(correction, policy_reach(k, task, mechanism));
    for (int r = k->task_row[task]; r < k->task_row[task + 1]; r++) {
        double u = k->task_command[(size_t)r * (size_t)k->n_mech + (size_t)mechanism];
        double v = pf__corrected_command(u, correction, k->lo[mechanism], k->hi[mechanism]);
        asked += u * u;
        along += u * v;
        sent += v * v;
    }
    double share = asked > 0 ? along / asked : correction;
    return (pf__delivered){.share = share,
                           .off_shape = asked > 0 ? fmax(0, sent / asked - share * share) : 0,
                           .asked = pf_kit_task_rows(k, task) > 0 ? 0 : whole,
                           .correction = whole};
}

double pf_kit_delivered_share(const pf_kit *k, int task, int mechanism, double correction,
                              double gain)
{
    return gain * pf__deliver(k, task, mechanism, correction).share;
}

// Moments of one mechanism; the current one is nominal by definition.
static pf_moments moments_of(const pf_joint *joint, int mechanism)
{
    return mechanism > 0 ? pf_joint_moments(joint, mechanism) : (pf_moments){0, 1, 1};
}

// --- loss of force

// On straight lines between the points of the table over gain and correction.
static double force_error(const pf_kit *k, int use, int member, double gain, double correction)
{
    enum { CELLS = PF_FORCE_GAINS * PF_FORCE_CORRECTIONS };
    const double *gains = k->force_gains;
    const double *table =
        k->force_error + ((size_t)use * (size_t)k->n_members + (size_t)member) * CELLS;
    int g = 1;
    while (g < PF_FORCE_GAINS - 1 && gains[g] < gain) {
        g++;
    }
    double around[2];
    for (int i = 0; i < 2; i++) {
        around[i] = pf__tracking_error_at(PF_FORCE_CORRECTIONS, k->corrections,
                                          table + (g - 1 + i) * PF_FORCE_CORRECTIONS, correction);
    }
    return pf__tracking_error_at(2, gains + g - 1, around, gain);
}

double pf__force_correction(const pf_kit *k, int mechanism, double healthy, int n,
                            const double *gains, const double *weights)
{
    double best = 1, least = INFINITY;
    for (int c = 0; c < PF_FORCE_CORRECTIONS; c++) {
        double correction = k->corrections[c], sum = 0;
        for (int i = 0; i < k->n_uses * k->n_members; i++) {
            int use = i / k->n_members, member = i % k->n_members;
            if (k->use_mech[use] != mechanism) {
                continue;
            }
            sum += healthy * force_error(k, use, member, 1, correction);
            for (int g = 0; g < n; g++) {
                sum += weights[g] > PF_NEGLIGIBLE
                           ? weights[g] * force_error(k, use, member, gains[g], correction)
                           : 0;
            }
        }
        // where nothing is gained by it, less is sent
        if (sum < least * (1 - 1e-6)) {
            least = sum;
            best = correction;
        }
    }
    return best;
}

double pf__right_correction(const pf_kit *k, int mechanism, double gain)
{
    const double certain = 1;
    return pf_kit_loses_force(k, mechanism)
               ? pf__force_correction(k, mechanism, 0, 1, &gain, &certain)
           : gain > 0 ? 1 / gain
                      : 1e6;
}

// The correction of a mechanism under a joint belief.
double pf__session_correction(const pf_session *s, const pf_joint *joint, int mechanism)
{
    if (mechanism > 0 && pf_kit_loses_force(s->kit, mechanism)) {
        size_t row = (size_t)(mechanism - 1) * (size_t)joint->n_grid;
        double changed = pf_joint_moments(joint, mechanism).changed;
        return pf__force_correction(s->kit, mechanism, fmax(0, 1 - changed), joint->n_grid,
                                    joint->grid, joint->mass + row);
    }
    pf_moments moments = moments_of(joint, mechanism);
    return pf__correction(&moments);
}

// --- what a task returns

// Recordings know the command only, so what is sent beside it counts as error there: sum (u - g
// clip(c u))^2 / sum u^2 = (1 - e)^2 + g^2 off_shape.
double pf__use_error(const pf_kit *k, int use, int member, double gain, pf__delivered delivered)
{
    if (pf_kit_loses_force(k, k->use_mech[use])) {
        return force_error(k, use, member, gain, delivered.correction);
    }
    size_t row = (size_t)use * (size_t)k->n_members + (size_t)member;
    const double *table = k->tracking_error + row * (size_t)k->n_shares;
    double tracking_error =
        pf__tracking_error_at(k->n_shares, k->shares, table, gain * delivered.share);
    if (delivered.asked > delivered.share) {
        // what a policy delivers beyond its reach lies between that and all of the correction
        tracking_error = fmax(tracking_error, pf__tracking_error_at(k->n_shares, k->shares, table,
                                                                    gain * delivered.asked));
    }
    return tracking_error + (k->n_response > 0 ? gain * gain * delivered.off_shape : 0);
}

static double use_error(const pf_session *s, int use, int member, double gain)
{
    int j = s->kit->use_mech[use];
    return pf__use_error(s->kit, use, member, gain,
                         (pf__delivered){s->share[j], s->off_shape[j], s->asked[j], s->sent[j]});
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

// What of a use lies beyond the gains that were ever recorded: the kit cannot say what it does
// there.
static bool beyond_knots(const pf_session *s, const pf_joint *joint, int mechanism)
{
    const pf_kit *k = s->kit;
    const double *mass = joint->mass + (size_t)(mechanism - 1) * (size_t)joint->n_grid;
    double lowest = k->knots[0], highest = fmax(1, k->knots[k->n_knots - 1]), beyond = 0;
    for (int g = 0; g < joint->n_grid; g++) {
        bool far =
            joint->grid[g] < lowest - PF_BEYOND_KNOTS || joint->grid[g] > highest + PF_BEYOND_KNOTS;
        beyond += far ? mass[g] : 0;
    }
    return beyond > PF_BEYOND_BELIEF;
}

// Whether the looks say that a mechanism is too strong. Its readings may lie beyond all that its
// categories were calibrated with, and then speak neither for nor against a loss.
static bool too_strong(const pf_joint *joint, int mechanism)
{
    double interval[2];
    pf_joint_interval(joint, mechanism, &interval[0], &interval[1]);
    return pf__too_strong(pf_joint_moments(joint, mechanism).changed, interval);
}

// What speaks against a task before any bound is computed. With the joint posterior: a mechanism
// without an informative reading, which was not probed or is too strong for its probes, and of a
// kit from recordings a gain that was never recorded. Without it also own evidence that another's
// explains away, and an amplitude beyond the weakest gain of the grid.
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
            *why = too_strong(joint, j) ? PF_WHY_TOO_STRONG : PF_WHY_NOT_PROBED;
            return true;
        }
        if (s->posterior) {
            off_grid = off_grid || (k->n_response > 0 && beyond_knots(s, joint, j));
            continue;
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

// --- the bound of a task

static void set_share(pf_session *s, int task, int mechanism, double correction)
{
    pf__delivered d = pf__deliver(s->kit, task, mechanism, correction);
    s->share[mechanism] = d.share;
    s->off_shape[mechanism] = d.off_shape;
    s->asked[mechanism] = d.asked;
    s->sent[mechanism] = d.correction;
}

// Sets what each use of a task delivers under the corrections of the joint belief.
static void set_shares(pf_session *s, const pf_joint *joint, int task)
{
    const pf_kit *k = s->kit;
    for (int u = k->task_use[task]; u < k->task_use[task + 1]; u++) {
        int j = k->use_mech[u];
        set_share(s, task, j, pf__session_correction(s, joint, j));
    }
}

static pf_task_model model_of(const pf_session *s, int task, task_at *at)
{
    const pf_kit *k = s->kit;
    *at = (task_at){s, k->task_use[task], k->task_use[task + 1] - k->task_use[task]};
    return (pf_task_model){at, k->n_members, at->n, k->use_mech + at->first, use_returns};
}

// Whether a use keeps the promise at a gain: no more curves fall short of j_min than let a new run
// do so with probability alpha at most. Few curves cannot tell.
static bool harmless(const pf_session *s, const pf_task_model *model, int use, double gain)
{
    const pf_kit *k = s->kit;
    int may = (int)(k->alpha * (k->n_members + 1) + 1e-9), fall = 0;
    for (int e = 0; e < k->n_members && fall < may; e++) {
        double ret = 0;
        model->returns(model->self, e, use, 1, &gain, &ret, NULL);
        fall += !(ret >= k->j_min);
    }
    return fall < may;
}

// Whether a mechanism is still suspected of a loss: its probability has not fallen to a small share
// of what it was before the first look. Where there are curves enough only losses count that break
// the promise: the mildest one can be told from none by no look.
static bool suspected(const pf_session *s, const pf_joint *joint, const pf_task_model *model,
                      int use)
{
    int mechanism = model->uses[use];
    double least = mechanism > 0 ? PF_SUSPECTED_SHARE * s->kit->prior[mechanism] : 0;
    if (mechanism == 0 || pf_joint_moments(joint, mechanism).changed < least ||
        s->kit->n_members < PF_HARMLESS_CURVES) {
        return mechanism > 0 && pf_joint_moments(joint, mechanism).changed >= least;
    }
    const double *mass = joint->mass + (size_t)(mechanism - 1) * (size_t)joint->n_grid;
    double harm = 0;
    for (int g = 0; g < joint->n_grid && joint->grid[g] < 1 && harm < least; g++) {
        bool counts = mass[g] > PF_NEGLIGIBLE * least;
        harm += counts && !harmless(s, model, use, joint->grid[g]) ? mass[g] : 0;
    }
    return harm >= least;
}

// Gains that would return less than j_min and that no look has spoken against; false: there are
// none of weight, or something speaks for a loss.
static bool unseen_loss(const pf_session *s, const pf_joint *joint, int task, int use,
                        double *range)
{
    const pf_kit *k = s->kit;
    task_at at;
    pf_task_model model = model_of(s, task, &at);
    int mechanism = k->use_mech[at.first + use];
    const double *mass = joint->mass + (size_t)(mechanism - 1) * (size_t)joint->n_grid;
    double weight[PF_POSTERIOR_GAINS], bad = 0, spoken = 0, all = 0;
    pf__posterior_prior(weight);
    range[0] = 1;
    range[1] = 0;
    if (pf_joint_moments(joint, mechanism).changed > k->prior[mechanism]) {
        return false;
    }
    double healthy = 1 - pf_joint_moments(joint, mechanism).changed;
    for (int g = 0; g < joint->n_grid && joint->grid[g] < 1; g++) {
        double mean = 0, ret;
        for (int e = 0; e < k->n_members; e++) {
            use_returns(model.self, e, use, 1, &joint->grid[g], &ret, NULL);
            mean += ret / k->n_members;
        }
        // odds against healthy, relative to what they were
        double before = k->prior[mechanism] * weight[g] / (1 - k->prior[mechanism]);
        bool for_it = mass[g] > PF_UNSEEN_MOST * before * healthy;
        bool unseen = mass[g] > PF_UNSEEN_SHARE * before * healthy && !for_it;
        all += mass[g];
        spoken += mean < k->j_min && for_it ? mass[g] : 0;
        if (mean < k->j_min && unseen) {
            bad += mass[g];
            range[0] = fmin(range[0], joint->grid[g]);
            range[1] = fmax(range[1], joint->grid[g]);
        }
    }
    return bad > k->alpha * all && !(spoken > k->alpha * all);
}

// The prediction of a task. Under the joint posterior its bound is the lower of two: over all
// hypotheses, and given that a mechanism that is still suspected has lost strength. A healthy
// majority would hide a mild loss otherwise. Where only losses that no probe shows keep the bound
// down, `unseen` has their gains (else 1 and 0).
static pf_prediction predict_task(pf_session *s, const pf_joint *joint, int task, double *unseen)
{
    const pf_kit *k = s->kit;
    task_at at;
    pf_prediction p, given;
    unseen[0] = 1;
    unseen[1] = 0;
    set_shares(s, joint, task);
    pf_task_model model = model_of(s, task, &at);
    pf_bound_rule rule = {k->alpha, k->bound == PF_BOUND_WORST};
    if (!s->posterior) {
        pf__predict_task(&model, joint, rule, s->probability, s->returns, &p, NULL);
        return p;
    }
    pf__predict_task_given(&model, joint, -1, rule, s->probability, s->returns, s->gains, &p, NULL);
    double lower = p.lower;
    bool only_unseen = true;
    for (int u = 0; u < at.n; u++) {
        if (!suspected(s, joint, &model, u)) {
            continue;
        }
        pf__predict_task_given(&model, joint, u, rule, s->probability, s->returns, s->gains, &given,
                               NULL);
        if (!(given.lower >= k->j_min)) {
            double range[2] = {1, 0};
            only_unseen = only_unseen && unseen_loss(s, joint, task, u, range);
            unseen[0] = fmin(unseen[0], range[0]);
            unseen[1] = fmax(unseen[1], range[1]);
        }
        lower = fmin(lower, given.lower);
    }
    if (!only_unseen || !(p.lower >= k->j_min) || lower >= k->j_min) {
        unseen[0] = 1;
        unseen[1] = 0;
    }
    p.lower = lower;
    return p;
}

// What the rehearsal makes of a task whose bound is met, or unmet only for losses that no probe
// shows: a run of the task itself would have shown them.
static void judge_rehearsal(const pf_session *s, int task, bool met, pf_task_readiness *out)
{
    const pf__rehearsal *r = &s->rehearsal[task];
    bool passed = pf__session_confirmed(s, task);
    bool ran = passed || r->state == PF__REHEARSAL_FAILED;
    pf_why doubt = pf__session_misfit(s) ? PF_WHY_MISFIT : PF_WHY_UNEXPLAINED;
    out->decision = PF_GO_IF;
    out->why = met ? PF_WHY_NOT_REHEARSED : PF_WHY_UNSEEN_LOSS;
    out->rehearsed = !ran ? PF_REHEARSED_NOT : r->apart ? PF_REHEARSED_APART : PF_REHEARSED_GROUP;
    if (passed) {
        double bound = fmax(r->bound, s->kit->j_min); // passing says so
        out->lower = met ? fmin(out->lower, bound) : bound;
        out->decision = PF_GO;
        out->why = PF_WHY_CERTIFIED;
    } else if (r->state == PF__REHEARSAL_FAILED) {
        out->decision = PF_NO_GO;
        out->why = pf__session_doubt(s) ? doubt : PF_WHY_REHEARSAL;
    } else if (pf__session_doubt(s)) {
        out->decision = PF_NO_GO;
        out->why = doubt;
    } else if (r->failed) { // with others, and never alone
        out->decision = PF_NO_GO;
        out->why = PF_WHY_REHEARSAL;
        out->rehearsed = PF_REHEARSED_GROUP;
    }
}

// may: whether a rehearsal could make it go, that is its bound is met, or unmet only for losses
// that no probe shows. Nullable.
static pf_task_readiness certify_task(pf_session *s, const pf_joint *joint, int task, bool *may)
{
    const pf_kit *k = s->kit;
    pf_task_readiness out = {.decision = PF_NO_GO, .why = PF_WHY_NOT_PROBED};
    pf_prediction p = predict_task(s, joint, task, out.unseen);
    out.mean = p.mean;
    out.sd = sqrt(p.variance);
    out.lower = p.lower;
    if (may) {
        *may = false;
    }
    if (s->rules.field && task_blocked(s, joint, task, &out.why)) {
        return out;
    }
    out.decision = pf__decide(p.lower, k->j_min, true, &out.why);
    bool met = out.decision == PF_GO, unseen = out.unseen[1] > 0;
    if (may) {
        *may = met || unseen;
    }
    if (s->rules.field && (met || unseen)) {
        judge_rehearsal(s, task, met, &out);
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
        bool may;
        certify_task(s, joint, task, &may);
        if (!may) {
            return false;
        }
    }
    return true;
}

bool pf__session_may_go(pf_session *s, int task)
{
    bool may;
    certify_task(s, pf__session_joint_now(s), task, &may);
    return may;
}

// The best return that a use can have at a gain, with the correction that is right for it.
static double best_return(pf_session *s, int task, int use, double gain)
{
    const pf_kit *k = s->kit;
    int j = k->use_mech[use];
    double mean = 0;
    set_share(s, task, j, pf__right_correction(k, j, gain));
    s->asked[j] = 0;
    for (int e = 0; e < k->n_members; e++) {
        mean += pf__return(use_error(s, use, e, gain)) / k->n_members;
    }
    return mean;
}

// Whether a task can never be go: one of its mechanisms has certainly so little left that even the
// right correction returns less than j_min.
static bool hopeless(pf_session *s, const pf_joint *joint, int task)
{
    const pf_kit *k = s->kit;
    for (int u = k->task_use[task]; u < k->task_use[task + 1]; u++) {
        int j = k->use_mech[u];
        if (j == 0 || pf_joint_moments(joint, j).changed < 1 - PF_SETTLED_DOUBT) {
            continue;
        }
        const double *mass = joint->mass + (size_t)(j - 1) * (size_t)joint->n_grid;
        double hope = 1;
        for (int g = 0; g < joint->n_grid && hope >= PF_SETTLED_DOUBT; g++) {
            if (mass[g] > PF_NEGLIGIBLE && best_return(s, task, u, joint->grid[g]) < k->j_min) {
                hope -= mass[g];
            }
        }
        if (hope < PF_SETTLED_DOUBT) {
            return true;
        }
    }
    return false;
}

bool pf__session_settled(pf_session *s)
{
    const pf_kit *k = s->kit;
    if (!s->posterior) {
        return false;
    }
    // a certain loss first: it is the cheap question
    bool certain = false;
    for (int j = 1; j <= s->m && !certain; j++) {
        certain = pf_joint_moments(&s->joint, j).changed >= 1 - PF_SETTLED_DOUBT;
    }
    for (int task = 0; task < k->n_tasks && certain; task++) {
        if (!hopeless(s, &s->joint, task) && !pf__session_may_go(s, task)) {
            return false;
        }
    }
    return certain;
}

// --- doubt

double pf__misfit_level(const pf_session *s)
{
    return s->posterior && s->kit->n_misfit > 0
               ? pf__misfit_value(&s->misfit, s->kit) / s->kit->misfit_level
               : 0;
}

bool pf__session_misfit(const pf_session *s)
{
    return s->posterior && (s->misfit.implausible > 0 || pf__misfit_level(s) > 1);
}

bool pf__session_named(const pf_session *s)
{
    for (int j = 1; j <= s->m; j++) {
        if (pf_joint_moments(&s->joint, j).changed > PF_NAMED &&
            (s->posterior || s->stage != PF_STAGE_LOOK)) {
            return true;
        }
    }
    return false;
}

bool pf__session_doubt(const pf_session *s)
{
    return s->posterior && (pf__session_misfit(s) || (s->alarm && !pf__session_named(s)));
}

bool pf__session_open_question(const pf_session *s)
{
    return s->posterior && s->alarm && !pf__session_misfit(s) && !pf__session_named(s) &&
           s->joint.nominal < 1 - PF_DISMISSED;
}

bool pf__session_explained(const pf_session *s)
{
    bool clean = true;
    for (int t = 0; t < s->kit->n_tasks; t++) {
        clean = clean && s->rehearsal[t].state == PF__REHEARSAL_PASSED && s->rehearsal[t].apart;
    }
    return clean || !pf__session_doubt(s);
}

void pf__session_forget_answers(pf_session *s)
{
    for (int task = 0; task < s->kit->n_tasks; task++) {
        s->tasks[task] = (pf_task_readiness){.mean = NAN, .sd = NAN, .lower = NAN};
    }
    for (int j = 0; j <= s->m; j++) {
        s->mechanisms[j] = (pf_mechanism_readiness){NAN, NAN, {NAN, NAN}, 1, false};
    }
}

void pf_session_certify(pf_session *s)
{
    const pf_joint *joint = pf__session_joint_now(s);
    for (int task = 0; task < s->kit->n_tasks; task++) {
        s->tasks[task] = certify_task(s, joint, task, NULL);
    }
    for (int j = 0; j <= s->m; j++) {
        pf_mechanism_readiness *out = &s->mechanisms[j];
        pf_moments moments = moments_of(joint, j);
        out->changed = moments.changed;
        out->mean_gain = moments.mean;
        if (joint->cells && j > 0) {
            out->mean_gain = pf__joint_mean_if_changed(joint, j);
        }
        out->correction = pf__session_correction(s, joint, j);
        out->interval[0] = out->interval[1] = 1;
        if (j > 0) {
            pf_joint_interval(joint, j, &out->interval[0], &out->interval[1]);
        }
        out->probed = s->probed[j] || pf__too_strong(out->changed, out->interval);
    }
}

const pf_task_readiness *pf_session_task(const pf_session *s, int task)
{
    static const pf_task_readiness none = {.decision = PF_NO_GO, .why = PF_WHY_NOT_PROBED};
    return task >= 0 && task < s->kit->n_tasks ? &s->tasks[task] : &none;
}

const pf_mechanism_readiness *pf_session_mechanism(const pf_session *s, int mechanism)
{
    static const pf_mechanism_readiness none = {0, 1, {0, 1}, 1, false};
    return mechanism >= 0 && mechanism <= s->m ? &s->mechanisms[mechanism] : &none;
}
