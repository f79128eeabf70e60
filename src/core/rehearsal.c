// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "rehearsal.h"
#include "certificate.h"
#include "session_impl.h"

#include <math.h>
#include <string.h>

// --- the distance

void pf__blind_remove(int n, const double *unit, double *difference)
{
    double along = 0;
    for (int i = 0; i < n; i++) {
        along += unit[i] * difference[i];
    }
    for (int i = 0; i < n; i++) {
        difference[i] -= along * unit[i];
    }
}

int pf__rehearsal_numbers(const pf_kit *k, int which)
{
    int n_blind = 0;
    pf__kit_blind(k, which, &n_blind);
    return pf__kit_run_rows(k, which) * k->n_chan - n_blind;
}

double pf__rehearsal_distance(const pf_kit *k, int which, const double *a, const double *b,
                              double *work)
{
    int n_blind = 0, rows = pf__kit_run_rows(k, which), n = rows * k->n_chan;
    const double *blind = pf__kit_blind(k, which, &n_blind);
    if (n_blind == 0) {
        return pf__tracking_distance(rows, k->n_chan, k->return_scale, a, b);
    }
    for (int i = 0; i < n; i++) {
        work[i] = (a[i] - b[i]) / k->return_scale[i % k->n_chan];
    }
    for (int i = 0; i < n_blind; i++) {
        pf__blind_remove(n, blind + (size_t)i * (size_t)n, work);
    }
    double sum = 0;
    for (int i = 0; i < n; i++) {
        sum += work[i] * work[i];
    }
    return sum;
}

// --- the rule

pf__rehearsal_rule pf__rehearsal_rule_of(const pf_kit *k, const double *numbers, double energy,
                                         int n)
{
    double theta = pf__error_of(k->j_min);
    theta *= 1 - k->rehearsal_strictness;
    energy = fmin(energy, numbers[PF_REHEARSAL_ENERGY]);
    return (pf__rehearsal_rule){.mean = numbers[PF_REHEARSAL_MEAN],
                                .sd = numbers[PF_REHEARSAL_SD],
                                .clean = numbers[PF_REHEARSAL_CLEAN],
                                .cv = numbers[PF_REHEARSAL_CV],
                                .energy = energy,
                                .limit = theta * energy,
                                .n = n,
                                .runs = 1};
}

// A sum of n squares cannot spread less than chi-square does, whatever a file says.
static double least_spread(const pf__rehearsal_rule *r)
{
    return r->mean * sqrt(2.0 / r->n);
}

// What noise alone does, over what the task may miss.
static double noise_of(const pf__rehearsal_rule *r)
{
    return fmax(r->clean - r->mean, least_spread(r)) / r->limit;
}

int pf__rehearsal_runs(const pf_kit *k, const double *numbers, int n)
{
    pf__rehearsal_rule r = pf__rehearsal_rule_of(k, numbers, INFINITY, n);
    double noise = noise_of(&r);
    return noise <= 1 ? 1 : noise < PF_REHEARSALS_MOST ? (int)ceil(noise * noise) : INT32_MAX;
}

// Runs of a task that its noise asks for; INT32_MAX: more than it is worth.
static int noise_runs(const pf_kit *k, int task)
{
    return pf__rehearsal_runs(k, k->rehearsal + (size_t)task * PF_REHEARSAL_NUMBERS,
                              pf__rehearsal_numbers(k, task));
}

int pf_kit_task_rehearsals(const pf_kit *k, int task)
{
    if (k->n_rehearse == 0 || k->rehearsal_rows[task] == 0) {
        return 0;
    }
    int noise = noise_runs(k, task);
    return noise == INT32_MAX ? 0 : noise > k->rehearsals ? noise : k->rehearsals;
}

int pf__rehearsal_budget(const pf_kit *k)
{
    int64_t needed = (int64_t)k->n_groups * k->rehearsals;
    for (int t = 0; t < k->n_tasks; t++) {
        needed += pf_kit_task_rehearsals(k, t);
    }
    for (int i = 0; i < k->n_grouped && k->rehearsals < PF_REHEARSALS_AFTER_GROUP; i++) {
        needed += PF_REHEARSALS_AFTER_GROUP - k->rehearsals;
    }
    return needed < 100000 ? (int)needed : 100000;
}

double pf__rehearsal_spread(const pf__rehearsal_rule *r, double x)
{
    // noise alone, noise times what is missed, and how differently starts miss
    return sqrt((r->sd * r->sd + 4 * x * r->mean / r->n) / r->runs + r->cv * r->cv * x * x);
}

bool pf__rehearsal_passes(const pf__rehearsal_rule *r, double d)
{
    double sure = r->limit - PF_REHEARSAL_SDS * pf__rehearsal_spread(r, r->limit);
    double as_healthy = fmin((r->clean - r->mean) / sqrt(r->runs), r->limit);
    return d - r->mean <= fmax(sure, as_healthy);
}

bool pf__rehearsal_clean(const pf__rehearsal_rule *r, double d)
{
    return d - r->mean <= (r->clean - r->mean) / sqrt(r->runs);
}

double pf__rehearsal_bound(const pf__rehearsal_rule *r, double d)
{
    double x = fmax(0, d - r->mean);
    return exp(-(x + PF_REHEARSAL_SDS * pf__rehearsal_spread(r, x)) / r->energy);
}

// The group of the first run before there was one.
enum { NO_RUN = -2 };

// --- where a task just fails

// Mean over members of the tracking error of a use at a share, and its spread.
static double error_at(const pf_kit *k, int use, double share, double *sd)
{
    double mean = 0, square = 0;
    for (int e = 0; e < k->n_members; e++) {
        size_t row = (size_t)use * (size_t)k->n_members + (size_t)e;
        double nte = pf__tracking_error_at(k->n_shares, k->shares,
                                           k->tracking_error + row * (size_t)k->n_shares, share);
        mean += nte / k->n_members;
        square += nte * nte / k->n_members;
    }
    *sd = sqrt(fmax(0, square - mean * mean));
    return mean;
}

double pf__use_edge(const pf_kit *k, int use, bool above, double *cv)
{
    double theta = pf__error_of(k->j_min), sd, inside = 1;
    double edge = above ? k->shares[k->n_shares - 1] : k->shares[0];
    int step = above ? 1 : -1, i = above ? 0 : k->n_shares - 1;
    for (; i >= 0 && i < k->n_shares; i += step) {
        double share = k->shares[i];
        if (above ? share <= 1 : share >= 1) {
            continue;
        }
        double here = error_at(k, use, share, &sd), before = error_at(k, use, inside, &sd);
        if (here >= theta) {
            double part = here > before ? (theta - before) / (here - before) : 1;
            edge = inside + fmin(1, fmax(0, part)) * (share - inside);
            break;
        }
        inside = share;
    }
    double mean = error_at(k, use, edge, &sd);
    *cv = mean > 0 ? fmax(*cv, sd / mean) : *cv;
    return edge;
}

// --- what may be rehearsed

// Largest share of its command that a use delivers on a machine of some weight: a correction that
// is wrong must not overdrive a sound mechanism. A policy gets the whole of its correction.
static double largest_share(const pf_session *s, const pf_joint *joint, int task, int mechanism)
{
    const pf_kit *k = s->kit;
    double correction = s->rehearsal_correction[mechanism], above = 0, gain = 1;
    double share = pf_kit_task_rows(k, task) == 0
                       ? correction
                       : pf_kit_delivered_share(k, task, mechanism, correction, 1);
    for (int g = joint->n_grid - 1; mechanism > 0 && g >= 0; g--) {
        above += joint->mass[(size_t)(mechanism - 1) * (size_t)joint->n_grid + (size_t)g];
        if (above > PF_REHEARSAL_WEIGHT) {
            gain = fmax(gain, joint->grid[g]);
            break;
        }
    }
    return share * gain;
}

static bool within_slew(const pf_session *s, int rows, const double *command)
{
    const pf_kit *k = s->kit;
    for (int i = 0; i < rows * k->n_mech; i++) {
        int j = i % k->n_mech;
        double before = i >= k->n_mech ? command[i - k->n_mech] : 0;
        if (fabs(command[i] - before) > k->slew[j] * (1 + 1e-9)) {
            return false;
        }
    }
    return true;
}

// Adds the command of a task, corrected and within limits. The current mechanism does what it does
// in the task, listed or not.
static void add_command(pf_session *s, int task)
{
    const pf_kit *k = s->kit;
    const double *asked = pf_kit_task_command(k, task);
    for (int i = 0; i < pf_kit_task_rows(k, task) * k->n_mech; i++) {
        int j = i % k->n_mech;
        s->rehearsal_command[i] +=
            pf__corrected_command(asked[i], s->rehearsal_correction[j], k->lo[j], k->hi[j]);
    }
}

static int longer(int a, int b)
{
    return a > b ? a : b;
}

// Builds the command of the tasks in s->rehearsing; false: it would leave the limits of the design.
static bool build_command(pf_session *s, int n, int group)
{
    const pf_kit *k = s->kit;
    const pf_joint *joint = pf__session_joint_now(s);
    double excursion = 0;
    int rows = 0, n_mech = k->n_mech;
    bool policy = pf_kit_task_rows(k, s->rehearsing[0]) == 0;
    for (int i = 0; i < n; i++) {
        rows = longer(rows, k->rehearsal_rows[s->rehearsing[i]]);
    }
    // a group is known as a whole: a task that does not run rests in it
    for (int i = group < 0 ? 0 : k->group_first[group]; group >= 0 && i < k->group_first[group + 1];
         i++) {
        rows = longer(rows, k->rehearsal_rows[k->group_task[i]]);
    }
    memset(s->rehearsal_command, 0, sizeof(double) * (size_t)rows * (size_t)n_mech);
    for (int i = 0; i < n; i++) {
        int task = s->rehearsing[i];
        add_command(s, task);
        for (int u = k->task_use[task]; u < k->task_use[task + 1] && k->n_bounded > 0; u++) {
            excursion += k->excursion[u] * largest_share(s, joint, task, k->use_mech[u]);
        }
    }
    s->ask = (pf_ask){.kind = PF_ASK_REHEARSAL,
                      .stage = PF_STAGE_REHEARSE,
                      .probe = -1,
                      .rows = rows,
                      .n_tasks = n,
                      .tasks = s->rehearsing,
                      .command = policy ? NULL : s->rehearsal_command,
                      .correction = s->rehearsal_correction};
    return excursion <= 1 && (policy || within_slew(s, rows, s->rehearsal_command));
}

// --- what comes next

static bool due(const pf_session *s, int task)
{
    return s->rehearsal[task].state == PF__REHEARSAL_DUE ||
           s->rehearsal[task].state == PF__REHEARSAL_ALONE;
}

// The runs so far count for nothing.
static void start_again(pf__rehearsal *r, pf__rehearsal_state state, bool apart)
{
    bool failed = r->failed;
    *r = (pf__rehearsal){
        .state = state, .energy = INFINITY, .apart = apart, .failed = failed, .bound = 1};
}

static void set_all(pf_session *s, pf__rehearsal_state from, pf__rehearsal_state to)
{
    for (int t = 0; t < s->kit->n_tasks; t++) {
        if (s->rehearsal[t].state == from) {
            s->rehearsal[t].state = to;
        }
    }
}

static int runs_of(const pf_session *s, int task)
{
    int noise = noise_runs(s->kit, task), asked = s->rules.rehearsals;
    if (s->rehearsal[task].failed && asked < PF_REHEARSALS_AFTER_GROUP) {
        asked = PF_REHEARSALS_AFTER_GROUP;
    }
    return noise > asked ? noise : asked;
}

// Whether a learned model errs about a group by more than what just fails would show: its run says
// nothing, and a task is not to answer for that.
static bool group_drowned(const pf_kit *k, int group)
{
    const double *numbers = k->group_rehearsal + (size_t)group * PF_REHEARSAL_NUMBERS;
    return k->n_blind > 0 &&
           pf__rehearsal_runs(k, numbers, pf__rehearsal_numbers(k, k->n_tasks + group)) > 1;
}

// The next group with at least two tasks that are due in it.
static bool next_group(pf_session *s)
{
    const pf_kit *k = s->kit;
    for (int g = 0; g < k->n_groups; g++) {
        int n = 0;
        for (int i = k->group_first[g]; i < k->group_first[g + 1]; i++) {
            if (s->rehearsal[k->group_task[i]].state == PF__REHEARSAL_DUE) {
                s->rehearsing[n++] = k->group_task[i];
            }
        }
        if (n >= 2 && !group_drowned(k, g) && build_command(s, n, g)) {
            s->group = g;
            return true;
        }
        for (int i = 0; i < n; i++) {
            s->rehearsal[s->rehearsing[i]].state = PF__REHEARSAL_ALONE;
        }
    }
    return false;
}

static bool next_alone(pf_session *s)
{
    for (int t = 0; t < s->kit->n_tasks; t++) {
        if (!due(s, t)) {
            continue;
        }
        s->rehearsing[0] = t;
        if (build_command(s, 1, -1)) {
            s->group = -1;
            return true;
        }
        s->rehearsal[t].state = PF__REHEARSAL_IMPOSSIBLE;
    }
    return false;
}

bool pf__session_next_rehearsal(pf_session *s)
{
    if (s->rehearsals >= s->rules.budget3) {
        set_all(s, PF__REHEARSAL_DUE, PF__REHEARSAL_IMPOSSIBLE);
        set_all(s, PF__REHEARSAL_ALONE, PF__REHEARSAL_IMPOSSIBLE);
        return false;
    }
    bool groups = s->rules.rehearse == PF_REHEARSE_GROUP && !pf__session_doubt(s);
    if ((groups && next_group(s)) || next_alone(s)) {
        return true;
    }
    bool again = false;
    for (int t = 0; t < s->kit->n_tasks; t++) {
        again = again ||
                (s->rehearsal[t].state == PF__REHEARSAL_PASSED && !pf__session_confirmed(s, t));
    }
    for (int t = 0; t < s->kit->n_tasks && again; t++) {
        if (s->rehearsal[t].state == PF__REHEARSAL_PASSED && !s->rehearsal[t].apart) {
            start_again(&s->rehearsal[t], PF__REHEARSAL_ALONE, false);
        }
    }
    return again && next_alone(s);
}

bool pf__session_confirmed(const pf_session *s, int task)
{
    const pf__rehearsal *r = &s->rehearsal[task];
    if (r->state != PF__REHEARSAL_PASSED || r->apart) {
        return r->state == PF__REHEARSAL_PASSED;
    }
    bool confirmed = s->other_run;
    for (int t = 0; t < s->kit->n_tasks && confirmed; t++) {
        confirmed = s->rehearsal[t].state != PF__REHEARSAL_FAILED;
    }
    return confirmed;
}

void pf__session_reset_rehearsals(pf_session *s)
{
    const pf_kit *k = s->kit;
    s->rehearsals = 0;
    s->first_group = NO_RUN;
    s->other_run = false;
    for (int t = 0; t < k->n_tasks; t++) {
        bool can = s->rules.field && s->rules.rehearse != PF_REHEARSE_NONE && k->n_rehearse > 0 &&
                   k->rehearsal_rows[t] > 0 && noise_runs(k, t) < INT32_MAX;
        bool drowned = can && noise_runs(k, t) > 1; // in the noise of a group
        s->rehearsal[t] = (pf__rehearsal){.state = drowned ? PF__REHEARSAL_ALONE
                                                   : can   ? PF__REHEARSAL_DUE
                                                           : PF__REHEARSAL_IMPOSSIBLE,
                                          .energy = INFINITY,
                                          .bound = 1};
    }
}

bool pf__session_start_rehearsals(pf_session *s)
{
    pf_session_certify(s); // bounds and corrections as they are from here on
    for (int j = 0; j < s->kit->n_mech; j++) {
        s->rehearsal_correction[j] = s->mechanisms[j].correction;
    }
    for (int t = 0; t < s->kit->n_tasks; t++) {
        if (!pf__session_may_go(s, t)) {
            s->rehearsal[t].state = PF__REHEARSAL_IMPOSSIBLE; // what is no-go need not run
        }
    }
    pf__session_forget_answers(s); // nobody asked for a verdict
    return pf__session_next_rehearsal(s);
}

// --- what a response says

typedef struct judge {
    pf_session *s;
    const pf_tell *tell;
    const pf_predictor *predictor;
    pf_error *error;
} judge;

static pf_status predict(const judge *j, const double *command, const double *gains, double *out)
{
    const pf_session *s = j->s;
    pf_run run = {.task = s->rehearsing[0],
                  .command = command,
                  .rows = s->ask.rows,
                  .idle = command == s->idle_command,
                  .gains = gains};
    if (!j->predictor || !j->predictor->run) {
        return pf_fail(j->error, PF_ERR_PREDICTION,
                       "rehearsal: nothing predicts a command that is no probe");
    }
    pf_status status = j->predictor->run(j->predictor->self, &run, j->tell->start, j->tell->n_start,
                                         out, j->error);
    for (int i = 0; status == PF_OK && i < s->ask.rows * s->kit->n_chan; i++) {
        if (!isfinite(out[i])) {
            return pf_fail(j->error, PF_ERR_NONFINITE,
                           "prediction: row %d, channel %d is not finite", i / s->kit->n_chan,
                           i % s->kit->n_chan);
        }
    }
    return status;
}

static double distance(const pf_session *s, const double *a, const double *b)
{
    int which = s->group >= 0 ? s->kit->n_tasks + s->group : s->rehearsing[0];
    return pf__rehearsal_distance(s->kit, which, a, b, s->rehearsal_work);
}

// The uncorrected commands of all tasks that run, added.
static const double *asked_command(pf_session *s)
{
    const pf_kit *k = s->kit;
    int n_mech = k->n_mech;
    if (!s->ask.command) {
        return NULL;
    }
    memset(s->asked_command, 0, sizeof(double) * (size_t)s->ask.rows * (size_t)n_mech);
    for (int i = 0; i < s->ask.n_tasks; i++) {
        int task = s->rehearsing[i];
        const double *asked = pf_kit_task_command(k, task);
        for (int a = 0; a < pf_kit_task_rows(k, task) * n_mech; a++) {
            s->asked_command[a] += asked[a];
        }
    }
    return s->asked_command;
}

// The least that the whole of a group shows of a task that just misses j_min: what cannot be seen
// in the whole must run alone.
static pf_status least_visible(const judge *j, const double *asked, double *least)
{
    pf_session *s = j->s;
    const pf_kit *k = s->kit;
    pf_status status = PF_OK;
    *least = INFINITY;
    for (int i = 0; i < s->ask.n_tasks; i++) {
        int task = s->rehearsing[i];
        for (int e = 2 * k->task_use[task]; e < 2 * k->task_use[task + 1] && status == PF_OK; e++) {
            int mechanism = k->use_mech[e / 2];
            for (int m = 0; m < k->n_mech; m++) {
                s->others[m] = m == mechanism ? k->use_edge[e] : 1;
            }
            status = mechanism > 0 ? predict(j, asked, s->others, s->rehearsal_other) : PF_OK;
            if (status == PF_OK && mechanism > 0) {
                *least = fmin(*least, distance(s, s->rehearsal_other, s->rehearsal_nominal));
            }
        }
    }
    return status;
}

static pf_status rule_of_group(const judge *j, const double *asked, pf__rehearsal_rule *rule)
{
    pf_session *s = j->s;
    const pf_kit *k = s->kit;
    double numbers[PF_REHEARSAL_NUMBERS], visible;
    memcpy(numbers, k->group_rehearsal + (size_t)s->group * PF_REHEARSAL_NUMBERS, sizeof numbers);
    for (int i = 0; i < s->ask.n_tasks; i++) {
        const double *own = k->rehearsal + (size_t)s->rehearsing[i] * PF_REHEARSAL_NUMBERS;
        double energy = own[PF_REHEARSAL_ENERGY], cv = own[PF_REHEARSAL_CV];
        numbers[PF_REHEARSAL_ENERGY] = i == 0 ? energy : fmin(numbers[PF_REHEARSAL_ENERGY], energy);
        numbers[PF_REHEARSAL_CV] = i == 0 ? cv : fmax(numbers[PF_REHEARSAL_CV], cv);
    }
    *rule = pf__rehearsal_rule_of(k, numbers, INFINITY,
                                  pf__rehearsal_numbers(k, k->n_tasks + s->group));
    pf_status status = least_visible(j, asked, &visible);
    // what just fails must show in the whole, and what shows of it is measured by that
    double theta = rule->limit / rule->energy;
    rule->limit = fmin(rule->limit, (1 - k->rehearsal_strictness) * visible);
    rule->energy = fmin(rule->energy, rule->limit / theta);
    return status;
}

static pf_status rule_of_task(const judge *j, pf__rehearsal_rule *rule)
{
    pf_session *s = j->s;
    const pf_kit *k = s->kit;
    pf_status status = predict(j, s->idle_command, NULL, s->rehearsal_other);
    if (status == PF_OK) {
        double energy = distance(s, s->rehearsal_nominal, s->rehearsal_other);
        *rule =
            pf__rehearsal_rule_of(k, k->rehearsal + (size_t)s->rehearsing[0] * PF_REHEARSAL_NUMBERS,
                                  energy, pf__rehearsal_numbers(k, s->rehearsing[0]));
    }
    return status;
}

static void pass(const pf_session *s, pf__rehearsal *r, int needed, double bound)
{
    r->runs++;
    r->apart = s->group < 0;
    r->bound = fmin(r->bound, bound);
    r->state = r->runs >= needed ? PF__REHEARSAL_PASSED : r->state;
}

// A run of several tasks at once: all of them passed, or each runs alone.
static void settle_group(pf_session *s, const pf__rehearsal_rule *rule, double d)
{
    bool visible = rule->limit >= PF_REHEARSAL_VISIBLE_SDS * fmax(rule->sd, least_spread(rule));
    s->rehearsed_passed = isfinite(d) && visible && pf__rehearsal_passes(rule, d);
    for (int i = 0; i < s->ask.n_tasks; i++) {
        pf__rehearsal *r = &s->rehearsal[s->rehearsing[i]];
        if (s->rehearsed_passed) {
            pass(s, r, s->rules.rehearsals, pf__rehearsal_bound(rule, d));
        } else {
            r->failed = r->failed || !(isfinite(d) && pf__rehearsal_passes(rule, d));
            start_again(r, PF__REHEARSAL_ALONE, false);
        }
    }
}

// A run of one task. Every run must be fair by itself; the mean of all of them decides.
static void settle_alone(pf_session *s, const pf__rehearsal_rule *one, double d)
{
    int needed = runs_of(s, s->rehearsing[0]);
    pf__rehearsal *r = &s->rehearsal[s->rehearsing[0]];
    pf__rehearsal_rule rule = *one;
    double theta = rule.limit / rule.energy;
    bool drowned = noise_runs(s->kit, s->rehearsing[0]) > 1; // one run says little by itself
    bool fair =
        isfinite(d) && rule.energy > 0 && noise_of(one) <= PF_REHEARSALS_MOST &&
        (pf__rehearsal_passes(one, d) || (drowned && d <= rule.clean + PF_REHEARSAL_SDS * rule.sd));
    r->sum += fair ? d : 0;
    r->energy = fmin(r->energy, rule.energy);
    rule.runs = r->runs + 1;
    rule.energy = r->energy;
    rule.limit = theta * rule.energy;
    double mean = r->sum / rule.runs;
    if (fair && rule.runs >= needed) {
        fair = pf__rehearsal_passes(&rule, mean) &&
               (!pf__session_doubt(s) || pf__rehearsal_clean(&rule, mean));
    }
    s->rehearsed_passed = fair;
    if (fair) {
        pass(s, r, needed, rule.runs >= needed ? pf__rehearsal_bound(&rule, mean) : 1);
    } else {
        start_again(r, PF__REHEARSAL_FAILED, true);
    }
}

pf_status pf__session_tell_rehearsal(pf_session *s, const pf_tell *tell,
                                     const pf_predictor *predictor, pf_error *error)
{
    pf_predictor recorded = pf__recorded_predictor(s->kit);
    judge j = {s, tell, predictor || s->kit->n_response == 0 ? predictor : &recorded, error};
    for (int i = 0; i < tell->rows * tell->channels; i++) {
        if (!isfinite(tell->response[i])) {
            return pf_fail(error, PF_ERR_NONFINITE, "response: row %d, channel %d is not finite",
                           i / tell->channels, i % tell->channels);
        }
    }
    pf__rehearsal_rule rule;
    const double *asked = asked_command(s);
    pf_status status = predict(&j, asked, NULL, s->rehearsal_nominal);
    if (status == PF_OK) {
        status = s->group >= 0 ? rule_of_group(&j, asked, &rule) : rule_of_task(&j, &rule);
    }
    if (status != PF_OK) {
        return status;
    }
    s->other_run = s->other_run || (s->first_group != NO_RUN && s->group != s->first_group);
    s->first_group = s->first_group == NO_RUN ? s->group : s->first_group;
    double d = distance(s, tell->response, s->rehearsal_nominal);
    s->rehearsed_distance = d;
    for (int c = 0; c < tell->channels;
         c++) { // a stuck sensor and a restless machine prove nothing
        bool stuck = pf__misfit_stuck(s->kit, tell->rows, tell->response, c);
        bool restless = pf__misfit_restless(s->kit, tell->start, tell->n_start, c);
        d = stuck || restless ? INFINITY : d;
    }
    if (s->group >= 0) {
        settle_group(s, &rule, d);
    } else {
        settle_alone(s, &rule, d);
    }
    return PF_OK;
}

void pf__session_skip_rehearsal(pf_session *s)
{
    for (int i = 0; i < s->ask.n_tasks; i++) {
        bool group = s->group >= 0;
        start_again(&s->rehearsal[s->rehearsing[i]],
                    group ? PF__REHEARSAL_ALONE : PF__REHEARSAL_IMPOSSIBLE, !group);
    }
}
