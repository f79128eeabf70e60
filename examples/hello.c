// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "preflight/calibrate.h"
#include "preflight/preflight.h"

#include <stdio.h>
#include <stdlib.h>

// A plant of one's own in one file: a cart on a rail with a main motor, which today's work uses,
// and two spare motors, which may have lost strength unnoticed. x is position (m) and speed (m/s).

static void reset(double *x, pf_rng *rng)
{
    x[0] = 0;
    x[1] = rng ? .02 * pf_rng_normal(rng) : 0;
}

static void derivative(const double *knob, const double *x, const double *v, const double *w,
                       double *dx)
{
    (void)knob;
    dx[0] = x[1];
    dx[1] = v[0] + .8 * v[1] - .6 * v[2] - .3 * x[1] + w[0];
}

static void output(const double *knob, const double *x, const double *v, const double *w, double *y)
{
    (void)knob, (void)v, (void)w;
    y[0] = x[0];
    y[1] = x[1];
}

static const pf_mechanism motors[] = {{"main", -1, 1}, {"left", -1, 1}, {"right", -1, 1}};
static const pf_channel sensors[] = {{"position", .002, .002}, {"speed", .01, .01}};
static const pf_pulse probe = {8, 8, false, (const double[]){.2, .3, .3}};
static const pf_pulse task = {8, 16, false, (const double[]){0, .4, .4}};
static const pf_plant_class cart = {
    .info = {"cart", "a cart with two spare motors", "hello.c", 3, 2, 2, .1, motors, sensors,
             .probe = &probe, .task = &task},
    .n_wind = 1,
    .wind_phi = (const double[]){.6},
    .wind_sd = (const double[]){.005},
    .substeps = 2,
    .reset = reset,
    .derivative = derivative,
    .output = output,
};

// One probe on the cart: as it is (with disturbance and noise), or as the model expects it.
typedef struct bench {
    pf_plant *plant;
    pf_kit kit;
} bench;

static pf_status run(bench *b, int p, pf_roll roll, const pf_trace *trace, pf_error *error)
{
    roll.rows = pf_kit_probe_rows(&b->kit, p);
    roll.command = b->kit.command + b->kit.probe_row[p] * b->kit.n_mech;
    return pf_plant_roll(b->plant, &roll, trace, error);
}

static pf_status predict(void *self, const pf_hypothesis *h, const double *start, int n_start,
                         double *response, pf_error *error)
{
    (void)n_start;
    double gains[] = {1, 1, 1};
    gains[h->mechanism] = h->gain;
    pf_roll roll = {.policy = -1, .start = start, .gains = gains};
    return run(self, h->probe, roll, &(pf_trace){.output = response}, error);
}

// The check: ask, run what is asked for, tell.
static pf_status check(bench *b, pf_session *s, const double *gains, pf_error *error)
{
    pf_predictor model = {b, predict};
    double start[2], response[8 * 2];
    for (pf_ask ask; (ask = pf_session_ask(s)).kind == PF_ASK_PROBE;) {
        pf_key key = pf_key_derive(pf_key_root(7), (uint64_t)pf_session_told(s));
        pf_roll roll = {
            .policy = -1, .key = key, .gains = gains, .disturbance = true, .sensor_noise = 1};
        pf_status status =
            run(b, ask.probe, roll, &(pf_trace){.start = start, .output = response}, error);
        pf_tell tell = {ask.probe, response, ask.rows, 2, start, 2};
        if (status != PF_OK || (status = pf_session_tell(s, &tell, &model, error)) != PF_OK) {
            return status;
        }
    }
    pf_session_certify(s);
    return PF_OK;
}

int main(void)
{
    const double gains[] = {1, 1, .3}; // in secret, the right motor has 30 % left
    bench b = {0};
    pf_plan plan = {0};
    pf_session *session = NULL;
    void *bytes = NULL, *memory = NULL;
    size_t n = 0;
    pf_error error = {PF_OK, ""};
    if (pf_plant_from_class(&b.plant, &cart, &error) == PF_OK &&
        pf_plan_default(&plan, &cart.info, &error) == PF_OK &&
        pf_calibrate(&plan, b.plant, NULL, NULL, &bytes, &n, &error) == PF_OK &&
        pf_kit_load(&b.kit, bytes, n, &error) == PF_OK &&
        (memory = malloc(pf_session_size(&b.kit))) != NULL &&
        pf_session_init(&session, &b.kit, NULL, memory, pf_session_size(&b.kit), &error) == PF_OK &&
        check(&b, session, gains, &error) == PF_OK) {
        for (int t = 0; t < b.kit.n_tasks; t++) {
            const pf_task_readiness *r = pf_session_task(session, t);
            const pf_mechanism_readiness *j = pf_session_mechanism(session, b.kit.use_mech[t]);
            printf("task %-6s %-5s return >= %.2f, strength %.2f, command times %.2f\n",
                   pf_kit_task_name(&b.kit, t), r->decision == PF_GO ? "go" : "NO-GO", r->lower,
                   j->mean_gain, j->correction);
        }
    } else {
        fprintf(stderr, "hello: %s\n", error.text);
    }
    pf_plan_free(&plan);
    pf_plant_destroy(b.plant);
    free(memory);
    free(bytes);
    return error.code == PF_OK ? 0 : 1;
}
