// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "test.h"
#include "core/kit_layout.h"
#include "core/certificate.h"
#include "bench/experiment.h"
#include "bench/kits.h"
#include "bench/trial.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Closed-loop tasks of a trial, the coordinate study, and suites whose backend is not here.

static const char *const method[] = {"eg-mpt"};

static bool open_kits(const char *name, pf_plant **plant, pf_trial_kits *kits,
                      pf_responses *responses)
{
    pf_error error = {PF_OK, ""};
    pf_status status = pf_plant_create(plant, name, &error);
    pf_settings settings = pf__settings_default(PF_SETTINGS_SUITE);
    settings.alarm_trials = 20;
    pf_kits_request r = {.plant = *plant,
                         .settings = &settings,
                         .amplitude = NAN,
                         .n_methods = 1,
                         .methods = method,
                         .fingerprint = ""};
    status = status ? status : pf__kits_calibrate(kits, &r, &error);
    status = status ? status : pf__responses_init(responses, *plant, kits->kit[0], NULL, &error);
    if (!CHECK(status == PF_OK)) {
        printf("%s: %s\n", name, error.text);
    }
    return status == PF_OK;
}

static void close_kits(pf_plant *plant, pf_trial_kits *kits, pf_responses *responses)
{
    pf__responses_free(responses);
    pf__kits_free(kits);
    pf_plant_destroy(plant);
}

// --- episodes

// A belief that is sure of one mechanism and grid gain; mechanism 0: of nothing changed.
static pf_joint sure(const pf_kit *k, double *mass, int mechanism, int at)
{
    memset(mass, 0, sizeof(double) * 2 * (size_t)k->n_grid);
    if (mechanism > 0) {
        mass[(mechanism - 1) * k->n_grid + at] = 1;
    }
    return (pf_joint){
        .m = 2, .n_grid = k->n_grid, .grid = k->grid, .nominal = mechanism == 0, .mass = mass};
}

static double direct_score(const pf_responses *b, int policy, int weak, double gain,
                           double correction)
{
    double gains[] = {1, 1, 1}, corrections[] = {1, 1, 1}, score = NAN;
    gains[weak] = gain;
    corrections[weak] = correction;
    pf_roll roll = pf_roll_default();
    roll.key =
        pf_key_stream(b->seed, pf_plant_get_info(b->plant)->name, b->trial, PF_PURPOSE_TASK, 0);
    roll.gains = gains;
    roll.correction = corrections;
    roll.policy = policy;
    roll.rows = pf_plant_get_info(b->plant)->policies[policy].rows;
    CHECK(pf_plant_roll(b->plant, &roll, &(pf_trace){.score = &score}, NULL) == PF_OK);
    return score;
}

static void check_episodes(const char *name)
{
    pf_plant *plant = NULL;
    pf_trial_kits kits = {.n = {0}};
    pf_responses responses = {0};
    double mass[2 * 64];
    PF_CASE("episodes: tasks of a suite are the policies that their mechanisms own");
    if (!open_kits(name, &plant, &kits, &responses)) {
        return;
    }
    const pf_kit *k = kits.kit[0];
    const pf_plant_info *info = pf_plant_get_info(plant);
    for (int t = 0; t < 2; t++) {
        const pf_policy *p = pf__policy_of_task(&responses, t);
        CHECK(p == &info->policies[t] && p->owner == k->use_mech[k->task_use[t]]);
        CHECK(k->task_use[t + 1] - k->task_use[t] == 1);
        double nu = info->reveal ? info->reveal[t] : .5,
               s = info->importance ? info->importance[t] : 1;
        CHECK_NEAR(k->weight[t], nu * s, 1e-15);
    }
    PF_CASE("episodes: regret and return are those of a rollout from the same start");
    int half = 0;
    while (fabs(k->grid[half] - .5) > 1e-9) {
        half++;
    }
    for (int trial = 0; trial < 5; trial++) {
        pf__responses_start(&responses, 3, (uint64_t)trial, PF_PURPOSE_EVALUATION, 1, &(int){2},
                            &(double){.5});
        pf_joint joint = sure(k, mass, 2, half);
        double best = direct_score(&responses, 1, 0, 1, 1);
        pf_flown flown;
        CHECK(pf__responses_realise(&responses, 1, NULL, &flown, NULL) == PF_OK);
        CHECK_NEAR(flown.regret, best - direct_score(&responses, 1, 2, .5, 1), 0);
        CHECK_NEAR(flown.ret, exp(-fmax(flown.regret, 0) / info->policies[1].norm), 1e-15);
        const double twice[] = {1, 1, 2};
        CHECK(pf__responses_realise(&responses, 1, twice, &flown, NULL) == PF_OK);
        CHECK_NEAR(flown.regret, best - direct_score(&responses, 1, 2, .5, 2), 0);
        // a correction of 2 fits into the limits and is all that half a gain needs
        CHECK_NEAR(flown.regret, 0, 1e-9 * fabs(best));
        pf_prediction p;
        CHECK(pf__policy_predict(&responses, &joint, 1, (pf_bound_rule){.1, false}, &p, NULL) ==
              PF_OK);
        CHECK_NEAR(p.mean, flown.ret, 1e-12);
        CHECK_NEAR(p.lower, p.mean, 1e-6);
        // sure of the wrong mechanism: the prediction is of a correction that does harm
        joint = sure(k, mass, 1, 0);
        CHECK(pf__policy_predict(&responses, &joint, 1, (pf_bound_rule){.1, false}, &p, NULL) ==
              PF_OK);
        double scored = direct_score(&responses, 1, 1, k->grid[0], 1 / k->grid[0]);
        CHECK_NEAR(p.mean, exp(-fmax(best - scored, 0) / info->policies[1].norm), 1e-12);
    }
    close_kits(plant, &kits, &responses);
}

static void check_fingerprint(void)
{
    PF_CASE("episodes: another schedule or start is another plant");
    pf_plant_class other = *pf_plant_at(0);
    for (int i = 0; i < pf_plant_count(); i++) {
        other = strcmp(pf_plant_at(i)->info.name, "pendulum") == 0 ? *pf_plant_at(i) : other;
    }
    char one[65], two[65];
    pf_policy policies[2] = {other.info.policies[0], other.info.policies[1]};
    for (int round = 0; round < 2; round++) {
        pf_plant *plant = NULL;
        policies[1].norm += round;
        other.info.policies = policies;
        CHECK(pf_plant_from_class(&plant, &other, NULL) == PF_OK);
        CHECK(pf__plant_fingerprint(plant, round ? two : one, NULL) == PF_OK);
        pf_plant_destroy(plant);
    }
    CHECK(strcmp(one, two) != 0);
}

static void check_refused(void)
{
    PF_CASE("episodes: a kit for use refuses a scored loop");
    static const char text[] = "tasks: [{name: swing, policy: swing_plus}]";
    pf_plant *plant = NULL;
    pf_plan plan;
    pf_error error = {PF_OK, ""};
    void *bytes = NULL;
    size_t n = 0;
    CHECK(pf_plant_create(&plant, "pendulum", NULL) == PF_OK);
    CHECK(pf__plan_from_config(&plan, pf_plant_get_info(plant), "t", text, strlen(text), NULL, 0,
                               &error) == PF_OK);
    plan.settings.episodes = 12;
    plan.settings.alarm_trials = 20;
    CHECK(pf_calibrate(&plan, plant, NULL, NULL, &bytes, &n, &error) == PF_ERR_UNSUPPORTED);
    CHECK_CONTAINS(error.text, "needs an open-loop task");
    pf__plan_free(&plan);
    pf_plant_destroy(plant);
}

// --- the coordinate study

static void check_coordinate(void)
{
    PF_CASE("coordinate: a linear plant is on the line, spread by its noise");
    pf_plant *plant = NULL;
    pf_trial_kits kits = {.n = {0}};
    pf_responses responses = {0};
    pf_trial_result results[PF_COORDINATE_ARMS];
    if (!open_kits("acrobot", &plant, &kits, &responses)) {
        return;
    }
    static const double gains[] = {.15, .35, .65, .95};
    for (int i = 0; i < 4; i++) {
        enum { EPISODES = 200 };
        double ideal = (1 - gains[i]) / .65, sd = .25 / 3.68; // x/|h|
        CHECK(pf__coordinate_run(&responses, kits.kit[0], 1, gains[i], EPISODES, results, NULL) ==
              PF_OK);
        for (int arm = 0; arm < 3; arm++) {
            const double *v = results[arm].value;
            // the centres are medians of 60 episodes each
            CHECK_NEAR(v[PF_METRIC_coordinate], ideal, 5 * sd * sqrt(1.6 / 60 + 1.0 / EPISODES));
            CHECK_NEAR(v[PF_METRIC_coordinate_bias], v[PF_METRIC_coordinate] - ideal, 1e-12);
            CHECK_NEAR(v[PF_METRIC_coordinate_sd], sd, .2 * sd);
            CHECK_NEAR(v[PF_METRIC_noise_to_signal], v[PF_METRIC_coordinate_sd] / ideal, 1e-12);
        }
        CHECK(isnan(results[3].value[PF_METRIC_coordinate]));
    }
    close_kits(plant, &kits, &responses);
}

// --- a backend that is not here

static void check_missing(void)
{
    PF_CASE("suites: an environment without its backend is named and left out");
    static const char text[] =
        "id: short\ntitle: t\nenvironments: [dc_servo, \"gym:Nothing-v0\"]\nmethods: [eg-mpt]\n"
        "seeds: 1\ntrials: 2\nepisodes: 12\nalarm_trials: 20\n";
    pf_suite suite;
    pf_experiment e;
    pf_error error = {PF_OK, ""};
    if (!CHECK(pf__suite_read(&suite, "short", text, strlen(text), NULL, 0, &error) == PF_OK) ||
        !CHECK(pf__experiment_init(&e, &suite, pf__profile_find("paper"), &error) == PF_OK)) {
        printf("%s\n", error.text);
        return;
    }
    CHECK(!pf__experiment_missing(&e, 0) && !pf__experiment_wants_missing(&e, 0));
    CHECK_CONTAINS(pf__experiment_missing(&e, 1), "gym:Nothing-v0");
    CHECK(pf__experiment_runnable(&e, &error) == PF_OK);
    static const char *const clause[] = {"environment=gym:Nothing-v0"};
    CHECK(pf__experiment_select(&e, 1, clause, &error) == PF_OK);
    CHECK(pf__experiment_wants_missing(&e, 1) &&
          !pf__experiment_wants(&e, &e.units[e.n_units - 1]));
    CHECK(pf__experiment_runnable(&e, &error) == PF_ERR_UNSUPPORTED);
    CHECK_CONTAINS(error.text, "gym:Nothing-v0");
    pf__experiment_free(&e);
    pf__suite_free(&suite);
    PF_CASE("suites: a coordinate study has the coordinate of eg-mpt alone");
    static const char bad[] = "id: c\ntitle: t\nkind: coordinate\nenvironments: [dc_servo]\n"
                              "methods: [random]\n";
    CHECK(pf__suite_read(&suite, "c", bad, strlen(bad), NULL, 0, &error) == PF_ERR_FORMAT);
    CHECK_CONTAINS(error.text, "eg-mpt alone");
}

// The threshold of least mitigation loss: the largest of equals, so that nothing is deployed for
// nothing.
static void check_reveal(void)
{
    PF_CASE("the reveal's threshold has the least loss");
    pf_reveal_losses losses = {{0}};
    for (int i = 0; i < PF_REVEAL_STEPS; i++) {
        losses.loss[i] = fabs(i - 73.5); // 73 and 74 are equal
    }
    CHECK_NEAR(pf__reveal_threshold(&losses), .74, 1e-15);
    losses.loss[2] = -1;
    CHECK_NEAR(pf__reveal_threshold(&losses), .02, 1e-15);
}

void test_episode(void)
{
    check_reveal();
    check_episodes("pendulum");
    check_episodes("acrobot");
    check_fingerprint();
    check_refused();
    check_coordinate();
    check_missing();
}
