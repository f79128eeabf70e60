// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "doctor.h"

#include "source.h"

#include <math.h>
#include <string.h>

static const char *const names[PF_REPEAT_WAYS][2] = {
#define X(code, name, cause) {name, cause},
    PF_REPEAT_LIST(X)
#undef X
};

// How much more than was seen counts as equal.
static const double margin = 10;

const char *pf__repeat_name(pf_repeat_way way)
{
    return names[way][0];
}

const char *pf__repeat_cause(pf_repeat_way way)
{
    return names[way][1];
}

bool pf__differs(int rows, int n_chan, const double *a, const double *b, double tolerance,
                 double *differs, int *channel)
{
    size_t n = (size_t)rows * (size_t)n_chan;
    bool equal = memcmp(a, b, n * sizeof *a) == 0;
    double most = 0;
    int where = 0;
    for (int c = 0; c < n_chan && !equal; c++) {
        double difference = 0, largest = 0;
        for (size_t i = (size_t)c; i < n; i += (size_t)n_chan) {
            difference = fmax(difference, fabs(a[i] - b[i]));
            largest = fmax(largest, fmax(fabs(a[i]), fabs(b[i])));
        }
        double share = largest > 0 ? difference / largest : 0;
        if (share > most) {
            most = share;
            where = c;
        }
    }
    if (differs) {
        *differs = most;
    }
    if (channel) {
        *channel = where;
    }
    // two zeros of other signs are equal numbers and other bits
    return tolerance > 0 ? most > tolerance : !equal;
}

bool pf__repeats_itself(const pf_repeat *repeat, int ways)
{
    for (int i = 0; i < ways; i++) {
        if (repeat[i].differs > PF_ROUNDING) {
            return false;
        }
    }
    return true;
}

pf_status pf__repeat_tolerance(const pf_plan *plan, const pf_repeat *repeat, int ways,
                               double *tolerance, pf_error *error)
{
    *tolerance = 0;
    for (int i = 0; i < ways; i++) {
        if (!pf__repeats_itself(&repeat[i], 1)) {
            return pf_fail(error, PF_ERR_PLANT,
                           "plant %s: the same trajectory run %s differs by %g of the largest "
                           "reading of '%s': %s",
                           plan->plant, names[i][0], repeat[i].differs,
                           plan->channels[repeat[i].channel].name, names[i][1]);
        }
        *tolerance = fmax(*tolerance, margin * repeat[i].differs);
    }
    return PF_OK;
}

typedef struct run {
    const pf_plan *plan;
    pf_plant *plant;
    double *first, *again; // outputs
    double *start;
} run;

static pf_status open_run(run *r, const pf_plan *plan, pf_plant *plant, pf_arena *arena,
                          pf_error *error)
{
    size_t window = (size_t)plan->probes[0].rows * (size_t)plan->n_chan;
    *r = (run){.plan = plan,
               .plant = plant,
               .first = pf__arena_take(arena, window, sizeof(double)),
               .again = pf__arena_take(arena, window, sizeof(double)),
               .start = pf__arena_take(arena, (size_t)plan->n_state + 1, sizeof(double))};
    return arena->failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory for a trajectory") : PF_OK;
}

// The first probe. With noise everything that is drawn is drawn.
static pf_status roll_probe(const run *r, pf_plant *plant, uint64_t trial, bool noise,
                            const pf_trace *trace, pf_error *error)
{
    const pf_plan *plan = r->plan;
    pf_roll roll = pf__plan_probe_roll(&plan->probes[0], pf_plant_get_info(plant));
    roll.key = pf_key_stream(plan->settings.seed, plan->environment, trial, PF_PURPOSE_CONTRACT, 1);
    roll.start = noise || trace->start ? NULL : r->start;
    roll.disturbance = noise;
    roll.sensor_noise = noise ? 1 : 0;
    return pf__name_failure(pf_plant_get_info(plant), "probe", plan->probes[0].name, NULL,
                            pf_plant_roll(plant, &roll, trace, error), error);
}

pf_status pf__plant_noise(const pf_plan *plan, pf_plant *plant, pf_error *error)
{
    pf_arena arena = {0};
    run r;
    pf_status status =
        plan->settings.sensor_noise > 0 ? PF_OK : open_run(&r, plan, plant, &arena, error);
    if (plan->settings.sensor_noise > 0 || status != PF_OK) {
        pf__arena_free(&arena);
        return status;
    }
    pf_trace first = {.output = r.first, .start = r.start}, noisy = {.output = r.again};
    status = roll_probe(&r, plant, 0, false, &first, error);
    status = status ? status : roll_probe(&r, plant, 0, true, &noisy, error);
    if (status == PF_OK &&
        !pf__differs(plan->probes[0].rows, plan->n_chan, r.first, r.again, 0, NULL, NULL)) {
        status = pf_fail(error, PF_ERR_DEGENERATE,
                         "plant %s: nothing disturbs it and its sensors are exact, so there is no "
                         "noise to calibrate against; set sensor_noise (for example .25)",
                         plan->plant);
    }
    pf__arena_free(&arena);
    return status;
}

static pf_status run_way(const run *r, pf_repeat_way way, pf_repeat *repeat, pf_error *error)
{
    pf_plant *plant = r->plant, *other = NULL;
    pf_trace first = {.output = r->first}, again = {.output = r->again};
    // a saved start is what predictions begin with, and those are undisturbed
    bool noise = way != PF_REPEAT_START;
    first.start = noise ? NULL : r->start;
    pf_status status = roll_probe(r, plant, 0, noise, &first, error);
    if (status == PF_OK && way == PF_REPEAT_AFTER) {
        status = roll_probe(r, plant, 1, noise, &again, error);
    } else if (status == PF_OK && way == PF_REPEAT_INSTANCE) {
        status = pf_plant_clone(plant, &other, error);
    }
    status = status ? status : roll_probe(r, other ? other : plant, 0, noise, &again, error);
    if (status == PF_OK) {
        pf__differs(r->plan->probes[0].rows, r->plan->n_chan, r->first, r->again, 0,
                    &repeat->differs, &repeat->channel);
    }
    pf_plant_destroy(other);
    return status;
}

pf_status pf__plant_repeats(const pf_plan *plan, pf_plant *plant, int ways, pf_repeat *repeat,
                            pf_error *error)
{
    pf_arena arena = {0};
    run r;
    pf_status status = open_run(&r, plan, plant, &arena, error);
    for (int way = 0; way < ways && status == PF_OK; way++) {
        status = run_way(&r, (pf_repeat_way)way, &repeat[way], error);
    }
    pf__arena_free(&arena);
    return status;
}

pf_status pf__rounding_tolerance(const pf_plan *plan, pf_plant *plant, const pf_roll *roll,
                                 double differs, double *tolerance, pf_error *error)
{
    enum { TRIES = 16 };
    if (!(differs > *tolerance && differs <= PF_ROUNDING)) {
        return PF_OK;
    }
    pf_arena arena = {0};
    run r;
    pf_status status = open_run(&r, plan, plant, &arena, error);
    size_t window = (size_t)roll->rows * (size_t)plan->n_chan;
    double *first = pf__arena_take(&arena, window, sizeof *first);
    double *again = pf__arena_take(&arena, window, sizeof *again);
    if (status == PF_OK && arena.failed) {
        status = pf_fail(error, PF_ERR_MEMORY, "out of memory for a trajectory");
    }
    status = status ? status : pf_plant_roll(plant, roll, &(pf_trace){.output = first}, error);
    for (int i = 0; i < TRIES && status == PF_OK; i++) {
        status =
            roll_probe(&r, plant, 1 + (uint64_t)i, true, &(pf_trace){.output = r.again}, error);
        status = status ? status : pf_plant_roll(plant, roll, &(pf_trace){.output = again}, error);
        if (status == PF_OK) {
            double most = 0;
            pf__differs(roll->rows, plan->n_chan, first, again, 0, &most, NULL);
            *tolerance = fmax(*tolerance, margin * fmin(most, PF_ROUNDING));
        }
    }
    pf__arena_free(&arena);
    return status;
}
