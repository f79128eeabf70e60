// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "host/parallel.h"
#include "fit.h"
#include "recordings_read.h"

#include "preflight/session.h"

#include <math.h>

// The alarm threshold: sequences of nominal responses through a real session, so that its rate
// holds whatever the channel assumes.

typedef struct alarm {
    const pf_recordings *rec;
    uint64_t seed;
    pf_kit kit; // as calibrated so far, with nothing that ends stage 1 before its budget
    bool random;
    size_t bytes;
    void **memory; // per worker
    pf_session **sessions;
    double *peaks; // per trial
} alarm;

// One nominal sequence: stage 1 of a real session on responses drawn from the odd ranks.
static pf_status run_trial(void *self, int worker, size_t trial, pf_error *error)
{
    alarm *a = self;
    pf_session_config config = {NULL,
                                pf_key_stream(a->seed, "recordings", trial, PF_PURPOSE_METHOD, 0)};
    pf_status status = PF_OK;
    // only a method that draws its probes needs the trial's own seed
    if (!a->sessions[worker] || a->random) {
        status = pf_session_init(&a->sessions[worker], &a->kit, &config, a->memory[worker],
                                 a->bytes, error);
    } else {
        pf_session_reset(a->sessions[worker]);
    }
    for (uint64_t opportunity = 0; status == PF_OK; opportunity++) {
        pf_ask ask = pf_session_ask(a->sessions[worker]);
        if (ask.kind == PF_ASK_DONE) {
            break;
        }
        const pf_group *group = pf_recordings_find(a->rec, ask.probe, 0, 1);
        pf_rng rng;
        pf_rng_init(&rng,
                    pf_key_stream(a->seed, "recordings", trial, PF_PURPOSE_THRESHOLD, opportunity));
        int rank = 2 * (int)pf_rng_below(&rng, (uint32_t)(group->n / 2)) + 1;
        pf_tell tell = {.probe = ask.probe,
                        .response = pf_recordings_response(a->rec, group, rank),
                        .rows = ask.rows,
                        .channels = a->kit.n_chan};
        status = pf_session_tell(a->sessions[worker], &tell, NULL, error);
    }
    a->peaks[trial] = status == PF_OK ? pf_session_peak(a->sessions[worker]) : 0;
    return status;
}

pf_status pf__recordings_alarm(const pf_recordings *rec, const pf_plan *plan, pf_kit_build *build,
                               const pf_effort *effort, pf_error *error)
{
    int workers = pf_threads(effort), trials = plan->alarm_trials;
    workers = workers < trials ? workers : trials;
    alarm a = {.rec = rec, .seed = plan->seed, .kit = build->kit};
    a.kit.require_probe = 0;
    a.kit.stop = PF_STOP_LATCH;
    a.random = pf_method_find(plan->method)->rule == PF_RULE_RANDOM;
    // a kit that is not valid is reported as such, not as a session of no size
    pf_status status = pf_kit_check(&a.kit, error);
    if (status != PF_OK) {
        return status;
    }
    pf_arena arena = {0};
    a.bytes = pf_session_size(&a.kit);
    a.memory = pf_arena_take(&arena, (size_t)workers, sizeof *a.memory);
    a.sessions = pf_arena_take(&arena, (size_t)workers, sizeof *a.sessions);
    a.peaks = pf_arena_take(&arena, (size_t)trials, sizeof *a.peaks);
    for (int i = 0; a.memory && i < workers; i++) {
        a.memory[i] = pf_arena_take(&arena, a.bytes, 1);
    }
    status =
        arena.failed
            ? pf_fail(error, PF_ERR_MEMORY, "out of memory for %d alarm trials", trials)
            : pf_parallel(effort, workers, (size_t)trials, run_trial, &a, "alarm trials", error);
    if (status == PF_OK) {
        build->threshold[0] = fmin(1, pf_fit_threshold(trials, a.peaks, plan->alarm_rate));
    }
    pf_arena_free(&arena);
    return status;
}
