// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "bench.h"
#include "core/kit_layout.h"

#include "preflight/run.h"
#include "calibrate/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Time of calibrating the attitude kit with 2,000 alarm trials on one and on two threads, and of a
// complete check on the loaded kit. `bench_calibrate [REPEATS]`; `bench_calibrate turns 1|2`, kits
// on so many threads.

typedef struct rig {
    pf_plant *plant;
    pf_plan plan;
    void *bytes[2]; // the kit by one thread and by two
    size_t n[2];
    pf_kit kit;
} rig;

static void must(pf_status status, const pf_error *error)
{
    if (status != PF_OK) {
        fprintf(stderr, "bench_calibrate: %s\n", error->text);
        exit(1);
    }
}

static double calibrate(rig *r, int threads)
{
    pf_error error = {PF_OK, ""};
    pf_effort effort = {.threads = threads};
    int slot = threads - 1;
    free(r->bytes[slot]);
    double begin = bench_now();
    must(pf_calibrate(&r->plan, r->plant, NULL, &effort, &r->bytes[slot], &r->n[slot], &error),
         &error);
    return bench_now() - begin;
}

// Load, session, probes on a machine with a fault, certificate: what `preflight check` does.
static double check(rig *r, uint64_t seed)
{
    pf_error error = {PF_OK, ""};
    double gains[] = {1, 1, 1, 1, 1, .35, 1, 1};
    pf_check_config config = {.machine = r->plant, .gains = gains, .seed = seed};
    pf_check *one = NULL;
    double begin = bench_cpu();
    must(pf__kit_read(&r->kit, r->bytes[0], r->n[0], &error), &error);
    must(pf_check_create(&one, &r->kit, &config, &error), &error);
    must(pf_check_run(one, NULL, &error), &error);
    double seconds = bench_cpu() - begin;
    pf_check_destroy(one);
    return seconds;
}

typedef struct turn {
    rig *r;
    int threads;
} turn;

static double one_turn(void *self)
{
    turn *t = self;
    calibrate(t->r, t->threads);
    return 1;
}

int main(int argc, char **argv)
{
    bool turns = argc == 3 && strcmp(argv[1], "turns") == 0;
    int repeats = argc > 1 && !turns ? atoi(argv[1]) : 5;
    rig r = {0};
    pf_error error = {PF_OK, ""};
    must(pf_plant_create(&r.plant, "attitude", &error), &error);
    must(pf__plan_default(&r.plan, pf_plant_get_info(r.plant), &error), &error);
    r.plan.settings.alarm_trials = 2000;
    if (turns) {
        return bench_turns(one_turn, &(turn){&r, strcmp(argv[2], "2") == 0 ? 2 : 1});
    }
    // turn about, so that a slow minute of the machine hits both
    double one = INFINITY, two = INFINITY;
    for (int i = 0; i < repeats; i++) {
        one = fmin(one, calibrate(&r, 1));
        two = fmin(two, calibrate(&r, 2));
    }
    bench_print("calibrate_attitude_1_thread", one, "s");
    bench_print("calibrate_attitude_2_threads", two, "s");
    bool same = r.n[0] == r.n[1] && memcmp(r.bytes[0], r.bytes[1], r.n[0]) == 0;
    bench_print("calibrate_kits_identical", same, "bool");
    double best = INFINITY, worst = 0;
    for (int i = 0; i < 200; i++) {
        double now = check(&r, (uint64_t)i % 20);
        best = now < best ? now : best;
        worst = now > worst ? now : worst;
    }
    bench_print("check_attitude_least", 1e3 * best, "ms");
    bench_print("check_attitude_most", 1e3 * worst, "ms");
    pf__plan_free(&r.plan);
    pf_plant_destroy(r.plant);
    free(r.bytes[0]);
    free(r.bytes[1]);
    return 0;
}
