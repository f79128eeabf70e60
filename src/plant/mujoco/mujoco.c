// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "mujoco_load.h"
#include "plant/plant_impl.h"
#include "core/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A control step is `skip` calls of mj_step with the commands held, as in Gymnasium. A state is
// MuJoCo's integration state, which has the warm start of the solver in it: a trajectory that goes
// on from a saved state has the bits of one that was never interrupted.

// The same stream of a trajectory as of the native plants. There is no disturbance and no noise.
enum { STREAM_RESET = 1 };

typedef struct instance {
    pf_mujoco_model *shared;
    mjBatch *batch;
    bool spoiled;        // the last trajectory failed
    double *gain, *bias; // of the batch's own model, where mechanisms lose force. Nullable.
} instance;

// One trajectory on its way through mjb_apply. In memory, since an error jumps out of the callback.
typedef struct job {
    instance *self;
    const pf_roll *roll;
    const pf_trace *trace;
    pf_error *error;
    pf_status status;
    int row; // step under way
    // what of the next mj_step has been computed, for the sensors
    enum { NOTHING, MOTION, FORCES } known;
} job;

static void clear_warnings(mjData *d)
{
    for (int i = 0; i < mjNWARNING; i++) {
        d->warning[i].number = 0;
    }
}

// Gymnasium also calls mj_forward here; it does not touch the integration state.
static void place(const job *j, const mjModel *m, mjData *d)
{
    const pf_roll *roll = j->roll;
    const pf_mujoco_model *shared = j->self->shared;
    if (j->self->spoiled) {
        mj_resetData(m, d);
    }
    mj_setState(m, d, roll->start ? roll->start : shared->rest, mjSTATE_INTEGRATION);
    if (!roll->start && !roll->mean_reset) {
        pf_rng rng;
        pf_rng_init(&rng, pf__key_derive(roll->key, STREAM_RESET));
        shared->draw(shared, &rng, d);
    }
    clear_warnings(d);
}

// The integrators that mj_step2 has, where all bodies are awake.
static bool can_split(const mjModel *m)
{
    int integrator = m->opt.integrator;
    return (integrator == mjINT_EULER || integrator == mjINT_IMPLICIT ||
            integrator == mjINT_IMPLICITFAST) &&
           !(m->opt.enableflags & (mjENBL_SLEEP | mjENBL_FWDINV));
}

// Sensors are of the state that was reached, under the command that is held: mj_step leaves those
// of the state before. This does not touch the integration state, and the next step begins with it.
static void sense(job *j, const mjModel *m, mjData *d)
{
    bool forces = j->self->shared->senses == PF_MUJOCO_SENSES_FORCES;
    if (forces || !can_split(m)) {
        mj_forward(m, d);
    } else {
        mj_step1(m, d);
    }
    j->known = !can_split(m) ? NOTHING : forces ? FORCES : MOTION;
}

// mj_step without what is known.
static void step(job *j, const mjModel *m, mjData *d)
{
    if (j->known == NOTHING) {
        mj_step(m, d);
    } else if (j->known == MOTION) {
        mj_step2(m, d);
    } else {
        mj_checkAcc(m, d);
        if (m->opt.integrator == mjINT_EULER) {
            mj_Euler(m, d);
        } else {
            mj_implicit(m, d);
        }
    }
    j->known = NOTHING;
}

static void read_channels(job *j, const mjModel *m, mjData *d, double *y)
{
    const pf_mujoco_model *shared = j->self->shared;
    const double *const fields[] = {
        [PF_MUJOCO_QPOS] = d->qpos, [PF_MUJOCO_QVEL] = d->qvel, [PF_MUJOCO_SENSOR] = d->sensordata};
    if (shared->senses) {
        sense(j, m, d);
    }
    for (int c = 0; c < shared->info.n_chan; c++) {
        y[c] = fields[shared->readings[c].field][shared->readings[c].at];
    }
}

// What keeps a simulation from running away.
#define REMEDY "give a smaller amplitude, or the model a shorter timestep"

// MuJoCo judges a state at the start of the next step, by the same bound; after the last step there
// is none.
static pf_status check_numbers(const job *j, const char *what, const double *x, int n)
{
    for (int i = 0; i < n; i++) {
        if (mju_isBad(x[i])) {
            return pf_fail(j->error, PF_ERR_PLANT,
                           "%s: %s %d is not finite or too large after step %d; " REMEDY,
                           j->self->shared->info.name, what, i, j->row + 1);
        }
    }
    return PF_OK;
}

const char *pf__mujoco_warning(const mjData *d, int *about)
{
    // the cause before what may follow from it
    static const struct {
        int warning;
        const char *name;
    } names[mjNWARNING] = {
        {mjWARN_BADQPOS, "bad position"},          {mjWARN_BADQVEL, "bad velocity"},
        {mjWARN_BADCTRL, "bad command"},           {mjWARN_BADQACC, "bad acceleration"},
        {mjWARN_CONTACTFULL, "too many contacts"}, {mjWARN_CNSTRFULL, "too many constraints"},
        {mjWARN_INERTIA, "singular inertia"}};
    for (int i = 0; i < mjNWARNING; i++) {
        const mjWarningStat *w = &d->warning[names[i].warning];
        if (w->number > 0) {
            *about = w->lastinfo;
            return names[i].name;
        }
    }
    return NULL;
}

// Any warning fails the trajectory: MuJoCo goes on after each of them with something else than was
// asked for.
static pf_status check_warnings(const job *j, const mjData *d)
{
    int about = 0;
    const char *warning = pf__mujoco_warning(d, &about);
    return warning
               ? pf_fail(j->error, PF_ERR_PLANT, "%s: MuJoCo warns in step %d: %s (at %d); " REMEDY,
                         j->self->shared->info.name, j->row + 1, warning, about)
               : PF_OK;
}

// One control step under the held command. Warnings are read after each MuJoCo step, while they
// still name the cause.
static pf_status advance(job *j, const mjModel *m, mjData *d)
{
    pf_status status = PF_OK;
    for (int i = 0; i < j->self->shared->skip && status == PF_OK; i++) {
        step(j, m, d);
        status = check_warnings(j, d);
    }
    if (status == PF_OK) {
        status = check_numbers(j, "qpos", d->qpos, (int)m->nq);
    }
    status = status ? status : check_numbers(j, "qvel", d->qvel, (int)m->nv);
    return status ? status : check_numbers(j, "act", d->act, (int)m->na);
}

// What the actuators are told: the command over what is held at rest. A mechanism that loses force
// keeps its command (the loss is in the model by then).
static void command(job *j, const double *u, mjData *d)
{
    const pf_mujoco_model *shared = j->self->shared;
    const pf_plant_info *info = &shared->info;
    double gains[PF_MECH_MAX], delivered[PF_MECH_MAX];
    for (int i = 0; i < info->n_mech; i++) {
        bool command = !pf__plant_loses_force(info, i);
        gains[i] = j->roll->gains && command ? j->roll->gains[i] : 1;
    }
    pf__fault_deliver(info->n_mech, info->mechanisms, u, gains, delivered);
    for (int i = shared->first; i < info->n_mech; i++) {
        int at = i - shared->first;
        double told = shared->hold ? shared->hold[at] + delivered[i] : delivered[i];
        if (j->known == FORCES && told != d->ctrl[at]) {
            j->known = MOTION;
        }
        d->ctrl[at] = told;
    }
}

static void run_steps(job *j, const mjModel *m, mjData *d)
{
    const pf_mujoco_model *shared = j->self->shared;
    const pf_plant_info *info = &shared->info;
    const pf_trace *trace = j->trace;
    for (; j->row < j->roll->rows && j->status == PF_OK; j->row++) {
        size_t r = (size_t)j->row;
        command(j, j->roll->command + r * (size_t)info->n_mech, d);
        j->status = advance(j, m, d);
        if (trace->state) {
            mj_getState(m, d, trace->state + r * (size_t)info->n_state, mjSTATE_INTEGRATION);
        }
        if (trace->output) {
            read_channels(j, m, d, trace->output + r * (size_t)info->n_chan);
        }
    }
}

static void run_job(const mjModel *m, mjData *d, int simulation, void *argument)
{
    (void)simulation;
    job *j = argument;
    place(j, m, d);
    if (j->trace->start) {
        mj_getState(m, d, j->trace->start, mjSTATE_INTEGRATION);
    }
    if (j->trace->initial) {
        read_channels(j, m, d, j->trace->initial);
    }
    run_steps(j, m, d);
}

// A start that is not one: MuJoCo would take the orientation of an all-zero quaternion as upright.
static pf_status check_start(const pf_plant *plant, const double *start, pf_error *error)
{
    const instance *self = plant->self;
    const mjModel *m = self->shared->model;
    for (int i = 0; i < plant->info.n_state; i++) {
        if (!isfinite(start[i])) {
            return pf_fail(error, PF_ERR_NONFINITE,
                           "%s: number %d of the start state is not finite", plant->info.name, i);
        }
    }
    for (int j = 0; j < m->njnt; j++) {
        int type = m->jnt_type[j], at = m->jnt_qposadr[j] + (type == mjJNT_FREE ? 3 : 0);
        bool turns = type == mjJNT_FREE || type == mjJNT_BALL;
        // after the time
        if (turns && mju_norm(start + 1 + at, 4) < mjMINVAL) {
            return pf_fail(error, PF_ERR_ARGUMENT,
                           "%s: positions %d to %d of the start state are a quaternion and cannot "
                           "all be 0; upright is 1 0 0 0",
                           plant->info.name, at, at + 3);
        }
    }
    return PF_OK;
}

// The parameters of a gain or a bias for g times the force. All are factors of it, but of a
// muscle's only the peak force, or where that is negative the number that it follows from.
static void scale_force(bool muscle, double g, int n, const double *given, double *out)
{
    for (int k = 0; k < n; k++) {
        bool factor = !muscle || k == (given[2] < 0 ? 3 : 2);
        out[k] = factor ? g * given[k] : given[k];
    }
}

// Writes the gains of mechanisms that lose force into the batch's own model.
static void weaken(const instance *self, const double *gains)
{
    const pf_mujoco_model *shared = self->shared;
    const mjModel *m = shared->model;
    for (int i = shared->first; self->gain && i < shared->info.n_mech; i++) {
        int a = i - shared->first;
        double g = gains && pf__plant_loses_force(&shared->info, i) ? gains[i] : 1;
        scale_force(m->actuator_gaintype[a] == mjGAIN_MUSCLE, g, mjNGAIN,
                    m->actuator_gainprm + a * mjNGAIN, self->gain + a * mjNGAIN);
        scale_force(m->actuator_biastype[a] == mjBIAS_MUSCLE, g, mjNBIAS,
                    m->actuator_biasprm + a * mjNBIAS, self->bias + a * mjNBIAS);
    }
}

static pf_status mujoco_roll(pf_plant *plant, const pf_roll *roll, const pf_trace *trace,
                             pf_error *error)
{
    pf_status status = roll->start ? check_start(plant, roll->start, error) : PF_OK;
    if (status != PF_OK) {
        return status;
    }
    instance *self = plant->self;
    weaken(self, roll->gains);
    job j = {self, roll, trace, error, PF_OK, 0, NOTHING};
    if (mjb_apply(self->batch, NULL, 1, run_job, &j, 0) != 0) {
        char reason[96];
        snprintf(reason, sizeof reason, "%s", mjb_error(self->batch, 0));
        reason[strcspn(reason, "\n")] = 0;
        j.status = pf_fail(error, PF_ERR_PLANT, "%s: MuJoCo fails in step %d: %s", plant->info.name,
                           j.row + 1, reason);
    }
    self->spoiled = j.status != PF_OK;
    return j.status;
}

// Positions and velocities alone, as Gymnasium's set_state takes them.
static pf_status mujoco_state_from(pf_plant *plant, int n, const double *values, double *state,
                                   pf_error *error)
{
    const instance *self = plant->self;
    const mjModel *m = self->shared->model;
    int nq = (int)m->nq, nv = (int)m->nv;
    if (n != nq + nv) {
        return pf_fail(error, PF_ERR_SHAPE,
                       "%s: a state has %d numbers (%d positions, then %d velocities) or all %d, "
                       "not %d",
                       plant->info.name, nq + nv, nq, nv, plant->info.n_state, n);
    }
    // the state begins with the time, positions, velocities
    memcpy(state, self->shared->rest, sizeof(double) * (size_t)plant->info.n_state);
    memcpy(state + 1, values, sizeof(double) * (size_t)n);
    return PF_OK;
}

static void mujoco_destroy(pf_plant *plant)
{
    instance *self = plant->self;
    mjb_deleteBatch(self->batch);
    pf__mujoco_release(self->shared);
    free(self);
    plant->self = NULL;
}

static pf_status mujoco_clone(const pf_plant *plant, pf_plant **copy, pf_error *error);

static const char *mujoco_about(const pf_plant *plant, int mechanism)
{
    const pf_mujoco_model *shared = ((const instance *)plant->self)->shared;
    return shared->words ? shared->words[mechanism < 0 ? shared->info.n_mech : mechanism] : NULL;
}

static const pf_plant_ops mujoco_ops = {.native = true,
                                        .roll = mujoco_roll,
                                        .clone = mujoco_clone,
                                        .destroy = mujoco_destroy,
                                        .state_from = mujoco_state_from,
                                        .about = mujoco_about};

// Takes over one use of the shared model, also on failure.
static pf_status make_instance(pf_plant **plant, pf_mujoco_model *shared, pf_error *error)
{
    const char *name = shared->info.name;
    pf_plant *made = calloc(1, sizeof *made);
    instance *self = calloc(1, sizeof *self);
    char reason[96] = "out of memory";
    mjBatch *batch = made && self ? pf__mujoco_batch(shared->model, reason, sizeof reason) : NULL;
    if (!batch) {
        free(made);
        free(self);
        pf__mujoco_release(shared);
        return pf_fail(error, PF_ERR_MEMORY, "%s: %s", name, reason);
    }
    *self = (instance){.shared = shared, .batch = batch};
    if (shared->info.losses) {
        self->gain = mjb_expand(batch, "actuator_gainprm", NULL, NULL);
        self->bias = mjb_expand(batch, "actuator_biasprm", NULL, NULL);
    }
    *made = (pf_plant){.ops = &mujoco_ops, .info = shared->info, .self = self};
    *plant = made;
    return PF_OK;
}

static pf_status mujoco_clone(const pf_plant *plant, pf_plant **copy, pf_error *error)
{
    *copy = NULL;
    pf_mujoco_model *shared = ((const instance *)plant->self)->shared;
    atomic_fetch_add(&shared->users, 1);
    return make_instance(copy, shared, error);
}

pf_status pf__mujoco_create_file(pf_plant **plant, const char *reference, pf_error *error)
{
    *plant = NULL;
    pf_mujoco_model *shared = NULL;
    pf_status status = pf__mujoco_load_file(&shared, reference, error);
    status = status ? status : make_instance(plant, shared, error);
    status =
        status ? status : pf__mujoco_choose_pulses(*plant, shared->rest, shared->amplitude, error);
    if (status != PF_OK) {
        pf_plant_destroy(*plant);
        *plant = NULL;
    }
    return status;
}

pf_status pf__mujoco_create(pf_plant **plant, const pf_mujoco_system *system, pf_error *error)
{
    *plant = NULL;
    pf_mujoco_model *shared = NULL;
    pf_status status = pf__mujoco_load(&shared, system, error);
    return status == PF_OK ? make_instance(plant, shared, error) : status;
}
