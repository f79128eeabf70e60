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
    size_t window = (size_t)k->most_rows * (size_t)k->n_chan;
    size_t targets = (size_t)k->most_targets, m = (size_t)k->n_mech - 1;
    struct {
        double **array;
        size_t n;
    } arrays[] = {
        {&s->desk.response, window},
        {&s->desk.start, (size_t)k->n_state + PF_STATE_MAX},
        {&s->desk.nominal, window},
        {&s->desk.fault, targets * window},
        {&s->desk.grid, targets * (size_t)k->n_grid * window},
        {&s->desk.belief, (size_t)k->n_mech},
        {&s->desk.joint, m * (size_t)k->n_grid},
        {&s->desk.mean, m},
        {&s->desk.gains, (size_t)k->n_mech},
    };
    size_t n = 0, count = sizeof arrays / sizeof arrays[0];
    for (size_t i = 0; i < count; i++) {
        n += arrays[i].n + 1;
    }
    s->numbers = calloc(n, sizeof *s->numbers);
    s->desk.reading = calloc(targets, sizeof *s->desk.reading);
    s->desk.ask = &s->ask;
    double *next = s->numbers;
    for (size_t i = 0; i < count && next; i++) {
        *arrays[i].array = next;
        next += arrays[i].n + 1;
    }
    return s->numbers && s->desk.reading;
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
    if (!s || !memory || !furnish(s)) {
        status = pf_fail(&error, PF_ERR_MEMORY, "out of memory for a session");
    } else {
        pf_session_config config = {.method = method, .seed = seed};
        status = pf_session_init(&s->session, s->kit, &config, memory, bytes, &error);
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

void pf_py_session_ask(pf_py_session *s)
{
    pf_ask ask = pf_session_ask(s->session);
    bool done = ask.kind == PF_ASK_DONE;
    const double *others = done ? NULL : pf_session_others(s->session);
    if (others) {
        memcpy(s->desk.gains, others, sizeof(double) * (size_t)s->info.n_mech);
    }
    *s->desk.ask = (pf_py_ask){.done = done,
                               .stage = ask.stage,
                               .probe = ask.probe,
                               .rows = ask.rows,
                               .has_value = ask.has_value,
                               .has_gains = others != NULL,
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

int pf_py_session_tell(pf_py_session *s, int probe, int from, char *why)
{
    pf_error error = {PF_OK, ""};
    pf_given given = {s->session, s->desk.nominal, s->desk.fault, s->desk.grid};
    pf_predictor caller = pf_given_predictor(&given);
    const pf_predictor *predictor = from == 2 ? &caller : from == 1 ? &s->predictor : NULL;
    pf_status status = PF_OK;
    pf_ask ask;
    if (!pf_session_outstanding(s->session, &ask)) {
        status = pf_session_get_state(s->session).stage == PF_STAGE_DONE
                     ? pf_fail(&error, PF_ERR_STAGE, "tell: the session is done")
                     : pf_fail(&error, PF_ERR_PROBE, "probe: no probe is outstanding; ask first");
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
                        .n_start = s->info.n_state};
        status = pf_session_tell(s->session, &tell, predictor, &error);
    }
    if (status != PF_OK) {
        return pf_py_report(status, &error, why);
    }
    if (ask.stage == 1) {
        lay_stage1(s);
    } else {
        lay_stage2(s);
    }
    s->desk.alarm = pf_session_get_state(s->session).alarm;
    return PF_OK;
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
        status = pf_fail(&error, PF_ERR_PROBE, "no probe is outstanding; ask first");
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
        pf_purpose purpose = ask.stage == 1 ? PF_PURPOSE_EVALUATION : PF_PURPOSE_RECOVERY;
        pf_key key = pf_key_stream(seed, pf_plant_environment(info), 0, purpose, (uint64_t)index);
        status = pf_rig_run(&rig, ask.probe, key, &error);
    }
    return pf_py_report(status, &error, why);
}
