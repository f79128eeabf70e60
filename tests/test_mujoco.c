// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "calibrate/plan.h"
#include "plant/plant_impl.h"
#include "test_mujoco.h"

#include "calibrate/source.h"
#include "core/certificate.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The six systems against the installed Gymnasium and against values of an independent prototype.

// start(0), probe on actuator 1 at gain 1, then at .35: first and last channel after steps 1 and 8.
// |h| and uncorrected return by candidate at gain .35. MuJoCo 4.0.0, Gymnasium 1.4.0.
typedef struct published {
    const char *name;
    double probe[8];
    double h[PF_MUJOCO_MECH], result[PF_MUJOCO_MECH];
} published;

static const published values[] = {
    {"ant",
     {.6793748222, 9.708087362, .687272917, .004455518926, .6791494473, 8.94351269, .6897833942,
      -.02827792401},
     {9.16546, 10.3153, 18.7201, 13.4736, 16.6373, 12.9468, 9.55846},
     {.714177, .632125, .381397, .556001, .427229, .289352, .758013}},
    {"half_cheetah",
     {-.05693079001, -.04925867317, -.14040985, .8861748491, -.05304085553, -.07441156345,
      -.1225450503, .6123488762},
     {8.31142, 7.3094, 8.72971, 6.72272, 11.6533},
     {.628356, .647882, .660341, .756236, .538379}},
    {"hopper",
     {1.247403838, -.003140864977, 1.227774977, -.003773719642, 1.247404184, -.002736398615,
      1.227779511, -.003609054767},
     {.627017, 7.50444},
     {.952973, .626896}},
    {"humanoid",
     {1.389859934, .6581209814, 1.32120572, -.1933626442, 1.389861052, .2166153239, 1.321358312,
      -.06442856546},
     {12.5185, 16.0251, 9.27306, 10.4164, 21.9769, .741966, 9.76601, 10.4158, 22.0766, .738311,
      9.94799, 9.82191, 10.3396, 10.2753, 10.0803, 10.4083},
     {.654102, .645411, .771878, .661121, .579964, .952663, .723475, .661693, .580149, .939641,
      .66045, .657808, .656599, .648778, .651278, .654146}},
    {"swimmer",
     {-.08766510248, .6540194871, .02229207522, 2.316544207, -.08917934906, .2858567934,
      -.03362473469, 1.193737958},
     {5.11537},
     {.71607}},
    {"walker2d",
     {1.247409254, .01809528373, 1.227810361, .02272152448, 1.247409484, .01645029267, 1.227813987,
      .02049079059},
     {.395327, 11.3661, 1.08538, .514199, 11.1686},
     {.77604, .617834, .693626, .66514, .631208}},
};

// --- equal to Gymnasium

// Steps of one run whose positions and velocities have other bits.
static int other_bits(pf_plant *plant, const pf_mujoco_system *s, const json_t *run)
{
    static double state[PF_STATE_MAX], command[MUJOCO_ROWS * PF_MUJOCO_MECH];
    static double states[MUJOCO_ROWS * PF_STATE_MAX];
    const pf_plant_info *info = pf_plant_get_info(plant);
    CHECK(json_array_size(json_object_get(run, "state")) == (size_t)info->n_state);
    gymnasium_numbers(json_object_get(run, "state"), state);
    for (int r = 0; r < MUJOCO_ROWS; r++) {
        gymnasium_numbers(json_array_get(json_object_get(run, "commands"), (size_t)r),
                          command + r * s->nu);
    }
    pf_roll roll = pf_roll_default();
    roll.start = state;
    roll.command = command;
    roll.rows = MUJOCO_ROWS;
    roll_checked(plant, &roll, &(pf_trace){.state = states});
    int other = 0;
    for (int r = 0; r < MUJOCO_ROWS; r++) {
        double theirs[64];
        gymnasium_numbers(json_array_get(json_object_get(run, "steps"), (size_t)r), theirs);
        const double *ours = states + (size_t)r * (size_t)info->n_state + 1; // after the time
        other += memcmp(ours, theirs, sizeof(double) * (size_t)(s->nq + s->nv)) != 0;
    }
    return other;
}

static void check_parity(const json_t *fixture, const pf_mujoco_system *s)
{
    PF_CASE("40 random steps of three seeds have Gymnasium's bits");
    pf_plant *plant = plant_checked(s->name);
    const json_t *runs = json_object_get(gymnasium_system(fixture, s->name), "runs");
    CHECK(json_array_size(runs) == 3);
    for (size_t i = 0; plant && i < json_array_size(runs); i++) {
        int other = other_bits(plant, s, json_array_get(runs, i));
        if (!CHECK(other == 0)) {
            printf("%s, run %zu: %d of %d steps differ; linked MuJoCo %s, Gymnasium's %s\n",
                   s->name, i, other, MUJOCO_ROWS, pf__mujoco_version(),
                   json_string_value(json_object_get(fixture, "mujoco")));
        }
    }
    pf_plant_destroy(plant);
}

// --- equal to the published values

static void pulse_from(pf_plant *plant, const double *start, const pf_pulse *pulse, int mechanism,
                       double gain, double *output)
{
    double command[MUJOCO_ROWS * PF_MUJOCO_MECH], gains[PF_MUJOCO_MECH];
    const pf_plant_info *info = pf_plant_get_info(plant);
    // mechanism -1: all at rest
    pf__pulse_command(pulse, info->n_mech, mechanism, command);
    for (int j = 0; j < info->n_mech; j++) {
        gains[j] = j == mechanism ? gain : 1;
    }
    pf_roll roll = pf_roll_default();
    roll.start = start;
    roll.gains = gains;
    roll.command = command;
    roll.rows = pulse->rows;
    roll_checked(plant, &roll, &(pf_trace){.output = output});
}

static double scaled_square(const pf_plant_info *info, int rows, const double *a, const double *b)
{
    double sum = 0;
    for (int i = 0; i < rows * info->n_chan; i++) {
        double e = (a[i] - b[i]) / info->channels[i % info->n_chan].scale;
        sum += e * e;
    }
    return sum;
}

static double effect_of(pf_plant *plant, const double *start, int mechanism)
{
    static double one[MUJOCO_OUT], weak[MUJOCO_OUT];
    const pf_plant_info *info = pf_plant_get_info(plant);
    pulse_from(plant, start, info->probe, mechanism, 1, one);
    pulse_from(plant, start, info->probe, mechanism, .35, weak);
    return sqrt(scaled_square(info, info->probe->rows, weak, one));
}

static double return_of(pf_plant *plant, const double *start, int mechanism)
{
    static double one[MUJOCO_OUT], weak[MUJOCO_OUT], rest[MUJOCO_OUT];
    const pf_plant_info *info = pf_plant_get_info(plant);
    pulse_from(plant, start, info->task, mechanism, 1, one);
    pulse_from(plant, start, info->task, mechanism, .35, weak);
    pulse_from(plant, start, info->task, -1, 1, rest);
    int rows = info->task->rows;
    return pf__return(scaled_square(info, rows, weak, one) / scaled_square(info, rows, one, rest));
}

static bool near_share(double actual, double expected, double share)
{
    return CHECK_NEAR(actual, expected, share * fabs(expected));
}

static void check_published(const json_t *fixture, const published *v)
{
    PF_CASE("probes, effects and returns of the specification");
    pf_plant *plant = plant_checked(v->name);
    if (!plant) {
        return;
    }
    const pf_plant_info *info = pf_plant_get_info(plant);
    double given[64], start[PF_STATE_MAX], out[2][MUJOCO_OUT];
    const json_t *list = json_object_get(gymnasium_system(fixture, v->name), "start");
    gymnasium_numbers(list, given);
    CHECK(pf__plant_load_state(plant, (int)json_array_size(list), given, start, NULL) == PF_OK);
    bool good = true;
    for (int g = 0; g < 2; g++) {
        pulse_from(plant, start, info->probe, 1, g == 0 ? 1 : .35, out[g]);
        for (int i = 0; i < 4; i++) {
            int at = (i < 2 ? 0 : 7) * info->n_chan + (i % 2 == 0 ? 0 : info->n_chan - 1);
            good = near_share(out[g][at], v->probe[4 * g + i], 1e-9) && good;
        }
    }
    // the file is known, by whatever path it was found
    CHECK_CONTAINS(info->source, "MuJoCo 4.0.0, Gymnasium ");
    // the scales are given to five digits
    for (int j = 1; j < info->n_mech; j++) {
        good = near_share(effect_of(plant, start, j), v->h[j - 1], 5e-5) && good;
        good = near_share(return_of(plant, start, j), v->result[j - 1], 5e-5) && good;
    }
    if (!good) {
        printf("%s: measured with MuJoCo 4.0.0 and Gymnasium 1.4.0, here %s\n", v->name,
               info->source);
    }
    pf_plant_destroy(plant);
}

// --- the description and the reset law

static void check_description(const pf_mujoco_system *s)
{
    PF_CASE("names, limits, kinds, state");
    pf_plant *plant = plant_checked(s->name);
    const pf_plant_info *info = plant ? pf_plant_get_info(plant) : NULL;
    double total = 0, limit = strcmp(s->name, "humanoid") == 0 ? .4 : 1;
    int quaternions = 0;
    for (int j = 0; info && j < info->n_mech; j++) {
        CHECK(info->mechanisms[j].lo == -limit && info->mechanisms[j].hi == limit);
        CHECK(info->mechanisms[j].name[0] && info->probe->amplitude[j] == (j == 0 ? .20 : .25));
        total += j > 0 && s->reveal ? s->reveal[j - 1] : 0;
    }
    for (int c = 0; info && c < info->n_chan; c++) {
        CHECK(info->channels[c].name[0] && info->channels[c].scale > 0);
        for (int other = 0; other < c; other++) {
            CHECK(strcmp(info->channels[c].name, info->channels[other].name) != 0);
        }
        quaternions += info->kinds[c] == PF_CHANNEL_QUATERNION;
    }
    CHECK(quaternions == (s->nq > s->nv ? 4 : 0));
    CHECK(!s->reveal || fabs(total - 1) < 1e-12);
    pf_plant_destroy(plant);
}

typedef struct moments {
    double least, most, sum, square, fourth;
    int n;
} moments;

static void add_number(moments *m, double x)
{
    m->least = x < m->least ? x : m->least;
    m->most = x > m->most ? x : m->most;
    m->sum += x;
    m->square += x * x;
    m->fourth += x * x * x * x;
    m->n++;
}

// Mean and variance within five standard errors, support where the law has one.
static void check_moments(const moments *m, double size, bool normal)
{
    double mean = m->sum / m->n, variance = m->square / m->n;
    double expected = normal ? size * size : size * size / 3;
    double kurtosis = normal ? 3 : 1.8;
    CHECK(fabs(mean) < 5 * sqrt(expected / m->n));
    CHECK(fabs(variance / expected - 1) < 5 * sqrt((kurtosis - 1) / m->n));
    CHECK(fabs(m->fourth / m->n / (expected * expected) - kurtosis) < .2 * kurtosis);
    if (!normal) {
        CHECK(m->least >= -size && m->most <= size);
        CHECK(m->least < -.98 * size && m->most > .98 * size);
    }
}

static void check_reset(const pf_mujoco_system *s)
{
    PF_CASE("resets follow the v5 law");
    pf_plant *plant = plant_checked(s->name);
    if (!plant) {
        return;
    }
    double rest[PF_STATE_MAX], start[PF_STATE_MAX];
    moments qpos = {0}, qvel = {0};
    pf_roll roll = pf_roll_default();
    roll.mean_reset = true;
    roll_checked(plant, &roll, &(pf_trace){.start = rest});
    roll.mean_reset = false;
    for (int k = 0; k < 400; k++) {
        roll.key = pf_key_stream(5, s->name, (uint64_t)k, PF_PURPOSE_TASK, 0);
        roll_checked(plant, &roll, &(pf_trace){.start = start});
        for (int i = 0; i < s->nq; i++) {
            add_number(&qpos, start[1 + i] - rest[1 + i]);
        }
        for (int i = 0; i < s->nv; i++) {
            CHECK(rest[1 + s->nq + i] == 0);
            add_number(&qvel, start[1 + s->nq + i]);
        }
        size_t before = (size_t)(1 + s->nq + s->nv);
        CHECK(start[0] == 0 &&
              memcmp(start + before, rest + before,
                     sizeof(double) * ((size_t)pf_plant_get_info(plant)->n_state - before)) == 0);
    }
    check_moments(&qpos, s->reset_qpos, false);
    check_moments(&qvel, s->reset_qvel, s->reset_normal);
    pf_plant_destroy(plant);
}

// --- what the method assumes

static void check_dormancy(pf_plant *plant)
{
    static double one[MUJOCO_OUT], other[MUJOCO_OUT];
    static const double weak[] = {.15, .35, .95};
    const pf_plant_info *info = pf_plant_get_info(plant);
    double command[MUJOCO_ROWS * PF_MUJOCO_MECH], gains[PF_MUJOCO_MECH];
    pf_pulse passive = {12, 12, false, info->probe->amplitude};
    pf__pulse_command(&passive, info->n_mech, 0, command);
    pf_roll roll = pf_roll_default();
    roll.command = command;
    roll.rows = passive.rows;
    size_t bytes = sizeof(double) * (size_t)(roll.rows * info->n_chan);
    for (int k = 0; k < 3 * info->n_mech; k++) {
        roll.key = pf_key_stream(6, info->name, (uint64_t)k, PF_PURPOSE_TASK, 0);
        roll.gains = NULL;
        roll_checked(plant, &roll, &(pf_trace){.output = one});
        for (int j = 0; j < info->n_mech; j++) {
            gains[j] = j == k / 3 ? weak[k % 3] : 1;
        }
        roll.gains = gains;
        roll_checked(plant, &roll, &(pf_trace){.output = other});
        // the current mechanism is in use, so its loss shows
        CHECK((memcmp(one, other, bytes) == 0) == (k / 3 > 0));
    }
}

static void check_contract(const pf_mujoco_system *s)
{
    PF_CASE("dormant to the bit, every probe shows, every task needs its mechanism");
    pf_plant *plant = plant_checked(s->name);
    pf_plan plan;
    pf_error error = {PF_OK, ""};
    if (!plant || !CHECK(pf__plan_default(&plan, pf_plant_get_info(plant), &error) == PF_OK)) {
        pf_plant_destroy(plant);
        return;
    }
    if (!CHECK(pf__contract_check(&plan, plant, true, NULL, NULL, &error) == PF_OK)) {
        printf("%s\n", error.text);
    }
    pf__plan_free(&plan);
    check_dormancy(plant);
    enum { RESETS = 10 };
    for (int j = 1; j < s->nu; j++) {
        double sum = 0, least = INFINITY, start[PF_STATE_MAX];
        for (int k = 0; k < RESETS; k++) {
            pf_roll roll = pf_roll_default();
            roll.key = pf_key_stream(7, s->name, (uint64_t)k, PF_PURPOSE_TASK, 0);
            roll_checked(plant, &roll, &(pf_trace){.start = start});
            sum += return_of(plant, start, j);
            least = fmin(least, effect_of(plant, start, j));
        }
        CHECK(least > 0);
        CHECK(sum / RESETS < .97);
    }
    pf_plant_destroy(plant);
}

// A forecast at a share above 1 of a command at its limit: as far from the nominal response as the
// same step below 1, since what an actuator does is linear in its command.
static void check_beyond(const pf_mujoco_system *s)
{
    PF_CASE("a share above 1 of a command at its limit is delivered");
    pf_plant *plant = plant_checked(s->name);
    const pf_plant_info *info = pf_plant_get_info(plant);
    static double start[PF_STATE_MAX], less[PF_STATE_MAX], full[PF_STATE_MAX], more[PF_STATE_MAX];
    pf_roll roll = pf_roll_default();
    roll.key = pf_key_stream(7, s->name, 0, PF_PURPOSE_TASK, 0);
    roll_checked(plant, &roll, &(pf_trace){.start = start});
    for (int j = 0; j < info->n_mech; j++) {
        double command[PF_MUJOCO_MECH] = {0}, gains[PF_MUJOCO_MECH];
        for (int i = 0; i < info->n_mech; i++) {
            gains[i] = 1;
        }
        command[j] = info->mechanisms[j].hi;
        roll = pf_roll_default();
        roll.start = start;
        roll.command = command;
        roll.rows = 1;
        roll.gains = gains;
        roll_checked(plant, &roll, &(pf_trace){.state = full});
        gains[j] = .999;
        roll_checked(plant, &roll, &(pf_trace){.state = less});
        gains[j] = 1.001;
        roll_checked(plant, &roll, &(pf_trace){.state = more});
        double below = 0, bend = 0;
        int first = 1 + s->nq; // velocities, after time and positions
        for (int i = first; i < first + s->nv; i++) {
            below += fabs(full[i] - less[i]);
            bend += fabs(more[i] - 2 * full[i] + less[i]);
        }
        CHECK(below > 0);
        CHECK(bend < .3 * below);
    }
    pf_plant_destroy(plant);
}

void test_mujoco(void)
{
    PF_CASE("the installed Gymnasium");
    if (!pf__mujoco_version()[0]) {
        pf_skip("built without MuJoCo (make deps)");
        return;
    }
    bool had_log = access("MUJOCO_LOG.TXT", F_OK) == 0;
    json_t *fixture = gymnasium_fixture("gymnasium_fixture.py");
    if (!fixture) {
        pf_skip("build/venv has no Gymnasium (make deps)");
        return;
    }
    for (int i = 0; i < pf__mujoco_count(); i++) {
        const pf_mujoco_system *s = pf__mujoco_at(i);
        CHECK_STR(values[i].name, s->name);
        check_description(s);
        check_parity(fixture, s);
        check_published(fixture, &values[i]);
        check_reset(s);
        check_contract(s);
        check_beyond(s);
    }
    test_mujoco_states(fixture);
    test_mujoco_suite(fixture);
    json_decref(fixture);
    PF_CASE("no log in the current folder");
    CHECK(had_log || access("MUJOCO_LOG.TXT", F_OK) != 0);
}
