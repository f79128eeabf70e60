// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _XOPEN_SOURCE 700
#include "mujoco_file.h"
#include "core/rng.h"
#include "core/sha256.h"

#include "host/file.h"
#include "host/text.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// Any MJCF or URDF file as a plant: actuators are mechanisms behind `none`, commands are deviations
// from what holds the machine at its home, sensors are channels. docs/machines.md says the rules.

enum { REASON_SIZE = 240 };

static const double step_s = .02; // control step, as near as the file's own step allows
// A step that is not positive would never come to an end; MuJoCo takes it.
#define STEP_LEAST_S 1e-6
static const double settle_s = 2;      // most time that a machine has to come to rest
static const double still = .01;       // largest velocity at rest, rad/s or m/s
static const double reset_angle = .01; // half width of the draw of angles, rad, and rad/s
static const double reset_share = .01; // of lengths, in mean sizes of a body, and that per second
static const double noise_share = .25; // suggested sensor noise, of the rms pulse response
static const double no_load = 1e-5;    // force that counts as none, of the largest weight or range

static pf_status refuse(const pf_mujoco_maker *k, pf_status code, const char *what,
                        const char *detail)
{
    return pf_fail(k->error, code, "%s: %s%s", k->label, what, detail);
}

pf_status pf__mujoco_no_memory(const pf_mujoco_maker *k)
{
    return refuse(k, PF_ERR_MEMORY, "out of memory", "");
}

// --- the file

// Why a path that leads to no plain file cannot be read.
static const char *why_no_file(const char *path)
{
    struct stat info;
    if (stat(path, &info) == 0) {
        return S_ISDIR(info.st_mode) ? "is a folder, not a model file"
                                     : "is no plain file; say the model file itself";
    }
    return errno == ENOENT || errno == ENOTDIR
               ? "there is no such file; say mujoco:FILE or mujoco:FILE#KEYFRAME"
               : strerror(errno);
}

// FILE#KEYFRAME, unless a file has that whole name.
static pf_status find_path(pf_mujoco_maker *k, const char *reference)
{
    char *file = pf__arena_text(&k->m->arena, reference);
    char *mark = file ? strrchr(file, '#') : NULL;
    if (!file) {
        return pf__mujoco_no_memory(k);
    }
    if (mark && !pf__file_regular(reference)) {
        *mark = 0;
        k->key = mark + 1;
    }
    k->path = pf__file_regular(file) ? realpath(file, NULL) : NULL;
    if (!k->path) {
        return refuse(k, PF_ERR_FILE, why_no_file(file), "");
    }
    return PF_OK;
}

// Whether the first element is <robot>.
static bool is_urdf(const char *text)
{
    for (const char *c = strchr(text, '<'); c; c = strchr(c + 1, '<')) {
        if (strncmp(c, "<!--", 4) == 0) {
            c = strstr(c, "-->");
            if (!c) {
                return false;
            }
        } else if (isalpha((unsigned char)c[1])) {
            return strncmp(c + 1, "robot", 5) == 0;
        }
    }
    return false;
}

// What a URDF lacks: a motor for every hinge and slide, as strong as its effort says.
static void add_motors(mjSpec *spec)
{
    for (mjsElement *e = mjs_firstElement(spec, mjOBJ_JOINT); e; e = mjs_nextElement(spec, e)) {
        const mjsJoint *joint = mjs_asJoint(e);
        if (joint->type != mjJNT_HINGE && joint->type != mjJNT_SLIDE) {
            continue;
        }
        const char *name = mjs_getString(mjs_getName(e));
        mjsActuator *motor = mjs_addActuator(spec, NULL);
        mjs_setToMotor(motor);
        mjs_setName(motor->element, name);
        mjs_setString(motor->target, name);
        motor->trntype = mjTRN_JOINT;
        if (joint->actfrcrange[0] < joint->actfrcrange[1]) {
            motor->ctrllimited = mjLIMITED_TRUE;
            motor->ctrlrange[0] = joint->actfrcrange[0];
            motor->ctrlrange[1] = joint->actfrcrange[1];
        }
    }
}

static pf_status compile(pf_mujoco_maker *k)
{
    char reason[REASON_SIZE] = "";
    void *text = NULL;
    size_t size = 0;
    pf_status status = pf__file_read(k->path, (size_t)1 << 28, &text, &size, k->error);
    if (status != PF_OK) {
        return status;
    }
    k->urdf = is_urdf(text);
    free(text);
    mjSpec *spec = mj_parseXML(k->path, NULL, reason, sizeof reason);
    if (spec && k->urdf && !mjs_firstElement(spec, mjOBJ_ACTUATOR)) {
        add_motors(spec);
    }
    k->m->model = spec ? mj_compile(spec, NULL) : NULL;
    if (spec && !k->m->model) {
        snprintf(reason, sizeof reason, "%s", mjs_getError(spec));
    }
    if (spec) {
        mj_deleteSpec(spec);
    }
    pf__mujoco_one_line(reason);
    const char *why = strncmp(reason, "Error: ", 7) == 0 ? reason + 7 : reason;
    return k->m->model ? PF_OK
                       : refuse(k, PF_ERR_FORMAT,
                                k->urdf ? "MuJoCo cannot make a model of this URDF: "
                                        : "MuJoCo cannot make a model of it: ",
                                why);
}

// The compiled model names the source: what its meshes and included files hold counts, where they
// lie does not.
static pf_status name_source(const pf_mujoco_maker *k)
{
    pf_mujoco_model *m = k->m;
    mjtSize size = mj_sizeModel(m->model);
    unsigned char *bytes = calloc((size_t)size, 1);
    if (!bytes) {
        return pf__mujoco_no_memory(k);
    }
    mj_saveModel(m->model, NULL, bytes, size);
    char sha[65], text[200];
    pf__sha256_of(bytes, (size_t)size, sha);
    free(bytes);
    snprintf(text, sizeof text, "MuJoCo %s, %.120s %.16s", mj_versionString(),
             strrchr(k->path, '/') + 1, sha);
    m->info.source = pf__arena_text(&m->arena, text);
    return PF_OK;
}

// --- what can be a plant

static pf_status no_actuators(const pf_mujoco_maker *k)
{
    const mjModel *m = k->m->model;
    pf_text names = {0};
    char room[PF_MUJOCO_NAME];
    int n = 0;
    for (int j = 0; j < m->njnt; j++) {
        if (m->jnt_type[j] == mjJNT_HINGE || m->jnt_type[j] == mjJNT_SLIDE) {
            pf__text_addf(&names, "%s%s", n++ ? ", " : "",
                          pf__mujoco_joint_name(m, j, room, sizeof room));
        }
    }
    pf_status status =
        n == 0 ? refuse(k, PF_ERR_FORMAT, "it has no actuators and no joint for one", "")
               : pf_fail(k->error, PF_ERR_FORMAT,
                         "%s: it has no actuators; add <motor joint=\"...\"/> below <actuator> for "
                         "joints that have motors: %s",
                         k->label, names.data ? names.data : "");
    pf__text_free(&names);
    return status;
}

// Whether its force is known to be a product of its parameters, so that a loss of it can be made.
static bool is_known(const mjModel *m, int a)
{
    int gain = m->actuator_gaintype[a], bias = m->actuator_biastype[a];
    int dynamics = m->actuator_dyntype[a];
    return m->actuator_ctrlnum[a] == 1 && m->actuator_plugin[a] < 0 &&
           (gain == mjGAIN_FIXED || gain == mjGAIN_AFFINE || gain == mjGAIN_MUSCLE) &&
           (bias == mjBIAS_NONE || bias == mjBIAS_AFFINE || bias == mjBIAS_MUSCLE) &&
           (dynamics == mjDYN_NONE || dynamics == mjDYN_INTEGRATOR || dynamics == mjDYN_FILTER ||
            dynamics == mjDYN_FILTEREXACT || dynamics == mjDYN_MUSCLE);
}

static pf_status check_model(const pf_mujoco_maker *k)
{
    const mjModel *m = k->m->model;
    char room[PF_MUJOCO_NAME];
    if (!(m->opt.timestep >= STEP_LEAST_S)) {
        return pf_fail(k->error, PF_ERR_FORMAT,
                       "%s: its timestep is %g s, %g s is the least; set <option timestep=...>",
                       k->label, m->opt.timestep, STEP_LEAST_S);
    }
    if (m->nactuator == 0) {
        return no_actuators(k);
    }
    if (m->nu + 1 > PF_MECH_MAX) {
        return pf_fail(k->error, PF_ERR_UNSUPPORTED,
                       "%s: it has %d actuators, %d are the most; leave some out", k->label,
                       (int)m->nu, PF_MECH_MAX - 1);
    }
    for (int a = 0; a < m->nactuator; a++) {
        if (!is_known(m, a)) {
            return pf_fail(k->error, PF_ERR_UNSUPPORTED,
                           "%s: actuator %s is of a kind whose loss is not known here (several "
                           "inputs, a DC motor, a plugin or your own); use a motor, a servo, a "
                           "cylinder or a muscle",
                           k->label, pf__mujoco_actuator_name(m, a, room, sizeof room));
        }
    }
    int n_state = mj_stateSize(m, mjSTATE_INTEGRATION);
    if (n_state > PF_STATE_MAX) {
        return pf_fail(k->error, PF_ERR_UNSUPPORTED,
                       "%s: its state has %d numbers, %d are the most; leave bodies out", k->label,
                       n_state, PF_STATE_MAX);
    }
    return PF_OK;
}

// --- home

static void list_keys(const mjModel *m, pf_text *out)
{
    for (int i = 0; i < m->nkey; i++) {
        const char *name = mj_id2name(m, mjOBJ_KEY, i);
        pf__text_add(out, i ? ", " : "");
        if (name && name[0]) {
            pf__text_addf(out, "#%s", name);
        } else {
            pf__text_addf(out, "#%d", i);
        }
    }
}

// The keyframe that was named, by name or by number where it has none; else `home`; else the first.
static pf_status find_home(pf_mujoco_maker *k)
{
    const mjModel *m = k->m->model;
    k->home = m->nkey > 0 ? 0 : -1;
    int named = mj_name2id(m, mjOBJ_KEY, k->key ? k->key : "home");
    if (!k->key) {
        k->home = named >= 0 ? named : k->home;
        return PF_OK;
    }
    char *end = NULL;
    long number = pf__is_decimal(k->key, true) ? strtol(k->key, &end, 10) : -1;
    named = named < 0 && number >= 0 && number < m->nkey ? (int)number : named;
    if (named >= 0) {
        k->home = named;
        return PF_OK;
    }
    pf_text names = {0};
    list_keys(m, &names);
    pf_status status =
        pf_fail(k->error, PF_ERR_ARGUMENT, "%s: there is no such keyframe; %s%s", k->label,
                m->nkey ? "there are " : "the file has none", names.data ? names.data : "");
    pf__text_free(&names);
    return status;
}

// --- holding control

// What a position servo is told so that it rests at its present length.
static double present(const mjModel *m, const mjData *d, int a)
{
    const mjtNum *bias = m->actuator_biasprm + a * mjNBIAS;
    double length = d->actuator_length[m->actuator_outadr[a]];
    return -(bias[0] + bias[1] * length) / m->actuator_gainprm[a * mjNGAIN];
}

// The actuator that holds a joint: its motor, or a servo; -1: none does.
static int holder(const mjModel *m, int joint)
{
    for (int a = 0; a < m->nactuator; a++) {
        bool on_joint =
            m->actuator_trntype[a] == mjTRN_JOINT || m->actuator_trntype[a] == mjTRN_JOINTINPARENT;
        if (pf__mujoco_motor_joint(m, a) == joint ||
            (on_joint && m->actuator_trnid[2 * a] == joint && pf__mujoco_is_servo(m, a))) {
            return a;
        }
    }
    return -1;
}

// What the motors of one tree of bodies must give so that it does not fall. A tree in which gravity
// loads a joint without a motor cannot be held.
static void hold_tree(pf_mujoco_maker *k, const mjModel *m, const mjData *d, int tree, double least)
{
    int first = m->tree_dofadr[tree], end = first + m->tree_dofnum[tree];
    bool loaded = false, motors = false;
    int unheld = -1;
    for (int i = first; i < end; i++) {
        bool load = fabs(d->qfrc_bias[i] - d->qfrc_passive[i]) > least;
        int a = holder(m, m->dof_jntid[i]);
        loaded = loaded || load;
        motors = motors || (a >= 0 && pf__mujoco_motor_joint(m, a) >= 0);
        unheld = load && a < 0 && unheld < 0 ? m->dof_jntid[i] : unheld;
    }
    if (!loaded || !motors) {
        return;
    }
    if (unheld >= 0) {
        char room[PF_MUJOCO_NAME];
        k->unheld = k->unheld ? k->unheld
                              : pf__arena_text(&k->m->arena,
                                               pf__mujoco_joint_name(m, unheld, room, sizeof room));
        return;
    }
    for (int i = first; i < end; i++) {
        int a = holder(m, m->dof_jntid[i]);
        double load = d->qfrc_bias[i] - d->qfrc_passive[i];
        if (pf__mujoco_motor_joint(m, a) >= 0 && fabs(load) > least) {
            const mjtNum *range = m->actuator_ctrlrange + 2 * a;
            double hold = load / (m->actuator_gear[6 * m->actuator_outadr[a]] *
                                  m->actuator_gainprm[a * mjNGAIN]);
            bool some = !m->actuator_ctrllimited[a] || fabs(hold) > no_load * (range[1] - range[0]);
            k->m->hold[a] = some ? hold : 0;
        }
    }
}

static void hold_against_gravity(pf_mujoco_maker *k, const mjModel *m, const mjData *d)
{
    double most = 0;
    for (int i = 0; i < m->nv; i++) {
        most = fmax(most, fabs(d->qfrc_bias[i])); // before springs and compensation carry it
    }
    for (int tree = 0; tree < m->ntree && most > 0; tree++) {
        hold_tree(k, m, d, tree, no_load * most);
    }
}

static bool any(const mjtNum *x, int n)
{
    for (int i = 0; i < n; i++) {
        if (x[i] != 0) {
            return true;
        }
    }
    return false;
}

// The activation at which nothing changes under the holding control.
static void hold_activations(const pf_mujoco_maker *k, const mjModel *m, mjData *d)
{
    bool given = k->home >= 0 && any(m->key_act + k->home * m->na, (int)m->na);
    for (int a = 0; a < m->nactuator && !given; a++) {
        int at = m->actuator_actadr[a] + m->actuator_actnum[a] - 1;
        if (m->actuator_actadr[a] < 0) {
            continue;
        }
        bool integrates = m->actuator_dyntype[a] == mjDYN_INTEGRATOR;
        d->act[at] = !integrates ? k->m->hold[a] : pf__mujoco_is_servo(m, a) ? present(m, d, a) : 0;
    }
}

// The commands at rest: those of the keyframe; else servos stay where they are, and motors carry
// the weight where they can.
static void hold_still(pf_mujoco_maker *k, const mjModel *m, mjData *d)
{
    double *hold = k->m->hold;
    int nu = (int)m->nu;
    if (k->home >= 0 && any(m->key_ctrl + k->home * nu, nu)) {
        memcpy(hold, m->key_ctrl + k->home * nu, sizeof *hold * (size_t)nu);
    } else {
        for (int a = 0; a < m->nactuator; a++) {
            bool follows = pf__mujoco_is_servo(m, a) && m->actuator_dyntype[a] != mjDYN_INTEGRATOR;
            hold[a] = follows ? present(m, d, a) : 0;
        }
        hold_against_gravity(k, m, d);
    }
    for (int a = 0; a < nu; a++) {
        const mjtNum *range = m->actuator_ctrlrange + 2 * a;
        if (m->actuator_ctrllimited[a]) {
            hold[a] = fmin(fmax(hold[a], range[0]), range[1]);
        }
        d->ctrl[a] = hold[a];
    }
    hold_activations(k, m, d);
}

// Whether nothing moves; else which joint moves most, and how fast.
static bool rests(pf_mujoco_maker *k, const mjModel *m, const mjData *d)
{
    k->speed = 0;
    for (int i = 0; i < m->nv; i++) {
        if (!(fabs(d->qvel[i]) <= k->speed)) {
            k->speed = fabs(d->qvel[i]);
            k->moving = m->dof_jntid[i];
        }
    }
    return k->speed < still;
}

// Initial positions are often 0 although a joint cannot be there: such a joint begins in the middle
// of its range.
static void enter_ranges(const mjModel *m, mjData *d)
{
    for (int j = 0; j < m->njnt; j++) {
        const mjtNum *range = m->jnt_range + 2 * j;
        double *q = d->qpos + m->jnt_qposadr[j];
        bool line = m->jnt_type[j] == mjJNT_HINGE || m->jnt_type[j] == mjJNT_SLIDE;
        if (line && m->jnt_limited[j] && (*q < range[0] || *q > range[1])) {
            *q = (range[0] + range[1]) / 2;
        }
    }
}

// Holds the machine at its home until it rests; what it reached is the start that resets draw
// around.
static void settle(const mjModel *m, mjData *d, int simulation, void *argument)
{
    (void)simulation;
    pf_mujoco_maker *k = argument;
    if (k->home >= 0) {
        mj_resetDataKeyframe(m, d, k->home);
    } else {
        mj_resetData(m, d);
        enter_ranges(m, d);
    }
    mj_forward(m, d);
    hold_still(k, m, d);
    double began = d->time;
    // at least one control step: at home itself nothing moves yet
    for (int i = 0; !k->rests && d->time - began < settle_s && !k->warning; i++) {
        for (int s = 0; s < k->m->skip && !k->warning; s++) {
            mj_step(m, d);
            k->warning = pf__mujoco_warning(d, &k->warning_at);
        }
        bool waited = i * k->m->skip * m->opt.timestep >= .1 || d->time - began >= settle_s;
        k->rests = rests(k, m, d) && waited;
    }
    k->time_s = d->time - began;
    mj_getState(m, d, k->m->rest, mjSTATE_INTEGRATION);
}

static pf_status find_rest(pf_mujoco_maker *k)
{
    pf_mujoco_model *m = k->m;
    m->rest = pf__arena_take(&m->arena, (size_t)m->info.n_state, sizeof *m->rest);
    m->hold = pf__arena_take(&m->arena, (size_t)m->model->nu, sizeof *m->hold);
    if (m->arena.failed) {
        return pf__mujoco_no_memory(k);
    }
    pf_status status = pf__mujoco_call(m, settle, k, k->error);
    if (status == PF_OK && k->warning) {
        status = pf_fail(k->error, PF_ERR_PLANT,
                         "%s: the model is unstable at its home: MuJoCo warns of %s (at %d) after "
                         "%g s; choose another keyframe or a smaller timestep",
                         k->label, k->warning, k->warning_at, k->time_s);
    }
    for (int i = 0; i < m->info.n_state && status == PF_OK; i++) {
        if (mju_isBad(m->rest[i])) {
            status = refuse(k, PF_ERR_PLANT,
                            "the model is unstable at its home: its state is not finite", "");
        }
    }
    return status;
}

// The law of a reset: uniform around the rest, within the range of each joint. Rotations are drawn
// as rotations, so quaternions stay what they are.
static void draw_start(const pf_mujoco_model *shared, pf_rng *rng, mjData *d)
{
    const mjModel *m = shared->model;
    double along = reset_share * m->stat.meansize;
    for (int part = 0; part < 2; part++) {
        double *to = part == 0 ? d->qacc : d->qvel; // the accelerations are computed anew
        for (int i = 0; i < m->nv; i++) {
            int joint = m->dof_jntid[i], type = m->jnt_type[joint];
            bool slides =
                type == mjJNT_SLIDE || (type == mjJNT_FREE && i - m->jnt_dofadr[joint] < 3);
            double draw = (slides ? along : reset_angle) * (2 * pf_rng_uniform(rng) - 1);
            to[i] = part == 0 ? draw : to[i] + draw;
        }
    }
    mj_integratePos(m, d->qpos, d->qacc, 1);
    for (int j = 0; j < m->njnt; j++) {
        double *q = d->qpos + m->jnt_qposadr[j];
        const mjtNum *range = m->jnt_range + 2 * j;
        bool line = m->jnt_type[j] == mjJNT_HINGE || m->jnt_type[j] == mjJNT_SLIDE;
        if (line && m->jnt_limited[j]) {
            const double was = shared->rest[1 + m->jnt_qposadr[j]];
            *q = fmin(fmax(*q, fmin(range[0], was)), fmax(range[1], was));
        }
    }
}

// --- all of it

static pf_status name_plant(const pf_mujoco_maker *k)
{
    pf_mujoco_model *m = k->m;
    const char *file = strrchr(k->path, '/') + 1, *mark = k->key ? "#" : "";
    const char *key = k->key ? k->key : "";
    pf_text name = {0}, environment = {0}, title = {0};
    pf__text_addf(&name, PF_MUJOCO_PREFIX "%s%s%s", k->path, mark, key);
    pf__text_addf(&environment, PF_MUJOCO_PREFIX "%s%s%s", file, mark, key);
    pf__text_addf(&title, "%s %s, %s, %s", k->urdf ? "URDF" : "MJCF",
                  strcmp(m->model->names, "MuJoCo Model") == 0 ? file : m->model->names,
                  pf__counted(m->model->nactuator, "actuator").text,
                  pf__counted(m->model->nv, "degree").text);
    pf__text_add(&title, " of freedom");
    bool failed = name.failed || environment.failed || title.failed;
    if (!failed) {
        m->info.name = pf__arena_text(&m->arena, name.data);
        m->info.environment = pf__arena_text(&m->arena, environment.data);
        m->info.title = pf__arena_text(&m->arena, title.data);
    }
    pf__text_free(&name);
    pf__text_free(&environment);
    pf__text_free(&title);
    return failed || m->arena.failed ? pf__mujoco_no_memory(k) : PF_OK;
}

static pf_status make(pf_mujoco_maker *k, const char *reference)
{
    pf_mujoco_model *m = k->m;
    pf_status status = pf__mujoco_ready(k->label, k->error);
    status = status ? status : find_path(k, reference);
    status = status ? status : compile(k);
    status = status ? status : check_model(k);
    status = status ? status : find_home(k);
    status = status ? status : name_source(k);
    status = status ? status : name_plant(k);
    if (status != PF_OK) {
        return status;
    }
    pf__mujoco_set_options(m->model);
    m->skip = (int)fmax(1, round(step_s / m->model->opt.timestep));
    m->draw = draw_start;
    m->info.dt_s = m->skip * m->model->opt.timestep;
    m->info.n_state = mj_stateSize(m->model, mjSTATE_INTEGRATION);
    m->info.deterministic = true;
    m->info.sensor_noise = noise_share;
    status = find_rest(k);
    status = status ? status : pf__mujoco_describe_mechanisms(k);
    status = status ? status : pf__mujoco_describe_channels(k);
    if (status == PF_OK) {
        pf__mujoco_describe_rest(k);
    }
    return status == PF_OK && m->arena.failed ? pf__mujoco_no_memory(k) : status;
}

pf_status pf__mujoco_load_file(pf_mujoco_model **model, const char *reference, pf_error *error)
{
    *model = NULL;
    pf_mujoco_model *m = calloc(1, sizeof *m);
    pf_text label = {0};
    pf__text_addf(&label, PF_MUJOCO_PREFIX "%s", reference);
    if (!m || label.failed) {
        free(m);
        pf__text_free(&label);
        return pf_fail(error, PF_ERR_MEMORY, "mujoco: out of memory");
    }
    atomic_init(&m->users, 1);
    pf_mujoco_maker k = {.m = m, .label = label.data, .error = error};
    pf_status status = make(&k, reference);
    free(k.path);
    pf__text_free(&label);
    if (status != PF_OK) {
        pf__mujoco_release(m);
        return status;
    }
    *model = m;
    return PF_OK;
}
