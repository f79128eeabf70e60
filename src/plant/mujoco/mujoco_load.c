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
        if (strncmp(text, m->system->known, strlen(m->system->known)) == 0) {
            snprintf(m->source, sizeof m->source, "MuJoCo %s, Gymnasium %s", mj_versionString(),
                     PF_GYMNASIUM_VERSION);
        } else {
            snprintf(m->source, sizeof m->source, "MuJoCo %s, %s %.16s", mj_versionString(),
                     m->system->file, text);
        }
    }
    return status;
}

static pf_status load_model(pf_mujoco_model *m, pf_error *error)
{
    const pf_mujoco_system *s = m->system;
    if (mj_version() != mjVERSION_HEADER) {
        return pf_fail(error, PF_ERR_UNSUPPORTED, "%s: built for MuJoCo %d, the library is %d",
                       s->name, mjVERSION_HEADER, mj_version());
    }
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    char path[PATH_SIZE], reason[REASON_SIZE] = "";
    if (!find_file(s->file, path)) {
        return pf__mujoco_present(s, error);
    }
    pthread_once(&once, set_handler);
    m->model = mj_loadXML(path, NULL, reason, sizeof reason);
    if (!m->model) {
        for (char *c = reason; *c; c++) {
            *c = *c == '\n' ? ' ' : *c;
        }
        return pf_fail(error, PF_ERR_FORMAT,
                       "%s: MuJoCo cannot read %s (%s); take Gymnasium's file: `make deps`",
                       s->name, path, reason);
    }
    // A diverged state must stay what it is, not turn into a fresh start. The fault layer applies
    // the limits; a forecast that delivers more than the nominal share is not cut a second time.
    m->model->opt.disableflags |= mjDSBL_AUTORESET | mjDSBL_CLAMPCTRL;
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

// --- the description

static void set_name(char *to, const char *name, const char *ending)
{
    snprintf(to, PF_MUJOCO_NAME, "%s%s", name ? name : "", ending);
}

// Positions and velocities of one joint, as channels from the first number that is kept.
static void name_joint(pf_mujoco_model *m, int joint)
{
    static const char *const free_qpos[] = {"_x", "_y", "_z", "_qw", "_qx", "_qy", "_qz"};
    static const char *const free_qvel[] = {"_vx", "_vy", "_vz", "_wx", "_wy", "_wz"};
    const mjModel *model = m->model;
    const pf_mujoco_system *s = m->system;
    const char *name = mj_id2name(model, mjOBJ_JOINT, joint);
    bool is_free = model->jnt_type[joint] == mjJNT_FREE;
    char(*names)[PF_MUJOCO_NAME] = m->names + PF_MUJOCO_MECH;
    for (int i = 0; i < (is_free ? 7 : 1); i++) {
        int c = model->jnt_qposadr[joint] + i - s->dropped;
        if (c >= 0) {
            set_name(names[c], name, is_free ? free_qpos[i] : "");
            m->kinds[c] = is_free && i >= 3 ? PF_CHANNEL_QUATERNION : PF_CHANNEL_PLAIN;
        }
    }
    for (int i = 0; i < (is_free ? 6 : 1); i++) {
        int c = s->nq - s->dropped + model->jnt_dofadr[joint] + i;
        set_name(names[c], name, is_free ? free_qvel[i] : "_vel");
    }
}

static void describe_mechanisms(pf_mujoco_model *m)
{
    const mjModel *model = m->model;
    for (int j = 0; j < m->system->nu; j++) {
        // Ant's motors have no names of their own
        const char *name = mj_id2name(model, mjOBJ_ACTUATOR, j);
        if (!name) {
            name = mj_id2name(model, mjOBJ_JOINT, model->actuator_trnid[2 * j]);
        }
        set_name(m->names[j], name, "");
        m->mechanisms[j] = (pf_mechanism){m->names[j], model->actuator_ctrlrange[2 * j],
                                          model->actuator_ctrlrange[2 * j + 1]};
        // the passive command is the current mechanism's probe
        m->probe_amplitude[j] = j == 0 ? .20 : .25;
        m->task_amplitude[j] = j == 0 ? 0 : .25;
    }
    m->probe = (pf_pulse){8, 8, false, m->probe_amplitude};
    m->task = (pf_pulse){12, 12, false, m->task_amplitude};
}

static void describe(pf_mujoco_model *m)
{
    const pf_mujoco_system *s = m->system;
    describe_mechanisms(m);
    for (int j = 0; j < m->model->njnt; j++) {
        name_joint(m, j);
    }
    int n_chan = pf__mujoco_channels(s);
    for (int c = 0; c < n_chan; c++) {
        m->channels[c] = (pf_channel){m->names[PF_MUJOCO_MECH + c], 0, s->scale[c]};
    }
    m->info = (pf_plant_info){.name = s->name,
                              .title = s->title,
                              .source = m->source,
                              .n_mech = s->nu,
                              .n_chan = n_chan,
                              .n_state = mj_stateSize(m->model, mjSTATE_INTEGRATION),
                              .dt_s = s->dt_s,
                              .deterministic = true,
                              .mechanisms = m->mechanisms,
                              .channels = m->channels,
                              .kinds = m->kinds,
                              .probe = &m->probe,
                              .task = &m->task,
                              .reveal = s->reveal,
                              .importance = s->importance};
}

// The table's constants belong to one model each; a file of another shape is refused.
static pf_status check_model(const pf_mujoco_model *m, pf_error *error)
{
    const mjModel *model = m->model;
    const pf_mujoco_system *s = m->system;
    bool same = model->nq == s->nq && model->nv == s->nv && model->nu == s->nu && model->na == 0 &&
                fabs(model->opt.timestep * s->skip - s->dt_s) < 1e-12 && s->nu <= PF_MUJOCO_MECH &&
                pf__mujoco_channels(s) <= PF_MUJOCO_CHAN &&
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
    if (status == PF_OK) {
        status = check_model(m, error);
    }
    if (status != PF_OK) {
        pf__mujoco_release(m);
        return status;
    }
    describe(m);
    *model = m;
    return PF_OK;
}

void pf__mujoco_release(pf_mujoco_model *model)
{
    if (model && atomic_fetch_sub(&model->users, 1) == 1) {
        mj_deleteModel(model->model);
        free(model);
    }
}
