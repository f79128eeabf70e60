// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "preflight/calibrate.h"
#include "preflight/run.h"

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

int main(void)
{
    const double gains[] = {1, 1, .3}; // in secret, the right motor has 30 % left
    pf_plan *plan = NULL;
    static _Alignas(16) unsigned char memory[PF_KIT_BYTES];
    pf_kit *kit = NULL;
    pf_check_config config = {.gains = gains, .seed = 7};
    pf_check *check = NULL;
    void *bytes = NULL;
    size_t n = 0;
    pf_error error = {PF_OK, ""};
    if (pf_plant_from_class(&config.machine, &cart, &error) == PF_OK &&
        pf_plan_create(&plan, &cart.info, NULL, NULL, 0, NULL, 0, &error) == PF_OK &&
        pf_calibrate(plan, config.machine, NULL, NULL, &bytes, &n, &error) == PF_OK &&
        pf_kit_load(&kit, bytes, n, memory, sizeof memory, &error) == PF_OK &&
        pf_check_create(&check, kit, &config, &error) == PF_OK &&
        pf_check_run(check, NULL, &error) == PF_OK) {
        const pf_session *session = pf_check_session(check);
        for (int t = 0; t < pf_kit_get_info(kit).n_tasks; t++) {
            const int32_t *uses = NULL;
            pf_kit_task_mechanisms(kit, t, &uses);
            const pf_task_readiness *r = pf_session_task(session, t);
            const pf_mechanism_readiness *j = pf_session_mechanism(session, uses[0]);
            printf("task %-6s %-5s return >= %.2f, strength %.2f, command times %.2f\n",
                   pf_kit_task_name(kit, t), pf_decision_name(r->decision), r->lower, j->mean_gain,
                   j->correction);
        }
    } else {
        fprintf(stderr, "hello: %s\n", error.text);
    }
    pf_check_destroy(check);
    pf_plan_destroy(plan);
    pf_plant_destroy(config.machine);
    free(bytes);
    return error.code == PF_OK ? 0 : 1;
}
