// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "mujoco_load.h"
#include "core/sha256.h"

#include "host/file.h"
#include "preflight/kit.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_SIZE = 4096, REASON_SIZE = 1024 };

const char *pf__mujoco_version(void)
{
    return mj_versionString();
}

// --- the model file

static bool readable(char *path, const char *folder, const char *below, const char *file)
{
    int n = snprintf(path, PATH_SIZE, "%s%s/%s", folder, below, file);
    return n > 0 && n < PATH_SIZE && access(path, R_OK) == 0;
}

// The folder named by PREFLIGHT_MODELS and no other, else beside the program where it is installed,
// else Gymnasium as the build found it, else where the build would install.
static bool find_file(const char *file, char *path)
{
    const char *named = getenv("PREFLIGHT_MODELS");
    if (named && named[0]) {
        return readable(path, named, "", file);
    }
    char program[PATH_SIZE];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n > 0) {
        program[n] = 0;
        char *slash = strrchr(program, '/');
        *(slash ? slash : program) = 0;
        if (readable(path, program, "/../share/preflight/gymnasium", file)) {
            return true;
        }
    }
    return readable(path, PF_MODELS_BUILT, "", file) ||
           readable(path, PF_MODELS_INSTALLED, "", file);
}

// MuJoCo writes warnings to the console and to a file in the current folder. Those of a trajectory
// are counted in its mjData and fail it, those of loading are about the file's age. Errors come
// here only where no batch catches them, and MuJoCo's callers do not expect to come back from one.
static void log_message(const mjLogMessage *message)
{
    if (message->level == mjLOG_ERROR) {
        fprintf(stderr, "MuJoCo: %s\n", message->subject);
        abort();
    }
}

static void set_handler(void)
{
    mju_setLogHandler(log_message);
}

// A file is known by its contents: kits, models and results made with another are refused.
static pf_status name_source(pf_mujoco_model *m, const char *path, pf_error *error)
{
    void *data;
    size_t size;
    pf_status status = pf__file_read(path, 1 << 24, &data, &size, error);
    if (status == PF_OK) {
        char text[65];
        pf__sha256_of(data, size, text);
        free(data);
        char source[128];
        if (strncmp(text, m->system->known, strlen(m->system->known)) == 0) {
            snprintf(source, sizeof source, "MuJoCo %s, Gymnasium %s", mj_versionString(),
                     PF_GYMNASIUM_VERSION);
        } else {
            snprintf(source, sizeof source, "MuJoCo %s, %s %.16s", mj_versionString(),
                     m->system->file, text);
        }
        m->info.source = pf__arena_text(&m->arena, source);
    }
    return status;
}

pf_status pf__mujoco_ready(const char *name, pf_error *error)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (mj_version() != mjVERSION_HEADER) {
        return pf_fail(error, PF_ERR_UNSUPPORTED, "%s: built for MuJoCo %d, the library is %d",
                       name, mjVERSION_HEADER, mj_version());
    }
    pthread_once(&once, set_handler);
    return PF_OK;
}

void pf__mujoco_one_line(char *text)
{
    for (char *c = text; *c; c++) {
        *c = *c == '\n' ? ' ' : *c;
    }
    for (size_t n = strlen(text); n > 0 && text[n - 1] == ' '; n--) {
        text[n - 1] = 0;
    }
}

void pf__mujoco_set_options(mjModel *model)
{
    // A diverged state must stay what it is, not turn into a fresh start. The fault layer applies
    // the limits; a forecast that delivers more than the nominal share is not cut a second time.
    model->opt.disableflags |= mjDSBL_AUTORESET | mjDSBL_CLAMPCTRL;
}

static pf_status load_model(pf_mujoco_model *m, pf_error *error)
{
    const pf_mujoco_system *s = m->system;
    char path[PATH_SIZE], reason[REASON_SIZE] = "";
    pf_status status = pf__mujoco_ready(s->name, error);
    if (status != PF_OK) {
        return status;
    }
    if (!find_file(s->file, path)) {
        return pf__mujoco_present(s, error);
    }
    m->model = mj_loadXML(path, NULL, reason, sizeof reason);
    if (!m->model) {
        pf__mujoco_one_line(reason);
        return pf_fail(error, PF_ERR_FORMAT,
                       "%s: MuJoCo cannot read %s (%s); take Gymnasium's file: `make deps`",
                       s->name, path, reason);
    }
    pf__mujoco_set_options(m->model);
    return name_source(m, path, error);
}

pf_status pf__mujoco_present(const pf_mujoco_system *system, pf_error *error)
{
    char path[PATH_SIZE];
    if (find_file(system->file, path)) {
        return PF_OK;
    }
    const char *named = getenv("PREFLIGHT_MODELS");
    if (named && named[0]) {
        return pf_fail(error, PF_ERR_UNSUPPORTED,
                       "%s: %s is not in %s, which PREFLIGHT_MODELS names; unset it, or name "
                       "Gymnasium's envs/mujoco/assets",
                       system->name, system->file, named);
    }
    return pf_fail(error, PF_ERR_UNSUPPORTED,
                   "%s: %s was not found; run `make deps`, or set PREFLIGHT_MODELS to Gymnasium's "
                   "envs/mujoco/assets",
                   system->name, system->file);
}

mjBatch *pf__mujoco_batch(const mjModel *model, char *reason, size_t size)
{
    mjBatchConfig config;
    mjb_defaultConfig(&config);
    config.nthread = 1;
    config.persistent = 1;
    return mjb_makeBatch(model, 1, &config, reason, (int)size);
}

// --- the description

static char *joined(pf_mujoco_model *m, const char *name, const char *ending)
{
    char text[96];
    snprintf(text, sizeof text, "%s%s", name ? name : "", ending);
    return pf__arena_text(&m->arena, text);
}

// What a description is filled into.
typedef struct lists {
    pf_mechanism *mechanisms;
    pf_channel *channels;
    pf_channel_kind *kinds;
    pf_mujoco_reading *readings;
    double *probe, *task; // amplitudes
} lists;

// Positions and velocities of one joint, as channels from the first number that is kept.
static void name_joint(pf_mujoco_model *m, const lists *to, int joint)
{
    static const char *const free_qpos[] = {"_x", "_y", "_z", "_qw", "_qx", "_qy", "_qz"};
    static const char *const free_qvel[] = {"_vx", "_vy", "_vz", "_wx", "_wy", "_wz"};
    const mjModel *model = m->model;
    const pf_mujoco_system *s = m->system;
    const char *name = mj_id2name(model, mjOBJ_JOINT, joint);
    bool is_free = model->jnt_type[joint] == mjJNT_FREE;
    for (int i = 0; i < (is_free ? 7 : 1); i++) {
        int at = model->jnt_qposadr[joint] + i, c = at - s->dropped;
        if (c >= 0) {
            to->channels[c].name = joined(m, name, is_free ? free_qpos[i] : "");
            to->kinds[c] = is_free && i >= 3 ? PF_CHANNEL_QUATERNION : PF_CHANNEL_PLAIN;
            to->readings[c] = (pf_mujoco_reading){PF_MUJOCO_QPOS, at};
        }
    }
    for (int i = 0; i < (is_free ? 6 : 1); i++) {
        int at = model->jnt_dofadr[joint] + i, c = s->nq - s->dropped + at;
        to->channels[c].name = joined(m, name, is_free ? free_qvel[i] : "_vel");
        to->readings[c] = (pf_mujoco_reading){PF_MUJOCO_QVEL, at};
    }
}

static void describe_mechanisms(pf_mujoco_model *m, const lists *to)
{
    const mjModel *model = m->model;
    for (int j = 0; j < m->system->nu; j++) {
        // Ant's motors have no names of their own
        const char *name = mj_id2name(model, mjOBJ_ACTUATOR, j);
        if (!name) {
            name = mj_id2name(model, mjOBJ_JOINT, model->actuator_trnid[2 * j]);
        }
        to->mechanisms[j] = (pf_mechanism){joined(m, name, ""), model->actuator_ctrlrange[2 * j],
                                           model->actuator_ctrlrange[2 * j + 1]};
        // the passive command is the current mechanism's probe
        to->probe[j] = j == 0 ? .20 : .25;
        to->task[j] = j == 0 ? 0 : .25;
    }
    m->probe = (pf_pulse){8, 8, false, to->probe};
    m->task = (pf_pulse){12, 12, false, to->task};
}

// The law of Gymnasium's reset_model from our own stream, positions first.
static void draw_start(const pf_mujoco_model *m, pf_rng *rng, mjData *d)
{
    const pf_mujoco_system *s = m->system;
    for (int i = 0; i < s->nq; i++) {
        d->qpos[i] += s->reset_qpos * (2 * pf_rng_uniform(rng) - 1);
    }
    for (int i = 0; i < s->nv; i++) {
        d->qvel[i] +=
            s->reset_qvel * (s->reset_normal ? pf_rng_normal(rng) : 2 * pf_rng_uniform(rng) - 1);
    }
}

static pf_status describe(pf_mujoco_model *m, pf_error *error)
{
    const pf_mujoco_system *s = m->system;
    size_t n_chan = (size_t)pf__mujoco_channels(s), n_mech = (size_t)s->nu;
    lists to = {.mechanisms = pf__arena_take(&m->arena, n_mech, sizeof *to.mechanisms),
                .channels = pf__arena_take(&m->arena, n_chan, sizeof *to.channels),
                .kinds = pf__arena_take(&m->arena, n_chan, sizeof *to.kinds),
                .readings = pf__arena_take(&m->arena, n_chan, sizeof *to.readings),
                .probe = pf__arena_take(&m->arena, n_mech, sizeof *to.probe),
                .task = pf__arena_take(&m->arena, n_mech, sizeof *to.task)};
    if (!m->arena.failed) {
        describe_mechanisms(m, &to);
        for (int j = 0; j < m->model->njnt; j++) {
            name_joint(m, &to, j);
        }
        for (size_t c = 0; c < n_chan; c++) {
            to.channels[c].scale = s->scale[c];
        }
    }
    m->skip = s->skip;
    m->readings = to.readings;
    m->draw = draw_start;
    m->info = (pf_plant_info){.name = s->name,
                              .title = s->title,
                              .source = m->info.source,
                              .n_mech = s->nu,
                              .n_chan = (int)n_chan,
                              .n_state = mj_stateSize(m->model, mjSTATE_INTEGRATION),
                              .dt_s = s->dt_s,
                              .deterministic = true,
                              .mechanisms = to.mechanisms,
                              .channels = to.channels,
                              .kinds = to.kinds,
                              .probe = &m->probe,
                              .task = &m->task,
                              .reveal = s->reveal,
                              .importance = s->importance};
    m->rest = pf__arena_take(&m->arena, (size_t)m->info.n_state, sizeof *m->rest);
    return m->arena.failed ? pf_fail(error, PF_ERR_MEMORY, "%s: out of memory", s->name) : PF_OK;
}

static void read_rest(const mjModel *model, mjData *d, int simulation, void *argument)
{
    (void)simulation;
    pf_mujoco_model *m = argument;
    mj_resetData(model, d);
    mj_getState(model, d, m->rest, mjSTATE_INTEGRATION);
}

pf_status pf__mujoco_call(const pf_mujoco_model *m, mjfBatchFunc function, void *argument,
                          pf_error *error)
{
    char reason[96] = "out of memory";
    mjBatch *batch = pf__mujoco_batch(m->model, reason, sizeof reason);
    bool bad = !batch || mjb_apply(batch, NULL, 1, function, argument, 0) != 0;
    if (batch && bad) {
        snprintf(reason, sizeof reason, "%s", mjb_error(batch, 0));
        pf__mujoco_one_line(reason);
    }
    if (batch) {
        mjb_deleteBatch(batch);
    }
    return bad ? pf_fail(error, PF_ERR_PLANT, "%s: MuJoCo fails at rest: %s", m->info.name, reason)
               : PF_OK;
}

// The table's constants belong to one model each; a file of another shape is refused.
static pf_status check_model(const pf_mujoco_model *m, pf_error *error)
{
    const mjModel *model = m->model;
    const pf_mujoco_system *s = m->system;
    bool same = model->nq == s->nq && model->nv == s->nv && model->nu == s->nu && model->na == 0 &&
                fabs(model->opt.timestep * s->skip - s->dt_s) < 1e-12 &&
                mj_stateSize(model, mjSTATE_INTEGRATION) <= PF_STATE_MAX;
    for (int j = 0; same && j < s->nu; j++) {
        same = model->actuator_ctrllimited[j];
    }
    for (int j = 0; same && j < model->njnt; j++) {
        same = model->jnt_type[j] != mjJNT_BALL;
    }
    if (!same) {
        return pf_fail(error, PF_ERR_FORMAT,
                       "%s: %s is not the model of Gymnasium's v5; `make deps` installs that",
                       s->name, s->file);
    }
    return PF_OK;
}

pf_status pf__mujoco_load(pf_mujoco_model **model, const pf_mujoco_system *system, pf_error *error)
{
    *model = NULL;
    pf_mujoco_model *m = calloc(1, sizeof *m);
    if (!m) {
        return pf_fail(error, PF_ERR_MEMORY, "%s: out of memory", system->name);
    }
    atomic_init(&m->users, 1);
    m->system = system;
    pf_status status = load_model(m, error);
    status = status ? status : check_model(m, error);
    status = status ? status : describe(m, error);
    status = status ? status : pf__mujoco_call(m, read_rest, m, error);
    if (status != PF_OK) {
        pf__mujoco_release(m);
        return status;
    }
    *model = m;
    return PF_OK;
}

void pf__mujoco_release(pf_mujoco_model *model)
{
    if (model && atomic_fetch_sub(&model->users, 1) == 1) {
        mj_deleteModel(model->model);
        pf__arena_free(&model->arena);
        free(model);
    }
}
