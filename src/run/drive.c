// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "preflight/run.h"

#include "host/parallel.h"
#include "host/arena.h"

#include <stdlib.h>
#include <string.h>

pf_drive pf_drive_default(void)
{
    return (pf_drive){.purpose = PF_PURPOSE_EVALUATION};
}

// One probe on the machine and its response into the session.
static pf_status run_and_tell(pf_session *session, const pf_machine *machine,
                              const pf_predictor *predictor, const pf_drive *drive,
                              const pf_ask *ask, pf_key key, pf_error *error)
{
    pf_kit_info k = pf_kit_get_info(pf_session_kit(session));
    bool recordings = k.recorded;
    if (!recordings && (!predictor || !predictor->predict)) {
        return pf_fail(error, PF_ERR_PREDICTION, "the kit predicts with a %s; none was given",
                       k.starts_from_channels ? "model" : "twin");
    }
    pf_answer answer = {0};
    pf_status status = ask->kind == PF_ASK_REHEARSAL
                           ? machine->rehearse(machine->self, ask, key, &answer, error)
                           : machine->answer(machine->self, ask->probe, key, &answer, error);
    if (status != PF_OK) {
        return status;
    }
    pf_predictor watched = {0};
    if (!recordings) {
        watched = drive->watch ? drive->watch(drive->self, predictor, ask) : *predictor;
    }
    pf_tell tell = {.probe = ask->probe,
                    .response = answer.response,
                    .rows = ask->rows,
                    .channels = k.n_chan,
                    .start = answer.start,
                    .n_start = answer.n_start,
                    .n_tasks = ask->n_tasks,
                    .tasks = ask->tasks};
    status = pf_session_tell(session, &tell, recordings ? NULL : &watched, error);
    if (status == PF_OK && drive->after_tell) {
        drive->after_tell(drive->self, ask, &answer);
    }
    return status;
}

// A machine or a predictor that knows probes only leaves tasks not rehearsed.
static bool can_rehearse(const pf_session *session, const pf_machine *machine,
                         const pf_predictor *predictor)
{
    bool recorded = pf_kit_get_info(pf_session_kit(session)).recorded;
    return machine->rehearse && (recorded || (predictor && predictor->run));
}

pf_status pf_drive_session(pf_session *session, const pf_machine *machine,
                           const pf_predictor *predictor, const pf_drive *drive, pf_error *error)
{
    int recovery = 0, rehearsal = 0;
    for (;;) {
        int stage = pf_session_get_state(session).stage;
        if (pf__stopped(drive->stop)) {
            return pf_fail(error, PF_ERR_INTERRUPTED, "stopped");
        }
        bool late = stage == 1 && drive->most > 0 &&
                    pf_session_get_state(session).opportunities >= drive->most;
        if (drive->only_stage1 && (stage != 1 || late)) {
            return PF_OK;
        }
        if (late) {
            pf_session_stage2(session, NULL); // the reveal is near
        }
        pf_ask ask = pf_session_ask(session);
        if (drive->after_ask) {
            drive->after_ask(drive->self, &ask);
        }
        if (ask.kind == PF_ASK_DONE) {
            return PF_OK;
        }
        if (ask.kind == PF_ASK_REHEARSAL && !can_rehearse(session, machine, predictor)) {
            pf_session_skip(session, NULL);
            continue;
        }
        pf_session_state state = pf_session_get_state(session);
        pf_purpose purpose = ask.stage == PF_STAGE_LOOK      ? drive->purpose
                             : ask.stage == PF_STAGE_RECOVER ? PF_PURPOSE_RECOVERY
                                                             : PF_PURPOSE_REHEARSAL;
        int index = ask.stage == PF_STAGE_LOOK      ? state.opportunities - 1
                    : ask.stage == PF_STAGE_RECOVER ? recovery++
                                                    : rehearsal++;
        pf_key key = pf_key_stream(drive->seed, machine->environment, drive->trial, purpose,
                                   (uint64_t)index);
        pf_status status = run_and_tell(session, machine, predictor, drive, &ask, key, error);
        if (status != PF_OK) {
            return status;
        }
    }
}

// --- a whole check

struct pf_check {
    pf_session *session;
    pf_rig rig;
    pf_predictor predictor;
    uint64_t seed;
    pf_arena arena;
};

// The kit's own simulator must be as it was at calibration; any other machine has the kit's
// mechanisms and channels.
static pf_status check_fits(const pf_kit *k, const pf_check_config *config, bool own,
                            pf_error *error)
{
    const pf_plant_info *machine = pf_plant_get_info(config->machine);
    pf_kit_info info = pf_kit_get_info(k);
    bool twin = !info.recorded && !info.starts_from_channels;
    pf_status status = own || (twin && !config->twin) ? pf_kit_fits_twin(k, machine, error)
                                                      : pf_kit_fits_machine(k, machine, error);
    return status == PF_OK && twin && config->twin
               ? pf_kit_fits_twin(k, pf_plant_get_info(config->twin), error)
               : status;
}

// A copy of the machine's faults, with their units.
static pf_status take_faults(pf_check *c, const pf_check_config *config, pf_fault *faults,
                             pf_error *error)
{
    const pf_plant_info *info = pf_plant_get_info(config->machine);
    int n = config->n_faults;
    for (int i = 0; i < n; i++) {
        faults[i] = config->faults[i];
    }
    pf_status status = pf_fault_set_units(faults, n, c->rig.kit, info, error);
    c->rig.faults = faults;
    c->rig.n_faults = n;
    return status == PF_OK ? pf_fault_check(faults, n, info, error) : status;
}

static pf_status take_memory(pf_check *c, const pf_kit *kit, const pf_check_config *config,
                             pf_error *error)
{
    pf_kit_info k = pf_kit_get_info(kit);
    int states = pf_plant_get_info(config->machine)->n_state;
    int n_state = states > k.n_state ? states : k.n_state;
    size_t bytes = pf_session_size(kit), d = sizeof(double);
    void *memory = pf__arena_take(&c->arena, bytes, 1);
    double *gains = pf__arena_take(&c->arena, (size_t)k.n_mech, d);
    size_t n_faults = config->n_faults > 0 ? (size_t)config->n_faults : 0;
    pf_fault *faults = n_faults > 0 ? pf__arena_take(&c->arena, n_faults, sizeof *faults) : NULL;
    c->rig.start = pf__arena_take(&c->arena, (size_t)n_state + 1, d);
    int rows = k.most_rows > k.rehearsal_rows ? k.most_rows : k.rehearsal_rows;
    c->rig.response = pf__arena_take(&c->arena, (size_t)rows * (size_t)k.n_chan, d);
    if (c->arena.failed) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a check");
    }
    for (int j = 0; j < k.n_mech; j++) {
        gains[j] = config->gains ? config->gains[j] : 1;
    }
    c->rig.gains = gains;
    pf_status status = take_faults(c, config, faults, error);
    if (status != PF_OK) {
        return status;
    }
    pf_session_config session = {.method = config->method, .seed = config->seed};
    return pf_session_init(&c->session, kit, &session, memory, bytes, error);
}

pf_status pf_check_create(pf_check **check, const pf_kit *k, const pf_check_config *config,
                          pf_error *error)
{
    *check = NULL;
    const char *name = pf_plant_get_info(config->machine)->name;
    bool own =
        !pf_kit_get_info(k).recorded && strcmp(name, pf_kit_get_string(k, PF_KIT_PLANT)) == 0;
    pf_status status = check_fits(k, config, own, error);
    if (status != PF_OK) {
        return status;
    }
    pf_check *c = calloc(1, sizeof *c);
    if (!c) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a check");
    }
    c->seed = config->seed;
    c->rig = (pf_rig){.plant = config->machine, .kit = k, .own_noise = !own};
    status = take_memory(c, k, config, error);
    if (status == PF_OK) {
        pf_plant *twin = config->twin ? config->twin : config->machine;
        status = pf_predictor_create(&c->predictor, k, twin, config->model, error);
    }
    if (status != PF_OK) {
        pf_check_destroy(c);
        return status;
    }
    *check = c;
    return PF_OK;
}

void pf_check_destroy(pf_check *c)
{
    if (c) {
        pf_predictor_destroy(&c->predictor);
        pf__arena_free(&c->arena);
        free(c);
    }
}

pf_status pf_check_run(pf_check *c, const pf_drive *drive, pf_error *error)
{
    pf_drive how = drive ? *drive : pf_drive_default();
    how.seed = c->seed;
    pf_machine machine = pf_rig_machine(&c->rig);
    pf_status status = pf_drive_session(c->session, &machine, &c->predictor, &how, error);
    if (status == PF_OK) {
        pf_session_certify(c->session);
    }
    return status;
}

pf_session *pf_check_session(pf_check *c)
{
    return c->session;
}
