// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "episode.h"

#include "preflight/recovery.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void pf_episode_tasks(pf_plan *plan, const pf_plant_info *info)
{
    for (int t = 0; t < plan->n_tasks; t++) {
        // the plan is ours: its memory is writable
        pf_plan_task *task = (pf_plan_task *)(uintptr_t)&plan->tasks[t];
        for (int i = 0; i < info->n_policies; i++) {
            const pf_policy *p = &info->policies[i];
            if (p->norm > 0 && task->n_uses == 1 && p->owner == task->uses[0]) {
                task->policy = p->name;
                task->policy_index = i;
                task->rows = p->rows;
                task->command = NULL;
            }
        }
    }
}

static int policy_index(const pf_bank *b, int task)
{
    const pf_plant_info *info = pf_plant_get_info(b->plant);
    const char *name = pf_kit_task_policy(b->kit, task);
    for (int i = 0; name[0] && i < info->n_policies; i++) {
        if (info->policies[i].norm > 0 && strcmp(info->policies[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

const pf_policy *pf_episode_policy(const pf_bank *b, int task)
{
    int i = policy_index(b, task);
    return i >= 0 ? &pf_plant_get_info(b->plant)->policies[i] : NULL;
}

// A task's episodes from the trial's known start.
typedef struct episode {
    pf_bank *bank;
    const pf_policy *policy;
    int index;
    double start[PF_STATE_MAX];
    double gains[PF_MECH_MAX], correction[PF_MECH_MAX];
    double best; // the nominal score, undisturbed
} episode;

static pf_status score(episode *e, pf_key key, bool disturbance, double *out, pf_error *error)
{
    pf_roll roll = pf_roll_default();
    roll.key = key;
    roll.start = e->start;
    roll.gains = e->gains;
    roll.correction = e->correction;
    roll.policy = e->index;
    roll.rows = e->policy->rows;
    roll.disturbance = disturbance;
    e->bank->rolls++;
    return pf_plant_roll(e->bank->plant, &roll, &(pf_trace){.score = out}, error);
}

static void set_all(double *values, int n, double value)
{
    for (int j = 0; j < n; j++) {
        values[j] = value;
    }
}

// The start, the nominal score from it, and the corrections that the joint belief asks for.
static pf_status begin(episode *e, pf_bank *b, const pf_joint *joint, int task, bool corrected,
                       pf_error *error)
{
    int n_mech = b->kit->n_mech;
    e->bank = b;
    e->index = policy_index(b, task);
    e->policy = pf_episode_policy(b, task);
    if (b->model) {
        return pf_fail(error, PF_ERR_UNSUPPORTED,
                       "task '%s' is a closed loop; a learned model predicts open loops only",
                       pf_kit_task_name(b->kit, task));
    }
    pf_roll reset = pf_roll_default();
    reset.key = pf_bank_stream(b, PF_PURPOSE_TASK, 0);
    reset.policy = e->index;
    pf_status status = pf_plant_roll(b->plant, &reset, &(pf_trace){.start = e->start}, error);
    set_all(e->gains, n_mech, 1);
    set_all(e->correction, n_mech, 1);
    status = status ? status : score(e, reset.key, false, &e->best, error);
    for (int j = 1; j < n_mech && corrected; j++) {
        pf_moments moments = pf_joint_moments(joint, j);
        e->correction[j] = pf_correction(&moments);
    }
    return status;
}

static double return_of(const episode *e, double scored)
{
    return pf_return(fmax(e->best - scored, 0) / e->policy->norm);
}

pf_status pf_episode_predict(pf_bank *b, const pf_joint *joint, int task, double alpha,
                             pf_prediction *out, pf_error *error)
{
    int n_grid = joint->n_grid, n = 1 + joint->m * n_grid;
    episode e;
    double *probability = calloc((size_t)n * (size_t)(1 + b->n_members), sizeof(double));
    if (!probability) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a predicted return");
    }
    double *returns = probability + n;
    pf_status status = begin(&e, b, joint, task, true, error);
    probability[0] = joint->nominal;
    memcpy(probability + 1, joint->mass, sizeof(double) * (size_t)(n - 1));
    for (int i = 0; i < b->n_members * n && status == PF_OK; i++) {
        int hypothesis = i % n, cell = hypothesis - 1;
        double scored = 0;
        set_all(e.gains, b->kit->n_mech, 1);
        if (hypothesis > 0) {
            e.gains[1 + cell / n_grid] = joint->grid[cell % n_grid];
        }
        status = score(&e, pf_bank_stream(b, PF_PURPOSE_MEMBER, i / n), true, &scored, error);
        returns[i] = status == PF_OK ? return_of(&e, scored) : 0;
    }
    if (status == PF_OK) {
        *out = pf_predict_return(b->n_members, n, probability, returns, alpha);
    }
    free(probability);
    return status;
}

pf_status pf_episode_fly(pf_bank *b, const pf_joint *joint, int task, bool corrected, double *ret,
                         double *regret, pf_error *error)
{
    episode e;
    double scored = 0;
    pf_status status = begin(&e, b, joint, task, corrected, error);
    if (status == PF_OK) {
        // the truth once the change has happened
        memcpy(e.gains, b->truth, sizeof(double) * (size_t)b->kit->n_mech);
        status = score(&e, pf_bank_stream(b, PF_PURPOSE_TASK, 1), true, &scored, error);
    }
    if (status == PF_OK) {
        *ret = return_of(&e, scored);
        *regret = e.best - scored;
    }
    return status;
}
