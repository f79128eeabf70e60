// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "embedded_kit.h"
#include "embedded_plant.h"
#include "preflight/preflight.h"

#ifdef PF_BOARD
#include "board.h"
#endif

#include <stdio.h>

// A whole readiness check as a board runs it: the kit is read in place from flash, the session
// lives in static memory, predictions come one hypothesis at a time, nothing is allocated. Only
// this file prints; the library does not. `embedded_example [PERCENT]` says how much standby pump 2
// has left (30). examples/board runs it on a Cortex-M4F.

enum { SESSION_BYTES = 20480, ROWS = PROBE_ROWS > TASK_ROWS ? PROBE_ROWS : TASK_ROWS };

static _Alignas(16) uint8_t session_memory[SESSION_BYTES];
static _Alignas(16) uint8_t kit_memory[PF_KIT_BYTES];
static pf_kit *kit;
static double start[TANKS], response[ROWS * TANKS];

// --- the model: the board's copy of the tanks

static pf_status follow(const double *from, int n_from, const double *command, int rows,
                        const double *gains, double *out, pf_error *error)
{
    if (n_from != TANKS) {
        return pf_fail(error, PF_ERR_PREDICTION, "%d start levels, expected %d", n_from, TANKS);
    }
    const double calm[TANKS] = {0};
    double x[TANKS] = {from[0], from[1], from[2]}, v[PUMPS];
    for (int r = 0; r < rows; r++) {
        for (int j = 0; j < PUMPS; j++) {
            v[j] = gains[j] * command[r * PUMPS + j];
        }
        tanks_step(x, v, calm);
        for (int i = 0; i < TANKS; i++) {
            out[r * TANKS + i] = x[i];
        }
    }
    return PF_OK;
}

static pf_status predict(void *self, const pf_hypothesis *h, const double *from, int n_from,
                         double *out, pf_error *error)
{
    (void)self;
    double gains[PUMPS] = {1, 1, 1, 1};
    gains[h->mechanism] = h->gain;
    return follow(from, n_from, pf_kit_probe_command(kit, h->probe),
                  pf_kit_probe_rows(kit, h->probe), gains, out, error);
}

// The same for a command that is no probe: what a rehearsal is compared with.
static pf_status predict_run(void *self, const pf_run *run, const double *from, int n_from,
                             double *out, pf_error *error)
{
    (void)self;
    const double ones[PUMPS] = {1, 1, 1, 1};
    return follow(from, n_from, run->command, run->rows, run->gains ? run->gains : ones, out,
                  error);
}

// --- the machine, simulated here: standby pump 2 has lost most of its flow

static double true_gain[PUMPS] = {1, 1, .3, 1};
static pf_rng weather;

static void run_machine(const double *command, int rows)
{
    double x[TANKS], v[PUMPS], w[TANKS];
    for (int i = 0; i < TANKS; i++) {
        x[i] = start[i] = 1 + .05 * pf_rng_normal(&weather);
    }
    for (int r = 0; r < rows; r++) {
        for (int j = 0; j < PUMPS; j++) {
            v[j] = true_gain[j] * command[r * PUMPS + j];
        }
        for (int i = 0; i < TANKS; i++) {
            w[i] = WIND_SD * pf_rng_normal(&weather);
        }
        tanks_step(x, v, w);
        for (int i = 0; i < TANKS; i++) {
            response[r * TANKS + i] = x[i] + SENSOR_SD * pf_rng_normal(&weather);
        }
    }
}

// --- what happened

static void print_step(pf_session *s, const pf_ask *ask, bool alarm_before)
{
    const double *b = pf_session_belief(s);
    if (ask->kind == PF_ASK_REHEARSAL) {
        printf("rehearsal of %d tasks: %s\n", ask->n_tasks,
               pf_session_rehearsed(s, NULL) ? "as predicted" : "not as predicted");
        return;
    }
    printf("stage %d, probe %s: ", ask->stage, pf_kit_probe_name(kit, ask->probe));
    if (ask->stage == 2) {
        pf_joint joint = pf_session_joint(s);
        const int32_t *targets = NULL;
        pf_kit_probe_targets(kit, ask->probe, &targets);
        pf_moments moments = pf_joint_moments(&joint, targets[0]);
        printf("its gain is %.3f on average\n", moments.mean);
        return;
    }
    int n = 0;
    const pf_reading *r = pf_session_readings(s, &n);
    printf("category %d of %d, belief %.3f %.3f %.3f %.3f%s%s\n", r->category + 1,
           pf_kit_get_info(kit).n_bins, b[0], b[1], b[2], b[3], r->gate ? ", gate open" : "",
           pf_session_get_state(s).alarm && !alarm_before ? ", ALARM" : "");
}

static void print_readiness(pf_session *s)
{
    pf_session_certify(s);
    for (int t = 0; t < pf_kit_get_info(kit).n_tasks; t++) {
        const int32_t *pumps = NULL;
        pf_kit_task_mechanisms(kit, t, &pumps);
        const pf_task_readiness *r = pf_session_task(s, t);
        const pf_mechanism_readiness *j = pf_session_mechanism(s, pumps[0]);
        printf("task %s: %s (%s), return at least %.2f, gain %.2f, command times %.2f\n",
               pf_kit_task_name(kit, t), pf_decision_name(r->decision), pf_why_name(r->why),
               r->lower, j->mean_gain, j->correction);
    }
}

static void print_memory(void)
{
    printf("session %zu bytes of RAM, kit view %zu, response and start %zu; kit %zu bytes of "
           "flash; heap 0\n",
           pf_session_size(kit), pf_kit_size(), sizeof response + sizeof start,
           sizeof embedded_kit);
#if defined(PF_BOARD)
    printf("stack at most %zu bytes, printing included\n", board_stack_most());
#elif defined(__ELF__) && defined(__linux__)
    // from the linker: library, example and start-up code, without libc and libm when shared
    extern const char __executable_start[], etext[];
    printf("code at most %zu bytes\n", (size_t)((uintptr_t)etext - (uintptr_t)__executable_start));
#endif
}

static pf_status check(pf_session **s, pf_error *error)
{
    const pf_predictor model = {NULL, predict, predict_run};
    pf_status status =
        pf_kit_load(&kit, embedded_kit, sizeof embedded_kit, kit_memory, sizeof kit_memory, error);
    pf_kit_info info = {0};
    if (status == PF_OK) {
        info = pf_kit_get_info(kit);
    }
    if (status == PF_OK && (info.n_mech != PUMPS || info.n_chan != TANKS || info.n_state != TANKS ||
                            info.most_rows > ROWS || info.rehearsal_rows > ROWS)) {
        status = pf_fail(error, PF_ERR_MISMATCH, "the kit was made for another machine");
    }
    if (status == PF_OK) {
        status = pf_session_init(s, kit, NULL, session_memory, sizeof session_memory, error);
    }
    while (status == PF_OK) {
        pf_ask ask = pf_session_ask(*s);
        if (ask.kind == PF_ASK_DONE) {
            printf("done: %s, %d runs\n", pf_done_name(ask.why), pf_session_get_state(*s).told);
            return PF_OK;
        }
        bool alarm_before = pf_session_get_state(*s).alarm;
        bool probe = ask.kind == PF_ASK_PROBE;
        run_machine(probe ? pf_kit_probe_command(kit, ask.probe) : ask.command, ask.rows);
        pf_tell tell = {.probe = ask.probe,
                        .response = response,
                        .rows = ask.rows,
                        .channels = TANKS,
                        .start = start,
                        .n_start = TANKS,
                        .n_tasks = ask.n_tasks,
                        .tasks = ask.tasks};
        status = pf_session_tell(*s, &tell, &model, error);
        if (status == PF_OK) {
            print_step(*s, &ask, alarm_before);
        }
    }
    return status;
}

// "0" to "100"; anything else is -1
static int percent(const char *word)
{
    int n = 0;
    for (const char *c = word; *c; c++) {
        if (*c < '0' || *c > '9' || n > 100) {
            return -1;
        }
        n = 10 * n + (*c - '0');
    }
    return *word && n <= 100 ? n : -1;
}

int main(int argc, char **argv)
{
    pf_error error = {PF_OK, ""};
    pf_session *session = NULL;
    if (argc > 1) {
        int left = argc == 2 ? percent(argv[1]) : -1;
        if (left < 0) {
            printf("embedded_example: takes one number, the percent that pump standby-2 has left "
                   "(0 to 100)\n");
            return 2;
        }
        true_gain[2] = left / 100.;
    }
    pf_rng_init(&weather, pf_key_root(1));
    if (check(&session, &error) != PF_OK) {
        printf("no task is go: %s\n", error.text);
        return 1;
    }
    print_readiness(session);
    print_memory();
    return 0;
}
