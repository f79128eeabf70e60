// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "attitude_kit.h"
#include "core/joint.h"
#include "core/kit_layout.h"
#include "core/score.h"
#include "preflight/run.h"
#include "kit_fixture.h"
#include "calibrate/plan.h"
#include "core/certificate.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Machines and sensors that no kit has seen: whatever they answer, a task that would fail is never
// go.

typedef struct rig {
    pf_plant *plant;
    const pf_kit *kit;
    pf_session *session;
    void *memory;
    double start[8], response[1024];
} rig;

static rig open_rig(const pf_kit *kit)
{
    rig r = {.kit = kit};
    size_t bytes = pf_session_size(kit);
    r.memory = aligned_alloc(16, (bytes + 15) / 16 * 16);
    CHECK(pf_plant_create(&r.plant, "attitude", NULL) == PF_OK);
    CHECK(pf_session_init(&r.session, kit, NULL, r.memory, bytes, NULL) == PF_OK);
    return r;
}

static void close_rig(rig *r)
{
    pf_plant_destroy(r->plant);
    free(r->memory);
}

static int count_go(rig *r)
{
    int n = 0;
    pf_session_certify(r->session);
    for (int t = 0; t < r->kit->n_tasks; t++) {
        n += pf_session_task(r->session, t)->decision == PF_GO;
    }
    return n;
}

// A whole session in which every probe is answered by `answer`.
static int told(rig *r, void (*answer)(pf_rng *rng, double *response, int n), uint64_t seed)
{
    pf_predictor predictor;
    CHECK(pf_predictor_create(&predictor, r->kit, r->plant, NULL, NULL) == PF_OK);
    pf_rng rng;
    pf_rng_init(&rng, seed);
    memset(r->start, 0, sizeof r->start);
    pf_session_reset(r->session);
    for (pf_ask ask = pf_session_ask(r->session); ask.kind != PF_ASK_DONE;
         ask = pf_session_ask(r->session)) {
        answer(&rng, r->response, ask.rows * r->kit->n_chan);
        pf_tell tell = {.probe = ask.probe,
                        .response = r->response,
                        .rows = ask.rows,
                        .channels = r->kit->n_chan,
                        .start = r->start,
                        .n_start = r->kit->n_state,
                        .n_tasks = ask.n_tasks,
                        .tasks = ask.tasks};
        if (pf_session_tell(r->session, &tell, &predictor, NULL) != PF_OK) {
            pf_session_skip(r->session, NULL);
        }
    }
    pf_predictor_destroy(&predictor);
    return count_go(r);
}

static void answer_zero(pf_rng *rng, double *response, int n)
{
    (void)rng;
    memset(response, 0, sizeof *response * (size_t)n);
}

static void answer_frozen(pf_rng *rng, double *response, int n)
{
    (void)rng;
    for (int i = 0; i < n; i++) {
        response[i] = .001;
    }
}

static void answer_constant(pf_rng *rng, double *response, int n)
{
    (void)rng;
    for (int i = 0; i < n; i++) {
        response[i] = 21;
    }
}

static void answer_huge(pf_rng *rng, double *response, int n)
{
    for (int i = 0; i < n; i++) {
        response[i] = pf_rng_uniform(rng) < .5 ? 1e100 : -1e100;
    }
}

static void answer_noise(pf_rng *rng, double *response, int n)
{
    for (int i = 0; i < n; i++) {
        response[i] = 1e6 * pf_rng_normal(rng);
    }
}

static void answer_wild(pf_rng *rng, double *response, int n)
{
    double size = pow(10, 12 * pf_rng_uniform(rng) - 3);
    for (int i = 0; i < n; i++) {
        response[i] = size * pf_rng_normal(rng);
    }
}

// A case of the same name for each belief.
static void named(const pf_kit *kit, const char *name)
{
    char label[120];
    snprintf(label, sizeof label, "%s%s", name,
             kit->faults == PF_FAULTS_MANY ? ", several faults" : "");
    PF_CASE(label);
}

static void check_garbage(const pf_kit *kit)
{
    static const struct {
        const char *name;
        void (*answer)(pf_rng *, double *, int);
    } kinds[] = {{"all zero, every thruster dead", answer_zero},
                 {"a frozen sensor", answer_frozen},
                 {"a constant 21", answer_constant},
                 {"1e100 either way", answer_huge},
                 {"noise of a million", answer_noise},
                 {"noise of any size", answer_wild}};
    rig r = open_rig(kit);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        named(kit, kinds[k].name);
        for (uint64_t seed = 0; seed < 20; seed++) {
            CHECK(told(&r, kinds[k].answer, seed) == 0);
        }
    }
    close_rig(&r);
}

// A real simulated machine with these gains; the mechanisms in `lost` must not be go.
static void check_machine(rig *r, const double *gains, const int *lost, int n_lost, uint64_t seed)
{
    pf_rig plant = {.plant = r->plant,
                    .kit = r->kit,
                    .gains = gains,
                    .start = r->start,
                    .response = r->response};
    pf_machine machine = pf_rig_machine(&plant);
    pf_drive drive = {.seed = seed, .purpose = PF_PURPOSE_EVALUATION};
    pf_predictor twin;
    CHECK(pf_predictor_create(&twin, r->kit, r->plant, NULL, NULL) == PF_OK);
    pf_session_reset(r->session);
    CHECK(pf_drive_session(r->session, &machine, &twin, &drive, NULL) == PF_OK);
    pf_predictor_destroy(&twin);
    pf_session_certify(r->session);
    for (int i = 0; i < n_lost; i++) {
        CHECK(pf_session_task(r->session, lost[i] - 1)->decision == PF_NO_GO);
    }
}

static void check_machines(const pf_kit *kit)
{
    rig r = open_rig(kit);
    named(kit, "a dead actuator is never go");
    for (int j = 1; j < 8; j++) {
        double gains[8] = {1, 1, 1, 1, 1, 1, 1, 1};
        gains[j] = 0;
        check_machine(&r, gains, &j, 1, (uint64_t)j);
    }
    named(kit, "all actuators dead");
    const double dead[8] = {1};
    const int all[7] = {1, 2, 3, 4, 5, 6, 7};
    check_machine(&r, dead, all, 7, 3);
    named(kit, "of two losses neither is go without its correction");
    for (uint64_t seed = 0; seed < 20; seed++) {
        double gains[8] = {1, 1, 1, .3, 1, .3, 1, 1};
        check_machine(&r, gains, NULL, 0, seed);
        for (int j = 3; j <= 5; j += 2) {
            bool go = pf_session_task(r.session, j - 1)->decision == PF_GO;
            CHECK(!go || pf_session_mechanism(r.session, j)->correction > 2);
        }
    }
    close_rig(&r);
}

// A small task leaves room for a sixfold correction: only the amplitude tells that nothing is left.
static void check_small_task(const char *faults)
{
    const char *set[] = {"tasks=[{name: t, mechanisms: 1, command: [[0,.1,0,0,0,0,0,0],"
                         "[0,.1,0,0,0,0,0,0],[0,.1,0,0,0,0,0,0],[0,.1,0,0,0,0,0,0]]}]",
                         faults};
    pf_plant *plant = NULL;
    pf_plan plan;
    void *bytes = NULL;
    size_t n = 0;
    pf_kit kit;
    CHECK(pf_plant_create(&plant, "attitude", NULL) == PF_OK);
    CHECK(pf__plan_from_config(&plan, pf_plant_get_info(plant), "--set", NULL, 0, set, 2, NULL) ==
          PF_OK);
    plan.settings.alarm_trials = 200;
    CHECK(pf_calibrate(&plan, plant, NULL, NULL, &bytes, &n, NULL) == PF_OK);
    if (CHECK(pf__kit_read(&kit, bytes, n, NULL) == PF_OK)) {
        rig r = open_rig(&kit);
        const double gains[8] = {1, 0, 1, 1, 1, 1, 1, 1};
        const int lost = 1;
        for (uint64_t seed = 0; seed < 10; seed++) {
            check_machine(&r, gains, &lost, 1, seed);
            CHECK(pf_session_task(r.session, 0)->decision == PF_NO_GO);
        }
        close_rig(&r);
    }
    free(bytes);
    pf__plan_free(&plan);
    pf_plant_destroy(plant);
}

static void check_stale(const pf_kit *kit)
{
    rig r = open_rig(kit);
    check_machine(&r, NULL, NULL, 0, 1);
    CHECK(count_go(&r) == 7);
    pf_session_reset(r.session);
    CHECK(pf_session_task(r.session, 0)->decision == PF_NO_GO);
    check_machine(&r, NULL, NULL, 0, 1);
    CHECK(count_go(&r) == 7);
    CHECK(pf_session_task(r.session, 7)->decision == PF_NO_GO);
    CHECK(pf_session_task(r.session, -1)->decision == PF_NO_GO);
    close_rig(&r);
}

static void check_kits(void)
{
    pf_kit kit = *attitude_kit();
    pf_error error = {PF_OK, ""};
    const double certain[8] = {1};
    kit.prior = certain;
    CHECK(pf_kit_check(&kit, &error) != PF_OK);
    CHECK_CONTAINS(error.text, "prior");
    kit.hazard = .05;
    CHECK(pf_kit_check(&kit, &error) == PF_OK);
    // a prior that all but excludes a loss cannot outvote the probes
    const double stubborn[8] = {1 - 7e-9, 1e-9, 1e-9, 1e-9, 1e-9, 1e-9, 1e-9, 1e-9};
    kit = *attitude_kit();
    kit.prior = stubborn;
    rig r = open_rig(&kit);
    double gains[8] = {1, 1, 1, .2, 1, 1, 1, 1};
    for (uint64_t seed = 0; seed < 10; seed++) {
        check_machine(&r, gains, NULL, 0, seed);
        CHECK(pf_session_task(r.session, 2)->decision == PF_NO_GO ||
              pf_session_mechanism(r.session, 3)->correction > 3);
    }
    close_rig(&r);
}

static void check_blind(void)
{
    pf_plant *plant = NULL;
    pf_plan plan;
    void *bytes = NULL;
    size_t n = 0;
    pf_error error = {PF_OK, ""};
    const char *set[] = {"g_cal=.99"};
    CHECK(pf_plant_create(&plant, "attitude", NULL) == PF_OK);
    CHECK(pf__plan_from_config(&plan, pf_plant_get_info(plant), "--set", NULL, 0, set, 1, NULL) ==
          PF_OK);
    CHECK(pf_calibrate(&plan, plant, NULL, NULL, &bytes, &n, &error) == PF_ERR_DEGENERATE);
    CHECK_CONTAINS(error.text, "dispersions");
    pf__plan_free(&plan);
    pf_plant_destroy(plant);
}

// What task j - 1 brings on a machine with these gains under its correction, from a start and a
// disturbance of its own.
static double flown(rig *r, int j, const double *gains, uint64_t seed)
{
    const pf_kit *k = r->kit;
    enum { MOST = 64, MECH = 8, CHAN = 6 };
    double command[MOST * MECH], still[MOST * MECH] = {0}, start[8];
    double reference[MOST * CHAN], idle[MOST * CHAN], got[MOST * CHAN];
    int task = j - 1, rows = pf_kit_task_rows(k, task);
    const double *u = k->task_command + (size_t)k->task_row[task] * (size_t)k->n_mech;
    double correction = pf_session_mechanism(r->session, j)->correction;
    CHECK(rows <= MOST && k->n_mech <= MECH && k->n_chan <= CHAN);
    for (int i = 0; i < rows * k->n_mech; i++) {
        command[i] =
            i % k->n_mech == j ? pf__corrected_command(u[i], correction, k->lo[j], k->hi[j]) : u[i];
    }
    pf_roll roll = pf_roll_default();
    roll.key = pf_key_stream(seed, "flown", (uint64_t)j, PF_PURPOSE_TASK, 0);
    roll.rows = rows;
    roll.command = u;
    CHECK(pf_plant_roll(r->plant, &roll, &(pf_trace){.start = start, .output = reference}, NULL) ==
          PF_OK);
    roll.start = start;
    roll.command = still;
    CHECK(pf_plant_roll(r->plant, &roll, &(pf_trace){.output = idle}, NULL) == PF_OK);
    roll.command = command;
    roll.gains = gains;
    roll.disturbance = true;
    CHECK(pf_plant_roll(r->plant, &roll, &(pf_trace){.output = got}, NULL) == PF_OK);
    double energy = pf__tracking_distance(rows, k->n_chan, k->return_scale, reference, idle);
    double error = pf__tracking_distance(rows, k->n_chan, k->return_scale, got, reference);
    return pf__return(error / energy);
}

// The grid has .05 between its gains: what is left may lie halfway.
static void check_between(const pf_kit *kit)
{
    static const double left[] = {.275, .375, .475, .575, .675, .775, .875};
    rig r = open_rig(kit);
    int go = 0, below = 0;
    for (int i = 0; i < 7 * 7 * 4; i++) {
        double gains[8] = {1, 1, 1, 1, 1, 1, 1, 1};
        int j = 1 + i % 7;
        gains[j] = left[i / 7 % 7];
        check_machine(&r, gains, NULL, 0, (uint64_t)i);
        const pf_task_readiness *task = pf_session_task(r.session, j - 1);
        if (task->decision == PF_GO) {
            go++;
            below += flown(&r, j, gains, (uint64_t)i) < task->lower;
        }
    }
    printf("    %d go, %d below their bound\n", go, below);
    CHECK(go > 20 && below <= .1 * go);
    close_rig(&r);
}

static pf_fixture *made_up(int m, int targets, pf_faults faults)
{
    pf_fixture_config config = pf_fixture_config_default();
    config.m = m;
    config.targets = targets;
    config.n_probes = 1;
    config.field = true;
    config.faults = faults;
    config.stop = PF_STOP_BREAK;
    pf_fixture *f = pf_fixture_create(&config);
    for (int t = 0; t < targets; t++) {
        double *h = f->direction + (size_t)t * (size_t)f->window;
        h[0] = 0; // a channel in which nobody acts
        f->at.signature[t] = (1 - f->kit.g_cal) * sqrt(pf__dot(f->window, h, h));
    }
    return f;
}

// A sensor that jumps is not hidden by a signature that vanished.
static void check_vanished(void)
{
    PF_CASE("a wild sensor beside a signature that vanished");
    for (int wild = 0; wild < 2; wild++) {
        pf_fixture *f = made_up(3, 3, PF_FAULTS_MANY);
        pf_session *s = pf_fixture_session(f, NULL, 1);
        pf_predictor predictor = pf_fixture_predictor(f);
        memset(f->direction + 2 * f->window, 0, sizeof(double) * (size_t)f->window);
        f->at.off_limit[0] = 10;
        for (pf_ask ask = pf_session_ask(s); ask.kind == PF_ASK_PROBE; ask = pf_session_ask(s)) {
            double response[256];
            pf_hypothesis healthy = {ask.probe, 0, 1, NULL};
            pf_fixture_response(f, &healthy, 0, NULL, response);
            response[0] += wild ? 1e6 : 0;
            pf_tell tell = {.probe = ask.probe,
                            .response = response,
                            .rows = ask.rows,
                            .channels = f->kit.n_chan};
            if (!CHECK(pf_session_tell(s, &tell, &predictor, NULL) == PF_OK)) {
                break;
            }
        }
        pf_session_certify(s);
        CHECK(pf_session_mechanism(s, 1)->probed == !wild);
        CHECK(pf_session_mechanism(s, 2)->probed == !wild);
        CHECK(!pf_session_mechanism(s, 3)->probed);
        free(s);
        pf_fixture_free(f);
    }
}

// A recovery probe whose predictions hardly differ teaches nothing.
static void check_faint(pf_faults faults)
{
    for (uint64_t seed = 1; seed <= 5; seed++) {
        pf_fixture *f = made_up(1, 1, faults);
        pf_session *s = pf_fixture_session(f, NULL, seed);
        pf_rng rng;
        double before = NAN;
        pf_rng_init(&rng, seed);
        for (pf_ask ask = pf_session_ask(s); ask.kind == PF_ASK_PROBE; ask = pf_session_ask(s)) {
            if (ask.stage == 2 && isnan(before)) {
                pf_session_certify(s);
                before = pf_session_mechanism(s, 1)->mean_gain;
                for (int i = 0; i < f->window; i++) {
                    f->direction[i] *= 1e-4;
                }
            }
            if (!CHECK(pf_fixture_tell(f, s, 1, .35, .05, &rng) == PF_OK)) {
                break;
            }
        }
        pf_session_certify(s);
        CHECK_NEAR(pf_session_mechanism(s, 1)->mean_gain, before, 1e-12);
        free(s);
        pf_fixture_free(f);
    }
}

void test_failsafe(void)
{
    check_vanished();
    PF_CASE("recovery probes that show nothing");
    check_faint(PF_FAULTS_ONE);
    check_faint(PF_FAULTS_MANY);
    const pf_kit *const kits[] = {attitude_kit(), attitude_many_kit()};
    for (int i = 0; i < 2; i++) {
        check_garbage(kits[i]);
        check_machines(kits[i]);
        named(kits[i], "a gain between two of the grid: what is go keeps its bound");
        check_between(kits[i]);
        named(kits[i], "no verdict outlives its session");
        check_stale(kits[i]);
        named(kits[i], "less left than the grid can say");
        check_small_task(i ? "faults=many" : "faults=one");
    }
    PF_CASE("priors that exclude a loss");
    check_kits();
    PF_CASE("probes that cannot tell weak from healthy are refused");
    check_blind();
}
