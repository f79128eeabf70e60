// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "binding.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct pf_py_session {
    const pf_kit *kit;
    pf_kit_info info; // of the kit
    pf_session *session;
    void *memory; // of the session
    pf_py_desk desk;
    pf_py_ask ask;
    double *numbers; // of the desk
    pf_model *model;
    pf_predictor predictor; // from a start state; predict NULL: none
};

// The desk in one block of numbers, one more for each array than it needs.
static bool furnish(pf_py_session *s)
{
    const pf_kit_info *k = &s->info;
    pf_joint joint = pf_session_joint(s->session);
    size_t window = (size_t)k->most_rows * (size_t)k->n_chan;
    size_t targets = (size_t)k->most_targets, m = (size_t)k->n_mech - 1, mech = m + 1;
    size_t run = (size_t)k->rehearsal_rows * (size_t)k->n_chan;
    struct {
        double **array;
        size_t n;
    } arrays[] = {
        {&s->desk.response, window > run ? window : run},
        {&s->desk.start, (size_t)k->n_state + PF_STATE_MAX},
        {&s->desk.nominal, window},
        {&s->desk.fault, targets * window},
        {&s->desk.grid, targets * (size_t)k->n_grid * window},
        {&s->desk.nearest, window},
        {&s->desk.runs, (1 + 2 * mech) * run},
        {&s->desk.belief, mech},
        {&s->desk.joint, m * (size_t)joint.n_grid},
        {&s->desk.joint_grid, (size_t)joint.n_grid},
        {&s->desk.mean, m},
        {&s->desk.gains, mech},
        {&s->desk.command, (size_t)k->rehearsal_rows * mech},
        {&s->desk.correction, mech},
        {&s->desk.edges, 2 * (2 * mech)},
    };
    size_t n = 0, count = sizeof arrays / sizeof arrays[0];
    for (size_t i = 0; i < count; i++) {
        n += arrays[i].n + 1;
    }
    s->numbers = calloc(n, sizeof *s->numbers);
    s->desk.reading = calloc(targets, sizeof *s->desk.reading);
    s->desk.tasks = calloc((size_t)k->n_tasks, sizeof *s->desk.tasks);
    s->desk.ask = &s->ask;
    s->desk.n_gains = joint.n_grid;
    double *next = s->numbers;
    for (size_t i = 0; i < count && next; i++) {
        *arrays[i].array = next;
        next += arrays[i].n + 1;
    }
    if (next) {
        memcpy(s->desk.joint_grid, joint.grid, sizeof(double) * (size_t)joint.n_grid);
    }
    return s->numbers && s->desk.reading && s->desk.tasks;
}

int pf_py_session_open(pf_py_session **session, const pf_py_kit *kit, const char *method,
                       uint64_t seed, char *why)
{
    pf_error error = {PF_OK, ""};
    *session = NULL;
    pf_py_session *s = calloc(1, sizeof *s);
    size_t bytes = pf_session_size(kit->kit);
    void *memory = aligned_alloc(16, (bytes + 15) & ~(size_t)15);
    pf_status status = PF_OK;
    if (s) {
        s->kit = kit->kit;
        s->info = pf_kit_get_info(kit->kit);
        s->memory = memory;
    }
    if (!s || !memory) {
        status = pf_fail(&error, PF_ERR_MEMORY, "out of memory for a session");
    } else {
        pf_session_config config = {.method = method, .seed = seed};
        status = pf_session_init(&s->session, s->kit, &config, memory, bytes, &error);
    }
    if (status == PF_OK && !furnish(s)) {
        status = pf_fail(&error, PF_ERR_MEMORY, "out of memory for a session");
    }
    if (status != PF_OK) {
        if (s) {
            pf_py_session_close(s);
        } else {
            free(memory);
        }
        return pf_py_report(status, &error, why);
    }
    *session = s;
    return PF_OK;
}

void pf_py_session_close(pf_py_session *s)
{
    if (s) {
        pf_predictor_destroy(&s->predictor);
        pf_model_destroy(s->model);
        free(s->numbers);
        free(s->desk.reading);
        free(s->desk.tasks);
        free(s->memory);
        free(s);
    }
}

pf_py_desk *pf_py_session_desk(pf_py_session *s)
{
    return &s->desk;
}

// --- what predicts

int pf_py_session_twin(pf_py_session *s, pf_py_plant *plant, char *why)
{
    pf_error error = {PF_OK, ""};
    pf_status status = pf_kit_fits_twin(s->kit, pf_plant_get_info(plant->plant), &error);
    if (status == PF_OK) {
        pf_predictor_destroy(&s->predictor);
        status = pf_predictor_create(&s->predictor, s->kit, plant->plant, NULL, &error);
    }
    return pf_py_report(status, &error, why);
}

int pf_py_session_model(pf_py_session *s, const char *path, char *why)
{
    pf_error error = {PF_OK, ""};
    pf_status status = s->model ? pf_fail(&error, PF_ERR_STAGE, "the session has a model")
                                : pf_model_load(&s->model, path, &error);
    if (status == PF_OK) {
        status = pf_kit_fits_model(s->kit, s->model, &error);
    }
    if (status == PF_OK) {
        pf_predictor_destroy(&s->predictor);
        status = pf_predictor_create(&s->predictor, s->kit, NULL, s->model, &error);
    }
    return pf_py_report(status, &error, why);
}

// --- ask and tell

// What must be predicted for a rehearsal of several tasks: the whole with a mechanism at a gain.
// The session says so while it is told; the last prediction is refused, and a refused call changes
// nothing.
typedef struct wanted {
    pf_py_session *session;
    int n, most; // edges that were asked for, and all of them
} wanted;

static pf_status note_run(void *self, const pf_run *run, const double *start, int n_start,
                          double *response, pf_error *error)
{
    wanted *w = self;
    (void)start;
    (void)n_start;
    memset(response, 0, sizeof(double) * (size_t)run->rows * (size_t)w->session->info.n_chan);
    if (run->gains) {
        double *edge = w->session->desk.edges + 2 * w->n++;
        edge[1] = run->gains[(int)edge[0]];
    }
    return w->n < w->most ? PF_OK : pf_fail(error, PF_ERR_PREDICTION, "that was the last one");
}

static int note_edges(pf_py_session *s, const pf_ask *ask)
{
    wanted w = {.session = s};
    for (int i = 0; i < ask->n_tasks; i++) {
        const int32_t *uses = NULL;
        int n = pf_kit_task_mechanisms(s->kit, ask->tasks[i], &uses);
        for (int u = 0; u < 2 * n; u++) {
            if (uses[u / 2] > 0) {
                s->desk.edges[2 * w.most++] = uses[u / 2];
            }
        }
    }
    if (w.most == 0) {
        return 0;
    }
    pf_predictor noting = {.self = &w, .run = note_run};
    memset(s->desk.response, 0, sizeof(double) * (size_t)ask->rows * (size_t)s->info.n_chan);
    pf_tell tell = {.probe = -1,
                    .response = s->desk.response,
                    .rows = ask->rows,
                    .channels = s->info.n_chan,
                    .start = s->desk.start,
                    .n_start = s->info.n_state,
                    .n_tasks = ask->n_tasks,
                    .tasks = ask->tasks};
    pf_session_tell(s->session, &tell, &noting, NULL);
    return w.n;
}

// Tasks, command and corrections of a rehearsal; gives the number of edges.
static int lay_rehearsal(pf_py_session *s, const pf_ask *ask)
{
    size_t n_mech = (size_t)s->info.n_mech, d = sizeof(double);
    memcpy(s->desk.tasks, ask->tasks, sizeof(int32_t) * (size_t)ask->n_tasks);
    memcpy(s->desk.correction, ask->correction, d * n_mech);
    if (ask->command) {
        memcpy(s->desk.command, ask->command, d * (size_t)ask->rows * n_mech);
    }
    return ask->n_tasks > 1 && !s->info.recorded ? note_edges(s, ask) : 0;
}

void pf_py_session_ask(pf_py_session *s)
{
    pf_ask ask = pf_session_ask(s->session);
    bool done = ask.kind == PF_ASK_DONE;
    const double *others = done ? NULL : pf_session_others(s->session);
    if (others) {
        memcpy(s->desk.gains, others, sizeof(double) * (size_t)s->info.n_mech);
    }
    int n_edges = ask.kind == PF_ASK_REHEARSAL ? lay_rehearsal(s, &ask) : 0;
    *s->desk.ask = (pf_py_ask){.kind = (int32_t)ask.kind,
                               .stage = ask.stage,
                               .probe = ask.probe,
                               .rows = ask.rows,
                               .has_value = ask.has_value,
                               .has_gains = others != NULL,
                               .per_gain = !done && pf_session_get_state(s->session).per_gain,
                               .n_tasks = ask.n_tasks,
                               .has_command = ask.command != NULL,
                               .n_edges = n_edges,
                               .value = ask.value,
                               .why = done ? pf_done_name(ask.why) : NULL};
}

// After a tell of stage 1: what was read, and where.
static void lay_stage1(pf_py_session *s)
{
    int n = 0, m = s->info.n_mech - 1;
    const pf_reading *reading = pf_session_readings(s->session, &n);
    for (int t = 0; t < n; t++) {
        s->desk.reading[t] = (pf_py_reading){.mechanism = reading[t].mechanism,
                                             .usable = reading[t].usable,
                                             .category = reading[t].category,
                                             .gate = reading[t].gate,
                                             .plausible = reading[t].plausible,
                                             .score = reading[t].score,
                                             .coordinate = reading[t].coordinate};
    }
    const double *belief = pf_session_belief(s->session);
    memcpy(s->desk.belief, belief, sizeof(double) * (size_t)(m + 1));
    s->desk.n_readings = n;
    s->desk.change = pf_session_get_state(s->session).change;
}

// After a tell of stage 2: the joint belief and its marginals.
static void lay_stage2(pf_py_session *s)
{
    pf_joint joint = pf_session_joint(s->session);
    s->desk.n_readings = 0;
    s->desk.belief[0] = joint.nominal;
    for (int j = 1; j <= joint.m; j++) {
        pf_moments moments = pf_joint_moments(&joint, j);
        s->desk.belief[j] = moments.changed;
        s->desk.mean[j - 1] = moments.mean;
    }
    s->desk.change = 1 - joint.nominal;
    memcpy(s->desk.joint, joint.mass, sizeof(double) * (size_t)joint.m * (size_t)joint.n_grid);
}

// Tells what lies on the desk: of a probe, or with probe -1 of a rehearsal.
static int tell_desk(pf_py_session *s, int probe, const int32_t *tasks, int n_tasks, int from,
                     char *why)
{
    pf_error error = {PF_OK, ""};
    bool nearest = (from & PF_PY_NEAREST) != 0;
    from &= ~PF_PY_NEAREST;
    pf_given given = {.session = s->session,
                      .nominal = s->desk.nominal,
                      .fault = s->desk.fault,
                      .grid = s->desk.grid,
                      .nearest = nearest ? s->desk.nearest : NULL,
                      .runs = s->desk.runs,
                      .n_runs = 1 + (s->ask.n_edges > 0 ? s->ask.n_edges : 1)};
    pf_predictor caller = pf_given_predictor(&given);
    const pf_predictor *predictor = from == 2 ? &caller : from == 1 ? &s->predictor : NULL;
    pf_status status = PF_OK;
    pf_ask ask;
    if (!pf_session_outstanding(s->session, &ask)) {
        status = pf_session_get_state(s->session).stage == PF_STAGE_DONE
                     ? pf_fail(&error, PF_ERR_STAGE, "tell: the session is done")
                     : pf_fail(&error, PF_ERR_PROBE, "tell: nothing is outstanding; ask first");
    } else if (predictor && !predictor->predict) {
        status = pf_fail(&error, PF_ERR_PREDICTION,
                         "state: the session has nothing to predict from a state with; give it a "
                         "plant or a model, or tell it predictions");
    } else {
        pf_tell tell = {.probe = probe,
                        .response = s->desk.response,
                        .rows = ask.rows,
                        .channels = s->info.n_chan,
                        .start = s->desk.start,
                        .n_start = s->info.n_state,
                        .n_tasks = n_tasks,
                        .tasks = tasks};
        status = pf_session_tell(s->session, &tell, predictor, &error);
    }
    if (status != PF_OK) {
        return pf_py_report(status, &error, why);
    }
    if (ask.stage == PF_STAGE_LOOK) {
        lay_stage1(s);
    } else {
        lay_stage2(s); // after a rehearsal it is what it was before
    }
    pf_session_state state = pf_session_get_state(s->session);
    s->desk.alarm = state.alarm;
    s->desk.misfit = state.misfit;
    s->desk.passed = pf_session_rehearsed(s->session, &s->desk.distance);
    return PF_OK;
}

int pf_py_session_tell(pf_py_session *s, int probe, int from, char *why)
{
    return tell_desk(s, probe, NULL, 0, from, why);
}

int pf_py_session_tell_rehearsal(pf_py_session *s, const int32_t *tasks, int n_tasks, int from,
                                 char *why)
{
    return tell_desk(s, -1, tasks, n_tasks, from, why);
}

int pf_py_session_skip(pf_py_session *s, char *why)
{
    pf_error error = {PF_OK, ""};
    return pf_py_report(pf_session_skip(s->session, &error), &error, why);
}

int pf_py_session_stage2(pf_py_session *s, char *why)
{
    pf_error error = {PF_OK, ""};
    return pf_py_report(pf_session_stage2(s->session, &error), &error, why);
}

void pf_py_session_reset(pf_py_session *s)
{
    pf_session_reset(s->session);
}

char *pf_py_session_readiness(pf_py_session *s)
{
    return pf_session_json(s->session);
}

double pf_py_session_joint(pf_py_session *s)
{
    pf_joint joint = pf_session_joint(s->session);
    memcpy(s->desk.joint, joint.mass, sizeof(double) * (size_t)joint.m * (size_t)joint.n_grid);
    return joint.nominal;
}

int pf_py_session_stage(const pf_py_session *s)
{
    return pf_session_get_state(s->session).stage;
}

double pf_py_session_charge(const pf_py_session *s)
{
    return pf_session_get_state(s->session).charge;
}

double pf_py_session_threshold(const pf_py_session *s)
{
    return pf_session_get_state(s->session).threshold;
}

// --- a simulated machine

int pf_py_session_run(pf_py_session *s, pf_py_plant *machine, const pf_py_faults *faults,
                      uint64_t seed, int index, char *why)
{
    pf_error error = {PF_OK, ""};
    const pf_plant_info *info = pf_plant_get_info(machine->plant);
    pf_ask ask;
    pf_status status = pf_kit_fits_machine(s->kit, info, &error);
    if (status == PF_OK && !pf_session_outstanding(s->session, &ask)) {
        status = pf_fail(&error, PF_ERR_PROBE, "nothing is outstanding; ask first");
    }
    if (status == PF_OK) {
        bool own =
            s->info.recorded || strcmp(info->name, pf_kit_get_string(s->kit, PF_KIT_PLANT)) != 0;
        pf_rig rig = {.plant = machine->plant,
                      .kit = s->kit,
                      .start = s->desk.start,
                      .response = s->desk.response,
                      .own_noise = own,
                      .faults = faults ? faults->item : NULL,
                      .n_faults = faults ? faults->n : 0};
        pf_purpose purpose = ask.stage == PF_STAGE_LOOK      ? PF_PURPOSE_EVALUATION
                             : ask.stage == PF_STAGE_RECOVER ? PF_PURPOSE_RECOVERY
                                                             : PF_PURPOSE_REHEARSAL;
        pf_key key = pf_key_stream(seed, pf_plant_environment(info), 0, purpose, (uint64_t)index);
        status = ask.kind == PF_ASK_REHEARSAL ? pf_rig_rehearse(&rig, &ask, key, &error)
                                              : pf_rig_run(&rig, ask.probe, key, &error);
    }
    return pf_py_report(status, &error, why);
}
