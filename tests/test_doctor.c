// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "test.h"

#include "calibrate/doctor.h"
#include "calibrate/source.h"
#include "core/rng.h"
#include "program.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A machine whose every flaw is known: two leaking sums, each driven by its own mechanism.
typedef struct machine {
    double unseeded; // size of a draw that no seed decides
    double left;     // share of the last trajectory that is left over
    double rounding; // relative error of every second trajectory, or of every `seldom`-th
    int seldom;
    double forgotten;  // what the start that it tells does not hold
    double dead, most; // commands within `dead` do nothing, none does more than `most`
    double noise;      // of what is read
    double live;       // what mechanism 1 does in passive operation
    double breaks;     // it fails where more than this is delivered; 0: it never does
    // of the trajectories so far
    int n;
    double last;
} machine;

enum { N_MECH = 3, N_CHAN = 2, STEPS = 8 };
static const double keep = .9;

static const char hello[] =
    "{\"protocol\":1,\"name\":\"sums\",\"mechanisms\":[{\"name\":\"base\",\"lo\":-1,\"hi\":1},"
    "{\"name\":\"left\",\"lo\":-1,\"hi\":1},{\"name\":\"right\",\"lo\":-1,\"hi\":1}],"
    "\"channels\":[\"a\",\"b\"],\"dt\":1,\"state_size\":2,\"deterministic\":true}";

static double delivered(const machine *m, double gain, double command)
{
    double v = gain * command;
    v = fabs(v) <= m->dead ? 0 : v;
    return fmax(-m->most, fmin(m->most, v));
}

static int roll(void *self, uint64_t seed, const double *start, int n_start, const double *gains,
                const double *commands, int rows, int noise, double *start_out, double *initial,
                double *output, char *why)
{
    machine *m = self;
    pf_rng rng;
    pf_rng_init(&rng, seed);
    (void)n_start;
    (void)why;
    double hidden = m->forgotten * pf_rng_normal(&rng);
    double x[N_CHAN] = {.1 * pf_rng_normal(&rng), .1 * pf_rng_normal(&rng)};
    if (start) {
        memcpy(x, start, sizeof x);
        hidden = 0;
    }
    memcpy(start_out, x, sizeof x);
    memcpy(initial, x, sizeof x);
    x[0] += m->left * m->last + hidden;
    x[1] += m->unseeded * ++m->n;
    for (int r = 0; r < rows; r++) {
        const double *u = commands + (size_t)r * N_MECH;
        for (int c = 0; c < N_CHAN; c++) {
            double v = delivered(m, gains[c + 1], u[c + 1]);
            if (m->breaks > 0 && fabs(v) > m->breaks) {
                strcpy(why, "it broke");
                return 1;
            }
            x[c] = keep * x[c] + v;
        }
        x[0] += m->live * gains[1];
        for (int c = 0; c < N_CHAN; c++) {
            double read = x[c] * (1 + m->rounding * (m->n % (m->seldom ? m->seldom : 2) == 1));
            output[r * N_CHAN + c] = read + (noise ? m->noise * pf_rng_normal(&rng) : 0);
        }
    }
    m->last = x[0];
    return 0;
}

static machine sound(void)
{
    return (machine){.most = 1e9, .noise = .02};
}

// What the doctor finds; false: it found nothing, and why.
static bool examine(machine *m, const char *config, pf_doctor *d, pf_error *error)
{
    pf_plant *plant = NULL;
    pf_plan plan = {0};
    *d = (pf_doctor){.starts = 8};
    *error = (pf_error){PF_OK, ""};
    bool good = CHECK(pf_plant_from_function(&plant, "sums", hello, roll, m, error) == PF_OK) &&
                CHECK(pf__plan_from_config(&plan, pf_plant_get_info(plant), "c", config,
                                           strlen(config), NULL, 0, error) == PF_OK) &&
                pf__doctor_run(d, &plan, plant, NULL, error) == PF_OK;
    if (!good) {
        printf("%s\n", error->text);
    }
    pf__plan_free(&plan);
    pf_plant_destroy(plant);
    return good;
}

static void check_sound(void)
{
    machine m = sound();
    pf_doctor d;
    pf_error error;
    PF_CASE("a linear machine: closed forms of what it shows");
    CHECK(examine(&m, "", &d, &error));
    CHECK(pf__repeats_itself(d.repeat, PF_REPEAT_WAYS) && d.tolerance == 0);
    for (int i = 0; i < PF_REPEAT_WAYS; i++) {
        CHECK(d.repeat[i].differs == 0);
    }
    // a quarter of the range held: row r moves by amplitude (1 - keep^r)/(1 - keep)
    double amplitude = .25, sum = 0;
    for (int r = 1; r <= STEPS; r++) {
        double moved = amplitude * (1 - pow(keep, r)) / (1 - keep);
        sum += moved * moved / STEPS;
    }
    for (int j = 1; j < N_MECH; j++) {
        CHECK(d.passive[j].differs == 0);
        for (int c = 0; c < N_CHAN; c++) {
            double loss = c == j - 1 ? .65 * sqrt(sum) : 0;
            CHECK_NEAR(d.shows[j * N_CHAN + c], loss, 1e-9);
        }
        for (int i = 0; i < PF_SWEEP; i++) {
            bool beyond = pf__sweep[i] * amplitude > 1;
            CHECK(beyond ? isnan(d.sweep[j * PF_SWEEP + i])
                         : fabs(d.sweep[j * PF_SWEEP + i] - 1) < 1e-9);
        }
        CHECK(!pf__doctor_dead_zone(&d, j) && !pf__doctor_saturates(&d, j) &&
              pf__doctor_amplitude(&d, j) == 1);
    }
    for (int c = 0; c < N_CHAN; c++) {
        CHECK_NEAR(d.noise[c], m.noise, .2 * m.noise);
        CHECK_NEAR(d.moved[c], sqrt(sum / 2), 1e-9); // by one of two probes
    }
    CHECK_NEAR(d.apart[1], .65 * sqrt(sum * STEPS) / d.noise[0], 1e-6);
    CHECK(d.calibration_s > d.trajectory_s && d.trajectory_s > 0);
    pf__doctor_free(&d);
}

static void check_repeats(void)
{
    static const struct {
        pf_repeat_way way;
        machine m;
    } flaws[] = {
        {PF_REPEAT_AGAIN, {.most = 1e9, .unseeded = 1e-3}},
        {PF_REPEAT_AFTER, {.most = 1e9, .left = 1e-2}},
        {PF_REPEAT_START, {.most = 1e9, .forgotten = .1}},
    };
    pf_doctor d;
    pf_error error;
    for (size_t i = 0; i < sizeof flaws / sizeof flaws[0]; i++) {
        machine m = flaws[i].m;
        PF_CASE(pf__repeat_cause(flaws[i].way));
        CHECK(examine(&m, "sensor_noise: .1\n", &d, &error));
        CHECK(!pf__repeats_itself(d.repeat, PF_REPEAT_WAYS));
        CHECK(d.repeat[flaws[i].way].differs > PF_ROUNDING);
        if (flaws[i].way == PF_REPEAT_START) {
            CHECK(pf__repeats_itself(d.repeat, PF_REPEAT_START));
        }
        pf__doctor_free(&d);
    }
    PF_CASE("what refuses it says by how much");
    const pf_channel room = {.name = "room"};
    const pf_plan plan = {.plant = "house", .channels = &room};
    const pf_repeat far_off = {.differs = .0025};
    double tolerance;
    CHECK(pf__repeat_tolerance(&plan, &far_off, 1, &tolerance, &error) == PF_ERR_PLANT);
    CHECK_CONTAINS(error.text, "at once differs by 0.0025 of the largest reading of 'room': it");
}

// A simulator that repeats to rounding gets a tolerance, which its kit keeps; one that repeats to
// a thousandth is refused.
static void check_tolerance(void)
{
    static const double sizes[] = {0, 3e-13, 1e-3};
    for (int i = 0; i < 3; i++) {
        machine m = sound();
        m.rounding = sizes[i];
        m.unseeded = 0;
        pf_plant *plant = NULL;
        pf_plan *plan = NULL;
        pf_error error = {PF_OK, ""};
        void *bytes = NULL;
        size_t n = 0;
        PF_CASE(i == 0   ? "bits where they hold"
                : i == 1 ? "a tolerance where rounding differs"
                         : "refused where more than rounding differs");
        CHECK(pf_plant_from_function(&plant, "sums", hello, roll, &m, &error) == PF_OK);
        CHECK(pf_plan_create(&plan, pf_plant_get_info(plant), NULL, NULL, 0,
                             (const char *const[]){"episodes=12", "alarm_trials=20"}, 2,
                             &error) == PF_OK);
        pf_status status = pf_calibrate(plan, plant, NULL, NULL, &bytes, &n, &error);
        CHECK(status == (i < 2 ? PF_OK : PF_ERR_PLANT));
        if (i == 2) {
            CHECK_CONTAINS(error.text, "the same trajectory run");
        } else {
            void *memory = malloc(pf_kit_size());
            pf_kit *kit = NULL;
            CHECK(pf_kit_load(&kit, bytes, n, memory, pf_kit_size(), &error) == PF_OK);
            double tolerance = kit ? pf_kit_get_info(kit).tolerance : NAN;
            CHECK(i == 0 ? tolerance == 0 : tolerance > 2 * sizes[i] && tolerance < 11 * sizes[i]);
            free(memory);
        }
        free(bytes);
        pf_plan_destroy(plan);
        pf_plant_destroy(plant);
    }
}

// One trajectory in seven is rounded differently, wherever it comes: no loss shows by that.
static void check_seldom(void)
{
    PF_CASE("what rounds differently now and then is no loss that shows");
    for (int i = 0; i < 7; i++) {
        machine m = sound();
        m.rounding = 3e-13;
        m.seldom = 7;
        m.n = i;
        pf_plant *plant = NULL;
        pf_plan plan = {0};
        pf_error error = {PF_OK, ""};
        double tolerance = 0;
        CHECK(pf_plant_from_function(&plant, "sums", hello, roll, &m, &error) == PF_OK);
        CHECK(pf__plan_from_config(&plan, pf_plant_get_info(plant), "c", "", 0, NULL, 0, &error) ==
              PF_OK);
        CHECK(pf__contract_check(&plan, plant, false, NULL, &tolerance, &error) == PF_OK);
        CHECK(tolerance < 1e-11);
        pf__plan_free(&plan);
        pf_plant_destroy(plant);
    }
}

static void check_flaws(void)
{
    pf_doctor d;
    pf_error error;
    PF_CASE("a dead zone, and where it ends");
    machine m = sound();
    m.dead = .05; // a fifth of the probe
    CHECK(examine(&m, "", &d, &error));
    CHECK(d.sweep[PF_SWEEP] == 0 && pf__doctor_dead_zone(&d, 1) && !pf__doctor_saturates(&d, 1));
    CHECK_NEAR(d.sweep[PF_SWEEP + 2], 1, 1e-9);
    pf__doctor_free(&d);

    PF_CASE("saturation, and a probe beyond it");
    m = sound();
    m.most = .1;
    CHECK(examine(&m, "", &d, &error));
    CHECK(pf__doctor_saturates(&d, 2) && pf__doctor_amplitude(&d, 2) == .5);
    CHECK_NEAR(d.sweep[2 * PF_SWEEP + PF_SWEEP_PROBE + 1], .5, 1e-9);
    CHECK(pf__doctor_longer(&d, 2) == 1);
    pf__doctor_free(&d);
    PF_CASE("a probe that shows too little is made stronger, or longer where that does not help");
    m.noise = 1;
    CHECK(examine(&m, "", &d, &error));
    CHECK(d.apart[2] < PF_GOOD_APART);
    CHECK(pf__doctor_amplitude(&d, 2) == 1 && pf__doctor_longer(&d, 2) == 4);
    pf__doctor_free(&d);
    m.most = 1e9;
    CHECK(examine(&m, "", &d, &error));
    CHECK(d.apart[2] < PF_GOOD_APART);
    CHECK(pf__doctor_amplitude(&d, 2) == 2 && pf__doctor_longer(&d, 2) == 1);
    pf__doctor_free(&d);

    PF_CASE("a machine that fails at a multiple of its probe, and where a task is foreseen");
    m = sound();
    m.breaks = .46; // two probes are .5, a task of .25 at gain 1.85 is .4625
    CHECK(examine(&m, "", &d, &error));
    CHECK(d.fails[1] == 2 && d.fails[2] == 2 && isnan(d.sweep[2 * PF_SWEEP + PF_SWEEP - 1]));
    CHECK_STR(d.failure, "task 'left', 'left' at gain 1.85: sums: the plant reports: it broke");
    pf__doctor_free(&d);
    m.breaks = .2;
    CHECK(!examine(&m, "", &d, &error));
    CHECK_STR(error.text, "probe 'left': sums: the plant reports: it broke");
    pf__doctor_free(&d);

    PF_CASE("a loss that is not dormant");
    m = sound();
    m.live = .05;
    CHECK(examine(&m, "", &d, &error));
    CHECK(d.passive[1].differs > .1 && d.passive[1].channel == 0 && d.passive[2].differs == 0);
    pf__doctor_free(&d);

    PF_CASE("a scale that no task can be go with");
    m = sound();
    CHECK(examine(&m, "channels: [{name: a, scale: .002}, {name: b, scale: 3}]\n", &d, &error));
    // task `right` moves b alone; what noise does to a is counted in its scale
    CHECK(d.bound[1] < .85 && d.error_share[N_CHAN] > .99 && d.bound[0] > .85);
    pf__doctor_free(&d);

    PF_CASE("nothing disturbs it: refused before anything is designed");
    m = sound();
    m.noise = 0;
    pf_plant *plant = NULL;
    pf_plan plan = {0};
    CHECK(pf_plant_from_function(&plant, "sums", hello, roll, &m, &error) == PF_OK);
    CHECK(pf__plan_default(&plan, pf_plant_get_info(plant), &error) == PF_OK);
    CHECK(pf__plant_noise(&plan, plant, &error) == PF_ERR_DEGENERATE && m.n == 2);
    CHECK_CONTAINS(error.text, "set sensor_noise");
    plan.settings.sensor_noise = .1;
    CHECK(pf__plant_noise(&plan, plant, &error) == PF_OK && m.n == 2);
    pf__plan_free(&plan);
    pf_plant_destroy(plant);
}

// The program: what it says of a plant without noise, and that what it gives to paste mends it.
static void check_program(void)
{
    char folder[200];
    PF_CASE("the command says what to do, and its configuration does it");
    if (!CHECK(program_folder(folder, sizeof folder, "doctor"))) {
        return;
    }
    CHECK(program("doctor dc_servo", 0, "Nothing: calibrate it."));
    CHECK(program("doctor dc_servo --json", 0, "\"findings\":[]}"));
    CHECK(program("doctor dc_servo --set j_min=.9999999", 1, "can never be go"));
    CHECK(program("doctor", 2, "name one plant"));
    CHECK(program("doctor nosuch", 3, "no plant is called 'nosuch'"));
    CHECK(program("doctor dc_servo --starts 1", 2, "--starts"));
    CHECK(program_in(folder, "doctor dc_servo --set j_min=.9999999 >@/all", 1, ""));
    CHECK(program_in(folder, "--version; sed -n '/^# a configuration/,$p' @/all >@/c.yaml", 0, ""));
    CHECK(program_in(folder, "doctor dc_servo --config @/c.yaml", 0, "Nothing: calibrate it."));
}

void test_doctor(void)
{
    check_sound();
    check_repeats();
    check_tolerance();
    check_seldom();
    check_flaws();
    check_program();
}
