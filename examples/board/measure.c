// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "preflight/preflight.h"

#include <stdio.h>
#include <string.h>

// Watches the example without a change to it: the linker sends its calls of the library here first
// (--wrap). On host and board alike it prints, in lines that begin with "bits", what the library
// was told and what it computed; on the board also what each call cost, in lines that begin with
// "cost".

#ifdef PF_BOARD
#include "board.h"
#endif

static struct {
    bool inside;               // a call is under way: what it calls itself is part of it
    uint32_t empty;            // instructions of an interval with nothing in it
    uint32_t began, model;     // when the call began; instructions in the example's model since
    int predictions;           // and how often it was asked
    const pf_predictor *asked; // the example's own
    uintptr_t stack;           // the stack pointer before the call
} seen;

static uint32_t count(void)
{
#ifdef PF_BOARD
    return board_count();
#else
    return 0;
#endif
}

#ifdef PF_BOARD
// 2001 instructions: what the counter must say.
static uint32_t count_known(void)
{
    uint32_t began = count(), n;
    __asm__ volatile("mov %0, #1000\n 1: subs %0, #1\n bne 1b" : "=l"(n) : : "cc");
    return count() - began;
}
#endif

// Inline, so that the stack pointer is that of the call to come.
__attribute__((always_inline)) static inline void begin(void)
{
    seen.model = 0;
    seen.predictions = 0;
    seen.inside = true;
#ifdef PF_BOARD
    board_stack_paint();
    seen.stack = board_stack_now();
#endif
    seen.began = count();
}

static void end(const char *call)
{
    uint32_t n = count() - seen.began - seen.empty;
    seen.inside = false;
#ifdef PF_BOARD
    size_t stack = board_stack_since(seen.stack);
    printf("cost %s instructions %lu model %lu predictions %d stack %zu\n", call, (unsigned long)n,
           (unsigned long)seen.model, seen.predictions, stack);
#else
    (void)call;
    (void)n;
#endif
}

static void bits(const char *what, const double *values, int n)
{
    for (int i = 0; i < n; i++) {
        uint64_t word;
        memcpy(&word, &values[i], sizeof word);
        printf("bits %s %08lx%08lx\n", what, (unsigned long)(word >> 32),
               (unsigned long)(word & 0xffffffffu));
    }
}

// --- the model, counted apart

static pf_status predict(void *self, const pf_hypothesis *h, const double *start, int n_start,
                         double *response, pf_error *error)
{
    (void)self;
    uint32_t began = count();
    pf_status status = seen.asked->predict(seen.asked->self, h, start, n_start, response, error);
    seen.model += count() - began - seen.empty;
    seen.predictions++;
    return status;
}

static pf_status predict_run(void *self, const pf_run *run, const double *start, int n_start,
                             double *response, pf_error *error)
{
    (void)self;
    uint32_t began = count();
    pf_status status = seen.asked->run(seen.asked->self, run, start, n_start, response, error);
    seen.model += count() - began - seen.empty;
    seen.predictions++;
    return status;
}

// --- the calls

pf_status __real_pf_kit_load(pf_kit **kit, const void *image, size_t size, void *mem, size_t bytes,
                             pf_error *error);
pf_status __wrap_pf_kit_load(pf_kit **kit, const void *image, size_t size, void *mem, size_t bytes,
                             pf_error *error);
pf_status __wrap_pf_kit_load(pf_kit **kit, const void *image, size_t size, void *mem, size_t bytes,
                             pf_error *error)
{
    seen.empty = 0;
    begin();
    seen.empty = count() - seen.began;
#ifdef PF_BOARD
    printf("cost known instructions %lu\n", (unsigned long)(count_known() - seen.empty));
#endif
    begin();
    pf_status status = __real_pf_kit_load(kit, image, size, mem, bytes, error);
    end("load");
    return status;
}

pf_status __real_pf_session_init(pf_session **session, const pf_kit *kit,
                                 const pf_session_config *config, void *mem, size_t bytes,
                                 pf_error *error);
pf_status __wrap_pf_session_init(pf_session **session, const pf_kit *kit,
                                 const pf_session_config *config, void *mem, size_t bytes,
                                 pf_error *error);
pf_status __wrap_pf_session_init(pf_session **session, const pf_kit *kit,
                                 const pf_session_config *config, void *mem, size_t bytes,
                                 pf_error *error)
{
    begin();
    pf_status status = __real_pf_session_init(session, kit, config, mem, bytes, error);
    end("init");
    return status;
}

pf_ask __real_pf_session_ask(pf_session *session);
pf_ask __wrap_pf_session_ask(pf_session *session);
pf_ask __wrap_pf_session_ask(pf_session *session)
{
    begin();
    pf_ask ask = __real_pf_session_ask(session);
    end("ask");
    if (ask.command) {
        bits("command", ask.command, ask.rows * pf_kit_get_info(pf_session_kit(session)).n_mech);
    }
    return ask;
}

pf_status __real_pf_session_tell(pf_session *session, const pf_tell *tell,
                                 const pf_predictor *predictor, pf_error *error);
pf_status __wrap_pf_session_tell(pf_session *session, const pf_tell *tell,
                                 const pf_predictor *predictor, pf_error *error);
pf_status __wrap_pf_session_tell(pf_session *session, const pf_tell *tell,
                                 const pf_predictor *predictor, pf_error *error)
{
    const pf_predictor counted = {NULL, predict, predict_run};
    pf_kit_info info = pf_kit_get_info(pf_session_kit(session));
    bits("start", tell->start, tell->n_start);
    bits("response", tell->response, tell->rows * tell->channels);
    seen.asked = predictor;
    begin();
    pf_status status = __real_pf_session_tell(session, tell, &counted, error);
    end(tell->probe < 0 ? "tell-rehearsal" : "tell-probe");
    bits("belief", pf_session_belief(session), info.n_mech + 1);
    double distance;
    if (tell->probe < 0) {
        pf_session_rehearsed(session, &distance);
        bits("distance", &distance, 1);
    }
    return status;
}

void __real_pf_session_certify(pf_session *session);
void __wrap_pf_session_certify(pf_session *session);
void __wrap_pf_session_certify(pf_session *session)
{
    if (seen.inside) {
        __real_pf_session_certify(session);
        return;
    }
    pf_kit_info info = pf_kit_get_info(pf_session_kit(session));
    begin();
    __real_pf_session_certify(session);
    end("certify");
    for (int t = 0; t < info.n_tasks; t++) {
        const pf_task_readiness *r = pf_session_task(session, t);
        bits("bound", &r->lower, 1);
        bits("return", &r->mean, 1);
    }
    for (int i = 1; i <= info.n_mech; i++) {
        const pf_mechanism_readiness *r = pf_session_mechanism(session, i);
        bits("changed", &r->changed, 1);
        bits("gain", &r->mean_gain, 1);
        bits("interval", r->interval, 2);
        bits("correction", &r->correction, 1);
    }
}
