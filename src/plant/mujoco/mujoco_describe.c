// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "mujoco_file.h"

#include "host/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// What a compiled model has, in terms of a plant: mechanisms, channels, and words about them.

enum { CHANNELS_MOST = 4096 };

// --- what a model says

const char *pf__mujoco_joint_name(const mjModel *m, int joint, char *room, size_t size)
{
    const char *name = mj_id2name(m, mjOBJ_JOINT, joint);
    if (name && name[0]) {
        snprintf(room, size, "%s", name);
    } else {
        snprintf(room, size, "joint_%d", joint);
    }
    return room;
}

const char *pf__mujoco_actuator_name(const mjModel *m, int a, char *room, size_t size)
{
    static const int targets[] = {
        [mjTRN_JOINT] = mjOBJ_JOINT,      [mjTRN_JOINTINPARENT] = mjOBJ_JOINT,
        [mjTRN_SLIDERCRANK] = mjOBJ_SITE, [mjTRN_TENDON] = mjOBJ_TENDON,
        [mjTRN_SITE] = mjOBJ_SITE,        [mjTRN_BODY] = mjOBJ_BODY};
    const char *name = mj_id2name(m, mjOBJ_ACTUATOR, a);
    int type = m->actuator_trntype[a];
    if ((!name || !name[0]) && type >= 0 && type <= mjTRN_BODY) {
        name = mj_id2name(m, targets[type], m->actuator_trnid[2 * a]);
    }
    if (name && name[0]) {
        snprintf(room, size, "%s", name);
    } else {
        snprintf(room, size, "actuator_%d", a);
    }
    return room;
}

bool pf__mujoco_has_bias(const mjModel *m, int a)
{
    const mjtNum *bias = m->actuator_biasprm + a * mjNBIAS;
    for (int i = 0; i < mjNBIAS && m->actuator_biastype[a] != mjBIAS_NONE; i++) {
        if (bias[i] != 0) {
            return true;
        }
    }
    return false;
}

bool pf__mujoco_is_servo(const mjModel *m, int a)
{
    return m->actuator_gaintype[a] == mjGAIN_FIXED && m->actuator_biastype[a] == mjBIAS_AFFINE &&
           m->actuator_gainprm[a * mjNGAIN] != 0 && m->actuator_biasprm[a * mjNBIAS + 1] != 0;
}

int pf__mujoco_motor_joint(const mjModel *m, int a)
{
    int type = m->actuator_trntype[a], joint = m->actuator_trnid[2 * a];
    bool motor = (type == mjTRN_JOINT || type == mjTRN_JOINTINPARENT) &&
                 m->actuator_gaintype[a] == mjGAIN_FIXED && !pf__mujoco_has_bias(m, a) &&
                 (m->actuator_dyntype[a] == mjDYN_NONE || m->actuator_dyntype[a] == mjDYN_FILTER ||
                  m->actuator_dyntype[a] == mjDYN_FILTEREXACT) &&
                 m->actuator_gainprm[a * mjNGAIN] != 0 &&
                 m->actuator_gear[6 * m->actuator_outadr[a]] != 0;
    return motor && (m->jnt_type[joint] == mjJNT_HINGE || m->jnt_type[joint] == mjJNT_SLIDE) ? joint
                                                                                             : -1;
}

// --- names

// A name as files and options take it, and no other's. n names before it.
static const char *tidy(pf_mujoco_model *m, const char *name, int n,
                        const char *(*taken)(const pf_mujoco_model *m, int i))
{
    char text[PF_NAME_MOST + 1], tried[PF_NAME_MOST + 16];
    pf__name_tidy(text, name);
    snprintf(tried, sizeof tried, "%s", text);
    for (int again = 2, i = 0; i < n; i++) {
        if (strcmp(taken(m, i), tried) == 0) {
            snprintf(tried, sizeof tried, "%s_%d", text, again++);
            i = -1;
        }
    }
    return pf__arena_text(&m->arena, tried);
}

static const char *mechanism_at(const pf_mujoco_model *m, int i)
{
    return m->info.mechanisms[i].name;
}

static const char *channel_at(const pf_mujoco_model *m, int i)
{
    return m->info.channels[i].name;
}

// --- mechanisms

static const char *actuator_kind(const mjModel *m, int a)
{
    const mjtNum *gain = m->actuator_gainprm + a * mjNGAIN;
    const mjtNum *bias = m->actuator_biasprm + a * mjNBIAS;
    bool integrates = m->actuator_dyntype[a] == mjDYN_INTEGRATOR;
    if (m->actuator_gaintype[a] == mjGAIN_MUSCLE || m->actuator_dyntype[a] == mjDYN_MUSCLE) {
        return "muscle";
    }
    if (!pf__mujoco_has_bias(m, a)) {
        bool filtered = m->actuator_dyntype[a] != mjDYN_NONE && !integrates;
        return m->actuator_trntype[a] == mjTRN_BODY      ? "adhesion"
               : m->actuator_gaintype[a] != mjGAIN_FIXED ? "damper"
               : integrates                              ? "integrated motor"
               : filtered                                ? "filtered motor"
                                                         : "motor";
    }
    if (pf__mujoco_is_servo(m, a)) {
        return integrates ? "velocity servo (integrated)" : "position servo";
    }
    return bias[1] == 0 && bias[2] == -gain[0] ? "velocity servo" : "motor with a bias";
}

// What a mechanism of gain g delivers is g times its command where the force follows the command
// alone, and nothing is held at rest. Else it is the force that is lost.
static pf_loss loss_of(const pf_mujoco_model *m, int a)
{
    bool command = !pf__mujoco_has_bias(m->model, a) && m->hold[a] == 0 &&
                   m->model->actuator_gaintype[a] != mjGAIN_MUSCLE &&
                   m->model->actuator_dyntype[a] != mjDYN_MUSCLE;
    return command ? PF_LOSS_COMMAND : PF_LOSS_FORCE;
}

// Closer limits of a command whose force is `force` per unit.
static void narrow(const mjtNum *range, double force, double *lo, double *hi)
{
    double a = range[0] / force, b = range[1] / force;
    *lo = fmax(*lo, fmin(a, b));
    *hi = fmin(*hi, fmax(a, b));
}

// The range of its control, less what is held. Of a motor also what its force and its joint may
// have; of a servo without a range the deviation at which its force is at its limit.
static void set_limits(const pf_mujoco_model *shared, int a, pf_mechanism *to)
{
    const mjModel *m = shared->model;
    double lo = -INFINITY, hi = INFINITY, gain = m->actuator_gainprm[a * mjNGAIN];
    double hold = shared->hold[a], gear = m->actuator_gear[6 * m->actuator_outadr[a]];
    bool plain = m->actuator_gaintype[a] == mjGAIN_FIXED && gain != 0,
         bias = pf__mujoco_has_bias(m, a);
    int joint = pf__mujoco_motor_joint(m, a);
    if (m->actuator_ctrllimited[a]) {
        narrow(m->actuator_ctrlrange + 2 * a, 1, &lo, &hi);
    }
    if (plain && !bias && m->actuator_forcelimited[a]) {
        narrow(m->actuator_forcerange + 2 * a, gain, &lo, &hi);
    }
    if (joint >= 0 && m->jnt_actfrclimited[joint]) {
        narrow(m->jnt_actfrcrange + 2 * joint, gain * gear, &lo, &hi);
    }
    to->lo = fmin(lo - hold, 0);
    to->hi = fmax(hi - hold, 0);
    if (plain && bias && isinf(lo) && isinf(hi) && m->actuator_forcelimited[a]) {
        narrow(m->actuator_forcerange + 2 * a, gain, &to->lo, &to->hi);
    }
}

static void describe_actuator(pf_mujoco_model *m, int a, pf_mechanism *to)
{
    char room[PF_MUJOCO_NAME], text[160];
    const char *name = pf__mujoco_actuator_name(m->model, a, room, sizeof room);
    to->name = tidy(m, name, a + 1, mechanism_at);
    set_limits(m, a, to);
    pf__print(text, sizeof text, m->hold[a] != 0 ? "%s, holds %.4g" : "%s",
              actuator_kind(m->model, a), m->hold[a]);
    m->words[a + 1] = pf__arena_text(&m->arena, text);
}

pf_status pf__mujoco_describe_mechanisms(const pf_mujoco_maker *k)
{
    pf_mujoco_model *m = k->m;
    size_t n = (size_t)m->model->nu + 1;
    pf_mechanism *list = pf__arena_take(&m->arena, n, sizeof *list);
    pf_loss *losses = pf__arena_take(&m->arena, n, sizeof *losses);
    double *amplitude = pf__arena_take(&m->arena, n, sizeof *amplitude);
    m->words = pf__arena_take(&m->arena, n + 1, sizeof *m->words);
    if (m->arena.failed) {
        return pf__mujoco_no_memory(k);
    }
    bool force = false;
    m->info.mechanisms = list;
    m->info.n_mech = (int)n;
    list[0] = (pf_mechanism){"none", 0, 0};
    m->words[0] = "moves nothing";
    for (int a = 0; a + 1 < (int)n; a++) {
        describe_actuator(m, a, &list[a + 1]);
        losses[a + 1] = loss_of(m, a);
        force = force || losses[a + 1] == PF_LOSS_FORCE;
        amplitude[a + 1] = pf__quarter_range(&list[a + 1]);
    }
    m->first = 1;
    m->amplitude = amplitude;
    m->info.losses = force ? losses : NULL;
    m->probe = (pf_pulse){8, 8, false, amplitude};
    m->task = (pf_pulse){12, 12, false, amplitude};
    m->info.probe = &m->probe;
    m->info.task = &m->task;
    return m->arena.failed ? pf__mujoco_no_memory(k) : PF_OK;
}

// --- channels

// Channels under construction.
typedef struct channels {
    pf_mujoco_model *m;
    pf_channel *list;
    pf_channel_kind *kinds;
    pf_mujoco_reading *readings;
} channels;

static void add_channel(channels *c, const char *name, const char *ending, pf_channel_kind kind,
                        pf_mujoco_reading reading)
{
    char text[2 * PF_MUJOCO_NAME];
    int n = c->m->info.n_chan;
    // a name that is too long keeps its ending
    snprintf(text, sizeof text, "%.*s%s", PF_MUJOCO_NAME - (int)strlen(ending), name, ending);
    c->list[n] = (pf_channel){tidy(c->m, text, n, channel_at), 0, 0};
    c->kinds[n] = kind;
    c->readings[n] = reading;
    c->m->info.n_chan += c->list[n].name != NULL;
}

// Whether x and y of a free joint say nothing: those of a machine that moves about, not of a thing
// beside it.
static bool is_machine(const mjModel *m, int joint)
{
    int tree = m->body_treeid[m->jnt_bodyid[joint]];
    return tree >= 0 && m->tree_dofnum[tree] > 6;
}

static void add_joint_positions(channels *c, int joint)
{
    static const char *const names[] = {"_x", "_y", "_z", "_qw", "_qx", "_qy", "_qz"};
    const mjModel *m = c->m->model;
    char room[PF_MUJOCO_NAME];
    const char *name = pf__mujoco_joint_name(m, joint, room, sizeof room);
    int type = m->jnt_type[joint], at = m->jnt_qposadr[joint];
    int first = type == mjJNT_FREE ? (is_machine(m, joint) ? 2 : 0) : type == mjJNT_BALL ? 3 : 0;
    int end = type == mjJNT_FREE || type == mjJNT_BALL ? 7 : 1;
    for (int i = first; i < end; i++) {
        int offset = type == mjJNT_BALL ? i - 3 : i;
        add_channel(c, name, end == 7 ? names[i] : "",
                    end == 7 && i >= 3 ? PF_CHANNEL_QUATERNION : PF_CHANNEL_PLAIN,
                    (pf_mujoco_reading){PF_MUJOCO_QPOS, at + offset});
    }
}

static void add_joint_velocities(channels *c, int joint)
{
    static const char *const names[] = {"_vx", "_vy", "_vz", "_wx", "_wy", "_wz"};
    const mjModel *m = c->m->model;
    char room[PF_MUJOCO_NAME];
    const char *name = pf__mujoco_joint_name(m, joint, room, sizeof room);
    int type = m->jnt_type[joint];
    int n = type == mjJNT_FREE ? 6 : type == mjJNT_BALL ? 3 : 1;
    for (int i = 0; i < n; i++) {
        add_channel(c, name, n == 1 ? "_vel" : names[i + 6 - n], PF_CHANNEL_PLAIN,
                    (pf_mujoco_reading){PF_MUJOCO_QVEL, m->jnt_dofadr[joint] + i});
    }
}

// A clock shows nothing of the machine.
static bool is_sensor(const mjModel *m, int sensor)
{
    return m->sensor_type[sensor] != mjSENS_CLOCK;
}

static void add_sensor(channels *c, int sensor)
{
    static const char *const axes[] = {"_x", "_y", "_z"}, *const turns[] = {"_qw", "_qx", "_qy",
                                                                            "_qz"};
    const mjModel *m = c->m->model;
    const char *name = mj_id2name(m, mjOBJ_SENSOR, sensor);
    char room[PF_MUJOCO_NAME], ending[16];
    snprintf(room, sizeof room, "sensor_%d", sensor);
    int n = m->sensor_dim[sensor];
    bool quaternion = m->sensor_datatype[sensor] == mjDATATYPE_QUATERNION && n == 4;
    for (int i = 0; i < n; i++) {
        snprintf(ending, sizeof ending, "_%d", i);
        add_channel(c, name && name[0] ? name : room,
                    n == 1       ? ""
                    : quaternion ? turns[i]
                    : n == 3     ? axes[i]
                                 : ending,
                    quaternion ? PF_CHANNEL_QUATERNION : PF_CHANNEL_PLAIN,
                    (pf_mujoco_reading){PF_MUJOCO_SENSOR, m->sensor_adr[sensor] + i});
    }
}

static pf_mujoco_senses senses(const mjModel *m, bool any)
{
    for (int s = 0; s < m->nsensor && any; s++) {
        if (is_sensor(m, s) && m->sensor_needstage[s] == mjSTAGE_ACC) {
            return PF_MUJOCO_SENSES_FORCES;
        }
    }
    return any ? PF_MUJOCO_SENSES_MOTION : PF_MUJOCO_SENSES_NOTHING;
}

pf_status pf__mujoco_describe_channels(const pf_mujoco_maker *k)
{
    const mjModel *m = k->m->model;
    bool enabled = !(m->opt.disableflags & mjDSBL_SENSOR);
    size_t sensed = 0;
    for (int s = 0; s < m->nsensor && enabled; s++) {
        sensed += is_sensor(m, s) ? (size_t)m->sensor_dim[s] : 0;
    }
    size_t most = sensed > 0 ? sensed : (size_t)(m->nq + m->nv);
    if (most == 0 || most > CHANNELS_MOST) {
        return pf_fail(k->error, PF_ERR_UNSUPPORTED,
                       "%s: it has %z channels, there must be 1 to %d; declare fewer sensors",
                       k->label, most, CHANNELS_MOST);
    }
    pf_arena *arena = &k->m->arena;
    channels c = {k->m, pf__arena_take(arena, most, sizeof *c.list),
                  pf__arena_take(arena, most, sizeof *c.kinds),
                  pf__arena_take(arena, most, sizeof *c.readings)};
    if (arena->failed) {
        return pf__mujoco_no_memory(k);
    }
    k->m->senses = senses(m, sensed > 0);
    k->m->readings = c.readings;
    k->m->info.channels = c.list;
    k->m->info.kinds = c.kinds;
    for (int s = 0; s < m->nsensor && sensed > 0; s++) {
        if (is_sensor(m, s)) {
            add_sensor(&c, s);
        }
    }
    for (int j = 0; j < m->njnt && sensed == 0; j++) {
        add_joint_positions(&c, j);
    }
    for (int j = 0; j < m->njnt && sensed == 0; j++) {
        add_joint_velocities(&c, j);
    }
    return arena->failed ? pf__mujoco_no_memory(k) : PF_OK;
}

// --- all of it

void pf__mujoco_describe_rest(const pf_mujoco_maker *k)
{
    pf_mujoco_model *m = k->m;
    const mjModel *model = m->model;
    pf_text out = {0};
    char room[PF_MUJOCO_NAME];
    const char *key = k->home >= 0 ? mj_id2name(model, mjOBJ_KEY, k->home) : NULL;
    pf__text_add(&out, "home: ");
    if (key && key[0]) {
        pf__text_addf(&out, "keyframe %s", key);
    } else if (k->home >= 0) {
        pf__text_addf(&out, "keyframe %d", k->home);
    } else {
        pf__text_add(&out, "the file's initial positions");
    }
    if (k->rests) {
        pf__text_addf(&out, "; it rests after %.2g s", k->time_s);
    } else {
        pf__text_addf(
            &out, "; it does not come to rest: after %.2g s %s still moves at %.2g per second",
            k->time_s, pf__mujoco_joint_name(model, k->moving, room, sizeof room), k->speed);
    }
    if (k->unheld && !k->rests) {
        pf__text_addf(&out, "; motors hold nothing, since gravity also loads %s, which has none",
                      k->unheld);
    }
    m->words[m->info.n_mech] = out.data ? pf__arena_text(&m->arena, out.data) : "";
    pf__text_free(&out);
}
