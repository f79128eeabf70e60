// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate/plan.h"
#include "plant/plant_impl.h"
#include "gymnasium.h"
#include "plant/native/classic.h"
#include "test.h"

#include "calibrate/source.h"
#include "core/certificate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The classic-control plants against the installed Gymnasium and against values of an independent
// prototype (Gymnasium 1.4.0).

enum { STEPS = 200, MOST_STATE = 4, MOST_CHAN = 4, MECH = 3, RESETS = 400 };

typedef struct published {
    const char *name;
    double probe[8]; // reset(0), probe of direction 1, first and last channel after steps 1 and 8
    double h[2];     // norm of the signature, by direction
    double start[4]; // of task 0 from reset(3000)
    double score[4]; // nominal; g0 .25; g0 .25 with c0 4; g1 .25
    // over resets, task 0, fault on its own direction at .25 and .35: mean regret uncorrected and
    // with c = 1/g, mean return likewise, and their tolerances (resets are not Gymnasium's)
    double regret[4], returns[4];
    double nominal, nominal_sd, other[2];
} published;

static const published values[] = {
    {"pendulum",
     {.6450428116, .1832271627, -.3470079183, 5.366535189, .6469035004, .1344771627, -.2569340801,
      4.94294869},
     {3.86096, 3.92198},
     {.398885274, .3438407778},
     {-124.6716133, -248.4037403, -249.4197939, -124.7078233},
     {139.3, 81.9, 119.4, 34.4},
     {.614, .744, .656, .883},
     -232.9,
     157.6,
     {124, 116}},
    {"acrobot",
     {.002176890126, .05915812179, -.01231975268, -.1065332176, .0043302122, .004822658636,
      -.003057144467, -.02913242067},
     {3.68287, 3.67676},
     {-.01269691251, -.03438407928, -.0157722272, -.06115205213},
     {-154, -257, -233, -266},
     {93.3, 51.4, 81.4, 32.6},
     {.576, .737, .615, .821},
     -162.0,
     17.7,
     {91, 73}},
    {"cartpole",
     {.01323574216, -.1359050075, .03774033948, -.7877118001, .01323574216, -.08840144854,
      .01997097854, -.3915041805},
     {3.67389, 3.67607},
     {.006348456308, .01719203889, .007886113994, .03057602689},
     {500, 88, 500, 151},
     {411.0, 0, 278.6, 0},
     {.444, 1, .596, 1},
     500,
     0,
     {330, 207}},
};

// --- equal to Gymnasium

static int other_bits(pf_plant *plant, const json_t *run)
{
    const pf_plant_info *info = pf_plant_get_info(plant);
    double state[MOST_STATE], command[STEPS * MECH], states[STEPS * MOST_STATE];
    gymnasium_numbers(json_object_get(run, "state"), state);
    for (int r = 0; r < STEPS; r++) {
        command[r * MECH] = 0;
        gymnasium_numbers(json_array_get(json_object_get(run, "commands"), (size_t)r),
                          command + r * MECH + 1);
    }
    pf_roll roll = pf_roll_default();
    roll.start = state;
    roll.command = command;
    roll.rows = STEPS;
    roll_checked(plant, &roll, &(pf_trace){.state = states});
    int other = 0;
    for (int r = 0; r < STEPS; r++) {
        double theirs[MOST_STATE];
        gymnasium_numbers(json_array_get(json_object_get(run, "steps"), (size_t)r), theirs);
        other +=
            memcmp(states + r * info->n_state, theirs, sizeof(double) * (size_t)info->n_state) != 0;
    }
    return other;
}

static void check_parity(const json_t *found, const char *name)
{
    PF_CASE("200 random steps of three runs have Gymnasium's bits");
    pf_plant *plant = plant_checked(name);
    const json_t *runs = json_object_get(gymnasium_system(found, name), "runs");
    CHECK(json_array_size(runs) == 3);
    for (size_t i = 0; plant && i < json_array_size(runs); i++) {
        int other = other_bits(plant, json_array_get(runs, i));
        if (!CHECK(other == 0)) {
            printf("%s, run %zu: %d of %d steps differ; Gymnasium %s, NumPy %s (whose sin, cos and "
                   "power are libm's in 1.4.0 and 2.2.6)\n",
                   name, i, other, STEPS, json_string_value(json_object_get(found, "gymnasium")),
                   json_string_value(json_object_get(found, "numpy")));
        }
    }
    pf_plant_destroy(plant);
}

// The native rewards of a run against those of the plant's score.
static void check_rewards(const json_t *found)
{
    PF_CASE("the score of a pendulum is the sum of native rewards");
    const json_t *run =
        json_array_get(json_object_get(gymnasium_system(found, "pendulum"), "runs"), 0);
    double x[2], next[2], u[2], sum = 0;
    gymnasium_numbers(json_object_get(run, "state"), x);
    for (int r = 0; r < STEPS; r++) {
        gymnasium_numbers(json_array_get(json_object_get(run, "commands"), (size_t)r), u);
        gymnasium_numbers(json_array_get(json_object_get(run, "steps"), (size_t)r), next);
        const double v[] = {0, u[0], u[1]};
        CHECK(pf_plant_pendulum.loops->score(0, x, v, next, &sum));
        memcpy(x, next, sizeof x);
    }
    CHECK_NEAR(sum, json_real_value(json_object_get(run, "score")), 0);
}

// --- equal to the specification

static void pulse_from(pf_plant *plant, const double *start, int mechanism, double gain,
                       double *output)
{
    const pf_plant_info *info = pf_plant_get_info(plant);
    double command[12 * MECH], gains[MECH];
    pf__pulse_command(info->probe, MECH, mechanism, command);
    for (int j = 0; j < MECH; j++) {
        gains[j] = j == mechanism ? gain : 1;
    }
    pf_roll roll = pf_roll_default();
    roll.start = start;
    roll.gains = gains;
    roll.command = command;
    roll.rows = info->probe->rows;
    roll_checked(plant, &roll, &(pf_trace){.output = output});
}

static double effect_of(pf_plant *plant, const double *start, int mechanism)
{
    const pf_plant_info *info = pf_plant_get_info(plant);
    double one[8 * MOST_CHAN], weak[8 * MOST_CHAN], sum = 0;
    pulse_from(plant, start, mechanism, 1, one);
    pulse_from(plant, start, mechanism, .35, weak);
    for (int i = 0; i < 8 * info->n_chan; i++) {
        double e = (weak[i] - one[i]) / info->channels[i % info->n_chan].scale;
        sum += e * e;
    }
    return sqrt(sum);
}

static void check_probes(const json_t *found, const published *v)
{
    PF_CASE("probes and effects of the specification");
    pf_plant *plant = plant_checked(v->name);
    const pf_plant_info *info = pf_plant_get_info(plant);
    double start[MOST_STATE], out[8 * MOST_CHAN];
    gymnasium_numbers(json_object_get(gymnasium_system(found, v->name), "start"), start);
    for (int g = 0; g < 2; g++) {
        pulse_from(plant, start, 1, g == 0 ? 1 : .35, out);
        for (int i = 0; i < 4; i++) {
            int at = (i < 2 ? 0 : 7) * info->n_chan + (i % 2 == 0 ? 0 : info->n_chan - 1);
            CHECK_NEAR(out[at], v->probe[4 * g + i], 1e-9 * fabs(v->probe[4 * g + i]));
        }
    }
    for (int j = 1; j < MECH; j++) {
        CHECK_NEAR(effect_of(plant, start, j), v->h[j - 1], 5e-5 * v->h[j - 1]);
    }
    pf_plant_destroy(plant);
}

static double episode(pf_plant *plant, int policy, const double *start, pf_key key, int weak,
                      double gain, double correction)
{
    const pf_plant_info *info = pf_plant_get_info(plant);
    double gains[MECH] = {1, 1, 1}, corrections[MECH] = {1, 1, 1}, score = NAN;
    gains[weak] = gain;
    corrections[weak] = correction;
    pf_roll roll = pf_roll_default();
    roll.start = start;
    roll.key = key;
    roll.gains = gains;
    roll.correction = corrections;
    roll.policy = policy;
    roll.rows = info->policies[policy].rows;
    roll_checked(plant, &roll, &(pf_trace){.score = &score});
    return score;
}

static void check_scores(const json_t *found, const published *v)
{
    PF_CASE("scores of the specification");
    pf_plant *plant = plant_checked(v->name);
    int n_state = pf_plant_get_info(plant)->n_state;
    double given[MOST_STATE], start[MOST_STATE];
    gymnasium_numbers(json_object_get(gymnasium_system(found, v->name), "task_start"), given);
    pf_roll roll = pf_roll_default();
    roll.start = given;
    roll.policy = 0;
    roll_checked(plant, &roll, &(pf_trace){.start = start});
    for (int i = 0; i < n_state; i++) {
        CHECK_NEAR(start[i], v->start[i], 1e-9);
    }
    const double scores[] = {
        episode(plant, 0, start, 0, 1, 1, 1), episode(plant, 0, start, 0, 1, .25, 1),
        episode(plant, 0, start, 0, 1, .25, 4), episode(plant, 0, start, 0, 2, .25, 1)};
    for (int i = 0; i < 4; i++) {
        CHECK_NEAR(scores[i], v->score[i], 1e-8 * fabs(v->score[i]));
    }
    pf_plant_destroy(plant);
}

// Means over our own resets against the specification's over Gymnasium's: within four standard
// errors of a difference of two such means, from the spread found here.
static void check_regrets(const published *v)
{
    PF_CASE("regrets and returns of the specification, by resets of our own");
    static const double gains[] = {.25, .35};
    pf_plant *plant = plant_checked(v->name);
    const pf_policy *policy = &pf_plant_get_info(plant)->policies[0];
    double nominal = 0, regret[6] = {0}, square[6] = {0}, value[4] = {0};
    for (int k = 0; k < RESETS; k++) {
        pf_key key = pf_key_stream(3, v->name, (uint64_t)k, PF_PURPOSE_TASK, 0);
        double best = episode(plant, 0, NULL, key, 1, 1, 1);
        nominal += best / RESETS;
        for (int i = 0; i < 6; i++) {
            double g = gains[i < 4 ? i / 2 : i - 4], c = i < 4 && i % 2 ? 1 / g : 1;
            double r = best - episode(plant, 0, NULL, key, i < 4 ? 1 : 2, g, c);
            regret[i] += r / RESETS;
            square[i] += r * r / RESETS;
            if (i < 4) {
                value[i] += exp(-fmax(r, 0) / policy->norm) / RESETS;
            }
        }
    }
    CHECK_NEAR(nominal, v->nominal, 4 * sqrt(2.0 / RESETS) * v->nominal_sd + .05);
    for (int i = 0; i < 6; i++) {
        double sd = sqrt(fmax(square[i] - regret[i] * regret[i], 0));
        CHECK_NEAR(regret[i], i < 4 ? v->regret[i] : v->other[i - 4],
                   4 * sqrt(2.0 / RESETS) * sd + .5);
        if (i < 4) {
            CHECK_NEAR(value[i], v->returns[i], .05);
        }
    }
    pf_plant_destroy(plant);
}

// --- what the method assumes

static void check_contract(const char *name)
{
    PF_CASE("dormant to the bit, every probe shows, every task needs its mechanisms");
    static const char config[] =
        "tasks:\n  - {name: one, policy: %s}\n  - {name: two, policy: %s}\n";
    pf_plant *plant = plant_checked(name);
    const pf_plant_info *info = pf_plant_get_info(plant);
    char text[256];
    snprintf(text, sizeof text, config, info->policies[0].name, info->policies[1].name);
    for (int closed = 0; closed < 2; closed++) {
        pf_plan plan;
        pf_error error = {PF_OK, ""};
        pf_status status = pf__plan_from_config(&plan, info, "test", closed ? text : NULL,
                                                closed ? strlen(text) : 0, NULL, 0, &error);
        if (status == PF_OK) {
            status = pf__contract_check(&plan, plant, true, NULL, NULL, &error);
            CHECK(plan.n_tasks == 2 && plan.tasks[0].n_uses == (closed ? 2 : 1));
        }
        if (!CHECK(status == PF_OK)) {
            printf("%s\n", error.text);
        }
        pf__plan_free(&plan);
    }
    pf_plant_destroy(plant);
}

static void check_mirror(const char *name)
{
    PF_CASE("the two tasks are each other's mirror image");
    pf_plant *plant = plant_checked(name);
    double first[MOST_STATE], second[MOST_STATE];
    for (int k = 0; k < 40; k++) {
        pf_roll roll = pf_roll_default();
        roll.key = pf_key_stream(4, name, (uint64_t)k, PF_PURPOSE_TASK, 0);
        roll.policy = 0;
        roll_checked(plant, &roll, &(pf_trace){.start = first});
        roll.policy = 1;
        roll_checked(plant, &roll, &(pf_trace){.start = second});
        for (int i = 0; i < pf_plant_get_info(plant)->n_state; i++) {
            CHECK(first[i] == -second[i]);
        }
        double one = episode(plant, 0, first, 0, 1, .35, 1);
        CHECK_NEAR(episode(plant, 1, first, 0, 2, .35, 1), one, 1e-9 * fabs(one));
    }
    pf_plant_destroy(plant);
}

static void check_nuisance(void)
{
    PF_CASE("the left diagnostic of the cart is dearer and three times as noisy");
    pf_plant *plant = plant_checked("cartpole");
    const pf_plant_info *info = pf_plant_get_info(plant);
    pf_plan plan;
    CHECK(pf__plan_default(&plan, info, NULL) == PF_OK);
    CHECK_NEAR(plan.probes[0].charge, .08, 1e-15);
    CHECK_NEAR(plan.probes[1].charge, .40, 1e-15);
    for (int j = 1; j < MECH; j++) {
        double start[MOST_STATE] = {0}, still[8 * MOST_CHAN], noisy[8 * MOST_CHAN], sum = 0;
        pulse_from(plant, start, j, 1, still);
        pf_roll roll = pf_roll_default();
        roll.start = start;
        roll.rows = 8;
        roll.command = plan.probes[j - 1].command;
        roll.sensor_noise = 1;
        for (int k = 0; k < 100; k++) {
            roll.key = (pf_key)k;
            roll_checked(plant, &roll, &(pf_trace){.output = noisy});
            for (int i = 0; i < 8 * info->n_chan; i++) {
                double e = (noisy[i] - still[i]) / info->channels[i % info->n_chan].scale;
                sum += e * e / (100 * 8 * info->n_chan);
            }
        }
        CHECK_NEAR(sqrt(sum), j == 1 ? .25 : .75, j == 1 ? .012 : .036);
    }
    pf__plan_free(&plan);
    pf_plant_destroy(plant);
}

void test_classic(void)
{
    PF_CASE("the installed Gymnasium");
    json_t *found = gymnasium_fixture("classic_fixture.py");
    if (!found) {
        pf_skip("build/venv has no Gymnasium (make deps)");
    }
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        const published *v = &values[i];
        if (found) {
            check_parity(found, v->name);
            check_probes(found, v);
            check_scores(found, v);
        }
        check_regrets(v);
        check_contract(v->name);
        check_mirror(v->name);
    }
    if (found) {
        check_rewards(found);
    }
    check_nuisance();
    json_decref(found);
}
