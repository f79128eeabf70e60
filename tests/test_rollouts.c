// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "test.h"
#include "model/rollout.h"
#include "model/train_impl.h"
#include "model/transitions.h"
#include "train.h"
#include "transitions.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The loss over rollouts: against the model's own rolls, and its gradient against differences.

enum { CHAN = 6, STEPS = 4, ROWS = 5 };
static const pf_channel_kind kinds[CHAN] = {PF_CHANNEL_ANGLE,      PF_CHANNEL_QUATERNION,
                                            PF_CHANNEL_QUATERNION, PF_CHANNEL_QUATERNION,
                                            PF_CHANNEL_QUATERNION, PF_CHANNEL_PLAIN};

static double dot(int n, const double *a, const double *b)
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

// <d, f(x + h v)> - <d, f(x - h v)> over 2 h.
static void check_features(void)
{
    PF_CASE("gradients of features and of a step against differences");
    pf_rng rng;
    pf_rng_init(&rng, 3);
    for (int trial = 0; trial < 50; trial++) {
        double x[CHAN], v[CHAN], change[CHAN], along[CHAN], d[CHAN + 1], both[2][CHAN + 1];
        double dx[CHAN] = {0}, dchange[CHAN], next[2][CHAN];
        for (int i = 0; i < CHAN; i++) {
            x[i] = 2 * pf_rng_normal(&rng);
            v[i] = pf_rng_normal(&rng);
            change[i] = .3 * pf_rng_normal(&rng);
            along[i] = pf_rng_normal(&rng);
            d[i] = pf_rng_normal(&rng);
        }
        d[CHAN] = pf_rng_normal(&rng);
        const double h = 1e-5;
        for (int side = 0; side < 2; side++) {
            double moved[CHAN], step[CHAN];
            for (int i = 0; i < CHAN; i++) {
                moved[i] = x[i] + (side ? h : -h) * v[i];
                step[i] = change[i] + (side ? h : -h) * along[i];
            }
            pf__features_of(CHAN, kinds, moved, both[side]);
            memcpy(next[side], moved, sizeof moved);
            pf__features_apply(CHAN, kinds, step, next[side]);
        }
        pf__features_of_back(CHAN, kinds, x, d, dx);
        double is = (dot(CHAN + 1, d, both[1]) - dot(CHAN + 1, d, both[0])) / (2 * h);
        CHECK_NEAR(dot(CHAN, dx, v), is, 1e-6 * (1 + fabs(is)));
        pf__features_apply_back(CHAN, kinds, change, x, d, dx, dchange);
        is = (dot(CHAN, d, next[1]) - dot(CHAN, d, next[0])) / (2 * h);
        CHECK_NEAR(dot(CHAN, dx, v) + dot(CHAN, dchange, along), is, 1e-6 * (1 + fabs(is)));
    }
}

typedef struct bench {
    pf_transitions *data;
    pf_model *model;
    pf_dataset set;
    pf_windows windows;
    double *work;
    float *gradient;
    size_t n;
} bench;

static bool open_bench(bench *b)
{
    char path[256];
    pf_plant_class c = transitions_class();
    pf_train_settings s = transitions_settings(2400, 8);
    pf_error error = {PF_OK, ""};
    *b = (bench){0};
    train_path(path, "rollouts.data");
    if (!CHECK(transitions_make(&c, &s, path, 1, &error) == PF_OK)) {
        printf("%s\n", error.text);
        return false;
    }
    b->data = transitions_open(path);
    const pf_transitions_info *i = pf_transitions_get_info(b->data);
    pf_model_info about = {.plant = i->plant,
                           .source = i->source,
                           .n_chan = i->n_chan,
                           .n_mech = i->n_mech,
                           .channels = i->channels,
                           .kinds = i->kinds,
                           .mechanisms = i->mechanisms,
                           .window = 1,
                           .history = 1,
                           .n_members = 1,
                           .n_layers = 2,
                           .width = 9,
                           .data = i->sha256,
                           .processor = "",
                           .valid_error = NAN,
                           .window_error = NAN};
    if (!CHECK(pf__model_create(&b->model, &about, &error) == PF_OK) ||
        !CHECK(pf__dataset_make(&b->set, b->data, .1, b->model, &error) == PF_OK) ||
        !CHECK(pf__windows_open(&b->windows, b->data, .1, STEPS, &error) == PF_OK)) {
        printf("%s\n", error.text);
        return false;
    }
    pf_rng rng;
    pf_rng_init(&rng, 5);
    b->n = pf__net_parameters(&b->model->net);
    pf__net_init(&b->model->net, &rng, b->model->theta);
    b->work = malloc(sizeof(double) * pf__rollouts_work(&b->model->net, CHAN, STEPS, ROWS));
    b->gradient = malloc(sizeof(float) * b->n);
    return true;
}

static void close_bench(bench *b)
{
    free(b->work);
    free(b->gradient);
    pf__windows_close(&b->windows);
    pf__dataset_free(&b->set);
    pf_model_destroy(b->model);
    pf_transitions_close(b->data);
}

// The same from pf__model_roll, window by window.
static double by_rolls(const bench *b, const int *which)
{
    int mech = b->model->info.n_mech;
    double sum = 0, gains[16], command[STEPS * 16], response[STEPS * CHAN];
    double *scratch = malloc(sizeof(double) * pf__model_scratch(b->model, 1));
    for (int row = 0; row < ROWS; row++) {
        const double *x;
        const float *u;
        pf__transitions_episode(b->data, b->windows.episode[which[row]], &x, &u);
        for (int k = 0; k < STEPS * mech; k++) {
            command[k] = (double)u[k];
            gains[k % mech] = 1;
        }
        pf_model_request q = {x, command, STEPS, 1, gains, NULL};
        CHECK(pf__model_roll(b->model, 0, &q, scratch, response, NULL) == PF_OK);
        for (int k = 0; k < STEPS * CHAN; k++) {
            double missed = response[k] - x[CHAN + k];
            missed = k % CHAN == 0 ? remainder(missed, 2 * 3.14159265358979323846) : missed;
            double weight = b->windows.weight[k % CHAN] * b->windows.alike[which[row]];
            sum += weight * missed * missed / ROWS;
        }
    }
    free(scratch);
    return sum;
}

static void check_loss(bench *b)
{
    static const int which[ROWS] = {0, 7, 7, 100, 260};
    PF_CASE("the loss is what the model's own rolls miss");
    CHECK(b->windows.n_train == 270 && b->windows.n_held == 30);
    double loss = pf__rollouts_loss(&b->windows, b->model, b->model->theta, STEPS, ROWS, which,
                                    b->work, b->gradient);
    CHECK_NEAR(loss, by_rolls(b, which), 1e-5 * loss);
    CHECK_NEAR(pf__rollouts_loss(&b->windows, b->model, b->model->theta, STEPS, ROWS, which,
                                 b->work, NULL),
               loss, 1e-12 * loss);
    PF_CASE("its gradient along random directions is that of differences");
    pf_rng rng;
    pf_rng_init(&rng, 8);
    for (int trial = 0; trial < 20; trial++) {
        const double h = 2e-3;
        double along = 0, value[2];
        float *moved = malloc(sizeof *moved * b->n), *v = malloc(sizeof *v * b->n);
        for (size_t i = 0; i < b->n; i++) {
            v[i] = (float)pf_rng_normal(&rng);
            along += (double)v[i] * (double)b->gradient[i];
        }
        for (int side = 0; side < 2; side++) {
            for (size_t i = 0; i < b->n; i++) {
                moved[i] = b->model->theta[i] + (float)(side ? h : -h) * v[i];
            }
            value[side] =
                pf__rollouts_loss(&b->windows, b->model, moved, STEPS, ROWS, which, b->work, NULL);
        }
        double is = (value[1] - value[0]) / (2 * h);
        CHECK_NEAR(along, is, 5e-3 * (fabs(is) + loss));
        free(moved);
        free(v);
    }
}

// --- what it is for

// A pendulum that is pushed: the error of a step grows on the way down.
static const double amplitude[2] = {.5, .5};
static const pf_pulse pulse = {.steps = 12, .rows = 12, .amplitude = amplitude};

static void reset(double *x, pf_rng *rng)
{
    x[0] = rng ? .5 * pf_rng_normal(rng) : 0;
    x[1] = rng ? .5 * pf_rng_normal(rng) : 0;
}

static void advance(const double *knob, double *x, const double *v, const double *w)
{
    (void)knob, (void)w;
    for (int i = 0; i < 4; i++) {
        x[1] += .05 * (4 * sin(x[0]) + v[0] + v[1] - .1 * x[1]);
        x[0] += .05 * x[1];
    }
}

static void output(const double *knob, const double *x, const double *v, const double *w, double *y)
{
    (void)knob, (void)v, (void)w;
    memcpy(y, x, 2 * sizeof *y);
}

static double window_error(pf_plant *plant, bool rollouts)
{
    char path[256], data_path[300];
    pf_train_settings s = train_settings(40);
    pf_transitions *data = NULL;
    pf_model *model = NULL;
    s.commands = PF_TRAIN_COMMANDS_USE;
    s.rollouts = true;
    s.transitions = 6000;
    pf_train_complete(&s, pf_plant_get_info(plant)); // windows of 12 steps either way
    s.rollouts = rollouts;
    train_path(path, rollouts ? "rolled.model" : "stepped.model");
    snprintf(data_path, sizeof data_path, "%s.data", path);
    double left = NAN;
    if (CHECK(pf_transitions_make(&s, plant, data_path, NULL, NULL) == PF_OK) &&
        CHECK(pf_transitions_open(&data, data_path, NULL) == PF_OK) &&
        CHECK(pf_train(&s, data, path, 100, NULL, NULL, NULL) == PF_OK) &&
        CHECK(pf_model_load(&model, path, NULL) == PF_OK)) {
        left = pf_model_get_info(model)->window_error;
    }
    pf_model_destroy(model);
    pf_transitions_close(data);
    return left;
}

static void check_better(void)
{
    static const pf_mechanism mechanisms[2] = {{"rest", -2, 2}, {"push", -2, 2}};
    static const pf_channel channels[2] = {{.name = "angle", .scale = .1},
                                           {.name = "speed", .scale = .1}};
    PF_CASE("it leaves less of held-out windows where errors grow from step to step");
    pf_plant_class c = {.info = {.name = "pole",
                                 .source = "tests 1",
                                 .n_mech = 2,
                                 .n_chan = 2,
                                 .n_state = 2,
                                 .dt_s = .2,
                                 .mechanisms = mechanisms,
                                 .channels = channels,
                                 .probe = &pulse,
                                 .task = &pulse,
                                 .deterministic = true},
                        .reset = reset,
                        .advance = advance,
                        .output = output};
    pf_plant *plant = NULL;
    CHECK(pf_plant_from_class(&plant, &c, NULL) == PF_OK);
    double stepped = window_error(plant, false), rolled = window_error(plant, true);
    if (!CHECK(rolled < .7 * stepped)) {
        printf("    %.5f with rollouts, %.5f without\n", rolled, stepped);
    }
    pf_plant_destroy(plant);
}

void test_rollouts(void)
{
    bench b;
    check_features();
    if (open_bench(&b)) {
        check_loss(&b);
    }
    close_bench(&b);
    check_better();
}
